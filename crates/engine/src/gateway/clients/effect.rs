//! Effects of commands that are worked out by parts of a gateway, for the wiring to carry out.

use super::session::Session;
use crate::gateway::acl::Users;
use crate::gateway::admin::inquiry::Inquiry;
use crate::gateway::api::Admin;
use crate::gateway::core::Core;
use adt::{ErrorReply, Reply};

/// Outcome of a command of a session.
pub(in crate::gateway) enum Handled {
    /// The reply is known.
    Reply(Reply),
    /// The reply comes later, or has been sent.
    Later,
    /// The command must wait until everything before it is answered.
    Hold,
}

/// Effect of a command that was worked out without changing more than its session.
pub(in crate::gateway) enum CommandEffect {
    /// The reply is known.
    Reply(Reply),
    /// There is no reply.
    Silent,
    /// The command must wait until everything before it is answered.
    Hold,
    /// Shards or gateways are to be asked.
    Inquire(Box<Inquiry>),
    /// Shards are to be asked without waiting for the replies to earlier commands.
    Ask(Box<Inquiry>),
    /// A cut through all shards is to begin.
    Cut,
    /// The server is to do something.
    Serve(Admin),
}

/// State that such a command may look at, and the session that it may change.
pub(in crate::gateway) struct View<'a> {
    pub core: &'a Core,
    pub users: &'a Users,
    pub session: &'a mut Session,
    /// Whether everything that the session has sent before is answered.
    pub idle: bool,
}

impl From<Reply> for Handled {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<ErrorReply> for Handled {
    fn from(error: ErrorReply) -> Self {
        Self::Reply(error.into())
    }
}

impl From<Reply> for CommandEffect {
    fn from(reply: Reply) -> Self {
        Self::Reply(reply)
    }
}

impl From<ErrorReply> for CommandEffect {
    fn from(error: ErrorReply) -> Self {
        Self::Reply(error.into())
    }
}

impl From<Inquiry> for CommandEffect {
    fn from(inquiry: Inquiry) -> Self {
        Self::Inquire(Box::new(inquiry))
    }
}
