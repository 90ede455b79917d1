//! Load generators and measurements: `claret bench`.
//!
//! Client and server usually share a machine here, so the client must be cheap: few threads
//! ([`load::threads`]) drive all connections as state machines ([`load::driver`]), commands are
//! written straight into buffers and replies are only scanned ([`load::resp`]). A
//! [`load::workload`] defines the transactions; the [`load::runner`] decides how their operations
//! are sent, one by one, in an interactive transaction or all at once, so that every condition runs
//! the same transactions.

pub mod args;
pub mod cell;
pub mod conditions;
pub mod coordination;
pub mod demo;
pub mod fanout;
pub mod hot;
pub mod idle;
pub mod load;
pub mod memory;
pub mod mixes;
pub mod ops;
mod picture;
pub mod report;
pub mod servers;
pub mod stop;
pub mod sweep;

use args::Bench;
use report::Report;
use std::io;
use std::path::Path;

/// Runs a bench; `program` is the server binary. Returns the report, the columns of the printed
/// table, and whether a JSON document was requested instead.
///
/// # Errors
/// A server cannot be started or fails, or there was a signal.
pub fn run(bench: &Bench, program: &Path) -> io::Result<Told> {
    stop::listen()?;
    measure(bench, program).map_err(stop::reason)
}

/// A report, the columns of the printed table, and whether a JSON document was requested instead.
pub type Told = (Report, &'static [&'static str], bool);

fn measure(bench: &Bench, program: &Path) -> io::Result<Told> {
    Ok(match bench {
        Bench::Rawmix(args) => {
            (crate::mixes::rawmix::run(args, program)?, &conditions::COLUMNS, args.common.json)
        }
        Bench::Rubis(args) => {
            (crate::mixes::rubis::run(args, program)?, &conditions::COLUMNS, args.common.json)
        }
        Bench::Retwis(args) => {
            (crate::mixes::retwis::run(args, program)?, &conditions::COLUMNS, args.common.json)
        }
        Bench::Idle(args) => (idle::run(args, program)?, &idle::COLUMNS, args.json),
        Bench::Hot(args) => (hot::run(args, program)?, &hot::COLUMNS, args.json),
        Bench::Memory(args) => (memory::run(args, program)?, &memory::COLUMNS, args.json),
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
