//! What leaders of shards tell each other about pipelines, and how it finds its way.
//!
//! A word goes to whoever is known to lead the shard that it is for. If nobody is, or the wrong one, it
//! is lost; whoever needs it asks for it.

use super::{Node, Parcel, To};
use crate::entry::EntryCodec;
use crate::message::{MachineId, Now, ShardId};
use crate::pipeline::Word;
use std::collections::BTreeMap;

impl<C: EntryCodec + Clone> Node<C> {
    /// Passes on what the leader of a shard here has to say, and what others here have to say to that.
    pub(super) fn pass_words(&mut self, now: Now, shard: usize) {
        let Some(replica) = self.replicas[shard].as_mut().filter(|r| r.shard().has_words()) else {
            return;
        };
        let mut words = replica.take_words();
        let mut away: BTreeMap<(u16, bool), Vec<(ShardId, Word)>> = BTreeMap::new();
        while !words.is_empty() {
            for (to, word) in std::mem::take(&mut words) {
                let Some(lead) = self.leads.get(usize::from(to.0)).copied().flatten() else {
                    continue;
                };
                let here = lead.machine == self.id.machine;
                match &mut self.replicas[usize::from(to.0)] {
                    Some(replica) if here => {
                        self.active.rouse(usize::from(to.0));
                        replica.hear(now, word);
                        words.extend(replica.take_words());
                    }
                    _ => {
                        let way =
                            if here { (self.worker_of(to), true) } else { (lead.machine.0, false) };
                        away.entry(way).or_default().push((to, word));
                    }
                }
            }
        }
        for ((number, here), words) in away {
            let to = match here {
                true => To::Worker { worker: number, from: self.id.machine },
                false => To::Machine(MachineId(number)),
            };
            self.parcels.push_back((to, Parcel::Words(words)));
        }
    }

    /// Words for shards that are led here, by this worker or another one.
    pub(super) fn take_words(&mut self, now: Now, from: MachineId, words: Vec<(ShardId, Word)>) {
        let mut others: BTreeMap<u16, Vec<(ShardId, Word)>> = BTreeMap::new();
        for (to, word) in words {
            let shard = usize::from(to.0);
            if shard >= self.replicas.len() {
                continue;
            }
            let worker = self.worker_of(to);
            match &mut self.replicas[shard] {
                Some(replica) => {
                    self.active.rouse(shard);
                    replica.hear(now, word);
                    self.pass_words(now, shard);
                }
                None if worker != self.id.worker => {
                    others.entry(worker).or_default().push((to, word));
                }
                None => {}
            }
        }
        for (worker, words) in others {
            self.pass_on(worker, from, Parcel::Words(words));
        }
    }
}
