//! The machines of a group.

use crate::ids::MachineId;

/// The machines of a group as of one entry of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Those that vote, ascending.
    pub voters: Vec<MachineId>,
    /// Those that follow without a vote, ascending.
    pub learners: Vec<MachineId>,
    /// While the group goes over to other voters: those before, ascending.
    pub outgoing: Vec<MachineId>,
    /// Those of `outgoing` that become learners.
    pub learners_next: Vec<MachineId>,
}

impl Members {
    /// A group of these voters.
    pub fn of(mut voters: Vec<MachineId>) -> Self {
        voters.sort_unstable();
        Self { voters, ..Self::default() }
    }

    /// Whether the group is on its way from one set of voters to another.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Whether a machine has a part in it.
    pub fn contains(&self, machine: MachineId) -> bool {
        self.votes(machine) || self.learners.contains(&machine)
    }

    /// Whether a machine votes.
    pub fn votes(&self, machine: MachineId) -> bool {
        self.voters.contains(&machine) || self.outgoing.contains(&machine)
    }
}
