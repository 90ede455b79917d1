//! Tasks on a record, and the programs for them that speak the Redis protocol, as a user of the
//! client library would write them.

use super::answer::Answer;
use super::scripts::{self, Call, OF_ACQUIRE, OF_RELEASE};
use crate::load::random::{Rng, Zipf};
use crate::load::resp;
use crate::load::runner::{Api, Retry};
use crate::load::workload::{Op, Ops, Shape, Workload};
use clap::ValueEnum;
use std::sync::Arc;
use wire::resp::ClientReply;

/// Prefix of the records' keys.
const PREFIX: &str = "stock:";
/// Prefix of auctions that are one value.
const AUCTION: &str = "auction:";
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
    /// Take a token from a bucket that refills with time, if one is left. Only as a script.
    Bucket,
    /// Acquire a lock, and release it with the next script. Only as scripts.
    Release,
    /// Move the next job of a queue to the active ones and read it; put one into the queue if it is
    /// empty. Only as a script.
    Fetch,
    /// Bid in an auction that is not closed: it keeps the best bid, and the number of bids.
    Auction,
}

impl Task {
    /// Name in rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rewrite => "rewrite",
            Self::Take => "take",
            Self::Stock => "stock",
            Self::Bucket => "bucket",
            Self::Release => "release",
            Self::Fetch => "fetch",
            Self::Auction => "auction",
        }
    }

    /// Whether there is nothing but a script for it.
    pub fn is_script(self) -> bool {
        matches!(self, Self::Bucket | Self::Release | Self::Fetch)
    }

    /// Number in every record in the beginning, for tasks on numbers.
    pub fn initial(self) -> i64 {
        match self {
            Self::Rewrite | Self::Bucket | Self::Release | Self::Fetch | Self::Auction => 0,
            Self::Take => PLENTY,
            Self::Stock => CAPACITY / 2,
        }
    }

    /// Number of jobs, or of amounts of bids.
    pub fn jobs(self) -> u64 {
        if self == Self::Auction { 1_000_000_000 } else { scripts::JOBS }
    }

    /// Number to add.
    pub fn delta(self, rng: &mut Rng) -> i64 {
        match self {
            Self::Rewrite | Self::Bucket | Self::Release | Self::Fetch | Self::Auction => 1,
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
    /// A script that the server knows, `EVALSHA`.
    Eval,
    /// `MULTI`, `INCRBY`, `EXEC`: nothing has to be read.
    Multi,
    /// An operation of a composed type that the server knows.
    Type,
    /// `TXN BEGIN`, `HMGET`, `HSET` and `HINCRBY` of one hash, `TXN COMMIT`, again after an abort: the
    /// program of [`Program::Watch`] as a transaction.
    Hash,
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
            Self::Type => "type",
            Self::Hash => "txn hash",
        }
    }

    /// Way to send the operations, and what follows an abort.
    pub fn manner(self) -> (Api, Retry) {
        match self {
            Self::Txn | Self::Hash => (Api::Client, Retry::PATIENT),
            Self::Try | Self::Eval | Self::Type => (Api::Plain, Retry::PATIENT),
            Self::Watch => (Api::Watch, Retry::AT_ONCE),
            Self::Multi => (Api::Oneshot, Retry::PATIENT),
        }
    }

    /// Whether records are counters with bounds rather than strings.
    fn counts(self, task: Task) -> bool {
        matches!(task, Task::Take | Task::Stock) && matches!(self, Self::Txn | Self::Try)
    }

    /// Commands that create a record.
    pub fn create(self, task: Task, record: u64) -> Vec<Vec<u8>> {
        match task {
            Task::Rewrite | Task::Take | Task::Stock => vec![self.create_number(task, record)],
            Task::Bucket | Task::Release | Task::Auction => Vec::new(),
            Task::Fetch => scripts::fill_queue(record),
        }
    }

    /// Commands that ask an auction for its best bid and for the number of bids.
    pub fn questions(self, record: u64) -> [Vec<String>; 2] {
        let (key, [_, best, bids]) = (format!("{AUCTION}{record}"), scripts::auction(record));
        let questions: [Vec<&str>; 2] = match self {
            Self::Txn => [vec!["TOPK.BEST", &best, "1", "WITHSCORES"], vec!["COUNTER.GET", &bids]],
            Self::Type => [vec!["auction.best", &key], vec!["auction.count", &key]],
            Self::Eval => [vec!["HGET", &best, "amount"], vec!["GET", &bids]],
            Self::Try | Self::Watch | Self::Multi | Self::Hash => {
                [vec!["HGET", &key, "best"], vec!["HGET", &key, "bids"]]
            }
        };
        questions.map(|words| words.into_iter().map(str::to_owned).collect())
    }

    fn create_number(self, task: Task, record: u64) -> Vec<u8> {
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

/// Kinds of transactions: those that did what they should, and those that a guard refused.
pub const KINDS: [&str; 2] = ["done", "refused"];

/// Clients of one program, as a load.
#[derive(Clone, Debug)]
pub struct Load {
    task: Task,
    program: Program,
    popularity: Zipf,
    /// Names of the scripts.
    scripts: Arc<[String]>,
    /// Number of the load among those of the cell.
    number: usize,
    /// Lock that each client holds.
    held: Vec<Option<u64>>,
    /// Bids that were taken.
    answer: Answer,
}

/// A transaction.
#[derive(Clone, Copy, Debug)]
pub struct Txn {
    client: usize,
    record: u64,
    delta: i64,
    job: u64,
    step: u8,
    /// Position of the script.
    script: usize,
    refused: bool,
}

impl Load {
    /// Creates the load of a thread. `scripts` has the names that the server gave to the task's
    /// scripts, if the program needs them.
    pub fn new(task: Task, program: Program, popularity: Zipf, scripts: Arc<[String]>) -> Self {
        let (held, answer) = (Vec::new(), Answer::default());
        Self { task, program, popularity, scripts, number: 0, held, answer }
    }

    /// Copy of this load for another thread.
    pub fn numbered(&self, number: usize) -> Self {
        Self { number, ..self.clone() }
    }

    /// Bids that were taken.
    pub fn answer(&self) -> Answer {
        self.answer
    }

    /// A guard or a value that must be read first, and then the write that follows from it.
    fn first(&self, txn: Txn, ops: &mut Ops) {
        let key = (PREFIX, txn.record);
        match (self.program, self.task) {
            (Program::Try, _) => {
                ops.read("COUNTER.TRY", key, &[txn.delta.to_string().as_bytes()]);
            }
            (Program::Eval, _) => self.eval(txn, ops),
            (Program::Type, _) => {
                let (key, bid, bidder) =
                    (format!("{AUCTION}{}", txn.record), bid(txn), self.bidder(txn));
                put(&["auction.bid", &key, &bid, &bidder], true, ops);
            }
            (Program::Watch | Program::Hash, Task::Auction) => {
                ops.read("HMGET", (AUCTION, txn.record), &[b"closed", b"best"]);
            }
            (_, Task::Auction) => {
                let [closed, ..] = scripts::auction(txn.record);
                put(&["EXISTS", &closed], true, ops);
            }
            (Program::Multi, _) => {
                ops.write("INCRBY", key, &[txn.delta.to_string().as_bytes()]);
            }
            (Program::Txn, task) if self.program.counts(task) => {
                let needed = if txn.delta < 0 { 1 } else { CAPACITY };
                ops.read("COUNTER.ATLEAST", key, &[needed.to_string().as_bytes()]);
            }
            (Program::Watch | Program::Txn | Program::Hash, _) => ops.read("GET", key, &[]),
        }
    }

    fn second(&self, txn: Txn, reply: Option<&ClientReply>, ops: &mut Ops) {
        let key = (PREFIX, txn.record);
        let delta = txn.delta.to_string();
        if self.task == Task::Auction {
            if self.program != Program::Txn {
                self.bid_in_hash(txn, reply, ops);
            } else if reply.is_some_and(refuses) {
                let [_, best, bids] = scripts::auction(txn.record);
                put(&["TOPK.PUT", &best, &self.bidder(txn), &bid(txn)], false, ops);
                put(&["COUNTER.ADD", &bids, "1"], false, ops);
            }
            return;
        }
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

    /// The writes of a bid, if the auction that was read is open: the best bid, if this is it, and the count.
    fn bid_in_hash(&self, txn: Txn, reply: Option<&ClientReply>, ops: &mut Ops) {
        let read = match reply {
            Some(ClientReply::Array(items)) => &items[..],
            _ => &[],
        };
        let [ClientReply::Nil, best] = read else { return };
        let best = match best {
            ClientReply::Bulk(digits) => std::str::from_utf8(digits).ok(),
            _ => None,
        };
        let best: u64 = best.and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let key = (AUCTION, txn.record);
        if txn.job > best {
            let (bid, bidder) = (bid(txn), self.bidder(txn));
            let words = [&b"best"[..], bid.as_bytes(), b"bidder", bidder.as_bytes()];
            ops.write("HSET", key, &words);
        }
        ops.write("HINCRBY", key, &[b"bids", b"1"]);
    }

    fn eval(&self, txn: Txn, ops: &mut Ops) {
        let Some(name) = self.scripts.get(txn.script) else { return };
        let token = self.bidder(txn);
        let Txn { record, delta, job, .. } = txn;
        let call = Call { task: self.task, name, record, delta, job, token: &token };
        call.put(&mut ops.bytes);
        end_command(true, ops);
    }

    /// Name of a client, unlike all others.
    fn bidder(&self, txn: Txn) -> String {
        format!("{}-{}", self.number, txn.client)
    }

    /// Lock that a client holds.
    fn held(&mut self, client: usize) -> &mut Option<u64> {
        if self.held.len() <= client {
            self.held.resize(client + 1, None);
        }
        &mut self.held[client]
    }
}

/// Amount of a bid.
fn bid(txn: Txn) -> String {
    txn.job.to_string()
}

/// Adds a command to what is sent.
fn put(words: &[&str], read: bool, ops: &mut Ops) {
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    resp::command(&mut ops.bytes, &words);
    end_command(read, ops);
}

/// Ends a command whose bytes were added.
fn end_command(read: bool, ops: &mut Ops) {
    ops.list.push(Op { end: ops.bytes.len(), key: (0, 0), read, joined: false });
}

/// Whether a reply says that nothing was done.
fn refuses(reply: &ClientReply) -> bool {
    matches!(reply, ClientReply::Int(0) | ClientReply::Bool(false))
}

impl Workload for Load {
    type Txn = Txn;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn begin(&mut self, client: usize, _now_ns: u64, rng: &mut Rng) -> Txn {
        let held = *self.held(client);
        let record = held.unwrap_or_else(|| self.popularity.draw(rng) as u64);
        let script = if held.is_some() { OF_RELEASE } else { OF_ACQUIRE };
        let (delta, job) = (self.task.delta(rng), rng.below(self.task.jobs()));
        Txn { client, record, delta, job, step: 0, script, refused: false }
    }

    fn kind(&self, txn: &Txn) -> usize {
        usize::from(txn.refused)
    }

    fn shape(&self, _txn: &Txn) -> Shape {
        match self.program {
            Program::Try | Program::Eval | Program::Type => Shape::Single,
            Program::Txn | Program::Hash | Program::Watch | Program::Multi => Shape::Updates,
        }
    }

    fn step(&mut self, txn: &mut Txn, replies: &[ClientReply], ops: &mut Ops) -> bool {
        let twice = matches!(self.program, Program::Txn | Program::Hash | Program::Watch);
        txn.step += 1;
        match txn.step {
            1 => self.first(*txn, ops),
            2 if twice => self.second(*txn, replies.first(), ops),
            2 => {
                txn.refused = replies.first().is_some_and(refuses);
                return false;
            }
            _ => return false,
        }
        // A guard that refuses leaves nothing to write.
        txn.refused = ops.list.is_empty();
        !txn.refused
    }

    fn restart(&mut self, txn: &mut Txn) {
        (txn.step, txn.refused) = (0, false);
    }

    fn committed(&mut self, client: usize, txn: Txn, _now_ns: u64, _rng: &mut Rng) {
        if self.task == Task::Release {
            let acquired = txn.script == OF_ACQUIRE && !txn.refused;
            *self.held(client) = acquired.then_some(txn.record);
        }
        if self.task == Task::Auction && !txn.refused {
            self.answer.bid(txn.job);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(task: Task, program: Program) -> Load {
        let scripts = ["one".to_owned(), "two".to_owned()];
        Load::new(task, program, Zipf::new(1, 0.0), Arc::new(scripts))
    }

    /// Words that a program sends in its two steps, given the reply to the first.
    fn words(task: Task, program: Program, delta: i64, reply: ClientReply) -> [String; 2] {
        let mut load = load(task, program);
        let mut txn = load.begin(0, 0, &mut Rng::new(1));
        (txn.record, txn.delta) = (3, delta);
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
        assert_eq!(script, "EVALSHA one 1 stock:3 1");
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
    fn a_bid_is_a_guard_and_two_writes_or_one_operation() {
        let open = words(Task::Auction, Program::Txn, 1, ClientReply::Int(0));
        assert_eq!(open[0], "EXISTS {auction:3}:closed");
        assert!(open[1].starts_with("TOPK.PUT {auction:3}:best 0-0 "), "{}", open[1]);
        assert!(open[1].ends_with(" COUNTER.ADD {auction:3}:bids 1"), "{}", open[1]);
        assert_eq!(words(Task::Auction, Program::Txn, 1, ClientReply::Int(1))[1], "", "it is over");
        let read = |closed| {
            let best = ClientReply::Bulk(b"0"[..].into());
            words(Task::Auction, Program::Watch, 1, ClientReply::Array(vec![closed, best]))
        };
        let [hash, bid] = read(ClientReply::Nil);
        assert_eq!(hash, "HMGET auction:3 closed best");
        assert!(bid.starts_with("HSET auction:3 best ") && bid.contains(" bidder 0-0 "), "{bid}");
        assert!(bid.ends_with(" HINCRBY auction:3 bids 1"), "{bid}");
        assert_eq!(read(ClientReply::Bulk(b"1"[..].into()))[1], "", "it is over");
        let [bid, rest] = words(Task::Auction, Program::Type, 1, ClientReply::Int(1));
        assert!(bid.starts_with("auction.bid auction:3 ") && bid.ends_with(" 0-0"), "{bid}");
        assert_eq!(rest, "");
    }

    #[test]
    fn records_are_created_as_their_programs_need_them() {
        let text = |program: Program, task| {
            let bytes = program.create(task, 1).concat();
            String::from_utf8(bytes).expect("text").replace("\r\n", " ")
        };
        assert!(text(Program::Txn, Task::Stock).contains("COUNTER.SET $7 stock:1 $2 50 $3 MIN"));
        assert!(text(Program::Txn, Task::Stock).contains("MAX $3 100"));
        assert!(!text(Program::Try, Task::Take).contains("MAX"));
        assert!(text(Program::Watch, Task::Stock).contains("$3 SET $7 stock:1 $2 50"));
    }

    #[test]
    fn a_client_releases_the_lock_that_it_got() {
        let mut load = load(Task::Release, Program::Eval).numbered(2);
        let mut rng = Rng::new(1);
        let mut next = |reply| {
            let mut txn = load.begin(5, 0, &mut rng);
            let mut ops = Ops::default();
            assert!(load.step(&mut txn, &[], &mut ops));
            assert!(!load.step(&mut txn, &[ClientReply::Int(reply)], &mut ops));
            let kind = KINDS[load.kind(&txn)];
            load.committed(5, txn, 0, &mut rng);
            let text = String::from_utf8(ops.bytes).expect("text");
            assert!(text.contains("2-5"), "a token of its own");
            (text.contains("two"), kind)
        };
        assert_eq!(next(0), (false, "refused"), "another client has it");
        assert_eq!(next(1), (false, "done"));
        assert_eq!(next(1), (true, "done"));
        assert_eq!(next(1), (false, "done"), "it is free again");
    }
}
