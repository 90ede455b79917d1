//! TLS: certificates, their reload, and the server side of connections.
//!
//! Clients use versions 1.2 and 1.3 (RFC 8446) through rustls; a client certificate is required if
//! the configuration names authorities for it. For connections between machines see [`peers`].

pub mod peers;

use crate::config::TlsSettings;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Reason why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[error("TLS cannot be set up: {0}")]
pub struct TlsError(String);

/// Certificates in use.
pub struct Tls {
    settings: TlsSettings,
    config: RwLock<Arc<ServerConfig>>,
}

impl Tls {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// Names the file that cannot be read or does not match.
    pub fn load(settings: TlsSettings) -> Result<Self, TlsError> {
        let config = RwLock::new(Arc::new(load(&settings)?));
        Ok(Self { settings, config })
    }

    /// Reads certificates and key again; new connections use them.
    ///
    /// # Errors
    /// Names the file that cannot be read or does not match; the old ones stay in use then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let config = Arc::new(load(&self.settings)?);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Server side of a new connection.
    ///
    /// # Errors
    /// If rustls refuses the configuration.
    pub fn accept(&self) -> Result<ServerConnection, rustls::Error> {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        ServerConnection::new(config)
    }
}

fn load(settings: &TlsSettings) -> Result<ServerConfig, TlsError> {
    let chain = certificates(&settings.cert)?;
    let key = private_key(&settings.key)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| TlsError(error.to_string()))?;
    let builder = match &settings.client_ca {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let roots = Arc::new(roots(file)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider)
                .build()
                .map_err(|error| TlsError(format!("{}: {error}", file.display())))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let hint = hint(&chain);
    let config = builder.with_single_cert(chain, key);
    config.map_err(|error| unfit(&settings.cert, &settings.key, &error, hint))
}

/// Error for a certificate and key that cannot be used.
fn unfit(cert: &Path, key: &Path, error: &rustls::Error, hint: &str) -> TlsError {
    TlsError(format!("{} and {}: {error}{hint}", cert.display(), key.display()))
}

/// Addition to the error about certificates that cannot be used, if one of them is of X.509's first
/// version.
fn hint(chain: &[CertificateDer<'_>]) -> &'static str {
    if chain.iter().any(|certificate| is_of_version_1(certificate)) {
        "; a certificate there is of X.509 version 1, which cannot be used: issue it with \
         extensions, which makes it version 3 (openssl x509 -req ... -extfile FILE, with a line \
         subjectAltName = DNS:NAME in the file)"
    } else {
        ""
    }
}

/// Whether a certificate is of X.509's first version: its signed part begins with the serial
/// number, not with the version (RFC 5280, 4.1).
fn is_of_version_1(certificate: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    const INTEGER: u8 = 0x02;
    let signed = content(certificate, SEQUENCE).and_then(|inside| content(inside, SEQUENCE));
    signed.is_some_and(|signed| signed.first() == Some(&INTEGER))
}

/// Content of a DER element, after tag and length, if it has this tag.
fn content(der: &[u8], tag: u8) -> Option<&[u8]> {
    let rest = der.strip_prefix(&[tag])?;
    let (length, rest) = rest.split_first()?;
    // A length above 127 encodes only the number of length bytes.
    let more = if *length < 0x80 { 0 } else { usize::from(length & 0x7f) };
    rest.get(more..)
}

fn private_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|error| TlsError(format!("{}: {error}", file.display())))
}

/// Certificates of the authorities in a file.
fn roots(file: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let certificates = certificates(file)?;
    let hint = hint(&certificates);
    for certificate in certificates {
        let unfit = |error| TlsError(format!("{}: {error}{hint}", file.display()));
        roots.add(certificate).map_err(unfit)?;
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed =
        |error: rustls::pki_types::pem::Error| TlsError(format!("{}: {error}", file.display()));
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(file).map_err(failed)?.collect();
    let chain = chain.map_err(failed)?;
    if chain.is_empty() {
        return Err(TlsError(format!("{} holds no certificate", file.display())));
    }
    Ok(chain)
}
