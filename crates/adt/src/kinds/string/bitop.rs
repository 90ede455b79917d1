//! Operations of `BITOP` on the bytes of strings, with those of Redis 8.2.

use crate::{Args, ErrorReply};

/// Combines a byte of the first string with those of the others.
pub(super) type Join = fn(u8, &mut dyn Iterator<Item = u8>) -> u8;

fn any(others: &mut dyn Iterator<Item = u8>) -> u8 {
    others.fold(0, |a, b| a | b)
}

/// Bits that exactly one of the bytes has.
fn one(first: u8, others: &mut dyn Iterator<Item = u8>) -> u8 {
    let (seen, twice) = others.fold((first, 0), |(seen, twice), b| (seen | b, twice | seen & b));
    seen & !twice
}

/// Operation of a call, whose number of sources must fit.
pub(super) fn parse(args: &Args<'_>) -> Result<Join, ErrorReply> {
    let operations: [(&str, Join); 8] = [
        ("AND", |first, others| others.fold(first, |a, b| a & b)),
        ("OR", |first, others| first | any(others)),
        ("XOR", |first, others| others.fold(first, |a, b| a ^ b)),
        ("NOT", |first, _| !first),
        ("DIFF", |first, others| first & !any(others)),
        ("DIFF1", |first, others| any(others) & !first),
        ("ANDOR", |first, others| first & any(others)),
        ("ONE", one),
    ];
    let found = operations.into_iter().find(|(name, _)| args.is(1, name));
    let (name, join) = found.ok_or_else(ErrorReply::syntax)?;
    let sources = args.len().saturating_sub(3);
    if name == "NOT" && sources != 1 {
        return Err(ErrorReply::err("BITOP NOT must be called with a single source key."));
    }
    if ["DIFF", "DIFF1", "ANDOR"].contains(&name) && sources < 2 {
        let text = format!("BITOP {name} must be called with at least two source keys.");
        return Err(ErrorReply::err(text));
    }
    Ok(join)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ArgBuf;

    fn joined(name: &str, bytes: &[u8]) -> u8 {
        let line = format!("bitop {name} target{}", " source".repeat(bytes.len()));
        let join = parse(&ArgBuf::of(line.split(' ')).args()).unwrap();
        join(bytes[0], &mut bytes[1..].iter().copied())
    }

    #[test]
    fn each_operation_is_that_of_its_name() {
        let bytes = [0b1111_0000, 0b1100_1100, 0b1010_1010];
        for (name, result) in [
            ("and", 0b1000_0000),
            ("or", 0b1111_1110),
            ("xor", 0b1001_0110),
            ("diff", 0b0001_0000),
            ("diff1", 0b0000_1110),
            ("andor", 0b1110_0000),
            ("one", 0b0001_0110),
        ] {
            assert_eq!(joined(name, &bytes), result, "{name}");
        }
        assert_eq!(joined("NOT", &[0b1111_0000]), 0b0000_1111);
        assert_eq!(joined("one", &[5]), 5);
        assert_eq!(joined("and", &[5]), 5);
    }

    #[test]
    fn operations_have_as_many_sources_as_they_need() {
        let error = |line: &str| match parse(&ArgBuf::of(line.split(' ')).args()) {
            Err(error) => error.text().to_owned(),
            Ok(_) => panic!("{line} is in order"),
        };
        assert_eq!(error("bitop nand t a"), "syntax error");
        assert_eq!(error("bitop not t a b"), "BITOP NOT must be called with a single source key.");
        for name in ["DIFF", "DIFF1", "ANDOR"] {
            let text = format!("BITOP {name} must be called with at least two source keys.");
            assert_eq!(error(&format!("bitop {name} t a")), text);
        }
    }
}
