//! Directed graphs of transactions: components, shortest cycles, real-time and session edges.

use crate::history::{Outcome, Txn};
use std::collections::VecDeque;

/// Reason why one transaction must precede another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The first wrote a version before the second one's version.
    Ww,
    /// The second read a version that the first wrote.
    Wr,
    /// The second overwrote a version that the first read.
    Rw,
    /// As `Ww`, but inferred: otherwise a later reader would not have seen the second one.
    WwByReads,
    /// As `WwByReads`, using session or real-time order.
    WwByTime,
    /// As `Rw`, inferred using session or real-time order.
    RwByTime,
    /// Same session, issued earlier.
    Session,
    /// Answered before the invocation of the second.
    Realtime,
    /// Smaller commit timestamp on a common key.
    Timestamp,
}

impl Kind {
    /// The set that contains only this kind.
    pub(crate) const fn bit(self) -> u16 {
        1 << self as u16
    }
}

/// An edge; `note` is an index into the explanations that the graph's owner keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Edge {
    pub(crate) to: usize,
    pub(crate) kind: Kind,
    pub(crate) note: u32,
}

/// A graph over the nodes `0..len`. Edges are selected by a mask of [`Kind::bit`]s.
#[derive(Debug)]
pub(crate) struct Graph {
    pub(crate) edges: Vec<Vec<Edge>>,
}

impl Graph {
    pub(crate) fn new(len: usize) -> Self {
        Self { edges: vec![Vec::new(); len] }
    }

    /// Adds an edge; one from a node to itself carries no information and is left out.
    pub(crate) fn add(&mut self, from: usize, to: usize, kind: Kind, note: u32) {
        if from != to {
            self.edges[from].push(Edge { to, kind, note });
        }
    }

    fn successors(&self, node: usize, mask: u16) -> impl Iterator<Item = &Edge> {
        self.edges[node].iter().filter(move |edge| edge.kind.bit() & mask != 0)
    }

    /// Strongly connected components of two or more nodes, each sorted (Tarjan 1972, without
    /// recursion).
    pub(crate) fn components(&self, mask: u16) -> Vec<Vec<usize>> {
        let mut search = Tarjan {
            index: vec![usize::MAX; self.edges.len()],
            low: vec![0; self.edges.len()],
            on_stack: vec![false; self.edges.len()],
            stack: Vec::new(),
            next: 0,
            found: Vec::new(),
        };
        for root in 0..self.edges.len() {
            if search.index[root] == usize::MAX {
                search.explore(self, root, mask);
            }
        }
        search.found.sort();
        search.found
    }

    /// The transitive closure; `None` if there is a cycle.
    pub(crate) fn closure(&self, mask: u16) -> Option<Reach> {
        let len = self.edges.len();
        let mut incoming = vec![0_usize; len];
        for edge in (0..len).flat_map(|node| self.successors(node, mask)) {
            incoming[edge.to] += 1;
        }
        let mut sorted: Vec<usize> = (0..len).filter(|&node| incoming[node] == 0).collect();
        let mut next = 0;
        while let Some(&node) = sorted.get(next) {
            next += 1;
            for edge in self.successors(node, mask) {
                incoming[edge.to] -= 1;
                if incoming[edge.to] == 0 {
                    sorted.push(edge.to);
                }
            }
        }
        if sorted.len() < len {
            return None;
        }
        let words = len.div_ceil(64);
        let mut reach = Reach { words, bits: vec![0; len * words] };
        for &node in sorted.iter().rev() {
            for edge in self.successors(node, mask) {
                if !reach.has(node, edge.to) {
                    reach.set(node, edge.to);
                    reach.include(node, edge.to);
                }
            }
        }
        Some(reach)
    }

    /// A shortest path from `from` to `to` inside `members` (sorted), as edges with their origin.
    /// With `from == to`, a cycle.
    pub(crate) fn path(
        &self,
        from: usize,
        to: usize,
        members: &[usize],
        mask: u16,
    ) -> Option<Vec<(usize, Edge)>> {
        let place = |node: usize| members.binary_search(&node).ok();
        let mut came: Vec<Option<(usize, Edge)>> = vec![None; members.len()];
        let mut queue = VecDeque::from([from]);
        while let Some(node) = queue.pop_front() {
            for edge in self.successors(node, mask) {
                let Some(at) = place(edge.to) else { continue };
                if came[at].is_some() || (edge.to == from && from != to) {
                    continue;
                }
                came[at] = Some((node, *edge));
                if edge.to == to {
                    let mut path = Vec::new();
                    let mut at = to;
                    loop {
                        let step = came[place(at)?]?;
                        path.push(step);
                        at = step.0;
                        if at == from {
                            path.reverse();
                            return Some(path);
                        }
                    }
                }
                queue.push_back(edge.to);
            }
        }
        None
    }

    /// A short cycle inside a component.
    pub(crate) fn cycle(&self, members: &[usize], mask: u16) -> Option<Vec<(usize, Edge)>> {
        /// Most nodes that are tried as a start.
        const STARTS_MAX: usize = 64;
        let cycles =
            members.iter().take(STARTS_MAX).filter_map(|&n| self.path(n, n, members, mask));
        cycles.min_by_key(Vec::len)
    }
}

/// Reachability relation.
pub(crate) struct Reach {
    words: usize,
    bits: Vec<u64>,
}

impl Reach {
    pub(crate) fn has(&self, from: usize, to: usize) -> bool {
        self.bits[from * self.words + to / 64] & (1 << (to % 64)) != 0
    }

    fn set(&mut self, from: usize, to: usize) {
        self.bits[from * self.words + to / 64] |= 1 << (to % 64);
    }

    fn include(&mut self, from: usize, via: usize) {
        let (from, via) = (from * self.words, via * self.words);
        for word in 0..self.words {
            self.bits[from + word] |= self.bits[via + word];
        }
    }
}

struct Tarjan {
    index: Vec<usize>,
    low: Vec<usize>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    next: usize,
    found: Vec<Vec<usize>>,
}

impl Tarjan {
    fn enter(&mut self, node: usize) {
        self.index[node] = self.next;
        self.low[node] = self.next;
        self.next += 1;
        self.stack.push(node);
        self.on_stack[node] = true;
    }

    fn explore(&mut self, graph: &Graph, root: usize, mask: u16) {
        let mut calls = vec![(root, 0)];
        self.enter(root);
        while let Some((node, position)) = calls.last_mut() {
            let node = *node;
            if let Some(edge) = graph.edges[node].get(*position) {
                *position += 1;
                if edge.kind.bit() & mask == 0 {
                    continue;
                }
                if self.index[edge.to] == usize::MAX {
                    self.enter(edge.to);
                    calls.push((edge.to, 0));
                } else if self.on_stack[edge.to] {
                    self.low[node] = self.low[node].min(self.index[edge.to]);
                }
                continue;
            }
            calls.pop();
            if let Some((caller, _)) = calls.last() {
                self.low[*caller] = self.low[*caller].min(self.low[node]);
            }
            if self.low[node] == self.index[node] {
                self.leave(node);
            }
        }
    }

    fn leave(&mut self, root: usize) {
        let mut members = Vec::new();
        while let Some(node) = self.stack.pop() {
            self.on_stack[node] = false;
            members.push(node);
            if node == root {
                break;
            }
        }
        if members.len() > 1 {
            members.sort_unstable();
            self.found.push(members);
        }
    }
}

/// Adds the real-time order among `ids`: an edge wherever one was answered before the other was
/// invoked, except where other edges imply it. Their number is at most the number of transactions
/// times the number of concurrently open ones.
pub(crate) fn add_realtime(graph: &mut Graph, txns: &[Txn], ids: &[usize]) {
    for (from, to) in realtime_pairs(txns, ids) {
        graph.add(from, to, Kind::Realtime, 0);
    }
}

/// The pairs behind [`add_realtime`].
pub(crate) fn realtime_pairs(txns: &[Txn], ids: &[usize]) -> Vec<(usize, usize)> {
    // (time, 0 for an invocation or 1 for an answer, id): at one instant invocations go first,
    // because what happens at the same time is concurrent.
    let mut moments: Vec<(u64, u8, usize)> = Vec::new();
    for &id in ids {
        moments.push((txns[id].invoke_us, 0, id));
        if let Some(complete_us) = txns[id].complete_us {
            moments.push((complete_us, 1, id));
        }
    }
    moments.sort_unstable();
    // Answered transactions that no other answered transaction is known to follow.
    let mut frontier: Vec<usize> = Vec::new();
    let mut pairs = Vec::new();
    for (_, answer, id) in moments {
        if answer == 0 {
            pairs.extend(frontier.iter().map(|&before| (before, id)));
        } else {
            frontier.retain(|&before| !txns[before].precedes(&txns[id]));
            frontier.push(id);
        }
    }
    pairs
}

/// Adds each session's issue order among `ids`. An indefinite transaction may take effect late,
/// so it precedes the session's next one only if both were dispatched.
pub(crate) fn add_session(graph: &mut Graph, txns: &[Txn], ids: &[usize]) {
    let mut sorted = ids.to_vec();
    sorted.sort_by_key(|&id| (txns[id].process, id));
    for pair in sorted.windows(2) {
        let (first, second) = (&txns[pair[0]], &txns[pair[1]]);
        let ordered = first.outcome == Outcome::Ok || second.session_seq.is_some();
        if first.process == second.process && ordered {
            graph.add(first.id, second.id, Kind::Session, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue;

    fn graph(len: usize, edges: &[(usize, usize)]) -> Graph {
        let mut graph = Graph::new(len);
        for &(from, to) in edges {
            graph.add(from, to, Kind::Ww, 0);
        }
        graph
    }

    #[test]
    fn components_and_shortest_cycles() {
        let graph = graph(7, &[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 6), (1, 0)]);
        let mask = Kind::Ww.bit();
        assert_eq!(graph.components(mask), vec![vec![0, 1, 2], vec![3, 4]]);
        assert_eq!(graph.cycle(&[0, 1, 2], mask).unwrap().len(), 2);
        let path = graph.path(2, 1, &[0, 1, 2], mask).unwrap();
        assert_eq!(path.iter().map(|(from, _)| *from).collect::<Vec<_>>(), vec![2, 0]);
        assert!(graph.path(3, 0, &[0, 3, 4], mask).is_none());
        assert!(graph.components(Kind::Rw.bit()).is_empty());
        assert!(graph.closure(mask).is_none());
        assert!(!graph.closure(Kind::Rw.bit()).unwrap().has(0, 1));
    }

    #[test]
    fn the_closure_knows_what_can_be_reached() {
        let edges: Vec<(usize, usize)> = (0..99).map(|node| (node + 1, node)).collect();
        let reach = graph(100, &edges).closure(Kind::Ww.bit()).unwrap();
        assert!(reach.has(99, 0) && reach.has(70, 3));
        assert!(!reach.has(0, 99) && !reach.has(5, 5));
    }

    #[test]
    fn real_time_edges_leave_out_what_is_implied() {
        let history = dialogue::parse(
            "p0 : get a\np1 : get a\np0 > get a\np1 > get a\np0 <\np2 : get a\np1 <\np0 : get a",
        )
        .unwrap();
        let ids: Vec<usize> = (0..history.txns.len()).collect();
        let mut pairs = realtime_pairs(&history.txns, &ids);
        pairs.sort_unstable();
        assert_eq!(pairs, vec![(0, 1), (1, 2), (1, 3), (2, 4), (3, 5), (4, 5)]);
    }
}
