//! Rules about crates: permitted dependencies, and restrictions of pure crates.

use super::Tree;
use super::source::{code_only, has_word, lines_with_word, std_parts, without_tests};
use crate::measure::structure::imports;
use toml::{Table, Value};

/// Crates of the workspace that a crate may depend on. Adding an edge needs a record in
/// `docs/adr/`.
const EDGES: &[(&str, &[&str])] = &[
    ("adt", &[]),
    ("check", &[]),
    ("model", &[]),
    ("probe", &[]),
    // `check` is the second opinion in its tests.
    ("probe-data", &["probe", "check"]),
    ("probe-report", &[]),
    ("probe-agent", &["probe", "probe-data"]),
    ("engine", &["adt", "probe"]),
    ("wire", &["adt", "engine", "probe"]),
    ("script", &["adt", "engine"]),
    ("server", &["adt", "engine", "wire", "probe", "script"]),
    ("client", &["adt", "wire"]),
    ("sim", &["adt", "engine", "wire", "check", "script"]),
    ("bench", &["adt", "wire", "client", "sim", "check", "model"]),
    ("order-spec", &[]),
    ("etcd-load", &["bench", "wire"]),
    (
        "claret",
        &[
            "adt",
            "engine",
            "wire",
            "server",
            "client",
            "probe",
            "probe-data",
            "probe-agent",
            "probe-report",
            "model",
            "check",
            "sim",
            "bench",
        ],
    ),
];

/// Modules of `engine` from the lowest to the highest. A module imports only lower ones, and those
/// that stand in one row with it.
const ENGINE_LAYERS: &[&[&str]] = &[
    &["limits", "now", "concurrency", "stats", "script"],
    &["ids"],
    &["cluster"],
    &["deadlock", "coordination", "replication"],
    &["pipeline"],
    &["entry", "message", "repeats"],
    &["shard"],
    &["replica"],
    &["gateway"],
    &["node"],
];

/// Pairs of modules that the layers would permit: the first must not import the second. A gateway and
/// a shard meet in messages only.
const APART: &[(&str, &str)] = &[
    ("gateway", "shard"),
    ("gateway", "replica"),
    ("gateway", "replication"),
    ("replication", "coordination"),
];

/// Crates without clock, randomness, IO, threads, async and `unsafe`.
const PURE: &[&str] =
    &["adt", "engine", "script", "wire", "check", "model", "probe", "probe-report"];

/// File that contains every bound.
const LIMITS: &str = "crates/engine/src/limits.rs";

/// Parts of `std` that reach outside a pure crate.
const IMPURE_STD: &[&str] = &["fs", "net", "thread", "env", "process", "os"];

/// Words that a pure crate does not contain. Unordered maps are among them because their order of
/// iteration differs between replicas.
const IMPURE_WORDS: &[&str] = &[
    "Instant",
    "SystemTime",
    "tokio",
    "rand::",
    "async",
    "unsafe",
    "print!",
    "println!",
    "eprint!",
    "eprintln!",
];

/// Third-party crates with effects outside of a pure crate.
const IMPURE_CRATES: &[&str] = &[
    "tokio",
    "mio",
    "socket2",
    "hyper",
    "rustix",
    "rand",
    "getrandom",
    "fastrand",
    "chrono",
    "time",
    "rayon",
    "raft-engine",
];

const DEPENDENCY_TABLES: &[&str] = &["dependencies", "dev-dependencies", "build-dependencies"];

/// Every edge between crates is in [`EDGES`], and pure crates do not depend on impure ones.
pub fn direction(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for member in members(tree) {
        let name = member.name;
        let Some((_, allowed)) = EDGES.iter().find(|(crate_name, _)| *crate_name == name) else {
            violations.push(format!("crates/{name} has no row in xtask/src/tidy/crates.rs"));
            continue;
        };
        for (dependency, _) in member.dependencies() {
            let ours = EDGES.iter().any(|(crate_name, _)| *crate_name == dependency);
            if ours && !allowed.contains(&dependency) {
                violations.push(format!("{name} must not depend on {dependency}"));
            }
            if PURE.contains(&name) && IMPURE_CRATES.contains(&dependency) {
                violations.push(format!("{name} is pure and must not depend on {dependency}"));
            }
        }
    }
    violations
}

/// Members take every dependency from the root manifest, so that a version stands once.
pub fn versions_in_one_place(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for member in members(tree) {
        for (dependency, value) in member.dependencies() {
            if value.get("workspace") != Some(&Value::Boolean(true)) {
                let name = member.name;
                violations.push(format!("{name}: {dependency} must say `workspace = true`"));
            }
        }
    }
    violations
}

/// Pure crates name nothing of the outside, outside of their tests.
pub fn purity(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for crate_name in PURE {
        for (path, code) in production(tree, &format!("crates/{crate_name}/src/")) {
            // The compiler's description of its target is a constant, not the environment.
            let code = code.replace("std::env::consts::", "");
            for word in IMPURE_WORDS {
                let lines = lines_with_word(&code, word);
                violations.extend(lines.map(|line| format!("{path}:{line}: {word}")));
            }
            let parts = std_parts(&code).into_iter();
            let impure = parts.filter(|(_, part)| IMPURE_STD.contains(&part.as_str()));
            violations.extend(impure.map(|(line, part)| format!("{path}:{line}: std::{part}")));
        }
    }
    violations
}

/// Replication carries bytes: it must not be able to interpret them.
pub fn replication_is_blind(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for place in ["crates/engine/src/replication/", "crates/engine/src/replication.rs"] {
        for (path, code) in production(tree, place) {
            // The spreading of numbers is no data type.
            let code = code.replace("adt::random::mix", "mix");
            let lines = lines_with_word(&code, "adt");
            violations.extend(lines.map(|line| format!("{path}:{line}: adt")));
        }
    }
    violations
}

/// Modules of `engine` import lower modules only.
pub fn engine_has_layers(tree: &Tree) -> Vec<String> {
    let src = "crates/engine/src/";
    let layer = |name: &str| ENGINE_LAYERS.iter().position(|row| row.contains(&name));
    let modules = production(tree, src);
    let top = |path: &str| {
        let inner = path.strip_prefix(src).unwrap_or(path);
        inner.split('/').next().unwrap_or(inner).trim_end_matches(".rs").to_owned()
    };
    let mut violations = Vec::new();
    for (path, targets) in imports(&modules, src) {
        let own = top(path);
        if own == "lib" {
            continue;
        }
        let Some(here) = layer(&own) else {
            violations.push(format!("{path}: {own} is in no layer"));
            continue;
        };
        for target in targets {
            let other = top(target);
            let apart = APART.contains(&(own.as_str(), other.as_str()));
            if own != other && (apart || layer(&other).is_none_or(|there| there > here)) {
                violations.push(format!("{path}: {own} must not import {other}"));
            }
        }
    }
    violations.sort();
    violations.dedup();
    violations
}

/// `check` depends on no crate of the workspace, not even in its tests: it would share its errors.
pub fn check_stands_alone(tree: &Tree) -> Vec<String> {
    let mut violations = Vec::new();
    for member in members(tree).into_iter().filter(|member| member.name == "check") {
        for (dependency, _) in member.dependencies() {
            if EDGES.iter().any(|(crate_name, _)| *crate_name == dependency) {
                violations.push(format!("check depends on {dependency}"));
            }
        }
    }
    for (path, text) in tree.below("crates/check/").filter(|(path, _)| path.ends_with(".rs")) {
        for (number, line) in code_only(text).lines().enumerate() {
            if has_word(line, "include!") || has_word(line, "#[path") {
                violations.push(format!("{path}:{}: takes code from elsewhere", number + 1));
            }
        }
    }
    violations
}

/// A member of the workspace by the name of its folder.
struct Member<'a> {
    name: &'a str,
    manifest: Table,
}

impl Member<'_> {
    /// Dependencies of every kind, by the name that the root manifest gives them.
    fn dependencies(&self) -> impl Iterator<Item = (&str, &Value)> {
        let tables = DEPENDENCY_TABLES.iter().filter_map(|kind| self.manifest.get(*kind));
        tables.filter_map(Value::as_table).flatten().map(|(name, value)| (name.as_str(), value))
    }
}

fn members(tree: &Tree) -> Vec<Member<'_>> {
    let manifests = tree.below("crates/").filter_map(|(path, text)| {
        let name = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        // Cargo has read the manifest before this runs, so it parses.
        let manifest = text.parse().unwrap_or_else(|e| panic!("{path}: {e}"));
        (!name.contains('/')).then_some(Member { name, manifest })
    });
    manifests.collect()
}

/// The code of a folder's (or one file's) production modules, without comments, strings and tests.
pub fn production<'a>(tree: &'a Tree, place: &str) -> Vec<(&'a str, String)> {
    let mut modules = Vec::new();
    let mut tests = Vec::new();
    for (path, text) in tree.below(place).filter(|(path, _)| path.ends_with(".rs")) {
        let (code, files) = without_tests(&code_only(text));
        // Modules of `a/mod.rs`, `lib.rs` and `main.rs` lie beside them, those of `a.rs` in `a/`.
        let (folder, file) = path.rsplit_once('/').unwrap_or(("", path));
        let home = match file {
            "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
            _ => path.trim_end_matches(".rs").to_owned(),
        };
        tests.extend(files.into_iter().map(|name| format!("{home}/{name}")));
        modules.push((path, code));
    }
    modules.retain(|(path, _)| {
        !tests.iter().any(|test| {
            path.strip_prefix(test.as_str())
                .is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    });
    modules
}

/// Every bound is enforced in code.
pub fn every_limit_is_used(tree: &Tree) -> Vec<String> {
    let limits = tree.get(LIMITS).map(code_only).unwrap_or_default();
    let names = limits.lines().filter_map(|line| {
        let rest = line.strip_prefix("pub const ")?;
        Some(rest.split(':').next()?.trim().to_owned())
    });
    let used = |name: &str| {
        let mut files = tree
            .below("crates")
            .filter(|(path, _)| path.ends_with(".rs") && *path != LIMITS && path.contains("/src/"));
        files.any(|(_, text)| has_word(&without_tests(&code_only(text)).0, name))
    };
    names.filter(|name| !used(name)).map(|name| format!("{LIMITS}: nothing uses {name}")).collect()
}

/// The product has no switches that only tests, or builds with features, can turn: the tests run
/// the code of the product.
pub fn no_hidden_paths(tree: &Tree) -> Vec<String> {
    const SWITCHES: &[&str] = &["cfg!(", "cfg(feature", "cfg(debug_assertions", "cfg(not(test"];
    let mut violations = Vec::new();
    for (path, text) in tree.with_extension("rs").filter(|(path, _)| path.contains("/src/")) {
        let (code, _) = without_tests(&code_only(text));
        for (number, line) in code.lines().enumerate() {
            if let Some(switch) = SWITCHES.iter().find(|switch| line.contains(**switch)) {
                violations.push(format!("{path}:{}: {switch}", number + 1));
            }
        }
    }
    for (path, text) in tree.below("crates").filter(|(path, _)| path.ends_with("Cargo.toml")) {
        if text.lines().any(|line| line.trim() == "[features]") {
            violations.push(format!("{path}: a crate with features has code that is not tested"));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upward_arrow_is_seen() {
        let manifest =
            "[dependencies]\nengine.workspace = true\n[dev-dependencies]\nsim.workspace = true";
        let tree = Tree::of(&[("crates/wire/Cargo.toml", manifest)]);
        assert_eq!(direction(&tree), ["wire must not depend on sim"]);
        let tree =
            Tree::of(&[("crates/engine/Cargo.toml", "[dependencies]\ntokio.workspace = true")]);
        assert_eq!(direction(&tree), ["engine is pure and must not depend on tokio"]);
        assert_eq!(direction(&Tree::of(&[("crates/novel/Cargo.toml", "")])).len(), 1);
    }

    #[test]
    fn an_import_upwards_within_the_engine_is_seen() {
        let tree = Tree::of(&[
            ("crates/engine/src/ids.rs", "use crate::limits::A;\nuse crate::message::B;"),
            ("crates/engine/src/gateway/mod.rs", "use crate::{ids::C, shard::D};"),
            ("crates/engine/src/shard/mod.rs", "use crate::ids::E;"),
            ("crates/engine/src/message.rs", ""),
            ("crates/engine/src/limits.rs", ""),
            ("crates/engine/src/novel.rs", ""),
        ]);
        let expected = [
            "crates/engine/src/gateway/mod.rs: gateway must not import shard",
            "crates/engine/src/ids.rs: ids must not import message",
            "crates/engine/src/novel.rs: novel is in no layer",
        ];
        assert_eq!(engine_has_layers(&tree), expected);
    }

    #[test]
    fn a_version_in_a_member_is_seen() {
        let manifest = "[dependencies]\nbytes = \"1\"\nraft = { workspace = true }";
        let tree = Tree::of(&[("crates/wire/Cargo.toml", manifest)]);
        assert_eq!(versions_in_one_place(&tree), ["wire: bytes must say `workspace = true`"]);
    }

    #[test]
    fn impurity_is_seen_in_production_code_alone() {
        let lib = "//! tokio\nuse std::{fs, time::Duration};\nfn f() { Instant::now() }\n\
                   #[cfg(test)]\nmod laws;\n#[cfg(test)]\nmod tests { use std::env; }\n";
        let tree = Tree::of(&[
            ("crates/engine/src/lib.rs", lib),
            ("crates/engine/src/laws.rs", "use std::env;"),
            ("crates/engine/src/lawsuit.rs", "fn g() { println!() }"),
            ("crates/server/src/lib.rs", "use std::env;"),
            ("crates/wire/src/lib.rs", "const OS: &str = std::env::consts::OS;"),
        ]);
        let expected = [
            "crates/engine/src/lawsuit.rs:1: println!",
            "crates/engine/src/lib.rs:3: Instant",
            "crates/engine/src/lib.rs:2: std::fs",
        ];
        let mut violations = purity(&tree);
        violations.sort();
        let mut expected = expected.map(String::from);
        expected.sort();
        assert_eq!(violations, expected);
    }

    #[test]
    fn replication_that_looks_is_seen() {
        let tree = Tree::of(&[
            ("crates/engine/src/replication/log.rs", "//! not adt\nuse adt::Record;"),
            ("crates/engine/src/shard/state/mod.rs", "use adt::Record;"),
        ]);
        assert_eq!(replication_is_blind(&tree), ["crates/engine/src/replication/log.rs:2: adt"]);
    }

    #[test]
    fn a_checker_that_leans_on_the_product_is_seen() {
        let manifest = "[dev-dependencies]\nadt.workspace = true";
        let tree = Tree::of(&[
            ("crates/check/Cargo.toml", manifest),
            ("crates/check/src/lib.rs", "#[path = \"../../adt/src/kinds/set.rs\"]\nmod set;"),
        ]);
        assert_eq!(check_stands_alone(&tree).len(), 2);
    }

    #[test]
    fn a_limit_that_is_not_enforced_is_seen() {
        let limits = "/// A.\npub const A_MAX: usize = 1;\npub const B_MAX: usize = 2;\n";
        let tree = Tree::of(&[
            (LIMITS, limits),
            ("crates/wire/src/lib.rs", "if n > A_MAX {}\n// B_MAX\nfn f() -> &str { \"B_MAX\" }"),
            ("crates/wire/tests/lib.rs", "assert!(n < B_MAX);"),
        ]);
        assert_eq!(every_limit_is_used(&tree), [format!("{LIMITS}: nothing uses B_MAX")]);
    }

    #[test]
    fn a_switch_is_seen() {
        let lib = "//! cfg!(test)\nif cfg!(test) {}\n#[cfg(test)]\nmod tests { }\n";
        let tree = Tree::of(&[
            ("crates/wire/src/lib.rs", lib),
            ("crates/wire/Cargo.toml", "[features]\nfast = []"),
        ]);
        let manifest = "crates/wire/Cargo.toml: a crate with features has code that is not tested";
        assert_eq!(no_hidden_paths(&tree), ["crates/wire/src/lib.rs:2: cfg!(", manifest]);
    }
}
