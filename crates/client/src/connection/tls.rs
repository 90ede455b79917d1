//! TLS: trusted authorities, the client's own certificate, and the encrypted stream.

use crate::error::{Error, Result};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

/// Most plain bytes that may wait on either side of a connection.
const PLAIN_BYTES: usize = 256 << 10;
/// Most plain bytes that may have arrived before the client reads them.
const WAITING_BYTES: usize = 32 << 20;
/// Most bytes that are read at once.
const READ_BYTES: usize = 16 << 10;
/// Files in which systems keep the authorities that they trust.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Error with which a connection ends, if it does.
pub(crate) type EndError = oneshot::Receiver<Error>;

/// Trusted authorities and the client's own certificate, for URLs that begin with `rediss://`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificates of the authorities that may have signed the server's (PEM); by default those
    /// that the system trusts.
    pub ca: Option<PathBuf>,
    /// Certificate chain to show to the server (PEM); goes with `key`.
    pub cert: Option<PathBuf>,
    /// Private key of `cert` (PEM).
    pub key: Option<PathBuf>,
    /// Name that the server's certificate must be for, if not the host of the URL.
    pub server_name: Option<String>,
}

fn wrong(path: &Path, error: impl std::fmt::Display) -> Error {
    Error::Connect(format!("{}: {error}", path.display()))
}

/// The certificates in a file.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).map_err(|error| wrong(path, error))?;
    let all: std::result::Result<Vec<_>, _> = all.collect();
    let all = all.map_err(|error| wrong(path, error))?;
    if all.is_empty() { Err(wrong(path, "there is no certificate in it")) } else { Ok(all) }
}

impl Tls {
    /// Configuration of the TLS library. The files are read for each connection, so that new ones
    /// take effect.
    fn config(&self) -> Result<ClientConfig> {
        let trusted = || TRUSTED.iter().map(Path::new).find(|path| path.exists());
        let ca = self.ca.as_deref().or_else(trusted);
        let ca = ca.ok_or_else(|| {
            Error::Connect(
                "no authorities are known here: name a file with their certificates".into(),
            )
        })?;
        let mut roots = RootCertStore::empty();
        for certificate in certificates(ca)? {
            // The system's file may contain certificates that the library rejects; the user's file
            // may not.
            let added = roots.add(certificate);
            if self.ca.is_some() {
                added.map_err(|error| wrong(ca, error))?;
            }
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::Connect(error.to_string()))?
            .with_root_certificates(roots);
        match (&self.cert, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(cert), Some(key)) => {
                let chain = certificates(cert)?;
                let secret =
                    PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, error))?;
                builder.with_client_auth_cert(chain, secret).map_err(|error| wrong(cert, error))
            }
            _ => Err(Error::Connect("a certificate and its key go together".into())),
        }
    }

    /// Performs the handshake; returns the plain side of the connection, and the error with which the
    /// connection ends, if it ends with one: a server refuses a client's certificate only behind the
    /// handshake. A task carries the bytes until one of both sides is closed.
    pub(crate) async fn connect(
        &self,
        host: &str,
        mut stream: TcpStream,
    ) -> Result<(ReadHalf<DuplexStream>, WriteHalf<DuplexStream>, EndError)> {
        let name = self.server_name.as_deref().unwrap_or(host);
        let server = ServerName::try_from(name.to_owned())
            .map_err(|error| Error::Connect(format!("{name}: {error}")))?;
        let session = ClientConnection::new(Arc::new(self.config()?), server);
        let mut session = session.map_err(|error| Error::Connect(error.to_string()))?;
        while session.is_handshaking() {
            send(&mut session, &mut stream).await?;
            if session.is_handshaking() && receive(&mut session, &mut stream).await? == 0 {
                return Err(Error::Connect("the server ended it while keys were agreed on".into()));
            }
        }
        send(&mut session, &mut stream).await?;
        let (own, other) = tokio::io::duplex(PLAIN_BYTES);
        let (tell, end) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(error) = carry(session, stream, other).await {
                // Only a connection that is being opened asks.
                let _ = tell.send(error);
            }
        });
        let (half, writer) = tokio::io::split(own);
        Ok((half, writer, end))
    }
}

/// Sends the session's pending bytes to the server.
async fn send(session: &mut ClientConnection, stream: &mut TcpStream) -> Result<()> {
    let mut bytes = Vec::new();
    while session.wants_write() {
        session.write_tls(&mut bytes).map_err(|error| Error::Connect(error.to_string()))?;
    }
    stream.write_all(&bytes).await.map_err(|error| Error::Connect(error.to_string()))
}

/// Receives bytes from the server into the session; returns their number, 0 at the end.
async fn receive(session: &mut ClientConnection, stream: &mut TcpStream) -> Result<usize> {
    let mut bytes = [0; READ_BYTES];
    let read = stream.read(&mut bytes).await;
    let count = read.map_err(|error| Error::Connect(error.to_string()))?;
    take_in(session, &bytes[..count])?;
    Ok(count)
}

fn take_in(session: &mut ClientConnection, mut bytes: &[u8]) -> Result<()> {
    while !bytes.is_empty() {
        session.read_tls(&mut bytes).map_err(|error| Error::Connect(error.to_string()))?;
        session.process_new_packets().map_err(|error| refused(&error))?;
    }
    Ok(())
}

/// The error of a connection that TLS has ended.
fn refused(error: &rustls::Error) -> Error {
    use rustls::AlertDescription as Alert;
    let text = error.to_string();
    Error::Connect(match error {
        rustls::Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::NoCertificate
            | Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA,
        ) => format!("the server asks for a certificate of the client that it accepts: {text}"),
        _ => text,
    })
}

/// Adds the plain bytes that have arrived.
fn take_plain(session: &mut ClientConnection, to: &mut Vec<u8>) {
    let mut piece = [0; READ_BYTES];
    while let Ok(count @ 1..) = session.reader().read(&mut piece) {
        to.extend_from_slice(&piece[..count]);
    }
}

/// Carries bytes in both directions.
async fn carry(
    mut session: ClientConnection,
    mut stream: TcpStream,
    other: DuplexStream,
) -> Result<()> {
    let (mut encrypted, mut own) = ([0; READ_BYTES], [0; READ_BYTES]);
    let (mut from_client, mut to_client) = tokio::io::split(other);
    let mut come = Vec::new();
    loop {
        take_plain(&mut session, &mut come);
        send(&mut session, &mut stream).await?;
        tokio::select! {
            written = to_client.write(&come), if !come.is_empty() => {
                come.drain(..written?);
            }
            // A client that is still sending reads later: replies wait in this buffer meanwhile.
            read = stream.read(&mut encrypted), if come.len() < WAITING_BYTES => match read? {
                0 => return Ok(()),
                count => take_in(&mut session, &encrypted[..count])?,
            },
            read = from_client.read(&mut own) => match read? {
                0 => {
                    session.send_close_notify();
                    return send(&mut session, &mut stream).await;
                }
                count => session.writer().write_all(&own[..count])?,
            },
        }
    }
}
