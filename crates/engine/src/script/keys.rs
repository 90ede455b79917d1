//! Keys of the store's own records: what is kept for all clients, like scripts, is a record among those of
//! clients, so that it is replicated, moved and backed up as they are. Clients cannot name its key, and
//! no command about all keys shows it or removes it.

use super::ScriptName;
use adt::Blob;

/// First bytes of all such keys. The second cannot begin a character in UTF-8.
const PREFIX: &[u8] = b"\x00\xc1";
/// First bytes of the keys of scripts.
const SCRIPT: &[u8] = b"\x00\xc1script:";

/// Whether a key is one of the store's own.
#[inline]
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(PREFIX)
}

/// Key of the text of a script.
pub fn script_key(name: &ScriptName) -> Blob {
    let mut key = SCRIPT.to_vec();
    key.extend_from_slice(name);
    Blob::from(key.as_slice())
}

/// Whether a key is that of a script.
pub fn is_script(key: &[u8]) -> bool {
    key.starts_with(SCRIPT)
}
