//! Clients of the coordination service. A connection has one session, which the shard that has the tree
//! knows to be at this gateway.
//!
//! Answers leave in the order of the requests. The shard gives them in that order as well, as long as its
//! lead and the connections between the machines last; where one of them ends, or a notice was lost, the
//! client's connection is closed: its session goes on when it comes back, as with ZooKeeper.

use super::api::{CoordinationClient, Output, Said};
use super::mail::Pending;
use super::{Gateway, slab::Slab};
use crate::coordination::service::Command;
use crate::coordination::{
    Acl, Answered, Ask, Code, Identity, OfSession, Password, Reply, SessionId, Told, Write, Zxid,
};
use crate::level::Level;
use crate::limits::COORDINATION_REQUESTS_MAX;
use crate::map::ShardMap;
use crate::message::{Answer, Body, Now, ShardId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

/// The shard that has the tree: that of slot 0, which no split takes from it.
const TREE: ShardId = ShardId(0);

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

/// All clients of a gateway.
#[derive(Default)]
pub(super) struct Clients {
    clients: Slab<Client>,
    of: BTreeMap<SessionId, u64>,
    /// Sessions that clients are coming back to, with the last connection of each that tries.
    coming: BTreeMap<SessionId, u64>,
}

#[derive(Default)]
struct Client {
    identities: Vec<Identity>,
    connect: Option<Connect>,
    session: Option<SessionId>,
    /// Requests that are not answered, the oldest first, and what came of those whose turn has not come.
    queue: VecDeque<(u64, Option<Outcome>)>,
    next: u64,
    /// How much the session was told at this gateway.
    told: u64,
    last: Zxid,
    /// The request that ends the session.
    ends: Option<u64>,
    closing: bool,
}

type Outcome = (Result<Reply, Code>, Zxid);

/// The time-out of a session whose client wishes for one.
fn granted(allowed: &RangeInclusive<i32>, wished_ms: i32) -> i32 {
    wished_ms.clamp(*allowed.start(), *allowed.end())
}

impl Gateway {
    /// A client has connected. It may be taken for somebody by its address.
    pub fn client_came(&mut self, now: Now, address: Identity) -> CoordinationClient {
        self.now = now;
        let client = Client { identities: vec![address], ..Client::default() };
        CoordinationClient(self.clients.clients.insert(client))
    }

    /// A connection is gone. Its session goes on, without what it watches.
    pub fn client_left(&mut self, now: Now, id: CoordinationClient) {
        self.now = now;
        let Some(client) = self.clients.clients.remove(id.0) else { return };
        if let Some(session) = client.connect.and_then(|connect| connect.session)
            && self.clients.coming.get(&session) == Some(&id.0)
        {
            self.clients.coming.remove(&session);
        }
        if let Some(session) = client.session
            && self.clients.of.get(&session) == Some(&id.0)
        {
            self.clients.of.remove(&session);
            if self.clients.coming.contains_key(&session) {
                // It is on its way to another connection of this gateway, which must not lose it.
                return;
            }
            self.mail.tell(TREE, Body::Coordinate(Box::new(Ask::Leave(session))));
        }
    }

    /// The first thing that a client says. Answer: [`Said::Connected`] or [`Said::Expired`].
    pub fn client_connects(&mut self, now: Now, id: CoordinationClient, connect: Connect) {
        self.now = now;
        if !self.all_understand(Level::COORDINATED) {
            return self.end_client(id);
        }
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let password = connect.password;
        let ask = match connect.session {
            Some(session) => {
                self.clients.coming.insert(session, id.0);
                Ask::Resume { session, password }
            }
            None => {
                let timeout_ms = granted(&self.config.session_timeout_ms, connect.timeout_ms);
                let write = Write::Open { timeout_ms, password };
                Ask::Write(Command {
                    session: SessionId(0),
                    identities: Vec::new(),
                    write,
                    quotas: false,
                })
            }
        };
        client.connect = Some(connect);
        let seq = client.next;
        client.next += 1;
        client.queue.push_back((seq, None));
        self.ask_tree(id, seq, ask);
    }

    /// What a client asks that has a session. Each request has one answer, in their order:
    /// [`Said::Answered`].
    pub fn client_asks(&mut self, now: Now, id: CoordinationClient, asked: Asked) {
        self.now = now;
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(session) = client.session.filter(|_| !client.closing) else { return };
        let seq = client.next;
        client.next += 1;
        client.queue.push_back((seq, None));
        let ask = match asked {
            Asked::Write(write) => {
                if write == Write::Close {
                    client.ends = Some(seq);
                }
                let identities = client.identities.clone();
                Ask::Write(Command { session, identities, write, quotas: false })
            }
            Asked::Of(of) => Ask::Of(session, of),
            Asked::Proved(identity) => {
                if !client.identities.contains(&identity) {
                    client.identities.push(identity);
                }
                return self.client_answered(id, seq, Ok(Reply::Done));
            }
            Asked::Refused(code) => return self.client_answered(id, seq, Err(code)),
        };
        self.ask_tree(id, seq, ask);
    }

    /// Who a client is, as far as was proved.
    pub fn client_identities(&self, id: CoordinationClient) -> &[Identity] {
        self.clients.clients.get(id.0).map_or(&[], |client| &client.identities)
    }

    /// Whether a client has so much under way that nothing more should be read of it.
    pub fn client_is_busy(&self, id: CoordinationClient) -> bool {
        let client = self.clients.clients.get(id.0);
        client.is_some_and(|client| {
            client.session.is_none() && !client.queue.is_empty()
                || client.queue.len() >= COORDINATION_REQUESTS_MAX
        })
    }

    /// Whether all machines understand what would be sent to them.
    pub(super) fn all_understand(&self, level: Level) -> bool {
        let understood = |map: &ShardMap| map.level.suffices_for(level);
        self.mail.ways.is_none() || self.topology.map().is_some_and(understood)
    }

    fn ask_tree(&mut self, id: CoordinationClient, seq: u64, ask: Ask) {
        let pending = Pending::Coordination { client: id.0, seq };
        self.mail.ask(TREE, pending, Body::Coordinate(Box::new(ask)));
    }

    fn say(&mut self, client: CoordinationClient, said: Said) {
        self.mail.outputs.push_back(Output::Coordination { client, said });
    }

    /// Nothing more can be said to a client on this connection.
    fn end_client(&mut self, id: CoordinationClient) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if !std::mem::replace(&mut client.closing, true) {
            self.say(id, Said::Close);
        }
    }

    /// The shard has answered.
    pub(super) fn coordinated(&mut self, client: u64, seq: u64, answer: Answer) {
        let id = CoordinationClient(client);
        let Answer::Coordinated(answered) = answer else {
            // Whether it has happened is not known: ZooKeeper's clients are told that by a closed connection.
            return self.end_client(id);
        };
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if client.closing {
            return;
        }
        if client.session.is_none() {
            return self.client_connected(id, *answered);
        }
        let Answered { reply, zxid, told } = *answered;
        let gone = matches!(reply, Err(Code::SessionMoved));
        if told != client.told || gone {
            return self.end_client(id);
        }
        client.last = client.last.max(zxid);
        self.client_answered(id, seq, reply);
    }

    fn client_connected(&mut self, id: CoordinationClient, answered: Answered) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let Some(connect) = client.connect.take() else { return };
        client.queue.pop_front();
        if let Some(session) = connect.session
            && self.clients.coming.get(&session) == Some(&id.0)
        {
            self.clients.coming.remove(&session);
        }
        if answered.zxid < connect.seen {
            // It has seen what this cluster has not.
            return self.end_client(id);
        }
        let granted = granted(&self.config.session_timeout_ms, connect.timeout_ms);
        let (session, timeout_ms) = match (answered.reply, connect.session) {
            (Ok(Reply::Session(session)), _) => (session, granted),
            (Ok(Reply::Number(timeout_ms)), Some(session)) => (session, timeout_ms),
            (Err(Code::SessionExpired), _) => {
                self.say(id, Said::Expired);
                return self.end_client(id);
            }
            _ => return self.end_client(id),
        };
        client.session = Some(session);
        client.last = answered.zxid;
        if let Some(before) = self.clients.of.insert(session, id.0) {
            self.end_client(CoordinationClient(before));
        }
        self.say(id, Said::Connected { session, timeout_ms, password: connect.password });
    }

    /// Something came of a request. It is said when its turn has come.
    fn client_answered(&mut self, id: CoordinationClient, seq: u64, reply: Result<Reply, Code>) {
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        let last = client.last;
        if let Some((_, outcome)) = client.queue.iter_mut().find(|(of, _)| *of == seq) {
            *outcome = Some((reply, last));
        }
        while let Some(client) = self.clients.clients.get_mut(id.0)
            && let Some((_, Some(_))) = client.queue.front()
            && let Some((seq, Some((reply, zxid)))) = client.queue.pop_front()
        {
            let ended = client.ends == Some(seq)
                || matches!(
                    reply,
                    Err(Code::SessionExpired | Code::AuthFailed | Code::Unimplemented)
                );
            self.say(id, Said::Answered { reply, zxid });
            if ended {
                return self.end_client(id);
            }
        }
    }

    /// A session that may be at this gateway is told something.
    pub(super) fn session_told(&mut self, session: SessionId, told: Told) {
        let Some(id) = self.clients.of.get(&session).copied() else { return };
        let Some(client) = self.clients.clients.get_mut(id) else { return };
        client.told += 1;
        match told {
            Told::Happened(event, zxid, rules)
                if !client.closing && rules.allow(Acl::READ, &client.identities) =>
            {
                client.last = client.last.max(zxid);
                self.say(CoordinationClient(id), Said::Happened(event, zxid));
            }
            Told::Happened(..) => {}
            Told::Moved | Told::Ended => self.end_client(CoordinationClient(id)),
        }
    }
}
