//! Commands about all keys: of all shards at once, outside of transactions and inside of them.
//!
//! Between `MULTI` and `EXEC` they are operations of the transaction, one for each shard
//! ([`adt::Whole`]); outside they are questions that every shard answers when it can.

use super::gather::{Combine, Inquiry};
use crate::gateway::clients::effect::Effect;
use crate::gateway::clients::session_commands;
use crate::gateway::core::Core;
use crate::gateway::txn::work::Step;
use crate::ids::ShardId;
use crate::limits::{SCAN_SHARDS_AT_ONCE, SHARDS_MAX, SLOTS};
use crate::message::Body;
use adt::key::KeyOp;
use adt::scan::ScanArgs;
use adt::{ArgBuf, Args, Blob, CommandSpec, ErrorReply, Merge, Op, Reply, Whole};
use std::sync::Arc;

/// A page of `SCAN` that is being made.
#[derive(Clone)]
pub(in crate::gateway) struct Page {
    /// The next shard, and what is asked of it.
    shard: ShardId,
    scan: ScanArgs,
    type_name: Option<Blob>,
    found: Vec<Reply>,
    /// How many keys may still be looked at.
    left: u64,
}

/// Parts of a shard's answer about its keys: where its next step begins (0: it has no more), the keys
/// found, and how many keys it has looked at.
fn step(reply: Reply) -> Option<(u64, Vec<Reply>, u64)> {
    let Reply::Array(parts) = reply else { return None };
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(Reply::Bulk(cursor)), Some(Reply::Array(found)), Some(Reply::Int(seen))) => {
            let cursor = std::str::from_utf8(&cursor).ok()?.parse().ok()?;
            Some((cursor, found, seen.unsigned_abs()))
        }
        _ => None,
    }
}

impl Page {
    fn parse(args: &Args<'_>, shards: u16) -> Result<Self, ErrorReply> {
        let mut words = ArgBuf::new();
        let mut type_name = None;
        let mut i = 0;
        while i < args.len() {
            if i >= 2 && i % 2 == 0 && args.is(i, "TYPE") {
                type_name = Some(args.blob(i + 1)?);
                i += 2;
            } else {
                words.push(args.get(i).unwrap_or_default());
                i += 1;
            }
        }
        let scan = ScanArgs::parse(&words.args(), 1)?;
        let shard = ShardId((scan.cursor % SHARDS_MAX as u64) as u16);
        if shard.0 >= shards {
            return Err(ErrorReply::err("invalid cursor"));
        }
        let (left, cursor) = (scan.count, scan.cursor / SHARDS_MAX as u64);
        let scan = ScanArgs { cursor, ..scan };
        Ok(Self { shard, scan, type_name, found: Vec::new(), left })
    }

    /// The shards that are asked next, and what of each.
    fn asks(&self, shards: u16, most: u16) -> impl Iterator<Item = (ShardId, ScanArgs)> {
        let (first, scan) = (self.shard.0, self.scan.clone());
        let last = first.saturating_add(most).min(shards);
        (first..last).map(move |shard| {
            let cursor = if shard == first { scan.cursor } else { 0 };
            (ShardId(shard), ScanArgs { cursor, ..scan.clone() })
        })
    }

    /// Takes what the next shards have found, in their order. Tells whether the page is full.
    fn take(&mut self, replies: impl Iterator<Item = Reply>) -> bool {
        for (cursor, found, seen) in replies.filter_map(step) {
            self.found.extend(found);
            self.left = self.left.saturating_sub(seen);
            self.scan.cursor = cursor;
            if cursor == 0 {
                self.shard.0 += 1;
            }
            if cursor != 0 || self.left == 0 {
                return true;
            }
        }
        false
    }

    /// The question to the next shards: to several at once, since there may be nothing in any of them.
    fn inquiry(self, shards: u16) -> Inquiry {
        let body = |scan| Body::Scan { scan, type_name: self.type_name.clone() };
        let asks = self.asks(shards, SCAN_SHARDS_AT_ONCE).map(|(shard, scan)| (shard, body(scan)));
        let asks = asks.collect();
        Inquiry::of_shards(Combine::Scan(Box::new(self)), asks)
    }

    /// Takes the answers of the shards that were asked, each with its shard's number at the end. Gives
    /// the reply, or the question to the next shards.
    pub fn answered(mut self, shards: u16, mut replies: Vec<Reply>) -> Result<Reply, Box<Inquiry>> {
        let number = |reply: &Reply| match reply {
            Reply::Array(parts) => match parts.last() {
                Some(Reply::Int(shard)) => *shard,
                _ => 0,
            },
            _ => 0,
        };
        replies.sort_by_key(number);
        let nothing = replies.is_empty();
        let full = self.take(replies.into_iter()) || self.shard.0 >= shards || nothing;
        if full { Ok(self.reply(shards)) } else { Err(Box::new(self.inquiry(shards))) }
    }

    /// The reply, with the cursor of the next page.
    fn reply(self, shards: u16) -> Reply {
        let cursor = match self.shard.0 < shards {
            true => self.scan.cursor * SHARDS_MAX as u64 + u64::from(self.shard.0),
            false => 0,
        };
        Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(self.found)])
    }
}

pub(in crate::gateway) fn check_flush(args: &Args<'_>) -> Result<(), ErrorReply> {
    let known = args.len() == 1 || (args.len() == 2 && (args.is(1, "ASYNC") || args.is(1, "SYNC")));
    if known { Ok(()) } else { Err(ErrorReply::syntax()) }
}

/// All items of arrays in one.
fn concat(replies: Vec<Reply>) -> Reply {
    let items = replies.into_iter().flat_map(|reply| match reply {
        Reply::Array(items) => items,
        _ => Vec::new(),
    });
    Reply::Array(items.collect())
}

/// Commands that look at all keys, or remove them, outside of transactions.
pub(in crate::gateway) fn command(core: &Core, spec: &CommandSpec, args: &Args<'_>) -> Effect {
    let everywhere =
        |combine, body: &dyn Fn() -> Body| Inquiry::of_all_shards(core, combine, body).into();
    match spec.name {
        "dbsize" => everywhere(Combine::Sum, &|| Body::Count),
        "keys" => {
            let pattern = Blob::from(args.get(1).unwrap_or_default());
            everywhere(Combine::Concat, &|| Body::Keys { pattern: pattern.clone() })
        }
        "randomkey" => everywhere(Combine::Any, &|| Body::RandomKey),
        "flushall" | "flushdb" => match check_flush(args) {
            Ok(()) => everywhere(Combine::Ok, &|| Body::Flush),
            Err(error) => error.into(),
        },
        "scan" => {
            let shards = core.mail.routes.shards();
            match Page::parse(args, shards) {
                Ok(page) => page.inquiry(shards).into(),
                Err(error) => error.into(),
            }
        }
        name => {
            ErrorReply::err(format!("the command '{name}' has nobody who carries it out")).into()
        }
    }
}

/// A key of each shard, which stands for all its keys in operations.
fn key_of_each_shard(core: &Core) -> Vec<Blob> {
    let mut keys = vec![None; usize::from(core.mail.routes.shards())];
    let mut missing = keys.len();
    // Every slot comes up soon.
    for number in 0..u32::from(SLOTS) * 32 {
        if missing == 0 {
            break;
        }
        let key = Blob::from(number.to_string());
        let shard = usize::from(core.mail.shard_of(&key).0);
        if let Some(place @ None) = keys.get_mut(shard) {
            *place = Some(key);
            missing -= 1;
        }
    }
    keys.into_iter().map(Option::unwrap_or_default).collect()
}

fn of_all_keys(core: &Core, op: impl Fn(usize) -> Option<Whole>, merge: Merge) -> Step {
    let keys = key_of_each_shard(core).into_iter().enumerate();
    let ops =
        keys.filter_map(|(shard, key)| Some((key, Op::Key(KeyOp::Whole(Box::new(op(shard)?))))));
    Step::Ops(ops.collect(), Some(merge))
}

/// A queued command about all keys as operations of its transaction; anything else as it is.
pub(in crate::gateway) fn with_all_keys(core: &mut Core, step: Step) -> Step {
    let Step::Later(words) = &step else { return step };
    let args = words.args();
    let name = args.get(0).unwrap_or_default();
    match session_commands::lookup(name).map_or("", |spec| spec.name) {
        "dbsize" => of_all_keys(core, |_| Some(Whole::Count), Merge::Sum),
        "keys" => {
            let pattern = Blob::from(args.get(1).unwrap_or_default());
            let names = |_| Some(Whole::Names(pattern.clone()));
            of_all_keys(core, names, Merge::With(Arc::new(concat)))
        }
        "randomkey" => {
            let random = core.random();
            let any = move |replies: Vec<Reply>| {
                let mut found = replies;
                found.retain(|reply| *reply != Reply::Nil);
                let at = (random % found.len().max(1) as u64) as usize;
                found.into_iter().nth(at).unwrap_or(Reply::Nil)
            };
            of_all_keys(core, |_| Some(Whole::Any), Merge::With(Arc::new(any)))
        }
        "flushall" | "flushdb" => match check_flush(&args) {
            Ok(()) => of_all_keys(core, |_| Some(Whole::Flush), Merge::Ok),
            Err(error) => Step::Fixed(error.into()),
        },
        "scan" => match Page::parse(&args, core.mail.routes.shards()) {
            Ok(page) => page_of_all_keys(core, page),
            Err(error) => Step::Fixed(error.into()),
        },
        _ => step,
    }
}

fn page_of_all_keys(core: &Core, page: Page) -> Step {
    let shards = core.mail.routes.shards();
    let asks: Vec<_> = page.asks(shards, shards).collect();
    let type_name = page.type_name.clone();
    let op = |shard: usize| {
        let (_, scan) = asks.iter().find(|(asked, _)| usize::from(asked.0) == shard)?;
        Some(Whole::Page(scan.clone(), type_name.clone()))
    };
    let merge = move |replies: Vec<Reply>| {
        let mut page = page.clone();
        page.take(replies.into_iter());
        page.reply(shards)
    };
    of_all_keys(core, op, Merge::With(Arc::new(merge)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[&str]) -> Result<Page, ErrorReply> {
        Page::parse(&ArgBuf::of(words).args(), 3)
    }

    fn said(cursor: u64, found: &[&str], seen: i64) -> Reply {
        let found = found.iter().map(Reply::bulk).collect();
        Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(found), Reply::Int(seen)])
    }

    fn cursor(reply: &Reply) -> String {
        let Reply::Array(parts) = reply else { panic!("{reply:?}") };
        let Reply::Bulk(cursor) = &parts[0] else { panic!("{reply:?}") };
        String::from_utf8_lossy(cursor).into_owned()
    }

    #[test]
    fn a_page_passes_over_shards_without_keys() {
        let mut first = page(&["scan", "0"]).unwrap();
        assert!(!first.take([said(0, &[], 0), said(0, &[], 0), said(0, &["a"], 1)].into_iter()));
        assert_eq!(first.found.len(), 1);
        assert_eq!(cursor(&first.reply(3)), "0");
    }

    #[test]
    fn a_page_goes_on_where_the_one_before_it_has_ended() {
        let mut first = page(&["scan", "0", "COUNT", "2"]).unwrap();
        assert!(first.take([said(0, &["a", "b"], 2), said(5, &["c"], 2)].into_iter()));
        let next = cursor(&first.reply(3));
        let mut second = page(&["scan", &next, "COUNT", "2"]).unwrap();
        assert_eq!((second.shard, second.scan.cursor), (ShardId(1), 0));
        assert!(second.take([said(5, &["c", "d"], 2)].into_iter()));
        let next = cursor(&second.reply(3));
        let third = page(&["scan", &next]).unwrap();
        assert_eq!((third.shard, third.scan.cursor), (ShardId(1), 5));
        assert!(page(&["scan", "3"]).is_err(), "there is no such shard");
    }
}
