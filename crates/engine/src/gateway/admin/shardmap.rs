//! `SHARDMAP`: which machines are to hold which shards, and which do; and what they all understand.

use super::gather::What;
use crate::entry::Apply;
use crate::gateway::Gateway;
use crate::gateway::api::SessionId;
use crate::gateway::clients::commands::unknown_subcommand;
use crate::gateway::clients::dispatch::Handled;
use crate::gateway::mail::Pending;
use crate::level::Level;
use crate::map::{ShardMap, list, name_of};
use crate::message::{Answer, Body, MachineId, Now, RequestId, ShardId};
use crate::node::MAP_KEY;
use crate::replication::Members;
use adt::string::{Expiry, Only, Op as StringOp, SetReply};
use adt::{Args, Blob, ErrorReply, Op, Reply};
use smallvec::smallvec;

/// The name under which maps are written: their epoch is the number, so that of all that have one
/// epoch only the first takes effect.
const WRITER: &[u8] = b"shard map";

impl Gateway {
    /// There is a new shard map.
    pub fn map_changed(&mut self, now: Now, map: ShardMap) {
        self.core.now = now;
        let before = (!map.splits.is_empty()).then(|| self.core.mail.routes.all());
        self.core.mail.routes.follow(&map);
        self.core.topology.set_map(self.core.config.id.machine, map);
        self.look_at_level();
        if let Some(before) = before {
            self.routes_changed(&before);
            self.settle();
        }
    }

    /// A majority has what a new shard began with: the map is to say so.
    pub fn split_done(&mut self, now: Now, child: ShardId) {
        self.core.now = now;
        let open = |map: &&ShardMap| map.origin(child).is_some_and(|split| !split.done);
        let Some(map) = self.core.topology.map().filter(open) else { return };
        if self.telling_split {
            return;
        }
        self.telling_split = true;
        let body = set_map(&map.split_done(child));
        self.core.mail.ask(ShardId::MAP, Pending::SplitDone, body);
        self.settle();
    }

    /// The leader of a shard says which machines hold it.
    pub fn members_told(&mut self, now: Now, shard: ShardId, members: Members) {
        self.core.now = now;
        self.core.topology.set_members(shard, members);
    }

    /// `SHARDMAP`: what is to be; `HOLDERS`: what is; `SET`: what is to be from now on.
    pub(in crate::gateway) fn shard_map(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        let Some(map) = self.core.topology.map() else {
            let text = "there is no shard map: this server is alone, or has not heard from its \
                        cluster yet";
            return ErrorReply::err(text).into();
        };
        match args.len() {
            1 => Reply::Text(map.to_string()).into(),
            2 if args.is(1, "HOLDERS") => Reply::Text(self.holders(map)).into(),
            2 if args.is(1, "LEADS") => Reply::Text(self.leads(map)).into(),
            2 if args.is(1, "LEVELS") => Reply::Text(self.levels(map)).into(),
            3 if args.is(1, "SET") => {
                let text = String::from_utf8_lossy(args.get(2).unwrap_or_default());
                let next = ShardMap::parse(&text);
                let next = next.and_then(|next| next.check_after(map).map(|()| next));
                let next = next.map_err(|error| error.to_string());
                match next.and_then(|next| self.check_levels(map, &next).map(|()| next)) {
                    Ok(next) => self.write_map(id, &next),
                    Err(error) => ErrorReply::err(error).into(),
                }
            }
            _ => unknown_subcommand(args).into(),
        }
    }

    /// What each machine understands: `machine 2 level 3`, or `machine 2 away`.
    fn levels(&self, map: &ShardMap) -> String {
        let line = |machine: &MachineId| match self.level_of(*machine) {
            Some(level) => format!("machine {} level {level}\n", machine.0),
            None => format!("machine {} away\n", machine.0),
        };
        map.machines.keys().map(line).collect()
    }

    fn level_of(&self, machine: MachineId) -> Option<Level> {
        let myself = machine == self.core.config.id.machine;
        if myself { Some(Level::NEWEST) } else { self.core.topology.level(machine) }
    }

    /// A level is raised when every machine is there and understands it: one that is away might come
    /// back with a build that does not.
    fn check_levels(&self, before: &ShardMap, next: &ShardMap) -> Result<(), String> {
        if next.level == before.level {
            return Ok(());
        }
        for machine in next.machines.keys() {
            match self.level_of(*machine) {
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

    fn write_map(&mut self, id: SessionId, next: &ShardMap) -> Handled {
        if !self.is_idle(id) {
            return Handled::Hold;
        }
        let target = self.place(id, None);
        self.bar(target);
        self.ask_one(target, What::Written, ShardId::MAP, set_map(next));
        Handled::Later
    }

    /// Who leads each shard (0: nobody, as far as it is known here), in which term or after which one,
    /// and since when.
    fn leads(&self, map: &ShardMap) -> String {
        let line = |shard: ShardId| {
            let leader = self.leader(shard).map_or(0, |machine| machine.0);
            let ((term, since_us), name) = (self.lead(shard), name_of(shard));
            format!("{name} leader {leader} term {term} since_ms {}\n", since_us / 1000)
        };
        map.all().map(line).collect()
    }

    fn holders(&self, map: &ShardMap) -> String {
        let mut text = String::new();
        for shard in map.all() {
            let leader = self.leader(shard).map_or(0, |machine| machine.0);
            let fallback = Members::of(map.founders.clone());
            let members = self.core.topology.members(shard).unwrap_or(&fallback);
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

/// What is answered to whoever has written a map.
pub(in crate::gateway) fn written(answer: &Answer) -> Reply {
    match answer {
        Answer::Replies(_) => Reply::Ok,
        Answer::Repeated(_) | Answer::Voided | Answer::Forgotten => {
            let text = "the shard map was changed in the meantime: look at it, and try again";
            ErrorReply::new("CHANGED", text).into()
        }
        _ => crate::gateway::routing::ways::indefinite().into(),
    }
}
