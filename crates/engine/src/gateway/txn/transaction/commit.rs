//! Commit of a transaction: votes, the decision, the replies.

use super::context::TxnContext;
use super::repeated::{has_answered, remember};
use super::{Role, Stage, TouchedShard, Txn};
use crate::entry::{Apply, Prepare};
use crate::gateway::api::Broadcast;
use crate::gateway::core::Core;
use crate::gateway::errors::{Cause, forgotten, guard_failed, indefinite, single_reply, voided};
use crate::gateway::mail::{Pending, raise};
use crate::gateway::txn::work::{Finish, Outcome, ProgramStep, missing};
use crate::gateway::types::known::changes_definitions;
use crate::ids::{RequestId, ShardId};
use crate::limits::DECIDE_US_MAX;
use crate::message::{Answer, Body, Condition, Fate, Guard, Refusal, Version};
use adt::{Blob, ErrorReply, Reply, Timestamp, Whole};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeMap;

/// Work of the participants, by shard.
fn parts(txn: &Txn, core: &Core) -> BTreeMap<ShardId, Apply> {
    let shard_of = |key: &[u8]| core.mail.shard_of(key);
    let mut parts: BTreeMap<ShardId, Apply> = BTreeMap::new();
    if let (Some(_), Some(request)) = (&txn.asks, &txn.request) {
        let home = home_key(txn, request, core);
        // Shards look for requests before they look at guards, and this guard holds for no record.
        let condition = Condition::Unchanged(Version::NONE);
        let never = Guard { key: home.clone(), condition };
        let (guards, request) = (vec![never], Some(request.clone()));
        parts.insert(shard_of(&home), Apply { guards, request, ..Apply::default() });
        return parts;
    }
    for op in &txn.work.ops {
        parts.entry(shard_of(&op.0)).or_default().ops.push(op.clone());
    }
    for guard in &txn.guards {
        parts.entry(shard_of(&guard.key)).or_default().guards.push(guard.clone());
    }
    if let Some(request) = &txn.request {
        let home = shard_of(&home_key(txn, request, core));
        parts.entry(home).or_default().request = Some(request.clone());
    }
    parts
}

/// Key whose shard remembers the outcome of a request. The keys that an interactive transaction
/// touches may differ from try to try, and the writes of a program may depend on its reads. So it is
/// the name of the client, or the first of the keys that the words name: a retry finds it.
pub(super) fn home_key(txn: &Txn, request: &RequestId, core: &Core) -> Blob {
    let home = txn.home.clone().filter(|_| !txn.is_interactive());
    home.unwrap_or_else(|| core.client_key(request))
}

/// Whether the reply of a transaction is made of the replies of its operations and of nothing else: its
/// operations are known before anything is read.
pub(super) fn is_direct(txn: &Txn, outcomes: &[Outcome]) -> bool {
    match &txn.role {
        Role::Program { steps, .. } => steps.iter().all(ProgramStep::is_direct),
        Role::Interactive { .. } => {
            !has_answered(txn)
                && !outcomes.iter().any(|outcome| matches!(outcome, Outcome::Fixed(_)))
        }
    }
}

/// Tasks for all gateways that follow from a transaction, since it took effect.
fn follow_up(txn: &mut Txn, cx: &mut TxnContext<'_>) {
    cx.core.afterwards.extend(txn.afterwards.drain(..));
    if txn.work.ops.iter().any(|(_, op)| op.whole() == Some(&Whole::ForgetScripts)) {
        cx.core.afterwards.push_back(Broadcast::ForgetScripts);
    }
    if txn.work.ops.iter().any(changes_definitions) {
        // Its own clients call again at once.
        cx.core.types.forget();
        cx.core.afterwards.push_back(Broadcast::ForgetTypes);
    }
}

impl Txn {
    /// Begins the commit, since all operations are known.
    pub(in crate::gateway::txn) fn commit(&mut self, cx: &mut TxnContext<'_>) {
        if self.stage == Stage::Over {
            return;
        }
        if !cx.core.config.concurrency.takes_locks() {
            return self.commit_loosely(cx);
        }
        self.stage = Stage::Upgrading;
        let again =
            |outcome: &Outcome| matches!(outcome, Outcome::Fixed(reply) if reply.asks_again());
        let outcomes = &self.work.outcomes;
        if self.work.ops.is_empty() && !outcomes.is_empty() && outcomes.iter().all(again) {
            // A shard would answer the same to every repetition.
            self.request = None;
        }
        let locks = !self.touched.is_empty() || !self.leases.is_empty();
        self.looked.get_or_insert(locks);
        let asks = self.asks.is_some();
        if self.calls.len() > 0 || !asks && self.checks_first(cx) {
            return;
        }
        let mut parts = parts(self, cx.core);
        let mail = &mut cx.core.mail;
        for shard in &self.rests_at {
            parts.entry(*shard).or_default();
        }
        if mail.is_clustered() {
            // A lock that is only held in a leader's memory is worth something only if that leader
            // still leads: it votes as well.
            let shared = cx.leases.shards(self);
            for shard in self.touched.iter().map(|t| t.shard).chain(shared) {
                parts.entry(shard).or_default();
            }
            self.asked_us = cx.core.now.mono_us;
        }
        if parts.is_empty() {
            let commit = self.clock.next();
            return self.committed(cx, commit);
        }
        self.stage = Stage::Preparing;
        if !asks {
            self.whole_there = parts.len() == 1 && is_direct(self, &self.work.outcomes);
        }
        self.left = parts.len();
        let participants: SmallVec<[ShardId; 4]> = parts.keys().copied().collect();
        self.homes = self.work.ops.iter().map(|(key, _)| mail.shard_of(key)).collect();
        for (shard, apply) in parts {
            let prepare = Prepare { txn: self.id, participants: participants.clone(), apply };
            let body = Body::Prepare { prepare, floor: self.clock };
            self.touch(shard).prepared = true;
            let pending = Pending::Vote { job: cx.job, shard, blocked: false };
            let token = mail.ask(shard, pending, body);
            self.tokens.push(token);
        }
    }

    /// Takes the vote of a participant.
    pub(in crate::gateway::txn) fn voted(
        &mut self,
        cx: &mut TxnContext<'_>,
        shard: ShardId,
        answer: Answer,
    ) {
        match answer {
            Answer::Prepared { bound }
            | Answer::Fate(Fate::Prepared { bound } | Fate::Committed(bound)) => {
                raise(&mut self.bound, bound);
                self.left -= 1;
                if self.left == 0 {
                    self.all_voted(cx);
                }
            }
            Answer::Fate(Fate::Void) => {
                self.stage = Stage::Running;
                self.abort(cx, Cause::Refused(Refusal::LocksLost));
            }
            // The only participant has committed the transaction.
            Answer::Committed { replies, ts } => {
                self.answers.push((shard, replies));
                self.committed(cx, ts);
            }
            Answer::TookEffect { ts, replies, whole } => self.repeats(cx, ts, replies, whole),
            Answer::Voided => self.end_without_effect(cx, voided().into()),
            Answer::Forgotten => self.end_without_effect(cx, forgotten().into()),
            Answer::GuardFailed(failure) => match self.asks.take() {
                Some(reply) => self.end_without_effect(cx, *reply),
                None => {
                    cx.core.mail.stats.guard_failures += 1;
                    let reply = guard_failed(failure);
                    // A single participant has looked for the request number before.
                    if self.touched.iter().filter(|t| t.prepared).count() > 1 {
                        self.end_undone(cx, reply);
                    } else {
                        self.end_without_effect(cx, reply);
                    }
                }
            },
            Answer::Refused(Refusal::UnderWay) => self.found_under_way(cx),
            Answer::Refused(refusal) => {
                let cancelled = std::mem::take(&mut self.cancelling);
                self.stage = Stage::Running;
                let cause = if cancelled { Cause::Wounded } else { Cause::Refused(refusal) };
                self.abort(cx, cause);
            }
            // The vote is not known, or the answer is no vote.
            Answer::Unknown
            | Answer::Reply(_)
            | Answer::Replies(_)
            | Answer::Ran(_)
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
            | Answer::Notice(_) => {
                // If others vote as well the participant can still be asked, and says so for good.
                if self.touched.iter().filter(|t| t.prepared).count() > 1 {
                    self.ask_fate(cx, shard);
                } else {
                    self.end_without_effect(cx, indefinite().into());
                }
            }
        }
    }

    /// Gives up the vote of a participant that has no leader: `certain` if it will never vote.
    pub(in crate::gateway::txn) fn vote_given_up(
        &mut self,
        cx: &mut TxnContext<'_>,
        certain: bool,
        cause: Cause,
    ) {
        if certain {
            // Without this vote no participant commits the transaction.
            self.stage = Stage::Running;
            return self.abort(cx, cause);
        }
        // Participants that have voted find out the outcome, as if this gateway was lost. Nothing must be
        // decided here any more.
        self.touched.clear();
        self.end_without_effect(cx, indefinite().into());
    }

    /// Asks a participant whether it has prepared the transaction. Its answer is final.
    fn ask_fate(&mut self, cx: &mut TxnContext<'_>, shard: ShardId) {
        let pending = Pending::Vote { job: cx.job, shard, blocked: false };
        let token = cx.core.mail.ask(shard, pending, Body::Inquire { txn: self.id });
        self.tokens.push(token);
    }

    fn all_voted(&mut self, cx: &mut TxnContext<'_>) {
        let now_us = cx.core.now.mono_us;
        if !cx.core.mail.is_clustered() || self.asked_us >= now_us.saturating_sub(DECIDE_US_MAX) {
            return self.decide(cx);
        }
        // A vote that was on its way for so long may have been declared void in the meantime, and
        // the shard may have forgotten that again.
        let participants: SmallVec<[ShardId; 4]> =
            self.touched.iter().filter(|t| t.prepared).map(|t| t.shard).collect();
        (self.left, self.bound) = (participants.len(), Timestamp::ZERO);
        self.asked_us = now_us;
        for shard in participants {
            self.ask_fate(cx, shard);
        }
    }

    /// Decides that the transaction is committed, since all participants have voted.
    fn decide(&mut self, cx: &mut TxnContext<'_>) {
        let commit = self.bound.max(self.clock.next());
        self.bound = commit;
        self.stage = Stage::Deciding;
        raise(&mut cx.core.decided, commit);
        // Its read locks end now: a participant may have to wait for others before it
        // carries the transaction out, and these may wait for the locks.
        self.leave_leases(cx, commit);
        for touched in std::mem::take(&mut self.touched) {
            let TouchedShard { shard, prepared } = touched;
            if prepared {
                let body = Body::Decide { txn: self.id, commit: Some(commit) };
                cx.core.mail.ask(shard, Pending::Execution { job: cx.job, shard }, body);
                self.left += 1;
            } else {
                cx.core.mail.tell(shard, Body::Release { txn: self.id, after: commit });
            }
        }
    }

    /// Takes the answer of a participant that has carried out its part.
    pub(in crate::gateway::txn) fn executed(
        &mut self,
        cx: &mut TxnContext<'_>,
        shard: ShardId,
        answer: Answer,
    ) {
        match answer {
            Answer::Replies(replies) => self.answers.push((shard, replies)),
            _ => self.replies_lost = true,
        }
        self.left -= 1;
        if self.left == 0 {
            let commit = self.bound;
            self.committed(cx, commit);
        }
    }

    /// Ends the transaction, which took effect at `commit`: releases its locks and makes the reply.
    fn committed(&mut self, cx: &mut TxnContext<'_>, commit: Timestamp) {
        self.leave_leases(cx, commit);
        self.end(cx);
        cx.core.mail.stats.committed += 1;
        follow_up(self, cx);
        for touched in self.touched.drain(..).filter(|touched| !touched.prepared) {
            cx.core.mail.tell(touched.shard, Body::Release { txn: self.id, after: commit });
        }
        let mut answers: BTreeMap<ShardId, _> =
            self.answers.drain(..).map(|(shard, replies)| (shard, replies.into_iter())).collect();
        let next = |shard| answers.get_mut(shard).and_then(Iterator::next).unwrap_or_else(missing);
        let mut replies: Vec<Reply> = self.homes.iter().map(next).collect();
        if self.replies_lost {
            let text = "the transaction took effect, but the machine that had its replies was lost";
            let lost = || Reply::from(ErrorReply::new("REPEATED", text));
            replies = self.work.ops.iter().map(|_| lost()).collect();
        }
        self.reply(cx, replies);
    }

    fn reply(&mut self, cx: &mut TxnContext<'_>, replies: Vec<Reply>) {
        let mut outcomes = std::mem::take(&mut self.work.outcomes);
        if let (Some(reread), Role::Program { target, .. }) = (self.reread.take(), &self.role)
            && let Some(Outcome::Fixed(Reply::Array(replies))) = outcomes.pop()
        {
            let items = reread.items(replies.into_iter());
            return cx.core.complete(*target, reread, items);
        }
        let request = self.request.as_ref().filter(|_| !self.replies_lost);
        let home = |request| self.home.clone().unwrap_or_else(|| cx.core.client_key(request));
        let finish = Finish::new(outcomes, self.form, request.map(|r| (r, home(r))));
        let items = finish.items(replies.into_iter());
        if finish.keep.is_none() {
            remember(self, cx.core, &items);
        }
        if let Some(target) = self.leave_session(cx) {
            cx.core.complete(target, finish, items);
        }
    }

    /// Lets every operation take effect on its own, in the condition without transactions.
    fn commit_loosely(&mut self, cx: &mut TxnContext<'_>) {
        self.stage = Stage::Deciding;
        self.left = self.work.ops.len();
        for (index, (key, op)) in (0..).zip(self.work.ops.iter().cloned()) {
            let shard = cx.core.mail.shard_of(&key);
            self.answers.push((shard, smallvec![Reply::Nil]));
            let body = if op.is_write() {
                Body::Apply(Apply { ops: smallvec![(key, op)], ..Apply::default() })
            } else {
                Body::Read { key, op, fenced: false }
            };
            cx.core.mail.ask(shard, Pending::Loose { job: cx.job, index }, body);
        }
        if self.left == 0 {
            self.committed_loosely(cx);
        }
    }

    /// Takes the answer to one operation without transactions.
    pub(in crate::gateway::txn) fn loosely_answered(
        &mut self,
        cx: &mut TxnContext<'_>,
        index: u32,
        answer: Answer,
    ) {
        self.answers[index as usize].1[0] = single_reply(answer);
        self.left -= 1;
        if self.left == 0 {
            self.committed_loosely(cx);
        }
    }

    fn committed_loosely(&mut self, cx: &mut TxnContext<'_>) {
        self.end(cx);
        cx.core.mail.stats.committed += 1;
        follow_up(self, cx);
        let replies = self.answers.drain(..).filter_map(|(_, r)| r.into_iter().next()).collect();
        self.reply(cx, replies);
    }
}
