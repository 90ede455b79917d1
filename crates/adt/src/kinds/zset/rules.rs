//! Commutativity of operations on a sorted set.
//!
//! Two rules cover everything, and both are stable for any number of holders:
//!
//! 1. Two changes of one member commute if in *every* state their order does not matter
//!    ([`State::same_outcome`]), or if in this state both change nothing. The second is stable: a
//!    change without effect here that commutes with all other holders in every state has no effect
//!    in any state that they bring about.
//! 2. A change and a read commute if neither the old nor the new score is in the range that the
//!    read depends on. A member's score can then only be the old one or one of those that holders
//!    set, so it stays outside.
//!
//! Differences (`ZINCRBY`) could cross a boundary together, so beside reads that depend on
//! positions they never commute.

use crate::kinds::zset::{Change, Direction, Only, Op, Presence, Range, Select, Value};
use crate::{Access, Blob, DataType};
use smallvec::SmallVec;

/// Effect of a write on one member.
#[derive(Clone, Copy, PartialEq)]
enum Act {
    Set(Only, f64),
    Incr(Only, f64),
    Remove,
}

#[derive(Clone, Copy)]
struct Step<'a> {
    member: &'a Blob,
    act: Act,
    /// Whether the reply counts changes of existing members, not only new ones.
    ch: bool,
}

type Steps<'a> = SmallVec<[Step<'a>; 2]>;

/// Most pairs of members that are compared; larger operations do not run concurrently.
const PAIRS_MAX: usize = 4096;

/// Below this, sums of integers are exact whatever the order: 2^20 holders may each add
/// [`INCR_MAX`] to a score of [`SCORE_MAX`] and stay below 2^53.
const SCORE_MAX: f64 = (1u64 << 52) as f64;
const INCR_MAX: f64 = (1u64 << 32) as f64;

/// The changes of single members that a write consists of; `None` if it is of another kind.
fn steps(op: &Op) -> Option<Steps<'_>> {
    match op {
        Op::Add { only, ch, pairs } => Some(
            pairs
                .iter()
                .map(|(score, member)| Step { member, act: Act::Set(*only, *score), ch: *ch })
                .collect(),
        ),
        Op::Incr { only, by, member } => {
            Some([Step { member, act: Act::Incr(*only, *by), ch: true }].into_iter().collect())
        }
        Op::Remove(members) => {
            Some(members.iter().map(|member| Step { member, act: Act::Remove, ch: true }).collect())
        }
        _ => None,
    }
}

/// See [`DataType::commutes`].
pub(in crate::kinds::zset) fn commute(value: &Value, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
    let state = State(value);
    match (Value::is_write(a.op), Value::is_write(b.op)) {
        (false, false) => true,
        (true, false) => state.unseen(a.op, b.op),
        (false, true) => state.unseen(b.op, a.op),
        (true, true) => match (steps(a.op), steps(b.op)) {
            (Some(x), Some(y)) => state.steps_commute(&x, a.observed, &y, b.observed),
            (Some(steps), None) => state.beside_bulk(&steps, b.op),
            (None, Some(steps)) => state.beside_bulk(&steps, a.op),
            (None, None) => {
                (state.bulk_idle(a.op) && state.bulk_idle(b.op))
                    || (by_predicate(a) && by_predicate(b))
            }
        },
    }
}

/// Whether a write changes no member.
pub(in crate::kinds::zset) fn is_idle(value: &Value, op: &Op) -> bool {
    match steps(op) {
        Some(steps) => steps.iter().all(|step| State(value).idle(step)),
        None => State(value).bulk_idle(op),
    }
}

/// Whether the write removes whatever satisfies a predicate on single members, unseen.
fn by_predicate(access: Access<'_, Op>) -> bool {
    !access.observed && matches!(access.op, Op::RemoveRange(Range::Score(_) | Range::Lex(_)))
}

struct State<'a>(&'a Value);

impl State<'_> {
    fn old(&self, member: &Blob) -> Option<f64> {
        self.0.scores.get(member).copied()
    }

    /// Whether the step has no effect in this state.
    fn idle(&self, step: &Step<'_>) -> bool {
        let old = self.old(step.member);
        let outcome = match step.act {
            Act::Set(only, score) => only.outcome(Change::To(score), old),
            Act::Incr(only, by) => only.outcome(Change::By(by), old),
            Act::Remove => return old.is_none(),
        };
        match outcome {
            Ok(Some(new)) => old == Some(new),
            Ok(None) | Err(_) => true,
        }
    }

    fn bulk_idle(&self, op: &Op) -> bool {
        match op {
            Op::Pop { .. } | Op::Take { .. } => self.0.scores.is_empty(),
            Op::RemoveRange(range) => self.0.count(range) == 0,
            _ => false,
        }
    }

    fn steps_commute(&self, x: &Steps<'_>, x_seen: bool, y: &Steps<'_>, y_seen: bool) -> bool {
        if x.len() * y.len() > PAIRS_MAX {
            return false;
        }
        for a in x {
            for b in y.iter().filter(|b| b.member == a.member) {
                let once = |steps: &Steps<'_>| {
                    steps.len() == 1 || steps.iter().filter(|s| s.member == a.member).count() == 1
                };
                if !(once(x) && once(y) && self.pair_commutes(a, x_seen, b, y_seen)) {
                    return false;
                }
            }
        }
        true
    }

    /// Whether two changes of one member commute.
    fn pair_commutes(&self, a: &Step<'_>, a_seen: bool, b: &Step<'_>, b_seen: bool) -> bool {
        (self.idle(a) && self.idle(b))
            || (self.same_outcome(a, b)
                && (!a_seen || self.same_reply(a, b))
                && (!b_seen || self.same_reply(b, a)))
    }

    /// Whether the order of two changes of one member does not show in its score.
    fn same_outcome(&self, a: &Step<'_>, b: &Step<'_>) -> bool {
        let present = self.old(a.member).is_some();
        let skipped = |x: &Step<'_>, other: &Step<'_>| {
            present
                && other.act != Act::Remove
                && matches!(x.act, Act::Set(Only { presence: Presence::Absent, .. }, _))
        };
        if a.act == b.act || skipped(a, b) || skipped(b, a) {
            return true;
        }
        match (a.act, b.act) {
            (Act::Set(x, s), Act::Set(y, t)) => sets_agree(x, s, y, t) || sets_agree(y, t, x, s),
            (Act::Incr(x, d), Act::Incr(y, e)) => {
                let exact = |by: f64, max: f64| by == by.trunc() && by.abs() <= max;
                x == Only::default()
                    && y == x
                    && exact(d, INCR_MAX)
                    && exact(e, INCR_MAX)
                    && exact(self.old(a.member).unwrap_or(0.0), SCORE_MAX)
            }
            _ => false,
        }
    }

    /// Whether the reply of `a` counts the member in the same way before and after `b`.
    fn same_reply(&self, a: &Step<'_>, b: &Step<'_>) -> bool {
        let present = self.old(a.member).is_some();
        match a.act {
            // The number of new members: none, as the member stays.
            Act::Set(only, _) => match only.presence {
                Presence::Present => !a.ch,
                Presence::Absent => present && b.act != Act::Remove,
                Presence::Any => !a.ch && present && b.act != Act::Remove,
            },
            Act::Incr(..) | Act::Remove => false,
        }
    }

    /// Whether changes of members commute with a pop or the removal of a range.
    fn beside_bulk(&self, steps: &Steps<'_>, bulk: &Op) -> bool {
        if self.bulk_idle(bulk) && steps.iter().all(|step| self.idle(step)) {
            return true;
        }
        match bulk {
            Op::RemoveRange(range) => steps.iter().all(|step| self.outside(step, range, false)),
            Op::Pop { high, count: None | Some(1) } | Op::Take { high, count: 1 } => {
                let end = if *high { self.0.order.last() } else { self.0.order.first() };
                let Some((score, member)) = end else { return false };
                steps.iter().all(|step| match step.act {
                    _ if step.member == member => false,
                    Act::Remove => true,
                    Act::Set(_, new) => is_beyond((new, step.member), (score, member), *high),
                    Act::Incr(..) => false,
                })
            }
            _ => false,
        }
    }

    /// Whether a write changes nothing that a read depends on.
    fn unseen(&self, write: &Op, read: &Op) -> bool {
        match steps(write) {
            Some(steps) => steps.iter().all(|s| self.idle(s) || self.step_unseen(s, read)),
            None => self.bulk_idle(write) || self.removal_unseen(write, read),
        }
    }

    fn removal_unseen(&self, write: &Op, read: &Op) -> bool {
        let Op::RemoveRange(Range::Score(removed)) = write else { return false };
        let stays = |m: &Blob| self.old(m).is_none_or(|score| !removed.contains(score));
        match read {
            Op::Score(member) => stays(member),
            Op::Scores(members) => members.iter().all(stays),
            Op::Count(Range::Score(range)) => range.is_apart(removed),
            Op::Select(select) => {
                matches!(&select.range, Range::Score(range) if range.is_apart(removed))
            }
            _ => false,
        }
    }

    fn step_unseen(&self, step: &Step<'_>, read: &Op) -> bool {
        let old = self.old(step.member);
        let stays = old.is_some() && step.act != Act::Remove;
        match read {
            Op::Score(member) => member != step.member,
            Op::Scores(members) => !members.contains(step.member),
            Op::Card => stays,
            Op::Count(Range::Lex(range)) => stays || !range.contains(step.member),
            Op::Count(Range::Score(range)) => {
                let inside = |score: Option<f64>| score.is_some_and(|s| range.contains(s));
                new_score(step).is_some_and(|new| inside(old) == inside(new))
            }
            Op::Rank { member, rev, .. } => self.rank_unseen(step, member, *rev),
            Op::Select(select) => {
                let Select { range, rev, .. } = select.as_ref();
                self.outside(step, range, *rev)
            }
            _ => false,
        }
    }

    /// Whether a change leaves the rank of `member`, the number of members before it, as it is.
    fn rank_unseen(&self, step: &Step<'_>, member: &Blob, rev: bool) -> bool {
        if step.member == member {
            return false;
        }
        let Some(score) = self.old(member) else { return true };
        let Some(new) = new_score(step) else { return false };
        let before = |place: Option<f64>| {
            place.is_some_and(|s| is_beyond((s, step.member), (score, member), !rev))
        };
        before(self.old(step.member)) == before(new)
    }

    /// Whether neither the old nor the new place of the member is in the range.
    fn outside(&self, step: &Step<'_>, range: &Range, rev: bool) -> bool {
        if let Range::Lex(range) = range {
            return !range.contains(step.member);
        }
        let Some(new) = new_score(step) else { return false };
        let places = [self.old(step.member), new];
        let mut scores = places.into_iter().flatten();
        match range {
            Range::Lex(_) => false,
            Range::Score(range) => scores.all(|score| !range.contains(score)),
            Range::Rank(start, stop) => {
                let (start, stop) = (*start, *stop);
                let len = self.0.order.len() as i64;
                let (pivot, low) = match (start < 0, stop < 0) {
                    (false, false) | (true, true) if start > stop => return true,
                    (false, false) if rev => (len.saturating_sub(1).saturating_sub(stop), true),
                    (false, false) => (stop, false),
                    (true, true) if rev => (-1 - start, false),
                    (true, true) => (len.saturating_add(start), true),
                    _ => return false,
                };
                let pivot = usize::try_from(pivot).ok().and_then(|rank| self.0.order.get(rank));
                let Some(pivot) = pivot else { return false };
                scores.all(|score| is_beyond((score, step.member), pivot, low))
            }
        }
    }
}

/// The score that a change leads to (`Some(None)`: the member is gone), if the change names it.
fn new_score(step: &Step<'_>) -> Option<Option<f64>> {
    match step.act {
        Act::Set(_, score) => Some(Some(score)),
        Act::Remove => Some(None),
        Act::Incr(..) => None,
    }
}

/// Whether a place comes after another one, or before it if `low`.
fn is_beyond(place: (f64, &Blob), other: (f64, &Blob), low: bool) -> bool {
    let order = place.0.total_cmp(&other.0).then_with(|| place.1.cmp(other.1));
    if low { order.is_lt() } else { order.is_gt() }
}

/// Whether two conditional settings of a score give the same result in both orders, in every state.
fn sets_agree(x: Only, s: f64, y: Only, t: f64) -> bool {
    let plain = |only: Only| only.direction == Direction::Any;
    match (x.direction, y.direction) {
        // Both keep the highest, or both the lowest.
        (Direction::Raise, Direction::Raise) | (Direction::Lower, Direction::Lower) => {
            x.presence == y.presence
        }
        // The plain setting wins over every score that it dominates.
        (Direction::Any, Direction::Raise) if t <= s => {
            x.presence == y.presence
                || (x.presence, y.presence) == (Presence::Any, Presence::Present)
        }
        (Direction::Any, Direction::Lower) if t >= s => {
            x.presence == y.presence
                || (x.presence, y.presence) == (Presence::Any, Presence::Present)
        }
        // The same score, of which one may be conditional.
        _ => plain(x) && plain(y) && s == t && x.presence == Presence::Any,
    }
}
