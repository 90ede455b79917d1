//! Command-line options of `claret bench fanout`.

use crate::args::{parse_duration, parse_exponent, parse_seconds, parse_share};
use clap::{Args, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The protocols, the baseline first.
pub const ORDERS: [&str; 4] = ["single", "chain", "constant", "none"];

/// Kind of requests of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Application {
    /// A fixed number of commands on random keys.
    Keys,
    /// A social network: timelines, posts, profiles; the number of commands per request is drawn.
    Retwis,
}

impl Application {
    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::Retwis => "retwis",
        }
    }
}

/// Options of `fanout`.
#[derive(Clone, Debug, Args)]
pub struct FanoutArgs {
    /// Protocols, separated by commas: single (each command waits for the previous reply), chain
    /// (the order is handed from shard to shard, as published), constant, none (no order across
    /// shards).
    #[arg(long, value_delimiter = ',', default_value = "single,chain,constant",
        value_parser = ORDERS)]
    pub order: Vec<String>,
    /// Kind of requests.
    #[arg(long, value_enum, default_value = "keys")]
    pub app: Application,
    /// Commands per request, separated by commas. (This option, --zipf, --keys and --reads apply to
    /// the application `keys` only.)
    #[arg(long, value_delimiter = ',', default_value = "1,2,4,8,16,32",
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub fanout: Vec<u32>,
    /// Shards, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "9",
        value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: Vec<u16>,
    /// Topologies, separated by commas: datacenter (the same delay everywhere), edge (clients far
    /// from all machines, and leaders far from their followers), geo (leaders far from each other,
    /// clients next to them), gcp:CLIENT/LEADER+LEADER+LEADER (regions of Google Cloud, with
    /// measured delays), or a file.
    #[arg(long, value_delimiter = ',', default_value = "datacenter,edge,geo")]
    pub topology: Vec<String>,
    /// One-way delay between the machines of `datacenter`.
    #[arg(long, default_value = "500us", value_parser = parse_duration)]
    pub delay: Duration,
    /// Numbers of clients, separated by commas; each has one request at a time.
    #[arg(long, value_delimiter = ',', default_value = "1",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: Vec<u32>,
    /// Longest pause of a client before a request; pauses are uniformly distributed.
    #[arg(long, default_value = "0", value_parser = parse_duration)]
    pub think: Duration,
    /// Exponents of the keys' popularity, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0", value_parser = parse_exponent)]
    pub zipf: Vec<f64>,
    /// Number of keys.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub keys: u32,
    /// Share of commands that read.
    #[arg(long, default_value_t = 0.0, value_parser = parse_share)]
    pub reads: f64,
    /// Run the same code on virtual time, with exact delays and without processor time.
    #[arg(long)]
    pub sim: bool,
    /// Measured requests per client and cell, after a tenth as many unmeasured ones.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub requests: u32,
    /// Time limit of a cell of real processes, in seconds.
    #[arg(long, default_value_t = 20.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Time of a disk write with --sim.
    #[arg(long, default_value = "0", value_parser = parse_duration)]
    pub disk: Duration,
    /// Worker threads of each server.
    #[arg(long, default_value_t = 1)]
    pub workers: u16,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Draw the figures into this file (SVG): latency by --fanout, by throughput with more --clients,
    /// by --zipf.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}
