//! `claret serve`: runs a server until it is stopped.

mod record;

use clap::Args;
use server::config::cluster::ClusterSettings;
use server::config::peer_tls::PeerTlsSettings;
use server::config::{Bytes, ConfigError, Durability, Options, Period, Settings};
use server::synchrony::Mode;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// Options of a server, from flags and a file.
#[derive(Args, Debug, Default)]
pub struct ServeArgs {
    /// Configuration file (TOML); flags override it.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory [default: claret-data].
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Address to listen on [default: 127.0.0.1].
    #[arg(long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// TCP port [default: 6379]; 0 for any.
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Serve clients that speak ZooKeeper's protocol on this port (usually 2181); 0 for any.
    #[arg(long, value_name = "PORT")]
    zookeeper_port: Option<u16>,
    /// Spread their nodes over this many shards, by top-level names, if the tree has not been used
    /// before [default: 1].
    #[arg(long, value_name = "N")]
    zookeeper_shards: Option<u16>,
    /// Maximum connections of theirs from one address [default: 60]; 0 for no limit.
    #[arg(long, value_name = "N")]
    zookeeper_connections_per_address: Option<usize>,
    /// Number of shards of a new data directory [default: one per core].
    #[arg(long, value_name = "N")]
    shards: Option<u16>,
    /// Placement rules of a new data directory: keys with such a prefix are on one shard, as if it
    /// were their hash tag; `*` stands for one character or more; `none` for no rules [default:
    /// bull:*:,bq:*:,dramatiq:,saq: for job queues].
    #[arg(long, value_name = "RULE,...", value_delimiter = ',')]
    placement: Option<Vec<String>>,
    /// Number of worker threads [default: one per core].
    #[arg(long, value_name = "N")]
    workers: Option<u16>,
    /// When a write is acknowledged: always (flushed to disk), everysec, none [default: always].
    #[arg(long, value_name = "WHEN")]
    durability: Option<Durability>,
    /// Concurrency control, for measurements [default: full].
    #[arg(long, value_name = "NAME")]
    cc: Option<String>,
    /// Protocol that keeps the order of a client's pipelined commands across shards: constant,
    /// chain (as published, for comparison), single (each waits for the previous reply), none
    /// [default: constant].
    #[arg(long, value_name = "NAME")]
    order: Option<String>,
    /// Idle time-out of an interactive transaction while others wait for its locks: 500ms, 5s, 2m;
    /// 0 for no limit [default: 5s].
    #[arg(long, value_name = "TIME")]
    transaction_idle_timeout: Option<Period>,
    /// Maximum duration of an interactive transaction while others wait for its locks; 0 for no
    /// limit [default: 1m].
    #[arg(long, value_name = "TIME")]
    transaction_timeout: Option<Period>,
    /// Memory limit beyond which growing writes are refused, such as 2gb; 0 for no limit [default:
    /// three quarters of the memory].
    #[arg(long, value_name = "SIZE")]
    maxmemory: Option<Bytes>,
    /// Maximum number of client connections.
    #[arg(long, value_name = "N")]
    maxclients: Option<usize>,
    /// Keyspace events that subscribers are told, by Redis' letters, such as KEA or Ex [default:
    /// none].
    #[arg(long, value_name = "CLASSES")]
    notify_keyspace_events: Option<String>,
    /// Serve /metrics, /health, /ready and /console (a web page) on this port.
    #[arg(long, value_name = "PORT")]
    metrics_port: Option<u16>,
    /// Permitted action on slow machines of the cluster: off, propose, apply [default: propose].
    #[arg(long, value_name = "MODE")]
    synchrony: Option<Mode>,
    /// Keep all latency measurements of the other machines in this folder, for `claret probe
    /// analyze`.
    #[arg(long, value_name = "DIR")]
    synchrony_dir: Option<PathBuf>,
    /// Number of this machine in its cluster, from 1.
    #[arg(long, value_name = "N")]
    node: Option<u16>,
    /// Addresses at which the machines of the cluster reach each other, including this one:
    /// 1=host:port,2=host:port,3=host:port.
    #[arg(long, value_name = "NODES")]
    cluster: Option<String>,
    /// Join an existing cluster: see `claret cluster add`.
    #[arg(long)]
    join: bool,
    /// Name of the cluster [default: claret].
    #[arg(long, value_name = "NAME")]
    cluster_name: Option<String>,
    /// Address at which this machine listens for its peers, if it differs from the one at which
    /// they reach it: host:port.
    #[arg(long, value_name = "ADDRESS")]
    peer_bind: Option<String>,
    /// Address at which clients reach this machine of the cluster, if it differs from the one at
    /// which it listens: host:port.
    #[arg(long, value_name = "ADDRESS")]
    announce: Option<String>,
    /// Certificate of this machine for the other machines of the cluster (PEM); requires
    /// --peer-tls-key and --peer-tls-ca.
    #[arg(long, value_name = "FILE")]
    peer_tls_cert: Option<PathBuf>,
    /// Private key that belongs to --peer-tls-cert (PEM).
    #[arg(long, value_name = "FILE")]
    peer_tls_key: Option<PathBuf>,
    /// Authorities that must have signed the certificates of the other machines (PEM).
    #[arg(long, value_name = "FILE")]
    peer_tls_ca: Option<PathBuf>,
    /// Name in the certificates of all machines [default: of each machine, the host at which it is
    /// reached].
    #[arg(long, value_name = "NAME")]
    peer_tls_server_name: Option<String>,
    /// Level of messages on standard error: error, warn, info, debug, trace [default: info].
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<String>,
}

impl ServeArgs {
    /// Combines the flags and the file.
    pub fn options(&self) -> Result<Options, ConfigError> {
        let file = match &self.config {
            Some(path) => Settings::from_file(path)?,
            None => Settings::default(),
        };
        let flags = Settings {
            dir: self.dir.clone(),
            bind: self.bind,
            port: self.port,
            zookeeper_port: self.zookeeper_port,
            zookeeper_shards: self.zookeeper_shards,
            zookeeper_connections_per_address: self.zookeeper_connections_per_address,
            shards: self.shards,
            placement: self.placement.clone(),
            workers: self.workers,
            durability: self.durability,
            cc: self.cc.clone(),
            order: self.order.clone(),
            transaction_idle_timeout: self.transaction_idle_timeout,
            transaction_timeout: self.transaction_timeout,
            maxmemory: self.maxmemory,
            maxclients: self.maxclients,
            notify_keyspace_events: self.notify_keyspace_events.clone(),
            metrics_port: self.metrics_port,
            synchrony: self.synchrony,
            synchrony_dir: self.synchrony_dir.clone(),
            log_level: self.log_level.clone(),
            cluster: ClusterSettings {
                name: self.cluster_name.clone(),
                node: self.node,
                nodes: match &self.cluster {
                    Some(text) => ClusterSettings::parse_nodes(text)?,
                    None => BTreeMap::new(),
                },
                bind: self.peer_bind.clone(),
                announce: self.announce.clone(),
                join: self.join.then_some(true),
                tls: PeerTlsSettings {
                    cert: self.peer_tls_cert.clone(),
                    key: self.peer_tls_key.clone(),
                    ca: self.peer_tls_ca.clone(),
                    server_name: self.peer_tls_server_name.clone(),
                },
            },
            ..Settings::default()
        };
        let mut options = Options::resolve(flags.over(file))?;
        options.allocated_bytes = Some(crate::memory::allocated_bytes);
        options.record = Some(record::begin);
        Ok(options)
    }
}

/// Runs the command.
pub fn main(args: &ServeArgs) -> ExitCode {
    let options = match args.options() {
        Ok(options) => options,
        Err(error) => {
            eprintln!("claret: {error}");
            return ExitCode::from(2);
        }
    };
    log_to_stderr(&options.log_level);
    server::raise_descriptor_limit();
    crate::memory::give_back_in_background();
    // Registered before anything is started, so that no signal ends the process half-way.
    let signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("claret: signals cannot be received: {error}");
            return ExitCode::FAILURE;
        }
    };
    let handle = match server::start(options) {
        Ok(handle) => handle,
        Err(error) => {
            eprintln!("claret: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut stdout = std::io::stdout();
    if writeln!(stdout, "{}", handle.ready_line()).and_then(|()| stdout.flush()).is_err() {
        tracing::warn!("the standard output has no reader");
    }
    let remote = handle.remote();
    let watching = std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || watch(signals, &remote));
    if let Err(error) = watching {
        eprintln!("claret: signals cannot be received: {error}");
        return ExitCode::FAILURE;
    }
    handle.wait();
    tracing::info!("stopped");
    ExitCode::SUCCESS
}

/// Forwards signals; a second stop signal ends without waiting.
fn watch(mut signals: Signals, remote: &server::Remote) {
    let mut stopping = false;
    for signal in signals.forever() {
        match signal {
            SIGHUP => remote.reload(),
            _ if stopping => {
                eprintln!("claret: stopped without waiting");
                std::process::exit(1);
            }
            _ => {
                tracing::info!("stopping");
                stopping = true;
                remote.stop();
            }
        }
    }
}

/// Writes events to standard error; `RUST_LOG` overrides `level`.
fn log_to_stderr(level: &str) {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .init();
}
