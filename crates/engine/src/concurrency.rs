//! Which parts of the concurrency control are on, for measurement.

/// Which parts of the concurrency control are on: the conditions of the published study, for
/// measurement. Everything is on by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    /// Transactions take locks at all. Off: each operation of a transaction takes effect alone.
    pub transactions: bool,
    /// Locks are abstract (commuting operations share them) rather than reader/writer locks.
    pub abstract_locks: bool,
    /// Requests that conflict wait in phases rather than abort at once.
    pub phases: bool,
    /// Gateways share locks and values among their transactions.
    pub combining: bool,
    /// Void operations travel with the commit rather than lock early, and read-only transactions
    /// take no locks.
    pub deferred: bool,
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
}
