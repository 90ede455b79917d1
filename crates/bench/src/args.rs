//! What a bench is told on the command line.

use crate::coordination::args::{LocksArgs, SmokeArgs};
use crate::coordination::crowd::CrowdArgs;
use crate::fanout::args::FanoutArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// The names of the conditions, in the order in which they add something.
pub const CONDITIONS: [&str; 7] =
    ["none", "rw", "rw+phase", "boost", "boost+phase", "boost+phase+combine", "full"];

const COMMANDS: [&str; 5] = ["GET", "SET", "INCR", "SADD", "ZADD"];

/// The load to run.
#[derive(Clone, Debug, Subcommand)]
pub enum Bench {
    /// Transactions of a few operations on a thousand sets: adds and sizes, keys by zipf.
    ///
    /// Starts a server of its own for every condition and compares the peaks. Example: how far
    /// abstract locks go beyond reader/writer locks on hot keys:
    ///
    ///   claret bench rawmix --zipf 1.4 --cc none,rw,rw+phase,full
    #[command(verbatim_doc_comment)]
    Rawmix(RawmixArgs),
    /// An auction site: bids, views, searches; auctions close while others bid.
    ///
    /// Most bidders bid again on what they have bid on, the more so the sooner it closes. Measure
    /// long enough to see the worst five seconds:
    ///
    ///   claret bench rubis --mix bid-heavy --clients 64 --seconds 30
    #[command(verbatim_doc_comment)]
    Rubis(RubisArgs),
    /// A social network: posts go to the timelines of all followers.
    ///
    /// The graph of followers is a Kronecker graph; what many have reposted is reposted again.
    ///
    ///   claret bench retwis --mix post-heavy --cc rw+phase,full
    #[command(verbatim_doc_comment)]
    Retwis(RetwisArgs),
    /// Single commands, pipelined or not, beside redis-server or etcd.
    ///
    /// Beside etcd: as many etcd members as Claret has machines (three, unless said otherwise),
    /// GET as a linearizable Range and SET as a Put. etcd waits for the disk with every write, so
    /// Claret does too. On both sides connections go round over the machines; with fewer of them
    /// than machines every run has one part per machine to begin with. Claret's keys are spread
    /// over three shards, whose leaders are on different machines; etcd has one group.
    ///
    ///   claret bench ops --replicas 3 --vs etcd --clients 1,256
    #[command(verbatim_doc_comment)]
    Ops(OpsArgs),
    /// A cluster that nobody asks anything: processor time, and memory of each group.
    ///
    /// Starts a cluster with one shard and one with many, waits until they have come to rest, and
    /// watches each: processor time of all processes in percent of one core, memory, and what its
    /// machines say to each other.
    ///
    ///   claret bench idle --shards 1000 --replicas 3
    #[command(verbatim_doc_comment)]
    Idle(IdleArgs),
    /// Requests of many commands over several shards, sent without waiting for replies.
    ///
    /// Compares the protocols that keep their order: latency of a request by its number of commands,
    /// what is sent and written for it, and how much of the latency there is with the protocol that
    /// waits for each reply (normalized_p50). Without --sim, real servers run on this machine, and the
    /// delays of the topology are added to what they say to each other:
    ///
    ///   claret bench fanout --sim
    ///   claret bench fanout --sim --topology edge,geo --shards 3 --fanout 2,16,32
    ///   claret bench fanout --delay 2ms --fanout 1,8,32 --plot fanout.svg
    #[command(verbatim_doc_comment)]
    Fanout(FanoutArgs),
    /// Coordination: single operations of ZooKeeper's protocol, pipelines of them, and a lock.
    ///
    /// The smoke test of the study on the cost of consensus: creates, sets, gets, deletes, ephemeral
    /// nodes and watches, one by one (sync) and all sent before the first answer (async), the time
    /// of each being the elapsed time over the number of them. Then pipelined throughput, lock and
    /// unlock without others, and how long a lock takes from one holder to the next (the queue
    /// recipe, listing again). With --vs both services run at the same time and take turns; both
    /// wait for the disk with every write. Delays are added by a relay on this machine.
    ///
    ///   claret bench smoke --vs zookeeper
    ///   claret bench smoke --servers 3 --client-rtt 20ms --server-rtt 20ms --requests 200
    #[command(verbatim_doc_comment)]
    Smoke(SmokeArgs),
    /// Coordination: locks under delay and contention, beside what the model predicts.
    ///
    /// Requests for one lock come at random and never wait for one another; latency is the time
    /// from a request to its critical section. Every row has the prediction beside the mean, and
    /// says what a mean is worth: whether the lock is stable, critical or overloaded (then a mean
    /// says only how long somebody has measured). A run in which two hold the lock, or a token does
    /// not grow, fails. The recipes are those of the papers on nodes: sync-queue (unsafe when
    /// somebody dies who waits), sync-queue-relist, async-queue, sync-tas, async-tas, tas-watch, and
    /// async-queue-watch, which is told who comes and goes (ZooKeeper 3.6; not on etcd);
    /// adaptive-recipe chooses among them while it runs. Claret itself knows locks as well: grant, near,
    /// retained, cohort. There adaptive chooses between grant and retained, elsewhere among recipes.
    ///
    /// Times are those of the experiment; --scale divides them while it runs. Experiments of the
    /// study have names, and take long: --dry-run says how long, --resume keeps what was measured.
    ///
    ///   claret bench locks --client-rtt 100ms --service 50ms --requests 100 --seeds 1
    ///   claret bench locks --experiment E8 --resume e8.jsonl --plot e8.svg
    ///   claret bench locks --experiment E5 --backend claret --algorithm async-tas --seeds 1
    #[command(verbatim_doc_comment)]
    Locks(LocksArgs),
    /// Coordination: many sessions that do little, and what they cost.
    ///
    /// Begins sessions, lets each make an ephemeral node and watch others, and measures the memory
    /// that each of these takes, the processor time of ten thousand programs that say nothing but
    /// that they are there, how long it takes until the last of them has heard of a change that all
    /// watch (this process hears for all of them, which takes its time as well), and how long until
    /// all have ended, with their nodes.
    ///
    ///   claret bench crowd --vs zookeeper
    #[command(verbatim_doc_comment)]
    Crowd(CrowdArgs),
}

/// Another server to measure single commands against in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OpsPeer {
    /// The `redis-server` of this machine.
    Redis,
    /// The `etcd` of this machine; needs the program claret-etcd-load beside this one.
    Etcd,
}

/// Another server to measure transactions against in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// The `redis-server` of this machine.
    Redis,
}

/// What all transaction loads share.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Conditions, separated by commas: none (no transactions), rw (reader/writer locks that
    /// refuse at once), rw+phase (that queue), boost (abstract locks), boost+phase,
    /// boost+phase+combine, full (everything; the default of the server); or all.
    #[arg(long, value_delimiter = ',', default_value = "none,rw,rw+phase,full",
        value_parser = parse_condition)]
    pub cc: Vec<String>,
    /// Numbers of clients, separated by commas; without it each condition is driven to its peak.
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: Vec<u32>,
    /// Network round trip to emulate between client and server, such as 150us or 1ms.
    #[arg(long, default_value = "0", value_parser = parse_duration)]
    pub rtt: Duration,
    /// Measured seconds per cell.
    #[arg(long, default_value_t = 3.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Seconds of load before each measurement.
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    pub warmup: f64,
    /// When a commit is acknowledged: when it is on the disk, written, or at once.
    #[arg(long, default_value = "always", value_parser = ["always", "everysec", "none"])]
    pub durability: String,
    /// Shards of each server.
    #[arg(long, default_value_t = 4)]
    pub shards: u16,
    /// Worker threads of each server.
    #[arg(long, default_value_t = 1)]
    pub workers: u16,
    /// Machines of each server, each a process with a replica of every shard; clients are spread
    /// over them.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub replicas: u16,
    /// Where the servers' data directories are made.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Where random choices begin.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// The conditions to run, each once.
    pub fn conditions(&self) -> Vec<&str> {
        let wanted = |name: &&str| self.cc.iter().any(|cc| cc == name || cc == "all");
        CONDITIONS.into_iter().filter(wanted).collect()
    }
}

/// Where added elements come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Elements {
    /// Every element is new.
    New,
    /// From a pool ten times as large as the sets are in the beginning.
    #[value(name = "pool10x")]
    Pool10x,
    /// From a pool of 100.
    #[value(name = "pool100")]
    Pool100,
}

/// Options of `rawmix`.
#[derive(Clone, Debug, Args)]
pub struct RawmixArgs {
    /// What all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Number of sets.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub keys: u32,
    /// Exponent of the keys' popularity.
    #[arg(long, default_value_t = 0.6)]
    pub zipf: f64,
    /// Share of operations that add an element; the others ask for the size.
    #[arg(long, default_value_t = 0.5, value_parser = parse_share)]
    pub updates: f64,
    /// Operations per transaction.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub txn_len: u32,
    /// Which elements are added.
    #[arg(long, value_enum, default_value = "pool10x")]
    pub elements: Elements,
    /// Run the mix against this server too, with MULTI/EXEC and with WATCH.
    #[arg(long, value_enum)]
    pub vs: Option<Peer>,
}

/// Options of `rubis`.
#[derive(Clone, Debug, Args)]
pub struct RubisArgs {
    /// What all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Which mix of transactions.
    #[arg(long, default_value = "bid-heavy", value_parser = ["bid-heavy", "read-heavy"])]
    pub mix: String,
    /// Items for sale in the beginning.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub items: u32,
    /// Longest auction, in seconds.
    #[arg(long, default_value_t = 60.0, value_parser = parse_seconds)]
    pub auction_seconds: f64,
}

/// Options of `retwis`.
#[derive(Clone, Debug, Args)]
pub struct RetwisArgs {
    /// What all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Which mix of transactions.
    #[arg(long, default_value = "post-heavy", value_parser = ["post-heavy", "read-heavy"])]
    pub mix: String,
    /// The graph has up to two to this power users.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=22))]
    pub scale: u32,
    /// Generated links per possible user.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub edge_factor: u32,
}

/// Options of `ops`.
#[derive(Clone, Debug, Args)]
pub struct OpsArgs {
    /// Measure this server too, in turns.
    #[arg(long, value_enum)]
    pub vs: Option<OpsPeer>,
    /// Commands, separated by commas; beside etcd, GET and SET.
    #[arg(long, value_delimiter = ',', default_value = "GET,SET,INCR,SADD,ZADD",
        default_value_if("vs", "etcd", "GET,SET"),
        value_parser = PossibleValuesParser::new(COMMANDS).map(|word| word.to_ascii_uppercase()),
        ignore_case = true)]
    pub commands: Vec<String>,
    /// How many commands travel together, separated by commas; beside etcd, 1.
    #[arg(long, value_delimiter = ',', default_value = "1,16",
        default_value_if("vs", "etcd", "1"),
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub pipeline: Vec<u32>,
    /// Durability: no (nothing waits for the disk), everysec, always; separated by commas;
    /// beside etcd, always.
    #[arg(long, value_delimiter = ',', default_value = "no,always",
        default_value_if("vs", "etcd", "always"),
        value_parser = ["no", "everysec", "always"])]
    pub fsync: Vec<String>,
    /// Claret servers as workers:shards, separated by commas; beside etcd, 1:3.
    #[arg(long, value_delimiter = ',', default_value = "1:1,2:2",
        default_value_if("vs", "etcd", "1:3"), value_parser = parse_sizes)]
    pub sizes: Vec<(u16, u16)>,
    /// Machines of each Claret server, each a process with a replica of every shard; connections
    /// are spread over them. etcd gets as many members; 3 beside it unless said otherwise.
    #[arg(long, default_value_t = 1, default_value_if("vs", "etcd", "3"),
        value_parser = clap::value_parser!(u16).range(1..=5))]
    pub replicas: u16,
    /// Numbers of connections, separated by commas; beside etcd, 1 and 256.
    #[arg(long, value_delimiter = ',', default_value = "50",
        default_value_if("vs", "etcd", "1,256"),
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: Vec<u32>,
    /// Runs of each cell; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Measured seconds per run.
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Where the servers' data directories are made.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `idle`.
#[derive(Clone, Debug, Args)]
pub struct IdleArgs {
    /// Shards of the cluster with many.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(2..=1_024))]
    pub shards: u16,
    /// Machines, each a process with a replica of every shard.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub replicas: u16,
    /// Seconds for which each cluster is watched.
    #[arg(long, default_value_t = 30.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Seconds before that, to come to rest.
    #[arg(long, default_value_t = 10.0, value_parser = parse_seconds)]
    pub settle: f64,
    /// Where the servers' data directories are made.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl OpsArgs {
    /// What was asked for that the other server cannot do, in words.
    pub fn impossible(&self) -> Option<&'static str> {
        if self.vs != Some(OpsPeer::Etcd) {
            return None;
        }
        if self.commands.iter().any(|command| command != "GET" && command != "SET") {
            return Some("beside etcd the commands are GET and SET");
        }
        if self.pipeline != [1] {
            return Some("beside etcd one command travels at a time: --pipeline 1");
        }
        let always = self.fsync == ["always"];
        (!always).then_some("etcd waits for the disk with every write: --fsync always")
    }
}

fn parse_condition(text: &str) -> Result<String, String> {
    if text == "all" || CONDITIONS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("a condition is one of {} or all", CONDITIONS.join(", ")))
}

/// A number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1".to_owned())
}

/// A number of seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse().ok().filter(|seconds| (0.05..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "seconds are a number from 0.05 to 86400".to_owned())
}

fn parse_sizes(text: &str) -> Result<(u16, u16), String> {
    let sizes = text.split_once(':').and_then(|(w, s)| Some((w.parse().ok()?, s.parse().ok()?)));
    let sizes = sizes.filter(|(workers, shards)| *workers > 0 && *shards > 0);
    sizes.ok_or_else(|| "a size is workers:shards, such as 2:4".to_owned())
}

/// A duration with its unit, `150us`, `1.5ms`, `2s`; plain numbers are microseconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[number.len()..] {
        "us" | "" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        _ => f64::NAN,
    };
    let us = number.parse::<f64>().unwrap_or(f64::NAN) * scale;
    if (0.0..=60e6).contains(&us) {
        return Ok(Duration::from_nanos((us * 1e3) as u64));
    }
    Err("a duration is a number with us, ms or s, up to a minute".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    #[test]
    fn durations_have_units() {
        assert_eq!(parse_duration("150us"), Ok(Duration::from_micros(150)));
        assert_eq!(parse_duration("1.5ms"), Ok(Duration::from_micros(1500)));
        assert_eq!(parse_duration("0"), Ok(Duration::ZERO));
        for wrong in ["", "x", "-1ms", "1h", "61s", "nan"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    fn ops(words: &[&str]) -> OpsArgs {
        let command = OpsArgs::augment_args(clap::Command::new("ops"));
        let words = ["ops"].iter().chain(words);
        OpsArgs::from_arg_matches(&command.get_matches_from(words)).expect("valid words")
    }

    #[test]
    fn another_server_has_defaults_that_it_can_do() {
        let plain = ops(&[]);
        assert_eq!((plain.commands.len(), plain.replicas, &plain.clients[..]), (5, 1, &[50][..]));
        let etcd = ops(&["--vs", "etcd"]);
        assert_eq!((&etcd.commands[..], etcd.replicas), (&["GET".into(), "SET".into()][..], 3));
        assert_eq!((&etcd.clients[..], &etcd.sizes[..]), (&[1, 256][..], &[(1, 3)][..]));
        assert_eq!(etcd.impossible(), None);
        assert!(ops(&["--vs", "etcd", "--commands", "set,incr"]).impossible().is_some());
        assert!(ops(&["--vs", "etcd", "--pipeline", "1,16"]).impossible().is_some());
        assert!(ops(&["--vs", "etcd", "--fsync", "no"]).impossible().is_some());
        assert_eq!(ops(&["--vs", "redis", "--fsync", "no"]).impossible(), None);
    }

    #[test]
    fn other_words_are_checked() {
        assert_eq!(parse_sizes("2:4"), Ok((2, 4)));
        assert!(parse_sizes("2").is_err() && parse_sizes("0:1").is_err());
        assert!(parse_share("1.1").is_err() && parse_share("0.5").is_ok());
        assert!(parse_condition("rw+phase").is_ok() && parse_condition("mvcc").is_err());
        assert_eq!(parse_seconds("2s"), Ok(2.0));
    }
}
