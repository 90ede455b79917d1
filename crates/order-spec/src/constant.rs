//! `constant`: an operation's place follows from durable proposals, and nothing is handed along a chain.
//!
//! What a shard does with a message it does at once and as a whole, as the product does. What is left
//! out: replication is a log of which a growing part is durable; a new leader has all of that and any
//! part of the rest; its clock begins at a ceiling above everything that an earlier one may have used.
//! Whoever is told something may be told it at any later time, and again, and by whoever has said it
//! before: that covers messages that are late, repeated or asked for.

use crate::clients::{Clients, Issued, Time};
use crate::judge::judge;
use crate::story::{OpId, Ops, Story, bit, each};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// The first ceiling, and how far ahead the next one is.
const CEILING: Time = 8;

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nobody waits until others have said that what comes before is closed.
    NoClosed,
    /// A clock is not advanced to the final times that it has given.
    NoClockAdvance,
    /// Earlier operations of the same list whose place is not final yet are ignored.
    IgnoreOpen,
    /// Earlier operations of the same list that are not durable yet are ignored.
    IgnoreUndurable,
    /// Proposals are told before they are durable.
    EarlyExport,
    /// That an operation is refused is not written down.
    VolatileReject,
    /// A new leader's clock begins with what it finds in the log.
    NoCeiling,
    /// Clients take replies as they come.
    NoReturnOrder,
    /// What was returned already says nothing about what is issued next.
    NoFloor,
}

/// The protocol, with somebody who uses it.
#[derive(Clone, Debug)]
pub struct Constant {
    /// What is done.
    pub story: Story,
    /// What is wrong with the protocol.
    pub mutant: Option<Mutant>,
}

/// Something that was said, and may reach whom it concerns at any time from then on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// An operation's place is not before this time: durable.
    Proposed(OpId, Time),
    /// An operation will not take effect: durable.
    Rejected(OpId),
    /// An operation has its place, and nobody gets one before it any more.
    Closed(OpId),
    /// The reply: the place, and what the list was.
    Reply(OpId, Time, Vec<OpId>),
}

/// A record of a shard's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An operation's place is not before this time.
    Propose(OpId, Time),
    /// An operation will not take effect.
    Reject(OpId),
    /// Clocks may come up to this time, and not further.
    Ceiling(Time),
}

/// A shard, as it is at a leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Leader {
    term: u8,
    /// Records, each with the term of the leader that wrote it.
    log: Vec<(u8, Entry)>,
    /// So much of the log is durable, as far as this leader knows.
    durable: usize,
    clock: Time,
    /// What others have told.
    proposals: BTreeMap<OpId, Time>,
    rejected: Ops,
    elsewhere_closed: Ops,
    /// What follows from it.
    finals: BTreeMap<OpId, Time>,
    failed: Ops,
    closed: Ops,
    lists: BTreeMap<u8, Vec<OpId>>,
}

impl Leader {
    fn proposal(&self, op: OpId) -> Option<(usize, Time)> {
        self.log.iter().enumerate().find_map(|(index, (_, entry))| match entry {
            Entry::Propose(of, time) if *of == op => Some((index, *time)),
            _ => None,
        })
    }

    fn write(&mut self, entry: Entry) {
        self.log.push((self.term, entry));
    }

    /// The highest ceiling in some part of the log.
    fn ceiling(log: &[(u8, Entry)]) -> Time {
        let ceilings = log.iter().filter_map(|(_, entry)| match entry {
            Entry::Ceiling(time) => Some(*time),
            _ => None,
        });
        ceilings.fold(CEILING, Time::max)
    }

    /// Sees to it that the clock may come to `time` when what is written now is durable.
    fn reach_for(&mut self, time: Time) {
        if time > Self::ceiling(&self.log) {
            self.write(Entry::Ceiling(time + CEILING));
        }
    }

    fn knows(&self, op: OpId) -> bool {
        let is_of =
            |entry: &Entry| matches!(entry, Entry::Propose(of, _) | Entry::Reject(of) if *of == op);
        self.log.iter().any(|(_, entry)| is_of(entry)) || self.failed & bit(op) != 0
    }

    /// The operations in the log, durable or not, that have not failed.
    fn live(&self) -> Vec<(OpId, Time)> {
        let proposed = self.log.iter().filter_map(|(_, entry)| match entry {
            Entry::Propose(op, time) => Some((*op, *time)),
            _ => None,
        });
        proposed.filter(|(op, _)| self.failed & bit(*op) == 0).collect()
    }
}

/// Everybody at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    clients: Clients,
    facts: BTreeSet<Fact>,
    leaders: Vec<Leader>,
    /// Those that do not know that they are deposed.
    deposed: Vec<Option<Leader>>,
    changes: u8,
    questions: u8,
}

/// Something happens.
pub type Action = crate::action::Action<Fact>;

impl Constant {
    /// The protocol as it is meant.
    pub fn new(story: Story) -> Self {
        Self { story, mutant: None }
    }

    /// The protocol with something wrong.
    pub fn broken(story: Story, mutant: Mutant) -> Self {
        Self { story, mutant: Some(mutant) }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether a fact is of use to a leader of `shard` that does not know it.
    fn concerns(&self, state: &State, shard: u8, leader: &Leader, fact: &Fact) -> bool {
        let (about, known) = match fact {
            Fact::Proposed(op, _) => (*op, leader.proposals.contains_key(op)),
            Fact::Rejected(op) => (*op, leader.rejected & bit(*op) != 0),
            Fact::Closed(op) => (*op, leader.elsewhere_closed & bit(*op) != 0),
            Fact::Reply(..) => return false,
        };
        let waits = |(op, _): &(OpId, Time)| {
            state.clients.issued(*op).is_some_and(|issued| issued.window & bit(about) != 0)
        };
        !known && self.story.op(about).shard != shard && leader.live().iter().any(waits)
    }

    /// A leader does everything that can be done now.
    fn work(&self, state: &mut State, leader: &mut Leader) {
        loop {
            let mut quiet = true;
            for (op, time) in leader.live() {
                let Some(issued) = state.clients.issued(op) else { continue };
                if leader.finals.contains_key(&op) {
                    if leader.closed & bit(op) == 0 && self.may_close(state, leader, op) {
                        self.close(state, leader, op);
                        quiet = false;
                    }
                } else if self.has_failed_before(leader, issued.window) {
                    leader.failed |= bit(op);
                    quiet = false;
                } else if let Some(place) = self.place(leader, op, time, issued) {
                    if place > Leader::ceiling(&leader.log[..leader.durable])
                        && !self.is(Mutant::NoCeiling)
                    {
                        leader.reach_for(place);
                        continue;
                    }
                    leader.finals.insert(op, place);
                    if !self.is(Mutant::NoClockAdvance) {
                        leader.clock = leader.clock.max(place);
                    }
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn has_failed_before(&self, leader: &Leader, window: Ops) -> bool {
        let durable = &leader.log[..leader.durable];
        let here = |op: OpId| durable.iter().any(|(_, entry)| *entry == Entry::Reject(op));
        each(window).any(|op| leader.rejected & bit(op) != 0 || here(op))
    }

    /// The place of an operation, once its own proposal is durable and all before it are known.
    fn place(&self, leader: &Leader, op: OpId, time: Time, issued: Issued) -> Option<Time> {
        let durable = |op: OpId| leader.proposal(op).filter(|(index, _)| *index < leader.durable);
        durable(op)?;
        let mut place = issued.floor;
        for earlier in each(issued.window) {
            let here = durable(earlier).map(|(_, time)| time);
            let proposal = here.or_else(|| leader.proposals.get(&earlier).copied())?;
            place = proposal.max(place + 1);
        }
        Some(time.max(place + 1))
    }

    /// Whether nothing that may yet get an earlier place can matter for the operation.
    fn may_close(&self, state: &State, leader: &Leader, op: OpId) -> bool {
        let own = (leader.finals[&op], op);
        let client = self.story.op(op).client;
        leader.live().into_iter().all(|(other, time)| {
            let place = leader.finals.get(&other).copied();
            let bound = (place.unwrap_or(time), other);
            let is_durable = leader.proposal(other).is_some_and(|(at, _)| at < leader.durable);
            let ignored = self.is(Mutant::IgnoreOpen) && place.is_none()
                || self.is(Mutant::IgnoreUndurable) && !is_durable;
            other == op
                || bound > own
                || !self.story.op(other).conflicts(self.story.op(op))
                || ignored
                || leader.closed & bit(other) != 0
                    && (self.story.op(other).client == client
                        || self.is_ready(state, leader, other))
        })
    }

    /// Whether an operation and everything before it in its session is closed.
    fn is_ready(&self, state: &State, leader: &Leader, op: OpId) -> bool {
        let window = state.clients.issued(op).map_or(0, |issued| issued.window);
        let closed = leader.closed | leader.elsewhere_closed;
        self.is(Mutant::NoClosed) || window & !closed == 0
    }

    fn close(&self, state: &mut State, leader: &mut Leader, op: OpId) {
        leader.closed |= bit(op);
        let list = leader.lists.entry(self.story.op(op).key).or_default();
        state.facts.insert(Fact::Reply(op, leader.finals[&op], list.clone()));
        state.facts.insert(Fact::Closed(op));
        if !self.story.op(op).reads {
            list.push(op);
        }
    }

    /// A record is durable, says whoever leads: what it says may be told.
    fn export(&self, state: &mut State, entry: Entry) {
        state.facts.extend(match entry {
            Entry::Propose(op, time) => Some(Fact::Proposed(op, time)),
            Entry::Reject(op) => Some(Fact::Rejected(op)),
            Entry::Ceiling(_) => None,
        });
    }

    fn arrive(&self, state: &mut State, op: OpId) {
        let leader = &mut state.leaders[usize::from(self.story.op(op).shard)];
        leader.clock += 1;
        let entry = Entry::Propose(op, leader.clock);
        if !self.is(Mutant::NoCeiling) {
            leader.reach_for(leader.clock);
        }
        leader.write(entry);
        if self.is(Mutant::EarlyExport) {
            self.export(state, entry);
        }
    }

    fn ask(&self, state: &mut State, op: OpId) {
        state.questions -= 1;
        let leader = &mut state.leaders[usize::from(self.story.op(op).shard)];
        if self.is(Mutant::VolatileReject) {
            leader.failed |= bit(op);
            state.facts.insert(Fact::Rejected(op));
        } else {
            leader.write(Entry::Reject(op));
        }
    }

    fn depose(&self, state: &mut State, shard: u8, kept: usize) {
        state.changes -= 1;
        let old = &mut state.leaders[usize::from(shard)];
        let log = old.log[..kept].to_vec();
        let proposals = log.iter().filter_map(|(_, entry)| match entry {
            Entry::Propose(_, time) => Some(*time),
            _ => None,
        });
        let highest = proposals.max().unwrap_or(0);
        let ceiling = if self.is(Mutant::NoCeiling) { 0 } else { Leader::ceiling(&log) };
        let (term, clock) = (old.term + 1, highest.max(ceiling));
        let new = Leader { term, durable: old.durable, clock, log, ..Leader::default() };
        state.deposed[usize::from(shard)] = Some(std::mem::replace(old, new));
    }

    fn hear(&self, leader: &mut Leader, fact: Fact) {
        match fact {
            Fact::Proposed(op, time) => drop(leader.proposals.insert(op, time)),
            Fact::Rejected(op) => leader.rejected |= bit(op),
            Fact::Closed(op) => leader.elsewhere_closed |= bit(op),
            Fact::Reply(..) => {}
        }
    }

    /// A client is told about an operation: all that it may be told now.
    fn answer(&self, state: &mut State, op: OpId) {
        if state.facts.contains(&Fact::Rejected(op)) {
            state.clients.fail(&self.story, op);
        } else if let Some(time) = state.reply(op) {
            state.clients.succeed(op, time);
        }
    }

    fn may_answer(&self, state: &State, op: OpId) -> bool {
        let in_turn = state.clients.is_first(op) || self.is(Mutant::NoReturnOrder);
        let rejected = state.facts.contains(&Fact::Rejected(op));
        state.clients.is_open(op) && (rejected || in_turn && state.reply(op).is_some())
    }

    /// Whether somebody waits for an operation that has not arrived.
    fn may_ask(&self, state: &State, op: OpId) -> bool {
        let leader = |op: OpId| &state.leaders[usize::from(self.story.op(op).shard)];
        let is_missing = state.clients.issued(op).is_some() && !leader(op).knows(op);
        is_missing && state.clients.behind(op).any(|other| leader(other).proposal(other).is_some())
    }

    fn with_leader(&self, state: &mut State, shard: u8, old: bool, act: impl FnOnce(&mut Leader)) {
        let shard = usize::from(shard);
        let mut leader = match old {
            true => state.deposed[shard].take().unwrap_or_default(),
            false => std::mem::take(&mut state.leaders[shard]),
        };
        act(&mut leader);
        self.work(state, &mut leader);
        match old {
            true => state.deposed[shard] = Some(leader),
            false => state.leaders[shard] = leader,
        }
    }

    fn shard_actions(&self, state: &State, shard: u8, actions: &mut Vec<Action>) {
        let leader = &state.leaders[usize::from(shard)];
        if leader.durable < leader.log.len() {
            actions.push(Action::Durable(shard));
        }
        if state.changes > 0 && !leader.log.is_empty() {
            let kept = leader.durable..=leader.log.len();
            actions.extend(kept.map(|kept| Action::Depose(shard, kept)));
        }
        let deposed = state.deposed[usize::from(shard)].as_ref();
        if let Some(old) = deposed {
            let next = old.log.get(old.durable);
            let is_durable = old.durable < leader.durable && next == leader.log.get(old.durable);
            actions.extend((next.is_some() && is_durable).then_some(Action::OldDurable(shard)));
        }
        for fact in &state.facts {
            for (old, leader) in [(false, Some(leader)), (true, deposed)] {
                if leader.is_some_and(|leader| self.concerns(state, shard, leader, fact)) {
                    actions.push(Action::Hear(shard, old, fact.clone()));
                }
            }
        }
    }
}

impl State {
    fn reply(&self, op: OpId) -> Option<Time> {
        self.facts.iter().find_map(|fact| match fact {
            Fact::Reply(of, time, _) if *of == op => Some(*time),
            _ => None,
        })
    }

    fn results(&self) -> Vec<(OpId, Vec<OpId>)> {
        let results = self.facts.iter().filter_map(|fact| match fact {
            Fact::Reply(op, _, list) => Some((*op, list.clone())),
            _ => None,
        });
        results.collect()
    }
}

impl Model for Constant {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let shards = usize::from(self.story.shards());
        vec![State {
            clients: Clients::new(&self.story),
            facts: BTreeSet::new(),
            leaders: vec![Leader::default(); shards],
            deposed: vec![None; shards],
            changes: self.story.changes,
            questions: self.story.questions,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let clients = 0..self.story.clients();
        actions.extend(
            clients.filter(|c| state.clients.next_of(&self.story, *c).is_some()).map(Action::Issue),
        );
        for op in 0..self.story.ops.len() as OpId {
            let leader = &state.leaders[usize::from(self.story.op(op).shard)];
            if state.clients.issued(op).is_some() && !leader.knows(op) {
                actions.push(Action::Arrive(op));
            }
            if state.questions > 0 && self.may_ask(state, op) {
                actions.push(Action::Ask(op));
            }
            if self.may_answer(state, op) {
                actions.push(Action::Answer(op));
            }
        }
        (0..self.story.shards()).for_each(|shard| self.shard_actions(state, shard, actions));
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        match action {
            Action::Issue(client) => {
                state.clients.issue(&self.story, client, !self.is(Mutant::NoFloor));
            }
            Action::Arrive(op) => {
                self.arrive(&mut state, op);
                self.with_leader(&mut state, self.story.op(op).shard, false, |_| {});
            }
            Action::Durable(shard) => {
                let leader = &state.leaders[usize::from(shard)];
                let (_, entry) = leader.log[leader.durable];
                self.export(&mut state, entry);
                self.with_leader(&mut state, shard, false, |leader| leader.durable += 1);
            }
            Action::OldDurable(shard) => {
                self.with_leader(&mut state, shard, true, |leader| leader.durable += 1);
            }
            Action::Hear(shard, old, fact) => {
                self.with_leader(&mut state, shard, old, |leader| self.hear(leader, fact));
            }
            Action::Depose(shard, kept) => {
                self.depose(&mut state, shard, kept);
                self.with_leader(&mut state, shard, false, |_| {});
            }
            Action::Ask(op) => {
                self.ask(&mut state, op);
                self.with_leader(&mut state, self.story.op(op).shard, false, |_| {});
            }
            Action::Answer(op) => self.answer(&mut state, op),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one order", |model: &Self, state: &State| {
                judge(&model.story, &state.clients.seen(state.results())).is_none()
            }),
            Property::always("nobody waits for ever", |model: &Self, state: &State| {
                let mut actions = Vec::new();
                model.actions(state, &mut actions);
                !actions.is_empty() || state.clients.are_answered()
            }),
            Property::sometimes("all is done", |_: &Self, state: &State| state.clients.are_done()),
        ]
    }
}
