//! Types of one's own: handles made from the definition of a composed type.

use crate::client::Client;
use crate::command::{Command, FromReply, ToArg};
use crate::error::{Error, Result};
use crate::handles::Executor;
use adt::kinds::composed::definition::Definition;
use std::sync::Arc;

/// A composed type, by its definition (the text or JSON of `TYPE.DEFINE`).
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::{ClientReply, Type};
///
/// let auctions = Type::parse(
///     "type auction
///      part best topk with topk.init 1
///      op bid amount:number bidder
///        topk.put best $bidder $amount
///      op best
///        return topk.best best withscores",
/// )?;
/// auctions.define(&client).await?;
/// let lot = auctions.at("lot:1");
/// lot.tell(&client, "bid", &[&7.5, &"ann"]).await?;
/// let best: ClientReply = lot.ask(&client, "best", &[]).await?;
/// # let _ = best;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Type {
    definition: Arc<Definition>,
}

impl Type {
    /// Reads a definition.
    ///
    /// # Errors
    /// [`Error::Refused`] with the line and what is wrong there, in the words of the server.
    pub fn parse(definition: &str) -> Result<Self> {
        let parsed = Definition::parse(definition.as_bytes(), None);
        let parsed = parsed.map_err(|wrong| Error::Refused(wrong.to_string()))?;
        Ok(Self { definition: Arc::new(parsed) })
    }

    /// Name of the type.
    pub fn name(&self) -> &str {
        self.definition.name()
    }

    /// Defines the type, unless it is there already, and returns its version. A program can do this
    /// whenever it starts.
    ///
    /// # Errors
    /// As [`Client::send`]; [`Error::Refused`] if the name has another definition: see [`Type::migrate`].
    pub async fn define(&self, client: &Client) -> Result<u32> {
        self.put(client, "TYPE.DEFINE").await
    }

    /// Gives the type this definition, which takes the values over, and returns the version.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn migrate(&self, client: &Client) -> Result<u32> {
        self.put(client, "TYPE.MIGRATE").await
    }

    async fn put(&self, client: &Client, command: &str) -> Result<u32> {
        let text: &[u8] = self.definition.text();
        client.send(Command::new(command).arg(self.name()).arg(text)).await
    }

    /// The value under a key.
    pub fn at(&self, key: impl ToArg) -> Typed {
        let mut bytes = Vec::new();
        key.write(&mut bytes);
        Typed { definition: self.definition.clone(), key: bytes }
    }
}

/// The value of a composed type under a key. Like other handles it is only a name, and works on a client
/// and on a transaction.
#[derive(Clone, Debug)]
pub struct Typed {
    definition: Arc<Definition>,
    key: Vec<u8>,
}

impl Typed {
    /// The command of a call, for a batch, a pipeline or a dispatch.
    ///
    /// # Errors
    /// [`Error::Refused`] if the type has no such operation, or it has other parameters.
    pub fn command(&self, operation: &str, arguments: &[&dyn ToArg]) -> Result<Command> {
        let refused = |error: adt::ErrorReply| Error::Refused(error.to_string());
        let place = self.definition.operation(operation.as_bytes()).map_err(refused)?;
        let spec = &self.definition.operations()[place];
        spec.check_count(self.definition.name(), arguments.len()).map_err(refused)?;
        let name = format!("{}.{}", self.definition.name(), spec.name);
        let command = Command::new(if spec.writes { "TYPE.CALL" } else { "TYPE.CALL_RO" });
        Ok(command.arg(&self.key).arg(name).args(arguments.iter().copied()))
    }

    /// Calls an operation and returns its reply.
    ///
    /// # Errors
    /// As [`Typed::command`] and [`Executor::ask`].
    pub fn ask<T: FromReply>(
        &self,
        on: impl Executor,
        operation: &str,
        arguments: &[&dyn ToArg],
    ) -> impl Future<Output = Result<T>> + Send {
        let command = self.command(operation, arguments);
        async move { T::from_reply(on.ask(command?).await?) }
    }

    /// Calls an operation and discards its reply.
    ///
    /// # Errors
    /// As [`Typed::command`] and [`Executor::tell`].
    pub fn tell(
        &self,
        on: impl Executor,
        operation: &str,
        arguments: &[&dyn ToArg],
    ) -> impl Future<Output = Result<()>> + Send {
        let command = self.command(operation, arguments);
        async move { on.tell(command?).await }
    }
}
