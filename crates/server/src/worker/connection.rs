//! One client's connection: bytes in, bytes out.

use crate::listen::Accepted;
use engine::gateway::SessionId;
use engine::limits::{
    ARGUMENT_BYTES_MAX, COMMAND_WORDS_MAX, FRAME_BYTES_MAX, INLINE_BYTES_MAX,
    UNAUTHENTICATED_FRAME_BYTES_MAX,
};
use mio::net::TcpStream;
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use wire::resp::{Limits, RequestDecoder};

/// What a client may send.
pub const LIMITS: Limits = Limits {
    bulk_max_bytes: ARGUMENT_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: FRAME_BYTES_MAX as u32,
    inline_max_bytes: INLINE_BYTES_MAX as u32,
    authenticated: true,
};
/// What a client may send before it has authenticated itself.
pub const UNAUTHENTICATED_LIMITS: Limits = Limits {
    bulk_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    words_max: COMMAND_WORDS_MAX as u32,
    frame_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    inline_max_bytes: UNAUTHENTICATED_FRAME_BYTES_MAX as u32,
    authenticated: false,
};

/// More room for bytes to be sent than this is given back when all are sent.
const OUTPUT_KEPT_BYTES: usize = 64 << 10;
/// Most bytes that are read into a connection's own buffer at once.
const GROWTH_BYTES_MAX: usize = 1 << 20;
/// Fewest bytes that are read into a connection's own buffer at once.
const GROWTH_BYTES_MIN: usize = 16 << 10;
/// Bytes that are handed to the encrypting side at once.
const TLS_CHUNK_BYTES: usize = 16 << 10;

/// What reading has brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes; `more` if there may be more to read now.
    Bytes {
        /// How many.
        count: usize,
        /// Whether to read again.
        more: bool,
    },
    /// Nothing now.
    Nothing,
    /// The client has closed the connection.
    End,
}

/// How the bytes travel.
enum Transport {
    Plain(TcpStream),
    Tls(TcpStream, Box<ServerConnection>),
}

/// A client's connection.
pub struct Connection {
    transport: Transport,
    /// The gateway's name for it.
    pub session: SessionId,
    /// Finds commands in the input.
    pub decoder: RequestDecoder,
    /// Bytes that were received and hold no complete command yet, or wait for their turn.
    pub input: Vec<u8>,
    /// Bytes to be sent; those before `sent` are sent already.
    pub output: Vec<u8>,
    sent: usize,
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
    /// To be closed once everything is sent.
    pub closing: bool,
    /// The gateway has said that the client may send commands.
    pub authenticated: bool,
}

impl Connection {
    /// A connection that was just accepted.
    pub fn new(accepted: Accepted, session: SessionId) -> Self {
        let transport = match accepted.tls {
            None => Transport::Plain(accepted.stream),
            Some(tls) => Transport::Tls(accepted.stream, Box::new(tls)),
        };
        Self {
            transport,
            session,
            decoder: RequestDecoder::new(),
            input: Vec::new(),
            output: Vec::new(),
            sent: 0,
            full: false,
            readable: false,
            hangup: false,
            queued: false,
            dirty: false,
            lingering: false,
            paused: false,
            deaf: false,
            closing: false,
            authenticated: false,
        }
    }

    /// The socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        match &mut self.transport {
            Transport::Plain(stream) | Transport::Tls(stream, _) => stream,
        }
    }

    /// Whether the keys are still being agreed on.
    pub fn is_handshaking(&self) -> bool {
        match &self.transport {
            Transport::Plain(_) => false,
            Transport::Tls(_, tls) => tls.is_handshaking(),
        }
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
        let hangup = self.hangup;
        match &mut self.transport {
            Transport::Plain(stream) => match retry(|| stream.read(buffer))? {
                None => Ok(Received::Nothing),
                Some(0) => Ok(Received::End),
                // Fewer bytes than there was room for: the socket is empty, and an event will tell
                // when that changes. An end that follows was told already, hence `hangup`.
                Some(count) => Ok(Received::Bytes { count, more: count == buffer.len() || hangup }),
            },
            Transport::Tls(stream, tls) => receive_tls(stream, tls, buffer),
        }
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
        match &mut self.transport {
            Transport::Plain(stream) => {
                while self.sent < self.output.len() {
                    match retry(|| stream.write(&self.output[self.sent..]))? {
                        Some(count) => self.sent += count,
                        None => break,
                    }
                }
            }
            Transport::Tls(stream, tls) => {
                while tls.wants_write() || self.sent < self.output.len() {
                    if tls.wants_write() {
                        if retry(|| tls.write_tls(stream))?.is_none() {
                            break;
                        }
                    } else {
                        let end = self.output.len().min(self.sent + TLS_CHUNK_BYTES);
                        match tls.writer().write(&self.output[self.sent..end])? {
                            0 => break,
                            count => self.sent += count,
                        }
                    }
                }
            }
        }
        self.full = match &self.transport {
            Transport::Plain(_) => self.sent < self.output.len(),
            Transport::Tls(_, tls) => self.sent < self.output.len() || tls.wants_write(),
        };
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

/// Does something that may block: `None` if it would.
fn retry(mut attempt: impl FnMut() -> io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match attempt() {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn receive_tls(
    stream: &mut TcpStream,
    tls: &mut ServerConnection,
    buffer: &mut [u8],
) -> io::Result<Received> {
    loop {
        match tls.reader().read(buffer) {
            Ok(0) => return Ok(Received::End),
            Ok(count) => return Ok(Received::Bytes { count, more: true }),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            // The client has gone without saying goodbye.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Received::End),
            Err(error) => return Err(error),
        }
        match retry(|| tls.read_tls(stream))? {
            None => return Ok(Received::Nothing),
            Some(0) => return Ok(Received::End),
            Some(_) => {
                if let Err(error) = tls.process_new_packets() {
                    // The alert that says why; the client may be gone already.
                    let _ = tls.write_tls(stream);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
            }
        }
    }
}
