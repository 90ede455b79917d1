//! Operations as words: those of the commands, or of forms for the log (see [`table::INTERNAL`]).
//!
//! [`table::INTERNAL`]: super::table::INTERNAL

use super::{After, Bound, Claim, Delivered, Id, NewId, Op, Trim};
use crate::ArgBuf;

fn number(out: &mut ArgBuf, number: u64) {
    out.push(number.to_string());
}

fn id(out: &mut ArgBuf, id: Id) {
    out.push(id.to_string());
}

fn trim(out: &mut ArgBuf, trim: Trim) {
    let sign = if trim.roughly { "~" } else { "=" };
    match trim.to {
        Bound::Len(len) => number(out.push("maxlen").push(sign), len),
        Bound::From(from) => id(out.push("minid").push(sign), from),
    }
    if trim.roughly {
        number(out.push("limit"), trim.limit);
    }
}

fn claim(out: &mut ArgBuf, how: &Claim) {
    match how.at {
        Delivered::Now => {}
        Delivered::Ago(ms) => number(out.push("idle"), ms),
        Delivered::At(ms) => number(out.push("time"), ms),
    }
    if let Some(count) = how.count {
        number(out.push("retrycount"), count);
    }
    if how.force {
        out.push("force");
    }
    if how.just_id {
        out.push("justid");
    }
    if let Some(last) = how.last {
        id(out.push("lastid"), last);
    }
}

/// The name, with the subcommand, and the key.
fn head(op: &Op, key: &[u8], out: &mut ArgBuf) {
    let name = match op {
        Op::Add { .. } => "xadd",
        Op::Next => "stream.next",
        Op::Last => "stream.last",
        Op::Len => "xlen",
        Op::Range { back: false, .. } => "xrange",
        Op::Range { back: true, .. } => "xrevrange",
        Op::Read { .. } => "stream.read",
        Op::Delete(_) => "xdel",
        Op::Trim(_) => "xtrim",
        Op::SetId { .. } => "xsetid",
        Op::CreateGroup { .. } => "xgroup create",
        Op::MoveGroup { .. } => "stream.group setid",
        Op::DestroyGroup(_) => "xgroup destroy",
        Op::CreateConsumer(..) => "stream.group createconsumer",
        Op::DeleteConsumer(..) => "stream.group delconsumer",
        Op::ReadGroup { .. } => "stream.deliver",
        Op::PeekGroup { .. } => "stream.peek",
        Op::Ack(..) => "xack",
        Op::Pending(_) | Op::ListPending { .. } => "stream.pending",
        Op::Claim { .. } => "stream.claim",
        Op::AutoClaim { .. } => "stream.autoclaim",
        Op::Info | Op::InfoFull(_) => "xinfo stream",
        Op::InfoGroups => "xinfo groups",
        Op::InfoConsumers(_) => "stream.info consumers",
    };
    name.split(' ').for_each(|word| _ = out.push(word));
    out.push(key);
}

fn place(out: &mut ArgBuf, after: Option<Id>, count: Option<u64>) {
    match after {
        Some(after) => id(out, after),
        None => _ = out.push(">"),
    }
    number(out, count.unwrap_or(0));
}

pub(super) fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
    head(op, key, out);
    match op {
        Op::Add { id: new, creates, trim: to, fields } => {
            if !creates {
                out.push("nomkstream");
            }
            to.iter().for_each(|to| trim(out, *to));
            match new {
                NewId::Auto => _ = out.push("*"),
                NewId::Milli(ms) => _ = out.push(format!("{ms}-*")),
                NewId::Exact(exact) => id(out, *exact),
            }
            fields.iter().for_each(|field| _ = out.push(field));
        }
        Op::Next | Op::Last | Op::Len | Op::Info | Op::InfoGroups => {}
        Op::Range { from, to, count, back } => {
            let (one, two) = if *back { (to, from) } else { (from, to) };
            id(out, *one);
            id(out, *two);
            if let Some(count) = count {
                number(out.push("count"), *count);
            }
        }
        Op::Read { after, count } => {
            match after {
                After::Id(after) => id(out, *after),
                After::End => _ = out.push("$"),
                After::Last => _ = out.push("+"),
            }
            number(out, count.unwrap_or(0));
        }
        Op::Delete(ids) => ids.iter().for_each(|one| id(out, *one)),
        Op::Trim(to) => trim(out, *to),
        Op::SetId { id: last, added, deleted } => {
            id(out, *last);
            if let Some(added) = added {
                number(out.push("entriesadded"), *added);
            }
            if let Some(deleted) = deleted {
                id(out.push("maxdeletedid"), *deleted);
            }
        }
        Op::CreateGroup { group, id: begin, read, .. }
        | Op::MoveGroup { group, id: begin, read } => {
            out.push(group);
            match begin {
                Some(begin) => id(out, *begin),
                None => _ = out.push("$"),
            }
            if matches!(op, Op::CreateGroup { creates: true, .. }) {
                out.push("mkstream");
            }
            if let Some(read) = read {
                number(out.push("entriesread"), *read);
            }
        }
        Op::DestroyGroup(group) | Op::Pending(group) | Op::InfoConsumers(group) => {
            out.push(group);
        }
        Op::CreateConsumer(group, consumer) | Op::DeleteConsumer(group, consumer) => {
            out.push(group).push(consumer);
        }
        Op::ReadGroup { group, consumer, after, count, no_ack } => {
            place(out.push(group).push(consumer), *after, *count);
            if *no_ack {
                out.push("noack");
            }
        }
        Op::PeekGroup { group, consumer, after, count } => {
            place(out.push(group).push(consumer), *after, *count);
        }
        Op::Ack(group, ids) => {
            out.push(group);
            ids.iter().for_each(|one| id(out, *one));
        }
        Op::ListPending { group, idle_ms, from, to, count, consumer } => {
            number(out.push(group).push("idle"), *idle_ms);
            id(out, *from);
            id(out, *to);
            number(out, *count);
            if let Some(consumer) = consumer {
                out.push(consumer);
            }
        }
        Op::Claim { group, consumer, ids, how } => {
            number(out.push(group).push(consumer), how.min_idle_ms);
            ids.iter().for_each(|one| id(out, *one));
            claim(out, how);
        }
        Op::AutoClaim { group, consumer, min_idle_ms, from, count, just_id } => {
            number(out.push(group).push(consumer), *min_idle_ms);
            id(out, *from);
            number(out.push("count"), *count);
            if *just_id {
                out.push("justid");
            }
        }
        Op::InfoFull(count) => number(out.push("full").push("count"), *count),
    }
}
