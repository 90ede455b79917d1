//! Single operations of a session, one by one or many at a time, and their times.

use crate::coordination::recipes::nodes::Nodes;
use crate::coordination::services::client::Heard;
use serde::{Deserialize, Serialize};
use std::io;
use wire::jute::Ask;

/// Times of operations.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Timed {
    /// Time from the first request to the last answer.
    pub elapsed_ns: u64,
    /// Time from the request to the answer of each operation.
    pub latency_ns: Vec<u64>,
}

impl Timed {
    /// Adds more operations of the same kind.
    pub fn add(&mut self, other: Self) {
        self.elapsed_ns += other.elapsed_ns;
        self.latency_ns.extend(other.latency_ns);
    }

    /// Elapsed time per operation, in milliseconds, which shows the gain of a pipeline.
    pub fn per_operation_ms(&self) -> f64 {
        self.elapsed_ns as f64 / 1e6 / self.latency_ns.len().max(1) as f64
    }

    /// Mean latency of an operation, in milliseconds.
    pub fn mean_ms(&self) -> f64 {
        let sum: u64 = self.latency_ns.iter().sum();
        sum as f64 / 1e6 / self.latency_ns.len().max(1) as f64
    }

    /// Latency that this share of the operations did not exceed, in milliseconds.
    pub fn quantile_ms(&self, share: f64) -> f64 {
        quantile(&self.latency_ns, share) / 1e6
    }
}

/// Smallest value that is not exceeded by this share of the values; NaN if there are none.
pub fn quantile(values: &[u64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(rank.max(1) - 1).map_or(f64::NAN, |value| *value as f64)
}

/// Sends `count` requests in a session, at most `outstanding` at a time, and waits for all answers.
///
/// # Errors
/// The service fails or refuses a request.
pub fn each(
    client: &mut impl Nodes,
    session: usize,
    count: usize,
    outstanding: usize,
    ask: impl Fn(usize) -> Ask,
) -> io::Result<Timed> {
    asked(client, session, (count, 0), outstanding, ask, |_| None).map(|(timed, _)| timed)
}

/// Sends requests like [`each`] and records the times at which watches are triggered: `which`
/// derives from a path the operation that has triggered it. Waits for one event per operation,
/// which a service may send before the answer or, as etcd does, long after it.
///
/// # Errors
/// See [`each`]; also if events are missing.
pub fn watched(
    client: &mut impl Nodes,
    session: usize,
    count: usize,
    outstanding: usize,
    ask: impl Fn(usize) -> Ask,
    which: impl Fn(&[u8]) -> Option<usize>,
) -> io::Result<(Timed, Timed)> {
    asked(client, session, (count, count), outstanding, ask, which)
}

/// Sends `count` requests and waits for as many answers and for `expected` events.
fn asked(
    client: &mut impl Nodes,
    session: usize,
    (count, expected): (usize, usize),
    outstanding: usize,
    ask: impl Fn(usize) -> Ask,
    which: impl Fn(&[u8]) -> Option<usize>,
) -> io::Result<(Timed, Timed)> {
    let begin_ns = client.now_ns();
    let (mut answers, mut events) = (Timed::default(), Timed::default());
    let mut asked_ns = Vec::with_capacity(count);
    let mut heard = Vec::new();
    while answers.latency_ns.len() < count || events.latency_ns.len() < expected {
        while asked_ns.len() < count && asked_ns.len() - answers.latency_ns.len() < outstanding {
            asked_ns.push(client.now_ns());
            client.ask(session, asked_ns.len() as u64 - 1, ask(asked_ns.len() - 1));
        }
        let patience_ns = client.now_ns() + 60_000_000_000;
        client.wait(patience_ns, &mut heard)?;
        if heard.is_empty() {
            return Err(io::Error::other("the service does not answer"));
        }
        let now_ns = client.now_ns();
        for heard in heard.drain(..) {
            match heard {
                Heard::Answer(answer) => {
                    answer.result.map_err(|code| {
                        io::Error::other(format!("an operation was refused: {code:?}"))
                    })?;
                    answers.latency_ns.push(now_ns - asked_ns[answer.tag as usize]);
                    answers.elapsed_ns = now_ns - begin_ns;
                }
                Heard::Event { event, .. } => {
                    let Some(number) = which(&event.path) else { continue };
                    events.latency_ns.push(now_ns - asked_ns[number]);
                    events.elapsed_ns = now_ns - begin_ns;
                }
                Heard::Due(_) | Heard::Lost(_) => {}
            }
        }
    }
    Ok((answers, events))
}
