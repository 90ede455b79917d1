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
pub struct Shared {
    start: Instant,
    /// Source of the random choices.
    pub rng: RefCell<Rng>,
    /// Events of the measured window.
    pub recorder: RefCell<Recorder>,
    /// Number of kinds of transactions.
    kinds: usize,
}

impl Shared {
    /// Creates the state; nothing counts yet.
    pub fn new(seed: u64, kinds: usize) -> Self {
        let recorder = RefCell::new(Recorder::new(kinds, u64::MAX));
        Self { start: Instant::now(), rng: RefCell::new(Rng::new(seed)), recorder, kinds }
    }

    /// Nanoseconds since the start.
    pub fn now_ns(&self) -> u64 {
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

/// Text of an error.
pub fn told(status: tonic::Status) -> String {
    format!("etcd answered: {status}")
}

async fn put(connection: &mut Connection, number: u64) -> Result<(), String> {
    let key = key("key", number).into_bytes();
    connection.put(key, VALUE.to_vec()).await.map_err(told)
}

async fn read(connection: &mut Connection, number: u64) -> Result<(), String> {
    let key = key("key", number);
    match connection.get(key.clone().into_bytes()).await.map_err(told)? {
        Some(pair) if pair.value == VALUE => Ok(()),
        Some(_) => Err(format!("{key} has another value than the one that was put")),
        None => Err(format!("{key} is missing; FILL puts all keys")),
    }
}

/// Opens the connections, spread over the machines.
///
/// # Errors
/// A machine cannot be reached.
pub async fn connect(load: &Load<'_>, machines: &[SocketAddr]) -> Result<Vec<Connection>, String> {
    let mut connections = Vec::new();
    for machine in machines.iter().cycle().take(load.clients as usize) {
        connections.push(Connection::open(*machine).await?);
    }
    Ok(connections)
}

/// Opens the connections and runs the requested commands.
///
/// # Errors
/// A machine cannot be reached, or an answer is wrong.
pub async fn run(
    load: &Load<'_>,
    machines: &[SocketAddr],
    processes: &[u32],
) -> Result<Sample, String> {
    let connections = connect(load, machines).await?;
    if load.command == "FILL" {
        return fill(connections).await.map(|()| Sample::default());
    }
    let shared = Rc::new(Shared::new(load.seed, 1));
    let reads = load.command == "GET";
    let mut tasks = JoinSet::new();
    for connection in connections {
        let shared = Rc::clone(&shared);
        tasks.spawn_local(async move { shared.hammer(connection, reads).await });
    }
    let (recorder, elapsed_ns, costs) =
        measure(&shared, &mut tasks, WARMUP_NS, load.seconds, processes).await?;
    Ok(Sample::new(&recorder, 1, elapsed_ns, costs))
}

/// Lets the connections work for the warm-up, then for the measured time; returns the events of that
/// time, how long it was in nanoseconds, and the costs before and after.
///
/// # Errors
/// One of the connections has failed.
pub async fn measure(
    shared: &Shared,
    tasks: &mut JoinSet<Result<(), String>>,
    warmup_ns: u64,
    seconds: f64,
    processes: &[u32],
) -> Result<(Recorder, u64, (Costs, Costs)), String> {
    work(tasks, Duration::from_nanos(warmup_ns)).await?;
    let before = Costs::now(processes);
    let from_ns = shared.now_ns();
    shared.recorder.replace(Recorder::new(shared.kinds, from_ns));
    work(tasks, Duration::from_secs_f64(seconds)).await?;
    let recorder = shared.recorder.replace(Recorder::new(shared.kinds, u64::MAX));
    Ok((recorder, shared.now_ns() - from_ns, (before, Costs::now(processes))))
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
