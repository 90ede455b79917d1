//! Requests and replies of the coordination service, as logs and parcels hold them.
//!
//! Counts and lengths are in the [`Form`] of the surrounding message. Versions are -1 so often that
//! they always have all of their bytes.

use crate::bytes::{Form, Reader, put_u16, put_u32, put_u64};
use crate::entry::{put_shards_in, read_shards};
use adt::{Blob, Corrupt};
use engine::coordination::JointId;
use engine::coordination::SpreadStep;
use engine::coordination::spread::Spread;
use engine::coordination::{
    Acl, Change, Code, Create, CreateMode, Happened, Identity, Lasts, Password, Read, Reply, Stat,
    TreeSessionId, Watch, WatchedEvent, WatcherType, Write, Zxid,
};

const CREATE: u8 = 1;
const DELETE: u8 = 2;
const SET_DATA: u8 = 3;
const SET_ACL: u8 = 4;
const CHECK: u8 = 5;
/// Kinds of writes; below are those of changes.
const CHANGES: u8 = 6;
const OPEN: u8 = 7;
const CLOSE: u8 = 8;
const REAP: u8 = 9;
const OVER: u8 = 10;
const JOIN: u8 = 11;
const ENTER: u8 = 12;
const DEPART: u8 = 13;
const FINISH: u8 = 14;
const GONE: u8 = 15;
const FORGET: u8 = 16;
const PREPARE: u8 = 17;
const INQUIRE: u8 = 18;
const DECIDE: u8 = 19;

const EXISTS: u8 = 1;
const DATA: u8 = 2;
const ACL: u8 = 3;
const CHILDREN: u8 = 4;
const CHILDREN_AND_STAT: u8 = 5;
const DESCENDANTS: u8 = 6;
const EPHEMERALS: u8 = 7;
const SYNC: u8 = 8;
const READS: u8 = 9;

const DONE: u8 = 1;
const CREATED: u8 = 2;
const STAT: u8 = 3;
const DATA_FOUND: u8 = 4;
const ACL_FOUND: u8 = 5;
const CHILDREN_FOUND: u8 = 6;
const NUMBER: u8 = 7;
const PATHS: u8 = 8;
const PATH: u8 = 9;
const SEVERAL: u8 = 10;
const SESSION: u8 = 11;
const REFUSED: u8 = 12;
const JOINED: u8 = 13;

/// Kind of a new node, as bits of one byte.
const EPHEMERAL: u8 = 1;
const SEQUENTIAL: u8 = 2;
const WITH_STAT: u8 = 4;
const CONTAINER: u8 = 8;
const TTL: u8 = 16;

/// Shortest encoding of each kind where counts have all of their bytes.
const WORD_BYTES_MIN: usize = 4;
const IDENTITY_BYTES_MIN: usize = 2 * WORD_BYTES_MIN;
const ACL_BYTES_MIN: usize = 4 + IDENTITY_BYTES_MIN;
const CHANGE_BYTES_MIN: usize = 1 + WORD_BYTES_MIN + 4;
const READ_BYTES_MIN: usize = 1 + WORD_BYTES_MIN;

const CODES: [Code; 18] = [
    Code::Ok,
    Code::RuntimeInconsistency,
    Code::Marshalling,
    Code::Unimplemented,
    Code::BadArguments,
    Code::NoNode,
    Code::NoAuth,
    Code::BadVersion,
    Code::NoChildrenForEphemerals,
    Code::NodeExists,
    Code::NotEmpty,
    Code::SessionExpired,
    Code::InvalidAcl,
    Code::AuthFailed,
    Code::SessionMoved,
    Code::NoWatcher,
    Code::ReconfigDisabled,
    Code::QuotaExceeded,
];

/// Reason with this number.
pub(crate) fn code(number: i32) -> Option<Code> {
    CODES.into_iter().find(|code| *code as i32 == number)
}

fn put_i32(value: i32, out: &mut Vec<u8>) {
    put_u32(value as u32, out);
}

fn get_i32(reader: &mut Reader<'_>) -> Result<i32, Corrupt> {
    Ok(reader.u32()? as i32)
}

fn put_i64(value: i64, out: &mut Vec<u8>) {
    put_u64(value as u64, out);
}

fn get_i64(reader: &mut Reader<'_>) -> Result<i64, Corrupt> {
    Ok(reader.u64()? as i64)
}

fn put_optional(form: Form, word: Option<&Blob>, out: &mut Vec<u8>) {
    out.push(u8::from(word.is_some()));
    word.iter().for_each(|word| form.put_word(word, out));
}

fn get_optional(reader: &mut Reader<'_>) -> Result<Option<Blob>, Corrupt> {
    Ok(reader.optional_word()?.map(Blob::new))
}

fn get_blob(reader: &mut Reader<'_>) -> Result<Blob, Corrupt> {
    reader.word().map(Blob::new)
}

fn put_blobs(form: Form, blobs: &[Blob], out: &mut Vec<u8>) {
    form.put_count(blobs.len(), out);
    blobs.iter().for_each(|blob| form.put_word(blob, out));
}

/// Reads a list, which grows with the bytes read: the declared count allocates nothing.
fn get_list<T>(
    reader: &mut Reader<'_>,
    bytes_min: usize,
    item: impl Fn(&mut Reader<'_>) -> Result<T, Corrupt>,
) -> Result<Vec<T>, Corrupt> {
    let mut items = Vec::new();
    for _ in 0..reader.count(bytes_min)? {
        items.push(item(reader)?);
    }
    Ok(items)
}

fn get_blobs(reader: &mut Reader<'_>) -> Result<Vec<Blob>, Corrupt> {
    get_list(reader, WORD_BYTES_MIN, get_blob)
}

pub(crate) fn put_session(session: TreeSessionId, out: &mut Vec<u8>) {
    put_i64(session.0, out);
}

pub(crate) fn get_session(reader: &mut Reader<'_>) -> Result<TreeSessionId, Corrupt> {
    get_i64(reader).map(TreeSessionId)
}

pub(crate) fn put_zxid(zxid: Zxid, out: &mut Vec<u8>) {
    put_i64(zxid.0, out);
}

pub(crate) fn get_zxid(reader: &mut Reader<'_>) -> Result<Zxid, Corrupt> {
    get_i64(reader).map(Zxid)
}

pub(crate) fn get_password(reader: &mut Reader<'_>) -> Result<Password, Corrupt> {
    reader.take(size_of::<Password>())?.try_into().map_err(|_| Corrupt)
}

pub(crate) fn put_identities(form: Form, identities: &[Identity], out: &mut Vec<u8>) {
    form.put_count(identities.len(), out);
    identities.iter().for_each(|identity| put_identity(form, identity, out));
}

pub(crate) fn get_identities(reader: &mut Reader<'_>) -> Result<Vec<Identity>, Corrupt> {
    get_list(reader, IDENTITY_BYTES_MIN, get_identity)
}

fn put_identity(form: Form, identity: &Identity, out: &mut Vec<u8>) {
    form.put_word(&identity.scheme, out);
    form.put_word(&identity.id, out);
}

fn get_identity(reader: &mut Reader<'_>) -> Result<Identity, Corrupt> {
    Ok(Identity { scheme: get_blob(reader)?, id: get_blob(reader)? })
}

pub(crate) fn put_acl(form: Form, acl: &[Acl], out: &mut Vec<u8>) {
    form.put_count(acl.len(), out);
    for line in acl {
        put_i32(line.perms, out);
        put_identity(form, &line.who, out);
    }
}

pub(crate) fn get_acl(reader: &mut Reader<'_>) -> Result<Vec<Acl>, Corrupt> {
    get_list(reader, ACL_BYTES_MIN, |reader| {
        Ok(Acl { perms: get_i32(reader)?, who: get_identity(reader)? })
    })
}

pub(crate) fn put_stat(stat: &Stat, out: &mut Vec<u8>) {
    put_zxid(stat.czxid, out);
    put_zxid(stat.mzxid, out);
    put_i64(stat.ctime_ms, out);
    put_i64(stat.mtime_ms, out);
    put_i32(stat.version, out);
    put_i32(stat.cversion, out);
    put_i32(stat.aversion, out);
    put_i64(stat.ephemeral_owner, out);
    put_i32(stat.data_length, out);
    put_i32(stat.num_children, out);
    put_zxid(stat.pzxid, out);
}

pub(crate) fn get_stat(reader: &mut Reader<'_>) -> Result<Stat, Corrupt> {
    Ok(Stat {
        czxid: get_zxid(reader)?,
        mzxid: get_zxid(reader)?,
        ctime_ms: get_i64(reader)?,
        mtime_ms: get_i64(reader)?,
        version: get_i32(reader)?,
        cversion: get_i32(reader)?,
        aversion: get_i32(reader)?,
        ephemeral_owner: get_i64(reader)?,
        data_length: get_i32(reader)?,
        num_children: get_i32(reader)?,
        pzxid: get_zxid(reader)?,
    })
}

fn put_optional_stat(stat: Option<&Stat>, out: &mut Vec<u8>) {
    out.push(u8::from(stat.is_some()));
    stat.iter().for_each(|stat| put_stat(stat, out));
}

fn get_optional_stat(reader: &mut Reader<'_>) -> Result<Option<Stat>, Corrupt> {
    if reader.flag()? { get_stat(reader).map(Some) } else { Ok(None) }
}

fn put_create(form: Form, create: &Create, out: &mut Vec<u8>) {
    form.put_word(&create.path, out);
    put_optional(form, create.data.as_ref(), out);
    put_acl(form, &create.acl, out);
    let CreateMode { lasts, sequential } = create.mode;
    let lasts_bit = match lasts {
        Lasts::Always => 0,
        Lasts::Session => EPHEMERAL,
        Lasts::Children => CONTAINER,
        Lasts::Ttl(_) => TTL,
    };
    let bits = [(sequential, SEQUENTIAL), (create.stat, WITH_STAT)];
    let bits = bits.into_iter().filter(|(set, _)| *set).map(|(_, bit)| bit);
    out.push(lasts_bit | bits.sum::<u8>());
    if let Lasts::Ttl(ttl_ms) = lasts {
        put_i64(ttl_ms, out);
    }
}

fn get_create(reader: &mut Reader<'_>) -> Result<Create, Corrupt> {
    let (path, data, acl) = (get_blob(reader)?, get_optional(reader)?, get_acl(reader)?);
    let bits = reader.u8()?;
    let lasts = match bits & !(SEQUENTIAL | WITH_STAT) {
        0 => Lasts::Always,
        EPHEMERAL => Lasts::Session,
        CONTAINER => Lasts::Children,
        TTL => Lasts::Ttl(get_i64(reader)?),
        _ => return Err(Corrupt),
    };
    let mode = CreateMode { lasts, sequential: bits & SEQUENTIAL != 0 };
    Ok(Create { path, data, acl, mode, stat: bits & WITH_STAT != 0 })
}

pub(crate) fn put_change(form: Form, change: &Change, out: &mut Vec<u8>) {
    match change {
        Change::Create(create) => {
            out.push(CREATE);
            put_create(form, create, out);
        }
        Change::Delete { path, version } => {
            out.push(DELETE);
            form.put_word(path, out);
            put_i32(*version, out);
        }
        Change::SetData { path, data, version } => {
            out.push(SET_DATA);
            form.put_word(path, out);
            put_optional(form, data.as_ref(), out);
            put_i32(*version, out);
        }
        Change::SetAcl { path, acl, version } => {
            out.push(SET_ACL);
            form.put_word(path, out);
            put_acl(form, acl, out);
            put_i32(*version, out);
        }
        Change::Check { path, version } => {
            out.push(CHECK);
            form.put_word(path, out);
            put_i32(*version, out);
        }
    }
}

pub(crate) fn get_change(reader: &mut Reader<'_>) -> Result<Change, Corrupt> {
    let kind = reader.u8()?;
    get_change_of(kind, reader)
}

fn get_change_of(kind: u8, reader: &mut Reader<'_>) -> Result<Change, Corrupt> {
    if kind == CREATE {
        return get_create(reader).map(Change::Create);
    }
    let path = get_blob(reader)?;
    Ok(match kind {
        DELETE => Change::Delete { path, version: get_i32(reader)? },
        SET_DATA => {
            Change::SetData { path, data: get_optional(reader)?, version: get_i32(reader)? }
        }
        SET_ACL => Change::SetAcl { path, acl: get_acl(reader)?, version: get_i32(reader)? },
        CHECK => Change::Check { path, version: get_i32(reader)? },
        _ => return Err(Corrupt),
    })
}

pub(crate) fn put_changes(form: Form, changes: &[Change], out: &mut Vec<u8>) {
    form.put_count(changes.len(), out);
    changes.iter().for_each(|change| put_change(form, change, out));
}

pub(crate) fn get_changes(reader: &mut Reader<'_>) -> Result<Vec<Change>, Corrupt> {
    get_list(reader, CHANGE_BYTES_MIN, get_change)
}

pub(crate) fn put_joint(id: JointId, out: &mut Vec<u8>) {
    put_zxid(id.joined, out);
    put_u32(id.number, out);
}

pub(crate) fn get_joint(reader: &mut Reader<'_>) -> Result<JointId, Corrupt> {
    Ok(JointId { joined: get_zxid(reader)?, number: reader.u32()? })
}

pub(crate) fn put_write(form: Form, write: &Write, out: &mut Vec<u8>) {
    match write {
        Write::Change(change) => put_change(form, change, out),
        Write::Multi(changes) => {
            out.push(CHANGES);
            put_changes(form, changes, out);
        }
        Write::Open { timeout_ms, password } => {
            out.push(OPEN);
            put_i32(*timeout_ms, out);
            out.extend_from_slice(password);
        }
        Write::Close => out.push(CLOSE),
        Write::Reap => out.push(REAP),
        Write::Spread(step) => put_step(form, step, out),
    }
}

fn put_step(form: Form, step: &SpreadStep, out: &mut Vec<u8>) {
    match step {
        SpreadStep::Over(spread) => {
            out.push(OVER);
            put_u16(spread.count(), out);
        }
        SpreadStep::Join(shards) => {
            out.push(JOIN);
            put_shards_in(form, shards, out);
        }
        SpreadStep::Enter { timeout_ms, password, joined } => {
            out.push(ENTER);
            put_i32(*timeout_ms, out);
            out.extend_from_slice(password);
            put_zxid(*joined, out);
        }
        SpreadStep::Depart { ended } => {
            out.push(DEPART);
            put_zxid(*ended, out);
        }
        SpreadStep::Finish => out.push(FINISH),
        SpreadStep::Gone => out.push(GONE),
        SpreadStep::Forget => out.push(FORGET),
        SpreadStep::Prepare { id, shards, changes } => {
            out.push(PREPARE);
            put_joint(*id, out);
            put_shards_in(form, shards, out);
            put_changes(form, changes, out);
        }
        SpreadStep::Inquire { id } => {
            out.push(INQUIRE);
            put_joint(*id, out);
        }
        SpreadStep::Decide { id, commit } => {
            out.push(DECIDE);
            put_joint(*id, out);
            out.push(u8::from(*commit));
        }
    }
}

pub(crate) fn get_write(reader: &mut Reader<'_>) -> Result<Write, Corrupt> {
    Ok(match reader.u8()? {
        CHANGES => Write::Multi(get_changes(reader)?),
        OPEN => Write::Open { timeout_ms: get_i32(reader)?, password: get_password(reader)? },
        CLOSE => Write::Close,
        REAP => Write::Reap,
        OVER => Write::Spread(SpreadStep::Over(Spread::over(reader.u16()?))),
        JOIN => Write::Spread(SpreadStep::Join(read_shards(reader)?.into_vec())),
        ENTER => Write::Spread(SpreadStep::Enter {
            timeout_ms: get_i32(reader)?,
            password: get_password(reader)?,
            joined: get_zxid(reader)?,
        }),
        DEPART => Write::Spread(SpreadStep::Depart { ended: get_zxid(reader)? }),
        FINISH => Write::Spread(SpreadStep::Finish),
        GONE => Write::Spread(SpreadStep::Gone),
        FORGET => Write::Spread(SpreadStep::Forget),
        PREPARE => Write::Spread(SpreadStep::Prepare {
            id: get_joint(reader)?,
            shards: read_shards(reader)?.into_vec(),
            changes: get_changes(reader)?,
        }),
        INQUIRE => Write::Spread(SpreadStep::Inquire { id: get_joint(reader)? }),
        DECIDE => {
            Write::Spread(SpreadStep::Decide { id: get_joint(reader)?, commit: reader.flag()? })
        }
        kind => Write::Change(get_change_of(kind, reader)?),
    })
}

/// # Panics
/// If a `Multi` lies within a `Multi`: no client can send that, and no decoder accepts it.
pub(crate) fn put_read(form: Form, read: &Read, out: &mut Vec<u8>) {
    let kind = match read {
        Read::Exists(_) => EXISTS,
        Read::Data(_) => DATA,
        Read::Acl(_) => ACL,
        Read::Children { stat: false, .. } => CHILDREN,
        Read::Children { stat: true, .. } => CHILDREN_AND_STAT,
        Read::Descendants(_) => DESCENDANTS,
        Read::Ephemerals(_) => EPHEMERALS,
        Read::Sync(_) => SYNC,
        Read::Multi(_) => READS,
    };
    out.push(kind);
    if let Read::Multi(reads) = read {
        form.put_count(reads.len(), out);
        for read in reads {
            assert!(!matches!(read, Read::Multi(_)), "several reads among several");
            put_read(form, read, out);
        }
    }
    read.path().iter().for_each(|path| form.put_word(path, out));
}

pub(crate) fn get_read(reader: &mut Reader<'_>) -> Result<Read, Corrupt> {
    match reader.u8()? {
        READS => get_list(reader, READ_BYTES_MIN, |reader| {
            let kind = reader.u8()?;
            get_read_of(kind, reader)
        })
        .map(Read::Multi),
        kind => get_read_of(kind, reader),
    }
}

fn get_read_of(kind: u8, reader: &mut Reader<'_>) -> Result<Read, Corrupt> {
    let path = get_blob(reader)?;
    Ok(match kind {
        EXISTS => Read::Exists(path),
        DATA => Read::Data(path),
        ACL => Read::Acl(path),
        CHILDREN | CHILDREN_AND_STAT => Read::Children { path, stat: kind == CHILDREN_AND_STAT },
        DESCENDANTS => Read::Descendants(path),
        EPHEMERALS => Read::Ephemerals(path),
        SYNC => Read::Sync(path),
        _ => return Err(Corrupt),
    })
}

/// # Panics
/// If the reply to a `Multi` lies within another.
pub(crate) fn put_reply(form: Form, result: &Result<Reply, Code>, out: &mut Vec<u8>) {
    let reply = match result {
        Ok(reply) => reply,
        Err(code) => {
            out.push(REFUSED);
            return put_i32(*code as i32, out);
        }
    };
    match reply {
        Reply::Done => out.push(DONE),
        Reply::Created { path, stat } => {
            out.push(CREATED);
            form.put_word(path, out);
            put_optional_stat(stat.as_ref(), out);
        }
        Reply::Stat(stat) => {
            out.push(STAT);
            put_stat(stat, out);
        }
        Reply::Data(data, stat) => {
            out.push(DATA_FOUND);
            put_optional(form, data.as_ref(), out);
            put_stat(stat, out);
        }
        Reply::Acl(acl, stat) => {
            out.push(ACL_FOUND);
            put_acl(form, acl, out);
            put_stat(stat, out);
        }
        Reply::Children(names, stat) => {
            out.push(CHILDREN_FOUND);
            put_blobs(form, names, out);
            put_optional_stat(stat.as_ref(), out);
        }
        Reply::Number(number) => {
            out.push(NUMBER);
            put_i32(*number, out);
        }
        Reply::Paths(paths) => {
            out.push(PATHS);
            put_blobs(form, paths, out);
        }
        Reply::Path(path) => {
            out.push(PATH);
            form.put_word(path, out);
        }
        Reply::Multi(results) => {
            out.push(SEVERAL);
            form.put_count(results.len(), out);
            for result in results {
                assert!(!matches!(result, Ok(Reply::Multi(_))), "several answers among several");
                put_reply(form, result, out);
            }
        }
        Reply::Session(session) => {
            out.push(SESSION);
            put_session(*session, out);
        }
        Reply::Joined(timeout_ms, shards) => {
            out.push(JOINED);
            put_i32(*timeout_ms, out);
            put_shards_in(form, shards, out);
        }
    }
}

pub(crate) fn get_reply(reader: &mut Reader<'_>) -> Result<Result<Reply, Code>, Corrupt> {
    match reader.u8()? {
        SEVERAL => {
            let results = get_list(reader, 1, |reader| {
                let kind = reader.u8()?;
                get_reply_of(kind, reader)
            })?;
            Ok(Ok(Reply::Multi(results)))
        }
        kind => get_reply_of(kind, reader),
    }
}

fn get_reply_of(kind: u8, reader: &mut Reader<'_>) -> Result<Result<Reply, Code>, Corrupt> {
    Ok(Ok(match kind {
        DONE => Reply::Done,
        CREATED => Reply::Created { path: get_blob(reader)?, stat: get_optional_stat(reader)? },
        STAT => Reply::Stat(get_stat(reader)?),
        DATA_FOUND => Reply::Data(get_optional(reader)?, get_stat(reader)?),
        ACL_FOUND => Reply::Acl(get_acl(reader)?, get_stat(reader)?),
        CHILDREN_FOUND => Reply::Children(get_blobs(reader)?, get_optional_stat(reader)?),
        NUMBER => Reply::Number(get_i32(reader)?),
        PATHS => Reply::Paths(get_blobs(reader)?),
        PATH => Reply::Path(get_blob(reader)?),
        SESSION => Reply::Session(get_session(reader)?),
        JOINED => Reply::Joined(get_i32(reader)?, read_shards(reader)?.into_vec()),
        REFUSED => return Ok(Err(code(get_i32(reader)?).ok_or(Corrupt)?)),
        _ => return Err(Corrupt),
    }))
}

pub(crate) fn put_event(form: Form, event: &WatchedEvent, out: &mut Vec<u8>) {
    out.push(event.happened as u8);
    form.put_word(&event.path, out);
}

pub(crate) fn get_event(reader: &mut Reader<'_>) -> Result<WatchedEvent, Corrupt> {
    let happened = match reader.u8()? {
        1 => Happened::Created,
        2 => Happened::Deleted,
        3 => Happened::Data,
        4 => Happened::Children,
        _ => return Err(Corrupt),
    };
    Ok(WatchedEvent { happened, path: get_blob(reader)? })
}

pub(crate) fn put_watch(watch: Watch, out: &mut Vec<u8>) {
    out.push(match watch {
        Watch::Data => 1,
        Watch::Exist => 2,
        Watch::Child => 3,
        Watch::Persistent => 4,
        Watch::Recursive => 5,
    });
}

pub(crate) fn get_watch(reader: &mut Reader<'_>) -> Result<Watch, Corrupt> {
    Ok(match reader.u8()? {
        1 => Watch::Data,
        2 => Watch::Exist,
        3 => Watch::Child,
        4 => Watch::Persistent,
        5 => Watch::Recursive,
        _ => return Err(Corrupt),
    })
}

pub(crate) fn put_watcher_type(which: WatcherType, out: &mut Vec<u8>) {
    out.push(match which {
        WatcherType::Children => 1,
        WatcherType::Data => 2,
        WatcherType::Any => 3,
        WatcherType::Persistent => 4,
        WatcherType::Recursive => 5,
    });
}

pub(crate) fn get_watcher_type(reader: &mut Reader<'_>) -> Result<WatcherType, Corrupt> {
    Ok(match reader.u8()? {
        1 => WatcherType::Children,
        2 => WatcherType::Data,
        3 => WatcherType::Any,
        4 => WatcherType::Persistent,
        5 => WatcherType::Recursive,
        _ => return Err(Corrupt),
    })
}

mod node;
#[cfg(test)]
mod tests;

pub(crate) use node::{get_node, put_node};
