//! Commands of streams.

use super::parse::reading::{self, GROUP_KEYS, READ_KEYS};
use super::parse::{self, one, stream};
use super::{After, Id, Task};
use crate::command::commands;
use crate::{Args, Command, CommandSpec, ErrorReply, Flags, Keys};

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const WRITE: Flags = Flags::WRITE;
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS);
const FAST_GROWS: Flags = GROWS.and(Flags::FAST);
/// Flags of commands whose reply depends on the time, so that it is not the same again at the commit.
const TIMED: Flags = FAST_WRITE.and(Flags::NO_TXN);
const SECOND: Keys = Keys::Range { first: 2, last: 2, step: 1 };

pub(super) const GROUP: &str = "CREATE key group <id | $> [MKSTREAM] [ENTRIESREAD entries-read] \
    | CREATECONSUMER key group consumer | DELCONSUMER key group consumer | DESTROY key group \
    | SETID key group <id | $> [ENTRIESREAD entries-read]";
pub(super) const INFO: &str = "CONSUMERS key group | GROUPS key | STREAM key [FULL [COUNT count]]";

pub(super) const COMMANDS: &[CommandSpec] = commands! { "stream";
    ("xadd", -5, FAST_GROWS, Keys::ONE,
        "Adds an entry; returns its id.",
        "key [NOMKSTREAM] [KEEPREF | DELREF | ACKED] [IDMPAUTO producer-id | IDMP producer-id idempotent-id] \
        [<MAXLEN | MINID> [= | ~] threshold [LIMIT count]] <* | id> field value [field value ...]",
        "O(1), and O(n) in the entries trimmed; with ACKED also in the pending ones that stay") =>
        |a| parse::add(a, false);
    ("xcfgset", -2, FAST_WRITE, Keys::ONE,
        "Sets for how long a stream remembers entries that are added once, and how many of a producer.",
        "key [IDMP-DURATION seconds] [IDMP-MAXSIZE entries]", "O(p) for p producers") =>
        parse::configure;
    ("xlen", 2, FAST_READ, Keys::ONE,
        "Counts the entries.", "key", "O(1)") =>
        |a| one(a, Task::Len);
    ("xrange", -4, READ, Keys::ONE,
        "Returns the entries between two ids, oldest first.",
        "key start end [COUNT count]", "O(log n + m) for m returned") =>
        |a| parse::range(a, false);
    ("xrevrange", -4, READ, Keys::ONE,
        "Returns the entries between two ids, newest first.",
        "key end start [COUNT count]", "O(log n + m) for m returned") =>
        |a| parse::range(a, true);
    ("xread", -4, READ.and(Flags::BLOCKING), READ_KEYS,
        "Returns entries behind given ids, of several streams.",
        "[COUNT count] [BLOCK milliseconds] STREAMS key [key ...] id [id ...]",
        "O(log n + m) for m returned") =>
        reading::read;
    ("xdel", -3, FAST_WRITE, Keys::ONE,
        "Removes entries; returns how many.", "key id [id ...]", "O(1) per entry") =>
        parse::delete;
    ("xdelex", -5, FAST_WRITE, Keys::ONE,
        "Removes entries, with their pending deliveries or only when all groups have acknowledged them.",
        "key [KEEPREF | DELREF | ACKED] IDS numids id [id ...]", "O(g) per entry for g groups") =>
        |a| parse::forget(a, false);
    ("xackdel", -6, FAST_WRITE, Keys::ONE,
        "Acknowledges entries of a group and removes them.",
        "key group [KEEPREF | DELREF | ACKED] IDS numids id [id ...]",
        "O(g) per entry for g groups") =>
        |a| parse::forget(a, true);
    ("xtrim", -4, WRITE, Keys::ONE,
        "Removes the oldest entries; returns how many.",
        "key <MAXLEN | MINID> [= | ~] threshold [LIMIT count] [KEEPREF | DELREF | ACKED]",
        "O(n) in the entries removed; with ACKED also in the pending ones that stay") =>
        parse::trim;
    ("xsetid", -3, FAST_GROWS, Keys::ONE,
        "Sets the last id of a stream.",
        "key last-id [ENTRIESADDED entries-added] [MAXDELETEDID max-deleted-id]", "O(1)") =>
        parse::set_id;
    ("xgroup", -2, GROWS, SECOND,
        "Manages the groups of a stream and their consumers.", GROUP, "O(1)") =>
        parse::group;
    ("xreadgroup", -7, WRITE.and(Flags::BLOCKING), GROUP_KEYS,
        "Delivers entries of several streams to a consumer of a group.",
        "[COUNT count] [BLOCK milliseconds] [CLAIM min-idle-time] [NOACK] GROUP group consumer \
        STREAMS key [key ...] id [id ...]",
        "O(log n) per entry") =>
        reading::read_group;
    ("xack", -4, FAST_WRITE, Keys::ONE,
        "Acknowledges entries that are pending in a group; returns how many.",
        "key group id [id ...]", "O(log n) per entry") =>
        parse::acknowledge;
    ("xnack", -7, FAST_WRITE, Keys::ONE,
        "Makes pending entries those of no consumer, so that any other gets them; returns how many.",
        "key group <SILENT | FAIL | FATAL> IDS numids id [id ...] [RETRYCOUNT count] [FORCE]",
        "O(log n) per entry") =>
        parse::release;
    ("xpending", -3, READ, Keys::ONE,
        "Returns the entries that are pending in a group.",
        "key group [[IDLE min-idle-time] start end count [consumer]]", "O(n) in the pending entries") =>
        parse::pending;
    ("xclaim", -6, TIMED, Keys::ONE,
        "Makes pending entries those of another consumer.",
        "key group consumer min-idle-time id [id ...] [IDLE ms] [TIME unix-time-milliseconds] \
        [RETRYCOUNT count] [FORCE] [JUSTID] [LASTID lastid]", "O(log n) per entry") =>
        parse::claim;
    ("xautoclaim", -6, TIMED, Keys::ONE,
        "Makes entries that are pending for long those of another consumer.",
        "key group consumer min-idle-time start [COUNT count] [JUSTID]", "O(1)") =>
        parse::auto_claim;
    ("xinfo", -2, READ, SECOND,
        "Returns facts about a stream, its groups and their consumers.", INFO, "O(n) with FULL") =>
        parse::info;
};

/// The operation of a command on one key by itself.
fn bare(command: Result<Command, ErrorReply>) -> Result<Command, ErrorReply> {
    Ok(match command? {
        Command::Multi { mut ops, .. } if ops.len() == 1 => {
            let (key, op) = ops.remove(0);
            Command::Single(key, op)
        }
        other => other,
    })
}

fn read(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let after = match args.get(2).unwrap_or_default() {
        b"$" => After::End,
        b"+" => After::Last,
        id => After::Id(Id::parse(id, 0)?),
    };
    one(args, Task::Read { after, count: reading::read_count(args, 3)? })
}

fn delivery(args: &Args<'_>, delivers: bool) -> Result<Command, ErrorReply> {
    let (group, consumer) = (args.blob(2)?, args.blob(3)?);
    let after = match args.get(4).unwrap_or_default() {
        b">" => None,
        id => Some(Id::parse(id, 0)?),
    };
    let count = reading::read_count(args, 5)?;
    let op = if delivers {
        let no_ack = args.is(6, "NOACK");
        let at = if no_ack { 7 } else { 6 };
        let claim_ms = match args.is(at, "CLAIM") {
            true => Some(args.at_least(at + 1, 0, "no time")?),
            false => None,
        };
        Task::ReadGroup { group, consumer, after, count, no_ack, claim_ms }
    } else {
        Task::PeekGroup { group, consumer, after, count }
    };
    Ok(Command::Single(args.blob(1)?, stream(op)))
}

fn due(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (group, min_idle_ms) = (args.blob(2)?, args.at_least(3, 0, "no time")?);
    one(args, Task::Due { group, min_idle_ms, count: reading::read_count(args, 4)? })
}

fn hand_out(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (group, consumer) = (args.blob(2)?, args.blob(3)?);
    let no_ack = args.is(4, "NOACK");
    let count = usize::try_from(args.at_least(5, 0, "no number")?).unwrap_or(usize::MAX);
    let mut pending = parse::ids(args, 6)?;
    if count > pending.len() {
        return Err(ErrorReply::syntax());
    }
    let new = pending.split_off(count);
    one(args, Task::HandOut { group, consumer, pending, new, no_ack })
}

/// Forms that only the log and other machines get; clients cannot send them.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "stream";
    ("stream.next", 2, READ, Keys::ONE,
        "Returns the id that an entry added now would get.", "key", "O(1)") =>
        |a| one(a, Task::Next);
    ("stream.last", 2, READ, Keys::ONE,
        "Returns the highest id ever assigned.", "key", "O(1)") =>
        |a| one(a, Task::Last);
    ("stream.read", 4, READ, Keys::ONE,
        "Returns entries behind an id.", "key id count", "O(log n + m)") =>
        read;
    ("stream.deliver", -6, GROWS, Keys::ONE,
        "Delivers entries to a consumer.", "key group consumer id count [NOACK]", "O(log n + m)") =>
        |a| delivery(a, true);
    ("stream.peek", 6, READ, Keys::ONE,
        "Returns what a delivery would.", "key group consumer id count", "O(log n + m)") =>
        |a| delivery(a, false);
    ("stream.pending", -3, READ, Keys::ONE,
        "Returns pending entries.", "key group", "O(n)") =>
        |a| bare(parse::pending(a));
    ("stream.add", -7, GROWS, Keys::ONE,
        "Adds an entry under a name and an identifier.", "key IDMP producer name id field value", "O(1)") =>
        |a| parse::add(a, true);
    ("stream.original", 4, READ, Keys::ONE,
        "Returns the id of the entry added under a name.", "key producer name", "O(log n)") =>
        parse::original;
    ("stream.repeated", 2, WRITE, Keys::ONE,
        "Counts an add that has found its name.", "key", "O(1)") =>
        |a| one(a, Task::Repeated);
    ("stream.due", 5, READ, Keys::ONE,
        "Returns the entries of a group that are due, and new ones.", "key group min-idle-time count",
        "O(log n + m)") =>
        due;
    ("stream.handout", -6, GROWS, Keys::ONE,
        "Delivers these entries to a consumer.", "key group consumer ACK pending [id ...]",
        "O(log n) per entry") =>
        hand_out;
    ("stream.release", -7, WRITE, Keys::ONE,
        "Releases entries.", "key group SILENT IDS numids id", "O(log n) per entry") =>
        |a| bare(parse::release(a));
    ("stream.claim", -5, WRITE, Keys::ONE,
        "Claims entries.", "key group consumer min-idle-time [id ...]", "O(n)") =>
        |a| bare(parse::claim(a));
    ("stream.autoclaim", -6, WRITE, Keys::ONE,
        "Claims entries.", "key group consumer min-idle-time start", "O(n)") =>
        |a| bare(parse::auto_claim(a));
    ("stream.group", -4, GROWS, SECOND,
        "Manages a group.", "SETID key group id", "O(1)") =>
        |a| bare(parse::group(a));
    ("stream.info", 4, READ, SECOND,
        "Returns the consumers of a group.", "CONSUMERS key group", "O(n)") =>
        |a| bare(parse::info(a));
};
