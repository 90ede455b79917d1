//! Resource usage of a host during one second, as a row of the table `res`.
//!
//! Counters are differences over the true interval, which is [`Resources::dt_us`]. A value that the
//! host does not provide is `None`, a null in the file. The columns per device and per interface
//! are sums over the chosen ones; the file's metadata names them.

/// Width and sign of a column in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Width {
    /// 0 to 255.
    U8,
    /// 0 to 65,535.
    U16,
    /// 0 to 2^32 - 1.
    U32,
    /// 0 to 2^63 - 1.
    U64,
    /// -2^31 to 2^31 - 1.
    I32,
}

impl Width {
    /// Value itself if it fits, else the nearest value that does.
    pub fn saturate(self, value: i64) -> i64 {
        let (low, high) = match self {
            Self::U8 => (0, i64::from(u8::MAX)),
            Self::U16 => (0, i64::from(u16::MAX)),
            Self::U32 => (0, i64::from(u32::MAX)),
            Self::U64 => (0, i64::MAX),
            Self::I32 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        };
        value.clamp(low, high)
    }
}

/// Whether a column is a difference or a state.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// A counter: the amount during the interval.
    Counter,
    /// A gauge: the state at the end of the interval.
    Gauge,
}

/// A column of the table `res` about the host, and the place of its value in a row.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name of the column, with its unit last.
    pub name: &'static str,
    /// Subsystem: `cpu`, `disk`, `stall` and so on.
    pub group: &'static str,
    /// Width in the file.
    pub width: Width,
    /// Difference or state.
    pub kind: Kind,
    /// Reads the value from a row.
    pub get: fn(&Resources) -> Option<i64>,
    /// Place of the value in a row.
    pub at: fn(&mut Resources) -> &mut Option<i64>,
}

impl Metric {
    /// Metric of this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }
}

macro_rules! table {
    ($($group:ident: $($name:ident $width:ident $kind:ident $says:literal)*;)*) => {
        /// One second of a host: a row of the table `res`.
        #[derive(Clone, Debug, Default, Eq, PartialEq)]
        pub struct Resources {
            /// Time of the row (`t`): nanoseconds since 1970 on the host's wall clock.
            pub t_ns: i64,
            /// Time of the row on its monotonic clock (`mono`).
            pub mono_ns: i64,
            /// True length of the interval (`dt`).
            pub dt_us: u32,
            /// Time that it took to collect the row (`cost`).
            pub cost_us: u16,
            $($(#[doc = $says] pub $name: Option<i64>,)*)*
        }

        /// Columns about the host, in the order of the file.
        pub const METRICS: &[Metric] = &[$($(Metric {
            name: stringify!($name),
            group: stringify!($group),
            width: Width::$width,
            kind: Kind::$kind,
            get: |row| row.$name,
            at: |row| &mut row.$name,
        },)*)*];
    };
}

/// Columns before [`METRICS`] in the file, in this order.
pub const TIME_COLUMNS: [&str; 4] = ["t", "mono", "dt", "cost"];

table! {
    cpu:
    cpu_user_ticks U32 Counter
        "Time in user code, over all cores."
    cpu_nice_ticks U32 Counter
        "Time in user code of low priority, over all cores."
    cpu_system_ticks U32 Counter
        "Time in the kernel, over all cores."
    cpu_idle_ticks U32 Counter
        "Idle time, over all cores."
    cpu_iowait_ticks U32 Counter
        "Idle time with IO outstanding, over all cores."
    cpu_irq_ticks U32 Counter
        "Time in interrupts, over all cores."
    cpu_softirq_ticks U32 Counter
        "Time in deferred interrupts, over all cores."
    cpu_steal_ticks U32 Counter
        "Time in other guests of the hypervisor, over all cores."
    cpu_guest_ticks U32 Counter
        "Time in guests of this host, over all cores."
    cpu_maxcore_percent U8 Gauge
        "The busiest core."
    cpu_cores_full U8 Gauge
        "Cores above 95 percent."
    cpu_running U16 Gauge
        "Runnable processes."
    cpu_blocked U16 Gauge
        "Processes that wait for IO."
    cpu_ctxt U32 Counter
        "Context switches."
    ;
    disk:
    disk_reads U32 Counter
        "Reads of the chosen devices."
    disk_writes U32 Counter
        "Writes."
    disk_flushes U32 Counter
        "Flushes; since Linux 5.5."
    disk_read_sectors U32 Counter
        "Read, in sectors of 512 bytes."
    disk_written_sectors U32 Counter
        "Written, in sectors of 512 bytes."
    disk_reading_ms U32 Counter
        "Time in reads, summed over them."
    disk_writing_ms U32 Counter
        "Time in writes, summed over them."
    disk_flushing_ms U32 Counter
        "Time in flushes, summed over them."
    disk_in_flight U16 Gauge
        "Requests in flight."
    disk_io_ms U32 Counter
        "Time with any request in flight."
    disk_weighted_io_ms U32 Counter
        "Time times requests in flight: divided by `dt`, the mean queue."
    ;
    memory:
    mem_available_kb U32 Gauge
        "Available memory."
    mem_dirty_kb U32 Gauge
        "Dirty memory, not yet being written to a device."
    mem_writeback_kb U32 Gauge
        "Memory being written to a device."
    swap_used_kb U32 Gauge
        "Swap in use."
    ;
    paging:
    pgfault U32 Counter
        "Page faults."
    pgmajfault U32 Counter
        "Page faults that read from a device."
    pswpin U32 Counter
        "Pages swapped in."
    pswpout U32 Counter
        "Pages swapped out."
    allocstall U32 Counter
        "Allocations that had to reclaim first, over all zones."
    pgscan_direct U32 Counter
        "Pages scanned by allocations that reclaim."
    pgsteal_direct U32 Counter
        "Pages reclaimed by allocations."
    compact_stall U32 Counter
        "Allocations that had to compact first."
    thp_fault_fallback U32 Counter
        "Failed allocations of huge pages."
    workingset_refault_file U32 Counter
        "Pages of files that were evicted too early."
    workingset_refault_anon U32 Counter
        "Other pages that were evicted too early."
    oom_kill U32 Counter
        "Processes killed for lack of memory."
    ;
    pressure:
    psi_cpu_some_us U32 Counter
        "Host: time in which some task waits for a core."
    psi_memory_some_us U32 Counter
        "Host: time in which some task waits for memory."
    psi_memory_full_us U32 Counter
        "Host: time in which all tasks wait for memory."
    psi_io_some_us U32 Counter
        "Host: time in which some task waits for IO."
    psi_io_full_us U32 Counter
        "Host: time in which all tasks wait for IO."
    psi_irq_full_us U32 Counter
        "Host: time in which all tasks wait for interrupts."
    cg_psi_cpu_some_us U32 Counter
        "Own cgroup: time in which some task waits for a core."
    cg_psi_memory_some_us U32 Counter
        "Own cgroup: time in which some task waits for memory."
    cg_psi_memory_full_us U32 Counter
        "Own cgroup: time in which all tasks wait for memory."
    cg_psi_io_some_us U32 Counter
        "Own cgroup: time in which some task waits for IO."
    cg_psi_io_full_us U32 Counter
        "Own cgroup: time in which all tasks wait for IO."
    cg_psi_irq_full_us U32 Counter
        "Own cgroup: time in which all tasks wait for interrupts."
    ;
    network:
    net_rx_bytes U64 Counter
        "Received by the chosen interfaces."
    net_tx_bytes U64 Counter
        "Sent."
    net_rx_packets U32 Counter
        "Packets received."
    net_tx_packets U32 Counter
        "Packets sent."
    net_errors U32 Counter
        "Errors, both ways."
    net_drops U32 Counter
        "Packets dropped, both ways."
    net_fifo U32 Counter
        "Overruns of a queue, both ways."
    net_collisions U32 Counter
        "Collisions."
    ;
    transport:
    tcp_retransmitted_segments U32 Counter
        "Retransmitted segments."
    tcp_rto_timeouts U32 Counter
        "Retransmission timers that fired."
    tcp_spurious_rtos U32 Counter
        "Retransmission timers that fired too early."
    tcp_backlog_drops U32 Counter
        "Segments dropped because a socket was busy."
    tcp_listen_drops U32 Counter
        "Connections dropped because the accept queue was full."
    tcp_prunes U32 Counter
        "Receive queues cut for lack of memory."
    udp_rcvbuf_errors U32 Counter
        "Datagrams dropped because the receive buffer was full."
    softnet_dropped U32 Counter
        "Packets dropped before protocol processing."
    softnet_squeezed U32 Counter
        "Turns of packet processing that ran out of time."
    ;
    cgroup:
    cg_throttled U32 Counter
        "Periods in which the cgroup was throttled."
    cg_throttled_us U32 Counter
        "Time for which it was throttled."
    cg_memory_high U32 Counter
        "Times above the soft limit of memory."
    cg_memory_max U32 Counter
        "Times at the hard limit of memory."
    cg_memory_oom U32 Counter
        "Times out of memory."
    cg_memory_current_bytes U64 Gauge
        "Memory in use."
    cg_io_read_bytes U64 Counter
        "Read."
    cg_io_written_bytes U64 Counter
        "Written."
    cg_io_reads U32 Counter
        "Reads."
    cg_io_writes U32 Counter
        "Writes."
    ;
    process:
    store_oncpu_ns U64 Counter
        "Store: time on a core, over all threads."
    store_runq_wait_ns U64 Counter
        "Store: time runnable without a core, over all threads."
    store_timeslices U32 Counter
        "Store: times on a core."
    store_minor_faults U32 Counter
        "Store: page faults."
    store_major_faults U32 Counter
        "Store: page faults that read from a device."
    store_voluntary_switches U32 Counter
        "Store: voluntary context switches."
    store_involuntary_switches U32 Counter
        "Store: involuntary context switches."
    store_block_io_delay_ticks U32 Counter
        "Store: time waiting for block devices."
    store_read_bytes U64 Counter
        "Store: bytes read from devices."
    store_written_bytes U64 Counter
        "Store: bytes written to devices."
    agent_oncpu_ns U64 Counter
        "Agent: time on a core, over all threads."
    agent_runq_wait_ns U64 Counter
        "Agent: time runnable without a core, over all threads."
    agent_timeslices U32 Counter
        "Agent: times on a core."
    agent_minor_faults U32 Counter
        "Agent: page faults."
    agent_major_faults U32 Counter
        "Agent: page faults that read from a device."
    agent_voluntary_switches U32 Counter
        "Agent: voluntary context switches."
    agent_involuntary_switches U32 Counter
        "Agent: involuntary context switches."
    agent_block_io_delay_ticks U32 Counter
        "Agent: time waiting for block devices."
    agent_read_bytes U64 Counter
        "Agent: bytes read from devices."
    agent_written_bytes U64 Counter
        "Agent: bytes written to devices."
    ;
    clock:
    clock_state U8 Gauge
        "State of the clock by `adjtimex`: 0 is synchronised."
    clock_estimated_error_us U32 Gauge
        "Estimated error of the clock."
    clock_maximum_error_us U32 Gauge
        "Maximum error of the clock."
    clock_jump_us I32 Gauge
        "Movement of the wall clock against the monotonic one."
    ;
    stall:
    stall_sum_us U32 Counter
        "Summed lateness of a thread that sleeps for 1 ms at a time, which a peer would experience."
    stall_max_us U32 Gauge
        "The worst of these."
    stall_n U16 Counter
        "Number of these above 1 ms."
    runtime_stall_sum_us U32 Counter
        "Summed lateness inside the async runtime, every 10 ms."
    runtime_stall_max_us U32 Gauge
        "The worst of these."
    ;
    runtime:
    runtime_busy_ppm U32 Gauge
        "Fraction of the time in which the runtime's workers were busy."
    runtime_queue U32 Gauge
        "Tasks in the global queue."
    runtime_blocking_queue U32 Gauge
        "Tasks that wait for a blocking thread."
    runtime_poll_mean_ns U32 Gauge
        "Mean length of a poll."
    runtime_poll_max_us U32 Gauge
        "Upper edge of the largest filled bucket of polls."
    runtime_forced_yields U32 Counter
        "Tasks that were made to yield."
    ;
    allocator:
    alloc_resident_bytes U64 Gauge
        "Memory held by the allocator."
    alloc_retained_bytes U64 Gauge
        "Memory that the allocator keeps unmapped."
    alloc_purges U32 Counter
        "Number of times it returned memory."
    alloc_mutex_wait_ns U64 Counter
        "Time waiting for its locks."
    alloc_mutex_wait_max_ns U64 Gauge
        "The longest of these."
    alloc_slow U32 Counter
        "Allocations above 100 microseconds."
    ;
    engine:
    log_sync_max_us U32 Gauge
        "Longest log sync of the store."
    lock_hold_max_us U32 Gauge
        "The longest time for which it held a lock."
    compacting U8 Gauge
        "1 during a snapshot or compaction."
    apply_batch_max U32 Gauge
        "The largest batch that it applied."
    ;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_name_and_a_place_of_its_own() {
        let mut row = Resources::default();
        for (value, metric) in (0..).zip(METRICS) {
            assert_eq!((metric.get)(&row), None, "{}", metric.name);
            *(metric.at)(&mut row) = Some(value);
            assert_eq!(Metric::named(metric.name).map(|found| found.name), Some(metric.name));
        }
        let values: Vec<Option<i64>> = METRICS.iter().map(|metric| (metric.get)(&row)).collect();
        assert!((0..).zip(values).all(|(index, value)| value == Some(index)));
    }

    #[test]
    fn values_saturate() {
        assert_eq!(Width::U16.saturate(70_000), 65_535);
        assert_eq!(Width::U8.saturate(-1), 0);
        assert_eq!(Width::I32.saturate(-5), -5);
        assert_eq!(Width::U64.saturate(i64::MAX), i64::MAX);
    }
}
