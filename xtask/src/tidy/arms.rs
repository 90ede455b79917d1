//! The core looks at every kind of message: an arm that drops whatever is left would drop a kind
//! that is added later, and a request of that kind would never be answered.

use super::Tree;
use super::source::{code_only, without_tests};

/// Types of messages between machines, gateways, shards and logs.
const KINDS: [&str; 10] = [
    "Answer::",
    "Body::",
    "LogRecord::",
    "Notice::",
    "Parcel::",
    "PeerMessage::",
    "Pending::",
    "Question::",
    "TargetKind::",
    "Word::",
];

/// Beginnings of arms that ignore all remaining kinds.
const DROPS: [&str; 4] = ["_ => {}", "_ => return,", "_ => ()", "_ => continue"];

/// No `match` over a kind of message has an arm that ignores all remaining kinds.
pub fn no_kind_is_dropped(tree: &Tree) -> Vec<String> {
    let core = tree.below("crates/engine/src").filter(|(path, _)| {
        path.ends_with(".rs") && !path.contains("/tests/") && !path.ends_with("/tests.rs")
    });
    core.flat_map(|(path, text)| {
        let (code, _) = without_tests(&code_only(text));
        let lines: Vec<&str> = code.lines().collect();
        let drops = |at: &usize| DROPS.iter().any(|arm| lines[*at].trim().starts_with(arm));
        let found = (0..lines.len()).filter(drops).filter(|at| is_over_messages(&lines, *at));
        found.map(|at| format!("{path}:{}: name the remaining kinds", at + 1)).collect::<Vec<_>>()
    })
    .collect()
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Whether an arm before this one, in the same `match`, is about a kind of message.
fn is_over_messages(lines: &[&str], at: usize) -> bool {
    let depth = indent(lines[at]);
    lines[..at]
        .iter()
        .rev()
        .filter(|line| !line.trim().is_empty())
        .take_while(|line| indent(line) >= depth)
        .filter(|line| indent(line) == depth)
        .any(|line| {
            let pattern = line.trim().trim_start_matches(['|', ' ', '&', '(']);
            let pattern = pattern.strip_prefix("Some(").unwrap_or(pattern);
            KINDS.iter().any(|kind| pattern.starts_with(kind))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_that_drops_kinds_of_messages_is_found() {
        let function = |lines: &[&str]| format!("fn f() {{\n{}\n}}\n", lines.join("\n"));
        let dropping = function(&[
            "    match body {",
            "        Body::Stats => {",
            "            a();",
            "        }",
            "        _ => {}",
            "    }",
        ]);
        let others = function(&[
            "    let all = [Body::Stats];",
            "    match n {",
            "        1 => {}",
            "        _ => {}",
            "    }",
        ]);
        let named = function(&[
            "    match body {",
            "        Body::Stats => a(),",
            "        Body::Count => {}",
            "    }",
        ]);
        let tree = Tree::of(&[
            ("crates/engine/src/a.rs", &dropping),
            ("crates/engine/src/b.rs", &others),
            ("crates/engine/src/c.rs", &named),
            ("crates/engine/src/tests.rs", &dropping),
            ("crates/server/src/d.rs", &dropping),
        ]);
        assert_eq!(
            no_kind_is_dropped(&tree),
            ["crates/engine/src/a.rs:6: name the remaining kinds"]
        );
    }
}
