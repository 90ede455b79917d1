//! O16: episodes, in which calls are later than a level again and again.

use probe::rank::of_sorted;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Late calls that are closer than this are of one episode.
pub const GAP_NS: i64 = 60_000_000_000;

/// One episode.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Episode {
    /// When its first late call was due.
    begin_ns: i64,
    /// When its last one was.
    end_ns: i64,
    calls: u64,
    no_reply: u64,
    callees: BTreeSet<u16>,
    callers: BTreeSet<u16>,
    /// Late calls whose callee's row says that it stalled, ...
    stalled: u64,
    /// ... and those whose callee's row says whether it did.
    known: u64,
}

impl Episode {
    /// An episode of one late call. `stalled` is whether the callee's row says so, if it says
    /// anything.
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

    /// Adds a later one to a list whose last may be near enough to be the same.
    pub fn append(list: &mut Vec<Self>, later: Self) {
        match list.last_mut() {
            Some(last) if later.begin_ns - last.end_ns < GAP_NS => last.merge(later),
            _ => list.push(later),
        }
    }
}

/// Puts the episodes of several callers together.
pub fn join(mut parts: Vec<Episode>) -> Vec<Episode> {
    parts.sort_by_key(|part| part.begin_ns);
    let mut list = Vec::new();
    parts.into_iter().for_each(|part| Episode::append(&mut list, part));
    list
}

/// O16.
pub fn document(level_ns: u64, episodes: &[Episode]) -> Value {
    let day_of = |episode: &Episode| probe::schedule::epoch_of(episode.begin_ns);
    let mut days: BTreeMap<i64, Vec<&Episode>> = BTreeMap::new();
    episodes.iter().for_each(|episode| days.entry(day_of(episode)).or_default().push(episode));
    let length_ms = |episode: &Episode| (episode.end_ns - episode.begin_ns) / 1_000_000;
    let label = |episode: &Episode| {
        // Half of the calls that can tell.
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
    fn late_calls_within_a_minute_are_one_episode_whoever_saw_them() {
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
