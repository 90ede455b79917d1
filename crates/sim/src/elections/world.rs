//! World of elections: the machines of a group, the messages between them, and time.

use super::law::Pausing;
use super::{Law, Pace, Plan, Seen};
use crate::random::Random;
use engine::ids::{MachineId, ShardId};
use engine::replication::{Membership, Persist, RaftGroup, Recovered};
use raft::eraftpb::{Entry, HardState, Message};
use std::collections::BTreeMap;

const HOUR_US: u64 = 3_600_000_000;
/// Time after which a killed machine returns.
const AWAY_US: u64 = 15_000_000;
/// Least time between two deaths; up to as much again is added at random.
const BETWEEN_US: u64 = 60_000_000;
/// Time without a leader that counts as an error of the world.
const PATIENCE_US: u64 = 600_000_000;

#[derive(Debug)]
enum Coming {
    Tick,
    Message(Box<Message>),
    Synced(Box<Persist>),
    /// End of a pause.
    Wake,
}

#[derive(Debug)]
enum Event {
    To { machine: usize, life: u32, coming: Coming },
    Kill,
    Restart(usize),
}

struct Machine {
    /// None while the machine is dead.
    group: Option<RaftGroup>,
    life: u32,
    hard_state: HardState,
    entries: Vec<Entry>,
    pausing: Pausing,
    /// Events that arrived during the pause.
    waiting: Vec<Coming>,
    /// Completion of the last disk write.
    synced_us: u64,
    phase_us: u64,
}

/// One direction of a connection, which preserves order.
struct Way {
    held: Pausing,
    last_us: u64,
    random: Random,
}

/// Machines and scheduled events.
pub(super) struct World<'a> {
    plan: &'a Plan,
    law: &'a Law,
    now_us: u64,
    sequence: u64,
    queue: BTreeMap<(u64, u64), Event>,
    machines: Vec<Machine>,
    ways: Vec<Vec<Way>>,
    disk: Random,
    /// Current leader and its term.
    led: Option<(usize, u64)>,
    killed_us: Option<u64>,
    /// Time of the last disturbance.
    disturbed_us: u64,
    seen: Seen,
}

impl<'a> World<'a> {
    pub fn new(plan: &'a Plan) -> Result<Self, String> {
        let (law, seed) = (&plan.law, plan.seed);
        let machines = law.machines();
        let mut phases = Random::new(seed, "phases");
        let machine = |own| Machine {
            group: None,
            life: 0,
            hard_state: HardState::default(),
            entries: Vec::new(),
            pausing: law.pauses_of(seed, own),
            waiting: Vec::new(),
            synced_us: 0,
            phase_us: phases.below(plan.pace.tick_us),
        };
        let way = |from, to| Way {
            held: law.held_of(seed, from, to),
            last_us: 0,
            random: Random::new(seed, &format!("way {from} {to}")),
        };
        let mut world = Self {
            plan,
            law,
            now_us: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            machines: (0..machines).map(machine).collect(),
            ways: (0..machines)
                .map(|from| (0..machines).map(|to| way(from, to)).collect())
                .collect(),
            disk: Random::new(seed, "disk"),
            led: None,
            killed_us: None,
            disturbed_us: 0,
            seen: Seen::default(),
        };
        (0..machines).try_for_each(|own| world.start(own))?;
        Ok(world)
    }

    pub fn run(mut self) -> Result<Seen, String> {
        // The first leader is awaited, and not counted.
        while self.led.is_none() {
            self.step(u64::MAX)?;
        }
        let began_us = self.now_us;
        let until_us = began_us + self.plan.hours * HOUR_US;
        while self.step(until_us)? {}
        self.seen.quiet_us = self.now_us.min(until_us) - began_us;
        let mut kills = Random::new(self.plan.seed, "kills");
        for _ in 0..self.plan.kills {
            let at_us = self.now_us + BETWEEN_US + kills.below(BETWEEN_US);
            self.at(at_us, Event::Kill);
            let deaths = self.seen.outages_us.len();
            while self.seen.outages_us.len() == deaths {
                self.step(u64::MAX)?;
            }
        }
        Ok(self.seen)
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at_us, self.sequence), event);
    }

    fn to(&mut self, at_us: u64, machine: usize, coming: Coming) {
        let life = self.machines[machine].life;
        self.at(at_us, Event::To { machine, life, coming });
    }

    /// Starts a machine from its disk.
    fn start(&mut self, own: usize) -> Result<(), String> {
        let founders = (1..=self.machines.len() as u16).map(MachineId).collect();
        let membership = Membership::clustered(MachineId(own as u16 + 1), founders);
        let machine = &mut self.machines[own];
        let recovered = Recovered {
            hard_state: machine.hard_state.clone(),
            entries: machine.entries.clone(),
            ..Recovered::default()
        };
        machine.life += 1;
        let seed = Random::new(self.plan.seed, &format!("group {own} {}", machine.life)).next();
        let what = (ShardId(0), membership);
        let group = RaftGroup::new(self.plan.pace, what, recovered, seed, self.now_us);
        machine.group = Some(group.map_err(|error| error.to_string())?);
        let first_us = self.now_us + 1 + machine.phase_us;
        self.to(first_us, own, Coming::Tick);
        Ok(())
    }

    /// Processes the next event, if it is due before `until_us`. Returns whether it did.
    fn step(&mut self, until_us: u64) -> Result<bool, String> {
        if self.plan.skips {
            self.skip(until_us);
        }
        let Some(entry) = self.queue.first_entry() else { return Ok(false) };
        let (at_us, _) = *entry.key();
        if at_us >= until_us {
            return Ok(false);
        }
        let event = entry.remove();
        self.now_us = at_us;
        self.seen.events += 1;
        let hash = (self.seen.hash ^ at_us).wrapping_mul(0x0100_0000_01b3);
        self.seen.hash = hash.rotate_left(17);
        match event {
            Event::Kill => self.kill(),
            Event::Restart(own) => self.start(own)?,
            Event::To { machine, life, coming } if self.machines[machine].life == life => {
                self.happens(machine, coming)?;
            }
            Event::To { .. } => {}
        }
        let patience_us = self.disturbed_us.saturating_add(PATIENCE_US);
        match self.led {
            None if self.now_us > patience_us => Err("no machine leads".to_owned()),
            _ => Ok(true),
        }
    }

    fn kill(&mut self) {
        let Some((leader, _)) = self.led else { return };
        let machine = &mut self.machines[leader];
        machine.group = None;
        machine.life += 1;
        machine.waiting.clear();
        machine.synced_us = 0;
        self.killed_us = Some(self.now_us);
        self.disturbed_us = self.now_us;
        self.at(self.now_us + AWAY_US, Event::Restart(leader));
    }

    fn happens(&mut self, own: usize, coming: Coming) -> Result<(), String> {
        let now_us = self.now_us;
        let machine = &mut self.machines[own];
        let (begin_us, end_us) = machine.pausing.at(now_us);
        if begin_us <= now_us {
            // The machine is paused: the event waits for the end of the pause.
            let is_first = machine.waiting.is_empty();
            machine.waiting.push(coming);
            self.disturbed_us = self.disturbed_us.max(end_us);
            if is_first {
                self.to(end_us, own, Coming::Wake);
            }
            return Ok(());
        }
        let mut all = match coming {
            Coming::Wake => std::mem::take(&mut machine.waiting),
            other => vec![other],
        };
        // As in a turn of the server: first messages, then timers.
        all.sort_by_key(|coming| matches!(coming, Coming::Tick));
        for coming in all {
            self.take(own, coming)?;
        }
        self.turn(own)
    }

    fn take(&mut self, own: usize, coming: Coming) -> Result<(), String> {
        let now_us = self.now_us;
        let machine = &mut self.machines[own];
        let Some(group) = &mut machine.group else { return Ok(()) };
        match coming {
            Coming::Tick => {
                group.tick(now_us);
                self.to(now_us + self.plan.pace.tick_us, own, Coming::Tick);
            }
            Coming::Message(message) => {
                group.step(now_us, *message).map_err(|error| error.to_string())?;
            }
            Coming::Synced(persist) => {
                if let Some(state) = persist.hard_state {
                    machine.hard_state = state;
                }
                if let Some(first) = persist.entries.first() {
                    machine.entries.retain(|entry| entry.index < first.index);
                    machine.entries.extend(persist.entries.iter().cloned());
                }
                group.persisted(persist.number);
            }
            Coming::Wake => {}
        }
        Ok(())
    }

    /// Takes writes and messages from a group, and records the leader.
    fn turn(&mut self, own: usize) -> Result<(), String> {
        let now_us = self.now_us;
        let machine = &mut self.machines[own];
        let Some(group) = &mut machine.group else { return Ok(()) };
        let (mut writes, mut messages) = (Vec::new(), Vec::new());
        loop {
            let before = (writes.len(), messages.len());
            while group.committed().map_err(|error| error.to_string())?.is_some() {}
            writes.extend(std::iter::from_fn(|| group.take_persist()));
            messages.extend(group.take_messages());
            if before == (writes.len(), messages.len()) {
                break;
            }
        }
        let (serves, leads, term) = (group.is_serving(), group.leader(), group.term());
        for persist in writes {
            let takes_us = self.law.sync_us(self.disk.next());
            let at_us = self.machines[own].synced_us.max(now_us) + takes_us;
            self.machines[own].synced_us = at_us;
            self.to(at_us, own, Coming::Synced(Box::new(persist)));
        }
        for message in messages {
            let to = message.to as usize - 1;
            let way = &mut self.ways[own][to];
            let sent_us = way.held.runs_at(now_us);
            let takes_us = self.law.way_us(own, to, way.random.next());
            way.last_us = way.last_us.max(sent_us + takes_us);
            let at_us = way.last_us;
            if sent_us > now_us {
                self.disturbed_us = self.disturbed_us.max(at_us);
            }
            self.to(at_us, to, Coming::Message(Box::new(message)));
        }
        if leads.is_none() {
            self.disturbed_us = self.disturbed_us.max(now_us);
        }
        if serves && self.led.is_none_or(|(_, of)| term > of) {
            self.lead(own, term);
        }
        Ok(())
    }

    fn lead(&mut self, own: usize, term: u64) {
        self.disturbed_us = self.now_us;
        let is_first = self.led.is_none();
        self.led = Some((own, term));
        match self.killed_us.take() {
            Some(at_us) => self.seen.outages_us.push(self.now_us - at_us),
            None if !is_first => self.seen.needless += 1,
            None => {}
        }
    }

    /// Skips whole election time-outs in which nothing can happen: all follow the leader, all have
    /// heard each other since the last disturbance, and the next one is far.
    fn skip(&mut self, until_us: u64) {
        let Pace { tick_us, heartbeat_ticks, election_ticks } = self.plan.pace;
        let beat_us = heartbeat_ticks as u64 * tick_us;
        let settle_us = 3 * beat_us + 2 * self.law.way_max_us();
        let now_us = self.now_us;
        // The state of the group repeats after this time.
        let cycle_us = (election_ticks * heartbeat_ticks) as u64 * tick_us;
        if now_us < self.disturbed_us + settle_us || !self.is_quiet() {
            return;
        }
        let mut next_us = until_us;
        for machine in &mut self.machines {
            next_us = next_us.min(machine.pausing.at(now_us).0);
        }
        for way in self.ways.iter_mut().flatten() {
            next_us = next_us.min(way.held.at(now_us).0);
        }
        for ((at_us, _), event) in &self.queue {
            if !matches!(event, Event::To { .. }) {
                next_us = next_us.min(*at_us);
            }
        }
        let cycles = next_us.saturating_sub(now_us + settle_us) / cycle_us;
        if cycles == 0 {
            return;
        }
        let by_us = cycles * cycle_us;
        self.now_us += by_us;
        self.seen.skipped_us += by_us;
        let queue = std::mem::take(&mut self.queue);
        self.queue = queue
            .into_iter()
            .map(|((at_us, sequence), event)| {
                let moves = matches!(event, Event::To { .. });
                ((if moves { at_us + by_us } else { at_us }, sequence), event)
            })
            .collect();
    }

    fn is_quiet(&self) -> bool {
        let Some((leader, term)) = self.led else { return false };
        let led = MachineId(leader as u16 + 1);
        let follows = |group: &RaftGroup| group.leader() == Some(led) && group.term() == term;
        self.killed_us.is_none()
            && self.machines.iter().all(|machine| {
                machine.waiting.is_empty() && machine.group.as_ref().is_some_and(follows)
            })
    }
}
