//! Records and replies as snapshots hold them.

use crate::bytes::{Reader, put_count, put_option, put_u64, put_word};
use adt::record::EXPIRE_AT_MS_MAX;
use adt::{Blob, Corrupt, ErrorReply, Record, Reply, Timestamp, Value, ValueSink, ValueSource};

/// Deepest nesting of replies that is read back.
const DEPTH_MAX: usize = 32;

const OK: u8 = 1;
const STATUS: u8 = 2;
const NIL: u8 = 3;
const NIL_ARRAY: u8 = 4;
const INT: u8 = 5;
const DOUBLE: u8 = 6;
const BOOL: u8 = 7;
const BULK: u8 = 8;
const TEXT: u8 = 9;
const ARRAY: u8 = 10;
const SET: u8 = 11;
const MAP: u8 = 12;
const SCORED: u8 = 13;
const PUSH: u8 = 14;
const ERROR: u8 = 15;
const RECORD: u8 = 16;
const PAIRS: u8 = 17;
const NAMED: u8 = 18;

/// Writer of a value's parts: numbers as eight bytes, byte strings behind their length.
struct Sink<'a>(&'a mut Vec<u8>);

impl ValueSink for Sink<'_> {
    fn bytes(&mut self, bytes: &[u8]) {
        put_word(bytes, self.0);
    }
    fn number(&mut self, number: u64) {
        put_u64(number, self.0);
    }
}

struct Source<'a>(Reader<'a>);

impl ValueSource for Source<'_> {
    fn bytes(&mut self) -> Result<&[u8], Corrupt> {
        self.0.word()
    }
    fn number(&mut self) -> Result<u64, Corrupt> {
        self.0.u64()
    }
    fn remaining(&self) -> usize {
        // The shortest part is an empty byte string.
        self.0.rest().len() / 4
    }
}

/// Writes the time of the last change, the expiry, the type, then the length in bytes of the
/// value's parts and the parts.
pub(crate) fn put_record(record: &Record, out: &mut Vec<u8>) {
    put_u64(record.modified.0, out);
    put_option(record.expire_at_ms(), out);
    put_word(record.value.type_name().as_bytes(), out);
    let len = out.len();
    put_u64(0, out);
    record.value.save(&mut Sink(out));
    let parts = (out.len() - len - 8) as u64;
    out[len..len + 8].copy_from_slice(&parts.to_le_bytes());
}

pub(crate) fn read_record(reader: &mut Reader<'_>) -> Result<Record, Corrupt> {
    let modified = Timestamp(reader.u64()?);
    let expire_at_ms: Option<u64> = reader.option()?;
    if expire_at_ms.is_some_and(|at| at > EXPIRE_AT_MS_MAX) {
        return Err(Corrupt);
    }
    let type_name = reader.word()?;
    let len = usize::try_from(reader.u64()?).map_err(|_| Corrupt)?;
    let mut source = Source(Reader::new(reader.take(len)?));
    let value = Value::load(type_name, &mut source)?;
    source.0.finish()?;
    let mut record = Record::new(value).expiring(expire_at_ms);
    record.modified = modified;
    Ok(record)
}

pub(crate) fn put_reply(reply: &Reply, out: &mut Vec<u8>) {
    match reply {
        Reply::Ok => out.push(OK),
        Reply::Nil => out.push(NIL),
        Reply::NilArray => out.push(NIL_ARRAY),
        Reply::Status(text) => put_bytes(STATUS, text.as_bytes(), out),
        Reply::Bulk(bytes) => put_bytes(BULK, bytes, out),
        Reply::Text(text) => put_bytes(TEXT, text.as_bytes(), out),
        Reply::Int(value) => put_number(INT, *value as u64, out),
        Reply::Double(value) => put_number(DOUBLE, value.to_bits(), out),
        Reply::Bool(value) => out.extend_from_slice(&[BOOL, u8::from(*value)]),
        Reply::Array(items) => put_items(ARRAY, items, out),
        Reply::Set(items) => put_items(SET, items, out),
        Reply::Push(items) => put_items(PUSH, items, out),
        Reply::Map(pairs) => {
            out.push(MAP);
            put_count(pairs.len(), out);
            for (key, value) in pairs {
                put_reply(key, out);
                put_reply(value, out);
            }
        }
        Reply::Scored(members) => {
            out.push(SCORED);
            put_count(members.len(), out);
            for (member, score) in members {
                put_word(member, out);
                put_u64(score.to_bits(), out);
            }
        }
        Reply::Pairs(pairs) => {
            out.push(PAIRS);
            put_count(pairs.len(), out);
            for (field, value) in pairs {
                put_word(field, out);
                put_word(value, out);
            }
        }
        Reply::Named(pairs) => {
            out.push(NAMED);
            put_count(pairs.len(), out);
            for (name, value) in pairs {
                put_word(name, out);
                put_reply(value, out);
            }
        }
        Reply::Error(error) => {
            put_bytes(ERROR, error.code().as_bytes(), out);
            put_word(error.text().as_bytes(), out);
        }
        Reply::Record(record) => {
            out.push(RECORD);
            put_record(record, out);
        }
    }
}

fn put_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    put_word(bytes, out);
}

fn put_number(kind: u8, number: u64, out: &mut Vec<u8>) {
    out.push(kind);
    put_u64(number, out);
}

fn put_items(kind: u8, items: &[Reply], out: &mut Vec<u8>) {
    out.push(kind);
    put_count(items.len(), out);
    for item in items {
        put_reply(item, out);
    }
}

pub(crate) fn read_reply(reader: &mut Reader<'_>, depth: usize) -> Result<Reply, Corrupt> {
    if depth > DEPTH_MAX {
        return Err(Corrupt);
    }
    let depth = depth + 1;
    Ok(match reader.u8()? {
        OK => Reply::Ok,
        NIL => Reply::Nil,
        NIL_ARRAY => Reply::NilArray,
        STATUS => Reply::status(reader.text()?.to_owned()),
        BULK => Reply::Bulk(reader.word()?.into()),
        TEXT => Reply::Text(reader.text()?.to_owned()),
        INT => Reply::Int(reader.u64()? as i64),
        DOUBLE => Reply::Double(f64::from_bits(reader.u64()?)),
        BOOL => Reply::Bool(reader.flag()?),
        ARRAY => Reply::Array(read_items(reader, depth)?),
        SET => Reply::Set(read_items(reader, depth)?),
        PUSH => Reply::Push(read_items(reader, depth)?),
        MAP => {
            let mut pairs = Vec::new();
            for _ in 0..reader.count(2)? {
                pairs.push((read_reply(reader, depth)?, read_reply(reader, depth)?));
            }
            Reply::Map(pairs)
        }
        SCORED => {
            let mut members = Vec::new();
            for _ in 0..reader.count(12)? {
                let member: Blob = reader.word()?.into();
                members.push((member, f64::from_bits(reader.u64()?)));
            }
            Reply::Scored(members)
        }
        PAIRS => {
            let mut pairs = Vec::new();
            for _ in 0..reader.count(8)? {
                pairs.push((reader.word()?.into(), reader.word()?.into()));
            }
            Reply::Pairs(pairs)
        }
        NAMED => {
            let mut pairs = Vec::new();
            for _ in 0..reader.count(5)? {
                pairs.push((reader.word()?.into(), read_reply(reader, depth)?));
            }
            Reply::Named(pairs)
        }
        ERROR => {
            let code = reader.text()?.to_owned();
            Reply::Error(ErrorReply::new(code, reader.text()?.to_owned()))
        }
        RECORD => Reply::Record(Box::new(read_record(reader)?)),
        _ => return Err(Corrupt),
    })
}

pub(crate) fn put_replies(replies: &[Reply], out: &mut Vec<u8>) {
    put_count(replies.len(), out);
    for reply in replies {
        put_reply(reply, out);
    }
}

pub(crate) fn read_replies<C: Default + Extend<Reply>>(
    reader: &mut Reader<'_>,
) -> Result<C, Corrupt> {
    let mut replies = C::default();
    for _ in 0..reader.count(1)? {
        replies.extend([read_reply(reader, 0)?]);
    }
    Ok(replies)
}

fn read_items(reader: &mut Reader<'_>, depth: usize) -> Result<Vec<Reply>, Corrupt> {
    let mut items = Vec::new();
    for _ in 0..reader.count(1)? {
        items.push(read_reply(reader, depth)?);
    }
    Ok(items)
}
