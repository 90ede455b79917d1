//! Simulated client: executes its scripts over a connection that may break at any moment.

use super::workload::{CELL, Form, Mix, Script, Workload, is_lost, is_read, seen, typed};
use crate::random::Random;
use adt::Reply;
use check::{Event, EventKind, Value};
use std::collections::{BTreeMap, VecDeque};

/// Time after which a client resends a request in doubt.
const RETRY_US: u64 = 50_000;

/// Behaviour of the clients of a run.
#[derive(Clone, Copy, Debug)]
pub struct Manners {
    /// Typical pause between two transactions.
    think_us: u64,
    /// Percentage of steps of interactive transactions before which a client pauses.
    dawdles_percent: u64,
    /// Upper bound on such a pause; sometimes longer than idle holders may keep locks.
    dawdles_us: u64,
    /// Percentage of interactive transactions that a client abandons.
    abandons_percent: u64,
}

impl Manners {
    /// Draws the behaviour. In most runs clients are quick. Runs of a cluster are longer, and their
    /// clients slower.
    pub fn draw(random: &mut Random, cluster: bool) -> Self {
        let pauses_us = if cluster { [2_000, 10_000, 50_000] } else { [10, 200, 3_000] };
        let slow = random.percent(30);
        let longest_us =
            if cluster { [50_000, 1_000_000, 7_000_000] } else { [500, 20_000, 200_000] };
        Self {
            think_us: *random.pick(&pauses_us),
            dawdles_percent: if slow { *random.pick(&[2, 20]) } else { 0 },
            dawdles_us: *random.pick(&longest_us),
            abandons_percent: if slow { *random.pick(&[0, 5]) } else { 0 },
        }
    }

    /// Raises the pause between two transactions to at least this value.
    pub fn slower(self, think_us: u64) -> Self {
        Self { think_us: self.think_us.max(think_us), ..self }
    }

    /// Whether other clients may have to wait for locks of idle clients, however briefly.
    pub fn keep_locks(&self) -> bool {
        self.dawdles_percent > 0 || self.abandons_percent > 0
    }
}

/// Action that a client requests.
#[derive(Debug)]
pub enum Action {
    /// Send a command.
    Send(Vec<String>),
    /// Continue after some microseconds.
    Sleep(u64),
    /// Close the connection, and continue after some microseconds.
    Leave(u64),
}

/// Progress of a client in its script.
#[derive(Debug)]
struct Running {
    script: Script,
    invoked_us: u64,
    /// Time at which the last command was sent.
    sent_us: u64,
    /// Commands that are still to be sent, each after the reply to the one before (or all at once).
    unsent: VecDeque<Vec<String>>,
    replies: Vec<Reply>,
    expected: usize,
    /// Whether a command has been sent that may take effect.
    committing: bool,
    /// Whether to send the script once more, under the same number.
    idle: bool,
    /// Whether the next reply is that of an `UNWATCH` in front of the script.
    unwatches: bool,
    /// Whether the next command is delayed.
    dawdles: bool,
    /// Whether the client may have held locks during a delay.
    dawdled: bool,
    /// Whether an attempt under this number may have taken effect.
    in_doubt: bool,
    number: u64,
    /// Number of commands of pipelines that were sent before.
    first: u64,
}

/// Client.
#[derive(Debug)]
pub struct Client {
    id: u64,
    workload: Workload,
    random: Random,
    running: Option<Running>,
    numbers: u64,
    /// Whether commands of a pipeline take effect in the order in which they are sent.
    ordered: bool,
    /// Number of such commands sent, and number of restarts of their order, for instance by another
    /// connection.
    issued: u64,
    connections: u64,
    manners: Manners,
    /// Whether the session may watch keys for a script that was given up.
    watches: bool,
    /// Observations of the client.
    pub events: Vec<Event>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
}

/// First process of the history for a client's pipelines; without an order, each command of a
/// pipeline belongs to its own process from this number on.
const PIPELINED: u64 = 100_000;

/// Process, place in its issue order, and operations, as the checkers see them.
type Seen<'a> = (u64, Option<u64>, &'a [Vec<String>]);

impl Client {
    /// Creates client number `id`.
    pub fn new(seed: u64, id: u64, mix: Mix, manners: Manners) -> Self {
        Self {
            id,
            workload: Workload::new(seed, id, mix),
            random: Random::new(seed, &format!("client {id}")),
            running: None,
            numbers: 0,
            ordered: false,
            issued: 0,
            connections: 0,
            manners,
            watches: false,
            events: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    fn mark(&mut self, kind: &'static str) {
        *self.marks.entry(kind).or_default() += 1;
    }

    /// Makes commands of its pipelines take effect in the order in which they are sent, from now
    /// on.
    pub fn keep_order(mut self) -> Self {
        self.ordered = true;
        self
    }

    /// Whether a transaction is in progress.
    pub fn is_busy(&self) -> bool {
        self.running.is_some()
    }

    /// Progress in the current script, for reports.
    pub fn running(&self) -> Option<&impl std::fmt::Debug> {
        self.running.as_ref()
    }

    /// Begins the next transaction, resends the one that a crash has interrupted, or continues
    /// after a delay.
    pub fn go_on(&mut self, now_us: u64) -> Vec<Action> {
        let mut running = match self.running.take() {
            Some(running) if running.dawdles => Running { dawdles: false, ..running },
            Some(mut running) => {
                (running.idle, running.unwatches) = (false, false);
                running.replies.clear();
                running.unsent = self.workload.commands(self.id, &running.script, running.number);
                running.expected = running.unsent.len();
                running
            }
            None => self.next(now_us),
        };
        if std::mem::take(&mut self.watches) {
            running.unsent.push_front(vec!["unwatch".to_owned()]);
            running.unwatches = true;
        }
        self.running = Some(running);
        self.send_next(now_us)
    }

    fn next(&mut self, now_us: u64) -> Running {
        let script = self.workload.next();
        self.numbers += 1;
        let unsent = self.workload.commands(self.id, &script, self.numbers);
        for (process, seq, ops) in self.processes(&script) {
            let mut event = Event::new(process, EventKind::Invoke, now_us);
            event.txn = as_words(ops);
            event.session_seq = seq;
            self.events.push(event);
        }
        let first = self.issued;
        if script.form == Form::Pipeline {
            self.issued += script.ops.len() as u64;
        }
        Running {
            expected: unsent.len(),
            script,
            invoked_us: now_us,
            sent_us: now_us,
            unsent,
            replies: Vec::new(),
            committing: false,
            idle: false,
            unwatches: false,
            dawdles: false,
            dawdled: false,
            in_doubt: false,
            number: self.numbers,
            first,
        }
    }

    /// Processes that the checkers see, with the operations of each.
    fn processes<'a>(&self, script: &'a Script) -> Vec<Seen<'a>> {
        self.processes_from(script, self.issued)
    }

    fn processes_from<'a>(&self, script: &'a Script, first: u64) -> Vec<Seen<'a>> {
        match script.form {
            Form::Pipeline => {
                let commands = (0..).zip(script.ops.chunks(1));
                commands
                    .map(|(at, ops)| {
                        let (process, seq) = self.pipelined_as(first, at);
                        (process, seq, ops)
                    })
                    .collect()
            }
            _ => vec![(self.id, None, &script.ops)],
        }
    }

    /// Process and place of a command of a pipeline.
    fn pipelined_as(&self, first: u64, at: u64) -> (u64, Option<u64>) {
        let process = PIPELINED * (self.id + 1);
        match self.ordered {
            true => (process + self.connections, Some(first + at)),
            false => (process + at, None),
        }
    }

    /// Whether a reply is outstanding.
    pub fn is_waiting(&self) -> bool {
        self.running.as_ref().is_some_and(|running| !running.idle && !running.dawdles)
    }

    /// Whether the client waits for the reply to a request that it may resend.
    pub fn may_ask_again(&self) -> bool {
        self.is_waiting() && self.running.as_ref().is_some_and(|running| running.script.numbered)
    }

    /// Time for which the current command has been waiting for its reply.
    pub fn waits_us(&self, now_us: u64) -> u64 {
        self.running.as_ref().map_or(0, |running| now_us - running.sent_us)
    }

    fn send_next(&mut self, now_us: u64) -> Vec<Action> {
        let Some(running) = &mut self.running else { return Vec::new() };
        running.sent_us = now_us;
        let at_once = !waits_for_replies(running.script.form);
        let alone = matches!(running.script.form, Form::Single | Form::Pipeline | Form::Eval);
        let mut actions = Vec::new();
        while let Some(mut command) = running.unsent.pop_front() {
            let name = command[0].as_str();
            let ends = name == "exec" || (name == "txn" && command[1] == "commit");
            running.committing |= ends || alone;
            if name == "exec" && running.script.form == Form::Watch {
                command.extend(conditions(self.id, running));
            }
            actions.push(Action::Send(command));
            if !at_once {
                break;
            }
        }
        actions
    }

    /// Handles a reply.
    pub fn reply(&mut self, now_us: u64, reply: Reply) -> Vec<Action> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let form = running.script.form;
        if std::mem::take(&mut running.unwatches) {
            return if waits_for_replies(form) { self.send_next(now_us) } else { Vec::new() };
        }
        if form == Form::Pipeline {
            return self.pipelined(now_us, &reply);
        }
        let migrates = self.workload.migrates(self.id, &running.script, running.number);
        if migrates && running.replies.is_empty() {
            // The outcome of the migration says nothing about that of the script.
            running.replies.push(reply);
            return Vec::new();
        }
        let code = match &reply {
            Reply::Error(error) => error.code(),
            _ => "",
        };
        let aborted = code == "TXNABORT" || code == "CLUSTERDOWN";
        if code == "INDEFINITE" {
            let numbered = running.script.numbered;
            self.mark("indefinite_told");
            if numbered {
                return self.again();
            }
            return self.finish(now_us, EventKind::Info, Vec::new());
        }
        if code == "CLUSTERDOWN" {
            let in_doubt = running.in_doubt;
            self.mark("no_leader_told");
            if in_doubt {
                // This attempt had no effect; an earlier copy may have had.
                return self.again();
            }
        }
        let Some(running) = &mut self.running else { return Vec::new() };
        // Without its beginning the rest would take effect command by command.
        let refused = reply.is_error() && running.replies.is_empty();
        running.replies.push(reply);
        if (aborted || refused) && waits_for_replies(form) {
            self.watches = form == Form::Watch;
            return self.finish(now_us, EventKind::Fail, Vec::new());
        }
        if running.replies.len() < running.expected {
            return self.dawdle().unwrap_or_else(|| self.send_next(now_us));
        }
        match outcome(running) {
            Some(replies) => self.finish(now_us, EventKind::Ok, replies),
            None => self.finish(now_us, EventKind::Fail, Vec::new()),
        }
    }

    /// Delays or abandons an interactive transaction, which keeps its locks.
    fn dawdle(&mut self) -> Option<Vec<Action>> {
        let running = self.running.as_mut().filter(|r| waits_for_replies(r.script.form))?;
        if self.random.percent(self.manners.abandons_percent) {
            self.mark("transactions_abandoned");
            // The client is silent until before idle holders lose their locks, or until long after.
            let us = self.random.below(2 * self.manners.dawdles_us + 1);
            return Some(vec![Action::Leave(us)]);
        }
        if !self.random.percent(self.manners.dawdles_percent) {
            return None;
        }
        (running.dawdles, running.dawdled) = (true, true);
        Some(vec![Action::Sleep(self.random.below(self.manners.dawdles_us))])
    }

    /// Resends a request under the same number, so that it takes effect once.
    fn again(&mut self) -> Vec<Action> {
        if let Some(running) = &mut self.running {
            (running.idle, running.in_doubt) = (true, true);
        }
        vec![Action::Sleep(self.random.tail(RETRY_US))]
    }

    /// Handles the reply to the next command of a pipeline.
    fn pipelined(&mut self, now_us: u64, reply: &Reply) -> Vec<Action> {
        let Some(running) = &mut self.running else { return Vec::new() };
        let (first, at) = (running.first, running.replies.len() as u64);
        running.replies.push(Reply::Nil);
        let last = running.replies.len() == running.expected;
        let (kind, replies) = match reply {
            Reply::Error(error) if error.code() == "INDEFINITE" => (EventKind::Info, Vec::new()),
            Reply::Error(_) if !is_lost(reply) => (EventKind::Fail, Vec::new()),
            reply => (EventKind::Ok, vec![seen(reply)]),
        };
        let (process, seq) = self.pipelined_as(first, at);
        let mut event = Event::new(process, kind, now_us);
        event.replies = replies;
        event.session_seq = seq;
        self.events.push(event);
        if kind == EventKind::Info {
            self.mark("indefinite_told");
            self.begin_anew((process, seq));
        } else if matches!(reply, Reply::Error(error) if error.code() == "CLUSTERDOWN") {
            // A command that was on its way to the server when the client gave up is executed
            // there, or not, independently.
            self.mark("no_leader_told");
            self.begin_anew((process, seq));
        } else if matches!(reply, Reply::Error(error)
            if matches!(error.code(), "TXNABORT" | "TRYAGAIN"))
        {
            // A script that is a transaction may fail by itself, and so does a program of a type that has
            // been migrated.
            self.begin_anew((process, seq));
        }
        if last {
            self.running = None;
            return vec![Action::Sleep(self.random.tail(self.manners.think_us))];
        }
        Vec::new()
    }

    /// Restarts the order: a command in doubt may still take effect after commands that were issued
    /// later, so it gets its own process.
    fn begin_anew(&mut self, (process, doubtful): (u64, Option<u64>)) {
        self.connections += 1;
        let renamed = PIPELINED * (self.id + 1) + self.connections;
        let of_it = |event: &&mut Event| event.process == process && event.session_seq > doubtful;
        for event in self.events.iter_mut().filter(of_it) {
            event.process = renamed;
        }
    }

    /// Handles the loss of the connection.
    pub fn disconnected(&mut self, now_us: u64) {
        self.lose(now_us);
        self.connections += 1;
        self.watches = false;
    }

    fn lose(&mut self, now_us: u64) {
        let Some(running) = &mut self.running else { return };
        if running.script.numbered {
            // The request will be resent under the same number.
            running.in_doubt |= running.committing;
            return;
        }
        let kind = if running.committing { EventKind::Info } else { EventKind::Fail };
        self.finish(now_us, kind, Vec::new());
    }

    /// Ends the run: open transactions stay open.
    pub fn stop(&mut self, now_us: u64) {
        if self.running.is_some() {
            self.finish(now_us, EventKind::Info, Vec::new());
        }
    }

    fn finish(&mut self, now_us: u64, kind: EventKind, replies: Vec<Option<Value>>) -> Vec<Action> {
        if let Some(running) = &mut self.running
            && running.in_doubt
            && kind == EventKind::Fail
        {
            // This attempt had no effect; an earlier one may have had, or may still take effect.
            running.idle = true;
            return vec![Action::Sleep(self.random.tail(RETRY_US))];
        }
        let Some(running) = self.running.take() else { return Vec::new() };
        assert!(now_us >= running.invoked_us);
        self.mark_end(&running, kind);
        let answered = match running.script.form {
            Form::Pipeline => running.replies.len(),
            _ => 0,
        };
        let processes = self.processes_from(&running.script, running.first);
        let mut events = Vec::new();
        for (process, seq, _) in processes.into_iter().skip(answered) {
            let mut event = Event::new(process, kind, now_us);
            event.replies.clone_from(&replies);
            event.session_seq = seq;
            events.push(event);
        }
        self.events.extend(events);
        vec![Action::Sleep(self.random.tail(self.manners.think_us))]
    }

    fn mark_end(&mut self, running: &Running, kind: EventKind) {
        let ended = kind == EventKind::Ok;
        if running.dawdled {
            self.mark(if ended { "locks_kept_over_pause" } else { "locks_lost_over_pause" });
        }
        if ended && running.in_doubt {
            self.mark("retries_answered");
        }
        if ended && running.replies.last().is_some_and(is_lost) {
            self.mark("retries_found_outcome");
        }
        let pops = |op: &Vec<String>| op[0] == "spop";
        if ended && running.script.ops.iter().any(pops) {
            self.mark("draws");
        }
    }
}

/// Whether each command is sent only after the reply to the one before.
fn waits_for_replies(form: Form) -> bool {
    !matches!(form, Form::Single | Form::Multi | Form::Eval | Form::Pipeline)
}

fn as_words(ops: &[Vec<String>]) -> Vec<Vec<Vec<u8>>> {
    ops.iter().map(|op| op.iter().map(|w| w.clone().into_bytes()).collect()).collect()
}

/// Script that runs the operations in its arguments: for each whether its reply is seen, the number of its
/// words and the words. A reply that it drops looks like a lost one.
const RUN_ALL: &str = "
    local replies, at = {}, 1
    while ARGV[at] do
        if ARGV[at] == 'raised' then error('raised') end
        local last = at + 1 + tonumber(ARGV[at + 1])
        if ARGV[at] == 'dropped' then
            redis.call(unpack(ARGV, at + 2, last))
            replies[#replies + 1] = redis.error_reply('REPEATED and dropped')
        else
            replies[#replies + 1] = redis.pcall(unpack(ARGV, at + 2, last))
        end
        at = last + 1
    end
    return replies";

/// Script that runs one operation.
const RUN_ONE: &str = "return redis.call(unpack(ARGV))";

/// Whether a script drops the reply to a write: only to those of which it is known that they write.
fn drops_reply(client: u64, at: usize, op: &[String]) -> bool {
    let writers = ["rpush", "sadd", "incrby", "decrby", "cell.push", "cell.add"];
    let writes = writers.contains(&op[0].as_str()) || op[0] == "set" && op.len() == 3;
    writes && (client + at as u64).is_multiple_of(2)
}

/// Whether `EXEC` compares what a read has told, instead of `WATCH` watching its key: in every other client.
fn compares(client: u64, op: &[String]) -> bool {
    !client.is_multiple_of(2) && op[0] == "get"
}

/// Conditions under which reads would reply the same once more.
fn conditions(client: u64, running: &Running) -> impl Iterator<Item = String> {
    let reads = running.script.ops.iter().filter(|op| is_read(op));
    let told = reads.zip(running.replies.iter().skip(1));
    told.filter(move |(op, _)| compares(client, op)).flat_map(|(op, reply)| {
        let key = op[1].clone();
        match reply {
            Reply::Bulk(text) => {
                vec!["ifeq".to_owned(), key, String::from_utf8_lossy(text).into_owned()]
            }
            Reply::Nil => vec!["nx".to_owned(), key],
            _ => Vec::new(),
        }
    })
}

impl Workload {
    /// Commands that execute a script, as the run's clients send its operations.
    fn commands(&self, client: u64, script: &Script, number: u64) -> VecDeque<Vec<String>> {
        if !self.is_typed() {
            return commands(client, script, number);
        }
        let programs = match script.form {
            Form::Eval | Form::ReadOnly => false,
            Form::Pipeline => !script.with_scripts,
            Form::Single => true,
            // One by an earlier definition would be refused in the middle of a transaction.
            _ => self.keeps_type(),
        };
        let ops = script.ops.iter().map(|op| typed(op, programs)).collect();
        let mut commands = commands(client, &Script { ops, ..script.clone() }, number);
        if self.migrates(client, script, number) {
            commands.push_front(["type.migrate", CELL[0], CELL[2]].map(str::to_owned).to_vec());
        }
        commands
    }

    /// Whether the type is migrated before a script is executed: it changes while others use it. Only the
    /// last reply of these forms counts.
    fn migrates(&self, client: u64, script: &Script, number: u64) -> bool {
        let of_one_reply = matches!(script.form, Form::Single | Form::Multi | Form::Eval);
        let migrates = self.is_typed() && !self.keeps_type();
        migrates && of_one_reply && client == 0 && number % 16 == 8
    }
}

/// Commands that execute a script.
fn commands(client: u64, script: &Script, number: u64) -> VecDeque<Vec<String>> {
    let word = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let mut commands = VecDeque::new();
    if script.numbered {
        commands.push_back(word(&format!("client request sim-{client} {number}")));
    }
    let ops = script.ops.iter().cloned();
    match script.form {
        Form::Pipeline if script.with_scripts => {
            let eval = |words: &[&str]| {
                ["eval", RUN_ONE].iter().chain(words).map(|word| (*word).to_owned()).collect()
            };
            commands.extend((0..).zip(ops).map(|(at, op): (u64, Vec<String>)| {
                let before: Vec<String> = match (number + at) % 4 {
                    0 => Vec::new(),
                    1 => eval(&["0"]),
                    _ => eval(&["1", &op[1]]),
                };
                [before, op].concat()
            }));
        }
        Form::Single | Form::Pipeline => commands.extend(ops),
        Form::Multi => {
            commands.push_back(word("multi"));
            commands.extend(ops);
            commands.push_back(word("exec"));
        }
        Form::Eval => {
            let mut eval = ["eval", RUN_ALL].map(str::to_owned).to_vec();
            // The shard of the declared keys may run the script. Without any, a gateway does.
            let keys = if number.is_multiple_of(4) { &[][..] } else { &script.ops[..] };
            eval.push(keys.len().to_string());
            eval.extend(keys.iter().map(|op| op[1].clone()));
            for (at, op) in script.ops.iter().enumerate() {
                let dropped = drops_reply(client, at, op);
                eval.push(if dropped { "dropped" } else { "seen" }.to_owned());
                eval.push(op.len().to_string());
                eval.extend(op.iter().cloned());
            }
            // Some fail behind everything that they have done. Their clients do not send them again.
            if number.is_multiple_of(7) && !script.numbered {
                eval.push("raised".to_owned());
            }
            commands.push_back(eval);
        }
        Form::Watch => {
            let mut watch = vec!["watch".to_owned()];
            let watched = script.ops.iter().filter(|op| !compares(client, op));
            watch.extend(watched.map(|op| op[1].clone()));
            commands.push_back(if watch.len() > 1 { watch } else { word("unwatch") });
            // The reads come first in these scripts: the values they return must still be valid at
            // the EXEC.
            commands.extend(ops.clone().filter(|op| is_read(op)));
            commands.push_back(word("multi"));
            commands.extend(ops.filter(|op| !is_read(op)));
            commands.push_back(word("exec"));
        }
        Form::Interactive | Form::Blind | Form::ReadOnly => {
            // A third of the clients announce all their writes, and a third those of single reads.
            let announces = (script.form != Form::ReadOnly).then_some(client % 3);
            let begin = match script.form {
                Form::Blind => "txn begin blind",
                Form::ReadOnly => "txn begin readonly",
                _ => "txn begin",
            };
            let option = if announces == Some(1) { " forupdate" } else { "" };
            commands.push_back(word(&format!("{begin}{option}")));
            commands.extend(ops.map(|op| match announces {
                Some(2) if is_read(&op) => [word("txn forupdate"), op].concat(),
                _ => op,
            }));
            commands.push_back(word("txn commit"));
        }
    }
    commands
}

/// Replies of the script's operations, or `None` if it did not take effect.
fn outcome(running: &Running) -> Option<Vec<Option<Value>>> {
    let last = running.replies.last()?;
    if is_lost(last) {
        // The transaction took effect before the connection broke; its replies are unknown.
        return Some(vec![None; running.script.ops.len()]);
    }
    match running.script.form {
        Form::Single | Form::Pipeline => (!last.is_error()).then(|| vec![seen(last)]),
        Form::Multi | Form::Eval => match last {
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
