//! Shards with their logs and leaders, and all possible events, common to all protocols.
//!
//! A shard handles a message at once and as a whole, as the product does. Replication is left out:
//! a shard has a log of which a growing part is durable, and a new leader has all of that and any
//! part of the rest. A message may be delivered at any time after it was sent, any number of times:
//! that covers messages that are late, repeated or requested.

use crate::clients::{Clients, Time};
use crate::judge::judge;
use crate::story::{OpId, Story};
use stateright::{Model, Property};
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::hash::Hash;

/// Property: there is one order of all operations that agrees with all observations.
pub const ORDER: &str = "one order";

/// Bounds of the types that a state consists of.
pub trait Data: Clone + Debug + Ord + Hash + Send + Sync + 'static {}
impl<T: Clone + Debug + Ord + Hash + Send + Sync + 'static> Data for T {}

/// Behaviour of shards.
pub trait Protocol: Data {
    /// A record of a shard's log.
    type Entry: Data;
    /// Messages between shards, besides replies and failures.
    type Message: Data;
    /// State of a leader besides the log.
    type Mind: Data + Default;

    /// Whether an operation has arrived, or was refused.
    fn knows(&self, leader: &Leader<Self>, op: OpId) -> bool;
    /// Whether an arriving operation is admitted already.
    fn lets_in(&self, _: &Scene, _: &Leader<Self>, _: OpId) -> bool {
        true
    }
    /// Whether a new leader asks at once about missing predecessors of an operation.
    fn hurries(&self, _: &Leader<Self>, _: OpId) -> bool {
        false
    }
    /// Handles the arrival of an operation.
    fn arrive(&self, scene: &Scene, leader: &mut Leader<Self>, facts: &mut Facts<Self>, op: OpId);
    /// Handles a question about an operation that has not arrived for a long time.
    fn refuse(&self, leader: &mut Leader<Self>, facts: &mut Facts<Self>, op: OpId);
    /// Sends the messages that a record permits once this leader knows that it is durable.
    fn export(&self, scene: &Scene, leader: &Leader<Self>, facts: &mut Facts<Self>, at: usize);
    /// Starts a leader with its part of the log.
    fn begin(&self, leader: &mut Leader<Self>, facts: &mut Facts<Self>);
    /// Whether a message is of use to a leader that does not know it.
    fn concerns(&self, scene: &Scene, leader: &Leader<Self>, fact: &Fact<Self::Message>) -> bool;
    /// Delivers a message to a leader that it concerns.
    fn hear(&self, leader: &mut Leader<Self>, fact: Fact<Self::Message>);
    /// Lets a leader do all possible work.
    fn work(&self, scene: &Scene, leader: &mut Leader<Self>, facts: &mut Facts<Self>);

    /// Whether clients accept replies in the order of issue.
    fn replies_in_order(&self) -> bool {
        true
    }

    /// Whether clients send the places that they know.
    fn sends_floors(&self) -> bool {
        true
    }
}

/// Story and clients.
#[derive(Clone, Copy, Debug)]
pub struct Scene<'a> {
    /// The story.
    pub story: &'a Story,
    /// Progress of the clients.
    pub clients: &'a Clients,
}

impl Scene<'_> {
    /// The shard that has an operation's list.
    pub fn shard_of(&self, op: OpId) -> u8 {
        self.story.op(op).shard
    }
}

/// A message that was sent, and may reach its receivers at any time from then on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fact<W> {
    /// An operation will not take effect: durable.
    Rejected(OpId),
    /// The reply: the place, and the list before.
    Reply(OpId, Time, Vec<OpId>),
    /// A message between shards.
    Sent(W),
}

/// All messages that were sent.
pub type Facts<P> = BTreeSet<Fact<<P as Protocol>::Message>>;

/// A shard, from the view of a leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Leader<P: Protocol> {
    /// Number of the shard.
    pub shard: u8,
    /// Term of the leader.
    pub term: u8,
    /// Records, each with the term of the leader that wrote it.
    pub log: Vec<(u8, P::Entry)>,
    /// Length of the durable part of the log, as far as this leader knows.
    pub durable: usize,
    /// State besides the log.
    pub mind: P::Mind,
}

impl<P: Protocol> Leader<P> {
    fn new(shard: u8, term: u8, durable: usize, log: Vec<(u8, P::Entry)>) -> Self {
        Self { shard, term, log, durable, mind: P::Mind::default() }
    }

    /// All records.
    pub fn entries(&self) -> impl Iterator<Item = &P::Entry> {
        self.log.iter().map(|(_, entry)| entry)
    }

    /// The durable records.
    pub fn durable_entries(&self) -> impl Iterator<Item = &P::Entry> {
        self.log[..self.durable].iter().map(|(_, entry)| entry)
    }

    /// Appends a record to the log.
    pub fn write(&mut self, entry: P::Entry) {
        self.log.push((self.term, entry));
    }
}

/// State of all parts at some moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State<P: Protocol> {
    clients: Clients,
    facts: Facts<P>,
    leaders: Vec<Leader<P>>,
    /// Leaders that do not know that they are deposed.
    deposed: Vec<Option<Leader<P>>>,
    changes: u8,
    questions: u8,
}

impl<P: Protocol> State<P> {
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

/// A step of an execution; `W` is the type of messages between shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action<W> {
    /// A client issues operations as far as possible.
    Issue(u8),
    /// An operation arrives at the leader of its shard.
    Arrive(OpId),
    /// The next record of a shard's log becomes durable.
    Durable(u8),
    /// A deposed leader learns that its next record is durable.
    OldDurable(u8),
    /// A leader, or a deposed one, receives a message.
    Hear(u8, bool, Fact<W>),
    /// A shard has a new leader, which has this many records.
    Depose(u8, usize),
    /// A gateway has waited long for an operation, and asks its shard.
    Ask(OpId),
    /// A client receives a reply, or a failure.
    Answer(OpId),
}

/// A protocol in a story.
#[derive(Clone, Debug)]
pub struct Spec<P> {
    /// The story.
    pub story: Story,
    /// The protocol.
    pub protocol: P,
}

impl<P: Protocol> Spec<P> {
    fn leader_of<'a>(&self, state: &'a State<P>, op: OpId) -> &'a Leader<P> {
        &state.leaders[usize::from(self.story.op(op).shard)]
    }

    fn is_missing(&self, state: &State<P>, op: OpId) -> bool {
        let arrived = self.protocol.knows(self.leader_of(state, op), op);
        state.clients.issued(op).is_some() && !arrived
    }

    /// Whether a gateway waits for an operation that has not arrived.
    fn may_ask(&self, state: &State<P>, op: OpId) -> bool {
        let waits = |behind: OpId| {
            let leader = self.leader_of(state, behind);
            let asks = state.questions > 0 || self.protocol.hurries(leader, behind);
            asks && self.protocol.knows(leader, behind)
        };
        self.is_missing(state, op) && state.clients.behind(op).any(waits)
    }

    fn may_arrive(&self, state: &State<P>, op: OpId) -> bool {
        let scene = Scene { story: &self.story, clients: &state.clients };
        let is_missing = self.is_missing(state, op);
        is_missing && self.protocol.lets_in(&scene, self.leader_of(state, op), op)
    }

    fn may_answer(&self, state: &State<P>, op: OpId) -> bool {
        let in_turn = state.clients.is_first(op) || !self.protocol.replies_in_order();
        let rejected = state.facts.contains(&Fact::Rejected(op));
        state.clients.is_open(op) && (rejected || in_turn && state.reply(op).is_some())
    }

    /// Changes a leader, or a deposed one, which then does all possible work.
    fn with_leader(
        &self,
        state: &mut State<P>,
        (shard, old): (u8, bool),
        act: impl FnOnce(&Scene, &mut Leader<P>, &mut Facts<P>),
    ) {
        let State { clients, facts, leaders, deposed, .. } = state;
        let at = usize::from(shard);
        let Some(leader) = (if old { deposed[at].as_mut() } else { Some(&mut leaders[at]) }) else {
            return;
        };
        let scene = Scene { story: &self.story, clients };
        act(&scene, leader, facts);
        self.protocol.work(&scene, leader, facts);
    }

    fn depose(&self, state: &mut State<P>, shard: u8, kept: usize) {
        state.changes -= 1;
        let old = &mut state.leaders[usize::from(shard)];
        let new = Leader::new(shard, old.term + 1, old.durable, old.log[..kept].to_vec());
        state.deposed[usize::from(shard)] = Some(std::mem::replace(old, new));
        self.with_leader(state, (shard, false), |_, leader, facts| {
            self.protocol.begin(leader, facts);
        });
    }

    fn shard_actions(&self, state: &State<P>, shard: u8, actions: &mut Vec<Action<P::Message>>) {
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
        let scene = Scene { story: &self.story, clients: &state.clients };
        for fact in &state.facts {
            for (old, leader) in [(false, Some(leader)), (true, deposed)] {
                if leader.is_some_and(|leader| self.protocol.concerns(&scene, leader, fact)) {
                    actions.push(Action::Hear(shard, old, fact.clone()));
                }
            }
        }
    }
}

impl<P: Protocol> Model for Spec<P> {
    type State = State<P>;
    type Action = Action<P::Message>;

    fn init_states(&self) -> Vec<State<P>> {
        let shards = 0..self.story.shards();
        vec![State {
            clients: Clients::new(&self.story),
            facts: BTreeSet::new(),
            leaders: shards.clone().map(|shard| Leader::new(shard, 0, 0, Vec::new())).collect(),
            deposed: shards.map(|_| None).collect(),
            changes: self.story.changes,
            questions: self.story.questions,
        }]
    }

    fn actions(&self, state: &State<P>, actions: &mut Vec<Action<P::Message>>) {
        let clients = 0..self.story.clients();
        let issues = |client: &u8| state.clients.next_of(&self.story, *client).is_some();
        actions.extend(clients.filter(issues).map(Action::Issue));
        for op in 0..self.story.ops.len() as OpId {
            actions.extend(self.may_arrive(state, op).then_some(Action::Arrive(op)));
            actions.extend(self.may_ask(state, op).then_some(Action::Ask(op)));
            actions.extend(self.may_answer(state, op).then_some(Action::Answer(op)));
        }
        (0..self.story.shards()).for_each(|shard| self.shard_actions(state, shard, actions));
    }

    fn next_state(&self, last: &State<P>, action: Action<P::Message>) -> Option<State<P>> {
        let mut state = last.clone();
        let current = |op: OpId| (self.story.op(op).shard, false);
        match action {
            Action::Issue(client) => {
                state.clients.issue(&self.story, client, self.protocol.sends_floors());
            }
            Action::Arrive(op) => {
                self.with_leader(&mut state, current(op), |scene, leader, facts| {
                    self.protocol.arrive(scene, leader, facts, op);
                });
            }
            Action::Durable(shard) => {
                self.with_leader(&mut state, (shard, false), |scene, leader, facts| {
                    self.protocol.export(scene, leader, facts, leader.durable);
                    leader.durable += 1;
                });
            }
            Action::OldDurable(shard) => {
                self.with_leader(&mut state, (shard, true), |_, leader, _| leader.durable += 1);
            }
            Action::Hear(shard, old, fact) => {
                self.with_leader(&mut state, (shard, old), |_, leader, _| {
                    self.protocol.hear(leader, fact);
                });
            }
            Action::Depose(shard, kept) => self.depose(&mut state, shard, kept),
            Action::Ask(op) => {
                state.questions = state.questions.saturating_sub(1);
                self.with_leader(&mut state, current(op), |_, leader, facts| {
                    self.protocol.refuse(leader, facts, op);
                });
            }
            Action::Answer(op) if state.facts.contains(&Fact::Rejected(op)) => {
                state.clients.fail(&self.story, op);
            }
            Action::Answer(op) => state.clients.succeed(op, state.reply(op)?),
        }
        Some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ORDER, |spec: &Self, state: &State<P>| {
                judge(&spec.story, &state.clients.seen(state.results())).is_none()
            }),
            Property::always("no client waits for ever", |spec: &Self, state: &State<P>| {
                let mut actions = Vec::new();
                spec.actions(state, &mut actions);
                !actions.is_empty() || state.clients.are_answered()
            }),
            Property::sometimes("all is done", |_: &Self, state: &State<P>| {
                state.clients.are_done()
            }),
        ]
    }
}
