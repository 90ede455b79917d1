//! Waiting for one server: in order of arrival, and in random order.
//!
//! A queue for a lock serves in order of arrival (FIFO). Clients that retry (test and set) are
//! served in random order (SIRO). With equal hand-offs the *mean* waits are equal, which is all
//! that the papers consider; the variance and the tail are not: in a random order an unlucky client
//! can be unlucky for long, while half of all waits become shorter.
//!
//! References: Kleinrock, Queueing Systems (1975), for FIFO and M/G/1; Flatto, The waiting time
//! distribution for the random order service M/M/1 queue (1997), for the tail of SIRO.

use crate::law::{Invalid, positive, time};
use crate::numeric::{first_above, poisson};

/// Least number of waiting customers that the numeric method for random order distinguishes.
const WAITING_MIN: usize = 600;

/// Most steps times waiting customers of the numeric method.
const WORK_MAX: usize = 400_000_000;

/// A server with exponential service and Poisson arrivals, both times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mm1 {
    arrivals_per_ms: f64,
    services_per_ms: f64,
}

/// The waits of a queue in random order, precomputed: see [`Mm1::random_order`].
#[derive(Clone, Debug)]
pub struct RandomOrder {
    events_per_ms: f64,
    /// Probability that a customer still waits after 0, 1, 2, ... events.
    waits: Vec<f64>,
}

impl Mm1 {
    /// One customer every `interarrival_ms` on average, each taking `service_ms` on average.
    ///
    /// # Errors
    /// Either is not above zero, or the load is one or more: then waits grow for ever.
    pub fn new(interarrival_ms: f64, service_ms: f64) -> Result<Self, Invalid> {
        let interarrival_ms = positive("the time between arrivals", interarrival_ms)?;
        let service_ms = positive("the service time", service_ms)?;
        if service_ms >= interarrival_ms {
            return Err(Invalid(format!(
                "a service of {service_ms} ms every {interarrival_ms} ms is more than one server \
                 can do"
            )));
        }
        Ok(Self { arrivals_per_ms: 1.0 / interarrival_ms, services_per_ms: 1.0 / service_ms })
    }

    /// The part of its time for which the server is busy: service over interarrival, which the
    /// papers invert.
    pub fn load(&self) -> f64 {
        self.arrivals_per_ms / self.services_per_ms
    }

    /// The mean wait before service begins, in either order. Not 1 / (mu - lambda), which includes
    /// the service.
    pub fn mean_wait_ms(&self) -> f64 {
        let rho = self.load();
        rho / (self.services_per_ms * (1.0 - rho))
    }

    fn second_moment_fifo(&self) -> f64 {
        let rho = self.load();
        2.0 * rho / (self.services_per_ms * (1.0 - rho)).powi(2)
    }

    /// The variance of the wait in order of arrival, in square milliseconds.
    pub fn variance_fifo(&self) -> f64 {
        self.second_moment_fifo() - self.mean_wait_ms().powi(2)
    }

    /// The variance of the wait in random order, in square milliseconds.
    pub fn variance_siro(&self) -> f64 {
        let second = self.second_moment_fifo() * 2.0 / (2.0 - self.load());
        second - self.mean_wait_ms().powi(2)
    }

    /// The wait in order of arrival that is not exceeded with probability `p`.
    pub fn quantile_fifo(&self, p: f64) -> f64 {
        let rho = self.load();
        ((rho / (1.0 - p)).ln() / (self.services_per_ms * (1.0 - rho))).max(0.0)
    }

    /// Local rate of decay of the tail of the wait in random order at `t_ms`, per millisecond, by
    /// Flatto's asymptotic formula. It converges late: at half load it is a quarter too high after
    /// twenty service times. For probabilities use [`Mm1::random_order`].
    pub fn decay_siro(&self, t_ms: f64) -> f64 {
        let (mu, rho) = (self.services_per_ms, self.load());
        let slow = (std::f64::consts::PI / 2.0).powf(2.0 / 3.0) * rho.powf(1.0 / 6.0);
        let events = mu * t_ms;
        mu * (5.0 / (6.0 * events) + (1.0 - rho.sqrt()).powi(2) + slow * events.powf(-2.0 / 3.0))
    }

    /// The waits in random order up to `t_ms`, by a numeric method.
    ///
    /// One customer is followed. With n waiting, itself among them, an arrival makes it n + 1, and
    /// a service ends the wait with probability 1 / n and leaves n - 1 otherwise. Both together
    /// happen at a constant rate, so the probability of still waiting after each number of *events*
    /// is computed backwards once, and any time is a Poisson mixture of them (uniformization). More
    /// waiting customers than are at all likely count as one fewer.
    ///
    /// # Errors
    /// The load is so near to one, or `t_ms` so late, that this would take more than some seconds.
    pub fn random_order(&self, t_ms: f64) -> Result<RandomOrder, Invalid> {
        let rho = self.load();
        let events_per_ms = self.arrivals_per_ms + self.services_per_ms;
        let expected = events_per_ms * time("a wait", t_ms)?;
        let events = (expected + 12.0 * expected.sqrt() + 40.0) as usize;
        let waiting = WAITING_MIN.max((1e-12f64.ln() / rho.ln()) as usize);
        if events.saturating_mul(waiting) > WORK_MAX {
            return Err(Invalid(format!("waits of {t_ms} ms at a load of {rho} take too long")));
        }
        let (up, down) =
            (self.arrivals_per_ms / events_per_ms, 1.0 - self.arrivals_per_ms / events_per_ms);
        // A customer that finds n - 1 others waiting and one in service waits with n.
        let found: Vec<f64> = (1..=waiting).map(|n| (1.0 - rho) * rho.powi(n as i32)).collect();
        let mut still = vec![1.0; waiting];
        let mut waits = Vec::with_capacity(events + 1);
        for _ in 0..=events {
            waits.push(still.iter().zip(&found).map(|(still, found)| still * found).sum());
            let mut fewer = 0.0;
            for n in 1..=waiting {
                let here = still[n - 1];
                let more = still.get(n).copied().unwrap_or(here);
                let others = (n - 1) as f64 / n as f64;
                still[n - 1] = up * more + down * others * fewer;
                fewer = here;
            }
        }
        Ok(RandomOrder { events_per_ms, waits })
    }

    /// The wait in random order that is not exceeded with probability `p`.
    ///
    /// # Errors
    /// As for [`Mm1::random_order`].
    pub fn quantile_siro(&self, p: f64) -> Result<f64, Invalid> {
        if self.load() <= 1.0 - p {
            return Ok(0.0);
        }
        let mut high = 2.0 * self.quantile_fifo(p).max(1.0 / self.services_per_ms);
        loop {
            let order = self.random_order(high)?;
            if order.tail(high) <= 1.0 - p {
                return Ok(first_above(0.0, high, |t| order.tail(t) <= 1.0 - p));
            }
            high *= 2.0;
        }
    }
}

impl RandomOrder {
    /// Probability that a wait is longer than `t_ms`, which must not exceed the time that was
    /// computed for: beyond it, zero is returned.
    pub fn tail(&self, t_ms: f64) -> f64 {
        let events = poisson(self.events_per_ms * t_ms.max(0.0));
        events.iter().zip(&self.waits).map(|(chance, wait)| chance * wait).sum()
    }
}

/// The mean wait for a server with any distribution of service (Pollaczek and Khinchine), in
/// milliseconds; `None` if the load is one or more. `square` is the mean square of the service, in
/// square milliseconds.
pub fn mg1_wait_ms(interarrival_ms: f64, mean_ms: f64, square: f64) -> Option<f64> {
    let rho = mean_ms / interarrival_ms;
    (rho < 1.0).then(|| square / interarrival_ms / (2.0 * (1.0 - rho)))
}

/// The mean wait for a lock that is held for an exponential time and handed over in a constant one.
pub fn lock_wait_ms(interarrival_ms: f64, service_ms: f64, hand_off_ms: f64) -> Option<f64> {
    let (s, h) = (service_ms, hand_off_ms);
    mg1_wait_ms(interarrival_ms, s + h, 2.0 * s * s + 2.0 * s * h + h * h)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Loads with 90 %, 99 % and 99.9 % quantiles in service times: FIFO, SIRO.
    const QUANTILES: [(f64, [(f64, f64); 3]); 3] = [
        (0.5, [(3.2, 3.1), (7.8, 9.9), (12.4, 19.1)]),
        (0.75, [(8.1, 8.2), (17.3, 26.0), (26.5, 51.1)]),
        (0.9, [(22.0, 24.0), (45.0, 75.0), (68.0, 151.0)]),
    ];

    #[test]
    fn quantiles_in_both_orders_are_the_known_ones() {
        for (rho, quantiles) in QUANTILES {
            let queue = Mm1::new(1.0, rho).unwrap();
            // The table was rounded to one digit after the point, at 0.9 to none.
            let rounding = if rho == 0.9 { 0.5001 } else { 0.0501 };
            for (p, (fifo, siro)) in [0.9, 0.99, 0.999].into_iter().zip(quantiles) {
                let found = queue.quantile_fifo(p) / rho;
                assert!((found - fifo).abs() <= rounding, "FIFO {rho} {p}: {found}");
                let found = queue.quantile_siro(p).unwrap() / rho;
                assert!((found - siro).abs() <= rounding, "SIRO {rho} {p}: {found}");
            }
        }
    }

    #[test]
    fn medians_flatter_the_random_order() {
        let queue = Mm1::new(1.0, 0.9).unwrap();
        assert!((queue.quantile_fifo(0.5) / 0.9 - 5.9).abs() < 0.05);
        assert!((queue.quantile_siro(0.5).unwrap() / 0.9 - 3.5).abs() < 0.05);
    }

    #[test]
    fn the_moments_of_the_random_order_are_those_of_its_tail() {
        for (rho, ratio) in [(0.25, 1.16), (0.5, 1.44), (0.75, 1.96), (0.9, 2.49)] {
            let queue = Mm1::new(1.0, rho).unwrap();
            assert!((queue.variance_siro() / queue.variance_fifo() - ratio).abs() < 0.005);
            if rho > 0.8 {
                continue;
            }
            let order = queue.random_order(300.0 * rho).unwrap();
            let step = 0.05 * rho;
            let (mut mean, mut second) = (0.0, 0.0);
            for i in 0..6_000 {
                let t = (f64::from(i) + 0.5) * step;
                let tail = order.tail(t);
                mean += tail * step;
                second += 2.0 * t * tail * step;
            }
            let expected = queue.mean_wait_ms();
            assert!((mean / expected - 1.0).abs() < 1e-3, "{rho}: {mean}, not {expected}");
            let variance = second - mean * mean;
            assert!((variance / queue.variance_siro() - 1.0).abs() < 1e-2, "{rho}: {variance}");
        }
    }

    #[test]
    fn the_tail_falls_as_flatto_says_when_it_is_late() {
        let queue = Mm1::new(2.0, 1.0).unwrap();
        let order = queue.random_order(130.0).unwrap();
        // Rates over the twentieth after each time, as computed elsewhere.
        let computed = |t: f64| (order.tail(t) / order.tail(1.05 * t)).ln() / (0.05 * t);
        let known = [(20.0, 0.222, 0.287), (40.0, 0.179, 0.207), (80.0, 0.148, 0.160)];
        for (t, numeric, formula) in known.into_iter().chain([(120.0, 0.134, 0.141)]) {
            assert!((computed(t) - numeric).abs() < 1e-3, "{t}: {}", computed(t));
            let found = queue.decay_siro(1.025 * t);
            assert!((found - formula).abs() < 1e-3, "{t}: {found}");
        }
    }

    #[test]
    fn general_service_contains_the_exponential_one() {
        let queue = Mm1::new(3.0, 2.0).unwrap();
        let general = lock_wait_ms(3.0, 2.0, 0.0).unwrap();
        assert!((general - queue.mean_wait_ms()).abs() < 1e-12);
        assert_eq!(lock_wait_ms(3.0, 2.0, 1.0), None);
    }

    #[test]
    fn an_overloaded_server_has_no_waits_to_predict() {
        assert!(Mm1::new(1.0, 1.0).is_err() && Mm1::new(1.0, 0.0).is_err());
        assert!(Mm1::new(1.0, 0.99999).unwrap().quantile_siro(0.999).is_err());
    }
}
