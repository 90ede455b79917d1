//! How a transaction commits: votes, the decision, the replies.

use super::work::{Finish, Outcome, Step, missing};
use super::{Role, Stage, Txn};
use crate::entry::{Apply, Prepare};
use crate::gateway::clients::session::Mode;
use crate::gateway::errors::{Cause, forgotten, indefinite, unexpected, voided};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::{Gateway, Job};
use crate::ids::{RequestId, ShardId};
use crate::limits::DECIDE_US_MAX;
use crate::message::{Answer, Body, Fate, Guard, Refusal, Version};
use adt::{Blob, ErrorReply, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// What the participants do, by shard.
fn parts(txn: &Txn, shard_of: impl Fn(&[u8]) -> ShardId) -> BTreeMap<ShardId, Apply> {
    let mut parts: BTreeMap<ShardId, Apply> = BTreeMap::new();
    if let (Some(_), Some(request)) = (&txn.asks, &txn.request) {
        let home = home_key(txn, request);
        // Requests are looked for before guards, and this one holds for no record.
        let never = Guard { key: home.clone(), version: Version::Changed(Timestamp::ZERO) };
        let (guards, request) = (vec![never], Some(request.clone()));
        parts.insert(shard_of(home), Apply { guards, request, ..Apply::default() });
        return parts;
    }
    for op in &txn.work.ops {
        parts.entry(shard_of(&op.0)).or_default().ops.push(op.clone());
    }
    for guard in &txn.guards {
        parts.entry(shard_of(&guard.key)).or_default().guards.push(guard.clone());
    }
    if let Some(request) = &txn.request {
        let home = shard_of(home_key(txn, request));
        parts.entry(home).or_default().request = Some(request.clone());
    }
    parts
}

/// The key that decides where the outcome of a request is remembered. What an interactive transaction
/// touches may differ from try to try, and what a program writes may depend on what it reads, so it is
/// the name of the client, or the first of the keys that the words name: a retry finds it.
pub(in crate::gateway) fn home_key<'t>(txn: &'t Txn, request: &'t RequestId) -> &'t Blob {
    let interactive = matches!(txn.role, Role::Interactive { .. });
    txn.home.as_ref().filter(|_| !interactive).unwrap_or(&request.client)
}

/// Whether its reply is made of the replies of its operations and of nothing else: what it does is known
/// before anything is read.
pub(in crate::gateway) fn is_direct(txn: &Txn, outcomes: &[Outcome]) -> bool {
    match &txn.role {
        Role::Program { steps, .. } => steps.iter().all(Step::is_direct),
        Role::Interactive { blind, .. } => {
            *blind
                && txn.looked != Some(true)
                && !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Fixed(_)))
        }
    }
}

impl Gateway {
    /// Everything is known: the transaction commits, if the participants agree.
    pub(in crate::gateway) fn commit(&mut self, job: u64) {
        if !self.core.config.concurrency.takes_locks() {
            return self.commit_loosely(job);
        }
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.stage = Stage::Upgrading;
        let locks = !txn.touched.is_empty() || !txn.leases.is_empty();
        txn.looked.get_or_insert(locks);
        let asks = txn.asks.is_some();
        if txn.calls.len() > 0 || !asks && self.checks_first(job) {
            return;
        }
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let mail = &mut self.core.mail;
        let mut parts = parts(txn, |key| mail.shard_of(key));
        if mail.is_clustered() {
            // A lock that is only held in a leader's memory is worth something only if that leader
            // still leads: it votes as well.
            let shared = self.leases.shards(txn);
            for shard in txn.touched.iter().map(|t| t.shard).chain(shared) {
                parts.entry(shard).or_default();
            }
            txn.asked_us = self.core.now.mono_us;
        }
        if parts.is_empty() {
            let commit = txn.clock.next();
            return self.committed(job, commit);
        }
        txn.stage = Stage::Preparing;
        if !asks {
            txn.whole_there = parts.len() == 1 && is_direct(txn, &txn.work.outcomes);
        }
        txn.left = parts.len();
        let participants: SmallVec<[ShardId; 4]> = parts.keys().copied().collect();
        txn.homes = txn.work.ops.iter().map(|(key, _)| mail.shard_of(key)).collect();
        for (shard, apply) in parts {
            let prepare = Prepare { txn: txn.id, participants: participants.clone(), apply };
            let body = Body::Prepare { prepare, floor: txn.clock };
            txn.touch(shard).prepared = true;
            let token = mail.ask(shard, Pending::Vote { job, shard, blocked: false }, body);
            txn.tokens.push(token);
        }
    }

    /// The locks that the transaction needed for itself are there.
    pub(in crate::gateway) fn upgraded(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if txn.stage == Stage::Upgrading {
            self.commit(job);
        }
    }

    /// A participant has voted.
    pub(in crate::gateway) fn voted(
        &mut self,
        token: u64,
        (job, shard, blocked): (u64, ShardId, bool),
        answer: Answer,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.settled(token, blocked);
        match answer {
            Answer::Prepared { bound }
            | Answer::Fate(Fate::Prepared { bound } | Fate::Committed(bound)) => {
                crate::gateway::mail::raise(&mut txn.bound, bound);
                txn.left -= 1;
                if txn.left == 0 {
                    self.all_voted(job);
                }
            }
            Answer::Fate(Fate::Void) => {
                txn.stage = Stage::Running;
                self.abort(job, Cause::Refused(Refusal::LocksLost));
            }
            Answer::Committed { replies, ts } => self.committed_there(job, shard, replies, ts),
            Answer::TookEffect { ts, replies, whole } => {
                self.repeats(job, ts, replies, whole);
            }
            Answer::Voided => self.end_without_effect(job, voided().into()),
            Answer::Forgotten => self.end_without_effect(job, forgotten().into()),
            Answer::GuardFailed => match txn.asks.take() {
                Some(error) => self.end_without_effect(job, (*error).into()),
                None => {
                    self.core.mail.stats.guard_failures += 1;
                    self.end_without_effect(job, Reply::NilArray);
                }
            },
            Answer::Refused(Refusal::UnderWay) => self.under_way(job),
            Answer::Refused(refusal) => {
                let cancelled = std::mem::take(&mut txn.cancelling);
                txn.stage = Stage::Running;
                let cause = if cancelled { Cause::Wounded } else { Cause::Refused(refusal) };
                self.abort(job, cause);
            }
            // It is not known how it has voted, or this is no vote.
            Answer::Unknown
            | Answer::Reply(_)
            | Answer::Replies(_)
            | Answer::Repeated(_)
            | Answer::Fenced
            | Answer::Snapshot { .. }
            | Answer::Locked { .. }
            | Answer::Units(_)
            | Answer::Version(_)
            | Answer::Stats(_)
            | Answer::Coordinated(_)
            | Answer::CarriedOut
            | Answer::NotTaken(_)
            | Answer::Unread
            | Answer::Notice(_) => self.vote_lost(job, shard),
        }
    }

    /// The only participant has committed the transaction.
    fn committed_there(
        &mut self,
        job: u64,
        shard: ShardId,
        replies: SmallVec<[Reply; 1]>,
        ts: Timestamp,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.answers.push((shard, replies));
        self.committed(job, ts);
    }

    /// How a participant has voted is not known. Where others vote as well it can still be settled.
    fn vote_lost(&mut self, job: u64, shard: ShardId) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if txn.touched.iter().filter(|t| t.prepared).count() > 1 {
            self.ask_fate(job, shard);
        } else {
            self.end_without_effect(job, indefinite().into());
        }
    }

    /// It is not known whether a participant has prepared the transaction: it says so for good.
    fn ask_fate(&mut self, job: u64, shard: ShardId) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let pending = Pending::Vote { job, shard, blocked: false };
        let token = self.core.mail.ask(shard, pending, Body::Inquire { txn: txn.id });
        txn.tokens.push(token);
    }

    fn all_voted(&mut self, job: u64) {
        let late_us = self.core.now.mono_us.saturating_sub(DECIDE_US_MAX);
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if !self.core.mail.is_clustered() || txn.asked_us >= late_us {
            return self.decide(job);
        }
        // A vote that was on its way for so long may have been declared void in the meantime, and
        // that be forgotten again.
        let participants: SmallVec<[ShardId; 4]> =
            txn.touched.iter().filter(|t| t.prepared).map(|t| t.shard).collect();
        (txn.left, txn.bound) = (participants.len(), Timestamp::ZERO);
        txn.asked_us = self.core.now.mono_us;
        for shard in participants {
            self.ask_fate(job, shard);
        }
    }

    /// All have voted: from now on the transaction is committed.
    fn decide(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let commit = txn.bound.max(txn.clock.next());
        txn.bound = commit;
        txn.stage = Stage::Deciding;
        // What it has read is let go of now: a participant may have to wait for others before it
        // carries the transaction out, and these may wait for the locks.
        self.leave_leases(job, commit);
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        for touched in std::mem::take(&mut txn.touched) {
            let id = txn.id;
            if touched.prepared {
                let shard = touched.shard;
                let body = Body::Decide { txn: id, commit: Some(commit) };
                self.core.mail.ask(shard, Pending::Execution { job, shard }, body);
                txn.left += 1;
            } else {
                self.core.mail.tell(touched.shard, Body::Release { txn: id, after: commit });
            }
        }
    }

    /// A participant has carried out its part.
    pub(in crate::gateway) fn executed(&mut self, job: u64, shard: ShardId, answer: Answer) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        match answer {
            Answer::Replies(replies) => txn.answers.push((shard, replies)),
            _ => {
                txn.replies_lost = true;
            }
        }
        txn.left -= 1;
        if txn.left == 0 {
            let commit = txn.bound;
            self.committed(job, commit);
        }
    }

    /// The transaction is over, at `commit`: locks are let go and the reply is made.
    fn committed(&mut self, job: u64, commit: Timestamp) {
        self.leave_leases(job, commit);
        let Some(mut txn) = self.drop_txn(job) else { return };
        self.core.mail.stats.committed += 1;
        for touched in txn.touched.drain(..) {
            if !touched.prepared {
                self.core.mail.tell(touched.shard, Body::Release { txn: txn.id, after: commit });
            }
        }
        let mut answers: BTreeMap<ShardId, _> =
            txn.answers.drain(..).map(|(shard, replies)| (shard, replies.into_iter())).collect();
        let next = |shard| answers.get_mut(shard).and_then(Iterator::next).unwrap_or_else(missing);
        let mut replies: Vec<Reply> = txn.homes.iter().map(next).collect();
        if txn.replies_lost {
            let text = "the transaction took effect, but the machine that had its replies was lost";
            let lost = || Reply::from(ErrorReply::new("REPEATED", text));
            replies = txn.work.ops.iter().map(|_| lost()).collect();
        }
        self.reply_to_txn(*txn, replies);
    }

    fn reply_to_txn(&mut self, mut txn: Txn, replies: Vec<Reply>) {
        let mut outcomes = std::mem::take(&mut txn.work.outcomes);
        if let (Some(reread), Role::Program { target, .. }) = (&txn.reread, &txn.role)
            && let Some(Outcome::Fixed(Reply::Array(replies))) = outcomes.pop()
        {
            return self.complete(*target, reread, replies.into_iter());
        }
        let request = txn.request.as_ref().filter(|_| !txn.replies_lost);
        let finish = Finish::new(outcomes, txn.form, request, txn.home.as_ref());
        let items = finish.items(replies.into_iter());
        if finish.keep.is_none() {
            self.remember(&txn, &items);
        }
        match txn.role {
            Role::Program { target, .. } => self.complete_with(target, &finish, items),
            Role::Interactive { commit, .. } => {
                self.leave_transaction(&txn, true);
                if let Some(target) = commit {
                    self.complete_with(target, &finish, items);
                }
            }
        }
    }

    /// The session is outside of a transaction again.
    pub(in crate::gateway) fn leave_transaction(&mut self, txn: &Txn, done: bool) {
        if let Some(session) = self.sessions.get_mut(txn.session.0) {
            session.mode = Mode::Single;
            session.retry = if done { None } else { Some(txn.id) };
            session.refresh();
        }
    }

    /// The transaction ends without effect, and not to be tried again.
    pub(in crate::gateway) fn end_without_effect(&mut self, job: u64, reply: Reply) {
        self.leave_leases(job, Timestamp::ZERO);
        let Some(mut txn) = self.drop_txn(job) else { return };
        txn.withdraw(&mut self.core.mail);
        let target = match txn.role {
            Role::Program { target, .. } => Some(target),
            Role::Interactive { commit, .. } => {
                self.leave_transaction(&txn, true);
                commit
            }
        };
        if let Some(target) = target {
            self.finish(target, reply);
        }
    }

    /// Without transactions every operation takes effect on its own.
    fn commit_loosely(&mut self, job: u64) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        txn.stage = Stage::Deciding;
        txn.left = txn.work.ops.len();
        let nothing = txn.left == 0;
        for (index, (key, op)) in txn.work.ops.iter().cloned().enumerate() {
            let shard = self.core.mail.shard_of(&key);
            let index = index as u32;
            txn.answers.push((shard, smallvec![Reply::Nil]));
            let body = if op.is_write() {
                Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
            } else {
                Body::Read { key, op, fenced: false }
            };
            self.core.mail.ask(shard, Pending::Loose { job, index }, body);
        }
        if nothing {
            self.committed_loosely(job);
        }
    }

    /// One operation without transactions is answered.
    pub(in crate::gateway) fn loose(&mut self, job: u64, index: u32, answer: Answer) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let reply = match answer {
            Answer::Reply(reply) => reply,
            Answer::Replies(mut replies) if replies.len() == 1 => replies.remove(0),
            other => unexpected(&other),
        };
        txn.answers[index as usize].1[0] = reply;
        txn.left -= 1;
        if txn.left == 0 {
            self.committed_loosely(job);
        }
    }

    fn committed_loosely(&mut self, job: u64) {
        let Some(mut txn) = self.drop_txn(job) else { return };
        self.core.mail.stats.committed += 1;
        let replies = txn.answers.drain(..).filter_map(|(_, r)| r.into_iter().next()).collect();
        self.reply_to_txn(*txn, replies);
    }

    /// A shard asks whether a transaction is decided, because another one hangs on it.
    pub(in crate::gateway) fn probed(&mut self, txn: crate::ids::TxnId, shard: ShardId) {
        let Some(&job) = self.txns.get(&txn) else { return };
        let Some(Job::Txn(open)) = self.jobs.get(job) else { return };
        if open.stage != Stage::Deciding {
            self.core.mail.tell(shard, Body::ProbeAck { txn });
        }
    }

    /// Where the reply of a transaction goes that is being committed.
    pub(in crate::gateway) fn commit_target(&mut self, job: u64, target: Target) {
        if let Some(Job::Txn(txn)) = self.jobs.get_mut(job)
            && let Role::Interactive { commit, .. } = &mut txn.role
        {
            *commit = Some(target);
        }
    }
}
