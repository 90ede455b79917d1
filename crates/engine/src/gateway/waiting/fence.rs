//! `FENCE`: a command that is carried out only if its shard has seen no larger token of a lock, and
//! `LOCK.WAITERS` with its twin for barriers.
//!
//! Each shard judges by the tokens that it has seen itself. So all operations under one token must be on
//! one shard: on keys of one hash slot, which no split takes apart.

use crate::cluster::slot::slot;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::core::Core;
use crate::gateway::routing::databases::Reach;
use crate::gateway::routing::route::unusable_key;
use crate::gateway::txn::work::ProgramStep;
use crate::message::{Body, Fence};
use adt::{Args, Command, CommandSpec, ErrorReply, Flags, Handler};

/// Name of the command.
pub(in crate::gateway) const NAME: &str = "FENCE";
/// Number of words of `FENCE` before the command.
pub(in crate::gateway) const PREFIX: usize = 3;

/// Error for operations on several shards.
pub(in crate::gateway) fn several_shards() -> ErrorReply {
    let text = "FENCE takes keys of one hash slot (give them a common {tag}); for others use TXN, and \
                LOCK.HELD in it";
    ErrorReply::new("CROSSSLOT", text)
}

/// Slots of the keys of operations that are known and carried out in one step.
pub(in crate::gateway) fn slots_of(
    steps: &[ProgramStep],
    what: &str,
) -> Result<Vec<u16>, ErrorReply> {
    let mut slots = Vec::new();
    for step in steps {
        match step {
            ProgramStep::Ops(ops, _) => slots.extend(ops.iter().map(|(key, _)| slot(key))),
            ProgramStep::Fixed(_) => {}
            ProgramStep::Compound(_)
            | ProgramStep::Attempts(_)
            | ProgramStep::Script(_)
            | ProgramStep::Later(_) => {
                let text =
                    format!("{what} takes commands on keys that are carried out in one step");
                return Err(ErrorReply::err(text));
            }
        }
    }
    slots.dedup();
    Ok(slots)
}

/// Lock and token in the words of `FENCE`.
pub(in crate::gateway) fn fence_of(reach: Reach, args: &Args<'_>) -> Result<Fence, ErrorReply> {
    let lock = args.blob(1)?;
    if let Some(error) = unusable_key(reach, &lock) {
        return Err(error);
    }
    let token = args.int(2).ok().and_then(|token| u64::try_from(token).ok());
    let token = token.ok_or_else(|| {
        ErrorReply::err("FENCE takes a lock and the token that it was granted with, a number")
    })?;
    Ok(Fence { lock, token })
}

/// Whether operations that are known are on keys of one hash slot.
pub(in crate::gateway) fn of_one_slot(steps: &[ProgramStep]) -> Result<(), ErrorReply> {
    match slots_of(steps, NAME)?.len() {
        0 => Err(ErrorReply::err("FENCE takes a command on keys")),
        1 => Ok(()),
        _ => Err(several_shards()),
    }
}

/// Takes the command behind the words of `FENCE` or `LOCK.SECTION` as a step that needs no read before it.
pub(super) fn inner_step(
    spec: &CommandSpec,
    words: &Args<'_>,
    what: &str,
) -> Result<ProgramStep, ErrorReply> {
    let Handler::Data(parse) = spec.handler else {
        return Err(ErrorReply::err(format!("{what} takes a command on keys")));
    };
    if spec.flags.has(Flags::NO_MULTI) {
        return Err(ErrorReply::err(format!("{what} does not take '{}'", spec.name)));
    }
    match parse(words)? {
        command @ (Command::Single(..) | Command::Multi { .. }) => Ok(command.into()),
        _ => Err(ErrorReply::err(format!(
            "{what} does not take '{}', which looks before it writes; use TXN, and LOCK.HELD in it",
            spec.name
        ))),
    }
}

/// `LOCK.WAITERS` and `BARRIER.WAITING`.
pub(in crate::gateway) fn waiters(core: &Core, reach: Reach, args: &Args<'_>) -> CommandEffect {
    let key = match args.blob(1) {
        Ok(key) => key,
        Err(error) => return error.into(),
    };
    if let Some(error) = unusable_key(reach, &key) {
        return error.into();
    }
    let shard = core.mail.shard_of(&key);
    Inquiry::of_shard(Combine::One, shard, Body::Waiting { key }).into()
}
