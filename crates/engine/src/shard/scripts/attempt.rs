//! One run of a script on copies of records.

use crate::cluster::slot::slot;
use crate::ids::{GatewayId, KeyedOp, Token};
use crate::limits::{
    KEY_BYTES_MAX, SCRIPT_CALLS_MAX, SCRIPT_COPIES_MAX, SCRIPT_COPY_COST_MAX, SCRIPT_COPY_US,
    SCRIPT_PIECES_AT_SHARD_MAX, SCRIPT_RECORDS_AWAITED_MAX, SCRIPTS_TOGETHER_REPLY_BYTES,
    TRANSACTION_BYTES_MAX,
};
use crate::message::{Published, RunReply};
use crate::now::Now;
use crate::script::{Run, ScriptInput, ScriptRun, ScriptStep, time};
use crate::shard::config::Rule;
use crate::shard::core::ShardCore;
use crate::shard::expiry::Expiry;
use crate::shard::foreseen::Effects;
use crate::shard::locking::manager::LockManager;
use adt::command::database::{Naming, database_of};
use adt::key::KeyOp;
use adt::kinds::composed::joined;
use adt::record;
use adt::{
    ArgBuf, Args, Blob, Command, CommandSpec, Compound, Ctx, Flags, Handler, Next, Op, Record,
    Reply, Timestamp,
};
use smallvec::{SmallVec, smallvec};

/// Outcome of a run.
pub(super) struct Ended {
    pub reply: RunReply,
    /// Operations that take effect together.
    pub ops: SmallVec<[KeyedOp; 1]>,
    pub effects: Effects,
    /// Whether it has seen what is in the log and not applied.
    pub rests: bool,
}

/// Reason why a run does not go on. It has had no effect then.
pub(super) enum Stop {
    /// Another record must be free first.
    Needs(Blob),
    /// The shard cannot give what the script asks for.
    NotHere,
}

/// A record that the run has touched.
struct Touched {
    key: Blob,
    /// The record with the run's writes, if there are any.
    copy: Option<Option<Record>>,
}

/// One run of a script on copies of records.
pub(super) struct Attempt<'s> {
    core: &'s mut ShardCore,
    locking: &'s LockManager,
    expiry: &'s mut Expiry,
    now: Now,
    sender: (GatewayId, Token),
    run: &'s ScriptRun,
    only_reads: bool,
    ctx: Ctx,
    touched: SmallVec<[Touched; 4]>,
    ops: SmallVec<[KeyedOp; 1]>,
    published: Vec<Published>,
    published_bytes: usize,
    rests: bool,
    calls: u32,
    bytes: usize,
    /// Whether the script is an operation of a composed type, whose commands are on its parts.
    of_type: bool,
    /// Whether a record was removed by the run: its expiry is gone, also if the run has made it anew.
    emptied: bool,
}

impl<'s> Attempt<'s> {
    /// A run whose declared records are free.
    pub fn new(
        (core, locking, expiry): (&'s mut ShardCore, &'s LockManager, &'s mut Expiry),
        now: Now,
        (sender, run): ((GatewayId, Token), &'s ScriptRun),
        only_reads: bool,
    ) -> Self {
        let now_ms = core.tail.time(now);
        let ts = core.clock.max(Timestamp::from_micros(now.wall_us));
        let ctx = Ctx { now_ms, ts, seed: core.draw() };
        let (touched, ops) = (SmallVec::new(), SmallVec::new());
        let (rests, calls, bytes) = (false, 0, 0);
        Self {
            core,
            locking,
            expiry,
            now,
            sender,
            run,
            only_reads,
            ctx,
            touched,
            ops,
            published: Vec::new(),
            published_bytes: 0,
            rests,
            calls,
            bytes,
            of_type: false,
            emptied: false,
        }
    }

    /// Carries the run out, from its first step to its last.
    pub fn carry_out(mut self, steps: &mut dyn Run) -> Result<Ended, Stop> {
        self.of_type = steps.script().operation.is_some();
        let mut input = ScriptInput::Go;
        let mut pieces = 1;
        loop {
            input = match steps.resume(input) {
                ScriptStep::Call(words, _) => match self.call(&words) {
                    Ok(reply) => ScriptInput::Reply(reply),
                    Err(stop) => {
                        self.undo();
                        return Err(stop);
                    }
                },
                ScriptStep::MayRun(words) if spec_of(&words.args(), false).is_some() => {
                    ScriptInput::MayRun(true)
                }
                ScriptStep::Pause if pieces < SCRIPT_PIECES_AT_SHARD_MAX => {
                    pieces += 1;
                    ScriptInput::Go
                }
                // It lasts long, or has something to tell besides its reply.
                ScriptStep::Pause | ScriptStep::Log(..) | ScriptStep::MayRun(_) => {
                    self.undo();
                    return Err(Stop::NotHere);
                }
                ScriptStep::Done(reply) => return Ok(self.done(reply)),
                ScriptStep::Failed(error) => return Ok(self.failed(error.into())),
            };
        }
    }

    /// Forgets what the run has done.
    fn undo(&mut self) {
        self.ops.clear();
        self.published.clear();
        let leaks = self.core.breaks(Rule::FailedRunsLeaveNothing);
        for touched in &mut self.touched {
            let Some(copy) = touched.copy.take() else { continue };
            if leaks {
                self.core.locks.put_foreseen(touched.key.clone(), copy, 0);
            }
        }
    }

    fn failed(mut self, error: Reply) -> Ended {
        self.undo();
        self.done(error)
    }

    fn done(mut self, reply: Reply) -> Ended {
        if self.ops.len() > 1
            && self.of_type
            && !self.emptied
            && let Some(joined) = joined(self.ops.iter().map(|(_, op)| op))
        {
            // The text of the definition is in the log once.
            self.ops.truncate(1);
            self.ops[0].1 = joined;
        }
        if self.ops.is_empty() {
            // The log says that the shard was led by this replica when it was read.
            let key = self.run.declared(&self.core.config.tags).next().unwrap_or_default();
            self.ops = smallvec![(key, Op::Key(KeyOp::Exists))];
        }
        let mut kept = self.core.locks.kept_foreseen();
        let mut records = Vec::new();
        for Touched { key, copy } in self.touched {
            let Some(record) = copy else { continue };
            let is_large = record.as_ref().is_some_and(|record| !record::costs_little(record));
            let until_us = match is_large && kept < SCRIPT_COPIES_MAX {
                true => {
                    kept += 1;
                    self.now.mono_us + SCRIPT_COPY_US
                }
                false => 0,
            };
            records.push((key, record, until_us));
        }
        let Self { ops, published, rests, ctx: Ctx { now_ms, .. }, .. } = self;
        let reply = RunReply { reply, published };
        Ended { reply, ops, effects: Effects { records, now_ms }, rests }
    }

    /// Carries out a command of the script.
    fn call(&mut self, words: &ArgBuf) -> Result<Reply, Stop> {
        let args = &words.args();
        self.calls += 1;
        self.bytes += args.iter_from(0).map(<[u8]>::len).sum::<usize>();
        if self.calls > SCRIPT_CALLS_MAX || self.bytes > TRANSACTION_BYTES_MAX {
            return Err(Stop::NotHere);
        }
        if args.len() == 1 && args.is(0, "TIME") {
            return Ok(time(self.now.wall_us));
        }
        if !self.only_reads
            && let Some(published) = Published::of(args)
        {
            self.published_bytes += published.bytes();
            if self.published_bytes > SCRIPTS_TOGETHER_REPLY_BYTES {
                return Err(Stop::NotHere);
            }
            self.published.push(published);
            // Who receives it is not known before the run takes effect.
            return Ok(Reply::Int(0));
        }
        // Where something is wrong with the command, the gateway knows the words for it.
        let (parse, spec) = spec_of(args, self.of_type).ok_or(Stop::NotHere)?;
        if self.only_reads && spec.flags.has(Flags::WRITE) {
            return Err(Stop::NotHere);
        }
        let naming = Naming { database: self.run.database, tags: &self.core.config.tags };
        let command = match naming.keeps(args) {
            true => parse(args),
            false => naming.words(spec.keys, args).and_then(|words| parse(&words.args())),
        };
        match command {
            Err(error) => Ok(error.into()),
            Ok(Command::Single(key, op)) => self.operate(key, op),
            Ok(Command::Multi { ops, merge }) => {
                let replies = ops.into_iter().map(|(key, op)| self.operate(key, op));
                Ok(merge.apply(replies.collect::<Result<_, _>>()?))
            }
            Ok(Command::Compound(compound)) => self.carry_out_compound(compound),
            Ok(Command::Blocking(_) | Command::Awaiting(_)) => Err(Stop::NotHere),
        }
    }

    fn carry_out_compound(&mut self, compound: Compound) -> Result<Reply, Stop> {
        let Compound { reads, next } = compound;
        let replies = reads.into_iter().map(|(key, op)| self.operate(key, op));
        let replies = replies.collect::<Result<Vec<_>, _>>()?;
        // Keys that are found on the way may be anywhere.
        let Next::Plan(plan) = next(&replies) else { return Err(Stop::NotHere) };
        for (key, op) in plan.writes {
            self.operate(key, op)?;
        }
        Ok(plan.reply)
    }

    fn operate(&mut self, key: Blob, op: Op) -> Result<Reply, Stop> {
        let at = self.touch(&key)?;
        self.ctx.seed = adt::random::mix(self.ctx.seed);
        if !op.is_write() {
            let ctx = self.ctx;
            return Ok(record::query(self.record(at), &op, &ctx));
        }
        let follows = record::follows_in_time(&op).ok_or(Stop::NotHere)?;
        if !follows {
            let chosen = op.chosen_first(&key).ok_or(Stop::NotHere)?;
            return self.carry_out_compound(chosen);
        }
        let (mut copy, is_new) = match self.touched[at].copy.take() {
            Some(copy) => (copy, false),
            None => (self.copy(at)?, true),
        };
        let was_there = copy.is_some();
        let reply = record::apply(&mut copy, &op, &self.ctx);
        self.emptied |= was_there && copy.is_none();
        // An error has changed nothing: it needs no place in the log, and no copy unless that is a dear one.
        if !(reply.is_error() && is_new && copy.as_ref().is_none_or(record::costs_little)) {
            self.touched[at].copy = Some(copy);
        }
        if !reply.is_error() {
            self.ops.push((key, op));
        }
        Ok(reply)
    }

    /// Copy of a record for the first write of the run. Small records are copied, so that the run can fail;
    /// the copy of a large one is taken over.
    fn copy(&mut self, at: usize) -> Result<Option<Record>, Stop> {
        let key = &self.touched[at].key;
        let locks = &mut self.core.locks;
        let is_large =
            |record: &Option<Record>| record.as_ref().is_some_and(|r| !record::costs_little(r));
        if locks.foreseen(key).is_some_and(is_large) {
            return locks.take_foreseen(key).ok_or(Stop::NotHere);
        }
        let record = locks.foreseen(key).map_or_else(|| self.core.state.get(key), Option::as_ref);
        let cost = record.map_or(Some(0), record::copy_cost).ok_or(Stop::NotHere)?;
        let is_large = record.is_some_and(|record| !record::costs_little(record));
        // A copy that is not kept would be made for each run.
        let no_more = is_large && locks.kept_foreseen() >= SCRIPT_COPIES_MAX;
        if cost > SCRIPT_COPY_COST_MAX || no_more {
            return Err(Stop::NotHere);
        }
        Ok(record.cloned())
    }

    /// The record that the run has touched, with its own writes.
    fn record(&self, at: usize) -> Option<&Record> {
        let Touched { key, copy } = &self.touched[at];
        match copy {
            Some(record) => record.as_ref(),
            None => {
                let foreseen = self.core.locks.foreseen(key);
                foreseen.map_or_else(|| self.core.state.get(key), Option::as_ref)
            }
        }
    }

    /// Place of a record that is free.
    fn touch(&mut self, key: &Blob) -> Result<usize, Stop> {
        if let Some(at) = self.touched.iter().position(|touched| touched.key == *key) {
            return Ok(at);
        }
        if !self.run.names(key) {
            self.touch_undeclared(key)?;
        }
        self.touched.push(Touched { key: key.clone(), copy: None });
        let at = self.touched.len() - 1;
        self.rests |= self.core.locks.is_in_flight(key);
        let is_due = |moment: &u64| *moment <= self.ctx.now_ms;
        let record = self.record(at);
        let expiry = record.and_then(Record::expire_at_ms).filter(is_due);
        let part = record.and_then(|record| record.next_part_expiry_ms(None)).filter(is_due);
        if let Some(expire_at_ms) = expiry {
            self.expiry.reap_foreseen(self.core, key, (expire_at_ms, self.ctx.now_ms));
            self.rests = true;
        } else if part.is_some() {
            self.remove_expired_parts(at)?;
            self.rests = true;
        }
        Ok(at)
    }

    /// Removes the expired parts of a record that the run has not written yet.
    fn remove_expired_parts(&mut self, at: usize) -> Result<(), Stop> {
        let record = self.copy(at)?.ok_or(Stop::NotHere)?;
        let (key, now_ms) = (self.touched[at].key.clone(), self.ctx.now_ms);
        let until_us = match record::costs_little(&record) {
            true => 0,
            false => self.now.mono_us + SCRIPT_COPY_US,
        };
        let left = record.left_at(now_ms);
        self.expiry.reap_parts_foreseen(self.core, &key, (left, until_us), now_ms);
        Ok(())
    }

    /// Makes sure that a record that the client has not declared is of this shard, and free.
    fn touch_undeclared(&mut self, key: &Blob) -> Result<(), Stop> {
        if key.len() > KEY_BYTES_MAX || database_of(key) != Some(self.run.database) {
            return Err(Stop::NotHere);
        }
        // A shard that was never split does not know its slots, and one that was may have fewer than the
        // gateway believes.
        let at = slot(key);
        let has = |(first, last): (u16, u16)| (first..=last).contains(&at);
        if !has(self.run.slots) || !self.core.state.slots.range.is_none_or(has) {
            return Err(Stop::NotHere);
        }
        let keys = [key.clone()].into_iter();
        if !self.locking.bars_script(self.core, self.now, self.sender, keys) {
            return Ok(());
        }
        match self.run.also.len() < SCRIPT_RECORDS_AWAITED_MAX {
            true => Err(Stop::Needs(key.clone())),
            false => Err(Stop::NotHere),
        }
    }
}

type Parse = fn(&Args<'_>) -> Result<Command, adt::ErrorReply>;

/// How the words of a data command are read, if they are the right number.
fn spec_of(args: &Args<'_>, of_type: bool) -> Option<(Parse, &'static CommandSpec)> {
    // Gateways know the definitions of composed types. The commands of an operation have it.
    let spec = record::command(args.get(0)?).filter(|spec| of_type == (spec.group == "types"))?;
    spec.check_arity(args.len()).ok()?;
    match spec.handler {
        Handler::Data(parse) => Some((parse, spec)),
        Handler::Session => None,
    }
}
