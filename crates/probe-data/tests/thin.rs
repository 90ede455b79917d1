//! Thinning out: late calls are kept, nothing is counted twice, and an interrupted job loses
//! nothing.

use probe::groups::Plan;
use probe::schedule::epoch_of;
use probe_data::analyze::{Options, analyze};
use probe_data::progress::Silent;
use probe_data::simulate::{self, simulate};
use probe_data::tables::dataset::DataSet;
use probe_data::tables::thin::{self, Thinned};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const DAY: i64 = 86_400_000_000_000;

fn made(root: &Path, days: u16) {
    let options = simulate::Options {
        nodes: 4,
        plan: Plan::new(&[4]).unwrap(),
        days,
        slow: 1,
        seed: 8,
        rounds: 4_000,
        pauses_per_hour: 60.0,
        resources: true,
        threads: 2,
    };
    simulate(&options, root, &Silent).unwrap();
}

fn analyzed(root: &Path) -> Value {
    analyze(root, &Options { scatter_points: 0, ..Options::default() }, &Silent).unwrap()
}

fn first_day(root: &Path) -> i64 {
    *DataSet::open(root).unwrap().calls.keys().map(|(day, _)| day).next().unwrap()
}

fn thinned(root: &Path, last_day: i64) -> Thinned {
    thin::thin(root, thin::Options { last_day, node: None, threads: 2 }, &Silent).unwrap()
}

/// Files of a folder, by name, with their contents.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.is_file());
    files.map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

fn count(root: &Path, table: &str) -> usize {
    let named = |path: &&PathBuf| {
        path.file_name().unwrap().to_str().unwrap().starts_with(&format!("{table}-"))
    };
    files(root).keys().filter(named).count()
}

#[test]
fn of_an_old_day_all_calls_are_counted_and_what_was_late_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let (all, old) = (folder.path().join("all"), folder.path().join("old"));
    made(&all, 2);
    // The same day by itself, unchanged.
    made(&old, 1);
    let raw = analyzed(&old);
    let first = first_day(&all);
    let done = thinned(&all, first);
    assert_eq!((done.caller_days, done.host_days), (4, 4));
    assert_eq!(raw["data"]["rows"], done.calls);
    assert!(done.kept > 0 && done.kept <= done.calls / 100, "{done:?}");
    assert!(done.bytes_after * 2 < done.bytes_before, "{done:?}");
    let tables = ["rpc", "res", "sketch", "tail", "load"].map(|table| count(&all, table));
    assert_eq!(tables, [4, 4, 4, 4, 4]);

    let found = analyzed(&all);
    assert_eq!(found["data"]["days"], 1, "the other day is unchanged");
    assert_eq!(found["excluded"]["files"].as_array().unwrap().len(), 0, "{}", found["excluded"]);
    let known = &found["thinned"];
    assert_eq!((&known["calls"], &known["kept"]), (&done.calls.into(), &done.kept.into()));
    let statuses = known["statuses"].as_object().unwrap().values();
    assert_eq!(statuses.map(|n| n.as_u64().unwrap()).sum::<u64>(), done.calls);
    for (now, before) in
        known["by_workload"].as_array().unwrap().iter().zip(raw["by_workload"].as_array().unwrap())
    {
        let (law, name) = (&before["individual"], &before["workload"]);
        assert_eq!((&now["workload"], &now["calls"]), (name, &law["calls"]));
        assert_eq!(now["no_reply"], law["no_reply"], "{name}");
        for (quantile, key) in [("p50_ns", "p50"), ("p90_ns", "p90"), ("p99_ns", "p99")] {
            let exact = law["all_ns"][key].as_f64().unwrap();
            let got = now[quantile].as_f64().unwrap();
            assert!((exact..=exact * 1.016).contains(&got), "{name} {key}: {got} for {exact}");
        }
        // Rare enough to be above the 99th percentile of its pair.
        assert_eq!(now["p99_9_ns"], law["all_ns"]["p99_9"], "{name}");
    }
    let callees = known["callees"].as_array().unwrap();
    assert_eq!(callees.len(), 4);
    let p90 = |row: &&Value| row["p90_ns"].as_u64().unwrap();
    let slowest = callees.iter().max_by_key(p90).unwrap();
    let planted = &DataSet::open(&all).unwrap().metadata.planted.unwrap().slow_nodes;
    assert_eq!(slowest["node"].as_u64().unwrap(), u64::from(planted[0]));
    assert_eq!(thinned(&all, first).caller_days, 0, "once is enough");
}

#[test]
fn a_job_that_is_cut_off_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    made(&root, 1);
    let day = first_day(&root);
    let before = files(&root);
    let rows = analyzed(&root)["data"]["rows"].as_u64().unwrap();
    thinned(&root, day);
    let after = files(&root);
    let named = |files: &BTreeMap<PathBuf, Vec<u8>>, begin: &str| {
        let mut names = files.iter().map(|(path, bytes)| (path.clone(), bytes.clone()));
        names
            .find(|(path, _)| path.file_name().unwrap().to_str().unwrap().starts_with(begin))
            .unwrap()
    };
    // Every day is thinned out: the error names the remaining data and a way to query it.
    let error = analyze(&root, &Options::default(), &Silent).unwrap_err().to_string();
    assert!(error.contains("only thinned-out days"), "{error}");
    // Interrupted after the first of two files: the old one counts.
    for path in after.keys() {
        fs::remove_file(path).unwrap();
    }
    for (path, bytes) in &before {
        fs::write(path, bytes).unwrap();
    }
    let (sketch, sketch_bytes) = named(&after, "sketch-");
    fs::write(&sketch, &sketch_bytes).unwrap();
    let found = analyzed(&root);
    assert_eq!(found["data"]["rows"], rows);
    assert!(
        found["thinned"].is_null() && found["excluded"]["files"].as_array().unwrap().is_empty()
    );
    // Interrupted before the old one was removed: the new ones count, and that is reported.
    let (tail, tail_bytes) = named(&after, "tail-");
    fs::write(&tail, &tail_bytes).unwrap();
    let found = analyzed(&root);
    assert_eq!(found["data"]["rows"], rows / 4 * 3);
    assert_eq!(found["thinned"]["calls"], rows / 4);
    assert_eq!(found["excluded"]["files"][0]["reason"], "thinned_already");
    // Repeating the job completes it.
    assert_eq!(thinned(&root, day).caller_days, 3);
    // A single file of the two is no day.
    fs::remove_file(&tail).unwrap();
    fs::remove_file(named(&before, "rpc-").0).unwrap();
    let opened = DataSet::open(&root).unwrap();
    assert_eq!((opened.thinned.len(), opened.exclusions.files[0].reason), (3, "half_of_a_day"));
}

#[test]
fn what_cannot_be_read_and_what_is_young_stays() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    made(&root, 1);
    let day = first_day(&root);
    assert_eq!(epoch_of(day * DAY), day);
    assert_eq!(thinned(&root, day - 1), Thinned::default());
    let victim =
        files(&root).keys().find(|path| path.display().to_string().contains("rpc-")).cloned();
    let victim = victim.unwrap();
    let mut bytes = fs::read(&victim).unwrap();
    bytes[4..200].fill(0xff);
    fs::write(&victim, &bytes).unwrap();
    let done = thinned(&root, day);
    assert_eq!((done.caller_days, done.excluded.files.len()), (3, 1), "{done:?}");
    assert_eq!(done.excluded.files[0].reason, "cut_or_damaged");
    assert!(victim.is_file(), "it may be repaired");
    // Files of one node only.
    let other = folder.path().join("other");
    made(&other, 1);
    let of_one = thin::Options { last_day: day, node: Some(2), threads: 1 };
    let done = thin::thin(&other, of_one, &Silent).unwrap();
    assert_eq!((done.caller_days, done.host_days), (1, 1));
}
