//! `MONITOR`: lines about commands go to the connections that monitor.

use super::monitor::line;
use super::questions::LocalQuestion;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Output, PeerMessage, Question, SessionId};
use crate::gateway::clients::effect::Handled;
use crate::gateway::clients::session::SessionMode;
use crate::gateway::core::Core;
use crate::gateway::parts::Parts;
use crate::ids::GatewayId;
use adt::{Args, Blob, CommandSpec, Flags, Reply};

/// Number of a question to which no reply waits.
const NO_QUESTION: u64 = u64::MAX;

impl Core {
    /// Ends the monitoring of a session. The other gateways are told if it was the last one.
    pub(in crate::gateway) fn stop_monitoring(&mut self, id: SessionId) {
        if !self.monitors.own.remove(&id) || !self.monitors.own.is_empty() {
            return;
        }
        let by = self.config.id;
        for to in self.other_gateways() {
            self.tell(to, LocalQuestion::Monitor { by, on: false });
        }
    }

    /// Sends the other gateways their lines.
    #[cold]
    pub(in crate::gateway) fn send_lines(&mut self) {
        let lines = std::mem::take(&mut self.monitors.lines);
        for to in self.monitors.others.clone() {
            self.tell(to, LocalQuestion::Monitored(lines.clone()));
        }
    }

    fn tell(&mut self, to: GatewayId, question: LocalQuestion) {
        let message = PeerMessage::Ask { ask: NO_QUESTION, question: Question::Local(question) };
        self.mail.outputs.push_back(Output::Peer { to, message });
    }
}

impl Parts {
    /// `MONITOR`.
    pub(in crate::gateway) fn monitor(&mut self, id: SessionId) -> Handled {
        if let Err(error) = self.core.monitors.add(id) {
            return error.into();
        }
        let question = LocalQuestion::Monitor { by: self.core.config.id, on: true };
        self.carry_out(id, Inquiry::of_machine(Combine::Ok, question).into())
    }

    /// Number of commands that a session has queued in `MULTI`, if commands are monitored.
    #[inline]
    pub(in crate::gateway) fn queued(&self, id: SessionId) -> usize {
        let session = self.core.monitors.watch().then(|| self.sessions.get(id.0)).flatten();
        match session.map(|session| &session.mode) {
            Some(SessionMode::Multi(multi)) => multi.counted.len(),
            _ => 0,
        }
    }

    /// Shows a command of a session that was carried out or queued, when so many were queued before, to the
    /// connections that monitor. As in Redis, refused commands and those of operators are not shown.
    #[cold]
    pub(in crate::gateway) fn show(
        &mut self,
        id: SessionId,
        (spec, args): (&CommandSpec, &Args<'_>),
        before: usize,
    ) {
        if spec.flags.has(Flags::ADMIN) || spec.name == "quit" {
            return;
        }
        let queued = self.queued(id) > before;
        let Some(session) = self.sessions.get(id.0) else { return };
        if session.counted.is_none() && !queued {
            return;
        }
        let (peer, database) = (&session.about.opening.peer, session.database);
        let line = Blob::from(line(self.core.now, database, peer, (spec, args)));
        self.monitored(&line);
        if !self.core.monitors.others.is_empty() {
            self.core.monitors.lines.push(line);
        }
    }

    /// Sends a line to the sessions that monitor.
    pub(in crate::gateway) fn monitored(&mut self, line: &Blob) {
        for id in self.core.monitors.own.clone() {
            if let Some(session) = self.sessions.get(id.0) {
                let text = String::from_utf8_lossy(line).into_owned();
                self.core.push(id, session.protocol, Reply::status(text));
            }
        }
    }
}
