//! Placement rules: they give keys whose names begin alike a hash tag, so that these keys are on one shard.
//!
//! Libraries build names such as `bull:mail:17`, which fall on many slots. The rule `bull:*:` makes
//! `bull:mail:` the hash tag of that name, as if the library had written `{bull:mail:}17`. A name with a hash
//! tag of its own keeps it.

use std::fmt;
use std::sync::Arc;

/// Largest number of rules.
pub const TAG_RULES_MAX: usize = 32;
/// Largest length of a rule, in bytes.
pub const TAG_RULE_BYTES_MAX: usize = 64;
/// Longest prefix that a rule makes a hash tag, in bytes: stored keys have one byte for its length.
const TAG_BYTES_MAX: u8 = u8::MAX;

/// Hash tag that a name has by itself: what is between the first `{` and the next `}`, if that is anything.
pub fn hash_tag(name: &[u8]) -> Option<&[u8]> {
    let open = name.iter().position(|&byte| byte == b'{')?;
    let rest = &name[open + 1..];
    let length = rest.iter().position(|&byte| byte == b'}')?;
    (length > 0).then(|| &rest[..length])
}

/// Placement rules of a store, in their order: the first that fits a name counts.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TagRules(Option<Arc<[TagRule]>>);

/// One rule, as the texts between its asterisks. Each asterisk stands for one byte or more, for as few as
/// possible.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TagRule {
    first: Box<[u8]>,
    rest: Box<[Box<[u8]>]>,
}

impl TagRule {
    /// # Errors
    /// If the text is no rule.
    fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            |what: &str| Err(format!("'{text}' is no placement rule such as 'bull:*:': {what}"));
        if text.len() > TAG_RULE_BYTES_MAX {
            return wrong(&format!("it has more than {TAG_RULE_BYTES_MAX} bytes"));
        }
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return wrong("it has characters other than printable ASCII, or spaces");
        }
        if text.contains(['{', '}', '"', '\'', ',']) {
            return wrong("braces, quotes and commas cannot be in it");
        }
        let mut parts = text.split('*').map(|part| part.as_bytes().into());
        let first: Box<[u8]> = parts.next().unwrap_or_default();
        let rest: Box<[Box<[u8]>]> = parts.collect();
        if first.is_empty() || rest.iter().any(|part| part.is_empty()) {
            return wrong("text has to stand before, behind and between its asterisks");
        }
        Ok(Self { first, rest })
    }

    /// Length of the part of a name that fits.
    #[inline]
    fn fits(&self, name: &[u8]) -> Option<usize> {
        if !name.starts_with(&self.first) {
            return None;
        }
        let mut at = self.first.len();
        for part in &self.rest {
            let behind = name.get(at + 1..)?;
            at += 1 + behind.windows(part.len()).position(|bytes| *bytes == **part)? + part.len();
        }
        Some(at)
    }
}

impl fmt::Display for TagRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.first))?;
        self.rest.iter().try_for_each(|part| write!(f, "*{}", String::from_utf8_lossy(part)))
    }
}

impl TagRules {
    /// Rules of these texts.
    ///
    /// # Errors
    /// Says what is wrong with the first text that is no rule, or that there are too many.
    pub fn parse<T: AsRef<str>>(texts: &[T]) -> Result<Self, String> {
        if texts.len() > TAG_RULES_MAX {
            return Err(format!(
                "there are at most {TAG_RULES_MAX} placement rules, not {}",
                texts.len()
            ));
        }
        let rules = texts
            .iter()
            .map(|text| TagRule::parse(text.as_ref()))
            .collect::<Result<Vec<_>, _>>()?;
        let twice = |(at, rule): (usize, &TagRule)| rules[..at].contains(rule);
        if let Some(at) = rules.iter().enumerate().position(twice) {
            return Err(format!("the placement rule '{}' is there twice", rules[at]));
        }
        Ok(Self((!rules.is_empty()).then(|| rules.into())))
    }

    /// No rules.
    pub const NONE: Self = Self(None);

    /// Whether there are no rules.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Texts of the rules.
    pub fn texts(&self) -> Vec<String> {
        self.0.iter().flat_map(|rules| rules.iter()).map(TagRule::to_string).collect()
    }

    /// Length of the part of a name that a rule makes its hash tag.
    #[inline]
    pub(super) fn tag_length(&self, name: &[u8]) -> Option<u8> {
        let beginning = &name[..name.len().min(TAG_BYTES_MAX.into())];
        let fit = self.0.as_ref()?.iter().find_map(|rule| rule.fits(beginning))?;
        hash_tag(name).is_none().then_some(fit as u8)
    }

    /// Whether a rule gives a name a hash tag.
    #[inline]
    pub fn concern(&self, name: &[u8]) -> bool {
        self.tag_length(name).is_some()
    }
}

impl fmt::Debug for TagRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.texts()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(texts: &[&str]) -> TagRules {
        TagRules::parse(texts).unwrap()
    }

    #[test]
    fn an_asterisk_stands_for_as_little_as_possible() {
        let rules = rules(&["bull:*:", "a*b*c"]);
        let tag = |name: &str| {
            rules.tag_length(name.as_bytes()).map(|length| name[..length.into()].to_owned())
        };
        for (name, wanted) in [
            ("bull:mail:17", Some("bull:mail:")),
            ("bull:mail:", Some("bull:mail:")),
            ("bull:mail:events:x", Some("bull:mail:")),
            ("bull:mail", None),
            ("bull::x", None),
            ("bull:::", Some("bull:::")),
            ("bull", None),
            ("", None),
            ("xbull:mail:17", None),
            ("a1b22c3c", Some("a1b22c")),
            ("abbc", None),
            ("abbbcc", Some("abbbc")),
        ] {
            assert_eq!(tag(name).as_deref(), wanted, "{name}");
        }
    }

    #[test]
    fn a_hash_tag_of_the_name_itself_counts() {
        let rules = rules(&["bull:*:"]);
        assert!(!rules.concern(b"bull:{mail}:17") && !rules.concern(b"bull:mail:{17}"));
        assert!(rules.concern(b"bull:mail:{}") && rules.concern(b"bull:mail:{17"));
    }

    #[test]
    fn a_prefix_that_is_too_long_is_no_tag() {
        let rules = rules(&["a*:"]);
        let name = |length: usize| format!("a{}:rest", "x".repeat(length - 2)).into_bytes();
        assert_eq!(rules.tag_length(&name(255)), Some(255));
        assert_eq!(rules.tag_length(&name(256)), None);
    }

    #[test]
    fn texts_that_are_no_rules_are_refused_and_others_read_back() {
        let long = "x".repeat(TAG_RULE_BYTES_MAX + 1);
        for text in
            ["", "*", "*:", "a*", "a**b", "a b", "{a}", "caf\u{e9}:", "a\"", "a'", "a,b", &long]
        {
            assert!(TagRules::parse(&[text]).is_err(), "{text}");
        }
        assert!(TagRules::parse(&["a:", "b", "a:"]).unwrap_err().contains("twice"));
        let many: Vec<String> = (0..=TAG_RULES_MAX).map(|number| format!("r{number}:")).collect();
        assert!(TagRules::parse(&many).is_err());
        let texts = ["bull:*:", "session:", "a*b*c"];
        assert_eq!(rules(&texts).texts(), texts);
        assert!(rules(&[]).is_empty() && !rules(&texts).is_empty());
    }
}
