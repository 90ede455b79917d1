//! Holders of locks that want to know when another client wants them: `LOCK.WANTED`.
//!
//! A listener has a turn like a waiter, with everything that belongs to one (the remaining time, clients
//! that leave, the next leader), but stands beside the queue of its record: it blocks no other turn, never
//! goes into the log, and is examined when the queue grows or the record has changed.

use super::{Turn, TurnQueues};
use crate::now::Now;
use crate::shard::core::ShardCore;
use adt::{Blob, Ctx, Reply, record};

impl TurnQueues {
    /// Adds a listener.
    pub(super) fn listen(&mut self, core: &mut ShardCore, now: Now, mut turn: Turn) {
        // It takes no effect that could be taken twice.
        turn.apply.request = None;
        let key = turn.key().clone();
        self.add(turn);
        self.tell_listening(core, now, &key);
    }

    /// Answers listeners of a record if another client waits for it, or if they have nothing to listen for.
    pub fn tell_listening(&mut self, core: &mut ShardCore, now: Now, key: &Blob) {
        let Some(queue) = self.queues.get(key) else { return };
        if queue.listening.is_empty() {
            return;
        }
        let waiting = queue.waiting.len();
        let ctx = Ctx { now_ms: now.wall_ms(), ts: core.clock, seed: 0 };
        let told = |number: &u64| {
            let turn = self.turns.get(number)?;
            match record::query(core.state.get(key), turn.op(), &ctx) {
                Reply::Nil if waiting == 0 => None,
                Reply::Nil => Some((*number, Reply::Int(waiting as i64))),
                other => Some((*number, other)),
            }
        };
        let told: Vec<_> = queue.listening.iter().filter_map(told).collect();
        for (number, reply) in told {
            self.end_with(core, now, number, reply);
        }
    }
}
