//! Worker: one thread with an event loop, a gateway, its connections and its shards.
//!
//! One wake-up of the loop is one **turn**: each readable connection is read once, all complete
//! commands are executed, their writes go into one log entry per shard, and each connection with
//! replies is written once. The costs of a system call, of consensus and of the disk are thus
//! shared by everything that has arrived at the same time, and the busier a worker is, the less
//! each request costs. A request whose shard is on the same worker never leaves it; the other
//! requests travel in one batch per worker and turn.

mod bundles;
mod clogs;
mod connection;
mod foreign;
mod leads;
mod peers;
mod reading;
mod replies;
mod routing;
mod snapshots;
mod timing;
pub mod trees;

use crate::control::Notice;
use crate::data::mapfile::MapFile;
use crate::data::snapshot::Job;
use crate::host::budget::Budget;
use crate::host::clock::Clock;
use crate::host::memory::LogMemory;
use crate::log::{Completion, LogSender, REMOVED};
use crate::mail::{Batch, Inbox, Mail, Mailbox, Outgoing, Report};
use crate::net::listen::{Accepted, Connections};
use crate::net::password::Attempt;
use crate::net::peers::Linked;
use crate::operators::script_lines::ScriptLines;
use crate::worker::trees::dialogue::Dialogue;
use crate::worker::trees::talk::Talk;
use connection::Connection;
use engine::gateway::{CoordinationClient, Gateway, Opening, ServerReply, SessionId};
use engine::ids::{GatewayId, ShardId};
use engine::limits::{SHARDS_MAX, UNAUTHENTICATED_MS_MAX};
use engine::node::Node;
use engine::now::Now;
use engine::pipeline::bundles::BundleOrder;
use engine::script::counts::ScriptCount;
use foldhash::fast::RandomState;
use leads::Leads;
use mio::{Events, Interest, Poll, Token};
use peers::Links;
use replies::Heavies;
use slab::Slab;
use snapshots::Snapshots;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Sender, SyncSender};
use std::time::Duration;
use wire::entry::EntryFormat;
use wire::peer::Hello;

/// Token of the inbox's event.
pub const INBOX: Token = Token(usize::MAX);
/// Limit on the events of one wake-up.
const EVENTS_MAX: usize = 1024;
/// Size of a read from a connection.
const READ_BYTES: usize = 64 << 10;
/// Time for which requests continue after their client has stopped sending.
const LEAVING_US_MAX: u64 = 200_000;
/// Interval between checks whether there is room for large replies again.
const STARVED_US: u64 = 5_000;
/// Time for which a stopping worker waits for requests in progress.
const DRAIN_US_MAX: u64 = 2_000_000;
/// Time without progress after which a stopping worker has finished what it has read.
const DRAIN_QUIET_US: u64 = 20_000;

/// Interval between checks whether clients that wait for the disk may continue: the disk's backlog
/// may be another worker's.
const HELD_UP_LOOK_US: u64 = 5_000;

/// Origin of a password attempt.
pub type Origin = (GatewayId, SessionId);

/// Counters of a worker that other threads read.
#[derive(Debug, Default)]
pub struct Traffic {
    /// Bytes received from clients.
    pub bytes_in: AtomicU64,
    /// Bytes sent to clients.
    pub bytes_out: AtomicU64,
    /// Bytes of memory in queues and buffers.
    pub buffered: AtomicU64,
}

/// Other threads and shared state that a worker uses.
pub struct Peers {
    /// Inboxes of all workers, including this one.
    pub workers: Vec<Mailbox>,
    /// Log; none without durability.
    pub log: Option<LogSender>,
    /// Thread that writes and reads snapshots.
    pub snapshots: SyncSender<Job>,
    /// Thread that checks passwords.
    pub passwords: Sender<Attempt<Origin>>,
    /// Control thread.
    pub control: Sender<Notice>,
    /// Counters of connections.
    pub connections: Arc<Connections>,
    /// Counters of this worker.
    pub traffic: Arc<Traffic>,
    /// Machines that are connected to this one.
    pub linked: Arc<Linked>,
    /// File of the shard map.
    pub map: Arc<MapFile>,
    /// Whether leaderships are handed over when another machine asks for it.
    pub obeys: Arc<AtomicBool>,
    /// Memory kept on behalf of clients.
    pub budget: Arc<Budget>,
    /// Memory that all logs use.
    pub log_memory: Arc<LogMemory>,
    /// Order of the bundles of all workers.
    pub order: Arc<BundleOrder>,
}

/// Identity and resources of a worker.
pub struct Place {
    /// Gateway of the worker.
    pub id: GatewayId,
    /// Clock.
    pub clock: Clock,
    /// Event loop.
    pub poll: Poll,
    /// Inbox.
    pub inbox: Inbox,
    /// Number of shards of the whole server.
    pub shards: u16,
    /// Greeting to other machines; none for a single machine.
    pub hello: Option<Hello>,
    /// Bytes of log of a shard after which a snapshot of it is written.
    pub snapshot_log_bytes: u64,
}

/// Worker.
pub struct Worker {
    id: GatewayId,
    /// Number of shards of the whole server.
    shards: u16,
    clock: Clock,
    poll: Poll,
    inbox: Inbox,
    gateway: Gateway,
    /// Shards of this worker, and routes to all others.
    node: Node<EntryFormat>,
    peers: Peers,
    /// Connections with other machines.
    links: Links,
    connections: Slab<Connection>,
    sessions: HashMap<SessionId, usize, RandomState>,
    /// Connections of clients of the coordination service.
    clients: HashMap<CoordinationClient, usize, RandomState>,
    /// Counters of their closed connections.
    left: Talk,
    /// Last session that was looked up, since replies come in bursts.
    recent: (SessionId, usize),
    /// Connections to be read in this turn.
    ready: Vec<usize>,
    /// Connections with output in this turn.
    dirty: Vec<usize>,
    /// Connections with replies that may be sent together with the next one.
    lingering: Vec<usize>,
    /// Connections whose commands wait until earlier ones are answered.
    paused: Vec<usize>,
    /// Connections that may be unauthenticated, in the order of their deadlines (µs), with their
    /// numbers.
    unproven: VecDeque<(u64, usize, u64)>,
    /// Connections whose client has stopped sending, with the deadlines for their requests in
    /// progress (µs), and their numbers.
    leaving: VecDeque<(u64, usize, u64)>,
    /// Connections with requests in progress whose replies may be large.
    heavies: Heavies,
    /// Connections with much unsent data that may make no progress, with their numbers.
    clogged: Vec<(usize, u64)>,
    /// Times of the next search among these, and of the next search for incomplete commands (µs).
    clogs_due_us: u64,
    inputs_due_us: u64,
    /// Whether connections wait until there is room for large replies.
    starved: bool,
    /// Number of connections so far; also the number of the last one.
    accepted: u64,
    /// Messages of this turn for the other workers.
    outbound: Vec<Batch>,
    scratch: Vec<u8>,
    snapshots: Snapshots,
    leads: Leads,
    received_bytes: u64,
    /// Bytes of the commands taken in this turn, since log entries were last closed for their size,
    /// and since no write was on its way to the disk.
    turn_bytes: usize,
    entry_bytes: usize,
    unlogged_bytes: usize,
    /// Bytes of the commands taken in this turn that were counted for a bundle.
    bundled_bytes: usize,
    /// Whether parts of bundles are in the inbox that this worker has sent.
    has_own: bool,
    /// Whether the inbox is being emptied.
    takes_mail: bool,
    /// Memory of the buffers of all clients' connections.
    buffered: usize,
    sent_bytes: u64,
    turns: u64,
    /// Whether there is more to do at once.
    again: bool,
    /// Time at which reading from clients stopped.
    draining: Option<u64>,
    /// Whether everything that was read before has been completed.
    drained: bool,
    /// Writes that the log thread has not reported as durable yet.
    persisting: usize,
    /// Time of the shards' next tick. Kept between turns, because the shards' answers are relative
    /// to the current time.
    shards_due_us: u64,
    /// Time of the last progress.
    moved_us: u64,
    /// Time from which the next client that sends HTTP may be logged (µs).
    warns_us: u64,
    /// Lines of scripts in the log.
    script_lines: ScriptLines,
    stopping: bool,
}

/// Ends the process if a worker panics: its shards would never answer again.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Worker {
    /// Creates a worker with its shards.
    pub fn new(place: Place, gateway: Gateway, mut node: Node<EntryFormat>, peers: Peers) -> Self {
        if place.hello.is_none() {
            node.bundles().share_order(peers.order.clone());
        }
        let Place { id, clock, poll, inbox, shards, hello, snapshot_log_bytes } = place;
        let kept = peers.log.is_some();
        let snapshots = Snapshots::new(shards, snapshot_log_bytes, kept, peers.log_memory.clone());
        let mut outbound = Vec::new();
        outbound.resize_with(peers.workers.len(), Batch::default);
        Self {
            id,
            shards,
            clock,
            poll,
            inbox,
            gateway,
            snapshots,
            node,
            peers,
            links: Links::new(hello),
            connections: Slab::new(),
            sessions: HashMap::default(),
            clients: HashMap::default(),
            left: Talk::default(),
            recent: (SessionId(u64::MAX), 0),
            ready: Vec::new(),
            dirty: Vec::new(),
            lingering: Vec::new(),
            paused: Vec::new(),
            unproven: VecDeque::new(),
            leaving: VecDeque::new(),
            heavies: Heavies::default(),
            clogged: Vec::new(),
            clogs_due_us: 0,
            inputs_due_us: 0,
            starved: false,
            accepted: 0,
            outbound,
            scratch: vec![0; READ_BYTES],
            leads: Leads::default(),
            received_bytes: 0,
            turn_bytes: 0,
            entry_bytes: 0,
            unlogged_bytes: 0,
            bundled_bytes: 0,
            has_own: false,
            takes_mail: false,
            buffered: 0,
            sent_bytes: 0,
            turns: 0,
            again: false,
            draining: None,
            drained: false,
            persisting: 0,
            shards_due_us: u64::MAX,
            moved_us: 0,
            warns_us: 0,
            script_lines: ScriptLines::default(),
            stopping: false,
        }
    }

    /// Runs until it receives [`Mail::Stop`].
    ///
    /// # Errors
    /// If the system refuses to report events.
    pub fn run(mut self) -> io::Result<()> {
        let _guard = AbortOnPanic;
        let mut events = Events::with_capacity(EVENTS_MAX);
        while !self.stopping {
            let timeout = self.timeout();
            let sleeps = timeout != Some(Duration::ZERO) && self.inbox.may_sleep();
            let timeout = if sleeps { timeout } else { Some(Duration::ZERO) };
            let polled = self.poll.poll(&mut events, timeout);
            self.inbox.awake();
            if let Err(error) = polled
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Err(error);
            }
            self.turn(&events);
        }
        Ok(())
    }

    /// Time to sleep.
    fn timeout(&mut self) -> Option<Duration> {
        let now = self.clock.now();
        let due = self.node.next_timeout(now);
        self.shards_due_us = self.shards_due_us.min(due.unwrap_or(u64::MAX));
        if self.again || (!self.ready.is_empty() && !self.is_congested()) {
            return Some(Duration::ZERO);
        }
        let next = Some(self.shards_due_us)
            .filter(|at| *at < u64::MAX)
            .into_iter()
            .chain(self.node.outcomes_due_us(now))
            .chain(self.gateway.next_timeout())
            .chain(self.links.due_us())
            .chain(self.unproven.front().map(|(deadline, ..)| *deadline))
            .chain(self.leaving.iter().map(|(deadline, ..)| *deadline).filter(|at| *at < u64::MAX))
            .chain((!self.clogged.is_empty()).then_some(self.clogs_due_us))
            .chain(self.starved.then_some(now.mono_us + STARVED_US))
            .chain((!self.ready.is_empty()).then(|| now.mono_us + HELD_UP_LOOK_US))
            .chain(self.draining.filter(|_| !self.drained).map(|_| now.mono_us + DRAIN_QUIET_US))
            .min();
        next.map(|at| Duration::from_micros(at.saturating_sub(now.mono_us)))
    }

    /// One turn.
    ///
    /// The thread may be suspended between any two lines, for longer than a lease. A request must
    /// therefore never be judged by a clock that was read before the request arrived: the leader at
    /// that time need not be the leader now. So the clock is read again after every step that takes
    /// in requests, whether from a client, another worker or another machine.
    fn turn(&mut self, events: &Events) {
        self.turns += 1;
        self.turn_bytes = 0;
        self.bundled_bytes = 0;
        self.again = false;
        for event in events {
            if event.token() == INBOX || self.links.event(event) {
                continue;
            }
            let slot = event.token().0;
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.hangup |= event.is_read_closed() || event.is_error();
            let takes_more = event.is_writable() && connection.full;
            if event.is_readable() || connection.hangup {
                connection.readable = true;
                self.queue(slot);
            }
            if takes_more {
                self.mark_dirty(slot);
            }
        }
        self.drain_inbox();
        let now = self.clock.now();
        if self.shards_due_us <= now.mono_us {
            self.shards_due_us = u64::MAX;
            if let Err(error) = self.node.tick(now) {
                fail(ShardId::default(), &error);
            }
        }
        self.read_links(now);
        self.keep_map();
        let now = self.clock.now();
        if self.gateway.next_timeout().is_some_and(|at| at <= now.mono_us) {
            self.gateway.tick(now);
        }
        self.expire_unproven(now);
        self.read_ready();
        // Timestamps must be later than those issued elsewhere before this turn's requests arrived.
        let now = self.clock.now();
        self.settle(now);
        self.post_parcels();
        self.publish_clocks();
        self.node.bundles().calm();
        self.write_snapshots(now);
        self.flush(now);
        self.close_leaving(now);
        self.close_clogged(now);
        self.resume();
        self.send_batches();
        self.flush_links(now);
        self.count_traffic();
        self.log_leads();
        self.drain(now);
    }

    /// Called before the replies of this turn are sent: requests that depend on them get later
    /// timestamps, on all shards.
    fn publish_clocks(&self) {
        self.clock.raise(self.node.clock().max(self.gateway.decided()));
    }

    /// Begins snapshots of all shards. Shards that are not on this machine need none.
    fn begin_snapshots(&mut self) {
        self.snapshots.begin_all(self.node.local());
        let workers = self.peers.workers.len();
        let own = (0..SHARDS_MAX).filter(|shard| shard % workers == usize::from(self.id.worker));
        let own = own.map(|shard| shard as u16);
        for shard in own.map(ShardId).filter(|shard| self.node.replica(*shard).is_none()) {
            // The control thread is gone only when the process ends.
            let _ = self.peers.control.send(Notice::Snapshot { shard, ok: true, asked: true });
        }
    }

    /// Stores a new shard map before the machine acts on it. Maps change so rarely that a worker
    /// may wait for the disk.
    fn keep_map(&mut self) {
        if let Some(count) = self.node.take_misfit() {
            tracing::error!(
                "the cluster was founded with {count} shards, and this machine's directory with {}: \
                 start it with --shards {count} in an empty directory",
                self.shards
            );
        }
        let Some(map) = self.node.take_new_map() else { return };
        self.links.demand(map.level);
        match self.peers.map.keep(&map) {
            Ok(true) => tracing::info!("the shard map has epoch {} now", map.epoch),
            Ok(false) => {}
            Err(error) => {
                tracing::error!("the shard map cannot be stored: {error}; the server stops");
                std::process::exit(74);
            }
        }
    }

    fn take_mail(&mut self) {
        self.takes_mail = true;
        self.has_own = false;
        self.inbox.open();
        while let Some(mail) = self.inbox.take() {
            let now = self.clock.now();
            self.moved_us = now.mono_us;
            match mail {
                Mail::Connect(accepted) => self.connect(now, *accepted),
                Mail::Batch(batch) => self.take_batch(now, batch),
                Mail::Bundle(bundle) => {
                    // Until this moment ends, other parts may not be in their inboxes.
                    drop(self.peers.order.moment());
                    self.take_parts(now, bundle);
                }
                Mail::Peer(socket) => self.link(now, *socket),
                Mail::PeerUp(epoch, hello) => self.peer_up(now, epoch, &hello),
                Mail::PeerDown(machine) => self.peer_down(now, machine),
                Mail::PeerSilent(machine, silent_us) => {
                    self.node.doubt(now, machine, silent_us);
                }
                Mail::Ask(machine, number) => self.links.ask(machine, number),
                Mail::Tell(to, parcel) => {
                    let epoch = self.links.epoch(to);
                    self.links.put(Outgoing { to, epoch, parcel: *parcel });
                }
                Mail::Durable(completions) => self.durable(now, &completions),
                Mail::Verified(session, ok) => {
                    self.gateway.server_replied(now, session, ServerReply::Verified(ok))
                }
                Mail::AdminDone(session, reply) => {
                    self.gateway.server_replied(now, session, ServerReply::Admin(reply))
                }
                Mail::Facts(facts) => self.gateway.set_facts((*facts).clone()),
                Mail::Configure(settings) => {
                    for (name, value) in settings.iter() {
                        self.gateway.configure(name, value);
                    }
                }
                Mail::ResetStats => self.gateway.reset_stats(),
                Mail::Seed(seed) => {
                    let shard = seed.header.shard;
                    if let Err(error) = self.node.sow(now, *seed) {
                        fail(shard, &error);
                    }
                }
                Mail::StandBack(on) => self.node.stand_back(now, on),
                Mail::Tick(tick_us) => self.node.set_tick(tick_us),
                Mail::Snapshot => self.begin_snapshots(),
                Mail::SnapshotTaken(shard) => self.snapshots.taken(shard),
                Mail::SnapshotDone(shard, ok) => self.snapshot_done(now, shard, ok),
                Mail::SnapshotRead(which, offset, read) => {
                    self.node.snapshot_read(which, offset, read);
                }
                Mail::SnapshotsRemoved(shard) => self.node.removed(shard),
                Mail::SnapshotReceived(which, ok) => {
                    self.snapshot_received(now, which, ok);
                }
                Mail::Report(reply) => {
                    // The receiver may have given up waiting.
                    let _ = reply.send(self.report(now));
                }
                Mail::Overview(reply) => {
                    let _ = reply.send(self.gateway.overview());
                }
                Mail::Details(with_lists, reply) => {
                    let _ = reply.send(self.details(with_lists));
                }
                Mail::Word(client, text) => self.answer_word(client, &text),
                Mail::ResetTalk { all } => self.reset_talk(all),
                Mail::Drain => {
                    self.node.stand_back(now, true);
                    self.draining = Some(now.mono_us);
                }
                Mail::Stop => self.stopping = true,
            }
        }
        self.takes_mail = false;
    }

    fn connect(&mut self, now: Now, mut accepted: Accepted) {
        if self.draining.is_some() {
            self.peers.connections.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let opening = Opening {
            peer: accepted.peer.to_string(),
            local_address: accepted.local.to_string(),
            tls: accepted.tls.is_some(),
        };
        let entry = self.connections.vacant_entry();
        let slot = entry.key();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registered = self.poll.registry().register(&mut accepted.stream, Token(slot), interest);
        if let Err(error) = registered {
            tracing::warn!("a connection from {} cannot be watched: {error}", accepted.peer);
            self.peers.connections.open.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        self.accepted += 1;
        let number = self.accepted;
        let connection = if accepted.port.is_for_coordination() {
            let dialogue = Dialogue::new(&mut self.gateway, now, accepted.peer);
            self.clients.insert(dialogue.client, slot);
            let mut connection = Connection::new(accepted, SessionId::default(), number);
            connection.dialogue = Some(Box::new(dialogue));
            connection
        } else {
            let session = self.gateway.open(now, opening);
            self.sessions.insert(session, slot);
            let mut connection = Connection::new(accepted, session, number);
            connection.authenticated = self.gateway.session(session).is_authenticated;
            connection
        };
        if is_unproven(&connection, &self.gateway) {
            self.unproven.push_back((now.mono_us + UNAUTHENTICATED_MS_MAX * 1000, slot, number));
        }
        entry.insert(connection);
    }

    /// Closes connections that have not authenticated in time, or, on ports without authentication,
    /// have not sent a request in time.
    fn expire_unproven(&mut self, now: Now) {
        while let Some(&(deadline, slot, number)) = self.unproven.front()
            && deadline <= now.mono_us
        {
            self.unproven.pop_front();
            let Some(connection) = self.connections.get(slot) else { continue };
            if connection.number == number && is_unproven(connection, &self.gateway) {
                tracing::debug!("closed a connection that did not authenticate in time");
                self.close(now, slot);
            }
        }
    }

    /// Closes a connection in any state.
    fn close(&mut self, now: Now, slot: usize) {
        let Some(mut connection) = self.connections.try_remove(slot) else { return };
        if let Some(dialogue) = &connection.dialogue {
            self.gateway.coordination(now).left(dialogue.client);
            self.clients.remove(&dialogue.client);
            self.left.add(&dialogue.share);
        } else {
            self.gateway.close(now, connection.session);
            self.sessions.remove(&connection.session);
        }
        self.peers.budget.inputs.change(connection.counted.0, 0);
        self.peers.budget.replies.change(connection.replies.cost(), 0);
        self.recent = (SessionId(u64::MAX), 0);
        if let Err(error) = self.poll.registry().deregister(connection.stream()) {
            tracing::debug!("a closed connection cannot be deregistered: {error}");
        }
        self.peers.connections.open.fetch_sub(1, Ordering::Relaxed);
        self.buffered -= connection.buffered;
        // Closing may abort a transaction, which produces messages to shards.
        self.again = true;
    }

    /// Handles a client that has stopped sending. It may still want its replies (`nc` closes its
    /// side of the connection first), but a request that waits for other clients must not wait for
    /// a client that is gone.
    fn leave(&mut self, now: Now, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.dialogue.is_some() && connection.unsent() == 0 {
            return self.close(now, slot);
        }
        connection.deaf = true;
        self.leaving.push_back((now.mono_us + LEAVING_US_MAX, slot, connection.number));
    }

    /// Closes connections of clients that have stopped sending and received everything. A client that waits
    /// is not given any time: most such clients are gone, and nothing must be handed to them.
    fn close_leaving(&mut self, now: Now) {
        for _ in 0..self.leaving.len() {
            let Some((deadline, slot, number)) = self.leaving.pop_front() else { return };
            let Some(connection) = self.connections.get(slot) else { continue };
            if connection.number != number {
                continue;
            }
            let status = self.gateway.session(connection.session);
            let done = connection.dialogue.is_some() || status.in_progress == 0;
            let over = !done && (status.waits || deadline <= now.mono_us);
            if done && connection.unsent() == 0 || over {
                self.close(now, slot);
            } else if done {
                // Sending continues when the socket takes more, or the connection breaks.
                self.leaving.push_back((u64::MAX, slot, number));
            } else {
                self.leaving.push_back((deadline, slot, number));
            }
        }
    }

    fn durable(&mut self, now: Now, completions: &[Completion]) {
        // Approximately the bytes that were on their way with these writes; none remain after the
        // last write.
        let count = completions.iter().filter(|(_, number)| *number != REMOVED).count();
        self.unlogged_bytes -= self.unlogged_bytes * count / self.persisting.max(1);
        self.persisting -= count;
        for (shard, number) in completions {
            if *number == REMOVED {
                self.remove_snapshots(*shard);
                continue;
            }
            if let Err(error) = self.node.persisted(now, *shard, *number) {
                fail(*shard, &error);
            }
        }
    }

    /// Adds a connection to the list of those to be read.
    fn queue(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.queued
        {
            connection.queued = true;
            self.ready.push(slot);
        }
    }

    /// Adds a connection to the list of those with output.
    fn mark_dirty(&mut self, slot: usize) {
        if let Some(connection) = self.connections.get_mut(slot)
            && !connection.dirty
        {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Updates the count of a connection's buffers.
    fn count_buffers(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let buffers = connection.input.capacity() + connection.output.capacity();
        let held = buffers + connection.replies.cost();
        self.buffered = self.buffered - connection.buffered + held;
        connection.buffered = held;
    }

    fn count_traffic(&mut self) {
        let traffic = &self.peers.traffic;
        let buffered = self.buffered + self.unlogged_bytes + self.links.buffered();
        traffic.buffered.store(buffered as u64, Ordering::Relaxed);
        if self.received_bytes > 0 {
            traffic.bytes_in.fetch_add(std::mem::take(&mut self.received_bytes), Ordering::Relaxed);
        }
        if self.sent_bytes > 0 {
            traffic.bytes_out.fetch_add(std::mem::take(&mut self.sent_bytes), Ordering::Relaxed);
        }
    }

    fn script_counts(&self) -> Vec<ScriptCount> {
        let shards = self.node.replicas().flat_map(|replica| replica.shard().script_counts());
        self.gateway.script_counts().chain(shards).cloned().collect()
    }

    fn report(&self, now: Now) -> Report {
        let shards = self.node.replicas();
        Report {
            gateway: self.gateway.stats().clone(),
            shards: shards
                .map(|replica| (replica.id(), replica.shard().stats(now.mono_us)))
                .collect(),
            scripts: self.script_counts(),
            turns: self.turns,
            snapshots: self.snapshots.under_way() as u64,
            peers: self.links.counts(),
            readiness: self.node.readiness(),
            clients: self.clients_report(),
        }
    }

    /// Reports when everything is completed that was read before the worker was told to drain.
    fn drain(&mut self, now: Now) {
        let Some(since) = self.draining.filter(|_| !self.drained) else { return };
        let quiet = now.mono_us.saturating_sub(self.moved_us.max(since)) >= DRAIN_QUIET_US;
        let done = quiet && self.persisting == 0 && !self.node.may_hand_over();
        if done || now.mono_us.saturating_sub(since) >= DRAIN_US_MAX {
            self.drained = true;
            // The control thread is gone only when the process ends.
            let _ = self.peers.control.send(Notice::Drained);
        }
    }
}

/// Whether a connection has not proved that it serves a client: the TLS handshake is in progress,
/// the client has not authenticated, or, on ports without authentication, it has not sent a
/// request.
fn is_unproven(connection: &Connection, gateway: &Gateway) -> bool {
    let known = match &connection.dialogue {
        Some(dialogue) => dialogue.has_begun(),
        None => gateway.session(connection.session).is_authenticated,
    };
    !known || connection.is_handshaking()
}

/// Stops the process after a shard has failed: no other thread has the shard's data.
fn fail(shard: ShardId, error: &dyn std::fmt::Display) -> ! {
    tracing::error!("shard {}: {error}; the server stops", shard.0);
    eprintln!("claret: shard {}: {error}; stopped", shard.0);
    std::process::exit(70)
}
