//! Ends of sessions that are at several shards. Nobody may see half of such an end: what a session leaves
//! behind at one shard and not at another.
//!
//! It begins to end at shard 0. All others that it has joined let nothing more of it in, and hold back
//! whatever could show whether its nodes are there (*departed*). When all have said so, it ends, at shard 0;
//! then the others delete its nodes and go on. A gateway carries the word between them; if that is lost,
//! the leader of shard 0 asks another one. Everything may be said twice.

use super::super::{Shard, Target, TargetKind};
use crate::coordination::service::{Command, Coordination};
use crate::coordination::spread::{HOME, Step};
use crate::coordination::{Answered, Reply, SessionId, Write};
use crate::limits::{ENDS_AGAIN_US, FROZEN_REQUESTS_MAX};
use crate::message::{Answer, Body, MachineId, Notice, Now, Request, Token};
use adt::Blob;
use std::collections::{BTreeMap, VecDeque};

/// What the leader knows of such ends beyond the log.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Who has asked that a session ends, at shard 0, and how much it was told before.
    askers: BTreeMap<SessionId, (Target, u64)>,
    /// When to remind a gateway of the ends that are not complete, in monotonic microseconds.
    again_us: Option<u64>,
    /// What waits until it is known that sessions have ended, in its order, and how much of it is whose.
    held: VecDeque<Request>,
    holding: BTreeMap<SessionId, u32>,
}

impl Ends {
    /// When to ask again what has become of an end.
    pub(super) fn next_us(&self, service: &Coordination) -> Option<u64> {
        self.again_us.filter(|_| !service.ending().is_empty())
    }

    /// The connections of a machine are gone.
    pub(super) fn forget(&mut self, machine: MachineId) {
        self.held.retain(|request| request.gateway.machine != machine);
        self.count();
        self.askers.retain(|_, (target, _)| target.gateway.machine != machine);
    }

    fn count(&mut self) {
        self.holding.clear();
        for request in &self.held {
            if let Some(session) = session_of(request) {
                *self.holding.entry(session).or_default() += 1;
            }
        }
    }
}

fn session_of(request: &Request) -> Option<SessionId> {
    match &request.body {
        Body::Coordinate(ask) => ask.session(),
        _ => None,
    }
}

impl Shard {
    /// Gives a request back unless it has to wait until it is known that a session has ended, or for what
    /// its own session has asked before and what waits for that.
    pub(super) fn hold_for_ends(&mut self, request: Request) -> Option<Request> {
        let service = self.state.coordination();
        let ends = &mut self.coordination.ends;
        if service.ending().is_empty() && ends.held.is_empty() {
            return Some(request);
        }
        let Body::Coordinate(ask) = &request.body else { return Some(request) };
        let session = ask.session();
        let behind = session.is_some_and(|session| ends.holding.contains_key(&session));
        let awaits = |(path, deep): (&Blob, bool)| service.awaits_end(path, deep);
        if !behind && !ask.paths().into_iter().any(awaits) {
            return Some(request);
        }
        if ends.held.len() >= FROZEN_REQUESTS_MAX {
            // Its client cannot go on as if this had been asked.
            self.answer(request.gateway, request.token, Answer::Unknown);
            return None;
        }
        session.into_iter().for_each(|session| *ends.holding.entry(session).or_default() += 1);
        ends.held.push_back(request);
        None
    }

    /// A change is carried out that may be a step of an end. Tells whether its answer comes later.
    pub(super) fn ends_go_on(&mut self, now: Now, command: &Command, target: Target) -> bool {
        let session = command.session;
        match &command.write {
            Write::Close if self.state.coordination().ending().contains_key(&session) => {
                if target.kind == TargetKind::Coordinated {
                    let told = self.coordination.told(session);
                    self.coordination.ends.askers.insert(session, (target, told));
                }
                self.remind_of(session);
                self.coordination.ends.again_us.get_or_insert(now.mono_us + ENDS_AGAIN_US);
                true
            }
            Write::Spread(Step::Finish) => {
                let asker = self.coordination.ends.askers.remove(&session);
                if let Some((Target { gateway, token, .. }, told)) = asker {
                    let (reply, zxid) = (Ok(Reply::Done), self.state.coordination().last());
                    let answered = Box::new(Answered { reply, zxid, told });
                    self.answer(gateway, token, Answer::Coordinated(answered));
                }
                self.go_on_after_ends(now);
                false
            }
            Write::Spread(Step::Gone) => {
                self.go_on_after_ends(now);
                false
            }
            _ => false,
        }
    }

    /// What has waited for the end of a session goes on, and waits again if it must.
    fn go_on_after_ends(&mut self, now: Now) {
        let ends = &mut self.coordination.ends;
        ends.holding.clear();
        for request in std::mem::take(&mut ends.held) {
            if let Some(request) = self.hold_back(now, request) {
                self.coordinate(now, request);
            }
        }
    }

    /// A gateway is to carry the word of this end.
    fn remind_of(&mut self, session: SessionId) {
        let Some(ending) = self.state.coordination().ending().get(&session) else { return };
        let (ended, finished) = (ending.ended, ending.finished);
        let shards = ending.session.joined.iter().copied().collect();
        let notice = Notice::Ending { session, ended, finished, shards };
        self.notice(self.config.beside, Token::default(), notice);
    }

    /// Ends that are not complete are said again now and then: whoever carried the word may be lost.
    pub(in super::super) fn remind_of_ends(&mut self, now: Now) {
        let due = self.coordination.ends.again_us.is_some_and(|at_us| at_us <= now.mono_us);
        if self.config.id != HOME || !due {
            return;
        }
        let ending: Vec<_> = self.state.coordination().ending().keys().copied().collect();
        self.coordination.ends.again_us = Some(now.mono_us + ENDS_AGAIN_US);
        ending.into_iter().for_each(|session| self.remind_of(session));
    }

    /// A lead begins: what the one before it has begun to end goes on.
    pub(super) fn watch_over_ends(&mut self, now: Now) {
        self.coordination.ends.again_us = Some(now.mono_us);
    }

    /// The lead has ended. Whoever waits is told.
    pub(in super::super) fn give_up_ends(&mut self) {
        let ends = std::mem::take(&mut self.coordination.ends);
        for (_, (asker, _)) in ends.askers {
            self.answer(asker.gateway, asker.token, Answer::Unknown);
        }
        for request in ends.held {
            self.turn_away(request.gateway, request.token, request.body);
        }
    }
}
