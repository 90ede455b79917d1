//! Tables of the page, which need no script: recommended settings, and excluded data.

use crate::escape::html;
use crate::shrink::list;
use crate::words::{number, time, wanting};
use serde_json::Value;

/// Formats sentences as a list.
pub fn list_of(sentences: &[String]) -> String {
    let items = sentences.iter().map(|one| format!("<li>{}</li>", html(one)));
    format!("<ul>{}</ul>", items.collect::<String>())
}

fn row(cells: &[String]) -> String {
    let cells = cells.iter().map(|cell| format!("<td>{}</td>", html(cell)));
    format!("<tr>{}</tr>", cells.collect::<String>())
}

fn table(heads: &[&str], rows: &[String]) -> String {
    let heads: String = heads.iter().map(|head| format!("<th scope=\"col\">{head}</th>")).collect();
    format!(
        "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table>\
         <thead><tr>{heads}</tr></thead><tbody>{}</tbody></table></div>",
        rows.concat()
    )
}

fn ms(value: &Value) -> String {
    value.as_f64().map_or_else(|| "none".into(), |ms| time(ms * 1e6))
}

/// Formats the interval of a time in milliseconds.
fn interval(evidence: &Value) -> String {
    match (evidence["low"].as_f64(), evidence["high"].as_f64()) {
        (Some(low), Some(high)) => format!("{} to {}", time(low * 1e6), time(high * 1e6)),
        (Some(low), None) => format!("{} and more", time(low * 1e6)),
        _ => "not known".into(),
    }
}

fn basis(evidence: &Value) -> String {
    let count = number(evidence["count"].as_u64().unwrap_or(0));
    if evidence["extrapolated"] == true {
        format!("extrapolated, from {count} samples")
    } else {
        format!("counted, {count} samples")
    }
}

/// Recommended time-outs, with their evidence.
pub fn timers(found: &Value, calibrated: &Value) -> String {
    let mut rows = Vec::new();
    let raft = &calibrated["raft"];
    let untold = |what: String, needs: &Value| {
        let missing = wanting(found, needs)?;
        Some(row(&[what, "too little data".into(), "none".into(), missing]))
    };
    let size = raft["wanted"]["size"].as_u64().unwrap_or(0);
    if let Some(row) = untold(format!("Raft, groups of {size}: election time-out"), &raft["needs"])
    {
        rows.push(row);
    } else if raft["timers"].is_object() {
        let (timers, evidence) = (&raft["timers"], &raft["evidence"]);
        let (range, basis) = (interval(evidence), basis(evidence));
        let of = |what: &str, value: String, range: &str| {
            row(&[
                format!("Raft, groups of {size}: {what}"),
                value,
                range.to_owned(),
                basis.clone(),
            ])
        };
        rows.push(of("election time-out", ms(&timers["election_timeout_ms"]), &range));
        rows.push(of("heartbeat", ms(&timers["heartbeat_ms"]), "follows"));
        rows.push(of("lease of the leader", ms(&timers["lease_ms"]), "follows"));
        rows.push(of("detection of a crash, mean", ms(&timers["detection_mean_ms"]), "follows"));
    }
    for of in list(&calibrated["visigoth"]).filter(|of| of["recommended"].is_object()) {
        let best = &of["recommended"];
        let what = format!("Visigoth, groups of {}, {} crashes: T", of["size"], of["crashes"]);
        if let Some(row) = untold(what, &of["needs"]) {
            rows.push(row);
            continue;
        }
        rows.push(row(&[
            format!(
                "Visigoth, groups of {}, {} crashes: T for at most {} slow members, {} replicas",
                of["size"], of["crashes"], best["slow"], best["replicas"]
            ),
            ms(&best["timeout_ms"]),
            interval(&of["evidence"]),
            basis(&of["evidence"]),
        ]));
    }
    for of in list(&calibrated["gamma"]) {
        let what = format!("Gamma, groups of {}, {} crashes: time-out", of["size"], of["crashes"]);
        if let Some(row) = untold(what, &of["needs"]) {
            rows.push(row);
            continue;
        }
        rows.push(row(&[
            format!("Gamma, groups of {}, {} crashes: time-out", of["size"], of["crashes"]),
            ms(&of["timeout_ms"]),
            interval(&of["evidence"]),
            format!("{} ({} windows)", basis(&of["evidence"]), of["windows"]),
        ]));
    }
    let accrual = &calibrated["accrual"];
    let missing = untold("Accrual detectors: phi".into(), &accrual["needs"]);
    let told = missing.is_none();
    rows.extend(missing);
    for of in list(&accrual["recommended"]).filter(|_| told).filter(|of| of["phi"].is_f64()) {
        let extrapolated = if accrual["extrapolated"] == true { "extrapolated" } else { "counted" };
        rows.push(row(&[
            format!("Accrual detector, {}: phi", of["model"].as_str().unwrap_or("?")),
            format!("{:.2}", of["phi"].as_f64().unwrap_or_default()),
            format!("as a time-out {}", ms(&accrual["timeout_ms"])),
            format!("{extrapolated}, {} gaps", number(accrual["gaps"].as_u64().unwrap_or(0))),
        ]));
    }
    if rows.is_empty() {
        return "<p class=\"none\">There is not enough data to derive a time-out.</p>".into();
    }
    table(&["What", "Value", "95 % interval", "Evidence"], &rows)
}

/// Formats a fraction as a percentage, or as a power of ten where it is small.
fn part(value: &Value) -> String {
    match value.as_f64() {
        None => "not known".into(),
        Some(part) if part == 0.0 || part >= 1e-3 => format!("{:.2} %", part * 100.0),
        Some(part) => format!("{part:.1e}"),
    }
}

/// Probabilities that groups are consistent and available (XFT), by the maximum delay of a reply.
pub fn likelihoods(calibrated: &Value) -> String {
    let one = |of: &Value| {
        let measured = &of["as_measured"];
        let nines = |part_of: &str, nines: &str| {
            format!("{} ({} nines)", part(&measured[part_of]), measured[nines])
        };
        row(&[
            of["size"].to_string(),
            ms(&of["two_delta_ms"]),
            part(&of["not_synchronous"][0]),
            nines("inconsistent", "nines_of_consistency"),
            nines("unavailable", "nines_of_availability"),
            of["longest_spell_s"].as_f64().map_or_else(|| "none".into(), |s| time(s * 1e9)),
            basis(&of["evidence"]),
        ])
    };
    let rows: Vec<String> = list(&calibrated["xft"]).map(one).collect();
    if rows.is_empty() {
        return "<p class=\"none\">No group of nine or fewer was measured as a whole.</p>".into();
    }
    let heads = [
        "Members",
        "2 Delta",
        "All in time",
        "Inconsistent",
        "Unavailable",
        "Longest time without margin",
        "Evidence",
    ];
    table(&heads, &rows)
}

/// Number of pairs with the longest delays that are shown.
const HEDGES_SHOWN: usize = 20;

/// Delays before a second replica is asked, for the pairs with the longest ones.
pub fn hedges(found: &Value, calibrated: &Value) -> String {
    let name = |node: &Value| {
        let names = &found["data"]["nodes"];
        let known = node.as_u64().and_then(|node| names[node as usize].as_str());
        known.map_or_else(|| node.to_string(), str::to_owned)
    };
    let hedge = &calibrated["hedge"];
    let mut delays: Vec<&Value> =
        list(&hedge["delays"]).filter(|one| one["hedge_after_ms"].is_f64()).collect();
    let after = |one: &Value| one["hedge_after_ms"].as_f64().unwrap_or_default();
    // Pairs with equal delays stay in the order of the document.
    delays.sort_by(|a, b| after(b).total_cmp(&after(a)));
    let one = |one: &&Value| {
        let second = if one["second"].is_null() { "none".into() } else { name(&one["second"]) };
        row(&[
            name(&one["from"]),
            name(&one["to"]),
            ms(&one["hedge_after_ms"]),
            format!("{}, {}", ms(&one["typical_ms"]), ms(&one["most_ms"])),
            second,
            part(&one["second_within_budget"]),
            basis(&one["evidence"]),
        ])
    };
    let rows: Vec<String> = delays.iter().take(HEDGES_SHOWN).map(one).collect();
    if rows.is_empty() {
        return "<p class=\"none\">No pair has enough calls.</p>".into();
    }
    let heads = [
        "Caller",
        "Asks",
        "Waits",
        "Windows: usual, most",
        "Then asks",
        "Second within the budget",
        "Evidence",
    ];
    let shown = if delays.len() > HEDGES_SHOWN {
        format!("The {HEDGES_SHOWN} longest of {} pairs. ", number(delays.len() as u64))
    } else {
        String::new()
    };
    let budget = ms(&hedge["budget_ms"]);
    format!(
        "<p class=\"read\">{shown}A caller that asks a second replica after this delay does so \
         for one call in twenty. The budget is {budget}: a reply after that is too late.</p>{}",
        table(&heads, &rows)
    )
}

/// Settings of other systems, as far as they are available.
pub fn settings(calibrated: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
    let one = |one: &Value| {
        row(&[text(&one["system"]), text(&one["name"]), text(&one["value"]), text(&one["note"])])
    };
    let is_told = |one: &&Value| {
        let of = one["follows_from"].as_str().unwrap_or_default();
        calibrated[of]["needs"]["enough"] != false
    };
    let rows: Vec<String> = list(&calibrated["settings"]).filter(is_told).map(one).collect();
    if rows.is_empty() {
        return "<p class=\"none\">No setting follows.</p>".into();
    }
    table(&["System", "Setting", "Value", "Note"], &rows)
}

/// Excluded data.
pub fn excluded(found: &Value) -> String {
    let excluded = &found["excluded"];
    let mut items: Vec<String> = list(&excluded["files"])
        .map(|file| {
            let bytes = number(file["size_bytes"].as_u64().unwrap_or(0));
            format!("file: {} ({bytes} bytes)", file["detail"].as_str().unwrap_or("?"))
        })
        .collect();
    for (reason, count) in excluded["rows"].as_object().into_iter().flatten() {
        let count = number(count.as_u64().unwrap_or(0));
        items.push(format!("{}: {count}", reason.replace('_', " ")));
    }
    if let Some(calls) = found["thinned"]["calls"].as_u64() {
        let days = &found["thinned"]["days"];
        items.push(format!("{days} thinned-out days: {} calls", number(calls)));
    }
    if items.is_empty() {
        return "<p>Nothing was left out.</p>".into();
    }
    format!("<p>Left out:</p>{}", list_of(&items))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_extrapolated_is_marked_and_what_is_counted_is_not() {
        let raft = |extrapolated: bool| {
            json!({ "raft": {
                "timers": { "election_timeout_ms": 3_460.0 }, "wanted": { "size": 7 },
                "evidence": { "count": 1_000, "low": 2_500.0, "high": null, "extrapolated": extrapolated },
            } })
        };
        let text = timers(&json!({}), &raft(true));
        assert!(text.contains("3.46 s") && text.contains("2.50 s and more"), "{text}");
        assert!(text.contains("extrapolated, from 1\u{202f}000 samples"), "{text}");
        assert!(!timers(&json!({}), &raft(false)).contains("extrapolated"));
    }

    #[test]
    fn likelihoods_have_their_nines_and_what_is_rare_is_not_rounded_to_nothing() {
        let text = likelihoods(&json!({ "xft": [{
            "size": 5, "two_delta_ms": 100.0, "not_synchronous": [0.25, 0.75],
            "as_measured": { "inconsistent": 0.0, "unavailable": 2e-7,
                "nines_of_consistency": 16, "nines_of_availability": 6 },
            "longest_spell_s": 3.0, "evidence": { "count": 1_200, "extrapolated": false },
        }] }));
        for cell in ["100 ms", "25.00 %", "0.00 % (16 nines)", "2.0e-7 (6 nines)", "3.00 s"] {
            assert!(text.contains(&format!("<td>{cell}</td>")), "{cell}: {text}");
        }
    }

    #[test]
    fn the_longest_hedges_come_first_and_pairs_without_one_are_left_out() {
        let one = |from: u64, after: Value| {
            json!({ "from": from, "to": 0, "hedge_after_ms": after, "second": null,
                "evidence": { "count": 10, "extrapolated": false } })
        };
        let delays = [one(1, json!(2.0)), one(2, json!(7.0)), one(1, Value::Null)];
        let text = hedges(
            &json!({ "data": { "nodes": ["a", "<b>", "c"] } }),
            &json!({ "hedge": { "budget_ms": 9.5, "delays": delays } }),
        );
        let at = |cell: &str| text.find(&format!("<td>{cell}</td>")).unwrap();
        assert!(at("c") < at("&lt;b&gt;") && at("7.00 ms") < at("2.00 ms"), "{text}");
        assert_eq!(text.matches("<tr>").count(), 3);
        assert!(text.contains("none") && text.contains("The budget is 9.50 ms"));
        assert!(hedges(&json!({}), &json!({})).contains("No pair has enough calls"));
    }
}
