//! `LOCK.SECTION`: a lock, what is done under it and its release as one request, which waits for its turn
//! as an acquisition does.
//!
//! What it does goes to the shard as one set of operations, the first of which passes through the lock:
//! all keys must be of the lock's hash slot, which no split takes apart.

use super::fence::slots_of;
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Mode, Session};
use crate::gateway::routing::route::long_key;
use crate::gateway::txn::work::{Finish, Form, Outcome, Program, Step, Work};
use adt::{Args, Awaiting, ErrorReply};
use smallvec::SmallVec;

const NAME: &str = "LOCK.SECTION";

/// Whether what a section does is on keys of the lock's slot.
fn of_the_locks_slot(steps: &[Step]) -> Result<(), ErrorReply> {
    if slots_of(steps, NAME)?.len() > 1 {
        let text = "LOCK.SECTION takes keys of the hash slot of its lock (give them a common {tag}); for \
                    others hold the lock, and use TXN with LOCK.HELD in it";
        return Err(ErrorReply::new("CROSSSLOT", text));
    }
    Ok(())
}

impl Gateway {
    /// `LOCK.SECTION` outside of `MULTI`: about one command.
    pub(in crate::gateway) fn section(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let parsed = adt::lock::section(args).and_then(|(awaiting, words)| {
            let step = self.step_behind(id, args, words, NAME)?.ok_or_else(|| {
                ErrorReply::err("LOCK.SECTION without a command belongs behind MULTI")
            })?;
            let Awaiting { key, op, timeout_ms, .. } = awaiting;
            let steps = vec![Step::Ops(vec![(key, op)], None), step];
            of_the_locks_slot(&steps)?;
            match long_key(&steps) {
                Some(error) => Err(error),
                None => Ok((steps, timeout_ms)),
            }
        });
        let (steps, timeout_ms) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        if !self.is_idle(id) {
            return Handled::Hold;
        }
        let request = self.take_request(id);
        let target = self.place(id, None);
        let (guards, fences) = (Vec::new(), Vec::new());
        let program = Program { target, steps, form: Form::One, guards, fences, request };
        self.begin_section(program, timeout_ms);
        Handled::Later
    }

    /// `LOCK.SECTION` behind `MULTI`: about the whole transaction, of which it is the first command.
    pub(in crate::gateway) fn section_in_multi(&mut self, id: SessionId, args: &Args<'_>) -> bool {
        let Some(Session { mode: Mode::Multi(multi), .. }) = self.sessions.get_mut(id.0) else {
            return true;
        };
        let first = multi.steps.is_empty();
        let error = match adt::lock::section(args) {
            Err(error) => error,
            Ok((_, words)) if words < args.len() => {
                ErrorReply::err("LOCK.SECTION takes no command between MULTI and EXEC")
            }
            Ok(_) if !first => ErrorReply::err("LOCK.SECTION is the first command behind MULTI"),
            Ok((Awaiting { key, op, timeout_ms, .. }, _)) => {
                multi.section_ms = Some(timeout_ms);
                self.queue_step(id, Step::Ops(vec![(key, op)], None), args);
                return true;
            }
        };
        self.refuse(id, error);
        true
    }

    /// `EXEC` of such a transaction.
    pub(in crate::gateway) fn exec_section(&mut self, program: Program, timeout_ms: u64) {
        if !program.guards.is_empty() {
            let text = "WATCH and LOCK.SECTION do not go together: whoever takes the lock changes nothing \
                        that a section is about";
            return self.finish(program.target, ErrorReply::err(text).into());
        }
        match of_the_locks_slot(&program.steps) {
            Ok(()) => self.begin_section(program, timeout_ms),
            Err(error) => self.finish(program.target, error.into()),
        }
    }

    /// A section, whose first step passes through the lock.
    fn begin_section(&mut self, program: Program, timeout_ms: u64) {
        let Program { target, steps, form, guards, fences, request } = program;
        self.bar(target);
        let mut work = Work::default();
        for step in steps {
            match step {
                // A client that asked for one command is not told the token.
                Step::Ops(ops, None) if form == Form::One && work.ops.is_empty() => {
                    work.add_silent(ops);
                }
                Step::Ops(ops, merge) => work.add(ops, merge),
                Step::Fixed(reply) => work.add_without_ops(Outcome::Fixed(reply)),
                Step::Later(words) => work.add_without_ops(Outcome::Later(words)),
                Step::Compound(_) | Step::Attempts(_) => {}
            }
        }
        let Work { ops, outcomes, .. } = work;
        let apply = Apply { ops: SmallVec::from_vec(ops), guards, fences, request };
        let finish = Finish::new(outcomes, form, None, None);
        self.begin_turn(target, apply, timeout_ms, Some(Box::new(finish)));
    }
}
