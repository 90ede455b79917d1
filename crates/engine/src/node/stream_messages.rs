//! Messages about pipelines between leaders of shards, and their routes.
//!
//! A message goes to the known leader of its shard. Without one, or at the wrong machine, it is
//! lost; a shard that needs it asks for it. Messages to other workers and machines wait until the
//! end of the turn and are sent there together.

use super::leaders::KnownLeaders;
use super::outgoing::{Outgoing, To};
use super::parcel::Parcel;
use super::replicas::Replicas;
use crate::entry::EntryCodec;
use crate::ids::{MachineId, ShardId};
use crate::limits::STREAM_MESSAGES_TOGETHER_MAX;
use crate::now::Now;
use crate::pipeline::StreamMessage;
use std::collections::BTreeMap;

/// Messages between leaders of shards on their way.
#[derive(Debug, Default)]
pub(super) struct StreamMessages {
    /// Messages that wait for the end of the turn, by receiver.
    outbound: BTreeMap<To, Vec<(ShardId, StreamMessage)>>,
    /// Shards that have received messages that may make them write, perhaps after the end of their
    /// turn.
    urgent: Vec<usize>,
}

impl StreamMessages {
    /// Routes the messages of the leader of a shard here, and the replies of other local shards to
    /// them.
    pub fn pass<C: EntryCodec + Clone>(
        &mut self,
        now: Now,
        (out, leaders): (&Outgoing, &KnownLeaders),
        replicas: &mut Replicas<C>,
        shard: usize,
    ) {
        let replica = replicas[shard].as_mut();
        let replica = replica.filter(|replica| replica.shard().streams().has_stream_messages());
        if let Some(messages) =
            replica.map(|replica| replica.shard_mut().streams_mut().take_stream_messages())
        {
            self.send(now, (out, leaders), replicas, messages);
        }
    }

    /// Sends messages, and the replies of local shards to them.
    fn send<C: EntryCodec + Clone>(
        &mut self,
        now: Now,
        (out, leaders): (&Outgoing, &KnownLeaders),
        replicas: &mut Replicas<C>,
        mut messages: Vec<(ShardId, StreamMessage)>,
    ) {
        while !messages.is_empty() {
            let mut here = Vec::new();
            for (to, message) in messages {
                let Some(lead) = leaders.of(to) else { continue };
                let is_here = out.is_own_machine(lead.machine);
                if is_here && replicas.has(to) {
                    here.push((to, message));
                    continue;
                }
                let receiver = match is_here {
                    true => To::Worker { worker: out.worker_of(to), from: lead.machine },
                    false => To::Machine(lead.machine),
                };
                self.outbound.entry(receiver).or_default().push((to, message));
            }
            messages = self.hear(now, replicas, here);
        }
    }

    /// Delivers messages to shards of this worker; returns their replies.
    fn hear<C: EntryCodec + Clone>(
        &mut self,
        now: Now,
        replicas: &mut Replicas<C>,
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
            if let Some(replica) = replicas.get_mut(to) {
                replica.hear(now, received);
                if replica.shard().tail().has_urgent() && !self.urgent.contains(&shard) {
                    self.urgent.push(shard);
                }
                replies.extend(replica.shard_mut().streams_mut().take_stream_messages());
            }
        }
        replies
    }

    /// Takes messages of `from` for shards that are led here, by this worker or another one.
    pub fn take<C: EntryCodec + Clone>(
        &mut self,
        now: Now,
        (out, leaders): (&Outgoing, &KnownLeaders),
        replicas: &mut Replicas<C>,
        (from, messages): (MachineId, Vec<(ShardId, StreamMessage)>),
    ) {
        let mut here = Vec::new();
        for (to, message) in messages {
            if usize::from(to.0) >= replicas.count() {
                continue;
            }
            if replicas.has(to) {
                here.push((to, message));
            } else if !out.is_ours(to) {
                let receiver = To::Worker { worker: out.worker_of(to), from };
                self.outbound.entry(receiver).or_default().push((to, message));
            }
        }
        let replies = self.hear(now, replicas, here);
        self.send(now, (out, leaders), replicas, replies);
    }

    /// Notes that the turn of a shard ends, or that the shard is gone.
    pub fn end_turn(&mut self, shard: usize) {
        self.urgent.retain(|urgent| *urgent != shard);
    }

    /// Whether the turn of some shard is to be ended once more.
    pub fn have_effect(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Next parcel with messages for other workers and machines.
    pub fn next(&mut self) -> Option<(To, Parcel)> {
        let (to, mut messages) = self.outbound.pop_first()?;
        let rest = messages.split_off(messages.len().min(STREAM_MESSAGES_TOGETHER_MAX));
        if !rest.is_empty() {
            self.outbound.insert(to, rest);
        }
        Some((to, Parcel::StreamMessages(messages)))
    }
}
