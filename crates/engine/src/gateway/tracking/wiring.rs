//! Tracking and the other parts: commands that read, changes that shards tell of, and clients to be told.

use super::commands::{Switch, parse};
use super::{KeyReader, Told, Tracker, Tracking, invalidation, published};
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::SessionId;
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::{Session, SessionMode};
use crate::gateway::clients::session_commands::{lookup, runs_script};
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;
use crate::gateway::operators::questions::LocalQuestion;
use crate::gateway::target::{CACHE, NOWHERE, Target};
use crate::gateway::timer::Timer;
use crate::gateway::types::known::is_call;
use crate::gateway::waiting::fence::PREFIX;
use crate::ids::ShardId;
use crate::limits::FOLLOW_US;
use crate::message::{Answer, Following};
use adt::command::database::shown;
use adt::kinds::lock::section;
use adt::{Args, Blob, CommandSpec, ErrorReply, Flags, Keys, Reply};
use std::collections::BTreeSet;

/// Commands of clients.
impl Tracking {
    /// `CLIENT TRACKING`.
    pub fn track(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        args: &Args<'_>,
    ) -> Handled {
        if !sessions.is_idle(id) {
            return Handled::Hold;
        }
        let Some(session) = sessions.get_mut(id.0) else { return Handled::Later };
        let tracker = match parse(session, args) {
            Ok(Switch::On(tracker)) => tracker,
            Ok(Switch::Off) => {
                self.end(core, sessions, id);
                return Reply::Ok.into();
            }
            Err(error) => return error.into(),
        };
        let target = sessions.place(id, None);
        sessions.bar(target);
        match tracker.redirect {
            None => self.begin(core, sessions, tracker, target),
            Some(client) => {
                self.asked.insert(id, (tracker, target));
                self.ask_for(id, LocalQuestion::HasClient(client));
            }
        }
        Handled::Later
    }

    /// Asks all gateways about the client that a session is redirected to.
    fn ask_for(&mut self, session: SessionId, question: LocalQuestion) {
        let target = Target { session, seq: 0, item: CACHE };
        self.inquiries.push_back((target, Inquiry::of_machine(Combine::Sum, question)));
    }

    /// Question to all gateways that is to be asked, with the target of the answer.
    pub fn next_inquiry(&mut self) -> Option<(Target, Inquiry)> {
        self.inquiries.pop_front()
    }

    /// Whether there is such a question.
    pub fn has_inquiries(&self) -> bool {
        !self.inquiries.is_empty()
    }

    /// Takes the answer to the question whether there is a client that a session is redirected to, or whether
    /// it was told.
    pub fn redirection_known(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        reply: &Reply,
    ) {
        let exists = matches!(reply, Reply::Int(1..));
        if let Some((tracker, target)) = self.asked.remove(&id) {
            if exists {
                return self.begin(core, sessions, tracker, target);
            }
            let text = "The client ID you want redirect to does not exist";
            return core.finish(target, ErrorReply::err(text).into());
        }
        let Some(session) = sessions.get_mut(id.0).filter(|_| !exists) else { return };
        let protocol = session.protocol;
        let Some(tracker) = &mut session.about.tracker else { return };
        if !std::mem::replace(&mut tracker.broken, true) && protocol == 3 {
            let client = tracker.redirect.map_or(0, |client| client as i64);
            let words = vec![Reply::bulk("tracking-redir-broken"), Reply::Int(client)];
            core.push(id, protocol, Reply::Push(words));
        }
    }

    /// Begins to track for a session. It goes on when all shards are followed.
    fn begin(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        tracker: Tracker,
        target: Target,
    ) {
        let id = target.session;
        let Some(session) = sessions.get_mut(id.0) else { return };
        let (first, fresh) = (self.clients.is_empty(), !self.clients.contains(&id));
        self.set(id, session, tracker);
        self.count(core);
        if first {
            self.feeds.end_all();
        }
        self.want(core);
        self.starting.push((target, fresh));
        self.answer_started(core, sessions, false);
    }

    /// Follows the shards from now on for what the clients want.
    fn want(&mut self, core: &mut Core) {
        let wants = Following { keys: !self.clients.is_empty(), events: self.keyspace.wanted() };
        if wants == self.feeds.wants() {
            return;
        }
        self.feeds.ask(core, wants);
        if !wants.is_empty() && !std::mem::replace(&mut self.timed, true) {
            core.set_timer(FOLLOW_US, Timer::Follow);
        }
    }

    /// Follows a setting, if it is about keyspace events.
    pub fn configure(&mut self, core: &mut Core, name: &str, value: &str) {
        if self.keyspace.configure(name, value) {
            self.want(core);
        }
    }

    /// Notes whether a session has subscribed to keyspace events.
    pub fn heard(&mut self, core: &mut Core, is_heard: bool) {
        self.keyspace.heard(is_heard);
        self.want(core);
    }

    /// Lets a session wait that is about to subscribe to keyspace events, until all shards are followed.
    /// Whether it waits.
    pub fn waits_to_hear(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
    ) -> bool {
        if !self.keyspace.wait(id) {
            return false;
        }
        self.want(core);
        self.answer_started(core, sessions, false);
        true
    }

    /// Answers the clients that have begun to track, if all shards are followed or it takes too long: then
    /// they are told to drop what they hold as soon as all are.
    fn answer_started(&mut self, core: &mut Core, sessions: &mut Sessions, late: bool) {
        let are_live = self.feeds.are_live();
        if late || are_live {
            self.keyspace.let_go(are_live).into_iter().for_each(|id| sessions.resume(id));
            for (target, _) in std::mem::take(&mut self.starting) {
                core.finish(target, Reply::Ok);
            }
        }
    }

    /// Ends the tracking of a session.
    pub fn end(&mut self, core: &mut Core, sessions: &mut Sessions, id: SessionId) {
        if let Some(session) = sessions.get_mut(id.0) {
            self.unset(id, session);
            self.count(core);
        }
        self.keyspace.forget(id);
        self.want(core);
    }

    /// Notes the keys that a command of a tracking session is about to read.
    pub fn before(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        (spec, args): (&CommandSpec, &Args<'_>),
    ) {
        let Some(session) = sessions.get_mut(id.0) else { return };
        let naming = core.naming(session.database);
        let seq = session.base + session.queue.len() as u64;
        let Session { mode, about, .. } = session;
        let Some(tracker) = &mut about.tracker else { return };
        // A transaction may see writes that are never committed, whatever its client wants to be told of.
        let interactive = matches!(mode, SessionMode::Interactive(_));
        let wants = tracker.wants_reads();
        if !wants && !interactive {
            return;
        }
        let mut keys = match inner(spec, args) {
            // The words behind another command have names in them.
            Some(words) => {
                let names = lookup(words.get(0).unwrap_or_default()).map_or_else(
                    || words.get(1).map(Blob::from).into_iter().collect(),
                    |spec| keys_read(spec, &words),
                );
                names.iter().map(|name| naming.key_of(name)).collect()
            }
            None if matches!(spec.keys, Keys::Declared { .. }) => {
                keys_read(spec, args).iter().map(|name| naming.key_of(name)).collect()
            }
            None => keys_read(spec, args),
        };
        match mode {
            SessionMode::Multi(_) if spec.name == "exec" => keys.clone_from(&tracker.queued),
            SessionMode::Multi(_) => return tracker.queued.append(&mut keys),
            _ => {}
        }
        if interactive {
            tracker.seen.extend(keys.iter().cloned());
        }
        if !wants {
            return;
        }
        for key in keys {
            let tracks = |id: SessionId| {
                sessions.get(id.0).is_some_and(|session| session.about.tracker.is_some())
            };
            let forgotten = self.reads(key, KeyReader { session: id, seq }, tracks);
            if let Some((key, readers)) = forgotten {
                let (name, mut told) = (shown(&key), Told::default());
                for reader in readers {
                    told.reader(sessions, reader, &name);
                }
                self.tell_all(core, sessions, told);
            }
        }
        self.count(core);
    }

    /// Forgets what a tracked command has made obsolete.
    pub fn after(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        id: SessionId,
        spec: &CommandSpec,
    ) {
        let Some(session) = sessions.get_mut(id.0) else { return };
        let open = matches!(session.mode, SessionMode::Interactive(_));
        let queues = matches!(session.mode, SessionMode::Multi(_));
        let Some(tracker) = &mut session.about.tracker else { return };
        if !queues {
            tracker.queued.clear();
            if spec.name != "client" {
                tracker.caching = None;
            }
        }
        if !open {
            self.transaction_ended(core, sessions, id);
        }
    }

    /// Tells a session to drop what its transaction has read, which has ended.
    pub fn transaction_ended(&mut self, core: &mut Core, sessions: &mut Sessions, id: SessionId) {
        let Some(session) = sessions.get_mut(id.0) else { return };
        let Some(tracker) = &mut session.about.tracker else { return };
        if !tracker.seen.is_empty() {
            let seen = std::mem::take(&mut tracker.seen);
            let mut names: Vec<Blob> = seen.iter().map(shown).collect();
            names.sort_unstable();
            names.dedup();
            self.tell(core, sessions, id, Some(&names));
        }
    }
}

/// Changes of keys.
impl Tracking {
    /// Follows all shards, and looks at those that are silent.
    pub fn follow(&mut self, core: &mut Core, sessions: &mut Sessions) {
        let wants = self.feeds.wants();
        self.timed = !wants.is_empty();
        if !self.timed {
            // The setting has changed while they waited.
            self.keyspace.let_go(true).into_iter().for_each(|id| sessions.resume(id));
            return;
        }
        core.set_timer(FOLLOW_US, Timer::Follow);
        if self.feeds.end_silent(core.now.mono_us) {
            self.drop_all(core, sessions);
        }
        self.answer_started(core, sessions, true);
        self.feeds.ask(core, wants);
    }

    /// Follows shards whose leaders have changed at once.
    pub fn follow_now(&mut self, core: &mut Core) {
        let wants = self.feeds.wants();
        if !wants.is_empty() {
            self.feeds.ask(core, wants);
        }
    }

    /// Takes the answer of a shard that is followed.
    pub fn followed(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        shard: ShardId,
        answer: &Answer,
    ) {
        let asked = self.feeds.asked(shard).unwrap_or_default();
        if self.feeds.answered(shard, answer) {
            self.drop_all(core, sessions);
        }
        self.feeds.ask_anew(core, shard, asked);
        self.answer_started(core, sessions, false);
    }

    /// Takes a notice of a shard about changed keys.
    pub fn keys_changed(
        &mut self,
        core: &mut Core,
        sessions: &mut Sessions,
        (shard, feed, number): (ShardId, u64, u64),
        keys: &[Blob],
    ) {
        if self.feeds.heard(shard, feed, number) || keys.is_empty() {
            self.drop_all(core, sessions);
        }
        let mut told = Told::default();
        for key in keys {
            self.changed(sessions, key, &mut told);
        }
        self.count(core);
        self.tell_all(core, sessions, told);
    }

    /// Tells all clients to drop everything: changes may have been missed, or are too many.
    pub fn drop_all(&mut self, core: &mut Core, sessions: &mut Sessions) {
        let fresh = self.starting.iter().filter(|(_, fresh)| *fresh);
        let fresh: BTreeSet<SessionId> = fresh.map(|(target, _)| target.session).collect();
        for id in self.clients.difference(&fresh).copied().collect::<Vec<_>>() {
            let Some(session) = sessions.get_mut(id.0) else { continue };
            let last = (session.queue.len() as u64).checked_sub(1);
            if let (Some(tracker), Some(last)) = (&mut session.about.tracker, last) {
                tracker.tell_again(session.base + last, None);
            }
            self.tell(core, sessions, id, None);
        }
    }

    fn tell_all(&mut self, core: &mut Core, sessions: &Sessions, told: Told) {
        for (id, names) in told.0 {
            let names: Vec<Blob> = names.into_iter().collect();
            self.tell(core, sessions, id, Some(&names));
        }
    }

    /// Repeats what a client was told before it had its replies.
    pub fn tell_again(&mut self, core: &mut Core, sessions: &mut Sessions, id: SessionId) {
        let Some(session) = sessions.get_mut(id.0) else { return };
        let base = session.base;
        let Some(tracker) = &mut session.about.tracker else { return };
        let due = tracker.take_again(base);
        if due.iter().any(Option::is_none) {
            self.tell(core, sessions, id, None);
        } else if !due.is_empty() {
            let names: Vec<Blob> = due.into_iter().flatten().collect();
            self.tell(core, sessions, id, Some(&names));
        }
    }

    /// Tells a client, or the one that it is redirected to, that keys have changed, or all of them.
    fn tell(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        id: SessionId,
        names: Option<&[Blob]>,
    ) {
        let Some(session) = sessions.get(id.0) else { return };
        let Some(tracker) = &session.about.tracker else { return };
        match tracker.redirect {
            None if session.protocol == 3 => core.push(id, 3, invalidation(names)),
            None => {}
            Some(client) => {
                let names = names.map(<[Blob]>::to_vec);
                let question = LocalQuestion::Invalidate { client, names };
                if tracker.broken {
                    let inquiry = Inquiry::of_machine(Combine::Sum, question);
                    self.inquiries.push_back((NOWHERE, inquiry));
                } else {
                    self.ask_for(id, question);
                }
            }
        }
    }

    /// Session of a client, if it is at this gateway.
    pub fn client(&mut self, core: &Core, sessions: &Sessions, client: u64) -> Option<SessionId> {
        let is_it = |session: &Session| session.about.client == client;
        let known = self.redirected.get(&client).copied();
        let known = known.filter(|id| sessions.get(id.0).is_some_and(is_it));
        let found = known.or_else(|| {
            // The number says whose client it is.
            let home = client.checked_sub(1)? % u64::from(core.config.gateways.max(1));
            if home != u64::from(core.config.id.worker) {
                return None;
            }
            sessions.of_client(client).map(|(id, _)| id)
        });
        match found {
            Some(id) => drop(self.redirected.insert(client, id)),
            None => drop(self.redirected.remove(&client)),
        }
        found
    }

    /// Tells a client that keys have changed which another one has read. Whether it is there.
    pub fn invalidate(
        &mut self,
        core: &mut Core,
        sessions: &Sessions,
        client: u64,
        names: Option<&[Blob]>,
    ) -> bool {
        let Some(id) = self.client(core, sessions, client) else { return false };
        let Some(session) = sessions.get(id.0) else { return false };
        match session.protocol {
            3 => core.push(id, 3, invalidation(names)),
            protocol if session.subscribed.all() > 0 => core.push(id, protocol, published(names)),
            _ => {}
        }
        true
    }
}

/// Keys or names in the words of a command that it reads.
fn keys_read(spec: &CommandSpec, args: &Args<'_>) -> Vec<Blob> {
    if !(spec.flags.has(Flags::READ) || runs_script(spec) || is_call(spec)) {
        return Vec::new();
    }
    let positions = spec.keys.positions(args).unwrap_or_default();
    positions.into_iter().filter_map(|at| args.get(at)).map(Blob::from).collect()
}

/// Words of the command behind `FENCE` or `LOCK.SECTION`.
fn inner<'a>(spec: &CommandSpec, args: &Args<'a>) -> Option<Args<'a>> {
    match spec.name {
        "fence" => args.tail(PREFIX),
        "lock.section" => args.tail(section(args).ok()?.1),
        _ => None,
    }
}
