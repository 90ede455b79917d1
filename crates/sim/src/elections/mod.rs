//! Frequency of needless elections, and time without a leader after the leader's death.
//!
//! Simulates the replicated log of one shard, the product's own, in virtual time, on machines that
//! pause now and then and connections that delay messages. It receives no requests, it never
//! sleeps, and nothing else is simulated, so that tens of thousands of hours are affordable. While
//! no machine pauses and all follow the leader, every election time-out is like the one before, and
//! such time is skipped.

mod law;
mod world;

pub use engine::replication::Pace;
pub use law::{Law, Pauses};

/// Parameters of a simulation.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Pauses of machines and delays of messages; also determines the number of machines.
    pub law: Law,
    /// Tick and time-outs of the group.
    pub pace: Pace,
    /// Seed.
    pub seed: u64,
    /// Hours in which no machine dies.
    pub hours: u64,
    /// Number of kills of the leader after that. It returns fifteen seconds later, with its disk.
    pub kills: u32,
    /// Whether to skip time in which nothing can happen.
    pub skips: bool,
}

/// Results.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Virtual time in which no machine was killed, in microseconds.
    pub quiet_us: u64,
    /// Leaders elected in that time although the leader before was alive.
    pub needless: u64,
    /// Time from each death of a leader until another leader served, in microseconds, in order.
    pub outages_us: Vec<u64>,
    /// Number of simulated events.
    pub events: u64,
    /// Skipped time in microseconds.
    pub skipped_us: u64,
    /// Hash that is equal exactly if all events were equal.
    pub hash: u64,
}

/// Runs the simulation.
///
/// # Errors
/// If the consensus library refuses an operation, or an undisturbed group has no leader.
pub fn run(plan: &Plan) -> Result<Seen, String> {
    world::World::new(plan)?.run()
}
