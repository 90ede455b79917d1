//! Simulator of the calls of a deployment, and writer of their files.

use super::law::{
    LATE_NS, LOST_PPM, ONE_LATE_IN, PAUSE_MEAN_MS, SLOW_FACTOR, Skewed, TWO_LATE_IN, payload_100ns,
    service_100ns,
};
use super::node::NodeDay;
use super::truth::{CountTruth, LateTruth, PauseTruth, Sums, Truth};
use super::{FIRST_EPOCH, Made, Options, TRUTH};
use crate::error::Error;
use crate::progress::Progress;
use crate::tables::meta::{Clock, Config, Incarnation, Metadata, Origin, Planted, Table, VERSION};
use crate::tables::recorder::{CallRecorder, HostRecorder};
use probe::groups::draw;
use probe::random::{Numbers, number, seed_of};
use probe::schedule::{OVERDUE_MAX_NS, PERIOD_NS, due_ns, phase_ns, workload};
use probe::{Sample, Status, Workload};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Maximum rate of pauses for which the planted s and T hold: up to it, pauses make a group of nine
/// late in a fraction of its sessions below the planted risks.
const LATE_KNOWN_PAUSES_PER_HOUR: f64 = 4.0;

/// Shared input of all threads.
struct World<'a> {
    options: &'a Options,
    root: &'a Path,
    slow: Vec<bool>,
    path_law: Skewed,
    service_law: Skewed,
    lag_law: Skewed,
    metadata: Metadata,
}

/// Results of a thread.
#[derive(Default)]
struct Done {
    rows: u64,
    resource_rows: u64,
    bytes: u64,
    sums: Sums,
}

pub fn run(options: &Options, root: &Path, progress: &dyn Progress) -> Result<Made, Error> {
    let began = Instant::now();
    let world = World::new(options, root);
    let mut all = Done::default();
    let mut pauses: Vec<i64> = Vec::new();
    let steps = u64::from(options.days) * u64::from(options.nodes);
    progress.begin("days of callers", steps);
    for epoch in 0..options.days {
        let day = FIRST_EPOCH + i64::from(epoch);
        let nodes: Vec<NodeDay> =
            (0..options.nodes).map(|node| NodeDay::new(options, node, day)).collect();
        pauses.extend(nodes.iter().flat_map(|node| &node.pauses).map(|(begin, end)| end - begin));
        let done = world.epoch(epoch, &nodes, progress)?;
        all.rows += done.rows;
        all.resource_rows += done.resource_rows;
        all.bytes += done.bytes;
        all.sums.merge(&done.sums);
    }
    std::fs::remove_dir(root.join(crate::tables::recorder::PIECES)).map_err(Error::io(root))?;
    let truth = world.truth(&all.sums, &pauses);
    let path = root.join(TRUTH);
    let text = serde_json::to_string_pretty(&truth)
        .map_err(|error| Error::content(&path, error.to_string()))?;
    std::fs::write(&path, text + "\n").map_err(Error::io(&path))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Made {
        rows: all.rows,
        resource_rows: all.resource_rows,
        bytes: all.bytes,
        bytes_per_row: all.bytes as f64 / all.rows.max(1) as f64,
        seconds,
        rows_per_s: all.rows as f64 / seconds,
        truth,
    })
}

impl<'a> World<'a> {
    fn new(options: &'a Options, root: &'a Path) -> Self {
        // The slow nodes are drawn like groups.
        let mut order: Vec<u16> = (0..options.nodes).collect();
        let mut numbers = Numbers::new(seed_of(&[options.seed, 41]));
        for last in (1..order.len()).rev() {
            order.swap(last, numbers.below(last as u64 + 1) as usize);
        }
        let mut slow = vec![false; usize::from(options.nodes)];
        order
            .iter()
            .take(usize::from(options.slow))
            .for_each(|node| slow[usize::from(*node)] = true);
        let incarnation = |node| Incarnation {
            node,
            number: format!("{:016x}", number(options.seed, node.into())),
        };
        let planted = Planted {
            slow_nodes: (0..options.nodes).filter(|node| slow[usize::from(*node)]).collect(),
            pauses_per_node_s: options.pauses_per_hour / 3600.0,
            pause_mean_ms: PAUSE_MEAN_MS,
            late_ms: LATE_NS / 1_000_000,
            one_late_in: ONE_LATE_IN,
            two_late_in: TWO_LATE_IN,
            lost_ppm: LOST_PPM as u32,
        };
        let metadata = Metadata {
            version: VERSION,
            table: Table::Rpc,
            origin: Origin::Simulated,
            deployment: format!("simulated-{}", options.seed),
            first_epoch: FIRST_EPOCH,
            epoch: 0,
            node: 0,
            nodes: (0..options.nodes).map(|node| format!("n{node}")).collect(),
            groups: Vec::new(),
            resting: Vec::new(),
            config: Config {
                period_ms: 1000,
                plan: options.plan.sizes().to_vec(),
                seed: options.seed,
                payload_bytes: 51_200,
                ..Config::default()
            },
            clock: Clock::default(),
            incarnations: (0..options.nodes).map(incarnation).collect(),
            build: env!("CARGO_PKG_VERSION").into(),
            planted: Some(planted),
        };
        Self {
            options,
            root,
            slow,
            path_law: Skewed::new(0.08),
            service_law: Skewed::new(0.12),
            lag_law: Skewed::new(0.5),
            metadata,
        }
    }

    /// Writes all files of one epoch.
    fn epoch(&self, epoch: u16, nodes: &[NodeDay], progress: &dyn Progress) -> Result<Done, Error> {
        let members: Vec<u16> = (0..self.options.nodes).collect();
        let day = FIRST_EPOCH + i64::from(epoch);
        let grouping = draw(
            &members,
            &self.options.plan,
            self.options.seed,
            u32::try_from(day).unwrap_or_default(),
            0,
        );
        let metadata = Metadata {
            epoch,
            groups: grouping.groups,
            resting: grouping.resting,
            ..self.metadata.clone()
        };
        let next = AtomicUsize::new(0);
        let all = Mutex::new(Ok(Done::default()));
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads.max(1) {
                scope.spawn(|| {
                    let mut done = Done::default();
                    let mut write = || -> Result<(), Error> {
                        while let Ok(node) = u16::try_from(next.fetch_add(1, Ordering::Relaxed)) {
                            if usize::from(node) >= nodes.len() {
                                break;
                            }
                            self.caller(&metadata, node, nodes, &mut done)?;
                            if self.options.resources {
                                self.host(&metadata, node, nodes, &mut done)?;
                            }
                            progress.step();
                        }
                        Ok(())
                    };
                    let result = write();
                    let Ok(mut all) = all.lock() else { return };
                    match (&mut *all, result) {
                        (Ok(all), Ok(())) => {
                            all.rows += done.rows;
                            all.resource_rows += done.resource_rows;
                            all.bytes += done.bytes;
                            all.sums.merge(&done.sums);
                        }
                        (found, Err(error)) if found.is_ok() => *found = Err(error),
                        _ => {}
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(|_| Err(Error::Asked("a writer panicked".into())))
    }

    fn host(
        &self,
        metadata: &Metadata,
        node: u16,
        nodes: &[NodeDay],
        done: &mut Done,
    ) -> Result<(), Error> {
        let metadata = Metadata { node, ..metadata.clone() };
        let mut recorder = HostRecorder::new(self.root, metadata, i64::MAX)?;
        let day = &nodes[usize::from(node)];
        for second in 0..day.rows.len() {
            recorder.push(&day.resources(second))?;
        }
        recorder.finish()?;
        done.resource_rows += day.rows.len() as u64;
        Ok(())
    }

    /// Writes the file of one caller.
    fn caller(
        &self,
        metadata: &Metadata,
        src: u16,
        nodes: &[NodeDay],
        done: &mut Done,
    ) -> Result<(), Error> {
        let found = metadata.groups.iter().position(|group| group.contains(&src));
        let Some(index) = found else { return Ok(()) };
        let members = &metadata.groups[index];
        let mut metadata = Metadata { node: src, ..metadata.clone() };
        metadata.incarnations.retain(|one| members.contains(&one.node));
        let day = metadata.first_epoch + i64::from(metadata.epoch);
        let seed = self.options.seed;
        let template = Sample {
            epoch: metadata.epoch,
            group: index as u16,
            group_size: members.len() as u8,
            workload: Workload::Null,
            src,
            dst: src,
            round: 0,
            t_sched_ns: 0,
            lag_ns: 0,
            rtt_100ns: None,
            svc_100ns: None,
            rx_off_us: None,
            status: Status::Ok,
            incarnation: 0,
        };
        let mut recorder = CallRecorder::new(self.root, metadata, i64::MAX)?;
        let mut numbers = Numbers::new(seed_of(&[seed, 51, day.cast_unsigned(), u64::from(src)]));
        let own = &nodes[usize::from(src)];
        let mut own_hint = 0;
        let mut hints = vec![0; members.len()];
        for round in 0..self.options.rounds {
            let phase = phase_ns(seed, day, src, round, PERIOD_NS);
            let t_sched_ns = due_ns(day, round, phase, PERIOD_NS);
            let true_ns = t_sched_ns - own.clock_ns;
            let held_ns = own.held_ns(true_ns, &mut own_hint);
            let late = late_members(round, members.len());
            let bits = numbers.next_u64();
            // A timer of this machine: tens of microseconds, in steps of 100 ns.
            let lag_ns =
                held_ns.unsigned_abs() / 100 * 100 + (self.lag_law.at(bits) * 600.0) as u64 * 100;
            for (member, dst) in members.iter().enumerate() {
                let mut sample = Sample { dst: *dst, round, t_sched_ns, ..template };
                sample.workload = workload(round, None);
                sample.incarnation = member as u8;
                sample.lag_ns = u32::try_from(lag_ns).unwrap_or(u32::MAX);
                let is_late = late.contains(&Some(member)) && held_ns == 0;
                let call = Call {
                    bits: numbers.next_u64(),
                    true_ns: true_ns + lag_ns.cast_signed(),
                    is_late,
                };
                if held_ns > OVERDUE_MAX_NS {
                    sample.status = Status::Skipped;
                } else {
                    self.call(&mut sample, &nodes[usize::from(*dst)], &mut hints[member], &call);
                }
                if sample.status == Status::Ok
                    && let (Some(latency_ns), Some(own_ns)) =
                        (sample.latency_ns(), sample.received_ns())
                {
                    let node = &nodes[usize::from(*dst)];
                    let row = node.nearest(own_ns);
                    if (own_ns - node.row_ns(row)).abs() <= 2 * PERIOD_NS {
                        done.sums.add(latency_ns, &node.rows[row]);
                    }
                }
                recorder.push(&sample)?;
                done.rows += 1;
            }
        }
        let path = recorder.finish()?;
        done.bytes += std::fs::metadata(&path).map_err(Error::io(&path))?.len();
        Ok(())
    }

    /// Simulates the result of one call.
    fn call(&self, sample: &mut Sample, node: &NodeDay, hint: &mut usize, call: &Call) {
        let bits = call.bits;
        if (bits >> 44) % 1_000_000 < LOST_PPM {
            sample.status = Status::NoReply;
            return;
        }
        let pair = number(
            seed_of(&[self.options.seed, 61]),
            u64::from(sample.src) * 65_536 + u64::from(sample.dst),
        );
        // A network path takes from 100 to 130 microseconds; a node's path to itself a sixth.
        let median = if sample.src == sample.dst { 180.0 } else { 1000.0 + (pair % 300) as f64 };
        let one_way = median * self.path_law.at(bits);
        let arrival_ns = call.true_ns + (one_way * 100.0) as i64;
        let held_ns = node.held_ns(arrival_ns, hint);
        let rx_true_ns = arrival_ns + held_ns;
        let rx_own_ns = rx_true_ns + node.clock_ns;
        let row = node.nearest(rx_own_ns);
        let factor = if self.slow[usize::from(sample.dst)] { SLOW_FACTOR } else { 1.0 };
        let service = service_100ns(sample.workload) * factor * self.service_law.at(bits >> 12);
        let service = service as u32 + node.stall_100ns(row);
        let way = 2.0 * one_way + payload_100ns(sample.workload) * self.path_law.at(bits >> 24);
        let mut rtt = u64::from(service) + way as u64 + held_ns.unsigned_abs() / 100;
        if call.is_late {
            rtt = LATE_NS.saturating_sub(sample.lag_ns.into()) / 100;
        }
        sample.rtt_100ns = u32::try_from(rtt).ok();
        sample.svc_100ns = Some(service);
        let offset_us = (rx_own_ns - sample.t_sched_ns).div_euclid(1000);
        sample.rx_off_us = i32::try_from(offset_us).ok();
    }

    fn truth(&self, sums: &Sums, pauses: &[i64]) -> Truth {
        let options = self.options;
        let node_s = u64::from(options.nodes) * u64::from(options.days) * u64::from(options.rounds);
        let longer = |ms: u64| {
            let count = pauses.iter().filter(|ns| **ns > ms as i64 * 1_000_000).count() as u64;
            PauseTruth { longer_than_ms: ms, count, per_node_s: count as f64 / node_s as f64 }
        };
        let late = |s, eps_ppm| LateTruth { s, eps_ppm, t_ns: LATE_NS };
        let count = |s, eps_ppm| CountTruth { t_ns: 100_000_000, eps_ppm, s };
        // With more pauses, more members are late than those that were planted.
        let known = options.pauses_per_hour <= LATE_KNOWN_PAUSES_PER_HOUR;
        let (t_of_s, s_of_t) = if known {
            (
                vec![late(0, 5_000), late(1, 1_000)],
                vec![count(0, 50_000), count(1, 5_000), count(2, 1_000)],
            )
        } else {
            (Vec::new(), Vec::new())
        };
        Truth {
            slow_nodes: (0..options.nodes).filter(|node| self.slow[usize::from(*node)]).collect(),
            pauses_per_node_s: options.pauses_per_hour / 3600.0,
            node_s,
            pauses: [200, 500, 1000, 2000].map(longer).into(),
            correlations: if options.resources { sums.correlations() } else { Vec::new() },
            t_of_s,
            s_of_t,
        }
    }
}

/// A call in flight.
struct Call {
    bits: u64,
    true_ns: i64,
    is_late: bool,
}

/// Members that are deliberately late in a round.
fn late_members(round: u32, members: usize) -> [Option<usize>; 2] {
    let place = |turn: u32| turn as usize % members;
    if round % ONE_LATE_IN == ONE_LATE_IN / 2 {
        [Some(place(round / ONE_LATE_IN)), None]
    } else if round % TWO_LATE_IN == TWO_LATE_IN / 10 + 3 {
        let turn = round / TWO_LATE_IN;
        [Some(place(turn)), Some(place(turn + 1))]
    } else {
        [None, None]
    }
}
