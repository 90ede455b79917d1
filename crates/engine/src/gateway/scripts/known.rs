//! Texts that the gateway has read, and the interpreter that reads them.

use super::{ScriptCall, Text};
use crate::entry::Apply;
use crate::gateway::mail::{Mail, Pending};
use crate::gateway::txn::work::{Program, ProgramStep};
use crate::ids::KeyedOp;
use crate::limits::{
    SCRIPT_LASTS_S, SCRIPTS_KNOWN_MAX, SCRIPTS_RUNNING_MAX, SCRIPTS_SHARED_BYTES_MAX,
    SCRIPTS_SHARED_BYTES_PER_S,
};
use crate::message::Body;
use crate::now::Now;
use crate::script::counts::{RanAt, ScriptCount, ScriptCounts};
use crate::script::keys::{on_own, script_key};
use crate::script::texts::Texts;
use crate::script::{Interpreter, Library, LibraryFunction, Run, Script, ScriptInputs, ScriptName};
use adt::collections::Map;
use adt::kinds::composed::definition::Definition;
use adt::{Blob, ErrorReply};
use smallvec::smallvec;
use std::fmt;
use std::sync::Arc;

/// Place of a run among those that a gateway has at once.
#[derive(Debug, Default)]
pub struct RunPlace;

/// Texts that the gateway has read, and what it has done about each.
#[derive(Default)]
pub struct Scripts {
    texts: Texts,
    /// Each run has a copy.
    place: Arc<RunPlace>,
    notes: Map<ScriptName, Note>,
    /// Bytes of texts that may be given to the store now, and the time of that number.
    allowance: (u64, u64),
    /// How often all texts were forgotten.
    forgotten: u64,
    counts: ScriptCounts,
}

/// Facts about a text.
#[derive(Debug, Default)]
struct Note {
    /// When it was last given to the store by this gateway, on the monotonic clock in microseconds.
    shared_us: Option<u64>,
    /// Further runs that are not tried at a shard, because the last one there could not end.
    kept_away: u32,
    /// Number of runs in a row that could not end at a shard.
    failed: u32,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripts({} known)", self.texts.len())
    }
}

/// Operation that keeps a text, for a while or until it is flushed.
fn keeping(name: &ScriptName, text: &Blob, lasts_s: Option<u64>) -> KeyedOp {
    let key = script_key(name);
    match lasts_s {
        Some(s) => on_own(key, &[b"set", text, b"NX", b"EX", s.to_string().as_bytes()]),
        None => on_own(key, &[b"set", text]),
    }
}

impl Scripts {
    /// Gives the gateway an interpreter.
    pub fn set_interpreter(&mut self, interpreter: &'static dyn Interpreter) {
        self.texts = Texts::new(Some(interpreter));
    }

    /// Reads a text, unless it is known.
    pub fn read(&mut self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        self.texts.read(text)
    }

    /// The text with a name, if it is known here.
    pub fn named(&self, name: &ScriptName) -> Option<Arc<Script>> {
        self.texts.named(name).cloned()
    }

    /// Reads a library, to learn which functions it registers.
    pub fn read_library(&self, text: &Blob) -> Result<Library, ErrorReply> {
        self.texts.read_library(text)
    }

    /// A function of the library whose text has this name, if it is known here.
    pub fn function(&self, text: &ScriptName, function: &Blob) -> Option<Arc<Script>> {
        self.texts.function(text, function).cloned()
    }

    /// Reads a function of a library.
    pub fn read_function(
        &mut self,
        text: &Blob,
        function: &LibraryFunction,
    ) -> Result<Arc<Script>, ErrorReply> {
        self.texts.read_function(text, function)
    }

    /// Reads the program of an operation of a composed type, unless it is known.
    pub fn read_operation(
        &mut self,
        definition: &Arc<Definition>,
        number: usize,
    ) -> Result<Arc<Script>, ErrorReply> {
        self.texts.read_operation(definition, number)
    }

    /// Begins a run.
    pub fn begin(
        &mut self,
        script: &Arc<Script>,
        inputs: &Arc<ScriptInputs>,
    ) -> Result<(Box<dyn Run>, Arc<RunPlace>), ErrorReply> {
        if Arc::strong_count(&self.place) > SCRIPTS_RUNNING_MAX {
            let text =
                format!("{SCRIPTS_RUNNING_MAX} scripts run already; wait a little and try again");
            return Err(ErrorReply::new("BUSY", text));
        }
        Ok((self.texts.begin(script, inputs)?, self.place.clone()))
    }

    /// Counts a run that has ended at this gateway.
    pub fn ended(&mut self, run: &dyn Run, failed: bool) {
        self.counts.note(run, RanAt::Gateway, failed);
    }

    /// Counts of the scripts that were run at this gateway.
    pub fn counts(&self) -> impl Iterator<Item = &ScriptCount> {
        self.counts.all()
    }

    /// Forgets all texts.
    pub fn forget_all(&mut self) {
        self.texts.forget_all();
        self.notes.clear();
        self.forgotten += 1;
    }

    fn note(&mut self, name: &ScriptName) -> &mut Note {
        if self.notes.len() >= SCRIPTS_KNOWN_MAX && !self.notes.contains_key(name) {
            self.notes.clear();
        }
        self.notes.entry(*name).or_default()
    }

    /// The script of a call, if it is to be tried at the shard of its keys.
    pub(in crate::gateway) fn for_shard(&mut self, call: &ScriptCall) -> Option<Arc<Script>> {
        let script = match &call.text {
            Text::Read(script) => script.clone(),
            Text::Named(name) => self.named(name)?,
            // Which text it has is read in its transaction.
            Text::Function(_) => return None,
        };
        let Some(note) = self.notes.get_mut(&script.name) else { return Some(script) };
        note.kept_away = note.kept_away.saturating_sub(1);
        (note.kept_away == 0).then_some(script)
    }

    /// Notes whether the script of a program could end at a shard. A script that cannot is tried less and
    /// less.
    pub(in crate::gateway) fn ran(&mut self, program: &Program, ended: bool) {
        let [ProgramStep::Script(call)] = &program.steps[..] else { return };
        let name = match &call.text {
            Text::Read(script) => script.name,
            Text::Named(name) => *name,
            Text::Function(_) => return,
        };
        if ended && self.notes.get(&name).is_none_or(|note| note.failed == 0) {
            return;
        }
        let note = self.note(&name);
        note.failed = if ended { 0 } else { note.failed.saturating_add(1) };
        note.kept_away = match note.failed {
            0 => 0,
            failed => 1 << failed.min(10),
        };
    }

    /// How often all texts were forgotten: what was read from the store before is not to be known again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Operation that keeps a text for all machines until scripts are flushed.
    pub fn keep(&mut self, now: Now, script: &Script) -> KeyedOp {
        self.note_shared(now, &script.name);
        keeping(&script.name, &script.text, None)
    }

    fn note_shared(&mut self, now: Now, name: &ScriptName) {
        self.note(name).shared_us = Some(now.mono_us);
    }

    /// Gives a text that was run to the store for a day, so that other machines know it by its name. Texts
    /// that differ from call to call, because values are written into them, are given up to a rate only.
    pub fn share(&mut self, now: Now, mail: &mut Mail, script: &Script) {
        let shared_us = self.notes.get(&script.name).and_then(|note| note.shared_us);
        let lasts_us = SCRIPT_LASTS_S * 1_000_000;
        let recently = |us: u64| now.mono_us < us + lasts_us / 2;
        if shared_us.is_some_and(recently) {
            return;
        }
        let (allowed, since_us) = self.allowance;
        let more = (now.mono_us - since_us).saturating_mul(SCRIPTS_SHARED_BYTES_PER_S) / 1_000_000;
        let first = if since_us == 0 { SCRIPTS_SHARED_BYTES_MAX } else { 0 };
        let allowed = (allowed + more + first).min(SCRIPTS_SHARED_BYTES_MAX);
        let wanted = script.text.len() as u64;
        if allowed < wanted {
            return;
        }
        self.allowance = (allowed - wanted, now.mono_us);
        self.note_shared(now, &script.name);
        let (key, op) = keeping(&script.name, &script.text, Some(SCRIPT_LASTS_S));
        let shard = mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        mail.ask(shard, Pending::Remembered, Body::Apply(apply));
    }
}
