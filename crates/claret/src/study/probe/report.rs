//! `claret probe report`: analyses and calibration as one page.

use crate::study::probe::calibrate::WantedArgs;
use crate::study::probe::{Bar, document, parse_ns, threads};
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
    /// Folder of measurements.
    data: PathBuf,
    /// Output page; an existing one is replaced once the new one is complete.
    #[arg(long, short)]
    output: PathBuf,
    /// Margin over the fastest node above which a slow node matters.
    #[arg(long, default_value = "1ms", value_parser = parse_ns)]
    floor: u64,
    /// Group size of the histogram of slow nodes; default: the most frequent size in the data.
    #[arg(long)]
    histogram_size: Option<u8>,
    #[command(flatten)]
    wanted: WantedArgs,
    /// Number of threads.
    #[arg(long, default_value_t = threads())]
    threads: usize,
    /// Print one JSON document: a summary of the output.
    #[arg(long)]
    json: bool,
}

/// Writes a file atomically: readers find the old or the new one, never a part. The file gets the
/// permissions of other new files here, which is why this is not the function that data directories
/// are written with.
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
        return Err(format!("{}: is a folder; -o must name a file", args.output.display()));
    }
    // Better to fail now than after the analysis.
    let parent = args.output.parent().filter(|parent| !parent.as_os_str().is_empty());
    if let Some(parent) = parent.filter(|parent| !parent.is_dir()) {
        return Err(format!("{}: no such folder", parent.display()));
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
