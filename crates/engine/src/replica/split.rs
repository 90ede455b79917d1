//! A shard is split: the replicas' part of it. See [`crate::shard::transfer::split`].

use super::{Replica, ReplicaError};
use crate::entry::EntryCodec;
use crate::ids::{ShardId, lead_of};
use crate::limits::ELECTION_TICKS;
use crate::map::Range;
use crate::now::Now;
use crate::shard::state::State;
use crate::shard::transfer::snapshot::Header;
use crate::shard::transfer::split::Born;

/// Index of the snapshot that a new shard's log begins with.
const FIRST_INDEX: u64 = 1;

/// What the replicas of a new shard begin with, each by itself, and all with the same.
#[derive(Debug)]
pub struct Seed {
    /// As of a snapshot. Its term is that of the entry in which the shard that it comes from was
    /// split, so that all leads of the new shard have larger ones than those before.
    pub header: Header,
    /// Records and request numbers.
    pub state: State,
    /// This machine led the shard that was split: it is to lead the new one at first, so that
    /// nobody waits until it is noticed that there is no leader.
    pub leads: bool,
}

/// For how many ticks a new shard's first leader asks for votes: the others may not be ready yet.
const STANDS_TICKS: usize = 2 * ELECTION_TICKS;

impl<C: EntryCodec> Replica<C> {
    pub(super) fn lead_number(&self) -> u64 {
        lead_of(self.group.term(), self.shard.state().slots().splits)
    }

    /// Takes the next step to give slots to a new shard, if the shard is led here: `first` is the
    /// first slot that stays, `splits` says how many splits there were before this one.
    ///
    /// # Errors
    /// If the consensus library refuses.
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
        // The new shard begins with the members of this one: they must not be changing.
        let stable = self.may_propose() && self.is_settled() && !self.members().is_joint();
        if !begins || !stable || self.shard.is_frozen() || !self.shard.begin_giving(range) {
            return Ok(());
        }
        self.propose(now)?;
        self.shard.log_split(child, first, range);
        self.propose(now)?;
        self.splitting = self.proposed.back().copied();
        Ok(())
    }

    /// An entry of this term was carried out: a new shard may have come out of it.
    pub(super) fn see_birth(&mut self, term: u64) {
        let Some(Born { child, state, clock }) = self.shard.take_born() else { return };
        let members = Some(self.members().clone());
        let header = Header { shard: child, index: FIRST_INDEX, term, clock, members };
        self.unborn = Some(child);
        self.born = Some(Seed { header, state, leads: self.leading.is_some() });
    }

    /// What a new shard begins with here, if one has come out of the log.
    pub fn take_born(&mut self) -> Option<Seed> {
        self.born.take()
    }

    /// A new shard that has come out of the log here and is not known to be elsewhere.
    pub fn unborn(&self) -> Option<ShardId> {
        self.unborn
    }

    /// A majority has what the new shard began with.
    pub fn is_born(&mut self, child: ShardId) {
        self.unborn = self.unborn.filter(|unborn| *unborn != child);
    }

    /// Asks for votes, if this is the machine that is to lead a new shard at first.
    pub(super) fn stand(&mut self, now: Now) {
        if self.stands > 0 {
            self.stands = if self.group.stand(now.mono_us) { self.stands - 1 } else { 0 };
        }
    }

    /// This replica begins with a seed, which is durable here as a snapshot.
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
