//! Parts of a gateway that carry out programs: they send requests to shards, take the answers and give
//! sessions their replies. [`super::Gateway`] stands above them: it takes inputs, and carries out commands of
//! sessions, which may need users and subscriptions.

use super::acl::denials::Denials;
use super::admin::backup::Backups;
use super::admin::gather::Gathers;
use super::admin::topology::Topology;
use super::api::{Config, Facts, GatewayStats, Question};
use super::clients::sessions::Sessions;
use super::coordination::CoordinationFront;
use super::core::Core;
use super::mail::Mail;
use super::operators::monitor::Monitors;
use super::operators::slow::Slow;
use super::routing::leaders::Leaders;
use super::routing::snapshot::Snapshots;
use super::scripts::Scripts;
use super::slab::Slab;
use super::tracking::Tracking;
use super::txn::recover::Orphans;
use super::txn::table::Transactions;
use super::types::Types;
use super::waiting::blocking::BlockedCommands;
use super::waiting::near::NearLocks;
use super::waiting::turns::Turns;
use crate::cluster::slot::Routes;
use crate::now::Now;
use adt::Timestamp;
use std::collections::{BTreeSet, VecDeque};

/// Parts of a gateway. Each owns its state; the methods of this type pass effects of one part to others.
pub(super) struct Parts {
    pub core: Core,
    pub sessions: Sessions,
    pub snapshots: Snapshots,
    pub transactions: Transactions,
    pub orphans: Orphans,
    pub turns: Turns,
    pub blocked: BlockedCommands,
    pub near_locks: NearLocks,
    pub tracking: Tracking,
    pub coordination: CoordinationFront,
    pub backups: Backups,
    pub gathers: Gathers,
    /// Questions to all gateways that this gateway has not answered yet, with the numbers of their inquiries.
    pub questions: VecDeque<(u64, Question)>,
}

impl Parts {
    /// Parts of a gateway without sessions.
    pub fn new(config: Config, now: Now) -> Self {
        let mut routes = Routes::even(config.shards);
        if let Some(map) = config.members.as_ref().and_then(|members| members.map.as_ref()) {
            routes.follow(map);
        }
        let leaders = config.members.is_some().then(|| Leaders::new(config.leader_wait_us, now));
        let mail = Mail {
            gateway: config.id,
            routes,
            outputs: VecDeque::new(),
            pending: Slab::default(),
            leaders,
            stats: GatewayStats::default(),
        };
        let mut denials = Denials::new(config.id.worker, config.gateways);
        let mut slow = Slow::new(config.id.worker, config.gateways);
        let mut tracking = Tracking::default();
        for (name, value) in &config.settings {
            slow.configure(name, value);
            denials.configure(name, value);
            tracking.keyspace.configure(name, value);
        }
        let core = Core {
            slow,
            denials,
            pause: None,
            monitors: Monitors::default(),
            scripts: Scripts::default(),
            types: Types::default(),
            afterwards: VecDeque::new(),
            replies: VecDeque::new(),
            partial: VecDeque::new(),
            cached: Vec::new(),
            facts: Facts::default(),
            now,
            clock: Timestamp::ZERO,
            decided: Timestamp::ZERO,
            seed: config.seed ^ u64::from(config.id.worker),
            mail,
            timers: BTreeSet::new(),
            topology: Topology::new(config.members.as_ref(), config.id.machine),
            config,
        };
        Self {
            core,
            sessions: Sessions::default(),
            snapshots: Snapshots::default(),
            transactions: Transactions::default(),
            orphans: Orphans::default(),
            turns: Turns::default(),
            blocked: BlockedCommands::default(),
            near_locks: NearLocks::default(),
            tracking,
            coordination: CoordinationFront::default(),
            backups: Backups::default(),
            gathers: Gathers::default(),
            questions: VecDeque::new(),
        }
    }
}
