//! Learned intents: reads that are mostly followed by a write of the same transaction.
//!
//! A program that reads a record and writes it afterwards rarely announces the write. If two such
//! transactions share the record at the read, only one of them can go on at the write. When that has
//! happened, the gateway remembers the record and the read, and lets the next such reads announce
//! the write by themselves: their transactions stand in line. Each of them that does write afterwards
//! counts for the intent, each that does not counts against it, and when the latter win, the intent is
//! forgotten. An intent decides only about how long transactions wait, so it may be wrong.

use crate::ids::KeyedOp;
use crate::limits::{INTENT_CREDIT_FIRST, INTENT_CREDIT_MAX, INTENTS_MAX, READS_TRACKED_MAX};
use adt::collections::Map;
use adt::{Blob, Op};
use smallvec::SmallVec;

/// A read of a record that was followed by a write.
struct Intent {
    read: Op,
    /// Number of reads without a write after which it is forgotten.
    credit: u32,
}

/// Intents that a gateway has learned.
#[derive(Default)]
pub(in crate::gateway::txn) struct Intents {
    of_records: Map<Blob, Intent>,
    /// Place of the intent that makes room for the next one, if there are too many.
    hand: usize,
}

/// An early read of a transaction.
struct EarlyRead {
    key: Blob,
    op: Op,
    /// Whether it has announced a write because of an intent.
    expected: bool,
    /// Whether the transaction writes the record afterwards.
    written: bool,
}

/// The first early reads of a transaction.
#[derive(Default)]
pub(in crate::gateway::txn) struct EarlyReads(SmallVec<[EarlyRead; 1]>);

impl Intents {
    /// Whether a read is likely to be followed by a write.
    fn expect(&self, (key, op): &KeyedOp) -> bool {
        !self.of_records.is_empty()
            && self.of_records.get(key).is_some_and(|intent| intent.read == *op)
    }

    /// Notes that a transaction has failed because it wrote what it had read.
    fn learn(&mut self, key: Blob, read: Op) {
        let is_full = self.of_records.len() >= INTENTS_MAX;
        if is_full && !self.of_records.contains_key(&key) {
            self.hand = (self.hand + 1) % INTENTS_MAX;
            self.of_records.swap_remove_index(self.hand);
        }
        let intent = self.of_records.entry(key).or_insert(Intent { read: read.clone(), credit: 0 });
        let known = if intent.read == read { intent.credit } else { 0 };
        *intent = Intent { read, credit: known.max(INTENT_CREDIT_FIRST) };
    }

    /// Notes whether an expected write has come.
    fn judge(&mut self, key: &Blob, written: bool) {
        let Some(intent) = self.of_records.get_mut(key) else { return };
        if written {
            intent.credit = (intent.credit + 1).min(INTENT_CREDIT_MAX);
            return;
        }
        intent.credit -= 1;
        if intent.credit == 0 {
            self.of_records.swap_remove(key);
        }
    }
}

impl EarlyReads {
    /// Notes a read. Tells whether it is to announce a write, though its program does not.
    pub fn note(&mut self, intents: &Intents, read: &KeyedOp) -> bool {
        let (key, op) = read;
        let known = self.0.iter().position(|earlier| earlier.key == *key);
        if known.is_none() && self.0.len() >= READS_TRACKED_MAX {
            return false;
        }
        let expected = intents.expect(read);
        match known {
            Some(at) => self.0[at].expected |= expected,
            None => {
                let (key, op) = (key.clone(), op.clone());
                self.0.push(EarlyRead { key, op, expected, written: false });
            }
        }
        expected
    }

    /// Notes writes.
    pub fn wrote(&mut self, writes: &[KeyedOp]) {
        for (key, _) in writes.iter().filter(|(_, op)| op.is_write()) {
            if let Some(read) = self.0.iter_mut().find(|read| read.key == *key) {
                read.written = true;
            }
        }
    }

    /// Ends the transaction, or an attempt of it: because it was in conflict with another one, or not.
    pub fn end(&mut self, intents: &mut Intents, in_conflict: bool) {
        for EarlyRead { key, op, expected, written } in self.0.drain(..) {
            match (expected, written) {
                // It may have failed before its write.
                (true, false) if in_conflict => {}
                (true, written) => intents.judge(&key, written),
                (false, true) if in_conflict => intents.learn(key, op),
                (false, _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::kinds::set;

    fn read(key: &str) -> KeyedOp {
        (Blob::from(key), Op::Set(set::Op::Card))
    }

    fn write(key: &str) -> KeyedOp {
        (Blob::from(key), Op::Set(set::Op::Pop(None)))
    }

    /// Lets a transaction read a record, and write it or not. Tells whether the read announced a write.
    fn run(intents: &mut Intents, key: &str, writes: bool, in_conflict: bool) -> bool {
        let mut reads = EarlyReads::default();
        let announced = reads.note(intents, &read(key));
        if writes {
            reads.wrote(&[write(key)]);
        }
        reads.end(intents, in_conflict);
        announced
    }

    #[test]
    fn a_read_announces_a_write_once_such_a_write_has_failed() {
        let mut intents = Intents::default();
        assert!(!run(&mut intents, "k", true, false), "without a conflict there is no reason");
        assert!(!run(&mut intents, "k", false, true), "it has not written");
        assert!(!run(&mut intents, "k", true, true));
        assert!(run(&mut intents, "k", true, false), "that was a reason");
        let (key, _) = read("k");
        assert!(!EarlyReads::default().note(&intents, &(key, Op::Set(set::Op::All))));
        assert!(!run(&mut intents, "other", true, false));
    }

    #[test]
    fn an_intent_is_forgotten_when_most_transactions_only_read() {
        let mut intents = Intents::default();
        run(&mut intents, "k", true, true);
        for round in 0..1_000 {
            assert!(run(&mut intents, "k", round % 2 == 0, false), "half of them write");
        }
        let only_reads =
            (0..=INTENT_CREDIT_MAX).position(|_| !run(&mut intents, "k", false, false));
        assert!(only_reads.is_some());
        assert!(!run(&mut intents, "k", true, false));
    }

    #[test]
    fn a_gateway_remembers_no_more_than_so_many_intents() {
        let mut intents = Intents::default();
        for number in 0..2 * INTENTS_MAX {
            run(&mut intents, &number.to_string(), true, true);
        }
        assert_eq!(intents.of_records.len(), INTENTS_MAX);
        assert!(run(&mut intents, &(2 * INTENTS_MAX - 1).to_string(), true, false));
        let mut reads = EarlyReads::default();
        for number in 0..2 * READS_TRACKED_MAX {
            reads.note(&intents, &read(&number.to_string()));
        }
        assert_eq!(reads.0.len(), READS_TRACKED_MAX);
    }
}
