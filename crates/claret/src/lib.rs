//! The `claret` program: one subcommand per job, each in a file of its own; this file only lists
//! them. It is a library so that a build of one's own can add data types
//! ([guide](../../../docs/guide/rust-types.md)) and is the same program otherwise.

mod backup;
mod cluster;
mod commands;
mod doctor;
mod hash;
mod memory;
mod serve;
mod study;
mod target;

use clap::{Parser, Subcommand};
use engine::gateway::session_commands::taken_twice;
use std::io::Write;
use std::process::ExitCode;
use study::{bench, check, demo, model, probe, sim};

/// A strongly consistent store that speaks the Redis protocol.
#[derive(Parser)]
#[command(name = "claret", version, propagate_version = true)]
struct Cli {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand)]
enum Job {
    /// Run a server.
    Serve(serve::ServeArgs),
    /// Show in half a minute a hot record beside Redis, and the benefit of operations that commute.
    ///
    /// First, if redis-server is installed, all clients read, increment and write back one number:
    /// on Redis with WATCH and MULTI, on Claret with TXN, every commit flushed to disk. Then the
    /// last minute of a popular auction is played twice over real sockets: with reader/writer
    /// locks, and with the commuting operations of the data types. Ctrl-C ends all servers and
    /// removes their files.
    Demo(::bench::demo::DemoArgs),
    /// Measure conditions, and other servers, in comparison.
    Bench(bench::BenchArgs),
    /// Run seeds under virtual time and check the histories.
    Sim(sim::SimArgs),
    /// Check a history file.
    Check(check::CheckArgs),
    Model(model::ModelArgs),
    Probe(probe::ProbeArgs),
    /// Print the reference of all commands.
    Commands(commands::CommandsArgs),
    /// Show a cluster, and decide which machine leads which shard.
    Cluster(cluster::ClusterArgs),
    /// Save all data of a server or a cluster, as of one moment, into a file.
    ///
    /// Clients continue; writes wait for some milliseconds. The user needs permission for BACKUP.
    Backup(backup::BackupArgs),
    /// Create a data directory from a backup, for a server that is started afterwards.
    ///
    /// Takes the flags and the file of `claret serve` with which the server will be started. For a
    /// cluster, run it once per machine, with the same backup. The directory must be empty.
    Restore(backup::RestoreArgs),
    /// Report errors and risks of this machine and its configuration.
    Doctor(doctor::DoctorArgs),
    /// Compute the `password_hash` of a user in a configuration file from a password.
    HashPassword(hash::HashArgs),
}

/// Prints a command's result, or the reason for its failure.
fn end(done: Result<String, String>) -> ExitCode {
    match done {
        Ok(text) if std::io::stdout().write_all(text.as_bytes()).is_ok() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("claret: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Lets a panic of any thread end the process: the other threads must not go on with a broken
/// invariant. The release profile is set to do so too; the development profile cannot be, because
/// tests need to unwind and share their builds with the program.
fn end_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

/// Runs the program with the arguments of the process.
pub fn run() -> ExitCode {
    end_at_a_panic();
    if let Some(name) = taken_twice() {
        return end(Err(format!("a data type of this build has taken the command {name}")));
    }
    match Cli::parse().job {
        Job::Serve(args) => serve::main(&args),
        Job::Bench(args) => bench::main(&args),
        Job::Sim(args) => sim::main(&args),
        Job::Check(args) => check::main(&args),
        Job::Model(args) => model::main(&args),
        Job::Probe(args) => probe::main(&args),
        Job::Commands(args) => commands::main(&args),
        Job::Demo(args) => demo::main(&args),
        Job::Cluster(args) => cluster::main(&args),
        Job::Backup(args) => backup::main(&args),
        Job::Restore(args) => backup::restore_main(&args),
        Job::Doctor(args) => doctor::main(&args),
        Job::HashPassword(args) => hash::main(&args),
    }
}
