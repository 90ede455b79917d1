//! Introductory text of the page: a description of the data, and the main findings.

use crate::escape::html;
use crate::shrink::list;
use serde_json::Value;

/// Number of pairs of observers from which on their agreement is reported.
const PAIRS_MIN: u64 = 10;
/// Bound of a correlation's interval beyond which it is reported.
const R_MIN: f64 = 0.1;

/// Maximum number of slow nodes that are named; the matrix has all.
const NAMED: usize = 8;

/// Formats a latency in nanoseconds with a unit and three digits.
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

/// Formats a number with a gap at every thousand.
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

/// Title of the page.
pub fn title(found: &Value) -> String {
    format!("How synchronous is {}?", named(&found["data"]["deployment"]))
}

/// Description of the data, as one paragraph of HTML.
pub fn about(found: &Value) -> String {
    let data = &found["data"];
    let origin = match data["origin"].as_str() {
        Some("measured") => "Measured by agents",
        Some("simulated") => "Simulated, with known truth",
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

/// Parameters of the calibration, as one paragraph of HTML.
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
        "<p class=\"read\">Required: one false suspicion in {once}, a risk of {}, windows of {} hours.</p>",
        inputs["risk"],
        short(inputs["window_ns"].as_f64().unwrap_or_default() / 3.6e12),
    )
}

/// Formats up to two decimals, and none for whole numbers.
fn short(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Main findings, each a sentence of text (not HTML).
pub fn findings(found: &Value, calibrated: &Value) -> Vec<String> {
    let mut told = Vec::new();
    latency(&mut told, found);
    slow(&mut told, found);
    node_or_link(&mut told, found);
    correlated(&mut told, &found["correlations"]);
    let once = once(&calibrated["inputs"]["raft"]["false_suspicions_per_s"]);
    let missing = wanting(found, &calibrated["raft"]["needs"]);
    if let Some(missing) = missing {
        told.push(format!(
            "An election time-out of Raft{once} cannot be derived from these data: {missing}."
        ));
    } else if let Some(ms) = calibrated["raft"]["election_timeout_ms"].as_f64() {
        let evidence = &calibrated["raft"]["evidence"];
        let mark = if evidence["extrapolated"] == true { " (extrapolated)" } else { "" };
        told.push(format!(
            "A Raft group needs an election time-out of {}{once}{mark}.",
            time(ms * 1e6)
        ));
    }
    told
}

/// Formats the required rate of false suspicions.
fn once(per_s: &Value) -> String {
    per_s.as_f64().filter(|per_s| *per_s > 0.0).map_or_else(String::new, |per_s| {
        let days = 1.0 / per_s / 86_400.0;
        let time = if days >= 1.0 { format!("{days:.0} days") } else { hours(days) };
        format!(" for one false suspicion of a leader in {time}")
    })
}

fn hours(days: f64) -> String {
    format!("{} hours", short(days * 24.0))
}

/// Description of missing measurements that a result would need.
pub fn wanting(found: &Value, needs: &Value) -> Option<String> {
    if needs["enough"] != false {
        return None;
    }
    let (needed, there) = (needs["needed"].as_f64()?, needs["there"].as_f64()?);
    let unit = needs["unit"].as_str().unwrap_or("samples");
    let nodes = list(&found["data"]["nodes"]).count();
    let days = needed / nodes.max(1) as f64;
    let how = match unit {
        "node-days" if nodes > 0 && days >= 2.0 => {
            format!(" (these {nodes} nodes for {:.0} days)", days.ceil())
        }
        "node-days" if nodes > 0 => {
            format!(" (these {nodes} nodes for {:.0} hours)", (days * 24.0).ceil())
        }
        _ => String::new(),
    };
    Some(format!("it takes {} {unit}{how}, and there are {}", digits(needed), digits(there)))
}

/// Formats a number of any magnitude, with two digits at least.
fn digits(value: f64) -> String {
    match value {
        value if value >= 100.0 => number(value.ceil() as u64),
        value if value >= 0.01 || value == 0.0 => short(value),
        value => format!("{value:.1e}"),
    }
}

/// Number of calls from which on the 99th percentile of groups is reported.
const QUANTILE_CALLS_MIN: u64 = 1_000;

/// Number of calls beyond a quantile from which on it is reported.
const BEYOND_QUANTILE: f64 = 10.0;

/// Quantiles of a distribution that its number of calls supports, and the requirements of the
/// others.
fn quantiles(law: &Value, calls: u64) -> (Vec<(&'static str, String)>, Option<String>) {
    let all = [("50 %", "p50", 0.5), ("99 %", "p99", 0.01), ("99.9 %", "p99_9", 0.001)];
    let needed = |beyond: f64| (BEYOND_QUANTILE / beyond).ceil() as u64;
    let (told, untold): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, _, beyond)| calls >= needed(*beyond));
    let missing = untold.first().map(|(share, _, beyond)| {
        format!(" For {share} it takes {} calls.", number(needed(*beyond)))
    });
    (told.into_iter().map(|(share, key, _)| (share, time_of(&law[key]))).collect(), missing)
}

fn latency(told: &mut Vec<String>, found: &Value) {
    let (one, group) = (&found["individual"]["all_ns"], &found["group"]["all_ns"]);
    if found["individual"]["calls"].as_u64().unwrap_or(0) == 0 {
        told.push("No call measures the latency of a live node.".into());
        return;
    }
    let calls = found["individual"]["calls"].as_u64().unwrap_or(0);
    let (known, missing) = quantiles(one, calls);
    if !known.is_empty() {
        let known: Vec<String> =
            known.iter().map(|(share, time)| format!("{share} within {time}")).collect();
        let missing = missing.unwrap_or_default();
        told.push(format!("Answers to {} calls: {}.{missing}", number(calls), known.join(", ")));
    } else {
        told.push(format!("{} calls are too few to determine latencies.", number(calls)));
    }
    if calls < QUANTILE_CALLS_MIN {
        return;
    }
    told.push(format!(
        "A caller that waits for all members of a group waits {} in half of the cases, and {} or \
         longer in one of a hundred.",
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
        // If nearly all nodes are slow, "slow" does not distinguish them.
        let hint = if by_most * 2 > all {
            " With that many slow nodes, the cause is distance or load rather than a node."
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
    if let (Some(mean), Some(pairs @ PAIRS_MIN..)) =
        (jaccard["mean"].as_f64(), jaccard["pairs"].as_u64())
    {
        told.push(format!(
            "Two observers that see any node as slow agree by {mean:.2} on average (1 means the same \
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
        "check the called nodes"
    } else if link >= 0.5 {
        "check the network, or the distance, between pairs"
    } else if observer >= 0.5 {
        "check the calling hosts"
    } else {
        // No metric explains most of it: that is no finding.
        return;
    };
    told.push(format!(
        "Where a node is slow ({} groups and days), {:.0} % of the variation between pairs comes from the \
         called node, {:.0} % from the link and {:.0} % from the observer (the median one): {meaning}.",
        whole(&of["group_days"]),
        node * 100.0,
        link * 100.0,
        observer * 100.0
    ));
}

fn correlated(told: &mut Vec<String>, correlations: &Value) {
    let Some(name) = list(&correlations["strongest_first"]).next() else {
        told.push("There are no metrics of hosts, so the causes of late calls are unknown.".into());
        return;
    };
    let mut rows = list(&correlations["metrics"]);
    let Some(row) = rows.find(|row| row["metric"] == *name) else { return };
    let Some(r) = row["all"]["pearson_r"].as_f64() else { return };
    let range = &row["all"]["pearson_r_95"];
    let (Some(low), Some(high)) = (range[0].as_f64(), range[1].as_f64()) else { return };
    // A correlation that may be close to zero is no finding.
    if low.max(-high) < R_MIN {
        return;
    }
    let range = format!(" (95 %: {low:.3} to {high:.3})");
    told.push(format!(
        "Of all metrics of hosts, latency correlates most with {}: r = {r:.3}{range}.",
        named(name)
    ));
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn times_numbers_and_days_are_formatted_for_reading() {
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

    fn short_of_data(seconds: f64) -> (Value, Value) {
        let found = json!({
            "data": { "nodes": ["a", "b", "c", "d", "e"] },
            "individual": { "calls": 500, "all_ns": { "p50": 1e6, "p99": 2e6, "p99_9": 3e6 } },
            "jaccard": { "action": { "mean": 0.5, "pairs": 2 } },
            "correlations": {
                "strongest_first": ["load"],
                "metrics": [{ "metric": "load", "all": {
                    "pearson_r": 0.01, "pearson_r_95": [-0.2, 0.22],
                } }],
            },
            "node_or_link": { "where_slow": {
                "group_days": 1, "node_share": 0.4, "link_share": 0.3, "observer_share": 0.3,
            } },
        });
        let there = 5.0 * seconds / 86_400.0;
        let needs = json!({
            "needed": 9.0, "there": there, "unit": "node-days", "enough": there >= 9.0,
        });
        let raft = json!({
            "election_timeout_ms": 100.0, "needs": needs, "evidence": { "extrapolated": true },
        });
        let per_s = 1.0 / 30.0 / 86_400.0;
        let inputs = json!({ "raft": { "false_suspicions_per_s": per_s } });
        (found, json!({ "raft": raft, "inputs": inputs }))
    }

    #[test]
    fn results_without_enough_data_are_replaced_by_what_to_collect() {
        let (found, calibrated) = short_of_data(25.0);
        let text = findings(&found, &calibrated).join("\n");
        let collect = "in 30 days cannot be derived from these data: it takes 9 node-days (these 5 nodes \
                       for 44 hours), and there are 1.4e-3";
        assert!(text.contains(collect), "{text}");
        assert!(
            text.contains("50 % within 1.00 ms") && text.contains("For 99 % it takes 1\u{202f}000")
        );
        for nothing in ["needs an election", "r = ", "agree by", "neither", "one of a hundred"] {
            assert!(!text.contains(nothing), "{nothing}: {text}");
        }
        let (found, calibrated) = short_of_data(2.0 * 86_400.0);
        let text = findings(&found, &calibrated).join("\n");
        assert!(
            text.contains("needs an election time-out of 100 ms for one false suspicion"),
            "{text}"
        );
    }

    #[test]
    fn findings_name_slow_nodes_their_observers_and_nodes_or_links() {
        let node = |name: &str, slow: u64| {
            let all = 6;
            json!({ "name": name, "observations": all, "slow_observations": slow })
        };
        let found = json!({
            "data": { "nodes": ["a", "b", "c"] },
            "individual": { "calls": 20_000, "all_ns": { "p50": 1e6, "p99": null, "p99_9": null } },
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
            "50 % within 1.00 ms, 99 % within never",
            "1 of 3 nodes",
            "c to 6 of 6, b to 1 of 6",
            "14 % of the variation between pairs comes from the called node, 72 % from the link",
            "check the network",
            "3.46 s (extrapolated)",
            "no metrics of hosts",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
