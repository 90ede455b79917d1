//! The `claret` program as it is shipped.

use std::process::ExitCode;

fn main() -> ExitCode {
    claret::run()
}
