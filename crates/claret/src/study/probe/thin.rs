//! `claret probe thin`: compacts old days.

use ::probe::schedule::epoch_of;
use clap::Args;
use probe_data::tables::thin::{Options, Thinned, thin};
use serde_json::json;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

/// Arguments of `claret probe thin`.
#[derive(Args, Debug)]
pub struct ThinArgs {
    /// Folder of measurements.
    data: PathBuf,
    /// Days before today that stay unchanged.
    #[arg(long, value_name = "DAYS", default_value_t = 7)]
    keep_days: u16,
    /// Number of threads.
    #[arg(long, default_value_t = crate::study::probe::threads())]
    threads: usize,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs `claret probe thin`.
pub fn thinned(args: &ThinArgs) -> Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(|error| error.to_string())?;
    let today = epoch_of(i64::try_from(now.as_nanos()).unwrap_or(i64::MAX));
    let last_day = today - i64::from(args.keep_days) - 1;
    let options = Options { last_day, node: None, threads: args.threads };
    let done = thin(&args.data, options, &crate::study::probe::Bar::default())
        .map_err(|error| error.to_string())?;
    if args.json {
        return Ok(crate::study::probe::document(&json!(done)));
    }
    let mut text = if done.caller_days + done.host_days == 0 {
        "no day is old enough, or all old days are already thinned out\n".to_owned()
    } else {
        sentence(&done)
    };
    for file in &done.excluded.files {
        text += &format!("left unchanged: {}\n", file.detail);
    }
    Ok(text)
}

/// Result in one line.
pub fn sentence(done: &Thinned) -> String {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    format!(
        "thinned out: {} days of callers and {} of hosts, {:.1} MiB to {:.1} MiB; {} of {} calls kept\n",
        done.caller_days,
        done.host_days,
        mib(done.bytes_before),
        mib(done.bytes_after),
        done.kept,
        done.calls
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::probe::calibrate::{CalibrateArgs, calibrated};
    use ::probe::groups::Plan;
    use clap::Parser;
    use probe_data::DataSet;
    use probe_data::progress::Silent;
    use probe_data::simulate::{self, simulate};
    use serde_json::Value;
    use std::path::Path;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: CalibrateArgs,
    }

    fn timers(root: &Path) -> Value {
        let root = root.display().to_string();
        let words = ["calibrate", &root, "--target", "raft", "--once-in", "10min", "--json"];
        let cli = Cli::try_parse_from(words).unwrap();
        serde_json::from_str(&calibrated(&cli.args).unwrap()).unwrap()
    }

    #[test]
    fn timers_rest_on_days_that_were_thinned_out_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("data");
        let options = simulate::Options {
            nodes: 4,
            plan: Plan::new(&[4]).unwrap(),
            days: 3,
            slow: 0,
            seed: 8,
            rounds: 8_640,
            pauses_per_hour: 60.0,
            resources: false,
            threads: 2,
        };
        simulate(&options, &root, &Silent).unwrap();
        let all = timers(&root);
        let first = *DataSet::open(&root).unwrap().calls.keys().map(|(day, _)| day).next().unwrap();
        let options = Options { last_day: first + 1, node: None, threads: 2 };
        let done = thin(&root, options, &Silent).unwrap();
        assert_eq!(done.caller_days, 8);
        let some = timers(&root);
        let counted = &some["data"]["thinned"];
        assert_eq!(
            (&counted["caller_days"], &counted["calls"]),
            (&8.into(), &(8 * 3 * 8_640).into())
        );
        let ratio = |key: &str| {
            let of = |found: &Value| found["raft"][key].as_f64().unwrap();
            of(&some) / of(&all)
        };
        // The calls that matter are late ones, which are kept.
        let election = ratio("election_timeout_ms");
        assert!((0.99..=1.01).contains(&election), "{election}: {}", some["raft"]);
        let days = ratio("observed_node_days");
        assert!((0.99..=1.0).contains(&days), "{days}");
    }
}
