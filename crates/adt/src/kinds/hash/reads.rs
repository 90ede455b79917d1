//! Reads of hashes.

use super::deadlines::ttl;
use super::entries::Seen;
use super::{Fields, Op};
use crate::command::scan::ScanArgs;
use crate::random;
use crate::{Blob, Ctx, Reply};

fn pair((field, value): (Blob, Blob)) -> (Reply, Reply) {
    (Reply::Bulk(field), Reply::Bulk(value))
}

/// Answers a read.
pub(super) fn answer(seen: Seen<'_>, op: &Op, ctx: &Ctx) -> Reply {
    match op {
        Op::Get(field) => get(seen, field),
        Op::GetEach(fields) => get_each(seen, fields),
        Op::Contains(field) => Reply::Int(i64::from(seen.contains(field))),
        Op::ValueLen(field) => Reply::Int(seen.get(field).map_or(0, |v| v.len() as i64)),
        Op::Len => Reply::Int(seen.len() as i64),
        Op::All => Reply::Map(seen.each(pair)),
        Op::Fields => Reply::Array(seen.each(|(field, _)| Reply::Bulk(field))),
        Op::Values => Reply::Array(seen.each(|(_, value)| Reply::Bulk(value))),
        Op::Random(count) => any(seen, *count, ctx.seed),
        Op::Scan(scan, values) => page(seen, scan, *values),
        Op::Ttl(fields, form) => ttl(seen, fields, *form, ctx.now_ms),
        _ => Reply::err("a write cannot be answered without being applied"),
    }
}

fn get(seen: Seen<'_>, field: &Blob) -> Reply {
    seen.get(field).map_or(Reply::Nil, Reply::Bulk)
}

fn get_each(seen: Seen<'_>, fields: &Fields) -> Reply {
    Reply::Array(fields.iter().map(|field| get(seen, field)).collect())
}

fn any(seen: Seen<'_>, count: Option<(i64, bool)>, seed: u64) -> Reply {
    let taken = seen.taken();
    let len = taken.as_ref().map_or(seen.positions(), Vec::len);
    let at = |chosen: usize| {
        let position = taken.as_ref().map_or(Some(chosen), |taken| taken.get(chosen).copied());
        position.and_then(|position| seen.at_position(position))
    };
    let Some((count, values)) = count else {
        let chosen = random::choose(len, 1, seed);
        let field = chosen.first().and_then(|&chosen| at(chosen));
        return field.map_or(Reply::Nil, |(field, _)| Reply::Bulk(field));
    };
    let chosen = random::choose(len, count, seed).into_iter().filter_map(at);
    if values {
        Reply::Pairs(chosen.collect())
    } else {
        Reply::Array(chosen.map(|(field, _)| Reply::Bulk(field)).collect())
    }
}

fn page(seen: Seen<'_>, scan: &ScanArgs, values: bool) -> Reply {
    scan.run(seen.positions(), |position, found| {
        if let Some((field, value)) = seen.at_position(position)
            && scan.passes(&field)
        {
            found.push(Reply::Bulk(field));
            found.extend(values.then_some(Reply::Bulk(value)));
        }
    })
}
