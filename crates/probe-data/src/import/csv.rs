//! Reader of CSV: one call per line.

use super::runs::Row;
use super::{Rows, Units, latency_of};
use crate::error::Error;
use crate::progress::Progress;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Length above which a line is invalid.
const LINE_BYTES_MAX: u64 = 1 << 16;
/// Bytes per step of progress.
const STEP_BYTES: u64 = 1 << 20;

/// Names of the required columns, with the unit in nanoseconds if the name implies one.
const TIME: [(&str, f64); 4] = [("time", 0.0), ("timestamp", 0.0), ("t", 0.0), ("t_sched", 0.0)];
const SRC: [(&str, f64); 4] = [("src", 0.0), ("source", 0.0), ("from", 0.0), ("caller", 0.0)];
const DST: [(&str, f64); 5] =
    [("dst", 0.0), ("destination", 0.0), ("to", 0.0), ("target", 0.0), ("callee", 0.0)];
const LATENCY: [(&str, f64); 7] = [
    ("latency", 0.0),
    ("rtt", 0.0),
    ("delay", 0.0),
    ("latency_ms", 1e6),
    ("rtt_ms", 1e6),
    ("latency_us", 1e3),
    ("rtt_us", 1e3),
];

/// Positions of the columns in a line.
#[derive(Clone, Copy, Debug)]
struct Places {
    time: usize,
    src: usize,
    dst: usize,
    latency: usize,
    /// Number of fields of the first line.
    fields: usize,
    delimiter: char,
}

/// Result of reading a line.
enum Line {
    /// End of the file.
    None,
    /// A line, and whether it is terminated.
    Whole(bool),
    /// A line that is too long to be valid.
    TooLong,
}

/// Reads a file. The first line may name the columns; without names they are time, source,
/// destination and latency. An empty latency is a call without reply.
pub fn read(
    path: &Path,
    units: Units,
    rows: &mut Rows,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io(path))?;
    let size_bytes = file.metadata().map_or(0, |found| found.len());
    progress.begin("megabytes read", size_bytes / STEP_BYTES);
    let mut file = BufReader::with_capacity(1 << 16, file);
    let (mut bytes, mut number, mut steps) = (Vec::new(), 0, (0, 0));
    let mut places = None;
    let mut last_ns: BTreeMap<u16, i64> = BTreeMap::new();
    loop {
        number += 1;
        let has_end = match next_line(&mut file, &mut bytes).map_err(Error::io(path))? {
            Line::None => return Ok(()),
            Line::Whole(has_end) => has_end,
            Line::TooLong => {
                rows.refuse(path, number, "line_too_long", &String::from_utf8_lossy(&bytes[..80]));
                continue;
            }
        };
        steps.0 += bytes.len() as u64;
        while steps.0 / STEP_BYTES > steps.1 {
            steps.1 += 1;
            progress.step();
        }
        let Ok(line) = std::str::from_utf8(&bytes) else {
            rows.refuse(path, number, "not_utf8", &String::from_utf8_lossy(&bytes));
            continue;
        };
        let line = line.trim_start_matches('\u{feff}').trim_end_matches(['\r', '\n']);
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let known = match places {
            Some(known) => known,
            None => {
                let (found, is_header) =
                    first_line(line, units).map_err(|what| Error::content(path, what))?;
                places = Some(found);
                if is_header {
                    continue;
                }
                found
            }
        };
        match row(line, known, units, rows) {
            Ok(row) => {
                if !has_end {
                    rows.notice("last_line_without_end");
                }
                if last_ns.insert(row.src, row.t_ns).is_some_and(|last_ns| row.t_ns < last_ns) {
                    rows.notice("time_went_back");
                }
                rows.runs.push(row)?;
            }
            Err(reason) => rows.refuse(path, number, reason, line),
        }
    }
}

/// Reads a line, limited to the available buffer.
fn next_line(file: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<Line> {
    bytes.clear();
    file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', bytes)?;
    if bytes.ends_with(b"\n") {
        return Ok(Line::Whole(true));
    }
    if (bytes.len() as u64) < LINE_BYTES_MAX {
        return Ok(if bytes.is_empty() { Line::None } else { Line::Whole(false) });
    }
    let mut rest = Vec::new();
    loop {
        rest.clear();
        file.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut rest)?;
        if rest.is_empty() || rest.ends_with(b"\n") {
            return Ok(Line::TooLong);
        }
    }
}

/// Determines the columns of a file from its first line, and whether that line names them.
fn first_line(line: &str, units: Units) -> Result<(Places, bool), String> {
    let delimiter = [',', ';', '\t'].into_iter().find(|one| line.contains(*one)).unwrap_or(',');
    let fields = split(line, delimiter).unwrap_or_default();
    let find = |names: &[(&str, f64)]| {
        let of = |field: &&str| names.iter().find(|(name, _)| field.eq_ignore_ascii_case(name));
        fields.iter().enumerate().find_map(|(at, field)| Some((at, of(field)?.1)))
    };
    let (time, src, dst, latency) = (find(&TIME), find(&SRC), find(&DST), find(&LATENCY));
    let count = fields.len();
    let places =
        |time, src, dst, latency| Places { time, src, dst, latency, fields: count, delimiter };
    if let (Some((time, _)), Some((src, _)), Some((dst, _)), Some((latency, unit_ns))) =
        (time, src, dst, latency)
    {
        if unit_ns > 0.0 && unit_ns != units.latency_ns {
            let unit = if unit_ns > 1e4 { "ms" } else { "us" };
            return Err(format!(
                "its first line has latencies in {unit}: use --latency-unit {unit}"
            ));
        }
        return Ok((places(time, src, dst, latency), true));
    }
    let found = [("time", time), ("src", src), ("dst", dst), ("latency", latency)];
    let missing: Vec<&str> =
        found.iter().filter(|(_, place)| place.is_none()).map(|(name, _)| *name).collect();
    // A file without names begins with a time, whatever the names of its nodes are.
    let begins_with_number = fields.first().is_some_and(|field| field.parse::<f64>().is_ok());
    if missing.len() <= 2 && !begins_with_number {
        return Err(format!(
            "its first line names columns, but no column {}",
            missing.join(" or ")
        ));
    }
    Ok((places(0, 1, 2, 3), false))
}

/// Splits a line into fields. Quoted text is one field, whatever it contains.
fn split(line: &str, delimiter: char) -> Option<Vec<&str>> {
    if !line.contains('"') {
        return Some(line.split(delimiter).map(str::trim).collect());
    }
    let mut quoted = false;
    let fields = line.split(|c: char| {
        quoted ^= c == '"';
        c == delimiter && !quoted
    });
    let fields = fields.map(|field| field.trim().trim_matches('"')).collect();
    (!quoted).then_some(fields)
}

fn row(line: &str, places: Places, units: Units, rows: &mut Rows) -> Result<Row, &'static str> {
    let fields = split(line, places.delimiter).ok_or("quote_not_closed")?;
    // A comma within a number or a name would shift the following fields.
    if fields.iter().skip(places.fields).any(|field| !field.is_empty()) {
        return Err("more_fields_than_the_first_line");
    }
    let field = |place: usize| fields.get(place).copied().ok_or("fields_missing");
    let (src, dst) = (field(places.src)?, field(places.dst)?);
    let time: f64 = field(places.time)?.parse().map_err(|_| "time_not_a_number")?;
    let t_ns = (time * units.time_ns).round();
    if !t_ns.is_finite() || t_ns.abs() > 9.0e18 {
        return Err("time_out_of_range");
    }
    // Whole numbers of nanoseconds exceed the precision of a double.
    let exact = field(places.time)?.parse::<i64>().ok();
    let exact = exact.and_then(|whole| whole.checked_mul(units.time_ns as i64));
    let t_ns = exact.unwrap_or(t_ns as i64);
    if t_ns < 0 {
        return Err("time_before_1970");
    }
    let text = field(places.latency)?;
    let latency_ns = match text {
        "" => None,
        _ => Some(latency_of(text, units.latency_ns)?),
    };
    rows.row((src, dst), t_ns, latency_ns)
}
