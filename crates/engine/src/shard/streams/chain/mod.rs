//! Pipelines whose order is handed from shard to shard (`docs/internals/order/chain.md`), which the
//! study needs to compare with.
//!
//! Everything about how this order comes about is in this folder: [`Chains`] is a leader's knowledge of such
//! streams beyond the log. The rest of the shard treats such streams like others and calls its methods at
//! these moments:
//!
//! - a group comes: [`Chains::begin`]; its request is repeated: [`Chains::ask_again`];
//! - the records of its units are free: [`Chains::place_run`], with claims of [`claim_class`];
//! - one of its records is committed: [`State::apply_chain`], and the leader acts on the result:
//!   [`Streams::act_on_chain`]; one is in an entry that is closed: [`Chains::has_place`];
//! - a message of another shard comes: [`Chains::hear_places`], [`Chains::asked_for_place`],
//!   [`Chains::asked_for_places`], [`Chains::learn_places`];
//! - a stream is dirty: [`Chains::advance`]; time has passed: [`Chains::ask_for_late`];
//! - all is settled: [`Chains::end`];
//! - a lead begins: [`Chains::inherit`], after which [`Chains::recover_next`] goes on; or ends:
//!   [`Chains::into_asked`].

mod kept;
mod leader;
mod recovery;

pub use kept::KeptChain;
pub(super) use leader::Chains;
pub(in crate::shard) use recovery::RECOVERY;
pub(super) use recovery::RecoveryStep;

use super::leader::Streams;
use crate::entry::LogRecord;
use crate::ids::{KeyedOp, ShardId, StreamId};
use crate::message::Body;
use crate::now::Now;
use crate::pipeline::{Group, Link};
use crate::shard::ahead::AheadOfLog;
use crate::shard::core::ShardCore;
use crate::shard::locking::locks::Class;
use crate::shard::state::{OpReplies, State};
use crate::shard::transfer::snapshot::Writers;
use adt::Ctx;

/// The class of the claims of a group's units. With places that are handed on they are like single
/// commands.
pub(in crate::shard) fn claim_class(group: &Group) -> Class {
    if group.chained { Class::Apply } else { Class::Prepared }
}

/// Whether a request that waits for records is one of the shard itself.
pub(in crate::shard) fn is_own(body: &Body) -> bool {
    matches!(body, Body::Pipeline(group) if group.chained)
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

impl Streams {
    /// Acts on the result of a record about such a stream, at the leader that has proposed it.
    pub(in crate::shard) fn act_on_chain(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        effect: ChainEffect<'_>,
    ) {
        let agenda = &mut self.agenda;
        match effect {
            ChainEffect::Arrived(group) => {
                self.memory.remember(core, group.stream);
                self.chains.contents_came(agenda, group.stream);
            }
            ChainEffect::Ordered { stream, link, ops, replies } => {
                self.chains.carried_out(core, agenda, now, (stream, link), (ops, replies));
            }
            ChainEffect::Promised { stream, shard, term } => {
                self.memory.remember(core, stream);
                self.chains.promised(core, agenda, stream, (shard, term));
            }
        }
    }
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
                self.streams.keep_contents(group, ctx.ts);
                ChainEffect::Arrived(group)
            }
            LogRecord::Ordered { stream, link, before, ops } => {
                if let Some(content) = self.streams.content(*stream, link.seq) {
                    writers.keep(self, content);
                }
                let replies = self.carry_out_in_order(*stream, *link, before, (ctx, ahead));
                ChainEffect::Ordered { stream: *stream, link: *link, ops, replies }
            }
            LogRecord::Promise { stream, shard, term } => {
                self.streams.promise(*stream, *shard, *term);
                ChainEffect::Promised { stream: *stream, shard: *shard, term: *term }
            }
            other => unreachable!("{other:?} is not about a stream whose order is handed on"),
        }
    }
}
