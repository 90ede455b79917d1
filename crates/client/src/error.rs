//! What can go wrong, with labels that say what to do about it.

use wire::resp::{ClientReply, ReplyError};

/// Result of everything a client does.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The URL is none that this client understands.
    #[error("{0}")]
    Url(String),
    /// No connection came about: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke while a reply was awaited.
    #[error("the connection broke before the reply came: {0}")]
    Disconnected(String),
    /// The server sent bytes that are no reply.
    #[error("{0}")]
    Protocol(#[from] ReplyError),
    /// The transaction was aborted and had no effect; running it again may succeed.
    #[error("{0}")]
    Aborted(String),
    /// The server has too much to do, or a shard has no leader just now; nothing happened.
    #[error("{0}")]
    Busy(String),
    /// The server refused a command; the text begins with the error's code.
    #[error("{0}")]
    Refused(String),
    /// The transaction committed, but these of its deferred writes were refused.
    #[error("the transaction committed, but a write in it was refused: {0}")]
    WriteRefused(String),
    /// The request took effect on an earlier try, and its reply is not kept.
    #[error("the request took effect, but its reply is lost")]
    ReplyLost,
    /// The request was sent, and its outcome was lost and could not be learnt in time.
    #[error("it is unknown whether it took effect: {0}")]
    CommitUnknown(String),
    /// The deadline passed; holds what happened on the last attempt.
    #[error("gave up after {attempts} attempts: {last}")]
    Deadline {
        /// How many attempts there were.
        attempts: u32,
        /// The error of the last one.
        last: Box<Error>,
    },
    /// The reply is of another kind than asked for.
    #[error("expected {expected}, the server answered {got}")]
    Type {
        /// What was asked for.
        expected: &'static str,
        /// What came.
        got: String,
    },
    /// The value of a write was asked for in a transaction that promised not to.
    #[error("the transaction must be run with TxOptions::returning to see replies of writes")]
    NeedsValues,
    /// A transaction was used after it had ended, or outlived the function it was given to.
    #[error("the transaction has ended")]
    Ended,
    /// The lock was not free in time.
    #[error("the lock was not free in time")]
    NotAcquired,
    /// To wait for the lock would have closed a circle of those who wait for each other; nothing happened.
    /// Give back what you hold, and begin anew.
    #[error("{0}")]
    Deadlock(String),
    /// The lock is not held any more, and somebody else may hold it; a fenced command had no effect.
    #[error("{0}")]
    LockLost(String),
    /// Ends a transaction function without effect, on the program's own wish.
    #[error("cancelled: {0}")]
    Cancelled(String),
}

impl Error {
    /// Whether nothing happened and running the same again may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Aborted(_) | Self::Busy(_) | Self::Connect(_) | Self::NeedsValues => true,
            Self::Deadline { last, .. } => last.is_retryable(),
            _ => false,
        }
    }

    /// Whether what has failed so may be sent again as it is; `harmless` is what changes nothing.
    pub(crate) fn may_be_sent_again(&self, harmless: bool) -> bool {
        self.is_retryable() || (harmless && self.maybe_committed())
    }

    /// Whether something may have taken effect, wholly or in part.
    pub fn maybe_committed(&self) -> bool {
        match self {
            Self::Disconnected(_)
            | Self::Protocol(_)
            | Self::WriteRefused(_)
            | Self::ReplyLost
            | Self::Type { .. }
            | Self::CommitUnknown(_) => true,
            Self::Deadline { last, .. } => last.maybe_committed(),
            _ => false,
        }
    }

    /// Whether the server asked to be left alone for a while.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            Self::Deadline { last, .. } => last.is_busy(),
            _ => false,
        }
    }

    /// An error of this client from an error reply.
    pub(crate) fn from_line(line: &str) -> Self {
        match line.split(' ').next().unwrap_or_default() {
            "TXNABORT" => Self::Aborted(line.to_owned()),
            "BUSY" | "CLUSTERDOWN" => Self::Busy(line.to_owned()),
            "REPEATED" => Self::ReplyLost,
            "DEADLOCK" => Self::Deadlock(line.to_owned()),
            "FENCED" => Self::LockLost(line.to_owned()),
            "INDEFINITE" => Self::CommitUnknown(line.to_owned()),
            _ => Self::Refused(line.to_owned()),
        }
    }

    pub(crate) fn unexpected(expected: &'static str, reply: &ClientReply) -> Self {
        let mut got = format!("{reply:?}");
        if let Some((end, _)) = got.char_indices().nth(80) {
            got.truncate(end);
            got.push_str("...");
        }
        Self::Type { expected, got }
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Disconnected(error.to_string())
    }
}

/// The reply itself, or the error that it is.
pub(crate) fn checked(reply: ClientReply) -> Result<ClientReply> {
    match reply {
        ClientReply::Error(line) => Err(Error::from_line(&line)),
        reply => Ok(reply),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_say_what_to_do() {
        let aborted = Error::from_line("TXNABORT the transaction was aborted");
        let busy = Error::from_line("BUSY too many requests");
        let down = Error::from_line("CLUSTERDOWN shard 1 has no leader");
        assert!(down.is_retryable() && down.is_busy() && !down.maybe_committed());
        let wrong = Error::from_line("WRONGTYPE Operation against a key");
        assert!(aborted.is_retryable() && !aborted.maybe_committed() && !aborted.is_busy());
        assert!(busy.is_retryable() && busy.is_busy());
        assert!(!wrong.is_retryable() && !wrong.maybe_committed());
        let lost = Error::from_line("INDEFINITE the leader was lost");
        assert!(!lost.is_retryable() && lost.maybe_committed());
        assert!(Error::Disconnected(String::new()).maybe_committed());
        let deadline = Error::Deadline { attempts: 3, last: Box::new(busy) };
        assert!(deadline.is_retryable() && deadline.is_busy());
    }

    #[test]
    fn long_replies_are_not_told_in_full() {
        let reply = ClientReply::Bulk("é".repeat(100).as_str().into());
        let text = Error::unexpected("an integer", &reply).to_string();
        assert!(text.len() < 300 && text.ends_with("..."), "{text}");
    }
}
