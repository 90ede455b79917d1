//! Sets of unique members that only grow: additions have no order among themselves.

use super::observe::{KeyFacts, Step, View};
use super::{Builder, NOTHING, Note};
use crate::graph::Kind;

/// Keys with more reads times writes than this are skipped.
const PAIRS_MAX: usize = 4_000_000;

/// The set before the transaction's own additions, for each read that shows it, and a member that a
/// read contains or lacks wrongly.
fn look(view: &View) -> (Vec<Vec<usize>>, Option<usize>) {
    let mut external = Vec::new();
    let mut wrong = None;
    let mut known: Option<Vec<usize>> = None;
    let mut own: Vec<usize> = Vec::new();
    for step in &view.steps {
        match step {
            Step::Write(value) => {
                own.push(*value);
                if let Some(known) = &mut known
                    && let Err(at) = known.binary_search(value)
                {
                    known.insert(at, *value);
                }
            }
            Step::Read(read) => {
                let expected = known.as_ref().unwrap_or(&own);
                wrong = wrong.or(expected.iter().find(|value| !read.contains(value)).copied());
                if let Some(known) = &known {
                    wrong = wrong.or(read.iter().find(|value| !known.contains(value)).copied());
                }
                external.push(read.iter().filter(|value| !own.contains(value)).copied().collect());
                known = Some(read.clone());
            }
        }
    }
    (external, wrong)
}

pub(super) fn infer(builder: &mut Builder<'_>, facts: &KeyFacts) {
    if facts.views.len().saturating_mul(facts.writers.len()) > PAIRS_MAX {
        builder.verdict.count("skipped_keys", 1);
        return;
    }
    let mut reads: Vec<(usize, Vec<usize>)> = Vec::new();
    for view in &facts.views {
        if !builder.is_ok(view.txn) {
            continue;
        }
        for read in view.reads() {
            builder.check_sources(facts, view.txn, read);
            if let Some(pair) = read.windows(2).find(|pair| pair[0] == pair[1]) {
                let text = format!(
                    "T{} saw {} more than once in {}",
                    view.txn,
                    builder.name(pair[0]),
                    builder.name(facts.key)
                );
                builder.report("duplicate-elements", text, vec![view.txn]);
            }
        }
        let (external, wrong) = look(view);
        let expected =
            wrong.map(|value| format!("its reads disagree about {}", builder.name(value)));
        builder.check_internal(facts, view.txn, expected);
        external.iter().for_each(|read| builder.check_own_future(facts, view.txn, read));
        reads.extend(external.into_iter().map(|read| (view.txn, read)));
    }
    for (reader, read) in &reads {
        read_edges(builder, facts, *reader, read);
    }
    builder.verdict.count("set_keys", 1);
}

fn read_edges(builder: &mut Builder<'_>, facts: &KeyFacts, reader: usize, read: &[usize]) {
    let mut partial: Vec<(usize, usize)> = Vec::new();
    for (&value, writer) in &facts.writers {
        if writer.txn == reader || !builder.committed(writer.txn) {
            continue;
        }
        let note = Note { key: facts.key, before: NOTHING, after: value };
        if read.contains(&value) {
            builder.edge(writer.txn, reader, Kind::Wr, note);
            partial.push((writer.txn, value));
        } else {
            builder.edge(reader, writer.txn, Kind::Rw, note);
        }
    }
    let missing = |(txn, _): &&(usize, usize)| {
        facts.writers.iter().any(|(value, writer)| writer.txn == *txn && !read.contains(value))
    };
    // Only transactions that write the key several times can be partly visible.
    let several = |txn: usize| facts.views.iter().any(|v| v.txn == txn && v.writes().count() > 1);
    if let Some(&(txn, value)) = partial.iter().filter(|(txn, _)| several(*txn)).find(missing) {
        let text = format!(
            "T{reader} saw {} in {}, which T{txn} added, but not all that T{txn} added there",
            builder.name(value),
            builder.name(facts.key)
        );
        builder.report("G1b", text, vec![txn, reader]);
    }
}
