//! Refusals are noted with what is known of the client.

use super::denials::Denied;
use crate::gateway::clients::connection;
use crate::gateway::clients::session::{Session, SessionMode};
use crate::gateway::core::Core;

impl Session {
    /// Notes that a command of the session was refused, and counts it.
    pub(in crate::gateway) fn denied(&self, core: &mut Core, refusal: &Denied) {
        core.mail.stats.denied += 1;
        let user = self.user.as_ref().map_or("", |user| user.name());
        self.denied_as(core, user, refusal);
    }

    /// Notes that the session was refused something as this user.
    pub(in crate::gateway) fn denied_as(&self, core: &mut Core, user: &str, refusal: &Denied) {
        let in_multi = matches!(self.mode, SessionMode::Multi(_));
        let context = if in_multi { "multi" } else { "toplevel" };
        let client = connection::line(self, core.now).to_string();
        core.denials.note(core.now, refusal, (user, context, client));
    }
}
