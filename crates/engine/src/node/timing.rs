//! What machines tell each other about how long their messages take.
//!
//! Nothing of it is known to a node, and nothing that must be right rests on it: whoever drives the
//! node asks, answers and draws conclusions. They travel as parcels do because that is the way whose
//! length is wanted.

use probe::watch::{AppendRow, Figures, Wish};

/// A word about time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Timing {
    /// To be answered at once.
    Question {
        /// Tells questions apart.
        number: u32,
        /// When it was sent, by the sender's own clock, in microseconds.
        sent_us: u64,
    },
    /// The answer.
    Answer {
        /// Of which question.
        number: u32,
        /// As in the question.
        sent_us: u64,
        /// How long the question was here, in microseconds.
        service_us: u32,
    },
    /// What the sender has seen of all machines in the last minute.
    Figures(Figures),
    /// Which election time-out the sender uses, and which one would do.
    Wish(Wish),
    /// How long appends of the sender took on other machines in the last minute.
    Appends(Vec<AppendRow>),
}
