//! Requests of a gateway to shards, about locks that it keeps for the clients of its server.

use crate::ids::GatewayId;

/// A gateway of this server, and its number for a request.
pub(super) type Caller = (GatewayId, u64);

/// Purpose of a gateway's request to a shard, about a lock that the gateway keeps.
#[derive(Debug)]
pub(in crate::gateway) enum NearPurpose {
    /// To get the lock.
    Lock { since_us: u64, lease_us: u64 },
    /// To renew the lease of the grant with this first token; on behalf of a client whose stay has the
    /// other token, if one waits for that.
    Lease { first: u64, since_us: u64, lease_us: u64, asks: Option<(Caller, u64)> },
    /// To learn when others want the lock that the gateway holds by this token.
    Wanted { first: u64 },
    /// To give the lock back.
    Return,
}
