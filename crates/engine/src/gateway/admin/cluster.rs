//! `CLUSTER` and `FAILOVER`: which machine leads which slots, as Redis Cluster's clients ask for it,
//! and handing leads over.

use super::gather::What;
use super::topology::Machine;
use crate::gateway::Gateway;
use crate::gateway::api::{Admin, SessionId};
use crate::gateway::clients::commands::{unknown_subcommand, wrong_words};
use crate::gateway::clients::dispatch::Handled;
use crate::limits::SLOTS;
use crate::message::{Body, MachineId, ShardId};
use crate::slot::slot;
use adt::{Args, ErrorReply, Reply};

impl Gateway {
    /// `CLUSTER` and its subcommands.
    pub(in crate::gateway) fn cluster(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let word = args.get(1).unwrap_or_default().to_ascii_lowercase();
        match (word.as_slice(), args.len()) {
            (b"keyslot", 3) => Reply::Int(i64::from(slot(args.get(2).unwrap_or_default()))).into(),
            (b"myid", 2) => Reply::bulk(self.machines().remove(0).id).into(),
            (b"myshardid", 2) => Reply::bulk(shard_id(&self.machines().remove(0))).into(),
            (b"slots", 2) => {
                self.redirect(id);
                self.cluster_slots().into()
            }
            (b"shards", 2) => {
                self.redirect(id);
                self.cluster_shards().into()
            }
            (b"nodes", 2) => {
                self.redirect(id);
                Reply::Text(self.cluster_nodes()).into()
            }
            (b"info", 2) => Reply::Text(self.cluster_info()).into(),
            (b"countkeysinslot", 3) => self.keys_in_slot(id, args, None),
            (b"getkeysinslot", 4) => match args.int(3) {
                Ok(count) if count >= 0 => self.keys_in_slot(id, args, Some(count as usize)),
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

    /// `READONLY`: a replica may be asked, and any machine answers. `READWRITE`: the leader is to be
    /// asked again.
    pub(in crate::gateway) fn may_ask_replicas(&mut self, id: SessionId, may: bool) -> Handled {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.about.asks_replicas = may;
        }
        Reply::Ok.into()
    }

    /// `FAILOVER`: this machine hands all leads over and stands back; `ABORT` ends that; one shard
    /// goes to one machine with `SHARD shard TO machine`.
    pub(in crate::gateway) fn failover(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        if self.core.topology.is_alone() {
            return ErrorReply::err("FAILOVER needs another machine, and this one is alone").into();
        }
        match args.len() {
            1 => self.admin(id, Admin::StandBack(true)),
            2 if args.is(1, "ABORT") => self.admin(id, Admin::StandBack(false)),
            5 if args.is(1, "SHARD") && args.is(3, "TO") => {
                let number = |at| args.int(at).ok().and_then(|number| u16::try_from(number).ok());
                let known = number(2).filter(|shard| *shard < self.core.mail.routes.shards());
                let Some(shard) = known else {
                    return ErrorReply::err("there is no such shard").into();
                };
                let machines = self.machines();
                let known = number(4).filter(|n| machines.iter().any(|m| m.number.0 == *n));
                let Some(to) = known.map(MachineId) else {
                    return ErrorReply::err("there is no such machine in the cluster").into();
                };
                if !self.is_idle(id) {
                    return Handled::Hold;
                }
                let target = self.place(id, None);
                self.bar(target);
                let body = |one: ShardId| (one.0 == shard).then_some(Body::Transfer { to });
                self.gather(target, What::One, body, None);
                Handled::Later
            }
            _ => ErrorReply::syntax().into(),
        }
    }

    fn keys_in_slot(&mut self, id: SessionId, args: &Args<'_>, count: Option<usize>) -> Handled {
        let slot = args.int(2).ok().and_then(|s| u16::try_from(s).ok()).filter(|s| *s < SLOTS);
        let Some(slot) = slot else {
            return ErrorReply::err("Invalid or out of range slot").into();
        };
        if !self.is_idle(id) {
            return Handled::Hold;
        }
        let target = self.place(id, None);
        self.bar(target);
        let home = self.core.mail.routes.shard_of_slot(slot);
        let what = if count.is_some() { What::Concat } else { What::Length };
        let count = count.unwrap_or(usize::MAX);
        let body = |shard| (shard == home).then_some(Body::KeysInSlot { slot, count });
        self.gather(target, what, body, None);
        Handled::Later
    }

    /// A client that knows which machine leads which slots is told when it is wrong.
    fn redirect(&mut self, id: SessionId) {
        if !self.core.topology.is_alone()
            && let Some(session) = self.sessions.get_mut(id.0)
        {
            session.redirects = true;
            session.refresh();
        }
    }

    /// All machines, this one first.
    fn machines(&self) -> Vec<Machine> {
        self.core.topology.machines(self.core.config.id.machine, &self.core.facts)
    }

    /// Slots, first and last, with the machine that leads them, as far as it is known.
    fn led(&self) -> Vec<((u16, u16), ShardId, Option<MachineId>)> {
        if self.core.topology.is_alone() {
            return vec![((0, SLOTS - 1), ShardId(0), Some(self.core.config.id.machine))];
        }
        let ranges = self.core.mail.routes.ranges().into_iter();
        ranges.map(|(range, shard)| (range, shard, self.leader(shard))).collect()
    }

    fn cluster_slots(&self) -> Reply {
        let machines = self.machines();
        let node = |machine: &Machine| {
            Reply::Array(vec![
                Reply::bulk(&machine.host),
                Reply::Int(i64::from(machine.port)),
                Reply::bulk(&machine.id),
                Reply::Array(Vec::new()),
            ])
        };
        // Where nobody is known to lead, clients are sent here: this machine says what is missing.
        let own = self.core.config.id.machine;
        let range = |((first, last), shard, leader): ((u16, u16), ShardId, Option<MachineId>)| {
            let leader = leader.unwrap_or(own);
            let mut parts = vec![Reply::Int(first.into()), Reply::Int(last.into())];
            let leads = |machine: &&Machine| machine.number == leader;
            parts.extend(machines.iter().filter(leads).map(node));
            let follows = |machine: &&Machine| {
                let holds = self.core.topology.holds(machine.number, shard);
                machine.number != leader && machine.linked && holds
            };
            parts.extend(machines.iter().filter(follows).map(node));
            Reply::Array(parts)
        };
        Reply::Array(self.led().into_iter().map(range).collect())
    }

    fn cluster_shards(&self) -> Reply {
        let machines = self.machines();
        let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
        let node = |machine: &Machine, leads: bool| {
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
            let leads = |m: &Machine| leader == Some(m.number);
            let holds = |m: &&Machine| leads(m) || self.core.topology.holds(m.number, shard);
            let nodes = machines.iter().filter(holds);
            let nodes = nodes.map(|m| node(m, leads(m))).collect();
            Reply::Map(vec![pair("slots", slots), pair("nodes", Reply::Array(nodes))])
        };
        Reply::Array(self.led().into_iter().map(shard).collect())
    }

    fn cluster_nodes(&self) -> String {
        let led = self.led();
        let mut text = String::new();
        for Machine { number, id, host, port, linked, myself } in self.machines() {
            let own = if myself { "myself," } else { "" };
            let (failed, state) =
                if linked { ("", "connected") } else { (",fail", "disconnected") };
            let flags = format!("{own}master{failed}");
            text.push_str(&format!("{id} {host}:{port}@0 {flags} - 0 0 {} {state}", number.0));
            for ((first, last), ..) in led.iter().filter(|(.., leader)| *leader == Some(number)) {
                text.push_str(&format!(" {first}-{last}"));
            }
            text.push('\n');
        }
        text
    }

    fn cluster_info(&self) -> String {
        let alone = self.core.topology.is_alone();
        let led = self.led();
        let known = |shard: ShardId| self.leader(shard).is_some();
        let ranges = self.core.mail.routes.ranges();
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
        let epoch = 1 + self.core.topology.map().map_or(0, |map| map.epoch);
        let lines = [
            ("cluster_enabled", u64::from(!alone)),
            ("cluster_slots_assigned", slots),
            ("cluster_slots_ok", ok),
            ("cluster_slots_pfail", 0),
            ("cluster_slots_fail", slots - ok),
            ("cluster_known_nodes", self.machines().len() as u64),
            ("cluster_size", leaders.len() as u64),
            ("cluster_current_epoch", epoch),
            ("cluster_my_epoch", epoch),
        ];
        let rest: String =
            lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
        format!("cluster_state:{}\r\n{rest}", if complete { "ok" } else { "fail" })
    }
}

/// Another name than the machine's, as Redis has it: the same digits in reverse.
fn shard_id(machine: &Machine) -> String {
    machine.id.chars().rev().collect()
}
