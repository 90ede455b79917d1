//! CSV: a call a line.

use super::{Rows, Units, latency_of};
use crate::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Which field of a line is what.
#[derive(Clone, Copy, Debug)]
struct Places {
    time: usize,
    src: usize,
    dst: usize,
    latency: usize,
    delimiter: char,
}

/// Reads a file. The first line may name the columns; without names they are time, source,
/// destination and latency. An empty latency is a call without reply.
pub fn read(path: &Path, units: Units, rows: &mut Rows) -> Result<(), Error> {
    let file = BufReader::new(File::open(path).map_err(Error::io(path))?);
    let mut places = None;
    for (number, line) in file.lines().enumerate() {
        let line = line.map_err(Error::io(path))?;
        let line = line.trim_end_matches('\r');
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let known = match places {
            Some(known) => known,
            None => {
                let (found, is_header) = first_line(line);
                places = Some(found);
                if is_header {
                    continue;
                }
                found
            }
        };
        if let Err(reason) = row(line, known, units, rows) {
            rows.refuse(path, number + 1, reason, line);
        }
    }
    Ok(())
}

/// Finds out what the fields of a file are from its first line, and whether that names them.
fn first_line(line: &str) -> (Places, bool) {
    let delimiter = [',', ';', '\t'].into_iter().find(|one| line.contains(*one)).unwrap_or(',');
    let fields: Vec<String> =
        line.split(delimiter).map(|field| clean(field).to_lowercase()).collect();
    let find = |names: &[&str]| fields.iter().position(|field| names.contains(&field.as_str()));
    let found = (
        find(&["time", "timestamp", "t", "t_sched"]),
        find(&["src", "source", "from", "caller"]),
        find(&["dst", "destination", "to", "target", "callee"]),
        find(&["latency", "rtt", "latency_ms", "rtt_ms", "latency_us", "rtt_us", "delay"]),
    );
    match found {
        (Some(time), Some(src), Some(dst), Some(latency)) => {
            (Places { time, src, dst, latency, delimiter }, true)
        }
        _ => (Places { time: 0, src: 1, dst: 2, latency: 3, delimiter }, false),
    }
}

fn clean(field: &str) -> &str {
    field.trim().trim_matches('"')
}

fn row(line: &str, places: Places, units: Units, rows: &mut Rows) -> Result<(), &'static str> {
    let fields: Vec<&str> = line.split(places.delimiter).map(clean).collect();
    let field = |place: usize| fields.get(place).copied().ok_or("fields_missing");
    let (src, dst) = (field(places.src)?, field(places.dst)?);
    let time: f64 = field(places.time)?.parse().map_err(|_| "time_not_a_number")?;
    let t_ns = (time * units.time_ns).round();
    if !t_ns.is_finite() || t_ns.abs() > 9.0e18 {
        return Err("time_out_of_range");
    }
    // Whole numbers of nanoseconds are larger than what a double can tell apart.
    let exact = field(places.time)?.parse::<i64>().ok();
    let exact = exact.and_then(|whole| whole.checked_mul(units.time_ns as i64));
    let t_ns = exact.unwrap_or(t_ns as i64);
    let text = field(places.latency)?;
    let latency_ns = match text {
        "" => None,
        _ => Some(latency_of(text, units.latency_ns)?),
    };
    rows.push((src, dst), t_ns, latency_ns)
}
