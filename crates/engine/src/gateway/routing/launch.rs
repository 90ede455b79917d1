//! Launch of commands on keys: each takes the cheapest [`Course`] that is possible.

use super::course::Course;
use super::route::{Route, redirection, route_of, unusable_key_of};
use crate::entry::Apply;
use crate::gateway::api::SessionId;
use crate::gateway::parts::Parts;
use crate::gateway::target::{Target, WHOLE};
use crate::gateway::txn::work::{Form, Program, ProgramStep};
use crate::message::Fence;
use adt::{Command, ErrorReply};

fn numbered_wait() -> ErrorReply {
    let text = "a command that waits for something to take has no request number, and takes the one \
                that was given with it: use the command that does not wait, or LOCK.ACQUIRE";
    ErrorReply::err(text)
}

impl Parts {
    /// Carries out a data command outside of transactions. False if it must wait.
    pub(in crate::gateway) fn data(&mut self, id: SessionId, command: Command) -> bool {
        // A stay in a lock that this server keeps is known here, whichever machine leads the shard.
        if let Command::Single(key, op) = &command
            && self.near_locks.may_answer(op)
            && let Some(went_ahead) =
                self.near_locks.ask_about(&mut self.core, &mut self.sessions, id, (key, op))
        {
            return went_ahead;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return true };
        if session.redirects
            && let Some(error) = redirection(&self.core, session.about.asks_replicas, &command)
        {
            self.sessions.reply(&mut self.core, id, error.into());
            return true;
        }
        let command = match command {
            Command::Single(key, op) if session.request.is_none() => {
                self.sessions.single(&mut self.core, id, key, op);
                return true;
            }
            Command::Blocking(blocking) => {
                if !session.queue.is_empty() {
                    return false;
                }
                // The command looks at its keys repeatedly, and finds nothing each time but the last.
                match self.sessions.take_request(id) {
                    Some(_) => self.sessions.reply(&mut self.core, id, numbered_wait().into()),
                    None => {
                        let (core, sessions) = (&mut self.core, &mut self.sessions);
                        let effect = self.blocked.begin(core, sessions, id, blocking);
                        self.wait_goes_on(effect);
                    }
                }
                return true;
            }
            Command::Awaiting(awaiting) => {
                if !session.queue.is_empty() {
                    return false;
                }
                let (core, sessions) = (&mut self.core, &mut self.sessions);
                if awaiting.near {
                    self.near_locks.begin(core, sessions, id, awaiting);
                } else {
                    self.turns.begin(core, sessions, id, awaiting);
                }
                return true;
            }
            other => other,
        };
        let (steps, reach) = (vec![ProgramStep::from(command)], session.reach);
        if let Some(error) = unusable_key_of(reach, &steps) {
            self.sessions.reply(&mut self.core, id, error.into());
            return true;
        }
        self.launch_in_turn(id, steps, Vec::new())
    }

    /// Carries out a command outside of transactions that is a program of its own, under these fencing
    /// tokens. False if it must wait.
    pub(in crate::gateway) fn launch_in_turn(
        &mut self,
        id: SessionId,
        steps: Vec<ProgramStep>,
        fences: Vec<Fence>,
    ) -> bool {
        let route = route_of(&self.core, &steps, &[]);
        if !self.sessions.may_launch(&self.core, id, &steps, route) {
            return false;
        }
        let request = self.sessions.get(id.0).and_then(|session| session.request.clone());
        // Its place is taken when it goes ahead.
        let target = Target { session: id, seq: 0, item: WHOLE };
        let guards = Vec::new();
        let mut program = Program { target, steps, form: Form::One, guards, fences, request };
        if self.sessions.loses_order(&self.core, &program, route) {
            return false;
        }
        program.request = self.sessions.take_request(id);
        program.target = self.sessions.place(id, None);
        if program.steps.iter().any(|step| matches!(step, ProgramStep::Later(_))) {
            self.sessions.bar(program.target);
        }
        self.launch(program, route);
        true
    }

    /// Carries out a program.
    pub(in crate::gateway) fn launch(&mut self, program: Program, route: Route) {
        let session = self.sessions.get(program.target.session.0);
        let keeps_order = session.is_some_and(|session| session.pipeline.keeps_order(&self.core));
        let (target, course) = Course::of_program(&mut self.core, keeps_order, program, route);
        self.take(target, course);
    }

    /// Carries out a program that takes this course.
    pub(in crate::gateway) fn take(&mut self, target: Target, course: Course) {
        match course {
            Course::Known(finish) => {
                self.complete_with(target, &finish, finish.items(std::iter::empty()));
            }
            Course::Gathered(planned) => self.sessions.gather(planned),
            Course::OneShard(shard, apply, finish) => {
                self.sessions.send_work(&mut self.core, target, shard, apply, finish);
            }
            Course::Snapshot(ops, finish) => {
                self.sessions.bar(target);
                self.snapshots.begin(&mut self.core, target, ops, finish);
            }
            Course::Transaction(Apply { ops, guards, request, .. }, finish) => {
                self.sessions.bar(target);
                let (core, ops) = (&mut self.core, ops.into_vec());
                self.transactions.begin_direct(core, target, ops, finish, (guards, request));
            }
            Course::Script(shard, run, program) => {
                self.sessions.bar(target);
                self.sessions.send_scripts(&mut self.core, shard, vec![(run, program)]);
            }
            Course::Steps(program) => {
                self.sessions.bar(target);
                self.transactions.begin(&mut self.core, program, None);
            }
            Course::Refused(error) => self.core.finish(target, error),
        }
    }
}
