//! Rules about documents: required lists, and the existence of everything they name.

use super::Tree;
use std::collections::BTreeSet;
use toml::{Table, Value};

const ADR_INDEX: &str = "docs/adr/README.md";
const DEPENDENCIES: &str = "docs/adr/0002-dependencies.md";

/// Every record of a decision is in the index.
pub fn decisions_are_listed(tree: &Tree) -> Vec<String> {
    let index = tree.get(ADR_INDEX).unwrap_or_default();
    let records = tree.below("docs/adr/").filter_map(|(path, _)| path.strip_prefix("docs/adr/"));
    let missing = records
        .filter(|name| *name != "README.md" && !index.contains(&format!("]({name})")))
        .map(|name| format!("{ADR_INDEX} does not link {name}"));
    missing.collect()
}

/// Every third-party crate of the root manifest has its row in the record, and no row is stale.
pub fn dependencies_have_reasons(tree: &Tree) -> Vec<String> {
    let root: Table = match tree.get("Cargo.toml").unwrap_or_default().parse() {
        Ok(table) => table,
        Err(e) => return vec![format!("Cargo.toml: {e}")],
    };
    let declared = root.get("workspace").and_then(|table| table.get("dependencies"));
    let declared: BTreeSet<&str> = declared
        .and_then(Value::as_table)
        .into_iter()
        .flatten()
        .filter(|(_, value)| value.get("path").is_none())
        .map(|(name, _)| name.as_str())
        .collect();
    let record = tree.get(DEPENDENCIES).unwrap_or_default();
    let reasoned: BTreeSet<&str> = record.lines().filter_map(row_name).collect();
    let missing = declared.difference(&reasoned);
    let missing = missing.map(|name| format!("{DEPENDENCIES} has no row for `{name}`"));
    let stale = reasoned.difference(&declared);
    let stale = stale.map(|name| format!("{DEPENDENCIES}: `{name}` is not in Cargo.toml"));
    missing.chain(stale).collect()
}

/// The name in a row that begins with "| `name` | reason", when there is a reason.
fn row_name(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("| `")?.split_once('`')?;
    let reason = rest.split('|').nth(1)?;
    (!reason.trim().is_empty()).then_some(name)
}

/// Relative links in documents lead to files or folders of the repository.
pub fn links_lead_somewhere(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for (path, text) in tree.with_extension("md") {
        for target in links(text) {
            let Some(target) = resolve(path, target) else { continue };
            let folder = format!("{}/", target.trim_end_matches('/'));
            let exists = tree.get(&target).is_some() || tree.below(&folder).next().is_some();
            if !exists {
                violations.push(format!("{path} links {target}, which does not exist"));
            }
        }
    }
    violations
}

/// Targets of inline links, without those to other sites and within the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    targets
        .filter(|target| !target.contains("://") && !target.starts_with(['#', '<']))
        .filter(|target| !target.starts_with("mailto:") && !target.contains(char::is_whitespace))
}

/// The path from the root that a link in the document `from` means.
fn resolve(from: &str, target: &str) -> Option<String> {
    let target = target.split('#').next()?;
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Tests that `ARCHITECTURE.md` names for invariants exist: "Held by `name`", or several.
pub fn named_tests_exist(tree: &Tree) -> Vec<String> {
    const DOCUMENT: &str = "ARCHITECTURE.md";
    let names = tree.get(DOCUMENT).unwrap_or_default().split("Held by ").skip(1).flat_map(|rest| {
        let sentence = rest.split(". ").next().unwrap_or(rest).split(".\n").next().unwrap_or(rest);
        sentence.split('`').skip(1).step_by(2)
    });
    let exists = |name: &str| {
        let definition = format!("fn {name}(");
        tree.with_extension("rs").any(|(_, text)| text.contains(&definition))
    };
    let missing = names.filter(|name| !exists(name));
    missing.map(|name| format!("{DOCUMENT} names a test `{name}` that does not exist")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unlisted_decision_is_seen() {
        let tree = Tree::of(&[
            (ADR_INDEX, "[one](0001-one.md)"),
            ("docs/adr/0001-one.md", ""),
            ("docs/adr/0002-two.md", ""),
        ]);
        assert_eq!(decisions_are_listed(&tree), [format!("{ADR_INDEX} does not link 0002-two.md")]);
    }

    #[test]
    fn missing_empty_and_stale_reasons_are_seen() {
        let manifest =
            "[workspace.dependencies]\nadt = { path = \"x\" }\nbytes = \"1\"\nclap = \"4\"";
        let record = "| `bytes` | |\n| `clap` | parses arguments |\n| `gone` | was needed once |";
        let tree = Tree::of(&[("Cargo.toml", manifest), (DEPENDENCIES, record)]);
        let expected = [
            format!("{DEPENDENCIES} has no row for `bytes`"),
            format!("{DEPENDENCIES}: `gone` is not in Cargo.toml"),
        ];
        assert_eq!(dependencies_have_reasons(&tree), expected);
    }

    #[test]
    fn links_to_nowhere_are_seen() {
        let text = "[a](../README.md#top) [b](adr/) [c](no.md) [d](https://example.org) [e](#here)";
        let tree = Tree::of(&[("docs/x.md", text), ("README.md", ""), ("docs/adr/0001.md", "")]);
        assert_eq!(
            links_lead_somewhere(&tree),
            ["docs/x.md links docs/no.md, which does not exist"]
        );
    }

    #[test]
    fn tests_that_do_not_exist_are_seen() {
        let tree = Tree::of(&[
            ("ARCHITECTURE.md", "Held by `there` and `gone`. `Other` code. Held by `away`.\n"),
            ("a.rs", "fn there() {}"),
        ]);
        let missing = named_tests_exist(&tree);
        assert_eq!(missing.len(), 2);
        assert!(missing[0].contains("`gone`") && missing[1].contains("`away`"));
    }
}
