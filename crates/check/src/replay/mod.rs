//! Replay oracle: runs the transactions one by one in commit order through the models, and compares
//! every reply.
//!
//! For every key, transactions took effect in order of their commit timestamps; together with
//! real-time order and the sessions' issue order that gives one order of all transactions, or a
//! contradiction, which is reported. Transactions run whole, so a torn one shows as a wrong reply.
//! Timestamps only lead to the order; the criterion is that one exists. Two commuting writes may
//! have timestamps that differ from real time, or from the order that a reader has inferred by way
//! of other keys, as long as no reply reveals it; they then change places, and the replies decide
//! whether that was right. A read-only transaction comes after the writers of its timestamp; one
//! without a timestamp is placed by its observations (see `reads`).
//!
//! Indefinite transactions with a timestamp took effect there. Without one they are left out until
//! a reply cannot be explained without them; then a place is searched, latest first (see
//! `indefinite`). An accepted history is always explained by a complete order; with indefinite
//! transactions that interact, a valid history could be refused, so give timestamps where the log
//! has them.

mod explain;
mod indefinite;
mod reads;

use crate::graph::{Edge, Graph, Kind, add_realtime, add_session};
use crate::history::{History, Op, Outcome, Txn, Word};
use crate::model::{self, Model};
use crate::value::Value;
use crate::verdict::{Anomaly, Verdict};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Most transactions that are moved to another place than that of their timestamps.
const SWAPS_MAX: usize = 64;

/// Replays a history by its commit timestamps. `None` if it has none.
pub fn check(history: &History) -> Option<Verdict> {
    let (first, mut contradictions) = attempt(history)?;
    if first.valid {
        return Some(first);
    }
    let mut changed = history.clone();
    // By the one that is now in front; a pair does not change places twice.
    let mut swapped: BTreeSet<(usize, usize)> = BTreeSet::new();
    for swaps in 1..=SWAPS_MAX {
        let Some((a, b)) = contradictions.swappable(&changed.txns, &swapped) else { break };
        swapped.insert((b, a));
        // Transactions of the session of either may stand between them.
        let mut best: Option<(History, Contradictions)> = None;
        for moves_ahead in [true, false] {
            let tried = change_places(&changed, (a, b), moves_ahead);
            let (mut verdict, left) = attempt(&tried)?;
            if verdict.valid {
                verdict.count("places_changed", swaps);
                return Some(verdict);
            }
            if best.as_ref().is_none_or(|(_, known)| left.count() < known.count()) {
                best = Some((tried, left));
            }
        }
        (changed, contradictions) = best?;
    }
    Some(first)
}

/// Moves the first of two writers right behind the second, or the second right in front of the first,
/// with nothing between them: of several writers that change places with the same one, the later has to
/// come closer to it.
fn change_places(history: &History, (a, b): (usize, usize), moves_ahead: bool) -> History {
    let mut changed = history.clone();
    let stamps: BTreeSet<_> =
        changed.txns.iter().filter(|txn| txn.ts.is_some()).map(stamp).collect();
    let places: BTreeMap<_, u64> = stamps.into_iter().zip(0..).collect();
    for txn in &mut changed.txns {
        // There is room on both sides of each.
        txn.tie = places.get(&stamp(txn)).filter(|_| txn.ts.is_some()).map(|place| 2 * place + 1);
    }
    let (moved, beside) = if moves_ahead { (b, a) } else { (a, b) };
    let (ts, tie) = (changed.txns[beside].ts, changed.txns[beside].tie.unwrap_or_default());
    changed.txns[moved].ts = ts;
    changed.txns[moved].tie = Some(if moves_ahead { tie - 1 } else { tie + 1 });
    changed
}

/// Contradictions of the order of the timestamps.
#[derive(Default)]
struct Contradictions {
    cycles: Vec<Cycle>,
    /// Writers of which a reader has seen the second and not the first, which precedes it.
    overtaken: Vec<(usize, usize)>,
}

impl Contradictions {
    fn count(&self) -> usize {
        self.cycles.len() + self.overtaken.len()
    }

    /// Two writers that may change places: the first has the smaller timestamp.
    fn swappable(
        &self,
        txns: &[Txn],
        swapped: &BTreeSet<(usize, usize)>,
    ) -> Option<(usize, usize)> {
        let by_timestamp =
            |edge: &Edge| edge.kind == Kind::Timestamp && edge.note == reads::BY_TIMESTAMP;
        let steps = self.cycles.iter().flatten().filter(|(_, edge)| by_timestamp(edge));
        let pairs = steps.map(|(from, edge)| (*from, edge.to));
        let mut pairs = pairs.chain(self.overtaken.iter().copied());
        pairs.find(|&(a, b)| !swapped.contains(&(a, b)) && may_swap(txns, a, b))
    }
}

/// Replays once; also returns the contradictions between timestamps and observations, if any.
fn attempt(history: &History) -> Option<(Verdict, Contradictions)> {
    let txns = &history.txns;
    let stamped = |txn: &&Txn| txn.outcome == Outcome::Ok && txn.ts.is_some();
    txns.iter().find(stamped)?;
    let mut verdict = Verdict::new("replay");
    let mut placed = Vec::new();
    let mut loose = Vec::new();
    let mut readers = Vec::new();
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
            (Outcome::Ok, None) => readers.push(txn.id),
        }
    }
    check_suffixes(txns, &mut verdict);
    let order = match order(history, &placed, &readers, &mut verdict) {
        Ok(order) => order,
        Err(contradictions) => return Some((verdict, contradictions)),
    };
    let mut replay = Replay::new(txns, order, loose);
    match replay.run() {
        Ok(counts) => {
            verdict.count("replies", counts.replies);
            verdict.count("unmodelled", counts.unmodelled);
            verdict.count("indefinite_left_out", replay.loose.len());
        }
        Err(mismatch) => verdict.report(explain::explain(&replay, history, &mismatch)),
    }
    Some((verdict, Contradictions::default()))
}

fn writes(txn: &Txn) -> bool {
    let nothing = |op: &crate::history::Op| {
        op.reply.as_ref().is_some_and(|r| r.is_error() || model::is_idle(&op.words, r))
    };
    txn.ops.iter().any(|op| !model::is_read(&op.words) && !nothing(op))
}

/// Reports transactions of a dispatched session that were issued before a failure was known and did
/// not fail.
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

/// Most moves of readers without timestamp to a later place, where they have several.
const MOVES_MAX: usize = 500;

/// One order that respects timestamps per key, real time and sessions; reports a contradiction.
fn order(
    history: &History,
    placed: &[usize],
    readers: &[usize],
    verdict: &mut Verdict,
) -> Result<Vec<usize>, Contradictions> {
    let txns = &history.txns;
    let mut lines: BTreeMap<&Word, Vec<usize>> = BTreeMap::new();
    for &id in placed {
        for key in keys(&txns[id]) {
            lines.entry(key).or_default().push(id);
        }
    }
    for (key, ids) in &mut lines {
        ids.sort_by_key(|&id| stamp(&txns[id]));
        report_shared(txns, key, ids, verdict);
    }
    let (mut seats, overtaken) = reads::seats(history, placed, readers, verdict);
    let mut guessed = false;
    for moves in 0.. {
        if moves == MOVES_MAX {
            verdict.count("readers_given_up", seats.len());
            seats.clear();
        }
        let mut ids = placed.to_vec();
        ids.extend(seats.iter().map(|seat| seat.reader));
        ids.sort_unstable();
        ids.dedup();
        let mut graph = Graph::new(txns.len());
        lines.iter().for_each(|(key, ids)| add_timestamps(&mut graph, txns, key, ids));
        seats.iter().for_each(|seat| seat.add_edges(&mut graph));
        add_session(&mut graph, txns, &ids);
        add_realtime(&mut graph, txns, &ids);
        let cycles = cycles(&graph);
        if !make_way(&cycles, &mut seats, &mut guessed) {
            cycles.iter().for_each(|cycle| report_cycle(txns, cycle, verdict));
            verdict.count("transactions", ids.len());
            let contradictions = Contradictions { cycles, overtaken };
            return if verdict.valid { Ok(sort(txns, &ids, &graph)) } else { Err(contradictions) };
        }
    }
    Err(Contradictions::default())
}

type Cycle = Vec<(usize, Edge)>;

/// One cycle of each component.
fn cycles(graph: &Graph) -> Vec<Cycle> {
    let mask = ORDER.iter().fold(0, |mask, kind| mask | kind.bit());
    let components = graph.components(mask);
    components.iter().filter_map(|members| graph.cycle(members, mask)).collect()
}

/// Moves readers with a further place out of the cycles; returns whether anything changed. Where
/// several could move one is guessed; after that, a cycle counts as real only without such
/// readers.
fn make_way(cycles: &[Cycle], seats: &mut Vec<reads::Seat>, guessed: &mut bool) -> bool {
    let mut changed = false;
    for cycle in cycles {
        let yields = |seat: &&mut reads::Seat| {
            cycle.iter().any(|(from, edge)| seat.can_yield(*from, edge.to))
        };
        let mut yielding: Vec<&mut reads::Seat> = seats.iter_mut().filter(yields).collect();
        *guessed |= yielding.len() > 1;
        if let Some(seat) = yielding.first_mut() {
            seat.advance();
            changed = true;
        } else if *guessed {
            let before = seats.len();
            seats.retain(|seat| cycle.iter().all(|(id, _)| *id != seat.reader));
            changed |= seats.len() < before;
        }
    }
    changed
}

/// Whether two writers, of which the first has the smaller timestamp, may have the reverse order:
/// the first was not answered before the second was invoked, and they commute.
fn may_swap(txns: &[Txn], a: usize, b: usize) -> bool {
    let concurrent = !txns[a].precedes(&txns[b]) && txns[a].process != txns[b].process;
    let (of_a, of_b) = (keys(&txns[a]), keys(&txns[b]));
    concurrent && of_a.intersection(&of_b).all(|key| commute(txns, key, a, b))
}

/// The keys that a transaction names.
fn keys(txn: &Txn) -> BTreeSet<&Word> {
    txn.ops.iter().flat_map(|op| model::keys_of(&op.words)).collect()
}

/// Whether the accesses of two transactions to a key have the same results, replies included, in
/// either order. (The test starts from an absent key; the replay decides finally.)
fn commute(txns: &[Txn], key: &Word, a: usize, b: usize) -> bool {
    let run = |ids: [usize; 2]| {
        let mut model = Model::default();
        let mut replies = Vec::new();
        for id in ids {
            let on_key = |op: &&Op| model::keys_of(&op.words).contains(&key);
            let ops = txns[id].ops.iter().filter(on_key);
            replies.push((id, ops.map(|op| model.apply(&op.words)).collect::<Vec<_>>()));
        }
        replies.sort_by_key(|(id, _)| *id);
        (model, replies)
    };
    let ((one, answered), (other, replies)) = (run([a, b]), run([b, a]));
    one.is_like(&other) && answered == replies
}

/// Kinds of edges that the total order respects.
const ORDER: [Kind; 3] = [Kind::Timestamp, Kind::Session, Kind::Realtime];

fn report_cycle(txns: &[Txn], cycle: &Cycle, verdict: &mut Verdict) {
    let has = |kind| cycle.iter().any(|(_, edge)| edge.kind == kind);
    let name = match (has(Kind::Realtime), has(Kind::Session)) {
        (true, _) => "realtime-order",
        (false, true) => "session-order",
        // Timestamps alone never form a cycle: a reader saw one write and not another.
        (false, false) => "torn-read",
    };
    let steps: Vec<String> = cycle.iter().map(|(from, edge)| step(txns, *from, edge)).collect();
    let mut text = steps.join("; ");
    cycle.iter().for_each(|(id, _)| text.push_str(&format!("\n{}", txns[*id])));
    let ids = cycle.iter().map(|(id, _)| *id).collect();
    verdict.report(Anomaly::new(name, text, ids));
}

fn step(txns: &[Txn], from: usize, edge: &Edge) -> String {
    let to = edge.to;
    match (edge.kind, edge.note) {
        (Kind::Session, _) => format!("process {} issued T{from} before T{to}", txns[to].process),
        (Kind::Realtime, _) => format!("T{from} had answered before T{to} was invoked"),
        (_, reads::SEEN) => format!("T{to} saw what T{from} wrote"),
        (_, reads::UNSEEN) => format!("T{from} did not see what T{to} wrote"),
        _ => format!("T{from} has a smaller timestamp than T{to} on a common key"),
    }
}

/// Whether a transaction only reads this key.
fn only_reads(txn: &Txn, key: &Word) -> bool {
    txn.ops.iter().all(|op| !model::keys_of(&op.words).contains(&key) || model::is_read(&op.words))
}

/// Reports writers of one key with equal timestamps and ties.
fn report_shared(txns: &[Txn], key: &Word, ids: &[usize], verdict: &mut Verdict) {
    let writers: Vec<&Txn> =
        ids.iter().map(|&id| &txns[id]).filter(|txn| !only_reads(txn, key)).collect();
    for pair in writers.windows(2).filter(|pair| stamp(pair[0]) == stamp(pair[1])) {
        let (first, second) = (pair[0], pair[1]);
        let text = format!(
            "T{} and T{} both wrote {} at timestamp {}; give a tie\n{first}\n{second}",
            first.id,
            second.id,
            crate::value::show_word(key),
            first.ts.unwrap_or_default(),
        );
        verdict.report(Anomaly::new("shared-timestamp", text, vec![first.id, second.id]));
    }
}

/// Adds the order of one key. Readers between two writers have no order among themselves.
fn add_timestamps(graph: &mut Graph, txns: &[Txn], key: &Word, ids: &[usize]) {
    let mut writer: Option<usize> = None;
    let mut readers: Vec<usize> = Vec::new();
    for &id in ids {
        if only_reads(&txns[id], key) {
            readers.push(id);
            let before = writer.iter();
            before.for_each(|&w| graph.add(w, id, Kind::Timestamp, reads::BY_TIMESTAMP));
            continue;
        }
        let before = readers.drain(..).chain(writer);
        before.for_each(|b| graph.add(b, id, Kind::Timestamp, reads::BY_TIMESTAMP));
        writer = Some(id);
    }
}

/// Topological order; among free transactions, the smallest timestamp first.
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

/// The transactions in replay order.
struct Replay<'h> {
    txns: &'h [Txn],
    order: Vec<usize>,
    /// Indefinite transactions without a place.
    loose: Vec<usize>,
    /// All words of all replies.
    seen: BTreeSet<Word>,
    /// Number of model steps that the search for places may still take.
    steps_left: usize,
}

/// A point to which the search can return.
struct Branch {
    order: Vec<usize>,
    loose: Vec<usize>,
    /// Further insertions at that place, likeliest first.
    options: Vec<Vec<indefinite::Placed>>,
}

/// A reply that differs from the model's.
#[derive(Clone, Debug)]
struct Mismatch {
    /// Place in the order.
    place: usize,
    /// Index of the command in the transaction.
    op: usize,
    expected: Value,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    replies: usize,
    unmodelled: usize,
}

impl<'h> Replay<'h> {
    fn new(txns: &'h [Txn], order: Vec<usize>, loose: Vec<usize>) -> Self {
        let replies = txns.iter().flat_map(|txn| &txn.ops).filter_map(|op| op.reply.as_ref());
        let words = |reply: &Value| -> Vec<Word> {
            reply.flat().iter().map(|value| value.canonical()).collect()
        };
        // Needed only where there is a choice.
        let seen = replies.filter(|_| !loose.is_empty()).flat_map(words).collect();
        Self { txns, order, loose, seen, steps_left: indefinite::STEPS_MAX }
    }

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

/// Runs the commands for which `wanted` holds and compares replies.
fn replay(
    txns: &[Txn],
    order: &[usize],
    wanted: impl Fn(&[Word]) -> bool,
) -> Result<Counts, Mismatch> {
    let mut state = State::default();
    state.run(txns, order, wanted).map(|()| state.counts)
}

/// Result of the transactions that were replayed so far.
#[derive(Clone, Debug, Default)]
struct State<'h> {
    model: Model,
    /// Keys that an unmodelled command touched: they are no longer compared.
    unknown: BTreeSet<&'h Word>,
    counts: Counts,
    /// Number of transactions that were replayed.
    place: usize,
}

impl<'h> State<'h> {
    /// Runs further transactions.
    fn run(
        &mut self,
        txns: &'h [Txn],
        order: &[usize],
        wanted: impl Fn(&[Word]) -> bool,
    ) -> Result<(), Mismatch> {
        for &id in order {
            for (number, op) in txns[id].ops.iter().enumerate().filter(|(_, op)| wanted(&op.words))
            {
                self.follow(op).map_err(|expected| {
                    let place = self.place;
                    Mismatch { place, op: number, expected }
                })?;
            }
            self.place += 1;
        }
        Ok(())
    }

    /// Runs a command; returns the expected reply if it differs from the recorded one.
    fn follow(&mut self, op: &'h Op) -> Result<(), Value> {
        let keys = model::keys_of(&op.words);
        if keys.iter().any(|key| self.unknown.contains(key)) {
            self.counts.unmodelled += 1;
            self.unknown.extend(keys.into_iter().filter(|_| !model::is_read(&op.words)));
            return Ok(());
        }
        let Some(expected) = self.model.try_follow(&op.words, op.reply.as_ref()) else {
            self.counts.unmodelled += 1;
            self.unknown.extend(keys);
            return Ok(());
        };
        let Some(reply) = &op.reply else { return Ok(()) };
        self.counts.replies += 1;
        if model::agree(&op.words, &expected, reply) { Ok(()) } else { Err(expected) }
    }
}
