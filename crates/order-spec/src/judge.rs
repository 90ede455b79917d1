//! Invariants of every state, common to all protocols.

use crate::story::{OpId, Ops, Story, bit, each};

/// Observations of the operations in some state.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// For each operation the results that clients have received or will receive: the list before
    /// it.
    pub results: Vec<(OpId, Vec<OpId>)>,
    /// Operations reported as failed.
    pub failed: Ops,
    /// For each issued operation: the operations of any client that had been answered by then.
    pub before: Vec<(OpId, Ops)>,
}

/// The violated invariant, if any.
pub fn judge(story: &Story, seen: &Seen) -> Option<&'static str> {
    let mut results: Vec<Option<&[OpId]>> = vec![None; story.ops.len()];
    let mut took_effect: Ops = 0;
    for (op, list) in &seen.results {
        let known = &mut results[usize::from(*op)];
        if known.is_some_and(|known| known != list) {
            return Some("two results of one operation");
        }
        *known = Some(list);
        took_effect |= bit(*op);
        took_effect |= list.iter().fold(0, |all, op| all | bit(*op));
    }
    if took_effect & seen.failed != 0 {
        return Some("a failed operation has an effect");
    }
    is_cyclic(story, seen, &results, took_effect).then_some("no order of all operations")
}

/// Whether the results, the orders of issue and real time contradict each other.
fn is_cyclic(story: &Story, seen: &Seen, results: &[Option<&[OpId]>], took_effect: Ops) -> bool {
    // The predecessors of each operation.
    let mut before: Vec<Ops> = vec![0; story.ops.len()];
    for (op, list) in results.iter().enumerate().filter_map(|(op, list)| Some((op, (*list)?))) {
        let own = op as OpId;
        let listed = list.iter().fold(0, |all, op| all | bit(*op));
        before[op] |= listed;
        for other in each(took_effect & !listed & !bit(own)) {
            let appended = !story.op(other).reads && story.op(other).conflicts(story.op(own));
            if appended {
                before[usize::from(other)] |= bit(own);
            }
        }
    }
    for client in 0..story.clients() {
        let mut earlier = 0;
        for op in story.of_client(client).filter(|op| took_effect & bit(*op) != 0) {
            before[usize::from(op)] |= earlier;
            earlier |= bit(op);
        }
    }
    for (op, answered) in &seen.before {
        before[usize::from(*op)] |= answered & took_effect;
    }
    let mut left = took_effect;
    while left != 0 {
        let Some(first) = each(left).find(|op| before[usize::from(*op)] & left == 0) else {
            return true;
        };
        left &= !bit(first);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(results: &[(OpId, &[OpId])]) -> Seen {
        let results = results.iter().map(|(op, list)| (*op, list.to_vec())).collect();
        Seen { results, ..Seen::default() }
    }

    #[test]
    fn results_that_contradict_the_orders_of_issue_have_no_order() {
        let story = Story::of(&["a b", "B A"]);
        assert_eq!(judge(&story, &seen(&[(0, &[]), (1, &[]), (2, &[1]), (3, &[0])])), None);
        assert!(judge(&story, &seen(&[(0, &[]), (1, &[]), (2, &[1]), (3, &[])])).is_some());
    }

    #[test]
    fn real_time_counts() {
        let story = Story::of(&["a", "A"]);
        let mut late = seen(&[(0, &[]), (1, &[])]);
        assert_eq!(judge(&story, &late), None);
        late.before.push((1, bit(0)));
        assert_eq!(judge(&story, &late), Some("no order of all operations"));
    }

    #[test]
    fn results_do_not_change_and_failures_have_no_effect() {
        let story = Story::of(&["a", "a"]);
        assert!(judge(&story, &seen(&[(0, &[]), (0, &[1])])).is_some());
        let mut failed = seen(&[(0, &[1])]);
        failed.failed = bit(1);
        assert_eq!(judge(&story, &failed), Some("a failed operation has an effect"));
    }
}
