//! Linearizability and strict serializability by search, for short or narrow histories.
//!
//! The algorithm is that of Wing and Gong (1993) with the memory of visited configurations that
//! Lowe (2017) describes: walk through the transactions in every order that real time allows, run
//! each through the naive model, and never enter the same configuration twice. Exponential in how
//! many transactions are open together, hence bounded.

use crate::history::{History, Op, Outcome, Txn, Word};
use crate::model::{self, Model};
use crate::value::show_word;
use crate::verdict::{Anomaly, Verdict};
use std::collections::{BTreeMap, BTreeSet};

/// Most steps that [`check`] spends on one key.
pub const STEPS_PER_KEY_MAX: usize = 200_000;

/// Result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// This order explains every reply. Indefinite transactions may be left out.
    Order(Vec<usize>),
    /// No order does. The longest explained prefix, and the transactions that could not follow it.
    None {
        /// Transactions that can be explained, in order.
        prefix: Vec<usize>,
        /// Open transactions behind the longest prefix.
        stuck: Vec<usize>,
    },
    /// The bound on steps was reached.
    Undecided,
}

/// Whether this checker covers a command: registers and counters.
fn narrow(words: &[Word]) -> bool {
    const NAMES: [&str; 18] = [
        "get",
        "set",
        "setnx",
        "getset",
        "getdel",
        "delifeq",
        "incr",
        "decr",
        "incrby",
        "decrby",
        "append",
        "strlen",
        "del",
        "counter.add",
        "counter.incr",
        "counter.get",
        "counter.try",
        "counter.set",
    ];
    let name = words.first().map(|name| model::lower(name)).unwrap_or_default();
    NAMES.contains(&name.as_str()) && model::keys_of(words).len() == 1
}

/// Checks separately each key whose transactions all are single commands on a register or a
/// counter; linearizability is local (Herlihy and Wing, 1990). `None` if there is no such key.
pub fn check(history: &History) -> Option<Verdict> {
    let mut keys: BTreeMap<&Word, Vec<usize>> = BTreeMap::new();
    let mut excluded: BTreeSet<&Word> = BTreeSet::new();
    for txn in &history.txns {
        let suitable = txn.ops.len() == 1 && narrow(&txn.ops[0].words);
        for key in txn.ops.iter().flat_map(|op| model::keys_of(&op.words)) {
            if !suitable {
                excluded.insert(key);
            }
            keys.entry(key).or_default().push(txn.id);
        }
    }
    keys.retain(|key, _| !excluded.contains(*key));
    if keys.is_empty() {
        return None;
    }
    let mut verdict = Verdict::new("linear");
    for (key, ids) in keys {
        verdict.count("keys", 1);
        verdict.count("operations", ids.len());
        match search(&history.txns, &ids, STEPS_PER_KEY_MAX) {
            Found::Order(_) => {}
            Found::Undecided => verdict.count("undecided_keys", 1),
            Found::None { prefix, stuck } => {
                verdict.report(explain(&history.txns, key, &prefix, stuck));
            }
        }
    }
    Some(verdict)
}

fn explain(txns: &[Txn], key: &Word, prefix: &[usize], stuck: Vec<usize>) -> Anomaly {
    let mut text = format!("no order of the operations on {} explains all replies", show_word(key));
    if let Some(last) = prefix.last() {
        let explained = prefix.len();
        text.push_str(&format!(
            "; {explained} can be explained, the last being\n{}\nbut then none of",
            txns[*last]
        ));
    } else {
        text.push_str("; the first must be one of");
    }
    stuck.iter().for_each(|id| text.push_str(&format!("\n{}", txns[*id])));
    Anomaly::new("not-linearizable", text, stuck)
}

/// Searches an order of whole transactions that explains every reply and respects real time and
/// dispatched sessions. Failed transactions are left out. Commands that are not modelled are
/// assumed to answer as recorded and to change nothing.
pub fn search(txns: &[Txn], ids: &[usize], steps_max: usize) -> Found {
    let mut open: Vec<&Txn> =
        ids.iter().map(|&id| &txns[id]).filter(|txn| txn.outcome != Outcome::Fail).collect();
    open.sort_by_key(|txn| (txn.invoke_us, txn.id));
    let walk = Walk { txns: open };
    let definite = walk.txns.iter().filter(|txn| txn.complete_us.is_some()).count();
    let mut visited: BTreeSet<(Done, String)> = BTreeSet::new();
    let mut best: Vec<usize> = Vec::new();
    let mut stuck: Vec<usize> = walk.open(&Done::default());
    let mut path: Vec<Choice> = vec![Choice::new(&walk, Done::default(), Model::default(), 0)];
    let ids = |places: &[usize]| places.iter().map(|&place| walk.txns[place].id).collect();
    let mut steps = 0;
    while let Some(top) = path.last_mut() {
        if top.definite == definite {
            return Found::Order(ids(&taken(&path)));
        }
        let Some(next) = top.untried.pop() else {
            path.pop();
            continue;
        };
        steps += 1;
        if steps > steps_max {
            return Found::Undecided;
        }
        top.taken = Some(next);
        let Some(model) = run(&top.model, &walk.txns[next].ops) else { continue };
        let done = top.done.with(next);
        if !visited.insert((done.clone(), format!("{model:?}"))) {
            continue;
        }
        let definite = top.definite + usize::from(walk.txns[next].complete_us.is_some());
        let choice = Choice::new(&walk, done, model, definite);
        if path.len() > best.len() {
            best = taken(&path);
            stuck = walk.open(&choice.done);
        }
        path.push(choice);
    }
    Found::None { prefix: ids(&best), stuck: ids(&stuck) }
}

fn taken(path: &[Choice]) -> Vec<usize> {
    path.iter().filter_map(|choice| choice.taken).collect()
}

/// The state after the transaction, if it explains the replies.
fn run(model: &Model, ops: &[Op]) -> Option<Model> {
    let mut model = model.clone();
    for op in ops {
        let seen = op.reply.as_ref();
        let Some(answer) = model.try_follow(&op.words, seen) else { continue };
        match &op.reply {
            Some(reply) if !model::agree(&op.words, &answer, reply) => return None,
            _ => {}
        }
    }
    Some(model)
}

/// Completed transactions, by place in order of invocation: a prefix, and some beyond it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Done {
    first: usize,
    rest: BTreeSet<usize>,
}

impl Done {
    fn with(&self, place: usize) -> Self {
        let mut done = self.clone();
        done.rest.insert(place);
        while done.rest.remove(&done.first) {
            done.first += 1;
        }
        done
    }
}

struct Choice {
    done: Done,
    /// Number of completed transactions with an answer.
    definite: usize,
    model: Model,
    untried: Vec<usize>,
    taken: Option<usize>,
}

impl Choice {
    fn new(walk: &Walk<'_>, done: Done, model: Model, definite: usize) -> Self {
        // The last one is tried first: prefer transactions that were answered early.
        let mut untried = walk.open(&done);
        untried.sort_by_key(|&place| {
            std::cmp::Reverse((walk.txns[place].complete_us.unwrap_or(u64::MAX), place))
        });
        Self { done, definite, model, untried, taken: None }
    }
}

/// The transactions by time of invocation.
struct Walk<'a> {
    txns: Vec<&'a Txn>,
}

impl Walk<'_> {
    /// Transactions that may come next: no remaining one was answered before their invocation, and
    /// no remaining one was dispatched before them in their session.
    fn open(&self, done: &Done) -> Vec<usize> {
        let mut earliest_answer_us = u64::MAX;
        let mut open = Vec::new();
        let mut sessions: BTreeSet<u64> = BTreeSet::new();
        for (place, txn) in self.txns.iter().enumerate().skip(done.first) {
            if done.rest.contains(&place) {
                continue;
            }
            if txn.invoke_us > earliest_answer_us {
                break;
            }
            earliest_answer_us = earliest_answer_us.min(txn.complete_us.unwrap_or(u64::MAX));
            if txn.session_seq.is_none() || sessions.insert(txn.process) {
                open.push(place);
            }
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialogue;

    fn verdict(text: &str) -> Option<bool> {
        check(&dialogue::parse(text).unwrap()).map(|verdict| verdict.valid)
    }

    #[test]
    fn registers_and_counters() {
        assert_eq!(
            verdict("p0 > set x 1\np1 : get x -> nil\np1 : get x -> 1\np0 < OK"),
            Some(true)
        );
        assert_eq!(
            verdict("p0 > set x 1\np1 : get x -> 1\np1 : get x -> nil\np0 < OK"),
            Some(false)
        );
        assert_eq!(verdict("p0 > incr x\np1 > incr x\np0 < 2\np1 < 1"), Some(true));
        assert_eq!(verdict("p0 > incr x\np1 > incr x\np0 < 2\np1 < 2"), Some(false));
        assert_eq!(verdict("p0 > incr x\np0 ?\np1 : get x -> nil\np1 : get x -> 1"), Some(true));
        assert_eq!(verdict("p0 > incr x\np0 !\np1 : get x -> 1"), Some(false));
        assert_eq!(verdict("p0 : rpush x 1"), None);
        assert_eq!(verdict("p0 : set x 1 | set y 1"), None);
    }

    #[test]
    fn dispatched_operations_keep_their_order() {
        let story = |first, second| {
            format!("p0#1 > getset x 1\np0#2 > getset x 2\np0#1 < {first}\np0#2 < {second}")
        };
        assert_eq!(verdict(&story("nil", "1")), Some(true));
        assert_eq!(verdict(&story("2", "nil")), Some(false));
    }

    #[test]
    fn a_search_that_takes_too_long_says_so() {
        let mut text = String::new();
        for process in 0..12 {
            text.push_str(&format!("p{process} > incr x\n"));
        }
        for process in 0..12 {
            text.push_str(&format!(
                "p{process} < {}\n",
                if process == 11 { 99 } else { process + 1 }
            ));
        }
        let history = dialogue::parse(&text).unwrap();
        let ids: Vec<usize> = (0..12).collect();
        assert_eq!(search(&history.txns, &ids, 5), Found::Undecided);
    }
}
