//! Probe of this server: measures how long messages to the other machines take, which machines are
//! slow as a result, and which leaderships should move away from them.
//!
//! The control thread asks every other machine once a second, through the worker that holds the
//! connection, and receives the answers. Every ten seconds it sends its measurements to all others.
//! `probe::watch` draws the conclusions, which are the same on every machine. Correctness does not
//! depend on anything here.

use crate::data::mapfile::MapFile;
use crate::host::clock::Clock;
use crate::mail::{Batch, Mail, Mailbox};
use crate::net::peers::Linked;
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

/// Time-out for the worker that knows the leaders.
const OVERVIEW_WAIT: Duration = Duration::from_millis(200);
/// Interval before another machine is asked again to move a leadership.
const ASK_AGAIN_US: u64 = 30_000_000;
/// Interval before a move is proposed again.
const PROPOSE_AGAIN_US: u64 = 600_000_000;

/// Permissions of the probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Nothing: the machine answers other machines and asks none.
    Off,
    /// Measure, judge, and propose moves.
    #[default]
    Propose,
    /// Measure, judge, and make moves.
    Apply,
}

impl Mode {
    /// Name in the configuration.
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

/// Parts of the server that the probe uses.
pub struct Surroundings {
    /// This machine.
    pub own: MachineId,
    /// Workers of this machine.
    pub workers: Vec<Mailbox>,
    /// Machines that are connected to this one.
    pub linked: Arc<Linked>,
    /// Machines of the cluster.
    pub map: Arc<MapFile>,
    /// Clock.
    pub clock: Clock,
    /// Whether workers hand over leaderships when another machine asks for it.
    pub obeys: Arc<AtomicBool>,
}

/// Probe of this machine.
pub struct Synchrony {
    around: Surroundings,
    mode: Mode,
    asker: Asker,
    judge: Judge,
    planner: Planner,
    calibration: Calibration,
    agreement: Agreement,
    window_us: u64,
    /// Recorder for all single measurements, if they are kept.
    record: Option<Box<dyn Record>>,
}

impl Synchrony {
    /// Creates the probe of a machine that belongs to a cluster.
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

    /// Permissions of the probe.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the permissions of the probe. If it stops, its measurements are dropped.
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
            // Moves that were only proposed may be made now.
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

    /// Updates the list of machines.
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

    /// Time until the next question is due; none if none is.
    pub fn due(&self) -> Option<Duration> {
        let due_us = self.asker.due_us()?;
        Some(Duration::from_micros(due_us.saturating_sub(self.now_us())))
    }

    /// Sends the questions that are due; ends a window if it is time. `late` is the lateness of
    /// this thread's timer, if the thread slept.
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

    /// Worker that holds the connection with a machine.
    fn holder(&self, machine: MachineId) -> &Mailbox {
        &self.around.workers[usize::from(machine.0) % self.around.workers.len()]
    }

    fn end_window(&mut self) {
        self.look();
        let now = self.around.clock.now();
        let (own, figures) = (self.around.own.0, self.asker.figures(now.mono_us));
        let appends = self.asker.appends(now.mono_us);
        self.send_all(&Timing::Figures(figures.clone()));
        self.send_all(&Timing::Appends(appends.clone()));
        self.judge.hear(now.mono_us, own, figures);
        self.judge.hear_appends(now.mono_us, own, appends);
        for event in self.judge.close(now.mono_us, now.wall_us / 1000) {
            let Event { what, after, evidence, .. } = event;
            match after.as_str() {
                "found" => tracing::warn!("{what} ({evidence})"),
                _ => tracing::info!("{what}: no longer ({evidence})"),
            }
        }
        self.plan();
        self.calibrate(now.mono_us);
        self.agree(now.mono_us);
    }

    fn send_all(&self, timing: &Timing) {
        for machine in self.around.linked.machines() {
            let parcel = Box::new(Parcel::Timing(timing.clone()));
            self.holder(machine).send(Mail::Tell(machine, parcel));
        }
    }

    /// Decides which leaderships should leave a slow machine.
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
        let name = engine::cluster::map::name_of(ShardId(shard));
        let applies = self.mode == Mode::Apply;
        let done = if applies { "asked for" } else { "proposed" };
        tracing::info!(
            "{done}: move the leadership of {name} from machine {from} to {to} ({evidence})"
        );
        self.note(format!("leadership of {name}: move {done}"), from, to, evidence);
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

    /// Records the answer of a machine.
    pub fn answered(&mut self, machine: MachineId, number: u32, times_us: (u32, u32)) {
        let now_us = self.now_us();
        self.asker.answered(now_us, machine.0, number, times_us);
    }

    /// Records measurements that a machine has sent.
    pub fn hear(&mut self, machine: MachineId, figures: Figures) {
        if self.mode != Mode::Off {
            let now_us = self.now_us();
            self.judge.hear(now_us, machine.0, figures);
        }
    }

    /// Records that an append of this machine became durable on another one after `us`.
    pub fn appended(&mut self, machine: MachineId, us: u32) {
        let now_us = self.now_us();
        self.asker.appended(now_us, machine.0, us);
    }

    /// Records how long a machine's appends took on others.
    pub fn hear_appends(&mut self, machine: MachineId, rows: Vec<AppendRow>) {
        if self.mode != Mode::Off {
            let now_us = self.now_us();
            self.judge.hear_appends(now_us, machine.0, rows);
        }
    }

    /// Records that a machine has connected.
    pub fn connected(&mut self, machine: MachineId) {
        self.look();
        let now_us = self.now_us();
        self.asker.connected(now_us, machine.0);
    }

    /// Handles a machine's request to move the leadership of a shard to another one.
    pub fn asked(&mut self, from: MachineId, shard: ShardId, to: MachineId) {
        let name = engine::cluster::map::name_of(shard);
        let evidence = match self.mode {
            Mode::Apply => format!("machine {} asks for it", from.0),
            mode => format!("machine {} asks for it; not done, synchrony is {mode} here", from.0),
        };
        tracing::info!("the leadership of {name} should move to machine {}: {evidence}", to.0);
        self.note(
            format!("leadership of {name}: asked to hand over"),
            self.around.own.0,
            to.0,
            evidence,
        );
    }
}
