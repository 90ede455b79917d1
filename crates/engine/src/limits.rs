//! Every bound of the product, in one place, with the relations between them checked at compile
//! time. A limit that is reached gives an error that names it; nothing grows without one.

use std::ops::RangeInclusive;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = adt::key::KEY_BYTES_MAX;
/// Longest single argument (a value, a member), in bytes.
pub const ARGUMENT_BYTES_MAX: usize = 8 << 20;
/// Longest command frame, in bytes.
pub const FRAME_BYTES_MAX: usize = 16 << 20;
/// Longest argument that is skipped if it is too long to be accepted, in bytes.
pub const SKIPPED_BYTES_MAX: usize = 512 << 20;
/// Most words in one command.
pub const COMMAND_WORDS_MAX: usize = 1 << 20;
/// Longest inline command, in bytes.
pub const INLINE_BYTES_MAX: usize = 64 << 10;
/// Most bytes of a frame before authentication.
pub const UNAUTHENTICATED_FRAME_BYTES_MAX: usize = 1 << 10;
/// How long a connection may stay unauthenticated when authentication is required, in milliseconds.
pub const UNAUTHENTICATED_MS_MAX: u64 = 10_000;
/// Minimum time between two log lines about clients that speak HTTP, in microseconds.
pub const FOREIGN_WARN_US: u64 = 60_000_000;
/// Duration from which a command is slow, in microseconds, unless an operator sets another.
pub const SLOWLOG_US: u64 = 10_000;
/// Number of slow commands that are remembered, unless an operator sets another.
pub const SLOWLOG_COMMANDS: usize = 128;
/// Largest allowed setting of that number.
pub const SLOWLOG_COMMANDS_MAX: u64 = 4_096;
/// Most words of a slow command that are shown.
pub const SHOWN_WORDS_MAX: usize = 32;
/// Most bytes of such a word that are shown.
pub const SHOWN_WORD_BYTES_MAX: usize = 128;
/// Bytes of words of a connection's unanswered commands beyond which those of further ones are not kept.
pub const KEPT_WORDS_BYTES_MAX: usize = 256 << 10;
/// Most seconds with slow commands that are remembered.
pub const LATENCY_SECONDS_MAX: usize = 160;
/// Number of refused commands and logins that are remembered, unless an operator sets another.
pub const ACL_LOG_ENTRIES: usize = 128;
/// Largest allowed setting of that number.
pub const ACL_LOG_ENTRIES_MAX: u64 = 4_096;
/// Most bytes of the name of what was refused that are remembered.
pub const ACL_OBJECT_BYTES_MAX: usize = 256;
/// Random bits of a password that the server makes, unless the client sets another number.
pub const PASSWORD_BITS: u16 = 256;
/// Most random bits of such a password.
pub const PASSWORD_BITS_MAX: u16 = 4_096;
/// Longest pause of the commands of all clients, in milliseconds.
pub const PAUSE_MS_MAX: u64 = 86_400_000;
/// Bytes of commands that one worker holds back in such a pause; beyond it the pause ends there.
pub const PAUSED_BYTES_MAX: usize = 64 << 20;
/// Most transactions whose replies may be large that one worker holds back in a pause of writes without
/// counting them as requests under way.
pub const PAUSED_HEAVY_MAX: usize = 256;
/// Most connections of one worker that see the commands of all clients.
pub const MONITORS_MAX: usize = 16;
/// Bytes of a line about a command behind which its further words are left out.
pub const MONITOR_LINE_BYTES_MAX: usize = 16 << 10;
/// Most bytes of a word in such a line.
pub const MONITOR_WORD_BYTES_MAX: usize = 1 << 10;
/// Most client connections of a server.
pub const CONNECTIONS_MAX: usize = 12_000;
/// Reply bytes that may wait for a client that reads none of them: after [`STALLED_US_MAX`] its
/// connection is closed. Pushed messages beyond this close it at once.
pub const OUTPUT_BYTES_MAX: usize = 32 << 20;
/// How long a client may read nothing of more than [`OUTPUT_BYTES_MAX`] waiting bytes, in
/// microseconds.
pub const STALLED_US_MAX: u64 = 30_000_000;
/// How long a client may read nothing of more than [`OUTPUT_BYTES_PAUSE`] waiting bytes while
/// [`REPLIES_BYTES_MAX`] is reached, in microseconds.
pub const STALLED_US_MAX_IF_FULL: u64 = 5_000_000;
/// Approximate memory for waiting replies to all clients; beyond it requests whose replies may be
/// large wait.
pub const REPLIES_BYTES_MAX: usize = 256 << 20;
/// Largest product of the lengths of two strings that `LCS` compares.
pub const LCS_CELLS_MAX: u64 = adt::kinds::string::LCS_CELLS_MAX;
/// Most producers of a stream that it remembers.
pub const PRODUCERS_MAX: usize = adt::kinds::stream::PRODUCERS_MAX;
/// Longest name of such a producer, and of an entry that it adds, in bytes.
pub const PRODUCER_BYTES_MAX: usize = adt::kinds::stream::PRODUCER_BYTES_MAX;
/// Largest allowed number of entries of a producer that a stream remembers.
pub const NAMES_MAX: u64 = adt::kinds::stream::NAMES_MAX;
/// Longest time for which a stream can remember an entry of a producer, in seconds.
pub const REMEMBERED_S_MAX: u64 = adt::kinds::stream::REMEMBERED_S_MAX;
/// Most elements that `SORT` sorts.
pub const SORT_ELEMENTS_MAX: usize = adt::key::sort::SORT_ELEMENTS_MAX;
/// Most bytes of the elements that `SORT` sorts, of the values that it sorts by, and of its result.
pub const SORT_BYTES_MAX: usize = adt::key::sort::SORT_BYTES_MAX;
/// Most keys that `SORT` reads for the patterns of `BY` and `GET`.
pub const SORT_LOOKUPS_MAX: usize = adt::key::sort::SORT_LOOKUPS_MAX;
/// Approximate memory for the replies to one request; what is read beyond it is refused.
pub const REPLY_BYTES_MAX: usize = 64 << 20;
/// Most requests with possibly large replies that one connection has in progress.
pub const HEAVY_REQUESTS_MAX: u32 = 8;
/// Most connections of one worker that have such requests in progress, after small replies.
pub const HEAVY_CONNECTIONS_MAX: usize = 64;
/// Initial number of connections of one worker that may have such requests in progress.
pub const HEAVY_CONNECTIONS_FIRST: usize = 8;
/// Number of connections of one worker that may have such requests in progress after a large reply.
pub const HEAVY_CONNECTIONS_MIN: usize = 2;
/// Longest reply after which one more connection may have such requests in progress, in bytes.
pub const MIDDLING_REPLY_BYTES_MAX: usize = 1 << 20;
/// Longest reply after which twice as many such requests may be in progress, in bytes.
pub const SMALL_REPLY_BYTES_MAX: usize = 16 << 10;
/// Approximate bytes that are sent to one connection in one turn.
pub const OUTPUT_BYTES_PER_TURN: usize = 1 << 20;
/// Approximate memory for incomplete commands of all clients; beyond it those that began first are
/// refused.
pub const INPUTS_BYTES_MAX: usize = 256 << 20;
/// How long a command may take to arrive completely while [`INPUTS_BYTES_MAX`] is reached, in
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
/// Most keys watched by one connection, with the conditions of its `EXEC`.
pub const WATCHED_KEYS_MAX: usize = 10_000;
/// Most channels and patterns one connection subscribes to.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;
/// Most requests of a shard that wait for locks; beyond it new transactions are refused, and back
/// off.
pub const LOCK_WAITERS_MAX: usize = 20_000;
/// Waiting requests above which a shard refuses new transactions (not ones that have begun).
pub const LOCK_WAITERS_BUSY: usize = 5_000;
/// Most requests blocked on a shard's keys (`BLPOP` and its family).
pub const BLOCKED_MAX: usize = 50_000;
/// Most blocked requests that a shard serves by itself in one step; it notifies the others.
pub const SERVED_MAX: usize = 1_000;
/// How long a key is reserved for a notified request that waits for its value, in microseconds. The
/// request normally comes within one command's latency, unless its client is gone.
pub const KEPT_US_MAX: u64 = 250_000;
/// Most gateways of which a shard knows that it has forgotten pipelines before their end.
pub const OUTLIVED_MAX: usize = 10_000;
/// Most operations of a shard that wait for their turn (`LOCK.ACQUIRE`), or listen (`LOCK.WANTED`).
pub const TURNS_MAX: usize = 100_000;
/// Most reads of a shard that wait for a change (`ELECTION.OBSERVE`).
pub const OBSERVERS_MAX: usize = 100_000;
/// Most gateways that follow the changes of a shard (`CLIENT TRACKING`).
pub const FOLLOWERS_MAX: usize = 4096;
/// Time for which a shard goes on to tell a gateway of changes, in microseconds.
pub const FOLLOWER_US: u64 = 10_000_000;
/// Most keys that one entry of the log tells followers of; more stand for all keys of the shard.
pub const CHANGED_KEYS_MAX: usize = 100_000;
/// Bytes of keys from which on a notice for followers is full.
pub const CHANGED_BYTES_MAX: usize = 1 << 16;
/// How often a gateway follows the changes of each shard, in microseconds.
pub const FOLLOW_US: u64 = 500_000;
/// Time without an answer from a shard after which clients are told to drop what they have cached, in
/// microseconds: what they hold longer is up to date.
pub const SILENT_US_MAX: u64 = 2_000_000;
/// Most keys that a gateway remembers for the caches of its clients.
pub const TRACKED_KEYS_MAX: usize = 1_000_000;
/// Most prefixes that a client tracks.
pub const TRACKED_PREFIXES_MAX: usize = 1_000;
/// Most records of an entry that are searched before a grant of a block of tokens is appended to
/// it; after more it gets a new entry.
pub const LOOKED_BACK_MAX: usize = 64;
/// Most steps of a search for a deadlock cycle within a shard; beyond it the request waits.
pub const DEADLOCK_STEPS_MAX: usize = 10_000;
/// Most owners that a gateway asks the shards about in a search for a deadlock cycle; beyond it the
/// request waits.
pub const DEADLOCK_NAMES_MAX: usize = 1_000;
/// How long a request waits before a gateway searches for a deadlock cycle over several shards, in
/// microseconds. The time doubles with every search without a result, up to [`DEADLOCK_LOOK_US_MAX`].
pub const DEADLOCK_LOOK_US: u64 = 100_000;
/// Longest time between two searches for a deadlock cycle over several shards, in microseconds.
pub const DEADLOCK_LOOK_US_MAX: u64 = 10_000_000;
/// Most locks that a gateway keeps for its clients (`NEAR`).
pub const NEAR_LOCKS_MAX: usize = 10_000;
/// Most stays that a gateway grants its own clients after another client wants the lock that it
/// keeps.
pub const NEAR_STAYS_MAX: u32 = 16;
/// Tokens that a gateway requests at a time: one for each stay, and its own.
pub const NEAR_TOKENS: u32 = adt::kinds::lock::TOKENS_OF_KEPT;
/// Part of a gateway's lease beyond twice that of its clients, in microseconds.
pub const NEAR_LEASE_MORE_US: u64 = 1_000_000;
/// Interval at which a gateway repeats a refused or failed `LOCK.WANTED`, in microseconds.
pub const NEAR_LISTEN_AGAIN_US: u64 = 100_000;
/// Most locks of which a shard remembers the largest fencing token seen.
pub const FENCES_MAX: usize = 1 << 16;
/// Most locks whose tokens one command or transaction presents (`FENCE`).
pub const FENCES_PER_REQUEST_MAX: usize = 16;
/// Bytes of commands after which a log entry is closed and the next one begun. The command that
/// exceeds the limit is still in it.
pub const ENTRY_BYTES_MAX: usize = 4 << 20;
/// Bytes of commands that a worker accepts while its log is being written; it reads nothing more
/// from clients until the disk has caught up.
pub const UNLOGGED_BYTES_MAX: usize = 64 << 20;
/// Least memory for logs that an operator may configure, in bytes: a full entry is built while
/// others are written.
pub const LOG_MEMORY_BYTES_MIN: u64 = 2 * ENTRY_BYTES_MAX as u64;
/// Least memory for logs by default, in bytes.
pub const LOG_MEMORY_BYTES_LEAST: u64 = 32 << 20;
/// Most records in one log entry.
pub const ENTRY_RECORDS_MAX: usize = 20_000;
/// Clients whose request numbers a shard remembers; the least recently active ones are forgotten
/// first.
pub const REQUEST_CLIENTS_MAX: usize = 100_000;
/// Outcomes remembered for one client.
pub const REQUESTS_PER_CLIENT_MAX: usize = 64;
/// Longest replies of a request's commands that are kept in case it is repeated, in bytes: they go
/// into the log once more, unless all of them came from one shard.
pub const REMEMBERED_BYTES_MAX: usize = 1 << 20;
/// Approximate bytes of replies that a shard keeps in case their requests are repeated; beyond it
/// the oldest are dropped. Replies no larger than a number do not count.
pub const REMEMBERED_BYTES_IN_ALL_MAX: usize = 64 << 20;
/// How often a gateway asks for the replies of a repeated request before they count as lost: they
/// may be in flight.
pub const REPEATS_ASKED_MAX: u32 = 20;
/// How often a request that is in progress over another connection is retried: for some seconds, in
/// which the state that a lost machine has left behind is settled too.
pub const UNDER_WAY_TRIED_MAX: u32 = 60;
/// Longest client name in a request number, in bytes.
pub const REQUEST_CLIENT_BYTES_MAX: usize = 64;
/// Transactions over several shards whose replies a shard keeps, for coordinators that have lost
/// the replies with a connection.
pub const EXECUTED_REPLIES_MAX: usize = 1_024;
/// Expired keys that a shard removes in one turn at most, so that a turn stays short.
pub const REAP_PER_TURN_MAX: usize = 200;
/// Expired parts of values (fields of hashes) that a shard removes in one turn at most, unless a request asks
/// for the value.
pub const REAP_PARTS_PER_TURN_MAX: usize = 4_000;
/// Lock queues that a shard includes in its statistics.
pub const QUEUES_SHOWN: usize = 16;
/// Keys whose contention is counted, per shard.
pub const HOT_KEYS_MAX: usize = 128;
/// Most shards of one server.
pub const SHARDS_MAX: usize = 1_024;
/// Most worker threads of one server.
pub const WORKERS_MAX: usize = 64;
/// How long an interactive transaction that others wait for may be idle, in microseconds, unless
/// the operator or the transaction sets another time.
pub const IDLE_HOLDER_US_MAX: u64 = 5_000_000;
/// How long an interactive transaction that others wait for may last, in microseconds, unless the
/// operator or the transaction sets another time.
pub const LASTING_HOLDER_US_MAX: u64 = 60_000_000;
/// Largest value of either time-out, in milliseconds: a day.
pub const TRANSACTION_TIMEOUT_MS_MAX: u64 = 86_400_000;
/// Waiting time of a request after which the transactions that block it are notified, and notified
/// again as long as it waits, in microseconds.
pub const WANTED_AFTER_US: u64 = 100_000;
/// How long a transaction counts as wanted after such a notification, in microseconds.
pub const WANTED_US: u64 = 1_000_000;
/// Idle time after which an interactive transaction that no other client waits for does not count
/// as running any more, in microseconds.
pub const IDLE_LOAD_US: u64 = 50_000;
/// How long new prepares may overtake single operations that wait for earlier prepares, in
/// microseconds. Each drain costs every client a commit's latency, so there are at most fifty in a
/// second.
pub const PREPARES_PASS_US_MAX: u64 = 20_000;
/// Number of waiting requests in one lock mode that are looked at, for each arrival and each release, to
/// find out whether they commute with another one in the state of the record. Further ones are taken for
/// conflicting, or stay where they are.
pub const LOOKS_MAX: usize = 8;
/// Most records of which a gateway remembers that a read there is mostly followed by a write.
pub const INTENTS_MAX: usize = 1_024;
/// Number of reads without a write after which such a record is forgotten, when it is new.
pub const INTENT_CREDIT_FIRST: u32 = 16;
/// Largest number of reads without a write after which such a record is forgotten.
pub const INTENT_CREDIT_MAX: u32 = 64;
/// Number of early reads of a transaction that are remembered, to learn whether writes follow.
pub const READS_TRACKED_MAX: usize = 16;
/// Longest time for which outcomes of transactions wait to share a log entry with other records, in
/// microseconds.
pub const OUTCOMES_WAIT_US: u64 = 2_000;
/// Most messages about pipelines in one parcel to a machine.
pub const STREAM_MESSAGES_TOGETHER_MAX: usize = 4_096;
/// How long a shard waits for messages of other shards about a pipeline before it asks for them,
/// and between repeated questions, in microseconds.
pub const ASK_UNITS_US: u64 = 100_000;
/// How often that time doubles while the answers are missing.
pub const ASK_UNITS_DOUBLED_MAX: u32 = 2;
/// How long a shard waits for units of a pipeline that other shards have asked for before it
/// refuses the units, in microseconds.
pub const UNITS_LATE_US: u64 = 1_000_000;
/// How long a transaction waits for units of pipelines before it is refused, in microseconds.
pub const UNITS_STUCK_US: u64 = 300_000;
/// How long a request outside of streams waits for units of pipelines before further units are held
/// back, in microseconds.
pub const UNITS_OWE_US: u64 = 20_000;
/// How long a shard keeps messages about a pipeline of which it has no unit, in microseconds.
pub const EARLY_STREAM_MESSAGES_US: u64 = 1_000_000;
/// Minimum time for which a shard remembers a pipeline whose end was not reported, in microseconds.
/// Its gateway may still return for the answers.
pub const STREAM_KEPT_US: u64 = 60_000_000;
/// Most units of a pipeline that are in flight. The cost of each grows with their number.
pub const WINDOW_UNITS_MAX: usize = 1_000;
/// Most units of one stream; the next stream begins when all of them are answered.
pub const STREAM_UNITS_MAX: u32 = 10_000;
/// How long a request waits for its shard to have a leader, in milliseconds, unless the operator
/// sets another time.
pub const LEADER_WAIT_MS: u64 = 5_000;
/// Allowed settings of that time: an election takes a second or two.
pub const LEADER_WAIT_MS_ALLOWED: RangeInclusive<u64> = 500..=3_600_000;
/// How long a shard waits for the outcome of a prepared transaction before it inquires itself, in
/// microseconds.
pub const ORPHAN_US: u64 = 2_000_000;
/// Age of votes beyond which their coordinator checks that they still stand, in microseconds.
pub const DECIDE_US_MAX: u64 = 20_000_000;
/// How long a replica remembers that a transaction must not be prepared, in microseconds.
pub const VOID_US: u64 = 60_000_000;
/// Interactive transactions that a gateway admits at least at the same time, however they conflict.
pub const ADMITTED_MIN: usize = 4;
/// Interactive transactions that a gateway admits at most at the same time.
pub const ADMITTED_MAX: usize = CONNECTIONS_MAX;
/// Longest delay of an interactive transaction's begin, in microseconds.
pub const PARKED_US_MAX: u64 = 100_000;
/// Attempts of a one-shot transaction without locks before it takes locks.
pub const SNAPSHOT_ROUNDS_MAX: u32 = 8;
/// Microseconds between two ticks of the replicated logs.
pub const TICK_US: u64 = 50_000;
/// Shortest tick that a running cluster may choose, in microseconds.
pub const TICK_US_MIN: u64 = 10_000;
/// Longest tick that a running cluster may choose, in microseconds.
pub const TICK_US_MAX: u64 = 150_000;
/// Longest time for which a leader asks followers to vote for no other candidate, in microseconds.
pub const PROMISE_US_MAX: u64 = (ELECTION_TICKS as u64 - 1) * TICK_US;
/// Ticks between two heartbeats of a leader.
pub const HEARTBEAT_TICKS: usize = 2;
/// Ticks without a leader after which a follower stands for election (up to twice as many, drawn at
/// random).
pub const ELECTION_TICKS: usize = 20;
/// Idle time of a group after which its replicas sleep, in microseconds.
pub const QUIET_US: u64 = 2_500_000;
/// Silence of a machine after which the sleeping replicas that depend on it wake, in microseconds.
pub const SILENT_US: u64 = 600_000;
/// Largest difference in speed between two machines' monotonic clocks, in percent: leases are
/// shorter by so much.
pub const CLOCK_DRIFT_PERCENT_MAX: u64 = 10;
/// Most machines of a cluster.
pub const MACHINES_MAX: usize = 32;
/// Largest number of a machine.
pub const MACHINE_NUMBER_MAX: u16 = 999;
/// Most machines that hold one shard.
pub const REPLICAS_MAX: usize = 5;
/// Longest message between machines, in bytes.
pub const PEER_FRAME_BYTES_MAX: usize = 64 << 20;
/// Bytes that may wait for another machine; beyond it the connection is closed.
pub const PEER_OUTPUT_BYTES_MAX: usize = 256 << 20;
/// Bytes waiting for another machine above which log entries are not added: the machine will report
/// them as missing.
pub const PEER_ENTRIES_BYTES_MAX: usize = 64 << 20;
/// Bytes of broadcasts (messages of `PUBLISH`) that wait for one machine. Beyond that they are dropped.
pub const PEER_BROADCASTS_BYTES_MAX: usize = 64 << 20;
/// Bytes of broadcasts under way to one machine beyond which the next ones wait until it has taken some.
pub const PEER_BROADCASTS_UNDER_WAY: usize = 512 << 10;
/// Bytes of a snapshot that are sent to another machine at once.
pub const SNAPSHOT_PIECE_BYTES: usize = 1 << 20;
/// Connections at the port for machines that may be without a first message at once.
pub const STRANGERS_MAX: usize = 64;
/// Batches of one replicated log that may be on their way to the disk at once.
pub const PERSISTS_MAX: usize = 8;
/// Longest handover of a shard's lead, in microseconds.
pub const HANDOVER_US_MAX: u64 = 4_000_000;
/// Longest pause of a shard for a cut, in microseconds.
pub const FREEZE_US_MAX: u64 = 3_000_000;
/// Requests that a shard holds back during such a pause; beyond it the cut is abandoned.
pub const FROZEN_REQUESTS_MAX: usize = 50_000;
/// How long the state for a backup is kept without a request for more of it, in microseconds.
pub const CUT_IDLE_US_MAX: u64 = 30_000_000;
/// Copies of records that changed before a backup had reached them; beyond it the cut is abandoned.
pub const CUT_COPIES_MAX: usize = 1 << 20;
/// How long a gateway waits for a cut to complete, in microseconds.
pub const CUT_WAIT_US_MAX: u64 = 2 * FREEZE_US_MAX;
/// Groups of keys for each of which a shard's leader remembers the last removal.
pub const REMOVAL_GROUPS: usize = 1_024;
/// Records whose writes without effect a shard's leader remembers.
pub const UNCHANGED_KEYS_MAX: usize = 1_024;
/// Records of which a shard's leader keeps earlier versions, because read-only transactions read them.
pub const VERSIONED_KEYS_MAX: usize = 1_024;
/// Time for which it keeps versions of a record after such a read, in microseconds.
pub const VERSIONED_US: u64 = 10_000_000;
/// Age up to which versions are kept, in microseconds.
pub const VERSION_US_MAX: u64 = 1_000_000;
/// Memory of one version.
pub const VERSION_BYTES_MAX: usize = 16 << 10;
/// Memory of all versions at one shard.
pub const VERSIONS_BYTES_MAX: usize = 4 << 20;
/// Versions of a record that an operation is carried out on which comes late; if there are more, they
/// are dropped.
pub const VERSIONS_AMENDED_MAX: usize = 64;
/// Shards that are asked at the same time for a page of keys.
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
/// Range of the time-out of sessions of the coordination service, in milliseconds, unless the
/// operator sets another: two to twenty of ZooKeeper's ticks.
pub const SESSION_TIMEOUT_MS: RangeInclusive<i32> = 4_000..=40_000;
/// Allowed settings of that range: a leader change usually takes a second, and would end a session
/// with a shorter time-out.
pub const SESSION_TIMEOUT_MS_ALLOWED: RangeInclusive<i32> = 2_000..=86_400_000;
/// Approximate bytes of requests that a client of the coordination service has sent ahead to
/// several shards and that are not executed.
pub const AHEAD_BYTES_MAX: usize = 1 << 20;
/// Interval at which the end of a silent session is tried again while its requests that were sent
/// ahead are in progress, in microseconds.
pub const LOOK_AGAIN_US: u64 = 50_000;
/// Most requests of a client of the coordination service that are read before they are answered.
pub const COORDINATION_REQUESTS_MAX: usize = 10_000;
/// Most nodes of the coordination service that are reaped at once.
pub const REAPED_MAX: usize = 2_000;
/// Interval of the search for nodes to reap, in microseconds, unless the operator sets another.
pub const REAP_US: u64 = 10_000_000;
/// Allowed settings of that interval: a search costs a look at a table, and a node that stays for a
/// day too long does no harm.
pub const REAP_US_ALLOWED: RangeInclusive<u64> = 100_000..=86_400_000_000;
/// Most connections of clients of the coordination service from one address, unless the operator
/// sets another number: ZooKeeper's default.
pub const COORDINATION_SHARE_MAX: usize = 60;
/// Interval at which the leader of shard 0 repeats its question about the end of a session over
/// several shards, in microseconds.
pub const ENDS_AGAIN_US: u64 = 1_000_000;
/// Approximate delay before a gateway retries a `multi` over several shards of a tree, or repeats a
/// message whose answer was lost, in microseconds.
pub const JOINT_REST_US: u64 = 10_000;
/// How often all shards are asked for the root's children, until none has changed in between. Then
/// the client's connection is closed, and the client asks again.
pub const ROOT_ROUNDS_MAX: u32 = 100;
/// Most watches of sessions of the coordination service: each pair of a session and a path counts
/// once.
pub const WATCHES_MAX: usize = 1 << 20;
/// Longest script, in bytes.
pub const SCRIPT_BYTES_MAX: usize = 1 << 20;
/// Most bytes of all libraries of functions together.
pub const LIBRARIES_BYTES_MAX: usize = 4 << 20;
/// Most libraries of functions.
pub const LIBRARIES_MAX: usize = 1_000;
/// Most functions of all libraries together.
pub const LIBRARY_FUNCTIONS_MAX: usize = 10_000;
/// Most pieces of [`SCRIPT_FUEL_PER_PIECE`] steps that a library takes to register its functions.
pub const LIBRARY_PIECES_MAX: u32 = 4;
/// Most commands that one run of a script calls.
pub const SCRIPT_CALLS_MAX: u32 = 100_000;
/// Most steps (calls and rounds of loops) of one run of a script.
pub const SCRIPT_FUEL_MAX: u64 = 20_000_000;
/// Number of steps after which a script lets others go ahead.
pub const SCRIPT_FUEL_PER_PIECE: u64 = 5_000;
/// Price of a command that a script runs, in steps.
pub const SCRIPT_FUEL_PER_CALL: u64 = 50;
/// Most pieces of a run at a shard: a longer run is left to a gateway, which can interrupt it.
pub const SCRIPT_PIECES_AT_SHARD_MAX: u32 = 4;
/// Most scripts of a client that wait to go to a shard as one request.
pub const SCRIPTS_TOGETHER_MAX: usize = 128;
/// Bytes of scripts that wait for their turn in a session, above which no further one joins them.
pub const SCRIPTS_TOGETHER_BYTES_MAX: usize = 1 << 20;
/// Bytes of replies after which no further script is begun for the same request.
pub const SCRIPTS_TOGETHER_REPLY_BYTES: usize = 1 << 20;
/// Steps after which no further script is begun for the same request.
pub const SCRIPTS_TOGETHER_FUEL: u64 = 50_000;
/// Price of a step behind these that is made within a function of the interpreter: nothing else goes ahead.
pub const SCRIPT_FUEL_OF_HOST: u64 = 40;
/// Most memory of one run of a script, in bytes.
pub const SCRIPT_MEMORY_BYTES_MAX: usize = 16 << 20;
/// Deepest nesting of tables in the reply of a script.
pub const SCRIPT_REPLY_DEPTH_MAX: usize = 32;
/// Deepest nesting of JSON that a script reads or writes.
pub const SCRIPT_JSON_DEPTH_MAX: usize = 100;
/// Deepest nesting of MessagePack that a script writes; a quarter of that which it reads.
pub const SCRIPT_MSGPACK_DEPTH_MAX: usize = 16;
/// Most tables, counted as often as they are visited, that a script makes into one text.
pub const SCRIPT_TABLES_MAX: usize = 1 << 17;
/// Most scripts that a virtual machine keeps loaded.
pub const SCRIPTS_LOADED_MAX: usize = 64;
/// Most virtual machines of a thread that wait for the next run of a script.
pub const SCRIPT_MACHINES_IDLE_MAX: usize = 64;
/// Highest cost of a copy of a record that scripts of a shard work on, in members or pieces of 64 bytes.
/// Scripts that use a larger record are run by gateways.
pub const SCRIPT_COPY_COST_MAX: usize = 100_000;
/// Most copies of large records that a shard keeps for scripts.
pub const SCRIPT_COPIES_MAX: usize = 16;
/// How long a copy of a large record is kept after its last use by a script, in microseconds.
pub const SCRIPT_COPY_US: u64 = 10_000_000;
/// Most records that a shard waits for, one after another, for a run of a script that has not declared them.
pub const SCRIPT_RECORDS_AWAITED_MAX: usize = 16;
/// Most scripts that a gateway runs at once.
pub const SCRIPTS_RUNNING_MAX: usize = 1_000;
/// Most scripts whose runs are counted by name, at each gateway and each shard.
pub const SCRIPTS_COUNTED_MAX: usize = 200;
/// Most scripts that a gateway keeps ready; those that it has read first are forgotten first.
pub const SCRIPTS_KNOWN_MAX: usize = 10_000;
/// Most commands of a run of an operation that is a program: each of them is compared with those of others.
pub const PROGRAM_CALLS_MAX: usize = 1_000;
/// Most programs of operations that a gateway or a shard keeps ready; then all are forgotten.
pub const OPERATIONS_KNOWN_MAX: usize = 2_000;
/// Most bytes of scripts that a gateway keeps ready.
pub const SCRIPTS_KNOWN_BYTES_MAX: usize = 32 << 20;
/// How long the store keeps a script that was run with `EVAL`, and not loaded, in seconds.
pub const SCRIPT_LASTS_S: u64 = 86_400;
/// Most lines per second that the scripts of one worker write to the server's log.
pub const SCRIPT_LINES_PER_S: u64 = 100;
/// Longest part of such a line that is written, in bytes.
pub const SCRIPT_LINE_BYTES_MAX: usize = 1 << 10;
/// Bytes of such scripts that a gateway gives to the store at once.
pub const SCRIPTS_SHARED_BYTES_MAX: u64 = 4 << 20;
/// Bytes of such scripts that a gateway gives to the store per second, in the long run.
pub const SCRIPTS_SHARED_BYTES_PER_S: u64 = 256;

/// Most bytes of the names and rules of all users in the store together.
pub const STORED_USERS_BYTES_MAX: usize = 4 << 20;
/// Most passwords of a user in the store.
pub const PASSWORDS_MAX: usize = 32;
/// Most composed types.
pub const TYPES_MAX: usize = 256;
/// Pause before definitions of types are read again that could not be read, in microseconds.
pub const TYPES_AGAIN_US: u64 = 100_000;
/// Most names of types that were dropped, whose versions are kept.
pub const TYPE_NAMES_MAX: usize = 1_024;
/// Age at which a gateway reads the definitions of types again, in microseconds: it may not have been told of
/// a change.
pub const TYPES_LOOK_US: u64 = 10_000_000;
/// Age up to which definitions of types tell a command that cannot wait that there is no such type, in
/// microseconds.
pub const TYPES_KNOWN_US: u64 = 1_000_000;
/// How often a gateway looks whether the users of its sessions have changed unnoticed, in microseconds.
pub const USERS_LOOK_US: u64 = 10_000_000;

const _: () = assert!(ARGUMENT_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(ARGUMENT_BYTES_MAX < SKIPPED_BYTES_MAX && SKIPPED_BYTES_MAX < 1 << 31);
const _: () = assert!(KEY_BYTES_MAX < ARGUMENT_BYTES_MAX);
// All parties that a barrier releases together are in one entry.
const _: () = assert!((adt::kinds::barrier::PARTIES_MAX as usize) < ENTRY_RECORDS_MAX);
const _: () = assert!(adt::kinds::barrier::GENERATION_BYTES_MAX <= ENTRY_BYTES_MAX);
const _: () = assert!(TRANSACTION_BYTES_MAX <= FRAME_BYTES_MAX);
const _: () = assert!(SORT_BYTES_MAX <= TRANSACTION_BYTES_MAX);
const _: () = assert!(SORT_ELEMENTS_MAX <= TRANSACTION_COMMANDS_MAX);
const _: () = assert!(SORT_LOOKUPS_MAX < LOCK_WAITERS_MAX);
const _: () = assert!(OUTPUT_BYTES_PAUSE < OUTPUT_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < INPUTS_BYTES_MAX && FRAME_BYTES_MAX < REPLIES_BYTES_MAX);
const _: () = assert!(LOCK_WAITERS_BUSY < LOCK_WAITERS_MAX);
const _: () = assert!(ENTRY_BYTES_MAX < UNLOGGED_BYTES_MAX);
const _: () = assert!(UNAUTHENTICATED_FRAME_BYTES_MAX < FRAME_BYTES_MAX);
const _: () = assert!(FRAME_BYTES_MAX < u32::MAX as usize);
const _: () = assert!(HEARTBEAT_TICKS * 4 < ELECTION_TICKS);
// Followers that slept stand for election within the same time as those that did not.
const _: () = assert!(SILENT_US < ELECTION_TICKS as u64 * TICK_US);
// The library gives up a handover after an election time-out.
const _: () = assert!(ELECTION_TICKS as u64 * TICK_US_MAX < HANDOVER_US_MAX);
const _: () = assert!(TICK_US_MIN < TICK_US && TICK_US < TICK_US_MAX);
// A vote counts only while shards still remember the transactions that they have declared void,
// whatever the clocks.
const _: () = assert!(2 * DECIDE_US_MAX < VOID_US);
// An entry and the command that exceeded its limit fit into one message.
const _: () = assert!(2 * (ENTRY_BYTES_MAX + FRAME_BYTES_MAX) < PEER_FRAME_BYTES_MAX);
const _: () = assert!(2 * SNAPSHOT_PIECE_BYTES < PEER_FRAME_BYTES_MAX);
const _: () = assert!(PEER_ENTRIES_BYTES_MAX + PEER_FRAME_BYTES_MAX < PEER_OUTPUT_BYTES_MAX);
