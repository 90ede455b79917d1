//! Messages about pipelines between the leaders of shards.

use crate::bytes::{Form, Reader, put_count, put_u16, put_u32, put_u64};
use crate::entry::{put_age, read_age};
use crate::stream::{put_links, read_links};
use adt::{Corrupt, Timestamp};
use engine::ids::{ShardId, StreamId};
use engine::pipeline::Word;

const PROPOSED: u8 = 1;
const CLOSED: u8 = 2;
const REFUSED: u8 = 3;
const ASKS: u8 = 4;
const SETTLED: u8 = 5;
const HANDED_ON: u8 = 6;
const ASKS_PLACES: u8 = 7;
const KNOWS: u8 = 8;

/// Shortest message with its destination shard: stream, kind, number.
const WORD_BYTES_MIN: usize = 2 + 16 + 1 + 2;

fn kind(word: &Word) -> u8 {
    match word {
        Word::Proposed { .. } => PROPOSED,
        Word::Closed { .. } => CLOSED,
        Word::Refused { .. } => REFUSED,
        Word::Asks { .. } => ASKS,
        Word::Settled { .. } => SETTLED,
        Word::HandedOn { .. } => HANDED_ON,
        Word::AsksPlaces { .. } => ASKS_PLACES,
        Word::Knows { .. } => KNOWS,
    }
}

pub(super) fn put_words(words: &[(ShardId, Word)], out: &mut Vec<u8>) {
    put_count(words.len(), out);
    for (to, word) in words {
        put_u16(to.0, out);
        put_age(word.stream().0, out);
        out.push(kind(word));
        match word {
            Word::Proposed { shard, units, proposal, .. } => {
                put_u16(shard.0, out);
                put_u32(units.0, out);
                put_u32(units.1, out);
                put_u64(proposal.0, out);
            }
            Word::Settled { shard, .. } => put_u16(shard.0, out),
            Word::Closed { shard, upto, .. } => {
                put_u16(shard.0, out);
                put_u32(*upto, out);
            }
            Word::Refused { seq, .. } => put_u32(*seq, out),
            Word::Asks { shard, hurries, units, .. } => {
                put_u16(shard.0, out);
                out.push(u8::from(*hurries));
                put_count(units.len(), out);
                units.iter().for_each(|unit| put_u32(*unit, out));
            }
            Word::HandedOn { links, .. } => put_links(Form::Wide, links, out),
            Word::AsksPlaces { shard, term, .. } => {
                put_u16(shard.0, out);
                put_u64(*term, out);
            }
            Word::Knows { shard, term, links, .. } => {
                put_u16(shard.0, out);
                put_u64(*term, out);
                put_links(Form::Wide, links, out);
            }
        }
    }
}

pub(super) fn read_words(reader: &mut Reader<'_>) -> Result<Vec<(ShardId, Word)>, Corrupt> {
    let mut words = Vec::new();
    for _ in 0..reader.count(WORD_BYTES_MIN)? {
        let to = ShardId(reader.u16()?);
        let stream = StreamId(read_age(reader)?);
        words.push((to, read_word(stream, reader)?));
    }
    Ok(words)
}

fn read_word(stream: StreamId, reader: &mut Reader<'_>) -> Result<Word, Corrupt> {
    let shard = |reader: &mut Reader<'_>| reader.u16().map(ShardId);
    Ok(match reader.u8()? {
        PROPOSED => Word::Proposed {
            stream,
            shard: shard(reader)?,
            units: (reader.u32()?, reader.u32()?),
            proposal: Timestamp(reader.u64()?),
        },
        CLOSED => Word::Closed { stream, shard: shard(reader)?, upto: reader.u32()? },
        SETTLED => Word::Settled { stream, shard: shard(reader)? },
        REFUSED => Word::Refused { stream, seq: reader.u32()? },
        ASKS => {
            let (shard, hurries) = (shard(reader)?, reader.flag()?);
            let mut units = Vec::new();
            for _ in 0..reader.count(4)? {
                units.push(reader.u32()?);
            }
            Word::Asks { stream, shard, hurries, units }
        }
        HANDED_ON => Word::HandedOn { stream, links: read_links(reader)? },
        ASKS_PLACES => Word::AsksPlaces { stream, shard: shard(reader)?, term: reader.u64()? },
        KNOWS => {
            let (shard, term) = (shard(reader)?, reader.u64()?);
            Word::Knows { stream, shard, term, links: read_links(reader)? }
        }
        _ => return Err(Corrupt),
    })
}
