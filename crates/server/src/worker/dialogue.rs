//! What is said on a connection of a client of the coordination service: ZooKeeper's protocol.

use crate::datadir::random;
use adt::Blob;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use engine::coordination::{Code, Identity, OfSession, SessionId, Watch, Zxid};
use engine::gateway::coordination::{Asked, Connect};
use engine::gateway::{CoordinationClient, Gateway, Said};
use engine::message::Now;
use std::collections::VecDeque;
use std::net::IpAddr;
use wire::jute::{
    Ask, BadRequest, ConnectRequest, ConnectResponse, FRAME_BYTES_MAX, FourLetterWord, Kind,
    Request, SetWatches, next_frame, notification, reply, who_am_i,
};

/// A client's side of the protocol.
pub struct Dialogue {
    /// The gateway's name for it.
    pub client: CoordinationClient,
    state: State,
    /// Whether it could live with a server that takes no changes; older clients do not say.
    read_only: Option<bool>,
    /// The requests that are not answered, the oldest first.
    expected: VecDeque<(i32, Expected)>,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    New,
    Connecting,
    Connected,
    /// Nothing more is read.
    Ended,
}

/// What an answer looks like.
enum Expected {
    Answer(Kind),
    Identities,
}

impl Dialogue {
    /// A client has connected from this address.
    pub fn new(gateway: &mut Gateway, now: Now, address: IpAddr) -> Self {
        let id = Blob::from(address.to_canonical().to_string());
        let client = gateway.client_came(now, Identity { scheme: Blob::from("ip"), id });
        Self { client, state: State::New, read_only: None, expected: VecDeque::new() }
    }

    /// Whether nothing more should be read for now.
    pub fn must_wait(&self, gateway: &Gateway) -> bool {
        gateway.client_is_busy(self.client)
    }

    /// Whether the connection is to be closed once everything is sent.
    pub fn has_ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes the complete frames in `bytes`; gives the number of bytes they took. What is answered here
    /// and now goes to `out`.
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
            out.extend_from_slice(answer_to(word));
            self.state = State::Ended;
            return bytes.len();
        }
        let mut at = 0;
        while self.state != State::Ended && !self.must_wait(gateway) {
            match next_frame(&bytes[at..], FRAME_BYTES_MAX) {
                Ok(Some((frame, used))) => {
                    at += used;
                    self.take_frame(gateway, now, frame);
                }
                Ok(None) => break,
                Err(error) => {
                    tracing::debug!("closed a connection of a ZooKeeper client: {error}");
                    self.state = State::Ended;
                }
            }
        }
        at
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
            Err(BadRequest::Header) => self.state = State::Ended,
            Err(BadRequest::Body { xid, code, .. }) => {
                self.expected.push_back((xid, Expected::Answer(Kind::Nothing)));
                gateway.client_asks(now, self.client, Asked::Refused(code));
            }
        }
    }

    fn connect(&mut self, gateway: &mut Gateway, now: Now, request: &ConnectRequest) {
        self.state = State::Connecting;
        self.read_only = request.read_only;
        let session = (request.session != SessionId(0)).then_some(request.session);
        // Whoever comes back without the right number of bytes has no password that could fit.
        let password = match session {
            Some(_) => request.password.unwrap_or_default(),
            None => random(),
        };
        let (timeout_ms, seen) = (request.timeout_ms, request.last_zxid_seen);
        gateway.client_connects(now, self.client, Connect { session, password, timeout_ms, seen });
    }

    fn ask(&mut self, gateway: &mut Gateway, now: Now, xid: i32, what: Ask) {
        let kind = what.kind();
        let expected = match what {
            Ask::WhoAmI => Expected::Identities,
            _ => Expected::Answer(kind),
        };
        self.expected.push_back((xid, expected));
        let asked = match what {
            Ask::Write(write) => Asked::Write(write),
            Ask::Read { read, watch } => {
                let identities = gateway.client_identities(self.client).to_vec();
                Asked::Of(OfSession::Read { identities, read, watch })
            }
            Ask::Ping | Ask::WhoAmI => Asked::Of(OfSession::Ping),
            Ask::Auth { scheme, auth } => proved(&scheme, &auth),
            Ask::SetWatches(set) => Asked::Of(again(set)),
            Ask::AddWatch { path, recursive } => {
                let watch = if recursive { Watch::Recursive } else { Watch::Persistent };
                Asked::Of(OfSession::Watch { since: Zxid(i64::MAX), watches: vec![(path, watch)] })
            }
            Ask::RemoveWatches { path, which } => Asked::Of(OfSession::Unwatch { path, which }),
            Ask::CheckWatches { path, which } => Asked::Of(OfSession::Watches { path, which }),
            Ask::Unimplemented(_) => Asked::Refused(Code::Unimplemented),
        };
        gateway.client_asks(now, self.client, asked);
    }

    /// Puts what the gateway says to the client into `out`.
    pub fn say(&mut self, gateway: &Gateway, said: Said, out: &mut Vec<u8>) {
        match said {
            Said::Connected { session, timeout_ms, password } => {
                self.state = State::Connected;
                let read_only = self.read_only.map(|_| false);
                ConnectResponse { protocol_version: 0, timeout_ms, session, password, read_only }
                    .encode(out);
            }
            Said::Expired => ConnectResponse::expired(self.read_only.map(|_| false)).encode(out),
            Said::Answered { reply: result, zxid } => {
                let Some((xid, expected)) = self.expected.pop_front() else { return };
                match expected {
                    Expected::Answer(kind) => {
                        let result = result.as_ref().map_err(|code| *code);
                        reply(&kind, xid, zxid, result, out);
                    }
                    Expected::Identities => {
                        let who = gateway.client_identities(self.client).iter();
                        let who: Vec<Identity> = who.map(without_secret).collect();
                        who_am_i(xid, zxid, &who, out);
                    }
                }
            }
            Said::Happened(event, zxid) => notification(zxid, &event, out),
            Said::Close => self.state = State::Ended,
        }
    }
}

/// What a monitor is told. Words that have no answer here get none, as those that ZooKeeper was not told
/// to answer.
fn answer_to(word: FourLetterWord) -> &'static [u8] {
    match word {
        FourLetterWord::Ruok => b"imok",
        FourLetterWord::Isro => b"rw",
        _ => b"",
    }
}

/// Who somebody is who can say this: ZooKeeper's `DigestAuthenticationProvider`.
fn proved(scheme: &[u8], auth: &[u8]) -> Asked {
    let user = auth.split(|byte| *byte == b':').next().filter(|user| user.len() < auth.len());
    match (scheme, user) {
        (b"digest", Some(user)) => {
            let hash = ring::digest::digest(&ring::digest::SHA1_FOR_LEGACY_USE_ONLY, auth);
            let id = [user, b":", STANDARD.encode(hash).as_bytes()].concat();
            Asked::Proved(Identity { scheme: Blob::from("digest"), id: Blob::from(id) })
        }
        _ => Asked::Refused(Code::AuthFailed),
    }
}

/// What passwords could be guessed from is not shown.
fn without_secret(who: &Identity) -> Identity {
    let mut who = who.clone();
    if who.scheme.as_slice() == b"digest" {
        let user = who.id.split(|byte| *byte == b':').next().unwrap_or_default();
        who.id = Blob::new(user);
    }
    who
}

/// The watches that a client had before its connection broke.
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
        // The user and password of ZooKeeper's administrator's guide.
        let Asked::Proved(who) = proved(b"digest", b"super:test") else { panic!() };
        assert_eq!(who.id, Blob::from("super:D/InIHSb7yEEbrWz8b9l71RjZJU="));
        assert_eq!(without_secret(&who).id, Blob::from("super"));
        for (scheme, auth) in [("digest", "super"), ("x509", "a:b")] {
            let refused = proved(scheme.as_bytes(), auth.as_bytes());
            assert_eq!(refused, Asked::Refused(Code::AuthFailed));
        }
    }
}
