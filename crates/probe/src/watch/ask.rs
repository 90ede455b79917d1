//! Schedule and results of the requests to other machines: one machine's own measurements.

use super::disks::AppendRow;
use super::law::{LOST_US, Sliding};
use super::timers::Collected;
use super::{ANSWER_US_MAX, ASK_US, GRACE_US, P50, P90, P99};
use crate::random::seed_of;
use std::collections::{BTreeMap, VecDeque};

const MINUTE_US: u64 = 60_000_000;
const DAY_US: u64 = 24 * 60 * MINUTE_US;
/// Maximum number of unanswered requests to one machine; never reached unless time jumps.
const OPEN_MAX: usize = 64;

/// One machine's measurements of all others in the last minute.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Window number of the machine.
    pub number: u32,
    /// Uptime of the machine, in seconds.
    pub up_s: u32,
    /// Lateness of its own timers: the 90th percentile.
    pub late_us: u32,
    /// Measurements of each other machine.
    pub rows: Vec<Row>,
}

/// One machine's measurements of another one in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Measured machine.
    pub machine: u16,
    /// Number of requests.
    pub count: u16,
    /// Number of requests without an answer in time.
    pub lost: u16,
    /// Seconds since the last answer; the largest number if there was none.
    pub silent_s: u16,
    /// Median of the round trips; [`LOST_US`] if that many were lost.
    pub p50_us: u32,
    /// 90th percentile of the round trips.
    pub p90_us: u32,
    /// Shortest round trip of a day: the distance of the other machine.
    pub near_us: u32,
    /// 90th percentile of the other machine's processing time, by its own clock.
    pub service_us: u32,
    /// Whether the machine has been connected for long enough to be judged.
    pub settled: bool,
}

/// Quantiles of a time span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Law3 {
    /// Number of requests.
    pub count: u32,
    /// Number of requests without an answer.
    pub lost: u32,
    /// Median; [`LOST_US`] if that many were lost.
    pub p50_us: u32,
    /// 90th percentile.
    pub p90_us: u32,
    /// 99th percentile.
    pub p99_us: u32,
}

/// An unanswered request.
#[derive(Debug)]
struct Open {
    number: u32,
    due_us: u64,
    /// Lag at which it was sent.
    lag_us: u32,
    /// Whether there was a connection then.
    linked: bool,
}

impl Open {
    /// Result of the request: the round trip and the other machine's share of it, if it was
    /// answered.
    fn seen(&self, machine: u16, answer: Option<(u32, u32)>) -> Seen {
        Seen {
            machine,
            append: false,
            due_us: self.due_us,
            lag_us: self.lag_us,
            rtt_us: answer.map(|(rtt_us, _)| rtt_us),
            service_us: answer.map(|(_, service_us)| service_us),
            linked: self.linked,
        }
    }
}

/// A request or an append, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Measured machine.
    pub machine: u16,
    /// Whether it is an append, until it was durable, instead of a request.
    pub append: bool,
    /// Due time. An append is due when it is sent.
    pub due_us: u64,
    /// Lag at which it was sent.
    pub lag_us: u32,
    /// Round trip; `None` without an answer in time.
    pub rtt_us: Option<u32>,
    /// Processing time of a request at the other machine, by its own clock.
    pub service_us: Option<u32>,
    /// Whether there was a connection at the due time.
    pub linked: bool,
}

#[derive(Debug)]
struct Peer {
    since_us: u64,
    /// Approximate time of the first request; number of requests, including missed ones; and time
    /// of the next one.
    begun_us: u64,
    asked: u64,
    next_us: u64,
    /// Number of the ordered pair, which determines the times of its requests.
    pair: u64,
    /// Unanswered requests.
    open: VecDeque<Open>,
    minute: Sliding,
    tens: Sliding,
    day: Sliding,
    service: Sliding,
    /// Times until appends were durable there: of the last minute, and of the last day.
    appends: Sliding,
    appends_of_day: Sliding,
    answered_us: Option<u64>,
    lost_total: u64,
}

impl Peer {
    fn new(now_us: u64, pair: u64) -> Self {
        let mut new = Self {
            since_us: now_us,
            begun_us: now_us,
            asked: 0,
            next_us: 0,
            pair,
            open: VecDeque::new(),
            minute: Sliding::new(MINUTE_US),
            tens: Sliding::new(10 * MINUTE_US),
            day: Sliding::new(DAY_US),
            service: Sliding::new(MINUTE_US),
            appends: Sliding::new(MINUTE_US),
            appends_of_day: Sliding::new(DAY_US),
            answered_us: None,
            lost_total: 0,
        };
        new.plan();
        new
    }

    /// Schedules the next request: once per second, at another time within each. Periodic events of
    /// the same frequency would otherwise always hit some requests and never others.
    fn plan(&mut self) {
        let number = seed_of(&[self.pair, self.asked]);
        self.next_us = self.begun_us + self.asked * ASK_US + number % ASK_US;
        self.asked += 1;
    }

    fn record(&mut self, now_us: u64, us: u32) {
        self.minute.record(now_us, us);
        self.tens.record(now_us, us);
        self.day.record(now_us, us);
        self.lost_total += u64::from(us == LOST_US);
    }

    /// Gives up requests that were due too long ago, and returns them.
    fn give_up(&mut self, now_us: u64) -> Vec<Open> {
        let mut given_up = Vec::new();
        while let Some(open) = self.open.front()
            && (now_us.saturating_sub(open.due_us) >= ANSWER_US_MAX || self.open.len() > OPEN_MAX)
        {
            given_up.extend(self.open.pop_front());
            self.record(now_us, LOST_US);
        }
        given_up
    }

    /// Whether it has been connected for long enough to be judged.
    fn is_settled(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) >= GRACE_US
    }

    fn silent_us(&self, now_us: u64) -> u64 {
        self.answered_us.map_or(u64::MAX, |at| now_us.saturating_sub(at))
    }
}

/// Measurements of one machine.
#[derive(Debug)]
pub struct Asker {
    own: u16,
    began_us: u64,
    number: u32,
    next_question: u32,
    late: Sliding,
    peers: BTreeMap<u16, Peer>,
    collected: Collected,
    /// Measurements that have not been taken yet, if they are kept.
    seen: Option<Vec<Seen>>,
}

impl Asker {
    /// Creates the measurements of machine `own`, which starts now.
    pub fn new(own: u16, now_us: u64) -> Self {
        let (late, collected) = (Sliding::new(MINUTE_US), Collected::default());
        let (number, next_question, peers) = (0, 0, BTreeMap::new());
        let seen = None;
        Self { own, began_us: now_us, number, next_question, late, peers, collected, seen }
    }

    /// Keeps every single measurement until it is taken.
    pub fn keep_seen(&mut self) {
        self.seen.get_or_insert_default();
    }

    /// Takes the measurements since the last call, if they are kept.
    pub fn take_seen(&mut self) -> Vec<Seen> {
        self.seen.as_mut().map_or_else(Vec::new, std::mem::take)
    }

    /// Sets the machines of the cluster; measurements of others are dropped.
    pub fn know(&mut self, now_us: u64, machines: impl IntoIterator<Item = u16>) {
        let mut known = std::mem::take(&mut self.peers);
        let own = self.own;
        for machine in machines.into_iter().filter(|machine| *machine != own) {
            // Spreads the requests: not all machines send at one moment, nor one machine to all
            // others.
            let pair = u64::from(own) << 16 | u64::from(machine);
            let peer = known.remove(&machine).unwrap_or_else(|| Peer::new(now_us, pair));
            self.peers.insert(machine, peer);
        }
    }

    /// Handles a new connection: the machine may have restarted, and is not judged for a while.
    pub fn connected(&mut self, now_us: u64, machine: u16) {
        if let Some(peer) = self.peers.get_mut(&machine) {
            peer.since_us = now_us;
        }
    }

    /// Time of the next due request.
    pub fn due_us(&self) -> Option<u64> {
        self.peers.values().map(|peer| peer.next_us).min()
    }

    /// Returns the due requests: machine, number, and due time. Requests that were missed while
    /// this machine was suspended are lost, and not made up for.
    pub fn questions(&mut self, now_us: u64) -> Vec<(u16, u32, u64)> {
        let mut due = Vec::new();
        for (machine, peer) in &mut self.peers {
            for open in peer.give_up(now_us) {
                self.collected.add(*machine, open.lag_us, LOST_US);
                self.seen.iter_mut().for_each(|all| all.push(open.seen(*machine, None)));
            }
            while peer.next_us + ANSWER_US_MAX <= now_us {
                peer.plan();
            }
            while peer.next_us <= now_us {
                let number = self.next_question;
                self.next_question = self.next_question.wrapping_add(1);
                let due_us = peer.next_us;
                let lag_us = u32::try_from(now_us - due_us).unwrap_or(LOST_US);
                peer.open.push_back(Open { number, due_us, lag_us, linked: true });
                due.push((*machine, number, due_us));
                peer.plan();
            }
        }
        due
    }

    /// Records that no connection exists for the newest request to a machine.
    pub fn cannot_send(&mut self, machine: u16) {
        let peer = self.peers.get_mut(&machine);
        if let Some(open) = peer.and_then(|peer| peer.open.back_mut()) {
            open.linked = false;
        }
    }

    /// Records an answer after a time, of which the other machine took `service_us` itself.
    pub fn answered(
        &mut self,
        now_us: u64,
        machine: u16,
        number: u32,
        (rtt_us, service_us): (u32, u32),
    ) {
        let Some(peer) = self.peers.get_mut(&machine) else { return };
        let on_time = |open: &Open| {
            open.number == number && now_us.saturating_sub(open.due_us) < ANSWER_US_MAX
        };
        let Some(at) = peer.open.iter().position(on_time) else { return };
        let Some(open) = peer.open.remove(at) else { return };
        self.collected.add(machine, open.lag_us, rtt_us.min(LOST_US - 1));
        peer.answered_us = Some(now_us);
        peer.record(now_us, rtt_us.min(LOST_US - 1));
        peer.service.record(now_us, service_us.min(LOST_US - 1));
        let seen = open.seen(machine, Some((rtt_us, service_us)));
        self.seen.iter_mut().for_each(|all| all.push(seen));
    }

    /// Records an append that was durable on another machine after a time, or never ([`LOST_US`]).
    pub fn appended(&mut self, now_us: u64, machine: u16, us: u32) {
        if let Some(peer) = self.peers.get_mut(&machine) {
            peer.appends.record(now_us, us);
            peer.appends_of_day.record(now_us, us);
            let (due_us, rtt_us) = match us {
                LOST_US => (now_us.saturating_sub(ANSWER_US_MAX), None),
                us => (now_us.saturating_sub(u64::from(us)), Some(us)),
            };
            let (append, lag_us, service_us, linked) = (true, 0, None, true);
            let seen = Seen { machine, append, due_us, lag_us, rtt_us, service_us, linked };
            self.seen.iter_mut().for_each(|all| all.push(seen));
        }
    }

    /// Times of appends on other machines in the last minute; without machines that got no appends,
    /// or that have just connected and may have to catch up.
    pub fn appends(&mut self, now_us: u64) -> Vec<AppendRow> {
        let rows = self.peers.iter_mut().filter_map(|(machine, peer)| {
            let minute = peer.appends.law(now_us);
            let short = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
            (minute.count() > 0 && peer.is_settled(now_us)).then(|| AppendRow {
                machine: *machine,
                count: short(minute.count()),
                lost: short(minute.lost()),
                p90_us: minute.quantile_us(P90),
                near_us: peer.appends_of_day.law(now_us).least_us(),
            })
        });
        rows.collect()
    }

    /// Records the lateness of a timer of this machine.
    pub fn late(&mut self, now_us: u64, us: u32) {
        self.late.record(now_us, us.min(LOST_US - 1));
    }

    /// Lateness of this machine's own timers in the last minute.
    pub fn lateness(&mut self, now_us: u64) -> Law3 {
        law3(&mut self.late, now_us)
    }

    /// Figures of the window that ends now.
    pub fn figures(&mut self, now_us: u64) -> Figures {
        self.number += 1;
        let seconds = |us: u64| u32::try_from(us / 1_000_000).unwrap_or(u32::MAX);
        let short = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let late = self.late.law(now_us);
        let late_us = if late.count() == 0 { 0 } else { late.quantile_us(P90) };
        let rows = self.peers.iter_mut().map(|(machine, peer)| {
            let (minute, service) = (peer.minute.law(now_us), peer.service.law(now_us));
            Row {
                machine: *machine,
                count: short(minute.count()),
                lost: short(minute.lost()),
                silent_s: short(seconds(peer.silent_us(now_us))),
                p50_us: minute.quantile_us(P50),
                p90_us: minute.quantile_us(P90),
                near_us: peer.day.law(now_us).least_us(),
                service_us: if service.count() == 0 { 0 } else { service.quantile_us(P90) },
                settled: peer.is_settled(now_us),
            }
        });
        let rows = rows.collect();
        let up_s = seconds(now_us.saturating_sub(self.began_us));
        Figures { number: self.number, up_s, late_us, rows }
    }

    /// Measurements so far, for time-outs.
    pub fn collected(&self) -> &Collected {
        &self.collected
    }

    /// Distributions of each machine: the last minute, the last ten minutes and the last day.
    pub fn laws(&mut self, now_us: u64) -> Vec<(u16, [Law3; 3])> {
        let laws = |peer: &mut Peer| {
            [&mut peer.minute, &mut peer.tens, &mut peer.day].map(|law| law3(law, now_us))
        };
        self.peers.iter_mut().map(|(machine, peer)| (*machine, laws(peer))).collect()
    }

    /// Number of requests to each machine that were never answered in time, since this machine
    /// started.
    pub fn lost_totals(&self) -> impl Iterator<Item = (u16, u64)> {
        self.peers.iter().map(|(machine, peer)| (*machine, peer.lost_total))
    }
}

fn law3(sliding: &mut Sliding, now_us: u64) -> Law3 {
    let law = sliding.law(now_us);
    let (count, lost) = (law.count(), law.lost());
    let [p50_us, p90_us, p99_us] = [P50, P90, P99].map(|ppm| law.quantile_us(ppm));
    Law3 { count, lost, p50_us, p90_us, p99_us }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    /// Machine 1 sends requests to two others for some seconds; `answers` gives their delay in
    /// microseconds.
    fn asked(seconds: u64, answers: impl Fn(u16, u64) -> Option<u32>) -> Asker {
        let mut asker = Asker::new(1, 0);
        asker.know(0, [1, 2, 3]);
        for step in 0..seconds * 10 {
            let now_us = step * 100_000;
            for (machine, number, due_us) in asker.questions(now_us) {
                if let Some(us) = answers(machine, due_us / SECOND) {
                    asker.answered(now_us, machine, number, (us, us / 10));
                }
            }
        }
        asker
    }

    #[test]
    fn every_measurement_is_kept_if_that_is_asked_for_and_taken_once() {
        let mut asker = Asker::new(1, 0);
        asker.know(0, [1, 2]);
        let [(_, first, first_us), ..] = asker.questions(SECOND)[..] else { panic!("one is due") };
        asker.answered(SECOND, 2, first, (40, 4));
        assert_eq!(asker.take_seen(), [], "it is not kept");
        asker.keep_seen();
        let [(_, next, next_us), ..] = asker.questions(2 * SECOND)[..] else {
            panic!("one is due")
        };
        assert!(first_us < SECOND && (SECOND..2 * SECOND).contains(&next_us));
        asker.answered(2 * SECOND, 2, next, (50, 5));
        asker.appended(2 * SECOND, 2, 900);
        asker.appended(2 * SECOND, 2, LOST_US);
        asker.questions(3 * SECOND);
        asker.cannot_send(2);
        let _ = asker.questions(8 * SECOND);
        let (machine, lag_us) = (2, (2 * SECOND - next_us) as u32);
        let answered = Seen {
            machine,
            append: false,
            due_us: next_us,
            lag_us,
            rtt_us: Some(50),
            service_us: Some(5),
            linked: true,
        };
        let due_us = 2 * SECOND - 900;
        let append = Seen { append: true, due_us, lag_us: 0, service_us: None, ..answered };
        let append = Seen { rtt_us: Some(900), ..append };
        let none = Seen { rtt_us: None, service_us: None, ..answered };
        // Five seconds before it was given up.
        let lost_append = Seen { append: true, due_us: 0, lag_us: 0, ..none };
        let seen = asker.take_seen();
        assert_eq!(seen[..3], [answered, append, lost_append]);
        let [_, _, _, lost] = seen[..] else { panic!("one is lost: {seen:?}") };
        assert!((2 * SECOND..3 * SECOND).contains(&lost.due_us) && lost.rtt_us.is_none());
        assert!(!lost.linked);
        assert_eq!(asker.take_seen(), []);
    }

    #[test]
    fn every_machine_is_asked_once_a_second() {
        let mut asker = asked(200, |machine, _| Some(u32::from(machine) * 100));
        let figures = asker.figures(200 * SECOND);
        assert_eq!((figures.number, figures.up_s, figures.late_us), (1, 200, 0));
        let told: Vec<(u16, bool)> = figures.rows.iter().map(|r| (r.machine, r.settled)).collect();
        assert_eq!(told, [(2, true), (3, true)]);
        let [near, _] = [figures.rows[0], figures.rows[1]];
        assert!((50..=60).contains(&near.count) && near.lost == 0 && near.silent_s <= 1);
        assert_eq!(near.near_us, 200);
        assert!((200..214).contains(&near.p90_us) && near.service_us < 25);
    }

    #[test]
    fn silence_is_told() {
        let mut asker = asked(60, |machine, second| (machine == 2 || second < 40).then_some(200));
        let rows = asker.figures(60 * SECOND).rows;
        assert_eq!(rows[0].lost, 0);
        assert!(rows[1].lost > 10 && rows[1].silent_s >= 19, "{rows:?}");
        assert_eq!(rows[1].p90_us, LOST_US);
        assert!(rows[1].p50_us < LOST_US, "most were answered");
        let never = asked(60, |machine, _| (machine == 2).then_some(200)).figures(60 * SECOND);
        assert_eq!((never.rows[1].silent_s, never.rows[1].near_us), (u16::MAX, LOST_US));
    }

    #[test]
    fn an_answer_counts_once_and_only_in_time() {
        let mut asker = Asker::new(1, 0);
        asker.know(0, [1, 2]);
        let (machine, number, _) = asker.questions(SECOND)[0];
        asker.answered(SECOND, machine, number, (10, 1));
        asker.answered(SECOND, machine, number, (10, 1));
        asker.answered(SECOND, 9, number, (10, 1));
        let (_, late, due_us) = asker.questions(2 * SECOND)[0];
        let over_us = due_us + ANSWER_US_MAX;
        asker.answered(over_us, 2, late, (10, 1));
        asker.questions(over_us);
        let row = asker.figures(over_us).rows[0];
        assert_eq!((row.count, row.lost), (2, 1));
        assert_eq!(asker.lost_totals().collect::<Vec<_>>(), [(2, 1)]);
    }

    #[test]
    fn a_machine_that_stood_still_does_not_ask_everything_at_once() {
        let mut asker = Asker::new(1, 0);
        asker.know(0, [2]);
        assert_eq!(asker.questions(SECOND).len(), 1);
        assert!(asker.questions(3_600 * SECOND).len() <= 5);
        let row = asker.figures(3_600 * SECOND).rows[0];
        assert_eq!((row.count, row.lost), (1, 1));
    }

    #[test]
    fn appends_are_told_of_machines_that_are_there_for_long_enough() {
        let mut asker = Asker::new(1, 0);
        asker.know(0, [1, 2, 3]);
        for second in 0..200 {
            let us = if second % 8 == 0 { LOST_US } else { 700 };
            asker.appended(second * SECOND, 2, us);
            asker.appended(second * SECOND, 9, us);
        }
        let [row] = asker.appends(200 * SECOND)[..] else { panic!("for machine 2 alone") };
        assert!((50..=60).contains(&row.count) && row.lost >= 6, "{row:?}");
        assert_eq!((row.machine, row.p90_us, row.near_us), (2, LOST_US, 700));
        asker.connected(200 * SECOND, 2);
        assert_eq!(asker.appends(201 * SECOND), []);
        assert_eq!(asker.appends(300 * SECOND), [], "nothing was sent for a minute");
    }

    #[test]
    fn a_machine_that_just_connected_is_not_settled() {
        let mut asker = asked(200, |_, _| Some(100));
        asker.connected(200 * SECOND, 3);
        let settled = |asker: &mut Asker, at| {
            asker.figures(at).rows.iter().map(|r| r.settled).collect::<Vec<_>>()
        };
        assert_eq!(settled(&mut asker, 201 * SECOND), [true, false]);
        assert_eq!(settled(&mut asker, 200 * SECOND + GRACE_US), [true, true]);
    }
}
