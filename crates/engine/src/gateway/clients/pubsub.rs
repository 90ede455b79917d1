//! Subscriptions of one gateway's sessions to channels and patterns.
//!
//! Messages and confirmations have the form that the Redis documentation of pub/sub gives them.
//! A message goes to the subscribers of its channel first, then to those of matching patterns in
//! the order of the patterns; a session that matches twice gets it twice, as in Redis.

use super::session::Session;
use crate::gateway::api::{GatewayStats, Published, SessionId};
use crate::gateway::tracking::may_hear;
use crate::limits::SUBSCRIPTIONS_MAX;
use adt::command::glob;
use adt::{Blob, ErrorReply, Reply};
use std::collections::{BTreeMap, BTreeSet};

/// Kind of name in a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One channel (`SUBSCRIBE`).
    Channel,
    /// All channels that match a glob (`PSUBSCRIBE`).
    Pattern,
    /// One sharded channel (`SSUBSCRIBE`): channels of this kind have names of their own.
    Sharded,
}

impl Kind {
    /// Kind of name that a command of the family of `SUBSCRIBE` and `UNSUBSCRIBE` has.
    pub(super) fn of_command(name: &str) -> Self {
        match name.as_bytes() {
            [b'p', ..] => Self::Pattern,
            [b's', b's', ..] | b"sunsubscribe" => Self::Sharded,
            _ => Self::Channel,
        }
    }

    /// Whether a name of the kind may tell keyspace events.
    pub(super) fn may_hear_keys(self, name: &[u8]) -> bool {
        self != Self::Sharded && may_hear(self == Self::Pattern, name)
    }

    /// First words of the confirmation of a subscription, and of that of its end.
    fn confirmations(self) -> (&'static str, &'static str) {
        match self {
            Self::Channel => ("subscribe", "unsubscribe"),
            Self::Pattern => ("psubscribe", "punsubscribe"),
            Self::Sharded => ("ssubscribe", "sunsubscribe"),
        }
    }
}

/// Numbers of names that a session listens to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Subscribed {
    /// Channels.
    pub channels: usize,
    /// Patterns.
    pub patterns: usize,
    /// Sharded channels.
    pub sharded: usize,
}

impl Subscribed {
    /// Number of all names.
    pub fn all(self) -> usize {
        self.channels + self.patterns + self.sharded
    }
}

/// The subscriptions of one session, by kind.
#[derive(Clone, Debug, Default)]
struct Subscriptions([BTreeSet<Blob>; 3]);

impl Subscriptions {
    fn names(&mut self, kind: Kind) -> &mut BTreeSet<Blob> {
        &mut self.0[kind as usize]
    }

    fn counts(&self) -> Subscribed {
        let [channels, patterns, sharded] = self.0.each_ref().map(BTreeSet::len);
        Subscribed { channels, patterns, sharded }
    }

    /// Number that a confirmation contains. Sharded channels are counted by themselves, as in Redis.
    fn confirmed(&self, kind: Kind) -> usize {
        let counts = self.counts();
        if kind == Kind::Sharded { counts.sharded } else { counts.channels + counts.patterns }
    }
}

type Listeners = BTreeMap<Blob, BTreeSet<SessionId>>;

/// All subscriptions of a gateway.
#[derive(Clone, Debug, Default)]
pub struct PubSub {
    /// By kind.
    listeners: [Listeners; 3],
    sessions: BTreeMap<SessionId, Subscriptions>,
    /// Number of channels and patterns that may tell keyspace events.
    of_keys: usize,
}

impl PubSub {
    /// Whether a session listens to keyspace events.
    pub fn hears_keys(&self) -> bool {
        self.of_keys > 0
    }

    /// Subscribes a session; one confirmation per name. Beyond [`SUBSCRIPTIONS_MAX`] nothing is
    /// subscribed.
    pub fn subscribe(
        &mut self,
        session: SessionId,
        kind: Kind,
        names: &[Blob],
    ) -> Result<Vec<Reply>, ErrorReply> {
        let mut own = self.sessions.remove(&session).unwrap_or_default();
        let fresh: BTreeSet<&Blob> =
            names.iter().filter(|n| !own.names(kind).contains(*n)).collect();
        if own.counts().all() + fresh.len() > SUBSCRIPTIONS_MAX {
            self.put_back(session, own);
            return Err(ErrorReply::err(format!(
                "a connection can subscribe to at most {SUBSCRIPTIONS_MAX} channels and patterns"
            )));
        }
        let (word, _) = kind.confirmations();
        let mut replies = Vec::with_capacity(names.len());
        for name in names {
            if own.names(kind).insert(name.clone()) {
                let listeners = self.listeners[kind as usize].entry(name.clone()).or_default();
                self.of_keys += usize::from(listeners.is_empty() && kind.may_hear_keys(name));
                listeners.insert(session);
            }
            replies.push(confirmation(word, Reply::Bulk(name.clone()), own.confirmed(kind)));
        }
        self.put_back(session, own);
        Ok(replies)
    }

    /// Ends subscriptions; all of the kind if `names` is empty. One confirmation per name, or one
    /// without a name if there was nothing to end.
    pub fn unsubscribe(&mut self, session: SessionId, kind: Kind, names: &[Blob]) -> Vec<Reply> {
        let (_, word) = kind.confirmations();
        let mut own = self.sessions.remove(&session).unwrap_or_default();
        let all: Vec<Blob>;
        let names = if names.is_empty() {
            all = own.names(kind).iter().cloned().collect();
            &all
        } else {
            names
        };
        if names.is_empty() {
            let count = own.confirmed(kind);
            self.put_back(session, own);
            return vec![confirmation(word, Reply::Nil, count)];
        }
        let mut replies = Vec::with_capacity(names.len());
        for name in names {
            if own.names(kind).remove(name) {
                self.remove_listener(session, kind, name);
            }
            replies.push(confirmation(word, Reply::Bulk(name.clone()), own.confirmed(kind)));
        }
        self.put_back(session, own);
        replies
    }

    fn put_back(&mut self, session: SessionId, own: Subscriptions) {
        if own.counts().all() > 0 {
            self.sessions.insert(session, own);
        }
    }

    fn remove_listener(&mut self, session: SessionId, kind: Kind, name: &Blob) {
        let listeners = &mut self.listeners[kind as usize];
        if let Some(sessions) = listeners.get_mut(name) {
            sessions.remove(&session);
            if sessions.is_empty() {
                listeners.remove(name);
                self.of_keys -= usize::from(kind.may_hear_keys(name));
            }
        }
    }

    /// Forgets a session that is gone or was reset.
    pub fn close(&mut self, session: SessionId) {
        let Some(own) = self.sessions.remove(&session) else { return };
        for kind in [Kind::Channel, Kind::Pattern, Kind::Sharded] {
            for name in &own.0[kind as usize] {
                self.remove_listener(session, kind, name);
            }
        }
    }

    /// The messages that a publication causes, in the order in which they are sent. Patterns do not match
    /// sharded channels.
    pub fn publish(&self, published: &Published) -> Vec<(SessionId, Reply)> {
        let Published { sharded, channel, payload: message } = published;
        let bulk = |blob: &Blob| Reply::Bulk(blob.clone());
        let [channels, patterns, sharded_channels] = &self.listeners;
        let (listeners, word) =
            if *sharded { (sharded_channels, "smessage") } else { (channels, "message") };
        let mut sent = Vec::new();
        for &session in listeners.get(channel).into_iter().flatten() {
            let push = vec![Reply::bulk(word), bulk(channel), bulk(message)];
            sent.push((session, Reply::Push(push)));
        }
        if *sharded {
            return sent;
        }
        let matching = patterns.iter().filter(|(pattern, _)| glob::matches(pattern, channel));
        for (pattern, sessions) in matching {
            for &session in sessions {
                let push =
                    vec![Reply::bulk("pmessage"), bulk(pattern), bulk(channel), bulk(message)];
                sent.push((session, Reply::Push(push)));
            }
        }
        sent
    }

    /// Whether something holds of all names that a session listens to; told is whether a name is a pattern.
    pub fn all_of(&self, session: SessionId, holds: impl Fn(bool, &[u8]) -> bool) -> bool {
        let kinds = [Kind::Channel, Kind::Pattern, Kind::Sharded];
        let names = |own: &Subscriptions, kind: Kind| {
            own.0[kind as usize].iter().all(|name| holds(kind == Kind::Pattern, name))
        };
        self.sessions.get(&session).is_none_or(|own| kinds.iter().all(|kind| names(own, *kind)))
    }

    /// Numbers of names that a session listens to.
    pub fn counts(&self, session: SessionId) -> Subscribed {
        self.sessions.get(&session).map_or(Subscribed::default(), Subscriptions::counts)
    }

    /// Brings what depends on a session's subscriptions up to date.
    pub(in crate::gateway) fn count(
        &self,
        stats: &mut GatewayStats,
        id: SessionId,
        session: &mut Session,
    ) {
        stats.subscribers = self.subscribers() as u64;
        session.subscribed = self.counts(id);
        session.refresh();
    }

    /// How many sessions listen to something.
    pub fn subscribers(&self) -> usize {
        self.sessions.len()
    }

    /// Channels of a kind with listeners, in order: `PUBSUB CHANNELS`.
    pub fn channels(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<Blob> {
        let passes = |name: &&Blob| pattern.is_none_or(|pattern| glob::matches(pattern, name));
        self.listeners[kind as usize].keys().filter(passes).cloned().collect()
    }

    /// How many sessions listen to a channel by its name: `PUBSUB NUMSUB`.
    pub fn listeners_of(&self, kind: Kind, channel: &[u8]) -> usize {
        self.listeners[kind as usize].get(channel).map_or(0, BTreeSet::len)
    }

    /// Patterns with listeners, in order: `PUBSUB NUMPAT` counts them over all gateways.
    pub fn patterns(&self) -> Vec<Blob> {
        self.listeners[Kind::Pattern as usize].keys().cloned().collect()
    }
}

fn confirmation(word: &str, name: Reply, count: usize) -> Reply {
    Reply::Push(vec![Reply::bulk(word), name, Reply::Int(count as i64)])
}

/// The reply of `PUBSUB CHANNELS` from the channels of all gateways.
pub fn channels_reply(gateways: impl IntoIterator<Item = Vec<Blob>>) -> Reply {
    let names: BTreeSet<Blob> = gateways.into_iter().flatten().collect();
    Reply::Array(names.into_iter().map(Reply::Bulk).collect())
}

/// The reply of `PUBSUB NUMSUB` from the asked channels and their counts, summed over gateways.
pub fn numsub_reply(channels: &[Blob], counts: &[i64]) -> Reply {
    let pairs = channels.iter().zip(counts);
    Reply::Array(pairs.flat_map(|(c, &n)| [Reply::Bulk(c.clone()), Reply::Int(n)]).collect())
}

/// The reply of `PUBSUB NUMPAT` from the patterns of all gateways.
pub fn numpat_reply(gateways: impl IntoIterator<Item = Vec<Blob>>) -> Reply {
    let patterns: BTreeSet<Blob> = gateways.into_iter().flatten().collect();
    Reply::Int(patterns.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn blobs(names: &[&str]) -> Vec<Blob> {
        names.iter().map(|&n| n.into()).collect()
    }

    fn published(channel: &str, payload: &str) -> Published {
        Published { sharded: false, channel: channel.into(), payload: payload.into() }
    }

    fn push(words: &[&str], count: i64) -> Reply {
        let mut all: Vec<Reply> = words.iter().map(Reply::bulk).collect();
        all.push(Reply::Int(count));
        Reply::Push(all)
    }

    #[test]
    fn confirmations_count_what_the_session_listens_to() {
        let mut all = PubSub::default();
        let replies = all.subscribe(A, Kind::Channel, &blobs(&["x", "y", "x"])).unwrap();
        let expected = [
            push(&["subscribe", "x"], 1),
            push(&["subscribe", "y"], 2),
            push(&["subscribe", "x"], 2),
        ];
        assert_eq!(replies, expected);
        let replies = all.subscribe(A, Kind::Pattern, &blobs(&["x*"])).unwrap();
        assert_eq!(replies, [push(&["psubscribe", "x*"], 3)]);
        assert_eq!(all.counts(A), Subscribed { channels: 2, patterns: 1, sharded: 0 });
        let replies = all.unsubscribe(A, Kind::Channel, &blobs(&["x", "z"]));
        assert_eq!(replies, [push(&["unsubscribe", "x"], 2), push(&["unsubscribe", "z"], 2)]);
        assert_eq!(all.unsubscribe(A, Kind::Channel, &[]), [push(&["unsubscribe", "y"], 1)]);
        assert_eq!(
            all.unsubscribe(A, Kind::Channel, &[]),
            [Reply::Push(vec![Reply::bulk("unsubscribe"), Reply::Nil, Reply::Int(1)])]
        );
        assert_eq!(all.unsubscribe(A, Kind::Pattern, &[]), [push(&["punsubscribe", "x*"], 0)]);
        assert_eq!(all.subscribers(), 0);
    }

    #[test]
    fn messages_go_to_channels_first_then_to_patterns() {
        let mut all = PubSub::default();
        all.subscribe(B, Kind::Channel, &blobs(&["news"])).unwrap();
        all.subscribe(A, Kind::Channel, &blobs(&["news", "other"])).unwrap();
        all.subscribe(A, Kind::Pattern, &blobs(&["n*", "z*"])).unwrap();
        let sent = all.publish(&published("news", "hi"));
        let message = Reply::Push(["message", "news", "hi"].map(Reply::bulk).to_vec());
        let matched = Reply::Push(["pmessage", "n*", "news", "hi"].map(Reply::bulk).to_vec());
        assert_eq!(sent, [(A, message.clone()), (B, message), (A, matched)]);
        assert!(all.publish(&published("nobody", "hi")).len() == 1);
        assert!(all.publish(&published("quiet", "hi")).is_empty());
    }

    #[test]
    fn sharded_channels_have_names_and_numbers_of_their_own() {
        let mut all = PubSub::default();
        all.subscribe(A, Kind::Channel, &blobs(&["news"])).unwrap();
        all.subscribe(A, Kind::Pattern, &blobs(&["*"])).unwrap();
        let replies = all.subscribe(B, Kind::Sharded, &blobs(&["news", "other"])).unwrap();
        assert_eq!(replies, [push(&["ssubscribe", "news"], 1), push(&["ssubscribe", "other"], 2)]);
        let sent = all.publish(&Published { sharded: true, ..published("news", "hi") });
        let message = Reply::Push(["smessage", "news", "hi"].map(Reply::bulk).to_vec());
        assert_eq!(sent, [(B, message)]);
        assert_eq!(all.publish(&published("news", "hi")).len(), 2);
        assert_eq!(all.channels(Kind::Sharded, None), blobs(&["news", "other"]));
        assert_eq!(all.channels(Kind::Channel, None), blobs(&["news"]));
        let replies = all.subscribe(B, Kind::Channel, &blobs(&["x"])).unwrap();
        assert_eq!(replies, [push(&["subscribe", "x"], 1)], "each family has its number");
        let replies = all.unsubscribe(B, Kind::Sharded, &[]);
        assert_eq!(
            replies,
            [push(&["sunsubscribe", "news"], 1), push(&["sunsubscribe", "other"], 0)]
        );
        assert_eq!(all.counts(B), Subscribed { channels: 1, patterns: 0, sharded: 0 });
        all.close(B);
        assert_eq!(all.subscribers(), 1);
    }

    #[test]
    fn commands_name_the_kind_of_a_subscription() {
        for (name, kind) in [
            ("subscribe", Kind::Channel),
            ("unsubscribe", Kind::Channel),
            ("psubscribe", Kind::Pattern),
            ("punsubscribe", Kind::Pattern),
            ("ssubscribe", Kind::Sharded),
            ("sunsubscribe", Kind::Sharded),
        ] {
            assert_eq!(Kind::of_command(name), kind, "{name}");
        }
    }

    #[test]
    fn a_closed_session_leaves_nothing_behind() {
        let mut all = PubSub::default();
        all.subscribe(A, Kind::Channel, &blobs(&["x", "y"])).unwrap();
        all.subscribe(A, Kind::Pattern, &blobs(&["*"])).unwrap();
        all.subscribe(B, Kind::Channel, &blobs(&["x"])).unwrap();
        all.close(A);
        all.close(A);
        assert_eq!(all.counts(A), Subscribed::default());
        assert_eq!(all.channels(Kind::Channel, None), blobs(&["x"]));
        assert!(all.patterns().is_empty());
        assert_eq!(all.listeners_of(Kind::Channel, b"x"), 1);
        assert_eq!(all.listeners_of(Kind::Channel, b"y"), 0);
    }

    #[test]
    fn subscriptions_are_bounded_and_a_refusal_changes_nothing() {
        let mut all = PubSub::default();
        let names: Vec<Blob> = (0..SUBSCRIPTIONS_MAX).map(|i| i.to_string().into()).collect();
        all.subscribe(A, Kind::Channel, &names).unwrap();
        let error = all.subscribe(A, Kind::Pattern, &blobs(&["more"])).unwrap_err();
        assert!(error.text().contains("10000"));
        assert!(all.patterns().is_empty());
        assert_eq!(all.counts(A).all(), SUBSCRIPTIONS_MAX);
        all.subscribe(A, Kind::Channel, &blobs(&["7"])).unwrap();
        all.subscribe(B, Kind::Pattern, &blobs(&["more"])).unwrap();
    }

    #[test]
    fn replies_about_several_gateways() {
        let merged = channels_reply([blobs(&["b", "a"]), blobs(&["a"])]);
        assert_eq!(merged, Reply::Array(vec![Reply::bulk("a"), Reply::bulk("b")]));
        assert_eq!(numpat_reply([blobs(&["p"]), blobs(&["p", "q"])]), Reply::Int(2));
        assert_eq!(
            numsub_reply(&blobs(&["a", "b"]), &[3, 0]),
            Reply::Array(vec![Reply::bulk("a"), Reply::Int(3), Reply::bulk("b"), Reply::Int(0)])
        );
        let mut all = PubSub::default();
        all.subscribe(A, Kind::Channel, &blobs(&["ab", "b"])).unwrap();
        assert_eq!(all.channels(Kind::Channel, Some(b"a*")), blobs(&["ab"]));
    }
}
