//! What machines tell each other about how long their messages take.
//!
//! Nothing of it is known to a node, and nothing that must be right rests on it: whoever drives the
//! node asks, answers and draws conclusions. They travel as parcels do because that is the way whose
//! length is wanted.

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
}

/// What a machine has seen in the last minute. Times are in microseconds; the largest number stands
/// for what never came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Grows by one with every time that they are told.
    pub number: u32,
    /// How long the machine has been there, in seconds.
    pub up_s: u32,
    /// How late its own timers were: the 90th percentile.
    pub late_us: u32,
    /// What it has seen of each other machine.
    pub rows: Vec<Row>,
}

/// What a machine has seen of another one in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The other machine.
    pub machine: u16,
    /// Questions.
    pub count: u16,
    /// Those without an answer in time.
    pub lost: u16,
    /// Seconds since the last answer.
    pub silent_s: u16,
    /// Median round trip.
    pub p50_us: u32,
    /// 90th percentile of the round trips.
    pub p90_us: u32,
    /// The shortest of a day.
    pub near_us: u32,
    /// 90th percentile of how long questions were at the other machine.
    pub service_us: u32,
    /// It was there for long enough to be judged.
    pub settled: bool,
}
