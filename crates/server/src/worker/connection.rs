//! One client's connection: bytes in, bytes out.

use super::dialogue::Dialogue;
use crate::listen::Accepted;
use crate::transport::{Received, Transport};
use engine::gateway::SessionId;
use engine::limits::{
    ARGUMENT_BYTES_MAX, COMMAND_WORDS_MAX, FRAME_BYTES_MAX, INLINE_BYTES_MAX, SKIPPED_BYTES_MAX,
    UNAUTHENTICATED_FRAME_BYTES_MAX,
};
use mio::net::TcpStream;
use std::io;
use std::net::SocketAddr;
use wire::resp::{Limits, RequestDecoder};

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
/// Most bytes that are read into a connection's own buffer at once.
const GROWTH_BYTES_MAX: usize = 1 << 20;
/// Fewest bytes that are read into a connection's own buffer at once.
const GROWTH_BYTES_MIN: usize = 16 << 10;
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
    /// Bytes to be sent; those before `sent` are sent already.
    pub output: Vec<u8>,
    sent: usize,
    /// Memory of both buffers, as it was counted last.
    pub counted: usize,
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
            output: Vec::new(),
            sent: 0,
            counted: 0,
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

    /// Bytes that are to be sent.
    pub fn unsent(&self) -> usize {
        self.output.len() - self.sent
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
        input.resize(held + held.clamp(GROWTH_BYTES_MIN, GROWTH_BYTES_MAX), 0);
        let received = self.receive(&mut input[held..]);
        let count = match received {
            Ok(Received::Bytes { count, .. }) => count,
            _ => 0,
        };
        input.truncate(held + count);
        self.input = input;
        received
    }

    /// Sends what there is to send, as far as the socket takes it: usually one system call.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn flush(&mut self) -> io::Result<()> {
        self.sent += self.transport.send(&self.output[self.sent..])?;
        self.full = self.sent < self.output.len() || self.transport.holds_back();
        self.give_back();
        Ok(())
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
        } else if self.sent > GROWTH_BYTES_MAX && self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }
}
