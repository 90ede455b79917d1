//! Scripts that a client sends one behind the other, before it has the replies. Those in a row that one shard
//! may run go there as one request, so that they do not wait for the disk one by one. What the shard has not
//! run is sent again, or is a transaction, which has its turn alone. Commands behind them are held.

use super::ScriptCall;
use super::queue::{Queued, UnderWay};
use crate::gateway::api::{Broadcast, SessionId};
use crate::gateway::clients::session::{Held, Session, SessionMode};
use crate::gateway::errors::unexpected;
use crate::gateway::parts::Parts;
use crate::gateway::routing::course::at_its_shard;
use crate::gateway::target::{Target, WHOLE};
use crate::gateway::txn::work::{Form, Program, ProgramStep};
use crate::gateway::types::known::is_built_in;
use crate::ids::ShardId;
use crate::message::{Answer, Refusal, RunReply};
use adt::{Args, ErrorReply, Reply};
use std::sync::Arc;

/// Whether a command runs a script, which may stand behind other scripts of its session, or perhaps does so
/// as the program of an operation.
fn is_script(args: &Args<'_>) -> bool {
    ["EVALSHA", "EVAL", "EVALSHA_RO", "EVAL_RO"].iter().any(|name| args.is(0, name))
        || !is_built_in(args)
}

impl Session {
    /// Whether a command must wait for the replies before it. A script need not wait for scripts.
    pub fn is_barred(&self, args: &Args<'_>) -> bool {
        let behind_scripts = || is_script(args) && self.scripts_before().is_some();
        self.barrier.is_some() && !behind_scripts()
    }

    /// Whether the next held command must wait for the replies before it.
    pub fn bars_next_held(&self) -> bool {
        match self.held.front() {
            Some(Held::Command(words, _)) => self.is_barred(&words.args()),
            _ => self.barrier.is_some(),
        }
    }

    /// The shard for which a script may join those that the next command would wait for, which are not sent
    /// yet.
    fn scripts_before(&self) -> Option<ShardId> {
        let plain = matches!(self.mode, SessionMode::Single) && self.request.is_none();
        let shard = self.barrier.and_then(|seq| self.about.scripts.takes_more_behind(seq));
        shard.filter(|_| plain)
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
        let before = session.scripts_before();
        if !alone && before.is_none() {
            return false;
        }
        let target = Target { session: id, seq: 0, item: WHOLE };
        let mut program = Program {
            target,
            steps: vec![ProgramStep::Script(call)],
            form: Form::One,
            guards: Vec::new(),
            fences: Vec::new(),
            request: None,
        };
        let at_shard = at_its_shard(&mut self.core, &program);
        if !alone && at_shard.as_ref().map(|(shard, _)| *shard) != before {
            return false;
        }
        program.target.seq = session.push();
        session.barrier = Some(program.target.seq);
        session.about.scripts.add(Queued { program, at_shard });
        if alone {
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
        let Some(next) = scripts.next() else { return };
        let is_permitted = next.call().is_none_or(|call| call.is_of(session.user.as_ref()));
        let Queued { program, at_shard } = next;
        if !is_permitted {
            // It was to be run once more.
            let text = "the rights of the user were changed while the script waited; send it again";
            self.finish(program.target, ErrorReply::new("NOPERM", text).into());
            return self.sessions.run_scripts_soon(id);
        }
        let Some((shard, run)) = at_shard else {
            scripts.now_runs(UnderWay::Transaction(program.target.seq));
            return self.transactions.begin(&mut self.core, program, None);
        };
        let mut together = vec![(run, program)];
        together.extend(std::iter::from_fn(|| scripts.next_at(shard)));
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
            Answer::Ran(replies) => {
                for RunReply { reply, published } in replies {
                    let published = published.into_iter().map(Broadcast::Publish);
                    self.core.afterwards.extend(published);
                    self.script_ended(programs.next(), reply);
                }
            }
            Answer::Refused(refusal @ (Refusal::NotHere | Refusal::Moved | Refusal::Unread)) => {
                alone = programs.next();
                if let Some(program) = alone.as_ref().filter(|_| refusal == Refusal::NotHere) {
                    self.core.scripts.ran(program, false);
                }
            }
            other => return self.scripts_given_up(programs.collect(), &unexpected(&other)),
        }
        let queue = self.sessions.get_mut(id.0).map(|session| &mut session.about.scripts);
        if let Some(queue) = queue {
            for program in programs.rev() {
                let at_shard = at_its_shard(&mut self.core, &program);
                queue.put_back(Queued { program, at_shard });
            }
            let alone = alone.as_ref().map(|program| program.target.seq);
            if queue.now_runs(alone.map_or(UnderWay::Nothing, UnderWay::Transaction)) {
                self.sessions.run_scripts_soon(id);
            }
        }
        if let Some(program) = alone {
            self.transactions.begin(&mut self.core, program, None);
        }
    }

    /// Answers scripts that a shard was asked to run, and whose outcome is not known or that had no effect.
    pub(in crate::gateway) fn scripts_given_up(&mut self, programs: Vec<Program>, reply: &Reply) {
        let Some(id) = programs.first().map(|program| program.target.session) else { return };
        let queue = self.sessions.get_mut(id.0).map(|session| &mut session.about.scripts);
        if queue.is_some_and(|queue| queue.now_runs(UnderWay::Nothing)) {
            self.sessions.run_scripts_soon(id);
        }
        for program in programs {
            self.finish(program.target, reply.clone());
        }
    }

    fn script_ended(&mut self, program: Option<Program>, reply: Reply) {
        let Some(program) = program else { return };
        self.core.scripts.ran(&program, true);
        if reply.asks_again() {
            // Perhaps an operation by a definition that has changed since.
            self.core.types.forget();
        }
        let reply = program.form.reply(std::iter::once(reply));
        self.finish(program.target, reply);
    }
}
