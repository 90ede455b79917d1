//! Sessions that are at several services at once. What each of these does by itself is checked as if there
//! were no other. What goes over all of them: a session's changes have larger numbers than those of which it
//! had the answers, whichever service carries them out, and no holes; there is one order of everything
//! ([`super::across`]); and nobody sees half of the end of a session.

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

/// Whether a session has asked something once only. Requests that are alike are told apart by nothing, where
/// they were not answered.
pub(super) fn is_certain(session: &super::Session, request: &Request) -> bool {
    let asked = session.connections.iter().flat_map(|connection| &connection.asked);
    asked.filter(|other| other.request == *request).nth(1).is_none()
}

/// What a session asks when it has an answer has a larger number, on all its connections.
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

/// Who has seen at one service what is later than the end of a session there sees the end at all others.
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

/// When somebody first heard from a service of a change that is not older than this one.
fn first_seen_us(part: &History, end: Zxid) -> Option<u64> {
    let connections = part.sessions.iter().flat_map(|session| &session.connections);
    let heard = connections.flat_map(|connection| &connection.heard);
    let seen = heard.filter_map(|heard| {
        let (Heard::Answer { time_us, zxid, .. } | Heard::Told { time_us, zxid, .. }) = heard;
        (*zxid >= end).then_some(*time_us)
    });
    seen.min()
}
