//! Tracking and the other parts: commands that read, changes that shards tell of, and clients to be told.

use super::commands::{Change, parse};
use super::{Reader, Told, Tracker, invalidation, published};
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Session, SessionMode};
use crate::gateway::clients::session_commands::runs_script;
use crate::gateway::operators::questions::LocalQuestion;
use crate::gateway::parts::Parts;
use crate::gateway::target::{CACHE, NOWHERE, Target};
use crate::gateway::timer::Timer;
use crate::gateway::types::known::is_call;
use crate::ids::ShardId;
use crate::limits::FOLLOW_US;
use crate::message::Answer;
use adt::command::database::shown;
use adt::{Args, Blob, CommandSpec, ErrorReply, Flags, Keys, Reply};

/// Commands of clients.
impl Parts {
    /// `CLIENT TRACKING`.
    pub(in crate::gateway) fn track(&mut self, id: SessionId, args: &Args<'_>) -> Handled {
        if !self.sessions.is_idle(id) {
            return Handled::Hold;
        }
        let Some(session) = self.sessions.get_mut(id.0) else { return Handled::Later };
        let tracker = match parse(session, args) {
            Ok(Change::On(tracker)) => tracker,
            Ok(Change::Off) => {
                self.tracking.end(id, session);
                self.count_tracking();
                return Reply::Ok.into();
            }
            Err(error) => return error.into(),
        };
        let target = self.sessions.place(id, None);
        self.sessions.bar(target);
        match tracker.redirect {
            None => self.tracks(tracker, target),
            Some(client) => {
                self.tracking.asked.insert(id, (tracker, target));
                let question = LocalQuestion::HasClient(client);
                let target = Target { session: id, seq: 0, item: CACHE };
                self.gather(target, Inquiry::of_machine(Combine::Sum, question));
            }
        }
        Handled::Later
    }

    /// Takes the answer to the question whether there is a client that a session is redirected to, or whether
    /// it was told.
    pub(in crate::gateway) fn redirection_known(&mut self, id: SessionId, reply: &Reply) {
        let exists = matches!(reply, Reply::Int(1..));
        if let Some((tracker, target)) = self.tracking.asked.remove(&id) {
            if exists {
                return self.tracks(tracker, target);
            }
            let text = "The client ID you want redirect to does not exist";
            return self.core.finish(target, ErrorReply::err(text).into());
        }
        let Some(session) = self.sessions.get_mut(id.0).filter(|_| !exists) else { return };
        let protocol = session.protocol;
        let Some(tracker) = &mut session.about.tracker else { return };
        if !std::mem::replace(&mut tracker.broken, true) && protocol == 3 {
            let client = tracker.redirect.map_or(0, |client| client as i64);
            let words = vec![Reply::bulk("tracking-redir-broken"), Reply::Int(client)];
            self.core.push(id, protocol, Reply::Push(words));
        }
    }

    /// Begins to track for a session. It goes on when all shards are followed.
    fn tracks(&mut self, tracker: Tracker, target: Target) {
        let id = target.session;
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let first = self.tracking.sessions() == 0;
        self.tracking.set(id, session, tracker);
        self.count_tracking();
        if first {
            self.tracking.feeds.end_all();
            self.tracking.feeds.ask(&mut self.core);
        }
        if !std::mem::replace(&mut self.tracking.timed, true) {
            self.core.set_timer(FOLLOW_US, Timer::Follow);
        }
        self.tracking.starting.push(target);
        self.start_tracking(false);
    }

    /// Answers the clients that have begun to track, if all shards are followed or it takes too long: they are
    /// told to drop what they hold when they are.
    fn start_tracking(&mut self, late: bool) {
        if late || self.tracking.feeds.are_live() {
            for target in std::mem::take(&mut self.tracking.starting) {
                self.core.finish(target, Reply::Ok);
            }
        }
    }

    /// Ends the tracking of a session that is gone, or was reset.
    pub(in crate::gateway) fn end_tracking(&mut self, id: SessionId) {
        if let Some(session) = self.sessions.get_mut(id.0) {
            self.tracking.end(id, session);
            self.count_tracking();
        }
    }

    fn count_tracking(&mut self) {
        let stats = &mut self.core.mail.stats;
        stats.tracking = self.tracking.sessions() as u64;
        stats.tracked_prefixes = self.tracking.prefixes() as u64;
        stats.tracked_keys = self.tracking.keys() as u64;
    }

    /// Notes the keys that a command of a tracking session is about to read.
    pub(in crate::gateway) fn before_tracked(
        &mut self,
        id: SessionId,
        spec: &CommandSpec,
        args: &Args<'_>,
    ) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let naming = self.core.naming(session.database);
        let seq = session.base + session.queue.len() as u64;
        let Session { mode, about, .. } = session;
        let Some(tracker) = &mut about.tracker else { return };
        let wants = tracker.wants_reads();
        let mut keys: Vec<Blob> = Vec::new();
        if spec.flags.has(Flags::READ) || runs_script(spec) || is_call(spec) {
            let positions = spec.keys.positions(args).unwrap_or_default();
            keys.extend(positions.into_iter().filter_map(|at| args.get(at)).map(Blob::from));
            if matches!(spec.keys, Keys::Declared { .. }) {
                keys.iter_mut().for_each(|key| *key = naming.key_of(key));
            }
        }
        match mode {
            SessionMode::Multi(_) if spec.name == "exec" => {
                keys.clone_from(&tracker.queued);
            }
            SessionMode::Multi(_) if wants => return tracker.queued.append(&mut keys),
            SessionMode::Interactive(_) if wants => tracker.seen.extend(keys.iter().cloned()),
            _ if wants => {}
            _ => return,
        }
        for key in keys {
            let forgotten = self.tracking.reads(key, Reader { session: id, seq });
            if let Some((key, readers)) = forgotten {
                let (name, mut told) = (shown(&key), Told::default());
                for reader in readers {
                    told.reader(&mut self.sessions, reader, &name);
                }
                self.tell_all(told);
            }
        }
        self.core.mail.stats.tracked_keys = self.tracking.keys() as u64;
    }

    /// Forgets what a tracked command has made obsolete. Tells its session to drop what its transaction has
    /// read, if that is over.
    pub(in crate::gateway) fn after_tracked(&mut self, id: SessionId, spec: &CommandSpec) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let open = matches!(session.mode, SessionMode::Interactive(_));
        let queues = matches!(session.mode, SessionMode::Multi(_));
        let Some(tracker) = &mut session.about.tracker else { return };
        if !queues {
            tracker.queued.clear();
            if spec.name != "client" {
                tracker.caching = None;
            }
        }
        if !open && !tracker.seen.is_empty() {
            let mut names: Vec<Blob> =
                std::mem::take(&mut tracker.seen).iter().map(shown).collect();
            names.sort_unstable();
            names.dedup();
            self.tell(id, Some(&names));
        }
    }
}

/// Changes of keys.
impl Parts {
    /// Follows all shards, and looks at those that are silent.
    pub(in crate::gateway) fn follow(&mut self) {
        self.tracking.timed = self.tracking.sessions() > 0;
        if !self.tracking.timed {
            return;
        }
        self.core.set_timer(FOLLOW_US, Timer::Follow);
        if self.tracking.feeds.end_silent(self.core.now.mono_us) {
            self.drop_all();
        }
        self.start_tracking(true);
        self.tracking.feeds.ask(&mut self.core);
    }

    /// Follows shards whose leaders have changed at once.
    pub(in crate::gateway) fn follow_now(&mut self) {
        if self.tracking.sessions() > 0 {
            self.tracking.feeds.ask(&mut self.core);
        }
    }

    /// Takes the answer of a shard that is followed.
    pub(in crate::gateway) fn followed(&mut self, shard: ShardId, answer: &Answer) {
        let others = self.tracking.sessions() > self.tracking.starting.len();
        if self.tracking.feeds.answered(shard, answer) && others {
            self.drop_all();
        }
        self.start_tracking(false);
    }

    /// Takes a notice of a shard about changed keys.
    pub(in crate::gateway) fn keys_changed(
        &mut self,
        shard: ShardId,
        (feed, number): (u64, u64),
        keys: &[Blob],
    ) {
        if self.tracking.feeds.heard(shard, feed, number) || keys.is_empty() {
            self.drop_all();
        }
        let mut told = Told::default();
        for key in keys {
            self.tracking.changed(&mut self.sessions, key, &mut told);
        }
        self.core.mail.stats.tracked_keys = self.tracking.keys() as u64;
        self.tell_all(told);
    }

    /// Tells all clients to drop everything: changes may have been missed, or are too many.
    pub(in crate::gateway) fn drop_all(&mut self) {
        for id in self.tracking.sessions.clone() {
            let Some(session) = self.sessions.get_mut(id.0) else { continue };
            let last = session.queue.len() as u64;
            if let (Some(tracker), Some(last)) = (&mut session.about.tracker, last.checked_sub(1)) {
                tracker.tell_again(session.base + last, None);
            }
            self.tell(id, None);
        }
    }

    fn tell_all(&mut self, told: Told) {
        for (id, names) in told.0 {
            self.tell(id, Some(&names));
        }
    }

    /// Repeats what a client was told before it had its replies.
    pub(in crate::gateway) fn tell_again(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(id.0) else { return };
        let base = session.base;
        let Some(tracker) = &mut session.about.tracker else { return };
        let due = tracker.take_again(base);
        if due.iter().any(Option::is_none) {
            self.tell(id, None);
        } else if !due.is_empty() {
            let names: Vec<Blob> = due.into_iter().flatten().collect();
            self.tell(id, Some(&names));
        }
    }

    /// Tells a client, or the one that it is redirected to, that keys have changed, or all of them.
    fn tell(&mut self, id: SessionId, names: Option<&[Blob]>) {
        let Some(session) = self.sessions.get(id.0) else { return };
        let Some(tracker) = &session.about.tracker else { return };
        match tracker.redirect {
            None if session.protocol == 3 => self.core.push(id, 3, invalidation(names)),
            None => {}
            Some(client) => {
                let names = names.map(<[Blob]>::to_vec);
                let target = if tracker.broken {
                    NOWHERE
                } else {
                    Target { session: id, seq: 0, item: CACHE }
                };
                let question = LocalQuestion::Invalidate { client, names };
                self.gather(target, Inquiry::of_machine(Combine::Sum, question));
            }
        }
    }

    /// Session of a client, if it is at this gateway.
    pub(in crate::gateway) fn client(&mut self, client: u64) -> Option<SessionId> {
        let is_it = |session: &Session| session.about.client == client;
        let known = self.tracking.redirected.get(&client).copied();
        let known = known.filter(|id| self.sessions.get(id.0).is_some_and(is_it));
        let found = known.or_else(|| {
            // The number says whose client it is.
            let home = client.checked_sub(1)? % u64::from(self.core.config.gateways.max(1));
            if home != u64::from(self.core.config.id.worker) {
                return None;
            }
            self.sessions.iter().find(|(_, session)| is_it(session)).map(|(id, _)| SessionId(id))
        });
        match found {
            Some(id) => drop(self.tracking.redirected.insert(client, id)),
            None => drop(self.tracking.redirected.remove(&client)),
        }
        found
    }

    /// Tells a client that keys have changed which another one has read. Whether it is there.
    pub(in crate::gateway) fn invalidate(&mut self, client: u64, names: Option<&[Blob]>) -> bool {
        let Some(id) = self.client(client) else { return false };
        let Some(session) = self.sessions.get(id.0) else { return false };
        match session.protocol {
            3 => self.core.push(id, 3, invalidation(names)),
            protocol if session.subscribed.all() > 0 => {
                self.core.push(id, protocol, published(names));
            }
            _ => {}
        }
        true
    }
}
