//! Server in this process, and a client for it.

#![allow(dead_code, reason = "every test file uses a part of it")]

use server::config::{Durability, Options, Settings};
use server::{Handle, start};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits, encode_command};

/// Settings of a small server in a directory.
pub fn settings(dir: &Path) -> Settings {
    Settings {
        dir: Some(dir.join("data")),
        port: Some(0),
        shards: Some(2),
        workers: Some(2),
        durability: Some(Durability::Always),
        ..Settings::default()
    }
}

/// Starts a server.
pub fn serve(settings: Settings) -> Handle {
    start(Options::resolve(settings).unwrap()).unwrap()
}

/// A client's connection, over TCP or something on top of it.
pub struct Client<S> {
    /// The connection.
    pub stream: S,
    decoder: ReplyDecoder,
    buffer: Vec<u8>,
}

/// A plain connection.
pub fn connect(address: SocketAddr) -> Client<TcpStream> {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    Client::over(stream)
}

impl<S: Read + Write> Client<S> {
    /// A client over a connection.
    pub fn over(stream: S) -> Self {
        Self { stream, decoder: ReplyDecoder::new(), buffer: Vec::new() }
    }

    /// Sends a command.
    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        let mut bytes = Vec::new();
        encode_command(words, &mut bytes);
        self.stream.write_all(&bytes).unwrap();
        self.stream.flush().unwrap();
    }

    /// The next reply, or none if the server has closed the connection.
    pub fn receive(&mut self) -> Option<ClientReply> {
        loop {
            let next = self.decoder.next(&self.buffer, &ReplyLimits::default()).unwrap();
            if let Some((reply, length)) = next {
                self.buffer.drain(..length);
                return Some(reply);
            }
            let mut chunk = [0; 64 << 10];
            match self.stream.read(&mut chunk) {
                Ok(0) => return None,
                Ok(count) => self.buffer.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no reply: {error}"),
            }
        }
    }

    /// Sends a command and waits for its reply.
    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> ClientReply {
        self.send(words);
        self.receive().expect("a reply")
    }
}

/// A bulk string.
pub fn bulk(text: &str) -> ClientReply {
    ClientReply::Bulk(adt::Blob::new(text.as_bytes()))
}

/// The text of an error.
pub fn error(reply: &ClientReply) -> &str {
    match reply {
        ClientReply::Error(text) => text,
        other => panic!("{other:?} is no error"),
    }
}
