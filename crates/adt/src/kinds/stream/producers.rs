//! Producers that add entries once: what each has added of late, so that the same is not added again.
//!
//! A producer names each of its entries. While the stream remembers a name, an add under it answers the
//! identifier of the first one. Names are forgotten after a while, and the oldest ones of a producer when it
//! has too many; a producer without names is forgotten when others come. All times are those of the
//! operations in the log, so that replicas forget alike.

use super::{Fields, Id, Value, load_id};
use crate::{Blob, Corrupt, Ctx, ErrorReply, Reply, ValueSink, ValueSource, load_count};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use twox_hash::XxHash3_128;

/// Most producers that a stream remembers.
pub const PRODUCERS_MAX: usize = 10_000;
/// Longest name of a producer, and of an entry that it adds, in bytes.
pub const PRODUCER_BYTES_MAX: usize = 64 << 10;
/// Longest time for which a name can be remembered, in seconds.
pub const REMEMBERED_S_MAX: u64 = 86_400;
/// Largest allowed number of names of a producer.
pub const NAMES_MAX: u64 = 10_000;
/// Time for which a name is remembered unless the stream has another, in seconds.
const REMEMBERED_S: u64 = 100;
/// Most names of a producer unless the stream has another number.
const NAMES: u64 = 100;

/// Name of an entry that is to be added once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// The producer.
    pub producer: Blob,
    /// Name that the producer gives the entry.
    pub name: Blob,
}

/// Name of an entry that has none: a hash of its fields with their values, in whatever order.
pub(super) fn name_of(fields: &Fields) -> Blob {
    let mut pairs: Vec<&[Blob]> = fields.chunks(2).collect();
    pairs.sort();
    let mut text = Vec::new();
    for part in pairs.into_iter().flatten() {
        text.extend((part.len() as u64).to_le_bytes());
        text.extend_from_slice(part);
    }
    Blob::new(&XxHash3_128::oneshot(&text).to_be_bytes())
}

/// The first entry under a name.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Original {
    id: Id,
    at_ms: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Producer {
    names: BTreeMap<Blob, Original>,
    /// The names, the oldest first.
    order: VecDeque<Blob>,
}

/// Producers of a stream, and for how long it remembers what they have added. A copy shares them.
#[derive(Clone, Debug, PartialEq)]
pub struct Producers {
    /// Time for which a name is remembered, in seconds.
    pub remembered_s: u64,
    /// Most names of a producer.
    pub most: u64,
    /// Number of entries ever added under a name.
    added: u64,
    /// Number of adds that found their name.
    duplicates: u64,
    of: BTreeMap<Blob, Arc<Producer>>,
}

impl Default for Producers {
    fn default() -> Self {
        let (remembered_s, most) = (REMEMBERED_S, NAMES);
        Self { remembered_s, most, added: 0, duplicates: 0, of: BTreeMap::new() }
    }
}

impl Producer {
    /// Number of names that have not expired, `long_ms` after they were given.
    fn fresh(&self, long_ms: u64, now_ms: u64) -> usize {
        let expired = |name: &Blob| has_expired(self.names[name], long_ms, now_ms);
        self.order.len() - self.order.partition_point(expired)
    }

    /// Forgets the oldest name; false if there is none.
    fn forget_oldest(&mut self) -> bool {
        let Some(name) = self.order.pop_front() else { return false };
        self.names.remove(&name);
        true
    }
}

fn has_expired(original: Original, long_ms: u64, now_ms: u64) -> bool {
    now_ms.saturating_sub(original.at_ms) >= long_ms
}

impl Producers {
    fn long_ms(&self) -> u64 {
        self.remembered_s.saturating_mul(1000)
    }

    /// Cost of a copy, which shares what a producer has added.
    pub fn copy_cost(&self) -> usize {
        self.of.len()
    }

    pub fn knows(&self, producer: &Blob) -> bool {
        self.of.contains_key(producer)
    }

    /// Identifier of the entry that was added under a name, if that is remembered.
    fn original(&self, once: &Once, now_ms: u64) -> Option<Id> {
        let original = *self.of.get(&once.producer)?.names.get(&once.name)?;
        (!has_expired(original, self.long_ms(), now_ms)).then_some(original.id)
    }

    /// Whether there is room for another producer, if the ones that may be forgotten are.
    fn has_room(&self, now_ms: u64) -> bool {
        let forgotten = |producer: &Arc<Producer>| producer.fresh(self.long_ms(), now_ms) == 0;
        self.of.len() < PRODUCERS_MAX || self.of.values().any(forgotten)
    }

    /// Remembers an entry under its name, if there is room for the producer.
    fn note(&mut self, once: &Once, id: Id, now_ms: u64) {
        let (long_ms, most) = (self.long_ms(), self.most as usize);
        // The more producers there are, the more must come before all are looked at again.
        if !self.knows(&once.producer)
            && (self.of.len().is_power_of_two() || self.of.len() >= PRODUCERS_MAX)
        {
            self.of.retain(|_, producer| producer.fresh(long_ms, now_ms) > 0);
            if self.of.len() >= PRODUCERS_MAX {
                return;
            }
        }
        self.added = self.added.saturating_add(1);
        let producer = Arc::make_mut(self.of.entry(once.producer.clone()).or_default());
        while let Some(oldest) = producer.order.front()
            && has_expired(producer.names[oldest], long_ms, now_ms)
        {
            producer.forget_oldest();
        }
        if producer.names.insert(once.name.clone(), Original { id, at_ms: now_ms }).is_some() {
            producer.order.retain(|name| *name != once.name);
        }
        while producer.order.len() >= most && producer.forget_oldest() {}
        producer.order.push_back(once.name.clone());
    }

    /// Facts for `XINFO STREAM`.
    pub fn facts(&self, now_ms: u64) -> [(&'static str, u64); 6] {
        let fresh = self.of.values().map(|producer| producer.fresh(self.long_ms(), now_ms));
        let (pids, iids) = fresh
            .fold((0, 0), |(pids, iids), fresh| (pids + u64::from(fresh > 0), iids + fresh as u64));
        [
            ("idmp-duration", self.remembered_s),
            ("idmp-maxsize", self.most),
            ("pids-tracked", pids),
            ("iids-tracked", iids),
            ("iids-added", self.added),
            ("iids-duplicates", self.duplicates),
        ]
    }

    pub fn save(&self, sink: &mut dyn ValueSink) {
        [self.remembered_s, self.most, self.added, self.duplicates]
            .into_iter()
            .for_each(|number| sink.number(number));
        sink.number(self.of.len() as u64);
        for (name, producer) in &self.of {
            sink.bytes(name);
            sink.number(producer.order.len() as u64);
            for name in &producer.order {
                let original = producer.names[name];
                sink.bytes(name);
                sink.number(original.id.ms);
                sink.number(original.id.seq);
                sink.number(original.at_ms);
            }
        }
    }

    pub fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let (remembered_s, most) = (source.number()?, source.number()?);
        let (added, duplicates) = (source.number()?, source.number()?);
        let may_be = |number: u64, most: u64| (1..=most).contains(&number);
        if !may_be(remembered_s, REMEMBERED_S_MAX) || !may_be(most, NAMES_MAX) {
            return Err(Corrupt);
        }
        let mut of = BTreeMap::new();
        for _ in 0..load_count(source, 2)? {
            let producer_name = Blob::new(source.bytes()?);
            let mut producer = Producer::default();
            let count = load_count(source, 4)?;
            if count as u64 > most {
                return Err(Corrupt);
            }
            for _ in 0..count {
                let name = Blob::new(source.bytes()?);
                let original = Original { id: load_id(source)?, at_ms: source.number()? };
                if producer.names.insert(name.clone(), original).is_some() {
                    return Err(Corrupt);
                }
                producer.order.push_back(name);
            }
            if of.len() >= PRODUCERS_MAX || of.insert(producer_name, Arc::new(producer)).is_some() {
                return Err(Corrupt);
            }
        }
        Ok(Self { remembered_s, most, added, duplicates, of })
    }
}

impl Value {
    /// Identifier of the entry that was added under a name, or nil; an error if none may be added.
    pub(super) fn original(&self, once: &Once, ctx: &Ctx) -> Reply {
        let Some(producers) = &self.producers else { return Reply::Nil };
        match producers.original(once, ctx.now_ms) {
            Some(id) => Reply::Bulk(id.blob()),
            None if !producers.knows(&once.producer) && !producers.has_room(ctx.now_ms) => {
                Reply::Error(ErrorReply::err(format!(
                    "the stream remembers {PRODUCERS_MAX} producers, and no more can be added until \
                     it forgets one: see XCFGSET"
                )))
            }
            None => Reply::Nil,
        }
    }

    /// Counts an add that has found its name; false if the stream has no producers.
    pub(super) fn repeat(&mut self) -> bool {
        let Some(producers) = &mut self.producers else { return false };
        producers.duplicates = producers.duplicates.saturating_add(1);
        true
    }

    pub(super) fn note_producer(&mut self, once: &Once, id: Id, ctx: &Ctx) {
        self.producers.get_or_insert_default().note(once, id, ctx.now_ms);
    }

    /// Sets for how long names are remembered, and how many of a producer. All are forgotten if that is
    /// another time or number than before; returns whether it is.
    pub(super) fn configure(&mut self, remembered_s: Option<u64>, most: Option<u64>) -> bool {
        let before =
            self.producers.as_ref().map_or((REMEMBERED_S, NAMES), |of| (of.remembered_s, of.most));
        let after = (remembered_s.unwrap_or(before.0), most.unwrap_or(before.1));
        if after == before {
            return false;
        }
        let producers = self.producers.get_or_insert_default();
        (producers.remembered_s, producers.most) = after;
        producers.of.clear();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(producer: &str, name: &str) -> Once {
        Once { producer: Blob::from(producer), name: Blob::from(name) }
    }

    fn id(ms: u64) -> Id {
        Id { ms, seq: 1 }
    }

    fn numbers(producers: &Producers, now_ms: u64) -> (u64, u64) {
        let [.., pids, iids, _, _] = producers.facts(now_ms).map(|(_, number)| number);
        (pids, iids)
    }

    #[test]
    fn a_name_is_remembered_for_a_while_and_among_the_newest() {
        let mut producers = Producers { remembered_s: 2, most: 3, ..Producers::default() };
        for n in 1..=4 {
            producers.note(&once("ann", &n.to_string()), id(n), 1000 * n / 4);
        }
        let found = |producers: &Producers, now_ms| {
            [1, 2, 3, 4].map(|n| producers.original(&once("ann", &format!("{n}")), now_ms))
        };
        assert_eq!(found(&producers, 1000), [None, Some(id(2)), Some(id(3)), Some(id(4))]);
        assert_eq!(numbers(&producers, 1000), (1, 3));
        // The second was added at 500, and is forgotten at 2500.
        assert_eq!(found(&producers, 2499), [None, Some(id(2)), Some(id(3)), Some(id(4))]);
        assert_eq!(found(&producers, 2500), [None, None, Some(id(3)), Some(id(4))]);
        assert_eq!((numbers(&producers, 2500), numbers(&producers, 3000)), ((1, 2), (0, 0)));
        assert_eq!(producers.original(&once("ben", "4"), 1000), None);
        // A name that was forgotten is given anew.
        producers.note(&once("ann", "2"), id(9), 2600);
        assert_eq!(found(&producers, 2600), [None, Some(id(9)), Some(id(3)), Some(id(4))]);
        assert_eq!(producers.of[&Blob::from("ann")].order.len(), 3);
    }

    #[test]
    fn a_clock_that_was_set_back_does_no_harm() {
        let mut producers = Producers { remembered_s: 1, most: 2, ..Producers::default() };
        producers.note(&once("ann", "late"), id(1), 9000);
        producers.note(&once("ann", "early"), id(2), 1000);
        producers.note(&once("ann", "early"), id(3), 5000);
        let ann = &producers.of[&Blob::from("ann")];
        assert_eq!((ann.order.len(), ann.names.len()), (2, 2));
        assert_eq!(producers.original(&once("ann", "early"), 5500), Some(id(3)));
    }

    #[test]
    fn one_producer_more_than_there_may_be_is_refused_until_another_is_forgotten() {
        let mut value = Value { made: true, ..Value::default() };
        let ctx = |now_ms| Ctx { now_ms, ..Ctx::default() };
        for n in 0..PRODUCERS_MAX {
            let name = once(&n.to_string(), "name");
            assert_eq!(value.original(&name, &ctx(1000)), Reply::Nil);
            value.note_producer(&name, id(1), &ctx(if n == 77 { 0 } else { 1000 }));
        }
        let new = once("new", "name");
        assert!(value.original(&new, &ctx(99_999)).is_error());
        assert_eq!(value.original(&once("5", "other"), &ctx(99_999)), Reply::Nil, "it is known");
        assert_eq!(value.original(&new, &ctx(100_000)), Reply::Nil);
        value.note_producer(&new, id(2), &ctx(100_000));
        let producers = value.producers.as_ref().unwrap();
        assert_eq!(producers.of.len(), PRODUCERS_MAX);
        assert!(producers.knows(&Blob::from("new")) && !producers.knows(&Blob::from("77")));
        // What was told a client before the commit is carried out in any case.
        value.note_producer(&once("newer", "name"), id(3), &ctx(100_000));
        assert!(!value.producers.unwrap().knows(&Blob::from("newer")));
    }

    #[test]
    fn producers_that_do_not_come_back_are_forgotten_when_others_come() {
        let mut producers = Producers::default();
        for n in 0..5000 {
            producers.note(&once(&n.to_string(), "name"), id(n), 10_000 * n);
        }
        assert!(producers.of.len() <= 16, "{}", producers.of.len());
    }

    #[test]
    fn the_name_of_fields_does_not_depend_on_their_order() {
        let name = |words: &str| name_of(&words.split(' ').map(Blob::from).collect());
        assert_eq!(name("a 1 b 2 c 3"), name("c 3 a 1 b 2"));
        for other in ["a 1 b 2", "a 2 b 1 c 3", "a 1 b 2 c 3 c 3", "a1 b 2c 3 "] {
            assert_ne!(name("a 1 b 2 c 3"), name(other), "{other}");
        }
        assert_ne!(name("ab c"), name("a bc"));
        // It is compared with names that other builds have given.
        let hex: String = name("a 1").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "4edc1e516f8570260efadfb8a6af8b6e");
    }
}
