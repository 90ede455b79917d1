//! The table `rpc`: calls of one caller in one epoch, column by column, in the order of time.

use super::columns::{Column, Form, Numbers, Opened, Values};
use crate::error::Error;
use probe::{Sample, Status, Workload};

/// Marker of an absent optional number of 32 bits.
pub const NONE: u32 = u32::MAX;
/// Marker of an absent optional signed number.
pub const NO_OFFSET: i32 = i32::MIN;

/// Calls, column by column. Columns that were not read are empty.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Calls {
    /// `epoch`.
    pub epoch: Vec<i32>,
    /// `group`.
    pub group: Vec<i32>,
    /// `gsize`.
    pub group_size: Vec<i32>,
    /// `wl`.
    pub workload: Vec<i32>,
    /// `src`.
    pub src: Vec<i32>,
    /// `dst`.
    pub dst: Vec<i32>,
    /// `seq`, without a sign.
    pub round: Vec<i32>,
    /// `t_sched`.
    pub t_sched_ns: Vec<i64>,
    /// `lag`, without a sign.
    pub lag_ns: Vec<i32>,
    /// `rtt`, or [`NONE`].
    pub rtt_100ns: Vec<u32>,
    /// `svc`, or [`NONE`].
    pub svc_100ns: Vec<u32>,
    /// `rx_off`, or [`NO_OFFSET`].
    pub rx_off_us: Vec<i32>,
    /// `status`.
    pub status: Vec<i32>,
    /// `inc`.
    pub incarnation: Vec<i32>,
}

/// Columns of the table, with their encodings.
pub fn columns() -> Vec<Column> {
    let column = |name: &str, bits, form| Column {
        name: name.into(),
        bits,
        signed: matches!(name, "t_sched" | "rx_off"),
        optional: matches!(name, "rtt" | "svc" | "rx_off"),
        form,
    };
    let columns = [
        column("epoch", 16, Form::Dictionary),
        column("group", 16, Form::Dictionary),
        column("gsize", 8, Form::Dictionary),
        column("wl", 8, Form::Dictionary),
        column("src", 16, Form::Dictionary),
        column("dst", 16, Form::Dictionary),
        column("seq", 32, Form::Delta),
        column("t_sched", 64, Form::Delta),
        column("lag", 32, Form::Split),
        column("rtt", 32, Form::Split),
        column("svc", 32, Form::Split),
        column("rx_off", 32, Form::Split),
        column("status", 8, Form::Dictionary),
        column("inc", 8, Form::Dictionary),
    ];
    columns.into()
}

fn short(values: Values) -> Option<(Vec<i32>, Option<Vec<i16>>)> {
    match values.numbers {
        Numbers::Short(numbers) => Some((numbers, values.present)),
        Numbers::Long(_) => None,
    }
}

/// Appends numbers to others. Into an empty list they are moved: a day usually has one row group,
/// and need not be copied.
fn put<T>(to: &mut Vec<T>, mut numbers: Vec<T>) {
    if to.is_empty() { *to = numbers } else { to.append(&mut numbers) }
}

/// Inserts `none` where there is no number.
fn spread<T: Copy>(numbers: Vec<T>, present: Option<Vec<i16>>, none: T) -> Vec<T> {
    // As many as rows: none is missing.
    let Some(present) = present.filter(|present| present.len() > numbers.len()) else {
        return numbers;
    };
    let mut numbers = numbers.into_iter();
    let values =
        present.iter().map(|level| if *level == 0 { none } else { numbers.next().unwrap_or(none) });
    values.collect()
}

fn pack(values: &[i32], none: i32) -> Values {
    let present: Vec<i16> = values.iter().map(|value| i16::from(*value != none)).collect();
    let numbers = values.iter().copied().filter(|value| *value != none).collect();
    Values { numbers: Numbers::Short(numbers), present: Some(present) }
}

impl Calls {
    /// Number of rows.
    pub fn len(&self) -> usize {
        self.t_sched_ns.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.t_sched_ns.is_empty()
    }

    /// Adds a row. A saturated round trip or service time counts as absent: no call is waited for
    /// that long.
    pub fn push(&mut self, sample: &Sample) {
        self.epoch.push(sample.epoch.into());
        self.group.push(sample.group.into());
        self.group_size.push(sample.group_size.into());
        self.workload.push(sample.workload.code().into());
        self.src.push(sample.src.into());
        self.dst.push(sample.dst.into());
        self.round.push(sample.round.cast_signed());
        self.t_sched_ns.push(sample.t_sched_ns);
        self.lag_ns.push(sample.lag_ns.cast_signed());
        self.rtt_100ns.push(sample.rtt_100ns.unwrap_or(NONE));
        self.svc_100ns.push(sample.svc_100ns.unwrap_or(NONE));
        self.rx_off_us.push(sample.rx_off_us.unwrap_or(NO_OFFSET));
        self.status.push(sample.status.code().into());
        self.incarnation.push(sample.incarnation.into());
    }

    /// Row at a position, if all columns were read; `None` if it has unknown codes.
    pub fn get(&self, at: usize) -> Option<Sample> {
        let workload = u8::try_from(*self.workload.get(at)?).ok().and_then(Workload::from_code)?;
        let status = u8::try_from(*self.status.get(at)?).ok().and_then(Status::from_code)?;
        let rtt_100ns = *self.rtt_100ns.get(at)?;
        let svc_100ns = *self.svc_100ns.get(at)?;
        let rx_off_us = *self.rx_off_us.get(at)?;
        Some(Sample {
            epoch: u16::try_from(*self.epoch.get(at)?).ok()?,
            group: u16::try_from(*self.group.get(at)?).ok()?,
            group_size: u8::try_from(*self.group_size.get(at)?).ok()?,
            workload,
            src: u16::try_from(*self.src.get(at)?).ok()?,
            dst: u16::try_from(*self.dst.get(at)?).ok()?,
            round: self.round.get(at)?.cast_unsigned(),
            t_sched_ns: *self.t_sched_ns.get(at)?,
            lag_ns: self.lag_ns.get(at)?.cast_unsigned(),
            rtt_100ns: (rtt_100ns != NONE).then_some(rtt_100ns),
            svc_100ns: (svc_100ns != NONE).then_some(svc_100ns),
            rx_off_us: (rx_off_us != NO_OFFSET).then_some(rx_off_us),
            status,
            incarnation: u8::try_from(*self.incarnation.get(at)?).ok()?,
        })
    }

    /// Latency of a row in an open loop, in nanoseconds, if it had a reply.
    pub fn latency_ns(&self, at: usize) -> Option<u64> {
        let replied = matches!(self.status[at], 0 | 3 | 6);
        let rtt_100ns = self.rtt_100ns[at];
        let latency = u64::from(self.lag_ns[at].cast_unsigned()) + u64::from(rtt_100ns) * 100;
        (replied && rtt_100ns != NONE).then_some(latency)
    }

    /// Copies a row from other calls.
    pub fn push_row(&mut self, other: &Self, at: usize) {
        self.epoch.push(other.epoch[at]);
        self.group.push(other.group[at]);
        self.group_size.push(other.group_size[at]);
        self.workload.push(other.workload[at]);
        self.src.push(other.src[at]);
        self.dst.push(other.dst[at]);
        self.round.push(other.round[at]);
        self.t_sched_ns.push(other.t_sched_ns[at]);
        self.lag_ns.push(other.lag_ns[at]);
        self.rtt_100ns.push(other.rtt_100ns[at]);
        self.svc_100ns.push(other.svc_100ns[at]);
        self.rx_off_us.push(other.rx_off_us[at]);
        self.status.push(other.status[at]);
        self.incarnation.push(other.incarnation[at]);
    }

    /// Moves all rows from other calls.
    pub fn append(&mut self, other: &mut Self) {
        let Self { epoch, group, group_size, workload, src, dst, round, .. } = other;
        self.epoch.append(epoch);
        self.group.append(group);
        self.group_size.append(group_size);
        self.workload.append(workload);
        self.src.append(src);
        self.dst.append(dst);
        self.round.append(round);
        self.t_sched_ns.append(&mut other.t_sched_ns);
        self.lag_ns.append(&mut other.lag_ns);
        self.rtt_100ns.append(&mut other.rtt_100ns);
        self.svc_100ns.append(&mut other.svc_100ns);
        self.rx_off_us.append(&mut other.rx_off_us);
        self.status.append(&mut other.status);
        self.incarnation.append(&mut other.incarnation);
    }

    /// Columns in the order of the table.
    pub fn values(&self) -> Vec<Values> {
        let plain =
            |numbers: &Vec<i32>| Values { numbers: Numbers::Short(numbers.clone()), present: None };
        let unsigned = |numbers: &[u32]| {
            let signed: Vec<i32> = numbers.iter().map(|number| number.cast_signed()).collect();
            pack(&signed, NONE.cast_signed())
        };
        vec![
            plain(&self.epoch),
            plain(&self.group),
            plain(&self.group_size),
            plain(&self.workload),
            plain(&self.src),
            plain(&self.dst),
            plain(&self.round),
            Values { numbers: Numbers::Long(self.t_sched_ns.clone()), present: None },
            plain(&self.lag_ns),
            unsigned(&self.rtt_100ns),
            unsigned(&self.svc_100ns),
            pack(&self.rx_off_us, NO_OFFSET),
            plain(&self.status),
            plain(&self.incarnation),
        ]
    }

    /// Reads some columns of one row group and appends its rows.
    pub fn read(&mut self, file: &Opened, group: usize, names: &[&str]) -> Result<(), Error> {
        for (name, values) in names.iter().zip(file.read(group, names)?) {
            if *name == "t_sched" {
                if let Numbers::Long(numbers) = values.numbers {
                    put(&mut self.t_sched_ns, numbers);
                }
                continue;
            }
            let Some((numbers, present)) = short(values) else { continue };
            let unsigned = |numbers: Vec<i32>, present| {
                let numbers = numbers.into_iter().map(i32::cast_unsigned).collect();
                spread(numbers, present, NONE)
            };
            match *name {
                "epoch" => put(&mut self.epoch, numbers),
                "group" => put(&mut self.group, numbers),
                "gsize" => put(&mut self.group_size, numbers),
                "wl" => put(&mut self.workload, numbers),
                "src" => put(&mut self.src, numbers),
                "dst" => put(&mut self.dst, numbers),
                "seq" => put(&mut self.round, numbers),
                "lag" => put(&mut self.lag_ns, numbers),
                "rtt" => put(&mut self.rtt_100ns, unsigned(numbers, present)),
                "svc" => put(&mut self.svc_100ns, unsigned(numbers, present)),
                "rx_off" => put(&mut self.rx_off_us, spread(numbers, present, NO_OFFSET)),
                "status" => put(&mut self.status, numbers),
                "inc" => put(&mut self.incarnation, numbers),
                _ => {}
            }
        }
        Ok(())
    }
}
