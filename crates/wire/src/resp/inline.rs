//! Inline commands: lines of words, with quotes, as an operator types them.

use super::request::ProtocolError;

/// Splits a line into words by the rules of Redis: words are separated by white space; `"..."`
/// knows `\n \r \t \b \a \xNN` and takes any other character after a backslash as it is; `'...'`
/// knows `\'` only; a closing quote ends its word. The words are appended to `words`, their bounds
/// to `spans`.
pub(super) fn split(
    line: &[u8],
    words: &mut Vec<u8>,
    spans: &mut Vec<(u32, u32)>,
) -> Result<(), ProtocolError> {
    let mut at = 0;
    loop {
        while line.get(at).is_some_and(|b| is_space(*b)) {
            at += 1;
        }
        if at == line.len() {
            return Ok(());
        }
        let start = words.len() as u32;
        at = word(line, at, words)?;
        spans.push((start, words.len() as u32));
    }
}

/// Reads the word that begins at `at`; returns the offset after it.
fn word(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match line.get(at) {
            None => return Ok(at),
            Some(b) if is_space(*b) => return Ok(at),
            Some(b'"') => {
                at = double_quoted(line, at + 1, words)?;
                return closed(line, at);
            }
            Some(b'\'') => {
                at = single_quoted(line, at + 1, words)?;
                return closed(line, at);
            }
            Some(byte) => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

/// Checks that a closing quote is followed by white space or the end.
fn closed(line: &[u8], at: usize) -> Result<usize, ProtocolError> {
    if line.get(at).is_none_or(|b| is_space(*b)) {
        Ok(at)
    } else {
        Err(ProtocolError::UnbalancedQuotes)
    }
}

fn double_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match &line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'"', ..] => return Ok(at + 1),
            [b'\\', b'x', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                words.push(hex(*high) << 4 | hex(*low));
                at += 4;
            }
            [b'\\', escaped, ..] => {
                words.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                at += 2;
            }
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn single_quoted(line: &[u8], mut at: usize, words: &mut Vec<u8>) -> Result<usize, ProtocolError> {
    loop {
        match &line[at..] {
            [] => return Err(ProtocolError::UnbalancedQuotes),
            [b'\'', ..] => return Ok(at + 1),
            [b'\\', b'\'', ..] => {
                words.push(b'\'');
                at += 2;
            }
            [byte, ..] => {
                words.push(*byte);
                at += 1;
            }
        }
    }
}

fn hex(digit: u8) -> u8 {
    (digit as char).to_digit(16).unwrap_or(0) as u8
}

/// Whether C's `isspace` holds for the byte.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
