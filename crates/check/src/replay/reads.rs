//! Places for reads without a commit timestamp.
//!
//! A store need not log read-only transactions, so they have no timestamp. On each of its keys such
//! a transaction must have seen the state that the first p writers of that key left, for a p that
//! real time and its session permit. With unique values there is one run of such p; then the reader
//! comes after the writer before the run and before the one after it, like any other in the total
//! order, and a contradiction shows as a cycle. Where the same state recurs there are several runs:
//! the first is taken, and a cycle through its end is a reason to take the next one.

use super::{explain, stamp};
use crate::graph::{Graph, Kind};
use crate::history::{History, Op, Outcome, Txn, Word};
use crate::model::{self, Model};
use crate::value::{Value, show_word};
use crate::verdict::{Anomaly, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Edge notes: reasons for a `Kind::Timestamp` edge.
pub(super) const BY_TIMESTAMP: u32 = 0;
/// The reader saw what the writer wrote.
pub(super) const SEEN: u32 = 1;
/// The reader did not see what the writer wrote.
pub(super) const UNSEEN: u32 = 2;

/// Most later writers that may be seen without an earlier one.
const OVERTAKEN_MAX: usize = 16;

/// Commands and replies of a reader about one key.
type Told = Vec<(Vec<Word>, Value)>;

/// A reader of one key and its possible places there.
struct Reader {
    id: usize,
    told: Told,
    /// Least and largest number of the key's writers that it has seen.
    low: usize,
    high: usize,
    /// First and last of consecutive places that explain its replies.
    runs: Vec<(usize, usize)>,
    open: Option<usize>,
}

/// The writers of one key, by timestamp.
struct Line<'h> {
    key: &'h Word,
    /// Whether transactions without a place may have written the key.
    uncertain: bool,
    writers: Vec<usize>,
}

/// A reader's place on one key.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) reader: usize,
    /// Last writer that it saw and first writer that it did not see, for each run.
    runs: Vec<(Option<usize>, Option<usize>)>,
    current: usize,
}

impl Seat {
    /// Adds the order that the present run implies.
    pub(super) fn add_edges(&self, graph: &mut Graph) {
        let (seen, unseen) = self.runs[self.current];
        seen.iter().for_each(|&w| graph.add(w, self.reader, Kind::Timestamp, SEEN));
        unseen.iter().for_each(|&w| graph.add(self.reader, w, Kind::Timestamp, UNSEEN));
    }

    /// Whether this seat puts the reader before `writer` and a later one is possible.
    pub(super) fn can_yield(&self, reader: usize, writer: usize) -> bool {
        self.reader == reader
            && self.runs[self.current].1 == Some(writer)
            && self.current + 1 < self.runs.len()
    }

    /// Takes the next run.
    pub(super) fn advance(&mut self) {
        self.current += 1;
    }
}

/// Finds the places of readers among the writers, and reports readers without a possible place.
/// Readers that cannot be judged (an indefinite transaction may have written the values that they
/// saw, or commands are not modelled) get no seat and are counted. For some readers without a place
/// the cause is known: a writer that they have not seen, and a later one that they have.
pub(super) fn seats(
    history: &History,
    placed: &[usize],
    readers: &[usize],
    verdict: &mut Verdict,
) -> (Vec<Seat>, Vec<(usize, usize)>) {
    let txns = &history.txns;
    let mut told: BTreeMap<&Word, Vec<(usize, Told)>> = BTreeMap::new();
    let mut skipped: BTreeSet<usize> = BTreeSet::new();
    for &id in readers {
        match by_key(&txns[id]) {
            Some(keys) => {
                keys.into_iter().for_each(|(key, t)| told.entry(key).or_default().push((id, t)));
            }
            None => drop(skipped.insert(id)),
        }
    }
    let loose = txns.iter().filter(|txn| txn.outcome == Outcome::Info && txn.ts.is_none());
    let uncertain: BTreeSet<&Word> = loose.flat_map(written).collect();
    let line = |key| Line { key, uncertain: uncertain.contains(key), writers: Vec::new() };
    let mut lines: BTreeMap<&Word, Line<'_>> = told.keys().map(|key| (*key, line(*key))).collect();
    for &id in placed {
        for key in written(&txns[id]) {
            if let Some(line) = lines.get_mut(key) {
                line.writers.push(id);
            }
        }
    }
    let (mut seats, mut overtaken) = (Vec::new(), Vec::new());
    for (key, mut line) in lines {
        line.writers.sort_by_key(|&id| stamp(&txns[id]));
        let readers = bounded(txns, &line, told.remove(key).unwrap_or_default());
        for (reader, known) in sweep(txns, &line, readers) {
            if !known || (reader.runs.is_empty() && line.uncertain) {
                skipped.insert(reader.id);
            } else if reader.runs.is_empty() {
                verdict.report(nowhere(history, &line, &reader));
                overtaken.extend(overtaking(txns, &line, &reader));
            } else {
                let ends = |&(first, last): &(usize, usize)| {
                    let seen = first.checked_sub(1).map(|place| line.writers[place]);
                    (seen, line.writers.get(last).copied())
                };
                let runs = reader.runs.iter().map(ends).collect();
                seats.push(Seat { reader: reader.id, runs, current: 0 });
            }
        }
    }
    verdict.count("unpositioned_reads", skipped.len());
    seats.retain(|seat| !skipped.contains(&seat.reader));
    (seats, overtaken)
}

/// Writers of which the reader has seen the second and not the first.
fn overtaking(txns: &[Txn], line: &Line<'_>, reader: &Reader) -> Option<(usize, usize)> {
    let mut before = Model::default();
    for (place, &unseen) in line.writers.iter().enumerate().take(reader.high) {
        if !txns[unseen].precedes(&txns[reader.id]) {
            let mut without = before.clone();
            for &seen in line.writers[place + 1..reader.high].iter().take(OVERTAKEN_MAX) {
                apply(&mut without, &txns[seen], line);
                if explains(&without, &reader.told) {
                    return Some((unseen, seen));
                }
            }
        }
        apply(&mut before, &txns[unseen], line);
    }
    None
}

/// The keys that a transaction writes.
fn written(txn: &Txn) -> BTreeSet<&Word> {
    let writes = txn.ops.iter().filter(|op| !model::is_read(&op.words));
    writes.flat_map(|op| model::keys_of(&op.words)).collect()
}

/// Commands and replies of a transaction by key; `None` if a command concerns several keys
/// together.
fn by_key(txn: &Txn) -> Option<BTreeMap<&Word, Told>> {
    let mut keys: BTreeMap<&Word, Told> = BTreeMap::new();
    for op in &txn.ops {
        let Some(reply) = &op.reply else { continue };
        let named = model::keys_of(&op.words);
        match (&named[..], reply) {
            ([key], _) => keys.entry(key).or_default().push((op.words.clone(), reply.clone())),
            (_, Value::List(items)) if is_mget(op) && items.len() == named.len() => {
                for (key, item) in named.into_iter().zip(items) {
                    let words = vec![op.words[0].clone(), key.clone()];
                    keys.entry(key).or_default().push((words, Value::List(vec![item.clone()])));
                }
            }
            _ => return None,
        }
    }
    Some(keys)
}

fn is_mget(op: &Op) -> bool {
    model::lower(&op.words[0]) == "mget"
}

/// Walks along the writers of one key and finds the runs of each reader; `false` with readers that
/// are not fully modelled.
fn sweep(txns: &[Txn], line: &Line<'_>, mut readers: Vec<Reader>) -> Vec<(Reader, bool)> {
    readers.sort_by_key(|reader| reader.low);
    let mut coming = readers.into_iter().peekable();
    let mut active: Vec<Reader> = Vec::new();
    let mut done = Vec::new();
    let mut model = Model::default();
    let mut known = true;
    for count in 0..=line.writers.len() {
        while let Some(reader) = coming.next_if(|reader| reader.low <= count) {
            active.push(reader);
        }
        let mut left = Vec::new();
        for mut reader in active {
            match (reader.high >= count && explains(&model, &reader.told), reader.open) {
                (true, None) => reader.open = Some(count),
                (false, Some(first)) => {
                    reader.runs.push((first, count - 1));
                    reader.open = None;
                }
                _ => {}
            }
            if reader.high > count {
                left.push(reader);
            } else {
                reader.runs.extend(reader.open.take().map(|first| (first, count)));
                done.push((reader, known));
            }
        }
        active = left;
        let Some(&writer) = line.writers.get(count) else { break };
        known &= apply(&mut model, &txns[writer], line);
    }
    // Real time and session leave no place for these.
    done.extend(active.into_iter().chain(coming).map(|reader| (reader, known)));
    done
}

/// Runs a transaction's commands on one key; `false` if they are not modelled, or if the reply
/// differs where transactions without a place may have written before.
fn apply(model: &mut Model, txn: &Txn, line: &Line<'_>) -> bool {
    let on_key = |op: &&Op| model::keys_of(&op.words).contains(&line.key);
    txn.ops.iter().filter(on_key).all(|op| {
        let agrees = |answer: &Value| {
            let reply = op.reply.as_ref().filter(|_| line.uncertain);
            reply.is_none_or(|reply| model::agree(&op.words, answer, reply))
        };
        model.try_follow(&op.words, op.reply.as_ref()).as_ref().is_some_and(agrees)
    })
}

/// Whether this state gives those replies.
fn explains(model: &Model, told: &Told) -> bool {
    let mut model = model.clone();
    told.iter().all(|(words, reply)| {
        model
            .try_follow(words, Some(reply))
            .is_none_or(|answer| model::agree(words, &answer, reply))
    })
}

/// Finds the bounds on the number of writers that each reader has seen, from real time and
/// sessions.
fn bounded(txns: &[Txn], line: &Line<'_>, readers: Vec<(usize, Told)>) -> Vec<Reader> {
    let places = line.writers.iter().enumerate();
    // By time of the answer: the largest place so far. By time of invocation: the smallest from
    // here on.
    let mut answered: Vec<(u64, usize)> = places
        .clone()
        .filter_map(|(place, &id)| Some((txns[id].complete_us?, place + 1)))
        .collect();
    answered.sort_unstable();
    let mut largest = 0;
    for entry in &mut answered {
        largest = largest.max(entry.1);
        entry.1 = largest;
    }
    let mut invoked: Vec<(u64, usize)> =
        places.clone().map(|(place, &id)| (txns[id].invoke_us, place)).collect();
    invoked.sort_unstable();
    let mut smallest = line.writers.len();
    for entry in invoked.iter_mut().rev() {
        smallest = smallest.min(entry.1);
        entry.1 = smallest;
    }
    let mut sessions: BTreeMap<u64, Vec<(usize, usize)>> = BTreeMap::new();
    for (place, &id) in places.filter(|(_, id)| txns[**id].session_seq.is_some()) {
        sessions.entry(txns[id].process).or_default().push((id, place));
    }
    let bound = |(id, told): (usize, Told)| {
        let txn = &txns[id];
        let before = answered.partition_point(|(at_us, _)| *at_us < txn.invoke_us);
        let mut low = before.checked_sub(1).map_or(0, |last| answered[last].1);
        let complete_us = txn.complete_us.unwrap_or(u64::MAX);
        let after = invoked.partition_point(|(at_us, _)| *at_us <= complete_us);
        let mut high = invoked.get(after).map_or(line.writers.len(), |(_, place)| *place);
        for &(other, place) in sessions.get(&txn.process).into_iter().flatten() {
            if other < id {
                low = low.max(place + 1);
            } else {
                high = high.min(place);
            }
        }
        Reader { id, told, low, high, runs: Vec::new(), open: None }
    };
    readers.into_iter().map(bound).collect()
}

/// The anomaly of a reader without a possible place.
fn nowhere(history: &History, line: &Line<'_>, reader: &Reader) -> Anomaly {
    let txns = &history.txns;
    let txn = &txns[reader.id];
    let mut model = Model::default();
    let mut fitting = explains(&model, &reader.told).then_some(0);
    for (place, &writer) in line.writers.iter().enumerate() {
        apply(&mut model, &txns[writer], line);
        // The nearest place: the last one below the bounds, or else the first one above.
        let nearer = fitting.is_none_or(|best| best < reader.low && place < reader.low);
        if nearer && explains(&model, &reader.told) {
            fitting = Some(place + 1);
        }
    }
    let replies: Vec<String> = reader.told.iter().map(|(_, reply)| reply.to_string()).collect();
    let mut text = format!(
        "T{} read {} from {}, which fits no moment between its invocation and its answer",
        reader.id,
        replies.join(" and "),
        show_word(line.key)
    );
    let failed = reader.told.iter().find_map(|(words, reply)| {
        explain::writer_of(history, Outcome::Fail, words, reply, &Value::Nil)
    });
    let mut ids = vec![reader.id];
    let kind = match (failed, fitting) {
        (Some((writer, value)), _) => {
            text.push_str(&format!("; T{writer}, which wrote {}, failed", show_word(&value)));
            ids.push(writer);
            "aborted-read"
        }
        (None, Some(count)) if count < reader.low => {
            let next = line.writers[count];
            text.push_str(&format!("; it fits the state before T{next}, which had answered"));
            ids.push(next);
            "stale-reply"
        }
        (None, Some(count)) if count > reader.high => {
            let last = line.writers[count - 1];
            text.push_str(&format!("; it fits the state after T{last}, which came later"));
            ids.push(last);
            "early-reply"
        }
        _ => "wrong-reply",
    };
    text.push_str(&format!("\n{txn}"));
    ids[1..].iter().for_each(|id| text.push_str(&format!("\n{}", txns[*id])));
    Anomaly::new(kind, text, ids)
}
