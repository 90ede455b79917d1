//! Set: distinct members without order.
//!
//! Adds of any members commute with each other, and so do removals; an add and a removal, or a
//! change and a read, conflict only if they name the same member and the state does not already
//! make one of them a no-op. All rules look at single members, so they are stable for any number
//! of holders. Replies and limits follow the Redis documentation of the `S...` commands.

mod ranked;
#[cfg(test)]
mod tests;

use crate::collections::{self, Compact, Large};
use crate::command::commands;
use crate::command::scan::ScanArgs;
use crate::key::sort::{ElementsOf, Sortable};
use crate::key::{Cause, KeyOp};
use crate::random;
use crate::random::Random;
use crate::{
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Compound, Corrupt, Ctx, DataType, ErrorReply,
    Flags, Forecast, Foresight, Keys, Merge, Meta, Op as AnyOp, Plan, Record, Reply,
    Value as AnyValue, ValueSink, ValueSource, load_count,
};
use ranked::Ranked;
use smallvec::SmallVec;
use std::fmt;
use std::sync::Arc;

/// Members named by one operation; one is the usual number.
pub type Members = SmallVec<[Blob; 1]>;

/// The state: members in order of insertion. Sets with the same members are equal.
#[derive(Clone, Default, PartialEq)]
pub struct Value {
    /// Beside them the members by rank, from the first [`Op::Pop`] on.
    members: Compact<(), Option<Ranked>>,
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted: Vec<Blob> = self.all().collect();
        sorted.sort_unstable();
        f.debug_set().entries(sorted).finish()
    }
}

/// Operations on a set.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Adds members; answers how many are new.
    Add(Members),
    /// Removes members; answers how many were there.
    Remove(Members),
    /// Removes and answers arbitrary members: one, or up to a number.
    Pop(Option<u64>),
    /// 1 if the member is in the set.
    Contains(Blob),
    /// 1 or 0 for each member.
    ContainsEach(Members),
    /// Number of members.
    Card,
    /// All members.
    All,
    /// Arbitrary members: one; or distinct ones up to a number; or, for a negative number, that
    /// many with repetitions.
    Random(Option<i64>),
    /// One step of an iteration.
    Scan(ScanArgs),
}

/// Parts of a set that an operation reads and changes, for the commutativity rules.
enum Touch<'a> {
    Nothing,
    Members(&'a [Blob]),
    Everything,
}

impl Touch<'_> {
    fn meets(&self, member: &Blob) -> bool {
        match self {
            Self::Nothing => false,
            Self::Members(members) => members.contains(member),
            Self::Everything => true,
        }
    }
}

fn looks(access: Access<'_, Op>) -> Touch<'_> {
    if !access.observed && Value::is_write(access.op) && !matches!(access.op, Op::Pop(_)) {
        return Touch::Nothing;
    }
    match access.op {
        Op::Add(m) | Op::Remove(m) | Op::ContainsEach(m) => Touch::Members(m),
        Op::Contains(m) => Touch::Members(std::slice::from_ref(m)),
        Op::Pop(_) | Op::Card | Op::All | Op::Random(_) | Op::Scan(_) => Touch::Everything,
    }
}

impl Value {
    fn all(&self) -> impl Iterator<Item = Blob> {
        self.members.iter().map(|(member, ())| member)
    }

    /// Members of a choice that are in the set.
    fn part(&self, members: &Members) -> Self {
        let there = members.iter().filter(|member| self.members.contains(member));
        Self { members: there.map(|member| (member.clone(), ())).collect() }
    }

    fn ranked(&mut self) -> Option<&mut Ranked> {
        self.members.as_large()?.beside.as_mut()
    }

    /// Whether `write` leaves every part that `touch` depends on as it is.
    fn unseen(&self, write: &Op, touch: &Touch<'_>) -> bool {
        match write {
            Op::Add(added) => added.iter().all(|m| !touch.meets(m) || self.members.contains(m)),
            Op::Remove(removed) => {
                removed.iter().all(|m| !touch.meets(m) || !self.members.contains(m))
            }
            Op::Pop(_) => matches!(touch, Touch::Nothing),
            _ => true,
        }
    }

    fn insert(&mut self, member: &Blob) -> bool {
        let is_new = self.members.insert(member, ());
        if is_new && let Some(ranked) = self.ranked() {
            ranked.insert(member);
        }
        is_new
    }

    fn remove(&mut self, member: &Blob) -> bool {
        let was_there = self.members.remove(member);
        if was_there && let Some(ranked) = self.ranked() {
            ranked.remove(member);
        }
        was_there
    }

    /// Takes members; the choice depends on the seed and the members alone.
    fn pop(&mut self, count: u64, seed: u64) -> Vec<Blob> {
        let mut random = Random(seed);
        if count >= self.members.len() as u64 {
            let mut taken: Vec<Blob> = self.all().collect();
            self.members = Compact::default();
            taken.sort_unstable();
            return taken;
        }
        let mut taken = Vec::new();
        let Large { entries, beside } = self.members.make_large();
        let ranked =
            beside.get_or_insert_with(|| Ranked::of(entries.iter().map(|(member, ())| member)));
        while (taken.len() as u64) < count {
            let Some(member) = ranked.take(random.below(entries.len())) else { break };
            entries.remove(&member);
            taken.push(member);
        }
        taken
    }

    fn random(&self, count: i64, seed: u64) -> Vec<Reply> {
        let chosen = random::choose(self.members.len(), count, seed);
        let members = chosen.into_iter().filter_map(|i| self.members.at(i));
        members.map(|(member, ())| Reply::Bulk(member)).collect()
    }

    /// Reply of a write that is not carried out: that of the members that it names.
    fn foretell(&self, op: &Op, ctx: &Ctx) -> Option<Reply> {
        // A pop may have to rank the members first.
        let (Op::Add(members) | Op::Remove(members)) = op else { return None };
        Some(self.part(members).apply(op, ctx, &mut Meta::default()))
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "set";
    const FORECAST: Option<Forecast<Self, Op>> =
        Some(Forecast { reply: Self::foretell, is_always_possible: |_| true });
    const ELEMENTS: Option<ElementsOf<Self>> = Some(|value| Sortable {
        count: value.members.len(),
        ordered: false,
        items: Box::new(value.all()),
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |op| !matches!(op, Op::Pop(_)),
        follows_in_time: |op| !matches!(op, Op::Pop(_)),
        cost: |value| value.members.len(),
    });

    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] =
        &["read", "add", "remove", "add+reply", "remove+reply", "pop"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0b100, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Add(_) | Op::Remove(_) | Op::Pop(_))
    }

    fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        let has = |m: &Blob| Reply::Int(i64::from(self.members.contains(m)));
        match op {
            Op::Contains(member) => has(member),
            Op::ContainsEach(members) => Reply::Array(members.iter().map(has).collect()),
            Op::Card => Reply::Int(self.members.len() as i64),
            Op::All => Reply::Set(self.all().map(Reply::Bulk).collect()),
            Op::Random(None) => self.random(1, ctx.seed).pop().unwrap_or(Reply::Nil),
            Op::Random(Some(count)) => Reply::Array(self.random(*count, ctx.seed)),
            Op::Scan(scan) => scan.run(self.members.len(), |i, found| {
                if let Some((member, ())) = self.members.at(i)
                    && scan.passes(&member)
                {
                    found.push(Reply::Bulk(member));
                }
            }),
            Op::Add(_) | Op::Remove(_) | Op::Pop(_) => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.members.len();
        let reply = match op {
            Op::Add(members) => {
                let mut added = 0;
                for member in members {
                    added += i64::from(self.insert(member));
                }
                Reply::Int(added)
            }
            Op::Remove(members) => {
                let mut removed = 0;
                for member in members {
                    removed += i64::from(self.remove(member));
                }
                Reply::Int(removed)
            }
            Op::Pop(None) => self.pop(1, ctx.seed).pop().map_or(Reply::Nil, Reply::Bulk),
            Op::Pop(Some(count)) => {
                Reply::Set(self.pop(*count, ctx.seed).into_iter().map(Reply::Bulk).collect())
            }
            read => self.query(read, ctx),
        };
        meta.untouched = self.members.len() == before;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn idle(&self, op: &Op, _now_ms: u64) -> Option<Reply> {
        self.unseen(op, &Touch::Everything).then_some(Reply::Int(0))
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let states = match (a.op, b.op) {
            (Op::Add(x), Op::Remove(y)) | (Op::Remove(y), Op::Add(x)) => {
                x.iter().all(|m| !y.contains(m))
            }
            (Op::Pop(_), other) | (other, Op::Pop(_)) => !Self::is_write(other),
            _ => true,
        };
        states && self.unseen(a.op, &looks(b)) && self.unseen(b.op, &looks(a))
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match (access.op, access.observed) {
            (Op::Add(_), false) => 1,
            (Op::Remove(_), false) => 2,
            (Op::Add(_), true) => 3,
            (Op::Remove(_), true) => 4,
            (Op::Pop(_), _) => 5,
            _ => 0,
        }
    }

    fn chosen_first(key: &Blob, op: &Op) -> Option<Compound> {
        let Op::Pop(count) = op else { return None };
        let (target, several) = (key.clone(), count.is_some());
        let plan = move |replies: &[Reply]| {
            let Some(Reply::Array(chosen)) = replies.first() else {
                let reply = replies.first().cloned().unwrap_or(Reply::Nil);
                return Plan { writes: Vec::new(), reply };
            };
            let members: Members = chosen.iter().filter_map(member).collect();
            let mut writes = Vec::new();
            if !members.is_empty() {
                writes.push((target.clone(), AnyOp::Set(Op::Remove(members))));
            }
            let one = chosen.first().cloned().unwrap_or(Reply::Nil);
            Plan { writes, reply: if several { Reply::Set(chosen.clone()) } else { one } }
        };
        let count = i64::try_from(count.unwrap_or(1)).unwrap_or(i64::MAX);
        let reads = vec![(key.clone(), AnyOp::Set(Op::Random(Some(count))))];
        Some(Compound::new(reads, plan))
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        let join = |a: &Members, b: &Members| {
            let mut all = a.clone();
            all.extend(b.iter().filter(|m| !a.contains(m)).cloned());
            all
        };
        match (earlier, next) {
            (Op::Add(a), Op::Add(b)) => Some(Op::Add(join(a, b))),
            (Op::Remove(a), Op::Remove(b)) => Some(Op::Remove(join(a, b))),
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        let name = match op {
            Op::Add(_) => "sadd",
            Op::Remove(_) => "srem",
            Op::Pop(_) => "spop",
            Op::Contains(_) => "sismember",
            Op::ContainsEach(_) => "smismember",
            Op::Card => "scard",
            Op::All => "smembers",
            Op::Random(_) => "srandmember",
            Op::Scan(_) => "sscan",
        };
        out.push(name).push(key);
        match op {
            Op::Add(members) | Op::Remove(members) | Op::ContainsEach(members) => {
                for member in members {
                    out.push(member);
                }
            }
            Op::Contains(member) => {
                out.push(member);
            }
            Op::Pop(Some(count)) => {
                out.push_int(*count as i64);
            }
            Op::Random(Some(count)) => {
                out.push_int(*count);
            }
            Op::Scan(scan) => scan.encode(out),
            Op::Pop(None) | Op::Random(None) | Op::Card | Op::All => {}
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.members.len() as u64);
        for member in self.all() {
            sink.bytes(&member);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = load_count(source, 1)?;
        let mut value = Self::default();
        for _ in 0..count {
            if !value.members.insert(&Blob::new(source.bytes()?), ()) {
                return Err(Corrupt);
            }
        }
        Ok(value)
    }
}

fn member(reply: &Reply) -> Option<Blob> {
    match reply {
        Reply::Bulk(member) => Some(member.clone()),
        _ => None,
    }
}

fn members(args: &Args<'_>) -> Members {
    args.iter_from(2).map(Blob::new).collect()
}

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Set(op)))
}

fn parse_pop(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        2 => None,
        3 => Some(args.count(2)?),
        _ => return Err(ErrorReply::syntax()),
    };
    one(args, Op::Pop(count))
}

fn parse_random(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let count = match args.len() {
        2 => None,
        3 => Some(args.int(2)?),
        _ => return Err(ErrorReply::syntax()),
    };
    if count.is_some_and(|c| c < 0 && c.unsigned_abs() > random::REPEATED_MAX) {
        return Err(ErrorReply::err("value is out of range, at least -1000000"));
    }
    one(args, Op::Random(count))
}

#[derive(Clone, Copy)]
enum Algebra {
    Inter,
    Union,
    Diff,
}

impl Algebra {
    fn cause(self) -> Cause {
        match self {
            Self::Inter => Cause::Inter,
            Self::Union => Cause::Union,
            Self::Diff => Cause::Diff,
        }
    }
}

/// The set that results from the members of the sources, or the first error among the replies.
fn combine_sets(algebra: Algebra, replies: &[Reply]) -> Result<Vec<Blob>, ErrorReply> {
    let mut sources = Vec::with_capacity(replies.len());
    for reply in replies {
        match reply {
            Reply::Set(members) => {
                let blobs = members.iter().filter_map(member);
                sources.push(blobs.collect::<collections::Set<Blob>>());
            }
            Reply::Error(error) => return Err(error.clone()),
            _ => sources.push(collections::Set::default()),
        }
    }
    let Some((first, rest)) = sources.split_first() else { return Ok(Vec::new()) };
    Ok(match algebra {
        Algebra::Inter => {
            first.iter().filter(|m| rest.iter().all(|s| s.contains(*m))).cloned().collect()
        }
        Algebra::Diff => {
            first.iter().filter(|m| !rest.iter().any(|s| s.contains(*m))).cloned().collect()
        }
        Algebra::Union => {
            let mut all = first.clone();
            all.extend(rest.iter().flatten().cloned());
            all.into_iter().collect()
        }
    })
}

fn sources<'a>(keys: impl Iterator<Item = &'a [u8]>) -> Vec<(Blob, AnyOp)> {
    keys.map(|key| (Blob::new(key), AnyOp::Set(Op::All))).collect()
}

fn parse_algebra(args: &Args<'_>, algebra: Algebra) -> Result<Command, ErrorReply> {
    let merge = move |replies: Vec<Reply>| match combine_sets(algebra, &replies) {
        Ok(members) => Reply::Set(members.into_iter().map(Reply::Bulk).collect()),
        Err(error) => Reply::Error(error),
    };
    Ok(Command::Multi { ops: sources(args.iter_from(1)), merge: Merge::With(Arc::new(merge)) })
}

fn parse_intercard(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let keys = Keys::Counted { at: 1, also: 0 }.positions(args)?;
    let after = 2 + keys.len();
    let limit = match args.len() - after {
        0 => 0,
        2 if args.is(after, "LIMIT") => {
            args.at_least(after + 1, 0, "LIMIT can't be negative")? as usize
        }
        _ => return Err(ErrorReply::syntax()),
    };
    let merge = move |replies: Vec<Reply>| match combine_sets(Algebra::Inter, &replies) {
        Ok(members) if limit > 0 => Reply::Int(members.len().min(limit) as i64),
        Ok(members) => Reply::Int(members.len() as i64),
        Err(error) => Reply::Error(error),
    };
    let ops = sources(keys.into_iter().filter_map(|i| args.get(i)));
    Ok(Command::Multi { ops, merge: Merge::With(Arc::new(merge)) })
}

fn parse_store(args: &Args<'_>, algebra: Algebra) -> Result<Command, ErrorReply> {
    let target = args.blob(1)?;
    let plan = move |replies: &[Reply]| match combine_sets(algebra, replies) {
        Err(error) => Plan { writes: Vec::new(), reply: Reply::Error(error) },
        Ok(members) => {
            let reply = Reply::Int(members.len() as i64);
            let op = if members.is_empty() {
                KeyOp::Del
            } else {
                let members = members.into_iter().map(|member| (member, ()));
                let value = Value { members: members.collect() };
                KeyOp::Put(Box::new(Record::new(AnyValue::Set(value))), algebra.cause())
            };
            Plan { writes: vec![(target.clone(), AnyOp::Key(op))], reply }
        }
    };
    Ok(Command::Compound(Compound::new(sources(args.iter_from(2)), plan)))
}

fn parse_move(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (from, to, member) = (args.blob(1)?, args.blob(2)?, args.blob(3)?);
    let reads = vec![
        (from.clone(), AnyOp::Key(KeyOp::Exists)),
        (from.clone(), AnyOp::Set(Op::Contains(member.clone()))),
        (to.clone(), AnyOp::Set(Op::Contains(member.clone()))),
    ];
    let plan = move |replies: &[Reply]| {
        let nothing = |reply: &Reply| Plan { writes: Vec::new(), reply: reply.clone() };
        let [absent, replies @ ..] = replies else { return nothing(&Reply::Int(0)) };
        // Without a source, the target may be of another type.
        if *absent == Reply::Int(0) {
            return nothing(absent);
        }
        if let Some(error) = replies.iter().find(|r| r.is_error()) {
            return nothing(error);
        }
        let there = replies.first() == Some(&Reply::Int(1));
        let members: Members = [member.clone()].into_iter().collect();
        let writes = if there && from != to {
            vec![
                (from.clone(), AnyOp::Set(Op::Remove(members.clone()))),
                (to.clone(), AnyOp::Set(Op::Add(members))),
            ]
        } else {
            Vec::new()
        };
        Plan { writes, reply: Reply::Int(i64::from(there)) }
    };
    Ok(Command::Compound(Compound::new(reads, plan)))
}

const READ: Flags = Flags::READ;
const FAST_READ: Flags = Flags::READ.and(Flags::FAST);
const FAST_WRITE: Flags = Flags::WRITE.and(Flags::FAST);
const GROWS: Flags = Flags::WRITE.and(Flags::GROWS);

const COMMANDS: &[CommandSpec] = commands! { "set";
    ("sadd", -3, GROWS.and(Flags::FAST), Keys::ONE,
        "Adds members to a set.", "key member [member ...]", "O(1) per member") =>
        |a| one(a, Op::Add(members(a)));
    ("srem", -3, FAST_WRITE, Keys::ONE,
        "Removes members from a set.", "key member [member ...]", "O(1) per member") =>
        |a| one(a, Op::Remove(members(a)));
    ("spop", -2, FAST_WRITE, Keys::ONE,
        "Removes and returns arbitrary members.", "key [count]", "O(1) per member") =>
        parse_pop;
    ("sismember", 3, FAST_READ, Keys::ONE,
        "Returns whether a member is in a set.", "key member", "O(1)") =>
        |a| one(a, Op::Contains(a.blob(2)?));
    ("smismember", -3, FAST_READ, Keys::ONE,
        "Returns for each member whether it is in a set.", "key member [member ...]", "O(1) per member") =>
        |a| one(a, Op::ContainsEach(members(a)));
    ("scard", 2, FAST_READ, Keys::ONE,
        "Counts the members of a set.", "key", "O(1)") =>
        |a| one(a, Op::Card);
    ("smembers", 2, READ, Keys::ONE,
        "Returns all members of a set.", "key", "O(n)") =>
        |a| one(a, Op::All);
    ("srandmember", -2, READ, Keys::ONE,
        "Returns arbitrary members.", "key [count]", "O(n)") =>
        parse_random;
    ("sscan", -3, READ, Keys::ONE,
        "Iterates over the members of a set.", "key cursor [MATCH pattern] [COUNT count]", "O(1) per step") =>
        |a| one(a, Op::Scan(ScanArgs::parse(a, 2)?));
    ("smove", 4, FAST_WRITE, Keys::TWO,
        "Moves a member to another set.", "source destination member", "O(1)") =>
        parse_move;
    ("sinter", -2, READ, Keys::ALL,
        "Intersects sets.", "key [key ...]", "O(n) in all members") =>
        |a| parse_algebra(a, Algebra::Inter);
    ("sunion", -2, READ, Keys::ALL,
        "Unites sets.", "key [key ...]", "O(n) in all members") =>
        |a| parse_algebra(a, Algebra::Union);
    ("sdiff", -2, READ, Keys::ALL,
        "Returns the members of the first set that the others lack.", "key [key ...]",
        "O(n) in all members") =>
        |a| parse_algebra(a, Algebra::Diff);
    ("sintercard", -3, READ, Keys::Counted { at: 1, also: 0 },
        "Counts the members of an intersection.", "numkeys key [key ...] [LIMIT limit]",
        "O(n) in all members") =>
        parse_intercard;
    ("sinterstore", -3, GROWS, Keys::ALL,
        "Stores an intersection.", "destination key [key ...]", "O(n) in all members") =>
        |a| parse_store(a, Algebra::Inter);
    ("sunionstore", -3, GROWS, Keys::ALL,
        "Stores a union.", "destination key [key ...]", "O(n) in all members") =>
        |a| parse_store(a, Algebra::Union);
    ("sdiffstore", -3, GROWS, Keys::ALL,
        "Stores a difference.", "destination key [key ...]", "O(n) in all members") =>
        |a| parse_store(a, Algebra::Diff);
};
