//! Keyspace events: what a write has done to a key, in the names that Redis' documentation of keyspace
//! notifications gives.
//!
//! The events of an operation follow from its words, its reply, and the record before and after it. Types
//! that Redis does not have, those of other builds included, need no line here: their events are named after
//! their commands.

use super::{Op, Record, Value};
use crate::key::{Cause, KeyOp, When};
use crate::kinds::hash::Life;
use crate::kinds::stream::Task;
use crate::kinds::string::Expiry;
use crate::kinds::{hash, list, set, string, zset};
use crate::{ArgBuf, Ctx, Reply};
use smallvec::SmallVec;
use std::borrow::Cow;
use std::fmt;

/// A set of classes of events, and of the channels that tell them: `notify-keyspace-events`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes(u16);

impl Classes {
    /// No class.
    pub const NONE: Self = Self(0);
    /// `g`: operations that every key has.
    pub const GENERIC: Self = Self(1);
    /// `$`: strings.
    pub const STRING: Self = Self(1 << 1);
    /// `l`: lists.
    pub const LIST: Self = Self(1 << 2);
    /// `s`: sets.
    pub const SET: Self = Self(1 << 3);
    /// `h`: hashes.
    pub const HASH: Self = Self(1 << 4);
    /// `z`: sorted sets.
    pub const ZSET: Self = Self(1 << 5);
    /// `x`: keys that have expired.
    pub const EXPIRED: Self = Self(1 << 6);
    /// `e`: keys that were evicted, which never happens.
    const EVICTED: Self = Self(1 << 7);
    /// `t`: streams.
    pub const STREAM: Self = Self(1 << 8);
    /// `d`: types that Redis does not have.
    pub const OTHER: Self = Self(1 << 9);
    /// `n`: keys that come into being.
    pub const NEW: Self = Self(1 << 10);
    /// `K`: channels of keys.
    pub const KEYSPACE: Self = Self(1 << 11);
    /// `E`: channels of events.
    pub const KEYEVENT: Self = Self(1 << 12);
    /// `m`: reads of keys that are not there, which are not told.
    const MISSED: Self = Self(1 << 13);
    /// `A`: all classes but those of new and of missed keys.
    const ALL: Self = Self(Self::NEW.0 - 1);
    const CHANNELS: Self = Self(Self::KEYSPACE.0 | Self::KEYEVENT.0);

    /// Letters of the setting, in the order in which it is shown.
    const LETTERS: [(char, Self); 15] = [
        ('A', Self::ALL),
        ('g', Self::GENERIC),
        ('$', Self::STRING),
        ('l', Self::LIST),
        ('s', Self::SET),
        ('h', Self::HASH),
        ('z', Self::ZSET),
        ('x', Self::EXPIRED),
        ('e', Self::EVICTED),
        ('t', Self::STREAM),
        ('d', Self::OTHER),
        ('n', Self::NEW),
        ('K', Self::KEYSPACE),
        ('E', Self::KEYEVENT),
        ('m', Self::MISSED),
    ];

    /// Letters that the setting takes.
    pub const ALLOWED: &str = "Ag$lshzxeKEtmdn";

    /// Reads a value of the setting. `None` if it has another letter.
    pub fn parse(text: &str) -> Option<Self> {
        text.chars().try_fold(Self::NONE, |all, letter| {
            let found = Self::LETTERS.iter().find(|(known, _)| *known == letter);
            found.map(|(_, class)| Self(all.0 | class.0))
        })
    }

    /// The set with these bits, if [`Classes::bits`] can have given them.
    pub fn from_bits(bits: u16) -> Option<Self> {
        (bits < Self::MISSED.0 << 1).then_some(Self(bits))
    }

    /// The set as bits.
    pub fn bits(self) -> u16 {
        self.0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether all of `other` is in the set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Union of the sets.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Classes of which some channel tells.
    #[must_use]
    pub fn told(self) -> Self {
        let any = self.0 & Self::CHANNELS.0 != 0;
        if any { Self(self.0 & (Self::ALL.0 | Self::NEW.0)) } else { Self::NONE }
    }
}

impl fmt::Display for Classes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0;
        for (letter, class) in Self::LETTERS {
            if left & class.0 == class.0 {
                left &= !class.0;
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// An event: its class and its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The class.
    pub class: Classes,
    /// The name.
    pub name: Cow<'static, str>,
}

/// Events of an operation, in their order.
pub type Events = SmallVec<[Event; 2]>;

fn event(class: Classes, name: &'static str) -> Event {
    Event { class, name: Cow::Borrowed(name) }
}

fn generic(name: &'static str) -> Event {
    event(Classes::GENERIC, name)
}

/// Facts about the record under a key before a write, from which the events of the write follow.
#[derive(Clone, Copy, Debug)]
pub struct Before {
    present: bool,
    expires: bool,
    /// Number of parts that the write may add or remove without a word about it in its reply.
    extent: usize,
}

impl Before {
    /// Looks at the record under the key of a write.
    pub fn of(record: Option<&Record>, op: &Op) -> Self {
        Self {
            present: record.is_some(),
            expires: record.is_some_and(|record| record.expire_at_ms().is_some()),
            extent: extent(record, op),
        }
    }

    /// Events of the write, which was carried out on the record and has left it as `after`.
    pub fn events(
        self,
        op: &Op,
        (reply, changed): (&Reply, bool),
        after: Option<&Record>,
        ctx: &Ctx,
    ) -> Events {
        let mut events = Events::new();
        if !changed || reply.is_error() {
            return events;
        }
        // As in Redis, a command that puts a whole record makes the key anew.
        let moved = matches!(op, Op::Key(KeyOp::Put(_, Cause::Rename | Cause::Move | Cause::Copy)));
        if after.is_some() && (moved || !self.present) {
            events.push(event(Classes::NEW, "new"));
        }
        let extent = (self.extent, extent(after, op));
        match op {
            Op::Key(op) => key_events(op, after, &mut events),
            Op::String(op) => string_events(op, (self, after), &mut events),
            Op::Hash(op) => hash_events(op, ctx, &mut events),
            Op::List(op) => events.push(event(Classes::LIST, list_event(op))),
            Op::Set(op) => events.push(event(Classes::SET, set_event(op))),
            Op::ZSet(op) => events.push(event(Classes::ZSET, zset_event(op))),
            Op::Stream(task) => stream_events(task, extent, &mut events),
            op => events.extend(other_event(op)),
        }
        let names_its_end = matches!(op, Op::String(_))
            || matches!(op, Op::Key(op) if !matches!(op, KeyOp::ReapParts { .. }));
        if self.present && after.is_none() && !names_its_end {
            events.push(generic("del"));
        }
        events
    }
}

/// Number of what an operation on a stream may add or remove without a word about it in its reply.
fn extent(record: Option<&Record>, op: &Op) -> usize {
    let (Op::Stream(task), Some(Value::Stream(stream))) = (op, record.map(|r| &r.value)) else {
        return 0;
    };
    match &**task {
        Task::Add { trim: Some(_), .. } | Task::Forget { .. } => stream.entry_count(),
        Task::ReadGroup { group, .. }
        | Task::HandOut { group, .. }
        | Task::Claim { group, .. }
        | Task::AutoClaim { group, .. } => stream.consumer_count(group),
        _ => 0,
    }
}

fn key_events(op: &KeyOp, after: Option<&Record>, events: &mut Events) {
    events.push(match op {
        KeyOp::Del => generic("del"),
        KeyOp::Leave(cause) => generic(cause.left()),
        KeyOp::Expire { .. } if after.is_none() => generic("del"),
        KeyOp::Expire { .. } => generic("expire"),
        KeyOp::Persist => generic("persist"),
        KeyOp::Put(_, cause) => event(class_of(*cause), cause.came()),
        KeyOp::Reap { .. } => event(Classes::EXPIRED, "expired"),
        KeyOp::ReapParts { .. } => event(Classes::HASH, "hexpired"),
        _ => return,
    });
}

fn class_of(cause: Cause) -> Classes {
    match cause {
        Cause::Rename | Cause::Move | Cause::Copy => Classes::GENERIC,
        Cause::Sort => Classes::LIST,
        Cause::Inter | Cause::Union | Cause::Diff => Classes::SET,
        Cause::RankedInter | Cause::RankedUnion | Cause::RankedDiff | Cause::RankedRange => {
            Classes::ZSET
        }
    }
}

fn string_events(op: &string::Op, (before, after): (Before, Option<&Record>), events: &mut Events) {
    use string::Op;
    if after.is_none() {
        return events.push(generic("del"));
    }
    let expires = match op {
        Op::Set { expiry, .. } => matches!(expiry, Expiry::Set(_)),
        Op::GetEx(expiry) => {
            let clears = *expiry == Expiry::Clear && before.expires;
            events.extend(clears.then(|| generic("persist")));
            matches!(expiry, Expiry::Set(_))
        }
        Op::Increment(increment) => {
            matches!(increment.expiry, Expiry::Set(_))
                && !(increment.only_without && before.expires)
        }
        _ => false,
    };
    let name = match op {
        Op::Set { .. } => Some("set"),
        Op::Incr(_) => Some("incrby"),
        Op::IncrFloat(_) => Some("incrbyfloat"),
        Op::Increment(increment) => Some(match increment.by {
            string::By::Int { .. } => "incrby",
            string::By::Float { .. } => "incrbyfloat",
        }),
        Op::Append(_) => Some("append"),
        Op::SetRange(..) => Some("setrange"),
        Op::SetBit(..) | Op::BitField(_) => Some("setbit"),
        _ => None,
    };
    events.extend(name.map(|name| event(Classes::STRING, name)));
    events.extend(expires.then(|| generic("expire")));
}

fn hash_events(op: &hash::Op, ctx: &Ctx, events: &mut Events) {
    use hash::Op;
    // Fields whose moment has passed are removed at once.
    let until = |at: &When| if at.resolve(ctx.now_ms) <= ctx.now_ms { "hdel" } else { "hexpire" };
    let (name, then) = match op {
        Op::Remove(_) | Op::Take(_) => ("hdel", None),
        Op::Incr(..) => ("hincrby", None),
        Op::IncrFloat(..) => ("hincrbyfloat", None),
        Op::Expire(_, at, _) | Op::GetUntil(_, Some(at)) => (until(at), None),
        Op::Persist(_) | Op::GetUntil(_, None) => ("hpersist", None),
        Op::SetUntil { life: Life::Until(at), .. } => ("hset", Some(until(at))),
        _ => ("hset", None),
    };
    events.extend([Some(name), then].into_iter().flatten().map(|name| event(Classes::HASH, name)));
}

fn list_event(op: &list::Op) -> &'static str {
    use list::{End, Op};
    match op {
        Op::Push(End::Left, _) | Op::PushIfPresent(End::Left, _) => "lpush",
        Op::Push(End::Right, _) | Op::PushIfPresent(End::Right, _) => "rpush",
        Op::Pop(End::Left, _) => "lpop",
        Op::Pop(End::Right, _) => "rpop",
        Op::Insert { .. } => "linsert",
        Op::Remove(..) => "lrem",
        Op::Trim(..) => "ltrim",
        _ => "lset",
    }
}

fn set_event(op: &set::Op) -> &'static str {
    match op {
        set::Op::Remove(_) => "srem",
        set::Op::Pop(_) => "spop",
        _ => "sadd",
    }
}

fn zset_event(op: &zset::Op) -> &'static str {
    use zset::{Op, Range};
    match op {
        Op::Incr { .. } => "zincr",
        Op::Remove(_) => "zrem",
        Op::RemoveRange(Range::Score(_)) => "zremrangebyscore",
        Op::RemoveRange(Range::Lex(_)) => "zremrangebylex",
        Op::RemoveRange(Range::Rank(..)) => "zremrangebyrank",
        Op::Pop { high, .. } | Op::Take { high, .. } => {
            if *high {
                "zpopmax"
            } else {
                "zpopmin"
            }
        }
        _ => "zadd",
    }
}

fn stream_events(task: &Task, (before, after): (usize, usize), events: &mut Events) {
    let name = match task {
        Task::Add { .. } => Some("xadd"),
        Task::Delete(_) => Some("xdel"),
        Task::Forget { .. } => (after < before).then_some("xdel"),
        Task::Trim(_) => Some("xtrim"),
        Task::SetId { .. } => Some("xsetid"),
        Task::CreateGroup { .. } => Some("xgroup-create"),
        Task::MoveGroup { .. } => Some("xgroup-setid"),
        Task::DestroyGroup(_) => Some("xgroup-destroy"),
        Task::CreateConsumer(..) => Some("xgroup-createconsumer"),
        Task::DeleteConsumer(..) => Some("xgroup-delconsumer"),
        Task::ReadGroup { .. }
        | Task::HandOut { .. }
        | Task::Claim { .. }
        | Task::AutoClaim { .. } => (after > before).then_some("xgroup-createconsumer"),
        _ => None,
    };
    let trims = matches!(task, Task::Add { trim: Some(_), .. }) && after <= before;
    let then = trims.then_some("xtrim");
    events.extend([name, then].into_iter().flatten().map(|name| event(Classes::STREAM, name)));
}

/// Commands in the place of forms that only the log uses; none of those that clients do not see.
const INTERNAL: [(&[u8], Option<&str>); 8] = [
    (b"lock.claim", Some("lock.acquire")),
    (b"lock.pass", Some("lock.section")),
    (b"lock.name", None),
    (b"lock.unname", None),
    (b"lock.forget", None),
    (b"barrier.pass", Some("barrier.wait")),
    (b"log.put", Some("log.append")),
    (b"uid.give", Some("uid.next")),
];

/// Event of an operation of a type that Redis does not have, named after its command.
fn other_event(op: &Op) -> Option<Event> {
    let name = match op {
        Op::Composed(op) => Cow::Owned(op.called()),
        op => {
            let mut words = ArgBuf::new();
            op.encode(b"", &mut words);
            let words = words.args();
            let name = words.get(0).unwrap_or_default();
            match INTERNAL.iter().find(|(internal, _)| *internal == name) {
                Some((_, command)) => Cow::Borrowed((*command)?),
                None => Cow::Owned(String::from_utf8_lossy(name).to_lowercase()),
            }
        }
    };
    Some(Event { class: Classes::OTHER, name })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::record::{carry_out, decode};

    const NOW_MS: u64 = 1_000_000;

    /// Classes and names of the events of commands on one key, one after another.
    fn told(lines: &[&str]) -> Vec<String> {
        let (mut slot, mut all) = (None, Vec::new());
        for (at, line) in lines.iter().enumerate() {
            let (_, op) = decode(&ArgBuf::of(line.split(' ')).args()).expect(line);
            let ts = Timestamp::from_micros(NOW_MS * 1_000 + at as u64);
            let ctx = Ctx { now_ms: NOW_MS, ts, seed: 7 };
            let before = Before::of(slot.as_ref(), &op);
            let (reply, changed) = carry_out(&mut slot, &op, &ctx);
            let events = before.events(&op, (&reply, changed), slot.as_ref(), &ctx);
            all.extend(events.iter().map(|event| format!("{} {}", event.class, event.name)));
        }
        all
    }

    #[test]
    fn operations_have_the_events_of_redis() {
        for (lines, events) in [
            (&["set k 1", "incrby k 2"][..], &["n new", "$ set", "$ incrby"][..]),
            (&["set k 1 nx", "set k 2 nx"], &["n new", "$ set"]),
            (&["set k 1 px 5000", "persist k"], &["n new", "$ set", "g expire", "g persist"]),
            (&["set k x", "incrby k 1", "del k", "del k"], &["n new", "$ set", "g del"]),
            (&["append k x", "getdel k"], &["n new", "$ append", "g del"]),
            (
                &["set k 1", "getex k px 1000", "getex k persist"],
                &["n new", "$ set", "g expire", "g persist"],
            ),
            (&["set k 1", "pexpire k 100", "pexpire k 50 gt"], &["n new", "$ set", "g expire"]),
            (&["set k 1", "pexpireat k 5"], &["n new", "$ set", "g del"]),
            (&["set k 1 pxat 5", "set k 1"], &["n new", "$ set"]),
            (
                &["setbit k 1 1", "setbit k 1 1", "setrange k 2 x"],
                &["n new", "$ setbit", "$ setrange"],
            ),
            (
                &["rpush k a b", "lpush k c", "lset k 0 d", "linsert k before d e", "lrem k 0 a"],
                &["n new", "l rpush", "l lpush", "l lset", "l linsert", "l lrem"],
            ),
            (&["rpush k a", "rpop k"], &["n new", "l rpush", "l rpop", "g del"]),
            (
                &["lpushx k a", "rpush k a", "ltrim k 5 6"],
                &["n new", "l rpush", "l ltrim", "g del"],
            ),
            (
                &["sadd k a", "sadd k a", "srem k b", "srem k a"],
                &["n new", "s sadd", "s srem", "g del"],
            ),
            (&["sadd k a b", "spop k"], &["n new", "s sadd", "s spop"]),
            (
                &["zadd k 1 a", "zadd k 1 a", "zincrby k 1 a", "zpopmin k"],
                &["n new", "z zadd", "z zincr", "z zpopmin", "g del"],
            ),
            (
                &["zadd k 1 a 2 b 3 c", "zremrangebyrank k 0 0", "zremrangebyscore k 2 2"],
                &["n new", "z zadd", "z zremrangebyrank", "z zremrangebyscore"],
            ),
            (
                &["hset k f 1", "hincrby k f 1", "hincrbyfloat k f 1.5", "hdel k f"],
                &["n new", "h hset", "h hincrby", "h hincrbyfloat", "h hdel", "g del"],
            ),
            (
                &["hset k f 1 g 1", "hpexpire k 100 fields 1 f", "hpersist k fields 1 f"],
                &["n new", "h hset", "h hexpire", "h hpersist"],
            ),
            (&["hset k f 1", "hpexpireat k 5 fields 1 f"], &["n new", "h hset", "h hdel", "g del"]),
            (
                &["hset k f 1", "hpexpire k 1 fields 1 f", "record.reap-parts k 2000000 9"],
                &["n new", "h hset", "h hexpire", "h hexpired", "g del"],
            ),
            (
                &["set k 1 pxat 2000000", "record.reap k 2000000"],
                &["n new", "$ set", "g expire", "x expired"],
            ),
            (&["set k 1", "record.leave k rename_from"], &["n new", "$ set", "g rename_from"]),
            (
                &["record.put k rename_to set -1 1 a", "record.put k rename_to set -1 1 a"],
                &["n new", "g rename_to", "n new", "g rename_to"],
            ),
            (
                &["set k 1", "record.put k sinterstore set -1 1 a"],
                &["n new", "$ set", "s sinterstore"],
            ),
        ] {
            assert_eq!(told(lines), events, "{lines:?}");
        }
    }

    #[test]
    fn operations_on_streams_have_the_events_of_redis() {
        for (lines, events) in [
            (
                &["xadd k 1-1 f v", "xadd k maxlen = 1 2-1 f v", "xadd k maxlen = 9 3-1 f v"][..],
                &["n new", "t xadd", "t xadd", "t xtrim", "t xadd"][..],
            ),
            (
                &["xadd k 1-1 f v", "xdel k 1-1", "xdel k 1-1", "xsetid k 9-9"],
                &["n new", "t xadd", "t xdel", "t xsetid"],
            ),
            (
                &["xgroup create k g 0 mkstream", "stream.group createconsumer k g c"],
                &["n new", "t xgroup-create", "t xgroup-createconsumer"],
            ),
            (
                &["xgroup create k g 0 mkstream", "stream.group setid k g 0", "xgroup destroy k g"],
                &["n new", "t xgroup-create", "t xgroup-setid", "t xgroup-destroy"],
            ),
        ] {
            assert_eq!(told(lines), events, "{lines:?}");
        }
    }

    #[test]
    fn events_of_other_types_are_named_after_their_commands() {
        assert_eq!(
            told(&["counter.add k 5", "counter.try k -1"]),
            ["n new", "d counter.add", "d counter.try",]
        );
        assert_eq!(
            told(&["topk.init k 5", "topk.put k a 1"]),
            ["n new", "d topk.init", "d topk.put"]
        );
        assert_eq!(told(&["lock.claim k ticket"]), ["n new", "d lock.acquire"]);
    }

    #[test]
    fn classes_are_shown_in_the_order_of_redis() {
        for (text, shown) in [
            ("", ""),
            ("KEA", "AKE"),
            ("mnEKxg", "gxnKEm"),
            ("KEg$lshztxen", "g$lshzxetnKE"),
            ("g$lshzxetd", "A"),
            ("KEAn", "AnKE"),
            ("dnK", "dnK"),
        ] {
            let classes = Classes::parse(text).expect("letters");
            assert_eq!(classes.to_string(), shown, "{text}");
            assert_eq!(Classes::parse(shown), Some(classes), "{text}");
            assert_eq!(Classes::from_bits(classes.bits()), Some(classes), "{text}");
        }
        assert_eq!(Classes::parse("KEq"), None);
        assert_eq!(Classes::from_bits(u16::MAX), None);
        assert!(
            Classes::parse("Aex").is_some_and(|classes| classes.told().is_empty()),
            "no channel"
        );
        let expired = Classes::parse("Ex").map(Classes::told);
        assert_eq!(expired, Some(Classes::EXPIRED));
    }
}
