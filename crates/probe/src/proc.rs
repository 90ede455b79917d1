//! Linux's statistics of a host, as numbers.
//!
//! Each function takes the text of one file and puts its values into a row, as raw counters;
//! [`difference`] makes a row of the table `res` from two of them. Fields that a kernel does not
//! have stay empty. All parsers are written by hand: they run once a second for as long as the host
//! does, beside its actual work.

mod host;
mod process;
mod stall;
#[cfg(test)]
mod tests;

pub use host::{Cores, cgroup_io, cpu_stat, diskstats, meminfo, memory_events, netdev, netstat};
pub use host::{pressure, single, snmp, softnet, stat, vmstat};
pub use process::{Threads, Work};
pub use stall::Lateness;

use crate::resources::{Kind, METRICS, Resources};

/// Row of differences between two rows of counters. States, such as that of a clock or of a canary,
/// are taken unchanged from the later row.
pub fn difference(before: &Resources, now: &Resources) -> Resources {
    let mut row = now.clone();
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Counter) {
        let of = metric.get;
        // A counter that was reset, because a device or a thread is gone, has no usable difference.
        let moved = of(now).zip(of(before)).map(|(now, before)| (now - before).max(0));
        *(metric.at)(&mut row) = moved.map(|moved| metric.width.saturate(moved));
    }
    let dt_us = (now.mono_ns - before.mono_ns) / 1_000;
    row.dt_us = u32::try_from(dt_us.max(0)).unwrap_or(u32::MAX);
    let jump_ns = (now.t_ns - before.t_ns) - (now.mono_ns - before.mono_ns);
    row.clock_jump_us = Some(crate::resources::Width::I32.saturate(jump_ns / 1_000));
    row
}

/// Adds to a value that may not exist yet.
fn add(to: &mut Option<i64>, value: i64) {
    *to = Some(to.unwrap_or(0) + value);
}
