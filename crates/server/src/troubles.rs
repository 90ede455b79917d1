//! What is wrong, the worst first: what people see of a machine before anything else.

use crate::control::Status;
use crate::synchrony::picture::Picture;
use engine::gateway::{Facts, Overview};
use engine::node::Readiness;
use serde::Serialize;

/// How bad something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// Something that was asked for is not done.
    Bad,
    /// It is done, and something should be looked at.
    Warn,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trouble {
    /// How bad.
    pub grade: Grade,
    /// What.
    pub text: String,
}

/// Everything that is known to be wrong, the worst first.
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

/// Why a machine does not do its part, a line each.
pub fn reasons(found: &Readiness) -> Vec<String> {
    let facts = [
        (u64::from(found.without_map), "it does not know the shard map yet"),
        (u64::from(found.cut_off), "it is connected to no other machine"),
        (found.missing, "shards that it is to hold are not here yet"),
        (found.leaderless, "shards that it holds have no leader that it knows of"),
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
            "the last snapshot failed; the messages say why".to_owned()
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
            [one] => format!("nobody leads shard {one}: what is asked of it is refused"),
            all => {
                format!("nobody leads shards {}: what is asked of them is refused", all.join(", "))
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
            self.bad(true, || format!("this machine does not do its part: {reason}"));
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
        // Who is known to be away needs no second line.
        for peer in picture.peers.iter().filter(|peer| !away(peer.machine)) {
            let silent = peer.minute.count > 0 && peer.minute.p90_us.is_none();
            self.warn(silent, || {
                format!("machine {} does not answer most questions about time", peer.machine)
            });
        }
    }
}
