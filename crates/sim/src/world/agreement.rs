//! Invariants of all machines after they had time to agree.

use super::World;
use engine::cluster::map::ShardMap;
use engine::coordination::Zxid;
use engine::ids::ShardId;
use engine::node::Readiness;
use engine::shard::state::State;

impl World {
    /// Checks that every shard is held by exactly the machines of the map, with the same state on
    /// each.
    pub(super) fn check_agreement(&self) -> Result<(), String> {
        let map = self.newest_map();
        if let Some(lost) = self.missed(&map).first() {
            return Err(format!("machine {} is lost and still in the map: {map}", lost.0));
        }
        if map.splits.iter().any(|split| !split.done) {
            return Err(format!("a split is not done at the end, in {map}"));
        }
        for shard in map.all() {
            self.check_shard(&map, shard)?;
        }
        self.check_readiness(&map)
    }

    /// Checks that every machine of the cluster reports itself ready, since all faults are over.
    fn check_readiness(&self, map: &ShardMap) -> Result<(), String> {
        let present = self.machines.iter().filter(|machine| !machine.is_retired);
        for machine in present.filter(|machine| map.machines.contains_key(&machine.id)) {
            let mut found = Readiness::default();
            machine.workers.iter().for_each(|worker| found.add(&worker.node().readiness()));
            if !found.is_ready() {
                return Err(format!("machine {} is not ready at the end: {found:?}", machine.id.0));
            }
        }
        Ok(())
    }

    /// State of a shard's group on every machine.
    fn standings(&self, shard: ShardId) -> String {
        let workers = self
            .machines
            .iter()
            .flat_map(|machine| machine.workers.iter().map(move |worker| (machine.id.0, worker)));
        let replicas = workers.filter_map(|(id, worker)| Some((id, worker.node().replica(shard)?)));
        let line = |(id, r): (u16, &engine::replica::Replica<_>)| {
            let (members, applied, leads) = (r.group().members(), r.group().applied(), r.leading());
            let (promises, standing, rests) =
                (r.group().promises(), r.group().standing(), r.rests());
            format!(
                "machine {id}: {members:?}, applied {applied:?}, leads {leads:?}, rests {rests}, \
                 {promises:?}, {standing:?}"
            )
        };
        let lacking =
            self.machines.iter().filter(|machine| !machine.is_retired).filter_map(|machine| {
                let (id, workers) = (machine.id.0, &machine.workers);
                let known = workers.first().and_then(|worker| worker.node().map());
                let (up, known) = (machine.is_up(), known.map(|map| map.epoch));
                let lacks = workers.iter().all(|worker| worker.node().replica(shard).is_none());
                lacks.then(|| format!("machine {id}: no replica, up {up}, knows epoch {known:?}"))
            });
        replicas.map(line).chain(lacking).collect::<Vec<_>>().join("\n")
    }

    fn check_shard(&self, map: &ShardMap, shard: ShardId) -> Result<(), String> {
        let worker = usize::from(shard.0 % self.shape.workers);
        let mut first = None;
        for machine in self.machines.iter().filter(|machine| !machine.is_retired) {
            let Some(worker) = machine.workers.get(worker) else {
                return Err(format!("machine {} is down at the end", machine.id.0));
            };
            let replica = worker.node().replica(shard);
            let holds = map.places(machine.id, shard);
            let Some(replica) = replica.filter(|_| holds) else {
                if holds != replica.is_some() {
                    let what = if holds { "does not hold" } else { "still holds" };
                    return Err(format!(
                        "machine {} {what} shard {} at the end, members {:?}, in {map}",
                        machine.id.0,
                        shard.0,
                        replica.map(|replica| replica.group().members())
                    ));
                }
                continue;
            };
            if replica.group().members().voters != map.holders_of(shard) {
                return Err(format!(
                    "shard {} is held by others at the end, in {map}\n{}",
                    shard.0,
                    self.standings(shard)
                ));
            }
            let state = replica.shard().state();
            let open = state.prepared().len();
            if open > 0 {
                let what = "transactions are still open at the end";
                return Err(format!("{open} {what}, on machine {}", machine.id.0));
            }
            if let Some((unit, ask)) = state.asks().first_key_value() {
                let machine = machine.id.0;
                return Err(format!("{unit:?} is never done on machine {machine}: {ask:?}"));
            }
            if let Some((session, joint)) = state.coordination().prepared().next() {
                let machine = machine.id.0;
                return Err(format!(
                    "a multi of {session:?} is never decided on machine {machine}: {joint:?}"
                ));
            }
            let records = records(state);
            let (number, applied, expected) =
                first.get_or_insert((machine.id.0, replica.group().applied(), records.clone()));
            if *applied != replica.group().applied() || *expected != records {
                return Err(format!(
                    "shard {} differs between machines {number} (applied {applied:?}, {} \
                     records) and {} (applied {:?}, {} records): {}",
                    shard.0,
                    expected.len(),
                    machine.id.0,
                    replica.group().applied(),
                    records.len(),
                    difference(expected, &records)
                ));
            }
        }
        Ok(())
    }
}

/// All records of a state in the order of their keys, and all nodes and sessions.
pub(super) fn records(state: &State) -> Vec<String> {
    let mut records: Vec<String> =
        state.records().iter().map(|(key, record)| format!("{key:?} {record:?}")).collect();
    let coordination = state.coordination();
    if coordination.last() > Zxid(0) {
        records.push(format!("{:?} {:?}", coordination.last(), coordination.sessions()));
        let spread = (coordination.spread(), coordination.departed(), coordination.ending());
        records.push(format!("{spread:?}"));
        let nodes = coordination.tree().iter().map(|(path, node)| format!("{path:?} {node:?}"));
        records.extend(nodes);
        records.extend(state.asks().iter().map(|(unit, ask)| format!("{unit:?} {ask:?}")));
    }
    records.sort_unstable();
    records
}

/// First difference between two lists of records, with a little context.
pub(super) fn difference(a: &[String], b: &[String]) -> String {
    let (mut a, mut b) = (a.iter(), b.iter());
    let (a, b) = loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a == b => {}
            (None, None) => return "in their order".to_owned(),
            (a, b) => break (a.map_or("", String::as_str), b.map_or("", String::as_str)),
        }
    };
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let around =
        |text: &str| -> String { text.chars().skip(same.saturating_sub(100)).take(200).collect() };
    let key: String = a.chars().take(8).collect();
    format!("{key} ...{}... and ...{}...", around(a), around(b))
}
