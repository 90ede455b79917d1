//! Counts of runs, by script.

use super::{Run, ScriptName};
use crate::limits::SCRIPTS_COUNTED_MAX;
use adt::Blob;
use adt::collections::Map;

/// Place of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RanAt {
    /// Beside the records of a shard.
    Shard,
    /// At a gateway, as a transaction.
    Gateway,
}

/// Counts of the runs of one script since the start of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScriptCount {
    /// Name of the text: of the script, or of the library of the function.
    pub text: Blob,
    /// Name of the function.
    pub function: Option<Blob>,
    /// Runs beside the records of a shard.
    pub at_shards: u64,
    /// Runs at a gateway, as a transaction or a part of one.
    pub at_gateways: u64,
    /// Runs that ended with an error.
    pub failed: u64,
    /// Steps of all runs.
    pub steps: u64,
}

impl ScriptCount {
    /// Runs.
    pub fn runs(&self) -> u64 {
        self.at_shards + self.at_gateways
    }

    /// Adds the counts of the same script from another place.
    pub fn add(&mut self, other: &Self) {
        self.at_shards += other.at_shards;
        self.at_gateways += other.at_gateways;
        self.failed += other.failed;
        self.steps += other.steps;
    }
}

/// Counts of the scripts that run most. A text that is new while the table is full takes the place of the one
/// with the fewest runs, whose counts go on as those of scripts that are not named.
#[derive(Debug, Default)]
pub(crate) struct ScriptCounts {
    counts: Map<(ScriptName, Option<Blob>), ScriptCount>,
    others: ScriptCount,
}

impl ScriptCounts {
    /// Counts a run that has ended.
    pub fn note(&mut self, run: &dyn Run, at: RanAt, failed: bool) {
        let (script, steps) = (run.script(), run.steps());
        let key = (script.name, script.function.clone());
        if !self.counts.contains_key(&key) && self.counts.len() >= SCRIPTS_COUNTED_MAX {
            let fewest = self.counts.iter().min_by_key(|(_, count)| count.runs());
            let fewest = fewest.map(|(key, _)| key.clone());
            if let Some(dropped) = fewest.and_then(|key| self.counts.swap_remove(&key)) {
                self.others.add(&dropped);
            }
        }
        let count = self.counts.entry(key).or_insert_with(|| ScriptCount {
            text: Blob::new(&script.name),
            function: script.function.clone(),
            ..ScriptCount::default()
        });
        match at {
            RanAt::Shard => count.at_shards += 1,
            RanAt::Gateway => count.at_gateways += 1,
        }
        count.failed += u64::from(failed);
        count.steps += steps;
    }

    /// Counts of each script that is named, and the sum of the others, without a name.
    pub fn all(&self) -> impl Iterator<Item = &ScriptCount> {
        let others = (self.others.runs() > 0).then_some(&self.others);
        self.counts.values().chain(others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::{Script, ScriptInput, ScriptStep};
    use adt::Reply;

    #[derive(Debug)]
    struct Ran(Script);

    impl Run for Ran {
        fn resume(&mut self, _: ScriptInput) -> ScriptStep {
            ScriptStep::Done(Reply::Nil)
        }

        fn script(&self) -> &Script {
            &self.0
        }

        fn steps(&self) -> u64 {
            3
        }
    }

    fn ran(number: usize) -> Ran {
        let mut name = [b'0'; 40];
        name[..8].copy_from_slice(format!("{number:08}").as_bytes());
        let (text, code) = (Blob::default(), Vec::new());
        Ran(Script { name, text, no_writes: false, code, function: None, operation: None })
    }

    #[test]
    fn scripts_that_run_often_stay_when_many_others_come() {
        let mut counts = ScriptCounts::default();
        (0..5).for_each(|_| counts.note(&ran(0), RanAt::Shard, false));
        for number in 1..SCRIPTS_COUNTED_MAX * 3 {
            counts.note(&ran(number), RanAt::Gateway, number % 2 == 0);
        }
        let often = counts.all().find(|count| count.runs() == 5).expect("it stays");
        assert_eq!((often.at_shards, often.failed, often.steps), (5, 0, 15));
        assert_eq!(counts.all().count(), SCRIPTS_COUNTED_MAX + 1);
        let sum: u64 = counts.all().map(ScriptCount::runs).sum();
        assert_eq!(sum as usize, 5 + SCRIPTS_COUNTED_MAX * 3 - 1);
    }
}
