//! Real-time order, and the order of each session.

use super::{Answer, Asked, Heard, History, Request, Zxid, code, report};
use crate::verdict::Verdict;

/// Reports answers that are older than known changes, and violations of a session's order.
pub(super) fn check(history: &History, verdict: &mut Verdict) {
    real_time(history, verdict);
    for session in &history.sessions {
        in_order(session, verdict);
        without_holes(session, |_| true, verdict);
    }
}

/// Number of a request: from the log, or from its answer. The answer that a session has ended
/// reveals none.
fn number(ask: &Asked, answered: Option<(u64, Zxid, &Answer)>) -> Option<Zxid> {
    if ask.request.is_write() && ask.zxid.is_some() {
        return ask.zxid;
    }
    let shows = |answer: &Answer| *answer != Err(code::SESSION_EXPIRED);
    answered.filter(|(.., answer)| shows(answer)).map(|(_, zxid, _)| zxid)
}

/// Time of a message and the last change that its receiver then knows of.
fn known_by(heard: &Heard) -> Option<(u64, Zxid)> {
    match heard {
        Heard::Answer { answer: Err(code::SESSION_EXPIRED), .. } => None,
        Heard::Answer { time_us, zxid, .. } | Heard::Told { time_us, zxid, .. } => {
            Some((*time_us, *zxid))
        }
    }
}

/// Checks that a request is not carried out before a change that was known when it was sent.
fn real_time(history: &History, verdict: &mut Verdict) {
    let mut known: Vec<(u64, Zxid)> = Vec::new();
    let mut asked = Vec::new();
    for session in &history.sessions {
        for connection in &session.connections {
            known.push((connection.time_us, session.began()));
            known.extend(connection.heard.iter().filter_map(known_by));
            for (ask, answered) in connection.exchanges() {
                let writes = ask.request.is_write() && ask.zxid.is_some();
                asked.extend(
                    number(ask, answered).map(|zxid| (ask.time_us, zxid, writes, session.id, ask)),
                );
            }
        }
    }
    known.sort_unstable();
    asked.sort_by_key(|(time_us, ..)| *time_us);
    let (mut known, mut latest) = (known.into_iter().peekable(), 0);
    for (time_us, zxid, writes, session, ask) in asked {
        while let Some((_, seen)) = known.next_if(|(when, _)| *when < time_us) {
            latest = latest.max(seen);
        }
        if zxid < latest || (writes && zxid == latest) {
            let text = format!(
                "session {session} sent {:?} when change {latest} was known, and it was carried \
                 out at {zxid}",
                ask.request
            );
            report(verdict, if writes { "change-in-the-past" } else { "stale-read" }, text);
        }
    }
}

/// Checks that the requests of a session take effect in order, on all its connections.
fn in_order(session: &super::Session, verdict: &mut Verdict) {
    let mut before = session.began();
    for connection in &session.connections {
        for (asked, answered) in connection.exchanges() {
            let writes = asked.request.is_write() && asked.zxid.is_some();
            let Some(zxid) = number(asked, answered) else { continue };
            if zxid < before || (writes && zxid == before) {
                let text = format!(
                    "session {}: {:?} was carried out at {zxid}, its request before at {before}",
                    session.id, asked.request
                );
                report(verdict, "order-of-session", text);
            }
            before = before.max(zxid);
        }
        let mut seen = 0;
        for (_, zxid) in connection.heard.iter().filter_map(known_by) {
            if zxid < seen {
                let text =
                    format!("session {}: change {zxid} was received after {seen}", session.id);
                report(verdict, "heard-backwards", text);
            }
            seen = seen.max(zxid);
        }
    }
}

/// Checks that the requests of a connection take effect up to some request, and none after it.
/// Counts only requests that were answered, or that cannot be mistaken for others (`is_certain`).
pub(super) fn without_holes(
    session: &super::Session,
    is_certain: impl Fn(&Request) -> bool,
    verdict: &mut Verdict,
) {
    for connection in &session.connections {
        let mut missing = None;
        for (asked, answered) in connection.exchanges() {
            let refused = answered.is_some_and(|(.., a)| *a == Err(code::SESSION_EXPIRED));
            let certain = answered.is_some() || is_certain(&asked.request);
            if !asked.request.is_write() || refused || !certain {
                continue;
            }
            match (asked.zxid, &missing) {
                (None, _) => missing = Some(&asked.request),
                (Some(zxid), Some(request)) => {
                    let text = format!(
                        "session {}: {request:?} was left out, and {:?} behind it carried out at \
                         {zxid}",
                        session.id, asked.request
                    );
                    report(verdict, "hole-in-session", text);
                }
                (Some(_), None) => {}
            }
        }
    }
}
