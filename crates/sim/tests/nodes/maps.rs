//! Stories about the shard map, as the workers of a machine send it to other machines.

use engine::cluster::map::ShardMap;
use engine::ids::{GatewayId, MachineId};
use engine::limits::REAP_US;
use engine::message::Concurrency;
use engine::node::{Node, Parcel, Placing, To};
use engine::now::Now;
use wire::entry::EntryFormat;
use wire::snapshot::SnapshotFormat;

const NOW: Now = Now { wall_us: 1_000_000_000, mono_us: 1_000_000 };
const OWN: MachineId = MachineId(1);

/// Map of three machines that its group has changed so often.
fn map(epoch: u64) -> ShardMap {
    let machines = (1..=3).map(|machine| (MachineId(machine), format!("m{machine}:1")));
    ShardMap { epoch, ..ShardMap::founded(machines.collect(), 1) }
}

/// One of two workers, which holds no shard.
fn worker(worker: u16) -> Node<EntryFormat> {
    let id = GatewayId { machine: OWN, worker, life: 1 };
    let concurrency = Concurrency::named("full").unwrap();
    let (map, left) = (Some(map(1)), Default::default());
    let placing = Placing {
        map,
        left,
        codec: EntryFormat,
        concurrency,
        seed: 1,
        reap_us: REAP_US,
        interpreter: None,
    };
    Node::new(id, 2, 1, Some(placing), Vec::new(), Box::new(SnapshotFormat))
}

/// Machines to which maps are sent, with the epochs.
fn sent_maps(node: &mut Node<EntryFormat>) -> Vec<(u16, u64)> {
    let parcels = std::iter::from_fn(|| node.poll_parcel());
    let maps = parcels.filter_map(|parcel| match parcel {
        (To::Machine(machine), Parcel::Map(map)) => Some((machine.0, map.epoch)),
        _ => None,
    });
    maps.collect()
}

#[test]
fn a_new_machine_gets_a_map_that_another_worker_receives() {
    // Worker 0 learned of the map before machine 3 connected, so it has not sent it.
    let mut listener = worker(1);
    listener.connect(NOW, MachineId(3));
    assert_eq!(sent_maps(&mut listener), [(3, 1)]);
    listener.take(NOW, OWN, Parcel::Map(Box::new(map(2)))).unwrap();
    assert_eq!(sent_maps(&mut listener), [(3, 2)]);
    // Its connection with machine 2 belongs to the other worker.
    listener.connect(NOW, MachineId(2));
    listener.take(NOW, OWN, Parcel::Map(Box::new(map(3)))).unwrap();
    assert_eq!(sent_maps(&mut listener), [(3, 3)]);
}
