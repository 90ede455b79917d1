//! `CLUSTER`: this one server owns all slots, and says so to clients that ask.

use super::Gateway;
use super::api::SessionId;
use super::commands::{unknown_subcommand, wrong_words};
use super::dispatch::Handled;
use super::gather::What;
use crate::limits::SLOTS;
use crate::message::Body;
use crate::slot::{shard_of_slot, slot};
use adt::{Args, ErrorReply, Reply};

impl Gateway {
    /// `CLUSTER` and its subcommands.
    pub(super) fn cluster(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let word = args.get(1).unwrap_or_default().to_ascii_lowercase();
        let last = i64::from(SLOTS - 1);
        match (word.as_slice(), args.len()) {
            (b"keyslot", 3) => Reply::Int(i64::from(slot(args.get(2).unwrap_or_default()))).into(),
            (b"myid", 2) => Reply::bulk(&self.facts.run_id).into(),
            (b"myshardid", 2) => Reply::bulk(self.shard_id()).into(),
            (b"slots", 2) => {
                let node = Reply::Array(vec![
                    Reply::bulk(&self.facts.address),
                    Reply::Int(i64::from(self.facts.port)),
                    Reply::bulk(&self.facts.run_id),
                    Reply::Array(Vec::new()),
                ]);
                Reply::Array(vec![Reply::Array(vec![Reply::Int(0), Reply::Int(last), node])]).into()
            }
            (b"shards", 2) => Reply::Array(vec![self.cluster_shard(last)]).into(),
            (b"nodes", 2) => Reply::Text(self.cluster_node()).into(),
            (b"info", 2) => Reply::Text(cluster_info()).into(),
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
        let home = shard_of_slot(slot, self.config.shards);
        let what = if count.is_some() { What::Concat } else { What::Length };
        let count = count.unwrap_or(usize::MAX);
        let body = |shard| (shard == home).then_some(Body::KeysInSlot { slot, count });
        self.gather(target, what, body, None);
        Handled::Later
    }

    /// Another name than the node's, as Redis has it: the same digits in reverse.
    fn shard_id(&self) -> String {
        self.facts.run_id.chars().rev().collect()
    }

    fn cluster_shard(&self, last: i64) -> Reply {
        let facts = &self.facts;
        let pair = |name: &str, value: Reply| (Reply::bulk(name), value);
        let node = Reply::Map(vec![
            pair("id", Reply::bulk(&facts.run_id)),
            pair("port", Reply::Int(i64::from(facts.port))),
            pair("ip", Reply::bulk(&facts.address)),
            pair("endpoint", Reply::bulk(&facts.address)),
            pair("role", Reply::bulk("master")),
            pair("replication-offset", Reply::Int(0)),
            pair("health", Reply::bulk("online")),
        ]);
        Reply::Map(vec![
            pair("slots", Reply::Array(vec![Reply::Int(0), Reply::Int(last)])),
            pair("nodes", Reply::Array(vec![node])),
        ])
    }

    fn cluster_node(&self) -> String {
        let facts = &self.facts;
        format!(
            "{} {}:{}@0 myself,master - 0 0 1 connected 0-{}\n",
            facts.run_id,
            facts.address,
            facts.port,
            SLOTS - 1
        )
    }
}

fn cluster_info() -> String {
    let lines = [
        ("cluster_enabled", 0),
        ("cluster_slots_assigned", SLOTS),
        ("cluster_slots_ok", SLOTS),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", 0),
        ("cluster_known_nodes", 1),
        ("cluster_size", 1),
        ("cluster_current_epoch", 1),
        ("cluster_my_epoch", 1),
    ];
    let rest: String = lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect();
    format!("cluster_state:ok\r\n{rest}")
}
