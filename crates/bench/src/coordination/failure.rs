//! What becomes of a lock when somebody dies (E15). Clients die without a word: their connections
//! close, and the service ends their sessions when it has heard nothing of them for long enough.

use super::backend::Ensemble;
use super::client::{Client, SESSION_TIMEOUT_MS};
use super::forecast::Base;
use super::locker::Told;
use super::plan::Point;
use super::recipes::{Recipes, make};
use crate::report::{fields, rounded};
use model::Algorithm;
use serde_json::{Map, Value};
use std::io;

/// The shortest session that both services grant.
const TIMEOUT_MS: i32 = 4_000;
const _: () = assert!(TIMEOUT_MS < SESSION_TIMEOUT_MS);
/// When nothing more is expected of a session that has died.
const OVER_NS: u64 = 3 * TIMEOUT_MS as u64 * 1_000_000;
/// So long after a session could have ended somebody has it or nobody gets it.
const LATE_NS: u64 = 2_500_000_000;

/// Clients at a lock.
struct Scene {
    client: Client,
    recipes: Recipes,
    algorithm: Algorithm,
    base: String,
}

impl Scene {
    fn new(
        ensemble: &Ensemble,
        point: &Point,
        algorithm: Algorithm,
        base: &str,
    ) -> io::Result<Self> {
        let entrances = ensemble.entrances(3, point.attach);
        let mut client = Client::connect_for(&entrances, TIMEOUT_MS)?;
        client.expect_loss();
        make(&mut client, base)?;
        let recipes = Recipes::new((point.poll_ms / point.scale * 1e6) as u64, true);
        Ok(Self { client, recipes, algorithm, base: base.to_owned() })
    }

    /// A client, who is a session, wants the lock.
    fn want(&mut self, who: usize) {
        self.recipes.begin(&mut self.client, who, who, self.algorithm, &self.base);
    }

    /// Goes on for so long, or until somebody has the lock: who, and after how long.
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

/// The rows of a point: the holder dies, one in the middle of the queue dies, and one dies between
/// its create and the answer. What is expected is the session's timeout, and up to a tick more.
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
    let timeout_ns = TIMEOUT_MS as u64 * 1_000_000;
    let expected_ms = f64::from(TIMEOUT_MS) + base.write_ms;
    let row = |story: &str, safe: bool, waited_ns: Option<u64>| {
        let waited_ms = waited_ns.map(|ns| ns as f64 / 1e6);
        fields([
            ("story", story.into()),
            ("safe", safe.into()),
            ("session_timeout_ms", TIMEOUT_MS.into()),
            ("mean_ms", waited_ms.map_or(Value::Null, rounded)),
            ("predicted_ms", waited_ms.map_or(Value::Null, |_| rounded(expected_ms))),
            ("error", waited_ms.map_or(Value::Null, |ms| rounded(ms / expected_ms - 1.0))),
        ])
    };
    let mut rows = Vec::new();
    // The holder dies: the one behind it has the lock when the holder's session has ended.
    let mut scene = Scene::new(ensemble, point, algorithm, &name())?;
    scene.want(0);
    scene.must_get(0)?;
    scene.want(1);
    let early = scene.next(300_000_000)?;
    scene.client.drop_connection(0);
    let then = scene.next(OVER_NS)?;
    let safe = early.is_none() && then.is_some_and(|(who, _)| who == 1);
    rows.push(row("holder-dies", safe, then.map(|(_, waited_ns)| waited_ns)));
    // One who waits dies: nobody gets the lock, which the holder has still.
    let mut scene = Scene::new(ensemble, point, algorithm, &name())?;
    scene.want(0);
    scene.must_get(0)?;
    for who in [1, 2] {
        scene.want(who);
        if let Some((who, _)) = scene.next(300_000_000)? {
            return Err(io::Error::other(format!("client {who} has a lock that is held")));
        }
    }
    scene.client.drop_connection(1);
    let wrong = scene.next(timeout_ns + LATE_NS)?;
    rows.push(row("waiter-dies", wrong.is_none(), None));
    // One dies before its create is answered: what it has left does not stand in the way for ever.
    let mut scene = Scene::new(ensemble, point, algorithm, &name())?;
    scene.want(0);
    scene.client.send()?;
    scene.client.drop_connection(0);
    std::thread::sleep(std::time::Duration::from_millis(200));
    scene.want(1);
    let then = scene.next(OVER_NS)?;
    let safe = then.is_some_and(|(who, _)| who == 1);
    rows.push(row("answer-lost", safe, then.map(|(_, waited_ns)| waited_ns)));
    Ok(rows)
}
