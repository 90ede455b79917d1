//! Key findings of a document, as text.

use serde_json::Value;
use std::fmt::Write;

fn ms(value: &Value) -> String {
    value.as_f64().map_or_else(|| "none".into(), |ns| format!("{:.3}", ns / 1e6))
}

fn row(text: &mut String, name: &str, told: &Value) {
    let all = &told["all_ns"];
    let _ = writeln!(
        text,
        "{name:<22} {:>12} {:>10} {:>10} {:>10} {:>10}",
        told["calls"].as_u64().unwrap_or_default(),
        ms(&all["p50"]),
        ms(&all["p90"]),
        ms(&all["p99"]),
        ms(&all["p99_9"]),
    );
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or("?")
}

/// Summary of a document of [`super::analyze`].
pub fn summary(document: &Value) -> String {
    let mut text = String::new();
    let data = &document["data"];
    let _ = writeln!(
        text,
        "{}: {} nodes, {} days, {} calls, {} without reply",
        text_of(&data["deployment"]),
        data["nodes"].as_array().map_or(0, Vec::len),
        data["days"],
        data["rows"],
        data["no_reply"],
    );
    let thinned = &document["thinned"];
    if !thinned.is_null() {
        let _ = writeln!(
            text,
            "{} more days are thinned out, {} to {}, {} calls: not included below, see thinned \
             in the document",
            thinned["days"],
            text_of(&thinned["first_date"]),
            text_of(&thinned["last_date"]),
            thinned["calls"],
        );
    }
    let excluded = &document["excluded"];
    for file in list(&excluded["files"]) {
        let _ = writeln!(text, "left out: {}", text_of(&file["detail"]));
    }
    for (reason, count) in excluded["rows"].as_object().into_iter().flatten() {
        let _ = writeln!(text, "left out: {} {count}", reason.replace('_', " "));
    }
    let _ = writeln!(
        text,
        "\n{:<22} {:>12} {:>10} {:>10} {:>10} {:>10}",
        "latency, ms", "calls", "p50", "p90", "p99", "p99.9"
    );
    row(&mut text, "individual", &document["individual"]);
    row(&mut text, "group", &document["group"]);
    for one in list(&document["by_workload"]) {
        row(&mut text, text_of(&one["workload"]), &one["individual"]);
    }
    for one in list(&document["by_group_size"]) {
        row(&mut text, &format!("groups of {}", one["group_size"]), &one["group"]);
    }
    slow(&mut text, document);
    let node = &document["node_or_link"]["where_slow"];
    if let (Some(node), Some(link)) = (node["node_share"].as_f64(), node["link_share"].as_f64()) {
        let _ = writeln!(
            text,
            "of the variation between pairs there, {:.0}% comes from the called node \
             and {:.0}% from the link",
            node * 100.0,
            link * 100.0
        );
    }
    correlations(&mut text, &document["correlations"]);
    let episodes = &document["episodes"];
    let _ = writeln!(
        text,
        "\n{} episodes of calls above {} ms",
        episodes["episodes"],
        ms(&episodes["level_ns"])
    );
    text
}

fn slow(text: &mut String, document: &Value) {
    let slow = &document["slow_nodes"];
    let mut any = false;
    let _ = writeln!(text, "\nslow nodes (p90 at least twice the least, seen by others):");
    for node in list(&slow["action"]["nodes"]) {
        any = true;
        let _ = writeln!(
            text,
            "  {}: to {} of {} observers and days",
            text_of(&node["name"]),
            node["slow_observations"],
            node["observations"]
        );
    }
    if !any {
        let _ = writeln!(text, "  none");
    }
    if let (Some(recall), Some(precision)) = (slow["recall"].as_f64(), slow["precision"].as_f64()) {
        let _ = writeln!(
            text,
            "  against the planted ones: recall {recall:.3}, precision {precision:.3}"
        );
    }
    if let Some(mean) = document["jaccard"]["remote"]["mean"].as_f64() {
        let _ = writeln!(text, "  two observers agree by {mean:.2} (Jaccard, mean)");
    }
}

fn correlations(text: &mut String, correlations: &Value) {
    let strongest: Vec<&str> =
        list(&correlations["strongest_first"]).take(5).map(text_of).collect();
    if strongest.is_empty() {
        return;
    }
    let _ =
        writeln!(text, "\ncorrelation with latency (Pearson, of latency and of its logarithm):");
    for name in strongest {
        let mut metrics = list(&correlations["metrics"]);
        let Some(metric) = metrics.find(|metric| metric["metric"] == name) else { continue };
        let number = |key: &str| {
            metric["all"][key].as_f64().map_or_else(|| "-".into(), |r| format!("{r:.3}"))
        };
        let (plain, logarithm) = (number("pearson_r"), number("pearson_r_ln"));
        let _ = writeln!(text, "  {name:<24} {plain:>7} {logarithm:>7}");
    }
}
