//! Command-line options of `claret bench smoke` and `claret bench locks`.

use super::generator::Arrivals;
use super::grants;
use crate::args::parse_duration;
use crate::coordination::grants::keepers;
use crate::coordination::points::experiments::Experiment;
use crate::coordination::services::backend::{Attach, Backend};
use clap::{Args, ValueEnum};
use model::Algorithm;
use std::io;
use std::path::{Path, PathBuf};

/// All algorithms: the recipes by the model's names, the choice among them, Claret's own lock,
/// processes that keep it, and the lock of etcd's library.
pub const ALGORITHMS: [&str; 15] = [
    "sync-queue",
    "sync-queue-relist",
    "async-queue",
    "sync-tas",
    "async-tas",
    "tas-watch",
    ASYNC_QUEUE_WATCH,
    ADAPTIVE_RECIPE,
    grants::NAME,
    grants::SUCCESSOR,
    grants::NEAR,
    keepers::RETAINED,
    keepers::COHORT,
    keepers::ADAPTIVE,
    ETCD_MUTEX,
];

/// The recipe that relies on the order between a session's answers and its notifications.
pub const ASYNC_QUEUE_WATCH: &str = Algorithm::AsyncQueueWatch.name();
/// The adaptive choice among the recipes.
pub const ADAPTIVE_RECIPE: &str = "adaptive-recipe";
/// The lock of etcd's own client library.
pub const ETCD_MUTEX: &str = "etcd-mutex";

/// Another service that is measured in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SmokePeer {
    /// Apache ZooKeeper, of the Debian package `zookeeper`.
    Zookeeper,
    /// etcd, of the Debian package `etcd-server`; needs the program claret-etcd-load beside this one.
    Etcd,
}

/// Claret, and the other requested services.
///
/// # Errors
/// A service cannot be started here.
pub fn backends(vs: &[SmokePeer], program: &Path) -> io::Result<Vec<Backend>> {
    let mut backends = vec![Backend::Claret];
    for peer in vs {
        let backend = match peer {
            SmokePeer::Zookeeper => Backend::Zookeeper,
            SmokePeer::Etcd => Backend::Etcd,
        };
        backend.is_installed(program)?;
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    Ok(backends)
}

/// Parses a number with a unit as a time in milliseconds.
pub fn parse_ms(text: &str) -> Result<f64, String> {
    parse_duration(text).map(|duration| duration.as_secs_f64() * 1e3)
}

fn parse_above_zero(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number > 0.0 && number <= 1_000.0 => Ok(number),
        _ => Err("a number above 0, at most 1000".to_owned()),
    }
}

/// Options of `smoke`.
#[derive(Clone, Debug, Args)]
pub struct SmokeArgs {
    /// Numbers of servers, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,3",
        value_parser = clap::value_parser!(u16).range(1..=5))]
    pub servers: Vec<u16>,
    /// Other services to compare with, measured in turns, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub vs: Vec<SmokePeer>,
    /// Operations of each kind and round.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub requests: u32,
    /// Repetitions of the whole measurement; within a round the services are measured in turns,
    /// operation by operation.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub rounds: u32,
    /// Warm-up operations of each kind before the measurement, since programs get faster while they
    /// run.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub warmup: u32,
    /// Bytes of data in a node.
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    pub data: u32,
    /// Round trip to add between client and servers, such as 100ms.
    #[arg(long, default_value = "0", value_parser = parse_ms)]
    pub client_rtt: f64,
    /// Round trip to add between servers.
    #[arg(long, default_value = "0", value_parser = parse_ms)]
    pub server_rtt: f64,
    /// Server that the session is connected to.
    #[arg(long, value_enum, default_value = "leader")]
    pub attach: Attach,
    /// Numbers of concurrent operations for the throughput measurement, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "256,1024",
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub outstanding: Vec<u32>,
    /// Shards of Claret; its tree is spread over all of them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: u16,
    /// Numbers of clients that hand a lock to each other, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "8,32",
        value_parser = clap::value_parser!(u32).range(2..=1_000))]
    pub waiters: Vec<u32>,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `locks`.
#[derive(Clone, Debug, Args)]
pub struct LocksArgs {
    /// Experiments of the study by name, separated by commas. Other options override an
    /// experiment's parameters.
    #[arg(long, value_enum, value_delimiter = ',', ignore_case = true)]
    pub experiment: Vec<Experiment>,
    /// Services, separated by commas; all of them run at the same time and are measured in turns.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "claret,zookeeper")]
    pub backend: Vec<Backend>,
    /// Algorithms of the lock, separated by commas [default: the seven recipes]. grant is Claret's
    /// own lock, over the Redis protocol; successor is grant with successors named in advance; with
    /// near, servers keep the lock for their clients; with retained, each client keeps it; with
    /// cohort, clients in two processes hand it on among themselves. etcd-mutex is the lock of
    /// etcd's library. Each of these is measured on its own service only.
    #[arg(long, value_delimiter = ',', value_parser = ALGORITHMS)]
    pub algorithm: Vec<String>,
    /// Servers of each service [default: 3].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=5))]
    pub servers: Vec<u16>,
    /// Round trips between clients and servers, separated by commas, such as 0,100ms [default: 0].
    #[arg(long, value_delimiter = ',', value_parser = parse_ms)]
    pub client_rtt: Vec<f64>,
    /// Round trips between servers, separated by commas [default: 0].
    #[arg(long, value_delimiter = ',', value_parser = parse_ms)]
    pub server_rtt: Vec<f64>,
    /// Mean times in the critical section, separated by commas [default: 1ms]; they are exponential.
    #[arg(long, value_delimiter = ',', value_parser = parse_ms)]
    pub service: Vec<f64>,
    /// Mean times between two requests for the lock, separated by commas [default: 200ms].
    #[arg(long, value_delimiter = ',', value_parser = parse_ms)]
    pub interarrival: Vec<f64>,
    /// Poll intervals of the asynchronous recipes, separated by commas [default: 10ms].
    #[arg(long, value_delimiter = ',', value_parser = parse_ms)]
    pub poll: Vec<f64>,
    /// Clients, each with a session; requests are assigned to them in turn [default: 32].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub clients: Option<u32>,
    /// Requests of each run [default: 1000].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub requests: Option<u32>,
    /// Server that sessions are connected to.
    #[arg(long, value_enum, default_value = "leader")]
    pub attach: Attach,
    /// All times are divided by this factor during the run, and results multiplied by it. Keep a
    /// log write and an operation's processor time far below the divided round trips.
    #[arg(long, default_value_t = 5.0, value_parser = parse_above_zero)]
    pub scale: f64,
    /// Runs of each point, each with another seed [default: 5].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub seeds: Option<u32>,
    /// Warm-up operations of each kind on a service before its first measurement, since programs
    /// get faster while they run.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(0..=1_000_000))]
    pub warmup: u32,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Distribution of the times between requests.
    #[arg(long, value_enum, default_value = "poisson")]
    pub arrivals: Arrivals,
    /// Closed loop instead of a stream of requests: numbers of clients, separated by commas; each
    /// client requests the lock again after a pause (--think).
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=2_000))]
    pub closed: Vec<u32>,
    /// Mean of the exponential pause of a client with --closed.
    #[arg(long, default_value = "0", value_parser = parse_ms)]
    pub think: f64,
    /// Create the nodes of locks as persistent nodes instead of ephemeral ones.
    #[arg(long)]
    pub persistent: bool,
    /// Time limit of a run after its last request has arrived, not divided by --scale; requests
    /// without the lock by then are counted as unfinished.
    #[arg(long, default_value = "60s", value_parser = parse_ms)]
    pub limit: f64,
    /// Append each row to this file as it is measured, one JSON object per line, and skip points
    /// that the file already has.
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Measure nothing: report the model's errors on the rows of such a file. --plot draws them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["resume", "dry_run"])]
    pub report: Option<PathBuf>,
    /// Draw the measurements and the model's predictions into this file (SVG).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print the points that would be measured and the duration, and measure nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Algorithms that are recipes on nodes, which need no other support by the service.
pub fn recipes() -> Vec<&'static str> {
    let is_one = |name: &&str| recipe(name).is_some_and(Algorithm::needs_nodes_only);
    ALGORITHMS.into_iter().filter(is_one).collect()
}

/// Recipe with this name; `None` for the adaptive choice.
pub fn recipe(name: &str) -> Option<Algorithm> {
    Algorithm::named(name)
}
