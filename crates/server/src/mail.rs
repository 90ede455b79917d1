//! What the threads of a server send each other.
//!
//! Every worker has an inbox. Whoever sends wakes the worker's event loop unless somebody else has
//! woken it already and it has not looked yet: a burst of mail costs one wake-up.

use crate::counts::PeerCounts;
use crate::listen::Accepted;
use crate::log::Completion;
use crate::peers::PeerSocket;
use crate::worker::talk::{Clients, Details};
use engine::gateway::{CoordinationClient, Facts, GatewayStats, NearWord, Overview, SessionId};
use engine::ids::{GatewayId, MachineId, ShardId};
use engine::node::{Parcel, Readiness};
use engine::replica::Seed;
use engine::stats::ShardStats;
use mio::Waker;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use wire::peer::Hello;

/// What one turn of one worker has for another.
#[derive(Debug, Default)]
pub struct Batch {
    /// For the receiver, with the machine that each comes from.
    pub parcels: Vec<(MachineId, Parcel)>,
    /// For other machines that the receiver holds the connections with.
    pub outgoing: Vec<Outgoing>,
    /// For the receiver's gateway, from those that send it.
    pub near: Vec<(GatewayId, NearWord)>,
    /// Bytes of the commands that the requests come from, at most.
    pub bytes: usize,
}

impl Batch {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.parcels.is_empty() && self.outgoing.is_empty() && self.near.is_empty()
    }
}

/// Something for another machine.
#[derive(Debug)]
pub struct Outgoing {
    /// The machine.
    pub to: MachineId,
    /// The connection that it is meant for: what was meant for an earlier one is lost with it.
    pub epoch: u64,
    /// What it is.
    pub parcel: Parcel,
}

/// What a worker knows about itself and its shards.
#[derive(Debug)]
pub struct Report {
    /// Counters of the gateway.
    pub gateway: GatewayStats,
    /// Counters of each shard.
    pub shards: Vec<(ShardId, ShardStats)>,
    /// Turns of the event loop.
    pub turns: u64,
    /// Shards whose snapshot is being written.
    pub snapshots: u64,
    /// What was sent to other machines.
    pub peers: PeerCounts,
    /// What keeps the machine from doing its part.
    pub readiness: Readiness,
    /// What there is to tell about clients of the coordination service.
    pub clients: Clients,
}

/// What a worker is told.
pub enum Mail {
    /// A client has connected.
    Connect(Box<Accepted>),
    /// A turn of another worker.
    Batch(Batch),
    /// A connection with another machine.
    Peer(Box<PeerSocket>),
    /// Another machine is connected, and has said this; the number tells its connections apart.
    PeerUp(u64, Arc<Hello>),
    /// The connection with another machine is lost.
    PeerDown(MachineId),
    /// Another machine was not heard of for so many microseconds.
    PeerSilent(MachineId, u64),
    /// Ask another machine how long messages take, with this number.
    Ask(MachineId, u32),
    /// Send this to another machine.
    Tell(MachineId, Box<Parcel>),
    /// These writes are durable.
    Durable(Vec<Completion>),
    /// A password fits, or does not.
    Verified(SessionId, bool),
    /// What a session asked of the server is done.
    AdminDone(SessionId, adt::Reply),
    /// What the server knows about itself.
    Facts(Arc<Facts>),
    /// Settings with new values.
    Configure(Arc<Vec<(String, String)>>),
    /// The counters begin anew.
    ResetStats,
    /// What a new shard of this worker begins with, which has come out of a split.
    Seed(Box<Seed>),
    /// Hand all leads over and stand back, or end that.
    StandBack(bool),
    /// Replicated logs count time in ticks of so many microseconds from now on.
    Tick(u64),
    /// Write a snapshot of every shard.
    Snapshot,
    /// The files thread has taken a piece of a shard's snapshot.
    SnapshotTaken(ShardId),
    /// A shard's snapshot is durable, or has failed.
    SnapshotDone(ShardId, bool),
    /// What was read of a shard's snapshot for another machine: of which one, from which byte on,
    /// the bytes and whether they are the last ones.
    SnapshotRead((ShardId, MachineId, u64), u64, Option<(Vec<u8>, bool)>),
    /// A piece of the snapshot that another machine sends, of this number, is written, or cannot be.
    SnapshotReceived((ShardId, u64), bool),
    /// All files of a shard that is not held here any more are removed.
    SnapshotsRemoved(ShardId),
    /// Send a report.
    Report(Sender<Report>),
    /// Send what the gateway knows of the whole server or cluster.
    Overview(Sender<Overview>),
    /// Send what there is to tell about each client of the coordination service; with lists of sessions
    /// and nodes or without.
    Details(bool, Sender<Details>),
    /// What a client of the coordination service is told that has asked with four letters.
    Word(CoordinationClient, String),
    /// The counters of clients of the coordination service begin anew.
    ResetTalk {
        /// Those of the server, or those of each connection.
        all: bool,
    },
    /// Read nothing more from clients; say so once everything that was read is done.
    Drain,
    /// End.
    Stop,
}

/// Where a worker's mail goes.
#[derive(Clone)]
pub struct Mailbox {
    sender: Sender<Mail>,
    waker: Arc<Waker>,
    woken: Arc<AtomicBool>,
}

impl Mailbox {
    /// Puts mail into the worker's inbox and wakes it. A worker that has ended gets nothing.
    pub fn send(&self, mail: Mail) {
        if self.sender.send(mail).is_ok()
            && !self.woken.swap(true, Ordering::AcqRel)
            && let Err(error) = self.waker.wake()
        {
            tracing::error!("a worker cannot be woken: {error}");
        }
    }
}

/// A worker's end.
pub struct Inbox {
    receiver: Receiver<Mail>,
    woken: Arc<AtomicBool>,
}

impl Inbox {
    /// Says that mail from now on needs a wake-up. To be called before the inbox is emptied.
    pub fn open(&self) {
        self.woken.store(false, Ordering::Release);
    }

    /// The next piece of mail.
    pub fn take(&self) -> Option<Mail> {
        self.receiver.try_recv().ok()
    }
}

/// An inbox and the way to it. What is in an inbox is bounded by what the senders may have under
/// way: requests by [`engine::limits::PIPELINE_REQUESTS_MAX`], writes of the log by
/// [`engine::limits::PERSISTS_MAX`] per shard, what other machines send by what they may have under
/// way in turn.
pub fn inbox(waker: Arc<Waker>) -> (Mailbox, Inbox) {
    let (sender, receiver) = channel();
    let woken = Arc::new(AtomicBool::new(false));
    (Mailbox { sender, waker, woken: woken.clone() }, Inbox { receiver, woken })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::time::Duration;

    #[test]
    fn a_burst_of_mail_is_one_wake_up() {
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let (mailbox, inbox) = inbox(waker);
        for _ in 0..5 {
            mailbox.send(Mail::ResetStats);
        }
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(events.iter().count(), 1);
        inbox.open();
        assert_eq!(std::iter::from_fn(|| inbox.take()).count(), 5);
        mailbox.send(Mail::ResetStats);
        poll.poll(&mut events, Some(Duration::from_secs(5))).unwrap();
        assert_eq!(events.iter().count(), 1);
    }
}
