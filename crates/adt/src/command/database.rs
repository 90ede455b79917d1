//! Stored keys: the names of clients, with a prefix that tells the database ([`DATABASES`], which `SELECT`
//! chooses among) and the hash tag that a placement rule gives.
//!
//! A key of database 0 is stored under its name. In the other databases, and where a placement rule
//! ([`super::tags`]) gives the name a hash tag, a prefix stands before the name, which clients never see.
//! Names that begin with the bytes 0x00 0xc1 are kept from clients: keys with a prefix begin with them, and
//! those of the store's own records.

use super::tags::{TagRules, hash_tag};
use crate::{ArgBuf, Args, Blob, ErrorReply, Keys};

/// Number of databases, as many as Redis has unless it is told otherwise.
pub const DATABASES: u8 = 16;

/// First bytes of all keys that clients cannot name. The second cannot begin a character in UTF-8.
const RESERVED: [u8; 2] = [0x00, 0xc1];
/// Byte behind them in the keys of databases; the number of the database follows.
const MARK: u8 = b'd';
/// Byte behind them in the keys that a placement rule gives a hash tag; the number of the database and the
/// length of the tag follow.
const TAGGED: u8 = b't';
/// Whether clients cannot name a key: it is the store's own, or one of a database other than 0, or one that a
/// placement rule gives a hash tag.
#[inline]
pub fn is_reserved(key: &[u8]) -> bool {
    key.starts_with(&RESERVED)
}

/// Stored key of a client, taken apart.
struct Parts<'k> {
    database: u8,
    /// Length of the hash tag that a placement rule gives.
    tag: Option<u8>,
    name: &'k [u8],
}

/// Parts of a stored key, or `None` if the key is the store's own.
#[inline]
fn parts(key: &[u8]) -> Option<Parts<'_>> {
    if !is_reserved(key) {
        return Some(Parts { database: 0, tag: None, name: key });
    }
    match key {
        [_, _, MARK, database, name @ ..] if (1..DATABASES).contains(database) => {
            Some(Parts { database: *database, tag: None, name })
        }
        [_, _, TAGGED, database, tag, name @ ..]
            if *database < DATABASES && (1..=name.len()).contains(&usize::from(*tag)) =>
        {
            Some(Parts { database: *database, tag: Some(*tag), name })
        }
        _ => None,
    }
}

/// Database of a stored key, or `None` if the key is the store's own.
#[inline]
pub fn database_of(key: &[u8]) -> Option<u8> {
    parts(key).map(|parts| parts.database)
}

/// Name of a stored key, as its clients know it.
#[inline]
pub fn name_of(key: &[u8]) -> &[u8] {
    parts(key).map_or(key, |parts| parts.name)
}

/// Whether a placement rule gives a stored key its hash tag.
#[inline]
pub fn is_tagged(key: &[u8]) -> bool {
    parts(key).is_some_and(|parts| parts.tag.is_some())
}

/// Part of a stored key that decides its slot: its hash tag, or its whole name.
#[inline]
pub fn hashed_part(key: &[u8]) -> &[u8] {
    match parts(key) {
        Some(Parts { tag: Some(tag), name, .. }) => &name[..usize::from(tag)],
        _ => hash_tag(name_of(key)).unwrap_or_else(|| name_of(key)),
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

/// Stored key of the same name in another database.
pub fn moved_to(database: u8, key: &[u8]) -> Blob {
    stored(database, parts(key).and_then(|parts| parts.tag), name_of(key))
}

fn stored(database: u8, tag: Option<u8>, name: &[u8]) -> Blob {
    let mut key = RESERVED.to_vec();
    match tag {
        None if database == 0 => return Blob::new(name),
        None => key.extend([MARK, database]),
        Some(tag) => key.extend([TAGGED, database, tag]),
    }
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

/// How the names of a client become stored keys: its database, and the placement rules of the store.
#[derive(Clone, Copy, Debug)]
pub struct Naming<'r> {
    /// The database.
    pub database: u8,
    /// The placement rules.
    pub tags: &'r TagRules,
}

impl Naming<'_> {
    /// Whether the words of a command stay as they are: none of them is a name that its stored key differs
    /// from.
    #[inline]
    pub fn keeps(self, args: &Args<'_>) -> bool {
        self.database == 0
            && (self.tags.is_empty() || !args.iter_from(1).any(|word| self.tags.concern(word)))
    }

    /// Stored key of a name.
    pub fn key(self, name: &[u8]) -> Blob {
        stored(self.database, self.tags.tag_length(name), name)
    }

    /// Stored key of a name, which is the name itself where that is possible.
    #[inline]
    pub fn key_of(self, name: &Blob) -> Blob {
        let is_key = self.database == 0 && !self.tags.concern(name);
        if is_key { name.clone() } else { self.key(name) }
    }

    /// Stored key of a name, or an error if clients cannot give it to a key.
    pub fn named(self, name: &[u8]) -> Result<Blob, ErrorReply> {
        if is_reserved(name) { Err(reserved()) } else { Ok(self.key(name)) }
    }

    /// Words of a command: those at the positions of keys are stored keys. Words that do not hold their keys
    /// stay as they are, for the parser to refuse.
    pub fn words(self, keys: Keys, args: &Args<'_>) -> Result<ArgBuf, ErrorReply> {
        let positions = keys.positions(args).unwrap_or_default();
        let mut positions = positions.into_iter().peekable();
        let mut words = ArgBuf::new();
        for (at, word) in args.iter_from(0).enumerate() {
            match positions.next_if_eq(&at) {
                Some(_) => words.push(self.named(word)?),
                None => words.push(word),
            };
        }
        Ok(words)
    }
}

/// Whether a stored key is as these placement rules want it.
#[inline]
pub fn is_under(tags: &TagRules, key: &[u8]) -> bool {
    parts(key).is_none_or(|Parts { tag, name, .. }| tags.tag_length(name) == tag)
}

/// Stored key under these placement rules of what may have been stored under others.
pub fn under(tags: &TagRules, key: &Blob) -> Blob {
    match parts(key) {
        Some(Parts { database, name, .. }) if !is_under(tags, key) => {
            Naming { database, tags }.key(name)
        }
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words_in(database: u8, keys: Keys, args: &Args<'_>) -> Result<ArgBuf, ErrorReply> {
        Naming { database, tags: &TagRules::default() }.words(keys, args)
    }

    #[test]
    fn a_key_of_each_database_has_its_name_and_its_number() {
        let tags = TagRules::default();
        for database in 0..DATABASES {
            for name in [&b""[..], b"a", b"a name that is longer than what a blob has room for"] {
                let key = Naming { database, tags: &tags }.key(name);
                assert_eq!(hashed_part(&key), name);
                assert_eq!((database_of(&key), name_of(&key)), (Some(database), name));
                assert_eq!(shown(&key), Blob::new(name));
                assert_eq!(name_in(database, &key), Some(name));
                assert_eq!(name_in((database + 1) % DATABASES, &key), None);
                assert_eq!((is_reserved(&key), is_tagged(&key)), (database > 0, false));
                let name = Blob::new(name);
                assert_eq!(Naming { database, tags: &tags }.key_of(&name), key);
            }
        }
    }

    #[test]
    fn a_placement_rule_decides_the_slot_and_nothing_else() {
        let tags = TagRules::parse(&["bull:*:"]).unwrap();
        for database in 0..DATABASES {
            let naming = Naming { database, tags: &tags };
            let key = naming.key(b"bull:mail:17");
            assert_eq!((database_of(&key), name_of(&key)), (Some(database), &b"bull:mail:17"[..]));
            assert_eq!(
                (hashed_part(&key), &*shown(&key)),
                (&b"bull:mail:"[..], &b"bull:mail:17"[..])
            );
            assert!(is_tagged(&key) && naming.key_of(&Blob::from("bull:mail:17")) == key);
            let elsewhere = (database + 1) % DATABASES;
            let there = Naming { database: elsewhere, tags: &tags }.key(b"bull:mail:17");
            assert_eq!(moved_to(elsewhere, &key), there);
            let free = Naming { database, tags: &TagRules::default() }.key(b"bull:mail:17");
            assert_eq!(
                (under(&tags, &free), under(&TagRules::default(), &key)),
                (key.clone(), free.clone())
            );
            assert_eq!(under(&tags, &key), key);
            let none = TagRules::default();
            let under = [(&tags, &key), (&tags, &free), (&none, &key), (&none, &free)];
            assert_eq!(under.map(|(tags, key)| is_under(tags, key)), [true, false, false, true]);
            let other = naming.key(b"{bull:mail:}17");
            assert_eq!(
                (hashed_part(&other), name_of(&other)),
                (&b"bull:mail:"[..], &b"{bull:mail:}17"[..])
            );
        }
        let own = Blob::new(b"\x00\xc1script:");
        assert_eq!(under(&tags, &own), own);
        assert!(is_under(&tags, &own));
        let naming = Naming { database: 0, tags: &tags };
        assert!(naming.keeps(&ArgBuf::of(["get", "bull"]).args()));
        assert!(!naming.keeps(&ArgBuf::of(["get", "bull:a:"]).args()));
    }

    #[test]
    fn keys_of_the_store_itself_are_in_no_database() {
        for own in [
            &b"\x00\xc1"[..],
            b"\x00\xc1d",
            b"\x00\xc1d\x00a",
            b"\x00\xc1d\x10a",
            b"\x00\xc1t",
            b"\x00\xc1t\x10\x01a",
            b"\x00\xc1t\x00\x00a",
            b"\x00\xc1t\x00\x02a",
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
