//! Passwords of users in the store: SHA-256 digests as in Redis, which tools of Redis give and compare.
//!
//! A digest can be guessed much faster than a verifier of the configuration file, so such passwords must be
//! long and random (`ACL GENPASS`).

use ring::digest;

/// Beginning of a verifier that lists digests, separated by commas.
pub const DIGESTS: &str = "sha256:";
/// Characters of a digest.
const DIGITS: usize = 64;

/// SHA-256 digest of a password as hexadecimal digits.
pub fn digest_of(password: &[u8]) -> String {
    let digest = digest::digest(&digest::SHA256, password);
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether one of the digests that a verifier lists behind [`DIGESTS`] is that of the password.
pub fn fits_digest(password: &[u8], digests: &str) -> bool {
    let given = digest_of(password);
    let same = |digest: &str| {
        let pairs = digest.bytes().zip(given.bytes());
        digest.len() == given.len() && pairs.fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
    };
    // All are compared: the time says nothing.
    digests.split(',').fold(false, |fits, digest| fits | same(digest))
}

/// Rule with a password as the rule with its digest; other rules as they are. Fails if a rule is no text.
pub(super) fn digested(rule: &[u8]) -> Result<String, String> {
    match rule.split_first() {
        Some((b'>', password)) => Ok(format!("#{}", digest_of(password))),
        Some((b'<', password)) => Ok(format!("!{}", digest_of(password))),
        _ => match std::str::from_utf8(rule) {
            Ok(rule) if !rule.contains('\0') => Ok(rule.to_owned()),
            _ => Err("a rule is text in UTF-8 without zero bytes".to_owned()),
        },
    }
}

/// Digest in a rule.
pub(super) fn digest_in(digest: &str) -> Result<String, String> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match digest.len() == DIGITS && digest.bytes().all(is_digit) {
        true => Ok(digest.to_owned()),
        false => Err(format!(
            "the password hash must be exactly {DIGITS} characters and contain only lowercase hexadecimal \
             characters"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_fit_their_digests_only() {
        let digest = digest_of(b"secret");
        assert_eq!(digest, "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b");
        let list = format!("{},{digest}", digest_of(b"other"));
        assert!(fits_digest(b"secret", &list) && fits_digest(b"other", &list));
        for wrong in [&b""[..], b"Secret", digest.as_bytes()] {
            assert!(!fits_digest(wrong, &list));
        }
        assert!(!fits_digest(b"", "") && !fits_digest(b"secret", &digest[..63]));
    }

    #[test]
    fn rules_hold_digests_instead_of_passwords() {
        assert_eq!(digested(b">p\xff\0").unwrap(), format!("#{}", digest_of(b"p\xff\0")));
        assert_eq!(digested(b"<p").unwrap(), format!("!{}", digest_of(b"p")));
        assert_eq!(digested(b"~key:*").unwrap(), "~key:*");
        assert!(digested(b"~\xff").is_err() && digested(b"~a\0b").is_err());
        assert!(digest_in(&digest_of(b"p")).is_ok());
        for wrong in ["", "abc", &"A".repeat(64), &"g".repeat(64)] {
            assert!(digest_in(wrong).is_err());
        }
    }
}
