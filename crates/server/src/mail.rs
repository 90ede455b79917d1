//! Messages between the threads of a server.
//!
//! Every worker has an inbox. A sender wakes the worker's event loop if the worker sleeps and no earlier
//! sender has woken it: a burst of messages costs one wake-up, and none if the worker is at work.

use crate::log::Completion;
use crate::net::listen::Accepted;
use crate::net::peers::PeerSocket;
use crate::operators::counts::PeerCounts;
use crate::worker::trees::talk::{Clients, Details};
use engine::gateway::{CoordinationClient, Facts, GatewayStats, NearWord, Overview, SessionId};
use engine::ids::{BundlePart, GatewayId, MachineId, ShardId};
use engine::message::Request;
use engine::node::{Parcel, Readiness};
use engine::replica::Seed;
use engine::script::counts::ScriptCount;
use engine::stats::ShardStats;
use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use wire::peer::Hello;

/// Messages that one worker collected for another in one turn.
#[derive(Debug, Default)]
pub struct Batch {
    /// Messages for the receiver, each with the machine that sent it.
    pub parcels: Vec<(MachineId, Parcel)>,
    /// Messages for other machines whose connections the receiver holds.
    pub outgoing: Vec<Outgoing>,
    /// Messages between gateways for the receiver's gateway, each with its sender.
    pub near: Vec<(GatewayId, NearWord)>,
    /// Upper bound on the bytes of the commands that the requests come from.
    pub bytes: usize,
}

impl Batch {
    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.outgoing.is_empty() && self.near.is_empty()
    }
}

/// Requests of a bundle to shards of one worker (`engine::pipeline::bundles`).
#[derive(Debug)]
pub struct Bundle {
    /// Number of the bundle, if its parts become durable together.
    pub part: Option<BundlePart>,
    /// Whether the bundle writes.
    pub writes: bool,
    /// Upper bound on the bytes of the commands that the requests come from.
    pub bytes: usize,
    /// The requests.
    pub requests: Vec<(ShardId, Request)>,
}

/// Message for another machine.
#[derive(Debug)]
pub struct Outgoing {
    /// Destination.
    pub to: MachineId,
    /// Connection that it is meant for: a message for an earlier connection is lost with that
    /// connection.
    pub epoch: u64,
    /// Message.
    pub parcel: Parcel,
}

/// Counters of a worker and its shards.
#[derive(Debug)]
pub struct Report {
    /// Counters of the gateway.
    pub gateway: GatewayStats,
    /// Counters of each shard.
    pub shards: Vec<(ShardId, ShardStats)>,
    /// Counts of scripts, of the gateway and of each shard.
    pub scripts: Vec<ScriptCount>,
    /// Turns of the event loop.
    pub turns: u64,
    /// Shards whose snapshot is being written.
    pub snapshots: u64,
    /// Messages sent to other machines.
    pub peers: PeerCounts,
    /// Reasons why the machine is not ready.
    pub readiness: Readiness,
    /// Counters of the clients of the coordination service.
    pub clients: Clients,
}

/// Message to a worker.
pub enum Mail {
    /// New connection of a client.
    Connect(Box<Accepted>),
    /// Messages of one turn of another worker.
    Batch(Batch),
    /// Part of a bundle, of which the other parts are in other inboxes at the same moment.
    Bundle(Bundle),
    /// Connection with another machine.
    Peer(Box<PeerSocket>),
    /// Another machine has connected and sent this greeting; the number tells its connections
    /// apart.
    PeerUp(u64, Arc<Hello>),
    /// The connection with another machine is lost.
    PeerDown(MachineId),
    /// Another machine has been silent for so many microseconds.
    PeerSilent(MachineId, u64),
    /// Send another machine a question that measures the round trip, with this number.
    Ask(MachineId, u32),
    /// Send this message to another machine.
    Tell(MachineId, Box<Parcel>),
    /// Writes that are now durable.
    Durable(Vec<Completion>),
    /// A password was checked; true if it is correct.
    Verified(SessionId, bool),
    /// Reply to an administrative command of a session.
    AdminDone(SessionId, adt::Reply),
    /// Facts about the server, for the commands that report them.
    Facts(Arc<Facts>),
    /// Settings with new values.
    Configure(Arc<Vec<(String, String)>>),
    /// Reset the counters.
    ResetStats,
    /// Initial state of a new shard of this worker, which a split has created.
    Seed(Box<Seed>),
    /// Hand over all leaderships and accept none, or end that.
    StandBack(bool),
    /// Length of a tick of replicated logs in microseconds, from now on.
    Tick(u64),
    /// Write a snapshot of every shard.
    Snapshot,
    /// The snapshot thread has taken a piece of a shard's snapshot.
    SnapshotTaken(ShardId),
    /// A shard's snapshot is durable (true) or has failed.
    SnapshotDone(ShardId, bool),
    /// Piece of a shard's snapshot that was read for another machine: shard, machine and snapshot,
    /// offset in bytes, then the bytes and whether they are the last ones; none if the snapshot is
    /// gone.
    SnapshotRead((ShardId, MachineId, u64), u64, Option<(Vec<u8>, bool)>),
    /// A piece of the numbered snapshot that another machine sends was written (true) or could not
    /// be.
    SnapshotReceived((ShardId, u64), bool),
    /// All files of a shard that has left this machine are removed.
    SnapshotsRemoved(ShardId),
    /// Send a report.
    Report(Sender<Report>),
    /// Send the gateway's overview of the whole server or cluster.
    Overview(Sender<Overview>),
    /// Send details of each client of the coordination service, with lists of sessions and nodes if
    /// true.
    Details(bool, Sender<Details>),
    /// Answer to a four-letter command of a client of the coordination service.
    Word(CoordinationClient, String),
    /// Reset the counters of clients of the coordination service.
    ResetTalk {
        /// Whether to reset all counters of the server; otherwise only those of each connection.
        all: bool,
    },
    /// Stop reading from clients; report when everything that was read is done.
    Drain,
    /// Stop.
    Stop,
}

/// Sender of messages to a worker.
#[derive(Clone)]
pub struct Mailbox {
    sender: Sender<Mail>,
    waker: Arc<Waker>,
    state: Arc<InboxState>,
}

/// Flags by which senders and the receiver meet. Each side writes its own before it reads the other's, so
/// that a message never lies in the inbox of a worker that sleeps and is not woken.
#[derive(Debug, Default)]
struct InboxState {
    /// There may be messages that the receiver has not taken.
    has_mail: AtomicBool,
    /// The receiver sleeps, or is about to.
    asleep: AtomicBool,
}

impl Mailbox {
    /// Puts a message into the worker's inbox and wakes the worker. Messages to a worker that has
    /// ended are dropped.
    pub fn send(&self, mail: Mail) {
        if self.push(mail) {
            self.wake();
        }
    }

    /// Puts a message into the worker's inbox. Returns whether [`Mailbox::wake`] must follow.
    pub fn push(&self, mail: Mail) -> bool {
        let state = &self.state;
        self.sender.send(mail).is_ok()
            && !state.has_mail.swap(true, Ordering::SeqCst)
            && state.asleep.load(Ordering::SeqCst)
    }

    /// Wakes the worker.
    pub fn wake(&self) {
        if let Err(error) = self.waker.wake() {
            tracing::error!("a worker cannot be woken: {error}");
        }
    }
}

/// Receiver of a worker's messages.
pub struct Inbox {
    receiver: Receiver<Mail>,
    state: Arc<InboxState>,
}

impl Inbox {
    /// Prepares for emptying the inbox: what comes from now on counts as new.
    pub fn open(&self) {
        self.state.has_mail.swap(false, Ordering::SeqCst);
    }

    /// Whether a message may be there.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.state.has_mail.load(Ordering::Acquire)
    }

    /// Lets messages wake the worker from now on, because it is going to sleep. False if one is there: then
    /// it must not sleep.
    pub fn may_sleep(&self) -> bool {
        self.state.asleep.store(true, Ordering::SeqCst);
        !self.state.has_mail.load(Ordering::SeqCst)
    }

    /// Ends what [`Inbox::may_sleep`] began: a worker that is awake looks for messages itself.
    pub fn awake(&self) {
        self.state.asleep.store(false, Ordering::Relaxed);
    }

    /// Next message, if any.
    pub fn take(&self) -> Option<Mail> {
        self.receiver.try_recv().ok()
    }
}

/// Creates an inbox and its sender. The inbox is bounded by what the senders may have outstanding:
/// requests by [`engine::limits::PIPELINE_REQUESTS_MAX`], writes of the log by
/// [`engine::limits::PERSISTS_MAX`] per shard, messages of other machines by their own limits in
/// turn.
pub fn inbox(waker: Arc<Waker>) -> (Mailbox, Inbox) {
    let (sender, receiver) = channel();
    let state = Arc::new(InboxState::default());
    (Mailbox { sender, waker, state: state.clone() }, Inbox { receiver, state })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    #[test]
    fn a_burst_of_messages_wakes_a_sleeping_worker_once() {
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (mailbox, inbox) = inbox(waker);
        let mut events = Events::with_capacity(8);
        let mut woken = |wait| {
            poll.poll(&mut events, Some(wait)).unwrap();
            events.iter().count()
        };
        for _ in 0..2 {
            assert!(inbox.may_sleep());
            (0..5).for_each(|_| mailbox.send(Mail::ResetStats));
            assert_eq!(woken(Duration::from_secs(5)), 1);
            inbox.awake();
            inbox.open();
            assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 5);
        }
        mailbox.send(Mail::ResetStats);
        assert_eq!(woken(Duration::ZERO), 0, "it is awake");
        assert!(inbox.has_mail() && !inbox.may_sleep());
    }
}
