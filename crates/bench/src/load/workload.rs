//! Definition of a load, independent of how its operations reach the server.

use super::random::Rng;
use super::resp;
use wire::resp::ClientReply;

/// Kind of a transaction as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one operation.
    Single,
    /// Only reads.
    Reads,
    /// Anything.
    Updates,
}

/// One operation in [`Ops`].
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// End of its bytes; they begin at the end of the operation before.
    pub end: usize,
    /// Position of its key.
    pub key: (usize, usize),
    /// Whether it is a read; otherwise it is a write whose reply is not needed.
    pub read: bool,
    /// Whether it is sent together with the operation before it rather than after that one's reply.
    pub joined: bool,
}

/// Operations as the bytes of commands.
#[derive(Clone, Debug, Default)]
pub struct Ops {
    /// Commands one after another.
    pub bytes: Vec<u8>,
    /// Operations in order.
    pub list: Vec<Op>,
}

impl Ops {
    /// Removes all operations.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.list.clear();
    }

    /// Adds a command: its name, the prefix and number of its key, and further words.
    pub fn push(&mut self, read: bool, name: &str, key: (&str, u64), words: &[&[u8]]) {
        resp::header(&mut self.bytes, 2 + words.len());
        resp::word(&mut self.bytes, name.as_bytes());
        let before = self.bytes.len();
        resp::numbered(&mut self.bytes, key.0.as_bytes(), key.1);
        let end = self.bytes.len() - 2;
        let digits = key.1.checked_ilog10().map_or(1, |log| log as usize + 1);
        let start = end - key.0.len() - digits;
        assert!(start > before);
        words.iter().for_each(|word| resp::word(&mut self.bytes, word));
        let end_of_command = self.bytes.len();
        self.list.push(Op { end: end_of_command, key: (start, end), read, joined: false });
    }

    /// Adds a read, whose reply is passed to the next step.
    pub fn read(&mut self, name: &str, key: (&str, u64), words: &[&[u8]]) {
        self.push(true, name, key, words);
    }

    /// Adds a write whose reply is not needed.
    pub fn write(&mut self, name: &str, key: (&str, u64), words: &[&[u8]]) {
        self.push(false, name, key, words);
    }

    /// Sends the last operation together with the one before it.
    pub fn join(&mut self) {
        if let Some(last) = self.list.last_mut() {
            last.joined = true;
        }
    }

    /// Bytes of an operation.
    pub fn command(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.list[index - 1].end };
        &self.bytes[start..self.list[index].end]
    }
}

/// A mix of transactions. Each transaction is a program in steps: a step may use the replies of the
/// previous step's reads and adds the next operations.
pub trait Workload {
    /// A transaction in progress, with all random choices made, so that it can be run again.
    type Txn;

    /// Whether steps use replies; otherwise none are decoded.
    const LOOKS: bool;

    /// Names of the kinds of transactions.
    fn kinds(&self) -> &'static [&'static str];

    /// Next transaction of a client. `now_ns` is the client's clock.
    fn begin(&mut self, client: usize, now_ns: u64, rng: &mut Rng) -> Self::Txn;

    /// Kind of the transaction: an index into [`Workload::kinds`].
    fn kind(&self, txn: &Self::Txn) -> usize;

    /// Shape of the transaction as a whole.
    fn shape(&self, txn: &Self::Txn) -> Shape;

    /// Adds the operations of the next step; `false` when there is none.
    fn step(&mut self, txn: &mut Self::Txn, replies: &[ClientReply], ops: &mut Ops) -> bool;

    /// Resets the transaction to its first step.
    fn restart(&mut self, txn: &mut Self::Txn);

    /// Handles the commit of a transaction; by default nothing follows from it.
    fn committed(&mut self, _client: usize, _txn: Self::Txn, _now_ns: u64, _rng: &mut Rng) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_the_commands() {
        let mut ops = Ops::default();
        ops.read("SCARD", ("set:", 0), &[]);
        ops.write("SADD", ("set:", 120), &[b"x"]);
        ops.join();
        let key = |i: usize| &ops.bytes[ops.list[i].key.0..ops.list[i].key.1];
        assert_eq!((key(0), key(1)), (&b"set:0"[..], &b"set:120"[..]));
        let second = b"*3\r\n$4\r\nSADD\r\n$7\r\nset:120\r\n$1\r\nx\r\n";
        assert_eq!(ops.command(1), second);
        assert!(ops.list[1].joined && !ops.list[0].joined);
    }
}
