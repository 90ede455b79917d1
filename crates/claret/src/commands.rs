//! `claret commands`: the reference of all commands, from the table that executes them.

use clap::Args;
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `claret commands`.
#[derive(Args, Debug)]
pub struct CommandsArgs {
    /// Print the page of the documentation (the only form there is).
    #[arg(long)]
    markdown: bool,
}

/// Runs the command.
pub fn main(args: &CommandsArgs) -> ExitCode {
    if !args.markdown {
        eprintln!("say --markdown: that is the only form there is");
        return ExitCode::from(2);
    }
    let page = engine::gateway::command_docs::markdown();
    match std::io::stdout().write_all(page.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
