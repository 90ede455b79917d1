//! The protocol of ZooKeeper's clients, whose records are called jute: both sides of it.
//!
//! - [`next_frame`] finds the frames in the bytes that a connection received, without copying
//!   them; before the first one, [`FourLetterWord::of`] tells whether a person or a monitor asks.
//! - The first frames are [`ConnectRequest`] and [`ConnectResponse`].
//! - All further ones of a client are [`Request`]s, with what is asked as an [`Ask`].
//! - A server answers with [`reply`], [`refusal`] or [`who_am_i`], and tells what has happened with
//!   [`notification`]; a client reads a [`ReplyHeader`] and then, knowing what it has asked,
//!   [`read_reply`], [`read_identities`] or [`read_event`].
//!
//! Whatever is written appends a whole frame, length included. No length or count that was only
//! announced allocates anything; a value takes at most some thirty times as much memory as its
//! frame has bytes.
//!
//! Where the protocol leaves something open, ZooKeeper's server is followed: bytes that come after
//! a record are passed over; every byte but 0 is true; a list that is null is an empty one. A
//! string that is null is an empty one as well, which is no path (kazoo writes empty strings so).
//! Data that are null are kept apart from empty ones. What is stricter here: a count below -1 is
//! malformed, where ZooKeeper reads an empty list. Strings are bytes: whether they are text, and
//! which text is a path, is for those to say who use them.
//!
//! Source: `zookeeper.jute`, `ZooDefs.OpCode` and the behaviour of ZooKeeper 3.8 and 3.9.

mod connect;
mod frame;
mod multi;
mod op;
mod record;
mod reply;
mod request;

/// The words that requests and answers are made of, for clients that know nothing else of the
/// service.
pub use engine::coordination::{
    Acl, Change, Code, Create, Event, Happened, Identity, Lasts, Mode, Read, Reply, SessionId,
    Stat, WatcherType, Write, Zxid,
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

/// Bytes that are not what was to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed bytes in ZooKeeper's protocol")
    }
}

impl std::error::Error for Malformed {}
