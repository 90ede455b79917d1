//! How long a leader remembers streams.
//!
//! A stream is forgotten when its gateway has all answers, and all of it is settled, here and at all other
//! shards that have had units of it: until then a new leader there may ask. If one of these messages never
//! comes, the stream is forgotten after a time in which every possible sender of a question is gone
//! ([`STREAM_KEPT_US`], and all watermarks have passed).

use super::agenda::Agenda;
use crate::entry::LogRecord;
use crate::ids::{ShardId, StreamId};
use crate::limits::STREAM_KEPT_US;
use crate::now::Now;
use crate::pipeline::StreamMessage;
use crate::shard::core::ShardCore;
use crate::shard::tail::Recipient;
use adt::collections::Map;
use smallvec::SmallVec;

/// Messages that are missing before a stream is forgotten.
#[derive(Debug)]
struct Keeping {
    since_us: u64,
    /// The shards that have had units, once the gateway has all answers.
    ended: Option<Vec<ShardId>>,
    /// The shards that have reported that all is settled there, this one included.
    settled: SmallVec<[ShardId; 8]>,
}

impl Keeping {
    fn new(since_us: u64) -> Self {
        Self { since_us, ended: None, settled: SmallVec::new() }
    }

    fn settled_at(&mut self, shard: ShardId) {
        if !self.settled.contains(&shard) {
            self.settled.push(shard);
        }
    }

    fn is_over(&self) -> bool {
        let ended = self.ended.as_ref();
        ended.is_some_and(|shards| shards.iter().all(|shard| self.settled.contains(shard)))
    }
}

/// Streams that the log remembers, until they are over.
#[derive(Debug, Default)]
pub(super) struct Memory {
    keeping: Map<StreamId, Keeping>,
    /// Streams that are over, for the next record that says so.
    forgotten: Vec<StreamId>,
}

impl Memory {
    /// Whether there is nothing to remember or to forget.
    pub fn is_empty(&self) -> bool {
        self.keeping.is_empty() && self.forgotten.is_empty()
    }

    /// Remembers a stream that is in the log.
    pub fn remember(&mut self, core: &ShardCore, id: StreamId) {
        self.keeping.entry(id).or_insert_with(|| Keeping::new(core.state.mono_us()));
    }

    /// Begins anew with all streams of the log: a new leader does not know the messages before its lead.
    pub fn inherit(&mut self, core: &ShardCore, now: Now) {
        for (id, _) in core.state.streams.iter() {
            self.keeping.insert(*id, Keeping::new(now.mono_us));
        }
    }

    /// Notes that the gateway has all answers of a stream that had units at these shards.
    pub fn ended(&mut self, id: StreamId, shards: Vec<ShardId>) {
        if let Some(keeping) = self.keeping.get_mut(&id) {
            keeping.ended = Some(shards);
        }
    }

    /// Notes that all of a stream is settled at another shard. Tells whether the stream is over.
    pub fn settled_at(&mut self, id: StreamId, shard: ShardId) -> bool {
        let Some(keeping) = self.keeping.get_mut(&id) else { return false };
        keeping.settled_at(shard);
        self.forget_if_over(id)
    }

    /// Tells the other shards that all of a stream is settled here, if so and if the gateway has its
    /// answers. Tells whether the stream is over.
    pub fn tell_settled(&mut self, core: &ShardCore, agenda: &mut Agenda, id: StreamId) -> bool {
        let own = core.config.id;
        if !core.state.streams.is_settled(id) {
            return false;
        }
        let Some(keeping) = self.keeping.get_mut(&id) else { return false };
        let Some(shards) = &keeping.ended else { return false };
        for shard in shards.iter().copied().filter(|shard| *shard != own) {
            agenda.say(shard, StreamMessage::Settled { stream: id, shard: own });
        }
        keeping.settled_at(own);
        self.forget_if_over(id)
    }

    fn forget_if_over(&mut self, id: StreamId) -> bool {
        let over = self.keeping.get(&id).is_some_and(Keeping::is_over);
        if over {
            self.keeping.swap_remove(&id);
            self.forgotten.push(id);
        }
        over
    }

    /// Logs which streams are forgotten.
    pub fn tick(&mut self, core: &mut ShardCore, now: Now) {
        let long_kept =
            |(_, keeping): &(&StreamId, &Keeping)| now.mono_us >= keeping.since_us + STREAM_KEPT_US;
        let passed = |(id, keeping): &(&StreamId, &Keeping)| {
            core.state.streams.is_settled(**id) && is_passed(core, **id, keeping)
        };
        let outlived = self.keeping.iter().filter(long_kept).filter(passed);
        let outlived: Vec<StreamId> = outlived.map(|(id, _)| *id).collect();
        for id in &outlived {
            self.keeping.swap_remove(id);
        }
        if !outlived.is_empty() {
            core.log(LogRecord::Outlive(outlived), Recipient::none());
        }
        let forgotten = std::mem::take(&mut self.forgotten);
        if !forgotten.is_empty() {
            core.log(LogRecord::Forget(forgotten), Recipient::none());
        }
    }
}

/// Whether all shards have settled everything as old as a stream.
fn is_passed(core: &ShardCore, id: StreamId, keeping: &Keeping) -> bool {
    let Some(kept) = core.state.streams.get(id) else { return true };
    let units = kept.groups.iter().flat_map(|group| &group.units);
    let last = units.filter_map(|(_, place)| place.flatten()).max().unwrap_or_default();
    !core.config.clustered || core.state.fates().all_passed(keeping.since_us, last)
}
