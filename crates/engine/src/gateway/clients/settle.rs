//! Replies that parts have found go to their places, and sessions go on with held commands.

use super::publish::told;
use super::session::Held;
use super::sessions::Finished;
use crate::gateway::Gateway;
use crate::gateway::admin::inquiry::Combine;
use crate::gateway::api::SessionId;
use crate::gateway::parts::Parts;
use crate::gateway::target::{CACHE, LOGIN, LOOK, NOWHERE, TYPES, Target, USERS};
use crate::gateway::txn::transaction::repeated::keep_replies;
use crate::gateway::txn::work::Finish;
use adt::Reply;

impl Gateway {
    /// Puts the replies that parts have found into their places, and lets sessions go on with held commands
    /// until none of them can.
    #[inline]
    pub(in crate::gateway) fn settle(&mut self) {
        loop {
            self.parts.send_held();
            while let Some(effect) = self.parts.near_locks.next_effect() {
                self.parts.wait_goes_on(Some(effect));
            }
            self.parts.transactions.settle(&mut self.parts.sessions);
            while let Some(id) = self.parts.sessions.next_left() {
                let Parts { core, sessions, tracking, .. } = &mut self.parts;
                tracking.transaction_ended(core, sessions, id);
            }
            while let Some(messages) = self.parts.tracking.keyspace.next_messages() {
                messages.iter().for_each(|published| _ = self.deliver(published));
            }
            while let Some((target, inquiry)) = self.parts.tracking.next_inquiry() {
                self.parts.gather(target, inquiry);
            }
            while let Some((job, question)) = self.parts.questions.pop_front() {
                let own = self.know(&question);
                self.parts.gathers.told(&mut self.parts.core, job, own);
            }
            while let Some(task) = self.parts.core.afterwards.pop_front() {
                let inquiry = told(&mut self.parts.core, task, Combine::Sum);
                self.parts.gather(NOWHERE, inquiry);
            }
            while let Some((target, reply)) = self.parts.core.replies.pop_front() {
                match target.item {
                    LOGIN => self.users.found(&mut self.parts, target, &reply),
                    USERS if target == LOOK => {
                        self.users.looked(&mut self.parts, &self.pubsub, reply);
                    }
                    USERS => self.users.changed(&mut self.parts, target, reply),
                    CACHE => {
                        let Parts { core, sessions, tracking, .. } = &mut self.parts;
                        tracking.redirection_known(core, sessions, target.session, &reply);
                    }
                    _ if target == TYPES => self.parts.types_read(&reply),
                    _ => self.parts.finish(target, reply),
                }
            }
            while let Some(id) = self.parts.core.cached.pop() {
                let Parts { core, sessions, tracking, .. } = &mut self.parts;
                tracking.tell_again(core, sessions, id);
            }
            while let Some((target, finish, items)) = self.parts.core.partial.pop_front() {
                self.parts.complete_with(target, &finish, items);
            }
            while let Some(id) = self.parts.sessions.next_finishing() {
                self.run_later(id);
            }
            while let Some(id) = self.parts.sessions.next_resumable() {
                self.resume(id);
            }
            // Held commands may have had effects at once.
            if self.parts.sessions.are_finishing()
                || !self.parts.core.replies.is_empty()
                || !self.parts.core.partial.is_empty()
                || !self.parts.core.afterwards.is_empty()
                || !self.parts.core.cached.is_empty()
                || self.parts.tracking.has_inquiries()
                || self.parts.sessions.have_left()
                || self.parts.near_locks.have_effects()
                || self.parts.transactions.have_effects()
                || !self.parts.questions.is_empty()
            {
                continue;
            }
            if !self.parts.transactions.admit_next(&self.parts.core, &mut self.parts.sessions)
                && !self.parts.core.mail.is_ready()
            {
                return;
            }
        }
    }

    /// Lets a session go on with its held commands.
    fn resume(&mut self, id: SessionId) {
        while let Some(held) = self.parts.sessions.next_held(id) {
            match held {
                Held::Fault(error) => {
                    return self.parts.sessions.end(&mut self.parts.core, id, error);
                }
                Held::Refused(error) => self.parts.refuse_unread(id, error),
                Held::Command(words, bytes) => {
                    if !self.run(id, &words.args()) {
                        return self.parts.sessions.hold_again(id, words, bytes);
                    }
                }
            }
        }
    }
}

impl Parts {
    /// Puts a reply into its place.
    pub(in crate::gateway) fn finish(&mut self, target: Target, reply: Reply) {
        // Those are for the users, whom the gateway has.
        if matches!(target.item, CACHE | LOGIN | USERS) || target == TYPES {
            return self.core.finish(target, reply);
        }
        match self.sessions.finish(&mut self.core, target, reply) {
            Finished::Done => {}
            Finished::Attempt(job, reply) => {
                let effect = self.blocked.attempted(&mut self.core, job, reply);
                self.wait_goes_on(effect);
            }
            Finished::Kept(keep, items) => {
                keep_replies(&mut self.core, &keep.request, &keep.home, items);
            }
        }
    }

    /// Puts the reply of a program into its place, made of those of its commands. Commands without a reply
    /// are carried out now.
    pub(in crate::gateway) fn complete_with(
        &mut self,
        target: Target,
        finish: &Finish,
        items: Vec<Option<Reply>>,
    ) {
        if items.iter().all(Option::is_some) {
            let reply = finish.reply(items);
            return self.finish(target, reply);
        }
        let later = finish.later();
        let later = later.map(|(item, words)| (Target { item, ..target }, words.clone()));
        let Some(session) = self.sessions.get_mut(target.session.0) else {
            return self.finish_without_client(later.collect(), items, finish.keep.as_deref());
        };
        session.about.later.extend(later);
        self.sessions.finish_partly(target, items, finish.keep.clone());
    }
}
