//! `SHARDMAP`: which machines are to hold which shards, which do, and which level they understand.

use super::inquiry::{Combine, Inquiry};
use crate::cluster::map::{MAP_KEY, ShardMap, list, name_of};
use crate::cluster::members::Members;
use crate::entry::Apply;
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::command_docs::unknown_subcommand;
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::ids::{MachineId, RequestId, ShardId};
use crate::message::Body;
use adt::kinds::string::{Expiry, Only, Op as StringOp, SetReply};
use adt::{Args, Blob, ErrorReply, Op, Reply};
use smallvec::smallvec;

/// The name under which maps are written: their epoch is the number, so that of all that have one
/// epoch only the first takes effect.
const WRITER: &[u8] = b"shard map";

/// Writes into the map that a split is done: a majority has what the new shard began with.
pub(in crate::gateway) fn split_done(core: &mut Core, child: ShardId) {
    if let Some(next) = core.topology.tell_split(child) {
        core.mail.ask(ShardId::MAP, Pending::SplitDone, set_map(&next));
    }
}

/// `SHARDMAP`: the map; `HOLDERS`, `LEADS`, `LEVELS`: the present state; `SET`: the next map.
pub(in crate::gateway) fn command(core: &Core, args: &Args<'_>) -> CommandEffect {
    let Some(map) = core.topology.map() else {
        let text = "there is no shard map: this server is alone, or has not heard from its \
                    cluster yet";
        return ErrorReply::err(text).into();
    };
    match args.len() {
        1 => Reply::Text(map.to_string()).into(),
        2 if args.is(1, "HOLDERS") => Reply::Text(holders(core, map)).into(),
        2 if args.is(1, "LEADS") => Reply::Text(leads(core, map)).into(),
        2 if args.is(1, "LEVELS") => Reply::Text(levels(core, map)).into(),
        3 if args.is(1, "SET") => {
            let text = String::from_utf8_lossy(args.get(2).unwrap_or_default());
            let next = ShardMap::parse(&text);
            let next = next.and_then(|next| next.check_after(map).map(|()| next));
            let next = next.map_err(|error| error.to_string());
            match next.and_then(|next| check_levels(core, map, &next).map(|()| next)) {
                Ok(next) => {
                    Inquiry::of_shard(Combine::Written, ShardId::MAP, set_map(&next)).into()
                }
                Err(error) => ErrorReply::err(error).into(),
            }
        }
        _ => unknown_subcommand(args).into(),
    }
}

/// Level that each machine understands: `machine 2 level 3`, or `machine 2 away`.
fn levels(core: &Core, map: &ShardMap) -> String {
    let line = |machine: &MachineId| match core.level_of(*machine) {
        Some(level) => format!("machine {} level {level}\n", machine.0),
        None => format!("machine {} away\n", machine.0),
    };
    map.machines.keys().map(line).collect()
}

/// Whether a map may raise the level: only when every machine is there and understands it, since one
/// that is away might come back with a build that does not.
fn check_levels(core: &Core, before: &ShardMap, next: &ShardMap) -> Result<(), String> {
    if next.level == before.level {
        return Ok(());
    }
    for machine in next.machines.keys() {
        match core.level_of(*machine) {
            Some(level) if level.suffices_for(next.level) => {}
            Some(level) => {
                return Err(format!(
                    "machine {} understands level {level}, not {}: let it run a newer build \
                     first",
                    machine.0, next.level
                ));
            }
            None => {
                return Err(format!(
                    "machine {} is not connected: start it, or take it out of the cluster",
                    machine.0
                ));
            }
        }
    }
    Ok(())
}

/// Leader of each shard (0: none is known here), its term or the last one, and since when.
fn leads(core: &Core, map: &ShardMap) -> String {
    let line = |shard: ShardId| {
        let leader = core.leader(shard).map_or(0, |machine| machine.0);
        let ((term, since_us), name) = (core.lead(shard), name_of(shard));
        format!("{name} leader {leader} term {term} since_ms {}\n", since_us / 1000)
    };
    map.all().map(line).collect()
}

fn holders(core: &Core, map: &ShardMap) -> String {
    let mut text = String::new();
    for shard in map.all() {
        let leader = core.leader(shard).map_or(0, |machine| machine.0);
        let fallback = Members::of(map.founders.clone());
        let members = core.topology.members(shard).unwrap_or(&fallback);
        text.push_str(&format!("{} leader {leader}", name_of(shard)));
        let parts = [
            ("voters", &members.voters),
            ("learners", &members.learners),
            ("outgoing", &members.outgoing),
        ];
        for (name, machines) in parts {
            if !machines.is_empty() {
                text.push_str(&format!(" {name} {}", list(machines)));
            }
        }
        text.push('\n');
    }
    text
}

/// The request to write a map, which takes effect if no other one with its epoch has.
fn set_map(next: &ShardMap) -> Body {
    let set = StringOp::Set {
        value: Blob::from(next.to_string().as_bytes()),
        only: Only::Always,
        expiry: Expiry::Clear,
        reply: SetReply::Status,
    };
    let request = RequestId { client: Blob::from(WRITER), number: next.epoch };
    let ops = smallvec![(Blob::from(MAP_KEY), Op::String(set))];
    Body::Apply(Apply { ops, request: Some(request), ..Apply::default() })
}
