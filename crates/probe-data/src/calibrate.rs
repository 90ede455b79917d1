//! Calibration of a data set: time-outs, sizes and risks by all models of [`probe::calibrate`] in
//! one pass.

use crate::error::{Error, Exclusions};
use crate::progress::Progress;
use crate::tables::dataset::DataSet;
use crate::tables::rounds;
use crate::tables::rounds::Seen;
use crate::tables::thin::replay::{Counted, replay};
use probe::calibrate::accrual::{self, Gaps, Tuning};
use probe::calibrate::gamma::{self, SIZE_MAX, Windows};
use probe::calibrate::pauses::Pauses;
use probe::calibrate::protocols::hedge::{self, Hedges};
use probe::calibrate::protocols::raft;
use probe::calibrate::protocols::visigoth::{self, Replies};
use probe::calibrate::protocols::xft::{self, Faults, Slots};
use probe::calibrate::round::Round;
use probe::calibrate::settings::{self, Setting};
use probe::calibrate::suspicion::{Curve, Scope, Suspicions};
use probe::random::Numbers;
use serde::Serialize;
use std::path::Path;

/// Target of a calibration.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Curve of false suspicions.
    Suspicion,
    /// Gamma-accurate detectors.
    Gamma,
    /// Visigoth.
    Visigoth,
    /// XFT.
    Xft,
    /// Thresholds of accrual detectors.
    Accrual,
    /// Timers of Raft.
    Raft,
    /// Hedged reads, and the best leader.
    Hedge,
}

impl Target {
    /// All targets.
    pub const ALL: [Self; 7] = [
        Self::Suspicion,
        Self::Gamma,
        Self::Visigoth,
        Self::Xft,
        Self::Accrual,
        Self::Raft,
        Self::Hedge,
    ];
}

/// Options of a calibration.
#[derive(Clone, Debug, Serialize)]
pub struct Options {
    /// Targets.
    pub targets: Vec<Target>,
    /// Fraction of the rounds, or of the windows, that may violate the assumption.
    pub risk: f64,
    /// Length of a window.
    pub window_ns: i64,
    /// Crashes to tolerate; `None` for those of a minority.
    pub crashes: Option<u8>,
    /// Additional arbitrary faults, for Visigoth.
    pub arbitrary: u8,
    /// Values of 2 Delta, for XFT.
    pub two_delta_ns: Vec<u64>,
    /// Faults of a replica, for XFT.
    pub faults: Faults,
    /// Parameters of accrual detectors.
    pub tuning: Tuning,
    /// Rate of mistakes about one node that a detector may make.
    pub mistakes_per_s: f64,
    /// Requirements of Raft.
    pub raft: raft::Wanted,
    /// Whether to take the size of groups from the data.
    pub size_of_data: bool,
    /// Time after which a reply is too late; `None` for the median p95 of all pairs.
    pub budget_ns: Option<u64>,
    /// Whether to include the curve of every pair.
    pub pairs: bool,
    /// Seed of the resampling.
    pub seed: u64,
}

/// Results of a calibration.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Options.
    pub inputs: Options,
    /// Description of the data.
    pub data: Data,
    /// False suspicions by time-out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspicion: Option<Vec<Curve>>,
    /// Gamma by time-out, for every size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma: Option<Vec<gamma::OfSize>>,
    /// Values of s, T and replicas, for every size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub visigoth: Option<Vec<visigoth::OfSize>>,
    /// Likelihoods, for every size and 2 Delta.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub xft: Option<Vec<xft::OfDeadline>>,
    /// Thresholds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accrual: Option<accrual::Report>,
    /// Timers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raft: Option<raft::Report>,
    /// Delays and leaders.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hedge: Option<hedge::Report>,
    /// Results as settings of other systems.
    pub settings: Vec<Setting>,
}

/// Description of the data.
#[derive(Debug, Serialize)]
pub struct Data {
    /// Name of the deployment.
    pub deployment: String,
    /// Names of nodes; everywhere else they are numbers, counted from 0.
    pub nodes: Vec<String>,
    /// Rows and rounds.
    #[serde(flatten)]
    pub seen: Seen,
    /// Rounds of groups that are too large for groups' models.
    pub rounds_of_large_groups: u64,
    /// Thinned-out days, which only Raft's timers use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinned: Option<Counted>,
    /// Excluded data.
    pub excluded: Exclusions,
}

struct Collectors {
    suspicions: Option<Suspicions>,
    windows: Option<Windows>,
    replies: Option<Replies>,
    slots: Option<Slots>,
    gaps: Option<Gaps>,
    pauses: Option<Pauses>,
    hedges: Option<Hedges>,
    large: u64,
}

impl Collectors {
    fn new(options: &Options, period_ns: i64) -> Self {
        let wants = |target| options.targets.contains(&target);
        Self {
            suspicions: wants(Target::Suspicion).then(Suspicions::default),
            windows: (wants(Target::Gamma) || wants(Target::Visigoth))
                .then(|| Windows::new(options.window_ns)),
            replies: wants(Target::Visigoth).then(Replies::default),
            slots: wants(Target::Xft).then(|| Slots::new(period_ns, options.two_delta_ns.clone())),
            gaps: wants(Target::Accrual).then(|| Gaps::new(None, period_ns)),
            pauses: wants(Target::Raft).then(Pauses::default),
            hedges: (wants(Target::Hedge) || wants(Target::Raft)).then(Hedges::default),
            large: 0,
        }
    }

    fn observe(&mut self, round: &Round) {
        if let Some(of) = &mut self.suspicions {
            of.observe(round);
        }
        if let Some(of) = &mut self.gaps {
            of.observe(round);
        }
        if let Some(of) = &mut self.pauses {
            of.observe(round);
        }
        if let Some(of) = &mut self.hedges {
            of.observe(round);
        }
        if usize::from(round.size) > SIZE_MAX {
            self.large += 1;
            return;
        }
        if let Some(of) = &mut self.windows {
            of.observe(round);
        }
        if let Some(of) = &mut self.replies {
            of.observe(round);
        }
        if let Some(of) = &mut self.slots {
            of.observe(round);
        }
    }
}

/// Calibrates the requested targets from a folder of measurements.
///
/// # Errors
/// The folder has no readable calls, or a file cannot be read any more.
pub fn calibrate(
    folder: &Path,
    options: &Options,
    progress: &dyn Progress,
) -> Result<Report, Error> {
    let mut data = DataSet::open(folder)?.with_calls()?;
    let period_ms = data.metadata.config.period_ms.max(1);
    let period_ns = i64::try_from(period_ms).unwrap_or(1_000) * 1_000_000;
    let mut collectors = Collectors::new(options, period_ns);
    let seen = rounds::visit(&data, progress, &mut |round| collectors.observe(round))?;
    if seen.rounds == 0 {
        return Err(Error::content(folder, "has no round that can be used"));
    }
    let mut exclusions = std::mem::take(&mut data.exclusions);
    let pauses = collectors.pauses.as_mut().filter(|_| !data.thinned.is_empty());
    let counted = pauses.map(|pauses| replay(&data, &mut exclusions, progress, pauses));
    data.exclusions = exclusions;
    Ok(report(data, (seen, counted), collectors, options, period_ns))
}

fn report(
    data: DataSet,
    (seen, thinned): (Seen, Option<Counted>),
    collectors: Collectors,
    options: &Options,
    period_ns: i64,
) -> Report {
    let wants = |target| options.targets.contains(&target);
    let Collectors { suspicions, windows, replies, slots, gaps, pauses, hedges, large } =
        collectors;
    let curves = suspicions.map(|of| {
        let keep = |curve: &Curve| options.pairs || !matches!(curve.scope, Scope::Pair { .. });
        of.curves().into_iter().filter(keep).collect()
    });
    let gamma = windows.as_ref().filter(|_| wants(Target::Gamma));
    let gamma = gamma.map(|of| gamma::cardinalities(of, options.crashes, options.risk));
    let wanted = visigoth::Wanted {
        crashes: options.crashes,
        arbitrary: options.arbitrary,
        risk: options.risk,
        period_ns: period_ns.unsigned_abs(),
    };
    let visigoth = replies.map(Replies::finish).zip(windows);
    let visigoth = visigoth.map(|(of, windows)| visigoth::choices(&of, &windows, &wanted));
    let xft = slots.map(|of| xft::report(&of.finish(), options.faults));
    let accrual =
        gaps.map(|of| accrual::report(&of.finish(), &options.tuning, options.mistakes_per_s));
    let hedges = hedges.map(Hedges::finish);
    let raft = pauses.map(|of| {
        let measured = of.finish();
        let size = if options.size_of_data { measured.size } else { options.raft.size };
        let wanted = raft::Wanted { size, ..options.raft };
        let commits = hedges.as_ref().map(|of| &of.commits).filter(|law| law.count() > 0);
        raft::report(&measured, commits, &wanted, &mut Numbers::new(options.seed))
    });
    let hedge = hedges.as_ref().filter(|_| wants(Target::Hedge));
    let hedge = hedge.map(|of| hedge::report(of, options.budget_ns));
    let mut known = Vec::new();
    if let Some(timers) = raft.as_ref().and_then(|of| of.timers.as_ref()) {
        known.extend(settings::of_timers(timers));
    }
    if let Some(accrual) = &accrual {
        known.extend(settings::of_accrual(accrual, &options.tuning));
    }
    Report {
        inputs: options.clone(),
        data: Data {
            deployment: data.metadata.deployment,
            nodes: data.metadata.nodes,
            seen,
            rounds_of_large_groups: large,
            thinned,
            excluded: data.exclusions,
        },
        suspicion: curves,
        gamma,
        visigoth,
        xft,
        accrual,
        raft,
        hedge,
        settings: known,
    }
}
