//! Conditions of a transaction: arguments of `EXEC`, in the syntax of Valkey 9.2.

use crate::key::KeyOp;
use crate::kinds::string;
use crate::{Args, Blob, ErrorReply, Op, Reply};

/// Reply that a read of a record must have, or must not have.
#[derive(Clone, Debug, PartialEq)]
pub struct Expected {
    /// The read.
    pub read: Op,
    /// The string, or the digits of the number.
    pub reply: Blob,
    /// Whether the read must reply that, or must not.
    pub equal: bool,
}

impl Expected {
    /// Whether this reply of the read is as expected. Nil is unequal to everything; an error is the result.
    pub fn is_met(&self, reply: Reply) -> Result<bool, ErrorReply> {
        let number = || std::str::from_utf8(&self.reply).ok()?.parse::<i64>().ok();
        let equal = match reply {
            Reply::Error(error) => return Err(error),
            Reply::Bulk(text) => text == self.reply,
            Reply::Int(is) => number() == Some(is),
            _ => false,
        };
        Ok(equal == self.equal)
    }
}

/// Conditions in the words of a command that has no others: `IFEQ key value`, `IFNE key value`, `XX key`,
/// `NX key`. Each with the position of its key.
pub fn conditions(args: &Args<'_>) -> Result<Vec<(usize, Expected)>, ErrorReply> {
    let mut conditions = Vec::new();
    let mut at = 1;
    while at < args.len() {
        let (compares, equal) = match () {
            () if args.is(at, "IFEQ") => (true, true),
            () if args.is(at, "IFNE") => (true, false),
            () if args.is(at, "XX") => (false, true),
            () if args.is(at, "NX") => (false, false),
            () => return Err(unknown()),
        };
        let next = at + if compares { 3 } else { 2 };
        if next > args.len() {
            return Err(unknown());
        }
        let (read, reply) = if compares {
            (Op::String(string::Op::Get), args.blob(at + 2)?)
        } else {
            (Op::Key(KeyOp::Exists), Blob::from("1"))
        };
        conditions.push((at + 1, Expected { read, reply, equal }));
        at = next;
    }
    Ok(conditions)
}

fn unknown() -> ErrorReply {
    ErrorReply::err(
        "syntax error in a condition: known are IFEQ key value, IFNE key value, XX key and NX key",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgBuf;

    fn read(line: &str) -> Result<Vec<(usize, Expected)>, ErrorReply> {
        conditions(&ArgBuf::of(line.split_whitespace()).args())
    }

    #[test]
    fn each_condition_is_a_read_and_its_reply() {
        assert_eq!(read("exec"), Ok(Vec::new()));
        let found = read("exec ifeq a 1 XX nx IFNE nx 2 nx ifeq").unwrap();
        let keys: Vec<usize> = found.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [2, 5, 7, 10]);
        let equal: Vec<bool> = found.iter().map(|(_, expected)| expected.equal).collect();
        assert_eq!(equal, [true, true, false, false]);
        assert_eq!(found[2].1.reply, Blob::from("2"));
        for wrong in ["exec a", "exec ifeq", "exec ifeq a", "exec xx", "exec ifeq a 1 2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn strings_and_numbers_are_compared_and_nil_is_neither() {
        let is = |reply: &str, equal, seen| {
            let read = Op::Key(KeyOp::Exists);
            Expected { read, reply: Blob::from(reply), equal }.is_met(seen)
        };
        for (seen, equal) in [
            (Reply::bulk("1"), true),
            (Reply::bulk("2"), false),
            (Reply::Int(1), true),
            (Reply::Int(0), false),
            (Reply::Nil, false),
        ] {
            assert_eq!(is("1", true, seen.clone()), Ok(equal), "{seen:?}");
            assert_eq!(is("1", false, seen.clone()), Ok(!equal), "{seen:?}");
        }
        let error = ErrorReply::wrong_type();
        assert_eq!(is("1", false, Reply::Error(error.clone())), Err(error));
    }
}
