//! The command table: one [`CommandSpec`] per command, written beside its data type.
//!
//! Everything that depends on the shape of a command comes from this one table: arity errors, key
//! positions, access control categories, `COMMAND` and `COMMAND DOCS`, the reference page, and the
//! parser that turns words into operations. A command is parsed once; afterwards only [`Op`]s are
//! passed on.

pub(crate) mod args;
pub mod condition;
pub mod database;
pub mod glob;
pub mod scan;
pub mod syntax;
pub mod tags;

use crate::{Args, Blob, ErrorReply, Op, Reply};
use std::fmt;
use std::sync::Arc;

/// One command: how to call it, which keys it touches and how its words become operations.
pub struct CommandSpec {
    /// Name in lower case. Subcommands are part of their container's parser.
    pub name: &'static str,
    /// Number of words including the name; negative means at least that many (Redis' convention).
    pub arity: i16,
    /// Properties of the command, such as read or write.
    pub flags: Flags,
    /// Positions of the keys.
    pub keys: Keys,
    /// Family for `COMMAND DOCS` and the access control category: `string`, `set`, `connection` ...
    pub group: &'static str,
    /// One sentence that describes the command.
    pub summary: &'static str,
    /// The words after the name, in the notation of the Redis documentation.
    pub syntax: &'static str,
    /// Cost in O() notation.
    pub complexity: &'static str,
    /// Component that executes the command.
    pub handler: Handler,
}

/// A command table. Each row is `(name, arity, flags, keys, summary, syntax, complexity) =>
/// parser;`.
#[macro_export]
macro_rules! commands {
    ($group:literal; $(($name:literal, $arity:literal, $flags:expr, $keys:expr,
        $summary:literal, $syntax:expr, $complexity:literal) => $parse:expr;)*) => {
        &[$($crate::CommandSpec {
            name: $name,
            arity: $arity,
            flags: $flags,
            keys: $keys,
            group: $group,
            summary: $summary,
            syntax: $syntax,
            complexity: $complexity,
            handler: $crate::Handler::Data($parse),
        }),*]
    };
}
pub(crate) use commands;

/// Component that executes a command.
#[derive(Clone, Copy)]
pub enum Handler {
    /// The data path: the parser returns operations on keys.
    Data(fn(&Args<'_>) -> Result<Command, ErrorReply>),
    /// The session or the server itself, by the command's name.
    Session,
}

/// Properties of a command; a set of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u16);

impl Flags {
    /// Only reads.
    pub const READ: Self = Self(1);
    /// May change records.
    pub const WRITE: Self = Self(1 << 1);
    /// May need more memory: refused when the memory limit is reached.
    pub const GROWS: Self = Self(1 << 2);
    /// Constant or logarithmic time.
    pub const FAST: Self = Self(1 << 3);
    /// May wait.
    pub const BLOCKING: Self = Self(1 << 4);
    /// For administrators.
    pub const ADMIN: Self = Self(1 << 5);
    /// Dangerous for a production server by its cost or its effect.
    pub const DANGEROUS: Self = Self(1 << 6);
    /// Allowed before authentication.
    pub const NO_AUTH: Self = Self(1 << 7);
    /// Not allowed between `MULTI` and `EXEC`, nor inside of `TXN`.
    pub const NO_MULTI: Self = Self(1 << 8);
    /// Publishes or subscribes.
    pub const PUBSUB: Self = Self(1 << 9);
    /// Ends or belongs to a transaction.
    pub const TRANSACTION: Self = Self(1 << 10);

    /// Not allowed inside `TXN`, where replies are immediate and must stay true until the commit.
    pub const NO_TXN: Self = Self(1 << 12);

    /// May name keys of two databases.
    pub const DATABASES: Self = Self(1 << 13);

    /// Needs a cluster in which every machine understands the coordination service's records.
    pub const COORDINATION: Self = Self(1 << 11);

    /// Union of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Where a command's keys are, counted in words with the name as number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No keys.
    None,
    /// From `first` to `last` (negative counts from the end) in steps of `step`.
    Range {
        /// First key.
        first: i16,
        /// Last key; -1 is the last word.
        last: i16,
        /// Distance between keys.
        step: i16,
    },
    /// Word number `at` says how many keys follow it; `also` is one more key (0: none).
    Counted {
        /// Position of the number of keys.
        at: i16,
        /// Position of a further key before the number, or 0.
        also: i16,
    },
    /// Word number `at` says how many keys follow it, perhaps none; other words follow them.
    Declared {
        /// Position of the number of keys.
        at: i16,
    },
    /// The first argument, and the one behind the option `STORE` of `SORT`.
    Sort,
    /// Word number `at` says how many pairs of a key and a value follow it.
    Pairs {
        /// Position of the number of pairs.
        at: i16,
    },
    /// The first half of the words behind `word`, which is number `from` or a later one.
    Behind {
        /// The word.
        word: &'static str,
        /// The first number that it can have.
        from: i16,
    },
    /// Keys of the conditions of `EXEC`, which are all its arguments.
    Conditions,
}

impl Keys {
    /// Exactly one key, the first argument.
    pub const ONE: Self = Self::Range { first: 1, last: 1, step: 1 };
    /// Two keys, the first two arguments.
    pub const TWO: Self = Self::Range { first: 1, last: 2, step: 1 };
    /// All arguments are keys.
    pub const ALL: Self = Self::Range { first: 1, last: -1, step: 1 };

    /// Positions of the keys in `args`, or an error where the words do not hold them.
    pub fn positions(self, args: &Args<'_>) -> Result<Vec<usize>, ErrorReply> {
        let len = args.len();
        match self {
            Self::None => Ok(Vec::new()),
            Self::Range { first, last, step } => {
                let last = if last < 0 { len as i64 + i64::from(last) } else { i64::from(last) };
                Ok((i64::from(first)..=last.min(len as i64 - 1))
                    .step_by(step as usize)
                    .map(|i| i as usize)
                    .collect())
            }
            Self::Counted { at, also } => {
                let too_few = "numkeys should be greater than 0";
                let count = args.at_least(at as usize, 1, too_few)?;
                let first = at as usize + 1;
                if count > len.saturating_sub(first) as u64 {
                    return Err(ErrorReply::syntax());
                }
                let also = (also > 0).then_some(also as usize);
                Ok(also.into_iter().chain(first..first + count as usize).collect())
            }
            Self::Declared { at } => {
                let count = args.int(at as usize)?;
                if count < 0 {
                    return Err(ErrorReply::err("Number of keys can't be negative"));
                }
                let first = at as usize + 1;
                if count > (len - first) as i64 {
                    let text = "Number of keys can't be greater than number of args";
                    return Err(ErrorReply::err(text));
                }
                Ok((first..first + count as usize).collect())
            }
            Self::Sort => crate::key::sort::key_positions(args),
            Self::Pairs { at } => {
                let count = args.at_least(at as usize, 1, "invalid numkeys value")?;
                let first = at as usize + 1;
                if count > len.saturating_sub(first) as u64 / 2 {
                    return Err(ErrorReply::err("wrong number of key-value pairs"));
                }
                Ok((first..).step_by(2).take(count as usize).collect())
            }
            Self::Behind { word, from } => {
                let at = (from as usize..len).find(|i| args.is(*i, word));
                let first = at.ok_or_else(ErrorReply::syntax)? + 1;
                Ok((first..first + (len - first) / 2).collect())
            }
            Self::Conditions => {
                Ok(condition::conditions(args)?.into_iter().map(|(key, _)| key).collect())
            }
        }
    }
}

impl CommandSpec {
    /// Checks the number of words.
    pub fn check_arity(&self, words: usize) -> Result<(), ErrorReply> {
        let fits = if self.arity >= 0 {
            words == self.arity as usize
        } else {
            words >= self.arity.unsigned_abs() as usize
        };
        if fits { Ok(()) } else { Err(ErrorReply::arity(self.name)) }
    }
}

impl fmt::Debug for CommandSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CommandSpec({})", self.name)
    }
}

/// A parsed data command.
pub enum Command {
    /// One operation on one key; its reply is the command's reply.
    Single(Blob, Op),
    /// Operations on several keys (a key may repeat), atomically; replies are merged.
    Multi {
        /// Key and operation, in the order in which the words named them.
        ops: Vec<(Blob, Op)>,
        /// How the replies become one.
        merge: Merge,
    },
    /// Reads, then writes that depend on what was read, atomically (`RENAME`, `LMOVE`, `SMOVE`,
    /// `SINTERSTORE` ...).
    Compound(Compound),
    /// Tries commands in turn until one has something to take, and waits if none has.
    Blocking(Blocking),
    /// One operation that waits for its turn ([`crate::Waiter::waits`]).
    Awaiting(Awaiting),
}

/// An operation that waits while its reply is nil.
#[derive(Clone, Debug, PartialEq)]
pub struct Awaiting {
    /// The key.
    pub key: Blob,
    /// The operation.
    pub op: Op,
    /// Longest wait in milliseconds; 0 means for ever. The reply is nil after it.
    pub timeout_ms: u64,
    /// Whether the gateway keeps the awaited lock and passes it between its own clients.
    pub near: bool,
}

impl Awaiting {
    /// An operation whose lock the gateway does not keep.
    pub fn new(key: Blob, op: Op, timeout_ms: u64) -> Self {
        Self { key, op, timeout_ms, near: false }
    }
}

/// How the replies of a [`Command::Multi`] become one.
#[derive(Clone)]
pub enum Merge {
    /// An array of all replies, nil for keys that hold another type (`MGET`).
    Array,
    /// The sum of integer replies (`DEL`, `EXISTS`).
    Sum,
    /// `OK` (`MSET`).
    Ok,
    /// Computed from all replies, if none is an error (`SINTER`, `ZUNION` ...).
    With(Arc<dyn Fn(Vec<Reply>) -> Reply + Send + Sync>),
    /// Computed from all replies, errors among them (`XPENDING` ...).
    All(Arc<dyn Fn(Vec<Reply>) -> Reply + Send + Sync>),
}

impl Merge {
    /// One reply from those of the operations, in their order. The first error wins.
    pub fn apply(&self, replies: Vec<Reply>) -> Reply {
        if !matches!(self, Self::Array | Self::All(_))
            && let Some(error) = replies.iter().find(|r| r.is_error())
        {
            return error.clone();
        }
        match self {
            Self::Array => {
                let wrong = Reply::Error(ErrorReply::wrong_type());
                let nil = |reply| if reply == wrong { Reply::Nil } else { reply };
                Reply::Array(replies.into_iter().map(nil).collect())
            }
            Self::Sum => {
                Reply::Int(replies.iter().map(|r| if let Reply::Int(n) = r { *n } else { 0 }).sum())
            }
            Self::Ok => Reply::Ok,
            Self::With(f) | Self::All(f) => f(replies),
        }
    }
}

/// Function from the replies of a [`Compound`] command's reads to what follows from them.
pub type NextFn = Arc<dyn Fn(&[Reply]) -> Next + Send + Sync>;

/// A command whose writes depend on its reads: a small transaction.
#[derive(Clone)]
pub struct Compound {
    /// Reads that are carried out first, under locks.
    pub reads: Vec<(Blob, Op)>,
    /// Gives what follows from the replies of the reads. Deterministic.
    pub next: NextFn,
}

impl Compound {
    /// A command that reads once.
    pub fn new(
        reads: Vec<(Blob, Op)>,
        plan: impl Fn(&[Reply]) -> Plan + Send + Sync + 'static,
    ) -> Self {
        Self::in_steps(reads, move |replies| Next::Plan(plan(replies)))
    }

    /// A command that may read what its reads lead to.
    pub fn in_steps(
        reads: Vec<(Blob, Op)>,
        next: impl Fn(&[Reply]) -> Next + Send + Sync + 'static,
    ) -> Self {
        Self { reads, next: Arc::new(next) }
    }

    /// The command whose reply goes through a function.
    #[must_use]
    pub fn wrapped(self, wrap: impl Fn(Reply) -> Reply + Send + Sync + Clone + 'static) -> Self {
        let Self { reads, next } = self;
        Self::in_steps(reads, move |replies| match next(replies) {
            Next::Plan(Plan { writes, reply }) => Next::Plan(Plan { writes, reply: wrap(reply) }),
            Next::Reads(further) => Next::Reads(further.wrapped(wrap.clone())),
        })
    }

    /// The end that follows from the replies, unless further reads do.
    pub fn plan(&self, replies: &[Reply]) -> Option<Plan> {
        match (self.next)(replies) {
            Next::Plan(plan) => Some(plan),
            Next::Reads(_) => None,
        }
    }
}

/// Continuation of a [`Compound`] behind its reads.
#[derive(Clone)]
pub enum Next {
    /// The end.
    Plan(Plan),
    /// Further reads, of keys that were found in the replies.
    Reads(Compound),
}

/// The end of a [`Compound`].
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Writes to apply; empty if there is nothing to do.
    pub writes: Vec<(Blob, Op)>,
    /// The command's reply.
    pub reply: Reply,
}

/// A command that waits for something to take (`BLPOP` and its family).
#[derive(Clone)]
pub struct Blocking {
    /// Keys to watch, in order of preference, each with the command that takes from it. An attempt
    /// that answers [`Reply::Nil`] or [`Reply::NilArray`] has found nothing.
    pub attempts: Vec<(Blob, Attempt)>,
    /// Longest wait in milliseconds; 0 means for ever.
    pub timeout_ms: u64,
    /// Whether each attempt does the same.
    pub alike: bool,
    /// Reads before the first attempt, if the attempts depend on it. A transaction, which never
    /// waits, makes the attempts without it.
    pub begins: Option<Begins>,
    /// Time after which the attempts are made again although no key has changed, in milliseconds, if what
    /// they find depends on the time.
    pub again_ms: Option<u64>,
    /// The reply after the time-out.
    pub on_timeout: Reply,
    /// The reply inside of a transaction, which never waits, if no key has anything to take.
    pub on_nothing: Reply,
}

impl Blocking {
    /// A command with attempts that differ, and nothing in front of them.
    pub fn new(
        attempts: Vec<(Blob, Attempt)>,
        timeout_ms: u64,
        on_timeout: Reply,
        on_nothing: Reply,
    ) -> Self {
        let (begins, again_ms) = (None, None);
        Self { attempts, timeout_ms, alike: false, begins, again_ms, on_timeout, on_nothing }
    }
}

/// Function from the replies of reads to attempts.
pub type AttemptsFn = Arc<dyn Fn(&[Reply]) -> Vec<(Blob, Attempt)> + Send + Sync>;

/// Reads in front of the attempts of a blocking command.
#[derive(Clone)]
pub struct Begins {
    /// The reads.
    pub reads: Vec<(Blob, Op)>,
    /// Gives the attempts from the replies.
    pub attempts: AttemptsFn,
}

/// One way for a blocking command to succeed.
#[derive(Clone)]
pub enum Attempt {
    /// A consuming operation; `wrap` makes the command's reply from the key and the operation's.
    Take {
        /// The operation.
        op: Op,
        /// Key and the operation's reply to the command's reply.
        wrap: fn(&Blob, Reply) -> Reply,
    },
    /// A move to another key. The first read is of the source key.
    Move(Compound),
}
