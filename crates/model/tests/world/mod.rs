//! A lock, its clients and the delays between them, event by event: the subject of the formulas,
//! implemented a second time and without them. Seeded, so that a run can be repeated.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// How clients take the lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recipe {
    /// The server keeps the queue and notifies the next client.
    Grant,
    /// Sequential nodes; the next client is notified, and enters at once or lists again.
    SyncQueue { again: bool },
    /// Sequential nodes; all clients poll by listing.
    AsyncQueue,
    /// All clients try to create the node; the next try follows the reply.
    SyncTas,
    /// All clients try periodically.
    AsyncTas,
    /// A client whose try has failed watches the node.
    WatchTas,
}

/// Times in milliseconds: client to leader and back, ordering and committing an entry, between
/// polls, mean service, mean time between requests.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub rtt: f64,
    pub commit: f64,
    pub poll: f64,
    pub service: f64,
    pub interarrival: f64,
}

/// Arrival at the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Create,
    List,
    Exists,
    Delete,
    /// The deletion is committed.
    Gone,
}

/// Xorshift, as good as needed here.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn exponential(&mut self, mean: f64) -> f64 {
        -mean * self.unit().ln()
    }
}

/// Time in nanoseconds, so that it can be ordered.
fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}

struct World {
    recipe: Recipe,
    times: Times,
    events: BinaryHeap<Reverse<(u64, Event, usize)>>,
    /// Requests with a node, in the order of nodes.
    queue: BTreeSet<usize>,
    /// Requests to notify when a node is deleted.
    watchers: BTreeMap<usize, Vec<usize>>,
    holder: Option<usize>,
    issued: Vec<u64>,
    services: Vec<u64>,
    entered: Vec<Option<u64>>,
}

/// The latencies of `requests` requests, in the order in which they were issued.
pub fn run(recipe: Recipe, times: Times, requests: usize, seed: u64) -> Vec<f64> {
    let mut random = Random::new(seed);
    (0..10).for_each(|_| _ = random.unit());
    let mut world = World {
        recipe,
        times,
        events: BinaryHeap::new(),
        queue: BTreeSet::new(),
        watchers: BTreeMap::new(),
        holder: None,
        issued: Vec::new(),
        services: Vec::new(),
        entered: vec![None; requests],
    };
    let mut now = 0.0;
    for id in 0..requests {
        now += random.exponential(times.interarrival);
        world.issued.push(ns(now));
        world.services.push(ns(random.exponential(times.service)));
        world.at(ns(now) + world.half(), Event::Create, id);
    }
    while let Some(Reverse((now, event, id))) = world.events.pop() {
        world.step(now, event, id);
    }
    let latency =
        |id: usize| world.entered[id].map(|entered| (entered - world.issued[id]) as f64 / 1e6);
    (0..requests).map(|id| latency(id).expect("everybody enters")).collect()
}

impl World {
    fn half(&self) -> u64 {
        ns(self.times.rtt / 2.0)
    }

    fn rtt(&self) -> u64 {
        2 * self.half()
    }

    fn commit(&self) -> u64 {
        ns(self.times.commit)
    }

    fn at(&mut self, when: u64, event: Event, id: usize) {
        self.events.push(Reverse((when, event, id)));
    }

    fn enter(&mut self, when: u64, id: usize) {
        assert!(self.entered[id].replace(when).is_none(), "{id} enters twice");
        self.at(when + self.services[id] + self.half(), Event::Delete, id);
    }

    /// The reply to a write that is ordered now reaches the client.
    fn replied(&self, now: u64) -> u64 {
        now + self.commit() + self.half()
    }

    fn step(&mut self, now: u64, event: Event, id: usize) {
        match self.recipe {
            Recipe::Grant => self.push(now, event, id),
            Recipe::SyncQueue { .. } | Recipe::AsyncQueue => self.queue(now, event, id),
            Recipe::SyncTas | Recipe::AsyncTas | Recipe::WatchTas => self.tas(now, event, id),
        }
    }

    fn push(&mut self, now: u64, event: Event, id: usize) {
        if event == Event::Create {
            self.queue.insert(id);
        } else {
            assert_eq!(self.holder.take(), Some(id));
        }
        if self.holder.is_none() {
            self.holder = self.queue.pop_first();
            if let Some(next) = self.holder {
                self.enter(self.replied(now), next);
            }
        }
    }

    /// Request whose node precedes that of `id` for a reader at this time.
    fn before(&self, id: usize) -> Option<usize> {
        self.queue.range(..id).next_back().copied()
    }

    fn queue(&mut self, now: u64, event: Event, id: usize) {
        match (event, self.recipe) {
            (Event::Create, Recipe::AsyncQueue) => {
                self.queue.insert(id);
                self.at(now + self.commit(), Event::List, id);
            }
            (Event::Create, _) => {
                self.queue.insert(id);
                self.at(now + self.commit() + self.rtt(), Event::List, id);
            }
            (Event::List, recipe) => match (self.before(id), recipe) {
                (None, _) => self.enter(now + self.half(), id),
                (Some(_), Recipe::AsyncQueue) => {
                    self.at(now + ns(self.times.poll), Event::List, id);
                }
                (Some(_), _) => self.at(now + self.rtt(), Event::Exists, id),
            },
            (Event::Exists, _) => match self.before(id) {
                None => self.at(now + self.rtt(), Event::List, id),
                Some(before) => self.watchers.entry(before).or_default().push(id),
            },
            (Event::Delete, _) => self.at(now + self.commit(), Event::Gone, id),
            (Event::Gone, recipe) => {
                self.queue.remove(&id);
                for watcher in self.watchers.remove(&id).unwrap_or_default() {
                    if recipe == (Recipe::SyncQueue { again: true }) {
                        self.at(now + self.rtt(), Event::List, watcher);
                    } else {
                        self.enter(now + self.half(), watcher);
                    }
                }
            }
        }
    }

    fn tas(&mut self, now: u64, event: Event, id: usize) {
        match event {
            Event::Create if self.entered[id].is_some() => {}
            Event::Create if self.holder.is_none() => {
                self.holder = Some(id);
                self.enter(self.replied(now), id);
            }
            Event::Create => match self.recipe {
                Recipe::SyncTas => self.at(now + self.commit() + self.rtt(), Event::Create, id),
                Recipe::AsyncTas => self.at(now + ns(self.times.poll), Event::Create, id),
                _ => self.at(now + self.commit() + self.rtt(), Event::Exists, id),
            },
            Event::Exists if self.holder.is_none() => {
                self.at(now + self.rtt(), Event::Create, id);
            }
            Event::Delete => {
                assert_eq!(self.holder.take(), Some(id));
                let told = std::mem::take(&mut self.watchers).into_values().flatten();
                let again = now + self.commit() + self.rtt();
                told.for_each(|id| self.events.push(Reverse((again, Event::Create, id))));
            }
            _ => self.watchers.entry(0).or_default().push(id),
        }
    }
}
