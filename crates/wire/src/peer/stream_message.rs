//! Messages about pipelines between the leaders of shards.

use crate::bytes::{Form, Reader, put_count, put_u16, put_u32, put_u64};
use crate::entry::{put_age, read_age};
use crate::stream::{put_links, read_links};
use adt::{Corrupt, Timestamp};
use engine::ids::{ShardId, StreamId};
use engine::pipeline::StreamMessage;

const PROPOSED: u8 = 1;
const CLOSED: u8 = 2;
const REFUSED: u8 = 3;
const ASKS: u8 = 4;
const SETTLED: u8 = 5;
const HANDED_ON: u8 = 6;
const ASKS_PLACES: u8 = 7;
const KNOWS: u8 = 8;

/// Shortest message with its destination shard: stream, kind, number.
const MESSAGE_BYTES_MIN: usize = 2 + 16 + 1 + 2;

fn kind(message: &StreamMessage) -> u8 {
    match message {
        StreamMessage::Proposed { .. } => PROPOSED,
        StreamMessage::Closed { .. } => CLOSED,
        StreamMessage::Refused { .. } => REFUSED,
        StreamMessage::Asks { .. } => ASKS,
        StreamMessage::Settled { .. } => SETTLED,
        StreamMessage::HandedOn { .. } => HANDED_ON,
        StreamMessage::AsksPlaces { .. } => ASKS_PLACES,
        StreamMessage::Knows { .. } => KNOWS,
    }
}

pub(super) fn put_all(messages: &[(ShardId, StreamMessage)], out: &mut Vec<u8>) {
    put_count(messages.len(), out);
    for (to, message) in messages {
        put_u16(to.0, out);
        put_age(message.stream().0, out);
        out.push(kind(message));
        match message {
            StreamMessage::Proposed { shard, units, proposal, .. } => {
                put_u16(shard.0, out);
                put_u32(units.0, out);
                put_u32(units.1, out);
                put_u64(proposal.0, out);
            }
            StreamMessage::Settled { shard, .. } => put_u16(shard.0, out),
            StreamMessage::Closed { shard, upto, .. } => {
                put_u16(shard.0, out);
                put_u32(*upto, out);
            }
            StreamMessage::Refused { seq, .. } => put_u32(*seq, out),
            StreamMessage::Asks { shard, hurries, units, .. } => {
                put_u16(shard.0, out);
                out.push(u8::from(*hurries));
                put_count(units.len(), out);
                units.iter().for_each(|unit| put_u32(*unit, out));
            }
            StreamMessage::HandedOn { links, .. } => put_links(Form::Wide, links, out),
            StreamMessage::AsksPlaces { shard, term, .. } => {
                put_u16(shard.0, out);
                put_u64(*term, out);
            }
            StreamMessage::Knows { shard, term, links, .. } => {
                put_u16(shard.0, out);
                put_u64(*term, out);
                put_links(Form::Wide, links, out);
            }
        }
    }
}

pub(super) fn read_all(reader: &mut Reader<'_>) -> Result<Vec<(ShardId, StreamMessage)>, Corrupt> {
    let mut messages = Vec::new();
    for _ in 0..reader.count(MESSAGE_BYTES_MIN)? {
        let to = ShardId(reader.u16()?);
        let stream = StreamId(read_age(reader)?);
        messages.push((to, read_message(stream, reader)?));
    }
    Ok(messages)
}

fn read_message(stream: StreamId, reader: &mut Reader<'_>) -> Result<StreamMessage, Corrupt> {
    let shard = |reader: &mut Reader<'_>| reader.u16().map(ShardId);
    Ok(match reader.u8()? {
        PROPOSED => StreamMessage::Proposed {
            stream,
            shard: shard(reader)?,
            units: (reader.u32()?, reader.u32()?),
            proposal: Timestamp(reader.u64()?),
        },
        CLOSED => StreamMessage::Closed { stream, shard: shard(reader)?, upto: reader.u32()? },
        SETTLED => StreamMessage::Settled { stream, shard: shard(reader)? },
        REFUSED => StreamMessage::Refused { stream, seq: reader.u32()? },
        ASKS => {
            let (shard, hurries) = (shard(reader)?, reader.flag()?);
            let mut units = Vec::new();
            for _ in 0..reader.count(4)? {
                units.push(reader.u32()?);
            }
            StreamMessage::Asks { stream, shard, hurries, units }
        }
        HANDED_ON => StreamMessage::HandedOn { stream, links: read_links(reader)? },
        ASKS_PLACES => {
            StreamMessage::AsksPlaces { stream, shard: shard(reader)?, term: reader.u64()? }
        }
        KNOWS => {
            let (shard, term) = (shard(reader)?, reader.u64()?);
            StreamMessage::Knows { stream, shard, term, links: read_links(reader)? }
        }
        _ => return Err(Corrupt),
    })
}
