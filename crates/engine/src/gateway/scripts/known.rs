//! Texts that the gateway has read, and the interpreter that reads them.

use crate::entry::Apply;
use crate::gateway::mail::{Mail, Pending};
use crate::limits::{
    SCRIPT_BYTES_MAX, SCRIPT_LASTS_S, SCRIPTS_KNOWN_BYTES_MAX, SCRIPTS_KNOWN_MAX,
    SCRIPTS_RUNNING_MAX, SCRIPTS_SHARED_BYTES_MAX, SCRIPTS_SHARED_BYTES_PER_S,
};
use crate::message::Body;
use crate::now::Now;
use crate::script::keys::script_key;
use crate::script::{Interpreter, Run, Script, ScriptInputs, ScriptName};
use adt::collections::Map;
use adt::{ArgBuf, Blob, ErrorReply};
use smallvec::smallvec;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

/// A text that was read.
#[derive(Debug)]
struct ReadText {
    script: Arc<Script>,
    /// When it was last given to the store by this gateway, on the monotonic clock in microseconds.
    shared_us: Option<u64>,
}

/// Place of a run among those that a gateway has at once.
#[derive(Debug, Default)]
pub struct RunPlace;

/// Texts that the gateway has read, and the interpreter.
#[derive(Default)]
pub struct Scripts {
    interpreter: Option<Box<dyn Interpreter>>,
    /// Each run has a copy.
    place: Arc<RunPlace>,
    known: Map<ScriptName, ReadText>,
    names: Map<Blob, ScriptName>,
    /// Names in the order in which the texts were read. The first is forgotten first.
    order: VecDeque<ScriptName>,
    /// Bytes of all known texts.
    bytes: usize,
    /// Bytes of texts that may be given to the store now, and the time of that number.
    allowance: (u64, u64),
    /// How often all texts were forgotten.
    forgotten: u64,
}

impl fmt::Debug for Scripts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scripts({} known)", self.known.len())
    }
}

fn switched_off() -> ErrorReply {
    ErrorReply::err("scripts are switched off on this server")
}

/// Operation that keeps a text, for a while or until it is flushed.
fn keeping(name: &ScriptName, text: &Blob, lasts_s: Option<u64>) -> Option<(Blob, adt::Op)> {
    let key = script_key(name);
    let mut words = ArgBuf::new();
    words.push("set").push(&key).push(text);
    if let Some(s) = lasts_s {
        words.push("NX").push("EX").push(s.to_string());
    }
    adt::record::decode(&words.args()).ok()
}

impl Scripts {
    /// Gives the gateway an interpreter.
    pub fn set_interpreter(&mut self, interpreter: Box<dyn Interpreter>) {
        self.interpreter = Some(interpreter);
    }

    /// Reads a text, unless it is known.
    pub fn read(&mut self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        if let Some(known) = self.names.get(text).and_then(|name| self.known.get(name)) {
            return Ok(known.script.clone());
        }
        if text.len() > SCRIPT_BYTES_MAX {
            let error = format!("a script has at most {SCRIPT_BYTES_MAX} bytes");
            return Err(ErrorReply::err(error));
        }
        let interpreter = self.interpreter.as_mut().ok_or_else(switched_off)?;
        let script = interpreter.read(text)?;
        self.bytes += text.len();
        self.names.insert(text.clone(), script.name);
        let known = ReadText { script: script.clone(), shared_us: None };
        self.known.insert(script.name, known);
        self.order.push_back(script.name);
        while self.known.len() > SCRIPTS_KNOWN_MAX || self.bytes > SCRIPTS_KNOWN_BYTES_MAX {
            let oldest = self.order.pop_front().and_then(|name| self.known.swap_remove(&name));
            let Some(oldest) = oldest else { break };
            self.bytes -= oldest.script.text.len();
            self.names.swap_remove(&oldest.script.text);
        }
        Ok(script)
    }

    /// The text with a name, if it is known here.
    pub fn named(&self, name: &ScriptName) -> Option<Arc<Script>> {
        self.known.get(name).map(|known| known.script.clone())
    }

    /// Begins a run.
    pub fn begin(
        &mut self,
        script: &Arc<Script>,
        inputs: &ScriptInputs,
    ) -> Result<(Box<dyn Run>, Arc<RunPlace>), ErrorReply> {
        if Arc::strong_count(&self.place) > SCRIPTS_RUNNING_MAX {
            let text =
                format!("{SCRIPTS_RUNNING_MAX} scripts run already; wait a little and try again");
            return Err(ErrorReply::new("BUSY", text));
        }
        let interpreter = self.interpreter.as_mut().ok_or_else(switched_off)?;
        Ok((interpreter.begin(script, inputs), self.place.clone()))
    }

    /// Forgets all texts.
    pub fn forget_all(&mut self) {
        self.known.clear();
        self.names.clear();
        self.order.clear();
        self.bytes = 0;
        self.forgotten += 1;
    }

    /// How often all texts were forgotten: what was read from the store before is not to be known again.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Operation that keeps a text for all machines until scripts are flushed.
    pub fn keep(&mut self, now: Now, script: &Script) -> Option<(Blob, adt::Op)> {
        self.note_shared(now, &script.name);
        keeping(&script.name, &script.text, None)
    }

    fn note_shared(&mut self, now: Now, name: &ScriptName) {
        if let Some(known) = self.known.get_mut(name) {
            known.shared_us = Some(now.mono_us);
        }
    }

    /// Gives a text that was run to the store for a day, so that other machines know it by its name. Texts
    /// that differ from call to call, because values are written into them, are given up to a rate only.
    pub fn share(&mut self, now: Now, mail: &mut Mail, script: &Script) {
        let known = self.known.get(&script.name);
        let lasts_us = SCRIPT_LASTS_S * 1_000_000;
        let recently = |us: u64| now.mono_us < us + lasts_us / 2;
        if known.is_none_or(|known| known.shared_us.is_some_and(recently)) {
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
        let Some((key, op)) = keeping(&script.name, &script.text, Some(SCRIPT_LASTS_S)) else {
            return;
        };
        let shard = mail.shard_of(&key);
        let apply = Apply { ops: smallvec![(key, op)], ..Apply::default() };
        mail.ask(shard, Pending::Remembered, Body::Apply(apply));
    }
}
