//! `claret commands`: the reference of all commands, from the table that executes them, and the
//! coverage of the commands of Redis and Valkey.

use clap::Args;
use engine::gateway::command_docs;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `claret commands`.
#[derive(Args, Debug)]
pub struct CommandsArgs {
    /// Print the page of the documentation.
    #[arg(long)]
    markdown: bool,
    /// Print the coverage of the commands of Redis and Valkey, and why the others are absent.
    #[arg(long, conflicts_with = "markdown")]
    differences: bool,
}

/// Runs the command.
pub fn main(args: &CommandsArgs) -> ExitCode {
    let page = match (args.markdown, args.differences) {
        (true, _) => command_docs::markdown(),
        (false, true) => command_docs::differences(),
        (false, false) => {
            eprintln!("use --markdown or --differences");
            return ExitCode::from(2);
        }
    };
    match std::io::stdout().write_all(page.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
