//! Histories in a form for people: a dialogue of processes with the store.
//!
//! One step per line; each line happens one microsecond after the one before it.
//!
//! ```text
//! p0 > set x 1 | get y         process 0 invokes a transaction of two commands
//! p0 < OK | nil @5             it committed with these replies at timestamp 5
//! p1 : get x -> 1 @6           invoked and committed in one step (two instants)
//! p1 > set x 2
//! p1 !                         it failed: no effect
//! p2 > set x 3
//! p2 ?                         outcome unknown; `p2 ? @7` if its timestamp is known
//! p3#1 > incr n                place 1 in the issue order of process 3
//! ```
//!
//! Replies: `nil`, integers, floats, words, `"quoted text"`, `[a b]`, `{field value}`,
//! `!CODE_text` for errors, `_` for an unknown reply. Without replies all of them are unknown.
//! `@5.2` is timestamp 5 with tie 2. `#` at the start of a line begins a comment, and
//! `bank TOTAL key key ...` names accounts whose sum never changes.

use crate::history::{Bank, Event, EventKind, History, HistoryError, Word};
use crate::value::Value;

/// Nested replies in a dialogue are at most this deep.
const DEPTH_MAX: usize = 8;

/// Reads a dialogue.
///
/// # Errors
/// The first line that is not a step, or that does not fit the ones before it.
pub fn parse(text: &str) -> Result<History, HistoryError> {
    let mut events = Vec::new();
    let mut lines = Vec::new();
    let mut bank = None;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |reason: String| HistoryError { line: index + 1, reason };
        if let Some(rest) = line.strip_prefix("bank ") {
            bank = Some(parse_bank(rest).map_err(at)?);
            continue;
        }
        let time_us = 2 * (index as u64 + 1);
        let step = parse_step(line, time_us).map_err(at)?;
        lines.resize(lines.len() + step.len(), index + 1);
        events.extend(step);
    }
    let mut history = History::from_events(events).map_err(|mut error| {
        error.line = lines[error.line - 1];
        error
    })?;
    history.bank = bank;
    Ok(history)
}

fn parse_bank(text: &str) -> Result<Bank, String> {
    let mut words = text.split_whitespace();
    let total = words.next().and_then(|word| word.parse().ok());
    let total = total.ok_or("bank needs a total and the accounts")?;
    Ok(Bank { total, accounts: words.map(|word| word.as_bytes().to_vec()).collect() })
}

fn parse_step(line: &str, time_us: u64) -> Result<Vec<Event>, String> {
    const FORM: &str = "a step is `p0 > commands`, `p0 < replies @ts`, `p0 : command -> reply`, \
                        `p0 !` or `p0 ?`";
    let (who, rest) = line.split_once(' ').ok_or(FORM)?;
    let (process, session_seq) = match who.split_once('#') {
        Some((process, seq)) => (process, Some(seq.parse().map_err(|_| FORM)?)),
        None => (who, None),
    };
    let process = process.strip_prefix('p').and_then(|digits| digits.parse().ok()).ok_or(FORM)?;
    let (sign, rest) = rest.split_at_checked(1).ok_or(FORM)?;
    let event = |kind, time_us| Event { session_seq, ..Event::new(process, kind, time_us) };
    let (body, ts, tie) = timestamp(rest.trim())?;
    let mut end = match sign {
        "<" | ":" => event(EventKind::Ok, time_us),
        "!" => event(EventKind::Fail, time_us),
        "?" => event(EventKind::Info, time_us),
        ">" => event(EventKind::Invoke, time_us),
        _ => return Err(FORM.to_owned()),
    };
    (end.ts, end.tie) = (ts, tie);
    let parts = split(&tokens(body)?, "|");
    match sign {
        ">" => end.txn = parts.iter().map(|part| words(part)).collect::<Result<_, _>>()?,
        ":" => {
            let mut begin = event(EventKind::Invoke, time_us);
            end.time_us += 1;
            for part in &parts {
                let sides = split(part, "->");
                begin.txn.push(words(&sides[0])?);
                end.replies.push(match sides.get(1) {
                    Some(reply) => replied(reply)?,
                    None => None,
                });
            }
            return Ok(vec![begin, end]);
        }
        _ if body.is_empty() => {}
        _ => end.replies = parts.iter().map(|part| replied(part)).collect::<Result<_, _>>()?,
    }
    Ok(vec![end])
}

type Stamped<'a> = (&'a str, Option<u64>, Option<u64>);

/// Cuts `@ts` or `@ts.tie` off the end.
fn timestamp(text: &str) -> Result<Stamped<'_>, String> {
    let Some((body, stamp)) = text.rsplit_once('@') else { return Ok((text, None, None)) };
    let (ts, tie) = match stamp.split_once('.') {
        Some((ts, tie)) => (ts, Some(tie)),
        None => (stamp, None),
    };
    let parse = |digits: &str| {
        digits.parse::<u64>().map_err(|_| format!("@{stamp} must be @ts or @ts.tie"))
    };
    Ok((body.trim(), Some(parse(ts)?), tie.map(parse).transpose()?))
}

/// Cuts at bare `separator` tokens.
fn split(tokens: &[Token], separator: &str) -> Vec<Vec<Token>> {
    let cut = |token: &Token| matches!(token, Token::Bare(word) if word == separator);
    tokens.split(cut).map(<[_]>::to_vec).collect()
}

#[derive(Clone, Debug, PartialEq)]
enum Token {
    Bare(String),
    Quoted(String),
    /// One of `[ ] { }`.
    Bracket(char),
}

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => {
                let end = rest[1..].find('"').ok_or("a quoted text does not end")?;
                tokens.push(Token::Quoted(rest[1..=end].to_owned()));
                end + 2
            }
            '[' | ']' | '{' | '}' => {
                tokens.push(Token::Bracket(first));
                1
            }
            _ => {
                let stop = |c: char| c.is_whitespace() || "[]{}\"".contains(c);
                let end = rest.find(stop).unwrap_or(rest.len());
                tokens.push(Token::Bare(rest[..end].to_owned()));
                end
            }
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

fn words(part: &[Token]) -> Result<Vec<Word>, String> {
    let word = |token: &Token| match token {
        Token::Bare(text) | Token::Quoted(text) => Ok(text.as_bytes().to_vec()),
        Token::Bracket(bracket) => Err(format!("{bracket:?} in a command must be quoted")),
    };
    part.iter().map(word).collect()
}

/// A reply, or `None` for `_`.
fn replied(part: &[Token]) -> Result<Option<Value>, String> {
    if part == [Token::Bare("_".to_owned())] {
        return Ok(None);
    }
    let mut tokens = part.iter();
    let reply = value(tokens.next(), &mut tokens, 0)?;
    match tokens.next() {
        None => Ok(Some(reply)),
        Some(_) => Err("one reply per command; separate replies with |".to_owned()),
    }
}

fn value<'a>(
    first: Option<&'a Token>,
    rest: &mut impl Iterator<Item = &'a Token>,
    depth: usize,
) -> Result<Value, String> {
    if depth > DEPTH_MAX {
        return Err(format!("replies are nested at most {DEPTH_MAX} deep"));
    }
    match first.ok_or("a reply is missing")? {
        Token::Quoted(text) => Ok(Value::text(text)),
        Token::Bare(text) => Ok(bare(text)),
        Token::Bracket(open @ ('[' | '{')) => {
            let close = if *open == '[' { ']' } else { '}' };
            let mut items = Vec::new();
            loop {
                let token = rest.next().ok_or("a bracket is not closed")?;
                if *token == Token::Bracket(close) {
                    break;
                }
                items.push(value(Some(token), rest, depth + 1)?);
            }
            if *open == '[' {
                return Ok(Value::List(items));
            }
            if items.len() % 2 == 1 {
                return Err("a map needs a value for each key".to_owned());
            }
            Ok(Value::Map(items.chunks(2).map(|kv| (kv[0].clone(), kv[1].clone())).collect()))
        }
        Token::Bracket(bracket) => Err(format!("{bracket:?} closes nothing")),
    }
}

fn bare(text: &str) -> Value {
    if text == "nil" {
        Value::Nil
    } else if let Some(error) = text.strip_prefix('!') {
        Value::Error(error.replace('_', " "))
    } else if let Ok(number) = text.parse::<i64>() {
        Value::Int(number)
    } else if let (true, Ok(number)) = (text.contains('.'), text.parse::<f64>()) {
        Value::Float(number)
    } else {
        Value::text(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Outcome;

    #[test]
    fn a_dialogue_becomes_a_history() {
        let history = parse(
            "# story\n\
             p0 > set x 1 | hgetall h\n\
             p1#4 : get x -> nil | get \"a b\" -> \"1 [2\" @5.2\n\
             p0 < OK | {f 1.5 g [a !ERR_no]} @7\n\
             p2 > get y\n\
             p2 ?\n\
             p3 > set y 1\n\
             p3 !\n\
             bank 10 a b\n",
        )
        .unwrap();
        let [first, second, third, fourth] = &history.txns[..] else { panic!("four") };
        assert_eq!((first.ts, first.invoke_us, first.complete_us), (Some(7), 4, Some(8)));
        let reply = first.ops[1].reply.as_ref().unwrap();
        assert_eq!(reply.to_string(), "{f 1.5 g [a !ERR_no]}");
        assert_eq!((second.session_seq, second.tie), (Some(4), Some(2)));
        assert_eq!((second.invoke_us, second.complete_us), (6, Some(7)));
        assert_eq!(second.ops[1].reply, Some(Value::text("1 [2")));
        assert_eq!((third.outcome, fourth.outcome), (Outcome::Info, Outcome::Fail));
        assert_eq!(history.bank.unwrap().accounts.len(), 2);
    }

    #[test]
    fn nonsense_is_refused_with_its_line() {
        let cases = [
            "p0",
            "x > get x",
            "p0 = get x",
            "p0 < OK",
            "p0 > get [",
            "p0 : get x -> [1",
            "p0 : get x -> ]",
            "p0 : get x -> {a}",
            "p0 : get x -> 1 2",
            "p0 : get x -> 1 @x",
            "p0 > get \"x",
            "bank a b",
        ];
        for text in cases {
            assert_eq!(parse(&format!("\n{text}")).unwrap_err().line, 2, "{text}");
        }
        let deep = format!("p0 : get x -> {}{}", "[".repeat(20), "]".repeat(20));
        assert!(parse(&deep).is_err());
    }
}
