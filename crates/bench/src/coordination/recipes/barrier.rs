//! Barriers (E16): time until all parties go on, from the arrival of the last one. With the recipe
//! on nodes every party creates a node and then lists all of them; the party that sees all of them
//! creates the node that the others wait for. Claret's own barrier (`BARRIER.WAIT`) takes one
//! request per party.

use super::{create, make};
use crate::coordination::grants::sections;
use crate::coordination::operations::quantile;
use crate::coordination::points::plan::Point;
use crate::coordination::services::client::{Answer, Client, Heard, exists, list};
use crate::report::{fields, rounded};
use crate::stop;
use model::operation::{Operation, Party, barrier};
use model::{Law, Timing};
use serde_json::{Map, Value};
use std::io;
use std::net::SocketAddr;
use std::time::Instant;
use wire::jute::{Code, CreateMode, Reply};
use wire::resp::ClientReply;

/// Name of the own barrier in rows; rows of the recipe have none.
pub const NAME: &str = "barrier";

const CREATED: u64 = 0;
const LISTED: u64 = 1;
const WATCHED: u64 = 2;
const OPENED: u64 = 3;

/// Lets all sessions of a client meet and returns how long each waited after the last arrival, in
/// nanoseconds.
fn meet(client: &mut Client, base: &str) -> io::Result<Vec<u64>> {
    let parties = client.sessions();
    make(client, base)?;
    let gate = format!("{base}-open");
    let begin_ns = client.now_ns();
    for session in 0..parties {
        client.ask(session, WATCHED, exists(&gate, true));
        client.ask(
            session,
            CREATED,
            create(&format!("{base}/{session}"), b"", CreateMode::default()),
        );
        client.ask(session, LISTED, list(base));
    }
    let mut gone_ns = vec![None; parties];
    let mut heard = Vec::new();
    while gone_ns.iter().any(Option::is_none) {
        client.wait(begin_ns + 60_000_000_000, &mut heard)?;
        if heard.is_empty() {
            return Err(io::Error::other("a barrier does not open"));
        }
        let now_ns = client.now_ns();
        for heard in heard.drain(..) {
            match heard {
                Heard::Event { session, .. } => {
                    gone_ns[session].get_or_insert(now_ns - begin_ns);
                }
                Heard::Answer(answer) => opened(client, &answer, parties, &gate)?,
                Heard::Due(_) | Heard::Lost(_) => {}
            }
        }
    }
    Ok(gone_ns.into_iter().flatten().collect())
}

fn opened(client: &mut Client, answer: &Answer, parties: usize, gate: &str) -> io::Result<()> {
    match (answer.tag, &answer.result) {
        (LISTED, Ok(Reply::Children(names, _))) if names.len() == parties => {
            client.ask(answer.session, OPENED, create(gate, b"", CreateMode::default()));
            Ok(())
        }
        (WATCHED, Err(Code::NoNode)) | (OPENED, Err(Code::NodeExists)) | (_, Ok(_)) => Ok(()),
        (_, Err(code)) => Err(io::Error::other(format!("a barrier was refused: {code:?}"))),
    }
}

/// Measures a row of a point, with as many parties as it has clients. The recipe takes two writes
/// in sequence; `native_ms` is the model's prediction for a service with barriers of its own.
///
/// # Errors
/// The service fails.
pub fn measure(
    client: &mut Client,
    point: &Point,
    timing: &Timing,
    mut name: impl FnMut() -> String,
) -> io::Result<Map<String, Value>> {
    let mut waited_ns = Vec::new();
    for _ in 0..point.requests {
        waited_ns.extend(meet(client, &name())?);
    }
    let write_ms = timing.latency(Operation::Write).map_err(invalid)?.mean_ms();
    let native_ms = native_ms(point, timing)?;
    Ok(row(point, &waited_ns, 2.0 * write_ms, native_ms))
}

/// Measures Claret's own barrier, with clients that connect here.
///
/// # Errors
/// A server cannot be reached, or sends an invalid answer.
pub fn measure_own(
    entrances: &[SocketAddr],
    point: &Point,
    timing: &Timing,
    key: &str,
) -> io::Result<Map<String, Value>> {
    let mut run = sections::Run::connect(entrances)?;
    let parties = entrances.len().to_string();
    let (mut waited_ns, mut last) = (Vec::new(), 0);
    for _ in 0..point.requests {
        stop::check()?;
        let begin = Instant::now();
        for number in 0..entrances.len() {
            run.say(number, &[b"BARRIER.WAIT", key.as_bytes(), parties.as_bytes()])?;
        }
        let mut generations = Vec::new();
        while generations.len() < entrances.len() {
            for (_, reply) in run.hear()? {
                waited_ns.push(begin.elapsed().as_nanos() as u64);
                let ClientReply::Int(generation) = reply else {
                    return Err(io::Error::other(format!(
                        "an unexpected answer to a barrier: {reply:?}"
                    )));
                };
                generations.push(generation);
            }
        }
        if generations.iter().any(|one| *one != generations[0]) || generations[0] <= last {
            return Err(io::Error::other("parties of one barrier got different generations"));
        }
        last = generations[0];
    }
    run.end();
    let native_ms = native_ms(point, timing)?;
    Ok(row(point, &waited_ns, native_ms, native_ms))
}

fn invalid(error: model::Invalid) -> io::Error {
    io::Error::other(error.to_string())
}

/// Mean that the model predicts for a service with barriers of its own.
fn native_ms(point: &Point, timing: &Timing) -> io::Result<f64> {
    let party = Party { late: Law::zero(), rtt: timing.client_rtt.clone() };
    let parties = vec![party; point.clients as usize];
    let commit = timing.commit().map_err(invalid)?.law();
    Ok(barrier(&parties, &commit).map_err(invalid)?.mean_ms)
}

fn row(point: &Point, waited_ns: &[u64], predicted_ms: f64, native_ms: f64) -> Map<String, Value> {
    let ms = |ns: f64| ns / 1e6 * point.scale;
    let mean = ms(waited_ns.iter().sum::<u64>() as f64 / waited_ns.len().max(1) as f64);
    let predicted = predicted_ms * point.scale;
    fields([
        ("mean_ms", rounded(mean)),
        ("predicted_ms", rounded(predicted)),
        ("error", rounded(mean / predicted - 1.0)),
        ("native_ms", rounded(native_ms * point.scale)),
        ("p50_ms", rounded(ms(quantile(waited_ns, 0.5)))),
        ("p99_ms", rounded(ms(quantile(waited_ns, 0.99)))),
        ("max_ms", rounded(ms(quantile(waited_ns, 1.0)))),
    ])
}
