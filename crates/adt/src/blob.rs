//! [`Blob`]: an immutable byte string that is cheap to copy and to share.
//!
//! Keys, members and most values in a store of shared counters, bids and posts are short. Up to
//! [`Blob::INLINE_MAX`] bytes live inside the 24-byte value itself, so that parsing a typical
//! command allocates nothing; longer strings are reference counted.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// An immutable, cheaply cloned byte string. Ordering and hashing are those of the bytes.
#[derive(Clone)]
pub struct Blob(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; Blob::INLINE_MAX] },
    Shared(Arc<[u8]>),
}

impl Blob {
    /// Longest byte string that needs no allocation.
    pub const INLINE_MAX: usize = 22;

    /// Copies `bytes`.
    pub fn new(bytes: &[u8]) -> Self {
        if bytes.len() <= Self::INLINE_MAX {
            let mut inline = [0; Self::INLINE_MAX];
            inline[..bytes.len()].copy_from_slice(bytes);
            Self(Repr::Inline { len: bytes.len() as u8, bytes: inline })
        } else {
            Self(Repr::Shared(Arc::from(bytes)))
        }
    }

    /// The bytes.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Shared(bytes) => bytes,
        }
    }

    /// Bytes held outside of the value itself and shared with no other value.
    #[inline]
    pub fn own_bytes(&self) -> usize {
        match &self.0 {
            Repr::Shared(bytes) if Arc::strong_count(bytes) == 1 => bytes.len(),
            _ => 0,
        }
    }

    /// Bytes held outside of the value itself; shared strings count in full for every holder.
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Repr::Inline { .. } => 0,
            Repr::Shared(bytes) => bytes.len() + 16,
        }
    }
}

impl Deref for Blob {
    type Target = [u8];
    #[inline]
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl Borrow<[u8]> for Blob {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl AsRef<[u8]> for Blob {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Default for Blob {
    fn default() -> Self {
        Self::new(b"")
    }
}

impl PartialEq for Blob {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Blob {}

impl PartialOrd for Blob {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Blob {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_slice().cmp(other.as_slice())
    }
}

impl Hash for Blob {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_slice().hash(state);
    }
}

impl fmt::Debug for Blob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_slice().escape_ascii())
    }
}

impl From<&[u8]> for Blob {
    fn from(bytes: &[u8]) -> Self {
        Self::new(bytes)
    }
}

impl<const N: usize> From<&[u8; N]> for Blob {
    fn from(bytes: &[u8; N]) -> Self {
        Self::new(bytes)
    }
}

impl From<&str> for Blob {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<String> for Blob {
    fn from(text: String) -> Self {
        Self::new(text.as_bytes())
    }
}

impl From<Vec<u8>> for Blob {
    fn from(bytes: Vec<u8>) -> Self {
        Self::new(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_strings_are_inline_and_long_ones_are_shared() {
        assert_eq!(size_of::<Blob>(), 24);
        for len in [0, 1, 21, 22, 23, 1000] {
            let bytes = vec![b'x'; len];
            let blob = Blob::new(&bytes);
            assert_eq!(blob.as_slice(), &bytes[..]);
            assert_eq!(blob.heap_bytes() == 0, len <= Blob::INLINE_MAX);
        }
    }

    #[test]
    fn order_and_equality_are_those_of_the_bytes() {
        let mut blobs: Vec<Blob> =
            ["b", "a", "a much longer string than fits inline", ""].map(Blob::from).to_vec();
        blobs.sort();
        assert_eq!(blobs[0], Blob::from(""));
        assert_eq!(blobs[1], Blob::from("a"));
        assert_eq!(blobs[2], Blob::from("a much longer string than fits inline"));
    }
}
