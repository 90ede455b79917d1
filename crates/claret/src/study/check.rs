//! `claret check`: decides whether a recorded history was allowed.

use clap::Args;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `claret check`.
#[derive(Args, Debug)]
pub struct CheckArgs {
    /// History file: JSON lines, or the dialogue form. See the documentation of the check crate.
    history: PathBuf,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn main(args: &CheckArgs) -> ExitCode {
    let text = match std::fs::read_to_string(&args.history) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("cannot read {}: {error}", args.history.display());
            return ExitCode::from(2);
        }
    };
    let (output, valid) = check::check_main(&text, args.json);
    let _ = std::io::stdout().write_all(output.as_bytes());
    if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
