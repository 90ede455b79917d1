//! Texts that an interpreter has read.

use super::{
    Interpreter, Library, LibraryFunction, Run, Script, ScriptInputs, ScriptName, operation,
};
use crate::limits::{
    OPERATIONS_KNOWN_MAX, SCRIPT_BYTES_MAX, SCRIPTS_KNOWN_BYTES_MAX, SCRIPTS_KNOWN_MAX,
};
use adt::collections::Map;
use adt::kinds::composed::definition::Definition;
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
    /// Functions by the names of their libraries' texts, and their own.
    functions: Map<(ScriptName, Blob), Arc<Script>>,
    /// Bytes of all known functions.
    functions_bytes: usize,
    /// Programs of operations, by the texts of their definitions and their numbers there.
    operations: Map<(Blob, usize), Arc<Script>>,
}

/// Checks the length of a text.
fn check_len(text: &Blob) -> Result<(), ErrorReply> {
    match text.len() > SCRIPT_BYTES_MAX {
        true => Err(ErrorReply::err(format!("a script has at most {SCRIPT_BYTES_MAX} bytes"))),
        false => Ok(()),
    }
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
        check_len(text)?;
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

    /// Reads a library, to learn which functions it registers.
    pub fn read_library(&self, text: &Blob) -> Result<Library, ErrorReply> {
        check_len(text)?;
        self.interpreter.ok_or_else(switched_off)?.read_library(text)
    }

    /// A function of the library whose text has this name, if it is known.
    pub fn function(&self, text: &ScriptName, function: &Blob) -> Option<&Arc<Script>> {
        self.functions.get(&(*text, function.clone()))
    }

    /// Reads a function of a library.
    pub fn read_function(
        &mut self,
        text: &Blob,
        function: &LibraryFunction,
    ) -> Result<Arc<Script>, ErrorReply> {
        let script = self.interpreter.ok_or_else(switched_off)?.read_function(text, function)?;
        self.functions_bytes += script.code.len();
        if self.functions_bytes > SCRIPTS_KNOWN_BYTES_MAX {
            self.functions.clear();
            self.functions_bytes = script.code.len();
        }
        self.functions.insert((script.name, function.name.clone()), script.clone());
        Ok(script)
    }

    /// Reads the program of an operation of a composed type, unless it is known.
    pub fn read_operation(
        &mut self,
        definition: &Arc<Definition>,
        number: usize,
    ) -> Result<Arc<Script>, ErrorReply> {
        let place = (definition.text().clone(), number);
        if let Some(known) = self.operations.get(&place) {
            return Ok(known.clone());
        }
        let interpreter = self.interpreter.ok_or_else(switched_off)?;
        let script = operation::read(interpreter, definition, number)?;
        if self.operations.len() >= OPERATIONS_KNOWN_MAX {
            self.operations.clear();
        }
        self.operations.insert(place, script.clone());
        Ok(script)
    }

    /// Reads a text that another machine has sent: a script, or an operation of a composed type.
    pub fn read_sent(&mut self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        match operation::parts_of(text) {
            None => self.read(text),
            Some(parts) => {
                let (definition, number) = parts?;
                self.read_operation(&definition, number)
            }
        }
    }

    /// Begins a run.
    pub fn begin(
        &self,
        script: &Arc<Script>,
        inputs: &Arc<ScriptInputs>,
    ) -> Result<Box<dyn Run>, ErrorReply> {
        let interpreter = self.interpreter.ok_or_else(switched_off)?;
        Ok(match &script.operation {
            Some(program) => operation::begin(interpreter, script, program, inputs),
            None => interpreter.begin(script, inputs),
        })
    }

    /// Forgets all texts.
    pub fn forget_all(&mut self) {
        *self = Self::new(self.interpreter);
    }
}
