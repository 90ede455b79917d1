//! Experiments of the study, and the parameters that each gives its points.

use super::plan::Measure;
use crate::coordination::args::{ASYNC_QUEUE_WATCH, ETCD_MUTEX, recipes};
use crate::coordination::grants;
use crate::coordination::grants::keepers;
use clap::ValueEnum;

/// Round trips of the study's grids.
const GRID_MS: [f64; 7] = [0.0, 25.0, 50.0, 100.0, 150.0, 200.0, 250.0];

/// An experiment of the study, or one that was added to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Experiment {
    /// Round trips by themselves, on this machine and over a line with a heavy tail.
    E0,
    /// Waiting for one of several replies, for a majority, for all.
    E1,
    /// Smoke test: single operations, one by one and all at once.
    E2,
    /// Pipelined creates over a grid of both round trips.
    E3,
    /// Sequential creates over a grid of both round trips.
    E4,
    /// Heat maps: locks over a grid of both round trips.
    E5,
    /// Locks over the round trip between servers, with clients 50 ms away.
    E6,
    /// Plan of E8 to E11: the positions of their points. Measures nothing.
    E7,
    /// Locks over the holding time, with clients 100 ms away.
    E8,
    /// Locks over the holding time, with clients close by.
    E9,
    /// Locks over the round trip of clients, with a short holding time.
    E10,
    /// Locks over the round trip of clients, held for most of the time.
    E11,
    /// Best algorithm per quadrant, from E8 to E11.
    E12,
    /// Clients at three distances: fairness of the lock.
    E13,
    /// More and more clients: cost of a lock, and the point at which polling collapses.
    E14,
    /// Failures: the holder dies, a waiter dies, an answer is lost.
    E15,
    /// Barriers: parties that wait for each other.
    E16,
    /// Claret's own lock beside recipes, at the points of E8, E10 and E11 at which it is stable.
    E17,
}

/// Parameters of an experiment, which the command line overrides.
pub struct Preset {
    /// Kind of measurement.
    pub measure: Measure,
    /// Algorithms of the lock.
    pub algorithms: Vec<&'static str>,
    /// Round trips of clients.
    pub client_ms: Vec<f64>,
    /// Round trips between servers.
    pub server_ms: Vec<f64>,
    /// Mean times in the critical section.
    pub service_ms: Vec<f64>,
    /// Mean times between requests.
    pub interarrival_ms: Vec<f64>,
    /// Poll intervals.
    pub poll_ms: Vec<f64>,
    /// Numbers of clients of a closed loop; empty for a stream of requests.
    pub closed: Vec<u32>,
    /// Round trips of the three thirds of the clients; replaces `client_ms`.
    pub distances_ms: Vec<f64>,
    /// Requests of a run.
    pub requests: u32,
    /// Runs.
    pub seeds: u32,
}

impl Experiment {
    /// Name in the study.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Parameters of the experiment, in one or several grids.
    pub fn presets(self) -> Vec<Preset> {
        if self != Self::E17 {
            return vec![self.preset()];
        }
        let cut = |whole: Self, client_ms_max: f64, service_ms_max: f64| {
            let mut preset = whole.preset();
            preset.client_ms.retain(|ms| *ms <= client_ms_max);
            preset.service_ms.retain(|ms| *ms <= service_ms_max);
            let algorithms = vec![
                grants::NAME,
                keepers::ADAPTIVE,
                "sync-queue-relist",
                "async-queue",
                "async-tas",
                ASYNC_QUEUE_WATCH,
                ETCD_MUTEX,
            ];
            Preset { algorithms, ..preset }
        };
        // A round trip, the service and a log write must fit between two requests.
        let kept = Preset {
            algorithms: vec![
                grants::NAME,
                grants::SUCCESSOR,
                grants::NEAR,
                keepers::RETAINED,
                keepers::COHORT,
                keepers::ADAPTIVE,
            ],
            client_ms: vec![0.2, 20.0],
            // One client alone, which can keep the lock, and several clients.
            closed: vec![1, 8],
            ..custom()
        };
        let (e8, e10) = (cut(Self::E8, 100.0, 90.0), cut(Self::E10, 250.0, 1.0));
        vec![e8, e10, cut(Self::E11, 40.0, 150.0), kept]
    }

    fn preset(self) -> Preset {
        let preset = custom();
        let far = [0.2, 25.0, 50.0, 100.0, 150.0, 200.0, 250.0];
        let services = [1.0, 25.0, 50.0, 75.0, 90.0, 100.0, 110.0, 130.0, 150.0];
        let grid = GRID_MS.to_vec();
        let rarely = vec![500.0];
        match self {
            Self::E5 => Preset {
                client_ms: grid.clone(),
                server_ms: grid,
                interarrival_ms: rarely,
                ..preset
            },
            Self::E6 => {
                Preset { client_ms: vec![50.0], server_ms: grid, interarrival_ms: rarely, ..preset }
            }
            Self::E8 => Preset { client_ms: vec![100.0], service_ms: services.to_vec(), ..preset },
            Self::E9 => {
                let service_ms = [&services[..], &[170.0, 190.0]].concat();
                Preset { client_ms: vec![0.2], service_ms, ..preset }
            }
            Self::E10 => Preset { client_ms: far.to_vec(), interarrival_ms: rarely, ..preset },
            Self::E11 => Preset {
                client_ms: vec![0.2, 10.0, 25.0, 40.0, 50.0, 75.0, 100.0],
                service_ms: vec![150.0],
                ..preset
            },
            Self::E13 => Preset {
                distances_ms: vec![1.0, 20.0, 100.0],
                service_ms: vec![20.0],
                closed: vec![12],
                ..preset
            },
            Self::E14 => Preset {
                client_ms: vec![20.0],
                service_ms: vec![5.0],
                poll_ms: vec![5.0, 10.0, 25.0, 50.0],
                closed: vec![5, 20, 50, 100, 200],
                requests: 400,
                seeds: 1,
                ..preset
            },
            // Composed of other experiments.
            Self::E7 | Self::E12 | Self::E17 => preset,
            of_something_else => of_something_else.without_load(preset),
        }
    }

    /// Parameters of the experiments that are not about requests for one lock.
    fn without_load(self, preset: Preset) -> Preset {
        let preset = Preset { seeds: 1, ..preset };
        let grid = GRID_MS.to_vec();
        match self {
            Self::E0 => Preset {
                measure: Measure::RoundTrips,
                client_ms: vec![0.0, 20.0],
                requests: 10_000,
                ..preset
            },
            Self::E1 => Preset { measure: Measure::Replies, client_ms: vec![20.0], ..preset },
            Self::E3 => Preset {
                measure: Measure::CreateAsync,
                client_ms: grid.clone(),
                server_ms: grid,
                seeds: 5,
                ..preset
            },
            Self::E4 => Preset {
                measure: Measure::CreateSync,
                client_ms: grid.clone(),
                server_ms: grid,
                requests: 200,
                ..preset
            },
            Self::E15 => Preset { measure: Measure::Failure, ..preset },
            Self::E16 => Preset {
                measure: Measure::Barrier,
                client_ms: vec![0.2, 20.0, 100.0],
                server_ms: vec![0.0, 20.0],
                closed: vec![3, 8, 32],
                requests: 50,
                ..preset
            },
            _ => Preset { measure: Measure::Smoke, ..preset },
        }
    }

    /// Experiments of which it consists.
    pub fn parts(self) -> Vec<Self> {
        match self {
            Self::E7 | Self::E12 => vec![Self::E8, Self::E9, Self::E10, Self::E11],
            one => vec![one],
        }
    }
}

/// Default parameters without an experiment.
pub fn custom() -> Preset {
    Preset {
        measure: Measure::Lock,
        algorithms: recipes(),
        client_ms: vec![0.0],
        server_ms: vec![0.0],
        service_ms: vec![1.0],
        interarrival_ms: vec![200.0],
        poll_ms: vec![10.0],
        closed: Vec::new(),
        distances_ms: Vec::new(),
        requests: 1_000,
        seeds: 5,
    }
}
