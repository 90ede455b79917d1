//! Operands of `..` in the text of a script. Numbers become text there, with 14 digits in Lua 5.1 and up to
//! 17 in Luau. So each operand that may be such a number is given to a function that knows the text of
//! Lua 5.1.

use super::{Kind, Word, closing, words};

/// Name of the function that makes a number a text.
const TEXTED: &[u8] = b"__texted";

/// Words that no operand contains outside of brackets.
const KEYWORDS: [&[u8]; 21] = [
    b"and",
    b"break",
    b"do",
    b"else",
    b"elseif",
    b"end",
    b"false",
    b"for",
    b"function",
    b"if",
    b"in",
    b"local",
    b"nil",
    b"not",
    b"or",
    b"repeat",
    b"return",
    b"then",
    b"true",
    b"until",
    b"while",
];

fn is_name(word: &Word<'_>) -> bool {
    word.kind == Kind::Name && !KEYWORDS.contains(&word.text)
}

fn is_sign(word: &Word<'_>, signs: &[u8]) -> bool {
    word.kind == Kind::Sign && word.text.iter().all(|sign| signs.contains(sign))
}

/// Operands of one text.
struct Operands<'w, 't> {
    words: &'w [Word<'t>],
}

impl Operands<'_, '_> {
    fn get(&self, at: usize) -> Option<&Word<'_>> {
        self.words.get(at)
    }

    /// Whether the dots at this place are exactly `count`, without a space between them.
    fn dots(&self, at: usize, count: usize) -> bool {
        let dot = |at: usize| self.get(at).is_some_and(|word| is_sign(word, b"."));
        let joined =
            |at: usize| dot(at) && dot(at + 1) && self.words[at].at + 1 == self.words[at + 1].at;
        dot(at)
            && (at..at + count - 1).all(joined)
            && !joined(at + count - 1)
            && !(at > 0 && joined(at - 1))
    }

    /// The bracket that opens the one at `close`.
    fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0_usize;
        for at in (0..=close).rev() {
            let word = self.get(at)?;
            if is_sign(word, b")]}") {
                depth += 1;
            } else if is_sign(word, b"([{") {
                depth -= 1;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// Whether a value may end with this word, so that a minus behind it is a subtraction.
    fn ends_value(&self, at: usize) -> bool {
        let Some(word) = self.get(at) else { return false };
        match word.kind {
            Kind::Number | Kind::Text => true,
            Kind::Name => {
                is_name(word) || matches!(word.text, b"nil" | b"true" | b"false" | b"end")
            }
            Kind::Sign => is_sign(word, b")]}") || at >= 2 && self.dots(at - 2, 3),
        }
    }

    /// First word of the value that ends with the word at `last`, without operators.
    fn value_before(&self, last: usize) -> Option<usize> {
        let mut at = last;
        loop {
            let word = self.get(at)?;
            let called = |at: usize| {
                at.checked_sub(1).filter(|before| {
                    self.get(*before).is_some_and(|w| is_name(w) || is_sign(w, b")]"))
                })
            };
            match word.kind {
                Kind::Number => return Some(at),
                Kind::Text => match called(at) {
                    Some(before) => at = before,
                    None => return Some(at),
                },
                Kind::Name if is_name(word) => {
                    let field =
                        at >= 2 && (self.dots(at - 1, 1) || is_sign(self.get(at - 1)?, b":"));
                    match field {
                        true => at -= 2,
                        false => return Some(at),
                    }
                }
                Kind::Name => {
                    let plain = matches!(word.text, b"nil" | b"true" | b"false");
                    return plain.then_some(at);
                }
                Kind::Sign if is_sign(word, b")]}") => {
                    let bracket = word.text;
                    let open = self.opening(at)?;
                    let text = open.checked_sub(1).filter(|before| {
                        bracket != b"}" && self.get(*before).is_some_and(|w| w.kind == Kind::Text)
                    });
                    match called(open).or(text) {
                        Some(before) => at = before,
                        None if bracket == b"]" => return None,
                        None => return Some(open),
                    }
                }
                Kind::Sign => return (at >= 2 && self.dots(at - 2, 3)).then(|| at - 2),
            }
        }
    }

    /// First word of the operand that ends with the word at `last`.
    fn before(&self, last: usize) -> Option<usize> {
        let mut start = self.value_before(last)?;
        loop {
            let Some(at) = start.checked_sub(1) else { return Some(start) };
            let word = self.get(at)?;
            let binary = at.checked_sub(1).filter(|before| self.ends_value(*before));
            if word.is("not") || is_sign(word, b"#") {
                start = at;
            } else if is_sign(word, b"+-*/%^") {
                match binary {
                    // Two slashes are one operator.
                    None if is_sign(word, b"/") => {
                        let before = at.checked_sub(2).filter(|b| self.ends_value(*b))?;
                        is_sign(self.get(at - 1)?, b"/").then_some(())?;
                        start = self.value_before(before)?;
                    }
                    Some(before) => start = self.value_before(before)?,
                    None if word.is("-") => start = at,
                    None => return None,
                }
            } else {
                return Some(start);
            }
        }
    }

    /// Last word of the value that begins with the word at `first`, without operators.
    fn value_behind(&self, first: usize) -> Option<usize> {
        let word = self.get(first)?;
        let mut last = match word.kind {
            Kind::Number | Kind::Text => return Some(first),
            Kind::Name if is_name(word) => first,
            Kind::Name => {
                let plain = matches!(word.text, b"nil" | b"true" | b"false");
                return plain.then_some(first);
            }
            Kind::Sign if word.is("(") => closing(self.words, first)?,
            Kind::Sign if word.is("{") => return closing(self.words, first),
            Kind::Sign => return self.dots(first, 3).then_some(first + 2),
        };
        while let Some(next) = self.get(last + 1) {
            last = match next.kind {
                Kind::Text => last + 1,
                Kind::Sign if is_sign(next, b"([{") => closing(self.words, last + 1)?,
                Kind::Sign if next.is(":") || self.dots(last + 1, 1) => {
                    is_name(self.get(last + 2)?).then_some(last + 2)?
                }
                _ => break,
            };
        }
        Some(last)
    }

    /// Last word of the operand that begins with the word at `first`.
    fn behind(&self, first: usize) -> Option<usize> {
        let mut at = first;
        loop {
            while self.get(at).is_some_and(|word| word.is("not") || is_sign(word, b"-#")) {
                at += 1;
            }
            let last = self.value_behind(at)?;
            match self.get(last + 1) {
                Some(word) if is_sign(word, b"+-*/%^") => {
                    at = last + 2;
                    at +=
                        usize::from(word.is("/") && self.get(at).is_some_and(|word| word.is("/")));
                }
                _ => return Some(last),
            }
        }
    }
}

/// Whether an operand is a literal that has the same text anyway.
fn is_plain(words: &[Word<'_>]) -> bool {
    let [word] = words else { return false };
    let short = word.text.len() <= 14 && word.text.iter().all(u8::is_ascii_digit);
    word.kind == Kind::Text || word.kind == Kind::Number && short
}

/// The text with a call around each operand of `..` that may be a number.
pub fn with_texts(text: &[u8]) -> Vec<u8> {
    let Some(words) = words(text) else { return text.to_vec() };
    if words.iter().any(|word| word.text == TEXTED) {
        return text.to_vec();
    }
    let operands = Operands { words: &words };
    let (mut begins, mut ends) = (vec![0_usize; words.len()], vec![0_usize; words.len()]);
    let mut found = Vec::new();
    for at in (0..words.len()).filter(|at| operands.dots(*at, 2)) {
        let left = at.checked_sub(1).and_then(|last| Some((operands.before(last)?, last)));
        let right = operands.behind(at + 2).map(|last| (at + 2, last));
        found.extend(left.into_iter().chain(right));
    }
    found.sort_unstable();
    found.dedup();
    for (first, last) in found {
        if !is_plain(&words[first..=last]) {
            begins[first] += 1;
            ends[last] += 1;
        }
    }
    let mut out = Vec::with_capacity(text.len() + 64);
    let mut copied = 0;
    for (at, word) in words.iter().enumerate() {
        out.extend_from_slice(&text[copied..word.at]);
        for _ in 0..begins[at] {
            out.extend_from_slice(TEXTED);
            out.push(b'(');
        }
        copied = word.at + word.text.len();
        out.extend_from_slice(&text[word.at..copied]);
        out.extend(std::iter::repeat_n(b')', ends[at]));
    }
    out.extend_from_slice(&text[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Expressions of text and small whole numbers, for which the function changes nothing.
    fn expressions() -> impl Strategy<Value = String> {
        let leaf = prop::sample::select(&[
            "a",
            "7",
            "'x'",
            "\"y\"",
            "t.n",
            "t['s']",
            "t[1]",
            "f(2)",
            "f'z'",
            "t.f('w')",
            "('u'):rep(2)",
            "#a",
            "t:m(1)",
            "[[v]]",
            "select(1, ...)",
            "f{}",
            "(...)",
            "...",
        ]);
        leaf.prop_map(str::to_owned).prop_recursive(4, 24, 3, |inner| {
            prop_oneof![
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a} .. {b}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}..{b}")),
                (inner.clone(), inner.clone(), "[-+*]")
                    .prop_map(|(a, b, sign)| format!("#({a}) {sign} #({b})")),
                (inner.clone(), inner.clone(), "==|~=|and|or")
                    .prop_map(|(a, b, sign)| format!("({a} {sign} {b})")),
                inner.clone().prop_map(|a| format!("({a})")),
                inner.clone().prop_map(|a| format!("-#({a})")),
                inner.clone().prop_map(|a| format!("f({a})")),
                inner.clone().prop_map(|a| format!("t[{a}]")),
                inner.clone().prop_map(|a| format!("tostring(not {a})")),
                inner.prop_map(|a| format!("f(function() return {a} end)")),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_call_around_operands_changes_no_value(expression in expressions()) {
            let prepared = |body: &str| format!(
                "local a, t = 'a', setmetatable({{n = 1, s = 'q', 'l', f = function(x) return x end,
                m = function(_, x) return x end}}, {{__index = function(_, k) return 'i' end}})
                local function f(x) if type(x) == 'function' then return 'g' end
                return if type(x) == 'table' then 'h' else x end local __result = {body} return __result"
            );
            let lua = mlua::Lua::new();
            let same = lua.create_function(|_, value: mlua::Value| Ok(value)).unwrap();
            lua.globals().set("T", same).unwrap();
            let value = |text: &str| {
                let result = lua.load(prepared(text)).call::<mlua::Value>("arg");
                let text = result.and_then(|value| value.to_string());
                text.map_err(|error| matches!(error, mlua::Error::SyntaxError { .. }))
            };
            let rewritten = String::from_utf8(with_texts(expression.as_bytes())).unwrap();
            prop_assert_eq!(value(&rewritten.replace("__texted", "T")), value(&expression), "{}", rewritten);
            // Every operand is found: none is left that is not a literal. `7..` is no number.
            if expression.contains("..") && !["...", "7.."].iter().any(|dots| expression.contains(dots)) {
                let plain = |c: &str| c.starts_with(['\'', '"', '[', '7', 'T', '_']);
                let parts: Vec<&str> = rewritten.split("..").collect();
                for part in &parts[1..] {
                    prop_assert!(plain(part.trim_start()), "{}", rewritten);
                }
            }
        }
    }

    #[test]
    fn operands_that_may_be_numbers_are_given_to_the_function() {
        for (text, wanted) in [
            ("return 'a' .. b", "return 'a' .. T(b)"),
            ("return a..b..'c'", "return T(a)..T(b)..'c'"),
            ("x = f(a).b[c]:d(e) .. 'x'", "x = T(f(a).b[c]:d(e)) .. 'x'"),
            ("return a + b * -c .. 'x'", "return T(a + b * -c) .. 'x'"),
            ("return 'x' .. a - #b % 2 == y", "return 'x' .. T(a - #b % 2) == y"),
            ("return 'x' .. 7 .. 0.5", "return 'x' .. 7 .. T(0.5)"),
            ("return 'x' .. (a or b)\nlocal c", "return 'x' .. T((a or b))\nlocal c"),
            ("return (a .. b) .. ...", "return T((T(a) .. T(b))) .. T(...)"),
            ("return f'x' .. g{1} .. ('y'):rep(2)", "return T(f'x') .. T(g{1}) .. T(('y'):rep(2))"),
            ("return not a .. -b ^ 2", "return T(not a) .. T(-b ^ 2)"),
            ("t[#t + 1] = k .. v t = 1", "t[#t + 1] = T(k) .. T(v) t = 1"),
            ("local x = 1 .. t[a .. 'b'] .. 2", "local x = 1 .. T(t[T(a) .. 'b']) .. 2"),
            ("return a // 2 .. 'x'", "return T(a // 2) .. 'x'"),
            ("return a..7 ..0.5", "return T(a)..7 ..T(0.5)"),
            ("f('a' .. b, c .. 'd')", "f('a' .. T(b), T(c) .. 'd')"),
        ] {
            let rewritten = String::from_utf8(with_texts(text.as_bytes())).unwrap();
            assert_eq!(rewritten.replace("__texted", "T"), wanted);
        }
    }

    #[test]
    fn other_dots_stay() {
        for text in [
            "return a.b",
            "local function f(...) return ... end",
            "return select('#', ...)",
            "return '..' -- a .. b",
            "return 'a' .. 'b'",
            "return 1.5",
            "return not 7..'x'",
            "return a + 0x7..'x'",
        ] {
            assert_eq!(String::from_utf8(with_texts(text.as_bytes())).unwrap(), text);
        }
    }
}
