//! Starting programs: shown, checked, and in the repository's root.

use crate::paths;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

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

/// Runs lanes of commands side by side, and the commands of a lane one after another up to the first
/// that fails. Their output is shown in one piece when they end, with the time that they took.
/// Returns the number of commands; an error names every one that failed.
pub fn side_by_side(lanes: Vec<Vec<Command>>) -> Result<u64, String> {
    let count = lanes.iter().map(Vec::len).sum::<usize>();
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let lane = |lane: Vec<Command>| scope.spawn(|| lane.into_iter().try_for_each(in_one_piece));
        let lanes: Vec<ScopedJoinHandle<'_, _>> = lanes.into_iter().map(lane).collect();
        lanes.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect()
    });
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    if failures.is_empty() { Ok(count as u64) } else { Err(failures.join("; ")) }
}

fn in_one_piece(mut command: Command) -> Result<(), String> {
    let begin = Instant::now();
    let done = command.output().map_err(|e| not_started(&command, &e))?;
    let [said, complained] =
        [&done.stdout, &done.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let took_s = begin.elapsed().as_secs_f64();
    println!("$ {}\n{said}{complained}-- {took_s:.1} s", show(&command));
    judge(&command, done.status)
}

/// Programs to run side by side if each core can have so many, because they mostly wait.
pub fn per_core(programs: usize) -> String {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    (cores * programs).to_string()
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
    let folder = command.get_current_dir().filter(|folder| *folder != root);
    let there = folder.map_or(String::new(), |folder| format!("cd {} && ", folder.display()));
    (there + &line).replace(&format!("{}/", root.display()), "")
}

fn announce(command: &Command) {
    println!("$ {}", show(command));
}

fn not_started(command: &Command, error: &std::io::Error) -> String {
    format!("cannot start {}: {error}", show(command))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exit(status: u8) -> Command {
        command("sh", &["-c", &format!("exit {status}")])
    }

    #[test]
    fn a_lane_ends_at_its_first_failure_and_each_lane_is_heard() {
        assert_eq!(side_by_side(vec![vec![exit(0), exit(0)], vec![exit(0)]]), Ok(3));
        let lanes = vec![vec![exit(3), exit(4)], vec![exit(0), exit(5)], vec![exit(0)]];
        let why = side_by_side(lanes).unwrap_err();
        let named = [3, 4, 5].map(|status| why.contains(&format!("exit {status}")));
        assert_eq!(named, [true, false, true], "{why}");
    }

    #[test]
    fn a_command_in_another_folder_is_shown_with_it() {
        let mut vet = command("go", &["vet"]);
        assert_eq!(show(&vet), "go vet");
        vet.current_dir(paths::root().join("clients/go"));
        assert_eq!(show(&vet), "cd clients/go && go vet");
    }
}
