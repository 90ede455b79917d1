//! Non-blocking connection of a load generator; unsent bytes are kept.

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

/// A stream to a server, with bytes to send and bytes received.
pub struct Stream {
    stream: TcpStream,
    /// Bytes that the next [`Stream::flush`] sends.
    pub out: Vec<u8>,
    written: usize,
    /// Bytes from the server that are not consumed yet.
    pub input: Vec<u8>,
}

impl Stream {
    /// Connects to a server and registers the stream with `poll` under `token`.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn dial(server: SocketAddr, poll: &Poll, token: Token) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        let both = Interest::READABLE | Interest::WRITABLE;
        poll.registry().register(&mut stream, token, both)?;
        Ok(Self { stream, out: Vec::with_capacity(1024), written: 0, input: Vec::new() })
    }

    /// Sends as many of the pending bytes as the socket takes.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.write(&self.out[self.written..]) {
                Ok(0) => return Err(closed()),
                Ok(written) => self.written += written,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads available data into `bytes`; returns its length, and `None` if there is nothing now.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn read(&mut self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.stream.read(bytes) {
                Ok(0) => return Err(closed()),
                Ok(read) => return Ok(Some(read)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Closes the connection without a farewell.
    pub fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::ConnectionReset, "the server closed the connection")
}
