//! One connection: address, authentication, commands out, replies in.

pub(crate) mod dispatch;
pub(crate) mod mux;
pub(crate) mod tls;

use crate::client::Options;
use crate::command::Command;
use crate::error::{Error, Result, checked};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use tls::Tls;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits};

const READ_BYTES: usize = 16 << 10;

/// Address of a server, and credentials.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    pub host: String,
    pub port: u16,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Whether to use TLS.
    pub is_private: bool,
}

impl Address {
    /// Reads `redis[s]://[user[:password]@]host[:port]`; `:password@` alone is the user `default`.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = |what: &str| {
            Error::Url(format!("{what}; a URL is redis[s]://[user[:password]@]host[:port]"))
        };
        let after = |schemes: [&str; 2]| schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        let private = after(["rediss://", "clarets://"]);
        let rest = private.or_else(|| after(["redis://", "claret://"]));
        let rest = rest.ok_or_else(|| wrong("the scheme must be redis or rediss"))?;
        let rest = rest.split('/').next().unwrap_or_default();
        let (login, place) = rest.rsplit_once('@').map_or((None, rest), |(l, p)| (Some(l), p));
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            None => (None, None),
            Some((user, password)) => (
                Some(user).filter(|user| !user.is_empty()).map(decoded).transpose()?,
                Some(password).filter(|p| !p.is_empty()).map(decoded).transpose()?,
            ),
        };
        let colon = place.rfind(':').filter(|at| !place[*at..].contains(']'));
        let (host, port) = match colon {
            None => (place, 6379),
            Some(at) => {
                let port = place[at + 1..].parse().map_err(|_| wrong("the port is no number"))?;
                (&place[..at], port)
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("there is no host"));
        }
        let is_private = private.is_some();
        Ok(Self { host: host.to_owned(), port, user, password, is_private })
    }
}

/// Undoes percent encoding.
fn decoded(text: &str) -> Result<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let hex = |digit: Option<u8>| digit.and_then(|d| char::from(d).to_digit(16));
        bytes.push(match byte {
            b'%' => match (hex(rest.next()), hex(rest.next())) {
                (Some(high), Some(low)) => (high * 16 + low) as u8,
                _ => return Err(Error::Url("a percent sign needs two hexadecimal digits".into())),
            },
            byte => byte,
        });
    }
    String::from_utf8(bytes).map_err(|_| Error::Url("user and password must be UTF-8".into()))
}

/// Receiving half of a connection.
pub(crate) struct Reader {
    half: Box<dyn AsyncRead + Send + Sync + Unpin>,
    decoder: ReplyDecoder,
    input: Vec<u8>,
    consumed: usize,
}

impl Reader {
    /// Waits for the next reply; an error reply is a reply. Safe to cancel: nothing is lost if the
    /// caller stops waiting and calls again.
    pub async fn reply(&mut self) -> Result<ClientReply> {
        loop {
            let next = self.decoder.next(&self.input[self.consumed..], &ReplyLimits::default())?;
            if let Some((reply, len)) = next {
                self.consumed += len;
                if self.consumed == self.input.len() {
                    self.input.clear();
                    self.consumed = 0;
                }
                if !matches!(reply, ClientReply::Push(_)) {
                    return Ok(reply);
                }
                continue;
            }
            self.input.drain(..self.consumed);
            self.consumed = 0;
            self.input.reserve(READ_BYTES);
            if self.half.read_buf(&mut self.input).await? == 0 {
                return Err(Error::Disconnected("the server closed it".into()));
            }
        }
    }
}

/// Connects and returns both halves, encrypted if the address requires it.
async fn halves(
    address: &Address,
    tls: &Tls,
) -> Result<(Box<dyn AsyncRead + Send + Sync + Unpin>, Writer)> {
    let failed = |error: io::Error| Error::Connect(error.to_string());
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    if address.is_private {
        let (half, writer) = tls.connect(&address.host, stream).await?;
        return Ok((Box::new(half), Writer::Private(writer)));
    }
    let (half, writer) = stream.into_split();
    Ok((Box::new(half), Writer::Plain(writer)))
}

/// Sending half of a connection.
pub(crate) enum Writer {
    Plain(OwnedWriteHalf),
    Private(WriteHalf<DuplexStream>),
}

impl Writer {
    fn half(&mut self) -> Pin<&mut (dyn AsyncWrite + Send + Unpin)> {
        let half: &mut (dyn AsyncWrite + Send + Unpin) = match self {
            Self::Plain(half) => half,
            Self::Private(half) => half,
        };
        Pin::new(half)
    }

    /// Writes as much as the connection takes without waiting.
    fn try_write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.half().poll_write(&mut Context::from_waker(Waker::noop()), bytes) {
            Poll::Ready(written) => written,
            Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().half().poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().half().poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().half().poll_shutdown(context)
    }
}

/// A connection that counts its outstanding replies.
pub(crate) struct Connection {
    pub reader: Reader,
    pub writer: Writer,
    owed: usize,
    /// Whether a write was begun and not finished, so that the server may have half a command.
    torn: bool,
}

impl Connection {
    /// Connects and authenticates.
    pub async fn open(address: &Address, options: &Options) -> Result<Self> {
        let (half, writer) =
            tokio::time::timeout(options.connect_timeout, halves(address, &options.tls))
                .await
                .map_err(|_| Error::Connect("no answer in time".into()))??;
        let reader = Reader { half, decoder: ReplyDecoder::new(), input: Vec::new(), consumed: 0 };
        let mut connection = Self { reader, writer, owed: 0, torn: false };
        if let Some(password) = &address.password {
            let user = address.user.as_deref().unwrap_or("default");
            let mut bytes = Vec::new();
            Command::new("AUTH").arg(user).arg(password.as_str()).encode(&mut bytes);
            for reply in connection.exchange(&bytes, 1).await? {
                checked(reply)?;
            }
        }
        Ok(connection)
    }

    /// Sends bytes that cause `replies` replies.
    pub async fn send(&mut self, bytes: &[u8], replies: usize) -> Result<()> {
        self.torn = true;
        self.writer.write_all(bytes).await?;
        self.torn = false;
        self.owed += replies;
        Ok(())
    }

    /// Sends bytes if that is possible without waiting; otherwise the connection becomes unusable.
    pub fn send_now(&mut self, bytes: &[u8], replies: usize) {
        self.torn |= self.writer.try_write(bytes).ok() != Some(bytes.len());
        self.owed += replies;
    }

    /// Sends bytes and waits for their replies, discarding replies to earlier requests without a
    /// waiter.
    pub async fn exchange(&mut self, bytes: &[u8], replies: usize) -> Result<Vec<ClientReply>> {
        let passed_over = self.owed;
        self.send(bytes, replies).await?;
        let mut wanted = Vec::with_capacity(replies.min(1024));
        for number in 0..passed_over + replies {
            let reply = self.reader.reply().await?;
            self.owed -= 1;
            if number >= passed_over {
                wanted.push(reply);
            }
        }
        Ok(wanted)
    }

    /// Whether the connection can be reused.
    pub fn is_whole(&self) -> bool {
        !self.torn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_host_port_and_login() {
        let parse = |url| Address::parse(url).map(|a| (a.host, a.port, a.user, a.password)).ok();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(parse("redis://db"), Some(("db".into(), 6379, None, None)));
        assert_eq!(parse("redis://[::1]:7000/0"), Some(("::1".into(), 7000, None, None)));
        assert_eq!(parse("redis://[::1]"), Some(("::1".into(), 6379, None, None)));
        assert_eq!(
            parse("redis://ann:p%40ss@db:1"),
            Some(("db".into(), 1, some("ann"), some("p@ss")))
        );
        assert_eq!(parse("redis://:secret@db"), Some(("db".into(), 6379, None, some("secret"))));
        let private = |url| Address::parse(url).map(|address| address.is_private).ok();
        assert_eq!((private("rediss://db"), private("redis://db")), (Some(true), Some(false)));
        for wrong in ["db:1", "http://db", "redis://", "redis://db:x", "redis://a%zz@db"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
