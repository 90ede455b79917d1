//! Histories: requests, answers and their times.
//!
//! A history file has one JSON object per line. Empty lines and lines that begin with `#` are
//! skipped; unknown fields are ignored. Fields of an event:
//!
//! | field | in | meaning |
//! |---|---|---|
//! | `process` | all | number of the session: it issues its transactions one after another |
//! | `type` | all | `invoke`; `ok` (committed), `fail` (certainly no effect), `info` (unknown) |
//! | `time_us` | all | microseconds on one clock for the whole file |
//! | `txn` | `invoke` | the commands, each a list of words: `[["rpush","x","1"],["lrange","x","0","-1"]]` |
//! | `txn` | others, optional | the commands as far as they became known; replaces the invocation's |
//! | `replies` | `ok`, `info`, optional | one reply per command, see [`Value::to_json`]; `{"unseen":true}` where it is not known |
//! | `ts` | `ok`, `info`, optional | commit timestamp: for every key, transactions took effect in this order |
//! | `tie` | optional | orders transactions with equal `ts`; a transaction that only reads comes after the others anyway |
//! | `shards` | optional | numbers of the shards that took part |
//! | `session_seq` | optional, all | place in the session's issue order; needed to have several open at once |
//!
//! A process without `session_seq` has at most one transaction open, and after `info` its next
//! transaction may take effect before the indefinite one. With `session_seq` transactions are
//! *dispatched*: they take effect in issue order, and if one fails so do all later ones that were
//! issued before the failure was known.
//!
//! A transaction without completion is indefinite. A line of type `bank`,
//! `{"type":"bank","accounts":["a","b"],"total":100}`, promises that the accounts always sum up to
//! `total`.

use crate::value::{Value, bytes_to_json};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::fmt;

/// A command or argument.
pub type Word = Vec<u8>;

/// Most events of one history.
pub const EVENTS_MAX: usize = 20_000_000;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The transaction is about to be sent.
    Invoke,
    /// The transaction committed.
    Ok,
    /// The transaction certainly had no effect and never will.
    Fail,
    /// The outcome is unknown; the transaction may also take effect later.
    Info,
}

impl EventKind {
    fn name(self) -> &'static str {
        match self {
            Self::Invoke => "invoke",
            Self::Ok => "ok",
            Self::Fail => "fail",
            Self::Info => "info",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Invoke, Self::Ok, Self::Fail, Self::Info].into_iter().find(|k| k.name() == name)
    }
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Number of the session.
    pub process: u64,
    /// Kind of the event.
    pub kind: EventKind,
    /// Time in microseconds on the history's clock.
    pub time_us: u64,
    /// Commands; empty in a completion that does not repeat them.
    pub txn: Vec<Vec<Word>>,
    /// Replies, one per command; `None` for an unknown reply, empty if none is known.
    pub replies: Vec<Option<Value>>,
    /// Commit timestamp.
    pub ts: Option<u64>,
    /// Orders equal timestamps.
    pub tie: Option<u64>,
    /// Shards that took part.
    pub shards: Vec<u64>,
    /// Place in the session's issue order.
    pub session_seq: Option<u64>,
}

impl Event {
    /// An event without the optional fields.
    pub fn new(process: u64, kind: EventKind, time_us: u64) -> Self {
        Self {
            process,
            kind,
            time_us,
            txn: Vec::new(),
            replies: Vec::new(),
            ts: None,
            tie: None,
            shards: Vec::new(),
            session_seq: None,
        }
    }

    /// The event as one line of JSON, without the line feed.
    pub fn to_json_line(&self) -> String {
        let mut fields = Map::new();
        fields.insert("process".to_owned(), json!(self.process));
        fields.insert("type".to_owned(), json!(self.kind.name()));
        fields.insert("time_us".to_owned(), json!(self.time_us));
        if !self.txn.is_empty() {
            let words = |op: &Vec<Word>| op.iter().map(|word| bytes_to_json(word)).collect();
            let txn: Vec<Vec<Json>> = self.txn.iter().map(words).collect();
            fields.insert("txn".to_owned(), json!(txn));
        }
        if !self.replies.is_empty() {
            let reply = |reply: &Option<Value>| match reply {
                Some(value) => value.to_json(),
                None => json!({"unseen": true}),
            };
            fields.insert("replies".to_owned(), self.replies.iter().map(reply).collect());
        }
        let optional = [("ts", self.ts), ("tie", self.tie), ("session_seq", self.session_seq)];
        for (name, value) in optional {
            if let Some(value) = value {
                fields.insert(name.to_owned(), json!(value));
            }
        }
        if !self.shards.is_empty() {
            fields.insert("shards".to_owned(), json!(self.shards));
        }
        Json::Object(fields).to_string()
    }

    fn from_fields(fields: &Map<String, Json>) -> Result<Self, String> {
        let kind = fields
            .get("type")
            .and_then(Json::as_str)
            .and_then(EventKind::from_name)
            .ok_or("field \"type\" must be invoke, ok, fail, info or bank")?;
        let process = number(fields, "process")?.ok_or("field \"process\" is missing")?;
        let time_us = number(fields, "time_us")?.ok_or("field \"time_us\" is missing")?;
        let mut event = Self::new(process, kind, time_us);
        for op in list(fields, "txn")? {
            let words = op.as_array().filter(|words| !words.is_empty());
            let words = words.ok_or("each command in \"txn\" must be a list of words")?;
            event.txn.push(words.iter().map(word).collect::<Result<_, _>>()?);
        }
        for reply in list(fields, "replies")? {
            let unseen = reply.get("unseen").is_some();
            event.replies.push(if unseen { None } else { Some(Value::from_json(reply)?) });
        }
        for shard in list(fields, "shards")? {
            event.shards.push(shard.as_u64().ok_or("\"shards\" must be numbers")?);
        }
        event.ts = number(fields, "ts")?;
        event.tie = number(fields, "tie")?;
        event.session_seq = number(fields, "session_seq")?;
        Ok(event)
    }
}

fn number(fields: &Map<String, Json>, name: &str) -> Result<Option<u64>, String> {
    match fields.get(name) {
        None | Some(Json::Null) => Ok(None),
        Some(value) => value
            .as_u64()
            .map(Some)
            .ok_or_else(|| format!("field {name:?} must be a number from 0 to 2^64-1")),
    }
}

fn list<'a>(fields: &'a Map<String, Json>, name: &str) -> Result<&'a [Json], String> {
    match fields.get(name) {
        None | Some(Json::Null) => Ok(&[]),
        Some(Json::Array(items)) => Ok(items),
        Some(_) => Err(format!("field {name:?} must be a list")),
    }
}

fn word(json: &Json) -> Result<Word, String> {
    match Value::from_json(json)? {
        value @ (Value::Text(_) | Value::Int(_) | Value::Float(_)) => Ok(value.canonical()),
        other => Err(format!("a word must be a string or a number, not {other}")),
    }
}

/// Outcome of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The transaction committed.
    Ok,
    /// The transaction had no effect.
    Fail,
    /// The outcome is unknown.
    Info,
}

/// One command of a transaction and its reply, if that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Op {
    /// Command and arguments; at least one word.
    pub words: Vec<Word>,
    /// The reply.
    pub reply: Option<Value>,
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<String> = self.words.iter().map(|w| crate::value::show_word(w)).collect();
        f.write_str(&words.join(" "))?;
        match &self.reply {
            Some(reply) => write!(f, " -> {reply}"),
            None => Ok(()),
        }
    }
}

/// An invocation with its completion.
#[derive(Clone, Debug, PartialEq)]
pub struct Txn {
    /// Number in the history: transactions are numbered in order of invocation in the file.
    pub id: usize,
    /// Number of the session.
    pub process: u64,
    /// The outcome.
    pub outcome: Outcome,
    /// Time of the invocation, in microseconds.
    pub invoke_us: u64,
    /// Time at which its success or failure was known, in microseconds; `None` if it never was.
    pub complete_us: Option<u64>,
    /// The commands.
    pub ops: Vec<Op>,
    /// Commit timestamp.
    pub ts: Option<u64>,
    /// Orders equal timestamps.
    pub tie: Option<u64>,
    /// Shards that took part.
    pub shards: Vec<u64>,
    /// Place in the session's issue order.
    pub session_seq: Option<u64>,
}

impl Txn {
    /// Whether this transaction's completion was known before `other` was invoked.
    pub fn precedes(&self, other: &Txn) -> bool {
        self.complete_us.is_some_and(|complete_us| complete_us < other.invoke_us)
    }
}

impl fmt::Display for Txn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops: Vec<String> = self.ops.iter().map(Op::to_string).collect();
        write!(f, "T{} (process {}, {}", self.id, self.process, self.invoke_us)?;
        match self.complete_us {
            Some(complete_us) => write!(f, "..{complete_us} us")?,
            None => f.write_str(".. us")?,
        }
        if let Some(ts) = self.ts {
            write!(f, ", ts {ts}")?;
        }
        let outcome = match self.outcome {
            Outcome::Ok => "",
            Outcome::Fail => ", failed",
            Outcome::Info => ", indefinite",
        };
        write!(f, "{outcome}): {}", ops.join(" | "))
    }
}

/// Accounts whose sum never changes; see [`crate::conserve::bank`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bank {
    /// Keys of the accounts.
    pub accounts: Vec<Word>,
    /// Sum of the accounts.
    pub total: i64,
}

/// Transactions in order of invocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The transactions; each one's `id` is its index.
    pub txns: Vec<Txn>,
    /// Accounts whose sum never changes, if the workload has them.
    pub bank: Option<Bank>,
}

/// An error in the input of a history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryError {
    /// Number of the line, from 1; 0 if the history was not read from lines.
    pub line: usize,
    /// Description of the error, with the permitted forms.
    pub reason: String,
}

impl fmt::Display for HistoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.reason)
    }
}

impl std::error::Error for HistoryError {}

impl History {
    /// Reads the lines of a history file.
    ///
    /// # Errors
    /// The first line that is not an event, or that does not fit the events before it.
    pub fn from_lines<'a>(lines: impl IntoIterator<Item = &'a str>) -> Result<Self, HistoryError> {
        let mut pairing = Pairing::default();
        for (index, line) in lines.into_iter().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            if index >= EVENTS_MAX {
                let reason = format!("a history has at most {EVENTS_MAX} lines");
                return Err(HistoryError { line: index + 1, reason });
            }
            pairing.line(line).map_err(|reason| HistoryError { line: index + 1, reason })?;
        }
        Ok(pairing.history)
    }

    /// Pairs invocations with completions.
    ///
    /// # Errors
    /// The first event that does not fit the ones before it; its `line` counts events from 1.
    pub fn from_events(events: impl IntoIterator<Item = Event>) -> Result<Self, HistoryError> {
        let mut pairing = Pairing::default();
        for (index, event) in events.into_iter().enumerate() {
            pairing.event(event).map_err(|reason| HistoryError { line: index + 1, reason })?;
        }
        Ok(pairing.history)
    }

    /// The events of this history, by time; reading them gives the same history.
    pub fn to_events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for txn in &self.txns {
            let mut invoke = Event::new(txn.process, EventKind::Invoke, txn.invoke_us);
            invoke.txn = txn.ops.iter().map(|op| op.words.clone()).collect();
            invoke.session_seq = txn.session_seq;
            events.push((txn.invoke_us, 1, txn.id, invoke));
            let kind = match txn.outcome {
                Outcome::Ok => EventKind::Ok,
                Outcome::Fail => EventKind::Fail,
                Outcome::Info => EventKind::Info,
            };
            let at_us = txn.complete_us.unwrap_or(txn.invoke_us);
            let mut completion = Event::new(txn.process, kind, at_us);
            if txn.ops.iter().any(|op| op.reply.is_some()) {
                completion.replies = txn.ops.iter().map(|op| op.reply.clone()).collect();
            }
            completion.ts = txn.ts;
            completion.tie = txn.tie;
            completion.shards.clone_from(&txn.shards);
            completion.session_seq = txn.session_seq;
            // At one instant, ends go first, so that a process never has two open transactions; but
            // no transaction ends before its invocation.
            let rank = if at_us == txn.invoke_us { 1 } else { 0 };
            events.push((at_us, rank, txn.id, completion));
        }
        events.sort_by_key(|(time_us, rank, id, _)| (*time_us, *rank, *id));
        events.into_iter().map(|(.., event)| event).collect()
    }

    /// The history as the text of a file.
    pub fn to_jsonl(&self) -> String {
        let mut text = String::new();
        if let Some(bank) = &self.bank {
            let accounts: Vec<Json> = bank.accounts.iter().map(|key| bytes_to_json(key)).collect();
            let line = json!({"type": "bank", "accounts": accounts, "total": bank.total});
            text.push_str(&format!("{line}\n"));
        }
        for event in self.to_events() {
            text.push_str(&event.to_json_line());
            text.push('\n');
        }
        text
    }
}

/// Finds the invocation of each completion.
#[derive(Default)]
struct Pairing {
    history: History,
    /// Open transactions by process and place in its issue order (0 without `session_seq`).
    open: BTreeMap<(u64, u64), usize>,
    /// Per process: place in the issue order of the last invocation.
    issued: BTreeMap<u64, Option<u64>>,
}

impl Pairing {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let json: Json =
            serde_json::from_str(line).map_err(|error| format!("not JSON: {error}"))?;
        let fields = json.as_object().ok_or("not a JSON object")?;
        if fields.get("type").and_then(Json::as_str) == Some("bank") {
            let accounts = list(fields, "accounts")?.iter().map(word).collect::<Result<_, _>>()?;
            let total = fields.get("total").and_then(Json::as_i64);
            let total = total.ok_or("field \"total\" must be an integer")?;
            self.history.bank = Some(Bank { accounts, total });
            return Ok(());
        }
        self.event(Event::from_fields(fields)?)
    }

    fn event(&mut self, event: Event) -> Result<(), String> {
        match event.kind {
            EventKind::Invoke => self.invoke(event),
            EventKind::Ok => self.complete(event, Outcome::Ok),
            EventKind::Fail => self.complete(event, Outcome::Fail),
            EventKind::Info => self.complete(event, Outcome::Info),
        }
    }

    fn invoke(&mut self, event: Event) -> Result<(), String> {
        let process = event.process;
        if event.txn.iter().any(Vec::is_empty) {
            return Err("a command needs at least one word".to_owned());
        }
        let place = (process, event.session_seq.unwrap_or(0));
        if let Some(open) = self.open.get(&place) {
            return Err(format!(
                "process {process} has T{open} still open; complete it, or give session_seq"
            ));
        }
        match (self.issued.get(&process), event.session_seq) {
            (None, _) | (Some(None), None) => {}
            (Some(Some(last)), Some(seq)) if *last < seq => {}
            (Some(Some(_)), Some(_)) => {
                return Err(format!("session_seq of process {process} must grow"));
            }
            _ => return Err(format!("process {process} must give session_seq always or never")),
        }
        self.issued.insert(process, event.session_seq);
        let id = self.history.txns.len();
        self.open.insert(place, id);
        self.history.txns.push(Txn {
            id,
            process,
            outcome: Outcome::Info,
            invoke_us: event.time_us,
            complete_us: None,
            ops: event.txn.into_iter().map(|words| Op { words, reply: None }).collect(),
            ts: None,
            tie: None,
            shards: Vec::new(),
            session_seq: event.session_seq,
        });
        Ok(())
    }

    fn complete(&mut self, event: Event, outcome: Outcome) -> Result<(), String> {
        let place = (event.process, event.session_seq.unwrap_or(0));
        let Some(id) = self.open.remove(&place) else {
            return Err(format!("process {} has nothing open that could end", event.process));
        };
        let txn = &mut self.history.txns[id];
        if event.time_us < txn.invoke_us {
            return Err(format!("T{id} ends before it was invoked at {} us", txn.invoke_us));
        }
        if !event.txn.is_empty() {
            txn.ops = event.txn.into_iter().map(|words| Op { words, reply: None }).collect();
        }
        if !event.replies.is_empty() {
            if event.replies.len() != txn.ops.len() {
                let (replies, ops) = (event.replies.len(), txn.ops.len());
                return Err(format!("T{id} has {replies} replies for {ops} commands"));
            }
            for (op, reply) in txn.ops.iter_mut().zip(event.replies) {
                op.reply = reply;
            }
        }
        txn.outcome = outcome;
        txn.complete_us = (outcome != Outcome::Info).then_some(event.time_us);
        if outcome != Outcome::Fail {
            txn.ts = event.ts;
            txn.tie = event.tie;
        }
        txn.shards = event.shards;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<History, HistoryError> {
        History::from_lines(text.lines())
    }

    #[test]
    fn invocations_meet_their_completions() {
        let history = read(concat!(
            r#"{"type":"bank","accounts":["a"],"total":5}"#,
            "\n# a comment\n\n",
            r#"{"process":1,"type":"invoke","time_us":10,"txn":[["set","x",1],["get","x"]]}"#,
            "\n",
            r#"{"process":2,"type":"invoke","time_us":11,"txn":[["get",{"hex":"ff"}]]}"#,
            "\n",
            r#"{"process":1,"type":"ok","time_us":12,"replies":["OK",{"unseen":true}],"#,
            r#""ts":7,"shards":[0,2]}"#,
        ))
        .unwrap();
        assert_eq!(history.txns.len(), 2);
        assert_eq!(history.txns[0].ops[0].words[2], b"1");
        assert_eq!(history.txns[0].ops[0].reply, Some(Value::ok()));
        assert_eq!(history.txns[0].ops[1].reply, None);
        assert_eq!((history.txns[0].ts, history.txns[0].complete_us), (Some(7), Some(12)));
        assert_eq!(history.txns[1].outcome, Outcome::Info);
        assert_eq!(read(&history.to_jsonl()).unwrap(), history);
    }

    #[test]
    fn dispatched_transactions_may_be_open_together() {
        let event = |kind, time_us, seq| Event {
            session_seq: Some(seq),
            txn: if kind == EventKind::Invoke { vec![vec![b"incr".to_vec()]] } else { vec![] },
            ..Event::new(1, kind, time_us)
        };
        use EventKind::{Invoke, Ok};
        let events =
            vec![event(Invoke, 1, 1), event(Invoke, 1, 2), event(Ok, 5, 2), event(Ok, 6, 1)];
        let history = History::from_events(events).unwrap();
        assert_eq!(history.txns[0].complete_us, Some(6));
        assert_eq!(history.txns[1].complete_us, Some(5));
        assert!(History::from_events(vec![event(Invoke, 1, 2), event(Invoke, 1, 1)]).is_err());
    }

    #[test]
    fn an_event_that_does_not_fit_is_refused_with_its_line() {
        let invoke = r#"{"process":1,"type":"invoke","time_us":10,"txn":[["get","x"]]}"#;
        let cases = [
            ("x".to_owned(), 1),
            ("[]".to_owned(), 1),
            (r#"{"process":1,"type":"maybe","time_us":1}"#.to_owned(), 1),
            (r#"{"process":-1,"type":"ok","time_us":1}"#.to_owned(), 1),
            (r#"{"process":1,"type":"ok","time_us":1}"#.to_owned(), 1),
            (format!("{invoke}\n{invoke}"), 2),
            (format!("{invoke}\n{}", r#"{"process":1,"type":"ok","time_us":9}"#), 2),
            (
                format!(
                    "{invoke}\n{}",
                    r#"{"process":1,"type":"ok","time_us":11,"replies":[1,2]}"#
                ),
                2,
            ),
            (r#"{"process":1,"type":"invoke","time_us":1,"txn":[[]]}"#.to_owned(), 1),
            (r#"{"process":1,"type":"invoke","time_us":1,"txn":[[null]]}"#.to_owned(), 1),
        ];
        for (text, line) in cases {
            assert_eq!(read(&text).unwrap_err().line, line, "{text}");
        }
    }
}
