//! Gateways: they own the sessions of clients, turn commands into requests to shards, coordinate
//! transactions and put the replies back into the order of the commands.
//!
//! A command takes this route: [`Gateway::command`] finds it in the table and checks the rights of the
//! session (`clients/dispatch.rs`); a program of operations takes a course (`routing/course.rs`), mostly
//! as one request to one shard. A command that needs more than one message is a *job*: a transaction
//! (`txn`), a snapshot over several shards (`snapshot`), a blocking command (`blocking`), an operation
//! that waits for its turn (`turns`), a question to all shards or gateways (`gather`). While a job runs,
//! its session's further commands are held, so that a pipeline is carried out in order. Answers of shards
//! come to `routing/response.rs`, which hands them to the part that has sent the request; replies find
//! their places in `clients/sessions.rs`.
//!
//! A gateway is made of *parts* (`sessions`, `transactions`, `turns`, `backups` ...): each owns its
//! state, and its methods take inputs and give effects. All of them work with [`Core`]. Methods of
//! [`Gateway`] wire the parts.

pub mod acl;
pub(crate) mod admin;
mod api;
pub(crate) mod clients;
mod cluster;
pub mod command_docs;
pub mod coordination;
mod core;
mod errors;
mod mail;
mod peers;
pub(crate) mod pipelines;
pub(crate) mod routing;
mod slab;
mod target;
mod timer;
mod txn;
pub(crate) mod waiting;

pub use admin::info;
pub use admin::overview::{MachineSeen, Overview, ShardSeen};
pub use api::{
    Admin, ClientFilter, ClusterConfig, CommandCount, Config, CoordinationClient, Facts,
    GatewayStats, Knowledge, NearWord, Opening, Order, Output, Patience, PeerMessage, Question,
    Said, ServerReply, SessionId, SessionStatus, UserConfig,
};
pub use clients::connection::{client_list, hello};
pub use clients::dispatch::is_heavy;
pub use clients::foreign::HTTP_METHODS;
pub use clients::{pubsub, session_commands};
pub use cluster::ClusterChange;
pub use coordination::{CoordinationInputs, CoordinationStatus};

use self::core::Core;
use crate::now::Now;
use crate::slot::Routes;
use acl::Users;
use adt::Timestamp;
use clients::sessions::Sessions;
use mail::Mail;
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use timer::Timer;

/// Gateway. The server feeds it and carries out the outputs of [`Gateway::poll`].
pub struct Gateway {
    core: Core,
    users: Users,
    sessions: Sessions,
    backups: admin::backup::Backups,
    gathers: admin::gather::Gathers,
    snapshots: routing::snapshot::Snapshots,
    transactions: txn::table::Transactions,
    lockless: txn::lockless::LocklessTransactions,
    pubsub: clients::pubsub::PubSub,
    orphans: txn::recover::Orphans,
    coordination: coordination::CoordinationFront,
    near_locks: waiting::near::NearLocks,
    turns: waiting::turns::Turns,
    blocked: waiting::blocking::BlockedCommands,
}

impl Gateway {
    /// Creates a gateway without sessions. [`Users::from_config`] must accept the users: otherwise no
    /// client can log in.
    pub fn new(config: Config, now: Now) -> Self {
        let mut routes = Routes::even(config.shards);
        if let Some(map) = config.members.as_ref().and_then(|members| members.map.as_ref()) {
            routes.follow(map);
        }
        let mail = Mail {
            gateway: config.id,
            routes,
            outputs: VecDeque::new(),
            pending: Slab::default(),
            leaders: config
                .members
                .is_some()
                .then(|| routing::leaders::Leaders::new(config.leader_wait_us, now)),
            stats: GatewayStats::default(),
        };
        let users = Users::from_config(&config.users).unwrap_or_default();
        let core = Core {
            replies: VecDeque::new(),
            partial: VecDeque::new(),
            facts: Facts::default(),
            now,
            clock: Timestamp::ZERO,
            seed: config.seed ^ u64::from(config.id.worker),
            mail,
            timers: BTreeSet::new(),
            topology: admin::topology::Topology::new(config.members.as_ref(), config.id.machine),
            config,
        };
        Self {
            core,
            users,
            sessions: Sessions::default(),
            backups: admin::backup::Backups::default(),
            gathers: admin::gather::Gathers::default(),
            snapshots: routing::snapshot::Snapshots::default(),
            transactions: txn::table::Transactions::default(),
            lockless: txn::lockless::LocklessTransactions::default(),
            pubsub: clients::pubsub::PubSub::default(),
            orphans: txn::recover::Orphans::default(),
            coordination: coordination::CoordinationFront::default(),
            near_locks: waiting::near::NearLocks::default(),
            turns: waiting::turns::Turns::default(),
            blocked: waiting::blocking::BlockedCommands::default(),
        }
    }

    /// Opens a session for a client that has connected.
    pub fn open(&mut self, now: Now, opening: Opening) -> SessionId {
        self.core.now = now;
        self.sessions.open(&mut self.core, opening, &self.users)
    }

    /// Closes the session of a connection that is gone: its transaction is aborted, its waits and
    /// subscriptions end.
    pub fn close(&mut self, now: Now, id: SessionId) {
        self.core.now = now;
        if self.sessions.get(id.0).is_none() {
            return;
        }
        // Commands that the client has sent before it left are carried out.
        self.dispatch_all();
        self.end_interactive(id);
        self.end_later(id);
        if let Some(by) = self.sessions.get(id.0).and_then(|session| session.blocked) {
            self.stop_waiting(by);
        }
        self.pubsub.close(id);
        self.sessions.close(&mut self.core, id);
        self.core.mail.stats.subscribers = self.pubsub.subscribers() as u64;
        self.settle();
    }

    /// Changes a setting.
    pub fn configure(&mut self, name: &str, value: &str) {
        self.core.config.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Sets the facts about the server.
    pub fn set_facts(&mut self, facts: Facts) {
        self.core.facts = facts;
    }

    /// Sets the counters to zero.
    pub fn reset_stats(&mut self) {
        let GatewayStats { sessions, blocked, subscribers, interactive, .. } = self.core.mail.stats;
        let kept =
            GatewayStats { sessions, blocked, subscribers, interactive, ..Default::default() };
        self.core.mail.stats = kept;
    }

    /// Next output.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        let waits = self.sessions.are_dispatching() || self.coordination.have_requests();
        if self.core.mail.outputs.is_empty() && waits {
            self.dispatch_all();
            self.coordination.send_requests(&mut self.core);
            self.settle();
        }
        self.core.mail.outputs.pop_front()
    }

    /// Fires the timers that are due.
    pub fn tick(&mut self, now: Now) {
        self.core.now = now;
        while self.core.timers.first().is_some_and(|(at_us, _)| *at_us <= now.mono_us) {
            let Some((_, timer)) = self.core.timers.pop_first() else { break };
            match timer {
                Timer::Again { job } => self.transactions.try_again(&mut self.core, job),
                Timer::Deadline { job } => {
                    let effect = self.blocked.timed_out(&mut self.core, job);
                    self.blocked_goes_on(effect);
                }
                Timer::Deadlock { job } => self.turns.search(&mut self.core, job),
                Timer::Visit { visit } => self.near_locks.overdue(&mut self.core, visit),
                Timer::Near { job } => self.near_locks.due(&mut self.core, job),
                Timer::Cut { job } => self.backups.overdue(&mut self.core, job),
                Timer::Dispatch { session } => {
                    if let Some(session) = self.sessions.get_mut(session) {
                        session.pipeline.has_rested();
                    }
                    self.sessions.dispatch_soon(SessionId(session));
                }
                Timer::Joint { job } => self.coordination.multi_due(&mut self.core, job),
            }
        }
        self.give_up_unled();
        self.settle();
    }

    /// Time at which [`Gateway::tick`] is to be called, on the monotonic clock in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let timer = self.core.timers.first().map(|(at_us, _)| *at_us);
        let unled = self.core.mail.unled_due_us();
        timer.into_iter().chain(self.transactions.next_timeout()).chain(unled).min()
    }

    /// State of a session.
    pub fn session(&self, id: SessionId) -> SessionStatus {
        let session = self.sessions.get(id.0);
        SessionStatus {
            in_progress: self.sessions.in_progress(id),
            is_authenticated: session.is_some_and(|session| session.user.is_some()),
        }
    }

    /// Counters of the gateway.
    pub fn stats(&self) -> &GatewayStats {
        &self.core.mail.stats
    }
}

#[cfg(test)]
mod tests;
