//! What the page says before it shows anything: what the data are, and what was found in them.

use crate::escape::html;
use crate::shrink::list;
use serde_json::Value;

/// Slow nodes that are named; the matrix has all.
const NAMED: usize = 8;

/// A latency in nanoseconds with a unit and three digits.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        _ => (ns / 1e9, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

fn time_of(value: &Value) -> String {
    value.as_f64().map_or_else(|| "never".into(), time)
}

/// A number with a gap at every thousand.
pub fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

fn whole(value: &Value) -> String {
    number(value.as_u64().unwrap_or(0))
}

fn named(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// The title of the page.
pub fn title(found: &Value) -> String {
    format!("How synchronous is {}?", named(&found["data"]["deployment"]))
}

/// What the data are, as one paragraph of HTML.
pub fn about(found: &Value) -> String {
    let data = &found["data"];
    let origin = match data["origin"].as_str() {
        Some("measured") => "Measured by agents",
        Some("simulated") => "Made up, with known truth",
        Some("imported") => "Imported from another program",
        _ => "Of unknown origin",
    };
    let days = match (data["first_date"].as_str(), data["last_date"].as_str()) {
        (Some(first), Some(last)) if first == last => format!("on {}", html(first)),
        (Some(first), Some(last)) => format!("from {} to {}", html(first), html(last)),
        _ => "on no day".into(),
    };
    let epochs = data["days"].as_u64().unwrap_or(0);
    format!(
        "<p>{origin}: deployment <b>{}</b>, {} nodes, {} {days} (UTC), {} calls, of which {} had no \
         reply, {} rows of host resources.</p>",
        html(named(&data["deployment"])),
        list(&data["nodes"]).count(),
        if epochs == 1 { "one epoch (day)".into() } else { format!("{epochs} epochs (days)") },
        whole(&data["rows"]),
        whole(&data["no_reply"]),
        whole(&data["resource_rows"]),
    )
}

/// What was asked of the calibration, as one paragraph of HTML.
pub fn wanted(calibrated: &Value) -> String {
    let inputs = &calibrated["inputs"];
    let Some(per_s) = inputs["mistakes_per_s"].as_f64().filter(|per_s| *per_s > 0.0) else {
        return String::new();
    };
    let days = 1.0 / per_s / 86_400.0;
    let once = if days >= 1.0 {
        format!("{} days", short(days))
    } else {
        format!("{} hours", short(days * 24.0))
    };
    format!(
        "<p class=\"read\">Asked for: one false suspicion in {once}, a risk of {}, windows of {} hours.</p>",
        inputs["risk"],
        short(inputs["window_ns"].as_f64().unwrap_or_default() / 3.6e12),
    )
}

/// Up to two digits behind the point, and none for whole numbers.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The main findings, each a sentence of text (not HTML).
pub fn findings(found: &Value, calibrated: &Value) -> Vec<String> {
    let mut told = Vec::new();
    latency(&mut told, found);
    slow(&mut told, found);
    node_or_link(&mut told, found);
    correlated(&mut told, &found["correlations"]);
    if let Some(ms) = calibrated["raft"]["election_timeout_ms"].as_f64() {
        let evidence = &calibrated["raft"]["evidence"];
        let mark = if evidence["extrapolated"] == true { " (extrapolated)" } else { "" };
        let per_s = calibrated["inputs"]["raft"]["false_suspicions_per_s"].as_f64();
        let once = per_s.filter(|per_s| *per_s > 0.0).map_or_else(String::new, |per_s| {
            format!(" for one false suspicion of a leader in {:.0} days", 1.0 / per_s / 86_400.0)
        });
        told.push(format!(
            "A Raft group needs an election time-out of {}{once}{mark}.",
            time(ms * 1e6)
        ));
    }
    told
}

fn latency(told: &mut Vec<String>, found: &Value) {
    let (one, group) = (&found["individual"]["all_ns"], &found["group"]["all_ns"]);
    if found["individual"]["calls"].as_u64().unwrap_or(0) == 0 {
        told.push("There is no call that says anything about latency.".into());
        return;
    }
    told.push(format!(
        "Half of all calls are answered within {}, 99 % within {}, 99.9 % within {}.",
        time_of(&one["p50"]),
        time_of(&one["p99"]),
        time_of(&one["p99_9"])
    ));
    told.push(format!(
        "Who waits for all members of a group waits {} in half of the cases, and {} in one of a \
         hundred or longer.",
        time_of(&group["p50"]),
        time_of(&group["p99"])
    ));
}

fn slow(told: &mut Vec<String>, found: &Value) {
    let slow = &found["slow_nodes"];
    let count = |node: &Value, key: &str| node[key].as_u64().unwrap_or(0);
    let mut nodes: Vec<&Value> = list(&slow["action"]["nodes"]).collect();
    nodes.retain(|node| count(node, "slow_observations") > 0);
    nodes.sort_by_key(|node| std::cmp::Reverse(count(node, "slow_observations")));
    let most = |node: &&&Value| count(node, "slow_observations") * 2 > count(node, "observations");
    let by_most = nodes.iter().filter(most).count();
    if nodes.is_empty() {
        told.push("No node is slow to any observer.".into());
    } else {
        let each = nodes.iter().take(NAMED).map(|node| {
            let (of, all) = (count(node, "slow_observations"), count(node, "observations"));
            format!("{} to {of} of {all}", named(&node["name"]))
        });
        let each: Vec<String> = each.collect();
        let more = nodes.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let all = list(&found["data"]["nodes"]).count();
        // If nearly everybody is slow, "slow" does not tell anybody apart.
        let hint = if by_most * 2 > all {
            " So many are slow that it is distance or load rather than a node."
        } else {
            ""
        };
        told.push(format!(
            "{by_most} of {all} nodes are slow to most observers (p90 at least twice the least). Slow, \
             by observers and days: {}{more}.{hint}",
            each.join(", ")
        ));
    }
    let jaccard = &found["jaccard"]["action"];
    if let (Some(mean), Some(pairs)) = (jaccard["mean"].as_f64(), jaccard["pairs"].as_u64()) {
        told.push(format!(
            "Two observers who call anybody slow agree by {mean:.2} on average (1 is the same \
             nodes; {} pairs).",
            number(pairs)
        ));
    }
    if let (Some(recall), Some(precision)) = (slow["recall"].as_f64(), slow["precision"].as_f64()) {
        told.push(format!(
            "Of the slow nodes that were planted, recall is {recall:.3} and precision {precision:.3}."
        ));
    }
}

fn node_or_link(told: &mut Vec<String>, found: &Value) {
    let of = &found["node_or_link"]["where_slow"];
    let share = |key: &str| of[key].as_f64();
    let shares = (share("node_share"), share("link_share"), share("observer_share"));
    let (Some(node), Some(link), Some(observer)) = shares else { return };
    let meaning = if node >= 0.5 {
        "look at the nodes that are called"
    } else if link >= 0.5 {
        "look at the network, or at distance, between pairs"
    } else {
        "neither explains most of it"
    };
    told.push(format!(
        "Where somebody is slow ({} groups and days), {:.0} % of what differs between pairs is the \
         node that is called, {:.0} % the link and {:.0} % the observer (the median one): {meaning}.",
        whole(&of["group_days"]),
        node * 100.0,
        link * 100.0,
        observer * 100.0
    ));
}

fn correlated(told: &mut Vec<String>, correlations: &Value) {
    let Some(name) = list(&correlations["strongest_first"]).next() else {
        told.push(
            "There are no metrics of hosts, so nothing is said about why calls are late.".into(),
        );
        return;
    };
    let mut rows = list(&correlations["metrics"]);
    let Some(row) = rows.find(|row| row["metric"] == *name) else { return };
    let Some(r) = row["all"]["pearson_r"].as_f64() else { return };
    let range = &row["all"]["pearson_r_95"];
    let range = match (range[0].as_f64(), range[1].as_f64()) {
        (Some(low), Some(high)) => format!(" (95 %: {low:.3} to {high:.3})"),
        _ => String::new(),
    };
    told.push(format!(
        "Of all metrics of hosts, latency goes with {} most: r = {r:.3}{range}.",
        named(name)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_numbers_and_days_are_read_as_people_write_them() {
        assert_eq!(time(1_505_500.0), "1.51 ms");
        assert_eq!(time(452.0), "452 ns");
        assert_eq!(time(12_000_000_000.0), "12.0 s");
        assert_eq!(number(1_234_567), "1\u{202f}234\u{202f}567");
        assert_eq!((number(0), number(999)), ("0".into(), "999".into()));
        assert_eq!(
            (short(90.0), short(0.5), short(100.0)),
            ("90".into(), "0.5".into(), "100".into())
        );
        let of = |last: &str| {
            about(&json!({ "data": { "first_date": "2024-01-01", "last_date": last } }))
        };
        assert!(of("2024-01-01").contains("on 2024-01-01 (UTC)"));
        assert!(of("2024-02-29").contains("from 2024-01-01 to 2024-02-29 (UTC)"));
    }

    #[test]
    fn findings_name_who_is_slow_to_how_many_and_whether_nodes_or_links_are() {
        let node = |name: &str, slow: u64| {
            let all = 6;
            json!({ "name": name, "observations": all, "slow_observations": slow })
        };
        let found = json!({
            "data": { "nodes": ["a", "b", "c"] },
            "individual": { "calls": 3, "all_ns": { "p50": 1e6, "p99": null, "p99_9": null } },
            "slow_nodes": { "action": {
                "nodes": [node("b", 1), node("c", 6)],
            } },
            "node_or_link": { "where_slow": {
                "group_days": 1, "node_share": 0.14, "link_share": 0.72, "observer_share": 0.14,
            } },
        });
        let calibrated = json!({ "raft": {
            "election_timeout_ms": 3_460.0, "evidence": { "extrapolated": true },
        } });
        let text = findings(&found, &calibrated).join("\n");
        for part in [
            "within 1.00 ms, 99 % within never",
            "1 of 3 nodes",
            "c to 6 of 6, b to 1 of 6",
            "14 % of what differs between pairs is the node that is called, 72 % the link",
            "look at the network",
            "3.46 s (extrapolated)",
            "no metrics of hosts",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
