//! Pause of the commands of all clients of a machine (`CLIENT PAUSE`).

/// Pause of the commands of all clients.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    /// Monotonic time of its end, in microseconds.
    pub until_us: u64,
    /// Whether commands that only read are held back too.
    pub all: bool,
    /// Bytes of the commands that were held back.
    pub bytes: usize,
    /// Number of commands that were held back whose replies may be large.
    pub heavy: usize,
}
