//! The parts of a value: single records, and maps of records by field, with their deadlines.

use super::definition::{Definition, PartSpec};
use crate::record::{self, Record};
use crate::types::{Corrupt, ValueSink, ValueSource};
use crate::{Blob, Ctx, Op, Reply, Timestamp, Value as AnyValue, load_count};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

/// The place of a record in a value: the number of a part, and a field if that is a map.
pub(super) type Address<'a> = (usize, Option<&'a Blob>);

/// Number of elements up to which the cost of a copy is the sum of theirs.
const ELEMENTS_FEW: usize = 64;

/// Records by field.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Elements {
    records: BTreeMap<Blob, Record>,
    /// The moments at which something expires, in milliseconds since 1970, and of which field.
    deadlines: BTreeSet<(u64, Blob)>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Part {
    One(Option<Record>),
    Map(Elements),
}

/// All parts, in the order of the definition.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Parts(Vec<Part>);

/// The first moment at which a record, or a part of it, expires.
fn deadline(record: &Record) -> Option<u64> {
    let inside = record.next_part_expiry_ms(None);
    record.expire_at_ms().into_iter().chain(inside).min()
}

/// A new record with the initial value of a part.
fn initial(part: &PartSpec) -> Option<Record> {
    let mut slot = None;
    if let Some(op) = &part.initial {
        record::apply(&mut slot, op, &Ctx::default());
    }
    slot.map(untimed)
}

/// Parts are compared by their contents: the last change is known of the whole.
fn untimed(mut record: Record) -> Record {
    record.modified = Timestamp::ZERO;
    record
}

impl Elements {
    fn put(&mut self, field: &Blob, record: Record) {
        if let Some(at) = deadline(&record) {
            self.deadlines.insert((at, field.clone()));
        }
        self.records.insert(field.clone(), record);
    }

    fn take(&mut self, field: &Blob) -> Option<Record> {
        let record = self.records.remove(field)?;
        if let Some(at) = deadline(&record) {
            self.deadlines.remove(&(at, field.clone()));
        }
        Some(record)
    }

    fn next_deadline(&self, after_ms: Option<u64>) -> Option<u64> {
        let from = after_ms.map_or(0, |after| after.saturating_add(1));
        self.deadlines.range((from, Blob::default())..).next().map(|(at, _)| *at)
    }
}

impl Parts {
    /// The parts of a new value.
    pub fn new(definition: &Definition) -> Self {
        let parts = definition.parts.iter().map(|part| match part.is_map {
            true => Part::Map(Elements::default()),
            false => Part::One(initial(part)),
        });
        Self(parts.collect())
    }

    /// Parts of a later definition, with the same values.
    pub fn migrated(&self, from: &Definition, to: &Definition) -> Self {
        let mut parts = Self::new(to);
        for (part, spec) in parts.0.iter_mut().zip(&to.parts) {
            let earlier = from.parts.iter().position(|earlier| earlier.name == spec.name);
            if let Some(value) = earlier.and_then(|place| self.0.get(place)) {
                part.clone_from(value);
            }
        }
        parts
    }

    /// Whether nothing is there.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|part| match part {
            Part::One(record) => record.is_none(),
            Part::Map(elements) => elements.records.is_empty(),
        })
    }

    /// The record at an address.
    pub fn get(&self, (part, field): Address<'_>) -> Option<&Record> {
        match (self.0.get(part), field) {
            (Some(Part::One(record)), _) => record.as_ref(),
            (Some(Part::Map(elements)), Some(field)) => elements.records.get(field),
            _ => None,
        }
    }

    /// Carries out a write at an address. Returns the reply, and whether anything has changed.
    pub fn carry_out(
        &mut self,
        definition: &Definition,
        (part, field): Address<'_>,
        op: &Op,
        ctx: &Ctx,
    ) -> (Reply, bool) {
        match (self.0.get_mut(part), field) {
            (Some(Part::One(slot)), _) => {
                let answer = record::carry_out(slot, op, ctx);
                if let Some(record) = slot {
                    record.modified = Timestamp::ZERO;
                }
                answer
            }
            (Some(Part::Map(elements)), Some(field)) => {
                let before = elements.take(field);
                let is_new = before.is_none();
                let mut slot = before.or_else(|| initial(&definition.parts[part]));
                let (reply, changed) = record::carry_out(&mut slot, op, ctx);
                // An element that is as it begins is none.
                if let Some(record) = slot.filter(|_| changed || !is_new) {
                    elements.put(field, untimed(record));
                }
                (reply, changed)
            }
            _ => (Reply::Nil, false),
        }
    }

    /// The record at an address, or what an absent element begins with.
    pub fn view(&self, definition: &Definition, at: Address<'_>) -> Option<Cow<'_, Record>> {
        match (self.get(at), at) {
            (Some(record), _) => Some(Cow::Borrowed(record)),
            (None, (_, None)) => None,
            (None, (part, Some(_))) => initial(&definition.parts[part]).map(Cow::Owned),
        }
    }

    /// Puts back what was at an address.
    pub fn restore(&mut self, (part, field): Address<'_>, record: Option<Record>) {
        match (self.0.get_mut(part), field) {
            (Some(Part::One(slot)), _) => *slot = record,
            (Some(Part::Map(elements)), Some(field)) => {
                elements.take(field);
                if let Some(record) = record {
                    elements.put(field, record);
                }
            }
            _ => {}
        }
    }

    /// The first moment at which something expires, of those after a moment if that is given.
    pub fn next_expiry_ms(&self, after_ms: Option<u64>) -> Option<u64> {
        let later = |at: &u64| after_ms.is_none_or(|after| *at > after);
        let next = self.0.iter().filter_map(|part| match part {
            Part::One(None) => None,
            Part::One(Some(record)) => {
                let own = record.expire_at_ms().filter(later);
                own.into_iter().chain(record.next_part_expiry_ms(after_ms)).min()
            }
            Part::Map(elements) => elements.next_deadline(after_ms),
        });
        next.min()
    }

    /// Whether something is left at a moment without what has expired by then.
    pub fn outlive(&self, now_ms: u64) -> bool {
        self.0.iter().any(|part| match part {
            Part::One(record) => record.as_ref().is_some_and(|record| record.is_live(now_ms)),
            Part::Map(elements) => {
                let mortal = elements.deadlines.len();
                mortal < elements.records.len()
                    || elements.deadlines.iter().any(|(_, field)| {
                        elements.records.get(field).is_some_and(|record| record.is_live(now_ms))
                    })
            }
        })
    }

    /// Removes what expired first, by a moment. Returns the part, and the field and the record if it was
    /// an element of a map; `None` if nothing has expired.
    pub fn expire_first(&mut self, now_ms: u64) -> Option<(usize, Option<(Blob, Record)>)> {
        let due = |part: &Part| match part {
            Part::One(record) => record.as_ref().and_then(deadline),
            Part::Map(elements) => elements.next_deadline(None),
        };
        let first = self.0.iter().map(due).enumerate();
        let first = first.filter_map(|(part, at)| Some((at.filter(|at| *at <= now_ms)?, part)));
        let (_, number) = first.min()?;
        match &mut self.0[number] {
            Part::One(slot) => {
                *slot = slot.take().and_then(|record| expired(record, now_ms).err());
                Some((number, None))
            }
            Part::Map(elements) => {
                let (_, field) = elements.deadlines.first()?.clone();
                let record = elements.take(&field)?;
                match expired(record, now_ms) {
                    Ok(record) => Some((number, Some((field, record)))),
                    Err(record) => {
                        elements.put(&field, record);
                        Some((number, None))
                    }
                }
            }
        }
    }

    /// Cost of a copy: see [`crate::Foresight`].
    pub fn cost(&self) -> usize {
        let cost = |record: &Record| record::copy_cost(record).unwrap_or(usize::MAX);
        self.0.iter().fold(1, |sum: usize, part| match part {
            Part::One(record) => sum.saturating_add(record.as_ref().map_or(0, cost)),
            Part::Map(elements) if elements.records.len() <= ELEMENTS_FEW => {
                elements.records.values().fold(sum, |sum, one| sum.saturating_add(1 + cost(one)))
            }
            // It is large in any case.
            Part::Map(elements) => sum.saturating_add(elements.records.len()),
        })
    }

    /// Writes all parts.
    pub fn save(&self, sink: &mut dyn ValueSink) {
        for part in &self.0 {
            match part {
                Part::One(None) => sink.number(0),
                Part::One(Some(record)) => {
                    sink.number(1);
                    save_record(record, sink);
                }
                Part::Map(elements) => {
                    sink.number(elements.records.len() as u64);
                    for (field, record) in &elements.records {
                        sink.bytes(field);
                        save_record(record, sink);
                    }
                }
            }
        }
    }

    /// Reads the parts of a value of a definition.
    pub fn load(definition: &Definition, source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let mut parts = Vec::with_capacity(definition.parts.len());
        for spec in &definition.parts {
            // A field and an expiry at least.
            let count = load_count(source, if spec.is_map { 2 } else { 1 })?;
            if spec.is_map {
                let mut elements = Elements::default();
                for _ in 0..count {
                    let field = Blob::new(source.bytes()?);
                    elements.put(&field, load_record(spec, source)?);
                }
                let whole = elements.records.len() == count;
                parts.push(Part::Map(whole.then_some(elements).ok_or(Corrupt)?));
            } else {
                parts.push(Part::One(match count {
                    0 => None,
                    1 => Some(load_record(spec, source)?),
                    _ => return Err(Corrupt),
                }));
            }
        }
        Ok(Self(parts))
    }
}

/// The record if it has expired, or what is left of it.
fn expired(record: Record, now_ms: u64) -> Result<Record, Record> {
    if record.expire_at_ms().is_some_and(|at| at <= now_ms) {
        return Ok(record);
    }
    record.clone().left_at(now_ms).map_or(Ok(record), Err)
}

fn save_record(record: &Record, sink: &mut dyn ValueSink) {
    sink.number(record.expire_at_ms().map_or(0, |at| at + 1));
    record.value.save(sink);
}

fn load_record(spec: &PartSpec, source: &mut dyn ValueSource) -> Result<Record, Corrupt> {
    let expiry = source.number()?.checked_sub(1);
    if expiry.is_some_and(|at| at > record::EXPIRE_AT_MS_MAX) {
        return Err(Corrupt);
    }
    Ok(Record::new(AnyValue::load(spec.kind.as_bytes(), source)?).expiring(expiry))
}
