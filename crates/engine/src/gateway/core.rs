//! State that every part of a gateway works with: the time, the settings, the outbox and the timers.

use super::acl::denials::Denials;
use super::admin::topology::{ClusterNode, Topology};
use super::api::{Broadcast, Config, Facts, Output, SessionId};
use super::errors::Unled;
use super::mail::{Mail, Target};
use super::operators::monitor::Monitors;
use super::operators::pause::Pause;
use super::operators::slow::Slow;
use super::scripts::Scripts;
use super::timer::Timer;
use super::txn::work::Finish;
use super::types::Types;
use crate::cluster::level::Level;
use crate::ids::{Age, GatewayId, MachineId, RequestId, ShardId, StreamId, term_of};
use crate::limits::REPLICAS_MAX;
use crate::message::Body;
use crate::now::Now;
use adt::command::database::Naming;
use adt::command::tags::TagRules;
use adt::{Blob, CommandSpec, ErrorReply, Flags, Reply, Timestamp};
use std::collections::{BTreeSet, VecDeque};

/// State that belongs to no part of a gateway, because each of them needs it.
pub(super) struct Core {
    pub config: Config,
    /// Facts that the server tells about itself.
    pub facts: Facts,
    pub now: Now,
    /// Logical clock from which the ages of transactions are taken.
    pub clock: Timestamp,
    /// The latest timestamp at which a transaction over several shards was committed here.
    pub decided: Timestamp,
    /// State of the generator of random numbers.
    pub seed: u64,
    /// Outbox: requests to shards, and other outputs.
    pub mail: Mail,
    /// Timers by the time at which they are due.
    pub timers: BTreeSet<(u64, Timer)>,
    /// Machines of the cluster, and the members of shards.
    pub topology: Topology,
    /// Durations of commands, and the slow ones.
    pub slow: Slow,
    /// Refused commands and logins.
    pub denials: Denials,
    /// Pause of the commands of all clients.
    pub pause: Option<Pause>,
    /// Connections that see the commands of all clients.
    pub monitors: Monitors,
    /// Interpreter of scripts, and the texts that were read.
    pub scripts: Scripts,
    /// Definitions of composed types.
    pub types: Types,
    /// Tasks for all gateways that follow from transactions which took effect. No reply waits for the
    /// answers.
    pub afterwards: VecDeque<Broadcast>,
    /// Replies that parts have found, for [`super::Gateway::settle`] to put into their places.
    pub replies: VecDeque<(Target, Reply)>,
    /// Replies of programs with items that come from commands that the session carries out afterwards.
    pub partial: VecDeque<(Target, Finish, Vec<Option<Reply>>)>,
    /// Sessions that have got replies about keys which have changed since, for their caches.
    pub cached: Vec<SessionId>,
}

impl Core {
    /// Gives a target its reply, before the gateway takes its next input.
    pub fn finish(&mut self, target: Target, reply: Reply) {
        self.replies.push_back((target, reply));
    }

    /// Gives a target the reply of a program, made of those of its commands. Missing items come from
    /// commands that the session carries out afterwards.
    pub fn complete(&mut self, target: Target, finish: Finish, items: Vec<Option<Reply>>) {
        if items.iter().all(Option::is_some) {
            let reply = finish.reply(items);
            return self.finish(target, reply);
        }
        self.partial.push_back((target, finish, items));
    }

    /// Gives a command of a session its reply: its operations were carried out. Without a recipe, the
    /// reply of its only operation is the reply.
    pub fn carried_out(
        &mut self,
        target: Target,
        finish: Option<Box<Finish>>,
        wrote: bool,
        mut replies: impl Iterator<Item = Reply>,
    ) {
        match finish {
            None => self.finish(target, replies.next().unwrap_or(Reply::Nil)),
            Some(finish) => {
                if wrote && finish.outcomes.len() > 1 {
                    self.mail.stats.committed += 1;
                }
                let items = finish.items(replies);
                self.complete(target, *finish, items);
            }
        }
    }

    /// How names in a database become stored keys.
    #[inline]
    pub fn naming(&self, database: u8) -> Naming<'_> {
        Naming { database, tags: self.config.tags.as_ref().unwrap_or(&TagRules::NONE) }
    }

    /// Key for the name of a request's client: its shard remembers the request if no other key does.
    pub fn client_key(&self, request: &RequestId) -> Blob {
        self.naming(0).key_of(&request.client)
    }

    /// Sends a session a message that is no reply to a command, or one of several replies, in the order
    /// of the causes. `CLIENT REPLY` does not suppress it.
    pub fn push(&mut self, session: SessionId, protocol: u8, reply: Reply) {
        self.mail.outputs.push_back(Output::Reply { session, reply, protocol, lingers: false });
    }

    /// Sets a timer that is due after a number of microseconds.
    pub fn set_timer(&mut self, in_us: u64, timer: Timer) {
        self.timers.insert((self.now.mono_us.saturating_add(in_us), timer));
    }

    /// Whether commands that write or grow records may be carried out.
    pub fn has_room(&self) -> bool {
        !self.facts.over_memory_limit && !self.facts.over_log_limit
    }

    /// Error for data for which there is no room.
    pub fn check_growth(&self) -> Result<(), ErrorReply> {
        if self.facts.over_memory_limit {
            let text = "command not allowed when used memory > 'maxmemory'.";
            return Err(ErrorReply::new("OOM", text));
        }
        Ok(())
    }

    /// Error for a command that there is no room for.
    pub fn check_room(&self, spec: &CommandSpec) -> Result<(), ErrorReply> {
        if spec.flags.has(Flags::GROWS) {
            self.check_growth()?;
        }
        if self.facts.over_log_limit && spec.flags.has(Flags::WRITE) {
            let text = "the log has outgrown its memory, and snapshots, which would shorten it, fail: \
                        see the server's log";
            return Err(ErrorReply::new("MISCONF", text));
        }
        Ok(())
    }

    /// Random number (SplitMix64).
    pub fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        adt::random::mix(self.seed)
    }

    /// All machines, this one first.
    pub fn machines(&self) -> Vec<ClusterNode> {
        self.topology.machines(self.config.id.machine, &self.facts)
    }

    /// Level that the build of a machine understands, if the machine is this one or connected.
    pub fn level_of(&self, machine: MachineId) -> Option<Level> {
        let myself = machine == self.config.id.machine;
        if myself { Some(Level::NEWEST) } else { self.topology.level(machine) }
    }

    /// Leader of a shard, if it is known.
    pub fn leader(&self, shard: ShardId) -> Option<MachineId> {
        match &self.mail.leaders {
            None => Some(self.config.id.machine),
            Some(leaders) => leaders.leader(shard),
        }
    }

    /// Term of the lead of a shard, or of the last one if the shard has no leader, and the time at which
    /// it began or ended (wall clock, microseconds).
    pub fn lead(&self, shard: ShardId) -> (u64, u64) {
        let lead = self.mail.leaders.as_ref();
        let (lead, since_us) = lead.map_or((0, 0), |leaders| leaders.lead_number(shard));
        (term_of(lead), since_us)
    }

    /// State of a shard without a leader.
    pub fn unled(&self, shard: ShardId) -> Unled {
        let own = self.config.id.machine;
        let machines = self.machines();
        let holders = machines.iter().filter(|m| self.topology.holds(m.number, shard));
        let (mut count, mut missing, mut at) = (0, [0; REPLICAS_MAX], 0);
        for machine in holders {
            count += 1;
            if !machine.linked && at < REPLICAS_MAX {
                missing[at] = machine.number.0;
                at += 1;
            }
        }
        missing[..at].sort_unstable();
        Unled { shard, own, holders: count, missing }
    }

    /// Redirection of a client to the leader of the shard of its command, unless that is this machine.
    pub fn moved(&self, shard: ShardId, slot: u16) -> Option<ErrorReply> {
        let address = self.topology.address(self.leader(shard)?)?;
        Some(ErrorReply::new("MOVED", format!("{slot} {address}")))
    }

    /// New age: larger than all earlier ones of this gateway, and different from those of all other gateways.
    pub fn new_age(&mut self) -> Age {
        self.clock = self.clock.next().max(Timestamp::from_micros(self.now.wall_us));
        Age { began: self.clock, gateway: self.config.id }
    }

    /// Notifies the shards of a stream that it has ended.
    pub fn end_stream(&mut self, stream: StreamId, shards: &[ShardId]) {
        for shard in shards {
            let shards = shards.to_vec();
            self.mail.tell(*shard, Body::EndStream { stream, shards });
        }
    }

    /// Other gateways of this machine.
    pub fn other_gateways(&self) -> impl Iterator<Item = GatewayId> + use<> {
        let own = self.config.id;
        (0..self.config.gateways)
            .map(move |worker| GatewayId { worker, ..own })
            .filter(move |gateway| *gateway != own)
    }
}
