//! Queue of the scripts that a client has sent ahead, and whose turn has come.

use super::{ScriptCall, Text};
use crate::gateway::txn::work::{Program, ProgramStep};
use crate::ids::ShardId;
use crate::limits::{SCRIPTS_TOGETHER_BYTES_MAX, SCRIPTS_TOGETHER_MAX};
use crate::script::ScriptRun;
use std::collections::VecDeque;

/// Scripts of a session that are to be run when the present input is processed, or once more.
#[derive(Default)]
pub(in crate::gateway) struct ScriptQueue {
    waiting: VecDeque<Queued>,
    /// Bytes of those that wait.
    bytes: usize,
    under_way: UnderWay,
}

/// A script that waits, with the shard that may run it and its run there. It is a transaction if there is
/// none.
pub(super) struct Queued {
    pub program: Program,
    pub at_shard: Option<(ShardId, ScriptRun)>,
}

/// Scripts of a session that are being run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum UnderWay {
    #[default]
    Nothing,
    /// A shard runs some.
    AtShard,
    /// The script with this place is a transaction.
    Transaction(u64),
}

impl ScriptQueue {
    /// Adds a script behind the others.
    pub(super) fn add(&mut self, queued: Queued) {
        self.bytes += queued.bytes();
        self.waiting.push_back(queued);
    }

    /// Puts a script in front of the others.
    pub(super) fn put_back(&mut self, queued: Queued) {
        self.bytes += queued.bytes();
        self.waiting.push_front(queued);
    }

    /// Takes the next script.
    pub(super) fn next(&mut self) -> Option<Queued> {
        let queued = self.waiting.pop_front()?;
        self.bytes -= queued.bytes();
        Some(queued)
    }

    /// Takes the next script if this shard may run it.
    pub(super) fn next_at(&mut self, shard: ShardId) -> Option<(ScriptRun, Program)> {
        let is_there = |queued: &Queued| queued.at_shard.as_ref().is_some_and(|at| at.0 == shard);
        self.waiting.front().filter(|queued| is_there(queued))?;
        let Queued { program, at_shard } = self.next()?;
        at_shard.map(|(_, run)| (run, program))
    }

    /// Drops the scripts that wait: the session ends.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }

    /// Notes that the reply to the command with this place is known. Whether the next scripts may go ahead.
    pub fn finished(&mut self, seq: u64) -> bool {
        self.under_way == UnderWay::Transaction(seq) && self.now_runs(UnderWay::Nothing)
    }

    /// Notes which scripts are being run. Whether the next ones may go ahead.
    pub(super) fn now_runs(&mut self, under_way: UnderWay) -> bool {
        self.under_way = under_way;
        under_way == UnderWay::Nothing && !self.waiting.is_empty()
    }

    /// Whether scripts are being run.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way != UnderWay::Nothing
    }

    /// The shard for which one more script may join those that wait, if their last one has this place.
    pub(super) fn takes_more_behind(&self, seq: u64) -> Option<ShardId> {
        let last = self.waiting.back().filter(|last| last.program.target.seq == seq)?;
        let has_room =
            self.waiting.len() < SCRIPTS_TOGETHER_MAX && self.bytes < SCRIPTS_TOGETHER_BYTES_MAX;
        let (shard, _) = last.at_shard.as_ref().filter(|_| has_room && !self.is_busy())?;
        Some(*shard)
    }
}

/// Bytes that a word takes besides its text.
const WORD_BYTES: usize = 24;

impl Queued {
    /// The call of the script, which is the whole program.
    pub fn call(&self) -> Option<&ScriptCall> {
        match &self.program.steps[..] {
            [ProgramStep::Script(call)] => Some(call),
            _ => None,
        }
    }

    /// Bytes of the script, its keys and arguments.
    fn bytes(&self) -> usize {
        let Some(call) = self.call() else { return 0 };
        let text = if let Text::Read(script) = &call.text { script.text.len() } else { 0 };
        let words = call.inputs.keys.iter().chain(&call.inputs.args);
        text + words.map(|word| word.len() + WORD_BYTES).sum::<usize>()
    }
}
