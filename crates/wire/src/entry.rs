//! Log entries as bytes, version 1. `docs/internals/formats/log.md` has the layout.
//!
//! Operations are written as the words of a command that parses to the same operation, so that the
//! format does not know the data types. The log computes the checksum, which covers an entry
//! together with its index and term.

use crate::bytes::{Form, Reader, put_option, put_u16, put_u64};
use crate::peer::coordination::{get_command, put_command};
use crate::saved::{put_replies, read_replies};
use crate::snapshot::SnapshotFormat;
use crate::stream::{
    put_group, put_link, put_links, put_places, put_stream, read_group, read_link, read_links,
    read_stream,
};
use adt::command::condition::Expected;
use adt::command::database::DATABASES;
use adt::{ArgBuf, Args, Corrupt, Op, Timestamp, record};
use engine::cluster::level::Level;
use engine::entry::{Apply, Entry, EntryCodec, LogRecord, Prepare, SnapshotCodec, SnapshotPart};
use engine::ids::{Age, GatewayId, KeyedOp, MachineId, RequestId, ShardId, StreamId, TxnId};
use engine::limits::ENTRY_RECORDS_MAX;
use engine::message::{Condition, Fence, Guard, Remembered, Version};
use engine::pipeline::{Group, UnitPlace};
use smallvec::SmallVec;
use std::sync::Arc;

/// First byte of entries and of snapshot parts, which share the encodings of their common fields.
pub(crate) const VERSION: u8 = 1;
/// Most records that an entry of this version can hold, independent of the shards' own limit.
const RECORDS_MAX: usize = 1 << 17;
const _: () = assert!(4 * ENTRY_RECORDS_MAX < RECORDS_MAX);

const APPLY: u8 = 1;
const PREPARE: u8 = 2;
const COMMIT: u8 = 3;
const ABORT: u8 = 4;
const FLUSH: u8 = 5;
const RESOLVE: u8 = 6;
const VOID: u8 = 7;
const SPLIT: u8 = 8;
const PROPOSE: u8 = 9;
const SETTLE: u8 = 10;
const REFUSE: u8 = 11;
const FORGET: u8 = 12;
const PLACE: u8 = 13;
const CONTENT: u8 = 14;
const ORDERED: u8 = 15;
const PROMISE: u8 = 16;
const COORDINATE: u8 = 17;
const OUTLIVE: u8 = 18;
const ANSWERED: u8 = 19;
const FLUSH_DATABASE: u8 = 20;

const HAS_REQUEST: u8 = 1;
const HAS_GUARDS: u8 = 2;
const HAS_FENCES: u8 = 4;

/// Log entry format of this version of the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct EntryFormat;

impl EntryCodec for EntryFormat {
    fn encode_part(&self, part: &SnapshotPart, out: &mut Vec<u8>) {
        SnapshotFormat.encode(part, out);
    }

    /// # Panics
    /// If the entry has more than 131,072 records; shards close entries long before.
    fn encode(&self, entry: &Entry, _: Level, out: &mut Vec<u8>) {
        assert!(entry.records.len() <= RECORDS_MAX, "shards bound their entries");
        // There is one level so far, and one encoding.
        out.push(VERSION);
        put_u64(entry.now_ms, out);
        put_u64(entry.ts.0, out);
        put_u64(entry.seed, out);
        Form::Short.put_count(entry.records.len(), out);
        let mut words = Words { form: Form::Short, ..Words::default() };
        for record in &entry.records {
            put_record(record, &mut words, out);
        }
    }

    fn decode(&self, bytes: &[u8]) -> Result<Entry, Corrupt> {
        let mut reader = Reader::new(bytes);
        read_version(&mut reader)?;
        reader.set_form(Form::Short);
        let (now_ms, ts, seed) = (reader.u64()?, Timestamp(reader.u64()?), reader.u64()?);
        let count = reader.count(1)?;
        if count > RECORDS_MAX {
            return Err(Corrupt);
        }
        let mut spans = Vec::new();
        let mut records = Vec::new();
        for _ in 0..count {
            records.push(read_record(&mut reader, &mut spans)?);
        }
        reader.finish()?;
        Ok(Entry { now_ms, ts, seed, records })
    }
}

/// Reads the version byte, which applies to everything after it. Only one version exists.
pub(crate) fn read_version(reader: &mut Reader<'_>) -> Result<(), Corrupt> {
    match reader.u8()? {
        VERSION => Ok(()),
        _ => Err(Corrupt),
    }
}

fn put_record(record: &LogRecord, words: &mut Words, out: &mut Vec<u8>) {
    match record {
        LogRecord::Apply(apply) => {
            out.push(APPLY);
            let logged = if apply.request.is_some() { &apply.ops[..] } else { needed(&apply.ops) };
            put_apply(apply, logged, words, out);
        }
        LogRecord::Prepare(prepare) => {
            out.push(PREPARE);
            put_prepare(prepare, words, out);
        }
        LogRecord::Outcome { txn, commit: Some(ts) } => {
            out.push(COMMIT);
            put_txn_in(words.form, *txn, out);
            put_u64(ts.0, out);
        }
        LogRecord::Outcome { txn, commit: None } => {
            out.push(ABORT);
            put_txn_in(words.form, *txn, out);
        }
        LogRecord::Void(txn) => {
            out.push(VOID);
            put_txn_in(words.form, *txn, out);
        }
        LogRecord::Flush(None) => out.push(FLUSH),
        LogRecord::Flush(Some(database)) => out.extend([FLUSH_DATABASE, *database]),
        LogRecord::Resolve(request) => {
            out.push(RESOLVE);
            put_request_in(words.form, request, out);
        }
        LogRecord::Answered(remembered) => {
            out.push(ANSWERED);
            put_remembered(words.form, remembered, out);
        }
        LogRecord::Propose(group) => {
            out.push(PROPOSE);
            put_group(group, words, out);
        }
        LogRecord::Place { stream, units } => {
            out.push(PLACE);
            put_places(words.form, *stream, units, |place, out| put_u64(place.0, out), out);
        }
        LogRecord::Settle { stream, units } => {
            out.push(SETTLE);
            let put = |place: UnitPlace, out: &mut Vec<u8>| put_option(place.map(|ts| ts.0), out);
            put_places(words.form, *stream, units, put, out);
        }
        LogRecord::Refuse(stream) => {
            out.push(REFUSE);
            put_stream(words.form, *stream, out);
        }
        LogRecord::Forget(streams) | LogRecord::Outlive(streams) => {
            out.push(if matches!(record, LogRecord::Outlive(_)) { OUTLIVE } else { FORGET });
            words.form.put_count(streams.len(), out);
            streams.iter().for_each(|stream| put_stream(words.form, *stream, out));
        }
        LogRecord::Content(group) => {
            out.push(CONTENT);
            put_group(group, words, out);
        }
        LogRecord::Ordered { stream, link, before, .. } => {
            out.push(ORDERED);
            put_stream(words.form, *stream, out);
            put_link(words.form, link, out);
            put_links(words.form, before, out);
        }
        LogRecord::Promise { stream, shard, term } => {
            out.push(PROMISE);
            put_stream(words.form, *stream, out);
            put_u16(shard.0, out);
            put_u64(*term, out);
        }
        LogRecord::Coordinate(command) => {
            out.push(COORDINATE);
            put_command(words.form, command, out);
        }
        LogRecord::Split { child, first, at, last } => {
            out.push(SPLIT);
            [child.0, *first, *at, *last].into_iter().for_each(|number| put_u16(number, out));
        }
    }
}

fn read_record(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<LogRecord, Corrupt> {
    Ok(match reader.u8()? {
        APPLY => LogRecord::Apply(read_apply(reader, spans)?),
        PREPARE => LogRecord::Prepare(read_prepare(reader, spans)?),
        COMMIT => {
            let txn = read_txn(reader)?;
            LogRecord::Outcome { txn, commit: Some(Timestamp(reader.u64()?)) }
        }
        ABORT => LogRecord::Outcome { txn: read_txn(reader)?, commit: None },
        VOID => LogRecord::Void(read_txn(reader)?),
        FLUSH => LogRecord::Flush(None),
        FLUSH_DATABASE => {
            let database = reader.u8()?;
            if database >= DATABASES {
                return Err(Corrupt);
            }
            LogRecord::Flush(Some(database))
        }
        RESOLVE => LogRecord::Resolve(read_request(reader)?),
        ANSWERED => LogRecord::Answered(Box::new(read_remembered(reader)?)),
        SPLIT => LogRecord::Split {
            child: ShardId(reader.u16()?),
            first: reader.u16()?,
            at: reader.u16()?,
            last: reader.u16()?,
        },
        COORDINATE => LogRecord::Coordinate(Box::new(get_command(reader)?)),
        kind => return read_stream_record(kind, reader, spans),
    })
}

/// Reads a record about a pipeline over several shards.
fn read_stream_record(
    kind: u8,
    reader: &mut Reader<'_>,
    spans: &mut Spans,
) -> Result<LogRecord, Corrupt> {
    Ok(match kind {
        PROPOSE => LogRecord::Propose(Arc::new(read_group_of(false, reader, spans)?)),
        CONTENT => LogRecord::Content(Arc::new(read_group_of(true, reader, spans)?)),
        ORDERED => LogRecord::Ordered {
            stream: read_stream(reader)?,
            link: read_link(reader)?,
            before: read_links(reader)?,
            ops: Default::default(),
        },
        PROMISE => LogRecord::Promise {
            stream: read_stream(reader)?,
            shard: ShardId(reader.u16()?),
            term: reader.u64()?,
        },
        PLACE => {
            let (stream, mut units) = (read_stream(reader)?, Vec::new());
            for _ in 0..reader.count(12)? {
                units.push((reader.small_u32()?, Timestamp(reader.u64()?)));
            }
            LogRecord::Place { stream, units }
        }
        SETTLE => {
            let (stream, mut units) = (read_stream(reader)?, Vec::new());
            for _ in 0..reader.count(5)? {
                units.push((reader.small_u32()?, reader.option()?.map(Timestamp)));
            }
            LogRecord::Settle { stream, units }
        }
        REFUSE => LogRecord::Refuse(read_stream(reader)?),
        FORGET => LogRecord::Forget(read_streams(reader)?),
        OUTLIVE => LogRecord::Outlive(read_streams(reader)?),
        _ => return Err(Corrupt),
    })
}

/// Reads a group, chained or not.
fn read_group_of(
    chained: bool,
    reader: &mut Reader<'_>,
    spans: &mut Spans,
) -> Result<Group, Corrupt> {
    let group = read_group(reader, spans)?;
    if group.chained == chained { Ok(group) } else { Err(Corrupt) }
}

fn read_streams(reader: &mut Reader<'_>) -> Result<Vec<StreamId>, Corrupt> {
    let mut streams = Vec::new();
    for _ in 0..reader.count(11)? {
        streams.push(read_stream(reader)?);
    }
    Ok(streams)
}

/// Operations that other replicas need: all up to the last write. Earlier reads stay, because
/// random numbers are assigned by position.
fn needed(ops: &[KeyedOp]) -> &[KeyedOp] {
    let last_write = ops.iter().rposition(|(_, op)| op.is_write());
    &ops[..last_write.map_or(0, |i| i + 1)]
}

/// Encoder of records, with the words of one operation. Its memory is reused.
#[derive(Debug, Default)]
pub(crate) struct Words {
    form: Form,
    args: ArgBuf,
}

impl Words {
    /// Encoding of numbers.
    pub(crate) fn form(&self) -> Form {
        self.form
    }
}

/// Bounds of the words of one operation. The memory is reused.
pub(crate) type Spans = Vec<(u32, u32)>;

pub(crate) fn put_apply(apply: &Apply, ops: &[KeyedOp], words: &mut Words, out: &mut Vec<u8>) {
    let request = if apply.request.is_some() { HAS_REQUEST } else { 0 };
    let guards = if apply.guards.is_empty() { 0 } else { HAS_GUARDS };
    let fences = if apply.fences.is_empty() { 0 } else { HAS_FENCES };
    out.push(request | guards | fences);
    if let Some(request) = &apply.request {
        put_request_in(words.form, request, out);
    }
    if !apply.guards.is_empty() {
        words.form.put_count(apply.guards.len(), out);
        for guard in &apply.guards {
            words.form.put_word(&guard.key, out);
            put_condition(&guard.condition, words, out);
        }
    }
    if !apply.fences.is_empty() {
        words.form.put_count(apply.fences.len(), out);
        for fence in &apply.fences {
            words.form.put_word(&fence.lock, out);
            put_u64(fence.token, out);
        }
    }
    words.form.put_count(ops.len(), out);
    for (key, op) in ops {
        put_op(key, op, words, out);
    }
}

/// First byte of a condition on the reply of a read. A version begins with 0 or 1.
const REPLIES: u8 = 2;
/// First byte of a condition that the reply is another one.
const REPLIES_OTHER: u8 = 3;

pub(crate) fn put_record_version(version: Version, out: &mut Vec<u8>) {
    match version {
        Version::Changed(ts) => put_option(Some(ts.0), out),
        Version::Absent { term, removals } => {
            put_option(None, out);
            put_u64(term, out);
            put_u64(removals, out);
        }
    }
}

pub(crate) fn read_record_version(reader: &mut Reader<'_>) -> Result<Version, Corrupt> {
    Ok(match reader.option()? {
        Some(ts) => Version::Changed(Timestamp(ts)),
        None => Version::Absent { term: reader.u64()?, removals: reader.u64()? },
    })
}

fn put_condition(condition: &Condition, words: &mut Words, out: &mut Vec<u8>) {
    match condition {
        Condition::Unchanged(version) => put_record_version(*version, out),
        Condition::Replies(Expected { read, reply, equal }) => {
            out.push(if *equal { REPLIES } else { REPLIES_OTHER });
            words.form.put_word(reply, out);
            // The key is there already.
            put_op(b"", read, words, out);
        }
    }
}

fn read_guard(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Guard, Corrupt> {
    let key = reader.word()?.into();
    let condition = match reader.rest().first() {
        Some(&tag @ (REPLIES | REPLIES_OTHER)) => {
            reader.u8()?;
            let reply = reader.word()?.into();
            let (_, read) = read_op(reader, spans)?;
            if read.is_write() {
                return Err(Corrupt);
            }
            Condition::Replies(Expected { read, reply, equal: tag == REPLIES })
        }
        _ => Condition::Unchanged(read_record_version(reader)?),
    };
    Ok(Guard { key, condition })
}

pub(crate) fn read_apply(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Apply, Corrupt> {
    let flags = reader.u8()?;
    if flags & !(HAS_REQUEST | HAS_GUARDS | HAS_FENCES) != 0 {
        return Err(Corrupt);
    }
    let mut apply = Apply::default();
    if flags & HAS_REQUEST != 0 {
        apply.request = Some(read_request(reader)?);
    }
    if flags & HAS_GUARDS != 0 {
        for _ in 0..reader.count(5)? {
            apply.guards.push(read_guard(reader, spans)?);
        }
    }
    if flags & HAS_FENCES != 0 {
        for _ in 0..reader.count(9)? {
            let lock = reader.word()?.into();
            apply.fences.push(Fence { lock, token: reader.u64()? });
        }
    }
    for _ in 0..reader.count(4)? {
        apply.ops.push(read_op(reader, spans)?);
    }
    Ok(apply)
}

pub(crate) fn put_op(key: &[u8], op: &Op, words: &mut Words, out: &mut Vec<u8>) {
    let Words { form, args } = words;
    args.clear();
    op.encode(key, args);
    let args = args.args();
    form.put_count(args.len(), out);
    for word in args.iter_from(0) {
        form.put_word(word, out);
    }
}

pub(crate) fn read_op(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<KeyedOp, Corrupt> {
    let count = reader.count(4)?;
    let buffer = reader.rest();
    let offset = |reader: &Reader<'_>| u32::try_from(buffer.len() - reader.rest().len());
    spans.clear();
    for _ in 0..count {
        let len = reader.word()?.len() as u32;
        let end = offset(reader).map_err(|_| Corrupt)?;
        spans.push((end - len, end));
    }
    if spans.is_empty() {
        return Err(Corrupt);
    }
    record::decode(&Args::new(buffer, spans)).map_err(|_| Corrupt)
}

/// Writes a prepared transaction with all its operations: its reads block others until it is
/// decided, on every replica alike.
pub(crate) fn put_prepare(prepare: &Prepare, words: &mut Words, out: &mut Vec<u8>) {
    put_txn_in(words.form, prepare.txn, out);
    put_shards_in(words.form, &prepare.participants, out);
    put_apply(&prepare.apply, &prepare.apply.ops, words, out);
}

pub(crate) fn read_prepare(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Prepare, Corrupt> {
    let txn = read_txn(reader)?;
    let participants = read_shards(reader)?;
    let apply = read_apply(reader, spans)?;
    Ok(Prepare { txn, participants, apply })
}

pub(crate) fn put_shards(shards: &[ShardId], out: &mut Vec<u8>) {
    put_shards_in(Form::Wide, shards, out);
}

pub(crate) fn put_shards_in(form: Form, shards: &[ShardId], out: &mut Vec<u8>) {
    form.put_count(shards.len(), out);
    for shard in shards {
        form.put_u16(shard.0, out);
    }
}

pub(crate) fn read_shards(reader: &mut Reader<'_>) -> Result<SmallVec<[ShardId; 4]>, Corrupt> {
    let mut shards = SmallVec::new();
    for _ in 0..reader.count(2)? {
        shards.push(ShardId(reader.small_u16()?));
    }
    Ok(shards)
}

pub(crate) fn put_request(request: &RequestId, out: &mut Vec<u8>) {
    put_request_in(Form::Wide, request, out);
}

fn put_request_in(form: Form, request: &RequestId, out: &mut Vec<u8>) {
    form.put_word(&request.client, out);
    put_u64(request.number, out);
}

pub(crate) fn read_request(reader: &mut Reader<'_>) -> Result<RequestId, Corrupt> {
    Ok(RequestId { client: reader.word()?.into(), number: reader.u64()? })
}

pub(crate) fn put_remembered(form: Form, remembered: &Remembered, out: &mut Vec<u8>) {
    put_request_in(form, &remembered.request, out);
    // Numbers inside replies are always wide, whatever the form around them.
    let mut replies = Vec::new();
    put_replies(&remembered.replies, &mut replies);
    form.put_word(&replies, out);
}

pub(crate) fn read_remembered(reader: &mut Reader<'_>) -> Result<Remembered, Corrupt> {
    let request = read_request(reader)?;
    let mut inner = Reader::new(reader.word()?);
    let replies = read_replies(&mut inner)?;
    inner.finish()?;
    Ok(Remembered { request, replies })
}

pub(crate) fn put_txn(txn: TxnId, out: &mut Vec<u8>) {
    put_txn_in(Form::Wide, txn, out);
}

fn put_txn_in(form: Form, txn: TxnId, out: &mut Vec<u8>) {
    put_age_in(form, txn.age, out);
    form.put_u32(txn.attempt, out);
}

pub(crate) fn read_txn(reader: &mut Reader<'_>) -> Result<TxnId, Corrupt> {
    Ok(TxnId { age: read_age(reader)?, attempt: reader.small_u32()? })
}

pub(crate) fn put_age(age: Age, out: &mut Vec<u8>) {
    put_age_in(Form::Wide, age, out);
}

pub(crate) fn put_age_in(form: Form, age: Age, out: &mut Vec<u8>) {
    put_u64(age.began.0, out);
    put_gateway_in(form, age.gateway, out);
}

pub(crate) fn read_age(reader: &mut Reader<'_>) -> Result<Age, Corrupt> {
    Ok(Age { began: Timestamp(reader.u64()?), gateway: read_gateway(reader)? })
}

pub(crate) fn put_gateway(gateway: GatewayId, out: &mut Vec<u8>) {
    put_gateway_in(Form::Wide, gateway, out);
}

fn put_gateway_in(form: Form, gateway: GatewayId, out: &mut Vec<u8>) {
    form.put_u16(gateway.machine.0, out);
    form.put_u16(gateway.worker, out);
    form.put_u32(gateway.life, out);
}

pub(crate) fn read_gateway(reader: &mut Reader<'_>) -> Result<GatewayId, Corrupt> {
    let (machine, worker) = (MachineId(reader.small_u16()?), reader.small_u16()?);
    Ok(GatewayId { machine, worker, life: reader.small_u32()? })
}
