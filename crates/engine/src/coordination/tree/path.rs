//! Paths of nodes: validity and parts.

use crate::limits::NODE_PATH_BYTES_MAX;
use adt::Blob;

/// The root.
pub const ROOT: &[u8] = b"/";

/// Whether a path is valid, by the rules of ZooKeeper's `PathUtils.validatePath`: absolute, without
/// empty, `.` or `..` parts, in UTF-8 without control characters, surrogates' places and private
/// use. Paths longer than [`NODE_PATH_BYTES_MAX`] are invalid too.
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
    // Characters beyond this have two surrogates in Java.
    !matches!(c,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// Path of the parent, and the name in it; none for the root.
pub fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let parent = parent_to_be(path)?;
    let name = &path[path.iter().rposition(|byte| *byte == b'/')? + 1..];
    (!name.is_empty()).then_some((parent, name))
}

/// Path of the parent of a node whose name is still incomplete and may be empty; none without a
/// slash.
pub fn parent_to_be(path: &[u8]) -> Option<&[u8]> {
    let slash = path.iter().rposition(|byte| *byte == b'/')?;
    Some(if slash == 0 { ROOT } else { &path[..slash] })
}

/// Path of a child.
pub fn join(parent: &[u8], name: &[u8]) -> Blob {
    let mut path = Vec::with_capacity(parent.len() + 1 + name.len());
    path.extend_from_slice(if parent == ROOT { b"" } else { parent });
    path.push(b'/');
    path.extend_from_slice(name);
    Blob::from(path)
}

/// The path and its ancestors, the root last.
pub fn upwards(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(path), |path| split(path).map(|(parent, _)| parent))
}

/// Whether a path equals another one or is below it.
pub fn is_at_or_below(path: &[u8], above: &[u8]) -> bool {
    upwards(path).any(|at| at == above)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_paths_are_distinguished_from_valid_ones() {
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
