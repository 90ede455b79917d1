//! Routes: the shards that a program concerns.

use crate::gateway::txn::work::ProgramStep;
use crate::ids::ShardId;
use crate::limits::KEY_BYTES_MAX;
use adt::{Blob, ErrorReply};

/// Shards that a program concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Route {
    Nowhere,
    One(ShardId),
    Many,
}

impl Route {
    pub fn add(&mut self, shard: ShardId) {
        *self = match *self {
            Self::Nowhere => Self::One(shard),
            Self::One(one) if one == shard => Self::One(one),
            _ => Self::Many,
        };
    }
}

/// Error for a key that is too long.
pub(in crate::gateway) fn key_too_long(key: &Blob) -> Option<ErrorReply> {
    (key.len() > KEY_BYTES_MAX)
        .then(|| ErrorReply::err(format!("a key has at most {KEY_BYTES_MAX} bytes")))
}

/// Error for the first key of a program that is too long.
pub(in crate::gateway) fn long_key(steps: &[ProgramStep]) -> Option<ErrorReply> {
    steps.iter().find_map(|step| match step {
        ProgramStep::Ops(ops, _) => ops.iter().find_map(|(key, _)| key_too_long(key)),
        ProgramStep::Compound(compound) => {
            compound.reads.iter().find_map(|(key, _)| key_too_long(key))
        }
        ProgramStep::Attempts(blocking) => {
            blocking.attempts.iter().find_map(|(key, _)| key_too_long(key))
        }
        ProgramStep::Fixed(_) | ProgramStep::Later(_) => None,
    })
}
