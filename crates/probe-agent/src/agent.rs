//! Life of an agent, or of a standalone sampler, from start to end.

use crate::callee::{self, Callee, Told};
use crate::caller;
use crate::files::{Files, WAITING_MAX, Written};
use crate::host::clock;
use crate::host::disk::Ring;
use crate::host::hosts;
use crate::host::hosts::Cost;
use crate::host::sampler;
use crate::host::sampler::Sampler;
use crate::link::Link;
use crate::payload::payload;
use probe::Status;
use probe::caller::{Config, Counts};
use probe::groups::Plan;
use probe::message::{Mismatch, Preamble};
use probe::peers::{Peers, hash};
use probe::schedule::epoch_of;
use probe_data::tables::meta::{self, Clock, Metadata, Origin, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

/// Version of a member list that never changes.
const MEMBERSHIP_VERSION: u64 = 1;

/// Options of an agent.
#[derive(Clone, Debug)]
pub struct Options {
    /// All nodes.
    pub peers: Peers,
    /// Number of this node among them.
    pub node: u16,
    /// Folder of its files.
    pub dir: PathBuf,
    /// Address to listen at, if it differs from the one that its peers use.
    pub listen: Option<SocketAddr>,
    /// Name of the deployment; agents of other deployments are refused.
    pub deployment: String,
    /// Sizes of groups.
    pub plan: Plan,
    /// Seed of groups and phases.
    pub seed: u64,
    /// Time between two ticks.
    pub period: Duration,
    /// Whether members use different workloads at the same time.
    pub stagger: bool,
    /// Whether callees of workload B sign the hash.
    pub signs: bool,
    /// Size of a payload in bytes.
    pub payload_bytes: u32,
    /// Duration; `None` until it is stopped.
    pub seconds: Option<u64>,
    /// Days before today whose single calls are kept; `None` for all.
    pub keep_days: Option<u16>,
    /// Options for sampling the host; `None` for no sampling.
    pub sample: Option<sampler::Options>,
}

/// Reason why an agent could not start, or continue.
#[derive(Debug)]
pub struct Failed(String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn failed(what: impl Into<String>) -> impl FnOnce(io::Error) -> Failed {
    let what = what.into();
    move |error| Failed(format!("{what}: {error}"))
}

/// Summary of an agent's run.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Name of the node.
    pub node: String,
    /// Duration of the run.
    pub ran_s: f64,
    /// Number of ticks.
    pub rounds: u64,
    /// Number of ticks that were too late to be sent.
    pub skipped_rounds: u64,
    /// Rows by status.
    pub rows: BTreeMap<&'static str, u64>,
    /// Calls that were in flight at the end and have no row.
    pub open_at_end: u64,
    /// Number of steps of the wall clock.
    pub clock_steps: u64,
    /// Number of answered calls of other nodes.
    pub answered: u64,
    /// Number of refused connections of other nodes.
    pub refused_connections: u64,
    /// Number of other nodes' records that could not be synced.
    pub disk_errors: u64,
    /// First error of the disk.
    pub disk_error: Option<String>,
    /// All computed digests, folded.
    pub digests: String,
    /// Rows that were dropped because files were too slow.
    pub rows_dropped: u64,
    /// Files.
    pub written: Written,
    /// Processor usage of all this, in percent of a core.
    pub cpu_percent: f64,
    /// Share of the sampler.
    pub sampler: SamplerCost,
}

/// Cost of a sampler.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct SamplerCost {
    /// Number of rows.
    pub rows: u64,
    /// Processor time per row.
    pub cpu_us_per_row: f64,
    /// Usage in percent of one core, at a row per second.
    pub cpu_percent: f64,
}

impl Cost {
    fn summary(&self) -> SamplerCost {
        let rows = self.rows.load(Ordering::Relaxed);
        let cpu_us = self.cpu_ns.load(Ordering::Relaxed) as f64 / 1e3;
        let cpu_us_per_row = if rows == 0 { 0.0 } else { cpu_us / rows as f64 };
        SamplerCost { rows, cpu_us_per_row, cpu_percent: cpu_us_per_row / 1e4 }
    }
}

/// An agent that is ready to run, with valid options.
pub struct Agent {
    options: Options,
    preamble: Preamble,
    addresses: Vec<SocketAddr>,
    setup: callee::Setup,
    sampler: Option<Sampler>,
    known: Vec<(u16, u64)>,
}

impl Agent {
    /// Resolves addresses, listens, and creates the files.
    ///
    /// # Errors
    /// A description of the step that failed.
    pub fn new(options: Options) -> Result<Self, Failed> {
        let Options { peers, node, dir, .. } = &options;
        let mut addresses = Vec::new();
        for peer in peers.all() {
            addresses.push(resolve(&peer.address).map_err(failed(format!(
                "the address {} of {} cannot be resolved",
                peer.address, peer.name
            )))?);
        }
        std::fs::create_dir_all(dir).map_err(failed(dir.display().to_string()))?;
        let own = addresses
            .get(usize::from(*node))
            .ok_or_else(|| Failed(format!("there is no node {node}")))?;
        let listen = options.listen.unwrap_or(*own);
        let listener =
            TcpListener::bind(listen).map_err(failed(format!("cannot listen at {listen}")))?;
        let path = dir.join(format!("ring-{node:05}"));
        let ring = Ring::open(&path).map_err(failed(path.display().to_string()))?;
        let incarnation = getrandom::u64().map_err(|error| Failed(error.to_string()))?;
        let preamble = Preamble {
            deployment: hash(&options.deployment),
            node: *node,
            incarnation,
            membership: MEMBERSHIP_VERSION,
            members: peers.hash(),
            payload_bytes: options.payload_bytes,
            period_ns: options.period.as_nanos() as u64,
            seed: options.seed,
        };
        let sampler = options.sample.clone().map(Sampler::new).transpose();
        let sampler = sampler.map_err(|error| Failed(error.to_string()))?;
        let known = known(dir, *node)?;
        let setup = callee::Setup {
            listener,
            preamble,
            payload: payload(options.payload_bytes, incarnation),
            ring,
            connections_max: 2 * peers.all().len() + 16,
        };
        Ok(Self { preamble, addresses, setup, sampler, known, options })
    }

    /// Address at which it listens.
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.setup.listener.local_addr().ok()
    }

    /// Runs until `stop` is set or its time is over. `notice` receives messages for the operator.
    ///
    /// # Errors
    /// A thread cannot be created, or the operating system refuses to wait for connections.
    pub fn run(
        self,
        stop: &Arc<AtomicBool>,
        notice: &Arc<dyn Fn(&str) + Send + Sync>,
    ) -> Result<Summary, Failed> {
        let Self { options, preamble, addresses, setup, sampler, known } = self;
        let began_ns = clock::mono_ns();
        let cpu_before_ns = clock::process_cpu_ns();
        let no_thread = || failed("cannot start a thread");
        let told = Arc::new(Told::default());
        let payload = Arc::clone(&setup.payload);
        let (to_files, messages) = sync_channel(WAITING_MAX);
        let callee = Callee::start(setup, Arc::clone(&told), to_files.clone());
        let callee = callee.map_err(no_thread())?;
        let chosen = sampler.as_ref().map(|one| (one.chosen().0.to_vec(), one.chosen().1.to_vec()));
        let to = Arc::clone(notice);
        let metadata = metadata(&options, chosen.unwrap_or_default());
        let told_of_files = Box::new(move |text: &str| to(text));
        let files = Files::new(options.dir.clone(), metadata, options.keep_days, told_of_files);
        let writer = Builder::new().name("files".into()).spawn(move || files.run(&messages));
        let writer = writer.map_err(no_thread())?;
        let cost = Arc::new(Cost::default());
        let stop_sampler = Arc::new(AtomicBool::new(false));
        let sampling = sampler.map(|sampler| {
            hosts::start(sampler, to_files.clone(), Arc::clone(&stop_sampler), Arc::clone(&cost))
        });
        let sampling = sampling.transpose().map_err(no_thread())?;
        let dropped = Arc::new(AtomicU64::new(0));
        let calling = caller::Setup {
            config: config(&options),
            links: addresses.iter().zip(0..).map(|(to, node)| Link::new(node, *to)).collect(),
            preamble,
            payload,
            known,
            files: to_files,
            dropped: Arc::clone(&dropped),
            stop: Arc::clone(stop),
            for_ns: options.seconds.map(|seconds| seconds as i64 * 1_000_000_000),
        };
        let mut mismatches = BTreeMap::new();
        let counts = caller::run(calling, &mut |node, mismatch| {
            once(&mut mismatches, &options.peers, node, mismatch, notice);
        });
        stop_sampler.store(true, Ordering::Relaxed);
        if let Some(sampling) = sampling {
            sampling.thread().unpark();
            // A sampler that panicked has left a gap in its rows already.
            let _ = sampling.join();
        }
        drop(callee);
        let written = writer
            .join()
            .map_err(|_| Failed("the thread that writes files has panicked".into()))?;
        let counts = counts.map_err(failed("cannot wait for connections"))?;
        let ran_ns = (clock::mono_ns() - began_ns) as f64;
        let cpu_ns = (clock::process_cpu_ns() - cpu_before_ns) as f64;
        let dropped = [&*dropped, &cost.dropped, &told.slow_dropped];
        let dropped = dropped.map(|number| number.load(Ordering::Relaxed)).iter().sum();
        let mut summary = summary(&options, &counts, &told, written);
        (summary.ran_s, summary.cpu_percent) = (ran_ns / 1e9, 100.0 * cpu_ns / ran_ns);
        (summary.rows_dropped, summary.sampler) = (dropped, cost.summary());
        Ok(summary)
    }
}

fn summary(options: &Options, counts: &Counts, told: &Told, written: Written) -> Summary {
    let rows = Status::ALL.map(|status| (status.name(), counts.rows[usize::from(status.code())]));
    let of = |number: &AtomicU64| number.load(Ordering::Relaxed);
    let name = options.peers.all().get(usize::from(options.node));
    Summary {
        node: name.map(|peer| peer.name.clone()).unwrap_or_default(),
        ran_s: 0.0,
        rounds: counts.rounds,
        skipped_rounds: counts.skipped_rounds,
        rows: rows.into_iter().filter(|(_, count)| *count > 0).collect(),
        open_at_end: counts.open_at_end,
        clock_steps: counts.clock_steps,
        answered: of(&told.answered),
        refused_connections: of(&told.refused),
        disk_errors: of(&told.disk_errors),
        disk_error: told.disk_error.lock().ok().and_then(|first| first.clone()),
        digests: format!("{:016x}", of(&told.digests)),
        rows_dropped: 0,
        written,
        cpu_percent: 0.0,
        sampler: SamplerCost::default(),
    }
}

/// Reports a node's mismatch once.
fn once(
    said: &mut BTreeMap<u16, Mismatch>,
    peers: &Peers,
    node: u16,
    mismatch: Mismatch,
    notice: &Arc<dyn Fn(&str) + Send + Sync>,
) {
    if said.insert(node, mismatch) != Some(mismatch)
        && let Some(peer) = peers.all().get(usize::from(node))
    {
        notice(&format!("{} at {}: {}", peer.name, peer.address, mismatch.says()));
    }
}

fn resolve(address: &str) -> io::Result<SocketAddr> {
    let first = address.to_socket_addrs()?.next();
    first.ok_or_else(|| io::Error::other("the name has no address"))
}

fn config(options: &Options) -> Config {
    Config {
        node: options.node,
        members: options.peers.numbers(),
        plan: options.plan.clone(),
        seed: options.seed,
        membership_version: MEMBERSHIP_VERSION,
        period_ns: i64::try_from(options.period.as_nanos()).unwrap_or(i64::MAX),
        stagger: options.stagger,
        signs: options.signs,
        first_epoch: 0,
    }
}

fn metadata(options: &Options, (disks, interfaces): (Vec<String>, Vec<String>)) -> Metadata {
    Metadata {
        version: meta::VERSION,
        table: Table::Rpc,
        origin: Origin::Measured,
        deployment: options.deployment.clone(),
        // Epochs are days since 1970, so that agents need no agreement on a first one.
        first_epoch: 0,
        epoch: u16::try_from(epoch_of(clock::wall_ns())).unwrap_or(u16::MAX),
        node: options.node,
        nodes: options.peers.all().iter().map(|peer| peer.name.clone()).collect(),
        groups: Vec::new(),
        resting: Vec::new(),
        config: meta::Config {
            period_ms: options.period.as_millis() as u64,
            plan: options.plan.sizes().to_vec(),
            seed: options.seed,
            membership_version: MEMBERSHIP_VERSION,
            stagger: options.stagger,
            apart: false,
            signs: options.signs,
            payload_bytes: options.payload_bytes,
            disks,
            interfaces,
        },
        clock: Clock::default(),
        incarnations: Vec::new(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        planted: None,
    }
}

/// Incarnations that this epoch's files of an earlier run name: rows keep pointing to them.
fn known(dir: &Path, node: u16) -> Result<Vec<(u16, u64)>, Failed> {
    let day = epoch_of(clock::wall_ns());
    let stem = format!("{}-{day:05}-{node:05}", Table::Rpc.name());
    if !dir.join(probe_data::tables::recorder::PIECES).is_dir() {
        return Ok(Vec::new());
    }
    let told = |error: probe_data::Error| Failed(error.to_string());
    let pieces = probe_data::tables::recorder::pieces_of(dir, &stem).map_err(told)?;
    let Some(last) = pieces.last() else { return Ok(Vec::new()) };
    let opened = probe_data::tables::columns::open(last).map_err(told)?;
    let incarnations = opened.metadata.incarnations.iter();
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Ok(incarnations.filter_map(|one| Some((one.node, number(&one.number)?))).collect())
}

/// Samples one host without an agent.
pub struct Sampling {
    /// Options for sampling.
    pub options: sampler::Options,
    /// Folder of its files.
    pub dir: PathBuf,
    /// Names of all nodes.
    pub nodes: Vec<String>,
    /// Number of this host among them.
    pub node: u16,
    /// Name of the deployment.
    pub deployment: String,
    /// Duration; `None` until it is stopped.
    pub seconds: Option<u64>,
}

/// Summary of a sampler's run.
#[derive(Clone, Debug, Serialize)]
pub struct SamplingSummary {
    /// Cost of the sampler.
    pub sampler: SamplerCost,
    /// Processor usage including the canary, in percent of a core.
    pub cpu_percent: f64,
    /// Files.
    pub written: Written,
}

/// Samples until `stop` is set or the time is over.
///
/// # Errors
/// The system is not Linux, or a named device does not exist.
pub fn sample(
    sampling: Sampling,
    stop: &Arc<AtomicBool>,
    notice: &Arc<dyn Fn(&str) + Send + Sync>,
) -> Result<SamplingSummary, Failed> {
    let Sampling { options, dir, nodes, node, deployment, seconds } = sampling;
    std::fs::create_dir_all(&dir).map_err(failed(dir.display().to_string()))?;
    let sampler = Sampler::new(options).map_err(|error| Failed(error.to_string()))?;
    let (disks, interfaces) = sampler.chosen();
    let (disks, interfaces) = (disks.to_vec(), interfaces.to_vec());
    let metadata = Metadata {
        version: meta::VERSION,
        table: Table::Res,
        origin: Origin::Measured,
        deployment,
        first_epoch: 0,
        epoch: u16::try_from(epoch_of(clock::wall_ns())).unwrap_or(u16::MAX),
        node,
        nodes,
        groups: Vec::new(),
        resting: Vec::new(),
        config: meta::Config { disks, interfaces, ..meta::Config::default() },
        clock: Clock::default(),
        incarnations: Vec::new(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        planted: None,
    };
    let (began_ns, cpu_before_ns) = (clock::mono_ns(), clock::process_cpu_ns());
    let (to_files, messages) = sync_channel(WAITING_MAX);
    let to = Arc::clone(notice);
    let files = Files::new(dir, metadata, None, Box::new(move |text| to(text)));
    let writer = Builder::new().name("files".into()).spawn(move || files.run(&messages));
    let writer = writer.map_err(failed("cannot start a thread"))?;
    let (cost, stop_sampler) = (Arc::new(Cost::default()), Arc::new(AtomicBool::new(false)));
    let thread = hosts::start(sampler, to_files, Arc::clone(&stop_sampler), Arc::clone(&cost));
    let thread = thread.map_err(failed("cannot start a thread"))?;
    let for_ns = seconds.map(|seconds| seconds as i64 * 1_000_000_000 + 50_000_000);
    let over = || for_ns.is_some_and(|for_ns| clock::mono_ns() - began_ns >= for_ns);
    while !stop.load(Ordering::Relaxed) && !over() {
        std::thread::sleep(Duration::from_millis(100));
    }
    stop_sampler.store(true, Ordering::Relaxed);
    thread.thread().unpark();
    let _ = thread.join();
    let written =
        writer.join().map_err(|_| Failed("the thread that writes files has panicked".into()))?;
    let ran_ns = (clock::mono_ns() - began_ns) as f64;
    let cpu_percent = 100.0 * (clock::process_cpu_ns() - cpu_before_ns) as f64 / ran_ns;
    Ok(SamplingSummary { sampler: cost.summary(), cpu_percent, written })
}
