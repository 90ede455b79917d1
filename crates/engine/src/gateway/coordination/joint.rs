//! Joint `multi`s, over several shards of a tree: this gateway lets the shards prepare their parts one after
//! the other, in the order of the shards, and then tells all of them the decision. See
//! `coordination/service/joint.rs`.
//!
//! A `multi` goes on when its client has left, as long as no shard is known not to have prepared it. One
//! that another gateway has begun and not decided for long is settled by the gateway that is asked to.

use super::clients::Clients;
use super::request::MultiRequest;
use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::{
    Ask, Code, CoordinationAnswer, Identity, Reply, TreeSessionId, Write, Zxid,
};
use crate::gateway::api::CoordinationClient;
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::slab::Slab;
use crate::gateway::timer::Timer;
use crate::ids::ShardId;
use crate::limits::JOINT_REST_US;
use crate::message::{Answer, Body};
use std::collections::{BTreeMap, BTreeSet};

/// Joint `multi` that is not done.
struct JointMulti {
    session: TreeSessionId,
    id: JointId,
    shards: Vec<ShardId>,
    /// The client that has asked for it here, with its request.
    asker: Option<Asker>,
    stage: JointStage,
    /// Shards that have not answered.
    open: Vec<ShardId>,
    /// Shards to be asked again, because their answers were lost.
    again: Vec<ShardId>,
    /// Replies of each part, with the number of the change.
    parts: BTreeMap<ShardId, (Zxid, Vec<Result<Reply, Code>>)>,
    /// The answer to the client was lost.
    is_lost: bool,
    /// Reason for a rollback although no part was voted against.
    obstacle: Option<Obstacle>,
}

/// Client that waits for a joint `multi`, with its request.
struct Asker {
    client: CoordinationClient,
    seq: u64,
    write: Write,
    identities: Vec<Identity>,
    /// Indexes of each shard's changes in `write`.
    places: BTreeMap<ShardId, Vec<usize>>,
}

/// Stage of a joint `multi`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum JointStage {
    /// The shard with this index is to prepare its part.
    Preparing(usize),
    /// The shard with this index is asked whether it has prepared its part, as its answer was lost.
    Inquiring(usize),
    /// All shards are asked whether they have prepared their parts.
    Settling,
    /// The shards are told the decision.
    Deciding { commit: bool },
    /// The `multi` waits until it is tried once more.
    Resting,
}

/// Reason why a `multi` cannot be prepared.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Obstacle {
    /// A state that passes: the `multi` is tried once more.
    Passes,
    /// An error that its client gets.
    Refused(Code),
}

/// Whether no change was refused.
fn is_sound(replies: &[Result<Reply, Code>]) -> bool {
    replies.iter().all(Result::is_ok)
}

impl JointMulti {
    fn new(
        (session, id): (TreeSessionId, JointId),
        shards: Vec<ShardId>,
        asker: Option<Asker>,
        stage: JointStage,
    ) -> Self {
        let (open, again, parts, obstacle) = Default::default();
        let is_lost = false;
        Self { session, id, shards, asker, stage, open, again, parts, is_lost, obstacle }
    }

    /// Shards that may have prepared their parts by now.
    fn prepared(&self) -> Vec<ShardId> {
        match self.stage {
            JointStage::Preparing(place) => self.shards[..place].to_vec(),
            // The shard may have prepared its part, with a vote against it.
            JointStage::Inquiring(place) => self.shards[..=place].to_vec(),
            _ => self.shards.clone(),
        }
    }

    fn is_deciding(&self) -> bool {
        matches!(self.stage, JointStage::Deciding { .. })
    }

    fn step(&self, shard: ShardId) -> Option<SpreadStep> {
        let id = self.id;
        Some(match self.stage {
            JointStage::Preparing(_) => {
                let asker = self.asker.as_ref()?;
                let (all, places) = (asker.write.changes(), asker.places.get(&shard)?);
                let changes = places.iter().filter_map(|place| all.get(*place).cloned()).collect();
                SpreadStep::Prepare { id, shards: self.shards.clone(), changes }
            }
            JointStage::Inquiring(_) | JointStage::Settling => SpreadStep::Inquire { id },
            JointStage::Deciding { commit } => SpreadStep::Decide { id, commit },
            JointStage::Resting => return None,
        })
    }

    /// Answer to the client, with the number of the change that decides it; none if an answer was lost.
    fn outcome(&self) -> Option<(Zxid, Result<Reply, Code>)> {
        let asker = self.asker.as_ref().filter(|_| !self.is_lost)?;
        let count = asker.write.changes().len();
        let mut at = Zxid::default();
        let mut all: Vec<Option<Result<Reply, Code>>> = vec![None; count];
        // Shard 0 comes first: changes that are made at all shards are answered as it says.
        for (shard, (zxid, replies)) in &self.parts {
            at = at.max(*zxid);
            for (place, reply) in asker.places.get(shard)?.iter().zip(replies) {
                all[*place].get_or_insert_with(|| reply.clone());
            }
        }
        if !self.parts.values().all(|(_, replies)| is_sound(replies)) {
            return self.refusal(&all).map(|(at, all)| (at, self.said(all)));
        }
        let all = all.into_iter().collect::<Option<Vec<_>>>()?;
        Some((at, self.said(all)))
    }

    /// Replies to all changes, which the first change that cannot be made decides.
    fn refusal(
        &self,
        all: &[Option<Result<Reply, Code>>],
    ) -> Option<(Zxid, Vec<Result<Reply, Code>>)> {
        let asker = self.asker.as_ref()?;
        let is_refusal = |reply: &Option<Result<Reply, Code>>| {
            matches!(reply, Some(Err(code))
                if ![Code::Ok, Code::RuntimeInconsistency].contains(code))
        };
        let first = all.iter().position(is_refusal)?;
        let of = asker.places.iter().find(|(_, places)| places.contains(&first))?;
        let at = self.parts.get(of.0).map(|(zxid, _)| *zxid)?;
        let mut told = vec![Err(Code::Ok); first];
        told.extend(all[first].clone());
        told.resize(all.len(), Err(Code::RuntimeInconsistency));
        Some((at, told))
    }

    /// Reply to the request as a whole.
    fn said(&self, mut all: Vec<Result<Reply, Code>>) -> Result<Reply, Code> {
        match self.asker.as_ref().map(|asker| &asker.write) {
            Some(Write::Change(_)) => all.remove(0),
            _ => Ok(Reply::Multi(all)),
        }
    }
}

/// Joint `multi`s that are under way at this gateway.
#[derive(Default)]
pub(super) struct JointMultis {
    multis: Slab<JointMulti>,
    names: BTreeSet<(TreeSessionId, JointId)>,
}

impl JointMultis {
    /// Begins a `multi` that a client has asked for.
    pub fn begin(&mut self, core: &mut Core, clients: &mut Clients, request: MultiRequest) {
        let MultiRequest { client, session, seq, write, identities, places } = request;
        let shards = places.keys().copied().collect();
        let asker = Some(Asker { client, seq, write, identities, places });
        let (id, stage) = (JointId::default(), JointStage::Resting);
        let job = self.multis.insert(JointMulti::new((session, id), shards, asker, stage));
        self.attempt(core, clients, job);
    }

    /// Settles a `multi` that another gateway may have begun, and that is not decided for long.
    pub fn settle(
        &mut self,
        core: &mut Core,
        clients: &Clients,
        (session, id): (TreeSessionId, JointId),
        shards: Vec<ShardId>,
    ) {
        if !self.names.insert((session, id)) {
            return;
        }
        let (asker, stage) = (None, JointStage::Settling);
        let multi = JointMulti::new((session, id), shards.clone(), asker, stage);
        let job = self.multis.insert(multi);
        self.ask_all(core, clients, job, shards);
    }

    /// The client that waits for a `multi`, if it is connected and has its session.
    fn asker(&self, clients: &Clients, job: u64) -> Option<CoordinationClient> {
        let multi = self.multis.get(job)?;
        let client = multi.asker.as_ref().map(|asker| asker.client);
        client.filter(|client| clients.has(*client, multi.session))
    }

    /// The client that waits for a `multi`, if requests may be sent for it: requests of an earlier
    /// connection must not arrive behind the first message of a later one.
    fn asker_that_sends(&self, clients: &Clients, job: u64) -> Option<CoordinationClient> {
        self.asker(clients, job).filter(|client| !clients.is_leaving(*client))
    }

    /// Tries a `multi`, perhaps once more, if its client still waits for it.
    fn attempt(&mut self, core: &mut Core, clients: &mut Clients, job: u64) {
        let Some(client) = self.asker_that_sends(clients, job) else {
            if let Some(client) = self.asker(clients, job) {
                clients.end(core, client);
            }
            return self.end(job);
        };
        let Some(id) = clients.next_multi(client) else { return };
        let Some(multi) = self.multis.get_mut(job) else { return };
        (multi.id, multi.obstacle, multi.is_lost) = (id, None, false);
        multi.parts.clear();
        self.names.insert((multi.session, id));
        self.prepare_part(core, clients, job, 0);
    }

    /// Lets the shard with this index prepare its part. If there is none, all have, and the decision
    /// follows.
    fn prepare_part(&mut self, core: &mut Core, clients: &mut Clients, job: u64, place: usize) {
        let is_awaited = self.asker_that_sends(clients, job).is_some();
        let Some(multi) = self.multis.get_mut(job) else { return };
        multi.stage = JointStage::Preparing(place);
        match multi.shards.get(place).copied() {
            Some(_) if !is_awaited => {
                multi.obstacle = Some(Obstacle::Passes);
                self.decide(core, clients, job);
            }
            Some(shard) => self.ask_all(core, clients, job, vec![shard]),
            None => self.decide(core, clients, job),
        }
    }

    /// Sends the present step to these shards.
    fn ask_all(&mut self, core: &mut Core, clients: &Clients, job: u64, shards: Vec<ShardId>) {
        let Some(multi) = self.multis.get_mut(job) else { return };
        multi.open = shards.clone();
        multi.again.clear();
        shards.into_iter().for_each(|shard| self.ask(core, clients, job, shard));
    }

    fn ask(&self, core: &mut Core, clients: &Clients, job: u64, shard: ShardId) {
        let Some(multi) = self.multis.get(job) else { return };
        let Some(step) = multi.step(shard) else { return };
        let mut command = Command::of(multi.session, Write::Spread(step));
        if let (JointStage::Preparing(_), Some(asker)) = (multi.stage, &multi.asker) {
            command.identities = asker.identities.clone();
            command.after = clients.known(asker.client);
        }
        let body = Body::Coordinate(Box::new(Ask::Write(command)));
        core.mail.ask(shard, Pending::Joint { job, shard }, body);
    }

    /// Asks the shards whose answers were lost once more, or tries the `multi` once more.
    pub fn due(&mut self, core: &mut Core, clients: &mut Clients, job: u64) {
        let Some(multi) = self.multis.get_mut(job) else { return };
        if multi.stage == JointStage::Resting {
            return self.attempt(core, clients, job);
        }
        let again = std::mem::take(&mut multi.again);
        again.into_iter().for_each(|shard| self.ask(core, clients, job, shard));
    }

    /// Handles a shard's answer to the present step.
    pub fn answered(
        &mut self,
        core: &mut Core,
        clients: &mut Clients,
        (job, shard): (u64, ShardId),
        answer: Answer,
    ) {
        let answered = match answer {
            Answer::Coordinated(answered) => Some(*answered),
            _ => None,
        };
        if let Some(answered) = &answered {
            self.note_answer(core, clients, job, (shard, answered));
        }
        let Some(multi) = self.multis.get_mut(job) else { return };
        let prepares = matches!(multi.stage, JointStage::Preparing(_));
        // A shard that refuses an inquiry or the decision is asked again: the refusal says nothing about
        // what has become of its part.
        let answered = answered.filter(|answered| prepares || answered.reply.is_ok());
        match (multi.stage, answered) {
            (JointStage::Preparing(place), None) => {
                // Whether the part is prepared is unknown: the present leader of the shard says it.
                multi.stage = JointStage::Inquiring(place);
                self.ask_all(core, clients, job, vec![shard]);
            }
            (_, None) => {
                multi.again.push(shard);
                core.set_timer(JOINT_REST_US, Timer::Joint { job });
            }
            (JointStage::Preparing(place), Some(answered)) => {
                self.part_prepared(core, clients, (job, place), (shard, answered));
            }
            (JointStage::Inquiring(place), Some(answered)) => match answered.reply {
                Ok(Reply::Number(number)) if number > 0 => {
                    // The replies of the part come with the answer to the decision.
                    multi.parts.insert(shard, (answered.zxid, Vec::new()));
                    self.prepare_part(core, clients, job, place + 1);
                }
                _ => {
                    multi.obstacle = Some(Obstacle::Passes);
                    self.decide(core, clients, job);
                }
            },
            (JointStage::Settling, Some(answered)) => {
                if !matches!(answered.reply, Ok(Reply::Number(number)) if number > 0) {
                    multi.obstacle = Some(Obstacle::Passes);
                }
                multi.open.retain(|of| *of != shard);
                if multi.open.is_empty() {
                    self.decide(core, clients, job);
                }
            }
            (JointStage::Deciding { commit }, Some(answered)) => {
                let part = multi.parts.entry(shard).or_default();
                match answered.reply {
                    Ok(Reply::Multi(replies)) => {
                        part.0 = answered.zxid;
                        if commit {
                            part.1 = replies;
                        }
                    }
                    // Another gateway has told the shard the decision before, or the answer was lost.
                    _ => multi.is_lost = true,
                }
                multi.open.retain(|of| *of != shard);
                if multi.open.is_empty() {
                    self.decided(core, clients, job, commit);
                }
            }
            (JointStage::Resting, Some(_)) => {}
        }
    }

    /// Tells the client's connection of a shard's answer.
    fn note_answer(
        &self,
        core: &mut Core,
        clients: &mut Clients,
        job: u64,
        (shard, answered): (ShardId, &CoordinationAnswer),
    ) {
        let Some(client) = self.asker(clients, job) else { return };
        let is_done = |multi: &&JointMulti| multi.is_deciding() && multi.obstacle.is_none();
        let done = self.multis.get(job).filter(is_done).and_then(|multi| multi.asker.as_ref());
        let done = done.map(|asker| asker.seq);
        clients.hears_of_multi(core, client, (shard, answered), done);
    }

    fn part_prepared(
        &mut self,
        core: &mut Core,
        clients: &mut Clients,
        (job, place): (u64, usize),
        (shard, answered): (ShardId, CoordinationAnswer),
    ) {
        let Some(multi) = self.multis.get_mut(job) else { return };
        match answered.reply {
            Ok(Reply::Multi(replies)) => {
                multi.parts.insert(shard, (answered.zxid, replies));
                return self.prepare_part(core, clients, job, place + 1);
            }
            // The shard has not learned yet that all machines understand joint `multi`s.
            Ok(_) | Err(Code::Unimplemented) => multi.obstacle = Some(Obstacle::Passes),
            Err(code) => multi.obstacle = Some(Obstacle::Refused(code)),
        }
        self.decide(core, clients, job);
    }

    /// Decides a `multi`, and tells the shards that may have prepared it.
    fn decide(&mut self, core: &mut Core, clients: &mut Clients, job: u64) {
        let Some(multi) = self.multis.get_mut(job) else { return };
        let sound = multi.parts.values().all(|(_, replies)| is_sound(replies));
        let commit = multi.obstacle.is_none() && sound;
        let told = multi.prepared();
        multi.stage = JointStage::Deciding { commit };
        if told.is_empty() {
            return self.decided(core, clients, job, commit);
        }
        self.ask_all(core, clients, job, told);
    }

    /// Answers the client, or lets the `multi` rest until it is tried once more: all shards know the
    /// decision.
    fn decided(&mut self, core: &mut Core, clients: &mut Clients, job: u64, commit: bool) {
        let client = self.asker(clients, job);
        let Some(multi) = self.multis.get_mut(job) else { return };
        let (obstacle, outcome) = (multi.obstacle.filter(|_| !commit), multi.outcome());
        let (Some(client), Some(asker)) = (client, &multi.asker) else { return self.end(job) };
        let seq = asker.seq;
        match (obstacle, outcome) {
            (Some(Obstacle::Passes), _) => {
                multi.stage = JointStage::Resting;
                self.names.remove(&(multi.session, multi.id));
                let rest_us = JOINT_REST_US / 2 + core.random() % JOINT_REST_US;
                return core.set_timer(rest_us, Timer::Joint { job });
            }
            (Some(Obstacle::Refused(Code::SessionMoved)), _) | (None, None) => {
                clients.end(core, client);
            }
            (Some(Obstacle::Refused(code)), _) => {
                let known = clients.known(client);
                clients.answer(core, client, seq, (known, Err(code)));
            }
            (None, Some(answer)) => clients.answer(core, client, seq, answer),
        }
        self.end(job);
        clients.multi_done(core, client);
    }

    fn end(&mut self, job: u64) {
        if let Some(multi) = self.multis.remove(job) {
            self.names.remove(&(multi.session, multi.id));
        }
    }
}
