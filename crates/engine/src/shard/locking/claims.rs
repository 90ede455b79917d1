//! Claims of requests: operations on records, and how each relates to its transaction's commit.

use super::locks::{Claim, Class};
use crate::entry::Apply;
use crate::ids::{Age, GatewayId, TxnId};
use crate::message::{Body, Condition, Early, Guard, Request};
use crate::now::Now;
use crate::shard::streams::claim_class;
use adt::command::tags::TagRules;
use adt::key::KeyOp;
use adt::{Blob, Op, Timestamp};
use smallvec::{SmallVec, smallvec};

/// Claims of a request, each with its record.
pub(in crate::shard) type Claims = SmallVec<[(Blob, Claim); 1]>;

/// The claims of a request.
pub(in crate::shard) fn claims_of(body: &Body, tags: &TagRules) -> Claims {
    let early = Class::Early { observed: true };
    let guards = |apply: &Apply, class| {
        let guard = move |guard: &Guard| {
            // Whether a key stayed absent is judged here and now, behind the operations on their way.
            let class = if guard.is_absence() { early } else { class };
            let read = match &guard.condition {
                Condition::Unchanged(_) => Op::Key(KeyOp::Fetch),
                Condition::Replies(expected) => expected.read.clone(),
            };
            (guard.key.clone(), Claim::new(read, class))
        };
        apply.guards.iter().map(guard).collect::<Claims>()
    };
    let ops = |apply: &Apply, class| {
        let claim = move |(key, op): &(Blob, Op)| (key.clone(), Claim::new(op.clone(), class));
        apply.ops.iter().map(claim).collect::<Claims>()
    };
    match body {
        Body::Read { key, op, .. } => {
            smallvec![(key.clone(), Claim::new(op.clone(), Class::Passing))]
        }
        Body::Version { key } => {
            smallvec![(key.clone(), Claim::new(Op::Key(KeyOp::Fetch), Class::Passing))]
        }
        Body::Snapshot { ops, .. } => {
            ops.iter().map(|(k, op)| (k.clone(), Claim::new(op.clone(), Class::Passing))).collect()
        }
        // Writes whose replies come with the commit are locked together, to see whether all are possible.
        Body::Lock { txn, key, op, own, early } => {
            // Others may join a lease for long, and are told nothing of what its value rests on.
            let ahead = *early != Early::Deferred && !txn.is_lease();
            let observed = *early != Early::Deferred || !op.is_write();
            let announced = *early == Early::Announced;
            let behind_own = !own.is_empty();
            let claim = |op: &Op| {
                let claim = Claim::new(op.clone(), Class::Early { observed });
                // Changes of a quantity go side by side, though their transactions have tested it before.
                let announced = announced && claim.share.is_none();
                let behind_own = behind_own && claim.share.is_none();
                (key.clone(), Claim { announced, ahead, behind_own, ..claim })
            };
            let own = own.iter().filter(|_| !observed);
            own.chain([op]).map(claim).collect()
        }
        // It is not known what the script does with them. Those behind the first must find theirs free.
        Body::Run(runs) => {
            let keys = runs.first().into_iter().flat_map(|run| run.keys(tags));
            keys.map(|key| (key, Claim::of_script())).collect()
        }
        Body::Apply(apply) | Body::Await { apply, .. } => {
            let mut claims = ops(apply, Class::Apply);
            claims.extend(guards(apply, Class::Passing));
            claims
        }
        Body::Prepare { prepare, .. } if prepare.participants.len() == 1 => {
            let mut claims = ops(&prepare.apply, Class::Apply);
            claims.extend(guards(&prepare.apply, Class::Passing));
            claims
        }
        Body::Pipeline(group) => {
            let class = claim_class(group);
            let claim = |(key, op): &(Blob, Op)| (key.clone(), Claim::new(op.clone(), class));
            group.ops().map(claim).collect()
        }
        Body::Prepare { prepare, .. } => {
            let mut claims = ops(&prepare.apply, Class::Prepared);
            claims.extend(guards(&prepare.apply, early));
            claims
        }
        _ => Claims::new(),
    }
}

/// Whether a request that is granted changes records.
pub(super) fn writes(body: &Body) -> bool {
    matches!(
        body,
        Body::Apply(_)
            | Body::Run(_)
            | Body::Await { .. }
            | Body::Prepare { .. }
            | Body::Pipeline(_)
    )
}

/// The transaction that a request for locks belongs to.
pub(super) fn txn_of(body: &Body) -> Option<TxnId> {
    match body {
        Body::Lock { txn, .. } => Some(*txn),
        Body::Prepare { prepare, .. } => Some(prepare.txn),
        _ => None,
    }
}

/// Age of a request, which decides its place in the queues.
pub(super) fn age_of(now: Now, request: &Request) -> Age {
    if matches!(request.body, Body::Pipeline(_)) {
        // Others of its stream may hold up whatever this waits for, and cannot give way.
        return Age::OLDEST;
    }
    txn_of(&request.body).map_or(
        // No transaction has such an age, so that of two requests that wait for each other one is older.
        Age { began: Timestamp::from_micros(now.wall_us), gateway: GatewayId::LAST },
        |txn| txn.age,
    )
}
