//! Replies: the answers of operations, independent of their encoding.
//!
//! A reply carries its meaning (a set of members, a map, a score), and `wire` chooses between the
//! RESP2 and the RESP3 form. See the Redis serialization protocol specification.

use crate::{Args, Blob, Record};
use std::borrow::Cow;
use std::fmt;

/// The answer to one operation or command.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    /// `+OK`.
    Ok,
    /// A status such as `PONG` or `QUEUED`. Never contains CR or LF.
    Status(Cow<'static, str>),
    /// No value: `$-1`, or `_` in RESP3.
    Nil,
    /// No array: `*-1`, or `_` in RESP3. A blocking pop that timed out, an `EXEC` that was not run.
    NilArray,
    /// A signed integer.
    Int(i64),
    /// A floating-point number; a bulk string in RESP2.
    Double(f64),
    /// A truth value; 0 or 1 in RESP2.
    Bool(bool),
    /// A byte string.
    Bulk(Blob),
    /// Text for people: verbatim text in RESP3, a bulk string in RESP2.
    Text(String),
    /// A sequence.
    Array(Vec<Reply>),
    /// An unordered collection; an array in RESP2.
    Set(Vec<Reply>),
    /// Pairs; a flat array in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Members with scores: a flat array in RESP2, an array of pairs in RESP3.
    Scored(Vec<(Blob, f64)>),
    /// Fields with values, with possible repetitions: a flat array in RESP2, an array of pairs in
    /// RESP3.
    Pairs(Vec<(Blob, Blob)>),
    /// Answers by name: a map in RESP3, an array of pairs in RESP2.
    Named(Vec<(Blob, Reply)>),
    /// An out-of-band message (pub/sub): a push in RESP3, an array in RESP2.
    Push(Vec<Reply>),
    /// The request was not carried out as asked; says why.
    Error(ErrorReply),
    /// A whole record, moved between keys by `RENAME` and `COPY`. Never leaves the server.
    Record(Box<Record>),
}

impl Reply {
    /// A status.
    pub fn status(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Status(text.into())
    }

    /// A bulk string copied from `bytes`.
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(Blob::new(bytes.as_ref()))
    }

    /// An error with the general code `ERR`.
    pub fn err(text: impl Into<Cow<'static, str>>) -> Self {
        Self::Error(ErrorReply::new("ERR", text))
    }

    /// Number of values in the reply: items, keys and their values, members and their scores.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Self::Array(items) | Self::Set(items) | Self::Push(items) => items.len(),
            Self::Map(pairs) => pairs.len() * 2,
            Self::Scored(members) => members.len() * 2,
            Self::Pairs(pairs) => pairs.len() * 2,
            Self::Named(pairs) => pairs.len() * 2,
            Self::Ok
            | Self::Status(_)
            | Self::Nil
            | Self::NilArray
            | Self::Int(_)
            | Self::Double(_)
            | Self::Bool(_)
            | Self::Bulk(_)
            | Self::Text(_)
            | Self::Error(_)
            | Self::Record(_) => 0,
        }
    }

    /// Whether the reply contains no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether this is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Error(_))
    }

    /// Whether this is an error that [asks for another call](ErrorReply::asks_again).
    pub fn asks_again(&self) -> bool {
        matches!(self, Self::Error(error) if error.asks_again())
    }
}

impl From<ErrorReply> for Reply {
    fn from(error: ErrorReply) -> Self {
        Self::Error(error)
    }
}

/// The text with spaces in the place of CR and LF.
fn on_one_line(text: Cow<'static, str>) -> Cow<'static, str> {
    if text.bytes().any(|b| b == b'\r' || b == b'\n') {
        Cow::Owned(text.replace(['\r', '\n'], " "))
    } else {
        text
    }
}

/// An error as a client sees it: a code in capitals, then the cause and the remedy.
///
/// The text cannot contain CR or LF, so an error can never forge protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorReply {
    code: Cow<'static, str>,
    text: Cow<'static, str>,
}

impl ErrorReply {
    /// An error with `code` (one word in capitals, which clients switch on) and a text for people.
    pub fn new(code: impl Into<Cow<'static, str>>, text: impl Into<Cow<'static, str>>) -> Self {
        Self { code: on_one_line(code.into()), text: on_one_line(text.into()) }
    }

    /// An error with the general code `ERR`.
    pub fn err(text: impl Into<Cow<'static, str>>) -> Self {
        Self::new("ERR", text)
    }

    /// Whether the command has had no effect and is to be called again, under its request number if it had
    /// one.
    pub fn asks_again(&self) -> bool {
        self.code == "TRYAGAIN"
    }

    /// The value under the key is of another data type than the operation.
    pub fn wrong_type() -> Self {
        Self::new("WRONGTYPE", "Operation against a key holding the wrong kind of value")
    }

    /// The argument is not an integer in the range of 64 bits.
    pub fn not_integer() -> Self {
        Self::err("value is not an integer or out of range")
    }

    /// The argument is not a finite number.
    pub fn not_float() -> Self {
        Self::err("value is not a valid float")
    }

    /// The options contradict each other or are unknown.
    pub fn syntax() -> Self {
        Self::err("syntax error")
    }

    /// The number of words does not fit the command, or `command|subcommand`.
    pub fn arity(name: &str) -> Self {
        Self::err(format!("wrong number of arguments for '{name}' command"))
    }

    /// The second word of a command is not one of its subcommands, or one that is not built.
    pub fn unknown_subcommand(name: &str, args: &Args<'_>) -> Self {
        if let Some(error) = crate::known::not_built(args) {
            return error;
        }
        let word = args.get(1).unwrap_or_default();
        let shown = String::from_utf8_lossy(&word[..word.len().min(128)]);
        Self::err(format!("unknown subcommand '{shown}'. Try {name} HELP."))
    }

    /// The code, without a space.
    pub fn code(&self) -> &str {
        &self.code
    }

    /// The text after the code.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for ErrorReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.text {
            "" => f.write_str(&self.code),
            text => write!(f, "{} {text}", self.code),
        }
    }
}

impl std::error::Error for ErrorReply {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_text_cannot_forge_protocol() {
        let error = ErrorReply::err("bad name 'x\r\n+OK\r\n'".to_owned());
        assert!(!error.to_string().contains(['\r', '\n']));
    }
}
