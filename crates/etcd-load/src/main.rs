//! Load generator for etcd, used by `claret bench ops --vs etcd` and by the auction of `claret bench
//! hot`, and its sessions for `claret bench locks` and `claret bench smoke`.
//!
//! It is a program of its own because etcd speaks gRPC, whose libraries a build of the server
//! should not need. One thread drives all connections, as for the other side of the comparison.

mod auction;
mod load;
mod messages;
mod mutex;
mod nodes;
mod rpc;
mod sessions;

use bench::coordination::args::ETCD_MUTEX;
use bench::coordination::generator::run as generate;
use bench::coordination::services::tasks::{Done, Task, carry_out};
use bench::load::sample::Load;
use clap::{Args, Parser};
use serde::Serialize;
use sessions::Sessions;
use std::error::Error;
use std::io::{BufRead, Write};
use std::net::SocketAddr;
use std::process::ExitCode;

/// Puts load on the members of an etcd cluster; usually started by `claret bench`.
#[derive(Parser, Debug)]
#[command(name = "claret-etcd-load", version)]
enum Options {
    /// A closed loop of requests; prints one JSON document with the results.
    Ops(OpsOptions),
    /// A closed loop of bids in auctions; prints one JSON document with the results.
    Auction(AuctionOptions),
    /// Sessions that carry out tasks: prints a line when they have begun, then, for each line of
    /// JSON with a task, one with its result.
    Tasks(TasksOptions),
}

#[derive(Args, Debug)]
struct OpsOptions {
    /// Request that every connection repeats: GET (a linearizable Range of one key) or SET (a Put);
    /// or FILL, which puts every key once.
    #[arg(long, value_parser = ["GET", "SET", "FILL"])]
    command: String,
    /// Client addresses of the members, separated by commas; connections are spread over them.
    #[arg(long, value_delimiter = ',', required = true)]
    machines: Vec<SocketAddr>,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Args, Debug)]
struct AuctionOptions {
    /// Client address of the member.
    #[arg(long)]
    machine: SocketAddr,
    /// Number of auctions.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    records: u32,
    /// Exponent of the power law by which they are popular; 0 if all are alike.
    #[arg(long, default_value_t = 0.0)]
    exponent: f64,
    #[command(flatten)]
    load: LoadOptions,
}

#[derive(Args, Debug)]
struct LoadOptions {
    /// Number of connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// Measured seconds, after a warm-up.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Seed of random choices.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Processes whose processor time is counted as the server's, separated by commas.
    #[arg(long, value_delimiter = ',')]
    processes: Vec<u32>,
}

impl LoadOptions {
    fn load<'a>(&self, command: &'a str) -> Load<'a> {
        let Self { clients, seconds, seed, .. } = *self;
        Load { command, pipeline: 1, clients, seconds, seed }
    }
}

#[derive(Args, Debug)]
struct TasksOptions {
    /// Address of each session's member, separated by commas.
    #[arg(long, value_delimiter = ',', required = true)]
    machines: Vec<SocketAddr>,
}

/// Runs a load in this thread and prints its result.
fn print<R: Serialize>(
    load: impl Future<Output = Result<R, String>>,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = tokio::task::LocalSet::new().block_on(&runtime, load)?;
    Ok(say(&serde_json::to_string(&result)?)?)
}

fn tasks(options: &TasksOptions) -> Result<(), Box<dyn Error>> {
    let mut sessions = Sessions::begin(&options.machines)?;
    say(&format!("{} sessions have begun", options.machines.len()))?;
    for line in std::io::stdin().lock().lines() {
        let task: Task = serde_json::from_str(&line?)?;
        let done = match &task {
            Task::Lock { way, node, load, .. } if way == ETCD_MUTEX => {
                Done::Lock(generate(&mut mutex::Mutex::new(&mut sessions, node), load)?)
            }
            task => carry_out(&mut nodes::Keys::new(&mut sessions), task)?,
        };
        say(&serde_json::to_string(&done)?)?;
    }
    Ok(sessions.close()?)
}

fn say(line: &str) -> std::io::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    match options {
        Options::Ops(OpsOptions { command, machines, load }) => {
            print(load::run(&load.load(command), machines, &load.processes))
        }
        Options::Auction(AuctionOptions { machine, records, exponent, load }) => {
            let (records, asked) = (*records as usize, load.load("BID"));
            print(auction::run(&asked, *machine, records, *exponent, &load.processes))
        }
        Options::Tasks(options) => tasks(options),
    }
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", bench::servers::etcd::PROGRAM);
            ExitCode::FAILURE
        }
    }
}
