//! Splits the clients' history of a tree over several shards by shard: to the checkers each shard
//! is a separate service, with its own numbers of changes and its part of every session, of the
//! requests and of the answers. Requests to all shards (root and pings) are left out.

use crate::clients::errand::{as_asked, as_change};
use check::coordination::{
    Answer, Asked as Seen, Concerns, Connection, Heard, History, Reply, Request, Session, Zxid,
    code,
};
use engine::coordination::spread::{HOME, Location, Spread};
use engine::coordination::{OfSession, Write};
use engine::gateway::coordination::ClientRequest;
use engine::ids::ShardId;
use std::collections::BTreeMap;

/// Shard that carried out a request, if it was one shard.
pub fn place(spread: Spread, request: &Request) -> Option<ShardId> {
    let place = match as_asked(request, &[]) {
        ClientRequest::Write(Write::Close) | ClientRequest::Of(OfSession::Ping) => return None,
        ClientRequest::Write(write) => spread.place_of_write(&write),
        ClientRequest::Of(OfSession::Read { read, .. }) => spread.place_of_read(&read),
        ClientRequest::Of(OfSession::Watch { watches, .. }) => spread.place(&watches.first()?.0),
        ClientRequest::Of(OfSession::Unwatch { path, .. } | OfSession::Watches { path, .. }) => {
            spread.place(&path)
        }
        ClientRequest::Proved(_) | ClientRequest::Refused(_) => return None,
    };
    place.shard()
}

/// Parts of a joint `multi`, by shard: the indices of the changes, and the part itself.
pub fn parts(spread: Spread, request: &Request) -> BTreeMap<ShardId, (Vec<usize>, Request)> {
    let Request::Multi(changes) = request else { return BTreeMap::new() };
    let as_changes: Vec<_> = changes.iter().map(as_change).collect();
    let parts = spread.parts(&as_changes);
    if parts.len() < 2 {
        return BTreeMap::new();
    }
    let part = |places: Vec<usize>| {
        let of = places.iter().map(|place| changes[*place].clone()).collect();
        (places, Request::Multi(of))
    };
    parts.into_iter().map(|(shard, places)| (shard, part(places))).collect()
}

/// Shards and branches that a request concerns, in the form that the checkers take.
pub fn concerns(spread: Spread, request: &Request) -> Vec<Concerns> {
    let about = |shard: ShardId, request: &Request| {
        let touched = as_asked(request, &[]).footprint();
        let branches = touched.branches.iter().map(|branch| branch.name().to_vec()).collect();
        (usize::from(shard.0), branches)
    };
    let parts = parts(spread, request);
    if parts.is_empty() {
        return place(spread, request).map(|shard| about(shard, request)).into_iter().collect();
    }
    parts.iter().map(|(shard, (_, request))| about(*shard, request)).collect()
}

/// Request as one shard has it; for a joint one, the indices of the shard's changes and the number.
type Part = (Seen, Option<(Vec<usize>, Zxid)>);

/// Shard's part of a joint request, with its number.
fn part_of(spread: Spread, asked: &Seen, shard: ShardId) -> Option<(Vec<usize>, Request, Zxid)> {
    let (_, zxid) = asked.parts.iter().find(|(of, _)| *of == usize::from(shard.0))?;
    let (places, request) = parts(spread, &asked.request).remove(&shard)?;
    Some((places, request, *zxid))
}

/// History of one shard, without the ends of sessions.
pub fn part(history: &History, spread: Spread, shard: ShardId) -> History {
    let is_here = |path: &str| spread.place(path.as_bytes()) == Location::At(shard);
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
    // Shard 0 also reports that a session has ended, whichever shard was asked.
    let says = |answered: Option<(u64, i64, &Answer)>| {
        answered.is_none_or(|(.., answer)| *answer != Err(code::SESSION_EXPIRED))
    };
    let here = connection.exchanges().map(|(asked, answered)| {
        let counts = asked.request.is_write() || says(answered);
        let whole = counts && place(spread, &asked.request) == Some(shard);
        let (time_us, parts) = (asked.time_us, Vec::new());
        match part_of(spread, asked, shard) {
            Some((places, request, zxid)) => {
                let asked = Seen { time_us, request, zxid: None, parts };
                Some((asked, Some((places, zxid))))
            }
            None => whole.then(|| (asked.clone(), None)),
        }
    });
    let here: Vec<Option<Part>> = here.collect();
    part.asked = here.iter().flatten().map(|(asked, _)| asked.clone()).collect();
    let mut answers = here.iter();
    for heard in &connection.heard {
        match heard {
            Heard::Answer { time_us, zxid, answer } => {
                let Some((_, of)) = answers.next().and_then(Option::as_ref) else { continue };
                let (zxid, answer) = match of {
                    Some((places, zxid)) => (*zxid, answer_of(places, answer)),
                    None => (*zxid, answer.clone()),
                };
                part.heard.push(Heard::Answer { time_us: *time_us, zxid, answer });
            }
            Heard::Told { path, .. } if spread.place(path.as_bytes()) == Location::At(shard) => {
                part.heard.push(heard.clone());
            }
            Heard::Told { .. } => {}
        }
    }
    part
}

/// Answers to some of the changes of a `multi`.
fn answer_of(places: &[usize], answer: &Answer) -> Answer {
    let Ok(Reply::Multi(answers)) = answer else { return answer.clone() };
    Ok(Reply::Multi(places.iter().filter_map(|place| answers.get(*place).cloned()).collect()))
}

/// Treats sessions as possibly present at a shard: a shard knows only the sessions that have
/// entered it.
pub fn leave_sessions_alone(part: &mut History) {
    let ended = part.ends.iter().chain(&part.closings).map(|(session, _)| *session);
    let ended: Vec<i64> = ended.collect();
    let there = part.sessions.iter().map(|session| session.id).filter(|id| !ended.contains(id));
    let there = there.collect();
    if let Some(last) = &mut part.last {
        last.sessions = there;
    }
}

/// Copies the positions in the logs that were found for the parts into the whole history.
pub fn join(history: &mut History, spread: Spread, parts: &[History]) {
    for (s, session) in history.sessions.iter_mut().enumerate() {
        session.closed = parts.iter().any(|part| part.sessions[s].closed);
        for (c, connection) in session.connections.iter_mut().enumerate() {
            let of_part =
                |part: &History| part.sessions[s].connections[c].asked.clone().into_iter();
            let mut stamped: Vec<_> = parts.iter().map(of_part).collect();
            for asked in &mut connection.asked {
                for (shard, _) in &asked.parts {
                    // Its position is known.
                    stamped[*shard].next();
                }
                let first = asked.parts.iter().map(|(_, zxid)| *zxid).min();
                asked.zxid = first.or(asked.zxid);
                let Some(shard) = place(spread, &asked.request) else { continue };
                let found = stamped[usize::from(shard.0)].next();
                asked.zxid = found.and_then(|found| found.zxid);
            }
        }
    }
}
