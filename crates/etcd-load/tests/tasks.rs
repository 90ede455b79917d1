//! Sessions that carry out tasks, against a real etcd with one member.

use bench::coordination::args::ETCD_MUTEX;
use bench::coordination::generator::{Arrivals, Load};
use bench::coordination::services::tasks::{Done, OPERATIONS, Task};
use bench::servers::etcd;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// The program, with its sessions at one member.
struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
}

impl Program {
    fn start(machine: &str, sessions: usize) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_claret-etcd-load"))
            .args(["tasks", "--machines", &vec![machine; sessions].join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut program = Self { stdin: child.stdin.take(), stdout, child };
        assert_eq!(program.line(), format!("{sessions} sessions have begun\n"));
        program
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn carry_out(&mut self, task: &Task) -> Done {
        writeln!(self.stdin.as_mut().unwrap(), "{}", serde_json::to_string(task).unwrap()).unwrap();
        serde_json::from_str(&self.line()).unwrap()
    }

    /// Closes its input; returns whether it succeeded, and its error output.
    fn end(mut self) -> (bool, String) {
        drop(self.stdin.take());
        let done = self.child.wait_with_output().unwrap();
        (done.status.success(), String::from_utf8_lossy(&done.stderr).into_owned())
    }
}

#[test]
fn every_kind_of_lock_excludes_others_and_is_granted_to_all() {
    let dir = tempfile::tempdir().unwrap();
    let server = etcd::start(1, dir.path()).unwrap();
    let mut program = Program::start(&server.address().to_string(), 3);
    let recipes =
        ["sync-queue", "sync-queue-relist", "async-queue", "sync-tas", "async-tas", "tas-watch"];
    for way in recipes.into_iter().chain([ETCD_MUTEX]) {
        let load = Load {
            requests: 12,
            clients: 3,
            arrivals: Arrivals::Poisson,
            interarrival_ns: 1e6,
            closed_think_ns: None,
            service_ns: 1e6,
            limit_ns: 60_000_000_000,
            seed: 1,
        };
        let (way, node) = (way.to_owned(), format!("/{way}"));
        let task = Task::Lock { way, node, poll_ns: 5_000_000, ephemeral: true, load };
        let outcome = program.carry_out(&task).outcome().unwrap();
        assert_eq!((&outcome.wrong, outcome.unfinished()), (&None, 0), "{task:?}");
        // Each client has created and deleted a key of its own, at least.
        assert!(outcome.counts.writes >= 24 && outcome.counts.bytes > 0, "{outcome:?}");
        // Each of these has an answer. Tries that are in progress at the end are not waited for.
        assert!(outcome.counts.heard >= 24, "{outcome:?}");
    }
    assert_eq!(program.end(), (true, String::new()));
}

#[test]
fn a_try_that_its_own_release_overtakes_takes_no_lock() {
    let dir = tempfile::tempdir().unwrap();
    let server = etcd::start(1, dir.path()).unwrap();
    let mut program = Program::start(&server.address().to_string(), 3);
    // Each request has many tries in progress when one of them succeeds, and leaves at once.
    let load = Load {
        requests: 60,
        clients: 3,
        arrivals: Arrivals::Poisson,
        interarrival_ns: 1e6,
        closed_think_ns: Some(0.0),
        service_ns: 0.0,
        limit_ns: 60_000_000_000,
        seed: 1,
    };
    let (way, node) = ("async-tas".to_owned(), "/tries".to_owned());
    let task = Task::Lock { way, node, poll_ns: 1_000_000, ephemeral: true, load };
    let outcome = program.carry_out(&task).outcome().unwrap();
    assert_eq!((&outcome.wrong, outcome.unfinished()), (&None, 0));
    assert_eq!(program.end(), (true, String::new()));
}

#[test]
fn every_operation_of_the_smoke_test_is_done_as_often_as_requested() {
    let dir = tempfile::tempdir().unwrap();
    let server = etcd::start(1, dir.path()).unwrap();
    let mut program = Program::start(&server.address().to_string(), 1);
    let base = "/smoke".to_owned();
    program.carry_out(&Task::Make { node: base.clone() });
    // More at a time than fit one window of HTTP/2.
    for (count, outstanding) in [(5, 1), (3_000, usize::MAX)] {
        for operation in 0..OPERATIONS.len() - 1 {
            let task =
                Task::Operation { base: base.clone(), operation, count, outstanding, data: 25 };
            let timed = program.carry_out(&task).timed().unwrap();
            // Deletes of ephemeral nodes come with the notifications of their watchers.
            assert_eq!(timed.len(), if operation == OPERATIONS.len() - 2 { 2 } else { 1 });
            assert!(timed.iter().all(|(_, timed)| timed.latency_ns.len() == count), "{operation}");
        }
    }
    // Creating a node twice is refused, which ends the program with a reason.
    let again = serde_json::to_string(&Task::Make { node: base }).unwrap();
    writeln!(program.stdin.as_mut().unwrap(), "{again}").unwrap();
    let (succeeded, said) = program.end();
    assert!(!succeeded && said.contains("/smoke was not created: NodeExists"), "{said}");
}
