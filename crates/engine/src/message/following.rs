//! Content of the messages by which gateways follow the changes of shards.

use adt::Blob;
use adt::record::events::{Classes, Event};

/// Changes and events that a gateway which follows a shard is to be told of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Following {
    /// Which keys change, for the caches of its clients.
    pub keys: bool,
    /// Keyspace events of these classes, for its subscribers.
    pub events: Classes,
}

impl Following {
    /// Whether there is nothing to be told of.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// A keyspace event of a committed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEvent {
    /// The stored key.
    pub key: Blob,
    /// The event.
    pub event: Event,
}
