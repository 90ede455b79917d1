//! Parsers of files about one process.
//!
//! Many statistics of a process cover its main thread only: times on a core and waiting for one,
//! and context switches, are therefore summed over the folder of its threads here.

use crate::resources::Resources;

/// Work of the threads of a process, as raw counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Threads {
    /// Time on a core.
    pub oncpu_ns: i64,
    /// Time runnable without a core.
    pub wait_ns: i64,
    /// Number of times on a core.
    pub timeslices: i64,
    /// Voluntary context switches.
    pub voluntary: i64,
    /// Involuntary context switches.
    pub involuntary: i64,
}

impl Threads {
    /// Adds the text of a thread's `schedstat`.
    pub fn schedstat(&mut self, text: &str) {
        let mut words = text.split_ascii_whitespace().map_while(|word| word.parse::<i64>().ok());
        self.oncpu_ns += words.next().unwrap_or(0);
        self.wait_ns += words.next().unwrap_or(0);
        self.timeslices += words.next().unwrap_or(0);
    }

    /// Adds the text of a thread's `status`, whose last lines have the switches.
    pub fn status(&mut self, text: &str) {
        for line in text.lines().rev() {
            let value = || line.rsplit_once('\t').and_then(|(_, value)| value.parse::<i64>().ok());
            if line.starts_with("voluntary_ctxt_switches") {
                self.voluntary += value().unwrap_or(0);
                break;
            }
            if line.starts_with("nonvoluntary_ctxt_switches") {
                self.involuntary += value().unwrap_or(0);
            }
        }
    }
}

/// Work of a process, as raw counters.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Work {
    /// Work summed over its threads.
    pub threads: Threads,
    /// Page faults.
    pub minor_faults: Option<i64>,
    /// Page faults that read from a device.
    pub major_faults: Option<i64>,
    /// Time waiting for block devices, in ticks; zero where the kernel does not count it.
    pub block_io_delay_ticks: Option<i64>,
    /// Bytes read from devices.
    pub read_bytes: Option<i64>,
    /// Bytes written to devices.
    pub written_bytes: Option<i64>,
}

impl Work {
    /// Parses the text of the process' `stat`. Its name may contain spaces and parentheses.
    pub fn stat(&mut self, text: &str) {
        let Some((_, rest)) = text.rsplit_once(") ") else { return };
        // The first field behind the name is the third of the file.
        let field = |number: usize| rest.split_ascii_whitespace().nth(number - 3)?.parse().ok();
        self.minor_faults = field(10);
        self.major_faults = field(12);
        self.block_io_delay_ticks = field(42);
    }

    /// Parses the text of the process' `io`.
    pub fn io(&mut self, text: &str) {
        for (name, value) in text.lines().filter_map(|line| line.split_once(": ")) {
            match name {
                "read_bytes" => self.read_bytes = value.parse().ok(),
                "write_bytes" => self.written_bytes = value.parse().ok(),
                _ => {}
            }
        }
    }

    /// Stores the work in a row, as that of the store.
    pub fn of_store(&self, row: &mut Resources) {
        row.store_oncpu_ns = Some(self.threads.oncpu_ns);
        row.store_runq_wait_ns = Some(self.threads.wait_ns);
        row.store_timeslices = Some(self.threads.timeslices);
        row.store_voluntary_switches = Some(self.threads.voluntary);
        row.store_involuntary_switches = Some(self.threads.involuntary);
        row.store_minor_faults = self.minor_faults;
        row.store_major_faults = self.major_faults;
        row.store_block_io_delay_ticks = self.block_io_delay_ticks;
        row.store_read_bytes = self.read_bytes;
        row.store_written_bytes = self.written_bytes;
    }

    /// Stores the work in a row, as that of the agent.
    pub fn of_agent(&self, row: &mut Resources) {
        row.agent_oncpu_ns = Some(self.threads.oncpu_ns);
        row.agent_runq_wait_ns = Some(self.threads.wait_ns);
        row.agent_timeslices = Some(self.threads.timeslices);
        row.agent_voluntary_switches = Some(self.threads.voluntary);
        row.agent_involuntary_switches = Some(self.threads.involuntary);
        row.agent_minor_faults = self.minor_faults;
        row.agent_major_faults = self.major_faults;
        row.agent_block_io_delay_ticks = self.block_io_delay_ticks;
        row.agent_read_bytes = self.read_bytes;
        row.agent_written_bytes = self.written_bytes;
    }
}
