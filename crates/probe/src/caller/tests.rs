//! Scenarios of a caller in a synthetic world.

use super::*;
use crate::sample::Workload;
use crate::schedule::EPOCH_NS;

const S: i64 = 1_000_000_000;
const MS: i64 = 1_000_000;
/// Start of the scenarios: an hour into a day.
const START: i64 = 20_000 * EPOCH_NS + 3_600 * S;

struct World {
    caller: Caller,
    now: Moment,
    rows: Vec<Sample>,
    sent: Vec<(u16, Request)>,
    epochs: Vec<Epoch>,
    /// Callees that do not answer; all others answer at once.
    mute: Vec<u16>,
}

impl World {
    fn new() -> Self {
        Self::beginning(START)
    }

    fn beginning(wall_ns: i64) -> Self {
        let config = Config {
            node: 0,
            members: vec![0, 1, 2],
            plan: Plan::new(&[3]).unwrap(),
            seed: 7,
            membership_version: 1,
            period_ns: S,
            stagger: false,
            signs: false,
            first_epoch: 20_000,
        };
        let now = Moment { wall_ns, mono_ns: 500 * S };
        let caller = Caller::new(config, Vec::new(), now);
        let (rows, sent, epochs, mute) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let mut world = Self { caller, now, rows, sent, epochs, mute };
        (0..3).for_each(|node| world.caller.connected(node, 100 + u64::from(node)));
        world.drain();
        world
    }

    /// Lets time pass in steps of 10 ms.
    fn pass(&mut self, ns: i64) {
        for _ in 0..ns / (10 * MS) {
            self.jump(10 * MS);
        }
    }

    /// Lets time pass in one step: the caller was suspended.
    fn jump(&mut self, ns: i64) {
        self.now.wall_ns += ns;
        self.now.mono_ns += ns;
        self.caller.wake(self.now);
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            let outputs: Vec<Output> = self.caller.outputs().collect();
            if outputs.is_empty() {
                break;
            }
            for output in outputs {
                match output {
                    Output::Epoch(epoch) => self.epochs.push(epoch),
                    Output::Row(row) => self.rows.push(row),
                    Output::Send { to, request } => {
                        self.caller.sent(to, &request, self.now.mono_ns);
                        self.sent.push((to, request));
                        if !self.mute.contains(&to) {
                            self.answer(to, &request, 2 * MS);
                        }
                    }
                }
            }
        }
    }

    fn answer(&mut self, from: u16, request: &Request, rtt_ns: i64) {
        let t_rx_ns = request.t_sched_ns + rtt_ns / 2;
        let reply = Reply { request: *request, t_rx_ns, t_tx_ns: t_rx_ns + 1_000 };
        self.caller.replied(from, &reply, self.now.mono_ns + rtt_ns);
    }

    fn of(&self, dst: u16) -> Vec<Sample> {
        self.rows.iter().filter(|row| row.dst == dst).copied().collect()
    }

    fn statuses(&self, dst: u16) -> Vec<Status> {
        self.of(dst).iter().map(|row| row.status).collect()
    }
}

#[test]
fn every_member_is_called_once_a_second_in_turn() {
    let mut world = World::new();
    world.pass(10 * S);
    assert_eq!(world.rows.len(), 30);
    let mine = world.of(1);
    assert!(mine.iter().all(|row| row.t_sched_ns.rem_euclid(EPOCH_NS) / S == i64::from(row.round)));
    assert!(mine.windows(2).all(|two| two[1].round == two[0].round + 1));
    assert!(mine.iter().all(|row| row.status == Status::Ok && row.rtt_100ns == Some(20_000)));
    assert!(mine.iter().all(|row| i64::from(row.lag_ns) < 10 * MS && row.svc_100ns == Some(10)));
    let order: Vec<Workload> = mine.iter().map(|row| row.workload).collect();
    assert_eq!(order[..5], order[5..]);
    // All nodes can compute the due time of a tick.
    let (day, round) = (20_000, mine[0].round);
    assert_eq!(mine[0].t_sched_ns, due_ns(day, round, phase_ns(7, day, 0, round, S), S));
    assert_eq!((world.epochs.len(), world.epochs[0].groups.len()), (1, 1));
}

#[test]
fn a_caller_that_stood_still_shows_it_as_lag_and_skipped_rows() {
    let mut world = World::new();
    world.pass(3 * S);
    world.jump(8 * S);
    world.pass(S);
    let mine = world.of(2);
    assert!(mine.windows(2).all(|two| two[1].round == two[0].round + 1), "no tick is missing");
    let skipped = mine.iter().filter(|row| row.status == Status::Skipped);
    assert_eq!(skipped.count(), 3);
    let lags: Vec<i64> = mine.iter().skip(6).map(|row| i64::from(row.lag_ns) / MS).collect();
    // Five overdue ticks were sent at once; the oldest lag does not fit into the column.
    assert!(lags[0] >= 4_000 && lags[0] - 500 < 4_294 && lags[4] < 1_000, "{lags:?}");
    assert!(lags.windows(2).all(|two| two[0] >= two[1]));
    assert_eq!(world.caller.counts().skipped_rounds, 3);
}

#[test]
fn late_replies_are_kept_for_a_minute() {
    let mut world = World::new();
    world.mute = vec![1];
    world.pass(2 * S);
    let calls: Vec<Request> =
        world.sent.iter().filter(|(to, _)| *to == 1).map(|(_, request)| *request).collect();
    assert!(world.rows.is_empty(), "rows wait for their round");
    world.mute.clear();
    world.pass(30 * S);
    world.answer(1, &calls[0], 0);
    world.pass(40 * S);
    world.answer(1, &calls[1], 0);
    let mine = world.of(1);
    assert_eq!((mine[0].status, mine[1].status), (Status::Late, Status::NoReply));
    assert!(mine[0].latency_ns().unwrap() > 30 * S as u64);
    assert_eq!(mine[1].rtt_100ns, None);
    assert_eq!(mine[2].status, Status::Ok);
    // The other calls of these rounds count as successful.
    assert!(world.of(2).iter().all(|row| row.status == Status::Ok));
}

#[test]
fn what_piles_up_is_given_up_at_once() {
    let mut world = World::new();
    world.caller.config.period_ns = S / 10;
    world.caller.catch_up(world.now.wall_ns);
    world.mute = vec![1];
    world.pass(10 * S);
    let to_one = world.sent.iter().filter(|(to, _)| *to == 1).count();
    assert_eq!(to_one, OUTSTANDING_MAX);
    assert!(world.sent.iter().filter(|(to, _)| *to == 2).count() > OUTSTANDING_MAX);
}

#[test]
fn a_callee_that_began_anew_was_down_and_one_that_came_back_was_cut_off() {
    let mut world = World::new();
    world.pass(2 * S);
    world.mute = vec![1, 2];
    world.pass(S);
    world.caller.disconnected(1);
    world.caller.disconnected(2);
    world.pass(2 * S);
    world.mute.clear();
    world.caller.connected(1, 999);
    world.caller.connected(2, 102);
    world.pass(2 * S);
    use Status::{Down, Ok, Refused};
    assert_eq!(world.statuses(1), [Ok, Ok, Down, Down, Down, Ok, Ok]);
    assert_eq!(world.statuses(2), [Ok, Ok, Refused, Refused, Refused, Ok, Ok]);
    let lives: Vec<u8> = world.of(1).iter().map(|row| row.incarnation).collect();
    assert_ne!(lives[0], lives[6]);
    assert_eq!(world.caller.incarnations()[usize::from(lives[6])], (1, 999));
}

#[test]
fn a_clock_that_is_set_is_said_so_and_repeats_no_round() {
    for by in [10 * S, -10 * S, 400 * MS, -400 * MS] {
        let mut world = World::new();
        world.pass(3 * S);
        world.now.wall_ns += by;
        world.pass(3 * S);
        let mine = world.of(1);
        assert_eq!(world.caller.counts().clock_steps, 1, "{by}");
        assert!(mine.windows(2).all(|two| two[1].round > two[0].round), "{by}");
        assert!(mine.len() >= 5, "ticks go on: {by}");
        let ahead = mine.last().unwrap().t_sched_ns - mine[0].t_sched_ns;
        assert!((ahead - 5 * S - by).abs() < 2 * S, "rows are in the new time: {by}");
        assert!(mine.iter().all(|row| row.status != Status::Skipped), "{by}");
        assert!(mine.iter().all(|row| i64::from(row.lag_ns) < S), "{by}");
    }
    // A call in flight when the clock is set keeps its round trip and is marked.
    let mut world = World::new();
    world.mute = vec![1];
    world.pass(S);
    world.now.wall_ns += S / 2;
    world.pass(20 * MS);
    let (_, call) = world.sent.iter().find(|(to, _)| *to == 1).copied().unwrap();
    world.answer(1, &call, 0);
    world.drain();
    assert_eq!(world.of(1)[0].status, Status::ClockStep);
    assert!(world.of(1)[0].rtt_100ns.is_some());
}

#[test]
fn at_midnight_groups_are_drawn_again() {
    let mut world = World::beginning(20_001 * EPOCH_NS - 2 * S);
    world.pass(5 * S);
    let days: Vec<i64> = world.epochs.iter().map(|epoch| epoch.day).collect();
    assert_eq!(days, [20_000, 20_001]);
    let mine = world.of(1);
    assert!(mine.iter().any(|row| (row.epoch, row.round) == (1, 0)));
    assert!(mine.windows(2).all(|two| two[0].t_sched_ns < two[1].t_sched_ns));
    assert_eq!(mine[0].epoch, 0);
    assert!(mine[0].round > 86_000);
}

#[test]
fn what_is_under_way_at_the_end_is_counted() {
    let mut world = World::new();
    world.pass(2 * S);
    world.mute = vec![2];
    world.pass(S);
    assert!(world.caller.is_waiting(world.now.mono_ns));
    assert!(!world.caller.is_waiting(world.now.mono_ns + 11 * S));
    world.caller.finish();
    world.drain();
    assert_eq!(world.rows.len(), 8);
    assert_eq!(world.caller.counts().open_at_end, 1);
    assert_eq!(world.caller.counts().rows[0], 8);
}
