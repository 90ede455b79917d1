//! Hand-made histories with the verdicts that they must get.
//!
//! A story file holds several stories. `=== name` begins one, `expect CHECKER: ...` lines give the
//! required answer of each checker (`valid`, `none` if it does not apply, or exactly the kinds of
//! anomalies), and the rest is a dialogue (see `check::dialogue`).

use check::{History, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

struct Story {
    name: String,
    expected: BTreeMap<String, BTreeSet<String>>,
    text: String,
}

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

fn files(extension: &str) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == extension))
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

/// Reads one `expect` line; anything else is not an expectation.
fn expectation(line: &str) -> Option<(String, BTreeSet<String>)> {
    let (checker, kinds) =
        line.trim_start_matches("# ").strip_prefix("expect ")?.split_once(':')?;
    let kinds = kinds.split(',').map(|kind| kind.trim().to_owned()).collect();
    Some((checker.to_owned(), kinds))
}

fn stories() -> Vec<Story> {
    let mut stories: Vec<Story> = Vec::new();
    for (file, text) in files("txt") {
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("=== ") {
                let name = format!("{file}: {name}");
                stories.push(Story { name, expected: BTreeMap::new(), text: String::new() });
                continue;
            }
            let Some(story) = stories.last_mut() else { continue };
            match expectation(line) {
                Some((checker, kinds)) => drop(story.expected.insert(checker, kinds)),
                None => story.text.push_str(&format!("{line}\n")),
            }
        }
    }
    for (name, text) in files("jsonl") {
        let expected = text.lines().filter_map(expectation).collect();
        stories.push(Story { name, expected, text });
    }
    stories
}

fn kinds(verdicts: &[Verdict], checker: &str) -> BTreeSet<String> {
    let Some(verdict) = verdicts.iter().find(|verdict| verdict.checker == checker) else {
        return BTreeSet::from(["none".to_owned()]);
    };
    assert_eq!(verdict.valid, verdict.anomalies.is_empty());
    if verdict.valid {
        return BTreeSet::from(["valid".to_owned()]);
    }
    verdict.anomalies.iter().map(|anomaly| anomaly.kind.clone()).collect()
}

#[test]
fn every_story_gets_the_verdict_that_it_must() {
    let stories = stories();
    let names: BTreeSet<&String> = stories.iter().map(|story| &story.name).collect();
    assert_eq!(names.len(), stories.len(), "names are unique");
    assert!(stories.len() >= 60, "only {} stories", stories.len());
    let mut wrong = Vec::new();
    for story in &stories {
        let history = match check::parse(&story.text) {
            Ok(history) => history,
            Err(error) => panic!("{}: {error}", story.name),
        };
        let verdicts = check::check_all(&history);
        for checker in ["replay", "cycles"] {
            assert!(story.expected.contains_key(checker), "{}: {checker}", story.name);
        }
        for (checker, expected) in &story.expected {
            let found = kinds(&verdicts, checker);
            if found != *expected {
                let texts: Vec<String> = verdicts.iter().map(Verdict::to_text).collect();
                wrong.push(format!(
                    "{}: {checker} says {found:?}, not {expected:?}\n{}",
                    story.name,
                    texts.concat()
                ));
            }
        }
        let valid = |checker| {
            let found = kinds(&verdicts, checker);
            found.contains("valid") || found.contains("none")
        };
        if !valid("cycles") && kinds(&verdicts, "replay").contains("valid") {
            wrong.push(format!("{}: replay and cycles disagree", story.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_story_survives_its_json_form() {
    for story in stories() {
        let history = check::parse(&story.text).unwrap();
        let text = history.to_jsonl();
        let again = History::from_lines(text.lines()).unwrap();
        let verdicts = |history| check::check_all(history);
        assert_eq!(verdicts(&history), verdicts(&again), "{}", story.name);
    }
}

#[test]
fn every_invalid_story_is_explained() {
    for story in stories() {
        let history = check::parse(&story.text).unwrap();
        for verdict in check::check_all(&history) {
            for anomaly in &verdict.anomalies {
                assert!(anomaly.explanation.len() > 20, "{}: {anomaly:?}", story.name);
                let known = |id: &usize| *id < history.txns.len();
                assert!(anomaly.txns.iter().all(known), "{}: {anomaly:?}", story.name);
            }
        }
    }
}
