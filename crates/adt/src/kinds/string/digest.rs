//! Digests of strings, by which clients compare long ones: the 64 bits of XXH3, as in Redis 8.4.

use crate::{Args, Blob, ErrorReply, Reply};
use twox_hash::XxHash3_64;

/// Number of digits of a digest.
const DIGITS: usize = 16;

/// A string, or its digest, with which another is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compared {
    /// The whole string.
    Text(Blob),
    /// Digest of the string.
    Digest(u64),
}

impl Compared {
    /// The words that a condition compares with: the string behind `IFEQ` and `IFNE`, the digest behind
    /// `IFDEQ` and `IFDNE`. None for other conditions and where the word behind is missing. With it comes
    /// whether the two must be equal.
    pub(super) fn parse(args: &Args<'_>, at: usize) -> Result<Option<(Self, bool)>, ErrorReply> {
        let equal = args.is(at, "IFEQ") || args.is(at, "IFDEQ");
        let Some(word) = args.get(at + 1) else { return Ok(None) };
        Ok(match () {
            () if args.is(at, "IFEQ") || args.is(at, "IFNE") => {
                Some((Self::Text(args.blob(at + 1)?), equal))
            }
            () if args.is(at, "IFDEQ") || args.is(at, "IFDNE") => {
                let digest = parsed(word).ok_or_else(|| {
                    ErrorReply::err(format!(
                        "a digest must have exactly {DIGITS} hexadecimal digits"
                    ))
                })?;
                Some((Self::Digest(digest), equal))
            }
            () => None,
        })
    }

    /// The condition, and the word behind it.
    pub(super) fn words(&self, equal: bool) -> (&'static str, Blob) {
        match (self, equal) {
            (Self::Text(text), true) => ("ifeq", text.clone()),
            (Self::Text(text), false) => ("ifne", text.clone()),
            (Self::Digest(digest), true) => ("ifdeq", shown(*digest)),
            (Self::Digest(digest), false) => ("ifdne", shown(*digest)),
        }
    }

    /// Whether a string is meant.
    pub(super) fn is(&self, string: &Blob) -> bool {
        match self {
            Self::Text(text) => text == string,
            Self::Digest(digest) => *digest == digest_of(string),
        }
    }
}

fn digest_of(string: &[u8]) -> u64 {
    XxHash3_64::oneshot(string)
}

fn shown(digest: u64) -> Blob {
    Blob::from(format!("{digest:016x}").as_str())
}

fn parsed(word: &[u8]) -> Option<u64> {
    let digits = word.len() == DIGITS && word.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(word).ok().filter(|_| digits)?;
    u64::from_str_radix(text, 16).ok()
}

/// The reply of `DIGEST`.
pub(super) fn reply(string: &[u8]) -> Reply {
    Reply::Bulk(shown(digest_of(string)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_that_redis_and_dragonfly_document() {
        for (string, digest) in [
            ("Hello world", "b6acb9d84a38ff74"),
            ("test", "9ec9f7918d7dfc40"),
            ("hello", "9555e8555c62dcfd"),
        ] {
            assert_eq!(reply(string.as_bytes()), Reply::bulk(digest));
            let compared = Compared::Digest(parsed(digest.to_uppercase().as_bytes()).unwrap());
            assert!(compared.is(&Blob::from(string)));
            assert!(!compared.is(&Blob::from("other")));
        }
        for wrong in ["", "1", "+55e8555c62dcfd1", "9555e8555c62dcfg", "9555e8555c62dcfd0"] {
            assert_eq!(parsed(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
