//! `CLIENT PAUSE`: commands of all clients of a machine are held back for a while.

use super::pause::Pause;
use crate::gateway::api::SessionId;
use crate::gateway::clients::session::{Multi, SessionMode};
use crate::gateway::clients::session_commands::{all, publishes, runs_script};
use crate::gateway::core::Core;
use crate::gateway::parts::Parts;
use crate::gateway::timer::Timer;
use crate::limits::{PAUSED_BYTES_MAX, PAUSED_HEAVY_MAX};
use adt::{Args, CommandSpec, Flags};

/// Whether a command may write, itself or in what it runs, or reach the clients of other machines.
fn may_write(spec: &CommandSpec) -> bool {
    let runs = runs_script(spec) && !spec.flags.has(Flags::READ);
    let told = publishes(spec.name) || matches!(spec.name, "function" | "script");
    spec.flags.has(Flags::WRITE) || runs || told
}

/// Whether a command is carried out in every pause: clients connect with it, and operators end pauses.
fn goes_on(spec: &CommandSpec) -> bool {
    spec.flags.has(Flags::NO_AUTH) || matches!(spec.name, "client" | "command")
}

impl Core {
    /// Begins a pause, or changes the present one, whose end is not brought forward.
    pub(super) fn pause(&mut self, ms: u64, all: bool) {
        let end_us = self.now.mono_us.saturating_add(ms.saturating_mul(1000));
        let (bytes, heavy) = self.pause.map_or((0, 0), |pause| (pause.bytes, pause.heavy));
        let present_us = self.pause.map(|pause| pause.until_us);
        let until_us = present_us.map_or(end_us, |present_us| present_us.max(end_us));
        if let Some(present_us) = present_us {
            self.timers.remove(&(present_us, Timer::Pause));
        }
        self.pause = Some(Pause { until_us, all, bytes, heavy });
        self.timers.insert((until_us, Timer::Pause));
    }
}

impl Parts {
    /// Whether the present pause holds back a command of a session.
    #[cold]
    pub(in crate::gateway) fn is_paused(
        &self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) -> bool {
        let Some(pause) = &self.core.pause else { return false };
        if goes_on(spec) {
            return false;
        }
        let writes = |multi: &Multi| {
            multi.counted.iter().any(|position| may_write(all()[usize::from(*position)]))
        };
        let session = self.sessions.get(id.0);
        pause.all
            || may_write(spec)
            || match session.map(|session| &session.mode) {
                Some(SessionMode::Multi(multi)) => spec.name == "exec" && writes(multi),
                Some(SessionMode::Interactive(_)) => spec.name == "txn" && args.is(1, "COMMIT"),
                _ => false,
            }
    }

    /// Counts a command that is held back; the pause ends if they take too much memory. Returns whether the
    /// command, whose reply may be large, does not keep other clients from such commands.
    pub(in crate::gateway) fn held_back(&mut self, bytes: usize, heavy: bool) -> bool {
        let Some(pause) = &mut self.core.pause else { return false };
        pause.bytes += bytes;
        // Reads of other clients go on in a pause of writes.
        let aside = heavy && !pause.all && pause.heavy < PAUSED_HEAVY_MAX;
        pause.heavy += usize::from(aside);
        if pause.bytes > PAUSED_BYTES_MAX {
            self.end_pause();
        }
        aside
    }

    /// Ends the pause, if it is over.
    pub(in crate::gateway) fn pause_due(&mut self) {
        if self.core.pause.is_some_and(|pause| pause.until_us <= self.core.now.mono_us) {
            self.end_pause();
        }
    }

    /// Ends the pause: sessions go on with the commands that were held back.
    pub(in crate::gateway) fn end_pause(&mut self) {
        if self.core.pause.take().is_some() {
            self.sessions.resume_all();
        }
    }
}
