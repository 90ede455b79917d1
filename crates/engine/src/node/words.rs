//! Messages about pipelines between leaders of shards, and their routes.
//!
//! A message goes to the known leader of its shard. Without one, or at the wrong machine, it is
//! lost; a shard that needs it asks for it. Messages to other workers and machines wait until the
//! end of the turn and are sent there together.

use super::{Node, Parcel, To};
use crate::entry::EntryCodec;
use crate::ids::{MachineId, ShardId};
use crate::limits::WORDS_TOGETHER_MAX;
use crate::now::Now;
use crate::pipeline::Word;
use std::collections::BTreeMap;

/// Messages that wait for the end of the turn, by destination.
pub(super) type Outbound = BTreeMap<To, Vec<(ShardId, Word)>>;

impl<C: EntryCodec + Clone> Node<C> {
    /// Routes the messages of the leader of a shard here, and the replies of other local shards to
    /// them.
    pub(super) fn pass_words(&mut self, now: Now, shard: usize) {
        let replica =
            self.replicas[shard].as_mut().filter(|replica| replica.shard().streams().has_words());
        if let Some(words) = replica.map(|replica| replica.take_words()) {
            self.send_words(now, words);
        }
    }

    /// Sends messages, and the replies of local shards to them.
    fn send_words(&mut self, now: Now, mut words: Vec<(ShardId, Word)>) {
        while !words.is_empty() {
            let mut here = Vec::new();
            for (to, word) in words {
                let Some(lead) = self.leads.get(usize::from(to.0)).copied().flatten() else {
                    continue;
                };
                let is_here = lead.machine == self.id.machine;
                if is_here && self.replicas[usize::from(to.0)].is_some() {
                    here.push((to, word));
                    continue;
                }
                let way = match is_here {
                    true => To::Worker { worker: self.worker_of(to), from: self.id.machine },
                    false => To::Machine(lead.machine),
                };
                self.words.entry(way).or_default().push((to, word));
            }
            words = self.hear(now, here);
        }
    }

    /// Delivers messages to shards of this worker; returns their replies.
    fn hear(&mut self, now: Now, mut words: Vec<(ShardId, Word)>) -> Vec<(ShardId, Word)> {
        // All messages to one shard are processed together.
        words.sort_by_key(|(to, _)| *to);
        let mut said = Vec::new();
        let mut words = words.into_iter().peekable();
        while let Some((to, first)) = words.next() {
            let shard = usize::from(to.0);
            let more = std::iter::from_fn(|| words.next_if(|(other, _)| *other == to));
            let told = std::iter::once(first).chain(more.map(|(_, word)| word));
            if let Some(replica) = &mut self.replicas[shard] {
                self.active.rouse(shard);
                replica.hear(now, told);
                if replica.shard().tail().has_urgent() && !self.told.contains(&shard) {
                    self.told.push(shard);
                }
                said.extend(replica.take_words());
            }
        }
        said
    }

    /// Takes messages for shards that are led here, by this worker or another one.
    pub(super) fn take_words(&mut self, now: Now, from: MachineId, words: Vec<(ShardId, Word)>) {
        let mut here = Vec::new();
        for (to, word) in words {
            let Some(replica) = self.replicas.get(usize::from(to.0)) else { continue };
            let worker = self.worker_of(to);
            if replica.is_some() {
                here.push((to, word));
            } else if worker != self.id.worker {
                let way = To::Worker { worker, from };
                self.words.entry(way).or_default().push((to, word));
            }
        }
        let said = self.hear(now, here);
        self.send_words(now, said);
    }

    /// Next parcel with messages for other workers and machines.
    pub(super) fn poll_words(&mut self) -> Option<(To, Parcel)> {
        let (to, mut words) = self.words.pop_first()?;
        let rest = words.split_off(words.len().min(WORDS_TOGETHER_MAX));
        if !rest.is_empty() {
            self.words.insert(to, rest);
        }
        Some((to, Parcel::Words(words)))
    }
}
