//! Reader of Linux's statistics of the host, once a second.
//!
//! Files are opened once and read again from their beginning, which costs a third of opening them
//! every time. Missing statistics stay null: those of a version 2 cgroup, of pressure, of a process
//! that is gone.

mod devices;

use super::canary::Canary;
use super::clock;
use probe::Resources;
use probe::proc::{self, Cores, Work};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use devices::{disks, interfaces};

/// Maximum number of sampled threads of one process.
const THREADS_MAX: usize = 512;

/// Options for sampling.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Process of the store, if there is one.
    pub store_pid: Option<u32>,
    /// Devices that are summed; empty for the whole disks of the host.
    pub disks: Vec<String>,
    /// Interfaces that are summed; empty for all but the loopback.
    pub interfaces: Vec<String>,
    /// Time between two moments of the canary; `None` for no canary.
    pub canary: Option<Duration>,
}

/// Open files, and the counters of the last row.
#[derive(Debug)]
pub struct Sampler {
    options: Options,
    files: Vec<(Kept, Parse)>,
    agent: Process,
    store: Option<Process>,
    canary: Option<Canary>,
    before: Option<(Resources, Cores)>,
    text: String,
}

/// A file that is read repeatedly.
#[derive(Debug)]
struct Kept(File);

impl Kept {
    fn open(path: &Path) -> Option<Self> {
        File::open(path).ok().map(Self)
    }

    /// Reads the whole file; `None` if it is gone.
    fn read<'a>(&mut self, text: &'a mut String) -> Option<&'a str> {
        text.clear();
        self.0.rewind().ok()?;
        self.0.read_to_string(text).ok()?;
        Some(text)
    }
}

/// Kind of a file, which determines its parser.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Parse {
    Stat,
    Disks,
    Memory,
    Vm,
    PressureCpu,
    PressureMemory,
    PressureIo,
    PressureIrq,
    Network,
    Snmp,
    Netstat,
    Softnet,
    CgroupCpu,
    CgroupMemoryEvents,
    CgroupMemory,
    CgroupIo,
    CgroupPressureCpu,
    CgroupPressureMemory,
    CgroupPressureIo,
    CgroupPressureIrq,
}

const OF_HOST: [(&str, Parse); 12] = [
    ("/proc/stat", Parse::Stat),
    ("/proc/diskstats", Parse::Disks),
    ("/proc/meminfo", Parse::Memory),
    ("/proc/vmstat", Parse::Vm),
    ("/proc/pressure/cpu", Parse::PressureCpu),
    ("/proc/pressure/memory", Parse::PressureMemory),
    ("/proc/pressure/io", Parse::PressureIo),
    ("/proc/pressure/irq", Parse::PressureIrq),
    ("/proc/net/dev", Parse::Network),
    ("/proc/net/snmp", Parse::Snmp),
    ("/proc/net/netstat", Parse::Netstat),
    ("/proc/net/softnet_stat", Parse::Softnet),
];

const OF_CGROUP: [(&str, Parse); 8] = [
    ("cpu.stat", Parse::CgroupCpu),
    ("memory.events", Parse::CgroupMemoryEvents),
    ("memory.current", Parse::CgroupMemory),
    ("io.stat", Parse::CgroupIo),
    ("cpu.pressure", Parse::CgroupPressureCpu),
    ("memory.pressure", Parse::CgroupPressureMemory),
    ("io.pressure", Parse::CgroupPressureIo),
    ("irq.pressure", Parse::CgroupPressureIrq),
];

impl Sampler {
    /// Opens all existing files.
    ///
    /// # Errors
    /// The system is not Linux, a named device or interface does not exist, the process of the
    /// store cannot be read, or no thread for the canary can be created.
    pub fn new(mut options: Options) -> io::Result<Self> {
        let other = |what: String| io::Error::other(what);
        if !Path::new("/proc/stat").exists() {
            return Err(other("there is no /proc/stat: the sampler needs Linux".into()));
        }
        options.disks = devices::chosen("disk", &options.disks, disks()).map_err(other)?;
        options.interfaces =
            devices::chosen("interface", &options.interfaces, interfaces()).map_err(other)?;
        let store =
            match options.store_pid {
                Some(pid) => Some(Process::new(pid).map_err(|error| {
                    other(format!("process {pid} cannot be inspected: {error}"))
                })?),
                None => None,
            };
        let mut files = Vec::new();
        let mut keep =
            |path: PathBuf, parse| files.extend(Kept::open(&path).map(|file| (file, parse)));
        OF_HOST.into_iter().for_each(|(path, parse)| keep(path.into(), parse));
        if let Some(group) = cgroup(options.store_pid) {
            OF_CGROUP.into_iter().for_each(|(name, parse)| keep(group.join(name), parse));
        }
        Ok(Self {
            agent: Process::new(std::process::id())?,
            canary: options.canary.map(Canary::start).transpose()?,
            options,
            files,
            store,
            before: None,
            text: String::with_capacity(16_384),
        })
    }

    /// Devices and interfaces that are summed.
    pub fn chosen(&self) -> (&[String], &[String]) {
        (&self.options.disks, &self.options.interfaces)
    }

    /// Reads everything. The first call returns no row: counters need a previous value.
    pub fn row(&mut self) -> Option<Resources> {
        let began_ns = clock::thread_cpu_ns();
        let now = clock::now();
        let mut row = Resources { t_ns: now.wall_ns, mono_ns: now.mono_ns, ..Resources::default() };
        let mut cores = Cores::default();
        for (file, parse) in &mut self.files {
            if let Some(text) = file.read(&mut self.text) {
                take(*parse, text, &self.options, &mut row, &mut cores);
            }
        }
        self.agent.read(&mut self.text).of_agent(&mut row);
        if let Some(store) = &mut self.store
            && store.is_there()
        {
            store.read(&mut self.text).of_store(&mut row);
        }
        let before = self.before.replace((row.clone(), cores.clone()));
        let lateness = self.canary.as_ref().map(Canary::take);
        let (before, cores_before) = before?;
        let mut row = proc::difference(&before, &row);
        (row.cpu_maxcore_percent, row.cpu_cores_full) = cores.since(&cores_before).unzip();
        if let Some(lateness) = lateness {
            let us = |ns: u64| i64::try_from(ns / 1_000).ok();
            (row.stall_sum_us, row.stall_max_us) = (us(lateness.sum_ns), us(lateness.max_ns));
            row.stall_n = i64::try_from(lateness.above_1ms).ok();
        }
        let cost_us = (clock::thread_cpu_ns() - began_ns) / 1_000;
        row.cost_us = u16::try_from(cost_us.max(0)).unwrap_or(u16::MAX);
        Some(row)
    }
}

fn take(parse: Parse, text: &str, options: &Options, row: &mut Resources, cores: &mut Cores) {
    let pressure = || proc::pressure(text);
    match parse {
        Parse::Stat => *cores = proc::stat(text, row),
        Parse::Disks => proc::diskstats(text, &options.disks, row),
        Parse::Memory => proc::meminfo(text, row),
        Parse::Vm => proc::vmstat(text, row),
        Parse::PressureCpu => row.psi_cpu_some_us = pressure().0,
        Parse::PressureMemory => (row.psi_memory_some_us, row.psi_memory_full_us) = pressure(),
        Parse::PressureIo => (row.psi_io_some_us, row.psi_io_full_us) = pressure(),
        Parse::PressureIrq => row.psi_irq_full_us = pressure().1,
        Parse::Network => proc::netdev(text, &options.interfaces, row),
        Parse::Snmp => proc::snmp(text, row),
        Parse::Netstat => proc::netstat(text, row),
        Parse::Softnet => proc::softnet(text, row),
        Parse::CgroupCpu => proc::cpu_stat(text, row),
        Parse::CgroupMemoryEvents => proc::memory_events(text, row),
        Parse::CgroupMemory => row.cg_memory_current_bytes = proc::single(text),
        Parse::CgroupIo => proc::cgroup_io(text, row),
        Parse::CgroupPressureCpu => row.cg_psi_cpu_some_us = pressure().0,
        Parse::CgroupPressureMemory => {
            (row.cg_psi_memory_some_us, row.cg_psi_memory_full_us) = pressure();
        }
        Parse::CgroupPressureIo => (row.cg_psi_io_some_us, row.cg_psi_io_full_us) = pressure(),
        Parse::CgroupPressureIrq => row.cg_psi_irq_full_us = pressure().1,
    }
}

/// Folder of the process' cgroup, if the host has version 2.
fn cgroup(pid: Option<u32>) -> Option<PathBuf> {
    let of = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    let text = fs::read_to_string(format!("/proc/{of}/cgroup")).ok()?;
    let path = text.lines().find_map(|line| line.strip_prefix("0::"))?;
    let root = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
    let root = root.iter().find(|root| Path::new(root).join("cgroup.controllers").exists())?;
    Some(Path::new(root).join(path.trim_start_matches('/')))
}

/// A process and its threads.
#[derive(Debug)]
struct Process {
    folder: PathBuf,
    stat: Kept,
    io: Option<Kept>,
    threads: BTreeMap<u32, (Kept, Kept)>,
}

impl Process {
    fn new(pid: u32) -> io::Result<Self> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = Kept(File::open(folder.join("stat"))?);
        let io = Kept::open(&folder.join("io"));
        Ok(Self { folder, stat, io, threads: BTreeMap::new() })
    }

    fn is_there(&self) -> bool {
        self.folder.exists()
    }

    /// Opens new threads and drops those that are gone.
    fn look(&mut self) {
        let Ok(entries) = fs::read_dir(self.folder.join("task")) else {
            self.threads.clear();
            return;
        };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        let now: Vec<u32> = names.take(THREADS_MAX).collect();
        self.threads.retain(|thread, _| now.contains(thread));
        for thread in now {
            let open = |name: &str| Kept::open(&self.folder.join(format!("task/{thread}/{name}")));
            if !self.threads.contains_key(&thread)
                && let (Some(schedstat), Some(status)) = (open("schedstat"), open("status"))
            {
                self.threads.insert(thread, (schedstat, status));
            }
        }
    }

    fn read(&mut self, text: &mut String) -> Work {
        self.look();
        let mut work = Work::default();
        for (schedstat, status) in self.threads.values_mut() {
            if let Some(text) = schedstat.read(text) {
                work.threads.schedstat(text);
            }
            if let Some(text) = status.read(text) {
                work.threads.status(text);
            }
        }
        if let Some(text) = self.stat.read(text) {
            work.stat(text);
        }
        if let Some(text) = self.io.as_mut().and_then(|io| io.read(text)) {
            work.io(text);
        }
        work
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_has_rows() {
        let options = Options {
            store_pid: Some(std::process::id()),
            canary: Some(Duration::from_millis(1)),
            ..Options::default()
        };
        let mut sampler = Sampler::new(options).unwrap();
        assert!(sampler.row().is_none(), "counters need a previous value");
        let busy = std::time::Instant::now();
        while busy.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let row = sampler.row().unwrap();
        assert!(row.dt_us >= 50_000 && row.cost_us > 0);
        assert!(row.agent_oncpu_ns.unwrap() > 0);
        assert!(row.store_minor_faults.is_some() && row.cpu_idle_ticks.is_some());
        assert!(row.mem_available_kb.unwrap() > 0 && row.pgfault.is_some());
        assert!(row.stall_sum_us.unwrap() > 0 && row.cpu_maxcore_percent.is_some());
    }

    #[test]
    fn what_does_not_exist_is_said() {
        let options = Options { disks: vec!["nosuchdisk".into()], ..Options::default() };
        let error = Sampler::new(options).unwrap_err().to_string();
        assert!(error.contains("no disk \"nosuchdisk\""), "{error}");
        let options = Options { store_pid: Some(u32::MAX - 1), ..Options::default() };
        assert!(Sampler::new(options).unwrap_err().to_string().contains("cannot be inspected"));
    }
}
