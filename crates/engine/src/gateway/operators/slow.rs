//! Durations of commands: one comparison decides for each of them whether it was slow enough to be noted.

use super::latency::{CommandDurations, Spikes};
use super::slowlog::SlowLog;
use crate::gateway::clients::session_commands::all;
use crate::now::Now;
use adt::{Blob, Flags};

/// Command that was answered, and the client that has sent it.
pub struct Answered<'a> {
    /// Position in the table of commands.
    pub position: usize,
    /// Duration, in microseconds.
    pub us: u64,
    /// Words, if they were kept.
    pub words: Option<Vec<Blob>>,
    /// Address of the client.
    pub address: &'a str,
    /// Name of the client.
    pub name: &'a str,
}

/// Durations of the commands of a gateway.
pub struct Slow {
    /// Shortest duration that is noted, in microseconds.
    least_us: u64,
    /// Slow commands.
    pub log: SlowLog,
    /// Seconds in which commands were slow.
    pub spikes: Spikes,
    /// Durations of all commands.
    pub durations: CommandDurations,
}

impl Slow {
    /// Settings and tables of the gateway with this number out of so many.
    pub fn new(gateway: u16, gateways: u16) -> Self {
        let (spikes, durations) = (Spikes::default(), CommandDurations::default());
        let mut slow =
            Self { least_us: 0, log: SlowLog::new(gateway, gateways), spikes, durations };
        slow.refresh();
        slow
    }

    /// Whether the words of commands are to be kept until the reply.
    #[inline]
    pub fn needs_words(&self) -> bool {
        self.log.least_us != u64::MAX
    }

    /// Whether a command that has taken so many microseconds is noted.
    #[inline]
    pub fn is_slow(&self, us: u64) -> bool {
        us >= self.least_us
    }

    /// Notes a slow command.
    #[cold]
    pub fn note(&mut self, now: Now, answered: Answered<'_>) {
        let spec = all()[answered.position];
        let fast = spec.flags.has(Flags::FAST);
        self.spikes.note(now, fast, answered.us);
        if answered.us >= self.log.least_us {
            self.log.note(now, spec.name, answered);
        }
    }

    /// Follows a setting. Returns whether it is one of these.
    pub fn configure(&mut self, name: &str, value: &str) -> bool {
        let Ok(number) = value.parse::<i64>() else { return false };
        match name {
            "slowlog-log-slower-than" => {
                self.log.least_us = u64::try_from(number).unwrap_or(u64::MAX);
            }
            "slowlog-max-len" => self.log.set_most(number.max(0) as usize),
            "latency-monitor-threshold" => self.spikes.set_least_ms(number.max(0) as u64),
            _ => return false,
        }
        self.refresh();
        true
    }

    fn refresh(&mut self) {
        self.least_us = self.log.least_us.min(self.spikes.least_us());
    }
}
