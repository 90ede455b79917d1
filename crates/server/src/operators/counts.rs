//! Counters of the log and of the messages to other machines: the cost of a transaction besides
//! processor time.

use engine::node::{Parcel, ParcelKind};
use std::sync::atomic::{AtomicU64, Ordering};

/// Work done by the log's thread.
#[derive(Debug, Default)]
pub struct LogCounts {
    entries: AtomicU64,
    writes: AtomicU64,
    syncs: AtomicU64,
}

impl LogCounts {
    /// Counts a batch that was written with so many entries of shards; `sync` if it was also made
    /// durable.
    pub fn wrote(&self, entries: usize, sync: bool) {
        self.entries.fetch_add(entries as u64, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.syncs.fetch_add(u64::from(sync), Ordering::Relaxed);
    }

    /// Counters with their names and descriptions.
    pub fn numbers(&self) -> [(&'static str, &'static str, u64); 3] {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("log_entries_total", "Entries of shards written to the log", value(&self.entries)),
            ("log_writes_total", "Batches written to the log", value(&self.writes)),
            ("log_syncs_total", "Batches of the log made durable (fsync)", value(&self.syncs)),
        ]
    }
}

/// Messages that a worker has sent to other machines.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeerCounts {
    messages: [u64; ParcelKind::ALL.len()],
    /// Messages of `PUBLISH` and other tasks for all gateways that were dropped, because too many bytes
    /// were waiting for the machine.
    pub broadcasts_dropped: u64,
    /// System calls that accepted bytes.
    pub sends: u64,
    /// Bytes that they accepted, before encryption.
    pub bytes: u64,
}

impl PeerCounts {
    /// Counts a message that is about to be sent.
    pub fn message(&mut self, parcel: &Parcel) {
        self.messages[parcel.kind() as usize] += 1;
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Self) {
        for (own, more) in self.messages.iter_mut().zip(other.messages) {
            *own += more;
        }
        self.broadcasts_dropped += other.broadcasts_dropped;
        self.sends += other.sends;
        self.bytes += other.bytes;
    }

    /// Number of messages of each kind.
    pub fn messages(&self) -> impl Iterator<Item = (&'static str, u64)> {
        ParcelKind::ALL.into_iter().map(|(_, name)| name).zip(self.messages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::Timestamp;
    use engine::ids::ShardId;
    use raft::eraftpb::MessageType;

    #[test]
    fn messages_are_counted_by_kind() {
        let watermark = Parcel::Watermarks(vec![(ShardId(0), Timestamp::ZERO)]);
        let mut message = raft::eraftpb::Message::default();
        let mut counts = PeerCounts::default();
        counts.message(&watermark);
        counts.message(&Parcel::Raft { shard: ShardId(0), message: Box::new(message.clone()) });
        message.set_msg_type(MessageType::MsgHeartbeat);
        counts.message(&Parcel::Raft { shard: ShardId(0), message: Box::new(message.clone()) });
        message.set_msg_type(MessageType::MsgAppend);
        message.entries.push(raft::eraftpb::Entry::default());
        counts.message(&Parcel::Raft { shard: ShardId(0), message: Box::new(message) });
        let mut sum = PeerCounts { bytes: 7, ..counts };
        sum.add(&counts);
        let told: Vec<_> = sum.messages().filter(|(_, count)| *count > 0).collect();
        assert_eq!(told, [("entries", 2), ("consensus", 2), ("heartbeats", 2), ("other", 2)]);
        assert_eq!(sum.bytes, 7);
    }
}
