//! Registers with unique values: a read names its writer, but the order of writes is not shown.
//!
//! Reads of nothing come before every write. All else is inferred by saturation: a transaction that
//! saw one write cannot have another write between the two. So, when R saw W1's value and W2 wrote
//! the same key: if W2 precedes R it precedes W1, and if W1 precedes W2 then so does R. Each such
//! conclusion may allow further ones. (Biswas and Enea, "On the complexity of checking
//! transactional consistency", OOPSLA 2019, show what this decides and what remains NP-hard.)

use super::observe::{KeyFacts, Step, View};
use super::{Builder, NOTHING, Note};
use crate::graph::Kind;
use std::collections::BTreeMap;

/// Number of transactions above which nothing is inferred beyond direct evidence from reads.
const TXNS_MAX: usize = 8_192;

/// Most rounds of inference.
const ROUNDS_MAX: usize = 12;

/// Writers and readers of one register.
#[derive(Debug)]
pub(super) struct Register {
    key: usize,
    /// Transactions with their last value.
    writes: Vec<(usize, usize)>,
    /// Readers, the transactions whose value they saw, and the value.
    reads: Vec<(usize, usize, usize)>,
}

/// Values that a transaction saw and left behind.
#[derive(Debug, Default)]
struct Seen {
    /// Values read before the first write ([`NOTHING`] for no value).
    external: Vec<usize>,
    writes: Vec<usize>,
    /// Expected result of a contradictory read.
    contradiction: Option<usize>,
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

/// Adds the direct evidence from reads of one register; returns the input for further inference.
pub(super) fn infer(builder: &mut Builder<'_>, facts: &KeyFacts) -> Register {
    builder.verdict.count("register_keys", 1);
    let mut register = Register { key: facts.key, writes: Vec::new(), reads: Vec::new() };
    let mut of_nothing: Vec<usize> = Vec::new();
    let mut updaters: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for view in &facts.views {
        if !builder.committed(view.txn) {
            continue;
        }
        let seen = look(view);
        register.writes.extend(seen.writes.last().map(|value| (view.txn, *value)));
        if !builder.is_ok(view.txn) {
            continue;
        }
        check_reads(builder, facts, view, &seen);
        for &value in &seen.external {
            match facts.writers.get(&value) {
                _ if value == NOTHING => of_nothing.push(view.txn),
                Some(writer) if builder.committed(writer.txn) => {
                    let note = Note { key: facts.key, before: NOTHING, after: value };
                    builder.edge(writer.txn, view.txn, Kind::Wr, note);
                    register.reads.push((view.txn, writer.txn, value));
                }
                _ => {}
            }
        }
        if let (Some(version), false) = (seen.external.last(), seen.writes.is_empty()) {
            updaters.entry(*version).or_default().push(view.txn);
        }
    }
    for reader in of_nothing {
        for &(writer, value) in &register.writes {
            let note = Note { key: facts.key, before: NOTHING, after: value };
            builder.edge(reader, writer, Kind::Rw, note);
        }
    }
    for (version, txns) in updaters {
        let version: &[usize] = if version == NOTHING { &[] } else { &[version] };
        builder.check_lost_update(facts, version, &txns);
    }
    register
}

fn check_reads(builder: &mut Builder<'_>, facts: &KeyFacts, view: &View, seen: &Seen) {
    view.reads().for_each(|read| builder.check_sources(facts, view.txn, read));
    let expected = seen.contradiction.map(|value| match value {
        NOTHING => "a read should answer nil".to_owned(),
        value => format!("a read should answer {}", builder.name(value)),
    });
    builder.check_internal(facts, view.txn, expected);
    builder.check_own_future(facts, view.txn, &seen.external);
    for &value in &seen.external {
        builder.check_intermediate(facts, view.txn, value);
    }
}

/// Draws conclusions until there are no new ones, from edges of `mask`; adds them as the kinds `ww`
/// and `rw`. Stops at a cycle, from which everything would follow.
pub(super) fn saturate(
    builder: &mut Builder<'_>,
    registers: &[Register],
    mask: u16,
    [ww, rw]: [Kind; 2],
) {
    if builder.txns.len() > TXNS_MAX {
        builder.verdict.counts.insert("registers_not_inferred", registers.len() as u64);
        return;
    }
    for _ in 0..ROUNDS_MAX {
        let Some(reach) = builder.graph.closure(mask) else { return };
        let mut found = Vec::new();
        for register in registers {
            let key = register.key;
            for &(reader, source, seen) in &register.reads {
                for &(other, value) in register.writes.iter().filter(|(w, _)| *w != source) {
                    if other == reader {
                        continue;
                    }
                    if reach.has(other, reader) && !reach.has(other, source) {
                        found.push((other, source, ww, Note { key, before: value, after: seen }));
                    }
                    if reach.has(source, other) && !reach.has(reader, other) {
                        found.push((reader, other, rw, Note { key, before: seen, after: value }));
                    }
                }
            }
        }
        if found.is_empty() {
            return;
        }
        for (from, to, kind, note) in found {
            builder.edge(from, to, kind, note);
        }
    }
}
