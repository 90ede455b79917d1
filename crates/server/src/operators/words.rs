//! Answers to four-letter commands on the port for ZooKeeper's clients, in the formats of ZooKeeper
//! 3.8. Values that are not known here are left out.

use crate::worker::trees::talk::{Clients, Details, Line, Talk};
use adt::Blob;
use engine::coordination::TreeSessionId;
use engine::coordination::survey::{Listed, Survey};
use engine::limits::SESSION_TIMEOUT_MS;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;
use wire::jute::FourLetterWord;

/// Version of ZooKeeper whose protocol is implemented, for programs that ask for a version.
const ZOOKEEPER_VERSION: &str = "3.8.0";
/// ZooKeeper's tick in milliseconds: the shortest session time-out is two ticks.
const TICK_MS: i32 = *SESSION_TIMEOUT_MS.start() / 2;

/// Facts that do not change while the server runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// Port, if there is one.
    pub port: Option<u16>,
    /// Port for TLS, if there is one.
    pub tls_port: Option<u16>,
    /// Data directory.
    pub dir: PathBuf,
    /// Directory of the log inside the data directory.
    pub log: PathBuf,
    /// Number of the machine.
    pub machine: u16,
    /// Whether the machine belongs to a cluster.
    pub clustered: bool,
    /// Permitted session time-outs in milliseconds.
    pub session_timeout_ms: RangeInclusive<i32>,
    /// Limit on connections from one address; 0 for no limit.
    pub share_max: usize,
}

/// Data from which a command is answered.
pub struct Sources<'a> {
    /// Facts that do not change.
    pub place: &'a Place,
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Reports of the workers.
    pub workers: &'a [Details],
}

/// Whether the answer lists sessions and nodes.
pub fn needs_lists(word: FourLetterWord) -> bool {
    matches!(word, FourLetterWord::Dump | FourLetterWord::Wchc | FourLetterWord::Wchp)
}

/// Answer to a four-letter command.
pub fn answer(word: FourLetterWord, sources: &Sources<'_>) -> String {
    let mut sum = Clients::default();
    sources.workers.iter().for_each(|worker| sum.add(&worker.clients));
    let mut out = String::new();
    let written = match word {
        FourLetterWord::Ruok => write!(out, "imok"),
        FourLetterWord::Isro => write!(out, "rw"),
        FourLetterWord::Stat => stat(sources, &sum, true, &mut out),
        FourLetterWord::Srvr => stat(sources, &sum, false, &mut out),
        FourLetterWord::Mntr => monitor(sources, &sum, &mut out),
        FourLetterWord::Conf => configuration(sources.place, &mut out),
        FourLetterWord::Cons => connections(sources, &mut out),
        FourLetterWord::Crst => writeln!(out, "Connection stats reset."),
        FourLetterWord::Srst => writeln!(out, "Server stats reset."),
        FourLetterWord::Dump => dump(sources, &mut out),
        FourLetterWord::Envi => environment(&mut out),
        FourLetterWord::Wchs => watches(&sum, &mut out),
        FourLetterWord::Wchc => watches_by_session(sources, &mut out),
        FourLetterWord::Wchp => watches_by_path(sources, &mut out),
        FourLetterWord::Dirs => directories(sources.place, &mut out),
    };
    written.expect("writing to memory");
    out
}

/// Version line in ZooKeeper's form. The build time is the modification time of the executable.
fn version() -> String {
    let program = std::env::current_exe().and_then(std::fs::metadata);
    let built = program.and_then(|data| data.modified()).unwrap_or(UNIX_EPOCH);
    let built_s = built.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (number, built) = (env!("CARGO_PKG_VERSION"), minute(built_s));
    format!("{ZOOKEEPER_VERSION}-claret-{number}, built on {built} UTC")
}

/// Formats a time in seconds since 1970 with year, month, day, hour and minute.
fn minute(time_s: u64) -> String {
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    let (mut day, mut year) = (time_s / 86_400, 1970);
    let mut days = 365;
    while day >= days {
        (day, year) = (day - days, year + 1);
        days = 365 + u64::from(is_leap(year));
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < days {
            break;
        }
        (day, month) = (day - days, month + 1);
    }
    let (hour, minute) = (time_s / 3600 % 24, time_s / 60 % 60);
    format!("{year}-{month:02}-{:02} {hour:02}:{minute:02}", day + 1)
}

/// This machine's role for the tree. A machine without a replica of the tree passes all requests
/// on; ZooKeeper's observers are the closest match.
fn mode(place: &Place, survey: Option<&Survey>) -> &'static str {
    match survey {
        _ if !place.clustered => "standalone",
        Some(Survey { watched: Some(_), .. }) => "leader",
        Some(_) => "follower",
        None => "observer",
    }
}

fn stat(
    sources: &Sources<'_>,
    sum: &Clients,
    with_clients: bool,
    out: &mut String,
) -> std::fmt::Result {
    writeln!(out, "Zookeeper version: {}", version())?;
    if with_clients {
        writeln!(out, "Clients:")?;
        for line in sources.workers.iter().flat_map(|worker| &worker.lines) {
            writeln!(out, " {})", short(line))?;
        }
        writeln!(out)?;
    }
    let Talk { received, sent, .. } = sum.talk;
    writeln!(out, "Latency min/avg/max: {}", latency(&sum.talk))?;
    writeln!(out, "Received: {received}\nSent: {sent}\nConnections: {}", sum.connections)?;
    writeln!(out, "Outstanding: {}", sum.outstanding)?;
    if let Some(survey) = sum.tree() {
        writeln!(out, "Zxid: 0x{:x}", survey.last.0)?;
    }
    writeln!(out, "Mode: {}", mode(sources.place, sum.survey.as_ref()))?;
    if let Some(survey) = sum.tree() {
        writeln!(out, "Node count: {}", survey.nodes)?;
    }
    Ok(())
}

fn latency(talk: &Talk) -> String {
    format!("{}/{}/{}", talk.min_ms(), rounded(talk.average_ms()), talk.max_ms())
}

/// Formats a number with one to four decimal places.
fn rounded(ms: f64) -> String {
    let rounded = (ms * 10_000.0).round() / 10_000.0;
    if rounded.fract() == 0.0 { format!("{rounded:.1}") } else { rounded.to_string() }
}

/// First part of a connection's line.
fn short(line: &Line) -> String {
    let Line { address, reading, outstanding, talk, .. } = line;
    let reading = u8::from(*reading);
    let Talk { received, sent, .. } = talk;
    format!("/{address}[{reading}](queued={outstanding},recved={received},sent={sent}")
}

fn connections(sources: &Sources<'_>, out: &mut String) -> std::fmt::Result {
    for line in sources.workers.iter().flat_map(|worker| &worker.lines) {
        write!(out, " {}", short(line))?;
        if let Some(of) = &line.session {
            let (session, operation, since_ms) = (of.session.0, of.operation, of.since_ms);
            let (timeout_ms, xid, zxid) = (of.timeout_ms, of.xid, of.zxid.0);
            write!(out, ",sid=0x{session:x},lop={operation},est={since_ms},to={timeout_ms}")?;
            write!(out, ",lcxid=0x{xid:x},lzxid=0x{zxid:x},lresp={}", of.answered_ms)?;
            let (min, max) = (line.talk.min_ms(), line.talk.max_ms());
            let average = line.talk.average_ms().round();
            write!(out, ",llat={},minlat={min},avglat={average},maxlat={max}", of.took_ms)?;
        }
        writeln!(out, ")")?;
    }
    writeln!(out)
}

fn monitor(sources: &Sources<'_>, sum: &Clients, out: &mut String) -> std::fmt::Result {
    let mut put = |name: &str, value: String| writeln!(out, "zk_{name}\t{value}");
    put("version", version())?;
    put("server_state", mode(sources.place, sum.survey.as_ref()).to_owned())?;
    if let Some(followers) = sum.followers.filter(|_| sources.place.clustered) {
        // ZooKeeper prints the following lines on a leader only.
        put("quorum_size", followers.voters.to_string())?;
        put("learners", followers.others.to_string())?;
        put("synced_followers", followers.following.to_string())?;
    }
    put("min_latency", sum.talk.min_ms().to_string())?;
    put("avg_latency", rounded(sum.talk.average_ms()))?;
    put("max_latency", sum.talk.max_ms().to_string())?;
    put("packets_received", sum.talk.received.to_string())?;
    put("packets_sent", sum.talk.sent.to_string())?;
    put("num_alive_connections", sum.connections.to_string())?;
    put("outstanding_requests", sum.outstanding.to_string())?;
    if let Some(survey) = sum.tree() {
        put("znode_count", survey.nodes.to_string())?;
        put("ephemerals_count", survey.ephemerals.to_string())?;
        put("approximate_data_size", survey.bytes.to_string())?;
        put("global_sessions", survey.sessions.to_string())?;
        if let Some(watched) = &survey.watched {
            put("watch_count", watched.watches.to_string())?;
        }
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        put("open_file_descriptor_count", open.count().to_string())?;
    }
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    if let Some(limit) = limit.current {
        put("max_file_descriptor_count", limit.to_string())?;
    }
    put("uptime", (sources.uptime_s * 1000).to_string())
}

fn configuration(place: &Place, out: &mut String) -> std::fmt::Result {
    let Place { port, tls_port, dir, log, machine, session_timeout_ms, share_max, .. } = place;
    for (name, port) in [("clientPort", port), ("secureClientPort", tls_port)] {
        writeln!(out, "{name}={}", port.map_or(-1, i32::from))?;
    }
    writeln!(out, "dataDir={}", dir.display())?;
    writeln!(out, "dataDirSize={}\ndataLogDir={}", data_bytes(place), log.display())?;
    writeln!(out, "dataLogSize={}\ntickTime={TICK_MS}", bytes_below(log))?;
    writeln!(out, "maxClientCnxns={share_max}")?;
    writeln!(out, "minSessionTimeout={}", session_timeout_ms.start())?;
    writeln!(out, "maxSessionTimeout={}\nserverId={machine}", session_timeout_ms.end())
}

fn directories(place: &Place, out: &mut String) -> std::fmt::Result {
    let (data, log) = (data_bytes(place), bytes_below(&place.log));
    writeln!(out, "datadir_size: {data}\nlogdir_size: {log}")
}

fn data_bytes(place: &Place) -> u64 {
    bytes_below(&place.dir).saturating_sub(bytes_below(&place.log))
}

/// Bytes of all files in a directory and below. Files that disappear during the count are not
/// counted.
fn bytes_below(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match entry.metadata() {
        Ok(data) if data.is_dir() => bytes_below(&entry.path()),
        Ok(data) if data.is_file() => data.len(),
        _ => 0,
    });
    bytes.sum()
}

fn dump(sources: &Sources<'_>, out: &mut String) -> std::fmt::Result {
    writeln!(out, "SessionTracker dump:")?;
    if let Some(listed) = listed(sources) {
        writeln!(out, "Global Sessions({}):", listed.sessions.len())?;
        for (session, timeout_ms, _) in &listed.sessions {
            writeln!(out, "0x{:x}\t{timeout_ms}ms", session.0)?;
        }
        let with_nodes = || listed.sessions.iter().filter(|(_, _, nodes)| !nodes.is_empty());
        writeln!(out, "ephemeral nodes dump:")?;
        writeln!(out, "Sessions with Ephemerals ({}):", with_nodes().count())?;
        for (session, _, nodes) in with_nodes() {
            writeln!(out, "0x{:x}:", session.0)?;
            nodes.iter().try_for_each(|path| writeln!(out, "\t{}", text(path)))?;
        }
    }
    writeln!(out, "Connections dump:")?;
    for line in sources.workers.iter().flat_map(|worker| &worker.lines) {
        let session = line.session.as_ref().map_or(0, |of| of.session.0);
        writeln!(out, "\tip: /{} sessionId: 0x{session:x}", line.address)?;
    }
    Ok(())
}

fn text(path: &Blob) -> String {
    String::from_utf8_lossy(path).into_owned()
}

fn environment(out: &mut String) -> std::fmt::Result {
    writeln!(out, "Environment:\nzookeeper.version={}", version())?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname");
    if let Ok(host) = host {
        writeln!(out, "host.name={}", host.trim())?;
    }
    writeln!(out, "os.name={}\nos.arch={}", std::env::consts::OS, std::env::consts::ARCH)?;
    if let Ok(release) = std::fs::read_to_string("/proc/sys/kernel/osrelease") {
        writeln!(out, "os.version={}", release.trim())?;
    }
    if let Ok(dir) = std::env::current_dir() {
        writeln!(out, "user.dir={}", dir.display())?;
    }
    Ok(())
}

fn watches(sum: &Clients, out: &mut String) -> std::fmt::Result {
    match sum.tree().and_then(|survey| survey.watched) {
        Some(watched) => {
            writeln!(out, "{} connections watching {} paths", watched.sessions, watched.paths)?;
            write!(out, "Total watches:{}", watched.watches)?;
            writeln!(out)
        }
        None => writeln!(out, "{ELSEWHERE}"),
    }
}

/// Answer about watches on a machine that does not lead the tree.
const ELSEWHERE: &str =
    "Watches are known to the machine that leads the tree, which is another one.";

/// Sessions, with their nodes and watches at all shards that are known here.
fn listed(sources: &Sources<'_>) -> Option<Listed> {
    let mut listed = sources.workers.iter().find_map(|worker| worker.listed.clone())?;
    let elsewhere = sources.workers.iter().flat_map(|worker| &worker.listed_elsewhere);
    elsewhere.for_each(|other| listed.add(other.clone()));
    Some(listed)
}

fn listed_watches(sources: &Sources<'_>) -> Option<Vec<(TreeSessionId, Vec<Blob>)>> {
    listed(sources)?.watches
}

fn watches_by_session(sources: &Sources<'_>, out: &mut String) -> std::fmt::Result {
    let Some(watches) = listed_watches(sources) else { return writeln!(out, "{ELSEWHERE}") };
    for (session, paths) in watches {
        writeln!(out, "0x{:x}", session.0)?;
        paths.iter().try_for_each(|path| writeln!(out, "\t{}", text(path)))?;
    }
    writeln!(out)
}

fn watches_by_path(sources: &Sources<'_>, out: &mut String) -> std::fmt::Result {
    let Some(watches) = listed_watches(sources) else { return writeln!(out, "{ELSEWHERE}") };
    let mut by_path: BTreeMap<&Blob, Vec<TreeSessionId>> = BTreeMap::new();
    for (session, paths) in &watches {
        paths.iter().for_each(|path| by_path.entry(path).or_default().push(*session));
    }
    for (path, sessions) in by_path {
        writeln!(out, "{}", text(path))?;
        sessions.iter().try_for_each(|session| writeln!(out, "\t0x{:x}", session.0))?;
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::coordination::Zxid;
    use engine::coordination::survey::Watched;
    use engine::limits::COORDINATION_SHARE_MAX;

    fn place(clustered: bool) -> Place {
        let dir = PathBuf::from("/nowhere");
        let log = dir.join("log");
        let session_timeout_ms = SESSION_TIMEOUT_MS;
        let (port, tls_port, machine) = (Some(2181), None, 3);
        let share_max = COORDINATION_SHARE_MAX;
        Place { port, tls_port, dir, log, machine, clustered, session_timeout_ms, share_max }
    }

    fn details() -> Details {
        let watched = Some(Watched { sessions: 1, paths: 2, watches: 2 });
        let (nodes, last) = (9, Zxid(0x1f));
        let (quotas, quotas_exceeded) = (0, 0);
        let survey = Survey {
            nodes,
            ephemerals: 1,
            bytes: 80,
            sessions: 2,
            last,
            quotas,
            quotas_exceeded,
            watched,
            shards: 1,
        };
        let mut talk = Talk::default();
        (talk.received, talk.sent) = (4, 5);
        [1_000, 2_000].into_iter().for_each(|us| talk.answer(us));
        let survey = Some(survey);
        let clients = Clients { connections: 1, talk, survey, ..Clients::default() };
        let address = "127.0.0.1:4000".parse().unwrap();
        let line = Line { address, reading: true, outstanding: 0, talk, session: None };
        let paths = vec![Blob::from("/a"), Blob::from("/b")];
        let listed = Listed {
            sessions: vec![(TreeSessionId(16), 4000, vec![Blob::from("/e")])],
            watches: Some(vec![(TreeSessionId(16), paths)]),
        };
        Details { clients, lines: vec![line], listed: Some(listed), ..Details::default() }
    }

    fn said(word: FourLetterWord, clustered: bool, workers: &[Details]) -> String {
        answer(word, &Sources { place: &place(clustered), uptime_s: 7, workers })
    }

    #[test]
    fn the_version_says_when_the_program_was_built() {
        for (time_s, expected) in [
            (0, "1970-01-01 00:00"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (1_704_067_199, "2023-12-31 23:59"),
            (1_735_689_540, "2024-12-31 23:59"),
            (4_107_542_400, "2100-03-01 00:00"),
        ] {
            assert_eq!(minute(time_s), expected, "{time_s}");
        }
        let version = version();
        let (number, built) = version.split_once(", built on ").expect(&version);
        assert!(number.starts_with("3.8.0-claret-"), "{version}");
        assert!(built.ends_with(" UTC") && !built.starts_with("1970"), "{version}");
    }

    #[test]
    fn answers_have_the_forms_that_programs_look_for() {
        let workers = [Details::default(), details()];
        let stat = said(FourLetterWord::Stat, false, &workers);
        let expected = "Clients:\n /127.0.0.1:4000[1](queued=0,recved=4,sent=5)\n\n\
            Latency min/avg/max: 1/1.5/2\nReceived: 4\nSent: 5\nConnections: 1\nOutstanding: 0\n\
            Zxid: 0x1f\nMode: standalone\nNode count: 9\n";
        assert_eq!(stat.split_once('\n').unwrap().1, expected);
        assert!(stat.starts_with("Zookeeper version: 3.8.0-claret-"));
        let monitor = said(FourLetterWord::Mntr, true, &workers);
        for line in ["zk_server_state\tleader", "zk_watch_count\t2", "zk_uptime\t7000"] {
            assert!(monitor.lines().any(|told| told == line), "{line}");
        }
        let watches = said(FourLetterWord::Wchs, true, &workers);
        assert_eq!(watches, "1 connections watching 2 paths\nTotal watches:2\n");
        assert_eq!(said(FourLetterWord::Wchc, true, &workers), "0x10\n\t/a\n\t/b\n\n");
        assert_eq!(said(FourLetterWord::Wchp, true, &workers), "/a\n\t0x10\n/b\n\t0x10\n\n");
        let dump = said(FourLetterWord::Dump, true, &workers);
        assert!(dump.contains("Global Sessions(1):\n0x10\t4000ms\nephemeral nodes dump:\n"));
        assert!(dump.contains("Sessions with Ephemerals (1):\n0x10:\n\t/e\nConnections dump:\n"));
    }

    #[test]
    fn what_is_not_known_here_is_left_out() {
        let workers = [Details::default()];
        let server = said(FourLetterWord::Srvr, true, &workers);
        assert!(server.contains("Mode: observer\n"));
        assert!(!server.contains("Zxid") && !server.contains("Node count"));
        assert!(!said(FourLetterWord::Mntr, true, &workers).contains("znode_count"));
        assert!(said(FourLetterWord::Wchs, true, &workers).starts_with("Watches are known to"));
        let mut follower = details();
        follower.clients.survey.as_mut().unwrap().watched = None;
        let workers = [follower];
        assert!(said(FourLetterWord::Srvr, true, &workers).contains("Mode: follower\n"));
        assert!(!said(FourLetterWord::Mntr, true, &workers).contains("watch_count"));
    }
}
