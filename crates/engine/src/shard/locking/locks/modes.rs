//! Claims on a record, and which of them bar each other: by their modes in the usual case, and otherwise by
//! the record's state.

use crate::ids::Age;
use crate::limits::PREPARES_PASS_US_MAX;
use crate::message::Concurrency;
use adt::escrow::{Outstanding, Share};
use adt::key::KeyOp;
use adt::{Access, Mode, Op, Record, Timestamp, record};

/// How an access relates to its transaction's commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered before the transaction commits, or (in conditions without deferral) locked early.
    Early {
        /// The program has seen the reply.
        observed: bool,
    },
    /// In the log, or about to be: carried out in log order.
    Apply,
    /// Prepared for a transaction over several shards: carried out in timestamp order.
    Prepared,
    /// A read that takes no lock; waits only for prepared transactions.
    Passing,
    /// Kept for a request that has waited for an element. Is held and never asked for.
    Kept,
}

/// One access of a request or of a holder.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The operation.
    pub op: Op,
    /// Relation to the commit.
    pub class: Class,
    pub(in crate::shard::locking) void: Mode,
    pub(in crate::shard::locking) seen: Mode,
    /// The transaction is expected to write the record after this read.
    pub(in crate::shard::locking) announced: bool,
    /// Whether it may be answered from the record as it will be when everything in the log is applied.
    pub(in crate::shard::locking) ahead: bool,
    /// Whether that record may be one that expires: the access and the log go by one time.
    pub(in crate::shard::locking) timed: bool,
    /// Use that it makes of the record's quantity.
    pub(in crate::shard::locking) share: Option<Share>,
    /// The record's state shows it already, and does not tell with what it commutes.
    pub(in crate::shard::locking) done: bool,
    /// Writes of its own transaction come before it, which the record's state does not show: they may have
    /// taken away what lets it commute. A second element is taken from a list that has one, for example.
    pub(in crate::shard::locking) behind_own: bool,
}

/// Properties that claims have in common which are alike but for the members of the record that they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::shard::locking) struct ClaimKind {
    pub class: Class,
    writes: bool,
    void: Mode,
    pub seen: Mode,
    announced: bool,
    /// Whether it uses the record's quantity, so that the sums tell of it.
    pub counts: bool,
    done: bool,
}

/// Verdict of the modes of two claims.
enum Clash {
    Never,
    Always,
    /// Unless the accesses commute in the record's state: which of the two replies count.
    UnlessCommuting {
        held: bool,
        asked: bool,
    },
}

impl ClaimKind {
    fn mode(self, observed: bool) -> Mode {
        if observed { self.seen } else { self.void }
    }

    /// Whether `asked` must wait while `self` is held. See the table in
    /// `docs/internals/transactions/locks.md`.
    fn clash(self, asked: Self, cc: Concurrency) -> Clash {
        use Class::{Apply, Early, Kept, Passing, Prepared};
        let (held_observed, asked_observed) = match (self.class, asked.class) {
            (Kept, _) => return Clash::Always,
            (_, Kept)
            | (Passing, _)
            | (Apply, Apply | Prepared | Passing)
            | (Prepared, Prepared) => {
                return Clash::Never;
            }
            (Early { .. }, Passing) => return Clash::Never,
            (Early { observed: a }, Early { observed: b }) => (a, b),
            (Early { observed }, Apply | Prepared) => (observed, false),
            (Apply | Prepared, Early { observed }) => (false, observed),
            (Prepared, Apply) => (true, true),
            (Prepared, Passing) => (false, true),
        };
        if self.announced && asked.announced {
            return Clash::Always;
        }
        if !cc.shares_by_mode() {
            return if self.writes || asked.writes { Clash::Always } else { Clash::Never };
        }
        if self.mode(held_observed).shares(asked.mode(asked_observed)) {
            Clash::Never
        } else if self.done {
            Clash::Always
        } else {
            Clash::UnlessCommuting { held: held_observed, asked: asked_observed }
        }
    }

    /// Whether claims of the two kinds may bar each other.
    pub fn may_bar(self, asked: Self, cc: Concurrency) -> bool {
        !matches!(self.clash(asked, cc), Clash::Never)
    }

    /// Whether every claim of the one kind bars every claim of the other.
    pub fn bars(self, asked: Self, cc: Concurrency) -> bool {
        matches!(self.clash(asked, cc), Clash::Always)
    }

    pub fn may_precede(self, later: Self) -> bool {
        self.class == Class::Apply && later.class == Class::Apply && !self.seen.shares(later.seen)
    }

    /// Whether a claim of this kind need not wait behind one of that kind that has not waited for long: it
    /// is no transaction's, so that it holds nothing up elsewhere.
    pub fn passes_newly_come(self, other: Self) -> bool {
        self.class == Class::Prepared && matches!(other.class, Class::Apply | Class::Passing)
    }
}

impl Age {
    /// Bound of the ages of requests that prepares of this age have to wait for, though they are no
    /// transaction's.
    pub(in crate::shard::locking) fn long_before(self) -> Self {
        let last_us = self.began.micros().checked_sub(PREPARES_PASS_US_MAX);
        let began = last_us.map_or(Timestamp::ZERO, |us| Timestamp::from_micros(us + 1));
        Self { began, gateway: Self::OLDEST.gateway }
    }
}

impl Claim {
    /// A claim for an operation.
    pub fn new(op: Op, class: Class) -> Self {
        let void = record::mode(Access { op: &op, observed: false });
        let seen = record::mode(Access { op: &op, observed: true });
        let share = op.share();
        let (announced, ahead, timed, done, behind_own) = (false, false, false, false, false);
        Self { op, class, void, seen, announced, ahead, timed, share, done, behind_own }
    }

    /// A claim for whatever a script does with a record, which it has for a moment and alone.
    pub fn of_script() -> Self {
        let claim = Self::new(Op::Key(KeyOp::Del), Class::Early { observed: true });
        Self { ahead: true, timed: true, ..claim }
    }

    /// Properties of the claim that others may have as well.
    pub(in crate::shard::locking) fn kind(&self) -> ClaimKind {
        let Self { op, class, void, seen, announced, share, done, .. } = self;
        let writes = op.is_write();
        let (void, seen, announced) = (*void, *seen, *announced);
        let counts = share.is_some() && !done;
        ClaimKind { class: *class, writes, void, seen, announced, counts, done: *done }
    }

    /// Whether `asked` must wait while `self` is held.
    pub(in crate::shard::locking) fn bars(
        &self,
        asked: &Self,
        cc: Concurrency,
        state: KeyView<'_>,
    ) -> bool {
        match self.kind().clash(asked.kind(), cc) {
            Clash::Never => false,
            Clash::Always => true,
            Clash::UnlessCommuting { held, asked: observed } => {
                !state.commute((self, held), (asked, observed)) && !state.has_room(self, asked)
            }
        }
    }

    /// Whether `self`, waiting to go into the log, must go before `later`: a pipeline's operations
    /// on a record keep their order unless it makes no difference.
    pub(in crate::shard::locking) fn precedes(&self, later: &Self, state: KeyView<'_>) -> bool {
        self.kind().may_precede(later.kind()) && !state.commute((self, true), (later, true))
    }

    /// Type and mode, for people.
    pub fn mode_name(&self) -> (&'static str, &'static str) {
        let observed = !matches!(self.class, Class::Early { observed: false });
        record::mode_name(Access { op: &self.op, observed })
    }
}

/// View of a record's state: the record, and the operations in the log that will change it.
#[derive(Clone, Copy)]
pub(in crate::shard::locking) struct KeyView<'a> {
    pub record: Option<&'a Record>,
    pub in_flight: &'a [InFlight],
    /// Sums over what is held and what is in flight, and whether they tell all that is in flight.
    pub sums: &'a Outstanding,
    pub tells_all: bool,
    /// Whether the first of two claims that are compared is in the queue: then it is not in the sums.
    pub queued: bool,
    /// Whether the second of them is the commit of an access that was admitted before.
    pub admitted: bool,
}

impl KeyView<'_> {
    /// Whether the record's quantity leaves room for a claim beside all others, of which one is compared
    /// with it.
    pub fn has_room(&self, held: &Claim, asked: &Claim) -> bool {
        let (Some(other), Some(share)) = (held.share, asked.share) else { return false };
        if self.admitted {
            return true;
        }
        let more = if self.queued { &[share, other][..] } else { &[share][..] };
        self.tells_all
            && record::amount(self.record).is_some_and(|a| self.sums.leaves_room(a, more))
    }

    /// Whether two accesses commute in the state in which they will be carried out. The present one
    /// tells only if what is in flight commutes with both: otherwise it may take away what makes
    /// one of them a no-op now.
    pub fn commute(&self, held: (&Claim, bool), asked: (&Claim, bool)) -> bool {
        let stays = |f: &InFlight, claim: &Claim| {
            f.claim.seen.shares(claim.seen)
                || f.count == 1
                    && record::commutes(
                        self.record,
                        Access { op: &f.claim.op, observed: true },
                        Access { op: &claim.op, observed: true },
                    )
        };
        let commute = |record| {
            record::commutes(
                record,
                Access { op: &held.0.op, observed: held.1 },
                Access { op: &asked.0.op, observed: asked.1 },
            )
        };
        // Where they commute without a record, they do so by what they name, and not by what is there.
        let behind_own = held.0.behind_own || asked.0.behind_own;
        commute(self.record)
            && (!behind_own || commute(None))
            && self.in_flight.iter().all(|f| stays(f, held.0) && stays(f, asked.0))
    }
}

/// Operations of one log entry on one record, in one mode.
#[derive(Clone, Debug)]
pub(in crate::shard::locking) struct InFlight {
    pub entry: u64,
    pub count: u32,
    pub claim: Claim,
    /// Sums of the operations, if they all are changes of a quantity.
    pub sums: Option<Outstanding>,
}
