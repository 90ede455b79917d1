//! How long a shard must remember what became of a transaction.
//!
//! A participant may lose its leader before the outcome is in its log, be without one for any time,
//! and ask the others then. One that has forgotten the transaction would say that it never prepared
//! it. So outcomes are kept until every shard has said that nothing that old is open there any more:
//! its *watermark* has passed. Leaders tell their watermarks about once a second.
//!
//! A leader that was deposed and does not know it yet may tell a watermark that is too high. It
//! finds out within an election time-out; so a watermark counts for a transaction only if it was
//! heard long enough after the transaction was carried out here.

use crate::ids::ShardId;
use crate::limits::{ELECTION_TICKS, TICK_US_MAX};
use adt::Timestamp;

/// How long after a transaction was carried out a watermark must be heard to count for it.
const CERTAIN_US: u64 = 5 * ELECTION_TICKS as u64 * TICK_US_MAX;

/// How far every shard has settled its transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettledUpTo {
    /// The lowest watermark.
    ts: Timestamp,
    /// When the one was heard that was not heard for longest (monotonic microseconds).
    heard_us: u64,
    /// How many shards that is about.
    shards: u16,
}

impl SettledUpTo {
    /// Whether all shards, `shards` of them at least, have settled what was committed at `ts` and
    /// carried out at `since_us`.
    pub fn passed(&self, shards: u16, since_us: u64, ts: Timestamp) -> bool {
        self.shards >= shards && self.ts > ts && self.heard_us >= since_us + CERTAIN_US
    }
}

/// The watermarks of all shards, as one worker has heard them.
#[derive(Clone, Debug)]
pub struct Watermarks {
    /// By shard: the watermark, and when it was heard.
    heard: Vec<(Timestamp, u64)>,
}

impl Watermarks {
    /// Expects the watermarks of this many shards.
    pub fn know(&mut self, shards: u16) {
        let shards = usize::from(shards).max(self.heard.len());
        self.heard.resize(shards, (Timestamp::ZERO, 0));
    }

    /// No watermarks yet, of this many shards.
    pub fn new(shards: u16) -> Self {
        Self { heard: vec![(Timestamp::ZERO, 0); usize::from(shards)] }
    }

    /// Notes watermarks that shards have sent.
    pub fn hear(&mut self, told: &[(ShardId, Timestamp)], mono_us: u64) {
        for (shard, ts) in told {
            if let Some(heard) = self.heard.get_mut(usize::from(shard.0)) {
                *heard = (*ts, mono_us);
            }
        }
    }

    /// Summary of all watermarks.
    pub fn settled(&self) -> SettledUpTo {
        let ts = self.heard.iter().map(|(ts, _)| *ts).min().unwrap_or_default();
        let heard_us = self.heard.iter().map(|(_, at_us)| *at_us).min().unwrap_or_default();
        SettledUpTo { ts, heard_us, shards: self.heard.len() as u16 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_needed_until_all_shards_have_passed_it_and_said_so_late_enough() {
        let mut watermarks = Watermarks::new(2);
        let passed = |w: &Watermarks| w.settled().passed(2, 1000, Timestamp(50));
        watermarks.hear(&[(ShardId(0), Timestamp(60))], 1000 + CERTAIN_US);
        assert!(!passed(&watermarks), "one shard has said nothing");
        watermarks.hear(&[(ShardId(1), Timestamp(60))], 1000 + CERTAIN_US - 1);
        assert!(!passed(&watermarks), "it may have been deposed");
        watermarks.hear(&[(ShardId(1), Timestamp(50))], 1000 + CERTAIN_US);
        assert!(!passed(&watermarks), "something at 50 may be open there");
        watermarks.hear(&[(ShardId(1), Timestamp(51))], 1000 + CERTAIN_US);
        assert!(passed(&watermarks));
        watermarks.know(3);
        assert!(!passed(&watermarks), "there is a new shard");
    }
}
