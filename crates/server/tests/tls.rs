//! Encrypted connections.

mod support;

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use server::Handle;
use server::config::{Settings, TlsSettings};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use support::{Client, bulk, connect, serve, settings};
use wire::resp::ClientReply;

/// Writes a self-signed certificate and its key. Returns the certificate.
fn certificate(dir: &Path) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&key).unwrap();
    std::fs::write(dir.join("cert.pem"), certificate.pem()).unwrap();
    std::fs::write(dir.join("key.pem"), key.serialize_pem()).unwrap();
    certificate.der().clone()
}

fn tls(dir: &Path) -> Settings {
    Settings {
        tls: Some(TlsSettings {
            port: 0,
            zookeeper_port: None,
            cert: dir.join("cert.pem"),
            key: dir.join("key.pem"),
            client_ca: None,
        }),
        ..settings(dir)
    }
}

type TlsClient = Client<StreamOwned<ClientConnection, TcpStream>>;

fn encrypted(server: &Handle, trusted: &CertificateDer<'static>) -> TlsClient {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let client = ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = TcpStream::connect(server.tls_address().unwrap()).unwrap();
    Client::over(StreamOwned::new(client, stream))
}

#[test]
fn an_encrypted_connection_carries_commands_of_any_size() {
    let temp = tempfile::tempdir().unwrap();
    let trusted = certificate(temp.path());
    let server = serve(tls(temp.path()));
    let mut client = encrypted(&server, &trusted);
    assert_eq!(client.ask(&["SET", "a", "1"]), ClientReply::Ok);
    let large = "x".repeat(3 << 20);
    assert_eq!(client.ask(&["SET", "large", &large]), ClientReply::Ok);
    for _ in 0..3 {
        client.send(&["GET", "large"]);
    }
    for _ in 0..3 {
        assert_eq!(client.receive(), Some(bulk(&large)));
    }
    assert_eq!(connect(server.address()).ask(&["GET", "a"]), bulk("1"));
    server.stop();
}

#[test]
fn a_client_that_speaks_no_tls_is_closed_and_others_are_served() {
    let temp = tempfile::tempdir().unwrap();
    let trusted = certificate(temp.path());
    let server = serve(tls(temp.path()));
    let mut lost = connect(server.tls_address().unwrap());
    lost.send(&["PING"]);
    let mut rest = Vec::new();
    // An alert may come first; then the end.
    let _ = std::io::Read::read_to_end(&mut lost.stream, &mut rest);
    assert!(rest.len() < 64);
    assert_eq!(encrypted(&server, &trusted).ask(&["ECHO", "x"]), bulk("x"));
    server.stop();
}

#[test]
fn certificates_are_reloaded_while_the_server_runs() {
    let temp = tempfile::tempdir().unwrap();
    let first = certificate(temp.path());
    let server = serve(tls(temp.path()));
    let mut old = encrypted(&server, &first);
    assert_eq!(old.ask(&["ECHO", "x"]), bulk("x"));
    let second = certificate(temp.path());
    server.remote().reload();
    let begun = std::time::Instant::now();
    loop {
        let mut client = encrypted(&server, &second);
        if client.try_ping() {
            break;
        }
        assert!(begun.elapsed().as_secs() < 5, "the new certificate is not used");
    }
    assert_eq!(old.ask(&["ECHO", "y"]), bulk("y"), "connections go on");
    // Files that do not match change nothing.
    std::fs::write(temp.path().join("key.pem"), "nonsense").unwrap();
    server.remote().reload();
    assert_eq!(encrypted(&server, &second).ask(&["ECHO", "z"]), bulk("z"));
    server.stop();
}

trait Attempts {
    fn try_ping(&mut self) -> bool;
}

impl Attempts for TlsClient {
    /// Whether the handshake and a command succeed.
    fn try_ping(&mut self) -> bool {
        use std::io::{Read, Write};
        let mut chunk = [0; 64];
        self.stream.write_all(b"PING\r\n").is_ok()
            && self.stream.read(&mut chunk).is_ok_and(|count| chunk[..count] == *b"+PONG\r\n")
    }
}

#[test]
fn files_that_do_not_fit_are_named() {
    let temp = tempfile::tempdir().unwrap();
    certificate(temp.path());
    std::fs::write(temp.path().join("key.pem"), "nonsense").unwrap();
    let options = server::config::Options::resolve(tls(temp.path())).unwrap();
    let Err(reason) = server::start(options) else { panic!("started with a bad key") };
    assert!(reason.to_string().contains("key.pem"), "{reason}");
}
