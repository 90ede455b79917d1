//! Time until a leader's appends are durable on other machines.
//!
//! Once a second, for each other machine, an append of any shard is measured from the moment at
//! which it is handed over for sending until its answer: over the network, through the other
//! machine's loop, and to its disk. A [`Timing`](super::Timing) question goes the same way without
//! the disk, so the two times together distinguish a slow disk from a slow network. The measurement
//! sends nothing, and no protocol depends on it.

use crate::ids::{MachineId, ShardId};
use probe::watch::{ANSWER_US_MAX, ASK_US, LOST_US};
use raft::eraftpb::{Message, MessageType};
use std::collections::BTreeMap;

/// Append that is being measured.
#[derive(Debug)]
struct Followed {
    shard: ShardId,
    term: u64,
    /// Index of the last entry in it.
    index: u64,
    sent_us: u64,
}

/// Measurements for one machine.
#[derive(Debug, Default)]
struct Machine {
    followed: Option<Followed>,
    next_us: u64,
    /// Time of the newest answer, until it is taken.
    took_us: Option<u32>,
}

/// Appends that are being measured, and their results.
#[derive(Debug, Default)]
pub(super) struct Appends(BTreeMap<MachineId, Machine>);

impl Appends {
    /// Notes a message of a replica to another one.
    pub fn sent(&mut self, now_us: u64, shard: ShardId, message: &Message) {
        let last = message.entries.last().map(|entry| entry.index);
        let (Some(index), Ok(to)) = (last, u16::try_from(message.to)) else { return };
        if message.get_msg_type() != MessageType::MsgAppend {
            return;
        }
        let machine = self.0.entry(MachineId(to)).or_default();
        if let Some(followed) = &machine.followed {
            if now_us < followed.sent_us + ANSWER_US_MAX {
                return;
            }
            machine.took_us = Some(LOST_US);
        }
        machine.followed = None;
        if now_us >= machine.next_us {
            machine.next_us = now_us + ASK_US;
            let followed = Followed { shard, term: message.term, index, sent_us: now_us };
            machine.followed = Some(followed);
        }
    }

    /// Notes a message of another replica.
    pub fn received(&mut self, now_us: u64, shard: ShardId, message: &Message) {
        let is_answer = message.get_msg_type() == MessageType::MsgAppendResponse && !message.reject;
        let Ok(from) = u16::try_from(message.from) else { return };
        let Some(machine) = self.0.get_mut(&MachineId(from)) else { return };
        let is_it = |followed: &mut Followed| {
            let Followed { shard: of, term, index, .. } = *followed;
            is_answer && of == shard && term == message.term && message.index >= index
        };
        if let Some(followed) = machine.followed.take_if(is_it) {
            let took_us = now_us.saturating_sub(followed.sent_us);
            let in_time = u32::try_from(took_us).ok().filter(|_| took_us < ANSWER_US_MAX);
            machine.took_us = Some(in_time.unwrap_or(LOST_US));
        }
    }

    /// Drops the open measurement for a lost machine: the lost answer says nothing about its disk.
    pub fn forget(&mut self, machine: MachineId) {
        self.0.remove(&machine);
    }

    /// Takes the results since the last call, in microseconds, or [`LOST_US`].
    pub fn take(&mut self) -> impl Iterator<Item = (MachineId, u32)> {
        let all = self.0.iter_mut();
        all.filter_map(|(machine, known)| Some((*machine, known.took_us.take()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raft::eraftpb::Entry;

    const SHARD: ShardId = ShardId(3);
    const SECOND: u64 = 1_000_000;

    fn append(to: u64, index: u64) -> Message {
        let mut message = Message { to, from: 1, term: 4, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppend);
        message.set_entries(vec![Entry { index, term: 4, ..Entry::default() }].into());
        message
    }

    fn answer(from: u64, term: u64, index: u64) -> Message {
        let mut message = Message { to: 1, from, term, index, ..Message::default() };
        message.set_msg_type(MessageType::MsgAppendResponse);
        message
    }

    fn taken(appends: &mut Appends) -> Vec<(u16, u32)> {
        appends.take().map(|(machine, us)| (machine.0, us)).collect()
    }

    #[test]
    fn one_append_a_second_is_followed_to_its_answer() {
        let mut appends = Appends::default();
        appends.sent(0, SHARD, &append(2, 7));
        appends.sent(100, SHARD, &append(2, 8));
        appends.sent(100, SHARD, &append(3, 8));
        appends.received(400, SHARD, &answer(2, 4, 6));
        appends.received(400, ShardId(4), &answer(2, 4, 9));
        appends.received(400, SHARD, &answer(2, 3, 9));
        assert_eq!(taken(&mut appends), []);
        appends.received(900, SHARD, &answer(2, 4, 8));
        appends.received(950, SHARD, &answer(2, 4, 8));
        appends.received(990, SHARD, &answer(3, 4, 8));
        assert_eq!(taken(&mut appends), [(2, 900), (3, 890)]);
        // Not before a second has passed.
        appends.sent(SECOND - 1, SHARD, &append(2, 9));
        appends.received(SECOND, SHARD, &answer(2, 4, 9));
        assert_eq!(taken(&mut appends), []);
        appends.sent(SECOND, ShardId(5), &append(2, 1));
        appends.received(SECOND + 7, ShardId(5), &answer(2, 4, 1));
        assert_eq!(taken(&mut appends), [(2, 7)]);
    }

    #[test]
    fn refused_and_empty_appends_are_not_measured() {
        let mut appends = Appends::default();
        let mut empty = append(2, 7);
        empty.entries.clear();
        appends.sent(0, SHARD, &empty);
        appends.received(5, SHARD, &answer(2, 4, 9));
        appends.sent(10, SHARD, &append(2, 7));
        let mut refused = answer(2, 4, 9);
        refused.reject = true;
        appends.received(20, SHARD, &refused);
        assert_eq!(taken(&mut appends), []);
    }

    #[test]
    fn a_missing_answer_is_reported_and_a_lost_connection_is_not() {
        let mut appends = Appends::default();
        appends.sent(0, SHARD, &append(2, 7));
        appends.sent(4 * SECOND, SHARD, &append(2, 8));
        assert_eq!(taken(&mut appends), []);
        appends.sent(5 * SECOND, SHARD, &append(2, 9));
        assert_eq!(taken(&mut appends), [(2, LOST_US)]);
        // The next append is measured from here on.
        appends.received(5 * SECOND + 3, SHARD, &answer(2, 4, 9));
        assert_eq!(taken(&mut appends), [(2, 3)]);
        // A late answer counts as none.
        appends.sent(7 * SECOND, SHARD, &append(2, 10));
        appends.received(12 * SECOND, SHARD, &answer(2, 4, 10));
        assert_eq!(taken(&mut appends), [(2, LOST_US)]);
        appends.sent(13 * SECOND, SHARD, &append(2, 11));
        appends.forget(MachineId(2));
        appends.received(14 * SECOND, SHARD, &answer(2, 4, 11));
        assert_eq!(taken(&mut appends), []);
    }
}
