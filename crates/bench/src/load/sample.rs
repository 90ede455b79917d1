//! Results and costs of one stretch of load, whichever process made the load.

use super::recorder::Recorder;
use crate::servers::process::{cpu_us, machine_cpu_us, trees_cpu_us};
use serde::{Deserialize, Serialize};

/// Load to put on a server.
#[derive(Clone, Copy, Debug)]
pub struct Load<'a> {
    /// Name of the command.
    pub command: &'a str,
    /// Pipeline depth.
    pub pipeline: u32,
    /// Connections.
    pub clients: u32,
    /// Measured seconds, after the warm-up.
    pub seconds: f64,
    /// Seed of the random choices.
    pub seed: u64,
}

/// Processor time used so far, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    servers_us: u64,
    client_us: u64,
    machine_us: u64,
}

impl Costs {
    /// Reads the usage of these processes and those below them, of this process (the load) and of
    /// the whole machine.
    pub fn now(servers: &[u32]) -> Self {
        Self {
            servers_us: trees_cpu_us(servers),
            client_us: cpu_us("self"),
            machine_us: machine_cpu_us(),
        }
    }
}

/// A measured stretch of load. A load generator in a process of its own writes it as JSON.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// Number of answered operations.
    pub ops: u64,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Processor time of the servers.
    pub server_cpu_us: u64,
    /// Processor time of the load generator.
    pub client_cpu_us: u64,
    /// Processor time of the whole machine.
    pub machine_cpu_us: u64,
    /// Latencies in nanoseconds, each with its count.
    pub latency_ns: Vec<(u64, u64)>,
}

impl Sample {
    /// Builds a sample from a recording between two readings of the costs. Every commit stands for
    /// `together` operations.
    pub fn new(
        recorder: &Recorder,
        together: u32,
        elapsed_ns: u64,
        (before, after): (Costs, Costs),
    ) -> Self {
        let latencies = recorder.latency.iter_recorded();
        Self {
            ops: recorder.commits() * u64::from(together),
            elapsed_s: elapsed_ns as f64 / 1e9,
            server_cpu_us: after.servers_us.saturating_sub(before.servers_us),
            client_cpu_us: after.client_us.saturating_sub(before.client_us),
            machine_cpu_us: after.machine_us.saturating_sub(before.machine_us),
            latency_ns: latencies.map(|at| (at.value_iterated_to(), at.count_at_value())).collect(),
        }
    }

    /// Adds another stretch, as if this one had been longer.
    pub fn add(&mut self, other: Self) {
        self.ops += other.ops;
        self.elapsed_s += other.elapsed_s;
        self.server_cpu_us += other.server_cpu_us;
        self.client_cpu_us += other.client_cpu_us;
        self.machine_cpu_us += other.machine_cpu_us;
        self.latency_ns.extend(other.latency_ns);
        self.latency_ns.sort_unstable();
    }

    /// Operations per second.
    pub fn ops_per_s(&self) -> f64 {
        self.ops as f64 / self.elapsed_s
    }

    /// Processor time of the servers for one operation.
    pub fn cpu_us_per_op(&self) -> f64 {
        self.server_cpu_us as f64 / self.ops.max(1) as f64
    }

    /// Processor time of the load generator for one operation.
    pub fn client_cpu_us_per_op(&self) -> f64 {
        self.client_cpu_us as f64 / self.ops.max(1) as f64
    }

    /// Number of processors that the load generator kept busy.
    pub fn client_cpus(&self) -> f64 {
        self.client_cpu_us as f64 / (self.elapsed_s * 1e6)
    }

    /// Number of processors of the machine that were busy.
    pub fn machine_cpus(&self) -> f64 {
        self.machine_cpu_us as f64 / (self.elapsed_s * 1e6)
    }

    /// Number of processors that were busy with other work.
    pub fn foreign_cpus(&self) -> f64 {
        let own_us = self.server_cpu_us + self.client_cpu_us;
        self.machine_cpu_us.saturating_sub(own_us) as f64 / (self.elapsed_s * 1e6)
    }

    /// Latency that this share of the operations did not exceed, in microseconds; NaN when there
    /// were none.
    pub fn latency_us(&self, share: f64) -> f64 {
        let total: u64 = self.latency_ns.iter().map(|(_, count)| count).sum();
        let wanted = ((total as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.latency_ns.iter().find(|(_, count)| {
            seen += count;
            seen >= wanted
        });
        reached.map_or(f64::NAN, |(ns, _)| *ns as f64 / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(latencies_us: &[u64]) -> Sample {
        let mut recorder = Recorder::new(1, 0);
        latencies_us.iter().for_each(|us| recorder.commit(0, 0, us * 1_000));
        let costs = Costs::now(&[]);
        Sample::new(&recorder, 1, 500_000_000, (costs, costs))
    }

    #[test]
    fn stretches_add_up() {
        let mut all = recorded(&[100, 300]);
        all.add(recorded(&[200, 400]));
        assert_eq!((all.ops, all.ops_per_s()), (4, 4.0));
        assert!((199.0..202.0).contains(&all.latency_us(0.5)), "{}", all.latency_us(0.5));
        assert!((399.0..402.0).contains(&all.latency_us(0.99)));
        assert!(Sample::default().latency_us(0.5).is_nan());
    }

    #[test]
    fn processors_are_told_apart() {
        let sample = Sample {
            ops: 1_000,
            elapsed_s: 2.0,
            server_cpu_us: 1_000_000,
            client_cpu_us: 500_000,
            machine_cpu_us: 2_500_000,
            latency_ns: Vec::new(),
        };
        assert_eq!((sample.cpu_us_per_op(), sample.client_cpu_us_per_op()), (1_000.0, 500.0));
        assert_eq!((sample.client_cpus(), sample.foreign_cpus()), (0.25, 0.5));
    }

    #[test]
    fn another_process_can_write_it() {
        let sample = recorded(&[1_000, 2_000]);
        let text = serde_json::to_string(&sample).expect("plain data");
        let read: Sample = serde_json::from_str(&text).expect("the same data");
        assert_eq!(read.latency_us(1.0), sample.latency_us(1.0));
    }
}
