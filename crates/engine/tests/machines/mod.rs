//! Machines of a replicated log that execute the lines of a dialogue and report the results.

use engine::cluster::members::Members;
use engine::ids::{MachineId, ShardId};
use engine::limits::TICK_US;
use engine::replication::{MemberStep, Membership, Pace, Persist, Promises, RaftGroup, Recovered};
use raft::eraftpb::{Entry, HardState, Message, MessageType};
use std::collections::{BTreeMap, VecDeque};

/// Content of a machine's disk.
#[derive(Default)]
struct Disk {
    hard_state: HardState,
    entries: Vec<Entry>,
    snapshot: (u64, u64),
    members: Option<Members>,
}

struct Machine {
    group: RaftGroup,
    disk: Disk,
    /// Writes in flight to the disk.
    writing: VecDeque<Persist>,
    inbox: VecDeque<Message>,
    /// Messages of the library about snapshots for other machines.
    snapshots: Vec<Message>,
}

/// All machines, and the time.
#[derive(Default)]
pub struct World {
    founders: Vec<MachineId>,
    machines: BTreeMap<u16, Machine>,
    mono_us: u64,
    output: Vec<String>,
}

impl World {
    /// Executes a line; returns the results.
    pub fn obey(&mut self, command: &str) -> Vec<String> {
        let words: Vec<&str> = command.split_whitespace().collect();
        let number = |word: &str| word.parse::<u16>().ok();
        match words[..] {
            ["machines", ref all @ ..] => {
                self.founders = all.iter().filter_map(|w| number(w)).map(MachineId).collect();
                for machine in self.founders.clone() {
                    self.start(machine.0, Disk::default(), None);
                }
            }
            ["settle"] => self.settle(),
            ["time", "passes", ms, "ms"] => self.mono_us += u64::from(number(ms).unwrap()) * 1_000,
            ["all", "tick", count] => {
                for _ in 0..number(count).unwrap() {
                    self.tick(&self.machines.keys().copied().collect::<Vec<_>>());
                    self.settle();
                }
            }
            ["lost", from, to] => {
                let from = u64::from(number(from).unwrap());
                self.machine(number(to).unwrap()).inbox.retain(|message| message.from != from);
            }
            [machine, ref rest @ ..] => self.obey_one(number(machine).unwrap(), rest),
            [] => {}
        }
        std::mem::take(&mut self.output)
    }

    fn obey_one(&mut self, own: u16, words: &[&str]) {
        let now = self.mono_us;
        match words {
            ["joins"] => self.start(own, Disk::default(), None),
            ["ticks", "until", "it", "speaks"] => {
                for _ in 0..1_000 {
                    self.tick(&[own]);
                    self.drain(own);
                    if !self.output.is_empty() {
                        return;
                    }
                }
                panic!("machine {own} says nothing");
            }
            ["hears"] => self.hear(own, |_| true),
            ["hears", from] => {
                let from: u64 = from.parse().unwrap();
                self.hear(own, |message| message.from == from);
            }
            ["synced"] => self.synced(own),
            ["restarts", "without", "its", "disk"] => self.start(own, Disk::default(), None),
            // The replica was removed, and the machine has kept its promises.
            ["is", "made", "anew"] => {
                let promises = self.machine(own).group.promises();
                self.start(own, Disk::default(), Some(promises));
            }
            ["proposes", payload] => {
                self.machine(own).group.propose(payload.as_bytes().to_vec()).unwrap();
            }
            ["wants", all @ ..] => {
                let wanted: Vec<MachineId> =
                    all.iter().map(|word| MachineId(word.parse().unwrap())).collect();
                let step = self.machine(own).group.go_towards(&wanted).unwrap();
                self.output.push(step.map_or("no step".to_owned(), |step| show_step(&step)));
            }
            ["hands", "over", "to", to] => {
                let to = MachineId(to.parse().unwrap());
                let began = self.machine(own).group.transfer(to);
                self.output.push(if began { "begun" } else { "refused" }.to_owned());
            }
            ["takes", "a", "snapshot"] => self.take_snapshot(own),
            ["gets", "the", "snapshot", "of", from] => {
                self.get_snapshot(own, from.parse().unwrap());
            }
            ["asks", "who", "leads"] => {
                let round = self.machine(own).group.begin_round(now);
                self.output.push(format!("round {round}"));
            }
            ["counts", "in", "ticks", "of", ms, "ms"] => {
                self.machine(own).group.set_tick(ms.parse::<u64>().unwrap() * 1_000);
            }
            ["ticks", count] => {
                for _ in 0..count.parse().unwrap() {
                    self.tick(&[own]);
                    self.drain(own);
                }
            }
            ["is", "asked", "to", "read"] => self.read(own),
            ["shows"] => self.show(own),
            _ => panic!("no machine can {words:?}"),
        }
        self.drain(own);
    }

    fn machine(&mut self, number: u16) -> &mut Machine {
        self.machines.get_mut(&number).expect("there is such a machine")
    }

    fn start(&mut self, own: u16, disk: Disk, promises: Option<Promises>) {
        let membership = Membership::clustered(MachineId(own), self.founders.clone());
        let recovered = Recovered {
            snapshot: disk.snapshot,
            hard_state: disk.hard_state.clone(),
            entries: disk.entries.clone(),
            members: disk.members.clone(),
            promises,
        };
        let seed = u64::from(own);
        let group = RaftGroup::new(
            Pace::default(),
            (ShardId(0), membership),
            recovered,
            seed,
            self.mono_us,
        )
        .unwrap();
        let (writing, inbox, snapshots) = Default::default();
        self.machines.insert(own, Machine { group, disk, writing, inbox, snapshots });
    }

    fn tick(&mut self, machines: &[u16]) {
        let paces = machines.iter().map(|machine| self.machines[machine].group.pace().tick_us);
        self.mono_us += paces.max().unwrap_or(TICK_US);
        let now = self.mono_us;
        for machine in machines {
            self.machine(*machine).group.tick(now);
        }
    }

    fn hear(&mut self, own: u16, wanted: impl Fn(&Message) -> bool) {
        let now = self.mono_us;
        let machine = self.machine(own);
        let (messages, others): (Vec<_>, Vec<_>) = machine.inbox.drain(..).partition(wanted);
        machine.inbox = others.into();
        let errors =
            messages.into_iter().filter_map(|message| machine.group.step(now, message).err());
        let ends: Vec<String> = errors.map(|error| format!("{own} ends: {error}")).collect();
        self.output.extend(ends);
    }

    fn synced(&mut self, own: u16) {
        let machine = self.machine(own);
        while let Some(persist) = machine.writing.pop_front() {
            machine.disk.write(&persist);
            machine.group.persisted(persist.number);
        }
        if machine.group.restored() {
            let (index, term) = machine.group.applied();
            self.output.push(format!("{own} has carried out all up to {index}/{term}"));
        }
    }

    /// Runs a machine until it has no more output.
    fn drain(&mut self, own: u16) {
        let machine = self.machine(own);
        let mut lines = Vec::new();
        while let Some(persist) = machine.group.take_persist() {
            lines.push(format!("{own} writes {}", show_persist(&persist)));
            machine.writing.push_back(persist);
        }
        while let Some(committed) = machine.group.committed().unwrap() {
            let what = String::from_utf8_lossy(&committed.payload).into_owned();
            let members = show_members(machine.group.members());
            let what = if what.is_empty() { format!("({members})") } else { what };
            lines.push(format!("{own} carries out {}/{} {what}", committed.index, committed.term));
        }
        let messages = machine.group.take_messages();
        machine.snapshots.extend(machine.group.take_snapshots());
        lines.extend(messages.iter().map(show));
        let wants: Vec<u64> = machine.snapshots.iter().map(|message| message.to).collect();
        lines.extend(wants.iter().map(|to| format!("{to} needs the snapshot of {own}")));
        self.output.extend(lines);
        for message in messages {
            if let Some(other) = self.machines.get_mut(&(message.to as u16)) {
                other.inbox.push_back(message);
            }
        }
    }

    fn settle(&mut self) {
        let all: Vec<u16> = self.machines.keys().copied().collect();
        loop {
            let before = self.output.len();
            let unread: usize = self.machines.values().map(|m| m.inbox.len()).sum();
            for own in &all {
                self.hear(*own, |_| true);
                self.drain(*own);
                self.synced(*own);
                self.drain(*own);
            }
            let idle = self.machines.values().all(|m| m.inbox.is_empty() && m.writing.is_empty());
            if idle && unread == 0 {
                break;
            }
            // The messages are left out; applied entries count.
            let counts = |line: &String| line.contains("carries out") || line.contains("needs");
            let lines = self.output.split_off(before);
            self.output.extend(lines.into_iter().filter(counts));
        }
    }

    fn take_snapshot(&mut self, own: u16) {
        let machine = self.machine(own);
        machine.disk.snapshot = machine.group.applied();
        machine.disk.members = Some(machine.group.members().clone());
        let (index, term) = machine.disk.snapshot;
        machine.disk.entries.retain(|entry| entry.index > index);
        let forgotten = machine.group.compact(index, false);
        self.output.push(format!("up to {index}/{term}; entries up to {forgotten} are forgotten"));
    }

    /// Delivers the contents of a snapshot to the disk.
    fn get_snapshot(&mut self, own: u16, from: u16) {
        let sender = self.machine(from);
        let place = sender.snapshots.iter().position(|message| message.to == u64::from(own));
        let message = sender.snapshots.remove(place.expect("it needs one"));
        let snapshot = sender.disk.snapshot;
        let machine = self.machine(own);
        machine.disk.snapshot = snapshot;
        let taken = machine.group.restore(message);
        self.output
            .push(if taken { "the log is to begin after it" } else { "not needed" }.to_owned());
        self.machine(from).group.snapshot_sent(MachineId(own), true);
    }

    fn read(&mut self, own: u16) {
        let now = self.mono_us;
        let group = &self.machine(own).group;
        let answer = match (group.is_serving(), group.has_lease(now)) {
            (false, _) => "does not lead".to_owned(),
            (true, true) => "answers at once".to_owned(),
            (true, false) => format!("waits for a round after {}", group.confirmed()),
        };
        self.output.push(answer);
    }

    fn show(&mut self, own: u16) {
        let group = &self.machine(own).group;
        let role = match (group.is_leader(), group.is_serving()) {
            (true, true) => "leads",
            (true, false) => "is elected",
            _ => "follows",
        };
        let ((last, of), (applied, _)) = (group.last(), group.applied());
        let settled = if group.is_settled() { ", settled" } else { "" };
        let line = format!(
            "{own} {role} in term {}, its log ends at {last}/{of}, carried out {applied}, {}{settled}",
            group.term(),
            show_members(group.members())
        );
        self.output.push(line);
    }
}

impl Disk {
    fn write(&mut self, persist: &Persist) {
        if let Some(state) = &persist.hard_state {
            self.hard_state = state.clone();
        }
        if persist.restored.is_some() {
            self.entries.clear();
        }
        if let Some(first) = persist.entries.first() {
            self.entries.retain(|entry| entry.index < first.index);
            self.entries.extend(persist.entries.iter().cloned());
        }
    }
}

fn show_step(step: &MemberStep) -> String {
    let list = |machines: &[MachineId]| {
        let numbers: Vec<String> = machines.iter().map(|machine| machine.0.to_string()).collect();
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(" ") }
    };
    match step {
        MemberStep::Learn(machine) => format!("let {} learn", machine.0),
        MemberStep::Forget(machine) => format!("let {} learn no more", machine.0),
        MemberStep::Join { add, remove } => format!("add {}, remove {}", list(add), list(remove)),
        MemberStep::Leave => "leave the joint configuration".to_owned(),
        MemberStep::HandOver(heirs) => format!("hand over to one of {}", list(heirs)),
    }
}

fn show_members(members: &Members) -> String {
    let list = |machines: &[MachineId]| {
        let numbers: Vec<String> = machines.iter().map(|machine| machine.0.to_string()).collect();
        numbers.join(" ")
    };
    let mut text = format!("voters {}", list(&members.voters));
    for (what, machines) in [("learning", &members.learners), ("and before", &members.outgoing)] {
        if !machines.is_empty() {
            text.push_str(&format!(", {what} {}", list(machines)));
        }
    }
    text
}

fn show_entry(entry: &Entry) -> String {
    let what = match (entry.context.is_empty(), entry.data.is_empty()) {
        (true, true) => "-".to_owned(),
        (true, false) => String::from_utf8_lossy(&entry.data).into_owned(),
        (false, _) => "members".to_owned(),
    };
    format!("{}/{} {what}", entry.index, entry.term)
}

fn show_entries(entries: &[Entry]) -> String {
    entries.iter().map(show_entry).collect::<Vec<_>>().join(", ")
}

fn show_persist(persist: &Persist) -> String {
    let mut parts = Vec::new();
    if let Some(index) = persist.restored {
        parts.push(format!("that the log begins after {index}"));
    }
    if let Some(state) = &persist.hard_state {
        let vote = if state.vote == 0 { "none".to_owned() } else { state.vote.to_string() };
        parts.push(format!("term {}, vote for {vote}", state.term));
    }
    if !persist.entries.is_empty() {
        parts.push(show_entries(&persist.entries));
    }
    parts.join("; ")
}

/// A message in one line.
fn show(message: &Message) -> String {
    let Message { from, to, term, index, log_term, commit, .. } = *message;
    let yes = if message.reject { "no" } else { "yes" };
    let ends = format!("its log ends at {index}/{log_term}");
    let what = match message.get_msg_type() {
        MessageType::MsgRequestPreVote => format!("PreVote? {ends}"),
        MessageType::MsgRequestVote => format!("Vote? {ends}"),
        MessageType::MsgRequestPreVoteResponse => format!("PreVote {yes}"),
        MessageType::MsgRequestVoteResponse => format!("Vote {yes}"),
        MessageType::MsgAppend if message.entries.is_empty() => {
            format!("Append nothing after {index}/{log_term}, committed {commit}")
        }
        MessageType::MsgAppend => {
            let entries = show_entries(&message.entries);
            format!("Append {entries} after {index}/{log_term}, committed {commit}")
        }
        MessageType::MsgAppendResponse if message.reject => {
            format!("Lacks {index}, has up to {}", message.reject_hint)
        }
        MessageType::MsgAppendResponse => format!("Has {index}"),
        MessageType::MsgHeartbeat if message.context.is_empty() => {
            format!("Beat, committed {commit}")
        }
        MessageType::MsgHeartbeat => format!("Beat, committed {commit}, round {}", round(message)),
        MessageType::MsgHeartbeatResponse if message.context.is_empty() => "Heard".to_owned(),
        MessageType::MsgHeartbeatResponse => format!("Heard, round {}", round(message)),
        MessageType::MsgTimeoutNow => "Stand now".to_owned(),
        other => format!("{other:?}"),
    };
    format!("{from} -> {to} term {term}: {what}")
}

fn round(message: &Message) -> u64 {
    message.context.first_chunk().copied().map_or(0, u64::from_le_bytes)
}
