//! Read leases: read locks that several interactive transactions of a gateway share.
//!
//! The first reader of a key locks it for itself. When a second transaction reads the key in the
//! meantime, the gateway takes a lock on its own account, a *lease*, that later readers join
//! without a message; it ends with its last member. To the shard a lease is one transaction. It
//! waits with the age of its first member, and while it waits only younger ones join it: so it
//! waits as if the oldest of them did. When another transaction waits for a lease that is held, the
//! gateway hears of it, whatever the ages: no transaction joins the lease from then on, and members
//! that are younger than the waiter give way as if they held the lock alone. A member that writes the
//! key locks it for itself first and leaves.

use super::transaction::Txn;
use crate::gateway::core::Core;
use crate::gateway::errors::Cause;
use crate::gateway::mail::{Pending, raise};
use crate::gateway::slab::Slab;
use crate::ids::{KeyedOp, ShardId, TxnId};
use crate::message::{Answer, Body, Early, Refusal};
use adt::collections::Map;
use adt::{Blob, Op, Reply, Timestamp};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// One read of a transaction: a reply of one of its calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EarlyAccess {
    pub job: u64,
    pub call: u64,
    pub index: u32,
}

/// A shared read lock.
struct ReadLease {
    /// Name under which the shard knows the lease.
    id: TxnId,
    key: Blob,
    op: Op,
    shard: ShardId,
    /// Reply of the read, once the lock is held.
    reply: Option<Reply>,
    clock: Timestamp,
    /// Jobs of the transactions that share the lock.
    members: Vec<u64>,
    /// Accesses that wait for the lock.
    waiting: Vec<EarlyAccess>,
    /// Whether the lease takes no new members.
    recalled: bool,
    /// Whether the lease's request waits for other transactions at the shard.
    blocked: bool,
    token: u64,
    /// The latest commit of a member.
    after: Timestamp,
}

/// Locks of this gateway under which a key is read.
#[derive(Default)]
struct Readers {
    /// Number of transactions that have locked the key for themselves.
    alone: u32,
    leases: SmallVec<[u64; 2]>,
}

impl Readers {
    fn is_empty(&self) -> bool {
        self.alone == 0 && self.leases.is_empty()
    }
}

/// How a read of a transaction is carried out.
pub(super) enum SharedRead {
    /// Under a lock of the transaction's own, which the caller asks for.
    Alone,
    /// Under a lease that is held, with this reply and clock.
    Granted(Reply, Timestamp),
    /// Under a lease whose lock was asked for; the lease may wait for other transactions.
    Waits { blocked: bool },
}

/// Outcome of a lease's request, for the accesses that waited for it.
pub(super) struct LeaseOutcome {
    pub waiting: Vec<EarlyAccess>,
    /// Whether the lease, and with it these accesses, counted as waiting for other transactions.
    pub was_blocked: bool,
    /// Reply and clock of the lock; otherwise the reason why it is not held.
    pub granted: Result<(Reply, Timestamp), Cause>,
}

/// A lock of its own that a transaction takes for what it has shared: the lease, the read, and the
/// reply that it had, if the lease was held.
pub(super) type Upgrade = (u64, KeyedOp, Option<Reply>);

/// Leases of a gateway.
#[derive(Default)]
pub(super) struct Leases {
    leases: Slab<ReadLease>,
    by_name: BTreeMap<TxnId, u64>,
    /// Attempt number for the name of the next lease.
    next: u32,
    readers: Map<Blob, Readers>,
}

impl Leases {
    /// Begins a read of an interactive transaction, shared with others where that is possible.
    pub fn read(
        &mut self,
        core: &mut Core,
        txn: &mut Txn,
        access: EarlyAccess,
        (key, op): &KeyedOp,
    ) -> SharedRead {
        if op.is_write() || txn.work.writes(key) {
            return SharedRead::Alone;
        }
        let age = txn.id.age;
        let readers = self.readers.entry(key.clone()).or_default();
        let joinable = readers.leases.iter().copied().find(|&lease| {
            self.leases.get(lease).is_some_and(|l| {
                !l.recalled && l.op == *op && (l.reply.is_some() || age >= l.id.age)
            })
        });
        if let Some(number) = joinable {
            return self.join(core, txn, access, number);
        }
        if readers.is_empty() {
            readers.alone += 1;
            txn.reading.push(key.clone());
            return SharedRead::Alone;
        }
        self.ask(core, txn, access, key, op);
        SharedRead::Waits { blocked: false }
    }

    fn join(
        &mut self,
        core: &mut Core,
        txn: &mut Txn,
        access: EarlyAccess,
        number: u64,
    ) -> SharedRead {
        let Some(lease) = self.leases.get_mut(number) else { return SharedRead::Alone };
        if !lease.members.contains(&access.job) {
            lease.members.push(access.job);
            txn.leases.push((number, false));
        }
        core.mail.stats.combined += 1;
        match lease.reply.clone() {
            Some(reply) => SharedRead::Granted(reply, lease.clock),
            None => {
                lease.waiting.push(access);
                SharedRead::Waits { blocked: lease.blocked }
            }
        }
    }

    /// Asks for the lock of a new lease.
    fn ask(&mut self, core: &mut Core, txn: &mut Txn, access: EarlyAccess, key: &Blob, op: &Op) {
        self.next = (self.next + 1) % TxnId::LEASE;
        let id = TxnId { age: txn.id.age, attempt: TxnId::LEASE | self.next };
        let shard = core.mail.shard_of(key);
        let number = self.leases.insert(ReadLease {
            id,
            key: key.clone(),
            op: op.clone(),
            shard,
            reply: None,
            clock: Timestamp::ZERO,
            members: vec![access.job],
            waiting: vec![access],
            recalled: false,
            blocked: false,
            token: 0,
            after: Timestamp::ZERO,
        });
        self.by_name.insert(id, number);
        self.readers.entry(key.clone()).or_default().leases.push(number);
        let (key, op) = (key.clone(), op.clone());
        let body = Body::Lock { txn: id, key, op, own: Vec::new(), early: Early::Observed };
        let token = core.mail.ask(shard, Pending::Lease { lease: number }, body);
        if let Some(lease) = self.leases.get_mut(number) {
            lease.token = token;
        }
        txn.leases.push((number, false));
    }

    /// Takes the shard's answer to a lease's request.
    pub fn answered(&mut self, number: u64, answer: Answer) -> LeaseOutcome {
        let granted = match answer {
            Answer::Locked { reply, clock, rests_at: _ } => Ok((reply, clock)),
            Answer::Refused(refusal) => Err(Cause::Refused(refusal)),
            // No lock is answered so: it is not held.
            _ => Err(Cause::Refused(Refusal::LocksLost)),
        };
        self.settle(number, granted)
    }

    /// Gives up a lease whose lock cannot be asked for.
    pub fn refused(&mut self, number: u64, cause: Cause) -> LeaseOutcome {
        self.settle(number, Err(cause))
    }

    fn settle(&mut self, number: u64, granted: Result<(Reply, Timestamp), Cause>) -> LeaseOutcome {
        let Some(lease) = self.leases.get_mut(number) else {
            return LeaseOutcome { waiting: Vec::new(), was_blocked: false, granted };
        };
        lease.token = 0;
        match &granted {
            Ok((reply, clock)) => (lease.reply, lease.clock) = (Some(reply.clone()), *clock),
            Err(_) => lease.recalled = true,
        }
        let was_blocked = std::mem::take(&mut lease.blocked);
        let waiting = std::mem::take(&mut lease.waiting);
        LeaseOutcome { waiting, was_blocked, granted }
    }

    /// Notes that a lease's request waits at the shard. Gives the jobs of the accesses that wait with it.
    pub fn blocked(&mut self, number: u64) -> SmallVec<[u64; 4]> {
        let Some(lease) = self.leases.get_mut(number) else { return SmallVec::new() };
        lease.blocked = true;
        lease.waiting.iter().map(|access| access.job).collect()
    }

    /// Lets no transaction join a lease any more.
    pub fn recall(&mut self, number: u64) {
        if let Some(lease) = self.leases.get_mut(number) {
            lease.recalled = true;
        }
    }

    /// Notes that a transaction waits for the lock of a lease: no other joins it any more. Gives the
    /// members; those that are younger than the waiter are to give way.
    pub fn wanted(&mut self, id: TxnId) -> Vec<u64> {
        let Some(&number) = self.by_name.get(&id) else { return Vec::new() };
        self.recall(number);
        self.members(id).to_vec()
    }

    /// The members of the lease with a name.
    pub fn members(&self, id: TxnId) -> &[u64] {
        let lease = self.by_name.get(&id).and_then(|&number| self.leases.get(number));
        lease.map_or(&[], |lease| &lease.members)
    }

    /// Names of the leases that a transaction is a member of.
    pub fn names<'a>(&'a self, txn: &'a Txn) -> impl Iterator<Item = TxnId> + 'a {
        self.of(txn).map(|lease| lease.id)
    }

    /// Shards at which a transaction shares locks.
    pub fn shards<'a>(&'a self, txn: &'a Txn) -> impl Iterator<Item = ShardId> + 'a {
        self.of(txn).map(|lease| lease.shard)
    }

    fn of<'a>(&'a self, txn: &'a Txn) -> impl Iterator<Item = &'a ReadLease> {
        txn.leases.iter().filter_map(|(number, _)| self.leases.get(*number))
    }

    /// Leases with a lock at a shard.
    pub fn at(&self, shard: ShardId) -> Vec<u64> {
        let there = self.leases.iter().filter(|(_, lease)| lease.shard == shard);
        there.map(|(number, _)| number).collect()
    }

    /// Locks that a transaction shares and needs for itself, because it is about to write their keys.
    /// [`Leases::upgraded`] follows when they are there.
    pub fn upgrades(&self, txn: &mut Txn, writes: &[KeyedOp]) -> Vec<Upgrade> {
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
        shared
    }

    /// Lets a transaction leave a lease, since it has a lock of its own with the reply `new`. Gives its
    /// accesses that waited for the lease; none if the transaction has read something else there.
    pub fn upgraded(
        &mut self,
        core: &mut Core,
        (job, txn): (u64, &mut Txn),
        number: u64,
        old: Option<Reply>,
        new: &Reply,
    ) -> Option<Vec<EarlyAccess>> {
        let Some(lease) = self.leases.get_mut(number) else { return Some(Vec::new()) };
        if old.is_some_and(|old| old != *new) {
            return None;
        }
        let mine = lease.waiting.iter().copied().filter(|access| access.job == job);
        let mine: Vec<EarlyAccess> = mine.collect();
        if lease.blocked {
            txn.blocked -= mine.len() as u32;
        }
        txn.leases.retain(|(lease, _)| *lease != number);
        self.leave(core, job, number, Timestamp::ZERO);
        Some(mine)
    }

    /// Lets a transaction leave all its leases, because it ends: at `commit`, or without effect (at zero).
    pub fn leave_all(&mut self, core: &mut Core, (job, txn): (u64, &mut Txn), commit: Timestamp) {
        for (number, _) in std::mem::take(&mut txn.leases) {
            self.leave(core, job, number, commit);
        }
        for key in std::mem::take(&mut txn.reading) {
            if let Some(readers) = self.readers.get_mut(&key) {
                readers.alone -= 1;
                self.forget_unread(&key);
            }
        }
    }

    fn leave(&mut self, core: &mut Core, job: u64, number: u64, commit: Timestamp) {
        let Some(lease) = self.leases.get_mut(number) else { return };
        raise(&mut lease.after, commit);
        lease.members.retain(|member| *member != job);
        lease.waiting.retain(|access| access.job != job);
        if !lease.members.is_empty() {
            return;
        }
        let Some(lease) = self.leases.remove(number) else { return };
        self.by_name.remove(&lease.id);
        core.mail.forget(lease.token);
        core.mail.tell(lease.shard, Body::Release { txn: lease.id, after: lease.after });
        if let Some(readers) = self.readers.get_mut(&lease.key) {
            readers.leases.retain(|l| *l != number);
            self.forget_unread(&lease.key);
        }
    }

    fn forget_unread(&mut self, key: &Blob) {
        if self.readers.get(key).is_some_and(Readers::is_empty) {
            self.readers.swap_remove(key);
        }
    }

    /// Whether no key is read under a lock that is known here.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.readers.is_empty() && self.by_name.is_empty()
    }
}
