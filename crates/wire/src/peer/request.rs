//! Requests of gateways to shards on other machines.

use super::coordination::{get_ask, put_ask};
use crate::bytes::{
    Form, Reader, put_count, put_option, put_optional_word, put_u16, put_u64, put_word,
};
use crate::entry::{
    Spans, Words, put_apply, put_op, put_prepare, put_remembered, put_request, put_txn, read_apply,
    read_op, read_prepare, read_remembered, read_request, read_txn,
};
use crate::stream::{put_group, put_homes, put_stream, read_group, read_homes, read_stream};
use adt::command::database::DATABASES;
use adt::command::scan::ScanArgs;
use adt::record::events::Classes;
use adt::{Blob, Corrupt, Op, Timestamp};
use engine::ids::{KeyedOp, MachineId};
use engine::limits::{DEADLOCK_NAMES_MAX, SCRIPTS_TOGETHER_MAX};
use engine::message::{Body, CutStep, Early, Following};
use engine::script::{ScriptInputs, ScriptOf, ScriptRun};
use std::sync::Arc;

const READ: u8 = 1;
const APPLY: u8 = 2;
const SNAPSHOT: u8 = 3;
const LOCK: u8 = 4;
const PREPARE: u8 = 5;
const DECIDE: u8 = 6;
const INQUIRE: u8 = 7;
const CANCEL: u8 = 8;
const RELEASE: u8 = 9;
const PROBE_ACK: u8 = 10;
const RECORD_VERSION: u8 = 11;
const BLOCK: u8 = 12;
const UNBLOCK: u8 = 13;
const SCAN: u8 = 14;
const KEYS: u8 = 15;
const COUNT: u8 = 16;
const RANDOM_KEY: u8 = 17;
const FLUSH: u8 = 18;
const RESOLVE: u8 = 19;
const STATS: u8 = 20;
const KEYS_IN_SLOT: u8 = 21;
const TRANSFER: u8 = 22;
const CUT: u8 = 23;
const PIPELINE: u8 = 24;
const END_STREAM: u8 = 25;
const COORDINATE: u8 = 26;
const AWAIT: u8 = 27;
const WAITING: u8 = 28;
const WAITS: u8 = 29;
const END_DEADLOCK: u8 = 30;
const HOLDERS: u8 = 31;
const REMEMBER: u8 = 32;
/// Before a question about a database other than 0, with its number.
const IN_DATABASE: u8 = 33;
const FLUSH_DATABASE: u8 = 34;
const RUN: u8 = 35;
const END_TURN: u8 = 36;
const FOLLOW: u8 = 37;
/// Bytes of a run without a text and words.
const RUN_BYTES_MIN: usize = 22;

const FREEZE: u8 = 1;
const RELEASE_CUT: u8 = 2;
const PIECE: u8 = 3;
const END: u8 = 4;

fn kind(body: &Body) -> u8 {
    match body {
        Body::Read { .. } => READ,
        Body::Apply(_) => APPLY,
        Body::Run(_) => RUN,
        Body::Snapshot { .. } => SNAPSHOT,
        Body::Lock { .. } => LOCK,
        Body::Prepare { .. } => PREPARE,
        Body::Decide { .. } => DECIDE,
        Body::Inquire { .. } => INQUIRE,
        Body::Cancel { .. } => CANCEL,
        Body::Release { .. } => RELEASE,
        Body::ProbeAck { .. } => PROBE_ACK,
        Body::Version { .. } => RECORD_VERSION,
        Body::Block { .. } => BLOCK,
        Body::Unblock => UNBLOCK,
        Body::Scan { .. } => SCAN,
        Body::Keys { .. } => KEYS,
        Body::Count { .. } => COUNT,
        Body::RandomKey { .. } => RANDOM_KEY,
        Body::Flush { database: None } => FLUSH,
        Body::Flush { database: Some(_) } => FLUSH_DATABASE,
        Body::Resolve(_) => RESOLVE,
        Body::Remember(_) => REMEMBER,
        Body::Stats => STATS,
        Body::Follow(_) => FOLLOW,
        Body::KeysInSlot { .. } => KEYS_IN_SLOT,
        Body::Transfer { .. } => TRANSFER,
        Body::Cut { .. } => CUT,
        Body::Pipeline(_) => PIPELINE,
        Body::Coordinate(_) => COORDINATE,
        Body::Await { .. } => AWAIT,
        Body::Waiting { .. } => WAITING,
        Body::Holders { .. } => HOLDERS,
        Body::Waits { .. } => WAITS,
        Body::EndDeadlock { .. } => END_DEADLOCK,
        Body::EndTurn => END_TURN,
        Body::EndStream { .. } => END_STREAM,
    }
}

/// Writes a request body with all its operations, because the shard answers each of them.
pub(super) fn put_body(body: &Body, words: &mut Words, out: &mut Vec<u8>) {
    if let Some(database) = database_of(body).filter(|database| *database != 0) {
        out.extend([IN_DATABASE, database]);
    }
    out.push(kind(body));
    match body {
        Body::Read { key, op, fenced } => {
            out.push(u8::from(*fenced));
            put_op(key, op, words, out);
        }
        Body::Apply(apply) => put_apply(apply, &apply.ops, words, out),
        Body::Run(runs) => {
            put_count(runs.len(), out);
            runs.iter().for_each(|run| put_run(run, out));
        }
        Body::Snapshot { ops, at, fenced, dated, as_of } => {
            debug_assert!(as_of.is_none(), "between machines timestamps are not comparable");
            put_u64(at.0, out);
            out.push(u8::from(*fenced));
            out.push(u8::from(*dated));
            put_count(ops.len(), out);
            for (key, op) in ops {
                put_op(key, op, words, out);
            }
        }
        Body::Lock { txn, key, op, own, early } => {
            put_txn(*txn, out);
            out.push(match early {
                Early::Deferred => 0,
                Early::Observed => 1,
                Early::Announced => 2,
            });
            put_op(key, op, words, out);
            put_count(own.len(), out);
            for op in own {
                put_op(key, op, words, out);
            }
        }
        Body::Prepare { prepare, floor } => {
            put_u64(floor.0, out);
            put_prepare(prepare, words, out);
        }
        Body::Decide { txn, commit } => {
            put_txn(*txn, out);
            put_option(commit.map(|ts| ts.0), out);
        }
        Body::Inquire { txn } | Body::Cancel { txn } | Body::ProbeAck { txn } => put_txn(*txn, out),
        Body::Release { txn, after } => {
            put_txn(*txn, out);
            put_u64(after.0, out);
        }
        Body::Await { apply, timeout_ms } => {
            put_u64(*timeout_ms, out);
            put_apply(apply, &apply.ops, words, out);
        }
        Body::Version { key: word }
        | Body::Waiting { key: word }
        | Body::Holders { key: word }
        | Body::EndDeadlock { description: word }
        | Body::Keys { pattern: word, .. } => put_word(word, out),
        Body::Block { keys, .. } | Body::Waits { names: keys } => {
            put_count(keys.len(), out);
            for key in keys {
                put_word(key, out);
            }
        }
        Body::Scan { scan, type_name, .. } => put_scan(scan, type_name.as_deref(), out),
        Body::Resolve(request) => put_request(request, out),
        Body::Remember(remembered) => put_remembered(Form::Wide, remembered, out),
        Body::Pipeline(group) => put_group(group, words, out),
        Body::EndStream { stream, shards } => {
            put_stream(Form::Wide, *stream, out);
            put_homes(Form::Wide, shards, out);
        }
        Body::Coordinate(ask) => put_ask(Form::Wide, ask, out),
        Body::Transfer { to } => put_u16(to.0, out),
        Body::Cut { cut, step } => {
            put_u64(*cut, out);
            put_step(*step, out);
        }
        Body::KeysInSlot { slot, count, .. } => {
            put_u16(*slot, out);
            put_u64(*count as u64, out);
        }
        Body::Flush { database } => out.extend(*database),
        Body::Follow(Following { keys, events }) => {
            out.push(u8::from(*keys));
            put_u16(events.bits(), out);
        }
        Body::Unblock
        | Body::EndTurn
        | Body::Count { .. }
        | Body::RandomKey { .. }
        | Body::Stats => {}
    }
}

pub(super) fn read_body(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Body, Corrupt> {
    Ok(match reader.u8()? {
        READ => {
            let fenced = reader.flag()?;
            let (key, op) = read_op(reader, spans)?;
            Body::Read { key, op, fenced }
        }
        APPLY => Body::Apply(read_apply(reader, spans)?),
        SNAPSHOT => {
            let (at, fenced, dated) = (Timestamp(reader.u64()?), reader.flag()?, reader.flag()?);
            Body::Snapshot { ops: read_ops(reader, spans)?, at, fenced, dated, as_of: None }
        }
        LOCK => {
            let txn = read_txn(reader)?;
            let early = match reader.u8()? {
                0 => Early::Deferred,
                1 => Early::Observed,
                2 => Early::Announced,
                _ => return Err(Corrupt),
            };
            let (key, op) = read_op(reader, spans)?;
            let own = read_own(&key, reader, spans)?;
            Body::Lock { txn, key, op, own, early }
        }
        PREPARE => {
            let floor = Timestamp(reader.u64()?);
            Body::Prepare { prepare: read_prepare(reader, spans)?, floor }
        }
        DECIDE => {
            let txn = read_txn(reader)?;
            Body::Decide { txn, commit: reader.option()?.map(Timestamp) }
        }
        INQUIRE => Body::Inquire { txn: read_txn(reader)? },
        CANCEL => Body::Cancel { txn: read_txn(reader)? },
        RELEASE => {
            let txn = read_txn(reader)?;
            Body::Release { txn, after: Timestamp(reader.u64()?) }
        }
        PROBE_ACK => Body::ProbeAck { txn: read_txn(reader)? },
        PIPELINE => Body::Pipeline(Arc::new(read_group(reader, spans)?)),
        AWAIT => {
            let timeout_ms = reader.u64()?;
            let apply = read_apply(reader, spans)?;
            // Only a section has several operations.
            match &apply.ops[..] {
                [_] => {}
                [(_, first), ..] if first.opens_section() => {}
                _ => return Err(Corrupt),
            }
            Body::Await { apply, timeout_ms }
        }
        COORDINATE => Body::Coordinate(Box::new(get_ask(reader)?)),
        END_STREAM => {
            let stream = read_stream(reader)?;
            Body::EndStream { stream, shards: read_homes(reader)? }
        }
        IN_DATABASE => {
            let database = reader.u8()?;
            let kind = reader.u8()?;
            if !(1..DATABASES).contains(&database) {
                return Err(Corrupt);
            }
            let body = read_body_of_keys(kind, database, reader)?;
            database_of(&body).map(|_| body).ok_or(Corrupt)?
        }
        kind => return read_body_of_keys(kind, 0, reader),
    })
}

/// Database that a question is about, if it is about one.
fn database_of(body: &Body) -> Option<u8> {
    match body {
        Body::Scan { database, .. }
        | Body::Keys { database, .. }
        | Body::Count { database }
        | Body::RandomKey { database }
        | Body::KeysInSlot { database, .. } => Some(*database),
        _ => None,
    }
}

/// Reads a body that holds keys instead of operations, or is about the keys of a database.
fn read_body_of_keys(kind: u8, database: u8, reader: &mut Reader<'_>) -> Result<Body, Corrupt> {
    Ok(match kind {
        RECORD_VERSION => Body::Version { key: reader.word()?.into() },
        BLOCK => {
            let keys = read_words(reader)?;
            Body::Block { keys, takes: None }
        }
        UNBLOCK => Body::Unblock,
        WAITS => Body::Waits { names: read_names(reader)? },
        END_DEADLOCK => Body::EndDeadlock { description: reader.word()?.into() },
        END_TURN => Body::EndTurn,
        WAITING => Body::Waiting { key: reader.word()?.into() },
        HOLDERS => Body::Holders { key: reader.word()?.into() },
        SCAN => {
            let (cursor, pattern) = (reader.u64()?, reader.optional_word()?.map(Blob::from));
            let scan = ScanArgs { cursor, pattern, count: reader.u64()? };
            Body::Scan { database, scan, type_name: reader.optional_word()?.map(Blob::from) }
        }
        KEYS => Body::Keys { database, pattern: reader.word()?.into() },
        COUNT => Body::Count { database },
        RANDOM_KEY => Body::RandomKey { database },
        FLUSH => Body::Flush { database: None },
        FLUSH_DATABASE => {
            let database = reader.u8()?;
            if database >= DATABASES {
                return Err(Corrupt);
            }
            Body::Flush { database: Some(database) }
        }
        RUN => {
            let count = reader.count(RUN_BYTES_MIN)?;
            if !(1..=SCRIPTS_TOGETHER_MAX).contains(&count) {
                return Err(Corrupt);
            }
            Body::Run((0..count).map(|_| read_run(reader)).collect::<Result<_, _>>()?)
        }
        RESOLVE => Body::Resolve(read_request(reader)?),
        REMEMBER => Body::Remember(Box::new(read_remembered(reader)?)),
        STATS => Body::Stats,
        FOLLOW => {
            let (keys, events) = (reader.flag()?, reader.u16()?);
            let events = Classes::from_bits(events).ok_or(Corrupt)?;
            Body::Follow(Following { keys, events })
        }
        CUT => Body::Cut { cut: reader.u64()?, step: read_step(reader)? },
        TRANSFER => Body::Transfer { to: MachineId(reader.u16()?) },
        KEYS_IN_SLOT => {
            let slot = reader.u16()?;
            let count = usize::try_from(reader.u64()?).map_err(|_| Corrupt)?;
            Body::KeysInSlot { database, slot, count }
        }
        _ => return Err(Corrupt),
    })
}

fn put_run(run: &ScriptRun, out: &mut Vec<u8>) {
    out.push(u8::from(run.only_reads));
    out.push(run.database);
    [run.slots.0, run.slots.1].iter().for_each(|slot| out.extend(slot.to_le_bytes()));
    put_word(run.script.text(), out);
    for words in [&run.inputs.keys, &run.inputs.args, &run.also] {
        put_count(words.len(), out);
        words.iter().for_each(|word| put_word(word, out));
    }
}

fn read_run(reader: &mut Reader<'_>) -> Result<ScriptRun, Corrupt> {
    let (only_reads, database) = (reader.flag()?, reader.u8()?);
    if database >= DATABASES {
        return Err(Corrupt);
    }
    let slots = (reader.u16()?, reader.u16()?);
    let script = ScriptOf::Text(reader.word()?.into());
    let keys = read_words(reader)?;
    let args = read_words(reader)?;
    let also = read_words(reader)?;
    let inputs = Arc::new(ScriptInputs { keys, args });
    Ok(ScriptRun { script, inputs, only_reads, database, slots, also })
}

fn read_words(reader: &mut Reader<'_>) -> Result<Vec<Blob>, Corrupt> {
    (0..reader.count(4)?).map(|_| Ok(reader.word()?.into())).collect()
}

fn read_names(reader: &mut Reader<'_>) -> Result<Vec<Blob>, Corrupt> {
    let count = reader.count(4)?;
    if count > DEADLOCK_NAMES_MAX {
        return Err(Corrupt);
    }
    (0..count).map(|_| Ok(reader.word()?.into())).collect()
}

fn put_step(step: CutStep, out: &mut Vec<u8>) {
    match step {
        CutStep::Freeze => out.push(FREEZE),
        CutStep::Release => out.push(RELEASE_CUT),
        CutStep::Piece(piece) => {
            out.push(PIECE);
            put_u64(piece, out);
        }
        CutStep::End => out.push(END),
    }
}

fn read_step(reader: &mut Reader<'_>) -> Result<CutStep, Corrupt> {
    Ok(match reader.u8()? {
        FREEZE => CutStep::Freeze,
        RELEASE_CUT => CutStep::Release,
        PIECE => CutStep::Piece(reader.u64()?),
        END => CutStep::End,
        _ => return Err(Corrupt),
    })
}

fn put_scan(scan: &ScanArgs, type_name: Option<&[u8]>, out: &mut Vec<u8>) {
    let ScanArgs { cursor, pattern, count } = scan;
    put_u64(*cursor, out);
    put_optional_word(pattern.as_deref(), out);
    put_u64(*count, out);
    put_optional_word(type_name, out);
}

fn read_ops(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Vec<KeyedOp>, Corrupt> {
    let mut ops = Vec::new();
    for _ in 0..reader.count(4)? {
        ops.push(read_op(reader, spans)?);
    }
    Ok(ops)
}

/// Reads operations, all of which must be on `key`.
fn read_own(key: &Blob, reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Vec<Op>, Corrupt> {
    let mut own = Vec::new();
    for _ in 0..reader.count(4)? {
        let (found, op) = read_op(reader, spans)?;
        if found != *key {
            return Err(Corrupt);
        }
        own.push(op);
    }
    Ok(own)
}
