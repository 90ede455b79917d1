//! What a file says about itself: a JSON document in its metadata.
//!
//! Whoever finds one file must be able to say what is in it: which deployment, which nodes by
//! which names, which groups, and what was planted if the data are synthetic.

use serde::{Deserialize, Serialize};

/// The version of the tables and of this document.
pub const VERSION: u32 = 1;
/// Under which key the document is kept in a Parquet file.
pub const KEY: &str = "claret.probe";

/// Which table a file belongs to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Calls.
    Rpc,
    /// Resources of hosts.
    Res,
    /// Calls that took one callee long.
    Slow,
    /// Calls of a day that was thinned out, counted.
    Sketch,
    /// The calls of such a day that were kept one by one.
    Tail,
    /// Resources of hosts on such a day, ten minutes a row.
    Load,
}

impl Table {
    /// How file names begin.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::Res => "res",
            Self::Slow => "slow",
            Self::Sketch => "sketch",
            Self::Tail => "tail",
            Self::Load => "load",
        }
    }
}

/// Where the data come from.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Agents measured them.
    Measured,
    /// Made up, with known truth.
    Simulated,
    /// From files of another program.
    Imported,
}

/// How the agents were set up.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Config {
    /// Time between two ticks.
    pub period_ms: u64,
    /// Sizes of groups, taken in turn.
    pub plan: Vec<usize>,
    /// The seed of groups and phases.
    pub seed: u64,
    /// Which version of the member list the groups were drawn from.
    pub membership_version: u64,
    /// Members take different workloads at a time.
    pub stagger: bool,
    /// Members of a group are called at different times, so that no call of a whole group can be made of
    /// their calls.
    #[serde(default)]
    pub apart: bool,
    /// Callees of workload B signed what they had hashed.
    #[serde(default)]
    pub signs: bool,
    /// Bytes of a payload.
    pub payload_bytes: u32,
    /// Devices that the columns about disks are summed over.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Interfaces that the columns about the network are summed over.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

/// What was known of the clock when the file was begun.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Clock {
    /// Whether the kernel says that it is synchronised.
    pub synchronised: Option<bool>,
    /// Its estimated error.
    pub estimated_error_us: Option<u32>,
    /// Its largest possible error.
    pub maximum_error_us: Option<u32>,
}

/// One life of an agent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Incarnation {
    /// Whose.
    pub node: u16,
    /// The number that was drawn at its start, in hexadecimal.
    pub number: String,
}

/// What was planted in synthetic data.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Planted {
    /// Slow nodes.
    pub slow_nodes: Vec<u16>,
    /// Pauses per node and second.
    pub pauses_per_node_s: f64,
    /// Mean length of a pause.
    pub pause_mean_ms: f64,
    /// The latency of calls that were made late on purpose.
    pub late_ms: u64,
    /// In one of so many rounds, one member is late.
    pub one_late_in: u32,
    /// In one of so many rounds, two members are.
    pub two_late_in: u32,
    /// Calls without reply, per million.
    pub lost_ppm: u32,
}

/// What a file says about itself.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Metadata {
    /// The version of all this: [`VERSION`].
    pub version: u32,
    /// The table.
    pub table: Table,
    /// Where the data come from.
    pub origin: Origin,
    /// The name of the deployment.
    pub deployment: String,
    /// The day, counted since 1970, that the column `epoch` calls 0.
    pub first_epoch: i64,
    /// The file's epoch, as the column says it.
    pub epoch: u16,
    /// Whose file: the caller, or the host.
    pub node: u16,
    /// The names of all nodes, by index.
    pub nodes: Vec<String>,
    /// The groups of the epoch: members, by index.
    pub groups: Vec<Vec<u16>>,
    /// Nodes that were in no group.
    #[serde(default)]
    pub resting: Vec<u16>,
    /// How the agents were set up.
    pub config: Config,
    /// The clock of the node.
    #[serde(default)]
    pub clock: Clock,
    /// What the column `inc` points into.
    #[serde(default)]
    pub incarnations: Vec<Incarnation>,
    /// Which build wrote the file.
    pub build: String,
    /// What was planted, if the data are synthetic.
    #[serde(default)]
    pub planted: Option<Planted>,
}

impl Metadata {
    /// How a file is called within the data set, without its ending.
    pub fn stem(&self) -> String {
        format!("{}-{:05}-{:05}", self.table.name(), self.epoch, self.node)
    }
}
