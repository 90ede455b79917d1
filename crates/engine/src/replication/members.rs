//! Changes of a group's members.
//!
//! A machine first follows the log as a *learner*, without a vote. When it has caught up, the group
//! changes to its new voters through a joint configuration, in which a decision needs a majority of
//! the old voters and one of the new: section 4.3 of Ongaro's thesis on Raft.

use crate::cluster::members::Members;
use crate::ids::MachineId;
use raft::eraftpb::ConfState;
use raft::eraftpb::{ConfChangeSingle, ConfChangeTransition, ConfChangeType, ConfChangeV2};

impl Members {
    pub(super) fn from_state(state: &ConfState) -> Self {
        let machines = |numbers: &[u64]| {
            let mut machines: Vec<MachineId> =
                numbers.iter().filter_map(|n| u16::try_from(*n).ok()).map(MachineId).collect();
            machines.sort_unstable();
            machines
        };
        Self {
            voters: machines(&state.voters),
            learners: machines(&state.learners),
            outgoing: machines(&state.voters_outgoing),
            learners_next: machines(&state.learners_next),
        }
    }

    pub(super) fn state(&self) -> ConfState {
        let numbers = |machines: &[MachineId]| machines.iter().map(|m| u64::from(m.0)).collect();
        ConfState {
            voters: numbers(&self.voters),
            learners: numbers(&self.learners),
            voters_outgoing: numbers(&self.outgoing),
            learners_next: numbers(&self.learners_next),
            ..ConfState::default()
        }
    }
}

/// Next step towards a group with other voters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberStep {
    /// Add a machine as a learner.
    Learn(MachineId),
    /// Remove a learner.
    Forget(MachineId),
    /// Begin the joint configuration.
    Join {
        /// New voters.
        add: Vec<MachineId>,
        /// Voters that lose their vote.
        remove: Vec<MachineId>,
    },
    /// End the joint configuration.
    Leave,
    /// Hand the lead over to one of these machines; only there can the change go on.
    HandOver(Vec<MachineId>),
}

/// Next step at the leader, machine `own`, towards a group with exactly these machines as voters.
/// `ready` returns whether a machine has caught up. `None` if all is done, or a machine has to
/// catch up first.
pub(super) fn next_step(
    members: &Members,
    own: MachineId,
    wanted: &[MachineId],
    ready: impl Fn(MachineId) -> bool,
) -> Option<MemberStep> {
    let hand_over = |to: &[MachineId]| {
        let heirs: Vec<MachineId> = to.iter().copied().filter(|m| *m != own && ready(*m)).collect();
        (!heirs.is_empty()).then_some(MemberStep::HandOver(heirs))
    };
    if members.is_joint() {
        // The leader must be a member afterwards.
        let stays = members.voters.contains(&own);
        return if stays { Some(MemberStep::Leave) } else { hand_over(&members.voters) };
    }
    let unknown = wanted.iter().find(|machine| !members.contains(**machine));
    if let Some(machine) = unknown {
        return Some(MemberStep::Learn(*machine));
    }
    if let Some(machine) = members.learners.iter().find(|machine| !wanted.contains(machine)) {
        return Some(MemberStep::Forget(*machine));
    }
    // The leader is removed last.
    let stays = |machine: &MachineId| *machine == own || wanted.contains(machine);
    let add: Vec<MachineId> =
        wanted.iter().copied().filter(|machine| !members.voters.contains(machine)).collect();
    let remove: Vec<MachineId> =
        members.voters.iter().copied().filter(|machine| !stays(machine)).collect();
    if !add.is_empty() || !remove.is_empty() {
        // The remaining voters may be unreachable: then there would be no majority of the new
        // voters.
        let stay = members.voters.iter().filter(|machine| stays(machine));
        let voters: Vec<MachineId> = stay.chain(&add).copied().collect();
        let there = voters.iter().filter(|machine| **machine == own || ready(**machine)).count();
        let can_decide = add.iter().all(|m| ready(*m)) && 2 * there > voters.len();
        return can_decide.then_some(MemberStep::Join { add, remove });
    }
    if wanted.contains(&own) || wanted.is_empty() {
        return None;
    }
    hand_over(wanted)
}

fn single(kind: ConfChangeType, machine: MachineId) -> ConfChangeSingle {
    let mut change = ConfChangeSingle::default();
    change.set_change_type(kind);
    change.node_id = u64::from(machine.0);
    change
}

/// Change for the library's log; `None` if the step needs no log entry.
pub(super) fn change_of(step: &MemberStep) -> Option<ConfChangeV2> {
    let mut change = ConfChangeV2::default();
    match step {
        MemberStep::Learn(machine) => {
            change.mut_changes().push(single(ConfChangeType::AddLearnerNode, *machine));
        }
        MemberStep::Forget(machine) => {
            change.mut_changes().push(single(ConfChangeType::RemoveNode, *machine));
        }
        MemberStep::Join { add, remove } => {
            change.set_transition(ConfChangeTransition::Explicit);
            let add = add.iter().map(|machine| single(ConfChangeType::AddNode, *machine));
            let remove = remove.iter().map(|machine| single(ConfChangeType::RemoveNode, *machine));
            change.mut_changes().extend(add.chain(remove));
        }
        MemberStep::Leave => {}
        MemberStep::HandOver(_) => return None,
    }
    Some(change)
}

/// Encodes a change for the log in our own format: bytes that may come from outside never reach the
/// library's deserializer. Empty for [`MemberStep::Leave`]; otherwise a flag for the joint configuration,
/// and the new role and number of every machine.
pub(super) fn encode(change: &ConfChangeV2) -> Vec<u8> {
    if change.changes.is_empty() {
        return Vec::new();
    }
    let joint = change.transition == ConfChangeTransition::Explicit;
    let mut bytes = vec![u8::from(joint)];
    for single in &change.changes {
        bytes.push(single.change_type as u8);
        bytes.extend_from_slice(&single.node_id.to_le_bytes());
    }
    bytes
}

/// Bytes that are no change of members.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unreadable;

/// Decodes the bytes of [`encode`].
pub(super) fn decode(bytes: &[u8]) -> Result<ConfChangeV2, Unreadable> {
    let mut change = ConfChangeV2::default();
    let Some((joint, rest)) = bytes.split_first() else { return Ok(change) };
    match joint {
        0 => {}
        1 => change.set_transition(ConfChangeTransition::Explicit),
        _ => return Err(Unreadable),
    }
    let (items, left) = rest.as_chunks::<9>();
    if !left.is_empty() || items.is_empty() {
        return Err(Unreadable);
    }
    for [kind, number @ ..] in items {
        let kind = match kind {
            0 => ConfChangeType::AddNode,
            1 => ConfChangeType::RemoveNode,
            2 => ConfChangeType::AddLearnerNode,
            _ => return Err(Unreadable),
        };
        let number = u16::try_from(u64::from_le_bytes(*number)).map_err(|_| Unreadable)?;
        change.mut_changes().push(single(kind, MachineId(number)));
    }
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(numbers: &[u16]) -> Vec<MachineId> {
        numbers.iter().copied().map(MachineId).collect()
    }

    fn next(members: &Members, own: u16, wanted: &[u16], ready: &[u16]) -> Option<MemberStep> {
        next_step(members, MachineId(own), &machines(wanted), |m| ready.contains(&m.0))
    }

    #[test]
    fn a_machine_learns_before_it_votes() {
        let mut members = Members::of(machines(&[1, 2, 3]));
        assert_eq!(next(&members, 1, &[1, 2, 3], &[]), None);
        assert_eq!(next(&members, 1, &[1, 2, 4], &[]), Some(MemberStep::Learn(MachineId(4))));
        members.learners = machines(&[4]);
        assert_eq!(next(&members, 1, &[1, 2, 4], &[]), None);
        let join = MemberStep::Join { add: machines(&[4]), remove: machines(&[3]) };
        assert_eq!(next(&members, 1, &[1, 2, 4], &[4]), Some(join));
        assert_eq!(next(&members, 1, &[1, 2, 3], &[]), Some(MemberStep::Forget(MachineId(4))));
        members.voters = machines(&[1, 2, 4]);
        members.outgoing = machines(&[1, 2, 3]);
        assert_eq!(next(&members, 1, &[1, 2, 4], &[]), Some(MemberStep::Leave));
        assert_eq!(next(&members, 3, &[1, 2, 4], &[]), None);
        let step = Some(MemberStep::HandOver(machines(&[4])));
        assert_eq!(next(&members, 3, &[1, 2, 4], &[4]), step, "it would not be there any more");
    }

    #[test]
    fn a_leader_that_is_to_go_goes_last() {
        let mut members = Members::of(machines(&[1, 2, 3]));
        members.learners = machines(&[4]);
        let join = MemberStep::Join { add: machines(&[4]), remove: machines(&[3]) };
        assert_eq!(next(&members, 1, &[2, 4], &[2, 4]), Some(join));
        let members = Members::of(machines(&[1, 2, 4]));
        assert_eq!(next(&members, 1, &[2, 4], &[]), None);
        assert_eq!(next(&members, 1, &[2, 4], &[4]), Some(MemberStep::HandOver(machines(&[4]))));
        let join = MemberStep::Join { add: Vec::new(), remove: machines(&[1]) };
        assert_eq!(next(&members, 4, &[2, 4], &[2]), Some(join));
    }

    #[test]
    fn no_voter_leaves_that_the_majority_needs() {
        let members = Members::of(machines(&[1, 2, 3]));
        // The first one is unreachable, and perhaps for ever.
        assert_eq!(next(&members, 3, &[1, 3], &[2]), None);
        let join = MemberStep::Join { add: Vec::new(), remove: machines(&[1]) };
        assert_eq!(next(&members, 3, &[2, 3], &[2]), Some(join));
        let members = Members::of(machines(&[1, 2, 3, 4]));
        let join = MemberStep::Join { add: Vec::new(), remove: machines(&[4]) };
        assert_eq!(next(&members, 3, &[1, 2, 3], &[2, 4]), Some(join), "one may be missing");
        assert_eq!(next(&members, 3, &[1, 2, 3], &[4]), None);
    }

    #[test]
    fn changes_read_back_and_others_do_not() {
        let steps = [
            MemberStep::Learn(MachineId(4)),
            MemberStep::Forget(MachineId(9)),
            MemberStep::Join { add: machines(&[4, 5]), remove: machines(&[1]) },
            MemberStep::Leave,
        ];
        for step in steps {
            let change = change_of(&step).unwrap();
            assert_eq!(decode(&encode(&change)), Ok(change), "{step:?}");
        }
        let whole = encode(&change_of(&MemberStep::Learn(MachineId(4))).unwrap());
        for bytes in [&whole[..1], &whole[..9], &[2][..], &[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(decode(bytes), Err(Unreadable), "{bytes:?}");
        }
        assert_eq!(
            decode(&[0, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
            Err(Unreadable),
            "no number of a machine"
        );
    }
}
