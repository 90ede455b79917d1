//! Errors, with labels that tell the program how to react.

use wire::resp::{ClientReply, ReplyError};

/// Result of every operation of a client.
pub type Result<T> = std::result::Result<T, Error>;

/// Error of an operation.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Error {
    /// The client does not understand the URL.
    #[error("{0}")]
    Url(String),
    /// No connection could be opened: nothing was sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke while a reply was outstanding.
    #[error("the connection broke before the reply came: {0}")]
    Disconnected(String),
    /// The server sent bytes that are not a reply.
    #[error("{0}")]
    Protocol(#[from] ReplyError),
    /// The transaction was aborted and had no effect; running it again may succeed.
    #[error("{0}")]
    Aborted(String),
    /// The server is overloaded, or a shard has no leader at present; nothing happened.
    #[error("{0}")]
    Busy(String),
    /// The server refused a command; the text begins with the error's code.
    #[error("{0}")]
    Refused(String),
    /// A command of a strict transaction or of a batch was refused; nothing took effect.
    #[error("a command was refused, and nothing took effect: {0}")]
    Undone(String),
    /// A guard of a batch did not hold; nothing took effect.
    #[error("a guard did not hold, and nothing took effect")]
    Guard,
    /// The outcome under the request number was asked for before, and the number has no effect any
    /// more. A function under [`TxOptions::once`](crate::TxOptions::once) goes on with the next one.
    #[error("{0}")]
    Voided(String),
    /// The transaction committed, but these of its deferred writes were refused.
    #[error("the transaction committed, but a write in it was refused: {0}")]
    WriteRefused(String),
    /// The request took effect on an earlier attempt, and its reply is not kept.
    #[error("the request took effect, but its reply is lost")]
    ReplyLost,
    /// The request was sent, and its outcome was lost and could not be determined in time.
    #[error("it is unknown whether it took effect: {0}")]
    CommitUnknown(String),
    /// The deadline passed; holds the outcome of the last attempt.
    #[error("gave up after {attempts} attempts: {last}")]
    Deadline {
        /// Number of attempts.
        attempts: u32,
        /// The error of the last one.
        last: Box<Error>,
    },
    /// The reply is of another kind than requested.
    #[error("expected {expected}, the server answered {got}")]
    Type {
        /// Kind that was requested.
        expected: &'static str,
        /// Kind that arrived.
        got: String,
    },
    /// A transaction without [`TxOptions::returning`](crate::TxOptions::returning) requested the
    /// reply of a write.
    #[error("the transaction must be run with TxOptions::returning to see replies of writes")]
    NeedsValues,
    /// The client does not allow this at this point.
    #[error("{0}")]
    Order(String),
    /// A transaction was used after its end, or outlived the function that received it.
    #[error("the transaction has ended")]
    Ended,
    /// The client was closed, or the retained lock was given back; nothing happened.
    #[error("it is closed")]
    Closed,
    /// The lock was not free in time.
    #[error("the lock was not free in time")]
    NotAcquired,
    /// Waiting for the lock would have closed a deadlock cycle; nothing happened. Release the locks
    /// that you hold, and begin anew.
    #[error("{0}")]
    Deadlock(String),
    /// The lock is no longer held, and another client may hold it; a fenced command had no effect.
    #[error("{0}")]
    LockLost(String),
    /// The program has ended the transaction function without effect.
    #[error("cancelled: {0}")]
    Cancelled(String),
}

impl Error {
    /// Whether nothing happened and a repetition may succeed.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Deadlock(_) | Self::NotAcquired => true,
            Self::Deadline { last, .. } => last.is_retryable(),
            other => other.is_transient(),
        }
    }

    /// Whether nothing happened and the client itself repeats the request. It does not release the
    /// program's locks, and does not wait for longer than it was told to.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Aborted(_)
            | Self::Busy(_)
            | Self::Connect(_)
            | Self::NeedsValues
            | Self::Voided(_) => true,
            Self::Deadline { last, .. } => last.is_transient(),
            _ => false,
        }
    }

    /// Whether a request under a request number is sent again under the same number.
    pub(crate) fn is_repeated_under_number(&self) -> bool {
        self.is_transient() || matches!(self, Self::Disconnected(_))
    }

    /// Whether a request that failed with this error may be repeated as it is. `harmless`: it
    /// changes nothing.
    pub(crate) fn may_be_sent_again(&self, harmless: bool) -> bool {
        self.is_transient() || (harmless && self.maybe_committed())
    }

    /// Whether it is unknown if the request took effect.
    pub fn maybe_committed(&self) -> bool {
        match self {
            Self::Disconnected(_)
            | Self::Protocol(_)
            | Self::Type { .. }
            | Self::CommitUnknown(_) => true,
            Self::Deadline { last, .. } => last.maybe_committed(),
            _ => false,
        }
    }

    /// The error of a request that is given up. If the reply of an earlier attempt under the same
    /// request number was `lost`, that attempt may have taken effect.
    pub(crate) fn given_up(self, lost: bool) -> Self {
        if lost && !self.maybe_committed() { Self::CommitUnknown(self.to_string()) } else { self }
    }

    /// The error of commands that had no effect because one of them was refused, whose own error
    /// carries the reason.
    pub(crate) fn undone(line: String, refused: Option<Self>) -> Self {
        match refused {
            Some(Self::Refused(reason)) => Self::Undone(reason),
            Some(other) => other,
            None => Self::Undone(line),
        }
    }

    /// Whether the server is overloaded and asks for a pause.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::Busy(_) => true,
            Self::Deadline { last, .. } => last.is_busy(),
            _ => false,
        }
    }

    /// Parses an error reply.
    pub(crate) fn from_line(line: &str) -> Self {
        match line.split(' ').next().unwrap_or_default() {
            "TXNABORT" => Self::Aborted(line.to_owned()),
            "BUSY" | "CLUSTERDOWN" => Self::Busy(line.to_owned()),
            "REPEATED" => Self::ReplyLost,
            "DEADLOCK" => Self::Deadlock(line.to_owned()),
            "FENCED" => Self::LockLost(line.to_owned()),
            "EXECABORT" => Self::Undone(line.to_owned()),
            "VOIDED" => Self::Voided(line.to_owned()),
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

/// The reply itself, or an error if it is an error reply.
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
        let deadlock = Error::from_line("DEADLOCK waiting would close a cycle");
        assert!(deadlock.is_retryable() && !deadlock.is_transient());
        assert!(Error::NotAcquired.is_retryable() && !Error::NotAcquired.is_transient());
        assert!(!Error::WriteRefused(String::new()).maybe_committed());
        let deadline = Error::Deadline { attempts: 3, last: Box::new(busy) };
        assert!(deadline.is_retryable() && deadline.is_busy());
    }

    #[test]
    fn long_replies_are_shortened() {
        let reply = ClientReply::Bulk("é".repeat(100).as_str().into());
        let text = Error::unexpected("an integer", &reply).to_string();
        assert!(text.len() < 300 && text.ends_with("..."), "{text}");
    }
}
