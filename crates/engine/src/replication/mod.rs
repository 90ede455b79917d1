//! The replicated log of one shard: the consensus library behind an interface of our own.
//!
//! The group takes opaque payloads and gives them back in order once they are durable on a
//! majority. It never does IO: what must be durable is handed out as [`Persist`], and the driver
//! says when it is.
//!
//! What must be durable before what, in the library's terms (`raft` 0.7, see its `Ready`):
//! 1. entries and hard state of one `Persist` are written in one atomic batch;
//! 2. only then is [`Group::persisted`] called, with the numbers in order; what a follower has to
//!    say (that it has the entries, that it gives its vote) is given out after that, whereas a
//!    leader's messages go at once: the entries are on their way to the followers' disks while they
//!    are on their way to its own;
//! 3. only entries that are given out by [`Group::committed`] are applied.
//!
//! The library measures time in ticks and draws nothing: it has an election time-out of one value,
//! and [`Group::tick`] stands for election after a seeded number of them, so that candidates do not
//! collide and runs repeat exactly.
//!
//! This module knows nothing of data types, keys or transactions.

mod lease;
mod log;
mod members;
mod pace;
mod sleep;
mod standing;

use crate::members::Members;
pub use log::MemoryLog;
pub use members::Step;
pub use pace::Pace;
pub use standing::{Followers, Standing};

use crate::ids::{MachineId, ShardId};
use crate::limits::{PERSISTS_MAX, PROMISE_US_MAX};
use lease::{Lease, Promise};
use raft::eraftpb::{Entry, EntryType, HardState, Message, MessageType};
use raft::{Config, ProgressState, RawNode, SnapshotStatus, StateRole};
use std::collections::VecDeque;
use std::fmt;

/// What a group wants to have on disk.
#[derive(Clone, Debug, Default)]
pub struct Persist {
    /// The group.
    pub group: ShardId,
    /// Number to be given back to [`Group::persisted`].
    pub number: u64,
    /// Entries to append; an entry with an index that is already there replaces it and all later
    /// ones.
    pub entries: Vec<Entry>,
    /// Term, vote and commit index, if they have changed.
    pub hard_state: Option<HardState>,
    /// Whether promises to others hang on it, so that it must reach the disk itself.
    pub must_sync: bool,
    /// A durable snapshot that another replica has sent contains everything up to this index: the
    /// whole log before is to be forgotten before `entries` are appended.
    pub restored: Option<u64>,
}

/// What a start has read back from disk.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    /// Index and term of the last entry in the snapshot that the state was restored from.
    pub snapshot: (u64, u64),
    /// Term, vote and commit index.
    pub hard_state: HardState,
    /// Entries after the snapshot, in order and without gaps.
    pub entries: Vec<Entry>,
    /// The machines of the group as of the snapshot; none if they are those that founded it.
    pub members: Option<Members>,
    /// What an earlier replica of the group on this machine has promised.
    pub promises: Option<Promises>,
}

/// What a replica has said to others, and must not forget when its log is removed: if the machine is
/// let in again, it would help to elect somebody who lacks what it has acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// Its term.
    pub term: u64,
    /// Whom it has voted for in that term; 0 for nobody.
    pub vote: u64,
    /// Index and term of the last entry that it may have acknowledged.
    pub last: (u64, u64),
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

/// The consensus library refused to go on, which is a broken invariant of the caller.
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

/// How many entries a machine that is to vote may lack.
const CAUGHT_UP_ENTRIES: u64 = 1_000;

/// A machine's place in a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// This machine.
    pub own: MachineId,
    /// The machines that voted when the group was founded. Later ones are in the log.
    pub founders: Vec<MachineId>,
    /// There are other machines, or may be one day.
    pub clustered: bool,
}

impl Membership {
    /// A group of one, for ever.
    pub fn alone() -> Self {
        Self { own: MachineId(1), founders: vec![MachineId(1)], clustered: false }
    }

    /// A machine of a group in a cluster, whether it is one of the founders or not.
    pub fn clustered(own: MachineId, founders: Vec<MachineId>) -> Self {
        Self { own, founders, clustered: true }
    }

    /// Whether there is nobody to agree with, and never will be.
    pub fn is_alone(&self) -> bool {
        !self.clustered
    }
}

/// What is under way to the disk, and what may be said when it is there.
#[derive(Debug)]
struct Outstanding {
    number: u64,
    /// Whether something was handed out to be written; if not, it is done when those before it are.
    written: bool,
    messages: Vec<Message>,
}

/// One replica of a replicated log.
pub struct Group {
    id: ShardId,
    pace: Pace,
    membership: Membership,
    /// As of the last applied entry.
    members: Members,
    /// Where the log changed them last, or later.
    changed_at: u64,
    node: RawNode<MemoryLog>,
    outstanding: VecDeque<Outstanding>,
    held: VecDeque<Persist>,
    unsaved: Option<HardState>,
    committed: VecDeque<Entry>,
    messages: Vec<Message>,
    /// Snapshots that other replicas need.
    wanted: Vec<Message>,
    /// A snapshot of another replica that is about to stand in the place of the log: the number of
    /// the batch that makes it so, and the index.
    restoring: Option<(u64, u64)>,
    /// The term in which this replica has applied an entry of that term's leader.
    caught_up_in: u64,
    /// The term in which this replica has made sure that the members are known to a majority.
    settled_in: u64,
    /// Term and index of the entry that does so when it is committed.
    settling: Option<(u64, u64)>,
    lease: Lease,
    /// When it has ticked last.
    ticked_us: Option<u64>,
    /// Ticks to wait beyond the election time-out before the next election.
    patience: usize,
    /// Some of them have passed.
    is_impatient: bool,
    stands_back: bool,
    random: u64,
    /// What leaders were promised, maybe before this replica was started again.
    promise: Promise,
    /// Index and term of what an earlier replica on this machine may have acknowledged: before that
    /// is here again, this one takes no part in elections.
    owes: (u64, u64),
    /// Nothing is to be done until somebody wakes it.
    asleep: Option<sleep::Asleep>,
    /// How much is committed, as a leader has said with its entries.
    told: u64,
    /// The leader is to be woken, too.
    nudges: bool,
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let raft = &self.node.raft;
        write!(
            f,
            "Group({}, {:?} in term {}, applied {}, committed {}, persisted {}, last {}, {} on their way)",
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

impl Group {
    /// A replica with what was read back from disk (nothing at all, at the first start), at the
    /// monotonic time `mono_us`. A group of one makes itself leader: the first
    /// [`Group::take_persist`] has the proof of that.
    pub fn new(
        id: ShardId,
        membership: Membership,
        recovered: Recovered,
        seed: u64,
        mono_us: u64,
    ) -> Result<Self, GroupError> {
        Self::paced(Pace::default(), (id, membership), recovered, seed, mono_us)
    }

    /// As [`Group::new`], with another way to count time.
    ///
    /// # Errors
    /// If the consensus library refuses.
    pub fn paced(
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
            // A range of one value: the library has no randomness of its own then. See [`Pace`].
            min_election_tick: 2 * pace.election_ticks,
            max_election_tick: 2 * pace.election_ticks + 1,
            applied,
            pre_vote: true,
            check_quorum: true,
            // The library's batching of appends does not look at `max_size_per_msg`.
            batch_append: false,
            max_size_per_msg: 4 << 20,
            max_inflight_msgs: 256,
            // Followers answer nobody: that an entry is committed they may hear with the next one, or
            // the next heartbeat. Saying it at once would double the messages.
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
        let mut group = Self {
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
            patience: 0,
            is_impatient: false,
            stands_back: false,
            random: seed,
            promise: Promise::new(mono_us + silent_us),
            owes: promises.last,
            told: applied,
            asleep: None,
            nudges: false,
        };
        group.draw_patience();
        Ok(group)
    }

    /// Whether this replica leads the group and has applied everything that was committed before
    /// it did.
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

    /// Whether as much is on its way to the disk as may be. What is proposed in the meantime goes
    /// into a later [`Persist`].
    pub fn is_persisting(&self) -> bool {
        let most = if self.membership.is_alone() { 1 } else { PERSISTS_MAX };
        self.outstanding.iter().filter(|o| o.written).count() >= most
    }

    /// Whether this replica may append to the log: it leads, and does not hand the lead over.
    pub fn may_propose(&self) -> bool {
        self.is_leader() && self.node.raft.lead_transferee.is_none()
    }

    /// Begins to hand the lead over to another voter, which is elected as soon as it has the whole
    /// log. Until then, or until the library has given it up, nothing may be proposed. Whether it
    /// succeeds or not, this replica has no lease in this term any more, because the election does
    /// not wait for the end of leases. Tells whether it was begun.
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

    /// The voters that could take the lead over at once: those that were heard of lately, if any
    /// has the whole log only those that have.
    pub fn successors(&self) -> Vec<MachineId> {
        let last = self.node.raft.raft_log.last_index();
        let own = u64::from(self.membership.own.0);
        let others = self.node.raft.prs().iter().filter(|(id, _)| **id != own);
        let mut active: Vec<(u64, u64)> =
            others.filter(|(_, p)| p.recent_active).map(|(id, p)| (*id, p.matched)).collect();
        if active.iter().any(|(_, matched)| *matched == last) {
            active.retain(|(_, matched)| *matched == last);
        }
        let mut found: Vec<MachineId> = active
            .into_iter()
            .filter_map(|(id, _)| u16::try_from(id).ok().map(MachineId))
            .filter(|machine| self.members.voters.contains(machine))
            .collect();
        found.sort_unstable();
        found
    }

    /// Appends a payload to the log; gives its index.
    pub fn propose(&mut self, payload: Vec<u8>) -> Result<u64, GroupError> {
        self.rouse();
        self.node.propose(Vec::new(), payload)?;
        Ok(self.node.raft.raft_log.last_index())
    }

    /// Takes a message of another replica. One that makes no sense is dropped.
    ///
    /// # Errors
    /// If this replica has said that it has entries which it has not.
    pub fn step(&mut self, mono_us: u64, message: Message) -> Result<(), GroupError> {
        // Whoever sends it need not be a member yet, as far as it is known here.
        if message.to != u64::from(self.membership.own.0) {
            return Ok(());
        }
        if self.restoring.is_some() && message.get_msg_type() == MessageType::MsgTimeoutNow {
            // To stand for election would be too early: see [`Group::tick`].
            return Ok(());
        }
        let is_silent = lease::asks_for_vote(&message) && self.owes_entries();
        if is_silent || self.promise.forbids(mono_us, &message) {
            return Ok(());
        }
        if message.get_msg_type() == MessageType::MsgSnapshot {
            // Comes with its contents, or not at all: see [`Group::restore`].
            return Ok(());
        }
        if self.lacks(&message)? {
            self.say_what_is_here(&message);
            return Ok(());
        }
        if self.has_begun_anew(&message) {
            return Ok(());
        }
        self.wake_for(mono_us, &message);
        self.hear_committed(&message);
        if message.term >= self.term() {
            self.promise.hear(mono_us, &message);
        }
        // The library refuses what belongs to nobody; there is nothing to do about it.
        let _ = self.node.step(message);
        Ok(())
    }

    /// What is to be said to other replicas now.
    pub fn take_messages(&mut self) -> Vec<Message> {
        self.pump();
        let is_snapshot = |m: &mut Message| m.get_msg_type() == MessageType::MsgSnapshot;
        self.wanted.extend(self.messages.extract_if(.., is_snapshot));
        // What a group begins with comes from nobody, and nobody wants to know.
        self.messages.retain(|message| message.to != raft::INVALID_ID);
        let mut messages = std::mem::take(&mut self.messages);
        self.tell_committed(&mut messages);
        messages
    }

    /// Messages that tell another replica about the newest durable snapshot, which it needs with its
    /// contents. [`Group::snapshot_sent`] says what became of it.
    pub fn take_snapshots(&mut self) -> Vec<Message> {
        std::mem::take(&mut self.wanted)
    }

    /// Another machine has a snapshot that it needed, or it could not be sent.
    pub fn snapshot_sent(&mut self, to: MachineId, ok: bool) {
        let status = if ok { SnapshotStatus::Finish } else { SnapshotStatus::Failure };
        self.node.report_snapshot(u64::from(to.0), status);
    }

    /// Whether a snapshot of another replica can be taken now: nothing is on its way to the disk.
    pub fn may_restore(&self) -> bool {
        self.outstanding.is_empty() && self.held.is_empty() && self.restoring.is_none()
    }

    /// Another replica has sent a snapshot, and it is durable here. Tells whether it is to stand in
    /// the place of the log; if so, [`Group::restored`] says when the log is ready.
    pub fn restore(&mut self, message: Message) -> bool {
        let is_for_us = message.get_msg_type() == MessageType::MsgSnapshot
            && message.to == u64::from(self.membership.own.0);
        if !is_for_us {
            return false;
        }
        self.asleep = None;
        // The library refuses what belongs to nobody; there is nothing to do about it.
        let _ = self.node.step(message);
        self.pump();
        self.restoring.is_some()
    }

    /// The group begins here: its members begin with a snapshot that all of them have by
    /// themselves, and that is durable here. Like [`Group::restore`] of one that nobody has sent.
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

    /// Asks for votes now, if no leader is known. Tells whether none is.
    pub fn stand(&mut self, mono_us: u64) -> bool {
        let none = self.node.raft.leader_id == raft::INVALID_ID;
        if none && self.may_restore() && self.promise.lets_stand(mono_us) {
            // The library refuses when it must not; there is nothing to do about it.
            let _ = self.node.campaign();
        }
        none
    }

    /// The log is as the snapshot of another replica says, and durable so.
    pub fn restored(&mut self) -> bool {
        let waits = |number| self.outstanding.iter().any(|o| o.number == number);
        let Some((_, index)) = self.restoring.filter(|(number, _)| !waits(*number)) else {
            return false;
        };
        self.restoring = None;
        self.node.advance_apply_to(index);
        true
    }

    /// What is to be made durable now, after what was handed out before.
    pub fn take_persist(&mut self) -> Option<Persist> {
        self.pump();
        self.held.pop_front()
    }

    /// What was handed out under `number` is durable.
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

    /// Lets the library work until it has nothing to say, or enough is on its way to the disk.
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
            // The library wants what comes with a snapshot to be synced.
            let written = !entries.is_empty() || must_sync;
            if written {
                let hard_state = self.unsaved.take();
                let group = self.id;
                let persist = Persist { group, number, entries, hard_state, must_sync, restored };
                self.held.push_back(persist);
            } else if self.outstanding.is_empty() {
                // A moved commit index alone is no promise to anybody; it goes with the next batch.
                self.node.on_persist_ready(number);
                self.messages.extend(messages);
                continue;
            }
            self.outstanding.push_back(Outstanding { number, written, messages });
        }
    }

    /// The next entry that is durable on a majority.
    ///
    /// # Errors
    /// If it does not read back, or the library refuses to go on.
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
            // A leader's first entry of its term: everything before it is applied now.
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
        let damaged = |_| GroupError(format!("entry {index} changes the members unreadably"));
        let change = members::decode(change).map_err(damaged)?;
        let state = self.node.apply_conf_change(&change)?;
        self.members = Members::from_state(&state);
        self.changed_at = index;
        self.node.mut_store().set_members(index, self.members.clone());
        self.lease.members_changed();
        (self.settled_in, self.settling) = (0, None);
        if self.is_leader() && !self.members.votes(self.membership.own) {
            // The library expects of a leader that it has a part in the group.
            let term = self.term();
            self.node.raft.become_follower(term, raft::INVALID_ID);
        }
        Ok(())
    }

    /// The machines of the group, as of the last applied entry.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Takes the next step so that these machines are the voters and there are no others, if this
    /// replica leads and it is time for one. Tells which it was; [`Step::HandOver`] is left to the
    /// caller.
    pub fn go_towards(&mut self, wanted: &[MachineId]) -> Result<Option<Step>, GroupError> {
        if !self.may_propose() || self.node.raft.has_pending_conf() || !self.committed.is_empty() {
            return Ok(None);
        }
        let own = self.membership.own;
        let last = self.node.raft.raft_log.last_index();
        let progress = self.node.raft.prs();
        let ready = |machine: MachineId| {
            let found = progress.get(u64::from(machine.0));
            found.is_some_and(|p| {
                // It has answered: what it has is known. (After a snapshot it is sent nothing, and does not
                // count as following, before there is a new entry.)
                let has_all = p.matched == last;
                let follows = machine == own || p.state == ProgressState::Replicate || has_all;
                // A machine that was in the group before has by then what it had then, so that it
                // votes, and it is known that the answer is not its earlier replica's.
                let is_back = machine == own || p.matched >= self.changed_at;
                follows && is_back && p.recent_active && p.matched + CAUGHT_UP_ENTRIES >= last
            })
        };
        let Some(step) = members::next_step(&self.members, own, wanted, ready) else {
            self.settle()?;
            return Ok(None);
        };
        if let Some(change) = members::change_of(&step) {
            self.rouse();
            self.node.propose_conf_change(members::encode(&change), change)?;
        }
        Ok(Some(step))
    }

    /// Sees to it that a majority has it on disk that the last change of the members is committed: by
    /// an entry that is sent after this replica knew it, and with that knowledge.
    fn settle(&mut self) -> Result<(), GroupError> {
        let term = self.term();
        if !self.is_settled() && self.settling.is_none_or(|(of, _)| of != term) {
            let index = self.propose(Vec::new())?;
            self.settling = Some((term, index));
        }
        Ok(())
    }

    /// Whether the members are about to be others: such an entry is in the log. Only a leader can tell.
    pub fn is_changing_members(&self) -> bool {
        self.members.is_joint() || self.node.raft.has_pending_conf()
    }

    /// Whether the group can do without the machines that were members before, even if all of it
    /// is started again. Only a leader can tell.
    pub fn is_settled(&self) -> bool {
        self.is_leader() && self.settled_in == self.term()
    }

    /// What this replica has said to others.
    pub fn promises(&self) -> Promises {
        let raft = &self.node.raft;
        let last = if self.owes_entries() { self.owes } else { self.last() };
        Promises { term: raft.term, vote: raft.vote, last }
    }

    /// Whether an earlier replica on this machine may have acknowledged what this one has not.
    fn owes_entries(&self) -> bool {
        let ((owed, of), (index, term)) = (self.owes, self.last());
        (of, owed) > (term, index)
    }

    /// Index and term of the last entry in the log, whether it is committed or not.
    pub fn last(&self) -> (u64, u64) {
        let log = &self.node.raft.raft_log;
        (log.last_index(), log.last_term())
    }

    /// Whether some machine needs a newer snapshot than there is.
    pub fn take_wants_snapshot(&self) -> bool {
        self.node.store().take_wants_snapshot()
    }

    /// Whether reads may be answered now without asking the other replicas.
    pub fn has_lease(&self, mono_us: u64) -> bool {
        self.is_leader() && self.lease.left_us(self.term(), mono_us) > 0
    }

    /// Whether it is time for a round if the lease is not to end.
    pub fn should_renew(&self, mono_us: u64) -> bool {
        self.is_leader() && self.lease.should_renew(self.term(), mono_us)
    }

    /// Asks the other replicas whether this one still leads; gives the number of the round.
    /// [`Group::confirmed`] reaches it when a majority has said so.
    pub fn begin_round(&mut self, mono_us: u64) -> u64 {
        self.rouse();
        let (number, context) = self.lease.begin(self.term(), mono_us);
        self.node.read_index(context);
        number
    }

    /// The newest round of [`Group::begin_round`] in which a majority has confirmed the lead.
    pub fn confirmed(&self) -> u64 {
        self.lease.confirmed()
    }

    /// Index of the last applied entry, with its term.
    pub fn applied(&self) -> (u64, u64) {
        let index = self.node.raft.raft_log.applied;
        (index, self.node.store().term_of(index).unwrap_or(0))
    }

    /// A durable snapshot contains everything up to `index`. Forgets entries that nobody needs any
    /// more; gives the last index that is forgotten. `is_short`: memory is short, so that what other
    /// replicas may still need goes, too: they get the snapshot.
    pub fn compact(&mut self, index: u64, is_short: bool) -> u64 {
        let keep_some = !self.membership.is_alone() && !is_short;
        self.node.mut_store().compact(index, keep_some)
    }

    /// Memory that the log takes, about.
    pub fn log_bytes(&self) -> u64 {
        self.node.store().bytes()
    }

    /// Index of the last entry in the newest durable snapshot.
    pub fn covered(&self) -> u64 {
        self.node.store().covered()
    }
}
