//! `claret demo`: two stories, each with a table: a number that all clients change, beside Redis,
//! and the last minute of an auction, with and without operations that commute.

mod auction;
mod number;

use crate::servers::process::Server;
use crate::stop;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

/// Options of the demo.
#[derive(Clone, Debug, clap::Args)]
pub struct DemoArgs {
    /// Seconds that the minute takes, for each side; each side beside Redis takes half of that.
    #[arg(long, default_value_t = 10.0, value_parser = crate::args::parse_seconds)]
    pub seconds: f64,
    /// Clients.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub clients: u32,
    /// Network round trip to emulate.
    #[arg(long, default_value = "500us", value_parser = crate::args::parse_duration)]
    pub rtt: Duration,
    /// Keep the last server running until Ctrl-C, to look around with redis-cli.
    #[arg(long)]
    pub stay: bool,
}

/// Time between two looks at a running load.
const SLICE_NS: u64 = 200_000_000;

/// Runs the stories and writes them to `out`, with progress bars on standard error. Returns the
/// last server. From here on [`stop::check`] sees signals: a demo that is interrupted fails, and
/// leaves no servers and no files.
///
/// # Errors
/// A server cannot be started or fails, a store contradicts the replies that its clients got, or
/// there was a signal.
pub fn run(args: &DemoArgs, program: &Path, out: &mut impl Write) -> io::Result<Server> {
    stop::listen()?;
    let told = number::tell(args, program, out).and_then(|()| auction::tell(args, program, out));
    told.map_err(stop::reason)
}

/// Progress bar of a side, of this many steps.
fn bar(bars: &MultiProgress, title: &str, steps: u64, message: &str) -> ProgressBar {
    let bar = bars.add(ProgressBar::new(steps));
    let template = format!("{title:>23} {{bar:24}} {message}{{msg}}");
    let style = ProgressStyle::with_template(&template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}

/// A table with a column for each side: rows with their names, one text per side.
fn table(rows: &[(&str, Vec<String>)]) -> String {
    let mut text = String::new();
    for (name, cells) in rows {
        text.push_str(&format!("{name:<28}"));
        cells.iter().for_each(|cell| text.push_str(&format!("{cell:>25}")));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_column_for_each_side() {
        let text = table(&[("", vec!["one".into(), "two".into()]), ("a", vec!["1".into(); 2])]);
        let ends: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(ends, [28 + 50, 28 + 50]);
        assert!(text.starts_with(' ') && text.contains("\na "));
    }
}
