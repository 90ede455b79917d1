//! The connection of a cache, on which the server watches what is read.

use super::Shared;
use super::answer::Question;
use super::store::Words;
use crate::client::Client;
use crate::command::Command;
use crate::connection::mux::lost;
use crate::connection::{Connection, Outbox};
use crate::error::{Error, Result, checked};
use adt::Blob;
use std::collections::VecDeque;
use std::sync::Weak;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use wire::resp::ClientReply;

/// Time between requests that show whether the server still answers.
const BEAT: Duration = Duration::from_millis(500);
/// Longest time without a reply, although one is due, after which the connection is lost, unless the
/// client's own time-out is shorter.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Most requests that are taken from the queue at once.
const TOGETHER_MAX: usize = 256;

/// A request for the connection.
pub(super) struct Asked {
    pub encoded: Blob,
    /// The words under which the reply may be kept, and the number of the request.
    pub place: Option<(Words, u64)>,
    pub question: Question,
    /// The share in the room for requests without a reply.
    pub _room: OwnedSemaphorePermit,
}

/// A request that was sent, and when; without `asked`, one for a sign of life.
pub(super) struct Sent {
    pub asked: Option<Asked>,
    pub at: Instant,
}

/// Drops everything at the end of a connection, however it ends: nothing tells any more what has
/// changed.
struct End<'a>(&'a Weak<Shared>);

impl Drop for End<'_> {
    fn drop(&mut self) {
        if let Some(cache) = self.0.upgrade() {
            cache.state().lose();
        }
    }
}

/// Opens a connection and serves it until it breaks, or the cache or its client ends.
pub(super) async fn run(
    cache: Weak<Shared>,
    client: Client,
    mut incoming: UnboundedReceiver<Asked>,
) {
    let served = {
        let _end = End(&cache);
        tokio::select! {
            served = serve(&cache, &client, &mut incoming) => served,
            () = client.closed() => Ok(()),
        }
    };
    // Later requests are for another connection.
    let reason = match served {
        Ok(()) => Error::Closed,
        Err(error) if error.maybe_committed() => Error::Connect(error.to_string()),
        Err(error) => error,
    };
    while let Ok(asked) = incoming.try_recv() {
        asked.question.settle(Err(reason.clone()));
    }
}

/// Opens a connection that tracks what it reads.
async fn open(client: &Client) -> Result<Connection> {
    let mut connection = client.connection().await?;
    let mut bytes = Vec::new();
    Command::new("CLIENT").arg("TRACKING").arg("ON").encode(&mut bytes);
    let told = timeout(client.options().connect_timeout, connection.exchange(&bytes, 1)).await;
    for reply in told.map_err(|_| lost())?? {
        checked(reply)?;
    }
    Ok(connection)
}

/// Carries requests and replies; an error is why there are no more.
async fn serve(
    cache: &Weak<Shared>,
    client: &Client,
    incoming: &mut UnboundedReceiver<Asked>,
) -> Result<()> {
    let mut connection = open(client).await?;
    let patience = client.options().reply_timeout.map_or(SILENCE_MAX, |own| own.min(SILENCE_MAX));
    let mut ping = Vec::new();
    Command::new("PING").encode(&mut ping);
    let mut last = Instant::now();
    let mut beat = interval_at(last + BEAT, BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut out, mut taken) = (Outbox::default(), Vec::new());
    let mut waiting = VecDeque::<Sent>::new();
    loop {
        tokio::select! {
            count = incoming.recv_many(&mut taken, TOGETHER_MAX) => {
                if count == 0 {
                    return Ok(());
                }
                let at = Instant::now();
                for asked in taken.drain(..) {
                    out.push(&asked.encoded);
                    waiting.push_back(Sent { asked: Some(asked), at });
                }
            }
            written = out.write_to(&mut connection.writer), if !out.is_empty() => written?,
            frame = connection.reader.frame() => {
                let (frame, cache) = (frame?, cache.upgrade().ok_or_else(lost)?);
                last = Instant::now();
                match frame {
                    ClientReply::Push(message) => cache.state().told(&message),
                    reply => cache.state().answered(waiting.pop_front().ok_or_else(lost)?, reply),
                }
            }
            _ = beat.tick() => {
                let due = waiting.front().map(|first| first.at.max(last));
                if due.is_some_and(|since| since.elapsed() > patience) {
                    return Err(lost());
                }
                out.push(&ping);
                waiting.push_back(Sent { asked: None, at: Instant::now() });
            }
        }
    }
}
