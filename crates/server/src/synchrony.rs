//! The probe inside this server: how long messages to the other machines take, who is slow because
//! of that, and which leads should leave them.
//!
//! The thread that looks after the server asks every other machine once a second, through the worker
//! that holds the connection, and is told what came back. Every ten seconds it tells all others what
//! it has seen. What follows is found by `probe::watch`, the same on every machine. Nothing here is
//! needed for anything that must be right.

use crate::clock::Clock;
use crate::mail::{Batch, Mail, Mailbox};
use crate::mapfile::MapFile;
use crate::peers::Linked;
use calibrate::Calibration;
use engine::gateway::Overview;
use engine::ids::{MachineId, ShardId};
use engine::node::{Parcel, Timing};
use probe::watch::{
    Agreement, AppendRow, Asker, Event, Figures, Judge, Lead, Move, Planner, Scene, WINDOW_US,
};
use record::Record;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

mod agree;
pub mod calibrate;
pub mod picture;
pub mod record;

/// How long the worker that knows who leads what may take to say so.
const OVERVIEW_WAIT: Duration = Duration::from_millis(200);
/// A lead that was asked to move is not asked again sooner.
const ASK_AGAIN_US: u64 = 30_000_000;
/// A move that was proposed is not proposed again sooner.
const PROPOSE_AGAIN_US: u64 = 600_000_000;

/// What the probe may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing: other machines are answered, and not asked.
    Off,
    /// Measure, judge, and say what should be done.
    #[default]
    Propose,
    /// Do it, too.
    Apply,
}

impl Mode {
    /// The name, as in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Propose => "propose",
            Self::Apply => "apply",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;
    fn from_str(name: &str) -> Result<Self, String> {
        let all = [Self::Off, Self::Propose, Self::Apply];
        let found = all.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| "synchrony is off, propose or apply".to_owned())
    }
}

/// Whom the probe of a machine talks to.
pub struct Surroundings {
    /// The machine.
    pub own: MachineId,
    /// Its workers.
    pub workers: Vec<Mailbox>,
    /// Which other machines it is connected with.
    pub linked: Arc<Linked>,
    /// Which machines there are.
    pub map: Arc<MapFile>,
    /// The clock.
    pub clock: Clock,
    /// Workers hand leads over when another machine asks for it.
    pub obeys: Arc<AtomicBool>,
}

/// The probe of this machine.
pub struct Synchrony {
    around: Surroundings,
    mode: Mode,
    asker: Asker,
    judge: Judge,
    planner: Planner,
    calibration: Calibration,
    agreement: Agreement,
    window_us: u64,
    /// Where every single measurement goes, if somebody wants to have them.
    record: Option<Box<dyn Record>>,
}

impl Synchrony {
    /// The probe of a machine that belongs to a cluster.
    pub fn new(around: Surroundings, mode: Mode) -> Self {
        let now_us = around.clock.now().mono_us;
        let asker = Asker::new(around.own.0, now_us);
        let (judge, planner) = (Judge::default(), Planner::default());
        let window_us = now_us + WINDOW_US;
        let calibration = Calibration::default();
        let agreement = agree::begin(now_us, mode);
        let mut new = Self {
            around,
            mode,
            asker,
            judge,
            planner,
            calibration,
            agreement,
            window_us,
            record: None,
        };
        new.set_mode(mode);
        new
    }

    /// What the probe may do.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The probe may do something else from now on. What was measured is forgotten if it stops.
    pub fn set_mode(&mut self, mode: Mode) {
        let now_us = self.now_us();
        if mode == Mode::Off {
            self.asker = Asker::new(self.around.own.0, now_us);
            if self.record.is_some() {
                self.asker.keep_seen();
            }
            (self.judge, self.planner) = (Judge::default(), Planner::default());
            self.calibration = Calibration::default();
        } else if mode != self.mode {
            // What was only proposed may be done now.
            self.planner = Planner::default();
        }
        let is_other = mode != self.mode;
        self.mode = mode;
        if is_other {
            self.agree_anew();
        }
        self.around.obeys.store(mode == Mode::Apply, Ordering::Relaxed);
        self.look();
    }

    fn now_us(&self) -> u64 {
        self.around.clock.now().mono_us
    }

    /// Looks which machines there are.
    fn look(&mut self) {
        let machines = self.around.map.machines().unwrap_or_default();
        if let Some(record) = &mut self.record {
            record.machines(self.around.own, &machines);
        }
        let machines = || machines.iter().map(|machine| machine.0);
        self.judge.know(machines());
        let now_us = self.now_us();
        match self.mode == Mode::Off {
            true => self.asker.know(now_us, []),
            false => self.asker.know(now_us, machines()),
        }
    }

    /// How long until somebody is to be asked; none if nobody is.
    pub fn due(&self) -> Option<Duration> {
        let due_us = self.asker.due_us()?;
        Some(Duration::from_micros(due_us.saturating_sub(self.now_us())))
    }

    /// Asks whoever is to be asked; ends a window if it is time. A timer of this thread was so late,
    /// if it was waited for.
    pub fn tick(&mut self, late: Option<Duration>) {
        if self.mode == Mode::Off {
            return;
        }
        let now_us = self.now_us();
        if let Some(late) = late {
            self.asker.late(now_us, u32::try_from(late.as_micros()).unwrap_or(u32::MAX));
        }
        for (machine, number, _) in self.asker.questions(now_us) {
            if !self.around.linked.get(MachineId(machine)) {
                self.asker.cannot_send(machine);
            }
            let machine = MachineId(machine);
            self.holder(machine).send(Mail::Ask(machine, number));
        }
        self.pass_on();
        if now_us >= self.window_us {
            self.window_us = now_us + WINDOW_US;
            self.end_window();
        }
    }

    /// The worker that holds the connection with a machine.
    fn holder(&self, machine: MachineId) -> &Mailbox {
        &self.around.workers[usize::from(machine.0) % self.around.workers.len()]
    }

    fn end_window(&mut self) {
        self.look();
        let now = self.around.clock.now();
        let (own, figures) = (self.around.own.0, self.asker.figures(now.mono_us));
        let appends = self.asker.appends(now.mono_us);
        self.tell_all(&Timing::Figures(figures.clone()));
        self.tell_all(&Timing::Appends(appends.clone()));
        self.judge.hear(now.mono_us, own, figures);
        self.judge.hear_appends(now.mono_us, own, appends);
        for event in self.judge.close(now.mono_us, now.wall_us / 1000) {
            let Event { what, after, evidence, .. } = event;
            match after.as_str() {
                "found" => tracing::warn!("{what} ({evidence})"),
                _ => tracing::info!("{what}: not any more ({evidence})"),
            }
        }
        self.plan();
        self.calibrate(now.mono_us);
        self.agree(now.mono_us);
    }

    fn tell_all(&self, timing: &Timing) {
        for machine in self.around.linked.machines() {
            let parcel = Box::new(Parcel::Timing(timing.clone()));
            self.holder(machine).send(Mail::Tell(machine, parcel));
        }
    }

    /// Leads that should leave a machine that is slow.
    fn plan(&mut self) {
        let verdicts = self.judge.verdicts();
        if verdicts.iter().all(|verdict| verdict.subject.to_be_left().is_none()) {
            return;
        }
        let Some(overview) = self.overview() else { return };
        let leads = overview.shards.into_iter().filter_map(|seen| {
            let holders = seen.holders.iter().map(|machine| machine.0).collect();
            Some(Lead { shard: seen.shard.0, leader: seen.leader?.0, holders })
        });
        let leads: Vec<Lead> = leads.collect();
        let heard: BTreeSet<u16> = self.around.linked.machines().iter().map(|m| m.0).collect();
        let repeat_us = if self.mode == Mode::Apply { ASK_AGAIN_US } else { PROPOSE_AGAIN_US };
        let (load, own) = (self.judge.found().everywhere, self.around.own.0);
        let (now_us, heard, verdicts) = (self.now_us(), &heard, &verdicts[..]);
        let scene = Scene { now_us, repeat_us, own, load, heard, verdicts };
        for planned in self.planner.plan(&scene, &leads) {
            let reason = verdicts.iter().find(|v| v.subject.to_be_left() == Some(planned.from));
            let reason = reason.map_or(String::new(), |v| format!("{}: {}", v.subject, v.evidence));
            self.carry_out(planned, reason);
        }
    }

    fn overview(&self) -> Option<Overview> {
        let (sender, receiver) = channel();
        self.around.workers[0].send(Mail::Overview(sender));
        receiver.recv_timeout(OVERVIEW_WAIT).ok()
    }

    fn carry_out(&mut self, planned: Move, evidence: String) {
        let Move { shard, from, to } = planned;
        let name = engine::map::name_of(ShardId(shard));
        let applies = self.mode == Mode::Apply;
        let done = if applies { "asked for" } else { "proposed" };
        tracing::info!("{done}: the lead of {name} from machine {from} to {to} ({evidence})");
        self.note(format!("lead of {name}: move {done}"), from, to, evidence);
        if !applies {
            return;
        }
        let parcel = Parcel::LeadElsewhere { shard: ShardId(shard), to: MachineId(to) };
        if from == self.around.own.0 {
            let parcels = vec![(self.around.own, parcel)];
            self.around.workers[0].send(Mail::Batch(Batch { parcels, ..Batch::default() }));
        } else {
            let from = MachineId(from);
            self.holder(from).send(Mail::Tell(from, Box::new(parcel)));
        }
    }

    fn note(&mut self, what: String, before: u16, after: u16, evidence: String) {
        let at_ms = self.around.clock.now().wall_us / 1000;
        let [before, after] = [before, after].map(|machine| format!("machine {machine}"));
        self.judge.note(Event { at_ms, what, before, after, evidence });
    }

    /// A machine has answered.
    pub fn answered(&mut self, machine: MachineId, number: u32, times_us: (u32, u32)) {
        let now_us = self.now_us();
        self.asker.answered(now_us, machine.0, number, times_us);
    }

    /// A machine tells what it has seen.
    pub fn hear(&mut self, machine: MachineId, figures: Figures) {
        if self.mode != Mode::Off {
            let now_us = self.now_us();
            self.judge.hear(now_us, machine.0, figures);
        }
    }

    /// An append of this machine was durable on another one after so long.
    pub fn appended(&mut self, machine: MachineId, us: u32) {
        let now_us = self.now_us();
        self.asker.appended(now_us, machine.0, us);
    }

    /// A machine tells how long its appends took on others.
    pub fn hear_appends(&mut self, machine: MachineId, rows: Vec<AppendRow>) {
        if self.mode != Mode::Off {
            let now_us = self.now_us();
            self.judge.hear_appends(now_us, machine.0, rows);
        }
    }

    /// A machine has connected.
    pub fn connected(&mut self, machine: MachineId) {
        self.look();
        let now_us = self.now_us();
        self.asker.connected(now_us, machine.0);
    }

    /// A machine asks for the lead of a shard to go to another one.
    pub fn asked(&mut self, from: MachineId, shard: ShardId, to: MachineId) {
        let name = engine::map::name_of(shard);
        let evidence = match self.mode {
            Mode::Apply => format!("machine {} asks for it", from.0),
            mode => format!("machine {} asks for it; not done, synchrony is {mode} here", from.0),
        };
        tracing::info!("the lead of {name} should go to machine {}: {evidence}", to.0);
        self.note(format!("lead of {name}: asked to hand over"), self.around.own.0, to.0, evidence);
    }
}
