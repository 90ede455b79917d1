//! A connection beside the load, for preparing data and reading counters.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;
use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits, encode_command};

/// Maximum number of commands that are sent before their replies are read.
const TOGETHER_MAX: usize = 500;
const PATIENCE: Duration = Duration::from_secs(120);

/// A blocking connection.
pub struct Control {
    stream: TcpStream,
    decoder: ReplyDecoder,
    input: Vec<u8>,
}

impl Control {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { stream, decoder: ReplyDecoder::new(), input: Vec::new() })
    }

    /// Sends a command and waits for its reply; an error reply is an error.
    ///
    /// # Errors
    /// The connection breaks, or the server answers an error.
    pub fn call(&mut self, words: &[&str]) -> io::Result<ClientReply> {
        self.send(words)?;
        self.reply()
    }

    /// Sends a command without waiting for its reply.
    ///
    /// # Errors
    /// The connection breaks.
    pub fn send(&mut self, words: &[&str]) -> io::Result<()> {
        let mut bytes = Vec::new();
        encode_command(words, &mut bytes);
        self.stream.write_all(&bytes)
    }

    /// Sends commands that are already encoded, a bounded number at a time, and checks that none
    /// fails.
    ///
    /// # Errors
    /// The connection breaks, or the server answers an error.
    pub fn load(&mut self, commands: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
        let (mut bytes, mut waiting) = (Vec::new(), 0);
        for command in commands {
            bytes.extend_from_slice(&command);
            waiting += 1;
            if waiting == TOGETHER_MAX || bytes.len() > 256 << 10 {
                self.exchange(&mut bytes, &mut waiting)?;
            }
        }
        self.exchange(&mut bytes, &mut waiting)
    }

    fn exchange(&mut self, bytes: &mut Vec<u8>, waiting: &mut usize) -> io::Result<()> {
        self.stream.write_all(bytes)?;
        bytes.clear();
        for _ in 0..std::mem::take(waiting) {
            self.reply()?;
        }
        Ok(())
    }

    fn reply(&mut self) -> io::Result<ClientReply> {
        crate::stop::check()?;
        loop {
            let next = self.decoder.next(&self.input, &ReplyLimits::default());
            if let Some((reply, len)) = next.map_err(io::Error::other)? {
                self.input.drain(..len);
                return match reply {
                    ClientReply::Error(text) => Err(io::Error::other(text.into_string())),
                    reply => Ok(reply),
                };
            }
            let mut chunk = [0; 16 << 10];
            let read = self.stream.read(&mut chunk)?;
            if read == 0 {
                return Err(io::Error::other("the server closed the connection"));
            }
            self.input.extend_from_slice(&chunk[..read]);
        }
    }

    /// Reads the fields of some sections of `INFO`.
    ///
    /// # Errors
    /// See [`Control::call`].
    pub fn info(&mut self, sections: &[&str]) -> io::Result<BTreeMap<String, String>> {
        let mut fields = BTreeMap::new();
        for section in sections {
            let ClientReply::Bulk(text) = self.call(&["INFO", section])? else { continue };
            let text = String::from_utf8_lossy(&text).into_owned();
            let pairs = text.lines().filter_map(|line| line.split_once(':'));
            fields.extend(pairs.map(|(name, value)| (name.to_owned(), value.trim().to_owned())));
        }
        Ok(fields)
    }
}
