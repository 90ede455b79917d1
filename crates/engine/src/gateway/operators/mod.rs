//! What operators do with the commands of clients: see which ones were slow and how long each took, watch
//! them, and hold them back.

pub mod latency;
pub mod monitor;
pub mod pause;
pub mod slow;
pub mod slowlog;
pub mod words;

use super::acl::denials::Denial;
use super::api::Knowledge;
use super::parts::Parts;
use crate::ids::GatewayId;
use adt::Blob;
use latency::{Durations, Event};
use slowlog::SlowCommand;

/// Question of one gateway to another of the same machine. It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalQuestion {
    /// The newest slow commands, so many at most. Answer: [`LocalKnowledge::SlowCommands`].
    SlowCommands(usize),
    /// Number of slow commands. Answer: [`Knowledge::Count`].
    SlowCount,
    /// Forget the slow commands. Answer: [`Knowledge::Count`].
    ForgetSlow,
    /// Seconds in which commands were slow. Answer: [`LocalKnowledge::Events`].
    Events,
    /// Forget such seconds, of these kinds or of all. Answer: [`Knowledge::Names`].
    ForgetEvents(Vec<Blob>),
    /// Durations of all commands. Answer: [`LocalKnowledge::Durations`].
    Durations,
    /// Refused commands and logins. Answer: [`LocalKnowledge::Denials`].
    Denials,
    /// Forget the refused commands and logins. Answer: [`Knowledge::Count`].
    ForgetDenials,
    /// Hold back commands of all clients. Answer: [`Knowledge::Count`].
    Pause {
        /// For how long, in milliseconds.
        ms: u64,
        /// Whether commands that only read are held back too.
        all: bool,
    },
    /// End that. Answer: [`Knowledge::Count`].
    Unpause,
    /// Send the gateway a line about each command of a client, or no longer. Answer: [`Knowledge::Count`].
    Monitor {
        /// Gateway that has connections that monitor.
        by: GatewayId,
        /// Whether it has.
        on: bool,
    },
    /// Lines about commands, for the connections that monitor. Answer: [`Knowledge::Count`].
    Monitored(Vec<Blob>),
}

/// Answer to such a question. It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalKnowledge {
    /// Slow commands, the newest first.
    SlowCommands(Vec<SlowCommand>),
    /// Seconds in which commands of each kind were slow.
    Events(Vec<Event>),
    /// Durations of all commands.
    Durations(Durations),
    /// Refused commands and logins, the newest first.
    Denials(Vec<Denial>),
}

impl Parts {
    /// Answers a question for this gateway.
    pub(super) fn know_here(&mut self, question: &LocalQuestion) -> Knowledge {
        let local = |known| Knowledge::Local(Box::new(known));
        let slow = &mut self.core.slow;
        match question {
            LocalQuestion::SlowCommands(most) => {
                local(LocalKnowledge::SlowCommands(slow.log.newest(*most)))
            }
            LocalQuestion::SlowCount => Knowledge::Count(slow.log.count() as i64),
            LocalQuestion::ForgetSlow => {
                slow.log.clear();
                Knowledge::Count(0)
            }
            LocalQuestion::Events => local(LocalKnowledge::Events(slow.spikes.events())),
            LocalQuestion::ForgetEvents(kinds) => Knowledge::Names(slow.spikes.forget(kinds)),
            LocalQuestion::Durations => local(LocalKnowledge::Durations(slow.durations.clone())),
            LocalQuestion::Denials => {
                local(LocalKnowledge::Denials(self.core.denials.newest(usize::MAX)))
            }
            LocalQuestion::ForgetDenials => {
                self.core.denials.clear();
                Knowledge::Count(0)
            }
            LocalQuestion::Pause { ms, all } => {
                self.core.pause(*ms, *all);
                Knowledge::Count(0)
            }
            LocalQuestion::Unpause => {
                self.end_pause();
                Knowledge::Count(0)
            }
            LocalQuestion::Monitor { by, on } => {
                if *by != self.core.config.id {
                    self.core.monitors.follow(*by, *on);
                }
                Knowledge::Count(0)
            }
            LocalQuestion::Monitored(lines) => {
                lines.iter().for_each(|line| self.monitored(line));
                Knowledge::Count(0)
            }
        }
    }
}
