//! Parser of definitions: line by line.

use super::call::Bound;
use super::definition::{
    Compare, DEFINITION_BYTES_MAX, Definition, Form, Given, KINDS, NAME_BYTES_MAX, OPERATIONS_MAX,
    OperationSpec, Otherwise, PARAMETERS_MAX, PARTS_MAX, Parameter, PartSpec, Role, STEPS_MAX,
    StepSpec, VERSION_DIGITS_MAX, bound,
};
use super::words::{Template, Word};
use crate::key::KeyOp;
use crate::record::command;
use crate::{Blob, Ctx, ErrorReply, Flags, Keys, Op};

/// Words with which lines begin that are no steps.
pub(super) const KEYWORDS: [&str; 6] = ["part", "map", "without", "op", "query", "expired"];

/// Words of the script language that cannot name anything in a program.
const RESERVED: [&str; 21] = [
    "and", "break", "do", "else", "elseif", "end", "false", "for", "function", "if", "in", "local",
    "nil", "not", "or", "repeat", "return", "then", "true", "until", "while",
];

/// An error that names its line.
pub(super) struct Wrong(pub String);

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

/// Where lines that are steps belong.
enum Open {
    Nothing,
    Operation(OperationSpec),
    Expired(usize, Vec<Parameter>, Vec<StepSpec>),
}

/// A definition of which some lines are read.
pub(super) struct Reading {
    name: Option<String>,
    version: u32,
    canonical: String,
    parts: Vec<PartSpec>,
    operations: Vec<OperationSpec>,
    without: Vec<String>,
    open: Open,
    /// Empty lines of a program since its last line that is not empty.
    empty_lines: usize,
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
            empty_lines: 0,
        }
    }
}

impl Reading {
    pub(super) fn line(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let Some(first) = words.first() else { return Ok(()) };
        if self.name.is_none() {
            if !first.is("type") {
                return Err("a definition begins with 'type' and a name".into());
            }
            let name = name_of(words.get(1), "type")?;
            if let Some(version) = words.get(2) {
                let number = version.text.parse().ok().filter(|number| *number > 0);
                self.version = number.ok_or("the version is a number")?;
            }
            expect_end(words, 3)?;
            self.name = Some(name);
            return Ok(());
        }
        let keyword = KEYWORDS.into_iter().find(|keyword| first.is(keyword));
        if keyword.is_some() {
            self.close()?;
        }
        match keyword {
            None => self.step(words)?,
            Some("op") => self.operation(words, false)?,
            Some("query") => self.operation(words, true)?,
            Some("expired") => self.expired(words)?,
            Some("without") => {
                self.without.push(name_of(words.get(1), "part")?);
                expect_end(words, 2)?;
            }
            Some(_) => self.part(words)?,
        }
        self.canonical.push_str(if keyword.is_none() { "\n " } else { "\n" });
        for (place, word) in words.iter().enumerate() {
            self.canonical.push_str(if place == 0 { "" } else { " " });
            self.canonical.push_str(&word.written());
        }
        Ok(())
    }

    fn part(&mut self, words: &[Word]) -> Result<(), Wrong> {
        let name = name_of(words.get(1), "part")?;
        check_name(&name, self.parts.iter().map(|part| &part.name), PARTS_MAX, "parts")?;
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

    fn operation(&mut self, words: &[Word], is_query: bool) -> Result<(), Wrong> {
        let name = name_of(words.get(1), "operation")?;
        let others = self.operations.iter().map(|operation| &operation.name);
        check_name(&name, others, OPERATIONS_MAX, "operations")?;
        let parameters = parameters(&words[2..])?;
        let (steps, writes, program) = (Vec::new(), false, None);
        self.open =
            Open::Operation(OperationSpec { name, parameters, steps, writes, is_query, program });
        Ok(())
    }

    /// A line of the program that an operation is. A space in front of it does not belong to it.
    pub(super) fn program_line(&mut self, line: &str) -> Result<(), Wrong> {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        if line.contains(|c: char| c.is_control() && c != '\t') {
            return Err("control characters are not allowed".into());
        }
        let Open::Operation(operation) = &mut self.open else {
            return Err("a line of a program is outside of an operation".into());
        };
        if !operation.steps.is_empty() {
            return Err("an operation is a list of steps or a program, not both".into());
        }
        if let Some(of) = operation.parameters.iter().find(|of| RESERVED.contains(&&*of.name)) {
            return Err(format!("'{}' cannot name a parameter of a program", of.name).into());
        }
        if line.is_empty() {
            // None is kept at the end.
            self.empty_lines += 1;
            return Ok(());
        }
        if operation.program.is_none() && line.starts_with("#!") {
            return Err("a program has no header: a query begins with 'query'".into());
        }
        operation.writes = !operation.is_query;
        let before = std::mem::take(&mut self.empty_lines);
        self.canonical.push_str(&"\n| ".repeat(before + 1));
        self.canonical.push_str(line);
        let program = operation.program.get_or_insert_default();
        let begins = program.is_empty();
        program.push_str(&"\n".repeat(before + usize::from(!begins)));
        program.push_str(line);
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
            Open::Operation(OperationSpec { program: Some(_), .. }) => {
                return Err("an operation is a list of steps or a program, not both".into());
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
        let (number, field) = address_of(&self.parts, address.text.as_bytes())?;
        let field = field.map(|field| String::from_utf8_lossy(field));
        let field = field.map(|field| Template::parse(&field, parameters)).transpose()?;
        let (known, part) = (&self.parts[number], &self.parts[number].name);
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
        if matches!(self.open, Open::Expired(..)) && may_expire(&op) {
            return Err("what follows an expired element writes, and lets nothing expire".into());
        }
        match &mut self.open {
            Open::Operation(operation) => {
                if operation.is_query && op.is_write() {
                    return Err("a query only reads: begin it with 'op'".into());
                }
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
        self.empty_lines = 0;
        match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Nothing => Ok(()),
            Open::Operation(OperationSpec { name, steps, program: None, .. })
                if steps.is_empty() =>
            {
                Err(format!("the operation {name} has no step").into())
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

    pub(super) fn finish(mut self, version: Option<u32>) -> Result<Definition, Wrong> {
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

/// The part that an address names, and the field of it if that is a map.
fn address_of<'a>(
    parts: &[PartSpec],
    address: &'a [u8],
) -> Result<(usize, Option<&'a [u8]>), Wrong> {
    let bracket = address.iter().position(|byte| *byte == b'[');
    let (name, field) = match bracket {
        Some(at) => {
            let field = address[at + 1..].strip_suffix(b"]");
            (&address[..at], Some(field.ok_or("the bracket ']' is missing")?))
        }
        None => (address, None),
    };
    let number = parts.iter().position(|known| known.name.as_bytes() == name);
    let number = number.ok_or_else(|| {
        let shown = String::from_utf8_lossy(&address[..address.len().min(64)]);
        format!("there is no part {shown}")
    })?;
    let PartSpec { name, is_map, .. } = &parts[number];
    match (is_map, &field) {
        (true, None) => Err(format!("{name} is a map: name a field, as in {name}[x]").into()),
        (false, Some(_)) => Err(format!("{name} is no map").into()),
        _ => Ok((number, field)),
    }
}

/// A step that a program makes: part, field and words of the command, as it gives them.
pub(super) fn step_of_program(
    definition: &Definition,
    words: &[Blob],
) -> Result<(StepSpec, Bound), ErrorReply> {
    let (name, address, rest) = match words {
        [name, address, rest @ ..] => (name, address, rest),
        _ => return Err(ErrorReply::err("a command of an operation names a part")),
    };
    let name = Word { text: String::from_utf8_lossy(name).into_owned(), quoted: false };
    let step = address_of(&definition.parts, address).and_then(|(part, field)| {
        Ok((step_of(&name, (part, None), Vec::new(), Role::Return)?, field))
    });
    let (step, field) = step.map_err(|Wrong(why)| ErrorReply::err(why))?;
    let PartSpec { name, kind, .. } = &definition.parts[step.part];
    let op = bound(step.spec, rest.iter().cloned(), kind).map_err(|error| {
        if error == ErrorReply::wrong_type() {
            let text = format!("{} cannot be a step on the {kind} {name}", step.spec.name);
            return ErrorReply::err(text);
        }
        error
    })?;
    let (part, field) = (step.part, field.map(Blob::new));
    Ok((step, Bound { part, field, op }))
}

/// Whether an operation can let its record expire, so that something would follow again.
fn may_expire(op: &Op) -> bool {
    if let Op::Key(op) = op {
        return *op != KeyOp::Del;
    }
    let set = crate::ArgBuf::of(["set", "part", "1"]);
    let mut present = None;
    if let Ok((_, set)) = crate::record::decode(&set.args()) {
        crate::record::apply(&mut present, &set, &Ctx::default());
    }
    [None, present].into_iter().any(|mut slot| {
        crate::record::apply(&mut slot, op, &Ctx::default());
        slot.is_some_and(|record| !record.lasts())
    })
}

/// Checks that a name is a new one, and that there is room for it.
fn check_name<'a>(
    name: &String,
    mut others: impl ExactSizeIterator<Item = &'a String>,
    most: usize,
    what: &str,
) -> Result<(), Wrong> {
    if others.len() == most {
        return Err(format!("there are at most {most} {what}").into());
    }
    if others.any(|other| other == name) {
        return Err(format!("there are two {what} called {name}").into());
    }
    Ok(())
}

fn expect_end(words: &[Word], at: usize) -> Result<(), Wrong> {
    match words.get(at) {
        None => Ok(()),
        Some(word) => Err(format!("'{}' is not expected here", word.shown()).into()),
    }
}

fn parameters(words: &[Word]) -> Result<Vec<Parameter>, Wrong> {
    let mut all: Vec<Parameter> = Vec::new();
    for word in words {
        let (name, form) = word.text.split_once(':').unwrap_or((&word.text, "text"));
        let named = Word { text: name.to_owned(), quoted: word.quoted };
        let name = name_of(Some(&named), "parameter")?;
        let form = Form::NAMES.iter().find(|(known, _)| *known == form);
        let (_, form) =
            form.ok_or_else(|| format!("'{}': a parameter is text, int or number", word.shown()))?;
        check_name(&name, all.iter().map(|other| &other.name), PARAMETERS_MAX, "parameters")?;
        all.push(Parameter { name, form: *form });
    }
    Ok(all)
}

/// Purpose of a step, and the words of its command.
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
    if spec.group == "types" {
        return Err("a step is no call of another type".into());
    }
    if !matches!(spec.keys, Keys::ONE | Keys::ALL) || spec.flags.has(Flags::BLOCKING) {
        return Err(format!("{} cannot be a step: it has other keys than one", spec.name).into());
    }
    Ok(StepSpec { spec, part, field, words, role })
}
