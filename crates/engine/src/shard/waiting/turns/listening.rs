//! Holders of locks that want to know when somebody else wants them: `LOCK.WANTED`.
//!
//! Who listens has a turn like those who wait, with everything that belongs to one (the time that is left,
//! clients that leave, the next leader), but stands beside the queue of its record: it is in nobody's
//! way, never goes into the log, and is looked at when the queue grows or the record has changed.

use crate::now::Now;
use crate::shard::waiting::turns::{Shard, WaitingTurn};
use adt::{Blob, Ctx, Reply, record};

impl Shard {
    /// Somebody listens from now on.
    pub(in crate::shard::waiting::turns) fn listen(&mut self, now: Now, mut turn: WaitingTurn) {
        // It takes no effect that could be taken twice.
        turn.apply.request = None;
        let key = turn.key().clone();
        self.turns.add(turn);
        self.report_changes();
        self.tell_listening(now, &key);
    }

    /// Tells those who listen that somebody waits for a record, or that they have nothing to listen for.
    pub(in crate::shard::waiting::turns) fn tell_listening(&mut self, now: Now, key: &Blob) {
        let Some(queue) = self.turns.queues.get(key) else { return };
        if queue.listening.is_empty() {
            return;
        }
        let waiting = queue.waiting.len();
        let ctx = Ctx { now_ms: now.wall_ms(), ts: self.core.clock, seed: 0 };
        let told = |number: &u64| {
            let turn = self.turns.turns.get(number)?;
            match record::query(self.core.state.get(key), turn.op(), &ctx) {
                Reply::Nil if waiting == 0 => None,
                Reply::Nil => Some((*number, Reply::Int(waiting as i64))),
                other => Some((*number, other)),
            }
        };
        let told: Vec<_> = queue.listening.iter().filter_map(told).collect();
        for (number, reply) in told {
            self.end_turn_with(now, number, reply);
        }
    }
}
