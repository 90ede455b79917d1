//! Operations on all keys of a shard at once, inside of a transaction: `FLUSHALL`, `DBSIZE`,
//! `KEYS`, `RANDOMKEY` and `SCAN` between `MULTI` and `EXEC`.
//!
//! Such an operation stands among those on keys, in their order. Its key, any one of the target
//! shard, serves for routing only. The shard carries it out, because it has all records.

use crate::command::commands;
use crate::command::scan::ScanArgs;
use crate::key::KeyOp;
use crate::{ArgBuf, Args, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op};

/// An operation on all keys of a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Whole {
    /// Removes them.
    Flush,
    /// Removes the texts of scripts, and nothing else.
    ForgetScripts,
    /// Counts them.
    Count,
    /// Names of the keys that match a pattern.
    Names(Blob),
    /// Any one of them, or nil.
    Any,
    /// One step of an iteration, over the keys of one type if a type is named.
    Page(ScanArgs, Option<Blob>),
}

impl Whole {
    /// Writes the operation as the words of a command that parses to the same operation.
    pub fn encode(&self, key: &[u8], out: &mut ArgBuf) {
        match self {
            Self::Flush => _ = out.push("keyspace.flush").push(key),
            Self::ForgetScripts => _ = out.push("keyspace.forget-scripts").push(key),
            Self::Count => _ = out.push("keyspace.count").push(key),
            Self::Names(pattern) => _ = out.push("keyspace.names").push(key).push(pattern),
            Self::Any => _ = out.push("keyspace.any").push(key),
            Self::Page(scan, type_name) => {
                let type_name = type_name.as_ref().map_or(&b""[..], |name| name);
                scan.encode(out.push("keyspace.page").push(key).push(type_name));
            }
        }
    }
}

fn one(args: &Args<'_>, whole: Whole) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, Op::Key(KeyOp::Whole(Box::new(whole)))))
}

fn parse_page(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let type_name = Some(args.blob(2)?).filter(|name| !name.is_empty());
    one(args, Whole::Page(ScanArgs::parse(args, 3)?, type_name))
}

/// Forms that only the log uses; clients cannot send them.
pub const INTERNAL: &[CommandSpec] = commands! { "generic";
    ("keyspace.flush", 2, Flags::WRITE, Keys::ONE,
        "Removes all keys of a shard.", "key", "O(n)") =>
        |a| one(a, Whole::Flush);
    ("keyspace.forget-scripts", 2, Flags::WRITE, Keys::ONE,
        "Removes all scripts of a shard.", "key", "O(n)") =>
        |a| one(a, Whole::ForgetScripts);
    ("keyspace.count", 2, Flags::WRITE, Keys::ONE,
        "Counts all keys of a shard.", "key", "O(1)") =>
        |a| one(a, Whole::Count);
    ("keyspace.names", 3, Flags::WRITE, Keys::ONE,
        "Returns the keys of a shard that match a pattern.", "key pattern", "O(n)") =>
        |a| one(a, Whole::Names(a.blob(2)?));
    ("keyspace.any", 2, Flags::WRITE, Keys::ONE,
        "Returns any key of a shard.", "key", "O(1)") =>
        |a| one(a, Whole::Any);
    ("keyspace.page", -4, Flags::WRITE, Keys::ONE,
        "Iterates over the keys of a shard.", "key type cursor [MATCH pattern] [COUNT count]",
        "O(1) per step") =>
        parse_page;
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_all_keys_read_back_from_their_words() {
        let pattern = Some(Blob::from("a*"));
        let scan = ScanArgs { cursor: 7, pattern, count: 3 };
        crate::laws::check_words(
            &[
                Whole::Flush,
                Whole::Count,
                Whole::Names(Blob::from("*")),
                Whole::Any,
                Whole::Page(scan.clone(), None),
                Whole::Page(scan, Some(Blob::from("list"))),
            ]
            .map(|whole| Op::Key(KeyOp::Whole(Box::new(whole)))),
        );
    }
}
