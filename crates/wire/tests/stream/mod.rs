//! A pipeline over several shards, and the groups that a shard receives of it.

use adt::{ArgBuf, Blob, Timestamp, record};
use engine::coordination::service::Command;
use engine::coordination::{Ask, Change, OfSession, Read, TreeSessionId, Write, Zxid};
use engine::ids::{Age, GatewayId, KeyedOp, MachineId, ShardId, StreamId};
use engine::pipeline::{Group, Link, Unit};
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

/// Group of a chained pipeline.
pub fn chained() -> Group {
    Group { base: 0, fresh: 0, chained: true, ..group() }
}

/// Group of requests that a session of the coordination service has sent ahead: a change and a
/// read.
pub fn asking() -> Group {
    let (session, path) = (TreeSessionId(7), Blob::from("/jobs/7"));
    let delete = Change::Delete { path: path.clone(), version: 3 };
    let command = Command::of(session, Write::Change(delete));
    let change = Ask::Write(Command { after: Zxid(5), ..command });
    let read = OfSession::Read { identities: Vec::new(), read: Read::Data(path), watch: true };
    let asks = [change, Ask::Of(session, read)];
    let unit = |(seq, ask): (u32, Ask)| {
        let ops = ask.footprint().tickets();
        Unit { seq, ops, ask: Some(Box::new(ask)) }
    };
    Group { units: [4, 6].into_iter().zip(asks).map(unit).collect(), ..group() }
}

/// Group of a pipeline.
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
            Unit { seq: 4, ops: smallvec![op("set a 1")], ask: None },
            Unit { seq: 6, ops: smallvec![op("get a"), op("sadd b 2")], ask: None },
        ],
    }
}
