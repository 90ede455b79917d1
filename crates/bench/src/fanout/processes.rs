//! Real servers on this machine, with the topology's delays between them.

use super::Cell;
use super::callers::Callers;
use super::figures::Figures;
use super::topology::Topology;
use crate::load::driver::Driver;
use crate::load::sample::{Costs, Sample};
use crate::load::workload::Workload;
use crate::report::{fields, rounded};
use crate::servers::control::Control;
use crate::servers::links::{Delays, Links};
use crate::servers::process::{ClaretOptions, Machine, Server};
use sim::lab::ParcelKind;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

/// A running cluster, stopped when the value is dropped.
pub struct Cluster {
    server: Server,
    /// Addresses that clients connect to.
    entrances: Vec<SocketAddr>,
    _links: Links,
}

/// Counters of all machines, added up.
struct Counted {
    metrics: BTreeMap<String, u64>,
    costs: Costs,
}

fn local_listener() -> io::Result<TcpListener> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
}

impl Cluster {
    /// Starts a cluster of a topology, with the replicas and leader of every shard as the topology
    /// says.
    ///
    /// # Errors
    /// A server does not start, or the cluster does not reach the requested state.
    pub fn start(
        options: &ClaretOptions,
        order: &str,
        topology: &Topology,
        parent: &Path,
    ) -> io::Result<Self> {
        let (mut listeners, mut reached, mut bound) = (Vec::new(), Vec::new(), Vec::new());
        let machines = topology.delays_us().len();
        // Bound all at once, so that no two are the same.
        let inner: io::Result<Vec<TcpListener>> = (0..machines).map(|_| local_listener()).collect();
        let inner = inner?;
        for inner in &inner {
            let outer = local_listener()?;
            reached.push(outer.local_addr()?);
            bound.push(inner.local_addr()?);
            listeners.push((outer, inner.local_addr()?));
        }
        drop(inner);
        let links = Links::start(listeners, Delays::Machines(topology.delays_us().to_vec()))?;
        let start = |number: usize, others: &[usize], join: bool| {
            let nodes = others.iter().map(|other| format!("{other}={}", reached[other - 1]));
            let (number_text, nodes) = (number.to_string(), nodes.collect::<Vec<_>>().join(","));
            let bind = bound[number - 1].to_string();
            let mut flags = vec!["--node", &number_text, "--cluster", &nodes];
            flags.extend(["--peer-bind", &bind, "--order", order]);
            flags.extend(join.then_some("--join"));
            Machine::claret(options, &flags, parent)
        };
        let founders: Vec<usize> = (1..=usize::from(topology.founders())).collect();
        let founded: io::Result<Vec<Machine>> =
            founders.iter().map(|number| start(*number, &founders, false)).collect();
        let mut server = Server::of(founded?);
        server.wait_for_leaders()?;
        let url = format!("redis://{}", server.address());
        let cluster = |words: &[&str]| told(&options.program, &url, words);
        for number in founders.len() + 1..=machines {
            cluster(&["add", &format!("{number}={}", reached[number - 1])])?;
            server.add(start(number, &[1, number], true)?);
        }
        let mut control = Control::connect(server.address())?;
        for (shard, holders) in topology.holders(options.shards).iter().enumerate() {
            let (shard, leader) = (shard.to_string(), holders[0].to_string());
            control.call(&["FAILOVER", "SHARD", &shard, "TO", &leader])?;
            if holders.len() < founders.len() {
                let holders: Vec<String> = holders.iter().map(u16::to_string).collect();
                cluster(&["move", &shard, &holders.join(",")])?;
            }
        }
        server.wait_for_leaders()?;
        let addresses = server.addresses();
        let entrance = |number: u16| addresses[usize::from(number) - 1];
        let entrances = topology.entrances().into_iter().map(entrance).collect();
        Ok(Self { server, entrances, _links: links })
    }

    fn count(&self) -> io::Result<Counted> {
        let costs = Costs::now(&self.server.processes());
        Ok(Counted { metrics: self.server.metrics()?, costs })
    }

    /// Measures one cell, with data that the `setup` commands create.
    ///
    /// # Errors
    /// The cluster fails, or answers an error.
    pub fn measure<W: Workload>(
        &self,
        cell: &Cell<'_>,
        setup: &[Vec<u8>],
        callers: &mut Callers<W>,
    ) -> io::Result<Figures> {
        if !setup.is_empty() {
            let mut control = Control::connect(self.entrances[0])?;
            // Loading needs no order, which takes long with a protocol that waits.
            control.call(&["CLIENT", "ORDER", "OFF"])?;
            control.call(&["FLUSHALL"])?;
            control.load(setup.iter().cloned())?;
        }
        let clients = cell.clients as usize;
        let mut driver = Driver::connect(&self.entrances, clients, 0).map_err(io::Error::other)?;
        let most_ns = (cell.args.seconds * 1e9) as u64;
        callers.measure(u64::MAX, cell.warmup());
        let until_ns = driver.now_ns() + most_ns / 4;
        driver.run(callers, until_ns).map_err(io::Error::other)?;
        let before = self.count()?;
        let from_ns = driver.now_ns();
        callers.measure(from_ns, cell.measured());
        driver.run(callers, from_ns + most_ns).map_err(io::Error::other)?;
        let elapsed_ns = driver.now_ns() - from_ns;
        let after = self.count()?;
        Ok(figures(callers, elapsed_ns, &before, &after))
    }
}

fn figures<W: Workload>(
    callers: &Callers<W>,
    elapsed_ns: u64,
    before: &Counted,
    after: &Counted,
) -> Figures {
    let grown = |prefix: &str| -> u64 {
        let sum = |counted: &Counted| -> u64 {
            let named = counted.metrics.iter().filter(|(name, _)| name.starts_with(prefix));
            named.map(|(_, value)| value).sum()
        };
        sum(after).saturating_sub(sum(before))
    };
    let commands = callers.commands.max(1) as f64;
    let kinds = ParcelKind::ALL.into_iter().filter(|(kind, _)| kind.is_work());
    let messages = kinds.map(|(_, name)| grown(&format!("peer_messages_total:{name}"))).sum();
    let sample = Sample::new(&callers.recorder, 1, elapsed_ns, (before.costs, after.costs));
    let sample = Sample { ops: callers.commands, ..sample };
    Figures {
        elapsed_s: sample.elapsed_s,
        commands: callers.commands,
        messages,
        bytes: grown("peer_sent_bytes_total"),
        appends: grown("shard_log_appends_total"),
        more: fields([
            ("fsyncs_per_op", rounded(grown("log_syncs_total") as f64 / commands)),
            ("sends_per_op", rounded(grown("peer_sends_total") as f64 / commands)),
            ("server_cpu_us_per_op", rounded(sample.cpu_us_per_op())),
            ("client_cpus", rounded(sample.client_cpus())),
            ("foreign_cpus", rounded(sample.foreign_cpus())),
        ]),
        recorder: callers.recorder.clone(),
    }
}

/// Runs a `claret cluster` command.
fn told(program: &Path, url: &str, words: &[&str]) -> io::Result<()> {
    let done = Command::new(program)
        .arg("cluster")
        .args(words)
        .args(["--url", url])
        .stdin(Stdio::null())
        .output()?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(io::Error::other(format!("claret cluster {}: {said}", words.join(" "))))
}
