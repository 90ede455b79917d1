//! Downtime of nodes, in which suspicion was right.
//!
//! Downtime lasts from the last answer to any observer until the first answer of a new life, if all
//! observers saw silence in between. A node that comes back with the same life was slow or
//! partitioned, which counts as a fault. A node that was silent to all observers for the last
//! minute of the data is taken for down, too.

use std::collections::BTreeMap;

/// Silence to all observers until the end of the data that is taken for a crash.
pub const SILENT_END_NS: i64 = 60_000_000_000;

/// Collects the answers and silence of one group, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    of: BTreeMap<u16, Heard>,
    /// Life of each callee as each observer knows it.
    lives: BTreeMap<(u16, u16), u8>,
    end_ns: i64,
}

#[derive(Clone, Debug, Default)]
struct Heard {
    last_ns: Option<i64>,
    asked_ns: i64,
    down: Vec<(i64, i64)>,
}

/// Downtimes of nodes.
#[derive(Clone, Debug, Default)]
pub struct Downtime(BTreeMap<u16, Vec<(i64, i64)>>);

impl Watch {
    /// Adds a call from one node to another. `life` is the life of the callee that answered; `None`
    /// without an answer.
    pub fn observe(&mut self, from: u16, to: u16, at_ns: i64, life: Option<u8>) {
        self.end_ns = self.end_ns.max(at_ns);
        let heard = self.of.entry(to).or_default();
        heard.asked_ns = at_ns;
        let Some(life) = life else { return };
        let before = self.lives.insert((from, to), life);
        if before.is_some_and(|before| before != life)
            && let Some(last_ns) = heard.last_ns
        {
            heard.down.push((last_ns, at_ns));
        }
        heard.last_ns = Some(at_ns);
    }

    /// Returns the downtimes of all nodes.
    pub fn finish(self) -> Downtime {
        let finish = |(node, mut heard): (u16, Heard)| {
            let last_ns = heard.last_ns.unwrap_or(i64::MIN);
            if heard.asked_ns.saturating_sub(last_ns) >= SILENT_END_NS {
                heard.down.push((last_ns, i64::MAX));
            }
            (node, heard.down)
        };
        Downtime(self.of.into_iter().map(finish).filter(|(_, down)| !down.is_empty()).collect())
    }
}

impl Downtime {
    /// Whether a node was down when a call to it was due.
    pub fn was_down(&self, node: u16, at_ns: i64) -> bool {
        let Some(down) = self.0.get(&node) else { return false };
        down.iter().any(|(from, to)| (*from..*to).contains(&at_ns) && *from < at_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    /// Two observers call node 9 every second; `life` gives its answers by observer and second.
    fn watched(seconds: i64, life: impl Fn(u16, i64) -> Option<u8>) -> Downtime {
        let mut watch = Watch::default();
        for second in 0..seconds {
            (0..2).for_each(|from| watch.observe(from, 9, second * S, life(from, second)));
        }
        watch.finish()
    }

    #[test]
    fn a_new_life_after_silence_was_a_time_of_being_down() {
        let down = watched(20, |_, second| match second {
            0..5 => Some(0),
            5..12 => None,
            _ => Some(1),
        });
        let found: Vec<i64> = (0..20).filter(|second| down.was_down(9, second * S)).collect();
        assert_eq!(found, [5, 6, 7, 8, 9, 10, 11]);
        assert!(!down.was_down(8, 6 * S));
    }

    #[test]
    fn silence_towards_some_or_without_a_new_life_counts() {
        let same = watched(20, |_, second| (!(5..12).contains(&second)).then_some(0));
        assert!((0..20).all(|second| !same.was_down(9, second * S)));
        // Observer 1 still got an answer at second 8: the node was down only after that.
        let later = watched(20, |from, second| match second {
            0..5 => Some(0),
            5..=8 if from == 1 => Some(0),
            5..12 => None,
            _ => Some(1),
        });
        assert!(!later.was_down(9, 7 * S) && later.was_down(9, 10 * S));
    }

    #[test]
    fn a_node_that_is_silent_until_the_end_is_down() {
        let gone = watched(100, |_, second| (second < 30).then_some(0));
        assert!(gone.was_down(9, 50 * S) && !gone.was_down(9, 20 * S));
        let short = watched(100, |_, second| (second < 60).then_some(0));
        assert!(!short.was_down(9, 80 * S), "less than a minute is only a suspicion");
    }
}
