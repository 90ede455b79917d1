//! O16: episodes, in which calls exceed a latency level repeatedly.

use probe::rank::of_sorted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Maximum gap between late calls of one episode.
pub const GAP_NS: i64 = 60_000_000_000;

/// One episode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Episode {
    /// Due time of its first late call.
    begin_ns: i64,
    /// Due time of its last late call.
    end_ns: i64,
    calls: u64,
    no_reply: u64,
    callees: BTreeSet<u16>,
    callers: BTreeSet<u16>,
    /// Late calls whose callee's row shows a stall, ...
    stalled: u64,
    /// ... and those whose callee's row has this information.
    known: u64,
}

impl Episode {
    /// Creates an episode of one late call. `stalled` is the information of the callee's row, if it
    /// has any.
    pub fn one(t_ns: i64, caller: u16, callee: u16, replied: bool, stalled: Option<bool>) -> Self {
        Self {
            begin_ns: t_ns,
            end_ns: t_ns,
            calls: 1,
            no_reply: u64::from(!replied),
            callees: [callee].into(),
            callers: [caller].into(),
            stalled: u64::from(stalled == Some(true)),
            known: u64::from(stalled.is_some()),
        }
    }

    fn merge(&mut self, other: Self) {
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        self.calls += other.calls;
        self.no_reply += other.no_reply;
        self.callees.extend(other.callees);
        self.callers.extend(other.callers);
        self.stalled += other.stalled;
        self.known += other.known;
    }

    /// Appends a later episode to a list, or merges it with the last one if they are close enough.
    pub fn append(list: &mut Vec<Self>, later: Self) {
        match list.last_mut() {
            Some(last) if later.begin_ns - last.end_ns < GAP_NS => last.merge(later),
            _ => list.push(later),
        }
    }
}

/// Merges the episodes of several callers.
pub fn join(mut parts: Vec<Episode>) -> Vec<Episode> {
    parts.sort_by_key(|part| part.begin_ns);
    let mut list = Vec::new();
    parts.into_iter().for_each(|part| Episode::append(&mut list, part));
    list
}

/// Builds document O16.
pub fn document(level_ns: u64, episodes: &[Episode]) -> Value {
    let day_of = |episode: &Episode| probe::schedule::epoch_of(episode.begin_ns);
    let mut days: BTreeMap<i64, Vec<&Episode>> = BTreeMap::new();
    episodes.iter().for_each(|episode| days.entry(day_of(episode)).or_default().push(episode));
    let length_ms = |episode: &Episode| (episode.end_ns - episode.begin_ns) / 1_000_000;
    let label = |episode: &Episode| {
        // At least half of the calls with this information.
        (episode.known > 0).then_some(episode.stalled * 2 >= episode.known)
    };
    let per_day = days.iter().map(|(day, episodes)| {
        let mut lengths: Vec<i64> = episodes.iter().map(|episode| length_ms(episode)).collect();
        lengths.sort_unstable();
        json!({
            "day": day,
            "episodes": episodes.len(),
            "stalled": episodes.iter().filter(|episode| label(episode) == Some(true)).count(),
            "length_p50_ms": of_sorted(&lengths, 500_000),
            "length_max_ms": lengths.last(),
        })
    });
    let list = episodes.iter().map(|episode| {
        json!({
            "begin_ns": episode.begin_ns,
            "length_ms": length_ms(episode),
            "calls": episode.calls,
            "no_reply": episode.no_reply,
            "callees": episode.callees,
            "callers": episode.callers,
            "stalled": label(episode),
        })
    });
    json!({
        "level_ns": level_ns,
        "gap_s": GAP_NS / 1_000_000_000,
        "episodes": episodes.len(),
        "days": per_day.collect::<Vec<_>>(),
        "list": list.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_calls_of_any_caller_within_a_minute_are_one_episode() {
        let at = |s: i64, caller| Episode::one(s * 1_000_000_000, caller, 9, true, None);
        let mut first = Vec::new();
        [0, 50, 100, 300].into_iter().for_each(|s| Episode::append(&mut first, at(s, 1)));
        assert_eq!(first.len(), 2);
        let mut second = Vec::new();
        [150, 205, 500].into_iter().for_each(|s| Episode::append(&mut second, at(s, 2)));
        let all = join(first.into_iter().chain(second).collect());
        let ends: Vec<(i64, i64)> = all
            .iter()
            .map(|one| (one.begin_ns / 1_000_000_000, one.end_ns / 1_000_000_000))
            .collect();
        assert_eq!(ends, [(0, 205), (300, 300), (500, 500)]);
        assert_eq!((all[0].calls, all[0].callers.len()), (5, 2));
    }
}
