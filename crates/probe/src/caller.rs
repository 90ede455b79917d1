//! An agent as a caller: due calls, calls in flight, and the result of each.
//!
//! This is a state machine. Its inputs are the time and events on connections, its outputs requests
//! to send and rows to write; sockets, clocks and files are handled elsewhere. Rows come out in the
//! order in which they were due, each when its result is settled, a minute after it was due at the
//! latest.
//!
//! Nothing is left out silently: a caller that wakes up late sends overdue calls with their true
//! lag; calls overdue by more than five seconds become rows of their own kind; a callee without a
//! connection is a row; and calls in flight at the end are counted.

mod clock;
mod rounds;
#[cfg(test)]
mod tests;

pub use clock::{Moment, STEP_NS};

use crate::groups::{Grouping, Plan, draw};
use crate::message::{Reply, Request};
use crate::sample::{Sample, Status, Workload};
use crate::schedule::{
    DEADLINE_NS, GIVE_UP_NS, OUTSTANDING_MAX, OVERDUE_MAX_NS, due_ns, epoch_of, epoch_start_ns,
    phase_ns, workload,
};
use clock::Clock;
use rounds::{Call, Fate, Round};
use std::collections::{BTreeMap, VecDeque};

/// Incarnations that a file can name; all later ones share the last.
const INCARNATIONS_MAX: usize = 255;

/// Configuration of a caller.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of this node.
    pub node: u16,
    /// All nodes.
    pub members: Vec<u16>,
    /// Sizes of groups.
    pub plan: Plan,
    /// Seed of groups and phases.
    pub seed: u64,
    /// The version of the member list.
    pub membership_version: u64,
    /// Time between two ticks.
    pub period_ns: i64,
    /// Whether members use different workloads at the same time.
    pub stagger: bool,
    /// Whether callees of workload B sign the hash.
    pub signs: bool,
    /// Day that rows call 0.
    pub first_epoch: i64,
}

/// Output of the state machine.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Output {
    /// An epoch begins, with these groups; its rows follow all rows of the previous one.
    Epoch(Epoch),
    /// Send this request.
    Send {
        /// Callee.
        to: u16,
        /// Request; the sender fills in the time at which its first byte was handed to the kernel.
        request: Request,
    },
    /// Write this row.
    Row(Sample),
}

/// The groups of an epoch.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Epoch {
    /// Day, counted since 1970.
    pub day: i64,
    /// Members of each group.
    pub groups: Vec<Vec<u16>>,
    /// Nodes in no group.
    pub resting: Vec<u16>,
}

/// Counts of events.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Number of ticks, including skipped ones.
    pub rounds: u64,
    /// Number of ticks that were too late to be sent.
    pub skipped_rounds: u64,
    /// Rows by status.
    pub rows: [u64; 8],
    /// Steps of the wall clock.
    pub clock_steps: u64,
    /// Calls in flight at the end: neither answered nor given up.
    pub open_at_end: u64,
}

/// State of the connection to a callee.
#[derive(Clone, Debug, Default)]
struct Callee {
    connected: bool,
    incarnation: Option<u8>,
    outstanding: usize,
}

/// State machine of a caller.
#[derive(Debug)]
pub struct Caller {
    config: Config,
    clock: Clock,
    day: i64,
    /// Number of whole periods by which the wall clock was set back within the epoch: rounds are
    /// not repeated.
    set_back: i64,
    /// Next tick.
    round: u32,
    /// Group of the caller and its members; `None` if it rests.
    group: Option<(u16, Vec<u16>)>,
    callees: BTreeMap<u16, Callee>,
    incarnations: Vec<(u16, u64)>,
    rounds: VecDeque<Round>,
    outputs: Vec<Output>,
    counts: Counts,
}

impl Caller {
    /// Begins with the first tick after `now`. `known` are incarnations that files of this epoch
    /// already name.
    pub fn new(config: Config, known: Vec<(u16, u64)>, now: Moment) -> Self {
        let mut caller = Self {
            clock: Clock::new(now),
            day: epoch_of(now.wall_ns),
            set_back: 0,
            round: 0,
            group: None,
            callees: config.members.iter().map(|node| (*node, Callee::default())).collect(),
            incarnations: known,
            rounds: VecDeque::new(),
            outputs: Vec::new(),
            counts: Counts::default(),
            config,
        };
        caller.begin_epoch(caller.day);
        caller.catch_up(now.wall_ns);
        caller
    }

    /// Node and number of every incarnation that rows point to.
    pub fn incarnations(&self) -> &[(u16, u64)] {
        &self.incarnations
    }

    /// Counts so far.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Day whose ticks are due now.
    pub const fn day(&self) -> i64 {
        self.day
    }

    /// Takes the outputs, in order.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.outputs.drain(..)
    }

    /// Due time of the next tick, on the monotonic clock.
    pub fn due_mono_ns(&self) -> i64 {
        self.clock.mono_of(self.due_wall_ns())
    }

    fn due_wall_ns(&self) -> i64 {
        self.due_of(self.round) - self.set_back * self.config.period_ns
    }

    fn due_of(&self, round: u32) -> i64 {
        let Config { node, seed, period_ns, .. } = self.config;
        due_ns(self.day, round, phase_ns(seed, self.day, node, round, period_ns), period_ns)
    }

    fn begin_epoch(&mut self, day: i64) {
        let Config { node, seed, plan, members, membership_version, .. } = &self.config;
        let epoch = u32::try_from(day).unwrap_or(0);
        let grouping = draw(members, plan, *seed, epoch, *membership_version);
        let mine = grouping.groups.iter().position(|group| group.contains(node));
        self.group = mine.map(|at| (at as u16, grouping.groups[at].clone()));
        self.day = day;
        (self.round, self.set_back) = (0, 0);
        let Grouping { groups, resting } = grouping;
        self.outputs.push(Output::Epoch(Epoch { day, groups, resting }));
    }

    /// Leaves out ticks that were due before this moment, when the caller was not running.
    fn catch_up(&mut self, wall_ns: i64) {
        let since = wall_ns - epoch_start_ns(self.day);
        let now = since.div_euclid(self.config.period_ns).max(0);
        self.round = u32::try_from(now).unwrap_or(u32::MAX);
        if self.due_of(self.round) <= wall_ns {
            self.round = self.round.saturating_add(1);
        }
        self.turn_epoch();
    }

    /// Changes to the next epoch if the next tick belongs to it.
    fn turn_epoch(&mut self) {
        let day = epoch_of(self.due_wall_ns());
        if day > self.day {
            self.begin_epoch(day);
        }
    }

    /// Handles the current time: sends due calls, and gives up calls whose time limit is over.
    pub fn wake(&mut self, now: Moment) {
        let step_ns = self.clock.look(now);
        if step_ns != 0 {
            self.stepped(step_ns, now);
        }
        while self.due_mono_ns() <= now.mono_ns {
            self.tick(now);
            self.round = self.round.saturating_add(1);
            self.turn_epoch();
        }
        for round in &mut self.rounds {
            for call in &mut round.calls {
                let waiting = matches!(call.fate, Fate::Waiting { .. } | Fate::Broken);
                if waiting && now.mono_ns - round.due_mono_ns >= GIVE_UP_NS {
                    if matches!(call.fate, Fate::Waiting { .. }) {
                        Self::release(&mut self.callees, call.to);
                    }
                    call.fate = Fate::Settled(match call.fate {
                        Fate::Broken => Status::Refused,
                        _ => Status::NoReply,
                    });
                }
            }
        }
        self.flush();
    }

    /// Handles a step of the wall clock: calls in flight are marked, and ticks go on in the new
    /// time without repeating a round.
    fn stepped(&mut self, step_ns: i64, now: Moment) {
        self.counts.clock_steps += 1;
        let period_ns = self.config.period_ns;
        let since_ns = now.mono_ns - 2 * period_ns;
        for round in self
            .rounds
            .iter_mut()
            .filter(|round| !round.is_settled() || round.due_mono_ns >= since_ns)
        {
            round.clock_step = true;
        }
        let ahead_ns = self.due_wall_ns() - now.wall_ns;
        if step_ns < 0 && ahead_ns > period_ns {
            self.set_back += ahead_ns / period_ns;
        } else if ahead_ns < -period_ns {
            // Time that never existed does not count as skipped.
            self.set_back = 0;
            let day = epoch_of(now.wall_ns);
            if day > self.day {
                self.begin_epoch(day);
            }
            let before = self.round;
            self.catch_up(now.wall_ns);
            if epoch_of(now.wall_ns) == self.day {
                self.round = self.round.max(before);
            }
        }
    }

    fn tick(&mut self, now: Moment) {
        let Some((group, members)) = self.group.clone() else { return };
        self.counts.rounds += 1;
        let member = members.iter().position(|node| *node == self.config.node).unwrap_or(0) as u32;
        let due_mono_ns = self.due_mono_ns();
        let overdue_ns = now.mono_ns - due_mono_ns;
        let mut round = Round {
            day: self.day,
            group,
            size: members.len() as u8,
            workload: workload(self.round, self.config.stagger.then_some(member)),
            number: self.round,
            due_wall_ns: self.due_wall_ns(),
            due_mono_ns,
            clock_step: false,
            calls: Vec::with_capacity(members.len()),
        };
        let skipped = overdue_ns > OVERDUE_MAX_NS;
        self.counts.skipped_rounds += u64::from(skipped);
        for to in members {
            let callee = self.callees.entry(to).or_default();
            let fate = if skipped {
                Fate::Settled(Status::Skipped)
            } else if !callee.connected {
                Fate::Broken
            } else if callee.outstanding >= OUTSTANDING_MAX {
                Fate::Settled(Status::NoReply)
            } else {
                callee.outstanding += 1;
                let request = Request {
                    workload: round.workload,
                    signs: self.config.signs && round.workload == Workload::Crypto,
                    group: u32::from(group),
                    round: self.round,
                    t_sched_ns: round.due_wall_ns,
                    t_send_ns: now.mono_ns.unsigned_abs(),
                };
                self.outputs.push(Output::Send { to, request });
                Fate::Waiting { sent_mono_ns: None }
            };
            let incarnation = callee.incarnation.unwrap_or(u8::MAX);
            round.calls.push(Call { to, fate, incarnation, lag_ns: overdue_ns, reply: None });
        }
        self.rounds.push_back(round);
    }

    fn call(&mut self, to: u16, day: Option<i64>, number: u32) -> Option<(&mut Call, i64)> {
        let mut rounds = self.rounds.iter_mut().rev();
        let round = rounds.find(|round| {
            round.number == number && day.is_none_or(|due_ns| round.due_wall_ns == due_ns)
        })?;
        let due_mono_ns = round.due_mono_ns;
        round.calls.iter_mut().find(|call| call.to == to).map(|call| (call, due_mono_ns))
    }

    /// Records that the first byte of a request was handed to the kernel.
    pub fn sent(&mut self, to: u16, request: &Request, mono_ns: i64) {
        let Some((call, due_mono_ns)) = self.call(to, Some(request.t_sched_ns), request.round)
        else {
            return;
        };
        if let Fate::Waiting { sent_mono_ns } = &mut call.fate {
            *sent_mono_ns = Some(mono_ns);
            call.lag_ns = mono_ns - due_mono_ns;
        }
    }

    /// Records that a reply has been read to its end.
    pub fn replied(&mut self, from: u16, reply: &Reply, mono_ns: i64) {
        let due_wall_ns = reply.request.t_sched_ns;
        let found = self.call(from, Some(due_wall_ns), reply.request.round);
        let Some((call, due_mono_ns)) = found else { return };
        let Fate::Waiting { sent_mono_ns: Some(sent_mono_ns) } = call.fate else { return };
        let late = mono_ns - due_mono_ns > DEADLINE_NS;
        call.fate = Fate::Settled(if late { Status::Late } else { Status::Ok });
        call.reply = Some(rounds::Measured {
            rtt_ns: mono_ns - sent_mono_ns,
            svc_ns: reply.t_tx_ns - reply.t_rx_ns,
            rx_off_ns: reply.t_rx_ns - due_wall_ns,
        });
        Self::release(&mut self.callees, from);
        self.flush();
    }

    fn release(callees: &mut BTreeMap<u16, Callee>, node: u16) {
        if let Some(callee) = callees.get_mut(&node) {
            callee.outstanding = callee.outstanding.saturating_sub(1);
        }
    }

    /// Handles a new connection, on which the callee has announced its life. If the life is new,
    /// calls that were not answered since were not answered because the callee was down.
    pub fn connected(&mut self, to: u16, incarnation: u64) {
        let index = self.incarnation(to, incarnation);
        let callee = self.callees.entry(to).or_default();
        let began_anew = callee.incarnation.is_some_and(|before| before != index);
        let never_seen = callee.incarnation.is_none();
        (callee.connected, callee.incarnation) = (true, Some(index));
        for call in self.rounds.iter_mut().flat_map(|round| &mut round.calls) {
            if call.to != to {
                continue;
            }
            if call.fate == Fate::Broken {
                let status = if began_anew || never_seen { Status::Down } else { Status::Refused };
                call.fate = Fate::Settled(status);
            }
        }
        self.flush();
    }

    fn incarnation(&mut self, node: u16, number: u64) -> u8 {
        let known = self.incarnations.iter().position(|one| *one == (node, number));
        let at = known.unwrap_or_else(|| {
            if self.incarnations.len() < INCARNATIONS_MAX {
                self.incarnations.push((node, number));
            }
            self.incarnations.len() - 1
        });
        at as u8
    }

    /// Handles the loss of a connection. Calls in flight on it will not be answered; whether the
    /// callee was down will be known at the next connection.
    pub fn disconnected(&mut self, to: u16) {
        let callee = self.callees.entry(to).or_default();
        (callee.connected, callee.outstanding) = (false, 0);
        for call in self.rounds.iter_mut().flat_map(|round| &mut round.calls) {
            if call.to == to && matches!(call.fate, Fate::Waiting { .. }) {
                call.fate = Fate::Broken;
            }
        }
    }

    /// Emits rows of the oldest rounds, as far as they are settled.
    fn flush(&mut self) {
        while self.rounds.front().is_some_and(Round::is_settled) {
            let Some(round) = self.rounds.pop_front() else { break };
            self.write(&round);
        }
    }

    fn write(&mut self, round: &Round) {
        let epoch = u16::try_from(round.day - self.config.first_epoch).unwrap_or(u16::MAX);
        for call in &round.calls {
            if let Some(row) = call.row(round, epoch, self.config.node) {
                self.counts.rows[usize::from(row.status.code())] += 1;
                self.outputs.push(Output::Row(row));
            } else {
                self.counts.open_at_end += 1;
            }
        }
    }

    /// Whether any call in flight may still be answered within the deadline.
    pub fn is_waiting(&self, mono_ns: i64) -> bool {
        self.rounds.iter().any(|round| {
            let young = mono_ns - round.due_mono_ns < DEADLINE_NS;
            young && round.calls.iter().any(|call| matches!(call.fate, Fate::Waiting { .. }))
        })
    }

    /// Emits rows of all settled calls at the end. A call that is still in flight has no row, since
    /// its answer is unknown; it is counted. A lost connection stays lost.
    pub fn finish(&mut self) {
        for round in std::mem::take(&mut self.rounds) {
            let mut round = round;
            for call in &mut round.calls {
                if call.fate == Fate::Broken {
                    call.fate = Fate::Settled(Status::Refused);
                }
            }
            self.write(&round);
        }
    }
}
