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
mod parse;
mod parts;
#[cfg(test)]
mod tests;
mod words;

use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Forecast, Foresight, Keys, Meta, MortalParts, Op as AnyOp, Reply, ValueSink, ValueSource,
    record,
};
use call::Call;
use definition::Definition;
use parts::Parts;
use std::borrow::Cow;
use std::sync::Arc;

/// A call of an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Op(Arc<Call>);

/// The state: parts by a definition. A new value has none yet.
#[derive(Clone, Debug, Default)]
pub struct Value {
    definition: Option<Arc<Definition>>,
    parts: Parts,
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        (&self.definition, &self.parts) == (&other.definition, &other.parts)
    }
}

impl Op {
    /// The definition that the call goes by.
    pub fn definition(&self) -> &Arc<Definition> {
        &self.0.definition
    }
}

impl Value {
    /// Name of the value's type.
    pub fn name(&self) -> &str {
        self.definition.as_ref().map_or("none", |definition| definition.name())
    }

    /// Whether the value goes by the definition of a call, or is a new one.
    fn goes_by(&self, call: &Call) -> bool {
        self.definition.as_ref().is_none_or(|own| same(own, &call.definition))
    }

    /// A call by the definition of the value, if the value goes by a later version than the call: what the
    /// operation is called, and its arguments, say what it is to do.
    fn renewed(&self, call: &Call) -> Option<Result<Call, ErrorReply>> {
        let own = self.definition.as_ref()?;
        let wanted = &call.definition;
        if own.name != wanted.name || own.version < wanted.version || same(own, wanted) {
            return None;
        }
        let name = &call.spec().name;
        let renewed = Call::new(own.clone(), name.as_bytes(), call.arguments.clone());
        Some(match renewed {
            Ok(renewed) if renewed.stands_for(call) => Ok(renewed),
            _ => {
                let text = format!(
                    "the operation {name} is another one in version {} of {}: call again",
                    own.version, own.name
                );
                Err(ErrorReply::new("TRYAGAIN", text))
            }
        })
    }

    /// The parts as the definition of a call has them.
    fn parts_for(&self, call: &Call) -> Result<Cow<'_, Parts>, ErrorReply> {
        let wanted = &call.definition;
        let Some(own) = &self.definition else { return Ok(Cow::Owned(Parts::new(wanted))) };
        if same(own, wanted) {
            return Ok(Cow::Borrowed(&self.parts));
        }
        if own.name != wanted.name {
            return Err(ErrorReply::wrong_type());
        }
        if own.version == wanted.version {
            // A version stands for one definition.
            return Err(ErrorReply::wrong_type());
        }
        wanted.takes_over(own)?;
        Ok(Cow::Owned(self.parts.migrated(own, wanted)))
    }

    fn call(&mut self, call: &Call, ctx: &Ctx, meta: &mut Meta) -> Reply {
        meta.untouched = true;
        match self.renewed(call) {
            None => {}
            Some(Ok(renewed)) => return self.call(&renewed, ctx, meta),
            Some(Err(error)) => return error.into(),
        }
        let other = match self.parts_for(call) {
            Ok(parts) => {
                if let Some(refusal) = call.refusal(&parts, ctx) {
                    return refusal;
                }
                match parts {
                    Cow::Owned(parts) => Some(parts),
                    Cow::Borrowed(_) => None,
                }
            }
            Err(error) => return error.into(),
        };
        let Some(mut parts) = other else {
            let (reply, changed) = call.apply(&mut self.parts, ctx);
            meta.untouched = !changed;
            return reply;
        };
        let (reply, changed) = call.apply(&mut parts, ctx);
        if changed {
            *self = Self { definition: Some(call.definition.clone()), parts };
            meta.untouched = false;
        }
        reply
    }

    fn read(&self, call: &Call, ctx: &Ctx) -> Reply {
        match self.renewed(call) {
            None => {}
            Some(Ok(renewed)) => return self.read(&renewed, ctx),
            Some(Err(error)) => return error.into(),
        }
        match self.parts_for(call) {
            Ok(parts) => call.query(&parts, ctx),
            Err(error) => error.into(),
        }
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
                    let spec = &definition.parts[number];
                    let get = definition::value_of(&record, &ctx);
                    let arguments = [field, get];
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

    fn read_left(&self, call: &Call, ctx: &Ctx) -> Reply {
        let due = self.parts.next_expiry_ms(None).is_some_and(|at| at <= ctx.now_ms);
        if !due {
            return self.read(call, ctx);
        }
        let mut left = self.clone();
        left.expire(ctx.now_ms, usize::MAX);
        left.read(call, ctx)
    }

    fn foretell(&self, call: &Call, ctx: &Ctx) -> Option<Reply> {
        match self.renewed(call) {
            None => {}
            Some(Ok(renewed)) => return self.foretell(&renewed, ctx),
            Some(Err(error)) => return Some(error.into()),
        }
        match self.parts_for(call) {
            Ok(Cow::Owned(_)) if self.definition.is_some() => None,
            Ok(parts) => call.foretell(&parts, ctx),
            Err(error) => Some(error.into()),
        }
    }

    /// Whether two calls commute: each pair of their commands on one record does.
    fn pairs_commute(&self, a: (&Call, bool), b: (&Call, bool)) -> bool {
        same(&a.0.definition, &b.0.definition)
            && self.goes_by(a.0)
            && self.first_conflict(a, b).is_none()
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
                return share && parts.get(at).is_none_or(crate::Record::lasts);
            }
            let fresh = Parts::fresh(&a.definition, at);
            record::commutes(parts.get(at).or(fresh.as_ref()), x, y)
        };
        let pairs = (0..a.steps.len()).flat_map(|i| (0..b.steps.len()).map(move |j| (i, j)));
        pairs.into_iter().find(|(i, j)| !commute(*i, *j))
    }
}

/// Whether two definitions are one.
fn same(a: &Arc<Definition>, b: &Arc<Definition>) -> bool {
    Arc::ptr_eq(a, b) || a == b
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
        reply: |value, op, ctx| value.foretell(&op.0, ctx),
        // A value of another definition refuses it.
        is_always_possible: |_| false,
    });

    const PARTS: Option<MortalParts<Self, Op>> = Some(MortalParts {
        next_expiry_ms: |value, after_ms| value.parts.next_expiry_ms(after_ms),
        outlives: Self::outlives,
        expire: Self::expire,
        query_left: |value, op, ctx| value.read_left(&op.0, ctx),
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
        self.read(&op.0, ctx)
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        self.call(&op.0, ctx, meta)
    }

    fn may_be_idle(op: &Op) -> bool {
        Self::is_write(op) && op.0.spec().requires()
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        if self.renewed(&op.0).is_some() {
            return None;
        }
        match self.parts_for(&op.0) {
            Ok(parts) => op.0.refusal(&parts, &Ctx { now_ms, ..Ctx::default() }),
            Err(error) => Some(error.into()),
        }
    }

    fn preserves_key(op: &Op) -> bool {
        op.0.preserves_key()
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        self.pairs_commute((&a.op.0, a.observed), (&b.op.0, b.observed))
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
