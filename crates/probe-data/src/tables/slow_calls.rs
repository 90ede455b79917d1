//! The table `slow`: calls that were slow on one callee in one epoch, column by column.

use super::columns::{Column, Form, Numbers, Opened, Values};
use crate::error::Error;
use probe::{SlowCall, Workload};

/// Columns in their order.
pub const COLUMNS: [&str; 13] = [
    "t_rx", "src", "inc", "dst", "group", "seq", "wl", "svc", "queue", "handler", "sync", "runq",
    "faults",
];

/// Columns of the table, with their encodings.
pub fn columns() -> Vec<Column> {
    let column = |name: &str| Column {
        name: name.into(),
        bits: match name {
            "t_rx" | "inc" => 64,
            "src" | "dst" => 16,
            "wl" => 8,
            _ => 32,
        },
        signed: name == "t_rx",
        optional: matches!(name, "sync" | "runq" | "faults"),
        form: match name {
            "t_rx" => Form::Delta,
            "src" | "inc" | "dst" | "group" | "wl" => Form::Dictionary,
            _ => Form::Split,
        },
    };
    COLUMNS.map(column).into()
}

/// Rows as columns, in the order of the table.
pub fn values(rows: &[SlowCall]) -> Vec<Values> {
    let required = |numbers| Values { numbers, present: None };
    let long =
        |of: &dyn Fn(&SlowCall) -> i64| required(Numbers::Long(rows.iter().map(of).collect()));
    let short = |of: &dyn Fn(&SlowCall) -> u32| {
        required(Numbers::Short(rows.iter().map(|row| of(row).cast_signed()).collect()))
    };
    let optional = |of: &dyn Fn(&SlowCall) -> Option<u32>| Values {
        numbers: Numbers::Short(rows.iter().filter_map(of).map(u32::cast_signed).collect()),
        present: Some(rows.iter().map(|row| i16::from(of(row).is_some())).collect()),
    };
    vec![
        long(&|row| row.t_rx_ns),
        short(&|row| row.src.into()),
        long(&|row| row.incarnation.cast_signed()),
        short(&|row| row.dst.into()),
        short(&|row| row.group),
        short(&|row| row.round),
        short(&|row| row.workload.code().into()),
        short(&|row| row.svc_100ns),
        short(&|row| row.queue_100ns),
        short(&|row| row.handler_100ns),
        optional(&|row| row.sync_100ns),
        optional(&|row| row.runq_100ns),
        optional(&|row| row.faults),
    ]
}

/// Reads all rows of a file. Rows with an unknown workload are left out.
///
/// # Errors
/// The file cannot be read.
pub fn rows(file: &Opened) -> Result<Vec<SlowCall>, Error> {
    let mut rows = Vec::new();
    for group in 0..file.groups() {
        let mut columns =
            file.read(group, &COLUMNS)?.into_iter().map(|values| values.by_row(false));
        let mut next = || columns.next().unwrap_or_default().into_iter();
        let (mut t_rx, mut src, mut inc, mut dst) = (next(), next(), next(), next());
        let (mut group, mut seq, mut wl) = (next(), next(), next());
        let (mut svc, mut queue) = (next(), next());
        let (mut handler, mut sync, mut runq, mut faults) = (next(), next(), next(), next());
        let wanted = |column: &mut std::vec::IntoIter<Option<i64>>| column.next().flatten();
        while let Some(t_rx_ns) = wanted(&mut t_rx) {
            let long = |column| wanted(column).unwrap_or_default();
            let (src, incarnation) = (long(&mut src) as u16, long(&mut inc).cast_unsigned());
            let dst = long(&mut dst) as u16;
            let (group, round, code) = (long(&mut group), long(&mut seq), long(&mut wl));
            let (svc, queue, handler) = (long(&mut svc), long(&mut queue), long(&mut handler));
            let maybe = |column| wanted(column).map(|value| value as u32);
            let (sync_100ns, runq_100ns) = (maybe(&mut sync), maybe(&mut runq));
            let faults = maybe(&mut faults);
            let workload = u8::try_from(code).ok().and_then(Workload::from_code);
            rows.extend(workload.map(|workload| SlowCall {
                t_rx_ns,
                src,
                incarnation,
                dst,
                group: group as u32,
                round: round as u32,
                workload,
                svc_100ns: svc as u32,
                queue_100ns: queue as u32,
                handler_100ns: handler as u32,
                sync_100ns,
                runq_100ns,
                faults,
            }));
        }
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::meta::{Clock, Config, Metadata, Origin, Table, VERSION};
    use crate::tables::recorder::SlowRecorder;

    #[test]
    fn rows_are_read_back_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let call = |n: u32, workload| SlowCall {
            t_rx_ns: 1_700_000_000_000_000_000 + i64::from(n),
            src: 3,
            incarnation: u64::MAX - 7,
            dst: 1,
            group: 2,
            round: n,
            workload,
            svc_100ns: u32::MAX - n,
            queue_100ns: 5,
            handler_100ns: n,
            sync_100ns: (workload == Workload::Disk).then_some(u32::MAX - 1),
            runq_100ns: n.is_multiple_of(3).then_some(n),
            faults: None,
        };
        let all: Vec<SlowCall> = (0..40)
            .map(|n| call(n, if n % 2 == 0 { Workload::Null } else { Workload::Disk }))
            .collect();
        let metadata = Metadata {
            version: VERSION,
            table: Table::Slow,
            origin: Origin::Measured,
            deployment: "shop".into(),
            first_epoch: 0,
            epoch: 19_000,
            node: 1,
            nodes: ["a", "b"].map(str::to_owned).into(),
            groups: Vec::new(),
            resting: Vec::new(),
            config: Config::default(),
            clock: Clock::default(),
            incarnations: Vec::new(),
            build: "test".into(),
            planted: None,
        };
        let mut recorder = SlowRecorder::new(folder.path(), metadata, 10).unwrap();
        all.iter().for_each(|call| recorder.push(call).unwrap());
        let path = recorder.finish().unwrap();
        assert!(path.file_name().unwrap().to_str().unwrap().starts_with("slow-"));
        assert_eq!(rows(&crate::tables::columns::open(&path).unwrap()).unwrap(), all);
    }
}
