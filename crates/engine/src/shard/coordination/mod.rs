//! The coordination service at the shard that has its tree: requests of sessions, in the order in which
//! each session sends them, and what their watches tell them.
//!
//! A session is at one gateway, the last to which its client came. What only the leader knows (where
//! sessions are, what they watch, when they were heard of) is lost with the lead: gateways are told
//! [`Code::SessionMoved`] by the next leader and let their clients come back, who say then what they
//! watch, as ZooKeeper's do.

mod ends;
pub(super) mod joints;
pub(super) mod units;

use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::branch::Footprint;
use crate::coordination::liveness::Liveness;
use crate::coordination::service::{Command, Coordination, Done};
use crate::coordination::spread::{HOME, Location};
use crate::coordination::survey::{Listed, Survey};
use crate::coordination::tree::GuardedEvent;
use crate::coordination::tree::acl::Rules;
use crate::coordination::tree::watches::Watches;
use crate::coordination::{
    Ask, Code, CoordinationAnswer, OfSession, Read, Reply, SessionNotice, TreeSessionId, Watch,
    Write, Zxid,
};
use crate::entry::LogRecord;
use crate::ids::{GatewayId, Token};
use crate::limits::{NODE_PATH_BYTES_MAX, WATCHES_MAX};
use crate::message::{Answer, Body, Notice, Request};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::Blob;
use std::collections::BTreeMap;

/// Knowledge of the leader about sessions beyond the log.
#[derive(Debug, Default)]
pub(in crate::shard) struct ServiceLeader {
    watches: Watches,
    liveness: Liveness,
    homes: BTreeMap<TreeSessionId, Home>,
    /// Changes of sessions that are in the log and not applied.
    writing: BTreeMap<TreeSessionId, u32>,
    /// When to look for nodes whose time has come, in monotonic microseconds; none at a replica that does
    /// not lead.
    reap_us: Option<u64>,
    /// Requests of sessions that wait for something in the log to be applied.
    waiting: BTreeMap<TreeSessionId, u32>,
    /// Sessions that end and are at several shards, and what waits for that.
    ends: ends::Ends,
}

/// Where a session is.
#[derive(Debug)]
struct Home {
    gateway: GatewayId,
    /// Number of notices to the session since it came there.
    notices: u64,
}

impl ServiceLeader {
    /// Whether something that a session has asked before is not carried out yet.
    fn is_behind(&self, session: TreeSessionId) -> bool {
        self.writing.contains_key(&session) || self.waiting.contains_key(&session)
    }

    /// How much a session was told since it came to its gateway.
    fn notices(&self, session: TreeSessionId) -> u64 {
        self.homes.get(&session).map_or(0, |home| home.notices)
    }

    fn leave(&mut self, session: TreeSessionId) {
        self.homes.remove(&session);
        self.watches.forget(session);
    }
}

impl ServiceLeader {
    /// Sizes of the service.
    pub fn survey(&self, core: &ShardCore) -> Survey {
        let survey = Survey::of(core.state.coordination(), self.known_watches());
        if core.config.id == HOME { survey } else { survey.of_part() }
    }

    /// Sessions, and what each has.
    pub fn list(&self, core: &ShardCore) -> Listed {
        Listed::of(core.state.coordination(), self.known_watches())
    }

    /// Watches, if this replica leads.
    fn known_watches(&self) -> Option<&Watches> {
        self.reap_us.map(|_| &self.watches)
    }

    /// A lead begins: every session has its whole time.
    pub(super) fn begin_lead(&mut self, core: &mut ShardCore, now: Now) {
        *self = Self { reap_us: Some(now.mono_us + core.config.reap_us), ..Self::default() };
        // Others are told when a session has ended.
        let sessions = core.state.coordination().sessions().iter();
        for (session, kept) in sessions.filter(|_| core.config.id == HOME) {
            self.liveness.begin(*session, kept.timeout_ms, now.mono_us);
        }
        self.watch_over_ends(core, now);
        self.watch_over_units(core);
        self.watch_over_joints(core, now);
    }

    /// Nodes whose time has come are deleted, now and then: the tick is the leader's monotonic clock's,
    /// whether their time has come is decided by the time of the entry, as all replicas read it.
    pub(super) fn reap_nodes(&mut self, core: &mut ShardCore, now: Now) {
        let first_ms = core.state.coordination().tree().reapable_ms();
        if self.reap_us.is_none_or(|at_us| now.mono_us < at_us) {
            return;
        }
        self.reap_us = Some(now.mono_us + core.config.reap_us);
        let now_ms = i64::try_from(now.wall_ms()).unwrap_or(i64::MAX);
        if first_ms.is_some_and(|at_ms| at_ms <= now_ms) {
            self.log_command(
                core,
                Command::of(TreeSessionId::default(), Write::Reap),
                Recipient::none(),
            );
        }
    }

    /// Sessions that were silent for too long end.
    pub(super) fn end_silent_sessions(&mut self, core: &mut ShardCore, now: Now) {
        let service = core.state.coordination();
        let Self { liveness, ends, .. } = self;
        let (units, joints) = (&ends.units, &ends.joints.held);
        // What it has asked comes first.
        let asks = |session| units.has_of(session) || joints.has_of(session);
        // A prepared `multi` is about nodes as they are now.
        let leaves = |session| !joints.is_empty() && joints.bar(&left_by(service, session));
        for session in liveness.silent(now.mono_us, |session| asks(session) || leaves(session)) {
            self.log_command(core, Command::of(session, Write::Close), Recipient::none());
        }
    }

    fn log_command(&mut self, core: &mut ShardCore, command: Command, target: Recipient) {
        *self.writing.entry(command.session).or_default() += 1;
        core.log(LogRecord::Coordinate(Box::new(command)), target);
    }

    /// A request of a gateway about the service.
    pub(super) fn take(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        let Some(request) = self.hold_for_ends(core, now, request) else { return };
        let Body::Coordinate(ask) = &request.body else { return };
        let session = ask.session();
        if ask.is_read_only()
            && let Some(session) = session.filter(|session| self.is_behind(*session))
        {
            // It sees what its session has sent before, and nothing of what comes behind it.
            core.tail.close();
            core.delay(request);
            *self.waiting.entry(session).or_default() += 1;
            return;
        }
        self.carry_out(core, now, request);
    }

    /// A request that has waited is carried out.
    pub(super) fn resume(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        if let Body::Coordinate(ask) = &request.body
            && let Some(session) = ask.session()
        {
            count_down(&mut self.waiting, &session);
            if matches!(**ask, Ask::Resume { .. }) && self.is_behind_units(core, ask) {
                // Some have come since.
                return self.await_units(core, now, request);
            }
        }
        self.carry_out(core, now, request);
    }

    /// Some of the requests that wait for the log are not there any more.
    fn count_waiting(&mut self, core: &ShardCore) {
        self.waiting.clear();
        for request in core.delayed.waiting() {
            if let Body::Coordinate(ask) = &request.body
                && let Some(session) = ask.session()
            {
                *self.waiting.entry(session).or_default() += 1;
            }
        }
    }

    /// Carries out a request; everything that its session has sent before is applied.
    pub(super) fn carry_out(&mut self, core: &mut ShardCore, now: Now, request: Request) {
        let Request { gateway, token, body, .. } = request;
        let Body::Coordinate(ask) = body else { return };
        let session = ask.session();
        if is_of_another_shard(core, &ask) {
            return self.answer_asked(core, gateway, token, session, Err(Code::SessionMoved));
        }
        let reply = match *ask {
            Ask::Write(Command { write: Write::Spread(SpreadStep::Over(_)), .. })
                if core.state.coordination().last() > Zxid::default() =>
            {
                let over = core.state.coordination().spread().count();
                Ok(Reply::Number(i32::from(over)))
            }
            Ask::Write(command) => {
                let refused = session.and_then(|session| self.misses(core, gateway, session));
                if let Some(code) = refused {
                    return self.answer_asked(core, gateway, token, session, Err(code));
                }
                session.into_iter().for_each(|s| self.liveness.hear(s, now.mono_us));
                let sessions = core.state.coordination().sessions();
                if let Write::Spread(SpreadStep::Enter { joined, .. }) = command.write
                    && sessions.get(&command.session).is_none_or(|kept| joined > kept.entered)
                {
                    // What waits or comes now would be behind that in the log.
                    self.take_away(core, command.session, gateway);
                }
                self.joint_comes(&command);
                let target = Recipient { gateway, token, kind: RecipientKind::Coordinated };
                return self.log_command(core, command, target);
            }
            Ask::Leave(session) => {
                if self.misses(core, gateway, session).is_none() {
                    self.drop_held(core, session);
                    self.leave(session);
                }
                return;
            }
            Ask::Resume { session, password } => {
                self.come_back(core, now, gateway, session, &password)
            }
            Ask::Of(session, of) => match self.misses(core, gateway, session) {
                Some(code) => Err(code),
                None => {
                    self.liveness.hear(session, now.mono_us);
                    let seen = units::see(core.state.coordination(), session, &of);
                    self.of_session(core, session, of, seen)
                }
            },
        };
        self.answer_asked(core, gateway, token, session, reply);
    }

    /// Why a gateway may ask nothing about a session, if so.
    fn misses(&self, core: &ShardCore, gateway: GatewayId, session: TreeSessionId) -> Option<Code> {
        if !core.state.coordination().sessions().contains_key(&session) {
            return Some(self.why_not(core, session));
        }
        let here = self.homes.get(&session).is_some_and(|h| h.gateway == gateway);
        (!here).then_some(Code::SessionMoved)
    }

    /// Why a session that is not there is refused. One that ends and is at other shards may do something
    /// there until it has ended: its client is not told before.
    fn why_not(&self, core: &ShardCore, session: TreeSessionId) -> Code {
        let ending = core.state.coordination().ending().get(&session);
        let ends = ending.is_some_and(|ending| !ending.finished);
        if ends { Code::SessionMoved } else { Code::SessionExpired }
    }

    /// A session comes to this gateway: where it has been, nothing more of it is done.
    fn take_away(&mut self, core: &mut ShardCore, session: TreeSessionId, gateway: GatewayId) {
        if self.homes.get(&session).is_some_and(|home| home.gateway != gateway) {
            self.notify_session(core, session, SessionNotice::Moved);
        }
        self.drop_held(core, session);
        self.leave(session);
    }

    /// A session is at this gateway from now on.
    fn bring(&mut self, core: &mut ShardCore, session: TreeSessionId, gateway: GatewayId) {
        self.take_away(core, session, gateway);
        self.homes.insert(session, Home { gateway, notices: 0 });
    }

    fn come_back(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        gateway: GatewayId,
        session: TreeSessionId,
        password: &[u8],
    ) -> Result<Reply, Code> {
        let kept = core.state.coordination().sessions().get(&session);
        let kept = kept.ok_or_else(|| self.why_not(core, session))?;
        if kept.password != *password {
            return Err(Code::SessionExpired);
        }
        let (timeout_ms, joined) = (kept.timeout_ms, kept.joined.iter().copied().collect());
        self.bring(core, session, gateway);
        self.liveness.begin(session, timeout_ms, now.mono_us);
        match joined {
            joined if Vec::is_empty(&joined) => Ok(Reply::Number(timeout_ms)),
            joined => Ok(Reply::Joined(timeout_ms, joined)),
        }
    }

    fn of_session(
        &mut self,
        core: &mut ShardCore,
        session: TreeSessionId,
        of: OfSession,
        seen: units::Seen,
    ) -> Result<Reply, Code> {
        match of {
            OfSession::Ping => Ok(Reply::Done),
            OfSession::Read { read, watch, .. } => {
                let reply = seen.reply;
                if watch && let Some((path, watch)) = watched(&read, &reply) {
                    self.add_watch(session, path, watch)?;
                }
                reply
            }
            OfSession::Watch { watches, .. } => {
                for ((path, watch), missed) in watches.into_iter().zip(seen.missed) {
                    match missed {
                        Some(event) => {
                            let notice =
                                SessionNotice::Happened(event, seen.zxid, Rules::default());
                            self.notify_session(core, session, notice);
                        }
                        None => self.add_watch(session, &path, watch)?,
                    }
                }
                Ok(Reply::Done)
            }
            OfSession::Unwatch { path, which } => {
                let had = self.watches.remove(session, &path, which);
                if had { Ok(Reply::Done) } else { Err(Code::NoWatcher) }
            }
            OfSession::Watches { path, which } => {
                let has = self.watches.has(session, &path, which);
                if has { Ok(Reply::Done) } else { Err(Code::NoWatcher) }
            }
        }
    }

    fn add_watch(&mut self, session: TreeSessionId, path: &Blob, watch: Watch) -> Result<(), Code> {
        if path.len() > NODE_PATH_BYTES_MAX {
            return Err(Code::BadArguments);
        }
        if self.watches.len() >= WATCHES_MAX {
            return Err(Code::QuotaExceeded);
        }
        self.watches.add(session, path, watch);
        Ok(())
    }

    fn answer_asked(
        &mut self,
        core: &mut ShardCore,
        gateway: GatewayId,
        token: Token,
        session: Option<TreeSessionId>,
        reply: Result<Reply, Code>,
    ) {
        let zxid = core.state.coordination().last();
        let notices = session.map_or(0, |session| self.notices(session));
        let answered = CoordinationAnswer { reply, zxid, notices };
        core.answer(gateway, token, Answer::Coordinated(Box::new(answered)));
    }

    fn notify_session(
        &mut self,
        core: &mut ShardCore,
        session: TreeSessionId,
        notice: SessionNotice,
    ) {
        let Some(home) = self.homes.get_mut(&session) else { return };
        home.notices += 1;
        let gateway = home.gateway;
        let shard = core.config.id;
        core.notice(gateway, Token::default(), Notice::Session { shard, session, notice });
    }

    /// A change is committed, of a session whose `multi` held something before. Sessions that watch what it
    /// has changed are told before it is answered.
    pub(super) fn committed(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        command: &Command,
        target: Recipient,
        (held, Done { reply, events }): (Option<(JointId, Footprint)>, Done),
    ) {
        let zxid = core.state.coordination().last();
        self.tell_watchers(core, &events, zxid);
        let mut session = command.session;
        count_down(&mut self.writing, &session);
        match (&command.write, &reply) {
            (Write::Open { timeout_ms, .. }, Ok(Reply::Session(begun))) => {
                session = *begun;
                self.bring(core, session, target.gateway);
                self.liveness.begin(session, *timeout_ms, now.mono_us);
            }
            (Write::Spread(SpreadStep::Enter { .. }), Ok(_)) => {
                self.bring(core, session, target.gateway)
            }
            _ => {}
        }
        let ends_elsewhere = self.ends_go_on(core, now, command, target);
        if target.kind == RecipientKind::Coordinated && command.is_joint() {
            self.answer_joint(core, target, session, reply);
        } else if target.kind == RecipientKind::Coordinated && !ends_elsewhere {
            self.answer_asked(core, target.gateway, target.token, Some(session), reply);
        }
        if matches!(command.write, Write::Close | Write::Spread(SpreadStep::Depart { .. })) {
            if target.kind == RecipientKind::Silent {
                self.notify_session(core, session, SessionNotice::Ended);
            }
            self.liveness.end(session);
            self.leave(session);
        }
        self.joints_go_on(core, now, command, held);
    }

    fn tell_watchers(&mut self, core: &mut ShardCore, changes: &[GuardedEvent], zxid: Zxid) {
        let mut notified = Vec::new();
        for change in changes {
            self.watches.fire(change, &mut notified);
        }
        for (session, event, rules) in notified {
            self.notify_session(core, session, SessionNotice::Happened(event, zxid, rules));
        }
    }
}

/// Whether a gateway asks shard 0 about nodes of another one, because it does not know that the tree is
/// spread.
fn is_of_another_shard(core: &ShardCore, ask: &Ask) -> bool {
    let spread = core.state.coordination().spread();
    let place = match ask {
        _ if !spread.is_spread() => return false,
        Ask::Write(command) => spread.place_of_write(&command.write),
        Ask::Of(_, OfSession::Read { read, .. }) => spread.place_of_read(read),
        _ => return false,
    };
    place != Location::Everywhere && place.shard() != Some(HOME)
}

/// Nodes that the end of a session changes at a shard.
fn left_by(service: &Coordination, session: TreeSessionId) -> Footprint {
    let kept = service.kept(session);
    Footprint::nodes(kept.into_iter().flat_map(|kept| &kept.ephemerals))
}

/// One less of what is counted for a session, or for another key.
fn count_down<K: Ord>(counts: &mut BTreeMap<K, u32>, key: &K) {
    if let Some(count) = counts.get_mut(key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(key);
        }
    }
}

/// Watch that a read with this answer sets, if it sets one.
fn watched<'a>(read: &'a Read, reply: &Result<Reply, Code>) -> Option<(&'a Blob, Watch)> {
    match (read, reply) {
        (Read::Exists(path), Ok(_)) => Some((path, Watch::Data)),
        (Read::Exists(path), Err(Code::NoNode)) => Some((path, Watch::Exist)),
        (Read::Data(path), Ok(_)) => Some((path, Watch::Data)),
        (Read::Children { path, .. }, Ok(_)) => Some((path, Watch::Child)),
        _ => None,
    }
}
