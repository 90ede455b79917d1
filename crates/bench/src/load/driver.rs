//! Event loop of all load generators: one thread, readiness events, any number of connections, each
//! with at most one conversation in flight (a closed loop).
//!
//! A network round trip is emulated by delaying a client's next message. With one conversation per
//! connection, a delay of half the round trip in each direction is, for the server, the same as the
//! whole round trip between its reply and the client's next message; the client's clock is advanced
//! by the half that its reply would have travelled.

use super::resp::{Frame, NoReply, frame_len};
use super::stream::Stream;
use super::timers::Timers;
use crate::stop;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::io;
use std::net::SocketAddr;

const TIMER: Token = Token(usize::MAX);
const READ_BYTES: usize = 64 << 10;

/// Replies that a client awaits after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Replies that must arrive before its next turn; at least 1.
    pub replies: u32,
    /// Pause before it sends, in nanoseconds.
    pub hold_ns: u64,
}

/// Clients of a server, by number, as a state machine: replies come in, and a client has its next
/// turn once all replies that it awaits have arrived.
pub trait Fleet {
    /// Handles a reply to a client.
    ///
    /// # Errors
    /// Description of a fault that makes the whole run worthless.
    fn reply(&mut self, client: usize, frame: Frame<'_>) -> Result<(), String>;

    /// Appends a client's next message to `out`, at `now_ns` of the client's clock.
    fn turn(&mut self, client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn;

    /// Length of the reply at the beginning of `bytes`, which is RESP unless the fleet speaks
    /// another protocol; `None` if it is incomplete.
    ///
    /// # Errors
    /// The bytes are no reply.
    fn frame_len(&self, bytes: &[u8]) -> Result<Option<usize>, NoReply> {
        frame_len(bytes)
    }

    /// Whether the run may end early.
    fn is_done(&self) -> bool {
        false
    }
}

/// Reason for an early end of a run.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// The operating system refused an operation, or there was a signal.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The server did not speak the fleet's protocol.
    #[error("{0}")]
    NoReply(#[from] NoReply),
    /// A fleet gave up.
    #[error("{0}")]
    Fleet(String),
}

struct Connection {
    stream: Stream,
    awaited: u32,
    /// Whether the pause is over and the message may be sent.
    released: bool,
}

/// Connections and the event loop that serves them.
pub struct Driver {
    poll: Poll,
    events: Events,
    timers: Timers,
    connections: Vec<Connection>,
    rtt_ns: u64,
    started: bool,
    scratch: Vec<u8>,
}

impl Driver {
    /// Opens `clients` connections, spread over the addresses.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(
        servers: &[SocketAddr],
        clients: usize,
        rtt_ns: u64,
    ) -> Result<Self, DriveError> {
        let poll = Poll::new()?;
        let timers = Timers::new()?;
        let descriptor = timers.descriptor();
        poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let mut connections = Vec::with_capacity(clients);
        for (client, server) in servers.iter().cycle().take(clients).enumerate() {
            let stream = Stream::dial(*server, &poll, Token(client))?;
            connections.push(Connection { stream, awaited: 0, released: true });
        }
        let events = Events::with_capacity(1024);
        let scratch = vec![0; READ_BYTES];
        Ok(Self { poll, events, timers, connections, rtt_ns, started: false, scratch })
    }

    /// Time of the driver's clock, in nanoseconds.
    pub fn now_ns(&self) -> u64 {
        self.timers.now_ns()
    }

    /// Runs the clients until the driver's clock reaches `until_ns`. May be called again.
    ///
    /// # Errors
    /// See [`DriveError`].
    pub fn run(&mut self, fleet: &mut impl Fleet, until_ns: u64) -> Result<(), DriveError> {
        if !std::mem::replace(&mut self.started, true) {
            for client in 0..self.connections.len() {
                let now_ns = self.now_ns();
                self.turn(fleet, client, now_ns, self.rtt_ns / 2)?;
            }
        }
        loop {
            stop::check()?;
            let now_ns = self.now_ns();
            if now_ns >= until_ns || fleet.is_done() {
                return Ok(());
            }
            while let Some(client) = self.timers.pop(now_ns) {
                self.connections[client].released = true;
                self.flush(client)?;
            }
            self.timers.arm(until_ns)?;
            match self.poll.poll(&mut self.events, None) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            }
            let events = std::mem::replace(&mut self.events, Events::with_capacity(0));
            for event in events.iter().filter(|event| event.token() != TIMER) {
                let client = event.token().0;
                if event.is_writable() && !self.connections[client].stream.out.is_empty() {
                    self.flush(client)?;
                }
                if event.is_readable() {
                    self.receive(fleet, client)?;
                }
            }
            self.events = events;
        }
    }

    fn turn(
        &mut self,
        fleet: &mut impl Fleet,
        client: usize,
        now_ns: u64,
        travel_ns: u64,
    ) -> Result<(), DriveError> {
        let connection = &mut self.connections[client];
        let turn = fleet.turn(client, now_ns, &mut connection.stream.out);
        connection.awaited = turn.replies;
        let wait_ns = travel_ns + turn.hold_ns;
        if wait_ns == 0 {
            return self.flush(client);
        }
        connection.released = false;
        self.timers.add(self.timers.now_ns() + wait_ns, client);
        Ok(())
    }

    fn flush(&mut self, client: usize) -> Result<(), DriveError> {
        let connection = &mut self.connections[client];
        if !connection.released {
            return Ok(());
        }
        Ok(connection.stream.flush()?)
    }

    fn receive(&mut self, fleet: &mut impl Fleet, client: usize) -> Result<(), DriveError> {
        loop {
            let read = self.connections[client].stream.read(&mut self.scratch)?;
            let Some(read) = read else { return Ok(()) };
            // The usual case: complete replies, consumed from the position of the last read.
            let mut input = std::mem::take(&mut self.connections[client].stream.input);
            let scratch = std::mem::take(&mut self.scratch);
            let taken = if input.is_empty() {
                let taken = self.take_replies(fleet, client, &scratch[..read])?;
                input.extend_from_slice(&scratch[taken..read]);
                0
            } else {
                input.extend_from_slice(&scratch[..read]);
                self.take_replies(fleet, client, &input)?
            };
            self.scratch = scratch;
            input.drain(..taken);
            self.connections[client].stream.input = input;
            if read < READ_BYTES {
                // The socket is drained; new data raises an event.
                return Ok(());
            }
        }
    }

    fn take_replies(
        &mut self,
        fleet: &mut impl Fleet,
        client: usize,
        bytes: &[u8],
    ) -> Result<usize, DriveError> {
        let mut at = 0;
        while let Some(len) = fleet.frame_len(&bytes[at..])? {
            fleet.reply(client, Frame(&bytes[at..at + len])).map_err(DriveError::Fleet)?;
            at += len;
            let connection = &mut self.connections[client];
            connection.awaited = connection.awaited.checked_sub(1).ok_or(NoReply)?;
            if connection.awaited == 0 {
                let now_ns = self.timers.now_ns() + self.rtt_ns / 2;
                self.turn(fleet, client, now_ns, self.rtt_ns)?;
            }
        }
        Ok(at)
    }
}
