//! Passes over the data, on which the analyses rest.

pub(in crate::analyze) mod observe;
pub(in crate::analyze) mod pairing;
pub(in crate::analyze) mod recent;
pub(in crate::analyze) mod second;
pub(in crate::analyze) mod sessions;
pub(in crate::analyze) mod spread;
pub(in crate::analyze) mod thinned;
