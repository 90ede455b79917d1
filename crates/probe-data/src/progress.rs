//! How far a long command is.

/// Is told how far a long command is. Both numbers count files.
pub trait Progress: Sync {
    /// A part of the command begins, with so many steps.
    fn begin(&self, what: &str, steps: u64);
    /// One more step is done.
    fn step(&self);
}

/// Tells nobody.
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _: &str, _: u64) {}
    fn step(&self) {}
}
