//! Allocator of the program, and its statistics.

use tikv_jemalloc_ctl::{background_thread, epoch, stats};

/// jemalloc fragments less than the system's allocator under allocations of many sizes, and reports
/// the memory in use.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Begins to give memory that was freed back to the system in the background, after ten seconds. Otherwise a
/// thread does it while it allocates, so that what a log or a load of data took stays with the process for as
/// long as its thread has little to do.
pub fn give_back_in_background() {
    // Where the system has no such threads, memory is given back later.
    let _ = background_thread::write(true);
}

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
    fn memory_is_given_back_in_the_background() {
        give_back_in_background();
        assert!(background_thread::read().unwrap());
    }

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
