//! Work and messages that streams have pending at a leader.

use crate::ids::{ShardId, StreamId};
use crate::pipeline::StreamMessage;

/// Work and messages that streams have pending at a leader.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// The term in which this replica leads.
    pub term: u64,
    /// Dirty streams: `Desk::advance_next` examines them.
    marked: Vec<StreamId>,
    /// Messages to the leaders of other shards.
    messages: Vec<(ShardId, StreamMessage)>,
}

impl Agenda {
    /// Marks a stream as dirty.
    pub fn mark(&mut self, stream: StreamId) {
        if !self.marked.contains(&stream) {
            self.marked.push(stream);
        }
    }

    /// Takes a dirty stream.
    pub fn next_marked(&mut self) -> Option<StreamId> {
        self.marked.pop()
    }

    /// Sends a message to the leader of another shard.
    pub fn say(&mut self, to: ShardId, word: StreamMessage) {
        self.messages.push((to, word));
    }

    /// Sends one message to each of several shards but this one. The list loses its order.
    pub fn say_to(&mut self, shards: &mut [ShardId], own: ShardId, word: &StreamMessage) {
        shards.sort_unstable();
        let mut last = None;
        for shard in shards.iter().copied().filter(|shard| *shard != own) {
            if last.replace(shard) != Some(shard) {
                self.say(shard, word.clone());
            }
        }
    }

    /// Takes the messages.
    pub fn take_messages(&mut self) -> Vec<(ShardId, StreamMessage)> {
        std::mem::take(&mut self.messages)
    }

    /// Whether there are messages.
    #[inline]
    pub fn has_messages(&self) -> bool {
        !self.messages.is_empty()
    }
}
