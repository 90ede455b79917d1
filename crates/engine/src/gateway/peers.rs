//! Questions between the gateways of one server, and questions to shards that concern all of them:
//! the wiring between [`Gathers`](super::admin::gather::Gathers) and the parts that know the answers.

use super::Gateway;
use super::admin::inquiry::Inquiry;
use super::api::{Broadcast, Knowledge, Output, PeerMessage, Published, Question};
use super::clients::connection;
use super::clients::pubsub::Kind;
use super::parts::Parts;
use super::target::Target;
use super::txn::holders::holder_lines;
use crate::ids::GatewayId;
use crate::now::Now;

impl Gateway {
    /// Takes a message of another gateway of the server.
    pub fn peer(&mut self, now: Now, from: GatewayId, message: PeerMessage) {
        self.parts.core.now = now;
        match message {
            PeerMessage::Ask { ask, question } => {
                let knowledge = self.know(&question);
                let message = PeerMessage::Tell { ask, knowledge };
                self.parts.core.mail.outputs.push_back(Output::Peer { to: from, message });
            }
            PeerMessage::Tell { ask, knowledge } => {
                self.parts.gathers.told(&mut self.parts.core, ask, knowledge);
            }
        }
        self.settle();
    }

    /// Carries out what a gateway of another machine has sent to all.
    pub fn broadcast(&mut self, now: Now, broadcast: &Broadcast) {
        self.parts.core.now = now;
        self.carry_out(broadcast);
        self.settle();
    }

    /// Does this gateway's part of a broadcast. Returns how many subscribers have received a message.
    fn carry_out(&mut self, broadcast: &Broadcast) -> usize {
        match broadcast {
            Broadcast::Publish(published) => self.deliver(published),
            Broadcast::ForgetScripts => {
                self.parts.core.scripts.forget_all();
                0
            }
            Broadcast::ForgetTypes => {
                self.parts.core.types.forget();
                0
            }
            Broadcast::Users(change) => {
                self.users.follow(&mut self.parts, &self.pubsub, change);
                0
            }
            Broadcast::LookAtUsers => {
                self.users.look(&mut self.parts);
                0
            }
        }
    }

    /// Sends a message to the subscribers here. Returns their number.
    pub(super) fn deliver(&mut self, published: &Published) -> usize {
        let messages = self.pubsub.publish(published);
        let count = messages.len();
        for (id, message) in messages {
            if let Some(session) = self.parts.sessions.get(id.0) {
                self.parts.core.push(id, session.protocol, message);
            }
        }
        count
    }

    /// Answers a question for this gateway.
    pub(super) fn know(&mut self, question: &Question) -> Knowledge {
        match question {
            Question::Broadcast(broadcast) => Knowledge::Count(self.carry_out(broadcast) as i64),
            Question::ClientList(filter) => {
                let lines = connection::lines(&self.parts.core, &self.parts.sessions, filter);
                Knowledge::Lines(lines.into_iter().map(|(_, l)| (l.id, l.to_string())).collect())
            }
            Question::ClientKill(filter) => {
                let (core, sessions) = (&mut self.parts.core, &mut self.parts.sessions);
                Knowledge::Count(connection::kill(core, sessions, filter) as i64)
            }
            Question::Unblock { client, error } => {
                Knowledge::Count(i64::from(self.parts.unblock(*client, *error)))
            }
            Question::Channels { sharded, pattern } => {
                let kind = if *sharded { Kind::Sharded } else { Kind::Channel };
                Knowledge::Names(self.pubsub.channels(kind, pattern.as_deref()))
            }
            Question::Subscribers { sharded, channels } => {
                let kind = if *sharded { Kind::Sharded } else { Kind::Channel };
                let counts = channels.iter().map(|c| self.pubsub.listeners_of(kind, c) as i64);
                Knowledge::Counts(counts.collect())
            }
            Question::Patterns => Knowledge::Names(self.pubsub.patterns()),
            Question::Transactions => {
                let (transactions, sessions) = (&self.parts.transactions, &self.parts.sessions);
                Knowledge::Lines(holder_lines(&self.parts.core, transactions, sessions))
            }
            Question::Local(question) => self.parts.know_here(question),
            Question::Stats => Knowledge::Stats(Box::new(self.stats().clone())),
        }
    }
}

impl Parts {
    /// Begins an inquiry whose reply goes to `target`. [`Gateway::settle`] answers for this gateway.
    pub(super) fn gather(&mut self, target: Target, inquiry: Inquiry) {
        self.questions.extend(self.gathers.begin(&mut self.core, target, inquiry));
    }
}
