//! Operations about all keys: `FLUSHALL`, `DBSIZE` and their kin.

use super::records::Records;
use crate::shard::ahead::AheadOfLog;
use adt::command::database::name_in;
use adt::command::glob;
use adt::command::scan::ScanArgs;
use adt::{Blob, Ctx, Reply, Whole};

impl Records {
    /// Carries out what is about all keys.
    pub(in crate::shard) fn about_all(
        &mut self,
        whole: &Whole,
        ctx: &Ctx,
        ahead: &mut AheadOfLog,
    ) -> Reply {
        match whole {
            Whole::Flush(database) => {
                self.flush(*database, ctx.ts, ahead);
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
            Whole::Flush(_) | Whole::ForgetScripts => Reply::Ok,
            Whole::Count(database) => Reply::Int(self.visible_in(*database) as i64),
            Whole::Names(database, pattern) => self.names(*database, pattern, ctx.now_ms),
            Whole::Any(database) => self.any(*database, ctx.seed),
            Whole::Page(database, scan, type_name) => {
                self.page(*database, scan, type_name.as_ref(), ctx.now_ms)
            }
        }
    }

    /// Name of the key of a database that a random number chooses.
    pub(in crate::shard) fn any(&self, database: u8, random: u64) -> Reply {
        if self.visible_in(database) == 0 {
            return Reply::Nil;
        }
        let len = self.len();
        let first = (random % len.max(1) as u64) as usize;
        let keys = (first..len).chain(0..first).filter_map(|at| self.at(at)).map(|(key, _)| key);
        let name = keys.filter_map(|key| name_in(database, key)).next();
        name.map_or(Reply::Nil, Reply::bulk)
    }

    /// Names of the keys of a database that match a pattern.
    pub(in crate::shard) fn names(&self, database: u8, pattern: &[u8], now_ms: u64) -> Reply {
        if self.visible_in(database) == 0 {
            return Reply::Array(Vec::new());
        }
        let live = self.iter().filter(|(_, record)| record.is_live(now_ms));
        let names = live.filter_map(|(key, _)| name_in(database, key));
        Reply::Array(names.filter(|name| glob::matches(pattern, name)).map(Reply::bulk).collect())
    }

    /// One step of an iteration over the keys of a database, over those of a type if one is named: where
    /// the next one begins, what was found, and how many keys were looked at.
    pub(in crate::shard) fn page(
        &self,
        database: u8,
        scan: &ScanArgs,
        type_name: Option<&Blob>,
        now_ms: u64,
    ) -> Reply {
        // Nobody goes from page to page through the records of others.
        let len = if self.visible_in(database) == 0 { 0 } else { self.len() };
        let begin = if scan.cursor == 0 { u64::MAX } else { scan.cursor };
        let seen = begin.min(len as u64).min(scan.count);
        let mut reply = scan.run(len, |position, found| {
            let Some((key, record)) = self.at(position) else { return };
            let Some(name) = name_in(database, key) else { return };
            let type_of = record.value.shown_type().as_bytes();
            let of_type = type_name.is_none_or(|wanted| wanted.eq_ignore_ascii_case(type_of));
            if record.is_live(now_ms) && of_type && scan.passes(name) {
                found.push(Reply::bulk(name));
            }
        });
        if let Reply::Array(parts) = &mut reply {
            parts.push(Reply::Int(seen as i64));
        }
        reply
    }
}
