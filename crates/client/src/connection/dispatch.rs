//! Commands that are sent without waiting for replies.

use super::mux::{Mux, Replies, lost};
use crate::command::{Command, FromReply};
use crate::error::{Result, checked};
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use wire::resp::ClientReply;

/// A connection of its own, over which commands are sent without waiting. They take effect in the
/// order in which they are sent, whatever shards hold their keys.
///
/// ```no_run
/// # async fn example(client: client::Client) -> client::Result<()> {
/// use client::Command;
///
/// let mut dispatch = client.dispatch().await?;
/// let number = dispatch.send::<i64>(Command::new("INCR").arg("posts")).await?.await?;
/// let mut promises = Vec::new();
/// for follower in ["ben", "cem"] {
///     let push = Command::new("LPUSH").arg(format!("timeline:{follower}")).arg(number);
///     promises.push(dispatch.send::<i64>(push).await?);
/// }
/// for promise in promises {
///     promise.await?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// Dropping it does not revoke commands that were sent.
pub struct Dispatch {
    mux: Mux,
}

impl Dispatch {
    pub(crate) fn new(mux: Mux) -> Self {
        Self { mux }
    }

    /// Sends a command: waits for room in the connection, but not for the reply.
    ///
    /// # Errors
    /// The connection was lost before; the command was not sent.
    pub async fn send<T: FromReply>(&mut self, command: Command) -> Result<Promise<T>> {
        let mut bytes = Vec::new();
        command.encode(&mut bytes);
        let replies = self.mux.begin(bytes, 1, command.waits()).await?;
        Ok(Promise { replies, kind: PhantomData })
    }

    /// Waits until every command that was sent has a reply. Their promises hold the results: await
    /// those before an action outside of the store that other clients can see.
    ///
    /// # Errors
    /// The connection is lost.
    pub async fn wait(&mut self) -> Result<()> {
        // Replies come in the order of the commands.
        let reply = self.send::<ClientReply>(Command::new("PING")).await?;
        reply.await.map(drop)
    }
}

/// A future for the reply to a command. Dropping it does not revoke the command.
///
/// A promise cannot be mistaken for the reply itself: it has no text, no truth value and no
/// arithmetic.
///
/// ```compile_fail
/// # async fn example(mut dispatch: client::Dispatch) -> client::Result<()> {
/// let number = dispatch.send::<i64>(client::Command::new("INCR").arg("n")).await?;
/// println!("order:{number}");
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The server refused the command, or the connection broke: then it may have taken effect.
#[must_use = "the reply may be an error"]
pub struct Promise<T> {
    replies: Replies,
    kind: PhantomData<fn() -> T>,
}

impl<T: FromReply> Future for Promise<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.replies).poll(context).map(|replies| {
            let reply = replies.ok().and_then(|mut replies| replies.pop()).ok_or_else(lost)?;
            T::from_reply(checked(reply)?)
        })
    }
}
