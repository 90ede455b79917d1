//! Answers and notices of shards, and the parts that they concern.

use super::leads::take_back;
use super::unread::Unread;
use crate::gateway::Gateway;
use crate::gateway::api::CoordinationClient;
use crate::gateway::errors::{
    answer_unread, guard_failed, indefinite, request_unread, single_reply, unexpected,
};
use crate::gateway::mail::{Mail, Pending, SentCommands, SessionRequest};
use crate::gateway::parts::Parts;
use crate::gateway::pipelines::pipeline::UnitGroup;
use crate::gateway::target::Target;
use crate::gateway::txn::multi;
use crate::gateway::txn::transaction::repeated::answer_again;
use crate::gateway::txn::work::Finish;
use crate::ids::ShardId;
use crate::message::{Answer, Notice, Refusal, Request, Response};
use crate::now::Now;
use crate::pipeline::bundles::Disturbance;

impl Gateway {
    /// Handles an answer or a notice of a shard.
    pub fn response(&mut self, now: Now, response: Response) {
        self.parts.core.now = now;
        let Some(token) = self.parts.core.mail.answered(response.token) else { return };
        match response.answer {
            Answer::Notice(notice) => self.parts.notice(token, notice),
            // The leader is another machine now.
            Answer::NotTaken(body) => {
                take_back(&mut self.parts.core, &self.parts.turns, token, *body)
            }
            Answer::Unread => self.parts.not_read(token, Unread::Answer),
            Answer::Refused(Refusal::Unread) => self.parts.not_read(token, Unread::Request),
            answer => {
                if let Some(pending) = self.parts.core.mail.take(token) {
                    self.parts.answer(token, pending, answer);
                }
            }
        }
        self.settle();
    }

    /// Handles a request that could not be delivered: the leader is unknown or has changed. The gateway is
    /// informed of that next.
    pub fn not_sent(&mut self, request: Request) {
        let token = Mail::token_of(request.token);
        take_back(&mut self.parts.core, &self.parts.turns, token, request.body);
    }

    /// Takes the requests of a bundle back: it cannot be sent now, for this reason.
    pub fn not_bundled(
        &mut self,
        now: Now,
        requests: Vec<(ShardId, Request)>,
        reason: Disturbance,
    ) {
        self.parts.core.now = now;
        let core = &mut self.parts.core;
        self.parts.sessions.unbundle(core, requests, reason);
        self.settle();
    }
}

impl Parts {
    /// Hands the answer to a request to the part that has sent it.
    #[inline]
    pub(in crate::gateway) fn answer(&mut self, token: u64, pending: Pending, answer: Answer) {
        match pending {
            Pending::Session(SessionRequest { commands, wrote, .. }) => match commands {
                SentCommands::Single(target) => {
                    self.sessions.answered(target, wrote);
                    self.finish(target, single_reply(answer));
                }
                SentCommands::Work(target, finish) => {
                    self.sessions.answered(target, wrote);
                    self.work_answered(target, finish, wrote.is_some(), answer);
                }
                SentCommands::Scripts(programs) => {
                    if let Some(first) = programs.first() {
                        self.sessions.answered(first.target, wrote);
                    }
                    self.scripts_ran(programs, answer);
                }
                SentCommands::Batch(parts) => {
                    self.sessions.batch_answered(&mut self.core, parts, wrote, answer);
                }
                SentCommands::Part(parts) => {
                    self.sessions.part_answered(&mut self.core, parts, wrote, answer);
                }
            },
            Pending::Units { session, stream, first, count, shard } => {
                let error = match answer {
                    Answer::Unread => answer_unread(),
                    Answer::Refused(Refusal::Unread) => request_unread(),
                    _ => indefinite(),
                };
                let group = UnitGroup { stream, first, shard, count };
                let (core, error) = (&mut self.core, error.into());
                self.sessions.units_settled(core, session, group, answer, &error);
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
                let (core, transactions) = (&mut self.core, &mut self.transactions);
                self.snapshots.answered(core, transactions, (job, part), answer);
            }
            Pending::Interval { job, query, part } => {
                let read = (job, query, part);
                self.transactions.interval_answered(&mut self.core, read, answer);
            }
            Pending::Version { target, key } => {
                multi::watched(&mut self.core, &mut self.sessions, target, key, answer);
            }
            Pending::Attempt { job } => {
                let effect = self.blocked.answered(&mut self.core, job, answer);
                self.wait_goes_on(effect);
            }
            Pending::Turn { job } => {
                let ended = self.turns.answered(&mut self.core, job, answer);
                self.wait_goes_on(ended);
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
                self.wait_goes_on(effect);
            }
            Pending::Follow { shard } => {
                self.tracking.followed(&mut self.core, &mut self.sessions, shard, &answer);
            }
            Pending::Remembered => {}
        }
    }

    /// Takes the answer to the operations of a program on one shard.
    fn work_answered(&mut self, target: Target, finish: Box<Finish>, wrote: bool, answer: Answer) {
        match answer {
            Answer::Replies(replies) => {
                self.core.carried_out(target, Some(finish), wrote, replies.into_iter());
            }
            Answer::Repeated(replies) => {
                let (core, replies) = (&mut self.core, replies.into_vec());
                self.transactions.repeated_there(core, target, *finish, replies);
            }
            Answer::Snapshot { replies, .. } => {
                self.complete_with(target, &finish, finish.items(replies.into_iter()));
            }
            Answer::TookEffect { ts, replies, whole: true } => {
                answer_again(&mut self.core, target, *finish, ts, replies);
            }
            Answer::GuardFailed(failure) => {
                self.core.mail.stats.guard_failures += 1;
                self.finish(target, guard_failed(failure));
            }
            other => self.finish(target, unexpected(&other)),
        }
    }

    /// Dispatches the commands that sessions have gathered.
    pub(in crate::gateway) fn dispatch_all(&mut self) {
        while let Some(id) = self.sessions.next_dispatching() {
            if let Some((target, course)) = self.sessions.dispatch(&mut self.core, id) {
                self.take(target, course);
            }
        }
        while let Some(id) = self.sessions.next_with_scripts() {
            self.run_scripts(id);
        }
    }

    /// Hands a notice of a shard to the part that it concerns.
    fn notice(&mut self, token: u64, notice: Notice) {
        match notice {
            Notice::Wound { txn, by, .. } => self.transactions.wound(&mut self.core, txn, by),
            Notice::Wanted { txn } => {
                self.transactions.wanted(&mut self.core, &self.sessions, txn);
            }
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
                    self.wait_goes_on(effect);
                }
                // None of these gives way while it waits.
                Some(
                    Pending::Session(_)
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
                    | Pending::Follow { .. }
                    | Pending::Remembered,
                )
                | None => {}
            },
            Notice::Orphan { txn, participants } => {
                // Transactions of this gateway end without help.
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
            Notice::Changed { shard, feed, number, keys } => {
                let (core, sessions) = (&mut self.core, &mut self.sessions);
                self.tracking.keys_changed(core, sessions, (shard, feed, number), &keys);
            }
            Notice::Happened(events) => self.tracking.keyspace.happened(events),
            Notice::Ready { key } => {
                if let Some(Pending::Wait { job }) = self.core.mail.pending.get(token) {
                    let job = *job;
                    let effect = self.blocked.ready(&mut self.core, job, &key);
                    self.wait_goes_on(effect);
                }
            }
        }
    }
}
