//! Words of commands, cut and without passwords, as operators see them.

use crate::limits::{KEPT_WORDS_BYTES_MAX, SHOWN_WORD_BYTES_MAX, SHOWN_WORDS_MAX};
use adt::{Args, Blob, CommandSpec};

/// Text in the place of a secret word.
pub const REDACTED: &[u8] = b"(redacted)";

/// Place of words that were not kept.
pub const NOT_KEPT: u64 = u64::MAX;

/// Position of the first word of a command that may be a part of its client's credentials; all words behind
/// it are kept secret as well.
pub fn secret_from(spec: &CommandSpec, args: &Args<'_>) -> usize {
    match spec.name {
        "auth" => 1,
        "hello" => (1..args.len()).find(|&at| args.is(at, "AUTH")).map_or(usize::MAX, |at| at + 1),
        "acl" if args.is(1, "SETUSER") => 3,
        "config" => {
            let names = |at: &usize| args.is(*at, "requirepass") || args.is(*at, "masterauth");
            (2..args.len()).find(names).map_or(usize::MAX, |at| at + 1)
        }
        _ => usize::MAX,
    }
}

/// Memory that is kept for the words of further commands, in bytes.
const KEPT_CAPACITY_MAX: usize = 1 << 10;

/// Words of the commands of a session that are not answered yet, in one piece of memory.
#[derive(Default)]
pub struct KeptWords {
    bytes: Vec<u8>,
    /// Place of the first byte.
    start: u64,
}

impl KeptWords {
    /// Keeps the words of a command, and returns their place.
    pub fn add(&mut self, spec: &CommandSpec, args: &Args<'_>) -> u64 {
        if self.bytes.len() >= KEPT_WORDS_BYTES_MAX {
            return NOT_KEPT;
        }
        let at = self.start + self.bytes.len() as u64;
        let secret_from = secret_from(spec, args);
        self.bytes.extend((args.len() as u32).to_le_bytes());
        for (index, word) in args.iter_from(0).take(shown(args.len())).enumerate() {
            let word = if index < secret_from { word } else { REDACTED };
            self.bytes.extend((word.len() as u32).to_le_bytes());
            self.bytes.extend(&word[..word.len().min(SHOWN_WORD_BYTES_MAX)]);
        }
        at
    }

    /// Removes the words that were added last, of a command that does not go ahead yet.
    pub fn take_back(&mut self, at: u64) {
        if let Some(length) = at.checked_sub(self.start) {
            self.bytes.truncate(usize::try_from(length).unwrap_or(usize::MAX));
        }
    }

    /// Words at a place, cut as Redis cuts them.
    pub fn get(&self, at: u64) -> Option<Vec<Blob>> {
        let mut rest = self.bytes.get(usize::try_from(at.checked_sub(self.start)?).ok()?..)?;
        let mut number = || {
            let (bytes, behind) = rest.split_first_chunk::<4>()?;
            rest = behind;
            Some(u32::from_le_bytes(*bytes) as usize)
        };
        let count = number()?;
        let mut words = Vec::with_capacity(shown(count) + 1);
        for _ in 0..shown(count) {
            let (bytes, behind) = rest.split_first_chunk::<4>()?;
            let length = u32::from_le_bytes(*bytes) as usize;
            let (word, behind) = behind.split_at_checked(length.min(SHOWN_WORD_BYTES_MAX))?;
            rest = behind;
            let more = length - word.len();
            let cut = || [word, format!("... ({more} more bytes)").as_bytes()].concat();
            words.push(if more == 0 { Blob::new(word) } else { Blob::from(cut().as_slice()) });
        }
        let more = count - shown(count);
        if more > 0 {
            words.push(Blob::from(format!("... ({more} more arguments)").as_bytes()));
        }
        Some(words)
    }

    /// Forgets the words of all commands: none is under way.
    #[inline]
    pub fn clear(&mut self) {
        if !self.bytes.is_empty() {
            self.start += self.bytes.len() as u64;
            self.bytes.clear();
            // A long command leaves no memory behind.
            if self.bytes.capacity() > KEPT_CAPACITY_MAX {
                self.bytes = Vec::new();
            }
        }
    }

    /// Forgets the words before a place, if they take much memory.
    #[inline]
    pub fn forget_before(&mut self, at: u64) {
        let before = at.saturating_sub(self.start) as usize;
        if at != NOT_KEPT && before > KEPT_WORDS_BYTES_MAX / 2 && before <= self.bytes.len() {
            self.bytes.drain(..before);
            self.start = at;
        }
    }
}

/// Number of words that are shown of so many.
fn shown(count: usize) -> usize {
    if count > SHOWN_WORDS_MAX { SHOWN_WORDS_MAX - 1 } else { count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gateway::clients::session_commands::lookup;
    use adt::ArgBuf;

    fn kept(words: &[&str]) -> Vec<String> {
        let (words, mut kept) = (ArgBuf::of(words.iter()), KeptWords::default());
        let spec = lookup(words.args().get(0).unwrap()).unwrap();
        let at = kept.add(spec, &words.args());
        let text = |word: Blob| String::from_utf8_lossy(&word).into_owned();
        kept.get(at).unwrap().into_iter().map(text).collect()
    }

    #[test]
    fn words_are_cut_as_redis_cuts_them() {
        let long = "x".repeat(130);
        let cut = kept(&["SET", "k", &long]);
        assert_eq!(cut[2], format!("{}... (2 more bytes)", "x".repeat(128)));
        let many: Vec<&str> = std::iter::once("DEL").chain(std::iter::repeat_n("k", 39)).collect();
        let cut = kept(&many);
        assert_eq!((cut.len(), cut[31].as_str()), (32, "... (9 more arguments)"));
        assert_eq!(kept(&many[..32]).len(), 32);
    }

    #[test]
    fn passwords_are_not_kept() {
        for (words, shown) in [
            (vec!["AUTH", "geheim"], vec!["AUTH", "(redacted)"]),
            (vec!["AUTH", "ann", "geheim"], vec!["AUTH", "(redacted)", "(redacted)"]),
            (
                vec!["hello", "3", "SETNAME", "n", "auth", "ann", "geheim"],
                vec!["hello", "3", "SETNAME", "n", "auth", "(redacted)", "(redacted)"],
            ),
            (
                vec!["ACL", "setuser", "ann", ">geheim", "on"],
                vec!["ACL", "setuser", "ann", "(redacted)", "(redacted)"],
            ),
            (
                vec!["config", "SET", "hz", "1", "RequirePass", "geheim"],
                vec!["config", "SET", "hz", "1", "RequirePass", "(redacted)"],
            ),
        ] {
            assert_eq!(kept(&words), shown);
        }
    }

    #[test]
    fn words_of_commands_that_are_under_way_stay() {
        let (mut kept, long) = (KeptWords::default(), "y".repeat(120));
        let words = ArgBuf::of(["SET", "k", &long]);
        let spec = lookup(b"set").unwrap();
        let mut places = std::collections::VecDeque::new();
        for _ in 0..10_000 {
            let at = kept.add(spec, &words.args());
            assert_ne!(at, NOT_KEPT);
            places.push_back(at);
            if places.len() > 10 {
                let gone = places.pop_front().unwrap();
                kept.forget_before(gone);
            }
        }
        assert!(places.iter().all(|at| kept.get(*at).unwrap().len() == 3));
        assert!(kept.bytes.len() <= KEPT_WORDS_BYTES_MAX);
        kept.clear();
        assert!(kept.get(places[0]).is_none());
    }

    #[test]
    fn a_client_with_too_much_under_way_loses_words_and_nothing_else() {
        let (mut kept, spec) = (KeptWords::default(), lookup(b"get").unwrap());
        let words = ArgBuf::of(["GET", "key"]);
        let places: Vec<u64> = (0..50_000).map(|_| kept.add(spec, &words.args())).collect();
        assert_eq!(kept.get(places[0]).unwrap().len(), 2);
        assert_eq!(places.last(), Some(&NOT_KEPT));
        assert_eq!(kept.get(NOT_KEPT), None);
    }
}
