//! Clients with caches, and the check that they hold nothing that is old.

use crate::clients::cacher::Cacher;
use crate::world::World;
use adt::{ArgBuf, Ctx, Reply, record};

/// First number of these clients' connections, after those of others.
pub(in crate::world) const CACHERS: u64 = 1 << 33;
/// Time after which nothing that was cached is old: the longest silence of a shard, and the way.
const FRESH_US: u64 = 5_000_000;

impl World {
    /// Client with a cache that a connection belongs to, if any.
    pub(in crate::world) fn cacher(&mut self, client: u64) -> Option<&mut Cacher> {
        self.cachers.get_mut(client.checked_sub(CACHERS)? as usize)
    }

    /// Performs the next actions of a client with a cache. It goes on until the end.
    pub(in crate::world) fn cacher_goes_on(&mut self, client: u64) {
        if !self.connections.contains_key(&client) {
            if !self.any_is_up() {
                let time = self.now_us + 5_000;
                return self.at(time, super::Event::Wake { client });
            }
            self.connect(client);
            let actions = self.cacher(client).map(Cacher::connected).unwrap_or_default();
            return self.grant(client, actions);
        }
        let actions = self.cacher(client).map(Cacher::go_on).unwrap_or_default();
        self.grant(client, actions);
    }

    pub(in crate::world) fn tell_cacher(&mut self, client: u64, reply: Reply) {
        let actions = self.cacher(client).map(|cacher| cacher.reply(reply)).unwrap_or_default();
        self.grant(client, actions);
    }

    /// Checks that what the clients have cached is what the records hold, after some time in which nothing
    /// was written.
    pub(in crate::world) fn check_caches(&mut self) -> Result<(), String> {
        if self.cachers.is_empty() {
            return Ok(());
        }
        self.go_on_for(FRESH_US)?;
        for (number, cacher) in (0..).zip(&self.cachers) {
            if !self.connections.contains_key(&(CACHERS + number)) {
                continue;
            }
            for (key, kept) in cacher.kept() {
                let held = self.read_account(key);
                if held != *kept {
                    return Err(format!(
                        "client {number} with a cache has kept {kept:?} for {key}, which is {held:?}"
                    ));
                }
                *self.outcome.marks.entry("cached_values_checked").or_default() += 1;
            }
        }
        Ok(())
    }

    fn read_account(&self, key: &str) -> Reply {
        let Ok((key, op)) = record::decode(&ArgBuf::of(["get", key]).args()) else {
            return Reply::Nil;
        };
        record::query(self.found(&key), &op, &Ctx::default())
    }

    /// Adds the rare events of clients with caches to the outcome.
    pub(in crate::world) fn note_cachers(&mut self) {
        for cacher in &self.cachers {
            for (mark, count) in &cacher.marks {
                *self.outcome.marks.entry(mark).or_default() += count;
            }
        }
    }
}
