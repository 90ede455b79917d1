//! What the leader of a shard knows of one stream beyond the log.

use super::chain::Part;
use crate::entry::KeptGroup;
use crate::ids::{GatewayId, ShardId, Token, TxnId};
use crate::limits::{ASK_UNITS_DOUBLED_MAX, ASK_UNITS_US};
use crate::pipeline::{Answered, Group, Place, Word};
use crate::shard::streams::Kept;
use adt::{ErrorReply, Reply, Timestamp};
use smallvec::{SmallVec, smallvec};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A stream of which something is not settled here, or of which others have told.
#[derive(Debug, Default)]
pub(super) struct LiveStream {
    /// Its groups here that are not settled, in order.
    pub groups: Vec<Live>,
    pub told: Learned,
    /// What is known besides if its order is handed on.
    pub chain: Part,
    /// Shards that have asked, and are told what they may need to know.
    pub listeners: SmallVec<[ShardId; 2]>,
    /// Shards that were asked, and tell what they hear since.
    pub asked: SmallVec<[ShardId; 4]>,
    /// Units here that others wait for, and that have not come; since when the first was asked for.
    pub late: Option<(u64, u32)>,
    /// When this was begun, and when others were asked last.
    pub since_us: u64,
    pub asked_us: u64,
    /// How often others were asked for what is late.
    pub reminders: u32,
    /// Up to which unit the others know that it is closed here.
    pub closed: Option<u32>,
    /// All units before this one are answered, as whoever has issued them has said: they are closed.
    pub answered: u32,
}

impl LiveStream {
    /// How long to wait for an answer before others are asked again.
    pub fn pause_us(&self) -> u64 {
        ASK_UNITS_US << self.reminders.min(ASK_UNITS_DOUBLED_MAX)
    }

    /// The group with this first unit.
    pub fn group_mut(&mut self, first: u32) -> Option<&mut Live> {
        self.groups.iter_mut().find(|live| live.group.first() == first)
    }

    /// The group that a unit is in, and where it is there.
    pub fn group_of(&self, seq: u32) -> Option<(&Live, usize)> {
        self.groups.iter().find_map(|live| Some((live, live.index_of(seq)?)))
    }

    pub fn group_of_mut(&mut self, seq: u32) -> Option<(&mut Live, usize)> {
        self.groups.iter_mut().find_map(|live| {
            let at = live.index_of(seq)?;
            Some((live, at))
        })
    }
}

type Proposed = ((u32, u32), Timestamp);

/// What other shards have told.
#[derive(Debug, Default)]
pub(super) struct Learned {
    /// By shard: first and last unit of each group in order, with its proposal.
    proposals: SmallVec<[(ShardId, Vec<Proposed>); 8]>,
    closed: SmallVec<[(ShardId, u32); 8]>,
    /// The first unit that will have no effect.
    pub refused: Option<u32>,
    /// All units that have an effect are closed: whoever has issued them has the answers.
    pub all_closed: bool,
}

impl Learned {
    /// A shard has told something. Tells whether it is news.
    pub fn hear(&mut self, word: &Word) -> bool {
        match word {
            Word::Proposed { shard, units, proposal, .. } => {
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
            Word::Closed { shard, upto, .. } => {
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
            Word::Refused { seq, .. } => {
                let news = self.refused.is_none_or(|known| *seq < known);
                if news {
                    self.refused = Some(*seq);
                }
                news
            }
            // They ask, or are about streams whose order is handed on.
            Word::Asks { .. }
            | Word::Settled { .. }
            | Word::HandedOn { .. }
            | Word::AsksPlaces { .. }
            | Word::Knows { .. } => false,
        }
    }

    pub fn proposal(&self, shard: ShardId, seq: u32) -> Option<Timestamp> {
        let (_, told) = self.proposals.iter().find(|(s, _)| *s == shard)?;
        let begun = told.partition_point(|((first, _), _)| *first <= seq);
        let ((_, last), proposal) = told[..begun].last()?;
        (seq <= *last).then_some(*proposal)
    }

    pub fn is_closed(&self, shard: ShardId, seq: u32) -> bool {
        self.all_closed || self.closed.iter().any(|(s, upto)| *s == shard && *upto >= seq)
    }
}

/// How far a unit is.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Progress {
    /// Its place is not known.
    Open,
    /// Its place is known, and others come before it.
    Placed,
    /// It is carried out: nobody comes before it any more.
    Closed { place: Timestamp, replies: SmallVec<[Reply; 1]>, released: bool },
    /// It has no effect.
    Failed,
}

impl Progress {
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed { .. })
    }

    /// Whether it does not hold its records any more.
    pub fn is_over(&self) -> bool {
        matches!(self, Self::Failed | Self::Closed { released: true, .. })
    }
}

/// A group that is not settled.
#[derive(Debug)]
pub(super) struct Live {
    pub group: Arc<Group>,
    /// Who wants to know what becomes of it.
    pub asker: Option<(GatewayId, Token)>,
    pub durable: bool,
    /// It is to go into the log, or is there.
    pub logged: bool,
    /// Others were asked for what was sent before it.
    pub asked: bool,
    /// An earlier leader has put it into the log.
    pub inherited: bool,
    /// Transactions of which it must be known that they are not decided.
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

    /// The number of a unit, and how far it is.
    pub fn units(&self) -> impl Iterator<Item = (u32, &Progress)> {
        self.group.units.iter().map(|unit| unit.seq).zip(&self.units)
    }

    /// Goes on as far as the proposals before its units are known; gives the places that follow.
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

    /// Up to which unit of the window everything before it is closed.
    pub fn cleared(&self, is_closed: impl Fn(ShardId, u32) -> bool) -> u32 {
        let done = (self.cleared - self.group.base) as usize;
        let mut rest = self.group.window(self.group.last()).skip(done);
        let first_open = rest.find(|(seq, home)| !is_closed(*home, *seq));
        first_open.map_or(self.group.last(), |(seq, _)| seq)
    }

    /// Units that nobody has to wait for any more: they are closed, and all of the window before this
    /// unit is.
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

    /// Whether a unit was sent before its own: whoever has it need not know of this group.
    pub fn is_earlier(&self, seq: u32) -> bool {
        // Nobody has told an earlier leader's successor anything.
        self.inherited || seq < self.group.fresh
    }

    /// Units that cannot get a place, because this one will have no effect.
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

    /// Units that it waits for, with their shards: for their proposals, or to be told that they are closed.
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

    pub fn is_answered(&self) -> bool {
        self.units.iter().all(|p| matches!(p, Progress::Closed { .. } | Progress::Failed))
    }

    /// What became of its units.
    pub fn answer(&self) -> Vec<Answered> {
        let answered = |progress: &Progress| match progress {
            Progress::Closed { place, replies, .. } => Some((*place, replies.clone())),
            _ => None,
        };
        self.units.iter().map(answered).collect()
    }
}

/// What became of the units of a group that is settled.
pub(super) fn answer_of(
    group: &KeptGroup,
    replies: impl Fn(u32) -> Option<SmallVec<[Reply; 1]>>,
) -> Vec<Answered> {
    let answer = |(seq, place): &(u32, Option<Place>)| {
        let place = place.flatten()?;
        Some((place, replies(*seq).unwrap_or_else(|| smallvec![lost()])))
    };
    group.units.iter().map(answer).collect()
}

/// The reply of something that took effect and whose reply is not kept.
pub(super) fn lost() -> Reply {
    let text = "it took effect, but the machine that had its reply was lost";
    ErrorReply::new("REPEATED", text).into()
}

/// The proposal of a unit of this shard, if its group is in the log.
pub(super) fn own_proposal(kept: Option<&Kept>, seq: u32) -> Option<Timestamp> {
    kept?.group_of(seq).map(|group| group.proposal)
}
