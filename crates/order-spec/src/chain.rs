//! `chain`: the order is handed from leader to leader, one operation after the other, as in the
//! published protocol; this specification closes the gaps that the protocol leaves when leaders
//! change.
//!
//! An operation is written to its shard's log. When the operation before it has sent its *chain*
//! (the places of the operations up to that one, each with the term of the leader that assigned
//! it), the operation gets the next place after both the end of the chain and the shard's clock,
//! goes into the log a second time with its place, and is handed on at once. Not waiting for the
//! second write makes the protocol fast, and makes changes of leaders hard.
//!
//! A new leader that finds operations without places asks the shards of all later operations of
//! their sessions which places of its shard they know. Before all have answered, it assigns places
//! only to operations of other sessions that conflict with none of them. A shard that answers
//! promises, durably, to accept no chain of that session any more in which an earlier term of the
//! asking shard has assigned a place, and sends the chains in the durable part of its log.

use crate::clients::Time;
use crate::story::{Op, OpId, Ops, bit};
use crate::world::{Fact, Facts, Protocol, Scene};
use std::collections::{BTreeMap, BTreeSet};

/// A deliberately broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// Nothing is handed on early: an operation gets its place when it is durable.
    NoHandOff,
    /// The first operation of a session hands on before it is durable.
    EarlyFirst,
    /// A new leader asks no other shard.
    NoQuestions,
    /// Chains are accepted from leaders of any term.
    NoTerms,
    /// Chains received before a promise are still accepted after it.
    OldChains,
    /// The refusal of an operation is not logged.
    VolatileReject,
}

/// The protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Chained {
    /// The broken rule, if any.
    pub mutant: Option<Mutant>,
}

/// Place of an operation, as assigned by the leader of its shard in some term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Link {
    op: OpId,
    time: Time,
    term: u8,
}

/// Places from the first unanswered operation of a session up to some operation.
pub type Chain = Vec<Link>;

/// Messages between shards.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// Chain whose last operation has its place.
    HandedOn(Chain),
    /// Question of a new leader of a shard about a session.
    Asks(Question),
    /// Answer of a shard: the chains it knows up to operations of the asking shard.
    Knows(u8, Question, Vec<Chain>),
}

/// Question of a new leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    shard: u8,
    term: u8,
    client: u8,
}

/// A record of a shard's log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// An operation has arrived.
    Content(OpId),
    /// Chain whose last operation has its place.
    Order(Chain),
    /// An operation will not take effect.
    Reject(OpId),
    /// Promise to accept no chain of this session in which the shard assigned a place in an earlier
    /// term.
    Promise(Question),
}

/// State of a leader besides the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mind {
    clock: Time,
    /// Chains that were handed on to operations of this shard.
    heard: BTreeSet<Chain>,
    rejected: Ops,
    /// In a term other than the first: answers by shard and session.
    answers: BTreeMap<(u8, u8), Vec<Chain>>,
    /// Number of records that were carried out.
    done: usize,
    lists: BTreeMap<u8, Vec<OpId>>,
    /// Operations that were refused without a log record (a broken rule).
    refused: Ops,
}

type Leader = crate::world::Leader<Chained>;

/// First term of a shard whose chains of a session are accepted, after these records.
fn promised<'a>(entries: impl Iterator<Item = &'a Entry>, shard: u8, client: u8) -> u8 {
    let promises = entries.filter_map(|entry| match entry {
        Entry::Promise(to) if (to.shard, to.client) == (shard, client) => Some(to.term),
        _ => None,
    });
    promises.max().unwrap_or(0)
}

impl Leader {
    fn has_failed(&self, op: OpId) -> bool {
        self.entries().any(|entry| *entry == Entry::Reject(op))
    }

    fn chain_of(&self, op: OpId) -> Option<&Chain> {
        self.entries().find_map(|entry| match entry {
            Entry::Order(chain) if chain.last().is_some_and(|link| link.op == op) => Some(chain),
            _ => None,
        })
    }

    /// Operations without places that an earlier leader has left.
    fn inherited(&self) -> impl Iterator<Item = OpId> + '_ {
        let earlier = |at: usize| self.log[at].0 < self.term;
        self.pending().into_iter().filter(move |(at, _)| earlier(*at)).map(|(_, op)| op)
    }

    /// The operations that have arrived and have no place.
    fn pending(&self) -> Vec<(usize, OpId)> {
        let contents = self.entries().enumerate().filter_map(|(at, entry)| match entry {
            Entry::Content(op) => Some((at, *op)),
            _ => None,
        });
        contents.filter(|(_, op)| self.chain_of(*op).is_none() && !self.has_failed(*op)).collect()
    }
}

impl Chained {
    /// The protocol with a broken rule.
    pub fn broken(mutant: Mutant) -> Self {
        Self { mutant: Some(mutant) }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// Whether a leader accepts a chain: none of its places was assigned in a term that this shard
    /// has promised to ignore.
    fn takes(&self, scene: &Scene, leader: &Leader, chain: &Chain) -> bool {
        let in_time = |link: &Link| {
            let Op { shard, client, .. } = *scene.story.op(link.op);
            link.term >= promised(leader.entries(), shard, client)
        };
        self.is(Mutant::NoTerms) || chain.iter().all(in_time)
    }

    /// Shards that may have received places that earlier leaders assigned, by session.
    fn to_be_asked(scene: &Scene, leader: &Leader) -> BTreeSet<(u8, u8)> {
        let later = |op: OpId| {
            let client = scene.story.op(op).client;
            let later = scene.story.of_client(client).filter(move |other| *other > op);
            later.map(move |other| (scene.shard_of(other), client))
        };
        let asked = leader.inherited().flat_map(later);
        asked.filter(|(shard, _)| *shard != leader.shard).collect()
    }

    /// Whether a leader knows all places that earlier leaders have handed on.
    fn has_recovered(&self, scene: &Scene, leader: &Leader) -> bool {
        let answered = |asked| leader.mind.answers.contains_key(asked);
        self.is(Mutant::NoQuestions) || Self::to_be_asked(scene, leader).iter().all(answered)
    }

    /// Whether an operation can have a place before the leader knows them all.
    fn is_out_of_the_way(&self, scene: &Scene, leader: &Leader, op: OpId) -> bool {
        let conflicts = |other| scene.story.op(op).conflicts(scene.story.op(other));
        self.predecessor(scene, op).is_none() && !leader.inherited().any(conflicts)
    }

    fn ask(scene: &Scene, leader: &Leader, facts: &mut Facts<Self>) {
        let (shard, term) = (leader.shard, leader.term);
        for (_, client) in Self::to_be_asked(scene, leader) {
            facts.insert(Fact::Sent(Message::Asks(Question { shard, term, client })));
        }
    }

    /// Gives operations whose place an earlier leader has handed on that place, before any other.
    fn place_as_before(&self, leader: &mut Leader) {
        let answers = leader.mind.answers.values().flatten();
        let mut known: Vec<Chain> = answers.cloned().collect();
        known.sort_by_key(|chain| chain.last().map(|link| link.time));
        for chain in known {
            let Some(last) = chain.last().copied() else { continue };
            let is_open = leader.chain_of(last.op).is_none() && !leader.has_failed(last.op);
            if is_open && self.knows(leader, last.op) {
                leader.mind.clock = leader.mind.clock.max(last.time);
                leader.write(Entry::Order(chain));
            }
        }
    }

    /// The predecessor whose chain an operation waits for.
    fn predecessor(&self, scene: &Scene, op: OpId) -> Option<OpId> {
        let issued = scene.clients.issued(op).filter(|_| !self.is(Mutant::NoHandOff));
        issued?.predecessor()
    }

    /// Assigns a place to one operation, or records its failure; returns whether there was one.
    fn place_next(&self, scene: &Scene, leader: &mut Leader) -> bool {
        for (at, op) in leader.pending() {
            if at >= leader.durable {
                continue;
            }
            let Some(before) = self.predecessor(scene, op) else {
                self.place(leader, op, Vec::new());
                return true;
            };
            if leader.mind.rejected & bit(before) != 0 || leader.has_failed(before) {
                leader.write(Entry::Reject(op));
                return true;
            }
            // A chain received before a promise no longer counts either, unless an operation rests
            // on it.
            let is_of = |chain: &&Chain| {
                let taken = self.takes(scene, leader, chain) || self.is(Mutant::OldChains);
                chain.last().is_some_and(|link| link.op == before) && taken
            };
            let chain = leader.chain_of(before).or_else(|| leader.mind.heard.iter().find(is_of));
            if let Some(chain) = chain.cloned() {
                self.place(leader, op, chain);
                return true;
            }
        }
        false
    }

    fn place(&self, leader: &mut Leader, op: OpId, mut chain: Chain) {
        let before = chain.last().map_or(0, |link| link.time);
        leader.mind.clock = leader.mind.clock.max(before) + 1;
        chain.push(Link { op, time: leader.mind.clock, term: leader.term });
        leader.write(Entry::Order(chain));
    }

    /// Hands on operations with a place: at once, because their contents are durable and the places
    /// before them are known; the first operation of a chain has only the record of its place.
    ///
    /// A shard that has promised to ignore earlier terms of another shard has also sent the places
    /// that it knows from them: those hold in the new term as they did before.
    fn hand_on(&self, scene: &Scene, leader: &Leader, facts: &mut Facts<Self>) {
        let known = |of, client| promised(leader.durable_entries(), of, client);
        for (at, entry) in leader.entries().enumerate() {
            let Entry::Order(chain) = entry else { continue };
            if at < leader.durable || chain.len() > 1 || self.is(Mutant::EarlyFirst) {
                let chain = chain.iter().map(|link| {
                    let Op { shard: of, client, .. } = *scene.story.op(link.op);
                    let own = of == leader.shard;
                    let term = if own { leader.term } else { link.term.max(known(of, client)) };
                    Link { term, ..*link }
                });
                facts.insert(Fact::Sent(Message::HandedOn(chain.collect())));
            }
        }
    }

    /// Carries out the durable operations, in the order of the log.
    fn carry_out(scene: &Scene, leader: &mut Leader, facts: &mut Facts<Self>) {
        for at in leader.mind.done..leader.durable {
            if let Entry::Order(chain) = &leader.log[at].1
                && let Some(Link { op, time, .. }) = chain.last().copied()
            {
                let list = leader.mind.lists.entry(scene.story.op(op).key).or_default();
                facts.insert(Fact::Reply(op, time, list.clone()));
                if !scene.story.op(op).reads {
                    list.push(op);
                }
            }
        }
        leader.mind.done = leader.durable;
    }

    /// All chains up to the operations that a question is about, in the first records of a log.
    fn known_of(scene: &Scene, log: &[(u8, Entry)], question: Question) -> Vec<Chain> {
        let is_of = |link: &Link| {
            let op = scene.story.op(link.op);
            (op.shard, op.client) == (question.shard, question.client)
        };
        let mut known = BTreeSet::new();
        for (_, entry) in log {
            let Entry::Order(chain) = entry else { continue };
            let ends = (1..=chain.len()).filter(|end| is_of(&chain[end - 1]));
            known.extend(ends.map(|end| chain[..end].to_vec()));
        }
        known.into_iter().collect()
    }
}

impl Protocol for Chained {
    type Entry = Entry;
    type Message = Message;
    type Mind = Mind;

    fn knows(&self, leader: &Leader, op: OpId) -> bool {
        let is_of = |entry: &Entry| match entry {
            Entry::Content(of) | Entry::Reject(of) => *of == op,
            Entry::Order(chain) => chain.last().is_some_and(|link| link.op == op),
            Entry::Promise(_) => false,
        };
        leader.entries().any(is_of) || leader.mind.refused & bit(op) != 0
    }

    fn arrive(&self, scene: &Scene, leader: &mut Leader, _: &mut Facts<Self>, op: OpId) {
        // The first operation has no predecessor: it gets its place at once.
        let free = self.has_recovered(scene, leader) || self.is_out_of_the_way(scene, leader, op);
        match self.predecessor(scene, op).is_none() && free {
            true => self.place(leader, op, Vec::new()),
            false => leader.write(Entry::Content(op)),
        }
    }

    fn refuse(&self, leader: &mut Leader, facts: &mut Facts<Self>, op: OpId) {
        if self.is(Mutant::VolatileReject) {
            leader.mind.refused |= bit(op);
            facts.insert(Fact::Rejected(op));
        } else {
            leader.write(Entry::Reject(op));
        }
    }

    fn export(&self, scene: &Scene, leader: &Leader, facts: &mut Facts<Self>, at: usize) {
        facts.extend(match leader.log[at].1 {
            Entry::Reject(op) => Some(Fact::Rejected(op)),
            Entry::Promise(question) => {
                let known = Self::known_of(scene, &leader.log[..at], question);
                Some(Fact::Sent(Message::Knows(leader.shard, question, known)))
            }
            Entry::Content(_) | Entry::Order(_) => None,
        });
    }

    fn begin(&self, leader: &mut Leader, _: &mut Facts<Self>) {
        let times = leader.entries().filter_map(|entry| match entry {
            Entry::Order(chain) => chain.last().map(|link| link.time),
            _ => None,
        });
        leader.mind.clock = times.max().unwrap_or(0);
    }

    fn concerns(&self, scene: &Scene, leader: &Leader, fact: &Fact<Message>) -> bool {
        let waits = |about: OpId| {
            let after = |op: &OpId| {
                let issued = scene.clients.issued(*op);
                issued.and_then(|issued| issued.predecessor()) == Some(about)
            };
            let elsewhere = scene.shard_of(about) != leader.shard;
            elsewhere && leader.pending().iter().any(|(_, op)| after(op))
        };
        match fact {
            Fact::Sent(Message::HandedOn(chain)) => {
                let last = |chain: &Chain| chain.last().map_or(0, |link| link.op);
                let counts = |heard: &&Chain| self.takes(scene, leader, heard);
                let mut heard = leader.mind.heard.iter().filter(counts);
                let is_new = heard.all(|heard| last(heard) != last(chain));
                is_new && waits(last(chain)) && self.takes(scene, leader, chain)
            }
            Fact::Rejected(op) => leader.mind.rejected & bit(*op) == 0 && waits(*op),
            Fact::Sent(Message::Asks(Question { shard, term, client })) => {
                let later =
                    scene.story.of_client(*client).any(|op| scene.shard_of(op) == leader.shard);
                let heard = promised(leader.entries(), *shard, *client) >= *term;
                *shard != leader.shard && later && !heard
            }
            Fact::Sent(Message::Knows(from, to, _)) => {
                let is_new = !leader.mind.answers.contains_key(&(*from, to.client));
                is_new && (to.shard, to.term) == (leader.shard, leader.term)
            }
            Fact::Reply(..) => false,
        }
    }

    fn hear(&self, leader: &mut Leader, fact: Fact<Message>) {
        match fact {
            Fact::Sent(Message::HandedOn(chain)) => drop(leader.mind.heard.insert(chain)),
            Fact::Sent(Message::Asks(question)) => leader.write(Entry::Promise(question)),
            Fact::Sent(Message::Knows(from, to, chains)) => {
                leader.mind.answers.insert((from, to.client), chains);
            }
            Fact::Rejected(op) => leader.mind.rejected |= bit(op),
            Fact::Reply(..) => {}
        }
    }

    fn work(&self, scene: &Scene, leader: &mut Leader, facts: &mut Facts<Self>) {
        if self.has_recovered(scene, leader) {
            self.place_as_before(leader);
            while self.place_next(scene, leader) {}
        } else {
            Self::ask(scene, leader, facts);
        }
        self.hand_on(scene, leader, facts);
        Self::carry_out(scene, leader, facts);
    }
}
