//! Scripts: the texts that the gateway has read, and calls of them. The commands that call them are in
//! `commands`. A run is a part of a transaction (`txn/transaction/script.rs`).
//!
//! A text is kept as a record of the store's own ([`crate::script::keys`]), so that all machines know it,
//! also after a restart. What a gateway keeps besides is a copy, ready to be run.

pub(in crate::gateway) mod commands;
mod dump;
mod functions;
pub(in crate::gateway) mod kept;
mod known;
pub(in crate::gateway) mod queue;
mod queued;

pub(in crate::gateway) use known::RunPlace;
pub use known::Scripts;

use super::acl::User;
use crate::script::{Script, ScriptInputs, ScriptName};
use adt::Blob;
use std::sync::Arc;

/// Text of a script that is to be run.
#[derive(Clone, Debug)]
pub(in crate::gateway) enum Text {
    /// Text that was read.
    Read(Arc<Script>),
    /// Name of a text that the store knows, or does not.
    Named(ScriptName),
    /// Name of a function of a library that the store has, or has not.
    Function(Blob),
}

/// Call of a script.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct ScriptCall {
    pub text: Text,
    pub inputs: Arc<ScriptInputs>,
    /// Whether the client says that the script only reads.
    pub only_reads: bool,
    /// Database that the client had selected.
    pub database: u8,
    /// User on whose behalf the commands of the script are run.
    pub user: Option<Arc<User>>,
}

impl ScriptCall {
    /// Whether this is the user on whose behalf the script is run, with the rights of that moment.
    pub fn is_of(&self, user: Option<&Arc<User>>) -> bool {
        self.user.as_ref().map(Arc::as_ptr) == user.map(Arc::as_ptr)
    }

    /// The user whose rights the commands of the script need. The right to call an operation of a type is the
    /// right to do what it does.
    pub fn user_of_commands(&self) -> Option<&Arc<User>> {
        let of_type = matches!(&self.text, Text::Read(script) if script.operation.is_some());
        self.user.as_ref().filter(|_| !of_type)
    }

    /// Whether the commands of the script are checked one by one, because its user may not do everything.
    pub fn is_limited(&self) -> bool {
        self.user_of_commands().is_some_and(|user| !user.everything())
    }
}
