//! `BACKUP`: a cut through all shards, for which all of them stand still for a moment, and the
//! pieces of the states that they keep of it. See [`crate::shard::transfer::cut`].

use super::inquiry::{Combine, Inquiry};
use crate::cluster::map::Range;
use crate::cluster::rules::rules_text;
use crate::cluster::slot::ranges;
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::command_docs::unknown_subcommand;
use crate::gateway::core::Core;
use crate::gateway::mail::{Pending, Target};
use crate::gateway::slab::Slab;
use crate::gateway::timer::Timer;
use crate::ids::ShardId;
use crate::limits::{CUT_WAIT_US_MAX, SLOTS};
use crate::message::{Answer, Body, CutStep};
use adt::{Args, ErrorReply, Reply};
use std::collections::BTreeMap;

/// A cut that is being made.
struct Backup {
    target: Target,
    number: u64,
    /// Shards that have not answered the present step, with the tokens of their answers.
    left: BTreeMap<ShardId, u64>,
    released: bool,
    /// Number of keys of every shard that stands still, and its slots if they ever changed.
    told: BTreeMap<ShardId, (i64, Option<Range>)>,
    began_us: u64,
}

fn refused(why: &str) -> Reply {
    ErrorReply::new("TRYAGAIN", format!("there is no backup this time: {why}")).into()
}

/// Cuts that are being made for clients of this gateway.
#[derive(Default)]
pub(in crate::gateway) struct Backups {
    cuts: Slab<Backup>,
}

/// `BACKUP READ` and `BACKUP END` ask shards; `BACKUP BEGIN` begins a cut.
pub(in crate::gateway) fn command(core: &Core, args: &Args<'_>) -> CommandEffect {
    let number = |at: usize| args.int(at).ok().and_then(|number| u64::try_from(number).ok());
    if args.len() == 2 && args.is(1, "BEGIN") {
        return CommandEffect::Cut;
    }
    if args.len() == 5 && args.is(1, "READ") {
        let shard = number(3).filter(|shard| *shard < u64::from(core.mail.routes.shards()));
        let (Some(cut), Some(shard), Some(piece)) = (number(2), shard, number(4)) else {
            let text = "the cut, the shard and the piece are numbers, as BACKUP BEGIN told them";
            return ErrorReply::err(text).into();
        };
        let body = Body::Cut { cut, step: CutStep::Piece(piece) };
        let inquiry = Inquiry::of_shard(Combine::One, ShardId(shard as u16), body);
        return CommandEffect::Ask(Box::new(inquiry));
    }
    if args.len() == 3 && args.is(1, "END") {
        let Some(cut) = number(2) else {
            return ErrorReply::err("the cut is a number, as BACKUP BEGIN told it").into();
        };
        let body = || Body::Cut { cut, step: CutStep::End };
        return CommandEffect::Ask(Box::new(Inquiry::of_all_shards(core, Combine::Ok, body)));
    }
    unknown_subcommand(args).into()
}

impl Backups {
    /// Begins a cut. Its number, or the reason why there is none, is the reply for `target`.
    pub fn begin(&mut self, core: &mut Core, target: Target) {
        // A number that clients can say again.
        let number = core.random() & adt::NUMBER_MAX;
        let (left, told) = Default::default();
        let began_us = core.now.mono_us;
        let job =
            self.cuts.insert(Backup { target, number, left, released: false, told, began_us });
        core.set_timer(CUT_WAIT_US_MAX, Timer::Cut { job });
        self.ask(core, job, CutStep::Freeze);
    }

    fn ask(&mut self, core: &mut Core, job: u64, step: CutStep) {
        let Some(cut) = self.cuts.get_mut(job) else { return };
        for shard in (0..core.mail.routes.shards()).map(ShardId) {
            let body = Body::Cut { cut: cut.number, step };
            let token = core.mail.ask(shard, Pending::Cut { job, shard }, body);
            cut.left.insert(shard, token);
        }
    }

    /// Takes the answer of a shard: it stands still, or was released, or could not.
    pub(in crate::gateway) fn answered(
        &mut self,
        core: &mut Core,
        token: u64,
        (job, shard): (u64, ShardId),
        answer: Answer,
    ) {
        let Some(cut) = self.cuts.get_mut(job) else { return };
        if cut.left.get(&shard) != Some(&token) {
            return;
        }
        cut.left.remove(&shard);
        match answer {
            Answer::Reply(Reply::Array(told)) => {
                let numbers: Vec<i64> =
                    told.iter().map(|r| if let Reply::Int(n) = r { *n } else { 0 }).collect();
                let range = match numbers[..] {
                    [_, first, last] => Some((first as u16, last as u16)),
                    _ => None,
                };
                cut.told.insert(shard, (numbers.first().copied().unwrap_or(0), range));
            }
            Answer::Reply(Reply::Ok) => {}
            Answer::Reply(reply) => return self.give_up(core, job, reply),
            _ => return self.give_up(core, job, refused("a shard has lost its leader")),
        }
        if cut.left.is_empty() {
            self.next_step(core, job);
        }
    }

    /// Goes on, since all shards have taken the step.
    fn next_step(&mut self, core: &mut Core, job: u64) {
        let shards = core.mail.routes.shards();
        let Some(cut) = self.cuts.get_mut(job) else { return };
        if cut.released {
            return self.complete(core, job);
        }
        let by_map = core.topology.map().map(|map| map.shards.len() - map.splits.len());
        let founded = by_map.map_or(shards, |founded| founded as u16);
        if !cover(&cut.told, founded) {
            return self.give_up(core, job, refused("a shard is being split just now"));
        }
        cut.released = true;
        self.ask(core, job, CutStep::Release);
    }

    /// Replies that the cut stands: its number, for how long clients had to wait, the name of the cluster
    /// and its map, and every shard with its number of keys.
    fn complete(&mut self, core: &mut Core, job: u64) {
        let Some(cut) = self.cuts.remove(job) else { return };
        let Backup { target, number, told, began_us, .. } = cut;
        let members = core.config.members.as_ref();
        let name = members.map_or("", |members| members.name.as_str());
        let rules = || rules_text(core.naming(0).tags);
        let map = core.topology.map().map_or_else(rules, ToString::to_string);
        let held_us = core.now.mono_us.saturating_sub(began_us);
        let shards = told.into_iter().map(|(shard, (keys, _))| {
            Reply::Array(vec![Reply::Int(shard.0.into()), Reply::Int(keys)])
        });
        let shards = Reply::Array(shards.collect());
        let numbers = [number, held_us].map(|number| Reply::Int(number as i64));
        let texts = [Reply::bulk(name), Reply::bulk(map)];
        let parts = numbers.into_iter().chain(texts).chain([shards]).collect();
        core.finish(target, Reply::Array(parts));
    }

    /// Gives up a cut: all shards go on.
    fn give_up(&mut self, core: &mut Core, job: u64, reply: Reply) {
        let Some(cut) = self.cuts.remove(job) else { return };
        cut.left.values().for_each(|token| core.mail.forget(*token));
        for shard in (0..core.mail.routes.shards()).map(ShardId) {
            core.mail.tell(shard, Body::Cut { cut: cut.number, step: CutStep::End });
        }
        core.finish(cut.target, reply);
    }

    /// Gives up a cut that takes longer than it may.
    pub(in crate::gateway) fn overdue(&mut self, core: &mut Core, job: u64) {
        let Some(cut) = self.cuts.get(job) else { return };
        let missing: Vec<String> = cut.left.keys().map(|shard| shard.0.to_string()).collect();
        let why =
            format!("nothing is heard of the leaders of these shards: {}", missing.join(", "));
        self.give_up(core, job, refused(&why));
    }
}

/// Whether these shards have every slot once: those whose slots never changed have what they were
/// founded with, as one of so many.
fn cover(told: &BTreeMap<ShardId, (i64, Option<Range>)>, founded: u16) -> bool {
    let first = ranges(founded.max(1));
    let mut have: Vec<Range> = Vec::new();
    for (shard, (_, range)) in told {
        match range.or_else(|| first.get(usize::from(shard.0)).copied()) {
            Some(range) => have.push(range),
            None => return false,
        }
    }
    have.sort_unstable();
    let mut next = 0;
    for (first, last) in have {
        if first != next {
            return false;
        }
        next = last + 1;
    }
    next == SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_has_every_slot_once() {
        let told = |ranges: &[Option<Range>]| -> BTreeMap<_, _> {
            let shards = (0..).map(ShardId);
            shards.zip(ranges.iter().map(|range| (0, *range))).collect()
        };
        assert!(cover(&told(&[None]), 1));
        assert!(cover(&told(&[None, None, None]), 3));
        assert!(!cover(&told(&[None, None]), 3), "one has not answered");
        assert!(cover(&told(&[Some((0, 99)), None, Some((100, 8191))]), 2));
        assert!(!cover(&told(&[None, None, Some((100, 8191))]), 2), "the parent has them still");
        assert!(!cover(&told(&[Some((0, 99)), None]), 2), "the new shard was not asked");
        assert!(!cover(&told(&[None, None, None]), 2));
    }
}
