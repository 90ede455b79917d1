//! The load generator against a real etcd with one member.

use bench::load::sample::Load;
use bench::servers::etcd;
use std::path::Path;

#[test]
fn puts_and_reads_are_answered_and_counted() {
    let program = Path::new(env!("CARGO_BIN_EXE_claret-etcd-load"));
    let dir = tempfile::tempdir().unwrap();
    let server = etcd::start(1, dir.path()).unwrap();
    let run = |command, clients| {
        let load = Load { command, pipeline: 1, clients, seconds: 0.2, seed: 7 };
        etcd::run(program, &server, &server.addresses(), &load)
    };
    let early = run("GET", 1).expect_err("nothing has been put");
    assert!(early.to_string().contains("is missing"), "{early}");

    etcd::write_keys(program, &server).unwrap();
    for (command, clients) in [("GET", 1), ("GET", 8), ("SET", 8)] {
        let sample = run(command, clients).unwrap();
        assert!(sample.ops > 0, "{command}: {sample:?}");
        let counted: u64 = sample.latency_ns.iter().map(|(_, count)| count).sum();
        assert_eq!(counted, sample.ops);
        assert!(sample.elapsed_s >= 0.2 && sample.latency_us(0.5) <= sample.latency_us(0.99));
    }
}

#[test]
fn bids_are_all_in_the_auctions_at_the_end() {
    let program = Path::new(env!("CARGO_BIN_EXE_claret-etcd-load"));
    let dir = tempfile::tempdir().unwrap();
    let server = etcd::start(1, dir.path()).unwrap();
    let run = |clients, records| {
        let load = Load { command: "BID", pipeline: 1, clients, seconds: 0.3, seed: 7 };
        etcd::auction(program, &server, records, 1.2, &load).unwrap()
    };
    let alone = run(1, 1);
    assert!(alone.sample.ops > 0 && alone.aborts == 0, "{alone:?}");
    // Each reads what the others write.
    let crowd = run(8, 1);
    assert!(crowd.sample.ops > 0 && crowd.aborts > 0, "{crowd:?}");
    let spread = run(8, 100);
    assert!(spread.sample.ops > 0 && spread.refused == 0, "{spread:?}");
}

#[test]
fn a_member_that_is_not_there_is_an_error_with_its_address() {
    let program = Path::new(env!("CARGO_BIN_EXE_claret-etcd-load"));
    // No server listens on port 1.
    let words = ["ops", "--command", "GET", "--machines", "127.0.0.1:1"];
    let done = std::process::Command::new(program).args(words).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("127.0.0.1:1: "), "{said}");
    assert!(done.stdout.is_empty());
}
