//! One run of a script.

use crate::convert;
use crate::machine::{Machine, UNLIMITED_BYTES_MAX};
use adt::{ErrorReply, Reply};
use engine::limits::{
    SCRIPT_FUEL_MAX, SCRIPT_FUEL_PER_CALL, SCRIPT_LINE_BYTES_MAX, SCRIPT_MEMORY_BYTES_MAX,
};
use engine::script::{LogLevel, Run, Script, ScriptInput, ScriptInputs, ScriptStep, Use};
use mlua::{MultiValue, Value};
use std::sync::Arc;

/// A run, which gives its machine back at its end.
#[derive(Debug)]
pub struct LuauRun {
    script: Arc<Script>,
    machine: Option<Machine>,
    /// The values to begin with, until the run has begun.
    begin: Option<MultiValue>,
    /// Why the run cannot begin.
    broken: Option<ErrorReply>,
    /// Whether the reply to the present command is waited for.
    asks: bool,
    /// Steps, once the machine is given back.
    steps: u64,
}

fn out_of_steps() -> ErrorReply {
    let text = format!("script exceeded its limit of {SCRIPT_FUEL_MAX} steps, and had no effect");
    ErrorReply::err(text)
}

fn out_of_memory() -> ErrorReply {
    let text = format!(
        "script exceeded its limit of {SCRIPT_MEMORY_BYTES_MAX} bytes of memory, and had no effect"
    );
    ErrorReply::err(text)
}

/// The error for what the host could not do.
fn failure(error: &mlua::Error) -> ErrorReply {
    match error {
        mlua::Error::MemoryError(_) => out_of_memory(),
        mlua::Error::CallbackError { cause, .. } => failure(cause),
        error => ErrorReply::err(format!("the script failed: {error}")),
    }
}

impl LuauRun {
    /// A run in a machine.
    pub fn new(script: Arc<Script>, mut machine: Machine, inputs: &ScriptInputs) -> Self {
        let (begin, broken) = match machine.begin(&script, inputs) {
            Ok(values) => (Some(values), None),
            Err(error) => (None, Some(failure(&error))),
        };
        Self { script, machine: Some(machine), begin, broken, asks: false, steps: 0 }
    }

    /// A run that fails at once.
    pub fn broken(script: Arc<Script>, error: &mlua::Error) -> Self {
        let broken = Some(failure(error));
        Self { script, machine: None, begin: None, broken, asks: false, steps: 0 }
    }

    /// Ends the run, and gives the machine back if it can be used again.
    fn end(&mut self, fit: bool) {
        self.begin = None;
        let Some(machine) = self.machine.take() else { return };
        self.steps = machine.meter.fuel();
        if fit && machine.is_fit() {
            crate::give_back(machine);
        }
    }

    fn fail(&mut self, error: ErrorReply, fit: bool) -> ScriptStep {
        self.end(fit);
        ScriptStep::Failed(error)
    }

    /// The values that the script goes on with.
    fn values(&mut self, input: ScriptInput) -> mlua::Result<MultiValue> {
        let Some(machine) = &self.machine else { return Ok(MultiValue::new()) };
        let lua = &machine.lua;
        if let Some(values) = self.begin.take() {
            return Ok(values);
        }
        let asked = std::mem::take(&mut self.asks);
        Ok(match input {
            ScriptInput::Go if asked => {
                MultiValue::from_iter([Value::Boolean(true), Value::Boolean(false)])
            }
            ScriptInput::Go => MultiValue::new(),
            ScriptInput::Reply(reply) => {
                machine.limit(convert::is_small(&reply, UNLIMITED_BYTES_MAX))?;
                let ok = !reply.is_error();
                let value = convert::value(lua, reply, machine.meter.is_resp3())?;
                MultiValue::from_iter([Value::Boolean(ok), value])
            }
            ScriptInput::MayRun(may) => {
                MultiValue::from_iter([Value::Boolean(true), Value::Boolean(may)])
            }
        })
    }

    /// The step of the values that the script has yielded.
    fn yielded(&mut self, values: MultiValue) -> Result<ScriptStep, ErrorReply> {
        let mut values = convert::iter(values);
        let meter = self.machine.as_ref().map(|machine| &machine.meter);
        let Some(Value::String(tag)) = values.next() else {
            meter.into_iter().for_each(|meter| meter.next_piece());
            return Ok(ScriptStep::Pause);
        };
        if &*tag.as_bytes() == b"done" {
            return Ok(self.returned(values));
        }
        // If the steps are used up by that, the next one of the machine says so.
        meter.into_iter().for_each(|meter| drop(meter.charge(SCRIPT_FUEL_PER_CALL)));
        self.asks = true;
        match &*tag.as_bytes() {
            b"call" => Ok(ScriptStep::Call(convert::words(&mut values)?, Use::Seen)),
            b"dropped" => Ok(ScriptStep::Call(convert::words(&mut values)?, Use::Dropped)),
            b"ignored" => Ok(ScriptStep::Call(convert::words(&mut values)?, Use::Ignored)),
            b"may" => Ok(ScriptStep::MayRun(convert::words(&mut values)?)),
            _ => {
                let level = match values.next() {
                    Some(Value::Integer(..=0)) => LogLevel::Debug,
                    Some(Value::Integer(1)) => LogLevel::Verbose,
                    Some(Value::Integer(2)) => LogLevel::Notice,
                    _ => LogLevel::Warning,
                };
                let mut line = Vec::new();
                for value in values {
                    if !line.is_empty() {
                        line.push(b' ');
                    }
                    match value {
                        Value::String(text) => line.extend_from_slice(&text.as_bytes()),
                        value => line.extend(value.to_string().unwrap_or_default().bytes()),
                    }
                    line.truncate(SCRIPT_LINE_BYTES_MAX);
                }
                Ok(ScriptStep::Log(level, adt::Blob::from(line)))
            }
        }
    }

    /// The end of a script that has returned or raised an error.
    fn returned(&mut self, mut values: std::vec::IntoIter<Value>) -> ScriptStep {
        let ok = matches!(values.next(), Some(Value::Boolean(true)));
        let value = values.next().unwrap_or(Value::Nil);
        if self.machine.as_ref().is_some_and(|machine| machine.meter.is_exhausted()) {
            return self.fail(out_of_steps(), false);
        }
        if ok {
            let resp3 = self.machine.as_ref().is_some_and(|machine| machine.meter.is_resp3());
            return match convert::reply(value, resp3) {
                Ok(reply) => {
                    self.end(true);
                    ScriptStep::Done(reply)
                }
                Err(error) => self.fail(error, true),
            };
        }
        let error = self.raised(value);
        self.fail(error, true)
    }

    /// The error that a script has raised, with the place.
    fn raised(&self, value: Value) -> ErrorReply {
        let Value::Table(table) = &value else {
            return match value.to_string() {
                Ok(text) if text.contains("not enough memory") => out_of_memory(),
                Ok(text) => ErrorReply::err(text),
                Err(error) => failure(&error),
            };
        };
        let text = match table.raw_get("err") {
            Ok(Value::String(text)) => text.as_bytes().to_vec(),
            _ => b"ERR unknown error".to_vec(),
        };
        if text.ends_with(b"not enough memory") {
            return out_of_memory();
        }
        let error = convert::error(&text);
        let (name, file) = match &self.script.function {
            // The list of functions is asked for: the client adds to the error what it was about.
            Some(name) if name.is_empty() => return error,
            None => (String::from_utf8_lossy(&self.script.name), "user_script"),
            Some(name) => (String::from_utf8_lossy(name), "user_function"),
        };
        let place = match table.raw_get("line") {
            Ok(Value::Number(line)) => format!(" script: {name}, on @{file}:{line}."),
            Ok(Value::Integer(line)) => format!(" script: {name}, on @{file}:{line}."),
            _ => format!(" script: {name}."),
        };
        ErrorReply::new(error.code().to_owned(), format!("{}{place}", error.text()))
    }
}

impl Run for LuauRun {
    fn script(&self) -> &Script {
        &self.script
    }

    fn steps(&self) -> u64 {
        self.machine.as_ref().map_or(self.steps, |machine| machine.meter.fuel())
    }

    fn resume(&mut self, input: ScriptInput) -> ScriptStep {
        if let Some(error) = self.broken.take() {
            return self.fail(error, false);
        }
        let mut input = input;
        loop {
            let values = match self.values(input) {
                Ok(values) => values,
                Err(error) => return self.fail(failure(&error), false),
            };
            let Some(machine) = &self.machine else {
                return ScriptStep::Failed(ErrorReply::err("the script has ended"));
            };
            match machine.resume(values) {
                Ok(values) => match self.yielded(values) {
                    Ok(step) => return step,
                    Err(error) => input = ScriptInput::Reply(Reply::Error(error)),
                },
                Err(_) if self.machine.as_ref().is_some_and(|m| m.meter.is_exhausted()) => {
                    return self.fail(out_of_steps(), false);
                }
                Err(error) => return self.fail(failure(&error), false),
            }
        }
    }
}

impl Drop for LuauRun {
    /// A run whose transaction has to give way ends in between. Its machine can be used again.
    fn drop(&mut self) {
        let given_up = self.machine.as_mut().map(Machine::give_up);
        self.end(given_up.is_some_and(|given_up| given_up.is_ok()));
    }
}
