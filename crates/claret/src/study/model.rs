//! `claret model`: predicts latencies.

mod law;

use super::model::law::{parse_disk, parse_law, parse_ms};
use ::model::lock::{Prediction, Setting};
use ::model::order::{Fastest, Follower, commit, majority, two_phase};
use ::model::queue::Mm1;
use ::model::recommend::{Available, Choice, Matters, rank};
use ::model::{Algorithm, Attachment, Law, Timing};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Predict latencies of replication and of locks from round trips, disks and load.
///
/// A time has one of these forms:
///
///   100ms, 500us, 0.2s    always the same; a number alone counts microseconds
///   uniform:10ms-20ms     uniform between the two
///   exp:5ms               exponential with this mean
///   normal:10ms,2ms       normal with this mean and deviation, cut off at zero
///   FILE                  measured: one number of milliseconds per line, or two numbers,
///                         milliseconds and their count
///   DATA                  a folder of claret probe: round trips of all pairs; for a disk, synced
///                         writes of all nodes
///   DATA,FROM,TO          the same, from one node to another
///
/// Results are in milliseconds. docs/latency/model.md has the formulas and states which are
/// approximate.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct ModelArgs {
    #[command(subcommand)]
    question: Question,
}

#[derive(Subcommand, Debug)]
enum Question {
    /// Time to commit an entry on a majority, or a transaction on all servers.
    ///
    ///   claret model quorum --servers 5 --rtt uniform:10ms-20ms --disk 1ms
    ///   claret model quorum --rtt 1ms --rtt 80ms --disk exp:2ms    followers of different places
    #[command(verbatim_doc_comment)]
    Quorum(QuorumArgs),
    /// Cost of a lock, with each algorithm.
    ///
    ///   claret model lock --rtt 100ms --disk 1ms --load 5 --service 50ms
    ///   claret model lock --rtt 100ms --load 5 --algorithm grant,async-tas --requests 1000 --json
    #[command(verbatim_doc_comment)]
    Lock(LockArgs),
    /// Recommended lock algorithm, with reasons.
    ///
    ///   claret model recommend --rtt 100ms --load 5 --service 10ms
    ///   claret model recommend --rtt 20ms --server-rtt 40ms --load 12 --native --matters p99
    #[command(verbatim_doc_comment)]
    Recommend(RecommendArgs),
    /// Wait in a queue, served in order of arrival and in random order.
    ///
    /// One server; customers arrive at random (Poisson), service is exponential: M/M/1. Test and
    /// set serves waiters in random order, whose long waits the mean hides.
    ///
    ///   claret model queue --load 18 --service 50ms
    #[command(verbatim_doc_comment)]
    Queue(QueueArgs),
}

#[derive(Args, Debug)]
struct QueueArgs {
    /// Arrivals of customers per second.
    #[arg(long)]
    load: f64,
    /// Mean time of service.
    #[arg(long, value_parser = parse_ms)]
    service: f64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct QuorumArgs {
    /// Number of servers, including the leader; default: one more than the number of --rtt, or
    /// three.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=999))]
    servers: Option<u32>,
    /// Round trip between the leader and a follower; given once for all of them, or once for each.
    #[arg(long, required = true, value_parser = parse_law)]
    rtt: Vec<Law>,
    /// One durable log write, on every server.
    #[arg(long, default_value = "0", value_parser = parse_disk)]
    disk: Law,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Circumstances {
    /// Round trip between a client and its server.
    #[arg(long, value_parser = parse_law)]
    rtt: Law,
    /// Round trip between two servers.
    #[arg(long, default_value = "0", value_parser = parse_law)]
    server_rtt: Law,
    /// One durable log write.
    #[arg(long, default_value = "1ms", value_parser = parse_disk)]
    disk: Law,
    /// Servers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=999))]
    servers: u32,
    /// Clients are connected to a follower, which forwards writes to the leader.
    #[arg(long)]
    follower: bool,
    /// Requests for the lock per second, from all clients together; they arrive at random
    /// (Poisson).
    #[arg(long)]
    load: f64,
    /// Mean time in the critical section (exponential).
    #[arg(long, default_value = "1ms", value_parser = parse_ms)]
    service: f64,
    /// Poll interval, and time between two asynchronous attempts.
    #[arg(long, default_value = "10ms", value_parser = parse_ms)]
    poll: f64,
    /// Round trip between a client and a gateway near it (cohort).
    #[arg(long, default_value = "1ms", value_parser = parse_ms)]
    near_rtt: f64,
    /// Number of grants to clients of a gateway before it releases the lock (cohort).
    #[arg(long, default_value_t = 16)]
    cohort: u32,
    /// Fraction of the requests that come from the last holder, from 0 to 1 (retained).
    #[arg(long, default_value_t = 0.0)]
    same_user: f64,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct LockArgs {
    #[command(flatten)]
    circumstances: Circumstances,
    /// Algorithms, separated by commas, or all.
    #[arg(long, value_delimiter = ',', default_value = "all", value_parser = parse_algorithms)]
    algorithm: Vec<Algorithms>,
    /// Also predict the first requests, this many, of a run that begins with a free lock: the only
    /// possible prediction for an overloaded lock.
    #[arg(long)]
    requests: Option<u32>,
}

#[derive(Args, Debug)]
struct RecommendArgs {
    #[command(flatten)]
    circumstances: Circumstances,
    /// Quantity to minimise.
    #[arg(long, value_enum, default_value = "mean")]
    matters: Measure,
    /// The service has locks of its own; without this, it has nodes, versions and watches.
    #[arg(long)]
    native: bool,
    /// Gateways near the clients may hold a lock for them.
    #[arg(long, requires = "native")]
    gateway: bool,
    /// All actions under the lock take place in the store, which refuses old tokens.
    #[arg(long, requires = "native")]
    fenced: bool,
    /// The critical section is a known list of operations on the store.
    #[arg(long, requires = "native")]
    section_in_store: bool,
    /// Include algorithms that no service has yet.
    #[arg(long, requires = "native")]
    designs: bool,
}

/// Quantity to minimise.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Measure {
    /// The mean latency.
    Mean,
    /// Latency of the slowest hundredth.
    P99,
    /// Log entries and messages per acquisition.
    ServerLoad,
}

/// One algorithm, or all.
#[derive(Clone, Copy, Debug)]
enum Algorithms {
    All,
    One(Algorithm),
}

/// Runs the command.
pub fn main(args: &ModelArgs) -> ExitCode {
    crate::end(match &args.question {
        Question::Quorum(args) => quorum(args),
        Question::Lock(args) => lock(args),
        Question::Recommend(args) => recommend(args),
        Question::Queue(args) => queue(args),
    })
}

fn parse_algorithms(text: &str) -> Result<Algorithms, String> {
    if text == "all" {
        return Ok(Algorithms::All);
    }
    Algorithm::named(text).map(Algorithms::One).ok_or_else(|| {
        format!("an algorithm is all or one of {}", Algorithm::ALL.map(Algorithm::name).join(", "))
    })
}

/// One JSON document and a line feed.
fn document(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Mean and quantiles of a quantity.
#[derive(Serialize)]
struct Row {
    what: String,
    mean_ms: f64,
    p50_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
}

impl Row {
    fn new(what: String, mean_ms: f64, quantile: impl Fn(f64) -> f64) -> Self {
        let (p50_ms, p99_ms) = (quantile(0.5), quantile(0.99));
        Self { what, mean_ms, p50_ms, p99_ms, p999_ms: quantile(0.999) }
    }
}

fn quorum(args: &QuorumArgs) -> Result<String, String> {
    let followers: Vec<Follower> =
        followers(args)?.into_iter().map(|rtt| Follower { rtt, disk: args.disk.clone() }).collect();
    let servers = followers.len() + 1;
    let replies: Vec<Law> = followers.iter().map(|one| one.rtt.plus(&one.disk)).collect();
    let told = |error: ::model::Invalid| error.to_string();
    let mut rows = Vec::new();
    let mut fastest = |what: String, moment: Fastest| {
        rows.push(Row::new(what, moment.mean_ms(), |p| moment.quantile(p)));
    };
    let needed = majority(servers);
    let what = format!("commit: {needed} of {servers} logs, the leader's among them");
    fastest(what, commit(&args.disk, &followers).map_err(told)?);
    if !replies.is_empty() {
        fastest("first reply".into(), Fastest::new(replies.clone(), 1).map_err(told)?);
        fastest("all replies".into(), Fastest::all(replies.clone()).map_err(told)?);
        let two = two_phase(replies).map_err(told)?;
        let what = "two-phase commit of all followers".into();
        rows.push(Row::new(what, two.mean_ms(), |p| two.quantile(p)));
    }
    if args.json {
        let inputs = json!({
            "servers": servers,
            "rtt": followers.iter().map(|one| &one.rtt).collect::<Vec<_>>(),
            "disk": args.disk,
        });
        return Ok(document(&json!({"inputs": inputs, "predictions": rows})));
    }
    let mut text = format!("{:>9} {:>9} {:>9} {:>9}\n", "mean ms", "p50", "p99", "p99.9");
    for row in rows {
        let Row { what, mean_ms, p50_ms, p99_ms, p999_ms } = row;
        text += &format!("{mean_ms:9.3} {p50_ms:9.3} {p99_ms:9.3} {p999_ms:9.3}  {what}\n");
    }
    Ok(text)
}

fn followers(args: &QuorumArgs) -> Result<Vec<Law>, String> {
    match (args.servers, args.rtt.as_slice()) {
        (servers, [all]) => Ok(vec![all.clone(); servers.unwrap_or(3) as usize - 1]),
        (Some(servers), each) if servers as usize != each.len() + 1 => {
            let found = each.len();
            Err(format!("{servers} servers have {} followers, not {found} --rtt", servers - 1))
        }
        (_, each) => Ok(each.to_vec()),
    }
}

impl Circumstances {
    fn setting(&self) -> Result<Setting, String> {
        if !(self.load.is_finite() && self.load > 0.0) {
            return Err("the load is a number of requests per second above zero".into());
        }
        let timing = Timing {
            client_rtt: self.rtt.clone(),
            server_rtt: self.server_rtt.clone(),
            disk: self.disk.clone(),
            servers: self.servers as usize,
            attachment: if self.follower { Attachment::Follower } else { Attachment::Leader },
        };
        Ok(Setting {
            poll_ms: self.poll,
            near_rtt_ms: self.near_rtt,
            cohort: self.cohort,
            same_user: self.same_user,
            ..Setting::new(timing, 1_000.0 / self.load, self.service)
        })
    }
}

fn lock(args: &LockArgs) -> Result<String, String> {
    let setting = Setting { requests: args.requests, ..args.circumstances.setting()? };
    let mut algorithms = Vec::new();
    for wanted in &args.algorithm {
        match wanted {
            Algorithms::All => algorithms.extend(Algorithm::ALL),
            Algorithms::One(one) => algorithms.push(*one),
        }
    }
    let predictions: Result<Vec<Prediction>, ::model::Invalid> =
        algorithms.into_iter().map(|one| setting.predict(one)).collect();
    let predictions = predictions.map_err(|error| error.to_string())?;
    if args.circumstances.json {
        return Ok(document(&json!({"inputs": setting, "predictions": predictions})));
    }
    Ok(table(&predictions, args.requests))
}

fn cell(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.1}"))
}

fn table(predictions: &[Prediction], requests: Option<u32>) -> String {
    let mut text = format!(
        "{:<18} {:>8} {:>8} {:>6} {:<10} {:>9} {:>9} {:>9} {:>9}",
        "ms", "free", "handoff", "load", "", "mean", "p99", "messages", "writes"
    );
    if let Some(requests) = requests {
        text += &format!("  first {requests}: mean, p99");
    }
    text.push('\n');
    for one in predictions {
        let state = format!("{:?}", one.state).to_lowercase();
        text += &format!(
            "{:<18} {:>8.1} {:>8.1} {:>6.2} {state:<10} {:>9} {:>9} {:>9} {:>9}",
            one.algorithm.name(),
            one.free_ms,
            one.hand_off_ms,
            one.load,
            cell(one.mean_ms),
            cell(one.p99_ms),
            cell(one.messages),
            cell(one.quorum_writes),
        );
        if let Some(run) = &one.run {
            text += &format!("  {:.1}, {}", run.mean_ms, cell(run.p99_ms));
        }
        if let Some(growth) = one.growth_ms_per_request {
            text += &format!("  (each request waits {growth:.1} longer than the previous one)");
        }
        text.push('\n');
    }
    text
}

fn recommend(args: &RecommendArgs) -> Result<String, String> {
    let setting = args.circumstances.setting()?;
    let available = Available {
        native: args.native,
        gateway: args.gateway,
        fenced: args.fenced,
        section_in_store: args.section_in_store,
        designs: args.designs,
    };
    let matters = match args.matters {
        Measure::Mean => Matters::Mean,
        Measure::P99 => Matters::P99,
        Measure::ServerLoad => Matters::ServerLoad,
    };
    let choices = rank(&setting, available, matters).map_err(|error| error.to_string())?;
    if args.circumstances.json {
        let inputs = json!({"setting": setting, "available": available, "matters": matters});
        let best = choices.first().map(|choice| choice.prediction.algorithm);
        return Ok(document(&json!({"inputs": inputs, "best": best, "ranking": choices})));
    }
    Ok(choices.iter().enumerate().map(|(place, choice)| reasons(place + 1, choice)).collect())
}

/// Description of Claret's support of an algorithm.
const fn in_claret(algorithm: Algorithm) -> &'static str {
    match algorithm {
        Algorithm::Grant => "in Claret: LOCK.ACQUIRE, and lock in its clients",
        Algorithm::Cohort => "in Claret: LOCK.ACQUIRE ... NEAR, and near in its clients",
        Algorithm::Retained => "in Claret: retained in its clients, by LOCK.ACQUIRE ... TOKENS",
        Algorithm::Fused => "in Claret: LOCK.SECTION, and section in its clients",
        Algorithm::Successor => "in Claret: LOCK.ACQUIRE ... NEXT, and next in its clients",
        Algorithm::Tentative => "a design without an implementation",
        Algorithm::SyncQueue
        | Algorithm::SyncQueueRelist
        | Algorithm::AsyncQueue
        | Algorithm::SyncTas
        | Algorithm::AsyncTas
        | Algorithm::AsyncQueueWatch
        | Algorithm::TasWatch => "in Claret: a recipe on its ZooKeeper port, as on ZooKeeper",
    }
}

fn queue(args: &QueueArgs) -> Result<String, String> {
    if !(args.load.is_finite() && args.load > 0.0) {
        return Err("the load is a number of customers per second above zero".into());
    }
    let told = |error: ::model::Invalid| error.to_string();
    let queue = Mm1::new(1_000.0 / args.load, args.service).map_err(told)?;
    const QUANTILES: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
    let in_order = QUANTILES.map(|p| queue.quantile_fifo(p));
    let mut at_random = [0.0; 4];
    for (p, wait_ms) in QUANTILES.into_iter().zip(&mut at_random) {
        *wait_ms = queue.quantile_siro(p).map_err(told)?;
    }
    let rows = [
        ("in order of arrival", queue.variance_fifo().sqrt(), in_order),
        ("in random order", queue.variance_siro().sqrt(), at_random),
    ];
    if args.json {
        let rows = rows.map(|(order, deviation_ms, [p50_ms, p90_ms, p99_ms, p999_ms])| {
            json!({"order": order, "mean_ms": queue.mean_wait_ms(), "deviation_ms": deviation_ms,
                "p50_ms": p50_ms, "p90_ms": p90_ms, "p99_ms": p99_ms, "p999_ms": p999_ms})
        });
        let inputs = json!({"load_per_s": args.load, "service_ms": args.service});
        return Ok(document(&json!({"inputs": inputs, "busy": queue.load(), "waits": rows})));
    }
    let mut text = format!(
        "{:<20} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
        "wait, ms", "mean", "deviation", "p50", "p90", "p99", "p99.9"
    );
    for (order, deviation_ms, waits) in rows {
        text += &format!("{order:<20} {:9.1} {deviation_ms:9.1}", queue.mean_wait_ms());
        waits.iter().for_each(|wait_ms| text += &format!(" {wait_ms:9.1}"));
        text.push('\n');
    }
    Ok(text + &format!("utilisation {:.3}\n", queue.load()))
}

fn reasons(place: usize, choice: &Choice) -> String {
    let one = &choice.prediction;
    let expected = match (one.mean_ms, one.p99_ms) {
        (Some(mean), Some(p99)) => format!("mean {mean:.1} ms, p99 {p99:.1} ms"),
        (Some(mean), None) => format!("mean {mean:.1} ms"),
        _ => "no stable latency".into(),
    };
    let limit = choice
        .limit_per_s
        .map_or_else(String::new, |limit| format!(", stable below {limit:.2} requests per second"));
    let mut text = format!("{place}. {}: {expected}{limit}\n", one.algorithm.name());
    choice.why.iter().for_each(|why| text += &format!("     {why}\n"));
    text += &format!("     {}\n", in_claret(one.algorithm));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ModelArgs,
    }

    fn ask(line: &str) -> Result<String, String> {
        let words = std::iter::once("model").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(words).map_err(|error| error.to_string())?;
        match &cli.args.question {
            Question::Quorum(args) => quorum(args),
            Question::Lock(args) => lock(args),
            Question::Recommend(args) => recommend(args),
            Question::Queue(args) => queue(args),
        }
    }

    fn ask_json(line: &str) -> Value {
        serde_json::from_str(&ask(line).unwrap()).unwrap()
    }

    #[test]
    fn a_quorum_is_told_with_its_inputs() {
        let found = ask_json("quorum --servers 5 --rtt uniform:10ms-20ms --json");
        assert_eq!(found["inputs"]["servers"], 5);
        assert_eq!(found["inputs"]["rtt"][3]["uniform"]["high_ms"], 20.0);
        let mean = found["predictions"][0]["mean_ms"].as_f64().unwrap();
        assert!((mean - 14.0).abs() < 1e-3, "{mean}");
        assert!(ask("quorum --rtt 1ms --rtt 80ms").unwrap().contains("2 of 3"));
        assert!(ask("quorum --servers 4 --rtt 1ms --rtt 80ms").is_err());
    }

    #[test]
    fn a_lock_is_told_with_its_inputs_and_each_algorithm() {
        let found = ask_json("lock --rtt 100ms --load 2 --service 1ms --json");
        assert_eq!(found["inputs"]["interarrival_ms"], 500.0);
        assert_eq!(found["predictions"].as_array().unwrap().len(), Algorithm::ALL.len());
        let line = "lock --rtt 100ms --load 2 --algorithm grant,async-tas --requests 100";
        let grant = &ask_json(&format!("{line} --json"))["predictions"][0];
        assert_eq!((&grant["algorithm"], &grant["state"]), (&json!("grant"), &json!("stable")));
        assert!((grant["mean_ms"].as_f64().unwrap() - 114.0).abs() < 1.0);
        assert_eq!(grant["run"]["requests"], 100);
        assert_eq!(ask(line).unwrap().lines().count(), 3);
    }

    #[test]
    fn a_recommendation_has_reasons() {
        let line = "recommend --rtt 100ms --load 5 --service 50ms --native";
        let found = ask_json(&format!("{line} --json"));
        assert_eq!(found["best"], "grant");
        assert!(ask(line).unwrap().contains("LOCK.ACQUIRE"));
        // Early hand-over needs fences.
        assert_eq!(ask_json(&format!("{line} --fenced --json"))["best"], "successor");
        // An algorithm without an implementation is not recommended, unless designs are included.
        let designs = ask(&format!("{line} --fenced --designs")).unwrap();
        assert!(designs.contains("tentative"), "{designs}");
        assert!(found["ranking"][0]["why"].as_array().unwrap().len() >= 2);
        let text = ask("recommend --rtt 100ms --load 5 --service 50ms --matters p99").unwrap();
        assert!(text.starts_with("1. async-queue"), "{text}");
        assert!(text.contains("longer than the"), "{text}");
    }

    #[test]
    fn a_queue_at_random_has_the_same_mean_and_a_longer_tail() {
        let found = ask_json("queue --load 18 --service 50ms --json");
        let waits = found["waits"].as_array().unwrap();
        let ms = |at: usize, key: &str| waits[at][key].as_f64().unwrap();
        // The guide's figures, at a load of 0.9: in units of the service.
        assert!((ms(0, "mean_ms") - 450.0).abs() < 1e-6);
        assert!((ms(0, "p999_ms") / 50.0 - 68.0).abs() < 0.5, "{}", ms(0, "p999_ms"));
        assert!((ms(1, "p999_ms") / 50.0 - 151.0).abs() < 0.5, "{}", ms(1, "p999_ms"));
        assert!(ms(1, "p50_ms") < ms(0, "p50_ms"));
        assert!(ask("queue --load 20 --service 50ms").is_err(), "an overloaded queue");
        assert_eq!(ask("queue --load 1 --service 50ms").unwrap().lines().count(), 4);
    }

    #[test]
    fn impossible_questions_are_answered_with_what_is_possible() {
        assert!(ask("lock --rtt 1ms --load 0").unwrap_err().contains("per second"));
        assert!(ask("lock --rtt 1ms --load 1 --algorithm mutex").unwrap_err().contains("grant"));
        assert!(ask("recommend --rtt 1ms --load 1 --gateway").is_err());
    }
}
