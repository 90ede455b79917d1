//! Every bound of the product, in one place, with the relations between them checked at compile
//! time. A limit that is reached gives an error that names it; nothing grows without one.

use std::ops::RangeInclusive;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 64 << 10;
/// Longest single argument (a value, a member), in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 8 << 20;
/// Longest command frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Longest argument that is read on over, where it is too long to be taken, in bytes.
pub const SKIPPED_BYTES_MAX: usize = 512 << 20;
/// Most words in one command.
pub const COMMAND_WORDS_MAX: usize = 1 << 20;
/// Longest inline command, in bytes.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a frame before authentication.
pub const UNAUTHENTICATED_FRAME_BYTES_MAX: usize = 1 << 10;
/// How long a connection may stay unauthenticated when authentication is required, in milliseconds.
pub const UNAUTHENTICATED_MS_MAX: u64 = 10_000;
/// How long the log is silent about further clients that speak HTTP, in microseconds.
pub const FOREIGN_WARN_US: u64 = 60_000_000;
/// Most client connections of a server.
pub const CONNECTIONS_MAX: usize = 12_000;
/// Reply bytes that may wait for a client that takes none of them: after [`STALLED_US_MAX`] its
/// connection is closed. Of what it is told without having asked no more may wait at all.
pub const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How long a client may take nothing of more than [`OUTPUT_BYTES_MAX`] that wait for it, in
/// microseconds.
pub const STALLED_US_MAX: u64 = 30_000_000;
/// How long it may take nothing of more than [`OUTPUT_BYTES_PAUSE`] while [`REPLIES_BYTES_MAX`] is
/// reached, in microseconds.
pub const STALLED_US_MAX_IF_FULL: u64 = 5_000_000;
/// Memory that replies to all clients which wait may take, about; beyond it requests whose replies may
/// be large wait.
pub const REPLIES_BYTES_MAX: usize = 256 << 20;
/// Memory that the replies to one request may take, about; what is read beyond it is refused.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// Most requests of one connection, whose replies may be large, that are in progress.
pub const HEAVY_REQUESTS_MAX: u32 = 8;
/// Most connections of one worker that have such requests in progress, once replies were small.
pub const HEAVY_CONNECTIONS_MAX: usize = 64;
/// The same at first.
pub const HEAVY_CONNECTIONS_FIRST: usize = 8;
/// The same after a large reply.
pub const HEAVY_CONNECTIONS_MIN: usize = 2;
/// Longest reply after which more connections may, in bytes.
pub const MIDDLING_REPLY_BYTES_MAX: usize = 1 << 20;
/// Longest reply that lets more such requests go ahead at once, in bytes.
pub const SMALL_REPLY_BYTES_MAX: usize = 16 << 10;
/// Bytes that one connection is sent in one turn, about.
pub const OUTPUT_BYTES_PER_TURN: usize = 1 << 20;
/// Memory that commands of all clients which have not come to their end may take, about; beyond it
/// those that began first are refused.
pub const INPUTS_BYTES_MAX: usize = 256 << 20;
/// How long a command may take to come to its end while [`INPUTS_BYTES_MAX`] is reached, in
/// microseconds.
pub const INPUT_US_MAX_IF_FULL: u64 = 1_000_000;
/// Reply bytes above which a connection's further requests are not read until it catches up.
pub const OUTPUT_BYTES_PAUSE: usize = 1 << 20;
/// Most requests of one connection that may be in progress; further ones are not read until then.
pub const PIPELINE_REQUESTS_MAX: usize = 10_000;
/// Most commands between `MULTI` and `EXEC`, and most buffered writes of an interactive transaction.
pub const TRANSACTION_COMMANDS_MAX: usize = 100_000;
/// Most bytes of commands buffered by one transaction.
pub const TRANSACTION_BYTES_MAX: usize = 12 << 20;
/// Most keys watched by one connection.
pub const WATCHED_KEYS_MAX: usize = 10_000;
/// Most channels and patterns one connection subscribes to.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;
/// Most requests of a shard that wait for locks; beyond it new transactions are told to back off.
pub const LOCK_WAITERS_MAX: usize = 20_000;
/// Waiting requests above which a shard refuses new transactions (not ones that have begun).
pub const LOCK_WAITERS_BUSY: usize = 5_000;
/// Most requests blocked on a shard's keys (`BLPOP` and its family).
pub const BLOCKED_MAX: usize = 50_000;
/// Most requests that are served in one step of a shard with what they wait for; others are told of it.
pub const SERVED_MAX: usize = 1_000;
/// How long a key is kept at most for a request that waits for what it holds and was told of it, in
/// microseconds. It takes as long as a command takes, unless the one that waits is gone.
pub const KEPT_US_MAX: u64 = 250_000;
/// Most gateways of which a shard knows that it has forgotten pipelines that were not over.
pub const OUTLIVED_MAX: usize = 10_000;
/// Most operations of a shard that wait for their turn (`LOCK.ACQUIRE`), or listen (`LOCK.WANTED`).
pub const TURNS_MAX: usize = 100_000;
/// Most reads of a shard that wait for something to show (`ELECTION.OBSERVE`).
pub const OBSERVERS_MAX: usize = 100_000;
/// Most records of an entry that are looked through before a grant of a block of tokens is put behind them;
/// behind more it gets a new entry.
pub const LOOKED_BACK_MAX: usize = 64;
/// Most that is looked at to find out whether somebody who waits for its turn waits in a circle: whoever
/// waits behind more than this waits.
pub const CIRCLE_STEPS_MAX: usize = 10_000;
/// Most owners that a gateway asks the shards about to find a circle over several of them: whoever waits
/// for more than these waits.
pub const CIRCLE_NAMES_MAX: usize = 1_000;
/// How long somebody waits before a circle over several shards is looked for, in microseconds; each time
/// that there is none, twice as long, up to [`CIRCLE_LOOK_US_MAX`].
pub const CIRCLE_LOOK_US: u64 = 100_000;
/// The longest time between two looks for a circle over several shards, in microseconds.
pub const CIRCLE_LOOK_US_MAX: u64 = 10_000_000;
/// Most locks that a gateway keeps for its clients (`NEAR`).
pub const NEAR_LOCKS_MAX: usize = 10_000;
/// How many clients a gateway lets in at most after somebody else wants the lock that it keeps.
pub const NEAR_STAYS_MAX: u32 = 16;
/// For how many stays a gateway asks for a lock at a time, and one that nobody gets.
pub const NEAR_TOKENS: u32 = adt::lock::TOKENS_OF_KEPT;
/// What the lease of a gateway has beyond twice that of its clients, in microseconds.
pub const NEAR_LEASE_MORE_US: u64 = 1_000_000;
/// How soon a gateway that was not told whether others want a lock asks again, in microseconds.
pub const NEAR_LISTEN_AGAIN_US: u64 = 100_000;
/// Most locks of which a shard remembers the largest fencing token that it has seen.
pub const FENCES_MAX: usize = 1 << 16;
/// Most locks whose tokens one command or transaction presents (`FENCE`).
pub const FENCES_PER_REQUEST_MAX: usize = 16;
/// Bytes of commands after which a log entry is closed and the next one begun. The command that
/// goes beyond is still in it.
pub const ENTRY_BYTES_MAX: usize = 4 << 20;
/// Bytes of commands that a worker takes in while its log is being written; it reads nothing more
/// from clients until the disk has caught up.
pub const UNLOGGED_BYTES_MAX: usize = 64 << 20;
/// Fewest bytes of memory that an operator may give to logs: a full entry is made while others are
/// written.
pub const LOG_MEMORY_BYTES_MIN: u64 = 2 * ENTRY_BYTES_MAX as u64;
/// Fewest bytes of memory for logs where the operator has not said how many.
pub const LOG_MEMORY_BYTES_LEAST: u64 = 32 << 20;
/// Most records in one log entry.
pub const ENTRY_RECORDS_MAX: usize = 20_000;
/// Clients whose request numbers a shard remembers; the longest silent ones are forgotten first.
pub const REQUEST_CLIENTS_MAX: usize = 100_000;
/// Outcomes remembered for one client.
pub const REQUESTS_PER_CLIENT_MAX: usize = 64;
/// The replies of a request's commands are kept in case it is repeated, up to so many bytes: they go into
/// the log once more, unless all of them came from one shard.
pub const REMEMBERED_BYTES_MAX: usize = 1 << 20;
/// Bytes of replies of requests that a shard keeps in case these are repeated, about; beyond it the oldest
/// are dropped. A number, or whatever takes no more, does not count.
pub const REMEMBERED_BYTES_IN_ALL_MAX: usize = 64 << 20;
/// How often a gateway asks for the replies of a request that is repeated before they count as lost: they
/// may be on their way.
pub const REPEATS_ASKED_MAX: u32 = 20;
/// How often a request that is under way over another connection is tried again: some seconds, in which
/// also what a lost machine has left behind is settled.
pub const UNDER_WAY_TRIED_MAX: u32 = 60;
/// Longest client name in a request number, in bytes.
pub const REQUEST_CLIENT_BYTES_MAX: usize = 64;
/// Transactions over several shards whose replies a shard keeps, for coordinators that have lost
/// them with a connection.
pub const EXECUTED_REPLIES_MAX: usize = 1_024;
/// Expired keys that a shard removes in one turn at most, so that a turn stays short.
pub const REAP_PER_TURN_MAX: usize = 200;
/// Queues of locks that a shard tells whoever asks for its numbers.
pub const QUEUES_SHOWN: usize = 16;
/// Keys whose contention is counted, per shard.
pub const HOT_KEYS_MAX: usize = 128;
/// Most shards of one server.
pub const SHARDS_MAX: usize = 1_024;
/// Most worker threads of one server.
pub const WORKERS_MAX: usize = 64;
/// How long an interactive transaction may send nothing while others wait for what it holds, in
/// microseconds, unless the operator or the transaction says otherwise.
pub const IDLE_HOLDER_US_MAX: u64 = 5_000_000;
/// How long an interactive transaction may last while others wait for what it holds, in microseconds,
/// unless the operator or the transaction says otherwise.
pub const LASTING_HOLDER_US_MAX: u64 = 60_000_000;
/// The longest of both that can be said, in milliseconds: a day.
pub const TRANSACTION_TIMEOUT_MS_MAX: u64 = 86_400_000;
/// When a request has waited for so long, the transactions that hold what it waits for are told, and told
/// again as long as it waits, in microseconds.
pub const WANTED_AFTER_US: u64 = 100_000;
/// For how long a transaction counts as wanted after it was told so, in microseconds.
pub const WANTED_US: u64 = 1_000_000;
/// An interactive transaction that has sent nothing for so long, in microseconds, and that no other client
/// waits for, does not count among those that run.
pub const IDLE_LOAD_US: u64 = 50_000;
/// How long prepares that come may go on passing single operations that wait for earlier prepares,
/// in microseconds. Each drain costs everybody a commit's latency, so it is not done for each.
pub const PREPARES_PASS_US_MAX: u64 = 5_000;
/// How long the outcomes of transactions wait at most for something to go into the log with, in
/// microseconds.
pub const OUTCOMES_WAIT_US: u64 = 2_000;
/// Most words about pipelines in one message to a machine.
pub const WORDS_TOGETHER_MAX: usize = 4_096;
/// How long a shard waits for what other shards have to say about a pipeline before it asks them, and
/// before it asks again, in microseconds.
pub const ASK_UNITS_US: u64 = 100_000;
/// How often that doubles while the answers do not come.
pub const ASK_UNITS_DOUBLED_MAX: u32 = 2;
/// How long a shard waits for units of a pipeline that others have asked for before it refuses them, in
/// microseconds.
pub const UNITS_LATE_US: u64 = 1_000_000;
/// How long a transaction waits for units of pipelines before it is refused, in microseconds.
pub const UNITS_STUCK_US: u64 = 300_000;
/// How long somebody in no stream waits for units of pipelines before no more of them are let in, in
/// microseconds.
pub const UNITS_OWE_US: u64 = 20_000;
/// How long a shard keeps what it was told about a pipeline of which it has nothing, in microseconds.
pub const EARLY_WORDS_US: u64 = 1_000_000;
/// How long a shard remembers a pipeline at least of which nobody has said that it is over, in
/// microseconds. Whoever has issued it may come back for the answers.
pub const STREAM_KEPT_US: u64 = 60_000_000;
/// Most units of a pipeline that are in flight. What each costs grows with their number.
pub const WINDOW_UNITS_MAX: usize = 1_000;
/// Most units of one stream; then it is waited until all of it is answered, and a new one begun.
pub const STREAM_UNITS_MAX: u32 = 10_000;
/// How long a request waits for its shard to have a leader, in milliseconds, unless the operator says
/// otherwise.
pub const LEADER_WAIT_MS: u64 = 5_000;
/// What an operator may say: an election takes a second or two.
pub const LEADER_WAIT_MS_ALLOWED: RangeInclusive<u64> = 500..=3_600_000;
/// How long a shard waits to be told what became of a prepared transaction before it finds out
/// itself, in microseconds.
pub const ORPHAN_US: u64 = 2_000_000;
/// How long votes may take before their coordinator makes sure that they still stand, in
/// microseconds.
pub const DECIDE_US_MAX: u64 = 20_000_000;
/// How long a replica remembers that a transaction must not be prepared, in microseconds.
pub const VOID_US: u64 = 60_000_000;
/// Interactive transactions that a gateway lets run at once at least, however they conflict.
pub const ADMITTED_MIN: usize = 4;
/// Interactive transactions that a gateway lets run at once at most.
pub const ADMITTED_MAX: usize = CONNECTIONS_MAX;
/// How long the beginning of an interactive transaction is put off at most, in microseconds.
pub const PARKED_US_MAX: u64 = 100_000;
/// Attempts of a one-shot transaction before it takes locks instead of trying again.
pub const SNAPSHOT_ROUNDS_MAX: u32 = 8;
/// Microseconds between two ticks of the replicated logs.
pub const TICK_US: u64 = 50_000;
/// The shortest that such ticks may be made while a cluster runs, in microseconds.
pub const TICK_US_MIN: u64 = 10_000;
/// The longest that such ticks may be made while a cluster runs, in microseconds.
pub const TICK_US_MAX: u64 = 150_000;
/// The longest time for which a leader asks others to vote for nobody else, in microseconds.
pub const PROMISE_US_MAX: u64 = (ELECTION_TICKS as u64 - 1) * TICK_US;
/// Ticks between two heartbeats of a leader.
pub const HEARTBEAT_TICKS: usize = 2;
/// Ticks without a leader after which a follower wants to become one (up to twice as many, drawn).
pub const ELECTION_TICKS: usize = 20;
/// How long a group must have had nothing to do before its replicas sleep, in microseconds.
pub const QUIET_US: u64 = 2_500_000;
/// After so much silence of a machine the replicas that trust it to be there wake, in microseconds.
pub const SILENT_US: u64 = 600_000;
/// By how much two machines' monotonic clocks may differ in speed, in percent: leases are shorter
/// by so much.
pub const CLOCK_DRIFT_PERCENT_MAX: u64 = 10;
/// Most machines of a cluster.
pub const MACHINES_MAX: usize = 32;
/// Largest number of a machine.
pub const MACHINE_NUMBER_MAX: u16 = 999;
/// Most machines that hold one shard.
pub const REPLICAS_MAX: usize = 5;
/// Longest message between machines, in bytes.
pub const PEER_FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes that may wait until another machine takes them; beyond it the connection is closed.
pub const PEER_OUTPUT_BYTES_MAX: usize = 256 << 20;
/// While so many bytes wait for another machine, entries of logs are not added: it will say that
/// they are missing.
pub const PEER_ENTRIES_BYTES_MAX: usize = 64 << 20;
/// Bytes of a snapshot that are sent to another machine at once.
pub const SNAPSHOT_PIECE_BYTES: usize = 1 << 20;
/// Connections at the port for machines that may be without a first message at once.
pub const STRANGERS_MAX: usize = 64;
/// Batches of one replicated log that may be on their way to the disk at once.
pub const PERSISTS_MAX: usize = 8;
/// How long handing the lead of a shard over may take, in microseconds.
pub const HANDOVER_US_MAX: u64 = 4_000_000;
/// How long a shard stands still for a cut at most, in microseconds.
pub const FREEZE_US_MAX: u64 = 3_000_000;
/// Requests that a shard holds back while it stands still; beyond it the cut is given up.
pub const FROZEN_REQUESTS_MAX: usize = 50_000;
/// How long a state that was kept for a backup is kept when nobody asks for more of it, in
/// microseconds.
pub const CUT_IDLE_US_MAX: u64 = 30_000_000;
/// Records that are kept as they were because they changed before a backup had come to them; beyond
/// it the cut is given up.
pub const CUT_COPIES_MAX: usize = 1 << 20;
/// How long a gateway waits for a cut to come about, in microseconds.
pub const CUT_WAIT_US_MAX: u64 = 2 * FREEZE_US_MAX;
/// Groups of keys for each of which a shard's leader remembers the last removal.
pub const REMOVAL_GROUPS: usize = 1_024;
/// Records of which a shard's leader remembers that writes have left them as they were.
pub const UNCHANGED_KEYS_MAX: usize = 1_024;
/// Shards that are asked at once for a page of keys.
pub const SCAN_SHARDS_AT_ONCE: u16 = 16;
/// Hash slots, as Redis Cluster has them.
pub const SLOTS: u16 = 16_384;
/// Longest path of a node of the coordination service, in bytes.
pub const NODE_PATH_BYTES_MAX: usize = 8 << 10;
/// Most nodes of the coordination service.
pub const NODES_MAX: usize = 1 << 22;
/// Most children of a node.
pub const NODE_CHILDREN_MAX: usize = 1 << 20;
/// Most sessions of the coordination service.
pub const SESSIONS_MAX: usize = 100_000;
/// For how long a session of the coordination service may be silent, in milliseconds, unless the operator
/// says otherwise: two to twenty of ZooKeeper's ticks.
pub const SESSION_TIMEOUT_MS: RangeInclusive<i32> = 4_000..=40_000;
/// What an operator may say: a change of leaders takes a second as a rule, and a session that must be heard
/// of more often would end with it.
pub const SESSION_TIMEOUT_MS_ALLOWED: RangeInclusive<i32> = 2_000..=86_400_000;
/// Most bytes, about, of what a client of the coordination service has sent ahead to several shards and that
/// is not carried out.
pub const AHEAD_BYTES_MAX: usize = 1 << 20;
/// How long a session that was silent for too long waits, each time, for what it has sent ahead, in
/// microseconds.
pub const LOOK_AGAIN_US: u64 = 50_000;
/// Most requests of a client of the coordination service that are read before they are answered.
pub const COORDINATION_REQUESTS_MAX: usize = 10_000;
/// Most nodes of the coordination service that are deleted at once because their time has come.
pub const REAPED_MAX: usize = 2_000;
/// How often it is looked for them, in microseconds, unless the operator says otherwise.
pub const REAP_US: u64 = 10_000_000;
/// What an operator may say: it costs a look at a table, and nobody notices a node for a day.
pub const REAP_US_ALLOWED: RangeInclusive<u64> = 100_000..=86_400_000_000;
/// Most connections of clients of the coordination service from one address, unless the operator says
/// otherwise: what ZooKeeper has.
pub const COORDINATION_SHARE_MAX: usize = 60;
/// How often the leader of shard 0 asks again what has become of the end of a session that is at several
/// shards, in microseconds.
pub const ENDS_AGAIN_US: u64 = 1_000_000;
/// How long a gateway waits before it tries a `multi` over several shards of a tree once more, or says once
/// more what the answer to was lost, about, in microseconds.
pub const JOINT_REST_US: u64 = 10_000;
/// How often all shards are asked what the root's children are, until none has changed in between; then the
/// client's connection is closed, and it asks again.
pub const ROOT_ROUNDS_MAX: u32 = 100;
/// Most paths that sessions of the coordination service watch, each counted once for each session.
pub const WATCHES_MAX: usize = 1 << 20;

const _: () = assert!(ARGUMENT_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(ARGUMENT_BYTES_MAX < SKIPPED_BYTES_MAX && SKIPPED_BYTES_MAX < 1 << 31);
const _: () = assert!(KEY_BYTES_MAX < ARGUMENT_BYTES_MAX);
// Those who go on together at a barrier are in one entry.
const _: () = assert!((adt::barrier::PARTIES_MAX as usize) < ENTRY_RECORDS_MAX);
const _: () = assert!(adt::barrier::GENERATION_BYTES_MAX <= ENTRY_BYTES_MAX);
const _: () = assert!(TRANSACTION_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(OUTPUT_BYTES_PAUSE < OUTPUT_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < INPUTS_BYTES_MAX && FRAME_BYTES_MAX < REPLIES_BYTES_MAX);
const _: () = assert!(LOCK_WAITERS_BUSY < LOCK_WAITERS_MAX);
const _: () = assert!(ENTRY_BYTES_MAX < UNLOGGED_BYTES_MAX);
const _: () = assert!(UNAUTHENTICATED_FRAME_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(HEARTBEAT_TICKS * 4 < ELECTION_TICKS);
// Followers that slept stand for election within the same time as those that did not.
const _: () = assert!(SILENT_US < ELECTION_TICKS as u64 * TICK_US);
// The library gives a handover up after an election time-out.
const _: () = assert!(ELECTION_TICKS as u64 * TICK_US_MAX < HANDOVER_US_MAX);
const _: () = assert!(TICK_US_MIN < TICK_US && TICK_US < TICK_US_MAX);
// A vote counts only while shards still remember what they have declared void, whatever the clocks.
const _: () = assert!(2 * DECIDE_US_MAX < VOID_US);
// An entry and the command that went beyond its bound fit into one message.
const _: () = assert!(2 * (ENTRY_BYTES_MAX + FRAME_BYTES_MAX) < PEER_FRAME_BYTES_MAX);
const _: () = assert!(2 * SNAPSHOT_PIECE_BYTES < PEER_FRAME_BYTES_MAX);
const _: () = assert!(PEER_ENTRIES_BYTES_MAX + PEER_FRAME_BYTES_MAX < PEER_OUTPUT_BYTES_MAX);
