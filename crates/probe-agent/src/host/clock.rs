//! Both clocks at one moment.

use probe::caller::Moment;
use rustix::time::{ClockId, Timespec, clock_gettime};

fn ns(time: Timespec) -> i64 {
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// Nanoseconds since 1970.
pub fn wall_ns() -> i64 {
    ns(clock_gettime(ClockId::Realtime))
}

/// Nanoseconds since the host booted.
pub fn mono_ns() -> i64 {
    ns(clock_gettime(ClockId::Monotonic))
}

/// Nanoseconds of processor time of this thread.
pub fn thread_cpu_ns() -> i64 {
    ns(clock_gettime(ClockId::ThreadCPUTime))
}

/// Nanoseconds of processor time of this process.
pub fn process_cpu_ns() -> i64 {
    ns(clock_gettime(ClockId::ProcessCPUTime))
}

/// Current time on both clocks.
pub fn now() -> Moment {
    Moment { wall_ns: wall_ns(), mono_ns: mono_ns() }
}
