//! Ends of sessions that are at several shards. No client may see half of such an end: nodes that a session
//! leaves behind at one shard and not at another.
//!
//! It begins to end at shard 0. All others that it has joined let nothing more of it in, and hold back
//! whatever could show whether its nodes are there (*departed*). When all have said so, it ends, at shard 0;
//! then the others delete its nodes and go on. A gateway carries the word between them; if that is lost,
//! the leader of shard 0 asks another one. Everything may be said twice.

use super::ServiceLeader;
use super::count_down;
use super::joints::Joints;
use super::units::HeldBranches;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::spread::HOME;
use crate::coordination::tree::path;
use crate::coordination::{Ask, Code, CoordinationAnswer, OfSession, Reply, TreeSessionId, Write};
use crate::ids::{MachineId, Token};
use crate::limits::{ENDS_AGAIN_US, FROZEN_REQUESTS_MAX};
use crate::message::{Answer, Body, Notice, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use crate::shard::waiting::room::WaitingRoom;
use adt::Blob;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Knowledge of the leader about such ends beyond the log.
#[derive(Debug, Default)]
pub(super) struct Ends {
    /// Requests that sessions end, at shard 0, with the number of notices that each session got before.
    askers: BTreeMap<TreeSessionId, (Recipient, u64)>,
    /// When to remind a gateway of the ends that are not complete, in monotonic microseconds.
    again_us: Option<u64>,
    /// Requests that wait until it is known that sessions have ended, in order, and their sessions.
    held: VecDeque<Request>,
    holding: BTreeSet<TreeSessionId>,
    hidden: Hidden,
    /// Units and `multi`s that requests wait for in the same way.
    pub(super) units: HeldBranches,
    pub(super) joints: Joints,
}

/// Nodes of which this shard does not know whether they are there, because it does not know whether their
/// sessions have ended.
#[derive(Debug, Default)]
struct Hidden {
    of: BTreeMap<TreeSessionId, Vec<Blob>>,
    nodes: BTreeSet<Blob>,
    /// How many of them each of their parents has.
    parents: BTreeMap<Blob, u32>,
}

impl Hidden {
    fn hide(&mut self, session: TreeSessionId, nodes: impl Iterator<Item = Blob>) {
        self.show(session);
        let nodes: Vec<Blob> = nodes.collect();
        for node in &nodes {
            let parent = path::parent_to_be(node).unwrap_or_default();
            *self.parents.entry(Blob::new(parent)).or_default() += 1;
            self.nodes.insert(node.clone());
        }
        self.of.insert(session, nodes);
    }

    fn show(&mut self, session: TreeSessionId) {
        for node in self.of.remove(&session).unwrap_or_default() {
            self.nodes.remove(&node);
            let parent = Blob::new(path::parent_to_be(&node).unwrap_or_default());
            count_down(&mut self.parents, &parent);
        }
    }

    /// Whether what is asked about a path could show whether they are there: it is about one of them, about
    /// what is below one, or about the children of a parent; or about all that is below (`deep`).
    fn shows(&self, path: &[u8], deep: bool) -> bool {
        let mut above = path::upwards(path);
        self.parents.contains_key(path)
            || above.any(|above| self.nodes.contains(above))
            || (deep && self.parents.keys().any(|parent| path::is_at_or_below(parent, path)))
    }
}

impl Ends {
    /// Whether what is asked could show whether nodes are there of which that is not known.
    pub(super) fn hides_some<'a>(&self, mut asks: impl Iterator<Item = &'a Ask>) -> bool {
        let shows =
            |ask: &Ask| ask.paths().into_iter().any(|(path, deep)| self.hidden.shows(path, deep));
        !self.hidden.of.is_empty() && asks.any(shows)
    }

    /// Whether something waits that a session has asked.
    pub(super) fn holds_of(&self, session: TreeSessionId) -> bool {
        self.holding.contains(&session)
    }
}

fn session_of(request: &Request) -> Option<TreeSessionId> {
    match &request.body {
        Body::Coordinate(ask) => ask.session(),
        _ => None,
    }
}

impl ServiceLeader {
    /// Gives a request back unless it has to wait until it is known that a session has ended, for units that
    /// were sent ahead, for a `multi`, or for what its own session has asked before and what waits for that.
    pub(super) fn hold_for_ends(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        request: Request,
    ) -> Option<Request> {
        let ends = &self.ends;
        let holds_none = ends.units.is_empty() && ends.joints.held.is_empty();
        if ends.hidden.of.is_empty() && ends.held.is_empty() && holds_none {
            return Some(request);
        }
        let Body::Coordinate(ask) = &request.body else { return Some(request) };
        // What a joint `multi` holds at other shards may be what an end waits for: it is refused in its turn.
        if !ask.prepares() && ends.hides_some(std::iter::once(&**ask)) {
            self.keep_for_ends(core, now, request);
            return None;
        }
        if self.is_behind_units(core, ask) {
            self.await_units(core, now, request);
            return None;
        }
        self.hold_behind(core, now, request)
    }

    /// Gives a request back unless it has to wait for its own session. That a client is there, comes back or
    /// leaves does not wait for anything.
    pub(in super::super) fn hold_behind(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        request: Request,
    ) -> Option<Request> {
        let Body::Coordinate(ask) = &request.body else { return Some(request) };
        let waits = matches!(&**ask, Ask::Write(_) | Ask::Of(..));
        let session =
            ask.session().filter(|_| waits && !matches!(**ask, Ask::Of(_, OfSession::Ping)));
        if session.is_none_or(|session| !self.ends.holding.contains(&session)) {
            return Some(request);
        }
        self.keep_for_ends(core, now, request);
        None
    }

    /// A request waits for units that were sent ahead.
    pub(super) fn await_units(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        self.ends.units.await_them(now);
        self.keep_for_ends(core, now, request);
    }

    fn keep_for_ends(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        if self.is_full() {
            // Its client cannot go on as if this had been asked.
            return core.answer(request.gateway, request.token, Answer::Unknown);
        }
        if let Some(session) = session_of(&request) {
            self.ends.holding.insert(session);
            self.liveness.hear(session, now.mono_us);
        }
        self.ends.held.push_back(request);
    }

    /// The session comes to another connection, or leaves the one that it had: what it has asked there and
    /// waits is not done.
    pub(super) fn drop_held(&mut self, core: &mut ShardCore, session: TreeSessionId) {
        if !self.ends.holding.remove(&session) {
            return;
        }
        let held = std::mem::take(&mut self.ends.held);
        for request in held {
            if session_of(&request) == Some(session) {
                let moved = Err(Code::SessionMoved);
                self.answer_asked(core, request.gateway, request.token, Some(session), moved);
            } else {
                self.ends.held.push_back(request);
            }
        }
    }

    /// A session has begun to end here: its nodes are hidden until it is known that it has.
    fn hide_nodes(&mut self, core: &mut ShardCore, session: TreeSessionId) {
        if let Some(ending) = core.state.coordination().ending().get(&session) {
            let nodes = ending.session.ephemerals.iter().cloned();
            self.ends.hidden.hide(session, nodes);
        }
    }

    /// A change is carried out that may be a step of an end. Tells whether its answer comes later.
    pub(super) fn ends_go_on(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        command: &Command,
        target: Recipient,
    ) -> bool {
        let session = command.session;
        match &command.write {
            Write::Close if core.state.coordination().ending().contains_key(&session) => {
                if target.kind == RecipientKind::Coordinated {
                    let notices = self.notices(session);
                    self.ends.askers.insert(session, (target, notices));
                }
                self.hide_nodes(core, session);
                self.remind_of(core, session);
                let again_us = &mut self.ends.again_us;
                // What is past is from when nothing ended.
                let due_us = again_us.filter(|at_us| *at_us > now.mono_us);
                *again_us = due_us.or(Some(now.mono_us + ENDS_AGAIN_US));
                true
            }
            Write::Spread(SpreadStep::Depart { .. }) => {
                self.hide_nodes(core, session);
                false
            }
            Write::Spread(SpreadStep::Finish) => {
                let asker = self.ends.askers.remove(&session);
                if let Some((Recipient { gateway, token, .. }, notices)) = asker {
                    let (reply, zxid) = (Ok(Reply::Done), core.state.coordination().last());
                    let answered = Box::new(CoordinationAnswer { reply, zxid, notices });
                    core.answer(gateway, token, Answer::Coordinated(answered));
                }
                self.ends.hidden.show(session);
                self.go_on(core, now);
                false
            }
            Write::Spread(SpreadStep::Gone) => {
                self.ends.hidden.show(session);
                self.go_on(core, now);
                false
            }
            _ => false,
        }
    }

    /// Lets requests go on that waited for the end of a session; some wait again. While the shard stands
    /// still all wait for that.
    pub(in super::super) fn go_on(&mut self, core: &mut ShardCore, now: Now) {
        if core.frozen {
            return;
        }
        let ends = &mut self.ends;
        ends.holding.clear();
        let awaited = ends.units.take_awaited();
        for request in std::mem::take(&mut ends.held) {
            self.take(core, now, request);
        }
        self.ends.units.awaited_since(awaited);
    }

    /// A gateway is to carry the word of this end.
    fn remind_of(&mut self, core: &mut ShardCore, session: TreeSessionId) {
        let Some(ending) = core.state.coordination().ending().get(&session) else { return };
        let (ended, finished) = (ending.ended, ending.finished);
        let shards = ending.session.joined.iter().copied().collect();
        let notice = Notice::Ending { session, ended, finished, shards };
        core.notice(core.config.beside, Token::default(), notice);
    }

    /// Reminds a gateway now and then of ends that are not complete: the one that carried the message may be
    /// lost.
    pub(in super::super) fn remind_of_ends(&mut self, core: &mut ShardCore, now: Now) {
        let due = self.ends.again_us.is_some_and(|at_us| at_us <= now.mono_us);
        if core.config.id != HOME || !due {
            return;
        }
        let ending: Vec<_> = core.state.coordination().ending().keys().copied().collect();
        self.ends.again_us = Some(now.mono_us + ENDS_AGAIN_US);
        ending.into_iter().for_each(|session| self.remind_of(core, session));
    }

    /// A lead begins: what the one before it has begun to end goes on.
    pub(super) fn watch_over_ends(&mut self, core: &mut ShardCore, now: Now) {
        self.ends.again_us = (core.config.id == HOME).then_some(now.mono_us);
        let ending: Vec<_> = core.state.coordination().ending().keys().copied().collect();
        ending.into_iter().for_each(|session| self.hide_nodes(core, session));
    }
}

impl WaitingRoom for ServiceLeader {
    fn limit(&self) -> usize {
        FROZEN_REQUESTS_MAX
    }

    fn len(&self) -> usize {
        self.ends.held.len() + self.ends.askers.len()
    }

    /// When a session may have been silent for too long, a node's time may have come, or it is to be asked
    /// again what has become of an end, or of a `multi`.
    fn next_us(&self, core: &ShardCore, _now: Now) -> Option<u64> {
        let service = core.state.coordination();
        let reap_us = self.reap_us.filter(|_| service.tree().reapable_ms().is_some());
        let ends_us = self.ends.again_us.filter(|_| !service.ending().is_empty());
        let (silent_us, joints_us) = (self.liveness.next_us(), self.ends.joints.next_us());
        [silent_us, reap_us, ends_us, joints_us].into_iter().flatten().min()
    }

    /// Forgets the connections of the machine, and what they have asked.
    fn forget(&mut self, core: &mut ShardCore, _now: Now, machine: MachineId) {
        let of_it = self.homes.iter().filter(|(_, home)| home.gateway.machine == machine);
        for session in of_it.map(|(session, _)| *session).collect::<Vec<_>>() {
            self.leave(session);
        }
        let ends = &mut self.ends;
        ends.held.retain(|request| request.gateway.machine != machine);
        ends.holding = ends.held.iter().filter_map(session_of).collect();
        ends.askers.retain(|_, (target, _)| target.gateway.machine != machine);
        self.count_waiting(core);
    }

    /// Answers that it is not known whether sessions end, sends all other requests to the next leader, and
    /// forgets where sessions are.
    fn end_lead(&mut self, core: &mut ShardCore) {
        let ends = std::mem::take(self).ends;
        for (asker, _) in ends.askers.into_values() {
            core.answer(asker.gateway, asker.token, Answer::Unknown);
        }
        for request in ends.held {
            core.turn_away(request.gateway, request.token, request.body);
        }
    }
}
