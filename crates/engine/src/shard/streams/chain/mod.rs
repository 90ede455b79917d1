//! Pipelines whose order is handed from shard to shard (`chain` of `docs/internals/order.md`), which the
//! study needs to compare with.
//!
//! All that knows how this order comes about is in this folder. The rest of the shard treats such streams
//! like others and calls what is here at these moments:
//!
//! - a group comes: [`Shard::take_chain`]; somebody asks about it again: [`Shard::ask_chain`];
//! - the records of its units are free: [`Shard::place_chain`], with claims of [`claim_class`];
//! - one of its records is committed: [`State::apply_chain`], and the leader acts on the result:
//!   [`Shard::act_on_chain`]; one is in an entry that is closed: [`Shard::has_place`];
//! - another shard says something: [`Shard::hear_chain`]; asks for a unit: [`Shard::asked_for_place`];
//! - something may have become possible: [`Shard::advance_chain`]; time has passed: [`Shard::tick_chain`];
//! - all is settled: [`Shard::end_chain`];
//! - a lead begins: [`Shard::inherit_chains`], after which [`Shard::recover_next`] goes on; or ends:
//!   [`Part::into_asked`].

mod kept;
mod leader;
mod recovery;

pub use kept::KeptChain;
pub(in crate::shard) use recovery::RECOVERY;

use crate::entry::LogRecord;
use crate::ids::{GatewayId, KeyedOp, ShardId, StreamId, Token};
use crate::message::Body;
use crate::now::Now;
use crate::pipeline::{Group, Link, Word};
use crate::shard::Shard;
use crate::shard::ahead::AheadOfLog;
use crate::shard::locking::locks::Class;
use crate::shard::state::{OpReplies, State};
use crate::shard::streams::Kept;
use crate::shard::transfer::snapshot::Writers;
use adt::Ctx;
use leader::Chain;
use recovery::PlaceRecovery;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a leader knows of all such streams beyond the log.
#[derive(Debug, Default)]
pub(super) struct Lead {
    /// Promises to other shards that are on their way to the log.
    promising: BTreeMap<(StreamId, ShardId), u64>,
    recovery: Option<PlaceRecovery>,
    /// How many units have been handed on and are not durable.
    ordering: usize,
}

impl Lead {
    /// Whether it is not known yet which places an earlier leader has handed on.
    #[inline]
    pub fn is_recovering(&self) -> bool {
        self.recovery.is_some()
    }
}

/// What a leader knows of one stream, if its order is handed on.
#[derive(Debug, Default)]
pub(super) struct Part(Option<Box<Chain>>);

impl Part {
    /// The units that are here.
    pub fn group(&self) -> Option<&Group> {
        self.0.as_ref()?.group.as_deref()
    }

    /// Who has asked about the units that are here.
    pub fn into_asked(self) -> Option<((GatewayId, Token), Arc<Group>)> {
        let chain = self.0?;
        Some((chain.asker?, chain.group?))
    }
}

/// How the units of a group claim their records. With places that are handed on they are like single
/// commands.
pub(in crate::shard) fn claim_class(group: &Group) -> Class {
    if group.chained { Class::Apply } else { Class::Prepared }
}

/// Whether a request that waits for records is one of the shard itself.
pub(in crate::shard) fn is_own(body: &Body) -> bool {
    matches!(body, Body::Pipeline(group) if group.chained)
}

impl Kept {
    /// Whether the order of the stream is handed on.
    pub(super) fn is_handed_on(&self) -> bool {
        self.chain.is_some()
    }
}

impl Shard {
    /// Units have come. Tells whether their order is handed on; they are taken then.
    pub(super) fn take_chain(
        &mut self,
        now: Now,
        asker: (GatewayId, Token),
        group: &Arc<Group>,
    ) -> bool {
        if group.chained {
            self.begin_chain(now, asker, Arc::clone(group));
        }
        group.chained
    }

    /// Somebody asks about a stream. Tells whether its units are here and their order is handed on; they
    /// are answered for when that can be done.
    pub(super) fn ask_chain(&mut self, asker: (GatewayId, Token), id: StreamId) -> bool {
        let chain = self.chain_mut(id).filter(|chain| chain.group.is_some());
        let Some(chain) = chain else { return false };
        chain.asker = Some(asker);
        self.streams.mark(id);
        true
    }

    /// The records of units are free. Tells whether their order is handed on; they have places then.
    pub(super) fn place_chain(&mut self, now: Now, group: &Group) -> bool {
        if group.chained {
            self.place_run(now, group);
        }
        group.chained
    }

    /// Another shard says something that is about such a stream alone.
    pub(super) fn hear_chain(&mut self, now: Now, word: Word) {
        let id = word.stream();
        match word {
            Word::HandedOn { links, .. } => self.hear_places(now, id, links),
            Word::AsksPlaces { shard, term, .. } => self.asked_for_places(id, shard, term),
            Word::Knows { shard, term, links, .. } => self.learn_places(id, shard, term, links),
            Word::Proposed { .. }
            | Word::Closed { .. }
            | Word::Refused { .. }
            | Word::Asks { .. }
            | Word::Settled { .. } => {}
        }
    }

    /// Does what is due by time for a stream.
    pub(super) fn tick_chain(&mut self, now: Now, id: StreamId) {
        self.ask_for_chain(now, id);
    }

    /// Acts on the result of a record about such a stream, at the leader that has proposed it.
    pub(in crate::shard) fn act_on_chain(&mut self, now: Now, effect: ChainEffect<'_>) {
        match effect {
            ChainEffect::Arrived(group) => self.contents_came(group),
            ChainEffect::Ordered { stream, link, ops, replies } => {
                self.ordered_carried_out(now, stream, link, (ops, replies));
            }
            ChainEffect::Promised { stream, shard, term } => self.promised(stream, shard, term),
        }
    }
}

/// Result of a committed record about such a stream.
pub(in crate::shard) enum ChainEffect<'r> {
    /// Units have arrived.
    Arrived(&'r Group),
    /// A unit has taken effect at its place.
    Ordered { stream: StreamId, link: Link, ops: &'r [KeyedOp], replies: Option<OpReplies> },
    /// Earlier leaders of a shard are not listened to any more.
    Promised { stream: StreamId, shard: ShardId, term: u64 },
}

impl State {
    /// Applies a committed record about such a stream. `writers` are the snapshots in the making.
    pub(in crate::shard) fn apply_chain<'r>(
        &mut self,
        record: &'r LogRecord,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
        writers: &mut Writers,
    ) -> ChainEffect<'r> {
        match record {
            LogRecord::Content(group) => {
                self.keep_contents(group, ctx.ts);
                ChainEffect::Arrived(group)
            }
            LogRecord::Ordered { stream, link, before, ops } => {
                if let Some(content) = self.content(*stream, link.seq) {
                    writers.keep(self, content);
                }
                let replies = self.carry_out_in_order(*stream, *link, before, (ctx, ahead));
                ChainEffect::Ordered { stream: *stream, link: *link, ops, replies }
            }
            LogRecord::Promise { stream, shard, term } => {
                self.promise(*stream, *shard, *term);
                ChainEffect::Promised { stream: *stream, shard: *shard, term: *term }
            }
            other => unreachable!("{other:?} is not about a stream whose order is handed on"),
        }
    }
}
