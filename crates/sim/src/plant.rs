//! Planted bugs: each breaks one guarantee that the product relies on, and the checkers must detect
//! it. Most bugs are simulated from outside, by changing a message, a disk or a start as a bug in
//! that mechanism would. Rules of the order of pipelines are broken by the shards themselves, on
//! request.

use crate::clients::workload::CELL;
use crate::machine::build::Build;
use crate::swarm::{Fault, Focus};
use adt::{ArgBuf, Blob, Op, Reply};
use engine::coordination::SpreadStep;
use engine::coordination::service::Command;
use engine::coordination::{Ask, Change, Lasts, OfSession, Write, Zxid};
use engine::entry::SnapshotPart;
use engine::ids::{KeyedOp, Token};
use engine::message::{Answer, Body, CutStep, Fate, Notice, Request, Response};
use engine::node::{Node, Parcel};
use engine::shard::Rule;
use raft::eraftpb::{Message, MessageType};
use std::sync::Arc;

/// Planted bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Plant {
    /// Writes are answered before they are on disk.
    EarlyReply,
    /// A crash takes an entry that was synced.
    LostEntry,
    /// One participant aborts what the others commit.
    TornTransaction,
    /// Request numbers are ignored, so that a retry takes effect twice.
    ForgottenRequest,
    /// `WATCH` watches nothing.
    DroppedGuard,
    /// Locks are released as soon as they are granted.
    EarlyRelease,
    /// Values read from several shards are taken for a snapshot whatever their timestamps.
    MixedSnapshot,
    /// Transactions that a crash has left open are not recovered.
    NoResolve,
    /// Wounds get lost, so that deadlocks stay.
    LostWound,
    /// Now and then a shard forgets to tell that a key has changed which a client has cached.
    LostChange,
    /// A message to a shard arrives twice.
    DuplicateMessage,
    /// Messages that end a transaction's locks get lost.
    LostRelease,
    /// A transaction does not see its own writes.
    LostOwnWrites,
    /// A shard continues before all shards stand still for a backup, and the check for that is
    /// skipped.
    TornCut,
    /// Pipelines are dispatched without an order across shards.
    LooseOrder,
    /// A part of a bundle goes to the disk, and is visible, before the others.
    TornBundle,
    /// On a server that waits for no disk: bundles of other workers are taken after commands that arrived
    /// later.
    OvertakenBundle,
    /// Bundles go to shards where their parts may have to wait.
    UncheckedBundle,
    /// On a server that waits for no disk: requests do not see the parts of bundles that came before.
    HiddenPart,
    /// A read-only transaction gets the present value of a record in place of an earlier version.
    YoungVersion,
    /// Writes of a script that has failed are seen by the scripts behind it.
    LeakedRun,
    /// A shard carries out each script twice.
    RepeatedRun,
    /// With scripts alone: one that is a transaction does not see what it has written before.
    UnseenWrite,
    /// Calls at one shard go by a definition of a composed type that no other gateway has.
    EarlyDefinition,
    /// A transaction that has seen what is not durable commits without asking whether it is by then.
    ForgottenRest,
    /// With locks: tokens are issued and not checked, as if writes came without.
    UnfencedWrites,
    /// With locks: the largest tokens seen are lost with the log before a snapshot.
    ForgottenTokens,
    /// With locks: leases end after a quarter of their time.
    EarlyLeaseEnd,
    /// With locks: observers of an election receive the same state twice.
    RepeatedLeader,
    /// With locks: parties at a barrier proceed without the others.
    ShortBarrier,
    /// With locks: a lock that a server keeps for its clients has a small part of the lease that
    /// the server assumes.
    ShortKeep,
    /// With locks: grants repeat tokens of other grants.
    RepeatedToken,
    /// In a cluster: leases are measured by a clock that stops while the machine is paused.
    FrozenClock,
    /// In a cluster: a snapshot from another machine counts as stored before it is on disk.
    LostSnapshot,
    /// In a cluster: a participant is told that a transaction was never prepared.
    WrongFate,
    /// In a cluster: a machine restarts with the map that the cluster was founded with.
    ForgottenMap,
    /// In a cluster: a machine whose disk is lost returns under its number.
    ReusedNumber,
    /// In a cluster: a new replica claims to have caught up, and acknowledges entries that it
    /// lacks.
    EarlyVoter,
    /// In a cluster: a clock is slower than leases allow for.
    SlowClock,
    /// In a cluster: a connection loses a message now and then and continues.
    LostFrame,
    /// In a cluster: followers break the promises that a leader has asked for.
    BrokenPromise,
    /// In a cluster: a newer build writes a format that an older one does not understand.
    EarlyLevel,
    /// In a cluster with sessions: a notification is sent after an answer that shows its change.
    WatchAfterAnswer,
    /// In a cluster with sessions: now and then a watch is not set.
    LostWatch,
    /// In a cluster with sessions: changes during a client's absence are not notified.
    MissedChange,
    /// In a cluster with sessions: now and then an ephemeral node is created as a persistent one.
    KeptEphemeral,
    /// In a cluster with sessions: sequential nodes get numbers again.
    ReusedSequence,
    /// In a cluster with sessions: sessions end after a quarter of their time.
    EarlyExpiry,
    /// In a cluster with sessions: a gateway continues to write for a session that has moved.
    MovedSession,
    /// In a tree over several shards: a session ends although other shards still show its nodes.
    HalfAnEnd,
    /// In a tree over several shards: a change gets a number regardless of what its session has
    /// seen.
    ForgottenNumber,
    /// In a tree over several shards: requests sent ahead lock their branches in shared mode.
    SharedBranches,
    /// In a tree over several shards: other requests do not wait for requests sent ahead.
    PassingRequests,
    /// In a tree over several shards: one of the shards of a `multi` is told that it has no effect.
    TornMulti,
    /// In a tree over several shards: other requests do not wait for a prepared `multi`.
    PassedMultis,
    /// In a tree over several shards: the outcome of a `multi` whose gateway is lost is not
    /// recovered.
    ForgottenMulti,
    /// In a cluster with pipelines: clocks do not advance to the places that they have issued.
    StandingClock,
    /// In a cluster with pipelines: entries that are not durable yet are not waited for, however
    /// low their proposal.
    UndurableIgnored,
    /// In a cluster with pipelines: proposals are sent before they are durable.
    EarlyProposal,
    /// In a cluster with pipelines: refusals are kept in memory only.
    ForgottenRefusal,
    /// In a cluster with pipelines: earlier answers are ignored.
    DroppedFloor,
}

impl Plant {
    /// All planted bugs.
    pub const ALL: [Self; 61] = [
        Self::EarlyReply,
        Self::LostEntry,
        Self::TornTransaction,
        Self::ForgottenRequest,
        Self::DroppedGuard,
        Self::EarlyRelease,
        Self::MixedSnapshot,
        Self::NoResolve,
        Self::LostWound,
        Self::LostChange,
        Self::DuplicateMessage,
        Self::LostRelease,
        Self::LostOwnWrites,
        Self::TornCut,
        Self::LooseOrder,
        Self::TornBundle,
        Self::OvertakenBundle,
        Self::UncheckedBundle,
        Self::HiddenPart,
        Self::YoungVersion,
        Self::LeakedRun,
        Self::RepeatedRun,
        Self::UnseenWrite,
        Self::EarlyDefinition,
        Self::ForgottenRest,
        Self::UnfencedWrites,
        Self::ForgottenTokens,
        Self::EarlyLeaseEnd,
        Self::RepeatedLeader,
        Self::ShortBarrier,
        Self::ShortKeep,
        Self::RepeatedToken,
        Self::FrozenClock,
        Self::LostSnapshot,
        Self::WrongFate,
        Self::ForgottenMap,
        Self::ReusedNumber,
        Self::EarlyVoter,
        Self::SlowClock,
        Self::LostFrame,
        Self::BrokenPromise,
        Self::EarlyLevel,
        Self::WatchAfterAnswer,
        Self::LostWatch,
        Self::MissedChange,
        Self::KeptEphemeral,
        Self::ReusedSequence,
        Self::EarlyExpiry,
        Self::MovedSession,
        Self::HalfAnEnd,
        Self::ForgottenNumber,
        Self::SharedBranches,
        Self::PassingRequests,
        Self::TornMulti,
        Self::PassedMultis,
        Self::ForgottenMulti,
        Self::StandingClock,
        Self::UndurableIgnored,
        Self::EarlyProposal,
        Self::ForgottenRefusal,
        Self::DroppedFloor,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::EarlyReply => "early-reply",
            Self::LostEntry => "lost-entry",
            Self::TornTransaction => "torn-transaction",
            Self::ForgottenRequest => "forgotten-request",
            Self::DroppedGuard => "dropped-guard",
            Self::EarlyRelease => "early-release",
            Self::MixedSnapshot => "mixed-snapshot",
            Self::NoResolve => "no-resolve",
            Self::LostWound => "lost-wound",
            Self::LostChange => "lost-change",
            Self::DuplicateMessage => "duplicate-message",
            Self::LostRelease => "lost-release",
            Self::LostOwnWrites => "lost-own-writes",
            Self::TornCut => "torn-cut",
            Self::LooseOrder => "loose-order",
            Self::TornBundle => "torn-bundle",
            Self::OvertakenBundle => "overtaken-bundle",
            Self::UncheckedBundle => "unchecked-bundle",
            Self::HiddenPart => "hidden-part",
            Self::YoungVersion => "young-version",
            Self::LeakedRun => "leaked-run",
            Self::RepeatedRun => "repeated-run",
            Self::UnseenWrite => "unseen-write",
            Self::EarlyDefinition => "early-definition",
            Self::ForgottenRest => "forgotten-rest",
            Self::UnfencedWrites => "unfenced-writes",
            Self::ForgottenTokens => "forgotten-tokens",
            Self::EarlyLeaseEnd => "early-lease-end",
            Self::RepeatedLeader => "repeated-leader",
            Self::ShortBarrier => "short-barrier",
            Self::ShortKeep => "short-keep",
            Self::RepeatedToken => "repeated-token",
            Self::FrozenClock => "frozen-clock",
            Self::LostSnapshot => "lost-snapshot",
            Self::WrongFate => "wrong-fate",
            Self::ForgottenMap => "forgotten-map",
            Self::ReusedNumber => "reused-number",
            Self::EarlyVoter => "early-voter",
            Self::SlowClock => "slow-clock",
            Self::LostFrame => "lost-frame",
            Self::BrokenPromise => "broken-promise",
            Self::EarlyLevel => "early-level",
            Self::WatchAfterAnswer => "watch-after-answer",
            Self::LostWatch => "lost-watch",
            Self::MissedChange => "missed-change",
            Self::KeptEphemeral => "kept-ephemeral",
            Self::ReusedSequence => "reused-sequence",
            Self::EarlyExpiry => "early-expiry",
            Self::MovedSession => "moved-session",
            Self::HalfAnEnd => "half-an-end",
            Self::ForgottenNumber => "forgotten-number",
            Self::SharedBranches => "shared-branches",
            Self::PassingRequests => "passing-requests",
            Self::TornMulti => "torn-multi",
            Self::PassedMultis => "passed-multis",
            Self::ForgottenMulti => "forgotten-multi",
            Self::StandingClock => "standing-clock",
            Self::UndurableIgnored => "undurable-ignored",
            Self::EarlyProposal => "early-proposal",
            Self::ForgottenRefusal => "forgotten-refusal",
            Self::DroppedFloor => "dropped-floor",
        }
    }

    /// Whether only several machines can show it.
    pub fn needs_cluster(self) -> bool {
        self >= Self::FrozenClock
    }

    /// Whether only clients of the coordination service can show it.
    pub fn needs_sessions(self) -> bool {
        (Self::WatchAfterAnswer..=Self::MovedSession).contains(&self)
    }

    /// Focus of runs that can show it, if it needs one.
    pub fn focus(self) -> Option<Focus> {
        if self >= Self::StandingClock || self.needs_volatile() {
            return Some(Focus::Pipelines);
        }
        if (Self::HalfAnEnd..=Self::ForgottenMulti).contains(&self) {
            return Some(Focus::Trees);
        }
        if matches!(self, Self::LeakedRun | Self::RepeatedRun | Self::UnseenWrite) {
            return Some(Focus::Scripts);
        }
        let of_locks = (Self::UnfencedWrites..=Self::RepeatedToken).contains(&self);
        of_locks.then_some(Focus::Locks)
    }

    /// Faults that must be frequent for the bug to show: a bug of cuts shows when a cut is made, a
    /// bug of clocks when a clock stops on a leader, and a premature acknowledgement when data get
    /// lost.
    pub fn shows_under(self) -> &'static [(Fault, u64)] {
        match self {
            Self::TornCut => &[(Fault::Backup, 40)],
            Self::ForgottenTokens => &[(Fault::Snapshot, 60), (Fault::Crash, 20)],
            Self::FrozenClock => &[(Fault::Move, 12)],
            Self::BrokenPromise => &[(Fault::Lie, 100)],
            Self::EarlyProposal => &[(Fault::Crash, 20), (Fault::Clog, 40)],
            Self::DroppedFloor => &[(Fault::ClockJump, 40)],
            _ => &[],
        }
    }

    /// Whether it shows only when messages between several workers take long.
    pub fn needs_workers(self) -> bool {
        self == Self::TornCut || (Self::TornBundle..=Self::HiddenPart).contains(&self)
    }

    /// Whether it shows only at a server that waits for no disk.
    pub fn needs_volatile(self) -> bool {
        matches!(self, Self::OvertakenBundle | Self::HiddenPart)
    }

    /// Whether it shows only where pipelines keep their order.
    pub fn is_about_order(self) -> bool {
        (Self::LooseOrder..=Self::HiddenPart).contains(&self)
    }

    /// Rule of the order of pipelines that shards break, if it is such a bug.
    pub fn rule(self) -> Option<Rule> {
        match self {
            Self::StandingClock => Some(Rule::ClocksFollow),
            Self::UndurableIgnored => Some(Rule::UndurableCounts),
            Self::EarlyProposal => Some(Rule::ProposalsAreDurable),
            Self::ForgottenRefusal => Some(Rule::RefusalsAreDurable),
            Self::PassingRequests => Some(Rule::BranchesAreHeld),
            Self::PassedMultis => Some(Rule::PreparedIsHeld),
            Self::YoungVersion => Some(Rule::VersionsAreExact),
            Self::LeakedRun => Some(Rule::FailedRunsLeaveNothing),
            _ => None,
        }
    }

    /// Bug with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|p| p.name() == name)
    }

    /// Requests that arrive when a shard is sent this one.
    pub fn requests(self, mut request: Request, shard: u16) -> Vec<Request> {
        if self == Self::ShortKeep
            && let Body::Await { apply, .. } | Body::Apply(apply) = &mut request.body
        {
            apply.ops.iter_mut().for_each(|(_, op)| shorten(op));
        }
        if self == Self::EarlyDefinition
            && let Body::Apply(apply) = &mut request.body
            && shard == 0
        {
            apply.ops.iter_mut().for_each(by_early_definition);
        }
        match (self, &mut request.body) {
            (Self::TornTransaction, Body::Decide { commit, .. }) if shard == 0 => *commit = None,
            (Self::ForgottenRequest, Body::Apply(apply)) => apply.request = None,
            (Self::ForgottenRequest, Body::Prepare { prepare, .. }) => prepare.apply.request = None,
            (Self::DroppedGuard, Body::Apply(apply)) => apply.guards.clear(),
            (Self::DroppedGuard, Body::Prepare { prepare, .. }) => prepare.apply.guards.clear(),
            (Self::UnfencedWrites, Body::Apply(apply)) => apply.fences.clear(),
            (Self::RepeatedLeader, Body::Await { apply, .. }) => {
                if let Some((_, Op::Lock(adt::kinds::lock::Op::Observe(seen)))) =
                    apply.ops.first_mut()
                {
                    *seen = 0;
                }
            }
            (Self::LostOwnWrites | Self::UnseenWrite, Body::Lock { own, .. }) => own.clear(),
            (Self::LostRelease, Body::Release { .. }) => return Vec::new(),
            (Self::EarlyRelease, Body::Lock { txn, .. }) => {
                let (gateway, token, txn) = (request.gateway, Token(0), *txn);
                let after = adt::Timestamp::ZERO;
                let release =
                    Request { gateway, token, after: None, body: Body::Release { txn, after } };
                return vec![request, release];
            }
            (Self::TornCut, Body::Cut { cut, step: CutStep::Freeze }) if shard == 0 => {
                let (gateway, token) = (request.gateway, Token(u64::MAX));
                let body = Body::Cut { cut: *cut, step: CutStep::Release };
                return vec![request, Request { gateway, token, after: None, body }];
            }
            (Self::DuplicateMessage, Body::Apply(apply)) => {
                let (gateway, token) = (request.gateway, Token(u64::MAX));
                let again =
                    Request { gateway, token, after: None, body: Body::Apply(apply.clone()) };
                return vec![request, again];
            }
            (Self::RepeatedRun, Body::Run(run)) => {
                let (gateway, token) = (request.gateway, Token(u64::MAX));
                let again = Request { gateway, token, after: None, body: Body::Run(run.clone()) };
                return vec![request, again];
            }
            (Self::DroppedFloor, Body::Pipeline(group)) => {
                Arc::make_mut(group).floor = adt::Timestamp::ZERO;
            }
            (Self::SharedBranches, Body::Pipeline(group)) if group.has_asks() => {
                let units = &mut Arc::make_mut(group).units;
                let ops = units.iter_mut().flat_map(|unit| &mut unit.ops);
                ops.for_each(|(_, op)| *op = Op::Key(adt::key::KeyOp::Exists));
            }
            (Self::TornMulti, Body::Coordinate(ask)) if shard != 0 => {
                if let Ask::Write(Command { write: Write::Spread(step), .. }) = &mut **ask
                    && let SpreadStep::Decide { commit, .. } = step
                {
                    *commit = false;
                }
            }
            (Self::HalfAnEnd, Body::Coordinate(ask)) => {
                let Ask::Write(Command { session, write: Write::Spread(step), .. }) = &mut **ask
                else {
                    return vec![request];
                };
                match step {
                    SpreadStep::Depart { .. } => *step = SpreadStep::Forget,
                    SpreadStep::Gone => {
                        let (gateway, token) = (request.gateway, Token(u64::MAX));
                        let depart = SpreadStep::Depart { ended: Zxid::default() };
                        let late = Command::of(*session, Write::Spread(depart));
                        let body = Body::Coordinate(Box::new(Ask::Write(late)));
                        return vec![Request { gateway, token, after: None, body }, request];
                    }
                    _ => {}
                }
            }
            (_, Body::Coordinate(ask)) => self.coordinates(ask, request.token.0),
            _ => {}
        }
        vec![request]
    }

    /// Changes a client's command.
    pub fn command(self, words: &mut [String]) {
        if self == Self::EarlyLeaseEnd
            && words[0] == "lock.acquire"
            && let Some(at) = words.iter().position(|word| word == "lease")
            && let Ok(lease_ms) = words[at + 1].parse::<u64>()
        {
            words[at + 1] = (lease_ms / 4).to_string();
        }
        if self == Self::ShortBarrier && words[0] == "barrier.wait" {
            words[2] = "1".to_owned();
        }
    }

    /// Changes a snapshot that is read back.
    pub fn snapshot(self, parts: &mut [SnapshotPart]) {
        for part in parts {
            if let (Self::ForgottenTokens, SnapshotPart::Fence { token, .. }) = (self, part) {
                *token = 0;
            }
        }
    }

    /// Changes the `nth` request to the coordination service.
    fn coordinates(self, ask: &mut Ask, nth: u64) {
        match (self, ask) {
            (Self::LostWatch, Ask::Of(_, OfSession::Read { watch, .. })) => {
                *watch &= !nth.is_multiple_of(3);
            }
            (Self::MissedChange, Ask::Of(_, OfSession::Watch { since, .. })) => {
                *since = Zxid(i64::MAX);
            }
            (
                Self::EarlyExpiry,
                Ask::Write(Command { write: Write::Open { timeout_ms, .. }, .. }),
            ) => {
                *timeout_ms /= 4;
            }
            (Self::ForgottenNumber, Ask::Write(Command { after, .. })) => *after = Zxid::default(),
            (_, Ask::Write(Command { write: Write::Change(Change::Create(create)), .. })) => {
                match self {
                    Self::KeptEphemeral if nth.is_multiple_of(4) => {
                        create.mode.lasts = Lasts::Always
                    }
                    Self::ReusedSequence if create.mode.sequential => {
                        let name = format!("{:010}", nth % 4);
                        create.path = Blob::from([&create.path[..], name.as_bytes()].concat());
                        create.mode.sequential = false;
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    /// Changes a parcel for another machine; none if it is dropped.
    pub fn parcel(self, parcel: &mut Parcel, node: &Node<Build>) -> Option<()> {
        match (self, parcel) {
            (Self::EarlyVoter, Parcel::Raft { shard, message }) => {
                let lacks_all = node.replica(*shard).is_some_and(|r| r.group().applied().0 == 0);
                if lacks_all && message.get_msg_type() == MessageType::MsgAppendResponse {
                    acknowledge(message);
                }
            }
            (Self::BrokenPromise, Parcel::Raft { message, .. }) => ask_for_nothing(message),
            (Self::LostFrame, Parcel::Response(response)) if response.token.0 % 500 == 499 => {
                return None;
            }
            _ => {}
        }
        Some(())
    }

    /// Changes an answer on its way to a gateway; none if it is lost.
    pub fn response(self, mut response: Response) -> Option<Response> {
        match (self, &mut response.answer) {
            (Self::MixedSnapshot, Answer::Snapshot { since, until, .. }) => {
                *since = adt::Timestamp::ZERO;
                *until = adt::Timestamp(u64::MAX);
            }
            (Self::TornCut, Answer::Reply(reply)) if is_no_cut(reply) => *reply = Reply::Ok,
            (Self::RepeatedToken, Answer::Replies(replies)) => {
                for reply in replies {
                    if let Reply::Int(token @ TOKENS..) = reply {
                        *token -= *token % (1 << 12);
                    }
                }
            }
            (Self::ForgottenRest, Answer::Locked { rests_at, .. }) => *rests_at = None,
            (Self::WrongFate, Answer::Fate(fate)) => *fate = Fate::Void,
            (Self::LostWound, Answer::Notice(Notice::Wound { .. })) => return None,
            (Self::LostChange, Answer::Notice(Notice::Changed { number, keys, .. }))
                if number.is_multiple_of(3) =>
            {
                *keys = Arc::from([Blob::from("another key")]);
            }
            (Self::ForgottenMulti, Answer::Notice(Notice::Undecided { .. })) => return None,
            _ => {}
        }
        if response.token == Token(u64::MAX) {
            return None;
        }
        Some(response)
    }
}

/// Tokens of locks are larger than this, and other numbers of a run are not.
const TOKENS: i64 = 1 << 24;

/// Shortens the lease of a server that keeps a lock: clients send no lease when they renew theirs.
fn shorten(op: &mut Op) {
    match op {
        Op::Lock(adt::kinds::lock::Op::Acquire(grant)) if grant.owner.starts_with(b"near ") => {
            grant.lease_ms = (grant.lease_ms / 64).max(1);
        }
        Op::Lock(adt::kinds::lock::Op::Renew(_, Some(lease_ms))) => {
            *lease_ms = (*lease_ms / 64).max(1)
        }
        _ => {}
    }
}

/// Acknowledges the entries that were offered.
fn acknowledge(message: &mut Message) {
    if message.reject {
        message.reject = false;
        message.reject_hint = 0;
    }
}

/// Removes the promise from a leader's question, and answers as if the question had asked for it.
fn ask_for_nothing(message: &mut Message) {
    let context = &message.context;
    message.context = match (message.get_msg_type(), context.len()) {
        (MessageType::MsgHeartbeat, 16) => [&context[..8], &[0; 8], &context[8..]].concat().into(),
        (MessageType::MsgHeartbeatResponse, 24) => [&context[..8], &context[16..]].concat().into(),
        _ => return,
    };
}

/// Whether a shard reports that it has not stood still.
fn is_no_cut(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.code() == "NOCUT")
}

/// Lets a call of the clients' composed type go by a definition that nobody has stored, in which elements are
/// added at the other end.
fn by_early_definition((key, op): &mut KeyedOp) {
    let mut words = ArgBuf::new();
    op.encode(key, &mut words);
    let args = words.args();
    if args.get(0) != Some(b"type.call") {
        return;
    }
    let text = CELL[2].replacen("type cell", "type cell 9", 1).replace("rpush", "lpush");
    let changed = (0..).zip(args.iter_from(0));
    let changed = changed.map(|(at, word)| if at == 2 { text.as_bytes() } else { word });
    if let Ok((_, early)) = adt::record::decode(&ArgBuf::of(changed).args()) {
        *op = early;
    }
}
