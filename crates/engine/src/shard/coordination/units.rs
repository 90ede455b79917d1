//! Requests that sessions send ahead to several shards: units of streams that ask something of the tree.
//!
//! Such a unit stands in the order of the branches that it is about ([`crate::coordination::branch`]) like
//! any other in that of its records. What it asks is done when the log says that it is settled, on all
//! replicas, since answers, watches and numbers of changes follow the log. Until then requests of other
//! sessions wait that are about the same branches; and whatever brings a session to another connection, or
//! ends it, waits for its units, so that nothing of an earlier connection takes effect behind it.

use super::{ServiceLeader, count_down, is_of_another_shard, left_by};
use crate::coordination::SpreadStep;
use crate::coordination::branch::{Branch, Footprint};
use crate::coordination::service::{Coordination, Done};
use crate::coordination::{
    Ask, Code, CoordinationAnswer, OfSession, Reply, SessionNotice, TreeSessionId, WatchedEvent,
    Write, Zxid,
};
use crate::ids::{GatewayId, StreamId};
use crate::limits::UNITS_OWE_US;
use crate::now::Now;
use crate::pipeline::Group;
use crate::shard::config::Rule;
use crate::shard::core::ShardCore;
use std::collections::BTreeMap;

/// Branches that are held: by units that are here and not settled, or by what is prepared
/// ([`super::joints`]).
#[derive(Debug, Default)]
pub(super) struct HeldBranches {
    /// By branch: how many of them change something, and how many only look.
    on: BTreeMap<Branch, Counts>,
    /// By session.
    of: BTreeMap<TreeSessionId, u32>,
    /// Time since which a request has waited for them, in monotonic microseconds.
    awaited_us: Option<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    change: u32,
    look: u32,
}

impl Counts {
    fn of(&mut self, changes: bool) -> &mut u32 {
        if changes { &mut self.change } else { &mut self.look }
    }
}

impl HeldBranches {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether a session has some.
    pub fn has_of(&self, session: TreeSessionId) -> bool {
        self.of.contains_key(&session)
    }

    fn come_of(&mut self, ask: &Ask) {
        self.come(ask.session().unwrap_or_default(), &ask.footprint());
    }

    /// Something of a session comes that holds this.
    pub fn come(
        &mut self,
        session: TreeSessionId,
        Footprint { branches, changes, .. }: &Footprint,
    ) {
        for branch in branches {
            *self.on.entry(branch.clone()).or_default().of(*changes) += 1;
        }
        *self.of.entry(session).or_default() += 1;
    }

    /// Something is over that has come.
    pub fn go(&mut self, session: TreeSessionId, Footprint { branches, changes, .. }: &Footprint) {
        for branch in branches {
            let Some(counts) = self.on.get_mut(branch) else { continue };
            *counts.of(*changes) -= 1;
            if counts.change == 0 && counts.look == 0 {
                self.on.remove(branch);
            }
        }
        count_down(&mut self.of, &session);
    }

    /// Whether something must not come before them.
    pub fn bar(&self, touched: &Footprint) -> bool {
        let bars = |counts: &Counts| counts.change > 0 || (touched.changes && counts.look > 0);
        (touched.all && !self.on.is_empty())
            || touched.branches.iter().any(|branch| self.on.get(branch).is_some_and(bars))
    }

    /// Notes that a request waits for them.
    pub fn await_them(&mut self, now: Now) {
        self.awaited_us.get_or_insert(now.mono_us);
    }

    /// Gives the time since which a request has waited; all that wait are about to be looked at again.
    pub fn take_awaited(&mut self) -> Option<u64> {
        self.awaited_us.take()
    }

    /// Notes that some of the requests that waited wait again.
    pub fn awaited_since(&mut self, since_us: Option<u64>) {
        self.awaited_us = self.awaited_us.and(since_us).or(self.awaited_us);
    }

    /// Whether a request has waited for so long that no more units come before it.
    fn owe(&self, now: Now) -> bool {
        self.awaited_us.is_some_and(|since_us| now.mono_us >= since_us + UNITS_OWE_US)
    }
}

/// Question of a unit that is settled, and what came of it.
pub(in super::super) struct AskSettled {
    pub seq: u32,
    pub ask: Box<Ask>,
    pub came: AskCame,
    /// The last change at that moment.
    pub zxid: Zxid,
}

/// Result of what a unit asks.
pub(in super::super) enum AskCame {
    /// None: the unit has no effect, or it is a read and this replica does not lead.
    ToNothing,
    /// Result of a change.
    Done(Done),
    /// Result of a read, for the leader.
    Seen(Seen),
}

/// Answer of the service, at one moment, to what a session asks.
pub(in super::super) struct Seen {
    /// Reply to a read.
    pub reply: Result<Reply, Code>,
    /// Event that was missed of each watch that is set again.
    pub missed: Vec<Option<WatchedEvent>>,
    /// The last change.
    pub zxid: Zxid,
}

/// Looks at the service for a session.
pub(in super::super) fn see(
    service: &Coordination,
    session: TreeSessionId,
    of: &OfSession,
) -> Seen {
    let mut seen = Seen { reply: Ok(Reply::Done), missed: Vec::new(), zxid: service.last() };
    match of {
        OfSession::Read { identities, read, .. } => {
            seen.reply = service.read(session, identities, read);
        }
        OfSession::Watch { since, watches } => {
            let missed = |(path, watch): &(_, _)| service.missed(path, *watch, *since);
            seen.missed = watches.iter().map(missed).collect();
        }
        OfSession::Ping | OfSession::Unwatch { .. } | OfSession::Watches { .. } => {}
    }
    seen
}

impl ServiceLeader {
    /// Whether a group that asks something of the tree can be let in at all: all of it is for one session,
    /// can be units, and belongs here.
    pub(in super::super) fn are_sound(&self, core: &ShardCore, group: &Group) -> bool {
        let session = group.session();
        let is_sound = |ask: &Ask| {
            ask.session() == session && ask.may_be_unit() && !is_of_another_shard(core, ask)
        };
        let asks = group.units.iter().map(|unit| unit.ask.as_deref());
        !group.chained && asks.into_iter().all(|ask| ask.is_some_and(is_sound))
    }

    /// Whether such a group must not be let in now. Its client is served without being sent ahead then, and
    /// told why if it cannot be.
    pub(in super::super) fn bars_units(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        gateway: GatewayId,
        group: &Group,
    ) -> bool {
        let Some(session) = group.session() else { return false };
        if self.misses(core, gateway, session).is_some() {
            return true;
        }
        self.liveness.hear(session, now.mono_us);
        let ends = &self.ends;
        // To let it wait would hold others of its stream up, and with them what it waits for.
        let held = &ends.joints.held;
        let bars = !held.is_empty() && group.asks().any(|ask| held.bar(&ask.footprint()));
        let bars = bars || held.has_of(session);
        bars || ends.hides_some(group.asks()) || ends.holds_of(session) || ends.units.owe(now)
    }

    /// A group stands in the order, and is on its way to the log.
    pub(in super::super) fn units_came(&mut self, group: &Group) {
        group.asks().for_each(|ask| self.ends.units.come_of(ask));
    }

    /// A lead begins: what was let in before waits for its order.
    pub(super) fn watch_over_units(&mut self, core: &mut ShardCore) {
        let asks = core.state.asks().values();
        asks.for_each(|ask| self.ends.units.come_of(ask));
    }

    /// The fate of units is committed, and this came of what they ask.
    pub(in super::super) fn units_settled(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        stream: StreamId,
        asks: Vec<AskSettled>,
    ) {
        for AskSettled { seq, ask, came, zxid } in asks {
            let session = ask.session().unwrap_or_default();
            self.ends.units.go(session, &ask.footprint());
            let reply = match (*ask, came) {
                (_, AskCame::Done(Done { reply, events })) => {
                    self.tell_watchers(core, &events, zxid);
                    reply
                }
                (Ask::Of(_, of), AskCame::Seen(seen)) if self.homes.contains_key(&session) => {
                    self.of_session(core, session, of, seen)
                }
                // It has no effect, or its client is not there any more.
                (_, AskCame::Seen(_) | AskCame::ToNothing) => continue,
            };
            let answered =
                Box::new(CoordinationAnswer { reply, zxid, notices: self.notices(session) });
            self.notify_session(core, session, SessionNotice::Carried { stream, seq, answered });
        }
        self.go_on(core, now);
    }

    /// Whether a request waits for units or for a `multi`: those of other sessions that are about the same,
    /// or its own session's, if it ends that or brings it elsewhere.
    pub(super) fn is_behind_units(&self, core: &ShardCore, ask: &Ask) -> bool {
        let ends = &self.ends;
        let (units, joints) = (Rule::BranchesAreHeld, Rule::PreparedIsHeld);
        let held = [(&ends.units, units), (&ends.joints.held, joints)];
        held.into_iter().any(|(held, rule)| !core.breaks(rule) && is_behind(core, held, ask))
    }
}

/// Whether a request waits for held branches.
fn is_behind(core: &ShardCore, units: &HeldBranches, ask: &Ask) -> bool {
    if units.is_empty() {
        return false;
    }
    match ask {
        Ask::Resume { session, .. } => units.has_of(*session),
        Ask::Write(command) => match &command.write {
            Write::Spread(SpreadStep::Enter { .. }) => units.has_of(command.session),
            Write::Close | Write::Spread(SpreadStep::Depart { .. } | SpreadStep::Finish) => {
                units.has_of(command.session)
                    || units.bar(&left_by(core.state.coordination(), command.session))
            }
            _ => units.bar(&ask.footprint()),
        },
        ask => units.bar(&ask.footprint()),
    }
}
