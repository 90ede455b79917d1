//! Stories: the operations of clients, and possible failures.

use std::fmt;

/// Number of an operation: its place in [`Story::ops`].
pub type OpId = u8;

/// Several operations, a bit each.
pub type Ops = u16;

/// The operations in a set, the lowest number first.
pub fn each(ops: Ops) -> impl Iterator<Item = OpId> {
    (0..Ops::BITS as OpId).filter(move |op| ops & bit(*op) != 0)
}

/// A set of one operation.
pub fn bit(op: OpId) -> Ops {
    1 << op
}

/// Operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Client that issues it.
    pub client: u8,
    /// The shard that has the list.
    pub shard: u8,
    /// The list.
    pub key: u8,
    /// Whether it only reads.
    pub reads: bool,
    /// Whether it is issued only when all earlier ones of the client are answered.
    pub waits: bool,
}

impl Op {
    /// Whether the order of two operations is visible.
    pub fn conflicts(&self, other: &Self) -> bool {
        (self.shard, self.key) == (other.shard, other.key) && !(self.reads && other.reads)
    }
}

/// Operations of the clients, and numbers of possible failures.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Story {
    /// Each client's operations in the order in which they are issued, one client after the other.
    pub ops: Vec<Op>,
    /// Whether operations are issued one by one instead of all possible ones at once.
    pub one_by_one: bool,
    /// Most changes of leaders.
    pub changes: u8,
    /// Most operations that are asked about because they do not arrive.
    pub questions: u8,
}

impl Story {
    /// A story in short form: for each client its operations. `a` appends to a list of shard A, `A`
    /// reads it; `a2` is another list of the same shard; `;` waits for all replies before.
    ///
    /// # Panics
    /// If the text is not a story.
    pub fn of(clients: &[&str]) -> Self {
        let mut story = Self::default();
        for (client, text) in clients.iter().enumerate() {
            let mut waits = false;
            for word in text.split_whitespace() {
                if word == ";" {
                    waits = true;
                    continue;
                }
                let letter = word.as_bytes()[0];
                let shard = letter.to_ascii_lowercase().checked_sub(b'a').expect("a letter");
                let key = if word.len() > 1 { word[1..].parse().expect("a number") } else { 0 };
                let reads = letter.is_ascii_uppercase();
                story.ops.push(Op { client: client as u8, shard, key, reads, waits });
                waits = false;
            }
        }
        assert!(story.ops.len() <= Ops::BITS as usize, "too many operations");
        story
    }

    /// Allows this many changes of leaders.
    pub fn changes(self, changes: u8) -> Self {
        Self { changes, ..self }
    }

    /// Allows this many operations to be asked about and refused if they have not arrived.
    pub fn questions(self, questions: u8) -> Self {
        Self { questions, ..self }
    }

    /// Lets every client issue one operation after the other, with any time between.
    pub fn one_by_one(self) -> Self {
        Self { one_by_one: true, ..self }
    }

    /// One operation.
    pub fn op(&self, op: OpId) -> &Op {
        &self.ops[usize::from(op)]
    }

    /// Operations of a client, in the order in which they are issued.
    pub fn of_client(&self, client: u8) -> impl Iterator<Item = OpId> {
        (0..self.ops.len() as OpId).filter(move |op| self.op(*op).client == client)
    }

    /// Number of clients.
    pub fn clients(&self) -> u8 {
        self.ops.iter().map(|op| op.client + 1).max().unwrap_or(0)
    }

    /// Number of shards.
    pub fn shards(&self) -> u8 {
        self.ops.iter().map(|op| op.shard + 1).max().unwrap_or(0)
    }
}

/// The form that [`Story::of`] reads, and the possible failures.
impl fmt::Display for Story {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for client in 0..self.clients() {
            f.write_str(if client == 0 { "\"" } else { ", \"" })?;
            for (at, op) in self.of_client(client).map(|op| self.op(op)).enumerate() {
                let letter = char::from(if op.reads { b'A' } else { b'a' } + op.shard);
                let (gap, barrier) =
                    (if at > 0 { " " } else { "" }, if op.waits { "; " } else { "" });
                write!(f, "{gap}{barrier}{letter}")?;
                if op.key > 0 {
                    write!(f, "{}", op.key)?;
                }
            }
            f.write_str("\"")?;
        }
        if self.one_by_one {
            f.write_str(", one by one")?;
        }
        write!(f, ", {} changes of leaders, {} questions", self.changes, self.questions)
    }
}
