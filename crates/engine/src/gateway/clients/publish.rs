//! Publishing and subscribing, and what gateways tell each other about their sessions.

use super::commands::{subcommand_syntax, unknown_subcommand, wrong_words};
use super::dispatch::Handled;
use super::pubsub::Kind;
use crate::gateway::Gateway;
use crate::gateway::admin::gather::What;
use crate::gateway::api::{Knowledge, Question, SessionId};
use crate::gateway::mail::Target;
use adt::{Args, Blob, Reply};

impl Gateway {
    /// `PUBLISH`. The session's writes before it are in effect when the message goes out.
    pub(in crate::gateway) fn publish(
        &mut self,
        id: SessionId,
        args: &Args<'_>,
        place: Option<Target>,
    ) -> Handled {
        let Some(session) = self.sessions.get(id.0) else { return Handled::Later };
        if place.is_none() && session.writes.iter().any(|&n| n > 0) {
            return Handled::Hold;
        }
        let channel = Blob::from(args.get(1).unwrap_or_default());
        let payload = Blob::from(args.get(2).unwrap_or_default());
        self.core.mail.stats.published += 1;
        let target = self.place(id, place);
        self.gather(target, What::Sum, |_| None, Some(Question::Publish { channel, payload }));
        Handled::Later
    }

    /// `SUBSCRIBE` and its family: one reply per name.
    pub(in crate::gateway) fn subscriptions(
        &mut self,
        id: SessionId,
        name: &str,
        args: &Args<'_>,
    ) -> Handled {
        if !self.is_idle(id) {
            return Handled::Hold;
        }
        let names: Vec<Blob> = args.iter_from(1).map(Blob::from).collect();
        let kind = if name.starts_with('p') { Kind::Pattern } else { Kind::Channel };
        let replies = if name.ends_with("unsubscribe") {
            self.pubsub.unsubscribe(id, kind, &names)
        } else {
            match self.pubsub.subscribe(id, kind, &names) {
                Ok(replies) => replies,
                Err(error) => return error.into(),
            }
        };
        self.count_subscriptions(id);
        for reply in replies {
            self.push(id, reply);
        }
        Handled::Later
    }

    /// Brings what depends on a session's subscriptions up to date.
    pub(in crate::gateway) fn count_subscriptions(&mut self, id: SessionId) {
        let (channels, patterns) = self.pubsub.counts(id);
        self.core.mail.stats.subscribers = self.pubsub.subscribers() as u64;
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.subscriptions = (channels + patterns) as u32;
            session.refresh();
        }
    }

    /// `PUBSUB CHANNELS | NUMSUB | NUMPAT`.
    pub(in crate::gateway) fn pubsub_command(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        match args.len() {
            2 | 3 if args.is(1, "CHANNELS") => {
                let pattern = args.get(2).map(Blob::from);
                self.ask_gateways(id, What::Channels, Question::Channels { pattern })
            }
            _ if args.is(1, "NUMSUB") => {
                let channels: Vec<Blob> = args.iter_from(2).map(Blob::from).collect();
                let question = Question::Subscribers(channels.clone());
                self.ask_gateways(id, What::Subscribers(channels), question)
            }
            2 if args.is(1, "NUMPAT") => self.ask_gateways(id, What::Patterns, Question::Patterns),
            _ if args.is(1, "CHANNELS") => subcommand_syntax(args).into(),
            _ if args.is(1, "NUMPAT") => wrong_words("pubsub", "numpat").into(),
            _ => unknown_subcommand(args).into(),
        }
    }

    /// What this gateway contributes to an answer.
    pub(in crate::gateway) fn know(&mut self, question: &Question) -> Knowledge {
        match question {
            Question::Publish { channel, payload } => {
                let messages = self.pubsub.publish(channel, payload);
                let count = messages.len() as i64;
                for (session, message) in messages {
                    self.push(session, message);
                }
                Knowledge::Count(count)
            }
            Question::ClientList(filter) => {
                let lines = self.client_lines(filter);
                Knowledge::Lines(lines.into_iter().map(|(_, l)| (l.id, l.to_string())).collect())
            }
            Question::ClientKill(filter) => Knowledge::Count(self.kill_clients(filter) as i64),
            Question::Unblock { client, error } => {
                Knowledge::Count(i64::from(self.unblock(*client, *error)))
            }
            Question::Channels { pattern } => {
                Knowledge::Names(self.pubsub.channels(pattern.as_deref()))
            }
            Question::Subscribers(channels) => {
                let counts = channels.iter().map(|c| self.pubsub.listeners_of(c) as i64);
                Knowledge::Counts(counts.collect())
            }
            Question::Patterns => Knowledge::Names(self.pubsub.patterns()),
            Question::Transactions => Knowledge::Lines(self.transaction_lines()),
            Question::Stats => Knowledge::Stats(Box::new(self.stats().clone())),
        }
    }

    /// What a session is told without having asked, or besides replies, in the order of what caused it.
    /// `CLIENT REPLY` is about replies only.
    pub(in crate::gateway) fn push(&mut self, id: SessionId, reply: Reply) {
        let Some(session) = self.sessions.get(id.0) else { return };
        let protocol = session.protocol;
        self.core.mail.outputs.push_back(crate::gateway::Output::Reply {
            session: id,
            reply,
            protocol,
            lingers: false,
        });
    }
}
