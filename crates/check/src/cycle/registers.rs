//! Registers with unique values: a read names its writer, but the order of versions must be
//! inferred.
//!
//! Sources, from certain to indirect: within a transaction (read, then written; written, then
//! written); nothing precedes everything; what one reader saw together; real time and sessions. What follows from real time is
//! left out where it contradicts the rest, because then the cycle among transactions shows it.

use super::observe::{KeyFacts, Step, View};
use super::{Builder, NOTHING, Note};
use crate::graph::{Graph, Kind, realtime_pairs};
use std::collections::{BTreeMap, BTreeSet};

/// What a transaction saw and left behind.
#[derive(Debug, Default)]
struct Seen {
    /// Values read before the first write ([`NOTHING`] for no value).
    external: Vec<usize>,
    writes: Vec<usize>,
    /// What a read should have shown.
    contradiction: Option<usize>,
}

impl Seen {
    /// The version that the transaction met, if it says so.
    fn first(&self) -> Option<usize> {
        self.external.first().or(self.writes.first()).copied()
    }

    /// The version that the transaction left.
    fn left(&self) -> Option<usize> {
        self.writes.last().or(self.external.last()).copied()
    }
}

fn look(view: &View) -> Seen {
    let mut seen = Seen::default();
    let mut known = None;
    for step in &view.steps {
        match step {
            Step::Write(value) => {
                seen.writes.push(*value);
                known = Some(*value);
            }
            Step::Read(read) => {
                let value = read.first().copied().unwrap_or(NOTHING);
                if known.is_some_and(|known| known != value) {
                    seen.contradiction = known;
                }
                if seen.writes.is_empty() && seen.external.last() != Some(&value) {
                    seen.external.push(value);
                }
                known = Some(value);
            }
        }
    }
    seen
}

/// How certain an order of two versions is.
const CERTAIN: Kind = Kind::Ww;
/// Somebody saw other writes of the one that wrote the first, and the second.
const BY_READS: Kind = Kind::WwByReads;
/// From real time, to a version that is written later.
const WRITTEN_LATER: Kind = Kind::WwByTime;
/// From real time, to a version that is read later.
const READ_LATER: Kind = Kind::RwByTime;

/// Adds the edges of one register; answers what is wrong if its versions go round in a circle.
pub(super) fn infer(builder: &mut Builder<'_>, facts: &KeyFacts) -> Option<String> {
    builder.verdict.count("register_keys", 1);
    let mut seen: BTreeMap<usize, Seen> = BTreeMap::new();
    for view in &facts.views {
        if !builder.committed(view.txn) {
            continue;
        }
        let mut one = look(view);
        if builder.is_ok(view.txn) {
            view.reads().for_each(|read| builder.check_sources(facts, view.txn, read));
            let expected = one.contradiction.map(|value| match value {
                NOTHING => "a read should answer nil".to_owned(),
                value => format!("a read should answer {}", builder.name(value)),
            });
            builder.check_internal(facts, view.txn, expected);
            for &value in &one.external {
                builder.check_intermediate(facts, view.txn, value);
            }
        } else {
            one.external.clear();
        }
        seen.insert(view.txn, one);
    }
    check_updates(builder, facts, &seen);
    let (values, versions) = version_order(builder, facts, &seen);
    let mut kinds = vec![CERTAIN, BY_READS, WRITTEN_LATER, READ_LATER];
    let mask = |kinds: &[Kind]| kinds.iter().fold(0, |mask, kind| mask | kind.bit());
    let cyclic = !versions.components(mask(&kinds)).is_empty();
    while !versions.components(mask(&kinds)).is_empty() {
        kinds.pop();
    }
    add_edges(builder, facts, &seen, &values, &versions, mask(&kinds));
    cyclic.then(|| {
        format!("no order of the values of {} fits all reads and writes", builder.name(facts.key))
    })
}

fn check_updates(builder: &mut Builder<'_>, facts: &KeyFacts, seen: &BTreeMap<usize, Seen>) {
    let mut updaters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (txn, one) in seen {
        if let (Some(version), false) = (one.external.last(), one.writes.is_empty()) {
            updaters.entry(*version).or_default().push(*txn);
        }
    }
    for (version, txns) in updaters {
        let version: &[usize] = if version == NOTHING { &[] } else { &[version] };
        builder.check_lost_update(facts, version, &txns);
    }
}

/// The values that occur, sorted, and a graph over their places in that list.
fn version_order(
    builder: &Builder<'_>,
    facts: &KeyFacts,
    seen: &BTreeMap<usize, Seen>,
) -> (Vec<usize>, Graph) {
    let all = seen.values().flat_map(|one| one.external.iter().chain(&one.writes));
    let values: BTreeSet<usize> = all.copied().chain([NOTHING]).collect();
    let values: Vec<usize> = values.into_iter().collect();
    let mut pairs: BTreeSet<(Kind, usize, usize)> = BTreeSet::new();
    for one in seen.values() {
        let chain: Vec<usize> =
            one.external.last().into_iter().chain(&one.writes).copied().collect();
        if !one.writes.is_empty() {
            pairs.extend(chain.windows(2).map(|pair| (CERTAIN, pair[0], pair[1])));
        }
    }
    by_reads(builder, facts, seen, &mut pairs);
    let ids: Vec<usize> = seen.keys().copied().collect();
    written_later(builder, seen, &ids, &mut pairs);
    for (before, after) in realtime_pairs(builder.txns, &ids) {
        if let (Some(left), Some(met)) = (seen[&before].left(), seen[&after].first()) {
            pairs.insert((READ_LATER, left, met));
        }
    }
    let overwritten: BTreeSet<usize> =
        pairs.iter().filter(|(kind, ..)| *kind == CERTAIN).map(|(_, _, after)| *after).collect();
    for value in values.iter().filter(|value| !overwritten.contains(value)) {
        pairs.insert((CERTAIN, NOTHING, *value));
    }
    let mut graph = Graph::new(values.len());
    let place = |value| values.binary_search(value).expect("collected above");
    for (kind, before, after) in &pairs {
        // Nothing comes before "no value"; a read of it too late shows as a cycle of transactions.
        if *after != NOTHING {
            graph.add(place(before), place(after), *kind, 0);
        }
    }
    (values, graph)
}

/// Whoever saw anything of a transaction comes after all of it: if it saw another value here, that
/// one is younger.
fn by_reads(
    builder: &Builder<'_>,
    facts: &KeyFacts,
    seen: &BTreeMap<usize, Seen>,
    pairs: &mut BTreeSet<(Kind, usize, usize)>,
) {
    for (reader, one) in seen {
        for value in &one.external {
            // A version of nobody committed is reported elsewhere.
            let Some(writer) = facts.writers.get(value) else { continue };
            for source in builder.sources.get(reader).into_iter().flatten() {
                if let Some(left) = seen.get(source).and_then(|source| source.writes.last())
                    && *source != writer.txn
                {
                    pairs.insert((BY_READS, *left, *value));
                }
            }
        }
    }
}

/// Orders what a transaction left before what a later one wrote, by real time and by session.
/// Entries are dropped when a write that follows them has been answered.
fn written_later(
    builder: &Builder<'_>,
    seen: &BTreeMap<usize, Seen>,
    ids: &[usize],
    pairs: &mut BTreeSet<(Kind, usize, usize)>,
) {
    let mut moments: Vec<(u64, u8, usize)> = Vec::new();
    for &id in ids {
        let txn = &builder.txns[id];
        moments.push((txn.invoke_us, 0, id));
        moments.extend(txn.complete_us.map(|complete_us| (complete_us, 1, id)));
    }
    moments.sort_unstable();
    let mut frontier: Vec<(usize, usize)> = Vec::new();
    for (_, answer, id) in moments {
        let one = &seen[&id];
        if answer == 0 {
            if let Some(written) = one.writes.first() {
                pairs.extend(frontier.iter().map(|(_, left)| (WRITTEN_LATER, *left, *written)));
            }
        } else if let Some(left) = one.left() {
            let txn = &builder.txns[id];
            let kept = |other: usize, value: usize| {
                let followed = builder.txns[other].precedes(txn);
                !followed || (one.writes.is_empty() && value != left)
            };
            frontier.retain(|(other, value)| kept(*other, *value));
            frontier.push((id, left));
        }
    }
    let mut sessions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    // An indefinite transaction may take effect after its session's next one.
    for &id in ids.iter().filter(|id| builder.is_ok(**id)) {
        sessions.entry(builder.txns[id].process).or_default().push(id);
    }
    for issued in sessions.into_values() {
        let mut left: Vec<usize> = Vec::new();
        for one in issued.iter().map(|id| &seen[id]) {
            if let Some(written) = one.writes.first() {
                pairs.extend(left.drain(..).map(|value| (WRITTEN_LATER, value, *written)));
            }
            left.extend(one.left());
        }
    }
}

fn add_edges(
    builder: &mut Builder<'_>,
    facts: &KeyFacts,
    seen: &BTreeMap<usize, Seen>,
    values: &[usize],
    versions: &Graph,
    mask: u16,
) {
    let writer = |builder: &Builder<'_>, value: usize| {
        facts.writers.get(&value).map(|w| w.txn).filter(|txn| builder.committed(*txn))
    };
    let mut readers: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (&txn, one) in seen {
        for &value in &one.external {
            readers.entry(value).or_default().push(txn);
            if let Some(from) = writer(builder, value) {
                let note = Note { key: facts.key, before: NOTHING, after: value };
                builder.edge(from, txn, Kind::Wr, note);
            }
        }
    }
    for (place, edges) in versions.edges.iter().enumerate() {
        for edge in edges.iter().filter(|edge| edge.kind.bit() & mask != 0) {
            let (before, after) = (values[place], values[edge.to]);
            let Some(to) = writer(builder, after) else { continue };
            let (ww, rw) = match edge.kind {
                CERTAIN => (Kind::Ww, Kind::Rw),
                BY_READS => (Kind::WwByReads, Kind::Rw),
                _ => (Kind::WwByTime, Kind::RwByTime),
            };
            let note = Note { key: facts.key, before, after };
            if let Some(from) = writer(builder, before) {
                builder.edge(from, to, ww, note);
            }
            for &reader in readers.get(&before).map_or(&[][..], |readers| &readers[..]) {
                builder.edge(reader, to, rw, note);
            }
        }
    }
}
