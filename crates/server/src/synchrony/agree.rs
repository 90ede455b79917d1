//! Agreement on the election time-out that all machines of the cluster use: this machine's
//! proposal, and the change when another time-out is agreed on.

use super::{Mode, Synchrony};
use crate::mail::Mail;
use engine::ids::MachineId;
use engine::limits::{TICK_US_MAX, TICK_US_MIN};
use engine::node::Timing;
use engine::replication::Pace;
use probe::watch::{Agreement, AgreementScene, Bounds, Change, Event, Wish};
use std::collections::BTreeSet;

/// Bounds on the agreed time-out.
fn bounds() -> Bounds {
    let election_us = |tick_us| Pace { tick_us, ..Pace::default() }.election_us() as u32;
    Bounds {
        least_us: election_us(TICK_US_MIN),
        default_us: Pace::default().election_us() as u32,
        most_us: election_us(TICK_US_MAX),
    }
}

/// State of a machine that starts.
pub(super) fn begin(now_us: u64, mode: Mode) -> Agreement {
    Agreement::new(bounds(), now_us, mode == Mode::Apply)
}

impl Synchrony {
    /// Leaves or joins the agreement: until a time-out is agreed on, the machine uses the default.
    pub(super) fn agree_anew(&mut self) {
        let before_us = self.agreement.used_us();
        self.agreement = begin(self.now_us(), self.mode);
        let after_us = self.agreement.used_us();
        if before_us != after_us {
            let evidence = format!("synchrony is {} now", self.mode);
            self.use_time_out(&Change { before_us, after_us, evidence });
        }
    }

    /// Records the time-out that another machine uses and the one that would suffice for it.
    pub fn wished(&mut self, machine: MachineId, wish: Wish) {
        if self.mode != Mode::Off {
            let now_us = self.now_us();
            self.agreement.hear(now_us, machine.0, wish);
        }
    }

    /// Ends a window: sends this machine's proposal to the others and applies the agreed time-out.
    pub(super) fn agree(&mut self, now_us: u64) {
        let Some(machines) = self.around.map.machines() else { return };
        self.propose();
        let own = self.around.own.0;
        let machines: BTreeSet<u16> = machines.iter().map(|machine| machine.0).collect();
        let verdicts = self.judge.verdicts();
        let left: BTreeSet<u16> =
            verdicts.iter().filter_map(|verdict| verdict.subject.to_be_left()).collect();
        let scene = AgreementScene { now_us, own, machines: &machines, left: &left };
        if let Some(change) = self.agreement.close(&scene) {
            self.use_time_out(&change);
        }
        self.send_all(&Timing::Wish(self.agreement.wish()));
    }

    /// Proposes the calibrated time-out. If it relies on a fitted law, proposes the upper end of
    /// the interval, or nothing if the law is too weak to give one.
    fn propose(&mut self) {
        let Some(timers) = self.calibration.found() else { return };
        let proposed_ms = if timers.extrapolated { timers.high_ms } else { timers.election_ms };
        let proposed_us = proposed_ms.map(|ms| ms * 1e3);
        self.agreement.propose(proposed_us.map_or(0, |us| us as u32));
    }

    fn use_time_out(&mut self, change: &Change) {
        let Pace { tick_us, .. } = Pace::of_election(change.after_us.into());
        for worker in &self.around.workers {
            worker.send(Mail::Tick(tick_us));
        }
        let [before, after] =
            [change.before_us, change.after_us].map(|us| format!("{} ms", us / 1_000));
        let evidence = change.evidence.clone();
        tracing::info!("election time-out: {after} instead of {before} ({evidence})");
        let at_ms = self.around.clock.now().wall_us / 1000;
        let what = "election time-out: changed".to_owned();
        self.judge.note(Event { at_ms, what, before, after, evidence });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::limits::TICK_US;

    #[test]
    fn a_time_out_is_so_many_ticks_and_never_less() {
        let Bounds { least_us, default_us, most_us } = bounds();
        assert_eq!((least_us, default_us, most_us), (190_000, 950_000, 2_850_000));
        let ticks = [least_us, default_us, most_us].map(|us| Pace::of_election(us.into()).tick_us);
        assert_eq!(ticks, [TICK_US_MIN, TICK_US, TICK_US_MAX]);
        assert!((333_333..333_353).contains(&Pace::of_election(333_333).election_us()));
    }
}
