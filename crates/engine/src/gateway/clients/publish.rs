//! Commands that publish, subscribe, and tell about subscriptions.

use super::effect::{Effect, Handled};
use super::pubsub::Kind;
use crate::gateway::Gateway;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Question, SessionId};
use crate::gateway::command_docs::{subcommand_syntax, unknown_subcommand, wrong_words};
use crate::gateway::mail::Target;
use adt::{Args, Blob};

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
        if place.is_none() && session.request.is_some() {
            return self.as_transaction(id, args);
        }
        let target = self.place(id, place);
        self.publish_there(target, args);
        Handled::Later
    }

    /// Publishes what the words of `PUBLISH` say; how many have heard it is answered there.
    pub(in crate::gateway) fn publish_there(&mut self, target: Target, args: &Args<'_>) {
        let channel = Blob::from(args.get(1).unwrap_or_default());
        let payload = Blob::from(args.get(2).unwrap_or_default());
        self.core.mail.stats.published += 1;
        let question = Question::Publish { channel, payload };
        self.gather(target, Inquiry::of_gateways(Combine::Sum, question));
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
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        self.pubsub.count(&mut self.core.mail.stats, id, session);
        for reply in replies {
            self.core.push(id, session.protocol, reply);
        }
        Handled::Later
    }
}

/// `PUBSUB CHANNELS | NUMSUB | NUMPAT`.
pub(in crate::gateway) fn command(args: &Args<'_>) -> Effect {
    match args.len() {
        2 | 3 if args.is(1, "CHANNELS") => {
            let pattern = args.get(2).map(Blob::from);
            Inquiry::of_gateways(Combine::Channels, Question::Channels { pattern }).into()
        }
        _ if args.is(1, "NUMSUB") => {
            let channels: Vec<Blob> = args.iter_from(2).map(Blob::from).collect();
            let question = Question::Subscribers(channels.clone());
            Inquiry::of_gateways(Combine::Subscribers(channels), question).into()
        }
        2 if args.is(1, "NUMPAT") => {
            Inquiry::of_gateways(Combine::Patterns, Question::Patterns).into()
        }
        _ if args.is(1, "CHANNELS") => subcommand_syntax(args).into(),
        _ if args.is(1, "NUMPAT") => wrong_words("pubsub", "numpat").into(),
        _ => unknown_subcommand(args).into(),
    }
}
