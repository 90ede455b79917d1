//! The probe inside of a server: how long messages to each other machine take, all the time.
//!
//! Once a second, in an open loop, every machine asks every other one a question that is answered at
//! once. [`Asker`] says whom to ask and keeps what came of it; every ten seconds its
//! [`Figures`] go to all machines. So each has what all have seen, and [`Judge`] finds the same in it
//! on every machine: which of them are slow, which connections are bad, who only sees badly.
//! [`Planner`] says which leads should go elsewhere because of that.
//!
//! Leaders know as well how long it takes until an append is durable on another machine: the same way,
//! and a disk at its end. Whoever is late with that, and answers questions in time, has a slow disk.
//!
//! [`Collected`] says which time-outs would follow, and [`Agreement`] which one all of them use.
//!
//! Whoever does not answer is not left out: an answer that never came counts as later than
//! everything, and silence is shown. Nothing here decides anything that must be right: the worst that
//! a wrong verdict can do is a lead that changes hands.

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

/// How often each machine is asked.
pub const ASK_US: u64 = 1_000_000;
/// How often figures are told, and judged.
pub const WINDOW_US: u64 = 10_000_000;
/// An answer that takes longer never came.
pub const ANSWER_US_MAX: u64 = 5_000_000;
/// A machine that has just begun, or is just connected, is not judged.
pub const GRACE_US: u64 = 120_000_000;
/// Figures that are older say nothing about now.
pub const FIGURES_US_MAX: u64 = 35_000_000;

/// Latencies are not compared if they differ by less.
pub const FLOOR_US: u32 = 1_000;
/// Nor are appends: disks of one kind differ by some milliseconds, and leads are not moved for that.
pub const APPEND_FLOOR_US: u32 = 10_000;

#[cfg(test)]
mod tests;

const P50: u32 = 500_000;
const P90: u32 = 900_000;
const P99: u32 = 990_000;
