//! Simulated client with a cache: it keeps what it has read until the server tells it to drop it.

use super::client::Action;
use super::workload::{ACCOUNTS, account};
use crate::random::Random;
use adt::Reply;
use std::collections::BTreeMap;

/// Typical pause between two reads, in microseconds.
const PAUSE_US: u64 = 5_000;

/// Client with a cache.
#[derive(Debug)]
pub struct Cacher {
    random: Random,
    /// Replies to reads of these keys.
    kept: BTreeMap<String, Reply>,
    /// Number of replies to the commands that begin a connection which have not come.
    opening: usize,
    /// Key whose reply has not come.
    reads: Option<String>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Cacher {
    /// Creates client number `id`.
    pub fn new(seed: u64, id: u64) -> Self {
        Self {
            random: Random::new(seed, &format!("cacher {id}")),
            kept: BTreeMap::new(),
            opening: 0,
            reads: None,
            marks: BTreeMap::new(),
        }
    }

    fn mark(&mut self, kind: &'static str) {
        *self.marks.entry(kind).or_default() += 1;
    }

    /// Begins a connection: nothing of an earlier one counts.
    pub fn connected(&mut self) -> Vec<Action> {
        self.disconnected();
        self.opening = 2;
        let commands = [&["hello", "3"][..], &["client", "tracking", "on"]];
        commands
            .map(|words| Action::Send(words.iter().map(|&word| word.to_owned()).collect()))
            .into()
    }

    /// Drops everything: the connection is lost.
    pub fn disconnected(&mut self) {
        self.kept.clear();
        (self.opening, self.reads) = (0, None);
    }

    /// Reads a key that is not kept, or looks again later.
    pub fn go_on(&mut self) -> Vec<Action> {
        if self.opening > 0 || self.reads.is_some() {
            return Vec::new();
        }
        let key = account(self.random.below(ACCOUNTS));
        if self.kept.contains_key(&key) {
            self.mark("reads_from_caches");
            return vec![self.pause()];
        }
        let words = vec!["get".to_owned(), key.clone()];
        self.reads = Some(key);
        vec![Action::Send(words)]
    }

    fn pause(&mut self) -> Action {
        Action::Sleep(self.random.tail(PAUSE_US))
    }

    /// Takes a reply or a message.
    pub fn reply(&mut self, reply: Reply) -> Vec<Action> {
        if let Reply::Push(parts) = &reply {
            match &parts[..] {
                [_, Reply::Array(names)] => {
                    for name in names {
                        if let Reply::Bulk(name) = name {
                            self.kept.remove(&*String::from_utf8_lossy(name));
                        }
                    }
                }
                _ => {
                    self.mark("caches_dropped");
                    self.kept.clear();
                }
            }
            return Vec::new();
        }
        if self.opening > 0 {
            self.opening -= 1;
        } else if let Some(key) = self.reads.take()
            && !reply.is_error()
        {
            self.kept.insert(key, reply);
        }
        if self.opening > 0 { Vec::new() } else { vec![self.pause()] }
    }

    /// All that is kept, by key.
    pub fn kept(&self) -> &BTreeMap<String, Reply> {
        &self.kept
    }
}
