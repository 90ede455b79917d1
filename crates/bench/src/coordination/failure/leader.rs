//! Cost of losing the server that orders writes: the time until a client can take a lock again, and
//! whether a held lock stays held.

use super::{OVER_NS, Scene, TIMEOUT_MS, ms, row};
use crate::coordination::points::plan::Point;
use crate::coordination::services::backend::{Ensemble, Protocol};
use crate::servers::control::Control;
use crate::stop;
use model::Algorithm;
use serde_json::{Map, Value};
use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::resp::ClientReply;

/// Time limit for a service to recover.
const PATIENCE: Duration = Duration::from_secs(60);
/// Pause between two attempts of a client while the service is down.
const AGAIN: Duration = Duration::from_millis(20);
const HELD: &str = "/held";

/// Measures the row of a point: the leader of a service dies that was started for this purpose.
/// `mean_ms` is the time until a client that arrives after the failure has a lock; `held_ms` is the
/// time until a client gets a lock whose holder is silent, counted from that holder's last message.
///
/// # Errors
/// The service fails, or does not come back.
pub fn measure(
    mut ensemble: Ensemble,
    point: &Point,
    algorithm: Algorithm,
) -> io::Result<Map<String, Value>> {
    let protocol = match algorithm {
        Algorithm::Grant => Protocol::Redis,
        _ => Protocol::Nodes,
    };
    let followers = ensemble.followers();
    let left = ensemble.next_to(protocol, followers[0]);
    let (outage_ms, held_ms) = match algorithm {
        Algorithm::Grant => of_grants(&mut ensemble, left)?,
        _ => of_recipe(&mut ensemble, left, point, algorithm)?,
    };
    let safe = held_ms >= f64::from(TIMEOUT_MS);
    let mut row = row("leader-dies", safe, Some(outage_ms), None);
    row.insert("held_ms".into(), crate::report::rounded(held_ms));
    Ok(row)
}

/// Retries until an attempt succeeds; returns the time it took, and the result.
fn until_served<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<(f64, T)> {
    let begin = Instant::now();
    loop {
        stop::check()?;
        match attempt() {
            Ok(done) => return Ok((begin.elapsed().as_secs_f64() * 1e3, done)),
            Err(error) if begin.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(AGAIN),
        }
    }
}

fn of_recipe(
    ensemble: &mut Ensemble,
    left: SocketAddr,
    point: &Point,
    algorithm: Algorithm,
) -> io::Result<(f64, f64)> {
    let mut holder = Scene::new(&[left], point, algorithm, HELD)?;
    holder.want(0);
    holder.must_get(0)?;
    let heard = Instant::now();
    ensemble.kill_leader();
    let mut names = 0;
    let (outage_ms, _) = until_served(|| {
        names += 1;
        let mut scene = Scene::new(&[left], point, algorithm, &format!("/free-{names}"))?;
        scene.want(0);
        scene.must_get(0)
    })?;
    let mut next = Scene::at(&[left], point, algorithm, HELD)?;
    next.want(0);
    if next.next(2 * OVER_NS)?.is_none() {
        return Err(io::Error::other("no client gets the lock of the dead holder"));
    }
    Ok((outage_ms, ms(heard.elapsed().as_nanos() as u64)))
}

fn of_grants(ensemble: &mut Ensemble, left: SocketAddr) -> io::Result<(f64, f64)> {
    let lease_ms = TIMEOUT_MS.to_string();
    let acquire = |key: &str| {
        let words = ["LOCK.ACQUIRE", key, "LEASE", &lease_ms];
        match Control::connect(left)?.call(&words)? {
            ClientReply::Int(_) => Ok(()),
            other => {
                Err(io::Error::other(format!("an unexpected answer to an acquisition: {other:?}")))
            }
        }
    };
    let heard = Instant::now();
    acquire(HELD)?;
    ensemble.kill_leader();
    let (outage_ms, ()) = until_served(|| acquire("/free"))?;
    acquire(HELD)?;
    Ok((outage_ms, ms(heard.elapsed().as_nanos() as u64)))
}
