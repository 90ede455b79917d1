//! `chain`: the order is handed from leader to leader, one operation after the other, as in the published
//! protocol; what that leaves open when leaders change is closed here.
//!
//! An operation is written to its shard's log. When the operation before it has told its *chain* (the
//! places of the operations up to that one, each with the term of the leader that has given it), it gets
//! the next place after both that and the shard's clock, goes into the log a second time with its place,
//! and is handed on at once: that nobody waits for the second write is what makes the protocol as fast as
//! it is, and what makes changes of leaders hard. A new leader asks all other shards which places of its
//! shard they have heard of, and gives none before all have answered. Who answers promises, durably, to
//! take no chain any more in which somebody of that shard speaks in an earlier term.

use crate::clients::{Clients, Time};
use crate::judge::judge;
use crate::story::{OpId, Ops, Story, bit};
use stateright::{Model, Property};
use std::collections::{BTreeMap, BTreeSet};

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Nothing is handed on: an operation gets its place when it is durable.
    NoHandOff,
    /// The first operation of a session hands on before it is durable.
    EarlyFirst,
    /// A new leader asks nobody.
    NoQuestions,
    /// Chains are taken from whoever sends them.
    NoTerms,
    /// That an operation is refused is not written down.
    VolatileReject,
}

/// The protocol, with somebody who uses it.
#[derive(Clone, Debug)]
pub struct Chained {
    /// What is done.
    pub story: Story,
    /// What is wrong with the protocol.
    pub mutant: Option<Mutant>,
}

/// An operation has a place, says the leader of its shard in some term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    op: OpId,
    time: Time,
    term: u8,
}

/// Places from the first operation of a session that had no answer up to some operation.
pub type Chain = Vec<Link>;

/// Something that was said, and may reach whom it concerns at any time from then on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact {
    /// The last operation of the chain has its place.
    HandedOn(Chain),
    /// An operation will not take effect: durable.
    Rejected(OpId),
    /// A new leader of a shard asks, in its term.
    Asks(u8, u8),
    /// A shard answers such a question: the chains it knows up to operations of the other shard.
    Knows(u8, u8, u8, Vec<Chain>),
    /// The reply: what the list was.
    Reply(OpId, Vec<OpId>),
}

/// A record of a shard's log.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    /// An operation has arrived.
    Content(OpId),
    /// The last operation of the chain has its place.
    Order(Chain),
    /// An operation will not take effect.
    Reject(OpId),
    /// No chain is taken in which this shard speaks in a term before this one.
    Promise(u8, u8),
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
    /// Chains that were handed on to operations of this shard.
    heard: BTreeSet<Chain>,
    rejected: Ops,
    /// In a term that is not the first: who has answered.
    answers: BTreeMap<u8, Vec<Chain>>,
    /// The last record that was carried out.
    done: usize,
    lists: BTreeMap<u8, Vec<OpId>>,
    /// Operations that were refused and that is not written down (a broken rule).
    refused: Ops,
}

impl Leader {
    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.log.iter().map(|(_, entry)| entry)
    }

    fn knows(&self, op: OpId) -> bool {
        let is_of = |entry: &Entry| match entry {
            Entry::Content(of) | Entry::Reject(of) => *of == op,
            Entry::Order(chain) => chain.last().is_some_and(|link| link.op == op),
            Entry::Promise(..) => false,
        };
        self.entries().any(is_of) || self.refused & bit(op) != 0
    }

    fn has_failed(&self, op: OpId) -> bool {
        self.entries().any(|entry| *entry == Entry::Reject(op))
    }

    fn chain_of(&self, op: OpId) -> Option<&Chain> {
        self.entries().find_map(|entry| match entry {
            Entry::Order(chain) if chain.last().is_some_and(|link| link.op == op) => Some(chain),
            _ => None,
        })
    }

    /// The operations that have arrived and have no place.
    fn pending(&self) -> Vec<(usize, OpId)> {
        let contents = self.log.iter().enumerate().filter_map(|(at, (_, entry))| match entry {
            Entry::Content(op) => Some((at, *op)),
            _ => None,
        });
        contents.filter(|(_, op)| self.chain_of(*op).is_none() && !self.has_failed(*op)).collect()
    }

    /// Since which term of a shard chains are taken.
    fn promised(&self, shard: u8) -> u8 {
        Self::promised_in(&self.log, shard)
    }

    fn promised_in(log: &[(u8, Entry)], shard: u8) -> u8 {
        let promises = log.iter().filter_map(|(_, entry)| match entry {
            Entry::Promise(of, term) if *of == shard => Some(*term),
            _ => None,
        });
        promises.max().unwrap_or(0)
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

impl Chained {
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

    fn shard_of(&self, op: OpId) -> u8 {
        self.story.op(op).shard
    }

    /// Whether a leader takes a chain: nobody in it speaks in a term that this shard has promised to
    /// ignore.
    fn takes(&self, leader: &Leader, chain: &Chain) -> bool {
        let in_time = |link: &Link| link.term >= leader.promised(self.shard_of(link.op));
        self.is(Mutant::NoTerms) || chain.iter().all(in_time)
    }

    /// Whether a fact is of use to a leader of `shard` that does not know it.
    fn concerns(&self, state: &State, shard: u8, leader: &Leader, fact: &Fact) -> bool {
        let waits = |about: OpId| {
            let after = |op: &OpId| {
                let issued = state.clients.issued(*op);
                issued.and_then(|issued| issued.predecessor()) == Some(about)
            };
            leader.pending().iter().any(|(_, op)| after(op))
        };
        match fact {
            Fact::HandedOn(chain) => {
                let last = chain.last().map_or(0, |link| link.op);
                let is_new =
                    !leader.heard.iter().any(|heard| heard.last().is_some_and(|l| l.op == last));
                self.shard_of(last) != shard && is_new && waits(last) && self.takes(leader, chain)
            }
            Fact::Rejected(op) => {
                self.shard_of(*op) != shard && leader.rejected & bit(*op) == 0 && waits(*op)
            }
            Fact::Asks(other, term) => *other != shard && leader.promised(*other) < *term,
            Fact::Knows(from, to, term, _) => {
                *to == shard && *term == leader.term && !leader.answers.contains_key(from)
            }
            Fact::Reply(..) => false,
        }
    }

    /// Whether a leader knows all places that earlier ones have handed on.
    fn has_recovered(&self, leader: &Leader) -> bool {
        let others = usize::from(self.story.shards()) - 1;
        leader.term == 0 || self.is(Mutant::NoQuestions) || leader.answers.len() == others
    }

    /// A leader does everything that can be done now.
    fn work(&self, state: &mut State, shard: u8, leader: &mut Leader) {
        if self.has_recovered(leader) {
            self.place_as_before(leader);
            while self.place_next(state, leader) {}
            self.hand_on(state, shard, leader);
        }
        self.carry_out(state, leader);
    }

    /// Operations whose place an earlier leader has handed on get that place, before any other one.
    fn place_as_before(&self, leader: &mut Leader) {
        let answers = leader.answers.values().flatten();
        let mut known: Vec<Chain> = answers.cloned().collect();
        known.sort_by_key(|chain| chain.last().map(|link| link.time));
        for chain in known {
            let Some(last) = chain.last().copied() else { continue };
            let is_open = leader.chain_of(last.op).is_none() && !leader.has_failed(last.op);
            if is_open && leader.knows(last.op) {
                leader.clock = leader.clock.max(last.time);
                leader.log.push((leader.term, Entry::Order(chain)));
            }
        }
    }

    /// The operation that one waits for.
    fn predecessor(&self, state: &State, op: OpId) -> Option<OpId> {
        let issued = state.clients.issued(op).filter(|_| !self.is(Mutant::NoHandOff));
        issued?.predecessor()
    }

    /// Gives one operation its place, or notes that it has failed; tells whether there was one.
    fn place_next(&self, state: &State, leader: &mut Leader) -> bool {
        for (at, op) in leader.pending() {
            if at >= leader.durable {
                continue;
            }
            let Some(before) = self.predecessor(state, op) else {
                self.place(leader, op, Vec::new());
                return true;
            };
            if leader.rejected & bit(before) != 0 || leader.has_failed(before) {
                leader.log.push((leader.term, Entry::Reject(op)));
                return true;
            }
            let is_of = |chain: &&Chain| chain.last().is_some_and(|link| link.op == before);
            let chain = leader.chain_of(before).or_else(|| leader.heard.iter().find(is_of));
            if let Some(chain) = chain.cloned() {
                self.place(leader, op, chain);
                return true;
            }
        }
        false
    }

    fn place(&self, leader: &mut Leader, op: OpId, mut chain: Chain) {
        let before = chain.last().map_or(0, |link| link.time);
        leader.clock = leader.clock.max(before) + 1;
        chain.push(Link { op, time: leader.clock, term: leader.term });
        leader.log.push((leader.term, Entry::Order(chain.clone())));
    }

    /// Hands on what has a place: at once, because its content is durable and the places before it are
    /// known; the first operation of a chain has nothing but the record of its place.
    ///
    /// Whoever has promised something to a shard has told it, too, which of its places it knows: those
    /// hold in the shard's new term as they did before.
    fn hand_on(&self, state: &mut State, shard: u8, leader: &Leader) {
        let promised = |of| Leader::promised_in(&leader.log[..leader.durable], of);
        for (at, (_, entry)) in leader.log.iter().enumerate() {
            let Entry::Order(chain) = entry else { continue };
            if at < leader.durable || chain.len() > 1 || self.is(Mutant::EarlyFirst) {
                let chain = chain.iter().map(|link| {
                    let of = self.shard_of(link.op);
                    let own = of == shard;
                    let term = if own { leader.term } else { link.term.max(promised(of)) };
                    Link { term, ..*link }
                });
                state.facts.insert(Fact::HandedOn(chain.collect()));
            }
        }
    }

    /// What is durable takes effect, in the order of the log.
    fn carry_out(&self, state: &mut State, leader: &mut Leader) {
        for at in leader.done..leader.durable {
            if let Entry::Order(chain) = &leader.log[at].1
                && let Some(op) = chain.last().map(|link| link.op)
            {
                let list = leader.lists.entry(self.story.op(op).key).or_default();
                state.facts.insert(Fact::Reply(op, list.clone()));
                if !self.story.op(op).reads {
                    list.push(op);
                }
            }
        }
        leader.done = leader.durable;
    }

    /// A record is durable, says whoever leads: what it says may be told.
    fn export(&self, state: &mut State, shard: u8, entry: &Entry) {
        let fact = match entry {
            Entry::Reject(op) => Fact::Rejected(*op),
            Entry::Promise(to, term) => {
                let known = self.known_of(&state.leaders[usize::from(shard)], *to);
                Fact::Knows(shard, *to, *term, known)
            }
            Entry::Content(_) | Entry::Order(_) => return,
        };
        state.facts.insert(fact);
    }

    /// All chains up to operations of some shard that a leader has taken or given on.
    fn known_of(&self, leader: &Leader, shard: u8) -> Vec<Chain> {
        let given = leader.entries().filter_map(|entry| match entry {
            Entry::Order(chain) => Some(chain),
            _ => None,
        });
        let mut known = BTreeSet::new();
        for chain in given.chain(&leader.heard) {
            let ends = (1..=chain.len()).filter(|end| self.shard_of(chain[end - 1].op) == shard);
            known.extend(ends.map(|end| chain[..end].to_vec()));
        }
        known.into_iter().collect()
    }

    fn hear(leader: &mut Leader, fact: Fact) {
        match fact {
            Fact::HandedOn(chain) => drop(leader.heard.insert(chain)),
            Fact::Rejected(op) => leader.rejected |= bit(op),
            Fact::Asks(other, term) => {
                leader.log.push((leader.term, Entry::Promise(other, term)));
            }
            Fact::Knows(from, _, _, chains) => drop(leader.answers.insert(from, chains)),
            Fact::Reply(..) => {}
        }
    }

    fn ask(&self, state: &mut State, op: OpId) {
        state.questions -= 1;
        let leader = &mut state.leaders[usize::from(self.story.op(op).shard)];
        if self.is(Mutant::VolatileReject) {
            leader.refused |= bit(op);
            state.facts.insert(Fact::Rejected(op));
        } else {
            leader.log.push((leader.term, Entry::Reject(op)));
        }
    }

    fn depose(&self, state: &mut State, shard: u8, kept: usize) {
        state.changes -= 1;
        let old = &mut state.leaders[usize::from(shard)];
        let log = old.log[..kept].to_vec();
        let term = old.term + 1;
        let mut new = Leader { term, durable: old.durable, log, ..Leader::default() };
        let times = new.entries().filter_map(|entry| match entry {
            Entry::Order(chain) => chain.last().map(|link| link.time),
            _ => None,
        });
        new.clock = times.max().unwrap_or(0);
        state.deposed[usize::from(shard)] = Some(std::mem::replace(old, new));
        state.facts.insert(Fact::Asks(shard, term));
    }

    fn may_answer(&self, state: &State, op: OpId) -> bool {
        let rejected = state.facts.contains(&Fact::Rejected(op));
        state.clients.is_open(op) && (rejected || state.clients.is_first(op) && state.has_reply(op))
    }

    /// Whether somebody waits for an operation that has not arrived.
    fn may_ask(&self, state: &State, op: OpId) -> bool {
        let leader = |op: OpId| &state.leaders[usize::from(self.story.op(op).shard)];
        let is_missing = state.clients.issued(op).is_some() && !leader(op).knows(op);
        is_missing && state.clients.behind(op).any(|other| leader(other).knows(other))
    }

    fn with_leader(
        &self,
        state: &mut State,
        shard: u8,
        old: bool,
        act: impl FnOnce(&mut State, &mut Leader),
    ) {
        let at = usize::from(shard);
        let mut leader = match old {
            true => state.deposed[at].take().unwrap_or_default(),
            false => std::mem::take(&mut state.leaders[at]),
        };
        act(state, &mut leader);
        self.work(state, shard, &mut leader);
        match old {
            true => state.deposed[at] = Some(leader),
            false => state.leaders[at] = leader,
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
    fn has_reply(&self, op: OpId) -> bool {
        self.facts.iter().any(|fact| matches!(fact, Fact::Reply(of, _) if *of == op))
    }

    fn results(&self) -> Vec<(OpId, Vec<OpId>)> {
        let results = self.facts.iter().filter_map(|fact| match fact {
            Fact::Reply(op, list) => Some((*op, list.clone())),
            _ => None,
        });
        results.collect()
    }
}

impl Model for Chained {
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
        let issues = |client: &u8| state.clients.next_of(&self.story, *client).is_some();
        actions.extend(clients.filter(issues).map(Action::Issue));
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
            Action::Issue(client) => state.clients.issue(&self.story, client, true),
            Action::Arrive(op) => {
                self.with_leader(&mut state, self.shard_of(op), false, |state, leader| {
                    // Nothing is before the first one: it gets its place at once.
                    match self.predecessor(state, op).is_none() && self.has_recovered(leader) {
                        true => self.place(leader, op, Vec::new()),
                        false => leader.log.push((leader.term, Entry::Content(op))),
                    }
                });
            }
            Action::Durable(shard) => {
                let leader = &state.leaders[usize::from(shard)];
                let entry = leader.log[leader.durable].1.clone();
                self.export(&mut state, shard, &entry);
                self.with_leader(&mut state, shard, false, |_, leader| leader.durable += 1);
            }
            Action::OldDurable(shard) => {
                self.with_leader(&mut state, shard, true, |_, leader| leader.durable += 1);
            }
            Action::Hear(shard, old, fact) => {
                self.with_leader(&mut state, shard, old, |_, leader| Self::hear(leader, fact));
            }
            Action::Depose(shard, kept) => {
                self.depose(&mut state, shard, kept);
                self.with_leader(&mut state, shard, false, |_, _| {});
            }
            Action::Ask(op) => {
                self.ask(&mut state, op);
                self.with_leader(&mut state, self.shard_of(op), false, |_, _| {});
            }
            Action::Answer(op) => match state.facts.contains(&Fact::Rejected(op)) {
                true => state.clients.fail(&self.story, op),
                // Places are not told here: nothing comes of them.
                false => state.clients.succeed(op, 0),
            },
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
