//! The table `res`: resource usage of one host in one epoch, column by column.

use super::columns::{Column, Form, Numbers, Opened, Values};
use crate::error::Error;
use probe::Resources;
use probe::resources::{METRICS, TIME_COLUMNS, Width};

/// Columns of the table, with their encodings.
pub fn columns() -> Vec<Column> {
    let time = TIME_COLUMNS.map(|name| Column {
        name: name.into(),
        bits: match name {
            "t" | "mono" => 64,
            "dt" => 32,
            _ => 16,
        },
        signed: matches!(name, "t" | "mono"),
        optional: false,
        form: if matches!(name, "t" | "mono") { Form::Delta } else { Form::Split },
    });
    let metrics = METRICS.iter().map(|metric| Column {
        name: metric.name.into(),
        bits: match metric.width {
            Width::U8 => 8,
            Width::U16 => 16,
            Width::U32 | Width::I32 => 32,
            Width::U64 => 64,
        },
        signed: metric.width == Width::I32,
        optional: true,
        form: match metric.width {
            Width::U8 | Width::U16 => Form::Dictionary,
            _ => Form::Split,
        },
    });
    time.into_iter().chain(metrics).collect()
}

/// Rows as columns, in the order of the table.
pub fn values(rows: &[Resources]) -> Vec<Values> {
    let required = |numbers| Values { numbers, present: None };
    let mut columns = vec![
        required(Numbers::Long(rows.iter().map(|row| row.t_ns).collect())),
        required(Numbers::Long(rows.iter().map(|row| row.mono_ns).collect())),
        required(Numbers::Short(rows.iter().map(|row| row.dt_us.cast_signed()).collect())),
        required(Numbers::Short(rows.iter().map(|row| row.cost_us.into()).collect())),
    ];
    for metric in METRICS {
        let found = rows.iter().map(|row| (metric.get)(row));
        let present = found.clone().map(|value| i16::from(value.is_some())).collect();
        let numbers = found.flatten().map(|value| metric.width.saturate(value));
        let numbers = match metric.width {
            Width::U64 => Numbers::Long(numbers.collect()),
            // Unsigned numbers are stored with the same bits.
            _ => Numbers::Short(numbers.map(|value| (value & 0xffff_ffff) as u32 as i32).collect()),
        };
        columns.push(Values { numbers, present: Some(present) });
    }
    columns
}

/// Metrics of a host over an epoch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    /// Time of each row, on the host's wall clock; ascending.
    pub t_ns: Vec<i64>,
    /// Values of each requested metric, `None` in rows without one.
    pub metrics: Vec<Vec<Option<i64>>>,
}

/// Names of the metrics that a file has.
pub fn metric_names(file: &Opened) -> Vec<String> {
    let names = file.names().into_iter();
    names.filter(|name| !TIME_COLUMNS.contains(&name.as_str())).collect()
}

impl Host {
    /// Reads the time and some metrics of one row group and appends its rows.
    pub fn read(&mut self, file: &Opened, group: usize, metrics: &[String]) -> Result<(), Error> {
        let mut names = vec!["t"];
        names.extend(metrics.iter().map(String::as_str));
        let mut columns = file.read(group, &names)?.into_iter();
        if let Some(Values { numbers: Numbers::Long(numbers), .. }) = columns.next() {
            self.t_ns.extend(numbers);
        }
        self.metrics.resize(metrics.len(), Vec::new());
        for ((values, to), name) in columns.zip(&mut self.metrics).zip(metrics) {
            let signed = probe::resources::Metric::named(name)
                .is_some_and(|metric| metric.width == Width::I32);
            to.extend(values.by_row(signed));
        }
        Ok(())
    }
}

/// Reads all rows of a file, so that they can be written again.
pub fn rows(file: &Opened) -> Result<Vec<Resources>, Error> {
    let mut names: Vec<&str> = TIME_COLUMNS.into();
    names.extend(METRICS.iter().map(|metric| metric.name));
    let mut rows = Vec::new();
    for group in 0..file.groups() {
        let begin = rows.len();
        let mut columns = file.read(group, &names)?.into_iter();
        let mut time = || columns.next().map_or_else(Vec::new, |values| longs(values.numbers));
        let (t_ns, mono_ns, dt_us, cost_us) = (time(), time(), time(), time());
        for (((t_ns, mono_ns), dt_us), cost_us) in
            t_ns.into_iter().zip(mono_ns).zip(dt_us).zip(cost_us)
        {
            let (dt_us, cost_us) = (dt_us as u32, cost_us as u16);
            rows.push(Resources { t_ns, mono_ns, dt_us, cost_us, ..Resources::default() });
        }
        for (values, metric) in columns.zip(METRICS) {
            let present = values.present.unwrap_or_default();
            let mut numbers = longs(values.numbers).into_iter();
            for (row, level) in rows[begin..].iter_mut().zip(present) {
                let number = if level == 0 { None } else { numbers.next() };
                let unsigned = metric.width != Width::I32 && metric.width != Width::U64;
                *(metric.at)(row) = number.map(|n| if unsigned { n & 0xffff_ffff } else { n });
            }
        }
    }
    Ok(rows)
}

fn longs(numbers: Numbers) -> Vec<i64> {
    match numbers {
        Numbers::Long(numbers) => numbers,
        Numbers::Short(numbers) => numbers.into_iter().map(i64::from).collect(),
    }
}
