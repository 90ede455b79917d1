//! Conditions of the published study: parts of the concurrency control that a server can omit, to
//! measure their effect (`--cc`).

/// Condition of the published study; everything by default. Only this module knows which parts are
/// on; all other code asks for single properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    transactions: bool,
    abstract_locks: bool,
    phases: bool,
    combining: bool,
    deferred: bool,
}

impl Concurrency {
    /// Everything.
    pub const FULL: Self = Self {
        transactions: true,
        abstract_locks: true,
        phases: true,
        combining: true,
        deferred: true,
    };

    /// The condition called `name`: `none`, `rw`, `rw+phase`, `boost`, `boost+phase`,
    /// `boost+phase+combine` or `full`.
    pub fn named(name: &str) -> Option<Self> {
        let none = Self {
            transactions: false,
            abstract_locks: false,
            phases: false,
            combining: false,
            deferred: false,
        };
        let rw = Self { transactions: true, ..none };
        let boost = Self { abstract_locks: true, ..rw };
        Some(match name {
            "none" => none,
            "rw" => rw,
            "rw+phase" => Self { phases: true, ..rw },
            "boost" => boost,
            "boost+phase" => Self { phases: true, ..boost },
            "boost+phase+combine" => Self { phases: true, combining: true, ..boost },
            "full" => Self::FULL,
            _ => return None,
        })
    }

    /// The names that [`Concurrency::named`] knows.
    pub const NAMES: [&'static str; 7] =
        ["none", "rw", "rw+phase", "boost", "boost+phase", "boost+phase+combine", "full"];

    /// Whether the operations of a transaction take locks and take effect together. Otherwise each
    /// of them takes effect alone, at its request.
    pub(crate) fn takes_locks(self) -> bool {
        self.transactions
    }

    /// Whether operations that a program issues together at its beginning are sent to their shard
    /// in one request.
    pub(crate) fn sends_in_one_step(self) -> bool {
        self.transactions
    }

    /// Whether operations that commute share a lock, rather than only reads.
    pub(crate) fn shares_by_mode(self) -> bool {
        self.abstract_locks
    }

    /// Whether a transaction waits for a lock that another one holds, rather than being refused at once.
    pub(crate) fn waits_for_locks(self) -> bool {
        self.phases
    }

    /// Whether transactions of one gateway share the locks and values of what they read.
    pub(crate) fn shares_reads(self) -> bool {
        self.combining && self.transactions
    }

    /// Whether transactions that only read do so at one instant, without locks.
    pub(crate) fn reads_without_locks(self) -> bool {
        self.deferred
    }

    /// Whether writes that answer at the commit take their locks then, if they take any.
    pub(crate) fn defers_writes(self) -> bool {
        self.deferred || !self.transactions
    }

    /// Whether a gateway lets reads announce a write where one has mostly followed.
    pub(crate) fn learns_intents(self) -> bool {
        self.deferred
    }

    /// Whether the locks of a transaction on one shard end when its commit has its place in the log, and
    /// reads of the next ones are answered from there.
    pub(crate) fn reads_ahead(self) -> bool {
        self.deferred
    }

    /// Whether a gateway delays transactions while too many are aborted.
    pub(crate) fn admits_a_few(self) -> bool {
        self.deferred
    }
}
