//! Scripts: the texts that the gateway has read, the commands that clients run them with, and the commands that
//! scripts run. A run is a part of a transaction (`txn/transaction/script.rs`).
//!
//! A text is kept as a record of the store's own ([`crate::reserved`]), so that all machines know it, also
//! after a restart. What a gateway keeps besides is a copy, ready to be run.

mod called;
mod commands;
mod known;

pub(in crate::gateway) use called::{Called, called, may_run};
pub(in crate::gateway) use commands::{no_script, read_text, runs_script};
pub use known::Scripts;

use super::acl::User;
use crate::script::{Script, ScriptInputs, ScriptName};
use std::sync::Arc;

/// Text of a script that is to be run.
#[derive(Clone, Debug)]
pub(in crate::gateway) enum Text {
    /// It was read.
    Read(Arc<Script>),
    /// It is known by its name, if at all.
    Named(ScriptName),
}

/// Call of a script.
#[derive(Clone, Debug)]
pub(in crate::gateway) struct ScriptCall {
    pub text: Text,
    pub inputs: ScriptInputs,
    /// Whether the client says that the script only reads.
    pub only_reads: bool,
    /// User on whose behalf the commands of the script are run.
    pub user: Option<Arc<User>>,
}
