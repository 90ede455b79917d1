//! Processes that keep the server's own lock when it is left, and hand it on among their clients, each
//! under a token of its own, until somebody else wants it.
//!
//! It is what the clients for Python and Rust do (`retained`), on the connections of [`super::grants`]:
//! *retained* has a process for each client, *cohort* two for all of them, as if there were two regions
//! in which the clients come to a service near them. Inside of a process nothing is said, and a hand-over
//! takes no time.

use super::client::Counts;
use super::grants::Grants;
use super::locker::{Locker, Told};
use std::collections::{BTreeMap, VecDeque};
use std::io;

/// Names on the command line and in the model.
pub const RETAINED: &str = "retained";
/// The same.
pub const COHORT: &str = "cohort";
/// How many processes the clients of a cohort are in.
const REGIONS: usize = 2;
/// How many are let in after somebody else wants the lock.
pub const MEMBERS: u32 = 16;
/// With how many tokens a grant comes.
pub const TOKENS: u32 = 65_536;

/// What a process has of the lock.
struct Grant {
    /// The request by which it was asked for.
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
    inside: Option<usize>,
    line: VecDeque<usize>,
}

/// How many processes there are for so many clients.
pub fn processes(algorithm: &str, clients: usize) -> usize {
    if algorithm == COHORT { clients.min(REGIONS) } else { clients }
}

/// A locker whose processes keep the lock.
pub struct Keepers {
    grants: Grants,
    processes: Vec<Process>,
    /// By request for the lock as the server knows it, its process.
    asked: Vec<usize>,
    /// By request, its process.
    of: BTreeMap<usize, usize>,
    told: Vec<Told>,
}

impl Keepers {
    /// Processes with these connections, each for itself.
    pub fn new(grants: Grants, processes: usize) -> Self {
        let mut all = Vec::new();
        all.resize_with(processes, Process::default);
        Self { grants, processes: all, asked: Vec::new(), of: BTreeMap::new(), told: Vec::new() }
    }

    /// Gives the lock back if it is time, lets the next one in, or asks for it.
    fn go_on(&mut self, number: usize) {
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
        }
        let Some(request) = process.line.front().copied() else { return };
        if let Some(grant) = &mut process.grant {
            let token = grant.token + i64::from(grant.used);
            grant.used += 1;
            grant.let_in += u32::from(grant.recalled);
            process.line.pop_front();
            process.inside = Some(request);
            self.told.push(Told::Granted { request, token });
        } else if !process.asks {
            process.asks = true;
            self.grants.acquire(self.asked.len(), number);
            self.asked.push(number);
        }
    }

    /// The server has told something to the processes.
    fn hear(&mut self, told: Told) {
        let Told::Granted { request, token } = told else { return };
        let number = self.asked[request];
        let process = &mut self.processes[number];
        process.asks = false;
        process.grant = Some(Grant { request, token, used: 0, recalled: false, let_in: 0 });
        self.grants.listen(request);
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
                let grant = self.processes[number].grant.as_mut();
                if let Some(grant) = grant.filter(|grant| grant.request == request) {
                    grant.recalled = true;
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
