//! Events of the measured window.

use hdrhistogram::Histogram;

/// Upper bound of recorded latencies, in nanoseconds.
const LATENCY_MAX_NS: u64 = 600_000_000_000;

/// Counts and latencies of one cell.
#[derive(Clone, Debug)]
pub struct Recorder {
    from_ns: u64,
    /// Committed transactions by kind.
    pub committed: Vec<u64>,
    /// Aborted attempts by kind.
    pub aborted: Vec<u64>,
    /// Transactions that were given up after too many attempts.
    pub given_up: u64,
    /// Committed transactions by second of the window.
    pub by_second: Vec<u64>,
    /// Times from the first byte of the first attempt to the commit, in nanoseconds.
    pub latency: Histogram<u64>,
}

impl Recorder {
    /// Creates a recorder that counts from `from_ns` on.
    ///
    /// # Panics
    /// Never: the bounds of the histogram are valid.
    pub fn new(kinds: usize, from_ns: u64) -> Self {
        let latency = Histogram::new_with_bounds(1_000, LATENCY_MAX_NS, 3).expect("valid bounds");
        Self {
            from_ns,
            committed: vec![0; kinds],
            aborted: vec![0; kinds],
            given_up: 0,
            by_second: Vec::new(),
            latency,
        }
    }

    /// Records the commit of a transaction that began at `started_ns`.
    pub fn commit(&mut self, kind: usize, started_ns: u64, now_ns: u64) {
        let Some(since_ns) = now_ns.checked_sub(self.from_ns) else { return };
        self.committed[kind] += 1;
        self.latency.saturating_record(now_ns.saturating_sub(started_ns));
        let second = (since_ns / 1_000_000_000) as usize;
        if self.by_second.len() <= second {
            self.by_second.resize(second + 1, 0);
        }
        self.by_second[second] += 1;
    }

    /// Records an aborted attempt.
    pub fn abort(&mut self, kind: usize, now_ns: u64) {
        self.aborted[kind] += u64::from(now_ns >= self.from_ns);
    }

    /// Records a transaction that was given up.
    pub fn give_up(&mut self, now_ns: u64) {
        self.given_up += u64::from(now_ns >= self.from_ns);
    }

    /// Adds the events of another recorder with the same kinds.
    ///
    /// # Panics
    /// Never: the bounds of all histograms are the same.
    pub fn add(&mut self, other: &Self) {
        let add = |sums: &mut Vec<u64>, counts: &[u64]| {
            sums.resize(sums.len().max(counts.len()), 0);
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
        };
        add(&mut self.committed, &other.committed);
        add(&mut self.aborted, &other.aborted);
        add(&mut self.by_second, &other.by_second);
        self.given_up += other.given_up;
        self.latency.add(&other.latency).expect("the same bounds");
    }

    /// Number of committed transactions.
    pub fn commits(&self) -> u64 {
        self.committed.iter().sum()
    }

    /// Number of aborted attempts.
    pub fn aborts(&self) -> u64 {
        self.aborted.iter().sum()
    }

    /// Throughput of the worst five whole seconds in a row over the mean; `None` for windows of
    /// less than six seconds.
    pub fn worst_5s_over_mean(&self, seconds: u64) -> Option<f64> {
        let seconds = usize::try_from(seconds).ok()?;
        let counts: Vec<u64> =
            (0..seconds).map(|s| self.by_second.get(s).copied().unwrap_or(0)).collect();
        let mean = counts.iter().sum::<u64>() as f64 / seconds as f64;
        let worst = counts.windows(5).map(|w| w.iter().sum::<u64>()).min()? as f64 / 5.0;
        (seconds > 5 && mean > 0.0).then(|| worst / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_window_counts() {
        let mut recorder = Recorder::new(2, 1_000);
        recorder.commit(0, 0, 999);
        recorder.abort(1, 999);
        assert_eq!((recorder.commits(), recorder.aborts()), (0, 0));
        recorder.commit(1, 500, 50_500);
        recorder.abort(0, 50_500);
        recorder.give_up(50_500);
        assert_eq!((recorder.committed.as_slice(), recorder.aborts()), (&[0, 1][..], 1));
        assert_eq!(recorder.given_up, 1);
        assert!((49_000..51_000).contains(&recorder.latency.max()));
    }

    #[test]
    fn recorders_add_up() {
        let (mut one, mut other) = (Recorder::new(2, 0), Recorder::new(2, 0));
        one.commit(0, 0, 100_000);
        other.commit(1, 0, 1_300_000_000);
        other.abort(1, 5);
        one.add(&other);
        assert_eq!((one.committed.as_slice(), one.aborts()), (&[1, 1][..], 1));
        assert_eq!((one.by_second.as_slice(), one.latency.len()), (&[1, 1][..], 2));
    }

    #[test]
    fn the_worst_five_seconds_are_found() {
        let mut recorder = Recorder::new(1, 0);
        recorder.by_second = vec![10, 10, 10, 5, 5, 5, 5, 5, 10, 10];
        assert_eq!(recorder.worst_5s_over_mean(10), Some(5.0 / 7.5));
        assert_eq!(recorder.worst_5s_over_mean(5), None);
    }
}
