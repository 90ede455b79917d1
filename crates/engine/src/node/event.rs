//! Events of a node for the gateway of its worker.

use crate::cluster::map::ShardMap;
use crate::cluster::members::Members;
use crate::gateway::{Broadcast, ClusterChange, Gateway, PeerMessage};
use crate::ids::{GatewayId, MachineId, ShardId};
use crate::message::Response;
use crate::now::Now;

/// Event for the gateway of this worker.
#[derive(Debug)]
pub enum Event {
    /// An answer.
    Response(Response),
    /// A message of another gateway.
    Message(GatewayId, PeerMessage),
    /// A task that a gateway of another machine has sent to all.
    Broadcast(Broadcast),
    /// A machine now leads a shard, in the lead with this number (see
    /// [`splits_of`](crate::ids::splits_of)), or the shard has no leader.
    Led(ShardId, Option<(MachineId, u64)>),
    /// The connection to a machine is lost.
    Lost(MachineId),
    /// A new shard map.
    Map(Box<ShardMap>),
    /// A majority of a new shard's machines has its initial state, and this machine leads it: the
    /// map must record that. Repeated until it does.
    SplitDone(ShardId),
    /// Members of a shard, as its leader reports them.
    Members(ShardId, Box<Members>),
}

impl Event {
    /// Passes the event to the gateway.
    #[inline]
    pub fn deliver(self, now: Now, gateway: &mut Gateway) {
        match self {
            Self::Response(response) => gateway.response(now, response),
            Self::Message(from, message) => gateway.peer(now, from, message),
            Self::Broadcast(broadcast) => gateway.broadcast(now, &broadcast),
            Self::Led(shard, leader) => {
                gateway.cluster_changed(now, ClusterChange::Led(shard, leader));
            }
            Self::Lost(machine) => gateway.cluster_changed(now, ClusterChange::Lost(machine)),
            Self::SplitDone(child) => {
                gateway.cluster_changed(now, ClusterChange::SplitDone(child));
            }
            Self::Map(map) => gateway.cluster_changed(now, ClusterChange::Map(map)),
            Self::Members(shard, members) => {
                gateway.cluster_changed(now, ClusterChange::Members(shard, members));
            }
        }
    }
}
