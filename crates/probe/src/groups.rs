//! Groups of nodes for one epoch.
//!
//! All nodes compute the same groups from the same member list, without a coordinator: a
//! Fisher-Yates shuffle that is driven by the seed, the epoch and the version of the list, cut into
//! the sizes of a plan.

use crate::random::{Numbers, seed_of};

/// Minimum number of members of a group.
pub const SMALLEST: usize = 3;
/// Maximum number of members of a group.
pub const LARGEST: usize = 9;

/// Sizes of groups, used in turn.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Plan(Vec<usize>);

impl Plan {
    /// Creates a plan; `None` if it is empty or a size is not from 3 to 9.
    pub fn new(sizes: &[usize]) -> Option<Self> {
        let possible = sizes.iter().all(|size| (SMALLEST..=LARGEST).contains(size));
        (possible && !sizes.is_empty()).then(|| Self(sizes.to_vec()))
    }

    /// Sizes of the plan.
    pub fn sizes(&self) -> &[usize] {
        &self.0
    }
}

/// Groups of one epoch.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grouping {
    /// Members of each group, ascending.
    pub groups: Vec<Vec<u16>>,
    /// Nodes in no group: too few to be one, and too many for the last.
    pub resting: Vec<u16>,
}

/// Draws the groups of an epoch from the member list that was frozen at its start.
pub fn draw(
    members: &[u16],
    plan: &Plan,
    seed: u64,
    epoch: u32,
    membership_version: u64,
) -> Grouping {
    let mut order = members.to_vec();
    order.sort_unstable();
    order.dedup();
    let mut numbers = Numbers::new(seed_of(&[seed, u64::from(epoch), membership_version]));
    for last in (1..order.len()).rev() {
        let other = numbers.below(last as u64 + 1);
        order.swap(last, usize::try_from(other).unwrap_or(last));
    }
    let mut grouping = Grouping::default();
    let mut rest = order.as_slice();
    for size in plan.sizes().iter().cycle() {
        if rest.len() < SMALLEST {
            break;
        }
        let (group, after) = rest.split_at(rest.len().min(*size));
        grouping.groups.push(group.to_vec());
        rest = after;
    }
    match grouping.groups.last_mut() {
        Some(group) if group.len() + rest.len() <= LARGEST => group.extend_from_slice(rest),
        _ => grouping.resting = rest.to_vec(),
    }
    grouping.groups.iter_mut().for_each(|group| group.sort_unstable());
    grouping.resting.sort_unstable();
    grouping
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(n: u16) -> Vec<u16> {
        (0..n).collect()
    }

    fn sizes(n: u16, plan: &[usize]) -> (Vec<usize>, usize) {
        let grouping = draw(&nodes(n), &Plan::new(plan).unwrap(), 1, 2, 3);
        let mut all: Vec<u16> = grouping.groups.concat();
        all.extend(&grouping.resting);
        all.sort_unstable();
        assert_eq!(all, nodes(n));
        (grouping.groups.iter().map(Vec::len).collect(), grouping.resting.len())
    }

    #[test]
    fn a_plan_is_cut_in_turn_and_a_small_remainder_joins_or_rests() {
        assert_eq!(sizes(14, &[7]), (vec![7, 7], 0));
        assert_eq!(sizes(16, &[7]), (vec![7, 9], 0));
        assert_eq!(sizes(17, &[7]), (vec![7, 7, 3], 0));
        assert_eq!(sizes(24, &[3, 5, 7, 9]), (vec![3, 5, 7, 9], 0));
        assert_eq!(sizes(20, &[9]), (vec![9, 9], 2));
        assert_eq!(sizes(2, &[3]), (vec![], 2));
        assert_eq!(sizes(0, &[3]), (vec![], 0));
    }

    #[test]
    fn all_nodes_draw_the_same_groups_and_each_epoch_draws_anew() {
        let plan = Plan::new(&[5]).unwrap();
        let mut shuffled = nodes(20);
        shuffled.reverse();
        assert_eq!(draw(&nodes(20), &plan, 1, 2, 3), draw(&shuffled, &plan, 1, 2, 3));
        assert_ne!(draw(&nodes(20), &plan, 1, 2, 3), draw(&nodes(20), &plan, 1, 3, 3));
        assert_ne!(draw(&nodes(20), &plan, 1, 2, 3), draw(&nodes(20), &plan, 1, 2, 4));
    }

    #[test]
    fn all_pairs_meet_alike() {
        let plan = Plan::new(&[5]).unwrap();
        let mut met = vec![0_u32; 100];
        for epoch in 0..2000 {
            for group in draw(&nodes(10), &plan, 9, epoch, 0).groups {
                for (a, b) in group.iter().flat_map(|a| group.iter().map(move |b| (*a, *b))) {
                    met[usize::from(a) * 10 + usize::from(b)] += 1;
                }
            }
        }
        let others = (0..100).filter(|at| at / 10 != at % 10).map(|at| met[at]);
        // Four of nine others are met each time: 889 of 2,000.
        assert!(others.into_iter().all(|count| (780..1000).contains(&count)), "{met:?}");
    }

    #[test]
    fn a_plan_has_sizes_from_three_to_nine() {
        assert!(Plan::new(&[]).is_none());
        assert!(Plan::new(&[2]).is_none());
        assert!(Plan::new(&[3, 10]).is_none());
    }
}
