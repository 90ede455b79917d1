//! `CLUSTER` and `FAILOVER`: which machine leads which slots, as Redis Cluster's clients ask for it,
//! and handing leads over.

use super::inquiry::{Combine, Inquiry};
use super::topology::ClusterNode;
use crate::cluster::slot::slot;
use crate::gateway::api::Admin;
use crate::gateway::clients::effect::CommandEffect;
use crate::gateway::clients::session::Session;
use crate::gateway::command_docs::{unknown_subcommand, wrong_words};
use crate::gateway::core::Core;
use crate::ids::{MachineId, ShardId};
use crate::limits::SLOTS;
use crate::message::Body;
use adt::{Args, ErrorReply, Reply};

/// `CLUSTER` and its subcommands.
pub(in crate::gateway) fn command(
    core: &Core,
    session: &mut Session,
    args: &Args<'_>,
) -> CommandEffect {
    let word = args.get(1).unwrap_or_default().to_ascii_lowercase();
    match (word.as_slice(), args.len()) {
        (b"keyslot", 3) => {
            let key = core.naming(0).key(args.get(2).unwrap_or_default());
            Reply::Int(i64::from(slot(&key))).into()
        }
        (b"myid", 2) => Reply::bulk(core.machines().remove(0).id).into(),
        (b"myshardid", 2) => Reply::bulk(shard_id(&core.machines().remove(0))).into(),
        (b"slots", 2) => {
            redirect(core, session);
            slots(core).into()
        }
        (b"shards", 2) => {
            redirect(core, session);
            shards(core).into()
        }
        (b"nodes", 2) => {
            redirect(core, session);
            Reply::Text(nodes(core)).into()
        }
        (b"info", 2) => Reply::Text(info(core)).into(),
        (b"countkeysinslot", 3) => keys_in_slot(core, (session.database, args), None),
        (b"getkeysinslot", 4) => match args.int(3) {
            Ok(count) if count >= 0 => {
                keys_in_slot(core, (session.database, args), Some(count as usize))
            }
            Ok(_) => ErrorReply::err("Invalid number of keys").into(),
            Err(error) => error.into(),
        },
        (
            b"keyslot" | b"myid" | b"myshardid" | b"slots" | b"shards" | b"nodes" | b"info"
            | b"countkeysinslot" | b"getkeysinslot",
            _,
        ) => wrong_words("cluster", &String::from_utf8_lossy(&word)).into(),
        _ => unknown_subcommand(args).into(),
    }
}

/// `FAILOVER`: this machine hands all leads over and stands back; `ABORT` ends that; one shard goes to
/// one machine with `SHARD shard TO machine`.
pub(in crate::gateway) fn failover(core: &Core, args: &Args<'_>) -> CommandEffect {
    if core.topology.is_alone() {
        return ErrorReply::err("FAILOVER needs another machine, and this one is alone").into();
    }
    match args.len() {
        1 => CommandEffect::Serve(Admin::StandBack(true)),
        2 if args.is(1, "ABORT") => CommandEffect::Serve(Admin::StandBack(false)),
        5 if args.is(1, "SHARD") && args.is(3, "TO") => {
            let number = |at| args.int(at).ok().and_then(|number| u16::try_from(number).ok());
            let Some(shard) = number(2).filter(|shard| *shard < core.mail.routes.shards()) else {
                return ErrorReply::err("there is no such shard").into();
            };
            let machines = core.machines();
            let known = number(4).filter(|n| machines.iter().any(|m| m.number.0 == *n));
            let Some(to) = known.map(MachineId) else {
                return ErrorReply::err("there is no such machine in the cluster").into();
            };
            Inquiry::of_shard(Combine::One, ShardId(shard), Body::Transfer { to }).into()
        }
        _ => ErrorReply::syntax().into(),
    }
}

fn keys_in_slot(
    core: &Core,
    (database, args): (u8, &Args<'_>),
    count: Option<usize>,
) -> CommandEffect {
    let slot = args.int(2).ok().and_then(|s| u16::try_from(s).ok()).filter(|s| *s < SLOTS);
    let Some(slot) = slot else {
        return ErrorReply::err("Invalid or out of range slot").into();
    };
    let home = core.mail.routes.shard_of_slot(slot);
    let combine = if count.is_some() { Combine::Concat } else { Combine::Length };
    let body = Body::KeysInSlot { database, slot, count: count.unwrap_or(usize::MAX) };
    Inquiry::of_shard(combine, home, body).into()
}

/// Lets a client that asks which machine leads which slots be told when it is wrong.
fn redirect(core: &Core, session: &mut Session) {
    if !core.topology.is_alone() {
        session.redirects = true;
        session.refresh();
    }
}

/// Slots, first and last, with the machine that leads them, as far as it is known.
fn led(core: &Core) -> Vec<((u16, u16), ShardId, Option<MachineId>)> {
    if core.topology.is_alone() {
        return vec![((0, SLOTS - 1), ShardId(0), Some(core.config.id.machine))];
    }
    let ranges = core.mail.routes.ranges().into_iter();
    ranges.map(|(range, shard)| (range, shard, core.leader(shard))).collect()
}

fn slots(core: &Core) -> Reply {
    let machines = core.machines();
    let node = |machine: &ClusterNode| {
        Reply::Array(vec![
            Reply::bulk(&machine.host),
            Reply::Int(i64::from(machine.port)),
            Reply::bulk(&machine.id),
            Reply::Array(Vec::new()),
        ])
    };
    // Without a known leader clients are sent here: this machine says what is missing.
    let own = core.config.id.machine;
    let range = |((first, last), shard, leader): ((u16, u16), ShardId, Option<MachineId>)| {
        let leader = leader.unwrap_or(own);
        let mut parts = vec![Reply::Int(first.into()), Reply::Int(last.into())];
        let leads = |machine: &&ClusterNode| machine.number == leader;
        parts.extend(machines.iter().filter(leads).map(node));
        let follows = |machine: &&ClusterNode| {
            let holds = core.topology.holds(machine.number, shard);
            machine.number != leader && machine.linked && holds
        };
        parts.extend(machines.iter().filter(follows).map(node));
        Reply::Array(parts)
    };
    Reply::Array(led(core).into_iter().map(range).collect())
}

fn shards(core: &Core) -> Reply {
    let machines = core.machines();
    let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
    let node = |machine: &ClusterNode, leads: bool| {
        Reply::Map(vec![
            pair("id", Reply::bulk(&machine.id)),
            pair("port", Reply::Int(i64::from(machine.port))),
            pair("ip", Reply::bulk(&machine.host)),
            pair("endpoint", Reply::bulk(&machine.host)),
            pair("role", Reply::bulk(if leads { "master" } else { "replica" })),
            pair("replication-offset", Reply::Int(0)),
            pair("health", Reply::bulk(if machine.linked { "online" } else { "fail" })),
        ])
    };
    let shard = |((first, last), shard, leader): ((u16, u16), ShardId, Option<MachineId>)| {
        let slots = Reply::Array(vec![Reply::Int(first.into()), Reply::Int(last.into())]);
        let leads = |m: &ClusterNode| leader == Some(m.number);
        let holds = |m: &&ClusterNode| leads(m) || core.topology.holds(m.number, shard);
        let nodes = machines.iter().filter(holds);
        let nodes = nodes.map(|m| node(m, leads(m))).collect();
        Reply::Map(vec![pair("slots", slots), pair("nodes", Reply::Array(nodes))])
    };
    Reply::Array(led(core).into_iter().map(shard).collect())
}

fn nodes(core: &Core) -> String {
    let led = led(core);
    let mut text = String::new();
    for ClusterNode { number, id, host, port, linked, myself } in core.machines() {
        let own = if myself { "myself," } else { "" };
        let (failed, state) = if linked { ("", "connected") } else { (",fail", "disconnected") };
        let flags = format!("{own}master{failed}");
        text.push_str(&format!("{id} {host}:{port}@0 {flags} - 0 0 {} {state}", number.0));
        for ((first, last), ..) in led.iter().filter(|(.., leader)| *leader == Some(number)) {
            text.push_str(&format!(" {first}-{last}"));
        }
        text.push('\n');
    }
    text
}

fn info(core: &Core) -> String {
    let alone = core.topology.is_alone();
    let led = led(core);
    let known = |shard: ShardId| core.leader(shard).is_some();
    let ranges = core.mail.routes.ranges();
    let complete = ranges.iter().all(|(_, shard)| known(*shard));
    let ok: u64 = ranges
        .iter()
        .filter(|(_, shard)| known(*shard))
        .map(|((first, last), _)| u64::from(last - first) + 1)
        .sum();
    let mut leaders: Vec<MachineId> = led.iter().filter_map(|(.., leader)| *leader).collect();
    leaders.sort_unstable();
    leaders.dedup();
    let slots = u64::from(SLOTS);
    let epoch = 1 + core.topology.map().map_or(0, |map| map.epoch);
    let lines = [
        ("cluster_enabled", u64::from(!alone)),
        ("cluster_slots_assigned", slots),
        ("cluster_slots_ok", ok),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", slots - ok),
        ("cluster_known_nodes", core.machines().len() as u64),
        ("cluster_size", leaders.len() as u64),
        ("cluster_current_epoch", epoch),
        ("cluster_my_epoch", epoch),
    ];
    let rest: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    format!("cluster_state:{}\r\n{rest}", if complete { "ok" } else { "fail" })
}

/// Another name than the machine's, as Redis has it: the same digits in reverse.
fn shard_id(machine: &ClusterNode) -> String {
    machine.id.chars().rev().collect()
}
