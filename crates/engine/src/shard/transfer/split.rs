//! A shard gives part of its slots to a new one.
//!
//! It is a record in the log, and every replica carries it out by itself: it takes the records out
//! of its state and begins the new shard with them. No transaction may be prepared on them then, so
//! that none is in two halves: the leader lets no more begin there, waits until those
//! that have begun are decided, and then lets the split be the last thing in the log of its lead. So
//! to its clients a split looks like a change of leaders. See
//! `docs/internals/replication/splits.md`.

use crate::cluster::map::Range;
use crate::entry::LogRecord;
use crate::ids::ShardId;
use crate::message::Body;
use crate::shard::core::ShardCore;
use crate::shard::state::State;
use crate::shard::state::slots::{Slots, is_in};
use crate::shard::tail::Recipient;
use adt::command::database::is_under;
use adt::command::tags::TagRules;
use adt::{Blob, Timestamp};

/// Beginnings of a new shard.
#[derive(Debug)]
pub struct Born {
    /// The new shard.
    pub child: ShardId,
    /// State of the shard.
    pub state: State,
    /// Clock of the shard.
    pub clock: Timestamp,
}

/// Whether a request concerns a key that `is` says yes to.
fn concerns(body: &Body, tags: &TagRules, is: impl Fn(&Blob) -> bool) -> bool {
    let apply = |apply: &crate::entry::Apply| apply.keys().any(&is);
    match body {
        Body::Read { key, .. }
        | Body::Lock { key, .. }
        | Body::Version { key }
        | Body::Waiting { key }
        | Body::Holders { key } => is(key),
        Body::Snapshot { ops, .. } => ops.iter().any(|(key, _)| is(key)),
        Body::Run(runs) => runs.iter().flat_map(|run| run.keys(tags)).any(|key| is(&key)),
        Body::Apply(of) | Body::Await { apply: of, .. } => apply(of),
        Body::Prepare { prepare, .. } => apply(&prepare.apply),
        // What asks something of a tree is not about slots.
        Body::Pipeline(group) => !group.has_asks() && group.ops().any(|(key, _)| is(key)),
        // What names a transaction, a token, a slot or the whole shard.
        Body::Decide { .. }
        | Body::Inquire { .. }
        | Body::Cancel { .. }
        | Body::Release { .. }
        | Body::ProbeAck { .. }
        | Body::Block { .. }
        | Body::Waits { .. }
        | Body::EndDeadlock { .. }
        | Body::EndTurn
        | Body::Unblock
        | Body::Scan { .. }
        | Body::Keys { .. }
        | Body::Count { .. }
        | Body::RandomKey { .. }
        | Body::Flush { .. }
        | Body::Resolve(_)
        | Body::Remember(_)
        | Body::EndStream { .. }
        | Body::Stats
        | Body::Follow(_)
        | Body::Transfer { .. }
        | Body::KeysInSlot { .. }
        | Body::Coordinate(_)
        | Body::Cut { .. } => false,
    }
}

impl State {
    /// The slots of the shard, as far as splits have changed them.
    pub fn slots(&self) -> Slots {
        self.slots
    }

    /// Takes over the slots of a snapshot.
    pub fn restore_slots(&mut self, slots: Slots) {
        self.slots = slots;
    }

    /// The slots from `at` to `last` go to another shard, which begins with what this gives.
    pub(in crate::shard) fn give(&mut self, first: u16, (at, last): Range) -> State {
        let mut child = State::default();
        let goes = |key: &Blob| is_in(key, (at, last));
        let keys: Vec<Blob> =
            self.records().iter().map(|(key, _)| key).filter(|k| goes(k)).cloned().collect();
        for key in keys {
            if let Some(record) = self.records_mut().take(&key) {
                child.records_mut().restore(key, record);
            }
        }
        // A client that repeats a request may ask either of the two shards.
        child.requests_mut().clone_from(self.requests());
        child.streams.inherit_outlived(&self.streams);
        child.fences_mut().clone_from(self.fences());
        child.records_mut().restore_removed(self.records().removed());
        child.slots = Slots { splits: 0, range: Some((at, last)) };
        let splits = self.slots.splits + 1;
        self.slots = Slots { splits, range: Some((first, at - 1)) };
        child
    }
}

/// The shard's part in a split.
#[derive(Debug, Default)]
pub(in crate::shard) struct Splitting {
    /// Slots that are about to be given away.
    giving: Option<Range>,
    /// Result of the last split.
    born: Option<Born>,
}

impl Splitting {
    /// Whether slots are about to be given away.
    #[inline]
    pub fn is_giving(&self) -> bool {
        self.giving.is_some()
    }

    /// Whether a request concerns keys that this shard does not have, or locks in slots that it is about to
    /// give away. So are keys that are not as the placement rules want them: they were overlooked.
    pub fn is_elsewhere(&self, core: &ShardCore, body: &Body) -> bool {
        let (own, giving, tags) = (core.state.slots.range, self.giving, &core.config.tags);
        let is_own = |key: &Blob| own.is_none_or(|own| is_in(key, own)) && is_under(tags, key);
        let elsewhere = concerns(body, tags, |key| !is_own(key));
        let locks = matches!(body, Body::Lock { .. } | Body::Prepare { .. } | Body::Pipeline(_));
        let going = giving.filter(|_| locks);
        elsewhere || going.is_some_and(|range| concerns(body, tags, |key| is_in(key, range)))
    }

    /// Lets no new transaction get locks in slots that are about to be given away.
    pub fn begin(&mut self, range: Range) {
        self.giving = Some(range);
    }

    /// Notes that a split is committed, and the state of the new shard.
    pub fn split(&mut self, child: ShardId, state: State, clock: Timestamp) {
        self.giving = None;
        self.born = Some(Born { child, state, clock });
    }

    /// Takes the beginnings of a new shard, if the last split has made one.
    pub fn take_born(&mut self) -> Option<Born> {
        self.born.take()
    }

    /// Gives no slots away: the lead has ended.
    pub fn give_up(&mut self) {
        self.giving = None;
    }
}

impl ShardCore {
    /// Puts the split into an entry of its own, behind everything else.
    pub fn log_split(&mut self, child: ShardId, first: u16, (at, last): Range) {
        self.tail.close();
        self.log(LogRecord::Split { child, first, at, last }, Recipient::none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::slot::slot;
    use crate::entry::{Apply, Entry};
    use crate::ids::{GatewayId, RequestId, Token};
    use crate::message::{Answer, Refusal, Request};
    use crate::now::Now;
    use crate::shard::Shard;
    use adt::Op;
    use adt::kinds::counter::Op as CounterOp;
    use adt::random::mix;

    fn entry(ts: u64, record: LogRecord) -> Entry {
        Entry { now_ms: 1, ts: Timestamp(ts), seed: mix(ts), records: vec![record] }
    }

    fn count(key: &str) -> LogRecord {
        let request = RequestId { client: Blob::from(&b"shop"[..]), number: 7 };
        let ops = [(Blob::from(key.as_bytes()), Op::Counter(CounterOp::Add(1)))];
        let (ops, guards) = (ops.into_iter().collect(), Vec::new());
        LogRecord::Apply(Apply { ops, guards, request: Some(request), ..Apply::default() })
    }

    fn alone() -> Shard {
        Shard::new(crate::shard::ShardConfig {
            id: ShardId(0),
            concurrency: crate::message::Concurrency::FULL,
            seed: 1,
            beside: GatewayId::default(),
            clustered: false,
            reap_us: crate::limits::REAP_US,
            broken: None,
            interpreter: None,
            tags: TagRules::NONE,
        })
    }

    #[test]
    fn records_go_where_their_slots_go_and_both_know_what_was_done() {
        let (mut shard, now) = (alone(), Now::default());
        let (stays, goes) = ("b", "foo");
        let at = slot(goes.as_bytes());
        assert!(slot(stays.as_bytes()) < at);
        let request = RequestId { client: Blob::from(&b"shop"[..]), number: 7 };
        shard.replay(now, entry(10, count(goes)));
        let ops = [(Blob::from(stays.as_bytes()), Op::Counter(CounterOp::Add(1)))];
        let apply = Apply { ops: ops.into_iter().collect(), ..Apply::default() };
        shard.replay(now, entry(20, LogRecord::Apply(apply)));
        let split = LogRecord::Split { child: ShardId(1), first: 0, at, last: 16_383 };
        shard.replay(now, entry(30, split));
        let Born { child, state, clock } = shard.take_born().expect("a new shard");
        assert_eq!(
            (child, state.records().len(), shard.state().records().len()),
            (ShardId(1), 1, 1)
        );
        assert!(clock >= Timestamp(30) && shard.take_born().is_none());
        assert!(state.get(goes.as_bytes()).is_some() && shard.state().get(b"b").is_some());
        assert!(state.requests().get(&request).is_some(), "a retry finds its outcome there");
        assert!(shard.state().requests().get(&request).is_some(), "and here");
        assert_eq!(state.slots(), Slots { splits: 0, range: Some((at, 16_383)) });
        assert_eq!(shard.state().slots(), Slots { splits: 1, range: Some((0, at - 1)) });
    }

    #[test]
    fn who_asks_in_the_wrong_place_is_told() {
        let (mut shard, now) = (alone(), Now::default());
        let split = LogRecord::Split { child: ShardId(1), first: 0, at: 5000, last: 16_383 };
        shard.replay(now, entry(30, split));
        for (key, moved) in [("b", false), ("foo", true)] {
            let (gateway, token) = (GatewayId::default(), Token(1));
            let body = Body::Version { key: Blob::from(key.as_bytes()) };
            shard.handle(now, Request { gateway, token, after: None, body });
            let answer = shard.outbox_mut().poll().expect("an answer").answer;
            assert_eq!(matches!(answer, Answer::Refused(Refusal::Moved)), moved, "{key}");
        }
    }
}
