//! TLS between the machines of a cluster: both sides show a certificate of the same authority.
//!
//! Version 1.3 only. A machine's certificate serves both sides. The machine that connects is the
//! TLS client and checks that the certificate is valid for the name under which it looked up the
//! other machine. The accepting machine checks the authority only, because it does not know which
//! machine connects.

use crate::config::cluster::split_address;
use crate::config::peer_tls::PeerTlsOptions;
use crate::net::tls::{TlsError, certificates, hint, private_key, roots, unfit};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::server::WebPkiClientVerifier;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use std::io::{self, ErrorKind};
use std::sync::{Arc, PoisonError, RwLock};

/// Certificates in use between machines.
pub struct PeerTls {
    options: PeerTlsOptions,
    sides: RwLock<Sides>,
}

/// Configurations of both sides.
#[derive(Clone)]
struct Sides {
    server: Arc<ServerConfig>,
    client: Arc<ClientConfig>,
}

impl PeerTls {
    /// Reads certificates and key.
    ///
    /// # Errors
    /// Names the file that cannot be read or does not match.
    pub fn load(options: PeerTlsOptions) -> Result<Self, TlsError> {
        let sides = RwLock::new(load(&options)?);
        Ok(Self { options, sides })
    }

    /// Reads certificates and key again; new connections use them.
    ///
    /// # Errors
    /// Names the file that cannot be read or does not match; the old ones stay in use then.
    pub fn reload(&self) -> Result<(), TlsError> {
        let sides = load(&self.options)?;
        *self.sides.write().unwrap_or_else(PoisonError::into_inner) = sides;
        Ok(())
    }

    /// Accepting side of a connection.
    ///
    /// # Errors
    /// If rustls refuses the configuration.
    pub fn accept(&self) -> io::Result<Connection> {
        let connection = ServerConnection::new(self.sides().server).map_err(io::Error::other)?;
        Ok(connection.into())
    }

    /// Connecting side of a connection to the machine at `address`.
    ///
    /// # Errors
    /// If no certificate can be valid for such an address, or rustls refuses the configuration.
    pub fn dial(&self, address: &str) -> io::Result<Connection> {
        let host = split_address(address).map_or(address, |(host, _)| host);
        let name = self.options.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(name).map_err(|_| {
            let advice = "no certificate can be for this host: set server_name in [cluster.tls] to \
                          a name that is on the certificates of all machines";
            io::Error::new(ErrorKind::InvalidInput, advice)
        })?;
        let client = self.sides().client;
        Ok(ClientConnection::new(client, name).map_err(io::Error::other)?.into())
    }

    fn sides(&self) -> Sides {
        self.sides.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn load(options: &PeerTlsOptions) -> Result<Sides, TlsError> {
    let chain = certificates(&options.cert)?;
    let key = private_key(&options.key)?;
    let roots = Arc::new(roots(&options.ca)?);
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let hint = hint(&chain);
    let unfit = |error| unfit(&options.cert, &options.key, &error, hint);
    let refused = |error: rustls::Error| TlsError(error.to_string());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.clone(), provider.clone())
        .build()
        .map_err(|error| TlsError(format!("{}: {error}", options.ca.display())))?;
    let mut server = ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain.clone(), key.clone_key())
        .map_err(unfit)?;
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(refused)?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .map_err(unfit)?;
    // Certificates are checked on every connection: a resumed session would continue with an
    // expired one.
    server.send_tls13_tickets = 0;
    client.resumption = Resumption::disabled();
    Ok(Sides { server: Arc::new(server), client: Arc::new(client) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
    use rustls::{AlertDescription, CertificateError, Error, ProtocolVersion};
    use std::path::Path;

    struct Authority(Issuer<'static, KeyPair>);

    impl Authority {
        /// Creates an authority and writes its certificate into `dir`.
        fn new(dir: &Path) -> Self {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            let certificate = params.self_signed(&key).unwrap();
            std::fs::write(dir.join("ca.pem"), certificate.pem()).unwrap();
            Self(Issuer::new(params, key))
        }

        /// Writes a certificate for `host` into `dir`.
        fn issue(&self, dir: &Path, host: &str, expired: bool) {
            let key = KeyPair::generate().unwrap();
            let mut params = CertificateParams::new(vec![host.to_owned()]).unwrap();
            if expired {
                params.not_after = date_time_ymd(2001, 1, 1);
            }
            let certificate = params.signed_by(&key, &self.0).unwrap();
            std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
            std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
        }
    }

    fn options(dir: &Path) -> PeerTlsOptions {
        PeerTlsOptions {
            cert: dir.join("cert.pem"),
            key: dir.join("key.pem"),
            ca: dir.join("ca.pem"),
            server_name: None,
        }
    }

    /// Delivers everything that one side has to send to the other.
    fn pass(from: &mut Connection, to: &mut Connection) -> Result<(), Error> {
        let mut bytes = Vec::new();
        while from.wants_write() {
            from.write_tls(&mut bytes).unwrap();
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            to.read_tls(&mut rest).unwrap();
            to.process_new_packets()?;
        }
        Ok(())
    }

    /// Results of a handshake for the connecting and the accepting side; the second is not run if
    /// the first refuses.
    fn meet(dial: &PeerTls, accept: &PeerTls) -> (Result<(), Error>, Result<(), Error>) {
        let mut client = dial.dial("127.0.0.1:7001").unwrap();
        let mut server = accept.accept().unwrap();
        pass(&mut client, &mut server).unwrap();
        let dialled = pass(&mut server, &mut client);
        let accepted = pass(&mut client, &mut server);
        if dialled.is_ok() && accepted.is_ok() {
            assert!(!client.is_handshaking() && !server.is_handshaking());
            assert_eq!(client.protocol_version(), Some(ProtocolVersion::TLSv1_3));
            assert!(!server.wants_write(), "nothing to resume a session with is sent");
        }
        (dialled, accepted)
    }

    #[test]
    fn machines_of_one_authority_meet_and_others_do_not() {
        let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let authority = Authority::new(temp.path());
        authority.issue(temp.path(), "127.0.0.1", false);
        let machine = PeerTls::load(options(temp.path())).unwrap();
        assert_eq!(meet(&machine, &machine), (Ok(()), Ok(())));
        // A stranger that trusts the authority and has no certificate from it.
        let stranger = Authority::new(other.path());
        stranger.issue(other.path(), "127.0.0.1", false);
        let trusting = PeerTlsOptions { ca: temp.path().join("ca.pem"), ..options(other.path()) };
        let stranger = PeerTls::load(trusting).unwrap();
        let (dialled, accepted) = meet(&stranger, &machine);
        assert_eq!(dialled, Ok(()), "the connecting side learns it later");
        assert!(matches!(accepted, Err(Error::InvalidCertificate(_))), "{accepted:?}");
        let (dialled, accepted) = meet(&machine, &stranger);
        assert!(matches!(dialled, Err(Error::InvalidCertificate(_))), "{dialled:?}");
        assert!(matches!(accepted, Err(Error::AlertReceived(_))), "{accepted:?}");
    }

    #[test]
    fn certificates_that_have_expired_are_refused_by_both_sides() {
        let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let authority = Authority::new(temp.path());
        authority.issue(temp.path(), "127.0.0.1", false);
        authority.issue(other.path(), "127.0.0.1", true);
        std::fs::copy(temp.path().join("ca.pem"), other.path().join("ca.pem")).unwrap();
        let machine = PeerTls::load(options(temp.path())).unwrap();
        let late = PeerTls::load(options(other.path())).unwrap();
        let has_expired = |result: &Result<(), Error>| {
            use CertificateError::{Expired, ExpiredContext};
            matches!(result, Err(Error::InvalidCertificate(Expired | ExpiredContext { .. })))
        };
        let (dialled, accepted) = meet(&late, &machine);
        assert!(dialled.is_ok() && has_expired(&accepted), "{accepted:?}");
        let (dialled, accepted) = meet(&machine, &late);
        assert!(has_expired(&dialled), "{dialled:?}");
        assert_eq!(accepted, Err(Error::AlertReceived(AlertDescription::CertificateExpired)));
    }

    #[test]
    fn the_accepting_machine_must_have_the_name_unless_all_share_one() {
        let temp = tempfile::tempdir().unwrap();
        Authority::new(temp.path()).issue(temp.path(), "claret.example", false);
        let machine = PeerTls::load(options(temp.path())).unwrap();
        let (dialled, _) = meet(&machine, &machine);
        assert!(dialled.unwrap_err().to_string().contains("claret.example"));
        let server_name = Some("claret.example".to_owned());
        let shared = PeerTls::load(PeerTlsOptions { server_name, ..options(temp.path()) }).unwrap();
        assert_eq!(meet(&shared, &shared), (Ok(()), Ok(())));
        assert!(shared.dial("no host:1").is_ok());
        assert!(machine.dial("no host:1").err().unwrap().to_string().contains("server_name"));
        assert!(machine.dial("[::1]:7001").is_ok());
    }

    #[test]
    fn certificates_are_read_again_or_stay() {
        let temp = tempfile::tempdir().unwrap();
        Authority::new(temp.path()).issue(temp.path(), "127.0.0.1", false);
        let [old, new] = [(); 2].map(|()| PeerTls::load(options(temp.path())).unwrap());
        Authority::new(temp.path()).issue(temp.path(), "127.0.0.1", false);
        new.reload().unwrap();
        assert_eq!(meet(&new, &new), (Ok(()), Ok(())));
        assert!(meet(&new, &old).0.is_err());
        for file in ["key.pem", "cert.pem", "ca.pem"] {
            let path = temp.path().join(file);
            let before = std::fs::read(&path).unwrap();
            std::fs::write(&path, "nonsense").unwrap();
            assert!(new.reload().unwrap_err().to_string().contains(file), "{file}");
            std::fs::write(&path, before).unwrap();
        }
        assert_eq!(meet(&new, &new), (Ok(()), Ok(())));
    }
}
