//! Servers as child processes, and the resource usage of processes.

use super::control::Control;
use crate::stop;
use clap::ValueEnum;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Time limit for a server to become ready.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Options of a Claret server.
#[derive(Clone, Debug)]
pub struct ClaretOptions {
    /// The binary.
    pub program: PathBuf,
    /// Concurrency control, by name.
    pub cc: String,
    /// Number of shards.
    pub shards: u16,
    /// Number of worker threads of each machine.
    pub workers: u16,
    /// `always`, `everysec` or `none`.
    pub durability: String,
    /// Machines that each hold a replica of every shard; 1 for a standalone server.
    pub replicas: u16,
}

/// Server to measure beside Claret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Beside {
    /// No other server.
    None,
    /// The `redis-server` of this machine.
    Redis,
}

/// One process.
pub(crate) struct Machine {
    child: Child,
    address: SocketAddr,
    /// Address of its metrics page, if it has one.
    metrics: Option<SocketAddr>,
    /// Address for clients of ZooKeeper's protocol, if it has one.
    zookeeper: Option<SocketAddr>,
    /// Whether it is told to quit, since it has processes of its own to end.
    has_children: bool,
    /// Held open so that the server can write to it.
    _stdout: Option<BufReader<ChildStdout>>,
    _dir: TempDir,
}

/// A running server, stopped when the value is dropped, and its data directory, which is removed
/// then: one process, or several that are one cluster.
pub struct Server {
    machines: Vec<Machine>,
}

impl Server {
    /// Wraps a server that was started elsewhere.
    pub(crate) fn of(machines: Vec<Machine>) -> Self {
        Self { machines }
    }

    /// Adds a machine to the server.
    pub(crate) fn add(&mut self, machine: Machine) {
        self.machines.push(machine);
    }

    /// Starts Claret with its data in new directories under `parent`. In a cluster the leaders are
    /// spread evenly.
    ///
    /// # Errors
    /// It does not become ready; the error contains the end of its output.
    pub fn claret(options: &ClaretOptions, parent: &Path) -> io::Result<Self> {
        Self::claret_with(options, &[], parent)
    }

    /// Starts Claret as [`Server::claret`] does, with further flags on each machine.
    ///
    /// # Errors
    /// It does not become ready; the error contains the end of its output.
    pub fn claret_with(options: &ClaretOptions, flags: &[&str], parent: &Path) -> io::Result<Self> {
        if options.replicas == 1 {
            let machines = vec![Machine::claret(options, flags, parent)?];
            return Ok(Self { machines });
        }
        let mut ports = Vec::new();
        for _ in 0..options.replicas {
            ports.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        }
        let mut nodes = Vec::new();
        for (number, port) in (1..).zip(&ports) {
            nodes.push(format!("{number}={}", port.local_addr()?));
        }
        drop(ports);
        let (nodes, mut machines) = (nodes.join(","), Vec::new());
        for number in 1..=options.replicas {
            let number = number.to_string();
            let flags = [&["--node", &number, "--cluster", &nodes], flags].concat();
            machines.push(Machine::claret(options, &flags, parent)?);
        }
        let server = Self { machines };
        server.spread_leads(options)?;
        Ok(server)
    }

    /// Starts Claret on one machine as it is shipped: `claret serve` with these flags and no
    /// others, except for its ports and its data directory, which is a new one under `parent`.
    ///
    /// # Errors
    /// It does not become ready; the error contains the end of its output.
    pub fn shipped(program: &Path, flags: &[&str], parent: &Path) -> io::Result<Self> {
        Ok(Self { machines: vec![Machine::serve(program, flags, parent)?] })
    }

    /// Waits until every machine sees a leader of every shard.
    ///
    /// # Errors
    /// That takes too long.
    pub(crate) fn wait_for_leaders(&self) -> io::Result<()> {
        let start = Instant::now();
        for address in self.addresses() {
            let mut control = Control::connect(address)?;
            loop {
                let state = control.call(&["CLUSTER", "INFO"])?;
                if format!("{state:?}").contains("cluster_state:ok") {
                    break;
                }
                if start.elapsed() > PATIENCE {
                    return Err(io::Error::other("the cluster has elected no leaders"));
                }
                stop::sleep(Duration::from_millis(20))?;
            }
        }
        Ok(())
    }

    /// Waits until all shards have leaders, and balances the leaders over the machines.
    fn spread_leads(&self, options: &ClaretOptions) -> io::Result<()> {
        self.wait_for_leaders()?;
        let mut control = Control::connect(self.address())?;
        for shard in 0..options.shards {
            let (shard, machine) = (shard.to_string(), (shard % options.replicas + 1).to_string());
            control.call(&["FAILOVER", "SHARD", &shard, "TO", &machine])?;
        }
        Ok(())
    }

    /// Starts `redis-server` without snapshots; `durability` chooses its append-only file.
    ///
    /// # Errors
    /// It is not installed or does not become ready.
    pub fn redis(durability: &str, parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("redis-bench-").tempdir_in(parent)?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let fsync: &[&str] = match durability {
            "none" => &["--appendonly", "no"],
            policy => &["--appendonly", "yes", "--appendfsync", policy],
        };
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(["--auto-aof-rewrite-percentage", "0"])
            .args(fsync)
            .arg("--dir")
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(redis_missing)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let server = Self { machines: vec![Machine::new(child, address, dir)] };
        let start = Instant::now();
        loop {
            let ready = Control::connect(address).and_then(|mut c| c.call(&["PING"]));
            match ready {
                Ok(_) => return Ok(server),
                Err(error) if start.elapsed() > PATIENCE => return Err(error),
                Err(_) => stop::sleep(Duration::from_millis(20))?,
            }
        }
    }

    /// Starts `redis-server` if it is wanted. Without a wish it is left out where it is not
    /// installed, and the notes say so.
    ///
    /// # Errors
    /// See [`Server::redis`].
    pub fn redis_beside(
        wanted: Option<Beside>,
        durability: &str,
        parent: &Path,
        notes: &mut Vec<String>,
    ) -> io::Result<Option<Self>> {
        if wanted == Some(Beside::None) {
            return Ok(None);
        }
        match Self::redis(durability, parent) {
            Ok(server) => Ok(Some(server)),
            Err(error) if wanted.is_none() && error.kind() == io::ErrorKind::NotFound => {
                let note = format!("Redis is not compared: {error}");
                if !notes.contains(&note) {
                    notes.push(note);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Address of the server, or of its first machine.
    pub fn address(&self) -> SocketAddr {
        self.machines[0].address
    }

    /// Addresses of its machines.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.machines.iter().map(|machine| machine.address).collect()
    }

    /// Addresses of its machines for clients of ZooKeeper's protocol, as far as they have one.
    pub(crate) fn zookeeper_addresses(&self) -> Vec<SocketAddr> {
        self.machines.iter().filter_map(|machine| machine.zookeeper).collect()
    }

    /// Kills one of its machines, as a crash would.
    pub(crate) fn kill(&mut self, machine: usize) {
        self.machines[machine].end();
    }

    /// Process IDs of its machines.
    pub fn processes(&self) -> Vec<u32> {
        self.machines.iter().map(|machine| machine.child.id()).collect()
    }

    /// Metrics of its machines that have no labels or one, added up. The name of a metric with a
    /// label has the label's value after a colon.
    ///
    /// # Errors
    /// A machine's metrics cannot be read.
    pub fn metrics(&self) -> io::Result<BTreeMap<String, u64>> {
        let mut sums = BTreeMap::new();
        for address in self.machines.iter().filter_map(|machine| machine.metrics) {
            for (name, value) in page(address)?.lines().filter_map(metric) {
                *sums.entry(name).or_default() += value;
            }
        }
        Ok(sums)
    }

    /// Resident memory of its processes, in bytes.
    pub fn resident_bytes(&self) -> u64 {
        self.processes().iter().map(|process| resident_bytes(&process.to_string())).sum()
    }

    /// Processor time that its processes and those below them have used, in microseconds.
    pub fn cpu_us(&self) -> u64 {
        trees_cpu_us(&self.processes())
    }
}

impl Machine {
    /// Wraps a process whose data is in `dir`.
    pub(crate) fn new(child: Child, address: SocketAddr, dir: TempDir) -> Self {
        Self {
            child,
            address,
            metrics: None,
            zookeeper: None,
            has_children: false,
            _stdout: None,
            _dir: dir,
        }
    }

    /// Wraps a process that has processes of its own and ends them when it is told to quit.
    pub(crate) fn with_children(child: Child, address: SocketAddr, dir: TempDir) -> Self {
        let mut machine = Self::new(child, address, dir);
        machine.has_children = true;
        machine
    }

    /// Starts a Claret server with additional flags.
    ///
    /// # Errors
    /// It does not become ready; the error contains the end of its output.
    pub(crate) fn claret(
        options: &ClaretOptions,
        flags: &[&str],
        parent: &Path,
    ) -> io::Result<Self> {
        let (shards, workers) = (options.shards.to_string(), options.workers.to_string());
        let mut words = vec!["--cc", &options.cc, "--durability", &options.durability];
        words.extend(["--shards", &shards, "--workers", &workers]);
        words.extend(flags);
        Self::serve(&options.program, &words, parent)
    }

    /// Starts a Claret server with these flags besides those of its ports and its directory; what
    /// they do not say is as `claret serve` chooses it.
    ///
    /// # Errors
    /// It does not become ready; the error contains the end of its output.
    fn serve(program: &Path, flags: &[&str], parent: &Path) -> io::Result<Self> {
        let dir = tempfile::Builder::new().prefix("claret-bench-").tempdir_in(parent)?;
        let log = dir.path().join("stderr.log");
        let data = dir.path().join("data");
        let mut child = Command::new(program)
            .args(["serve", "--port", "0", "--metrics-port", "0"])
            .args(flags)
            .arg("--dir")
            .arg(&data)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let mut stdout = BufReader::new(stdout);
        let mut machine = Self::new(child, unknown(), dir);
        let mut line = String::new();
        while stdout.read_line(&mut line)? > 0 {
            if let Some(address) = ready_address(&line) {
                machine.address = address;
                machine.metrics = address_of("metrics", &line);
                machine.zookeeper = address_of("ZooKeeper's protocol", &line);
                machine._stdout = Some(stdout);
                return Ok(machine);
            }
            line.clear();
        }
        let said = fs::read_to_string(&log).unwrap_or_default();
        let mut last: Vec<&str> = said.lines().rev().take(5).collect();
        last.reverse();
        Err(io::Error::other(format!("the server did not start: {}", last.join("; "))))
    }
}

impl Machine {
    fn end(&mut self) {
        // Its data are thrown away: a clean shutdown is not needed.
        let told =
            self.has_children && kill_process(Pid::from_child(&self.child), Signal::QUIT).is_ok();
        if !told {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

/// Error of a start of `redis-server`, with advice if it is not installed.
fn redis_missing(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => " (it is in the Debian package redis-server)",
        _ => "",
    };
    io::Error::new(error.kind(), format!("redis-server: {error}{advice}"))
}

/// Reads the metrics page at an address.
fn page(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    if text.starts_with("HTTP/1.0 200 ") {
        return Ok(text);
    }
    let first = text.lines().next().unwrap_or_default();
    Err(io::Error::other(format!("the server's metrics cannot be read: {first}")))
}

/// Name and value in a line of a metrics page.
fn metric(line: &str) -> Option<(String, u64)> {
    let (name, value) = line.strip_prefix("claret_")?.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, label)) = name.split_once('{') else { return Some((name.to_owned(), value)) };
    let mut quoted = label.split('"');
    let (label, end) = (quoted.nth(1)?, quoted.next()?);
    (end == "}").then(|| (format!("{name}:{label}"), value))
}

fn unknown() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// Address of an additional protocol in the line that a server prints when it is ready.
fn address_of(what: &str, line: &str) -> Option<SocketAddr> {
    let (_, rest) = line.rsplit_once(&format!("{what} on "))?;
    rest.split([',', '\n']).next()?.trim().parse().ok()
}

/// Address in the line that a server prints when it is ready.
fn ready_address(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("claret is ready on ")?.split_whitespace().next()?.parse().ok()
}

/// Processor time that a process (`self` for this one) has used in all its threads, in
/// microseconds; 0 where `/proc` does not have it.
pub fn cpu_us(process: &str) -> u64 {
    stat(process).map_or(0, |stat| stat.own_us)
}

/// Readings of a tree of processes until two agree. One that starts or ends processes all the time is
/// charged by the last reading, which may lack a process or count it twice.
const READINGS: usize = 10;

/// Processor time of these processes and of all below them, in microseconds: a server may have a
/// process for each connection. Those that have ended are in the account of their parents.
pub fn trees_cpu_us(roots: &[u32]) -> u64 {
    let mut last = tree(roots);
    for _ in 0..READINGS {
        // A process that ends meanwhile moves its time to its parent, which may have been read before
        // (then the time is lost) or is read afterwards (then it counts twice).
        let before = std::mem::replace(&mut last, tree(roots));
        if before.iter().map(settled).eq(last.iter().map(settled)) {
            break;
        }
    }
    last.iter().map(|(_, stat)| stat.own_us + stat.ended_us).sum()
}

/// Number of a process, and the time of its children, which changes only when a process ends.
fn settled((number, stat): &(u32, Stat)) -> (u32, u64) {
    (*number, stat.ended_us)
}

/// Processes called `roots` and all below them, each after its parent.
fn tree(roots: &[u32]) -> Vec<(u32, Stat)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut below: BTreeMap<u32, Vec<(u32, Stat)>> = BTreeMap::new();
    for number in numbers {
        if let Some(stat) = stat(&number.to_string()) {
            // A root counts once, whatever its parent is.
            let parent = if roots.contains(&number) { 0 } else { stat.parent };
            below.entry(parent).or_default().push((number, stat));
        }
    }
    let mut tree = below.remove(&0).unwrap_or_default();
    tree.retain(|(number, _)| roots.contains(number));
    let mut next = 0;
    while let Some((number, _)) = tree.get(next) {
        tree.extend(below.remove(number).unwrap_or_default());
        next += 1;
    }
    tree
}

/// Line of a process in `/proc`.
struct Stat {
    parent: u32,
    own_us: u64,
    /// Of its child processes that have ended, and theirs.
    ended_us: u64,
}

fn stat(process: &str) -> Option<Stat> {
    let line = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses, field 2, may hold anything.
    let fields: Vec<&str> = line.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    // User and system time.
    let us = |field| Some((number(field)? + number(field + 1)?) * 1_000_000 / ticks);
    Some(Stat { parent: number(4)? as u32, own_us: us(14)?, ended_us: us(16)? })
}

/// Resident memory of a process, in bytes; 0 where `/proc` does not have it.
pub fn resident_bytes(process: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(0, |kib| kib * 1024)
}

/// Processor time that the whole machine has used, in microseconds.
pub fn machine_cpu_us() -> u64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields: Vec<u64> = stat
        .lines()
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    // user, nice, system, (idle, iowait,) irq, softirq
    let busy: u64 = [0, 1, 2, 5, 6].iter().filter_map(|i| fields.get(*i)).sum();
    busy * 1_000_000 / rustix::param::clock_ticks_per_second().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ready_line_tells_the_address() {
        let line = "claret is ready on 127.0.0.1:4321 (data in d, 4 shards)\n";
        assert_eq!(ready_address(line), Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 4321))));
        assert_eq!(ready_address("claret is thinking\n"), None);
        assert_eq!(address_of("metrics", line), None);
        let line = format!("{}, metrics on 127.0.0.1:99\n", line.trim_end());
        assert_eq!(address_of("metrics", &line), Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 99))));
    }

    #[test]
    fn metrics_with_one_label_or_none_are_read() {
        assert_eq!(metric("claret_log_syncs_total 17"), Some(("log_syncs_total".to_owned(), 17)));
        let line = "claret_peer_messages_total{kind=\"entries\"} 3";
        assert_eq!(metric(line), Some(("peer_messages_total:entries".to_owned(), 3)));
        assert_eq!(metric("claret_conflicts_total{asked=\"a\",held=\"b\"} 3"), None);
        assert_eq!(metric("# HELP claret_workers Worker threads"), None);
    }

    #[test]
    fn processor_time_grows_with_work() {
        let before = cpu_us("self");
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(300) {
            std::hint::black_box(start.elapsed());
        }
        assert!(cpu_us("self") > before);
        assert!(trees_cpu_us(&[std::process::id()]) > before);
        assert!(machine_cpu_us() >= cpu_us("self"));
        assert_eq!((cpu_us("no-process"), trees_cpu_us(&[])), (0, 0));
        assert!(resident_bytes("self") > 1 << 20);
        assert_eq!(resident_bytes("no-process"), 0);
    }

    #[test]
    fn a_server_is_charged_for_the_processes_below_it() {
        let busy = "i=0; while [ $i -lt 400000 ]; do i=$((i + 1)); done";
        let mut server = Command::new("sh")
            .args(["-c", &format!("sh -c '{busy}; exit 0'; echo done; read line")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let mut stdout = server.stdout.take().expect("its output");
        let ended = std::thread::spawn(move || stdout.read(&mut [0; 8]).is_ok());
        let (id, mut last_us, mut while_alive_us) = (server.id(), 0, 0);
        while !ended.is_finished() {
            let now_us = trees_cpu_us(&[id]);
            assert!(now_us >= last_us, "{last_us} and then {now_us}");
            (last_us, while_alive_us) = (now_us, last_us);
            std::thread::sleep(Duration::from_millis(5));
        }
        let after_us = trees_cpu_us(&[id, id]);
        assert!(while_alive_us > 0 && after_us >= last_us, "{while_alive_us} {last_us} {after_us}");
        assert!(cpu_us(&id.to_string()) < after_us / 2);
        drop(server.stdin.take());
        server.wait().expect("its end");
    }
}
