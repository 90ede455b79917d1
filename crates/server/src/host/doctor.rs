//! Checks of this machine and configuration for problems and risks, with advice.

use super::memory;
use crate::config::{Durability, Options};
use crate::data::datadir::DataDir;
use rustix::process::{Resource, getrlimit};
use serde::Serialize;
use std::fs::OpenOptions;
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Works, with a risk or at a cost.
    Warn,
    /// Does not work.
    Fail,
}

/// Result of one check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Name of the check.
    pub check: &'static str,
    /// Severity.
    pub verdict: Verdict,
    /// Description of the finding.
    pub found: String,
    /// Advice; empty if all is well.
    pub advice: String,
}

fn ok(check: &'static str, found: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Ok, found: found.into(), advice: String::new() }
}

fn warn(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Warn, found: found.into(), advice: advice.into() }
}

fn fail(check: &'static str, found: impl Into<String>, advice: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Fail, found: found.into(), advice: advice.into() }
}

/// Number of fsyncs that are measured.
const FSYNCS: usize = 100;
/// Duration of an fsync, in microseconds, above which every write is noticeably slow.
const FSYNC_US_MAX: u64 = 20_000;
/// Duration of an fsync, in microseconds, below which it cannot have reached storage that survives
/// a power failure.
const FSYNC_US_MIN: u64 = 15;
/// File descriptors besides those of connections.
const DESCRIPTORS_SPARE: u64 = 256;

/// Runs all checks. Existing files are not changed.
pub fn examine(options: &Options) -> Vec<Finding> {
    let mut findings = data_dir(options);
    findings.extend([
        fsync(options),
        disk_space(options),
        descriptors(options),
        memory_limit(options),
        huge_pages(),
        overcommit(),
        clock_source(),
        workers(options),
        port(options),
        backlog(),
    ]);
    findings.extend(configuration(options));
    findings
}

/// The directory itself, or its nearest existing ancestor.
fn existing(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let found = absolute.ancestors().find(|ancestor| ancestor.is_dir()).map(Path::to_owned);
    found.unwrap_or_else(|| PathBuf::from("/"))
}

fn data_dir(options: &Options) -> Vec<Finding> {
    const CHECK: &str = "data directory";
    let path = options.dir.display();
    match DataDir::peek(&options.dir) {
        Err(error) => vec![fail(CHECK, error.to_string(), "the message says what to do")],
        Ok(None) => vec![ok(CHECK, format!("{path} will be created"))],
        Ok(Some(manifest)) => {
            let found = format!(
                "{path}: format {}, {} shards, created by version {}",
                manifest.format, manifest.shards, manifest.created_by
            );
            let mut findings = vec![ok(CHECK, found)];
            if let Some(wanted) = options.shards.filter(|wanted| *wanted != manifest.shards) {
                findings.push(fail(
                    "shards",
                    format!("{wanted} are configured, {path} has {}", manifest.shards),
                    format!("leave the setting out, or set it to {}", manifest.shards),
                ));
            }
            findings
        }
    }
}

fn fsync(options: &Options) -> Finding {
    const CHECK: &str = "fsync latency";
    let dir = existing(&options.dir);
    let mut times_us = match measure_fsync(&dir) {
        Ok(times_us) => times_us,
        Err(error) => {
            return fail(
                CHECK,
                format!("{} cannot be written: {error}", dir.display()),
                "give the user that runs claret the right to write there, or use another --dir",
            );
        }
    };
    times_us.sort_unstable();
    let at = |percent: usize| times_us[(times_us.len() - 1) * percent / 100];
    let found =
        format!("p50 {} us, p90 {} us, p99 {} us in {}", at(50), at(90), at(99), dir.display());
    if at(90) > FSYNC_US_MAX {
        warn(
            CHECK,
            found,
            "every acknowledged write waits for this: use a faster disk, or --durability everysec if \
             the last second may be lost",
        )
    } else if at(50) < FSYNC_US_MIN {
        warn(
            CHECK,
            found,
            "too fast for a disk: the file system seems to be in memory and would lose everything \
             with the machine",
        )
    } else {
        ok(CHECK, found)
    }
}

fn measure_fsync(dir: &Path) -> std::io::Result<Vec<u64>> {
    let path = dir.join(format!(".claret-doctor-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    let mut measure = || {
        let mut times_us = Vec::with_capacity(FSYNCS);
        for _ in 0..FSYNCS {
            let begun = Instant::now();
            file.write_all(&[7; 512])?;
            file.sync_data()?;
            times_us.push(begun.elapsed().as_micros() as u64);
        }
        Ok(times_us)
    };
    let measured = measure();
    std::fs::remove_file(&path)?;
    measured
}

fn disk_space(options: &Options) -> Finding {
    const CHECK: &str = "disk space";
    let dir = existing(&options.dir);
    let stat = match rustix::fs::statvfs(&dir) {
        Ok(stat) => stat,
        Err(error) => return warn(CHECK, format!("unknown: {error}"), "look at it yourself (df)"),
    };
    let free = stat.f_bavail * stat.f_frsize;
    let total = (stat.f_blocks * stat.f_frsize).max(1);
    let found = format!("{} MiB free of {} MiB", free >> 20, total >> 20);
    let needed = 4 * options.snapshot_log_bytes * u64::from(options.shards_default());
    if free < 64 << 20 {
        fail(CHECK, found, "make room: the server stops when the log cannot be written")
    } else if free < needed || free < total / 20 {
        let advice = format!("log and snapshots may need {} MiB and more: make room", needed >> 20);
        warn(CHECK, found, advice)
    } else {
        ok(CHECK, found)
    }
}

fn descriptors(options: &Options) -> Finding {
    const CHECK: &str = "file descriptors";
    let needed = options.connections_max as u64 + DESCRIPTORS_SPARE;
    match getrlimit(Resource::Nofile).maximum {
        Some(limit) if limit < needed => warn(
            CHECK,
            format!("at most {limit}, but {} connections are allowed", options.connections_max),
            format!(
                "raise the limit (ulimit -Hn {needed}, LimitNOFILE= in systemd), or set maxclients"
            ),
        ),
        Some(limit) => ok(CHECK, format!("at most {limit}, {needed} needed")),
        None => ok(CHECK, "no limit"),
    }
}

fn memory_limit(options: &Options) -> Finding {
    const CHECK: &str = "memory";
    let available = memory::available_bytes();
    let of = match memory::cgroup_limit_bytes() {
        Some(limit) if limit <= available => "the control group allows",
        _ => "the machine has",
    };
    let (limit, logs) = (options.memory_limit_bytes, options.memory_log_bytes);
    let found = format!(
        "maxmemory {} MiB and {} MiB for logs, {of} {} MiB",
        limit >> 20,
        logs >> 20,
        available >> 20
    );
    if limit == 0 {
        warn(
            CHECK,
            found,
            "without a limit the system kills the server when memory is full: set one",
        )
    } else if limit.saturating_add(logs) > available / 10 * 9 {
        warn(
            CHECK,
            found,
            "leave a tenth or more for buffers and the system, or it kills the server: lower maxmemory \
             or maxmemory_log",
        )
    } else {
        ok(CHECK, found)
    }
}

fn huge_pages() -> Finding {
    const CHECK: &str = "transparent huge pages";
    match read("/sys/kernel/mm/transparent_hugepage/enabled") {
        Some(setting) if setting.contains("[always]") => warn(
            CHECK,
            "always",
            "pauses and wasted memory: echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        ),
        Some(setting) => ok(CHECK, setting),
        None => ok(CHECK, "not supported by this system"),
    }
}

fn overcommit() -> Finding {
    const CHECK: &str = "memory overcommit";
    match read("/proc/sys/vm/overcommit_memory").as_deref() {
        Some("2") => warn(
            CHECK,
            "2 (never)",
            "allocations may fail, which ends the server, while memory is free: sysctl \
             vm.overcommit_memory=0",
        ),
        Some(mode) => ok(CHECK, format!("mode {mode}")),
        None => ok(CHECK, "unknown"),
    }
}

fn clock_source() -> Finding {
    const CHECK: &str = "clock source";
    match read("/sys/devices/system/clocksource/clocksource0/current_clocksource").as_deref() {
        Some(source @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => warn(
            CHECK,
            source,
            "reading the time costs a system call or more, several times per turn: use tsc or the \
             clock of the hypervisor",
        ),
        Some(source) => ok(CHECK, source),
        None => ok(CHECK, "unknown"),
    }
}

fn workers(options: &Options) -> Finding {
    const CHECK: &str = "workers";
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let found = format!("{} workers, {cores} cores", options.workers);
    if usize::from(options.workers) > cores {
        warn(CHECK, found, "more workers than cores wait for each other: lower workers")
    } else {
        ok(CHECK, found)
    }
}

fn port(options: &Options) -> Finding {
    const CHECK: &str = "port";
    let address = options.address();
    match TcpListener::bind(address) {
        Ok(_) => ok(CHECK, format!("{address} is free")),
        Err(error) => warn(
            CHECK,
            format!("{address}: {error}"),
            "fine if it is this server that is running already; otherwise choose another --port",
        ),
    }
}

fn backlog() -> Finding {
    const CHECK: &str = "connection backlog";
    let limit = read("/proc/sys/net/core/somaxconn").and_then(|limit| limit.parse::<u32>().ok());
    match limit {
        Some(limit) if limit < 512 => warn(
            CHECK,
            format!("somaxconn is {limit}"),
            "many clients that connect at once may be refused: sysctl net.core.somaxconn=1024",
        ),
        Some(limit) => ok(CHECK, format!("somaxconn is {limit}")),
        None => ok(CHECK, "unknown"),
    }
}

fn configuration(options: &Options) -> Vec<Finding> {
    let durability = match options.durability {
        Durability::Always => {
            ok("durability", "always: a write is answered when it is on the disk")
        }
        Durability::Everysec => warn(
            "durability",
            "everysec",
            "a power failure may lose the last second of answered writes",
        ),
        Durability::None => warn(
            "durability",
            "none",
            "a crash loses everything since the last snapshot, and with it what clients were told",
        ),
    };
    let exposure = if options.bind.to_canonical().is_loopback() {
        ok("exposure", format!("only this machine can connect ({})", options.bind))
    } else if options.insecure {
        warn(
            "exposure",
            format!("other machines can connect to {} without encryption", options.bind),
            "passwords and data can be read on the network: set up TLS and drop insecure",
        )
    } else {
        ok("exposure", format!("other machines can connect to {} with TLS", options.bind))
    };
    vec![durability, exposure]
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Settings;

    fn find(findings: &[Finding], check: &str) -> Verdict {
        findings.iter().find(|finding| finding.check == check).unwrap().verdict
    }

    #[test]
    fn findings_follow_the_configuration() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("data");
        let settings = Settings { dir: Some(dir.clone()), port: Some(0), ..Settings::default() };
        let mut options = Options::resolve(settings).unwrap();
        let findings = examine(&options);
        assert_eq!(find(&findings, "data directory"), Verdict::Ok);
        assert_eq!(find(&findings, "durability"), Verdict::Ok);
        assert_eq!(find(&findings, "port"), Verdict::Ok);
        assert!(!dir.exists(), "nothing is created");
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0, "nothing is left");
        assert!(findings.iter().all(|f| f.verdict == Verdict::Ok || !f.advice.is_empty()));

        options.durability = Durability::None;
        options.memory_limit_bytes = 0;
        options.workers = 64;
        std::fs::create_dir(&dir).unwrap();
        std::fs::write(dir.join("MANIFEST"), "format = 2").unwrap();
        let findings = examine(&options);
        assert_eq!(find(&findings, "durability"), Verdict::Warn);
        assert_eq!(find(&findings, "memory"), Verdict::Warn);
        assert_eq!(find(&findings, "data directory"), Verdict::Fail);
    }
}
