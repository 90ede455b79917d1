//! Inquiries: questions to shards and gateways, before they are asked.

use super::info;
use super::scan::Page;
use crate::gateway::api::Question;
use crate::gateway::core::Core;
use crate::gateway::operators::latency::WantedSeconds;
use crate::gateway::operators::questions::LocalQuestion;
use crate::ids::ShardId;
use crate::limits::SCAN_SHARDS_AT_ONCE;
use crate::message::Body;
use adt::{Blob, Reply};

/// Question, its addressees, and the way in which the answers make a reply.
pub(in crate::gateway) struct Inquiry {
    pub combine: Combine,
    /// Shards, and the request to each.
    pub shards: Vec<(ShardId, Body)>,
    /// Question to all gateways of the server, this one included.
    pub question: Option<Question>,
}

impl Inquiry {
    /// Question to one shard.
    pub fn of_shard(combine: Combine, shard: ShardId, body: Body) -> Self {
        Self { combine, shards: vec![(shard, body)], question: None }
    }

    /// Questions to several shards.
    pub fn of_shards(combine: Combine, shards: Vec<(ShardId, Body)>) -> Self {
        Self { combine, shards, question: None }
    }

    /// Question to all shards.
    pub fn of_all_shards(core: &Core, combine: Combine, body: impl Fn() -> Body) -> Self {
        let shards = (0..core.mail.routes.shards()).map(|shard| (ShardId(shard), body()));
        Self { combine, shards: shards.collect(), question: None }
    }

    /// Question about a page of `SCAN`. Several shards are asked at once, because none of them may have
    /// a key.
    pub fn of_page(page: Page, shards: u16) -> Self {
        let database = page.database;
        let body = |scan| Body::Scan { database, scan, type_name: page.type_name.clone() };
        let asks = page.asks(shards, SCAN_SHARDS_AT_ONCE).map(|(shard, scan)| (shard, body(scan)));
        let asks = asks.collect();
        Self::of_shards(Combine::Scan(Box::new(page)), asks)
    }

    /// Question to all gateways.
    pub fn of_gateways(combine: Combine, question: Question) -> Self {
        Self { combine, shards: Vec::new(), question: Some(question) }
    }

    /// Question to all gateways about what is known on this machine only.
    pub fn of_machine(combine: Combine, question: LocalQuestion) -> Self {
        Self::of_gateways(combine, Question::Local(question))
    }

    /// Asks all gateways too.
    pub fn and_gateways(self, question: Question) -> Self {
        Self { question: Some(question), ..self }
    }
}

/// Way in which answers make a reply.
pub(in crate::gateway) enum Combine {
    /// `DBSIZE`, `PUBLISH`: the sum of the numbers.
    Sum,
    /// `KEYS`: all arrays in one.
    Concat,
    /// `CLUSTER COUNTKEYSINSLOT`: the number of items.
    Length,
    /// `RANDOMKEY`: any answer that is not nil.
    Any,
    /// `FLUSHALL`: `OK`.
    Ok,
    /// `ACL SETUSER`, `ACL DELUSER`: this reply, once all gateways know.
    Known(Reply),
    /// `FAILOVER`: the answer of the only shard that was asked.
    One,
    /// `SHARDMAP SET`: whether the map is written.
    Written,
    /// `SCAN`: a page.
    Scan(Box<Page>),
    /// `INFO`.
    Info(info::Wanted),
    /// `CLIENT LIST`.
    Clients,
    /// `TXN HOLDERS`.
    Holders,
    /// `TXN RESOLVE`: 1 if the request took effect at one of the shards.
    Resolved,
    /// `CLIENT KILL` in its old form.
    KilledOne,
    /// `CLIENT UNBLOCK`: 1 if the client was waiting.
    Unblocked,
    /// `PUBSUB CHANNELS`.
    Channels,
    /// `PUBSUB NUMSUB` of these channels.
    Subscribers(Vec<Blob>),
    /// `PUBSUB NUMPAT`.
    Patterns,
    /// `SLOWLOG GET`: the newest commands, so many at most.
    SlowCommands(usize),
    /// `SLOWLOG LEN`.
    SlowCount,
    /// `LATENCY LATEST`, `LATENCY HISTORY`.
    Events(WantedSeconds),
    /// `LATENCY HISTOGRAM` of these commands.
    Durations(Vec<Blob>),
    /// `ACL LOG`: the newest entries, so many at most.
    Denials(usize),
    /// `LATENCY RESET`: how many names the gateways know between them.
    DistinctNames,
}
