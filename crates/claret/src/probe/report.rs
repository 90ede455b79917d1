//! `claret probe report`: analyses and calibration as one page.

use super::calibrate::WantedArgs;
use super::{Bar, document, parse_ns, threads};
use clap::Args;
use probe_data::analyze::{self, analyze};
use probe_data::calibrate::{Target, calibrate};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Arguments of `claret probe report`.
#[derive(Args, Debug)]
pub struct ReportArgs {
    /// The folder with the files.
    data: PathBuf,
    /// The page; one that is there is replaced when the new one is whole.
    #[arg(long, short)]
    output: PathBuf,
    /// How much slower than the fastest a node must be before anybody should act on it.
    #[arg(long, default_value = "1ms", value_parser = parse_ns)]
    floor: u64,
    /// Group size of the histogram of slow nodes; without it, that of most groups in the data.
    #[arg(long)]
    histogram_size: Option<u8>,
    #[command(flatten)]
    wanted: WantedArgs,
    /// Threads.
    #[arg(long, default_value_t = threads())]
    threads: usize,
    /// Print one JSON document: what was written where.
    #[arg(long)]
    json: bool,
}

/// Writes a file so that whoever opens it finds the old or the new one, and never a part. It may be read
/// by whoever may read other new files here, which is why it is not what data directories are written
/// with.
fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.unfinished", std::process::id()));
    let unfinished = path.with_file_name(name);
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    });
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

/// Runs the command.
pub fn reported(args: &ReportArgs) -> Result<String, String> {
    let said = |error: io::Error| format!("{}: {error}", args.output.display());
    if args.output.is_dir() || args.output.file_name().is_none() {
        return Err(format!("{}: is a folder; -o names a file", args.output.display()));
    }
    // Better now than after the analysis.
    let parent = args.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(format!("{}: there is no such folder", parent.display()));
    }
    let wanted = args.wanted.options(Target::ALL.into(), false)?;
    let calibrated = calibrate(&args.data, &wanted, &Bar::default());
    let calibrated = calibrated.map_err(|error| error.to_string())?;
    let size_of_data = calibrated.raft.as_ref().map(|raft| raft.wanted.size);
    let options = analyze::Options {
        threads: args.threads,
        floor_ns: args.floor,
        histogram_size: args.histogram_size.or(size_of_data).unwrap_or(7),
        ..analyze::Options::default()
    };
    let found = analyze(&args.data, &options, &Bar::default());
    let found = found.map_err(|error| error.to_string())?;
    let page = probe_report::page(&found, &json!(calibrated));
    write_whole(&args.output, &page).map_err(said)?;
    if args.json {
        return Ok(document(&json!({
            "written": args.output.display().to_string(),
            "bytes": page.len(),
            "deployment": found["data"]["deployment"],
            "calls": found["data"]["rows"],
        })));
    }
    Ok(format!("{} bytes in {}\n", page.len(), args.output.display()))
}
