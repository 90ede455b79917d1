//! Texts that an interpreter has read.

use super::{Interpreter, Run, Script, ScriptInputs, ScriptName};
use crate::limits::{SCRIPT_BYTES_MAX, SCRIPTS_KNOWN_BYTES_MAX, SCRIPTS_KNOWN_MAX};
use adt::collections::Map;
use adt::{Blob, ErrorReply};
use std::collections::VecDeque;
use std::sync::Arc;

/// Texts that an interpreter has read, so that none is read for each run.
#[derive(Debug, Default)]
pub struct Texts {
    interpreter: Option<&'static dyn Interpreter>,
    known: Map<ScriptName, Arc<Script>>,
    names: Map<Blob, ScriptName>,
    /// Names in the order in which the texts were read. The first is forgotten first.
    order: VecDeque<ScriptName>,
    /// Bytes of all known texts.
    bytes: usize,
}

fn switched_off() -> ErrorReply {
    ErrorReply::err("scripts are switched off on this server")
}

impl Texts {
    /// No texts, and an interpreter, without which none can be read.
    pub fn new(interpreter: Option<&'static dyn Interpreter>) -> Self {
        Self { interpreter, ..Self::default() }
    }

    /// Number of known texts.
    pub fn len(&self) -> usize {
        self.known.len()
    }

    /// Reads a text, unless it is known.
    pub fn read(&mut self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        if let Some(known) = self.names.get(text).and_then(|name| self.known.get(name)) {
            return Ok(known.clone());
        }
        if text.len() > SCRIPT_BYTES_MAX {
            let error = format!("a script has at most {SCRIPT_BYTES_MAX} bytes");
            return Err(ErrorReply::err(error));
        }
        let script = self.interpreter.ok_or_else(switched_off)?.read(text)?;
        self.bytes += text.len();
        self.names.insert(text.clone(), script.name);
        self.known.insert(script.name, script.clone());
        self.order.push_back(script.name);
        while self.known.len() > SCRIPTS_KNOWN_MAX || self.bytes > SCRIPTS_KNOWN_BYTES_MAX {
            let oldest = self.order.pop_front().and_then(|name| self.known.swap_remove(&name));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.text.len();
            self.names.swap_remove(&oldest.text);
        }
        Ok(script)
    }

    /// The text with a name, if it is known.
    pub fn named(&self, name: &ScriptName) -> Option<&Arc<Script>> {
        self.known.get(name)
    }

    /// Begins a run.
    pub fn begin(
        &self,
        script: &Arc<Script>,
        inputs: &ScriptInputs,
    ) -> Result<Box<dyn Run>, ErrorReply> {
        Ok(self.interpreter.ok_or_else(switched_off)?.begin(script, inputs))
    }

    /// Forgets all texts.
    pub fn forget_all(&mut self) {
        *self = Self::new(self.interpreter);
    }
}
