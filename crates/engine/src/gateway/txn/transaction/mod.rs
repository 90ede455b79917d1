//! One transaction: its state, and how it gives up what it has at the shards.
//!
//! Its methods are in several files: its life from attempt to attempt ([`life`]), early accesses
//! ([`calls`]), the commit ([`commit`]), requests that are repeated ([`repeated`]), and the commands of
//! interactive ones ([`interactive`]). They work with a [`context::TxnContext`].

mod calls;
mod commit;
pub(super) mod context;
pub(in crate::gateway::txn) mod intents;
mod interactive;
pub(in crate::gateway) mod life;
pub(in crate::gateway) mod repeated;
pub(in crate::gateway) mod script;

use super::options::Open;
use super::work::{Finish, Form, ProgramStep, Work};
use crate::gateway::api::{Broadcast, SessionId};
use crate::gateway::mail::{Mail, Target};
use crate::gateway::slab::Slab;
use crate::ids::{KeyedOp, RequestId, ShardId, TxnId};
use crate::message::{Body, Guard};
use adt::{Blob, Blocking, Compound, Merge, NextFn, Reply, Timestamp};
use intents::EarlyReads;
use script::{Running, Sought};
use smallvec::SmallVec;

/// Microseconds before the first repetition of a refused program; doubles up to 64 times as much.
const BACKOFF_US: u64 = 100;

/// A transaction.
pub(super) struct Txn {
    pub(super) id: TxnId,
    pub(super) session: SessionId,
    pub(super) role: Role,
    pub(super) stage: Stage,
    /// Operations for the commit, and the replies that they give.
    pub(super) work: Work,
    pub(super) form: Form,
    pub(super) guards: Vec<Guard>,
    pub(super) request: Option<RequestId>,
    /// Of the keys that a program names the one with the smallest slot: its shard remembers the outcome.
    pub(super) home: Option<Blob>,
    /// Whether the reply is made of the replies of operations on that shard alone.
    pub(super) whole_there: bool,
    /// Number of times that the shard was asked for the replies of the request that this one repeats.
    asked_again: u32,
    /// Number of times that the same request was found to be under way.
    under_way: u32,
    /// Reply of a transaction that may not take effect any more, unless the request that it repeats has
    /// taken effect: that is asked.
    pub(super) asks: Option<Box<Reply>>,
    /// Whether the transaction had locks when it came to its commit: then it has read something, and may do
    /// something else when it is repeated.
    looked: Option<bool>,
    calls: Slab<Call>,
    pub(super) touched: SmallVec<[TouchedShard; 4]>,
    /// Shards whose replies rest on what is not durable there: they vote.
    rests_at: SmallVec<[ShardId; 1]>,
    /// Requests that are not answered yet.
    tokens: SmallVec<[u64; 8]>,
    /// The largest clock that a lock reported.
    clock: Timestamp,
    /// The largest bound that a participant voted.
    bound: Timestamp,
    /// Number of answers that are missing in this stage.
    left: usize,
    /// By operation, the shard that was asked to commit it.
    homes: Vec<ShardId>,
    /// Number of requests that wait for locks.
    pub(super) blocked: u32,
    /// Whether an older transaction waits for this one.
    wounded: bool,
    /// Whether participants were asked to cancel the transaction, if it is not too late.
    cancelling: bool,
    /// Number of attempts of a program that have failed for a reason that need not pass.
    refusals: u32,
    /// Replies of the participants.
    answers: SmallVec<[(ShardId, SmallVec<[Reply; 1]>); 4]>,
    /// Leases that the transaction is a member of, and whether it is about to leave each.
    pub(super) leases: SmallVec<[(u64, bool); 4]>,
    /// Keys that the transaction has locked for reading alone, where others may share such locks.
    pub(super) reading: SmallVec<[Blob; 4]>,
    /// Early reads, from which the gateway learns whether writes follow.
    early_reads: EarlyReads,
    /// Whether all its reads announce a write.
    pub(super) announces: bool,
    /// Bytes of its commands.
    bytes: usize,
    /// When its participants were asked to vote (monotonic microseconds).
    asked_us: u64,
    /// Whether a committed transaction has lost replies with a machine.
    replies_lost: bool,
    /// Recipe for the reply from those of its reads, for a snapshot that is read under locks.
    pub(super) reread: Option<Finish>,
    /// State of an interactive transaction.
    pub(super) open: Option<Box<Open>>,
    /// Script that is being run.
    script: Option<Box<Running>>,
    /// Tasks of its scripts for all gateways, for the time when the transaction has taken effect.
    afterwards: Vec<Broadcast>,
}

/// Origin of a transaction's commands.
pub(super) enum Role {
    /// All steps are known. `next` is the first that is not carried out.
    Program { target: Target, steps: Vec<ProgramStep>, next: usize, reads: bool },
    /// The client sends the commands one by one; `commit` is the place for the reply of its `COMMIT`.
    Interactive { blind: bool, readonly: bool, commit: Option<Target> },
}

/// Stage of an attempt of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Commands are carried out: what they read is locked, and their writes are deferred to the commit.
    Running,
    /// The commit has begun, and locks are asked for that it needs first: locks of the transaction's own for
    /// what it shares and writes, or locks under which deferred writes are checked.
    Upgrading,
    /// The participants are asked for their votes.
    Preparing,
    /// The transaction is committed, and the participants carry it out.
    Deciding,
    /// The attempt has given up everything, and the next one begins after a while.
    Resting,
    /// The transaction has ended: the table drops it.
    Over,
}

/// A shard that knows of the transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct TouchedShard {
    pub(super) shard: ShardId,
    /// Whether it was asked to prepare.
    prepared: bool,
}

/// Early accesses that are under way for one command.
struct Call {
    /// Place for the command's reply; programs keep their replies to the end.
    target: Option<Target>,
    replies: Vec<Reply>,
    left: usize,
    then: Then,
}

/// Continuation of a command whose call is answered.
enum Then {
    /// The replies, merged, are the command's reply.
    Merge(Option<Merge>),
    /// The command is deferred; only its locks were asked for.
    Queued,
    /// Writes, or further reads, depend on the replies.
    Next(NextFn),
    /// The attempt with this number of a blocking command is over, and may have found nothing.
    Attempt(Box<Blocking>, usize),
    /// The transaction has locks of its own for what it shared, and leaves the leases.
    Upgrade(Vec<(u64, Option<Reply>)>),
    /// The deferred writes are checked: if they are allowed, the transaction commits.
    Checked,
    /// A deferred write of a script is checked.
    Allowed,
    /// Record that is read before a script begins.
    Source(Sought),
}

impl Then {
    /// Reads of a command, and what follows them.
    fn behind(compound: Compound) -> (Vec<KeyedOp>, Self) {
        (compound.reads, Self::Next(compound.next))
    }
}

impl Txn {
    pub(super) fn new(id: TxnId, session: SessionId, role: Role) -> Self {
        Self {
            id,
            session,
            role,
            stage: Stage::Running,
            work: Work::default(),
            form: Form::Array,
            guards: Vec::new(),
            request: None,
            home: None,
            whole_there: false,
            asked_again: 0,
            under_way: 0,
            asks: None,
            looked: None,
            calls: Slab::default(),
            touched: SmallVec::new(),
            rests_at: SmallVec::new(),
            tokens: SmallVec::new(),
            clock: Timestamp::ZERO,
            bound: Timestamp::ZERO,
            left: 0,
            homes: Vec::new(),
            blocked: 0,
            wounded: false,
            cancelling: false,
            refusals: 0,
            answers: SmallVec::new(),
            leases: SmallVec::new(),
            reading: SmallVec::new(),
            early_reads: EarlyReads::default(),
            announces: false,
            bytes: 0,
            asked_us: 0,
            replies_lost: false,
            reread: None,
            open: None,
            script: None,
            afterwards: Vec::new(),
        }
    }

    /// Whether the client sends the commands one by one.
    pub(super) fn is_interactive(&self) -> bool {
        matches!(self.role, Role::Interactive { .. })
    }

    /// Notes that a shard is about to learn of the transaction.
    fn touch(&mut self, shard: ShardId) -> &mut TouchedShard {
        let at = match self.touched.iter().position(|t| t.shard == shard) {
            Some(at) => at,
            None => {
                self.touched.push(TouchedShard { shard, prepared: false });
                self.touched.len() - 1
            }
        };
        &mut self.touched[at]
    }

    /// Notes that a request is answered, which has waited for locks or not.
    pub(super) fn settled(&mut self, token: u64, blocked: bool) {
        if let Some(at) = self.tokens.iter().position(|t| *t == token) {
            self.tokens.swap_remove(at);
        }
        self.blocked -= u32::from(blocked);
    }

    /// Gives up everything at the shards: nothing of this attempt takes effect.
    fn withdraw(&mut self, mail: &mut Mail) {
        let txn = self.id;
        for touched in self.touched.drain(..) {
            let body = if touched.prepared {
                Body::Decide { txn, commit: None }
            } else {
                Body::Release { txn, after: Timestamp::ZERO }
            };
            mail.tell(touched.shard, body);
        }
        for token in self.tokens.drain(..) {
            mail.forget(token);
        }
        self.rests_at.clear();
        self.blocked = 0;
        self.wounded = false;
        self.cancelling = false;
        self.clock = Timestamp::ZERO;
        self.bound = Timestamp::ZERO;
        self.answers.clear();
        self.calls = Slab::default();
        self.script = None;
        self.afterwards.clear();
    }
}
