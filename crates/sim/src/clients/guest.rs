//! Simulated client of the coordination service, which behaves like ZooKeeper's clients. It begins
//! a session, sends requests without waiting, pings in time, reconnects to another machine after
//! the loss of its connection and restores its watches. Sometimes it ends its session, sometimes it
//! falls silent.

use super::errand::{Taste, answer_of, as_asked, happened_of, text};
use crate::random::Random;
use check::coordination::{self as seen, Asked, Connection, Heard, Kind, Request, Session};
use engine::coordination::spread::{Location, Spread};
use engine::coordination::{Identity, TreeSessionId, Zxid};
use engine::gateway::Said;
use engine::gateway::coordination::Connect;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Behaviour of the clients of a run.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// Typical pause between requests.
    think_us: u64,
    /// Session time-out.
    timeout_ms: i32,
    /// Limit on a client's requests in progress.
    pipelined: u64,
    /// Steps per thousand at which a client drops its connection, falls silent or ends the session.
    leaves: u64,
    falls_silent: u64,
    closes: u64,
    taste: Taste,
}

impl Habits {
    /// Draws the behaviour of all clients of a run.
    pub fn draw(random: &mut Random) -> Self {
        Self {
            think_us: *random.pick(&[15_000, 60_000, 200_000]),
            timeout_ms: *random.pick(&[4_000, 4_000, 5_500]),
            pipelined: *random.pick(&[1, 4, 12]),
            leaves: *random.pick(&[2, 10, 40]),
            falls_silent: *random.pick(&[0, 2, 6]),
            closes: *random.pick(&[0, 4]),
            taste: Taste::draw(random),
        }
    }
}

/// Action that a client requests.
#[derive(Debug)]
pub enum Action {
    /// Connect to some machine with this request.
    Connect(Connect),
    /// Send a request.
    Ask(engine::gateway::coordination::ClientRequest),
    /// Close the connection.
    Leave,
}

/// State of the connection.
#[derive(Debug)]
enum Line {
    /// Not connected.
    Off,
    /// Waiting for the session since this time.
    Asking(u64),
    /// Connected with a session.
    On,
}

/// Client's knowledge of its session.
#[derive(Debug)]
struct Own {
    id: TreeSessionId,
    password: [u8; 16],
    timeout_us: u64,
    /// Last change that an answer has shown.
    last: i64,
    /// Watches that are set.
    watches: BTreeMap<String, BTreeSet<Kind>>,
}

/// Client.
#[derive(Debug)]
pub struct Guest {
    id: u64,
    habits: Habits,
    /// Number of shards of the tree, if it is new.
    spread: Spread,
    random: Random,
    line: Line,
    own: Option<Own>,
    /// Unanswered requests.
    open: VecDeque<Request>,
    heard_us: u64,
    asked_us: u64,
    /// Time before which the client does nothing.
    silent_until_us: u64,
    number: u64,
    done: bool,
    /// Observations of the client.
    pub sessions: Vec<Session>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
}

/// Time after which a client without a session tries another machine.
const CONNECT_US: u64 = 1_500_000;

impl Guest {
    /// Creates client number `id`.
    pub fn new(seed: u64, id: u64, habits: Habits, spread: Spread) -> Self {
        Self {
            id,
            habits,
            spread,
            random: Random::new(seed, &format!("guest {id}")),
            line: Line::Off,
            own: None,
            open: VecDeque::new(),
            heard_us: 0,
            asked_us: 0,
            silent_until_us: 0,
            number: 0,
            done: false,
            sessions: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Current activity, for reports.
    pub fn activity(&self) -> String {
        format!("{:?}, waits for {:?}", self.line, self.open)
    }

    /// Whether the client has unfinished work.
    pub fn is_busy(&self) -> bool {
        !self.done
    }

    /// Client's identity, as gateways see it.
    pub fn identity() -> Identity {
        Identity { scheme: adt::Blob::from("ip"), id: adt::Blob::from("10.0.1.1") }
    }

    fn mark(&mut self, kind: &'static str) {
        *self.marks.entry(kind).or_default() += 1;
    }

    /// Actions of the client now, and the microseconds after which it continues, if ever. When the
    /// run is `over` it finishes what it has begun.
    pub fn go_on(&mut self, now_us: u64, over: bool) -> (Vec<Action>, Option<u64>) {
        if over {
            self.silent_until_us = 0;
        }
        let actions = if now_us < self.silent_until_us {
            Vec::new()
        } else {
            match self.line {
                Line::Off => self.connect(now_us, over),
                Line::Asking(since) if now_us > since + CONNECT_US => self.leave(),
                Line::Asking(_) => Vec::new(),
                Line::On => self.act(now_us, over),
            }
        };
        let longest_us = if over { 50_000 } else { 1_000_000 };
        let pause_us = self.random.tail(self.habits.think_us).min(longest_us);
        (actions, self.is_busy().then_some(pause_us))
    }

    fn connect(&mut self, now_us: u64, over: bool) -> Vec<Action> {
        let Some(own) = &self.own else {
            if over {
                self.done = true;
                return Vec::new();
            }
            let mut password = [0; 16];
            password[..8].copy_from_slice(&self.random.next().to_le_bytes());
            password[8..].copy_from_slice(&self.random.next().to_le_bytes());
            self.line = Line::Asking(now_us);
            let timeout_ms = self.habits.timeout_ms;
            let (session, seen) = (None, Zxid(0));
            return vec![Action::Connect(Connect { session, password, timeout_ms, seen })];
        };
        self.line = Line::Asking(now_us);
        let (session, password) = (Some(own.id), own.password);
        let (timeout_ms, seen) = (self.habits.timeout_ms, Zxid(own.last));
        vec![Action::Connect(Connect { session, password, timeout_ms, seen })]
    }

    /// Closes the connection, to reconnect later.
    fn leave(&mut self) -> Vec<Action> {
        self.broken();
        vec![Action::Leave]
    }

    fn act(&mut self, now_us: u64, over: bool) -> Vec<Action> {
        let timeout_us = self.own.as_ref().map_or(0, |own| own.timeout_us);
        if !self.open.is_empty() && now_us > self.heard_us + timeout_us * 2 / 3 {
            self.mark("guests_heard_nothing");
            return self.leave();
        }
        let closing = self.open.iter().any(|request| *request == Request::Close);
        if closing {
            return Vec::new();
        }
        if over {
            return self.finish(now_us);
        }
        let moment = self.random.below(1000);
        let Habits { leaves, falls_silent, closes, .. } = self.habits;
        if moment < leaves {
            // Requests in progress are lost, or arrive late.
            let mut actions = self.requests(now_us);
            actions.extend(self.leave());
            return actions;
        }
        if moment < leaves + falls_silent {
            self.mark("guests_fell_silent");
            self.silent_until_us = now_us + self.random.between(1_000_000, 9_000_000);
            return if self.random.percent(50) { self.leave() } else { Vec::new() };
        }
        if moment < leaves + falls_silent + closes {
            return vec![self.ask(now_us, Request::Close)];
        }
        let actions = self.requests(now_us);
        if !actions.is_empty() {
            return actions;
        }
        if now_us > self.asked_us + timeout_us / 3 {
            return vec![self.ask(now_us, Request::Ping)];
        }
        Vec::new()
    }

    /// Ends or abandons the session at the end of the run.
    fn finish(&mut self, now_us: u64) -> Vec<Action> {
        if !self.open.is_empty() {
            return Vec::new();
        }
        if self.random.percent(30) {
            self.own = None;
            return self.leave();
        }
        vec![self.ask(now_us, Request::Close)]
    }

    /// Sends some requests, unless too many are in progress.
    fn requests(&mut self, now_us: u64) -> Vec<Action> {
        let count = self.random.between(0, self.habits.pipelined);
        let mut actions = Vec::new();
        for _ in 0..count.min(self.habits.pipelined.saturating_sub(self.open.len() as u64)) {
            self.number += 1;
            let unique = format!("{}-{}", self.id, self.number);
            let request = self.habits.taste.next(&mut self.random, &unique, self.spread);
            actions.push(self.ask(now_us, request));
        }
        actions
    }

    fn ask(&mut self, now_us: u64, request: Request) -> Action {
        let asked = as_asked(&request, &[Self::identity()]);
        if let Some(connection) = self.connection() {
            let request = request.clone();
            connection.asked.push(Asked {
                time_us: now_us,
                request,
                zxid: None,
                parts: Vec::new(),
            });
        }
        self.open.push_back(request);
        self.asked_us = now_us;
        Action::Ask(asked)
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        self.sessions.last_mut()?.connections.last_mut()
    }

    /// Handles the loss of the connection.
    pub fn broken(&mut self) {
        self.line = Line::Off;
        self.open.clear();
    }

    /// Handles a message of the server. Returns the immediate actions.
    pub fn said(&mut self, now_us: u64, said: Said) -> Vec<Action> {
        self.heard_us = now_us;
        match said {
            Said::Connected { session, timeout_ms, password } => {
                self.connected(now_us, session, u64::from(timeout_ms.unsigned_abs()), password)
            }
            Said::Expired => {
                self.mark("sessions_expired");
                if let Some(session) = self.sessions.last_mut() {
                    session.expired_us = Some(now_us);
                }
                self.own = None;
                Vec::new()
            }
            Said::Answered { reply, zxid, at } => {
                let answer = answer_of(&reply);
                let heard = Heard::Answer { time_us: now_us, zxid: at.0, answer: answer.clone() };
                self.hear(heard);
                if let Some(request) = self.open.pop_front() {
                    self.answered(&request, zxid.0, &answer);
                }
                Vec::new()
            }
            Said::Happened { event, zxid, at } => {
                self.mark("watches_told");
                let (happened, path) = (happened_of(event.happened), text(&event.path));
                let is_whole = self.has_its_watches();
                if let Some(own) = self.own.as_mut().filter(|_| is_whole && self.spread.is_spread())
                {
                    // Some libraries take the number from notifications as well.
                    own.last = zxid.0;
                }
                let (time_us, zxid) = (now_us, at.0);
                self.spend(happened, &path);
                self.hear(Heard::Told { time_us, zxid, happened, path });
                Vec::new()
            }
            Said::Close => {
                self.broken();
                Vec::new()
            }
        }
    }

    fn hear(&mut self, heard: Heard) {
        if let Some(connection) = self.connection() {
            connection.heard.push(heard);
        }
    }

    fn connected(
        &mut self,
        now_us: u64,
        session: TreeSessionId,
        timeout_ms: u64,
        password: [u8; 16],
    ) -> Vec<Action> {
        self.line = Line::On;
        self.asked_us = now_us;
        let connection = Connection { time_us: now_us, ..Connection::default() };
        if let Some(own) = &self.own
            && let Some(known) = self.sessions.last_mut().filter(|known| known.id == session.0)
        {
            known.connections.push(connection);
            let again = |(path, kinds): (&String, &BTreeSet<Kind>)| {
                kinds.iter().map(|kind| (path.clone(), *kind)).collect::<Vec<_>>()
            };
            let watches: Vec<_> = own.watches.iter().flat_map(again).collect();
            let since = own.last;
            self.mark("sessions_resumed");
            if watches.is_empty() {
                return Vec::new();
            }
            self.mark("watches_set_again");
            return self.watch_again(now_us, since, watches);
        }
        self.mark("sessions_begun");
        let timeout_us = timeout_ms * 1000;
        let connections = vec![connection];
        let id = session.0;
        self.sessions.push(Session { id, timeout_us, connections, ..Session::default() });
        let (last, watches) = (session.0, BTreeMap::new());
        self.own = Some(Own { id: session, password, timeout_us, last, watches });
        Vec::new()
    }

    /// Restores the watches. Each shard of a tree over several shards is asked separately, so that
    /// each answer has a number.
    fn watch_again(
        &mut self,
        now_us: u64,
        since: i64,
        watches: Vec<(String, Kind)>,
    ) -> Vec<Action> {
        let mut parts: Vec<(Location, Vec<(String, Kind)>)> = Vec::new();
        for watch in watches {
            let place = self.spread.place(watch.0.as_bytes());
            match parts.iter_mut().find(|(of, _)| *of == place) {
                Some((_, part)) => part.push(watch),
                None => parts.push((place, vec![watch])),
            }
        }
        let parts = parts.into_iter();
        parts.map(|(_, watches)| self.ask(now_us, Request::Again(since, watches))).collect()
    }

    /// Whether all watches are set again. Until then the client has not got what it missed at some shards,
    /// and would come back from where it was.
    fn has_its_watches(&self) -> bool {
        !self.open.iter().any(|request| matches!(request, Request::Again(..)))
    }

    /// Updates the state of the session with an answer, as a client's library does.
    fn answered(&mut self, request: &Request, zxid: i64, answer: &seen::Answer) {
        let ended = *answer == Err(seen::code::SESSION_EXPIRED);
        if ended || (*request == Request::Close && answer.is_ok()) {
            if ended {
                self.mark("sessions_expired");
            }
            self.own = None;
            return;
        }
        let is_whole = self.has_its_watches();
        let Some(own) = &mut self.own else { return };
        if *request == Request::Ping {
            return;
        }
        if is_whole {
            own.last = if self.spread.is_spread() { zxid } else { own.last.max(zxid) };
        }
        let mut watch = |path: &String, kind| {
            own.watches.entry(path.clone()).or_default().insert(kind);
        };
        match request {
            Request::Exists(path, true) if answer.is_ok() => watch(path, Kind::Data),
            Request::Exists(path, true) if *answer == Err(seen::code::NO_NODE) => {
                watch(path, Kind::Exist);
            }
            Request::Data(path, true) if answer.is_ok() => watch(path, Kind::Data),
            Request::Children(path, true) if answer.is_ok() => watch(path, Kind::Child),
            Request::Watch(path, kind) if answer.is_ok() => watch(path, *kind),
            Request::Unwatch(path) if answer.is_ok() => {
                own.watches.remove(path);
            }
            _ => {}
        }
    }

    /// Removes one-time watches that an event has triggered.
    fn spend(&mut self, happened: seen::Happened, path: &str) {
        let Some(own) = &mut self.own else { return };
        let Some(kinds) = own.watches.get_mut(path) else { return };
        kinds.retain(|kind| match kind {
            Kind::Persistent | Kind::Recursive => true,
            Kind::Child => !matches!(happened, seen::Happened::Deleted | seen::Happened::Children),
            Kind::Data | Kind::Exist => happened == seen::Happened::Children,
        });
        if kinds.is_empty() {
            own.watches.remove(path);
        }
    }
}
