//! `EVAL`, `EVALSHA`, `FCALL`, their forms that only read, and `SCRIPT`.

use super::{ScriptCall, Text, functions};
use crate::gateway::Gateway;
use crate::gateway::admin::keyspace::of_all_keys;
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::Session;
use crate::gateway::clients::session_commands::runs_script;
use crate::gateway::command_docs::{check_subcommand, unknown_subcommand};
use crate::gateway::core::Core;
use crate::gateway::parts::Parts;
use crate::gateway::routing::route::{unusable_key, unusable_key_of};
use crate::gateway::txn::transaction::script::called::{no_script, read_text};
use crate::gateway::txn::work::ProgramStep;
use crate::gateway::types;
use crate::gateway::types::commands::is_of_definitions;
use crate::gateway::types::known::operation_of;
use crate::script::keys::script_key;
use crate::script::{ScriptInputs, ScriptName};
use adt::command::database::{database_of, name_of as name_of_key};
use adt::key::KeyOp;
use adt::{Args, Blob, CommandSpec, ErrorReply, Merge, Op, Reply, Whole};
use std::sync::Arc;

/// Whether a command is about scripts.
pub(in crate::gateway) fn is_of_scripts(spec: &CommandSpec) -> bool {
    is_of_texts(spec) || runs_script(spec)
}

/// Whether a command is about the texts of scripts, functions or types, which are records of the store's own.
pub(in crate::gateway) fn is_of_texts(spec: &CommandSpec) -> bool {
    matches!(spec.name, "script" | "function") || is_of_definitions(spec)
}

/// The name of a text, if the word can be one.
fn name_of(word: &[u8]) -> Option<ScriptName> {
    let mut name: ScriptName = word.try_into().ok()?;
    name.make_ascii_lowercase();
    name.iter().all(u8::is_ascii_hexdigit).then_some(name)
}

/// Step that runs the program of an operation on a value, whose key is as it is stored. The right to call the
/// operation is the right to do what it does.
fn program_step(
    core: &mut Core,
    session: &Session,
    args: &Args<'_>,
) -> Result<ProgramStep, ErrorReply> {
    let (definition, number) = operation_of(args)?;
    let key = args.blob(1)?;
    if let Some(error) = unusable_key(session.reach, &key) {
        return Err(error);
    }
    let operation = &definition.operations()[number];
    let inputs: Vec<Blob> = args.iter_from(4).map(Blob::from).collect();
    operation.check_inputs(definition.name(), &inputs)?;
    let script = core.scripts.read_operation(&definition, number)?;
    let inputs = ScriptInputs { keys: vec![Blob::new(name_of_key(&key))], args: inputs };
    Ok(ProgramStep::Script(Arc::new(ScriptCall {
        text: Text::Read(script),
        inputs: Arc::new(inputs),
        only_reads: !operation.writes,
        database: database_of(&key).unwrap_or(session.database),
        user: session.user.clone(),
    })))
}

/// Step that runs a script.
pub(in crate::gateway) fn step(
    core: &mut Core,
    session: &Session,
    spec: &CommandSpec,
    args: &Args<'_>,
) -> Result<ProgramStep, ErrorReply> {
    if spec.name.starts_with("fcall") && args.int(2).is_err() {
        return Err(ErrorReply::err("Bad number of keys provided"));
    }
    let keys = spec.keys.positions(args)?;
    let behind = 3 + keys.len();
    let keys: Vec<Blob> = keys.iter().map(|at| args.blob(*at)).collect::<Result<_, _>>()?;
    let args_of = args.iter_from(behind).map(Blob::from).collect();
    let text = if spec.name.starts_with("evalsha") {
        Text::Named(name_of(args.get(1).unwrap_or_default()).ok_or_else(no_script)?)
    } else if spec.name.starts_with("fcall") {
        Text::Function(args.blob(1)?)
    } else {
        let script = core.scripts.read(&args.blob(1)?)?;
        core.scripts.share(core.now, &mut core.mail, &script);
        Text::Read(script)
    };
    let inputs = Arc::new(ScriptInputs { keys, args: args_of });
    let only_reads = spec.name.ends_with("_ro");
    let step = ProgramStep::Script(Arc::new(ScriptCall {
        text,
        inputs,
        only_reads,
        database: session.database,
        user: session.user.clone(),
    }));
    match unusable_key_of(session.reach, std::slice::from_ref(&step)) {
        Some(error) => Err(error),
        None => Ok(step),
    }
}

/// Step of `SCRIPT`, whose number of words is right.
fn script_step(core: &mut Core, args: &Args<'_>) -> Result<ProgramStep, ErrorReply> {
    match () {
        () if args.is(1, "LOAD") => {
            let script = core.scripts.read(&args.blob(2)?)?;
            let name = Reply::bulk(script.name);
            let ops = vec![core.scripts.keep(core.now, &script)];
            let merge = move |mut replies: Vec<Reply>| match replies.pop() {
                Some(error @ Reply::Error(_)) => error,
                _ => name.clone(),
            };
            Ok(ProgramStep::Ops(ops, Some(Merge::With(Arc::new(merge)))))
        }
        () if args.is(1, "EXISTS") => {
            let names: Vec<_> = args.iter_from(2).map(name_of).collect();
            let exists = |name: &ScriptName| (script_key(name), Op::Key(KeyOp::Exists));
            let ops = names.iter().flatten().map(exists).collect();
            let merge = move |replies: Vec<Reply>| {
                let mut replies = replies.into_iter();
                let found = names.iter().map(|name| match name {
                    Some(_) => replies.next().unwrap_or(Reply::Int(0)),
                    None => Reply::Int(0),
                });
                Reply::Array(found.collect())
            };
            Ok(ProgramStep::Ops(ops, Some(Merge::With(Arc::new(merge)))))
        }
        () if args.is(1, "SHOW") => {
            let name = name_of(args.get(2).unwrap_or_default()).ok_or_else(no_script)?;
            let merge = |mut replies: Vec<Reply>| match replies.pop() {
                Some(Reply::Nil) | None => no_script().into(),
                Some(reply) => reply,
            };
            Ok(ProgramStep::Ops(vec![read_text(&name)], Some(Merge::With(Arc::new(merge)))))
        }
        () if args.is(1, "FLUSH") => {
            if args.len() == 3 && !args.is(2, "ASYNC") && !args.is(2, "SYNC") {
                let text = "SCRIPT FLUSH only support SYNC|ASYNC option";
                return Err(ErrorReply::err(text));
            }
            Ok(of_all_keys(core, |_| Some(Whole::ForgetScripts), Merge::Ok))
        }
        () if args.is(1, "KILL") => {
            let text = "No scripts in execution right now: a script that takes too long ends by itself, and \
                        nothing waits for it but what needs the same records.";
            Err(ErrorReply::new("NOTBUSY", text))
        }
        () => Err(unknown_subcommand(args)),
    }
}

impl Gateway {
    /// Carries out `EVAL` and its family, or `SCRIPT`, outside of transactions.
    pub(in crate::gateway) fn run_script(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Handled {
        match self.parts.script_step(id, spec, args) {
            Ok(ProgramStep::Script(call)) if self.parts.may_queue_scripts(id) => {
                match self.parts.queue_script(id, call) {
                    true => Handled::Later,
                    false => Handled::Hold,
                }
            }
            Ok(step) => match self.parts.launch_in_turn(id, vec![step], Vec::new()) {
                true => Handled::Later,
                false => Handled::Hold,
            },
            Err(error) => error.into(),
        }
    }
}

impl Parts {
    /// Step of `EVAL` and its family, of an operation that is a program, of `SCRIPT`, or of `FUNCTION`.
    pub(in crate::gateway) fn script_step(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Result<ProgramStep, ErrorReply> {
        let Some(session) = self.sessions.get(id.0) else { return Err(no_script()) };
        if session.runs_program {
            return program_step(&mut self.core, session, args);
        }
        if runs_script(spec) {
            return step(&mut self.core, session, spec, args);
        }
        if is_of_definitions(spec) {
            return types::commands::step(&mut self.core, spec, args);
        }
        match check_subcommand(spec, args)? {
            Some(help) => Ok(ProgramStep::Fixed(help)),
            None if spec.name == "function" => functions::step(&self.core, args),
            None => script_step(&mut self.core, args),
        }
    }
}
