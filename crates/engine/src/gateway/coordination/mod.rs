//! Clients of the coordination service. A connection has one session, which shard 0 knows to be at this
//! gateway, and every other shard at which it has something to do.
//!
//! Answers leave in the order of the requests. A shard gives them in that order as well, as long as its
//! lead and the connections between the machines last; where one of them ends, or a notice was lost, the
//! client's connection is closed: its session goes on when it comes back, as with ZooKeeper.
//!
//! If the tree is spread, requests are sent ahead to several shards as a stream ([`ahead`]), or wait until
//! those before them that are at other shards are answered ([`turns`]); what several shards answer is put
//! together ([`several`]), and what they change is changed everywhere or nowhere ([`joint`]).

mod ahead;
mod ends;
mod joint;
mod several;
mod turns;

use super::api::{CoordinationClient, Output, Said};
use super::mail::Pending;
use super::{Gateway, slab::Slab};
use crate::coordination::branch::Touched;
use crate::coordination::service::{Command, JointId};
use crate::coordination::spread::{HOME, Spread, Step};
use crate::coordination::{
    Acl, Answered, Ask, Code, Event, Identity, OfSession, Password, Reply, SessionId, Told, Write,
    Zxid,
};
use crate::level::Level;
use crate::limits::COORDINATION_REQUESTS_MAX;
use crate::message::{Answer, Body, Now, ShardId};
pub(super) use ahead::Sender;
pub(super) use ends::End;
pub(super) use joint::Joint;
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::RangeInclusive;

/// What a client says first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connect {
    /// The session that it comes back to; none begins one.
    pub session: Option<SessionId>,
    /// What proves that the session is its own, or will prove it.
    pub password: Password,
    /// How long it may be silent, as it wishes.
    pub timeout_ms: i32,
    /// The latest change that it has seen.
    pub seen: Zxid,
}

/// What a client asks once it has a session.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// A change.
    Write(Write),
    /// Anything else that the shard answers.
    Of(OfSession),
    /// It has proved that it is this as well. Answer: [`Reply::Done`].
    Proved(Identity),
    /// It is told that its request is refused.
    Refused(Code),
}

impl Asked {
    /// What it shows or changes of the tree.
    pub fn touches(&self) -> Touched {
        match self {
            Self::Write(write) => write.touches(),
            Self::Of(of) => of.touches(),
            Self::Proved(_) | Self::Refused(_) => Touched::default(),
        }
    }

    /// What a shard is asked for a session, which knows of this change, by somebody who has proved to be all
    /// this.
    fn into_ask(self, session: SessionId, after: Zxid, identities: Vec<Identity>) -> Option<Ask> {
        Some(match self {
            Self::Write(write) => {
                Ask::Write(Command { identities, after, ..Command::of(session, write) })
            }
            Self::Of(of) => Ask::Of(session, of),
            Self::Proved(_) | Self::Refused(_) => return None,
        })
    }
}

/// What a shard was asked for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Errand {
    /// Its session: the first thing that it says.
    Session,
    /// The request with this number.
    Request(u64),
    /// That its session joins other shards, and that it enters one.
    Join,
    Enter,
    /// Part of a request that concerns several shards.
    Part,
    /// Nobody waits for the answer.
    Aside,
}

/// All clients of a gateway.
#[derive(Default)]
pub(super) struct Clients {
    clients: Slab<Client>,
    of: BTreeMap<SessionId, u64>,
    /// Sessions that clients are coming back to, with the last connection of each that tries.
    coming: BTreeMap<SessionId, u64>,
    /// Over how many shards the tree is, once that is known, and who waits for that.
    spread: Option<Spread>,
    asks_for_spread: bool,
    early: Vec<u64>,
    /// Sessions of which this gateway carries the word that they end.
    ending: BTreeSet<SessionId>,
    /// Which `multi`s over several shards this gateway has under way.
    deciding: BTreeSet<(SessionId, JointId)>,
    /// Clients that have asked something, which is sent when all that is there was read.
    asking: Vec<CoordinationClient>,
    unanswered: ahead::Unanswered,
}

impl Clients {
    /// Whether some have asked something that is to be sent now.
    pub fn have_asked(&self) -> bool {
        !self.asking.is_empty()
    }
}

#[derive(Default)]
struct Client {
    identities: Vec<Identity>,
    connect: Option<Connect>,
    session: Option<SessionId>,
    password: Password,
    timeout_ms: i32,
    /// It has been told that it has its session.
    is_on: bool,
    /// Requests that are not answered, the oldest first, and what came of those whose turn has not come.
    queue: VecDeque<Queued>,
    /// What it is told behind some of those; mostly nothing.
    unsaid: Vec<Unsaid>,
    next: u64,
    /// The shards where its session is, shard 0 first.
    parts: Parts,
    /// The request that ends the session.
    ends: Option<u64>,
    closing: bool,
    turns: turns::Turns,
    several: several::Several,
    /// What is sent ahead.
    ahead: Option<Box<ahead::Ahead>>,
}

/// A request whose answer is not said.
struct Queued {
    seq: u64,
    outcome: Option<Outcome>,
    /// Shards that have answered it although others before it are not answered, or others have not yet.
    by: SmallVec<[ShardId; 1]>,
}

impl Queued {
    fn new(seq: u64) -> Self {
        Self { seq, outcome: None, by: SmallVec::new() }
    }
}

/// Something that a client is to be told behind the answer to a request.
struct Unsaid {
    behind: u64,
    event: Event,
    at: Zxid,
}

type Parts = SmallVec<[(ShardId, Part); 1]>;

/// A session at a shard.
#[derive(Clone, Copy, Debug, Default)]
struct Part {
    /// How much it was told at this gateway.
    told: u64,
    /// The latest change there that it knows of.
    known: Zxid,
    /// It may watch something there.
    watches: bool,
}

/// What came of a request: the reply, and the two numbers of [`Said::Answered`].
type Outcome = (Result<Reply, Code>, Zxid, Zxid);

impl Client {
    fn part(&mut self, shard: ShardId) -> Option<&mut Part> {
        self.parts.iter_mut().find(|(of, _)| *of == shard).map(|(_, part)| part)
    }

    fn is_at(&self, shard: ShardId) -> bool {
        self.parts.iter().any(|(of, _)| *of == shard)
    }

    /// The session is at a shard from now on, where this was the last change.
    fn comes_to(&mut self, shard: ShardId, known: Zxid) {
        self.parts.retain(|(of, _)| *of != shard);
        self.parts.push((shard, Part { known, ..Part::default() }));
    }

    /// The latest change that it knows of.
    fn known(&self) -> Zxid {
        self.parts.iter().map(|(_, part)| part.known).max().unwrap_or_default()
    }

    /// A request, as it is sent at once or later. Others than changes have in them who asks.
    fn request(&self, seq: u64, asked: Asked) -> turns::Waiting {
        let identities = match &asked {
            Asked::Write(_) => self.identities.clone(),
            _ => Vec::new(),
        };
        (seq, asked, identities)
    }

    /// It hears of a change at a shard.
    fn hears(&mut self, shard: ShardId, zxid: Zxid) {
        if let Some(part) = self.part(shard) {
            part.known = part.known.max(zxid);
        }
    }

    /// A shard has answered, as of this change, and has told it so much before; whether all of that has come.
    fn hears_answer(&mut self, shard: ShardId, zxid: Zxid, told: u64) -> bool {
        let is_whole = self.part(shard).is_some_and(|part| part.told == told);
        if is_whole {
            self.hears(shard, zxid);
        }
        is_whole
    }

    /// It may watch something at a shard from now on.
    fn note_watching(&mut self, shard: ShardId, of: &OfSession) {
        let watches = matches!(of, OfSession::Read { watch: true, .. } | OfSession::Watch { .. });
        if let Some(part) = self.part(shard).filter(|_| watches) {
            part.watches = true;
        }
    }

    /// The latest change up to which it has been told of everything that it watches.
    fn told_up_to(&self) -> Zxid {
        let watching = self.parts.iter().filter(|(_, part)| part.watches);
        let told = watching.map(|(_, part)| part.known).min().unwrap_or_else(|| self.known());
        // What waits to be said is not told.
        self.unsaid.iter().map(|unsaid| Zxid(unsaid.at.0 - 1)).fold(told, Zxid::min)
    }

    /// A request that is not answered: their numbers follow each other.
    fn queued(&mut self, seq: u64) -> Option<&mut Queued> {
        let at = seq.checked_sub(self.queue.front()?.seq)?;
        self.queue.get_mut(usize::try_from(at).ok()?)
    }

    /// The last request that a shard has answered before its client can be told: others before it are not
    /// answered, or others have not carried it out.
    fn last_ahead(&self, shard: ShardId) -> Option<u64> {
        // Nothing else is answered out of turn.
        let out_of_turn = self.ahead.is_some() || self.turns.are_several_asked();
        let mut queue = self.queue.iter().rev().filter(|_| out_of_turn);
        queue.find(|queued| queued.by.contains(&shard)).map(|queued| queued.seq)
    }
}

/// The time-out of a session whose client wishes for one.
fn granted(allowed: &RangeInclusive<i32>, wished_ms: i32) -> i32 {
    wished_ms.clamp(*allowed.start(), *allowed.end())
}

impl Gateway {
    /// A client has connected. It may be taken for somebody by its address.
    pub fn client_came(&mut self, now: Now, address: Identity) -> CoordinationClient {
        self.core.now = now;
        let client = Client { identities: vec![address], ..Client::default() };
        CoordinationClient(self.clients.clients.insert(client))
    }

    /// A connection is gone. Its session goes on, without what it watches.
    pub fn client_left(&mut self, now: Now, id: CoordinationClient) {
        self.core.now = now;
        // What it has sent before it left is carried out.
        self.send_what_clients_ask();
        let Some(client) = self.clients.clients.remove(id.0) else { return };
        if let Some(session) = client.connect.and_then(|connect| connect.session)
            && self.clients.coming.get(&session) == Some(&id.0)
        {
            self.clients.coming.remove(&session);
            self.stays(session);
        }
        if let Some(session) = client.session
            && self.clients.of.get(&session) == Some(&id.0)
        {
            self.clients.of.remove(&session);
            if self.clients.coming.contains_key(&session) {
                // It is on its way to another connection of this gateway, which must not lose it.
                return;
            }
            for (shard, _) in client.parts {
                self.core.mail.tell(shard, Body::Coordinate(Box::new(Ask::Leave(session))));
            }
        }
    }

    /// The first thing that a client says. Answer: [`Said::Connected`] or [`Said::Expired`].
    pub fn client_connects(&mut self, now: Now, id: CoordinationClient, connect: Connect) {
        self.core.now = now;
        if !self.core.all_understand(Level::COORDINATED) {
            return self.end_client(id);
        }
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        client.password = connect.password;
        client.connect = Some(connect);
        let seq = client.next;
        client.next += 1;
        client.queue.push_back(Queued::new(seq));
        if self.clients.spread.is_some() || !self.core.all_understand(Level::SPREAD) {
            return self.ask_for_session(id);
        }
        self.clients.early.push(id.0);
        self.ask_for_spread();
    }

    /// All machines may understand trees that are spread from now on. If there are clients already, theirs
    /// is at one shard as far as they know.
    pub(super) fn look_at_spread(&mut self) {
        let unknown = self.clients.spread.is_none() && !self.clients.of.is_empty();
        if unknown && self.core.all_understand(Level::SPREAD) {
            self.ask_for_spread();
        }
    }

    fn ask_for_spread(&mut self) {
        if std::mem::replace(&mut self.clients.asks_for_spread, true) {
            return;
        }
        let over = Step::Over(Spread::over(self.core.config.tree_shards));
        let command = Command::of(SessionId::default(), Write::Spread(over));
        let body = Body::Coordinate(Box::new(Ask::Write(command)));
        self.core.mail.ask(HOME, Pending::Spread, body);
    }

    /// It is known over how many shards the tree is, for good.
    pub(super) fn spread_known(&mut self, answer: Answer) {
        let number = match answer {
            Answer::Coordinated(answered) => match answered.reply {
                Ok(Reply::Number(shards)) => u16::try_from(shards).ok(),
                _ => None,
            },
            _ => None,
        };
        self.clients.spread = number.map(Spread::over);
        self.clients.asks_for_spread = false;
        if self.spread().is_spread() {
            // Whoever came before has asked shard 0 for everything.
            for client in self.clients.of.values().copied().collect::<Vec<_>>() {
                self.end_client(CoordinationClient(client));
            }
        }
        for client in std::mem::take(&mut self.clients.early) {
            match number {
                Some(_) => self.ask_for_session(CoordinationClient(client)),
                None => self.end_client(CoordinationClient(client)),
            }
        }
    }

    fn ask_for_session(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(connect) = &client.connect else { return };
        let password = connect.password;
        let ask = match connect.session {
            Some(session) => {
                self.clients.coming.insert(session, id.0);
                if self.clients.unanswered.await_them(session, id) {
                    return;
                }
                Ask::Resume { session, password }
            }
            None => {
                let timeout_ms = granted(&self.core.config.session_timeout_ms, connect.timeout_ms);
                let write = Write::Open { timeout_ms, password };
                Ask::Write(Command::of(SessionId::default(), write))
            }
        };
        self.ask_shard(id, HOME, Errand::Session, ask);
    }

    /// Sends what clients have asked.
    pub(super) fn send_what_clients_ask(&mut self) {
        for client in std::mem::take(&mut self.clients.asking) {
            self.send_in_turn(client);
        }
    }

    /// What a client asks that has a session. Each request has one answer, in their order:
    /// [`Said::Answered`].
    pub fn client_asks(&mut self, now: Now, id: CoordinationClient, asked: Asked) {
        self.core.now = now;
        let in_turn = self.spread().is_spread() || self.is_being_left(id);
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if client.closing || !client.is_on {
            return;
        }
        let seq = client.next;
        client.next += 1;
        client.queue.push_back(Queued::new(seq));
        let known = client.known();
        match asked {
            Asked::Proved(identity) => {
                if !client.identities.contains(&identity) {
                    client.identities.push(identity);
                }
                self.client_answered(id, seq, known, Ok(Reply::Done));
            }
            Asked::Refused(code) => self.client_answered(id, seq, known, Err(code)),
            asked if in_turn => self.take_turn(id, seq, asked),
            asked => {
                let request = client.request(seq, asked);
                self.send_request(id, HOME, request);
            }
        }
    }

    /// Whether the session of a connection is on its way to another one of this gateway: what is sent from
    /// now on would come behind what that one says first, as if it were its own.
    fn is_being_left(&self, id: CoordinationClient) -> bool {
        let session = self.clients.clients.get(id.0).and_then(|client| client.session);
        let coming = session.and_then(|session| self.clients.coming.get(&session));
        coming.is_some_and(|coming| *coming != id.0)
    }

    /// A session does not come to a connection of this gateway after all: the one that it has goes on.
    fn stays(&mut self, session: SessionId) {
        if let Some(client) = self.clients.of.get(&session) {
            self.send_in_turn(CoordinationClient(*client));
        }
    }

    fn spread(&self) -> Spread {
        self.clients.spread.unwrap_or_default()
    }

    /// Sends a request of a client to the shard that it concerns.
    fn send_request(
        &mut self,
        id: CoordinationClient,
        shard: ShardId,
        (seq, asked, identities): turns::Waiting,
    ) {
        let spread = self.spread().is_spread();
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session else { return };
        match &asked {
            Asked::Write(Write::Close) => client.ends = Some(seq),
            Asked::Of(of) => client.note_watching(shard, of),
            _ => {}
        }
        let after = if spread { client.known() } else { Zxid::default() };
        if let Some(ask) = asked.into_ask(session, after, identities) {
            self.ask_shard(id, shard, Errand::Request(seq), ask);
        }
    }

    /// A client may watch something at a shard from now on.
    fn note_watching(&mut self, id: CoordinationClient, shard: ShardId, of: &OfSession) {
        if let Some(client) = self.clients.clients.get_mut(id.0) {
            client.note_watching(shard, of);
        }
    }

    /// Who a client is, as far as was proved.
    pub fn client_identities(&self, id: CoordinationClient) -> &[Identity] {
        self.clients.clients.get(id.0).map_or(&[], |client| &client.identities)
    }

    /// Whether a client has so much under way that nothing more should be read of it.
    pub fn client_is_busy(&self, id: CoordinationClient) -> bool {
        let client = self.clients.clients.get(id.0);
        client.is_some_and(|client| {
            !client.is_on && client.next > 0 || client.queue.len() >= COORDINATION_REQUESTS_MAX
        })
    }

    fn ask_shard(&mut self, id: CoordinationClient, shard: ShardId, errand: Errand, ask: Ask) {
        if shard == HOME
            && let Some(client) = self.clients.clients.get_mut(id.0)
        {
            client.turns.home_heard(self.core.now);
        }
        let pending = Pending::Coordination { client: id.0, shard, errand };
        self.core.mail.ask(shard, pending, Body::Coordinate(Box::new(ask)));
    }

    fn say(&mut self, client: CoordinationClient, said: Said) {
        self.core.mail.outputs.push_back(Output::Coordination { client, said });
    }

    /// Nothing more can be said to a client on this connection.
    pub(super) fn end_client(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if !std::mem::replace(&mut client.closing, true) {
            self.say(id, Said::Close);
        }
    }

    /// A shard has answered.
    pub(super) fn coordinated(
        &mut self,
        client: u64,
        shard: ShardId,
        errand: Errand,
        answer: Answer,
    ) {
        let id = CoordinationClient(client);
        let Answer::Coordinated(answered) = answer else {
            // Whether it has happened is not known: ZooKeeper's clients are told that by a closed connection.
            return self.end_client(id);
        };
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if client.closing {
            return;
        }
        let Answered { reply, zxid, told } = *answered;
        match errand {
            Errand::Session => return self.client_connected(id, reply, zxid),
            Errand::Enter if reply.is_ok() => return self.entered(id, Some((shard, zxid))),
            Errand::Enter if reply == Err(Code::SessionMoved) => return self.entered(id, None),
            _ => {}
        }
        let moved = matches!(reply, Err(Code::SessionMoved));
        if moved || !client.hears_answer(shard, zxid, told) {
            return self.end_client(id);
        }
        match errand {
            Errand::Request(seq) => {
                self.client_answered(id, seq, zxid, reply);
                self.turn_over(id);
            }
            Errand::Join => self.joined(id, zxid, reply),
            Errand::Part => self.part_answered(id, shard, reply),
            Errand::Session | Errand::Enter => self.end_client(id),
            Errand::Aside => {}
        }
    }

    fn client_connected(&mut self, id: CoordinationClient, reply: Result<Reply, Code>, zxid: Zxid) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(connect) = client.connect.take() else { return };
        client.queue.pop_front();
        if let Some(session) = connect.session
            && self.clients.coming.get(&session) == Some(&id.0)
        {
            self.clients.coming.remove(&session);
        }
        let granted = granted(&self.core.config.session_timeout_ms, connect.timeout_ms);
        let (session, timeout_ms, joined) = match (reply, connect.session) {
            (Ok(Reply::Session(session)), _) => (session, granted, Vec::new()),
            (Ok(Reply::Number(timeout_ms)), Some(session)) => (session, timeout_ms, Vec::new()),
            (Ok(Reply::Joined(timeout_ms, shards)), Some(session)) => (session, timeout_ms, shards),
            (Err(Code::SessionExpired), _) if zxid >= connect.seen || self.spread().is_spread() => {
                self.say(id, Said::Expired);
                connect.session.into_iter().for_each(|session| self.stays(session));
                return self.end_client(id);
            }
            _ => {
                connect.session.into_iter().for_each(|session| self.stays(session));
                return self.end_client(id);
            }
        };
        (client.session, client.timeout_ms) = (Some(session), timeout_ms);
        client.comes_to(HOME, zxid);
        client.turns.seen = connect.seen;
        if let Some(before) = self.clients.of.insert(session, id.0) {
            self.end_client(CoordinationClient(before));
        }
        if joined.is_empty() { self.client_is_on(id) } else { self.join_shards(id, joined) }
    }

    /// A client has its session, at all shards that it has joined before.
    fn client_is_on(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session else { return };
        if client.known() < client.turns.seen {
            // It has seen what this cluster has not.
            return self.end_client(id);
        }
        client.is_on = true;
        let (timeout_ms, password) = (client.timeout_ms, client.password);
        self.say(id, Said::Connected { session, timeout_ms, password });
    }

    /// Something came of a request. It is said when its turn has come.
    fn client_answered(
        &mut self,
        id: CoordinationClient,
        seq: u64,
        at: Zxid,
        reply: Result<Reply, Code>,
    ) {
        self.client_answered_by(id, seq, None, (at, reply));
    }

    /// The same; perhaps others before it that are at other shards are not answered.
    fn client_answered_by(
        &mut self,
        id: CoordinationClient,
        seq: u64,
        by: Option<ShardId>,
        (at, reply): (Zxid, Result<Reply, Code>),
    ) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let zxid = client.told_up_to();
        if let Some(queued) = client.queued(seq) {
            queued.outcome = Some((reply, zxid, at));
            queued.by.extend(by);
        }
        while let Some(client) = self.clients.clients.get_mut(id.0)
            && client.queue.front().is_some_and(|queued| queued.outcome.is_some())
            && let told = client.told_up_to()
            && let Some(Queued { seq, outcome: Some((reply, zxid, at)), .. }) =
                client.queue.pop_front()
        {
            let zxid = zxid.min(told);
            let events: Vec<Unsaid> =
                client.unsaid.extract_if(.., |unsaid| unsaid.behind == seq).collect();
            let ended = client.ends == Some(seq)
                || matches!(
                    reply,
                    Err(Code::SessionExpired | Code::AuthFailed | Code::Unimplemented)
                );
            self.say(id, Said::Answered { reply, zxid, at });
            if ended {
                return self.end_client(id);
            }
            for Unsaid { event, at, .. } in events {
                self.say(id, Said::Happened { event, zxid, at });
            }
        }
    }

    /// A client is told of a change, behind whatever that shard has answered before.
    fn say_happened(&mut self, id: CoordinationClient, shard: ShardId, event: Event, at: Zxid) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if let Some(behind) = client.last_ahead(shard) {
            return client.unsaid.push(Unsaid { behind, event, at });
        }
        let zxid = client.told_up_to();
        self.say(id, Said::Happened { event, zxid, at });
    }

    /// A session that may be at this gateway is told something by a shard.
    pub(super) fn session_told(&mut self, shard: ShardId, session: SessionId, told: Told) {
        let Some(id) = self.clients.of.get(&session).copied() else { return };
        let Some(client) = self.clients.clients.get_mut(id) else { return };
        let id = CoordinationClient(id);
        let Some(part) = client.part(shard) else { return };
        if matches!(told, Told::Happened(..)) && !part.watches {
            // A leader that is none any more, or the connection before this one, is meant.
            return;
        }
        let told_before = part.told;
        part.told += 1;
        match told {
            Told::Carried { stream, seq, answered } if !client.closing => {
                if answered.told != told_before {
                    return self.end_client(id);
                }
                self.ahead_carried(id, shard, (stream, seq), *answered);
            }
            Told::Carried { .. } => {}
            Told::Happened(event, zxid, rules)
                if !client.closing && rules.allow(Acl::READ, &client.identities) =>
            {
                client.hears(shard, zxid);
                if self.is_to_be_said(id, shard, &event, zxid) {
                    self.say_happened(id, shard, event, zxid);
                }
            }
            Told::Happened(..) => {}
            Told::Moved | Told::Ended => self.end_client(id),
        }
    }
}
