//! Calls of operations: the commands on parts that they are, and how these are carried out.

use super::definition::{
    CALL_BYTES_MAX, Compare, Definition, Given, OperationSpec, Otherwise, Role,
};
use super::parse::step_of_program;
use super::parts::{Address, Parts};
use crate::record::{self, Record};
use crate::{Access, Args, Blob, Ctx, ErrorReply, Op, Reply, format_float, parse_float, parse_int};
use std::borrow::Cow;
use std::sync::Arc;

/// A call of an operation of a type, or steps that a program makes.
#[derive(Clone, Debug)]
pub struct Call {
    pub(super) definition: Arc<Definition>,
    called: Called,
    pub(super) arguments: Vec<Blob>,
    pub(super) steps: Vec<Bound>,
}

/// The operation of a call.
#[derive(Clone, Debug)]
enum Called {
    /// The number of the operation in the definition.
    Number(usize),
    /// Steps of a program. The operation has no name, and its arguments are for each step the number of its
    /// words and these.
    Steps(Box<OperationSpec>),
}

impl PartialEq for Call {
    fn eq(&self, other: &Self) -> bool {
        (&self.spec().name, &self.arguments) == (&other.spec().name, &other.arguments)
            && self.definition == other.definition
    }
}

/// A step, with the arguments of the call.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    pub part: usize,
    pub field: Option<Blob>,
    pub op: Op,
}

impl Bound {
    pub fn at(&self) -> Address<'_> {
        (self.part, self.field.as_ref())
    }
}

impl Call {
    /// Call of the operation called `name`.
    pub fn new(
        definition: Arc<Definition>,
        name: &[u8],
        arguments: Vec<Blob>,
    ) -> Result<Self, ErrorReply> {
        if name.is_empty() {
            return Self::of_steps(definition, arguments);
        }
        let operation = definition.operation(name)?;
        let spec = &definition.operations[operation];
        if spec.program.is_some() {
            let text = format!(
                "{}.{} is a program: call it as a command of its own",
                definition.name, spec.name
            );
            return Err(ErrorReply::err(text));
        }
        spec.check(&definition.name, &arguments)?;
        let bytes: usize = spec.steps.iter().map(|step| step.bytes(&arguments)).sum();
        if bytes > CALL_BYTES_MAX {
            let text = format!("a call becomes at most {CALL_BYTES_MAX} bytes of commands");
            return Err(ErrorReply::err(text));
        }
        let steps = spec.steps.iter().map(|step| {
            let op = step.bind(&arguments, definition.parts[step.part].kind)?;
            let field = step.field.as_ref().map(|field| field.with(&arguments));
            Ok(Bound { part: step.part, field, op })
        });
        let steps = steps.collect::<Result<Vec<_>, ErrorReply>>()?;
        Ok(Self { called: Called::Number(operation), arguments, steps, definition })
    }

    /// Steps of a program: one, whose reply is returned, or several writes.
    fn of_steps(definition: Arc<Definition>, arguments: Vec<Blob>) -> Result<Self, ErrorReply> {
        let (mut specs, mut steps) = (Vec::new(), Vec::new());
        let mut rest = &arguments[..];
        while let Some((count, behind)) = rest.split_first() {
            let count = parse_int(count).ok().and_then(|count| usize::try_from(count).ok());
            let words = count.filter(|count| *count <= behind.len());
            let (words, behind) = behind.split_at(words.ok_or_else(ErrorReply::syntax)?);
            let (spec, bound) = step_of_program(&definition, words)?;
            specs.push(spec);
            steps.push(bound);
            rest = behind;
        }
        if specs.is_empty() {
            return Err(ErrorReply::syntax());
        }
        if specs.len() > 1 {
            specs.iter_mut().for_each(|spec| spec.role = Role::Effect);
        }
        let writes = steps.iter().any(|step| step.op.is_write());
        let (name, parameters, program) = (String::new(), Vec::new(), None);
        let spec =
            OperationSpec { name, parameters, steps: specs, writes, is_query: !writes, program };
        Ok(Self { called: Called::Steps(Box::new(spec)), arguments, steps, definition })
    }

    /// Writes that a program has made on a value, one after the other, as one call.
    pub(super) fn joined(calls: &[&Self]) -> Option<Self> {
        let (first, rest) = calls.split_first()?;
        let mut all = (*first).clone();
        let Called::Steps(spec) = &mut all.called else { return None };
        for call in rest {
            let Called::Steps(next) = &call.called else { return None };
            if call.definition != first.definition {
                return None;
            }
            spec.steps.extend(next.steps.iter().cloned());
            all.steps.extend(call.steps.iter().cloned());
            all.arguments.extend(call.arguments.iter().cloned());
        }
        if !rest.is_empty() {
            spec.steps.iter_mut().for_each(|step| step.role = Role::Effect);
        }
        Some(all)
    }

    /// Whether the steps were tried when the program made them.
    fn was_tried(&self) -> bool {
        matches!(self.called, Called::Steps(_))
    }

    /// Reads a call from the words of the log: text of the definition, operation, arguments.
    pub fn parse(args: &Args<'_>) -> Result<Self, ErrorReply> {
        let definition = Definition::read(args.get(2).unwrap_or_default())?;
        let arguments = args.iter_from(4).map(Blob::new).collect();
        Self::new(definition, args.get(3).unwrap_or_default(), arguments)
    }

    pub(super) fn spec(&self) -> &OperationSpec {
        match &self.called {
            Called::Number(number) => &self.definition.operations[*number],
            Called::Steps(spec) => spec,
        }
    }

    fn role(&self, step: usize) -> &Role {
        &self.spec().steps[step].role
    }

    /// Steps with their roles.
    fn each(&self) -> impl Iterator<Item = (&Bound, &Role)> {
        self.steps.iter().zip(self.spec().steps.iter().map(|step| &step.role))
    }

    /// The access to a part that a step is. What decides over the effect of the call is always observed.
    pub(super) fn access(&self, step: usize, observed: bool) -> Access<'_, Op> {
        let op = &self.steps[step].op;
        let decides = match self.role(step) {
            Role::Require(..) => true,
            _ => op.is_write() && !record::is_always_possible(None, op),
        };
        let returned = matches!(self.role(step), Role::Return);
        Access { op, observed: decides || (observed && returned) }
    }

    /// Whether effect and reply follow from what `of` picks of value and time, for all commands.
    pub(super) fn follows(&self, of: fn((bool, bool)) -> bool) -> bool {
        self.steps.iter().all(|bound| record::follows_by_type(&bound.op).is_some_and(of))
    }

    /// Whether no command removes anything.
    pub(super) fn preserves_key(&self) -> bool {
        self.steps.iter().all(|bound| bound.op.preserves_key())
    }

    /// Whether all that was concluded from another call is true of this one, which is carried out in its
    /// place.
    pub(super) fn stands_for(&self, other: &Self) -> bool {
        let followed = [|(value, _)| value, |(_, time)| time];
        self.spec().writes == other.spec().writes
            && self.spec().requires() == other.spec().requires()
            && (self.preserves_key() || !other.preserves_key())
            && followed.iter().all(|of| self.follows(*of) || !other.follows(*of))
    }

    /// Whether a step, or another one about the same record, meets what the call itself has written there.
    pub(super) fn meets_itself(&self, step: usize) -> bool {
        let at = self.steps[step].at();
        let mut about = self.steps.iter().filter(|other| other.at() == at);
        about.any(|first| first.op.is_write()) && about.next().is_some()
    }

    /// The reply of the call, if the replies that its steps return are these.
    fn reply(&self, mut returned: Vec<Reply>) -> Reply {
        let gives =
            self.spec().steps.iter().filter(|step| matches!(step.role, Role::Return)).count();
        match gives {
            0 if self.spec().requires() => Reply::Int(1),
            0 => Reply::Ok,
            1 => returned.pop().unwrap_or(Reply::Nil),
            _ => Reply::Array(returned),
        }
    }

    /// The reply if a requirement does not hold.
    pub(super) fn refusal(&self, parts: &Parts, ctx: &Ctx) -> Option<Reply> {
        for (bound, role) in self.each() {
            let Role::Require(test, value, otherwise) = role else { continue };
            let record = parts.view(&self.definition, bound.at());
            let reply = match bound.op.is_write() {
                false => record::query(record.as_deref(), &bound.op, ctx),
                true => record::foretell(record.as_deref(), &bound.op, ctx).unwrap_or_else(|| {
                    record::apply(&mut record.map(Cow::into_owned), &bound.op, ctx)
                }),
            };
            if !holds(&reply, *test, value, &self.arguments) {
                return Some(match otherwise {
                    _ if reply.is_error() => reply,
                    Otherwise::Value(Given::Nil) => Reply::Nil,
                    Otherwise::Value(Given::Word(word)) => {
                        let word = word.with(&self.arguments);
                        parse_int(&word).map_or(Reply::Bulk(word), Reply::Int)
                    }
                    Otherwise::Error(code, text) => {
                        let text = text.with(&self.arguments);
                        let text = String::from_utf8_lossy(&text).into_owned();
                        Reply::Error(ErrorReply::new(code.clone(), text))
                    }
                });
            }
        }
        None
    }

    /// Reply of a step that reads. What has expired stays until the log says that it has: what follows from
    /// that is seen at the same time.
    fn ask(&self, parts: &Parts, bound: &Bound, ctx: &Ctx) -> Reply {
        record::query(parts.view(&self.definition, bound.at()).as_deref(), &bound.op, ctx)
    }

    /// Answers a call that only reads.
    pub(super) fn query(&self, parts: &Parts, ctx: &Ctx) -> Reply {
        if let Some(refusal) = self.refusal(parts, ctx) {
            return refusal;
        }
        let returned = self.each().filter(|(_, role)| matches!(role, Role::Return));
        let replies: Vec<Reply> = returned.map(|(bound, _)| self.ask(parts, bound, ctx)).collect();
        match replies.iter().find(|reply| reply.is_error()) {
            Some(error) => error.clone(),
            None => self.reply(replies),
        }
    }

    /// Carries out a call that writes. Returns also whether anything has changed; an error changes nothing.
    pub(super) fn apply(&self, parts: &mut Parts, ctx: &Ctx) -> (Reply, bool) {
        if let Some(refusal) = self.refusal(parts, ctx) {
            return (refusal, false);
        }
        // What was there before a step that a later one may undo.
        let may_fail =
            |bound: &Bound| bound.op.is_write() && !record::is_always_possible(None, &bound.op);
        let last_unsure = match self.was_tried() {
            true => None,
            false => self.steps.iter().rposition(may_fail),
        };
        let mut before: Vec<(Address<'_>, Option<Record>)> = Vec::new();
        let mut returned = Vec::new();
        let mut changed = false;
        for (step, (bound, role)) in self.each().enumerate() {
            let reply = if !bound.op.is_write() {
                if matches!(role, Role::Require(..)) {
                    continue;
                }
                self.ask(parts, bound, ctx)
            } else {
                if last_unsure.is_some_and(|unsure| step < unsure) {
                    before.push((bound.at(), parts.get(bound.at()).cloned()));
                }
                let (reply, did) = parts.carry_out(&self.definition, bound.at(), &bound.op, ctx);
                changed |= did;
                reply
            };
            if reply.is_error() {
                for (at, record) in before.into_iter().rev() {
                    parts.restore(at, record);
                }
                return (reply, false);
            }
            if matches!(role, Role::Return) {
                returned.push(reply);
            }
        }
        (self.reply(returned), changed)
    }

    /// The reply of a call that writes, which is neither carried out nor needs a copy; `None` if it is not
    /// known as cheaply.
    pub(super) fn foretell(&self, parts: &Parts, ctx: &Ctx) -> Option<Reply> {
        if let Some(refusal) = self.refusal(parts, ctx) {
            return Some(refusal);
        }
        let mut returned = Vec::new();
        for (step, (bound, role)) in self.each().enumerate() {
            if matches!(role, Role::Require(..)) && !bound.op.is_write() {
                continue;
            }
            let written = |other: &Bound| other.op.is_write() && other.at() == bound.at();
            if self.steps[..step].iter().any(written) {
                return None;
            }
            let record = parts.view(&self.definition, bound.at());
            let reply = match bound.op.is_write() {
                false => record::query(record.as_deref(), &bound.op, ctx),
                true => record::foretell(record.as_deref(), &bound.op, ctx)?,
            };
            if reply.is_error() {
                return Some(reply);
            }
            if matches!(role, Role::Return) {
                returned.push(reply);
            }
        }
        Some(self.reply(returned))
    }
}

/// The reply as a word, if it is one value.
fn word_of(reply: &Reply) -> Option<Blob> {
    match reply {
        Reply::Bulk(word) => Some(word.clone()),
        Reply::Int(number) => Some(crate::number::int_blob(*number)),
        Reply::Double(number) => Some(Blob::from(format_float(*number))),
        Reply::Ok => Some(Blob::from("OK")),
        Reply::Status(text) => Some(Blob::from(text.as_bytes())),
        Reply::Bool(yes) => Some(Blob::from(if *yes { "1" } else { "0" })),
        _ => None,
    }
}

/// Whether a reply compares with a value as required. Errors do not, and no order is known of what is no
/// number.
fn holds(reply: &Reply, test: Compare, value: &Given, arguments: &[Blob]) -> bool {
    if reply.is_error() {
        return false;
    }
    let word = word_of(reply);
    let value = match value {
        Given::Nil => None,
        Given::Word(value) => Some(value.with(arguments)),
    };
    let equal = match &value {
        None => matches!(reply, Reply::Nil | Reply::NilArray),
        value => word == *value,
    };
    let order = || {
        let (word, value) = (word.as_deref()?, value.as_deref()?);
        match (parse_int(word), parse_int(value)) {
            (Ok(word), Ok(value)) => Some(word.cmp(&value)),
            _ => parse_float(word).ok()?.partial_cmp(&parse_float(value).ok()?),
        }
    };
    match test {
        Compare::Equal => equal,
        Compare::Unequal => !equal,
        Compare::Less => order().is_some_and(|order| order.is_lt()),
        Compare::AtMost => order().is_some_and(|order| order.is_le()),
        Compare::Greater => order().is_some_and(|order| order.is_gt()),
        Compare::AtLeast => order().is_some_and(|order| order.is_ge()),
    }
}
