//! Scripts that are run beside the records of the shard. A run has its records for a moment and alone, and
//! its writes go into the log at once. So runs on the same records follow each other without waiting for
//! the disk, and their writes share an entry.
//!
//! A run works on copies of the records that it writes. The copies then stand for what is in the log and
//! not applied. It holds nothing while it waits, so it is in no transaction's way.

mod attempt;

use crate::entry::Apply;
use crate::ids::{GatewayId, Token};
use crate::message::{Answer, Body, Refusal, Request};
use crate::now::Now;
use crate::script::counts::{RanAt, ScriptCount, ScriptCounts};
use crate::script::texts::Texts;
use crate::script::{Interpreter, ScriptOf, ScriptRun};
use crate::shard::Desk;
use crate::shard::Shard;
use crate::shard::core::ShardCore;
use crate::shard::tail::{Recipient, RecipientKind};
use adt::Reply;
use adt::collections::Map;
use attempt::{Attempt, Ended};

/// A run whose operations are in the log and not applied.
#[derive(Debug)]
struct Logged {
    reply: Reply,
    run: Box<ScriptRun>,
    /// Whether it has seen what is in the log and not applied.
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

    /// Answers a run whose operations are applied.
    pub fn ended(&mut self, core: &mut ShardCore, target: Recipient) {
        if let Some(logged) = self.logged.swap_remove(&(target.gateway, target.token)) {
            core.answer(target.gateway, target.token, Answer::Reply(logged.reply));
        }
    }

    /// Whether a run has seen what is in the log and not applied.
    pub fn rests(&self, target: &Recipient) -> bool {
        self.logged.get(&(target.gateway, target.token)).is_none_or(|logged| logged.rests)
    }

    /// Takes a run back whose operations never were in the log.
    pub fn give_up(&mut self, target: Recipient) -> Option<Box<ScriptRun>> {
        let logged = self.logged.swap_remove(&(target.gateway, target.token))?;
        Some(logged.run)
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
    /// Runs a script whose records are free.
    pub(in crate::shard) fn run_script(&mut self, now: Now, request: Request) {
        let Request { gateway, token, after, body } = request;
        let Body::Run(mut run) = body else { return };
        let script = match &run.script {
            ScriptOf::Read(script) => Ok(script.clone()),
            ScriptOf::Text(text) => self.scripts.texts.read(text),
        };
        let begun = script.and_then(|script| {
            let steps = self.scripts.texts.begin(&script, &run.inputs)?;
            Ok((steps, run.only_reads || script.no_writes))
        });
        let Ok((mut steps, only_reads)) = begun else {
            // The gateway finds out why, and tells the client.
            return self.core.answer(gateway, token, Answer::Refused(Refusal::NotHere));
        };
        let (core, locking, expiry) = (&mut self.core, &self.locking, &mut self.expiry);
        let sender = (gateway, token);
        let attempt = Attempt::new((core, locking, expiry), now, (sender, &run), only_reads);
        match attempt.carry_out(&mut *steps) {
            Ended::Done { reply, ops, effects, rests } => {
                self.scripts.ran.0 += 1;
                self.scripts.ran.1 += u64::from(rests);
                self.scripts.counts.note(&*steps, RanAt::Shard, reply.is_error());
                self.scripts.logged.insert(sender, Logged { reply, run, rests });
                let apply = Apply { ops, ..Apply::default() };
                self.put_apply(now, sender, apply, (RecipientKind::Ran, Some(effects)));
            }
            Ended::Needs(key) => {
                run.also.push(key);
                self.begin_locking(now, Request { gateway, token, after, body: Body::Run(run) });
            }
            Ended::NotHere => self.core.answer(gateway, token, Answer::Refused(Refusal::NotHere)),
        }
    }
}
