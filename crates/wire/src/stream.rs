//! Pipelines over several shards, as logs, snapshots and parcels hold them.

use crate::bytes::{Form, Reader, put_u64};
use crate::entry::{Spans, Words, put_age_in, put_op, read_age, read_op};
use crate::peer::coordination::{get_ask, put_ask};
use adt::{Corrupt, Timestamp};
use engine::coordination::Ask;
use engine::entry::KeptGroup;
use engine::ids::{ShardId, StreamId};
use engine::pipeline::{Group, Link, Unit};

const OPEN: u8 = 0;
const FAILED: u8 = 1;
const PLACED: u8 = 2;

pub(crate) fn put_stream(form: Form, stream: StreamId, out: &mut Vec<u8>) {
    put_age_in(form, stream.0, out);
}

pub(crate) fn read_stream(reader: &mut Reader<'_>) -> Result<StreamId, Corrupt> {
    Ok(StreamId(read_age(reader)?))
}

pub(crate) fn put_group(group: &Group, words: &mut Words, out: &mut Vec<u8>) {
    let form = words.form();
    put_stream(form, group.stream, out);
    form.put_u32(group.base, out);
    form.put_u32(group.fresh, out);
    put_homes(form, &group.homes, out);
    put_u64(group.floor.0, out);
    out.push(u8::from(group.chained));
    put_units(&group.units, words, out);
    out.push(u8::from(group.has_asks()));
    group.asks().for_each(|ask| put_ask(form, ask, out));
}

pub(crate) fn put_units(units: &[Unit], words: &mut Words, out: &mut Vec<u8>) {
    let form = words.form();
    form.put_count(units.len(), out);
    for unit in units {
        form.put_u32(unit.seq, out);
        form.put_count(unit.ops.len(), out);
        for (key, op) in &unit.ops {
            put_op(key, op, words, out);
        }
    }
}

pub(crate) fn read_group(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Group, Corrupt> {
    let stream = read_stream(reader)?;
    let (base, fresh) = (reader.small_u32()?, reader.small_u32()?);
    let (homes, floor) = (read_homes(reader)?, Timestamp(reader.u64()?));
    let chained = reader.flag()?;
    let mut units = read_units(reader, spans)?;
    if reader.flag()? {
        for unit in &mut units {
            unit.ask = Some(Box::new(read_ask(reader)?));
        }
    }
    Ok(Group { stream, base, fresh, homes, floor, chained, units })
}

pub(crate) fn read_units(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Vec<Unit>, Corrupt> {
    let mut units = Vec::new();
    for _ in 0..reader.count(8)? {
        let mut unit = Unit { seq: reader.small_u32()?, ..Unit::default() };
        for _ in 0..reader.count(4)? {
            unit.ops.push(read_op(reader, spans)?);
        }
        units.push(unit);
    }
    Ok(units)
}

/// Reads the request of a unit to the tree of the coordination service.
pub(crate) fn read_ask(reader: &mut Reader<'_>) -> Result<Ask, Corrupt> {
    let ask = get_ask(reader)?;
    if ask.may_be_unit() { Ok(ask) } else { Err(Corrupt) }
}

pub(crate) fn put_links(form: Form, links: &[Link], out: &mut Vec<u8>) {
    form.put_count(links.len(), out);
    links.iter().for_each(|link| put_link(form, link, out));
}

pub(crate) fn put_link(form: Form, link: &Link, out: &mut Vec<u8>) {
    form.put_u32(link.seq, out);
    put_u64(link.place.0, out);
    put_u64(link.term, out);
}

pub(crate) fn read_links(reader: &mut Reader<'_>) -> Result<Vec<Link>, Corrupt> {
    let mut links = Vec::new();
    for _ in 0..reader.count(17)? {
        links.push(read_link(reader)?);
    }
    Ok(links)
}

pub(crate) fn read_link(reader: &mut Reader<'_>) -> Result<Link, Corrupt> {
    let (seq, place) = (reader.small_u32()?, Timestamp(reader.u64()?));
    Ok(Link { seq, place, term: reader.u64()? })
}

/// Writes unit numbers, each followed by a value that `put` writes.
pub(crate) fn put_places<P: Copy>(
    form: Form,
    stream: StreamId,
    units: &[(u32, P)],
    put: impl Fn(P, &mut Vec<u8>),
    out: &mut Vec<u8>,
) {
    put_stream(form, stream, out);
    form.put_count(units.len(), out);
    for (seq, place) in units {
        form.put_u32(*seq, out);
        put(*place, out);
    }
}

pub(crate) fn put_homes(form: Form, homes: &[ShardId], out: &mut Vec<u8>) {
    form.put_count(homes.len(), out);
    homes.iter().for_each(|home| form.put_u16(home.0, out));
}

pub(crate) fn read_homes(reader: &mut Reader<'_>) -> Result<Vec<ShardId>, Corrupt> {
    let mut homes = Vec::new();
    for _ in 0..reader.count(2)? {
        homes.push(ShardId(reader.small_u16()?));
    }
    Ok(homes)
}

pub(crate) fn put_kept(group: &KeptGroup, out: &mut Vec<u8>) {
    let form = Form::Wide;
    form.put_u32(group.base, out);
    put_homes(form, &group.homes, out);
    put_u64(group.floor.0, out);
    put_u64(group.proposal.0, out);
    form.put_count(group.units.len(), out);
    for (seq, place) in &group.units {
        form.put_u32(*seq, out);
        match place {
            None => out.push(OPEN),
            Some(None) => out.push(FAILED),
            Some(Some(place)) => {
                out.push(PLACED);
                put_u64(place.0, out);
            }
        }
    }
}

pub(crate) fn read_kept(reader: &mut Reader<'_>) -> Result<KeptGroup, Corrupt> {
    let (base, homes) = (reader.u32()?, read_homes(reader)?);
    let (floor, proposal) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
    let mut units = Vec::new();
    for _ in 0..reader.count(5)? {
        let seq = reader.u32()?;
        units.push(match reader.u8()? {
            OPEN => (seq, None),
            FAILED => (seq, Some(None)),
            PLACED => (seq, Some(Some(Timestamp(reader.u64()?)))),
            _ => return Err(Corrupt),
        });
    }
    Ok(KeptGroup { base, homes, floor, proposal, units })
}
