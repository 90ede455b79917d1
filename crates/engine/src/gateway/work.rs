//! Commands as operations, and replies of operations as replies of commands.

use super::mail::Target;
use crate::message::{Fence, Guard, KeyedOp, RequestId};
use adt::collections::Map;
use adt::{ArgBuf, Blob, Blocking, Command, Compound, Merge, Op, Reply};

/// How replies of operations become the reply of one command of several.
#[derive(Clone)]
pub(super) enum Outcome {
    /// Known without any operation.
    Fixed(Reply),
    /// The next operation's reply.
    Next,
    /// The next few operations' replies in one.
    Merged(u32, Merge),
    /// The next few operations answer nobody.
    Silent(u32),
}

impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(reply) => write!(f, "Fixed({reply:?})"),
            Self::Next => write!(f, "Next"),
            Self::Merged(count, _) => write!(f, "Merged({count})"),
            Self::Silent(count) => write!(f, "Silent({count})"),
        }
    }
}

/// The form of a transaction's reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// That of its only command.
    One,
    /// An array with the reply of every command (`EXEC`, `TXN COMMIT`).
    Array,
}

/// What makes a reply out of the replies of operations.
#[derive(Debug)]
pub(super) struct Finish {
    pub outcomes: Vec<Outcome>,
    pub form: Form,
    /// Commands of the session that are carried out afterwards, each with the item of the array
    /// that its reply replaces.
    pub later: Vec<(u32, ArgBuf)>,
}

impl Finish {
    /// The replies of the commands, from those of the operations in their order.
    pub fn items(&self, mut replies: impl Iterator<Item = Reply>) -> Vec<Reply> {
        let mut items = Vec::with_capacity(self.outcomes.len());
        for outcome in &self.outcomes {
            match outcome {
                Outcome::Fixed(reply) => items.push(reply.clone()),
                Outcome::Next => items.push(replies.next().unwrap_or_else(missing)),
                Outcome::Merged(count, merge) => {
                    items.push(merge.apply(replies.by_ref().take(*count as usize).collect()));
                }
                Outcome::Silent(count) => replies.by_ref().take(*count as usize).for_each(drop),
            }
        }
        items
    }

    /// The reply to the client from the items.
    pub fn reply(&self, mut items: Vec<Reply>) -> Reply {
        match self.form {
            Form::Array => Reply::Array(items),
            Form::One if items.len() == 1 => items.remove(0),
            Form::One => missing(),
        }
    }
}

fn missing() -> Reply {
    Reply::err("a reply is missing: the number of replies did not fit that of the operations")
}

/// One command of a transaction.
#[derive(Clone)]
pub(super) enum Step {
    /// Its reply is known (the words were wrong, for instance).
    Fixed(Reply),
    /// Operations, with the way their replies become one; without it there is one operation.
    Ops(Vec<KeyedOp>, Option<Merge>),
    /// Reads and writes that depend on them.
    Compound(Compound),
    /// A blocking command, which does not wait inside of a transaction.
    Attempts(Blocking),
    /// A command of the session, carried out after the transaction.
    Later(ArgBuf),
}

impl Step {
    /// Whether the operations are known before anything is read.
    pub fn is_direct(&self) -> bool {
        !matches!(self, Self::Compound(_) | Self::Attempts(_))
    }
}

impl From<Command> for Step {
    fn from(command: Command) -> Self {
        match command {
            Command::Single(key, op) => Self::Ops(vec![(key, op)], None),
            Command::Multi { ops, merge } => Self::Ops(ops, Some(merge)),
            Command::Compound(compound) => Self::Compound(compound),
            Command::Blocking(blocking) => Self::Attempts(blocking),
            // Inside of a transaction nobody waits.
            Command::Awaiting(adt::Awaiting { key, op, .. }) => Self::Ops(vec![(key, op)], None),
        }
    }
}

/// Something to carry out atomically, and where the reply goes.
pub(super) struct Program {
    pub target: Target,
    pub steps: Vec<Step>,
    pub form: Form,
    pub guards: Vec<Guard>,
    pub fences: Vec<Fence>,
    pub request: Option<RequestId>,
}

/// Operations and what makes a reply of theirs.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub ops: Vec<KeyedOp>,
    pub outcomes: Vec<Outcome>,
    /// Where the writes to a key are, once there are many.
    index: Map<Blob, Vec<u32>>,
    indexed: usize,
}

/// Operations up to which looking through all of them is quicker than an index.
const UNINDEXED_MAX: usize = 64;

impl Work {
    /// Adds the operations of a command.
    pub fn add(&mut self, ops: Vec<KeyedOp>, merge: Option<Merge>) {
        self.outcomes.push(match merge {
            Some(merge) => Outcome::Merged(ops.len() as u32, merge),
            None => Outcome::Next,
        });
        if self.ops.is_empty() {
            self.ops = ops;
        } else {
            self.ops.extend(ops);
        }
    }

    /// Writes to `key` so far: what a read of the same transaction must see.
    pub fn own(&mut self, key: &Blob) -> Vec<Op> {
        if self.ops.len() <= UNINDEXED_MAX {
            let own = self.ops.iter().filter(|(k, op)| k == key && op.is_write());
            return own.map(|(_, op)| op.clone()).collect();
        }
        for (at, (key, op)) in self.ops.iter().enumerate().skip(self.indexed) {
            if op.is_write() {
                self.index.entry(key.clone()).or_default().push(at as u32);
            }
        }
        self.indexed = self.ops.len();
        let places = self.index.get(key).map_or(&[][..], Vec::as_slice);
        places.iter().map(|&at| self.ops[at as usize].1.clone()).collect()
    }

    /// Whether there are writes to `key`.
    pub fn writes(&self, key: &Blob) -> bool {
        self.ops.iter().any(|(k, op)| k == key && op.is_write())
    }

    /// Adds operations whose replies nobody gets.
    pub fn add_silent(&mut self, ops: Vec<KeyedOp>) {
        if !ops.is_empty() {
            self.outcomes.push(Outcome::Silent(ops.len() as u32));
            self.ops.extend(ops);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_dealt_to_their_commands() {
        let finish = Finish {
            outcomes: vec![
                Outcome::Next,
                Outcome::Fixed(Reply::Ok),
                Outcome::Silent(2),
                Outcome::Merged(2, Merge::Sum),
                Outcome::Merged(0, Merge::Array),
                Outcome::Next,
            ],
            form: Form::Array,
            later: Vec::new(),
        };
        let items = finish.items((1..=6).map(Reply::Int));
        let expected =
            vec![Reply::Int(1), Reply::Ok, Reply::Int(9), Reply::Array(vec![]), Reply::Int(6)];
        assert_eq!(items, expected);
        assert_eq!(finish.reply(items), Reply::Array(expected));
    }
}
