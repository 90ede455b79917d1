//! Ctrl-C: a measurement ends where it is, with an error, so that whatever it has started ends with
//! it.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From now on these signals do not end the process but are seen by [`check`]: whoever ends at once
/// leaves the servers behind that it has started. All that is waited for ends by itself.
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

/// An error if somebody wants it to end.
///
/// # Errors
/// Somebody does.
pub fn check() -> io::Result<()> {
    match STOP.get() {
        Some(stop) if stop.load(Ordering::Relaxed) => {
            Err(io::Error::new(ErrorKind::Interrupted, "stopped"))
        }
        _ => Ok(()),
    }
}
