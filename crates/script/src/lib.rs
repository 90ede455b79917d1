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
mod structs;
mod text;

use adt::{Blob, ErrorReply};
use engine::limits::SCRIPT_MACHINES_IDLE_MAX;
use engine::script::{Interpreter, Run, Script, ScriptInputs, ScriptName};
use machine::Machine;
use run::LuauRun;
use std::cell::RefCell;
use std::sync::Arc;

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

impl Interpreter for Luau {
    fn read(&self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        let (header, first) = text::header(text)?;
        let source = text::with_dropped_calls(&text[first..]);
        let compiler = mlua::chunk::Compiler::new().set_optimization_level(1).set_debug_level(1);
        let code = compiler.compile(&source).map_err(|error| {
            let text = match &error {
                mlua::Error::SyntaxError { message, .. } => message.clone(),
                error => error.to_string(),
            };
            let text = text.trim_start_matches("syntax error: ").trim_start_matches(':');
            ErrorReply::err(format!("Error compiling script (new function): user_script:{text}"))
        })?;
        let name = name_of(text);
        Ok(Arc::new(Script { name, text: text.clone(), no_writes: header.no_writes, code }))
    }

    fn begin(&self, script: &Arc<Script>, inputs: &ScriptInputs) -> Box<dyn Run> {
        Box::new(match machine() {
            Ok(machine) => LuauRun::new(script.clone(), machine, inputs),
            Err(error) => LuauRun::broken(script.clone(), &error),
        })
    }
}

#[cfg(test)]
mod tests;
