//! The server's own locks: `LOCK.ACQUIRE` is answered when it is the request's turn, and
//! `LOCK.RELEASE` hands the lock to the next request in the same log entry.
//!
//! A connection with a waiting acquisition serves nothing else, so each request has a connection of
//! its client for itself, from its acquisition to the answer to its release: two requests of one
//! client stand in the server's queue like requests of two clients, and the release of one never
//! waits behind the other. A client begins with one connection. In an open loop it keeps a spare
//! one, which is dialled in advance, since connecting over a line takes another round trip that a
//! request must not pay for.

pub mod keepers;
pub(in crate::coordination) mod sections;

use crate::coordination::recipes::locker::{Locker, Told};
use crate::coordination::services::client::Counts;
use crate::load::resp::{Frame, command, frame_len};
use crate::load::stream::Stream;
use crate::load::timers::Timers;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use wire::resp::ClientReply;

/// Name on the command line and in the model.
pub const NAME: &str = "grant";
/// Name of the variant in which successors are named in the log in advance, so that a release is
/// passed on at once.
pub const SUCCESSOR: &str = "successor";
/// Name of the variant in which the server that a client is connected to keeps the lock for all of
/// its clients.
pub const NEAR: &str = "near";

const TIMER: Token = Token(usize::MAX);
const READ_BYTES: usize = 16 << 10;
/// Time limit for a server to answer a new connection.
const PATIENCE_NS: u64 = 60_000_000_000;
/// Longest sleep, so that Ctrl-C is noticed.
const IDLE_NS: u64 = 100_000_000;
/// Lease longer than any critical section of a bench in which no client dies.
const LEASE_MS: &[u8] = b"86400000";
/// Longest lease that a server which keeps the lock can promise.
const NEAR_LEASE_MS: &[u8] = b"21600000";

/// Last command of a connection, which its next reply answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Dialled and not answered yet.
    Greeting,
    /// Idle.
    Idle,
    /// Waiting for the lock on behalf of this request.
    Acquiring(usize),
    /// Holding the lock.
    Holding(usize),
    /// Releasing the lock.
    Releasing(usize),
    /// Waiting for other clients to want the lock that this request holds.
    Listening(usize),
}

struct Connection {
    stream: Stream,
    client: usize,
    doing: Doing,
}

/// A locker that uses the commands of the server's own lock.
pub struct Grants {
    poll: Poll,
    events: Events,
    timers: Timers,
    key: Rc<[u8]>,
    /// Address that each client connects to.
    entrances: Vec<SocketAddr>,
    /// Whether clients keep a spare connection.
    spare: bool,
    connections: Vec<Connection>,
    /// Connections of each client without a request.
    idle: Vec<Vec<usize>>,
    /// Requests that have arrived and were not sent yet, with their clients.
    wanted: Vec<(usize, usize)>,
    /// Connection of each request, and its token once it holds the lock.
    requests: BTreeMap<usize, (usize, i64)>,
    /// Number of tokens per grant.
    tokens: u32,
    /// Whether servers keep the lock, and whether successors are named.
    near: bool,
    next: bool,
    /// Requests whose clients are to be notified of other clients, with their tokens, and requests
    /// whose lock other clients want.
    to_listen: Vec<(usize, i64)>,
    wanted_by_others: Vec<usize>,
    /// Connections with data to send.
    dirty: Vec<usize>,
    counts: Counts,
    scratch: Vec<u8>,
}

impl Grants {
    /// Creates an unused lock for clients that connect here, and waits until all are connected. In
    /// an open loop, in which a client may have several requests at a time, `spare` keeps spare
    /// connections.
    ///
    /// # Errors
    /// A server cannot be reached, or does not answer.
    pub fn connect(entrances: &[SocketAddr], key: &str, spare: bool) -> io::Result<Self> {
        let (poll, timers) = (Poll::new()?, Timers::new()?);
        let descriptor = timers.descriptor();
        poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let mut grants = Self {
            poll,
            events: Events::with_capacity(1024),
            timers,
            key: key.as_bytes().into(),
            entrances: entrances.to_vec(),
            spare,
            connections: Vec::new(),
            idle: vec![Vec::new(); entrances.len()],
            wanted: Vec::new(),
            requests: BTreeMap::new(),
            tokens: 1,
            near: false,
            next: false,
            to_listen: Vec::new(),
            wanted_by_others: Vec::new(),
            dirty: Vec::new(),
            counts: Counts::default(),
            scratch: vec![0; READ_BYTES],
        };
        for client in 0..entrances.len() {
            for _ in 0..=usize::from(spare) {
                let connection = grants.dial(client)?;
                grants.idle[client].push(connection);
            }
        }
        let until_ns = grants.now_ns() + PATIENCE_NS;
        let mut nothing = Vec::new();
        while grants.connections.iter().any(|one| one.doing == Doing::Greeting) {
            if grants.now_ns() > until_ns {
                return Err(io::Error::other("a server does not answer a new connection"));
            }
            grants.turn(until_ns, &mut nothing)?;
        }
        Ok(grants)
    }

    /// Requests several tokens per grant.
    #[must_use]
    pub fn with_tokens(self, tokens: u32) -> Self {
        Self { tokens, ..self }
    }

    /// Lets servers keep the lock for their clients.
    #[must_use]
    pub fn near(self) -> Self {
        Self { near: true, ..self }
    }

    /// Lets successors be named in the log.
    #[must_use]
    pub fn named(self) -> Self {
        Self { next: true, ..self }
    }

    /// Waits, on another connection of its client, until other clients want the lock that a request
    /// holds.
    pub fn listen(&mut self, request: usize) {
        if let Some((_, token)) = self.requests.get(&request) {
            self.to_listen.push((request, *token));
        }
    }

    /// Takes the requests whose lock other clients want since the last call.
    pub fn wanted_by_others(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.wanted_by_others)
    }

    /// Dials another connection of a client. Its greeting confirms that the line is up; commands
    /// sent meanwhile queue behind it.
    fn dial(&mut self, client: usize) -> io::Result<usize> {
        let number = self.connections.len();
        let mut stream = Stream::dial(self.entrances[client], &self.poll, Token(number))?;
        command(&mut stream.out, &[b"PING"]);
        self.connections.push(Connection { stream, client, doing: Doing::Greeting });
        self.dirty.push(number);
        Ok(number)
    }

    /// Sends a write; its reply concerns what the connection is doing now.
    fn say(&mut self, number: usize, doing: Doing, words: &[&[u8]]) {
        let connection = &mut self.connections[number];
        let out = &mut connection.stream.out;
        let before = out.len();
        command(out, words);
        self.counts.bytes += (out.len() - before) as u64;
        self.counts.writes += 1;
        connection.doing = doing;
        self.dirty.push(number);
    }

    /// Sends an acquisition on an idle connection.
    fn ask_for(&mut self, request: usize, client: usize) -> io::Result<()> {
        let number = self.idle_of(client)?;
        let key = self.key.clone();
        let (owner, tokens) = (format!("client-{client}"), self.tokens.to_string());
        let words: [&[u8]; 8] = [
            b"LOCK.ACQUIRE",
            &key,
            b"LEASE",
            LEASE_MS,
            b"OWNER",
            owner.as_bytes(),
            b"TOKENS",
            tokens.as_bytes(),
        ];
        let next = [&words[..6], &[b"NEXT"]].concat();
        let near: [&[u8]; 5] = [b"LOCK.ACQUIRE", &key, b"NEAR", b"LEASE", NEAR_LEASE_MS];
        let words = match self.tokens {
            _ if self.near => &near[..],
            _ if self.next => &next[..],
            1 => &words[..6],
            _ => &words[..],
        };
        self.say(number, Doing::Acquiring(request), words);
        self.requests.insert(request, (number, 0));
        if self.spare && self.idle[client].is_empty() {
            let another = self.dial(client)?;
            self.idle[client].push(another);
        }
        Ok(())
    }

    fn idle_of(&mut self, client: usize) -> io::Result<usize> {
        self.idle[client].pop().map_or_else(|| self.dial(client), Ok)
    }

    /// Asks on an idle connection to be notified of other clients, which changes nothing on the
    /// server.
    fn ask_for_others(&mut self, request: usize, token: i64) -> io::Result<()> {
        let Some((number, _)) = self.requests.get(&request) else { return Ok(()) };
        let client = self.connections[*number].client;
        let number = self.idle_of(client)?;
        let (key, token) = (self.key.clone(), token.to_string());
        self.say(number, Doing::Listening(request), &[b"LOCK.WANTED", &key, token.as_bytes()]);
        self.counts.writes -= 1;
        self.counts.reads += 1;
        Ok(())
    }

    fn turn(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        crate::stop::check()?;
        for (request, client) in std::mem::take(&mut self.wanted) {
            self.ask_for(request, client)?;
        }
        for (request, token) in std::mem::take(&mut self.to_listen) {
            self.ask_for_others(request, token)?;
        }
        for number in std::mem::take(&mut self.dirty) {
            self.connections[number].stream.flush()?;
        }
        self.timers.arm(until_ns.min(self.now_ns() + IDLE_NS))?;
        let mut events = std::mem::replace(&mut self.events, Events::with_capacity(1));
        match self.poll.poll(&mut events, Some(Duration::from_nanos(IDLE_NS))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(()) => {
                for event in events.iter().filter(|event| event.token() != TIMER) {
                    let Token(number) = event.token();
                    if event.is_readable() {
                        self.receive(number, told)?;
                    }
                    if event.is_writable() {
                        self.connections[number].stream.flush()?;
                    }
                }
            }
        }
        self.events = events;
        Ok(())
    }

    fn receive(&mut self, number: usize, told: &mut Vec<Told>) -> io::Result<()> {
        loop {
            let stream = &mut self.connections[number].stream;
            let Some(read) = stream.read(&mut self.scratch)? else { return Ok(()) };
            stream.input.extend_from_slice(&self.scratch[..read]);
            let mut input = std::mem::take(&mut stream.input);
            let mut taken = 0;
            while let Some(len) = frame_len(&input[taken..]).map_err(io::Error::other)? {
                let reply = Frame(&input[taken..taken + len]).decode();
                self.reply(number, &reply, len, told)?;
                taken += len;
            }
            input.drain(..taken);
            self.connections[number].stream.input = input;
        }
    }

    fn reply(
        &mut self,
        number: usize,
        reply: &ClientReply,
        len: usize,
        told: &mut Vec<Told>,
    ) -> io::Result<()> {
        let connection = &mut self.connections[number];
        let client = connection.client;
        // The first reply is the greeting's, whatever was sent since.
        if matches!(reply, ClientReply::Status(text) if **text == *b"PONG") {
            if connection.doing == Doing::Greeting {
                connection.doing = Doing::Idle;
            }
            return Ok(());
        }
        self.counts.heard += 1;
        self.counts.bytes += len as u64;
        match (connection.doing, reply) {
            (Doing::Acquiring(request), ClientReply::Int(token)) => {
                connection.doing = Doing::Holding(request);
                self.requests.insert(request, (number, *token));
                told.push(Told::Granted { request, token: *token });
                Ok(())
            }
            (Doing::Releasing(request), ClientReply::Int(1)) => {
                connection.doing = Doing::Idle;
                self.requests.remove(&request);
                self.idle[client].push(number);
                told.push(Told::Released { request });
                Ok(())
            }
            (Doing::Listening(request), ClientReply::Int(count)) => {
                connection.doing = Doing::Idle;
                self.idle[client].push(number);
                // Zero: the lock has been released meanwhile.
                if *count > 0 {
                    self.wanted_by_others.push(request);
                }
                Ok(())
            }
            (doing, reply) => {
                Err(io::Error::other(format!("the server answers {reply:?} while {doing:?}")))
            }
        }
    }
}

impl Locker for Grants {
    fn now_ns(&self) -> u64 {
        self.timers.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        self.wanted.push((request, client));
    }

    fn release(&mut self, request: usize) {
        let (number, token) = self.requests[&request];
        let key = self.key.clone();
        let token = token.to_string();
        let words: [&[u8]; 3] = [b"LOCK.RELEASE", &key, token.as_bytes()];
        self.say(number, Doing::Releasing(request), &words);
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        while told.is_empty() && self.wanted_by_others.is_empty() {
            self.turn(until_ns, told)?;
            if self.now_ns() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keepers;
    use keepers::Keepers;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::{Arc, Condvar, Mutex};

    /// A server with one lock: the holder is identified by a number that grows with every grant.
    #[derive(Default)]
    struct Lock {
        /// Arrivals and grants so far; the lock is free when the last grant was released.
        came: i64,
        granted: i64,
        given_back: i64,
    }

    type Shared = Arc<(Mutex<Lock>, Condvar)>;

    fn answer(words: &[ClientReply], (lock, changed): &(Mutex<Lock>, Condvar)) -> String {
        let word = |at: usize| match &words[at] {
            ClientReply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("a command has no {other:?}"),
        };
        let mut lock = lock.lock().unwrap();
        match word(0).as_str() {
            "PING" => "+PONG\r\n".to_owned(),
            "LOCK.ACQUIRE" => {
                assert_eq!((word(1), word(2)), ("/lock-1".to_owned(), "LEASE".to_owned()));
                lock.came += 1;
                let place = lock.came;
                changed.notify_all();
                while lock.given_back + 1 < place {
                    lock = changed.wait(lock).unwrap();
                }
                let block = words.len() > 6 && word(6) == "TOKENS";
                lock.granted = if block { place * 100_000 } else { place };
                format!(":{}\r\n", lock.granted)
            }
            "LOCK.WANTED" => {
                let held = |lock: &Lock| word(2) == lock.granted.to_string();
                let waiting = |lock: &Lock| lock.came - lock.given_back - 1;
                while held(&lock) && lock.came > lock.given_back && waiting(&lock) == 0 {
                    lock = changed.wait(lock).unwrap();
                }
                let held = held(&lock) && lock.came > lock.given_back;
                format!(":{}\r\n", if held { waiting(&lock) } else { 0 })
            }
            "LOCK.RELEASE" if word(2) == lock.granted.to_string() => {
                lock.given_back += 1;
                changed.notify_all();
                ":1\r\n".to_owned()
            }
            "LOCK.RELEASE" => ":0\r\n".to_owned(),
            other => panic!("{other}"),
        }
    }

    /// Serves each connection in a thread of its own.
    fn serve() -> (SocketAddr, Shared) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Shared::default();
        let all = shared.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (mut stream, shared) = (stream.unwrap(), all.clone());
                std::thread::spawn(move || {
                    let (mut input, mut chunk) = (Vec::new(), [0; 512]);
                    while let Ok(read @ 1..) = stream.read(&mut chunk) {
                        input.extend_from_slice(&chunk[..read]);
                        while let Some(len) = frame_len(&input).unwrap() {
                            let ClientReply::Array(words) = Frame(&input[..len]).decode() else {
                                panic!("a command is an array")
                            };
                            input.drain(..len);
                            let _ = stream.write_all(answer(&words, &shared).as_bytes());
                        }
                    }
                });
            }
        });
        (address, shared)
    }

    /// Waits for `count` events, in any order.
    fn hear(grants: &mut Grants, count: usize) -> Vec<Told> {
        let mut all = Vec::new();
        while all.len() < count {
            let mut told = Vec::new();
            grants.wait(grants.now_ns() + PATIENCE_NS, &mut told).unwrap();
            assert!(!told.is_empty(), "no further event after {all:?}");
            all.append(&mut told);
        }
        assert_eq!(all.len(), count, "{all:?}");
        all
    }

    fn next(grants: &mut Grants) -> Told {
        hear(grants, 1)[0]
    }

    #[test]
    fn requests_of_one_client_wait_side_by_side_and_its_release_is_not_held_up() {
        let (server, lock) = serve();
        let mut grants = Grants::connect(&[server], "/lock-1", true).unwrap();
        assert_eq!(grants.counts(), Counts::default(), "a greeting is not counted");
        grants.acquire(0, 0);
        assert_eq!(next(&mut grants), Told::Granted { request: 0, token: 1 });
        // Two more requests of the same client: neither stands before the release.
        for request in 1..3 {
            grants.acquire(request, 0);
            while lock.0.lock().unwrap().came <= request as i64 {
                grants.wait(grants.now_ns() + 1_000_000, &mut Vec::new()).unwrap();
            }
        }
        for request in 0..3 {
            grants.release(request);
            let told = hear(&mut grants, if request < 2 { 2 } else { 1 });
            let token = request as i64 + 2;
            assert!(told.contains(&Told::Released { request }), "{told:?}");
            let then = Told::Granted { request: request + 1, token };
            assert!(request == 2 || told.contains(&then), "{told:?}");
        }
        let counts = grants.counts();
        assert_eq!((counts.writes, counts.heard, counts.messages()), (6, 6, 12));
        assert!(grants.requests.is_empty());
        assert_eq!(grants.idle[0].len(), grants.connections.len(), "all connections are idle");
    }

    #[test]
    fn a_closed_loop_needs_one_connection_for_each_client() {
        let (server, _) = serve();
        let mut grants = Grants::connect(&[server, server], "/lock-1", false).unwrap();
        for request in 0..6 {
            grants.acquire(request, request % 2);
            let token = request as i64 + 1;
            assert_eq!(next(&mut grants), Told::Granted { request, token });
            grants.release(request);
            assert_eq!(next(&mut grants), Told::Released { request });
        }
        assert_eq!(grants.connections.len(), 2);
    }

    #[test]
    fn a_process_keeps_the_lock_until_another_one_wants_it_and_its_clients_take_turns() {
        let (server, _) = serve();
        let grants = Grants::connect(&[server, server], "/lock-1", true).unwrap();
        let mut keepers = Keepers::new(grants.with_tokens(keepers::TOKENS), 2);
        let hear = |keepers: &mut Keepers, count: usize| {
            let mut all = Vec::new();
            while all.len() < count {
                keepers.wait(keepers.now_ns() + PATIENCE_NS, &mut all).unwrap();
            }
            all
        };
        let granted = |request, token| Told::Granted { request, token };
        keepers.acquire(0, 0);
        assert_eq!(hear(&mut keepers, 1), [granted(0, 100_000)]);
        keepers.acquire(1, 2);
        keepers.release(0);
        let said = keepers.counts();
        let then = [Told::Released { request: 0 }, granted(1, 100_001)];
        assert_eq!(hear(&mut keepers, 2), then, "client 2 belongs to the same process");
        assert_eq!(keepers.counts().writes, said.writes, "nothing is sent");
        keepers.acquire(2, 1);
        while keepers.counts().heard < 2 {
            keepers.wait(keepers.now_ns() + 1_000_000, &mut Vec::new()).unwrap();
        }
        keepers.acquire(3, 4);
        keepers.release(1);
        // Other clients are reported, and one more member of the cohort goes first.
        let then = [Told::Released { request: 1 }, granted(3, 100_002)];
        assert_eq!(hear(&mut keepers, 2), then);
        keepers.release(3);
        assert_eq!(hear(&mut keepers, 2), [Told::Released { request: 3 }, granted(2, 200_000)]);
    }

    #[test]
    fn an_adaptive_lock_goes_back_until_its_process_is_seen_to_come_again_at_once() {
        let (server, _) = serve();
        let grants = Grants::connect(&[server, server], "/lock-1", true).unwrap();
        let mut keepers = Keepers::new(grants.with_tokens(keepers::TOKENS), 2).adaptive();
        let take = |keepers: &mut Keepers, request| {
            keepers.acquire(request, 0);
            let mut all = Vec::new();
            while !all.iter().any(|one| matches!(one, Told::Granted { .. })) {
                keepers.wait(keepers.now_ns() + PATIENCE_NS, &mut all).unwrap();
            }
            keepers.release(request);
        };
        take(&mut keepers, 0);
        take(&mut keepers, 1);
        assert_eq!(keepers.history(), (2, 0), "the lock was released");
        // The second request is granted at once, if nothing intervenes; the eighth at the latest.
        (2..10).for_each(|request| take(&mut keepers, request));
        let (said, (asked, _)) = (keepers.counts().writes, keepers.history());
        (10..20).for_each(|request| take(&mut keepers, request));
        assert_eq!(keepers.history(), (asked, 20 - asked));
        assert_eq!(keepers.counts().writes, said, "nothing is sent");
    }

    #[test]
    fn an_answer_that_must_not_be_is_an_error() {
        let mut grants = Grants::connect(&[serve().0], "/lock-1", false).unwrap();
        grants.acquire(0, 0);
        next(&mut grants);
        // An expired lease: the server no longer knows the token.
        grants.requests.insert(0, (0, 99));
        grants.release(0);
        let error = grants.wait(grants.now_ns() + PATIENCE_NS, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("Int(0) while Releasing(0)"), "{error}");
    }
}
