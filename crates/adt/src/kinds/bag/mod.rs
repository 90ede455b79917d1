//! Bag: a summary of numbers (count, sum, mean, minimum, maximum, variance), not the numbers.
//!
//! Numbers are decimal fractions with up to nine digits after the point, and sums of them and of
//! their squares are exact. The order of additions is therefore never visible and adds always
//! commute, which floating-point sums would not. An add and a read of the minimum or maximum
//! commute if the number already lies between both; this stays true, because nothing is ever
//! removed.

mod wide;

use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags,
    Forecast, Keys, Meta, Op as AnyOp, Reply, ValueSink, ValueSource,
};
use smallvec::SmallVec;
use wide::Wide;

/// A number in units of 1e-9.
pub type Units = i128;

/// Numbers of one operation; one is the usual number of them.
pub type Numbers = SmallVec<[Units; 1]>;

/// Units of the number 1.
const ONE: Units = 1_000_000_000;

/// Largest absolute value of a number: 1e12. The sum stays exact for 1e17 of them.
pub const NUMBER_MAX: Units = 1_000_000_000_000 * ONE;

/// Most numbers that [`DataType::combine`] gathers in one operation.
const COMBINED_MAX: usize = 1024;

/// The state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    count: u64,
    sum: Units,
    /// Sum of the squares, in units of 1e-18.
    squares: Wide,
    /// Smallest and largest number.
    ends: Option<(Units, Units)>,
}

/// Operations on a bag.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Adds numbers; answers `OK`.
    Add(Numbers),
    /// How many numbers were added.
    Count,
    /// Exact sum of the numbers.
    Sum,
    /// Mean of the numbers, nil if there are none.
    Mean,
    /// Smallest number, nil if there are none.
    Min,
    /// Largest number, nil if there are none.
    Max,
    /// Count, sum, mean, minimum, maximum and variance.
    Stats,
}

/// Reads a decimal fraction: an optional sign, digits, and up to nine digits after a point.
fn parse_units(word: &[u8]) -> Option<Units> {
    let (negative, digits) = match word {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, word),
    };
    let point = digits.iter().position(|b| *b == b'.');
    let (whole, fraction) = match point {
        Some(at) => (&digits[..at], &digits[at + 1..]),
        None => (digits, &digits[..0]),
    };
    if whole.is_empty()
        || whole.len() > 13
        || fraction.len() > 9
        || fraction.is_empty() != point.is_none()
    {
        return None;
    }
    let mut units: Units = 0;
    for digit in whole.iter().chain(fraction) {
        if !digit.is_ascii_digit() {
            return None;
        }
        units = units * 10 + Units::from(digit - b'0');
    }
    units *= Units::from(10_u32.pow(9 - fraction.len() as u32));
    (units <= NUMBER_MAX).then_some(if negative { -units } else { units })
}

/// A number in its shortest decimal form.
fn format_units(units: Units) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let (whole, fraction) =
        (units.unsigned_abs() / 1_000_000_000, units.unsigned_abs() % 1_000_000_000);
    let text = format!("{sign}{whole}.{fraction:09}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn decimal(units: Units) -> Reply {
    Reply::bulk(format_units(units))
}

impl Value {
    fn add(&mut self, number: Units) {
        // Wrapping is associative; it matters only beyond the number of adds for which the sum is
        // exact.
        self.count = self.count.wrapping_add(1);
        self.sum = self.sum.wrapping_add(number);
        self.squares = self.squares.plus(Wide::square(number.unsigned_abs()));
        let (min, max) = self.ends.unwrap_or((number, number));
        self.ends = Some((min.min(number), max.max(number)));
    }

    /// The mean in units. Whole units and the remainder are divided separately, so that adding the
    /// mean itself does not move the result by a rounding.
    fn mean(&self) -> Option<f64> {
        let count = Units::from(self.count);
        let whole = self.sum.checked_div_euclid(count)?;
        let rest = self.sum.checked_rem_euclid(count)?;
        Some(whole as f64 + rest as f64 / count as f64)
    }

    fn mean_reply(&self) -> Reply {
        self.mean().map_or(Reply::Nil, |mean| Reply::Double(mean / ONE as f64))
    }

    fn end(&self, of: fn((Units, Units)) -> Units) -> Reply {
        self.ends.map_or(Reply::Nil, |ends| decimal(of(ends)))
    }

    /// The variance of the whole population: (n * sum of squares - square of the sum) / n^2, with
    /// an exact numerator, so that nothing cancels out.
    fn variance(&self) -> Reply {
        if self.count == 0 {
            return Reply::Nil;
        }
        let count = self.count as f64;
        let square = Wide::square(self.sum.unsigned_abs());
        let numerator = self.squares.times(self.count).minus(square).to_f64();
        Reply::Double(numerator / count / count / 1e18)
    }

    fn stats(&self) -> Reply {
        let row = |name: &str, reply| (Reply::bulk(name), reply);
        Reply::Map(vec![
            row("count", Reply::Int(self.count as i64)),
            row("sum", decimal(self.sum)),
            row("mean", self.mean_reply()),
            row("min", self.end(|e| e.0)),
            row("max", self.end(|e| e.1)),
            row("variance", self.variance()),
        ])
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "bag";
    const FORECAST: Option<Forecast<Self, Op>> =
        Some(Forecast { reply: |_, _, _| Some(Reply::Ok), is_always_possible: |_| true });
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["read", "add"];
    const SHARED: [u8; 8] = [0b1, 0b10, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Add(_))
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        match op {
            Op::Count => Reply::Int(self.count as i64),
            Op::Sum => decimal(self.sum),
            Op::Mean => self.mean_reply(),
            Op::Min => self.end(|e| e.0),
            Op::Max => self.end(|e| e.1),
            Op::Stats => self.stats(),
            Op::Add(_) => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, _meta: &mut Meta) -> Reply {
        match op {
            Op::Add(numbers) => {
                numbers.iter().for_each(|number| self.add(*number));
                Reply::Ok
            }
            read => self.query(read, ctx),
        }
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let ((Op::Add(numbers), read) | (read, Op::Add(numbers))) = (a.op, b.op) else {
            return true;
        };
        match read {
            Op::Add(_) => true,
            Op::Count | Op::Stats => false,
            Op::Sum => numbers.iter().sum::<Units>() == 0,
            Op::Mean => {
                let count = Units::from(self.count);
                let is_mean = |n: &Units| n.checked_mul(count) == Some(self.sum);
                count > 0 && numbers.iter().all(is_mean)
            }
            Op::Min => self.ends.is_some_and(|ends| numbers.iter().all(|n| *n >= ends.0)),
            Op::Max => self.ends.is_some_and(|ends| numbers.iter().all(|n| *n <= ends.1)),
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        match (earlier, next) {
            (Op::Add(a), Op::Add(b)) if a.len() + b.len() <= COMBINED_MAX => {
                Some(Op::Add(a.iter().chain(b).copied().collect()))
            }
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        let name = match op {
            Op::Add(_) => "bag.add",
            Op::Count => "bag.count",
            Op::Sum => "bag.sum",
            Op::Mean => "bag.mean",
            Op::Min => "bag.min",
            Op::Max => "bag.max",
            Op::Stats => "bag.stats",
        };
        out.push(name).push(key);
        if let Op::Add(numbers) = op {
            for number in numbers {
                out.push(format_units(*number));
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        let mut number = |n: i128| {
            sink.number(n as u64);
            sink.number((n >> 64) as u64);
        };
        let (min, max) = self.ends.unwrap_or_default();
        number(self.sum);
        number(min);
        number(max);
        sink.number(self.count);
        self.squares.0.into_iter().for_each(|limb| sink.number(limb));
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let mut number = || -> Result<i128, Corrupt> {
            let low = source.number()?;
            let high = source.number()?;
            Ok((u128::from(low) | u128::from(high) << 64) as i128)
        };
        let (sum, min, max) = (number()?, number()?, number()?);
        let count = source.number()?;
        let mut squares = Wide::default();
        for limb in &mut squares.0 {
            *limb = source.number()?;
        }
        let bounded = -NUMBER_MAX <= min && min <= max && max <= NUMBER_MAX;
        if count == 0 || !bounded {
            return Err(Corrupt);
        }
        Ok(Self { count, sum, squares, ends: Some((min, max)) })
    }
}

fn one(args: &Args<'_>, op: Op) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, AnyOp::Bag(op)))
}

fn parse_add(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let numbers = args.iter_from(2).map(parse_units).collect::<Option<_>>().ok_or_else(|| {
        ErrorReply::err(
            "a number must be decimal, within 1e12 of 0, with up to 9 digits after the point",
        )
    })?;
    one(args, Op::Add(numbers))
}

const READ: Flags = Flags::READ.and(Flags::FAST);

const COMMANDS: &[CommandSpec] = commands! { "bag";
    ("bag.add", -3, Flags::WRITE.and(Flags::GROWS).and(Flags::FAST), Keys::ONE,
        "Adds numbers to a summary.", "key number [number ...]", "O(1) per number") =>
        parse_add;
    ("bag.count", 2, READ, Keys::ONE,
        "Returns how many numbers were added.", "key", "O(1)") =>
        |a| one(a, Op::Count);
    ("bag.sum", 2, READ, Keys::ONE,
        "Returns the exact sum of the numbers.", "key", "O(1)") =>
        |a| one(a, Op::Sum);
    ("bag.mean", 2, READ, Keys::ONE,
        "Returns the mean of the numbers.", "key", "O(1)") =>
        |a| one(a, Op::Mean);
    ("bag.min", 2, READ, Keys::ONE,
        "Returns the smallest number.", "key", "O(1)") =>
        |a| one(a, Op::Min);
    ("bag.max", 2, READ, Keys::ONE,
        "Returns the largest number.", "key", "O(1)") =>
        |a| one(a, Op::Max);
    ("bag.stats", 2, READ, Keys::ONE,
        "Returns count, sum, mean, minimum, maximum and variance of the numbers.", "key", "O(1)") =>
        |a| one(a, Op::Stats);
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws;

    fn add(words: &str) -> Op {
        Op::Add(words.split(' ').map(|w| parse_units(w.as_bytes()).expect("a number")).collect())
    }

    fn samples() -> Vec<Op> {
        let mut ops: Vec<Op> = ["0", "1", "-0.1", "0.2", "2 -2", "0.1"].map(add).to_vec();
        ops.extend([Op::Count, Op::Sum, Op::Mean, Op::Min, Op::Max, Op::Stats]);
        ops
    }

    #[test]
    fn laws_hold() {
        laws::check_laws::<Value>(&samples(), 3);
    }

    #[test]
    fn decimal_fractions_read_back_and_others_are_refused() {
        for (word, text) in [
            ("0", "0"),
            ("-0", "0"),
            ("+1.50", "1.5"),
            ("-0.000000001", "-0.000000001"),
            ("1000000000000", "1000000000000"),
            ("007", "7"),
            ("-12.340", "-12.34"),
        ] {
            assert_eq!(parse_units(word.as_bytes()).map(format_units).as_deref(), Some(text));
        }
        for word in [
            "",
            "-",
            ".5",
            "5.",
            "1e3",
            "1.0000000001",
            "1000000000000.000000001",
            "x",
            "--1",
            "1.2.3",
            "10000000000000",
            "nan",
        ] {
            assert_eq!(parse_units(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn statistics_are_exact() {
        let bulk = |text: &str| Reply::bulk(text);
        laws::dialogue(&[
            ("bag.sum k", bulk("0")),
            ("bag.mean k", Reply::Nil),
            ("bag.min k", Reply::Nil),
            ("bag.add k 0.1 0.2", Reply::Ok),
            ("bag.sum k", bulk("0.3")),
            ("bag.add k 1000000000000 -1000000000000", Reply::Ok),
            ("bag.sum k", bulk("0.3")),
            ("bag.mean k", Reply::Double(0.075)),
            ("bag.min k", bulk("-1000000000000")),
            ("bag.max k", bulk("1000000000000")),
            ("bag.count k", Reply::Int(4)),
            (
                "bag.add k 1 x",
                Reply::err(
                    "a number must be decimal, within 1e12 of 0, with up to 9 digits after the point",
                ),
            ),
        ]);
    }

    #[test]
    fn the_variance_does_not_cancel_out() {
        let mut value = Value::default();
        for number in ["999999999999.000000001", "999999999999.000000003"] {
            value.apply(&add(number), &Ctx::default(), &mut Meta::default());
        }
        let Reply::Double(variance) = value.variance() else { panic!("a number") };
        assert!((variance / 1e-18 - 1.0).abs() < 1e-12, "{variance}");
        assert_eq!(Value::default().variance(), Reply::Nil);
    }
}
