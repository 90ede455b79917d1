//! Commands as operations, and replies of operations as replies of commands.

use crate::gateway::mail::Target;
use crate::gateway::scripts::ScriptCall;
use crate::ids::{KeyedOp, RequestId};
use crate::message::{Fence, Guard};
use adt::collections::Map;
use adt::command::database::database_of;
use adt::key::KeyOp;
use adt::{ArgBuf, Blob, Blocking, Command, Compound, ErrorReply, Merge, Op, Plan, Reply, Whole};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Source of the reply of one command of several. Each command has one, in the order of the commands, and
/// names the operations of the command by their places among all operations: others may stand
/// between, whose replies are dropped.
#[derive(Clone)]
pub(in crate::gateway) enum Outcome {
    /// The reply is known without any operation.
    Fixed(Reply),
    /// The reply of the operation at this place.
    Op(u32),
    /// The replies of `count` operations from the place `first` on, merged.
    Merged {
        /// Place of the first operation.
        first: u32,
        /// Number of operations.
        count: u32,
        /// Function that merges the replies.
        merge: Merge,
    },
    /// A command of the session with these words, which is carried out afterwards.
    Later(ArgBuf),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(reply) => write!(f, "Fixed({reply:?})"),
            Self::Op(place) => write!(f, "Op({place})"),
            Self::Merged { first, count, .. } => write!(f, "Merged({first}, {count})"),
            Self::Later(_) => write!(f, "Later"),
        }
    }
}

/// Form of a transaction's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Form {
    /// The reply of its only command.
    One,
    /// An array with the reply of every command (`EXEC`, `TXN COMMIT`).
    Array,
}

/// Recipe for a reply from the replies of operations.
#[derive(Debug)]
pub(in crate::gateway) struct Finish {
    pub outcomes: Vec<Outcome>,
    pub form: Form,
    /// Place where the replies are kept, if some come from commands that the session carries out afterwards.
    pub keep: Option<Box<Keep>>,
}

/// Place where the replies of a request are kept.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct Keep {
    pub request: RequestId,
    /// A key on the shard that remembers the request.
    pub home: Blob,
    pub form: Form,
}

/// Replies of operations, which are asked for by their places from front to back.
struct Places<I> {
    replies: I,
    /// Place of the next reply.
    at: u32,
}

impl<I: Iterator<Item = Reply>> Places<I> {
    /// The replies of `count` operations from a place on.
    fn take(&mut self, first: u32, count: u32) -> impl Iterator<Item = Reply> {
        assert!(first >= self.at, "operations stand in the order of their commands");
        self.replies.by_ref().take((first - self.at) as usize).for_each(drop);
        self.at = first + count;
        self.replies.by_ref().chain(std::iter::repeat_with(missing)).take(count as usize)
    }
}

impl Finish {
    /// Recipe for a reply under a request number, or without one. The shard of the key with the request
    /// remembers the outcome.
    pub fn new(outcomes: Vec<Outcome>, form: Form, request: Option<(&RequestId, Blob)>) -> Self {
        let later = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Later(_)));
        let keep = request.filter(|_| later).map(|(request, home)| {
            let request = request.clone();
            Box::new(Keep { request, home, form })
        });
        Self { outcomes, form, keep }
    }

    /// The replies of the commands, from those of all operations in their order; none for commands
    /// that are carried out afterwards.
    pub fn items(&self, replies: impl Iterator<Item = Reply>) -> Vec<Option<Reply>> {
        let mut places = Places { replies, at: 0 };
        let item = |outcome: &Outcome| match outcome {
            Outcome::Fixed(reply) => Some(reply.clone()),
            Outcome::Op(place) => places.take(*place, 1).next(),
            Outcome::Merged { first, count, merge } => {
                Some(merge.apply(places.take(*first, *count).collect()))
            }
            Outcome::Later(_) => None,
        };
        self.outcomes.iter().map(item).collect()
    }

    /// The commands that are carried out afterwards, each with its place among all of them.
    pub fn later(&self) -> impl Iterator<Item = (u32, &ArgBuf)> {
        (0..).zip(&self.outcomes).filter_map(|(item, outcome)| match outcome {
            Outcome::Later(words) => Some((item, words)),
            _ => None,
        })
    }

    /// The reply to the client from the items.
    pub fn reply(&self, items: Vec<Option<Reply>>) -> Reply {
        self.form.reply(items.into_iter().map(|item| item.unwrap_or_else(missing)))
    }
}

impl Form {
    /// A reply of this form from those of the commands.
    pub fn reply(self, mut items: impl Iterator<Item = Reply>) -> Reply {
        match self {
            Self::Array => Reply::Array(items.collect()),
            Self::One => items.next().unwrap_or_else(missing),
        }
    }
}

/// Stands for a reply that is missing.
pub(in crate::gateway) fn missing() -> Reply {
    Reply::err("a reply is missing: the number of replies did not fit that of the operations")
}

/// Whether an attempt of a blocking command has found nothing.
pub(in crate::gateway) fn found_nothing(reply: &Reply) -> bool {
    matches!(reply, Reply::Nil | Reply::NilArray)
}

/// One command of a program.
#[derive(Clone)]
pub(in crate::gateway) enum ProgramStep {
    /// A known reply (the words were wrong, for instance).
    Fixed(Reply),
    /// Operations, with the function that merges their replies; without it there is one operation.
    Ops(Vec<KeyedOp>, Option<Merge>),
    /// Reads and writes that depend on them.
    Compound(Compound),
    /// A blocking command, which does not wait inside of a transaction.
    Attempts(Blocking),
    /// A script.
    Script(Arc<ScriptCall>),
    /// A command of the session, carried out after the transaction.
    Later(ArgBuf),
}

/// Writes, and the reply.
pub(in crate::gateway) type Changed = (Vec<KeyedOp>, Reply);

impl ProgramStep {
    /// Whether the operations are known before anything is read.
    pub fn is_direct(&self) -> bool {
        !matches!(self, Self::Compound(_) | Self::Attempts(_) | Self::Script(_))
    }

    /// Step that looks at a record of the store's own, and replies.
    pub fn looking(
        read: KeyedOp,
        look: impl Fn(Option<&Reply>) -> Result<Reply, ErrorReply> + Send + Sync + 'static,
    ) -> Self {
        let merge = move |replies: Vec<Reply>| look(replies.first()).unwrap_or_else(Reply::Error);
        Self::Ops(vec![read], Some(Merge::With(Arc::new(merge))))
    }

    /// Step that looks at a record of the store's own, and then writes and replies.
    pub fn changing(
        read: KeyedOp,
        change: impl Fn(Option<&Reply>) -> Result<Changed, ErrorReply> + Send + Sync + 'static,
    ) -> Self {
        let plan = move |replies: &[Reply]| {
            let changed = change(replies.first());
            let (writes, reply) = changed.unwrap_or_else(|error| (Vec::new(), error.into()));
            Plan { writes, reply }
        };
        Self::Compound(Compound::new(vec![read], plan))
    }
}

impl From<Command> for ProgramStep {
    fn from(command: Command) -> Self {
        match command {
            Command::Single(key, op) => Self::Ops(vec![(key, op)], None),
            Command::Multi { ops, merge } => Self::Ops(ops, Some(merge)),
            Command::Compound(compound) => Self::Compound(compound),
            Command::Blocking(blocking) => Self::Attempts(blocking),
            // Inside of a transaction no command waits.
            Command::Awaiting(adt::Awaiting { key, op, .. }) => Self::Ops(vec![(key, op)], None),
        }
    }
}

/// Commands to carry out atomically, and the place for the reply.
pub(in crate::gateway) struct Program {
    pub target: Target,
    pub steps: Vec<ProgramStep>,
    pub form: Form,
    pub guards: Vec<Guard>,
    pub fences: Vec<Fence>,
    pub request: Option<RequestId>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Program({:?}, {} steps)", self.target, self.steps.len())
    }
}

/// Operations, and the outcomes that make a reply from theirs.
#[derive(Debug, Default)]
pub(in crate::gateway) struct Work {
    pub ops: Vec<KeyedOp>,
    pub outcomes: Vec<Outcome>,
    /// Places of the writes to a key, once there are many.
    index: Map<Blob, Vec<u32>>,
    indexed: usize,
}

/// Operations up to which looking through all of them is quicker than an index.
const UNINDEXED_MAX: usize = 64;

/// Effect of an operation of a transaction on a key, if it has one.
fn own((at, op): &KeyedOp, key: &Blob) -> Option<Op> {
    match op.whole() {
        Some(Whole::Flush(which)) => {
            let flushed = which.is_none_or(|which| database_of(key) == Some(which));
            flushed.then_some(Op::Key(KeyOp::Del))
        }
        Some(_) => None,
        None => (at == key && op.is_write()).then(|| op.clone()),
    }
}

impl Work {
    /// Adds the operations of a command.
    pub fn add(&mut self, ops: Vec<KeyedOp>, merge: Option<Merge>) {
        let first = self.ops.len() as u32;
        self.outcomes.push(match merge {
            Some(merge) => Outcome::Merged { first, count: ops.len() as u32, merge },
            None => Outcome::Op(first),
        });
        if self.ops.is_empty() {
            self.ops = ops;
        } else {
            self.ops.extend(ops);
        }
    }

    /// Writes to `key` so far, which a read of the same transaction must see.
    pub fn own(&mut self, key: &Blob) -> Vec<Op> {
        if self.ops.len() <= UNINDEXED_MAX {
            return self.ops.iter().filter_map(|op| own(op, key)).collect();
        }
        let flushed = self.ops.iter().any(|(_, op)| matches!(op.whole(), Some(Whole::Flush(_))));
        if flushed {
            return self.ops.iter().filter_map(|op| own(op, key)).collect();
        }
        for (at, (key, op)) in self.ops.iter().enumerate().skip(self.indexed) {
            if op.is_write() && op.whole().is_none() {
                self.index.entry(key.clone()).or_default().push(at as u32);
            }
        }
        self.indexed = self.ops.len();
        let places = self.index.get(key).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&at| self.ops[at as usize].1.clone()).collect()
    }

    /// Whether there are writes.
    pub fn has_writes(&self) -> bool {
        self.ops.iter().any(|(_, op)| op.is_write())
    }

    /// Keys with writes.
    pub fn written(&self) -> BTreeSet<&Blob> {
        self.ops.iter().filter(|(_, op)| op.is_write()).map(|(key, _)| key).collect()
    }

    /// Whether there are writes to `key`.
    pub fn writes(&self, key: &Blob) -> bool {
        self.ops.iter().any(|(k, op)| k == key && op.is_write())
    }

    /// Drops the operations from a place on.
    pub fn undo_to(&mut self, len: usize) {
        self.ops.truncate(len);
        if self.indexed > len {
            self.index.clear();
            self.indexed = 0;
        }
    }

    /// Adds operations whose replies are dropped.
    pub fn add_silent(&mut self, ops: Vec<KeyedOp>) {
        self.ops.extend(ops);
    }

    /// Adds a command whose reply is known, or that is carried out afterwards.
    pub fn add_without_ops(&mut self, outcome: Outcome) {
        self.outcomes.push(outcome);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finish(outcomes: Vec<Outcome>) -> Finish {
        Finish { outcomes, form: Form::Array, keep: None }
    }

    fn merged(first: u32, count: u32, merge: Merge) -> Outcome {
        Outcome::Merged { first, count, merge }
    }

    #[test]
    fn replies_are_dealt_to_their_commands() {
        let finish = finish(vec![
            Outcome::Op(0),
            Outcome::Fixed(Reply::Ok),
            // The replies of the operations at the places 1 and 2 are dropped.
            merged(3, 2, Merge::Sum),
            merged(5, 0, Merge::Array),
            Outcome::Later(ArgBuf::of(["PING"])),
            Outcome::Op(5),
        ]);
        let items = finish.items((1..=6).map(Reply::Int));
        let item = |n| Some(Reply::Int(n));
        let empty = Some(Reply::Array(vec![]));
        assert_eq!(items, [item(1), Some(Reply::Ok), item(9), empty, None, item(6)]);
        let later: Vec<u32> = finish.later().map(|(item, _)| item).collect();
        assert_eq!(later, [4]);
    }

    #[test]
    fn a_command_without_a_reply_is_told_so_and_gets_no_other_ones() {
        let finish = finish(vec![merged(0, 2, Merge::Array), Outcome::Op(3)]);
        let items = finish.items(std::iter::once(Reply::Int(1)));
        let array = Reply::Array(vec![Reply::Int(1), missing()]);
        assert_eq!(items, [Some(array), Some(missing())]);
    }

    #[test]
    fn work_knows_whose_operations_are_whose() {
        let op = |line: &str| {
            adt::record::decode(&ArgBuf::of(line.split(' ')).args()).expect("an operation")
        };
        let mut work = Work::default();
        work.add(vec![op("get a")], None);
        work.add_silent(vec![op("set b 1"), op("set c 1")]);
        work.add_without_ops(Outcome::Fixed(Reply::Int(7)));
        work.add_without_ops(Outcome::Later(ArgBuf::of(["PING"])));
        work.add(vec![op("get b"), op("get c")], Some(Merge::Array));
        let Work { outcomes, ops, .. } = work;
        assert_eq!(format!("{outcomes:?}"), "[Op(0), Fixed(Int(7)), Later, Merged(3, 2)]");
        assert_eq!(ops.len(), 5);
    }
}
