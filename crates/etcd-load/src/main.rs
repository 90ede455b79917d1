//! The load that `claret bench ops --vs etcd` puts on etcd: as many connections as asked for, each
//! with one request at a time, and one JSON document with what came of it.
//!
//! It is a program of its own because etcd speaks gRPC, whose libraries nobody should have to build
//! who wants a server. One thread drives all connections, as for the other side of the comparison.

mod load;
mod rpc;

use bench::sample::{Load, Sample};
use clap::Parser;
use std::error::Error;
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;

/// Puts a closed loop of requests on the members of an etcd cluster and prints one JSON document.
///
/// Usually started by `claret bench ops --vs etcd`.
#[derive(Parser, Debug)]
#[command(name = "claret-etcd-load", version)]
struct Options {
    /// What every connection does over and over: GET (a linearizable Range of one key) or SET (a
    /// Put); or FILL, which puts every key once.
    #[arg(long, value_parser = ["GET", "SET", "FILL"])]
    command: String,
    /// Where the members listen for clients, separated by commas; connections go round over them.
    #[arg(long, value_delimiter = ',', required = true)]
    machines: Vec<SocketAddr>,
    /// Connections.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// Measured seconds, after a warm-up.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Where random choices begin.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Processes whose processor time is counted as the server's, separated by commas.
    #[arg(long, value_delimiter = ',')]
    processes: Vec<u32>,
}

fn run(options: &Options) -> Result<Sample, Box<dyn Error>> {
    let load = Load {
        command: &options.command,
        pipeline: 1,
        clients: options.clients,
        seconds: options.seconds,
        seed: options.seed,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let done = load::run(&load, &options.machines, &options.processes);
    Ok(tasks.block_on(&runtime, done)?)
}

fn main() -> ExitCode {
    let written = run(&Options::parse()).and_then(|sample| {
        let mut text = serde_json::to_string(&sample)?;
        text.push('\n');
        Ok(std::io::stdout().write_all(text.as_bytes())?)
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}: {error}", bench::etcd::PROGRAM);
            ExitCode::FAILURE
        }
    }
}
