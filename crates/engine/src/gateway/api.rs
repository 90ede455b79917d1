//! What goes into a gateway and comes out of it, besides what shards say.

use crate::coordination::{self, Code, Password, WatchedEvent, Zxid};
use crate::ids::{GatewayId, MachineId, RequestId, ShardId};
use crate::limits::{IDLE_HOLDER_US_MAX, LASTING_HOLDER_US_MAX};
use crate::map::ShardMap;
use crate::message::{Concurrency, Request};
use adt::{Blob, Op, Reply};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// A connection, as gateway and server call it. Never used twice by one gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// A connection of a client of the coordination service, as gateway and server call it. Never used twice by
/// one gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CoordinationClient(pub u64);

/// State of a session that the server asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionStatus {
    /// Number of requests without an answer; a number above all limits if the commands that the session has
    /// sent ahead take too much memory.
    pub in_progress: usize,
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

/// What a client of the coordination service is told.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// It has a session.
    Connected {
        /// Which.
        session: coordination::TreeSessionId,
        /// How long it may be silent.
        timeout_ms: i32,
        /// What proves that it is its own.
        password: Password,
    },
    /// The session that it comes back to has ended, or is not its own. [`Said::Close`] follows.
    Expired,
    /// The answer to the oldest request that has none.
    Answered {
        /// What came of it.
        reply: Result<coordination::Reply, Code>,
        /// The latest change up to which the client has been told of everything that it watches: from
        /// there on it asks what it has missed, if it comes back.
        zxid: Zxid,
        /// The number of the change, or of the last one at the shard that has answered. The same, unless the
        /// tree is spread.
        at: Zxid,
    },
    /// Something that it watches has happened.
    Happened {
        /// What.
        event: WatchedEvent,
        /// As in an answer.
        zxid: Zxid,
        /// The number of the change. The same, unless the tree is spread.
        at: Zxid,
    },
    /// Close the connection once everything before is sent. [`super::CoordinationInputs::left`] follows.
    Close,
}

/// How a gateway is set up.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this gateway.
    pub id: GatewayId,
    /// How many gateways the server has.
    pub gateways: u16,
    /// How many shards the server has.
    pub shards: u16,
    /// The machines of the cluster, if there are others: they may lead shards, and nothing is sent
    /// to a shard before [`super::Gateway::shard_led`] has said who does.
    pub members: Option<ClusterConfig>,
    /// How long a request waits for its shard to have a leader, in microseconds.
    pub leader_wait_us: u64,
    /// Which parts of the concurrency control are on.
    pub concurrency: Concurrency,
    /// How pipelines keep their order across shards.
    pub order: Order,
    /// How long interactive transactions may keep others waiting.
    pub patience: Patience,
    /// Version of the product, for `INFO` and `HELLO`.
    pub version: &'static str,
    /// Users. A server without authentication has one that is called `default` and has no password.
    pub users: Vec<UserConfig>,
    /// Whether a connection must authenticate before anything else.
    pub require_auth: bool,
    /// For how long sessions of the coordination service may be silent, in milliseconds.
    pub session_timeout_ms: RangeInclusive<i32>,
    /// Over how many shards the tree of the coordination service is to be spread, if it was never used.
    pub tree_shards: u16,
    /// Settings for `CONFIG GET`, by name.
    pub settings: BTreeMap<String, String>,
    /// From which choices are made that a client may not foresee (which key `RANDOMKEY` gives).
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

/// How long an interactive transaction may keep others waiting, in microseconds; nought for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Since its client has sent something.
    pub idle_us: u64,
    /// Since it has begun.
    pub lasts_us: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { idle_us: IDLE_HOLDER_US_MAX, lasts_us: LASTING_HOLDER_US_MAX }
    }
}

/// How commands that a session sends without waiting for replies keep their order, if they go to several
/// shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// They do not.
    None,
    /// Each command is sent when the one before it is answered.
    Single,
    /// `chain` of `docs/internals/order.md`: the published protocol, to compare with.
    Chain,
    /// `constant` of `docs/internals/order.md`.
    #[default]
    Constant,
}

impl Order {
    /// The names that [`Order::named`] knows.
    pub const NAMES: [&'static str; 4] = ["none", "single", "chain", "constant"];

    /// The order with a name.
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

    /// Whether a command is sent when those before it are answered.
    pub(super) fn waits_for_answers(self) -> bool {
        self == Self::Single
    }

    /// Whether the order of a stream is handed from shard to shard. All of such a stream is sent together:
    /// a new leader asks the shards of all later units.
    pub(super) fn is_handed_on(self) -> bool {
        self == Self::Chain
    }

    /// Whether requests of the coordination service are sent ahead to several shards.
    pub(super) fn sends_requests_ahead(self) -> bool {
        self == Self::Constant
    }
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserConfig {
    /// Name.
    pub name: String,
    /// Rules in the words of Redis' `ACL SETUSER`: `on`, `nopass`, `~*`, `&*`, `+@all`, `-flushall`.
    pub rules: Vec<String>,
    /// What a password is checked against (a salted hash with its parameters), or none if no
    /// password fits. Not read by the gateway: it comes back in [`Output::Verify`].
    pub verifier: Option<String>,
}

/// What is known about a connection when it opens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    /// Address of the client.
    pub peer: String,
    /// Address that it connected to.
    pub local_address: String,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// What a gateway wants done. Outputs are carried out in the order in which they are polled.
#[derive(Debug)]
pub enum Output {
    /// Send a reply (or an out-of-band message) to a client.
    Reply {
        /// To whom.
        session: SessionId,
        /// What.
        reply: Reply,
        /// RESP version, 2 or 3.
        protocol: u8,
        /// It says only that a command of a transaction was noted: if the client has sent more
        /// already, it may travel with the next reply.
        lingers: bool,
    },
    /// Say something to a client of the coordination service.
    Coordination {
        /// To whom.
        client: CoordinationClient,
        /// What.
        said: Said,
    },
    /// Close the connection once everything before is sent. [`super::Gateway::close`] follows.
    Close {
        /// Which.
        session: SessionId,
    },
    /// Tell the operator that a client speaks another protocol, as a browser does that was tricked
    /// into it. [`Output::Close`] follows.
    Foreign {
        /// Which.
        session: SessionId,
    },
    /// Send a request to a shard.
    Shard {
        /// To which.
        shard: ShardId,
        /// What.
        request: Request,
    },
    /// Send a message to another gateway of this server.
    Peer {
        /// To which.
        to: GatewayId,
        /// What.
        message: PeerMessage,
    },
    /// Tell another gateway of this server something about a lock that one of the two keeps for clients.
    /// [`super::Gateway::near_told`] is to have it there. Words to one gateway arrive in their order.
    Near {
        /// To which.
        to: GatewayId,
        /// What.
        word: NearWord,
    },
    /// Check a password away from the event loop; [`super::Gateway::verified`] brings the result.
    Verify {
        /// For which session.
        session: SessionId,
        /// User.
        user: String,
        /// Password that the client gave.
        password: Blob,
        /// What to check against. Empty for a user that does not exist or has no password: take
        /// the usual time and say no.
        verifier: String,
    },
    /// Do something to the server as a whole; [`super::Gateway::admin_done`] brings the reply.
    Admin {
        /// For which session.
        session: SessionId,
        /// What.
        action: Admin,
    },
}

/// Something that only the server as a whole can do.
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
    /// `CONFIG SET`: change settings, all or none. Every gateway is told by
    /// [`super::Gateway::configure`].
    ConfigSet(Vec<(String, String)>),
    /// `CONFIG RESETSTAT`: set the counters to zero.
    ResetStats,
    /// `FAILOVER`: hand the lead of all shards over and stand back, or end that.
    StandBack(bool),
}

/// What gateways of one server say to each other.
#[derive(Clone, Debug, PartialEq)]
pub enum PeerMessage {
    /// A question; exactly one [`PeerMessage::Tell`] answers it.
    Ask {
        /// The asking gateway's number for the question.
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

/// What one gateway asks another.
#[derive(Clone, Debug, PartialEq)]
pub enum Question {
    /// Deliver a message to the subscribers of a channel. Answer: [`Knowledge::Count`].
    Publish {
        /// The channel.
        channel: Blob,
        /// The message.
        payload: Blob,
    },
    /// Lines of `CLIENT LIST`. Answer: [`Knowledge::Lines`].
    ClientList(ClientFilter),
    /// Close the connections that match. Answer: [`Knowledge::Count`].
    ClientKill(ClientFilter),
    /// End the wait of a blocked connection. Answer: [`Knowledge::Count`].
    Unblock {
        /// Number of the client.
        client: u64,
        /// Let the blocked command answer an error rather than time out.
        error: bool,
    },
    /// Channels with subscribers. Answer: [`Knowledge::Names`].
    Channels {
        /// Glob.
        pattern: Option<Blob>,
    },
    /// Numbers of subscribers of channels. Answer: [`Knowledge::Counts`].
    Subscribers(Vec<Blob>),
    /// Patterns with subscribers. Answer: [`Knowledge::Names`].
    Patterns,
    /// What the gateway has counted. Answer: [`Knowledge::Stats`].
    Stats,
    /// Transactions by the names under which shards know them. Answer: [`Knowledge::Lines`].
    Transactions,
}

/// What the gateways of one server tell each other about locks that one of them keeps for the clients of all
/// (`LOCK.ACQUIRE key NEAR`). It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum NearWord {
    /// A client wants to be let in. [`NearWord::Told`] follows, unless it leaves before.
    Visit {
        /// The sender's number for it.
        errand: u64,
        /// The lock.
        key: Blob,
        /// For how long at a time, in microseconds.
        lease_us: u64,
        /// Its request number.
        request: Option<RequestId>,
    },
    /// The client does not want it any more. If it was let in, nobody has told it so.
    Leave {
        /// The sender's number for it.
        errand: u64,
        /// The lock.
        key: Blob,
    },
    /// A client says something about a lock. [`NearWord::Told`] follows.
    About {
        /// The sender's number for it.
        errand: u64,
        /// The lock.
        key: Blob,
        /// What: a release, a renewal or a question.
        op: Op,
        /// Its request number.
        request: Option<RequestId>,
    },
    /// The answer for a client.
    Told {
        /// The receiver's number for what it has asked.
        errand: u64,
        /// The reply; none if it is not about a stay, and for the shard to answer.
        reply: Option<Reply>,
    },
    /// The sender is about to keep a lock. [`NearWord::Heard`] follows: nobody is let in before all know.
    Keeps {
        /// The lock.
        key: Blob,
        /// The sender's number for it.
        lock: u64,
    },
    /// [`NearWord::Keeps`] has arrived.
    Heard {
        /// The receiver's number for the lock.
        lock: u64,
    },
    /// The sender does not keep the lock any more.
    Ends {
        /// The lock.
        key: Blob,
    },
}

/// What a gateway answers another.
#[derive(Clone, Debug, PartialEq)]
pub enum Knowledge {
    /// A number.
    Count(i64),
    /// A number for each thing asked about.
    Counts(Vec<i64>),
    /// Lines of text with the number of the client that each is about.
    Lines(Vec<(u64, String)>),
    /// Names.
    Names(Vec<Blob>),
    /// Counters.
    Stats(Box<GatewayStats>),
}

/// Which clients: those that match everything that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFilter {
    /// One of these numbers.
    pub ids: Vec<u64>,
    /// This address.
    pub address: Option<String>,
    /// This address of ours.
    pub local_address: Option<String>,
    /// This user.
    pub user: Option<String>,
    /// `normal` or `pubsub`.
    pub kind: Option<String>,
    /// Connected for at least so many seconds.
    pub age_s_min: Option<u64>,
    /// Not this number (the client that asks).
    pub except: Option<u64>,
}

/// What the server tells its gateways about itself, for `INFO` and for refusing to grow.
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
    /// Most bytes that were in use.
    pub memory_peak_bytes: u64,
    /// Bytes of memory that logs take.
    pub memory_log_bytes: u64,
    /// Bytes of memory that logs may take.
    pub memory_log_limit_bytes: u64,
    /// Bytes of memory in which something waits: for clients, other machines or the disk.
    pub memory_buffer_bytes: u64,
    /// Bytes of memory that the data may take; 0 for no limit.
    pub memory_limit_bytes: u64,
    /// Writes that may need memory are refused.
    pub over_memory_limit: bool,
    /// Writes are refused: logs grow, and no snapshot comes about that would shorten them.
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
    /// Bytes of memory that the data take: everything that is no log and does not wait.
    pub fn memory_data_bytes(&self) -> u64 {
        self.memory_bytes.saturating_sub(self.memory_log_bytes + self.memory_buffer_bytes)
    }

    /// Seconds since 1970 of the last snapshot, or of the start, when everything was read from the disk.
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
    /// Attempts that were repeated without the client seeing it.
    pub retried: u64,
    /// Transactions that a guard of `WATCH` stopped.
    pub guard_failures: u64,
    /// Rounds of reading snapshots over several shards.
    pub snapshot_rounds: u64,
    /// Transactions of silent coordinators that were settled.
    pub recoveries: u64,
    /// Locks joined without a message.
    pub combined: u64,
    /// Hints that a transaction should give way.
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
    /// Sessions that have subscribed to something.
    pub subscribers: u64,
    /// Interactive transactions in progress.
    pub interactive: u64,
    /// Clients let in to locks that this server keeps (`LOCK.ACQUIRE ... NEAR`). Other machines are not
    /// told.
    pub near_stays: u64,
    /// What was counted of each command, by its position in the table of all commands. Other machines are
    /// not told.
    pub by_command: Vec<CommandCount>,
}

/// What a gateway has counted of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommandCount {
    /// How often it was carried out.
    pub calls: u64,
    /// Microseconds from looking at it to its reply, in all, waiting for the log included.
    pub us: u64,
    /// How often it was refused: too few or too many words, not permitted, no memory.
    pub rejected: u64,
    /// How often it was carried out and answered with an error.
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
        for (position, count) in other.by_command.iter().enumerate() {
            let sum = self.of_command(position);
            sum.calls += count.calls;
            sum.us += count.us;
            sum.rejected += count.rejected;
            sum.failed += count.failed;
        }
    }

    /// What is counted of the command at this position in the table.
    #[inline]
    pub fn of_command(&mut self, position: usize) -> &mut CommandCount {
        if position >= self.by_command.len() {
            self.by_command.resize(position + 1, CommandCount::default());
        }
        &mut self.by_command[position]
    }
}
