//! Keys of the store's own records: what is kept for all clients, like scripts, is a record among those of
//! clients, so that it is replicated, moved and backed up as they are. Clients cannot name its key, and
//! no command about all keys shows it or removes it.

use super::ScriptName;
use adt::key::KeyOp;
use adt::{ArgBuf, Blob, Op};

/// First bytes of the keys of scripts, which are reserved ([`adt::command::database`]).
const SCRIPT: &[u8] = b"\x00\xc1script:";

/// Key of the definitions of composed types.
const TYPES: &[u8] = b"\x00\xc1types";

/// Key of the text of a script.
pub fn script_key(name: &ScriptName) -> Blob {
    let mut key = SCRIPT.to_vec();
    key.extend_from_slice(name);
    Blob::from(key.as_slice())
}

/// Key of the libraries of functions.
pub fn functions_key() -> Blob {
    Blob::from(&b"\x00\xc1functions"[..])
}

/// Key of the users that are not in the configuration file.
pub fn users_key() -> Blob {
    Blob::from(&b"\x00\xc1users"[..])
}

/// Key of the definitions of composed types.
pub fn types_key() -> Blob {
    Blob::from(TYPES)
}

/// Whether a key is that of the definitions of composed types.
pub fn is_types(key: &[u8]) -> bool {
    key == TYPES
}

/// Key that stands for all keys of a shard, in operations that concern them all. No record has it.
pub fn whole_key(number: u32) -> Blob {
    let mut key = b"\x00\xc1all:".to_vec();
    key.extend_from_slice(number.to_string().as_bytes());
    Blob::from(key.as_slice())
}

/// Operation of a command on a record of the store's own. `words` are those of the command without the key.
pub fn on_own(key: Blob, words: &[&[u8]]) -> (Blob, Op) {
    let mut all = ArgBuf::new();
    all.push(words[0]).push(&key);
    words[1..].iter().for_each(|word| _ = all.push(word));
    // The words are those of a command that exists.
    adt::record::decode(&all.args()).unwrap_or((key, Op::Key(KeyOp::Fetch)))
}

/// Field of a record of the store's own: a kind, and a name.
pub fn field(kind: u8, name: &[u8]) -> Vec<u8> {
    [&[kind][..], name].concat()
}

/// Whether a key is that of a script.
pub fn is_script(key: &[u8]) -> bool {
    key.starts_with(SCRIPT)
}
