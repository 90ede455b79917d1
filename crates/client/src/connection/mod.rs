//! One connection: address, authentication, commands out, replies in.

pub(crate) mod dispatch;
pub(crate) mod mux;
pub(crate) mod tls;

use crate::client::Options;
use crate::command::Command;
use crate::error::{Error, Result, checked};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use tls::{EndError, Tls};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, WriteHalf};
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedWriteHalf;
use wire::resp::{ClientReply, ReplyDecoder, ReplyLimits};

const READ_BYTES: usize = 16 << 10;

/// Addresses of the machines of a database, and credentials.
pub(crate) struct Address {
    places: Vec<Place>,
    /// Index of the place to try first: the one that answered last.
    first: AtomicUsize,
    pub user: Option<String>,
    pub password: Option<String>,
    /// Whether to use TLS.
    pub is_private: bool,
}

/// Host and port of a machine.
struct Place {
    host: String,
    port: u16,
}

impl Place {
    fn parse(text: &str) -> Result<Self> {
        let colon = text.rfind(':').filter(|at| !text[*at..].contains(']'));
        let (host, port) = match colon {
            None => (text, 6379),
            Some(at) => {
                let port = text[at + 1..].parse().map_err(|_| wrong("the port is no number"))?;
                (&text[..at], port)
            }
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong("there is no host"));
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

fn wrong(what: &str) -> Error {
    Error::Url(format!(
        "{what}; a URL is redis[s]://[user[:password]@]host[:port][,host[:port]]..."
    ))
}

impl Address {
    /// Reads `redis[s]://[user[:password]@]host[:port][,host[:port]]...`; `:password@` alone is the
    /// user `default`.
    pub fn parse(url: &str) -> Result<Self> {
        let after = |schemes: [&str; 2]| schemes.iter().find_map(|scheme| url.strip_prefix(scheme));
        let private = after(["rediss://", "clarets://"]);
        let rest = private.or_else(|| after(["redis://", "claret://"]));
        let rest = rest.ok_or_else(|| wrong("the scheme must be redis or rediss"))?;
        let rest = rest.split('/').next().unwrap_or_default();
        let (login, places) = rest.rsplit_once('@').map_or((None, rest), |(l, p)| (Some(l), p));
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, "")))
        {
            None => (None, None),
            Some((user, password)) => (
                Some(user).filter(|user| !user.is_empty()).map(decoded).transpose()?,
                Some(password).filter(|p| !p.is_empty()).map(decoded).transpose()?,
            ),
        };
        let is_private = private.is_some();
        let places = places.split(',').map(Place::parse).collect::<Result<_>>()?;
        Ok(Self { places, first: AtomicUsize::new(0), user, password, is_private })
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
            let reply = self.frame().await?;
            if !matches!(reply, ClientReply::Push(_)) {
                return Ok(reply);
            }
        }
    }

    /// Waits for the next reply or out-of-band message. Safe to cancel.
    pub async fn frame(&mut self) -> Result<ClientReply> {
        loop {
            let next = self.decoder.next(&self.input[self.consumed..], &ReplyLimits::default())?;
            if let Some((reply, len)) = next {
                self.consumed += len;
                if self.consumed == self.input.len() {
                    self.input.clear();
                    self.consumed = 0;
                }
                return Ok(reply);
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

/// Receiving half of a connection.
type Half = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// Connects and returns both halves, encrypted if TLS is given, and then also the error with which the
/// connection ends.
async fn halves(place: &Place, tls: Option<&Tls>) -> Result<(Half, Writer, Option<EndError>)> {
    let failed = |error: io::Error| Error::Connect(error.to_string());
    let stream = TcpStream::connect((place.host.as_str(), place.port)).await.map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    if let Some(tls) = tls {
        let (half, writer, end) = tls.connect(&place.host, stream).await?;
        return Ok((Box::new(half), Writer::Private(writer), Some(end)));
    }
    let (half, writer) = stream.into_split();
    Ok((Box::new(half), Writer::Plain(writer), None))
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

/// Bytes that wait until a connection takes them.
#[derive(Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    written: usize,
}

impl Outbox {
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Writes as much as the connection takes at once. Safe to cancel.
    pub async fn write_to(&mut self, writer: &mut Writer) -> io::Result<()> {
        match writer.write(&self.bytes[self.written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            count => self.written += count,
        }
        if self.written == self.bytes.len() {
            self.bytes.clear();
            self.written = 0;
        }
        Ok(())
    }
}

/// The first command of a connection, which chooses the protocol and logs in. The file with the
/// password is read each time, so that a new one takes effect.
fn greeting(address: &Address, options: &Options) -> Result<Command> {
    let greeting = Command::new("HELLO").arg(3);
    let password = match &options.password_file {
        None => address.password.clone(),
        Some(path) => {
            let text = std::fs::read_to_string(path)
                .map_err(|error| Error::Connect(format!("{}: {error}", path.display())))?;
            text.lines().next().map(str::to_owned)
        }
    };
    let user = address.user.as_deref().unwrap_or("default");
    Ok(match password {
        Some(password) => greeting.arg("AUTH").arg(user).arg(password),
        None => greeting,
    })
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
    /// Connects to the machine that answered last, or else to the next one that answers.
    pub async fn open(address: &Address, options: &Options) -> Result<Self> {
        let greeting = greeting(address, options)?;
        let tls = address.is_private.then_some(&options.tls);
        let (first, count) = (address.first.load(Ordering::Relaxed), address.places.len());
        let mut failures = Vec::new();
        for index in (0..count).map(|step| (first + step) % count) {
            let opened = Self::greeted(&address.places[index], tls, &greeting);
            match tokio::time::timeout(options.connect_timeout, opened).await {
                Ok(Ok(connection)) => {
                    address.first.store(index, Ordering::Relaxed);
                    return Ok(connection);
                }
                Ok(Err(Error::Connect(reason) | Error::Disconnected(reason))) => {
                    failures.push(reason);
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => failures.push("no answer in time".into()),
            }
        }
        Err(Error::Connect(failures.join("; ")))
    }

    /// Connects to one machine and waits for its answer to the greeting.
    async fn greeted(place: &Place, tls: Option<&Tls>, greeting: &Command) -> Result<Self> {
        let (half, writer, end) = halves(place, tls).await?;
        let reader = Reader { half, decoder: ReplyDecoder::new(), input: Vec::new(), consumed: 0 };
        let mut connection = Self { reader, writer, owed: 0, torn: false };
        let mut bytes = Vec::new();
        greeting.encode(&mut bytes);
        let replies = match (connection.exchange(&bytes, 1).await, end) {
            (Err(lost @ Error::Disconnected(_)), Some(end)) => Err(end.await.unwrap_or(lost)),
            (replies, _) => replies,
        };
        for reply in replies? {
            checked(reply)?;
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
        let places = |url| {
            let places = Address::parse(url).ok()?.places;
            Some(places.into_iter().map(|place| (place.host, place.port)).collect::<Vec<_>>())
        };
        let parse = |url| {
            let (host, port) = places(url)?.pop()?;
            let address = Address::parse(url).ok()?;
            Some((host, port, address.user, address.password))
        };
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
        let two = vec![("one".to_owned(), 7000), ("::1".to_owned(), 6379)];
        assert_eq!(places("redis://ann@one:7000,[::1]/0"), Some(two));
        for wrong in
            ["db:1", "http://db", "redis://", "redis://db:x", "redis://a%zz@db", "redis://a,,b"]
        {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
