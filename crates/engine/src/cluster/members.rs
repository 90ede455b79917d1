//! Machines of a group.

use crate::ids::MachineId;

/// Machines of a group as of one entry of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Voters, ascending.
    pub voters: Vec<MachineId>,
    /// Learners, which follow without a vote, ascending.
    pub learners: Vec<MachineId>,
    /// Former voters, ascending, while the group changes its set of voters.
    pub outgoing: Vec<MachineId>,
    /// Members of `outgoing` that become learners.
    pub learners_next: Vec<MachineId>,
}

impl Members {
    /// A group of these voters.
    pub fn of(mut voters: Vec<MachineId>) -> Self {
        voters.sort_unstable();
        Self { voters, ..Self::default() }
    }

    /// Whether the group is changing its set of voters.
    pub fn is_joint(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Number of voters, beside any one of them, that have what is committed, at least.
    pub fn replicas(&self) -> usize {
        // A majority has it: while the set of voters changes, one of each set.
        let outgoing = if self.is_joint() { self.outgoing.len() } else { self.voters.len() };
        self.voters.len().min(outgoing) / 2
    }

    /// Whether a machine is a member.
    pub fn contains(&self, machine: MachineId) -> bool {
        self.votes(machine) || self.learners.contains(&machine)
    }

    /// Whether a machine votes.
    pub fn votes(&self, machine: MachineId) -> bool {
        self.voters.contains(&machine) || self.outgoing.contains(&machine)
    }
}
