//! Measures of the structure and the wording of the code: `cargo xtask measure`.
//!
//! Each has a bound, which `cargo xtask tidy` holds.

mod prose;
pub mod structure;

use crate::tidy::Tree;
use crate::tidy::crates::production;
use std::io::Write;

/// One measure.
struct Measure {
    name: &'static str,
    /// Largest value that is permitted.
    bound: usize,
    value: usize,
    /// Items that the measure counts, for `cargo xtask measure NAME`.
    details: Vec<String>,
}

const ENGINE: &str = "crates/engine/src/";

/// Takes all measures. Pronouns are per 100,000 words, so that they are whole numbers.
fn measures(tree: &Tree) -> Vec<Measure> {
    let mut found = Vec::new();
    let mut add = |name, bound, value, details| {
        found.push(Measure { name, bound, value, details });
    };
    let engine = production(tree, ENGINE);
    let methods = structure::methods(&engine);
    let of = |name: &str| methods.get(name).copied().unwrap_or(0);
    add("methods-of-gateway", 60, of("Gateway"), Vec::new());
    add("methods-of-shard", 60, of("Shard"), Vec::new());
    let most = methods.iter().filter(|(name, _)| !matches!(name.as_str(), "Gateway" | "Shard"));
    let mut most: Vec<(usize, &str)> = most.map(|(name, n)| (*n, name.as_str())).collect();
    most.sort_unstable_by(|a, b| b.cmp(a));
    let details = most.iter().take(20).map(|(n, name)| format!("{n:4} {name}")).collect();
    add("methods-of-another-type", 60, most.first().map_or(0, |(n, _)| *n), details);

    let graph = structure::imports(&engine, ENGINE);
    let circle = structure::largest_circle(&graph);
    let details = circle.iter().map(|path| (*path).to_owned()).collect();
    add("circle-in-engine", 5, circle.len(), details);

    let sources: Vec<&str> = tree
        .with_extension("rs")
        .filter(|(path, _)| path.starts_with("crates/") && path.contains("/src/"))
        .map(|(path, _)| path)
        .collect();
    let (folder, files) = structure::fullest_folder(&sources);
    add("files-in-one-folder", 12, files, vec![folder]);

    let contract = production(tree, "crates/adt/src/");
    add("methods-of-data-type", 16, structure::trait_methods(&contract, "DataType"), Vec::new());

    let shard = production(tree, &format!("{ENGINE}shard/"));
    let twice = structure::kinds_matched_twice(&shard, "LogRecord");
    let details = twice.iter().map(|(kind, functions)| format!("{kind}: {}", functions.join(", ")));
    add("record-kinds-matched-twice", 0, twice.len(), details.collect());

    // The log ends its own requests: what becomes of each depends on how far its record has come.
    let rooms = structure::callers(&shard, "turn_away", "WaitingRoom");
    add("rooms-that-end-by-themselves", 1, rooms.len(), rooms);

    let names = structure::repeated_names(&engine);
    let details =
        names.iter().map(|(name, paths)| format!("{name}: {}", paths.join(", "))).collect();
    add("names-with-two-meanings", 0, names.len(), details);

    let words = prose::in_comments(tree, "");
    add("pronouns-in-comments", 50, words.share(), prose::places(tree, "crates/"));
    let words = prose::in_documents(tree, "");
    add("pronouns-in-documents", 50, words.share(), prose::places(tree, "docs/"));
    let (openings, all) = prose::openings(tree, "");
    let count = openings.len();
    let mut details = openings;
    details.push(format!("{count} of {all}"));
    add("openings-without-a-name", 0, count, details);
    found
}

/// Lines of production code and of all code, by crate.
fn lines(tree: &Tree) -> Vec<(String, usize, usize)> {
    let mut crates: Vec<&str> = tree
        .below("crates/")
        .filter_map(|(path, _)| path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml"))
        .filter(|name| !name.contains('/'))
        .collect();
    crates.sort_unstable();
    let counted = crates.into_iter().map(|name| {
        let place = format!("crates/{name}/");
        let modules = production(tree, &format!("{place}src/"));
        let code = modules.iter().flat_map(|(_, code)| code.lines());
        let code = code.filter(|line| !line.trim().is_empty()).count();
        let sources = tree.below(&place).filter(|(path, _)| path.ends_with(".rs"));
        (name.to_owned(), code, sources.map(|(_, text)| text.lines().count()).sum())
    });
    counted.collect()
}

/// `cargo xtask measure`: all measures; with a name, the items that a measure counts; with a folder
/// too, only those below it.
pub fn run(words: &[&str]) -> Result<(), String> {
    let tree = Tree::read()?;
    let found = measures(&tree);
    let page = match words {
        [name, below @ ..] => {
            let measure = found.iter().find(|measure| measure.name == *name);
            let measure = measure.ok_or_else(|| format!("no measure is called {name}"))?;
            let below = below.first().copied().unwrap_or_default();
            let lines = measure.details.iter().filter(|line| line.contains(below));
            lines.map(|line| format!("{line}\n")).collect()
        }
        [] => page(&found, &lines(&tree)),
    };
    // A reader such as `head` may take only the beginning.
    let _ = std::io::stdout().write_all(page.as_bytes());
    Ok(())
}

/// The table of all measures, and the lines of all crates.
fn page(measures: &[Measure], lines: &[(String, usize, usize)]) -> String {
    let mut rows = vec![format!("{:28}{:>8}{:>8}", "measure", "now", "bound")];
    rows.extend(
        measures
            .iter()
            .map(|Measure { name, bound, value, .. }| format!("{name:28}{value:8}{bound:8}")),
    );
    rows.push(format!("\n{:28}{:>10}{:>12}", "crate", "code", "all lines"));
    rows.extend(lines.iter().map(|(name, code, all)| format!("{name:28}{code:10}{all:12}")));
    let sum = |of: fn(&(String, usize, usize)) -> usize| lines.iter().map(of).sum::<usize>();
    rows.push(format!("{:28}{:10}{:12}\n", "together", sum(|line| line.1), sum(|line| line.2)));
    rows.join("\n")
}

/// Measures that are above their bounds.
pub fn within_bounds(tree: &Tree) -> Vec<String> {
    let over = measures(tree).into_iter().filter(|measure| measure.value > measure.bound);
    over.map(|measure| {
        let Measure { name, bound, value, .. } = measure;
        format!("{name} is {value}, above its bound of {bound}: see `cargo xtask measure {name}`")
    })
    .collect()
}
