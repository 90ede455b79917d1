//! Programs that run in the background until they are stopped: servers on trial.

use crate::process::{command, judge, show, start};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{net, thread};

const READY_MAX: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// A program and the file with its output. It is killed when it is dropped.
pub struct Background {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Starts a program whose output goes to the file.
    pub fn start(command: &mut Command, log: &Path) -> Result<Self, String> {
        let name = show(command);
        let failed = |error: std::io::Error| format!("cannot start {name}: {error}");
        let file = File::create(log).map_err(failed)?;
        command.stdin(Stdio::null()).stdout(file.try_clone().map_err(failed)?).stderr(file);
        println!("$ {name} &");
        let child = command.spawn().map_err(failed)?;
        Ok(Self { name, child, log: log.to_owned() })
    }

    /// Starts a server and waits until it is ready.
    pub fn serve(command: &mut Command, log: &Path) -> Result<Self, String> {
        let mut server = Self::start(command, log)?;
        server.until("the server is ready", || server_is_ready(log))?;
        Ok(server)
    }

    /// Waits for a condition, while the program runs.
    pub fn until(&mut self, what: &str, is_true: impl Fn() -> bool) -> Result<(), String> {
        let end = Instant::now() + READY_MAX;
        while !is_true() {
            let ended = self.child.try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > end {
                let why = if ended { "it has ended" } else { "it took too long" };
                let said = fs::read_to_string(&self.log).unwrap_or_default();
                return Err(format!("{}, until {what}: {why}\n{said}", self.name));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Ends the program without warning, as `kill -9` does.
    pub fn kill(mut self) -> Result<(), String> {
        self.child.kill().map_err(|error| format!("cannot kill {}: {error}", self.name))
    }

    /// Asks the program to end, and waits for that; another exit status than 0 is an error.
    pub fn stop(mut self) -> Result<(), String> {
        start(&mut command("kill", &["-TERM", &self.child.id().to_string()]))?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        judge(&command(&self.name, &[]), status)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server_is_ready(log: &Path) -> bool {
    fs::read_to_string(log).is_ok_and(|said| said.contains("is ready"))
}

/// The first of several consecutive ports at which nothing listens.
pub fn free_ports(count: u16) -> Result<u16, String> {
    // Below the ports from which Linux takes the local end of a connection.
    let begin = 20_000 + u16::try_from(std::process::id() % 10_000).unwrap_or_default();
    let is_free = |port: u16| net::TcpListener::bind(("127.0.0.1", port)).is_ok();
    let all_free = |first: &u16| (0..count).all(|n| is_free(first + n));
    (begin..32_000).find(all_free).ok_or_else(|| format!("no {count} free ports in a row"))
}
