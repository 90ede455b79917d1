//! Leases: read locks that several interactive transactions of a gateway share.
//!
//! The first reader of a key locks it for itself. When a second transaction reads the key in the
//! meantime, the gateway takes a lock on its own account, a *lease*, that later readers join
//! without a message; it ends with its last member. To the shard a lease is one transaction. It
//! waits with the age of its first member, and while it waits only younger ones join it: so it
//! waits as if the oldest of them did. Whoever waits for a lease that is held is reported to the
//! gateway, whatever the ages: nobody joins the lease any more, and members that are younger than
//! the one who waits give way as if they held the lock alone. A member that writes the key locks
//! it for itself first and leaves.

use super::{Cause, Txn};
use crate::gateway::mail::Pending;
use crate::gateway::{Gateway, Job};
use crate::message::{Age, Answer, Body, KeyedOp, Refusal, ShardId, TxnId};
use adt::{Blob, Op, Reply, Timestamp};
use smallvec::SmallVec;

/// A shared read lock.
pub(in crate::gateway) struct Lease {
    id: TxnId,
    key: Blob,
    op: Op,
    shard: ShardId,
    reply: Option<Reply>,
    clock: Timestamp,
    members: Vec<u64>,
    /// Accesses that wait for the lock: job, call, index.
    waiting: Vec<(u64, u64, u32)>,
    recalled: bool,
    blocked: bool,
    token: u64,
    /// The latest commit of a member.
    after: Timestamp,
}

/// Who reads a key under locks of this gateway.
#[derive(Default)]
pub(in crate::gateway) struct Readers {
    alone: u32,
    leases: SmallVec<[u64; 2]>,
}

impl Lease {
    /// Where it locks something.
    pub fn shard(&self) -> ShardId {
        self.shard
    }
}

impl Gateway {
    /// Nobody joins a lease any more.
    pub(in crate::gateway) fn recall(&mut self, number: u64) {
        if let Some(lease) = self.leases.get_mut(number) {
            lease.recalled = true;
        }
    }

    /// A read of an interactive transaction, shared with others where that is possible.
    pub(in crate::gateway) fn read_combined(
        &mut self,
        job: u64,
        call: u64,
        index: u32,
        (key, op): KeyedOp,
    ) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if op.is_write() || txn.work.writes(&key) {
            return self.access_alone(job, call, index, (key, op));
        }
        let age = txn.id.age;
        let readers = self.readers.entry(key.clone()).or_default();
        let leases = &self.leases;
        let joinable = readers.leases.iter().copied().find(|&lease| {
            leases.get(lease).is_some_and(|l| {
                !l.recalled && l.op == op && (l.reply.is_some() || age >= l.id.age)
            })
        });
        if let Some(lease) = joinable {
            return self.join(job, call, index, lease);
        }
        if readers.alone == 0 && readers.leases.is_empty() {
            readers.alone += 1;
            txn.reading.push(key.clone());
            return self.access_alone(job, call, index, (key, op));
        }
        self.new_lease(job, call, index, (key, op));
    }

    fn join(&mut self, job: u64, call: u64, index: u32, number: u64) {
        let Some(lease) = self.leases.get_mut(number) else { return };
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        if !lease.members.contains(&job) {
            lease.members.push(job);
            txn.leases.push((number, false));
        }
        self.core.mail.stats.combined += 1;
        match lease.reply.clone() {
            Some(reply) => {
                let clock = lease.clock;
                self.access_done(job, call, index, reply, clock);
            }
            None => {
                lease.waiting.push((job, call, index));
                if lease.blocked {
                    self.now_blocked(job);
                }
            }
        }
    }

    fn new_lease(&mut self, job: u64, call: u64, index: u32, (key, op): KeyedOp) {
        let Some(Job::Txn(txn)) = self.jobs.get(job) else { return };
        self.next_lease = (self.next_lease + 1) % TxnId::LEASE;
        let id = TxnId { age: txn.id.age, attempt: TxnId::LEASE | self.next_lease };
        let shard = self.core.mail.shard_of(&key);
        let number = self.leases.insert(Lease {
            id,
            key: key.clone(),
            op: op.clone(),
            shard,
            reply: None,
            clock: Timestamp::ZERO,
            members: vec![job],
            waiting: vec![(job, call, index)],
            recalled: false,
            blocked: false,
            token: 0,
            after: Timestamp::ZERO,
        });
        self.lease_ids.insert(id, number);
        self.readers.entry(key.clone()).or_default().leases.push(number);
        let body = Body::Lock { txn: id, key, op, own: Vec::new(), observed: true };
        let token = self.core.mail.ask(shard, Pending::Lease { lease: number }, body);
        if let Some(lease) = self.leases.get_mut(number) {
            lease.token = token;
        }
        if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
            txn.leases.push((number, false));
        }
    }

    /// The shard has answered a lease's request.
    pub(in crate::gateway) fn leased(&mut self, number: u64, answer: Answer) {
        let Some(lease) = self.leases.get_mut(number) else { return };
        let was_blocked = std::mem::take(&mut lease.blocked);
        lease.token = 0;
        let waiting = std::mem::take(&mut lease.waiting);
        let granted = match answer {
            Answer::Locked { reply, clock } => {
                lease.reply = Some(reply.clone());
                lease.clock = clock;
                Ok((reply, clock))
            }
            Answer::Refused(refusal) => {
                lease.recalled = true;
                Err(Cause::Refused(refusal))
            }
            // No lock is answered so: it is not held.
            _ => {
                lease.recalled = true;
                Err(Cause::Refused(Refusal::LocksLost))
            }
        };
        self.tell_waiting(waiting, was_blocked, granted);
    }

    /// A lease cannot be asked for.
    pub(in crate::gateway) fn lease_refused(&mut self, number: u64, cause: Cause) {
        let Some(lease) = self.leases.get_mut(number) else { return };
        let was_blocked = std::mem::take(&mut lease.blocked);
        (lease.token, lease.recalled) = (0, true);
        let waiting = std::mem::take(&mut lease.waiting);
        self.tell_waiting(waiting, was_blocked, Err(cause));
    }

    /// Tells those who wait for a lease what came of it.
    fn tell_waiting(
        &mut self,
        waiting: Vec<(u64, u64, u32)>,
        was_blocked: bool,
        granted: Result<(Reply, Timestamp), Cause>,
    ) {
        for (job, call, index) in waiting {
            if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
                txn.blocked -= u32::from(was_blocked);
                match &granted {
                    Ok((reply, clock)) => self.access_done(job, call, index, reply.clone(), *clock),
                    Err(cause) => self.abort(job, *cause),
                }
            }
        }
    }

    /// A lease's request waits at the shard, and so do those who wait for the lease.
    pub(in crate::gateway) fn lease_blocked(&mut self, number: u64) {
        let Some(lease) = self.leases.get_mut(number) else { return };
        lease.blocked = true;
        for (job, _, _) in lease.waiting.clone() {
            self.now_blocked(job);
        }
    }

    /// Somebody waits for a lease.
    pub(in crate::gateway) fn wound_lease(&mut self, id: TxnId, by: Age) {
        let Some(lease) = self.lease_ids.get(&id).and_then(|&n| self.leases.get_mut(n)) else {
            return;
        };
        lease.recalled = true;
        for job in lease.members.clone() {
            let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { continue };
            if txn.id.age <= by {
                continue;
            }
            txn.wounded = true;
            if txn.blocked > 0 {
                self.abort(job, Cause::Wounded);
            }
        }
    }

    /// The transactions that hold what `id` does: that one, or the members of a lease.
    pub(in crate::gateway) fn holders_of(&self, id: TxnId) -> Vec<u64> {
        let lease = self.lease_ids.get(&id).and_then(|&number| self.leases.get(number));
        let alone = self.txns.get(&id).copied();
        alone.into_iter().chain(lease.into_iter().flat_map(|l| l.members.clone())).collect()
    }

    /// The leases that a transaction is a member of.
    pub(in crate::gateway) fn leases_of<'a>(&'a self, txn: &'a Txn) -> impl Iterator<Item = TxnId> {
        txn.leases.iter().filter_map(|(number, _)| self.leases.get(*number)).map(|lease| lease.id)
    }

    /// Before a transaction writes keys whose locks it shares, it locks them for itself.
    pub(in crate::gateway) fn upgrade_for(&mut self, job: u64, writes: &[KeyedOp]) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let mut shared = Vec::new();
        for (number, upgrading) in &mut txn.leases {
            let Some(lease) = self.leases.get(*number) else { continue };
            if *upgrading || !writes.iter().any(|(key, op)| *key == lease.key && op.is_write()) {
                continue;
            }
            *upgrading = true;
            let op = (lease.key.clone(), lease.op.clone());
            shared.push((*number, op, lease.reply.clone()));
        }
        if !shared.is_empty() {
            self.call_upgrade(job, shared);
        }
    }

    /// The transaction has a lock of its own now, with this reply. Tells whether all is as it was.
    pub(in crate::gateway) fn upgrade(
        &mut self,
        job: u64,
        number: u64,
        old: Option<Reply>,
        new: &Reply,
    ) -> bool {
        let Some(lease) = self.leases.get_mut(number) else { return true };
        if old.is_some_and(|old| old != *new) {
            return false;
        }
        let mine: Vec<_> = lease.waiting.iter().copied().filter(|w| w.0 == job).collect();
        let was_blocked = lease.blocked;
        self.leave_lease(job, number, Timestamp::ZERO);
        for (job, call, index) in mine {
            if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
                txn.blocked -= u32::from(was_blocked);
            }
            self.access_done(job, call, index, new.clone(), Timestamp::ZERO);
        }
        true
    }

    /// A transaction gives up its part in a lease.
    fn leave_lease(&mut self, job: u64, number: u64, commit: Timestamp) {
        if let Some(Job::Txn(txn)) = self.jobs.get_mut(job) {
            txn.leases.retain(|(lease, _)| *lease != number);
        }
        let Some(lease) = self.leases.get_mut(number) else { return };
        crate::gateway::mail::raise(&mut lease.after, commit);
        lease.members.retain(|member| *member != job);
        lease.waiting.retain(|waiting| waiting.0 != job);
        if !lease.members.is_empty() {
            return;
        }
        let Some(lease) = self.leases.remove(number) else { return };
        self.lease_ids.remove(&lease.id);
        self.core.mail.forget(lease.token);
        self.core.mail.tell(lease.shard, Body::Release { txn: lease.id, after: lease.after });
        if let Some(readers) = self.readers.get_mut(&lease.key) {
            readers.leases.retain(|l| *l != number);
            if readers.alone == 0 && readers.leases.is_empty() {
                self.readers.swap_remove(&lease.key);
            }
        }
    }

    /// A transaction ends: at `commit`, or without effect (at zero).
    pub(in crate::gateway) fn leave_leases(&mut self, job: u64, commit: Timestamp) {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return };
        let reading = std::mem::take(&mut txn.reading);
        let leases = std::mem::take(&mut txn.leases);
        for (number, _) in leases {
            self.leave_lease(job, number, commit);
        }
        for key in reading {
            if let Some(readers) = self.readers.get_mut(&key) {
                readers.alone -= 1;
                if readers.alone == 0 && readers.leases.is_empty() {
                    self.readers.swap_remove(&key);
                }
            }
        }
    }
}
