//! Operations of composed types that are programs: scripts whose commands name parts of one value.

use super::{Interpreter, Run, Script, ScriptInput, ScriptInputs, ScriptStep};
use crate::limits::PROGRAM_CALLS_MAX;
use adt::kinds::composed::definition::{Definition, is_kept_code};
use adt::kinds::composed::step_words;
use adt::{Blob, ErrorReply, Reply};
use std::sync::Arc;

/// First line of a text that is an operation. No text of a client is read so.
const FIRST_LINE: &[u8] = b"#!type ";

/// Program of an operation.
#[derive(Debug, PartialEq, Eq)]
pub struct OperationProgram {
    /// The type of the value.
    pub definition: Arc<Definition>,
    /// The program as a script of its own.
    inner: Arc<Script>,
}

/// Type and number of the operation that a text stands for, if it stands for one.
pub(super) fn parts_of(text: &[u8]) -> Option<Result<(Arc<Definition>, usize), ErrorReply>> {
    let rest = text.strip_prefix(FIRST_LINE)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let definition = Definition::read(&rest[end + 1..]);
    Some(definition.and_then(|definition| {
        let number = definition.operation(&rest[..end])?;
        Ok((definition, number))
    }))
}

/// Reads the program of an operation, by its number in the definition.
pub(super) fn read(
    interpreter: &dyn Interpreter,
    definition: &Arc<Definition>,
    number: usize,
) -> Result<Arc<Script>, ErrorReply> {
    let operation = &definition.operations()[number];
    let name = &operation.name;
    let source = operation
        .source()
        .ok_or_else(|| ErrorReply::err(format!("{}.{name} is not a program", definition.name())))?;
    let inner = interpreter.read(&Blob::from(source))?;
    let called = format!("{}.{name}", definition.name());
    let text = [FIRST_LINE, name.as_bytes(), b"\n", definition.text()].concat();
    Ok(Arc::new(Script {
        name: inner.name,
        text: Blob::from(text),
        no_writes: !operation.writes,
        code: Vec::new(),
        function: Some(Blob::from(called)),
        operation: Some(Arc::new(OperationProgram { definition: definition.clone(), inner })),
    }))
}

/// Begins a run of an operation.
pub(super) fn begin(
    interpreter: &dyn Interpreter,
    script: &Arc<Script>,
    program: &OperationProgram,
    inputs: &Arc<ScriptInputs>,
) -> Box<dyn Run> {
    let run = interpreter.begin(&program.inner, inputs);
    let key = inputs.keys.first().cloned().unwrap_or_default();
    Box::new(OperationRun { script: script.clone(), run, key, given: None, calls: 0 })
}

/// Run of an operation: its commands are made commands on the value.
#[derive(Debug)]
struct OperationRun {
    script: Arc<Script>,
    run: Box<dyn Run>,
    /// The key of the value, as the client names it.
    key: Blob,
    /// The last error that a command has answered.
    given: Option<ErrorReply>,
    /// Number of its commands.
    calls: usize,
}

impl OperationRun {
    /// Code of an error in a reply on which clients act, and that no command has answered.
    fn made_up<'r>(&self, reply: &'r Reply) -> Option<&'r str> {
        match reply {
            Reply::Error(error) => {
                let given = self.given.as_ref().is_some_and(|given| given.code() == error.code());
                (!given && is_kept_code(error.code())).then(|| error.code())
            }
            Reply::Array(items) => items.iter().find_map(|item| self.made_up(item)),
            _ => None,
        }
    }
}

fn cannot_answer(code: &str) -> ErrorReply {
    ErrorReply::err(format!("clients act on the code {code}: a program cannot answer it"))
}

impl Run for OperationRun {
    fn resume(&mut self, mut input: ScriptInput) -> ScriptStep {
        let Some(program) = &self.script.operation else {
            return ScriptStep::Failed(ErrorReply::err("the operation has no program"));
        };
        if let ScriptInput::Reply(Reply::Error(error)) = &input {
            if error.asks_again() {
                // The value has a later definition: nothing of this program is to take effect.
                return ScriptStep::Failed(error.clone());
            }
            self.given = Some(error.clone());
        }
        loop {
            match self.run.resume(input) {
                ScriptStep::Call(words, used) => {
                    let args = words.args();
                    if args.len() == 1 && args.is(0, "TIME") {
                        return ScriptStep::Call(words, used);
                    }
                    self.calls += 1;
                    if self.calls > PROGRAM_CALLS_MAX {
                        let text =
                            format!("an operation makes at most {PROGRAM_CALLS_MAX} commands");
                        return ScriptStep::Failed(ErrorReply::err(text));
                    }
                    let words = step_words(&program.definition, &self.key, &args);
                    return ScriptStep::Call(words, used);
                }
                // Who may call the operation may do what it does.
                ScriptStep::MayRun(_) => input = ScriptInput::MayRun(true),
                ScriptStep::Done(reply) => {
                    return match self.made_up(&reply) {
                        Some(code) => ScriptStep::Failed(cannot_answer(code)),
                        None => ScriptStep::Done(reply),
                    };
                }
                ScriptStep::Failed(error)
                    if self.made_up(&Reply::Error(error.clone())).is_some() =>
                {
                    return ScriptStep::Failed(cannot_answer(error.code()));
                }
                step => return step,
            }
        }
    }

    fn script(&self) -> &Script {
        &self.script
    }

    fn steps(&self) -> u64 {
        self.run.steps()
    }
}
