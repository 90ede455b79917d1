//! Places for indefinite transactions whose effects were observed.
//!
//! When a reply cannot be explained, the open indefinite transactions that write the key are tried:
//! any few of them just before the observer, and up to [`DEEP_MAX`] of them at any earlier places.
//! Only transactions on connected keys are replayed for that. If a later reply refutes the choice,
//! the next one is taken.

use super::{Mismatch, Replay, State, writes};
use crate::history::{Op, Outcome, Txn, Word};
use crate::model;
use crate::value::Value;
use std::collections::BTreeSet;

/// Most transactions that all searches in one history may replay.
pub(super) const STEPS_MAX: usize = 30_000_000;

/// Most candidates that are tried together just before the observer; all subsets of them.
const TOGETHER_MAX: usize = 8;

/// Most transactions that are moved to earlier places because of one reply.
const DEEP_MAX: usize = 4;

/// Number of explanations above which deeper ones are not searched for.
const OPTIONS_MAX: usize = 24;

/// Most unfinished arrangements that are followed at each depth.
const UNFINISHED_MAX: usize = 48;

/// A transaction with its place in the whole order; an inserted one goes before the present owner
/// of the place.
pub(super) type Placed = (usize, usize);

/// Extent of an arrangement's explanation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Explains {
    /// Everything including the observer.
    All,
    /// Everything before the observer.
    Before,
    Less,
}

/// The search for one mismatch.
struct Search<'a, 'h> {
    replay: &'a Replay<'h>,
    /// Keys of the observer and the candidates, and all keys that commands connect with them.
    keys: BTreeSet<Word>,
    steps_left: usize,
    /// Common beginning of all arrangements, and its result.
    beginning: Vec<usize>,
    state: State<'h>,
    /// Arrangements that explain everything up to the observer.
    found: Vec<Vec<Placed>>,
}

impl Replay<'_> {
    /// Insertions that explain the reply at `mismatch` and all before it, likeliest first.
    pub(super) fn options(&mut self, mismatch: &Mismatch) -> Vec<Vec<Placed>> {
        let (named, all) = self.candidates(mismatch);
        let found = self.options_among(mismatch, &named);
        // A number in a reply may equal that of a command by chance.
        if found.is_empty() && all.len() > named.len() {
            return self.options_among(mismatch, &all);
        }
        found
    }

    fn options_among(&mut self, mismatch: &Mismatch, candidates: &[usize]) -> Vec<Vec<Placed>> {
        if candidates.is_empty() || self.steps_left < self.order.len() {
            return Vec::new();
        }
        let keys = self.connected(candidates, mismatch);
        let steps_left = self.steps_left - self.order.len();
        let (beginning, state, found) = Default::default();
        let mut search = Search { replay: self, keys, steps_left, beginning, state, found };
        search.run(mismatch.place, candidates);
        let (steps_left, found) = (search.steps_left, search.found);
        self.steps_left = steps_left;
        let chosen = |arrangement: Vec<Placed>| -> Vec<Placed> {
            arrangement.into_iter().filter(|(id, _)| candidates.contains(id)).collect()
        };
        let mut options: Vec<Vec<Placed>> = Vec::new();
        for option in found.into_iter().map(chosen) {
            if !options.contains(&option) {
                options.push(option);
            }
        }
        // Few are likelier than many, and observed ones likelier than unobserved ones; the sort is
        // stable, so that earlier findings stay in front.
        // sort keeps what was found first in front.
        options.sort_by_key(|option| {
            (option.len(), option.iter().filter(|(id, _)| !self.was_seen(*id)).count())
        });
        options
    }

    /// Whether any reply contains a value that a transaction has written.
    fn was_seen(&self, id: usize) -> bool {
        let written = self.txns[id].ops.iter().filter(|op| !model::is_read(&op.words));
        written.flat_map(|op| op.words.iter().skip(2)).any(|word| self.seen.contains(word))
    }

    /// Inserts a result of [`Replay::options`].
    pub(super) fn insert(&mut self, chosen: &[Placed]) {
        for (inserted, &(id, place)) in chosen.iter().enumerate() {
            self.order.insert(place + inserted, id);
            self.loose.retain(|loose| *loose != id);
        }
    }

    /// Loose transactions that write a key of the reply and may precede it: those that wrote a
    /// value that the reply contains wrongly, if there are any, and all of them.
    fn candidates(&self, mismatch: &Mismatch) -> (Vec<usize>, Vec<usize>) {
        let observer = &self.txns[self.order[mismatch.place]];
        let op = &observer.ops[mismatch.op];
        let seen_keys = model::keys_of(&op.words);
        let on_key = |op: &&Op| {
            !model::is_read(&op.words)
                && model::keys_of(&op.words).iter().any(|key| seen_keys.contains(key))
        };
        let possible = |id: &usize| {
            let txn = &self.txns[*id];
            writes(txn) && !observer.precedes(txn) && txn.ops.iter().any(|op| on_key(&op))
        };
        let all: Vec<usize> = self.loose.iter().copied().filter(possible).collect();
        let parts = |value: &Value| -> BTreeSet<Word> {
            value.flat().iter().map(Value::canonical).collect()
        };
        let expected = parts(&mismatch.expected);
        let mut extra = op.reply.as_ref().map(parts).unwrap_or_default();
        extra.retain(|part| !expected.contains(part));
        let wrote_extra = |id: &usize| {
            let ops = self.txns[*id].ops.iter().filter(on_key);
            ops.flat_map(|op| op.words.iter().skip(2)).any(|word| extra.contains(word))
        };
        let named: Vec<usize> = all.iter().copied().filter(wrote_extra).collect();
        if named.is_empty() { (all.clone(), all) } else { (named, all) }
    }

    /// The keys of the mismatch and of `chosen`, and all keys that commands connect with them.
    fn connected(&self, chosen: &[usize], mismatch: &Mismatch) -> BTreeSet<Word> {
        let observer = &self.txns[self.order[mismatch.place]];
        let mut keys: BTreeSet<Word> =
            model::keys_of(&observer.ops[mismatch.op].words).into_iter().cloned().collect();
        let ops = chosen.iter().flat_map(|&id| &self.txns[id].ops);
        keys.extend(ops.flat_map(|op| model::keys_of(&op.words)).cloned());
        let several: Vec<Vec<&Word>> = self
            .order
            .iter()
            .chain(chosen)
            .flat_map(|&id| &self.txns[id].ops)
            .map(|op| model::keys_of(&op.words))
            .filter(|keys| keys.len() > 1)
            .collect();
        loop {
            let before = keys.len();
            for together in &several {
                if together.iter().any(|key| keys.contains(*key)) {
                    keys.extend(together.iter().map(|key| (*key).clone()));
                }
            }
            if keys.len() == before {
                return keys;
            }
        }
    }

    /// First and last place in the order at which a transaction can be inserted.
    fn bounds(&self, id: usize) -> (usize, usize) {
        let txn = &self.txns[id];
        let dispatched = |other: &Txn| {
            other.process == txn.process
                && other.session_seq.is_some()
                && (other.outcome == Outcome::Ok || other.ts.is_some())
        };
        let before = |other: &Txn| other.precedes(txn) || (dispatched(other) && other.id < id);
        let after = |other: &Txn| dispatched(other) && other.id > id;
        let others = || self.order.iter().map(|&other| &self.txns[other]);
        let first = others().rposition(before).map_or(0, |place| place + 1);
        let last = others().position(after).unwrap_or(self.order.len());
        (first, last)
    }
}

impl Search<'_, '_> {
    fn run(&mut self, end: usize, candidates: &[usize]) {
        let touches = |id: usize| self.replay.txns[id].ops.iter().any(|op| self.on_keys(&op.words));
        let order = &self.replay.order[..=end];
        let sequence: Vec<Placed> = order
            .iter()
            .enumerate()
            .filter(|(place, id)| *place == end || touches(**id))
            .map(|(place, &id)| (id, place))
            .collect();
        let mut candidates: Vec<(usize, (usize, usize))> =
            candidates.iter().map(|&id| (id, self.replay.bounds(id))).collect();
        self.begin(&sequence, &candidates);
        self.together(&sequence, &candidates);
        // There may not be steps for all of them.
        candidates.sort_by_key(|(id, _)| !self.replay.was_seen(*id));
        self.deep(&sequence, &candidates, DEEP_MAX);
    }

    /// Replays the sequence up to the first place of any candidate, once for all arrangements.
    fn begin(&mut self, sequence: &[Placed], candidates: &[(usize, (usize, usize))]) {
        let first = candidates.iter().map(|(_, (first, _))| *first).min().unwrap_or(0);
        let before = sequence.iter().take_while(|(_, place)| *place < first);
        let ids: Vec<usize> = before.map(|(id, _)| *id).take(sequence.len() - 1).collect();
        let mut state = State::default();
        self.steps_left = self.steps_left.saturating_sub(ids.len());
        if state.run(self.replay.txns, &ids, |words| self.on_keys(words)).is_ok() {
            (self.beginning, self.state) = (ids, state);
        }
    }

    fn on_keys(&self, words: &[Word]) -> bool {
        model::keys_of(words).into_iter().any(|key| self.keys.contains(key))
    }

    /// Some of the candidates, youngest ones preferred, all just before the observer.
    fn together(&mut self, sequence: &[Placed], candidates: &[(usize, (usize, usize))]) {
        let Some((observer, before)) = sequence.split_last() else { return };
        let place = observer.1;
        let fitting: Vec<usize> = candidates
            .iter()
            .filter(|(_, (first, last))| *first <= place && place <= *last)
            .map(|(id, _)| *id)
            .collect();
        let fitting = &fitting[fitting.len().saturating_sub(TOGETHER_MAX)..];
        let mut subsets: Vec<usize> = (1..1 << fitting.len()).collect();
        subsets.sort_by_key(|subset: &usize| subset.count_ones());
        for subset in subsets {
            let mut arrangement = before.to_vec();
            let chosen = (0..fitting.len()).filter(|bit| subset & (1 << bit) != 0);
            arrangement.extend(chosen.map(|bit| (fitting[bit], place)));
            arrangement.push(*observer);
            if self.explains(&arrangement) == Explains::All {
                self.found.push(arrangement);
                if self.found.len() >= OPTIONS_MAX {
                    return;
                }
            }
        }
    }

    /// One candidate at any place, latest first; then further ones where one is not enough.
    fn deep(&mut self, sequence: &[Placed], candidates: &[(usize, (usize, usize))], depth: usize) {
        let mut unfinished = Vec::new();
        for (i, (id, bounds)) in candidates.iter().enumerate() {
            for at in (0..sequence.len()).rev() {
                let Some(place) = gap(sequence, at, *bounds) else { continue };
                let mut arrangement = sequence.to_vec();
                arrangement.insert(at, (*id, place));
                match self.explains(&arrangement) {
                    Explains::All => self.found.push(arrangement),
                    Explains::Before if depth > 1 && unfinished.len() < UNFINISHED_MAX => {
                        unfinished.push((i, arrangement));
                    }
                    _ => {}
                }
            }
        }
        for (i, arrangement) in unfinished {
            if self.found.len() >= OPTIONS_MAX {
                return;
            }
            self.deep(&arrangement, &candidates[i + 1..], depth - 1);
        }
    }

    fn explains(&mut self, arrangement: &[Placed]) -> Explains {
        let ids: Vec<usize> = arrangement.iter().map(|(id, _)| *id).collect();
        let (mut state, mut rest) = (State::default(), &ids[..]);
        if let Some(after) = ids.strip_prefix(&self.beginning[..]) {
            (state, rest) = (self.state.clone(), after);
        }
        if self.steps_left < rest.len() {
            return Explains::Less;
        }
        self.steps_left -= rest.len();
        match state.run(self.replay.txns, rest, |words| self.on_keys(words)) {
            Ok(()) => Explains::All,
            Err(mismatch) if mismatch.place + 1 == ids.len() => Explains::Before,
            Err(_) => Explains::Less,
        }
    }
}

/// The latest place in the whole order that lies just before entry `at` of the sequence and
/// within the bounds.
fn gap(sequence: &[Placed], at: usize, (first, last): (usize, usize)) -> Option<usize> {
    let place = sequence[at].1.min(last);
    let after_previous = match at.checked_sub(1) {
        None => true,
        // An insertion has the place of the transaction that it goes before.
        Some(previous) => sequence[previous].1 < place || sequence[previous].1 == sequence[at].1,
    };
    (first <= place && after_previous).then_some(place)
}
