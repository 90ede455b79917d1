//! Load generators and measurements: `claret bench`.
//!
//! Client and server usually share a machine here, so the client must be cheap: one thread drives
//! all connections as state machines ([`driver`]), commands are written straight into buffers and
//! replies are only scanned ([`resp`]). A [`workload`] defines the transactions; the [`runner`]
//! decides how their operations are sent, one by one, in an interactive transaction or all at once,
//! so that every condition runs the same transactions.

pub mod args;
pub mod auction;
pub mod cell;
pub mod conditions;
pub mod control;
pub mod coordination;
pub mod demo;
pub mod driver;
pub mod etcd;
pub mod fanout;
pub mod graph;
pub mod idle;
mod links;
pub mod ops;
mod picture;
pub mod process;
pub mod random;
pub mod rawmix;
pub mod recorder;
pub mod report;
pub mod resp;
pub mod retwis;
pub mod rubis;
pub mod runner;
pub mod sample;
mod stream;
pub mod sweep;
pub mod timers;
pub mod workload;

use args::Bench;
use report::Report;
use std::io;
use std::path::Path;

/// Runs a bench; `program` is the server binary. Returns the report, the columns of the printed
/// table, and whether a JSON document was requested instead.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(bench: &Bench, program: &Path) -> io::Result<(Report, &'static [&'static str], bool)> {
    Ok(match bench {
        Bench::Rawmix(args) => {
            (rawmix::run(args, program)?, &conditions::COLUMNS, args.common.json)
        }
        Bench::Rubis(args) => (rubis::run(args, program)?, &conditions::COLUMNS, args.common.json),
        Bench::Retwis(args) => {
            (retwis::run(args, program)?, &conditions::COLUMNS, args.common.json)
        }
        Bench::Idle(args) => (idle::run(args, program)?, &idle::COLUMNS, args.json),
        Bench::Fanout(args) => (fanout::run(args, program)?, &fanout::COLUMNS, args.json),
        Bench::Smoke(args) => {
            (coordination::smoke::run(args, program)?, &coordination::smoke::COLUMNS, args.json)
        }
        Bench::Locks(args) => (
            coordination::locks::run(args, program)?,
            coordination::locks::columns(args),
            args.json,
        ),
        Bench::Crowd(args) => {
            (coordination::crowd::run(args, program)?, &coordination::crowd::COLUMNS, args.json)
        }
        Bench::Ops(args) => (ops::run(args, program)?, &ops::COLUMNS, args.json),
    })
}
