//! How often does a group elect a leader although it has one, and how long is it without one when it
//! has lost it?
//!
//! The replicated log of one shard, the product's own, on virtual time, on machines that stand still
//! now and then and connections that take their time. Nobody asks anything of it, it never sleeps,
//! and nothing else is simulated, so that tens of thousands of hours are affordable: while nothing
//! stands still and everybody follows the leader, every election time-out goes by as the one before,
//! and such time is skipped.

mod law;
mod world;

pub use engine::replication::Pace;
pub use law::{Law, Pauses};

/// What is to be simulated.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How machines stand still, and how long messages take. It says how many machines there are, too.
    pub law: Law,
    /// How the group counts time.
    pub pace: Pace,
    /// The seed.
    pub seed: u64,
    /// Hours in which no machine dies.
    pub hours: u64,
    /// How often the leader is killed after that. It is back fifteen seconds later, with its disk.
    pub kills: u32,
    /// Skip time in which nothing can happen.
    pub skips: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Microseconds of virtual time in which no machine was killed.
    pub quiet_us: u64,
    /// Leaders that were elected in that time although the leader before was alive.
    pub needless: u64,
    /// After the death of a leader, how long until another one served; microseconds, in the order of
    /// deaths.
    pub outages_us: Vec<u64>,
    /// Events that were simulated.
    pub events: u64,
    /// Microseconds that were skipped.
    pub skipped_us: u64,
    /// A number that is the same if, and only if, everything was.
    pub hash: u64,
}

/// Simulates it.
///
/// # Errors
/// If the consensus library refuses, or a group that nothing happens to has no leader.
pub fn run(plan: &Plan) -> Result<Seen, String> {
    world::World::new(plan)?.run()
}
