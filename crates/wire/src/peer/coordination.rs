//! Messages between gateways and the shards that hold the tree of the coordination service.

use crate::bytes::{Form, Reader, put_u32, put_u64, put_word};
use crate::coordination::{
    get_acl, get_event, get_identities, get_password, get_read, get_reply, get_session, get_watch,
    get_watcher_type, get_write, get_zxid, put_acl, put_event, put_identities, put_read, put_reply,
    put_session, put_watch, put_watcher_type, put_write, put_zxid,
};
use crate::stream::{put_stream, read_stream};
use adt::Corrupt;
use engine::coordination::service::Command;
use engine::coordination::tree::acl::Rules;
use engine::coordination::{Ask, CoordinationAnswer, OfSession, SessionNotice};

const WRITE: u8 = 1;
const RESUME: u8 = 2;
const LEAVE: u8 = 3;
const PING: u8 = 4;
const READ: u8 = 5;
const WATCH: u8 = 6;
const UNWATCH: u8 = 7;
const WATCHES: u8 = 8;

const HAPPENED: u8 = 1;
const MOVED: u8 = 2;
const ENDED: u8 = 3;
const CARRIED: u8 = 4;

/// The shortest watch: an empty path and its kind.
const WATCH_BYTES_MIN: usize = 5;

/// Writes a command as logs and parcels hold it.
pub(crate) fn put_command(form: Form, command: &Command, out: &mut Vec<u8>) {
    put_session(command.session, out);
    put_zxid(command.after, out);
    put_identities(form, &command.identities, out);
    put_write(form, &command.write, out);
}

pub(crate) fn get_command(reader: &mut Reader<'_>) -> Result<Command, Corrupt> {
    let (session, after) = (get_session(reader)?, get_zxid(reader)?);
    let identities = get_identities(reader)?;
    Ok(Command { session, identities, write: get_write(reader)?, after })
}

pub(crate) fn put_ask(form: Form, ask: &Ask, out: &mut Vec<u8>) {
    match ask {
        Ask::Write(command) => {
            out.push(WRITE);
            put_command(form, command, out);
        }
        Ask::Resume { session, password } => {
            out.push(RESUME);
            put_session(*session, out);
            out.extend_from_slice(password);
        }
        Ask::Leave(session) => {
            out.push(LEAVE);
            put_session(*session, out);
        }
        Ask::Of(session, of) => {
            out.push(match of {
                OfSession::Ping => PING,
                OfSession::Read { .. } => READ,
                OfSession::Watch { .. } => WATCH,
                OfSession::Unwatch { .. } => UNWATCH,
                OfSession::Watches { .. } => WATCHES,
            });
            put_session(*session, out);
            put_of_session(form, of, out);
        }
    }
}

fn put_of_session(form: Form, of: &OfSession, out: &mut Vec<u8>) {
    match of {
        OfSession::Ping => {}
        OfSession::Read { identities, read, watch } => {
            put_identities(form, identities, out);
            put_read(form, read, out);
            out.push(u8::from(*watch));
        }
        OfSession::Watch { since, watches } => {
            put_zxid(*since, out);
            form.put_count(watches.len(), out);
            for (path, watch) in watches {
                put_word(path, out);
                put_watch(*watch, out);
            }
        }
        OfSession::Unwatch { path, which } | OfSession::Watches { path, which } => {
            put_word(path, out);
            put_watcher_type(*which, out);
        }
    }
}

pub(crate) fn get_ask(reader: &mut Reader<'_>) -> Result<Ask, Corrupt> {
    let kind = reader.u8()?;
    if kind == WRITE {
        return get_command(reader).map(Ask::Write);
    }
    let session = get_session(reader)?;
    let of = match kind {
        RESUME => return Ok(Ask::Resume { session, password: get_password(reader)? }),
        LEAVE => return Ok(Ask::Leave(session)),
        PING => OfSession::Ping,
        READ => {
            let (identities, read) = (get_identities(reader)?, get_read(reader)?);
            OfSession::Read { identities, read, watch: reader.flag()? }
        }
        WATCH => {
            let since = get_zxid(reader)?;
            let mut watches = Vec::new();
            for _ in 0..reader.count(WATCH_BYTES_MIN)? {
                watches.push((reader.word()?.into(), get_watch(reader)?));
            }
            OfSession::Watch { since, watches }
        }
        UNWATCH => {
            OfSession::Unwatch { path: reader.word()?.into(), which: get_watcher_type(reader)? }
        }
        WATCHES => {
            OfSession::Watches { path: reader.word()?.into(), which: get_watcher_type(reader)? }
        }
        _ => return Err(Corrupt),
    };
    Ok(Ask::Of(session, of))
}

pub(super) fn put_answered(answered: &CoordinationAnswer, out: &mut Vec<u8>) {
    put_zxid(answered.zxid, out);
    put_u64(answered.notices, out);
    put_reply(Form::Wide, &answered.reply, out);
}

pub(super) fn get_answered(reader: &mut Reader<'_>) -> Result<CoordinationAnswer, Corrupt> {
    let (zxid, notices) = (get_zxid(reader)?, reader.u64()?);
    Ok(CoordinationAnswer { reply: get_reply(reader)?, zxid, notices })
}

pub(super) fn put_session_notice(notice: &SessionNotice, out: &mut Vec<u8>) {
    match notice {
        SessionNotice::Happened(event, zxid, rules) => {
            out.push(HAPPENED);
            put_event(Form::Wide, event, out);
            put_zxid(*zxid, out);
            put_acl(Form::Wide, &rules.list(), out);
        }
        SessionNotice::Carried { stream, seq, answered } => {
            out.push(CARRIED);
            put_stream(Form::Wide, *stream, out);
            put_u32(*seq, out);
            put_answered(answered, out);
        }
        SessionNotice::Moved => out.push(MOVED),
        SessionNotice::Ended => out.push(ENDED),
    }
}

pub(super) fn get_session_notice(reader: &mut Reader<'_>) -> Result<SessionNotice, Corrupt> {
    Ok(match reader.u8()? {
        HAPPENED => {
            let (event, zxid) = (get_event(reader)?, get_zxid(reader)?);
            SessionNotice::Happened(event, zxid, Rules::restored(get_acl(reader)?))
        }
        CARRIED => {
            let (stream, seq) = (read_stream(reader)?, reader.u32()?);
            SessionNotice::Carried { stream, seq, answered: Box::new(get_answered(reader)?) }
        }
        MOVED => SessionNotice::Moved,
        ENDED => SessionNotice::Ended,
        _ => return Err(Corrupt),
    })
}
