//! A number that all clients read, increment and write back, as a newcomer writes it: on Redis with
//! `WATCH` and `MULTI`, on Claret with `TXN`.

use super::{DemoArgs, SLICE_NS, bar, table};
use crate::hot::tasks::{KINDS, Load, Program, Task, key};
use crate::load::driver::Driver;
use crate::load::random::Zipf;
use crate::load::recorder::Recorder;
use crate::load::runner::Runner;
use crate::servers::control::Control;
use crate::servers::process::Server;
use indicatif::{MultiProgress, ProgressBar};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use wire::resp::ClientReply;

const TITLES: [&str; 2] = ["Redis, WATCH and MULTI", "Claret, TXN"];
/// Time of a side, as a part of `--seconds`.
const PART: f64 = 0.5;

/// Result of one side.
#[derive(Clone, Debug)]
struct Side {
    title: &'static str,
    commits: u64,
    aborts: u64,
    p50_ms: f64,
    p99_ms: f64,
    seconds: f64,
}

impl Side {
    fn rate(&self) -> f64 {
        self.commits as f64 / self.seconds
    }

    fn aborts_per_commit(&self) -> f64 {
        self.aborts as f64 / self.commits.max(1) as f64
    }
}

fn play(
    server: &Server,
    title: &'static str,
    program: Program,
    args: &DemoArgs,
    bar: &ProgressBar,
) -> io::Result<Side> {
    let mut control = Control::connect(server.address())?;
    control.load(program.create(Task::Rewrite, 0).into_iter())?;
    let clients = args.clients as usize;
    let rtt_ns = args.rtt.as_nanos() as u64;
    let mut driver =
        Driver::connect(&server.addresses(), clients, rtt_ns).map_err(io::Error::other)?;
    let mut load = Load::new(Task::Rewrite, program, Zipf::new(1, 0.0), Arc::default());
    let (api, retry) = program.manner();
    let from_ns = driver.now_ns();
    let until_ns = from_ns + (args.seconds * PART * 1e9) as u64;
    let recorder = Recorder::new(KINDS.len(), from_ns);
    let mut runner = Runner::new(&mut load, api, retry, clients, 1, recorder);
    let mut slice_ns = from_ns;
    while slice_ns < until_ns {
        slice_ns = (slice_ns + SLICE_NS).min(until_ns);
        driver.run(&mut runner, slice_ns).map_err(io::Error::other)?;
        bar.set_position((slice_ns - from_ns) / 1_000_000);
        let (commits, aborts) = (runner.recorder.commits(), runner.recorder.aborts());
        bar.set_message(format!("{commits:7} commits   {aborts:7} aborts"));
    }
    bar.finish();
    let recorder = runner.recorder;
    let ms = |quantile: f64| recorder.latency.value_at_quantile(quantile) as f64 / 1e6;
    let side = Side {
        title,
        commits: recorder.commits(),
        aborts: recorder.aborts(),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        seconds: (driver.now_ns() - from_ns) as f64 / 1e9,
    };
    let reply = control.call(&["GET", &key(0)])?;
    if is_right(&reply, side.commits, u64::from(args.clients)) {
        return Ok(side);
    }
    let text =
        format!("{title}: {} increments were confirmed, but the number is {reply:?}", side.commits);
    Err(io::Error::other(text))
}

/// Whether the number has every confirmed increment, and no others than those that clients had
/// under way when they stopped.
fn is_right(reply: &ClientReply, confirmed: u64, clients: u64) -> bool {
    let ClientReply::Bulk(digits) = reply else { return false };
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u64>().ok());
    number.is_some_and(|number| (confirmed..=confirmed + clients).contains(&number))
}

/// Runs the story and writes it to `out`, or how to get Redis where it is not installed.
///
/// # Errors
/// A server fails, an increment was lost, or there was a signal.
pub fn tell(args: &DemoArgs, program: &Path, out: &mut impl Write) -> io::Result<()> {
    let dir = std::env::temp_dir();
    let redis = match Server::redis("always", &dir) {
        Ok(redis) => redis,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return out.write_all(ADVICE.as_bytes());
        }
        Err(error) => return Err(error),
    };
    writeln!(
        out,
        "{} clients, {} us away, change one number: read it, add one, write it back. Every commit is \
         flushed to disk.\n",
        args.clients,
        args.rtt.as_micros()
    )?;
    out.flush()?;
    let bars = MultiProgress::new();
    let steps = (args.seconds * PART * 1e3) as u64;
    let lines = TITLES.map(|title| bar(&bars, title, steps, ""));
    let theirs = play(&redis, TITLES[0], Program::Watch, args, &lines[0])?;
    drop(redis);
    let claret = Server::shipped(program, &["--durability", "always"], &dir)?;
    let ours = play(&claret, TITLES[1], Program::Txn, args, &lines[1])?;
    drop(claret);
    out.write_all(compare(&[theirs, ours]).as_bytes())?;
    out.flush()
}

/// Line in place of the comparison.
const ADVICE: &str = "\
    Without redis-server there is no comparison with Redis here; to see it, install redis-server \
    (`apt install redis-server`, `brew install redis`) and run this again.\n\n";

fn compare(sides: &[Side; 2]) -> String {
    let cells = |cell: fn(&Side) -> String| sides.iter().map(cell).collect::<Vec<_>>();
    let mut text = table(&[
        ("", cells(|side| side.title.to_owned())),
        ("commits per second", cells(|side| format!("{:.0}", side.rate()))),
        ("aborted tries per commit", cells(|side| format!("{:.1}", side.aborts_per_commit()))),
        ("median latency", cells(|side| format!("{:.1} ms", side.p50_ms))),
        ("99th percentile", cells(|side| format!("{:.1} ms", side.p99_ms))),
    ]);
    let [theirs, ours] = sides;
    let times = ours.rate() / theirs.rate().max(f64::MIN_POSITIVE);
    text.push_str(&format!(
        "\nClaret commits {times:.1} times as often: clients wait in line instead of trying again. \
         No increment was lost.\n\
         Redis needs no retries if the program is a script inside of it (EVAL): `claret bench hot` \
         has that as well.\n\n"
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_rates_aborts_and_their_ratio() {
        let side = |title, commits, aborts| Side {
            title,
            commits,
            aborts,
            p50_ms: 1.0,
            p99_ms: 2.0,
            seconds: 2.0,
        };
        let text = compare(&[side(TITLES[0], 200, 5_000), side(TITLES[1], 1_500, 0)]);
        let words = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name)).expect("a row");
            line[name.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(words("commits per second"), ["100", "750"]);
        assert_eq!(words("aborted tries per commit"), ["25.0", "0.0"]);
        assert!(text.contains("commits 7.5 times as often"), "{text}");
    }

    #[test]
    fn a_lost_increment_is_found() {
        let bulk = |digits: &'static [u8]| ClientReply::Bulk(digits.into());
        assert!(is_right(&bulk(b"10"), 10, 4) && is_right(&bulk(b"14"), 10, 4));
        assert!(!is_right(&bulk(b"9"), 10, 4) && !is_right(&bulk(b"15"), 10, 4));
        assert!(!is_right(&ClientReply::Nil, 0, 4));
    }
}
