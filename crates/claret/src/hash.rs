//! `claret hash-password`: computes the hash that a configuration can have instead of a password.

use crate::target::first_line;
use clap::Args;
use std::io::{BufRead, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `claret hash-password`.
#[derive(Args, Debug)]
pub struct HashArgs {
    /// File whose first line is the password [default: the first line of standard input].
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Runs the command.
pub fn main(args: &HashArgs) -> ExitCode {
    let password = match &args.password_file {
        Some(path) => first_line(path),
        None => from_input(),
    };
    crate::end(password.map(|password| server::net::password::verifier(&password) + "\n"))
}

fn from_input() -> Result<String, String> {
    let mut input = std::io::stdin().lock();
    if input.is_terminal() {
        eprintln!("password (visible while typing; --password-file avoids that):");
    }
    let mut line = String::new();
    input.read_line(&mut line).map_err(|error| error.to_string())?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        Err("no password was given".to_owned())
    } else {
        Ok(password.to_owned())
    }
}
