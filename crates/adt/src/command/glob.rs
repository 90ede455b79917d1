//! Glob patterns as `KEYS`, `SCAN` and `PSUBSCRIBE` take them: `*`, `?`, `[a-z]`, `[^x]`, `\x`.
//!
//! The matcher is iterative and remembers only the last star, so a pattern with many stars costs
//! at most pattern length times text length (the recursive form made servers hang: CVE-2022-36021).

/// Whether the whole of `text` matches `pattern`.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p + 1, t));
            p += 1;
            continue;
        }
        if t == text.len() {
            return pattern[p..].iter().all(|&b| b == b'*');
        }
        match one(&pattern[p..], text[t]) {
            Some(used) => {
                p += used;
                t += 1;
            }
            None => match star {
                Some((after, from)) => {
                    p = after;
                    t = from + 1;
                    star = Some((after, from + 1));
                }
                None => return false,
            },
        }
    }
}

/// Matches one byte against the head of the pattern; gives the length of that head.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (length, hit) = class(rest, byte);
            hit.then_some(length + 1)
        }
        [literal, ..] => (*literal == byte).then_some(1),
    }
}

/// A character class after its opening bracket: its length and whether `byte` is in it. A class
/// that is never closed reaches to the end of the pattern, as in Redis.
fn class(rest: &[u8], byte: u8) -> (usize, bool) {
    let negated = rest.first() == Some(&b'^');
    let mut i = usize::from(negated);
    let mut hit = false;
    while i < rest.len() && rest[i] != b']' {
        if rest[i] == b'\\' && i + 1 < rest.len() {
            hit |= rest[i + 1] == byte;
            i += 2;
        } else if i + 2 < rest.len() && rest[i + 1] == b'-' {
            let (low, high) = (rest[i].min(rest[i + 2]), rest[i].max(rest[i + 2]));
            hit |= (low..=high).contains(&byte);
            i += 3;
        } else {
            hit |= rest[i] == byte;
            i += 1;
        }
    }
    ((i + 1).min(rest.len()), hit != negated)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns_of_the_redis_documentation() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h*llo", "heeeello", true),
            ("h[ae]llo", "hello", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            (r"h\*llo", "h*llo", true),
            (r"h\*llo", "hello", false),
            ("*a*b*c", "xxaxxbxxc", true),
            ("*a*b*c", "xxaxxbxx", false),
            ("[abc", "a", true),
            ("", "", true),
            ("", "a", false),
            ("a*", "a", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "a*".repeat(500) + "b";
        assert!(!matches(pattern.as_bytes(), "a".repeat(5000).as_bytes()));
    }
}
