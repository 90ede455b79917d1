//! Composed types: values with named parts, each of a built-in type, and operations that are lists of
//! commands on the parts ([`definition`]).
//!
//! Clients define them while the server runs, and nothing is claimed: two calls commute if each command of
//! the one commutes with each of the other, by the rules of the parts. A command whose reply decides over
//! the effect of its call counts as observed. If a call has commands on a record that it has written itself,
//! the rules of the present value are not those that these commands meet: their modes must share in every
//! state.
//!
//! A call carries the text of its definition, in the log and between machines, and a value holds the text by
//! which it was written last. So no replica needs anything else to carry out a call or to read a snapshot.
//! A call by a later version takes the value over; one by an earlier version is carried out by the value's.

mod call;
pub mod definition;
pub mod derived;
mod json;
mod parse;
mod parts;
#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;
mod words;

use super::string;
use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Blob, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Forecast, Foresight, Keys, Meta, MortalParts, Op as AnyOp, Record, Reply, ValueSink,
    ValueSource, record,
};
use call::Call;
use definition::{Definition, STEPS_MAX};
use parts::Parts;
use std::borrow::Cow;
use std::sync::Arc;

/// A call of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op(Arc<Call>);

impl Op {
    /// Name of the operation as a command; that of its type if it is a step of a program.
    pub(crate) fn called(&self) -> String {
        let (type_name, name) = (self.0.definition.name(), &self.0.spec().name);
        if name.is_empty() {
            type_name.to_lowercase()
        } else {
            format!("{type_name}.{name}").to_lowercase()
        }
    }
}

/// The state: parts by a definition. A new value has none yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    definition: Option<Arc<Definition>>,
    parts: Parts,
}

impl Value {
    /// Name of the value's type.
    pub fn name(&self) -> &str {
        self.definition.as_ref().map_or("none", |definition| definition.name())
    }

    /// Whether the value goes by the definition of a call.
    fn goes_by(&self, call: &Call) -> bool {
        self.definition.as_ref() == Some(&call.definition)
    }

    /// The call that is carried out: one by the value's definition, if the value goes by a later version.
    /// Name and arguments of the operation say what it is to do.
    fn renewed<'c>(&self, call: &'c Call) -> Result<Cow<'c, Call>, ErrorReply> {
        let wanted = &call.definition;
        let own = match &self.definition {
            Some(own) if own.name != wanted.name => return Err(ErrorReply::wrong_type()),
            Some(own) if own.version >= wanted.version && own != wanted => own,
            _ => return Ok(Cow::Borrowed(call)),
        };
        let name = &call.spec().name;
        let renewed = match name.is_empty() {
            // A later version has perhaps another program.
            true => None,
            false => Call::new(own.clone(), name.as_bytes(), call.arguments.clone()).ok(),
        };
        renewed.filter(|renewed| renewed.stands_for(call)).map(Cow::Owned).ok_or_else(|| {
            let (of, version) = (&own.name, own.version);
            let text = match name.is_empty() {
                true => {
                    format!("the value has version {version} of {of}, which is later: call again")
                }
                false => format!(
                    "the operation {name} is another one in version {version} of {of}: call again"
                ),
            };
            ErrorReply::new("TRYAGAIN", text)
        })
    }

    /// The parts as the definition of a renewed call has them.
    fn parts_for(&self, call: &Call) -> Result<Cow<'_, Parts>, ErrorReply> {
        let wanted = &call.definition;
        match &self.definition {
            None => Ok(Cow::Owned(Parts::new(wanted))),
            Some(own) if own == wanted => Ok(Cow::Borrowed(&self.parts)),
            Some(own) => {
                wanted.takes_over(own)?;
                Ok(Cow::Owned(self.parts.migrated(own, wanted)))
            }
        }
    }

    /// Carries out a call. Returns also whether anything has changed.
    fn write(&mut self, call: &Call, ctx: &Ctx) -> Result<(Reply, bool), ErrorReply> {
        let call = self.renewed(call)?;
        if self.goes_by(&call) {
            return Ok(call.apply(&mut self.parts, ctx));
        }
        let mut parts = self.parts_for(&call)?.into_owned();
        let (reply, changed) = call.apply(&mut parts, ctx);
        if changed {
            *self = Self { definition: Some(call.definition.clone()), parts };
        }
        Ok((reply, changed))
    }

    fn read(&self, call: &Call, ctx: &Ctx) -> Result<Reply, ErrorReply> {
        let call = self.renewed(call)?;
        Ok(call.query(&*self.parts_for(&call)?, ctx))
    }

    /// Removes what has expired at a moment, and lets follow what the definition says.
    fn expire(&mut self, now_ms: u64, most: usize) -> usize {
        let Some(definition) = self.definition.clone() else { return 0 };
        let ctx = Ctx { now_ms, ..Ctx::default() };
        for count in 0..most {
            match self.parts.expire_first(now_ms) {
                None => return count,
                Some((_, None)) => {}
                Some((number, Some((field, record)))) => {
                    let arguments = [field, value_of(&record)];
                    let spec = &definition.parts[number];
                    for step in &spec.expired {
                        let kind = definition.parts[step.part].kind;
                        let Ok(op) = step.bind(&arguments, kind) else { continue };
                        let field = step.field.as_ref().map(|field| field.with(&arguments));
                        let at = (step.part, field.as_ref());
                        self.parts.carry_out(&definition, at, &op, &ctx);
                    }
                }
            }
        }
        most
    }

    fn outlives(&self, now_ms: u64) -> bool {
        let Some(definition) = &self.definition else { return false };
        let follows = definition.parts.iter().any(|part| !part.expired.is_empty());
        follows || definition.begins_with_something() || self.parts.outlive(now_ms)
    }

    /// Answers a read from what is left at the time of the context.
    fn read_left(&self, call: &Call, ctx: &Ctx) -> Result<Reply, ErrorReply> {
        let due = self.parts.next_expiry_ms(None).is_some_and(|at| at <= ctx.now_ms);
        if !due {
            return self.read(call, ctx);
        }
        let mut left = self.clone();
        left.expire(ctx.now_ms, usize::MAX);
        left.read(call, ctx)
    }

    fn foretell(&self, call: &Call, ctx: &Ctx) -> Result<Option<Reply>, ErrorReply> {
        let call = self.renewed(call)?;
        match self.parts_for(&call)? {
            // The parts of another version are a copy.
            Cow::Owned(_) if self.definition.is_some() => Ok(None),
            _ if call.steps.len() > STEPS_MAX => Ok(None),
            parts => Ok(call.foretell(&parts, ctx)),
        }
    }

    /// The first pair of steps of two calls of one definition that do not commute.
    fn first_conflict(
        &self,
        (a, a_seen): (&Call, bool),
        (b, b_seen): (&Call, bool),
    ) -> Option<(usize, usize)> {
        let parts = match self.definition {
            Some(_) => Cow::Borrowed(&self.parts),
            None => Cow::Owned(Parts::new(&a.definition)),
        };
        let commute = |i: usize, j: usize| {
            let at = a.steps[i].at();
            if at != b.steps[j].at() {
                return true;
            }
            let (x, y) = (a.access(i, a_seen), b.access(j, b_seen));
            if a.meets_itself(i) || b.meets_itself(j) {
                let share = record::mode(x).shares(record::mode(y));
                return share && parts.get(at).is_none_or(Record::lasts);
            }
            record::commutes(parts.view(&a.definition, at).as_deref(), x, y)
        };
        let pairs = (0..a.steps.len()).flat_map(|i| (0..b.steps.len()).map(move |j| (i, j)));
        pairs.into_iter().find(|(i, j)| !commute(*i, *j))
    }
}

/// Value of an element that has expired, for what follows.
fn value_of(record: &Record) -> Blob {
    match record::query(Some(record), &AnyOp::String(string::Op::Get), &Ctx::default()) {
        Reply::Bulk(value) => value,
        _ => Blob::default(),
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "composed";
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "write"];
    const SHARED: [u8; 8] = [0b1, 0, 0, 0, 0, 0, 0, 0];

    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |op| op.0.follows(|(value, _)| value),
        follows_in_time: |op| op.0.follows(|(_, time)| time),
        cost: |value| value.parts.cost(),
    });

    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: |value, op, ctx| {
            value.foretell(&op.0, ctx).unwrap_or_else(|error| Some(error.into()))
        },
        // A value of another definition refuses it.
        is_always_possible: |_| false,
    });

    const PARTS: Option<MortalParts<Self, Op>> = Some(MortalParts {
        next_expiry_ms: |value, after_ms| value.parts.next_expiry_ms(after_ms),
        outlives: Self::outlives,
        expire: Self::expire,
        query_left: |value, op, ctx| value.read_left(&op.0, ctx).unwrap_or_else(Reply::Error),
    });

    fn is_write(op: &Op) -> bool {
        op.0.spec().writes
    }

    fn is_empty(&self) -> bool {
        let begins = self.definition.as_ref().is_some_and(|own| own.begins_with_something());
        !begins && self.parts.is_empty()
    }

    fn creates(op: &Op) -> bool {
        Self::is_write(op)
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        self.read(&op.0, ctx).unwrap_or_else(Reply::Error)
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let (reply, changed) = self.write(&op.0, ctx).unwrap_or_else(|error| (error.into(), false));
        meta.untouched = !changed;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        Self::is_write(op) && op.0.spec().requires()
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        let call = self.renewed(&op.0).ok()?;
        let parts = self.parts_for(&call).ok()?;
        call.refusal(&parts, &Ctx { now_ms, ..Ctx::default() })
    }

    fn preserves_key(op: &Op) -> bool {
        op.0.preserves_key()
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let (x, y) = (&a.op.0, &b.op.0);
        // The writes of a program are compared only if they are as few as the steps of an operation.
        x.steps.len().max(y.steps.len()) <= STEPS_MAX
            && x.definition == y.definition
            && (self.definition.is_none() || self.goes_by(x))
            && self.first_conflict((x, a.observed), (y, b.observed)).is_none()
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        let call = &op.0;
        let name = if call.spec().writes { CALL } else { CALL_RO };
        out.push(name).push(key).push(&call.definition.text).push(&call.spec().name);
        call.arguments.iter().for_each(|argument| _ = out.push(argument));
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.bytes(self.definition.as_ref().map_or(b"", |definition| &definition.text));
        self.parts.save(sink);
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let definition = Definition::read(source.bytes()?).map_err(|_| Corrupt)?;
        let parts = Parts::load(&definition, source)?;
        Ok(Self { definition: Some(definition), parts })
    }
}

/// The words of a command of a program, as the command on the value that it is: `words` name a part where
/// other commands name a key.
pub fn step_words(definition: &Definition, key: &[u8], words: &Args<'_>) -> ArgBuf {
    let spec = record::command(words.get(0).unwrap_or_default());
    let writes = spec.is_none_or(|spec| spec.flags.has(Flags::WRITE));
    let mut all = ArgBuf::new();
    all.push(if writes { CALL } else { CALL_RO }).push(key).push(&definition.text).push("");
    all.push(words.len().to_string());
    words.iter_from(0).for_each(|word| _ = all.push(word));
    all
}

/// Writes of a program on one value as one operation: `None` if they are others.
pub fn joined<'o>(ops: impl Iterator<Item = &'o AnyOp>) -> Option<AnyOp> {
    let call = |op: &'o AnyOp| match op {
        AnyOp::Composed(Op(call)) => Some(&**call),
        _ => None,
    };
    let calls: Vec<&Call> = ops.map(call).collect::<Option<_>>()?;
    Call::joined(&calls).map(|call| AnyOp::Composed(Op(Arc::new(call))))
}

/// A type for sample calls.
pub(crate) const SAMPLE_TYPE: &str = "type sample\npart n counter\nmap s string\nop add by:int\n \
    counter.add n $by\nop keep field value ms:int\n require exists s[$field] = 0 else 0\n \
    set s[$field] $value px $ms\nop sum\n return counter.get n\nexpired s field value\n counter.add n 1";

/// Commands, operations and arguments of sample calls.
pub(crate) const SAMPLE_CALLS: [(&str, &[&str]); 3] =
    [(CALL, &["add", "2"]), (CALL, &["keep", "a", "b", "60000"]), (CALL_RO, &["sum"])];

/// Commands that call an operation: one that writes, and one that only reads.
pub const CALL: &str = "type.call";
/// See [`CALL`].
pub const CALL_RO: &str = "type.call_ro";

/// Gateways put the text of the definition into the words of clients, and the words of the log have it.
const COMMANDS: &[CommandSpec] = commands! { "types";
    ("type.call", -3, Flags::WRITE.and(Flags::GROWS), Keys::ONE,
        "Carries out an operation of a composed type; `type.operation key [arg ...]` is the same.",
        "key type.operation [arg ...]", "That of the commands of the operation") =>
        parse_call;
    ("type.call_ro", -3, Flags::READ, Keys::ONE,
        "Carries out an operation of a composed type that only reads.",
        "key type.operation [arg ...]", "That of the commands of the operation") =>
        parse_call;
};

/// Reads a call, in the form in which the second argument is the text of the definition.
fn parse_call(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let call = Call::parse(args)?;
    Ok(Command::Single(args.blob(1)?, AnyOp::Composed(Op(Arc::new(call)))))
}
