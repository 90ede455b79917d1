//! `SCAN`: pages over the keys of all shards.

use crate::ids::ShardId;
use crate::limits::SHARDS_MAX;
use adt::command::scan::ScanArgs;
use adt::{ArgBuf, Args, Blob, ErrorReply, Reply};

/// Page of `SCAN` that is being collected.
#[derive(Clone)]
pub(in crate::gateway) struct Page {
    /// Database of the keys.
    pub database: u8,
    /// The next shard, and its next step.
    shard: ShardId,
    scan: ScanArgs,
    pub type_name: Option<Blob>,
    found: Vec<Reply>,
    /// Number of keys that may still be examined.
    left: u64,
}

/// Parts of a shard's answer about its keys: the cursor of its next step (0: no more keys), the keys
/// found, and the number of keys examined.
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
    pub fn parse(database: u8, args: &Args<'_>, shards: u16) -> Result<Self, ErrorReply> {
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
        Ok(Self { database, shard, scan, type_name, found: Vec::new(), left })
    }

    /// Shards that are asked next, each with its step.
    pub fn asks(&self, shards: u16, most: u16) -> impl Iterator<Item = (ShardId, ScanArgs)> {
        let (first, scan) = (self.shard.0, self.scan.clone());
        let last = first.saturating_add(most).min(shards);
        (first..last).map(move |shard| {
            let cursor = if shard == first { scan.cursor } else { 0 };
            (ShardId(shard), ScanArgs { cursor, ..scan.clone() })
        })
    }

    /// Adds the keys that the next shards have found, in the order of the shards. Returns whether the
    /// page is full.
    pub fn take(&mut self, replies: impl Iterator<Item = Reply>) -> bool {
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

    /// Takes the answers of the shards that were asked, each with its shard's number at the end. Returns
    /// the reply, or itself if the next shards are to be asked.
    pub fn answered(mut self, shards: u16, mut replies: Vec<Reply>) -> Result<Reply, Box<Self>> {
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
        if full { Ok(self.reply(shards)) } else { Err(Box::new(self)) }
    }

    /// Reply with the cursor of the next page.
    pub fn reply(self, shards: u16) -> Reply {
        let cursor = match self.shard.0 < shards {
            true => self.scan.cursor * SHARDS_MAX as u64 + u64::from(self.shard.0),
            false => 0,
        };
        Reply::Array(vec![Reply::bulk(cursor.to_string()), Reply::Array(self.found)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(words: &[&str]) -> Result<Page, ErrorReply> {
        Page::parse(0, &ArgBuf::of(words).args(), 3)
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
