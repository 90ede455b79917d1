//! Operations of `BITOP` on whole strings, with those of Redis 8.2.

use crate::{Args, Blob, ErrorReply};

/// An operation. What the longest string has behind a shorter one counts as zero there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bitop {
    And,
    Or,
    Xor,
    Not,
    /// Bits of the first string that no other has.
    Diff,
    /// Bits of others that the first string does not have.
    Diff1,
    /// Bits of the first string that another has.
    AndOr,
    /// Bits that exactly one string has.
    One,
}

const NAMES: [(&str, Bitop); 8] = [
    ("AND", Bitop::And),
    ("OR", Bitop::Or),
    ("XOR", Bitop::Xor),
    ("NOT", Bitop::Not),
    ("DIFF", Bitop::Diff),
    ("DIFF1", Bitop::Diff1),
    ("ANDOR", Bitop::AndOr),
    ("ONE", Bitop::One),
];

impl Bitop {
    /// Operation of a call, whose number of sources must fit.
    pub fn parse(args: &Args<'_>) -> Result<Self, ErrorReply> {
        let found = NAMES.into_iter().find(|(name, _)| args.is(1, name));
        let (name, bitop) = found.ok_or_else(ErrorReply::syntax)?;
        let sources = args.len().saturating_sub(3);
        match bitop {
            Self::Not if sources != 1 => {
                Err(ErrorReply::err("BITOP NOT must be called with a single source key."))
            }
            Self::Diff | Self::Diff1 | Self::AndOr if sources < 2 => {
                let text = format!("BITOP {name} must be called with at least two source keys.");
                Err(ErrorReply::err(text))
            }
            _ => Ok(bitop),
        }
    }

    /// The result, as long as the longest string.
    pub fn run(self, strings: &[Blob]) -> Vec<u8> {
        let Some((first, others)) = strings.split_first() else { return Vec::new() };
        let len = strings.iter().map(|string| string.len()).max().unwrap_or(0);
        let mut result = first.to_vec();
        result.resize(len, 0);
        let mut fold = |join: fn(u8, u8) -> u8| {
            others.iter().for_each(|other| merge(&mut result, other, join));
        };
        match self {
            Self::And => fold(|a, b| a & b),
            Self::Or => fold(|a, b| a | b),
            Self::Xor => fold(|a, b| a ^ b),
            Self::Not => result.iter_mut().for_each(|byte| *byte = !*byte),
            Self::Diff | Self::Diff1 | Self::AndOr => {
                let mut any = vec![0; len];
                others.iter().for_each(|other| merge(&mut any, other, |a, b| a | b));
                match self {
                    Self::Diff => merge(&mut result, &any, |first, any| first & !any),
                    Self::Diff1 => merge(&mut result, &any, |first, any| any & !first),
                    _ => merge(&mut result, &any, |first, any| first & any),
                }
            }
            Self::One => {
                let mut twice = vec![0; len];
                for other in others {
                    for ((seen, twice), byte) in result.iter_mut().zip(&mut twice).zip(&**other) {
                        *twice |= *seen & byte;
                        *seen |= byte;
                    }
                }
                merge(&mut result, &twice, |seen, twice| seen & !twice);
            }
        }
        result
    }
}

/// Joins each byte with that of another string, which may be shorter.
fn merge(into: &mut [u8], other: &[u8], join: impl Fn(u8, u8) -> u8) {
    let (both, rest) = into.split_at_mut(other.len());
    both.iter_mut().zip(other).for_each(|(byte, other)| *byte = join(*byte, *other));
    rest.iter_mut().for_each(|byte| *byte = join(*byte, 0));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgBuf;

    fn bitop(name: &str, sources: usize) -> Result<Bitop, ErrorReply> {
        let line = format!("bitop {name} target{}", " source".repeat(sources));
        Bitop::parse(&ArgBuf::of(line.split(' ')).args())
    }

    #[test]
    fn each_operation_is_that_of_its_name() {
        let strings: [&[u8]; 3] = [&[0b1111_0000, 3], &[0b1100_1100], &[0b1010_1010, 5, 1]];
        let strings = strings.map(Blob::new);
        for (name, result) in [
            ("and", [0b1000_0000, 0, 0]),
            ("or", [0b1111_1110, 7, 1]),
            ("xor", [0b1001_0110, 6, 1]),
            ("diff", [0b0001_0000, 2, 0]),
            ("diff1", [0b0000_1110, 4, 1]),
            ("andor", [0b1110_0000, 1, 0]),
            ("one", [0b0001_0110, 6, 1]),
        ] {
            assert_eq!(bitop(name, 3).unwrap().run(&strings), result, "{name}");
        }
        for (name, result) in [("not", 0b0000_1111), ("one", 0b1111_0000), ("and", 0b1111_0000)] {
            let alone = [Blob::new(&[0b1111_0000])];
            assert_eq!(bitop(name, 1).unwrap().run(&alone), [result], "{name}");
        }
    }

    #[test]
    fn operations_have_as_many_sources_as_they_need() {
        let error = |name, sources| bitop(name, sources).unwrap_err().text().to_owned();
        assert_eq!(error("nand", 1), "syntax error");
        assert_eq!(error("not", 2), "BITOP NOT must be called with a single source key.");
        for name in ["DIFF", "DIFF1", "ANDOR"] {
            let text = format!("BITOP {name} must be called with at least two source keys.");
            assert_eq!(error(name, 1), text);
        }
    }
}
