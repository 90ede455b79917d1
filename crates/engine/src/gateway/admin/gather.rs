//! Questions to several shards or gateways, whose answers make one reply.

use super::info;
use super::keyspace::Page;
use super::shardmap::written;
use crate::gateway::api::{GatewayStats, Knowledge, Output, PeerMessage, Question};
use crate::gateway::clients::{client_list, pubsub};
use crate::gateway::core::Core;
use crate::gateway::errors::{indefinite, unexpected};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::slab::Slab;
use crate::gateway::txn::open::holders_reply;
use crate::ids::ShardId;
use crate::message::{Answer, Body};
use crate::stats::ShardStats;
use adt::{Blob, ErrorReply, Reply};

/// A question, to whom it goes, and how the answers make a reply.
pub(in crate::gateway) struct Inquiry {
    combine: Combine,
    /// Shards, and the request to each.
    shards: Vec<(ShardId, Body)>,
    /// Question to all gateways of the server, this one included.
    question: Option<Question>,
}

impl Inquiry {
    /// A question to one shard.
    pub fn of_shard(combine: Combine, shard: ShardId, body: Body) -> Self {
        Self { combine, shards: vec![(shard, body)], question: None }
    }

    /// A question to several shards.
    pub fn of_shards(combine: Combine, shards: Vec<(ShardId, Body)>) -> Self {
        Self { combine, shards, question: None }
    }

    /// One question to all shards.
    pub fn of_all_shards(core: &Core, combine: Combine, body: impl Fn() -> Body) -> Self {
        let shards = (0..core.mail.routes.shards()).map(|shard| (ShardId(shard), body()));
        Self { combine, shards: shards.collect(), question: None }
    }

    /// A question to all gateways.
    pub fn of_gateways(combine: Combine, question: Question) -> Self {
        Self { combine, shards: Vec::new(), question: Some(question) }
    }

    /// Asks all gateways as well.
    pub fn and_gateways(self, question: Question) -> Self {
        Self { question: Some(question), ..self }
    }
}

/// How answers make a reply.
pub(in crate::gateway) enum Combine {
    /// `DBSIZE`, `PUBLISH`: the sum of the numbers.
    Sum,
    /// `KEYS`: all arrays in one.
    Concat,
    /// `CLUSTER COUNTKEYSINSLOT`: the number of items.
    Length,
    /// `RANDOMKEY`: any that is not nil.
    Any,
    /// `FLUSHALL`: `OK`.
    Ok,
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
}

/// A question that is being answered.
struct Gather {
    target: Target,
    combine: Combine,
    /// Number of answers that are missing.
    left: usize,
    replies: Vec<Reply>,
    stats: Vec<ShardStats>,
    knowledge: Vec<Knowledge>,
}

/// Questions of this gateway's clients that are being answered.
#[derive(Default)]
pub(in crate::gateway) struct Gathers {
    open: Slab<Gather>,
}

impl Gathers {
    /// Asks the shards and the other gateways. Returns the question to gateways, if there is one: this
    /// gateway's own answer is [`Gathers::told`] under the number with it.
    #[must_use]
    pub fn begin(
        &mut self,
        core: &mut Core,
        target: Target,
        inquiry: Inquiry,
    ) -> Option<(u64, Question)> {
        let Inquiry { combine, shards, question } = inquiry;
        let (replies, stats, knowledge) = Default::default();
        let left = shards.len();
        let gather = Gather { target, combine, left, replies, stats, knowledge };
        let job = self.open.insert(gather);
        for (shard, body) in shards {
            core.mail.ask(shard, Pending::Gather { job }, body);
        }
        let mut asked = left;
        if let Some(question) = &question {
            for to in core.other_gateways() {
                let message = PeerMessage::Ask { ask: job, question: question.clone() };
                core.mail.outputs.push_back(Output::Peer { to, message });
                asked += 1;
            }
            asked += 1;
        }
        if let Some(gather) = self.open.get_mut(job) {
            gather.left = asked;
        }
        if asked == 0 {
            self.complete(core, job);
        }
        question.map(|question| (job, question))
    }

    /// Takes the answer of a shard.
    pub fn answered(&mut self, core: &mut Core, job: u64, answer: Answer) {
        let Some(gather) = self.open.get_mut(job) else { return };
        match answer {
            Answer::Reply(reply) => gather.replies.push(reply),
            Answer::Stats(stats) => gather.stats.push(*stats),
            Answer::Unknown if !matches!(gather.combine, Combine::Written | Combine::One) => {
                gather.replies.push(indefinite().into());
            }
            answer if matches!(gather.combine, Combine::Written) => {
                gather.replies.push(written(&answer));
            }
            // Only one shard was asked: it has no leader.
            Answer::Unknown => {}
            answer => gather.replies.push(unexpected(&answer)),
        }
        self.one_less(core, job);
    }

    /// Goes on without the answer of a shard, for the given reason. `INFO` leaves the shard out.
    pub fn unanswered(&mut self, core: &mut Core, job: u64, error: Reply) {
        let Some(gather) = self.open.get_mut(job) else { return };
        if !matches!(gather.combine, Combine::Info(_)) {
            gather.replies.push(error);
        }
        self.one_less(core, job);
    }

    /// Takes the answer of a gateway.
    pub fn told(&mut self, core: &mut Core, job: u64, knowledge: Knowledge) {
        let Some(gather) = self.open.get_mut(job) else { return };
        gather.knowledge.push(knowledge);
        self.one_less(core, job);
    }

    fn one_less(&mut self, core: &mut Core, job: u64) {
        let Some(gather) = self.open.get_mut(job) else { return };
        gather.left -= 1;
        if gather.left == 0 {
            self.complete(core, job);
        }
    }

    /// Replies, or asks the next shards of a page.
    fn complete(&mut self, core: &mut Core, job: u64) {
        let Some(gather) = self.open.remove(job) else { return };
        let Gather { target, combine, replies, stats, knowledge, .. } = gather;
        let count = || {
            let known = knowledge.iter().map(|k| if let Knowledge::Count(n) = k { *n } else { 0 });
            let told = replies.iter().map(|r| if let Reply::Int(n) = r { *n } else { 0 });
            known.chain(told).sum::<i64>()
        };
        let error = replies.iter().find(|reply| reply.is_error()).cloned();
        let reply = match combine {
            _ if error.is_some() => error.unwrap_or(Reply::Nil),
            Combine::Sum => Reply::Int(count()),
            Combine::Ok => Reply::Ok,
            Combine::One | Combine::Written => replies.into_iter().next().unwrap_or_else(no_answer),
            Combine::Unblocked => Reply::Int(count().min(1)),
            Combine::KilledOne if count() > 0 => Reply::Ok,
            Combine::KilledOne => client_list::no_such_client().into(),
            Combine::Concat => Reply::Array(items(replies).collect()),
            Combine::Length => Reply::Int(items(replies).count() as i64),
            Combine::Any => {
                let found: Vec<Reply> = replies.into_iter().filter(|r| *r != Reply::Nil).collect();
                let at = (core.random() % found.len().max(1) as u64) as usize;
                found.into_iter().nth(at).unwrap_or(Reply::Nil)
            }
            Combine::Scan(page) => match page.answered(core.mail.routes.shards(), replies) {
                Ok(reply) => reply,
                Err(inquiry) => {
                    // A page asks shards only.
                    let _ = self.begin(core, target, *inquiry);
                    return;
                }
            },
            Combine::Info(wanted) => info_reply(core, &wanted, &stats, knowledge),
            Combine::Clients => Reply::Text(client_list::text(lines(knowledge))),
            Combine::Holders => {
                let told = replies.into_iter().next().unwrap_or_else(no_answer);
                holders_reply(told, &lines(knowledge))
            }
            Combine::Channels => pubsub::channels_reply(names(knowledge)),
            Combine::Patterns => pubsub::numpat_reply(names(knowledge)),
            Combine::Subscribers(channels) => {
                let mut sums = vec![0; channels.len()];
                for told in &knowledge {
                    if let Knowledge::Counts(counts) = told {
                        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
                    }
                }
                pubsub::numsub_reply(&channels, &sums)
            }
        };
        core.finish(target, reply);
    }
}

fn info_reply(
    core: &Core,
    wanted: &info::Wanted,
    shards: &[ShardStats],
    knowledge: Vec<Knowledge>,
) -> Reply {
    let mut total = GatewayStats::default();
    for known in knowledge {
        if let Knowledge::Stats(stats) = known {
            total.add(&stats);
        }
    }
    let sources = info::Sources {
        version: core.config.version,
        facts: &core.facts,
        gateway: &total,
        gateways: core.config.gateways,
        clustered: !core.topology.is_alone(),
        shards,
    };
    info::reply(&sources, wanted)
}

fn names(knowledge: Vec<Knowledge>) -> impl Iterator<Item = Vec<Blob>> {
    knowledge.into_iter().filter_map(|known| match known {
        Knowledge::Names(names) => Some(names),
        _ => None,
    })
}

fn lines(knowledge: Vec<Knowledge>) -> Vec<(u64, String)> {
    let lines = knowledge.into_iter().filter_map(|known| match known {
        Knowledge::Lines(lines) => Some(lines),
        _ => None,
    });
    lines.flatten().collect()
}

/// The error for a shard whose leader was lost before it answered.
fn no_answer() -> Reply {
    ErrorReply::err("the shard has lost its leader: look with CLUSTER NODES, and try again").into()
}

fn items(replies: Vec<Reply>) -> impl Iterator<Item = Reply> {
    replies.into_iter().flat_map(|reply| match reply {
        Reply::Array(items) => items,
        _ => Vec::new(),
    })
}
