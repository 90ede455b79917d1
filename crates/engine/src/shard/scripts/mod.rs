//! Scripts that are run beside the records of the shard. A run has its records for a moment and alone, and
//! its writes go into the log at once. So runs on the same records follow each other without waiting for
//! the disk, and their writes share an entry.
//!
//! A run works on copies of the records that it writes. The copies then stand for what is in the log and
//! not applied. It holds nothing while it waits, so it is in no transaction's way.

mod attempt;

use crate::entry::Apply;
use crate::ids::{GatewayId, Token};
use crate::limits::{SCRIPTS_TOGETHER_FUEL, SCRIPTS_TOGETHER_REPLY_BYTES};
use crate::message::{Answer, Body, Published, Refusal, Request, RunReply};
use crate::now::Now;
use crate::repeats::weight_of;
use crate::script::counts::{RanAt, ScriptCount, ScriptCounts};
use crate::script::texts::Texts;
use crate::script::{Interpreter, ScriptOf, ScriptRun};
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::collections::Map;
use adt::{Blob, Reply};
use attempt::{Attempt, Ended, Stop};

/// Runs of one request whose operations are in the log and not all applied.
#[derive(Debug, Default)]
struct Logged {
    /// The runs, as they were asked for; none if those that were carried out may be in several entries.
    runs: Vec<ScriptRun>,
    /// Replies of those that were carried out.
    replies: Vec<RunReply>,
    /// Number of those that are not applied.
    left: usize,
    /// Whether one of them has seen what is in the log and not applied.
    rests: bool,
}

/// Runs of scripts at a shard.
#[derive(Debug)]
pub(in crate::shard) struct Runs {
    /// Texts that other machines have sent.
    texts: Texts,
    logged: Map<(GatewayId, Token), Logged>,
    /// Number of runs, and of those that saw what was in the log and not applied.
    ran: (u64, u64),
    counts: ScriptCounts,
}

impl Runs {
    pub fn new(interpreter: Option<&'static dyn Interpreter>) -> Self {
        Self {
            texts: Texts::new(interpreter),
            logged: Map::default(),
            ran: (0, 0),
            counts: ScriptCounts::default(),
        }
    }

    /// Notes that the operations of a run are applied. Answers its request when it was the last one.
    pub fn ended(&mut self, core: &mut ShardCore, target: Recipient) {
        let sender = (target.gateway, target.token);
        let Some(logged) = self.logged.get_mut(&sender) else { return };
        logged.left -= 1;
        if logged.left > 0 {
            return;
        }
        let replies = self.logged.swap_remove(&sender).map(|logged| logged.replies);
        let replies = replies.unwrap_or_default();
        if replies.iter().any(|run| !run.published.is_empty()) {
            return core.answer(target.gateway, target.token, Answer::Ran(replies));
        }
        let mut replies: Vec<Reply> = replies.into_iter().map(|run| run.reply).collect();
        let answer = match replies.pop() {
            Some(reply) if replies.is_empty() => Answer::Reply(reply),
            last => Answer::Replies(replies.into_iter().chain(last).collect()),
        };
        core.answer(target.gateway, target.token, answer);
    }

    /// Whether a run has seen what is in the log and not applied.
    pub fn rests(&self, target: &Recipient) -> bool {
        self.logged.get(&(target.gateway, target.token)).is_none_or(|logged| logged.rests)
    }

    /// Takes the runs of a request back when one of them is given up, unless that was done. None of them may
    /// be repeated if they are in several entries, of which some may take effect.
    pub fn give_up(&mut self, target: Recipient) -> Option<Vec<ScriptRun>> {
        let logged = self.logged.swap_remove(&(target.gateway, target.token))?;
        Some(logged.runs)
    }

    /// Forgets all runs.
    pub fn end_lead(&mut self) {
        self.logged.clear();
    }
}

impl Shard {
    /// Number of runs of scripts at this replica, and of those that saw what was in the log and not durable.
    pub fn scripts_run(&self) -> (u64, u64) {
        self.desk.scripts.ran
    }

    /// Counts of the scripts that were run beside the records of this replica.
    pub fn script_counts(&self) -> impl Iterator<Item = &ScriptCount> {
        self.desk.scripts.counts.all()
    }
}

impl Desk {
    /// Runs scripts whose records are free, one after the other. Those behind the last reply were not run:
    /// the gateway asks again, or has them carried out otherwise.
    pub(in crate::shard) fn run_scripts(&mut self, now: Now, request: Request) {
        let Request { gateway, token, after, body } = request;
        let Body::Run(mut runs) = body else { return };
        let sender = (gateway, token);
        let (entry, mut logged) = (self.core.tail.coming(), Logged::default());
        let (mut fuel, mut bytes) = (0, 0);
        while logged.left < runs.len()
            && fuel < SCRIPTS_TOGETHER_FUEL
            && bytes < SCRIPTS_TOGETHER_REPLY_BYTES
        {
            match self.run_next(now, sender, &runs[logged.left], &mut logged) {
                Ok(steps) => fuel += steps,
                Err(Some(key)) if logged.left == 0 => {
                    runs[0].also.push(key);
                    let body = Body::Run(runs);
                    return self.begin_locking(now, Request { gateway, token, after, body });
                }
                Err(_) => break,
            }
            let last = logged.replies.last();
            bytes += weight_of(last.map(|run| &run.reply));
            bytes +=
                last.iter().flat_map(|run| &run.published).map(Published::bytes).sum::<usize>();
        }
        if logged.left == 0 {
            // The gateway finds out why, and tells the client.
            return self.core.answer(gateway, token, Answer::Refused(Refusal::NotHere));
        }
        if self.core.tail.coming() == entry {
            logged.runs = runs;
        }
        self.scripts.logged.insert(sender, logged);
    }

    /// Carries a script of a request out behind the ones before it, which are logged. Returns the number of
    /// its steps; or, if it cannot be run now, perhaps a record that must be free first.
    fn run_next(
        &mut self,
        now: Now,
        sender: (GatewayId, Token),
        run: &ScriptRun,
        logged: &mut Logged,
    ) -> Result<u64, Option<Blob>> {
        let is_free = |core: &ShardCore| {
            !self.locking.bars_script(core, now, sender, run.keys(&core.config.tags))
        };
        if logged.left > 0 && !is_free(&self.core) {
            return Err(None);
        }
        let script = match &run.script {
            ScriptOf::Read(script) => Ok(script.clone()),
            ScriptOf::Text(text) => self.scripts.texts.read_sent(text),
        };
        let script = script.map_err(|_| None)?;
        let mut steps = self.scripts.texts.begin(&script, &run.inputs).map_err(|_| None)?;
        let only_reads = run.only_reads || script.no_writes;
        let (core, locking, expiry) = (&mut self.core, &self.locking, &mut self.expiry);
        let attempt = Attempt::new((core, locking, expiry), now, (sender, run), only_reads);
        let ended = attempt.carry_out(&mut *steps).map_err(|stop| match stop {
            Stop::Needs(key) => Some(key),
            Stop::NotHere => None,
        })?;
        let Ended { reply, ops, effects, rests } = ended;
        self.scripts.ran.0 += 1;
        self.scripts.ran.1 += u64::from(rests);
        self.scripts.counts.note(&*steps, RanAt::Shard, reply.reply.is_error());
        logged.left += 1;
        logged.rests |= rests;
        logged.replies.push(reply);
        let apply = Apply { ops, ..Apply::default() };
        self.put_apply(now, sender, apply, (RecipientKind::Ran, Some(effects)));
        Ok(steps.steps())
    }
}
