//! A pipeline over several shards, and what a shard gets of it.

use adt::{ArgBuf, Timestamp, record};
use engine::message::{Age, GatewayId, KeyedOp, MachineId, ShardId};
use engine::pipeline::{Group, Link, StreamId, Unit};
use smallvec::smallvec;

/// A pipeline.
pub fn stream() -> StreamId {
    let gateway = GatewayId { machine: MachineId(2), worker: 3, life: 5 };
    StreamId(Age { began: Timestamp(21), gateway })
}

/// Places that are handed on.
pub fn links() -> Vec<Link> {
    let link = |seq, place| Link { seq, place: Timestamp(place), term: 3 };
    vec![link(0, 21), link(1, 70_000)]
}

/// What a shard gets of one whose order is handed on.
pub fn chained() -> Group {
    Group { base: 0, fresh: 0, chained: true, ..group() }
}

/// What a shard gets of one.
pub fn group() -> Group {
    let op =
        |line: &str| -> KeyedOp { record::decode(&ArgBuf::of(line.split(' ')).args()).unwrap() };
    Group {
        stream: stream(),
        base: 3,
        fresh: 4,
        homes: vec![ShardId(0), ShardId(7), ShardId(1), ShardId(7)],
        floor: Timestamp(20),
        chained: false,
        units: vec![
            Unit { seq: 4, ops: smallvec![op("set a 1")] },
            Unit { seq: 6, ops: smallvec![op("get a"), op("sadd b 2")] },
        ],
    }
}
