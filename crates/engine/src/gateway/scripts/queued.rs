//! Scripts that a client sends one behind the other, before it has the replies. Those at the head that one
//! shard may run go there as one request, so that they do not wait for the disk one by one. A script that is
//! a transaction has its turn alone.

use super::ScriptCall;
use super::queue::UnderWay;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::{Held, Session, SessionMode};
use crate::gateway::errors::unexpected;
use crate::gateway::parts::Parts;
use crate::gateway::routing::course::at_its_shard;
use crate::gateway::target::{Target, WHOLE};
use crate::gateway::txn::work::{Form, Program, ProgramStep};
use crate::message::{Answer, Refusal};
use adt::{Args, Reply};
use std::sync::Arc;

/// Whether a command runs a script, which may stand behind other scripts of its session.
fn is_script(args: &Args<'_>) -> bool {
    ["EVALSHA", "EVAL", "EVALSHA_RO", "EVAL_RO"].iter().any(|name| args.is(0, name))
}

impl Session {
    /// Whether a command must wait for the replies before it. A script need not wait for scripts.
    pub fn is_barred(&self, args: &Args<'_>) -> bool {
        let behind_scripts = || self.is_behind_scripts() && is_script(args);
        self.barrier.is_some() && !behind_scripts()
    }

    /// Whether the next held command must wait for the replies before it.
    pub fn holds_next(&self) -> bool {
        match self.held.front() {
            Some(Held::Command(words, _)) => self.is_barred(&words.args()),
            _ => self.barrier.is_some(),
        }
    }

    /// Whether the replies that the next commands wait for are those of scripts, and one more may join them.
    fn is_behind_scripts(&self) -> bool {
        self.barrier.is_some_and(|seq| self.about.scripts.takes_more_behind(seq))
            && matches!(self.mode, SessionMode::Single)
            && self.request.is_none()
    }
}

impl Parts {
    /// Whether the next command of a session stands in its ordinary place, under no request number.
    pub(in crate::gateway) fn may_queue_scripts(&self, id: SessionId) -> bool {
        let numbered = |session: &Session| session.request.is_some();
        !self.sessions.is_given() && !self.sessions.get(id.0).is_some_and(numbered)
    }

    /// Queues a script, outside of transactions. False if it must wait.
    pub(in crate::gateway) fn queue_script(
        &mut self,
        id: SessionId,
        call: Arc<ScriptCall>,
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        let alone = session.queue.is_empty() && session.barrier.is_none();
        if !alone && !session.is_behind_scripts() {
            return false;
        }
        let target = Target { session: id, seq: session.push(), item: WHOLE };
        let program = Program {
            target,
            steps: vec![ProgramStep::Script(call)],
            form: Form::One,
            guards: Vec::new(),
            fences: Vec::new(),
            request: None,
        };
        session.barrier = Some(target.seq);
        if session.about.scripts.add(program) {
            self.sessions.run_scripts_soon(id);
        }
        true
    }

    /// Runs the next scripts of a session.
    pub(in crate::gateway) fn run_scripts(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let scripts = &mut session.about.scripts;
        if scripts.is_busy() {
            return;
        }
        let Some(first) = scripts.next() else { return };
        let Some((shard, run)) = at_its_shard(&mut self.core, &first) else {
            scripts.now_runs(UnderWay::Transaction(first.target.seq));
            return self.transactions.begin(&mut self.core, first, None);
        };
        let mut together = vec![(run, first)];
        while let Some(next) = scripts.next() {
            match at_its_shard(&mut self.core, &next) {
                Some((home, run)) if home == shard => together.push((run, next)),
                _ => {
                    scripts.put_back(next);
                    break;
                }
            }
        }
        scripts.now_runs(UnderWay::AtShard);
        self.sessions.send_scripts(&mut self.core, shard, together);
    }

    /// Takes the answer of a shard that was asked to run scripts. Those behind the last reply were not run.
    pub(in crate::gateway) fn scripts_ran(&mut self, programs: Vec<Program>, answer: Answer) {
        let Some(id) = programs.first().map(|program| program.target.session) else { return };
        let mut programs = programs.into_iter();
        let mut alone = None;
        match answer {
            Answer::Reply(reply) => self.script_ended(programs.next(), reply),
            Answer::Replies(replies) => {
                for reply in replies {
                    self.script_ended(programs.next(), reply);
                }
            }
            Answer::Refused(Refusal::NotHere | Refusal::Moved | Refusal::Unread) => {
                alone = programs.next();
            }
            other => {
                for program in programs.by_ref() {
                    self.finish(program.target, unexpected(&other));
                }
            }
        }
        let queue = self.sessions.get_mut(id.0).map(|session| &mut session.about.scripts);
        if let Some(queue) = queue {
            programs.rev().for_each(|program| queue.put_back(program));
            let alone = alone.as_ref().map(|program| program.target.seq);
            if queue.now_runs(alone.map_or(UnderWay::Nothing, UnderWay::Transaction)) {
                self.sessions.run_scripts_soon(id);
            }
        }
        if let Some(program) = alone {
            self.core.scripts.ran(&program, false);
            self.transactions.begin(&mut self.core, program, None);
        }
    }

    fn script_ended(&mut self, program: Option<Program>, reply: Reply) {
        let Some(program) = program else { return };
        self.core.scripts.ran(&program, true);
        let reply = program.form.reply(std::iter::once(reply));
        self.finish(program.target, reply);
    }
}
