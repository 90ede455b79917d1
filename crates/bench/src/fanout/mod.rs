//! Requests that fan out: many commands over several shards, dispatched without waiting for
//! replies, under each protocol that keeps their order.
//!
//! The same clients ([`callers`]) drive real processes, whose messages to each other are delayed
//! according to a [`topology`], or the same state machines on [`virtual_time`].

pub mod args;
mod callers;
mod figures;
mod keys;
mod plot;
mod processes;
mod retwis;
mod topology;
mod virtual_time;

use crate::load::random::Zipf;
use crate::load::workload::Workload;
use crate::report::{Report, ratio};
use crate::servers::process::ClaretOptions;
use crate::sweep::progress;
use args::{Application, FanoutArgs, ORDERS};
use callers::Callers;
use figures::Figures;
use keys::Keys;
use processes::Cluster;
use retwis::Retwis;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::path::Path;
use topology::Topology;

/// Columns of the printed table.
pub const COLUMNS: [&str; 13] = [
    "order",
    "topology",
    "shards",
    "fanout",
    "zipf",
    "clients",
    "p50_us",
    "p99_us",
    "normalized_p50",
    "requests_per_s",
    "ops_per_s",
    "messages_per_op",
    "log_appends_per_op",
];

/// Kind of load.
#[derive(Clone, Copy, Debug)]
pub enum Load {
    /// A fixed number of commands on keys of this popularity.
    Keys {
        /// Commands per request.
        fanout: u32,
        /// Exponent of the keys' popularity.
        zipf: f64,
    },
    /// A social network.
    Retwis,
}

/// Unit of measurement.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The protocol.
    pub order: &'a str,
    /// Positions of the machines.
    pub topology: &'a Topology,
    /// Number of shards.
    pub shards: u16,
    /// Kind of load.
    pub load: Load,
    /// Number of clients.
    pub clients: u32,
    /// Options that are the same for all cells.
    pub args: &'a FanoutArgs,
}

impl Cell<'_> {
    /// Number of requests of all clients before the measurement.
    pub fn warmup(&self) -> u64 {
        self.measured().div_ceil(10)
    }

    /// Number of measured requests of all clients.
    pub fn measured(&self) -> u64 {
        u64::from(self.args.requests) * u64::from(self.clients)
    }
}

impl fmt::Display for Cell<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { order, topology, shards, load, clients, .. } = self;
        write!(f, "{order}, {shards} shards, {}, {clients} clients, ", topology.name)?;
        match load {
            Load::Keys { fanout, zipf } => write!(f, "fanout {fanout}, zipf {zipf}"),
            Load::Retwis => f.write_str("retwis"),
        }
    }
}

/// Cells to compare: all orders for each combination of the other parameters.
fn cells<'a>(args: &'a FanoutArgs, topologies: &'a [Topology]) -> Vec<Vec<Cell<'a>>> {
    let orders: Vec<&str> =
        ORDERS.into_iter().filter(|order| args.order.iter().any(|asked| asked == order)).collect();
    let keys = |zipf: &f64| -> Vec<Load> {
        args.fanout.iter().map(|fanout| Load::Keys { fanout: *fanout, zipf: *zipf }).collect()
    };
    let loads: Vec<Vec<Load>> = match args.app {
        Application::Keys => args.zipf.iter().map(keys).collect(),
        Application::Retwis => vec![vec![Load::Retwis]],
    };
    let mut compared = Vec::new();
    for topology in topologies {
        for &shards in &args.shards {
            for loads in &loads {
                for &clients in &args.clients {
                    for &load in loads {
                        let cell = |order| Cell { order, topology, shards, load, clients, args };
                        compared.push(orders.iter().copied().map(cell).collect());
                    }
                }
            }
        }
    }
    compared
}

/// Real clusters by topology, shards and order; empty on virtual time.
type Clusters<'a> = BTreeMap<(&'a str, u16, &'a str), Cluster>;

/// Distributions of keys in use so far, by the bits of their exponents.
type Zipfs = BTreeMap<u64, Zipf>;

/// Measures a cell under its load.
fn measure(
    cell: &Cell<'_>,
    zipfs: &mut Zipfs,
    clusters: &Clusters<'_>,
) -> io::Result<(Figures, &'static [&'static str])> {
    let args = cell.args;
    let cluster = clusters.get(&(cell.topology.name.as_str(), cell.shards, cell.order));
    match cell.load {
        Load::Keys { fanout, zipf } => {
            let make = || Zipf::new(args.keys as usize, zipf);
            let zipf = zipfs.entry(zipf.to_bits()).or_insert_with(make);
            measure_with(Keys { zipf, fanout, reads: args.reads }, &[], cell, cluster)
        }
        Load::Retwis => measure_with(Retwis::new(), &Retwis::setup(), cell, cluster),
    }
}

fn measure_with<W: Workload>(
    load: W,
    setup: &[Vec<u8>],
    cell: &Cell<'_>,
    cluster: Option<&Cluster>,
) -> io::Result<(Figures, &'static [&'static str])> {
    let (kinds, think_ns) = (load.kinds(), cell.args.think.as_nanos() as u64);
    let mut callers = Callers::new(load, cell.clients as usize, think_ns, cell.args.seed);
    let figures = match cluster {
        Some(cluster) => cluster.measure(cell, setup, &mut callers)?,
        None => virtual_time::measure(cell, setup, &mut callers)?,
    };
    Ok((figures, kinds))
}

/// Requested topologies.
fn topologies(args: &FanoutArgs) -> Result<Vec<Topology>, String> {
    let named = |name: &String| Topology::named(name, args.delay);
    let topologies: Vec<Topology> = args.topology.iter().map(named).collect::<Result<_, _>>()?;
    let names: BTreeSet<&str> = topologies.iter().map(|topology| topology.name.as_str()).collect();
    if names.len() < topologies.len() {
        return Err("topology: two topologies have the same name".to_owned());
    }
    Ok(topologies)
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails, or a topology is invalid.
pub fn run(args: &FanoutArgs, program: &Path) -> io::Result<Report> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let topologies = topologies(args).map_err(wrong)?;
    let compared = cells(args, &topologies);
    let bar = progress(compared.iter().map(Vec::len).sum());
    let mut report = Report::default();
    let (mut zipfs, mut clusters) = (Zipfs::new(), Clusters::new());
    for group in &compared {
        if !args.sim {
            start_clusters(program, group, &mut clusters)?;
        }
        let mut single = None;
        for cell in group {
            bar.set_message(cell.to_string());
            let (figures, kinds) = measure(cell, &mut zipfs, &clusters)
                .map_err(|error| io::Error::other(format!("{cell}: {error}")))?;
            let p50_us = figures.latency_us(0.5);
            let mut row = figures.row(cell, kinds);
            if cell.order == "single" {
                single = p50_us;
            }
            row.insert("normalized_p50".into(), ratio(p50_us, single));
            row.insert("mode".into(), if args.sim { "sim" } else { "processes" }.into());
            report.rows.push(row);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    if let Some(file) = &args.plot {
        plot::draw(&report, file)?;
    }
    report.more.insert("app".into(), Value::from(args.app.name()));
    report.more.insert("seed".into(), args.seed.into());
    Ok(report)
}

/// Starts the clusters that the compared cells need, and stops the others.
fn start_clusters<'a>(
    program: &Path,
    group: &[Cell<'a>],
    clusters: &mut Clusters<'a>,
) -> io::Result<()> {
    let which = |cell: &Cell<'a>| (cell.topology.name.as_str(), cell.shards, cell.order);
    let wanted: BTreeSet<_> = group.iter().map(which).collect();
    clusters.retain(|which, _| wanted.contains(which));
    for cell in group.iter().filter(|cell| !clusters.contains_key(&which(cell))).collect::<Vec<_>>()
    {
        let options = ClaretOptions {
            program: program.to_owned(),
            cc: "full".into(),
            shards: cell.shards,
            workers: cell.args.workers,
            durability: "always".into(),
            replicas: cell.topology.founders(),
        };
        let cluster = Cluster::start(&options, cell.order, cell.topology, &cell.args.dir)?;
        clusters.insert(which(cell), cluster);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn run_with(words: &[&str]) -> Report {
        let command = FanoutArgs::augment_args(clap::Command::new("fanout"));
        let here: &[&str] =
            if words.contains(&"--topology") { &[] } else { &["--topology", "datacenter"] };
        let words = ["fanout", "--sim", "--requests", "20"].iter().chain(here).chain(words);
        let args = FanoutArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
        run(&args, Path::new("no program is started")).unwrap()
    }

    /// Median over that of `single`, by number of commands.
    fn normalized(report: &Report, order: &str) -> Vec<(u64, f64)> {
        let rows = report.rows.iter().filter(|row| row["order"] == order);
        let of = |row: &serde_json::Map<String, Value>| {
            (row["fanout"].as_u64().unwrap(), row["normalized_p50"].as_f64().unwrap())
        };
        rows.map(of).collect()
    }

    fn assert_near(found: &[(u64, f64)], expected: &[(u64, f64)]) {
        assert_eq!(found.len(), expected.len());
        for ((fanout, found), (_, expected)) in found.iter().zip(expected) {
            let off = (found / expected - 1.0).abs();
            assert!(off < 0.05, "{fanout} commands: {found} instead of {expected}");
        }
    }

    #[test]
    fn a_pipeline_costs_five_delays_and_each_command_of_single_four() {
        let report = run_with(&["--fanout", "1,8,16,32"]);
        let formula = |n: f64| 5.0 / (4.0 * n);
        let expected = [(1, 1.0), (8, formula(8.0)), (16, formula(16.0)), (32, formula(32.0))];
        assert_near(&normalized(&report, "constant"), &expected);
    }

    #[test]
    fn handed_on_it_costs_one_delay_for_each_machine_that_the_order_comes_to() {
        let report = run_with(&["--fanout", "1,8,16,32"]);
        // Three machines lead three shards each: one command in three stays on the shard of the one
        // before it.
        let formula = |n: f64| (6.0 + (n - 1.0) * 2.0 / 3.0) / (4.0 * n);
        for (fanout, found) in normalized(&report, "chain") {
            let expected = if fanout == 1 { 1.0 } else { formula(fanout as f64) };
            let off = (found / expected - 1.0).abs();
            assert!(off < 0.1, "{fanout} commands: {found} instead of {expected}");
        }
    }

    #[test]
    fn the_studys_wide_area_topologies_come_to_what_their_delays_say() {
        let wide =
            |topology| run_with(&["--topology", topology, "--shards", "3", "--fanout", "16,32"]);
        // 180 ms each against 181 ms, and 92 against 137.
        let edge = [(16, 181.0 / (16.0 * 180.0)), (32, 181.0 / (32.0 * 180.0))];
        assert_near(&normalized(&wide("edge"), "constant"), &edge);
        let geo = [(16, 137.0 / (16.0 * 92.0)), (32, 137.0 / (32.0 * 92.0))];
        assert_near(&normalized(&wide("geo"), "constant"), &geo);
    }

    #[test]
    fn rows_tell_what_was_sent_and_written() {
        let report =
            run_with(&["--fanout", "8", "--clients", "4", "--think", "5ms", "--zipf", "1.1"]);
        let orders: Vec<_> = report.rows.iter().map(|row| row["order"].clone()).collect();
        assert_eq!(orders, ["single", "chain", "constant"]);
        for row in &report.rows {
            assert_eq!(row["mode"], "sim");
            assert_eq!(row["ops_per_request"], 8);
            assert!(row["messages_per_op"].as_f64().unwrap() > 1.0);
            assert!(row["log_appends_per_op"].as_f64().unwrap() > 0.1);
        }
    }
}
