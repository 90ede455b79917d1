//! Locks: leases that are renewed as long as a guard exists, with fencing tokens.

use crate::client::{Client, SlotGuard};
use crate::command::{Command, FromReply};
use crate::error::{Error, Result, checked};
use crate::retry::Attempts;
use crate::txn::Tx;
pub use adt::kinds::lock::Share;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use wire::resp::ClientReply;

/// Duration of a wait after which a lost reply counts as the first failure of a new series: the
/// request has had a server for long.
pub(crate) const LONG_WAIT: Duration = Duration::from_secs(1);

/// The part of a lease that one attempt to renew it may take.
const TRIES: u32 = 6;

/// Options of an acquisition.
#[derive(Clone, Debug)]
pub struct LockOptions {
    /// Time for which the lock stays held if its holder is lost and no longer renews it.
    pub lease: Duration,
    /// Longest wait for the lock; `None` is for ever, zero does not wait.
    pub timeout: Option<Duration>,
    /// Name of the holder in `LOCK.HOLDERS`.
    pub owner: String,
    /// Other holders to admit.
    pub share: Share,
    /// Whether to fail with [`Error::Deadlock`] instead of waiting in a deadlock cycle with other
    /// owners. Requires a distinct `owner` for each client or task that holds and waits by itself.
    pub detect: bool,
    /// Whether the server that the client is connected to keeps the lock and passes it between its
    /// own clients: such a hand-over needs no message to the lock's shard. The lock is then
    /// exclusive, without `detect`, and fences only commands: [`Lock::require_in`] fails.
    pub near: bool,
    /// Whether to name the lock's successors in the log while it is held: a successor is notified
    /// of a release before that is durable, so that a hand-over does not wait for a write. This
    /// pays off where there are mostly waiters, and for hand-overs between clients that all set it.
    /// The lock is then exclusive, not `near`, and requires fencing of the protected resource: the
    /// server does not answer whether it is held, so that [`Lock::require_in`] fails. Elections
    /// refuse it, and retained locks are not handed over this way.
    pub next: bool,
}

impl Default for LockOptions {
    fn default() -> Self {
        let owner = format!("process {}", std::process::id());
        Self {
            lease: Duration::from_secs(30),
            timeout: None,
            owner,
            share: Share::Alone,
            detect: false,
            near: false,
            next: false,
        }
    }
}

impl LockOptions {
    /// Time left for waiting.
    fn left(&self, begun: Instant) -> Option<Duration> {
        self.timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()))
    }

    fn lease_ms(&self) -> u64 {
        millis(self.lease)
    }

    /// The part of a lease that its holder relies on: clocks may differ in speed by a tenth.
    fn trusted(&self) -> Duration {
        self.lease.mul_f64(0.9)
    }

    fn acquisition(
        &self,
        name: &[u8],
        value: Option<&[u8]>,
        left: Option<Duration>,
        tokens: u32,
    ) -> Command {
        let at_once = self.timeout.is_some_and(|timeout| timeout.is_zero()) && value.is_none();
        // A lock that a server keeps or that has successors needs a wait, however short.
        let near = self.near && value.is_none() && tokens == 1;
        let next = self.is_handed_on(value, tokens);
        let tries = at_once && !near && !next;
        let mut command = match value {
            Some(value) => Command::new("ELECTION.CAMPAIGN").arg(name).arg(value),
            None => Command::new(if tries { "LOCK.TRY" } else { "LOCK.ACQUIRE" }).arg(name),
        };
        command = command.arg("LEASE").arg(self.lease_ms()).arg("OWNER").arg(self.owner.as_str());
        if let Some(left) = left.filter(|_| !tries) {
            command = command.arg("TIMEOUT").arg(millis(left));
        }
        if near {
            command = command.arg("NEAR");
        }
        if next {
            command = command.arg("NEXT");
        }
        if tokens > 1 {
            command = command.arg("TOKENS").arg(u64::from(tokens));
        }
        // A request that does not wait cannot be part of a deadlock cycle.
        let detect = self.detect && (near || !at_once);
        self.shared(if detect { command.arg("DETECT") } else { command })
    }

    /// Whether successors are named while the lock is held.
    fn is_handed_on(&self, value: Option<&[u8]>, tokens: u32) -> bool {
        self.next && value.is_none() && tokens == 1
    }

    fn shared(&self, command: Command) -> Command {
        match self.share {
            Share::Alone => command,
            Share::Shared => command.arg("SHARED"),
            Share::Limit(most) => command.arg("LIMIT").arg(most),
        }
    }

    /// A transaction that is a section, so that an absent value differs from a failed wait.
    fn section(&self, name: &[u8], left: Option<Duration>, command: &Command, out: &mut Vec<u8>) {
        let mut section = Command::new("LOCK.SECTION").arg(name);
        section = section.arg("OWNER").arg(self.owner.as_str());
        if let Some(left) = left {
            section = section.arg("TIMEOUT").arg(millis(left));
        }
        if self.detect {
            section = section.arg("DETECT");
        }
        Command::new("MULTI").encode(out);
        self.shared(section).encode(out);
        command.encode(out);
        Command::new("EXEC").encode(out);
    }
}

/// Milliseconds, but never 0, which would be for ever.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1)
}

/// State of a lock that its guard and the task that renews it share.
pub(crate) struct Lease {
    client: Client,
    pub(crate) name: Vec<u8>,
    pub(crate) token: u64,
    pub(crate) options: LockOptions,
    /// Time until which the holder may rely on the lock, by this machine's clock.
    until: Mutex<Instant>,
    lost: watch::Sender<bool>,
}

impl Lease {
    fn until(&self) -> Instant {
        *self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn command(&self, name: &str) -> Command {
        Command::new(name).arg(&self.name).arg(self.token)
    }

    /// Time for which the lock can be relied on, by this machine's monotonic clock.
    pub(crate) fn left(&self) -> Duration {
        if *self.lost.borrow() {
            return Duration::ZERO;
        }
        self.until().saturating_duration_since(Instant::now())
    }

    /// Marks the lock as lost.
    pub(crate) fn lose(&self) {
        self.lost.send_replace(true);
    }

    /// Waits until the lock can no longer be relied on.
    pub(crate) async fn is_over(&self) {
        let mut lost = self.lost.subscribe();
        // `self` keeps the sender alive, so that the wait cannot fail.
        let _ = lost.wait_for(|lost| *lost).await;
    }

    pub(crate) fn is_lost(&self) -> Error {
        let name = String::from_utf8_lossy(&self.name);
        Error::LockLost(format!("the lock {name} is no longer held"))
    }

    /// As [`Lock::require_in`].
    pub(crate) async fn require_in(&self, tx: &mut Tx) -> Result<()> {
        if self.options.next {
            let text = "ERR a lock that is taken with next does not tell whether it is held: fence \
                        what you write";
            return Err(Error::Refused(text.to_owned()));
        }
        match tx.send::<i64>(self.command("LOCK.HELD")).await? {
            1.. => Ok(()),
            _ => Err(self.is_lost()),
        }
    }

    /// Releases the grant; returns whether it was held. Under a number, a release whose reply was
    /// lost has the same reply when it is repeated.
    async fn release(&self) -> Result<bool> {
        let mut slot = self.client.waiting_slot();
        let number = slot.next_number();
        let release = |out: &mut Vec<u8>| self.command("LOCK.RELEASE").encode(out);
        let at_once = || Some(Duration::ZERO);
        let turn = self.client.turn(&mut slot, number, 2, at_once, release, granted).await?;
        Ok(turn.told == Some(1))
    }

    /// Restarts the lease; returns whether it was held. There is time for several attempts, and a
    /// connection on which one has failed is not used again.
    async fn renew(&self) -> Result<bool> {
        let asked = Instant::now();
        let mut out = Vec::new();
        self.command("LOCK.RENEW").arg("LEASE").arg(self.options.lease_ms()).encode(&mut out);
        let mut slot = self.client.waiting_slot();
        let told = tokio::time::timeout(self.options.lease / TRIES, slot.exchange(&out, 1)).await;
        let late = |_| Error::Disconnected("the lease was not renewed in time".into());
        let held = granted(told.map_err(late)??)? == Some(1);
        if held {
            let until = asked + self.options.trusted();
            *self.until.lock().unwrap_or_else(PoisonError::into_inner) = until;
        }
        Ok(held)
    }

    /// [`Lease::renew`] until there is a reply.
    async fn confirm(&self) -> Result<bool> {
        let mut attempts = Attempts::new(&self.client.options().retry);
        loop {
            match self.renew().await {
                Err(error) if error.may_be_sent_again(true) => attempts.pause(error).await?,
                held => return held,
            }
        }
    }

    /// Renews the lease until it is lost.
    async fn keep(self: Arc<Self>) {
        let third = self.options.lease / 3;
        let mut pause = third;
        while Instant::now() < self.until() {
            tokio::time::sleep_until(self.until().min(Instant::now() + pause)).await;
            let renewed = tokio::time::timeout_at(self.until(), self.renew()).await;
            pause = match renewed {
                Ok(Ok(true)) => third,
                Ok(Ok(false)) => break,
                _ => third / 10,
            };
        }
        self.lose();
    }
}

/// A lock that is held until it is released, dropped, or lost. A task renews its lease.
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::{Command, LockOptions};
///
/// let lock = client.lock("lock:report", LockOptions::default()).await?;
/// lock.fenced::<()>(Command::new("SET").arg("report").arg("done")).await?;
/// lock.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// A client cannot know for certain that it holds a lease at the very moment at which it writes:
/// let the store judge, by [`Lock::fenced`] or by [`Lock::require_in`] a transaction.
pub struct Lock {
    pub(crate) lease: Arc<Lease>,
    keeper: JoinHandle<()>,
    released: bool,
}

impl Lock {
    /// The fencing token: larger than those of all earlier holders.
    pub fn token(&self) -> u64 {
        self.lease.token
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

    /// Ends the renewal of the lease, as if this process had been stopped: for tests of what a
    /// program does when it loses a lock.
    pub fn stop_renewing(&self) {
        self.keeper.abort();
    }

    /// Waits until the lock can no longer be relied on, which is before its lease ends.
    pub async fn lost(&self) {
        self.lease.is_over().await;
    }

    /// Runs a future, which is stopped (at its next await) if the lock is lost.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it was stopped.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            done = work => Ok(done),
            () = self.lost() => Err(self.lease.is_lost()),
        }
    }

    /// The command under this lock's token, which its shard refuses if it has seen a larger one.
    #[must_use]
    pub fn fence(&self, command: Command) -> Command {
        command.behind(self.lease.command("FENCE"))
    }

    /// Carries out a command on keys of one hash slot, unless the shard has seen a later holder.
    ///
    /// # Errors
    /// [`Error::LockLost`] if so, and nothing was changed; otherwise as [`Client::send`].
    pub async fn fenced<T: FromReply>(&self, command: Command) -> Result<T> {
        self.lease.client.send(self.fence(command)).await
    }

    /// Lets a transaction take effect only if the lock is held: no other client is granted it
    /// before the commit.
    ///
    /// # Errors
    /// [`Error::LockLost`], which must end the transaction; [`Error::Refused`] if the lock was
    /// taken with [`LockOptions::next`]; otherwise as [`Tx::send`].
    pub async fn require_in(&self, tx: &mut Tx) -> Result<()> {
        self.lease.require_in(tx).await
    }

    /// Releases the lock; returns whether it was still held.
    ///
    /// # Errors
    /// As [`Client::once`]. The lock then ends with its lease.
    pub async fn release(mut self) -> Result<bool> {
        self.released = true;
        self.keeper.abort();
        self.lease.release().await
    }

    /// Sends a command about this lock and its token.
    pub(crate) async fn send<T: FromReply>(
        &self,
        name: &str,
        words: impl FnOnce(Command) -> Command,
    ) -> Result<T> {
        self.lease.client.send(words(self.lease.command(name))).await
    }

    pub(crate) fn is_lost(&self) -> Error {
        let name = String::from_utf8_lossy(&self.lease.name);
        Error::LockLost(format!("the lock {name} is no longer held"))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.keeper.abort();
        let runtime = tokio::runtime::Handle::try_current();
        if let Ok(runtime) = runtime
            && !self.released
        {
            let lease = Arc::clone(&self.lease);
            // If the message is lost, the lock ends with its lease.
            runtime.spawn(async move {
                let _ = lease.release().await;
            });
        }
    }
}

impl Client {
    /// Acquires a lock, and waits in turn for it. The acquisition has a request number: it is
    /// repeated if the connection breaks, and granted once.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] if the lock was not granted in time; otherwise as [`Client::once`].
    pub async fn lock(
        &self,
        name: impl crate::command::ToArg,
        options: LockOptions,
    ) -> Result<Lock> {
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        self.hold(bytes, None, options, 1).await
    }

    /// Acquires a lock, with a value for an election, by a grant with this many tokens.
    pub(crate) async fn hold(
        &self,
        name: Vec<u8>,
        value: Option<Vec<u8>>,
        options: LockOptions,
        tokens: u32,
    ) -> Result<Lock> {
        let mut slot = self.waiting_slot();
        let begun = Instant::now();
        let next = options.is_handed_on(value.as_deref(), tokens);
        let options = LockOptions { next, ..options };
        loop {
            let acquisition = |out: &mut Vec<u8>| {
                let left = options.left(begun);
                options.acquisition(&name, value.as_deref(), left, tokens).encode(out);
            };
            let (number, wait) = (slot.next_number(), || options.left(begun));
            let turn = self.turn(&mut slot, number, 2, wait, acquisition, granted).await?;
            let Turn { told, asked, again, .. } = turn;
            let token = told.ok_or(Error::NotAcquired)?;
            let lease = Arc::new(Lease {
                client: self.clone(),
                name: name.to_vec(),
                token,
                until: Mutex::new(asked + options.trusted()),
                options: options.clone(),
                lost: watch::Sender::new(false),
            });
            // The lease of a grant after a wait began some time after the request; and a repeated
            // request may have been revoked together with the connection that sent it first.
            let old = again || asked.elapsed() > options.lease - options.trusted();
            if !old || lease.confirm().await? {
                let keeper = tokio::spawn(Arc::clone(&lease).keep());
                return Ok(Lock { lease, keeper, released: false });
            }
        }
    }
}

impl Client {
    /// Carries one command out under a lock without holding it afterwards, in one round trip: waits
    /// in turn for the lock as [`Client::lock`] does, and needs no lease. The command's keys must
    /// be of the lock's hash slot. A request that is repeated after a broken connection is carried
    /// out once.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] if the lock was not granted in time, [`Error::CommitUnknown`] if the
    /// reply to an earlier attempt had been lost by then; otherwise as [`Client::once`].
    pub async fn section<T: FromReply>(
        &self,
        name: impl crate::command::ToArg,
        options: LockOptions,
        command: Command,
    ) -> Result<T> {
        let (_, reply) = self.section_with_token(name, options, command).await?;
        Ok(reply)
    }

    /// [`Client::section`], with the fencing token of the section before the reply.
    ///
    /// # Errors
    /// As [`Client::section`].
    pub async fn section_with_token<T: FromReply>(
        &self,
        name: impl crate::command::ToArg,
        options: LockOptions,
        command: Command,
    ) -> Result<(u64, T)> {
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        let mut slot = self.waiting_slot();
        let begun = Instant::now();
        let section =
            |out: &mut Vec<u8>| options.section(&bytes, options.left(begun), &command, out);
        let (number, wait) = (slot.next_number(), || options.left(begun));
        let turn = self.turn(&mut slot, number, 5, wait, section, carried_out).await?;
        match turn.told {
            Some((token, reply)) => Ok((u64::from_reply(token)?, T::from_reply(checked(reply)?)?)),
            None if turn.lost => {
                let text =
                    "the lock was not free in time, and the reply to an earlier attempt was lost";
                Err(Error::CommitUnknown(text.to_owned()))
            }
            None => Err(Error::NotAcquired),
        }
    }

    /// Requests a turn under a number of the slot until there is a reply. The commands are encoded
    /// anew for each attempt, since less of the time to wait is left.
    pub(crate) async fn turn<T>(
        &self,
        slot: &mut SlotGuard,
        number: u64,
        replies: usize,
        wait: impl Fn() -> Option<Duration>,
        encode: impl Fn(&mut Vec<u8>),
        read: fn(Vec<ClientReply>) -> Result<T>,
    ) -> Result<Turn<T>> {
        let policy = &self.options().retry;
        let (mut again, mut lost) = (false, false);
        let mut attempts = Attempts::new(policy);
        loop {
            let asked = Instant::now();
            let mut out = Vec::new();
            Command::request(&slot.name, number).encode(&mut out);
            encode(&mut out);
            match slot.exchange_waiting(&out, replies, wait()).await.and_then(read) {
                Ok(told) => return Ok(Turn { told, asked, again, lost }),
                Err(error) if error.is_repeated_under_number() => {
                    again = true;
                    lost |= error.maybe_committed();
                    if asked.elapsed() > LONG_WAIT && error.maybe_committed() {
                        attempts = Attempts::new(policy);
                    }
                    attempts.pause(error).await.map_err(|error| error.given_up(lost))?;
                }
                // It was not sent again.
                Err(error) if slot.connection.is_none() => return Err(error.given_up(lost)),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Outcome of a wait in turn.
pub(crate) struct Turn<T> {
    pub told: T,
    /// Time of the last request.
    pub asked: Instant,
    /// Whether the request was repeated.
    pub again: bool,
    /// Whether the reply to an earlier attempt was lost, which may still wait at the server.
    pub lost: bool,
}

/// The token of a section and the reply of its command, if the section was admitted.
fn carried_out(replies: Vec<ClientReply>) -> Result<Option<(ClientReply, ClientReply)>> {
    let mut last = ClientReply::Nil;
    for reply in replies {
        last = checked(reply)?;
    }
    match last {
        ClientReply::Nil => Ok(None),
        ClientReply::Array(items) => match <[ClientReply; 2]>::try_from(items) {
            Ok([token, reply]) => Ok(Some((token, reply))),
            Err(items) => Err(Error::unexpected("a token and a reply", &ClientReply::Array(items))),
        },
        other => Err(Error::unexpected("a token and a reply", &other)),
    }
}

/// The granted token, if there was a grant.
pub(crate) fn granted(replies: Vec<ClientReply>) -> Result<Option<u64>> {
    let mut token = None;
    for reply in replies {
        token = Some(checked(reply)?);
    }
    match token {
        None | Some(ClientReply::Nil) => Ok(None),
        Some(reply) => i64::from_reply(reply).map(|token| u64::try_from(token).ok()),
    }
}
