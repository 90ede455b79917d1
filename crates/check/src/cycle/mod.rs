//! Cycle oracle: existence of any serial order. Uses only the observations of clients, not
//! timestamps.
//!
//! Works on keys that are used in one of three ways, with no value written twice to a key: *lists*
//! (`RPUSH`, `LRANGE key 0 -1`), *registers* (`SET`, `GET`, `GETSET`, `MSET`, `MGET`) and *sets*
//! (`SADD`, `SMEMBERS`). Other reads are ignored; a key with other writes is skipped and counted.
//! From the replies it infers which transaction must precede which (write-write, write-read,
//! read-write dependencies), adds session and real-time order, and looks for cycles.
//!
//! Anomalies carry the names of Adya, "Weak Consistency" (1999), and of Kingsbury and Alvaro,
//! "Elle" (VLDB 2020): `G0`, `G1a`, `G1b`, `G1c`, `G-single`, `G2-item`, `lost-update`, `internal`,
//! `incompatible-order`, `duplicate-elements`, `garbage-read`, and `lost-append` where lengths in
//! replies to writers do not add up; `-process` and `-realtime` are appended where session or
//! real-time order is part of the cycle. Every anomaly reported is real. The order of writes to a
//! register is only partly known, so that a few invalid histories pass here; replay detects them.

mod lists;
mod observe;
mod registers;
mod search;
mod sets;

use crate::graph::{Graph, Kind, add_realtime, add_session};
use crate::history::{History, Op, Outcome, Txn, Word};
use crate::value::show_word;
use crate::verdict::{Anomaly, Verdict};
use observe::{Class, KeyFacts, Names};
use std::collections::BTreeSet;

/// Stands for "no value" where a value's number is expected.
const NOTHING: usize = 0;

/// Checks a history for cycles of dependencies.
pub fn check(history: &History) -> Verdict {
    let (names, keys) = observe::observe(&history.txns);
    let mut builder = Builder {
        txns: &history.txns,
        names,
        graph: Graph::new(history.txns.len()),
        notes: vec![Note { key: NOTHING, before: NOTHING, after: NOTHING }],
        observed: BTreeSet::new(),
        verdict: Verdict::new("cycles"),
    };
    builder.find_observed(&keys);
    let mut registers = Vec::new();
    for facts in &keys {
        match facts.class {
            Class::List => lists::infer(&mut builder, facts),
            Class::Register => registers.push(registers::infer(&mut builder, facts)),
            Class::Set => sets::infer(&mut builder, facts),
            Class::Other => builder.verdict.count("skipped_keys", 1),
        }
    }
    builder.search(&registers)
}

/// Key and values that explain an edge.
#[derive(Clone, Copy, Debug)]
struct Note {
    key: usize,
    before: usize,
    after: usize,
}

/// The dependency graph under construction.
struct Builder<'h> {
    txns: &'h [Txn],
    names: Names,
    graph: Graph,
    notes: Vec<Note>,
    /// Indefinite transactions that certainly took effect, because a read shows their writes.
    observed: BTreeSet<usize>,
    verdict: Verdict,
}

impl Builder<'_> {
    /// Whether a transaction certainly took effect.
    fn committed(&self, txn: usize) -> bool {
        self.txns[txn].outcome == Outcome::Ok || self.observed.contains(&txn)
    }

    fn name(&self, value: usize) -> String {
        show_word(&self.names.words[value])
    }

    fn edge(&mut self, from: usize, to: usize, kind: Kind, note: Note) {
        if from != to {
            self.notes.push(note);
            self.graph.add(from, to, kind, (self.notes.len() - 1) as u32);
        }
    }

    fn find_observed(&mut self, keys: &[KeyFacts]) {
        for facts in keys.iter().filter(|facts| facts.class != Class::Other) {
            for view in &facts.views {
                if self.txns[view.txn].outcome != Outcome::Ok {
                    continue;
                }
                let seen = view.reads().flatten().filter_map(|value| facts.writers.get(value));
                let indefinite = |id: &usize| self.txns[*id].outcome == Outcome::Info;
                self.observed.extend(seen.map(|writer| writer.txn).filter(indefinite));
            }
        }
    }

    fn is_ok(&self, txn: usize) -> bool {
        self.txns[txn].outcome == Outcome::Ok
    }

    /// Reports values that no read may show: of failed transactions, without a writer, or not
    /// final.
    fn check_sources(&mut self, facts: &KeyFacts, reader: usize, read: &[usize]) {
        for value in read {
            let key = self.name(facts.key);
            let shown = self.name(*value);
            match facts.writers.get(value) {
                None => self.report(
                    "garbage-read",
                    format!("T{reader} saw {shown} in {key}, which no transaction wrote"),
                    vec![reader],
                ),
                Some(writer) if self.txns[writer.txn].outcome == Outcome::Fail => self.report(
                    "G1a",
                    format!(
                        "T{reader} saw {shown} in {key}, which T{} wrote, but that failed",
                        writer.txn
                    ),
                    vec![writer.txn, reader],
                ),
                Some(_) => {}
            }
        }
    }

    /// Reports values that the reader itself wrote only later; `read` is from before its first
    /// write.
    fn check_own_future(&mut self, facts: &KeyFacts, reader: usize, read: &[usize]) {
        let own = |value: &&usize| facts.writers.get(value).is_some_and(|w| w.txn == reader);
        if let Some(value) = read.iter().find(own) {
            let text = format!(
                "T{reader} saw {} in {} before it wrote that itself",
                self.name(*value),
                self.name(facts.key)
            );
            self.report("internal", text, vec![reader]);
        }
    }

    fn check_intermediate(&mut self, facts: &KeyFacts, reader: usize, value: usize) {
        if let Some(writer) = facts.writers.get(&value)
            && writer.txn != reader
            && !writer.last
        {
            let text = format!(
                "T{reader} saw {} in {}, which T{} wrote, but not what T{} wrote there after it",
                self.name(value),
                self.name(facts.key),
                writer.txn,
                writer.txn
            );
            self.report("G1b", text, vec![writer.txn, reader]);
        }
    }

    fn check_internal(&mut self, facts: &KeyFacts, reader: usize, expected: Option<String>) {
        if let Some(expected) = expected {
            let text =
                format!("T{reader} contradicts itself on {}: {expected}", self.name(facts.key));
            self.report("internal", text, vec![reader]);
        }
    }

    /// Reports transactions that read one version of a key and each replaced it.
    fn check_lost_update(&mut self, facts: &KeyFacts, version: &[usize], updaters: &[usize]) {
        if updaters.len() > 1 {
            let shown: Vec<String> = version.iter().map(|value| self.name(*value)).collect();
            let who: Vec<String> = updaters.iter().map(|id| format!("T{id}")).collect();
            let text = format!(
                "{} all read {} as [{}] and wrote to it",
                who.join(", "),
                self.name(facts.key),
                shown.join(" ")
            );
            self.report("lost-update", text, updaters.to_vec());
        }
    }

    /// Reports an anomaly, followed by the transactions it names.
    fn report(&mut self, kind: &str, text: String, txns: Vec<usize>) {
        let mut text = text;
        for id in &txns {
            text.push_str(&format!("\n{}", self.txns[*id]));
        }
        self.verdict.report(Anomaly::new(kind, text, txns));
    }

    fn search(mut self, registers: &[registers::Register]) -> Verdict {
        let ids: Vec<usize> = (0..self.txns.len()).filter(|id| self.committed(*id)).collect();
        let direct = search::DIRECT;
        registers::saturate(&mut self, registers, direct, [Kind::WwByReads, Kind::Rw]);
        add_session(&mut self.graph, self.txns, &ids);
        add_realtime(&mut self.graph, self.txns, &ids);
        registers::saturate(&mut self, registers, u16::MAX, [Kind::WwByTime, Kind::RwByTime]);
        self.verdict.count("transactions", ids.len());
        self.verdict.count("edges", self.graph.edges.iter().map(Vec::len).sum());
        let found = search::cycles(&self.graph, |from, edge| self.explain(from, edge));
        for (kind, text, txns) in found {
            self.report(&kind, text, txns);
        }
        self.verdict
    }

    fn explain(&self, from: usize, edge: &crate::graph::Edge) -> String {
        let to = edge.to;
        let note = self.notes[edge.note as usize];
        let key = self.name(note.key);
        let after = self.name(note.after);
        let before = self.name(note.before);
        let by_time = if edge.kind == Kind::RwByTime { " (later, by real time)" } else { "" };
        match edge.kind {
            Kind::WwByReads | Kind::WwByTime => format!(
                "T{from} wrote {before} to {key} before T{to} wrote {after}, because a transaction \
                 after T{from} saw {after}"
            ),
            Kind::Ww => format!("T{from} wrote {before} to {key} before T{to} wrote {after}"),
            Kind::Wr => format!("T{to} saw {after} in {key}, which T{from} wrote"),
            Kind::Rw | Kind::RwByTime if note.before == NOTHING => {
                format!("T{from} read {key} without {after}, which T{to} wrote{by_time}")
            }
            Kind::Rw | Kind::RwByTime => format!(
                "T{from} read {key} at {before}, without {after}, which T{to} wrote{by_time}"
            ),
            Kind::Session => {
                format!("process {} issued T{from} before T{to}", self.txns[to].process)
            }
            Kind::Realtime | Kind::Timestamp => format!(
                "T{from} had answered at {} us, before T{to} was invoked at {} us",
                self.txns[from].complete_us.unwrap_or_default(),
                self.txns[to].invoke_us
            ),
        }
    }
}

/// Whether the command certainly did nothing because it answered an error.
fn refused(op: &Op) -> bool {
    op.reply.as_ref().is_some_and(crate::value::Value::is_error)
}

/// Compares a word with a command's name, ignoring case.
fn is(word: &Word, name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}
