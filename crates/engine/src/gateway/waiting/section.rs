//! `LOCK.SECTION`: a lock, operations under it and its release as one request, which waits for its turn
//! as an acquisition does.
//!
//! The operations go to the shard as one set, the first of which passes through the lock: all keys must be
//! of the lock's hash slot, which no split takes apart.

use super::fence::slots_of;
use crate::entry::Apply;
use crate::gateway::routing::databases::Reach;
use crate::gateway::routing::route::unusable_key_of;
use crate::gateway::txn::work::{Finish, Form, Outcome, Program, ProgramStep, Work};
use adt::{Args, Awaiting, ErrorReply};
use smallvec::SmallVec;

/// Name of the command.
pub(super) const NAME: &str = "LOCK.SECTION";

/// Whether all operations of a section are on keys of the lock's slot.
fn of_the_locks_slot(steps: &[ProgramStep]) -> Result<(), ErrorReply> {
    if slots_of(steps, NAME)?.len() > 1 {
        let text = "LOCK.SECTION takes keys of the hash slot of its lock (give them a common {tag}); for \
                    others hold the lock, and use TXN with LOCK.HELD in it";
        return Err(ErrorReply::new("CROSSSLOT", text));
    }
    Ok(())
}

/// Steps of a section about one command: the passage through the lock, and the command.
pub(super) fn steps(
    reach: Reach,
    lock: ProgramStep,
    command: ProgramStep,
) -> Result<Vec<ProgramStep>, ErrorReply> {
    let steps = vec![lock, command];
    of_the_locks_slot(&steps)?;
    match unusable_key_of(reach, &steps) {
        Some(error) => Err(error),
        None => Ok(steps),
    }
}

/// First step of a transaction that is to be a section, with the time-out of its wait in milliseconds.
pub(in crate::gateway) fn first_of_multi(
    args: &Args<'_>,
    is_first: bool,
) -> Result<(ProgramStep, u64), ErrorReply> {
    match adt::kinds::lock::section(args)? {
        (_, words) if words < args.len() => {
            Err(ErrorReply::err("LOCK.SECTION takes no command between MULTI and EXEC"))
        }
        _ if !is_first => Err(ErrorReply::err("LOCK.SECTION is the first command behind MULTI")),
        (Awaiting { key, op, timeout_ms, .. }, _) => {
            Ok((ProgramStep::Ops(vec![(key, op)], None), timeout_ms))
        }
    }
}

/// Whether a transaction can be a section.
pub(in crate::gateway) fn check(program: &Program) -> Result<(), ErrorReply> {
    if !program.guards.is_empty() {
        let text = "LOCK.SECTION goes together neither with WATCH nor with conditions of EXEC: the holder of \
                    the lock is the only one that changes what a section is about";
        return Err(ErrorReply::err(text));
    }
    of_the_locks_slot(&program.steps)
}

/// Operations of a section, whose first step passes through the lock, and the recipe for its reply.
pub(in crate::gateway) fn operations(program: Program) -> (Apply, Finish) {
    let Program { steps, form, guards, fences, request, .. } = program;
    let mut work = Work::default();
    for step in steps {
        match step {
            // The reply to one command has no room for the token.
            ProgramStep::Ops(ops, None) if form == Form::One && work.ops.is_empty() => {
                work.add_silent(ops);
            }
            ProgramStep::Ops(ops, merge) => work.add(ops, merge),
            ProgramStep::Fixed(reply) => work.add_without_ops(Outcome::Fixed(reply)),
            ProgramStep::Later(words) => work.add_without_ops(Outcome::Later(words)),
            ProgramStep::Compound(_) | ProgramStep::Attempts(_) | ProgramStep::Script(_) => {}
        }
    }
    let Work { ops, outcomes, .. } = work;
    let apply = Apply { ops: SmallVec::from_vec(ops), guards, fences, request };
    (apply, Finish::new(outcomes, form, None))
}
