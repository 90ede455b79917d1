//! Schedule and workload of calls: an open loop.
//!
//! The next call is due at a time that no reply can move. A caller that wakes up too late sends
//! overdue calls at once, with their true lag, and records calls that are too old to be sent: a
//! stalled caller is then visible in the data, instead of leaving a gap.

use crate::random::seed_of;
use crate::sample::Workload;

/// Nanoseconds of an epoch: a day.
pub const EPOCH_NS: i64 = 86_400_000_000_000;
/// Nanoseconds between two ticks of a caller.
pub const PERIOD_NS: i64 = 1_000_000_000;
/// Delay above which an overdue tick is skipped.
pub const OVERDUE_MAX_NS: i64 = 5_000_000_000;
/// Time after which a reply is late.
pub const DEADLINE_NS: i64 = 10_000_000_000;
/// Time after which a reply counts as missing.
pub const GIVE_UP_NS: i64 = 60_000_000_000;
/// Number of rounds outstanding to one callee from which on a new call counts as unanswered at
/// once.
pub const OUTSTANDING_MAX: usize = 64;

/// Epoch of a time in nanoseconds since 1970: days since then.
pub const fn epoch_of(wall_ns: i64) -> i64 {
    wall_ns.div_euclid(EPOCH_NS)
}

/// Start of an epoch.
pub const fn epoch_start_ns(epoch: i64) -> i64 {
    epoch * EPOCH_NS
}

/// Offset of a node's tick from the start of its period. Offsets are spread over the period, so
/// that observers sample a node at different instants, and drawn for each round: a periodic event
/// such as a processor quota of 100 ms would otherwise affect some observers at every tick and
/// others never.
pub fn phase_ns(seed: u64, epoch: i64, node: u16, round: u32, period_ns: i64) -> i64 {
    let number = seed_of(&[seed, epoch.cast_unsigned(), u64::from(node), u64::from(round)]);
    let phase = number % period_ns.max(1).unsigned_abs();
    i64::try_from(phase).unwrap_or(0)
}

/// Due time of a round's tick: nanoseconds since 1970.
pub const fn due_ns(epoch: i64, round: u32, phase_ns: i64, period_ns: i64) -> i64 {
    epoch_start_ns(epoch) + round as i64 * period_ns + phase_ns
}

/// Workload of a round. With `member`, the caller's place in its group, members use different
/// workloads at the same time; without it, all the same.
pub const fn workload(round: u32, member: Option<u32>) -> Workload {
    let turn = match member {
        Some(member) => round as u64 + member as u64,
        None => round as u64,
    };
    Workload::ALL[(turn % 5) as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_period_has_one_tick_at_a_time_of_its_own() {
        let of = |node, round| {
            let phase = phase_ns(1, 20_000, node, round, PERIOD_NS);
            assert!((0..PERIOD_NS).contains(&phase));
            due_ns(20_000, round, phase, PERIOD_NS)
        };
        let due: Vec<i64> = (0..1_000).map(|round| of(3, round)).collect();
        assert!(due.is_sorted());
        assert_eq!(epoch_of(due[0]), 20_000);
        assert_ne!(of(3, 0), of(4, 0));
        assert_eq!(epoch_of(-1), -1);
        // Of events that occur ten times a second, each tenth is hit by a tenth of the ticks.
        for tenth in 0..10 {
            let met = due.iter().filter(|due| **due % 100_000_000 / 10_000_000 == tenth).count();
            assert!((60..140).contains(&met), "{tenth}: {met}");
        }
    }

    #[test]
    fn workloads_take_turns() {
        let names: String =
            (0..6).map(|round| workload(round, None).name().to_owned() + " ").collect();
        assert_eq!(names, "null crypto disk network all null ");
        assert_eq!(workload(3, Some(1)), Workload::All);
        assert_eq!(workload(u32::MAX, Some(u32::MAX)), Workload::Null);
    }
}
