//! Locks that stay with the process after they are left, and that its tasks hand over among
//! themselves.
//!
//! The process has a *grant* of the lock, with a block of fencing tokens. A task that enters the
//! lock has a *stay*, under a token of its own out of the block; stays follow each other in the
//! order of their arrival, without any message to the server.
//!
//! One task renews the lease of the grant, and another one is notified, over a connection that is
//! quiet otherwise, when another client wants the lock. The process then gives it back as soon as
//! no task waits for it, or after a limited number of further stays, so that other clients get
//! their turn; also when its tokens are used up, and when it is lost.
//!
//! An *adaptive* lock is given back each time as long as that is cheaper ([`Keep`]). The process
//! then does not listen for other clients: there may always be some.

use super::keep::Keep;
use super::lock::{Lease, Lock, LockOptions, millis};
use crate::client::Client;
use crate::command::{Command, FromReply, ToArg};
use crate::error::{Error, Result, checked};
use crate::txn::Tx;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;
use wire::resp::ClientReply;

/// Options of a retained lock.
#[derive(Clone, Debug)]
pub struct RetainedOptions {
    /// Time for which the lock stays held if this process is lost and no longer renews it.
    pub lease: Duration,
    /// Longest wait of a task; `None` is for ever.
    pub timeout: Option<Duration>,
    /// Name of the holder in `LOCK.HOLDERS`.
    pub owner: String,
    /// Most tasks that are admitted after another client wants the lock.
    pub cohort: u32,
    /// Number of stays, and so of tokens, in one grant.
    pub tokens: u32,
    /// Whether the lock stays only while that pays off: while its next user is mostly of this
    /// process. Otherwise it is given back as soon as no task waits for it, like [`Lock`].
    pub adaptive: bool,
}

impl Default for RetainedOptions {
    fn default() -> Self {
        let LockOptions { lease, timeout, owner, .. } = LockOptions::default();
        let tokens = adt::kinds::lock::TOKENS_OF_KEPT;
        Self { lease, timeout, owner, cohort: 16, tokens, adaptive: false }
    }
}

/// A lock that stays with the process until another client wants it. Clones are the same lock; it
/// is given back when the last one is dropped and no stay is left.
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::{Command, RetainedOptions};
///
/// let kept = client.retained("lock:report", RetainedOptions::default());
/// let stay = kept.lock().await?;
/// stay.fenced::<()>(Command::new("SET").arg("report").arg("done")).await?;
/// drop(stay);
/// // Nothing is sent for this, unless another client has wanted it in the meantime.
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
    /// Mutex of the current stay. Tasks queue for it in the order of their arrival.
    door: Arc<Mutex<Room>>,
    /// Number of tasks that wait for the mutex.
    waiting: AtomicUsize,
    /// Whether the lock was given back for good.
    over: AtomicBool,
}

/// State behind the mutex.
#[derive(Default)]
struct Room {
    grant: Option<Grant>,
    /// Whether the lock was left without a waiting task and has not been entered since.
    idle: bool,
    keep: Keep,
    /// Time at which the lock was given back.
    left: Option<Instant>,
}

impl Room {
    /// Gives the lock back, if the process has it: dropping the grant sends the release.
    fn give_back(&mut self) {
        if self.grant.take().is_some() {
            self.left = Some(Instant::now());
        }
        self.idle = false;
    }
}

/// The process's grant of the lock. Dropping it gives the lock back.
struct Grant {
    lock: Lock,
    /// Whether another client wants the lock, or no task listens for that.
    recalled: Arc<AtomicBool>,
    used: u32,
    /// Number of stays since another client wants the lock.
    let_in: u32,
}

impl Grant {
    fn is_recalled(&self) -> bool {
        self.recalled.load(Ordering::Acquire)
    }

    /// Whether no further stay is possible under this grant.
    fn is_over(&self, options: &RetainedOptions) -> bool {
        let others = self.is_recalled() && self.let_in >= options.cohort.max(1);
        others || self.used >= options.tokens.max(1) || self.lock.left().is_zero()
    }
}

/// A task that waits for the mutex; counted while this value exists.
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
        // The task gave up, although the last stay may have left the lock for it.
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
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    fn none_wait(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }

    /// Whether the lock is to stay with the process, as far as is known.
    fn keeps(&self, room: &Room) -> bool {
        !self.options.adaptive || room.keep.keeps()
    }

    /// Gives the lock back, if it is time. The caller holds the mutex, so there is no stay.
    fn settle(&self, room: &mut Room) {
        let none_wait = self.none_wait();
        let over = |grant: &Grant| grant.is_over(&self.options) || grant.is_recalled() && none_wait;
        if room.grant.as_ref().is_some_and(|grant| self.is_over() || over(grant)) {
            room.give_back();
        } else {
            room.idle = none_wait && room.grant.is_some();
        }
    }

    /// Requests the lock from the server, within the time left.
    async fn ask(self: &Arc<Self>, room: &mut Room, left: Option<Duration>) -> Result<()> {
        let (begun, away) = (Instant::now(), room.left.map(|left| left.elapsed()));

        let RetainedOptions { lease, ref owner, tokens, .. } = self.options;
        // A zero time-out would not wait at all.
        let timeout = left.map(|left| left.max(Duration::from_millis(1)));
        let options = LockOptions { lease, timeout, owner: owner.clone(), ..Default::default() };
        let lock = self.client.hold(self.name.clone(), None, options, tokens.max(1)).await?;
        room.keep.granted(nanos(away.unwrap_or(Duration::MAX)), nanos(begun.elapsed()));
        let listens = self.keeps(room);
        let recalled = Arc::new(AtomicBool::new(!listens));
        room.grant = Some(Grant { lock, recalled, used: 0, let_in: 0 });
        if listens && let Some(grant) = &room.grant {
            let (weak, client) = (Arc::downgrade(self), self.client.clone());
            // A release makes the server answer the listening task, which then ends and frees its
            // connection.
            let (lease, recalled) = (Arc::clone(&grant.lock.lease), Arc::clone(&grant.recalled));
            tokio::spawn(Self::listen(weak, client, lease, recalled));
        }
        Ok(())
    }

    /// Waits until another client wants the lock, and then gives it back when it is time. Does not
    /// prevent an earlier release.
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
            // Tasks that have arrived since go first.
            drop(door);
            tokio::task::yield_now().await;
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Waits until another client wants the lock; false if it is no longer held.
async fn hears(client: &Client, lease: &Lease) -> bool {
    let third = lease.options.lease / 3;
    while !lease.left().is_zero() {
        // A connection that is silent for longer counts as lost.
        match tokio::time::timeout(third + third / 2, wanted(client, lease, third)).await {
            Ok(Ok(None)) => {}
            Ok(Ok(Some(count))) => return count > 0,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(third / 10).await,
        }
    }
    false
}

/// Number of other waiters, once there are some; 0 if the lock is not held.
async fn wanted(client: &Client, lease: &Lease, within: Duration) -> Result<Option<i64>> {
    let mut slot = client.waiting_slot();
    let mut out = Vec::new();
    lease.command("LOCK.WANTED").arg("TIMEOUT").arg(millis(within)).encode(&mut out);
    match slot.exchange_waiting(&out, 1, Some(within)).await?.pop().map(checked).transpose()? {
        None | Some(ClientReply::Nil) => Ok(None),
        Some(reply) => i64::from_reply(reply).map(Some),
    }
}

impl Retained {
    /// Waits in turn for the lock: behind other tasks that use this object, and, if the process
    /// does not have it, for the server.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] if it was not granted in time; otherwise as [`Client::lock`].
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
        if shared.is_over() {
            return Err(Error::Closed);
        }
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

    /// Gives the lock back for good, at once or at the end of the present stay: its clones let no
    /// task in any more ([`Error::Closed`]).
    ///
    /// # Errors
    /// As [`Lock::release`]. The lock then ends with its lease.
    pub async fn give_back(self) -> Result<()> {
        self.shared.over.store(true, Ordering::Release);
        let grant = match self.shared.door.try_lock() {
            Ok(mut door) => door.grant.take(),
            Err(_) => None,
        };
        match grant {
            Some(grant) => grant.lock.release().await.map(drop),
            None => Ok(()),
        }
    }
}

/// A task's stay in a lock that the process keeps. Dropping it ends the stay; the lock remains with
/// the process, unless another client wants it.
pub struct Stay {
    shared: Arc<Shared>,
    door: OwnedMutexGuard<Room>,
    lease: Arc<Lease>,
    token: u64,
}

impl Stay {
    /// The fencing token of this stay alone: larger than those of all earlier stays and holders.
    pub fn token(&self) -> u64 {
        self.token
    }

    /// Time for which the lock can be relied on, by this machine's monotonic clock.
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

    /// Runs a future, which is stopped (at its next await) if the lock is lost.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it was stopped.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = self.lease.is_over() => Err(self.lease.is_lost()),
        }
    }

    /// The command under the token of this stay, which its shard refuses if it has seen a larger
    /// one.
    #[must_use]
    pub fn fence(&self, command: Command) -> Command {
        command.behind(Command::new("FENCE").arg(&self.lease.name).arg(self.token))
    }

    /// Carries out a command on keys of one hash slot, unless the shard has seen a later holder.
    ///
    /// # Errors
    /// [`Error::LockLost`] if so, and nothing was changed; otherwise as [`Client::send`].
    pub async fn fenced<T: FromReply>(&self, command: Command) -> Result<T> {
        self.shared.client.send(self.fence(command)).await
    }

    /// Lets a transaction take effect only if the process holds the lock, as [`Lock::require_in`].
    ///
    /// # Errors
    /// [`Error::LockLost`], which must end the transaction; otherwise as [`Tx::send`].
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
    /// A lock that stays with the process; the server is asked only when a task wants it.
    pub fn retained(&self, name: impl ToArg, options: RetainedOptions) -> Retained {
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        let shared = Shared {
            client: self.clone(),
            name: bytes,
            options,
            door: Arc::default(),
            waiting: AtomicUsize::new(0),
            over: AtomicBool::new(false),
        };
        Retained { shared: Arc::new(shared) }
    }
}
