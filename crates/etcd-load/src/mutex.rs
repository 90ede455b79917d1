//! The lock of etcd's client library (`concurrency.Mutex`), request by request.
//!
//! A client that wants the lock writes a key of its own below a prefix, if the key does not exist,
//! and reads in the same transaction which key below the prefix is the oldest. If that is its own,
//! it has the lock. Otherwise it looks for the youngest key that is older than its own, waits until
//! that is deleted, and looks again, until there is none; then it checks whether its own key still
//! exists. It releases the lock by deleting its key. The token is the revision at which the key was
//! created.
//!
//! It watches from the revision of the read in which it saw the key, as the library does. That
//! revision is never above the store's latest one, so the server treats the watch as one that has
//! to catch up, and serves it in a loop that wakes every 100 ms: a hand-over takes up to that long.
//!
//! In the library a key is named after its session's lease. Here a client can have several requests
//! at a time, as a program with several sessions does, so the request's number is in the name too.

use crate::messages::{Compare, DeleteRequest, Part, PutRequest, RangeRequest, TxnRequest};
use crate::messages::{behind, revision};
use crate::sessions::{Said, Session, Sessions};
use bench::coordination::recipes::locker::{Locker, Told};
use bench::coordination::services::client::Counts;
use std::collections::BTreeMap;
use std::io;

/// Values for ascending and descending order, and for sorting by the revision of creation.
const GROWING: i32 = 1;
const FALLING: i32 = 2;
const BY_CREATION: i32 = 2;

/// A locker that follows the library.
pub struct Mutex<'a> {
    sessions: &'a mut Sessions,
    prefix: String,
    /// Session of each request.
    clients: BTreeMap<usize, usize>,
    said: Vec<Said>,
}

impl<'a> Mutex<'a> {
    /// A lock that was never used.
    pub fn new(sessions: &'a mut Sessions, node: &str) -> Self {
        let prefix = format!("{node}/");
        Self { sessions, prefix, clients: BTreeMap::new(), said: Vec::new() }
    }

    fn key(&self, session: &Session, request: usize) -> Vec<u8> {
        format!("{}{:x}-{request}", self.prefix, session.lease).into_bytes()
    }
}

impl Locker for Mutex<'_> {
    fn now_ns(&self) -> u64 {
        self.sessions.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        self.clients.insert(request, client);
        let session = self.sessions.session(client);
        let (prefix, key) = (self.prefix.clone().into_bytes(), self.key(&session, request));
        self.sessions.spawn(async move {
            let token = lock(&session, &prefix, key).await?;
            Ok(Said::Told(Told::Granted { request, token }))
        });
    }

    fn release(&mut self, request: usize) {
        let session = self.sessions.session(self.clients[&request]);
        let key = self.key(&session, request);
        self.sessions.spawn(async move {
            session.write(DeleteRequest { key }).await?;
            Ok(Said::Told(Told::Released { request }))
        });
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        self.sessions.wait(until_ns, &mut self.said)?;
        let about_locks = |said| match said {
            Said::Told(told) => Some(told),
            Said::Heard(_) => None,
        };
        told.extend(self.said.drain(..).filter_map(about_locks));
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.sessions.counts()
    }
}

/// Takes the lock; returns its token.
async fn lock(session: &Session, prefix: &[u8], key: Vec<u8>) -> Result<i64, String> {
    let below = RangeRequest {
        key: prefix.to_vec(),
        end: behind(prefix),
        limit: 1,
        target: BY_CREATION,
        ..RangeRequest::default()
    };
    let put = PutRequest { key: key.clone(), value: Vec::new(), lease: session.lease };
    let oldest = RangeRequest { order: GROWING, ..below.clone() };
    let then = vec![Part { range: None, put: Some(put) }, Part { range: Some(oldest), put: None }];
    let compare = vec![Compare::absent(key.clone())];
    let done = session.write(TxnRequest { compare, then, otherwise: Vec::new() }).await?;
    if !done.succeeded {
        return Err("a key with a unique name existed already".to_owned());
    }
    let own = revision(&done.header);
    let ranges = done.parts.iter().find_map(|part| part.range.as_ref());
    if ranges.and_then(|range| range.pairs.first()).is_none_or(|first| first.created == own) {
        return Ok(own);
    }
    loop {
        let older = RangeRequest { order: FALLING, created_max: own - 1, ..below.clone() };
        let found = session.read(older).await?;
        let Some(before) = found.pairs.first() else { break };
        let deleted = session.watch(&before.key, revision(&found.header))?;
        deleted.await.map_err(|_| "a watch has ended".to_owned())?;
    }
    let found = session.read(RangeRequest { key, ..RangeRequest::default() }).await?;
    if found.pairs.is_empty() {
        return Err("a key has ended before its session".to_owned());
    }
    Ok(own)
}
