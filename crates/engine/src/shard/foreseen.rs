//! Predictions of records.

use adt::collections::Map;
use adt::{Blob, Record};

/// Predicted records, with the entry up to which they are known.
pub(in crate::shard) type Foreseen = Map<Blob, (u64, Option<Record>)>;

/// Effects of operations on records, which are known before the operations are in the log.
#[derive(Debug)]
pub(in crate::shard) struct Effects {
    /// The records that are written, as they will be when everything in the log is applied, and until when
    /// that is kept: see [`super::locking::locks::LockTable::put_foreseen`].
    pub records: Vec<(Blob, Option<Record>, u64)>,
    /// Time by which the operations went, in milliseconds since 1970.
    pub now_ms: u64,
}
