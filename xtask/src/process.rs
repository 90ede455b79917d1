//! Starting programs: shown, checked, and in the repository's root.

use crate::paths;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

/// A command that will run in the repository's root.
pub fn command(program: impl AsRef<OsStr>, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(paths::root());
    command
}

/// `cargo` with the toolchain that runs this task.
pub fn cargo(arguments: &[&str]) -> Command {
    command(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()), arguments)
}

/// The command under `timeout` (coreutils), which ends the whole process group: a test that hangs
/// must fail, together with the servers that it started.
pub fn limited(seconds: u64, inner: &Command) -> Command {
    let mut outer = command("timeout", &["--kill-after=10", &seconds.to_string()]);
    outer.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}

/// Runs to the end with output passed through. An error names the command and its status.
pub fn start(command: &mut Command) -> Result<(), String> {
    announce(command);
    let status = command.status().map_err(|e| not_started(command, &e))?;
    judge(command, status)
}

/// Runs to the end, passes output through and shows every line of standard output to `see`.
/// Returns whether the command succeeded; an error means that it could not be started or read.
pub fn watch(command: &mut Command, mut see: impl FnMut(&str)) -> Result<ExitStatus, String> {
    announce(command);
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(|e| not_started(command, &e))?;
    let stdout = child.stdout.take().expect("stdout is piped");
    for line in BufReader::new(stdout).split(b'\n') {
        let line = line.map_err(|e| format!("cannot read the output of {}: {e}", show(command)))?;
        let line = String::from_utf8_lossy(&line);
        println!("{line}");
        see(&line);
    }
    child.wait().map_err(|e| format!("cannot wait for {}: {e}", show(command)))
}

/// Runs to the end and returns standard output, which is not shown. Succeeds whatever the exit
/// status, which is returned beside it.
pub fn output(command: &mut Command) -> Result<(ExitStatus, String), String> {
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| not_started(command, &e))?;
    Ok((output.status, String::from_utf8_lossy(&output.stdout).into_owned()))
}

/// Runs to the end and returns standard output without white space at its ends; an error if the
/// program fails.
pub fn said(command: &mut Command) -> Result<String, String> {
    let (status, text) = output(command)?;
    judge(command, status)?;
    Ok(text.trim().to_owned())
}

/// Whether the command runs and succeeds; nothing is shown.
pub fn succeeds(command: &mut Command) -> bool {
    let silent = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    silent.status().is_ok_and(|status| status.success())
}

/// An error unless `status` is success.
pub fn judge(command: &Command, status: ExitStatus) -> Result<(), String> {
    if status.success() {
        return Ok(());
    }
    // `timeout` reports 124 when the time ran out.
    let why = if status.code() == Some(124) { " (out of time)" } else { "" };
    Err(format!("{} ended with {status}{why}", show(command)))
}

/// The command in the form in which a user would type it in the root: paths below it are relative,
/// programs elsewhere go by their name.
pub fn show(command: &Command) -> String {
    let root = paths::root();
    let program = Path::new(command.get_program());
    let outside = program.is_absolute() && !program.starts_with(&root);
    let program = program.file_name().filter(|_| outside).unwrap_or(program.as_os_str());
    let words = std::iter::once(program).chain(command.get_args());
    let line = words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    line.replace(&format!("{}/", root.display()), "")
}

fn announce(command: &Command) {
    println!("$ {}", show(command));
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", show(command))
}
