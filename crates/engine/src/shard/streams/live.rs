//! Knowledge of a leader about one stream beyond the log.

use crate::entry::KeptGroup;
use crate::ids::{GatewayId, ShardId, Token, TxnId};
use crate::limits::{ASK_UNITS_DOUBLED_MAX, ASK_UNITS_US};
use crate::pipeline::{Group, StreamMessage, UnitOutcome, UnitPlace};
use adt::{ErrorReply, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stream with units that are not settled here, or about which other shards have reported.
#[derive(Debug, Default)]
pub(super) struct LiveStream {
    /// Groups here that are not settled, in order.
    pub groups: Vec<Live>,
    pub told: Learned,
    /// Shards that have asked, and are informed of proposals and closed units.
    pub listeners: SmallVec<[ShardId; 2]>,
    /// Shards that were asked, and report what happens since.
    pub asked: SmallVec<[ShardId; 4]>,
    /// A unit that another shard waits for and that has not come, and since when.
    pub late: Option<(u64, u32)>,
    /// When the stream was begun or last changed, in monotonic microseconds.
    pub since_us: u64,
    /// When other shards were asked last for late reports, and how often.
    pub asked_us: u64,
    pub reminders: u32,
    /// The last unit that is closed here as far as the other shards know.
    pub closed: Option<u32>,
    /// All units before this one are answered, as their gateway has reported: they are closed.
    pub answered: u32,
}

impl LiveStream {
    /// How long to wait for an answer before others are asked again.
    pub fn pause_us(&self) -> u64 {
        pause_us(self.reminders)
    }

    /// The group with this first unit.
    pub fn group_mut(&mut self, first: u32) -> Option<&mut Live> {
        self.groups.iter_mut().find(|live| live.group.first() == first)
    }

    /// The group that a unit is in, and its position there.
    pub fn group_of(&self, seq: u32) -> Option<(&Live, usize)> {
        self.groups.iter().find_map(|live| Some((live, live.index_of(seq)?)))
    }

    /// The group that a unit is in, and its position there, to change it.
    pub fn group_of_mut(&mut self, seq: u32) -> Option<(&mut Live, usize)> {
        self.groups.iter_mut().find_map(|live| {
            let at = live.index_of(seq)?;
            Some((live, at))
        })
    }
}

type Proposed = ((u32, u32), Timestamp);

/// Reports of other shards.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By shard: first and last unit of each group in order, with its proposal.
    proposals: SmallVec<[(ShardId, Vec<Proposed>); 8]>,
    closed: SmallVec<[(ShardId, u32); 8]>,
    /// The first unit that will have no effect.
    pub refused: Option<u32>,
    /// All units that have an effect are closed: their gateway has the answers.
    pub all_closed: bool,
}

impl Learned {
    /// Takes a report. Tells whether it is new.
    pub fn hear(&mut self, word: &StreamMessage) -> bool {
        match word {
            StreamMessage::Proposed { shard, units, proposal, .. } => {
                let at = self.proposals.iter().position(|(s, _)| s == shard).unwrap_or_else(|| {
                    self.proposals.push((*shard, Vec::new()));
                    self.proposals.len() - 1
                });
                let told = &mut self.proposals[at].1;
                let place = told.binary_search_by_key(units, |(units, _)| *units);
                if let Err(place) = place {
                    told.insert(place, (*units, *proposal));
                }
                place.is_err()
            }
            StreamMessage::Closed { shard, upto, .. } => {
                match self.closed.iter_mut().find(|(s, _)| s == shard) {
                    Some((_, known)) if *known >= *upto => false,
                    Some((_, known)) => {
                        *known = *upto;
                        true
                    }
                    None => {
                        self.closed.push((*shard, *upto));
                        true
                    }
                }
            }
            StreamMessage::Refused { seq, .. } => {
                let news = self.refused.is_none_or(|known| *seq < known);
                if news {
                    self.refused = Some(*seq);
                }
                news
            }
            // Questions, and messages about streams whose order is handed on.
            StreamMessage::Asks { .. }
            | StreamMessage::Settled { .. }
            | StreamMessage::HandedOn { .. }
            | StreamMessage::AsksPlaces { .. }
            | StreamMessage::Knows { .. } => false,
        }
    }

    /// Proposal of a unit of another shard.
    pub fn proposal(&self, shard: ShardId, seq: u32) -> Option<Timestamp> {
        let (_, told) = self.proposals.iter().find(|(s, _)| *s == shard)?;
        let begun = told.partition_point(|((first, _), _)| *first <= seq);
        let ((_, last), proposal) = told[..begun].last()?;
        (seq <= *last).then_some(*proposal)
    }

    /// Whether a unit of another shard is closed.
    pub fn is_closed(&self, shard: ShardId, seq: u32) -> bool {
        self.all_closed || self.closed.iter().any(|(s, upto)| *s == shard && *upto >= seq)
    }
}

/// Progress of a unit.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Progress {
    /// The place is not known.
    Open,
    /// The place is known, and others come before it.
    Placed,
    /// The unit is carried out: nothing comes before it any more.
    Closed { place: Timestamp, replies: SmallVec<[Reply; 1]>, released: bool },
    /// The unit has no effect.
    Failed,
}

impl Progress {
    /// Whether the unit is carried out.
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Whether the unit holds its records no longer.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Failed | Self::Closed { released: true, .. })
    }
}

/// A group that is not settled.
#[derive(Debug)]
pub(super) struct Live {
    pub group: Arc<Group>,
    /// The request to answer with the fate of the group.
    pub asker: Option<(GatewayId, Token)>,
    /// The group is in the log.
    pub durable: bool,
    /// The group is in the log, or on its way there.
    pub logged: bool,
    /// Other shards were asked for units that were sent before it.
    pub asked: bool,
    /// An earlier leader has put it into the log.
    pub inherited: bool,
    /// Transactions that must be known to be undecided before the group is logged.
    pub probes: BTreeSet<TxnId>,
    pub units: Vec<Progress>,
    /// The next unit of the window whose proposal is to be looked at, and the place before it.
    fold: (u32, Timestamp),
    /// All units of the window before this one are closed.
    cleared: u32,
}

impl Live {
    pub fn new(group: Arc<Group>, asker: Option<(GatewayId, Token)>) -> Self {
        Self {
            asker,
            durable: false,
            logged: false,
            asked: false,
            inherited: false,
            probes: BTreeSet::new(),
            units: vec![Progress::Open; group.units.len()],
            fold: (group.base, group.floor),
            cleared: group.base,
            group,
        }
    }

    fn index_of(&self, seq: u32) -> Option<usize> {
        self.group.units.binary_search_by_key(&seq, |unit| unit.seq).ok()
    }

    /// Number and progress of each unit.
    pub fn units(&self) -> impl Iterator<Item = (u32, &Progress)> {
        self.group.units.iter().map(|unit| unit.seq).zip(&self.units)
    }

    /// Folds the window as far as its proposals are known. Gives the places that follow.
    pub fn place(
        &mut self,
        proposal: impl Fn(ShardId, u32) -> Option<Timestamp>,
    ) -> Vec<(u32, Timestamp)> {
        let mut places = Vec::new();
        let (mut seq, mut before) = self.fold;
        while seq <= self.group.last() {
            let home = self.group.homes[(seq - self.group.base) as usize];
            let Some(proposal) = proposal(home, seq) else { break };
            before = proposal.max(before.next());
            if let Some(index) = self.index_of(seq)
                && self.units[index] == Progress::Open
            {
                self.units[index] = Progress::Placed;
                places.push((seq, before));
            }
            seq += 1;
        }
        self.fold = (seq, before);
        places
    }

    /// The unit of the window up to which everything is closed.
    pub fn cleared(&self, is_closed: impl Fn(ShardId, u32) -> bool) -> u32 {
        let done = (self.cleared - self.group.base) as usize;
        let mut rest = self.group.window(self.group.last()).skip(done);
        let first_open = rest.find(|(seq, home)| !is_closed(*home, *seq));
        first_open.map_or(self.group.last(), |(seq, _)| seq)
    }

    /// Releases closed units up to the one before which all of the window is closed: nothing has to wait
    /// for them any more.
    pub fn release(&mut self, cleared: u32) -> Vec<(u32, Timestamp)> {
        self.cleared = cleared;
        let mut free = Vec::new();
        for (unit, progress) in self.group.units.iter().zip(&mut self.units) {
            if let Progress::Closed { released, place, .. } = progress
                && !*released
                && unit.seq <= cleared
            {
                *released = true;
                free.push((unit.seq, *place));
            }
        }
        free
    }

    /// Whether a unit was sent before those of this group: its shard may not know of this group.
    pub fn is_earlier(&self, seq: u32) -> bool {
        // The successor of a leader has no reports.
        self.inherited || seq < self.group.fresh
    }

    /// Fails units that cannot get a place, because `refused` will have no effect.
    pub fn fail(&mut self, refused: u32) -> Vec<u32> {
        let mut failed = Vec::new();
        for (unit, progress) in self.group.units.iter().zip(&mut self.units) {
            if *progress == Progress::Open && self.group.base <= refused && refused < unit.seq {
                *progress = Progress::Failed;
                failed.push(unit.seq);
            }
        }
        failed
    }

    /// Units whose proposals or closing the group waits for, with their shards.
    pub fn missing(
        &self,
        is_closed: impl Fn(ShardId, u32) -> bool,
        is_proposed: impl Fn(ShardId, u32) -> bool,
    ) -> Vec<(ShardId, u32)> {
        let open = self.units().filter(|(_, progress)| !progress.is_over());
        let Some(last) = open.map(|(seq, _)| seq).last() else {
            return Vec::new();
        };
        let window = self.group.window(last).map(|(seq, home)| (home, seq));
        let lacks = |(home, seq): &(ShardId, u32)| {
            *seq >= self.fold.0 && !is_proposed(*home, *seq) || !is_closed(*home, *seq)
        };
        window.filter(lacks).collect()
    }

    /// Whether the fate of all units is known.
    pub fn is_answered(&self) -> bool {
        self.units.iter().all(|p| matches!(p, Progress::Closed { .. } | Progress::Failed))
    }

    /// The fate of the units.
    pub fn answer(&self) -> Vec<UnitOutcome> {
        let answered = |progress: &Progress| match progress {
            Progress::Closed { place, replies, .. } => Some((*place, replies.clone())),
            _ => None,
        };
        self.units.iter().map(answered).collect()
    }
}

/// The fate of the units of a settled group.
pub(super) fn answer_of(
    group: &KeptGroup,
    replies: impl Fn(u32) -> Option<SmallVec<[Reply; 1]>>,
) -> Vec<UnitOutcome> {
    let answer = |(seq, place): &(u32, Option<UnitPlace>)| {
        let place = place.flatten()?;
        Some((place, replies(*seq).unwrap_or_else(|| smallvec![lost()])))
    };
    group.units.iter().map(answer).collect()
}

/// Reply of a unit that took effect and whose reply is not kept.
pub(super) fn lost() -> Reply {
    let text = "it took effect, but the machine that had its reply was lost";
    ErrorReply::new("REPEATED", text).into()
}

/// How long to wait for an answer before other shards are asked again, after so many reminders.
pub(super) fn pause_us(reminders: u32) -> u64 {
    ASK_UNITS_US << reminders.min(ASK_UNITS_DOUBLED_MAX)
}
