//! Commands that no data type owns: connection, server, transactions, pub/sub, cluster; and the table of all
//! commands.
//!
//! Forms and names follow the Redis documentation; `TXN` is Claret's own. The session carries these
//! commands out by their names.

use adt::{Args, CommandSpec, Flags, Handler, Keys, Reply};
use foldhash::fast::FixedState;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Longest command name, in bytes. A longer word is no command.
pub const NAME_BYTES_MAX: usize = 32;

/// A row is `(name, arity, flags, keys, summary, syntax, complexity)`.
macro_rules! session_commands {
    ($($group:literal: $(($name:literal, $arity:literal, $flags:expr, $keys:expr,
        $summary:literal, $syntax:literal, $complexity:literal);)*)*) => {
        &[$($(CommandSpec {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            summary: $summary,
            syntax: $syntax,
            complexity: $complexity,
            handler: Handler::Session,
        }),*),*]
    };
}

const NONE: Flags = Flags(0);
const FAST: Flags = Flags::FAST;
const OPENING: Flags = FAST.and(Flags::NO_AUTH);
const ALONE: Flags = Flags::NO_MULTI;
/// Carried out by `EXEC`, and not inside of `TXN`.
const QUEUED: Flags = Flags::NO_TXN;
const READ: Flags = Flags::READ.and(QUEUED);
const ADMIN: Flags = Flags::ADMIN.and(Flags::DANGEROUS).and(QUEUED);
const WIPE: Flags = Flags::WRITE.and(Flags::DANGEROUS).and(QUEUED);
const TRANSACTION: Flags = Flags::TRANSACTION.and(FAST);
const SUBSCRIBE: Flags = Flags::PUBSUB.and(ALONE);

/// Commands that the session carries out.
pub static SESSION_COMMANDS: &[CommandSpec] = session_commands! {
    "connection":
    ("auth", -2, OPENING.and(ALONE), Keys::None,
        "Authenticates the connection.", "[username] password", "O(1), deliberately slow");
    ("client", -2, QUEUED, Keys::None,
        "Describes and manages connections.",
        "CACHING <YES | NO> | GETNAME | GETREDIR | ID | INFO | \
         KILL <address | filter value [filter value ...]> | \
         LIST [TYPE <NORMAL | PUBSUB>] [ID id [id ...]] | NO-EVICT <ON | OFF> | NO-TOUCH <ON | OFF> | \
         ORDER <ON | OFF> | PAUSE milliseconds [WRITE | ALL] | REPLY <ON | OFF | SKIP> | \
         REQUEST name number | SETINFO <LIB-NAME name | LIB-VER version> | SETNAME name | \
         TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] \
         [OPTOUT] [NOLOOP] | TRACKINGINFO | UNBLOCK id [TIMEOUT | ERROR] | UNPAUSE",
        "O(1); LIST and KILL O(n) in connections");
    ("echo", 2, FAST, Keys::None, "Returns its argument.", "message", "O(1)");
    ("hello", -1, OPENING.and(ALONE), Keys::None,
        "Chooses the protocol version and describes the server.",
        "[protover [AUTH username password] [SETNAME clientname]]", "O(1)");
    ("ping", -1, FAST, Keys::None, "Returns PONG, or its argument.", "[message]", "O(1)");
    ("quit", -1, OPENING, Keys::None, "Closes the connection.", "", "O(1)");
    ("reset", 1, OPENING, Keys::None,
        "Resets the connection to the state of a new one.", "", "O(1)");
    ("select", 2, FAST, Keys::None, "Selects one of the 16 databases for the connection.", "index", "O(1)");

    "server":
    ("acl", -2, ADMIN, Keys::None,
        "Describes and changes users and their rights.",
        "CAT [category] | DELUSER username [username ...] | DRYRUN username command [arg ...] | \
         GENPASS [bits] | GETUSER username | LIST | LOAD | LOG [count | RESET] | SAVE | \
         SETUSER username [rule ...] | USERS | WHOAMI",
        "O(n) in users or commands");
    ("bgsave", -1, ADMIN.and(ALONE), Keys::None,
        "Begins to write a snapshot of every shard.", "[SCHEDULE]", "O(n), in the background");
    ("command", -1, NONE, Keys::None,
        "Describes commands.",
        "[COUNT | DOCS [name ...] | GETKEYS command [arg ...] | INFO [name ...] | \
         LIST [FILTERBY <ACLCAT category | PATTERN pattern>]]",
        "O(n) in commands");
    ("config", -2, ADMIN, Keys::None,
        "Reads and changes settings.",
        "GET pattern [pattern ...] | RESETSTAT | SET <setting value [setting value ...]>",
        "O(n) in settings");
    ("dbsize", 1, READ.and(FAST), Keys::None, "Counts the keys of the database.", "", "O(1) per shard");
    ("flushall", -1, WIPE, Keys::None, "Removes all keys of all databases.", "[ASYNC | SYNC]", "O(n)");
    ("flushdb", -1, WIPE, Keys::None, "Removes all keys of the database.", "[ASYNC | SYNC]", "O(n)");
    ("info", -1, QUEUED.and(Flags::DANGEROUS), Keys::None,
        "Describes the server.", "[section ...]", "O(1) per shard");
    ("lastsave", 1, FAST.and(Flags::ADMIN).and(Flags::DANGEROUS), Keys::None,
        "Returns the time of the last snapshot in seconds since 1970.", "", "O(1)");
    ("latency", -2, ADMIN, Keys::None,
        "Returns how long commands took.",
        "HISTOGRAM [command ...] | HISTORY event | LATEST | RESET [event ...]",
        "O(n) in commands or events");
    ("lolwut", -1, READ.and(FAST), Keys::None,
        "Returns the version of the server.", "[VERSION version] [arg ...]", "O(1)");
    ("monitor", 1, ADMIN.and(ALONE), Keys::None,
        "Shows the commands of all clients of the machine, as they are carried out.", "", "O(1) per command");
    ("role", 1, FAST.and(Flags::ADMIN).and(Flags::DANGEROUS), Keys::None,
        "Returns the server's role in replication.", "", "O(1)");
    ("save", 1, ADMIN.and(ALONE), Keys::None, "Writes a snapshot of every shard.", "", "O(n)");
    ("shutdown", -1, ADMIN.and(ALONE), Keys::None, "Stops the server.", "[NOSAVE | SAVE]", "O(n) with SAVE");
    ("slowlog", -2, ADMIN, Keys::None,
        "Returns the commands that took longest to answer.",
        "GET [count] | LEN | RESET", "O(n) in the commands returned");
    ("time", 1, FAST, Keys::None, "Returns the server's time.", "", "O(1)");
    ("wait", 3, Flags::BLOCKING, Keys::None,
        "Returns at once how many machines, beside the one that leads a shard, hold every write that was \
         answered: replies come after replication.",
        "numreplicas timeout", "O(1)");

    "generic":
    ("keys", 2, READ.and(Flags::DANGEROUS), Keys::None,
        "Returns the keys of the database that match a pattern.", "pattern", "O(n) in all keys");
    ("randomkey", 1, READ, Keys::None, "Returns an arbitrary key of the database.", "", "O(1)");
    ("scan", -2, READ, Keys::None,
        "Iterates over the keys of the database.",
        "cursor [MATCH pattern] [COUNT count] [TYPE type]", "O(1) per step");

    "transactions":
    ("discard", 1, TRANSACTION, Keys::None, "Discards a MULTI transaction.", "", "O(1)");
    ("exec", -1, Flags::TRANSACTION, Keys::Conditions,
        "Executes a MULTI transaction, over any keys of any shards, if all conditions hold.",
        "[IFEQ key value ...] [IFNE key value ...] [XX key ...] [NX key ...]",
        "The sum of its commands");
    ("multi", 1, TRANSACTION.and(ALONE), Keys::None, "Begins a MULTI transaction.", "", "O(1)");
    ("txn", -2, TRANSACTION.and(ALONE), Keys::None,
        "Begins and ends an interactive transaction, whose reads answer at once.",
        "BEGIN [READONLY] [BLIND] [STRICT] [FORUPDATE] [IDLE milliseconds] [TIMEOUT milliseconds] | \
         COMMIT | ABORT | FORUPDATE command [arg ...] | HOLDERS key | RESOLVE name number",
        "O(1); COMMIT that of the deferred commands");
    ("unwatch", 1, TRANSACTION, Keys::None, "Forgets all watched keys.", "", "O(1)");
    ("watch", -2, TRANSACTION.and(ALONE), Keys::ALL,
        "Makes the next EXEC fail if one of the keys has changed.", "key [key ...]",
        "O(1) per key");

    "scripting":
    ("eval", -3, NONE, Keys::Declared { at: 2 },
        "Runs a script as one transaction, over any keys of any shards.",
        "script numkeys [key [key ...]] [arg [arg ...]]", "That of the script");
    ("eval_ro", -3, Flags::READ, Keys::Declared { at: 2 },
        "Runs a script that only reads.",
        "script numkeys [key [key ...]] [arg [arg ...]]", "That of the script");
    ("evalsha", -3, NONE, Keys::Declared { at: 2 },
        "Runs a script that the store knows, by its name.",
        "sha1 numkeys [key [key ...]] [arg [arg ...]]", "That of the script");
    ("evalsha_ro", -3, Flags::READ, Keys::Declared { at: 2 },
        "Runs a script that the store knows and that only reads.",
        "sha1 numkeys [key [key ...]] [arg [arg ...]]", "That of the script");
    ("fcall", -3, NONE, Keys::Declared { at: 2 },
        "Runs a function of a library as one transaction, over any keys of any shards.",
        "function numkeys [key [key ...]] [arg [arg ...]]", "That of the function");
    ("fcall_ro", -3, Flags::READ, Keys::Declared { at: 2 },
        "Runs a function that only reads.",
        "function numkeys [key [key ...]] [arg [arg ...]]", "That of the function");
    ("function", -2, QUEUED, Keys::None,
        "Keeps and removes libraries of functions. All machines know a library that is loaded, also after a \
         restart.",
        "DELETE library-name | DUMP | FLUSH [ASYNC | SYNC] | KILL | LIST [LIBRARYNAME pattern] [WITHCODE] \
         | LOAD [REPLACE] function-code | RESTORE serialized-value [FLUSH | APPEND | REPLACE] | STATS",
        "O(n) in the bytes of all libraries");
    ("script", -2, QUEUED, Keys::None,
        "Keeps and forgets scripts. All machines know a script that is loaded, also after a restart.",
        "EXISTS sha1 [sha1 ...] | FLUSH [ASYNC | SYNC] | KILL | LOAD script | SHOW sha1",
        "O(1) for each script");

    "types":
    ("type.define", 3, QUEUED, Keys::None,
        "Defines a composed type, of which keys can hold values from then on. Returns the version.",
        "name definition", "O(n) in the definition");
    ("type.drop", 2, QUEUED, Keys::None,
        "Removes a definition. Values stay, and are removed with DEL, or used again when the type is defined \
         so that it takes them over.",
        "name", "O(1)");
    ("type.get", -2, QUEUED, Keys::None, "Returns a definition, as text or in JSON.", "name [JSON]", "O(1)");
    ("type.laws", 2, QUEUED, Keys::None,
        "Returns which operations of a type commute, as follows from its parts, and why others do not.",
        "name", "O(n) in pairs of operations");
    ("type.list", 1, QUEUED, Keys::None, "Returns the composed types.", "", "O(n) in types");
    ("type.migrate", 3, QUEUED, Keys::None,
        "Gives a type a new definition, which takes its values over. Returns the version.",
        "name definition", "O(n) in the definition");

    "lock":
    ("fence", -3, Flags::WRITE.and(Flags::COORDINATION), Keys::ONE,
        "Runs a command unless its shard has seen a larger token of the lock. In MULTI it \
         applies to the whole transaction.",
        "lock token [command [arg ...]]", "That of the command");
    ("lock.section", -2, Flags::WRITE.and(Flags::BLOCKING).and(Flags::COORDINATION), Keys::ONE,
        "Takes a lock in order of arrival, runs a command and releases the lock, in one step; \
         returns the reply of the command, or nil if the lock was not free in time. After MULTI \
         it applies to the whole transaction, and its own reply is the token.",
        "key [TIMEOUT milliseconds] [OWNER name] [SHARED | LIMIT holders] [DETECT] [command [arg ...]]",
        "That of the command");
    ("lock.waiters", 2, READ.and(ALONE).and(Flags::COORDINATION), Keys::ONE,
        "Returns the waiters of a lock, the next holder first: owner, mode, milliseconds so \
         far.",
        "key", "O(n) in waiters");

    "barrier":
    ("barrier.waiting", 2, READ.and(ALONE).and(Flags::COORDINATION), Keys::ONE,
        "Returns the parties waiting at a barrier, in order of arrival: owner, for how many \
         parties, milliseconds so far.",
        "key", "O(n) in waiters");

    "pubsub":
    ("psubscribe", -2, SUBSCRIBE, Keys::None,
        "Subscribes to the channels that match patterns.", "pattern [pattern ...]",
        "O(log n) per pattern");
    ("publish", 3, Flags::PUBSUB.and(FAST), Keys::None,
        "Sends a message to a channel. In a cluster the reply counts the receivers at this machine.",
        "channel message",
        "O(n) in receivers and in patterns");
    ("pubsub", -2, Flags::PUBSUB.and(QUEUED), Keys::None,
        "Describes subscriptions to this machine.",
        "CHANNELS [pattern] | NUMPAT | NUMSUB [channel ...] | SHARDCHANNELS [pattern] | \
         SHARDNUMSUB [shardchannel ...]", "O(n) in channels");
    ("punsubscribe", -1, SUBSCRIBE, Keys::None,
        "Unsubscribes from patterns.", "[pattern ...]", "O(log n) per pattern");
    ("spublish", 3, Flags::PUBSUB.and(FAST), Keys::None,
        "Sends a message to a sharded channel: `PUBLISH` for channels with names of their own, which \
         patterns do not match. Every machine takes it, and it reaches the subscribers of all.",
        "shardchannel message", "O(n) in receivers");
    ("ssubscribe", -2, SUBSCRIBE, Keys::None,
        "Subscribes to sharded channels, at any machine.", "shardchannel [shardchannel ...]",
        "O(log n) per channel");
    ("subscribe", -2, SUBSCRIBE, Keys::None,
        "Subscribes to channels.", "channel [channel ...]", "O(log n) per channel");
    ("sunsubscribe", -1, SUBSCRIBE, Keys::None,
        "Unsubscribes from sharded channels.", "[shardchannel ...]", "O(log n) per channel");
    ("unsubscribe", -1, SUBSCRIBE, Keys::None,
        "Unsubscribes from channels.", "[channel ...]", "O(log n) per channel");

    "cluster":
    ("asking", 1, FAST, Keys::None,
        "Accepted for cluster clients; slots do not move in a way that needs it.", "", "O(1)");
    ("cluster", -2, QUEUED, Keys::None,
        "Returns to cluster clients where the slots are.",
        "COUNTKEYSINSLOT slot | GETKEYSINSLOT slot count | INFO | KEYSLOT key | MYID | \
         MYSHARDID | NODES | SHARDS | SLOTS",
        "O(1); keys in a slot O(n)");
    ("failover", -1, ADMIN.and(ALONE), Keys::None,
        "Hands the leadership of shards over to other machines while clients continue: of one \
         shard, or of all that this machine leads, which then takes none until ABORT or its next \
         start.",
        "[ABORT | SHARD shard TO machine]", "O(1)");
    ("shardmap", -1, ADMIN.and(ALONE), Keys::None,
        "Returns the shard map: the machines that are to hold each shard. HOLDERS returns those \
         that do, LEADS the leaders with term and start, LEVELS the levels that machines \
         understand. SET replaces the map by one with the next epoch. See claret cluster \
         --help.",
        "[HOLDERS | LEADS | LEVELS | SET map]", "O(1)");
    ("backup", -2, ADMIN.and(ALONE), Keys::None,
        "Stops all shards for a moment and keeps their state at that moment (BEGIN), returns it \
         in pieces (READ), and discards it (END). See claret backup --help.",
        "BEGIN | READ cut shard piece | END cut", "O(n) for BEGIN and for all pieces");
    ("readonly", 1, FAST, Keys::None,
        "Accepts reads on any machine from now on, without redirection to the leader; they see \
         the newest values all the same.", "", "O(1)");
    ("readwrite", 1, FAST, Keys::None, "Ends the mode that READONLY began.", "", "O(1)");
};

struct Table {
    all: Vec<&'static CommandSpec>,
    positions: HashMap<&'static [u8], u16, FixedState>,
}

/// Table of all commands, which is built once. Its hash needs no secret key: clients do not choose the
/// names in it.
fn table() -> &'static Table {
    static TABLE: OnceLock<Table> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut all: Vec<_> = adt::record::data_commands().chain(SESSION_COMMANDS).collect();
        all.sort_by_key(|spec| spec.name);
        let positions =
            all.iter().enumerate().map(|(i, spec)| (spec.name.as_bytes(), i as u16)).collect();
        Table { all, positions }
    })
}

/// All commands, in the order of their names.
pub fn all() -> &'static [&'static CommandSpec] {
    &table().all
}

/// Position of the command called `name` (in any case) in [`all`].
#[inline]
pub fn position(name: &[u8]) -> Option<usize> {
    let mut lower = [0; NAME_BYTES_MAX];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    table().positions.get(&*lower).map(|&i| usize::from(i))
}

/// Command called `name`, in any case.
#[inline]
pub fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    position(name).map(|i| table().all[i])
}

/// Name of a command that is there twice, because a data type has taken that of another command.
pub fn taken_twice() -> Option<&'static str> {
    let twice = all().windows(2).find(|pair| pair[0].name == pair[1].name);
    twice.map(|pair| pair[0].name)
}

/// Whether a command publishes a message.
pub(in crate::gateway) fn publishes(name: &str) -> bool {
    matches!(name, "publish" | "spublish")
}

/// Whether a command begins or ends subscriptions.
pub(in crate::gateway) fn subscribes(spec: &CommandSpec) -> bool {
    spec.flags.has(Flags::PUBSUB) && spec.name.ends_with("subscribe")
}

/// Whether a command runs a script, or a function of a library.
pub fn runs_script(spec: &CommandSpec) -> bool {
    let names = ["eval", "eval_ro", "evalsha", "evalsha_ro", "fcall", "fcall_ro"];
    names.contains(&spec.name)
}

/// Reply of `LOLWUT`: what Redis draws is left to Redis, whatever version of the drawing is asked for.
pub(in crate::gateway) fn lolwut(args: &Args<'_>) -> Reply {
    if args.is(1, "VERSION")
        && let Err(error) = args.int(2)
    {
        return error.into();
    }
    Reply::Text(format!("Claret ver. {}\n", env!("CARGO_PKG_VERSION")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_short_and_in_lower_case() {
        for pair in all().windows(2) {
            assert!(pair[0].name < pair[1].name, "{} twice or out of order", pair[1].name);
        }
        for spec in all() {
            assert!(spec.name.len() <= NAME_BYTES_MAX, "{}", spec.name);
            assert_eq!(spec.name, spec.name.to_ascii_lowercase());
            assert!(spec.summary.ends_with('.'), "{}", spec.name);
            assert!(spec.arity != 0 && !spec.complexity.is_empty(), "{}", spec.name);
        }
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(lookup(b"sAdD").map(|s| s.name), Some("sadd"));
        assert_eq!(lookup(b"TXN").map(|s| s.name), Some("txn"));
        assert_eq!(all()[position(b"ping").unwrap()].name, "ping");
        for unknown in [&b""[..], b"nosuch", b"sadd ", &[b'a'; 33], &[b'a'; 1000], b"\xff\0"] {
            assert!(lookup(unknown).is_none());
        }
    }

    #[test]
    fn every_command_of_the_session_has_a_syntax_that_fits_its_arity() {
        for spec in SESSION_COMMANDS {
            let calls = adt::command::syntax::sample_calls(spec);
            assert!(calls.iter().all(|c| spec.check_arity(c.len()).is_ok()), "{}", spec.name);
            assert!(!calls.is_empty(), "{}", spec.name);
        }
    }
}
