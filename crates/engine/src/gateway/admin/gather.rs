//! Questions to several shards or gateways, whose answers make one reply.

use super::info;
use super::inquiry::{Combine, Inquiry};
use crate::gateway::acl::denials::{self, Denial};
use crate::gateway::api::{GatewayStats, Knowledge, Output, PeerMessage, Question};
use crate::gateway::clients::connection::client_list;
use crate::gateway::clients::pubsub;
use crate::gateway::core::Core;
use crate::gateway::errors::{indefinite, unexpected};
use crate::gateway::mail::{Pending, Target};
use crate::gateway::operators::latency::{CommandDurations, SlowSeconds};
use crate::gateway::operators::questions::LocalKnowledge;
use crate::gateway::operators::slowlog::{self, SlowCommand};
use crate::gateway::slab::Slab;
use crate::message::Answer;
use crate::stats::ShardStats;
use adt::{Blob, ErrorReply, Reply};
use std::collections::BTreeSet;

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
            Combine::Resolved if count() > 0 => Reply::Int(1),
            _ if error.is_some() => error.unwrap_or(Reply::Nil),
            Combine::Resolved => Reply::Int(0),
            Combine::Sum => Reply::Int(count()),
            Combine::Ok => Reply::Ok,
            Combine::Known(reply) => reply,
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
                Err(page) => {
                    // A page asks shards only.
                    let inquiry = Inquiry::of_page(*page, core.mail.routes.shards());
                    let _ = self.begin(core, target, inquiry);
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
            Combine::SlowCommands(most) => {
                let most = most.min(core.slow.log.most());
                slowlog::reply(slow_commands(knowledge), most)
            }
            Combine::SlowCount => Reply::Int(count().min(core.slow.log.most() as i64)),
            Combine::Events(wanted) => wanted.reply(events(knowledge)),
            Combine::Durations(commands) => durations(knowledge).reply(&commands),
            Combine::Denials(most) => {
                let most = most.min(core.denials.most());
                denials::reply(core.now, denied(knowledge), most)
            }
            Combine::DistinctNames => {
                let names: BTreeSet<Blob> = names(knowledge).flatten().collect();
                Reply::Int(names.len() as i64)
            }
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

fn local(knowledge: Vec<Knowledge>) -> impl Iterator<Item = LocalKnowledge> {
    knowledge.into_iter().filter_map(|known| match known {
        Knowledge::Local(known) => Some(*known),
        _ => None,
    })
}

fn slow_commands(knowledge: Vec<Knowledge>) -> Vec<SlowCommand> {
    let commands = local(knowledge).filter_map(|known| match known {
        LocalKnowledge::SlowCommands(commands) => Some(commands),
        _ => None,
    });
    commands.flatten().collect()
}

fn events(knowledge: Vec<Knowledge>) -> Vec<Vec<SlowSeconds>> {
    let events = local(knowledge).filter_map(|known| match known {
        LocalKnowledge::Events(events) => Some(events),
        _ => None,
    });
    events.collect()
}

fn denied(knowledge: Vec<Knowledge>) -> Vec<Denial> {
    let denials = local(knowledge).filter_map(|known| match known {
        LocalKnowledge::Denials(denials) => Some(denials),
        _ => None,
    });
    denials.flatten().collect()
}

fn durations(knowledge: Vec<Knowledge>) -> CommandDurations {
    local(knowledge).fold(CommandDurations::default(), |mut sum, known| {
        if let LocalKnowledge::Durations(durations) = known {
            sum.add(&durations);
        }
        sum
    })
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

/// Reply of `TXN HOLDERS`, from the answer of the shard and the lines of all gateways.
fn holders_reply(told: Reply, lines: &[(u64, String)]) -> Reply {
    let Reply::Array(mut parts) = told else { return told };
    let Some(Reply::Array(names)) = parts.pop() else { return Reply::Array(parts) };
    let mut holders = Vec::with_capacity(names.len());
    for name in &names {
        let Reply::Bulk(name) = name else { continue };
        let begin = format!("txn={} ", name.escape_ascii());
        let known = lines.iter().filter(|(_, line)| line.starts_with(&begin));
        let before = holders.len();
        holders.extend(known.map(|(_, line)| Reply::bulk(line)));
        if holders.len() == before {
            holders.push(Reply::bulk(format!("{begin}elsewhere=yes")));
        }
    }
    parts.push(Reply::Array(holders));
    Reply::Array(parts)
}

/// Reply for the answer to a request that writes a shard map.
fn written(answer: &Answer) -> Reply {
    match answer {
        Answer::Replies(_) => Reply::Ok,
        Answer::Repeated(_) | Answer::Voided | Answer::Forgotten => {
            let text = "the shard map was changed in the meantime: look at it, and try again";
            ErrorReply::new("CHANGED", text).into()
        }
        _ => indefinite().into(),
    }
}
