//! Lexer for Rust that distinguishes code from comments, strings and tests.

/// The source with comments, string contents and character literals blanked out. Line breaks
/// stay, so that line numbers do.
pub fn code_only(text: &str) -> String {
    let source: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < source.len() {
        let end = skip(&source, at);
        if end == at {
            code.push(source[at]);
            at += 1;
        } else {
            code.extend(source[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    code
}

/// The end of the comment, string or character literal that starts here; `at` itself when none
/// does.
fn skip(source: &[char], at: usize) -> usize {
    let next = source.get(at + 1).copied();
    match source[at] {
        '/' if next == Some('/') => find(source, at, |c| c == '\n'),
        '/' if next == Some('*') => skip_block(source, at),
        '"' => skip_quoted(source, at + 1, '"'),
        'r' | 'b' | 'c' if !follows_word(source, at) => skip_prefixed(source, at),
        // 'a' and '\n' are characters, 'a without a closing quote is a lifetime.
        '\'' if next == Some('\\') => skip_quoted(source, at + 1, '\''),
        '\'' if source.get(at + 2) == Some(&'\'') => at + 3,
        _ => at,
    }
}

fn follows_word(source: &[char], at: usize) -> bool {
    at > 0 && is_word(source[at - 1])
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn find(source: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    source[from..].iter().position(|c| stop(*c)).map_or(source.len(), |offset| from + offset)
}

fn skip_block(source: &[char], at: usize) -> usize {
    let (mut depth, mut i) = (0, at);
    while i + 1 < source.len() {
        match (source[i], source[i + 1]) {
            ('/', '*') => (depth, i) = (depth + 1, i + 2),
            ('*', '/') => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            return i;
        }
    }
    source.len()
}

fn skip_quoted(source: &[char], from: usize, quote: char) -> usize {
    let mut i = from;
    while i < source.len() {
        match source[i] {
            '\\' => i += 2,
            c if c == quote => return i + 1,
            _ => i += 1,
        }
    }
    source.len()
}

/// Literals with a prefix: `b"..."`, `r#"..."#`, `b'x'`. A raw string ends at a quote followed by
/// as many hashes as it began with.
fn skip_prefixed(source: &[char], at: usize) -> usize {
    let raw = at + usize::from(matches!(source[at..], ['b' | 'c', 'r', ..]));
    if source[raw] == 'r' {
        let open = find(source, raw + 1, |c| c != '#');
        if source.get(open) == Some(&'"') {
            let mut end = vec!['"'];
            end.resize(open - raw, '#');
            let rest = &source[open + 1..];
            let close = rest.windows(end.len()).position(|window| window == end);
            return close.map_or(source.len(), |offset| open + 1 + offset + end.len());
        }
    }
    match source[at..] {
        ['b' | 'c', '"', ..] => skip_quoted(source, at + 2, '"'),
        ['b', '\'', ..] => skip_quoted(source, at + 2, '\''),
        _ => at,
    }
}

/// Code (as [`code_only`] leaves it) without the modules that only tests compile, and the names of
/// such modules that live in files of their own.
pub fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut kept, mut files, mut rest) = (String::new(), Vec::new(), code);
    while let Some(start) = rest.find(MARK) {
        let item = &rest[start + MARK.len()..];
        let head = item.find(['{', ';']).unwrap_or(item.len());
        let inline = item[head..].starts_with('{');
        let end = if inline { head + braced(&item[head..]) } else { (head + 1).min(item.len()) };
        if !inline {
            let name = item[..head].trim().trim_start_matches("pub ").strip_prefix("mod ");
            files.extend(name.map(|name| name.trim().to_owned()));
        }
        kept.push_str(&rest[..start]);
        kept.extend(rest[start..start + MARK.len() + end].chars().filter(|c| *c == '\n'));
        rest = &item[end..];
    }
    kept.push_str(rest);
    (kept, files)
}

/// Length of the text up to the brace that closes the one it begins with.
fn braced(text: &str) -> usize {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Where `word` stands with no letter, digit or underscore on either side: line numbers.
pub fn lines_with_word<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter(|(_, line)| has_word(line, word)).map(|(i, _)| i + 1)
}

/// The names and keywords of a line.
pub fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Whether `word` stands in the line by itself. An end of `word` that is not part of a name (as in
/// `print!`) needs no boundary.
pub fn has_word(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let starts = !word.starts_with(is_word) || !before.is_some_and(is_word);
        let ends = !word.ends_with(is_word) || !after.is_some_and(is_word);
        starts && ends
    })
}

/// The first segments of every path that is taken from `std`, alone or in a group: `use
/// std::{fs, io::Read}` gives `fs` and `io`. With the line on which the path or group starts.
pub fn std_parts(code: &str) -> Vec<(usize, String)> {
    let mut parts = Vec::new();
    for (at, _) in code.match_indices("std::") {
        if code[..at].ends_with(is_word) {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        let rest = &code[at + "std::".len()..];
        if rest.starts_with('{') {
            let group = &rest[1..braced(rest).saturating_sub(1).max(1)];
            parts.extend(top_level(group).into_iter().map(|part| (line, part)));
        } else {
            parts.push((line, leading_word(rest)));
        }
    }
    parts
}

/// The leading words of the comma-separated items of a group, nested groups left out.
fn top_level(group: &str) -> Vec<String> {
    let (mut depth, mut start, mut words) = (0, 0, Vec::new());
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                words.push(leading_word(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    words.push(leading_word(&group[start..]));
    words
}

fn leading_word(text: &str) -> String {
    text.trim_start().chars().take_while(|c| is_word(*c)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_not_code() {
        let source = concat!(
            "a /* b /* c */ d */ e // f\n",
            r#""g \" h" i 'j' '\'' k b"l" "#,
            "br##\"m \"# n\"## o r\"p\"",
        );
        let words: Vec<String> = code_only(source).split_whitespace().map(String::from).collect();
        assert_eq!(words, ["a", "e", "i", "k", "o"]);
    }

    #[test]
    fn lifetimes_and_names_are_code() {
        let source = "fn bar<'a>(r: &'a str, b: for_r) {}";
        assert_eq!(code_only(source), source);
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "1 /*\n*/ 2 \"\n\" 3\n#[cfg(test)]\nmod tests {\n fn x() {}\n}\n8";
        let (code, _) = without_tests(&code_only(source));
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(lines_with_word(&code, "8").next(), Some(8));
        assert!(!code.contains('x'));
    }

    #[test]
    fn test_modules_in_files_are_named() {
        let (code, files) = without_tests("mod a;\n#[cfg(test)]\nmod laws;\nmod b;");
        assert_eq!(files, ["laws"]);
        assert!(code.contains("mod b;") && !code.contains("laws"));
    }

    #[test]
    fn words_have_boundaries() {
        assert!(has_word("use std::fs;", "fs"));
        assert!(!has_word("offset", "fs"));
        assert!(has_word("x.vec!(", "vec!"));
        assert!(!has_word("Instantly", "Instant"));
    }

    #[test]
    fn groups_of_std_are_taken_apart() {
        let code = "use std::{collections::{BTreeMap, fs}, net, io};\nlet x = std::env::args();";
        let parts = std_parts(code);
        let names: Vec<(usize, &str)> = parts.iter().map(|(l, n)| (*l, n.as_str())).collect();
        assert_eq!(names, [(1, "collections"), (1, "net"), (1, "io"), (2, "env")]);
    }
}
