//! Scripts in Luau, under limits, with the functions and conversions of Redis' scripts.
//!
//! Each run has a virtual machine of its own, so that a limit of memory hits nothing else. A machine whose
//! run has ended well is used again: its runs follow each other in one coroutine. A command yields, and the
//! reply resumes it.
//!
//! What differs from Redis' Lua 5.1: `loadstring`, `load`, `setfenv`, `getfenv` and `print` are absent, and
//! JSON must be valid UTF-8. Luau has more syntax and functions.

#![forbid(unsafe_code)]

mod bits;
mod convert;
mod json;
mod library;
mod machine;
mod msgpack;
mod run;
mod straight;
mod structs;
mod text;

use adt::{Blob, ErrorReply};
use engine::limits::{LIBRARY_PIECES_MAX, SCRIPT_MACHINES_IDLE_MAX};
use engine::script::{
    Interpreter, Library, LibraryFunction, Run, Script, ScriptInput, ScriptInputs, ScriptName,
    ScriptStep,
};
use machine::Machine;
use run::LuauRun;
use std::cell::RefCell;
use std::sync::Arc;
use straight::StraightRun;

thread_local! {
    /// Machines of this thread in which no run is.
    static IDLE: RefCell<Vec<Machine>> = const { RefCell::new(Vec::new()) };
}

/// Interpreter of scripts.
#[derive(Debug)]
pub struct Luau;

/// A machine for a run, which is used again if there is one.
fn machine() -> mlua::Result<Machine> {
    match IDLE.with_borrow_mut(Vec::pop) {
        Some(machine) => Ok(machine),
        None => Machine::new(),
    }
}

/// Keeps a machine in which no run is any more.
fn give_back(machine: Machine) {
    // A run may end together with its thread.
    _ = IDLE.try_with(|idle| {
        let mut idle = idle.borrow_mut();
        if idle.len() < SCRIPT_MACHINES_IDLE_MAX {
            idle.push(machine);
        }
    });
}

/// Name of a text: its SHA-1 in hexadecimal digits.
pub(crate) fn name_of(text: &[u8]) -> ScriptName {
    let digest = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, text);
    let mut name = [0; 40];
    for (at, byte) in digest.as_ref().iter().enumerate() {
        let digit = |half: u8| b"0123456789abcdef"[usize::from(half)];
        name[2 * at] = digit(byte >> 4);
        name[2 * at + 1] = digit(byte & 15);
    }
    name
}

/// Translates a text without its first line, which is that of a script or of a library.
fn code_of(source: &[u8], kind: &str) -> Result<Vec<u8>, ErrorReply> {
    let source = text::with_dropped_calls(source);
    let compiler = mlua::chunk::Compiler::new().set_optimization_level(1).set_debug_level(1);
    compiler.compile(&source).map_err(|error| {
        let text = match &error {
            mlua::Error::SyntaxError { message, .. } => message.clone(),
            error => error.to_string(),
        };
        let text = text.trim_start_matches("syntax error: ").trim_start_matches(':');
        ErrorReply::err(match kind {
            LIBRARY => format!("Error compiling function: user_function:{text}"),
            _ => format!("Error compiling script (new function): user_script:{text}"),
        })
    })
}

const SCRIPT: &str = "script";
const LIBRARY: &str = "library";

/// A library whose functions are asked for, or one of them.
fn library_of(text: &Blob, function: Blob) -> Result<Script, ErrorReply> {
    let (_, first) = text::library(text)?;
    let code = code_of(&text[first..], LIBRARY)?;
    Ok(Script {
        name: name_of(text),
        text: text.clone(),
        no_writes: false,
        code,
        function: Some(function),
        operation: None,
    })
}

/// A run in a virtual machine.
fn in_machine(script: &Arc<Script>, inputs: &ScriptInputs) -> LuauRun {
    match machine() {
        Ok(machine) => LuauRun::new(script.clone(), machine, inputs),
        Err(error) => LuauRun::broken(script.clone(), &error),
    }
}

impl Interpreter for Luau {
    fn read(&self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        let (header, first) = text::header(text)?;
        let code = code_of(&text[first..], SCRIPT)?;
        let (name, no_writes) = (name_of(text), header.no_writes);
        Ok(Arc::new(Script {
            name,
            text: text.clone(),
            no_writes,
            code,
            function: None,
            operation: None,
        }))
    }

    fn read_library(&self, text: &Blob) -> Result<Library, ErrorReply> {
        let name = Blob::new(text::library(text)?.0);
        let script = Arc::new(library_of(text, Blob::default())?);
        let inputs = Arc::new(ScriptInputs { keys: Vec::new(), args: Vec::new() });
        let mut run = self.begin(&script, &inputs);
        // A library that takes longer than a few pieces would hold its worker up.
        for _ in 0..LIBRARY_PIECES_MAX {
            let reply = match run.resume(ScriptInput::Go) {
                ScriptStep::Pause => continue,
                ScriptStep::Done(reply) => reply,
                ScriptStep::Failed(error) => {
                    let text = format!("Error registering functions: {error}");
                    return Err(ErrorReply::err(text));
                }
                ScriptStep::Call(..) | ScriptStep::MayRun(_) | ScriptStep::Log(..) => break,
            };
            return match convert::functions(reply) {
                functions if functions.is_empty() => {
                    Err(ErrorReply::err("No functions registered"))
                }
                functions => Ok(Library { name, text: script.name, functions }),
            };
        }
        Err(ErrorReply::err("Error registering functions: the library takes too many steps"))
    }

    fn read_function(
        &self,
        text: &Blob,
        function: &LibraryFunction,
    ) -> Result<Arc<Script>, ErrorReply> {
        let script = library_of(text, function.name.clone())?;
        Ok(Arc::new(Script { no_writes: function.no_writes(), ..script }))
    }

    fn begin(&self, script: &Arc<Script>, inputs: &Arc<ScriptInputs>) -> Box<dyn Run> {
        match straight::plan(script) {
            Some(plan) => Box::new(StraightRun::new(script.clone(), plan, inputs)),
            None => Box::new(in_machine(script, inputs)),
        }
    }
}

#[cfg(test)]
mod tests;
