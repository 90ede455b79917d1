//! When a caller calls, and what: an open loop.
//!
//! The next call is due at a time that no reply can move. Whoever wakes up too late sends what is
//! overdue at once, with its true lag, and writes down what is too old to be sent: a stalled caller
//! is then seen in the data, instead of making a hole in it.

use crate::random::seed_of;
use crate::sample::Workload;

/// Nanoseconds of an epoch: a day.
pub const EPOCH_NS: i64 = 86_400_000_000_000;
/// Nanoseconds between two ticks of a caller.
pub const PERIOD_NS: i64 = 1_000_000_000;
/// A tick that is overdue by more than this is skipped.
pub const OVERDUE_MAX_NS: i64 = 5_000_000_000;
/// A reply after this is late.
pub const DEADLINE_NS: i64 = 10_000_000_000;
/// A reply after this is none.
pub const GIVE_UP_NS: i64 = 60_000_000_000;
/// With so many rounds outstanding to one callee, a new call counts as unanswered at once.
pub const OUTSTANDING_MAX: usize = 64;

/// The epoch of a time in nanoseconds since 1970: days since then.
pub const fn epoch_of(wall_ns: i64) -> i64 {
    wall_ns.div_euclid(EPOCH_NS)
}

/// When an epoch begins.
pub const fn epoch_start_ns(epoch: i64) -> i64 {
    epoch * EPOCH_NS
}

/// How long after the start of its period a node's tick is due. Spread over the period, so that observers
/// look at a node at different instants, and drawn for each round: what comes as regularly as ticks do,
/// such as a quota of a processor every 100 ms, would else be met by some at every tick and by others at
/// none.
pub fn phase_ns(seed: u64, epoch: i64, node: u16, round: u32, period_ns: i64) -> i64 {
    let number = seed_of(&[seed, epoch.cast_unsigned(), u64::from(node), u64::from(round)]);
    let phase = number % period_ns.max(1).unsigned_abs();
    i64::try_from(phase).unwrap_or(0)
}

/// When the tick of a round is due: nanoseconds since 1970.
pub const fn due_ns(epoch: i64, round: u32, phase_ns: i64, period_ns: i64) -> i64 {
    epoch_start_ns(epoch) + round as i64 * period_ns + phase_ns
}

/// The workload of a round. With `member`, the caller's place in its group, members take different
/// ones at a time; without, all the same.
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
        // Every tenth of whatever comes ten times a second is met by a tenth of them.
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
