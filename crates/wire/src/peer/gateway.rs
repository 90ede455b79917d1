//! Messages between gateways of different machines.

use super::stats::{put_gateway_stats, read_gateway_stats};
use crate::bytes::{Reader, put_count, put_option, put_optional_word, put_u64, put_word};
use adt::{Blob, Corrupt};
use engine::gateway::{ClientFilter, Knowledge, PeerMessage, Question};

const ASK: u8 = 1;
const TELL: u8 = 2;

const PUBLISH: u8 = 1;
const CLIENT_LIST: u8 = 2;
const CLIENT_KILL: u8 = 3;
const UNBLOCK: u8 = 4;
const CHANNELS: u8 = 5;
const SUBSCRIBERS: u8 = 6;
const PATTERNS: u8 = 7;
const ASK_STATS: u8 = 8;
const TRANSACTIONS: u8 = 9;
const FORGET_SCRIPTS: u8 = 10;
/// Questions and answers that never leave their machine; every machine refuses them.
const LOCAL: u8 = 0;

const COUNT: u8 = 1;
const COUNTS: u8 = 2;
const LINES: u8 = 3;
const NAMES: u8 = 4;
const STATS: u8 = 5;

pub(super) fn put_message(message: &PeerMessage, out: &mut Vec<u8>) {
    match message {
        PeerMessage::Ask { ask, question } => {
            out.push(ASK);
            put_u64(*ask, out);
            put_question(question, out);
        }
        PeerMessage::Tell { ask, knowledge } => {
            out.push(TELL);
            put_u64(*ask, out);
            put_knowledge(knowledge, out);
        }
    }
}

pub(super) fn read_message(reader: &mut Reader<'_>) -> Result<PeerMessage, Corrupt> {
    Ok(match reader.u8()? {
        ASK => {
            let ask = reader.u64()?;
            PeerMessage::Ask { ask, question: read_question(reader)? }
        }
        TELL => {
            let ask = reader.u64()?;
            PeerMessage::Tell { ask, knowledge: read_knowledge(reader)? }
        }
        _ => return Err(Corrupt),
    })
}

fn put_question(question: &Question, out: &mut Vec<u8>) {
    match question {
        Question::Publish { channel, payload } => {
            out.push(PUBLISH);
            put_word(channel, out);
            put_word(payload, out);
        }
        Question::ClientList(filter) => {
            out.push(CLIENT_LIST);
            put_filter(filter, out);
        }
        Question::ClientKill(filter) => {
            out.push(CLIENT_KILL);
            put_filter(filter, out);
        }
        Question::Unblock { client, error } => {
            out.push(UNBLOCK);
            put_u64(*client, out);
            out.push(u8::from(*error));
        }
        Question::Channels { pattern } => {
            out.push(CHANNELS);
            put_optional_word(pattern.as_deref(), out);
        }
        Question::Subscribers(channels) => {
            out.push(SUBSCRIBERS);
            put_names(channels, out);
        }
        Question::Patterns => out.push(PATTERNS),
        Question::Stats => out.push(ASK_STATS),
        Question::Transactions => out.push(TRANSACTIONS),
        Question::ForgetScripts => out.push(FORGET_SCRIPTS),
        Question::Local(_) => out.push(LOCAL),
    }
}

fn read_question(reader: &mut Reader<'_>) -> Result<Question, Corrupt> {
    Ok(match reader.u8()? {
        PUBLISH => {
            let channel = reader.word()?.into();
            Question::Publish { channel, payload: reader.word()?.into() }
        }
        CLIENT_LIST => Question::ClientList(read_filter(reader)?),
        CLIENT_KILL => Question::ClientKill(read_filter(reader)?),
        UNBLOCK => {
            let client = reader.u64()?;
            Question::Unblock { client, error: reader.flag()? }
        }
        CHANNELS => Question::Channels { pattern: reader.optional_word()?.map(Blob::from) },
        SUBSCRIBERS => Question::Subscribers(read_names(reader)?),
        PATTERNS => Question::Patterns,
        ASK_STATS => Question::Stats,
        TRANSACTIONS => Question::Transactions,
        FORGET_SCRIPTS => Question::ForgetScripts,
        _ => return Err(Corrupt),
    })
}

fn put_knowledge(knowledge: &Knowledge, out: &mut Vec<u8>) {
    match knowledge {
        Knowledge::Count(count) => {
            out.push(COUNT);
            put_u64(*count as u64, out);
        }
        Knowledge::Counts(counts) => {
            out.push(COUNTS);
            put_count(counts.len(), out);
            for count in counts {
                put_u64(*count as u64, out);
            }
        }
        Knowledge::Lines(lines) => {
            out.push(LINES);
            put_count(lines.len(), out);
            for (client, line) in lines {
                put_u64(*client, out);
                put_word(line.as_bytes(), out);
            }
        }
        Knowledge::Names(names) => {
            out.push(NAMES);
            put_names(names, out);
        }
        Knowledge::Stats(stats) => {
            out.push(STATS);
            put_gateway_stats(stats, out);
        }
        Knowledge::Local(_) => out.push(LOCAL),
    }
}

fn read_knowledge(reader: &mut Reader<'_>) -> Result<Knowledge, Corrupt> {
    Ok(match reader.u8()? {
        COUNT => Knowledge::Count(reader.u64()? as i64),
        COUNTS => {
            let mut counts = Vec::new();
            for _ in 0..reader.count(8)? {
                counts.push(reader.u64()? as i64);
            }
            Knowledge::Counts(counts)
        }
        LINES => {
            let mut lines = Vec::new();
            for _ in 0..reader.count(12)? {
                lines.push((reader.u64()?, reader.text()?.to_owned()));
            }
            Knowledge::Lines(lines)
        }
        NAMES => Knowledge::Names(read_names(reader)?),
        STATS => Knowledge::Stats(Box::new(read_gateway_stats(reader)?)),
        _ => return Err(Corrupt),
    })
}

fn put_filter(filter: &ClientFilter, out: &mut Vec<u8>) {
    let ClientFilter { ids, address, local_address, user, kind, age_s_min, except } = filter;
    put_count(ids.len(), out);
    for id in ids {
        put_u64(*id, out);
    }
    for text in [address, local_address, user, kind] {
        put_optional_word(text.as_ref().map(|text| text.as_bytes()), out);
    }
    put_option(*age_s_min, out);
    put_option(*except, out);
}

fn read_filter(reader: &mut Reader<'_>) -> Result<ClientFilter, Corrupt> {
    let mut ids = Vec::new();
    for _ in 0..reader.count(8)? {
        ids.push(reader.u64()?);
    }
    Ok(ClientFilter {
        ids,
        address: read_optional_text(reader)?,
        local_address: read_optional_text(reader)?,
        user: read_optional_text(reader)?,
        kind: read_optional_text(reader)?,
        age_s_min: reader.option()?,
        except: reader.option()?,
    })
}

fn read_optional_text(reader: &mut Reader<'_>) -> Result<Option<String>, Corrupt> {
    if reader.flag()? { Ok(Some(reader.text()?.to_owned())) } else { Ok(None) }
}

fn put_names(names: &[Blob], out: &mut Vec<u8>) {
    put_count(names.len(), out);
    for name in names {
        put_word(name, out);
    }
}

fn read_names(reader: &mut Reader<'_>) -> Result<Vec<Blob>, Corrupt> {
    let mut names = Vec::new();
    for _ in 0..reader.count(4)? {
        names.push(reader.word()?.into());
    }
    Ok(names)
}
