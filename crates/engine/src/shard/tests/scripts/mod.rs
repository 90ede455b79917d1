//! Stories about scripts that the shard runs. A text of these stories is a list of commands, one a line; the
//! run answers the reply to the last one. `FAIL` raises an error, `PAUSE` lasts for a piece, and the error of
//! a line behind `?` is caught.

mod runs;
mod together;

use super::*;
use crate::limits::{SCRIPT_FUEL_PER_PIECE, SLOTS};
use crate::script::{
    Interpreter, Run, Script, ScriptInput, ScriptInputs, ScriptOf, ScriptRun, ScriptStep, Use,
};
use adt::{ArgBuf, ErrorReply};
use std::sync::Arc;

/// Interpreter of lists of commands.
#[derive(Debug)]
struct Lines;

#[derive(Debug)]
struct LinesRun {
    script: Arc<Script>,
    lines: Vec<Vec<u8>>,
    next: usize,
}

impl Interpreter for Lines {
    fn read(&self, text: &Blob) -> Result<Arc<Script>, ErrorReply> {
        let number = text.iter().fold(7, |number, byte| mix(number ^ u64::from(*byte)));
        let digits = format!("{number:040x}");
        let name = digits.as_bytes().try_into().expect("it has 40 digits");
        let no_writes = false;
        Ok(Arc::new(Script {
            name,
            text: text.clone(),
            no_writes,
            code: Vec::new(),
            function: None,
            operation: None,
        }))
    }

    fn begin(&self, script: &Arc<Script>, _: &Arc<ScriptInputs>) -> Box<dyn Run> {
        let lines = script.text.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        Box::new(LinesRun { script: script.clone(), lines, next: 0 })
    }
}

impl Run for LinesRun {
    fn script(&self) -> &Script {
        &self.script
    }

    fn steps(&self) -> u64 {
        let pauses = self.lines[..self.next].iter().filter(|line| **line == *b"PAUSE");
        self.next as u64 + pauses.count() as u64 * SCRIPT_FUEL_PER_PIECE
    }

    fn resume(&mut self, input: ScriptInput) -> ScriptStep {
        let catches = self.next > 0 && self.lines[self.next - 1].starts_with(b"?");
        if let (ScriptInput::Reply(Reply::Error(error)), false) = (&input, catches) {
            let error = error.clone();
            return ScriptStep::Failed(error);
        }
        let Some(line) = self.lines.get(self.next) else {
            return ScriptStep::Done(match input {
                ScriptInput::Reply(reply) => reply,
                _ => Reply::Nil,
            });
        };
        self.next += 1;
        match &line[..] {
            b"FAIL" => ScriptStep::Failed(ErrorReply::err("raised")),
            b"PAUSE" => ScriptStep::Pause,
            line => {
                let line = line.strip_prefix(b"?").unwrap_or(line);
                let words: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
                let call = ArgBuf::of(words);
                ScriptStep::Call(call, Use::Seen)
            }
        }
    }
}

/// A shard that runs such scripts.
fn story() -> Story {
    let config = Story::new().shard.desk.core.config;
    Story::leading(ShardConfig { interpreter: Some(&Lines), ..config })
}

/// Run of a script on declared keys.
fn run(keys: &[&str], text: &str) -> Body {
    Body::Run(vec![run_within(keys, text, (0, SLOTS - 1))])
}

/// Runs of scripts on one record, for one request.
fn runs(key: &str, texts: &[&str]) -> Body {
    Body::Run(texts.iter().map(|text| run_within(&[key], text, (0, SLOTS - 1))).collect())
}

/// Run of a script on declared keys, at a shard with these slots.
fn run_within(keys: &[&str], text: &str, slots: (u16, u16)) -> ScriptRun {
    let keys = keys.iter().map(|key| Blob::from(key.as_bytes())).collect();
    let inputs = Arc::new(ScriptInputs { keys, args: Vec::new() });
    let script = ScriptOf::Text(Blob::from(text.as_bytes()));
    let (only_reads, database, also) = (false, 0, Vec::new());
    ScriptRun { script, inputs, only_reads, database, slots, also }
}

/// Answers by the order of the requests.
fn told(story: &mut Story) -> Vec<String> {
    let mut answers = story.answers();
    answers.sort_by_key(|(token, _)| *token);
    let answer = |(token, answer): (u64, Answer)| match answer {
        Answer::Reply(Reply::Error(error)) => {
            format!("{token} {} {}", error.code(), error.text())
        }
        answer => format!("{token} {}", short(&answer)),
    };
    answers.into_iter().map(answer).collect()
}
