//! Operations as words: those of the commands, or of forms for the log (see [`table::INTERNAL`]).
//!
//! [`table::INTERNAL`]: super::table::INTERNAL

use super::{
    After, Bound, Claim, Delivered, Failure, Id, NewId, Once, References, Release, Task, Trim,
};
use crate::ArgBuf;

fn number(out: &mut ArgBuf, number: u64) {
    out.push(number.to_string());
}

fn id(out: &mut ArgBuf, id: Id) {
    out.push(id.blob());
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
    if trim.references != References::Keep {
        out.push(word(trim.references));
    }
}

fn word(references: References) -> &'static str {
    match references {
        References::Keep => "keepref",
        References::Delete => "delref",
        References::Acknowledged => "acked",
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

fn release(out: &mut ArgBuf, ids: &[Id], how: &Release) {
    out.push(match how.failure {
        Failure::Silent => "silent",
        Failure::Fail => "fail",
        Failure::Fatal => "fatal",
    });
    number(out.push("ids"), ids.len() as u64);
    ids.iter().for_each(|one| id(out, *one));
    if let Some(count) = how.count {
        number(out.push("retrycount"), count);
    }
    if how.force {
        out.push("force");
    }
}

fn once(out: &mut ArgBuf, once: &Once) {
    out.push(&once.producer).push(&once.name);
}

/// The name, with the subcommand, and the key.
fn head(op: &Task, key: &[u8], out: &mut ArgBuf) {
    let name = match op {
        Task::Add { once: Some(_), id: NewId::Milli(_) | NewId::Exact(_), .. } => "stream.add",
        Task::Add { .. } => "xadd",
        Task::Original(_) => "stream.original",
        Task::Repeated => "stream.repeated",
        Task::Configure { .. } => "xcfgset",
        Task::Next => "stream.next",
        Task::Last => "stream.last",
        Task::Len => "xlen",
        Task::Range { back: false, .. } => "xrange",
        Task::Range { back: true, .. } => "xrevrange",
        Task::Read { .. } => "stream.read",
        Task::Delete(_) => "xdel",
        Task::Forget { group: None, .. } => "xdelex",
        Task::Forget { group: Some(_), .. } => "xackdel",
        Task::Trim(_) => "xtrim",
        Task::SetId { .. } => "xsetid",
        Task::CreateGroup { .. } => "xgroup create",
        Task::MoveGroup { .. } => "stream.group setid",
        Task::DestroyGroup(_) => "xgroup destroy",
        Task::CreateConsumer(..) => "stream.group createconsumer",
        Task::DeleteConsumer(..) => "stream.group delconsumer",
        Task::ReadGroup { .. } => "stream.deliver",
        Task::PeekGroup { .. } => "stream.peek",
        Task::Due { .. } => "stream.due",
        Task::HandOut { .. } => "stream.handout",
        Task::Ack(..) => "xack",
        Task::Pending(_) | Task::ListPending { .. } => "stream.pending",
        Task::Claim { .. } => "stream.claim",
        Task::Release { .. } => "stream.release",
        Task::AutoClaim { .. } => "stream.autoclaim",
        Task::Info | Task::InfoFull(_) => "xinfo stream",
        Task::InfoGroups => "xinfo groups",
        Task::InfoConsumers(_) => "stream.info consumers",
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

pub(super) fn encode(op: &Task, key: &[u8], out: &mut ArgBuf) {
    head(op, key, out);
    match op {
        Task::Add { id: new, creates, trim: to, once: under, fields } => {
            if !creates {
                out.push("nomkstream");
            }
            under.iter().for_each(|under| once(out.push("idmp"), under));
            to.iter().for_each(|to| trim(out, *to));
            match new {
                NewId::Auto => _ = out.push("*"),
                NewId::Milli(ms) => _ = out.push(format!("{ms}-*")),
                NewId::Exact(exact) => id(out, *exact),
            }
            fields.iter().for_each(|field| _ = out.push(field));
        }
        Task::Original(under) => once(out, under),
        Task::Configure { remembered_s, most } => {
            if let Some(seconds) = remembered_s {
                number(out.push("idmp-duration"), *seconds);
            }
            if let Some(most) = most {
                number(out.push("idmp-maxsize"), *most);
            }
        }
        Task::Repeated | Task::Next | Task::Last | Task::Len | Task::Info | Task::InfoGroups => {}
        Task::Range { from, to, count, back } => {
            let (one, two) = if *back { (to, from) } else { (from, to) };
            id(out, *one);
            id(out, *two);
            if let Some(count) = count {
                number(out.push("count"), *count);
            }
        }
        Task::Read { after, count } => {
            match after {
                After::Id(after) => id(out, *after),
                After::End => _ = out.push("$"),
                After::Last => _ = out.push("+"),
            }
            number(out, count.unwrap_or(0));
        }
        Task::Delete(ids) => ids.iter().for_each(|one| id(out, *one)),
        Task::Forget { group, references, ids } => {
            group.iter().for_each(|group| _ = out.push(group));
            out.push(word(*references));
            number(out.push("ids"), ids.len() as u64);
            ids.iter().for_each(|one| id(out, *one));
        }
        Task::Trim(to) => trim(out, *to),
        Task::SetId { id: last, added, deleted } => {
            id(out, *last);
            if let Some(added) = added {
                number(out.push("entriesadded"), *added);
            }
            if let Some(deleted) = deleted {
                id(out.push("maxdeletedid"), *deleted);
            }
        }
        Task::CreateGroup { group, id: begin, read, .. }
        | Task::MoveGroup { group, id: begin, read } => {
            out.push(group);
            match begin {
                Some(begin) => id(out, *begin),
                None => _ = out.push("$"),
            }
            if matches!(op, Task::CreateGroup { creates: true, .. }) {
                out.push("mkstream");
            }
            if let Some(read) = read {
                number(out.push("entriesread"), *read);
            }
        }
        Task::DestroyGroup(group) | Task::Pending(group) | Task::InfoConsumers(group) => {
            out.push(group);
        }
        Task::CreateConsumer(group, consumer) | Task::DeleteConsumer(group, consumer) => {
            out.push(group).push(consumer);
        }
        Task::ReadGroup { group, consumer, after, count, no_ack, claim_ms } => {
            place(out.push(group).push(consumer), *after, *count);
            if *no_ack {
                out.push("noack");
            }
            if let Some(ms) = claim_ms {
                number(out.push("claim"), *ms);
            }
        }
        Task::Due { group, min_idle_ms, count } => {
            number(out.push(group), *min_idle_ms);
            number(out, count.unwrap_or(0));
        }
        Task::HandOut { group, consumer, pending, new, no_ack } => {
            out.push(group).push(consumer).push(if *no_ack { "noack" } else { "ack" });
            number(out, pending.len() as u64);
            pending.iter().chain(new).for_each(|one| id(out, *one));
        }
        Task::Release { group, ids, how } => {
            out.push(group);
            release(out, ids, how);
        }
        Task::PeekGroup { group, consumer, after, count } => {
            place(out.push(group).push(consumer), *after, *count);
        }
        Task::Ack(group, ids) => {
            out.push(group);
            ids.iter().for_each(|one| id(out, *one));
        }
        Task::ListPending { group, idle_ms, from, to, count, consumer } => {
            number(out.push(group).push("idle"), *idle_ms);
            id(out, *from);
            id(out, *to);
            number(out, *count);
            if let Some(consumer) = consumer {
                out.push(consumer);
            }
        }
        Task::Claim { group, consumer, ids, how } => {
            number(out.push(group).push(consumer), how.min_idle_ms);
            ids.iter().for_each(|one| id(out, *one));
            claim(out, how);
        }
        Task::AutoClaim { group, consumer, min_idle_ms, from, count, just_id } => {
            number(out.push(group).push(consumer), *min_idle_ms);
            id(out, *from);
            number(out.push("count"), *count);
            if *just_id {
                out.push("justid");
            }
        }
        Task::InfoFull(count) => number(out.push("full").push("count"), *count),
    }
}
