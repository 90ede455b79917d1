//! Available memory, and how much of it is in use.

use super::budget::Sum;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Memory that the logs of all shards use, and their limit. The workers that own the shards and the
/// thread that watches memory share these numbers.
#[derive(Debug)]
pub struct LogMemory {
    /// Limit in bytes.
    most: u64,
    taken: Sum,
    /// Snapshots that are being written, over all workers.
    under_way: Sum,
    /// Whether memory as a whole is nearly at its limit.
    short: AtomicBool,
}

impl LogMemory {
    /// Allows the logs `most` bytes.
    pub fn new(most: u64) -> Self {
        let (taken, under_way, short) = Default::default();
        Self { most, taken, under_way, short }
    }

    /// Replaces a worker's part: its logs took `before` bytes and now take `now`.
    pub fn update(&self, before: u64, now: u64) {
        self.taken.change(before as usize, now as usize);
    }

    /// Replaces a worker's part: it was writing `before` snapshots and now writes `now`.
    pub fn update_under_way(&self, before: usize, now: usize) {
        self.under_way.change(before, now);
    }

    /// Bytes that the logs take.
    pub fn taken(&self) -> u64 {
        self.taken.get() as u64
    }

    /// Records whether memory as a whole is nearly at its limit.
    pub fn set_short(&self, short: bool) {
        self.short.store(short, Ordering::Relaxed);
    }

    /// Whether snapshots should be written now, so that logs can be truncated.
    pub fn is_near(&self) -> bool {
        let short = self.short.load(Ordering::Relaxed);
        // A snapshot costs as much as the data are large, so a short log is no reason for one.
        self.taken() > if short { self.most / 4 } else { self.most / 4 * 3 }
    }

    /// Whether clients have to wait for a snapshot that is being written.
    pub fn is_full(&self) -> bool {
        self.taken() > self.most && self.under_way.get() > 0
    }

    /// Whether logs have outgrown their memory because no snapshot succeeds.
    pub fn is_beyond(&self) -> bool {
        self.taken() > 2 * self.most
    }
}

/// Bytes that this process may use: the limit of its control group, or else the machine's memory.
pub fn available_bytes() -> u64 {
    let machine = meminfo("MemTotal:").unwrap_or(1 << 30);
    cgroup_limit_bytes().map_or(machine, |limit| limit.min(machine))
}

/// Limit of this process's control group, if it sets one (version 2, then version 1).
pub fn cgroup_limit_bytes() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
    let own = own.map(|group| format!("/sys/fs/cgroup{}/memory.max", group.trim_end_matches('/')));
    let files = [
        own.as_deref().unwrap_or(""),
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    files
        .into_iter()
        .filter_map(|file| number(Path::new(file)))
        // Version 1 writes "no limit" as a number near the largest possible one.
        .filter(|limit| *limit < 1 << 60)
        .min()
}

/// Resident memory of this process in bytes, as the system counts it.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "VmRSS:").unwrap_or(0)
}

/// Value of a line of `/proc/meminfo`, in bytes.
pub fn meminfo(name: &str) -> Option<u64> {
    kilobytes(&std::fs::read_to_string("/proc/meminfo").ok()?, name)
}

/// Processor time of this process in microseconds: user mode, system mode.
pub fn cpu_us() -> (u64, u64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the process, in parentheses, may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |index: usize| {
        fields.split_whitespace().nth(index).and_then(|field| field.parse::<u64>().ok())
    };
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    (ticks(11).unwrap_or(0) * tick_us, ticks(12).unwrap_or(0) * tick_us)
}

fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn number(file: &Path) -> Option<u64> {
    std::fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_bounded_all_together_and_sooner_when_memory_is_short() {
        let memory = LogMemory::new(1_000);
        memory.update(0, 700);
        assert!(!memory.is_near() && !memory.is_full() && !memory.is_beyond());
        memory.set_short(true);
        assert!(memory.is_near());
        memory.set_short(false);
        memory.update(0, 51);
        assert!(memory.is_near() && !memory.is_full());
        memory.update(51, 301);
        assert!(!memory.is_full(), "without a snapshot in progress no client waits for one");
        memory.update_under_way(0, 2);
        assert!(memory.is_full() && !memory.is_beyond());
        memory.update_under_way(2, 0);
        memory.update(700, 1_700);
        assert!(!memory.is_full() && memory.is_beyond());
        memory.update(1_700, 0);
        memory.update(301, 0);
        assert_eq!(memory.taken(), 0);
    }

    #[test]
    fn the_machine_tells_about_memory_and_time() {
        assert!(available_bytes() > 1 << 20);
        assert!(resident_bytes() > 1 << 16);
        let (user, system) = cpu_us();
        assert!(user + system < 3_600_000_000);
        assert_eq!(kilobytes("A: 1 kB\nB:  20 kB\n", "B:"), Some(20 * 1024));
    }
}
