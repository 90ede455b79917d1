//! Clients of locks, and the final state of the data that they wrote.

use crate::clients::holder::Holder;
use crate::machine::Machine;
use crate::world::World;
use adt::{ArgBuf, Blob, Ctx, Record, Reply, record};
use check::locks::{History, Place};

/// First number of these clients' connections, after those of others.
pub(in crate::world) const HOLDERS: u64 = 1 << 32;
/// Bound on the lead of timestamps over the clock, where many are issued in one microsecond.
const SLACK_US: u64 = 20_000;

impl World {
    /// Holder that a connection belongs to, if any.
    pub(in crate::world) fn holder(&mut self, client: u64) -> Option<&mut Holder> {
        self.holders.get_mut(client.checked_sub(HOLDERS)? as usize)
    }

    /// Performs a holder's next actions.
    pub(in crate::world) fn holder_goes_on(&mut self, client: u64) {
        let over = self.ending || self.now_us > self.faults_end_us;
        let now_us = self.now_us;
        let Some(holder) = self.holder(client) else { return };
        let actions = holder.go_on(now_us, over);
        self.grant(client, actions);
    }

    pub(in crate::world) fn tell_holder(&mut self, client: u64, reply: &Reply) {
        let over = self.ending || self.now_us > self.faults_end_us;
        let now_us = self.now_us;
        let Some(holder) = self.holder(client) else { return };
        let actions = holder.reply(now_us, reply, over);
        self.grant(client, actions);
    }

    /// Records the deviation of wall clocks from true time.
    pub(in crate::world) fn note_clocks(&mut self) {
        let now_us = self.now_us;
        for machine in &self.machines {
            for offset in machine.deviations_us(now_us) {
                let (least, most) = self.deviations_us.get_or_insert((offset, offset));
                (*least, *most) = ((*least).min(offset), (*most).max(offset));
            }
        }
    }

    /// Adds the holders' acts and the final state of their data to the outcome.
    pub(in crate::world) fn note_holders(&mut self) {
        if self.holders.is_empty() {
            return;
        }
        self.note_clocks();
        let (least, most) = self.deviations_us.unwrap_or_default();
        let clocks_us = most.abs_diff(least) + SLACK_US;
        let mut history = History { clocks_us, ..History::default() };
        for holder in &mut self.holders {
            history.acts.append(&mut holder.acts);
            for (mark, count) in &holder.marks {
                *self.outcome.marks.entry(mark).or_default() += count;
            }
        }
        if self.outcome.failure.is_none() {
            let all = self.swarm.holding.all();
            let places = all.into_iter().map(|(place, register, journal)| {
                let register = self.read_any(&["get", &register]).pop();
                let journal = self.read_any(&["lrange", &journal, "0", "-1"]);
                (place, Place { register, journal })
            });
            history.last = Some(places.collect());
        }
        self.outcome.locks = Some(history);
    }

    /// Record under a key on some machine.
    pub(in crate::world) fn found(&self, key: &Blob) -> Option<&Record> {
        let present = self.machines.iter().filter(|machine: &&Machine| !machine.is_retired);
        let replicas = present.flat_map(|machine| &machine.workers);
        let mut states = replicas.flat_map(|worker| worker.node().replicas());
        states.find_map(|replica| replica.shard().state().get(key))
    }

    /// Result of a read command on some machine: when all agree, any machine will do.
    fn read_any(&self, words: &[&str]) -> Vec<String> {
        let Ok((key, op)) = record::decode(&ArgBuf::of(words.iter().copied()).args()) else {
            return Vec::new();
        };
        let found = self.found(&key);
        let text = |bytes: &Blob| String::from_utf8_lossy(bytes).into_owned();
        match record::query(found, &op, &Ctx::default()) {
            Reply::Bulk(bytes) => vec![text(&bytes)],
            Reply::Array(items) => {
                let items = items.iter().filter_map(|item| match item {
                    Reply::Bulk(bytes) => Some(text(bytes)),
                    _ => None,
                });
                items.collect()
            }
            _ => Vec::new(),
        }
    }
}
