//! Parsers of files about the whole host, or about a cgroup.

use super::add;
use crate::resources::Resources;

/// Busy and total ticks of every core, as raw counters.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Cores(Vec<(u64, u64)>);

/// Usage above which a core counts as full.
const FULL_PERCENT: u64 = 95;

impl Cores {
    /// Usage of the busiest core since `before`, in percent, and the number of full cores; `None`
    /// if the set of cores changed.
    pub fn since(&self, before: &Self) -> Option<(i64, i64)> {
        if self.0.len() != before.0.len() || self.0.is_empty() {
            return None;
        }
        let each = self.0.iter().zip(&before.0).map(|(now, before)| {
            let (busy, total) = (now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
            (100 * busy).checked_div(total).unwrap_or(0).min(100)
        });
        let full = each.clone().filter(|percent| *percent > FULL_PERCENT).count();
        Some((each.max().unwrap_or(0) as i64, full as i64))
    }
}

fn number(word: &str) -> Option<i64> {
    word.parse().ok()
}

fn numbers(text: &str) -> impl Iterator<Item = i64> + Clone + '_ {
    text.split_ascii_whitespace().map_while(number)
}

/// Parses `/proc/stat`: all cores together, each core, switches and processes.
pub fn stat(text: &str, row: &mut Resources) -> Cores {
    let mut cores = Cores::default();
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(' ') else { continue };
        let mut values = numbers(rest);
        match name {
            "cpu" => {
                for place in [
                    &mut row.cpu_user_ticks,
                    &mut row.cpu_nice_ticks,
                    &mut row.cpu_system_ticks,
                    &mut row.cpu_idle_ticks,
                    &mut row.cpu_iowait_ticks,
                    &mut row.cpu_irq_ticks,
                    &mut row.cpu_softirq_ticks,
                    &mut row.cpu_steal_ticks,
                    &mut row.cpu_guest_ticks,
                ] {
                    *place = values.next();
                }
            }
            "ctxt" => row.cpu_ctxt = values.next(),
            "procs_running" => row.cpu_running = values.next(),
            "procs_blocked" => {
                row.cpu_blocked = values.next();
                break;
            }
            name if name.starts_with("cpu") => {
                // Guest time is already included in user time.
                let total: i64 = values.clone().take(8).sum();
                let idle: i64 = values.skip(3).take(2).sum();
                cores.0.push(((total - idle).unsigned_abs(), total.unsigned_abs()));
            }
            _ => {}
        }
    }
    cores
}

/// Parses `/proc/diskstats`, summed over the chosen devices.
pub fn diskstats(text: &str, devices: &[String], row: &mut Resources) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(2);
        if !words.next().is_some_and(|name| devices.iter().any(|device| device == name)) {
            continue;
        }
        let values: Vec<i64> = words.map_while(number).collect();
        let take = |at: usize, to: &mut Option<i64>| {
            if let Some(value) = values.get(at) {
                add(to, *value);
            }
        };
        take(0, &mut row.disk_reads);
        take(2, &mut row.disk_read_sectors);
        take(3, &mut row.disk_reading_ms);
        take(4, &mut row.disk_writes);
        take(6, &mut row.disk_written_sectors);
        take(7, &mut row.disk_writing_ms);
        take(8, &mut row.disk_in_flight);
        take(9, &mut row.disk_io_ms);
        take(10, &mut row.disk_weighted_io_ms);
        take(15, &mut row.disk_flushes);
        take(16, &mut row.disk_flushing_ms);
    }
}

/// Parses `/proc/meminfo`.
pub fn meminfo(text: &str, row: &mut Resources) {
    let (mut swap_total, mut swap_free) = (None, None);
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        let place = match name {
            "MemAvailable" => &mut row.mem_available_kb,
            "Dirty" => &mut row.mem_dirty_kb,
            "Writeback" => &mut row.mem_writeback_kb,
            "SwapTotal" => &mut swap_total,
            "SwapFree" => &mut swap_free,
            _ => continue,
        };
        *place = numbers(rest).next();
        if name == "Writeback" {
            break;
        }
    }
    row.swap_used_kb = swap_total.zip(swap_free).map(|(total, free)| total - free);
}

/// Parses `/proc/vmstat`.
pub fn vmstat(text: &str, row: &mut Resources) {
    for line in text.lines() {
        // Of some two hundred lines a dozen matter, most of which the first byte identifies.
        if !matches!(line.as_bytes().first(), Some(b'p' | b'a' | b'c' | b't' | b'w' | b'o')) {
            continue;
        }
        let Some((name, value)) = line.split_once(' ') else { continue };
        let place = match name {
            "pgfault" => &mut row.pgfault,
            "pgmajfault" => &mut row.pgmajfault,
            "pswpin" => &mut row.pswpin,
            "pswpout" => &mut row.pswpout,
            "pgscan_direct" => &mut row.pgscan_direct,
            "pgsteal_direct" => &mut row.pgsteal_direct,
            "compact_stall" => &mut row.compact_stall,
            "thp_fault_fallback" => &mut row.thp_fault_fallback,
            "workingset_refault_file" | "workingset_refault" => &mut row.workingset_refault_file,
            "workingset_refault_anon" => &mut row.workingset_refault_anon,
            "oom_kill" => &mut row.oom_kill,
            // One counter for each zone of memory.
            name if name.starts_with("allocstall") => &mut row.allocstall,
            _ => continue,
        };
        if let Some(value) = number(value) {
            add(place, value);
        }
    }
}

/// Parses a file of pressure: the stall of "some" and of "full", in microseconds since boot.
pub fn pressure(text: &str) -> (Option<i64>, Option<i64>) {
    let (mut some, mut full) = (None, None);
    for line in text.lines() {
        let total = line.rsplit_once("total=").and_then(|(_, total)| number(total.trim()));
        match line.split(' ').next() {
            Some("some") => some = total,
            Some("full") => full = total,
            _ => {}
        }
    }
    (some, full)
}

/// Parses `/proc/net/dev`, summed over the chosen interfaces.
pub fn netdev(text: &str, interfaces: &[String], row: &mut Resources) {
    for line in text.lines() {
        let Some((name, rest)) = line.split_once(':') else { continue };
        if !interfaces.iter().any(|interface| interface == name.trim()) {
            continue;
        }
        let v: Vec<i64> = numbers(rest).collect();
        if v.len() < 16 {
            continue;
        }
        add(&mut row.net_rx_bytes, v[0]);
        add(&mut row.net_rx_packets, v[1]);
        add(&mut row.net_tx_bytes, v[8]);
        add(&mut row.net_tx_packets, v[9]);
        add(&mut row.net_errors, v[2] + v[10]);
        add(&mut row.net_drops, v[3] + v[11]);
        add(&mut row.net_fifo, v[4] + v[12]);
        add(&mut row.net_collisions, v[13]);
    }
}

/// Parses files with two lines for each protocol, one of names and one of values.
fn pairs(text: &str, mut take: impl FnMut(&str, &str, i64)) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let Some((protocol, names)) = names.split_once(':') else { return };
        let values = values.split_once(':').map_or("", |(_, values)| values);
        let each = names.split_ascii_whitespace().zip(values.split_ascii_whitespace());
        each.for_each(|(name, value)| {
            if let Some(value) = number(value) {
                take(protocol, name, value);
            }
        });
    }
}

/// Parses `/proc/net/snmp`.
pub fn snmp(text: &str, row: &mut Resources) {
    pairs(text, |protocol, name, value| match (protocol, name) {
        ("Tcp", "RetransSegs") => row.tcp_retransmitted_segments = Some(value),
        ("Udp", "RcvbufErrors") => row.udp_rcvbuf_errors = Some(value),
        _ => {}
    });
}

/// Parses `/proc/net/netstat`.
pub fn netstat(text: &str, row: &mut Resources) {
    pairs(text, |protocol, name, value| {
        let place = match (protocol, name) {
            ("TcpExt", "TCPTimeouts") => &mut row.tcp_rto_timeouts,
            ("TcpExt", "TCPSpuriousRTOs") => &mut row.tcp_spurious_rtos,
            ("TcpExt", "TCPBacklogDrop") => &mut row.tcp_backlog_drops,
            ("TcpExt", "ListenDrops") => &mut row.tcp_listen_drops,
            ("TcpExt", "PruneCalled") => &mut row.tcp_prunes,
            _ => return,
        };
        *place = Some(value);
    });
}

/// Parses `/proc/net/softnet_stat`: one line of hexadecimal numbers for each core.
pub fn softnet(text: &str, row: &mut Resources) {
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let mut next = || i64::from_str_radix(words.next()?, 16).ok();
        if let (Some(dropped), Some(squeezed)) = (next(), next()) {
            add(&mut row.softnet_dropped, dropped);
            add(&mut row.softnet_squeezed, squeezed);
        }
    }
}

/// Parses `cpu.stat` of a cgroup.
pub fn cpu_stat(text: &str, row: &mut Resources) {
    for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match name {
            "nr_throttled" => row.cg_throttled = number(value),
            "throttled_usec" => row.cg_throttled_us = number(value),
            _ => {}
        }
    }
}

/// Parses `memory.events` of a cgroup.
pub fn memory_events(text: &str, row: &mut Resources) {
    for (name, value) in text.lines().filter_map(|line| line.split_once(' ')) {
        match name {
            "high" => row.cg_memory_high = number(value),
            "max" => row.cg_memory_max = number(value),
            "oom" => row.cg_memory_oom = number(value),
            _ => {}
        }
    }
}

/// Parses `io.stat` of a cgroup, summed over devices.
pub fn cgroup_io(text: &str, row: &mut Resources) {
    for (name, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
        let place = match name {
            "rbytes" => &mut row.cg_io_read_bytes,
            "wbytes" => &mut row.cg_io_written_bytes,
            "rios" => &mut row.cg_io_reads,
            "wios" => &mut row.cg_io_writes,
            _ => continue,
        };
        if let Some(value) = number(value) {
            add(place, value);
        }
    }
}

/// Parses a file that contains one number.
pub fn single(text: &str) -> Option<i64> {
    number(text.trim())
}
