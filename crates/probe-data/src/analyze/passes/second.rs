//! The second pass: pairs calls with the resources of their callees, and collects latencies that
//! the first pass only counted.

use super::pairing::{FARTHEST_NS, Pairing, Rows};
use super::recent::Recent;
use super::sessions::{Call, CallerDay, Place, Session};
use super::spread::{NEVER, bin};
use crate::analyze::Options;
use crate::analyze::correlate::{Metric, RowSums, ln_fixed};
use crate::analyze::episodes::Episode;
use crate::analyze::latency::{Counted, Second as Kept};
use crate::analyze::scatter::{Grid, Point, Reservoir, latency_cell, metric_cell};
use crate::error::{Error, Exclusions};
use crate::tables::calls::NO_OFFSET;
use crate::tables::dataset::{DataSet, Source};
use probe::Status;
use probe::random::seed_of;
use std::collections::BTreeMap;

/// Metric that labels episodes.
const STALL: &str = "stall_max_us";
/// Length of the blocks of the bootstrap.
const BLOCK_NS: i64 = 600_000_000_000;
/// Callers of a group are processed in parallel through the day, in slices of this length, so that
/// all of them use a callee's rows while these are in the cache.
const SLICE_NS: i64 = 60_000_000_000;
/// Maximum number of callers in parallel: no larger group is drawn.
const SIDE_BY_SIDE: usize = 9;
/// Cell of a missing metric: no other cell is that large.
const NO_CELL: u8 = u8::MAX;

/// Callers of one day that share groups, which are processed together.
pub struct Task<'a> {
    /// Day, counted since 1970.
    pub day: i64,
    /// Files of the callers.
    pub callers: Vec<&'a Source>,
}

/// Shared input of all threads.
pub struct World<'a> {
    /// Options of the analysis.
    pub options: &'a Options,
    /// Files of the data set.
    pub data: &'a DataSet,
    /// Counts of the first pass.
    pub counted: &'a Counted,
    /// Metrics that at least one file has.
    pub metrics: &'a [String],
    /// For each workload, the bin of the least high latency.
    pub high_bins: [Option<usize>; 5],
}

/// A call whose latency may or may not be high.
pub struct Undecided {
    workload: usize,
    latency_ns: u64,
    block: i64,
    metrics: Vec<Option<i64>>,
}

/// Results of a thread.
#[derive(Default)]
pub struct Found {
    /// Latencies that are kept.
    pub kept: Kept,
    /// Statistics of pairing.
    pub pairing: Pairing,
    /// Sums, by metric.
    pub metrics: Vec<Metric>,
    /// Grids, by metric and workload.
    pub grids: Vec<[Grid; 5]>,
    /// Points of scatter plots.
    pub points: Reservoir,
    /// Calls that may have a high latency.
    pub undecided: Vec<Undecided>,
    /// Episodes as seen by single callers.
    pub episodes: Vec<Episode>,
    /// Excluded data.
    pub exclusions: Exclusions,
}

/// A callee's rows of the day, with sums for those that calls currently belong to.
struct Callee {
    rows: Rows,
    /// Cell of each metric for each row.
    cells: Vec<u8>,
    recent: Recent,
    high: Vec<(u32, u8, u64)>,
    stall: Option<usize>,
}

/// State by node: not looked up yet, or the result.
type Callees = Vec<Option<Option<Callee>>>;

/// A caller that is being processed.
struct Caller<'a> {
    day: CallerDay<'a>,
    place: Place,
    /// Position of the last row of each callee.
    cursors: Vec<usize>,
    episodes: Vec<Episode>,
}

/// Divides a day's callers into sets that share groups.
pub fn tasks(data: &DataSet) -> Vec<Task<'_>> {
    let mut days: BTreeMap<i64, Vec<&Source>> = BTreeMap::new();
    data.calls.iter().for_each(|((day, _), source)| days.entry(*day).or_default().push(source));
    let mut tasks = Vec::new();
    for (day, sources) in days {
        // Each caller starts alone; every group joins its members.
        let mut part: BTreeMap<u16, u16> = BTreeMap::new();
        for source in &sources {
            part.entry(source.metadata.node).or_insert(source.metadata.node);
            for group in &source.metadata.groups {
                let Some(first) = group.first() else { continue };
                let target = *part.entry(*first).or_insert(*first);
                for member in group {
                    let old = *part.entry(*member).or_insert(*member);
                    part.values_mut()
                        .filter(|found| **found == old)
                        .for_each(|found| *found = target);
                }
            }
        }
        let mut parts: BTreeMap<u16, Vec<&Source>> = BTreeMap::new();
        for source in sources {
            parts.entry(part[&source.metadata.node]).or_default().push(source);
        }
        tasks.extend(parts.into_values().map(|callers| Task { day, callers }));
    }
    tasks
}

impl World<'_> {
    /// Processes callers of one day.
    ///
    /// # Errors
    /// A file of calls can no longer be read.
    pub fn visit(&self, found: &mut Found, task: &Task<'_>, step: &dyn Fn()) -> Result<(), Error> {
        found.metrics.resize_with(self.metrics.len(), Metric::default);
        found.grids.resize_with(self.metrics.len(), Default::default);
        let nodes = self.data.metadata.nodes.len();
        let mut callees: Callees = Vec::new();
        callees.resize_with(nodes, || None);
        // Without resources nothing is looked up, and one caller at a time takes less memory.
        let side_by_side = if self.metrics.is_empty() { 1 } else { SIDE_BY_SIDE };
        for sources in task.callers.chunks(side_by_side) {
            let mut callers = Vec::with_capacity(sources.len());
            for source in sources {
                let more: &[&str] = if self.metrics.is_empty() { &[] } else { &["rx_off"] };
                let (day, place) = (CallerDay::read(source, more)?, Place::default());
                callers.push(Caller { day, place, cursors: vec![0; nodes], episodes: Vec::new() });
            }
            let next = |callers: &[Caller<'_>]| {
                callers.iter().filter_map(|caller| caller.day.next_ns(&caller.place)).min()
            };
            while let Some(next_ns) = next(&callers) {
                let last_ns = next_ns.saturating_add(SLICE_NS);
                for caller in &mut callers {
                    self.slice(found, task.day, caller, &mut callees, last_ns);
                }
            }
            for mut caller in callers {
                found.episodes.append(&mut caller.episodes);
                step();
            }
        }
        callees.iter_mut().flatten().flatten().for_each(|callee| Self::close(found, callee));
        Ok(())
    }

    /// Processes the sessions of a caller that are due until a time.
    fn slice(
        &self,
        found: &mut Found,
        task_day: i64,
        caller: &mut Caller<'_>,
        callees: &mut Callees,
        last_ns: i64,
    ) {
        let Caller { day, place, cursors, episodes } = caller;
        // Excluded rows were counted in the first pass.
        let mut again = Exclusions::default();
        day.sessions_until(last_ns, place, &mut again, |session| {
            found.kept.add(session, self.counted);
            for call in session.calls {
                let dst = usize::from(call.dst);
                let callee = callees[dst]
                    .get_or_insert_with(|| self.callee(task_day, call.dst, &mut found.exclusions));
                let cursor = &mut cursors[dst];
                let row = self.pair(found, day, session, call, callee.as_mut(), cursor);
                if call.latency_ns > self.options.episode_level_ns {
                    let stall_us = callee.as_ref().zip(row).and_then(|(callee, row)| {
                        callee.stall.and_then(|metric| callee.rows.host.metrics[metric][row])
                    });
                    self.episode(episodes, day, session, call, stall_us);
                }
            }
        });
    }

    fn callee(&self, day: i64, node: u16, exclusions: &mut Exclusions) -> Option<Callee> {
        let source = self.data.hosts.get(&(day, node))?;
        let rows = match Rows::read(source, self.metrics) {
            Ok(rows) => rows,
            Err(error) => {
                source.files.iter().for_each(|path| exclusions.file(&self.data.root, path, &error));
                return None;
            }
        };
        exclusions.rows("resources_not_in_order_but_used", rows.out_of_order);
        let n = rows.host.t_ns.len();
        let mut cells = vec![NO_CELL; n * self.metrics.len()];
        for (metric, values) in rows.host.metrics.iter().enumerate() {
            for (row, value) in values.iter().enumerate() {
                cells[row * self.metrics.len() + metric] = value.map_or(NO_CELL, metric_cell);
            }
        }
        let stall = self.metrics.iter().position(|name| name == STALL);
        Some(Callee { rows, cells, recent: Recent::default(), high: Vec::new(), stall })
    }

    /// Pairs a call, and returns the row of its callee.
    fn pair(
        &self,
        found: &mut Found,
        day: &CallerDay<'_>,
        session: &Session<'_>,
        call: &Call,
        callee: Option<&mut Callee>,
        cursor: &mut usize,
    ) -> Option<usize> {
        if call.status != Status::Ok || call.latency_ns == NEVER {
            return None;
        }
        found.pairing.ok += 1;
        let Some(callee) = callee else {
            found.pairing.no_rows += 1;
            return None;
        };
        let offset_us = day.calls.rx_off_us[call.row];
        if offset_us == NO_OFFSET {
            found.pairing.no_time += 1;
            return None;
        }
        let received_ns = session.t_sched_ns + i64::from(offset_us) * 1000;
        let Some((row, distance_ns)) = callee.rows.nearest(received_ns, cursor) else {
            found.pairing.no_rows += 1;
            return None;
        };
        if distance_ns > FARTHEST_NS {
            found.pairing.too_far += 1;
            return None;
        }
        found.pairing.pair(distance_ns);
        let workload = usize::from(session.workload);
        let ln = ln_fixed(call.latency_ns);
        if callee.recent.is_full(row) {
            Self::close_rows(found, callee, Recent::keeps_from(row));
        }
        match callee.recent.at(row) {
            Some(sums) => sums[workload].add(call.latency_ns, ln),
            None => {
                // The row is closed already: the clocks of callers, or of the callee, are far
                // apart.
                let mut of = [RowSums::default(); 5];
                of[workload].add(call.latency_ns, ln);
                Self::add_rows(found, &callee.rows, &[(row, of)]);
            }
        }
        let host = &callee.rows.host;
        let latency_row = latency_cell(call.latency_ns, ln);
        let cells = &callee.cells[row * self.metrics.len()..];
        for (grids, cell) in found.grids.iter_mut().zip(cells) {
            if *cell != NO_CELL {
                grids[workload].add(latency_row, *cell);
            }
        }
        let metrics = || host.metrics.iter().map(|values| values[row]).collect::<Vec<_>>();
        if let Some(high) = self.high_bins[workload] {
            let bin = bin(call.latency_ns);
            if bin > high {
                callee.high.push((row as u32, session.workload, call.latency_ns));
            } else if bin == high {
                let block = host.t_ns[row].div_euclid(BLOCK_NS);
                let latency_ns = call.latency_ns;
                found.undecided.push(Undecided { workload, latency_ns, block, metrics: metrics() });
            }
        }
        let node = u64::from(day.metadata.node) << 16 | u64::from(call.dst);
        let order = seed_of(&[session.t_sched_ns.cast_unsigned(), node]);
        if found.points.wants(order, self.options.scatter_points) {
            let (workload, latency_ns) = (session.workload, call.latency_ns);
            let point = Point { order, workload, latency_ns, metrics: metrics() };
            found.points.push(point, self.options.scatter_points);
        }
        Some(row)
    }

    fn episode(
        &self,
        episodes: &mut Vec<Episode>,
        day: &CallerDay<'_>,
        session: &Session<'_>,
        call: &Call,
        stall_us: Option<i64>,
    ) {
        let level_ns = self.options.episode_level_ns;
        let stalled = stall_us.map(|us| us.unsigned_abs().saturating_mul(2000) >= level_ns);
        let replied = call.latency_ns != NEVER;
        let own = day.metadata.node;
        Episode::append(
            episodes,
            Episode::one(session.t_sched_ns, own, call.dst, replied, stalled),
        );
    }

    /// Adds the sums of rows to the sums of each metric.
    fn add_rows(found: &mut Found, rows: &Rows, sums: &[(usize, [RowSums; 5])]) {
        let all = sums.iter().map(|(_, of)| {
            let mut all = RowSums::default();
            of.iter().for_each(|sums| all.merge(sums));
            all
        });
        let all: Vec<RowSums> = all.collect();
        for (metric, values) in found.metrics.iter_mut().zip(&rows.host.metrics) {
            let told = sums.iter().zip(&all).filter(|(_, all)| all.n > 0);
            metric.add_rows(told.filter_map(|((row, of), all)| {
                let block = rows.host.t_ns[*row].div_euclid(BLOCK_NS);
                Some((block, values[*row]?, of, all))
            }));
        }
    }

    /// Closes all rows before one, and adds their sums to those of each metric.
    fn close_rows(found: &mut Found, callee: &mut Callee, before: usize) {
        let closed = callee.recent.close(before);
        Self::add_rows(found, &callee.rows, &closed);
    }

    /// Closes the remaining rows of a callee's day.
    fn close(found: &mut Found, callee: &mut Callee) {
        Self::close_rows(found, callee, usize::MAX);
        let host = &callee.rows.host;
        for (metric, values) in found.metrics.iter_mut().zip(&host.metrics) {
            for (row, workload, latency_ns) in &callee.high {
                let Some(value) = values[*row as usize] else { continue };
                let block = host.t_ns[*row as usize].div_euclid(BLOCK_NS);
                let one = RowSums::one(*latency_ns, ln_fixed(*latency_ns));
                metric.add_high(usize::from(*workload), block, &one, value);
            }
        }
    }
}

impl Found {
    /// Adds another thread's results.
    pub fn merge(&mut self, other: Self, options: &Options) {
        self.pairing.merge(&other.pairing);
        let longest = self.metrics.len().max(other.metrics.len());
        self.metrics.resize_with(longest, Metric::default);
        self.grids.resize_with(longest, Default::default);
        self.metrics.iter_mut().zip(&other.metrics).for_each(|(to, from)| to.merge(from));
        for (to, from) in self.grids.iter_mut().zip(&other.grids) {
            to.iter_mut().zip(from).for_each(|(to, from)| to.merge(from));
        }
        self.points.merge(other.points, options.scatter_points);
        self.undecided.extend(other.undecided);
        self.episodes.extend(other.episodes);
        self.exclusions.merge(other.exclusions);
    }

    /// Decides which calls have a high latency, now that the thresholds are known.
    pub fn decide(&mut self, p99_ns: &[Option<u64>; 5]) {
        for call in std::mem::take(&mut self.undecided) {
            if p99_ns[call.workload].is_none_or(|p99_ns| call.latency_ns < p99_ns) {
                continue;
            }
            let one = RowSums::one(call.latency_ns, ln_fixed(call.latency_ns));
            for (metric, value) in self.metrics.iter_mut().zip(call.metrics) {
                if let Some(value) = value {
                    metric.add_high(call.workload, call.block, &one, value);
                }
            }
        }
    }
}
