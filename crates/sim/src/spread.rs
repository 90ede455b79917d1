//! What clients have seen of a tree that is spread, shard by shard: each shard is a service of its own to the
//! checkers, with its numbers of changes, its part of every session and of what that has asked and heard.
//! What goes over all shards (root and pings) is left out.

use crate::errand::as_asked;
use check::coordination::{Answer, Concerns, Connection, Heard, History, Request, Session, code};
use engine::coordination::spread::{HOME, Place, Spread};
use engine::coordination::{OfSession, Write};
use engine::gateway::coordination::Asked;
use engine::message::ShardId;

/// The shard at which a request was carried out, if it was one.
pub fn place(spread: Spread, request: &Request) -> Option<ShardId> {
    let place = match as_asked(request, &[]) {
        Asked::Write(Write::Close) | Asked::Of(OfSession::Ping) => return None,
        Asked::Write(write) => spread.place_of_write(&write),
        Asked::Of(OfSession::Read { read, .. }) => spread.place_of_read(&read),
        Asked::Of(OfSession::Watch { watches, .. }) => spread.place(&watches.first()?.0),
        Asked::Of(OfSession::Unwatch { path, .. } | OfSession::Watches { path, .. }) => {
            spread.place(&path)
        }
        Asked::Proved(_) | Asked::Refused(_) => return None,
    };
    place.shard()
}

/// What a request is about, as the checkers want to know it: its shard, and the branches there.
pub fn concerns(spread: Spread, request: &Request) -> Option<Concerns> {
    let shard = place(spread, request)?;
    let touched = as_asked(request, &[]).touches();
    let branches = touched.branches.iter().map(|branch| branch.name().to_vec()).collect();
    Some((usize::from(shard.0), branches))
}

/// What was seen of one shard. The ends of sessions are not in it.
pub fn part(history: &History, spread: Spread, shard: ShardId) -> History {
    let is_here = |path: &str| spread.place(path.as_bytes()) == Place::At(shard);
    let sessions = history.sessions.iter().map(|session| Session {
        connections: session.connections.iter().map(|c| of_connection(c, spread, shard)).collect(),
        expired_us: session.expired_us.filter(|_| shard == HOME),
        elsewhere: shard != HOME,
        ..session.clone()
    });
    let sessions = sessions.collect();
    let last = history.last.as_ref().map(|last| {
        let mut last = last.clone();
        last.nodes.retain(|(path, ..)| is_here(path));
        last
    });
    History { sessions, last, ..History::default() }
}

fn of_connection(connection: &Connection, spread: Spread, shard: ShardId) -> Connection {
    let mut part = Connection { time_us: connection.time_us, ..Connection::default() };
    // That a session has ended is heard from shard 0 as well, whichever was to be asked.
    let says = |answered: Option<(u64, i64, &Answer)>| {
        answered.is_none_or(|(.., answer)| *answer != Err(code::SESSION_EXPIRED))
    };
    let here = connection.exchanges().map(|(asked, answered)| {
        let counts = asked.request.is_write() || says(answered);
        counts && place(spread, &asked.request) == Some(shard)
    });
    let here: Vec<bool> = here.collect();
    let asked = connection.asked.iter().zip(&here).filter(|(_, here)| **here);
    part.asked = asked.map(|(asked, _)| asked.clone()).collect();
    let mut answers = here.iter();
    for heard in &connection.heard {
        let is_here = match heard {
            Heard::Answer { .. } => answers.next().copied().unwrap_or_default(),
            Heard::Told { path, .. } => spread.place(path.as_bytes()) == Place::At(shard),
        };
        part.heard.extend(is_here.then(|| heard.clone()));
    }
    part
}

/// A shard knows of the sessions that have entered it: whoever has not ended there may be one.
pub fn leave_sessions_alone(part: &mut History) {
    let ended = part.ends.iter().chain(&part.closings).map(|(session, _)| *session);
    let ended: Vec<i64> = ended.collect();
    let there = part.sessions.iter().map(|session| session.id).filter(|id| !ended.contains(id));
    let there = there.collect();
    if let Some(last) = &mut part.last {
        last.sessions = there;
    }
}

/// Brings the places in the logs that were found for the parts into the whole.
pub fn join(history: &mut History, spread: Spread, parts: &[History]) {
    for (s, session) in history.sessions.iter_mut().enumerate() {
        session.closed = parts.iter().any(|part| part.sessions[s].closed);
        for (c, connection) in session.connections.iter_mut().enumerate() {
            let of_part =
                |part: &History| part.sessions[s].connections[c].asked.clone().into_iter();
            let mut stamped: Vec<_> = parts.iter().map(of_part).collect();
            for asked in &mut connection.asked {
                let Some(shard) = place(spread, &asked.request) else { continue };
                let found = stamped[usize::from(shard.0)].next();
                asked.zxid = found.and_then(|found| found.zxid);
            }
        }
    }
}
