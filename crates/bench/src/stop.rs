//! Ctrl-C: a measurement ends with an error wherever it is, so that all servers that it has started
//! end too and their files are removed.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Longest time between two checks of [`sleep`].
const SLICE: Duration = Duration::from_millis(100);

/// Makes these signals visible to [`check`] instead of ending the process: a process that ends at
/// once would leave its servers running and their files behind. All waits end by themselves.
///
/// # Errors
/// The system refuses.
pub fn listen() -> io::Result<()> {
    let stop = STOP.get_or_init(|| Arc::new(AtomicBool::new(false)));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(())
}

/// Checks for a signal.
///
/// # Errors
/// A signal was received.
pub fn check() -> io::Result<()> {
    match STOP.get() {
        Some(stop) if stop.load(Ordering::Relaxed) => {
            Err(io::Error::new(ErrorKind::Interrupted, "stopped"))
        }
        _ => Ok(()),
    }
}

/// Waits.
///
/// # Errors
/// A signal was received; then the wait is over.
pub fn sleep(duration: Duration) -> io::Result<()> {
    let start = Instant::now();
    loop {
        check()?;
        let left = duration.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(SLICE));
    }
}

/// The error of something that failed, or that there was a signal: Ctrl-C reaches the servers as
/// well, and what fails for that reason is no fault.
pub fn reason(error: io::Error) -> io::Error {
    check().err().unwrap_or(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_lasts_and_errors_stay_what_they_are_without_a_signal() {
        let start = Instant::now();
        sleep(Duration::from_millis(120)).expect("no signal");
        assert!(start.elapsed() >= Duration::from_millis(120));
        assert_eq!(reason(io::Error::other("broken")).to_string(), "broken");
    }
}
