//! Conditions of a transaction: arguments of `EXEC`, as in Valkey 9.2.

use crate::key::KeyOp;
use crate::kinds::string;
use crate::{Args, Blob, ErrorReply, Op};

/// Condition on the record under a key.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Position of the key in the words.
    pub key: usize,
    /// Read that decides.
    pub read: Op,
    /// String or number that the read is to reply.
    pub reply: Blob,
    /// Whether it must reply that, or must not.
    pub equal: bool,
}

/// Conditions in the words of a command that has no others: `IFEQ key value`, `IFNE key value`, `XX key`,
/// `NX key`, any number of them.
pub fn conditions(args: &Args<'_>) -> Result<Vec<Condition>, ErrorReply> {
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
        conditions.push(Condition { key: at + 1, read, reply, equal });
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

    fn read(line: &str) -> Result<Vec<Condition>, ErrorReply> {
        conditions(&ArgBuf::of(line.split_whitespace()).args())
    }

    #[test]
    fn each_condition_is_a_read_and_its_reply() {
        assert_eq!(read("exec"), Ok(Vec::new()));
        let found = read("exec ifeq a 1 XX nx IFNE nx 2 nx ifeq").unwrap();
        let keys: Vec<usize> = found.iter().map(|c| c.key).collect();
        assert_eq!(keys, [2, 5, 7, 10]);
        assert_eq!(found.iter().map(|c| c.equal).collect::<Vec<_>>(), [true, true, false, false]);
        assert_eq!(found[2].reply, Blob::from("2"));
        for wrong in ["exec a", "exec ifeq", "exec ifeq a", "exec xx", "exec ifeq a 1 2"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
