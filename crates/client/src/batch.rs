//! Several commands in one round trip: a pipeline of independent ones, or an atomic batch.

use crate::client::Client;
use crate::command::{Command, FromReply, ToArg};
use crate::error::{Error, Result, checked};
use crate::retry::Attempts;
use crate::txn::once_name;
use wire::resp::ClientReply;

/// Independent commands that are sent together and take effect in their order.
pub struct Pipeline<'c> {
    client: &'c Client,
    commands: Vec<Command>,
}

impl<'c> Pipeline<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, commands: Vec::new() }
    }

    /// Adds a command.
    #[must_use]
    pub fn then(mut self, command: Command) -> Self {
        self.commands.push(command);
        self
    }

    /// Sends the commands; one result for each, in their order.
    ///
    /// # Errors
    /// The connection breaks. A command that is refused is an error in its place only.
    pub async fn send(self) -> Result<Vec<Result<ClientReply>>> {
        if self.commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        self.commands.iter().for_each(|command| command.encode(&mut bytes));
        let harmless = !self.commands.iter().any(Command::writes);
        let waits = self.commands.iter().any(Command::waits);
        let count = self.commands.len();
        let replies = self.client.call_in_order(&bytes, count, harmless, waits).await?;
        Ok(replies.into_iter().map(checked).collect())
    }
}

/// Commands that take effect together, at one instant, over any keys: `MULTI` in one round trip.
pub struct Batch<'c> {
    client: &'c Client,
    commands: Vec<Command>,
    /// `EXEC` with the guards.
    exec: Command,
    once: Option<String>,
}

impl<'c> Batch<'c> {
    pub(crate) fn new(client: &'c Client) -> Self {
        Self { client, commands: Vec::new(), exec: Command::new("EXEC"), once: None }
    }

    /// Names the batch by a text under which it takes effect once, in whatever process and by
    /// whatever client it is sent again; as [`TxOptions::once`](crate::TxOptions::once).
    #[must_use]
    pub fn once(mut self, text: impl Into<String>) -> Self {
        self.once = Some(text.into());
        self
    }

    /// Lets the batch take effect only if a key has this string; [`Error::Guard`] otherwise.
    #[must_use]
    pub fn if_equal(self, key: impl ToArg, value: impl ToArg) -> Self {
        self.guard(|exec| exec.arg("IFEQ").arg(key).arg(value))
    }

    /// Lets the batch take effect only if a key is absent or has another string.
    #[must_use]
    pub fn if_not_equal(self, key: impl ToArg, value: impl ToArg) -> Self {
        self.guard(|exec| exec.arg("IFNE").arg(key).arg(value))
    }

    /// Lets the batch take effect only if a key exists.
    #[must_use]
    pub fn if_exists(self, key: impl ToArg) -> Self {
        self.guard(|exec| exec.arg("XX").arg(key))
    }

    /// Lets the batch take effect only if a key is absent.
    #[must_use]
    pub fn if_absent(self, key: impl ToArg) -> Self {
        self.guard(|exec| exec.arg("NX").arg(key))
    }

    fn guard(mut self, with: impl FnOnce(Command) -> Command) -> Self {
        self.exec = with(self.exec);
        self
    }

    /// Adds a command.
    #[must_use]
    pub fn then(mut self, command: Command) -> Self {
        self.commands.push(command);
        self
    }

    /// Carries the commands out; one result for each, in their order. A command that fails by
    /// itself, such as an addition to text, is an error in its place and the others take effect.
    ///
    /// With request numbers a batch whose reply is lost is sent again and takes effect once.
    ///
    /// # Errors
    /// [`Error::Undone`] if a command is wrong, and [`Error::Guard`] if a guard does not hold:
    /// nothing took effect, unless [`Error::maybe_committed`]; [`Error::ReplyLost`] if the batch
    /// took effect and its replies are not kept.
    pub async fn commit(self) -> Result<Vec<Result<ClientReply>>> {
        if self.commands.is_empty() {
            return Ok(Vec::new());
        }
        let mut bytes = Vec::new();
        Command::new("MULTI").encode(&mut bytes);
        self.commands.iter().for_each(|command| command.encode(&mut bytes));
        self.exec.encode(&mut bytes);
        let replies = self.commands.len() + 2;
        let name = self.once.as_deref().map(once_name).transpose()?;
        if name.is_some() || self.client.options().request_numbers {
            return self.client.call_once(name.as_deref(), &bytes, replies, decided).await;
        }
        let mut attempts = Attempts::new(&self.client.options().retry);
        loop {
            match self.client.call(&bytes, replies, false, false).await.and_then(decided) {
                Err(error) if error.is_transient() => attempts.pause(error).await?,
                result => return result,
            }
        }
    }

    /// [`Batch::commit`] for callers that need only the reply of the last command.
    ///
    /// # Errors
    /// As [`Batch::commit`]; also if the last command was refused.
    pub async fn commit_last<T: FromReply>(self) -> Result<T> {
        let last = self.commit().await?.pop().unwrap_or(Ok(ClientReply::Nil));
        T::from_reply(last?)
    }
}

/// Replies of a batch's commands, or the reason why nothing took effect.
fn decided(mut replies: Vec<ClientReply>) -> Result<Vec<Result<ClientReply>>> {
    match replies.pop() {
        Some(ClientReply::Array(items)) => Ok(items.into_iter().map(checked).collect()),
        Some(ClientReply::Nil) => Err(Error::Guard),
        Some(ClientReply::Error(line)) => Err(match Error::from_line(&line) {
            Error::Undone(line) => {
                let refused = replies.into_iter().find_map(|reply| checked(reply).err());
                Error::undone(line, refused)
            }
            error => error,
        }),
        Some(other) => Err(Error::unexpected("the replies of a batch", &other)),
        None => Err(Error::Disconnected("there was no reply".into())),
    }
}
