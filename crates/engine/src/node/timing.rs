//! Messages about delays between machines.
//!
//! A node only forwards them, and no guarantee depends on them: the driver of the node asks,
//! answers and draws conclusions. They travel as parcels because the delay of parcels is to be
//! measured.

use probe::watch::{AppendRow, Figures, Wish};

/// Message about delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Question, to be answered at once.
    Question {
        /// Number of the question.
        number: u32,
        /// Send time by the sender's own clock, in microseconds.
        sent_us: u64,
    },
    /// Answer to a question.
    Answer {
        /// Number of the question.
        number: u32,
        /// Send time as in the question.
        sent_us: u64,
        /// Time between the arrival of the question and this answer, in microseconds.
        service_us: u32,
    },
    /// Measurements of the sender for all machines in the last minute.
    Figures(Figures),
    /// Election time-out that the sender uses, and one that it proposes.
    Wish(Wish),
    /// Times of the sender's appends on other machines in the last minute.
    Appends(Vec<AppendRow>),
}
