//! `FENCE`: a command that is carried out only if its shard has seen no larger token of a lock, and
//! `LOCK.WAITERS` with its twin for barriers.
//!
//! Each shard judges by what it has seen itself, so that whatever is done under one token must be on
//! one shard: on keys of one hash slot, which no split takes apart.

use crate::gateway::Gateway;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::{Effect, Handled};
use crate::gateway::clients::session::{Mode, Session};
use crate::gateway::core::Core;
use crate::gateway::routing::route::{key_too_long, long_key};
use crate::gateway::txn::work::Step;
use crate::limits::FENCES_PER_REQUEST_MAX;
use crate::message::{Body, Fence};
use crate::slot::slot;
use adt::{Args, Command, ErrorReply, Flags, Handler, Reply};

/// The words of `FENCE` before the command.
const PREFIX: usize = 3;

/// The error for something on several shards.
pub(in crate::gateway) fn several_shards() -> ErrorReply {
    let text = "FENCE takes keys of one hash slot (give them a common {tag}); for others use TXN, and \
                LOCK.HELD in it";
    ErrorReply::new("CROSSSLOT", text)
}

/// The slots of the keys of operations that are known and carried out in one step.
pub(in crate::gateway) fn slots_of(steps: &[Step], what: &str) -> Result<Vec<u16>, ErrorReply> {
    let mut slots = Vec::new();
    for step in steps {
        match step {
            Step::Ops(ops, _) => slots.extend(ops.iter().map(|(key, _)| slot(key))),
            Step::Fixed(_) => {}
            Step::Compound(_) | Step::Attempts(_) | Step::Later(_) => {
                let text =
                    format!("{what} takes commands on keys that are carried out in one step");
                return Err(ErrorReply::err(text));
            }
        }
    }
    slots.dedup();
    Ok(slots)
}

fn fence_of(args: &Args<'_>) -> Result<Fence, ErrorReply> {
    let lock = args.blob(1)?;
    if let Some(error) = key_too_long(&lock) {
        return Err(error);
    }
    let token = args.int(2).ok().and_then(|token| u64::try_from(token).ok());
    let token = token.ok_or_else(|| {
        ErrorReply::err("FENCE takes a lock and the token that it was granted with, a number")
    })?;
    Ok(Fence { lock, token })
}

/// Whether operations that are known are on keys of one hash slot.
pub(in crate::gateway) fn of_one_slot(steps: &[Step]) -> Result<(), ErrorReply> {
    match slots_of(steps, "FENCE")?.len() {
        0 => Err(ErrorReply::err("FENCE takes a command on keys")),
        1 => Ok(()),
        _ => Err(several_shards()),
    }
}

impl Gateway {
    /// `FENCE` outside of `MULTI`.
    pub(in crate::gateway) fn fence(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let (fence, step) = match fence_of(args).and_then(|fence| {
            let step = self.step_behind(id, args, PREFIX, "FENCE")?;
            step.map(|step| (fence, step)).ok_or_else(|| {
                ErrorReply::err("FENCE without a command belongs between MULTI and EXEC")
            })
        }) {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        let steps = vec![step];
        if let Err(error) = of_one_slot(&steps) {
            return error.into();
        }
        if let Some(error) = long_key(&steps) {
            return error.into();
        }
        if self.launch_in_turn(id, steps, vec![fence]) { Handled::Later } else { Handled::Hold }
    }

    /// `FENCE` between `MULTI` and `EXEC`.
    pub(in crate::gateway) fn fence_in_multi(&mut self, id: SessionId, args: &Args<'_>) -> bool {
        let parsed = fence_of(args)
            .and_then(|fence| Ok((fence, self.step_behind(id, args, PREFIX, "FENCE")?)));
        let (fence, step) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => {
                self.refuse(id, error);
                return true;
            }
        };
        let Some(Session { mode: Mode::Multi(multi), .. }) = self.sessions.get_mut(id.0) else {
            return true;
        };
        if multi.fences.len() >= FENCES_PER_REQUEST_MAX {
            let text = format!("a transaction comes with at most {FENCES_PER_REQUEST_MAX} tokens");
            self.refuse(id, ErrorReply::err(text));
            return true;
        }
        multi.fences.push(fence);
        self.queue_step(id, step.unwrap_or(Step::Fixed(Reply::Ok)), args);
        true
    }

    /// The command in the words of another one, which is `what`, from a word on.
    pub(in crate::gateway) fn step_behind(
        &mut self,
        id: SessionId,
        args: &Args<'_>,
        from: usize,
        what: &str,
    ) -> Result<Option<Step>, ErrorReply> {
        let Some(words) = args.tail(from) else { return Ok(None) };
        let spec = self.find(&words)?;
        self.permit(id, spec, &words)?;
        let Handler::Data(parse) = spec.handler else {
            return Err(ErrorReply::err(format!("{what} takes a command on keys")));
        };
        if spec.flags.has(Flags::NO_MULTI) {
            return Err(ErrorReply::err(format!("{what} does not take '{}'", spec.name)));
        }
        match parse(&words)? {
            command @ (Command::Single(..) | Command::Multi { .. }) => Ok(Some(command.into())),
            _ => Err(ErrorReply::err(format!(
                "{what} does not take '{}', which looks before it writes; use TXN, and LOCK.HELD in it",
                spec.name
            ))),
        }
    }
}

/// `LOCK.WAITERS` and `BARRIER.WAITING`.
pub(in crate::gateway) fn waiters(core: &Core, args: &Args<'_>) -> Effect {
    let key = match args.blob(1) {
        Ok(key) => key,
        Err(error) => return error.into(),
    };
    if let Some(error) = key_too_long(&key) {
        return error.into();
    }
    let shard = core.mail.shard_of(&key);
    Inquiry::of_shard(Combine::One, shard, Body::Waiting { key }).into()
}
