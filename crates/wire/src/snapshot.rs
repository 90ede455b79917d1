//! Snapshot parts as bytes, version 1. `docs/internals/formats/snapshots.md` has the layout.
//!
//! Every part stands alone in a frame with its length and a CRC-32 (IEEE) of length and payload, so
//! that a snapshot can be written, sent and checked in pieces of any size.

use crate::bytes::{Form, Reader, put_count, put_option, put_u16, put_u32, put_u64, put_word};
use crate::coordination::{
    get_changes, get_identities, get_joint, get_node, get_password, get_session, get_zxid,
    put_changes, put_identities, put_joint, put_node, put_session, put_zxid,
};
use crate::entry::{
    VERSION, Words, put_gateway, put_prepare, put_request, put_shards, put_txn, read_gateway,
    read_prepare, read_request, read_shards, read_txn, read_version,
};
use crate::peer::coordination::put_ask;
use crate::saved::{put_record, put_replies, read_record, read_replies};
use crate::stream::{
    put_kept, put_links, put_stream, put_units, read_ask, read_kept, read_links, read_stream,
    read_units,
};
use adt::{Corrupt, Timestamp};
use engine::cluster::members::Members;
use engine::coordination::Zxid;
use engine::coordination::service::{Joint, JointState, Prepared as PreparedPart, SessionState};
use engine::coordination::spread::Spread;
use engine::entry::{Dropped, RequestOutcome, SnapshotCodec, SnapshotPart, TookEffect};
use engine::ids::{MachineId, ShardId};

/// Bytes before the payload: its length and the checksum.
pub const FRAME_HEADER_BYTES: usize = 12;

const HEADER: u8 = 1;
const RECORD: u8 = 2;
const PREPARED: u8 = 3;
const REQUEST: u8 = 4;
const OUTCOME: u8 = 5;
const END: u8 = 6;
const VOID: u8 = 7;
const UNSETTLED: u8 = 8;
const MEMBERS: u8 = 9;
const SLOTS: u8 = 10;
const STREAM: u8 = 11;
const CHAIN: u8 = 12;
const COORDINATION: u8 = 13;
const SESSION: u8 = 14;
const NODE: u8 = 15;
const FENCE: u8 = 16;
const FENCE_FLOOR: u8 = 17;
const OUTLIVED: u8 = 18;
const SPREAD: u8 = 19;
const ASKED: u8 = 20;
const JOINT: u8 = 21;

/// The snapshot format of this version of the product.
#[derive(Clone, Copy, Debug, Default)]
pub struct SnapshotFormat;

/// Length in bytes of the part at the start of `bytes`, frame included, as its first eight bytes
/// declare it; `None` if they are incomplete or the length is impossible. For readers that have to
/// know how much to read. Only [`SnapshotCodec::decode`] verifies the length.
pub fn part_len(bytes: &[u8]) -> Option<u64> {
    let (len, _) = bytes.split_first_chunk()?;
    u64::from_le_bytes(*len).checked_add(FRAME_HEADER_BYTES as u64)
}

impl SnapshotCodec for SnapshotFormat {
    fn next(&self, bytes: &[u8]) -> Result<Option<(SnapshotPart, usize)>, Corrupt> {
        let is_there = |len| len <= bytes.len() as u64;
        if part_len(bytes).is_some_and(is_there) { self.decode(bytes).map(Some) } else { Ok(None) }
    }

    fn encode(&self, part: &SnapshotPart, out: &mut Vec<u8>) {
        let frame = out.len();
        out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
        put_part(part, out);
        let len = (out.len() - frame - FRAME_HEADER_BYTES) as u64;
        let (header, payload) = out[frame..].split_at_mut(FRAME_HEADER_BYTES);
        header[..8].copy_from_slice(&len.to_le_bytes());
        header[8..].copy_from_slice(&checksum(len, payload).to_le_bytes());
    }

    fn decode(&self, bytes: &[u8]) -> Result<(SnapshotPart, usize), Corrupt> {
        let mut frame = Reader::new(bytes);
        let (len, crc) = (frame.u64()?, frame.u32()?);
        let payload = frame.take(usize::try_from(len).map_err(|_| Corrupt)?)?;
        if checksum(len, payload) != crc {
            return Err(Corrupt);
        }
        let mut reader = Reader::new(payload);
        let part = read_part(&mut reader)?;
        reader.finish()?;
        Ok((part, FRAME_HEADER_BYTES + payload.len()))
    }
}

pub(crate) fn checksum(len: u64, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&len.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

fn put_part(part: &SnapshotPart, out: &mut Vec<u8>) {
    out.push(VERSION);
    match part {
        SnapshotPart::Header { shard, index, term, clock, removed } => {
            out.push(HEADER);
            put_u16(shard.0, out);
            for number in [*index, *term, clock.0, removed.0] {
                put_u64(number, out);
            }
        }
        SnapshotPart::Members(members) => {
            out.push(MEMBERS);
            put_members(members, out);
        }
        SnapshotPart::Slots { splits, first, last } => {
            out.push(SLOTS);
            [*splits, *first, *last].into_iter().for_each(|number| put_u16(number, out));
        }
        SnapshotPart::Record(key, record) => {
            out.push(RECORD);
            put_word(key, out);
            put_record(record, out);
        }
        SnapshotPart::Prepared { prepare, bound, commit } => {
            out.push(PREPARED);
            put_u64(bound.0, out);
            put_option(commit.map(|ts| ts.0), out);
            put_prepare(prepare, &mut Words::default(), out);
        }
        SnapshotPart::Request { request, outcome } => {
            out.push(REQUEST);
            put_request(request, out);
            put_outcome(outcome, out);
        }
        SnapshotPart::Outcome { txn, commit } => {
            out.push(OUTCOME);
            put_txn(*txn, out);
            put_u64(commit.0, out);
        }
        SnapshotPart::Void(txn) => {
            out.push(VOID);
            put_txn(*txn, out);
        }
        SnapshotPart::Stream { stream, refused, groups } => {
            out.push(STREAM);
            put_stream(Form::Wide, *stream, out);
            out.push(u8::from(*refused));
            put_count(groups.len(), out);
            groups.iter().for_each(|group| put_kept(group, out));
        }
        SnapshotPart::Chain { stream, links, promises, contents } => {
            out.push(CHAIN);
            put_stream(Form::Wide, *stream, out);
            put_links(Form::Wide, links, out);
            put_count(promises.len(), out);
            for (shard, term) in promises {
                put_u16(shard.0, out);
                put_u64(*term, out);
            }
            put_units(contents, &mut Words::default(), out);
        }
        SnapshotPart::Outlived { gateway, began } => {
            out.push(OUTLIVED);
            put_gateway(*gateway, out);
            put_u64(began.0, out);
        }
        SnapshotPart::Fence { lock, token } => {
            out.push(FENCE);
            put_word(lock, out);
            put_u64(*token, out);
        }
        SnapshotPart::FenceFloor(floor) => {
            out.push(FENCE_FLOOR);
            put_u64(*floor, out);
        }
        SnapshotPart::Coordination { last } => {
            out.push(COORDINATION);
            put_zxid(*last, out);
        }
        SnapshotPart::Spread { over, departed } => {
            out.push(SPREAD);
            put_u16(over.count(), out);
            put_zxid(*departed, out);
        }
        SnapshotPart::Session { session, kept, ending } => {
            out.push(SESSION);
            put_session(*session, out);
            put_kept_session(kept, *ending, out);
        }
        SnapshotPart::Asked { unit, ask } => {
            out.push(ASKED);
            put_txn(*unit, out);
            put_ask(Form::Wide, ask, out);
        }
        SnapshotPart::Joint { session, joint } => {
            out.push(JOINT);
            put_session(*session, out);
            put_fate(joint, out);
        }
        SnapshotPart::Node(path, node) => {
            out.push(NODE);
            put_word(path, out);
            put_node(node, out);
        }
        SnapshotPart::Unsettled { txn, commit } => {
            out.push(UNSETTLED);
            put_txn(*txn, out);
            put_option(commit.map(|ts| ts.0), out);
        }
        SnapshotPart::End { parts } => {
            out.push(END);
            put_u64(*parts, out);
        }
    }
}

fn read_part(reader: &mut Reader<'_>) -> Result<SnapshotPart, Corrupt> {
    read_version(reader)?;
    Ok(match reader.u8()? {
        HEADER => SnapshotPart::Header {
            shard: ShardId(reader.u16()?),
            index: reader.u64()?,
            term: reader.u64()?,
            clock: Timestamp(reader.u64()?),
            removed: Timestamp(reader.u64()?),
        },
        RECORD => SnapshotPart::Record(reader.word()?.into(), read_record(reader)?),
        PREPARED => {
            let bound = Timestamp(reader.u64()?);
            let commit = reader.option()?.map(Timestamp);
            let prepare = read_prepare(reader, &mut Vec::new())?;
            SnapshotPart::Prepared { prepare, bound, commit }
        }
        REQUEST => {
            let request = read_request(reader)?;
            SnapshotPart::Request { request, outcome: read_outcome(reader)? }
        }
        OUTCOME => {
            let txn = read_txn(reader)?;
            SnapshotPart::Outcome { txn, commit: Timestamp(reader.u64()?) }
        }
        VOID => SnapshotPart::Void(read_txn(reader)?),
        MEMBERS => SnapshotPart::Members(read_members(reader)?),
        SLOTS => {
            SnapshotPart::Slots { splits: reader.u16()?, first: reader.u16()?, last: reader.u16()? }
        }
        UNSETTLED => {
            let txn = read_txn(reader)?;
            SnapshotPart::Unsettled { txn, commit: reader.option()?.map(Timestamp) }
        }
        STREAM => {
            let (stream, refused) = (read_stream(reader)?, reader.flag()?);
            let mut groups = Vec::new();
            for _ in 0..reader.count(29)? {
                groups.push(read_kept(reader)?);
            }
            SnapshotPart::Stream { stream, refused, groups }
        }
        CHAIN => {
            let (stream, links) = (read_stream(reader)?, read_links(reader)?);
            let mut promises = Vec::new();
            for _ in 0..reader.count(10)? {
                promises.push((ShardId(reader.u16()?), reader.u64()?));
            }
            let contents = read_units(reader, &mut Vec::new())?;
            SnapshotPart::Chain { stream, links, promises, contents }
        }
        OUTLIVED => {
            let gateway = read_gateway(reader)?;
            SnapshotPart::Outlived { gateway, began: Timestamp(reader.u64()?) }
        }
        FENCE => {
            let lock = reader.word()?.into();
            SnapshotPart::Fence { lock, token: reader.u64()? }
        }
        FENCE_FLOOR => SnapshotPart::FenceFloor(reader.u64()?),
        COORDINATION => SnapshotPart::Coordination { last: get_zxid(reader)? },
        SESSION => read_kept_session(reader)?,
        SPREAD => {
            let over = Spread::over(reader.u16()?);
            SnapshotPart::Spread { over, departed: get_zxid(reader)? }
        }
        ASKED => {
            let unit = read_txn(reader)?;
            SnapshotPart::Asked { unit, ask: Box::new(read_ask(reader)?) }
        }
        JOINT => {
            let session = get_session(reader)?;
            SnapshotPart::Joint { session, joint: Box::new(read_fate(reader)?) }
        }
        NODE => SnapshotPart::Node(reader.word()?.into(), Box::new(get_node(reader)?)),
        END => SnapshotPart::End { parts: reader.u64()? },
        _ => return Err(Corrupt),
    })
}

/// Outcomes of a request, as bytes.
const TOOK_EFFECT: u8 = 1;
const NEVER: u8 = 2;
const FORGOTTEN: u8 = 3;

/// Whether the replies of a request are kept, and if not why, as bytes.
const KEPT: u8 = 0;
const TOO_LONG: u8 = 1;
const FOR_ROOM: u8 = 2;

fn put_outcome(outcome: &RequestOutcome, out: &mut Vec<u8>) {
    put_u64(outcome.ts().0, out);
    match outcome {
        RequestOutcome::TookEffect(TookEffect { replies, whole, dropped, .. }) => {
            let dropped = match dropped {
                None => KEPT,
                Some(Dropped::TooLong) => TOO_LONG,
                Some(Dropped::ForRoom) => FOR_ROOM,
            };
            out.extend([TOOK_EFFECT, u8::from(*whole), dropped]);
            put_replies(replies, out);
        }
        RequestOutcome::Void(_) => out.push(NEVER),
        RequestOutcome::Forgotten(_) => out.push(FORGOTTEN),
    }
}

fn read_outcome(reader: &mut Reader<'_>) -> Result<RequestOutcome, Corrupt> {
    let ts = Timestamp(reader.u64()?);
    Ok(match reader.u8()? {
        TOOK_EFFECT => {
            let whole = reader.flag()?;
            let dropped = match reader.u8()? {
                KEPT => None,
                TOO_LONG => Some(Dropped::TooLong),
                FOR_ROOM => Some(Dropped::ForRoom),
                _ => return Err(Corrupt),
            };
            let replies = read_replies(reader)?;
            RequestOutcome::TookEffect(TookEffect { ts, replies, whole, dropped })
        }
        NEVER => RequestOutcome::Void(ts),
        FORGOTTEN => RequestOutcome::Forgotten(ts),
        _ => return Err(Corrupt),
    })
}

/// States of a joint `multi`, as bytes.
const PREPARED_HERE: u8 = 1;
const COMMITTED: u8 = 2;
const VOIDED: u8 = 3;

fn put_fate(joint: &Joint, out: &mut Vec<u8>) {
    put_joint(joint.id, out);
    match &joint.fate {
        JointState::Prepared(prepared) => {
            let PreparedPart { shards, changes, identities, sound } = &**prepared;
            out.push(PREPARED_HERE);
            put_shards(shards, out);
            put_changes(Form::Wide, changes, out);
            put_identities(Form::Wide, identities, out);
            out.push(u8::from(*sound));
        }
        JointState::Committed => out.push(COMMITTED),
        JointState::Void => out.push(VOIDED),
    }
}

fn read_fate(reader: &mut Reader<'_>) -> Result<Joint, Corrupt> {
    let id = get_joint(reader)?;
    let fate = match reader.u8()? {
        PREPARED_HERE => JointState::Prepared(Box::new(PreparedPart {
            shards: read_shards(reader)?.into_vec(),
            changes: get_changes(reader)?,
            identities: get_identities(reader)?,
            sound: reader.flag()?,
        })),
        COMMITTED => JointState::Committed,
        VOIDED => JointState::Void,
        _ => return Err(Corrupt),
    };
    Ok(Joint { id, fate })
}

fn put_kept_session(kept: &SessionState, ending: Option<(Zxid, bool)>, out: &mut Vec<u8>) {
    put_u32(kept.timeout_ms as u32, out);
    out.extend_from_slice(&kept.password);
    put_zxid(kept.entered, out);
    let joined: Vec<ShardId> = kept.joined.iter().copied().collect();
    put_shards(&joined, out);
    out.push(u8::from(ending.is_some()));
    if let Some((ended, finished)) = ending {
        put_zxid(ended, out);
        out.push(u8::from(finished));
    }
}

fn read_kept_session(reader: &mut Reader<'_>) -> Result<SnapshotPart, Corrupt> {
    let (session, timeout_ms) = (get_session(reader)?, reader.u32()? as i32);
    let (password, entered) = (get_password(reader)?, get_zxid(reader)?);
    let joined = read_shards(reader)?.into_iter().collect();
    let kept =
        Box::new(SessionState { timeout_ms, password, joined, entered, ..SessionState::default() });
    let ending = match reader.flag()? {
        true => Some((get_zxid(reader)?, reader.flag()?)),
        false => None,
    };
    Ok(SnapshotPart::Session { session, kept, ending })
}

pub(crate) fn put_members(members: &Members, out: &mut Vec<u8>) {
    let Members { voters, learners, outgoing, learners_next } = members;
    for machines in [voters, learners, outgoing, learners_next] {
        put_count(machines.len(), out);
        machines.iter().for_each(|machine| put_u16(machine.0, out));
    }
}

pub(crate) fn read_members(reader: &mut Reader<'_>) -> Result<Members, Corrupt> {
    Ok(Members {
        voters: read_machines(reader)?,
        learners: read_machines(reader)?,
        outgoing: read_machines(reader)?,
        learners_next: read_machines(reader)?,
    })
}

fn read_machines(reader: &mut Reader<'_>) -> Result<Vec<MachineId>, Corrupt> {
    let mut machines = Vec::new();
    for _ in 0..reader.count(2)? {
        machines.push(MachineId(reader.u16()?));
    }
    Ok(machines)
}
