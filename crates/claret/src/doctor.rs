//! `claret doctor`: reports errors and risks of this machine and its configuration.

use crate::serve::ServeArgs;
use clap::Args;
use server::host::doctor::{Finding, Verdict, examine};
use std::io::Write;
use std::process::ExitCode;

/// Arguments of `claret doctor`: those of `claret serve`, which define the configuration to
/// examine.
#[derive(Args, Debug)]
pub struct DoctorArgs {
    #[command(flatten)]
    serve: ServeArgs,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the command. The exit status is 1 if there are errors.
pub fn main(args: &DoctorArgs) -> ExitCode {
    let findings = match args.serve.options() {
        Ok(options) => examine(&options),
        Err(error) => vec![Finding {
            check: "configuration",
            verdict: Verdict::Fail,
            found: error.to_string(),
            advice: "correct the configuration".to_owned(),
        }],
    };
    let failed = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
    let text = if args.json { json(&findings) } else { page(&findings) };
    let written = std::io::stdout().write_all(text.as_bytes());
    if failed || written.is_err() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn json(findings: &[Finding]) -> String {
    let document = serde_json::json!({ "findings": findings });
    format!("{document:#}\n")
}

fn page(findings: &[Finding]) -> String {
    let mut page = String::new();
    for finding in findings {
        let verdict = match finding.verdict {
            Verdict::Ok => "OK  ",
            Verdict::Warn => "WARN",
            Verdict::Fail => "FAIL",
        };
        page.push_str(&format!("{verdict}  {}: {}\n", finding.check, finding.found));
        if !finding.advice.is_empty() {
            page.push_str(&format!("      {}\n", finding.advice));
        }
    }
    page
}
