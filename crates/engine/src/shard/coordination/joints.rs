//! Joint `multi`s at one of their shards, as far as its leader knows more of them than the log: from when one
//! is on its way to the log to be prepared until it is decided, whatever others ask about the same branches
//! waits, and so does whatever brings its session to another connection or ends it.
//!
//! There are no deadlock cycles: gateways have the parts prepared one shard after the other, in the order of
//! their numbers; what is sent ahead is refused here and does not wait; and what concerns nodes of a session
//! that ends, for which others may have to wait, is not prepared. If a decision does not come, another
//! gateway is asked to find out what it is.

use super::ServiceLeader;
use super::units::HeldBranches;
use crate::coordination::JointId;
use crate::coordination::SpreadStep;
use crate::coordination::branch::Footprint;
use crate::coordination::service::{Command, Coordination, SessionState};
use crate::coordination::{Code, CoordinationAnswer, Reply, TreeSessionId, Write};
use crate::ids::Token;
use crate::limits::ENDS_AGAIN_US;
use crate::message::{Answer, Notice};
use crate::now::Now;
use crate::shard::core::ShardCore;
use crate::shard::tail::Recipient;
use std::collections::BTreeMap;

/// Joint `multi`s that are prepared here, or on their way to be.
#[derive(Debug, Default)]
pub(super) struct Joints {
    /// Branches that they hold.
    pub held: HeldBranches,
    /// When to ask what has become of those that are prepared, in monotonic microseconds.
    again_us: BTreeMap<TreeSessionId, u64>,
}

impl Joints {
    /// When to ask.
    pub fn next_us(&self) -> Option<u64> {
        self.again_us.values().min().copied()
    }
}

/// A session's `multi` that is prepared, and what it holds.
pub(in super::super) fn prepared_by(
    service: &Coordination,
    session: TreeSessionId,
) -> Option<(JointId, Footprint)> {
    let kept = service.kept(session);
    kept.and_then(SessionState::prepared).map(|(id, prepared)| (id, prepared.footprint()))
}

impl ServiceLeader {
    /// A change is on its way to the log.
    pub(super) fn joint_comes(&mut self, command: &Command) {
        if matches!(command.write, Write::Spread(SpreadStep::Prepare { .. })) {
            let held = &mut self.ends.joints.held;
            held.come(command.session, &command.write.footprint());
        }
    }

    /// A change is carried out that may be about a `multi`; `before` is what its session held until then.
    pub(super) fn joints_go_on(
        &mut self,
        core: &mut ShardCore,
        now: Now,
        command: &Command,
        before: Option<(JointId, Footprint)>,
    ) {
        let Write::Spread(step) = &command.write else { return };
        let session = command.session;
        let after = prepared_by(core.state.coordination(), session);
        let joints = &mut self.ends.joints;
        let over = match (step, &after) {
            (SpreadStep::Prepare { id, .. }, Some((prepared, held))) if id == prepared => {
                if !joints.held.has_of(session) {
                    // An earlier leader has let it in.
                    joints.held.come(session, held);
                }
                joints.again_us.insert(session, now.mono_us + ENDS_AGAIN_US);
                None
            }
            (SpreadStep::Prepare { .. }, _) => Some(command.write.footprint()),
            (SpreadStep::Decide { .. } | SpreadStep::Inquire { .. }, None) => {
                before.map(|(_, held)| held)
            }
            _ => None,
        };
        if after.is_none() {
            joints.again_us.remove(&session);
        }
        if let Some(held) = over.filter(|_| joints.held.has_of(session)) {
            joints.held.go(session, &held);
            self.go_on(core, now);
        }
    }

    /// A step is answered that its session may not have asked for from where it is: this leader may not know
    /// it, and has told it nothing then of what it watches.
    pub(super) fn answer_joint(
        &mut self,
        core: &mut ShardCore,
        Recipient { gateway, token, .. }: Recipient,
        session: TreeSessionId,
        reply: Result<Reply, Code>,
    ) {
        let home = self.homes.get(&session);
        let notices =
            home.filter(|home| home.gateway == gateway).map_or(u64::MAX, |home| home.notices);
        let zxid = core.state.coordination().last();
        core.answer(
            gateway,
            token,
            Answer::Coordinated(Box::new(CoordinationAnswer { reply, zxid, notices })),
        );
    }

    /// Begins a lead: holds what is prepared, and lets a gateway find out what becomes of it.
    pub(super) fn watch_over_joints(&mut self, core: &mut ShardCore, now: Now) {
        for (session, prepared) in core.state.coordination().prepared() {
            let joints = &mut self.ends.joints;
            joints.held.come(session, &prepared.footprint());
            joints.again_us.insert(session, now.mono_us);
        }
    }

    /// A gateway is to find out what becomes of those that have waited for long.
    pub(in super::super) fn remind_of_joints(&mut self, core: &mut ShardCore, now: Now) {
        let again_us = &mut self.ends.joints.again_us;
        let mut due = Vec::new();
        for (session, at_us) in again_us.iter_mut().filter(|(_, at_us)| **at_us <= now.mono_us) {
            *at_us = now.mono_us + ENDS_AGAIN_US;
            due.push(*session);
        }
        for session in due {
            let kept = core.state.coordination().kept(session);
            let Some((id, prepared)) = kept.and_then(SessionState::prepared) else { continue };
            let notice = Notice::Undecided { session, id, shards: prepared.shards.clone() };
            core.notice(core.config.beside, Token::default(), notice);
        }
    }
}
