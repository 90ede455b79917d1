//! A connection of a load generator: nothing blocks, and what cannot be sent at once is kept.

use mio::net::TcpStream;
use mio::{Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};

/// A stream to a server, with what is to be sent on it and what has come.
pub struct Stream {
    stream: TcpStream,
    /// Bytes that are sent by the next [`Stream::flush`].
    pub out: Vec<u8>,
    written: usize,
    /// Bytes that the server has sent and nobody has taken yet.
    pub input: Vec<u8>,
}

impl Stream {
    /// Connects to a server; whether it can be read or written is told to `poll` under `token`.
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

    /// Sends what is to be sent, as much as goes now.
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

    /// Reads what is there into `bytes`; tells how much it was, and `None` if there is nothing now.
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

    /// Ends the connection without a word.
    pub fn end(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn closed() -> io::Error {
    io::Error::new(ErrorKind::ConnectionReset, "the server closed the connection")
}
