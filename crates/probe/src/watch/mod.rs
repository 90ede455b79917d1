//! The probe inside a server: continuous measurement of message latency to each other machine.
//!
//! Once a second, in an open loop, every machine sends every other one a request that is answered
//! at once. [`Asker`] schedules the requests and keeps the results; every ten seconds its
//! [`Figures`] go to all machines. So each machine has the measurements of all, and [`Judge`]
//! derives the same findings on every machine: slow machines, bad connections, impaired observers.
//! [`Planner`] decides which leads should move because of that.
//!
//! Leaders also measure the time until an append is durable on another machine: the same path, with
//! a disk at its end. A machine that is late with appends, and answers requests in time, has a slow
//! disk.
//!
//! [`Collected`] computes the time-outs that would follow, and [`Agreement`] the one that all of
//! them use.
//!
//! Silent machines are not left out: an answer that never arrived counts as later than any other,
//! and silence is shown. No decision that concerns safety depends on this module: the worst effect
//! of a wrong verdict is a lead that changes hands.

mod agree;
mod ask;
mod disks;
mod judge;
mod law;
mod plan;
mod timers;
mod verdict;

pub use agree::{Agreement, Bounds, Change, Scene as AgreementScene, Wish};
pub use ask::{Asker, Figures, Law3, Row, Seen};
pub use disks::AppendRow;
pub use judge::{Class, Found, judge};
pub use law::{LOST_US, Law, Sliding};
pub use plan::{Lead, Move, Planner, Scene};
pub use timers::{Collected, InUse, QUESTIONS_MIN};
pub use verdict::{Event, Judge, Subject, Verdict};

/// Interval of the requests to each machine.
pub const ASK_US: u64 = 1_000_000;
/// Interval at which figures are sent and judged.
pub const WINDOW_US: u64 = 10_000_000;
/// Time after which an answer counts as lost.
pub const ANSWER_US_MAX: u64 = 5_000_000;
/// Time after its start or connection in which a machine is not judged.
pub const GRACE_US: u64 = 120_000_000;
/// Age from which on figures are obsolete.
pub const FIGURES_US_MAX: u64 = 35_000_000;

/// Difference below which latencies are not compared.
pub const FLOOR_US: u32 = 1_000;
/// Difference below which appends are not compared: disks of one kind differ by some milliseconds,
/// and leads are not moved for that.
pub const APPEND_FLOOR_US: u32 = 10_000;

#[cfg(test)]
mod tests;

const P50: u32 = 500_000;
const P90: u32 = 900_000;
const P99: u32 = 990_000;
