//! Surroundings of a transaction while it handles an input.

use super::intents::Intents;
use crate::gateway::api::SessionId;
use crate::gateway::core::Core;
use crate::gateway::txn::admission::Admission;
use crate::gateway::txn::lease::Leases;
use crate::ids::TxnId;
use adt::ErrorReply;
use adt::collections::Map;
use std::collections::VecDeque;

/// Effect of a transaction on its session.
pub(in crate::gateway::txn) enum TxnEffect {
    /// The session is outside of a transaction again.
    Left(SessionId),
    /// The interactive transaction was aborted. The next one of the session is as old. Commands of this one
    /// are answered with the error until the client ends it, unless it is over.
    Aborted { session: SessionId, txn: TxnId, error: ErrorReply, over: bool },
}

/// Surroundings of a transaction while it handles an input.
pub(in crate::gateway::txn) struct TxnContext<'a> {
    pub core: &'a mut Core,
    /// Number of the transaction.
    pub job: u64,
    /// Numbers of all transactions by the names under which shards know them.
    pub names: &'a mut Map<TxnId, u64>,
    pub leases: &'a mut Leases,
    pub intents: &'a mut Intents,
    pub admission: &'a mut Admission,
    pub effects: &'a mut VecDeque<TxnEffect>,
}
