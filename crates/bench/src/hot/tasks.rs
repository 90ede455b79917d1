//! Tasks on a record, and the programs for them that speak the Redis protocol, as a user of the
//! client library would write them.

use crate::load::random::{Rng, Zipf};
use crate::load::resp;
use crate::load::runner::{Api, Retry};
use crate::load::workload::{Op, Ops, Shape, Workload};
use clap::ValueEnum;
use wire::resp::ClientReply;

/// Prefix of the records' keys.
const PREFIX: &str = "stock:";
/// Items of a stock that never runs out.
pub const PLENTY: i64 = 1_000_000_000_000;
/// Most items of a bounded stock.
pub const CAPACITY: i64 = 100;

/// Key of a record.
pub fn key(record: u64) -> String {
    format!("{PREFIX}{record}")
}

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Task {
    /// Read a number, add one, write it back.
    Rewrite,
    /// Take one item if there is at least one; there always is.
    Take,
    /// Take one if there is at least one, or bring one if there are fewer than a hundred; either
    /// with the same probability.
    Stock,
}

impl Task {
    /// Name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Take => "take",
            Self::Stock => "stock",
        }
    }

    /// Value of every record in the beginning.
    pub fn initial(self) -> i64 {
        match self {
            Self::Rewrite => 0,
            Self::Take => PLENTY,
            Self::Stock => CAPACITY / 2,
        }
    }

    /// Number to add.
    pub fn delta(self, rng: &mut Rng) -> i64 {
        match self {
            Self::Rewrite => 1,
            Self::Take => -1,
            Self::Stock => {
                if rng.chance(0.5) {
                    1
                } else {
                    -1
                }
            }
        }
    }
}

/// A program over the Redis protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// `TXN BEGIN`, what must be known, the write, `TXN COMMIT`, again after an abort. Counters are
    /// asked no more than needed (`COUNTER.ATLEAST`).
    Txn,
    /// One command that has its own guard, `COUNTER.TRY`.
    Try,
    /// `WATCH`, `GET`, `MULTI`, `SET`, `EXEC`, again if that did nothing.
    Watch,
    /// A script, `EVAL`.
    Eval,
    /// `MULTI`, `INCRBY`, `EXEC`: nothing has to be read.
    Multi,
}

impl Program {
    /// Name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Txn => "txn",
            Self::Try => "try",
            Self::Watch => "watch",
            Self::Eval => "eval",
            Self::Multi => "multi",
        }
    }

    /// Way to send the operations, and what follows an abort.
    pub fn manner(self) -> (Api, Retry) {
        match self {
            Self::Txn => (Api::Client, Retry::PATIENT),
            Self::Try | Self::Eval => (Api::Plain, Retry::PATIENT),
            Self::Watch => (Api::Watch, Retry::AT_ONCE),
            Self::Multi => (Api::Oneshot, Retry::PATIENT),
        }
    }

    /// Whether records are counters with bounds rather than strings.
    fn counts(self, task: Task) -> bool {
        task != Task::Rewrite && matches!(self, Self::Txn | Self::Try)
    }

    /// Command that creates a record.
    pub fn create(self, task: Task, record: u64) -> Vec<u8> {
        let mut out = Vec::new();
        let initial = task.initial().to_string();
        let capacity = CAPACITY.to_string();
        let key = key(record);
        let mut words = vec!["SET", &key, &initial];
        if self.counts(task) {
            words[0] = "COUNTER.SET";
            words.extend(["MIN", "0"]);
            if task == Task::Stock {
                words.extend(["MAX", &capacity]);
            }
        }
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        resp::command(&mut out, &words);
        out
    }
}

fn script(task: Task) -> &'static str {
    match task {
        Task::Rewrite => {
            "redis.call('SET', KEYS[1], redis.call('GET', KEYS[1]) + ARGV[1]) return 1"
        }
        Task::Take => {
            "if tonumber(redis.call('GET', KEYS[1])) >= 1 then \
             redis.call('INCRBY', KEYS[1], ARGV[1]) return 1 end return 0"
        }
        Task::Stock => {
            "local n = redis.call('GET', KEYS[1]) + ARGV[1] if n < 0 or n > 100 then return 0 end \
             redis.call('SET', KEYS[1], n) return 1"
        }
    }
}

/// Clients of one program, as a load.
#[derive(Clone, Debug)]
pub struct Load {
    /// The task.
    pub task: Task,
    /// The program.
    pub program: Program,
    /// Popularity of the records.
    pub popularity: Zipf,
}

/// A transaction.
#[derive(Clone, Copy, Debug)]
pub struct Txn {
    record: u64,
    delta: i64,
    step: u8,
}

impl Load {
    /// A guard or a value that must be read first, and then the write that follows from it.
    fn first(&self, txn: Txn, ops: &mut Ops) {
        let key = (PREFIX, txn.record);
        match (self.program, self.task) {
            (Program::Try, _) => {
                ops.read("COUNTER.TRY", key, &[txn.delta.to_string().as_bytes()]);
            }
            (Program::Eval, task) => eval(ops, script(task), txn),
            (Program::Multi, _) => {
                ops.write("INCRBY", key, &[txn.delta.to_string().as_bytes()]);
            }
            (Program::Txn, Task::Take | Task::Stock) => {
                let needed = if txn.delta < 0 { 1 } else { CAPACITY };
                ops.read("COUNTER.ATLEAST", key, &[needed.to_string().as_bytes()]);
            }
            (Program::Watch, _) | (Program::Txn, Task::Rewrite) => ops.read("GET", key, &[]),
        }
    }

    fn second(&self, txn: Txn, reply: Option<&ClientReply>, ops: &mut Ops) {
        let key = (PREFIX, txn.record);
        let delta = txn.delta.to_string();
        if self.program.counts(self.task) {
            let enough = matches!(reply, Some(ClientReply::Int(1) | ClientReply::Bool(true)));
            if enough == (txn.delta < 0) {
                ops.write("COUNTER.TRY", key, &[delta.as_bytes()]);
            }
            return;
        }
        let value = match reply {
            Some(ClientReply::Bulk(digits)) => std::str::from_utf8(digits).ok(),
            _ => None,
        };
        let sum = value.and_then(|digits| digits.parse::<i64>().ok()).unwrap_or(0) + txn.delta;
        ops.write("SET", key, &[sum.to_string().as_bytes()]);
    }
}

/// A script's key is not its first word, so it is put together here.
fn eval(ops: &mut Ops, script: &str, txn: Txn) {
    let (key, delta) = (key(txn.record), txn.delta.to_string());
    let words = ["EVAL", script, "1", &key, &delta].map(str::as_bytes);
    resp::command(&mut ops.bytes, &words);
    ops.list.push(Op { end: ops.bytes.len(), key: (0, 0), read: true, joined: false });
}

impl Workload for Load {
    type Txn = Txn;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &["txn"]
    }

    fn begin(&mut self, _client: usize, _now_ns: u64, rng: &mut Rng) -> Txn {
        let record = self.popularity.draw(rng) as u64;
        Txn { record, delta: self.task.delta(rng), step: 0 }
    }

    fn kind(&self, _txn: &Txn) -> usize {
        0
    }

    fn shape(&self, _txn: &Txn) -> Shape {
        match self.program {
            Program::Try | Program::Eval => Shape::Single,
            Program::Txn | Program::Watch | Program::Multi => Shape::Updates,
        }
    }

    fn step(&mut self, txn: &mut Txn, replies: &[ClientReply], ops: &mut Ops) -> bool {
        let twice = matches!(self.program, Program::Txn | Program::Watch);
        txn.step += 1;
        match txn.step {
            1 => self.first(*txn, ops),
            2 if twice => self.second(*txn, replies.first(), ops),
            _ => return false,
        }
        // A guard that refuses leaves nothing to write.
        !ops.list.is_empty()
    }

    fn restart(&mut self, txn: &mut Txn) {
        txn.step = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(task: Task, program: Program) -> Load {
        Load { task, program, popularity: Zipf::new(1, 0.0) }
    }

    /// Words that a program sends in its two steps, given the reply to the first.
    fn words(task: Task, program: Program, delta: i64, reply: ClientReply) -> [String; 2] {
        let mut load = load(task, program);
        let mut txn = Txn { record: 3, delta, step: 0 };
        [vec![], vec![reply]].map(|replies| {
            let mut ops = Ops::default();
            load.step(&mut txn, &replies, &mut ops);
            let text = String::from_utf8(ops.bytes).expect("text");
            let words = text.lines().filter(|line| !line.starts_with(['*', '$']));
            words.collect::<Vec<_>>().join(" ")
        })
    }

    #[test]
    fn a_number_is_read_and_written_back() {
        let nine = ClientReply::Bulk(b"9"[..].into());
        for program in [Program::Txn, Program::Watch] {
            let sent = words(Task::Rewrite, program, 1, nine.clone());
            assert_eq!(sent, ["GET stock:3", "SET stock:3 10"]);
        }
        let [script, rest] = words(Task::Rewrite, Program::Eval, 1, nine);
        assert!(script.starts_with("EVAL redis.call") && script.ends_with("1 stock:3 1"));
        let blind = words(Task::Rewrite, Program::Multi, 1, ClientReply::Nil);
        assert_eq!(blind, ["INCRBY stock:3 1", ""]);
        assert_eq!(rest, "");
    }

    #[test]
    fn guards_are_asked_no_more_than_needed() {
        let (yes, no) = (ClientReply::Int(1), ClientReply::Int(0));
        let txn = |delta, reply| words(Task::Stock, Program::Txn, delta, reply);
        let take = ["COUNTER.ATLEAST stock:3 1", "COUNTER.TRY stock:3 -1"];
        assert_eq!(txn(-1, yes.clone()), take);
        assert_eq!(txn(-1, no.clone())[1], "", "nothing is left");
        let bring = ["COUNTER.ATLEAST stock:3 100", "COUNTER.TRY stock:3 1"];
        assert_eq!(txn(1, no), bring);
        assert_eq!(txn(1, yes.clone())[1], "", "there is no room");
        assert_eq!(words(Task::Take, Program::Try, -1, yes), ["COUNTER.TRY stock:3 -1", ""]);
    }

    #[test]
    fn records_are_created_as_their_programs_need_them() {
        let text = |program: Program, task| {
            String::from_utf8(program.create(task, 1)).expect("text").replace("\r\n", " ")
        };
        assert!(text(Program::Txn, Task::Stock).contains("COUNTER.SET $7 stock:1 $2 50 $3 MIN"));
        assert!(text(Program::Txn, Task::Stock).contains("MAX $3 100"));
        assert!(!text(Program::Try, Task::Take).contains("MAX"));
        assert!(text(Program::Watch, Task::Stock).contains("$3 SET $7 stock:1 $2 50"));
    }
}
