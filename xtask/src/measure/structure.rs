//! Measures of how the code is divided: methods of a type, circles of files, folders, names.

use crate::tidy::source::{has_word, words_of};
use std::collections::{BTreeMap, BTreeSet};

/// Production modules, without comments, strings and tests, by path.
pub type Modules<'a> = Vec<(&'a str, String)>;

/// Path of a name, and whether the module passes it on.
type Named = (bool, Vec<String>);

/// Methods of each type, in all its `impl` blocks that are not of a trait.
pub fn methods(modules: &Modules<'_>) -> BTreeMap<String, usize> {
    let mut methods: BTreeMap<String, usize> = BTreeMap::new();
    for (_, code) in modules {
        let mut name = None;
        for line in code.lines() {
            if line.starts_with("impl") {
                name = implemented(line);
            } else if line.starts_with('}') {
                name = None;
            } else if let Some(name) = &name
                && line.starts_with("    ")
                && !line.starts_with("     ")
                && has_word(line, "fn")
            {
                *methods.entry(name.clone()).or_default() += 1;
            }
        }
    }
    methods
}

/// The type that a line `impl ... {` is about, unless it is of a trait.
fn implemented(line: &str) -> Option<String> {
    let mut rest = line.strip_prefix("impl")?;
    if rest.starts_with('<') {
        let mut depth = 0;
        let end = rest.char_indices().find(|(at, c)| {
            match c {
                '<' => depth += 1,
                '>' if !rest[..*at].ends_with('-') => depth -= 1,
                _ => {}
            }
            depth == 0
        })?;
        rest = &rest[end.0 + 1..];
    }
    if has_word(rest, "for") {
        return None;
    }
    let name: String = rest.trim_start().chars().take_while(|c| is_word(*c) || *c == ':').collect();
    let name = name.rsplit("::").next().unwrap_or_default().to_owned();
    (!name.is_empty()).then_some(name)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Methods that a trait requires or provides.
pub fn trait_methods(modules: &Modules<'_>, name: &str) -> usize {
    let head = format!("pub trait {name}");
    modules
        .iter()
        .flat_map(|(_, code)| {
            let mut lines = code.lines();
            let found = lines.by_ref().any(|line| {
                line.strip_prefix(&head).is_some_and(|rest| !rest.starts_with(is_word))
            });
            let body: Vec<&str> = lines.take_while(|line| !line.starts_with('}')).collect();
            if found { body } else { Vec::new() }
        })
        .filter(|line| {
            line.starts_with("    ") && !line.starts_with("     ") && has_word(line, "fn")
        })
        .count()
}

/// Names of types that are defined more than once, with their files.
pub fn repeated_names<'a>(modules: &Modules<'a>) -> BTreeMap<String, Vec<&'a str>> {
    let mut places: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (path, code) in modules {
        for line in code.lines() {
            let item = line.strip_prefix("pub").unwrap_or(line);
            let item = item
                .strip_prefix('(')
                .and_then(|rest| rest.split_once(')'))
                .map_or(item, |(_, item)| item);
            let mut words = words_of(item);
            if matches!(words.next(), Some("struct" | "enum" | "trait" | "union" | "type"))
                && !line.starts_with(' ')
                && let Some(name) = words.next()
            {
                places.entry(name.to_owned()).or_default().push(path);
            }
        }
    }
    places.retain(|_, paths| paths.len() > 1);
    places
}

/// Kinds of an enum for which more than one function does something, each with those functions. Only
/// functions count that have arms for at least half of the kinds, as code that applies all of them has; an
/// arm `=> {}` does nothing. The arms of a `match` over a tuple are not seen.
pub fn kinds_matched_twice(modules: &Modules<'_>, name: &str) -> BTreeMap<String, Vec<String>> {
    let mut functions: BTreeMap<String, BTreeMap<String, bool>> = BTreeMap::new();
    for (path, code) in modules {
        let mut function = String::new();
        let mut start = 0;
        for line in code.split_inclusive('\n') {
            if line.len() - line.trim_start().len() <= 4
                && let Some((_, rest)) = line.split_once("fn ")
            {
                let named = rest.chars().take_while(|c| is_word(*c)).collect::<String>();
                function = format!("{path}: {named}");
            }
            for (at, _) in line.match_indices(&format!("{name}::")) {
                let from = start + at;
                if !code[..from].ends_with(is_word)
                    && let Some((kind, acts)) = arm(&code[from + name.len() + 2..], name)
                {
                    let kinds = functions.entry(function.clone()).or_default();
                    *kinds.entry(kind).or_default() |= acts;
                }
            }
            start += line.len();
        }
    }
    let all: BTreeSet<&String> = functions.values().flat_map(BTreeMap::keys).collect();
    let all = all.len();
    functions.retain(|_, kinds| kinds.len() * 2 >= all);
    let mut acted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (function, kinds) in functions {
        for (kind, _) in kinds.into_iter().filter(|(_, acts)| *acts) {
            acted.entry(kind).or_default().push(function.clone());
        }
    }
    acted.retain(|_, functions| functions.len() > 1);
    acted
}

/// Functions that call another one, except those of the same name, which pass the call on, and those that
/// implement a trait.
pub fn callers(modules: &Modules<'_>, callee: &str, but_of: &str) -> Vec<String> {
    let call = format!(".{callee}(");
    let but_of = format!("impl {but_of} for ");
    let mut found = BTreeSet::new();
    for (path, code) in modules {
        let (mut function, mut implements) = (String::new(), false);
        for line in code.lines() {
            if !line.starts_with([' ', '}']) && !line.is_empty() {
                implements = line.starts_with(&but_of);
            }
            if line.len() - line.trim_start().len() <= 4
                && let Some((_, rest)) = line.split_once("fn ")
            {
                function = rest.chars().take_while(|c| is_word(*c)).collect();
            }
            if line.contains(&call) && function != callee && !implements {
                found.insert(format!("{path}: {function}"));
            }
        }
    }
    found.into_iter().collect()
}

/// The kind that a pattern begins with, and whether its arm does something; none if it is not the pattern of
/// an arm. `code` begins behind `Enum::`.
fn arm(code: &str, name: &str) -> Option<(String, bool)> {
    let kind: String = code.chars().take_while(|c| is_word(*c)).collect();
    let mut rest = behind_fields(&code[kind.len()..]);
    while let Some(next) = rest.strip_prefix('|') {
        let next = next.trim_start().strip_prefix(name)?.strip_prefix("::")?;
        rest = behind_fields(next.trim_start_matches(is_word));
    }
    if has_word(rest.lines().next()?, "if") && rest.starts_with("if") {
        rest = &rest[rest.find("=>")?..];
    }
    let body = rest.strip_prefix("=>")?.trim_start();
    Some((kind, !body.starts_with("{}")))
}

/// Code behind the fields of a pattern.
fn behind_fields(code: &str) -> &str {
    let code = code.trim_start();
    if !code.starts_with(['(', '{']) {
        return code;
    }
    let mut depth = 0;
    let end = code.find(|c| {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    code[end.map_or(code.len(), |end| end + 1)..].trim_start()
}

/// Most production files that lie in one folder, without those in folders of it.
pub fn fullest_folder(paths: &[&str]) -> (String, usize) {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        *folders.entry(path.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let fullest =
        folders.into_iter().max_by_key(|(folder, files)| (*files, std::cmp::Reverse(*folder)));
    fullest.map_or_else(Default::default, |(folder, files)| (folder.to_owned(), files))
}

/// Imports between modules, in a crate whose modules lie below `src`. A name that a module passes
/// on (`pub use`) counts for the module that defines it.
pub fn imports<'a>(modules: &Modules<'a>, src: &str) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let index: BTreeMap<Vec<String>, &str> =
        modules.iter().map(|(path, _)| (module_path(path, src), *path)).collect();
    let uses: Vec<(&str, Vec<String>, Vec<Named>)> = modules
        .iter()
        .map(|(path, code)| {
            let own = module_path(path, src);
            let found = paths_in(code).into_iter();
            let found =
                found.filter_map(|(public, words)| Some((public, absolute(&own, words, &index)?)));
            (*path, own.clone(), found.collect())
        })
        .collect();
    // The origin of each name that a module passes on.
    let mut passed: BTreeMap<Vec<String>, Vec<String>> = BTreeMap::new();
    for (_, own, found) in &uses {
        for (_, full) in found.iter().filter(|(public, _)| *public) {
            let mut name = own.clone();
            name.extend(full.last().cloned());
            passed.insert(name, full.clone());
        }
    }
    let resolve = |full: &[String]| {
        let mut full = full.to_vec();
        for _ in 0..4 {
            let known = (1..=full.len()).rev().find_map(|n| Some((n, passed.get(&full[..n])?)));
            let Some((n, from)) = known.filter(|(n, from)| **from != full[..*n]) else { break };
            full = from.iter().chain(&full[n..]).cloned().collect();
        }
        (0..=full.len()).rev().find_map(|n| index.get(&full[..n]).copied())
    };
    let mut graph = BTreeMap::new();
    for (path, _, found) in &uses {
        let mut targets: BTreeSet<&str> =
            found.iter().filter_map(|(_, full)| resolve(full)).collect();
        targets.remove(path);
        graph.insert(*path, targets);
    }
    graph
}

/// `crates/engine/src/gateway/mail.rs` below `crates/engine/src/` is `gateway::mail`.
fn module_path(path: &str, src: &str) -> Vec<String> {
    let inner = path.strip_prefix(src).unwrap_or(path).trim_end_matches(".rs");
    let mut parts: Vec<String> = inner.split('/').map(str::to_owned).collect();
    if parts.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Every path with `::` in the code, with whether it is passed on; braces are opened out.
fn paths_in(code: &str) -> Vec<Named> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let starts = rest[..at].ends_with(|c: char| !is_word(c)) || at == 0;
        let line = rest[..at].rsplit('\n').next().unwrap_or_default().trim();
        let item = &rest[at + 4..];
        let end = item.find(';').unwrap_or(item.len());
        if starts && (line.is_empty() || line.starts_with("pub")) {
            open(&[], &item[..end], line.starts_with("pub"), &mut found);
        }
        rest = &item[end..];
    }
    // Paths within code, which begin with a keyword or a module.
    for line in code.lines().filter(|line| !line.trim_start().contains("use ")) {
        for (at, _) in line.match_indices("::") {
            let start = line[..at].rfind(|c: char| !is_word(c)).map_or(0, |i| i + 1);
            // A visibility, as in `pub(in crate::a)`, uses nothing of its module.
            if line[..start].ends_with("::") || line[..start].ends_with("(in ") {
                continue;
            }
            let path: String =
                line[start..].chars().take_while(|c| is_word(*c) || *c == ':').collect();
            found.push((
                false,
                path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(),
            ));
        }
    }
    found
}

/// Opens a tree of `use` out into paths.
fn open(prefix: &[String], tree: &str, public: bool, found: &mut Vec<Named>) {
    let (mut depth, mut start) = (0, 0);
    let mut parts = Vec::new();
    for (at, c) in tree.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&tree[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&tree[start..]);
    for part in parts.into_iter().map(str::trim).filter(|part| !part.is_empty()) {
        let (head, inner) = match part.split_once('{') {
            Some((head, inner)) => (head, inner.rsplit_once('}').map(|(inner, _)| inner)),
            None => (part, None),
        };
        let head = head.split(" as ").next().unwrap_or(head);
        let words = head.split("::").map(str::trim).filter(|word| !word.is_empty() && *word != "*");
        let path: Vec<String> = prefix.iter().cloned().chain(words.map(str::to_owned)).collect();
        match inner {
            Some(inner) => open(&path, inner, public, found),
            None => found.push((
                public,
                path.into_iter().filter(|word| word != "self" || prefix.is_empty()).collect(),
            )),
        }
    }
}

/// A path from the root of the crate, if it is one within the crate.
fn absolute(
    own: &[String],
    words: Vec<String>,
    index: &BTreeMap<Vec<String>, &str>,
) -> Option<Vec<String>> {
    let mut base = own.to_vec();
    let mut words = words.into_iter().peekable();
    match words.peek()?.as_str() {
        "crate" => {
            words.next();
            base.clear();
        }
        "super" => {
            while words.next_if(|word| word == "super").is_some() {
                base.pop();
            }
        }
        "self" => drop(words.next()),
        first => {
            let mut child = base.clone();
            child.push(first.to_owned());
            if !index.contains_key(&child) {
                return None;
            }
        }
    }
    base.extend(words);
    Some(base)
}

/// The largest set of modules of which each reaches each other.
pub fn largest_circle<'a>(graph: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> Vec<&'a str> {
    let reach = |from: &'a str| {
        let mut seen = BTreeSet::new();
        let mut todo = vec![from];
        while let Some(at) = todo.pop() {
            let next = graph.get(at).into_iter().flatten().copied();
            todo.extend(next.filter(|next| graph.contains_key(next) && seen.insert(*next)));
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> = graph.keys().map(|at| (*at, reach(at))).collect();
    let circle = |at: &&'a str| -> Vec<&'a str> {
        reached[at].iter().copied().filter(|other| reached[other].contains(at)).collect()
    };
    graph.keys().map(circle).max_by_key(Vec::len).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(files: &[(&'static str, &str)]) -> Modules<'static> {
        files.iter().map(|(path, code)| (*path, (*code).to_owned())).collect()
    }

    #[test]
    fn methods_are_counted_over_all_files_and_not_for_traits() {
        let first = "impl Gateway {\n    pub fn a(&self) {\n        fn inner() {}\n    }\n    fn b() {}\n}\n";
        let second = "impl<T: Into<u8>> Wait<T> {\n    fn c() {}\n}\n\
                      impl super::Gateway {\n    fn d() {}\n}\n\
                      impl Drop for Gateway {\n    fn drop(&mut self) {}\n}\n";
        let counted = methods(&modules(&[("a.rs", first), ("b.rs", second)]));
        assert_eq!(counted, BTreeMap::from([("Gateway".into(), 3), ("Wait".into(), 1)]));
    }

    #[test]
    fn methods_of_a_trait_are_counted() {
        let code = "pub trait Types {\n    fn no();\n}\npub trait Type: Sized {\n\
                    \x20   const N: u8;\n    fn a();\n    fn b() {\n\
                    \x20       c();\n    }\n}\nfn z() {}\n";
        assert_eq!(trait_methods(&modules(&[("a.rs", code)]), "Type"), 2);
    }

    #[test]
    fn a_name_with_two_meanings_is_seen() {
        let found = modules(&[
            ("a.rs", "pub struct Step;\nenum Kind {}\nmod x {\n    struct Kind;\n}\n"),
            ("b.rs", "pub(in crate::b) enum Step {}\n"),
        ]);
        assert_eq!(repeated_names(&found), BTreeMap::from([("Step".into(), vec!["a.rs", "b.rs"])]));
    }

    #[test]
    fn a_kind_counts_that_two_functions_do_something_for() {
        let first = "impl Shard {\n    fn commit(&self) {\n        match record {\n\
                     \x20           Record::A(Inner { x, .. }) | Record::B => go(),\n\
                     \x20           Record::C { x } if x > 0 => go(),\n\
                     \x20           Record::D => {}\n        }\n    }\n\
                     \x20   fn one(&self) {\n        match record {\n\
                     \x20           Record::A(_) => go(),\n            _ => no(),\n        }\n    }\n}\n";
        let second = "fn replay() {\n    match record {\n        Record::A(_) => go(),\n\
                      \x20       Record::B | Record::C { .. } => {}\n        Record::D => go(),\n\
                      \x20   }\n    log(Record::B);\n}\n";
        let found = kinds_matched_twice(&modules(&[("a.rs", first), ("b.rs", second)]), "Record");
        let twice = vec!["a.rs: commit".to_owned(), "b.rs: replay".to_owned()];
        assert_eq!(found, BTreeMap::from([("A".into(), twice)]));
    }

    #[test]
    fn a_caller_counts_that_neither_passes_a_call_on_nor_implements_the_trait() {
        let first = "impl Core {\n    fn away(&mut self) {\n        self.out.away();\n    }\n}\n\
                     impl Room for Core {\n    fn end(&mut self) {\n        self.away();\n    }\n}\n\
                     impl Core {\n    fn leave(&mut self) {\n        self.away();\n\
                     \x20       self.away();\n    }\n}\n";
        let second = "fn end(core: &mut Core) {\n    core.away();\n}\nfn no() {\n    away();\n}\n";
        let found = callers(&modules(&[("a.rs", first), ("b.rs", second)]), "away", "Room");
        assert_eq!(found, ["a.rs: leave", "b.rs: end"]);
    }

    #[test]
    fn circles_go_through_names_that_are_passed_on() {
        let found = modules(&[
            ("src/lib.rs", "pub mod a;\nmod b;\npub mod c;\n"),
            ("src/a/mod.rs", "mod inner;\npub use inner::{Thing, Other as Else};\n"),
            ("src/a/inner.rs", "use crate::c::{\n    self, Third,\n};\nuse std::fs;\n"),
            ("src/b.rs", "use super::a::Thing;\n"),
            ("src/c.rs", "pub(in crate::a) fn f() { crate::b::run() }\n"),
        ]);
        let graph = imports(&found, "src/");
        assert_eq!(graph["src/b.rs"], BTreeSet::from(["src/a/inner.rs"]));
        assert_eq!(graph["src/a/inner.rs"], BTreeSet::from(["src/c.rs"]));
        assert_eq!(graph["src/c.rs"], BTreeSet::from(["src/b.rs"]));
        assert_eq!(largest_circle(&graph), ["src/a/inner.rs", "src/b.rs", "src/c.rs"]);
    }

    #[test]
    fn the_fullest_folder_counts_its_own_files() {
        let paths = ["a/x.rs", "a/b/y.rs", "a/b/z.rs", "c/w.rs"];
        assert_eq!(fullest_folder(&paths), ("a/b".into(), 2));
    }
}
