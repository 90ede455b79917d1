//! How much memory there is, and how much of it is in use.

use std::path::Path;

/// Bytes that this process may use: what its control group allows, or what the machine has.
pub fn available_bytes() -> u64 {
    let machine = meminfo("MemTotal:").unwrap_or(1 << 30);
    cgroup_limit_bytes().map_or(machine, |limit| limit.min(machine))
}

/// What the control group of this process allows, if it sets a limit (version 2, then version 1).
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
        // Version 1 writes "no limit" as a number near the largest one.
        .filter(|limit| *limit < 1 << 60)
        .min()
}

/// Bytes of memory of this process, as the system counts them.
pub fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    kilobytes(&status, "VmRSS:").unwrap_or(0)
}

/// A line of `/proc/meminfo`, in bytes.
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
    fn the_machine_tells_about_memory_and_time() {
        assert!(available_bytes() > 1 << 20);
        assert!(resident_bytes() > 1 << 16);
        let (user, system) = cpu_us();
        assert!(user + system < 3_600_000_000);
        assert_eq!(kilobytes("A: 1 kB\nB:  20 kB\n", "B:"), Some(20 * 1024));
    }
}
