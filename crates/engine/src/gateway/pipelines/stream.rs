//! Stream under way, at the gateway that has issued it: its units and their outcomes.

use crate::ids::{ShardId, StreamId};
use crate::limits::{STREAM_UNITS_MAX, WINDOW_UNITS_MAX};
use crate::message::{Answer, Refusal};
use crate::pipeline::{Group, Unit, UnitOutcome};
use adt::{Reply, Timestamp};
use smallvec::SmallVec;
use std::collections::{BTreeMap, VecDeque};

/// Stream whose units are requests of this kind.
#[derive(Debug)]
pub(in crate::gateway) struct Stream<P> {
    /// Name of the stream.
    pub id: StreamId,
    /// Number of the first unit of `units`.
    base: u32,
    /// Last place before that unit.
    floor: Timestamp,
    units: VecDeque<Issued<P>>,
    /// Number of groups without an answer.
    open: usize,
    /// Whether a unit had no effect. No unit that was sent while that one was open has one.
    pub failed: bool,
    /// Reason why failed units are not sent once more.
    pub refused: Option<Reply>,
    shards: SmallVec<[ShardId; 8]>,
}

/// Unit that was issued.
#[derive(Debug)]
struct Issued<P> {
    /// The request, until it is answered.
    planned: Option<P>,
    shard: ShardId,
    /// Place of the unit, once it is answered.
    place: Option<Timestamp>,
}

/// Outcomes of the units of a group.
#[derive(Debug)]
pub(in crate::gateway) struct Settled<P> {
    /// Units that took effect, with their replies.
    pub done: Vec<(P, SmallVec<[Reply; 1]>)>,
    /// Units with an unknown outcome, which must not be sent once more.
    pub lost: Vec<P>,
}

impl<P> Stream<P> {
    /// Stream without units.
    pub fn new(id: StreamId) -> Self {
        let (units, shards) = (VecDeque::new(), SmallVec::new());
        let floor = Timestamp::ZERO;
        Self { id, base: 0, floor, units, open: 0, failed: false, refused: None, shards }
    }

    fn next(&self) -> u32 {
        self.base + self.units.len() as u32
    }

    /// Number of requests that can be dispatched now.
    pub fn room(&self) -> usize {
        let left = (STREAM_UNITS_MAX - self.next().min(STREAM_UNITS_MAX)) as usize;
        left.min(WINDOW_UNITS_MAX.saturating_sub(self.units.len()))
    }

    /// Shards that have had units.
    pub fn shards(&self) -> &[ShardId] {
        &self.shards
    }

    /// Request of a unit without an answer.
    pub fn get_mut(&mut self, seq: u32) -> Option<&mut P> {
        let at = seq.checked_sub(self.base)?;
        self.units.get_mut(at as usize)?.planned.as_mut()
    }

    /// Adds requests, which become units. Returns their groups, whose order may be handed from shard to
    /// shard.
    pub fn issue(
        &mut self,
        batch: Vec<(ShardId, P)>,
        chained: bool,
        unit: impl Fn(&P) -> Unit,
    ) -> BTreeMap<ShardId, Group> {
        let (fresh, base, floor) = (self.next(), self.base, self.floor);
        let mut groups: BTreeMap<ShardId, Group> = BTreeMap::new();
        for (shard, planned) in batch {
            let unit = Unit { seq: self.next(), ..unit(&planned) };
            let stream = self.id;
            let group = groups.entry(shard).or_insert_with(|| Group {
                stream,
                base,
                fresh,
                floor,
                chained,
                ..Group::default()
            });
            group.units.push(unit);
            self.units.push_back(Issued { planned: Some(planned), shard, place: None });
        }
        let homes: Vec<ShardId> = self.units.iter().map(|unit| unit.shard).collect();
        for (shard, group) in &mut groups {
            group.homes.clone_from(&homes);
            if !self.shards.contains(shard) {
                self.shards.push(*shard);
            }
        }
        self.open += groups.len();
        groups
    }

    /// Takes the outcome of a group, which has this first unit and number of units.
    pub fn answered(
        &mut self,
        first: u32,
        shard: ShardId,
        count: u32,
        answer: Answer,
    ) -> Settled<P> {
        let unknown =
            matches!(answer, Answer::Unknown | Answer::Unread | Answer::Refused(Refusal::Unread));
        let units: Vec<UnitOutcome> = match answer {
            Answer::Units(units) => units,
            // The group came back unread.
            _ => Vec::new(),
        };
        self.open -= 1;
        let (mut done, mut lost) = (Vec::new(), Vec::new());
        let from = (first.saturating_sub(self.base)) as usize;
        let own = self.units.iter_mut().skip(from).filter(|unit| unit.shard == shard);
        let mut failed = units.is_empty();
        for (unit, answered) in own.zip(units) {
            match answered {
                Some((place, replies)) => {
                    unit.place = Some(place);
                    done.extend(unit.planned.take().map(|planned| (planned, replies)));
                }
                None => failed = true,
            }
        }
        if unknown {
            let own = self.units.iter_mut().skip(from).filter(|unit| unit.shard == shard);
            lost.extend(own.take(count as usize).filter_map(|unit| unit.planned.take()));
        }
        self.failed |= failed;
        self.move_base();
        Settled { done, lost }
    }

    /// Whether all groups are answered and the stream ends.
    pub fn is_over(&self) -> bool {
        self.open == 0 && (self.failed || self.units.is_empty())
    }

    /// Requests without effect, when the stream is over.
    pub fn into_failed(self) -> Vec<P> {
        self.units.into_iter().filter_map(|unit| unit.planned).collect()
    }

    /// Removes the answered units at the front.
    fn move_base(&mut self) {
        while let Some(place) = self.units.front().and_then(|unit| unit.place) {
            self.floor = self.floor.max(place);
            self.base += 1;
            self.units.pop_front();
        }
    }
}
