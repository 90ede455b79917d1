//! The text of a script before it is translated: its first line, and calls whose replies are dropped.
//!
//! A call in the place of a statement drops the reply. Such calls of `redis.call` and `redis.pcall` are given
//! other names, so that their writes need not be waited for. The text is cut into words, and no more is
//! understood of it than that: in doubt a call stays as it is.

mod concat;

use adt::ErrorReply;

/// Name that stands for `redis.call` where the reply is dropped.
const DROPPED: &[u8] = b"__dropped_call";
/// Name that stands for `redis.pcall` where the reply is dropped.
const IGNORED: &[u8] = b"__ignored_call";

/// Flags of the first line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The script writes nothing.
    pub no_writes: bool,
}

/// Reads the first line if it begins with `#!`. Returns the flags and the number of its bytes.
pub fn header(text: &[u8]) -> Result<(Header, usize), ErrorReply> {
    let mut header = Header::default();
    if !text.starts_with(b"#!") {
        return Ok((header, 0));
    }
    let len = text
        .iter()
        .position(|b| *b == b'\n')
        .ok_or_else(|| ErrorReply::err("Invalid script shebang"))?;
    let line = String::from_utf8_lossy(&text[2..len]).into_owned();
    let mut words = line.split_ascii_whitespace();
    let engine = words.next().unwrap_or_default();
    if !engine.eq_ignore_ascii_case("lua") {
        let text = format!("Unexpected engine in script shebang: {engine}");
        return Err(ErrorReply::err(text));
    }
    for word in words {
        let Some(flags) = word.strip_prefix("flags=") else {
            return Err(ErrorReply::err(format!("Unknown lua shebang option: {word}")));
        };
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            match flag {
                "no-writes" => header.no_writes = true,
                "allow-oom" | "allow-stale" | "no-cluster" | "allow-cross-slot-keys" => {}
                _ => {
                    return Err(ErrorReply::err(format!(
                        "Unexpected flag in script shebang: {flag}"
                    )));
                }
            }
        }
    }
    Ok((header, len))
}

/// Reads the first line of a library: its name, and the number of bytes of the line.
pub fn library(text: &[u8]) -> Result<(&[u8], usize), ErrorReply> {
    if !text.starts_with(b"#!") {
        return Err(ErrorReply::err("Missing library metadata"));
    }
    let len = text.iter().position(|b| *b == b'\n');
    let len = len.ok_or_else(|| ErrorReply::err("Invalid library metadata"))?;
    let mut words = text[2..len].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if !engine.eq_ignore_ascii_case(b"lua") {
        let engine = String::from_utf8_lossy(engine);
        return Err(ErrorReply::err(format!("Engine '{engine}' not found")));
    }
    let mut name = None;
    for word in words {
        match word.strip_prefix(b"name=") {
            Some(_) if name.is_some() => {
                let text = "Invalid metadata value, name argument was given multiple times";
                return Err(ErrorReply::err(text));
            }
            Some(given) => name = Some(given),
            None => {
                let word = String::from_utf8_lossy(word);
                return Err(ErrorReply::err(format!("Invalid metadata value given: {word}")));
            }
        }
    }
    let name = name.ok_or_else(|| ErrorReply::err("Library name was not given"))?;
    if name.is_empty() || !name.iter().all(|b| b.is_ascii_alphanumeric() || *b == b'_') {
        let text = "Library names can only contain letters, numbers, or underscores(_) and must be at \
                    least one character long";
        return Err(ErrorReply::err(text));
    }
    Ok((name, len))
}

/// Kind of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Name,
    Number,
    Text,
    Sign,
}

/// A word of the text.
#[derive(Clone, Copy, Debug)]
pub struct Word<'t> {
    pub kind: Kind,
    pub text: &'t [u8],
    pub at: usize,
}

impl Word<'_> {
    /// Whether this is the name, number or sign `text`.
    pub fn is(&self, text: &str) -> bool {
        self.kind != Kind::Text && self.text == text.as_bytes()
    }
}

/// Length of a long bracket at the beginning of the text, the closing one included.
fn long_bracket(text: &[u8]) -> Option<usize> {
    let level = text.strip_prefix(b"[")?.iter().take_while(|b| **b == b'=').count();
    if text.get(1 + level) != Some(&b'[') {
        return None;
    }
    let mut end = vec![b']'];
    end.extend(std::iter::repeat_n(b'=', level));
    end.push(b']');
    let inner = &text[2 + level..];
    let found = inner.windows(end.len()).position(|window| window == end);
    Some(found.map_or(text.len(), |at| 2 + level + at + end.len()))
}

/// Length of a quoted string at the beginning of the text.
fn quoted(text: &[u8]) -> usize {
    let quote = text[0];
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    text.len()
}

/// Cuts the text into words; none if it has something that is not understood here.
pub fn words(text: &[u8]) -> Option<Vec<Word<'_>>> {
    // The interpreter takes a zero byte for the end of the text.
    if text.contains(&0) {
        return None;
    }
    let mut words = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let (kind, len) = match rest[0] {
            b if b.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'-' if rest.starts_with(b"--") => {
                at += 2;
                at += match long_bracket(&text[at..]) {
                    Some(len) => len,
                    None => {
                        let end = text[at..].iter().position(|b| matches!(b, b'\n' | b'\r'));
                        end.unwrap_or(text.len() - at)
                    }
                };
                continue;
            }
            b'`' => return None,
            b'"' | b'\'' => (Kind::Text, quoted(rest)),
            b'[' => match long_bracket(rest) {
                Some(len) => (Kind::Text, len),
                None => (Kind::Sign, 1),
            },
            b if b.is_ascii_alphabetic() || b == b'_' => {
                let part = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
                (Kind::Name, rest.iter().take_while(|b| part(b)).count())
            }
            b if b.is_ascii_digit()
                || b == b'.'
                    && rest.get(1).is_some_and(u8::is_ascii_digit)
                    && !text[..at].ends_with(b".") =>
            {
                let mut len = 0;
                while let Some(b) = rest.get(len) {
                    let sign = matches!(b, b'+' | b'-') && matches!(rest[len - 1], b'e' | b'E');
                    let hex = rest.starts_with(b"0x") || rest.starts_with(b"0X");
                    // Two dots belong to the number, which is then none: an error for Lua, too.
                    let part = b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_');
                    if !(part || sign && !hex) {
                        break;
                    }
                    len += 1;
                }
                (Kind::Number, len)
            }
            _ => (Kind::Sign, 1),
        };
        words.push(Word { kind, text: &rest[..len.min(rest.len())], at });
        at += len;
    }
    Some(words)
}

/// Whether an expression or a list goes on behind this word: a call behind it is no statement.
fn expects_value(word: &Word<'_>) -> bool {
    match word.kind {
        Kind::Number | Kind::Text => false,
        Kind::Name => matches!(
            word.text,
            b"and"
                | b"or"
                | b"not"
                | b"return"
                | b"in"
                | b"if"
                | b"elseif"
                | b"while"
                | b"until"
                | b"local"
                | b"function"
                | b"for"
        ),
        Kind::Sign => !matches!(word.text, b")" | b"]" | b"}" | b";"),
    }
}

/// Whether an expression goes on with this word behind a call.
fn goes_on(word: &Word<'_>) -> bool {
    match word.kind {
        Kind::Text => true,
        Kind::Number => false,
        Kind::Name => matches!(word.text, b"and" | b"or"),
        Kind::Sign => {
            word.text != b";" && word.text != b"}" && word.text != b")" && word.text != b"]"
        }
    }
}

/// Place of the bracket that closes the one at `open`.
fn closing(words: &[Word<'_>], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, word) in words.iter().enumerate().skip(open) {
        if word.kind != Kind::Sign {
            continue;
        }
        match word.text {
            b"(" | b"[" | b"{" => depth += 1,
            b")" | b"]" | b"}" => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// Whether the text has an `if` that is a value, whose `then` and `else` begin no statements.
fn has_if_value(words: &[Word<'_>]) -> bool {
    words.windows(2).any(|pair| pair[1].is("if") && expects_value(&pair[0]))
}

/// A name for `redis.call` or `redis.pcall`.
struct Alias<'t> {
    name: &'t [u8],
    stands_for: &'static [u8],
    /// Place of the name where it is introduced.
    at: usize,
}

/// Name for `redis.call` at this place where its reply is dropped.
fn stand_in(words: &[Word<'_>], at: usize) -> Option<&'static [u8]> {
    let table = words.get(at)?;
    if !(table.is("redis") || table.is("server")) || !words.get(at + 1)?.is(".") {
        return None;
    }
    match words.get(at + 2)?.text {
        b"call" => Some(DROPPED),
        b"pcall" => Some(IGNORED),
        _ => None,
    }
}

/// Names that stand for `redis.call` or `redis.pcall` in the whole text, and for nothing else.
fn aliases<'t>(words: &[Word<'t>]) -> Vec<Alias<'t>> {
    let mut found: Vec<Alias<'t>> = Vec::new();
    for at in 0..words.len().saturating_sub(5) {
        if words[at].is("local") && words[at + 1].kind == Kind::Name && words[at + 2].is("=") {
            let whole = words.get(at + 6).is_none_or(|next| !goes_on(next));
            if let (Some(stands_for), true) = (stand_in(words, at + 3), whole) {
                found.push(Alias { name: words[at + 1].text, stands_for, at: at + 1 });
            }
        }
    }
    let called_only = |alias: &Alias<'_>| {
        words.iter().enumerate().all(|(at, word)| {
            let other = word.kind != Kind::Name || word.text != alias.name || at == alias.at;
            let before = at.checked_sub(1).map(|before| &words[before]);
            let field = before.is_some_and(|before| before.is(".") || before.is(":"));
            let declared = before.is_some_and(|before| before.is("function") || before.is("local"));
            other || field || !declared && words.get(at + 1).is_some_and(|next| next.is("("))
        })
    };
    found.retain(called_only);
    found
}

/// The text with other names for calls whose replies are dropped, and with a call around operands of `..`.
/// Lines keep their numbers.
pub fn with_dropped_calls(text: &[u8]) -> Vec<u8> {
    concat::with_texts(&renamed(text))
}

/// The text with other names for calls whose replies are dropped.
fn renamed(text: &[u8]) -> Vec<u8> {
    let Some(words) = words(text) else { return text.to_vec() };
    let redefined = words.iter().enumerate().any(|(at, word)| {
        let table = word.kind == Kind::Name && (word.is("redis") || word.is("server"));
        let field = at > 0 && (words[at - 1].is(".") || words[at - 1].is(":"));
        table && !field && !words.get(at + 1).is_some_and(|next| next.is("."))
    });
    let odd = words.iter().any(|word| word.text == DROPPED || word.text == IGNORED);
    if redefined || odd || has_if_value(&words) {
        return text.to_vec();
    }
    let aliases = aliases(&words);
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut copied = 0;
    for at in 0..words.len() {
        if at > 0 && expects_value(&words[at - 1]) {
            continue;
        }
        let alias = || {
            let alias = aliases.iter().find(|alias| {
                words[at].kind == Kind::Name && words[at].text == alias.name && alias.at != at
            })?;
            Some((alias.stands_for, 1))
        };
        let called = stand_in(&words, at).map(|name| (name, 3)).or_else(alias);
        let Some((name, len)) = called else { continue };
        let open = at + len;
        if !words.get(open).is_some_and(|word| word.is("(")) {
            continue;
        }
        let Some(close) = closing(&words, open) else { continue };
        if words.get(close + 1).is_some_and(goes_on) {
            continue;
        }
        out.extend_from_slice(&text[copied..words[at].at]);
        out.extend_from_slice(name);
        // A name that is spread over lines keeps them.
        let replaced = &text[words[at].at..words[open].at];
        out.extend(replaced.iter().filter(|b| **b == b'\n'));
        copied = words[open].at;
    }
    out.extend_from_slice(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(text: &str) -> String {
        String::from_utf8(renamed(text.as_bytes())).unwrap()
    }

    #[test]
    fn calls_in_the_place_of_statements_drop_their_replies() {
        assert_eq!(rewritten("redis.call('set', 'k', 1)"), "__dropped_call('set', 'k', 1)");
        assert_eq!(
            rewritten("redis.pcall('del','k') return 1"),
            "__ignored_call('del','k') return 1"
        );
        let text =
            "if x then redis.call('a') else server.call('b') end redis.call('c');redis.call('d')";
        assert_eq!(rewritten(text).matches("__dropped_call").count(), 4);
        assert_eq!(rewritten("local x = y redis.call('a')"), "local x = y __dropped_call('a')");
        assert_eq!(rewritten("x[1] = {} redis.call('a', x[1])").matches("__dropped").count(), 1);
        assert_eq!(rewritten("do redis\n.call('a') end"), "do __dropped_call\n('a') end");
        assert_eq!(
            rewritten("for i = 1, 2 do redis.call('a', i) end").matches("__dropped").count(),
            1
        );
    }

    #[test]
    fn calls_whose_replies_are_used_stay() {
        for text in [
            "return redis.call('get', 'k')",
            "local x = redis.call('get', 'k')",
            "local x = 1 + redis.call('get', 'k')",
            "if redis.call('get', 'k') then return 1 end",
            "while redis.call('get', 'k') do end",
            "f(redis.call('get', 'k'), redis.call('get', 'l'))",
            "local t = {redis.call('get', 'k'), x = redis.call('get', 'k')}",
            "redis.call('get', 'k')[1] = 2",
            "redis.call('get', 'k').x()",
            "local x, y = 1, redis.call('get', 'k')",
            "x = a .. redis.call('get', 'k')",
            "repeat local x = 1 until redis.call('get', 'k')",
            "local s = \"redis.call('a')\" -- redis.call('b')\n--[[ redis.call('c') ]] \
             return [==[ redis.call('d') ]==]",
            "local x = if y then redis.call('get', 'k') else redis.call('get', 'l')",
            "local x = `{redis.call('get', 'k')}`",
            "local redis = {call = print} redis.call('a')",
            "return not redis.call('get', 'k')",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn a_local_name_for_the_function_counts_as_the_function() {
        let text = "local rcall = redis.call\nlocal x = rcall('get', 'k')\nrcall('set', 'k', x)";
        let wanted =
            "local rcall = redis.call\nlocal x = rcall('get', 'k')\n__dropped_call('set', 'k', x)";
        assert_eq!(rewritten(text), wanted);
        for text in [
            "local rcall = redis.call local function f(rcall) rcall('a') end",
            "local rcall = redis.call rcall = print rcall('a')",
            "local rcall = redis.call local rcall = 1 rcall('a')",
            "local rcall = redis.call or x rcall('a')",
        ] {
            assert_eq!(rewritten(text), text);
        }
    }

    #[test]
    fn the_first_line_has_flags() {
        let flags = |text: &str| header(text.as_bytes()).map(|(header, _)| header.no_writes);
        assert_eq!(flags("return 1"), Ok(false));
        assert_eq!(flags("#!lua\nreturn 1"), Ok(false));
        assert_eq!(flags("#!lua flags=no-writes,allow-oom\nreturn 1"), Ok(true));
        assert!(flags("#!lua flags=what\nreturn 1").is_err());
        assert!(flags("#!python\nreturn 1").is_err());
        assert!(flags("#!lua name=x\nreturn 1").is_err());
    }
}
