//! Influence of chance on a run: near a lock's limit a hundred requests may wait a third more or
//! less than another hundred, only because of their arrival times and holding times.
//!
//! All algorithms and services are given the same requests, which follow from the seed. Two mean
//! waits can therefore be computed for a lock that is handed over in turn and as slowly as the
//! row's lock is expected to be: that of these very requests (Lindley's recursion), and that of
//! requests in general. The difference is the *luck* of the draw. A mean without it shows the
//! effect of the algorithm and the service alone: a control variate, as simulations use them (Law
//! and Kelton, "Simulation Modeling and Analysis", chapter 11).

use crate::coordination::generator::{Arrivals, Load, arrivals, services};
use crate::report::{number, text};
use model::turns::{Notice, RUN_MAX, Turns};
use serde_json::{Map, Value};

/// A lock that is handed over in turn, and its requests. Times are milliseconds.
struct Drawn {
    interarrival_ms: f64,
    service_ms: f64,
    /// Time for which a request occupies the lock in addition to holding it.
    overhead_ms: f64,
    requests: u32,
    seeds: std::ops::Range<u64>,
    scale: f64,
}

/// Milliseconds that the requests of a row wait longer than the average draw; `None` if the row is
/// not about a lock in an open loop.
pub fn luck_ms(row: &Map<String, Value>) -> Option<f64> {
    let closed = row.get("closed").is_some_and(|closed| *closed == Value::Bool(true));
    if text(row, "measure") != "lock" || text(row, "arrivals") != "poisson" || closed {
        return None;
    }
    let (interarrival_ms, service_ms) =
        (number(row, "interarrival_ms")?, number(row, "service_ms")?);
    let requests = number(row, "requests").filter(|n| *n <= f64::from(RUN_MAX))? as u32;
    let first = number(row, "seed")? as u64;
    let seeds = number(row, "seeds").filter(|seeds| *seeds >= 1.0)? as u64;
    let drawn = Drawn {
        interarrival_ms,
        service_ms,
        overhead_ms: (number(row, "load")? * interarrival_ms - service_ms).max(0.0),
        requests,
        seeds: first..first + seeds,
        scale: number(row, "scale")?,
    };
    Some(drawn.wait_ms() - drawn.expected_ms()?)
}

impl Drawn {
    /// Mean wait of these requests.
    fn wait_ms(&self) -> f64 {
        let load = |seed| Load {
            requests: self.requests as usize,
            clients: 1,
            arrivals: Arrivals::Poisson,
            interarrival_ns: self.interarrival_ms / self.scale * 1e6,
            closed_think_ns: None,
            service_ns: self.service_ms / self.scale * 1e6,
            limit_ns: 0,
            seed,
        };
        let overhead_ns = self.overhead_ms / self.scale * 1e6;
        let waits = self.seeds.clone().map(|seed| mean_wait_ns(&load(seed), overhead_ns));
        waits.sum::<f64>() / (self.seeds.end - self.seeds.start) as f64 * self.scale / 1e6
    }

    /// Expected mean wait of as many requests, over all possible draws.
    fn expected_ms(&self) -> Option<f64> {
        let Self { interarrival_ms, service_ms, .. } = *self;
        let overheads = vec![(self.overhead_ms, 1.0)];
        let turns = Turns { interarrival_ms, service_ms, overheads, notice: Notice::Told };
        Some(turns.run(self.requests).ok()?.mean_ms())
    }
}

/// Mean wait of a load's requests, if the lock is free at the beginning and each request occupies
/// it for `overhead_ns` longer than it holds it.
fn mean_wait_ns(load: &Load, overhead_ns: f64) -> f64 {
    let (mut free_ns, mut waited_ns) = (0.0_f64, 0.0);
    for (came, holds) in arrivals(load).into_iter().zip(services(load)) {
        let begins_ns = free_ns.max(came as f64);
        waited_ns += begins_ns - came as f64;
        free_ns = begins_ns + holds as f64 + overhead_ns;
    }
    waited_ns / load.requests.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    fn drawn(service_ms: f64, seeds: std::ops::Range<u64>) -> Drawn {
        let (interarrival_ms, overhead_ms) = (200.0, 20.0);
        Drawn { interarrival_ms, service_ms, overhead_ms, requests: 100, seeds, scale: 5.0 }
    }

    #[test]
    fn luck_is_even_over_many_draws_and_large_in_one() {
        let expected = drawn(100.0, 0..1).expected_ms().unwrap();
        let luck: Vec<f64> =
            (0..4_000).map(|seed| drawn(100.0, seed..seed + 1).wait_ms() - expected).collect();
        let count = luck.len() as f64;
        let mean = luck.iter().sum::<f64>() / count;
        let spread = (luck.iter().map(|one| one * one).sum::<f64>() / count).sqrt();
        assert!(spread > 0.3 * expected, "a hundred requests are few: {spread} of {expected}");
        assert!(mean.abs() < 4.0 * spread / count.sqrt(), "{mean} of {spread}");
    }

    #[test]
    fn rows_that_are_about_no_lock_in_an_open_loop_have_none() {
        let row = fields([
            ("measure", "lock".into()),
            ("arrivals", "poisson".into()),
            ("closed", false.into()),
            ("interarrival_ms", 200.into()),
            ("service_ms", 1.into()),
            ("load", 0.01.into()),
            ("requests", 50.into()),
            ("scale", 5.into()),
            ("seed", 1.into()),
            ("seeds", 2.into()),
        ]);
        assert!(luck_ms(&row).unwrap().abs() < 3.0, "a lone request does not wait");
        for (field, other) in [("closed", true.into()), ("measure", Value::from("create_sync"))] {
            let mut row = row.clone();
            row.insert(field.into(), other);
            assert_eq!(luck_ms(&row), None);
        }
    }
}
