//! Interactive transactions: a function that is run until it commits, or a [`Tx`] by hand.
//!
//! A transaction is lazy. `TXN BEGIN` travels with the first operation whose reply is awaited;
//! writes without a requested reply travel with the next such operation or with the commit. A
//! transaction therefore costs one round trip per awaited operation and one for its commit.

use crate::client::{Client, SlotGuard};
use crate::command::{Command, FromReply};
use crate::deferred::{Deferred, Told, Writes};
use crate::error::{Error, Result, checked};
use crate::retry::{Attempts, RetryPolicy};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use wire::resp::ClientReply;

/// Bytes of queued writes above which they are sent at once.
const QUEUED_BYTES_MAX: usize = 1 << 20;
/// Most bytes of the text of [`TxOptions::once`]: with its prefix it is a name of 64 bytes.
const ONCE_BYTES_MAX: usize = 59;

/// Options of a transaction.
#[derive(Clone, Debug, Default)]
pub struct TxOptions {
    readonly: bool,
    returning: bool,
    strict: Option<bool>,
    for_update: bool,
    idle: Option<Duration>,
    timeout: Option<Duration>,
    retry: Option<RetryPolicy>,
    attempts_max: Option<u32>,
    once: Option<String>,
}

impl TxOptions {
    /// Makes the transaction read-only: it takes no locks, blocks no other client and sees one
    /// instant.
    #[must_use]
    pub fn readonly(mut self) -> Self {
        self.readonly = true;
        self
    }

    /// Requests replies of writes before the commit. Such a write conflicts with writes of other
    /// clients that would change its reply; leave this out where replies do not matter. A
    /// transaction function that turns out to need it is run again with it.
    #[must_use]
    pub fn returning(mut self) -> Self {
        self.returning = true;
        self
    }

    /// Whether nothing takes effect if a command is refused ([`Error::Refused`]). Otherwise the
    /// others take effect ([`Error::WriteRefused`]). The default is true for functions that are run
    /// until they commit, and false for [`Client::begin`].
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = Some(strict);
        self
    }

    /// Lets the transaction's reads announce that their keys are written afterwards: of all such
    /// transactions one has a key at a time, and the others wait in line, so that none of them has
    /// to be run again. [`Tx::send_for_update`] announces it for one read.
    #[must_use]
    pub fn for_update(mut self) -> Self {
        self.for_update = true;
        self
    }

    /// Longest pause between commands while other clients wait for locks of the transaction, in
    /// place of the server's default; zero for no limit.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle = Some(timeout);
        self
    }

    /// Longest duration while other clients wait for locks of the transaction.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// The `TXN BEGIN` command with these options.
    fn begin(&self) -> Command {
        let mode = match (self.readonly, self.returning) {
            (true, _) => Some("READONLY"),
            (false, true) => None,
            (false, false) => Some("BLIND"),
        };
        let strict = (self.strict == Some(true) && !self.readonly).then_some("STRICT");
        let mut begin = Command::new("TXN").arg("BEGIN").args(mode).args(strict);
        if self.for_update && !self.readonly {
            begin = begin.arg("FORUPDATE");
        }
        let times = [("IDLE", self.idle), ("TIMEOUT", self.timeout)];
        for (name, time) in times.into_iter().filter(|_| !self.readonly) {
            if let Some(time) = time {
                begin = begin.arg(name).arg(time.as_millis() as u64);
            }
        }
        begin
    }

    /// Limits how often a function is run; 0 counts as 1.
    #[must_use]
    pub fn attempts_max(mut self, most: u32) -> Self {
        self.attempts_max = Some(most);
        self
    }

    /// Names the transaction by a text (1 to 59 bytes, without spaces) under which it takes effect
    /// once, in whatever process and by whatever client it is run again. A later one changes
    /// nothing: its deferred replies are those of the first one, and [`Error::ReplyLost`] says that
    /// these are not kept, or that values were read. For functions that are run until they commit.
    #[must_use]
    pub fn once(mut self, text: impl Into<String>) -> Self {
        self.once = Some(text.into());
        self
    }

    /// Name of the request numbers of [`TxOptions::once`], for a function that is run or not.
    fn once_name(&self, is_run: bool) -> Result<Option<String>> {
        match &self.once {
            Some(_) if !is_run => {
                Err(Error::Order("`once` is for functions that are run".to_owned()))
            }
            Some(_) if self.readonly => {
                Err(Error::Order("a transaction that only reads has no effect".to_owned()))
            }
            Some(text) => once_name(text).map(Some),
            None => Ok(None),
        }
    }

    /// Replaces the client's retry policy.
    #[must_use]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = Some(policy);
        self
    }
}

/// Stage of the transaction at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was sent.
    Fresh,
    /// The transaction has begun.
    Begun,
    /// The transaction has committed or rolled back, or the server has dropped it.
    Over,
}

struct State {
    slot: SlotGuard,
    options: TxOptions,
    /// Name of the request numbers of [`TxOptions::once`]; otherwise they are the slot's.
    once: Option<String>,
    /// Request number, unless the transaction is read-only or the client does not use them.
    number: Option<u64>,
    stage: Stage,
    queued: Vec<u8>,
    /// For each queued write, its deferred reply if the program wants it.
    queued_replies: Vec<Option<Told>>,
    writes: Writes,
    committed: bool,
    /// Whether the commit was sent and its reply is missing.
    unknown: bool,
    failed: Option<Error>,
}

/// A transaction. It is not `Clone`, is used by `&mut`, and rolls back when dropped without a
/// commit.
pub struct Tx {
    state: Option<Box<State>>,
    /// Destination of the state when the transaction function has ended.
    home: Option<Home>,
}

type Home = Arc<Mutex<Option<Box<State>>>>;

impl State {
    fn new(slot: SlotGuard, options: TxOptions, number: Option<u64>) -> Self {
        Self {
            slot,
            options,
            once: None,
            number,
            stage: Stage::Fresh,
            queued: Vec::new(),
            queued_replies: Vec::new(),
            writes: Writes::default(),
            committed: false,
            unknown: false,
            failed: None,
        }
    }

    /// Adds the commands that must precede the next ones; returns the number of their replies
    /// before those of the queued writes.
    fn preamble(&mut self, out: &mut Vec<u8>) -> usize {
        let mut replies = 0;
        if self.stage == Stage::Fresh {
            self.stage = Stage::Begun;
            if let Some(number) = self.number {
                let name = self.once.as_ref().unwrap_or(&self.slot.name);
                Command::request(name, number).encode(out);
                replies += 1;
            }
            self.options.begin().encode(out);
            replies += 1;
        }
        out.append(&mut self.queued);
        replies
    }

    fn fail<T>(&mut self, error: Error) -> Result<T> {
        self.failed = Some(error.clone());
        Err(error)
    }

    fn check_open(&self) -> Result<()> {
        match &self.failed {
            Some(error) => Err(error.clone()),
            None if self.stage == Stage::Over => Err(Error::Ended),
            None => Ok(()),
        }
    }

    /// Sends the queued writes and `last`, and waits for all replies: the reply of `last`, and the
    /// first error before it.
    async fn exchange(&mut self, last: Option<&Command>) -> Result<(Option<Error>, ClientReply)> {
        let mut bytes = Vec::new();
        let opening = self.preamble(&mut bytes);
        let queued = std::mem::take(&mut self.queued_replies);
        if let Some(command) = last {
            command.encode(&mut bytes);
        }
        let count = opening + queued.len() + usize::from(last.is_some());
        // If the caller stops waiting, the connection is closed and the transaction with it.
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let replies = match self.slot.exchange(&bytes, count).await {
            Ok(replies) => replies,
            Err(error) => return self.fail(error),
        };
        self.stage = stage;
        let mut replies = replies.into_iter();
        let opened: Vec<_> = replies.by_ref().take(opening).map(checked).collect();
        let (mut refused, mut has_run) = (None, false);
        for told in queued {
            let reply = checked(replies.next().unwrap_or(ClientReply::Nil));
            has_run |= reply.is_ok();
            refused = refused.or_else(|| reply.as_ref().err().cloned());
            self.writes.sent(told, reply);
        }
        let reply = replies.next().unwrap_or(ClientReply::Nil);
        if let Some(error) = opened.into_iter().find_map(Result::err) {
            // Without its beginning the server takes the commands behind it for single ones.
            has_run |= last.is_some_and(Command::writes) && reply.error_code().is_none();
            return self.fail(error.given_up(has_run));
        }
        Ok((refused, reply))
    }

    /// [`State::exchange`], which fails if a queued write was refused.
    async fn exchange_all(&mut self, last: Option<&Command>) -> Result<ClientReply> {
        match self.exchange(last).await? {
            (Some(error), _) => self.fail(error),
            (None, reply) => Ok(reply),
        }
    }

    async fn ask(&mut self, command: Command) -> Result<ClientReply> {
        self.check_open()?;
        if command.writes() && self.options.readonly {
            return Err(Error::Refused("ERR a write in a transaction that only reads".into()));
        }
        if command.writes() && !self.options.returning {
            if self.stage != Stage::Fresh {
                return self.fail(Error::NeedsValues);
            }
            self.options.returning = true;
        }
        let reply = self.exchange_all(Some(&command)).await?;
        match checked(reply) {
            Err(error) if error.is_transient() => self.fail(error),
            other => other,
        }
    }

    async fn tell(&mut self, command: Command) -> Result<()> {
        if !command.writes() || self.options.readonly {
            return self.ask(command).await.map(drop);
        }
        self.queue(command, None).await
    }

    /// Adds a write, which is sent with the next command that is awaited, or with the commit.
    async fn queue(&mut self, command: Command, told: Option<Told>) -> Result<()> {
        self.check_open()?;
        command.encode(&mut self.queued);
        self.queued_replies.push(told);
        if self.queued.len() > QUEUED_BYTES_MAX {
            self.exchange_all(None).await?;
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        if self.committed {
            return Ok(());
        }
        if let Err(error) = self.check_open() {
            self.roll_back();
            return Err(error);
        }
        let commit = Command::new("TXN").arg("COMMIT");
        if self.stage == Stage::Fresh && self.queued_replies.is_empty() {
            (self.stage, self.committed) = (Stage::Over, true);
            return Ok(());
        }
        if self.options.readonly {
            // Each read has confirmed those before it, so there is nothing to wait for.
            let mut bytes = Vec::new();
            commit.encode(&mut bytes);
            if let Some(connection) = &mut self.slot.connection {
                connection.send_now(&bytes, 1);
            }
            (self.stage, self.committed) = (Stage::Over, true);
            return Ok(());
        }
        self.slot.open().await?;
        let reply = self.exchange(Some(&commit)).await;
        self.stage = Stage::Over;
        match reply {
            Err(error @ Error::Disconnected(_)) => {
                self.unknown = true;
                Err(error)
            }
            Err(error) => Err(error),
            Ok((refused, reply)) => self.committed_with(refused, reply),
        }
    }

    /// Evaluates the reply of the commit; `refused` is a write that was refused before.
    fn committed_with(&mut self, refused: Option<Error>, reply: ClientReply) -> Result<()> {
        match checked(reply) {
            Err(Error::ReplyLost) if self.once.is_none() => self.writes.lose(),
            Err(Error::Undone(line)) => return self.fail(Error::undone(line, refused)),
            Err(error) => return self.fail(error),
            Ok(ClientReply::Array(items)) => {
                self.committed = true;
                let failed = self.writes.settle(items);
                if let Some(error) = refused.or(failed) {
                    return self.fail(Error::WriteRefused(error.to_string()));
                }
            }
            Ok(other) => return self.fail(Error::unexpected("the replies of writes", &other)),
        }
        self.committed = true;
        Ok(())
    }

    /// Sends the rollback without waiting for a reply.
    fn roll_back(&mut self) {
        if std::mem::replace(&mut self.stage, Stage::Over) == Stage::Begun
            && let Some(connection) = &mut self.slot.connection
        {
            let mut bytes = Vec::new();
            Command::new("TXN").arg("ABORT").encode(&mut bytes);
            connection.send_now(&bytes, 1);
        }
    }

    /// Determines whether a transaction whose commit reply was lost has taken effect. If not, it
    /// never will (`TXN RESOLVE`).
    async fn resolve(&mut self, number: u64, policy: &RetryPolicy) -> Result<bool> {
        let mut attempts = Attempts::new(policy);
        let mut bytes = Vec::new();
        let name = self.slot.name.as_str();
        Command::new("TXN").arg("RESOLVE").arg(name).arg(number).encode(&mut bytes);
        let unknown = |error: Error| Error::CommitUnknown(error.to_string());
        loop {
            let replies = self.slot.exchange(&bytes, 1).await;
            let reply = |mut replies: Vec<_>| checked(replies.pop().unwrap_or(ClientReply::Nil));
            match replies.and_then(reply) {
                Ok(reply) => return bool::from_reply(reply).map_err(unknown),
                Err(error) if error.is_repeated_under_number() => {
                    attempts.pause(error).await.map_err(unknown)?;
                }
                Err(error) => return Err(unknown(error)),
            }
        }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        self.roll_back();
    }
}

impl Tx {
    fn state(&mut self) -> Result<&mut State> {
        self.state.as_deref_mut().ok_or(Error::Ended)
    }

    /// Carries a command out and returns its reply, which stays true until the transaction ends.
    ///
    /// If the caller stops waiting for the reply, the transaction ends without effect.
    ///
    /// # Errors
    /// The command is refused, or the transaction was aborted ([`Error::is_retryable`]): leave the
    /// transaction function with the error, and it is run again.
    pub async fn send<T: FromReply>(&mut self, command: Command) -> Result<T> {
        T::from_reply(self.state()?.ask(command).await?)
    }

    /// Reads a value that is written afterwards: of all transactions that announce this, one has the
    /// key at a time.
    ///
    /// # Errors
    /// As [`Tx::send`].
    pub async fn send_for_update<T: FromReply>(&mut self, command: Command) -> Result<T> {
        self.send(command.behind(Command::new("TXN").arg("FORUPDATE"))).await
    }

    /// Adds a write whose reply is known when the transaction has committed. Like [`Tx::tell`] it
    /// does not wait, and keeps fewer other clients waiting than a write that is answered at once.
    ///
    /// ```no_run
    /// # async fn example(client: client::Client) -> client::Result<()> {
    /// use client::Command;
    ///
    /// let number = client
    ///     .run(|mut tx| async move { tx.defer::<i64>(Command::new("INCR").arg("orders")).await })
    ///     .await?;
    /// println!("order {}", number.value()?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tx::tell`].
    pub async fn defer<T: FromReply>(&mut self, command: Command) -> Result<Deferred<T>> {
        let state = self.state()?;
        let deferred = Deferred::new();
        if command.writes() && !state.options.readonly {
            state.queue(command, Some(deferred.told())).await?;
        } else {
            deferred.told().tell(state.ask(command).await);
        }
        Ok(deferred)
    }

    /// Adds a write and discards its reply. The write does not block, and is sent with the next
    /// awaited command or with the commit.
    ///
    /// # Errors
    /// As [`Tx::send`]; a refusal of the write shows when it is sent.
    pub async fn tell(&mut self, command: Command) -> Result<()> {
        self.state()?.tell(command).await
    }

    /// Sends the queued writes and waits until the server has received them.
    ///
    /// # Errors
    /// As [`Tx::send`].
    pub async fn flush(&mut self) -> Result<()> {
        let state = self.state()?;
        state.check_open()?;
        if !state.queued_replies.is_empty() {
            state.exchange_all(None).await?;
        }
        Ok(())
    }

    /// Commits.
    ///
    /// # Errors
    /// The transaction was aborted and had no effect, or see [`Error::maybe_committed`].
    pub async fn commit(mut self) -> Result<()> {
        self.state()?.commit().await
    }

    /// Rolls back, as dropping the transaction does.
    pub fn rollback(mut self) {
        if let Some(state) = &mut self.state {
            state.roll_back();
        }
    }
}

impl Drop for Tx {
    fn drop(&mut self) {
        if let (Some(home), Some(state)) = (&self.home, self.state.take()) {
            *home.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
        }
    }
}

impl Client {
    /// Begins a transaction that the program commits itself. [`Client::run`] is usually better: it
    /// repeats aborted transactions.
    ///
    /// # Errors
    /// The client's connections are closed.
    pub async fn begin(&self, options: TxOptions) -> Result<Tx> {
        options.once_name(false)?;
        let slot = self.slot().await?;
        Ok(Tx { state: Some(Box::new(State::new(slot, options, None))), home: None })
    }

    /// Runs a function as a transaction: its effects happen all at one instant or not at all, and
    /// it is run again when it was aborted. It must therefore have no effects besides the
    /// transaction.
    ///
    /// # Errors
    /// The error that the function returned, a refusal by the server, or [`Error::Deadline`].
    pub async fn run<T, F, Fut>(&self, function: F) -> Result<T>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        self.run_with(TxOptions::default(), function).await
    }

    /// Runs a function that only reads, at one instant of the whole store.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub async fn read_only<T, F, Fut>(&self, function: F) -> Result<T>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        self.run_with(TxOptions::default().readonly(), function).await
    }

    /// As [`Client::run`], with options.
    ///
    /// # Errors
    /// As [`Client::run`].
    pub async fn run_with<T, F, Fut>(&self, options: TxOptions, mut function: F) -> Result<T>
    where
        F: FnMut(Tx) -> Fut,
        Fut: Future<Output = Result<T>>,
    {
        let once = options.once_name(true)?;
        let policy = options.retry.clone().unwrap_or_else(|| self.options().retry.clone());
        let options = TxOptions { strict: options.strict.or(Some(true)), ..options };
        let most = options.attempts_max.unwrap_or(u32::MAX);
        let mut attempts = Attempts::new(&policy).at_most(most);
        let mut slot = self.slot().await?;
        let is_once = once.is_some();
        let numbered = self.options().request_numbers && !options.readonly;
        let mut number = match is_once {
            true => Some(1),
            false => numbered.then(|| slot.next_number()),
        };
        let mut state = Box::new(State::new(slot, options, number));
        state.once = once;
        // Whether an attempt may have taken effect under the number of a text.
        let mut lost = false;
        loop {
            let home: Home = Arc::default();
            let outcome = function(Tx { state: Some(state), home: Some(home.clone()) }).await;
            let back = home.lock().unwrap_or_else(PoisonError::into_inner).take();
            state = back.ok_or(Error::Ended)?;
            let (value, mut error) = match outcome {
                Ok(value) => match state.commit().await {
                    Ok(()) => return Ok(value),
                    Err(error) => (Some(value), error),
                },
                Err(error) => {
                    state.roll_back();
                    (None, state.failed.take().unwrap_or(error))
                }
            };
            if state.unknown && is_once {
                // Asking would forbid the number if it had no effect. Under the same number the
                // transaction takes effect once in any case.
                lost = true;
            } else if state.unknown {
                let Some(used) = number else {
                    return Err(Error::CommitUnknown(error.to_string()));
                };
                let took_effect = state.resolve(used, &policy).await?;
                match value {
                    Some(value) if took_effect => {
                        state.writes.lose();
                        return Ok(value);
                    }
                    None if took_effect => return Err(error),
                    _ => {
                        number = Some(state.slot.next_number());
                        error = Error::Aborted(error.to_string());
                    }
                }
            } else if let Error::Voided(_) = error {
                // Another client has asked whether it took effect under this number.
                number = number.map(|number| number + 1);
                lost = false;
            }
            if error == Error::NeedsValues {
                state.options.returning = true;
            } else if error.is_repeated_under_number() {
                attempts.pause(error).await.map_err(|error| error.given_up(lost))?;
            } else if error == Error::Closed {
                return Err(error.given_up(lost));
            } else {
                return Err(error);
            }
            state.restart(number);
        }
    }
}

/// Name of the request numbers of a text, which all clients share.
pub(crate) fn once_name(text: &str) -> Result<String> {
    let is_name = (1..=ONCE_BYTES_MAX).contains(&text.len())
        && !text.contains(|c: char| c == ' ' || c.is_control());
    if is_name {
        Ok(format!("once:{text}"))
    } else {
        let text = "the text of `once` has 1 to 59 bytes, without spaces and controls";
        Err(Error::Order(text.to_owned()))
    }
}

impl State {
    /// Resets the state to that of a fresh transaction on the same connection.
    fn restart(&mut self, number: Option<u64>) {
        self.number = number;
        self.stage = Stage::Fresh;
        self.queued.clear();
        self.queued_replies.clear();
        self.writes = Writes::default();
        (self.committed, self.unknown) = (false, false);
        self.failed = None;
    }
}
