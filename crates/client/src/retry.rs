//! Retry policy: pauses between attempts, and the deadline.

use crate::error::{Error, Result};
use std::time::Duration;
use tokio::time::Instant;

/// Backoff of failed attempts: each pause is a random part of a bound that doubles each time, up to
/// a cap, until a deadline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Longest time to keep trying.
    pub deadline: Duration,
    /// Bound of the first pause.
    pub first_pause: Duration,
    /// Largest bound of a pause.
    pub longest_pause: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(10),
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(250),
        }
    }
}

/// The attempts of one operation.
pub(crate) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    started: Instant,
    failed: u32,
    most: u32,
}

/// Factor of the pause after the reply of an overloaded server.
const BUSY_FACTOR: u32 = 8;

impl<'a> Attempts<'a> {
    /// Starts the deadline; there has been no attempt yet.
    pub fn new(policy: &'a RetryPolicy) -> Self {
        Self { policy, started: Instant::now(), failed: 0, most: u32::MAX }
    }

    /// Limits the number of attempts.
    pub fn at_most(self, most: u32) -> Self {
        Self { most, ..self }
    }

    /// Waits before the next attempt; returns the last error if there is to be none.
    pub async fn pause(&mut self, error: Error) -> Result<()> {
        self.failed += 1;
        let doubled = self.policy.first_pause.saturating_mul(1 << (self.failed - 1).min(16));
        let mut bound = doubled.min(self.policy.longest_pause);
        if error.is_busy() {
            bound = bound.saturating_mul(BUSY_FACTOR);
        }
        let pause = bound.mul_f64(random_share());
        let is_late = self.started.elapsed() + pause >= self.policy.deadline;
        if is_late || self.failed >= self.most {
            return Err(Error::Deadline { attempts: self.failed, last: Box::new(error) });
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// A number from 0 to 1. Without the operating system's randomness it is 1: pauses last for their
/// bound.
fn random_share() -> f64 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn attempts_end_at_the_deadline_or_at_their_limit() {
        let policy = RetryPolicy {
            deadline: Duration::from_millis(30),
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(4),
        };
        let mut attempts = Attempts::new(&policy);
        let started = Instant::now();
        let end = loop {
            if let Err(end) = attempts.pause(Error::Aborted("again".into())).await {
                break end;
            }
        };
        assert!(started.elapsed() < Duration::from_secs(5));
        let Error::Deadline { attempts, last } = end else { panic!("{end}") };
        assert!(attempts > 3, "{attempts}");
        assert_eq!(*last, Error::Aborted("again".into()));
        let mut two = Attempts::new(&policy).at_most(2);
        assert_eq!(two.pause(Error::Busy("later".into())).await, Ok(()));
        let end = two.pause(Error::Busy("later".into())).await;
        assert!(matches!(end, Err(Error::Deadline { attempts: 2, .. })), "{end:?}");
    }
}
