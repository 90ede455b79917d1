//! Life spans of sessions.

use super::{Heard, History, Request, Session, Zxid, code, report};
use crate::verdict::Verdict;

/// Clocks may differ in speed by less than this many percent.
const DRIFT_PERCENT: u64 = 10;

/// Reports sessions that ended too early, and reported ends of sessions that have not ended.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    // Earliest time at which each change was known to have happened.
    let mut known: Vec<(Zxid, u64)> = Vec::new();
    for heard in history.sessions.iter().flat_map(|s| &s.connections).flat_map(|c| &c.heard) {
        let (Heard::Answer { time_us, zxid, .. } | Heard::Told { time_us, zxid, .. }) = heard;
        known.push((*zxid, *time_us));
    }
    known.sort_unstable();
    let mut earliest = u64::MAX;
    for (_, time_us) in known.iter_mut().rev() {
        earliest = earliest.min(*time_us);
        *time_us = earliest;
    }
    // A session that began at another service also ends there.
    for session in history.sessions.iter().filter(|session| !session.elsewhere) {
        let ended = history.ends.iter().filter(|(id, _)| *id == session.id);
        let ended = ended.map(|(_, zxid)| *zxid).min();
        let closed = closed(session);
        if let Some(time_us) = expiry_told(session)
            && ended.is_none()
            && !closed
        {
            let text = format!("session {} learned at {time_us} that it had ended", session.id);
            report(verdict, "expired-without-end", text);
        }
        // The end may have been known earlier, but not later.
        let Some(zxid) = ended.filter(|_| !closed) else { continue };
        let place = known.partition_point(|(seen, _)| *seen < zxid);
        let seen = known.get(place).map(|(_, time_us)| *time_us);
        let Some(known_us) = seen.into_iter().chain(expiry_told(session)).min() else { continue };
        let allowed_us = session.timeout_us * (100 - DRIFT_PERCENT) / 100;
        let heard_us = heard_of_us(session, zxid);
        if known_us < heard_us + allowed_us {
            let text = format!(
                "session {} has a timeout of {} us; it was heard of at {heard_us} or later, and had \
                 ended by {known_us}",
                session.id, session.timeout_us
            );
            report(verdict, "early-expiry", text);
        }
    }
}

fn closed(session: &Session) -> bool {
    if session.closed {
        return true;
    }
    let asked = session.connections.iter().flat_map(|connection| &connection.asked);
    asked.into_iter().any(|asked| asked.request == Request::Close && asked.zxid.is_some())
}

/// Time of the first answer that reported the end of the session to its client.
fn expiry_told(session: &Session) -> Option<u64> {
    let told = session.connections.iter().flat_map(|c| c.exchanges());
    let told = told.filter_map(|(_, answered)| answered);
    let told = told.filter(|(.., answer)| **answer == Err(code::SESSION_EXPIRED));
    told.map(|(time_us, ..)| time_us).chain(session.expired_us).min()
}

/// Earliest possible time of the last contact with its server before a change.
fn heard_of_us(session: &Session, before: Zxid) -> u64 {
    let mut heard_us = 0;
    for connection in &session.connections {
        // Reconnecting is a contact at the time of the request, which is not known here.
        for (asked, answered) in connection.exchanges() {
            if answered.is_some_and(|(_, zxid, answer)| {
                zxid < before && *answer != Err(code::SESSION_EXPIRED)
            }) {
                heard_us = heard_us.max(asked.time_us);
            }
        }
    }
    heard_us
}
