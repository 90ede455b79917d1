//! Databases of clients ([`DATABASES`], which `SELECT` chooses among), as prefixes of stored keys.
//!
//! A key of database 0 is stored under its name. In the other databases a prefix stands before the name,
//! which clients never see. Names that begin with the bytes 0x00 0xc1 are kept from clients: the keys of
//! the other databases begin with them, and those of the store's own records.

use crate::{ArgBuf, Args, Blob, ErrorReply, Keys};

/// Number of databases, as many as Redis has unless it is told otherwise.
pub const DATABASES: u8 = 16;

/// First bytes of all keys that clients cannot name. The second cannot begin a character in UTF-8.
const RESERVED: [u8; 2] = [0x00, 0xc1];
/// Byte behind them in the keys of databases; the number of the database follows.
const MARK: u8 = b'd';
/// Bytes before the name in the keys of all databases but the first.
const PREFIX_BYTES: usize = 4;

/// Whether clients cannot name a key: it is the store's own, or one of a database other than 0.
#[inline]
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(&RESERVED)
}

/// Database of a stored key, or `None` if the key is the store's own.
#[inline]
pub fn database_of(key: &[u8]) -> Option<u8> {
    if !is_reserved(key) {
        return Some(0);
    }
    match key {
        [_, _, MARK, number, ..] if (1..DATABASES).contains(number) => Some(*number),
        _ => None,
    }
}

/// Name of a stored key, as its clients know it.
#[inline]
pub fn name_of(key: &[u8]) -> &[u8] {
    match database_of(key) {
        None | Some(0) => key,
        Some(_) => &key[PREFIX_BYTES..],
    }
}

/// Name of a stored key for a reply.
pub fn shown(key: &Blob) -> Blob {
    if is_reserved(key) { Blob::new(name_of(key)) } else { key.clone() }
}

/// Name of a stored key if it is in a database.
#[inline]
pub fn name_in(database: u8, key: &[u8]) -> Option<&[u8]> {
    (database_of(key) == Some(database)).then(|| name_of(key))
}

/// Stored key of a name in a database.
pub fn key_in(database: u8, name: &[u8]) -> Blob {
    if database == 0 {
        return Blob::new(name);
    }
    let mut key = vec![RESERVED[0], RESERVED[1], MARK, database];
    key.extend_from_slice(name);
    Blob::from(key.as_slice())
}

/// Number of a database at word `at`.
pub fn number(args: &Args<'_>, at: usize) -> Result<u8, ErrorReply> {
    let number = u8::try_from(args.int(at)?).ok().filter(|number| *number < DATABASES);
    number.ok_or_else(|| ErrorReply::err("DB index is out of range"))
}

/// Error for a name that clients cannot give to a key.
pub fn reserved() -> ErrorReply {
    ErrorReply::err("keys that begin with the bytes 0x00 0xc1 are the store's own")
}

/// Stored key of a name in a database, or an error if clients cannot give it to a key.
pub fn named_in(database: u8, name: &[u8]) -> Result<Blob, ErrorReply> {
    if is_reserved(name) { Err(reserved()) } else { Ok(key_in(database, name)) }
}

/// Words of a command in a database: those at the positions of keys are stored keys. Words that do not
/// hold their keys stay as they are, for the parser to refuse.
pub fn words_in(database: u8, keys: Keys, args: &Args<'_>) -> Result<ArgBuf, ErrorReply> {
    let positions = keys.positions(args).unwrap_or_default();
    let mut positions = positions.into_iter().peekable();
    let mut words = ArgBuf::new();
    for (at, word) in args.iter_from(0).enumerate() {
        match positions.next_if_eq(&at) {
            Some(_) => words.push(named_in(database, word)?),
            None => words.push(word),
        };
    }
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_each_database_has_its_name_and_its_number() {
        for database in 0..DATABASES {
            for name in [&b""[..], b"a", b"a name that is longer than what a blob has room for"] {
                let key = key_in(database, name);
                assert_eq!((database_of(&key), name_of(&key)), (Some(database), name));
                assert_eq!(shown(&key), Blob::new(name));
                assert_eq!(name_in(database, &key), Some(name));
                assert_eq!(name_in((database + 1) % DATABASES, &key), None);
                assert_eq!(is_reserved(&key), database > 0);
            }
        }
    }

    #[test]
    fn keys_of_the_store_itself_are_in_no_database() {
        for own in [
            &b"\x00\xc1"[..],
            b"\x00\xc1d",
            b"\x00\xc1d\x00a",
            b"\x00\xc1d\x10a",
            b"\x00\xc1script:",
        ] {
            assert_eq!((database_of(own), name_of(own)), (None, own));
        }
    }

    #[test]
    fn only_the_keys_among_the_words_of_a_command_change() {
        let pairs = Keys::Range { first: 1, last: -1, step: 2 };
        let words = words_in(3, pairs, &ArgBuf::of(["mset", "a", "a", "b", "a"]).args()).unwrap();
        let args = words.args();
        let names: Vec<_> =
            args.iter_from(0).map(|word| (database_of(word), name_of(word))).collect();
        let said: [(u8, &[u8]); 5] = [(0, b"mset"), (3, b"a"), (0, b"a"), (3, b"b"), (0, b"a")];
        assert_eq!(names, said.map(|(database, name)| (Some(database), name)));
        // Words that name more keys than there are stay as they are.
        let short = ArgBuf::of(["zunion", "9", "a"]);
        let words = words_in(3, Keys::Counted { at: 1, also: 0 }, &short.args()).unwrap();
        assert_eq!(words.args().get(2), Some(&b"a"[..]));
    }
    #[test]
    fn no_name_leads_out_of_its_database() {
        let get = |key: &[u8]| words_in(1, Keys::ONE, &ArgBuf::of([b"get", key]).args());
        assert_eq!(get(b"\x00\xc1d\x02a").err(), Some(reserved()));
        assert_eq!(get(b"\x00\xc1script:").err(), Some(reserved()));
        assert!(get(b"\x00").is_ok());
    }
}
