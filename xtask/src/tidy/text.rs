//! Rules about the text of files: openings, sizes, and forbidden leftovers.

use super::Tree;
use super::source::{code_only, has_word};

const FILE_LINES: usize = 800;
const LINE_COLUMNS: usize = 110;

// Put together at compile time: written out, these words would be found in this file.
const LEFTOVERS: &[&str] = &[
    concat!("d", "bg!"),
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("X", "XX"),
];
const MACHINE_PATHS: &[&str] = &[concat!("/", "work/"), concat!("/", "root/")];
const IGNORE: &str = concat!("#[", "ignore");

/// Every Rust file states its purpose in its first line.
pub fn module_docs(tree: &Tree) -> Vec<String> {
    let silent = tree.with_extension("rs").filter(|(_, text)| !text.starts_with("//!"));
    silent.map(|(path, _)| format!("{path} must begin with `//!` and its purpose")).collect()
}

/// No source file is longer than can be read in one sitting, no line wider than a screen.
pub fn sizes(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, text) in tree.with_extension("rs").chain(tree.with_extension("py")) {
        let lines = text.lines().count();
        if lines > FILE_LINES {
            violations.push(format!("{path} has {lines} lines; at most {FILE_LINES}: divide it"));
        }
    }
    for (path, text) in tree.with_extension("rs") {
        for (number, line) in text.lines().enumerate() {
            let columns = line.chars().count();
            // A row of a table in a comment cannot be broken.
            let table =
                line.trim_start().starts_with("//! |") || line.trim_start().starts_with("/// |");
            if columns > LINE_COLUMNS && !table {
                let place = format!("{path}:{}", number + 1);
                violations.push(format!("{place} has {columns} columns; at most {LINE_COLUMNS}"));
            }
        }
    }
    violations
}

/// No reminders and no debugging aids, in code, comments or documents.
pub fn leftovers(tree: &Tree) -> Vec<String> {
    find(tree, |line| LEFTOVERS.iter().find(|word| has_word(line, word)).copied())
}

/// No test is switched off: a test that does not run proves nothing.
pub fn no_ignored_tests(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, text) in tree.with_extension("rs") {
        for (number, line) in code_only(text).lines().enumerate() {
            if line.contains(IGNORE) {
                violations.push(format!("{path}:{}: a test is switched off", number + 1));
            }
        }
    }
    violations
}

/// Nothing names a folder that exists on one machine only.
pub fn no_machine_paths(tree: &Tree) -> Vec<String> {
    let starts = |line: &str, path: &str| {
        // A folder inside a longer path or address is a name chosen by its author.
        line.match_indices(path).any(|(at, _)| {
            !line[..at].ends_with(|c: char| c.is_alphanumeric() || ".-_}/".contains(c))
        })
    };
    find(tree, |line| MACHINE_PATHS.iter().find(|path| starts(line, path)).copied())
}

/// One violation for each line in which `look` finds something.
fn find(tree: &Tree, look: impl Fn(&str) -> Option<&'static str>) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, text) in &tree.files {
        for (number, line) in text.lines().enumerate() {
            if let Some(found) = look(line) {
                violations.push(format!("{path}:{}: {found}", number + 1));
            }
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_purpose_is_seen() {
        let tree = Tree::of(&[("a.rs", "//! Fine.\n"), ("b.rs", "fn f() {}\n"), ("c.py", "")]);
        assert_eq!(module_docs(&tree), ["b.rs must begin with `//!` and its purpose"]);
    }

    #[test]
    fn long_files_and_lines_are_seen_at_the_limit_plus_one() {
        let (fits, long) = ("x\n".repeat(FILE_LINES), "x\n".repeat(FILE_LINES + 1));
        let (narrow, wide) = ("x".repeat(LINE_COLUMNS), "x".repeat(LINE_COLUMNS + 1));
        let table = format!("//! | {wide} |");
        let good = [("a.rs", &fits), ("b.rs", &narrow), ("c.md", &wide), ("d.rs", &table)];
        let good = Tree::of(&good.map(|(path, text)| (path, text.as_str())));
        assert!(sizes(&good).is_empty());
        assert_eq!(sizes(&Tree::of(&[("a.py", &long), ("b.rs", &wide)])).len(), 2);
    }

    #[test]
    fn leftovers_are_seen_everywhere() {
        for word in LEFTOVERS {
            let tree = Tree::of(&[("docs/a.md", &format!("well\nthis {word}(x) here"))]);
            assert_eq!(leftovers(&tree), [format!("docs/a.md:2: {word}")]);
        }
        let harmless = format!("{0}X and mas{0}", LEFTOVERS[LEFTOVERS.len() - 1]);
        assert!(leftovers(&Tree::of(&[("a.rs", &harmless)])).is_empty());
    }

    #[test]
    fn a_test_that_is_switched_off_is_seen() {
        let off = format!("#[test]\n{IGNORE} = \"slow\"]\nfn f() {{}}");
        assert_eq!(no_ignored_tests(&Tree::of(&[("a.rs", &off)])).len(), 1);
        assert!(no_ignored_tests(&Tree::of(&[("a.rs", &format!("// {IGNORE}]"))])).is_empty());
    }

    #[test]
    fn machine_paths_are_seen() {
        for path in MACHINE_PATHS {
            let tree = Tree::of(&[("a.md", &format!("see `{path}notes`"))]);
            assert_eq!(no_machine_paths(&tree).len(), 1);
            let tree = Tree::of(&[("a.md", &format!("https://example.org{path}"))]);
            assert!(no_machine_paths(&tree).is_empty());
        }
    }
}
