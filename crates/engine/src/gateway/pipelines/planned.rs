//! Commands of a session that are dispatched in the session's order.

use crate::gateway::target::Target;
use crate::gateway::txn::work::Finish;
use crate::ids::KeyedOp;
use smallvec::SmallVec;

/// Command that is carried out at its place in its session's order.
#[derive(Debug)]
pub(in crate::gateway) struct Planned {
    pub target: Target,
    pub ops: SmallVec<[KeyedOp; 1]>,
    /// Recipe for its reply; none for a single operation, whose reply is the reply.
    pub finish: Option<Box<Finish>>,
}
