//! What concerns all shards or all gateways: everybody is asked, and the answers make one reply.

use super::info;
use super::keyspace::Page;
use super::shardmap::written;
use crate::gateway::api::{Knowledge, Output, PeerMessage, Question};
use crate::gateway::clients::{client_list, pubsub};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::routing::response::unexpected;
use crate::gateway::routing::ways::indefinite;
use crate::gateway::txn::open::holders_reply;
use crate::gateway::{Gateway, GatewayStats, Job};
use crate::message::{Answer, Body, GatewayId, Now, ShardId};
use crate::stats::ShardStats;
use adt::{Blob, ErrorReply, Reply};

/// A question that is being answered.
pub(in crate::gateway) struct Gather {
    target: Target,
    what: What,
    left: usize,
    replies: Vec<Reply>,
    stats: Vec<ShardStats>,
    knowledge: Vec<Knowledge>,
}

/// What is being asked, as far as it matters for the reply.
pub(in crate::gateway) enum What {
    /// `DBSIZE`, `CLUSTER COUNTKEYSINSLOT`, `PUBLISH`: the sum of the numbers.
    Sum,
    /// `KEYS`: all arrays in one.
    Concat,
    /// `CLUSTER COUNTKEYSINSLOT`: how many items there are.
    Length,
    /// `RANDOMKEY`: any that is not nil.
    Any,
    /// `FLUSHALL`: `OK`.
    Ok,
    /// `FAILOVER`: what the one shard says.
    One,
    /// `SHARDMAP SET`: whether it is written.
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
    /// `CLIENT UNBLOCK`: 1 if anybody was waiting.
    Unblocked,
    /// `PUBSUB CHANNELS`.
    Channels,
    /// `PUBSUB NUMSUB` of these channels.
    Subscribers(Vec<Blob>),
    /// `PUBSUB NUMPAT`.
    Patterns,
}

impl Gateway {
    /// Asks every shard, every gateway, or both.
    pub(in crate::gateway) fn gather(
        &mut self,
        target: Target,
        what: What,
        to_shards: impl Fn(ShardId) -> Option<Body>,
        question: Option<Question>,
    ) {
        let gather = Gather {
            target,
            what,
            left: 1,
            replies: Vec::new(),
            stats: Vec::new(),
            knowledge: Vec::new(),
        };
        let job = self.jobs.insert(Job::Gather(Box::new(gather)));
        let mut asked = 0;
        for shard in (0..self.core.mail.routes.shards()).map(ShardId) {
            if let Some(body) = to_shards(shard) {
                self.core.mail.ask(shard, Pending::Gather { job }, body);
                asked += 1;
            }
        }
        let mut own = None;
        if let Some(question) = question {
            let others = self.core.other_gateways();
            for to in others {
                let message = PeerMessage::Ask { ask: job, question: question.clone() };
                self.core.mail.outputs.push_back(Output::Peer { to, message });
                asked += 1;
            }
            own = Some(self.know(&question));
        }
        if let Some(Job::Gather(gather)) = self.jobs.get_mut(job) {
            gather.left = asked;
            gather.knowledge.extend(own);
            if asked == 0 {
                self.finish_gather(job);
            }
        }
    }

    /// Asks one shard.
    pub(in crate::gateway) fn ask_one(
        &mut self,
        target: Target,
        what: What,
        shard: ShardId,
        body: Body,
    ) {
        let gather = Gather {
            target,
            what,
            left: 1,
            replies: Vec::new(),
            stats: Vec::new(),
            knowledge: Vec::new(),
        };
        let job = self.jobs.insert(Job::Gather(Box::new(gather)));
        self.core.mail.ask(shard, Pending::Gather { job }, body);
    }

    /// A shard has answered.
    pub(in crate::gateway) fn gathered(&mut self, job: u64, answer: Answer) {
        let Some(Job::Gather(gather)) = self.jobs.get_mut(job) else { return };
        match answer {
            Answer::Reply(reply) => gather.replies.push(reply),
            Answer::Stats(stats) => gather.stats.push(*stats),
            Answer::Unknown if !matches!(gather.what, What::Written | What::One) => {
                gather.replies.push(indefinite().into());
            }
            answer if matches!(gather.what, What::Written) => {
                gather.replies.push(written(&answer));
            }
            // Only one shard was asked: it has no leader.
            Answer::Unknown => {}
            answer => gather.replies.push(unexpected(&answer)),
        }
        gather.left -= 1;
        if gather.left == 0 {
            self.finish_gather(job);
        }
    }

    /// A shard does not answer, for this reason. What is asked for `INFO` goes without it.
    pub(in crate::gateway) fn gathered_without(&mut self, job: u64, error: Reply) {
        let Some(Job::Gather(gather)) = self.jobs.get_mut(job) else { return };
        if !matches!(gather.what, What::Info(_)) {
            gather.replies.push(error);
        }
        gather.left -= 1;
        if gather.left == 0 {
            self.finish_gather(job);
        }
    }

    /// Another gateway of the server says something.
    pub fn peer(&mut self, now: Now, from: GatewayId, message: PeerMessage) {
        self.core.now = now;
        match message {
            PeerMessage::Ask { ask, question } => {
                let knowledge = self.know(&question);
                let message = PeerMessage::Tell { ask, knowledge };
                self.core.mail.outputs.push_back(Output::Peer { to: from, message });
            }
            PeerMessage::Tell { ask, knowledge } => {
                if let Some(Job::Gather(gather)) = self.jobs.get_mut(ask) {
                    gather.knowledge.push(knowledge);
                    gather.left -= 1;
                    if gather.left == 0 {
                        self.finish_gather(ask);
                    }
                }
            }
        }
        self.settle();
    }

    fn finish_gather(&mut self, job: u64) {
        let Some(Job::Gather(gather)) = self.jobs.remove(job) else { return };
        let Gather { target, what, replies, stats, knowledge, .. } = *gather;
        let count = || {
            let known = knowledge.iter().map(|k| if let Knowledge::Count(n) = k { *n } else { 0 });
            let told = replies.iter().map(|r| if let Reply::Int(n) = r { *n } else { 0 });
            known.chain(told).sum::<i64>()
        };
        let names = |knowledge: Vec<Knowledge>| {
            knowledge.into_iter().filter_map(|k| match k {
                Knowledge::Names(names) => Some(names),
                _ => None,
            })
        };
        let error = replies.iter().find(|reply| reply.is_error()).cloned();
        let reply = match what {
            _ if error.is_some() => error.unwrap_or(Reply::Nil),
            What::Sum => Reply::Int(count()),
            What::Ok => Reply::Ok,
            What::One | What::Written => replies.into_iter().next().unwrap_or_else(no_answer),
            What::Unblocked => Reply::Int(count().min(1)),
            What::KilledOne if count() > 0 => Reply::Ok,
            What::KilledOne => client_list::no_such_client().into(),
            What::Concat => Reply::Array(items(replies).collect()),
            What::Length => Reply::Int(items(replies).count() as i64),
            What::Any => {
                let found: Vec<Reply> = replies.into_iter().filter(|r| *r != Reply::Nil).collect();
                let at = (self.core.random() % found.len().max(1) as u64) as usize;
                found.into_iter().nth(at).unwrap_or(Reply::Nil)
            }
            What::Scan(page) => return self.scanned(target, *page, replies),
            What::Info(wanted) => self.info_reply(&wanted, &stats, knowledge),
            What::Clients => Reply::Text(client_list::text(lines(knowledge))),
            What::Holders => {
                let told = replies.into_iter().next().unwrap_or_else(no_answer);
                holders_reply(told, &lines(knowledge))
            }
            What::Channels => pubsub::channels_reply(names(knowledge)),
            What::Patterns => pubsub::numpat_reply(names(knowledge)),
            What::Subscribers(channels) => {
                let mut sums = vec![0; channels.len()];
                for told in &knowledge {
                    if let Knowledge::Counts(counts) = told {
                        sums.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
                    }
                }
                pubsub::numsub_reply(&channels, &sums)
            }
        };
        self.finish(target, reply);
    }

    fn info_reply(
        &self,
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
            version: self.core.config.version,
            facts: &self.core.facts,
            gateway: &total,
            gateways: self.core.config.gateways,
            clustered: !self.core.topology.is_alone(),
            shards,
        };
        info::reply(&sources, wanted)
    }
}

fn lines(knowledge: Vec<Knowledge>) -> Vec<(u64, String)> {
    let lines = knowledge.into_iter().filter_map(|known| match known {
        Knowledge::Lines(lines) => Some(lines),
        _ => None,
    });
    lines.flatten().collect()
}

/// The shard's leader was lost before it answered.
fn no_answer() -> Reply {
    ErrorReply::err("the shard has lost its leader: look with CLUSTER NODES, and try again").into()
}

fn items(replies: Vec<Reply>) -> impl Iterator<Item = Reply> {
    replies.into_iter().flat_map(|reply| match reply {
        Reply::Array(items) => items,
        _ => Vec::new(),
    })
}
