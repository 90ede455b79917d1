//! `etcd` for comparison: its members as child processes, and the load generator for its protocol.
//!
//! That protocol is gRPC, whose libraries are heavy. So the generator is a separate program,
//! `claret-etcd-load`, which is built only on demand; this module starts it and reads its result.
//! For single commands, keys, values, the choice of keys, the warm-up and the recording are those of
//! [`crate::ops`]; for auctions, records and what is counted are those of [`crate::hot`].

use super::process::{Machine, PATIENCE, Server};
use crate::hot;
use crate::load::sample::{Load, Sample};
use crate::stop;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// File name of the load generator.
pub const PROGRAM: &str = "claret-etcd-load";
const BUILD: &str = "cargo build --release -p claret-etcd-load";
/// Space quota for the history that `etcd` keeps of every key; its default would end a long run.
const QUOTA_BYTES: &str = "8589934592";

/// Connections that write the keys before anything is measured.
const WRITERS: u32 = 64;

/// Path of the load generator, which is in the directory of `program`.
///
/// # Errors
/// It is missing; the error tells how to build it.
pub fn load_program(program: &Path) -> io::Result<PathBuf> {
    let path = program.with_file_name(PROGRAM);
    if path.is_file() {
        return Ok(path);
    }
    let message = format!("{} is not there; build it with `{BUILD}`", path.display());
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

/// Runs the load generator against these machines of a server: `GET` reads through the leader's
/// quorum, `SET` puts. Waits for the result.
///
/// # Errors
/// It cannot be started or fails; the error contains its output.
pub fn run(
    program: &Path,
    server: &Server,
    machines: &[SocketAddr],
    load: &Load<'_>,
) -> io::Result<Sample> {
    let machines: Vec<String> = machines.iter().map(SocketAddr::to_string).collect();
    let mut command = Command::new(program);
    command.args(["ops", "--command", load.command, "--machines", &machines.join(",")]);
    generate(&mut command, server, load)
}

/// Lets clients bid in these auctions, which the generator creates anew and checks at the end.
/// `exponent` is that of their popularity.
///
/// # Errors
/// See [`run`]; or the auctions do not have all bids, and no others.
pub fn auction(
    program: &Path,
    server: &Server,
    records: u32,
    exponent: f64,
    load: &Load<'_>,
) -> io::Result<hot::Run> {
    let mut command = Command::new(program);
    command.args(["auction", "--machine", &server.address().to_string()]);
    command.args(["--records", &records.to_string(), "--exponent", &exponent.to_string()]);
    generate(&mut command, server, load)
}

/// Runs the generator with this load and reads its result.
fn generate<T: DeserializeOwned>(
    command: &mut Command,
    server: &Server,
    load: &Load<'_>,
) -> io::Result<T> {
    let processes: Vec<String> = server.processes().iter().map(u32::to_string).collect();
    let done = command
        .args(["--clients", &load.clients.to_string()])
        .args(["--seconds", &load.seconds.to_string()])
        .args(["--seed", &load.seed.to_string()])
        .args(["--processes", &processes.join(",")])
        .stdin(Stdio::null())
        .output()?;
    if !done.status.success() {
        return Err(io::Error::other(String::from_utf8_lossy(&done.stderr).trim().to_owned()));
    }
    serde_json::from_slice(&done.stdout).map_err(io::Error::other)
}

/// Writes every key once.
///
/// # Errors
/// See [`run`].
pub fn write_keys(program: &Path, server: &Server) -> io::Result<()> {
    let load = Load { command: "FILL", pipeline: 1, clients: WRITERS, seconds: 0.0, seed: 0 };
    run(program, server, &server.addresses(), &load).map(|_| ())
}

/// Version of the installed `etcd`.
///
/// # Errors
/// It is not installed.
pub fn version() -> io::Result<String> {
    let said = Command::new("etcd").arg("--version").output().map_err(not_started)?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let version = said.lines().find_map(|line| line.strip_prefix("etcd Version: "));
    Ok(version.unwrap_or("unknown").to_owned())
}

/// Starts `etcd` with its data in new directories under `parent`. It always flushes to disk.
///
/// # Errors
/// It is not installed, or does not become ready; the error contains the end of its output.
pub fn start(members: u16, parent: &Path) -> io::Result<Server> {
    let peers = free(usize::from(members))?;
    start_at(&peers, &peers, parent)
}

/// Finds `count` distinct free addresses.
fn free(count: usize) -> io::Result<Vec<SocketAddr>> {
    // Held until all are known, so that none is assigned twice.
    let held: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
        .collect::<io::Result<_>>()?;
    held.iter().map(TcpListener::local_addr).collect()
}

/// Starts `etcd` with members that listen for each other at these addresses, one each, and announce
/// to each other the addresses of their lines, which may differ.
///
/// # Errors
/// See [`start`].
pub fn start_at(
    listens: &[SocketAddr],
    reached: &[SocketAddr],
    parent: &Path,
) -> io::Result<Server> {
    let clients = free(listens.len())?;
    let named = |(number, peer): (usize, &SocketAddr)| format!("m{number}={}", url(*peer));
    let cluster: Vec<String> = reached.iter().enumerate().map(named).collect();
    let cluster = cluster.join(",");
    let (mut machines, mut logs) = (Vec::new(), Vec::new());
    for (number, client) in clients.into_iter().enumerate() {
        let dir = tempfile::Builder::new().prefix("etcd-bench-").tempdir_in(parent)?;
        logs.push(dir.path().join("stderr.log"));
        let child = Command::new("etcd")
            .args(["--name", &format!("m{number}"), "--initial-cluster", &cluster])
            .args(["--listen-client-urls", &url(client)])
            .args(["--advertise-client-urls", &url(client)])
            .args(["--listen-peer-urls", &url(listens[number])])
            .args(["--initial-advertise-peer-urls", &url(reached[number])])
            .args(["--quota-backend-bytes", QUOTA_BYTES, "--logger", "zap", "--log-level", "error"])
            .arg("--data-dir")
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&logs[number])?)
            .spawn()
            .map_err(not_started)?;
        machines.push(Machine::new(child, client, dir));
    }
    let server = Server::of(machines);
    for (address, log) in server.addresses().into_iter().zip(&logs) {
        wait_until_ready(address).map_err(|error| {
            let said = fs::read_to_string(log).unwrap_or_default();
            let last = said.lines().next_back().unwrap_or_default();
            io::Error::other(format!("etcd did not start: {error} {last}"))
        })?;
    }
    Ok(server)
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}")
}

fn not_started(error: io::Error) -> io::Error {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => " (it is in the Debian package etcd-server)",
        _ => "",
    };
    io::Error::new(error.kind(), format!("etcd: {error}{advice}"))
}

/// Waits until a member reports that it knows a leader.
fn wait_until_ready(address: SocketAddr) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match is_healthy(address) {
            Ok(true) => return Ok(()),
            Ok(false) if start.elapsed() > PATIENCE => {
                return Err(io::Error::other("no leader has been elected."));
            }
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            _ => stop::sleep(Duration::from_millis(20))?,
        }
    }
}

/// Queries the health page of `etcd`, which answers after a read through the leader.
fn is_healthy(address: SocketAddr) -> io::Result<bool> {
    Ok(page(address, "health")?.contains(r#""health":"true""#))
}

/// Index of the leader, according to the members themselves.
///
/// # Errors
/// No member leads.
pub fn leader(server: &Server) -> io::Result<usize> {
    let leads = |address: &SocketAddr| {
        let metrics = page(*address, "metrics");
        metrics.is_ok_and(|page| page.lines().any(|line| line == "etcd_server_is_leader 1"))
    };
    let leader = server.addresses().iter().position(leads);
    leader.ok_or_else(|| io::Error::other("no member of etcd leads"))
}

fn page(address: SocketAddr, name: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET /{name} HTTP/1.0\r\n\r\n").as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named() {
        let missing = load_program(Path::new("/nowhere/claret")).expect_err("not there");
        let expected = "/nowhere/claret-etcd-load is not there; build it with \
            `cargo build --release -p claret-etcd-load`";
        assert_eq!(missing.to_string(), expected);
        let missing = not_started(io::Error::from(io::ErrorKind::NotFound));
        assert!(missing.to_string().contains("package etcd-server"));
    }
}
