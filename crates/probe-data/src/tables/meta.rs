//! Metadata of a file: a JSON document.
//!
//! A single file must be self-describing: the deployment, the names of nodes, the groups, and the
//! planted effects if the data are synthetic.

use serde::{Deserialize, Serialize};

/// Version of the tables and of this document.
pub const VERSION: u32 = 1;
/// Key of the document in a Parquet file.
pub const KEY: &str = "claret.probe";

/// Table that a file belongs to.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Table {
    /// Calls.
    Rpc,
    /// Resources of hosts.
    Res,
    /// Calls that were slow on one callee.
    Slow,
    /// Calls of a thinned-out day, as counts.
    Sketch,
    /// Calls of a thinned-out day that were kept one by one.
    Tail,
    /// Resources of hosts on a thinned-out day, ten minutes per row.
    Load,
}

impl Table {
    /// Prefix of file names.
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

/// Origin of the data.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Agents measured them.
    Measured,
    /// Simulated, with known truth.
    Simulated,
    /// Imported from another program.
    Imported,
}

/// Configuration of the agents.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Config {
    /// Time between two ticks.
    pub period_ms: u64,
    /// Sizes of groups, used in turn.
    pub plan: Vec<usize>,
    /// Seed of groups and phases.
    pub seed: u64,
    /// Version of the member list from which the groups were drawn.
    pub membership_version: u64,
    /// Whether members use different workloads at the same time.
    pub stagger: bool,
    /// Whether members of a group are called at different times, so that their calls do not form a
    /// call of the whole group.
    #[serde(default)]
    pub apart: bool,
    /// Whether callees of workload B signed the hash.
    #[serde(default)]
    pub signs: bool,
    /// Size of a payload in bytes.
    pub payload_bytes: u32,
    /// Devices that the columns about disks are summed over.
    #[serde(default)]
    pub disks: Vec<String>,
    /// Interfaces that the columns about the network are summed over.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

/// State of the clock when the file was begun.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Clock {
    /// Whether it is synchronised, according to the kernel.
    pub synchronised: Option<bool>,
    /// Estimated error.
    pub estimated_error_us: Option<u32>,
    /// Maximum error.
    pub maximum_error_us: Option<u32>,
}

/// One run of an agent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Incarnation {
    /// Node of the agent.
    pub node: u16,
    /// Random number drawn at its start, in hexadecimal.
    pub number: String,
}

/// Planted effects in synthetic data.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Planted {
    /// Slow nodes.
    pub slow_nodes: Vec<u16>,
    /// Pauses per node and second.
    pub pauses_per_node_s: f64,
    /// Mean length of a pause.
    pub pause_mean_ms: f64,
    /// Latency of calls that were deliberately delayed.
    pub late_ms: u64,
    /// One member is late in one of this many rounds.
    pub one_late_in: u32,
    /// Two members are late in one of this many rounds.
    pub two_late_in: u32,
    /// Calls without reply, per million.
    pub lost_ppm: u32,
}

/// Metadata of a file.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Metadata {
    /// Version of the format: [`VERSION`].
    pub version: u32,
    /// Table of the file.
    pub table: Table,
    /// Origin of the data.
    pub origin: Origin,
    /// Name of the deployment.
    pub deployment: String,
    /// Day, counted since 1970, that the column `epoch` calls 0.
    pub first_epoch: i64,
    /// Epoch of the file, as in the column.
    pub epoch: u16,
    /// Node of the file: the caller, or the host.
    pub node: u16,
    /// Names of all nodes, by index.
    pub nodes: Vec<String>,
    /// Groups of the epoch: members, by index.
    pub groups: Vec<Vec<u16>>,
    /// Nodes that were in no group.
    #[serde(default)]
    pub resting: Vec<u16>,
    /// Configuration of the agents.
    pub config: Config,
    /// The clock of the node.
    #[serde(default)]
    pub clock: Clock,
    /// Incarnations that the column `inc` refers to.
    #[serde(default)]
    pub incarnations: Vec<Incarnation>,
    /// Build that wrote the file.
    pub build: String,
    /// Planted effects, if the data are synthetic.
    #[serde(default)]
    pub planted: Option<Planted>,
}

impl Metadata {
    /// File name within the data set, without its extension.
    pub fn stem(&self) -> String {
        format!("{}-{:05}-{:05}", self.table.name(), self.epoch, self.node)
    }
}
