//! Inputs and outputs of a gateway, besides the messages of shards.

use super::acl::UserChange;
use super::operators::questions::{LocalKnowledge, LocalQuestion};
use crate::cluster::map::ShardMap;
use crate::coordination::{self, Code, Password, WatchedEvent, Zxid};
use crate::ids::{GatewayId, MachineId, RequestId, ShardId};
use crate::limits::{IDLE_HOLDER_US_MAX, LASTING_HOLDER_US_MAX};
pub use crate::message::Published;
use crate::message::{Concurrency, Request};
use crate::script::LogLevel;
use adt::command::tags::TagRules;
use adt::{Blob, Op, Reply};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// Number of a connection, for gateway and server. A gateway never uses a number twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Number of a connection of a client of the coordination service, for gateway and server. A gateway
/// never uses a number twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinationClient(pub u64);

/// State of a session that the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Number of requests without an answer; a number above all limits if the commands that the session has
    /// sent ahead take too much memory.
    pub in_progress: usize,
    /// Whether replies that were not sent at once may still wait for the next one ([`Output::Reply`]).
    pub replies_soon: bool,
    /// Whether a command of the session waits for its turn or for something to take.
    pub waits: bool,
    /// Whether the session may send commands; until then its frames must be short.
    pub is_authenticated: bool,
}

/// Reply of the server to an output that asks for one.
#[derive(Clone, Debug)]
pub enum ServerReply {
    /// Verdict on the password of an [`Output::Verify`].
    Verified(bool),
    /// Outcome of an [`Output::Admin`].
    Admin(Reply),
}

/// Message to a client of the coordination service.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The client has a session.
    Connected {
        /// The session.
        session: coordination::TreeSessionId,
        /// Session time-out.
        timeout_ms: i32,
        /// Password of the session.
        password: Password,
    },
    /// The session that the client resumes has ended, or belongs to another client. [`Said::Close`] follows.
    Expired,
    /// The answer to the oldest request that has none.
    Answered {
        /// Outcome of the request.
        reply: Result<coordination::Reply, Code>,
        /// The latest change up to which the client has been notified of all events that it watches. A client
        /// that connects again asks for the events after it.
        zxid: Zxid,
        /// Number of the change, or of the last one at the shard that has answered. Equal to `zxid`
        /// unless the tree is spread.
        at: Zxid,
    },
    /// An event that the client watches has happened.
    Happened {
        /// The event.
        event: WatchedEvent,
        /// As in an answer.
        zxid: Zxid,
        /// Number of the change. Equal to `zxid` unless the tree is spread.
        at: Zxid,
    },
    /// Close the connection once everything before is sent. [`super::CoordinationInputs::left`] follows.
    Close,
}

/// Configuration of a gateway.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this gateway.
    pub id: GatewayId,
    /// Number of gateways of the server.
    pub gateways: u16,
    /// Number of shards of the server.
    pub shards: u16,
    /// Machines of the cluster, if there are others. They may lead shards: no request is sent to a shard
    /// before its leader is known ([`super::ClusterChange::Led`]).
    pub members: Option<ClusterConfig>,
    /// Longest time for which a request waits for a leader of its shard, in microseconds.
    pub leader_wait_us: u64,
    /// Whether the connection of a client is closed whose request met the loss of a leader, instead of the
    /// answer `INDEFINITE` or `CLUSTERDOWN`.
    pub close_on_lost_leader: bool,
    /// Parts of the concurrency control that are on.
    pub concurrency: Concurrency,
    /// Order of pipelines across shards.
    pub order: Order,
    /// Whether [`Output::Bundle`] keeps the order of pipelines, as long as it can: all shards are led by this
    /// process for ever, and the order is [`Order::Constant`].
    pub bundles: bool,
    /// Longest times for which interactive transactions may keep others waiting.
    pub patience: Patience,
    /// Version of the product, for `INFO` and `HELLO`.
    pub version: &'static str,
    /// Users. A server without authentication has one user, which is called `default` and has no password.
    pub users: Vec<UserConfig>,
    /// Whether a connection must authenticate before anything else.
    pub require_auth: bool,
    /// Bounds of the session time-outs of the coordination service, in milliseconds.
    pub session_timeout_ms: RangeInclusive<i32>,
    /// Number of shards over which the tree of the coordination service is spread if it was never used.
    pub tree_shards: u16,
    /// Placement rules of the store; none as long as this machine does not know the shard map, which names
    /// them.
    pub tags: Option<TagRules>,
    /// Settings for `CONFIG GET`, by name.
    pub settings: BTreeMap<String, String>,
    /// Seed of choices that a client may not foresee (the key that `RANDOMKEY` returns).
    pub seed: u64,
}

/// Machines of a cluster, as far as they are known when a gateway begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Name of the cluster.
    pub name: String,
    /// All machines, this one included.
    pub machines: Vec<MachineId>,
    /// The shard map, if it is known.
    pub map: Option<ShardMap>,
}

/// Longest times for which an interactive transaction may keep others waiting, in microseconds; zero for no
/// limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Since the last command of its client.
    pub idle_us: u64,
    /// Since its begin.
    pub lasts_us: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { idle_us: IDLE_HOLDER_US_MAX, lasts_us: LASTING_HOLDER_US_MAX }
    }
}

/// Order of commands on several shards that a session sends without waiting for replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// No order across shards.
    None,
    /// Each command is sent when the command before it is answered.
    Single,
    /// `chain` (`docs/internals/order/chain.md`): the published protocol, to compare with.
    Chain,
    /// `constant` (`docs/internals/order/streams.md`).
    #[default]
    Constant,
}

impl Order {
    /// Names that [`Order::named`] knows.
    pub const NAMES: [&'static str; 4] = ["none", "single", "chain", "constant"];

    /// Order with a name.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "none" => Self::None,
            "single" => Self::Single,
            "chain" => Self::Chain,
            "constant" => Self::Constant,
            _ => return None,
        })
    }

    /// Whether commands of one session keep their order across shards.
    pub fn is_kept(self) -> bool {
        self != Self::None
    }

    /// Whether a command is sent only when all commands before it are answered.
    pub(super) fn waits_for_answers(self) -> bool {
        self == Self::Single
    }

    /// Whether the order of a stream is handed from shard to shard. All units of such a stream are sent
    /// together: a new leader asks the shards of all later units.
    pub(super) fn is_handed_on(self) -> bool {
        self == Self::Chain
    }

    /// Whether requests of the coordination service are sent ahead to several shards.
    pub(super) fn sends_requests_ahead(self) -> bool {
        self == Self::Constant
    }
}

/// Configuration of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// Name.
    pub name: String,
    /// Rules in the syntax of Redis' `ACL SETUSER`: `on`, `nopass`, `~*`, `&*`, `+@all`, `-flushall`.
    pub rules: Vec<String>,
    /// Verifier of a password (a salted hash with its parameters), or none if no password fits. The
    /// gateway does not read it and returns it in [`Output::Verify`].
    pub verifier: Option<String>,
}

/// Properties of a connection that are known when it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Address of the client.
    pub peer: String,
    /// Address that the client connected to.
    pub local_address: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// Output of a gateway. The server carries outputs out in the order in which it polls them.
#[derive(Debug)]
pub enum Output {
    /// Send a reply (or an out-of-band message) to a client.
    Reply {
        /// Receiver.
        session: SessionId,
        /// The reply.
        reply: Reply,
        /// RESP version, 2 or 3.
        protocol: u8,
        /// Whether the next reply comes soon, or this one only acknowledges a command of a transaction:
        /// if the client has sent more commands already, it may be sent with the next reply.
        lingers: bool,
    },
    /// Send a message to a client of the coordination service.
    Coordination {
        /// Receiver.
        client: CoordinationClient,
        /// The message.
        said: Said,
    },
    /// Close the connection once everything before is sent. [`super::Gateway::close`] follows.
    Close {
        /// Session of the connection.
        session: SessionId,
    },
    /// Report to the operator that a client speaks another protocol, as a browser does that was tricked
    /// into it. [`Output::Close`] follows.
    Foreign {
        /// Session of the client.
        session: SessionId,
    },
    /// Write a line of a script to the operator's log.
    ScriptLog {
        /// Importance of the line.
        level: LogLevel,
        /// The line.
        text: Blob,
    },
    /// Send a request to a shard.
    Shard {
        /// Receiver.
        shard: ShardId,
        /// The request.
        request: Request,
    },
    /// Send requests to several shards of this process at one moment ([`crate::pipeline::bundles`]), or
    /// give all of them back with [`super::Gateway::not_bundled`].
    Bundle {
        /// Whether it must become durable as a whole.
        writes: bool,
        /// The requests.
        requests: Vec<(ShardId, Request)>,
    },
    /// Send a message to another gateway of this server.
    Peer {
        /// Receiver.
        to: GatewayId,
        /// The message.
        message: PeerMessage,
    },
    /// Let the gateways of all other machines carry something out.
    Broadcast(Broadcast),
    /// Send a message about a lock that one of two gateways of this server keeps for clients. The
    /// receiver takes it by [`super::Gateway::near_told`]. Messages to one gateway arrive in their order.
    Near {
        /// Receiver.
        to: GatewayId,
        /// The message.
        word: NearWord,
    },
    /// Check a password away from the event loop. [`ServerReply::Verified`] follows.
    Verify {
        /// Session that gave the password.
        session: SessionId,
        /// Name of the user.
        user: String,
        /// Password that the client gave.
        password: Blob,
        /// Verifier of the password. Empty for a user that does not exist or has no password: the verdict is
        /// negative and takes the usual time.
        verifier: String,
    },
    /// Act on the server as a whole. [`ServerReply::Admin`] follows.
    Admin {
        /// Session that asked for it.
        session: SessionId,
        /// The action.
        action: Admin,
    },
}

/// Action of the server as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    /// `SHUTDOWN`: end the process. There is no reply unless it fails.
    Shutdown {
        /// Write a snapshot of every shard first.
        save: bool,
    },
    /// `SAVE`: write a snapshot of every shard and answer when that is done.
    Save,
    /// `BGSAVE`: begin to write a snapshot of every shard.
    BackgroundSave,
    /// `CONFIG SET`: change settings, all or none. The server passes them to every gateway by
    /// [`super::Gateway::configure`].
    ConfigSet(Vec<(String, String)>),
    /// `ACL GENPASS`: answer with random hexadecimal digits.
    Password {
        /// Number of random bits.
        bits: u16,
    },
    /// `CONFIG RESETSTAT`: set the counters to zero.
    ResetStats,
    /// `FAILOVER`: hand over the lead of all shards and stand back, or end that.
    StandBack(bool),
}

/// Message between gateways of one server.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// Question; exactly one [`PeerMessage::Tell`] answers it.
    Ask {
        /// Number of the question at the sender.
        ask: u64,
        /// The question.
        question: Question,
    },
    /// Answers a question.
    Tell {
        /// Number of the question.
        ask: u64,
        /// The answer.
        knowledge: Knowledge,
    },
}

/// Question of one gateway to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Carry this out. Answer: [`Knowledge::Count`].
    Broadcast(Broadcast),
    /// Lines of `CLIENT LIST`. Answer: [`Knowledge::Lines`].
    ClientList(ClientFilter),
    /// Close the connections that match. Answer: [`Knowledge::Count`].
    ClientKill(ClientFilter),
    /// End the wait of a blocked connection. Answer: [`Knowledge::Count`].
    Unblock {
        /// Number of the client.
        client: u64,
        /// Whether the blocked command is answered with an error instead of a time-out.
        error: bool,
    },
    /// Channels with subscribers. Answer: [`Knowledge::Names`].
    Channels {
        /// Whether sharded channels are meant.
        sharded: bool,
        /// Glob.
        pattern: Option<Blob>,
    },
    /// Numbers of subscribers of channels. Answer: [`Knowledge::Counts`].
    Subscribers {
        /// Whether sharded channels are meant.
        sharded: bool,
        /// The channels.
        channels: Vec<Blob>,
    },
    /// Patterns with subscribers. Answer: [`Knowledge::Names`].
    Patterns,
    /// Counters of the gateway. Answer: [`Knowledge::Stats`].
    Stats,
    /// Question about what is known on one machine only.
    Local(LocalQuestion),
    /// Transactions by the names under which shards know them. Answer: [`Knowledge::Lines`].
    Transactions,
}

/// Message between gateways of one server about locks that one of them keeps for the clients of all
/// (`LOCK.ACQUIRE key NEAR`). It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum NearWord {
    /// A client asks for a stay. [`NearWord::Told`] follows, unless the client leaves before.
    Visit {
        /// Number of the request at the sender.
        errand: u64,
        /// The lock.
        key: Blob,
        /// Lease of the stay, in microseconds.
        lease_us: u64,
        /// Request number of the client.
        request: Option<RequestId>,
    },
    /// The client does not wait any longer. If it was let in, it has not been informed of that.
    Leave {
        /// Number of the request at the sender.
        errand: u64,
        /// The lock.
        key: Blob,
    },
    /// A client sends an operation on a lock. [`NearWord::Told`] follows.
    About {
        /// Number of the request at the sender.
        errand: u64,
        /// The lock.
        key: Blob,
        /// The operation: a release, a renewal or a question.
        op: Op,
        /// Request number of the client.
        request: Option<RequestId>,
    },
    /// Answer to a client.
    Told {
        /// Number of the request at the receiver.
        errand: u64,
        /// The reply; none if the operation is about no stay, and the shard answers it.
        reply: Option<Reply>,
    },
    /// The sender is about to keep a lock. [`NearWord::Heard`] follows: no client is let in before all
    /// gateways know.
    Keeps {
        /// The lock.
        key: Blob,
        /// Number of the lock at the sender.
        lock: u64,
    },
    /// [`NearWord::Keeps`] has arrived.
    Heard {
        /// Number of the lock at the receiver.
        lock: u64,
    },
    /// The sender does not keep the lock any more.
    Ends {
        /// The lock.
        key: Blob,
    },
}

/// Task for all gateways of a cluster. The gateways of other machines do not answer, and a machine that is
/// not connected misses it.
#[derive(Clone, Debug, PartialEq)]
pub enum Broadcast {
    /// Deliver a message to the subscribers of a channel.
    Publish(Published),
    /// Forget the texts of scripts that were read.
    ForgetScripts,
    /// Read the definitions of types again, which have changed.
    ForgetTypes,
    /// Give sessions the new rights of users that have changed.
    Users(UserChange),
    /// Look at the users of all sessions, which may have changed.
    LookAtUsers,
}

/// Answer of one gateway to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// Number.
    Count(i64),
    /// Number for each subject of the question.
    Counts(Vec<i64>),
    /// Lines of text, each with the number of its client.
    Lines(Vec<(u64, String)>),
    /// Names.
    Names(Vec<Blob>),
    /// Counters.
    Stats(Box<GatewayStats>),
    /// Answer to such a question.
    Local(Box<LocalKnowledge>),
}

/// Filter of clients: all conditions that are set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFilter {
    /// Numbers of clients.
    pub ids: Vec<u64>,
    /// Address of the client.
    pub address: Option<String>,
    /// Address that the client connected to.
    pub local_address: Option<String>,
    /// Name of the user.
    pub user: Option<String>,
    /// Kind of the client: `normal` or `pubsub`.
    pub kind: Option<String>,
    /// Shortest time since the client connected, in seconds.
    pub age_s_min: Option<u64>,
    /// Number of a client that does not match (the client that asks).
    pub except: Option<u64>,
}

/// Facts about the server, for `INFO` and for the refusal of commands that need memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Process number.
    pub process: u32,
    /// TCP port.
    pub port: u16,
    /// Identifier of this server, 40 hexadecimal digits.
    pub run_id: String,
    /// Address that clients should use, for `CLUSTER SLOTS`.
    pub address: String,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Open connections of all workers.
    pub connections: u64,
    /// Connections accepted since the start.
    pub connections_total: u64,
    /// Connections refused since the start because there were too many.
    pub connections_refused: u64,
    /// Bytes of memory in use.
    pub memory_bytes: u64,
    /// Largest number of bytes that were in use.
    pub memory_peak_bytes: u64,
    /// Bytes of memory that logs take.
    pub memory_log_bytes: u64,
    /// Bytes of memory that logs may take.
    pub memory_log_limit_bytes: u64,
    /// Bytes of memory of data that wait for clients, other machines or the disk.
    pub memory_buffer_bytes: u64,
    /// Bytes of memory that the data may take; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Whether writes that may need memory are refused.
    pub over_memory_limit: bool,
    /// Whether writes are refused because logs grow and snapshots, which would shorten them, fail.
    pub over_log_limit: bool,
    /// Whether the server still loads its data.
    pub loading: bool,
    /// Seconds since 1970 of the last completed snapshot since the start.
    pub last_save_s: u64,
    /// Seconds since 1970 of the start.
    pub started_s: u64,
    /// Whether a snapshot is being written.
    pub saving: bool,
    /// Whether the last snapshot of a shard has failed.
    pub save_failed: bool,
    /// Whether commits wait for the disk.
    pub durable: bool,
    /// Processor time used by the process in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// Processor time used by the process in system mode, in microseconds.
    pub cpu_system_us: u64,
    /// Bytes received from clients.
    pub bytes_in: u64,
    /// Bytes sent to clients.
    pub bytes_out: u64,
    /// More lines for `INFO`: section, name, value.
    pub more: Vec<(&'static str, String, String)>,
}

impl Facts {
    /// Bytes of memory that the data take: all that is no log and does not wait.
    pub fn memory_data_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.memory_log_bytes + self.memory_buffer_bytes)
    }

    /// Seconds since 1970 of the last snapshot, or of the start, when all data were read from the disk.
    pub fn saved_s(&self) -> u64 {
        if self.last_save_s > 0 { self.last_save_s } else { self.started_s }
    }
}

/// Counters of one gateway since it started, and its present sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GatewayStats {
    /// Commands received.
    pub commands: u64,
    /// Commands answered with an error.
    pub errors: u64,
    /// Messages sent to shards.
    pub requests: u64,
    /// Transactions committed (`EXEC`, `TXN COMMIT`, commands on several keys).
    pub committed: u64,
    /// Transactions that ended with `TXNABORT`.
    pub aborted: u64,
    /// Attempts that were repeated unseen by the client.
    pub retried: u64,
    /// Transactions that a guard of `WATCH` stopped.
    pub guard_failures: u64,
    /// Rounds of reading snapshots over several shards.
    pub snapshot_rounds: u64,
    /// Transactions of silent coordinators that were settled.
    pub recoveries: u64,
    /// Locks joined without a message.
    pub combined: u64,
    /// Requests to a transaction to give way.
    pub wounds: u64,
    /// Messages published.
    pub published: u64,
    /// Failed authentications.
    pub auth_failures: u64,
    /// Commands refused by access control.
    pub denied: u64,
    /// Open sessions.
    pub sessions: u64,
    /// Sessions that wait in a blocking command.
    pub blocked: u64,
    /// Sessions with subscriptions.
    pub subscribers: u64,
    /// Interactive transactions in progress.
    pub interactive: u64,
    /// Clients let in to locks that this server keeps (`LOCK.ACQUIRE ... NEAR`). Not sent to other machines.
    pub near_stays: u64,
    /// Connections closed because a request met the loss of a leader. Not sent to other machines.
    pub closed_on_lost_leader: u64,
    /// Sessions that cache what they read. Not sent to other machines.
    pub tracking: u64,
    /// Keys that are remembered for their caches. Not sent to other machines.
    pub tracked_keys: u64,
    /// Prefixes of keys that they track. Not sent to other machines.
    pub tracked_prefixes: u64,
    /// Counters of each command, by its position in the table of all commands. Not sent to other machines.
    pub by_command: Vec<CommandCount>,
}

/// Counters of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCount {
    /// Number of times it was carried out.
    pub calls: u64,
    /// Sum of the microseconds from its begin to its reply, with the wait for the log and without the time
    /// for which it blocked.
    pub us: u64,
    /// Number of times it was refused: too few or too many words, not permitted, no memory.
    pub rejected: u64,
    /// Number of times it was carried out and answered with an error.
    pub failed: u64,
}

crate::stats::numbers!(
    GatewayStats, 18:
    commands, errors, requests, committed, aborted, retried, guard_failures, snapshot_rounds,
    recoveries, combined, wounds, published, auth_failures, denied, sessions, blocked,
    subscribers, interactive,
);

impl GatewayStats {
    /// Adds the counters of another gateway.
    pub fn add(&mut self, other: &Self) {
        for (sum, number) in self.numbers_mut().into_iter().zip(other.numbers()) {
            *sum += number;
        }
        self.near_stays += other.near_stays;
        self.closed_on_lost_leader += other.closed_on_lost_leader;
        self.tracking += other.tracking;
        self.tracked_keys += other.tracked_keys;
        self.tracked_prefixes += other.tracked_prefixes;
        for (position, count) in other.by_command.iter().enumerate() {
            let sum = self.of_command(position);
            sum.calls += count.calls;
            sum.us += count.us;
            sum.rejected += count.rejected;
            sum.failed += count.failed;
        }
    }

    /// Counters of the command at this position in the table.
    #[inline]
    pub fn of_command(&mut self, position: usize) -> &mut CommandCount {
        if position >= self.by_command.len() {
            self.by_command.resize(position + 1, CommandCount::default());
        }
        &mut self.by_command[position]
    }
}
