//! Command-line options of `claret bench`.

use crate::coordination::args::{LocksArgs, SmokeArgs};
use crate::coordination::crowd::CrowdArgs;
use crate::fanout::args::FanoutArgs;
use crate::hot::args::HotArgs;
use crate::load::threads;
use crate::memory::MemoryArgs;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;

/// Names of the conditions, in the order in which each adds a feature.
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
    /// Most bidders bid again on items they have bid on before, more often as the auction nears its
    /// end. Measure for long enough to include the worst five seconds:
    ///
    ///   claret bench rubis --mix bid-heavy --clients 64 --seconds 30
    #[command(verbatim_doc_comment)]
    Rubis(RubisArgs),
    /// A social network: posts go to the timelines of all followers.
    ///
    /// The follower graph is a Kronecker graph; posts with many reposts are reposted more often.
    ///
    ///   claret bench retwis --mix post-heavy --cc rw+phase,full
    #[command(verbatim_doc_comment)]
    Retwis(RetwisArgs),
    /// Single commands, pipelined or not, compared with redis-server or etcd.
    ///
    /// Without options: the server as shipped (`claret serve` chooses shards, workers and the order
    /// of pipelines), the same with `--order none`, and redis-server, all at the same time and
    /// measured in turns; 50 connections, one command at a time and sixteen, nothing flushed to
    /// disk and every write. Two columns compare a row with Redis, above 1 in favour of Claret:
    /// ops_ratio is Claret's operations per second over Redis', cpu_ratio is Redis' processor time
    /// per operation over Claret's. Both are medians of the runs' own ratios; ops_ratio_range has
    /// the smallest and the largest. Where load and servers share few cores, cpu_ratio means more.
    /// client_cpus are the processors that the load kept busy, and limit says whether the row shows
    /// something else than the server: load (its threads had no time left, so use more of them), or
    /// machine (no processor had any):
    ///
    ///   claret bench ops
    ///   claret bench ops --vs none --sizes 1:1,2:2 --commands SET --clients 1,50
    ///
    /// The comparison with etcd uses as many etcd members as Claret has machines (default three),
    /// GET as a linearizable Range and SET as a Put. etcd flushes every write to disk, so Claret
    /// does too. Connections are spread over the machines round-robin on both sides; with fewer
    /// connections than machines, a run is divided into one part per machine, each starting at
    /// another machine. Claret's keys are spread over three shards, whose leaders are on different
    /// machines; etcd has one Raft group.
    ///
    ///   claret bench ops --replicas 3 --vs etcd --clients 1,256
    #[command(verbatim_doc_comment)]
    Ops(OpsArgs),
    /// An idle cluster: processor time, and memory per Raft group.
    ///
    /// Starts a cluster with one shard and one with many, waits until both are at rest, and
    /// measures each: processor time of all processes in percent of one core, memory, and the
    /// traffic between the machines.
    ///
    ///   claret bench idle --shards 1000 --replicas 3
    #[command(verbatim_doc_comment)]
    Idle(IdleArgs),
    /// Memory per key, beside redis-server.
    ///
    /// Fills new servers with a million strings of 32 bytes, a hundred thousand hashes of 10 fields,
    /// ten thousand sets of 100 members, one kind of data per server. Keys, members and values of
    /// fields have 16 bytes. What the server took before is subtracted: resident is the memory of
    /// its process, used and dataset are the server's own account (`INFO memory`), log the part of
    /// Claret's log that is in memory until the next snapshot. Ratios are Claret's memory over
    /// Redis', below 1 in favour of Claret:
    ///
    ///   claret bench memory
    ///   claret bench memory --vs none --scale 0.1
    #[command(verbatim_doc_comment)]
    Memory(MemoryArgs),
    /// Hot records: the programs that a newcomer writes, beside Redis, PostgreSQL and etcd.
    ///
    /// Every client changes one record of few, over and over, so that clients meet. Every commit is
    /// flushed to the same disk. Tasks, and the programs for them:
    ///
    ///   rewrite  read a number, add one, write it back: TXN (claret), WATCH and a script (claret,
    ///            redis), SELECT ... FOR UPDATE and UPDATE (postgres); and MULTI with INCRBY, for
    ///            which nothing has to be read (claret, redis)
    ///   take     take one item if there is one; there always is: TXN with COUNTER.ATLEAST and
    ///            COUNTER.TRY, COUNTER.TRY alone (claret), a script (claret, redis), UPDATE ... WHERE
    ///            (postgres)
    ///   stock    take one, or bring one if there is room for it, so that the guards also refuse:
    ///            the same programs
    ///   bucket   take a token from a bucket that refills by the server's time, or be refused: a
    ///            script (claret, redis)
    ///   release  acquire a lock (SET NX PX), and release it with the next script if it is still
    ///            ours; each script counts: two scripts (claret, redis)
    ///   fetch    move the next job of a queue to the active ones, read it and set its state, or put
    ///            one into the queue if it is empty: a script (claret, redis)
    ///   auction  bid in an auction that keeps the best bid and the number of bids: an operation of a
    ///            type, TXN over three keys or over a hash (claret), WATCH, a script (claret, redis),
    ///            UPDATE (postgres), a read and a Txn that compares the revision (etcd)
    ///
    /// At the end of each run of auction, the record must have the bids that were acknowledged.
    /// Scripts (eval) have the same text on both servers, are loaded in the beginning and called by
    /// name (EVALSHA). Programs that can abort try again until they commit; a latency contains all
    /// attempts. refused_per_commit is the share of programs that found the item, the token or the
    /// lock taken, or the queue empty. over_eval and over_postgres are the row's commits per second
    /// over those of Redis' script and of PostgreSQL in the same cell; over_eval_per_cpu is the same
    /// of commits per second of the server's processor time:
    ///
    ///   claret bench hot --plot hot.svg
    ///   claret bench hot --tasks rewrite --skew one --clients 1,64 --systems claret,redis
    ///   claret bench hot --tasks bucket,release,fetch --systems claret,redis
    ///   claret bench hot --tasks auction --skew one --clients 1,16,64,256 --plot auction.svg
    #[command(verbatim_doc_comment)]
    Hot(HotArgs),
    /// Pipelined requests of many commands over several shards.
    ///
    /// Compares the protocols that keep the issue order: latency of a request by its number of
    /// commands, messages and log writes per request, and the latency relative to the protocol that
    /// waits for each reply (normalized_p50). Without --sim, real servers run on this machine, and
    /// the delays of the topology are added to the traffic between them:
    ///
    ///   claret bench fanout --sim
    ///   claret bench fanout --sim --topology edge,geo --shards 3 --fanout 2,16,32
    ///   claret bench fanout --delay 2ms --fanout 1,8,32 --plot fanout.svg
    #[command(verbatim_doc_comment)]
    Fanout(FanoutArgs),
    /// Coordination: single operations of ZooKeeper's protocol, pipelines of them, and a lock.
    ///
    /// The smoke test of the study on the cost of consensus: creates, sets, gets, deletes,
    /// ephemeral nodes and watches, one by one (sync) and all sent before the first answer (async);
    /// the time per operation is the elapsed time divided by their number. Then pipelined
    /// throughput, an uncontended lock and unlock, and the hand-over time of a lock from one holder
    /// to the next (the queue recipe with relisting). With --vs both services run at the same time
    /// and are measured in turns; both flush every write to disk. A relay on this machine adds the
    /// delays.
    ///
    ///   claret bench smoke --vs zookeeper
    ///   claret bench smoke --servers 3 --client-rtt 20ms --server-rtt 20ms --requests 200
    #[command(verbatim_doc_comment)]
    Smoke(SmokeArgs),
    /// Coordination: locks under delay and contention, compared with the model's prediction.
    ///
    /// Requests for one lock arrive at random and never wait for one another; latency is the time
    /// from a request to its critical section. Every row shows the prediction beside the mean, and
    /// how far the mean can be trusted: whether the lock is stable, critical or overloaded (the
    /// mean of an overloaded lock depends on the length of the measurement only). A run fails if
    /// two requests hold the lock at the same time or a token does not grow. The recipes are the
    /// papers' recipes on nodes: sync-queue (unsafe when a waiter dies), sync-queue-relist,
    /// async-queue, sync-tas, async-tas, tas-watch, and async-queue-watch, which is notified of
    /// waiters that come and go (ZooKeeper 3.6; not on etcd); adaptive-recipe switches between them
    /// while it runs. Claret's own locks are grant, near, retained and cohort. On Claret, adaptive
    /// chooses between grant and retained, elsewhere between recipes.
    ///
    /// Times are those of the experiment; --scale divides them during the run. Named experiments of
    /// the study take long: --dry-run prints the duration, --resume keeps finished points.
    ///
    ///   claret bench locks --client-rtt 100ms --service 50ms --requests 100 --seeds 1
    ///   claret bench locks --experiment E8 --resume e8.jsonl --plot e8.svg
    ///   claret bench locks --experiment E5 --backend claret --algorithm async-tas --seeds 1
    #[command(verbatim_doc_comment)]
    Locks(LocksArgs),
    /// Coordination: cost of many mostly idle sessions.
    ///
    /// Opens sessions, lets each create an ephemeral node and watch others, and measures: memory
    /// per session, node and watch; processor time of ten thousand clients that send nothing but
    /// heartbeats; the time until the last session is notified of a change that all of them watch
    /// (this process receives all notifications, and its own time is included); and the time until
    /// all sessions have ended and their nodes are gone.
    ///
    ///   claret bench crowd --vs zookeeper
    #[command(verbatim_doc_comment)]
    Crowd(CrowdArgs),
}

/// Another server whose single commands are measured in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OpsPeer {
    /// No other server.
    None,
    /// The `redis-server` of this machine.
    Redis,
    /// The `etcd` of this machine; needs the program claret-etcd-load beside this one.
    Etcd,
}

/// Another server whose transactions are measured in the same run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Peer {
    /// The `redis-server` of this machine.
    Redis,
}

/// Options that all transaction loads share.
#[derive(Clone, Debug, Args)]
pub struct Common {
    /// Conditions, separated by commas: none (no transactions), rw (reader/writer locks that fail
    /// at once on conflict), rw+phase (reader/writer locks with a queue), boost (abstract locks),
    /// boost+phase, boost+phase+combine, full (everything; the server's default); or all.
    #[arg(long, value_delimiter = ',', default_value = "none,rw,rw+phase,full",
        value_parser = parse_condition)]
    pub cc: Vec<String>,
    /// Numbers of clients, separated by commas; by default each condition is driven to its peak.
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
    /// When a commit is acknowledged: once it is flushed to disk, once it is written, or at once.
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
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Seed of the random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl Common {
    /// Conditions to run, each once.
    pub fn conditions(&self) -> Vec<&str> {
        let wanted = |name: &&str| self.cc.iter().any(|cc| cc == name || cc == "all");
        CONDITIONS.into_iter().filter(wanted).collect()
    }
}

/// Source of the elements that are added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Elements {
    /// Every element is new.
    New,
    /// Drawn from a pool ten times as large as the initial sets.
    #[value(name = "pool10x")]
    Pool10x,
    /// Drawn from a pool of 100.
    #[value(name = "pool100")]
    Pool100,
}

/// Options of `rawmix`.
#[derive(Clone, Debug, Args)]
pub struct RawmixArgs {
    /// Options that all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Number of sets.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    pub keys: u32,
    /// Exponent of the keys' popularity.
    #[arg(long, default_value_t = 0.6, value_parser = parse_exponent)]
    pub zipf: f64,
    /// Share of operations that add an element; the others ask for the size.
    #[arg(long, default_value_t = 0.5, value_parser = parse_share)]
    pub updates: f64,
    /// Operations per transaction.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub txn_len: u32,
    /// Source of the added elements.
    #[arg(long, value_enum, default_value = "pool10x")]
    pub elements: Elements,
    /// Also run the mix against this server, with MULTI/EXEC and with WATCH.
    #[arg(long, value_enum)]
    pub vs: Option<Peer>,
}

/// Options of `rubis`.
#[derive(Clone, Debug, Args)]
pub struct RubisArgs {
    /// Options that all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Mix of transactions.
    #[arg(long, default_value = "bid-heavy", value_parser = ["bid-heavy", "read-heavy"])]
    pub mix: String,
    /// Items for sale in the beginning.
    #[arg(long, default_value_t = 30_000, value_parser = clap::value_parser!(u32).range(100..=10_000_000))]
    pub items: u32,
    /// Keep each item in one value of a composed type rather than in four records.
    #[arg(long)]
    pub types: bool,
    /// Longest auction, in seconds.
    #[arg(long, default_value_t = 60.0, value_parser = parse_seconds)]
    pub auction_seconds: f64,
}

/// Options of `retwis`.
#[derive(Clone, Debug, Args)]
pub struct RetwisArgs {
    /// Options that all loads share.
    #[command(flatten)]
    pub common: Common,
    /// Mix of transactions.
    #[arg(long, default_value = "post-heavy", value_parser = ["post-heavy", "read-heavy"])]
    pub mix: String,
    /// Upper bound of the number of users, as a power of two.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(4..=22))]
    pub scale: u32,
    /// Generated links per possible user.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub edge_factor: u32,
    /// Keep each post in one value of a composed type rather than in two records.
    #[arg(long)]
    pub types: bool,
}

/// Workers and shards of a Claret server of `ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// As `claret serve` chooses them.
    Shipped,
    /// Chosen numbers of workers and shards.
    Of(u16, u16),
}

/// Options of `ops`.
#[derive(Clone, Debug, Args)]
pub struct OpsArgs {
    /// Also measure this server, in turns; by default redis if it is installed.
    #[arg(long, value_enum)]
    pub vs: Option<OpsPeer>,
    /// Commands, separated by commas; beside etcd, GET and SET.
    #[arg(long, value_delimiter = ',', default_value = "GET,SET,INCR,SADD,ZADD",
        default_value_if("vs", "etcd", "GET,SET"),
        value_parser = PossibleValuesParser::new(COMMANDS).map(|word| word.to_ascii_uppercase()),
        ignore_case = true)]
    pub commands: Vec<String>,
    /// Pipeline depths, separated by commas; beside etcd, 1.
    #[arg(long, value_delimiter = ',', default_value = "1,16",
        default_value_if("vs", "etcd", "1"),
        value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub pipeline: Vec<u32>,
    /// Durability: no (no command waits for the disk), everysec, always; separated by commas;
    /// beside etcd, always.
    #[arg(long, value_delimiter = ',', default_value = "no,always",
        default_value_if("vs", "etcd", "always"),
        value_parser = ["no", "everysec", "always"])]
    pub fsync: Vec<String>,
    /// Claret servers as workers:shards, or default for what `claret serve` chooses, separated by
    /// commas [default: default; beside etcd and with several replicas 1:3].
    #[arg(long, value_delimiter = ',', value_parser = parse_size)]
    pub sizes: Vec<Size>,
    /// Protocols that keep the order of pipelined commands (`claret serve --order`), or default for
    /// what `claret serve` chooses, separated by commas; each size is measured with each [default:
    /// default,none; only default if --sizes is given, beside etcd and with several replicas].
    #[arg(long, value_delimiter = ',',
        value_parser = ["default", "constant", "chain", "single", "none"])]
    pub order: Vec<String>,
    /// Machines of each Claret server, each a process with a replica of every shard; connections
    /// are spread over them. etcd has as many members; the default beside etcd is 3.
    #[arg(long, default_value_t = 1, default_value_if("vs", "etcd", "3"),
        value_parser = clap::value_parser!(u16).range(1..=5))]
    pub replicas: u16,
    /// Numbers of connections, separated by commas; beside etcd, 1 and 256.
    #[arg(long, value_delimiter = ',', default_value = "50",
        default_value_if("vs", "etcd", "1,256"),
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub clients: Vec<u32>,
    /// Threads of the load, each with its share of the connections [default: half of the cores;
    /// beside etcd 1].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub load_threads: Option<u16>,
    /// Runs of each cell; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub runs: u32,
    /// Measured seconds per run.
    #[arg(long, default_value_t = 1.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Options of `idle`.
#[derive(Clone, Debug, Args)]
pub struct IdleArgs {
    /// Shards of the larger cluster.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u16).range(2..=1_024))]
    pub shards: u16,
    /// Machines, each a process with a replica of every shard.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=5))]
    pub replicas: u16,
    /// Seconds for which each cluster is measured.
    #[arg(long, default_value_t = 30.0, value_parser = parse_seconds)]
    pub seconds: f64,
    /// Seconds to settle before the measurement.
    #[arg(long, default_value_t = 10.0, value_parser = parse_seconds)]
    pub settle: f64,
    /// Parent directory of the servers' data directories.
    #[arg(long, default_value_os_t = std::env::temp_dir())]
    pub dir: PathBuf,
    /// Print one JSON document instead of a table.
    #[arg(long)]
    pub json: bool,
}

impl OpsArgs {
    /// Whether the options ask for one machine beside Redis or alone.
    fn is_plain(&self) -> bool {
        self.replicas == 1 && self.vs != Some(OpsPeer::Etcd)
    }

    /// Threads of the load for this number of connections.
    pub fn threads(&self, clients: u32) -> usize {
        // The load of etcd has one thread.
        let usual = if self.vs == Some(OpsPeer::Etcd) { 1 } else { threads::usual() };
        let threads = self.load_threads.map_or(usual, usize::from);
        threads.min(clients as usize)
    }

    /// Claret servers to measure: size and order protocol of each.
    pub fn servers(&self) -> Vec<(Size, &str)> {
        let sizes = match (&self.sizes[..], self.is_plain()) {
            ([], true) => &[Size::Shipped],
            ([], false) => &[Size::Of(1, 3)],
            (given, _) => given,
        };
        let orders: Vec<&str> = match &self.order[..] {
            [] if self.sizes.is_empty() && self.is_plain() => vec!["default", "none"],
            [] => vec!["default"],
            given => given.iter().map(String::as_str).collect(),
        };
        sizes.iter().flat_map(|size| orders.iter().map(|order| (*size, *order))).collect()
    }

    /// Description of a requested option that the other server or a cluster does not support.
    pub fn impossible(&self) -> Option<&'static str> {
        if !self.is_plain() && self.sizes.contains(&Size::Shipped) {
            return Some("a server of several machines needs --sizes workers:shards");
        }
        if self.vs != Some(OpsPeer::Etcd) {
            return None;
        }
        if self.commands.iter().any(|command| command != "GET" && command != "SET") {
            return Some("--vs etcd supports the commands GET and SET only");
        }
        if self.pipeline != [1] {
            return Some("--vs etcd sends one command at a time: use --pipeline 1");
        }
        if self.load_threads.is_some_and(|threads| threads > 1) {
            return Some("the load of etcd has one thread: use --load-threads 1");
        }
        let always = self.fsync == ["always"];
        (!always).then_some("etcd flushes every write to disk: use --fsync always")
    }
}

fn parse_condition(text: &str) -> Result<String, String> {
    if text == "all" || CONDITIONS.contains(&text) {
        return Ok(text.to_owned());
    }
    Err(format!("a condition is one of {} or all", CONDITIONS.join(", ")))
}

/// Parses a number from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share is a number from 0 to 1".to_owned())
}

/// Parses the exponent of a power law.
pub fn parse_exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent));
    exponent.ok_or_else(|| "an exponent is a number from 0 to 10".to_owned())
}

/// Parses a number of seconds.
pub fn parse_seconds(text: &str) -> Result<f64, String> {
    let digits = text.strip_suffix('s').unwrap_or(text);
    let seconds = digits.parse().ok().filter(|seconds| (0.05..=86_400.0).contains(seconds));
    seconds.ok_or_else(|| "seconds are a number from 0.05 to 86400".to_owned())
}

fn parse_size(text: &str) -> Result<Size, String> {
    if text == "default" {
        return Ok(Size::Shipped);
    }
    let sizes = text.split_once(':').and_then(|(w, s)| Some((w.parse().ok()?, s.parse().ok()?)));
    let sizes = sizes.filter(|(workers, shards)| *workers > 0 && *shards > 0);
    let size = sizes.map(|(workers, shards)| Size::Of(workers, shards));
    size.ok_or_else(|| "a size is workers:shards, such as 2:4, or default".to_owned())
}

/// Parses a duration with its unit, `150us`, `1.5ms`, `2s`; plain numbers are microseconds.
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
        assert_eq!(
            (&etcd.clients[..], etcd.servers()),
            (&[1, 256][..], vec![(Size::Of(1, 3), "default")])
        );
        assert_eq!(etcd.impossible(), None);
        assert!(ops(&["--vs", "etcd", "--commands", "set,incr"]).impossible().is_some());
        assert!(ops(&["--vs", "etcd", "--pipeline", "1,16"]).impossible().is_some());
        assert!(ops(&["--vs", "etcd", "--fsync", "no"]).impossible().is_some());
        assert_eq!(ops(&["--vs", "redis", "--fsync", "no"]).impossible(), None);
        assert!(ops(&["--vs", "etcd", "--load-threads", "2"]).impossible().is_some());
        assert_eq!((etcd.threads(50), ops(&["--load-threads", "8"]).threads(4)), (1, 4));
    }

    #[test]
    fn the_server_is_measured_as_shipped_unless_a_size_is_given() {
        let shipped = vec![(Size::Shipped, "default"), (Size::Shipped, "none")];
        assert_eq!(ops(&[]).servers(), shipped);
        let sized = vec![(Size::Of(1, 1), "default"), (Size::Of(2, 2), "default")];
        assert_eq!(ops(&["--sizes", "1:1,2:2"]).servers(), sized);
        let both = ops(&["--sizes", "default,2:4", "--order", "chain"]);
        assert_eq!(both.servers(), vec![(Size::Shipped, "chain"), (Size::Of(2, 4), "chain")]);
        assert_eq!(ops(&["--replicas", "3"]).servers(), vec![(Size::Of(1, 3), "default")]);
        assert!(ops(&["--replicas", "3", "--sizes", "default"]).impossible().is_some());
    }

    #[test]
    fn other_words_are_checked() {
        assert_eq!(parse_size("2:4"), Ok(Size::Of(2, 4)));
        assert!(parse_size("2").is_err() && parse_size("0:1").is_err());
        assert!(parse_share("1.1").is_err() && parse_share("0.5").is_ok());
        assert_eq!(parse_exponent("1.4"), Ok(1.4));
        for wrong in ["nan", "-1", "11", "x"] {
            assert!(parse_exponent(wrong).is_err(), "{wrong}");
        }
        assert!(parse_condition("rw+phase").is_ok() && parse_condition("mvcc").is_err());
        assert_eq!(parse_seconds("2s"), Ok(2.0));
    }
}
