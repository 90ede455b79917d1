//! Processes that keep the server's own lock after a release, and hand it on among their clients,
//! each under a token of its own, until another process wants it.
//!
//! The clients for Python and Rust do the same (`retained`), here on the connections of
//! [`crate::coordination::grants`]:
//! *retained* has a process for each client, *cohort* two for all of them, like two regions whose
//! clients each use a service nearby. Within a process nothing is sent, and a hand-over takes no
//! time. *Adaptive* has a process for each client, which keeps the lock while that pays off and
//! otherwise releases it each time, as [`Keep`] decides.

use super::Grants;
use crate::coordination::recipes::locker::{Locker, Told};
use crate::coordination::services::client::Counts;
use client::Keep;
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Name of the variant with a process per client, on the command line and in the model.
pub const RETAINED: &str = "retained";
/// Name of the variant with two processes, on the command line and in the model.
pub const COHORT: &str = "cohort";
/// Name of the choice between keeping and releasing; on services with nodes only, of the choice
/// among recipes.
pub const ADAPTIVE: &str = "adaptive";
/// Number of processes that the clients of a cohort are spread over.
const REGIONS: usize = 2;
/// Number of members that are still admitted after another process wants the lock.
pub const MEMBERS: u32 = 16;
/// Number of tokens per grant.
pub const TOKENS: u32 = adt::kinds::lock::TOKENS_OF_KEPT;

/// Grant of the lock to a process.
struct Grant {
    /// Request that acquired the lock.
    request: usize,
    token: i64,
    used: u32,
    recalled: bool,
    let_in: u32,
}

#[derive(Default)]
struct Process {
    grant: Option<Grant>,
    asks: bool,
    /// Times of the last request to the server and of the last release.
    asked_ns: u64,
    left_ns: Option<u64>,
    /// Whether the lock has been free since a release without a waiter in the process.
    idle: bool,
    keep: Keep,
    inside: Option<usize>,
    line: VecDeque<usize>,
}

/// Number of processes for this number of clients.
pub fn processes(algorithm: &str, clients: usize) -> usize {
    if algorithm == COHORT { clients.min(REGIONS) } else { clients }
}

/// A locker whose processes keep the lock.
pub struct Keepers {
    grants: Grants,
    adaptive: bool,
    processes: Vec<Process>,
    /// Process of each request to the server.
    asked: Vec<usize>,
    /// Process of each request.
    of: BTreeMap<usize, usize>,
    told: Vec<Told>,
    stays: u64,
}

impl Keepers {
    /// Creates processes with these connections, each independent of the others.
    pub fn new(grants: Grants, processes: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(processes, Process::default);
        let (asked, of, told) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { grants, adaptive: false, processes: all, asked, of, told, stays: 0 }
    }

    /// Lets the processes keep the lock only while that pays off.
    #[must_use]
    pub fn adaptive(self) -> Self {
        Self { adaptive: true, ..self }
    }

    /// Number of requests to the server, and number of acquisitions without one.
    pub fn history(&self) -> (u64, u64) {
        let asked = self.asked.len() as u64;
        (asked, self.stays.saturating_sub(asked))
    }

    /// Releases the lock if it is time, admits the next member, or requests the lock.
    fn go_on(&mut self, number: usize) {
        let now_ns = self.grants.now_ns();
        let process = &mut self.processes[number];
        if process.inside.is_some() {
            return;
        }
        let over = |grant: &mut Grant| {
            let others = process.line.is_empty() || grant.let_in >= MEMBERS;
            grant.recalled && others || grant.used == TOKENS
        };
        if let Some(grant) = process.grant.take_if(over) {
            self.grants.release(grant.request);
            process.left_ns = Some(now_ns);
            process.idle = false;
        }
        let Some(request) = process.line.front().copied() else {
            process.idle = process.grant.is_some();
            return;
        };
        if let Some(grant) = &mut process.grant {
            let token = grant.token + i64::from(grant.used);
            grant.used += 1;
            self.stays += 1;
            if std::mem::take(&mut process.idle) {
                process.keep.came_back();
            }
            grant.let_in += u32::from(grant.recalled);
            process.line.pop_front();
            process.inside = Some(request);
            self.told.push(Told::Granted { request, token });
        } else if !process.asks {
            (process.asks, process.asked_ns) = (true, now_ns);
            self.grants.acquire(self.asked.len(), number);
            self.asked.push(number);
        }
    }

    /// Handles an event from the server.
    fn hear(&mut self, told: Told) {
        let Told::Granted { request, token } = told else { return };
        let number = self.asked[request];
        let now_ns = self.grants.now_ns();
        let process = &mut self.processes[number];
        process.asks = false;
        let asked_ns = process.asked_ns;
        let away_ns = process.left_ns.map_or(u64::MAX, |left_ns| asked_ns.saturating_sub(left_ns));
        process.keep.granted(away_ns, now_ns - asked_ns);
        // A lock that is about to be released needs no notification of other clients.
        let recalled = self.adaptive && !process.keep.keeps();
        process.grant = Some(Grant { request, token, used: 0, recalled, let_in: 0 });
        if !recalled {
            self.grants.listen(request);
        }
        self.go_on(number);
    }
}

impl Locker for Keepers {
    fn now_ns(&self) -> u64 {
        self.grants.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        let number = client % self.processes.len();
        self.of.insert(request, number);
        self.processes[number].line.push_back(request);
        self.go_on(number);
    }

    fn release(&mut self, request: usize) {
        let Some(number) = self.of.remove(&request) else { return };
        self.processes[number].inside = None;
        self.told.push(Told::Released { request });
        self.go_on(number);
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        while self.told.is_empty() {
            let mut from_server = Vec::new();
            self.grants.wait(until_ns, &mut from_server)?;
            from_server.into_iter().for_each(|told| self.hear(told));
            for request in self.grants.wanted_by_others() {
                let number = self.asked[request];
                let process = &mut self.processes[number];
                let grant = process.grant.as_mut();
                if let Some(grant) = grant.filter(|grant| grant.request == request) {
                    grant.recalled = true;
                    if process.idle {
                        process.keep.recalled();
                    }
                    self.go_on(number);
                }
            }
            if self.now_ns() >= until_ns {
                break;
            }
        }
        told.append(&mut self.told);
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.grants.counts()
    }
}
