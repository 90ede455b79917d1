//! The end of a session that is at several shards: this gateway carries the word between them, for the
//! leader of shard 0. See `shard/coordination/ends.rs`.

use super::super::{Gateway, Job, mail::Pending};
use crate::coordination::service::Command;
use crate::coordination::spread::{HOME, Step};
use crate::coordination::{Ask, SessionId, Write, Zxid};
use crate::message::{Answer, Body, ShardId};

/// An end of which this gateway carries the word.
pub(in super::super) struct End {
    session: SessionId,
    ended: Zxid,
    /// The shards besides shard 0.
    shards: Vec<ShardId>,
    stage: Stage,
    left: usize,
}

/// What is being said.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    /// The others let nothing more of it in.
    Departing,
    /// It ends.
    Finishing,
    /// The others delete its nodes.
    Going,
    /// Nothing is left to be said.
    Forgetting,
}

impl Gateway {
    /// A session ends that is at these shards as well.
    pub(in super::super) fn session_ends(
        &mut self,
        session: SessionId,
        ended: Zxid,
        finished: bool,
        shards: Vec<ShardId>,
    ) {
        if !self.clients.ending.insert(session) {
            return;
        }
        let stage = if finished { Stage::Going } else { Stage::Departing };
        let end = End { session, ended, shards, stage, left: 0 };
        let job = self.jobs.insert(Job::End(Box::new(end)));
        self.say_of_end(job);
    }

    fn say_of_end(&mut self, job: u64) {
        let Some(Job::End(end)) = self.jobs.get_mut(job) else { return };
        let session = end.session;
        let (step, shards) = match end.stage {
            Stage::Departing => (Step::Depart { ended: end.ended }, end.shards.clone()),
            Stage::Finishing => (Step::Finish, vec![HOME]),
            Stage::Going => (Step::Gone, end.shards.clone()),
            Stage::Forgetting => (Step::Forget, vec![HOME]),
        };
        end.left = shards.len();
        for shard in shards {
            let command = Command::of(session, Write::Spread(step.clone()));
            let body = Body::Coordinate(Box::new(Ask::Write(command)));
            self.core.mail.ask(shard, Pending::Ending { job }, body);
        }
    }

    /// A shard has done what was said, or nobody knows.
    pub(in super::super) fn end_went_on(&mut self, job: u64, answer: Answer) {
        let Some(Job::End(end)) = self.jobs.get_mut(job) else { return };
        let done = matches!(&answer, Answer::Coordinated(answered) if answered.reply.is_ok());
        end.left -= 1;
        if done && end.left > 0 {
            return;
        }
        let next = match end.stage {
            Stage::Departing => Some(Stage::Finishing),
            Stage::Finishing => Some(Stage::Going),
            Stage::Going => Some(Stage::Forgetting),
            Stage::Forgetting => None,
        };
        match next.filter(|_| done) {
            Some(stage) => {
                end.stage = stage;
                self.say_of_end(job);
            }
            None => {
                // If it is not complete, the leader of shard 0 says so again.
                self.clients.ending.remove(&end.session);
                self.jobs.remove(job);
            }
        }
    }
}
