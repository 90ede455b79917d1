//! A pattern, a zero byte, a text: matching ends, agrees with a plain recursive matcher where that
//! one is affordable, and an escaped text matches itself.
#![no_main]

use adt::command::glob::matches;
use libfuzzer_sys::fuzz_target;

/// Patterns of literals, `?` and `*`, by the definition.
fn plain(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern, text) {
        ([], _) => text.is_empty(),
        ([b'*', rest @ ..], _) => (0..=text.len()).any(|skip| plain(rest, &text[skip..])),
        ([b'?', rest @ ..], [_, tail @ ..]) => plain(rest, tail),
        ([literal, rest @ ..], [byte, tail @ ..]) => literal == byte && plain(rest, tail),
        _ => false,
    }
}

fuzz_target!(|data: &[u8]| {
    let mut parts = data.splitn(2, |b| *b == 0);
    let pattern = parts.next().unwrap_or_default();
    let text = parts.next().unwrap_or_default();
    let found = matches(pattern, text);
    let simple = !pattern.iter().any(|b| matches!(b, b'[' | b']' | b'\\'));
    let stars = pattern.iter().filter(|b| **b == b'*').count();
    if simple && stars <= 3 && text.len() <= 64 {
        assert_eq!(found, plain(pattern, text));
    }
    let escaped: Vec<u8> = text.iter().flat_map(|b| [b'\\', *b]).collect();
    assert!(matches(&escaped, text));
    assert!(matches(b"*", text));
});
