//! Protocol of ZooKeeper's clients, whose encoding is called jute: both sides of it.
//!
//! - [`next_frame`] finds the frames in the received bytes of a connection without copying them;
//!   before the first one, [`FourLetterWord::of`] recognizes an operator's or a monitor's command.
//! - The first frames are [`ConnectRequest`] and [`ConnectResponse`].
//! - All further frames of a client are [`Request`]s, each with an [`Ask`].
//! - A server answers with [`reply`], [`refusal`] or [`who_am_i`], and sends events with
//!   [`notification`]; a client decodes a [`ReplyHeader`] and then, depending on its request, calls
//!   [`read_reply`], [`read_identities`] or [`read_event`].
//!
//! Every function that writes appends a whole frame, length included. A declared length or count
//! allocates nothing; a value takes at most some thirty times as much memory as its frame has
//! bytes.
//!
//! Where the protocol leaves a choice, this code follows ZooKeeper's server: bytes after a record
//! are skipped; every byte but 0 is true; a null list is an empty one. A null string is an empty
//! one as well, which is no path (kazoo writes empty strings so). Null data are distinct from empty
//! data. One rule is stricter: a count below -1 is malformed, where ZooKeeper reads an empty list.
//! Strings are bytes: the caller checks whether they are text, and which text is a path.
//!
//! Source: `zookeeper.jute`, `ZooDefs.OpCode` and the behaviour of ZooKeeper 3.8 and 3.9.

mod connect;
mod frame;
mod multi;
mod op;
mod record;
mod reply;
mod request;

/// Types that occur in requests and answers, for clients that use nothing else of the service.
pub use engine::coordination::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, Lasts, Read, Reply, Stat,
    TreeSessionId, WatchedEvent, WatcherType, Write, Zxid,
};

pub use connect::{ConnectRequest, ConnectResponse};
pub use frame::{FRAME_BYTES_MAX, FourLetterWord, FrameError, next_frame};
pub use op::{Kind, Op};
pub use reply::{
    AUTH_XID, NOTIFICATION_XID, PING_XID, ReplyHeader, SET_WATCHES_XID, code, notification,
    read_event, read_identities, read_reply, refusal, reply, who_am_i,
};
pub use request::{Ask, BadRequest, Inexpressible, Request, SetWatches};

use std::fmt;

/// Bytes that do not encode the expected value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed bytes in ZooKeeper's protocol")
    }
}

impl std::error::Error for Malformed {}
