//! Behaviour of a lock when a client dies (E15). Clients die without closing their sessions: their
//! connections close, and the service ends the sessions once it has received nothing from them for
//! the time-out. `grants` does the same for the server's own lock, which has leases and no
//! sessions; `leader` measures the cost of losing a server.

pub mod grants;
pub mod leader;

use super::recipes::{Recipes, make};
use crate::coordination::points::plan::Point;
use crate::coordination::recipes::locker::Told;
use crate::coordination::results::forecast::Base;
use crate::coordination::services::backend::Ensemble;
use crate::coordination::services::client::{Client, Heard, SESSION_TIMEOUT_MS};
use crate::report::{fields, rounded};
use model::Algorithm;
use serde_json::{Map, Value};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use wire::jute::{Ask, Change, Write};

/// Shortest session time-out that both services grant.
const TIMEOUT_MS: i32 = 4_000;
const _: () = assert!(TIMEOUT_MS < SESSION_TIMEOUT_MS);
/// Time after which a dead session has no further effect.
const OVER_NS: u64 = 3 * TIMEOUT_MS as u64 * 1_000_000;
/// Time after a session's earliest end within which another client must have the lock; later grants
/// do not count.
const LATE_NS: u64 = 2_500_000_000;

/// Clients of one lock.
struct Scene {
    client: Client,
    recipes: Recipes,
    algorithm: Algorithm,
    base: String,
}

impl Scene {
    /// Creates a scene with a new lock.
    fn new(
        entrances: &[SocketAddr],
        point: &Point,
        algorithm: Algorithm,
        base: &str,
    ) -> io::Result<Self> {
        let mut scene = Self::at(entrances, point, algorithm, base)?;
        make(&mut scene.client, base)?;
        Ok(scene)
    }

    /// Creates a scene with an existing lock.
    fn at(
        entrances: &[SocketAddr],
        point: &Point,
        algorithm: Algorithm,
        base: &str,
    ) -> io::Result<Self> {
        let mut client = Client::connect_for(entrances, TIMEOUT_MS)?;
        client.expect_loss();
        let recipes = Recipes::new((point.poll_ms / point.scale * 1e6) as u64, true);
        Ok(Self { client, recipes, algorithm, base: base.to_owned() })
    }

    /// Requests the lock for a client, which is a session.
    fn want(&mut self, who: usize) {
        self.recipes.begin(&mut self.client, who, who, self.algorithm, &self.base);
    }

    /// Goes on for `for_ns` or until a client gets the lock; returns that client and the time it
    /// took.
    fn next(&mut self, for_ns: u64) -> io::Result<Option<(usize, u64)>> {
        let begin_ns = self.client.now_ns();
        let (mut heard, mut told) = (Vec::new(), Vec::new());
        while self.client.now_ns() < begin_ns + for_ns {
            self.client.wait(begin_ns + for_ns, &mut heard)?;
            for heard in heard.drain(..) {
                self.recipes.hear(&mut self.client, heard, &mut told)?;
            }
            for told in told.drain(..) {
                if let Told::Granted { request, .. } = told {
                    return Ok(Some((request, self.client.now_ns() - begin_ns)));
                }
            }
        }
        Ok(None)
    }

    fn must_get(&mut self, who: usize) -> io::Result<()> {
        match self.next(OVER_NS)? {
            Some((got, _)) if got == who => Ok(()),
            other => Err(io::Error::other(format!("client {who} should have the lock: {other:?}"))),
        }
    }
}

/// Columns of the printed table.
pub const COLUMNS: [&str; 10] = [
    "experiment",
    "backend",
    "servers",
    "algorithm",
    "story",
    "safe",
    "mean_ms",
    "predicted_ms",
    "error",
    "held_ms",
];
/// Number of clients at their usual places.
const CLIENTS: usize = 3;
/// Time for which the absence of a grant is observed.
const MOMENT_NS: u64 = 300_000_000;

fn ms(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Builds a row: the event, whether no client got a lock that another one held, and the wait of the
/// next client beside the expected wait, both in milliseconds.
fn row(
    story: &str,
    safe: bool,
    waited_ms: Option<f64>,
    expected_ms: Option<f64>,
) -> Map<String, Value> {
    let expected_ms = expected_ms.filter(|_| waited_ms.is_some());
    let error = waited_ms.zip(expected_ms).map(|(waited, expected)| waited / expected - 1.0);
    let number = |number: Option<f64>| number.map_or(Value::Null, rounded);
    fields([
        ("story", story.into()),
        ("safe", safe.into()),
        ("session_timeout_ms", TIMEOUT_MS.into()),
        ("mean_ms", number(waited_ms)),
        ("predicted_ms", number(expected_ms)),
        ("error", number(error)),
    ])
}

/// Measures the rows of a point: the holder dies, a waiter in the middle of the queue dies, a
/// client dies between its create and the answer, and a client is suspended for longer than its
/// session lasts. The expected time is the session's time-out plus up to one tick.
///
/// # Errors
/// The service fails.
pub fn measure(
    ensemble: &Ensemble,
    point: &Point,
    algorithm: Algorithm,
    base: &Base,
    mut name: impl FnMut() -> String,
) -> io::Result<Vec<Map<String, Value>>> {
    let entrances = ensemble.entrances(CLIENTS, point.attach);
    let expected_ms = Some(f64::from(TIMEOUT_MS) + base.write_ms);
    let mut scene = || Scene::new(&entrances, point, algorithm, &name());
    let holder = holder_dies(scene()?)?;
    let waiter = waiter_dies(scene()?)?;
    let lost = answer_lost(scene()?)?;
    let mut still = scene()?;
    let others = Scene::at(&entrances, point, algorithm, &still.base)?;
    let paused = holder_stands_still(&mut still, others)?;
    Ok(vec![
        row("holder-dies", holder.0, holder.1.map(ms), expected_ms),
        row("waiter-dies", waiter, None, None),
        row("answer-lost", lost.0, lost.1.map(ms), expected_ms),
        row("holder-stands-still", paused.0, paused.1.map(ms), expected_ms),
    ])
}

/// The waiter behind the holder gets the lock once the holder's session has ended.
fn holder_dies(mut scene: Scene) -> io::Result<(bool, Option<u64>)> {
    scene.want(0);
    scene.must_get(0)?;
    scene.want(1);
    let early = scene.next(MOMENT_NS)?;
    scene.client.drop_connection(0);
    let then = scene.next(OVER_NS)?;
    let safe = early.is_none() && then.is_some_and(|(who, _)| who == 1);
    Ok((safe, then.map(|(_, waited_ns)| waited_ns)))
}

/// No client gets the lock while the holder still has it.
fn waiter_dies(mut scene: Scene) -> io::Result<bool> {
    scene.want(0);
    scene.must_get(0)?;
    for who in [1, 2] {
        scene.want(who);
        if let Some((who, _)) = scene.next(MOMENT_NS)? {
            return Err(io::Error::other(format!("client {who} has a lock that is held")));
        }
    }
    scene.client.drop_connection(1);
    let wrong = scene.next(TIMEOUT_MS as u64 * 1_000_000 + LATE_NS)?;
    Ok(wrong.is_none())
}

/// A node whose create was never answered does not block the lock for ever.
fn answer_lost(mut scene: Scene) -> io::Result<(bool, Option<u64>)> {
    scene.want(0);
    scene.client.send()?;
    scene.client.drop_connection(0);
    std::thread::sleep(Duration::from_millis(200));
    scene.want(1);
    let then = scene.next(OVER_NS)?;
    let safe = then.is_some_and(|(who, _)| who == 1);
    Ok((safe, then.map(|(_, waited_ns)| waited_ns)))
}

/// Another client gets the lock, and a write of the first client after it resumes is refused: its
/// session has ended. This protects data in the service itself, and nothing else.
fn holder_stands_still(still: &mut Scene, mut others: Scene) -> io::Result<(bool, Option<u64>)> {
    still.want(0);
    still.must_get(0)?;
    others.want(1);
    // The first client's sessions are not served meanwhile, so it sends no heartbeat.
    let then = others.next(OVER_NS)?;
    let path = still.base.as_str().into();
    let data = Some(b"late".to_vec().into());
    let late = Change::SetData { path, data, version: -1 };
    still.client.ask(0, u64::MAX, Ask::Write(Write::Change(late)));
    let mut heard = Vec::new();
    let until_ns = still.client.now_ns() + OVER_NS;
    let mut refused = None;
    while refused.is_none() && still.client.now_ns() < until_ns {
        still.client.wait(until_ns, &mut heard)?;
        refused = heard.drain(..).find_map(|heard| match heard {
            Heard::Answer(answer) if answer.tag == u64::MAX => Some(answer.result.is_err()),
            Heard::Lost(0) => Some(true),
            _ => None,
        });
    }
    let safe = then.is_some_and(|(who, _)| who == 1) && refused == Some(true);
    Ok((safe, then.map(|(_, waited_ns)| waited_ns)))
}
