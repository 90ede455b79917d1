//! Keyspace events: which of them subscribers of this gateway want, and the messages that tell them.

use crate::gateway::api::{Published, SessionId};
use crate::message::KeyEvent;
use adt::Blob;
use adt::command::database::{database_of, shown};
use adt::record::events::Classes;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Name of the setting.
const SETTING: &str = "notify-keyspace-events";
/// Beginnings of the names of channels that tell keyspace events.
const CHANNELS: [&[u8]; 2] = [b"__keyspace@", b"__keyevent@"];

/// Whether a channel, or some channel that matches a pattern, may tell keyspace events.
pub(in crate::gateway) fn may_hear(is_pattern: bool, name: &[u8]) -> bool {
    let special = |byte: &u8| matches!(byte, b'*' | b'?' | b'[' | b'\\');
    let plain = name.iter().position(special).filter(|_| is_pattern);
    let begins = plain.map_or(name, |at| &name[..at]);
    CHANNELS.iter().any(|channel| {
        begins.starts_with(channel) || (plain.is_some() && channel.starts_with(begins))
    })
}

/// Wait of a session that is about to subscribe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wait {
    Begun,
    /// The shards were asked again since.
    Lasts,
    Over,
}

/// Keyspace events at a gateway.
#[derive(Default)]
pub(in crate::gateway) struct Keyspace {
    /// The setting.
    classes: Classes,
    /// Whether a session has subscribed to such a channel or pattern.
    is_heard: bool,
    /// Sessions that wait to subscribe until all shards are followed.
    waiting: BTreeMap<SessionId, Wait>,
    /// Events to be told.
    told: VecDeque<Arc<[KeyEvent]>>,
}

impl Keyspace {
    /// Follows the setting, if it is this one. Returns whether it is.
    pub fn configure(&mut self, name: &str, value: &str) -> bool {
        if name == SETTING {
            self.classes = Classes::parse(value).unwrap_or_default();
        }
        name == SETTING
    }

    /// Classes of events that shards are to tell.
    pub fn wanted(&self) -> Classes {
        if self.is_heard || !self.waiting.is_empty() { self.classes.told() } else { Classes::NONE }
    }

    /// Notes whether a session has subscribed to such a channel or pattern.
    pub fn heard(&mut self, is_heard: bool) {
        self.is_heard = is_heard;
    }

    /// Lets a session wait that is about to subscribe, unless there is nothing to wait for.
    pub fn wait(&mut self, id: SessionId) -> bool {
        match self.waiting.get(&id) {
            Some(Wait::Over) => {
                self.waiting.remove(&id);
                false
            }
            Some(_) => true,
            None if self.classes.told().is_empty() => false,
            None => {
                self.waiting.insert(id, Wait::Begun);
                true
            }
        }
    }

    /// Ends the waits, because all shards are followed; otherwise only those that have lasted. Returns the
    /// sessions that may go on.
    pub fn let_go(&mut self, are_live: bool) -> Vec<SessionId> {
        let mut ids = Vec::new();
        for (id, wait) in &mut self.waiting {
            match wait {
                Wait::Over => {}
                Wait::Begun if !are_live => *wait = Wait::Lasts,
                _ => {
                    *wait = Wait::Over;
                    ids.push(*id);
                }
            }
        }
        ids
    }

    /// Forgets a session that is gone.
    pub fn forget(&mut self, id: SessionId) {
        self.waiting.remove(&id);
    }

    /// Takes events of a shard.
    pub fn happened(&mut self, events: Arc<[KeyEvent]>) {
        if self.is_heard {
            self.told.push_back(events);
        }
    }

    /// Messages about the next events, in their order.
    pub fn next_messages(&mut self) -> Option<Vec<Published>> {
        let events = self.told.pop_front()?;
        let wanted = events.iter().filter(|told| self.classes.has(told.event.class));
        Some(wanted.flat_map(|told| self.messages(told)).collect())
    }

    /// Messages about an event: to the channel of the key first, as in Redis.
    fn messages(&self, told: &KeyEvent) -> impl Iterator<Item = Published> + use<> {
        let database = database_of(&told.key).unwrap_or_default();
        let (key, name) = (shown(&told.key), Blob::from(&*told.event.name));
        let message = |kind: &str, channel: &Blob, payload: &Blob| Published {
            sharded: false,
            channel: Blob::from([format!("__{kind}@{database}__:").as_bytes(), channel].concat()),
            payload: payload.clone(),
        };
        let of_key = self.classes.has(Classes::KEYSPACE).then(|| message("keyspace", &key, &name));
        let of_event =
            self.classes.has(Classes::KEYEVENT).then(|| message("keyevent", &name, &key));
        of_key.into_iter().chain(of_event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::record::events::Event;
    use std::borrow::Cow;

    #[test]
    fn channels_and_patterns_may_hear_keyspace_events() {
        for (is_pattern, name, may) in [
            (false, "__keyspace@0__:x", true),
            (false, "__keyevent@3__:set", true),
            (false, "news", false),
            (false, "__key*", false),
            (true, "__key*", true),
            (true, "*", true),
            (true, "?_keyspace@0__:x", true),
            (true, "__keyevent@*:expired", true),
            (true, "__keyevent@0__:expired", true),
            (true, "news.*", false),
            (true, "__keys", false),
        ] {
            assert_eq!(may_hear(is_pattern, name.as_bytes()), may, "{name}");
        }
    }

    fn told(events: &[(&'static str, Classes, &'static str)]) -> Arc<[KeyEvent]> {
        let told = |(key, class, name): &(&'static str, Classes, &'static str)| KeyEvent {
            key: Blob::from(*key),
            event: Event { class: *class, name: Cow::Borrowed(*name) },
        };
        events.iter().map(told).collect()
    }

    #[test]
    fn nothing_is_wanted_without_the_setting_or_without_a_subscriber() {
        let mut keyspace = Keyspace::default();
        keyspace.heard(true);
        assert!(keyspace.wanted().is_empty() && !keyspace.wait(SessionId(1)));
        assert!(keyspace.configure(SETTING, "A") && keyspace.wanted().is_empty(), "no channel");
        keyspace.configure(SETTING, "Ex");
        assert_eq!(keyspace.wanted(), Classes::EXPIRED);
        keyspace.heard(false);
        assert!(keyspace.wanted().is_empty());
        assert!(keyspace.wait(SessionId(1)) && keyspace.wait(SessionId(1)));
        assert_eq!(
            keyspace.wanted(),
            Classes::EXPIRED,
            "for the session that is about to subscribe"
        );
        assert_eq!(keyspace.let_go(true), [SessionId(1)]);
        assert!(keyspace.let_go(true).is_empty() && !keyspace.wait(SessionId(1)), "once");
        assert!(keyspace.wanted().is_empty());
    }

    #[test]
    fn the_channel_of_the_key_comes_first() {
        let mut keyspace = Keyspace::default();
        keyspace.configure(SETTING, "KEg$");
        keyspace.heard(true);
        keyspace.happened(told(&[("k", Classes::STRING, "set"), ("k", Classes::LIST, "lpush")]));
        let messages = keyspace.next_messages().expect("two messages");
        let texts: Vec<_> = messages.iter().map(|m| (&m.channel[..], &m.payload[..])).collect();
        assert_eq!(
            texts,
            [(&b"__keyspace@0__:k"[..], &b"set"[..]), (&b"__keyevent@0__:set"[..], &b"k"[..])]
        );
        assert!(keyspace.next_messages().is_none());
    }
}
