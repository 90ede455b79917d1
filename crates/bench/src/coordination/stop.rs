//! Ctrl-C: a measurement ends with an error wherever it is, so that all servers that it has started
//! end too.

use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Makes these signals visible to [`check`] instead of ending the process: a process that ends at
/// once would leave its servers running. All waits end by themselves.
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
