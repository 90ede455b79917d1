//! Sessions of a run: in this process or, for a service whose protocol it does not speak, in
//! another program, which reads one task per line and answers each with one line.

use super::backend::Ensemble;
use super::client::Client;
use super::tasks::{Done, Task, carry_out};
use crate::servers::process::cpu_us;
use crate::stop;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Interval of the checks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

/// Sessions that carry out tasks.
pub enum Sessions {
    /// Sessions of this process.
    Here(Box<Client>),
    /// Sessions of a program that this process has started.
    Elsewhere(Program),
}

/// A program with sessions.
pub struct Program {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<io::Result<String>>,
}

impl Sessions {
    /// Begins a session of a service at each of these addresses.
    ///
    /// # Errors
    /// A server cannot be reached, or the program cannot be started.
    pub fn begin(ensemble: &Ensemble, entrances: &[SocketAddr]) -> io::Result<Self> {
        Ok(match ensemble.load_program() {
            None => Self::Here(Box::new(Client::connect(entrances)?)),
            Some(program) => Self::Elsewhere(Program::start(program, entrances)?),
        })
    }

    /// Carries out a task.
    ///
    /// # Errors
    /// The service fails, or Ctrl-C was pressed.
    pub fn carry_out(&mut self, task: &Task) -> io::Result<Done> {
        match self {
            Self::Here(client) => carry_out(&mut **client, task),
            Self::Elsewhere(program) => program.carry_out(task),
        }
    }

    /// Ends all sessions. Returns the processor time, in microseconds, that another program has
    /// used for them.
    ///
    /// # Errors
    /// A server does not answer.
    pub fn close(self) -> io::Result<u64> {
        match self {
            Self::Here(client) => client.close().map(|()| 0),
            Self::Elsewhere(program) => program.close(),
        }
    }
}

impl Program {
    fn start(path: &Path, entrances: &[SocketAddr]) -> io::Result<Self> {
        let machines: Vec<String> = entrances.iter().map(SocketAddr::to_string).collect();
        let mut child = Command::new(path)
            .args(["tasks", "--machines", &machines.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut program = Self { child, stdin, lines };
        // The program writes a line as soon as all sessions have begun.
        program.line()?;
        Ok(program)
    }

    /// Reads the program's next line.
    fn line(&mut self) -> io::Result<String> {
        loop {
            stop::check()?;
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => return line,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    stop::check()?;
                    return Err(self.failure());
                }
            }
        }
    }

    /// Reason why the program has ended.
    fn failure(&mut self) -> io::Error {
        let mut said = String::new();
        if let Some(stderr) = &mut self.child.stderr {
            let _ = stderr.read_to_string(&mut said);
        }
        io::Error::other(said.trim().to_owned())
    }

    fn carry_out(&mut self, task: &Task) -> io::Result<Done> {
        let mut text = serde_json::to_string(task).map_err(io::Error::other)?;
        text.push('\n');
        if let Some(stdin) = &mut self.stdin
            && stdin.write_all(text.as_bytes()).is_err()
        {
            return Err(self.failure());
        }
        serde_json::from_str(&self.line()?).map_err(io::Error::other)
    }

    fn close(mut self) -> io::Result<u64> {
        let used_us = cpu_us(&self.child.id().to_string());
        // The program ends its sessions at the end of its input.
        drop(self.stdin.take());
        let status = self.child.wait()?;
        if status.success() { Ok(used_us) } else { Err(self.failure()) }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The program has ended, or its output is no longer needed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
