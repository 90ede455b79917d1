//! Answers of a gateway to questions of operators.

use super::questions::{LocalKnowledge, LocalQuestion};
use crate::gateway::api::Knowledge;
use crate::gateway::parts::Parts;

impl Parts {
    /// Answers a question for this gateway.
    pub(in crate::gateway) fn know_here(&mut self, question: &LocalQuestion) -> Knowledge {
        let local = |known| Knowledge::Local(Box::new(known));
        let slow = &mut self.core.slow;
        match question {
            LocalQuestion::SlowCommands(most) => {
                local(LocalKnowledge::SlowCommands(slow.log.newest(*most)))
            }
            LocalQuestion::SlowCount => Knowledge::Count(slow.log.count() as i64),
            LocalQuestion::ForgetSlow => {
                slow.log.clear();
                Knowledge::Count(0)
            }
            LocalQuestion::Events => local(LocalKnowledge::Events(slow.spikes.events())),
            LocalQuestion::ForgetEvents(kinds) => Knowledge::Names(slow.spikes.forget(kinds)),
            LocalQuestion::Durations => local(LocalKnowledge::Durations(slow.durations.clone())),
            LocalQuestion::Denials => {
                local(LocalKnowledge::Denials(self.core.denials.newest(usize::MAX)))
            }
            LocalQuestion::ForgetDenials => {
                self.core.denials.clear();
                Knowledge::Count(0)
            }
            LocalQuestion::Pause { ms, all } => {
                self.core.pause(*ms, *all);
                Knowledge::Count(0)
            }
            LocalQuestion::Unpause => {
                self.end_pause();
                Knowledge::Count(0)
            }
            LocalQuestion::Monitor { by, on } => {
                if *by != self.core.config.id {
                    self.core.monitors.follow(*by, *on);
                }
                Knowledge::Count(0)
            }
            LocalQuestion::HasClient(client) => Knowledge::Count(i64::from(
                self.tracking.client(&self.core, &self.sessions, *client).is_some(),
            )),
            LocalQuestion::Invalidate { client, names } => {
                let Parts { core, sessions, tracking, .. } = self;
                let told = tracking.invalidate(core, sessions, *client, names.as_deref());
                Knowledge::Count(i64::from(told))
            }
            LocalQuestion::Monitored(lines) => {
                lines.iter().for_each(|line| self.monitored(line));
                Knowledge::Count(0)
            }
        }
    }
}
