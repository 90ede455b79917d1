//! Allocator of the program, and its statistics.

use tikv_jemalloc_ctl::{epoch, stats};

/// jemalloc fragments less than the system's allocator under allocations of many sizes, and reports
/// the memory in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Bytes that the program has allocated.
pub fn allocated_bytes() -> Option<u64> {
    // The statistics are those of the last epoch.
    epoch::advance().ok()?;
    stats::allocated::read().ok().map(|bytes| bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_tells_what_is_in_use() {
        let before = allocated_bytes().unwrap();
        let block = std::hint::black_box(vec![1u8; 32 << 20]);
        let with_block = allocated_bytes().unwrap();
        drop(block);
        // The test harness starts and ends threads of its own.
        assert!(with_block >= before + (30 << 20), "{before}, then {with_block}");
    }
}
