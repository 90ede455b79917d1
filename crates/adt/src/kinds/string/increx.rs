//! `INCREX`: an increment with bounds and an expiry. See the Redis documentation of the command.

use super::{Expiry, Op, Value};
use crate::number::add_float;
use crate::{
    ArgBuf, Args, Blob, Command, Ctx, ErrorReply, Meta, Op as AnyOp, Reply, format_float,
    parse_float,
};

/// An increment that keeps the number within bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Increment {
    /// The summand and the bounds.
    pub by: By,
    /// Whether a sum outside of the bounds is replaced by the bound. Otherwise nothing changes.
    pub saturate: bool,
    /// Effect on the expiry, if the number changes.
    pub expiry: Expiry,
    /// `ENX`: leaves an expiry that is there.
    pub only_without: bool,
}

/// The summand of an increment, and the bounds of the sum.
#[derive(Clone, Debug, PartialEq)]
pub enum By {
    /// Integers.
    Int {
        /// The summand.
        delta: i64,
        /// Smallest sum.
        lower: i64,
        /// Largest sum.
        upper: i64,
    },
    /// Decimal numbers as the client wrote them, which may have more digits than a float.
    Float {
        /// The summand.
        delta: Blob,
        /// Smallest sum.
        lower: Option<Blob>,
        /// Largest sum.
        upper: Option<Blob>,
    },
}

/// Result of an increment.
pub(super) enum Outcome {
    /// The value becomes another one.
    Changed(Value, Reply),
    /// Nothing changes: the sum is outside of the bounds.
    Refused(Reply),
    /// Nothing changes: the command does not fit the value.
    Failed(ErrorReply),
}

impl Increment {
    /// Whether the increment can be refused because of a bound that the client has named.
    pub(super) fn is_bounded(&self) -> bool {
        match &self.by {
            By::Int { lower, upper, .. } => *lower > i64::MIN || *upper < i64::MAX,
            By::Float { lower, upper, .. } => lower.is_some() || upper.is_some(),
        }
    }

    /// Result for a value.
    pub(super) fn of(&self, value: &Value) -> Outcome {
        let done = match &self.by {
            By::Int { delta, lower, upper } => self.ints(value, *delta, *lower, *upper),
            By::Float { delta, lower, upper } => {
                self.floats(value, delta, lower.as_ref(), upper.as_ref())
            }
        };
        done.unwrap_or_else(Outcome::Failed)
    }

    fn ints(
        &self,
        value: &Value,
        delta: i64,
        lower: i64,
        upper: i64,
    ) -> Result<Outcome, ErrorReply> {
        let old = value.int()?;
        let sum = i128::from(old) + i128::from(delta);
        let nearest = sum.clamp(lower.into(), upper.into());
        if nearest != sum && !self.saturate {
            return Ok(Outcome::Refused(pair(Reply::Int(old), Reply::Int(0))));
        }
        let fits = |n: i128| {
            i64::try_from(n).map_err(|_| ErrorReply::err("applied increment would overflow"))
        };
        let (new, applied) = (fits(nearest)?, fits(nearest - i128::from(old))?);
        Ok(Outcome::Changed(Value::Int(new), pair(Reply::Int(new), Reply::Int(applied))))
    }

    fn floats(
        &self,
        value: &Value,
        delta: &Blob,
        lower: Option<&Blob>,
        upper: Option<&Blob>,
    ) -> Result<Outcome, ErrorReply> {
        let old = if value.present() { value.bytes() } else { Blob::new(b"0") };
        if !parse_float(&old)?.is_finite() || !parse_float(delta)?.is_finite() {
            return Err(ErrorReply::err("value or increment would produce NaN or Infinity"));
        }
        let sum = add_float(&old, delta).map(Blob::from);
        let bound = match &sum {
            Some(sum) => beyond(sum, lower, upper)?,
            // The sum is beyond the largest float.
            None if parse_float(delta)? < 0.0 => {
                Some(lower.cloned().unwrap_or_else(|| limit(-1.0)))
            }
            None => Some(upper.cloned().unwrap_or_else(|| limit(1.0))),
        };
        if bound.is_some() && !self.saturate {
            return Ok(Outcome::Refused(pair(
                Reply::Double(parse_float(&old)?),
                Reply::Double(0.0),
            )));
        }
        let overflow = || ErrorReply::err("applied increment would overflow");
        let zero = Blob::new(b"0");
        let (new, applied) = match bound.or(sum) {
            Some(new) => {
                let applied = add_float(&new, &negated(&old)).ok_or_else(overflow)?;
                (add_float(&zero, &new).ok_or_else(overflow)?, applied)
            }
            None => return Err(overflow()),
        };
        let reply = pair(number(new.as_bytes())?, number(applied.as_bytes())?);
        Ok(Outcome::Changed(Value::new(Blob::from(new)), reply))
    }

    /// Carries out the increment.
    pub(super) fn apply(&self, value: &mut Value, ctx: &Ctx, meta: &mut Meta) -> Reply {
        match self.of(value) {
            Outcome::Changed(new, reply) => {
                *value = new;
                if !(self.only_without && meta.expire_at_ms.is_some()) {
                    value.expire(self.expiry, ctx, meta);
                }
                reply
            }
            Outcome::Refused(reply) => {
                meta.untouched = true;
                reply
            }
            Outcome::Failed(error) => Reply::Error(error),
        }
    }
}

fn pair(new: Reply, applied: Reply) -> Reply {
    Reply::Array(vec![new, applied])
}

fn number(text: &[u8]) -> Result<Reply, ErrorReply> {
    Ok(Reply::Double(parse_float(text)?))
}

/// The bound that a number is beyond.
fn beyond(
    number: &Blob,
    lower: Option<&Blob>,
    upper: Option<&Blob>,
) -> Result<Option<Blob>, ErrorReply> {
    let value = parse_float(number)?;
    if let Some(bound) = upper
        && value > parse_float(bound)?
    {
        return Ok(Some(bound.clone()));
    }
    match lower {
        Some(bound) if value < parse_float(bound)? => Ok(Some(bound.clone())),
        _ => Ok(None),
    }
}

fn limit(sign: f64) -> Blob {
    Blob::from(format_float(f64::MAX * sign))
}

fn negated(number: &Blob) -> Blob {
    match number.strip_prefix(b"-") {
        Some(rest) => Blob::new(rest),
        None => Blob::from([b"-", number.strip_prefix(b"+").unwrap_or(number)].concat()),
    }
}

/// Words of the command, before the kind of its numbers is known.
#[derive(Default)]
struct Words {
    by: Option<(bool, usize)>,
    lower: Option<usize>,
    upper: Option<usize>,
    saturate: bool,
    expiry: Option<Expiry>,
    only_without: bool,
}

pub(super) fn parse(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let mut words = Words::default();
    let mut i = 2;
    while i < args.len() {
        let with_number = i + 1 < args.len();
        let mut taken = 2;
        if with_number && words.by.is_none() && (args.is(i, "BYINT") || args.is(i, "BYFLOAT")) {
            words.by = Some((args.is(i, "BYFLOAT"), i + 1));
        } else if with_number && words.lower.is_none() && args.is(i, "LBOUND") {
            words.lower = Some(i + 1);
        } else if with_number && words.upper.is_none() && args.is(i, "UBOUND") {
            words.upper = Some(i + 1);
        } else if args.is(i, "SATURATE") {
            (words.saturate, taken) = (true, 1);
        } else if args.is(i, "ENX") {
            (words.only_without, taken) = (true, 1);
        } else if words.expiry.is_none() && args.is(i, "PERSIST") {
            (words.expiry, taken) = (Some(Expiry::Clear), 1);
        } else if with_number
            && words.expiry.is_none()
            && let Some(when) = super::table::expiry_option(args, i, "increx")?
        {
            words.expiry = Some(Expiry::Set(when));
        } else {
            return Err(ErrorReply::syntax());
        }
        i += taken;
    }
    match words.expiry {
        Some(Expiry::Set(_)) => {}
        Some(_) if words.only_without => return Err(ErrorReply::syntax()),
        None if words.only_without => {
            return Err(ErrorReply::err("ENX flag requires an expiration"));
        }
        _ => {}
    }
    let increment = Increment {
        by: bounds(args, &words)?,
        saturate: words.saturate,
        expiry: words.expiry.unwrap_or(Expiry::Keep),
        only_without: words.only_without,
    };
    Ok(Command::Single(args.blob(1)?, AnyOp::String(Op::Increment(Box::new(increment)))))
}

fn bounds(args: &Args<'_>, words: &Words) -> Result<By, ErrorReply> {
    let crossed = || ErrorReply::err("LBOUND can't be greater than UBOUND");
    let int = |at: Option<usize>, otherwise| at.map_or(Ok(otherwise), |at| args.int(at));
    let Some((true, at)) = words.by else {
        let delta = int(words.by.map(|(_, at)| at), 1)?;
        let (lower, upper) = (int(words.lower, i64::MIN)?, int(words.upper, i64::MAX)?);
        return if lower > upper { Err(crossed()) } else { Ok(By::Int { delta, lower, upper }) };
    };
    let number = |at: usize| args.float(at).and_then(|_| args.blob(at));
    let bound = |at: Option<usize>| at.map(number).transpose();
    let (delta, lower, upper) = (number(at)?, bound(words.lower)?, bound(words.upper)?);
    if let (Some(lower), Some(upper)) = (&lower, &upper)
        && parse_float(lower)? > parse_float(upper)?
    {
        return Err(crossed());
    }
    Ok(By::Float { delta, lower, upper })
}

pub(super) fn encode(increment: &Increment, out: &mut ArgBuf) {
    match &increment.by {
        By::Int { delta, lower, upper } => {
            out.push("byint").push_int(*delta);
            if *lower > i64::MIN {
                out.push("lbound").push_int(*lower);
            }
            if *upper < i64::MAX {
                out.push("ubound").push_int(*upper);
            }
        }
        By::Float { delta, lower, upper } => {
            out.push("byfloat").push(delta);
            for (name, bound) in [("lbound", lower), ("ubound", upper)] {
                if let Some(bound) = bound {
                    out.push(name).push(bound);
                }
            }
        }
    }
    if increment.saturate {
        out.push("saturate");
    }
    match increment.expiry {
        Expiry::Keep => {}
        Expiry::Clear => _ = out.push("persist"),
        Expiry::Set(when) => _ = super::table::encode_when(when, out),
    }
    if increment.only_without {
        out.push("enx");
    }
}
