//! Parser of the notation of [`CommandSpec::syntax`](crate::CommandSpec), which gives the argument
//! lists of `COMMAND DOCS`, and sample calls for tests and fuzzers.
//!
//! `WORD` stands for itself, `name` for an argument, `[...]` for an optional part, `a | b` for a
//! choice, `x [x ...]` for one or more, `[x ...]` for any number. The notation is that of the Redis
//! documentation. At the top level a choice between whole forms (`GET pattern | RESETSTAT`) makes
//! the command a container of subcommands.

use crate::{ArgBuf, CommandSpec, Handler, Reply};

/// One part of a syntax.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// A word that stands for itself.
    Word(String),
    /// An argument.
    Name(String),
    /// One of several forms.
    Choice(Vec<Vec<Part>>),
    /// An optional part.
    Optional(Vec<Part>),
    /// One or more times.
    Many(Vec<Part>),
}

/// The parts of a syntax, or a description of the error in it.
pub fn parse(syntax: &str) -> Result<Vec<Part>, String> {
    let forms = forms(syntax);
    if forms.len() > 1 && container(&forms) {
        let choice = forms.iter().map(|f| parse_form(f)).collect::<Result<_, _>>()?;
        return Ok(vec![Part::Choice(choice)]);
    }
    parse_form(syntax)
}

/// The forms of a container's subcommands, with the subcommand's name (in lower case) and the words
/// after it; none for a command that is not a container.
pub fn subcommands(syntax: &str) -> Vec<(String, &str)> {
    let mut alternatives = forms(syntax);
    // `[COUNT | INFO [name ...]]`: a container that also answers without a subcommand.
    if let Some(inner) = syntax.strip_prefix('[').and_then(|s| s.strip_suffix(']'))
        && is_paired(inner)
    {
        alternatives = forms(inner);
        if !alternatives.iter().any(|f| f.contains(' ')) {
            return Vec::new();
        }
    }
    if !container(&alternatives) {
        return Vec::new();
    }
    alternatives
        .iter()
        .map(|form| {
            let (name, rest) = form.split_once(' ').unwrap_or((form, ""));
            (name.to_ascii_lowercase(), rest)
        })
        .collect()
}

/// Reply of a container's `HELP` subcommand, line by line.
pub fn help(name: &str, syntax: &str) -> Reply {
    let name = name.to_ascii_uppercase();
    let mut lines = vec![format!("{name} takes one of these subcommands:")];
    lines.extend(subcommands(syntax).into_iter().map(|(subcommand, rest)| {
        let line = format!("{} {rest}", subcommand.to_ascii_uppercase());
        line.trim_end().to_owned()
    }));
    lines.extend(["HELP".to_owned(), format!("COMMAND DOCS {name} says what they are for.")]);
    Reply::Array(lines.into_iter().map(Reply::bulk).collect())
}

/// The alternatives at the top level.
fn forms(syntax: &str) -> Vec<&str> {
    let mut forms = Vec::new();
    let (mut depth, mut start) = (0i32, 0);
    for (i, byte) in syntax.bytes().enumerate() {
        match byte {
            b'[' | b'<' => depth += 1,
            b']' | b'>' => depth -= 1,
            b'|' if depth == 0 => {
                forms.push(syntax[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    forms.push(syntax[start..].trim());
    forms
}

/// Whether each closing bracket has its opening one in the text.
fn is_paired(text: &str) -> bool {
    let mut depth = 0i32;
    text.bytes().all(|byte| {
        depth += i32::from(byte == b'[') - i32::from(byte == b']');
        depth >= 0
    })
}

/// Whether the alternatives are whole forms that begin with a word each (`GET pattern | RESETSTAT`)
/// rather than a choice of words within one form (`AND | OR | NOT destkey key`).
fn container(forms: &[&str]) -> bool {
    let last = forms.len() - 1;
    forms.iter().all(|f| !f.starts_with('[') && f.split(' ').next().is_some_and(is_word))
        && (last == 0
            || forms[..last].iter().any(|f| f.contains(' '))
            || !forms[last].contains(' '))
}

fn is_word(text: &str) -> bool {
    text.bytes().any(|b| b.is_ascii_uppercase()) && !text.bytes().any(|b| b.is_ascii_lowercase())
}

fn parse_form(syntax: &str) -> Result<Vec<Part>, String> {
    let mut tokens = Vec::new();
    for word in syntax.split_whitespace() {
        let mut rest = word;
        while let Some(i) = rest.find(['[', ']', '|', '<', '>']) {
            if i > 0 {
                tokens.push(&rest[..i]);
            }
            tokens.push(&rest[i..=i]);
            rest = &rest[i + 1..];
        }
        if !rest.is_empty() {
            tokens.push(rest);
        }
    }
    let mut at = 0;
    let parts = sequence(&tokens, &mut at, None)?;
    if at < tokens.len() {
        return Err(format!("a closing bracket without an opening one in '{syntax}'"));
    }
    Ok(parts)
}

/// Reads up to `close` (or the end at the top level). Within brackets a bar separates whole
/// sequences, at the top level only the words beside it.
fn sequence(tokens: &[&str], at: &mut usize, close: Option<&str>) -> Result<Vec<Part>, String> {
    let mut forms: Vec<Vec<Part>> = Vec::new();
    let mut parts: Vec<Part> = Vec::new();
    while let Some(&token) = tokens.get(*at) {
        *at += 1;
        match token {
            "[" => {
                let inner = sequence(tokens, at, Some("]"))?;
                optional(&mut parts, inner);
            }
            "<" => {
                let mut inner = sequence(tokens, at, Some(">"))?;
                match inner.len() {
                    1 => parts.append(&mut inner),
                    _ => parts.push(Part::Choice(vec![inner])),
                }
            }
            "]" | ">" if Some(token) == close => {
                return Ok(choice(forms, parts));
            }
            "]" | ">" => return Err("brackets that do not match".to_owned()),
            "|" if close.is_some() => forms.push(std::mem::take(&mut parts)),
            "|" => {
                let next = tokens.get(*at).ok_or("a bar at the end")?;
                *at += 1;
                let last = parts.pop().ok_or("a bar at the beginning")?;
                let next = vec![atom(next)];
                parts.push(match last {
                    Part::Choice(mut forms) => {
                        forms.push(next);
                        Part::Choice(forms)
                    }
                    other => Part::Choice(vec![vec![other], next]),
                });
            }
            "..." => {
                let all = std::mem::take(&mut parts);
                parts.push(Part::Many(all));
            }
            word => parts.push(atom(word)),
        }
    }
    match close {
        Some(bracket) => Err(format!("'{bracket}' is missing")),
        None => Ok(choice(forms, parts)),
    }
}

fn atom(word: &str) -> Part {
    if is_word(word) || !word.bytes().any(|b| b.is_ascii_alphabetic()) {
        Part::Word(word.to_owned())
    } else {
        Part::Name(word.to_owned())
    }
}

fn choice(mut forms: Vec<Vec<Part>>, last: Vec<Part>) -> Vec<Part> {
    if forms.is_empty() {
        return last;
    }
    forms.push(last);
    vec![Part::Choice(forms)]
}

/// Adds `[inner]`: `x [x ...]` is one or more `x`, anything else is optional.
fn optional(parts: &mut Vec<Part>, inner: Vec<Part>) {
    if let [Part::Many(repeated)] = inner.as_slice()
        && parts.ends_with(repeated)
    {
        let many = parts.split_off(parts.len() - repeated.len());
        parts.push(Part::Many(many));
        return;
    }
    parts.push(Part::Optional(inner));
}

/// Calls of a command that its parser accepts: with and without each option, with one and with two
/// of each repeatable part. Keys are `k0`, `k1` and so on. Commands of the session are not parsed
/// here, so all calls that their syntax allows are returned.
pub fn sample_calls(spec: &CommandSpec) -> Vec<ArgBuf> {
    // The parser takes these in the form that gateways make of them.
    let calls = crate::kinds::composed::SAMPLE_CALLS.iter();
    let calls = calls.filter(|(name, ..)| *name == spec.name);
    let calls: Vec<ArgBuf> = calls
        .map(|(name, words)| {
            let behind = [&[*name, "k0", crate::kinds::composed::SAMPLE_TYPE], *words].concat();
            ArgBuf::of(behind)
        })
        .collect();
    if !calls.is_empty() {
        return calls;
    }
    let shapes = shapes(spec, &|_| ("1".to_owned(), false));
    let mut found: Vec<Vec<String>> = Vec::new();
    for call in shapes.iter().flat_map(|words| fitting(spec, words)) {
        if !found.contains(&call) {
            found.push(call);
        }
    }
    found.into_iter().map(ArgBuf::of).collect()
}

/// Calls of a command that its parser accepts, of the shapes that [`sample_calls`] has, with the values that
/// a function gives for the names of arguments.
pub fn calls_with(spec: &CommandSpec, value: impl Fn(&str) -> String) -> Vec<ArgBuf> {
    let Handler::Data(parse) = spec.handler else { return Vec::new() };
    let mut found: Vec<Vec<String>> = Vec::new();
    for words in shapes(spec, &|name| (value(name), true)) {
        let call: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
        let takes =
            spec.check_arity(call.len()).is_ok() && parse(&ArgBuf::of(&call).args()).is_ok();
        if takes && !found.contains(&call) {
            found.push(call);
        }
    }
    found.into_iter().map(ArgBuf::of).collect()
}

/// Words of calls with and without each option, with one and with two of each repeatable part. The flag of
/// a word says whether it is final.
fn shapes(spec: &CommandSpec, value: &dyn Fn(&str) -> (String, bool)) -> Vec<Vec<(String, bool)>> {
    let Ok(parts) = parse(spec.syntax) else { return Vec::new() };
    let mut shape = Shape::default();
    shape.measure(&parts);
    let mut found = Vec::new();
    for repeat in [1, 2] {
        for alternative in 0..shape.alternatives.max(1) {
            for option in 0..=shape.options + 1 {
                let mut writer = Writer::new((repeat, alternative, option), value);
                writer.words.push((spec.name.to_owned(), true));
                writer.write(&parts);
                found.push(writer.words);
            }
        }
    }
    found
}

/// Sample values for an argument whose kind the syntax does not specify.
const VALUES: [&str; 16] = [
    "1", "0", "2", "5", "a", "[a", "(1", "-", "+", "*", "1-1", "$", ">", "0.5", "field", "1000000",
];

/// The call with values that the parser accepts; several calls if values of several kinds are
/// accepted.
fn fitting(spec: &CommandSpec, words: &[(String, bool)]) -> Vec<Vec<String>> {
    let Handler::Data(parse) = spec.handler else {
        return vec![words.iter().map(|w| w.0.clone()).collect()];
    };
    let takes = |call: &[String]| {
        spec.check_arity(call.len()).is_ok() && parse(&ArgBuf::of(call).args()).is_ok()
    };
    let plain: Vec<String> = words.iter().map(|w| w.0.clone()).collect();
    let mut found = Vec::new();
    if takes(&plain) {
        found.push(plain.clone());
    }
    for value in VALUES {
        let all = words.iter().map(|(w, fixed)| if *fixed { w.clone() } else { value.to_owned() });
        let all: Vec<String> = all.collect();
        for i in (0..words.len()).filter(|&i| !words[i].1) {
            let mut one = plain.clone();
            one[i] = value.to_owned();
            let mut others = all.clone();
            others[i] = plain[i].clone();
            found.extend([one, others].into_iter().filter(|call| takes(call)).take(1));
        }
        if found.is_empty() && takes(&all) {
            found.push(all);
        }
    }
    found
}

#[derive(Default)]
struct Shape {
    alternatives: usize,
    options: usize,
}

impl Shape {
    fn measure(&mut self, parts: &[Part]) {
        for part in parts {
            match part {
                Part::Word(_) | Part::Name(_) => {}
                Part::Choice(forms) => {
                    self.alternatives = self.alternatives.max(forms.len());
                    forms.iter().for_each(|f| self.measure(f));
                }
                Part::Optional(inner) => {
                    self.options += 1;
                    self.measure(inner);
                }
                Part::Many(inner) => self.measure(inner),
            }
        }
    }
}

/// Writer of one call, with its choices: which alternative of each choice, which option (0: none;
/// one more than their number: all), how many of each repeatable part. The flag of a word says
/// whether it is final.
struct Writer<'a> {
    repeat: usize,
    alternative: usize,
    option: usize,
    options: usize,
    all: usize,
    keys: usize,
    value: &'a dyn Fn(&str) -> (String, bool),
    words: Vec<(String, bool)>,
}

impl<'a> Writer<'a> {
    fn new(
        (repeat, alternative, option): (usize, usize, usize),
        value: &'a dyn Fn(&str) -> (String, bool),
    ) -> Self {
        let (options, all, keys, words) = (0, 0, 0, Vec::new());
        Self { repeat, alternative, option, options, all, keys, value, words }
    }

    fn write(&mut self, parts: &[Part]) {
        if self.all == 0 {
            let mut shape = Shape::default();
            shape.measure(parts);
            self.all = shape.options + 1;
        }
        for part in parts {
            match part {
                Part::Word(word) => self.words.push((word.clone(), true)),
                Part::Name(name) => self.name(name),
                Part::Choice(forms) => self.write(&forms[self.alternative % forms.len()]),
                Part::Many(inner) => (0..self.repeat).for_each(|_| self.write(inner)),
                Part::Optional(inner) => {
                    self.options += 1;
                    if self.option == self.options || self.option == self.all {
                        self.write(inner);
                    }
                }
            }
        }
    }

    fn name(&mut self, name: &str) {
        let is_key = ["key", "source", "destination"].iter().any(|k| name.contains(k));
        if name.starts_with("num") {
            self.words.push((self.repeat.to_string(), true));
        } else if is_key {
            self.words.push((format!("k{}", self.keys), true));
            self.keys += 1;
        } else {
            self.words.push((self.value)(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::data_commands;

    fn name(text: &str) -> Part {
        Part::Name(text.to_owned())
    }

    fn word(text: &str) -> Part {
        Part::Word(text.to_owned())
    }

    #[test]
    fn repetition_options_and_choices() {
        assert_eq!(
            parse("key member [member ...]"),
            Ok(vec![name("key"), Part::Many(vec![name("member")])])
        );
        assert_eq!(
            parse("key [NX | XX] score member [score member ...]"),
            Ok(vec![
                name("key"),
                Part::Optional(vec![Part::Choice(vec![vec![word("NX")], vec![word("XX")]])]),
                Part::Many(vec![name("score"), name("member")]),
            ])
        );
        assert_eq!(
            parse("key LEFT | RIGHT timeout"),
            Ok(vec![
                name("key"),
                Part::Choice(vec![vec![word("LEFT")], vec![word("RIGHT")]]),
                name("timeout")
            ])
        );
        assert_eq!(
            parse("[pattern ...]"),
            Ok(vec![Part::Optional(vec![Part::Many(vec![name("pattern")])])])
        );
        for wrong in ["[key", "key]", "key |", "| key", "<a [b>]"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn containers_have_subcommands() {
        let names = |syntax| subcommands(syntax).into_iter().map(|s| s.0).collect::<Vec<_>>();
        assert_eq!(names("GET pattern [pattern ...] | RESETSTAT"), ["get", "resetstat"]);
        assert_eq!(names("ENCODING key"), ["encoding"]);
        assert_eq!(names("COMMIT | ABORT"), ["commit", "abort"]);
        assert!(names("AND | OR | NOT destkey key [key ...]").is_empty());
        assert!(names("key [NX | XX]").is_empty());
        assert_eq!(names("[INFO [name ...] | COUNT]"), ["info", "count"]);
        assert!(names("[ASYNC | SYNC]").is_empty());
        assert!(names("[key] [NX]").is_empty());
        assert!(names("[COUNT count] STREAMS key [key ...]").is_empty());
        assert!(names("").is_empty());
    }

    #[test]
    fn every_data_command_has_a_syntax_whose_calls_its_parser_takes() {
        for spec in data_commands() {
            assert!(parse(spec.syntax).is_ok(), "{}: {:?}", spec.name, parse(spec.syntax));
            assert!(!sample_calls(spec).is_empty(), "{} {}", spec.name, spec.syntax);
        }
    }
}
