//! Progress of a long command.

/// Receiver of the progress of a long command. Both numbers count files.
pub trait Progress: Sync {
    /// Begins a part of the command with this number of steps.
    fn begin(&self, what: &str, steps: u64);
    /// Completes one step.
    fn step(&self);
}

/// Discards the progress.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn step(&self) {}
}
