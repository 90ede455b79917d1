//! Gateways and shards in one memory. Messages between two parties stay in order; a seed decides
//! the order of all other events.
#![allow(dead_code)]

use adt::{ArgBuf, Reply};
use engine::gateway::acl::{DIGESTS, fits_digest};
use engine::gateway::{
    Config, Gateway, NearWord, Opening, Output, PeerMessage, ServerReply, SessionId, UserConfig,
};
use engine::ids::{GatewayId, ShardId};
use engine::message::{Concurrency, Request, Response};
use engine::now::Now;
use engine::shard::{self, Shard};
use std::collections::{BTreeMap, VecDeque};

/// A client: its gateway and its session.
pub type Client = (usize, SessionId);

/// Sizes and conditions of a world.
#[derive(Clone, Copy)]
pub struct Shape {
    pub gateways: u16,
    pub shards: u16,
    pub concurrency: Concurrency,
    pub seed: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { gateways: 2, shards: 3, concurrency: Concurrency::FULL, seed: 1 }
    }
}

/// One server.
pub struct World {
    pub gateways: Vec<Gateway>,
    pub shards: Vec<Shard>,
    pub now: Now,
    pub closed: Vec<Client>,
    random: u64,
    to_shards: BTreeMap<(usize, usize), VecDeque<Request>>,
    to_gateways: BTreeMap<(usize, usize), VecDeque<Response>>,
    peers: BTreeMap<(usize, usize), VecDeque<PeerMessage>>,
    near: BTreeMap<(usize, usize), VecDeque<NearWord>>,
    in_log: Vec<u32>,
    replies: BTreeMap<Client, VecDeque<Reply>>,
    verdicts: VecDeque<(Client, bool)>,
}

#[derive(Clone, Copy)]
enum Step {
    Request(usize, usize),
    Response(usize, usize),
    Peer(usize, usize),
    Near(usize, usize),
    EndTurn(usize),
    Commit(usize),
    Verdict,
}

impl World {
    pub fn new(shape: Shape) -> Self {
        let now = Now { wall_us: 1_700_000_000_000_000, mono_us: 1_000_000 };
        let words = |rules: &str| rules.split(' ').map(str::to_owned).collect();
        let users = vec![
            UserConfig {
                name: "default".into(),
                rules: words("on nopass ~* &* +@all"),
                verifier: None,
            },
            UserConfig {
                name: "ann".into(),
                rules: words("on ~a* +@read +@transaction +@connection"),
                verifier: Some("secret".into()),
            },
        ];
        let gateway = |id| {
            let config = Config {
                id: GatewayId::alone(id),
                gateways: shape.gateways,
                members: None,
                leader_wait_us: 5_000_000,
                close_on_lost_leader: false,
                bundles: false,
                shards: shape.shards,
                concurrency: shape.concurrency,
                order: engine::gateway::Order::default(),
                patience: engine::gateway::Patience::default(),
                version: "1.2.3",
                users: users.clone(),
                require_auth: false,
                session_timeout_ms: engine::limits::SESSION_TIMEOUT_MS,
                tree_shards: 1,
                tags: Some(adt::command::tags::TagRules::NONE),
                settings: BTreeMap::from([("maxmemory".to_owned(), "0".to_owned())]),
                seed: shape.seed,
            };
            Gateway::new(config, now)
        };
        let shard = |id| {
            let (id, concurrency, seed) = (ShardId(id), shape.concurrency, shape.seed);
            let mut shard = Shard::new(shard::ShardConfig {
                id,
                concurrency,
                seed,
                beside: GatewayId::default(),
                clustered: false,
                reap_us: engine::limits::REAP_US,
                broken: None,
                interpreter: None,
                tags: adt::command::tags::TagRules::NONE,
            });
            shard.lead(now, 1);
            shard
        };
        Self {
            gateways: (0..shape.gateways).map(gateway).collect(),
            shards: (0..shape.shards).map(shard).collect(),
            now,
            closed: Vec::new(),
            random: shape.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            to_shards: BTreeMap::new(),
            to_gateways: BTreeMap::new(),
            peers: BTreeMap::new(),
            near: BTreeMap::new(),
            in_log: vec![0; usize::from(shape.shards)],
            replies: BTreeMap::new(),
            verdicts: VecDeque::new(),
        }
    }

    pub fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 16) as usize % below.max(1)
    }

    pub fn open(&mut self, gateway: usize) -> Client {
        let opening = Opening { peer: "10.0.0.1:1".into(), ..Opening::default() };
        (gateway, self.gateways[gateway].open(self.now, opening))
    }

    pub fn close(&mut self, client: Client) {
        self.gateways[client.0].close(self.now, client.1);
        self.collect();
    }

    /// Sends a command given as words.
    pub fn send(&mut self, client: Client, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let words = ArgBuf::of(&words);
        self.gateways[client.0].command(self.now, client.1, &words.args());
        self.collect();
    }

    /// Sends a command, runs everything that needs no time, and returns the single reply.
    pub fn call(&mut self, client: Client, line: &str) -> Reply {
        self.send(client, line);
        self.run();
        let replies = self.take(client);
        assert_eq!(replies.len(), 1, "{line}: {replies:?}");
        replies.into_iter().next().expect("one reply")
    }

    /// Replies since the last call.
    pub fn take(&mut self, client: Client) -> Vec<Reply> {
        self.replies.remove(&client).into_iter().flatten().collect()
    }

    pub fn next_reply(&mut self, client: Client) -> Option<Reply> {
        self.replies.get_mut(&client)?.pop_front()
    }

    fn collect(&mut self) {
        for g in 0..self.gateways.len() {
            while let Some(output) = self.gateways[g].poll() {
                match output {
                    Output::Reply { session, reply, .. } => {
                        self.replies.entry((g, session)).or_default().push_back(reply);
                    }
                    Output::Close { session } => self.closed.push((g, session)),
                    Output::Shard { shard, request } => {
                        let way = (g, usize::from(shard.0));
                        self.to_shards.entry(way).or_default().push_back(request);
                    }
                    Output::Peer { to, message } => {
                        let way = (g, usize::from(to.worker));
                        self.peers.entry(way).or_default().push_back(message);
                    }
                    Output::Near { to, word } => {
                        let way = (g, usize::from(to.worker));
                        self.near.entry(way).or_default().push_back(word);
                    }
                    Output::Verify { session, password, verifier, .. } => {
                        let ok = match verifier.strip_prefix(DIGESTS) {
                            Some(digests) => fits_digest(&password, digests),
                            None => {
                                !verifier.is_empty() && password.as_slice() == verifier.as_bytes()
                            }
                        };
                        self.verdicts.push_back(((g, session), ok));
                    }
                    Output::Admin { session, .. } => {
                        self.gateways[g].server_replied(
                            self.now,
                            session,
                            ServerReply::Admin(Reply::Ok),
                        );
                    }
                    Output::Foreign { .. } | Output::ScriptLog { .. } => {}
                    Output::Broadcast(_) => panic!("there is one machine"),
                    Output::Bundle { .. } => panic!("no gateway here sends bundles"),
                    // No client here uses the coordination service.
                    Output::Coordination { .. } => {}
                }
            }
        }
        for s in 0..self.shards.len() {
            while let Some(response) = self.shards[s].outbox_mut().poll() {
                let way = (s, usize::from(response.gateway.worker));
                self.to_gateways.entry(way).or_default().push_back(response);
            }
        }
    }

    fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let open = |(way, queue): (&(usize, usize), bool)| queue.then_some(*way);
        let requests = self.to_shards.iter().map(|(w, q)| (w, !q.is_empty())).filter_map(open);
        steps.extend(requests.map(|(a, b)| Step::Request(a, b)));
        let responses = self.to_gateways.iter().map(|(w, q)| (w, !q.is_empty())).filter_map(open);
        steps.extend(responses.map(|(a, b)| Step::Response(a, b)));
        let peers = self.peers.iter().map(|(w, q)| (w, !q.is_empty())).filter_map(open);
        steps.extend(peers.map(|(a, b)| Step::Peer(a, b)));
        let near = self.near.iter().map(|(w, q)| (w, !q.is_empty())).filter_map(open);
        steps.extend(near.map(|(a, b)| Step::Near(a, b)));
        for s in 0..self.shards.len() {
            if self.shards[s].tail().has_work() {
                steps.push(Step::EndTurn(s));
            }
            if self.in_log[s] > 0 {
                steps.push(Step::Commit(s));
            }
        }
        if !self.verdicts.is_empty() {
            steps.push(Step::Verdict);
        }
        steps
    }

    /// Executes one possible event. Returns whether there was any.
    pub fn step(&mut self) -> bool {
        let steps = self.steps();
        if steps.is_empty() {
            return false;
        }
        let at = self.random(steps.len());
        let step = steps[at];
        self.now.wall_us += 1;
        self.now.mono_us += 1;
        let now = self.now;
        for gateway in &mut self.gateways {
            if gateway.next_timeout().is_some_and(|at| at <= now.mono_us) {
                gateway.tick(now);
            }
        }
        match step {
            Step::Request(g, s) => {
                if let Some(request) = self.to_shards.get_mut(&(g, s)).and_then(VecDeque::pop_front)
                {
                    self.shards[s].handle(now, request);
                }
            }
            Step::Response(s, g) => {
                let response = self.to_gateways.get_mut(&(s, g)).and_then(VecDeque::pop_front);
                if let Some(response) = response {
                    self.gateways[g].response(now, response);
                }
            }
            Step::Peer(from, to) => {
                if let Some(message) = self.peers.get_mut(&(from, to)).and_then(VecDeque::pop_front)
                {
                    self.gateways[to].peer(now, GatewayId::alone(from as u16), message);
                }
            }
            Step::Near(from, to) => {
                if let Some(word) = self.near.get_mut(&(from, to)).and_then(VecDeque::pop_front) {
                    self.gateways[to].near_told(now, GatewayId::alone(from as u16), word);
                }
            }
            Step::EndTurn(s) => {
                self.shards[s].answer_idle(now);
                if let Some(entry) = self.shards[s].end_turn(now) {
                    self.shards[s].keep(entry, 0);
                    self.in_log[s] += 1;
                }
            }
            Step::Commit(s) => {
                self.shards[s].committed(now);
                self.in_log[s] -= 1;
            }
            Step::Verdict => {
                if let Some(((g, session), ok)) = self.verdicts.pop_front() {
                    self.gateways[g].server_replied(now, session, ServerReply::Verified(ok));
                }
            }
        }
        self.collect();
        true
    }

    /// Loses all messages between gateways that are under way. Returns whether there were any.
    pub fn forget_news(&mut self) -> bool {
        let any = self.peers.values().any(|queue| !queue.is_empty());
        self.peers.clear();
        any
    }

    /// Runs all events that need no time.
    pub fn run(&mut self) {
        for _ in 0..1_000_000 {
            if !self.step() && !self.fire_due(200_000) {
                return;
            }
        }
        panic!("the world does not come to rest");
    }

    /// Fires a timer that is due within a little time (timers of repetitions, not of long waits).
    fn fire_due(&mut self, within_us: u64) -> bool {
        let next = self.gateways.iter().filter_map(Gateway::next_timeout).min();
        let Some(at) = next.filter(|at| *at <= self.now.mono_us + within_us) else { return false };
        self.advance(at.saturating_sub(self.now.mono_us));
        true
    }

    /// Lets time pass.
    pub fn advance(&mut self, us: u64) {
        self.now.mono_us += us;
        self.now.wall_us += us;
        for gateway in &mut self.gateways {
            gateway.tick(self.now);
        }
        for shard in &mut self.shards {
            shard.tick(self.now);
        }
        self.collect();
    }
}

/// A reply in short form, for comparison.
pub fn short(reply: &Reply) -> String {
    let list = |items: &[Reply]| items.iter().map(short).collect::<Vec<_>>().join(" ");
    match reply {
        Reply::Ok => "OK".into(),
        Reply::Status(s) => s.to_string(),
        Reply::Nil => "nil".into(),
        Reply::NilArray => "nilarray".into(),
        Reply::Int(n) => n.to_string(),
        Reply::Bulk(b) => String::from_utf8_lossy(b).into_owned(),
        Reply::Text(t) => t.clone(),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            format!("[{}]", list(items))
        }
        Reply::Error(error) => format!("!{error}"),
        other => format!("{other:?}"),
    }
}

/// Runs lines of `command => reply` on one connection.
pub fn talk(world: &mut World, client: Client, script: &str) {
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (command, expected) = line.split_once(" => ").expect("command => reply");
        let reply = world.call(client, command);
        assert_eq!(short(&reply).trim_end(), expected, "{command}");
    }
}

/// World with one client that has sent these lines.
pub fn with_client(script: &str) -> (World, Client) {
    let mut world = World::new(Shape::default());
    let client = world.open(0);
    talk(&mut world, client, script);
    (world, client)
}
