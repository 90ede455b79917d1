//! Commands about all keys: of all shards at once, outside of transactions and inside of them.
//!
//! Between `MULTI` and `EXEC` they are operations of the transaction, one for each shard
//! ([`adt::Whole`]); outside they are questions that every shard answers when it can.

use super::inquiry::{Combine, Inquiry};
use super::scan::Page;
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::clients::session_commands;
use crate::gateway::core::Core;
use crate::gateway::txn::work::ProgramStep;
use crate::limits::SLOTS;
use crate::message::Body;
use crate::script::keys::whole_key;
use adt::command::database;
use adt::key::KeyOp;
use adt::{Args, Blob, CommandSpec, ErrorReply, Merge, Op, Reply, Whole};
use std::sync::Arc;

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

/// Commands that look at all keys of a database, or remove all keys, outside of transactions.
pub(in crate::gateway) fn command(
    core: &Core,
    (spec, database): (&CommandSpec, u8),
    args: &Args<'_>,
) -> CommandEffect {
    let everywhere =
        |combine, body: &dyn Fn() -> Body| Inquiry::of_all_shards(core, combine, body).into();
    match spec.name {
        "dbsize" => everywhere(Combine::Sum, &|| Body::Count { database }),
        "keys" => {
            let pattern = Blob::from(args.get(1).unwrap_or_default());
            let keys = || Body::Keys { database, pattern: pattern.clone() };
            everywhere(Combine::Concat, &keys)
        }
        "randomkey" => everywhere(Combine::Any, &|| Body::RandomKey { database }),
        "flushall" | "flushdb" => match check_flush(args) {
            Ok(()) => {
                let database = (spec.name == "flushdb").then_some(database);
                everywhere(Combine::Ok, &|| Body::Flush { database })
            }
            Err(error) => error.into(),
        },
        "scan" => {
            let shards = core.mail.routes.shards();
            match Page::parse(database, args, shards) {
                Ok(page) => Inquiry::of_page(page, shards).into(),
                Err(error) => error.into(),
            }
        }
        name => ErrorReply::err(format!("the command '{name}' has no implementation")).into(),
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
        let key = whole_key(number);
        let shard = usize::from(core.mail.shard_of(&key).0);
        if let Some(place @ None) = keys.get_mut(shard) {
            *place = Some(key);
            missing -= 1;
        }
    }
    keys.into_iter().map(Option::unwrap_or_default).collect()
}

pub(in crate::gateway) fn of_all_keys(
    core: &Core,
    op: impl Fn(usize) -> Option<Whole>,
    merge: Merge,
) -> ProgramStep {
    let keys = key_of_each_shard(core).into_iter().enumerate();
    let ops =
        keys.filter_map(|(shard, key)| Some((key, Op::Key(KeyOp::Whole(Box::new(op(shard)?))))));
    ProgramStep::Ops(ops.collect(), Some(merge))
}

/// The database that a queued command selects, if it selects one.
pub(in crate::gateway) fn selected(step: &ProgramStep) -> Option<u8> {
    let ProgramStep::Later(words) = step else { return None };
    let args = words.args();
    (args.is(0, "SELECT")).then(|| database::number(&args, 1).ok())?
}

/// A queued command about all keys, or all of a database, as operations of its transaction; anything else
/// as it is.
pub(in crate::gateway) fn with_all_keys(
    core: &mut Core,
    database: u8,
    step: ProgramStep,
) -> ProgramStep {
    let ProgramStep::Later(words) = &step else { return step };
    let args = words.args();
    let name = args.get(0).unwrap_or_default();
    match session_commands::lookup(name).map_or("", |spec| spec.name) {
        "dbsize" => of_all_keys(core, |_| Some(Whole::Count(database)), Merge::Sum),
        "keys" => {
            let pattern = Blob::from(args.get(1).unwrap_or_default());
            let names = |_| Some(Whole::Names(database, pattern.clone()));
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
            of_all_keys(core, |_| Some(Whole::Any(database)), Merge::With(Arc::new(any)))
        }
        command @ ("flushall" | "flushdb") => match check_flush(&args) {
            Ok(()) => {
                let which = (command == "flushdb").then_some(database);
                of_all_keys(core, |_| Some(Whole::Flush(which)), Merge::Ok)
            }
            Err(error) => ProgramStep::Fixed(error.into()),
        },
        "scan" => match Page::parse(database, &args, core.mail.routes.shards()) {
            Ok(page) => page_of_all_keys(core, page),
            Err(error) => ProgramStep::Fixed(error.into()),
        },
        _ => step,
    }
}

fn page_of_all_keys(core: &Core, page: Page) -> ProgramStep {
    let shards = core.mail.routes.shards();
    let asks: Vec<_> = page.asks(shards, shards).collect();
    let (database, type_name) = (page.database, page.type_name.clone());
    let op = |shard: usize| {
        let (_, scan) = asks.iter().find(|(asked, _)| usize::from(asked.0) == shard)?;
        Some(Whole::Page(database, scan.clone(), type_name.clone()))
    };
    let merge = move |replies: Vec<Reply>| {
        let mut page = page.clone();
        page.take(replies.into_iter());
        page.reply(shards)
    };
    of_all_keys(core, op, Merge::With(Arc::new(merge)))
}
