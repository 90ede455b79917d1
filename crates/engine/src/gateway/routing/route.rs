//! Routes: the shards that a program concerns.

use super::databases::Reach;
use crate::cluster::slot::slot;
use crate::entry::Apply;
use crate::gateway::core::Core;
use crate::gateway::txn::work::ProgramStep;
use crate::ids::{KeyedOp, ShardId};
use crate::limits::KEY_BYTES_MAX;
use crate::message::Guard;
use adt::command::database;
use adt::{Blob, Command, ErrorReply, Op};

/// Shards that a program concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Route {
    /// No shard.
    Nowhere,
    /// One shard.
    One(ShardId),
    /// Several shards.
    Many,
}

impl Route {
    /// Adds a shard.
    pub fn add(&mut self, shard: ShardId) {
        *self = match *self {
            Self::Nowhere => Self::One(shard),
            Self::One(one) if one == shard => Self::One(one),
            _ => Self::Many,
        };
    }
}

/// Route of the operations of steps that are known before anything is read, and of guards.
pub(in crate::gateway) fn route_of(core: &Core, steps: &[ProgramStep], guards: &[Guard]) -> Route {
    let mut route = Route::Nowhere;
    for step in steps {
        match step {
            ProgramStep::Ops(ops, _) => {
                ops.iter().for_each(|(key, _)| route.add(core.mail.shard_of(key)));
            }
            ProgramStep::Compound(_) | ProgramStep::Attempts(_) | ProgramStep::Script(_) => {
                return Route::Many;
            }
            ProgramStep::Fixed(_) | ProgramStep::Later(_) => {}
        }
    }
    guards.iter().for_each(|guard| route.add(core.mail.shard_of(&guard.key)));
    route
}

/// Redirection of a client that knows the leaders, if it has sent a command to the wrong machine. Commands on
/// several shards, and commands that wait, are carried out at any machine.
pub(in crate::gateway) fn redirection(
    core: &Core,
    asks_replicas: bool,
    command: &Command,
) -> Option<ErrorReply> {
    let (mut route, mut first) = (Route::Nowhere, None);
    // A client that computes slots does not know of placement rules: it would be sent to and fro.
    let mut is_known = true;
    let mut add = |key: &Blob, op: &Op| {
        is_known &= !database::is_tagged(key);
        if op.is_write() || !asks_replicas {
            route.add(core.mail.shard_of(key));
            first.get_or_insert(slot(key));
        }
    };
    match command {
        Command::Single(key, op) => add(key, op),
        Command::Multi { ops, .. } => ops.iter().for_each(|(key, op)| add(key, op)),
        _ => {}
    }
    let slot = first.filter(|_| is_known)?;
    let Route::One(shard) = route else { return None };
    core.moved(shard, slot)
}

/// Error for a key that a command cannot have: it is too long, or out of reach.
pub(in crate::gateway) fn unusable_key(reach: Reach, key: &Blob) -> Option<ErrorReply> {
    if key.len() > KEY_BYTES_MAX && database::name_of(key).len() > KEY_BYTES_MAX {
        return Some(ErrorReply::err(format!("a key has at most {KEY_BYTES_MAX} bytes")));
    }
    (!reach.has(key)).then(database::reserved)
}

/// Whether an operation concerns all keys.
pub(in crate::gateway) fn about_all(ops: &[KeyedOp]) -> bool {
    ops.iter().any(|(_, op)| op.whole().is_some())
}

/// Whether operations only read, under no condition and no request number.
pub(in crate::gateway) fn only_reads(apply: &Apply) -> bool {
    apply.guards.is_empty()
        && apply.fences.is_empty()
        && apply.request.is_none()
        && apply.ops.iter().all(|(_, op)| !op.is_write())
}

/// Error for the first key of a program that a command cannot have.
pub(in crate::gateway) fn unusable_key_of(
    reach: Reach,
    steps: &[ProgramStep],
) -> Option<ErrorReply> {
    let unusable = |key: &Blob| unusable_key(reach, key);
    steps.iter().find_map(|step| match step {
        // Operations on all keys have a key for their routes only.
        ProgramStep::Ops(ops, _) if about_all(ops) => None,
        ProgramStep::Ops(ops, _) => ops.iter().find_map(|(key, _)| unusable(key)),
        ProgramStep::Compound(compound) => compound.reads.iter().find_map(|(key, _)| unusable(key)),
        ProgramStep::Attempts(blocking) => {
            blocking.attempts.iter().find_map(|(key, _)| unusable(key))
        }
        // These are names, whatever the database.
        ProgramStep::Script(call) => {
            call.inputs.keys.iter().find_map(|key| unusable_key(Reach::In(0), key))
        }
        ProgramStep::Fixed(_) | ProgramStep::Later(_) => None,
    })
}
