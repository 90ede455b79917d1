//! A gauge: how many measurements there were, their sum, the smallest and the largest one.
//!
//! Measurements commute: their order changes nothing, so any number of transactions add them at the same
//! time. A transaction that has looked at a gauge excludes those that would add to it.

use adt::extension::op;
use adt::{
    Access, ArgBuf, Args, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply, Flags, Keys,
    Meta, Reply, ValueSink, ValueSource, commands, parse_int,
};

/// The state: a summary of all measurements.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gauge {
    count: u64,
    /// Of integers of 64 bits; it wraps, so that the order of additions never shows.
    sum: i64,
    smallest: i64,
    largest: i64,
}

/// Largest count, which words of commands hold.
const COUNT_MAX: u64 = i64::MAX as u64;

/// Operations on a gauge.
#[derive(Clone, Debug, PartialEq)]
pub enum GaugeOp {
    /// Adds measurements.
    Add(Gauge),
    /// Count, sum, smallest and largest measurement.
    Show,
}

impl Gauge {
    /// The gauge of one measurement.
    fn of(number: i64) -> Self {
        Self { count: 1, sum: number, smallest: number, largest: number }
    }

    fn add(&mut self, other: &Self) {
        if self.count == 0 {
            *self = other.clone();
            return;
        }
        self.count = self.count.saturating_add(other.count).min(COUNT_MAX);
        self.sum = self.sum.wrapping_add(other.sum);
        self.smallest = self.smallest.min(other.smallest);
        self.largest = self.largest.max(other.largest);
    }
}

/// The commands. The words of `gauge.merge` are also those of the log.
const COMMANDS: &[CommandSpec] = commands! { "gauge";
    ("gauge.add", 3, Flags::WRITE.and(Flags::GROWS).and(Flags::FAST), Keys::ONE,
        "Adds a measurement.", "key integer", "O(1)") => parse_add;
    ("gauge.merge", 6, Flags::WRITE.and(Flags::GROWS).and(Flags::FAST), Keys::ONE,
        "Adds measurements that were summed elsewhere.", "key count sum smallest largest", "O(1)") =>
        parse_merge;
    ("gauge.show", 2, Flags::READ.and(Flags::FAST), Keys::ONE,
        "Answers count, sum, smallest and largest measurement.", "key", "O(1)") => parse_show;
};

fn single(args: &Args<'_>, called: GaugeOp) -> Result<Command, ErrorReply> {
    Ok(Command::Single(args.blob(1)?, op::<Gauge>(called)))
}

fn number(args: &Args<'_>, at: usize) -> Result<i64, ErrorReply> {
    parse_int(args.get(at).unwrap_or_default())
}

fn parse_add(args: &Args<'_>) -> Result<Command, ErrorReply> {
    single(args, GaugeOp::Add(Gauge::of(number(args, 2)?)))
}

fn parse_merge(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let count = u64::try_from(number(args, 2)?).ok().filter(|count| *count > 0);
    let count = count.ok_or_else(|| ErrorReply::err("the count is a positive number"))?;
    let (sum, smallest, largest) = (number(args, 3)?, number(args, 4)?, number(args, 5)?);
    if smallest > largest {
        return Err(ErrorReply::err("the smallest measurement is larger than the largest"));
    }
    single(args, GaugeOp::Add(Gauge { count, sum, smallest, largest }))
}

fn parse_show(args: &Args<'_>) -> Result<Command, ErrorReply> {
    single(args, GaugeOp::Show)
}

impl DataType for Gauge {
    type Op = GaugeOp;
    const NAME: &'static str = "gauge";
    const COMMANDS: &'static [CommandSpec] = COMMANDS;

    /// Mode 0 looks, mode 1 adds. Each shares with itself: bit 0 for mode 0, bit 1 for mode 1.
    const MODES: &'static [&'static str] = &["show", "add"];
    const SHARED: [u8; 8] = [0b01, 0b10, 0, 0, 0, 0, 0, 0];

    fn mode(access: Access<'_, GaugeOp>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn commutes(&self, a: Access<'_, GaugeOp>, b: Access<'_, GaugeOp>) -> bool {
        Self::is_write(a.op) == Self::is_write(b.op)
    }

    fn is_write(op: &GaugeOp) -> bool {
        matches!(op, GaugeOp::Add(_))
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn creates(op: &GaugeOp) -> bool {
        Self::is_write(op)
    }

    fn preserves_key(_: &GaugeOp) -> bool {
        true
    }

    fn query(&self, _: &GaugeOp, _: &Ctx) -> Reply {
        let count = self.count.min(COUNT_MAX).cast_signed();
        Reply::Array([count, self.sum, self.smallest, self.largest].map(Reply::Int).to_vec())
    }

    fn apply(&mut self, op: &GaugeOp, _: &Ctx, _: &mut Meta) -> Reply {
        if let GaugeOp::Add(more) = op {
            self.add(more);
        }
        Reply::Ok
    }

    fn combine(earlier: &GaugeOp, next: &GaugeOp) -> Option<GaugeOp> {
        let (GaugeOp::Add(earlier), GaugeOp::Add(next)) = (earlier, next) else { return None };
        let mut both = earlier.clone();
        both.add(next);
        Some(GaugeOp::Add(both))
    }

    fn encode(op: &GaugeOp, key: &[u8], out: &mut ArgBuf) {
        match op {
            GaugeOp::Show => _ = out.push("gauge.show").push(key),
            GaugeOp::Add(Self { count, sum, smallest, largest }) => {
                out.push("gauge.merge").push(key).push(count.to_string());
                [sum, smallest, largest]
                    .into_iter()
                    .for_each(|number| _ = out.push(number.to_string()));
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.count);
        [self.sum, self.smallest, self.largest]
            .into_iter()
            .for_each(|n| sink.number(n.cast_unsigned()));
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = source.number()?;
        let mut next = || source.number().map(u64::cast_signed);
        let (sum, smallest, largest) = (next()?, next()?, next()?);
        if !(1..=COUNT_MAX).contains(&count) || smallest > largest {
            Err(Corrupt)
        } else {
            Ok(Self { count, sum, smallest, largest })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::laws::{check_laws, dialogue};

    #[test]
    fn the_laws_hold() {
        adt::extension::register::<Gauge>().expect("it can be added");
        let add = |number| GaugeOp::Add(Gauge::of(number));
        check_laws::<Gauge>(&[add(1), add(-7), add(i64::MAX), GaugeOp::Show], 3);
    }

    #[test]
    fn a_gauge_sums_up_what_it_was_given() {
        adt::extension::register::<Gauge>().expect("it can be added");
        let shown = |numbers: [i64; 4]| Reply::Array(numbers.map(Reply::Int).to_vec());
        let refused = |text: &'static str| Reply::Error(ErrorReply::err(text));
        dialogue(&[
            ("gauge.show k", shown([0, 0, 0, 0])),
            ("gauge.add k 5", Reply::Ok),
            ("gauge.add k -2", Reply::Ok),
            ("gauge.show k", shown([2, 3, -2, 5])),
            ("gauge.merge k 3 30 9 11", Reply::Ok),
            ("gauge.show k", shown([5, 33, -2, 11])),
            ("gauge.merge k 0 0 0 0", refused("the count is a positive number")),
            (
                "gauge.merge k 2 0 1 0",
                refused("the smallest measurement is larger than the largest"),
            ),
            ("gauge.add k much", refused("value is not an integer or out of range")),
            ("get k", Reply::Error(ErrorReply::wrong_type())),
        ]);
    }
}
