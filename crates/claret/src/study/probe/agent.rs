//! `claret probe agent` and `claret probe sample`: measurement.

use ::probe::groups::Plan;
use ::probe::message::PAYLOAD_BYTES;
use ::probe::peers::Peers;
use clap::Args;
use probe_agent::agent::{Sampling, sample as sample_host};
use probe_agent::host::sampler;
use probe_agent::{Agent, Options, Summary};
use serde_json::json;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Options for sampling a host.
#[derive(Args, Debug)]
struct Host {
    /// Process of the store, whose threads are sampled too.
    #[arg(long)]
    pid: Option<u32>,
    /// Disks whose columns are summed; default: all.
    #[arg(long, value_delimiter = ',')]
    disk: Vec<String>,
    /// Interfaces whose columns are summed; default: all but the loopback.
    #[arg(long, value_delimiter = ',')]
    interface: Vec<String>,
    /// Interval of the canary's wake-ups, whose lateness is the stall of this host; 0 for none.
    #[arg(long, default_value_t = 1)]
    canary_ms: u64,
}

impl Host {
    fn options(&self) -> sampler::Options {
        sampler::Options {
            store_pid: self.pid,
            disks: self.disk.clone(),
            interfaces: self.interface.clone(),
            canary: (self.canary_ms > 0).then(|| Duration::from_millis(self.canary_ms)),
        }
    }
}

/// Arguments of `claret probe agent`.
#[derive(Args, Debug)]
pub struct AgentArgs {
    /// File with all nodes: a name and an address in each line, such as alpha 10.0.0.1:7400.
    #[arg(long)]
    peers: PathBuf,
    /// Name of this node in that file.
    #[arg(long)]
    node: String,
    /// Output folder.
    #[arg(long)]
    dir: PathBuf,
    /// Duration of the measurement; default: until Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
    /// Keep single calls of this many days before today, and thin out older days as claret probe
    /// thin does; by default, nothing is thinned out.
    #[arg(long, value_name = "DAYS")]
    keep_days: Option<u16>,
    /// Interval of the rounds of calls.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(10..=60_000))]
    period_ms: u64,
    /// Members of a group, from 3 to 9; several values, separated by commas, are used in turns.
    #[arg(long, value_delimiter = ',', default_value = "7")]
    group_size: Vec<usize>,
    /// Seed of the groups, which are drawn again every day; all agents need the same seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Name of the deployment; agents of other deployments are refused.
    #[arg(long, default_value = "default")]
    deployment: String,
    /// Bytes of the payload of workloads D and E.
    #[arg(long, default_value_t = PAYLOAD_BYTES,
        value_parser = clap::value_parser!(u32).range(0..=i64::from(::probe::message::PAYLOAD_BYTES_MAX)))]
    payload_bytes: u32,
    /// Members call with different workloads at the same time, so that not all sync their disks at
    /// once.
    #[arg(long)]
    stagger: bool,
    /// Workload B includes an Ed25519 signature of the hash, as protocols with signatures need it.
    #[arg(long)]
    sign: bool,
    /// Listen here instead of at the node's address in the file of peers.
    #[arg(long)]
    listen: Option<SocketAddr>,
    /// Do not sample this host; `claret probe sample` can do so in a separate process.
    #[arg(long)]
    no_sample: bool,
    #[command(flatten)]
    host: Host,
    /// Print one JSON document at the end.
    #[arg(long)]
    json: bool,
}

/// Arguments of `claret probe sample`.
#[derive(Args, Debug)]
pub struct SampleArgs {
    /// Output folder.
    #[arg(long)]
    dir: PathBuf,
    /// Duration of the sampling; default: until Ctrl-C.
    #[arg(long)]
    seconds: Option<u64>,
    /// File with all nodes, as for agents that write to the same folder.
    #[arg(long, requires = "node")]
    peers: Option<PathBuf>,
    /// Name of this node in that file; without a file of peers, any name for this host.
    #[arg(long)]
    node: Option<String>,
    /// Name of the deployment.
    #[arg(long, default_value = "default")]
    deployment: String,
    #[command(flatten)]
    host: Host,
    /// Print one JSON document at the end.
    #[arg(long)]
    json: bool,
}

fn read_peers(path: &Path) -> Result<Peers, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
    Peers::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Flag that SIGTERM and Ctrl-C set.
fn stop() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // A second signal ends the process with its default action.
        let flags = signal_hook::flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&stop)));
        flags.map_err(|error| format!("signals cannot be received: {error}"))?;
    }
    Ok(stop)
}

fn notice() -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(|text| eprintln!("claret: {text}"))
}

/// Runs `claret probe agent`.
pub fn agent(args: &AgentArgs) -> Result<String, String> {
    let peers = read_peers(&args.peers)?;
    let node =
        peers.number(&args.node).map_err(|error| format!("{}: {error}", args.peers.display()))?;
    let plan =
        Plan::new(&args.group_size).ok_or_else(|| "a group has from 3 to 9 members".to_owned())?;
    let stop = stop()?;
    let count = peers.all().len();
    let agent = Agent::new(Options {
        peers,
        node,
        dir: args.dir.clone(),
        listen: args.listen,
        deployment: args.deployment.clone(),
        plan,
        seed: args.seed,
        period: Duration::from_millis(args.period_ms),
        stagger: args.stagger,
        signs: args.sign,
        payload_bytes: args.payload_bytes,
        seconds: args.seconds,
        keep_days: args.keep_days,
        sample: (!args.no_sample).then(|| args.host.options()),
    });
    let agent = agent.map_err(|error| error.to_string())?;
    if let Some(address) = agent.listens_at() {
        let dir = args.dir.display();
        eprintln!("{} of {count} nodes, listening at {address}, writing to {dir}", args.node);
    }
    let summary = agent.run(&stop, &notice()).map_err(|error| error.to_string())?;
    if args.json {
        Ok(crate::study::probe::document(&json!(summary)))
    } else {
        Ok(page(&summary, args))
    }
}

fn page(summary: &Summary, args: &AgentArgs) -> String {
    let mut text = format!(
        "{} rounds in {:.0} s, {} skipped, {} calls of other nodes answered\n",
        summary.rounds, summary.ran_s, summary.skipped_rounds, summary.answered
    );
    let rows: Vec<String> =
        summary.rows.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let dir = args.dir.display();
    text += &format!("rows: {}; written to {dir}\n", rows.join(", "));
    if summary.open_at_end > 0 {
        text += &format!("{} calls were in flight at the end: no rows\n", summary.open_at_end);
    }
    let lost = summary.written.rows_lost + summary.rows_dropped;
    if lost > 0 {
        let why = summary.written.error.as_deref().unwrap_or("the disk was too slow");
        text += &format!("{lost} rows are lost: {why}\n");
    }
    if let Some(done) = summary.written.thinned.as_ref().filter(|done| done.caller_days > 0) {
        text += &crate::study::probe::thin::sentence(done);
    }
    if let Some(error) = &summary.disk_error {
        text += &format!("{} records could not be synced: {error}\n", summary.disk_errors);
    }
    if summary.clock_steps > 0 {
        text += &format!("the wall clock was set {} times\n", summary.clock_steps);
    }
    text += &format!("\n{:>4} {:<8} {:>8} {:>10}", "to", "", "calls", "unanswered");
    text += &format!(" {:>9} {:>9} {:>9} {:>9}  ms\n", "p50", "p90", "p99", "max");
    for one in &summary.written.sketches {
        let ms = |value: Option<f64>| value.map_or("-".into(), |ms| format!("{ms:.3}"));
        let (p50, p90) = (ms(one.p50_ms), ms(one.p90_ms));
        let (p99, max) = (ms(one.p99_ms), ms(one.max_ms));
        text += &format!("{:>4} {:<8} {:>8}", one.to, one.workload.name(), one.calls);
        text += &format!(" {:>10} {p50:>9} {p90:>9} {p99:>9} {max:>9}\n", one.unanswered);
    }
    text += &format!("\n{:.3} % of a core, ", summary.cpu_percent);
    text += &format!("{:.4} % of it for sampling this host\n", summary.sampler.cpu_percent);
    text
}

/// Runs `claret probe sample`.
pub fn sample(args: &SampleArgs) -> Result<String, String> {
    let (nodes, node) = match (&args.peers, &args.node) {
        (Some(path), Some(name)) => {
            let peers = read_peers(path)?;
            let node =
                peers.number(name).map_err(|error| format!("{}: {error}", path.display()))?;
            (peers.all().iter().map(|peer| peer.name.clone()).collect(), node)
        }
        (_, name) => (vec![name.clone().unwrap_or_else(|| "host".into())], 0),
    };
    let sampling = Sampling {
        options: args.host.options(),
        dir: args.dir.clone(),
        nodes,
        node,
        deployment: args.deployment.clone(),
        seconds: args.seconds,
    };
    let summary = sample_host(sampling, &stop()?, &notice()).map_err(|error| error.to_string())?;
    if args.json {
        return Ok(crate::study::probe::document(&json!(summary)));
    }
    let lost = match &summary.written.error {
        Some(error) => format!("; {} are lost: {error}", summary.written.rows_lost),
        None => String::new(),
    };
    Ok(format!(
        "{} rows written to {}{lost}\n{:.0} us of a core for each, {:.4} %; with the canary {:.3} %\n",
        summary.written.host_rows,
        args.dir.display(),
        summary.sampler.cpu_us_per_row,
        summary.sampler.cpu_percent,
        summary.cpu_percent,
    ))
}
