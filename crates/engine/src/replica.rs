//! Shard together with its replicated log, as a server or a simulator drives it.
//!
//! A turn looks like this: the driver passes requests to [`Replica::handle`]; [`Replica::end_turn`]
//! proposes their writes; [`Replica::take_persist`] returns the data to make durable; when they are
//! durable, [`Replica::persisted`] executes the committed operations; the driver polls the answers.

mod cut;
mod handover;
mod rest;
mod split;

use crate::cluster::level::Level;
use crate::cluster::members::Members;
use crate::entry::{Entry, EntryCodec, SnapshotPart};
use crate::ids::{BundlePart, MachineId, ShardId, TxnId};
use crate::message::{Body, Request};
use crate::now::Now;
use crate::pipeline::StreamMessage;
use crate::replication::{GroupError, MemberStep, Membership, Pace, Persist, RaftGroup, Recovered};
use crate::shard::state::State;
use crate::shard::transfer::snapshot::{Header, Reader};
use crate::shard::{Shard, ShardConfig};
use adt::{Corrupt, Timestamp};
use handover::Handover;
use raft::eraftpb::Message;
pub use split::Seed;
use std::collections::VecDeque;
use std::fmt;

/// Reason why a replica cannot start or go on.
#[derive(Debug)]
pub enum ReplicaError {
    /// The consensus library refused an operation.
    Group(GroupError),
    /// A committed entry cannot be decoded, although its checksum is right.
    Entry {
        /// The shard.
        shard: ShardId,
        /// Index of the entry.
        index: u64,
    },
    /// A snapshot cannot be decoded.
    Snapshot(ShardId),
    /// Entries are missing between the snapshot and the log.
    Gap {
        /// The shard.
        shard: ShardId,
        /// Index of the last entry before the gap.
        index: u64,
    },
}

impl fmt::Display for ReplicaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(error) => error.fmt(f),
            Self::Entry { shard, index } => write!(
                f,
                "entry {index} in the log of shard {} cannot be read; it was written by another \
                 version, or it is damaged: start the version that wrote it, or restore a backup",
                shard.0
            ),
            Self::Snapshot(shard) => write!(
                f,
                "the snapshot of shard {} cannot be read; it was written by another version, or it is \
                 damaged: start the version that wrote it, or restore a backup",
                shard.0
            ),
            Self::Gap { shard, index } => write!(
                f,
                "the log of shard {} does not go on after entry {index}, where the newest snapshot \
                 ends: a snapshot is missing; restore a backup of the data directory",
                shard.0
            ),
        }
    }
}

impl std::error::Error for ReplicaError {}

impl From<GroupError> for ReplicaError {
    fn from(error: GroupError) -> Self {
        Self::Group(error)
    }
}

/// How long after its last use a lease is renewed, in microseconds.
const LEASE_KEPT_US: u64 = 2_000_000;

/// Parameters of a new replica.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Parameters of the shard.
    pub shard: ShardConfig,
    /// This machine and the founders of the log.
    pub membership: Membership,
}

/// Makes a restored state keep the data that other machines may ask for.
fn prepare(state: &mut State, membership: &Membership) {
    if !membership.is_alone() {
        state.fates_mut().keep_replies();
        state.fates_mut().keep_outcomes();
    }
}

/// One shard and its replica of the log.
#[derive(Debug)]
pub struct Replica<C> {
    shard: Shard,
    group: RaftGroup,
    codec: C,
    /// Format level that all readers of this log support.
    level: Level,
    proposed: VecDeque<u64>,
    /// Size of the last entry: an estimate for the next one.
    payload_bytes: usize,
    /// Lead in which the shard accepts requests here; see [`Replica::leading`].
    leading: Option<u64>,
    /// Requests that wait until a majority has confirmed the lead, with the round.
    parked: VecDeque<(u64, Request)>,
    /// Newest round that was begun, and whether another one must begin in this turn.
    round: u64,
    wants_round: bool,
    /// Followers to inform that the group sleeps.
    lulls: Vec<MachineId>,
    /// Handover of the lead in progress.
    handover: Option<Handover>,
    /// Index of a split in the log, which ends this lead.
    splitting: Option<u64>,
    /// New shard that the log has created here, until it is known to exist elsewhere: the log is
    /// needed until then.
    unborn: Option<ShardId>,
    born: Option<Seed>,
    /// Remaining ticks in which this replica stands for election at once.
    stands: usize,
    /// Last time at which an answer depended on the lease.
    leased_us: u64,
    ticked_us: u64,
    /// Last time at which there was work.
    busy_us: u64,
    /// State from a snapshot of another replica, until the log is ready for it.
    incoming: Option<(Header, State)>,
}

impl<C: EntryCodec> Replica<C> {
    /// Creates a replica from the data that a start has read: the parts of the newest snapshot
    /// (none at the first start) and the log after it. Drive it with [`Replica::take_persist`],
    /// [`Replica::persisted`], [`RaftGroup::take_messages`], [`Replica::step`] and [`Replica::tick`].
    pub fn recover(
        setup: Setup,
        codec: C,
        now: Now,
        snapshot: Vec<SnapshotPart>,
        mut recovered: Recovered,
    ) -> Result<Self, ReplicaError> {
        let Setup { shard: config, membership } = setup;
        let (header, mut state) = if snapshot.is_empty() {
            let (id, clock) = (config.id, Timestamp::ZERO);
            let header = Header { shard: id, index: 0, term: 0, clock, members: None };
            (header, State::default())
        } else {
            let mut reader = Reader::new(now.mono_us);
            let damaged = |_: Corrupt| ReplicaError::Snapshot(config.id);
            for part in snapshot {
                reader.take(part).map_err(damaged)?;
            }
            reader.finish().map_err(damaged)?
        };
        if header.shard != config.id {
            return Err(ReplicaError::Snapshot(config.id));
        }
        recovered.snapshot = (header.index, header.term);
        recovered.members.clone_from(&header.members);
        recovered.entries.retain(|e| e.index > header.index);
        if recovered.entries.first().is_some_and(|e| e.index != header.index + 1) {
            return Err(ReplicaError::Gap { shard: config.id, index: header.index });
        }
        prepare(&mut state, &membership);
        let (own, seed) = ((config.id, membership), config.seed);
        Ok(Self {
            shard: Shard::restored(config, state, header.clock),
            group: RaftGroup::new(Pace::default(), own, recovered, seed, now.mono_us)?,
            codec,
            level: Level::NONE,
            proposed: VecDeque::new(),
            payload_bytes: 0,
            leading: None,
            parked: VecDeque::new(),
            round: 0,
            wants_round: false,
            lulls: Vec::new(),
            handover: None,
            splitting: None,
            unborn: None,
            born: None,
            stands: 0,
            leased_us: 0,
            ticked_us: now.mono_us,
            busy_us: now.mono_us,
            incoming: None,
        })
    }

    /// Number of the shard.
    pub fn id(&self) -> ShardId {
        self.shard.id()
    }

    /// The shard.
    pub fn shard(&self) -> &Shard {
        &self.shard
    }

    /// The shard, to take its answers and messages.
    #[inline]
    pub fn shard_mut(&mut self) -> &mut Shard {
        &mut self.shard
    }

    /// The replica of the log.
    pub fn group(&self) -> &RaftGroup {
        &self.group
    }

    /// The replica of the log, to take its messages and to note what became of snapshots.
    pub fn group_mut(&mut self) -> &mut RaftGroup {
        &mut self.group
    }

    /// Number of the lead in which this replica accepts requests, if it does: the term, with the
    /// number of splits above it (see [`splits_of`]).
    pub fn leading(&self) -> Option<u64> {
        self.leading
    }

    /// Whether this replica accepts requests.
    pub fn is_serving(&self) -> bool {
        self.leading.is_some()
    }

    /// Whether requests wait until a majority has confirmed the lead.
    pub fn awaits_round(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Takes a request from a gateway. If its answer depends on the lead, it waits until it is
    /// certain that no other machine leads the shard, unless that is known; later requests wait
    /// behind it, so that requests keep their order.
    #[inline]
    pub fn handle(&mut self, now: Now, request: Request) {
        self.busy_us = now.mono_us;
        if self.leading.is_none() || self.splitting.is_some() {
            return self.shard.outbox_mut().turn_away(request.gateway, request.token, request.body);
        }
        if let Body::Transfer { to } = request.body {
            return self.asked_to_hand_over(now, to, request);
        }
        let depends_on_lead = request.body.depends_on_lead();
        if depends_on_lead || request.body.may_be_successor() {
            self.leased_us = now.mono_us;
        }
        let uncertain = depends_on_lead && !self.group.has_lease(now.mono_us);
        if uncertain || !self.parked.is_empty() {
            self.wants_round |= uncertain;
            let last = self.parked.back().map_or(0, |(round, _)| *round);
            let round = if uncertain { self.round + 1 } else { last };
            self.parked.push_back((round, request));
            return;
        }
        self.admit(now, request);
    }

    /// Takes a part of a bundle. Only a machine that is alone has bundles.
    pub fn take_part(&mut self, now: Now, request: Request, part: Option<BundlePart>) {
        self.busy_us = now.mono_us;
        self.at_shard(now, |shard| shard.take_part(now, request, part));
    }

    /// Takes messages of other shards' leaders about pipelines. Only a leader needs them.
    pub fn hear(&mut self, now: Now, words: impl Iterator<Item = StreamMessage>) {
        if self.leading.is_some() && self.splitting.is_none() {
            self.busy_us = now.mono_us;
            self.shard.hear(now, words);
        }
    }

    /// Executes everything that is due.
    ///
    /// # Errors
    /// If the replica cannot go on.
    pub fn tick(&mut self, now: Now) -> Result<(), ReplicaError> {
        if self.leading.is_some() {
            self.shard.tick(now);
        }
        let ticks = !self.group.membership().is_alone() && !self.group.is_asleep();
        if ticks && now.mono_us >= self.ticked_us + self.group.pace().tick_us {
            self.ticked_us = now.mono_us;
            if self.falls_asleep(now) {
                return Ok(());
            }
            self.group.tick(now.mono_us);
            self.stand(now);
            self.go_on_handing_over(now);
            // A lone voter receives no messages, and has restored entries to apply.
            self.apply(now)?;
        }
        Ok(())
    }

    /// Latest time of the next call of [`Replica::tick`], in monotonic microseconds, if one is
    /// necessary.
    pub fn next_timeout(&self, now: Now) -> Option<u64> {
        let ticks = !self.group.membership().is_alone() && !self.group.is_asleep();
        let group = ticks.then_some(self.ticked_us + self.group.pace().tick_us);
        let shard = self.leading.and_then(|_| self.shard.next_timeout(now));
        group.into_iter().chain(shard).min()
    }

    /// Timestamp below which every commit is settled here for good. Only a leader knows it.
    pub fn watermark(&mut self, now: Now) -> Option<Timestamp> {
        self.leading.map(|_| self.shard.watermark(now))
    }

    /// Drops everything that the gateways of a lost machine have left, as far as those are known
    /// here.
    pub fn machine_gone(&mut self, now: Now, machine: MachineId) {
        self.parked.retain(|(_, request)| request.gateway.machine != machine);
        self.shard.machine_gone(now, machine);
    }

    /// Takes a message of another replica.
    pub fn step(&mut self, now: Now, message: Message) -> Result<(), ReplicaError> {
        let slept = self.group.is_asleep();
        self.group.step(now.mono_us, message)?;
        self.woke(now, slept);
        self.follow(now);
        self.apply(now)
    }

    /// Adopts a level that all readers of this log support.
    pub fn use_level(&mut self, level: Level) {
        self.level = level;
    }

    /// Proposes the writes of this turn. While enough batches are in flight to the disk, writes
    /// accumulate for the next one: that is the group commit.
    pub fn end_turn(&mut self, now: Now) -> Result<(), ReplicaError> {
        let in_use = now.mono_us.saturating_sub(self.leased_us) < LEASE_KEPT_US;
        let begins = self.wants_round || in_use && self.group.should_renew(now.mono_us);
        if begins && self.leading.is_some() {
            self.wants_round = false;
            self.round = self.group.begin_round(now.mono_us);
        }
        self.go_on_handing_over(now);
        if self.leading.is_none()
            || self.splitting.is_some()
            || self.group.is_persisting()
            || !self.shard.tail().has_work()
            || !self.group.may_propose()
            || self.shard.tail().is_patient(now) && self.handover.is_none()
        {
            return Ok(());
        }
        if self.handover.is_some() {
            return self.propose_last(now);
        }
        if self.group.has_lease(now.mono_us) {
            self.shard.answer_idle(now);
        }
        self.propose(now)
    }

    fn propose(&mut self, now: Now) -> Result<(), ReplicaError> {
        self.propose_each(now, Shard::end_turn)
    }

    fn propose_each(
        &mut self,
        now: Now,
        next: impl Fn(&mut Shard, Now) -> Option<Entry>,
    ) -> Result<(), ReplicaError> {
        while let Some(entry) = next(&mut self.shard, now) {
            let mut payload = Vec::with_capacity(self.payload_bytes);
            self.codec.encode(&entry, self.level, &mut payload);
            self.payload_bytes = payload.len();
            // The payload is kept for long, and the next one may be far smaller than the last.
            if payload.capacity() - payload.len() > payload.len() / 4 {
                payload.shrink_to_fit();
            }
            let index = self.group.propose(payload)?;
            self.busy_us = now.mono_us;
            self.proposed.push_back(index);
            self.shard.keep(entry, self.payload_bytes);
        }
        Ok(())
    }

    /// Ends the current log entry, which is large enough; later records go into another one.
    pub fn close_entry(&mut self) {
        self.shard.close_entry();
    }

    /// Data to make durable now.
    pub fn take_persist(&mut self) -> Option<Persist> {
        let mut persist = self.group.take_persist()?;
        // A machine that is alone has one write on its way, with everything that was proposed.
        let tail = self.shard.tail_mut();
        (persist.bundles, persist.wave_end) = (tail.take_bundles(), tail.take_wave_end());
        Some(persist)
    }

    /// Notes that the data with `number` are durable, and executes the entries that are committed
    /// thereby.
    pub fn persisted(&mut self, now: Now, number: u64) -> Result<(), ReplicaError> {
        self.group.persisted(number);
        self.follow(now);
        self.apply(now)
    }

    /// Acts on the shard, after informing it whether the lead is certain at this moment, if a
    /// waiter there needs that.
    #[inline]
    fn at_shard(&mut self, now: Now, act: impl FnOnce(&mut Shard)) {
        let stays = self.handover.is_none() && self.splitting.is_none();
        if self.shard.has_successors() && stays && self.group.has_lease(now.mono_us) {
            self.shard.as_only_leader(act);
        } else {
            act(&mut self.shard);
        }
    }

    /// Applies committed entries.
    fn apply(&mut self, now: Now) -> Result<(), ReplicaError> {
        if self.group.restored()
            && let Some((header, mut state)) = self.incoming.take()
        {
            prepare(&mut state, self.group.membership());
            self.shard.restore(state, header.clock);
        }
        while let Some(committed) = self.group.committed()? {
            let term = committed.term;
            if self.leading.is_some() && self.proposed.front() == Some(&committed.index) {
                self.proposed.pop_front();
                self.at_shard(now, |shard| shard.committed(now));
            } else if !committed.payload.is_empty() {
                let index = committed.index;
                let entry = self
                    .codec
                    .decode(&committed.payload)
                    .map_err(|_| ReplicaError::Entry { shard: self.shard.id(), index })?;
                self.shard.replay(now, entry);
            }
            self.see_birth(term);
        }
        self.follow(now);
        Ok(())
    }

    /// Makes the shard lead if, and only if, the group says so.
    fn follow(&mut self, now: Now) {
        let number = self.lead_number();
        if let Some(lead) = self.leading
            && !(self.group.is_leader() && lead == number)
        {
            self.leading = None;
            self.splitting = None;
            self.proposed.clear();
            self.wants_round = false;
            for (_, request) in std::mem::take(&mut self.parked) {
                self.shard.outbox_mut().turn_away(request.gateway, request.token, request.body);
            }
            self.handed_over();
            self.shard.step_down();
        }
        if self.leading.is_none() && self.group.is_serving() {
            self.busy_us = now.mono_us;
            self.leading = Some(number);
            self.shard.lead(now, number);
        }
        self.resume_parked(now);
    }

    /// Resumes requests whose round a majority has confirmed.
    fn resume_parked(&mut self, now: Now) {
        let confirmed = self.group.confirmed();
        while self.parked.front().is_some_and(|(round, _)| *round <= confirmed) {
            let Some((_, request)) = self.parked.pop_front() else { return };
            self.admit(now, request);
        }
    }

    /// Whether a snapshot may be made: not while a new shard exists in this log alone.
    pub fn may_snapshot(&self) -> bool {
        self.unborn.is_none()
    }

    /// Begins a snapshot of the applied state; its parts come from [`Replica::snapshot_parts`].
    pub fn begin_snapshot(&mut self) -> (u64, u64) {
        let (index, term) = self.group.applied();
        let members = self.group.members();
        let founded = *members == Members::of(self.group.membership().founders.clone());
        let members = (!founded).then(|| members.clone());
        self.shard.begin_snapshot(index, term, members);
        (index, term)
    }

    /// Next parts of the snapshot; none when it is complete.
    pub fn snapshot_parts(&mut self, count: usize) -> Vec<SnapshotPart> {
        self.shard.snapshot_parts(count)
    }

    /// Notes that the snapshot with the log up to `index` is durable: forgets the entries of that
    /// part that are not needed. Returns the last forgotten index. `is_short`: memory is short, so
    /// that no entries are kept for followers that lag behind.
    pub fn compact(&mut self, index: u64, is_short: bool) -> u64 {
        self.group.compact(index, is_short)
    }

    /// Whether machines other than the members are not needed any more, as far as the leader knows.
    pub fn is_settled(&self) -> bool {
        self.leading.is_some() && self.group.is_settled()
    }

    /// Takes the next step towards a group with exactly these machines as voters, if the shard is
    /// led here. Returns the step.
    ///
    /// # Errors
    /// If the consensus library refuses it.
    pub fn go_towards(
        &mut self,
        now: Now,
        wanted: &[MachineId],
    ) -> Result<Option<MemberStep>, ReplicaError> {
        if self.leading.is_none() || self.handover.is_some() || self.splitting.is_some() {
            return Ok(None);
        }
        let step = self.group.go_towards(wanted)?;
        if let Some(MemberStep::HandOver(heirs)) = &step
            && let Some(heir) = heirs.first()
        {
            self.hand_over(now, *heir);
        }
        Ok(step)
    }

    /// Whether no acknowledgement of this replica is needed any more: a leader that has applied the
    /// log up to an entry (its index and term) reports that this machine does not belong to the
    /// group. This replica may be in a later term, if it has stood for election while it was cut
    /// off; its promises in that term are kept. See `docs/internals/replication/members.md`.
    pub fn is_dismissed(&self, (index, of): (u64, u64)) -> bool {
        let (last, last_term) = self.group.last();
        (of, index) >= (last_term, last)
    }

    /// Whether [`Replica::restore`] may be called now.
    pub fn may_restore(&self) -> bool {
        self.leading.is_none() && self.group.may_restore()
    }

    /// Takes a snapshot that another replica has sent, with its message. It is decoded and durable
    /// here, and becomes the state unless the log has caught up in the meantime.
    pub fn restore(
        &mut self,
        now: Now,
        message: Message,
        contents: (Header, State),
    ) -> Result<(), ReplicaError> {
        if self.group.restore(message) {
            self.incoming = Some(contents);
        }
        self.follow(now);
        self.apply(now)
    }
}

/// Settles the transactions that a crash has left open: committed if every participant has the
/// prepare in its log, at the largest bound; aborted otherwise. All replicas of the server must be
/// serving, and must not have received requests. Returns the numbers of committed and aborted
/// transactions.
pub fn resolve_open<C: EntryCodec>(replicas: &mut [Replica<C>], now: Now) -> (usize, usize) {
    let mut open =
        std::collections::BTreeMap::<TxnId, (usize, usize, Timestamp, Option<Timestamp>)>::new();
    for replica in replicas.iter() {
        let prepared = replica.shard.state().prepared();
        for (txn, prepared) in prepared.iter().filter(|(_, prepared)| !prepared.is_unit()) {
            let vote = open.entry(*txn).or_insert((
                prepared.prepare.participants.len(),
                0,
                Timestamp::ZERO,
                None,
            ));
            vote.1 += 1;
            vote.2 = vote.2.max(prepared.bound);
            vote.3 = vote.3.max(prepared.commit);
        }
    }
    // A participant that has executed and forgotten the transaction has logged its outcome, so the
    // transaction was committed even if not all participants still have the prepare.
    let (mut committed, mut aborted) = (0, 0);
    for (txn, (participants, votes, bound, decided)) in open {
        let outcome = decided
            .or((votes == participants).then_some(bound))
            .or_else(|| replicas.iter().find_map(|r| r.shard.state().fates().outcome(txn)));
        match outcome {
            Some(_) => committed += 1,
            None => aborted += 1,
        }
        for replica in replicas.iter_mut() {
            if replica.shard.state().prepared().contains_key(&txn) {
                replica.shard.resolve(now, txn, outcome);
            }
        }
    }
    (committed, aborted)
}
