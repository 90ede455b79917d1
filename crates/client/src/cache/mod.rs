//! Replies to reads that are kept in memory until the server says that they have changed
//! (`CLIENT TRACKING`).
//!
//! The server tells a connection that tracks what it reads when a key is written. A reply is kept
//! unless such a message about its key has come since the request was begun. A reply is taken from
//! memory only if a request that was sent lately has an answer: all that the server had told before
//! has then arrived too. So a cache whose server is silent, or whose process was stopped, answers
//! nothing from memory.

mod answer;
mod link;
mod store;

use crate::client::Client;
use crate::command::{Command, FromReply, Pairs, ToArg};
use crate::error::{Error, Result, checked};
use crate::retry::Attempts;
use adt::Blob;
use answer::question;
use link::{Asked, Sent};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use store::{Found, Store, Words};
use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use wire::resp::ClientReply;

/// Age of the newest request with an answer up to which replies are taken from memory.
const FRESH_MAX: Duration = Duration::from_secs(2);
/// Most requests without a reply; further ones wait.
const UNDER_WAY_MAX: usize = 4096;

/// Options of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheOptions {
    /// Most replies that are kept; those used longest ago make room.
    pub max_entries: usize,
    /// Size above which a reply is not kept, in bytes.
    pub max_reply_bytes: usize,
}

impl Default for CacheOptions {
    fn default() -> Self {
        Self { max_entries: 10_000, max_reply_bytes: 64 << 10 }
    }
}

/// Numbers since the beginning of a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Reads that sent no request of their own, because the reply was there or under way.
    pub hits: u64,
    /// Reads that sent a request.
    pub misses: u64,
    /// Replies that were removed because their key was written or the connection was lost.
    pub dropped: u64,
}

/// Replies to reads in memory, which the server keeps up to date.
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::{CacheOptions, Command};
///
/// let cache = client.cache(CacheOptions { max_entries: 10_000, ..CacheOptions::default() });
/// let read = Command::new("HGET").arg("item:7").arg("price");
/// let price: Option<i64> = cache.read(read).await?;
/// let item = cache.hgetall("item:7").await?;
/// println!("{price:?} {item:?} {:?}", cache.stats());
/// # Ok(())
/// # }
/// ```
///
/// Of two reads of the same words the later never shows an older value. The value may be older than
/// that of the store: ordinarily by the way of a message, and while machines do not hear each other
/// by about five seconds. So a cache has no place in a transaction, whose reads must come from the
/// store.
///
/// The cache has a connection of its own, opened by the first read. When that is lost, everything is
/// dropped, and the next read opens another one. Clones share the cache, which ends with the last of
/// them, with [`Cache::close`] or with its client.
#[derive(Clone)]
pub struct Cache(Arc<Shared>);

struct Shared {
    client: Client,
    /// Room for requests without a reply.
    room: Arc<Semaphore>,
    state: Mutex<State>,
}

struct State {
    store: Store,
    stats: CacheStats,
    /// Keys that commands read, by name.
    reads: HashMap<Vec<u8>, Reads>,
    /// The way to the task that serves the connection, if there is one.
    link: Option<UnboundedSender<Asked>>,
    /// When the newest request with an answer was sent.
    heard: Option<Instant>,
    is_closed: bool,
}

/// Keys that a command reads.
#[derive(Clone, Copy)]
enum Reads {
    /// None, or the command does not only read.
    Nothing,
    /// The first argument.
    OneKey,
    /// All arguments.
    AllWords,
}

impl Cache {
    pub(crate) fn new(client: Client, options: CacheOptions) -> Self {
        let state = State {
            store: Store::new(options),
            stats: CacheStats::default(),
            reads: HashMap::new(),
            link: None,
            heard: None,
            is_closed: false,
        };
        let room = Arc::new(Semaphore::new(UNDER_WAY_MAX));
        Self(Arc::new(Shared { client, room, state: Mutex::new(state) }))
    }

    /// The reply to a command that reads one key, named first: from memory, if the reply to exactly
    /// these words is there. A command whose reply depends on time or chance, such as `PTTL` or
    /// `SRANDMEMBER`, is not for a cache.
    ///
    /// # Errors
    /// [`Error::Order`] if the command is another one, [`Error::Closed`] after the end of the cache;
    /// otherwise as [`Client::send`] of a read.
    pub async fn read<T: FromReply>(&self, command: Command) -> Result<T> {
        let mut attempts = Attempts::new(&self.0.client.options().retry);
        let mut is_first = true;
        loop {
            match self.0.read(&command, is_first).await {
                Err(error) if error.may_be_sent_again(true) => attempts.pause(error).await?,
                reply => return T::from_reply(reply?),
            }
            is_first = false;
        }
    }

    /// The value of a key.
    ///
    /// # Errors
    /// As [`Cache::read`].
    pub async fn get<T: FromReply>(&self, key: impl ToArg) -> Result<Option<T>> {
        self.read(Command::new("GET").arg(key)).await
    }

    /// All fields of a hash.
    ///
    /// # Errors
    /// As [`Cache::read`].
    pub async fn hgetall(&self, key: impl ToArg) -> Result<Pairs<String, String>> {
        self.read(Command::new("HGETALL").arg(key)).await
    }

    /// The numbers until now.
    pub fn stats(&self) -> CacheStats {
        self.0.state().stats
    }

    /// Ends the cache and its clones: everything is dropped, and reads fail with [`Error::Closed`].
    pub fn close(&self) {
        let mut state = self.0.state();
        state.is_closed = true;
        state.lose();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, unless the cache or its client has ended.
    fn open_state(&self) -> Result<MutexGuard<'_, State>> {
        self.client.check_open()?;
        let state = self.state();
        if state.is_closed { Err(Error::Closed) } else { Ok(state) }
    }

    /// Reads once, and counts that if it is the first attempt.
    async fn read(self: &Arc<Self>, command: &Command, counts: bool) -> Result<ClientReply> {
        let words = self.checked(command).await?;
        let found = self.open_state()?.find(&words, counts);
        let found = match found {
            Some(found) => found,
            None => {
                let room = self.room().await?;
                self.find_or_ask(words, room, counts)?
            }
        };
        let reply = match found {
            Found::Kept(reply) => reply,
            Found::UnderWay(answer) => answer.reply().await?,
        };
        checked(Arc::unwrap_or_clone(reply))
    }

    /// The words of a command that reads one key, its first argument, by the server's table.
    async fn checked(self: &Arc<Self>, command: &Command) -> Result<Words> {
        let words = command.words();
        let name = words.first().copied().unwrap_or_default().to_ascii_uppercase();
        let known = self.open_state()?.reads.get(&name).copied();
        let reads = match known {
            Some(reads) => reads,
            None => self.ask_about(&name).await?,
        };
        match (words.as_slice(), reads) {
            ([_, key, ..], Reads::OneKey) | ([_, key], Reads::AllWords) => {
                let mut encoded = Vec::new();
                command.encode(&mut encoded);
                Ok(Words { key: Blob::new(key), encoded: Blob::new(&encoded) })
            }
            _ => {
                let name = String::from_utf8_lossy(&name);
                let wrong = "is not a command that reads one key, its first argument";
                Err(Error::Order(format!("{name} {wrong}")))
            }
        }
    }

    /// Asks the server what a command reads.
    async fn ask_about(self: &Arc<Self>, name: &[u8]) -> Result<Reads> {
        let mut encoded = Vec::new();
        Command::new("COMMAND").arg("INFO").arg(name).encode(&mut encoded);
        let room = self.room().await?;
        let (question, answer) = question();
        let asked = Asked { encoded: Blob::new(&encoded), place: None, question, _room: room };
        self.ask(&mut *self.open_state()?, asked);
        let reply = checked(Arc::unwrap_or_clone(answer.reply().await?))?;
        // The operations of types that clients define are in no table, and may write.
        let ClientReply::Array(rows) = reply else { return Ok(Reads::Nothing) };
        let [ClientReply::Array(row)] = rows.as_slice() else { return Ok(Reads::Nothing) };
        let reads = reads(row);
        self.state().reads.insert(name.to_vec(), reads);
        Ok(reads)
    }

    async fn room(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.room).acquire_owned().await.map_err(|_| Error::Closed)
    }

    /// The reply to these words or the request for it, which is begun if there is neither.
    fn find_or_ask(
        self: &Arc<Self>,
        words: Words,
        room: OwnedSemaphorePermit,
        counts: bool,
    ) -> Result<Found> {
        let mut state = self.open_state()?;
        if let Some(found) = state.find(&words, counts) {
            return Ok(found);
        }
        state.stats.misses += u64::from(counts);
        let (question, answer) = question();
        let number = state.store.begin(&words, answer.clone());
        let encoded = words.encoded.clone();
        self.ask(
            &mut state,
            Asked { encoded, place: Some((words, number)), question, _room: room },
        );
        Ok(Found::UnderWay(answer))
    }

    /// Passes a request to the task of the connection, which is begun if there is none.
    fn ask(self: &Arc<Self>, state: &mut State, asked: Asked) {
        let link = state.link.take().filter(|link| !link.is_closed()).unwrap_or_else(|| {
            let (link, incoming) = mpsc::unbounded_channel();
            tokio::spawn(link::run(Arc::downgrade(self), self.client.clone(), incoming));
            link
        });
        // A request that the task cannot take any more is lost, which its readers see.
        let _ = link.send(asked);
        state.link = Some(link);
    }
}

impl State {
    /// The reply to these words, or the request for it.
    fn find(&mut self, words: &Words, counts: bool) -> Option<Found> {
        let is_fresh = self.heard.is_some_and(|heard| heard.elapsed() < FRESH_MAX);
        let found = self.store.find(words, is_fresh)?;
        self.stats.hits += u64::from(counts);
        Some(found)
    }

    /// Takes the reply to a request.
    fn answered(&mut self, sent: Sent, reply: ClientReply) {
        self.heard = Some(sent.at);
        if let Some(Asked { place, question, .. }) = sent.asked {
            let reply = Arc::new(reply);
            if let Some((words, number)) = place {
                self.store.keep(&words, number, &reply);
            }
            question.settle(Ok(reply));
        }
    }

    /// Takes a message of the server: the keys that have changed; no list stands for all.
    fn told(&mut self, message: &[ClientReply]) {
        let [ClientReply::Bulk(kind), changed] = message else { return };
        if kind.as_slice() != b"invalidate" {
            return;
        }
        self.stats.dropped += match changed {
            ClientReply::Array(keys) => keys.iter().map(|key| self.forget(key)).sum(),
            _ => self.store.clear(),
        };
    }

    fn forget(&mut self, key: &ClientReply) -> u64 {
        match key {
            ClientReply::Bulk(key) => self.store.forget(key),
            _ => 0,
        }
    }

    /// Drops everything, as there is no connection any more.
    fn lose(&mut self) {
        self.stats.dropped += self.store.clear();
        self.link = None;
        self.heard = None;
    }
}

/// Keys that a command reads, by its row of `COMMAND INFO`.
fn reads(row: &[ClientReply]) -> Reads {
    let [_, _, ClientReply::Set(flags) | ClientReply::Array(flags), first, last, ..] = row else {
        return Reads::Nothing;
    };
    let has = |name: &str| flags.contains(&ClientReply::Status(name.into()));
    match (first, last) {
        _ if !has("readonly") || has("movablekeys") || has("blocking") => Reads::Nothing,
        (ClientReply::Int(1), ClientReply::Int(1)) => Reads::OneKey,
        (ClientReply::Int(1), _) => Reads::AllWords,
        _ => Reads::Nothing,
    }
}
