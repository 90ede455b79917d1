//! Configuration of a shard.

use crate::ids::{GatewayId, ShardId};
use crate::message::Concurrency;
use crate::script::Interpreter;
use adt::command::tags::TagRules;

/// Configuration of a shard.
#[derive(Clone, Debug)]
pub struct ShardConfig {
    /// Number of the shard.
    pub id: ShardId,
    /// Parts of the concurrency control that are on.
    pub concurrency: Concurrency,
    /// Seed of the shard's random numbers.
    pub seed: u64,
    /// The gateway next to the shard, which carries messages about ends of sessions and, in a cluster,
    /// finds out the fate of transactions whose own gateway is silent.
    pub beside: GatewayId,
    /// There are other machines, or may be. A server that is alone settles open transactions when it starts.
    pub clustered: bool,
    /// How often the leader looks for nodes of the coordination service that are due.
    pub reap_us: u64,
    /// A rule of the order of pipelines that the shard breaks. A server's shards break none.
    pub broken: Option<Rule>,
    /// Interpreter of scripts. Without one the shard runs none.
    pub interpreter: Option<&'static dyn Interpreter>,
    /// Placement rules of the store, for keys that scripts name.
    pub tags: TagRules,
}

/// Rules of the order of pipelines over several shards (`docs/internals/order/checks.md`), to be broken
/// one at a time: the simulator shows by that what each rule is needed for, and that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A clock goes up to the places that it has given.
    ClocksFollow,
    /// A lower proposal that is not durable yet comes first as well.
    UndurableCounts,
    /// Proposals are sent to other shards when they are durable.
    ProposalsAreDurable,
    /// The refusal of a stream is in the log before it is sent.
    RefusalsAreDurable,
    /// Requests of other sessions wait for units that were sent ahead to several shards of a tree.
    BranchesAreHeld,
    /// Requests of other sessions wait for the prepared parts of a `multi` over several shards.
    PreparedIsHeld,
    /// Earlier versions of records are those of the instant that was asked for.
    VersionsAreExact,
    /// Writes of a script that fails are not seen by the scripts behind it.
    FailedRunsLeaveNothing,
}
