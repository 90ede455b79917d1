//! One client's connection: bytes in, bytes out.

use super::dialogue::Dialogue;
use super::replies::{Replies, Window};
use crate::listen::{Accepted, Share};
use crate::transport::{Received, Transport};
use adt::Reply;
use engine::gateway::SessionId;
use engine::limits::{
    ARGUMENT_BYTES_MAX, COMMAND_WORDS_MAX, FRAME_BYTES_MAX, INLINE_BYTES_MAX, OUTPUT_BYTES_PAUSE,
    OUTPUT_BYTES_PER_TURN, SKIPPED_BYTES_MAX, UNAUTHENTICATED_FRAME_BYTES_MAX,
};
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use wire::resp::{Limits, Protocol, RequestDecoder, encode, size};

/// What a client may send.
pub const LIMITS: Limits = Limits {
    bulk_max_bytes: ARGUMENT_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: FRAME_BYTES_MAX as u32,
    inline_max_bytes: INLINE_BYTES_MAX as u32,
    skipped_max_bytes: SKIPPED_BYTES_MAX as u32,
    authenticated: true,
};
/// What a client may send before it has authenticated itself.
pub const UNAUTHENTICATED_LIMITS: Limits = Limits {
    bulk_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    inline_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    skipped_max_bytes: 0,
    authenticated: false,
};

/// More room for bytes to be sent than this is given back when all are sent.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Replies of at most so many bytes are written at once.
const AT_ONCE_BYTES_MAX: usize = 64 << 10;
/// Bytes that are written ahead of the socket, of replies that are written as it takes them, and most
/// bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;
/// Most bytes by which a connection's own buffer grows at once; what nothing is read into takes none.
const GROWTH_BYTES_MAX: usize = 4 << 20;
/// Fewest bytes that are read into a connection's own buffer at once.
const GROWTH_BYTES_MIN: usize = 16 << 10;
/// Bytes that are sent after which their room is given back, at least.
const SENT_BYTES_KEPT: usize = 1 << 20;
/// Bytes that are encrypted at once.
const TLS_CHUNK_BYTES: usize = 16 << 10;

/// A client's connection.
pub struct Connection {
    transport: Transport,
    /// The gateway's name for it.
    pub session: SessionId,
    /// Where the client is.
    pub peer: SocketAddr,
    /// Tells it from others that have its place after it.
    pub number: u64,
    /// Finds commands in the input.
    pub decoder: RequestDecoder,
    /// Bytes that were received and hold no complete command yet, or wait for their turn.
    pub input: Vec<u8>,
    /// Bytes of commands that have been passed on since that was asked last.
    pub passed: usize,
    /// Bytes to be sent; those before `sent` are sent already.
    pub output: Vec<u8>,
    sent: usize,
    /// Memory of both buffers and of replies that wait, as it was counted last.
    pub buffered: usize,
    /// Replies that come after that.
    pub replies: Replies,
    /// Requests whose replies may be large.
    pub window: Window,
    /// What of `input` is counted in the sum of the process, in bytes, and since when (µs).
    pub counted: (usize, u64),
    /// When the socket has taken something last, or something came to be sent to it (µs).
    pub moved_us: u64,
    /// In the list of connections that have requests under way whose replies may be large.
    pub heavy: bool,
    /// In the list of connections that may stand still.
    pub clogged: bool,
    /// It waits until there is room for another large reply.
    pub starved: bool,
    /// The socket takes more, but others are to have their turn.
    pub more: bool,
    /// The socket took less than there was to send: an event will tell when it takes more.
    pub full: bool,
    /// There may be bytes to read.
    pub readable: bool,
    /// The client will send nothing more: read until the end shows, however little comes at once.
    pub hangup: bool,
    /// In the list of connections to be read.
    pub queued: bool,
    /// In the list of connections with something to be sent.
    pub dirty: bool,
    /// In the list of connections with replies that may travel with the next one.
    pub lingering: bool,
    /// In the list of connections whose commands wait until earlier ones are answered.
    pub paused: bool,
    /// Nothing more is read.
    pub deaf: bool,
    /// The client broke the protocol, and has been told so already.
    pub broken: bool,
    /// To be closed once everything is sent.
    pub closing: bool,
    /// The gateway has said that the client may send commands.
    pub authenticated: bool,
    /// A client of the coordination service speaks another protocol.
    pub dialogue: Option<Box<Dialogue>>,
    /// Counts it among those of its address until it is gone.
    _share: Option<Share>,
}

impl Connection {
    /// A connection that was just accepted.
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

    /// The socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        self.transport.stream()
    }

    /// Whether the keys are still being agreed on.
    pub fn is_handshaking(&self) -> bool {
        self.transport.is_handshaking()
    }

    /// Whether there is something to be sent that nobody has put into `output`.
    pub fn holds_back(&self) -> bool {
        self.transport.holds_back()
    }

    /// Bytes that are to be sent, about.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent + self.replies.bytes()
    }

    /// A reply is to be sent; gives what it costs until it is.
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

    /// Sends what there is to send, as far as the socket takes it and others need not wait for long:
    /// usually one system call. Gives how many bytes that were, and what has become free of what
    /// replies have cost.
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

    /// Forgets what is sent.
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
