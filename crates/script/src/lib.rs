//! Scripts in Luau, under limits, with the functions and conversions of Redis' scripts.
//!
//! Each run has a virtual machine of its own, so that a limit of memory hits nothing else. A machine whose
//! run has ended well is used again. A run is a coroutine: a command yields, and the reply resumes it.
//!
//! What differs from Redis' Lua 5.1: numbers become text with up to 17 digits (`0.1 + 0.2` is
//! `0.30000000000000004`) where Lua 5.1 has 14, `coroutine`, `loadstring`, `load`, `setfenv`, `getfenv` and
//! `print` are absent, and JSON must be valid UTF-8. Luau has more syntax and functions.

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
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Interpreter of scripts.
#[derive(Debug)]
pub struct Luau {
    idle: Vec<Machine>,
    given_back: Receiver<Machine>,
    sender: Sender<Machine>,
}

impl Default for Luau {
    fn default() -> Self {
        let (sender, given_back) = channel();
        Self { idle: Vec::new(), given_back, sender }
    }
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
    fn read(&mut self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
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

    fn begin(&mut self, script: &Arc<Script>, inputs: &ScriptInputs) -> Box<dyn Run> {
        self.idle.extend(self.given_back.try_iter());
        self.idle.truncate(SCRIPT_MACHINES_IDLE_MAX);
        let machine = match self.idle.pop() {
            Some(machine) => Ok(machine),
            None => Machine::new(),
        };
        match machine {
            Ok(machine) => {
                let sender = self.sender.clone();
                Box::new(LuauRun::new(script.clone(), machine, sender, inputs))
            }
            Err(error) => Box::new(LuauRun::broken(script.clone(), self.sender.clone(), &error)),
        }
    }
}

#[cfg(test)]
mod tests;
