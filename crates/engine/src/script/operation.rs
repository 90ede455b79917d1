//! Operations of composed types that are programs: scripts whose commands name parts of one value.

use super::{Interpreter, Run, Script, ScriptInput, ScriptInputs, ScriptStep};
use adt::kinds::composed::definition::{Definition, is_kept_code};
use adt::kinds::composed::step_words;
use adt::{Blob, ErrorReply, Reply};
use std::sync::Arc;

/// First line of a text that is an operation. No text of a client is read so.
const FIRST_LINE: &[u8] = b"#!type ";

/// Program of an operation.
#[derive(Debug)]
pub struct OperationProgram {
    /// The type of the value.
    pub definition: Arc<Definition>,
    /// The program as a script of its own.
    inner: Arc<Script>,
}

impl PartialEq for OperationProgram {
    fn eq(&self, other: &Self) -> bool {
        self.definition == other.definition && self.inner == other.inner
    }
}

impl Eq for OperationProgram {}

/// Text that stands for an operation between machines.
pub(super) fn text_of(definition: &Definition, operation: &str) -> Blob {
    Blob::from([FIRST_LINE, operation.as_bytes(), b"\n", definition.text()].concat())
}

/// Type and operation that a text stands for, if it stands for one.
pub(super) fn parts_of(text: &[u8]) -> Option<Result<(Arc<Definition>, String), ErrorReply>> {
    let rest = text.strip_prefix(FIRST_LINE)?;
    let end = rest.iter().position(|byte| *byte == b'\n')?;
    let name = String::from_utf8_lossy(&rest[..end]).into_owned();
    Some(Definition::read(&rest[end + 1..]).map(|definition| (definition, name)))
}

/// Reads the program of an operation, which is called `name`.
pub(super) fn read(
    interpreter: &dyn Interpreter,
    definition: &Arc<Definition>,
    name: &str,
) -> Result<Arc<Script>, ErrorReply> {
    let operation = &definition.operations()[definition.operation(name.as_bytes())?];
    let source = operation
        .source()
        .ok_or_else(|| ErrorReply::err(format!("{}.{name} is not a program", definition.name())))?;
    let inner = interpreter.read(&Blob::from(source))?;
    let called = format!("{}.{name}", definition.name());
    Ok(Arc::new(Script {
        name: inner.name,
        text: text_of(definition, name),
        no_writes: !operation.writes || inner.no_writes,
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
    Box::new(OperationRun { script: script.clone(), run, key, given: None })
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
}

impl OperationRun {
    /// The error with which the program ends. Codes on which clients act come from commands only.
    fn checked(&self, error: ErrorReply) -> ErrorReply {
        let is_given = self.given.as_ref().is_some_and(|given| given.code() == error.code());
        if is_given || !is_kept_code(error.code()) {
            return error;
        }
        let text = format!("clients act on the code {}: a program cannot answer it", error.code());
        ErrorReply::err(text)
    }
}

impl Run for OperationRun {
    fn resume(&mut self, mut input: ScriptInput) -> ScriptStep {
        let Some(program) = &self.script.operation else {
            return ScriptStep::Failed(ErrorReply::err("the operation has no program"));
        };
        if let ScriptInput::Reply(Reply::Error(error)) = &input {
            self.given = Some(error.clone());
        }
        loop {
            match self.run.resume(input) {
                ScriptStep::Call(words, used) => {
                    let args = words.args();
                    if args.len() == 1 && args.is(0, "TIME") {
                        return ScriptStep::Call(words, used);
                    }
                    let words = step_words(&program.definition, &self.key, &args);
                    return ScriptStep::Call(words, used);
                }
                // Who may call the operation may do what it does.
                ScriptStep::MayRun(_) => input = ScriptInput::MayRun(true),
                ScriptStep::Done(Reply::Error(error)) => {
                    return ScriptStep::Done(Reply::Error(self.checked(error)));
                }
                ScriptStep::Failed(error) => return ScriptStep::Failed(self.checked(error)),
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
