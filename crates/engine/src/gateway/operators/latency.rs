//! `LATENCY`: durations of each command, and the worst commands of each second.

use crate::gateway::clients::session_commands::{all, position};
use crate::limits::LATENCY_SECONDS_MAX;
use crate::now::Now;
use adt::{Blob, Reply};
use std::collections::{BTreeMap, VecDeque};

/// Number of powers of two by which durations are counted; the last one stands for all longer ones.
const POWERS: usize = 32;

/// Kinds of events, under Redis' names: commands, and those whose cost does not depend on the data.
const EVENTS: [&str; 2] = ["command", "fast-command"];

/// Durations of all commands of a gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandDurations {
    /// For each position in the table of commands: number of calls by power of two of microseconds.
    by_command: Vec<[u64; POWERS]>,
}

impl CommandDurations {
    /// Counts a command that has taken so many microseconds.
    #[inline]
    pub fn count(&mut self, position: usize, us: u64) {
        if position >= self.by_command.len() {
            self.by_command.resize(position + 1, [0; POWERS]);
        }
        // The smallest power of two that is not less.
        let power = (u64::BITS - us.saturating_sub(1).leading_zeros()) as usize;
        self.by_command[position][power.min(POWERS - 1)] += 1;
    }

    /// Adds the counts of another gateway.
    pub fn add(&mut self, other: &Self) {
        if self.by_command.len() < other.by_command.len() {
            self.by_command.resize(other.by_command.len(), [0; POWERS]);
        }
        for (sums, counts) in self.by_command.iter_mut().zip(&other.by_command) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        }
    }

    /// Reply of `LATENCY HISTOGRAM`: of all commands that were called, or of these.
    pub fn reply(&self, commands: &[Blob]) -> Reply {
        let positions: Vec<usize> = match commands {
            [] => (0..self.by_command.len()).collect(),
            names => names.iter().filter_map(|name| position(name)).collect(),
        };
        let shown = positions.into_iter().filter_map(|at| {
            let histogram = histogram(self.by_command.get(at)?)?;
            Some((Reply::bulk(all()[at].name), histogram))
        });
        Reply::Map(shown.collect())
    }
}

/// Number of calls, and for each power of two how many took no longer.
fn histogram(counts: &[u64; POWERS]) -> Option<Reply> {
    let calls: u64 = counts.iter().sum();
    let mut sum = 0;
    let rows = counts.iter().enumerate().filter(|(_, count)| **count > 0).map(|(power, count)| {
        sum += count;
        (Reply::Int(1 << power), Reply::Int(sum as i64))
    });
    let rows = Reply::Map(rows.collect());
    let calls = (calls > 0).then_some(calls as i64)?;
    let named = |name: &str, value| (Reply::bulk(name), value);
    Some(Reply::Map(vec![named("calls", Reply::Int(calls)), named("histogram_usec", rows)]))
}

/// Worst commands of each second in which commands of a kind were slow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowSeconds {
    /// Second since 1970, and milliseconds of the slowest command in it; the newest last.
    seconds: VecDeque<(u64, u64)>,
    /// Milliseconds of the slowest command of all.
    worst_ms: u64,
}

impl SlowSeconds {
    fn note(&mut self, at_s: u64, ms: u64) {
        self.worst_ms = self.worst_ms.max(ms);
        match self.seconds.back_mut().filter(|(second, _)| *second >= at_s) {
            Some((_, worst)) => *worst = ms.max(*worst),
            None => self.seconds.push_back((at_s, ms)),
        }
        if self.seconds.len() > LATENCY_SECONDS_MAX {
            self.seconds.pop_front();
        }
    }

    /// Joins what several gateways have seen.
    fn joined(events: Vec<Self>) -> Self {
        let mut seconds = BTreeMap::new();
        for (second, ms) in events.iter().flat_map(|event| &event.seconds) {
            let worst = seconds.entry(*second).or_insert(0);
            *worst = (*worst).max(*ms);
        }
        let surplus = seconds.len().saturating_sub(LATENCY_SECONDS_MAX);
        let worst_ms = events.iter().map(|event| event.worst_ms).max().unwrap_or(0);
        Self { seconds: seconds.into_iter().skip(surplus).collect(), worst_ms }
    }
}

/// Events of a gateway.
#[derive(Default)]
pub struct Spikes {
    /// Shortest duration that is an event, in milliseconds; none for no events.
    least_ms: u64,
    events: [SlowSeconds; EVENTS.len()],
}

impl Spikes {
    /// Shortest duration that is an event, in microseconds.
    pub fn least_us(&self) -> u64 {
        if self.least_ms == 0 { u64::MAX } else { self.least_ms.saturating_mul(1000) }
    }

    /// Sets the shortest duration that is an event, in milliseconds; 0 for no events.
    pub fn set_least_ms(&mut self, ms: u64) {
        self.least_ms = ms;
    }

    /// Notes a command, if it was slow.
    pub fn note(&mut self, now: Now, fast: bool, us: u64) {
        if us >= self.least_us() {
            self.events[usize::from(fast)].note(now.wall_us / 1_000_000, us / 1000);
        }
    }

    /// Events of all kinds.
    pub fn events(&self) -> Vec<SlowSeconds> {
        self.events.to_vec()
    }

    /// Forgets the events of these kinds, or of all; returns the kinds that there were events of.
    pub fn forget(&mut self, kinds: &[Blob]) -> Vec<Blob> {
        let mut forgotten = Vec::new();
        for (name, event) in EVENTS.iter().zip(&mut self.events) {
            let named = kinds.iter().any(|kind| kind.eq_ignore_ascii_case(name.as_bytes()));
            if (kinds.is_empty() || named) && !event.seconds.is_empty() {
                *event = SlowSeconds::default();
                forgotten.push(Blob::from(name.as_bytes()));
            }
        }
        forgotten
    }
}

/// Seconds with slow commands that a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedSeconds {
    /// The newest second of each kind.
    Latest,
    /// All seconds of one kind.
    History(Blob),
}

impl WantedSeconds {
    /// Reply, from the events of all gateways.
    pub fn reply(&self, told: Vec<Vec<SlowSeconds>>) -> Reply {
        let number = |n: u64| Reply::Int(i64::try_from(n).unwrap_or(i64::MAX));
        let of_kind = |kind: usize| {
            SlowSeconds::joined(
                told.iter().filter_map(|events| events.get(kind)).cloned().collect(),
            )
        };
        match self {
            Self::Latest => {
                let rows = EVENTS.iter().enumerate().filter_map(|(kind, name)| {
                    let event = of_kind(kind);
                    let (second, ms) = *event.seconds.back()?;
                    let worst = number(event.worst_ms);
                    Some(Reply::Array(vec![Reply::bulk(name), number(second), number(ms), worst]))
                });
                Reply::Array(rows.collect())
            }
            Self::History(name) => {
                let kind = EVENTS.iter().position(|e| name.eq_ignore_ascii_case(e.as_bytes()));
                let event = kind.map(of_kind).unwrap_or_default();
                let rows = event.seconds.into_iter();
                Reply::Array(
                    rows.map(|(s, ms)| Reply::Array(vec![number(s), number(ms)])).collect(),
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_counted_by_powers_of_two() {
        let (mut durations, at) = (CommandDurations::default(), position(b"get").unwrap());
        for us in [0, 1, 2, 3, 4, 1000, u64::MAX] {
            durations.count(at, us);
        }
        let mut sum = durations.clone();
        sum.add(&durations);
        let Reply::Map(shown) = sum.reply(&["GET".into(), "set".into(), "nosuch".into()]) else {
            panic!("a map")
        };
        let [(name, Reply::Map(fields))] = shown.as_slice() else { panic!("one command") };
        assert_eq!((name, &fields[0].1), (&Reply::bulk("get"), &Reply::Int(14)));
        let row = |us, count| (Reply::Int(us), Reply::Int(count));
        let rows = vec![row(1, 4), row(2, 6), row(4, 10), row(1024, 12), row(1 << 31, 14)];
        assert_eq!(fields[1].1, Reply::Map(rows));
    }

    #[test]
    fn the_worst_of_each_second_is_kept_and_joined_over_workers() {
        let now = |s: u64| Now { wall_us: s * 1_000_000, mono_us: 0 };
        let mut workers = [Spikes::default(), Spikes::default()];
        workers.iter_mut().for_each(|spikes| spikes.set_least_ms(5));
        for (worker, s, us) in
            [(0, 1, 4_999), (0, 1, 5_000), (0, 1, 7_000), (1, 1, 6_000), (1, 2, 9_000)]
        {
            workers[worker].note(now(s), false, us);
        }
        let told = || workers.iter().map(Spikes::events).collect::<Vec<_>>();
        let int = Reply::Int;
        let history = WantedSeconds::History("Command".into()).reply(told());
        let row = |s, ms| Reply::Array(vec![int(s), int(ms)]);
        assert_eq!(history, Reply::Array(vec![row(1, 7), row(2, 9)]));
        let latest = Reply::Array(vec![Reply::bulk("command"), int(2), int(9), int(9)]);
        assert_eq!(WantedSeconds::Latest.reply(told()), Reply::Array(vec![latest]));
        assert_eq!(workers[1].forget(&["nosuch".into()]), Vec::<Blob>::new());
        assert_eq!(workers[1].forget(&[]), [Blob::from("command")]);
        assert_eq!(workers[1].forget(&[]), Vec::<Blob>::new());
    }

    #[test]
    fn events_of_many_seconds_have_a_bound() {
        let mut event = SlowSeconds::default();
        (0..1_000).for_each(|second| event.note(second, 1));
        assert_eq!(event.seconds.len(), LATENCY_SECONDS_MAX);
    }
}
