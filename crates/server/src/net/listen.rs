//! Thread that accepts connections and distributes them to the workers in turn.
//!
//! It survives all errors of accepting: a client that is gone already, a process or machine without
//! file descriptors. A client that cannot be served receives the reason.

use super::tls::Tls;
use crate::mail::{Mail, Mailbox};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use rustls::ServerConnection;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::collections::HashMap;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Limit on connections that wait in the kernel to be accepted.
const BACKLOG: i32 = 1024;
/// Pause after the system has run out of file descriptors.
const RETRY: Duration = Duration::from_millis(50);
/// Idle time after which the kernel probes whether the client still exists.
const KEEPALIVE: Duration = Duration::from_secs(300);

const ACCEPT: Token = Token(0);
const WAKE: Token = Token(1);

const FULL: &[u8] = b"-ERR max number of clients reached\r\n";
const DENIED: &[u8] =
    b"-DENIED This server accepts connections from other machines on its TLS port only, \
    because unencrypted traffic can be read on the network. Connect to the TLS port, or connect \
    from the server's own machine, or set insecure = true in its configuration if the network is \
    trusted.\r\n";

/// Protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Redis' protocol.
    Redis,
    /// Redis' protocol over TLS.
    RedisTls,
    /// ZooKeeper's protocol.
    Zookeeper,
    /// ZooKeeper's protocol over TLS.
    ZookeeperTls,
}

impl Port {
    /// Whether the connections are encrypted.
    fn is_encrypted(self) -> bool {
        matches!(self, Self::RedisTls | Self::ZookeeperTls)
    }

    /// Whether the port serves clients of the coordination service.
    pub fn is_for_coordination(self) -> bool {
        matches!(self, Self::Zookeeper | Self::ZookeeperTls)
    }
}

/// Accepted connection.
pub struct Accepted {
    /// Protocol.
    pub port: Port,
    /// Socket in non-blocking mode.
    pub stream: TcpStream,
    /// Server side of TLS, for a connection to a TLS port.
    pub tls: Option<ServerConnection>,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Address that the client connected to.
    pub local: SocketAddr,
    /// Share of the address's limit, for clients of the coordination service.
    pub share: Option<Share>,
}

/// Counts one connection of a client of the coordination service against its address's limit, until
/// it is dropped.
pub struct Share {
    connections: Arc<Connections>,
    address: IpAddr,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut shares = self.connections.shares();
        if let Some(count) = shares.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                shares.remove(&self.address);
            }
        }
    }
}

/// Counters of connections.
#[derive(Debug, Default)]
pub struct Connections {
    /// Open now.
    pub open: AtomicU64,
    /// Accepted since the start.
    pub total: AtomicU64,
    /// Refused since the start.
    pub refused: AtomicU64,
    /// Open now, clients of the coordination service only, by address.
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Connections {
    fn shares(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more connection from an address, if the limit allows it; a limit of 0 always
    /// does.
    fn share(self: &Arc<Self>, address: IpAddr, most: usize) -> Option<Share> {
        let address = address.to_canonical();
        let mut shares = self.shares();
        let count = shares.get(&address).copied().unwrap_or_default();
        if most != 0 && count >= most {
            return None;
        }
        shares.insert(address, count + 1);
        Some(Share { connections: self.clone(), address })
    }
}

/// Configuration of the thread.
pub struct Listening {
    /// Addresses and their protocols.
    pub ports: Vec<(Port, SocketAddr)>,
    /// Certificates; a TLS port needs them.
    pub tls: Option<Arc<Tls>>,
    /// Whether to serve other machines without encryption.
    pub insecure: bool,
    /// Limit on connections.
    pub connections_max: usize,
    /// Limit on connections of clients of the coordination service from one address; 0 for no
    /// limit.
    pub share_max: usize,
    /// The counters.
    pub connections: Arc<Connections>,
    /// The workers.
    pub workers: Vec<Mailbox>,
}

/// Handle of the thread.
pub struct Listener {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
    waker: Waker,
    addresses: Vec<(Port, SocketAddr)>,
}

impl Listener {
    /// Opens the ports and starts the thread.
    ///
    /// # Errors
    /// If a port cannot be opened.
    pub fn start(listening: Listening) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listeners = Vec::new();
        let mut addresses = Vec::new();
        for (port, address) in &listening.ports {
            let listener = open(&poll, *address)?;
            addresses.push((*port, listener.local_addr()?));
            listeners.push((*port, listener));
        }
        let waker = Waker::new(poll.registry(), WAKE)?;
        let stop = Arc::new(AtomicBool::new(false));
        let mut acceptor = Acceptor { poll, listeners, listening, stop: stop.clone(), next: 0 };
        let thread =
            std::thread::Builder::new().name("accept".to_owned()).spawn(move || acceptor.run())?;
        Ok(Self { thread, stop, waker, addresses })
    }

    /// Address of the port with this protocol.
    pub fn address(&self, of: Port) -> Option<SocketAddr> {
        self.addresses.iter().find(|(port, _)| *port == of).map(|(_, address)| *address)
    }

    /// Closes the ports and ends the thread.
    pub fn stop(self) {
        self.stop.store(true, Ordering::Release);
        if self.waker.wake().is_err() || self.thread.join().is_err() {
            tracing::error!("the thread that accepts connections cannot be stopped");
        }
    }
}

/// Opens a listening socket and registers it with `poll`.
fn open(poll: &Poll, address: SocketAddr) -> io::Result<TcpListener> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{address}: {error}"));
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into()).map_err(named)?;
    socket.listen(BACKLOG).map_err(named)?;
    let mut listener = TcpListener::from_std(socket.into());
    poll.registry().register(&mut listener, ACCEPT, Interest::READABLE)?;
    Ok(listener)
}

struct Acceptor {
    poll: Poll,
    listeners: Vec<(Port, TcpListener)>,
    listening: Listening,
    stop: Arc<AtomicBool>,
    /// Worker that gets the next connection.
    next: usize,
}

impl Acceptor {
    fn run(&mut self) {
        let mut events = Events::with_capacity(8);
        let mut retry = false;
        while !self.stop.load(Ordering::Acquire) {
            if let Err(error) = self.poll.poll(&mut events, retry.then_some(RETRY))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::error!("no more connections are accepted: {error}");
                return;
            }
            // Events are edge-triggered, so all ports are emptied every time.
            retry = false;
            for index in 0..self.listeners.len() {
                retry |= self.accept_all(index);
            }
        }
    }

    /// Accepts all connections that are pending on a port. Returns whether to try again soon.
    fn accept_all(&mut self, index: usize) -> bool {
        loop {
            let (port, listener) = &self.listeners[index];
            match listener.accept() {
                Ok((stream, peer)) => self.deal(stream, peer, *port),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return false,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => {}
                    _ => {
                        tracing::warn!(
                            "a connection cannot be accepted: {error}; trying again. If file \
                             descriptors are missing, raise the limit (ulimit -n)"
                        );
                        return true;
                    }
                },
            }
        }
    }

    fn deal(&mut self, mut stream: TcpStream, peer: SocketAddr, port: Port) {
        let counters = &self.listening.connections;
        let full = counters.open.load(Ordering::Relaxed) >= self.listening.connections_max as u64;
        let protected = !port.is_encrypted() && !self.listening.insecure;
        if let Some(reason) = refusal(full, protected, peer.ip()) {
            counters.refused.fetch_add(1, Ordering::Relaxed);
            if port == Port::Redis {
                // The buffer of a new socket is empty, so this does not block; a client that is
                // already gone misses nothing.
                let _ = stream.write(reason);
            }
            return;
        }
        let mut share = None;
        if port.is_for_coordination() {
            share = counters.share(peer.ip(), self.listening.share_max);
            if share.is_none() {
                // As ZooKeeper does: the client tries the next server.
                counters.refused.fetch_add(1, Ordering::Relaxed);
                tracing::debug!("closed a connection: {} has reached its limit", peer.ip());
                return;
            }
        }
        match self.prepare(stream, peer, port, share) {
            Ok(accepted) => {
                counters.open.fetch_add(1, Ordering::Relaxed);
                counters.total.fetch_add(1, Ordering::Relaxed);
                self.listening.workers[self.next].send(Mail::Connect(Box::new(accepted)));
                self.next = (self.next + 1) % self.listening.workers.len();
            }
            Err(error) => tracing::debug!("a connection from {peer} is gone: {error}"),
        }
    }

    fn prepare(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        port: Port,
        share: Option<Share>,
    ) -> io::Result<Accepted> {
        stream.set_nodelay(true)?;
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE);
        SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        let local = stream.local_addr()?;
        let tls = match &self.listening.tls {
            Some(tls) if port.is_encrypted() => Some(tls.accept().map_err(io::Error::other)?),
            _ => None,
        };
        Ok(Accepted { port, stream, tls, peer, local, share })
    }
}

/// Error for a client that is not served, if it is not. A protected port serves clients on the same
/// machine.
fn refusal(full: bool, protected: bool, peer: IpAddr) -> Option<&'static [u8]> {
    if protected && !peer.to_canonical().is_loopback() {
        Some(DENIED)
    } else {
        full.then_some(FULL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_as_many_connections_as_it_may_and_no_more() {
        let connections = Arc::new(Connections::default());
        let [ann, ben] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().unwrap());
        let same: IpAddr = "::ffff:10.0.0.1".parse().unwrap();
        let first = connections.share(ann, 2).unwrap();
        let second = connections.share(same, 2).unwrap();
        assert!(connections.share(ann, 2).is_none());
        assert!(connections.share(ben, 2).is_some(), "it is gone at once");
        drop(second);
        assert!(connections.share(ann, 2).is_some());
        assert!(connections.share(ann, 1).is_none());
        let more: Vec<_> = (0..9).map(|_| connections.share(ann, 0).unwrap()).collect();
        drop((first, more));
        assert!(connections.shares().is_empty());
    }

    #[test]
    fn other_machines_are_refused_on_a_protected_port_only() {
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        for local in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(refusal(false, true, address(local)), None, "{local}");
            assert_eq!(refusal(true, true, address(local)), Some(FULL), "{local}");
        }
        for remote in ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1"] {
            assert_eq!(refusal(false, true, address(remote)), Some(DENIED), "{remote}");
            assert_eq!(refusal(false, false, address(remote)), None, "{remote}");
        }
        for line in [DENIED, FULL] {
            assert!(line.starts_with(b"-") && line.ends_with(b"\r\n"));
            assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        }
    }
}
