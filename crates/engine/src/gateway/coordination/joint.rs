//! A `multi` over several shards of a tree: this gateway has its parts prepared one after the other, in the
//! order of the shards, and tells all of them what becomes of it. See `coordination/service/joint.rs`.
//!
//! It goes on when its client has left, as long as it is not known that some shard has not prepared it. One
//! that another gateway has begun, and is not decided for long, is settled by whichever is asked to.

use super::super::{Gateway, Job, mail::Pending, timer::Timer};
use super::{Answered, Asked, CoordinationClient, turns::Waiting};
use crate::coordination::service::{Command, JointId};
use crate::coordination::spread::{HOME, Step};
use crate::coordination::{Ask, Code, Identity, Reply, SessionId, Write, Zxid};
use crate::limits::JOINT_REST_US;
use crate::message::{Answer, Body, ShardId};
use std::collections::BTreeMap;

/// A `multi` that is not done.
pub(in super::super) struct Joint {
    session: SessionId,
    id: JointId,
    shards: Vec<ShardId>,
    /// Who has asked for it here, and what.
    asker: Option<Asker>,
    stage: Stage,
    /// Shards that have not answered, and those that are to be asked again because nobody knows what has
    /// become of the answer.
    open: Vec<ShardId>,
    again: Vec<ShardId>,
    /// What has come of each part, and the number of the change that it was.
    parts: BTreeMap<ShardId, (Zxid, Vec<Result<Reply, Code>>)>,
    /// Nobody knows any more what was answered.
    is_lost: bool,
    /// Why it does not come about, if it does not, although no part was voted against.
    obstacle: Option<Obstacle>,
}

/// Who has asked, and what.
struct Asker {
    client: CoordinationClient,
    seq: u64,
    write: Write,
    identities: Vec<Identity>,
    /// By shard, which of the changes it has.
    places: BTreeMap<ShardId, Vec<usize>>,
}

/// What is being said.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// The shard with this place among all is to prepare its part.
    Preparing(usize),
    /// That shard is asked whether it has.
    Inquiring(usize),
    /// All are asked.
    Settling,
    /// They are told.
    Deciding { commit: bool },
    /// It waits before it is tried once more.
    Resting,
}

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Obstacle {
    /// It may be better in a moment.
    Passes,
    /// Its session may not, any more.
    Refused(Code),
}

/// Whether nothing was refused.
fn is_sound(replies: &[Result<Reply, Code>]) -> bool {
    replies.iter().all(Result::is_ok)
}

impl Joint {
    fn new(
        (session, id): (SessionId, JointId),
        shards: Vec<ShardId>,
        asker: Option<Asker>,
        stage: Stage,
    ) -> Self {
        let (open, again, parts, obstacle) = Default::default();
        let is_lost = false;
        Self { session, id, shards, asker, stage, open, again, parts, is_lost, obstacle }
    }

    /// Who may have prepared it, as far as it has come.
    fn prepared(&self) -> Vec<ShardId> {
        match self.stage {
            Stage::Preparing(place) => self.shards[..place].to_vec(),
            // It may be prepared there with a vote against it.
            Stage::Inquiring(place) => self.shards[..=place].to_vec(),
            _ => self.shards.clone(),
        }
    }

    fn is_deciding(&self) -> bool {
        matches!(self.stage, Stage::Deciding { .. })
    }

    fn step(&self, shard: ShardId) -> Option<Step> {
        let id = self.id;
        Some(match self.stage {
            Stage::Preparing(_) => {
                let asker = self.asker.as_ref()?;
                let (all, places) = (asker.write.changes(), asker.places.get(&shard)?);
                let changes = places.iter().filter_map(|place| all.get(*place).cloned()).collect();
                Step::Prepare { id, shards: self.shards.clone(), changes }
            }
            Stage::Inquiring(_) | Stage::Settling => Step::Inquire { id },
            Stage::Deciding { commit } => Step::Decide { id, commit },
            Stage::Resting => return None,
        })
    }

    /// What its client is told, and the number of the change that decides that; nothing if nobody knows what
    /// was answered.
    fn outcome(&self) -> Option<(Zxid, Result<Reply, Code>)> {
        let asker = self.asker.as_ref().filter(|_| !self.is_lost)?;
        let count = asker.write.changes().len();
        let mut at = Zxid::default();
        let mut all: Vec<Option<Result<Reply, Code>>> = vec![None; count];
        // Shard 0 comes first: what is done everywhere is answered as it says.
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

    /// The first change that cannot be done decides what all are told.
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

    /// As the client has asked.
    fn said(&self, mut all: Vec<Result<Reply, Code>>) -> Result<Reply, Code> {
        match self.asker.as_ref().map(|asker| &asker.write) {
            Some(Write::Change(_)) => all.remove(0),
            _ => Ok(Reply::Multi(all)),
        }
    }
}

impl Gateway {
    /// A client asks for changes at several shards.
    pub(super) fn ask_jointly(
        &mut self,
        client: CoordinationClient,
        (seq, asked, identities): Waiting,
        places: BTreeMap<ShardId, Vec<usize>>,
    ) {
        let Some(session) = self.clients.clients.get(client.0).and_then(|client| client.session)
        else {
            return;
        };
        let Asked::Write(write) = asked else { return };
        let shards = places.keys().copied().collect();
        let asker = Some(Asker { client, seq, write, identities, places });
        let (id, stage) = (JointId::default(), Stage::Resting);
        let joint = Joint::new((session, id), shards, asker, stage);
        let job = self.jobs.insert(Job::Joint(Box::new(joint)));
        self.begin_joint(job);
    }

    /// A `multi` that another gateway may have begun waits to be decided.
    pub(in super::super) fn settle_joint(
        &mut self,
        session: SessionId,
        id: JointId,
        shards: Vec<ShardId>,
    ) {
        if !self.clients.deciding.insert((session, id)) {
            return;
        }
        let (asker, stage) = (None, Stage::Settling);
        let joint = Joint::new((session, id), shards.clone(), asker, stage);
        let job = self.jobs.insert(Job::Joint(Box::new(joint)));
        self.tell_of_joint(job, shards);
    }

    fn joint(&mut self, job: u64) -> Option<&mut Joint> {
        match self.jobs.get_mut(job) {
            Some(Job::Joint(joint)) => Some(joint),
            _ => None,
        }
    }

    /// The client that waits for a `multi`, if it is still there and its session with it.
    fn asker_of(&mut self, job: u64) -> Option<CoordinationClient> {
        let (session, client) =
            self.joint(job).map(|m| (m.session, m.asker.as_ref().map(|asker| asker.client)))?;
        let is_there = |id: &CoordinationClient| {
            let client = self.clients.clients.get(id.0);
            self.clients.of.get(&session) == Some(&id.0)
                && client.is_some_and(|client| !client.closing)
        };
        client.filter(is_there)
    }

    /// The same, if nothing keeps it from asking more: what an earlier connection has sent must not come
    /// behind what a later one says first.
    fn asker_that_asks(&mut self, job: u64) -> Option<CoordinationClient> {
        self.asker_of(job).filter(|client| !self.is_being_left(*client))
    }

    /// It is tried, perhaps once more, if its client still waits for it.
    fn begin_joint(&mut self, job: u64) {
        let Some(client) = self.asker_that_asks(job) else {
            let left = self.asker_of(job);
            left.into_iter().for_each(|client| self.end_client(client));
            return self.end_joint(job);
        };
        let Some(client) = self.clients.clients.get_mut(client.0) else { return };
        client.turns.joints += 1;
        let id = JointId { joined: client.turns.joined, number: client.turns.joints };
        let Some(joint) = self.joint(job) else { return };
        (joint.id, joint.obstacle, joint.is_lost) = (id, None, false);
        joint.parts.clear();
        let session = joint.session;
        self.clients.deciding.insert((session, id));
        self.prepare_part(job, 0);
    }

    /// The next shard prepares its part; if there is none, it is known what becomes of all.
    fn prepare_part(&mut self, job: u64, place: usize) {
        let is_awaited = self.asker_that_asks(job).is_some();
        let Some(joint) = self.joint(job) else { return };
        joint.stage = Stage::Preparing(place);
        match joint.shards.get(place).copied() {
            Some(_) if !is_awaited => {
                joint.obstacle = Some(Obstacle::Passes);
                self.decide_joint(job);
            }
            Some(shard) => self.tell_of_joint(job, vec![shard]),
            None => self.decide_joint(job),
        }
    }

    fn tell_of_joint(&mut self, job: u64, shards: Vec<ShardId>) {
        let Some(joint) = self.joint(job) else { return };
        joint.open = shards.clone();
        joint.again.clear();
        shards.into_iter().for_each(|shard| self.tell_shard_of_joint(job, shard));
    }

    fn tell_shard_of_joint(&mut self, job: u64, shard: ShardId) {
        let asker = self.joint(job).and_then(|joint| joint.asker.as_ref());
        let client = asker.map(|asker| asker.client.0);
        let client = client.and_then(|client| self.clients.clients.get(client));
        let after = client.map(super::Client::known).unwrap_or_default();
        let Some(joint) = self.joint(job) else { return };
        let Some(step) = joint.step(shard) else { return };
        let mut command = Command::of(joint.session, Write::Spread(step));
        if let (Stage::Preparing(_), Some(asker)) = (joint.stage, &joint.asker) {
            (command.identities, command.after) = (asker.identities.clone(), after);
        }
        let body = Body::Coordinate(Box::new(Ask::Write(command)));
        self.core.mail.ask(shard, Pending::Joint { job, shard }, body);
    }

    /// Those whose answers are lost are asked once more, or it is tried once more.
    pub(in super::super) fn joint_again(&mut self, job: u64) {
        let Some(joint) = self.joint(job) else { return };
        if joint.stage == Stage::Resting {
            return self.begin_joint(job);
        }
        let again = std::mem::take(&mut joint.again);
        again.into_iter().for_each(|shard| self.tell_shard_of_joint(job, shard));
    }

    /// A shard has answered, or nobody knows.
    pub(in super::super) fn joint_answered(&mut self, job: u64, shard: ShardId, answer: Answer) {
        let answered = match answer {
            Answer::Coordinated(answered) => Some(*answered),
            _ => None,
        };
        if let Some(answered) = &answered {
            self.joint_heard(job, shard, answered);
        }
        let Some(joint) = self.joint(job) else { return };
        let prepares = matches!(joint.stage, Stage::Preparing(_));
        // Whoever refuses to say what is known, or to hear what is decided, is asked again: it would be wrong
        // to conclude anything from that.
        let answered = answered.filter(|answered| prepares || answered.reply.is_ok());
        match (joint.stage, answered) {
            (Stage::Preparing(place), None) => {
                // It may be prepared there or not: it is told by whoever leads now.
                joint.stage = Stage::Inquiring(place);
                self.tell_of_joint(job, vec![shard]);
            }
            (_, None) => {
                joint.again.push(shard);
                self.core.set_timer(JOINT_REST_US, Timer::Joint { job });
            }
            (Stage::Preparing(place), Some(answered)) => {
                self.part_prepared(job, shard, place, answered);
            }
            (Stage::Inquiring(place), Some(answered)) => match answered.reply {
                Ok(Reply::Number(number)) if number > 0 => {
                    // What would come of it is known when it is done.
                    joint.parts.insert(shard, (answered.zxid, Vec::new()));
                    self.prepare_part(job, place + 1);
                }
                _ => {
                    joint.obstacle = Some(Obstacle::Passes);
                    self.decide_joint(job);
                }
            },
            (Stage::Settling, Some(answered)) => {
                if !matches!(answered.reply, Ok(Reply::Number(number)) if number > 0) {
                    joint.obstacle = Some(Obstacle::Passes);
                }
                joint.open.retain(|of| *of != shard);
                if joint.open.is_empty() {
                    self.decide_joint(job);
                }
            }
            (Stage::Deciding { commit }, Some(answered)) => {
                let part = joint.parts.entry(shard).or_default();
                match answered.reply {
                    Ok(Reply::Multi(replies)) => {
                        part.0 = answered.zxid;
                        if commit {
                            part.1 = replies;
                        }
                    }
                    // Another gateway has been faster, or the answer was lost.
                    _ => joint.is_lost = true,
                }
                joint.open.retain(|of| *of != shard);
                if joint.open.is_empty() {
                    self.joint_decided(job, commit);
                }
            }
            (Stage::Resting, Some(_)) => {}
        }
    }

    /// What a shard has answered shows its client how much there is to know.
    fn joint_heard(&mut self, job: u64, shard: ShardId, answered: &Answered) {
        let Some(id) = self.asker_of(job) else { return };
        let is_done = |joint: &&mut Joint| joint.is_deciding() && joint.obstacle.is_none();
        let done = self.joint(job).filter(is_done).and_then(|joint| joint.asker.as_ref());
        let done = done.map(|asker| asker.seq);
        let Some(client) = self.clients.clients.get_mut(id.0) else { return };
        if !client.hears_answer(shard, answered.zxid, answered.told) {
            return self.end_client(id);
        }
        if let Some(queued) = done.and_then(|seq| client.queued(seq)) {
            queued.by.push(shard);
        }
        if shard == HOME {
            client.turns.home_heard(self.core.now);
        }
    }

    fn part_prepared(&mut self, job: u64, shard: ShardId, place: usize, answered: Answered) {
        let Some(joint) = self.joint(job) else { return };
        match answered.reply {
            Ok(Reply::Multi(replies)) => {
                joint.parts.insert(shard, (answered.zxid, replies));
                return self.prepare_part(job, place + 1);
            }
            // It has not heard that all understand this.
            Ok(_) | Err(Code::Unimplemented) => joint.obstacle = Some(Obstacle::Passes),
            Err(code) => joint.obstacle = Some(Obstacle::Refused(code)),
        }
        self.decide_joint(job);
    }

    /// It is known what becomes of it.
    fn decide_joint(&mut self, job: u64) {
        let Some(joint) = self.joint(job) else { return };
        let sound = joint.parts.values().all(|(_, replies)| is_sound(replies));
        let commit = joint.obstacle.is_none() && sound;
        let told = joint.prepared();
        joint.stage = Stage::Deciding { commit };
        if told.is_empty() {
            return self.joint_decided(job, commit);
        }
        self.tell_of_joint(job, told);
    }

    /// All shards know what has become of it.
    fn joint_decided(&mut self, job: u64, commit: bool) {
        let client = self.asker_of(job);
        let Some(joint) = self.joint(job) else { return };
        let (obstacle, outcome) = (joint.obstacle.filter(|_| !commit), joint.outcome());
        let (Some(client), Some(asker)) = (client, &joint.asker) else {
            return self.end_joint(job);
        };
        let seq = asker.seq;
        match (obstacle, outcome) {
            (Some(Obstacle::Passes), _) => {
                joint.stage = Stage::Resting;
                let of = (joint.session, joint.id);
                self.clients.deciding.remove(&of);
                let rest_us = JOINT_REST_US / 2 + self.core.random() % JOINT_REST_US;
                return self.core.set_timer(rest_us, Timer::Joint { job });
            }
            (Some(Obstacle::Refused(Code::SessionMoved)), _) | (None, None) => {
                self.end_client(client);
            }
            (Some(Obstacle::Refused(code)), _) => {
                let known = self.clients.clients.get(client.0).map(super::Client::known);
                self.client_answered(client, seq, known.unwrap_or_default(), Err(code));
            }
            (None, Some((at, reply))) => self.client_answered(client, seq, at, reply),
        }
        self.end_joint(job);
        self.turn_over(client);
    }

    fn end_joint(&mut self, job: u64) {
        let Some(joint) = self.joint(job) else { return };
        let of = (joint.session, joint.id);
        self.clients.deciding.remove(&of);
        self.jobs.remove(job);
    }
}
