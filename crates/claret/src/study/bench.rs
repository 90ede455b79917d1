//! `claret bench`: loads against servers that it starts itself, compared in one run.

use bench::args::Bench;
use clap::Args;
use std::io::Write;
use std::process::ExitCode;

/// Measures conditions, and other servers, side by side.
///
/// Every condition gets a server of its own with fresh data; cells of different conditions take
/// turns, so that a change in the machine's performance affects all of them. Rows show the cost of
/// a transaction in round trips, messages to shards, log records and processor time, and the
/// processors that other programs used meanwhile (foreign_cpus): compare costs, not only
/// throughput, when that is not near 0. A row whose throughput shows something else than the server
/// is marked (limit): load if the threads of the load had no time left, machine if no processor
/// had. The servers count the cost on all machines together:
/// entries proposed to logs (log_appends), fsyncs, and between machines requests with their answers
/// (peer_requests), messages of the replicated logs (peer_raft) and sending system calls
/// (peer_sends). With --json exactly one document is printed: rows, and ratios of the peaks.
///
/// Examples:
///
///   claret bench rawmix                               four conditions, each driven to its peak
///   claret bench rawmix --zipf 1.4 --cc rw+phase,full --clients 16,64
///   claret bench rawmix --rtt 500us --durability none --cc none,full
///   claret bench ops                                  the server as shipped, beside Redis
///   claret bench memory                               memory per key, beside Redis
///   claret bench hot                                  hot records, beside Redis, PostgreSQL, etcd
///   claret bench ops --vs etcd --replicas 3           replicated commands
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct BenchArgs {
    #[command(subcommand)]
    bench: Bench,
}

/// Runs the command.
pub fn main(args: &BenchArgs) -> ExitCode {
    server::raise_descriptor_limit();
    let done = std::env::current_exe().and_then(|program| bench::run(&args.bench, &program));
    let written = done.and_then(|(report, columns, json)| {
        let mut text = if json {
            serde_json::to_string_pretty(&report).map_err(std::io::Error::other)?
        } else {
            report.table(columns)
        };
        text.push('\n');
        std::io::stdout().write_all(text.as_bytes())
    });
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("claret: {error}");
            ExitCode::FAILURE
        }
    }
}
