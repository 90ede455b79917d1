//! Definitions of composed types: a text that names parts, which are values of built-in types, and
//! operations, which are lists of commands on the parts.
//!
//! ```text
//! definition = "type" name [version] { part | map | without | op | expired }
//! part       = "part" name kind [ "with" command ]       one value
//! map        = "map"  name kind [ "with" command ]       a value for each field
//! without    = "without" name                            a part of an earlier version that is dropped
//! op         = "op" name { parameter[":int" | ":number" | ":text"] } { step }
//! expired    = "expired" map field value { command }     what follows when an element expires
//! step       = command | "return" command
//!            | "require" command test value [ "else" ( "error" CODE text | value ) ]
//! test       = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//!
//! One line each; a line that begins with `#` is a comment. In a command, the name of a part stands for the
//! key, `map[field]` for an element, and `$parameter` for an argument. A word in double quotes may have
//! spaces.

use super::words::{Template, Word, split};
use crate::record::command;
use crate::{Args, Blob, Command, CommandSpec, ErrorReply, Flags, Handler, Keys, Merge, Op};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Longest text of a definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 8 << 10;

/// Most digits of a version, for which there must be room.
const VERSION_DIGITS_MAX: usize = 10;

/// Codes of errors by which clients decide what they do next: no definition answers them.
const CODES_KEPT: [&str; 9] = [
    "ASK",
    "BUSY",
    "CLUSTERDOWN",
    "INDEFINITE",
    "LOADING",
    "MOVED",
    "READONLY",
    "TRYAGAIN",
    "TXNABORT",
];

/// Most parts of a type.
pub const PARTS_MAX: usize = 32;

/// Most operations of a type.
pub const OPERATIONS_MAX: usize = 64;

/// Most steps of an operation.
pub const STEPS_MAX: usize = 32;

/// Most parameters of an operation.
pub const PARAMETERS_MAX: usize = 16;

/// Longest name of a type, a part, an operation or a parameter, in bytes.
pub const NAME_BYTES_MAX: usize = 32;

/// Definitions that a thread keeps parsed.
const KEPT_MAX: usize = 256;

/// Built-in types whose values can be parts.
const KINDS: [&str; 9] = ["string", "hash", "list", "set", "counter", "zset", "topk", "bag", "log"];

/// Type of the values of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Any bytes.
    Text,
    /// An integer of 64 bits.
    Int,
    /// A finite number.
    Number,
}

impl Form {
    const NAMES: [(&'static str, Self); 3] =
        [("text", Self::Text), ("int", Self::Int), ("number", Self::Number)];

    /// Name of the form in a definition.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, form)| *form == self).map_or("text", |(name, _)| name)
    }

    /// Whether an argument has this form.
    fn fits(self, argument: &[u8]) -> bool {
        match self {
            Self::Text => true,
            Self::Int => crate::parse_int(argument).is_ok(),
            Self::Number => crate::parse_float(argument).is_ok_and(f64::is_finite),
        }
    }

    /// An argument to try an operation with.
    fn sample(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int | Self::Number => "1",
        }
    }
}

/// Parameter of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: String,
    /// What its arguments are.
    pub form: Form,
}

/// A part of a type.
#[derive(Clone, Debug)]
pub struct PartSpec {
    /// Its name.
    pub name: String,
    /// Name of the built-in type of its value, or of the values of its elements.
    pub kind: &'static str,
    /// Whether it has an element for each field.
    pub is_map: bool,
    /// What a new value begins with, if that is not an empty one.
    pub initial: Option<Op>,
    /// What follows when an element of a map expires: parameters are its field and its value.
    pub expired: Vec<StepSpec>,
}

/// Comparison of a reply with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compare {
    Equal,
    Unequal,
    Less,
    AtMost,
    Greater,
    AtLeast,
}

impl Compare {
    fn of(word: &Word) -> Option<Self> {
        match (word.quoted, &*word.text) {
            (true, _) => None,
            (_, "=") => Some(Self::Equal),
            (_, "!=") => Some(Self::Unequal),
            (_, "<") => Some(Self::Less),
            (_, "<=") => Some(Self::AtMost),
            (_, ">") => Some(Self::Greater),
            (_, ">=") => Some(Self::AtLeast),
            _ => None,
        }
    }
}

/// A value in a definition: `nil`, or a word with arguments in it.
#[derive(Clone, Debug)]
pub(super) enum Given {
    Nil,
    Word(Template),
}

/// Reply of an operation of which a requirement does not hold.
#[derive(Clone, Debug)]
pub(super) enum Otherwise {
    Value(Given),
    Error(String, Template),
}

/// What a step is for.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// Its effect.
    Effect,
    /// Its reply, which is that of the operation or an item of it.
    Return,
    /// Its reply decides whether the operation takes effect.
    Require(Compare, Given, Otherwise),
}

/// A command on a part.
#[derive(Clone, Debug)]
pub struct StepSpec {
    pub(super) spec: &'static CommandSpec,
    pub(super) part: usize,
    pub(super) field: Option<Template>,
    /// The words behind the key.
    pub(super) words: Vec<Template>,
    pub(super) role: Role,
}

/// An operation of a type.
#[derive(Clone, Debug)]
pub struct OperationSpec {
    /// Its name.
    pub name: String,
    /// Its parameters.
    pub parameters: Vec<Parameter>,
    /// Its commands, in order.
    pub steps: Vec<StepSpec>,
    /// Whether a command of it writes.
    pub writes: bool,
}

impl OperationSpec {
    /// Whether an operation may have no effect because a requirement does not hold.
    pub(super) fn requires(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.role, Role::Require(..)))
    }

    /// Checks the arguments of a call.
    pub(super) fn check(&self, of: &str, arguments: &[Blob]) -> Result<(), ErrorReply> {
        if arguments.len() != self.parameters.len() {
            return Err(ErrorReply::err(format!(
                "wrong number of arguments for '{of}.{}': {}",
                self.name,
                self.syntax()
            )));
        }
        match self.parameters.iter().zip(arguments).find(|(of, word)| !of.form.fits(word)) {
            None => Ok(()),
            Some((Parameter { name, form: Form::Int }, _)) => {
                Err(ErrorReply::err(format!("{name} is not an integer or out of range")))
            }
            Some((Parameter { name, .. }, _)) => {
                Err(ErrorReply::err(format!("{name} is not a valid number")))
            }
        }
    }

    /// The words behind the name of the operation, in the notation of the command reference.
    pub fn syntax(&self) -> String {
        let names = self.parameters.iter().map(|parameter| parameter.name.as_str());
        std::iter::once("key").chain(names).collect::<Vec<_>>().join(" ")
    }
}

/// A composed type.
pub struct Definition {
    pub(super) name: String,
    pub(super) version: u32,
    /// The definition in its canonical form: what log and snapshots hold.
    pub(super) text: Blob,
    pub(super) parts: Vec<PartSpec>,
    pub(super) operations: Vec<OperationSpec>,
    /// Parts of earlier versions that are dropped.
    pub(super) without: Vec<String>,
}

impl fmt::Debug for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.version)
    }
}

impl PartialEq for Definition {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// An error that names its line.
struct Wrong(String);

impl<T: Into<String>> From<T> for Wrong {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

fn name_of(word: Option<&Word>, what: &str) -> Result<String, Wrong> {
    let word = word.ok_or_else(|| format!("the name of the {what} is missing"))?;
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let begins = word.text.starts_with(|c: char| c.is_ascii_lowercase());
    if begins && word.text.len() <= NAME_BYTES_MAX && word.text.chars().all(fits) {
        return Ok(word.text.clone());
    }
    Err(format!(
        "'{}' cannot be the name of the {what}: at most {NAME_BYTES_MAX} of a-z 0-9 _, a letter first",
        word.shown()
    )
    .into())
}

impl Definition {
    /// Name of the type.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Version of the definition, 1 for the first one of its name.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// The definition as log and snapshots hold it. It reads back.
    pub fn text(&self) -> &Blob {
        &self.text
    }

    /// Parts of the type.
    pub fn parts(&self) -> &[PartSpec] {
        &self.parts
    }

    /// Operations of the type.
    pub fn operations(&self) -> &[OperationSpec] {
        &self.operations
    }

    /// Whether each value has something that was not put there by operations.
    pub(super) fn begins_with_something(&self) -> bool {
        self.parts.iter().any(|part| !part.is_map && part.initial.is_some())
    }

    /// The operation called `name`.
    pub(super) fn operation(&self, name: &[u8]) -> Result<usize, ErrorReply> {
        let is_it =
            |operation: &OperationSpec| name.eq_ignore_ascii_case(operation.name.as_bytes());
        self.operations.iter().position(is_it).ok_or_else(|| {
            let names: Vec<&str> = self.operations.iter().map(|o| o.name.as_str()).collect();
            let name = String::from_utf8_lossy(&name[..name.len().min(NAME_BYTES_MAX)]);
            let text = format!(
                "the type {} has no operation '{name}', only {}",
                self.name,
                names.join(", ")
            );
            ErrorReply::err(text)
        })
    }

    /// Whether values of an earlier definition can be taken over: each of its parts is here, and of the same
    /// kind, or is dropped by name.
    pub fn takes_over(&self, earlier: &Self) -> Result<(), ErrorReply> {
        for part in earlier.parts.iter().filter(|part| !self.without.contains(&part.name)) {
            let same = |other: &&PartSpec| {
                (&other.name, other.kind, other.is_map) == (&part.name, part.kind, part.is_map)
            };
            if self.parts.iter().find(same).is_none() {
                let text = format!(
                    "the part {} of {} {} is missing or of another kind; to drop what values have in \
                     it, write 'without {}'",
                    part.name, earlier.name, earlier.version, part.name
                );
                return Err(ErrorReply::err(text));
            }
        }
        Ok(())
    }

    /// The definition that follows an earlier one, with the next version. Parts that were ever dropped stay
    /// so: a value may be of any earlier version.
    pub fn next_of(&self, earlier: &Self) -> Result<Self, ErrorReply> {
        self.takes_over(earlier)?;
        let was_dropped = |part: &&PartSpec| earlier.without.contains(&part.name);
        if let Some(part) = self.parts.iter().find(was_dropped) {
            let text = format!(
                "an earlier version has dropped a part called {}, which values may still have: take \
                 another name",
                part.name
            );
            return Err(ErrorReply::err(text));
        }
        let mut text = self.text.to_vec();
        for name in earlier.without.iter().filter(|name| !self.without.contains(name)) {
            text.extend_from_slice(format!("\nwithout {name}").as_bytes());
        }
        Self::parse(&text, Some(earlier.version + 1))
    }

    /// Reads a definition; a thread keeps those that it has read.
    pub fn read(text: &[u8]) -> Result<Arc<Self>, ErrorReply> {
        thread_local! {
            static KEPT: RefCell<HashMap<Blob, Arc<Definition>, foldhash::fast::FixedState>> =
                RefCell::default();
        }
        KEPT.with_borrow_mut(|kept| {
            if let Some(definition) = kept.get(text) {
                return Ok(definition.clone());
            }
            let definition = Arc::new(Self::parse(text, None)?);
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(Blob::new(text), definition.clone());
            Ok(definition)
        })
    }

    /// Parses a definition, which gets this version if one is given.
    pub fn parse(text: &[u8], version: Option<u32>) -> Result<Self, ErrorReply> {
        if text.len() > DEFINITION_BYTES_MAX {
            let text = format!("a definition has at most {DEFINITION_BYTES_MAX} bytes");
            return Err(ErrorReply::err(text));
        }
        let text = std::str::from_utf8(text)
            .map_err(|_| ErrorReply::err("a definition is text in UTF-8"))?;
        let mut reading = Reading::default();
        for (number, line) in text.lines().enumerate() {
            let read = split(line).map_err(Wrong).and_then(|words| reading.line(&words));
            read.map_err(|Wrong(why)| ErrorReply::err(format!("line {}: {why}", number + 1)))?;
        }
        reading.finish(version).map_err(|Wrong(why)| ErrorReply::err(why))
    }
}

/// Where lines that are steps belong.
enum Open {
    Nothing,
    Operation(OperationSpec),
    Expired(usize, Vec<Parameter>, Vec<StepSpec>),
}

/// A definition of which some lines are read.
struct Reading {
    name: Option<String>,
    version: u32,
    canonical: String,
    parts: Vec<PartSpec>,
    operations: Vec<OperationSpec>,
    without: Vec<String>,
    open: Open,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            name: None,
            version: 1,
            canonical: String::new(),
            parts: Vec::new(),
            operations: Vec::new(),
            without: Vec::new(),
            open: Open::Nothing,
        }
    }
}

impl Reading {
    fn line(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let Some(first) = words.first() else { return Ok(()) };
        if self.name.is_none() {
            if !first.is("type") {
                return Err("a definition begins with 'type' and a name".into());
            }
            let name = name_of(words.get(1), "type")?;
            let is_kind = |(kind, ..): &(&str, &[&str], [u8; 8])| *kind == name;
            if name == "none" || crate::record::lock_modes().iter().any(is_kind) {
                return Err(format!("'{name}' is the name of a built-in type").into());
            }
            if let Some(taken) = crate::record::data_commands()
                .find(|c| c.name == name || c.name.split_once('.').is_some_and(|(t, _)| t == name))
            {
                return Err(
                    format!("'{name}' is the beginning of the command {}", taken.name).into()
                );
            }
            if let Some(version) = words.get(2) {
                let number = version.text.parse().ok().filter(|number| *number > 0);
                self.version = number.ok_or("the version is a number")?;
            }
            expect_end(words, 3)?;
            self.name = Some(name);
            return Ok(());
        }
        let is_step = match &*first.text {
            "part" | "map" if !first.quoted => {
                self.close()?;
                self.part(words)?;
                false
            }
            "without" if !first.quoted => {
                self.close()?;
                self.without.push(name_of(words.get(1), "part")?);
                expect_end(words, 2)?;
                false
            }
            "op" if !first.quoted => {
                self.close()?;
                self.operation(words)?;
                false
            }
            "expired" if !first.quoted => {
                self.close()?;
                self.expired(words)?;
                false
            }
            _ => {
                self.step(words)?;
                true
            }
        };
        self.canonical.push_str(if is_step { "\n " } else { "\n" });
        for (place, word) in words.iter().enumerate() {
            self.canonical.push_str(if place == 0 { "" } else { " " });
            self.canonical.push_str(&word.written());
        }
        Ok(())
    }

    fn part(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let name = name_of(words.get(1), "part")?;
        if self.parts.len() == PARTS_MAX {
            return Err(format!("a type has at most {PARTS_MAX} parts").into());
        }
        if self.parts.iter().any(|part| part.name == name) {
            return Err(format!("there are two parts called {name}").into());
        }
        let kind = words.get(2).ok_or("the kind of the part is missing")?;
        let kind = KINDS.iter().find(|known| kind.is(known)).ok_or_else(|| {
            format!("'{}' is no kind of part: these are {}", kind.shown(), KINDS.join(", "))
        })?;
        let initial = match words.get(3) {
            None => None,
            Some(with) if with.is("with") => {
                let command = words.get(4).ok_or("the command behind 'with' is missing")?;
                let rest = words[5..].iter().map(|word| Template::plain(&word.text)).collect();
                let step = step_of(command, (self.parts.len(), None), rest, Role::Effect)?;
                let op = step.op(&[], &name, kind)?;
                let mut made = None;
                let reply = crate::record::apply(&mut made, &op, &crate::Ctx::default());
                if let crate::Reply::Error(error) = reply {
                    return Err(error.text().into());
                }
                if !op.is_write() || made.is_none_or(|record| !record.lasts()) {
                    return Err(format!("'{}' is no initial value", command.shown()).into());
                }
                Some(op)
            }
            Some(other) => return Err(format!("'{}' is not expected here", other.shown()).into()),
        };
        let is_map = words[0].is("map");
        let expired = Vec::new();
        self.parts.push(PartSpec { name, kind, is_map, initial, expired });
        Ok(())
    }

    fn operation(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let name = name_of(words.get(1), "operation")?;
        if self.operations.len() == OPERATIONS_MAX {
            return Err(format!("a type has at most {OPERATIONS_MAX} operations").into());
        }
        if self.operations.iter().any(|operation| operation.name == name) {
            return Err(format!("there are two operations called {name}").into());
        }
        let parameters = parameters(&words[2..])?;
        self.open =
            Open::Operation(OperationSpec { name, parameters, steps: Vec::new(), writes: false });
        Ok(())
    }

    fn expired(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let name = name_of(words.get(1), "map")?;
        let part = self.parts.iter().position(|part| part.is_map && part.name == name);
        let part = part.ok_or_else(|| format!("there is no map {name}"))?;
        if !self.parts[part].expired.is_empty() {
            return Err(
                format!("what follows an expired element of {name} is there already").into()
            );
        }
        if self.parts[part].kind != "string" {
            return Err(
                format!("the elements of {name} are no strings, which have one value").into()
            );
        }
        let parameters = parameters(&words[2..])?;
        if parameters.len() != 2 {
            return Err("two names follow the map: for the field and for the value".into());
        }
        self.open = Open::Expired(part, parameters, Vec::new());
        Ok(())
    }

    fn step(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let (parameters, steps) = match &mut self.open {
            Open::Nothing => {
                let text = format!("'{}' is outside of an operation", words[0].shown());
                return Err(text.into());
            }
            Open::Operation(operation) => (&operation.parameters, &mut operation.steps),
            Open::Expired(_, parameters, steps) => (&*parameters, steps),
        };
        if steps.len() == STEPS_MAX {
            return Err(format!("an operation has at most {STEPS_MAX} steps").into());
        }
        let (role, command) = role_of(words, parameters)?;
        let (name, address) = match command {
            [name, address, ..] => (name, address),
            _ => return Err("a step is a command and the name of a part".into()),
        };
        let (part, field) = match address.text.split_once('[') {
            Some((part, rest)) => {
                let field = rest.strip_suffix(']').ok_or("the bracket ']' is missing")?;
                (part, Some(Template::parse(field, parameters)?))
            }
            None => (&*address.text, None),
        };
        let number = self.parts.iter().position(|known| known.name == part);
        let number = number.ok_or_else(|| format!("there is no part {}", address.shown()))?;
        let known = &self.parts[number];
        match (known.is_map, &field) {
            (true, None) => {
                return Err(format!("{part} is a map: name a field, as in {part}[x]").into());
            }
            (false, Some(_)) => return Err(format!("{part} is no map").into()),
            _ => {}
        }
        let rest = command[2..].iter().map(|word| Template::parse(&word.text, parameters));
        let rest = rest.collect::<Result<Vec<_>, _>>()?;
        let step = step_of(name, (number, field), rest, role)?;
        let samples: Vec<Blob> = parameters.iter().map(|p| Blob::from(p.form.sample())).collect();
        let op = step.op(&samples, part, known.kind).map_err(|Wrong(why)| {
            let typed = parameters.iter().any(|p| p.form == Form::Text);
            let hint = " (a parameter that must be a number is written name:int or name:number)";
            format!("{why}{}", if typed && why.contains("not a") { hint } else { "" })
        })?;
        match &step.role {
            Role::Effect if !op.is_write() => {
                return Err("the reply of a read is returned or required, or it is useless".into());
            }
            Role::Require(..) if steps.iter().any(|step| step.writes()) => {
                return Err(
                    "a requirement comes before all writes, and only the last one writes".into()
                );
            }
            Role::Return | Role::Require(..) if matches!(self.open, Open::Expired(..)) => {
                return Err("nothing is returned or required here".into());
            }
            _ => {}
        }
        match &mut self.open {
            Open::Operation(operation) => {
                operation.writes |= op.is_write();
                operation.steps.push(step);
            }
            Open::Expired(_, _, steps) => steps.push(step),
            Open::Nothing => {}
        }
        Ok(())
    }

    /// Ends the operation whose steps were read.
    fn close(&mut self) -> Result<(), Wrong> {
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Operation(operation) if operation.steps.is_empty() => {
                Err(format!("the operation {} has no step", operation.name).into())
            }
            Open::Operation(operation) => {
                self.operations.push(operation);
                Ok(())
            }
            Open::Expired(part, _, steps) if steps.is_empty() => {
                Err(format!("nothing follows an expired element of {}", self.parts[part].name)
                    .into())
            }
            Open::Expired(part, _, steps) => {
                self.parts[part].expired = steps;
                Ok(())
            }
        }
    }

    fn finish(mut self, version: Option<u32>) -> Result<Definition, Wrong> {
        self.close()?;
        let name = self.name.ok_or("a definition begins with 'type' and a name")?;
        if self.parts.is_empty() || self.operations.is_empty() {
            return Err("a type has a part and an operation".into());
        }
        if let Some(part) = self.parts.iter().find(|part| self.without.contains(&part.name)) {
            return Err(format!("{} is a part, and is dropped", part.name).into());
        }
        let version = version.unwrap_or(self.version);
        let text = format!("type {name} {version}{}", self.canonical);
        let room = VERSION_DIGITS_MAX - version.to_string().len();
        if text.len() + room > DEFINITION_BYTES_MAX {
            return Err(format!("a definition has at most {DEFINITION_BYTES_MAX} bytes").into());
        }
        let (parts, operations, without) = (self.parts, self.operations, self.without);
        Ok(Definition { name, version, text: Blob::from(text), parts, operations, without })
    }
}

fn expect_end(words: &[Word], at: usize) -> Result<(), Wrong> {
    match words.get(at) {
        None => Ok(()),
        Some(word) => Err(format!("'{}' is not expected here", word.shown()).into()),
    }
}

fn parameters(words: &[Word]) -> Result<Vec<Parameter>, Wrong> {
    if words.len() > PARAMETERS_MAX {
        return Err(format!("an operation has at most {PARAMETERS_MAX} parameters").into());
    }
    let mut all: Vec<Parameter> = Vec::new();
    for word in words {
        let (name, form) = word.text.split_once(':').unwrap_or((&word.text, "text"));
        let named = Word { text: name.to_owned(), quoted: word.quoted };
        let name = name_of(Some(&named), "parameter")?;
        let form = Form::NAMES.iter().find(|(known, _)| *known == form);
        let (_, form) =
            form.ok_or_else(|| format!("'{}': a parameter is text, int or number", word.shown()))?;
        if all.iter().any(|other| other.name == name) {
            return Err(format!("there are two parameters called {name}").into());
        }
        all.push(Parameter { name, form: *form });
    }
    Ok(all)
}

/// What a step is for, and the words of its command.
fn role_of<'a>(words: &'a [Word], parameters: &[Parameter]) -> Result<(Role, &'a [Word]), Wrong> {
    if words[0].is("return") {
        return Ok((Role::Return, &words[1..]));
    }
    if !words[0].is("require") {
        return Ok((Role::Effect, words));
    }
    let at = words.iter().position(|word| Compare::of(word).is_some());
    let at = at.ok_or("a requirement compares a reply: = != < <= > >=")?;
    let test = Compare::of(&words[at]).ok_or("a comparison")?;
    let given = |word: &Word| match word.is("nil") {
        true => Ok(Given::Nil),
        false => Template::parse(&word.text, parameters).map(Given::Word).map_err(Wrong),
    };
    let value = given(words.get(at + 1).ok_or("the value of the comparison is missing")?)?;
    let other = match words.get(at + 2) {
        None => Otherwise::Value(Given::Word(Template::plain("0"))),
        Some(word) if word.is("else") => match &words[at + 3..] {
            [error, code, text @ ..] if error.is("error") => {
                let capitals = |c: char| c.is_ascii_uppercase();
                if CODES_KEPT.contains(&&*code.text) {
                    let text = format!("clients act on the code {}: use another", code.text);
                    return Err(text.into());
                }
                let fits = (1..=NAME_BYTES_MAX).contains(&code.text.len());
                if !fits || !code.text.chars().all(capitals) {
                    return Err(
                        format!("'{}': the code is a word in capitals", code.shown()).into()
                    );
                }
                let text: Vec<&str> = text.iter().map(|word| word.text.as_str()).collect();
                Otherwise::Error(code.text.clone(), Template::parse(&text.join(" "), parameters)?)
            }
            [value] => Otherwise::Value(given(value)?),
            _ => return Err("a value, or 'error', a code and a text, follow 'else'".into()),
        },
        Some(word) => return Err(format!("'{}' is not expected here", word.shown()).into()),
    };
    Ok((Role::Require(test, value, other), &words[1..at]))
}

fn step_of(
    name: &Word,
    (part, field): (usize, Option<Template>),
    words: Vec<Template>,
    role: Role,
) -> Result<StepSpec, Wrong> {
    let spec = command(name.text.as_bytes())
        .ok_or_else(|| format!("there is no command '{}' on one value", name.shown()))?;
    if !matches!(spec.keys, Keys::ONE | Keys::ALL) || spec.flags.has(Flags::BLOCKING) {
        return Err(format!("{} cannot be a step: it has other keys than one", spec.name).into());
    }
    Ok(StepSpec { spec, part, field, words, role })
}

impl StepSpec {
    /// Whether the command writes.
    pub(super) fn writes(&self) -> bool {
        self.spec.flags.has(Flags::WRITE)
    }

    /// The command for people.
    pub(super) fn shown(&self) -> &'static str {
        self.spec.name
    }

    /// The operation on the part, for a call with these arguments.
    pub(super) fn bind(&self, arguments: &[Blob], kind: &str) -> Result<Op, ErrorReply> {
        let mut words = crate::ArgBuf::new();
        words.push(self.spec.name).push("part");
        self.words.iter().for_each(|word| _ = words.push(word.with(arguments)));
        let args: Args<'_> = words.args();
        self.spec.check_arity(args.len())?;
        let Handler::Data(parse) = self.spec.handler else { return Err(ErrorReply::syntax()) };
        let one = match parse(&args)? {
            Command::Single(key, op) => Some((key, op)),
            // A command on any number of keys, whose reply is a number of them.
            Command::Multi { mut ops, merge: Merge::Sum } if ops.len() == 1 => ops.pop(),
            _ => None,
        };
        match one {
            Some((key, op)) => {
                let fits = op.type_name().map_or_else(|| is_of_parts(&op), |name| name == kind);
                let free = !op.waits() && op.chosen_first(&key).is_none();
                if fits && free { Ok(op) } else { Err(ErrorReply::wrong_type()) }
            }
            None => Err(ErrorReply::err(format!("{} cannot be a step", self.spec.name))),
        }
    }

    fn op(&self, arguments: &[Blob], part: &str, kind: &str) -> Result<Op, Wrong> {
        self.bind(arguments, kind).map_err(|error| {
            if error == ErrorReply::wrong_type() {
                return Wrong(format!("{} cannot be a step on the {kind} {part}", self.spec.name));
            }
            Wrong(error.text().to_owned())
        })
    }
}

/// Whether an operation on a key makes sense for a part.
fn is_of_parts(op: &Op) -> bool {
    use crate::key::KeyOp;
    let Op::Key(op) = op else { return false };
    matches!(op, KeyOp::Del | KeyOp::Exists | KeyOp::Expire { .. } | KeyOp::Persist | KeyOp::Ttl(_))
}

/// Value of an element that has expired, for what follows.
pub(super) fn value_of(record: &crate::Record, ctx: &crate::Ctx) -> Blob {
    let words = crate::ArgBuf::of(["get", "part"]);
    match crate::record::decode(&words.args())
        .map(|(_, get)| crate::record::query(Some(record), &get, ctx))
    {
        Ok(crate::Reply::Bulk(value)) => value,
        _ => Blob::default(),
    }
}
