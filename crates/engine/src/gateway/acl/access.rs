//! Use that a call makes of each of its keys, for rules that allow only reading or only writing.
//!
//! As in Redis, *read* means that something stored under the key shows in the reply or is copied
//! elsewhere; a writer whose reply only counts what changed does not read. A command that is
//! not listed here reads and writes all keys: an omission can only forbid too much.

use crate::gateway::clients::session_commands::runs_script;
use adt::key::sort;
use adt::{Args, CommandSpec, Flags};

/// Use that a call makes of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// Stored data become visible.
    pub read: bool,
    /// Stored data may change.
    pub write: bool,
}

const READ: KeyAccess = KeyAccess { read: true, write: false };
const WRITE: KeyAccess = KeyAccess { read: false, write: true };
const BOTH: KeyAccess = KeyAccess { read: true, write: true };

/// Writers that show nothing of what was stored.
const BLIND: [&str; 46] = [
    "append",
    "del",
    "expire",
    "expireat",
    "hdel",
    "hexpire",
    "hexpireat",
    "hmset",
    "hpersist",
    "hpexpire",
    "hpexpireat",
    "hset",
    "hsetex",
    "hsetnx",
    "linsert",
    "lpush",
    "lpushx",
    "lrem",
    "lset",
    "ltrim",
    "mset",
    "msetex",
    "msetnx",
    "persist",
    "pexpire",
    "pexpireat",
    "pfadd",
    "psetex",
    "rpush",
    "rpushx",
    "sadd",
    "setex",
    "setnx",
    "setrange",
    "srem",
    "unlink",
    "xack",
    "xackdel",
    "xadd",
    "xdel",
    "xdelex",
    "xnack",
    "zrem",
    "zremrangebylex",
    "zremrangebyrank",
    "zremrangebyscore",
];

/// Option by which a call of `spec` reads keys that its words do not name, if it does.
pub fn looks_up(spec: &CommandSpec, args: &Args<'_>) -> Option<&'static str> {
    if spec.name.starts_with("sort") { sort::looks_up(args) } else { None }
}

/// Use that a call of `spec` makes of its key number `nth` (from 0, in the order of
/// [`adt::Keys::positions`]).
pub fn key_access(spec: &CommandSpec, args: &Args<'_>, nth: usize) -> KeyAccess {
    if !spec.flags.has(Flags::WRITE) {
        // What a script does with its keys is not known.
        let writes = runs_script(spec) && !spec.flags.has(Flags::READ);
        return if writes { BOTH } else { READ };
    }
    let says = |word: &str| (3..args.len()).any(|i| args.is(i, word));
    match spec.name {
        "set" if says("GET") => BOTH,
        "zadd" if says("INCR") => BOTH,
        "set" | "zadd" => WRITE,
        "copy" | "sort" if nth == 0 => READ,
        "pfmerge" if nth > 0 => READ,
        "copy" | "sort" => WRITE,
        "rename" | "renamenx" | "smove" | "lmove" | "rpoplpush" | "blmove" | "brpoplpush"
            if nth == 1 =>
        {
            WRITE
        }
        name if name == "bitop" || name.ends_with("store") => {
            if nth == 0 {
                WRITE
            } else {
                READ
            }
        }
        name if BLIND.binary_search(&name).is_ok() => WRITE,
        _ => BOTH,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::clients::session_commands::lookup;
    use adt::ArgBuf;

    #[test]
    fn the_list_is_sorted() {
        assert!(BLIND.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn sources_are_read_and_destinations_written() {
        let access = |line: &str, nth| {
            let words = ArgBuf::of(line.split(' '));
            key_access(lookup(words.args().get(0).unwrap()).unwrap(), &words.args(), nth)
        };
        assert_eq!(access("smembers a", 0), READ);
        assert_eq!(access("sadd a x", 0), WRITE);
        assert_eq!(access("spop a", 0), BOTH);
        assert_eq!(access("sinterstore a b c", 0), WRITE);
        assert_eq!(access("sinterstore a b c", 2), READ);
        assert_eq!(access("copy a b", 0), READ);
        assert_eq!(access("copy a b", 1), WRITE);
        assert_eq!(access("smove a b m", 0), BOTH);
        assert_eq!(access("smove a b m", 1), WRITE);
    }
}
