//! Bad input is reported by name and number, and never dropped silently.

use probe::groups::Plan;
use probe_data::analyze::{Options, analyze};
use probe_data::import::{Units, import};
use probe_data::progress::Silent;
use probe_data::simulate::{self, simulate};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};

const MS: Units = Units { time_ns: 1e9, latency_ns: 1e6 };

fn data(root: &Path) {
    let options = simulate::Options {
        nodes: 6,
        plan: Plan::new(&[3]).unwrap(),
        days: 1,
        slow: 0,
        seed: 1,
        rounds: 100,
        pauses_per_hour: 0.0,
        resources: true,
        threads: 1,
    };
    simulate(&options, root, &Silent).unwrap();
}

fn analyzed(root: &Path) -> Value {
    analyze(root, &Options { scatter_points: 0, ..Options::default() }, &Silent).unwrap()
}

fn first_file(root: &Path, begin: &str) -> PathBuf {
    let mut files: Vec<PathBuf> = fs::read_dir(root).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    let named = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with(begin);
    files.iter().find(named).unwrap().clone()
}

#[test]
fn files_that_are_cut_or_damaged_are_left_out_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    data(&root);
    let all = analyzed(&root)["data"]["rows"].as_u64().unwrap();
    let path = first_file(&root, "rpc-");
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    let found = analyzed(&root);
    assert_eq!(found["data"]["rows"], all - 300);
    let file = &found["excluded"]["files"][0];
    assert_eq!(file["reason"], "cut_or_damaged");
    assert_eq!(file["size_bytes"], bytes.len() as u64 / 2);
    // Another name for the same day and node.
    fs::write(&path, &bytes).unwrap();
    fs::write(root.join("rpc-copy.parquet"), &bytes).unwrap();
    let found = analyzed(&root);
    assert_eq!(
        (&found["data"]["rows"], &found["excluded"]["files"][0]["reason"]),
        (&all.into(), &"wrong_content".into())
    );
}

#[test]
fn damage_in_the_middle_of_a_file_is_found_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    data(&root);
    let path = first_file(&root, "rpc-");
    let mut bytes = fs::read(&path).unwrap();
    bytes[4..200].fill(0xff);
    fs::write(&path, &bytes).unwrap();
    let found = analyzed(&root);
    assert_eq!(found["excluded"]["files"][0]["reason"], "cut_or_damaged", "{}", found["excluded"]);
    assert_eq!(found["data"]["caller_days"], 5);
}

#[test]
fn pieces_of_a_writer_that_died_are_read_up_to_the_last_whole_one() {
    use probe_data::tables::columns::open;
    use probe_data::tables::recorder::{CallRecorder, PIECE_NS};
    let folder = tempfile::tempdir().unwrap();
    let (root, torn) = (folder.path().join("data"), folder.path().join("torn"));
    data(&root);
    let file = open(&first_file(&root, "rpc-")).unwrap();
    let mut calls = probe_data::tables::calls::Calls::default();
    calls.read(&file, 0, &probe::sample::COLUMNS).unwrap();
    let mut recorder = CallRecorder::new(&torn, file.metadata.clone(), PIECE_NS).unwrap();
    // A call every ten seconds: a piece every sixty rounds.
    let begin_ns = calls.get(0).unwrap().t_sched_ns;
    let due_ns = |round: u32| begin_ns + i64::from(round) * 10_000_000_000;
    for row in 0..calls.len() {
        let mut sample = calls.get(row).unwrap();
        sample.t_sched_ns = due_ns(sample.round);
        recorder.push(&sample).unwrap();
    }
    // The agent crashes: rows that are not in a piece are lost, and one more piece was being
    // written.
    drop(recorder);
    fs::write(torn.join("pieces/rpc-00000-00000-00001.unfinished"), b"PAR1...").unwrap();
    let found = analyzed(&torn);
    assert_eq!(found["data"]["rows"], 180);
    assert_eq!(found["excluded"]["files"][0]["reason"], "unfinished");
    // It restarts, continues after the existing pieces, and makes one file at the end of the day.
    let mut recorder = CallRecorder::new(&torn, file.metadata.clone(), PIECE_NS).unwrap();
    for row in 180..calls.len() {
        let mut sample = calls.get(row).unwrap();
        sample.t_sched_ns = due_ns(sample.round);
        recorder.push(&sample).unwrap();
    }
    recorder.finish().unwrap();
    assert_eq!(analyzed(&torn)["data"]["rows"], 300);
    assert_eq!(fs::read_dir(torn.join("pieces")).unwrap().count(), 0);
}

#[test]
fn lines_that_cannot_be_read_are_counted_by_reason() {
    let folder = tempfile::tempdir().unwrap();
    let (csv, root) = (folder.path().join("a.csv"), folder.path().join("data"));
    let text = "time,src,dst,latency\n\
                1700000000,a,b,1.5\n\
                1700000000,a,c,2.25\n\
                1700000000,a,b,9\n\
                1700000001,a,b,NaN\n\
                1700000001,a,c,-1\n\
                soon,a,b,1\n\
                1700000002,a,b,fast\n\
                1700000003,a\n\
                1700000004,a,b,1e9\n\
                1700000005,b,a,\n\
                1700000006,,a,1\n";
    fs::write(&csv, text).unwrap();
    let told = import(&csv, MS, "test", &root, &Silent).unwrap();
    assert_eq!((told.rows, told.nodes.len()), (3, 3));
    let expected = [
        ("fields_missing", 1),
        ("latency_above_429_s", 1),
        ("latency_negative", 1),
        ("latency_not_a_number", 1),
        ("latency_not_finite", 1),
        ("name_missing", 1),
        ("second_call_of_one_time", 1),
        ("time_not_a_number", 1),
    ];
    assert_eq!(told.excluded.into_iter().collect::<Vec<_>>(), expected);
    assert_eq!(
        (told.first_excluded[0].line, told.first_excluded[0].reason),
        (5, "latency_not_finite")
    );
    let found = analyzed(&root);
    assert_eq!(found["individual"]["completed_ns"]["p50"], 1_500_000);
    assert_eq!(found["individual"]["no_reply"], 1);
    // A folder that is not empty is not touched, and a file without any call is refused.
    assert!(
        import(&csv, MS, "test", &root, &Silent).unwrap_err().to_string().contains("not empty")
    );
    fs::write(&csv, "1,a,b,x\n").unwrap();
    let error = import(&csv, MS, "test", &folder.path().join("new"), &Silent).unwrap_err();
    assert!(error.to_string().contains("latency not a number"), "{error}");
}

#[test]
fn matrices_are_imported_as_three_calls_of_each_pair() {
    let folder = tempfile::tempdir().unwrap();
    let (from, root) = (folder.path().join("matrix"), folder.path().join("data"));
    fs::create_dir(&from).unwrap();
    fs::write(from.join("x.dat"), "0.1/0.2/0.4/0.1:x\n10/11/12.5/1:y\n30/31/32/1:z\n").unwrap();
    fs::write(from.join("y.dat"), "10/11/12/1:x\n0.1/0.2/0.4/0.1:y\n30/20/32/1:z\n").unwrap();
    let told = import(&from, MS, "regions", &root, &Silent).unwrap();
    assert_eq!((told.rows, told.excluded["min_avg_max_not_in_order"]), (15, 1));
    let found = analyzed(&root);
    let rows = found["observations"]["rows"].as_array().unwrap();
    let pair = rows.iter().find(|row| row[2] == 0 && row[3] == 1).unwrap();
    assert_eq!((&pair[5], &pair[6]), (&11_000_000.into(), &12_500_000.into()));
    assert_eq!(found["slow_nodes"]["recall"], Value::Null);
}
