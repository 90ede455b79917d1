//! Effects of waits on sessions, for the gateway to carry out.

use crate::gateway::api::SessionId;
use crate::gateway::target::Target;
use crate::gateway::txn::work::{Finish, Program};
use crate::ids::{KeyedOp, RequestId};
use adt::{Blob, Op};

/// Step that a wait needs from outside of its part.
pub(in crate::gateway) enum WaitEffect {
    /// The command has its reply: the session is blocked no longer.
    Ended(SessionId),
    /// All shards have the session of a blocked command in their queues.
    Arrived(SessionId),
    /// A program is to make the first attempt of a blocked move.
    Launch(Program),
    /// A transaction is to take what a shard keeps for a blocked command.
    Take { target: Target, ops: Vec<KeyedOp>, finish: Finish },
    /// A transaction is to move what a shard keeps for a blocked command.
    Move(Program),
    /// The shard is to carry out an operation that is about no stay in a lock of this server.
    Forward { target: Target, key: Blob, op: Op, request: Option<RequestId> },
}
