//! Errors for clients: why a request was refused, why a transaction was aborted, and what is not known of
//! one.

use crate::ids::{MachineId, ShardId};
use crate::limits::{REPLICAS_MAX, REQUESTS_PER_CLIENT_MAX};
use crate::message::{Answer, Refusal};
use crate::repeats::{dropped_error, repeated};
use adt::{ErrorReply, Reply, Timestamp};

/// Reason why an attempt at a transaction cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Cause {
    /// An older transaction waits for this one while it waits itself.
    Wounded,
    /// The client sent nothing for longer than this, in milliseconds, while others waited for it.
    Idle(u64),
    /// The transaction has lasted for longer than this, in milliseconds, and others waited for it.
    Lasted(u64),
    /// A shard refused.
    Refused(Refusal),
    /// A value that the transaction had read has changed.
    Changed,
    /// A command of the transaction was refused, and it was blind.
    Discarded,
    /// A shard that the transaction needs has no leader.
    Unled(Unled),
}

impl Cause {
    /// Whether the cause passes by itself: a shard stands still or gives slots away for a moment only, and
    /// the oldest is not wounded for ever.
    pub fn passes(self) -> bool {
        matches!(self, Self::Wounded | Self::Refused(Refusal::Frozen | Refusal::Moved))
    }

    /// Whether the transaction was in the way of another one, or that of it.
    pub fn is_conflict(self) -> bool {
        let refused = matches!(self, Self::Refused(Refusal::Conflict | Refusal::LocksLost));
        refused || matches!(self, Self::Wounded | Self::Changed)
    }

    /// Whether another attempt would only make it worse, or end like this one.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Refused(Refusal::Busy | Refusal::Unread) | Self::Unled(_))
    }

    /// The error for the client.
    pub fn error(self) -> ErrorReply {
        let overdue = |what: &str, ms: u64, setting: &str| {
            let s = ms as f64 / 1000.0;
            format!("{what} for more than {s} s ({setting}) while others waited for what it holds")
        };
        let why = match self {
            Self::Wounded => "an older transaction needs what it holds".to_owned(),
            Self::Idle(ms) => {
                overdue("its client had sent nothing", ms, "transaction_idle_timeout")
            }
            Self::Lasted(ms) => overdue("it had lasted", ms, "transaction_timeout"),
            // Only runs of scripts are refused so, and no transaction is one.
            Self::Refused(Refusal::Conflict | Refusal::NotHere) => {
                "another transaction holds what it needs".into()
            }
            Self::Refused(Refusal::UnderWay) => return under_way(),
            Self::Refused(Refusal::LocksLost) => "its locks were lost".into(),
            Self::Refused(Refusal::Frozen) => "a backup begins just now".into(),
            Self::Refused(Refusal::Moved) => "what it needs goes to a new shard just now".into(),
            Self::Changed => "what it had read was changed".into(),
            Self::Discarded => return discarded(),
            Self::Unled(unled) => return unled.error(),
            Self::Refused(Refusal::Busy) => {
                let text = "too many requests wait already; wait a little and try again";
                return ErrorReply::new("BUSY", text);
            }
            Self::Refused(Refusal::Unread) => {
                return request_unread();
            }
        };
        let text =
            format!("the transaction was aborted because {why}; it had no effect, try it again");
        ErrorReply::new("TXNABORT", text)
    }
}

/// A shard without a leader, and the machines that are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) struct Unled {
    pub shard: ShardId,
    /// The machine that says so.
    pub own: MachineId,
    /// How many machines hold the shard.
    pub holders: u16,
    /// Holders that are not connected; the rest is 0.
    pub missing: [u16; REPLICAS_MAX],
}

impl Unled {
    /// The error for a request that had no effect.
    pub fn error(self) -> ErrorReply {
        let (shard, why) = (self.shard.0, self.why());
        let text = format!("shard {shard} has no leader: {why}; this had no effect");
        ErrorReply::new("CLUSTERDOWN", text)
    }

    /// The reason why there is no leader.
    pub fn why(self) -> String {
        let Self { own, holders, missing, .. } = self;
        let missing: Vec<String> =
            missing.iter().filter(|number| **number > 0).map(u16::to_string).collect();
        if missing.is_empty() {
            return format!(
                "all {holders} machines that hold it are connected, and none is elected"
            );
        }
        let (own, list) = (own.0, missing.join(", "));
        let are = if missing.len() == 1 { "is" } else { "are" };
        format!(
            "of the {holders} machines that hold it, {list} {are} not connected with machine {own}"
        )
    }
}

/// The reply for an answer that does not belong to its request, or a refusal.
pub(in crate::gateway) fn unexpected(answer: &Answer) -> Reply {
    match answer {
        Answer::Refused(Refusal::Busy) => {
            let text = "too many requests wait already; wait a little and try again";
            ErrorReply::new("BUSY", text).into()
        }
        Answer::Refused(Refusal::Moved) => moved().into(),
        Answer::Refused(Refusal::Unread) => request_unread().into(),
        Answer::Refused(Refusal::UnderWay) => under_way().into(),
        Answer::Unread => answer_unread().into(),
        Answer::Unknown => indefinite().into(),
        Answer::TookEffect { ts, replies, .. } => without_replies(*ts, replies).into(),
        Answer::Fenced => fenced().into(),
        Answer::Voided => voided().into(),
        Answer::Forgotten => forgotten().into(),
        Answer::Refused(_) => Cause::Refused(Refusal::Conflict).error().into(),
        _ => Reply::err("a shard gave an answer that does not belong to the request"),
    }
}

/// Reply of a single operation, or the error for an answer without one.
pub(in crate::gateway) fn single_reply(answer: Answer) -> Reply {
    match answer {
        Answer::Reply(reply) => reply,
        Answer::Replies(mut replies) if replies.len() == 1 => replies.remove(0),
        other => unexpected(&other),
    }
}

/// The error for a request that may have taken effect or not.
pub(in crate::gateway) fn indefinite() -> ErrorReply {
    let text = "the machine that led this shard was lost before it answered: the request may have \
                taken effect or not; look, or send it under a request number to be able to repeat it";
    ErrorReply::new("INDEFINITE", text)
}

/// Whether an error says that the request met the loss of a leader: it had no effect, or that is unknown.
pub(in crate::gateway) fn says_lost_leader(error: &ErrorReply) -> bool {
    match error.code() {
        "CLUSTERDOWN" => true,
        // Not those that are about the number of a request.
        "INDEFINITE" => *error == indefinite() || *error == answer_unread(),
        _ => false,
    }
}

/// Reply of a transaction whose guard did not hold, with the error where its read is impossible.
pub(in crate::gateway) fn guard_failed(failure: Option<ErrorReply>) -> Reply {
    failure.map_or(Reply::NilArray, Reply::from)
}

/// The error for a request that did not get through.
pub(in crate::gateway) fn request_unread() -> ErrorReply {
    ErrorReply::err(
        "the request cannot be told to the machine that leads the shard: it is too long for one \
         message, or of a form that is not understood there; it had no effect",
    )
}

/// The error for an answer that did not get through.
pub(in crate::gateway) fn answer_unread() -> ErrorReply {
    let text = "the answer of the machine that leads the shard cannot be read here: the request may \
                have taken effect or not; look";
    ErrorReply::new("INDEFINITE", text)
}

/// The error for a request that a split has come between.
pub(in crate::gateway) fn moved() -> ErrorReply {
    let text = "what this needs goes to a new shard just now; it had no effect, try it again";
    ErrorReply::new("TRYAGAIN", text)
}

/// The error for commands with keys on a machine that has joined and has not received the shard map yet: it
/// names the placement rules.
pub(in crate::gateway) fn without_map() -> ErrorReply {
    let text =
        "this machine has not received the shard map of its cluster yet; try again in a moment";
    ErrorReply::new("CLUSTERDOWN", text)
}

/// The error for a request whose replies were lost.
pub(in crate::gateway) fn replies_lost(ts: Timestamp) -> ErrorReply {
    repeated(ts, "its replies were lost with the machine that had put them together")
}

/// The error for a request whose replies a shard does not have.
fn without_replies(ts: Timestamp, replies: &[Reply]) -> ErrorReply {
    dropped_error(replies).cloned().unwrap_or_else(|| replies_lost(ts))
}

/// The error for a request that is under way.
pub(in crate::gateway) fn under_way() -> ErrorReply {
    let text = "a request with this number is under way, over another connection or because a machine was \
                lost: whether it takes effect is not known yet; ask again under the same number";
    ErrorReply::new("INDEFINITE", text)
}

/// The error for a request whose number was given up.
pub(in crate::gateway) fn voided() -> ErrorReply {
    let text = "TXN RESOLVE has settled that this request number takes no effect; use another one";
    ErrorReply::new("VOIDED", text)
}

/// The error for a request whose number is too old.
pub(in crate::gateway) fn forgotten() -> ErrorReply {
    let text = format!(
        "whether a request with this number took effect is not remembered any more, and it did not \
         now: count up, and have at most {REQUESTS_PER_CLIENT_MAX} requests of one name open at once"
    );
    ErrorReply::new("INDEFINITE", text)
}

/// The error for a request with a token that is too small.
pub(in crate::gateway) fn fenced() -> ErrorReply {
    let text = "a larger token of this lock was seen: another client has acquired it since; nothing was done";
    ErrorReply::new("FENCED", text)
}

/// The error for a transaction that lacks a command, in Redis' words.
pub(in crate::gateway) fn discarded() -> ErrorReply {
    ErrorReply::new("EXECABORT", "Transaction discarded because of previous errors.")
}
