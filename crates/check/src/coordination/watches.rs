//! Notifications of watches. A connection is a stream in one order: the notifications of all
//! changes that an answer may show precede the answer, and no others do.

use super::replay::{Place, Replayed};
use super::tree::{Event, parent};
use super::{
    Answer, Connection, Happened, Heard, History, Kind, Reply, Request, Zxid, code, report,
};
use crate::verdict::Verdict;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A notification, and the change that it is about.
type Notice = (Zxid, Event);

/// Reports notifications that are missing, late or unfounded.
pub(super) fn check(history: &History, replayed: &Replayed, verdict: &mut Verdict) {
    for (s, session) in history.sessions.iter().enumerate() {
        for (c, connection) in session.connections.iter().enumerate() {
            let mut stream = Stream { replayed, ..Stream::new(replayed) };
            if let Err((kind, text)) = stream.follow((s, c), connection) {
                report(verdict, kind, format!("session {}: {text}", session.id));
            }
            verdict.count("notices", stream.told);
        }
    }
}

/// State of the check of a connection.
struct Stream<'a> {
    replayed: &'a Replayed,
    watches: BTreeMap<String, BTreeSet<Kind>>,
    /// Number of changes that were processed.
    at: usize,
    /// Notifications that must precede the next answer, and those received.
    due: VecDeque<Notice>,
    heard: VecDeque<Notice>,
    told: usize,
}

type Wrong = (&'static str, String);

impl<'a> Stream<'a> {
    fn new(replayed: &'a Replayed) -> Self {
        let (watches, due, heard) = Default::default();
        Self { replayed, watches, at: 0, due, heard, told: 0 }
    }

    fn follow(&mut self, (s, c): (usize, usize), connection: &Connection) -> Result<(), Wrong> {
        let mut answered = 0;
        for heard in &connection.heard {
            match heard {
                Heard::Told { zxid, happened, path, .. } => {
                    self.told += 1;
                    self.heard.push_back((*zxid, (*happened, path.clone())));
                }
                // The answer that a session has ended does not depend on its watches, and
                // notifications may have been lost.
                Heard::Answer { answer: Err(code::SESSION_EXPIRED), .. } => return Ok(()),
                Heard::Answer { zxid, answer, .. } => {
                    let Some(asked) = connection.asked.get(answered) else { return Ok(()) };
                    self.advance(*zxid);
                    self.asked((s, c, answered), &asked.request, *zxid, answer)?;
                    self.compare(*zxid, &asked.request)?;
                    answered += 1;
                }
            }
        }
        let open = connection.asked.get(answered).map(|asked| &asked.request);
        self.end(open)
    }

    /// Processes the changes up to this one.
    fn advance(&mut self, to: Zxid) {
        let steps = &self.replayed.steps;
        if self.watches.is_empty() {
            self.at = self.at.max(steps.partition_point(|(zxid, _)| *zxid <= to));
        }
        while let Some((zxid, events)) = steps.get(self.at).filter(|(zxid, _)| *zxid <= to) {
            self.at += 1;
            for event in events {
                let told = self.fire(event);
                self.due.extend(told.into_iter().map(|event| (*zxid, event)));
            }
        }
    }

    /// Notifications of this session for an event; one-time watches end by it.
    fn fire(&mut self, (happened, path): &Event) -> Vec<Event> {
        let mut told = Vec::new();
        let once: &[Kind] = match happened {
            Happened::Created | Happened::Data => &[Kind::Data],
            Happened::Deleted => &[Kind::Data, Kind::Child],
            Happened::Children => &[],
        };
        let above = |path: &str, watched: &str| {
            watched == "/" || path == watched || path.starts_with(&format!("{watched}/"))
        };
        let recursive = |(watched, kinds): (&String, &BTreeSet<Kind>)| {
            kinds.contains(&Kind::Recursive) && above(path, watched)
        };
        let at_all = self.watches.iter().any(recursive);
        if self.spend(path, once) || at_all {
            told.push((*happened, path.clone()));
        }
        let is_of_parent = matches!(happened, Happened::Created | Happened::Deleted);
        if is_of_parent && path != "/" && self.spend(parent(path), &[Kind::Child]) {
            told.push((Happened::Children, parent(path).to_owned()));
        }
        told
    }

    /// Whether a path has such a watch, or a permanent one; removes a one-time watch.
    fn spend(&mut self, path: &str, once: &[Kind]) -> bool {
        let Some(kinds) = self.watches.get_mut(path) else { return false };
        let mut found = kinds.contains(&Kind::Persistent);
        for kind in once {
            found |= kinds.remove(kind);
        }
        if kinds.is_empty() {
            self.watches.remove(path);
        }
        found
    }

    fn asked(
        &mut self,
        place: Place,
        request: &Request,
        zxid: Zxid,
        answer: &Answer,
    ) -> Result<(), Wrong> {
        let found = answer.is_ok();
        match request {
            Request::Exists(path, true) if found || *answer == Err(code::NO_NODE) => {
                self.watch(path, Kind::Data);
            }
            Request::Data(path, true) if found => self.watch(path, Kind::Data),
            Request::Children(path, true) if found => self.watch(path, Kind::Child),
            Request::Watch(path, kind) if found => self.watch(path, *kind),
            Request::Again(since, watches) if found => {
                let missed = self.replayed.missed.get(&place).cloned().unwrap_or_default();
                for (path, kind) in watches {
                    if !misses(&missed, path, *kind) {
                        let kind = if *kind == Kind::Exist { Kind::Data } else { *kind };
                        self.watch(path, kind);
                    }
                }
                if *since > zxid {
                    let text = format!("watches set again since {since} were answered at {zxid}");
                    return Err(("wrong-watches", text));
                }
                self.due.extend(missed.into_iter().map(|event| (zxid, event)));
            }
            Request::Unwatch(path) => {
                let had = self.watches.remove(path).is_some();
                let expected = if had { Ok(Reply::Done) } else { Err(code::NO_WATCHER) };
                if expected != *answer && *answer != Err(code::SESSION_EXPIRED) {
                    let text = format!("{request:?} was answered {answer:?}, not {expected:?}");
                    return Err(("wrong-watches", text));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn watch(&mut self, path: &str, kind: Kind) {
        self.watches.entry(path.to_owned()).or_default().insert(kind);
    }

    /// Checks that every due notification was received before an answer, and no other except for
    /// later changes.
    fn compare(&mut self, zxid: Zxid, request: &Request) -> Result<(), Wrong> {
        let mut due: Vec<Notice> = self.due.drain(..).collect();
        let count = self.heard.iter().take_while(|(seen, _)| *seen <= zxid).count();
        let mut heard: Vec<Notice> = self.heard.drain(..count).collect();
        // Within one change, the server chooses the order.
        due.sort_unstable();
        heard.sort_unstable();
        if due == heard {
            return Ok(());
        }
        let before = format!("before the answer at {zxid} to {request:?}");
        match due.iter().find(|notice| !heard.contains(notice)) {
            Some(notice) => Err(("untold", format!("no notification of {notice:?} {before}"))),
            None => {
                Err(("told-of-nothing", format!("{heard:?} was notified {before}, due is {due:?}")))
            }
        }
    }

    /// Checks the end of a connection: notifications since the last answer must have been due, in
    /// order.
    fn end(&mut self, open: Option<&Request>) -> Result<(), Wrong> {
        let Some((last, _)) = self.heard.back().cloned() else { return Ok(()) };
        self.advance(last);
        let mut due: Vec<Notice> = self.due.drain(..).collect();
        for notice in self.heard.drain(..) {
            if let Some(place) = due.iter().position(|other| *other == notice) {
                due.remove(place);
            } else if !may_be_missed(open, &notice.1) {
                return Err(("told-of-nothing", format!("{notice:?} was notified without reason")));
            }
        }
        match due.iter().find(|(zxid, _)| *zxid < last) {
            Some(notice) => Err(("untold", format!("no notification of {notice:?}"))),
            None => Ok(()),
        }
    }
}

/// Whether a watch that is set again ends at once because of a missed event.
fn misses(missed: &[Event], path: &str, kind: Kind) -> bool {
    missed.iter().any(|(happened, of)| {
        let fits = match kind {
            Kind::Data => matches!(happened, Happened::Data | Happened::Deleted),
            Kind::Exist => *happened == Happened::Created,
            Kind::Child => matches!(happened, Happened::Children | Happened::Deleted),
            Kind::Persistent | Kind::Recursive => false,
        };
        fits && of == path
    })
}

/// Whether a notification may come from watches that are being set again without an answer yet.
fn may_be_missed(open: Option<&Request>, (_, path): &Event) -> bool {
    matches!(open, Some(Request::Again(_, watches)) if watches.iter().any(|(of, _)| of == path))
}
