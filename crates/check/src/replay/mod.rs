//! Replay oracle: run the transactions one by one in commit order through the models, and compare
//! every reply.
//!
//! For every key, transactions took effect in order of their commit timestamps; together with
//! real-time order and the sessions' issue order that gives one order of all transactions, or a
//! contradiction, which is reported. Transactions run whole, so a torn one shows as a wrong reply.
//! A transaction that reads only comes after the writers of its timestamp.
//!
//! Indefinite transactions with a timestamp took effect there. Without one they are left out until
//! a reply cannot be explained without them; then a place is searched, latest first (see
//! `indefinite`). An accepted history is always explained by a complete order; with indefinite
//! transactions that interact, a valid history could be refused, so give timestamps where the
//! log knows them.

mod explain;
mod indefinite;

use crate::graph::{Graph, Kind, add_realtime, add_session};
use crate::history::{History, Outcome, Txn, Word};
use crate::model::{self, Model};
use crate::value::Value;
use crate::verdict::{Anomaly, Verdict};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Replays a history by its commit timestamps. `None` if it has none.
pub fn check(history: &History) -> Option<Verdict> {
    let txns = &history.txns;
    let stamped = |txn: &&Txn| txn.outcome == Outcome::Ok && txn.ts.is_some();
    txns.iter().find(stamped)?;
    let mut verdict = Verdict::new("replay");
    let mut placed = Vec::new();
    let mut loose = Vec::new();
    for txn in txns {
        match (txn.outcome, txn.ts) {
            (Outcome::Fail, _) => verdict.count("failed", 1),
            (_, Some(_)) => placed.push(txn.id),
            (Outcome::Info, None) => loose.push(txn.id),
            (Outcome::Ok, None) if writes(txn) => verdict.report(Anomaly::new(
                "missing-timestamp",
                format!("committed and wrote, but has no commit timestamp\n{txn}"),
                vec![txn.id],
            )),
            (Outcome::Ok, None) => verdict.count("unpositioned_reads", 1),
        }
    }
    verdict.count("transactions", placed.len());
    check_suffixes(txns, &mut verdict);
    let order = match order(txns, &placed, &mut verdict) {
        Some(order) if verdict.valid => order,
        _ => return Some(verdict),
    };
    let mut replay = Replay { txns, order, loose, steps_left: indefinite::STEPS_MAX };
    match replay.run() {
        Ok(counts) => {
            verdict.count("replies", counts.replies);
            verdict.count("unmodelled", counts.unmodelled);
            verdict.count("indefinite_left_out", replay.loose.len());
        }
        Err(mismatch) => verdict.report(explain::explain(&replay, history, &mismatch)),
    }
    Some(verdict)
}

fn writes(txn: &Txn) -> bool {
    let refused = |op: &crate::history::Op| op.reply.as_ref().is_some_and(Value::is_error);
    txn.ops.iter().any(|op| !model::is_read(&op.words) && !refused(op))
}

/// In a dispatched session, what was issued before a failure was known fails too.
fn check_suffixes(txns: &[Txn], verdict: &mut Verdict) {
    // Per session: the failed transaction whose failure was known last.
    let mut failed: BTreeMap<u64, &Txn> = BTreeMap::new();
    for txn in txns.iter().filter(|txn| txn.session_seq.is_some()) {
        match (txn.outcome, failed.get(&txn.process)) {
            (Outcome::Ok, Some(before)) if before.complete_us >= Some(txn.invoke_us) => {
                verdict.report(Anomaly::new(
                    "suffix-not-closed",
                    format!(
                        "T{} committed, though T{}, issued before it in the same session, failed \
                         later\n{before}\n{txn}",
                        txn.id, before.id
                    ),
                    vec![before.id, txn.id],
                ));
            }
            (Outcome::Fail, _) => {
                let known =
                    failed.get(&txn.process).is_none_or(|b| b.complete_us < txn.complete_us);
                if known {
                    failed.insert(txn.process, txn);
                }
            }
            _ => {}
        }
    }
}

/// Place of a transaction among those of one key. A pure read comes after the writers of its
/// timestamp.
fn stamp(txn: &Txn) -> (u64, bool, u64) {
    (txn.ts.unwrap_or_default(), !writes(txn), txn.tie.unwrap_or_default())
}

/// One order that respects timestamps per key, real time and sessions; reports a contradiction.
fn order(txns: &[Txn], placed: &[usize], verdict: &mut Verdict) -> Option<Vec<usize>> {
    let mut graph = Graph::new(txns.len());
    let mut keys: BTreeMap<&Word, Vec<usize>> = BTreeMap::new();
    for &id in placed {
        let named: BTreeSet<&Word> =
            txns[id].ops.iter().flat_map(|op| model::keys_of(&op.words)).collect();
        for key in named {
            keys.entry(key).or_default().push(id);
        }
    }
    for (key, mut ids) in keys {
        ids.sort_by_key(|&id| stamp(&txns[id]));
        add_timestamps(&mut graph, txns, key, &ids, verdict);
    }
    add_session(&mut graph, txns, placed);
    add_realtime(&mut graph, txns, placed);
    let all = [Kind::Timestamp, Kind::Session, Kind::Realtime].map(Kind::bit);
    let mask = all.iter().fold(0, |mask, bit| mask | bit);
    for members in graph.components(mask) {
        let Some(cycle) = graph.cycle(&members, mask) else { continue };
        let has = |kind| cycle.iter().any(|(_, edge)| edge.kind == kind);
        // Timestamps alone never go round in a circle.
        let name = if has(Kind::Realtime) { "realtime-order" } else { "session-order" };
        let steps: Vec<String> =
            cycle.iter().map(|(from, edge)| step(txns, *from, edge.to, edge.kind)).collect();
        let mut text = steps.join("; ");
        cycle.iter().for_each(|(id, _)| text.push_str(&format!("\n{}", txns[*id])));
        let ids = cycle.iter().map(|(id, _)| *id).collect();
        verdict.report(Anomaly::new(name, text, ids));
    }
    verdict.valid.then(|| sort(txns, placed, &graph))
}

fn step(txns: &[Txn], from: usize, to: usize, kind: Kind) -> String {
    match kind {
        Kind::Session => format!("process {} issued T{from} before T{to}", txns[to].process),
        Kind::Realtime => format!("T{from} had answered before T{to} was invoked"),
        _ => format!("T{from} has a smaller timestamp than T{to} on a common key"),
    }
}

/// Adds the order of one key. Readers between two writers have no order among themselves.
fn add_timestamps(
    graph: &mut Graph,
    txns: &[Txn],
    key: &Word,
    ids: &[usize],
    verdict: &mut Verdict,
) {
    let mut writer: Option<usize> = None;
    let mut readers: Vec<usize> = Vec::new();
    for &id in ids {
        let txn = &txns[id];
        let reads_key = |op: &crate::history::Op| {
            !model::keys_of(&op.words).contains(&key) || model::is_read(&op.words)
        };
        if txn.ops.iter().all(reads_key) {
            readers.push(id);
            writer.iter().for_each(|&before| graph.add(before, id, Kind::Timestamp, 0));
            continue;
        }
        if let Some(before) = writer
            && stamp(&txns[before]) == stamp(txn)
        {
            let text = format!(
                "T{before} and T{id} both wrote {} at timestamp {}; give a tie\n{}\n{txn}",
                crate::value::show_word(key),
                txn.ts.unwrap_or_default(),
                txns[before]
            );
            verdict.report(Anomaly::new("shared-timestamp", text, vec![before, id]));
        }
        let before = readers.drain(..).chain(writer);
        before.for_each(|before| graph.add(before, id, Kind::Timestamp, 0));
        writer = Some(id);
    }
}

/// Topological order; among what is free, the smallest timestamp first.
fn sort(txns: &[Txn], placed: &[usize], graph: &Graph) -> Vec<usize> {
    let mut incoming = vec![0_usize; txns.len()];
    for edge in placed.iter().flat_map(|&id| &graph.edges[id]) {
        incoming[edge.to] += 1;
    }
    let entry = |id: usize| Reverse((stamp(&txns[id]), txns[id].invoke_us, id));
    let mut free: BinaryHeap<_> =
        placed.iter().filter(|&&id| incoming[id] == 0).map(|&id| entry(id)).collect();
    let mut sorted = Vec::with_capacity(placed.len());
    while let Some(Reverse((.., id))) = free.pop() {
        sorted.push(id);
        for edge in &graph.edges[id] {
            incoming[edge.to] -= 1;
            if incoming[edge.to] == 0 {
                free.push(entry(edge.to));
            }
        }
    }
    sorted
}

/// The transactions in the order in which they are replayed.
struct Replay<'h> {
    txns: &'h [Txn],
    order: Vec<usize>,
    /// Indefinite transactions without a place.
    loose: Vec<usize>,
    /// How many model steps the search for places may still take.
    steps_left: usize,
}

/// A point to which the search can return.
struct Branch {
    order: Vec<usize>,
    loose: Vec<usize>,
    /// What else could be inserted there, likeliest first.
    options: Vec<Vec<indefinite::Placed>>,
}

/// A reply that differs from the model's.
#[derive(Clone, Debug)]
struct Mismatch {
    /// Place in the order.
    place: usize,
    /// Which command of the transaction.
    op: usize,
    expected: Value,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    replies: usize,
    unmodelled: usize,
}

impl Replay<'_> {
    fn run(&mut self) -> Result<Counts, Mismatch> {
        let mut trail: Vec<Branch> = Vec::new();
        let mut furthest: Option<(Vec<usize>, Mismatch)> = None;
        loop {
            let mismatch = match replay(self.txns, &self.order, |_| true) {
                Ok(counts) => return Ok(counts),
                Err(mismatch) => mismatch,
            };
            let options = self.options(&mismatch);
            if furthest.as_ref().is_none_or(|(_, best)| best.place < mismatch.place) {
                furthest = Some((self.order.clone(), mismatch));
            }
            trail.push(Branch { order: self.order.clone(), loose: self.loose.clone(), options });
            while trail.last().is_some_and(|branch| branch.options.is_empty()) {
                trail.pop();
            }
            let Some(branch) = trail.last_mut() else {
                let (order, mismatch) = furthest.expect("set above");
                self.order = order;
                return Err(mismatch);
            };
            self.order.clone_from(&branch.order);
            self.loose.clone_from(&branch.loose);
            let chosen = branch.options.remove(0);
            self.insert(&chosen);
        }
    }
}

/// Runs the commands for which `wanted` holds and compares replies. A key that a command touches
/// which is not modelled is not compared any more.
fn replay(
    txns: &[Txn],
    order: &[usize],
    wanted: impl Fn(&[Word]) -> bool,
) -> Result<Counts, Mismatch> {
    let mut model = Model::default();
    let mut unknown: BTreeSet<&Word> = BTreeSet::new();
    let mut counts = Counts::default();
    for (place, &id) in order.iter().enumerate() {
        for (number, op) in txns[id].ops.iter().enumerate().filter(|(_, op)| wanted(&op.words)) {
            let keys = model::keys_of(&op.words);
            if keys.iter().any(|key| unknown.contains(key)) {
                counts.unmodelled += 1;
                unknown.extend(keys.into_iter().filter(|_| !model::is_read(&op.words)));
                continue;
            }
            let Some(expected) = model.try_apply(&op.words) else {
                counts.unmodelled += 1;
                unknown.extend(keys);
                continue;
            };
            let Some(reply) = &op.reply else { continue };
            counts.replies += 1;
            if !model::agree(&op.words, &expected, reply) {
                return Err(Mismatch { place, op: number, expected });
            }
        }
    }
    Ok(counts)
}
