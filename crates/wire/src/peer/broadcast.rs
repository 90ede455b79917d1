//! Tasks for all gateways of another machine.

use crate::bytes::{Reader, put_word};
use adt::Corrupt;
use engine::gateway::{Broadcast, Published};

const PUBLISH: u8 = 1;
const PUBLISH_SHARDED: u8 = 2;
const FORGET_SCRIPTS: u8 = 3;

pub(super) fn put_broadcast(broadcast: &Broadcast, out: &mut Vec<u8>) {
    match broadcast {
        Broadcast::Publish(Published { sharded, channel, payload }) => {
            out.push(if *sharded { PUBLISH_SHARDED } else { PUBLISH });
            put_word(channel, out);
            put_word(payload, out);
        }
        Broadcast::ForgetScripts => out.push(FORGET_SCRIPTS),
    }
}

pub(super) fn read_broadcast(reader: &mut Reader<'_>) -> Result<Broadcast, Corrupt> {
    Ok(match reader.u8()? {
        kind @ (PUBLISH | PUBLISH_SHARDED) => {
            let (sharded, channel) = (kind == PUBLISH_SHARDED, reader.word()?.into());
            Broadcast::Publish(Published { sharded, channel, payload: reader.word()?.into() })
        }
        FORGET_SCRIPTS => Broadcast::ForgetScripts,
        _ => return Err(Corrupt),
    })
}
