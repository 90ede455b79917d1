//! Commands that publish, subscribe, and tell about subscriptions.

use super::effect::{CommandEffect, Handled};
use super::pubsub::{Kind, PubSub};
use super::sessions::Sessions;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Broadcast, Output, Published, Question, SessionId};
use crate::gateway::command_docs::{subcommand_syntax, unknown_subcommand, wrong_words};
use crate::gateway::core::Core;
use crate::gateway::parts::Parts;
use crate::gateway::target::Target;
use adt::{Args, Blob, ErrorReply};

impl Parts {
    /// `PUBLISH`, `SPUBLISH`. The session's writes before it are in effect when the message goes out.
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
        let Some(published) = Published::of(args) else {
            return ErrorReply::arity("publish").into();
        };
        let target = self.sessions.place(id, place);
        let inquiry = publication(&mut self.core, published);
        self.gather(target, inquiry);
        Handled::Later
    }
}

/// Inquiry that publishes a message. The reply is the number of receivers at this machine, as in a Redis
/// cluster.
pub(in crate::gateway) fn publication(core: &mut Core, published: Published) -> Inquiry {
    told(core, Broadcast::Publish(published), Combine::Sum)
}

/// Inquiry that lets all gateways of this machine carry something out. Those of the other machines, which do
/// not answer, are told at once.
pub(in crate::gateway) fn told(core: &mut Core, broadcast: Broadcast, combine: Combine) -> Inquiry {
    core.mail.stats.published += u64::from(matches!(broadcast, Broadcast::Publish(_)));
    if !core.topology.is_alone() {
        core.mail.outputs.push_back(Output::Broadcast(broadcast.clone()));
    }
    Inquiry::of_gateways(combine, Question::Broadcast(broadcast))
}

impl PubSub {
    /// `SUBSCRIBE` and its family: one reply per name.
    pub(in crate::gateway) fn command(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        (name, args): (&str, &Args<'_>),
    ) -> Handled {
        if !sessions.is_idle(id) {
            return Handled::Hold;
        }
        let names: Vec<Blob> = args.iter_from(1).map(Blob::from).collect();
        let kind = Kind::of_command(name);
        let replies = if name.ends_with("unsubscribe") {
            self.unsubscribe(id, kind, &names)
        } else {
            match self.subscribe(id, kind, &names) {
                Ok(replies) => replies,
                Err(error) => return error.into(),
            }
        };
        let Some(session) = sessions.get_mut(id.0) else { return Handled::Later };
        self.count(&mut core.mail.stats, id, session);
        for reply in replies {
            core.push(id, session.protocol, reply);
        }
        Handled::Later
    }
}

/// Whether a command of the family of `SUBSCRIBE` asks for keyspace events.
pub(super) fn asks_for_keys(name: &str, args: &Args<'_>) -> bool {
    let kind = Kind::of_command(name);
    !name.ends_with("unsubscribe") && args.iter_from(1).any(|name| kind.may_hear_keys(name))
}

/// `PUBSUB CHANNELS | NUMSUB | NUMPAT | SHARDCHANNELS | SHARDNUMSUB`.
pub(in crate::gateway) fn command(args: &Args<'_>) -> CommandEffect {
    let sharded = args.is(1, "SHARDCHANNELS") || args.is(1, "SHARDNUMSUB");
    match args.len() {
        2 | 3 if args.is(1, "CHANNELS") || args.is(1, "SHARDCHANNELS") => {
            let pattern = args.get(2).map(Blob::from);
            let question = Question::Channels { sharded, pattern };
            Inquiry::of_gateways(Combine::Channels, question).into()
        }
        _ if args.is(1, "NUMSUB") || args.is(1, "SHARDNUMSUB") => {
            let channels: Vec<Blob> = args.iter_from(2).map(Blob::from).collect();
            let question = Question::Subscribers { sharded, channels: channels.clone() };
            Inquiry::of_gateways(Combine::Subscribers(channels), question).into()
        }
        2 if args.is(1, "NUMPAT") => {
            Inquiry::of_gateways(Combine::Patterns, Question::Patterns).into()
        }
        _ if args.is(1, "CHANNELS") || sharded => subcommand_syntax(args).into(),
        _ if args.is(1, "NUMPAT") => wrong_words("pubsub", "numpat").into(),
        _ => unknown_subcommand(args).into(),
    }
}
