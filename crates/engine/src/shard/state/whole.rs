//! Operations about all keys: `FLUSHALL`, `DBSIZE` and their kin.

use super::records::Records;
use crate::script::keys::is_reserved;
use crate::shard::ahead::AheadOfLog;
use adt::command::glob;
use adt::command::scan::ScanArgs;
use adt::{Blob, Ctx, Record, Reply, Whole};

impl Records {
    /// Carries out what is about all keys.
    pub(in crate::shard) fn about_all(
        &mut self,
        whole: &Whole,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
    ) -> Reply {
        match whole {
            Whole::Flush => {
                self.flush(ctx.ts, ahead);
                Reply::Ok
            }
            Whole::ForgetScripts => {
                self.forget_scripts(ctx.ts, ahead);
                Reply::Ok
            }
            look => self.look_at_all(look, ctx),
        }
    }

    /// Answers what only looks at all keys.
    pub(in crate::shard) fn look_at_all(&self, whole: &Whole, ctx: &Ctx) -> Reply {
        match whole {
            Whole::Flush | Whole::ForgetScripts => Reply::Ok,
            Whole::Count => Reply::Int(self.visible() as i64),
            Whole::Names(pattern) => self.names(pattern, ctx.now_ms),
            Whole::Any => self.any(ctx.seed),
            Whole::Page(scan, type_name) => self.page(scan, type_name.as_ref(), ctx.now_ms),
        }
    }

    /// The key that a random number chooses.
    pub(in crate::shard) fn any(&self, random: u64) -> Reply {
        let len = self.len();
        let first = (random % len.max(1) as u64) as usize;
        let mut visible =
            (first..len).chain(0..first).filter_map(|at| self.at(at)).map(|(key, _)| key);
        let key = visible.find(|key| !is_reserved(key));
        key.map_or(Reply::Nil, |key| Reply::Bulk(key.clone()))
    }

    /// The keys that match a pattern.
    pub(in crate::shard) fn names(&self, pattern: &[u8], now_ms: u64) -> Reply {
        let matching =
            self.iter().filter(|(key, r)| is_live(r, now_ms) && glob::matches(pattern, key));
        let matching = matching.filter(|(key, _)| !is_reserved(key));
        Reply::Array(matching.map(|(key, _)| Reply::Bulk(key.clone())).collect())
    }

    /// One step of an iteration over the keys, over those of a type if one is named: where the next one
    /// begins, what was found, and how many keys were looked at.
    pub(in crate::shard) fn page(
        &self,
        scan: &ScanArgs,
        type_name: Option<&Blob>,
        now_ms: u64,
    ) -> Reply {
        let begin = if scan.cursor == 0 { u64::MAX } else { scan.cursor };
        let seen = begin.min(self.len() as u64).min(scan.count);
        let mut reply = scan.run(self.len(), |position, found| {
            let Some((key, record)) = self.at(position) else { return };
            let name = record.value.type_name().as_bytes();
            let of_type = type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(name));
            if is_live(record, now_ms) && of_type && scan.passes(key) && !is_reserved(key) {
                found.push(Reply::Bulk(key.clone()));
            }
        });
        if let Reply::Array(parts) = &mut reply {
            parts.push(Reply::Int(seen as i64));
        }
        reply
    }
}

fn is_live(record: &Record, now_ms: u64) -> bool {
    record.expire_at_ms().is_none_or(|at| at > now_ms)
}
