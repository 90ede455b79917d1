//! Protocol state of a connection of a client of the coordination service: ZooKeeper's protocol.

use super::talk::{Line, OfSession as LineOfSession, Talk};
use crate::data::datadir::random;
use crate::worker::foreign::is_http;
use crate::worker::replies::Window;
use adt::Blob;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::coordination::{Code, Identity, OfSession, TreeSessionId, Watch, Zxid};
use engine::gateway::coordination::{ClientRequest, Connect};
use engine::gateway::{CoordinationClient, Gateway, Said};
use engine::now::Now;
use std::collections::VecDeque;
use std::net::SocketAddr;
use wire::jute::{
    Ask, BadRequest, ConnectRequest, ConnectResponse, FRAME_BYTES_MAX, FourLetterWord, Kind, Op,
    Request, SetWatches, next_frame, notification, reply, who_am_i,
};

/// Numbers of two operations: authentication, and a change of the servers.
const AUTH: i32 = 100;
const RECONFIG: i32 = 16;

/// Server side of the protocol, for one client.
pub struct Dialogue {
    /// Identifier of the client at the gateway.
    pub client: CoordinationClient,
    state: State,
    /// Whether the client accepts a read-only server; older clients do not say.
    read_only: Option<bool>,
    /// Unanswered requests, the oldest first, with the times of their arrival (µs).
    expected: VecDeque<(i32, Expected, u64)>,
    /// Four-letter command that needs answers of all workers.
    word: Option<FourLetterWord>,
    /// Whether the client has sent an HTTP request.
    foreign: bool,
    /// Limit on requests whose answers may be large.
    window: Window,
    address: SocketAddr,
    since_ms: u64,
    session: Option<LineOfSession>,
    /// Counters since the last reset of the connection's counters, and since that of the server's.
    own: Talk,
    pub share: Talk,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Connecting,
    Connected,
    /// A four-letter command is being answered; nothing more is read.
    Asking,
    /// Nothing more is read.
    Ended,
}

/// Format of an answer.
enum Expected {
    Answer(Kind),
    Identities,
}

impl Dialogue {
    /// Creates the state for a client that has connected from this address.
    pub fn new(gateway: &mut Gateway, now: Now, address: SocketAddr) -> Self {
        let id = Blob::from(address.ip().to_canonical().to_string());
        let client = gateway.coordination(now).came(Identity { scheme: Blob::from("ip"), id });
        Self {
            client,
            state: State::New,
            read_only: None,
            expected: VecDeque::new(),
            word: None,
            foreign: false,
            window: Window::default(),
            address,
            since_ms: now.wall_ms(),
            session: None,
            own: Talk::default(),
            share: Talk::default(),
        }
    }

    /// Takes the four-letter command that needs answers of all workers, if there is one.
    pub fn take_word(&mut self) -> Option<FourLetterWord> {
        self.word.take()
    }

    /// Whether a four-letter command is being answered; nothing more is read then.
    pub fn is_asking(&self) -> bool {
        self.state == State::Asking
    }

    /// Sends the answer to a four-letter command.
    pub fn answer_word(&mut self, text: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(text.as_bytes());
        self.state = State::Ended;
    }

    /// Whether the client has sent its first request.
    pub fn has_begun(&self) -> bool {
        self.state != State::New
    }

    /// Number of unanswered requests.
    pub fn outstanding(&self) -> usize {
        self.expected.len()
    }

    /// Statistics of the connection.
    pub fn line(&self, gateway: &Gateway) -> Line {
        let reading = self.state == State::Connected && !self.must_wait(gateway);
        let (outstanding, talk) = (self.outstanding(), self.own);
        Line { address: self.address, reading, outstanding, talk, session: self.session }
    }

    /// Resets the counters of the connection.
    pub fn reset(&mut self) {
        self.own = Talk::default();
    }

    fn count(&mut self, count: impl Fn(&mut Talk)) {
        count(&mut self.own);
        count(&mut self.share);
    }

    /// Whether reading should wait for an answer.
    pub fn must_wait(&self, gateway: &Gateway) -> bool {
        let waits = self.window.is_full() && self.outstanding() > 0;
        waits || gateway.coordination_client(self.client).is_busy
    }

    /// Whether to close the connection once everything is sent.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes the complete frames in `bytes`. Returns the number of bytes that they took. Immediate
    /// answers go to `out`.
    pub fn take(
        &mut self,
        gateway: &mut Gateway,
        now: Now,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> usize {
        if self.state == State::New
            && let Some(word) = FourLetterWord::of(bytes)
        {
            self.count(|talk| talk.received += 1);
            match word {
                FourLetterWord::Ruok => self.answer_word("imok", out),
                FourLetterWord::Isro => self.answer_word("rw", out),
                _ => {
                    self.word = Some(word);
                    self.state = State::Asking;
                }
            }
            return bytes.len();
        }
        let mut at = 0;
        while self.state != State::Ended && !self.must_wait(gateway) {
            if self.window.is_full() {
                self.window.turn_over();
            }
            match next_frame(&bytes[at..], FRAME_BYTES_MAX) {
                Ok(Some((frame, used))) => {
                    at += used;
                    self.count(|talk| talk.received += 1);
                    self.take_frame(gateway, now, frame);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!("closed a connection of a ZooKeeper client: {error}");
                    self.foreign = self.state == State::New && is_http(&bytes[at..]);
                    self.state = State::Ended;
                }
            }
        }
        at
    }

    /// Whether the client has sent an HTTP request.
    pub fn is_foreign(&self) -> bool {
        self.foreign
    }

    fn take_frame(&mut self, gateway: &mut Gateway, now: Now, frame: &[u8]) {
        if self.state == State::New {
            return match ConnectRequest::decode(frame) {
                Ok(request) => self.connect(gateway, now, &request),
                Err(error) => {
                    tracing::debug!("closed a connection of a ZooKeeper client: {error}");
                    self.state = State::Ended;
                }
            };
        }
        match Request::decode(frame) {
            Ok(Request { xid, what }) => self.ask(gateway, now, xid, what),
            // A client whose authentication cannot be parsed is disconnected.
            Err(BadRequest::Header | BadRequest::Body { opcode: AUTH, .. }) => {
                self.state = State::Ended;
            }
            Err(BadRequest::Body { xid, code, .. }) => {
                self.expected.push_back((xid, Expected::Answer(Kind::Nothing), now.mono_us));
                gateway.coordination(now).asks(self.client, ClientRequest::Refused(code));
            }
        }
    }

    fn connect(&mut self, gateway: &mut Gateway, now: Now, request: &ConnectRequest) {
        self.state = State::Connecting;
        self.read_only = request.read_only;
        let session = (request.session != TreeSessionId(0)).then_some(request.session);
        // A reconnecting client whose password has a wrong length can have no valid one.
        let password = match session {
            Some(_) => request.password.unwrap_or_default(),
            None => random(),
        };
        let (timeout_ms, seen) = (request.timeout_ms, request.last_zxid_seen);
        gateway
            .coordination(now)
            .connects(self.client, Connect { session, password, timeout_ms, seen });
    }

    fn ask(&mut self, gateway: &mut Gateway, now: Now, xid: i32, what: Ask) {
        let kind = what.kind();
        let large = kind.op().is_some_and(may_be_large);
        let expected = match what {
            Ask::WhoAmI => Expected::Identities,
            _ => Expected::Answer(kind),
        };
        self.expected.push_back((xid, expected, now.mono_us));
        if large {
            self.window.went();
        }
        let asked = match what {
            Ask::Write(write) => ClientRequest::Write(write),
            Ask::Read { read, watch } => {
                let identities = gateway.coordination_client(self.client).identities.to_vec();
                ClientRequest::Of(OfSession::Read { identities, read, watch })
            }
            Ask::Ping | Ask::WhoAmI => ClientRequest::Of(OfSession::Ping),
            Ask::Auth { scheme, auth } => proved(&scheme, &auth),
            Ask::SetWatches(set) => ClientRequest::Of(again(set)),
            Ask::AddWatch { path, recursive } => {
                let watch = if recursive { Watch::Recursive } else { Watch::Persistent };
                ClientRequest::Of(OfSession::Watch {
                    since: Zxid(i64::MAX),
                    watches: vec![(path, watch)],
                })
            }
            Ask::RemoveWatches { path, which } => {
                ClientRequest::Of(OfSession::Unwatch { path, which })
            }
            Ask::CheckWatches { path, which } => {
                ClientRequest::Of(OfSession::Watches { path, which })
            }
            Ask::Unimplemented(RECONFIG) => ClientRequest::Refused(Code::ReconfigDisabled),
            Ask::Unimplemented(_) => ClientRequest::Refused(Code::Unimplemented),
        };
        gateway.coordination(now).asks(self.client, asked);
    }

    /// Updates the statistics for an answered request.
    fn note(&mut self, now: Now, xid: i32, zxid: Zxid, expected: &Expected, asked_us: u64) {
        let took_us = now.mono_us.saturating_sub(asked_us);
        self.count(|talk| talk.answer(took_us));
        if let Some(of) = &mut self.session {
            *of = LineOfSession {
                operation: letters(expected),
                xid,
                zxid,
                answered_ms: now.mono_us / 1000,
                took_ms: took_us / 1000,
                ..*of
            };
        }
    }

    /// Encodes a message from the gateway into `out`.
    pub fn say(&mut self, gateway: &Gateway, now: Now, said: Said, out: &mut Vec<u8>) {
        if said != Said::Close {
            self.count(|talk| talk.sent += 1);
        }
        match said {
            Said::Connected { session, timeout_ms, password } => {
                self.state = State::Connected;
                self.session = Some(LineOfSession {
                    session,
                    timeout_ms,
                    since_ms: self.since_ms,
                    operation: "SESS",
                    xid: 0,
                    zxid: Zxid::default(),
                    answered_ms: now.mono_us / 1000,
                    took_ms: 0,
                });
                let read_only = self.read_only.map(|_| false);
                ConnectResponse { protocol_version: 0, timeout_ms, session, password, read_only }
                    .encode(out);
            }
            Said::Expired => ConnectResponse::expired(self.read_only.map(|_| false)).encode(out),
            Said::Answered { reply: result, zxid, .. } => {
                let Some((xid, expected, asked_us)) = self.expected.pop_front() else { return };
                self.note(now, xid, zxid, &expected, asked_us);
                let before = out.len();
                match expected {
                    Expected::Answer(kind) => {
                        let result = result.as_ref().map_err(|code| *code);
                        reply(&kind, xid, zxid, result, out);
                    }
                    Expected::Identities => {
                        let who = gateway.coordination_client(self.client).identities.iter();
                        let who: Vec<Identity> = who.map(without_secret).collect();
                        who_am_i(xid, zxid, &who, out);
                    }
                }
                self.window.saw(out.len() - before);
            }
            Said::Happened { event, zxid, .. } => notification(zxid, &event, out),
            Said::Close => self.state = State::Ended,
        }
    }
}

/// Whether the answer may be much larger than the request.
fn may_be_large(op: Op) -> bool {
    matches!(
        op,
        Op::GetData | Op::GetChildren | Op::GetChildren2 | Op::GetEphemerals | Op::MultiRead
    )
}

/// ZooKeeper's four-letter name of a request.
fn letters(expected: &Expected) -> &'static str {
    let Expected::Answer(kind) = expected else { return "HOMI" };
    match kind.op() {
        None => "NA",
        Some(op) => match op {
            Op::CloseSession => "CLOS",
            Op::Create | Op::Create2 | Op::CreateContainer | Op::CreateTtl => "CREA",
            Op::Delete => "DELE",
            Op::Exists => "EXIS",
            Op::GetData => "GETD",
            Op::SetData => "SETD",
            Op::GetAcl => "GETA",
            Op::SetAcl => "SETA",
            Op::GetChildren | Op::GetChildren2 => "GETC",
            Op::Sync => "SYNC",
            Op::Ping => "PING",
            Op::Check => "CHEC",
            Op::Multi => "MULT",
            Op::MultiRead => "MLTR",
            Op::CheckWatches => "CHKW",
            Op::RemoveWatches => "REMW",
            Op::Auth => "AUTH",
            Op::SetWatches => "SETW",
            Op::SetWatches2 => "STW2",
            Op::GetEphemerals => "GETE",
            Op::GetAllChildrenNumber => "GETACN",
            Op::AddWatch => "ADDW",
            Op::WhoAmI => "HOMI",
        },
    }
}

/// Request for the identity that a credential proves, as in ZooKeeper's
/// `DigestAuthenticationProvider`.
fn proved(scheme: &[u8], auth: &[u8]) -> ClientRequest {
    match scheme {
        b"digest" => {
            let user = auth.split(|byte| *byte == b':').next().unwrap_or_default();
            let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, auth);
            let id = [user, b":", STANDARD.encode(hash).as_bytes()].concat();
            ClientRequest::Proved(Identity { scheme: Blob::from("digest"), id: Blob::from(id) })
        }
        // The client's address is already known.
        b"ip" => ClientRequest::Of(OfSession::Ping),
        _ => ClientRequest::Refused(Code::AuthFailed),
    }
}

/// Removes the part of an identity from which a password could be guessed.
fn without_secret(who: &Identity) -> Identity {
    let mut who = who.clone();
    if who.scheme.as_slice() == b"digest" {
        let user = who.id.split(|byte| *byte == b':').next().unwrap_or_default();
        who.id = Blob::new(user);
    }
    who
}

/// Request that restores the watches that a client had before its connection broke.
fn again(set: SetWatches) -> OfSession {
    let SetWatches { since, data, exist, child, persistent, recursive } = set;
    let kinds = [
        (data, Watch::Data),
        (exist, Watch::Exist),
        (child, Watch::Child),
        (persistent, Watch::Persistent),
        (recursive, Watch::Recursive),
    ];
    let watches = kinds
        .into_iter()
        .flat_map(|(paths, watch)| paths.into_iter().map(move |path| (path, watch)));
    OfSession::Watch { since, watches: watches.collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_what_zookeeper_makes_of_it() {
        // User and password from ZooKeeper's administrator's guide.
        let ClientRequest::Proved(who) = proved(b"digest", b"super:test") else { panic!() };
        assert_eq!(who.id, Blob::from("super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
        assert_eq!(without_secret(&who).id, Blob::from("super"));
        assert_eq!(proved(b"x509", b"a:b"), ClientRequest::Refused(Code::AuthFailed));
    }
}
