//! Operations on all keys of a shard at once, inside of a transaction: `FLUSHALL`, `DBSIZE`,
//! `KEYS`, `RANDOMKEY` and `SCAN` between `MULTI` and `EXEC`.
//!
//! Such an operation stands among those on keys, in their order. Its key, any one of the target
//! shard, serves for routing only. The shard carries it out, because it has all records.

use crate::command::commands;
use crate::command::database;
use crate::command::scan::ScanArgs;
use crate::key::KeyOp;
use crate::{ArgBuf, Args, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op};

/// An operation on all keys of a shard.
#[derive(Clone, Debug, PartialEq)]
pub enum Whole {
    /// Removes them, or those of one database.
    Flush(Option<u8>),
    /// Removes the texts of scripts, and nothing else.
    ForgetScripts,
    /// Counts those of a database.
    Count(u8),
    /// Names of the keys of a database that match a pattern.
    Names(u8, Blob),
    /// Name of any one of those of a database, or nil.
    Any(u8),
    /// One step of an iteration over those of a database, of one type if a type is named.
    Page(u8, ScanArgs, Option<Blob>),
}

impl Whole {
    /// Writes the operation as the words of a command that parses to the same operation.
    pub fn encode(&self, key: &[u8], out: &mut ArgBuf) {
        let database = match self {
            Self::Flush(database) => {
                out.push("keyspace.flush").push(key);
                *database
            }
            Self::ForgetScripts => {
                out.push("keyspace.forget-scripts").push(key);
                None
            }
            Self::Count(database) => {
                out.push("keyspace.count").push(key);
                of_others(*database)
            }
            Self::Names(database, pattern) => {
                out.push("keyspace.names").push(key).push(pattern);
                of_others(*database)
            }
            Self::Any(database) => {
                out.push("keyspace.any").push(key);
                of_others(*database)
            }
            Self::Page(database, scan, type_name) => {
                let type_name = type_name.as_ref().map_or(&b""[..], |name| name);
                scan.encode(out.push("keyspace.page").push(key).push(type_name));
                of_others(*database)
            }
        };
        if let Some(database) = database {
            out.push("database").push_int(database.into());
        }
    }
}

/// Database that is written: 0 is meant where none is.
fn of_others(database: u8) -> Option<u8> {
    (database != 0).then_some(database)
}

/// The database that the words name at their end, if they do, and the words before.
fn of_database(args: &Args<'_>, least: usize) -> Result<(Option<u8>, ArgBuf), ErrorReply> {
    let len = args.len();
    let behind = len >= least + 2 && args.is(len - 2, "database");
    let (database, len) = match behind {
        true => (Some(database::number(args, len - 1)?), len - 2),
        false => (None, len),
    };
    Ok((database, ArgBuf::of(args.iter_from(0).take(len))))
}

/// An operation with so many words, besides those that name the database.
fn one(
    args: &Args<'_>,
    words: usize,
    whole: impl Fn(Option<u8>) -> Result<Whole, ErrorReply>,
) -> Result<Command, ErrorReply> {
    let (database, found) = of_database(args, words)?;
    if found.len() != words {
        return Err(ErrorReply::syntax());
    }
    Ok(Command::Single(args.blob(1)?, Op::Key(KeyOp::Whole(Box::new(whole(database)?)))))
}

fn parse_page(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let type_name = Some(args.blob(2)?).filter(|name| !name.is_empty());
    let (database, words) = of_database(args, 4)?;
    let scan = ScanArgs::parse(&words.args(), 3)?;
    let whole = Whole::Page(database.unwrap_or(0), scan, type_name);
    Ok(Command::Single(args.blob(1)?, Op::Key(KeyOp::Whole(Box::new(whole)))))
}

/// Forms that only the log uses; clients cannot send them.
pub const INTERNAL: &[CommandSpec] = commands! { "generic";
    ("keyspace.flush", -2, Flags::WRITE, Keys::ONE,
        "Removes all keys of a shard.", "key [DATABASE index]", "O(n)") =>
        |a| one(a, 2, |database| Ok(Whole::Flush(database)));
    ("keyspace.forget-scripts", 2, Flags::WRITE, Keys::ONE,
        "Removes all scripts of a shard.", "key", "O(n)") =>
        |a| one(a, 2, |_| Ok(Whole::ForgetScripts));
    ("keyspace.count", -2, Flags::WRITE, Keys::ONE,
        "Counts all keys of a shard.", "key [DATABASE index]", "O(1)") =>
        |a| one(a, 2, |database| Ok(Whole::Count(database.unwrap_or(0))));
    ("keyspace.names", -3, Flags::WRITE, Keys::ONE,
        "Returns the keys of a shard that match a pattern.", "key pattern [DATABASE index]",
        "O(n)") =>
        |a| one(a, 3, |database| Ok(Whole::Names(database.unwrap_or(0), a.blob(2)?)));
    ("keyspace.any", -2, Flags::WRITE, Keys::ONE,
        "Returns any key of a shard.", "key [DATABASE index]", "O(1)") =>
        |a| one(a, 2, |database| Ok(Whole::Any(database.unwrap_or(0))));
    ("keyspace.page", -4, Flags::WRITE, Keys::ONE,
        "Iterates over the keys of a shard.",
        "key type cursor [MATCH pattern] [COUNT count] [DATABASE index]", "O(1) per step") =>
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
                Whole::Flush(None),
                Whole::Flush(Some(0)),
                Whole::Flush(Some(3)),
                Whole::ForgetScripts,
                Whole::Count(0),
                Whole::Count(15),
                Whole::Names(0, Blob::from("*")),
                Whole::Names(0, Blob::from("database")),
                Whole::Names(1, Blob::from("database")),
                Whole::Any(0),
                Whole::Any(2),
                Whole::Page(0, scan.clone(), None),
                Whole::Page(7, scan.clone(), None),
                Whole::Page(0, scan.clone(), Some(Blob::from("list"))),
                Whole::Page(7, scan, Some(Blob::from("list"))),
            ]
            .map(|whole| Op::Key(KeyOp::Whole(Box::new(whole)))),
        );
    }
}
