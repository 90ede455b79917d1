//! Replay of all changes in the order of their numbers, with the reads between them.

use super::tree::{Event, Tree};
use super::{Answer, History, Request, Zxid, code, report};
use crate::verdict::Verdict;
use std::collections::BTreeMap;

/// Place of a request: session, connection, index.
pub(super) type Place = (usize, usize, usize);

/// Results of the replay for the checks of watches.
#[derive(Debug, Default)]
pub(super) struct Replayed {
    /// Events of every change.
    pub steps: Vec<(Zxid, Vec<Event>)>,
    /// Events that reconnecting clients had missed, by request.
    pub missed: BTreeMap<Place, Vec<Event>>,
}

/// A step of the replay.
enum Step<'a> {
    Begin(i64),
    Closing(i64),
    End(i64),
    Ask { session: i64, place: Place, request: &'a Request, answer: Option<&'a Answer> },
}

/// All steps in order: by zxid; changes before the reads after them; reads of a session in its own
/// order.
fn steps<'a>(history: &'a History, verdict: &mut Verdict) -> Vec<(Zxid, bool, Step<'a>)> {
    let mut steps = Vec::new();
    for (s, session) in history.sessions.iter().enumerate() {
        if !session.elsewhere {
            steps.push((session.id, false, Step::Begin(session.id)));
        }
        for (c, connection) in session.connections.iter().enumerate() {
            for (r, (asked, answered)) in connection.exchanges().enumerate() {
                let answer = answered.map(|(_, _, answer)| answer);
                let writes = asked.request.is_write();
                let zxid = if writes { asked.zxid } else { answered.map(|(_, zxid, _)| zxid) };
                if let (true, Some((_, zxid, answer))) = (writes, answered)
                    && asked.zxid != Some(zxid)
                    && *answer != Err(code::SESSION_EXPIRED)
                {
                    let text = format!(
                        "session {}: {:?} was answered {answer:?} as change {zxid}, and the log has \
                         it at {:?}",
                        session.id, asked.request, asked.zxid
                    );
                    report(verdict, "lost-change", text);
                }
                let Some(zxid) = zxid else { continue };
                let (session, place, request) = (session.id, (s, c, r), &asked.request);
                steps.push((zxid, !writes, Step::Ask { session, place, request, answer }));
            }
        }
    }
    steps.extend(history.ends.iter().map(|(session, zxid)| (*zxid, false, Step::End(*session))));
    let closings = history.closings.iter();
    steps.extend(closings.map(|(session, zxid)| (*zxid, false, Step::Closing(*session))));
    steps.sort_by_key(|(zxid, reads, _)| (*zxid, *reads));
    steps
}

/// Replays a history, and reports answers that differ from the model's.
pub(super) fn replay(history: &History, verdict: &mut Verdict) -> Replayed {
    let mut tree = Tree::new();
    history.sessions.iter().filter(|s| s.elsewhere).for_each(|session| tree.begin(session.id));
    let mut replayed = Replayed::default();
    let mut last = None;
    for (zxid, reads, step) in steps(history, verdict) {
        verdict.count(if reads { "reads" } else { "changes" }, 1);
        if !reads && last.replace(zxid) == Some(zxid) {
            report(verdict, "change-twice", format!("two changes have the number {zxid}"));
        }
        let mut events = Vec::new();
        match step {
            Step::Begin(session) => tree.begin(session),
            Step::Closing(session) => tree.close(session),
            Step::End(session) => tree.end(session, zxid, &mut events),
            Step::Ask { session, place, request, answer } if reads => {
                let expected = tree.read(session, request);
                if let Request::Again(since, watches) = request {
                    let missed = watches.iter().filter_map(|(p, k)| tree.missed(p, *k, *since));
                    replayed.missed.insert(place, missed.collect());
                }
                if let (Some(expected), Some(answer)) = (expected, answer)
                    && expected != *answer
                {
                    wrong(verdict, "wrong-read", (session, zxid), request, &expected, answer);
                }
            }
            Step::Ask { session, request, answer, .. } => {
                let reused = answer.is_some_and(|answer| gives_again(&tree, answer));
                let (expected, happened) = tree.write(session, request, zxid);
                events = happened;
                if let Some(answer) = answer.filter(|answer| **answer != expected) {
                    let kind = if reused { "number-reused" } else { "wrong-answer" };
                    wrong(verdict, kind, (session, zxid), request, &expected, answer);
                }
            }
        }
        if !events.is_empty() {
            replayed.steps.push((zxid, events));
        }
    }
    compare_last(history, &tree, verdict);
    replayed
}

/// Whether a node was created under a name that an earlier sequential node had.
fn gives_again(tree: &Tree, answer: &Answer) -> bool {
    match answer {
        Ok(super::Reply::Created(path)) => tree.had_number(path),
        Ok(super::Reply::Multi(answers)) => answers.iter().any(|answer| gives_again(tree, answer)),
        _ => false,
    }
}

fn wrong(
    verdict: &mut Verdict,
    kind: &str,
    (session, zxid): (i64, Zxid),
    request: &Request,
    expected: &Answer,
    answer: &Answer,
) {
    let text = format!(
        "session {session} sent {request:?}\nand was answered {answer:?} at {zxid}\ninstead of \
         {expected:?}"
    );
    report(verdict, kind, text);
}

fn compare_last(history: &History, tree: &Tree, verdict: &mut Verdict) {
    let Some(last) = &history.last else { return };
    let (nodes, sessions) = tree.all();
    let mut found = last.nodes.clone();
    found.sort_unstable();
    for node in found.iter().filter(|node| !nodes.contains(node)) {
        report(verdict, "node-kept", format!("{node:?} is there at the end, and should not be"));
    }
    for node in nodes.iter().filter(|node| !found.contains(node)) {
        report(verdict, "node-lost", format!("{node:?} is not there at the end"));
    }
    // Sessions whose clients never learned of them are not compared.
    let known = |id: &&i64| history.sessions.iter().any(|session| session.id == **id);
    for id in last.sessions.iter().filter(known).filter(|id| !sessions.contains(id)) {
        report(verdict, "session-kept", format!("session {id} is there at the end, and has ended"));
    }
    for id in sessions.iter().filter(|id| !last.sessions.contains(id)) {
        report(verdict, "session-lost", format!("session {id} is not there, and has not ended"));
    }
}
