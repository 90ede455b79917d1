//! Slots of a shard.

use crate::cluster::map::Range;
use crate::cluster::slot::slot;

/// The slots of a shard, as far as splits have made them others than those it was founded with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Slots {
    /// How often the shard was split.
    pub splits: u16,
    /// The slots; none if they never changed.
    pub range: Option<Range>,
}

/// Whether a key belongs to a range of slots.
pub(in crate::shard) fn is_in(key: &[u8], (first, last): Range) -> bool {
    (first..=last).contains(&slot(key))
}
