//! Questions between gateways of one machine about what operators want to know.

use super::latency::{CommandDurations, SlowSeconds};
use super::slowlog::SlowCommand;
use crate::gateway::acl::denials::Denial;
use crate::ids::GatewayId;
use adt::Blob;

/// Question of one gateway to another of the same machine. It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalQuestion {
    /// The newest slow commands, so many at most. Answer: [`LocalKnowledge::SlowCommands`].
    SlowCommands(usize),
    /// Number of slow commands. Answer: [`crate::gateway::Knowledge::Count`].
    SlowCount,
    /// Forget the slow commands. Answer: [`crate::gateway::Knowledge::Count`].
    ForgetSlow,
    /// Seconds in which commands were slow. Answer: [`LocalKnowledge::Events`].
    Events,
    /// Forget such seconds, of these kinds or of all. Answer: [`crate::gateway::Knowledge::Names`].
    ForgetEvents(Vec<Blob>),
    /// Durations of all commands. Answer: [`LocalKnowledge::Durations`].
    Durations,
    /// Refused commands and logins. Answer: [`LocalKnowledge::Denials`].
    Denials,
    /// Forget the refused commands and logins. Answer: [`crate::gateway::Knowledge::Count`].
    ForgetDenials,
    /// Hold back commands of all clients. Answer: [`crate::gateway::Knowledge::Count`].
    Pause {
        /// For how long, in milliseconds.
        ms: u64,
        /// Whether commands that only read are held back too.
        all: bool,
    },
    /// End that. Answer: [`crate::gateway::Knowledge::Count`].
    Unpause,
    /// Send the gateway a line about each command of a client, or no longer. Answer:
    /// [`crate::gateway::Knowledge::Count`].
    Monitor {
        /// Gateway that has connections that monitor.
        by: GatewayId,
        /// Whether it has.
        on: bool,
    },
    /// Whether the gateway has a client with this number. Answer: [`crate::gateway::Knowledge::Count`].
    HasClient(u64),
    /// Tell a client that keys have changed which another one has read. Answer:
    /// [`crate::gateway::Knowledge::Count`], 1 if it is there.
    Invalidate {
        /// Number of the client.
        client: u64,
        /// The keys, or none for all.
        names: Option<Vec<Blob>>,
    },
    /// Lines about commands, for the connections that monitor. Answer:
    /// [`crate::gateway::Knowledge::Count`].
    Monitored(Vec<Blob>),
}

/// Answer to such a question. It never leaves the machine.
#[derive(Clone, Debug, PartialEq)]
pub enum LocalKnowledge {
    /// Slow commands, the newest first.
    SlowCommands(Vec<SlowCommand>),
    /// Seconds in which commands of each kind were slow.
    Events(Vec<SlowSeconds>),
    /// Durations of all commands.
    Durations(CommandDurations),
    /// Refused commands and logins, the newest first.
    Denials(Vec<Denial>),
}
