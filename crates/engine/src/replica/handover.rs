//! Handover of a shard's lead to another machine, while clients go on.
//!
//! From its begin the leader proposes only earlier writes, and outcomes of transactions; when all
//! that is committed, it asks the other replica to stand for election. Later requests are refused
//! when the lead ends, and go to the next leader. So no client is left in doubt, as after the loss
//! of a leader.

use super::{Replica, ReplicaError};
use crate::entry::EntryCodec;
use crate::ids::MachineId;
use crate::limits::HANDOVER_US_MAX;
use crate::message::{Answer, Body, Request};
use crate::now::Now;
use crate::shard::Shard;
use adt::{ErrorReply, Reply};

/// Handover in progress.
#[derive(Debug)]
pub(super) struct Handover {
    to: MachineId,
    since_us: u64,
    /// Whether the library has begun: it asks the other replica to stand as soon as that one has
    /// the whole log.
    begun: bool,
    /// Requests that wait for the result.
    asked: Vec<Request>,
}

impl<C: EntryCodec> Replica<C> {
    /// Begins to hand the lead over to another machine with a replica, unless a handover is in
    /// progress. Returns whether it is possible.
    pub fn hand_over(&mut self, now: Now, to: MachineId) -> bool {
        let is_other = to != self.group.membership().own;
        let is_other = is_other && self.group.members().voters.contains(&to);
        if self.leading.is_none() || !is_other {
            return false;
        }
        let since_us = now.mono_us;
        if self.handover.is_none() {
            self.shard.close_entry();
        }
        self.handover.get_or_insert(Handover { to, since_us, begun: false, asked: Vec::new() });
        true
    }

    /// Takes a request to hand the lead over. If the lead ends, the request goes to the next
    /// leader, which may be the intended machine.
    pub(super) fn asked_to_hand_over(&mut self, now: Now, to: MachineId, request: Request) {
        let (gateway, token) = (request.gateway, request.token);
        if to == self.group.membership().own {
            self.shard.outbox_mut().answer(gateway, token, Answer::Reply(Reply::Ok));
        } else if self.hand_over(now, to) {
            self.handover.iter_mut().for_each(|handover| {
                handover.asked.push(Request {
                    gateway,
                    token,
                    after: None,
                    body: Body::Transfer { to },
                })
            });
        } else {
            let text = format!("machine {} has no replica of the shard", to.0);
            self.shard.outbox_mut().answer(
                gateway,
                token,
                Answer::Reply(ErrorReply::err(text).into()),
            );
        }
    }

    /// Whether new writes may be proposed now.
    pub(super) fn may_propose(&self) -> bool {
        self.handover.is_none() && self.group.may_propose()
    }

    /// Proposes the writes before the handover, and outcomes of transactions: otherwise the next
    /// leader would have to ask for the outcomes that are known here.
    pub(super) fn propose_last(&mut self, now: Now) -> Result<(), ReplicaError> {
        if self.handover.as_ref().is_some_and(|handover| handover.begun) {
            return Ok(());
        }
        if self.shard.tail().has_only_outcomes() {
            self.shard.close_entry();
        }
        self.propose_each(now, Shard::next_closed)
    }

    /// Takes the next step if it is due, or gives up.
    pub(super) fn go_on_handing_over(&mut self, now: Now) {
        let Some(handover) = &mut self.handover else { return };
        let late = now.mono_us.saturating_sub(handover.since_us) >= HANDOVER_US_MAX;
        let goes_on = if handover.begun {
            self.group.is_transferring()
        } else if self.proposed.is_empty()
            && !self.shard.tail().has_closed()
            && !self.shard.tail().has_only_outcomes()
        {
            handover.begun = true;
            self.group.transfer(handover.to)
        } else {
            true
        };
        if goes_on && !late {
            return;
        }
        for Request { gateway, token, .. } in self.end_handover() {
            let text = "the machine did not take the lead in time: try again, or another machine";
            self.shard.outbox_mut().answer(
                gateway,
                token,
                Answer::Reply(ErrorReply::err(text).into()),
            );
        }
    }

    /// Ends the handover, because the lead has ended.
    pub(super) fn handed_over(&mut self) {
        for Request { gateway, token, body, .. } in self.end_handover() {
            self.shard.outbox_mut().turn_away(gateway, token, body);
        }
    }

    fn end_handover(&mut self) -> Vec<Request> {
        self.handover.take().map_or_else(Vec::new, |handover| handover.asked)
    }
}
