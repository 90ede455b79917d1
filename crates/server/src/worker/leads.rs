//! Log messages about leaders and shards without one. One worker reports each shard, and
//! simultaneous changes are reported together.

use super::Worker;
use engine::ids::{MachineId, ShardId, term_of};
use engine::node::Event;
use std::collections::BTreeMap;

/// Last reported leaders, and the changes since then.
#[derive(Debug, Default)]
pub(super) struct Leads {
    known: BTreeMap<ShardId, MachineId>,
    changed: BTreeMap<ShardId, Option<(MachineId, u64)>>,
}

impl Worker {
    /// Records a change of leaders.
    pub(super) fn note_leads(&mut self, event: &Event) {
        match event {
            Event::Led(shard, led) if self.reports(*shard) => {
                self.leads.changed.insert(*shard, *led);
            }
            Event::Lost(machine) => {
                let led = self.leads.known.iter().filter(|(_, leader)| *leader == machine);
                let lost: Vec<ShardId> = led.map(|(shard, _)| *shard).collect();
                self.leads.changed.extend(lost.into_iter().map(|shard| (shard, None)));
            }
            _ => {}
        }
    }

    /// Whether this worker reports the shard; one worker of each machine does.
    fn reports(&self, shard: ShardId) -> bool {
        usize::from(shard.0) % self.peers.workers.len() == usize::from(self.id.worker)
    }

    /// Logs the changes of this turn.
    pub(super) fn log_leads(&mut self) {
        for (shard, why) in self.gateway.take_unled() {
            tracing::error!("{} has no leader: {why}; requests for it are refused", name(shard));
        }
        if self.leads.changed.is_empty() {
            return;
        }
        let mut led: BTreeMap<MachineId, Vec<String>> = BTreeMap::new();
        let mut lost: BTreeMap<MachineId, Vec<String>> = BTreeMap::new();
        for (shard, lead) in std::mem::take(&mut self.leads.changed) {
            let before = self.leads.known.remove(&shard);
            if let Some((machine, number)) = lead {
                self.leads.known.insert(shard, machine);
                let text = format!("{} (term {})", name(shard), term_of(number));
                led.entry(machine).or_default().push(text);
            } else if let Some(machine) = before {
                lost.entry(machine).or_default().push(name(shard));
            }
        }
        for (machine, shards) in lost {
            tracing::warn!("machine {} no longer leads: {}", machine.0, shards.join(", "));
        }
        for (machine, shards) in led {
            tracing::info!("machine {} leads: {}", machine.0, shards.join(", "));
        }
    }
}

fn name(shard: ShardId) -> String {
    engine::cluster::map::name_of(shard)
}
