//! Cycles in the dependency graph and their names.

use crate::graph::{Edge, Graph, Kind};
use std::collections::BTreeSet;

const WW: u16 = Kind::Ww.bit();
const WR: u16 = Kind::Wr.bit();
/// Edges inferred from a read count as anti-dependencies: if one were wrong there would be an
/// anti-dependency.
const RW: u16 = Kind::Rw.bit() | Kind::WwByReads.bit();
const RW_BY_TIME: u16 = Kind::WwByTime.bit() | Kind::RwByTime.bit();
const SESSION: u16 = Kind::Session.bit();
const REALTIME: u16 = Kind::Realtime.bit();

/// Dependencies that need neither session nor real-time order.
pub(super) const DIRECT: u16 = WW | WR | RW;

/// Most read-write edges of a component that are tried as the only one of a cycle.
const SINGLES_MAX: usize = 2_000;

type Cycle = Vec<(usize, Edge)>;

/// Finds cycles, the worst first; each as (name, explanation, transactions). A component in which
/// a cycle was found is not reported again under a weaker name.
pub(super) fn cycles(
    graph: &Graph,
    explain: impl Fn(usize, &Edge) -> String,
) -> Vec<(String, String, Vec<usize>)> {
    let variants =
        [("", 0, 0), ("-process", SESSION, 0), ("-realtime", SESSION | REALTIME, RW_BY_TIME)];
    let mut reported: BTreeSet<usize> = BTreeSet::new();
    let mut found = Vec::new();
    for (suffix, order, rw) in variants {
        let ww = order | WW;
        let rw = RW | rw;
        let stages: [(&str, u16, u16); 4] = [
            ("G0", ww, 0),
            ("G1c", ww | WR, 0),
            ("G-single", ww | WR, rw),
            ("G2-item", ww | WR | rw, 0),
        ];
        for (name, mask, single) in stages {
            for members in graph.components(mask | single) {
                if members.iter().any(|node| reported.contains(node)) {
                    continue;
                }
                let cycle = match single {
                    0 => graph.cycle(&members, mask),
                    single => single_cycle(graph, &members, mask, single),
                };
                let Some(cycle) = cycle else { continue };
                reported.extend(&members);
                let steps: Vec<String> =
                    cycle.iter().map(|(from, edge)| explain(*from, edge)).collect();
                let text = format!("{}: a cycle", steps.join("; "));
                let txns = cycle.iter().map(|(from, _)| *from).collect();
                found.push((format!("{name}{suffix}"), text, txns));
            }
        }
    }
    found
}

/// A shortest cycle with exactly one edge of `single`, the others of `mask`.
fn single_cycle(graph: &Graph, members: &[usize], mask: u16, single: u16) -> Option<Cycle> {
    let mut best: Option<Cycle> = None;
    let edges = members.iter().flat_map(|&from| graph.edges[from].iter().map(move |e| (from, *e)));
    let inside = |(_, edge): &(usize, Edge)| {
        edge.kind.bit() & single != 0 && members.binary_search(&edge.to).is_ok()
    };
    for (from, edge) in edges.filter(inside).take(SINGLES_MAX) {
        let Some(mut cycle) = graph.path(edge.to, from, members, mask) else { continue };
        cycle.insert(0, (from, edge));
        if best.as_ref().is_none_or(|best| cycle.len() < best.len()) {
            best = Some(cycle);
        }
    }
    best
}
