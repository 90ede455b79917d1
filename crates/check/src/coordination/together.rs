//! Sessions at several services at once. Each service alone is checked as if there were no other.
//! Checks over all services: a session's changes have larger numbers than those that its client had
//! answers from, whichever service carries them out, and there are no holes; there is one order of
//! all requests ([`super::across`]); and no client sees half of the end of a session.

use super::order::without_holes;
use super::{Heard, History, Reply, Request, Zxid, report};
use crate::verdict::Verdict;
use std::collections::BTreeSet;

pub(super) fn check(history: &History, parts: &[History], verdict: &mut Verdict) {
    for session in &history.sessions {
        numbers_grow(session, verdict);
        without_holes(session, |request| is_certain(session, request), verdict);
    }
    let ended = parts.iter().flat_map(|part| &part.ends).map(|(session, _)| *session);
    for session in ended.collect::<BTreeSet<_>>() {
        verdict.count("ends", 1);
        whole_end(session, parts, verdict);
    }
}

/// Whether a session has sent a request only once. Equal unanswered requests are indistinguishable.
pub(super) fn is_certain(session: &super::Session, request: &Request) -> bool {
    let asked = session.connections.iter().flat_map(|connection| &connection.asked);
    asked.filter(|other| other.request == *request).nth(1).is_none()
}

/// Checks that a request after an answer has a larger number, on all connections of a session.
fn numbers_grow(session: &super::Session, verdict: &mut Verdict) {
    let mut known: Vec<(u64, Zxid)> = Vec::new();
    let exchanges = session.connections.iter().flat_map(|connection| connection.exchanges());
    for (asked, answered) in exchanges {
        let certain = answered.is_some() || is_certain(session, &asked.request);
        let Some(zxid) = asked.zxid.filter(|_| certain) else { continue };
        verdict.count("changes", 1);
        let heard = known.partition_point(|(time_us, _)| *time_us < asked.time_us);
        let before = known[..heard].iter().map(|(_, zxid)| *zxid).fold(session.id, Zxid::max);
        if zxid <= before {
            let text = format!(
                "session {}: {:?} is change {zxid}, what it knew before is {before}",
                session.id, asked.request
            );
            report(verdict, "order-of-session", text);
        }
        known.extend(answered.map(|(time_us, ..)| (time_us, zxid)));
    }
}

/// Checks that a client that has seen a change after a session's end at one service sees the end at
/// all others.
fn whole_end(session: i64, parts: &[History], verdict: &mut Verdict) {
    let ends: Vec<Option<Zxid>> = parts
        .iter()
        .map(|part| part.ends.iter().find(|(id, _)| *id == session).map(|(_, zxid)| *zxid))
        .collect();
    let seen = parts.iter().zip(&ends).filter_map(|(part, end)| first_seen_us(part, (*end)?));
    let Some(seen_us) = seen.min() else { return };
    let connections = parts.iter().flat_map(|part| &part.sessions).flat_map(|s| &s.connections);
    for (asked, answered) in connections.flat_map(|connection| connection.exchanges()) {
        let Some((.., Ok(Reply::Stat(stat) | Reply::Data(_, stat)))) = answered else { continue };
        if stat.owner == session && asked.time_us > seen_us {
            let text = format!(
                "session {session} had ended at {seen_us} at the latest, and {:?}, asked at {}, \
                 shows a node of it",
                asked.request, asked.time_us
            );
            report(verdict, "half-an-end", text);
        }
    }
}

/// Earliest time at which a client received a change of a service that is not older than this one.
fn first_seen_us(part: &History, end: Zxid) -> Option<u64> {
    let connections = part.sessions.iter().flat_map(|session| &session.connections);
    let heard = connections.flat_map(|connection| &connection.heard);
    let seen = heard.filter_map(|heard| {
        let (Heard::Answer { time_us, zxid, .. } | Heard::Told { time_us, zxid, .. }) = heard;
        (*zxid >= end).then_some(*time_us)
    });
    seen.min()
}
