//! Connection of one client: bytes in, bytes out.

use super::replies::{Replies, Window};
use crate::net::listen::{Accepted, Share};
use crate::net::transport::{Received, Transport};
use crate::worker::trees::dialogue::Dialogue;
use adt::Reply;
use engine::gateway::SessionId;
use engine::limits::{
    ARGUMENT_BYTES_MAX, COMMAND_WORDS_MAX, FRAME_BYTES_MAX, INLINE_BYTES_MAX, OUTPUT_BYTES_MAX,
    OUTPUT_BYTES_PAUSE, OUTPUT_BYTES_PER_TURN, SKIPPED_BYTES_MAX, STALLED_US_MAX,
    STALLED_US_MAX_IF_FULL, UNAUTHENTICATED_FRAME_BYTES_MAX,
};
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use wire::resp::{Limits, Protocol, RequestDecoder, encode, size};

/// Limits on a client's commands.
pub const LIMITS: Limits = Limits {
    bulk_max_bytes: ARGUMENT_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: FRAME_BYTES_MAX as u32,
    inline_max_bytes: INLINE_BYTES_MAX as u32,
    skipped_max_bytes: SKIPPED_BYTES_MAX as u32,
    authenticated: true,
};
/// Limits on a client's commands before it has authenticated.
pub const UNAUTHENTICATED_LIMITS: Limits = Limits {
    bulk_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    inline_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    skipped_max_bytes: 0,
    authenticated: false,
};

/// A larger output buffer is freed when all is sent.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Replies of at most this size are encoded at once.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Limit on bytes that are encoded ahead of the socket, for replies that are encoded as it takes
/// them, and on the bytes of one read.
const PIECE_BYTES: usize = 256 << 10;
/// Limit on the growth of a connection's own buffer; a buffer without data takes no memory.
const GROWTH_BYTES_MAX: usize = 4 << 20;
/// Least free space of a connection's own buffer for a read.
const GROWTH_BYTES_MIN: usize = 16 << 10;
/// Least number of sent bytes that are removed from the buffer at once.
const SENT_BYTES_KEPT: usize = 1 << 20;
/// Bytes that are encrypted at once.
const TLS_CHUNK_BYTES: usize = 16 << 10;

/// Connection of a client.
pub struct Connection {
    transport: Transport,
    /// Session of the connection at the gateway.
    pub session: SessionId,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Distinguishes the connection from later ones in the same slot.
    pub number: u64,
    /// Finds commands in the input.
    pub decoder: RequestDecoder,
    /// Received bytes without a complete command, or complete commands that wait for earlier ones.
    pub input: Vec<u8>,
    /// Bytes of commands that have been passed on and not yet been counted.
    pub passed: usize,
    /// Bytes to be sent; those before `sent` have been sent.
    pub output: Vec<u8>,
    sent: usize,
    /// Memory of both buffers and of unsent replies, as it was counted last.
    pub buffered: usize,
    /// Replies after those in `output`.
    pub replies: Replies,
    /// Limit on requests whose replies may be large.
    pub window: Window,
    /// Bytes of `input` that the process-wide sum includes, and the time since which it does (µs).
    pub counted: (usize, u64),
    /// Time at which the socket last accepted bytes, or the output last became non-empty (µs).
    pub moved_us: u64,
    /// In the list of connections with requests in progress whose replies may be large.
    pub heavy: bool,
    /// In the list of connections that may make no progress.
    pub clogged: bool,
    /// Waits until there is room for another large reply.
    pub starved: bool,
    /// The socket takes more, but other connections come first.
    pub more: bool,
    /// The socket took less than was offered: an event will announce when it takes more.
    pub full: bool,
    /// There may be bytes to read.
    pub readable: bool,
    /// The client will send nothing more: read until the end shows, however few bytes a read
    /// returns.
    pub hangup: bool,
    /// In the list of connections to be read.
    pub queued: bool,
    /// In the list of connections with output.
    pub dirty: bool,
    /// In the list of connections with replies that may be sent together with the next one.
    pub lingering: bool,
    /// In the list of connections whose commands wait until earlier ones are answered.
    pub paused: bool,
    /// Nothing more is read.
    pub deaf: bool,
    /// The client broke the protocol, and the error has been sent already.
    pub broken: bool,
    /// To be closed once everything is sent.
    pub closing: bool,
    /// The gateway has authenticated the client.
    pub authenticated: bool,
    /// State of ZooKeeper's protocol, for a client of the coordination service.
    pub dialogue: Option<Box<Dialogue>>,
    /// Counts the connection against its address's limit until it is dropped.
    _share: Option<Share>,
}

impl Connection {
    /// Creates the state of a connection that was just accepted.
    pub fn new(accepted: Accepted, session: SessionId, number: u64) -> Self {
        let tls = accepted.tls.map(Into::into);
        let (port, peer) = (accepted.port, accepted.peer);
        let mut transport = Transport::new(accepted.stream, tls, TLS_CHUNK_BYTES);
        if port.is_for_coordination() {
            transport = transport.in_frames();
        }
        Self {
            transport,
            session,
            peer,
            number,
            decoder: RequestDecoder::new(),
            input: Vec::new(),
            passed: 0,
            output: Vec::new(),
            sent: 0,
            buffered: 0,
            replies: Replies::default(),
            window: Window::default(),
            counted: (0, 0),
            moved_us: 0,
            heavy: false,
            clogged: false,
            starved: false,
            more: false,
            full: false,
            readable: false,
            hangup: false,
            queued: false,
            dirty: false,
            lingering: false,
            paused: false,
            deaf: false,
            broken: false,
            closing: false,
            authenticated: false,
            dialogue: None,
            _share: accepted.share,
        }
    }

    /// Socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.transport.stream()
    }

    /// Whether the TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        self.transport.is_handshaking()
    }

    /// Whether the transport holds data to send that did not come from `output`.
    pub fn holds_back(&self) -> bool {
        self.transport.holds_back()
    }

    /// Approximate number of bytes to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent + self.replies.bytes()
    }

    /// Time for which the socket has taken nothing, in microseconds.
    pub fn still_us(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.moved_us)
    }

    /// Whether the client has read nothing for longer than it may while so much waits for it. It has less
    /// time and space if the replies of all clients are at their limit (`full`).
    pub fn is_stalled(&self, now_us: u64, full: bool) -> bool {
        let (unsent, still_us) = (self.unsent(), self.still_us(now_us));
        (unsent > OUTPUT_BYTES_MAX && still_us >= STALLED_US_MAX)
            || (full && unsent > OUTPUT_BYTES_PAUSE && still_us >= STALLED_US_MAX_IF_FULL)
    }

    /// Adds a reply. Returns the memory that it costs until it is encoded.
    pub fn put(&mut self, now_us: u64, reply: Reply, protocol: Protocol) -> usize {
        let unsent = self.unsent();
        if unsent == 0 {
            self.moved_us = now_us;
        }
        let size = size(&reply);
        self.window.saw(size.bytes);
        let at_once = size.bytes <= AT_ONCE_BYTES_MAX && unsent <= OUTPUT_BYTES_PAUSE;
        if at_once && self.replies.is_empty() {
            encode(&reply, protocol, &mut self.output);
            return 0;
        }
        self.replies.push(reply, protocol, size)
    }

    /// Reads into `buffer`, once.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        self.transport.receive(buffer, self.hangup)
    }

    /// Reads into the connection's own buffer, once.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive_more(&mut self) -> io::Result<Received> {
        let mut input = std::mem::take(&mut self.input);
        let held = input.len();
        if input.capacity() - held < GROWTH_BYTES_MIN {
            input.reserve_exact(held.clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX));
        }
        let room = (input.capacity() - held).min(PIECE_BYTES);
        input.resize(held + room, 0);
        let received = self.receive(&mut input[held..]);
        let count = match received {
            Ok(Received::Bytes { count, .. }) => count,
            _ => 0,
        };
        input.truncate(held + count);
        self.input = input;
        received
    }

    /// Sends as much as the socket takes without delaying other connections for long: usually one
    /// system call. Returns the number of bytes sent, and the memory freed by encoding replies.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn flush(&mut self, now_us: u64) -> io::Result<(usize, usize)> {
        let (mut total, mut freed) = (0, 0);
        loop {
            freed += self.replies.write(self.sent + PIECE_BYTES, &mut self.output);
            let taken = self.transport.send(&self.output[self.sent..])?;
            self.sent += taken;
            total += taken;
            self.full = self.sent < self.output.len() || self.transport.holds_back();
            self.give_back();
            self.more = !self.full && !self.replies.is_empty();
            if !self.more || total >= OUTPUT_BYTES_PER_TURN {
                break;
            }
        }
        if total > 0 {
            self.moved_us = now_us;
        }
        Ok((total, freed))
    }

    /// Drops the bytes that have been sent.
    fn give_back(&mut self) {
        if self.sent == self.output.len() {
            self.sent = 0;
            if self.output.capacity() > OUTPUT_KEPT_BYTES {
                self.output = Vec::new();
            } else {
                self.output.clear();
            }
        } else if self.sent > SENT_BYTES_KEPT && self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::listen::Port;
    use std::io::Read;
    use std::time::Duration;

    /// A connection and its client.
    fn pair() -> (Connection, std::net::TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, peer) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let stream = TcpStream::from_std(stream);
        let (port, local) = (Port::Redis, listener.local_addr().unwrap());
        let accepted = Accepted { port, stream, tls: None, peer, local, share: None };
        (Connection::new(accepted, SessionId::default(), 1), client)
    }

    /// Puts replies until the socket takes nothing and more than this waits.
    fn fill(connection: &mut Connection, now_us: u64, bytes: usize) {
        let mut idle = 0;
        while idle < 5 {
            while connection.unsent() <= bytes {
                connection.put(now_us, Reply::bulk(vec![b'x'; 1 << 20]), Protocol::default());
                connection.flush(now_us).unwrap();
            }
            // The kernel may still move bytes to the client's side.
            std::thread::sleep(Duration::from_millis(10));
            let (taken, _) = connection.flush(now_us).unwrap();
            idle = if taken > 0 { 0 } else { idle + 1 };
        }
    }

    #[test]
    fn a_client_that_reads_nothing_for_its_time_is_stalled_and_one_that_reads_is_not() {
        let begin_us = 1_000_000;
        let (mut connection, mut client) = pair();
        fill(&mut connection, begin_us, OUTPUT_BYTES_MAX);
        let end_us = begin_us + STALLED_US_MAX;
        // Replies that come meanwhile, and attempts to send them, are no sign of the client.
        connection.put(end_us - 1, Reply::Ok, Protocol::default());
        connection.flush(end_us - 1).unwrap();
        assert!(!connection.is_stalled(end_us - 1, false));
        assert!(connection.is_stalled(end_us, false));
        // It reads, so that the socket takes more.
        client.read_exact(&mut vec![0; 4 << 20]).unwrap();
        while connection.flush(end_us).unwrap().0 == 0 {
            std::thread::yield_now();
        }
        fill(&mut connection, end_us, OUTPUT_BYTES_MAX);
        assert!(!connection.is_stalled(end_us, false));
        assert!(!connection.is_stalled(end_us + STALLED_US_MAX - 1, false));
        assert!(connection.is_stalled(end_us + STALLED_US_MAX, false));
    }

    #[test]
    fn with_less_to_be_sent_a_client_is_stalled_only_if_all_replies_are_at_their_limit() {
        let begin_us = 1_000_000;
        let (mut connection, _client) = pair();
        fill(&mut connection, begin_us, OUTPUT_BYTES_PAUSE);
        let early_us = begin_us + STALLED_US_MAX_IF_FULL;
        assert!(!connection.is_stalled(early_us - 1, true));
        assert!(connection.is_stalled(early_us, true));
        assert!(!connection.is_stalled(begin_us + 2 * STALLED_US_MAX, false));
        let (idle, _client) = pair();
        assert!(!idle.is_stalled(begin_us + 2 * STALLED_US_MAX, true));
    }
}
