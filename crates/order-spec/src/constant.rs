//! `constant`: an operation's place follows from durable proposals, and nothing is handed along a
//! chain.
//!
//! An earlier leader may have assigned places above all that a new one knows of. A new leader
//! therefore admits no operation that conflicts with inherited ones until those have their places.

use crate::clients::{Issued, Time};
use crate::story::{OpId, Ops, bit, each};
use crate::world::{Fact, Facts, Protocol, Scene};
use std::collections::BTreeMap;

/// A deliberately broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mutant {
    /// An operation does not wait until other shards have closed its predecessors.
    NoClosed,
    /// A clock is not advanced to the final times that it has assigned.
    NoClockAdvance,
    /// Earlier operations of the same list whose place is not final yet are ignored.
    IgnoreOpen,
    /// Earlier operations of the same list that are not durable yet are ignored.
    IgnoreUndurable,
    /// Proposals are sent before they are durable.
    EarlyExport,
    /// The refusal of an operation is not logged.
    VolatileReject,
    /// A new leader admits every operation, whatever it has inherited.
    NoHold,
    /// Clients accept replies in any order.
    NoReturnOrder,
    /// Places of answered operations are no lower bound for operations that are issued next.
    NoFloor,
}

/// The protocol.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constant {
    /// The broken rule, if any.
    pub mutant: Option<Mutant>,
}

/// Messages between shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Message {
    /// Lower bound of an operation's place: durable.
    Proposed(OpId, Time),
    /// An operation has its final place, and no other operation gets an earlier one.
    Closed(OpId),
}

/// A record of a shard's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Lower bound of an operation's place.
    Propose(OpId, Time),
    /// An operation will not take effect.
    Reject(OpId),
}

/// State of a leader besides the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mind {
    clock: Time,
    /// Proposals of other shards.
    proposals: BTreeMap<OpId, Time>,
    rejected: Ops,
    elsewhere_closed: Ops,
    /// Final places that follow from them.
    finals: BTreeMap<OpId, Time>,
    failed: Ops,
    closed: Ops,
    /// Operations in the log when this leader began.
    inherited: Ops,
    lists: BTreeMap<u8, Vec<OpId>>,
}

type Leader = crate::world::Leader<Constant>;

impl Leader {
    fn proposal(&self, op: OpId) -> Option<(usize, Time)> {
        self.entries().enumerate().find_map(|(index, entry)| match entry {
            Entry::Propose(of, time) if *of == op => Some((index, *time)),
            _ => None,
        })
    }

    /// The operations in the log, durable or not, that have not failed.
    fn live(&self) -> Vec<(OpId, Time)> {
        let proposed = self.entries().filter_map(|entry| match entry {
            Entry::Propose(op, time) => Some((*op, *time)),
            _ => None,
        });
        proposed.filter(|(op, _)| self.mind.failed & bit(*op) == 0).collect()
    }
}

impl Constant {
    /// The protocol with a broken rule.
    pub fn broken(mutant: Mutant) -> Self {
        Self { mutant: Some(mutant) }
    }

    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    fn has_failed_before(&self, leader: &Leader, window: Ops) -> bool {
        let here = |op: OpId| leader.durable_entries().any(|entry| *entry == Entry::Reject(op));
        each(window).any(|op| leader.mind.rejected & bit(op) != 0 || here(op))
    }

    /// The place of an operation, once its own proposal is durable and all predecessors are known.
    fn place(&self, leader: &Leader, op: OpId, time: Time, issued: Issued) -> Option<Time> {
        let durable = |op: OpId| leader.proposal(op).filter(|(index, _)| *index < leader.durable);
        durable(op)?;
        let mut place = issued.floor;
        for earlier in each(issued.window) {
            let here = durable(earlier).map(|(_, time)| time);
            let proposal = here.or_else(|| leader.mind.proposals.get(&earlier).copied())?;
            place = proposal.max(place + 1);
        }
        Some(time.max(place + 1))
    }

    /// Whether no operation that may yet get an earlier place can matter for this one.
    fn may_close(&self, scene: &Scene, leader: &Leader, op: OpId) -> bool {
        let own = (leader.mind.finals[&op], op);
        let client = scene.story.op(op).client;
        leader.live().into_iter().all(|(other, time)| {
            let place = leader.mind.finals.get(&other).copied();
            let bound = (place.unwrap_or(time), other);
            let is_durable = leader.proposal(other).is_some_and(|(at, _)| at < leader.durable);
            let ignored = self.is(Mutant::IgnoreOpen) && place.is_none()
                || self.is(Mutant::IgnoreUndurable) && !is_durable;
            other == op
                || bound > own
                || !scene.story.op(other).conflicts(scene.story.op(op))
                || ignored
                || leader.mind.closed & bit(other) != 0
                    && (scene.story.op(other).client == client
                        || self.is_ready(scene, leader, other))
        })
    }

    /// Whether an operation and its predecessors in its session are closed.
    fn is_ready(&self, scene: &Scene, leader: &Leader, op: OpId) -> bool {
        let window = scene.clients.issued(op).map_or(0, |issued| issued.window);
        let closed = leader.mind.closed | leader.mind.elsewhere_closed;
        self.is(Mutant::NoClosed) || window & !closed == 0
    }

    fn close(scene: &Scene, leader: &mut Leader, facts: &mut Facts<Self>, op: OpId) {
        leader.mind.closed |= bit(op);
        let list = leader.mind.lists.entry(scene.story.op(op).key).or_default();
        facts.insert(Fact::Reply(op, leader.mind.finals[&op], list.clone()));
        facts.insert(Fact::Sent(Message::Closed(op)));
        if !scene.story.op(op).reads {
            list.push(op);
        }
    }
}

impl Protocol for Constant {
    type Entry = Entry;
    type Message = Message;
    type Mind = Mind;

    fn knows(&self, leader: &Leader, op: OpId) -> bool {
        let is_of =
            |entry: &Entry| matches!(entry, Entry::Propose(of, _) | Entry::Reject(of) if *of == op);
        leader.entries().any(is_of) || leader.mind.failed & bit(op) != 0
    }

    fn lets_in(&self, scene: &Scene, leader: &Leader, op: OpId) -> bool {
        let open = each(leader.mind.inherited & !leader.mind.failed)
            .filter(|op| !leader.mind.finals.contains_key(op));
        let own = scene.story.op(op);
        let conflicts = |other: OpId| {
            let other = scene.story.op(other);
            other.client != own.client && other.conflicts(own)
        };
        self.is(Mutant::NoHold) || !open.into_iter().any(conflicts)
    }

    fn hurries(&self, leader: &Leader, op: OpId) -> bool {
        let is_open = !leader.mind.finals.contains_key(&op);
        is_open && leader.mind.inherited & !leader.mind.failed & bit(op) != 0
    }

    fn arrive(&self, scene: &Scene, leader: &mut Leader, facts: &mut Facts<Self>, op: OpId) {
        leader.mind.clock += 1;
        leader.write(Entry::Propose(op, leader.mind.clock));
        if self.is(Mutant::EarlyExport) {
            self.export(scene, leader, facts, leader.log.len() - 1);
        }
    }

    fn refuse(&self, leader: &mut Leader, facts: &mut Facts<Self>, op: OpId) {
        if self.is(Mutant::VolatileReject) {
            leader.mind.failed |= bit(op);
            facts.insert(Fact::Rejected(op));
        } else {
            leader.write(Entry::Reject(op));
        }
    }

    fn export(&self, _: &Scene, leader: &Leader, facts: &mut Facts<Self>, at: usize) {
        facts.extend(match leader.log[at].1 {
            Entry::Propose(op, time) => Some(Fact::Sent(Message::Proposed(op, time))),
            Entry::Reject(op) => Some(Fact::Rejected(op)),
        });
    }

    fn begin(&self, leader: &mut Leader, _: &mut Facts<Self>) {
        let proposals = leader.entries().filter_map(|entry| match entry {
            Entry::Propose(_, time) => Some(*time),
            _ => None,
        });
        leader.mind.clock = proposals.max().unwrap_or(0);
        leader.mind.inherited = leader.live().iter().fold(0, |all, (op, _)| all | bit(*op));
    }

    fn concerns(&self, scene: &Scene, leader: &Leader, fact: &Fact<Message>) -> bool {
        let (about, known) = match fact {
            Fact::Sent(Message::Proposed(op, _)) => (*op, leader.mind.proposals.contains_key(op)),
            Fact::Sent(Message::Closed(op)) => (*op, leader.mind.elsewhere_closed & bit(*op) != 0),
            Fact::Rejected(op) => (*op, leader.mind.rejected & bit(*op) != 0),
            Fact::Reply(..) => return false,
        };
        let waits = |(op, _): &(OpId, Time)| {
            scene.clients.issued(*op).is_some_and(|issued| issued.window & bit(about) != 0)
        };
        !known && scene.shard_of(about) != leader.shard && leader.live().iter().any(waits)
    }

    fn hear(&self, leader: &mut Leader, fact: Fact<Message>) {
        match fact {
            Fact::Sent(Message::Proposed(op, time)) => drop(leader.mind.proposals.insert(op, time)),
            Fact::Sent(Message::Closed(op)) => leader.mind.elsewhere_closed |= bit(op),
            Fact::Rejected(op) => leader.mind.rejected |= bit(op),
            Fact::Reply(..) => {}
        }
    }

    fn work(&self, scene: &Scene, leader: &mut Leader, facts: &mut Facts<Self>) {
        loop {
            let mut quiet = true;
            for (op, time) in leader.live() {
                let Some(issued) = scene.clients.issued(op) else { continue };
                if leader.mind.finals.contains_key(&op) {
                    if leader.mind.closed & bit(op) == 0 && self.may_close(scene, leader, op) {
                        Self::close(scene, leader, facts, op);
                        quiet = false;
                    }
                } else if self.has_failed_before(leader, issued.window) {
                    leader.mind.failed |= bit(op);
                    quiet = false;
                } else if let Some(place) = self.place(leader, op, time, issued) {
                    leader.mind.finals.insert(op, place);
                    if !self.is(Mutant::NoClockAdvance) {
                        leader.mind.clock = leader.mind.clock.max(place);
                    }
                    quiet = false;
                }
            }
            if quiet {
                return;
            }
        }
    }

    fn replies_in_order(&self) -> bool {
        !self.is(Mutant::NoReturnOrder)
    }

    fn sends_floors(&self) -> bool {
        !self.is(Mutant::NoFloor)
    }
}
