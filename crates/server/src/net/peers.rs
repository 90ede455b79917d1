//! Thread that connects this machine with the others of its cluster.
//!
//! Of two machines the one with the larger number connects, and retries until it succeeds. Both
//! sides first send a greeting, inside TLS if it is configured between the machines. After both
//! greetings the connection is handed to the worker that holds it from then on; see
//! `worker/peers.rs`.
//!
//! The machines need not run the same build: each must understand what the cluster uses, [`Level`].

mod refused;

use super::tls::peers::PeerTls;
use super::transport::{Received, Transport};
use crate::config::cluster::ClusterOptions;
use crate::data::mapfile::MapFile;
use crate::mail::{Mail, Mailbox};
use adt::Corrupt;
use engine::cluster::level::Level;
use engine::cluster::rules::digest;
use engine::ids::MachineId;
use engine::limits::STRANGERS_MAX;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use wire::peer::{Hello, decode_hello, encode_hello};

/// Interval between attempts to connect.
const RETRY: Duration = Duration::from_millis(100);
/// Time-out for the greetings of a connection.
const HELLO_WAIT: Duration = Duration::from_secs(2);
/// Interval before a warning is repeated.
const WARN_INTERVAL: Duration = Duration::from_secs(30);
/// Size of a read.
const READ_BYTES: usize = 4 << 10;
/// Limit on encrypted bytes that wait to be sent: usually a worker's messages to a machine in one
/// turn.
const BATCH_BYTES: usize = 1 << 20;

const LISTENER: Token = Token(usize::MAX);
const WAKE: Token = Token(usize::MAX - 1);

/// Connection on which both greetings have been exchanged.
pub struct PeerSocket {
    /// Transport in non-blocking mode.
    pub transport: Transport,
    /// Greeting of the other machine.
    pub hello: Hello,
    /// Bytes that followed the greeting.
    pub input: Vec<u8>,
}

/// Machines that are connected. This thread adds machines, and workers remove them.
#[derive(Debug, Default)]
pub struct Linked(Mutex<BTreeSet<MachineId>>);

impl Linked {
    /// Records whether a machine is connected.
    pub fn set(&self, machine: MachineId, linked: bool) {
        let mut machines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if linked {
            machines.insert(machine);
        } else {
            machines.remove(&machine);
        }
    }

    /// Machines that are connected.
    pub fn machines(&self) -> Vec<MachineId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect()
    }

    /// Whether there is a connection with a machine.
    pub fn get(&self, machine: MachineId) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&machine)
    }
}

/// Resources of the thread.
pub struct Meeting {
    /// Cluster.
    pub cluster: ClusterOptions,
    /// Greeting of this machine.
    pub hello: Hello,
    /// Listening socket for the other machines; see [`listen`].
    pub listener: TcpListener,
    /// TLS between the machines, if configured.
    pub tls: Option<Arc<PeerTls>>,
    /// Machines that are connected.
    pub linked: Arc<Linked>,
    /// Machines of the cluster, once a map is known.
    pub map: Arc<MapFile>,
    /// Workers.
    pub workers: Vec<Mailbox>,
}

/// Opens the port for other machines.
///
/// # Errors
/// If it cannot be opened.
pub fn listen(cluster: &ClusterOptions) -> io::Result<TcpListener> {
    let address = cluster.peer_bind();
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    TcpListener::bind(resolve(address).map_err(named)?).map_err(named)
}

/// First address of a host name.
fn resolve(address: &str) -> io::Result<SocketAddr> {
    let none = || io::Error::new(ErrorKind::NotFound, "the name has no address");
    address.to_socket_addrs()?.next().ok_or_else(none)
}

/// Handle of the thread.
pub struct PeersThread {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl PeersThread {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the system cannot provide the resources.
    pub fn start(mut meeting: Meeting) -> io::Result<Self> {
        let poll = Poll::new()?;
        poll.registry().register(&mut meeting.listener, LISTENER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), WAKE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let warned = BTreeMap::new();
        let mut host = Host { poll, meeting, strangers: Slab::new(), warned };
        let thread = std::thread::Builder::new()
            .name("peers".to_owned())
            .spawn(move || host.run(&stopped))?;
        Ok(Self { thread: Some(thread), stop, waker })
    }
}

impl Drop for PeersThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let woken = self.waker.wake();
        let joined = self.thread.take().map_or(Ok(()), JoinHandle::join);
        if woken.is_err() || joined.is_err() {
            tracing::error!("the thread that connects machines cannot be stopped");
        }
    }
}

/// Connection on which the greetings are not complete.
struct Stranger {
    transport: Transport,
    /// Description of the other side, for messages.
    whom: String,
    /// Machine to which this one connects; none for an accepted connection.
    dialled: Option<MachineId>,
    input: Vec<u8>,
    ready: bool,
    greeted: bool,
    began: Instant,
}

struct Host {
    poll: Poll,
    meeting: Meeting,
    strangers: Slab<Stranger>,
    /// Time of the last warning with each text.
    warned: BTreeMap<String, Instant>,
}

impl Host {
    fn run(&mut self, stop: &AtomicBool) {
        let mut events = Events::with_capacity(64);
        let mut dialled = Instant::now().checked_sub(RETRY);
        while !stop.load(Ordering::Acquire) {
            if dialled.is_none_or(|at| at.elapsed() >= RETRY) {
                dialled = Some(Instant::now());
                self.dial_all();
            }
            if let Err(error) = self.poll.poll(&mut events, Some(RETRY))
                && error.kind() != ErrorKind::Interrupted
            {
                tracing::error!("no more machines are connected: {error}");
                return;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept_all(),
                    WAKE => {}
                    Token(slot) => self.go_on(slot),
                }
            }
            self.expire();
        }
    }

    /// Addresses at which the machines of the cluster listen.
    fn addresses(&self) -> BTreeMap<MachineId, String> {
        self.meeting.map.addresses(&self.meeting.cluster.nodes)
    }

    /// Connects to the machines with smaller numbers that are not connected.
    fn dial_all(&mut self) {
        let own = self.meeting.cluster.own;
        for (machine, address) in self.addresses() {
            let dialling = self.strangers.iter().any(|(_, s)| s.dialled == Some(machine));
            if machine >= own || dialling || self.meeting.linked.get(machine) {
                continue;
            }
            let whom = format!("machine {} at {address}", machine.0);
            let dial = |tls: &Arc<PeerTls>| tls.dial(&address);
            let tls = self.meeting.tls.as_ref().map(dial).transpose();
            let stream = resolve(&address).and_then(TcpStream::connect);
            match stream.and_then(|stream| Ok(Transport::new(stream, tls?, BATCH_BYTES))) {
                Ok(transport) => self.meet(transport, whom, Some(machine)),
                Err(error) => self.warn(format!("{whom}: {error}")),
            }
        }
    }

    fn accept_all(&mut self) {
        loop {
            match self.meeting.listener.accept() {
                // A connection that arrives when the table is full is closed when the stream is
                // dropped.
                Ok((stream, from)) if self.strangers.len() < STRANGERS_MAX => {
                    let whom = format!("an unknown peer at {}", from.ip().to_canonical());
                    let tls = self.meeting.tls.as_ref().map(|tls| tls.accept()).transpose();
                    match tls.map(|tls| Transport::new(stream, tls, BATCH_BYTES)) {
                        Ok(transport) => self.meet(transport, whom, None),
                        Err(error) => self.warn(format!("{whom}: {error}")),
                    }
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    if !matches!(
                        error.kind(),
                        ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    ) {
                        return self.warn(format!("a machine cannot be accepted: {error}"));
                    }
                }
            }
        }
    }

    fn meet(&mut self, mut transport: Transport, whom: String, dialled: Option<MachineId>) {
        let entry = self.strangers.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        let registered = registry.register(transport.stream(), Token(entry.key()), interest);
        if let Err(error) = registered {
            return self.warn(format!("a connection with a machine cannot be watched: {error}"));
        }
        let began = Instant::now();
        let input = Vec::new();
        let (ready, greeted) = (false, false);
        entry.insert(Stranger { transport, whom, dialled, input, ready, greeted, began });
    }

    /// Handles an event of a connection.
    fn go_on(&mut self, slot: usize) {
        let Some(stranger) = self.strangers.get_mut(slot) else { return };
        match stranger.talk(&self.meeting.hello) {
            Ok(None) => {}
            Ok(Some(hello)) => {
                let stranger = self.drop_stranger(slot);
                match self.judge(&hello, stranger.dialled) {
                    Ok(()) => self.hand_over(stranger, hello),
                    Err(reason) => self.warn(reason),
                }
            }
            Err(error) => {
                let stranger = self.drop_stranger(slot);
                let encrypted = stranger.transport.is_encrypted();
                match refused::reason(&stranger.whom, encrypted, &stranger.input, &error) {
                    Some(reason) => self.warn(reason),
                    None => {
                        tracing::debug!("a connection with a machine was not completed: {error}");
                    }
                }
            }
        }
    }

    fn drop_stranger(&mut self, slot: usize) -> Stranger {
        let mut stranger = self.strangers.remove(slot);
        if let Err(error) = self.poll.registry().deregister(stranger.transport.stream()) {
            tracing::debug!("a connection with a machine cannot be deregistered: {error}");
        }
        stranger
    }

    /// Checks a greeting. The error is the reason why the machine is rejected.
    fn judge(&self, hello: &Hello, dialled: Option<MachineId>) -> Result<(), String> {
        let cluster = &self.meeting.cluster;
        let machine = hello.machine.0;
        if hello.cluster != cluster.name {
            return Err(format!(
                "machine {machine} at {} belongs to the cluster '{}', and this one to '{}': correct \
                 the addresses or the name of the cluster",
                hello.address, hello.cluster, cluster.name
            ));
        }
        let map = self.meeting.map.map();
        // A machine that does not know the map yet names no rules. One whose cluster has none refuses those
        // that name some.
        if let Some(own) = map.as_ref().map(|map| &map.tags)
            && !hello.rules.is_empty()
            && hello.rules != digest(own)
        {
            return Err(format!(
                "machine {machine} was founded with other placement rules than this one, which has \
                 {own:?}: start one of the two in an empty directory with the rules of the cluster \
                 (--placement)"
            ));
        }
        let used = map.map_or(Level::NONE, |map| map.level);
        understands(hello, used)?;
        if hello.machine == cluster.own {
            return Err(format!(
                "another machine ({}) claims to be machine {machine}, too: give each machine its \
                 own number with --node",
                hello.address
            ));
        }
        let nodes = self.addresses();
        if !nodes.contains_key(&hello.machine) {
            return Err(format!(
                "machine {machine} ({}) is not among the machines of the cluster: start those that \
                 found it with the same --cluster, and let others in with `claret cluster add`",
                hello.address
            ));
        }
        match dialled {
            Some(expected) if expected != hello.machine => Err(format!(
                "machine {machine} answers at {}, which should be the address of machine {}: \
                 correct the addresses of the cluster",
                nodes.get(&expected).map_or("an address", String::as_str),
                expected.0
            )),
            None if hello.machine < cluster.own => Err(format!(
                "machine {machine} has connected, although the machine with the larger number does \
                 that: start all machines with the same --cluster"
            )),
            _ => Ok(()),
        }
    }

    fn hand_over(&mut self, stranger: Stranger, hello: Hello) {
        let Stranger { transport, input, .. } = stranger;
        let machine = hello.machine;
        self.meeting.linked.set(machine, true);
        let workers = &self.meeting.workers;
        let holder = usize::from(machine.0) % workers.len();
        workers[holder].send(Mail::Peer(Box::new(PeerSocket { transport, hello, input })));
    }

    /// Drops connections that take too long.
    fn expire(&mut self) {
        let late = |stranger: &Stranger| stranger.began.elapsed() >= HELLO_WAIT;
        let slots = self.strangers.iter().filter(|(_, stranger)| late(stranger));
        for slot in slots.map(|(slot, _)| slot).collect::<Vec<_>>() {
            self.drop_stranger(slot);
        }
    }

    fn warn(&mut self, text: String) {
        self.warned.retain(|_, at| at.elapsed() < WARN_INTERVAL);
        // Strangers can cause any number of different texts.
        if self.warned.len() < STRANGERS_MAX
            && let Entry::Vacant(vacant) = self.warned.entry(text)
        {
            tracing::warn!("{}", vacant.key());
            vacant.insert(Instant::now());
        }
    }
}

/// Checks that a machine understands what the cluster uses.
fn understands(hello: &Hello, used: Level) -> Result<(), String> {
    match hello.level.suffices_for(used) {
        true => Ok(()),
        false => Err(format!(
            "machine {} understands level {}, and the cluster uses level {used}: install a newer \
             claret there",
            hello.machine.0, hello.level
        )),
    }
}

impl Stranger {
    /// Sends the greeting of this machine, once.
    fn greet(&mut self, own: &Hello) -> io::Result<()> {
        if self.greeted {
            return Ok(());
        }
        let mut bytes = Vec::new();
        encode_hello(own, &mut bytes);
        // The buffer of a new socket has room for the greeting.
        if self.transport.send(&bytes)? < bytes.len() {
            return Err(io::Error::other("the socket takes nothing"));
        }
        self.greeted = true;
        Ok(())
    }

    /// Sends the greeting of this machine and reads that of the other one.
    fn talk(&mut self, own: &Hello) -> io::Result<Option<Hello>> {
        if !self.ready {
            let stream = self.transport.stream();
            if let Some(error) = stream.take_error()? {
                return Err(error);
            }
            match stream.peer_addr() {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(None),
                Err(error) => return Err(error),
            }
            stream.set_nodelay(true)?;
            self.ready = self.transport.shake_hands()?;
            if !self.ready {
                return Ok(None);
            }
        }
        if self.dialled.is_some() {
            self.greet(own)?;
        }
        let mut chunk = [0; READ_BYTES];
        loop {
            match decode_hello(&self.input) {
                Ok(Some((hello, used))) => {
                    self.input.drain(..used);
                    if self.dialled.is_none() {
                        self.greet(own)?;
                    }
                    return Ok(Some(hello));
                }
                Ok(None) => {}
                Err(Corrupt) => {
                    // A peer that expects TLS recognises the wrong protocol by the greeting.
                    let told = self.greet(own);
                    return told.and(Err(ErrorKind::InvalidData.into()));
                }
            }
            match self.transport.receive(&mut chunk, true)? {
                Received::Bytes { count, .. } => self.input.extend_from_slice(&chunk[..count]),
                Received::Nothing => return Ok(None),
                Received::End => return Err(ErrorKind::UnexpectedEof.into()),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_of_the_level_before_is_turned_away() {
        let hello = |level| Hello {
            rules: String::new(),
            cluster: "shop".to_owned(),
            machine: MachineId(2),
            life: 1,
            level,
            address: "10.0.0.2:6379".to_owned(),
            worker_count: 1,
        };
        assert_eq!(understands(&hello(Level::NEWEST), Level::NEWEST), Ok(()));
        assert_eq!(understands(&hello(Level::NEWEST), Level::NONE), Ok(()), "it is newer");
        let older = understands(&hello(Level::NONE), Level::NEWEST).unwrap_err();
        assert!(older.contains("machine 2 understands level 0, and the cluster uses level 1"));
    }
}
