//! Text output of calibration: recommended settings, and their evidence.

use ::probe::calibrate::protocols::{hedge, raft, visigoth, xft};
use ::probe::calibrate::suspicion::{Curve, Scope};
use ::probe::calibrate::{Evidence, accrual, gamma};
use ::probe::sample::Workload;
use probe_data::calibrate::{Data, Report};

/// Pairs and leaders in the text; the document has all.
const SHOWN: usize = 12;

/// Builds the whole page.
pub fn page(report: &Report) -> String {
    let mut text = data(&report.data);
    let risk = report.inputs.risk;
    report.suspicion.iter().for_each(|of| text += &suspicion(of));
    report.gamma.iter().flatten().for_each(|of| text += &gamma(of, risk));
    report.visigoth.iter().flatten().for_each(|of| text += &visigoth(of, risk));
    text += &xft(report.xft.as_deref().unwrap_or_default());
    report.accrual.iter().for_each(|of| text += &accrual(of));
    report.raft.iter().for_each(|of| text += &raft(of));
    report.hedge.iter().for_each(|of| text += &hedge(of, &report.data.nodes));
    if !report.settings.is_empty() {
        text += "\nIn terms of other systems\n";
    }
    for one in &report.settings {
        let name = format!("{} {}", one.system, one.name);
        text += &format!("  {name:<36} {:<10} {}\n", one.value, one.note);
    }
    text
}

fn data(data: &Data) -> String {
    let seen = &data.seen;
    let hours = (seen.last_ns - seen.first_ns).max(0) as f64 / 3.6e12;
    let mut text = format!(
        "{}: {} nodes, {} rounds, {} calls in {hours:.1} h\n",
        data.deployment,
        data.nodes.len(),
        seen.rounds,
        seen.rows
    );
    text += &format!(
        "{} unanswered, {} to nodes that were down or gone (left out), {} rounds skipped by callers\n",
        seen.unanswered, seen.down, seen.skipped_rounds
    );
    if data.rounds_of_large_groups > 0 {
        let large = data.rounds_of_large_groups;
        text += &format!("{large} rounds of groups above 9: not in Gamma, Visigoth and XFT\n");
    }
    if let Some(thinned) = &data.thinned {
        text += &format!(
            "{} calls of thinned-out days: only Raft's timers use them too\n",
            thinned.calls
        );
    }
    for file in &data.excluded.files {
        text += &format!("left out {}: {}\n", file.file, file.detail);
    }
    text
}

/// Formats a value with its evidence: "1 (0.5 to 2, extrapolated)".
fn with(value: Option<f64>, evidence: &Evidence) -> String {
    let Some(value) = value else { return "none".into() };
    let interval = match (evidence.low, evidence.high) {
        (Some(low), Some(high)) => format!("{} to {}", short(low), short(high)),
        (Some(low), None) => format!("{} and more", short(low)),
        _ => String::new(),
    };
    let mark = if evidence.extrapolated { "extrapolated" } else { "" };
    let notes: Vec<&str> =
        [interval.as_str(), mark].into_iter().filter(|note| !note.is_empty()).collect();
    let notes = if notes.is_empty() { String::new() } else { format!(" ({})", notes.join(", ")) };
    format!("{}{notes}", short(value))
}

/// Formats a value with three digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 0.1 => format!("{value:.2}"),
        _ => format!("{value:.1e}"),
    }
}

fn ms(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), short)
}

fn suspicion(curves: &[Curve]) -> String {
    let mut text = "\nFalse suspicions by time-out\n".to_owned();
    for curve in curves {
        let of = match curve.scope {
            Scope::Deployment => "all calls".to_owned(),
            Scope::Workload(code) => Workload::from_code(code).map_or("?", Workload::name).into(),
            Scope::Pair { from, to } => format!("from {from} to {to}"),
        };
        text += &format!("  {of}: {} samples\n", curve.samples);
        let all = curve.scope == Scope::Deployment;
        let shown = curve.points.iter().filter(|point| {
            let decade = point.timeout_ms.log10();
            (decade * 3.0 - (decade * 3.0).round()).abs() < 0.16 && point.timeout_ms >= 1.0
        });
        for point in shown.take(if all { usize::MAX } else { 0 }) {
            let part = with(Some(point.false_suspicions_per_message), &point.evidence);
            let (low, high) = (point.episodes_per_day_low, point.episodes_per_day_high);
            let day =
                format!("{} ({} to {})", short(point.episodes_per_day), short(low), short(high));
            text += &format!(
                "  {:>8} ms  {part:<34} per call  {day} episodes a day\n",
                short(point.timeout_ms)
            );
        }
    }
    text
}

fn gamma(of: &gamma::OfSize, risk: f64) -> String {
    let gamma::OfSize { size, crashes, windows, .. } = of;
    let mut text = format!("\nGamma, groups of {size}, {windows} windows, risk {risk}\n");
    text += &format!(
        "  {crashes} crashes need a weak Gamma of {}: time-out {} ms; knee of the curve at {} ms\n",
        crashes + 1,
        with(of.timeout_ms, &of.evidence),
        ms(of.knee_ms)
    );
    for reading in gamma::Reading::ALL {
        let mine = of.thresholds.iter().filter(|one| one.reading == reading);
        let each: Vec<String> =
            mine.map(|one| format!("{} from {}", one.cardinality, ms(one.timeout_ms))).collect();
        let name = format!("{reading:?}").to_lowercase();
        text += &format!("  {name:<7} {} ms\n", each.join(", "));
    }
    text
}

fn visigoth(of: &visigoth::OfSize, risk: f64) -> String {
    let mut text =
        format!("\nVisigoth, groups of {}, {} crashes, risk {risk}\n", of.size, of.crashes);
    match &of.recommended {
        Some(best) => {
            text += &format!(
                "  T = {} ms: at most {} slow members, {} replicas ({} with arbitrary faults)\n",
                with(Some(best.timeout_ms), &of.evidence),
                best.slow,
                best.replicas,
                best.replicas_arbitrary
            );
        }
        None => text += "  no T: replies were lost too often\n",
    }
    text += "        T ms   slow  replicas  stall ms  detection ms\n";
    for row in &of.table {
        text += &format!(
            "  {:>10} {:>6} {:>9} {:>9} {:>13}\n",
            short(row.timeout_ms),
            row.slow,
            row.replicas,
            short(row.expected_stall_ms),
            short(row.detection_ms)
        );
    }
    let windows: Vec<String> = of
        .window_timeouts
        .iter()
        .map(|one| format!("{}: {}", one.slow, ms(one.timeout_ms)))
        .collect();
    text + &format!(
        "  over whole windows, T for each number of slow members: {} ms\n",
        windows.join(", ")
    )
}

fn xft(rows: &[xft::OfDeadline]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let (all, nines) = ("P(all synchronous)", "nines: consistent");
    let mut text =
        format!("\nXFT\n  size  2 Delta ms  {all:<33} {nines:>17}  available  no margin\n");
    for row in rows {
        let all = with(row.not_synchronous.first().copied(), &row.evidence);
        text += &format!(
            "  {:>4} {:>11}  {all:<33} {:>17} {:>10}  longest {} s\n",
            row.size,
            short(row.two_delta_ms),
            row.as_measured.nines_of_consistency,
            row.as_measured.nines_of_availability,
            short(row.longest_spell_s)
        );
    }
    text
}

fn accrual(of: &accrual::Report) -> String {
    let mut text = format!(
        "\nAccrual detectors: {} gaps, mean {} ms, deviation {} ms\n",
        of.gaps,
        short(of.mean_gap_ms),
        short(of.deviation_ms)
    );
    let mark = if of.extrapolated { ", a lower bound: no gap was longer" } else { "" };
    text += &format!(
        "  {} mistakes a day of one pair: time-out {} ms{mark}\n",
        short(of.wanted_mistakes_per_day),
        ms(of.timeout_ms)
    );
    text += &format!(
        "  {} days of one pair would certify that; the data has {}\n",
        short(of.needed_days),
        short(of.observed_days)
    );
    for one in &of.recommended {
        let eight = of.rows.iter().find(|row| row.model == one.model && row.phi == 8.0);
        text += &format!(
            "  {:<12} phi {:<9} (phi 8 is {} ms, {} mistakes a day)\n",
            format!("{:?}", one.model).to_lowercase(),
            ms(one.phi),
            ms(eight.and_then(|row| row.timeout_ms)),
            ms(eight.and_then(|row| row.mistakes_per_day))
        );
    }
    text
}

fn raft(of: &raft::Report) -> String {
    let every_days = 1.0 / of.wanted.false_suspicions_per_s / 86_400.0;
    let mut text = format!(
        "\nRaft, {} members, one false suspicion in {} days\n",
        of.wanted.size,
        short(every_days)
    );
    text += &format!("  election time-out {} ms\n", with(of.election_timeout_ms, &of.evidence));
    text += &format!(
        "  {} node-days certify that without a model; the data has {}\n",
        short(of.needed_node_days),
        short(of.observed_node_days)
    );
    if !of.needs.enough {
        text += &format!(
            "  too little data: a fitted distribution extends that far from {} node-days on\n",
            short(of.needs.needed)
        );
    }
    if let Some(timers) = &of.timers {
        text += &format!(
            "  heartbeat {} ms, lease {} ms\n",
            short(timers.heartbeat_ms),
            ms(timers.lease_ms)
        );
        text += &format!(
            "  a crash is detected after {} ms, at most {} ms; {} ms without a leader\n",
            short(timers.detection_mean_ms),
            short(timers.detection_max_ms),
            ms(timers.outage_mean_ms)
        );
    }
    let rule = &of.rule_of_thumb;
    text += &format!(
        "  rule of thumb: heartbeat {} to {} ms, election time-out from {} ms; cheapest {} ms\n",
        short(rule.heartbeat_low_ms),
        short(rule.heartbeat_high_ms),
        short(rule.election_timeout_min_ms),
        ms(of.cheapest_timeout_ms)
    );
    text += "        E ms  pauses above E, a day        false suspicions a day\n";
    for point in of.curve.iter().step_by(3) {
        text += &format!(
            "  {:>10}  {:<33} {}\n",
            short(point.timeout_ms),
            with(Some(point.outlasting_per_day), &point.evidence),
            short(point.false_suspicions_per_day)
        );
    }
    text
}

fn hedge(of: &hedge::Report, nodes: &[String]) -> String {
    let name = |node: u16| nodes.get(usize::from(node)).map_or("?", String::as_str);
    let mut text = format!("\nHedging, budget {} ms\n", short(of.budget_ms));
    for one in of.delays.iter().take(SHOWN) {
        let second =
            one.second.map_or_else(String::new, |second| format!(", then ask {}", name(second)));
        text += &format!(
            "  {} asks {}: wait {} ms (usually {}, at most {}){second}\n",
            name(one.from),
            name(one.to),
            ms(one.hedge_after_ms),
            ms(one.typical_ms),
            ms(one.most_ms)
        );
    }
    if of.delays.len() > SHOWN {
        text += &format!("  ... and {} more pairs: --json\n", of.delays.len() - SHOWN);
    }
    for one in of.leaders.iter().filter(|one| one.preferred).take(SHOWN) {
        text += &format!(
            "  group {}: {} should lead (commit p50 {} ms, p99 {} ms)\n",
            one.group,
            name(one.node),
            ms(one.commit_p50_ms),
            ms(one.commit_p99_ms)
        );
    }
    text
}
