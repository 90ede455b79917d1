//! Comparison of the analyses with a reference that shares no code with them: every value that both
//! have must be equal; whole numbers in every bit, coefficients to a billionth.

use check::synchrony::{self, HostRow, Row, Watch, at_most, calls, distribution, groups, sessions};
use probe::groups::Plan;
use probe::random::Numbers;
use probe::resources::Metric;
use probe::sample::COLUMNS;
use probe_data::DataSet;
use probe_data::analyze::{Options, analyze};
use probe_data::progress::Silent;
use probe_data::simulate::{self, simulate};
use probe_data::tables::calls::Calls;
use probe_data::tables::recorder::CallRecorder;
use probe_data::tables::{columns, hosts};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const FLOOR_NS: u64 = 1_000_000;
const LEVEL_NS: u64 = 300_000_000;
const CUTS_NS: [u64; 2] = [1_000_000, 3_000_000];
const SIZE: u8 = 5;

fn made_up(root: &Path, seed: u64) {
    let options = simulate::Options {
        nodes: 8,
        plan: Plan::new(&[3, 5]).unwrap(),
        days: 2,
        slow: 2,
        seed,
        rounds: 700,
        pauses_per_hour: 60.0,
        resources: true,
        threads: 2,
    };
    simulate(&options, root, &Silent).unwrap();
}

/// Reads everything, row by row.
fn read(root: &Path) -> (Vec<Row>, Vec<HostRow>) {
    let data = DataSet::open(root).unwrap();
    let (mut rows, mut host_rows) = (Vec::new(), Vec::new());
    for ((day, _), source) in &data.calls {
        let mut calls = Calls::default();
        for file in source.open().unwrap() {
            (0..file.groups()).for_each(|group| calls.read(&file, group, &COLUMNS).unwrap());
        }
        for sample in (0..calls.len()).map(|at| calls.get(at).unwrap()) {
            rows.push(Row {
                day: *day,
                group: sample.group,
                size: sample.group_size,
                workload: sample.workload.code(),
                src: sample.src,
                dst: sample.dst,
                round: sample.round,
                t_sched_ns: sample.t_sched_ns,
                lag_ns: sample.lag_ns,
                rtt_100ns: sample.rtt_100ns,
                svc_100ns: sample.svc_100ns,
                rx_off_us: sample.rx_off_us,
                status: sample.status.code(),
            });
        }
    }
    for ((day, node), source) in &data.hosts {
        for file in source.open().unwrap() {
            for row in hosts::rows(&file).unwrap() {
                let values = ["stall_sum_us", "stall_max_us", "disk_io_ms"].map(|name| {
                    let metric = Metric::named(name).unwrap();
                    ((*name).to_owned(), (metric.get)(&row).unwrap())
                });
                let metrics = values.into_iter().collect();
                host_rows.push(HostRow { day: *day, node: *node, t_ns: row.t_ns, metrics });
            }
        }
    }
    (rows, host_rows)
}

/// Makes calls late, unanswered, refused and so on, and leaves some out.
fn roughen(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    let data = DataSet::open(from).unwrap();
    for source in data.hosts.values() {
        for path in &source.files {
            fs::copy(path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
    let mut numbers = Numbers::new(77);
    for source in data.calls.values() {
        let file = columns::open(&source.files[0]).unwrap();
        let mut calls = Calls::default();
        calls.read(&file, 0, &COLUMNS).unwrap();
        let mut recorder = CallRecorder::new(to, file.metadata.clone(), i64::MAX).unwrap();
        let mut skipped = None;
        for mut sample in (0..calls.len()).map(|at| calls.get(at).unwrap()) {
            if sample.dst == source.metadata.groups[usize::from(sample.group)][0] {
                skipped = (numbers.below(50) == 0).then_some(sample.round);
            }
            let fate = numbers.below(200);
            let status = if skipped == Some(sample.round) { 5 } else { fate.min(8) };
            if let Some(status) = probe::Status::from_code(status as u8) {
                sample.status = status;
                if !status.has_reply() {
                    (sample.rtt_100ns, sample.svc_100ns, sample.rx_off_us) = (None, None, None);
                } else if sample.rtt_100ns.is_none() {
                    sample.status = probe::Status::NoReply;
                } else if status == probe::Status::Late {
                    sample.rtt_100ns = Some(100_000_000 + numbers.below(1_000_000) as u32);
                }
            }
            if fate == 20 {
                sample.svc_100ns = None;
            }
            if fate != 21 {
                recorder.push(&sample).unwrap();
            }
        }
        recorder.finish().unwrap();
    }
    fs::remove_dir(to.join("pieces")).unwrap();
}

/// Checks that the document has all values of the reference.
fn agree(path: &str, reference: &Value, document: &Value) {
    match (reference, document) {
        (Value::Object(expected), Value::Object(found)) => {
            for (key, value) in expected {
                let there = found.get(key).unwrap_or_else(|| panic!("{path} has no {key}"));
                agree(&format!("{path}.{key}"), value, there);
            }
        }
        (Value::Array(expected), Value::Array(found)) => {
            assert_eq!(expected.len(), found.len(), "{path}: {reference} {document}");
            for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
                agree(&format!("{path}[{at}]"), expected, found);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            assert!((a - b).abs() <= 1e-9 * a.abs().max(1.0), "{path}: {a} {b}");
        }
        _ => assert_eq!(reference, document, "{path}"),
    }
}

fn cdf(path: &str, latencies: &[synchrony::Latency], told: &Value) {
    let points = told["cdf"]["at_most_ns"].as_array().unwrap();
    assert!(points.len() > 100, "{path}");
    let counts: Vec<u64> =
        points.iter().map(|point| at_most(latencies, point.as_u64().unwrap())).collect();
    agree(path, &json!(counts), &told["cdf"]["calls"]);
}

fn compare_latencies(rows: &[Row], found: &Value) {
    let sessions = sessions(rows);
    let all = calls(rows, |_| true);
    agree("individual", &distribution(&all), &found["individual"]);
    cdf("individual", &all, &found["individual"]);
    let all = groups(&sessions, |_| true);
    agree("group", &distribution(&all), &found["group"]);
    cdf("group", &all, &found["group"]);
    let both = |choose: &dyn Fn(&Row) -> bool| {
        json!({
            "individual": distribution(&calls(rows, choose)),
            "group": distribution(&groups(&sessions, choose)),
        })
    };
    let names = ["null", "crypto", "disk", "network", "all"];
    for told in found["by_workload"].as_array().unwrap() {
        let code = names.iter().position(|name| told["workload"] == *name).unwrap();
        let reference = both(&|row| usize::from(row.workload) == code);
        agree("by_workload", &reference, told);
    }
    for told in found["by_group_size"].as_array().unwrap() {
        agree("by_group_size", &both(&|row| told["group_size"] == row.size), told);
    }
    for told in found["by_group_size_and_workload"].as_array().unwrap() {
        let choose = |row: &Row| {
            told["group_size"] == row.size && told["workload"] == names[usize::from(row.workload)]
        };
        agree("by_group_size_and_workload", &both(&choose), told);
    }
    for told in found["s_and_t"]["group_sizes"].as_array().unwrap() {
        let size = told["group_size"].as_u64().unwrap() as u8;
        for one in told["t_of_s"].as_array().unwrap() {
            let (s, eps) = (one["s"].as_u64().unwrap() as usize, one["eps_ppm"].as_u64().unwrap());
            let t = synchrony::t_of_s(&sessions, size, s, eps);
            agree("t_of_s", &t.map_or(Value::Null, synchrony::Latency::told), &one["t_ns"]);
        }
        for curve in told["s_of_t"].as_array().unwrap() {
            let eps = curve["eps_ppm"].as_u64().unwrap();
            let mut last = usize::from(size) + 1;
            for step in curve["steps"].as_array().unwrap() {
                let t_ns = step["from_t_ns"].as_u64().unwrap();
                let s = synchrony::s_of_t(&sessions, size, t_ns, eps);
                agree("s_of_t", &s.into(), &step["s"]);
                assert!(s < last, "s rises with T");
                last = s;
            }
        }
    }
    let (day, group) = (found["day_view"]["day"].as_i64(), found["day_view"]["group"].as_u64());
    let own: Vec<Row> = rows
        .iter()
        .filter(|row| (Some(row.day), Some(u64::from(row.group))) == (day, group))
        .cloned()
        .collect();
    let view = json!({
        "by_initiator": synchrony::day_view(&own, |row| row.src, CUTS_NS),
        "by_receiver": synchrony::day_view(&own, |row| row.dst, CUTS_NS),
    });
    agree("day_view", &view, &found["day_view"]);
    for rate in found["pauses"]["rates"].as_array().unwrap() {
        let ms = rate["longer_than_ms"].as_u64().unwrap();
        let near = |tenths| synchrony::near_pause(rows, ms, tenths);
        agree("pauses", &near((9, 11)).into(), &rate["calls_near"]);
        agree("pauses", &near((9, 10)).into(), &rate["calls_below"]);
    }
}

fn compare_slow(rows: &[Row], found: &Value) {
    for variant in ["seed", "remote", "service", "action"] {
        let watch = Watch::plain(variant, FLOOR_NS);
        let sets = synchrony::slow_sets(rows, &watch);
        agree(variant, &sets, &found["slow_nodes"][variant]["sets"]);
        let histogram = synchrony::slow_histogram(rows, &watch, SIZE);
        agree(variant, &histogram, &found["slow_histogram"][variant]);
        agree(variant, &synchrony::jaccard(rows, &watch), &found["jaccard"][variant]);
    }
    let sensitivity = synchrony::sensitivity(rows, FLOOR_NS, SIZE);
    agree("sensitivity", &sensitivity, &found["sensitivity"]);
    agree("node_or_link", &synchrony::node_or_link(rows), &found["node_or_link"]["rows"]);
    let timeline = synchrony::slow_timeline(rows, FLOOR_NS);
    agree("slow_timeline", &timeline, &found["slow_timeline"]["nodes"]);
}

fn compare_resources(rows: &[Row], hosts: &[HostRow], found: &Value) {
    let pairs = synchrony::pairs(rows, hosts);
    assert!(pairs.len() > rows.len() / 2);
    agree("pairing", &synchrony::pairing(rows, &pairs), &found["pairing"]);
    for told in found["correlations"]["metrics"].as_array().unwrap() {
        let name = told["metric"].as_str().unwrap();
        if ["stall_sum_us", "disk_io_ms"].contains(&name) {
            agree(name, &synchrony::correlations(rows, &pairs, name), told);
        }
    }
    let episodes = synchrony::episodes(rows, &pairs, LEVEL_NS);
    agree("episodes", &episodes, &found["episodes"]["list"]);
}

fn compare(root: &Path) -> Value {
    let options = Options {
        floor_ns: FLOOR_NS,
        episode_level_ns: LEVEL_NS,
        cuts_ns: CUTS_NS,
        histogram_size: SIZE,
        scatter_points: 10,
        ..Options::default()
    };
    let found = analyze(root, &options, &Silent).unwrap();
    let (rows, hosts) = read(root);
    compare_latencies(&rows, &found);
    compare_slow(&rows, &found);
    compare_resources(&rows, &hosts, &found);
    found
}

#[test]
fn analyses_and_the_second_opinion_agree() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("data");
    made_up(&root, 5);
    let found = compare(&root);
    assert!(found["episodes"]["episodes"].as_u64().unwrap() > 3);
    assert!(found["slow_nodes"]["remote"]["slow_observations"].as_u64().unwrap() > 3);
}

#[test]
fn they_agree_on_calls_with_every_fate() {
    let folder = tempfile::tempdir().unwrap();
    let (smooth, rough) = (folder.path().join("smooth"), folder.path().join("rough"));
    made_up(&smooth, 6);
    roughen(&smooth, &rough);
    let found = compare(&rough);
    for reason in ["down", "skipped", "absent", "incomplete_sessions"] {
        assert!(found["excluded"]["rows"][reason].as_u64().unwrap() > 50, "{reason}");
    }
}
