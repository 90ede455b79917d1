//! Server from start to stop.

use crate::config::{Durability, Options, UserSettings};
use crate::control::{Control, Notice, Runner};
use crate::data::datadir::{DataDir, DirError, random};
use crate::data::identity::{Identity, purpose};
use crate::data::mapfile::MapFile;
use crate::data::recovery;
use crate::data::snapshot::SnapshotThread;
use crate::host::budget::Budget;
use crate::host::clock::Clock;
use crate::host::memory::LogMemory;
use crate::log::files::stop_process;
use crate::log::{LogError, LogOptions, LogStore, LogThread};
use crate::mail::{Inbox, Mail, Mailbox, inbox};
use crate::net::listen::{Connections, Listener, Listening, Port};
use crate::net::password;
use crate::net::password::PasswordThread;
use crate::net::peers;
use crate::net::peers::{Linked, Meeting, PeersThread};
use crate::net::tls::peers::PeerTls;
use crate::net::tls::{Tls, TlsError};
use crate::operators::http::HttpThread;
use crate::operators::{settings, words};
use crate::synchrony::{Surroundings, Synchrony};
use crate::worker::{INBOX, Origin, Peers, Place, Traffic, Worker};
use adt::command::database::DATABASES;
use adt::command::tags::TagRules;
use engine::gateway::{Config as GatewayConfig, Facts, Gateway, Order, UserConfig};
use engine::node::{Node, Placing};
use engine::pipeline::bundles::BundleOrder;
use engine::replica::{Replica, ReplicaError};
use mio::net::TcpListener;
use mio::{Poll, Waker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

/// Reason why a server does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Error of the data directory.
    #[error(transparent)]
    Dir(#[from] DirError),
    /// Error of the log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// Error of a shard.
    #[error(transparent)]
    Replica(#[from] ReplicaError),
    /// Error of the certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A port for clients cannot be opened.
    #[error("cannot listen on {0}. Another server may be running: choose another port with --port")]
    Listen(std::io::Error),
    /// The port for other machines cannot be opened.
    #[error(
        "cannot listen for the other machines of the cluster on {0}. Another server may be running: \
         correct this machine's address in --cluster"
    )]
    ListenPeers(std::io::Error),
    /// The port for other machines is reachable and neither encrypted nor authenticated.
    #[error(
        "{0} can be reached by other machines, and the connections between the machines of this \
         cluster are neither encrypted nor authenticated: set up TLS between them ([cluster.tls] \
         with cert, key and ca), or set insecure = true if the network is trusted"
    )]
    Exposed(SocketAddr),
    /// The system refuses a thread, a file or another resource.
    #[error("the system refuses a resource that the server needs: {0}")]
    System(#[from] std::io::Error),
}

/// Running server. Dropping the handle does not stop it.
pub struct Handle {
    address: SocketAddr,
    tls_address: Option<SocketAddr>,
    zookeeper_address: Option<SocketAddr>,
    zookeeper_tls_address: Option<SocketAddr>,
    metrics_address: Option<SocketAddr>,
    dir: PathBuf,
    shards: u16,
    workers: u16,
    durability: Durability,
    control: Sender<Notice>,
    supervisor: JoinHandle<()>,
}

/// Handle for stopping a server, usable from any thread.
#[derive(Clone)]
pub struct Remote(Sender<Notice>);

impl Remote {
    /// Stops the server: it accepts no more connections, finishes the requests that it has read,
    /// and ends.
    pub fn stop(&self) {
        // If the receiver is gone, the server has stopped.
        let _ = self.0.send(Notice::Stop);
    }

    /// Makes the server read its certificates again.
    pub fn reload(&self) {
        // If the receiver is gone, the server has stopped.
        let _ = self.0.send(Notice::Reload);
    }
}

impl Handle {
    /// Address for plain connections.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address for encrypted connections.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// Address of `/metrics`, `/health`, `/ready` and `/console`.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// Data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Line that is printed when the server is ready.
    pub fn ready_line(&self) -> String {
        let shards = match self.shards {
            1 => "1 shard".to_owned(),
            count => format!("{count} shards"),
        };
        let mut line = format!(
            "claret is ready on {} (data in {}, {shards}, durability {})",
            self.address,
            self.dir.display(),
            self.durability
        );
        let more = [
            ("TLS", self.tls_address),
            ("ZooKeeper's protocol", self.zookeeper_address),
            ("ZooKeeper's protocol in TLS", self.zookeeper_tls_address),
            ("metrics", self.metrics_address),
        ];
        for (what, address) in more {
            if let Some(address) = address {
                line.push_str(&format!(", {what} on {address}"));
            }
        }
        line
    }

    /// Number of worker threads.
    pub fn workers(&self) -> u16 {
        self.workers
    }

    /// Handle with which other threads can stop the server.
    pub fn remote(&self) -> Remote {
        Remote(self.control.clone())
    }

    /// Stops the server and waits until it has ended.
    pub fn stop(self) {
        self.remote().stop();
        self.wait();
    }

    /// Waits until the server has ended.
    pub fn wait(self) {
        if self.supervisor.join().is_err() {
            tracing::error!("the server's main thread has panicked");
        }
    }
}

/// Starts a server; it serves when this function returns.
///
/// # Errors
/// Names what is missing or wrong; nothing is left running.
pub fn start(options: Options) -> Result<Handle, StartError> {
    let clock = Clock::new();
    let tls = options.tls.clone().map(Tls::load).transpose()?.map(Arc::new);
    let peer_tls = options.cluster.as_ref().and_then(|cluster| cluster.tls.clone());
    let peer_tls = peer_tls.map(PeerTls::load).transpose()?.map(Arc::new);
    let now_s = clock.now().wall_us / 1_000_000;
    let dir = Arc::new(DataDir::open(&options.dir, purpose(&options), now_s)?);
    let identity = Identity::begin(&options, dir.path())?;
    let shards = dir.manifest().shards;
    if options.zookeeper_shards > shards {
        let wanted = options.zookeeper_shards;
        tracing::warn!(
            "zookeeper_shards is {wanted}, but there are {shards}: a new tree is spread over these"
        );
    }
    let first = identity.first_map(&dir)?;
    // The log is created last, so that an interrupted start leaves no trace.
    let map = Arc::new(MapFile::open(dir.path(), first, !dir.log().exists())?);
    let mut store = open_log(&options, &dir)?;
    let replicas = recovery::recover(&options, &dir, store.as_mut(), &clock, &identity, &map)?;
    if options.durability == Durability::None {
        store = None;
    }
    let tags = identity.rules(map.map().as_ref(), &dir)?;
    identity.check_rules(&options, tags.as_ref(), &dir)?;
    let starting = Starting { options, clock, dir, shards, tags, identity, map, tls, peer_tls };
    starting.finish(store, replicas)
}

/// Opens the log if durability needs one, or if one exists.
fn open_log(options: &Options, dir: &DataDir) -> Result<Option<LogStore>, LogError> {
    let is_there = dir.log().exists() || dir.known().exists();
    if options.durability == Durability::None && !is_there {
        return Ok(None);
    }
    let shards = u64::from(dir.manifest().shards);
    LogStore::open(LogOptions {
        dir: dir.log(),
        known: dir.known(),
        tag: dir.log_tag(),
        keep_bytes: 2 * shards * options.snapshot_log_bytes,
        on_failure: stop_process,
    })
    .map(Some)
}

/// Server whose data are loaded.
struct Starting {
    options: Options,
    clock: Clock,
    dir: Arc<DataDir>,
    shards: u16,
    tags: Option<TagRules>,
    identity: Identity,
    map: Arc<MapFile>,
    tls: Option<Arc<Tls>>,
    peer_tls: Option<Arc<PeerTls>>,
}

/// Receiving end of a worker's inbox and its event loop, before the worker exists.
struct Seat {
    poll: Poll,
    inbox: Inbox,
}

/// Threads that end after the workers.
struct Helpers {
    log: Option<LogThread>,
    http: Option<HttpThread>,
    passwords: PasswordThread<Origin>,
    snapshots: SnapshotThread,
    peers: Option<PeersThread>,
}

impl Helpers {
    fn stop(self) {
        drop((self.peers, self.http, self.passwords, self.snapshots));
        if let Some(log) = self.log {
            log.stop();
        }
    }
}

impl Starting {
    fn finish(
        self,
        store: Option<LogStore>,
        replicas: Vec<Replica<EntryFormat>>,
    ) -> Result<Handle, StartError> {
        let (seats, mailboxes) = seats(self.options.workers)?;
        let (control, notices) = channel();
        let connections = Arc::new(Connections::default());
        let listener = self.listen(&mailboxes, connections.clone()).map_err(StartError::Listen)?;
        let [tls_address, zookeeper_address, zookeeper_tls_address] =
            [Port::RedisTls, Port::Zookeeper, Port::ZookeeperTls]
                .map(|port| listener.address(port));
        // This port always exists.
        let address = listener.address(Port::Redis).unwrap_or(self.options.address());
        let peer_listener = self.listen_peers()?;
        let linked = Arc::<Linked>::default();
        let obeys = Arc::<AtomicBool>::default();
        let log_memory = Arc::new(LogMemory::new(self.options.memory_log_bytes));
        let http = match self.options.metrics_port {
            None => None,
            Some(port) => {
                let address = SocketAddr::new(self.options.bind, port);
                Some(HttpThread::start(address, control.clone()).map_err(StartError::Listen)?)
            }
        };
        let metrics_address = http.as_ref().map(|http| http.address);
        let log = store.as_ref().map(LogStore::counts);
        let order = Arc::new(BundleOrder::new(self.shards, self.options.workers));
        let mut helpers = self.helpers(store, http, &mailboxes, order.clone())?;
        let traffic: Vec<Arc<Traffic>> = mailboxes.iter().map(|_| Arc::default()).collect();
        let budget = Arc::new(Budget::default());
        let peers = |traffic: &Arc<Traffic>| Peers {
            workers: mailboxes.clone(),
            log: helpers.log.as_ref().map(LogThread::sender),
            snapshots: helpers.snapshots.sender(),
            passwords: helpers.passwords.sender(),
            control: control.clone(),
            connections: connections.clone(),
            traffic: traffic.clone(),
            linked: linked.clone(),
            map: self.map.clone(),
            obeys: obeys.clone(),
            budget: budget.clone(),
            log_memory: log_memory.clone(),
            order: order.clone(),
        };
        let facts = self.facts(address);
        let zookeeper = self.place(zookeeper_address, zookeeper_tls_address);
        let workers =
            self.workers(seats, replicas, address, traffic.iter().map(peers).collect())?;
        helpers.peers = self.meet(peer_listener, address, linked.clone(), &mailboxes)?;
        let synchrony = self.synchrony(&mailboxes, linked, obeys.clone());
        let runner = Runner::new(Control {
            receiver: notices,
            workers: mailboxes.clone(),
            traffic: traffic.clone(),
            log,
            connections: connections.clone(),
            tls: self.tls,
            peer_tls: self.peer_tls,
            facts,
            started: Instant::now(),
            clock: self.clock.clone(),
            log_memory: log_memory.clone(),
            allocated_bytes: self.options.allocated_bytes,
            save_at_stop: self.options.durability == Durability::None,
            listener: Some(listener),
            shows_keys: !self.options.requires_auth(),
            synchrony,
            zookeeper,
        });
        let dir = self.dir.clone();
        let supervisor =
            std::thread::Builder::new().name("control".to_owned()).spawn(move || {
                runner.run();
                for worker in workers {
                    if worker.join().is_err() {
                        tracing::error!("a worker has panicked");
                    }
                }
                helpers.stop();
                drop(dir);
            })?;
        Ok(Handle {
            address,
            tls_address,
            zookeeper_address,
            zookeeper_tls_address,
            metrics_address,
            dir: self.options.dir,
            shards: self.shards,
            workers: self.options.workers,
            durability: self.options.durability,
            control,
            supervisor,
        })
    }

    /// Probe, in a cluster.
    fn synchrony(
        &self,
        workers: &[Mailbox],
        linked: Arc<Linked>,
        obeys: Arc<AtomicBool>,
    ) -> Option<Synchrony> {
        let own = self.identity.cluster.as_ref()?.own;
        let (workers, map, clock) = (workers.to_vec(), self.map.clone(), self.clock.clone());
        let around = Surroundings { own, workers, linked, map, clock, obeys };
        let mut synchrony = Synchrony::new(around, self.options.synchrony);
        if let (Some(to), Some(begin)) = (self.options.record_to(), self.options.record) {
            synchrony.record(begin(to));
        }
        Some(synchrony)
    }

    fn place(&self, plain: Option<SocketAddr>, tls: Option<SocketAddr>) -> Option<words::Place> {
        plain.or(tls)?;
        Some(words::Place {
            port: plain.map(|address| address.port()),
            tls_port: tls.map(|address| address.port()),
            dir: self.dir.path().to_path_buf(),
            log: self.dir.log(),
            machine: self.identity.gateway(0).machine.0,
            clustered: self.identity.is_clustered(),
            session_timeout_ms: self.options.zookeeper_session_timeout_ms.clone(),
            share_max: self.options.zookeeper_connections_per_address,
        })
    }

    fn listen(
        &self,
        mailboxes: &[Mailbox],
        connections: Arc<Connections>,
    ) -> std::io::Result<Listener> {
        Listener::start(Listening {
            ports: self.options.ports(),
            tls: self.tls.clone(),
            insecure: self.options.insecure,
            connections_max: self.options.connections_max,
            share_max: self.options.zookeeper_connections_per_address,
            connections,
            workers: mailboxes.to_vec(),
        })
    }

    /// Opens the port for the other machines, in a cluster.
    fn listen_peers(&self) -> Result<Option<TcpListener>, StartError> {
        let Some(cluster) = &self.identity.cluster else { return Ok(None) };
        let listener = peers::listen(cluster).map_err(StartError::ListenPeers)?;
        let address = listener.local_addr()?;
        let private = address.ip().to_canonical().is_loopback() || self.peer_tls.is_some();
        if !private && !self.options.insecure {
            return Err(StartError::Exposed(address));
        }
        Ok(Some(listener))
    }

    /// Starts the thread that connects with the other machines, in a cluster.
    fn meet(
        &self,
        listener: Option<TcpListener>,
        address: SocketAddr,
        linked: Arc<Linked>,
        workers: &[Mailbox],
    ) -> std::io::Result<Option<PeersThread>> {
        let parts = self
            .identity
            .cluster
            .clone()
            .zip(self.identity.hello(address, self.tags.as_ref()))
            .zip(listener);
        let Some(((cluster, hello), listener)) = parts else { return Ok(None) };
        let (workers, map) = (workers.to_vec(), self.map.clone());
        let tls = self.peer_tls.clone();
        let meeting = Meeting { cluster, hello, listener, tls, linked, map, workers };
        PeersThread::start(meeting).map(Some)
    }

    fn helpers(
        &self,
        store: Option<LogStore>,
        http: Option<HttpThread>,
        mailboxes: &[Mailbox],
        order: Arc<BundleOrder>,
    ) -> std::io::Result<Helpers> {
        let log = match store {
            None => None,
            Some(store) => {
                let workers = mailboxes.to_vec();
                Some(LogThread::spawn(
                    store,
                    self.shards,
                    self.options.durability,
                    move |completions| {
                        // All parts of a bundle become visible at one moment.
                        let _moment = order.moment();
                        for (index, worker) in workers.iter().enumerate() {
                            let own = completions
                                .iter()
                                .filter(|(shard, _)| usize::from(shard.0) % workers.len() == index);
                            let own: Vec<_> = own.copied().collect();
                            if !own.is_empty() {
                                worker.send(Mail::Durable(own));
                            }
                        }
                    },
                )?)
            }
        };
        let workers = mailboxes.to_vec();
        let passwords = PasswordThread::spawn(move |(gateway, session): Origin, ok| {
            workers[usize::from(gateway.worker)].send(Mail::Verified(session, ok));
        })?;
        let snapshots = SnapshotThread::spawn(self.dir.clone(), mailboxes.to_vec())?;
        Ok(Helpers { log, http, passwords, snapshots, peers: None })
    }

    fn workers(
        &self,
        seats: Vec<Seat>,
        replicas: Vec<Replica<EntryFormat>>,
        address: SocketAddr,
        peers: Vec<Peers>,
    ) -> std::io::Result<Vec<JoinHandle<()>>> {
        let count = usize::from(self.options.workers);
        let mut own: Vec<Vec<Replica<EntryFormat>>> = Vec::new();
        own.resize_with(count, Vec::new);
        for replica in replicas {
            own[usize::from(replica.id().0) % count].push(replica);
        }
        let config = self.gateway_config(address);
        let mut threads = Vec::new();
        for (index, ((seat, own), peers)) in seats.into_iter().zip(own).zip(peers).enumerate() {
            let id = self.identity.gateway(index as u16);
            let seed = u64::from_le_bytes(random());
            let (config, now) = (GatewayConfig { id, seed, ..config.clone() }, self.clock.now());
            let facts = self.facts(address);
            let place = Place {
                id,
                clock: self.clock.clone(),
                poll: seat.poll,
                inbox: seat.inbox,
                shards: self.shards,
                hello: self.identity.hello(address, self.tags.as_ref()),
                snapshot_log_bytes: self.options.snapshot_log_bytes,
            };
            let placing = self.identity.is_clustered().then(|| Placing {
                map: self.map.map(),
                left: self.map.left(),
                codec: EntryFormat,
                concurrency: self.options.concurrency,
                seed: u64::from_le_bytes(random()),
                reap_us: self.options.zookeeper_container_check_us,
                interpreter: Some(&script::Luau),
            });
            let codec = Box::new(SnapshotFormat);
            let node = Node::new(id, self.options.workers, self.shards, placing, own, codec);
            let name = format!("worker-{index}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || {
                // Runs of scripts stay on one thread, and so does what has them.
                let mut gateway = Gateway::new(config, now);
                gateway.set_interpreter(&script::Luau);
                // The first client may ask before the control thread has sent any facts.
                gateway.set_facts(facts);
                let worker = Worker::new(place, gateway, node, peers);
                if let Err(error) = worker.run() {
                    tracing::error!("a worker cannot continue: {error}; the server stops");
                    std::process::exit(71);
                }
            })?);
        }
        Ok(threads)
    }

    fn gateway_config(&self, address: SocketAddr) -> GatewayConfig {
        let options = &self.options;
        GatewayConfig {
            id: self.identity.gateway(0),
            gateways: options.workers,
            shards: self.shards,
            members: self.identity.members(self.map.map()),
            leader_wait_us: options.leader_wait_ms * 1_000,
            close_on_lost_leader: options.close_on_lost_leader,
            concurrency: options.concurrency,
            order: options.order,
            bundles: options.order == Order::Constant && !self.identity.is_clustered(),
            patience: options.patience,
            version: env!("CARGO_PKG_VERSION"),
            users: users(options),
            require_auth: options.requires_auth(),
            session_timeout_ms: options.zookeeper_session_timeout_ms.clone(),
            tree_shards: options.zookeeper_shards.min(self.shards),
            settings: settings(options, (self.shards, self.tags.as_ref()), address),
            tags: self.tags.clone(),
            seed: 0,
        }
    }

    fn facts(&self, address: SocketAddr) -> Facts {
        let (host, port) = self.identity.client_address(address);
        Facts {
            process: std::process::id(),
            port,
            run_id: self.dir.manifest().server.clone(),
            address: host,
            memory_limit_bytes: self.options.memory_limit_bytes,
            memory_log_limit_bytes: self.options.memory_log_bytes,
            durable: self.options.durability == Durability::Always,
            started_s: self.clock.now().wall_us / 1_000_000,
            ..Facts::default()
        }
    }
}

/// Creates event loops and inboxes for the workers.
fn seats(workers: u16) -> std::io::Result<(Vec<Seat>, Vec<Mailbox>)> {
    let (mut seats, mut mailboxes) = (Vec::new(), Vec::new());
    for _ in 0..workers {
        let poll = Poll::new()?;
        let waker = Arc::new(Waker::new(poll.registry(), INBOX)?);
        let (mailbox, inbox) = inbox(waker);
        seats.push(Seat { poll, inbox });
        mailboxes.push(mailbox);
    }
    Ok((seats, mailboxes))
}

/// Users as the gateway expects them. Passwords are replaced by their Argon2id strings.
fn users(options: &Options) -> Vec<UserConfig> {
    let verifier_of = |user: &UserSettings| {
        let made = user.password.as_ref().map(|secret| password::verifier(secret.reveal()));
        user.password_hash.clone().or(made)
    };
    let mut users: Vec<UserConfig> = options
        .users
        .iter()
        .map(|user| UserConfig {
            name: user.name.clone(),
            rules: user.rules.clone(),
            verifier: verifier_of(user),
        })
        .collect();
    if !users.iter().any(|user| user.name == "default") {
        let all = ["on", "~*", "&*", "+@all"].map(str::to_owned).to_vec();
        let verifier = options.password.as_ref().map(|secret| password::verifier(secret.reveal()));
        let mut rules = all;
        if verifier.is_none() {
            rules.push("nopass".to_owned());
        }
        users.insert(0, UserConfig { name: "default".to_owned(), rules, verifier });
    }
    users
}

/// Settings that `CONFIG GET` shows, under Redis' names where Redis has one.
fn settings(
    options: &Options,
    (shards, tags): (u16, Option<&TagRules>),
    address: SocketAddr,
) -> BTreeMap<String, String> {
    let durable = options.durability != Durability::None;
    let tls_cluster = options.cluster.as_ref().is_some_and(|cluster| cluster.tls.is_some());
    let sessions = &options.zookeeper_session_timeout_ms;
    let share_max = options.zookeeper_connections_per_address;
    let check_us = options.zookeeper_container_check_us;
    let shown = |path: &Path| path.display().to_string();
    let fsync = if durable { options.durability.name() } else { "no" };
    let pairs = [
        ("appendfsync", fsync.to_owned()),
        ("appendonly", if durable { "yes" } else { "no" }.to_owned()),
        ("bind", options.bind.to_string()),
        ("cc", options.cc.clone()),
        ("close_on_lost_leader", options.close_on_lost_leader.to_string()),
        ("databases", DATABASES.to_string()),
        ("dir", shown(&options.dir)),
        ("durability", options.durability.to_string()),
        ("leader_wait_ms", options.leader_wait_ms.to_string()),
        ("maxclients", options.connections_max.to_string()),
        ("maxmemory", options.memory_limit_bytes.to_string()),
        ("maxmemory_log", options.memory_log_bytes.to_string()),
        ("maxmemory-policy", "noeviction".to_owned()),
        ("notify-keyspace-events", options.notify_keyspace_events.to_string()),
        ("placement", tags.map(TagRules::texts).unwrap_or_default().join(",")),
        ("port", address.port().to_string()),
        ("save", String::new()),
        ("shards", shards.to_string()),
        ("snapshot_log_bytes", options.snapshot_log_bytes.to_string()),
        ("synchrony", options.synchrony.to_string()),
        ("synchrony_dir", options.synchrony_dir.as_deref().map_or(String::new(), shown)),
        ("synchrony_keep_days", options.synchrony_keep_days.to_string()),
        ("transaction_idle_timeout", (options.patience.idle_us / 1000).to_string()),
        ("transaction_timeout", (options.patience.lasts_us / 1000).to_string()),
        ("tls-cluster", if tls_cluster { "yes" } else { "no" }.to_owned()),
        ("tls-port", options.tls.as_ref().map_or(0, |tls| tls.port).to_string()),
        ("workers", options.workers.to_string()),
        ("zookeeper_connections_per_address", share_max.to_string()),
        ("zookeeper_container_check_ms", (check_us / 1000).to_string()),
        ("zookeeper_max_session_timeout_ms", sessions.end().to_string()),
        ("zookeeper_min_session_timeout_ms", sessions.start().to_string()),
        ("zookeeper_shards", options.zookeeper_shards.to_string()),
    ];
    let known = settings::ALL.iter().flat_map(|rows| rows.iter());
    let known = known.map(|known| (known.name, known.value.to_owned()));
    known.chain(pairs).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Raises this process's limit on file descriptors to its maximum; every connection needs one.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("the limit of file descriptors cannot be raised: {error}");
    }
}
