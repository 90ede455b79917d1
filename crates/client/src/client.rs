//! The client: commands over one shared connection, transactions over a few of their own.

use crate::batch::{Batch, Pipeline};
use crate::cache::{Cache, CacheOptions};
use crate::command::{Command, FromReply, ToArg};
use crate::connection::dispatch::Dispatch;
use crate::connection::mux::Mux;
use crate::connection::tls::Tls;
use crate::connection::{Address, Connection};
use crate::error::{Error, Result, checked};
use crate::retry::{Attempts, RetryPolicy};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use wire::resp::ClientReply;

/// Options of a client.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pauses between failed attempts, and the deadline for them.
    pub retry: RetryPolicy,
    /// Longest time for opening a connection.
    pub connect_timeout: Duration,
    /// Longest time for a reply, after which the connection counts as broken: what was sent may have
    /// taken effect. Waits for locks and the like, and commands that block, last longer by the time
    /// that they are told to wait. `None` waits for ever.
    pub reply_timeout: Option<Duration>,
    /// Most concurrent transactions; further ones wait.
    pub transactions_max: usize,
    /// Whether transactions and batches carry request numbers, so that one whose reply is lost
    /// still takes effect once. Every interactive transaction then involves the shard of the
    /// client's name.
    pub request_numbers: bool,
    /// File whose first line is the password; it is read for each connection.
    pub password_file: Option<PathBuf>,
    /// Trusted authorities and the client's own certificate, for URLs that begin with `rediss://`.
    pub tls: Tls,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            retry: RetryPolicy::default(),
            connect_timeout: Duration::from_secs(5),
            reply_timeout: Some(Duration::from_secs(60)),
            transactions_max: 16,
            request_numbers: true,
            password_file: None,
            tls: Tls::default(),
        }
    }
}

/// A client of a server. Clones share its connections; all methods may be called from any task.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    options: Options,
    shared: tokio::sync::Mutex<Option<Mux>>,
    slots: Mutex<Vec<Slot>>,
    /// Slots for waits that may last long, apart so that they do not keep transactions from
    /// beginning.
    waiting: Mutex<Vec<Slot>>,
    waiting_made: AtomicU64,
    id: u64,
    permits: Arc<Semaphore>,
    closed: watch::Sender<bool>,
}

impl Inner {
    fn check_open(&self) -> Result<()> {
        if *self.closed.borrow() { Err(Error::Closed) } else { Ok(()) }
    }
}

/// A connection and a name for request numbers, for one transaction at a time.
pub(crate) struct Slot {
    pub name: String,
    number: u64,
    pub connection: Option<Connection>,
}

impl Slot {
    /// A request number that was never used.
    pub fn next_number(&mut self) -> u64 {
        self.number += 1;
        self.number
    }
}

/// A slot that returns to its client when dropped.
pub(crate) struct SlotGuard {
    slot: Option<Slot>,
    client: Client,
    /// `None` for a wait.
    permit: Option<OwnedSemaphorePermit>,
}

impl SlotGuard {
    /// Sends bytes over the slot's connection and waits for the replies, for the client's time-out.
    /// The connection is opened if there is none, and closed if it breaks or the caller stops
    /// waiting.
    pub async fn exchange(&mut self, bytes: &[u8], replies: usize) -> Result<Vec<ClientReply>> {
        self.exchange_waiting(bytes, replies, Some(Duration::ZERO)).await
    }

    /// [`SlotGuard::exchange`] of commands that are told to wait for so long; `None` is for ever.
    pub async fn exchange_waiting(
        &mut self,
        bytes: &[u8],
        replies: usize,
        wait: Option<Duration>,
    ) -> Result<Vec<ClientReply>> {
        self.open().await?;
        let mut connection = self.connection.take().ok_or(Error::Ended)?;
        let limit = wait.zip(self.client.inner.options.reply_timeout);
        let told = connection.exchange(bytes, replies);
        let replies = match limit.map(|(wait, patience)| wait.saturating_add(patience)) {
            None => told.await?,
            Some(limit) => {
                tokio::time::timeout(limit, told).await.map_err(|_| no_reply(limit))??
            }
        };
        self.connection = Some(connection);
        Ok(replies)
    }

    /// Opens the connection if there is none.
    pub async fn open(&mut self) -> Result<()> {
        if self.connection.is_none() {
            self.connection = Some(self.client.connection().await?);
        }
        Ok(())
    }
}

/// The error for replies that did not come in time.
fn no_reply(limit: Duration) -> Error {
    Error::Disconnected(format!("there was none in {limit:?}"))
}

impl Deref for SlotGuard {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        self.slot.as_ref().expect("a guard has its slot until it is dropped")
    }
}

impl DerefMut for SlotGuard {
    fn deref_mut(&mut self) -> &mut Slot {
        self.slot.as_mut().expect("a guard has its slot until it is dropped")
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        if let Some(mut slot) = self.slot.take() {
            let inner = &self.client.inner;
            let stays =
                |connection: &Connection| connection.is_whole() && inner.check_open().is_ok();
            slot.connection = slot.connection.take().filter(stays);
            let home = if self.permit.is_some() { &inner.slots } else { &inner.waiting };
            home.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
        }
    }
}

impl Client {
    /// Connects to `redis[s]://[user[:password]@]host[:port]`; `rediss` is with TLS. There may be
    /// several hosts of one cluster, separated by commas: the client uses one that answers, and
    /// another when that fails.
    ///
    /// # Errors
    /// The URL is wrong, or no server answers there.
    pub async fn connect(url: &str) -> Result<Self> {
        Self::connect_with(url, Options::default()).await
    }

    /// Connects with options.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub async fn connect_with(url: &str, options: Options) -> Result<Self> {
        let client = Self::new(url, options)?;
        client.mux().await?;
        Ok(client)
    }

    /// A client that connects when it is first used.
    ///
    /// # Errors
    /// The URL is wrong, or the password is both in it and in a file.
    pub fn new(url: &str, options: Options) -> Result<Self> {
        let address = Address::parse(url)?;
        if address.password.is_some() && options.password_file.is_some() {
            return Err(Error::Url("the password is in the URL and in a file".to_owned()));
        }
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(|error| Error::Connect(error.to_string()))?;
        let id = u64::from_le_bytes(bytes);
        let slot = |i: usize| Slot { name: format!("{id:016x}-{i}"), number: 0, connection: None };
        let places = options.transactions_max.max(1);
        let inner = Inner {
            address,
            options,
            shared: tokio::sync::Mutex::new(None),
            slots: Mutex::new((0..places).map(slot).collect()),
            waiting: Mutex::default(),
            waiting_made: AtomicU64::new(0),
            id,
            permits: Arc::new(Semaphore::new(places)),
            closed: watch::Sender::new(false),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Closes the client and its clones: further requests fail with [`Error::Closed`], those under
    /// way still end. Locks that it holds end with their leases.
    pub async fn close(&self) {
        let inner = &self.inner;
        inner.closed.send_replace(true);
        inner.permits.close();
        *inner.shared.lock().await = None;
        for slots in [&inner.slots, &inner.waiting] {
            let mut slots = slots.lock().unwrap_or_else(PoisonError::into_inner);
            slots.iter_mut().for_each(|slot| slot.connection = None);
        }
    }

    /// The options that the client was made with.
    pub fn options(&self) -> &Options {
        &self.inner.options
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        self.inner.check_open()
    }

    /// Waits until the client is closed.
    pub(crate) async fn closed(&self) {
        let mut closed = self.inner.closed.subscribe();
        // The sender is gone with the client only, which is there.
        let _ = closed.wait_for(|closed| *closed).await;
    }

    /// A connection that belongs to the caller.
    pub(crate) async fn connection(&self) -> Result<Connection> {
        self.inner.check_open()?;
        Connection::open(&self.inner.address, &self.inner.options).await
    }

    async fn mux(&self) -> Result<Mux> {
        let mut shared = self.inner.shared.lock().await;
        self.inner.check_open()?;
        if let Some(mux) = shared.as_ref().filter(|mux| !mux.is_closed()) {
            return Ok(mux.clone());
        }
        let mux = self.open(false).await?;
        *shared = Some(mux.clone());
        Ok(mux)
    }

    async fn open(&self, ordered: bool) -> Result<Mux> {
        self.inner.check_open()?;
        Mux::open(&self.inner.address, &self.inner.options, ordered).await
    }

    /// A slot for a transaction; waits until one is free.
    pub(crate) async fn slot(&self) -> Result<SlotGuard> {
        let permits = Arc::clone(&self.inner.permits);
        let permit = permits.acquire_owned().await.map_err(|_| Error::Closed)?;
        let slot = self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(SlotGuard { slot, client: self.clone(), permit: Some(permit) })
    }

    /// A slot for a wait that may last long; their number is not limited.
    pub(crate) fn waiting_slot(&self) -> SlotGuard {
        let inner = &self.inner;
        let free = inner.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let slot = free.unwrap_or_else(|| {
            let made = inner.waiting_made.fetch_add(1, Ordering::Relaxed);
            Slot { name: format!("{:016x}-w{made}", inner.id), number: 0, connection: None }
        });
        SlotGuard { slot: Some(slot), client: self.clone(), permit: None }
    }

    /// Sends encoded commands over the shared connection. Attempts that had no effect are repeated;
    /// those that may have had one only if the commands are `harmless`. The client's time-out does not
    /// count if one `waits`.
    pub(crate) async fn call(
        &self,
        bytes: &[u8],
        replies: usize,
        harmless: bool,
        waits: bool,
    ) -> Result<Vec<ClientReply>> {
        let mut attempts = Attempts::new(&self.inner.options.retry);
        loop {
            let result = match self.mux().await {
                Ok(mux) => mux.call(bytes.to_vec(), replies, waits).await,
                Err(error) => Err(error),
            };
            match result {
                Err(error) if error.may_be_sent_again(harmless) => attempts.pause(error).await?,
                result => return result,
            }
        }
    }

    /// Sends a command and returns its reply. A request that certainly had no effect is repeated
    /// until the policy's deadline.
    ///
    /// # Errors
    /// The server refuses, or the connection breaks after a write was sent: see
    /// [`Error::maybe_committed`] and [`Client::once`].
    pub async fn send<T: FromReply>(&self, command: Command) -> Result<T> {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let mut attempts = Attempts::new(&self.inner.options.retry);
        loop {
            let replies = self.call(&bytes, 1, !command.writes(), command.waits()).await?;
            let reply = replies.into_iter().next().unwrap_or(ClientReply::Nil);
            match checked(reply) {
                Err(error) if error.is_transient() => attempts.pause(error).await?,
                reply => return T::from_reply(reply?),
            }
        }
    }

    /// Sends a command given by its words.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn command<T: FromReply, W: ToArg>(&self, words: &[W]) -> Result<T> {
        self.send(Command::from_words(words)?).await
    }

    /// Sends a write that takes effect once even if the connection breaks and it must be sent
    /// again: it carries a request number.
    ///
    /// # Errors
    /// As [`Client::send`]; [`Error::ReplyLost`] if it took effect and its reply is not kept.
    pub async fn once<T: FromReply>(&self, command: Command) -> Result<T> {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let last = |mut replies: Vec<_>| checked(replies.pop().unwrap_or(ClientReply::Nil));
        T::from_reply(self.call_once(None, &bytes, 1, last).await?)
    }

    /// Sends encoded commands under a request number, so that they take effect once, and repeats
    /// them until `read` can turn their replies into a result. The number belongs to `name`, or else
    /// to the client.
    pub(crate) async fn call_once<T>(
        &self,
        name: Option<&str>,
        bytes: &[u8],
        replies: usize,
        read: impl Fn(Vec<ClientReply>) -> Result<T>,
    ) -> Result<T> {
        let mut attempts = Attempts::new(&self.inner.options.retry);
        let mut slot = self.slot().await?;
        let mut number = if name.is_some() { 1 } else { slot.next_number() };
        let mut lost = false;
        loop {
            let mut numbered = Vec::new();
            Command::request(name.unwrap_or(&slot.name), number).encode(&mut numbered);
            numbered.extend_from_slice(bytes);
            match slot.exchange(&numbered, replies + 1).await.and_then(&read) {
                Err(error) if error.is_repeated_under_number() => {
                    lost |= error.maybe_committed();
                    if let Error::Voided(_) = error {
                        // Nothing under this number takes effect.
                        number = if name.is_some() { number + 1 } else { slot.next_number() };
                        lost = false;
                    }
                    attempts.pause(error).await.map_err(|error| error.given_up(lost))?;
                }
                // It was not sent again: the client is closed, or the server refuses the login.
                Err(error) if slot.connection.is_none() => return Err(error.given_up(lost)),
                result => return result,
            }
        }
    }

    /// Sends encoded commands over a connection of their own, so that no other commands affect
    /// their order. Attempts that had no effect are repeated as in [`Client::call`].
    pub(crate) async fn call_in_order(
        &self,
        bytes: &[u8],
        replies: usize,
        harmless: bool,
        waits: bool,
    ) -> Result<Vec<ClientReply>> {
        let mut attempts = Attempts::new(&self.inner.options.retry);
        let mut slot = self.slot().await?;
        let wait = (!waits).then_some(Duration::ZERO);
        loop {
            match slot.exchange_waiting(bytes, replies, wait).await {
                Err(error) if error.may_be_sent_again(harmless) => attempts.pause(error).await?,
                result => return result,
            }
        }
    }

    /// Opens a connection for commands that are sent without waiting for replies, and take effect
    /// in that order.
    ///
    /// # Errors
    /// The connection cannot be opened.
    pub async fn dispatch(&self) -> Result<Dispatch> {
        Ok(Dispatch::new(self.open(true).await?))
    }

    /// Replies to reads in memory, which the server keeps up to date. The cache has a connection of
    /// its own, opened by the first read.
    pub fn cache(&self, options: CacheOptions) -> Cache {
        Cache::new(self.clone(), options)
    }

    /// Independent commands that are sent together and take effect in their order.
    pub fn pipeline(&self) -> Pipeline<'_> {
        Pipeline::new(self)
    }

    /// Commands that take effect together, at one instant, in one round trip (`MULTI`).
    pub fn batch(&self) -> Batch<'_> {
        Batch::new(self)
    }
}
