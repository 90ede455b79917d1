//! Split of a shard: the replicas' part of it. See [`crate::shard::transfer::split`].

use super::{Replica, ReplicaError};
use crate::cluster::map::Range;
use crate::entry::EntryCodec;
use crate::ids::{ShardId, lead_of};
use crate::limits::ELECTION_TICKS;
use crate::now::Now;
use crate::shard::state::State;
use crate::shard::transfer::snapshot::Header;
use crate::shard::transfer::split::Born;

/// Index of the snapshot that a new shard's log begins with.
const FIRST_INDEX: u64 = 1;

/// Initial state of a new shard. Each replica computes it by itself, with the same result.
#[derive(Debug)]
pub struct Seed {
    /// Header as of a snapshot. Its term is that of the entry with the split, so that all leads of
    /// the new shard have larger ones than those of the old shard before.
    pub header: Header,
    /// Records and request numbers.
    pub state: State,
    /// Whether this machine led the shard that was split: it is to lead the new one at first, so
    /// that no client waits until followers notice that there is no leader.
    pub leads: bool,
}

/// Ticks in which a new shard's first leader asks for votes: the other replicas may not be ready
/// yet.
const STANDS_TICKS: usize = 2 * ELECTION_TICKS;

impl<C: EntryCodec> Replica<C> {
    pub(super) fn lead_number(&self) -> u64 {
        lead_of(self.group.term(), self.shard.state().slots().splits)
    }

    /// Takes the next step of a split, if the shard is led here: `first` is the first slot that
    /// stays, `splits` the number of earlier splits.
    ///
    /// # Errors
    /// If the consensus library refuses it.
    pub fn split(
        &mut self,
        now: Now,
        child: ShardId,
        splits: u16,
        (first, range): (u16, Range),
    ) -> Result<(), ReplicaError> {
        let begins = self.leading.is_some()
            && self.splitting.is_none()
            && self.shard.state().slots().splits == splits;
        // The new shard begins with the members of this one, which must not be changing.
        let stable = self.may_propose() && self.is_settled() && !self.group.members().is_joint();
        if !begins || !stable || self.shard.is_frozen() || !self.shard.begin_giving(range) {
            return Ok(());
        }
        self.propose(now)?;
        self.shard.log_split(child, first, range);
        self.propose(now)?;
        self.splitting = self.proposed.back().copied();
        Ok(())
    }

    /// Looks for a new shard after an entry of this term was applied.
    pub(super) fn see_birth(&mut self, term: u64) {
        let Some(Born { child, state, clock }) = self.shard.take_born() else { return };
        let members = Some(self.group.members().clone());
        let header = Header { shard: child, index: FIRST_INDEX, term, clock, members };
        self.unborn = Some(child);
        self.born = Some(Seed { header, state, leads: self.leading.is_some() });
    }

    /// Initial state of a new shard, if this log has created one.
    pub fn take_born(&mut self) -> Option<Seed> {
        self.born.take()
    }

    /// New shard that this log has created and that is not known to exist elsewhere.
    pub fn unborn(&self) -> Option<ShardId> {
        self.unborn
    }

    /// Notes that a majority has the new shard's initial state.
    pub fn is_born(&mut self, child: ShardId) {
        self.unborn = self.unborn.filter(|unborn| *unborn != child);
    }

    /// Asks for votes, if this machine is to lead a new shard at first.
    pub(super) fn stand(&mut self, now: Now) {
        if self.stands > 0 {
            self.stands = if self.group.stand(now.mono_us) { self.stands - 1 } else { 0 };
        }
    }

    /// Begins this replica with a seed, which is durable here as a snapshot.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn begin(
        &mut self,
        now: Now,
        Seed { header, state, leads }: Seed,
    ) -> Result<(), ReplicaError> {
        self.stands = if leads { STANDS_TICKS } else { 0 };
        let members = header.members.clone().unwrap_or_default();
        if self.group.begin(header.index, header.term, &members) {
            self.incoming = Some((header, state));
        }
        self.follow(now);
        self.apply(now)
    }
}
