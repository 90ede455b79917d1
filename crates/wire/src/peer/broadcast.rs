//! Tasks for all gateways of another machine.

use crate::bytes::{Reader, put_count, put_optional_word, put_u64, put_word};
use adt::{Blob, Corrupt};
use engine::gateway::acl::UserChange;
use engine::gateway::{Broadcast, Published};

const PUBLISH: u8 = 1;
const PUBLISH_SHARDED: u8 = 2;
const FORGET_SCRIPTS: u8 = 3;
const USERS: u8 = 4;
const LOOK_AT_USERS: u8 = 5;
const FORGET_TYPES: u8 = 6;
/// Fewest bytes of a user: the length of its name, and the flag for its rules.
const USER_BYTES_MIN: usize = 5;

pub(super) fn put_published(published: &Published, out: &mut Vec<u8>) {
    let Published { sharded, channel, payload } = published;
    out.push(if *sharded { PUBLISH_SHARDED } else { PUBLISH });
    put_word(channel, out);
    put_word(payload, out);
}

fn published_of(kind: u8, reader: &mut Reader<'_>) -> Result<Published, Corrupt> {
    let sharded = match kind {
        PUBLISH => false,
        PUBLISH_SHARDED => true,
        _ => return Err(Corrupt),
    };
    let channel = reader.word()?.into();
    Ok(Published { sharded, channel, payload: reader.word()?.into() })
}

pub(super) fn get_published(reader: &mut Reader<'_>) -> Result<Published, Corrupt> {
    published_of(reader.u8()?, reader)
}

pub(super) fn put_broadcast(broadcast: &Broadcast, out: &mut Vec<u8>) {
    match broadcast {
        Broadcast::Publish(published) => put_published(published, out),
        Broadcast::ForgetScripts => out.push(FORGET_SCRIPTS),
        Broadcast::ForgetTypes => out.push(FORGET_TYPES),
        Broadcast::Users(UserChange { version, lines }) => {
            out.push(USERS);
            put_u64(*version, out);
            put_count(lines.len(), out);
            for (name, line) in lines {
                put_word(name, out);
                put_optional_word(line.as_ref().map(|line| line.as_slice()), out);
            }
        }
        Broadcast::LookAtUsers => out.push(LOOK_AT_USERS),
    }
}

pub(super) fn read_broadcast(reader: &mut Reader<'_>) -> Result<Broadcast, Corrupt> {
    Ok(match reader.u8()? {
        kind @ (PUBLISH | PUBLISH_SHARDED) => Broadcast::Publish(published_of(kind, reader)?),
        FORGET_SCRIPTS => Broadcast::ForgetScripts,
        USERS => {
            let version = reader.u64()?;
            let mut lines = Vec::new();
            for _ in 0..reader.count(USER_BYTES_MIN)? {
                let name = reader.word()?.into();
                lines.push((name, reader.optional_word()?.map(Blob::new)));
            }
            Broadcast::Users(UserChange { version, lines })
        }
        LOOK_AT_USERS => Broadcast::LookAtUsers,
        FORGET_TYPES => Broadcast::ForgetTypes,
        _ => return Err(Corrupt),
    })
}
