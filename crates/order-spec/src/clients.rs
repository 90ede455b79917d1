//! Clients and their gateways, common to all protocols.

use crate::judge::Seen;
use crate::story::{OpId, Ops, Story, bit, each};

/// A timestamp.
pub type Time = u8;

/// State of an operation when it was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Issued {
    /// The client's earlier operations without an answer.
    pub window: Ops,
    /// Last place of its earlier operations with an answer.
    pub floor: Time,
    /// Operations of any client that had been answered by then.
    pub before: Ops,
}

impl Issued {
    /// The operation before it, if that had no answer.
    pub fn predecessor(&self) -> Option<OpId> {
        each(self.window).last()
    }
}

/// Answer to an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Told {
    /// None yet.
    Nothing,
    /// The operation took effect, at this place.
    Done(Time),
    /// The operation did not take effect, and never will.
    Failed,
}

/// All clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Clients {
    issued: Vec<Option<Issued>>,
    told: Vec<Told>,
}

impl Clients {
    /// Clients that have issued nothing.
    pub fn new(story: &Story) -> Self {
        Self { issued: vec![None; story.ops.len()], told: vec![Told::Nothing; story.ops.len()] }
    }

    /// State in which an operation was issued, if it was.
    pub fn issued(&self, op: OpId) -> Option<Issued> {
        self.issued[usize::from(op)]
    }

    /// The answer to an operation.
    pub fn told(&self, op: OpId) -> Told {
        self.told[usize::from(op)]
    }

    /// Whether every operation has been answered.
    pub fn are_answered(&self) -> bool {
        self.told.iter().all(|told| *told != Told::Nothing)
    }

    /// Whether every operation took effect.
    pub fn are_done(&self) -> bool {
        self.told.iter().all(|told| matches!(told, Told::Done(_)))
    }

    /// The next operation of a client, if it may be issued.
    pub fn next_of(&self, story: &Story, client: u8) -> Option<OpId> {
        let next = story.of_client(client).find(|op| self.issued(*op).is_none())?;
        (!story.op(next).waits || self.open(story, client) == 0).then_some(next)
    }

    /// Operations of a client that were issued and not answered.
    fn open(&self, story: &Story, client: u8) -> Ops {
        let open = |op: &OpId| self.issued(*op).is_some() && self.told(*op) == Told::Nothing;
        story.of_client(client).filter(open).fold(0, |all, op| all | bit(op))
    }

    /// Issues operations of a client as far as possible. Without `floors` it forgets earlier
    /// places.
    pub fn issue(&mut self, story: &Story, client: u8, floors: bool) {
        let all = 0..self.told.len() as OpId;
        let is_done = |op: &OpId| matches!(self.told(*op), Told::Done(_));
        let before = all.filter(is_done).fold(0, |all, op| all | bit(op));
        while let Some(op) = self.next_of(story, client) {
            let window = self.open(story, client);
            let returned = story.of_client(client).filter_map(|op| match self.told(op) {
                Told::Done(time) => Some(time),
                _ => None,
            });
            let floor = returned.max().filter(|_| floors).unwrap_or(0);
            self.issued[usize::from(op)] = Some(Issued { window, floor, before });
            if story.one_by_one {
                return;
            }
        }
    }

    /// Whether a client waits for the answer to an operation.
    pub fn is_open(&self, op: OpId) -> bool {
        self.issued(op).is_some() && self.told(op) == Told::Nothing
    }

    /// Whether all operations of the window have been answered.
    pub fn is_first(&self, op: OpId) -> bool {
        let window = self.issued(op).map_or(0, |issued| issued.window);
        each(window).all(|earlier| self.told(earlier) != Told::Nothing)
    }

    /// Delivers a reply to a client.
    pub fn succeed(&mut self, op: OpId, time: Time) {
        self.told[usize::from(op)] = Told::Done(time);
    }

    /// Delivers the failure of an operation to a client. All operations that were issued while it
    /// was open fail with it.
    pub fn fail(&mut self, story: &Story, op: OpId) {
        for other in story.of_client(story.op(op).client) {
            let with_it = self.issued(other).is_some_and(|i| i.window & bit(op) != 0);
            if self.told(other) == Told::Nothing && (other == op || with_it) {
                self.told[usize::from(other)] = Told::Failed;
            }
        }
    }

    /// Operations whose window contains this one.
    pub fn behind(&self, op: OpId) -> impl Iterator<Item = OpId> {
        let all = 0..self.told.len() as OpId;
        all.filter(move |other| self.issued(*other).is_some_and(|i| i.window & bit(op) != 0))
    }

    /// Observations for the judge, with the results that clients have received or will receive.
    pub fn seen(&self, results: Vec<(OpId, Vec<OpId>)>) -> Seen {
        let mut seen = Seen { results, ..Seen::default() };
        for (op, told) in (0..).zip(&self.told) {
            seen.failed |= if *told == Told::Failed { bit(op) } else { 0 };
            seen.before.extend(self.issued(op).map(|issued| (op, issued.before)));
        }
        seen
    }
}
