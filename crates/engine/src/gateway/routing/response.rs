//! What shards say, and whom it concerns.

use super::snapshot::SnapshotEnd;
use super::unread::What;
use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::gateway::errors::unexpected;
use crate::gateway::mail::Pending;
use crate::gateway::mail::{Mail, Target};
use crate::gateway::txn::transaction::repeated::answer_again;
use crate::gateway::txn::work::{Finish, Outcome};
use crate::ids::ShardId;
use crate::message::{Answer, Body, Notice, Refusal, Request, Response};
use crate::now::Now;
use adt::Reply;
use smallvec::SmallVec;

impl Gateway {
    /// A shard has answered or noticed something.
    pub fn response(&mut self, now: Now, response: Response) {
        self.core.now = now;
        let Some(token) = self.core.mail.answered(response.token) else { return };
        match response.answer {
            Answer::Notice(notice) => self.notice(token, notice),
            Answer::NotTaken(body) => self.not_taken(token, *body),
            Answer::Unread => self.not_read(token, What::Answer),
            Answer::Refused(Refusal::Unread) => self.not_read(token, What::Request),
            answer => {
                if let Some(pending) = self.core.mail.take(token) {
                    self.answer(token, pending, answer);
                }
            }
        }
        self.settle();
    }

    #[inline]
    pub(in crate::gateway) fn answer(&mut self, token: u64, pending: Pending, answer: Answer) {
        match pending {
            Pending::Single { target, wrote, .. } => self.single_answered(target, wrote, answer),
            Pending::Batch { parts, wrote, .. } => self.batch_answered(parts, wrote, answer),
            Pending::Units { session, stream, first, count, shard } => {
                self.units_answered((session, stream, first), (shard, count), answer);
            }
            Pending::Work { target, wrote, finish, .. } => {
                self.written(target, wrote);
                self.end_loose(target.session);
                match answer {
                    Answer::Replies(replies) => {
                        self.count_committed(wrote.is_some(), &finish.outcomes);
                        self.complete(target, &finish, replies.into_iter());
                    }
                    Answer::Repeated(replies) => {
                        let (core, replies) = (&mut self.core, replies.into_vec());
                        self.transactions.repeated_there(core, target, *finish, replies);
                    }
                    Answer::Snapshot { replies, .. } => {
                        self.complete(target, &finish, replies.into_iter());
                    }
                    Answer::TookEffect { ts, replies, whole: true } => {
                        answer_again(&mut self.core, target, *finish, ts, replies);
                    }
                    Answer::GuardFailed => {
                        self.core.mail.stats.guard_failures += 1;
                        self.finish(target, Reply::NilArray);
                    }
                    other => self.finish(target, unexpected(&other)),
                }
            }
            Pending::Access { job, call, index, blocked } => {
                let (request, access) = ((token, blocked), (job, call, index));
                self.transactions.accessed(&mut self.core, request, access, answer);
            }
            Pending::Vote { job, shard, blocked } => {
                let (request, vote) = ((token, blocked), (job, shard));
                self.transactions.voted(&mut self.core, request, vote, answer);
            }
            Pending::Execution { job, shard } => {
                self.transactions.executed(&mut self.core, job, shard, answer);
            }
            Pending::Loose { job, index } => {
                self.transactions.loosely_answered(&mut self.core, job, index, answer);
            }
            Pending::Snapshot { job, part } => {
                let end = self.snapshots.answered(&mut self.core, job, part, answer);
                self.snapshot_ended(end);
            }
            Pending::Interval { job, query, part } => {
                let effect = self.lockless.answered(&mut self.core, job, (query, part), answer);
                self.transaction_ended(effect);
            }
            Pending::Version { target, key } => self.watched(target, key, answer),
            Pending::Attempt { job } => {
                let effect = self.blocked.answered(&mut self.core, job, answer);
                self.blocked_goes_on(effect);
            }
            Pending::Turn { job } => {
                let ended = self.turns.answered(&mut self.core, job, answer);
                self.waits_no_longer(ended);
            }
            Pending::Near { lock, purpose } => {
                self.near_locks.answered(&mut self.core, lock, purpose, answer);
            }
            Pending::Waits { job, shard } => {
                self.turns.waits_reported(&mut self.core, (job, shard), answer);
            }
            Pending::Gather { job } => self.gathers.answered(&mut self.core, job, answer),
            Pending::Lease { lease } => {
                self.transactions.lease_answered(&mut self.core, lease, answer);
            }
            Pending::Cut { job, shard } => {
                self.backups.answered(&mut self.core, token, (job, shard), answer)
            }
            Pending::Fate { job } => self.orphans.answered(&mut self.core, job, answer),
            Pending::Coordination { client, shard, purpose } => {
                let (client, to) = (CoordinationClient(client), (shard, purpose));
                self.coordination.answered(&mut self.core, client, to, answer);
            }
            Pending::Ahead { sender, stream, first, count, shard } => {
                let group = (stream, first, count);
                self.coordination.ahead_answered(&mut self.core, sender, group, (shard, answer));
            }
            Pending::Spread => self.coordination.spread_known(&mut self.core, answer),
            Pending::Ending { job } => self.coordination.end_answered(&mut self.core, job, answer),
            Pending::Joint { job, shard } => {
                self.coordination.multi_answered(&mut self.core, job, shard, answer);
            }
            Pending::SplitDone => self.core.topology.split_told(),
            Pending::Wait { job } => {
                let effect = self.blocked.wait_ended(&mut self.core, token, job, answer);
                self.blocked_goes_on(effect);
            }
            Pending::Remembered => {}
        }
    }

    /// A request could not be handed to anybody: who leads is not known, or has changed, of which this
    /// gateway hears next.
    pub fn not_sent(&mut self, request: Request) {
        self.not_taken(Mail::token_of(request.token), request.body);
    }

    /// A shard has sent a request back: its leader is another machine now.
    pub(in crate::gateway) fn not_taken(&mut self, token: u64, mut body: Body) {
        if let Body::Await { timeout_ms, .. } = &mut body
            && let Some(Pending::Turn { job }) = self.core.mail.pending.get(token)
            && let Some(left_ms) = self.turns.left_ms(&self.core, *job)
        {
            *timeout_ms = left_ms;
        }
        self.core.mail.take_back(self.core.now, token, body);
    }

    #[inline]
    pub(in crate::gateway) fn single_answered(
        &mut self,
        target: Target,
        wrote: Option<ShardId>,
        answer: Answer,
    ) {
        self.written(target, wrote);
        self.end_loose(target.session);
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Replies(mut replies) if replies.len() == 1 => replies.remove(0),
            other => unexpected(&other),
        };
        self.finish(target, reply);
    }

    /// Commands that were sent together are answered.
    fn batch_answered(
        &mut self,
        parts: Vec<(Target, u32, Option<Box<Finish>>)>,
        wrote: Option<ShardId>,
        answer: Answer,
    ) {
        let Some(first) = parts.first().map(|(target, ..)| *target) else { return };
        self.written(first, wrote);
        self.end_loose(first.session);
        let replies: Vec<Reply> = match answer {
            Answer::Replies(replies) => replies.into_vec(),
            Answer::Snapshot { replies, .. } => replies,
            other => {
                for (target, ..) in parts {
                    self.finish(target, unexpected(&other));
                }
                return;
            }
        };
        let mut replies = replies.into_iter();
        for (target, count, finish) in parts {
            let own: SmallVec<[Reply; 1]> = replies.by_ref().take(count as usize).collect();
            self.planned_done(target, finish, wrote.is_some(), own.into_iter());
        }
    }

    /// The operations of a command that was to be carried out at its place in its session's order are.
    pub(in crate::gateway) fn planned_done(
        &mut self,
        target: Target,
        finish: Option<Box<Finish>>,
        wrote: bool,
        mut replies: impl Iterator<Item = Reply>,
    ) {
        match finish {
            None => self.finish(target, replies.next().unwrap_or(Reply::Nil)),
            Some(finish) => {
                self.count_committed(wrote, &finish.outcomes);
                self.complete(target, &finish, replies);
            }
        }
    }

    /// Carries out the outcome of reads without locks, if they have ended.
    pub(in crate::gateway) fn snapshot_ended(&mut self, end: Option<SnapshotEnd>) {
        match end {
            Some(SnapshotEnd::Read(target, finish, replies)) => {
                self.complete(target, &finish, replies.into_iter());
            }
            Some(SnapshotEnd::Locks(program, finish)) => {
                self.transactions.begin(&mut self.core, program, Some(finish));
            }
            None => {}
        }
    }

    fn count_committed(&mut self, wrote: bool, outcomes: &[Outcome]) {
        if wrote && outcomes.len() > 1 {
            self.core.mail.stats.committed += 1;
        }
    }

    fn notice(&mut self, token: u64, notice: Notice) {
        match notice {
            Notice::Wound { txn, by, .. } => self.transactions.wound(&mut self.core, txn, by),
            Notice::Wanted { txn } => self.wanted(txn),
            Notice::Probe { txn, shard } => {
                self.transactions.probed(&mut self.core, txn, shard);
            }
            Notice::Blocked { .. } => match self.core.mail.pending.get_mut(token) {
                Some(Pending::Access { job, blocked, .. } | Pending::Vote { job, blocked, .. }) => {
                    *blocked = true;
                    let job = *job;
                    self.transactions.now_blocked(&mut self.core, job);
                }
                Some(Pending::Lease { lease }) => {
                    let lease = *lease;
                    self.transactions.lease_blocked(&mut self.core, lease);
                }
                Some(Pending::Wait { job }) => {
                    let job = *job;
                    let effect = self.blocked.arrived(&mut self.core, job);
                    self.blocked_goes_on(effect);
                }
                // Nothing of these gives way while it waits.
                Some(
                    Pending::Single { .. }
                    | Pending::Batch { .. }
                    | Pending::Work { .. }
                    | Pending::Units { .. }
                    | Pending::Execution { .. }
                    | Pending::Loose { .. }
                    | Pending::Snapshot { .. }
                    | Pending::Interval { .. }
                    | Pending::Version { .. }
                    | Pending::Attempt { .. }
                    | Pending::Turn { .. }
                    | Pending::Near { .. }
                    | Pending::Waits { .. }
                    | Pending::Gather { .. }
                    | Pending::Cut { .. }
                    | Pending::Fate { .. }
                    | Pending::Coordination { .. }
                    | Pending::Ahead { .. }
                    | Pending::Spread
                    | Pending::Ending { .. }
                    | Pending::Joint { .. }
                    | Pending::SplitDone
                    | Pending::Remembered,
                )
                | None => {}
            },
            Notice::Orphan { txn, participants } => {
                // Its own transactions end without help.
                if !self.transactions.knows(txn) {
                    self.orphans.begin(&mut self.core, txn, participants);
                }
            }
            Notice::Session { shard, session, notice } => {
                self.coordination.session_told(&mut self.core, shard, session, notice);
            }
            Notice::Ending { session, ended, finished, shards } => {
                let end = (session, ended, finished);
                self.coordination.session_ends(&mut self.core, end, shards);
            }
            Notice::Undecided { session, id, shards } => {
                self.coordination.settle_multi(&mut self.core, (session, id), shards);
            }
            Notice::Ready { key } => {
                if let Some(Pending::Wait { job }) = self.core.mail.pending.get(token) {
                    let job = *job;
                    let effect = self.blocked.ready(&mut self.core, job, &key);
                    self.blocked_goes_on(effect);
                }
            }
        }
    }
}
