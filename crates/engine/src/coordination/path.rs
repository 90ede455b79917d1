//! Paths of nodes: which there can be, and what their parts are.

use crate::limits::NODE_PATH_BYTES_MAX;
use adt::Blob;

/// The root.
pub const ROOT: &[u8] = b"/";

/// Whether there can be a node of this path, as ZooKeeper's `PathUtils.validatePath` has it: absolute,
/// without empty, `.` or `..` parts, in UTF-8 without control characters, surrogates' places and
/// private use. Longer ones than [`NODE_PATH_BYTES_MAX`] cannot be either.
pub fn is_valid(path: &[u8]) -> bool {
    if path == ROOT {
        return true;
    }
    let Some(rest) = path.strip_prefix(b"/") else { return false };
    let Ok(text) = std::str::from_utf8(rest) else { return false };
    path.len() <= NODE_PATH_BYTES_MAX
        && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && text.chars().all(is_allowed)
}

fn is_allowed(c: char) -> bool {
    // What is beyond has two surrogates in Java.
    !matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The path of the parent and the name in it; none for the root.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let parent = parent_to_be(path)?;
    let name = &path[path.iter().rposition(|byte| *byte == b'/')? + 1..];
    (!name.is_empty()).then_some((parent, name))
}

/// The path of the parent of a node whose name may still get longer, and be empty so far; none if there
/// is no slash.
pub fn parent_to_be(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    Some(if slash == 0 { ROOT } else { &path[..slash] })
}

/// The path of a child.
pub fn join(parent: &[u8], name: &[u8]) -> Blob {
    let mut path = Vec::with_capacity(parent.len() + 1 + name.len());
    path.extend_from_slice(if parent == ROOT { b"" } else { parent });
    path.push(b'/');
    path.extend_from_slice(name);
    Blob::from(path)
}

/// The path and those of its ancestors, the root last.
pub fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |path| split(path).map(|(parent, _)| parent))
}

/// Whether a path is another one or below it.
pub fn is_at_or_below(path: &[u8], above: &[u8]) -> bool {
    upwards(path).any(|at| at == above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_cannot_be_are_told_from_those_that_can() {
        for good in ["/", "/a", "/a/b", "/zażółć", "/a.b", "/...", "/a b"] {
            assert!(is_valid(good.as_bytes()), "{good}");
        }
        for bad in ["", "a", "a/b", "/a/", "//", "/a//b", "/.", "/a/..", "/a/./b", "/a\0", "/\u{1}"]
        {
            assert!(!is_valid(bad.as_bytes()), "{bad:?}");
        }
        for bad in ["/\u{7f}", "/\u{e000}", "/\u{ffff}", "/\u{1f600}"] {
            assert!(!is_valid(bad.as_bytes()), "{bad:?}");
        }
        assert!(!is_valid(b"/\xff"));
        let longest = [b"/".as_slice(), &vec![b'a'; NODE_PATH_BYTES_MAX - 1]].concat();
        assert!(is_valid(&longest));
        assert!(!is_valid(&[longest.as_slice(), b"a"].concat()));
    }

    #[test]
    fn a_path_falls_into_parent_and_name_and_comes_together_again() {
        assert_eq!(split(b"/"), None);
        assert_eq!(split(b"/a"), Some((b"/".as_slice(), b"a".as_slice())));
        assert_eq!(split(b"/a/b"), Some((b"/a".as_slice(), b"b".as_slice())));
        assert_eq!(join(b"/", b"a"), Blob::from("/a"));
        assert_eq!(join(b"/a", b"b"), Blob::from("/a/b"));
        for (path, is) in [("/a/b", true), ("/a", true), ("/ab", false), ("/", false)] {
            assert_eq!(is_at_or_below(path.as_bytes(), b"/a"), is, "{path}");
        }
        let up: Vec<&[u8]> = upwards(b"/a/b").collect();
        assert_eq!(up, [b"/a/b".as_slice(), b"/a", b"/"]);
    }
}
