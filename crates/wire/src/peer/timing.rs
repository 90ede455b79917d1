//! Measurements of message delays that machines exchange.

use crate::bytes::{Reader, put_count, put_u16, put_u32, put_u64};
use adt::Corrupt;
use engine::limits::MACHINES_MAX;
use engine::node::Timing;
use probe::watch::{AppendRow, Figures, Row, Wish};

const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const FIGURES: u8 = 3;
const WISH: u8 = 4;
const APPENDS: u8 = 5;

/// Four numbers of 16 bits, four of 32, a flag.
const ROW_BYTES: usize = 4 * 2 + 4 * 4 + 1;
/// Three numbers of 16 bits, two of 32.
const APPEND_ROW_BYTES: usize = 3 * 2 + 2 * 4;

pub(super) fn put_timing(timing: &Timing, out: &mut Vec<u8>) {
    match timing {
        Timing::Question { number, sent_us } => {
            out.push(QUESTION);
            put_u32(*number, out);
            put_u64(*sent_us, out);
        }
        Timing::Answer { number, sent_us, service_us } => {
            out.push(ANSWER);
            put_u32(*number, out);
            put_u64(*sent_us, out);
            put_u32(*service_us, out);
        }
        Timing::Figures(figures) => {
            out.push(FIGURES);
            put_u32(figures.number, out);
            put_u32(figures.up_s, out);
            put_u32(figures.late_us, out);
            put_count(figures.rows.len(), out);
            figures.rows.iter().for_each(|row| put_row(row, out));
        }
        Timing::Wish(Wish { used_us, proposed_us, applies, settled }) => {
            out.push(WISH);
            put_u32(*used_us, out);
            put_u32(*proposed_us, out);
            out.extend([applies, settled].map(|flag| u8::from(*flag)));
        }
        Timing::Appends(rows) => {
            out.push(APPENDS);
            put_count(rows.len(), out);
            for row in rows {
                [row.machine, row.count, row.lost].iter().for_each(|n| put_u16(*n, out));
                [row.p90_us, row.near_us].iter().for_each(|us| put_u32(*us, out));
            }
        }
    }
}

pub(super) fn read_timing(reader: &mut Reader<'_>) -> Result<Timing, Corrupt> {
    Ok(match reader.u8()? {
        QUESTION => Timing::Question { number: reader.u32()?, sent_us: reader.u64()? },
        ANSWER => Timing::Answer {
            number: reader.u32()?,
            sent_us: reader.u64()?,
            service_us: reader.u32()?,
        },
        FIGURES => {
            let (number, up_s, late_us) = (reader.u32()?, reader.u32()?, reader.u32()?);
            let rows = read_rows(reader, ROW_BYTES, read_row)?;
            Timing::Figures(Figures { number, up_s, late_us, rows })
        }
        WISH => Timing::Wish(Wish {
            used_us: reader.u32()?,
            proposed_us: reader.u32()?,
            applies: reader.flag()?,
            settled: reader.flag()?,
        }),
        APPENDS => Timing::Appends(read_rows(reader, APPEND_ROW_BYTES, read_append_row)?),
        _ => return Err(Corrupt),
    })
}

/// Reads rows about other machines: at most one for each.
fn read_rows<T>(
    reader: &mut Reader<'_>,
    row_bytes: usize,
    read: impl Fn(&mut Reader<'_>) -> Result<T, Corrupt>,
) -> Result<Vec<T>, Corrupt> {
    let count = reader.count(row_bytes)?;
    if count > MACHINES_MAX {
        return Err(Corrupt);
    }
    (0..count).map(|_| read(reader)).collect()
}

fn read_append_row(reader: &mut Reader<'_>) -> Result<AppendRow, Corrupt> {
    Ok(AppendRow {
        machine: reader.u16()?,
        count: reader.u16()?,
        lost: reader.u16()?,
        p90_us: reader.u32()?,
        near_us: reader.u32()?,
    })
}

fn put_row(row: &Row, out: &mut Vec<u8>) {
    [row.machine, row.count, row.lost, row.silent_s].iter().for_each(|n| put_u16(*n, out));
    let times_us = [row.p50_us, row.p90_us, row.near_us, row.service_us];
    times_us.iter().for_each(|us| put_u32(*us, out));
    out.push(u8::from(row.settled));
}

fn read_row(reader: &mut Reader<'_>) -> Result<Row, Corrupt> {
    Ok(Row {
        machine: reader.u16()?,
        count: reader.u16()?,
        lost: reader.u16()?,
        silent_s: reader.u16()?,
        p50_us: reader.u32()?,
        p90_us: reader.u32()?,
        near_us: reader.u32()?,
        service_us: reader.u32()?,
        settled: reader.flag()?,
    })
}
