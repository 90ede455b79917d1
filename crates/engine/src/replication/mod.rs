//! Replicated log of one shard: the consensus library behind an interface of our own.
//!
//! The group takes opaque payloads and returns them in order once they are durable on a majority.
//! It never does IO: it hands out data to write as [`Persist`], and the driver reports when they
//! are durable.
//!
//! The necessary order, in the library's terms (`raft` 0.7, see its `Ready`):
//! 1. The driver writes entries and hard state of one `Persist` in one atomic batch.
//! 2. Only then it calls [`RaftGroup::persisted`], with the numbers in order. A follower's messages
//!    (that it has the entries, that it gives its vote) are released after that; a leader's
//!    messages go at once, since the entries may reach the followers' disks and its own at the same
//!    time.
//! 3. Only entries that [`RaftGroup::committed`] returns are applied.
//!
//! The library measures time in ticks and draws no random numbers: it has an election time-out of
//! one value, and [`RaftGroup::tick`] stands for election after a seeded number of them, so that
//! candidates do not collide and runs repeat exactly.
//!
//! This module knows nothing of data types, keys or transactions.

mod lease;
mod log;
mod members;
mod pace;
mod sleep;
mod standing;

use crate::cluster::members::Members;
pub use log::{MemoryLog, Promises, Recovered};
pub use members::MemberStep;
use pace::ElectionPatience;
pub use pace::Pace;
pub use standing::{Followers, ReplicaState};

use crate::ids::{BundlePart, MachineId, ShardId};
use crate::limits::{PERSISTS_MAX, PROMISE_US_MAX};
use lease::{Lease, Promise};
use raft::eraftpb::{Entry, EntryType, HardState, Message, MessageType};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};
use std::collections::VecDeque;
use std::fmt;

/// Data of a group to make durable.
#[derive(Clone, Debug, Default)]
pub struct Persist {
    /// The group.
    pub group: ShardId,
    /// Number for [`RaftGroup::persisted`].
    pub number: u64,
    /// Entries to append; an entry with an existing index replaces that entry and all later ones.
    pub entries: Vec<Entry>,
    /// Term, vote and commit index, if they have changed.
    pub hard_state: Option<HardState>,
    /// Whether a promise to other replicas depends on the data, so that they must reach the disk
    /// itself.
    pub must_sync: bool,
    /// Last index of a durable snapshot that another replica has sent: the whole log before must be
    /// forgotten before `entries` are appended.
    pub restored: Option<u64>,
    /// Parts of bundles in the entries, all of one wave.
    pub bundles: Vec<BundlePart>,
    /// A wave that ends with this write, and its last bundle.
    pub wave_end: Option<(u64, u64)>,
}

/// A committed entry: its index, its term and its payload.
#[derive(Clone, Debug, PartialEq)]
pub struct Committed {
    /// Index.
    pub index: u64,
    /// Term.
    pub term: u64,
    /// Payload; empty for the library's own entries and for changes of the members.
    pub payload: bytes::Bytes,
}

/// Refusal of the consensus library to go on, which is a broken invariant of the caller.
#[derive(Debug)]
pub struct GroupError(String);

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the replicated log refuses to go on: {}", self.0)
    }
}

impl std::error::Error for GroupError {}

impl From<raft::Error> for GroupError {
    fn from(error: raft::Error) -> Self {
        Self(error.to_string())
    }
}

/// Most entries that a machine may lack when it becomes a voter.
const CAUGHT_UP_ENTRIES: u64 = 1_000;

/// This machine's place in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// This machine.
    pub own: MachineId,
    /// Voters when the group was founded. Later ones are in the log.
    pub founders: Vec<MachineId>,
    /// Whether there are other machines, or may be one day.
    pub clustered: bool,
}

impl Membership {
    /// Group of one machine, for ever.
    pub fn alone() -> Self {
        Self { own: MachineId(1), founders: vec![MachineId(1)], clustered: false }
    }

    /// Group in a cluster, of which this machine may be a founder or not.
    pub fn clustered(own: MachineId, founders: Vec<MachineId>) -> Self {
        Self { own, founders, clustered: true }
    }

    /// Whether this machine is the only member, for ever.
    pub fn is_alone(&self) -> bool {
        !self.clustered
    }
}

/// Batch in flight to the disk, with the messages to release when it is durable.
#[derive(Debug)]
struct Outstanding {
    number: u64,
    /// Whether there is anything to write; if not, it is done when the batches before it are.
    written: bool,
    messages: Vec<Message>,
}

/// One replica of a replicated log.
pub struct RaftGroup {
    id: ShardId,
    pace: Pace,
    membership: Membership,
    /// Members as of the last applied entry.
    members: Members,
    /// Index of the log's last change of members, or a later one.
    changed_at: u64,
    node: RawNode<MemoryLog>,
    outstanding: VecDeque<Outstanding>,
    held: VecDeque<Persist>,
    unsaved: Option<HardState>,
    committed: VecDeque<Entry>,
    messages: Vec<Message>,
    /// Snapshots that other replicas need.
    wanted: Vec<Message>,
    /// Snapshot of another replica that is about to replace the log: the number of the batch that
    /// does so, and the index.
    restoring: Option<(u64, u64)>,
    /// Term in which this replica has applied an entry of that term's leader.
    caught_up_in: u64,
    /// Term in which this replica has made sure that a majority knows the members.
    settled_in: u64,
    /// Term and index of the entry that makes sure of it when it is committed.
    settling: Option<(u64, u64)>,
    lease: Lease,
    /// Time of the last tick.
    ticked_us: Option<u64>,
    /// Wait for the next election.
    patience: ElectionPatience,
    /// Promises to leaders, maybe from before a restart of this replica.
    promise: Promise,
    /// Index and term of the last entry that an earlier replica on this machine may have
    /// acknowledged: until it is here again, this one takes no part in elections.
    owes: (u64, u64),
    /// State of a sleeping replica; it has nothing to do until it is woken.
    asleep: Option<sleep::Asleep>,
    /// Commit index, as the leader has reported it with its entries.
    reported_commit: u64,
    /// Whether the leader must be woken, too.
    nudges: bool,
}

impl fmt::Debug for RaftGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raft = &self.node.raft;
        write!(
            f,
            "Group({}, {:?} in term {}, applied {}, committed {}, persisted {}, last {}, {} in flight)",
            self.id.0,
            raft.state,
            raft.term,
            raft.raft_log.applied,
            raft.raft_log.committed,
            raft.raft_log.persisted,
            raft.raft_log.last_index(),
            self.outstanding.len()
        )
    }
}

impl RaftGroup {
    /// Creates a replica from the data that were read from disk (none at the first start), at the
    /// monotonic time `mono_us`. A group of one machine elects itself: the first
    /// [`RaftGroup::take_persist`] has the proof.
    pub fn new(
        pace: Pace,
        (id, membership): (ShardId, Membership),
        recovered: Recovered,
        seed: u64,
        mono_us: u64,
    ) -> Result<Self, GroupError> {
        let applied = recovered.snapshot.0;
        let mut recovered = recovered;
        let founded = || Members::of(membership.founders.clone());
        let members = recovered.members.take().unwrap_or_else(founded);
        let is_new = recovered.hard_state.term == 0;
        let promises = recovered.promises.unwrap_or_default();
        if recovered.hard_state.term < promises.term {
            recovered.hard_state.term = promises.term;
            recovered.hard_state.vote = promises.vote;
        }
        let log = MemoryLog::recovered(members.clone(), recovered);
        let config = Config {
            id: u64::from(membership.own.0),
            election_tick: pace.election_ticks,
            heartbeat_tick: pace.heartbeat_ticks,
            // A range of one value leaves the library without randomness of its own. See [`Pace`].
            min_election_tick: 2 * pace.election_ticks,
            max_election_tick: 2 * pace.election_ticks + 1,
            applied,
            pre_vote: true,
            check_quorum: true,
            // The library's batching of appends ignores `max_size_per_msg`.
            batch_append: false,
            max_size_per_msg: 4 << 20,
            max_inflight_msgs: 256,
            // Followers answer no clients, so they may learn of a commit with the next entry or
            // heartbeat. A message at once would double the traffic.
            skip_bcast_commit: true,
            ..Config::default()
        };
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let mut node = RawNode::new(&config, log, &logger)?;
        let alone = membership.is_alone();
        if alone {
            node.campaign()?;
        }
        let silent_us = if alone || is_new { 0 } else { PROMISE_US_MAX };
        let group = Self {
            id,
            pace,
            membership,
            members,
            changed_at: applied,
            node,
            outstanding: VecDeque::new(),
            held: VecDeque::new(),
            unsaved: None,
            committed: VecDeque::new(),
            messages: Vec::new(),
            wanted: Vec::new(),
            restoring: None,
            caught_up_in: 0,
            settled_in: 0,
            settling: None,
            lease: Lease::new(alone, pace),
            ticked_us: None,
            patience: ElectionPatience::new(seed, pace),
            promise: Promise::new(mono_us + silent_us),
            owes: promises.last,
            reported_commit: applied,
            asleep: None,
            nudges: false,
        };
        Ok(group)
    }

    /// Whether this replica leads the group and has applied all entries that were committed before
    /// its lead.
    pub fn is_serving(&self) -> bool {
        self.is_leader() && self.caught_up_in == self.term() && self.committed.is_empty()
    }

    /// Whether this replica leads the group, as far as it knows.
    pub fn is_leader(&self) -> bool {
        self.node.raft.state == StateRole::Leader
    }

    /// This machine's place in the group.
    pub fn membership(&self) -> &Membership {
        &self.membership
    }

    /// Term of this replica.
    pub fn term(&self) -> u64 {
        self.node.raft.term
    }

    /// Whether the limit of batches in flight to the disk is reached. Later proposals go into a
    /// later [`Persist`].
    pub fn is_persisting(&self) -> bool {
        let most = if self.membership.is_alone() { 1 } else { PERSISTS_MAX };
        self.outstanding.iter().filter(|o| o.written).count() >= most
    }

    /// Whether this replica may append to the log: it leads, and is not handing the lead over.
    pub fn may_propose(&self) -> bool {
        self.is_leader() && self.node.raft.lead_transferee.is_none()
    }

    /// Begins to hand the lead over to another voter, which is elected as soon as it has the whole
    /// log. Until then, or until the library gives up, nothing may be proposed. In any case this
    /// replica has no lease in this term any more, because the election does not wait for the end
    /// of leases. Returns whether the handover has begun.
    ///
    /// Section 3.10 of Ongaro's thesis on Raft.
    pub fn transfer(&mut self, to: MachineId) -> bool {
        let is_other = to != self.membership.own && self.members.voters.contains(&to);
        if !is_other || !self.may_propose() {
            return false;
        }
        self.rouse();
        self.lease.renounce(self.term());
        self.node.transfer_leader(u64::from(to.0));
        self.is_transferring()
    }

    /// Whether the lead is being handed over.
    pub fn is_transferring(&self) -> bool {
        self.is_leader() && self.node.raft.lead_transferee.is_some()
    }

    /// Appends a payload to the log; returns its index.
    pub fn propose(&mut self, payload: Vec<u8>) -> Result<u64, GroupError> {
        self.rouse();
        self.node.propose(Vec::new(), payload)?;
        Ok(self.node.raft.raft_log.last_index())
    }

    /// Takes a message of another replica. An invalid one is dropped.
    ///
    /// # Errors
    /// If this replica has acknowledged entries that it does not have.
    pub fn step(&mut self, mono_us: u64, message: Message) -> Result<(), GroupError> {
        // The sender need not be a member yet, as far as this replica knows.
        if message.to != u64::from(self.membership.own.0) {
            return Ok(());
        }
        if self.restoring.is_some() && message.get_msg_type() == MessageType::MsgTimeoutNow {
            // An election now would be too early: see [`RaftGroup::tick`].
            return Ok(());
        }
        let is_silent = lease::asks_for_vote(&message) && self.owes_entries();
        if is_silent || self.promise.forbids(mono_us, &message) {
            return Ok(());
        }
        if message.get_msg_type() == MessageType::MsgSnapshot {
            // Snapshots come together with their contents: see [`RaftGroup::restore`].
            return Ok(());
        }
        if self.lacks(&message)? {
            self.messages.push(standing::report_own_entries(&message, self.last().0));
            return Ok(());
        }
        if self.has_begun_anew(&message) {
            return Ok(());
        }
        self.wake_for(mono_us, &message);
        if message.term >= self.term() {
            let committed = standing::reported_commit(&message).unwrap_or(0);
            self.reported_commit = self.reported_commit.max(committed);
            self.promise.hear(mono_us, &message);
        }
        // The library refuses messages that do not fit; there is nothing to do about it.
        let _ = self.node.step(message);
        Ok(())
    }

    /// Messages to other replicas.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.pump();
        let is_snapshot = |m: &mut Message| m.get_msg_type() == MessageType::MsgSnapshot;
        self.wanted.extend(self.messages.extract_if(.., is_snapshot));
        // The answer to the initial snapshot, which has no sender, has no receiver.
        self.messages.retain(|message| message.to != raft::INVALID_ID);
        let mut messages = std::mem::take(&mut self.messages);
        let committed = self.node.raft.raft_log.committed;
        standing::report_committed(committed, &mut messages);
        messages
    }

    /// Messages that describe the newest durable snapshot to a replica that needs it with its
    /// contents. [`RaftGroup::snapshot_sent`] reports the result.
    pub fn take_snapshots(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.wanted)
    }

    /// Notes whether a snapshot has reached another machine.
    pub fn snapshot_sent(&mut self, to: MachineId, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(u64::from(to.0), status);
    }

    /// Whether a snapshot of another replica can be accepted now: nothing is in flight to the disk.
    pub fn may_restore(&self) -> bool {
        self.outstanding.is_empty() && self.held.is_empty() && self.restoring.is_none()
    }

    /// Takes a snapshot of another replica, which is durable here. Returns whether it will replace
    /// the log; if so, [`RaftGroup::restored`] returns true when the log is ready.
    pub fn restore(&mut self, message: Message) -> bool {
        let is_for_us = message.get_msg_type() == MessageType::MsgSnapshot
            && message.to == u64::from(self.membership.own.0);
        if !is_for_us {
            return false;
        }
        self.asleep = None;
        // The library refuses messages that do not fit; there is nothing to do about it.
        let _ = self.node.step(message);
        self.pump();
        self.restoring.is_some()
    }

    /// Begins the group here, with a snapshot that each of its members has computed by itself and
    /// that is durable here. Like [`RaftGroup::restore`] without a sender.
    pub fn begin(&mut self, index: u64, term: u64, members: &Members) -> bool {
        let mut message = Message::default();
        message.set_msg_type(MessageType::MsgSnapshot);
        message.to = u64::from(self.membership.own.0);
        message.term = self.term().max(term);
        let metadata = message.mut_snapshot().mut_metadata();
        (metadata.index, metadata.term) = (index, term);
        metadata.set_conf_state(members.state());
        self.restore(message)
    }

    /// Asks for votes now, if no leader is known. Returns whether none is.
    pub fn stand(&mut self, mono_us: u64) -> bool {
        let none = self.node.raft.leader_id == raft::INVALID_ID;
        if none && self.may_restore() && self.promise.lets_stand(mono_us) {
            // The library refuses when it must not; there is nothing to do about it.
            let _ = self.node.campaign();
        }
        none
    }

    /// Whether the log has been replaced by the snapshot of another replica, durably.
    pub fn restored(&mut self) -> bool {
        let waits = |number| self.outstanding.iter().any(|o| o.number == number);
        let Some((_, index)) = self.restoring.filter(|(number, _)| !waits(*number)) else {
            return false;
        };
        self.restoring = None;
        self.node.advance_apply_to(index);
        true
    }

    /// Next data to make durable, after those that were handed out before.
    pub fn take_persist(&mut self) -> Option<Persist> {
        self.pump();
        self.held.pop_front()
    }

    /// Notes that the data handed out under `number` are durable.
    pub fn persisted(&mut self, number: u64) {
        let first = self.outstanding.front().map(|o| o.number);
        assert_eq!(first, Some(number), "batches become durable in order");
        let mut last = number;
        while self.outstanding.front().is_some_and(|o| o.number == number || !o.written) {
            let Some(done) = self.outstanding.pop_front() else { break };
            last = done.number;
            self.messages.extend(done.messages);
        }
        self.node.on_persist_ready(last);
        self.pump();
    }

    /// Runs the library until it has no output, or the limit of batches in flight to the disk is
    /// reached.
    fn pump(&mut self) {
        while self.outstanding.len() < PERSISTS_MAX && self.node.has_ready() {
            let mut ready = self.node.ready();
            let restored = (!ready.snapshot().is_empty()).then(|| {
                let metadata = ready.snapshot().get_metadata();
                self.members = Members::from_state(metadata.get_conf_state());
                self.changed_at = metadata.index;
                let last = (metadata.index, metadata.term);
                self.node.mut_store().restore(last, self.members.clone());
                self.restoring = Some((ready.number(), metadata.index));
                metadata.index
            });
            let committed = ready.take_committed_entries();
            let entries = ready.take_entries();
            let (number, must_sync) = (ready.number(), ready.must_sync());
            self.messages.extend(ready.take_messages());
            let messages = ready.take_persisted_messages();
            for state in ready.take_read_states() {
                self.lease.completed(&state.request_ctx);
            }
            if let Some(state) = ready.hs() {
                self.unsaved = Some(state.clone());
                self.node.mut_store().set_hard_state(state.clone());
            }
            self.node.mut_store().append(&entries);
            self.node.advance_append_async(ready);
            self.committed.extend(committed);
            // The library wants the data that come with a snapshot to be synced.
            let written = !entries.is_empty() || must_sync;
            if written {
                let hard_state = self.unsaved.take();
                let group = self.id;
                let (bundles, wave_end) = (Vec::new(), None);
                let persist = Persist {
                    group,
                    number,
                    entries,
                    hard_state,
                    must_sync,
                    restored,
                    bundles,
                    wave_end,
                };
                self.held.push_back(persist);
            } else if self.outstanding.is_empty() {
                // A moved commit index alone is no promise to another replica; it goes with the
                // next batch.
                self.node.on_persist_ready(number);
                self.messages.extend(messages);
                continue;
            }
            self.outstanding.push_back(Outstanding { number, written, messages });
        }
    }

    /// Next entry that is durable on a majority.
    ///
    /// # Errors
    /// If it cannot be decoded, or the library refuses to go on.
    pub fn committed(&mut self) -> Result<Option<Committed>, GroupError> {
        if self.committed.is_empty() {
            self.pump();
        }
        let Some(entry) = self.committed.pop_front() else { return Ok(None) };
        let is_change = entry.get_entry_type() != EntryType::EntryNormal;
        let Entry { index, term, data, context, .. } = entry;
        if is_change {
            self.change_members(index, &context)?;
        } else if data.is_empty() {
            // The first entry of the leader's term: everything before it is applied now.
            self.caught_up_in = term;
        }
        if self.settling == Some((term, index)) {
            self.settled_in = term;
        }
        self.node.advance_apply_to(index);
        let payload = if is_change { bytes::Bytes::new() } else { data };
        Ok(Some(Committed { index, term, payload }))
    }

    fn change_members(&mut self, index: u64, change: &[u8]) -> Result<(), GroupError> {
        let damaged =
            |_| GroupError(format!("entry {index} holds an unreadable change of members"));
        let change = members::decode(change).map_err(damaged)?;
        let state = self.node.apply_conf_change(&change)?;
        self.members = Members::from_state(&state);
        self.changed_at = index;
        self.node.mut_store().set_members(index, self.members.clone());
        self.lease.members_changed();
        (self.settled_in, self.settling) = (0, None);
        if self.is_leader() && !self.members.votes(self.membership.own) {
            // The library expects a leader to be a member of the group.
            let term = self.term();
            self.node.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(())
    }

    /// Members of the group, as of the last applied entry.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Takes the next step towards a group with exactly these machines as voters, if this replica
    /// leads and a step is due. Returns the step; [`MemberStep::HandOver`] is left to the caller.
    pub fn go_towards(&mut self, wanted: &[MachineId]) -> Result<Option<MemberStep>, GroupError> {
        if !self.may_propose() || self.node.raft.has_pending_conf() || !self.committed.is_empty() {
            return Ok(None);
        }
        let own = self.membership.own;
        let last = self.node.raft.raft_log.last_index();
        let progress = self.node.raft.prs();
        let ready = |machine: MachineId| {
            let found = progress.get(u64::from(machine.0));
            found.is_some_and(|p| {
                // It has answered, so its progress is known. (After a snapshot the leader sends it
                // nothing, and it does not count as following, before there is a new entry.)
                let has_all = p.matched == last;
                let follows = machine == own || p.state == ProgressState::Replicate || has_all;
                // A machine that was a member before has at least the entries that it had then, so
                // that it may vote, and the progress is certainly not that of its earlier replica.
                let is_back = machine == own || p.matched >= self.changed_at;
                follows && is_back && p.recent_active && p.matched + CAUGHT_UP_ENTRIES >= last
            })
        };
        let Some(step) = members::next_step(&self.members, own, wanted, ready) else {
            // Makes a majority store on disk that the last change of members is committed: by an entry
            // that is sent, with that knowledge, after this replica knew it.
            let term = self.term();
            if !self.is_settled() && self.settling.is_none_or(|(of, _)| of != term) {
                let index = self.propose(Vec::new())?;
                self.settling = Some((term, index));
            }
            return Ok(None);
        };
        if let Some(change) = members::change_of(&step) {
            self.rouse();
            self.node.propose_conf_change(members::encode(&change), change)?;
        }
        Ok(Some(step))
    }

    /// Whether a change of members is in progress: its entry is in the log. Only a leader knows.
    pub fn is_changing_members(&self) -> bool {
        self.members.is_joint() || self.node.raft.has_pending_conf()
    }

    /// Whether the group can do without its former members, even after a restart of all machines.
    /// Only a leader knows.
    pub fn is_settled(&self) -> bool {
        self.is_leader() && self.settled_in == self.term()
    }

    /// Promises of this replica to others.
    pub fn promises(&self) -> Promises {
        let raft = &self.node.raft;
        let last = if self.owes_entries() { self.owes } else { self.last() };
        Promises { term: raft.term, vote: raft.vote, last }
    }

    /// Whether an earlier replica on this machine may have acknowledged entries that this one
    /// lacks.
    fn owes_entries(&self) -> bool {
        let ((owed, of), (index, term)) = (self.owes, self.last());
        (of, owed) > (term, index)
    }

    /// Index and term of the last entry in the log, committed or not.
    pub fn last(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.last_index(), log.last_term())
    }

    /// Whether some machine needs a newer snapshot than the newest one.
    pub fn take_wants_snapshot(&self) -> bool {
        self.node.store().take_wants_snapshot()
    }

    /// Whether reads may be answered now without asking the other replicas.
    pub fn has_lease(&self, mono_us: u64) -> bool {
        self.is_leader() && self.lease.left_us(self.term(), mono_us) > 0
    }

    /// Whether a round is due to keep the lease.
    pub fn should_renew(&self, mono_us: u64) -> bool {
        self.is_leader() && self.lease.should_renew(self.term(), mono_us)
    }

    /// Asks the other replicas whether this one still leads; returns the number of the round.
    /// [`RaftGroup::confirmed`] reaches it when a majority has confirmed.
    pub fn begin_round(&mut self, mono_us: u64) -> u64 {
        self.rouse();
        let (number, context) = self.lease.begin(self.term(), mono_us);
        self.node.read_index(context);
        number
    }

    /// Newest round of [`RaftGroup::begin_round`] that a majority has confirmed.
    pub fn confirmed(&self) -> u64 {
        self.lease.confirmed()
    }

    /// Index of the last applied entry, with its term.
    pub fn applied(&self) -> (u64, u64) {
        let index = self.node.raft.raft_log.applied;
        (index, self.node.store().term_of(index).unwrap_or(0))
    }

    /// Notes a durable snapshot of everything up to `index`. Forgets entries that are not needed
    /// any more; returns the last forgotten index. `is_short`: memory is short, so that entries
    /// which other replicas may still need go, too: those replicas get the snapshot.
    pub fn compact(&mut self, index: u64, is_short: bool) -> u64 {
        let keep_some = !self.membership.is_alone() && !is_short;
        self.node.mut_store().compact(index, keep_some)
    }

    /// Approximate memory of the log.
    pub fn log_bytes(&self) -> u64 {
        self.node.store().bytes()
    }

    /// Whether the newest durable snapshot contains everything that is applied.
    pub fn is_covered(&self) -> bool {
        self.node.store().covered() == self.applied().0
    }
}
