//! Stories about a snapshot that comes from another machine, piece by piece.

use engine::entry::{SnapshotCodec, SnapshotPart};
use engine::ids::{GatewayId, MachineId, ShardId};
use engine::limits::REAP_US;
use engine::message::Concurrency;
use engine::node::{Node, Parcel, Placing, SnapshotPiece, Taken, To, Transfer};
use engine::now::Now;
use engine::replica::{Replica, Setup};
use engine::replication::{Membership, Recovered};
use engine::shard;
use raft::eraftpb::{Message, MessageType};
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

const SHARD: ShardId = ShardId(0);
const NOW: Now = Now { wall_us: 1_000_000_000, mono_us: 1_000_000 };
const SENDER: MachineId = MachineId(2);
const INDEX: u64 = 40;

/// Follower without data, connected to a machine with much data.
fn follower() -> Node<EntryFormat> {
    let id = GatewayId { machine: MachineId(1), worker: 0, life: 1 };
    let concurrency = Concurrency::named("full").unwrap();
    let voters = (1..=3).map(MachineId).collect();
    let setup = Setup {
        shard: shard::ShardConfig {
            id: SHARD,
            concurrency,
            seed: 1,
            beside: id,
            clustered: true,
            reap_us: REAP_US,
            broken: None,
            interpreter: None,
            tags: adt::command::tags::TagRules::NONE,
        },
        membership: Membership::clustered(id.machine, voters),
    };
    let replica = Replica::recover(setup, EntryFormat, NOW, vec![], Recovered::default());
    let placing = Placing {
        map: None,
        left: Default::default(),
        codec: EntryFormat,
        concurrency,
        seed: 1,
        reap_us: REAP_US,
        interpreter: None,
    };
    let own = vec![replica.unwrap()];
    let mut node = Node::new(id, 1, 1, Some(placing), own, Box::new(SnapshotFormat));
    node.connect(NOW, SENDER);
    node
}

/// An empty snapshot.
fn snapshot() -> Vec<u8> {
    let clock = adt::Timestamp(7);
    let header =
        SnapshotPart::Header { shard: SHARD, index: INDEX, term: 3, clock, removed: clock };
    let mut bytes = Vec::new();
    for part in [header, SnapshotPart::End { parts: 1 }] {
        SnapshotFormat.encode(&part, &mut bytes);
    }
    bytes
}

/// Delivers the sender's next piece.
fn piece(node: &mut Node<EntryFormat>, offset: usize, bytes: &[u8], last: bool) -> Option<u64> {
    piece_of(node, SENDER, offset, bytes, last)
}

fn piece_of(
    node: &mut Node<EntryFormat>,
    sender: MachineId,
    offset: usize,
    bytes: &[u8],
    last: bool,
) -> Option<u64> {
    let mut message = Message::default();
    message.set_msg_type(MessageType::MsgSnapshot);
    (message.from, message.to, message.term) = (sender.0.into(), 1, 3);
    let metadata = message.mut_snapshot().mut_metadata();
    (metadata.index, metadata.term) = (INDEX, 3);
    metadata.mut_conf_state().voters = vec![1, 2, 3];
    let (offset, bytes, message) = (offset as u64, bytes.to_vec(), Box::new(message));
    let piece = SnapshotPiece { shard: SHARD, offset, bytes, last, message };
    node.take(NOW, sender, Parcel::Snapshot(piece)).unwrap();
    let mut numbers = std::iter::from_fn(|| node.poll_transfer()).filter_map(|task| match task {
        Transfer::Write { number, .. } => Some(number),
        _ => None,
    });
    numbers.next()
}

/// Messages to the sender.
fn sent_answers(node: &mut Node<EntryFormat>) -> Vec<Taken> {
    let parcels = std::iter::from_fn(|| node.poll_parcel());
    let taken = parcels.filter_map(|(to, parcel)| match parcel {
        Parcel::SnapshotTaken { taken, .. } if to == To::Machine(SENDER) => Some(taken),
        _ => None,
    });
    taken.collect()
}

/// Writes to the log until nothing is left to write.
fn write_log(node: &mut Node<EntryFormat>) {
    while let Some(persist) = node.replica_mut(SHARD).unwrap().take_persist() {
        node.persisted(NOW, SHARD, persist.number).unwrap();
    }
}

#[test]
fn a_snapshot_comes_piece_by_piece_and_stands_in_the_place_of_the_log() {
    let (mut node, bytes) = (follower(), snapshot());
    let (begin, end) = bytes.split_at(10);
    let number = piece(&mut node, 0, begin, false).unwrap();
    assert_eq!(sent_answers(&mut node), []);
    node.snapshot_written(NOW, (SHARD, number), true).unwrap();
    assert_eq!(sent_answers(&mut node), [Taken::Next(10)]);
    let number = piece(&mut node, 10, end, true).unwrap();
    assert_eq!(sent_answers(&mut node), [], "it is not durable");
    node.snapshot_written(NOW, (SHARD, number), true).unwrap();
    assert_eq!(sent_answers(&mut node), [Taken::Complete]);
    write_log(&mut node);
    assert_eq!(node.replica(SHARD).unwrap().group().applied(), (INDEX, 3));
}

#[test]
fn what_was_written_before_the_link_was_lost_does_not_count_for_what_came_after() {
    let (mut node, bytes) = (follower(), snapshot());
    let late = piece(&mut node, 0, &bytes[..10], false).unwrap();
    node.disconnect(NOW, SENDER);
    node.connect(NOW, SENDER);
    // The same snapshot again, this time in one piece.
    let number = piece(&mut node, 0, &bytes, true).unwrap();
    node.snapshot_written(NOW, (SHARD, late), true).unwrap();
    assert_eq!(sent_answers(&mut node), [], "the new piece is not on the disk");
    node.snapshot_written(NOW, (SHARD, number), true).unwrap();
    assert_eq!(sent_answers(&mut node), [Taken::Complete]);
}

#[test]
fn a_failed_disk_is_reported_to_the_sender() {
    let (mut node, bytes) = (follower(), snapshot());
    let number = piece(&mut node, 0, &bytes, true).unwrap();
    node.snapshot_written(NOW, (SHARD, number), false).unwrap();
    assert_eq!(sent_answers(&mut node), [Taken::Refused]);
    assert_eq!(node.replica(SHARD).unwrap().group().applied().0, 0);
}

#[test]
fn bytes_that_are_no_snapshot_are_refused() {
    let (mut node, mut bytes) = (follower(), snapshot());
    bytes[20] ^= 1;
    assert_eq!(piece(&mut node, 0, &bytes, true), None);
    assert_eq!(sent_answers(&mut node), [Taken::Refused]);
}

#[test]
fn the_sender_of_a_replaced_snapshot_is_notified() {
    let other = MachineId(3);
    for written in [false, true] {
        let (mut node, bytes) = (follower(), snapshot());
        node.connect(NOW, other);
        let number = piece(&mut node, 0, &bytes[..10], false).unwrap();
        if written {
            node.snapshot_written(NOW, (SHARD, number), true).unwrap();
            assert_eq!(sent_answers(&mut node), [Taken::Next(10)]);
        }
        // One of the two has lost the leadership, and neither knows of the other one.
        let number = piece_of(&mut node, other, 0, &bytes, true).unwrap();
        assert_eq!(sent_answers(&mut node), [Taken::Refused], "it would wait for ever");
        node.snapshot_written(NOW, (SHARD, number), true).unwrap();
        write_log(&mut node);
        assert_eq!(node.replica(SHARD).unwrap().group().applied(), (INDEX, 3));
    }
}
