//! Predictions of records.

use adt::collections::Map;
use adt::{Blob, Record};

/// Predicted records, with the entry up to which they are known.
pub(in crate::shard) type Foreseen = Map<Blob, (u64, Option<Record>)>;
