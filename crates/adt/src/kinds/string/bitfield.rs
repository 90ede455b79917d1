//! `BITFIELD`: integers of 1 to 64 bits at any place of a string.

use super::VALUE_BYTES_MAX;
use crate::{ArgBuf, Args, ErrorReply, Reply};
use std::ops::Range;

/// Width of an integer, and whether it has a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Whether the integer may be negative.
    pub signed: bool,
    /// Number of bits: 1 to 64 with a sign, 1 to 63 without.
    pub bits: u8,
}

/// Effect of a result that has no room in the integer's bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The low bits remain.
    #[default]
    Wrap,
    /// The nearest integer that has room.
    Saturate,
    /// Nothing is written, and the reply is nil.
    Fail,
}

/// Action on an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldAction {
    /// Answers the integer.
    Get,
    /// Replaces the integer; answers the old one.
    Set(i64, Overflow),
    /// Adds to the integer; answers the sum.
    Add(i64, Overflow),
}

/// Action on an integer at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Width and sign.
    pub encoding: Encoding,
    /// Position of the first bit.
    pub at: u64,
    /// Action.
    pub action: FieldAction,
}

impl Encoding {
    fn parse(word: &[u8]) -> Result<Self, ErrorReply> {
        let invalid = || {
            ErrorReply::err(
                "Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported \
                 but i64 is.",
            )
        };
        let (sign, digits) = word.split_first().ok_or_else(invalid)?;
        let signed = match sign {
            b'i' => true,
            b'u' => false,
            _ => return Err(invalid()),
        };
        let bits = crate::parse_int(digits).map_err(|_| invalid())?;
        let most = if signed { 64 } else { 63 };
        let bits = u8::try_from(bits).ok().filter(|bits| (1..=most).contains(bits));
        Ok(Self { signed, bits: bits.ok_or_else(invalid)? })
    }

    fn range(self) -> (i128, i128) {
        let all = 1_i128 << self.bits;
        if self.signed { (-(all / 2), all / 2 - 1) } else { (0, all - 1) }
    }

    /// The integer to write for a result; none if nothing is written.
    fn fit(self, result: i128, overflow: Overflow) -> Option<i64> {
        let (least, most) = self.range();
        let fits = (least..=most).contains(&result);
        let kept = match overflow {
            _ if fits => result,
            Overflow::Wrap => {
                let low = result & ((1 << self.bits) - 1);
                if low > most { low - (1 << self.bits) } else { low }
            }
            Overflow::Saturate => result.clamp(least, most),
            Overflow::Fail => return None,
        };
        Some(kept as i64)
    }

    fn read(self, bytes: &[u8], at: u64) -> i64 {
        let bit = |at: u64| {
            let byte = bytes.get((at / 8) as usize).copied().unwrap_or(0);
            u64::from(byte >> (7 - at % 8) & 1)
        };
        let value = (at..at + u64::from(self.bits)).fold(0, |value, at| value << 1 | bit(at));
        let unused = 64 - u32::from(self.bits);
        if self.signed { (value << unused) as i64 >> unused } else { value as i64 }
    }

    fn write(self, bytes: &mut [u8], at: u64, value: i64) {
        let end = at + u64::from(self.bits);
        for at in at..end {
            let mask = 0x80 >> (at % 8);
            let byte = &mut bytes[(at / 8) as usize];
            if value >> (end - 1 - at) & 1 == 1 { *byte |= mask } else { *byte &= !mask }
        }
    }
}

impl Field {
    fn run(&self, bytes: &mut [u8]) -> Reply {
        let old = self.encoding.read(bytes, self.at);
        let (result, overflow) = match self.action {
            FieldAction::Get => return Reply::Int(old),
            FieldAction::Set(value, overflow) if self.encoding.signed => {
                (i128::from(value), overflow)
            }
            // A negative number is a large one here, as in Redis.
            FieldAction::Set(value, overflow) => (i128::from(value as u64), overflow),
            FieldAction::Add(by, overflow) => (i128::from(old) + i128::from(by), overflow),
        };
        let Some(new) = self.encoding.fit(result, overflow) else { return Reply::Nil };
        self.encoding.write(bytes, self.at, new);
        Reply::Int(if matches!(self.action, FieldAction::Set(..)) { old } else { new })
    }
}

/// Carries the actions out one after the other. The string reaches to the last bit that one of them writes,
/// as in Redis, even if there is no room for the result and nothing is written.
pub(super) fn run(bytes: &mut Vec<u8>, fields: &[Field]) -> Reply {
    let written = fields.iter().filter(|field| field.action != FieldAction::Get);
    let end = written.map(|field| field.at + u64::from(field.encoding.bits)).max();
    let len = end.map_or(0, |end| end.div_ceil(8) as usize);
    if bytes.len() < len {
        bytes.resize(len, 0);
    }
    Reply::Array(fields.iter().map(|field| field.run(bytes)).collect())
}

/// Whether one of the actions may change the string.
pub(super) fn writes(fields: &[Field]) -> bool {
    fields.iter().any(|field| field.action != FieldAction::Get)
}

/// Bits from the first to the last that the actions read or change.
pub(super) fn span(fields: &[Field]) -> Option<Range<u64>> {
    let first = fields.iter().map(|field| field.at).min()?;
    let end = fields.iter().map(|field| field.at + u64::from(field.encoding.bits)).max()?;
    Some(first..end)
}

/// The actions of `BITFIELD` from the third word on, or of `BITFIELD_RO`.
pub(super) fn parse(args: &Args<'_>, only_reads: bool) -> Result<Vec<Field>, ErrorReply> {
    let mut fields = Vec::new();
    let mut overflow = Overflow::default();
    let mut i = 2;
    while i < args.len() {
        let words = args.len() - i;
        if args.is(i, "OVERFLOW") && words >= 2 {
            overflow = match () {
                () if args.is(i + 1, "WRAP") => Overflow::Wrap,
                () if args.is(i + 1, "SAT") => Overflow::Saturate,
                () if args.is(i + 1, "FAIL") => Overflow::Fail,
                () => return Err(ErrorReply::err("Invalid OVERFLOW type specified")),
            };
            i += 2;
            continue;
        }
        let is_get = args.is(i, "GET") && words >= 3;
        let is_set = args.is(i, "SET") && words >= 4;
        let is_add = args.is(i, "INCRBY") && words >= 4;
        if !(is_get || is_set || is_add) {
            return Err(ErrorReply::syntax());
        }
        let encoding = Encoding::parse(args.get(i + 1).unwrap_or_default())?;
        let at = offset(args.get(i + 2).unwrap_or_default(), encoding)?;
        if only_reads && !is_get {
            return Err(ErrorReply::err("BITFIELD_RO only supports the GET subcommand"));
        }
        let action = match () {
            () if is_get => FieldAction::Get,
            () if is_set => FieldAction::Set(args.int(i + 3)?, overflow),
            () => FieldAction::Add(args.int(i + 3)?, overflow),
        };
        fields.push(Field { encoding, at, action });
        i += if is_get { 3 } else { 4 };
    }
    Ok(fields)
}

/// A position in bits, or behind `#` in integers of this width.
fn offset(word: &[u8], encoding: Encoding) -> Result<u64, ErrorReply> {
    let (digits, unit) = match word.strip_prefix(b"#") {
        Some(digits) => (digits, u64::from(encoding.bits)),
        None => (word, 1),
    };
    let at = crate::parse_int(digits).ok().and_then(|at| u64::try_from(at).ok());
    let at = at.and_then(|at| at.checked_mul(unit));
    let most = VALUE_BYTES_MAX as u64 * 8 - u64::from(encoding.bits);
    at.filter(|at| *at <= most)
        .ok_or_else(|| ErrorReply::err("bit offset is not an integer or out of range"))
}

/// Writes the words that [`parse`] reads back as the same actions.
pub(super) fn encode(fields: &[Field], out: &mut ArgBuf) {
    for Field { encoding: Encoding { signed, bits }, at, action } in fields {
        let overflow = match action {
            FieldAction::Get => None,
            FieldAction::Set(_, overflow) | FieldAction::Add(_, overflow) => Some(*overflow),
        };
        if let Some(overflow) = overflow {
            out.push("overflow").push(match overflow {
                Overflow::Wrap => "wrap",
                Overflow::Saturate => "sat",
                Overflow::Fail => "fail",
            });
        }
        let sign = if *signed { 'i' } else { 'u' };
        let (name, value) = match action {
            FieldAction::Get => ("get", None),
            FieldAction::Set(value, _) => ("set", Some(*value)),
            FieldAction::Add(by, _) => ("incrby", Some(*by)),
        };
        out.push(name).push(format!("{sign}{bits}")).push_int(*at as i64);
        value.into_iter().for_each(|value| _ = out.push_int(value));
    }
}
