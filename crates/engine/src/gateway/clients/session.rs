//! State of a connection at its gateway: the replies that it waits for, its held commands, and its mode.

use super::connection::hello::{Credentials, Hello};
use super::pubsub::Subscribed;
use super::session_commands::subscribes;
use crate::gateway::acl::User;
use crate::gateway::api::Opening;
use crate::gateway::core::Core;
use crate::gateway::operators::words::{KeptWords, NOT_KEPT};
use crate::gateway::pipelines::pipeline::Pipeline;
use crate::gateway::routing::databases::Reach;
use crate::gateway::scripts::queue::ScriptQueue;
use crate::gateway::target::Target;
use crate::gateway::tracking::Tracker;
use crate::gateway::txn::admission::Admittance;
use crate::gateway::txn::options::InteractiveTxn;
use crate::gateway::txn::work::{Keep, ProgramStep};
use crate::ids::{RequestId, ShardId, TxnId};
use crate::message::{Fence, Guard};
use crate::now::Now;
use adt::{ArgBuf, Args, CommandSpec, ErrorReply, Flags, Reply};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// Session of a connection.
pub(in crate::gateway) struct Session {
    /// Replies in the order of their commands; the first reply is not known yet.
    pub queue: VecDeque<Slot>,
    /// Number of the first reply in the queue.
    pub base: u64,
    /// Number of writes that each shard has not answered yet.
    pub writes: SmallVec<[u32; 8]>,
    /// Commands that the client has sent without waiting for replies.
    pub pipeline: Pipeline,
    /// RESP version.
    pub protocol: u8,
    /// Whether commands take the short path: only their operation matters.
    pub plain: bool,
    /// Database that is selected. Between `MULTI` and `EXEC` it is that of the next command that is queued.
    pub database: u8,
    /// Keys that the present command may concern.
    pub reach: Reach,
    /// Whether no more is read from the connection.
    pub closing: bool,
    /// Reply that must be known before the next command is carried out.
    pub barrier: Option<u64>,
    /// Commands that wait for the barrier, or for all earlier replies.
    pub held: VecDeque<Held>,
    /// Bytes of the held commands.
    pub held_bytes: usize,
    /// Monotonic time of the last command, in microseconds.
    pub active_us: u64,
    /// Name of the last command.
    pub command: &'static str,
    /// Whether the reply of the last command may be large.
    pub heavy: bool,
    /// Whether the command that is being carried out calls an operation that is a program.
    pub runs_program: bool,
    /// Position of the present command in the table of commands, unless it is not to be counted.
    pub counted: Option<u16>,
    /// Monotonic time at which the present command began, in microseconds.
    pub begun_us: u64,
    /// Words of commands without a reply, for operators.
    pub kept: KeptWords,
    /// Place of the words of the present command.
    pub words: u64,
    pub mode: SessionMode,
    pub user: Option<Arc<User>>,
    pub replies: Replies,
    pub watched: Vec<Guard>,
    /// `WATCH` whose versions are not all known yet.
    pub watching: Option<Box<Watching>>,
    /// Request number for the next command or transaction.
    pub request: Option<RequestId>,
    /// Transaction that was aborted: the next one has its age.
    pub retry: Option<TxnId>,
    /// Whether the beginning of a transaction is put off, or was put off and goes ahead now.
    pub admittance: Admittance,
    /// Blocking command that the session waits in.
    pub blocked: Option<BlockedBy>,
    /// Whether the client has asked for the leaders of the slots, and is redirected.
    pub redirects: bool,
    /// Number of channels and patterns that the client has subscribed to.
    pub subscribed: Subscribed,
    pub about: Box<About>,
}

/// State that is seldom needed.
pub(in crate::gateway) struct About {
    pub scripts: ScriptQueue,
    pub client: u64,
    pub opening: Opening,
    pub opened_us: u64,
    pub name: String,
    pub lib_name: String,
    pub lib_ver: String,
    pub no_evict: bool,
    pub no_touch: bool,
    /// Tracking of the keys that the client caches.
    pub tracker: Option<Box<Tracker>>,
    /// Whether the client has sent `READONLY`.
    pub asks_replicas: bool,
    /// Authentication that waits for the rules of its user, or for its verdict.
    pub attempt: Option<LoginAttempt>,
    /// Target of the reply to a change of users.
    pub changes_users: Option<Target>,
    /// Target of the reply to a command that the server carries out.
    pub admin: Option<Target>,
    /// Monotonic time at which the present wait began, in microseconds.
    pub blocked_us: u64,
    /// Whether the session is about to wait, and is not in the queues of all shards yet.
    pub arrives: bool,
    /// Queued commands behind a transaction that is carried out, with the targets of their replies.
    pub later: VecDeque<(Target, ArgBuf)>,
}

/// Authentication that waits for the rules of its user, or for its verdict.
pub(in crate::gateway) struct LoginAttempt {
    pub credentials: Credentials,
    pub hello: Option<Hello>,
    pub target: Target,
    /// User, if one in the store was found.
    pub found: Option<Arc<User>>,
}

/// Wait that a session is blocked by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum BlockedBy {
    /// A command that waits for something to take.
    Command(u64),
    /// A turn at a lock or a barrier.
    Turn(u64),
    /// A visit to a lock that gateways of the server keep.
    Near(u64),
}

/// Held command.
pub(in crate::gateway) enum Held {
    /// Words of a command, and their size in bytes.
    Command(ArgBuf, usize),
    /// Command that was not read, and is refused.
    Refused(ErrorReply),
    /// Breach of the protocol behind the commands before.
    Fault(ErrorReply),
}

/// Mode of a session: the way in which it carries commands out.
pub(in crate::gateway) enum SessionMode {
    /// Commands are carried out one by one.
    Single,
    /// Between `MULTI` and `EXEC`.
    Multi(Box<Multi>),
    /// Between `TXN BEGIN` and `TXN COMMIT`.
    Interactive(InteractiveTxn),
    /// After the abort of an interactive transaction: its commands get this error until it is ended.
    Aborted(ErrorReply),
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Default)]
pub(in crate::gateway) struct Multi {
    pub steps: Vec<ProgramStep>,
    pub bytes: usize,
    /// Positions of the commands in the table.
    pub counted: Vec<u16>,
    /// Database that was selected at `MULTI`.
    pub database: u8,
    /// Whether a command was refused, so that `EXEC` is refused too.
    pub failed: bool,
    pub fences: Vec<Fence>,
    /// Longest time, in milliseconds, for which a section waits for its lock; none if this is no section.
    pub section_ms: Option<u64>,
    pub request: Option<RequestId>,
}

/// `WATCH` whose versions are not all known yet.
pub(in crate::gateway) struct Watching {
    /// Place of its reply.
    pub seq: u64,
    /// Number of keys whose version is not known.
    pub missing: usize,
    /// Keys whose version is known.
    pub guards: Vec<Guard>,
    /// Whether a later command has forgotten all watched keys.
    pub forgotten: bool,
}

/// Replies that the client wants (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Replies {
    On,
    Off,
    /// All but the reply of the next command.
    SkipNext,
    /// All but the reply of the next command; the present command asks for that.
    SkipThis,
}

/// Place of a reply that is not known, or waits for the replies before it.
pub(in crate::gateway) struct Slot {
    pub state: SlotState,
    /// Position of the command in the table, if it is counted.
    pub command: Option<u16>,
    /// Monotonic time at which the command began, in microseconds.
    pub begun_us: u64,
    /// Place of the words of the command.
    pub words: u64,
    /// Whether the client does not want the reply.
    pub silent: bool,
    /// Whether the connection is closed after the reply.
    pub last: bool,
}

pub(in crate::gateway) enum SlotState {
    /// The reply is not known.
    Waiting,
    /// Array with missing items, their number, and the request under which a shard remembers all.
    Partial(Vec<Option<Reply>>, usize, Option<Box<Keep>>),
    /// The reply is known.
    Done(Reply),
}

impl Session {
    /// Whether the next reply is of the same bundle as the one before.
    #[inline]
    pub fn is_inside_bundle(&self) -> bool {
        self.pipeline.comes_soon(self.base)
    }

    /// Whether the session is in a transaction.
    #[inline]
    pub fn is_in_transaction(&self) -> bool {
        matches!(self.mode, SessionMode::Multi(_) | SessionMode::Interactive(_))
    }

    /// Whether replies that were not sent at once may still wait for the next one.
    pub fn replies_soon(&self) -> bool {
        !self.queue.is_empty() && (self.is_inside_bundle() || self.is_in_transaction())
    }

    /// Blocks the session until a wait has ended.
    pub fn block(&mut self, by: BlockedBy, now: Now) {
        self.about.blocked_us = now.mono_us;
        self.blocked = Some(by);
        self.about.arrives = matches!(by, BlockedBy::Command(_));
    }

    /// Lets the session go on after a wait.
    ///
    /// The wait is no part of the duration of the command, which is the last one that goes ahead.
    pub fn unblock(&mut self, now: Now) {
        if let Some(slot) = self.queue.back_mut() {
            slot.begun_us += now.mono_us.saturating_sub(self.about.blocked_us);
        }
        self.blocked = None;
        self.about.arrives = false;
    }

    pub fn new(opening: Opening, client: u64, user: Option<Arc<User>>) -> Self {
        let about = About {
            scripts: ScriptQueue::default(),
            client,
            opening,
            opened_us: 0,
            name: String::new(),
            lib_name: String::new(),
            lib_ver: String::new(),
            no_evict: false,
            no_touch: false,
            tracker: None,
            asks_replicas: false,
            attempt: None,
            changes_users: None,
            admin: None,
            blocked_us: 0,
            arrives: false,
            later: VecDeque::new(),
        };
        let mut session = Self {
            queue: VecDeque::new(),
            base: 0,
            writes: SmallVec::new(),
            pipeline: Pipeline::default(),
            protocol: 2,
            plain: false,
            database: 0,
            reach: Reach::In(0),
            closing: false,
            barrier: None,
            held: VecDeque::new(),
            held_bytes: 0,
            active_us: 0,
            command: "NULL",
            heavy: false,
            runs_program: false,
            counted: None,
            begun_us: 0,
            kept: KeptWords::default(),
            words: NOT_KEPT,
            mode: SessionMode::Single,
            user,
            replies: Replies::On,
            watched: Vec::new(),
            watching: None,
            request: None,
            retry: None,
            admittance: Admittance::default(),
            blocked: None,
            redirects: false,
            subscribed: Subscribed::default(),
            about: Box::new(about),
        };
        session.refresh();
        session
    }

    /// Returns the session to the state of a new one, with the user of new sessions.
    pub fn reset(&mut self, user: Option<Arc<User>>) {
        self.mode = SessionMode::Single;
        self.database = 0;
        self.unwatch();
        self.retry = None;
        self.request = None;
        self.pipeline.set_ordered(true);
        self.user = user;
        self.protocol = 2;
        self.replies = Replies::On;
        self.about.name.clear();
        self.about.no_evict = false;
        self.about.no_touch = false;
        self.refresh();
    }

    /// Sets the mode, on which the short path depends.
    pub fn set_mode(&mut self, mode: SessionMode) {
        self.mode = mode;
        self.refresh();
    }

    /// Updates whether commands take the short path.
    pub fn refresh(&mut self) {
        self.plain = matches!(self.mode, SessionMode::Single)
            && self.replies == Replies::On
            && self.request.is_none()
            && !self.redirects
            && self.about.tracker.is_none()
            && (self.subscribed.all() == 0 || self.protocol == 3)
            && self.user.as_ref().is_some_and(|user| user.everything());
    }

    /// Adds a place for a reply that is not known yet; returns its number.
    #[inline]
    pub fn push(&mut self) -> u64 {
        let seq = self.base + self.queue.len() as u64;
        let slot = self.slot(SlotState::Waiting);
        self.queue.push_back(slot);
        seq
    }

    /// Place for the reply of the present command.
    #[inline]
    pub fn slot(&self, state: SlotState) -> Slot {
        let silent = self.replies != Replies::On;
        let (command, begun_us, words) = (self.counted, self.begun_us, self.words);
        Slot { state, command, begun_us, words, silent, last: false }
    }

    /// Counts a write that is sent to a shard.
    #[inline]
    pub fn writes_to(&mut self, shard: ShardId) {
        let index = usize::from(shard.0);
        if index >= self.writes.len() {
            self.writes.resize(index + 1, 0);
        }
        self.writes[index] += 1;
    }

    /// Counts a write to a shard that is answered, or sent to another shard.
    #[inline]
    pub fn wrote(&mut self, shard: ShardId) {
        self.writes[usize::from(shard.0)] -= 1;
    }

    /// Whether the session has writes on `shard` that are not answered yet.
    #[inline]
    pub fn is_fenced(&self, shard: ShardId) -> bool {
        self.writes.get(usize::from(shard.0)).is_some_and(|writes| *writes > 0)
    }

    /// Whether the session may call a command now.
    pub fn permit(
        &self,
        core: &mut Core,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> Result<(), ErrorReply> {
        match &self.user {
            None if spec.flags.has(Flags::NO_AUTH) => {}
            None => return Err(ErrorReply::new("NOAUTH", "Authentication required.")),
            Some(user) => {
                if !spec.flags.has(Flags::NO_AUTH)
                    && let Some(refusal) = user.judge(spec, args)?
                {
                    self.denied(core, &refusal);
                    return Err(user.error(&refusal));
                }
            }
        }
        let manages = matches!(spec.name, "ping" | "quit" | "reset") || subscribes(spec);
        if self.only_subscribes() && !manages {
            let text = format!(
                "Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET \
                 are allowed in this context",
                spec.name
            );
            return Err(ErrorReply::err(text));
        }
        core.check_room(spec)
    }

    /// Notes that a command went ahead, whose reply was to be skipped or not (`CLIENT REPLY`).
    pub fn replied(&mut self, skip: bool) {
        match self.replies {
            Replies::SkipThis => self.replies = Replies::SkipNext,
            Replies::SkipNext if skip => {
                self.replies = Replies::On;
                self.refresh();
            }
            Replies::On | Replies::Off | Replies::SkipNext => {}
        }
    }

    /// Whether the client may only manage its subscriptions (RESP2 has no place for other replies).
    pub fn only_subscribes(&self) -> bool {
        self.subscribed.all() > 0 && self.protocol == 2
    }
}
