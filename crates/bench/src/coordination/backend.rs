//! The services that are compared, and the links to them and between their servers.

use super::zookeeper;
use crate::control::Control;
use crate::etcd;
use crate::links::{Delays, Lines, Links};
use crate::process::{ClaretOptions, Machine, Server};
use clap::ValueEnum;
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often it is tried to start servers at ports that were free.
const ATTEMPTS: usize = 4;
/// Distances that clients of one run can have from the servers.
pub const DISTANCES: usize = 3;

/// A service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// This binary, with one shard if nothing else is said.
    Claret,
    /// Apache ZooKeeper, of the Debian package.
    Zookeeper,
    /// etcd, of the Debian package; needs the program claret-etcd-load beside this one.
    Etcd,
    /// None: what is measured is about the network alone.
    #[value(skip)]
    Network,
}

impl Backend {
    /// Its name on the command line and in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claret => "claret",
            Self::Zookeeper => "zookeeper",
            Self::Etcd => "etcd",
            Self::Network => "network",
        }
    }

    /// Whether it can be started here.
    ///
    /// # Errors
    /// It cannot; what is to be installed or built is told.
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

/// What clients speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// That by which the service has nodes: ZooKeeper's, or etcd's own.
    Nodes,
    /// That of Redis, as Claret does.
    Redis,
}

/// Which server sessions are connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attach {
    /// The one that orders writes.
    Leader,
    /// All of them, in turn.
    Any,
}

/// What services are started with.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// This binary.
    pub program: &'a Path,
    /// Where data directories are made.
    pub dir: &'a Path,
    /// Shards of Claret, over all of which its tree is spread.
    pub shards: u16,
}

/// At which addresses servers listen for each other, and at which they are reached.
pub struct LineUp {
    /// Where they listen.
    pub listens: Vec<SocketAddr>,
    /// Where others reach them: the beginning of a line, or where they listen.
    pub reached: Vec<SocketAddr>,
}

/// Where the servers are reached by one protocol.
struct Doors {
    /// Where clients connect that are next to the servers.
    near: Vec<SocketAddr>,
    /// Where clients connect that are not: by distance, then by server.
    far: Vec<Vec<SocketAddr>>,
}

/// A service that ends with this value, with links to it and inside it that can be made longer.
pub struct Ensemble {
    /// Which service.
    pub backend: Backend,
    server: Server,
    /// By protocol, that of nodes and, if it is spoken, of Redis.
    doors: Vec<Doors>,
    /// Which server orders writes.
    leader: usize,
    to_clients: Arc<Lines>,
    between: Option<Arc<Lines>>,
    round_trips_ns: [u64; DISTANCES],
    /// Whether it has done enough to be as fast as it gets.
    pub is_warm: bool,
    /// What has sessions with it, if this process cannot.
    load_program: Option<PathBuf>,
    /// Processor time that such a program has used, in microseconds.
    pub elsewhere_us: u64,
    _links: Vec<Links>,
}

fn listener() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

/// So many listeners, no two with the same port.
fn listeners(count: usize) -> io::Result<Vec<TcpListener>> {
    (0..count).map(|_| listener()).collect()
}

fn addresses(listeners: &[TcpListener]) -> io::Result<Vec<SocketAddr>> {
    listeners.iter().map(TcpListener::local_addr).collect()
}

impl Ensemble {
    /// Starts a service of so many servers. If `stretched`, they reach each other over lines, whose
    /// relay takes some tens of microseconds of its own.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(
        backend: Backend,
        count: usize,
        stretched: bool,
        host: Host<'_>,
    ) -> io::Result<Self> {
        for _ in 1..ATTEMPTS {
            match Self::try_to_start(backend, count, stretched, host) {
                // Between the choice of a port and its use somebody else can take it.
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

    /// The program that has sessions with it, if this process cannot.
    pub fn load_program(&self) -> Option<&Path> {
        self.load_program.as_deref()
    }

    /// How many servers there are.
    pub fn servers(&self) -> usize {
        self.doors[0].near.len()
    }

    /// Sets the round trips of clients, by distance, and between servers, in nanoseconds.
    ///
    /// # Errors
    /// The servers were not started for that.
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

    /// Where a session connects, by its number: to the leader or to all servers in turn, and at its
    /// distance. Who is next to the servers takes no detour.
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

    /// Where `count` sessions connect that are all at the first distance.
    pub fn entrances(&self, count: usize, attach: Attach) -> Vec<SocketAddr> {
        let at = |session| self.entrance(Protocol::Nodes, session, attach, 0);
        (0..count).map(at).collect()
    }

    /// Log entries that its leader has proposed so far; `None` if it does not tell.
    ///
    /// # Errors
    /// It does not answer.
    pub fn log_entries(&self) -> io::Result<Option<u64>> {
        let Some(doors) = self.doors.get(Protocol::Redis as usize) else { return Ok(None) };
        let fields = Control::connect(doors.near[self.leader])?.info(&["stats"])?;
        Ok(fields.get("log_appends").and_then(|count| count.parse().ok()))
    }

    /// Its processes.
    pub fn processes(&self) -> Vec<u32> {
        self.server.processes()
    }

    /// Memory that they hold, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.server.resident_bytes()
    }

    /// Processor time that they have used, in microseconds.
    pub fn cpu_us(&self) -> u64 {
        self.server.cpu_us()
    }

    /// Ends the leader at once.
    pub fn kill_leader(&mut self) {
        self.server.kill(self.leader);
    }

    /// Where clients connect that are next to a server.
    ///
    /// # Panics
    /// The service does not speak the protocol.
    pub fn next_to(&self, protocol: Protocol, server: usize) -> SocketAddr {
        self.doors[protocol as usize].near[server]
    }

    /// The servers that do not order writes.
    pub fn followers(&self) -> Vec<usize> {
        (0..self.servers()).filter(|server| *server != self.leader).collect()
    }
}

/// Starts Claret, all of whose shards the first machine leads.
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
    // All its clients have one address.
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

/// What a server answers to a word of four letters.
///
/// # Errors
/// It cannot be reached.
pub fn ask_word(address: SocketAddr, word: [u8; 4]) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    stream.write_all(&word)?;
    let mut said = String::new();
    stream.read_to_string(&mut said)?;
    Ok(said)
}
