//! What a gateway knows about a connection: the replies it waits for, the commands held back, and
//! whether it is in the middle of a transaction.

use super::hello::Hello;
use crate::gateway::acl::User;
use crate::gateway::api::Opening;
use crate::gateway::mail::Target;
use crate::gateway::pipelines::planned::{Loose, Planned};
use crate::gateway::pipelines::stream::Stream;
use crate::gateway::txn::admission::Standing;
use crate::gateway::txn::options::InteractiveTxn;
use crate::gateway::txn::work::{Keep, ProgramStep};
use crate::ids::{RequestId, ShardId, TxnId};
use crate::message::{Fence, Guard};
use adt::{ArgBuf, ErrorReply, Reply};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;

/// A connection.
pub(in crate::gateway) struct Session {
    /// Replies in the order of their commands; the first one is not known yet.
    pub queue: VecDeque<Slot>,
    /// Number of the first reply in the queue.
    pub base: u64,
    /// How many writes each shard has not answered yet.
    pub writes: SmallVec<[u32; 8]>,
    /// Requests that are in no stream.
    pub loose: Loose,
    /// Commands that are to be dispatched.
    pub gathered: VecDeque<Planned>,
    /// They are about to be.
    pub dispatching: bool,
    /// They are not before a time has passed.
    pub rests: bool,
    /// The stream under way.
    pub stream: Option<Box<Stream<Planned>>>,
    /// How often a part of its pipeline has failed since one did not.
    pub failures: u32,
    /// Its commands keep their order across shards.
    pub ordered: bool,
    /// RESP version.
    pub protocol: u8,
    /// Commands may go the short way: nothing but their operation matters.
    pub plain: bool,
    /// Nothing more is read from this connection.
    pub closing: bool,
    /// The reply that must be known before the next command is looked at.
    pub barrier: Option<u64>,
    /// Commands that wait for the barrier, or for all earlier replies.
    pub held: VecDeque<Held>,
    /// Bytes of the commands that are held back.
    pub held_bytes: usize,
    /// Monotonic time of the last command, in microseconds.
    pub active_us: u64,
    /// What the last command was.
    pub command: &'static str,
    /// Its reply may be large.
    pub heavy: bool,
    /// Its position in the table of commands, unless it is not to be counted.
    pub counted: Option<u16>,
    /// When it was looked at, in microseconds.
    pub begun_us: u64,
    pub mode: Mode,
    pub user: Option<Arc<User>>,
    pub replies: Replies,
    pub watched: Vec<Guard>,
    /// Watched keys whose version is not known yet.
    pub watching: u32,
    /// Request number for the next command or transaction.
    pub request: Option<RequestId>,
    /// Transaction that was aborted: the next one is as old.
    pub retry: Option<TxnId>,
    /// Whether the beginning of its transaction is put off, or was and is to go ahead now.
    pub standing: Standing,
    /// The blocking command that the session waits in.
    pub blocked: Option<BlockedBy>,
    /// The client has asked which machine leads which slots, and is told when it is wrong.
    pub redirects: bool,
    /// Channels and patterns that it has subscribed to.
    pub subscriptions: u32,
    pub about: Box<About>,
}

/// What is seldom looked at.
pub(in crate::gateway) struct About {
    pub client: u64,
    pub opening: Opening,
    pub opened_us: u64,
    pub name: String,
    pub lib_name: String,
    pub lib_ver: String,
    pub no_evict: bool,
    pub no_touch: bool,
    /// It has said `READONLY`.
    pub asks_replicas: bool,
    /// An authentication that waits for its verdict.
    pub verdict: Option<Verdict>,
    /// Where the reply of what the server does for the session goes.
    pub admin: Option<Target>,
    /// It is about to wait, and does not stand in the queues of all shards yet.
    pub arrives: bool,
    /// Commands of the session behind a transaction that is carried out, with the places of their
    /// replies.
    pub later: VecDeque<(Target, ArgBuf)>,
}

/// An authentication that waits for its verdict.
pub(in crate::gateway) struct Verdict {
    pub user: String,
    pub hello: Option<Hello>,
    pub target: Target,
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

/// A command that must wait.
pub(in crate::gateway) enum Held {
    Command(ArgBuf, usize),
    /// It is refused without having been read.
    Refused(ErrorReply),
    /// The client broke the protocol after the commands before this.
    Fault(ErrorReply),
}

/// What kind of commands the session sends now.
pub(in crate::gateway) enum Mode {
    /// Commands are carried out one by one.
    Single,
    /// Between `MULTI` and `EXEC`.
    Multi(Box<Multi>),
    /// Between `TXN BEGIN` and `TXN COMMIT`.
    Interactive(InteractiveTxn),
    /// The interactive transaction was aborted, and its commands answer so until it is ended.
    Aborted(ErrorReply),
}

/// Commands between `MULTI` and `EXEC`.
#[derive(Default)]
pub(in crate::gateway) struct Multi {
    pub steps: Vec<ProgramStep>,
    pub bytes: usize,
    /// Positions of the commands in the table.
    pub counted: Vec<u16>,
    /// A command was refused, so that `EXEC` will refuse as well.
    pub failed: bool,
    pub fences: Vec<Fence>,
    /// It is a section, which waits so many milliseconds for its lock at most.
    pub section_ms: Option<u64>,
    pub request: Option<RequestId>,
}

/// Which replies the client wants (`CLIENT REPLY`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Replies {
    On,
    Off,
    /// Only the next command's reply is dropped.
    SkipNext,
    /// The command that says so is not finished yet.
    SkipThis,
}

/// A reply that its turn or its value is missing for.
pub(in crate::gateway) struct Slot {
    pub state: SlotState,
    /// Position of its command in the table, if that is counted.
    pub command: Option<u16>,
    /// When that was looked at, in microseconds.
    pub begun_us: u64,
    /// The client does not want it.
    pub silent: bool,
    /// The connection is closed after it.
    pub last: bool,
}

pub(in crate::gateway) enum SlotState {
    Waiting,
    /// An array, some items of which are missing, how many, and where all are kept then.
    Partial(Vec<Option<Reply>>, usize, Option<Box<Keep>>),
    Done(Reply),
}

impl Session {
    pub fn new(opening: Opening, client: u64, user: Option<Arc<User>>) -> Self {
        let about = About {
            client,
            opening,
            opened_us: 0,
            name: String::new(),
            lib_name: String::new(),
            lib_ver: String::new(),
            no_evict: false,
            no_touch: false,
            asks_replicas: false,
            verdict: None,
            admin: None,
            arrives: false,
            later: VecDeque::new(),
        };
        let mut session = Self {
            queue: VecDeque::new(),
            base: 0,
            writes: SmallVec::new(),
            loose: Loose::default(),
            gathered: VecDeque::new(),
            dispatching: false,
            rests: false,
            stream: None,
            failures: 0,
            ordered: true,
            protocol: 2,
            plain: false,
            closing: false,
            barrier: None,
            held: VecDeque::new(),
            held_bytes: 0,
            active_us: 0,
            command: "NULL",
            heavy: false,
            counted: None,
            begun_us: 0,
            mode: Mode::Single,
            user,
            replies: Replies::On,
            watched: Vec::new(),
            watching: 0,
            request: None,
            retry: None,
            standing: Standing::default(),
            blocked: None,
            redirects: false,
            subscriptions: 0,
            about: Box::new(about),
        };
        session.refresh();
        session
    }

    /// Works out again whether commands may go the short way.
    pub fn refresh(&mut self) {
        self.plain = matches!(self.mode, Mode::Single)
            && self.replies == Replies::On
            && self.request.is_none()
            && !self.redirects
            && (self.subscriptions == 0 || self.protocol == 3)
            && self.user.as_ref().is_some_and(|user| user.everything());
    }

    /// Adds a place for a reply that is not known yet; gives its number.
    #[inline]
    pub fn push(&mut self) -> u64 {
        let seq = self.base + self.queue.len() as u64;
        let slot = self.slot(SlotState::Waiting);
        self.queue.push_back(slot);
        seq
    }

    /// A place for the reply of the command that is looked at.
    #[inline]
    pub fn slot(&self, state: SlotState) -> Slot {
        let silent = self.replies != Replies::On;
        let (command, begun_us) = (self.counted, self.begun_us);
        Slot { state, command, begun_us, silent, last: false }
    }

    /// A write to `shard` is on its way.
    #[inline]
    pub fn writes_to(&mut self, shard: ShardId) {
        let index = usize::from(shard.0);
        if index >= self.writes.len() {
            self.writes.resize(index + 1, 0);
        }
        self.writes[index] += 1;
    }

    /// A write to `shard` is answered, or on its way to another one.
    #[inline]
    pub fn wrote(&mut self, shard: ShardId) {
        self.writes[usize::from(shard.0)] -= 1;
    }

    /// Whether the session has writes on `shard` that are not answered yet.
    #[inline]
    pub fn is_fenced(&self, shard: ShardId) -> bool {
        self.writes.get(usize::from(shard.0)).is_some_and(|writes| *writes > 0)
    }

    /// Whether the client may only manage its subscriptions (RESP2 has no place for other replies).
    pub fn only_subscribes(&self) -> bool {
        self.subscriptions > 0 && self.protocol == 2
    }
}
