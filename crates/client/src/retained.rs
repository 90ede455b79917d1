//! Locks that stay with the process after they are left, and that its tasks hand on among themselves.
//!
//! The process has a *grant* of the lock, with a block of fencing tokens. Whoever of it wants the lock has a
//! *stay*, under a token of its own out of the block; stays follow each other in the order of their
//! arrival, of which the server hears nothing. A task renews the grant's lease, and another one hears,
//! over a connection that is quiet otherwise, when somebody else wants the lock. It goes back then as
//! soon as no task wants it, or so many have been let in since that it is the others' turn; also when
//! its tokens are used up, and when it is lost.
//!
//! An *adaptive* lock goes back each time as long as that is what pays ([`Keep`]). Then nobody listens
//! for others: there may always be some.

use crate::client::Client;
use crate::command::{Command, FromReply, ToArg};
use crate::error::{Error, Result, checked};
use crate::keep::Keep;
use crate::lock::{Lease, Lock, LockOptions, millis};
use crate::txn::Tx;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use wire::resp::ClientReply;

/// How a lock is kept.
#[derive(Clone, Debug)]
pub struct RetainedOptions {
    /// How long the lock stays held if this process is gone, and does not renew it any more.
    pub lease: Duration,
    /// How long a task waits for it; `None` is for ever.
    pub timeout: Option<Duration>,
    /// Who `LOCK.HOLDERS` says has it.
    pub owner: String,
    /// How many tasks are let in at most after somebody else wants the lock.
    pub cohort: u32,
    /// For how many stays it is asked for at a time.
    pub tokens: u32,
    /// It stays only while that pays: while the next one who wants it is mostly of this process.
    /// Otherwise it goes back as soon as no task wants it, like [`Lock`].
    pub adaptive: bool,
}

impl Default for RetainedOptions {
    fn default() -> Self {
        let LockOptions { lease, timeout, owner, .. } = LockOptions::default();
        let tokens = adt::lock::TOKENS_OF_KEPT;
        Self { lease, timeout, owner, cohort: 16, tokens, adaptive: false }
    }
}

/// A lock that stays with the process until somebody else wants it. Clones are the same lock; when the last
/// one is dropped, and nobody is in, it is given back.
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::{Command, RetainedOptions};
///
/// let kept = client.retained("lock:report", RetainedOptions::default());
/// let stay = kept.lock().await?;
/// stay.fenced::<()>(Command::new("SET").arg("report").arg("done")).await?;
/// drop(stay);
/// // Nothing is sent for this, unless somebody else has wanted it in the meantime.
/// let again = kept.lock().await?;
/// # drop(again);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Retained {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    name: Vec<u8>,
    options: RetainedOptions,
    /// Whoever has it is in. Tasks come to it in the order of their arrival.
    door: Arc<Mutex<Room>>,
    /// How many wait there.
    waiting: AtomicUsize,
}

/// What is behind the door.
#[derive(Default)]
struct Room {
    grant: Option<Grant>,
    /// Nobody has been in since somebody left it who was followed by nobody.
    idle: bool,
    keep: Keep,
    /// When the lock was given back.
    left: Option<Instant>,
}

impl Room {
    /// Gives the lock back, if the process has it: that is sent as it is dropped.
    fn give_back(&mut self) {
        if self.grant.take().is_some() {
            self.left = Some(Instant::now());
        }
        self.idle = false;
    }
}

/// What the process has of the lock. Dropped, it is given back.
struct Grant {
    lock: Lock,
    /// Somebody else wants it, or nobody listens for that.
    recalled: Arc<AtomicBool>,
    used: u32,
    /// How many were let in since somebody else wants it.
    let_in: u32,
}

impl Grant {
    fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Acquire)
    }

    /// Whether nobody may be let in any more.
    fn is_over(&self, options: &RetainedOptions) -> bool {
        let others = self.is_recalled() && self.let_in >= options.cohort.max(1);
        others || self.used >= options.tokens.max(1) || self.lock.left().is_zero()
    }
}

/// Somebody who waits at the door, as long as it does.
struct Waiting<'a> {
    shared: &'a Arc<Shared>,
    let_in: bool,
}

impl<'a> Waiting<'a> {
    fn at(shared: &'a Arc<Shared>) -> Self {
        shared.waiting.fetch_add(1, Ordering::AcqRel);
        Self { shared, let_in: false }
    }

    fn enter(mut self) {
        self.let_in = true;
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.shared.waiting.fetch_sub(1, Ordering::AcqRel);
        // It gave up; whoever left may have left the lock to it.
        if !self.let_in
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let shared = Arc::clone(self.shared);
            runtime.spawn(async move {
                let mut door = Arc::clone(&shared.door).lock_owned().await;
                shared.settle(&mut door);
            });
        }
    }
}

impl Shared {
    fn none_wait(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Whether the lock stays with the process as far as it is known.
    fn keeps(&self, room: &Room) -> bool {
        !self.options.adaptive || room.keep.keeps()
    }

    /// Gives the lock back, if it is time. Nobody is in.
    fn settle(&self, room: &mut Room) {
        let none_wait = self.none_wait();
        let over = |grant: &Grant| grant.is_over(&self.options) || grant.is_recalled() && none_wait;
        if room.grant.as_ref().is_some_and(over) {
            room.give_back();
        } else {
            room.idle = none_wait && room.grant.is_some();
        }
    }

    /// Asks the server for the lock, within what is left of a time.
    async fn ask(self: &Arc<Self>, room: &mut Room, left: Option<Duration>) -> Result<()> {
        let (begun, away) = (Instant::now(), room.left.map(|left| left.elapsed()));

        let RetainedOptions { lease, ref owner, tokens, .. } = self.options;
        // As short as can be is not at all.
        let timeout = left.map(|left| left.max(Duration::from_millis(1)));
        let options = LockOptions { lease, timeout, owner: owner.clone(), ..Default::default() };
        let lock = self.client.hold(self.name.clone(), None, options, tokens.max(1)).await?;
        room.keep.granted(nanos(away.unwrap_or(Duration::MAX)), nanos(begun.elapsed()));
        let listens = self.keeps(room);
        let recalled = Arc::new(AtomicBool::new(!listens));
        room.grant = Some(Grant { lock, recalled, used: 0, let_in: 0 });
        if listens && let Some(grant) = &room.grant {
            let (weak, client) = (Arc::downgrade(self), self.client.clone());
            // The server tells it when the lock is given back, so that it ends and leaves its connection.
            let (lease, recalled) = (Arc::clone(&grant.lock.lease), Arc::clone(&grant.recalled));
            tokio::spawn(Self::listen(weak, client, lease, recalled));
        }
        Ok(())
    }

    /// Waits until somebody else wants the lock, and gives it back then when it is time. Keeps nobody from
    /// giving it back before.
    async fn listen(
        shared: Weak<Self>,
        client: Client,
        lease: Arc<Lease>,
        recalled: Arc<AtomicBool>,
    ) {
        if !hears(&client, &lease).await {
            return lease.lose();
        }
        recalled.store(true, Ordering::Release);
        while let Some(door) = shared.upgrade().map(|shared| Arc::clone(&shared.door)) {
            let mut door = door.lock_owned().await;
            let Some(shared) = shared.upgrade() else { return };
            let own = |grant: &&mut Grant| grant.lock.lease.token == lease.token;
            let idle = door.idle;
            let Some(grant) = door.grant.as_mut().filter(own) else { return };
            if shared.none_wait() || grant.is_over(&shared.options) {
                if idle {
                    door.keep.recalled();
                }
                return door.give_back();
            }
            // Those who have come since go first.
            drop(door);
            tokio::task::yield_now().await;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until somebody else wants the lock; false if it is not held any more.
async fn hears(client: &Client, lease: &Lease) -> bool {
    let third = lease.options.lease / 3;
    while !lease.left().is_zero() {
        // A connection that is silent for longer is not waited for.
        match tokio::time::timeout(third + third / 2, wanted(client, lease, third)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(count))) => return count > 0,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(third / 10).await,
        }
    }
    false
}

/// How many others wait, once some do; nought if the lock is not held.
async fn wanted(client: &Client, lease: &Lease, within: Duration) -> Result<Option<i64>> {
    let mut slot = client.waiting_slot();
    let mut out = Vec::new();
    lease.command("LOCK.WANTED").arg("TIMEOUT").arg(millis(within)).encode(&mut out);
    match slot.exchange_or_close(&out, 1).await?.pop().map(checked).transpose()? {
        None | Some(ClientReply::Nil) => Ok(None),
        Some(reply) => i64::from_reply(reply).map(Some),
    }
}

impl Retained {
    /// Waits in turn for the lock: behind other tasks that use this object, and, if the process does not have
    /// it, for the server.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] if it was not free in time; otherwise as [`Client::lock`].
    pub async fn lock(&self) -> Result<Stay> {
        let (shared, begun) = (&self.shared, Instant::now());
        let timeout = shared.options.timeout;
        let left = || timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        let mut door = {
            let waiting = Waiting::at(shared);
            let door = Arc::clone(&shared.door).lock_owned();
            let door = match left() {
                Some(left) => {
                    tokio::time::timeout(left, door).await.map_err(|_| Error::NotAcquired)?
                }
                None => door.await,
            };
            waiting.enter();
            door
        };
        if door.grant.as_ref().is_none_or(|grant| grant.is_over(&shared.options)) {
            door.give_back();
            shared.ask(&mut door, left()).await?;
        }
        if std::mem::take(&mut door.idle) {
            door.keep.came_back();
        }
        let Some(grant) = door.grant.as_mut() else { return Err(Error::NotAcquired) };
        let token = grant.lock.token() + u64::from(grant.used);
        grant.used += 1;
        grant.let_in += u32::from(grant.is_recalled());
        let lease = Arc::clone(&grant.lock.lease);
        Ok(Stay { shared: Arc::clone(shared), door, lease, token })
    }
}

/// Somebody is in a lock that the process keeps. Dropped, it is out; the lock stays, if nobody else wants it.
pub struct Stay {
    shared: Arc<Shared>,
    door: OwnedMutexGuard<Room>,
    lease: Arc<Lease>,
    token: u64,
}

impl Stay {
    /// The fencing token of this stay alone: larger than those of all earlier ones, and holders.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// For how long the lock can be relied on, by this machine's monotonic clock.
    pub fn left(&self) -> Duration {
        self.lease.left()
    }

    /// Fails unless the lock can be relied on now.
    ///
    /// # Errors
    /// [`Error::LockLost`].
    pub fn require(&self) -> Result<()> {
        if self.left().is_zero() { Err(self.lease.is_lost()) } else { Ok(()) }
    }

    /// Does some work, which is stopped (at the next point where it waits) if the lock is lost.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it was stopped.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = self.lease.is_over() => Err(self.lease.is_lost()),
        }
    }

    /// The command under the token of this stay, which its shard refuses if it has seen a larger one.
    #[must_use]
    pub fn fence(&self, command: Command) -> Command {
        command.behind(Command::new("FENCE").arg(&self.lease.name).arg(self.token))
    }

    /// Carries out a command on keys of one hash slot, unless a later holder was there before.
    ///
    /// # Errors
    /// [`Error::LockLost`] if so, and nothing was changed; otherwise as [`Client::send`].
    pub async fn fenced<T: FromReply>(&self, command: Command) -> Result<T> {
        self.shared.client.send(self.fence(command)).await
    }

    /// Lets a transaction take effect only if the process holds the lock, as [`Lock::require_in`].
    ///
    /// # Errors
    /// [`Error::LockLost`], which is to end the transaction; otherwise as [`Tx::send`].
    pub async fn require_in(&self, tx: &mut Tx) -> Result<()> {
        self.lease.require_in(tx).await
    }
}

impl Drop for Stay {
    fn drop(&mut self) {
        self.shared.settle(&mut self.door);
    }
}

impl Client {
    /// A lock that stays with the process; nothing is asked of the server before it is wanted.
    pub fn retained(&self, name: impl ToArg, options: RetainedOptions) -> Retained {
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        let shared = Shared {
            client: self.clone(),
            name: bytes,
            options,
            door: Arc::default(),
            waiting: AtomicUsize::new(0),
        };
        Retained { shared: Arc::new(shared) }
    }
}
