//! Claret with one data type more. Everything else is the program as it is shipped: `gauge-server serve`,
//! `gauge-server cluster`, `gauge-server --help`.

mod gauge;

use std::process::ExitCode;

fn main() -> ExitCode {
    if let Err(why) = adt::extension::register::<gauge::Gauge>() {
        eprintln!("gauge-server: {why}");
        return ExitCode::FAILURE;
    }
    claret::run()
}
