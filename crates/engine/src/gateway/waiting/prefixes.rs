//! Commands that carry out another one: `FENCE` and `LOCK.SECTION`.

use super::{fence, section};
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::Handled;
use crate::gateway::command_docs::find::find;
use crate::gateway::parts::Parts;
use crate::gateway::routing::databases::{Reach, stored};
use crate::gateway::routing::route::unusable_key_of;
use crate::gateway::txn::work::{Form, Program, ProgramStep};
use adt::{ArgBuf, Args, Awaiting, ErrorReply};

impl Parts {
    /// `FENCE` outside of `MULTI`.
    pub(in crate::gateway) fn fence(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let reach = self.sessions.get(id.0).map_or(Reach::In(0), |session| session.reach);
        let parsed = fence::fence_of(reach, args).and_then(|fence| {
            let step = self.step_behind(id, args, fence::PREFIX, fence::NAME)?;
            let step = step.ok_or_else(|| {
                ErrorReply::err("FENCE without a command belongs between MULTI and EXEC")
            })?;
            let steps = vec![step];
            fence::of_one_slot(&steps)?;
            match unusable_key_of(reach, &steps) {
                Some(error) => Err(error),
                None => Ok((fence, steps)),
            }
        });
        let (fence, steps) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        if self.launch_in_turn(id, steps, vec![fence]) { Handled::Later } else { Handled::Hold }
    }

    /// `LOCK.SECTION` outside of `MULTI`: about one command.
    pub(in crate::gateway) fn section(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let reach = self.sessions.get(id.0).map_or(Reach::In(0), |session| session.reach);
        let parsed = adt::kinds::lock::section(args).and_then(|(awaiting, words)| {
            let step = self.step_behind(id, args, words, section::NAME)?.ok_or_else(|| {
                ErrorReply::err("LOCK.SECTION without a command belongs behind MULTI")
            })?;
            let Awaiting { key, op, timeout_ms, .. } = awaiting;
            let steps = section::steps(reach, ProgramStep::Ops(vec![(key, op)], None), step)?;
            Ok((steps, timeout_ms))
        });
        let (steps, timeout_ms) = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return error.into(),
        };
        if !self.sessions.is_idle(id) {
            return Handled::Hold;
        }
        let request = self.sessions.take_request(id);
        let target = self.sessions.place(id, None);
        let (guards, fences) = (Vec::new(), Vec::new());
        let program = Program { target, steps, form: Form::One, guards, fences, request };
        let (apply, finish) = section::operations(program);
        let (core, sessions) = (&mut self.core, &mut self.sessions);
        self.turns.wait(core, sessions, target, (apply, timeout_ms), Some(Box::new(finish)));
        Handled::Later
    }

    /// Step of the command that begins at a word of another command, which is called `what`.
    pub(in crate::gateway) fn step_behind(
        &mut self,
        id: SessionId,
        args: &Args<'_>,
        from: usize,
        what: &str,
    ) -> Result<Option<ProgramStep>, ErrorReply> {
        let Some(words) = args.tail(from) else { return Ok(None) };
        let resolved = self.resolved(&words)?;
        let words = resolved.as_ref().map_or(words, ArgBuf::args);
        let spec = find(&words)?;
        let Some(session) = self.sessions.get(id.0) else { return Ok(None) };
        session.permit(&mut self.core, spec, &words)?;
        let step = match stored(spec, (&self.core, session.database), &words)? {
            Some(words) => fence::inner_step(spec, &words.args(), what),
            None => fence::inner_step(spec, &words, what),
        };
        step.map(Some)
    }
}
