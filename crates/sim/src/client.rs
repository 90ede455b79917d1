//! One simulated client: carries out its scripts over a connection that may break at any moment.

use crate::random::Random;
use crate::workload::{Form, Script, Workload, is_read, value_of};
use adt::Reply;
use check::{Event, EventKind, Value};
use std::collections::VecDeque;

/// How long a client waits before it sends a request in doubt once more.
const RETRY_US: u64 = 50_000;

/// What a client wants to be done.
#[derive(Debug)]
pub enum Wish {
    /// Send a command.
    Send(Vec<String>),
    /// Go on after some microseconds.
    Sleep(u64),
}

/// Where a client is in its script.
#[derive(Debug)]
struct Running {
    script: Script,
    invoked_us: u64,
    /// When the last command was sent.
    sent_us: u64,
    /// Commands that are still to be sent, one after the other's reply (or all at once).
    unsent: VecDeque<Vec<String>>,
    replies: Vec<Reply>,
    expected: usize,
    /// Something was sent that may take effect.
    committing: bool,
    /// It is to be sent once more, under the same number.
    idle: bool,
    /// An attempt under this number may have taken effect.
    in_doubt: bool,
    number: u64,
}

/// A client.
#[derive(Debug)]
pub struct Client {
    id: u64,
    workload: Workload,
    random: Random,
    running: Option<Running>,
    numbers: u64,
    think_us: u64,
    /// What it has seen.
    pub events: Vec<Event>,
    /// Transactions that were told to retry.
    pub aborted: u64,
}

impl Client {
    /// Client number `id`. Runs of a cluster are longer, and their clients slower.
    pub fn new(seed: u64, id: u64, cluster: bool) -> Self {
        let mut random = Random::new(seed, &format!("client {id}"));
        let pauses_us = if cluster { [2_000, 10_000, 50_000] } else { [10, 200, 3_000] };
        let think_us = *random.pick(&pauses_us);
        Self {
            id,
            workload: Workload::new(seed, id),
            random,
            running: None,
            numbers: 0,
            think_us,
            events: Vec::new(),
            aborted: 0,
        }
    }

    /// Whether a transaction is under way.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Begins the next transaction, or sends again the one that a crash has interrupted.
    pub fn begin(&mut self, now_us: u64) -> Vec<Wish> {
        let again = self.running.take();
        let running = match again {
            Some(running) => {
                let mut running = running;
                running.idle = false;
                running.replies.clear();
                running.unsent = commands(self.id, &running.script, running.number);
                running.expected = running.unsent.len();
                running
            }
            None => {
                let script = self.workload.next();
                self.numbers += 1;
                let unsent = commands(self.id, &script, self.numbers);
                let mut event = Event::new(self.id, EventKind::Invoke, now_us);
                event.txn = as_words(&script.ops);
                self.events.push(event);
                let expected = unsent.len();
                let number = self.numbers;
                let replies = Vec::new();
                let invoked_us = now_us;
                let committing = false;
                let sent_us = now_us;
                Running {
                    script,
                    invoked_us,
                    sent_us,
                    unsent,
                    replies,
                    expected,
                    committing,
                    idle: false,
                    in_doubt: false,
                    number,
                }
            }
        };
        self.running = Some(running);
        self.send_next(now_us)
    }

    /// Whether a reply is missing.
    pub fn is_waiting(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.idle)
    }

    /// How long the command under way has been waiting for its reply.
    pub fn waits_us(&self, now_us: u64) -> u64 {
        self.running.as_ref().map_or(0, |running| now_us - running.sent_us)
    }

    fn send_next(&mut self, now_us: u64) -> Vec<Wish> {
        let Some(running) = &mut self.running else { return Vec::new() };
        running.sent_us = now_us;
        let at_once = matches!(running.script.form, Form::Single | Form::Multi);
        let mut wishes = Vec::new();
        while let Some(command) = running.unsent.pop_front() {
            let name = command[0].as_str();
            let ends = name == "exec" || (name == "txn" && command[1] == "commit");
            running.committing |= ends || running.script.form == Form::Single;
            wishes.push(Wish::Send(command));
            if !at_once {
                break;
            }
        }
        wishes
    }

    /// A reply has come.
    pub fn reply(&mut self, now_us: u64, reply: Reply) -> Vec<Wish> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let aborted = matches!(&reply, Reply::Error(e) if e.code() == "TXNABORT");
        if matches!(&reply, Reply::Error(e) if e.code() == "INDEFINITE") {
            if running.script.numbered {
                // Sent again under the same number, it takes effect once.
                (running.idle, running.in_doubt) = (true, true);
                return vec![Wish::Sleep(self.random.tail(RETRY_US))];
            }
            return self.finish(now_us, EventKind::Info, Vec::new());
        }
        running.replies.push(reply);
        if aborted && !matches!(running.script.form, Form::Multi | Form::Single) {
            return self.finish(now_us, EventKind::Fail, Vec::new());
        }
        if running.replies.len() < running.expected {
            return self.send_next(now_us);
        }
        match outcome(running) {
            Some(replies) => self.finish(now_us, EventKind::Ok, replies),
            None => self.finish(now_us, EventKind::Fail, Vec::new()),
        }
    }

    /// The connection is gone.
    pub fn disconnected(&mut self, now_us: u64) {
        let Some(running) = &mut self.running else { return };
        if running.script.numbered {
            // It will be sent again under the same number.
            running.in_doubt |= running.committing;
            return;
        }
        let kind = if running.committing { EventKind::Info } else { EventKind::Fail };
        self.finish(now_us, kind, Vec::new());
    }

    /// The run is over: whatever is open stays open.
    pub fn stop(&mut self, now_us: u64) {
        if self.running.is_some() {
            self.finish(now_us, EventKind::Info, Vec::new());
        }
    }

    fn finish(&mut self, now_us: u64, kind: EventKind, replies: Vec<Option<Value>>) -> Vec<Wish> {
        if let Some(running) = &mut self.running
            && running.in_doubt
            && kind == EventKind::Fail
        {
            // This attempt had no effect; an earlier one may have had, or may still get it.
            running.idle = true;
            return vec![Wish::Sleep(self.random.tail(RETRY_US))];
        }
        let Some(running) = self.running.take() else { return Vec::new() };
        debug_assert!(now_us >= running.invoked_us);
        self.aborted += u64::from(kind == EventKind::Fail);
        let mut event = Event::new(self.id, kind, now_us);
        event.replies = replies;
        self.events.push(event);
        vec![Wish::Sleep(self.random.tail(self.think_us))]
    }
}

fn as_words(ops: &[Vec<String>]) -> Vec<Vec<Vec<u8>>> {
    ops.iter().map(|op| op.iter().map(|w| w.clone().into_bytes()).collect()).collect()
}

/// The commands that carry out a script.
fn commands(client: u64, script: &Script, number: u64) -> VecDeque<Vec<String>> {
    let word = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = VecDeque::new();
    if script.numbered {
        commands.push_back(word(&format!("client request sim-{client} {number}")));
    }
    let ops = script.ops.iter().cloned();
    match script.form {
        Form::Single => commands.extend(ops),
        Form::Multi => {
            commands.push_back(word("multi"));
            commands.extend(ops);
            commands.push_back(word("exec"));
        }
        Form::Watch => {
            let mut watch = vec!["watch".to_owned()];
            watch.extend(script.ops.iter().map(|op| op[1].clone()));
            commands.push_back(watch);
            // The reads come first in these scripts: what they see must still be true at the EXEC.
            commands.extend(ops.clone().filter(|op| is_read(op)));
            commands.push_back(word("multi"));
            commands.extend(ops.filter(|op| !is_read(op)));
            commands.push_back(word("exec"));
        }
        Form::Interactive | Form::Blind | Form::ReadOnly => {
            commands.push_back(word(match script.form {
                Form::Blind => "txn begin blind",
                Form::ReadOnly => "txn begin readonly",
                _ => "txn begin",
            }));
            commands.extend(ops);
            commands.push_back(word("txn commit"));
        }
    }
    commands
}

/// The replies of the script's operations, or `None` if it did not take effect.
fn outcome(running: &Running) -> Option<Vec<Option<Value>>> {
    let lost = |reply: &Reply| matches!(reply, Reply::Error(e) if e.code() == "REPEATED");
    let seen = |reply: &Reply| (!lost(reply)).then(|| value_of(reply));
    let last = running.replies.last()?;
    if matches!(last, Reply::Error(e) if e.code() == "REPEATED") {
        // It took effect before the connection broke; what it answered is not known any more.
        return Some(vec![None; running.script.ops.len()]);
    }
    match running.script.form {
        Form::Single => (!last.is_error()).then(|| vec![seen(last)]),
        Form::Multi => match last {
            Reply::Array(replies) => Some(replies.iter().map(seen).collect()),
            _ => None,
        },
        Form::Watch => {
            let Reply::Array(written) = last else { return None };
            let reads = running.script.ops.iter().filter(|op| is_read(op)).count();
            Some(running.replies[1..=reads].iter().chain(written).map(seen).collect())
        }
        Form::Interactive | Form::ReadOnly => {
            let ops = running.script.ops.len();
            (!last.is_error()).then(|| running.replies[1..=ops].iter().map(seen).collect())
        }
        Form::Blind => {
            let Reply::Array(deferred) = last else { return None };
            let mut deferred = deferred.iter();
            let ops = running.script.ops.iter().zip(&running.replies[1..]);
            let reply = |(op, early): (&Vec<String>, &Reply)| {
                if is_read(op) { seen(early) } else { deferred.next().and_then(seen) }
            };
            Some(ops.map(reply).collect())
        }
    }
}
