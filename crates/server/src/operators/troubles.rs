//! Problems of a machine, the most severe first: the first thing that the console and `claret
//! doctor` show.

use crate::control::Status;
use crate::synchrony::picture::Picture;
use engine::gateway::{Facts, Overview};
use engine::node::Readiness;
use serde::Serialize;

/// Severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// A request or a duty is not fulfilled.
    Bad,
    /// Everything is fulfilled, and an operator should look.
    Warn,
}

/// Problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// Severity.
    pub grade: Grade,
    /// Description.
    pub text: String,
}

/// All known problems, the most severe first.
pub fn troubles(status: &Status, overview: Option<&Overview>) -> Vec<Trouble> {
    let mut found = Found::default();
    let silent = status.workers - status.reports.len().min(status.workers);
    found.bad(silent > 0, || format!("{silent} of {} workers do not answer", status.workers));
    found.memory(&status.facts);
    if let Some(overview) = overview {
        found.cluster(overview);
    }
    found.readiness(&status.readiness());
    if let Some(picture) = &status.synchrony {
        found.synchrony(picture, overview);
    }
    found.0.sort_by_key(|trouble| trouble.grade);
    found.0
}

/// Reasons why a machine is not ready, a line each.
pub fn reasons(found: &Readiness) -> Vec<String> {
    let facts = [
        (u64::from(found.without_map), "it has no shard map yet"),
        (u64::from(found.cut_off), "it is connected to no other machine"),
        (found.missing, "shards that the map places here are missing"),
        (found.leaderless, "shards that it holds have no known leader"),
        (found.behind, "shards that it holds have not caught up"),
    ];
    let said = facts.into_iter().filter(|(count, _)| *count > 0);
    said.map(|(count, fact)| format!("{fact} ({count})")).collect()
}

#[derive(Default)]
struct Found(Vec<Trouble>);

impl Found {
    fn add(&mut self, grade: Grade, is_so: bool, text: impl FnOnce() -> String) {
        if is_so {
            self.0.push(Trouble { grade, text: text() });
        }
    }

    fn bad(&mut self, is_so: bool, text: impl FnOnce() -> String) {
        self.add(Grade::Bad, is_so, text);
    }

    fn warn(&mut self, is_so: bool, text: impl FnOnce() -> String) {
        self.add(Grade::Warn, is_so, text);
    }

    fn memory(&mut self, facts: &Facts) {
        let mib = |bytes: u64| bytes >> 20;
        let (data, limit) = (facts.memory_data_bytes(), facts.memory_limit_bytes);
        let (logs, most) = (facts.memory_log_bytes, facts.memory_log_limit_bytes);
        self.bad(facts.over_log_limit, || {
            let (logs, most) = (mib(logs), mib(most));
            format!(
                "writes are refused: the logs take {logs} MiB of {most} MiB, and snapshots fail"
            )
        });
        self.bad(facts.over_memory_limit, || {
            let (data, limit) = (mib(data), mib(limit));
            format!("writes that grow are refused: the data take {data} MiB of {limit} MiB")
        });
        self.warn(facts.save_failed, || {
            "the last snapshot failed; see the log for the reason".to_owned()
        });
        let near = limit > 0 && data > limit / 5 * 4 && !facts.over_memory_limit;
        self.warn(near, || format!("the data take {} MiB of {} MiB", mib(data), mib(limit)));
    }

    fn cluster(&mut self, overview: &Overview) {
        let unled: Vec<String> = overview
            .shards
            .iter()
            .filter(|shard| shard.leader.is_none())
            .map(|shard| shard.shard.0.to_string())
            .collect();
        self.bad(!unled.is_empty(), || match &unled[..] {
            [one] => format!("shard {one} has no leader: its requests are refused"),
            all => {
                format!("shards {} have no leader: their requests are refused", all.join(", "))
            }
        });
        let away: Vec<String> = overview
            .machines
            .iter()
            .filter(|machine| !machine.connected)
            .map(|machine| machine.number.0.to_string())
            .collect();
        self.bad(!away.is_empty(), || match &away[..] {
            [one] => format!("machine {one} is not connected"),
            all => format!("machines {} are not connected", all.join(", ")),
        });
    }

    fn readiness(&mut self, found: &Readiness) {
        for reason in reasons(found) {
            self.bad(true, || format!("this machine is not ready: {reason}"));
        }
    }

    fn synchrony(&mut self, picture: &Picture, overview: Option<&Overview>) {
        let away = |number: u16| {
            let machines = overview.iter().flat_map(|overview| &overview.machines);
            machines.clone().any(|machine| machine.number.0 == number && !machine.connected)
        };
        for verdict in &picture.verdicts {
            self.warn(true, || verdict.text.clone());
        }
        // Peers that are known to be unreachable need no second line.
        for peer in picture.peers.iter().filter(|peer| !away(peer.machine)) {
            let silent = peer.minute.count > 0 && peer.minute.p90_us.is_none();
            self.warn(silent, || {
                format!("machine {} leaves most round-trip questions unanswered", peer.machine)
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::gateway::{MachineSeen, ShardSeen};
    use engine::ids::{MachineId, ShardId};

    fn status(facts: Facts) -> Status {
        Status { facts, reports: Vec::new(), workers: 0, log: None, synchrony: None }
    }

    fn machine(number: u16, connected: bool) -> MachineSeen {
        let number = MachineId(number);
        MachineSeen { number, host: String::new(), port: 0, connected, level: None }
    }

    fn shard(shard: u16, leader: Option<MachineId>) -> ShardSeen {
        let (slots, holders) = (Vec::new(), Vec::new());
        ShardSeen { shard: ShardId(shard), slots, leader, term: 1, since_us: 0, holders }
    }

    #[test]
    fn what_is_not_done_stands_before_what_should_be_looked_at() {
        let facts = Facts {
            memory_bytes: 90 << 20,
            memory_limit_bytes: 100 << 20,
            save_failed: true,
            ..Facts::default()
        };
        let overview = Overview {
            own: MachineId(1),
            cluster: "told".to_owned(),
            map: None,
            machines: vec![machine(1, true), machine(2, false), machine(3, false)],
            shards: vec![shard(0, Some(MachineId(1))), shard(1, None)],
        };
        let found = troubles(&status(facts), Some(&overview));
        let told: Vec<(Grade, &str)> =
            found.iter().map(|trouble| (trouble.grade, trouble.text.as_str())).collect();
        assert_eq!(
            told,
            [
                (Grade::Bad, "shard 1 has no leader: its requests are refused"),
                (Grade::Bad, "machines 2, 3 are not connected"),
                (Grade::Warn, "the last snapshot failed; see the log for the reason"),
                (Grade::Warn, "the data take 90 MiB of 100 MiB"),
            ]
        );
        assert!(troubles(&status(Facts::default()), None).is_empty());
    }

    #[test]
    fn writes_that_are_refused_come_first() {
        let facts = Facts { over_memory_limit: true, over_log_limit: true, ..Facts::default() };
        let found = troubles(&status(facts), None);
        assert!(found[0].text.starts_with("writes are refused"), "{found:?}");
        assert!(found[1].text.starts_with("writes that grow are refused"), "{found:?}");
    }

    #[test]
    fn reasons_count_what_they_are_about() {
        let found = Readiness { leaderless: 2, ..Readiness::default() };
        assert_eq!(reasons(&found), ["shards that it holds have no known leader (2)"]);
        assert!(reasons(&Readiness::default()).is_empty());
    }
}
