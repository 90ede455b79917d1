//! Requests that fan out: many commands over several shards, dispatched without waiting for replies,
//! under each protocol that keeps their order.
//!
//! The same clients ([`callers`]) drive real processes, whose messages to each other are held up as a
//! [`topology`] says, or the same state machines on [`virtual_time`].

pub mod args;
mod callers;
mod figures;
mod keys;
mod links;
mod plot;
mod processes;
mod retwis;
mod topology;
mod virtual_time;

use crate::process::ClaretOptions;
use crate::random::Zipf;
use crate::report::{Report, ratio};
use crate::sweep::progress;
use crate::workload::Workload;
use args::{Application, FanoutArgs, ORDERS};
use callers::Callers;
use figures::Figures;
use keys::Keys;
use processes::Cluster;
use retwis::Retwis;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;
use topology::Topology;

/// Columns of the table for people.
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

/// What is measured at once.
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    /// The protocol.
    pub order: &'a str,
    /// Name of the topology.
    pub topology: &'a str,
    /// How many shards there are.
    pub shards: u16,
    /// Commands per request, if that is not the application's to say.
    pub fanout: Option<u32>,
    /// How uneven the keys' popularity is.
    pub zipf: f64,
    /// How many clients there are.
    pub clients: u32,
    /// How many requests each is measured for.
    requests: u32,
    /// How long is measured at most, where time is real.
    pub seconds: f64,
    /// How long a write to a simulated disk takes.
    pub disk: Duration,
}

impl Cell<'_> {
    /// How many requests of all clients come before those that are measured.
    pub fn warmup(&self) -> u64 {
        self.measured().div_ceil(10)
    }

    /// How many requests of all clients are measured.
    pub fn measured(&self) -> u64 {
        u64::from(self.requests) * u64::from(self.clients)
    }
}

/// The cells that are compared: all orders for each combination of the rest.
fn cells<'a>(args: &'a FanoutArgs, topologies: &'a [Topology]) -> Vec<Vec<Cell<'a>>> {
    let orders: Vec<&str> =
        ORDERS.into_iter().filter(|order| args.order.iter().any(|asked| asked == order)).collect();
    let fanouts: Vec<Option<u32>> = match args.app {
        Application::Keys => args.fanout.iter().copied().map(Some).collect(),
        Application::Retwis => vec![None],
    };
    let (requests, seconds, disk) = (args.requests, args.seconds, args.disk);
    let mut compared = Vec::new();
    for topology in topologies {
        for &shards in &args.shards {
            for &zipf in &args.zipf {
                for &clients in &args.clients {
                    for &fanout in &fanouts {
                        let cell = |order| {
                            let topology = topology.name.as_str();
                            Cell {
                                order,
                                topology,
                                shards,
                                fanout,
                                zipf,
                                clients,
                                requests,
                                seconds,
                                disk,
                            }
                        };
                        compared.push(orders.iter().copied().map(cell).collect());
                    }
                }
            }
        }
    }
    compared
}

/// Real clusters by topology, shards and order; none on virtual time.
type Clusters<'a> = BTreeMap<(&'a str, u16, &'a str), Cluster>;

/// Measures a cell under the load that it asks for.
fn measure(
    args: &FanoutArgs,
    cell: &Cell<'_>,
    topology: &Topology,
    zipf: &Zipf,
    clusters: &Clusters<'_>,
) -> io::Result<(Figures, &'static [&'static str])> {
    let (clients, think_ns) = (cell.clients as usize, args.think.as_nanos() as u64);
    let cluster = clusters.get(&(cell.topology, cell.shards, cell.order));
    match cell.fanout {
        Some(fanout) => {
            let load = Keys { zipf, fanout, reads: args.reads };
            let callers = Callers::new(load, clients, think_ns, args.seed);
            measure_with(callers, &[], cell, topology, cluster)
        }
        None => {
            let callers = Callers::new(Retwis::new(), clients, think_ns, args.seed);
            measure_with(callers, &Retwis::setup(), cell, topology, cluster)
        }
    }
}

fn measure_with<W: Workload>(
    mut callers: Callers<W>,
    setup: &[Vec<u8>],
    cell: &Cell<'_>,
    topology: &Topology,
    cluster: Option<&Cluster>,
) -> io::Result<(Figures, &'static [&'static str])> {
    let kinds = callers.kinds();
    let figures = match cluster {
        Some(cluster) => cluster.measure(cell, setup, &mut callers)?,
        None => virtual_time::measure(cell, setup, topology, &mut callers)?,
    };
    Ok((figures, kinds))
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails, or a topology makes no sense.
pub fn run(args: &FanoutArgs, program: &Path) -> io::Result<Report> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidInput, why);
    let topologies: Result<Vec<Topology>, String> =
        args.topology.iter().map(|name| Topology::named(name, args.delay)).collect();
    let topologies = topologies.map_err(wrong)?;
    let compared = cells(args, &topologies);
    let bar = progress(compared.iter().map(Vec::len).sum());
    let mut report = Report::default();
    let mut zipfs: BTreeMap<u64, Zipf> = BTreeMap::new();
    let mut clusters = Clusters::new();
    for group in &compared {
        start_clusters(args, program, group, &topologies, &mut clusters)?;
        let mut single = None;
        for cell in group {
            bar.set_message(describe(cell));
            let topology = topologies.iter().find(|topology| topology.name == cell.topology);
            let Some(topology) = topology else { continue };
            let zipf = zipfs
                .entry(cell.zipf.to_bits())
                .or_insert_with(|| Zipf::new(args.keys as usize, cell.zipf));
            let (figures, kinds) = measure(args, cell, topology, zipf, &clusters)
                .map_err(|error| io::Error::other(format!("{}: {error}", describe(cell))))?;
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

/// Starts what cells need that are compared, and ends what they do not.
fn start_clusters<'a>(
    args: &FanoutArgs,
    program: &Path,
    group: &[Cell<'a>],
    topologies: &[Topology],
    clusters: &mut Clusters<'a>,
) -> io::Result<()> {
    if args.sim {
        return Ok(());
    }
    let wanted = group.iter().map(|cell| (cell.topology, cell.shards, cell.order));
    let wanted: BTreeSet<_> = wanted.collect();
    clusters.retain(|which, _| wanted.contains(which));
    for which @ (name, shards, order) in wanted {
        let topology = topologies.iter().find(|topology| topology.name == name);
        if let Some(topology) = topology.filter(|_| !clusters.contains_key(&which)) {
            let options = ClaretOptions {
                program: program.to_owned(),
                cc: "full".into(),
                shards,
                workers: args.workers,
                durability: "always".into(),
                replicas: topology.founders(),
            };
            clusters.insert(which, Cluster::start(&options, order, topology, &args.dir)?);
        }
    }
    Ok(())
}

fn describe(cell: &Cell<'_>) -> String {
    let fanout = cell.fanout.map_or(String::new(), |fanout| format!(" fanout {fanout}"));
    format!(
        "{}{fanout}, {} shards, {}, {} clients, zipf {}",
        cell.order, cell.shards, cell.topology, cell.clients, cell.zipf
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args, FromArgMatches};

    fn run_with(words: &[&str]) -> Report {
        let command = FanoutArgs::augment_args(clap::Command::new("fanout"));
        let words = ["fanout", "--sim", "--requests", "20"].iter().chain(words);
        let args = FanoutArgs::from_arg_matches(&command.get_matches_from(words)).unwrap();
        run(&args, Path::new("no program is started")).unwrap()
    }

    /// The median over that of `single`, by number of commands.
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
        let [single, constant] = &report.rows[..] else { panic!("two rows") };
        assert_eq!((&single["order"], &constant["order"]), (&"single".into(), &"constant".into()));
        for row in [single, constant] {
            assert_eq!(row["mode"], "sim");
            assert_eq!(row["ops_per_request"], 8);
            assert!(row["messages_per_op"].as_f64().unwrap() > 1.0);
            assert!(row["log_appends_per_op"].as_f64().unwrap() > 0.1);
        }
    }
}
