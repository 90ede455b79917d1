//! Messages between the machines of a cluster, as bytes, version 1. `docs/internals/formats/messages.md`
//! has the layout.
//!
//! Every parcel stands alone in a frame with its length and a CRC-32 (IEEE) of the payload. A
//! connection begins with a [`Hello`] in each direction. Operations are encoded as in log entries,
//! so this format does not know the data types either.

mod answer;
mod broadcast;
mod consensus;
pub(crate) mod coordination;
mod hello;
mod request;
mod stats;
mod stream_message;
mod timing;

pub use engine::cluster::level::Level;
pub use engine::ids::MachineId;
pub use hello::{
    HELLO_ADDRESS_BYTES_MAX, HELLO_CLUSTER_BYTES_MAX, Hello, decode_hello, encode_hello,
};

use crate::bytes::{Reader, put_count, put_option, put_u16, put_u32, put_u64, put_word};
use crate::entry::{self, Spans, Words, put_gateway, read_gateway};
use crate::snapshot::{put_members, read_members};
use adt::{Corrupt, Timestamp};
use engine::cluster::map::ShardMap;
use engine::ids::{ShardId, Token};
use engine::limits::PEER_FRAME_BYTES_MAX;
use engine::message::{Answer, Refusal, Request, Response};
use engine::node::{Parcel, SnapshotPiece, Taken};
use std::fmt;

/// First byte of every payload.
const VERSION: u8 = 1;
/// Bytes before the payload: its length and the checksum.
const FRAME_HEADER_BYTES: usize = 8;
/// Shortest payload: version and kind.
const PAYLOAD_BYTES_MIN: usize = 2;
/// Scratch memory is kept across frames up to this size, and freed after larger ones.
const SCRATCH_FRAME_BYTES_MAX: usize = 64 << 10;

// The first bytes of a RESP client, read as a length, exceed the limit and are refused.
const _: () = assert!(PEER_FRAME_BYTES_MAX < u32::from_le_bytes(*b"*1\r\n") as usize);
const _: () = assert!(PEER_FRAME_BYTES_MAX < u32::from_le_bytes(*b"PING") as usize);
// Transactions and operations are encoded as in entries: a new version there is a new version here.
const _: () = assert!(entry::VERSION == VERSION);

const HELLO: u8 = 0;
const REQUEST: u8 = 1;
const RESPONSE: u8 = 2;
/// A message between gateways. It never leaves its machine, and every machine refuses it.
const GATEWAY: u8 = 3;
const RAFT: u8 = 4;
const LEADS: u8 = 5;
const RESIGNED: u8 = 6;
const WATERMARKS: u8 = 7;
const SNAPSHOT: u8 = 8;
const SNAPSHOT_TAKEN: u8 = 9;
const MAP: u8 = 10;
const MEMBERS: u8 = 11;
const SLEEP: u8 = 12;
const WAKE: u8 = 13;
const WORDS: u8 = 14;
const TIMING: u8 = 15;
const LEAD_ELSEWHERE: u8 = 16;
const BROADCAST: u8 = 17;
const BROADCASTS_TAKEN: u8 = 18;

/// Shard number and watermark.
const WATERMARK_BYTES: usize = 10;

const NEXT: u8 = 0;
const COMPLETE: u8 = 1;
const REFUSED: u8 = 2;

/// A parcel has more than [`PEER_FRAME_BYTES_MAX`] bytes, which the receiver would refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a message between machines is longer than {PEER_FRAME_BYTES_MAX} bytes")
    }
}

impl std::error::Error for TooLong {}

/// Failure to decode a parcel.
#[derive(Debug)]
pub enum Fault {
    /// The stream is unusable: the connection must be closed.
    Corrupt,
    /// The frame is intact and holds a request or an answer that cannot be decoded. That request
    /// fails, and the connection goes on.
    Unread {
        /// Length of the frame in bytes.
        len: usize,
        /// Replacement of the request or answer.
        instead: Instead,
    },
}

/// Substitute for a request or an answer that cannot be decoded.
#[derive(Debug)]
pub enum Instead {
    /// Response to the gateway that sent the request.
    Back(Box<Response>),
    /// Response to deliver here in place of the answer.
    Here(Box<Response>),
}

impl From<Corrupt> for Fault {
    fn from(_: Corrupt) -> Self {
        Self::Corrupt
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a message of another machine cannot be read")
    }
}

impl std::error::Error for Fault {}

/// Parcel format of this version of the product. Its memory is reused.
#[derive(Debug, Default)]
pub struct PeerFormat {
    words: Words,
    spans: Spans,
}

impl PeerFormat {
    /// Appends `parcel` as one frame.
    ///
    /// # Errors
    /// If the frame would be too long; `out` is then unchanged.
    pub fn encode(&mut self, parcel: &Parcel, out: &mut Vec<u8>) -> Result<(), TooLong> {
        let frame = begin_frame(out);
        put_parcel(parcel, &mut self.words, out);
        if out.len() - frame > SCRATCH_FRAME_BYTES_MAX {
            self.words = Words::default();
        }
        end_frame(frame, out)
    }

    /// Decodes the first frame of `bytes`. Returns the parcel and the frame's length, or `None`
    /// while the frame is incomplete.
    ///
    /// # Errors
    /// See [`Fault`].
    pub fn decode(&mut self, bytes: &[u8]) -> Result<Option<(Parcel, usize)>, Fault> {
        let Some(payload) = payload(bytes, PEER_FRAME_BYTES_MAX)? else {
            return Ok(None);
        };
        let Ok(parcel) = read_payload(payload, &mut self.spans) else {
            let len = FRAME_HEADER_BYTES + payload.len();
            return Err(Fault::Unread { len, instead: instead(payload)? });
        };
        if payload.len() > SCRATCH_FRAME_BYTES_MAX {
            self.spans = Spans::new();
        }
        Ok(Some((parcel, FRAME_HEADER_BYTES + payload.len())))
    }
}

/// Reserves room for a frame's header and begins its payload. Returns the offset of the frame.
fn begin_frame(out: &mut Vec<u8>) -> usize {
    let frame = out.len();
    out.extend_from_slice(&[0; FRAME_HEADER_BYTES]);
    out.push(VERSION);
    frame
}

/// Fills in the header of the frame that was begun at `frame`.
fn end_frame(frame: usize, out: &mut Vec<u8>) -> Result<(), TooLong> {
    let (header, payload) = out[frame..].split_at_mut(FRAME_HEADER_BYTES);
    if payload.len() > PEER_FRAME_BYTES_MAX {
        out.truncate(frame);
        return Err(TooLong);
    }
    header[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header[4..].copy_from_slice(&crc32fast::hash(payload).to_le_bytes());
    Ok(())
}

/// Payload of the first frame of `bytes`, or `None` while it is incomplete. A length above `max` is
/// refused as soon as it is known.
fn payload(bytes: &[u8], max: usize) -> Result<Option<&[u8]>, Corrupt> {
    let Some((len, rest)) = bytes.split_first_chunk() else {
        return Ok(None);
    };
    let len = u32::from_le_bytes(*len) as usize;
    if !(PAYLOAD_BYTES_MIN..=max).contains(&len) {
        return Err(Corrupt);
    }
    let Some((crc, rest)) = rest.split_first_chunk() else {
        return Ok(None);
    };
    let Some(payload) = rest.get(..len) else {
        return Ok(None);
    };
    let intact = crc32fast::hash(payload) == u32::from_le_bytes(*crc);
    if intact { Ok(Some(payload)) } else { Err(Corrupt) }
}

/// Kind of a payload, and the bytes after it.
fn open(payload: &[u8]) -> Result<(u8, Reader<'_>), Corrupt> {
    let mut reader = Reader::new(payload);
    if reader.u8()? != VERSION {
        return Err(Corrupt);
    }
    Ok((reader.u8()?, reader))
}

fn read_payload(payload: &[u8], spans: &mut Spans) -> Result<Parcel, Corrupt> {
    let (kind, mut reader) = open(payload)?;
    let parcel = read_parcel(kind, &mut reader, spans)?;
    reader.finish()?;
    Ok(parcel)
}

/// Substitute for an undecodable payload that affects a single request. Any other payload that is
/// skipped would be lost without a retry, so the connection must end.
fn instead(payload: &[u8]) -> Result<Instead, Corrupt> {
    let (kind, mut reader) = open(payload)?;
    match kind {
        REQUEST => {
            read_shard_term(&mut reader)?;
            let (gateway, token) = (read_gateway(&mut reader)?, Token(reader.u64()?));
            // A request without a token expects no answer.
            if token == Token::default() {
                return Err(Corrupt);
            }
            let answer = Answer::Refused(Refusal::Unread);
            Ok(Instead::Back(Box::new(Response { gateway, token, answer })))
        }
        RESPONSE => {
            let (gateway, token) = (read_gateway(&mut reader)?, Token(reader.u64()?));
            if answer::is_notice(reader.u8()?) {
                return Err(Corrupt);
            }
            Ok(Instead::Here(Box::new(Response { gateway, token, answer: Answer::Unread })))
        }
        _ => Err(Corrupt),
    }
}

fn put_parcel(parcel: &Parcel, words: &mut Words, out: &mut Vec<u8>) {
    match parcel {
        Parcel::Request { shard, term, request } => {
            put_shard_term(REQUEST, *shard, *term, out);
            put_gateway(request.gateway, out);
            put_u64(request.token.0, out);
            put_option(request.after.map(|after| after.0), out);
            request::put_body(&request.body, words, out);
        }
        Parcel::Response(response) => {
            out.push(RESPONSE);
            put_gateway(response.gateway, out);
            put_u64(response.token.0, out);
            answer::put_answer(&response.answer, words, out);
        }
        Parcel::Gateway { .. } => out.push(GATEWAY),
        Parcel::BroadcastsTaken(bytes) => {
            out.push(BROADCASTS_TAKEN);
            put_u32(*bytes, out);
        }
        Parcel::Broadcast(broadcast) => {
            out.push(BROADCAST);
            broadcast::put_broadcast(broadcast, out);
        }
        Parcel::Raft { shard, message } => {
            out.push(RAFT);
            put_u16(shard.0, out);
            consensus::put_message(message, out);
        }
        Parcel::Snapshot(piece) => {
            put_shard_term(SNAPSHOT, piece.shard, piece.offset, out);
            out.push(u8::from(piece.last));
            put_word(&piece.bytes, out);
            consensus::put_message(&piece.message, out);
        }
        Parcel::SnapshotTaken { shard, index, taken } => {
            put_shard_term(SNAPSHOT_TAKEN, *shard, *index, out);
            match taken {
                Taken::Next(offset) => {
                    out.push(NEXT);
                    put_u64(*offset, out);
                }
                Taken::Complete => out.push(COMPLETE),
                Taken::Refused => out.push(REFUSED),
            }
        }
        Parcel::Map(map) => {
            out.push(MAP);
            put_word(map.to_string().as_bytes(), out);
        }
        Parcel::Members { shard, term, applied, members } => {
            put_shard_term(MEMBERS, *shard, *term, out);
            put_u64(applied.0, out);
            put_u64(applied.1, out);
            put_members(members, out);
        }
        Parcel::StreamMessages(messages) => {
            out.push(WORDS);
            stream_message::put_all(messages, out);
        }
        Parcel::Leads { shard, term } => put_shard_term(LEADS, *shard, *term, out),
        Parcel::Resigned { shard, term } => put_shard_term(RESIGNED, *shard, *term, out),
        Parcel::Watermarks(watermarks) => {
            out.push(WATERMARKS);
            put_count(watermarks.len(), out);
            for (shard, ts) in watermarks {
                put_u16(shard.0, out);
                put_u64(ts.0, out);
            }
        }
        Parcel::Sleep { shard, term, index } => {
            put_shard_term(SLEEP, *shard, *term, out);
            put_u64(*index, out);
        }
        Parcel::Wake { shard } => {
            out.push(WAKE);
            put_u16(shard.0, out);
        }
        Parcel::Timing(timing) => {
            out.push(TIMING);
            timing::put_timing(timing, out);
        }
        Parcel::LeadElsewhere { shard, to } => {
            out.push(LEAD_ELSEWHERE);
            put_u16(shard.0, out);
            put_u16(to.0, out);
        }
    }
}

fn read_parcel(kind: u8, reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Parcel, Corrupt> {
    Ok(match kind {
        REQUEST => {
            let (shard, term) = read_shard_term(reader)?;
            let (gateway, token) = (read_gateway(reader)?, Token(reader.u64()?));
            let after = reader.option()?.map(Token);
            let body = request::read_body(reader, spans)?;
            Parcel::Request { shard, term, request: Request { gateway, token, after, body } }
        }
        RESPONSE => {
            let (gateway, token) = (read_gateway(reader)?, Token(reader.u64()?));
            let answer = answer::read_answer(reader, spans)?;
            Parcel::Response(Response { gateway, token, answer })
        }
        RAFT => {
            let shard = ShardId(reader.u16()?);
            Parcel::Raft { shard, message: Box::new(consensus::read_message(reader)?) }
        }
        SNAPSHOT => {
            let (shard, offset) = read_shard_term(reader)?;
            let last = reader.flag()?;
            let bytes = reader.word()?.to_vec();
            let message = Box::new(consensus::read_message(reader)?);
            Parcel::Snapshot(SnapshotPiece { shard, offset, bytes, last, message })
        }
        SNAPSHOT_TAKEN => {
            let (shard, index) = read_shard_term(reader)?;
            let taken = match reader.u8()? {
                NEXT => Taken::Next(reader.u64()?),
                COMPLETE => Taken::Complete,
                REFUSED => Taken::Refused,
                _ => return Err(Corrupt),
            };
            Parcel::SnapshotTaken { shard, index, taken }
        }
        MAP => {
            let text = std::str::from_utf8(reader.word()?).map_err(|_| Corrupt)?;
            Parcel::Map(Box::new(ShardMap::parse(text).map_err(|_| Corrupt)?))
        }
        MEMBERS => {
            let (shard, term) = read_shard_term(reader)?;
            let applied = (reader.u64()?, reader.u64()?);
            Parcel::Members { shard, term, applied, members: Box::new(read_members(reader)?) }
        }
        LEADS => {
            let (shard, term) = read_shard_term(reader)?;
            Parcel::Leads { shard, term }
        }
        RESIGNED => {
            let (shard, term) = read_shard_term(reader)?;
            Parcel::Resigned { shard, term }
        }
        WATERMARKS => {
            let mut watermarks = Vec::new();
            for _ in 0..reader.count(WATERMARK_BYTES)? {
                let (shard, ts) = read_shard_term(reader)?;
                watermarks.push((shard, Timestamp(ts)));
            }
            Parcel::Watermarks(watermarks)
        }
        SLEEP => {
            let (shard, term) = read_shard_term(reader)?;
            Parcel::Sleep { shard, term, index: reader.u64()? }
        }
        BROADCASTS_TAKEN => Parcel::BroadcastsTaken(reader.u32()?),
        BROADCAST => Parcel::Broadcast(broadcast::read_broadcast(reader)?),
        WORDS => Parcel::StreamMessages(stream_message::read_all(reader)?),
        TIMING => Parcel::Timing(timing::read_timing(reader)?),
        LEAD_ELSEWHERE => {
            let shard = ShardId(reader.u16()?);
            Parcel::LeadElsewhere { shard, to: MachineId(reader.u16()?) }
        }
        WAKE => Parcel::Wake { shard: ShardId(reader.u16()?) },
        _ => return Err(Corrupt),
    })
}

fn put_shard_term(kind: u8, shard: ShardId, term: u64, out: &mut Vec<u8>) {
    out.push(kind);
    put_u16(shard.0, out);
    put_u64(term, out);
}

fn read_shard_term(reader: &mut Reader<'_>) -> Result<(ShardId, u64), Corrupt> {
    Ok((ShardId(reader.u16()?), reader.u64()?))
}
