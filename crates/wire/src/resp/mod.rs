//! RESP, the Redis serialization protocol, versions 2 and 3: the protocol of Claret's clients.
//!
//! - [`RequestDecoder`] finds the words of a command in the bytes that a connection received,
//!   without copying them.
//! - [`encode`] writes a reply, [`encode_command`] a command, [`Pieces`] a reply piece by piece.
//! - [`ReplyDecoder`] reads replies on the client's side.
//!
//! All decoders are incremental and keep their position, so that a frame that arrives one byte at a
//! time costs time linear in its length. No declared length allocates anything.
//!
//! Source: the Redis serialization protocol specification (RESP2 and RESP3), and for inline
//! commands and error texts the behaviour of Redis 7.

mod client;
mod encode;
mod inline;
mod number;
mod pieces;
mod request;

pub use client::{ClientReply, ReplyDecoder, ReplyError, ReplyLimits};
pub use encode::{Protocol, encode, encode_command};
pub use number::push_double;
pub use pieces::{Pieces, Size, size};
pub use request::{Limits, Parsed, ProtocolError, RequestDecoder};
