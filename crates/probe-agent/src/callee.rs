//! An agent as a callee: answers the calls of other nodes.
//!
//! One thread reads and answers on all connections; records to be synced go to a thread of their
//! own and come back, so that a slow disk delays only the callers that requested it. Input from a
//! stranger never makes it keep more than a header: lengths are fixed, and connections and answers
//! in flight are limited.

use crate::exemplars::{Counters, Done, Exemplars, OnDisk, Spent};
use crate::files::Message;
use crate::host::clock::wall_ns;
use crate::host::disk::Ring;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use probe::message::{PREAMBLE_BYTES, Preamble, REQUEST_BYTES, Reply, Request};
use ring::digest::{Context, SHA256};
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST: usize = 2;

/// Maximum number of answers in flight on one connection.
const ANSWERS_MAX: usize = 512;
/// Time after which a connection without a preamble is closed.
const GREETING: Duration = Duration::from_secs(10);
const SCRATCH_BYTES: usize = 64 << 10;
/// Time on the disk thread above which its counters are read for a call.
const SLOW_ON_DISK: Duration = Duration::from_millis(5);

/// State that callee threads share with their creator.
#[derive(Debug, Default)]
pub struct Told {
    /// All digests, folded: so that the compiler cannot remove their computation.
    pub digests: AtomicU64,
    /// Number of answered calls.
    pub answered: AtomicU64,
    /// Number of connections that were refused as a mismatch.
    pub refused: AtomicU64,
    /// Number of records that could not be synced: those calls have no answer.
    pub disk_errors: AtomicU64,
    /// First error of the disk.
    pub disk_error: Mutex<Option<String>>,
    /// Number of slow calls that were not recorded because files were too slow.
    pub slow_dropped: Arc<AtomicU64>,
    /// Signal to all threads to stop.
    pub stop: AtomicBool,
}

/// Threads of a callee.
#[derive(Debug)]
pub struct Callee {
    told: Arc<Told>,
    waker: Arc<Waker>,
    threads: Vec<JoinHandle<()>>,
}

/// Parameters of a callee.
pub struct Setup {
    /// Listener for calls.
    pub listener: std::net::TcpListener,
    /// Preamble of this agent.
    pub preamble: Preamble,
    /// Payload of its answers.
    pub payload: Arc<[u8]>,
    /// File that is synced.
    pub ring: Ring,
    /// Maximum number of connected agents.
    pub connections_max: usize,
}

impl Callee {
    /// Starts answering. Slow calls are sent to `files`.
    pub fn start(setup: Setup, told: Arc<Told>, files: SyncSender<Message>) -> io::Result<Self> {
        let poll = Poll::new()?;
        setup.listener.set_nonblocking(true)?;
        let mut listener = TcpListener::from_std(setup.listener);
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        let key = key().map_err(|_| io::Error::other("cannot create a signing key"))?;
        let (to_disk, jobs) = channel();
        let (to_loop, synced) = channel();
        let mut serving = Loop {
            poll,
            listener,
            preamble: setup.preamble,
            key,
            payload: Arc::clone(&setup.payload),
            connections: BTreeMap::new(),
            connections_max: setup.connections_max,
            next: FIRST,
            to_disk,
            synced,
            told: Arc::clone(&told),
            scratch: vec![0; SCRATCH_BYTES],
        };
        let mut disk = Disk {
            ring: setup.ring,
            payload: setup.payload,
            jobs,
            to_loop,
            waker: Arc::clone(&waker),
            told: Arc::clone(&told),
        };
        let (own, dropped) = (setup.preamble.node, Arc::clone(&told.slow_dropped));
        let threads = vec![
            Builder::new()
                .name("callee".into())
                .spawn(move || serving.run(&mut Exemplars::new(own, files, dropped)))?,
            Builder::new().name("disk".into()).spawn(move || disk.run())?,
        ];
        Ok(Self { told, waker, threads })
    }
}

impl Drop for Callee {
    fn drop(&mut self) {
        self.told.stop.store(true, Ordering::Relaxed);
        // A thread that cannot be woken checks by itself within a second.
        let _ = self.waker.wake();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A record to be synced before its answer.
struct Job {
    connection: usize,
    request: Request,
    t_rx_ns: i64,
    since: Instant,
    spent: Spent,
}

struct Disk {
    ring: Ring,
    payload: Arc<[u8]>,
    jobs: Receiver<Job>,
    to_loop: Sender<Job>,
    waker: Arc<Waker>,
    told: Arc<Told>,
}

impl Disk {
    fn run(&mut self) {
        let mut counters = Counters::of_this_thread();
        while let Ok(mut job) = self.jobs.recv() {
            let Job { request, t_rx_ns, since, .. } = job;
            let queue = since.elapsed();
            let reply = Reply { request, t_rx_ns, t_tx_ns: wall_ns() }.encode();
            let payload: &[u8] = if request.workload.has_payload() { &self.payload } else { &[] };
            if let Err(error) = self.ring.write([&reply, payload]) {
                self.told.disk_errors.fetch_add(1, Ordering::Relaxed);
                if let Ok(mut first) = self.told.disk_error.lock() {
                    first.get_or_insert_with(|| error.to_string());
                }
                continue;
            }
            let all = since.elapsed();
            let counted = (all > SLOW_ON_DISK).then(|| counters.since_idle());
            let [queue_ns, sync_ns] = [queue, all.saturating_sub(queue)].map(ns);
            job.spent.disk = Some(OnDisk { queue_ns, sync_ns, counted });
            if self.to_loop.send(job).is_err() || self.waker.wake().is_err() {
                return;
            }
            counters.idle();
        }
    }
}

fn ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A call whose payload is being read.
struct Reading {
    request: Request,
    /// Time at which its header had been read.
    t_rx_ns: i64,
    missing: usize,
    hash: Option<Context>,
    /// Time spent on hashing so far.
    handler: Duration,
}

struct Connection {
    stream: TcpStream,
    since: Instant,
    /// Number of the caller and its incarnation, once its preamble has arrived.
    caller: Option<(u16, u64)>,
    head: [u8; PREAMBLE_BYTES],
    have: usize,
    reading: Option<Reading>,
    answers: VecDeque<Answer>,
    under_way: usize,
    /// Calls that were answered since the last check.
    done: Vec<Done>,
}

/// An answer being sent.
struct Answer {
    request: Option<(Request, i64, Spent)>,
    t_tx_ns: i64,
    head: Vec<u8>,
    payload: bool,
    at: usize,
}

struct Loop {
    poll: Poll,
    listener: TcpListener,
    preamble: Preamble,
    key: Ed25519KeyPair,
    payload: Arc<[u8]>,
    connections: BTreeMap<usize, Connection>,
    connections_max: usize,
    next: usize,
    to_disk: Sender<Job>,
    synced: Receiver<Job>,
    told: Arc<Told>,
    scratch: Vec<u8>,
}

impl Loop {
    fn run(&mut self, exemplars: &mut Exemplars) {
        let mut events = Events::with_capacity(256);
        while !self.told.stop.load(Ordering::Relaxed) {
            if let Err(error) = self.poll.poll(&mut events, Some(Duration::from_secs(1)))
                && error.kind() != ErrorKind::Interrupted
            {
                return;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => self.synced(),
                    Token(at) => self.serve(at),
                }
            }
            let silent = |one: &Connection| one.caller.is_none() && one.since.elapsed() > GREETING;
            self.connections.retain(|_, one| !silent(one));
            for connection in self.connections.values_mut() {
                let caller = connection.caller.unwrap_or_default();
                connection.done.drain(..).for_each(|done| exemplars.done(caller, &done));
            }
            exemplars.idle();
        }
    }

    fn accept(&mut self) {
        while let Ok((mut stream, _)) = self.listener.accept() {
            let at = self.next;
            let fits = self.connections.len() < self.connections_max;
            let both = Interest::READABLE | Interest::WRITABLE;
            if !fits
                || stream.set_nodelay(true).is_err()
                || self.poll.registry().register(&mut stream, Token(at), both).is_err()
            {
                self.told.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.next += 1;
            let greeting = Answer {
                request: None,
                t_tx_ns: 0,
                head: self.preamble.encode().to_vec(),
                payload: false,
                at: 0,
            };
            let connection = Connection {
                stream,
                since: Instant::now(),
                caller: None,
                head: [0; PREAMBLE_BYTES],
                have: 0,
                reading: None,
                answers: VecDeque::from([greeting]),
                under_way: 0,
                done: Vec::new(),
            };
            self.connections.insert(at, connection);
            self.serve(at);
        }
    }

    /// Answers the calls whose records are on the device.
    fn synced(&mut self) {
        while let Ok(job) = self.synced.try_recv() {
            if let Some(connection) = self.connections.get_mut(&job.connection) {
                connection.answer(job.request, job.t_rx_ns, job.spent);
                self.serve(job.connection);
            }
        }
    }

    /// Reads and writes as much as possible; a connection that fails is dropped.
    fn serve(&mut self, at: usize) {
        let Some(mut connection) = self.connections.remove(&at) else { return };
        if self.read(at, &mut connection).is_ok()
            && connection.write(&self.payload, &self.told).is_ok()
        {
            self.connections.insert(at, connection);
        }
    }

    fn read(&mut self, at: usize, connection: &mut Connection) -> io::Result<()> {
        loop {
            let mut scratch = std::mem::take(&mut self.scratch);
            let found = connection.stream.read(&mut scratch);
            let taken = match &found {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.take(at, connection, &scratch[..*bytes]),
                Err(_) => Ok(()),
            };
            self.scratch = scratch;
            taken?;
            match found {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
    }

    fn take(&mut self, at: usize, connection: &mut Connection, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some(mut reading) = connection.reading.take() {
                let (now, rest) = bytes.split_at(reading.missing.min(bytes.len()));
                if let Some(hash) = &mut reading.hash {
                    let began = Instant::now();
                    hash.update(now);
                    reading.handler += began.elapsed();
                }
                bytes = rest;
                reading.missing -= now.len();
                if reading.missing > 0 {
                    connection.reading = Some(reading);
                } else {
                    self.handle(at, connection, reading)?;
                }
                continue;
            }
            let greeted = connection.caller.is_some();
            let wanted = if greeted { REQUEST_BYTES } else { PREAMBLE_BYTES };
            let (now, rest) = bytes.split_at((wanted - connection.have).min(bytes.len()));
            connection.head[connection.have..connection.have + now.len()].copy_from_slice(now);
            connection.have += now.len();
            bytes = rest;
            if connection.have < wanted {
                continue;
            }
            connection.have = 0;
            if greeted {
                self.request(at, connection)?;
            } else {
                let other = Preamble::decode(&connection.head);
                let fits = other.and_then(|other| self.preamble.agree(&other).map(|()| other));
                // Our own preamble has informed an agent; a stranger needs no answer.
                let other = fits.map_err(|_| io::Error::from(ErrorKind::InvalidData)).inspect_err(
                    |_| {
                        self.told.refused.fetch_add(1, Ordering::Relaxed);
                        let _ = connection.write(&self.payload, &self.told);
                    },
                )?;
                connection.caller = Some((other.node, other.incarnation));
            }
        }
        Ok(())
    }

    fn request(&mut self, at: usize, connection: &mut Connection) -> io::Result<()> {
        let t_rx_ns = wall_ns();
        let mut head = [0; REQUEST_BYTES];
        head.copy_from_slice(&connection.head[..REQUEST_BYTES]);
        let request = Request::decode(&head).ok_or(ErrorKind::InvalidData)?;
        let began = Instant::now();
        let hash = request.workload.hashes().then(|| {
            let mut hash = Context::new(&SHA256);
            hash.update(&head);
            hash
        });
        let missing = if request.workload.has_payload() { self.payload.len() } else { 0 };
        let reading = Reading { request, t_rx_ns, missing, hash, handler: began.elapsed() };
        if missing > 0 {
            connection.reading = Some(reading);
            return Ok(());
        }
        self.handle(at, connection, reading)
    }

    fn handle(
        &mut self,
        at: usize,
        connection: &mut Connection,
        reading: Reading,
    ) -> io::Result<()> {
        let Reading { request, t_rx_ns, hash, mut handler, .. } = reading;
        if let Some(hash) = hash {
            let began = Instant::now();
            let digest = hash.finish();
            let mut folded = fold(digest.as_ref());
            if request.signs {
                folded ^= fold(self.key.sign(digest.as_ref()).as_ref());
            }
            self.told.digests.fetch_xor(folded, Ordering::Relaxed);
            handler += began.elapsed();
        }
        let spent = Spent { handler_ns: ns(handler), disk: None };
        connection.under_way += 1;
        if connection.under_way > ANSWERS_MAX {
            return Err(ErrorKind::InvalidData.into());
        }
        if request.workload.writes() {
            let job = Job { connection: at, request, t_rx_ns, since: Instant::now(), spent };
            return self.to_disk.send(job).map_err(|_| ErrorKind::BrokenPipe.into());
        }
        connection.answer(request, t_rx_ns, spent);
        Ok(())
    }
}

/// Creates a key that is never shared: only the time of signing is measured.
fn key() -> Result<Ed25519KeyPair, ring::error::Unspecified> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())?;
    Ed25519KeyPair::from_pkcs8(document.as_ref()).map_err(|_| ring::error::Unspecified)
}

/// Folds all bytes into eight.
fn fold(bytes: &[u8]) -> u64 {
    bytes.chunks_exact(8).fold(0, |folded, word| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(word);
        folded ^ u64::from_le_bytes(bytes)
    })
}

impl Connection {
    fn answer(&mut self, request: Request, t_rx_ns: i64, spent: Spent) {
        self.answers.push_back(Answer {
            request: Some((request, t_rx_ns, spent)),
            t_tx_ns: 0,
            head: Vec::new(),
            payload: request.workload.has_payload(),
            at: 0,
        });
    }

    fn write(&mut self, payload: &[u8], told: &Told) -> io::Result<()> {
        while let Some(answer) = self.answers.front_mut() {
            if answer.at == 0
                && let Some((request, t_rx_ns, _)) = answer.request
            {
                // The time of sending is that of the successful attempt.
                answer.t_tx_ns = wall_ns();
                let reply = Reply { request, t_rx_ns, t_tx_ns: answer.t_tx_ns };
                answer.head = reply.encode().to_vec();
            }
            let payload = if answer.payload { payload } else { &[] };
            match write_from(&mut self.stream, &answer.head, payload, answer.at) {
                Ok(bytes) => answer.at += bytes,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if answer.at == answer.head.len() + payload.len() {
                if let Some((request, t_rx_ns, spent)) = answer.request {
                    self.done.push(Done { request, t_rx_ns, t_tx_ns: answer.t_tx_ns, spent });
                    self.under_way -= 1;
                    told.answered.fetch_add(1, Ordering::Relaxed);
                }
                self.answers.pop_front();
            }
        }
        Ok(())
    }
}

/// Writes the rest of a head and a payload, in one packet if it fits into one.
pub fn write_from(
    stream: &mut TcpStream,
    head: &[u8],
    payload: &[u8],
    at: usize,
) -> io::Result<usize> {
    let written = if at < head.len() {
        stream.write_vectored(&[IoSlice::new(&head[at..]), IoSlice::new(payload)])
    } else {
        stream.write(&payload[at - head.len()..])
    }?;
    if written == 0 { Err(ErrorKind::WriteZero.into()) } else { Ok(written) }
}
