//! Targets: where a reply goes.

use super::api::SessionId;

/// Destination of a reply: a place in a session's queue of replies, or an item of the array there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub session: SessionId,
    pub seq: u64,
    pub item: u32,
}

/// The whole reply rather than an item of it.
pub(super) const WHOLE: u32 = u32::MAX;

/// Reply of an attempt of the blocking command that the session waits in.
pub(super) const ATTEMPT: u32 = u32::MAX - 1;

/// Reply of a command that the script in the place of this target has called.
pub(super) const CALLED: u32 = u32::MAX - 2;

/// No place: the reply is dropped.
pub(super) const NOWHERE: Target = Target { session: SessionId(u64::MAX), seq: 0, item: WHOLE };
