//! Texts as kernels write them.

use super::*;

#[test]
fn cores_and_ticks() {
    let before = "cpu  100 1 50 800 20 0 3 4 5 0\ncpu0 60 0 25 400 10 0 1 2 5 0\n\
                  cpu1 40 1 25 400 10 0 2 2 0 0\nintr 9 8 7\nctxt 1000\nbtime 1\nprocesses 5\n\
                  procs_running 2\nprocs_blocked 1\nsoftirq 1 2";
    let now =
        before.replace("cpu1 40 1 25 400", "cpu1 138 1 25 402").replace("100 1 50", "198 1 50");
    let (mut first, mut second) = (Resources::default(), Resources::default());
    let (a, b) = (stat(before, &mut first), stat(&now, &mut second));
    assert_eq!(b.since(&a), Some((98, 1)));
    assert_eq!(Cores::default().since(&a), None);
    let row = difference(&first, &second);
    assert_eq!((row.cpu_user_ticks, row.cpu_idle_ticks), (Some(98), Some(0)));
    assert_eq!((first.cpu_steal_ticks, first.cpu_guest_ticks), (Some(4), Some(5)));
    assert_eq!((row.cpu_running, row.cpu_blocked, row.cpu_ctxt), (Some(2), Some(1), Some(0)));
}

#[test]
fn chosen_devices_and_interfaces_are_summed() {
    let text = "   8       0 sda 10 1 80 5 20 2 160 9 3 11 14 0 0 0 0 7 6\n\
                   8       1 sda1 99 0 0 0 0 0 0 0 0 0 0\n\
                 259       0 nvme0n1 1 0 8 1 2 0 16 1 0 1 2\n";
    let mut row = Resources::default();
    diskstats(text, &["sda".into(), "nvme0n1".into()], &mut row);
    assert_eq!((row.disk_reads, row.disk_writes, row.disk_flushes), (Some(11), Some(22), Some(7)));
    assert_eq!((row.disk_in_flight, row.disk_weighted_io_ms), (Some(3), Some(16)));
    let text = "Inter-|   Receive\n face |bytes\n    lo: 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5 5\n\
                  eth0:100 2 1 3 4 0 0 0 200 5 6 7 8 9 0 0\n";
    netdev(text, &["eth0".into()], &mut row);
    assert_eq!((row.net_rx_bytes, row.net_tx_packets), (Some(100), Some(5)));
    assert_eq!((row.net_errors, row.net_drops, row.net_collisions), (Some(7), Some(10), Some(9)));
}

#[test]
fn memory_and_paging() {
    let mut row = Resources::default();
    let text = "MemTotal: 9 kB\nMemAvailable:   7 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n\
                Dirty: 3 kB\nWriteback: 2 kB\nAnonPages: 1 kB\n";
    meminfo(text, &mut row);
    assert_eq!((row.mem_available_kb, row.swap_used_kb), (Some(7), Some(6)));
    assert_eq!((row.mem_dirty_kb, row.mem_writeback_kb), (Some(3), Some(2)));
    let text = "nr_free_pages 1\npgfault 20\npgmajfault 3\nallocstall_dma 1\nallocstall_normal 4\n\
                pgfault_other 9\noom_kill 0\nworkingset_refault_file 8\n";
    vmstat(text, &mut row);
    assert_eq!((row.pgfault, row.allocstall, row.oom_kill), (Some(20), Some(5), Some(0)));
    assert_eq!((row.workingset_refault_file, row.pswpin), (Some(8), None));
}

#[test]
fn pressure_and_transport() {
    let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=123\n\
                full avg10=0.00 avg60=0.00 avg300=0.00 total=45\n";
    assert_eq!(pressure(text), (Some(123), Some(45)));
    assert_eq!(pressure(""), (None, None));
    let mut row = Resources::default();
    snmp("Ip: A B\nIp: 1 2\nTcp: X RetransSegs\nTcp: -1 9\nUdp: RcvbufErrors\nUdp: 4\n", &mut row);
    netstat("TcpExt: ListenDrops TCPTimeouts\nTcpExt: 6 7\nIpExt: InOctets\nIpExt: 1\n", &mut row);
    softnet("0000000a 00000001 0000000f 00000000\n0000000a 00000002 00000001 0\n", &mut row);
    assert_eq!((row.tcp_retransmitted_segments, row.udp_rcvbuf_errors), (Some(9), Some(4)));
    assert_eq!((row.tcp_listen_drops, row.tcp_rto_timeouts), (Some(6), Some(7)));
    assert_eq!(
        (row.tcp_prunes, row.softnet_dropped, row.softnet_squeezed),
        (None, Some(3), Some(16))
    );
}

#[test]
fn cgroups() {
    let mut row = Resources::default();
    cpu_stat("usage_usec 5\nnr_periods 3\nnr_throttled 2\nthrottled_usec 900\n", &mut row);
    memory_events("low 0\nhigh 4\nmax 5\noom 6\noom_kill 7\n", &mut row);
    cgroup_io("8:0 rbytes=10 wbytes=20 rios=1 wios=2 dbytes=0\n8:16 rbytes=5 wbytes=5\n", &mut row);
    assert_eq!((row.cg_throttled, row.cg_throttled_us), (Some(2), Some(900)));
    assert_eq!((row.cg_memory_high, row.cg_memory_oom), (Some(4), Some(6)));
    assert_eq!((row.cg_io_read_bytes, row.cg_io_writes), (Some(15), Some(2)));
    assert_eq!((single("77\n"), single("max\n")), (Some(77), None));
}

#[test]
fn threads_are_summed_and_a_name_may_look_like_fields() {
    let mut work = Work::default();
    for text in ["100 20 3\n", "50 5 2\n"] {
        work.threads.schedstat(text);
    }
    let status = "Name:\tx\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
    work.threads.status(status);
    work.threads.status(status);
    let fields: Vec<String> = (3..=52).map(|number: i32| number.to_string()).collect();
    work.stat(&format!("7 (a) b (c) {}\n", fields.join(" ")));
    work.io("rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\ncancelled_write_bytes: 0\n");
    let mut row = Resources::default();
    work.of_store(&mut row);
    work.of_agent(&mut row);
    assert_eq!((row.store_oncpu_ns, row.agent_runq_wait_ns), (Some(150), Some(25)));
    assert_eq!((row.store_minor_faults, row.store_block_io_delay_ticks), (Some(10), Some(42)));
    assert_eq!((row.agent_voluntary_switches, row.agent_involuntary_switches), (Some(24), Some(6)));
    assert_eq!((row.agent_major_faults, row.store_written_bytes), (Some(12), Some(8192)));
}

#[test]
fn a_row_is_what_moved_in_its_time() {
    let before = Resources {
        t_ns: 10,
        mono_ns: 0,
        pgfault: Some(5),
        cpu_ctxt: Some(9),
        ..Resources::default()
    };
    let now = Resources {
        t_ns: 1_003_000_010,
        mono_ns: 1_000_000_000,
        pgfault: Some(9),
        cpu_ctxt: Some(4),
        oom_kill: Some(1),
        mem_dirty_kb: Some(7),
        ..Resources::default()
    };
    let row = difference(&before, &now);
    assert_eq!((row.dt_us, row.clock_jump_us), (1_000_000, Some(3_000)));
    assert_eq!((row.pgfault, row.mem_dirty_kb), (Some(4), Some(7)));
    // A decreasing counter was reset; a new one has no difference.
    assert_eq!((row.cpu_ctxt, row.oom_kill), (Some(0), None));
}

#[test]
fn a_stall_is_counted_once_with_its_whole_length() {
    let mut lateness = Lateness::default();
    assert_eq!(lateness.woke(60_000, 1_000_000), 1);
    assert_eq!(lateness.woke(7_500_000, 1_000_000), 8);
    assert_eq!(lateness, Lateness { sum_ns: 7_560_000, max_ns: 7_500_000, above_1ms: 1 });
}
