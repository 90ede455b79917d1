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
//! A gateway is made of *parts* (`sessions`, `transactions`, `turns`, `backups` ...): each owns its state,
//! and its methods take inputs and return effects. All of them work with `Core`. Methods of `Parts` pass
//! effects of one part to others: they carry out programs and take the answers of shards. Methods of
//! [`Gateway`] stand above: they take inputs and carry out commands.

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
pub mod operators;
mod parts;
mod peers;
pub(crate) mod pipelines;
pub(crate) mod routing;
mod scripts;
mod slab;
mod target;
mod timer;
pub(crate) mod tracking;
mod txn;
mod types;
pub(crate) mod waiting;

pub use admin::info;
pub use admin::overview::{MachineSeen, Overview, ShardSeen};
pub use api::{
    Admin, Broadcast, ClientFilter, ClusterConfig, CommandCount, Config, CoordinationClient, Facts,
    GatewayStats, Knowledge, NearWord, Opening, Order, Output, Patience, PeerMessage, Published,
    Question, Said, ServerReply, SessionId, SessionStatus, UserConfig,
};
pub use clients::connection::{client_list, hello};
pub use clients::foreign::HTTP_METHODS;
pub use clients::{pubsub, session_commands};
pub use cluster::ClusterChange;
pub use command_docs::find::is_heavy;
pub use coordination::{CoordinationInputs, CoordinationStatus};

use crate::now::Now;
use crate::script::Interpreter;
use crate::script::counts::ScriptCount;
use acl::Users;
use adt::Timestamp;
use operators::latency::CommandDurations;
use parts::Parts;
use timer::Timer;

/// Gateway. The server feeds it and carries out the outputs of [`Gateway::poll`].
pub struct Gateway {
    parts: Parts,
    users: Users,
    pubsub: clients::pubsub::PubSub,
}

impl Gateway {
    /// Creates a gateway without sessions. [`Users::from_config`] must accept the users: otherwise no
    /// client can log in.
    pub fn new(config: Config, now: Now) -> Self {
        let users = Users::from_config(&config.users).unwrap_or_default();
        Self { parts: Parts::new(config, now), users, pubsub: clients::pubsub::PubSub::default() }
    }

    /// Gives the gateway an interpreter of scripts. Without one, they are switched off.
    pub fn set_interpreter(&mut self, interpreter: &'static dyn Interpreter) {
        self.parts.core.scripts.set_interpreter(interpreter);
    }

    /// Opens a session for a client that has connected.
    pub fn open(&mut self, now: Now, opening: Opening) -> SessionId {
        self.parts.core.now = now;
        self.parts.sessions.open(&mut self.parts.core, opening, &self.users)
    }

    /// Closes the session of a connection that is gone: its transaction is aborted, its waits and
    /// subscriptions end.
    pub fn close(&mut self, now: Now, id: SessionId) {
        self.parts.core.now = now;
        if self.parts.sessions.get(id.0).is_none() {
            return;
        }
        // Commands that the client has sent before it left are carried out.
        self.parts.dispatch_all();
        self.parts.transactions.leave(&mut self.parts.core, &mut self.parts.sessions, id);
        self.parts.end_later(id);
        if let Some(by) = self.parts.sessions.get(id.0).and_then(|session| session.blocked) {
            self.parts.stop_waiting(by);
        }
        self.pubsub.close(id);
        self.parts.core.stop_monitoring(id);
        let Parts { core, sessions, tracking, .. } = &mut self.parts;
        tracking.end(core, sessions, id);
        tracking.heard(core, self.pubsub.hears_keys());
        self.parts.sessions.close(&mut self.parts.core, id);
        self.parts.core.mail.stats.subscribers = self.pubsub.subscribers() as u64;
        self.settle();
    }

    /// Changes a setting.
    pub fn configure(&mut self, name: &str, value: &str) {
        self.parts.core.slow.configure(name, value);
        self.parts.core.denials.configure(name, value);
        self.parts.tracking.configure(&mut self.parts.core, name, value);
        self.parts.core.config.settings.insert(name.to_owned(), value.to_owned());
    }

    /// Sets the facts about the server.
    pub fn set_facts(&mut self, facts: Facts) {
        self.parts.core.facts = facts;
    }

    /// Sets the counters to zero.
    pub fn reset_stats(&mut self) {
        let now = std::mem::take(&mut self.parts.core.mail.stats);
        self.parts.core.mail.stats = GatewayStats {
            sessions: now.sessions,
            blocked: now.blocked,
            subscribers: now.subscribers,
            interactive: now.interactive,
            tracking: now.tracking,
            tracked_keys: now.tracked_keys,
            tracked_prefixes: now.tracked_prefixes,
            ..Default::default()
        };
        self.parts.core.slow.durations = CommandDurations::default();
    }

    /// Next output.
    #[inline]
    pub fn poll(&mut self) -> Option<Output> {
        // What is dispatched may end without output, and let more go ahead.
        while self.parts.core.mail.outputs.is_empty()
            && (self.parts.sessions.are_dispatching() || self.parts.coordination.have_requests())
        {
            self.parts.dispatch_all();
            self.parts.coordination.send_requests(&mut self.parts.core);
            self.settle();
        }
        if self.parts.core.mail.outputs.is_empty() && self.parts.core.monitors.have_lines() {
            self.parts.core.send_lines();
        }
        self.parts.core.mail.outputs.pop_front()
    }

    /// Fires the timers that are due.
    pub fn tick(&mut self, now: Now) {
        self.parts.core.now = now;
        while self.parts.core.timers.first().is_some_and(|(at_us, _)| *at_us <= now.mono_us) {
            let Some((_, timer)) = self.parts.core.timers.pop_first() else { break };
            match timer {
                Timer::Again { job } => {
                    self.parts.transactions.try_again(&mut self.parts.core, job)
                }
                Timer::Script { job } => {
                    self.parts.transactions.script_goes_on(&mut self.parts.core, job);
                }
                Timer::Deadline { job } => {
                    let effect = self.parts.blocked.timed_out(&mut self.parts.core, job);
                    self.parts.wait_goes_on(effect);
                }
                Timer::Look { job } => {
                    let effect = self.parts.blocked.looks(&mut self.parts.core, job);
                    self.parts.wait_goes_on(effect);
                }
                Timer::Deadlock { job } => self.parts.turns.search(&mut self.parts.core, job),
                Timer::Visit { visit } => {
                    self.parts.near_locks.overdue(&mut self.parts.core, visit)
                }
                Timer::Near { job } => self.parts.near_locks.due(&mut self.parts.core, job),
                Timer::Users => self.users.look_again(&mut self.parts),
                Timer::Types => self.parts.read_types(),
                Timer::Pause => self.parts.pause_due(),
                Timer::Follow => {
                    let Parts { core, sessions, tracking, .. } = &mut self.parts;
                    tracking.follow(core, sessions);
                }
                Timer::Cut { job } => self.parts.backups.overdue(&mut self.parts.core, job),
                Timer::Dispatch { session } => {
                    if let Some(session) = self.parts.sessions.get_mut(session) {
                        session.pipeline.has_rested();
                    }
                    self.parts.sessions.dispatch_soon(SessionId(session));
                }
                Timer::Joint { job } => {
                    self.parts.coordination.multi_due(&mut self.parts.core, job)
                }
            }
        }
        self.parts.give_up_unled();
        self.settle();
    }

    /// The latest timestamp at which a transaction over several shards was committed here. The clock of the
    /// process must be later before anything that the gateway has put out leaves the worker.
    pub fn decided(&self) -> Timestamp {
        self.parts.core.decided
    }

    /// Time at which [`Gateway::tick`] is to be called, on the monotonic clock in microseconds.
    pub fn next_timeout(&self) -> Option<u64> {
        let timer = self.parts.core.timers.first().map(|(at_us, _)| *at_us);
        let unled = self.parts.core.mail.unled_due_us();
        timer.into_iter().chain(self.parts.transactions.next_timeout()).chain(unled).min()
    }

    /// State of a session.
    pub fn session(&self, id: SessionId) -> SessionStatus {
        let session = self.parts.sessions.get(id.0);
        SessionStatus {
            in_progress: self.parts.sessions.in_progress(id),
            replies_soon: session.is_some_and(|session| session.replies_soon()),
            waits: session.is_some_and(|session| session.blocked.is_some()),
            is_authenticated: session.is_some_and(|session| session.user.is_some()),
        }
    }

    /// Counters of the gateway.
    pub fn stats(&self) -> &GatewayStats {
        &self.parts.core.mail.stats
    }

    /// Counts of the scripts that were run at this gateway.
    pub fn script_counts(&self) -> impl Iterator<Item = &ScriptCount> {
        self.parts.core.scripts.counts()
    }
}

#[cfg(test)]
mod tests;
