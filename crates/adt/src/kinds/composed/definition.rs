//! Definitions of composed types: a text that names parts, which are values of built-in types, and
//! operations, which are lists of commands on the parts.
//!
//! ```text
//! definition = "type" name [version] { part | map | without | op | query | expired }
//! part       = "part" name kind [ "with" command ]       one value
//! map        = "map"  name kind [ "with" command ]       a value for each field
//! without    = "without" name                            a part of an earlier version that is dropped
//! op         = "op" name { parameter[":int" | ":number" | ":text"] } ( { step } | script )
//! query      = "query" name { parameter } ( { step } | script )  an operation that only reads
//! script     = { "|" line of a program }
//! expired    = "expired" map field value { command }     what follows when an element expires
//! step       = command | "return" command
//!            | "require" command test value [ "else" ( "error" CODE text | value ) ]
//! test       = "=" | "!=" | "<" | "<=" | ">" | ">="
//! ```
//!
//! One line each; a line that begins with `#` is a comment. In a command, the name of a part stands for the
//! key, `map[field]` for an element, and `$parameter` for an argument. A word in double quotes may have
//! spaces.
//!
//! An operation may be a program of the script language. Its commands are steps, which name a part where
//! those of other programs name a key.

use super::json;
use super::parse::{Reading, Wrong};
use super::words::{Template, Word, split};
use crate::{Args, Blob, Command, CommandSpec, ErrorReply, Flags, Handler, Merge, Op};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Longest text of a definition, in bytes.
pub const DEFINITION_BYTES_MAX: usize = 8 << 10;

/// Most digits of a version, for which there must be room.
pub(super) const VERSION_DIGITS_MAX: usize = 10;

/// Codes of errors by which clients decide what they do next: no new definition answers them.
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

/// Whether clients act on the code of an error, so that no operation may make one up.
pub fn is_kept_code(code: &str) -> bool {
    CODES_KEPT.contains(&code)
}

/// Most parts of a type.
pub const PARTS_MAX: usize = 32;

/// Most operations of a type.
pub const OPERATIONS_MAX: usize = 64;

/// Most steps of an operation.
pub const STEPS_MAX: usize = 32;

/// Most parameters of an operation.
pub const PARAMETERS_MAX: usize = 16;

/// Most bytes that the arguments of a call become in its commands.
pub const CALL_BYTES_MAX: usize = 8 << 20;

/// Longest name of a type, a part, an operation or a parameter, in bytes.
pub const NAME_BYTES_MAX: usize = 32;

/// Definitions that a thread keeps parsed.
const KEPT_MAX: usize = 256;

/// Built-in types whose values can be parts.
pub(super) const KINDS: [&str; 9] =
    ["string", "hash", "list", "set", "counter", "zset", "topk", "bag", "log"];

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
    pub(super) const NAMES: [(&'static str, Self); 3] =
        [("text", Self::Text), ("int", Self::Int), ("number", Self::Number)];

    /// Whether an argument has this form.
    fn fits(self, argument: &[u8]) -> bool {
        match self {
            Self::Text => true,
            Self::Int => crate::parse_int(argument).is_ok(),
            Self::Number => crate::parse_float(argument).is_ok_and(f64::is_finite),
        }
    }

    /// An argument to try an operation with.
    pub(super) fn sample(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Int | Self::Number => "1",
        }
    }
}

/// Parameter of an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Name.
    pub name: String,
    /// Form of its arguments.
    pub form: Form,
}

/// A part of a type.
#[derive(Clone, Debug)]
pub struct PartSpec {
    /// Name.
    pub name: String,
    /// Name of the built-in type of its value, or of the values of its elements.
    pub kind: &'static str,
    /// Whether it has an element for each field.
    pub is_map: bool,
    /// Operation that makes a new value, if that is not an empty one.
    pub initial: Option<Op>,
    /// Steps that follow when an element of a map expires: parameters are its field and its value.
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
    pub(super) fn of(word: &Word) -> Option<Self> {
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

/// Purpose of a step.
#[derive(Clone, Debug)]
pub(super) enum Role {
    /// The effect.
    Effect,
    /// The reply, which is that of the operation or an item of it.
    Return,
    /// A reply that decides whether the operation takes effect.
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
    /// Name.
    pub name: String,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Commands, in order; none if the operation is a program.
    pub steps: Vec<StepSpec>,
    /// Whether a command of it writes, or may write.
    pub writes: bool,
    /// Whether the definition says that it only reads.
    pub is_query: bool,
    /// The program that the operation is, if it is one.
    pub program: Option<String>,
}

impl OperationSpec {
    /// Whether an operation may have no effect because a requirement does not hold.
    pub(super) fn requires(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.role, Role::Require(..)))
    }

    /// Checks the number of arguments of a call of an operation of the type `of`.
    pub fn check_count(&self, of: &str, count: usize) -> Result<(), ErrorReply> {
        if count == self.parameters.len() {
            return Ok(());
        }
        Err(ErrorReply::err(format!(
            "wrong number of arguments for '{of}.{}' command: {}",
            self.name,
            self.syntax()
        )))
    }

    /// Text that runs the program, with its parameters as local variables and its lines as they are.
    pub fn source(&self) -> Option<String> {
        let program = self.program.as_ref()?;
        if self.parameters.is_empty() {
            return Some(program.clone());
        }
        let names: Vec<&str> = self.parameters.iter().map(|of| of.name.as_str()).collect();
        let values = self.parameters.iter().enumerate().map(|(place, of)| match of.form {
            Form::Text => format!("ARGV[{}]", place + 1),
            Form::Int | Form::Number => format!("tonumber(ARGV[{}])", place + 1),
        });
        let values: Vec<String> = values.collect();
        Some(format!("local {} = {}; {program}", names.join(", "), values.join(", ")))
    }

    /// Checks the arguments of a call of a program of the type `of`, whose numbers are floats.
    pub fn check_inputs(&self, of: &str, arguments: &[Blob]) -> Result<(), ErrorReply> {
        self.check(of, arguments)?;
        let exact = |number: i64| number.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS;
        let mut each = self.parameters.iter().zip(arguments);
        let wrong = each.find(|(parameter, argument)| {
            parameter.form == Form::Int && !crate::parse_int(argument).is_ok_and(exact)
        });
        wrong.map_or(Ok(()), |(parameter, _)| {
            let text = format!("{} is beyond 2^53, up to which scripts are exact", parameter.name);
            Err(ErrorReply::err(text))
        })
    }

    /// Checks the arguments of a call of an operation of the type `of`.
    pub(super) fn check(&self, of: &str, arguments: &[Blob]) -> Result<(), ErrorReply> {
        self.check_count(of, arguments.len())?;
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

impl Eq for Definition {}

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

    /// Position of the operation called `name`, in any case.
    pub fn operation(&self, name: &[u8]) -> Result<usize, ErrorReply> {
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

    /// Checks what a new definition must not have, whatever older ones in the log have: the name of a
    /// built-in type, and codes of errors by which clients decide what they do next.
    pub fn check_new(&self) -> Result<(), ErrorReply> {
        let name = &self.name;
        let is_added = || crate::record::lock_modes().iter().any(|(kind, ..)| kind == name);
        if name == "none" || crate::record::is_built_in_type(name) || is_added() {
            return Err(ErrorReply::err(format!("'{name}' is the name of a built-in type")));
        }
        let mut steps = self.operations.iter().flat_map(|operation| &operation.steps);
        let kept = steps.find_map(|step| match &step.role {
            Role::Require(_, _, Otherwise::Error(code, _)) => is_kept_code(code).then_some(code),
            _ => None,
        });
        match kept {
            None => Ok(()),
            Some(code) => {
                Err(ErrorReply::err(format!("clients act on the code {code}: use another")))
            }
        }
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

    /// Parses a definition in text or JSON, which gets this version if one is given.
    pub fn parse(text: &[u8], version: Option<u32>) -> Result<Self, ErrorReply> {
        let text = std::str::from_utf8(text)
            .map_err(|_| ErrorReply::err("a definition is text in UTF-8"))?;
        let mut reading = Reading::default();
        if json::is_json(text) {
            json::read(text, &mut reading)?;
            return reading.finish(version).map_err(|Wrong(why)| ErrorReply::err(why));
        }
        if text.len() > DEFINITION_BYTES_MAX {
            let text = format!("a definition has at most {DEFINITION_BYTES_MAX} bytes");
            return Err(ErrorReply::err(text));
        }
        for (number, line) in text.lines().enumerate() {
            let read = match line.trim_start().strip_prefix('|') {
                Some(of_program) => reading.program_line(of_program),
                None => split(line).map_err(Wrong).and_then(|words| reading.line(&words)),
            };
            read.map_err(|Wrong(why)| ErrorReply::err(format!("line {}: {why}", number + 1)))?;
        }
        reading.finish(version).map_err(|Wrong(why)| ErrorReply::err(why))
    }
}

impl StepSpec {
    /// Whether the command writes.
    pub(super) fn writes(&self) -> bool {
        self.spec.flags.has(Flags::WRITE)
    }

    /// Bytes of the words and of the field, for a call with these arguments.
    pub(super) fn bytes(&self, arguments: &[Blob]) -> usize {
        self.words.iter().chain(&self.field).map(|word| word.bytes(arguments)).sum()
    }

    /// The command for people.
    pub(super) fn shown(&self) -> &'static str {
        self.spec.name
    }

    /// The operation on the part, for a call with these arguments.
    pub(super) fn bind(&self, arguments: &[Blob], kind: &str) -> Result<Op, ErrorReply> {
        bound(self.spec, self.words.iter().map(|word| word.with(arguments)), kind)
    }

    pub(super) fn op(&self, arguments: &[Blob], part: &str, kind: &str) -> Result<Op, Wrong> {
        self.bind(arguments, kind).map_err(|error| {
            if error == ErrorReply::wrong_type() {
                return Wrong(format!("{} cannot be a step on the {kind} {part}", self.spec.name));
            }
            Wrong(error.text().to_owned())
        })
    }
}

/// The operation on a part of some kind that a command is, whose words behind the key are given.
pub(super) fn bound(
    spec: &CommandSpec,
    rest: impl Iterator<Item = Blob>,
    kind: &str,
) -> Result<Op, ErrorReply> {
    let mut words = crate::ArgBuf::new();
    words.push(spec.name).push("part");
    rest.for_each(|word| _ = words.push(word));
    let args: Args<'_> = words.args();
    spec.check_arity(args.len())?;
    let Handler::Data(parse) = spec.handler else { return Err(ErrorReply::syntax()) };
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
        None => Err(ErrorReply::err(format!("{} cannot be a step", spec.name))),
    }
}

/// Whether an operation on a key makes sense for a part.
fn is_of_parts(op: &Op) -> bool {
    use crate::key::KeyOp;
    let Op::Key(op) = op else { return false };
    matches!(op, KeyOp::Del | KeyOp::Exists | KeyOp::Expire { .. } | KeyOp::Persist | KeyOp::Ttl(_))
}
