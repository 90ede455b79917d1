//! Evidence of a run: what is read from the bytes on the disks, and the hash over all events.

pub(crate) mod joints;
pub(crate) mod positions;
pub(crate) mod spread;
pub(crate) mod trace;
pub(crate) mod zxids;
