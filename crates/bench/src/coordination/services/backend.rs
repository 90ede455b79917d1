//! Services under comparison, and the links to them and between their servers.

use super::zookeeper;
use crate::servers::control::Control;
use crate::servers::etcd;
use crate::servers::links::{Delays, Lines, Links};
use crate::servers::process::{ClaretOptions, Machine, Server};
use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Attempts to start servers at ports that were free.
const ATTEMPTS: usize = 4;
/// Number of distances from the servers that clients of one run can have.
pub const DISTANCES: usize = 3;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// This binary, by default with one shard.
    Claret,
    /// Apache ZooKeeper, of the Debian package.
    Zookeeper,
    /// etcd, of the Debian package; needs the program claret-etcd-load beside this one.
    Etcd,
    /// No service: the measurement is about the network alone.
    #[value(skip)]
    Network,
}

impl Backend {
    /// Name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claret => "claret",
            Self::Zookeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Network => "network",
        }
    }

    /// Checks that the service can be started here.
    ///
    /// # Errors
    /// It cannot be started; the error names the package or program that is missing.
    pub fn is_installed(self, program: &Path) -> io::Result<()> {
        match self {
            Self::Claret | Self::Network => Ok(()),
            Self::Zookeeper => zookeeper::is_installed(),
            Self::Etcd => {
                etcd::version()?;
                etcd::load_program(program).map(|_| ())
            }
        }
    }
}

/// Protocol of the clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Protocol of the service's nodes: ZooKeeper's, or etcd's own.
    Nodes,
    /// Redis protocol, which Claret speaks too.
    Redis,
}

/// Servers that sessions are connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// The leader, which orders writes.
    Leader,
    /// All servers, in turn.
    Any,
}

/// Resources with which services are started.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// This binary.
    pub program: &'a Path,
    /// Parent directory of the data directories.
    pub dir: &'a Path,
    /// Shards of Claret; its tree is spread over all of them.
    pub shards: u16,
}

/// Addresses at which servers listen for each other, and at which they are reached.
pub struct LineUp {
    /// Addresses at which servers listen.
    pub listens: Vec<SocketAddr>,
    /// Addresses at which peers reach them: the near end of a line, or the listening address.
    pub reached: Vec<SocketAddr>,
}

/// Addresses of the servers for one protocol.
struct Doors {
    /// Addresses for clients next to the servers.
    near: Vec<SocketAddr>,
    /// Addresses for distant clients: by distance, then by server.
    far: Vec<Vec<SocketAddr>>,
}

/// A running service that is stopped when the value is dropped, with links to it and between its
/// servers whose delay can be set.
pub struct Ensemble {
    /// Kind of service.
    pub backend: Backend,
    server: Server,
    /// Addresses by protocol: nodes and, if the service speaks it, Redis.
    doors: Vec<Doors>,
    /// Index of the server that orders writes.
    leader: usize,
    to_clients: Arc<Lines>,
    between: Option<Arc<Lines>>,
    round_trips_ns: [u64; DISTANCES],
    /// Whether the service is warmed up.
    pub is_warm: bool,
    /// Program that holds the sessions, if this process cannot.
    load_program: Option<PathBuf>,
    /// Processor time that such a program has used, in microseconds.
    pub elsewhere_us: u64,
    _links: Vec<Links>,
}

fn listener() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

/// Opens `count` listeners with distinct ports.
fn listeners(count: usize) -> io::Result<Vec<TcpListener>> {
    (0..count).map(|_| listener()).collect()
}

fn addresses(listeners: &[TcpListener]) -> io::Result<Vec<SocketAddr>> {
    listeners.iter().map(TcpListener::local_addr).collect()
}

impl Ensemble {
    /// Starts a service of `count` servers. If `stretched`, they reach each other over lines, whose
    /// relay adds some tens of microseconds of its own.
    ///
    /// # Errors
    /// The service does not start.
    pub fn start(
        backend: Backend,
        count: usize,
        stretched: bool,
        host: Host<'_>,
    ) -> io::Result<Self> {
        for _ in 1..ATTEMPTS {
            match Self::try_to_start(backend, count, stretched, host) {
                // Another process can take a port between its choice and its use.
                Err(error) if error.to_string().contains("in use") => {}
                done => return done,
            }
        }
        Self::try_to_start(backend, count, stretched, host)
    }

    fn try_to_start(
        backend: Backend,
        count: usize,
        stretched: bool,
        host: Host<'_>,
    ) -> io::Result<Self> {
        let Host { program, dir, .. } = host;
        let mut links = Vec::new();
        let (held, relays) = (listeners(count)?, listeners(count)?);
        let listens = addresses(&held)?;
        drop(held);
        let reached = if stretched { addresses(&relays)? } else { listens.clone() };
        let line_up = LineUp { listens, reached };
        let between = stretched.then(|| Lines::new(count));
        if let Some(lines) = &between {
            let relayed = relays.into_iter().zip(line_up.listens.iter().copied()).collect();
            links.push(Links::start(relayed, Delays::Lines(lines.clone()))?);
        }
        let server = match backend {
            Backend::Claret => claret(count, &line_up, host)?,
            Backend::Zookeeper => zookeeper::start(count, &line_up, dir)?,
            Backend::Etcd => etcd::start_at(&line_up.listens, &line_up.reached, dir)?,
            Backend::Network => return Err(io::Error::other("the network is no service")),
        };
        let (spoken, leader) = match backend {
            Backend::Claret | Backend::Network => {
                (vec![server.zookeeper_addresses(), server.addresses()], 0)
            }
            Backend::Zookeeper => (vec![server.addresses()], zookeeper::leader(&server)?),
            Backend::Etcd => (vec![server.addresses()], etcd::leader(&server)?),
        };
        let load_program = match backend {
            Backend::Etcd => Some(etcd::load_program(program)?),
            _ => None,
        };
        if spoken[0].len() != count {
            return Err(io::Error::other("a server has no port for ZooKeeper's protocol"));
        }
        let (mut doors, mut relayed) = (Vec::new(), Vec::new());
        for near in spoken {
            let mut far = Vec::new();
            for _ in 0..DISTANCES {
                let relays = listeners(count)?;
                far.push(addresses(&relays)?);
                relayed.extend(relays.into_iter().zip(near.iter().copied()));
            }
            doors.push(Doors { near, far });
        }
        let to_clients = Lines::new(relayed.len());
        links.push(Links::start(relayed, Delays::Lines(to_clients.clone()))?);
        let round_trips_ns = [0; DISTANCES];
        let ensemble = Self {
            backend,
            server,
            doors,
            leader,
            to_clients,
            between,
            round_trips_ns,
            is_warm: false,
            load_program,
            elsewhere_us: 0,
            _links: links,
        };
        Ok(ensemble)
    }

    /// Program that holds the sessions, if this process cannot.
    pub fn load_program(&self) -> Option<&Path> {
        self.load_program.as_deref()
    }

    /// Number of servers.
    pub fn servers(&self) -> usize {
        self.doors[0].near.len()
    }

    /// Sets the round trips of clients, by distance, and between servers, in nanoseconds.
    ///
    /// # Errors
    /// The servers were started without lines.
    pub fn stretch(&mut self, clients_ns: [u64; DISTANCES], servers_ns: u64) -> io::Result<()> {
        match &self.between {
            Some(lines) => {
                (0..self.servers()).for_each(|line| lines.set_round_trip(line, servers_ns));
            }
            None if servers_ns > 0 && self.servers() > 1 => {
                return Err(io::Error::other("there are no lines between the servers"));
            }
            None => {}
        }
        // Lines by protocol, then by distance, then by server.
        let of_protocols = (0..self.doors.len()).flat_map(|_| clients_ns);
        for (place, round_trip_ns) in of_protocols.enumerate() {
            for server in 0..self.servers() {
                let line = place * self.servers() + server;
                self.to_clients.set_round_trip(line, round_trip_ns);
            }
        }
        self.round_trips_ns = clients_ns;
        Ok(())
    }

    /// Address that a session connects to, by its number: the leader's, or all servers' in turn, at
    /// the session's distance. Sessions next to the servers connect without a relay.
    ///
    /// # Panics
    /// The service does not speak the protocol.
    pub fn entrance(
        &self,
        protocol: Protocol,
        session: usize,
        attach: Attach,
        distance: usize,
    ) -> SocketAddr {
        let doors = &self.doors[protocol as usize];
        let server = match attach {
            Attach::Leader => self.leader,
            Attach::Any => session % doors.near.len(),
        };
        match self.round_trips_ns[distance] {
            0 => doors.near[server],
            _ => doors.far[distance][server],
        }
    }

    /// Addresses that `count` sessions at the first distance connect to.
    pub fn entrances(&self, count: usize, attach: Attach) -> Vec<SocketAddr> {
        let at = |session| self.entrance(Protocol::Nodes, session, attach, 0);
        (0..count).map(at).collect()
    }

    /// Number of log entries that its leader has proposed so far; `None` if the service does not
    /// report it.
    ///
    /// # Errors
    /// It does not answer.
    pub fn log_entries(&self) -> io::Result<Option<u64>> {
        let Some(doors) = self.doors.get(Protocol::Redis as usize) else { return Ok(None) };
        let fields = Control::connect(doors.near[self.leader])?.info(&["stats"])?;
        Ok(fields.get("log_appends").and_then(|count| count.parse().ok()))
    }

    /// Process IDs of the service.
    pub fn processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    /// Resident memory of its processes, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.server.resident_bytes()
    }

    /// Processor time that its processes have used, in microseconds.
    pub fn cpu_us(&self) -> u64 {
        self.server.cpu_us()
    }

    /// Kills the leader.
    pub fn kill_leader(&mut self) {
        self.server.kill(self.leader);
    }

    /// Address for clients next to a server.
    ///
    /// # Panics
    /// The service does not speak the protocol.
    pub fn next_to(&self, protocol: Protocol, server: usize) -> SocketAddr {
        self.doors[protocol as usize].near[server]
    }

    /// Servers that do not order writes.
    pub fn followers(&self) -> Vec<usize> {
        (0..self.servers()).filter(|server| *server != self.leader).collect()
    }
}

/// Starts Claret with the first machine as the leader of all shards.
fn claret(count: usize, line_up: &LineUp, host: Host<'_>) -> io::Result<Server> {
    let Host { program, dir, shards } = host;
    let options = ClaretOptions {
        program: program.to_owned(),
        cc: "full".into(),
        shards,
        workers: 1,
        durability: "always".into(),
        replicas: count as u16,
    };
    let over = shards.to_string();
    // All its clients come from one address.
    let unlimited = "--zookeeper-connections-per-address";
    let zookeeper = ["--zookeeper-port", "0", "--zookeeper-shards", &over, unlimited, "0"];
    if count == 1 {
        return Ok(Server::of(vec![Machine::claret(&options, &zookeeper, dir)?]));
    }
    let mut server = Server::of(Vec::new());
    let reached = line_up.reached.iter().zip(1..);
    let nodes: Vec<String> = reached.map(|(at, number)| format!("{number}={at}")).collect();
    let nodes = nodes.join(",");
    for number in 0..count {
        let id = (number + 1).to_string();
        let bind = line_up.listens[number].to_string();
        let mut flags = vec!["--node", &id, "--cluster", &nodes, "--peer-bind", &bind];
        flags.extend(zookeeper);
        server.add(Machine::claret(&options, &flags, dir)?);
    }
    server.wait_for_leaders()?;
    for shard in 0..shards {
        let shard = shard.to_string();
        Control::connect(server.address())?.call(&["FAILOVER", "SHARD", &shard, "TO", "1"])?;
        server.wait_for_leaders()?;
    }
    Ok(server)
}

/// Sends a four-letter command to a server and returns the answer.
///
/// # Errors
/// The server cannot be reached.
pub fn ask_word(address: SocketAddr, word: [u8; 4]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&word)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
