//! Clients that run the transactions of a [`Workload`] in one of several ways.

use super::driver::{Fleet, Turn};
use super::random::Rng;
use super::recorder::Recorder;
use super::resp;
use super::resp::Frame;
use super::threads::Recorded;
use super::workload::{Op, Ops, Shape, Workload};
use std::collections::VecDeque;
use wire::resp::ClientReply;

/// Interface by which operations reach the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// Each operation by itself, one after another; no transaction.
    Plain,
    /// All operations of a transaction in one write; no transaction.
    Pipelined,
    /// `TXN BEGIN BLIND` with the first operation, each operation awaited, `TXN COMMIT` awaited.
    Interactive,
    /// As the client library: `TXN BEGIN` and writes are sent with the next read or with the
    /// commit, reads are awaited, read-only transactions are declared as such and do not await the
    /// commit.
    Client,
    /// `MULTI`, the operations and `EXEC` in one write.
    Oneshot,
    /// `WATCH` of all keys and the reads in one write, then `MULTI`, the writes and `EXEC`.
    Watch,
}

impl Api {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Pipelined => "pipelined",
            Self::Interactive => "interactive",
            Self::Client => "client",
            Self::Oneshot => "oneshot",
            Self::Watch => "watch",
        }
    }
}

/// Retry policy of aborted transactions.
#[derive(Clone, Copy, Debug)]
pub struct Retry {
    /// Attempts after which the transaction is given up.
    pub attempts_max: u32,
    /// Upper bound of the first pause, in nanoseconds; it doubles with every attempt.
    pub base_ns: u64,
    /// Largest upper bound of a pause, in nanoseconds.
    pub cap_ns: u64,
}

impl Retry {
    /// Policy for transactions that queue at locks: retry soon, without limit.
    pub const PATIENT: Self = Self { attempts_max: u32::MAX, base_ns: 100_000, cap_ns: 10_000_000 };
    /// Policy for locks that fail at once on conflict: 320 retries, as in the study. Its pauses
    /// were chosen for the best throughput of that condition.
    pub const NO_WAIT: Self = Self { attempts_max: 321, base_ns: 200_000, cap_ns: 20_000_000 };
    /// Policy of typical programs that use `WATCH`: retry at once, without limit.
    pub const AT_ONCE: Self = Self { attempts_max: u32::MAX, base_ns: 0, cap_ns: 0 };

    /// Pause before the next attempt: uniform up to the bound, so that conflicting transactions
    /// spread out.
    fn pause_ns(&self, attempt: u32, rng: &mut Rng) -> u64 {
        let bound_ns = self.base_ns.saturating_mul(1 << attempt.min(20)).min(self.cap_ns);
        if bound_ns == 0 { 0 } else { rng.below(bound_ns) }
    }
}

/// Kind of an awaited reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// A reply that only confirms completion.
    Done,
    /// The reply of a read.
    Read,
    /// The reply that decides the outcome.
    Commit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Operations are being carried out.
    Running,
    /// The commit is under way.
    Committing,
}

struct Client<T> {
    rng: Rng,
    txn: Option<T>,
    stage: Stage,
    started_ns: u64,
    attempts: u32,
    ops: Ops,
    cursor: usize,
    /// Whether the server knows the transaction.
    begun: bool,
    /// Writes that have not been sent.
    deferred: Vec<u8>,
    deferred_count: u32,
    /// Commands that end the previous transaction, sent with the next message, and their number of
    /// replies.
    ending: (&'static [u8], u32),
    expected: VecDeque<Expected>,
    replies: Vec<ClientReply>,
    aborted: bool,
    /// Whether the abort came with the reply of the commit, so that the server has already ended
    /// the transaction.
    over: bool,
    busy: bool,
}

/// All clients of one cell.
pub struct Runner<'w, W: Workload> {
    workload: &'w mut W,
    api: Api,
    retry: Retry,
    clients: Vec<Client<W::Txn>>,
    /// Measured events.
    pub recorder: Recorder,
    /// Number of times a client has written and waited.
    pub turns: u64,
}

const BEGIN: &[u8] = b"*3\r\n$3\r\nTXN\r\n$5\r\nBEGIN\r\n$5\r\nBLIND\r\n";
const BEGIN_READONLY: &[u8] = b"*3\r\n$3\r\nTXN\r\n$5\r\nBEGIN\r\n$8\r\nREADONLY\r\n";
const COMMIT: &[u8] = b"*2\r\n$3\r\nTXN\r\n$6\r\nCOMMIT\r\n";
const ABORT: &[u8] = b"*2\r\n$3\r\nTXN\r\n$5\r\nABORT\r\n";
const MULTI: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
const EXEC: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";
/// Factor by which a client pauses longer when told to back off.
const BUSY_FACTOR: u64 = 10;

impl<'w, W: Workload> Runner<'w, W> {
    /// Creates clients that begin at their first turn.
    pub fn new(
        workload: &'w mut W,
        api: Api,
        retry: Retry,
        clients: usize,
        seed: u64,
        recorder: Recorder,
    ) -> Self {
        let client = |number: usize| Client {
            rng: Rng::new(seed.wrapping_mul(0x9e37_79b9).wrapping_add(number as u64)),
            txn: None,
            stage: Stage::Running,
            started_ns: 0,
            attempts: 0,
            ops: Ops::default(),
            cursor: 0,
            begun: false,
            deferred: Vec::new(),
            deferred_count: 0,
            ending: (b"", 0),
            expected: VecDeque::new(),
            replies: Vec::new(),
            aborted: false,
            over: false,
            busy: false,
        };
        Self {
            workload,
            api,
            retry,
            clients: (0..clients).map(client).collect(),
            recorder,
            turns: 0,
        }
    }

    /// The workload of these clients.
    pub fn workload(&self) -> &W {
        self.workload
    }

    /// Ends an aborted attempt and prepares the next one; returns the pause before it.
    fn rollback(&mut self, number: usize, now_ns: u64) -> u64 {
        let client = &mut self.clients[number];
        let Some(txn) = client.txn.as_mut() else { return 0 };
        self.recorder.abort(self.workload.kind(txn), now_ns);
        let bracketed = matches!(self.api, Api::Interactive | Api::Client);
        if bracketed && client.begun && !client.over {
            client.ending = (ABORT, 1);
        }
        self.workload.restart(txn);
        let busy = client.busy;
        client.reset();
        client.attempts += 1;
        if client.attempts >= self.retry.attempts_max {
            self.recorder.give_up(now_ns);
            client.txn = None;
            return 0;
        }
        let pause_ns = self.retry.pause_ns(client.attempts - 1, &mut client.rng);
        if busy { (pause_ns + self.retry.base_ns) * BUSY_FACTOR } else { pause_ns }
    }

    fn finish(&mut self, number: usize, now_ns: u64) {
        let client = &mut self.clients[number];
        if let Some(txn) = client.txn.take() {
            self.recorder.commit(self.workload.kind(&txn), client.started_ns, now_ns);
            self.workload.committed(number, txn, now_ns, &mut client.rng);
        }
        client.reset();
    }

    /// Continues until a reply must be awaited.
    fn advance(&mut self, number: usize, now_ns: u64, out: &mut Vec<u8>) {
        loop {
            let client = &mut self.clients[number];
            if client.stage == Stage::Committing {
                self.finish(number, now_ns);
                continue;
            }
            let txn = client.txn.get_or_insert_with(|| {
                client.started_ns = now_ns;
                client.attempts = 0;
                self.workload.begin(number, now_ns, &mut client.rng)
            });
            let shape = self.workload.shape(txn);
            if client.cursor == client.ops.list.len() {
                client.ops.clear();
                client.cursor = 0;
                let more = self.workload.step(txn, &client.replies, &mut client.ops);
                client.replies.clear();
                if !more {
                    if client.commit(self.api, shape, out) {
                        return;
                    }
                    self.finish(number, now_ns);
                    continue;
                }
            }
            if client.send(self.api, shape, out) {
                return;
            }
        }
    }
}

impl<T> Client<T> {
    fn reset(&mut self) {
        self.stage = Stage::Running;
        self.ops.clear();
        self.cursor = 0;
        self.begun = false;
        self.deferred.clear();
        self.deferred_count = 0;
        self.expected.clear();
        self.replies.clear();
        (self.aborted, self.over, self.busy) = (false, false, false);
    }

    fn put(&mut self, bytes: &[u8], expected: Expected, out: &mut Vec<u8>) {
        out.extend_from_slice(bytes);
        self.expected.push_back(expected);
    }

    fn put_ending(&mut self, out: &mut Vec<u8>) {
        let (bytes, replies) = std::mem::take(&mut self.ending);
        out.extend_from_slice(bytes);
        self.expected.extend((0..replies).map(|_| Expected::Done));
    }

    fn begin(&mut self, shape: Shape, out: &mut Vec<u8>) {
        if !std::mem::replace(&mut self.begun, true) {
            let readonly = shape == Shape::Reads;
            self.put(if readonly { BEGIN_READONLY } else { BEGIN }, Expected::Done, out);
        }
    }

    /// Sends the deferred writes.
    fn put_deferred(&mut self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.deferred);
        self.expected.extend((0..self.deferred_count).map(|_| Expected::Done));
        self.deferred.clear();
        self.deferred_count = 0;
    }

    fn put_op(&mut self, out: &mut Vec<u8>) -> Op {
        let op = self.ops.list[self.cursor];
        out.extend_from_slice(self.ops.command(self.cursor));
        self.expected.push_back(if op.read { Expected::Read } else { Expected::Done });
        self.cursor += 1;
        op
    }

    fn next_is_joined(&self) -> bool {
        self.ops.list.get(self.cursor).is_some_and(|op| op.joined)
    }

    /// Sends or defers the next operations; returns whether there is a reply to await.
    fn send(&mut self, api: Api, shape: Shape, out: &mut Vec<u8>) -> bool {
        if self.cursor == self.ops.list.len() {
            return false;
        }
        match api {
            Api::Plain => self.send_joined(out),
            Api::Interactive => {
                self.put_ending(out);
                self.begin(Shape::Updates, out);
                self.send_joined(out);
            }
            Api::Pipelined => {
                while self.cursor < self.ops.list.len() {
                    self.put_op(out);
                }
            }
            Api::Client => return self.send_lazily(shape, out),
            Api::Oneshot => {
                self.put(MULTI, Expected::Done, out);
                while self.cursor < self.ops.list.len() {
                    self.put_op(out);
                }
                self.put(EXEC, Expected::Commit, out);
                self.stage = Stage::Committing;
            }
            Api::Watch => return self.send_watch(out),
        }
        true
    }

    fn send_joined(&mut self, out: &mut Vec<u8>) {
        self.put_op(out);
        while self.next_is_joined() {
            self.put_op(out);
        }
    }

    fn send_lazily(&mut self, shape: Shape, out: &mut Vec<u8>) -> bool {
        if shape == Shape::Single {
            self.put_ending(out);
            self.put_op(out);
            return true;
        }
        while let Some(op) = self.ops.list.get(self.cursor).copied() {
            if op.read {
                self.put_ending(out);
                self.begin(shape, out);
                self.put_deferred(out);
                self.send_joined(out);
                return true;
            }
            self.deferred.extend_from_slice(self.ops.command(self.cursor));
            self.deferred_count += 1;
            self.cursor += 1;
        }
        false
    }

    fn send_watch(&mut self, out: &mut Vec<u8>) -> bool {
        let again = std::mem::replace(&mut self.begun, true);
        if again && self.ops.list.iter().all(|op| !op.read) {
            // What the writes follow from is watched already.
            self.deferred.extend_from_slice(&self.ops.bytes);
            self.deferred_count += self.ops.list.len() as u32;
            self.cursor = self.ops.list.len();
            return false;
        }
        resp::header(out, 1 + self.ops.list.len());
        resp::word(out, b"WATCH");
        for op in &self.ops.list {
            resp::word(out, &self.ops.bytes[op.key.0..op.key.1]);
        }
        self.expected.push_back(Expected::Done);
        for index in 0..self.ops.list.len() {
            let op = self.ops.list[index];
            if op.read {
                out.extend_from_slice(self.ops.command(index));
                self.expected.push_back(Expected::Read);
            } else {
                self.deferred.extend_from_slice(self.ops.command(index));
                self.deferred_count += 1;
            }
        }
        self.cursor = self.ops.list.len();
        true
    }

    /// Sends the commands that make the transaction take effect; `false` if no reply must be
    /// awaited for that.
    fn commit(&mut self, api: Api, shape: Shape, out: &mut Vec<u8>) -> bool {
        match api {
            Api::Plain | Api::Pipelined | Api::Oneshot => return false,
            Api::Interactive if !self.begun => return false,
            Api::Interactive => self.put(COMMIT, Expected::Commit, out),
            Api::Client if shape == Shape::Single => return false,
            Api::Client if shape == Shape::Reads => {
                // All that it has read was confirmed with the reads.
                if self.begun {
                    self.ending = (COMMIT, 1);
                }
                return false;
            }
            Api::Client => {
                self.put_ending(out);
                self.begin(shape, out);
                self.put_deferred(out);
                self.put(COMMIT, Expected::Commit, out);
            }
            Api::Watch => {
                self.put(MULTI, Expected::Done, out);
                self.put_deferred(out);
                self.put(EXEC, Expected::Commit, out);
            }
        }
        self.stage = Stage::Committing;
        true
    }
}

impl<W: Workload> Fleet for Runner<'_, W> {
    fn reply(&mut self, client: usize, frame: Frame<'_>) -> Result<(), String> {
        let client = &mut self.clients[client];
        let expected = client.expected.pop_front();
        if let Some(error) = frame.error() {
            let again = error.starts_with("TXNABORT") || error.starts_with("EXECABORT");
            let busy = error.starts_with("BUSY");
            if !again && !busy {
                return Err(format!("the server answered: {error}"));
            }
            client.aborted = true;
            client.busy |= busy;
            client.over = expected == Some(Expected::Commit);
        } else if expected == Some(Expected::Read) {
            if W::LOOKS {
                client.replies.push(frame.decode());
            }
        } else if expected == Some(Expected::Commit) && frame.is_nil() {
            (client.aborted, client.over) = (true, true);
        }
        Ok(())
    }

    fn turn(&mut self, client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn {
        let aborted = self.clients[client].aborted;
        let hold_ns = if aborted { self.rollback(client, now_ns) } else { 0 };
        self.advance(client, now_ns, out);
        self.turns += 1;
        Turn { replies: self.clients[client].expected.len() as u32, hold_ns }
    }
}

impl<W: Workload> Recorded for Runner<'_, W> {
    fn record(&mut self, recorder: Recorder) -> Recorder {
        std::mem::replace(&mut self.recorder, recorder)
    }
}
