//! Rules about the repository itself, each a function from the tree to complaints and a test.
//!
//! They hold rules that a reviewer would otherwise have to remember: permitted dependencies between
//! crates, forbidden parts of `std` in pure crates, the first line of files, the contents of lists
//! in documents. Each rule also has a test that breaks it on a made-up tree, so that a rule cannot
//! go blind.

mod arms;
pub mod crates;
mod documents;
pub mod source;
mod text;

use crate::measure;
use crate::paths;
use crate::process::{command, output};
use crate::report::Count;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;

/// The text files of the repository, by path from the root.
pub struct Tree {
    files: BTreeMap<String, String>,
}

/// Looks at the tree and returns one line per violation.
type Rule = fn(&Tree) -> Vec<String>;

const RULES: &[(&str, Rule)] = &[
    ("crates depend downwards only", crates::direction),
    ("modules of the engine import downwards only", crates::engine_has_layers),
    ("versions stand in the root manifest", crates::versions_in_one_place),
    ("pure crates touch nothing outside", crates::purity),
    ("replication cannot name a data type", crates::replication_is_blind),
    ("check stands alone", crates::check_stands_alone),
    ("every limit is used", crates::every_limit_is_used),
    ("there are no hidden paths", crates::no_hidden_paths),
    ("no kind of message is dropped", arms::no_kind_is_dropped),
    ("every file opens with its purpose", text::module_docs),
    ("files and lines have a limit", text::sizes),
    ("nothing is left over", text::leftovers),
    ("no test is switched off", text::no_ignored_tests),
    ("no paths of one machine", text::no_machine_paths),
    ("measures keep their bounds", measure::within_bounds),
    ("every decision is listed", documents::decisions_are_listed),
    ("every dependency has a reason", documents::dependencies_have_reasons),
    ("every link leads somewhere", documents::links_lead_somewhere),
    ("every test that a document names exists", documents::named_tests_exist),
];

/// `cargo xtask tidy`.
pub fn run() -> Result<(), String> {
    match count()?.failed {
        0 => Ok(()),
        n => Err(format!("{n} of {} rules are broken", RULES.len())),
    }
}

/// Checks every rule, prints the violations and counts the rules.
pub fn count() -> Result<Count, String> {
    let tree = Tree::read()?;
    let mut count = Count::default();
    for (name, rule) in RULES {
        let violations = rule(&tree);
        if violations.is_empty() {
            count.passed += 1;
            continue;
        }
        count.failed += 1;
        println!("{name}:");
        for violation in violations {
            println!("  {violation}");
        }
    }
    println!("{} rules, {} broken", RULES.len(), count.failed);
    Ok(count)
}

impl Tree {
    /// Every file that is tracked, or that would be if it were added.
    pub fn read() -> Result<Self, String> {
        let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
        let (status, names) = output(&mut command("git", &list))?;
        if !status.success() {
            return Err("tidy looks at what git tracks, and `git ls-files` failed".into());
        }
        let root = paths::root();
        let mut files = BTreeMap::new();
        for name in names.split('\0').filter(|name| !name.is_empty()) {
            // A file may be deleted and still tracked; one that is not UTF-8 exists, but is no
            // text.
            match fs::read_to_string(root.join(name)) {
                Ok(text) => drop(files.insert(name.to_owned(), text)),
                Err(error) if error.kind() == ErrorKind::InvalidData => {
                    files.insert(name.to_owned(), String::new());
                }
                Err(_) => {}
            }
        }
        Ok(Self { files })
    }

    fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Files with this extension, by path.
    pub fn with_extension<'a>(
        &'a self,
        extension: &str,
    ) -> impl Iterator<Item = (&'a str, &'a str)> {
        let suffix = format!(".{extension}");
        let files = self.files.iter().filter(move |(path, _)| path.ends_with(&suffix));
        files.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Files below a folder (which ends in a slash).
    pub fn below<'a>(&'a self, folder: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        let files = self.files.iter().filter(move |(path, _)| path.starts_with(folder));
        files.map(|(path, text)| (path.as_str(), text.as_str()))
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(path, text)| ((*path).into(), (*text).into()));
        Self { files: files.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(rule: Rule) {
        let violations = rule(&Tree::read().unwrap());
        assert!(violations.is_empty(), "\n  {}", violations.join("\n  "));
    }

    #[test]
    fn crates_depend_downwards_only() {
        holds(crates::direction);
    }

    #[test]
    fn versions_stand_in_the_root_manifest() {
        holds(crates::versions_in_one_place);
    }

    #[test]
    fn pure_crates_touch_nothing_outside() {
        holds(crates::purity);
    }

    #[test]
    fn replication_cannot_name_a_data_type() {
        holds(crates::replication_is_blind);
    }

    #[test]
    fn check_shares_no_code_with_what_it_checks() {
        holds(crates::check_stands_alone);
    }

    #[test]
    fn every_limit_is_used() {
        holds(crates::every_limit_is_used);
    }

    #[test]
    fn there_are_no_hidden_paths() {
        holds(crates::no_hidden_paths);
    }

    #[test]
    fn no_kind_of_message_is_dropped() {
        holds(arms::no_kind_is_dropped);
    }

    #[test]
    fn every_file_opens_with_its_purpose() {
        holds(text::module_docs);
    }

    #[test]
    fn files_and_lines_have_a_limit() {
        holds(text::sizes);
    }

    #[test]
    fn nothing_is_left_over() {
        holds(text::leftovers);
    }

    #[test]
    fn no_test_is_switched_off() {
        holds(text::no_ignored_tests);
    }

    #[test]
    fn no_paths_of_one_machine() {
        holds(text::no_machine_paths);
    }

    #[test]
    fn measures_keep_their_bounds() {
        holds(measure::within_bounds);
    }

    #[test]
    fn every_decision_is_listed() {
        holds(documents::decisions_are_listed);
    }

    #[test]
    fn every_dependency_has_a_reason() {
        holds(documents::dependencies_have_reasons);
    }

    #[test]
    fn every_link_leads_somewhere() {
        holds(documents::links_lead_somewhere);
    }

    #[test]
    fn every_test_that_a_document_names_exists() {
        holds(documents::named_tests_exist);
    }
}
