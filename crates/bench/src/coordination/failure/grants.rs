//! Behaviour of the server's own lock when a client dies. There are no sessions: a lock is held
//! until its lease ends, whether its client is connected or not, and a waiter is identified by its
//! connection. Leases are as long as the recipes' sessions, so that the figures are comparable.

use super::{LATE_NS, MOMENT_NS, TIMEOUT_MS, ms, row};
use crate::coordination::results::forecast::Base;
use crate::servers::control::Control;
use serde_json::{Map, Value};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use wire::resp::ClientReply;

/// Time between a client's death and the arrival of the next client.
const BEFORE: Duration = Duration::from_millis(200);
/// Longer than any scenario.
const LONG_MS: i32 = 600_000;

/// Client of a lock, with its connection.
struct LockClient {
    connection: Control,
    key: String,
}

impl LockClient {
    fn new(server: SocketAddr, key: &str) -> io::Result<Self> {
        Ok(Self { connection: Control::connect(server)?, key: key.to_owned() })
    }

    /// Acquires the lock and returns its token.
    fn acquire(&mut self, lease_ms: i32) -> io::Result<i64> {
        let lease_ms = lease_ms.to_string();
        match self.connection.call(&["LOCK.ACQUIRE", &self.key, "LEASE", &lease_ms])? {
            ClientReply::Int(token) => Ok(token),
            other => {
                Err(io::Error::other(format!("an unexpected answer to an acquisition: {other:?}")))
            }
        }
    }

    /// Waits for the lock in a thread of its own.
    fn wait(mut self) -> Waiting {
        let (sender, granted) = channel();
        std::thread::spawn(move || {
            let token = self.acquire(LONG_MS);
            // The receiver is gone if the scenario is over.
            let _ = sender.send((token, Instant::now(), self));
        });
        Waiting(granted)
    }

    /// Whether a write under a token is carried out; it is refused otherwise.
    fn may_write(&mut self, token: i64) -> io::Result<bool> {
        let (data, token) = (format!("{}-data", self.key), token.to_string());
        let words = ["FENCE", &self.key, &token, "SET", &data, &token];
        match self.connection.call(&words) {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("FENCED") => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn release(&mut self, token: i64) -> io::Result<()> {
        self.connection.call(&["LOCK.RELEASE", &self.key, &token.to_string()]).map(|_| ())
    }
}

type Granted = (io::Result<i64>, Instant, LockClient);

/// A client that waits in another thread.
struct Waiting(Receiver<Granted>);

impl Waiting {
    /// Returns the grant, if it arrives within `within_ns`.
    fn granted(&self, within_ns: u64) -> io::Result<Option<(i64, Instant, LockClient)>> {
        match self.0.recv_timeout(Duration::from_nanos(within_ns)) {
            Ok((token, at, who)) => Ok(Some((token?, at, who))),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("a waiter is gone")),
        }
    }
}

/// Measures the rows of a point, as for recipes: the holder dies, a waiter dies, a client dies
/// before it is answered, and a client is suspended for longer than its lease. The expected time is
/// the rest of the lease: a server cannot tell whether an answer that it has sent was read.
///
/// # Errors
/// The service fails.
pub fn measure(
    server: SocketAddr,
    base: &Base,
    mut name: impl FnMut() -> String,
) -> io::Result<Vec<Map<String, Value>>> {
    let holder = holder_dies(server, &name())?;
    let waiter = waiter_dies(server, &name())?;
    let lost = answer_lost(server, &name())?;
    let paused = holder_stands_still(server, &name())?;
    let lease_ms = f64::from(TIMEOUT_MS) + base.write_ms;
    let left_ms = lease_ms - ms(MOMENT_NS);
    Ok(vec![
        row("holder-dies", holder.0, holder.1, Some(left_ms)),
        row("waiter-dies", waiter.0, waiter.1, Some(base.write_ms)),
        row("answer-lost", lost.0, lost.1, Some(lease_ms - BEFORE.as_secs_f64() * 1e3)),
        row("holder-stands-still", paused.0, paused.1, Some(lease_ms)),
    ])
}

fn since_ms(begin: Instant, at: Instant) -> f64 {
    at.saturating_duration_since(begin).as_secs_f64() * 1e3
}

/// Time limit for a grant that must arrive.
fn patience_ns() -> u64 {
    TIMEOUT_MS as u64 * 1_000_000 + LATE_NS
}

fn holder_dies(server: SocketAddr, key: &str) -> io::Result<(bool, Option<f64>)> {
    let mut holder = LockClient::new(server, key)?;
    let first = holder.acquire(TIMEOUT_MS)?;
    let next = LockClient::new(server, key)?.wait();
    let early = next.granted(MOMENT_NS)?;
    drop(holder);
    let died = Instant::now();
    let then = next.granted(patience_ns())?;
    let safe = early.is_none() && then.as_ref().is_some_and(|(token, ..)| *token > first);
    Ok((safe, then.map(|(_, at, _)| since_ms(died, at))))
}

/// A waiter behind a dead waiter gains nothing by that death, and gets the lock at its release.
fn waiter_dies(server: SocketAddr, key: &str) -> io::Result<(bool, Option<f64>)> {
    let mut holder = LockClient::new(server, key)?;
    let first = holder.acquire(LONG_MS)?;
    let mut dies = LockClient::new(server, key)?;
    dies.connection.send(&["LOCK.ACQUIRE", key])?;
    std::thread::sleep(Duration::from_nanos(MOMENT_NS));
    let next = LockClient::new(server, key)?.wait();
    let early = next.granted(MOMENT_NS)?.is_some();
    drop(dies);
    let wrong = early || next.granted(patience_ns())?.is_some();
    let given_back = Instant::now();
    holder.release(first)?;
    let then = next.granted(patience_ns())?;
    let safe = !wrong && then.as_ref().is_some_and(|(token, ..)| *token > first);
    Ok((safe, then.map(|(_, at, _)| since_ms(given_back, at))))
}

fn answer_lost(server: SocketAddr, key: &str) -> io::Result<(bool, Option<f64>)> {
    let mut dies = LockClient::new(server, key)?;
    dies.connection.send(&["LOCK.ACQUIRE", key, "LEASE", &TIMEOUT_MS.to_string()])?;
    drop(dies);
    std::thread::sleep(BEFORE);
    let wanted = Instant::now();
    let then = LockClient::new(server, key)?.wait().granted(patience_ns())?;
    Ok((then.is_some(), then.map(|(_, at, _)| since_ms(wanted, at))))
}

/// Another client gets the lock when the lease is over, and a write of the first client under its
/// token is refused as soon as the second client has written.
fn holder_stands_still(server: SocketAddr, key: &str) -> io::Result<(bool, Option<f64>)> {
    let mut still = LockClient::new(server, key)?;
    let first = still.acquire(TIMEOUT_MS)?;
    let wanted = Instant::now();
    let next = LockClient::new(server, key)?.wait();
    let Some((second, at, mut next)) = next.granted(patience_ns())? else {
        return Ok((false, None));
    };
    let safe = second > first && next.may_write(second)? && !still.may_write(first)?;
    Ok((safe, Some(since_ms(wanted, at))))
}
