//! Connection of a caller to one callee: connects, sends the preamble and requests, reads answers,
//! and reconnects with growing backoff when it breaks.

use crate::callee::write_from;
use crate::host::clock::mono_ns;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use probe::message::{Mismatch, PREAMBLE_BYTES, Preamble, REPLY_BYTES, Reply, Request};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;

const RETRY_MIN_NS: i64 = 100_000_000;
const RETRY_MAX_NS: i64 = 5_000_000_000;
/// Time after which a connection without a preamble is given up.
const GREETING_NS: i64 = 5_000_000_000;

/// An event on a connection.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// The callee has announced its incarnation.
    Connected(u64),
    /// The first byte of a request was handed to the kernel.
    Sent(Request, i64),
    /// An answer was read to its end.
    Replied(Reply, i64),
    /// The connection is gone.
    Disconnected,
    /// The other end is not the expected node.
    Refused(Mismatch),
}

/// Connection to one callee.
#[derive(Debug)]
pub struct Link {
    node: u16,
    address: SocketAddr,
    stream: Option<TcpStream>,
    ready: bool,
    since_ns: i64,
    retry_at_ns: i64,
    pause_ns: i64,
    outgoing: VecDeque<(Request, usize)>,
    greeting_at: usize,
    head: [u8; PREAMBLE_BYTES],
    have: usize,
    /// Answer whose payload is being read.
    reading: Option<(Reply, usize)>,
}

impl Link {
    /// Creates a link that is not connected yet.
    pub const fn new(node: u16, address: SocketAddr) -> Self {
        Self {
            node,
            address,
            stream: None,
            ready: false,
            since_ns: 0,
            retry_at_ns: 0,
            pause_ns: RETRY_MIN_NS,
            outgoing: VecDeque::new(),
            greeting_at: 0,
            head: [0; PREAMBLE_BYTES],
            have: 0,
            reading: None,
        }
    }

    /// Whether calls can be sent.
    pub const fn is_ready(&self) -> bool {
        self.ready
    }

    /// Time at which [`Self::look`] should be called next; `None` if nothing is pending.
    pub const fn wants_ns(&self) -> Option<i64> {
        match (&self.stream, self.ready) {
            (None, _) => Some(self.retry_at_ns),
            (Some(_), false) => Some(self.since_ns + GREETING_NS),
            (Some(_), true) => None,
        }
    }

    /// Connects, if it is time to, and gives up a connection without a preamble.
    pub fn look(&mut self, registry: &Registry, now_ns: i64, events: &mut Vec<Event>) {
        if self.stream.is_some() && !self.ready && now_ns - self.since_ns >= GREETING_NS {
            self.close(registry, now_ns, events);
        }
        if self.stream.is_some() || now_ns < self.retry_at_ns {
            return;
        }
        let token = Token(usize::from(self.node));
        let both = Interest::READABLE | Interest::WRITABLE;
        let made = TcpStream::connect(self.address).and_then(|mut stream| {
            registry.register(&mut stream, token, both)?;
            Ok(stream)
        });
        self.since_ns = now_ns;
        (self.greeting_at, self.have, self.reading) = (0, 0, None);
        match made {
            Ok(stream) => self.stream = Some(stream),
            Err(_) => self.later(now_ns),
        }
    }

    fn later(&mut self, now_ns: i64) {
        self.retry_at_ns = now_ns + self.pause_ns;
        self.pause_ns = (2 * self.pause_ns).min(RETRY_MAX_NS);
    }

    fn close(&mut self, registry: &Registry, now_ns: i64, events: &mut Vec<Event>) {
        if let Some(mut stream) = self.stream.take() {
            // A registered stream is released with its descriptor anyway.
            let _ = registry.deregister(&mut stream);
        }
        if std::mem::take(&mut self.ready) {
            events.push(Event::Disconnected);
        }
        self.outgoing.clear();
        self.later(now_ns);
    }

    /// Sends a request, or keeps it until the kernel takes it.
    pub fn send(
        &mut self,
        request: Request,
        ours: &Preamble,
        payload: &[u8],
        registry: &Registry,
        events: &mut Vec<Event>,
    ) {
        self.outgoing.push_back((request, 0));
        self.work(ours, payload, registry, &mut [], events);
    }

    /// Writes and reads as much as possible. Without a read buffer, it only writes.
    pub fn work(
        &mut self,
        ours: &Preamble,
        payload: &[u8],
        registry: &Registry,
        scratch: &mut [u8],
        events: &mut Vec<Event>,
    ) {
        let Some(mut stream) = self.stream.take() else { return };
        let done = self
            .write(&mut stream, ours, payload, events)
            .and_then(|()| self.read(&mut stream, ours, payload.len(), scratch, events));
        self.stream = Some(stream);
        if done.is_err() {
            self.close(registry, mono_ns(), events);
        }
    }

    fn write(
        &mut self,
        stream: &mut TcpStream,
        ours: &Preamble,
        payload: &[u8],
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        if let Some(error) = stream.take_error()? {
            return Err(error);
        }
        if stream.peer_addr().is_err() {
            return Ok(());
        }
        let blocked = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
        while self.greeting_at < PREAMBLE_BYTES {
            if self.greeting_at == 0 {
                stream.set_nodelay(true)?;
            }
            match write_from(stream, &ours.encode(), &[], self.greeting_at) {
                Ok(bytes) => self.greeting_at += bytes,
                Err(error) if blocked(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        while let Some((request, at)) = self.outgoing.front_mut() {
            let mono = mono_ns();
            if *at == 0 {
                request.t_send_ns = mono.unsigned_abs();
            }
            let payload = if request.workload.has_payload() { payload } else { &[] };
            let head = request.encode();
            match write_from(stream, &head, payload, *at) {
                Ok(bytes) => {
                    if *at == 0 {
                        events.push(Event::Sent(*request, mono));
                    }
                    *at += bytes;
                }
                Err(error) if blocked(&error) => return Ok(()),
                Err(error) => return Err(error),
            }
            if *at == head.len() + payload.len() {
                self.outgoing.pop_front();
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        stream: &mut TcpStream,
        ours: &Preamble,
        payload_bytes: usize,
        scratch: &mut [u8],
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        while !scratch.is_empty() {
            match stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(bytes) => self.take(ours, payload_bytes, &scratch[..bytes], events)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::NotConnected => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn take(
        &mut self,
        ours: &Preamble,
        payload_bytes: usize,
        mut bytes: &[u8],
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        while !bytes.is_empty() {
            if let Some((reply, missing)) = self.reading.take() {
                let now = missing.min(bytes.len());
                bytes = &bytes[now..];
                if missing > now {
                    self.reading = Some((reply, missing - now));
                } else {
                    events.push(Event::Replied(reply, mono_ns()));
                }
                continue;
            }
            let wanted = if self.ready { REPLY_BYTES } else { PREAMBLE_BYTES };
            let (now, rest) = bytes.split_at((wanted - self.have).min(bytes.len()));
            self.head[self.have..self.have + now.len()].copy_from_slice(now);
            self.have += now.len();
            bytes = rest;
            if self.have < wanted {
                continue;
            }
            self.have = 0;
            if !self.ready {
                self.greeted(ours, events)?;
                continue;
            }
            let mut head = [0; REPLY_BYTES];
            head.copy_from_slice(&self.head[..REPLY_BYTES]);
            let reply = Reply::decode(&head).ok_or(ErrorKind::InvalidData)?;
            if reply.request.workload.has_payload() && payload_bytes > 0 {
                self.reading = Some((reply, payload_bytes));
            } else {
                events.push(Event::Replied(reply, mono_ns()));
            }
        }
        Ok(())
    }

    fn greeted(&mut self, ours: &Preamble, events: &mut Vec<Event>) -> io::Result<()> {
        let other = Preamble::decode(&self.head).and_then(|other| {
            ours.agree(&other)?;
            if other.node == self.node { Ok(other) } else { Err(Mismatch::Node) }
        });
        match other {
            Ok(other) => {
                (self.ready, self.pause_ns) = (true, RETRY_MIN_NS);
                events.push(Event::Connected(other.incarnation));
                Ok(())
            }
            Err(mismatch) => {
                events.push(Event::Refused(mismatch));
                Err(ErrorKind::InvalidData.into())
            }
        }
    }
}
