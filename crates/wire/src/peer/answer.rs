//! Answers of shards to gateways on other machines.

use super::broadcast::{get_published, put_published};
use super::coordination::{get_answered, get_session_notice, put_answered, put_session_notice};
use super::request::{put_body, read_body};
use super::stats::{put_shard_stats, read_databases, read_shard_stats};
use crate::bytes::{Reader, put_count, put_u16, put_u64, put_word};
use crate::coordination::{get_joint, get_session, get_zxid, put_joint, put_session, put_zxid};
use crate::entry::{
    Spans, Words, put_age, put_record_version, put_shards, put_txn, read_age, read_record_version,
    read_shards, read_txn,
};
use crate::saved::{put_replies, put_reply, read_replies, read_reply};
use adt::record::events::{Classes, Event};
use adt::{Corrupt, Reply, Timestamp};
use engine::ids::ShardId;
use engine::message::{Answer, Fate, KeyEvent, Notice, Refusal, RunReply};
use std::borrow::Cow;

const REPLY: u8 = 1;
const REPLIES: u8 = 2;
const COMMITTED: u8 = 3;
const REPEATED: u8 = 4;
const VOIDED: u8 = 5;
const GUARD_FAILED: u8 = 6;
const SNAPSHOT: u8 = 7;
const LOCKED: u8 = 8;
const PREPARED: u8 = 9;
const REFUSED: u8 = 10;
const RECORD_VERSION: u8 = 11;
const STATS: u8 = 12;
const FATE: u8 = 13;
const CARRIED_OUT: u8 = 14;
const NOT_TAKEN: u8 = 15;
const UNKNOWN: u8 = 16;
const NOTICE: u8 = 17;
const FORGOTTEN: u8 = 18;
const UNITS: u8 = 19;
const COORDINATED: u8 = 20;
const FENCED: u8 = 21;
const UNREAD: u8 = 22;
const TOOK_EFFECT: u8 = 23;
/// Counters of a shard that has records of databases other than 0.
const STATS_OF_DATABASES: u8 = 24;
/// A guard did not hold, with the error of its read.
const GUARD_IMPOSSIBLE: u8 = 25;
/// Replies of scripts, with what they have published.
const RAN: u8 = 26;

/// Fewest bytes of a reply of a script: its kind, and the number of messages.
const RUN_BYTES_MIN: usize = 2;
/// Fewest bytes of a message: its kind, and the lengths of its words.
const PUBLISHED_BYTES_MIN: usize = 3;

const CONFLICT: u8 = 1;
const BUSY: u8 = 2;
const LOCKS_LOST: u8 = 3;
const MOVED: u8 = 4;
const FROZEN: u8 = 5;
const REQUEST_UNREAD: u8 = 6;
const UNDER_WAY: u8 = 7;
const NOT_HERE: u8 = 8;

const FATE_PREPARED: u8 = 1;
const FATE_COMMITTED: u8 = 2;
const FATE_VOID: u8 = 3;

const BLOCKED: u8 = 1;
const WOUND: u8 = 2;
const PROBE: u8 = 3;
const ORPHAN: u8 = 4;
const READY: u8 = 5;
const SESSION: u8 = 6;
const ENDING: u8 = 7;
const UNDECIDED: u8 = 8;
const WANTED: u8 = 9;
const CHANGED: u8 = 10;
const HAPPENED: u8 = 11;

fn kind(answer: &Answer) -> u8 {
    match answer {
        Answer::Reply(_) => REPLY,
        Answer::Replies(_) => REPLIES,
        Answer::Ran(_) => RAN,
        Answer::Committed { .. } => COMMITTED,
        Answer::Repeated(_) => REPEATED,
        Answer::TookEffect { .. } => TOOK_EFFECT,
        Answer::Voided => VOIDED,
        Answer::Forgotten => FORGOTTEN,
        Answer::GuardFailed(None) => GUARD_FAILED,
        Answer::GuardFailed(Some(_)) => GUARD_IMPOSSIBLE,
        Answer::Fenced => FENCED,
        Answer::Snapshot { .. } => SNAPSHOT,
        Answer::Locked { .. } => LOCKED,
        Answer::Prepared { .. } => PREPARED,
        Answer::Units(_) => UNITS,
        Answer::Coordinated(_) => COORDINATED,
        Answer::Refused(_) => REFUSED,
        Answer::Version(_) => RECORD_VERSION,
        Answer::Stats(stats) if !stats.databases.is_empty() => STATS_OF_DATABASES,
        Answer::Stats(_) => STATS,
        Answer::Fate(_) => FATE,
        Answer::CarriedOut => CARRIED_OUT,
        Answer::NotTaken(_) => NOT_TAKEN,
        Answer::Unknown => UNKNOWN,
        Answer::Unread => UNREAD,
        Answer::Notice(_) => NOTICE,
    }
}

/// Whether an answer of this kind is a notice, which is sent without a request.
pub(super) fn is_notice(kind: u8) -> bool {
    kind == NOTICE
}

pub(super) fn put_answer(answer: &Answer, words: &mut Words, out: &mut Vec<u8>) {
    out.push(kind(answer));
    match answer {
        Answer::Reply(reply) => put_reply(reply, out),
        Answer::GuardFailed(Some(error)) => put_reply(&Reply::Error(error.clone()), out),
        Answer::Replies(replies) | Answer::Repeated(replies) => put_replies(replies, out),
        Answer::Committed { replies, ts } => {
            put_u64(ts.0, out);
            put_replies(replies, out);
        }
        Answer::TookEffect { ts, replies, whole } => {
            put_u64(ts.0, out);
            out.push(u8::from(*whole));
            put_replies(replies, out);
        }
        Answer::Snapshot { replies, since, until, held_us } => {
            for number in [since.0, until.0, *held_us] {
                put_u64(number, out);
            }
            put_replies(replies, out);
        }
        Answer::Locked { reply, clock, rests_at: _ } => {
            put_u64(clock.0, out);
            put_reply(reply, out);
        }
        Answer::Ran(runs) => {
            put_count(runs.len(), out);
            for RunReply { reply, published } in runs {
                put_reply(reply, out);
                put_count(published.len(), out);
                published.iter().for_each(|published| put_published(published, out));
            }
        }
        Answer::Prepared { bound } => put_u64(bound.0, out),
        Answer::Units(units) => {
            put_count(units.len(), out);
            for unit in units {
                out.push(u8::from(unit.is_some()));
                if let Some((place, replies)) = unit {
                    put_u64(place.0, out);
                    put_replies(replies, out);
                }
            }
        }
        Answer::Refused(refusal) => out.push(match refusal {
            Refusal::Conflict => CONFLICT,
            Refusal::Busy => BUSY,
            Refusal::LocksLost => LOCKS_LOST,
            Refusal::Moved => MOVED,
            Refusal::Frozen => FROZEN,
            Refusal::Unread => REQUEST_UNREAD,
            Refusal::UnderWay => UNDER_WAY,
            Refusal::NotHere => NOT_HERE,
        }),
        Answer::Version(version) => put_record_version(*version, out),
        Answer::Stats(stats) => put_shard_stats(stats, out),
        Answer::Fate(fate) => put_fate(*fate, out),
        Answer::Coordinated(answered) => put_answered(answered, out),
        Answer::NotTaken(body) => put_body(body, words, out),
        Answer::Notice(notice) => put_notice(notice, out),
        Answer::Voided
        | Answer::Forgotten
        | Answer::GuardFailed(None)
        | Answer::Fenced
        | Answer::CarriedOut
        | Answer::Unknown
        | Answer::Unread => {}
    }
}

pub(super) fn read_answer(reader: &mut Reader<'_>, spans: &mut Spans) -> Result<Answer, Corrupt> {
    Ok(match reader.u8()? {
        REPLY => Answer::Reply(read_reply(reader, 0)?),
        REPLIES => Answer::Replies(read_replies(reader)?),
        COMMITTED => {
            let ts = Timestamp(reader.u64()?);
            Answer::Committed { replies: read_replies(reader)?, ts }
        }
        REPEATED => Answer::Repeated(read_replies(reader)?),
        TOOK_EFFECT => {
            let (ts, whole) = (Timestamp(reader.u64()?), reader.flag()?);
            Answer::TookEffect { ts, replies: read_replies(reader)?, whole }
        }
        VOIDED => Answer::Voided,
        FORGOTTEN => Answer::Forgotten,
        GUARD_FAILED => Answer::GuardFailed(None),
        GUARD_IMPOSSIBLE => match read_reply(reader, 0)? {
            Reply::Error(error) => Answer::GuardFailed(Some(error)),
            _ => return Err(Corrupt),
        },
        FENCED => Answer::Fenced,
        SNAPSHOT => {
            let (since, until) = (Timestamp(reader.u64()?), Timestamp(reader.u64()?));
            let held_us = reader.u64()?;
            Answer::Snapshot { replies: read_replies(reader)?, since, until, held_us }
        }
        LOCKED => {
            let clock = Timestamp(reader.u64()?);
            Answer::Locked { reply: read_reply(reader, 0)?, clock, rests_at: None }
        }
        RAN => {
            let mut runs = Vec::new();
            for _ in 0..reader.count(RUN_BYTES_MIN)? {
                let (reply, mut published) = (read_reply(reader, 0)?, Vec::new());
                for _ in 0..reader.count(PUBLISHED_BYTES_MIN)? {
                    published.push(get_published(reader)?);
                }
                runs.push(RunReply { reply, published });
            }
            Answer::Ran(runs)
        }
        PREPARED => Answer::Prepared { bound: Timestamp(reader.u64()?) },
        UNITS => {
            let mut units = Vec::new();
            for _ in 0..reader.count(1)? {
                units.push(match reader.flag()? {
                    true => Some((Timestamp(reader.u64()?), read_replies(reader)?)),
                    false => None,
                });
            }
            Answer::Units(units)
        }
        REFUSED => Answer::Refused(match reader.u8()? {
            CONFLICT => Refusal::Conflict,
            BUSY => Refusal::Busy,
            LOCKS_LOST => Refusal::LocksLost,
            MOVED => Refusal::Moved,
            FROZEN => Refusal::Frozen,
            REQUEST_UNREAD => Refusal::Unread,
            UNDER_WAY => Refusal::UnderWay,
            NOT_HERE => Refusal::NotHere,
            _ => return Err(Corrupt),
        }),
        RECORD_VERSION => Answer::Version(read_record_version(reader)?),
        STATS => Answer::Stats(Box::new(read_shard_stats(reader)?)),
        STATS_OF_DATABASES => {
            let mut stats = read_shard_stats(reader)?;
            read_databases(&mut stats, reader)?;
            Answer::Stats(Box::new(stats))
        }
        FATE => Answer::Fate(read_fate(reader)?),
        COORDINATED => Answer::Coordinated(Box::new(get_answered(reader)?)),
        CARRIED_OUT => Answer::CarriedOut,
        NOT_TAKEN => Answer::NotTaken(Box::new(read_body(reader, spans)?)),
        UNKNOWN => Answer::Unknown,
        UNREAD => Answer::Unread,
        NOTICE => Answer::Notice(read_notice(reader)?),
        _ => return Err(Corrupt),
    })
}

fn put_fate(fate: Fate, out: &mut Vec<u8>) {
    match fate {
        Fate::Prepared { bound } => {
            out.push(FATE_PREPARED);
            put_u64(bound.0, out);
        }
        Fate::Committed(ts) => {
            out.push(FATE_COMMITTED);
            put_u64(ts.0, out);
        }
        Fate::Void => out.push(FATE_VOID),
    }
}

fn read_fate(reader: &mut Reader<'_>) -> Result<Fate, Corrupt> {
    Ok(match reader.u8()? {
        FATE_PREPARED => Fate::Prepared { bound: Timestamp(reader.u64()?) },
        FATE_COMMITTED => Fate::Committed(Timestamp(reader.u64()?)),
        FATE_VOID => Fate::Void,
        _ => return Err(Corrupt),
    })
}

fn put_notice(notice: &Notice, out: &mut Vec<u8>) {
    match notice {
        Notice::Blocked { txn } => {
            out.push(BLOCKED);
            put_txn(*txn, out);
        }
        Notice::Wound { txn, idle_us, by } => {
            out.push(WOUND);
            put_txn(*txn, out);
            put_u64(*idle_us, out);
            put_age(*by, out);
        }
        Notice::Wanted { txn } => {
            out.push(WANTED);
            put_txn(*txn, out);
        }
        Notice::Probe { txn, shard } => {
            out.push(PROBE);
            put_txn(*txn, out);
            put_u16(shard.0, out);
        }
        Notice::Orphan { txn, participants } => {
            out.push(ORPHAN);
            put_txn(*txn, out);
            put_shards(participants, out);
        }
        Notice::Ready { key } => {
            out.push(READY);
            put_word(key, out);
        }
        Notice::Changed { shard, feed, number, keys } => {
            out.push(CHANGED);
            put_u16(shard.0, out);
            put_u64(*feed, out);
            put_u64(*number, out);
            put_count(keys.len(), out);
            keys.iter().for_each(|key| put_word(key, out));
        }
        Notice::Happened(events) => {
            out.push(HAPPENED);
            put_count(events.len(), out);
            for KeyEvent { key, event } in events.iter() {
                put_word(key, out);
                put_u16(event.class.bits(), out);
                put_word(event.name.as_bytes(), out);
            }
        }
        Notice::Session { shard, session, notice } => {
            out.push(SESSION);
            put_u16(shard.0, out);
            put_session(*session, out);
            put_session_notice(notice, out);
        }
        Notice::Ending { session, ended, finished, shards } => {
            out.push(ENDING);
            put_session(*session, out);
            put_zxid(*ended, out);
            out.push(u8::from(*finished));
            put_shards(shards, out);
        }
        Notice::Undecided { session, id, shards } => {
            out.push(UNDECIDED);
            put_session(*session, out);
            put_joint(*id, out);
            put_shards(shards, out);
        }
    }
}

/// Fewest bytes of a keyspace event: two words and the class.
const KEY_EVENT_BYTES_MIN: usize = 10;

fn read_key_event(reader: &mut Reader<'_>) -> Result<KeyEvent, Corrupt> {
    let (key, class) = (reader.word()?.into(), reader.u16()?);
    let class = Classes::from_bits(class).ok_or(Corrupt)?;
    let name = std::str::from_utf8(reader.word()?).map_err(|_| Corrupt)?;
    let name = Cow::Owned(name.to_owned());
    Ok(KeyEvent { key, event: Event { class, name } })
}

fn read_notice(reader: &mut Reader<'_>) -> Result<Notice, Corrupt> {
    Ok(match reader.u8()? {
        BLOCKED => Notice::Blocked { txn: read_txn(reader)? },
        WOUND => {
            let (txn, idle_us) = (read_txn(reader)?, reader.u64()?);
            Notice::Wound { txn, idle_us, by: read_age(reader)? }
        }
        WANTED => Notice::Wanted { txn: read_txn(reader)? },
        PROBE => {
            let txn = read_txn(reader)?;
            Notice::Probe { txn, shard: ShardId(reader.u16()?) }
        }
        ORPHAN => {
            let txn = read_txn(reader)?;
            Notice::Orphan { txn, participants: read_shards(reader)? }
        }
        READY => Notice::Ready { key: reader.word()?.into() },
        CHANGED => {
            let (shard, feed, number) = (ShardId(reader.u16()?), reader.u64()?, reader.u64()?);
            let keys = (0..reader.count(4)?).map(|_| Ok(reader.word()?.into()));
            Notice::Changed { shard, feed, number, keys: keys.collect::<Result<_, Corrupt>>()? }
        }
        HAPPENED => {
            let events = (0..reader.count(KEY_EVENT_BYTES_MIN)?).map(|_| read_key_event(reader));
            Notice::Happened(events.collect::<Result<_, Corrupt>>()?)
        }
        SESSION => {
            let (shard, session) = (ShardId(reader.u16()?), get_session(reader)?);
            Notice::Session { shard, session, notice: get_session_notice(reader)? }
        }
        ENDING => Notice::Ending {
            session: get_session(reader)?,
            ended: get_zxid(reader)?,
            finished: reader.flag()?,
            shards: read_shards(reader)?.into_vec(),
        },
        UNDECIDED => Notice::Undecided {
            session: get_session(reader)?,
            id: get_joint(reader)?,
            shards: read_shards(reader)?.into_vec(),
        },
        _ => return Err(Corrupt),
    })
}
