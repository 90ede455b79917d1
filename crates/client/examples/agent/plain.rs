//! Replies, errors and times, as the runner has them.

use client::{ClientReply, Error};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// Reason why a request has no value.
pub enum Fault {
    /// An error of the client.
    Client(Error),
    /// The caller gave up.
    Cancelled,
    /// The caller gave up while the request may have taken effect.
    Unknown,
    /// A fault of the agent or of the request.
    Agent(String),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Client(error)
    }
}

impl Fault {
    /// The error of an answer.
    pub fn described(&self) -> Value {
        match self {
            Self::Client(error) => described(error),
            Self::Cancelled => object("cancelled", false, false, "the caller gave up"),
            Self::Unknown => object("unknown", false, true, "the caller gave up"),
            Self::Agent(text) => object("agent", false, false, text),
        }
    }
}

fn object(kind: &str, retryable: bool, may_have_happened: bool, message: &str) -> Value {
    json!({
        "kind": kind,
        "retryable": retryable,
        "may_have_happened": may_have_happened,
        "message": message,
    })
}

/// An error of the client.
pub fn described(error: &Error) -> Value {
    object(kind(error), error.is_retryable(), error.maybe_committed(), &error.to_string())
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::Aborted(_) | Error::NeedsValues | Error::Voided(_) => "conflict",
        Error::Busy(_) => "busy",
        Error::Undone(_) => "undone",
        Error::WriteRefused(_) => "write_refused",
        Error::CommitUnknown(_) | Error::Disconnected(_) | Error::Protocol(_) => "unknown",
        Error::ReplyLost => "repeated",
        Error::Deadlock(_) => "deadlock",
        Error::LockLost(_) => "lock_lost",
        Error::NotAcquired => "not_acquired",
        Error::Order(_) => "order",
        Error::Ended | Error::Closed => "closed",
        // The transaction's own function says so.
        Error::Cancelled(_) => "body",
        Error::Refused(_) => "rejected",
        Error::Connect(_) => "connection",
        Error::Deadline { last, .. } => kind(last),
        Error::Url(_) | Error::Type { .. } | Error::Guard => "agent",
    }
}

/// A reply.
pub fn plain(reply: ClientReply) -> Value {
    let text = |bytes: &[u8]| Value::from(String::from_utf8_lossy(bytes));
    match reply {
        ClientReply::Ok => json!("OK"),
        ClientReply::Status(bytes) | ClientReply::Bulk(bytes) => text(&bytes),
        ClientReply::Error(line) => json!(line),
        ClientReply::Nil => Value::Null,
        ClientReply::Int(number) => json!(number),
        ClientReply::Double(number) => json!(number),
        ClientReply::Bool(value) => json!(value),
        ClientReply::Array(items) | ClientReply::Set(items) | ClientReply::Push(items) => {
            items.into_iter().map(plain).collect()
        }
        ClientReply::Map(pairs) => {
            let pairs = pairs.into_iter().map(|(key, value)| (word(&plain(key)), plain(value)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
    }
}

/// A value as a word of a command.
pub fn word(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// A field of a request that is a text.
pub fn text<'a>(request: &'a Value, name: &str) -> Result<&'a str, Fault> {
    let missing = || Fault::Agent(format!("the request has no text {name}"));
    request[name].as_str().ok_or_else(missing)
}

/// A field of a request that is a list.
pub fn list<'a>(request: &'a Value, name: &str) -> Result<&'a [Value], Fault> {
    let missing = || Fault::Agent(format!("the request has no list {name}"));
    request[name].as_array().map(Vec::as_slice).ok_or_else(missing)
}

/// A time in milliseconds, if the request has it.
pub fn time(request: &Value, name: &str) -> Option<Duration> {
    request[name].as_u64().map(Duration::from_millis)
}

/// A number of 32 bits, if the request has it.
pub fn count(request: &Value, name: &str) -> Option<u32> {
    request[name].as_u64().and_then(|number| u32::try_from(number).ok())
}
