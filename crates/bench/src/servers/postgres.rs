//! PostgreSQL for comparison: a server with the settings that its package ships, and a connection
//! beside the load.

use super::process::{Machine, PATIENCE, Server};
use crate::load::postgres::{answer, answer_len, query, startup};
use crate::stop;
use rustix::process::geteuid;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// User of the database, and of the operating system if this process runs as root.
pub const USER: &str = "postgres";
/// Directory with one directory per installed version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Connections besides those of the load: the one beside it, and those that the server reserves.
const SPARE_CONNECTIONS: u32 = 16;

/// Directory of the programs of the newest installed version.
fn programs() -> io::Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let newest = versions
        .map(|version| version.path())
        .filter(|path| path.join("bin/initdb").is_file())
        .max_by_key(|path| path.file_name().and_then(|name| name.to_str()?.parse::<u32>().ok()));
    let missing = || {
        let why = "PostgreSQL is not installed (it is in the Debian package postgresql)";
        io::Error::new(io::ErrorKind::NotFound, why)
    };
    newest.map(|path| path.join("bin")).ok_or_else(missing)
}

/// IDs of the user that the server runs as: it refuses to run as root.
fn user() -> io::Result<Option<(u32, u32)>> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    let passwd = fs::read_to_string("/etc/passwd")?;
    let ids = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(USER)).then_some(())?;
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    let missing = || io::Error::other(format!("root needs a user {USER} for PostgreSQL"));
    ids.map(Some).ok_or_else(missing)
}

/// Starts a server for this many connections with its data in a new directory under `parent`. A
/// commit is flushed to disk before it is acknowledged, which is its default.
///
/// # Errors
/// It is not installed or does not become ready; the error contains the end of its output.
pub fn start(clients: u32, parent: &Path) -> io::Result<Server> {
    let (programs, user) = (programs()?, user()?);
    let dir = tempfile::Builder::new().prefix("postgres-bench-").tempdir_in(parent)?;
    if let Some((uid, gid)) = user {
        chown(dir.path(), Some(uid), Some(gid))?;
    }
    let (data, log) = (dir.path().join("data"), dir.path().join("log"));
    let command = |name: &str| -> io::Result<Command> {
        let output = fs::OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(programs.join(name));
        command.current_dir(dir.path()).arg("-D").arg(&data).stdin(Stdio::null());
        command.stdout(output.try_clone()?).stderr(output);
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        Ok(command)
    };
    let failed = |why: &str| {
        let said = fs::read_to_string(&log).unwrap_or_default();
        let last = said.lines().next_back().unwrap_or_default();
        io::Error::other(format!("PostgreSQL did not start: {why} {last}"))
    };
    let made = command("initdb")?
        .args(["--auth", "trust", "--username", USER, "--encoding", "UTF8", "--locale", "C"])
        .arg("--no-sync")
        .status()
        .map_err(|error| out_of_reach(error, parent))?;
    if !made.success() {
        return Err(failed("initdb failed."));
    }
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let connections = format!("max_connections={}", clients + SPARE_CONNECTIONS);
    let child = command("postgres")?
        .args(["-p", &port.to_string(), "-c", &connections])
        .args(["-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
        .spawn()?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let server = Server::of(vec![Machine::with_children(child, address, dir)]);
    let start = Instant::now();
    loop {
        match Session::connect(address) {
            Ok(_) => return Ok(server),
            Err(error) if start.elapsed() > PATIENCE => return Err(failed(&error.to_string())),
            Err(_) => stop::sleep(Duration::from_millis(20))?,
        }
    }
}

/// Error of a start, with advice if the server's user may not come to its directory.
fn out_of_reach(error: io::Error, parent: &Path) -> io::Error {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let parent = parent.display();
    io::Error::other(format!("{error}: the user {USER} must be able to reach {parent} (--dir)"))
}

/// A blocking connection beside the load.
pub struct Session(TcpStream);

impl Session {
    /// Connects.
    ///
    /// # Errors
    /// The server cannot be reached or refuses the session.
    pub fn connect(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut session = Self(stream);
        let mut bytes = Vec::new();
        startup(&mut bytes, USER);
        session.exchange(&bytes)?;
        Ok(session)
    }

    /// Runs queries; returns the first column of the last row, if it is a number.
    ///
    /// # Errors
    /// The server cannot be reached or answers an error.
    pub fn query(&mut self, sql: &str) -> io::Result<Option<i64>> {
        let mut bytes = Vec::new();
        query(&mut bytes, sql);
        self.exchange(&bytes)
    }

    fn exchange(&mut self, bytes: &[u8]) -> io::Result<Option<i64>> {
        self.0.write_all(bytes)?;
        let mut input = Vec::new();
        while answer_len(&input).map_err(io::Error::other)?.is_none() {
            let mut chunk = [0; 4 << 10];
            let read = self.0.read(&mut chunk)?;
            if read == 0 {
                let said = answer(&input).error.map_or(String::new(), |(_, text)| text);
                return Err(io::Error::other(format!("PostgreSQL closed the connection: {said}")));
            }
            input.extend_from_slice(&chunk[..read]);
        }
        let answer = answer(&input);
        match answer.error {
            Some((code, text)) => {
                Err(io::Error::other(format!("PostgreSQL answered {code} {text}")))
            }
            None => Ok(answer.number),
        }
    }
}
