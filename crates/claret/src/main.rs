//! The `claret` program: one subcommand per job. Each has its own file; here is only the list.

mod backup;
mod bench;
mod check;
mod cluster;
mod commands;
mod demo;
mod doctor;
mod hash;
mod memory;
mod model;
mod probe;
mod serve;
mod sim;
mod target;

use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

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
    /// Show in half a minute what operations that commute are good for.
    ///
    /// Plays the last minute of a popular auction twice over real sockets: with locks that know
    /// only readers and writers, and with the commuting operations of the data types.
    Demo(::bench::demo::DemoArgs),
    /// Measure conditions, and other servers, side by side.
    Bench(bench::BenchArgs),
    /// Run seeds under virtual time and let the checkers judge.
    Sim(sim::SimArgs),
    /// Judge a history file.
    Check(check::CheckArgs),
    Model(model::ModelArgs),
    Probe(probe::ProbeArgs),
    /// Print the reference of all commands.
    Commands(commands::CommandsArgs),
    /// Look at a cluster, and decide which machine leads what.
    Cluster(cluster::ClusterArgs),
    /// Write everything that a server or a cluster has, as of one moment, into a file.
    ///
    /// Clients go on; writes wait for some milliseconds. The user must be allowed to use BACKUP.
    Backup(backup::BackupArgs),
    /// Make a data directory from a backup, for a server that is started then.
    ///
    /// Takes the flags and the file of `claret serve`, with which the server is to be started. For a
    /// cluster it is said once for every machine, with the same backup. The directory must be empty.
    Restore(backup::RestoreArgs),
    /// Say what is wrong or risky with this machine and configuration.
    Doctor(doctor::DoctorArgs),
    /// Make a `password_hash` for a user in a configuration file out of a password.
    HashPassword(hash::HashArgs),
}

/// Prints what a command has to say, or why it did not do what it was told to.
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
/// invariant. The profile of releases says so too; that of development cannot, because tests need to
/// unwind and share their builds with the program.
fn end_at_a_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        report(panic);
        std::process::abort();
    }));
}

fn main() -> ExitCode {
    end_at_a_panic();
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
