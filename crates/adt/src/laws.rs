//! The laws of a data type, checked by enumeration over small domains.
//!
//! From a list of sample operations: states that a few writes can reach, and all pairs and triples
//! of accesses, observed and void. Accesses that are declared to commute must give the same final
//! state and the same observed replies in every order; for triples this is the practical meaning of
//! "stable for any number of holders". Further laws: operations and states read back as written, an idle
//! operation changes nothing, and a reply that is known ahead is the one that the write has.
//!
//! Types that are registered ([`crate::extension`]) are checked in the same way, by the tests of the program
//! that adds them.

pub mod foretold;

#[cfg(test)]
use crate::escrow::Outstanding;
use crate::key::{Cause, ExpireIf, KeyOp, TtlForm, When};
#[cfg(test)]
use crate::record::amount;
use crate::record::{
    apply, carry_out, commutes, decode, follows_in_time, idle, is_foreseeable, mode,
};
use crate::{Access, ArgBuf, Blob, Ctx, DataType, Op, Record, Reply, Timestamp};

const KEY: &[u8] = b"key";

/// Most states per type: the first ones that a breadth-first walk finds.
const STATES_MAX: usize = 300;

type Slot = Option<Record>;

struct Act {
    op: Op,
    observed: bool,
}

impl Act {
    fn access(&self) -> Access<'_, Op> {
        Access { op: &self.op, observed: self.observed }
    }
}

/// Context of the operation at one place of a tuple: it stays with the operation in every order.
fn ctx(place: usize) -> Ctx {
    let place = place as u64;
    Ctx { now_ms: 1000 + 1000 * place, ts: Timestamp::from_micros(place), seed: 77 * place }
}

/// Checks that each operation reads back from the words it is written as.
///
/// # Panics
/// If one does not.
pub fn check_words(ops: &[Op]) {
    for op in ops {
        let mut words = ArgBuf::new();
        op.encode(KEY, &mut words);
        let read = decode(&words.args());
        assert_eq!(read, Ok((Blob::new(KEY), op.clone())), "{op:?} as {words:?}");
    }
}

/// Checks the laws for sample operations `ops` in the states that up to `depth` writes reach (300 at most).
///
/// # Panics
/// If a law is broken, with the operations and the state.
pub fn check_laws<T: DataType>(ops: &[T::Op], depth: usize) {
    let ops: Vec<Op> = ops.iter().map(generalized::<T>).chain(key_ops()).collect();
    check_words(&ops);
    let states = reachable(&ops, depth, T::NAME);
    assert!(states.len() > 2, "the samples reach too few states");
    let puts: Vec<Op> = states
        .iter()
        .flatten()
        .map(|r| Op::Key(KeyOp::Put(Box::new(r.clone()), Cause::Copy)))
        .collect();
    check_words(&puts);
    let mut acts = Vec::new();
    for op in ops {
        if op.is_write() {
            acts.push(Act { op: op.clone(), observed: false });
        }
        acts.push(Act { op, observed: true });
    }
    for state in &states {
        acts.iter().for_each(|act| check_idle(state, &act.op));
        acts.iter().for_each(|act| check_foreseeable(state, &act.op));
        acts.iter().for_each(|act| check_follows_in_time(state, &act.op));
        acts.iter().for_each(|act| check_untouched(state, &act.op));
        acts.iter().for_each(|act| check_told_early(state, &act.op, T::NAME));
        acts.iter().for_each(|act| foretold::check(state.as_ref(), &act.op, &ctx(3)));
    }
    let mut granted_pairs = 0;
    for state in &states {
        granted_pairs += check_state(state, &acts);
    }
    assert!(granted_pairs > 0);
}

/// Checks that an operation declared idle changes nothing and gives that reply.
fn check_idle(state: &Slot, op: &Op) {
    let Some(reply) = idle(state.as_ref(), op, ctx(3).now_ms) else { return };
    assert!(op.is_write(), "{op:?} is a read");
    let mut after = state.clone();
    assert_eq!(apply(&mut after, op, &ctx(3)), reply, "{op:?} in {state:?}");
    if let (Some(after), Some(before)) = (&mut after, state) {
        after.modified = before.modified;
    }
    assert_eq!(&after, state, "{op:?}");
}

/// Checks that time, timestamp and random number make no difference to an operation that may be carried
/// out ahead of the log.
fn check_foreseeable(state: &Slot, op: &Op) {
    if !op.is_write() || !is_foreseeable(state.as_ref(), op) {
        return;
    }
    let run = |ctx: &Ctx| {
        let mut slot = state.clone();
        let reply = apply(&mut slot, op, ctx);
        (reply, slot.map(|record| (record.expire_at_ms(), record.value)))
    };
    let other = Ctx { now_ms: 1 << 41, ts: Timestamp(u64::MAX >> 12), seed: 0x5eed };
    assert_eq!(run(&Ctx::default()), run(&other), "{op:?} in {state:?}");
}

/// Checks that timestamp and random number make no difference to an operation that may be carried out on a
/// copy at a known time.
fn check_follows_in_time(state: &Slot, op: &Op) {
    if !op.is_write() || follows_in_time(op) != Some(true) {
        return;
    }
    let run = |ctx: &Ctx| {
        let mut slot = state.clone();
        let reply = apply(&mut slot, op, ctx);
        (reply, slot.map(|record| (record.expire_at_ms(), record.value)))
    };
    let one = Ctx { now_ms: 5000, ts: Timestamp::ZERO, seed: 0 };
    let other = Ctx { ts: Timestamp(u64::MAX >> 12), seed: 0x5eed, ..one };
    assert_eq!(run(&one), run(&other), "{op:?} in {state:?}");
}

/// Types whose operations are refused in interactive transactions.
const NOT_IN_TXN: [&str; 2] = ["lock", "barrier"];

/// Checks that the reply to a write stays true at the commit, at a timestamp and with a random number that
/// were not known when a program was told it: or else what follows from them is chosen first.
fn check_told_early(state: &Slot, op: &Op, of: &str) {
    let key = Blob::new(KEY);
    if !op.is_write() || NOT_IN_TXN.contains(&of) || op.chosen_first(&key).is_some() {
        return;
    }
    let reply = |ctx: &Ctx| apply(&mut state.clone(), op, ctx);
    let early = Ctx { now_ms: 5000, ts: Timestamp::from_micros(1 << 40), seed: 1 };
    let late = Ctx { ts: Timestamp::from_micros(1 << 41), seed: 0x5eed, ..early };
    assert_eq!(reply(&early), reply(&late), "{op:?} in {state:?}");
}

/// Checks that an operation that reports no change made none, and that an idle one reports no
/// change.
fn check_untouched(state: &Slot, op: &Op) {
    let mut after = state.clone();
    let (_, changed) = carry_out(&mut after, op, &ctx(3));
    if changed {
        let idle = idle(state.as_ref(), op, ctx(3).now_ms);
        assert!(idle.is_none() || state.is_none(), "{op:?} is idle in {state:?}");
        return;
    }
    if let (Some(after), Some(before)) = (&mut after, state) {
        after.modified = before.modified;
    }
    assert_eq!(&after, state, "{op:?} says that it has changed nothing");
}

fn generalized<T: DataType>(op: &T::Op) -> Op {
    let mut words = ArgBuf::new();
    T::encode(op, KEY, &mut words);
    match decode(&words.args()) {
        Ok((_, read)) => {
            let mut again = ArgBuf::new();
            read.encode(KEY, &mut again);
            assert_eq!(format!("{words:?}"), format!("{again:?}"));
            read
        }
        Err(error) => panic!("{op:?} does not read back: {error}"),
    }
}

fn key_ops() -> Vec<Op> {
    let at = |ms| KeyOp::Expire { at: When::At(ms), only: ExpireIf::Always };
    [
        KeyOp::Del,
        KeyOp::Leave(Cause::Rename),
        KeyOp::Exists,
        KeyOp::Type,
        KeyOp::Ttl(TtlForm::AtMillis),
        KeyOp::Persist,
        at(1_000_000),
        at(2_000_000),
    ]
    .map(Op::Key)
    .to_vec()
}

fn reachable(ops: &[Op], depth: usize, name: &str) -> Vec<Slot> {
    let foreign = ArgBuf::of(if name == "set" { ["rpush", "k", "x"] } else { ["sadd", "k", "x"] });
    let mut other = None;
    apply(&mut other, &decode(&foreign.args()).expect("a command").1, &ctx(0));
    let mut states = vec![None, other];
    let mut begin = 0;
    for _ in 0..depth {
        let end = states.len();
        for from in begin..end {
            for op in ops.iter().filter(|op| op.is_write()) {
                let mut next = states[from].clone();
                apply(&mut next, op, &ctx(0));
                if states.len() < STATES_MAX && !states.contains(&next) {
                    states.push(next);
                }
            }
        }
        begin = end;
    }
    states
}

/// Checks all pairs and triples in one state; gives the number of pairs that were granted.
fn check_state(state: &Slot, acts: &[Act]) -> usize {
    let n = acts.len();
    let mut granted = vec![false; n * n];
    let mut pairs = 0;
    for (i, a) in acts.iter().enumerate() {
        for (j, b) in acts.iter().enumerate() {
            let commute = commutes(state.as_ref(), a.access(), b.access());
            let shares = mode(a.access()).shares(mode(b.access()));
            let steady = state.as_ref().is_none_or(|r| r.expire_at_ms().is_none());
            if shares && steady && own_type(state, &a.op) {
                assert!(commute, "modes share but {}", describe(state, &[a, b]));
            }
            granted[i * n + j] = commute || shares;
            if j <= i {
                assert_eq!(granted[i * n + j], granted[j * n + i], "{}", describe(state, &[a, b]));
            }
            if i <= j && granted[i * n + j] {
                pairs += 1;
                check_orders(state, &[a, b]);
            }
        }
    }
    let writes = |i: usize| usize::from(acts[i].op.is_write());
    for i in 0..n {
        for j in (i..n).filter(|j| granted[i * n + j]) {
            for k in (j..n).filter(|k| granted[i * n + k] && granted[j * n + k]) {
                // With one write among reads, the pairs cover the triple.
                if writes(i) + writes(j) + writes(k) > 1 {
                    check_orders(state, &[&acts[i], &acts[j], &acts[k]]);
                }
            }
        }
    }
    pairs
}

/// A set of accesses that [`Outstanding`] admits, and whose order or selection shows, in the states that
/// up to `depth` writes reach. With `forgets`, the sums lack one of the accesses.
#[cfg(test)]
pub(crate) fn escrow_violation<T: DataType>(
    ops: &[T::Op],
    depth: usize,
    forgets: bool,
) -> Option<String> {
    let ops: Vec<Op> = ops.iter().map(generalized::<T>).collect();
    let states = reachable(&ops, depth, T::NAME);
    let acts = ops.into_iter().filter(|op| op.share().is_some());
    let acts: Vec<Act> = acts.map(|op| Act { op, observed: true }).collect();
    let mut admitted = 0;
    for state in &states {
        let Some(amount) = amount(state.as_ref()) else { continue };
        for number in 0..acts.len().pow(4) {
            let places = [0, 1, 2, 3].map(|digit| number / acts.len().pow(digit) % acts.len());
            if !places.is_sorted() {
                continue;
            }
            let set = places.map(|place| &acts[place]);
            let mut sums = Outstanding::default();
            let shares = set.iter().filter_map(|act| act.op.share()).skip(usize::from(forgets));
            shares.for_each(|share| sums.add(share));
            if !sums.leaves_room(amount, &[]) {
                continue;
            }
            admitted += 1;
            let alone: Vec<Reply> =
                set.iter().map(|act| run(state, &[*act], &[0]).1.remove(0)).collect();
            let all = run(state, &set, &[0, 1, 2, 3]).0;
            for order in orders_of_four() {
                let (slot, replies) = run(state, &set, &order);
                if slot != all || replies != alone {
                    return Some(describe(state, &set));
                }
            }
        }
    }
    assert!(admitted > 0, "nothing is admitted");
    None
}

#[cfg(test)]
fn orders_of_four() -> impl Iterator<Item = [usize; 4]> {
    let orders = (0..256_usize).map(|number| [0, 2, 4, 6].map(|shift| number >> shift & 3));
    orders.filter(|order| (0..4).all(|place| order.contains(&place)))
}

/// Whether the state is absent or of the type that the operation belongs to.
fn own_type(state: &Slot, op: &Op) -> bool {
    let mut slot = state.clone();
    let wrong = Reply::Error(crate::ErrorReply::wrong_type());
    !matches!(op, Op::Key(_)) && apply(&mut slot, op, &ctx(0)) != wrong
}

fn describe(state: &Slot, acts: &[&Act]) -> String {
    let acts: Vec<_> = acts.iter().map(|a| (&a.op, a.observed)).collect();
    format!("{acts:?} in {state:?}")
}

fn check_orders(state: &Slot, acts: &[&Act]) {
    const TWO: &[&[usize]] = &[&[0, 1], &[1, 0]];
    const THREE: &[&[usize]] =
        &[&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
    let orders = if acts.len() == 2 { TWO } else { THREE };
    let first = run(state, acts, orders[0]);
    for order in &orders[1..] {
        let next = run(state, acts, order);
        assert_eq!(first.0, next.0, "state of order {order:?}: {}", describe(state, acts));
        for (place, act) in acts.iter().enumerate().filter(|(_, act)| act.observed) {
            let (x, y) = (&first.1[place], &next.1[place]);
            assert!(
                x == y || unordered(x) == unordered(y),
                "{:?} answers {x:?} or {y:?}: {}",
                act.op,
                describe(state, acts)
            );
        }
    }
}

fn run(state: &Slot, acts: &[&Act], order: &[usize]) -> (Slot, Vec<Reply>) {
    let mut slot = state.clone();
    let mut replies = vec![Reply::Nil; acts.len()];
    for &place in order {
        replies[place] = apply(&mut slot, &acts[place].op, &ctx(place + 1));
    }
    // The time of the last change shows only the order in which replicas apply.
    if let Some(record) = &mut slot {
        record.modified = Timestamp::ZERO;
    }
    (slot, replies)
}

/// The reply with members of sets and maps in one order.
fn unordered(reply: &Reply) -> String {
    let mut parts: Vec<String> = match reply {
        Reply::Set(members) => members.iter().map(|m| format!("{m:?}")).collect(),
        Reply::Map(pairs) => pairs.iter().map(|p| format!("{p:?}")).collect(),
        other => vec![format!("{other:?}")],
    };
    parts.sort();
    parts.join(",")
}

/// Runs one-operation command lines (words split at spaces) one after another on one key, at
/// millisecond 1000, and compares the replies.
///
/// # Panics
/// If a reply is another one.
pub fn dialogue(lines: &[(&str, Reply)]) {
    let mut slot = None;
    for (line, reply) in lines {
        let answer = match decode(&ArgBuf::of(line.split(' ')).args()) {
            Ok((_, op)) => apply(&mut slot, &op, &ctx(0)),
            Err(error) => Reply::Error(error),
        };
        assert_eq!(answer, *reply, "{line}");
    }
}
