//! ZooKeeper for comparison: the Debian package's classes, each server a process of its own.

use super::backend::{LineUp, ask_word};
use crate::servers::process::{Machine, PATIENCE, Server};
use std::fs::{self, File};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Path of the server's classes in the Debian package; the archive names its dependencies.
const CLASSES: &str = "/usr/share/java/zookeeper.jar";
/// Logging library, without which the server reports no errors.
const LOGGING: &str = "/usr/share/java/slf4j-simple.jar";
const MAIN: &str = "org.apache.zookeeper.server.quorum.QuorumPeerMain";
/// Tick: session time-outs may be from two to twenty ticks: four seconds to forty, as Claret's.
const TICK_MS: u32 = 2_000;

/// Checks that ZooKeeper can be started here.
///
/// # Errors
/// It cannot be started; the error names the package.
pub fn is_installed() -> io::Result<()> {
    if !Path::new(CLASSES).is_file() {
        let why = "zookeeper: not installed (it is in the Debian package zookeeper)";
        return Err(io::Error::new(io::ErrorKind::NotFound, why));
    }
    Ok(())
}

/// Starts servers with their data in new directories under `parent`. Every log record is flushed to
/// disk before it is acknowledged. `line_up` has the addresses at which they reach each other.
///
/// # Errors
/// ZooKeeper is not installed, or does not become ready; the error contains the end of its output.
pub fn start(count: usize, line_up: &LineUp, parent: &Path) -> io::Result<Server> {
    is_installed()?;
    let mut held = Vec::new();
    let mut port = || -> io::Result<u16> {
        held.push(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?);
        Ok(held[held.len() - 1].local_addr()?.port())
    };
    let mut ports = Vec::new();
    for _ in 0..count {
        ports.push((port()?, port()?));
    }
    drop(held);
    let (mut machines, mut logs) = (Vec::new(), Vec::new());
    for (number, (client, _)) in ports.iter().enumerate() {
        let dir = tempfile::Builder::new().prefix("zookeeper-bench-").tempdir_in(parent)?;
        let data = dir.path().join("data");
        fs::create_dir(&data)?;
        let mut text = settings(*client, &data);
        if count > 1 {
            for (other, (_, elects)) in ports.iter().enumerate() {
                // A server listens at its own address, and reaches its peers at their lines.
                let at = if other == number { &line_up.listens } else { &line_up.reached };
                let (id, quorum) = (other + 1, at[other].port());
                text += &format!("server.{id}={}:{quorum}:{elects}\n", Ipv4Addr::LOCALHOST);
            }
            fs::write(data.join("myid"), format!("{}\n", number + 1))?;
        }
        let file = dir.path().join("zoo.cfg");
        fs::write(&file, text)?;
        let log = dir.path().join("stderr.log");
        let child = Command::new("java")
            .args(["-Xmx1g", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"])
            .args(["-cp", &format!("{CLASSES}:{LOGGING}"), MAIN])
            .arg(&file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .map_err(|error| io::Error::new(error.kind(), format!("java: {error}")))?;
        logs.push(log);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, *client));
        machines.push(Machine::new(child, address, dir));
    }
    let server = Server::of(machines);
    wait_until_ready(&server).map_err(|error| {
        let said = fs::read_to_string(&logs[0]).unwrap_or_default();
        let last = said.lines().next_back().unwrap_or_default();
        io::Error::other(format!("zookeeper did not start: {error}. {last}"))
    })?;
    Ok(server)
}

/// Contents of a server's configuration file, in an ensemble or alone.
fn settings(client: u16, data: &Path) -> String {
    format!(
        "tickTime={TICK_MS}\ninitLimit=20\nsyncLimit=10\ndataDir={}\nclientPort={client}\n\
         clientPortAddress={}\nmaxClientCnxns=0\nadmin.enableServer=false\nforceSync=yes\n\
         reconfigEnabled=false\n4lw.commands.whitelist=*\n",
        data.display(),
        Ipv4Addr::LOCALHOST,
    )
}

fn wait_until_ready(server: &Server) -> io::Result<()> {
    let start = Instant::now();
    while !server.addresses().into_iter().all(|address| mode(address).is_ok()) {
        crate::stop::check()?;
        if start.elapsed() > 2 * PATIENCE {
            return Err(io::Error::other("the server has not started"));
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    Ok(())
}

/// Role of a server: `standalone`, `leader` or `follower`.
fn mode(address: SocketAddr) -> io::Result<String> {
    let said = ask_word(address, *b"srvr")?;
    let mode = said.lines().find_map(|line| line.strip_prefix("Mode: "));
    mode.map(str::to_owned).ok_or_else(|| io::Error::other("the server is not ready yet"))
}

/// Index of the leader.
///
/// # Errors
/// No server leads.
pub fn leader(server: &Server) -> io::Result<usize> {
    let leads = |address: &SocketAddr| {
        mode(*address).is_ok_and(|mode| matches!(mode.as_str(), "standalone" | "leader"))
    };
    let leader = server.addresses().iter().position(leads);
    leader.ok_or_else(|| io::Error::other("no ZooKeeper server leads"))
}
