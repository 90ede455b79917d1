//! Replies find their place: in the order of the commands, whatever the order of the answers.

use super::session::{BlockedBy, Mode, Session, Slot, SlotState};
use crate::gateway::api::{Output, SessionId};
use crate::gateway::core::Core;
use crate::gateway::mail::{ATTEMPT, Mail, Target, WHOLE};
use crate::gateway::txn::transaction::repeated::keep_replies;
use crate::gateway::txn::work::Keep;
use crate::gateway::{Gateway, Held};
use adt::Reply;

impl Gateway {
    /// A reply that is known at once.
    pub(in crate::gateway) fn reply(&mut self, id: SessionId, reply: Reply) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        if reply.is_error() && session.request.take().is_some() {
            // The number was for what is refused, and not for whatever comes after it.
            session.refresh();
        }
        let slot = session.slot(SlotState::Done(reply));
        session.queue.push_back(slot);
        if session.queue.len() == 1 {
            flush(&mut self.core.mail, self.core.now.mono_us, id, session);
        }
    }

    /// A place for a reply that will be known later: the one given, or a new one.
    pub(in crate::gateway) fn place(&mut self, id: SessionId, given: Option<Target>) -> Target {
        given.or_else(|| self.given.take()).unwrap_or_else(|| {
            let seq = self.sessions.get_mut(id.0).map_or(0, Session::push);
            Target { session: id, seq, item: WHOLE }
        })
    }

    /// The reply for a place has become known.
    pub(in crate::gateway) fn finish(&mut self, target: Target, reply: Reply) {
        let Some(session) = self.sessions.get_mut(target.session.0) else { return };
        if target.item == ATTEMPT {
            if let Some(BlockedBy::Command(job)) = session.blocked {
                let effect = self.blocked.attempted(&mut self.core, job, reply);
                self.blocked_goes_on(effect);
            }
            return;
        }
        let index = target.seq.wrapping_sub(session.base) as usize;
        let Some(slot) = session.queue.get_mut(index) else { return };
        let mut kept = None;
        match &mut slot.state {
            SlotState::Partial(items, missing, keep) if target.item != WHOLE => {
                // What is there already keeps its reply, and counts once.
                match items.get_mut(target.item as usize) {
                    Some(item @ None) => *item = Some(reply),
                    _ => return,
                }
                *missing -= 1;
                if *missing > 0 {
                    self.finishing.push(target.session);
                    return;
                }
                let items = std::mem::take(items).into_iter().flatten();
                if let Some(keep) = keep.take() {
                    let items: Vec<Reply> = items.collect();
                    slot.state = SlotState::Done(keep.form.reply(items.iter().cloned()));
                    kept = Some((keep, items));
                } else {
                    slot.state = SlotState::Done(Reply::Array(items.collect()));
                }
            }
            _ => slot.state = SlotState::Done(reply),
        }
        let passed = session.barrier == Some(target.seq);
        if passed {
            session.barrier = None;
        }
        let gathered = passed && !session.gathered.is_empty();
        if index == 0 {
            flush(&mut self.core.mail, self.core.now.mono_us, target.session, session);
        }
        if !session.held.is_empty() && session.barrier.is_none() && session.queue.is_empty() {
            self.resumable.push(target.session);
        }
        if gathered {
            self.dispatch_soon(target.session);
        }
        if let Some((keep, items)) = kept {
            keep_replies(&mut self.core, &keep.request, &keep.home, items);
        }
    }

    /// Makes a place an array of which some items come later, and which is kept then.
    pub(in crate::gateway) fn finish_partly(
        &mut self,
        target: Target,
        items: Vec<Option<Reply>>,
        keep: Option<Box<Keep>>,
    ) {
        let missing = items.iter().filter(|item| item.is_none()).count();
        let Some(session) = self.sessions.get_mut(target.session.0) else { return };
        let index = target.seq.wrapping_sub(session.base) as usize;
        if let Some(slot) = session.queue.get_mut(index) {
            slot.state = SlotState::Partial(items, missing, keep);
        }
    }

    /// Nothing after this command is looked at before its reply is known.
    pub(in crate::gateway) fn bar(&mut self, target: Target) {
        if let Some(session) = self.sessions.get_mut(target.session.0) {
            session.barrier = Some(target.seq);
        }
    }

    /// The connection is closed once the newest reply is sent.
    pub(in crate::gateway) fn close_after_replies(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            session.close_after_replies(&mut self.core, id);
        }
    }

    /// Lets sessions go on with what they held back, where that has become possible.
    #[inline]
    pub(in crate::gateway) fn settle(&mut self) {
        loop {
            self.send_held();
            self.settle_near();
            self.settle_transactions();
            while let Some((target, reply)) = self.core.replies.pop_front() {
                self.finish(target, reply);
            }
            while let Some((target, finish, items)) = self.core.partial.pop_front() {
                self.complete_with(target, &finish, items);
            }
            while let Some(id) = self.finishing.pop() {
                self.run_later(id);
            }
            while let Some(id) = self.resumable.pop() {
                self.resume(id);
            }
            // Commands that were held back may have had effects at once.
            if !self.finishing.is_empty()
                || !self.core.replies.is_empty()
                || !self.core.partial.is_empty()
                || self.near_locks.have_effects()
                || self.transactions.have_effects()
            {
                continue;
            }
            if !self.admit_next() && !self.core.mail.is_ready() {
                return;
            }
        }
    }

    fn resume(&mut self, id: SessionId) {
        while let Some(session) = self.sessions.get_mut(id.0) {
            if session.barrier.is_some() {
                return;
            }
            match session.held.pop_front() {
                None => return,
                Some(Held::Fault(error)) => {
                    self.reply_fault(id, error);
                    return;
                }
                Some(Held::Refused(error)) => self.refuse_unread(id, error),
                Some(Held::Command(words, bytes)) => {
                    session.held_bytes -= bytes;
                    if !self.run(id, &words.args()) {
                        if let Some(session) = self.sessions.get_mut(id.0) {
                            session.held_bytes += bytes;
                            session.held.push_front(Held::Command(words, bytes));
                        }
                        return;
                    }
                }
            }
        }
    }
}

impl Session {
    /// Lets the connection be closed once the newest reply is sent.
    pub fn close_after_replies(&mut self, core: &mut Core, id: SessionId) {
        self.closing = true;
        self.held.clear();
        match self.queue.back_mut() {
            Some(slot) => slot.last = true,
            None => core.mail.outputs.push_back(Output::Close { session: id }),
        }
    }
}

/// Sends the replies whose turn it is.
fn flush(mail: &mut Mail, now_us: u64, id: SessionId, session: &mut Session) {
    while let Some(slot) = session.queue.front() {
        if !matches!(slot.state, SlotState::Done(_)) {
            return;
        }
        let Some(Slot { state: SlotState::Done(reply), command, begun_us, silent, last }) =
            session.queue.pop_front()
        else {
            return;
        };
        session.base += 1;
        let failed = reply.is_error();
        mail.stats.errors += u64::from(failed);
        if let Some(position) = command {
            let count = mail.stats.of_command(usize::from(position));
            count.us += now_us.saturating_sub(begun_us);
            count.failed += u64::from(failed);
        }
        if !silent {
            let protocol = session.protocol;
            let noted = matches!(reply, Reply::Ok | Reply::Status("QUEUED"));
            let lingers = noted && matches!(session.mode, Mode::Multi(_) | Mode::Interactive(_));
            mail.outputs.push_back(Output::Reply { session: id, reply, protocol, lingers });
        }
        if last {
            mail.outputs.push_back(Output::Close { session: id });
        }
    }
}
