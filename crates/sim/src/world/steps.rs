//! Invariants that hold after every step, whatever the faults, and counts of rare events.
//!
//! These are Raft's own properties (Ongaro and Ousterhout, "In Search of an Understandable
//! Consensus Algorithm", figure 3): one leader per term, matching logs, committed entries stay, and
//! machines that have applied the same entries have the same state.

use super::agreement::{difference, records};
use super::{Event, World};
use crate::clients::workload::{CELL, value_of};
use crate::traces::trace::Trace;
use adt::kinds::{list, set, string};
use adt::record::{self, Value};
use adt::{Blob, Ctx, Op, Record};
use engine::coordination::tree::Znode;
use engine::ids::{MachineId, ShardId};
use engine::replication::Persist;
use engine::shard::state::State;
use std::collections::{BTreeMap, BTreeSet};

/// Interval between comparisons of replicas that have applied the same entries, in microseconds.
const COMPARE_US: u64 = 400_000;

/// Observations so far.
#[derive(Default)]
pub(super) struct Steps {
    /// Leader of each shard in each term.
    leaders: BTreeMap<(ShardId, u64), MachineId>,
    /// For each shard, the newest term with a leader, and that leader.
    newest: BTreeMap<ShardId, (u64, MachineId)>,
    /// Contents of each entry of a term: a hash, and the term of the entry before, if known.
    entries: BTreeMap<(ShardId, u64, u64), (u64, Option<u64>)>,
    /// Term of the last entry that some replica has applied, by index.
    committed: BTreeMap<(ShardId, u64), u64>,
    /// Position of each replica, and whether it led.
    replicas: BTreeMap<(MachineId, ShardId), Seen>,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    applied: u64,
    leading: Option<u64>,
    epoch: u64,
}

impl World {
    /// Checks a worker after its turn.
    pub(super) fn look_at(&mut self, machine: u16, worker: u16) -> Result<(), String> {
        if !self.shape.is_cluster() {
            return Ok(());
        }
        let target = &self.machines[usize::from(machine)];
        let (id, epoch) = (target.id, target.epoch);
        let mut marks = Vec::new();
        for replica in target.workers[usize::from(worker)].node().replicas() {
            let (shard, (index, term)) = (replica.id(), replica.group().applied());
            let leading = replica.leading();
            let before = self.steps.replicas.entry((id, shard)).or_default();
            let seen = Seen { applied: index, leading, epoch };
            let old = std::mem::replace(before, seen);
            if old.applied == index && old.leading == leading && old.epoch == epoch {
                continue;
            }
            if old.epoch == epoch && index < old.applied && index > 0 {
                return Err(format!("machine {} goes back in the log of shard {}", id.0, shard.0));
            }
            // The term of an entry that exists only in a snapshot is not known any more.
            if index > 0 && term > 0 {
                let known = *self.steps.committed.entry((shard, index)).or_insert(term);
                if known != term {
                    return Err(format!(
                        "entry {index} of shard {} was committed in term {known}, and machine {} \
                         has carried out one of term {term} there",
                        shard.0, id.0
                    ));
                }
            }
            let Some(lead) = leading.filter(|_| old.leading != leading) else { continue };
            marks.extend(self.steps.leads(id, shard, lead)?);
            if !replica.shard().state().prepared().is_empty() && lead > 1 {
                marks.push("prepared_when_lead_changed");
            }
            if replica.shard().state().coordination().prepared().next().is_some() && lead > 1 {
                marks.push("multis_when_lead_changed");
            }
            let mut streams = replica.shard().state().streams().iter();
            if lead > 1 && streams.any(|(_, kept)| !kept.is_settled()) {
                marks.push("units_when_lead_changed");
            }
        }
        marks.into_iter().for_each(|mark| self.mark(mark));
        Ok(())
    }

    /// Checks entries on their way to the disk of a machine.
    pub(super) fn check_log(&mut self, machine: u16, persist: &Persist) -> Result<(), String> {
        if !self.shape.is_cluster() {
            return Ok(());
        }
        let shard = persist.group;
        let mut before = None;
        for entry in &persist.entries {
            let mut trace = Trace::default();
            trace.number(entry.get_entry_type() as u64);
            trace.bytes(&entry.data);
            trace.bytes(&entry.context);
            let place = (shard, entry.index, entry.term);
            let now = (trace.hash(), before);
            let known = self.steps.entries.entry(place).or_insert(now);
            let matches = known.1.is_none() || before.is_none() || known.1 == before;
            if known.0 != now.0 || !matches {
                return Err(format!(
                    "entry {} of term {} of shard {} is another one on machine {}",
                    entry.index,
                    entry.term,
                    shard.0,
                    machine + 1
                ));
            }
            known.1 = known.1.or(before);
            before = Some(entry.term);
        }
        Ok(())
    }

    /// Checks that replicas that have applied the same entries have the same state, except for the
    /// keys of prepared transactions: a leader that learns the outcome of one of them applies those
    /// that commit before, and forgets that outcome when it loses the leadership.
    pub(super) fn compare(&mut self) -> Result<(), String> {
        self.at(self.now_us + COMPARE_US, Event::Compare);
        let mut same: BTreeMap<(ShardId, u64), Vec<(MachineId, &State)>> = BTreeMap::new();
        for machine in &self.machines {
            for replica in machine.workers.iter().flat_map(|worker| worker.node().replicas()) {
                let state = replica.shard().state();
                // A leader applies decided transactions ahead of the log.
                if state.prepared().unsettled().next().is_none() {
                    let place = (replica.id(), replica.group().applied().0);
                    same.entry(place).or_default().push((machine.id, state));
                }
            }
        }
        let mut compared = 0;
        for ((shard, index), replicas) in &same {
            let open: BTreeSet<&Blob> =
                replicas.iter().flat_map(|(_, state)| keys(state)).collect();
            let [(first, expected), others @ ..] = &replicas[..] else { continue };
            let hash = closed(expected, &open);
            for (machine, state) in others {
                compared += 1;
                if closed(state, &open) != hash {
                    return Err(format!(
                        "shard {} differs between machines {} and {}, which both have carried out \
                         {index} entries: {}",
                        shard.0,
                        first.0,
                        machine.0,
                        difference(&records(expected), &records(state))
                    ));
                }
            }
        }
        *self.outcome.marks.entry("replicas_compared").or_default() += compared;
        Ok(())
    }
}

impl World {
    /// Values that the records hold.
    pub(super) fn held_values(&self) -> BTreeSet<Vec<u8>> {
        let workers = self.machines.iter().flat_map(|machine| &machine.workers);
        let replicas = workers.flat_map(|worker| worker.node().replicas());
        let records = replicas.flat_map(|replica| replica.shard().state().records().iter());
        let all_of = |(_, record): (&Blob, &Record)| {
            let ops = match &record.value {
                Value::String(_) => vec![Op::String(string::Op::Get)],
                Value::List(_) => vec![Op::List(list::Op::Range(0, -1))],
                Value::Set(_) => vec![Op::Set(set::Op::All)],
                Value::Composed(_) => {
                    ["all", "members"].iter().filter_map(|op| of_cell(op)).collect()
                }
                _ => return Vec::new(),
            };
            let mut values = Vec::new();
            for op in ops {
                let held = value_of(&record::query(Some(record), &op, &Ctx::default()));
                values.extend(held.flat().iter().map(check::Value::canonical));
            }
            values
        };
        records.flat_map(all_of).collect()
    }
}

/// A read of a value of the composed type of clients, whatever its version.
pub(super) fn of_cell(operation: &str) -> Option<Op> {
    let words = adt::ArgBuf::of(["type.call_ro", "k", CELL[1], operation]);
    record::decode(&words.args()).ok().map(|(_, op)| op)
}

/// Keys of a shard's prepared transactions.
fn keys(state: &State) -> impl Iterator<Item = &Blob> {
    state.prepared().values().flat_map(|open| &open.prepare.apply.ops).map(|(key, _)| key)
}

/// Hash over all records except these, independent of their order.
fn closed(state: &State, open: &BTreeSet<&Blob>) -> u64 {
    let hash = |(key, record): (&Blob, &Record)| {
        let mut trace = Trace::default();
        trace.note(format_args!("{key:?} {record:?}"));
        trace.hash()
    };
    let closed = state.records().iter().filter(|(key, _)| !open.contains(key));
    closed.map(hash).fold(coordinated(state), u64::wrapping_add)
}

/// Hash over the whole state of the coordination service.
fn coordinated(state: &State) -> u64 {
    let coordination = state.coordination();
    let mut trace = Trace::default();
    trace.note(format_args!("{:?} {:?}", coordination.last(), coordination.sessions()));
    let node = |(path, node): (&Blob, &Znode)| {
        let mut trace = Trace::default();
        trace.note(format_args!("{path:?} {node:?}"));
        trace.hash()
    };
    coordination.tree().iter().map(node).fold(trace.hash(), u64::wrapping_add)
}

impl Steps {
    /// Records that a machine leads a shard from now on.
    fn leads(
        &mut self,
        machine: MachineId,
        shard: ShardId,
        term: u64,
    ) -> Result<Vec<&'static str>, String> {
        let first = *self.leaders.entry((shard, term)).or_insert(machine);
        if first != machine {
            return Err(format!(
                "machines {} and {} both lead shard {} in term {term}",
                first.0, machine.0, shard.0
            ));
        }
        let mut marks = Vec::new();
        if let Some((_, before)) = self.newest.insert(shard, (term, machine))
            && before != machine
        {
            marks.push("leads_changed");
            let still = self.replicas.get(&(before, shard));
            if still.is_some_and(|seen| seen.leading.is_some()) {
                marks.push("deposed_leaders_unaware");
            }
        }
        Ok(marks)
    }
}
