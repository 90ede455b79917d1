//! Flags of key specifications in `COMMAND`: the ways in which commands use their keys, in Redis' terms.

use crate::gateway::clients::session_commands::runs_script;
use adt::{CommandSpec, Flags};

/// Flags of one key specification.
pub(super) type KeyFlags = &'static [&'static str];

const READ: KeyFlags = &["RO", "access"];
const LOOK: KeyFlags = &["RO"];
const MAKE: KeyFlags = &["RW", "insert"];
const TAKE: KeyFlags = &["RW", "access", "delete"];
const CHANGE: KeyFlags = &["RW", "access", "update"];
const WRITE: KeyFlags = &["RW", "update"];
const CUT: KeyFlags = &["RW", "delete"];
const REMOVE: KeyFlags = &["RM", "delete"];
const REPLACE: KeyFlags = &["OW", "update"];
const CREATE: KeyFlags = &["OW", "insert"];
/// Not a key, but it is routed as one.
const CHANNEL: KeyFlags = &["not_key"];

/// The flags of a command's keys: of all of them, or of the first and of the others.
pub(super) fn key_flags(spec: &CommandSpec) -> (KeyFlags, Option<KeyFlags>) {
    let all = match spec.name {
        "append" | "hsetnx" | "linsert" | "lpush" | "lpushx" | "rpush" | "rpushx" | "sadd" => MAKE,
        "blmove" | "brpoplpush" | "lmove" | "rpoplpush" | "smove" => return (TAKE, Some(MAKE)),
        "blmpop" | "blpop" | "brpop" | "bzmpop" | "bzpopmax" | "bzpopmin" | "getdel"
        | "hgetdel" | "lmpop" | "lpop" | "rpop" | "spop" | "zmpop" | "zpopmax" | "zpopmin" => TAKE,
        "copy" => return (READ, Some(REPLACE)),
        "set" | "bitfield" => &["RW", "access", "update", "variable_flags"],
        "del" | "delex" | "delifeq" | "unlink" => REMOVE,
        "exists" | "hexists" | "hlen" | "hstrlen" | "llen" | "scard" | "sismember" | "strlen"
        | "touch" | "type" | "watch" | "xlen" | "zcard" => LOOK,
        "expire" | "expireat" | "hexpire" | "hexpireat" | "hmset" | "hpersist" | "hpexpire"
        | "hpexpireat" | "hset" | "hsetex" | "lset" | "persist" | "pexpire" | "pexpireat"
        | "setrange" | "xack" | "xadd" | "xcfgset" | "xclaim" | "xnack" | "xsetid" | "zadd" => {
            WRITE
        }
        "hdel" | "lrem" | "ltrim" | "srem" | "xackdel" | "xautoclaim" | "xdel" | "xdelex"
        | "xtrim" | "zrem" | "zremrangebylex" | "zremrangebyrank" | "zremrangebyscore" => CUT,
        "mset" | "msetex" | "psetex" | "setex" => REPLACE,
        "msetnx" | "setnx" => CREATE,
        "xreadgroup" => READ,
        "spublish" | "ssubscribe" | "sunsubscribe" => CHANNEL,
        "rename" => return (TAKE, Some(REPLACE)),
        "sort" => return (READ, Some(REPLACE)),
        "renamenx" => return (TAKE, Some(CREATE)),
        "sdiffstore" | "sinterstore" | "sunionstore" | "zdiffstore" | "zinterstore" | "bitop"
        | "zrangestore" | "zunionstore" => return (REPLACE, Some(READ)),
        _ if spec.flags.has(Flags::WRITE) => CHANGE,
        _ if runs_script(spec) && !spec.flags.has(Flags::READ) => CHANGE,
        _ => READ,
    };
    (all, None)
}
