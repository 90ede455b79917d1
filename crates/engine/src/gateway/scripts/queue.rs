//! Queue of the scripts that a client has sent ahead, and whose turn has come: all of them are for one shard.

use super::Text;
use crate::gateway::txn::work::{Program, ProgramStep};
use crate::ids::ShardId;
use crate::limits::{SCRIPTS_TOGETHER_BYTES_MAX, SCRIPTS_TOGETHER_MAX};
use std::collections::VecDeque;

/// Scripts of a session that are to be run when the present input is processed, or once more.
#[derive(Default)]
pub(in crate::gateway) struct ScriptQueue {
    waiting: VecDeque<Program>,
    /// Bytes of those that wait.
    bytes: usize,
    /// The shard that may run them. None if the only one is a transaction.
    home: Option<ShardId>,
    /// Place of the reply to the last one.
    last: Option<u64>,
    under_way: UnderWay,
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
    /// Adds a script behind the others, which this shard may run.
    pub(super) fn add(&mut self, program: Program, home: Option<ShardId>) {
        self.last = Some(program.target.seq);
        self.home = home;
        self.bytes += bytes_of(&program);
        self.waiting.push_back(program);
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
        let takes = self.last == Some(seq)
            && self.under_way == UnderWay::Nothing
            && (1..SCRIPTS_TOGETHER_MAX).contains(&self.waiting.len())
            && self.bytes < SCRIPTS_TOGETHER_BYTES_MAX;
        self.home.filter(|_| takes)
    }

    /// Takes the next script.
    pub(super) fn next(&mut self) -> Option<Program> {
        let program = self.waiting.pop_front()?;
        self.bytes -= bytes_of(&program);
        Some(program)
    }

    /// Puts a script in front of the others.
    pub(super) fn put_back(&mut self, program: Program) {
        self.bytes += bytes_of(&program);
        self.waiting.push_front(program);
    }
}

/// Bytes that a word takes besides its text.
const WORD_BYTES: usize = 24;

/// Bytes of a script that is the whole program, with its keys and arguments.
fn bytes_of(program: &Program) -> usize {
    let [ProgramStep::Script(call)] = &program.steps[..] else { return 0 };
    let text = if let Text::Read(script) = &call.text { script.text.len() } else { 0 };
    let words = call.inputs.keys.iter().chain(&call.inputs.args);
    text + words.map(|word| word.len() + WORD_BYTES).sum::<usize>()
}
