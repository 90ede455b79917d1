//! A script as a step of a transaction: its run asks for one command after another.
//!
//! A command whose reply the script looks at is an early access, as a command of an interactive transaction
//! is. A write whose reply it drops is deferred to the commit, where it excludes no other write that commutes
//! with it. Its key is asked all the same whether it can be carried out: if not, the whole script fails, as a
//! script does that raises an error, and nothing of it takes effect.

pub(in crate::gateway) mod called;

use super::context::TxnContext;
use super::{Stage, Then, Txn};
use crate::gateway::api::{Broadcast, Output};
use crate::gateway::mail::Target;
use crate::gateway::routing::route::about_all;
use crate::gateway::scripts::kept::{self, Kept};
use crate::gateway::scripts::{RunPlace, ScriptCall, Text};
use crate::gateway::target::CALLED;
use crate::gateway::timer::Timer;
use crate::gateway::txn::work::ProgramStep;
use crate::gateway::types::known::{self, Resolved, is_built_in};
use crate::ids::KeyedOp;
use crate::limits::{SCRIPT_CALLS_MAX, TRANSACTION_BYTES_MAX};
use crate::message::Early;
use crate::script::{Run, Script, ScriptInput, ScriptStep, Use};
use adt::command::database::{name_in, shown};
use adt::command::glob;
use adt::key::KeyOp;
use adt::{ArgBuf, Blob, ErrorReply, Merge, Op, Reply, Whole};
use called::{Called, called, may_run, no_script, read_text};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Script that is being run.
pub(super) struct Running {
    call: Arc<ScriptCall>,
    /// None until its text is known.
    run: Option<(Box<dyn Run>, Arc<RunPlace>)>,
    only_reads: bool,
    /// Database of its commands.
    database: u8,
    /// Time for the script, which stands still: wall clock, in microseconds.
    wall_us: u64,
    /// Place of the reply.
    target: Option<Target>,
    /// Number of operations of the transaction before the script.
    first: usize,
    /// Number of commands so far.
    calls: u32,
    /// Bytes of the words of its writes.
    bytes: usize,
    /// Records with deferred writes that may be refused, and that are not asked about yet. They are asked
    /// when the script waits for something, so that many writes on one record are one question.
    unasked: BTreeSet<Blob>,
    /// Number of records that are asked whether deferred writes can be carried out.
    unchecked: u32,
    /// Why a deferred write cannot be carried out.
    refused: Option<ErrorReply>,
    afterwards: Vec<Broadcast>,
    /// Outcome, while writes are still unchecked.
    ended: Option<Result<Reply, ErrorReply>>,
    /// Number of operations of the transaction before the present command, if it is one write whose reply is
    /// seen.
    written_from: Option<usize>,
    /// Reply of the present command, if it was known before the command was begun completely.
    ready: Option<Reply>,
    /// Whether the run is in the loop that takes its next step.
    steps: bool,
    /// Whether the run lets others go ahead. A timer may be that of an earlier attempt.
    pauses: bool,
}

/// Consequence of a command of a script for its run.
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
    ErrorReply::err(
        "a script that has written can look at all keys with KEYS only: let it look before it writes",
    )
}

/// Place of the reply to the script that is being run.
pub(super) fn place(txn: &Txn) -> Option<Target> {
    txn.script.as_ref()?.target
}

/// Begins a script.
pub(super) fn begin(
    txn: &mut Txn,
    cx: &mut TxnContext<'_>,
    call: Arc<ScriptCall>,
    target: Option<Target>,
) {
    let text = match &call.text {
        Text::Read(script) => Some(script.clone()),
        Text::Named(name) => cx.core.scripts.named(name),
        Text::Function(_) => None,
    };
    let read = match (&text, &call.text) {
        (None, Text::Named(name)) => {
            Some((read_text(name), Sought::Text(cx.core.scripts.forgotten())))
        }
        (None, Text::Function(name)) => Some((kept::read(name), Sought::Function)),
        _ => None,
    };
    let database = call.database;
    let (run, only_reads, first) = (None, call.only_reads, txn.work.ops.len());
    txn.script = Some(Box::new(Running {
        call,
        run,
        only_reads,
        database,
        wall_us: cx.core.now.wall_us,
        target,
        first,
        calls: 0,
        bytes: 0,
        unasked: BTreeSet::new(),
        unchecked: 0,
        refused: None,
        afterwards: Vec::new(),
        ended: None,
        written_from: None,
        ready: None,
        steps: false,
        pauses: false,
    }));
    match (text, read) {
        (Some(script), _) => run_text(txn, cx, &script),
        (None, Some((read, sought))) => {
            txn.call_observed(cx, (vec![read], false), None, Then::Source(sought));
        }
        (None, None) => end(txn, cx, Err(no_script())),
    }
}

/// Record that is read before a run begins.
pub(super) enum Sought {
    /// The text of a script, since all texts were forgotten so many times.
    Text(u64),
    /// The description of a function.
    Function,
    /// The definitions of composed types, for this command.
    Types(ArgBuf, Use),
    /// The text of the library of this function.
    Library(Box<Kept>),
}

/// Takes what was read before the run, and begins the run or reads on.
pub(super) fn found(txn: &mut Txn, cx: &mut TxnContext<'_>, reply: &Reply, sought: &Sought) {
    if let Sought::Types(words, used) = sought {
        let next = match cx.core.types.take(cx.core.now, reply) {
            Ok(()) => call(txn, cx, words.clone(), *used),
            Err(error) => Next::Input(ScriptInput::Reply(error.into())),
        };
        if let Next::Input(input) = next {
            take_steps(txn, cx, input);
        }
        return;
    }
    let Some(running) = &txn.script else { return };
    let (scripts, only_reads) = (&mut cx.core.scripts, running.call.only_reads);
    let script = match (sought, &running.call.text, reply) {
        (_, _, Reply::Error(error)) => Err(error.clone()),
        (Sought::Text(forgotten), _, Reply::Bulk(text)) => {
            let script = scripts.read(text);
            if script.is_ok() && *forgotten != scripts.forgotten() {
                scripts.forget_all();
            }
            script
        }
        (Sought::Function, Text::Function(name), _) => match kept::found(name, reply) {
            Ok(found) if only_reads && !found.function.no_writes() => Err(kept::writes()),
            Ok(found) => match scripts.function(&found.text, &found.function.name) {
                Some(script) => Ok(script),
                None => {
                    let read = kept::read_text(&found.owner);
                    let sought = Sought::Library(Box::new(found));
                    let then = Then::Source(sought);
                    return txn.call_observed(cx, (vec![read], false), None, then);
                }
            },
            Err(error) => Err(error),
        },
        (Sought::Library(known), _, Reply::Bulk(text)) => {
            scripts.read_function(text, &known.function)
        }
        (Sought::Text(_), ..) => Err(no_script()),
        (Sought::Function | Sought::Library(_) | Sought::Types(..), ..) => Err(kept::not_found()),
    };
    match script {
        Ok(script) => run_text(txn, cx, &script),
        Err(error) => end(txn, cx, Err(error)),
    }
}

fn run_text(txn: &mut Txn, cx: &mut TxnContext<'_>, script: &Arc<Script>) {
    let Some(running) = &mut txn.script else { return };
    running.only_reads |= script.no_writes;
    match cx.core.scripts.begin(script, &running.call.inputs) {
        Ok(run) => {
            running.run = Some(run);
            take_steps(txn, cx, ScriptInput::Go);
        }
        Err(error) => end(txn, cx, Err(error)),
    }
}

/// Lets a script go on that has paused.
pub(in crate::gateway::txn) fn go_on(txn: &mut Txn, cx: &mut TxnContext<'_>) {
    let pauses = txn.script.as_mut().is_some_and(|running| std::mem::take(&mut running.pauses));
    if txn.stage == Stage::Running && pauses {
        take_steps(txn, cx, ScriptInput::Go);
    }
}

/// Gives a script the reply to its present command.
pub(super) fn answered(txn: &mut Txn, cx: &mut TxnContext<'_>, reply: Reply) {
    let Some(running) = &mut txn.script else { return };
    if let Some(len) = running.written_from.take()
        && reply.is_error()
    {
        // It has changed nothing, and the script knows that: later checks must not meet the error again.
        txn.work.undo_to(len);
    }
    if running.steps {
        running.ready = Some(reply);
        return;
    }
    take_steps(txn, cx, ScriptInput::Reply(reply));
}

/// Takes the run from step to step, until it has to wait for a reply, or ends.
fn take_steps(txn: &mut Txn, cx: &mut TxnContext<'_>, mut input: ScriptInput) {
    if let Some(running) = &mut txn.script {
        running.steps = true;
    }
    loop {
        let Some(running) = &mut txn.script else { return };
        let Some((run, _)) = &mut running.run else { return };
        let next = match run.resume(input) {
            ScriptStep::Call(words, used) => call(txn, cx, words, used),
            ScriptStep::MayRun(words) => {
                let may = may_run(&running.call, &words.args()).is_ok();
                Next::Input(ScriptInput::MayRun(may))
            }
            ScriptStep::Log(level, text) => {
                cx.core.mail.outputs.push_back(Output::ScriptLog { level, text });
                Next::Input(ScriptInput::Go)
            }
            ScriptStep::Pause => {
                running.pauses = true;
                ask(txn, cx);
                // Later than now: other requests go first, and not the timers that are due only.
                cx.core.set_timer(1, Timer::Script { job: cx.job });
                Next::Wait
            }
            ScriptStep::Done(reply) => return end(txn, cx, Ok(reply)),
            ScriptStep::Failed(error) => return end(txn, cx, Err(error)),
        };
        match next {
            Next::Input(next) => input = next,
            Next::Wait => {
                // An access that fails may have ended the attempt.
                let Some(running) = &mut txn.script else { return };
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
fn call(txn: &mut Txn, cx: &mut TxnContext<'_>, words: ArgBuf, used: Use) -> Next {
    let interactive = txn.is_interactive();
    let Some(running) = &mut txn.script else { return Next::Wait };
    let error = |error: ErrorReply| Next::Input(ScriptInput::Reply(error.into()));
    running.calls += 1;
    if running.calls > SCRIPT_CALLS_MAX {
        return error(too_many_calls());
    }
    let of_type = running.run.as_ref().is_some_and(|(run, _)| run.script().operation.is_some());
    let resolved = match of_type || is_built_in(&words.args()) {
        true => None,
        false => cx.core.types.resolve(cx.core.now, &words.args(), true),
    };
    let words = match resolved {
        None => words,
        Some(Resolved::Call(_, words) | Resolved::Program(_, words)) => words,
        Some(Resolved::Error(refused)) => return error(refused),
        Some(Resolved::Read) => {
            cx.core.types.asks();
            let then = Then::Source(Sought::Types(words, used));
            txn.call_observed(cx, (vec![known::read()], false), None, then);
            return Next::Wait;
        }
    };
    let (call, limits) = (&running.call, (running.only_reads, running.wall_us));
    let step = match called(cx.core, call, limits, &mut running.database, &words) {
        Ok(Called::Known(reply)) => return Next::Input(ScriptInput::Reply(reply)),
        Ok(Called::Publish(_)) if interactive => {
            return error(ErrorReply::err("'publish' is not allowed inside a TXN transaction"));
        }
        Ok(Called::Publish(published)) => {
            running.afterwards.push(Broadcast::Publish(published));
            return Next::Input(ScriptInput::Reply(Reply::Int(0)));
        }
        Ok(Called::Step(step)) => step,
        Err(refused) => return error(refused),
    };
    running.bytes += words.args().iter_from(0).map(<[u8]>::len).sum::<usize>();
    if running.bytes > TRANSACTION_BYTES_MAX {
        return error(too_much_written());
    }
    // It goes to the script, among the replies to other commands of the transaction.
    let target = running.target.map(|target| Target { item: CALLED, ..target });
    let step = match step {
        ProgramStep::Ops(ops, _) if may_defer(cx, &ops, used) => {
            defer(txn, cx, ops);
            return Next::Input(ScriptInput::Go);
        }
        step => step,
    };
    ask(txn, cx);
    match step {
        ProgramStep::Ops(ops, merge) if about_all(&ops) && txn.work.has_writes() => {
            let Some((ops, merge)) = names_behind(txn, ops, merge) else {
                return error(behind_writes());
            };
            look_at_all(txn, cx, ops, (target, Some(merge)));
        }
        ProgramStep::Ops(ops, merge) if about_all(&ops) => {
            look_at_all(txn, cx, ops, (target, merge));
        }
        ProgramStep::Ops(ops, merge) if ops.iter().all(|(_, op)| !op.is_write()) => {
            txn.call_observed(cx, (ops, false), target, Then::Merge(merge));
        }
        ProgramStep::Ops(ops, merge) => {
            let chosen = super::interactive::chosen_first(&ops, merge.as_ref());
            match chosen.filter(|_| cx.core.config.concurrency.takes_locks()) {
                Some(compound) => {
                    let (reads, then) = Then::behind(compound);
                    txn.call_observed(cx, (reads, true), target, then);
                }
                None => {
                    if let Some(running) = &mut txn.script {
                        running.written_from = (ops.len() == 1).then_some(txn.work.ops.len());
                    }
                    txn.call_writes(cx, ops, merge, target);
                }
            }
        }
        ProgramStep::Compound(compound) => {
            let (reads, then) = Then::behind(compound);
            txn.call_observed(cx, (reads, false), target, then);
        }
        ProgramStep::Attempts(blocking) => txn.call_attempt(cx, blocking, 0, target),
        ProgramStep::Fixed(reply) => return Next::Input(ScriptInput::Reply(reply)),
        ProgramStep::Script(_) | ProgramStep::Later(_) => {}
    }
    Next::Wait
}

/// The look at the names of all keys, behind writes of the same transaction: which of the keys that it has
/// written to exist then is asked besides.
fn names_behind(
    txn: &Txn,
    mut ops: Vec<KeyedOp>,
    merge: Option<Merge>,
) -> Option<(Vec<KeyedOp>, Merge)> {
    let Whole::Names(database, pattern) = ops.first()?.1.whole()? else { return None };
    let matches =
        |key: &&Blob| name_in(*database, key).is_some_and(|name| glob::matches(pattern, name));
    let written = txn.work.written().into_iter().filter(matches);
    let written: Vec<Blob> = written.cloned().collect();
    let (shards, merge) = (ops.len(), merge?);
    ops.extend(written.iter().map(|key| (key.clone(), Op::Key(KeyOp::Exists))));
    let with_own = move |mut replies: Vec<Reply>| {
        let exist = replies.split_off(shards);
        let Reply::Array(mut names) = merge.apply(replies) else { return Reply::Nil };
        for (key, exists) in written.iter().zip(exist) {
            let key = shown(key);
            names.retain(|name| !matches!(name, Reply::Bulk(name) if *name == key));
            names.extend((exists == Reply::Int(1)).then_some(Reply::Bulk(key)));
        }
        Reply::Array(names)
    };
    Some((ops, Merge::With(Arc::new(with_own))))
}

/// Looks at all keys of shards.
fn look_at_all(
    txn: &mut Txn,
    cx: &mut TxnContext<'_>,
    ops: Vec<KeyedOp>,
    (target, merge): (Option<Target>, Option<Merge>),
) {
    let call = txn.new_call(target, ops.len(), Then::Merge(merge));
    for (index, op) in (0..).zip(ops) {
        txn.access(cx, (call, index), op, Early::Observed);
    }
}

/// Whether a command is deferred to the commit: writes whose replies the script drops.
fn may_defer(cx: &TxnContext<'_>, ops: &[KeyedOp], used: Use) -> bool {
    let cc = cx.core.config.concurrency;
    // A write whose error is ignored is carried out now, so that it can be undone: the check of a later
    // write would meet the error again.
    let may_fail = used == Use::Ignored && ops.iter().any(|(_, op)| op.may_be_refused());
    let writes = !about_all(ops) && ops.iter().any(|(_, op)| op.is_write());
    writes && used != Use::Seen && !may_fail && cc.takes_locks() && cc.defers_writes()
}

/// Defers writes whose replies the script drops.
fn defer(txn: &mut Txn, cx: &mut TxnContext<'_>, ops: Vec<KeyedOp>) {
    txn.upgrade_for(cx, &ops);
    let Some(running) = &mut txn.script else { return };
    let may_fail = ops.iter().filter(|(_, op)| op.may_be_refused());
    running.unasked.extend(may_fail.map(|(key, _)| key.clone()));
    txn.work.add_silent(ops);
}

/// Asks the records of deferred writes whether these can be carried out.
fn ask(txn: &mut Txn, cx: &mut TxnContext<'_>) {
    let Some(running) = &mut txn.script else { return };
    for key in std::mem::take(&mut running.unasked) {
        let own = txn.work.own(&key);
        if own.is_empty() {
            continue;
        }
        if let Some(running) = &mut txn.script {
            running.unchecked += 1;
        }
        txn.call_checks(cx, vec![(key, own)], Then::Allowed);
    }
}

/// Takes the answer whether a deferred write can be carried out.
pub(super) fn checked(txn: &mut Txn, cx: &mut TxnContext<'_>, reply: Reply) {
    let Some(running) = &mut txn.script else { return };
    running.unchecked -= 1;
    if let Reply::Error(error) = reply {
        running.refused.get_or_insert(error);
    }
    if running.unchecked == 0
        && let Some(ended) = running.ended.take()
    {
        end(txn, cx, ended);
    }
}

/// Ends the script, once it is known that its deferred writes can be carried out.
fn end(txn: &mut Txn, cx: &mut TxnContext<'_>, ended: Result<Reply, ErrorReply>) {
    ask(txn, cx);
    let Some(running) = &mut txn.script else { return };
    if let Some((run, _)) = running.run.take() {
        cx.core.scripts.ended(&*run, ended.is_err());
    }
    running.steps = false;
    if running.unchecked > 0 {
        // The answers that are still to come are about this script, however it has ended.
        running.ended = Some(ended);
        return;
    }
    let ended = match (running.refused.take(), ended) {
        // The write came before whatever ended the script.
        (Some(error), _) => Err(error),
        (None, ended) => ended,
    };
    let Some(running) = txn.script.take() else { return };
    let wrote = txn.work.ops.len() > running.first;
    let (reply, wrote) = match ended {
        Ok(reply) => {
            txn.afterwards.extend(running.afterwards);
            (reply, wrote)
        }
        Err(error) => {
            if error.asks_again() {
                // Perhaps an operation by a definition that has changed since.
                cx.core.types.forget();
            }
            txn.work.undo_to(running.first);
            (error.into(), false)
        }
    };
    txn.answer_step(cx, running.target, reply, wrote);
}
