//! A client of ZooKeeper's protocol that holds many sessions in one thread: the same code for
//! Claret and for ZooKeeper.
//!
//! Requests are sent without waiting for earlier answers; answers arrive in the order of their
//! session's requests, with watch notifications in between. A session whose connection is lost is
//! not resumed: a measurement in which that happens is worthless, so it is an error.

use crate::load::stream::Stream;
use crate::load::timers::Timers;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use wire::jute::{
    Ask, Code, ConnectRequest, ConnectResponse, FRAME_BYTES_MAX, Kind, NOTIFICATION_XID, Op,
    PING_XID, Read, Reply, ReplyHeader, Request, TreeSessionId, WatchedEvent, Write, Zxid, code,
    next_frame, read_event, read_reply,
};

const TIMER: Token = Token(usize::MAX);
const READ_BYTES: usize = 64 << 10;
/// Time limit for the begin and end of a session and for an awaited answer.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Pings are spread over the ping interval, like those of as many separate programs.
const PING_SLICES: usize = 64;
/// Sessions that begin at the same time. Servers accept no more than some tens of connections at
/// once, and close connections that request no session for a while.
const BEGUN_TOGETHER: usize = 32;
/// Longest sleep, so that Ctrl-C is noticed.
const IDLE_NS: u64 = 100_000_000;

/// Time without any message from the client after which its session ends.
pub const SESSION_TIMEOUT_MS: i32 = 30_000;

/// An event for the caller of [`Client::wait`].
#[derive(Debug)]
pub enum Heard {
    /// The answer to a request.
    Answer(Answer),
    /// A watch was triggered.
    Event {
        /// Session of the watch.
        session: usize,
        /// Event that triggered it.
        event: WatchedEvent,
    },
    /// A reminder ([`Client::remind`]) is due.
    Due(usize),
    /// A session's connection is lost; reported only if that is expected ([`Client::expect_loss`]).
    Lost(usize),
}

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// Session of the request.
    pub session: usize,
    /// Caller's tag of the request.
    pub tag: u64,
    /// Zxid of the change, or of the latest change that the server knows.
    pub zxid: Zxid,
    /// Reply, or the error code.
    pub result: Result<Reply, Code>,
}

/// Messages of all sessions so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Requests that change something, including refused ones.
    pub writes: u64,
    /// Requests that change nothing.
    pub reads: u64,
    /// Answers and notifications.
    pub heard: u64,
    /// Bytes in both directions.
    pub bytes: u64,
}

impl Counts {
    /// Counts since `before`.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            writes: self.writes - before.writes,
            reads: self.reads - before.reads,
            heard: self.heard - before.heard,
            bytes: self.bytes - before.bytes,
        }
    }

    /// Requests, answers and notifications.
    pub fn messages(&self) -> u64 {
        self.writes + self.reads + self.heard
    }
}

struct Session {
    stream: Stream,
    /// Number, operation and tag of each unanswered request.
    asked: VecDeque<(i32, Op, u64)>,
    last_xid: i32,
    /// ID of the session, once the server has begun it.
    id: Option<TreeSessionId>,
    /// Whether the server has ended the session or the connection is gone.
    ended: bool,
}

/// Sessions and the event loop that serves them.
pub struct Client {
    poll: Poll,
    events: Events,
    timers: Timers,
    sessions: Vec<Session>,
    /// Sessions with data to send.
    dirty: Vec<usize>,
    counts: Counts,
    /// Time between the pings of two consecutive slices of the sessions.
    ping_every_ns: u64,
    next_ping_ns: u64,
    ping_slice: usize,
    may_be_lost: bool,
    scratch: Vec<u8>,
}

impl Client {
    /// Begins a session at each of these servers and waits until all have begun.
    ///
    /// # Errors
    /// A server cannot be reached, or does not answer.
    pub fn connect(servers: &[SocketAddr]) -> io::Result<Self> {
        Self::connect_for(servers, SESSION_TIMEOUT_MS)
    }

    /// Begins a session at each of these servers, with a requested time-out that the server may
    /// adjust.
    ///
    /// # Errors
    /// See [`Client::connect`].
    pub fn connect_for(servers: &[SocketAddr], timeout_ms: i32) -> io::Result<Self> {
        let (poll, timers) = (Poll::new()?, Timers::new()?);
        let descriptor = timers.descriptor();
        poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let ping_every_ns = (timeout_ms.max(300) as u64) * 1_000_000 / 3 / PING_SLICES as u64;
        let mut client = Self {
            poll,
            events: Events::with_capacity(1024),
            timers,
            sessions: Vec::new(),
            dirty: Vec::new(),
            counts: Counts::default(),
            ping_every_ns,
            next_ping_ns: ping_every_ns,
            ping_slice: 0,
            may_be_lost: false,
            scratch: vec![0; READ_BYTES],
        };
        for some in servers.chunks(BEGUN_TOGETHER) {
            for server in some {
                client.begin(*server, timeout_ms)?;
            }
            client.wait_for_beginnings()?;
        }
        client.counts = Counts::default();
        Ok(client)
    }

    /// Waits until a session has begun on every connection.
    fn wait_for_beginnings(&mut self) -> io::Result<()> {
        let until_ns = self.now_ns() + PATIENCE_NS;
        let mut nothing = Vec::new();
        while self.sessions.iter().any(|session| session.id.is_none()) {
            if self.now_ns() > until_ns {
                return Err(io::Error::other("a server does not begin a session"));
            }
            self.turn(until_ns, &mut nothing)?;
        }
        Ok(())
    }

    fn begin(&mut self, server: SocketAddr, timeout_ms: i32) -> io::Result<()> {
        let token = Token(self.sessions.len());
        let mut stream = Stream::dial(server, &self.poll, token)?;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid(0),
            timeout_ms,
            session: TreeSessionId(0),
            password: Some([0; 16]),
            read_only: Some(false),
        };
        request.encode(&mut stream.out);
        self.dirty.push(self.sessions.len());
        self.sessions.push(Session {
            stream,
            asked: VecDeque::new(),
            last_xid: 0,
            id: None,
            ended: false,
        });
        Ok(())
    }

    /// Nanoseconds since the client was created.
    pub fn now_ns(&self) -> u64 {
        self.timers.now_ns()
    }

    /// Number of sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Messages sent and received so far, without pings.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Allows sessions to be lost from now on.
    pub fn expect_loss(&mut self) {
        self.may_be_lost = true;
    }

    /// Closes a session's connection without a close request, like a client that dies. The session
    /// goes on until the server notices.
    pub fn drop_connection(&mut self, session: usize) {
        let session = &mut self.sessions[session];
        session.ended = true;
        session.stream.end();
    }

    /// Queues a request; `tag` comes back with the answer. The next [`Client::wait`] sends it.
    ///
    /// # Panics
    /// The protocol cannot express the request, which is a bug of the caller.
    pub fn ask(&mut self, session: usize, tag: u64, what: Ask) {
        let is_write = matches!(what, Ask::Write(_));
        let Kind::One(op) = what.kind() else { panic!("only single operations are requested") };
        let own = &mut self.sessions[session];
        if own.ended {
            return;
        }
        own.last_xid = own.last_xid.wrapping_add(1).max(1);
        let xid = own.last_xid;
        let request = Request { xid, what };
        let out = &mut own.stream.out;
        let before = out.len();
        request.encode(out).expect("the request can be encoded");
        self.counts.bytes += (out.len() - before) as u64;
        own.asked.push_back((xid, op, tag));
        self.counts.writes += u64::from(is_write);
        self.counts.reads += u64::from(!is_write);
        self.dirty.push(session);
    }

    /// Schedules a [`Heard::Due`] event.
    pub fn remind(&mut self, at_ns: u64, what: usize) {
        self.timers.add(at_ns, what);
    }

    /// Sends the queued requests and waits for an event, at most until `until_ns`.
    ///
    /// # Errors
    /// A session was lost, a server sends an invalid answer, or Ctrl-C was pressed.
    pub fn wait(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()> {
        while heard.is_empty() {
            self.turn(until_ns, heard)?;
            if self.now_ns() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    /// Sends the queued requests without waiting for anything.
    ///
    /// # Errors
    /// See [`Client::wait`].
    pub fn send(&mut self) -> io::Result<()> {
        let mut nothing = Vec::new();
        for session in std::mem::take(&mut self.dirty) {
            self.flush(session, &mut nothing)?;
        }
        Ok(())
    }

    /// Ends all sessions, and with them their ephemeral nodes, and waits until that is done.
    ///
    /// # Errors
    /// See [`Client::wait`]; also if it takes too long.
    pub fn close(mut self) -> io::Result<()> {
        self.may_be_lost = true;
        for session in 0..self.sessions.len() {
            self.ask(session, 0, Ask::Write(Write::Close));
        }
        let until_ns = self.now_ns() + PATIENCE_NS;
        let mut heard = Vec::new();
        while self.sessions.iter().any(|session| !session.ended && !session.asked.is_empty()) {
            if self.now_ns() > until_ns {
                return Err(io::Error::other("a server does not end a session"));
            }
            self.turn(until_ns, &mut heard)?;
            heard.clear();
        }
        Ok(())
    }

    fn turn(&mut self, until_ns: u64, heard: &mut Vec<Heard>) -> io::Result<()> {
        crate::stop::check()?;
        let now_ns = self.now_ns();
        if now_ns >= self.next_ping_ns {
            self.ping(now_ns);
        }
        let mut dirty = std::mem::take(&mut self.dirty);
        for session in dirty.drain(..) {
            self.flush(session, heard)?;
        }
        self.dirty = dirty;
        while let Some(what) = self.timers.pop(self.timers.now_ns()) {
            heard.push(Heard::Due(what));
        }
        if !heard.is_empty() {
            return Ok(());
        }
        let wake_ns = until_ns.min(self.next_ping_ns).min(now_ns + IDLE_NS);
        self.timers.arm(wake_ns)?;
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(1));
        let polled = self.poll.poll(&mut events, Some(Duration::from_nanos(IDLE_NS)));
        match polled {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(()) => {
                for event in &events {
                    let Token(session) = event.token();
                    if event.token() == TIMER {
                        continue;
                    }
                    if event.is_readable() {
                        self.receive(session, heard)?;
                    }
                    if event.is_writable() {
                        self.flush(session, heard)?;
                    }
                }
            }
        }
        self.events = events;
        while let Some(what) = self.timers.pop(self.timers.now_ns()) {
            heard.push(Heard::Due(what));
        }
        Ok(())
    }

    fn ping(&mut self, now_ns: u64) {
        self.next_ping_ns = now_ns + self.ping_every_ns;
        self.ping_slice = (self.ping_slice + 1) % PING_SLICES;
        let sessions = self.sessions.iter_mut().enumerate();
        for (number, session) in sessions.skip(self.ping_slice).step_by(PING_SLICES) {
            if session.id.is_some() && !session.ended {
                let ping = Request { xid: PING_XID, what: Ask::Ping };
                ping.encode(&mut session.stream.out).expect("a ping can be encoded");
                self.dirty.push(number);
            }
        }
    }

    fn flush(&mut self, number: usize, heard: &mut Vec<Heard>) -> io::Result<()> {
        let session = &mut self.sessions[number];
        if session.ended {
            return Ok(());
        }
        match session.stream.flush() {
            Err(error) => self.lost(number, &error.to_string(), heard),
            Ok(()) => Ok(()),
        }
    }

    fn receive(&mut self, number: usize, heard: &mut Vec<Heard>) -> io::Result<()> {
        loop {
            let session = &mut self.sessions[number];
            if session.ended {
                return Ok(());
            }
            match session.stream.read(&mut self.scratch) {
                Ok(None) => return Ok(()),
                Ok(Some(read)) => session.stream.input.extend_from_slice(&self.scratch[..read]),
                Err(error) => return self.lost(number, &error.to_string(), heard),
            }
            let mut input = std::mem::take(&mut session.stream.input);
            let mut taken = 0;
            loop {
                let next =
                    next_frame(&input[taken..], FRAME_BYTES_MAX).map_err(io::Error::other)?;
                let Some((frame, len)) = next else { break };
                self.frame(number, frame, len, heard)?;
                taken += len;
            }
            input.drain(..taken);
            self.sessions[number].stream.input = input;
        }
    }

    fn frame(
        &mut self,
        number: usize,
        frame: &[u8],
        len: usize,
        heard: &mut Vec<Heard>,
    ) -> io::Result<()> {
        let session = &mut self.sessions[number];
        if session.id.is_none() {
            let response = ConnectResponse::decode(frame).map_err(io::Error::other)?;
            if response.is_expired() {
                return Err(io::Error::other("the server refuses to begin a session"));
            }
            session.id = Some(response.session);
            return Ok(());
        }
        let (header, body) = ReplyHeader::decode(frame).map_err(io::Error::other)?;
        if header.xid == PING_XID {
            return Ok(());
        }
        self.counts.heard += 1;
        self.counts.bytes += len as u64;
        if header.xid == NOTIFICATION_XID {
            let event = read_event(body).map_err(io::Error::other)?;
            heard.push(Heard::Event { session: number, event });
            return Ok(());
        }
        let Some((xid, op, tag)) = session.asked.pop_front() else {
            return Err(io::Error::other("the server sends an answer without a request"));
        };
        if xid != header.xid {
            return Err(io::Error::other("the server answers out of order"));
        }
        session.ended |= op == Op::CloseSession;
        let result = match header.err {
            0 => Ok(read_reply(op, body).map_err(io::Error::other)?),
            err => Err(code(err).ok_or_else(|| {
                io::Error::other(format!("the server answers with the unknown error code {err}"))
            })?),
        };
        heard.push(Heard::Answer(Answer { session: number, tag, zxid: header.zxid, result }));
        Ok(())
    }

    fn lost(&mut self, number: usize, why: &str, heard: &mut Vec<Heard>) -> io::Result<()> {
        let session = &mut self.sessions[number];
        if std::mem::replace(&mut session.ended, true) {
            return Ok(());
        }
        if self.may_be_lost {
            heard.push(Heard::Lost(number));
            return Ok(());
        }
        let what = format!("session {number} was lost: {why}");
        Err(io::Error::new(ErrorKind::ConnectionReset, what))
    }
}

/// Request for a node's data, with or without a watch.
pub fn get(path: &str, watch: bool) -> Ask {
    Ask::Read { read: Read::Data(path.into()), watch }
}

/// Request whether a node exists, with or without a watch.
pub fn exists(path: &str, watch: bool) -> Ask {
    Ask::Read { read: Read::Exists(path.into()), watch }
}

/// Request for a node's children.
pub fn list(path: &str) -> Ask {
    Ask::Read { read: Read::Children { path: path.into(), stat: false }, watch: false }
}
