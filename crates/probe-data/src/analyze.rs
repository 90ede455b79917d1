//! Analyses O1 to O16 of the measurements, each an exact computation.
//!
//! Data are read twice, in the order of the files, by several threads. The first pass counts
//! latencies and computes each observer's quantiles of the day ([`latency`], [`observe`]); the
//! second finds the values at ranks and pairs calls with the resources of their callees
//! ([`second`]). Memory does not grow with the number of calls, but with that of nodes, days and
//! metrics.
//!
//! | output | key | module |
//! |---|---|---|
//! | O1, O2 | `individual`, `group` | [`latency`] |
//! | O3, O4, O5 | `by_group_size`, `by_workload`, `by_group_size_and_workload` | [`latency`] |
//! | O6 | `day_view` | [`day_view`] |
//! | O7 | `slow_nodes` | [`slow`] |
//! | O8, O9, O10 | `slow_histogram`, `jaccard`, `sensitivity` | [`slow`] |
//! | O11 | `node_or_link` | [`fit`] |
//! | O12 | `pairing` | [`pairing`] |
//! | O13 | `correlations` | [`correlate`] |
//! | O14 | `scatter` | [`scatter`] |
//! | O15 | `slow_timeline` | [`timeline`] |
//! | O16 | `episodes` | [`episodes`] |
//! | further | `observations`, `s_and_t`, `pauses`, `thinned` | [`slow`], [`latency`], [`truth`], [`thinned`] |

mod correlate;
mod day_view;
mod episodes;
mod fit;
mod latency;
mod passes;
mod scatter;
mod slow;
mod summary;
mod timeline;
mod truth;

use crate::analyze::passes::observe::{Observer, Pauses, Windows};
use crate::analyze::passes::second::{Found, World};
use crate::analyze::passes::sessions::CallerDay;
use crate::analyze::passes::spread::Points;
use crate::error::{Error, Exclusions};
use crate::pool;
use crate::progress::Progress;
use crate::simulate::Truth;
use crate::tables::dataset::DataSet;
use crate::tables::hosts::metric_names;
use chrono::DateTime;
use day_view::DayView;
use latency::{Counted, Latencies};
use serde_json::{Value, json};
use slow::ObserverDay;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Instant;

pub use summary::summary;

/// Options of an analysis.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of threads.
    pub threads: usize,
    /// Margin over the fastest node above which a slow node matters.
    pub floor_ns: u64,
    /// Group size of the histograms of slow nodes.
    pub histogram_size: u8,
    /// Day and group of the day view; default: the first of the data.
    pub day_view: Option<(i64, u16)>,
    /// The day view counts the calls below, between and above these two latencies.
    pub cuts_ns: [u64; 2],
    /// Latency above which a call belongs to an episode.
    pub episode_level_ns: u64,
    /// Number of points of the scatter plots.
    pub scatter_points: usize,
    /// Seed of the bootstrap.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            threads: 2,
            floor_ns: 1_000_000,
            histogram_size: 7,
            day_view: None,
            cuts_ns: [1_000_000, 10_000_000],
            episode_level_ns: 1_000_000_000,
            scatter_points: 50_000,
            seed: 1,
        }
    }
}

/// State of a thread in the first pass.
#[derive(Default)]
struct First {
    latencies: latency::First,
    days: Vec<ObserverDay>,
    windows: Windows,
    pauses: Pauses,
    day_view: DayView,
    exclusions: Exclusions,
    unreadable: Vec<(i64, u16)>,
}

impl First {
    fn merge(&mut self, other: Self) -> latency::First {
        self.days.extend(other.days);
        for (node, windows) in other.windows {
            let to = self.windows.entry(node).or_default();
            for (window, (slow, observers)) in windows {
                let counts = to.entry(window).or_default();
                *counts = (counts.0 + slow, counts.1 + observers);
            }
        }
        self.pauses.merge(&other.pauses);
        self.day_view.merge(other.day_view);
        self.exclusions.merge(other.exclusions);
        self.unreadable.extend(other.unreadable);
        other.latencies
    }
}

/// Analyses a folder of files and returns one document.
///
/// # Errors
/// The folder has no readable calls, or files vanish during the analysis.
pub fn analyze(root: &Path, options: &Options, progress: &dyn Progress) -> Result<Value, Error> {
    let began = Instant::now();
    let mut data = DataSet::open(root)?.with_calls()?;
    let truth = truth::read(root)?;
    let points = Points::new();
    let chosen = options.day_view.unwrap_or_else(|| first_group(&data));
    let (first, counted) = first_pass(&mut data, options, chosen, &points, progress)?;
    let metrics = Names::of(&data);
    let mut found = second_pass(&data, options, &counted, &metrics.with_values, progress)?;
    let calls = counted.calls();
    let mut latencies = Latencies::new(counted, std::mem::take(&mut found.kept_of_threads), points);
    let mut p99_ns = [None; 5];
    for (workload, p99_ns) in (0..).zip(&mut p99_ns) {
        *p99_ns = latencies
            .p99_of_workload(workload)
            .filter(|ns| *ns != crate::analyze::passes::spread::NEVER);
    }
    let mut rest = found.found;
    rest.decide(&p99_ns);
    let mut exclusions = data.exclusions.clone();
    exclusions.merge(first.exclusions.clone());
    exclusions.merge(std::mem::take(&mut rest.exclusions));
    let thinned = crate::analyze::passes::thinned::document(&data, &mut exclusions, progress);
    exclusions.files.sort();
    exclusions.files.dedup();
    let told = Told { data: &data, options, truth: truth.as_ref(), first: &first, chosen };
    let mut document = told.latencies(&mut latencies);
    told.slow(&mut document);
    told.metrics(&mut document, metrics, &p99_ns, rest);
    let seconds = began.elapsed().as_secs_f64();
    document["data"] = told.data(calls);
    document["thinned"] = thinned;
    document["excluded"] = json!(exclusions);
    document["run"] = json!({
        "threads": options.threads,
        "seconds": seconds,
        "rows_per_s": data.rows() as f64 / seconds,
    });
    Ok(document)
}

/// First group of the first day.
fn first_group(data: &DataSet) -> (i64, u16) {
    let day = data.calls.keys().next().map_or(0, |(day, _)| *day);
    (day, 0)
}

fn first_pass(
    data: &mut DataSet,
    options: &Options,
    chosen: (i64, u16),
    points: &Points,
    progress: &dyn Progress,
) -> Result<(First, Counted), Error> {
    let sources: Vec<_> = data.calls.values().collect();
    progress.begin("files, first pass", sources.len() as u64);
    let threads = pool::run(&sources, options.threads, |state: &mut First, source| {
        match CallerDay::read(source, &["svc"]) {
            Ok(day) => {
                let mut observer = Observer::new(&day, options.floor_ns);
                let (latencies, pauses) = (&mut state.latencies, &mut state.pauses);
                let day_view = &mut state.day_view;
                day.sessions(&mut state.exclusions, |session| {
                    latencies.add(session, points);
                    observer.add(session, pauses);
                    if (day.day, session.group) == chosen {
                        day_view.add(day.metadata.node, session);
                    }
                });
                observer.finish(&mut state.days, &mut state.windows);
            }
            Err(error) => {
                source
                    .files
                    .iter()
                    .for_each(|path| state.exclusions.file(&data.root, path, &error));
                state.unreadable.push((source.day(), source.metadata.node));
            }
        }
        progress.step();
        Ok(())
    })?;
    let mut all = First::default();
    let latencies = threads.into_iter().map(|thread| all.merge(thread)).collect();
    all.days.sort_by_key(|day| (day.day, day.group, day.observer));
    for key in &all.unreadable {
        data.calls.remove(key);
    }
    if data.calls.is_empty() {
        return Err(Error::content(
            &data.root,
            "has no file with calls that can be read to its end",
        ));
    }
    Ok((all, Counted::new(latencies, points)))
}

/// Results of the second pass, with the latencies that threads kept.
struct SecondPass {
    found: Found,
    kept_of_threads: Vec<latency::Second>,
}

fn second_pass(
    data: &DataSet,
    options: &Options,
    counted: &Counted,
    metrics: &[String],
    progress: &dyn Progress,
) -> Result<SecondPass, Error> {
    let mut high_bins = [None; 5];
    for (workload, bin) in (0..).zip(&mut high_bins) {
        *bin = counted.sum_of_workload(workload).bin_of_quantile(990_000);
    }
    let world = World { options, data, counted, metrics, high_bins };
    let tasks = crate::analyze::passes::second::tasks(data);
    progress.begin("files, second pass", data.calls.len() as u64);
    let threads = pool::run(&tasks, options.threads, |found: &mut Found, task| {
        world.visit(found, task, &|| progress.step())
    })?;
    let mut all = Found::default();
    let mut kept = Vec::new();
    for mut thread in threads {
        kept.push(std::mem::take(&mut thread.kept));
        all.merge(thread, options);
    }
    Ok(SecondPass { found: all, kept_of_threads: kept })
}

/// Names of metrics.
#[derive(Debug, Default)]
struct Names {
    /// Metrics with a value in at least one file of resources.
    with_values: Vec<String>,
    /// Metrics that exist in files without any value.
    without: Vec<String>,
}

impl Names {
    /// Reads the metric names from the footers of all files. Files that cannot be opened are
    /// reported when they are read.
    fn of(data: &DataSet) -> Self {
        let known: Vec<&str> = probe::resources::METRICS.iter().map(|metric| metric.name).collect();
        let mut names: BTreeMap<String, bool> = BTreeMap::new();
        for file in data.hosts.values().filter_map(|source| source.open().ok()).flatten() {
            for name in metric_names(&file) {
                let has = names.get(&name).copied().unwrap_or(false) || file.has_numbers(&name);
                names.insert(name, has);
            }
        }
        let mut names: Vec<(String, bool)> = names.into_iter().collect();
        let place = |name: &str| known.iter().position(|found| *found == name);
        names.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
        let (with, without): (Vec<_>, Vec<_>) = names.into_iter().partition(|(_, has)| *has);
        let only = |pairs: Vec<(String, bool)>| pairs.into_iter().map(|(name, _)| name).collect();
        Self { with_values: only(with), without: only(without) }
    }
}

/// Builder of the document.
struct Told<'a> {
    data: &'a DataSet,
    options: &'a Options,
    truth: Option<&'a Truth>,
    first: &'a First,
    chosen: (i64, u16),
}

impl Told<'_> {
    fn names(&self) -> &[String] {
        &self.data.metadata.nodes
    }

    fn data(&self, (replied, never): (u64, u64)) -> Value {
        let bytes: u64 = self.data.calls.values().map(|source| source.bytes).sum();
        let days: BTreeSet<i64> = self.data.calls.keys().map(|(day, _)| *day).collect();
        let resource_rows: u64 = self.data.hosts.values().map(|source| source.rows).sum();
        json!({
            "deployment": self.data.metadata.deployment,
            "origin": self.data.metadata.origin,
            "nodes": self.names(),
            "days": days.len(),
            "first_day": days.first(),
            "last_day": days.last(),
            "first_date": days.first().map(date),
            "last_date": days.last().map(date),
            "caller_days": self.data.calls.len(),
            "rows": self.data.rows(),
            "counted": replied + never,
            "replied": replied,
            "no_reply": never,
            "resource_rows": resource_rows,
            "bytes": bytes,
            "bytes_per_row": bytes as f64 / self.data.rows().max(1) as f64,
        })
    }

    fn latencies(&self, latencies: &mut Latencies) -> Value {
        let points = Points::new();
        let (individual, group) = latencies.overall();
        let (day, in_group) = self.chosen;
        let cuts = self.options.cuts_ns;
        let view = self.first.day_view.document(day, in_group, self.names(), cuts, &points);
        let rows = latencies.s_and_t();
        let mut s_and_t = json!({ "group_sizes": rows });
        if let Some(truth) = self.truth {
            s_and_t["truth"] = truth::s_and_t(&s_and_t["group_sizes"], truth);
        }
        json!({
            "individual": individual,
            "group": group,
            "by_group_size": latencies.by_size(),
            "by_workload": latencies.by_workload(),
            "by_group_size_and_workload": latencies.by_size_and_workload(),
            "day_view": view,
            "s_and_t": s_and_t,
            "pauses": truth::pauses(&self.first.pauses, self.truth),
        })
    }

    fn slow(&self, document: &mut Value) {
        let (days, floor_ns) = (self.first.days.as_slice(), self.options.floor_ns);
        let size = self.options.histogram_size;
        let mut slow = slow::slow_nodes(days, floor_ns, self.names());
        if let Some(truth) = self.truth {
            truth::slow_nodes(&mut slow, days, floor_ns, truth);
        }
        document["slow_nodes"] = slow;
        document["observations"] = slow::observations(days);
        document["slow_histogram"] = slow::slow_histogram(days, floor_ns, size);
        document["jaccard"] = slow::agreements(days, floor_ns);
        document["sensitivity"] = slow::sensitivity(days, floor_ns, size);
        document["node_or_link"] = fit::node_or_link(days, floor_ns);
        document["slow_timeline"] = timeline::slow_timeline(&self.first.windows, self.names());
    }

    fn metrics(
        &self,
        document: &mut Value,
        Names { with_values: names, without: mut silent }: Names,
        p99_ns: &[Option<u64>; 5],
        found: Found,
    ) {
        document["pairing"] = found.pairing.document();
        let episodes = episodes::join(found.episodes);
        document["episodes"] = episodes::document(self.options.episode_level_ns, &episodes);
        let mut told = (Vec::new(), Vec::new(), Vec::new());
        for ((name, metric), grids) in names.iter().zip(found.metrics).zip(found.grids) {
            if metric.is_empty() && metric.too_large == 0 {
                silent.push(name.clone());
                continue;
            }
            told.0.push(name.clone());
            told.1.push(metric);
            told.2.push(grids);
        }
        let (shown, metrics, grids) = told;
        let mut rows: Vec<Value> = Vec::new();
        for ((name, metric), grids) in shown.iter().zip(&metrics).zip(&grids) {
            let mut row = metric.document(name, self.options.seed, grids);
            row["too_large"] = json!(metric.too_large);
            rows.push(row);
        }
        if let Some(truth) = self.truth {
            truth::correlations(&mut rows, &shown, &metrics, truth);
        }
        let strength = |row: &Value| row["all"]["pearson_r"].as_f64().unwrap_or_default().abs();
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by(|a, b| strength(&rows[*b]).total_cmp(&strength(&rows[*a])));
        let strongest: Vec<&str> = order.iter().map(|at| shown[*at].as_str()).collect();
        document["correlations"] = json!({
            "high_from_ns": correlate::thresholds(p99_ns),
            "strongest_first": strongest,
            "without_values": silent,
            "metrics": rows,
        });
        let kept: Vec<usize> = names
            .iter()
            .enumerate()
            .filter(|(_, name)| shown.contains(name))
            .map(|(at, _)| at)
            .collect();
        document["scatter"] =
            scatter::document(&shown, &grids, (found.points, self.options.scatter_points), &kept);
    }
}

/// Date of a day that is counted since 1970.
fn date(day: &i64) -> Option<String> {
    let begin = DateTime::from_timestamp(day.checked_mul(86_400)?, 0)?;
    Some(begin.date_naive().to_string())
}
