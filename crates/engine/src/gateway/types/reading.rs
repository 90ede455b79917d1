//! Definitions are read for commands that wait for them.

use super::known::{Resolved, is_built_in, read};
use crate::gateway::parts::Parts;
use crate::gateway::target::TYPES;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::ProgramStep;
use crate::limits::TYPES_AGAIN_US;
use adt::{ArgBuf, Args, ErrorReply, Reply};

impl Parts {
    /// Call that a command is which is no built-in one, if it is one. If the definitions must be read first,
    /// that is begun, and the command waits.
    pub(in crate::gateway) fn resolve(&mut self, args: &Args<'_>) -> Option<Resolved> {
        let resolved = self.core.types.resolve(self.core.now, args, true);
        if matches!(resolved, Some(Resolved::Read)) && self.core.types.begin() {
            self.read_types();
        }
        resolved
    }

    /// Reads the definitions, for commands that wait.
    pub(in crate::gateway) fn read_types(&mut self) {
        self.core.types.asks();
        let told = |reply: Option<&Reply>| Ok((Vec::new(), reply.cloned().unwrap_or(Reply::Nil)));
        let step = ProgramStep::changing(read(), told);
        self.carry_out_own(TYPES, step);
    }

    /// Words of a command behind another one, which cannot wait: those of a call if it is one.
    pub(in crate::gateway) fn resolved(
        &mut self,
        args: &Args<'_>,
    ) -> Result<Option<ArgBuf>, ErrorReply> {
        if is_built_in(args) {
            return Ok(None);
        }
        let now = self.core.now;
        match self.core.types.resolve(now, args, false) {
            None => Ok(None),
            Some(Resolved::Call(_, words) | Resolved::Program(_, words)) => Ok(Some(words)),
            Some(Resolved::Error(error)) => Err(error),
            Some(Resolved::Read) => {
                self.resolve(args);
                let text = "the definitions of types are being read: call again";
                Err(ErrorReply::new("TRYAGAIN", text))
            }
        }
    }

    /// Takes definitions that commands wait for.
    pub(in crate::gateway) fn types_read(&mut self, reply: &Reply) {
        if self.core.types.take(self.core.now, reply).is_err() {
            // Their shard has no leader. Commands of a pipeline would not fail together.
            self.core.types.begin();
            return self.core.set_timer(TYPES_AGAIN_US, Timer::Types);
        }
        self.sessions.resume_all();
    }
}
