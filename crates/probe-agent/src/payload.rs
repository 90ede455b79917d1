//! Bytes that cannot be compressed, the same for the whole life of a process.

use probe::random::Numbers;
use std::sync::Arc;

/// Creates a payload of this size.
pub fn payload(bytes: u32, seed: u64) -> Arc<[u8]> {
    let mut numbers = Numbers::new(seed);
    let words = (0..bytes.div_ceil(8)).flat_map(|_| numbers.next_u64().to_le_bytes());
    words.take(bytes as usize).collect()
}
