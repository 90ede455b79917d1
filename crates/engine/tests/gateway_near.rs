//! Near locks, which a server keeps for its clients, with several workers: gateways and shards, in
//! many orders.

mod harness;

use harness::{Client, Shape, World, short};
use std::collections::VecDeque;

const GATEWAYS: u16 = 3;

/// A world with a client at each of its gateways.
fn world(seed: u64) -> (World, Vec<Client>) {
    let mut world = World::new(Shape { seed, gateways: GATEWAYS, ..Shape::default() });
    // Makes tokens look like those of a real clock.
    world.advance(100_000_000_000_000);
    let clients = (0..usize::from(GATEWAYS)).map(|gateway| world.open(gateway)).collect();
    (world, clients)
}

fn call(world: &mut World, client: Client, line: &str) -> String {
    short(&world.call(client, line))
}

fn token(reply: &str) -> u64 {
    reply.parse().unwrap_or_else(|_| panic!("no token: {reply}"))
}

#[test]
fn clients_of_all_workers_take_turns_and_speak_of_their_stay_over_any_connection() {
    for seed in 0..60 {
        let (mut world, clients) = world(seed);
        let key = ["a", "b", "c", "d", "e"][seed as usize % 5];
        let mut before = 0;
        for (n, client) in clients.iter().cycle().take(9).enumerate() {
            let stay = call(&mut world, *client, &format!("LOCK.ACQUIRE {key} NEAR LEASE 5000"));
            let stay = token(&stay);
            assert!(stay > before && (before == 0 || stay == before + 1), "{stay} after {before}");
            before = stay;
            // The next client waits already; it enters when this one leaves.
            let other = clients[(n + 1) % clients.len()];
            let third = clients[(n + 2) % clients.len()];
            assert_eq!(call(&mut world, third, &format!("LOCK.RENEW {key} {stay}")), "1");
            assert_ne!(call(&mut world, other, &format!("LOCK.HELD {key} {stay}")), "0");
            assert_eq!(call(&mut world, other, &format!("FENCE {key} {stay} INCR {key}:n")), {
                (n + 1).to_string()
            });
            assert_eq!(call(&mut world, third, &format!("LOCK.RELEASE {key} {stay}")), "1");
            assert_eq!(call(&mut world, other, &format!("LOCK.RELEASE {key} {stay}")), "0");
            assert_eq!(call(&mut world, *client, &format!("LOCK.HELD {key} {stay}")), "0");
        }
        // The shard grants locks to clients that do not use `NEAR`.
        let plain = clients[0];
        let taken = token(&call(&mut world, plain, &format!("LOCK.ACQUIRE {key}")));
        assert!(taken > before);
        assert_eq!(call(&mut world, clients[1], &format!("LOCK.RENEW {key} {taken}")), "1");
        world.send(clients[2], &format!("LOCK.ACQUIRE {key} NEAR"));
        world.run();
        assert_eq!(world.take(clients[2]).len(), 0);
        assert_eq!(call(&mut world, clients[1], &format!("LOCK.RELEASE {key} {taken}")), "1");
        assert_eq!(world.take(clients[2]).len(), 1);
    }
}

/// Clients that enter and leave, and the state of the lock as they see it.
struct Crowd {
    seed: u64,
    world: World,
    clients: Vec<Client>,
    /// Unanswered requests of each client: whether it was for the lock.
    asked: Vec<VecDeque<bool>>,
    inside: Option<(usize, u64)>,
    last: u64,
    stays: u32,
}

impl Crowd {
    fn new(seed: u64) -> Self {
        let (mut world, mut clients) = world(seed);
        clients.extend((0..usize::from(GATEWAYS)).map(|gateway| world.open(gateway)));
        let asked = vec![VecDeque::new(); clients.len()];
        Self { seed, world, clients, asked, inside: None, last: 0, stays: 0 }
    }

    fn say(&mut self, n: usize, line: &str) {
        self.asked[n].push_back(line.starts_with("LOCK.ACQUIRE"));
        self.world.send(self.clients[n], line);
    }

    fn release(&mut self) {
        let idle = (0..self.clients.len()).find(|n| self.asked[*n].is_empty());
        if let (Some(idle), Some((_, token))) = (idle, self.inside) {
            self.inside = None;
            self.say(idle, &format!("LOCK.RELEASE a {token}"));
        }
    }

    /// Reads the replies of a client; returns whether it has entered.
    fn hear(&mut self, n: usize) -> bool {
        let mut came_in = false;
        for reply in self.world.take(self.clients[n]) {
            if self.asked[n].pop_front().expect("it has asked") {
                let (seed, token) = (self.seed, token(&short(&reply)));
                assert!(self.inside.is_none(), "seed {seed}: two clients are inside");
                assert!(token > self.last, "seed {seed}: {token} after {}", self.last);
                (self.inside, self.last) = (Some((n, token)), token);
                self.stays += 1;
                came_in = true;
            }
        }
        came_in
    }

    /// Replaces a client by another one.
    fn replace(&mut self, n: usize) {
        self.world.close(self.clients[n]);
        // The client has read its last reply when it leaves. If that was a grant, it is inside
        // until its lease ends.
        if self.hear(n) {
            self.world.advance(200_000_000);
            self.inside = None;
        }
        self.asked[n].clear();
        self.clients[n] = self.world.open(self.clients[n].0);
    }

    /// Runs everything that needs no time, and reads the replies.
    fn settle(&mut self) {
        self.world.run();
        for n in 0..self.clients.len() {
            self.hear(n);
        }
    }

    fn step(&mut self) {
        for n in 0..self.clients.len() {
            self.hear(n);
        }
        let n = self.world.random(self.clients.len());
        let is_in = self.inside.is_some_and(|(who, _)| who == n);
        match self.world.random(8) {
            0 if self.asked[n].is_empty() && !is_in => {
                let near = if self.world.random(4) > 0 { " NEAR" } else { "" };
                self.say(n, &format!("LOCK.ACQUIRE a LEASE 60000{near}"));
            }
            1 if self.asked[n].front() == Some(&true) => self.replace(n),
            2 | 3 => self.release(),
            // A client that leaves at the moment of its grant holds the lock until its lease ends.
            4 if self.inside.is_none() && self.world.random(20) == 0 => {
                // A client with a new grant reads it before its lease ends.
                self.settle();
                if self.inside.is_none() {
                    self.world.advance(61_000_000);
                }
            }
            _ => {
                self.world.step();
            }
        }
    }
}

#[test]
fn at_most_one_client_is_inside_and_none_is_forgotten() {
    for seed in 0..150 {
        let mut crowd = Crowd::new(seed);
        (0..600).for_each(|_| crowd.step());
        assert!(crowd.stays > 3, "seed {seed}: {}", crowd.stays);
        crowd.settle();
        for _ in 0..2 * crowd.clients.len() + 2 {
            match crowd.inside {
                Some(_) => crowd.release(),
                None => crowd.world.advance(61_000_000),
            }
            crowd.settle();
        }
        let waiting = crowd.asked.iter().filter(|asked| !asked.is_empty()).count();
        assert_eq!(waiting, 0, "seed {seed}");
    }
}
