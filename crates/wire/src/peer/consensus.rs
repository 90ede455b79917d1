//! Messages between replicas of a shard's log: the structs of the consensus library in our own
//! encoding. Bytes from outside never reach the library's own deserializer.

use crate::bytes::{Reader, put_count, put_u32, put_u64, put_word};
use adt::Corrupt;
use bytes::Bytes;
use raft::eraftpb::{
    ConfState, Entry, EntryType, Message, MessageType, Snapshot, SnapshotMetadata,
};

/// Fewest bytes of an entry: type, term, index, two lengths, flag.
const ENTRY_BYTES_MIN: usize = 1 + 8 + 8 + 4 + 4 + 1;

pub(super) fn put_message(message: &Message, out: &mut Vec<u8>) {
    put_u32(message.msg_type as u32, out);
    for number in [
        message.to,
        message.from,
        message.term,
        message.log_term,
        message.index,
        message.commit,
        message.commit_term,
        message.request_snapshot,
        message.reject_hint,
        message.deprecated_priority,
        message.priority as u64,
    ] {
        put_u64(number, out);
    }
    out.push(u8::from(message.reject));
    put_word(&message.context, out);
    put_count(message.entries.len(), out);
    for entry in &message.entries {
        put_entry(entry, out);
    }
    let snapshot = message.snapshot.as_ref();
    out.push(u8::from(snapshot.is_some()));
    if let Some(snapshot) = snapshot {
        put_snapshot(snapshot, out);
    }
}

pub(super) fn read_message(reader: &mut Reader<'_>) -> Result<Message, Corrupt> {
    let message = read_fields(reader)?;
    // The library would use its own deserializer on a proposed change of members.
    let proposed = message.msg_type == MessageType::MsgPropose;
    let normal = message.entries.iter().all(|entry| entry.entry_type == EntryType::EntryNormal);
    if proposed && !normal { Err(Corrupt) } else { Ok(message) }
}

fn read_fields(reader: &mut Reader<'_>) -> Result<Message, Corrupt> {
    Ok(Message {
        msg_type: message_type(reader.u32()?)?,
        to: reader.u64()?,
        from: reader.u64()?,
        term: reader.u64()?,
        log_term: reader.u64()?,
        index: reader.u64()?,
        commit: reader.u64()?,
        commit_term: reader.u64()?,
        request_snapshot: reader.u64()?,
        reject_hint: reader.u64()?,
        deprecated_priority: reader.u64()?,
        priority: reader.u64()? as i64,
        reject: reader.flag()?,
        context: Bytes::copy_from_slice(reader.word()?),
        entries: read_entries(reader)?.into(),
        snapshot: if reader.flag()? { Some(read_snapshot(reader)?) } else { None }.into(),
        ..Message::default()
    })
}

/// Message type with this number, if machines exchange it. The remaining types are internal to the
/// library, and a peer must not be able to trigger their effects.
fn message_type(number: u32) -> Result<MessageType, Corrupt> {
    Ok(match number {
        2 => MessageType::MsgPropose,
        3 => MessageType::MsgAppend,
        4 => MessageType::MsgAppendResponse,
        5 => MessageType::MsgRequestVote,
        6 => MessageType::MsgRequestVoteResponse,
        7 => MessageType::MsgSnapshot,
        8 => MessageType::MsgHeartbeat,
        9 => MessageType::MsgHeartbeatResponse,
        13 => MessageType::MsgTransferLeader,
        14 => MessageType::MsgTimeoutNow,
        15 => MessageType::MsgReadIndex,
        16 => MessageType::MsgReadIndexResp,
        17 => MessageType::MsgRequestPreVote,
        18 => MessageType::MsgRequestPreVoteResponse,
        _ => return Err(Corrupt),
    })
}

fn put_entry(entry: &Entry, out: &mut Vec<u8>) {
    out.push(entry.entry_type as u8);
    put_u64(entry.term, out);
    put_u64(entry.index, out);
    put_word(&entry.data, out);
    put_word(&entry.context, out);
    out.push(u8::from(entry.sync_log));
}

fn read_entries(reader: &mut Reader<'_>) -> Result<Vec<Entry>, Corrupt> {
    let count = reader.count(ENTRY_BYTES_MIN)?;
    let mut entries = Vec::new();
    for _ in 0..count {
        entries.push(Entry {
            entry_type: entry_type(reader.u8()?)?,
            term: reader.u64()?,
            index: reader.u64()?,
            data: Bytes::copy_from_slice(reader.word()?),
            context: Bytes::copy_from_slice(reader.word()?),
            sync_log: reader.flag()?,
            ..Entry::default()
        });
    }
    Ok(entries)
}

fn entry_type(number: u8) -> Result<EntryType, Corrupt> {
    Ok(match number {
        0 => EntryType::EntryNormal,
        1 => EntryType::EntryConfChange,
        2 => EntryType::EntryConfChangeV2,
        _ => return Err(Corrupt),
    })
}

fn put_snapshot(snapshot: &Snapshot, out: &mut Vec<u8>) {
    put_word(&snapshot.data, out);
    let metadata = snapshot.metadata.as_ref();
    out.push(u8::from(metadata.is_some()));
    if let Some(metadata) = metadata {
        put_u64(metadata.index, out);
        put_u64(metadata.term, out);
        let state = metadata.conf_state.as_ref();
        out.push(u8::from(state.is_some()));
        if let Some(state) = state {
            put_members(state, out);
        }
    }
}

fn read_snapshot(reader: &mut Reader<'_>) -> Result<Snapshot, Corrupt> {
    let data = Bytes::copy_from_slice(reader.word()?);
    let metadata = if reader.flag()? { Some(read_metadata(reader)?) } else { None };
    Ok(Snapshot { data, metadata: metadata.into(), ..Snapshot::default() })
}

fn read_metadata(reader: &mut Reader<'_>) -> Result<SnapshotMetadata, Corrupt> {
    Ok(SnapshotMetadata {
        index: reader.u64()?,
        term: reader.u64()?,
        conf_state: if reader.flag()? { Some(read_members(reader)?) } else { None }.into(),
        ..SnapshotMetadata::default()
    })
}

fn put_members(state: &ConfState, out: &mut Vec<u8>) {
    for numbers in [&state.voters, &state.learners, &state.voters_outgoing, &state.learners_next] {
        put_count(numbers.len(), out);
        for number in numbers {
            put_u64(*number, out);
        }
    }
    out.push(u8::from(state.auto_leave));
}

fn read_members(reader: &mut Reader<'_>) -> Result<ConfState, Corrupt> {
    Ok(ConfState {
        voters: read_numbers(reader)?,
        learners: read_numbers(reader)?,
        voters_outgoing: read_numbers(reader)?,
        learners_next: read_numbers(reader)?,
        auto_leave: reader.flag()?,
        ..ConfState::default()
    })
}

fn read_numbers(reader: &mut Reader<'_>) -> Result<Vec<u64>, Corrupt> {
    let mut numbers = Vec::new();
    for _ in 0..reader.count(8)? {
        numbers.push(reader.u64()?);
    }
    Ok(numbers)
}
