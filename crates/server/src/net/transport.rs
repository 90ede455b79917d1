//! Transport of a connection's bytes: plain, or encrypted by rustls.
//!
//! Serves connections with clients and with other machines alike. Nothing here blocks.

use mio::net::TcpStream;
use rustls::Connection;
use std::io::{self, ErrorKind, Read, Write};

/// Result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes; `more` if there may be more to read now.
    Bytes {
        /// Number of bytes.
        count: usize,
        /// Whether to read again.
        more: bool,
    },
    /// Nothing to read now.
    Nothing,
    /// The peer has closed the connection.
    End,
}

/// Limit on the data in one TLS record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// No limit.
    Anything,
    /// At most one frame, which begins with its length in four bytes. kazoo reads one frame after
    /// the other, and only when the socket is readable: a second frame in a record that it has read
    /// already would wait for the next record.
    Frame {
        /// Bytes left of the frame that was begun.
        left: usize,
    },
}

impl Records {
    /// Number of these bytes that may go into the next record; `took` reports the number that did.
    fn next(&mut self, bytes: &[u8]) -> usize {
        let Self::Frame { left } = self else { return bytes.len() };
        if *left == 0 {
            let length = bytes.first_chunk().map(|length| u32::from_be_bytes(*length));
            *left = length.map_or(bytes.len(), |length| length as usize + 4);
        }
        bytes.len().min(*left)
    }

    fn took(&mut self, count: usize) {
        if let Self::Frame { left } = self {
            *left -= count;
        }
    }
}

/// Socket, with its TLS state if encrypted.
pub enum Transport {
    /// Plain bytes.
    Plain(TcpStream),
    /// Encrypted bytes.
    Tls(TcpStream, Box<Connection>, Records),
}

impl Transport {
    /// Creates a transport over a socket. At most `batch_bytes` of encrypted data wait for the
    /// socket; as many go into one system call.
    pub fn new(stream: TcpStream, tls: Option<Connection>, batch_bytes: usize) -> Self {
        match tls {
            None => Self::Plain(stream),
            Some(mut tls) => {
                tls.set_buffer_limit(Some(batch_bytes));
                Self::Tls(stream, Box::new(tls), Records::Anything)
            }
        }
    }

    /// Restricts each TLS record to at most one frame, for data that consists of frames with their
    /// lengths before them.
    pub fn in_frames(self) -> Self {
        match self {
            Self::Tls(stream, tls, _) => Self::Tls(stream, tls, Records::Frame { left: 0 }),
            plain => plain,
        }
    }

    /// Socket.
    pub fn stream(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(stream) | Self::Tls(stream, ..) => stream,
        }
    }

    /// Whether the bytes are encrypted.
    pub fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(..))
    }

    /// Whether the TLS handshake is in progress.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_, tls, _) => tls.is_handshaking(),
        }
    }

    /// Whether [`Self::send`] has accepted data that the socket has not taken yet.
    pub fn holds_back(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Tls(_, tls, _) => tls.wants_write(),
        }
    }

    /// Continues the TLS handshake as far as possible without blocking. Returns whether it is
    /// complete.
    ///
    /// # Errors
    /// If the connection is broken, or either side rejects the other.
    pub fn shake_hands(&mut self) -> io::Result<bool> {
        loop {
            self.send(&[])?;
            let Self::Tls(stream, tls, _) = self else { return Ok(true) };
            if !tls.is_handshaking() {
                return Ok(true);
            }
            match read_packets(stream, tls)? {
                None => return Ok(false),
                Some(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Some(_) => {}
            }
        }
    }

    /// Reads into `buffer`: once, or when encrypted until it is full or there is nothing more.
    ///
    /// `hangup` says that an event has announced the end of the peer's data.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn receive(&mut self, buffer: &mut [u8], hangup: bool) -> io::Result<Received> {
        match self {
            Self::Plain(stream) => match retry(|| stream.read(buffer))? {
                None => Ok(Received::Nothing),
                Some(0) => Ok(Received::End),
                // Fewer bytes than the buffer has room for: the socket is empty, and an event will
                // announce further data. An end that follows was announced already, hence `hangup`.
                Some(count) => Ok(Received::Bytes { count, more: count == buffer.len() || hangup }),
            },
            Self::Tls(stream, tls, _) => receive_tls(stream, tls, buffer),
        }
    }

    /// Sends as much as the socket takes, usually in one system call. Returns how many of `bytes`
    /// need not be sent again.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut taken = 0;
        match self {
            Self::Plain(stream) => {
                while taken < bytes.len() {
                    match retry(|| stream.write(&bytes[taken..]))? {
                        Some(count) => taken += count,
                        None => break,
                    }
                }
            }
            Self::Tls(stream, tls, records) => {
                while tls.wants_write() || taken < bytes.len() {
                    if tls.wants_write() {
                        if retry(|| tls.write_tls(stream))?.is_none() {
                            break;
                        }
                    } else {
                        match seal(tls, records, &bytes[taken..])? {
                            0 => break,
                            count => taken += count,
                        }
                    }
                }
            }
        }
        Ok(taken)
    }
}

/// Performs an operation that may block: `None` if it would.
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

/// Reads from the socket once and decrypts; see [`retry`] for the result.
fn read_packets(stream: &mut TcpStream, tls: &mut Connection) -> io::Result<Option<usize>> {
    let read = retry(|| tls.read_tls(stream))?;
    // Even if nothing has arrived: an earlier error persists.
    if let Err(error) = tls.process_new_packets() {
        // The alert tells the peer the reason; the peer may be gone already.
        let _ = tls.write_tls(stream);
        return Err(io::Error::new(ErrorKind::InvalidData, error));
    }
    Ok(read)
}

/// Encrypts as much as may wait for the socket. Returns the number of bytes encrypted.
fn seal(tls: &mut Connection, records: &mut Records, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        let rest = &bytes[taken..];
        let piece = records.next(rest);
        let count = tls.writer().write(&rest[..piece])?;
        records.took(count);
        taken += count;
        if count < piece {
            break;
        }
    }
    Ok(taken)
}

fn receive_tls(
    stream: &mut TcpStream,
    tls: &mut Connection,
    buffer: &mut [u8],
) -> io::Result<Received> {
    let mut count = 0;
    // Records are short, so several fit into the buffer.
    while count < buffer.len() {
        let end = match tls.reader().read(&mut buffer[count..]) {
            Ok(0) => Ok(Received::End),
            Ok(more) => {
                count += more;
                continue;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                match read_packets(stream, tls) {
                    Ok(None) if count > 0 => return Ok(Received::Bytes { count, more: false }),
                    Ok(None) => return Ok(Received::Nothing),
                    Ok(Some(0)) => Ok(Received::End),
                    Ok(Some(_)) => continue,
                    Err(error) => Err(error),
                }
            }
            // The peer has closed the socket without a TLS close.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(Received::End),
            Err(error) => Err(error),
        };
        if count == 0 {
            return end;
        }
        // Data before the end are returned first; the next read reports the end again.
        break;
    }
    Ok(Received::Bytes { count, more: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(mut records: Records, mut bytes: &[u8], at_once: usize) -> Vec<usize> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let count = records.next(bytes).min(at_once);
            records.took(count);
            pieces.push(count);
            bytes = &bytes[count..];
        }
        pieces
    }

    #[test]
    fn a_frame_shares_its_record_with_no_other() {
        let frames = [&[0, 0, 0, 3], b"abc".as_slice(), &[0; 4], &[0, 0, 0, 1], b"d"].concat();
        assert_eq!(pieces(Records::Frame { left: 0 }, &frames, 100), [7, 4, 5]);
        assert_eq!(
            pieces(Records::Frame { left: 0 }, &frames, 5),
            [5, 2, 4, 5],
            "not all is taken at once"
        );
        assert_eq!(pieces(Records::Anything, &frames, 100), [16]);
        // Text answers to four-letter commands are no frames.
        for text in [b"imok".as_slice(), b"rw", b"Zookeeper version"] {
            assert_eq!(pieces(Records::Frame { left: 0 }, text, 100), [text.len()]);
        }
    }
}
