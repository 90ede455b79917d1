//! Ends of sessions that are at several shards: this gateway takes each through its stages, on behalf of
//! the leader of shard 0. See `shard/coordination/ends.rs`.

use crate::coordination::SpreadStep;
use crate::coordination::service::Command;
use crate::coordination::spread::HOME;
use crate::coordination::{Ask, TreeSessionId, Write, Zxid};
use crate::gateway::core::Core;
use crate::gateway::mail::Pending;
use crate::gateway::slab::Slab;
use crate::ids::ShardId;
use crate::message::{Answer, Body};
use std::collections::BTreeSet;

/// End of a session that this gateway carries out.
struct SessionEnd {
    session: TreeSessionId,
    ended: Zxid,
    /// The session's shards besides shard 0.
    shards: Vec<ShardId>,
    stage: EndStage,
    /// Shards that have not answered the present stage.
    left: usize,
}

/// Stage of the end of a session, in this order.
#[derive(Clone, Copy, PartialEq)]
enum EndStage {
    /// The other shards stop to accept requests of the session.
    Departing,
    /// Shard 0 ends the session.
    Finishing,
    /// The other shards delete the session's nodes.
    Going,
    /// Shard 0 forgets the end.
    Forgetting,
}

/// Ends of sessions that this gateway carries out.
#[derive(Default)]
pub(super) struct SessionEnds {
    ends: Slab<SessionEnd>,
    sessions: BTreeSet<TreeSessionId>,
}

impl SessionEnds {
    /// Begins to carry out the end of a session that is at these shards besides shard 0, unless that is
    /// under way here. `finished` says that shard 0 has ended the session.
    pub fn begin(
        &mut self,
        core: &mut Core,
        session: TreeSessionId,
        ended: Zxid,
        finished: bool,
        shards: Vec<ShardId>,
    ) {
        if !self.sessions.insert(session) {
            return;
        }
        let stage = if finished { EndStage::Going } else { EndStage::Departing };
        let job = self.ends.insert(SessionEnd { session, ended, shards, stage, left: 0 });
        self.ask(core, job);
    }

    fn ask(&mut self, core: &mut Core, job: u64) {
        let Some(end) = self.ends.get_mut(job) else { return };
        let session = end.session;
        let (step, shards) = match end.stage {
            EndStage::Departing => (SpreadStep::Depart { ended: end.ended }, end.shards.clone()),
            EndStage::Finishing => (SpreadStep::Finish, vec![HOME]),
            EndStage::Going => (SpreadStep::Gone, end.shards.clone()),
            EndStage::Forgetting => (SpreadStep::Forget, vec![HOME]),
        };
        end.left = shards.len();
        for shard in shards {
            let command = Command::of(session, Write::Spread(step.clone()));
            let body = Body::Coordinate(Box::new(Ask::Write(command)));
            core.mail.ask(shard, Pending::Ending { job }, body);
        }
    }

    /// Handles a shard's answer to the present stage.
    pub fn answered(&mut self, core: &mut Core, job: u64, answer: Answer) {
        let Some(end) = self.ends.get_mut(job) else { return };
        let done = matches!(&answer, Answer::Coordinated(answered) if answered.reply.is_ok());
        end.left -= 1;
        if done && end.left > 0 {
            return;
        }
        let next = match end.stage {
            EndStage::Departing => Some(EndStage::Finishing),
            EndStage::Finishing => Some(EndStage::Going),
            EndStage::Going => Some(EndStage::Forgetting),
            EndStage::Forgetting => None,
        };
        match next.filter(|_| done) {
            Some(stage) => {
                end.stage = stage;
                self.ask(core, job);
            }
            None => {
                // The leader of shard 0 asks again for an end that is not complete.
                self.sessions.remove(&end.session);
                self.ends.remove(job);
            }
        }
    }
}
