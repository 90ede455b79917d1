//! A script as a step of a transaction: its run asks for one command after another.
//!
//! A command whose reply the script looks at is an early access, as a command of an interactive transaction
//! is. A write whose reply it drops is deferred to the commit, where it excludes no other write that commutes
//! with it. Its key is asked all the same whether it can be carried out: if not, the whole script fails, as a
//! script does that raises an error, and nothing of it takes effect.

use super::context::TxnContext;
use super::{Stage, Then, Txn};
use crate::gateway::api::Output;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::route::about_all;
use crate::gateway::scripts::{Called, ScriptCall, Text, called, may_run, no_script, read_text};
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::ProgramStep;
use crate::ids::KeyedOp;
use crate::limits::{SCRIPT_CALLS_MAX, TRANSACTION_BYTES_MAX};
use crate::message::{Body, Early};
use crate::script::{Run, Script, ScriptInput, ScriptStep, Use};
use adt::{ArgBuf, Compound, ErrorReply, Reply};
use std::sync::Arc;

/// Script that is being run.
pub(super) struct Running {
    call: Arc<ScriptCall>,
    /// None until its text is known.
    run: Option<Box<dyn Run>>,
    only_reads: bool,
    /// Place of the reply.
    target: Option<Target>,
    /// Number of operations of the transaction before the script.
    first: usize,
    /// Number of commands so far.
    calls: u32,
    /// Bytes of the words of its writes.
    bytes: usize,
    /// Number of deferred writes whose keys are asked whether they can be carried out.
    unchecked: u32,
    /// Why a deferred write cannot be carried out.
    refused: Option<ErrorReply>,
    publications: Vec<ArgBuf>,
    /// Outcome, while writes are still unchecked.
    ended: Option<Result<Reply, ErrorReply>>,
    /// Reply of the present command, if it was known before the command was begun completely.
    ready: Option<Reply>,
    /// Whether the run is in the loop that takes its next step.
    steps: bool,
}

/// What a command of a script needs.
enum Next {
    /// The next input of the run.
    Input(ScriptInput),
    /// The reply comes later.
    Wait,
}

fn too_many_calls() -> ErrorReply {
    let text = format!("script exceeded its limit of {SCRIPT_CALLS_MAX} commands");
    ErrorReply::err(text)
}

fn too_much_written() -> ErrorReply {
    let text = format!("script exceeded its limit of {TRANSACTION_BYTES_MAX} bytes of commands");
    ErrorReply::err(text)
}

fn behind_writes() -> ErrorReply {
    ErrorReply::err("a script that has written cannot look at all keys: let it look first")
}

impl Txn {
    /// Begins a script.
    pub(super) fn begin_script(
        &mut self,
        cx: &mut TxnContext<'_>,
        call: Arc<ScriptCall>,
        target: Option<Target>,
    ) {
        let text = match &call.text {
            Text::Read(script) => Some(script.clone()),
            Text::Named(name) => cx.core.scripts.named(name),
        };
        let read = match (&text, &call.text) {
            (None, Text::Named(name)) => Some(read_text(name)),
            _ => None,
        };
        let (run, only_reads, first) = (None, call.only_reads, self.work.ops.len());
        self.script = Some(Box::new(Running {
            call,
            run,
            only_reads,
            target,
            first,
            calls: 0,
            bytes: 0,
            unchecked: 0,
            refused: None,
            publications: Vec::new(),
            ended: None,
            ready: None,
            steps: false,
        }));
        match (text, read) {
            (Some(script), _) => self.run_script(cx, &script),
            (None, Some(read)) => {
                let forgotten = cx.core.scripts.forgotten();
                self.call_observed(cx, (vec![read], false), None, Then::Text(forgotten));
            }
            (None, None) => self.end_script(cx, Err(no_script())),
        }
    }

    /// Takes the text of the script, which the store has or has not, since all texts were forgotten so many
    /// times.
    pub(super) fn text_found(&mut self, cx: &mut TxnContext<'_>, reply: Reply, forgotten: u64) {
        let Reply::Bulk(text) = reply else {
            let error = match reply {
                Reply::Error(error) => error,
                _ => no_script(),
            };
            return self.end_script(cx, Err(error));
        };
        match cx.core.scripts.read(&text) {
            Ok(script) => {
                if forgotten != cx.core.scripts.forgotten() {
                    cx.core.scripts.forget_all();
                }
                self.run_script(cx, &script);
            }
            Err(error) => self.end_script(cx, Err(error)),
        }
    }

    fn run_script(&mut self, cx: &mut TxnContext<'_>, script: &Arc<Script>) {
        let Some(running) = &mut self.script else { return };
        running.only_reads |= script.no_writes;
        match cx.core.scripts.begin(script, &running.call.inputs) {
            Ok(run) => {
                running.run = Some(run);
                self.script_steps(cx, ScriptInput::Go);
            }
            Err(error) => self.end_script(cx, Err(error)),
        }
    }

    /// Lets a script go on that has paused.
    pub(in crate::gateway::txn) fn script_goes_on(&mut self, cx: &mut TxnContext<'_>) {
        if self.stage == Stage::Running && self.script.is_some() {
            self.script_steps(cx, ScriptInput::Go);
        }
    }

    /// Gives a script the reply to its present command.
    pub(super) fn script_answered(&mut self, cx: &mut TxnContext<'_>, reply: Reply) {
        let Some(running) = &mut self.script else { return };
        if running.steps {
            running.ready = Some(reply);
            return;
        }
        self.script_steps(cx, ScriptInput::Reply(reply));
    }

    /// Takes the run from step to step, until it has to wait for a reply, or ends.
    fn script_steps(&mut self, cx: &mut TxnContext<'_>, mut input: ScriptInput) {
        if let Some(running) = &mut self.script {
            running.steps = true;
        }
        loop {
            let Some(running) = &mut self.script else { return };
            let Some(run) = &mut running.run else { return };
            let next = match run.resume(input) {
                ScriptStep::Call(words, used) => self.script_calls(cx, words, used),
                ScriptStep::MayRun(words) => {
                    let may = may_run(&running.call, &words.args()).is_ok();
                    Next::Input(ScriptInput::MayRun(may))
                }
                ScriptStep::Log(level, text) => {
                    cx.core.mail.outputs.push_back(Output::ScriptLog { level, text });
                    Next::Input(ScriptInput::Go)
                }
                ScriptStep::Pause => {
                    cx.core.set_timer(0, Timer::Script { job: cx.job });
                    Next::Wait
                }
                ScriptStep::Done(reply) => return self.end_script(cx, Ok(reply)),
                ScriptStep::Failed(error) => return self.end_script(cx, Err(error)),
            };
            match next {
                Next::Input(next) => input = next,
                Next::Wait => {
                    // An access that fails may have ended the attempt.
                    let Some(running) = &mut self.script else { return };
                    match running.ready.take() {
                        Some(reply) => input = ScriptInput::Reply(reply),
                        None => {
                            running.steps = false;
                            return;
                        }
                    }
                }
            }
        }
    }

    /// Begins a command of the script.
    fn script_calls(&mut self, cx: &mut TxnContext<'_>, words: ArgBuf, used: Use) -> Next {
        let interactive = self.is_interactive();
        let Some(running) = &mut self.script else { return Next::Wait };
        let error = |error: ErrorReply| Next::Input(ScriptInput::Reply(error.into()));
        running.calls += 1;
        if running.calls > SCRIPT_CALLS_MAX {
            return error(too_many_calls());
        }
        let step = match called(cx.core, &running.call, running.only_reads, &words) {
            Ok(Called::Known(reply)) => return Next::Input(ScriptInput::Reply(reply)),
            Ok(Called::Publish) if interactive => {
                return error(ErrorReply::err("'publish' is not allowed inside a TXN transaction"));
            }
            Ok(Called::Publish) => {
                running.publications.push(words);
                return Next::Input(ScriptInput::Reply(Reply::Int(0)));
            }
            Ok(Called::Step(step)) => step,
            Err(refused) => return error(refused),
        };
        running.bytes += words.args().iter_from(0).map(<[u8]>::len).sum::<usize>();
        if running.bytes > TRANSACTION_BYTES_MAX {
            return error(too_much_written());
        }
        let target = running.target;
        match step {
            // Nothing that an operation is looked up by holds the names of all keys.
            ProgramStep::Ops(ops, _) if about_all(&ops) && self.work.has_writes() => {
                return error(behind_writes());
            }
            ProgramStep::Ops(ops, merge) if about_all(&ops) => {
                self.call_about_all(cx, ops, target, merge);
            }
            ProgramStep::Ops(ops, merge) if ops.iter().all(|(_, op)| !op.is_write()) => {
                self.call_observed(cx, (ops, false), target, Then::Merge(merge));
            }
            ProgramStep::Ops(ops, merge) => {
                let cc = cx.core.config.concurrency;
                if used != Use::Seen && cc.takes_locks() && cc.defers_writes() {
                    self.script_defers(cx, ops, used);
                    return Next::Input(ScriptInput::Go);
                }
                match super::interactive::chosen_first(&ops).filter(|_| cc.takes_locks()) {
                    Some(Compound { reads, plan }) => {
                        self.call_observed(cx, (reads, true), target, Then::Plan(plan));
                    }
                    None => self.call_writes(cx, ops, merge, target),
                }
            }
            ProgramStep::Compound(Compound { reads, plan }) => {
                self.call_observed(cx, (reads, false), target, Then::Plan(plan));
            }
            ProgramStep::Attempts(blocking) => self.call_attempt(cx, blocking, 0, target),
            ProgramStep::Fixed(reply) => return Next::Input(ScriptInput::Reply(reply)),
            ProgramStep::Script(_) | ProgramStep::Later(_) => {}
        }
        Next::Wait
    }

    /// Defers writes whose replies the script drops.
    fn script_defers(&mut self, cx: &mut TxnContext<'_>, ops: Vec<KeyedOp>, used: Use) {
        self.upgrade_for(cx, &ops);
        for (key, op) in ops {
            if used == Use::Dropped && op.may_be_refused() {
                let own = self.work.own(&key);
                let shard = cx.core.mail.shard_of(&key);
                self.touch(shard);
                let (key, op) = (key.clone(), op.clone());
                let body = Body::Lock { txn: self.id, key, op, own, early: Early::Deferred };
                let call = self.new_call(None, 1, Then::Allowed);
                let pending = Pending::Access { job: cx.job, call, index: 0, blocked: false };
                let token = cx.core.mail.ask(shard, pending, body);
                self.tokens.push(token);
                if let Some(running) = &mut self.script {
                    running.unchecked += 1;
                }
            }
            self.work.add_silent(vec![(key, op)]);
        }
    }

    /// Takes the answer whether a deferred write can be carried out.
    pub(super) fn script_checked(&mut self, cx: &mut TxnContext<'_>, reply: Reply) {
        let Some(running) = &mut self.script else { return };
        running.unchecked -= 1;
        if let Reply::Error(error) = reply {
            running.refused.get_or_insert(error);
        }
        if running.unchecked == 0
            && let Some(ended) = running.ended.take()
        {
            self.end_script(cx, ended);
        }
    }

    /// Ends the script, once it is known that its deferred writes can be carried out.
    fn end_script(&mut self, cx: &mut TxnContext<'_>, ended: Result<Reply, ErrorReply>) {
        let Some(running) = &mut self.script else { return };
        running.run = None;
        running.steps = false;
        let ended = match (running.refused.take(), ended) {
            (Some(error), Ok(_)) => Err(error),
            (_, ended) => ended,
        };
        if running.unchecked > 0 && ended.is_ok() {
            running.ended = Some(ended);
            return;
        }
        let Some(running) = self.script.take() else { return };
        let wrote = self.work.ops.len() > running.first;
        let (reply, wrote) = match ended {
            Ok(reply) => {
                self.publications.extend(running.publications);
                (reply, wrote)
            }
            Err(error) => {
                self.work.undo_to(running.first);
                (error.into(), false)
            }
        };
        self.answer_step(cx, running.target, reply, wrote);
    }
}
