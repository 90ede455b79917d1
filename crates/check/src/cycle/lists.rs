//! Lists of unique elements: a read shows the whole version history, so the order is known.

use super::observe::{KeyFacts, Step, View};
use super::{Builder, NOTHING, Note};
use crate::graph::Kind;
use crate::history::Outcome;
use std::collections::{BTreeMap, BTreeSet};

/// Observations of a transaction of other transactions' writes, and whether its reads fit its own
/// writes.
struct Seen {
    /// The list before the transaction's own appends, for each read that shows it.
    external: Vec<Vec<usize>>,
    /// The list that the transaction read before its first write, if it wrote.
    updated: Option<Vec<usize>>,
    /// Expected result of a contradictory read.
    contradiction: Option<(Vec<usize>, bool)>,
}

fn look(view: &View) -> Seen {
    let mut seen = Seen { external: Vec::new(), updated: None, contradiction: None };
    let mut known: Option<Vec<usize>> = None;
    let mut own: Vec<usize> = Vec::new();
    for step in &view.steps {
        match step {
            Step::Write(value) => {
                if own.is_empty() {
                    seen.updated.clone_from(&known);
                }
                own.push(*value);
                if let Some(known) = &mut known {
                    known.push(*value);
                }
            }
            Step::Read(read) => {
                let fits = match &known {
                    Some(known) => read == known,
                    None => read.ends_with(&own),
                };
                if !fits {
                    let whole = known.is_some();
                    seen.contradiction = Some((known.take().unwrap_or(own.clone()), whole));
                }
                if own.is_empty() || (fits && known.is_none()) {
                    seen.external.push(read[..read.len() - own.len()].to_vec());
                }
                known = Some(read.clone());
            }
        }
    }
    seen
}

pub(super) fn infer(builder: &mut Builder<'_>, facts: &KeyFacts) {
    let committed: Vec<&View> = facts.views.iter().filter(|view| builder.is_ok(view.txn)).collect();
    let mut order = check_reads(builder, facts, &committed);
    extend_by_places(builder, facts, &mut order);
    let writers: Vec<Option<usize>> = order
        .iter()
        .map(|value| facts.writers.get(value).map(|writer| writer.txn))
        .map(|txn| txn.filter(|txn| builder.committed(*txn)))
        .collect();
    let note = |before: Option<&usize>, after: usize| Note {
        key: facts.key,
        before: before.copied().unwrap_or(NOTHING),
        after,
    };
    // Committed elements that no read contains come after all that were read.
    let read: BTreeSet<usize> = order.iter().copied().collect();
    let mut unseen: Vec<(usize, usize)> = Vec::new();
    for view in &committed {
        if let Some(value) = view.writes().find(|value| !read.contains(value)) {
            unseen.push((view.txn, value));
        }
    }
    for ((from, before), (to, after)) in later_places(builder, facts, &order) {
        builder.edge(from, to, Kind::Ww, note(Some(&before), after));
    }
    let mut last: Option<(usize, usize)> = None;
    for (value, txn) in order.iter().zip(&writers) {
        let Some(txn) = *txn else { continue };
        if let Some((before, written)) = last {
            builder.edge(before, txn, Kind::Ww, note(Some(&written), *value));
        }
        last = Some((txn, *value));
    }
    if let Some((before, written)) = last {
        for &(txn, value) in &unseen {
            builder.edge(before, txn, Kind::Ww, note(Some(&written), value));
        }
    }
    let mut updaters: BTreeMap<Vec<usize>, Vec<usize>> = BTreeMap::new();
    for view in &committed {
        let seen = look(view);
        for version in &seen.external {
            read_edges(builder, facts, view.txn, version, &order, &writers, &unseen);
        }
        if let Some(version) = seen.updated {
            updaters.entry(version).or_default().push(view.txn);
        }
    }
    for (version, txns) in updaters {
        builder.check_lost_update(facts, &version, &txns);
    }
    builder.verdict.count("list_keys", 1);
}

/// Compares the places from replies of appends with reads, and adds the elements that follow.
fn extend_by_places(builder: &mut Builder<'_>, facts: &KeyFacts, order: &mut Vec<usize>) {
    let mut places = facts.places.clone();
    places.sort_unstable();
    for (place, value) in places {
        let Some(writer) = facts.writers.get(&value).filter(|w| builder.is_ok(w.txn)) else {
            continue;
        };
        let read = order.iter().position(|read| *read == value);
        if place == order.len() && read.is_none() {
            order.push(value);
        } else if place < order.len() && order[place] != value
            || read.is_some_and(|read| read != place)
        {
            let text = format!(
                "by its reply to T{}, {} is element {} of {}, but reads saw another order",
                writer.txn,
                builder.name(value),
                place.wrapping_add(1),
                builder.name(facts.key)
            );
            builder.report("incompatible-order", text, vec![writer.txn]);
        }
    }
}

/// Order of elements beyond a gap in `order`, from replies of appends; reports places that two
/// replies claim, and gaps that nothing can fill.
fn later_places(
    builder: &mut Builder<'_>,
    facts: &KeyFacts,
    order: &[usize],
) -> Vec<((usize, usize), (usize, usize))> {
    let ok = |value: &usize| facts.writers.get(value).filter(|w| builder.is_ok(w.txn)).copied();
    let mut places: Vec<(usize, usize, usize)> = facts
        .places
        .iter()
        .filter(|(place, _)| *place >= order.len())
        .filter_map(|(place, value)| Some((*place, *value, ok(value)?.txn)))
        .collect();
    places.sort_unstable();
    let Some(&(last, value, writer)) = places.last() else { return Vec::new() };
    if let Some(pair) = places.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        let text = format!(
            "the replies to T{} and T{} claim the same place in {}",
            pair[0].2,
            pair[1].2,
            builder.name(facts.key)
        );
        builder.report("incompatible-order", text, vec![pair[0].2, pair[1].2]);
    }
    let known: BTreeSet<usize> =
        order.iter().copied().chain(places.iter().map(|(_, value, _)| *value)).collect();
    let possible = |(value, w): &(&usize, &super::observe::Writer)| {
        !known.contains(value) && builder.txns[w.txn].outcome != Outcome::Fail
    };
    let fillers = facts.writers.iter().filter(possible).count();
    let gaps = (last + 1).saturating_sub(known.len());
    if gaps > fillers {
        let text = format!(
            "by its reply to T{writer}, {} is element {} of {}, but only {} others can precede it",
            builder.name(value),
            last.wrapping_add(1),
            builder.name(facts.key),
            known.len() - 1 + fillers
        );
        builder.report("lost-append", text, vec![writer]);
    }
    let pair = |pair: &[(usize, usize, usize)]| ((pair[0].2, pair[0].1), (pair[1].2, pair[1].1));
    places.windows(2).map(pair).collect()
}

/// Reports reads that no order explains; returns the longest version.
fn check_reads(builder: &mut Builder<'_>, facts: &KeyFacts, views: &[&View]) -> Vec<usize> {
    let mut longest: (usize, &[usize]) = (usize::MAX, &[]);
    for view in views {
        for read in view.reads() {
            builder.check_sources(facts, view.txn, read);
            let mut sorted = read.clone();
            sorted.sort_unstable();
            if let Some(pair) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                let text = format!(
                    "T{} saw {} more than once in {}, but it was appended once",
                    view.txn,
                    builder.name(pair[0]),
                    builder.name(facts.key)
                );
                builder.report("duplicate-elements", text, vec![view.txn]);
            } else if read.len() > longest.1.len() {
                longest = (view.txn, read);
            }
        }
        let seen = look(view);
        let expected = seen.contradiction.map(|(values, whole)| {
            let shown: Vec<String> = values.iter().map(|value| builder.name(*value)).collect();
            let how = if whole { "be" } else { "end with" };
            format!("a read should {how} [{}]", shown.join(" "))
        });
        builder.check_internal(facts, view.txn, expected);
        for version in &seen.external {
            builder.check_own_future(facts, view.txn, version);
            if let Some(value) = version.last() {
                builder.check_intermediate(facts, view.txn, *value);
            }
        }
    }
    let (longest_reader, longest) = longest;
    for view in views {
        if let Some(read) = view.reads().find(|read| !longest.starts_with(read)) {
            let mut sorted = read.clone();
            sorted.sort_unstable();
            sorted.dedup();
            if sorted.len() < read.len() {
                continue; // Reported as duplicate above.
            }
            let text = format!(
                "T{longest_reader} and T{} saw {} in orders of which neither begins with the other",
                view.txn,
                builder.name(facts.key)
            );
            builder.report("incompatible-order", text, vec![longest_reader, view.txn]);
        }
    }
    longest.to_vec()
}

/// Adds the edges from one read: it follows the last element's writer and precedes the next one's.
fn read_edges(
    builder: &mut Builder<'_>,
    facts: &KeyFacts,
    reader: usize,
    version: &[usize],
    order: &[usize],
    writers: &[Option<usize>],
    unseen: &[(usize, usize)],
) {
    let last = version.last().copied().unwrap_or(NOTHING);
    if let Some(writer) = facts.writers.get(&last).filter(|w| builder.committed(w.txn)) {
        let note = Note { key: facts.key, before: NOTHING, after: last };
        builder.edge(writer.txn, reader, Kind::Wr, note);
    }
    if !order.starts_with(version) {
        return;
    }
    let mut rest = order.iter().zip(writers).skip(version.len());
    let next = rest.find_map(|(value, txn)| txn.map(|txn| (txn, *value)));
    let next = match &next {
        Some(next) => std::slice::from_ref(next),
        None => unseen,
    };
    for &(txn, value) in next {
        let note = Note { key: facts.key, before: last, after: value };
        builder.edge(reader, txn, Kind::Rw, note);
    }
}
