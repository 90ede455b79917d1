//! Command-line options of `claret bench hot`.

use super::tasks::Task;
use crate::args::parse_exponent;
use crate::load::threads;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

/// Server to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum System {
    /// Claret as shipped.
    Claret,
    /// The `redis-server` of this machine, with an append-only file that is flushed for every write.
    Redis,
    /// The PostgreSQL of this machine with its default settings.
    Postgres,
    /// The etcd of this machine with one member, for the auction only; needs the program
    /// claret-etcd-load beside this one.
    Etcd,
}

impl System {
    /// Name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claret => "claret",
            Self::Redis => "redis",
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
        }
    }
}

/// Options of `hot`.
#[derive(Clone, Debug, Args)]
pub struct HotArgs {
    /// Tasks, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "rewrite,take,stock")]
    pub tasks: Vec<Task>,
    /// Popularity of the records, separated by commas: one (a single record), or the exponent of a
    /// power law over --records of them.
    #[arg(long, value_delimiter = ',', default_value = "one,1.2", value_parser = parse_skew)]
    pub skew: Vec<Skew>,
    /// Records under a power law.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub records: u32,
    /// Numbers of clients, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,16,64,256,1024",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: Vec<u32>,
    /// Servers, separated by commas; by default all that are installed.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub systems: Vec<System>,
    /// Programs by their names in the column program, separated by commas; by default all.
    #[arg(long, value_delimiter = ',')]
    pub programs: Vec<String>,
    /// Threads of the load, each with its share of the connections [default: half of the cores].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub load_threads: Option<u16>,
    /// Runs of each cell; the median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Measured seconds per run. Transactions that do not end in this time are not in the
    /// latencies: it should be many times the longest one.
    #[arg(long, default_value_t = 2.0, value_parser = crate::args::parse_seconds)]
    pub seconds: f64,
    /// Draw the rows into this file (SVG).
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Parent directory of the servers' data directories; all are on this disk.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Popularity of the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// There is one record.
    One,
    /// A power law with this exponent.
    Zipf(f64),
}

impl Skew {
    /// Name in rows.
    pub fn name(self) -> String {
        match self {
            Self::One => "one".to_owned(),
            Self::Zipf(exponent) => format!("zipf {exponent}"),
        }
    }
}

fn parse_skew(text: &str) -> Result<Skew, String> {
    if text == "one" {
        return Ok(Skew::One);
    }
    let exponent = parse_exponent(text).map(Skew::Zipf);
    exponent.map_err(|_| "skew is one or an exponent from 0 to 10".to_owned())
}

impl HotArgs {
    /// Threads of the load for this number of connections.
    pub fn threads(&self, clients: u32) -> usize {
        self.load_threads.map_or_else(threads::usual, usize::from).min(clients as usize)
    }

    /// Whether a server takes part, and whether it was named.
    pub fn wants(&self, system: System) -> (bool, bool) {
        let named = self.systems.contains(&system);
        (named || self.systems.is_empty(), named)
    }
}
