//! Messages about pipelines between leaders of shards, and their routes.
//!
//! A message goes to the known leader of its shard. Without one, or at the wrong machine, it is
//! lost; a shard that needs it asks for it. Messages to other workers and machines wait until the
//! end of the turn and are sent there together.

use super::{Node, Parcel, To};
use crate::entry::EntryCodec;
use crate::ids::{MachineId, ShardId};
use crate::limits::STREAM_MESSAGES_TOGETHER_MAX;
use crate::now::Now;
use crate::pipeline::StreamMessage;
use std::collections::BTreeMap;

/// Messages that wait for the end of the turn, by destination.
pub(super) type Outbound = BTreeMap<To, Vec<(ShardId, StreamMessage)>>;

impl<C: EntryCodec + Clone> Node<C> {
    /// Routes the messages of the leader of a shard here, and the replies of other local shards to
    /// them.
    pub(super) fn route_stream_messages(&mut self, now: Now, shard: usize) {
        let replica = self.replicas[shard]
            .as_mut()
            .filter(|replica| replica.shard().streams().has_stream_messages());
        if let Some(messages) = replica.map(|replica| replica.take_stream_messages()) {
            self.send_stream_messages(now, messages);
        }
    }

    /// Sends messages, and the replies of local shards to them.
    fn send_stream_messages(&mut self, now: Now, mut messages: Vec<(ShardId, StreamMessage)>) {
        while !messages.is_empty() {
            let mut here = Vec::new();
            for (to, message) in messages {
                let Some(lead) = self.leads.get(usize::from(to.0)).copied().flatten() else {
                    continue;
                };
                let is_here = lead.machine == self.id.machine;
                if is_here && self.replicas[usize::from(to.0)].is_some() {
                    here.push((to, message));
                    continue;
                }
                let destination = match is_here {
                    true => To::Worker { worker: self.worker_of(to), from: self.id.machine },
                    false => To::Machine(lead.machine),
                };
                self.stream_messages.entry(destination).or_default().push((to, message));
            }
            messages = self.deliver_stream_messages(now, here);
        }
    }

    /// Delivers messages to shards of this worker; returns their replies.
    fn deliver_stream_messages(
        &mut self,
        now: Now,
        mut messages: Vec<(ShardId, StreamMessage)>,
    ) -> Vec<(ShardId, StreamMessage)> {
        // All messages to one shard are processed together.
        messages.sort_by_key(|(to, _)| *to);
        let mut replies = Vec::new();
        let mut messages = messages.into_iter().peekable();
        while let Some((to, first)) = messages.next() {
            let shard = usize::from(to.0);
            let more = std::iter::from_fn(|| messages.next_if(|(other, _)| *other == to));
            let received = std::iter::once(first).chain(more.map(|(_, message)| message));
            if let Some(replica) = &mut self.replicas[shard] {
                self.active.rouse(shard);
                replica.hear(now, received);
                if replica.shard().tail().has_urgent() && !self.urgent.contains(&shard) {
                    self.urgent.push(shard);
                }
                replies.extend(replica.take_stream_messages());
            }
        }
        replies
    }

    /// Takes messages for shards that are led here, by this worker or another one.
    pub(super) fn take_stream_messages(
        &mut self,
        now: Now,
        from: MachineId,
        messages: Vec<(ShardId, StreamMessage)>,
    ) {
        let mut here = Vec::new();
        for (to, message) in messages {
            let Some(replica) = self.replicas.get(usize::from(to.0)) else { continue };
            let worker = self.worker_of(to);
            if replica.is_some() {
                here.push((to, message));
            } else if worker != self.id.worker {
                let destination = To::Worker { worker, from };
                self.stream_messages.entry(destination).or_default().push((to, message));
            }
        }
        let replies = self.deliver_stream_messages(now, here);
        self.send_stream_messages(now, replies);
    }

    /// Next parcel with messages for other workers and machines.
    pub(super) fn poll_stream_messages(&mut self) -> Option<(To, Parcel)> {
        let (to, mut messages) = self.stream_messages.pop_first()?;
        let rest = messages.split_off(messages.len().min(STREAM_MESSAGES_TOGETHER_MAX));
        if !rest.is_empty() {
            self.stream_messages.insert(to, rest);
        }
        Some((to, Parcel::StreamMessages(messages)))
    }
}
