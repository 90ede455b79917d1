//! `claret probe`: measures the latency of correct nodes.

mod agent;
mod calibrate;
mod rehearse;
mod report;
mod thin;

use ::probe::groups::Plan;
use clap::{Args, Subcommand, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use probe_data::analyze::{self, analyze};
use probe_data::import::{Units, import};
use probe_data::progress::Progress;
use probe_data::simulate::{self, simulate};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

/// Measure how synchronous a cluster is: which node is slow, since when, and why.
///
/// Measurements are a folder of Parquet files, one per caller and day, a format that all data tools
/// read. docs/latency/synchrony.md explains each analysis.
#[derive(Args, Debug)]
pub struct ProbeArgs {
    #[command(subcommand)]
    job: Job,
}

#[derive(Subcommand, Debug)]
enum Job {
    /// Measure: call the members of a group once a second, answer their calls, sample this host.
    ///
    /// Every node runs one, with the same file of peers: a line for each node, with its name and
    /// address. There is no encryption and no authentication, so run it where only your own
    /// machines can reach it. It measures until Ctrl-C, and writes its measurements to a file every
    /// ten minutes. All agents may write to one folder.
    ///
    ///   echo "alpha 10.0.0.1:7400" > peers; echo "beta 10.0.0.2:7400" >> peers; ...
    ///   claret probe agent --peers peers --node alpha --dir data      on alpha
    ///   claret probe agent --peers peers --node beta --dir data       on beta, and so on
    ///   claret probe calibrate data --target raft
    #[command(verbatim_doc_comment)]
    Agent(agent::AgentArgs),
    /// Sample this host only: processors, disks, memory, pressure, network, stalls, once a second.
    ///
    ///   claret probe sample --dir data --pid 4711
    ///   claret probe sample --dir data --seconds 60 --canary-ms 0     without the canary
    #[command(verbatim_doc_comment)]
    Sample(agent::SampleArgs),
    /// Derive time-outs, sizes and risks from measurements, each with its evidence.
    ///
    ///   claret probe calibrate data                                   everything, as text
    ///   claret probe calibrate data --target raft --once-in 90d       timers for a rarer mistake
    ///   claret probe calibrate data --target visigoth --risk 0.0001 --json
    #[command(verbatim_doc_comment)]
    Calibrate(calibrate::CalibrateArgs),
    /// Try measured time-outs on Claret's replicated log, on virtual time, under synthetic pauses
    /// and latencies: counts needless elections, and measures the time without a leader after a
    /// crash, in comparison with the defaults of etcd.
    ///
    ///   claret probe rehearse                                         ten thousand hours
    ///   claret probe rehearse --law wide --members 5 --once-in 12h --json
    #[command(verbatim_doc_comment)]
    Rehearse(rehearse::RehearseArgs),
    /// Generate data with known findings.
    ///
    ///   claret probe simulate --nodes 14 --group-size 7 --days 1 --slow 2 --seed 1 --dir data
    #[command(verbatim_doc_comment)]
    Simulate(SimulateArgs),
    /// Import another program's measurements: CSV of time, source, destination and latency.
    ///
    /// The first line may name the columns, in any order; without names they are as above. An empty
    /// latency is a call without reply. All nodes are one group, and the calls of one source at one
    /// time are a session. Unreadable lines are left out, counted and shown; lines that are used
    /// although they are odd, such as after a backward step of the clock, are counted too. Memory
    /// does not grow with the file: larger data are sorted in files in the new folder.
    ///
    /// Instead of a file, a folder of round trip matrices is accepted: a file SOURCE.dat for each
    /// source, with min/avg/max/mdev:TARGET in each line, in milliseconds, as ping prints it.
    ///
    ///   claret probe import calls.csv --dir data
    ///   claret probe import calls.csv --time-unit ms --latency-unit us --dir data
    #[command(verbatim_doc_comment)]
    Import(ImportArgs),
    /// Compact old days: keep late calls, and count all others.
    ///
    /// For each caller, callee and workload, the calls above the 99th percentile of the day stay
    /// unchanged; the others become histograms of ten minutes, with latencies to 1.6 %. Resource
    /// samples of hosts become one row per ten minutes. The files of these days are replaced:
    /// analyses of single calls no longer see them.
    ///
    ///   claret probe thin data                    days more than a week ago
    ///   claret probe thin data --keep-days 0      all days before today
    #[command(verbatim_doc_comment)]
    Thin(thin::ThinArgs),
    /// Analyse a folder of measurements.
    ///
    ///   claret probe analyze data             key findings, as text
    ///   claret probe analyze data --json      everything: one document with a key per analysis
    #[command(verbatim_doc_comment)]
    Analyze(AnalyzeArgs),
    /// Write one page with all key findings, for a browser, without server and network.
    ///
    ///   claret probe report data -o report.html
    ///   claret probe report data -o report.html --json     and print a summary of the output
    ///   claret probe report data -o report.html --once-in 90d --risk 0.0001
    #[command(verbatim_doc_comment)]
    Report(report::ReportArgs),
}

#[derive(Args, Debug)]
struct SimulateArgs {
    /// Nodes.
    #[arg(long, default_value_t = 14)]
    nodes: u16,
    /// Members of a group, from 3 to 9; several values, separated by commas, are used in turns.
    #[arg(long, value_delimiter = ',', default_value = "7")]
    group_size: Vec<usize>,
    /// Days.
    #[arg(long, default_value_t = 1)]
    days: u16,
    /// Nodes that are slow all the time.
    #[arg(long, default_value_t = 2)]
    slow: u16,
    /// Seed; the same seed generates the same files.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Calls of each caller to each member per day; 86,400 are one per second.
    #[arg(long, default_value_t = 86_400)]
    rounds: u32,
    /// Pauses of each node per hour, half a second long on average. With more than four, the number
    /// of late members per group is not known, and s and T are not planted.
    #[arg(long, default_value_t = 3.6)]
    pauses_per_hour: f64,
    /// Leave out the resource samples of hosts.
    #[arg(long)]
    no_resources: bool,
    /// Number of threads.
    #[arg(long, default_value_t = threads())]
    threads: usize,
    /// Output folder, which must be empty or not exist.
    #[arg(long)]
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct ImportArgs {
    /// Input file, or folder of matrices.
    file: PathBuf,
    /// Unit of the time, counted from 1970.
    #[arg(long, value_enum, default_value = "s")]
    time_unit: Unit,
    /// Unit of the latency.
    #[arg(long, value_enum, default_value = "ms")]
    latency_unit: Unit,
    /// Name of the deployment.
    #[arg(long, default_value = "imported")]
    deployment: String,
    /// Output folder, which must be empty or not exist.
    #[arg(long)]
    dir: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Unit {
    /// Seconds.
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

impl Unit {
    const fn ns(self) -> f64 {
        match self {
            Self::S => 1e9,
            Self::Ms => 1e6,
            Self::Us => 1e3,
            Self::Ns => 1.0,
        }
    }
}

#[derive(Args, Debug)]
struct AnalyzeArgs {
    /// Folder of measurements.
    data: PathBuf,
    /// Margin over the fastest node above which a slow node matters.
    #[arg(long, default_value = "1ms", value_parser = parse_ns)]
    floor: u64,
    /// Latency above which a call belongs to an episode.
    #[arg(long, default_value = "1s", value_parser = parse_ns)]
    episode_level: u64,
    /// Group size of the histograms of slow nodes.
    #[arg(long, default_value_t = 7)]
    histogram_size: u8,
    /// Day (since 1970) and group of the day view, as DAY/GROUP; default: the first of the data.
    #[arg(long, value_parser = parse_view)]
    day_view: Option<(i64, u16)>,
    /// Two latencies: the day view counts the calls below the first and above the second.
    #[arg(long, value_delimiter = ',', default_value = "1ms,10ms", value_parser = parse_ns)]
    cuts: Vec<u64>,
    /// Points of the scatter plots in the document.
    #[arg(long, default_value_t = 50_000)]
    scatter_points: usize,
    /// Number of threads.
    #[arg(long, default_value_t = threads())]
    threads: usize,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Number of the machine's processors.
fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn parse_ns(text: &str) -> Result<u64, String> {
    let duration = bench::args::parse_duration(text)?;
    u64::try_from(duration.as_nanos()).map_err(|error| error.to_string())
}

fn parse_view(text: &str) -> Result<(i64, u16), String> {
    let wrong = || format!("{text:?} is not DAY/GROUP, such as 19723/0");
    let (day, group) = text.split_once('/').ok_or_else(wrong)?;
    Ok((day.parse().map_err(|_| wrong())?, group.parse().map_err(|_| wrong())?))
}

/// Runs the command.
pub fn main(args: &ProbeArgs) -> ExitCode {
    crate::end(match &args.job {
        Job::Agent(args) => agent::agent(args),
        Job::Sample(args) => agent::sample(args),
        Job::Calibrate(args) => calibrate::calibrated(args),
        Job::Rehearse(args) => rehearse::rehearsed(args),
        Job::Simulate(args) => simulated(args),
        Job::Import(args) => imported(args),
        Job::Thin(args) => thin::thinned(args),
        Job::Analyze(args) => analyzed(args),
        Job::Report(args) => report::reported(args),
    })
}

/// Progress bar of a command on standard error, where that is a terminal.
#[derive(Default)]
struct Bar(Mutex<Option<ProgressBar>>);

impl Progress for Bar {
    fn begin(&self, what: &str, steps: u64) {
        let bar = ProgressBar::new(steps);
        if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {pos}/{len} {eta}") {
            bar.set_style(style);
        }
        bar.set_message(what.to_owned());
        if let Ok(mut old) = self.0.lock() {
            *old = Some(bar);
        }
    }

    fn step(&self) {
        if let Ok(bar) = self.0.lock()
            && let Some(bar) = &*bar
        {
            bar.inc(1);
        }
    }
}

fn document(value: &Value) -> String {
    format!("{value}\n")
}

fn simulated(args: &SimulateArgs) -> Result<String, String> {
    let plan =
        Plan::new(&args.group_size).ok_or_else(|| "a group has from 3 to 9 members".to_owned())?;
    let options = simulate::Options {
        nodes: args.nodes,
        plan,
        days: args.days,
        slow: args.slow,
        seed: args.seed,
        rounds: args.rounds,
        pauses_per_hour: args.pauses_per_hour,
        resources: !args.no_resources,
        threads: args.threads,
    };
    let made = simulate(&options, &args.dir, &Bar::default()).map_err(|error| error.to_string())?;
    if args.json {
        return Ok(document(&json!(made)));
    }
    Ok(format!(
        "{} rows of calls and {} of resources in {}\n{:.2} bytes a call, {:.1} million calls a second\n",
        made.rows,
        made.resource_rows,
        args.dir.display(),
        made.bytes_per_row,
        made.rows_per_s / 1e6,
    ))
}

fn imported(args: &ImportArgs) -> Result<String, String> {
    let units = Units { time_ns: args.time_unit.ns(), latency_ns: args.latency_unit.ns() };
    let told = import(&args.file, units, &args.deployment, &args.dir, &Bar::default())
        .map_err(|error| error.to_string())?;
    if args.json {
        return Ok(document(&json!(told)));
    }
    let mut text = format!(
        "{} calls among {} nodes on {} days in {}\n",
        told.rows,
        told.nodes.len(),
        told.days,
        args.dir.display()
    );
    for (reason, count) in &told.excluded {
        text += &format!("left out: {} {count}\n", reason.replace('_', " "));
    }
    for one in &told.first_excluded {
        text += &format!("  {}:{}: {}\n", one.file, one.line, one.text);
    }
    for (what, count) in &told.noticed {
        text += &format!("used, but: {} {count}\n", what.replace('_', " "));
    }
    if let Some(gap) = &told.longest_gap {
        text += &format!(
            "longest time without a call: {} s, of {} after {:.3}\n",
            gap.seconds,
            gap.src,
            gap.after_ns as f64 / 1e9
        );
    }
    Ok(text)
}

fn analyzed(args: &AnalyzeArgs) -> Result<String, String> {
    let [low, high] = args.cuts[..] else {
        return Err("--cuts takes two latencies, such as 1ms,10ms".into());
    };
    let options = analyze::Options {
        threads: args.threads,
        floor_ns: args.floor,
        histogram_size: args.histogram_size,
        day_view: args.day_view,
        cuts_ns: [low, high],
        episode_level_ns: args.episode_level,
        scatter_points: args.scatter_points,
        ..analyze::Options::default()
    };
    let found =
        analyze(&args.data, &options, &Bar::default()).map_err(|error| error.to_string())?;
    if args.json {
        return Ok(document(&found));
    }
    Ok(analyze::summary(&found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ProbeArgs,
    }

    fn ask(line: &str) -> Result<String, String> {
        let words = std::iter::once("probe").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        match &cli.args.job {
            Job::Simulate(args) => simulated(args),
            Job::Import(args) => imported(args),
            Job::Thin(args) => thin::thinned(args),
            Job::Analyze(args) => analyzed(args),
            Job::Report(args) => report::reported(args),
            _ => Err("commands that need a cluster are tested in the black-box tests".to_owned()),
        }
    }

    #[test]
    fn made_up_data_are_analysed_in_one_document() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("data").display().to_string();
        let made =
            ask(&format!("simulate --nodes 7 --rounds 600 --slow 1 --dir {dir} --json")).unwrap();
        let made: Value = serde_json::from_str(&made).unwrap();
        assert_eq!(made["rows"], 7 * 7 * 600);
        let found = ask(&format!("analyze {dir} --json --scatter-points 10")).unwrap();
        let found: Value = serde_json::from_str(&found).unwrap();
        assert_eq!(found["slow_nodes"]["recall"], 1.0);
        assert_eq!(found["slow_nodes"]["precision"], 1.0);
        let text = ask(&format!("analyze {dir}")).unwrap();
        assert!(text.contains("recall 1.000") && text.contains("p99.9"), "{text}");
        assert!(ask(&format!("simulate --dir {dir}")).unwrap_err().contains("not empty"));
    }

    #[test]
    fn what_cannot_be_is_answered_with_what_can() {
        assert!(ask("simulate --group-size 2 --dir x").unwrap_err().contains("3 to 9"));
        assert!(ask("simulate --nodes 3 --slow 3 --dir x").unwrap_err().contains("not all nodes"));
        assert!(ask("analyze no-such-folder").unwrap_err().contains("no-such-folder"));
        assert!(ask("analyze x --cuts 1ms").unwrap_err().contains("two latencies"));
        assert!(ask("analyze x --day-view 5").unwrap_err().contains("DAY/GROUP"));
        assert!(ask("report no-such-folder -o x.html").unwrap_err().contains("no-such-folder"));
        assert!(ask("report x -o .").unwrap_err().contains("is a folder"));
        assert!(ask("import no-such-file --dir x").unwrap_err().contains("no-such-file"));
    }
}
