//! The table `sketch`: histogram of latencies, per ten minutes, callee and workload.
//!
//! The histogram is stored as rows, and not as a blob that only one library reads: SQL can add up
//! `n`. Calls that are kept one by one are in the table `tail`, and not here: both together are all
//! calls, each once.

use crate::error::Error;
use crate::tables::calls::Calls;
use crate::tables::columns::{Column, Form, Numbers, Opened, Values};
use probe::calibrate::tail::bucket_around;
use probe::{Status, Workload};
use std::collections::BTreeMap;

/// Length of a window.
pub const WINDOW_NS: i64 = 600_000_000_000;
/// Number of buckets per power of two, as a power of two: a bucket is at most 1.6 % wide.
const STEP_BITS: u32 = 6;
/// Columns in their order.
pub const COLUMNS: [&str; 6] = ["t", "dst", "wl", "status", "upto_ns", "n"];

/// A row: the number of calls within one bucket.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Row {
    /// Start of the window (`t`): nanoseconds since 1970.
    pub t_ns: i64,
    /// The callee.
    pub dst: u16,
    /// Workload (`wl`).
    pub workload: Workload,
    /// Result of the calls.
    pub status: Status,
    /// Upper end of the bucket of their latency; `None` for calls without a reply.
    pub upto_ns: Option<u64>,
    /// Number of calls (`n`).
    pub count: u32,
}

/// Sort key, in the order in which rows take the least space.
type Key = (u8, u16, i64, u8, Option<u64>);

/// Columns of the table, with their encodings.
pub fn columns() -> Vec<Column> {
    let column = |name: &str| Column {
        name: name.into(),
        bits: match name {
            "t" | "upto_ns" => 64,
            "n" => 32,
            "dst" => 16,
            _ => 8,
        },
        signed: name == "t",
        optional: name == "upto_ns",
        form: Form::Dictionary,
    };
    COLUMNS.map(column).into()
}

/// Upper end of the bucket of a latency.
fn upto(ns: u64) -> u64 {
    bucket_around(ns, STEP_BITS).1
}

/// Flags of the calls of one caller and day that are kept one by one: those later than the 99th
/// percentile of their callee and workload. A call without reply is later than any other. Rows that
/// this build cannot interpret are kept as well.
pub fn kept(calls: &Calls) -> Vec<bool> {
    let latency = |at: usize| calls.latency_ns(at).unwrap_or(u64::MAX);
    let found: Vec<_> = (0..calls.len()).map(|at| calls.get(at)).collect();
    let mut kept: Vec<bool> = found.iter().map(Option::is_none).collect();
    let mut rows: BTreeMap<(u16, u8), Vec<usize>> = BTreeMap::new();
    for (at, call) in found.iter().enumerate() {
        if let Some(call) = call.filter(|call| call.status.counts()) {
            rows.entry((call.dst, call.workload.code())).or_default().push(at);
        }
    }
    for rows in rows.values() {
        let mut latencies: Vec<u64> = rows.iter().map(|at| latency(*at)).collect();
        let rank = (latencies.len() * 99).div_ceil(100).max(1);
        let (_, p99_ns, _) = latencies.select_nth_unstable(rank - 1);
        rows.iter().for_each(|at| kept[*at] = latency(*at) > *p99_ns);
    }
    kept
}

/// Rows of all calls that are not kept one by one.
pub fn sketch(calls: &Calls, kept: &[bool]) -> Vec<Row> {
    let counted = kept.iter().enumerate().filter(|(_, kept)| !**kept);
    let key = |(at, _): (usize, &bool)| -> Key {
        let window_ns = calls.t_sched_ns[at].div_euclid(WINDOW_NS) * WINDOW_NS;
        let (workload, status) = (calls.workload[at] as u8, calls.status[at] as u8);
        let upto_ns = calls.latency_ns(at).map(upto);
        (workload, calls.dst[at] as u16, window_ns, status, upto_ns)
    };
    let mut keys: Vec<Key> = counted.map(key).collect();
    keys.sort_unstable();
    let row = |same: &[Key]| {
        let (workload, dst, t_ns, status, upto_ns) = same[0];
        Some(Row {
            t_ns,
            dst,
            workload: Workload::from_code(workload)?,
            status: Status::from_code(status)?,
            upto_ns,
            count: same.len() as u32,
        })
    };
    keys.chunk_by(|a, b| a == b).filter_map(row).collect()
}

/// Rows as columns, in the order of the table.
pub fn values(rows: &[Row]) -> Vec<Values> {
    let short = |of: &dyn Fn(&Row) -> u32| Values {
        numbers: Numbers::Short(rows.iter().map(|row| of(row).cast_signed()).collect()),
        present: None,
    };
    vec![
        Values { numbers: Numbers::Long(rows.iter().map(|row| row.t_ns).collect()), present: None },
        short(&|row| row.dst.into()),
        short(&|row| row.workload.code().into()),
        short(&|row| row.status.code().into()),
        Values {
            numbers: Numbers::Long(
                rows.iter().filter_map(|row| row.upto_ns).map(u64::cast_signed).collect(),
            ),
            present: Some(rows.iter().map(|row| i16::from(row.upto_ns.is_some())).collect()),
        },
        short(&|row| row.count),
    ]
}

/// Visits all rows of a file; returns the number of rows with unknown codes.
///
/// # Errors
/// The file cannot be read.
pub fn visit(file: &Opened, mut show: impl FnMut(&Row)) -> Result<u64, Error> {
    let mut unknown = 0;
    for group in 0..file.groups() {
        let columns: Vec<_> =
            file.read(group, &COLUMNS)?.into_iter().map(|values| values.by_row(false)).collect();
        let rows = columns.first().map_or(0, Vec::len);
        let rows = (0..rows).map(|at| row(|column| columns[column][at]));
        for found in rows {
            match found {
                Some(row) => show(&row),
                None => unknown += 1,
            }
        }
    }
    Ok(unknown)
}

fn row(value: impl Fn(usize) -> Option<i64>) -> Option<Row> {
    let byte = |column| u8::try_from(value(column)?).ok();
    Some(Row {
        t_ns: value(0)?,
        dst: u16::try_from(value(1)?).ok()?,
        workload: Workload::from_code(byte(2)?)?,
        status: Status::from_code(byte(3)?)?,
        upto_ns: value(4).map(i64::cast_unsigned),
        count: u32::try_from(value(5)?).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_little_wider_than_its_values() {
        for ns in (0..100_000)
            .chain((1..64).flat_map(|bit| [1u64 << bit, (1 << bit) - 1, 3 << (bit - 1)]))
        {
            let end = upto(ns);
            assert!(end >= ns && end - ns <= ns / 64, "{ns} {end}");
            assert_eq!(upto(end), end);
            assert!(end == u64::MAX || upto(end + 1) > end);
        }
    }
}
