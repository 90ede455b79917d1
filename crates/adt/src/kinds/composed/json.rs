//! Definitions in JSON, for programs that write and read them. It is another form of the same language:
//! steps, parameters and initial values are the text of [`super::definition`].
//!
//! ```json
//! {
//!   "type": "stock",
//!   "parts": [
//!     {"name": "free", "kind": "counter", "with": "counter.set 0 min 0"},
//!     {"name": "held", "kind": "string", "map": true}
//!   ],
//!   "operations": [{"name": "add", "parameters": ["n:int"], "steps": ["counter.try free $n"]}],
//!   "expired": [{"map": "held", "field": "order", "value": "n:int", "steps": ["counter.try free $n"]}]
//! }
//! ```

use super::definition::{DEFINITION_BYTES_MAX, Definition};
use super::parse::{KEYWORDS, Reading, Wrong};
use super::words::{Word, split};
use crate::ErrorReply;
use serde::{Deserialize, Serialize};

/// Longest definition in JSON, in bytes: the names of its fields do not count for the limit of the text.
const JSON_BYTES_MAX: usize = 4 * DEFINITION_BYTES_MAX;

#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(rename = "type")]
    name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    version: Option<u32>,
    parts: Vec<Part>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    without: Vec<String>,
    operations: Vec<Operation>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    expired: Vec<Expired>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Part {
    name: String,
    kind: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    map: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    with: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Operation {
    name: String,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    query: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    steps: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expired {
    map: String,
    field: String,
    value: String,
    steps: Vec<String>,
}

/// Whether a definition is in JSON: no text of the other form begins so.
pub(super) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Reads the lines of a definition in JSON.
pub(super) fn read(text: &str, reading: &mut Reading) -> Result<(), ErrorReply> {
    if text.len() > JSON_BYTES_MAX {
        let text = format!("a definition in JSON has at most {JSON_BYTES_MAX} bytes");
        return Err(ErrorReply::err(text));
    }
    let written: Written = serde_json::from_str(text)
        .map_err(|why| ErrorReply::err(format!("the definition in JSON: {why}")))?;
    written.lines(&mut |place, line| {
        let read = match line {
            Line::Words(words) => reading.line(&words),
            Line::OfProgram(line) => reading.program_line(&format!(" {line}")),
        };
        read.map_err(|Wrong(why)| ErrorReply::err(format!("{place}: {why}")))
    })
}

/// A line of words, none of which is quoted.
fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<Word> {
    words.into_iter().map(|word| Word { text: word.to_owned(), quoted: false }).collect()
}

/// The words of a command that is written as text.
fn command(place: &str, text: &str) -> Result<Vec<Word>, ErrorReply> {
    let wrong = |why: &str| ErrorReply::err(format!("{place}: {why}"));
    let words = split(text).map_err(|why| wrong(&why))?;
    match words.first() {
        None => Err(wrong("a command is missing")),
        Some(first) if KEYWORDS.iter().any(|keyword| first.is(keyword)) => {
            Err(wrong("a step is a command, 'return' or 'require'"))
        }
        Some(_) => Ok(words),
    }
}

/// A line of the text form.
enum Line<'a> {
    Words(Vec<Word>),
    OfProgram(&'a str),
}

type Take<'a> = dyn FnMut(&str, Line<'_>) -> Result<(), ErrorReply> + 'a;

impl Written {
    /// Hands over each line of the text form, with its place for errors.
    fn lines(&self, take: &mut Take<'_>) -> Result<(), ErrorReply> {
        take("type", Line::Words(line(["type", &self.name])))?;
        for part in &self.parts {
            let place = format!("part {}", part.name);
            let mut words = line([if part.map { "map" } else { "part" }, &part.name, &part.kind]);
            if let Some(with) = &part.with {
                words.extend(line(["with"]));
                words.extend(command(&place, with)?);
            }
            take(&place, Line::Words(words))?;
        }
        for name in &self.without {
            take("without", Line::Words(line(["without", name])))?;
        }
        for operation in &self.operations {
            let place = format!("operation {}", operation.name);
            let keyword = if operation.query { "query" } else { "op" };
            let mut words = line([keyword, &operation.name]);
            words.extend(line(operation.parameters.iter().map(String::as_str)));
            take(&place, Line::Words(words))?;
            steps(&place, &operation.steps, take)?;
            for (number, line) in operation.program.iter().flat_map(|all| all.lines()).enumerate() {
                let place = format!("{place}, line {} of the program", number + 1);
                take(&place, Line::OfProgram(line))?;
            }
        }
        for expired in &self.expired {
            let place = format!("expired {}", expired.map);
            let words = line(["expired", &expired.map, &expired.field, &expired.value]);
            take(&place, Line::Words(words))?;
            steps(&place, &expired.steps, take)?;
        }
        Ok(())
    }

    /// Takes a line of the text form.
    fn line(&mut self, words: &[Word]) {
        let written: Vec<String> = words.iter().map(Word::written).collect();
        let Some((keyword, rest)) = written.split_first() else { return };
        let word = |place: usize| rest.get(place).cloned().unwrap_or_default();
        match keyword.as_str() {
            "type" => {
                self.name = word(0);
                self.version = word(1).parse().ok();
            }
            "part" | "map" => {
                let with = rest.get(3..).map(|command| command.join(" "));
                let map = keyword == "map";
                self.parts.push(Part { name: word(0), kind: word(1), map, with });
            }
            "without" => self.without.push(word(0)),
            "op" | "query" => {
                let (name, query) = (word(0), keyword == "query");
                let parameters = rest.get(1..).unwrap_or_default().to_vec();
                let (steps, program) = (Vec::new(), None);
                self.operations.push(Operation { name, query, parameters, steps, program });
            }
            _ => {
                let (map, field, value) = (word(0), word(1), word(2));
                self.expired.push(Expired { map, field, value, steps: Vec::new() });
            }
        }
    }
}

fn steps(place: &str, steps: &[String], take: &mut Take<'_>) -> Result<(), ErrorReply> {
    for (number, step) in steps.iter().enumerate() {
        let place = format!("{place}, step {}", number + 1);
        take(&place, Line::Words(command(&place, step)?))?;
    }
    Ok(())
}

impl Definition {
    /// The definition in JSON. It reads back as the same one.
    pub fn json(&self) -> String {
        let text = String::from_utf8_lossy(self.text());
        let (mut written, mut is_expired) = (Written::default(), false);
        for line in text.lines() {
            if line.starts_with('|') {
                continue;
            }
            // Steps, and only these, are indented in the canonical text.
            let Some(step) = line.strip_prefix(' ') else {
                let words = split(line).unwrap_or_default();
                is_expired = words.first().is_some_and(|word| word.is("expired"));
                written.line(&words);
                continue;
            };
            let steps = match is_expired {
                true => written.expired.last_mut().map(|expired| &mut expired.steps),
                false => written.operations.last_mut().map(|operation| &mut operation.steps),
            };
            if let Some(steps) = steps {
                steps.push(step.to_owned());
            }
        }
        for (written, operation) in written.operations.iter_mut().zip(&self.operations) {
            written.program.clone_from(&operation.program);
        }
        serde_json::to_string(&written).unwrap_or_default()
    }
}
