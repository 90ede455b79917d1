//! From simulated data to files to a document: the planted effects are found.

use probe::groups::Plan;
use probe_data::analyze::{Options, analyze};
use probe_data::progress::Silent;
use probe_data::simulate::{self, simulate};
use serde_json::Value;
use std::path::Path;

fn options(nodes: u16, slow: u16, rounds: u32) -> simulate::Options {
    simulate::Options {
        nodes,
        plan: Plan::new(&[7]).unwrap(),
        days: 2,
        slow,
        seed: 4,
        rounds,
        pauses_per_hour: 3.6,
        resources: true,
        threads: 2,
    }
}

fn analyzed(root: &Path) -> Value {
    analyze(root, &Options { scatter_points: 100, ..Options::default() }, &Silent).unwrap()
}

#[test]
fn what_was_planted_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    let made = simulate(&options(14, 2, 5_000), &root, &Silent).unwrap();
    assert_eq!(made.rows, 2 * 14 * 7 * 5_000);
    let found = analyzed(&root);
    assert_eq!(found["slow_nodes"]["recall"], 1.0, "{}", found["slow_nodes"]);
    assert_eq!(found["slow_nodes"]["precision"], 1.0);
    assert!(found["slow_nodes"]["remote"]["truth"]["hits"].as_u64().unwrap() > 20);
    assert_eq!(found["s_and_t"]["truth"]["exact"], true, "{:#}", found["s_and_t"]);
    // Without a slow node the rest is noise, which must not hide the cause where there is one.
    let shares = &found["node_or_link"]["where_slow"];
    assert!(shares["node_share"].as_f64().unwrap() > 0.9, "{shares}");
    assert!(shares["group_days"].as_u64() <= found["node_or_link"]["group_days"].as_u64());
    let metrics = found["correlations"]["metrics"].as_array().unwrap();
    assert_eq!(metrics.len(), 6);
    for metric in metrics {
        let truth = &metric["truth"];
        assert_eq!(truth["same_n"], true, "{metric:#}");
        assert!(truth["error"].as_f64().unwrap() < 1e-6, "{truth}");
    }
    assert_eq!(found["correlations"]["strongest_first"][0], "stall_sum_us");
    assert_eq!(found["data"]["rows"], made.rows);
    assert_eq!(found["excluded"]["files"].as_array().unwrap().len(), 0);
}

#[test]
fn without_a_slow_node_no_cause_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    simulate(&options(7, 0, 2_000), &root, &Silent).unwrap();
    let found = analyzed(&root);
    assert_eq!(found["slow_nodes"]["action"]["nodes"], serde_json::json!([]));
    assert_eq!(found["node_or_link"]["where_slow"], serde_json::Value::Null);
    assert_eq!(found["node_or_link"]["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn the_same_seed_makes_the_same_files_on_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let (one, many) = (folder.path().join("one"), folder.path().join("many"));
    let small = options(10, 1, 200);
    simulate(&simulate::Options { threads: 1, ..small.clone() }, &one, &Silent).unwrap();
    simulate(&simulate::Options { threads: 3, ..small }, &many, &Silent).unwrap();
    let mut names: Vec<_> =
        std::fs::read_dir(&one).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert!(names.len() > 20);
    for name in names {
        let read = |root: &Path| std::fs::read(root.join(&name)).unwrap();
        assert!(read(&one) == read(&many), "{name:?}");
    }
    let mut documents = [one, many].map(|root| {
        [1, 3].map(|threads| {
            let asked = Options { threads, scatter_points: 10, ..Options::default() };
            let mut found = analyze(&root, &asked, &Silent).unwrap();
            found["run"] = Value::Null;
            found
        })
    });
    assert!(documents[0][0] == documents[0][1]);
    assert!(documents[0] == documents[1]);
    documents[0][0]["data"] = Value::Null;
    assert!(documents[0][0] != documents[1][0]);
}

#[test]
fn pauses_are_counted_from_what_is_left_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    let asked = simulate::Options { pauses_per_hour: 90.0, days: 1, ..options(14, 0, 40_000) };
    simulate(&asked, &root, &Silent).unwrap();
    let found = analyzed(&root);
    for rate in found["pauses"]["rates"].as_array().unwrap().iter().take(3) {
        assert!(rate["error"].as_f64().unwrap().abs() < 0.05, "{rate}");
    }
}
