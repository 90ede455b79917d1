//! A connection for a stream of requests, with replies in the same order: the one that all tasks of
//! a client share, and those of dispatches.

use super::{Address, Connection, Outbox};
use crate::client::Options;
use crate::command::Command;
use crate::error::{Error, Result};
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;
use wire::resp::ClientReply;

/// Most requests that wait to be written.
const QUEUE_MAX: usize = 1024;
/// Most requests that wait for replies.
const IN_FLIGHT_MAX: usize = 4096;
/// A connection is looked at so many times in the time-out, at most, to see whether it is silent.
const ALARMS: u32 = 8;
/// Most requests that are taken from the queue at once.
const TOGETHER_MAX: usize = 256;

struct Request {
    bytes: Vec<u8>,
    replies: usize,
    /// Whether the replies may take as long as the commands say.
    waits: bool,
    done: oneshot::Sender<Vec<ClientReply>>,
}

/// A request that waits for replies.
struct Waiting {
    missing: usize,
    waits: bool,
    replies: Vec<ClientReply>,
    done: oneshot::Sender<Vec<ClientReply>>,
}

/// Receiver of the replies to a request; fails if the connection breaks.
pub(crate) type Replies = oneshot::Receiver<Vec<ClientReply>>;

/// A handle to a shared connection.
#[derive(Clone)]
pub(crate) struct Mux(mpsc::Sender<Request>);

impl Mux {
    /// Connects, and lets a task of the runtime serve the connection until all handles are dropped
    /// or it breaks. Unless they are `ordered`, commands for different shards need not wait for
    /// each other.
    pub async fn open(address: &Address, options: &Options, ordered: bool) -> Result<Self> {
        let connection = Connection::open(address, options).await?;
        let (requests, incoming) = mpsc::channel(QUEUE_MAX);
        let mut first = Vec::new();
        if !ordered {
            Command::new("CLIENT").arg("ORDER").arg("OFF").encode(&mut first);
        }
        tokio::spawn(serve(connection, incoming, first, options.reply_timeout));
        Ok(Self(requests))
    }

    /// Whether the connection is gone.
    pub fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// Sends bytes that cause `replies` replies, which may take long if a command `waits`.
    pub async fn call(
        &self,
        bytes: Vec<u8>,
        replies: usize,
        waits: bool,
    ) -> Result<Vec<ClientReply>> {
        self.begin(bytes, replies, waits).await?.await.map_err(|_| lost())
    }

    /// [`Mux::call`], but without waiting for the replies.
    pub async fn begin(&self, bytes: Vec<u8>, replies: usize, waits: bool) -> Result<Replies> {
        let (done, answer) = oneshot::channel();
        let request = Request { bytes, replies, waits, done };
        let not_sent = |_| Error::Connect("the connection was lost".into());
        self.0.send(request).await.map_err(not_sent)?;
        Ok(answer)
    }
}

/// The error for replies that will never arrive.
pub(crate) fn lost() -> Error {
    Error::Disconnected("it was lost, or the server did not answer in time".into())
}

/// Serves until no handle is left or the connection breaks; then waiters are notified because
/// `done` is dropped. The reply to `first` is discarded. A connection on which no reply arrives for
/// `patience`, although one is due, counts as broken.
async fn serve(
    mut connection: Connection,
    mut incoming: mpsc::Receiver<Request>,
    first: Vec<u8>,
    patience: Option<Duration>,
) {
    let mut waiting: VecDeque<Waiting> = VecDeque::new();
    if !first.is_empty() {
        let (done, _) = oneshot::channel();
        waiting.push_back(Waiting { missing: 1, waits: false, replies: Vec::new(), done });
    }
    // The time of the last reply, or at which the first request after it was sent.
    let mut last = Instant::now();
    let alarm = tokio::time::sleep(patience.unwrap_or_default());
    tokio::pin!(alarm);
    let mut out = Outbox::default();
    out.push(&first);
    let mut taken = Vec::new();
    let mut open = true;
    while open || !waiting.is_empty() {
        tokio::select! {
            count = incoming.recv_many(&mut taken, TOGETHER_MAX),
                if open && waiting.len() < IN_FLIGHT_MAX =>
            {
                open = count > 0;
                if waiting.is_empty() {
                    last = Instant::now();
                }
                for Request { bytes, replies: missing, waits, done } in taken.drain(..) {
                    out.push(&bytes);
                    waiting.push_back(Waiting { missing, waits, replies: Vec::new(), done });
                }
            }
            written = out.write_to(&mut connection.writer), if !out.is_empty() => {
                if written.is_err() {
                    return;
                }
            }
            reply = connection.reader.reply(), if !waiting.is_empty() => {
                let (Ok(reply), Some(first)) = (reply, waiting.front_mut()) else { return };
                last = Instant::now();
                first.replies.push(reply);
                first.missing -= 1;
                if first.missing == 0 && let Some(first) = waiting.pop_front() {
                    // The caller may have stopped waiting.
                    let _ = first.done.send(first.replies);
                }
            }
            () = &mut alarm, if patience.is_some() && !waiting.is_empty() => {
                let patience = patience.unwrap_or_default();
                if last.elapsed() >= patience && waiting.front().is_some_and(|one| !one.waits) {
                    return;
                }
                let rest = patience.saturating_sub(last.elapsed());
                alarm.as_mut().reset(Instant::now() + rest.max(patience / ALARMS));
            }
        }
    }
}
