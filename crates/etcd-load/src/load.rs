//! Connections as tasks, each in a closed loop, and the clock that decides which requests count.

use crate::rpc::Connection;
use bench::load::random::Rng;
use bench::load::recorder::Recorder;
use bench::load::sample::{Costs, Load, Sample};
use bench::ops::{KEYS, VALUE, WARMUP_NS, key};
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// State that all connections share; they are tasks of one thread.
struct Shared {
    start: Instant,
    rng: RefCell<Rng>,
    recorder: RefCell<Recorder>,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Reads or sets keys until it is stopped.
    async fn hammer(&self, mut connection: Connection, reads: bool) -> Result<(), String> {
        loop {
            let number = self.rng.borrow_mut().below(KEYS);
            let started_ns = self.now_ns();
            if reads {
                read(&mut connection, number).await?;
            } else {
                put(&mut connection, number).await?;
            }
            self.recorder.borrow_mut().commit(0, started_ns, self.now_ns());
        }
    }
}

async fn put(connection: &mut Connection, number: u64) -> Result<(), String> {
    let key = key("key", number).into_bytes();
    connection.put(key, VALUE.to_vec()).await.map_err(|status| format!("etcd answered: {status}"))
}

async fn read(connection: &mut Connection, number: u64) -> Result<(), String> {
    let key = key("key", number);
    let found = connection.get(key.clone().into_bytes()).await;
    match found.map_err(|status| format!("etcd answered: {status}"))? {
        Some(value) if value == VALUE => Ok(()),
        Some(_) => Err(format!("{key} has another value than the one that was put")),
        None => Err(format!("{key} is missing; FILL puts all keys")),
    }
}

/// Opens the connections, spread over the machines, and runs the requested commands.
///
/// # Errors
/// A machine cannot be reached, or an answer is wrong.
pub async fn run(
    load: &Load<'_>,
    machines: &[SocketAddr],
    processes: &[u32],
) -> Result<Sample, String> {
    let mut connections = Vec::new();
    for machine in machines.iter().cycle().take(load.clients as usize) {
        connections.push(Connection::open(*machine).await?);
    }
    if load.command == "FILL" {
        return fill(connections).await.map(|()| Sample::default());
    }
    let shared = Rc::new(Shared {
        start: Instant::now(),
        rng: RefCell::new(Rng::new(load.seed)),
        recorder: RefCell::new(Recorder::new(1, u64::MAX)),
    });
    let reads = load.command == "GET";
    let mut tasks = JoinSet::new();
    for connection in connections {
        let shared = Rc::clone(&shared);
        tasks.spawn_local(async move { shared.hammer(connection, reads).await });
    }
    work(&mut tasks, Duration::from_nanos(WARMUP_NS)).await?;
    let before = Costs::now(processes);
    let from_ns = shared.now_ns();
    shared.recorder.replace(Recorder::new(1, from_ns));
    work(&mut tasks, Duration::from_secs_f64(load.seconds)).await?;
    let elapsed_ns = shared.now_ns() - from_ns;
    let costs = (before, Costs::now(processes));
    let sample = Sample::new(&shared.recorder.borrow(), 1, elapsed_ns, costs);
    Ok(sample)
}

/// Lets the connections work for this long. They end only on an error.
async fn work(tasks: &mut JoinSet<Result<(), String>>, span: Duration) -> Result<(), String> {
    tokio::select! {
        () = tokio::time::sleep(span) => Ok(()),
        Some(ended) = tasks.join_next() => ended.map_err(|error| error.to_string())?,
    }
}

/// Puts every key once; each connection puts its share.
async fn fill(connections: Vec<Connection>) -> Result<(), String> {
    let count = connections.len();
    let mut tasks = JoinSet::new();
    for (index, mut connection) in connections.into_iter().enumerate() {
        tasks.spawn_local(async move {
            for number in (index as u64..KEYS).step_by(count) {
                put(&mut connection, number).await?;
            }
            Ok::<(), String>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|error| error.to_string())??;
    }
    Ok(())
}
