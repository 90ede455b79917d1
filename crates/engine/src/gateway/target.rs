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

/// Rules of the user as which the session authenticates.
pub(super) const LOGIN: u32 = u32::MAX - 3;

/// Change of users that the session has made.
pub(super) const USERS: u32 = u32::MAX - 4;

/// Knowledge about the client that the session's cache is redirected to.
pub(super) const CACHE: u32 = u32::MAX - 5;

/// No place: the reply is dropped.
pub(super) const NOWHERE: Target = Target { session: SessionId(u64::MAX), seq: 0, item: WHOLE };

/// Definitions of composed types, which commands of sessions wait for.
pub(super) const TYPES: Target = Target { session: SessionId(u64::MAX), seq: 2, item: WHOLE };

/// Rules of the users of all sessions.
pub(super) const LOOK: Target = Target { session: SessionId(u64::MAX), seq: 1, item: USERS };
