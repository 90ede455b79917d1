//! The shard map: the machines of a cluster, and the shards that each holds.
//!
//! It is one small text. A group of its own agrees on it, as shard [`ShardId::MAP`], which has no
//! slots; every machine keeps the newest one that it has received. A change makes a new map with
//! the next epoch, and takes effect only if no other change has made one with that epoch. Leaders
//! change their groups towards the map, a step at a time, so that a later leader completes a change
//! that was begun.
//!
//! ```text
//! epoch 7
//! founders 1,2,3
//! machine 1 10.0.0.1:7001
//! machine 2 10.0.0.2:7001
//! machine 4 10.0.0.4:7001
//! gone 3
//! map 1,2,4
//! shard 0 1,2,4
//! shard 1 1,2,4
//! shard 2 1,2,4
//! split 2 of 0 at 4096
//! place bull:*:
//! level 1
//! ```
//!
//! The slots are shared evenly among the shards with which a cluster was founded. A split gives the
//! upper part of a shard's slots to a new one: `splitting` while it is in progress, `split` when it
//! is done. See [`crate::node`] for the procedure. Placement rules are those of the founding, see
//! [`super::rules`]. The level is one that all machines support, see [`super::level`].

use super::level::Level;
use super::rules::{parse_rules, rules_text};
use crate::ids::{MachineId, ShardId};
use crate::limits::{MACHINE_NUMBER_MAX, MACHINES_MAX, REPLICAS_MAX, SHARDS_MAX, SLOTS};
use adt::command::tags::TagRules;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Key of the map in its own group.
pub(crate) const MAP_KEY: &[u8] = b"map";

/// Longest address of a machine, in bytes.
const ADDRESS_BYTES_MAX: usize = 255;

/// Reason why a text is no shard map, or a map must not follow another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapError(String);

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MapError {}

impl MapError {
    pub(super) fn new(reason: String) -> Self {
        Self(reason)
    }
}

fn wrong<T>(text: impl Into<String>) -> Result<T, MapError> {
    Err(MapError(text.into()))
}

/// Split: a shard gives part of its slots to a new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// The new shard.
    pub child: ShardId,
    /// Shard that had the slots.
    pub parent: ShardId,
    /// First slot of the new shard, which gets all of its parent's from there on.
    pub at: u16,
    /// Whether a majority of the new shard's machines has its initial state.
    pub done: bool,
}

/// Slots of a shard: the first and the last.
pub type Range = (u16, u16);

/// A shard map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardMap {
    /// Number of the map. It grows by one with every change, from 0 at the founding.
    pub epoch: u64,
    /// Machines that founded the cluster: the initial voters of every log.
    pub founders: Vec<MachineId>,
    /// All machines, with the addresses on which they listen for each other.
    pub machines: BTreeMap<MachineId, String>,
    /// Machines that agree on the map.
    pub holders: Vec<MachineId>,
    /// By shard, the machines that should hold it.
    pub shards: Vec<Vec<MachineId>>,
    /// Former machines. Their numbers are not assigned again: a new machine with such a number
    /// would not know the promises made under it.
    pub gone: BTreeSet<MachineId>,
    /// All splits so far, in order: each made the shard with the next number.
    pub splits: Vec<Split>,
    /// Format level of messages between machines, and of files that other machines read.
    pub level: Level,
    /// Placement rules, with which the cluster was founded.
    pub tags: TagRules,
}

impl ShardMap {
    /// Map of a new cluster: every machine holds every shard, and all are of this build.
    pub fn founded(machines: BTreeMap<MachineId, String>, shards: u16) -> Self {
        let founders: Vec<MachineId> = machines.keys().copied().collect();
        let shards = vec![founders.clone(); usize::from(shards)];
        let (holders, gone) = (founders.clone(), BTreeSet::new());
        let (splits, level, tags) = (Vec::new(), Level::NEWEST, TagRules::NONE);
        Self { epoch: 0, founders, machines, holders, shards, gone, splits, level, tags }
    }

    /// Machines with which a shard's log begins: none for shards that splits have made, whose
    /// replicas begin with the seed of the split.
    pub fn founders_of(&self, shard: ShardId) -> &[MachineId] {
        if self.origin(shard).is_some() { &[] } else { &self.founders }
    }

    /// Number of shards with which the cluster was founded. Later ones are the result of splits.
    pub fn founded_shards(&self) -> u16 {
        (self.shards.len() - self.splits.len()) as u16
    }

    /// Slots of every shard. `carried_out` is asked for each split in turn; the new shard of a
    /// split that was not executed has no slots yet.
    pub fn ranges(&self, mut carried_out: impl FnMut(&Split) -> bool) -> Vec<Option<Range>> {
        let mut ranges: Vec<Option<Range>> =
            super::slot::ranges(self.founded_shards()).into_iter().map(Some).collect();
        for split in &self.splits {
            let parent = &mut ranges[usize::from(split.parent.0)];
            let whole = parent.filter(|(first, last)| *first < split.at && split.at <= *last);
            let taken = whole.filter(|_| carried_out(split));
            if let Some((first, _)) = taken {
                *parent = Some((first, split.at - 1));
            }
            ranges.push(taken.map(|(_, last)| (split.at, last)));
        }
        ranges
    }

    /// Number of completed splits of a shard.
    pub fn splits_done(&self, shard: ShardId) -> u16 {
        self.splits.iter().filter(|split| split.parent == shard && split.done).count() as u16
    }

    /// The split in progress in which a shard gives slots, and the slots that it gives.
    pub fn splitting(&self, shard: ShardId) -> Option<(Split, Range)> {
        let split = *self.splits.iter().find(|split| split.parent == shard && !split.done)?;
        let all = self.ranges(|_| true);
        Some((split, (*all.get(usize::from(split.child.0))?)?))
    }

    /// The last split in which a shard has given slots, or is giving them.
    pub fn latest_split(&self, shard: ShardId) -> Option<Split> {
        self.splits.iter().rfind(|split| split.parent == shard).copied()
    }

    /// The split that has made a shard, if one has.
    pub fn origin(&self, shard: ShardId) -> Option<Split> {
        self.splits.iter().find(|split| split.child == shard).copied()
    }

    /// Next map, in which a shard gives its slots from `at` on to a new one, or half of them.
    ///
    /// # Errors
    /// If there is no such shard, a split of it is in progress, or `at` leaves one of the two
    /// without slots.
    pub fn split(&self, shard: ShardId, at: Option<u16>) -> Result<Self, MapError> {
        let range = self.ranges(|_| true).get(usize::from(shard.0)).copied().flatten();
        let Some((first, last)) = range else {
            return wrong(format!("there is no shard {}", shard.0));
        };
        let at = at.unwrap_or(first + (last - first).div_ceil(2));
        let mut next = self.next();
        let child = ShardId(next.shards.len() as u16);
        next.shards.push(self.holders_of(shard).to_vec());
        next.splits.push(Split { child, parent: shard, at, done: false });
        next.check()?;
        Ok(next)
    }

    /// Next map, in which a split is done.
    pub fn split_done(&self, child: ShardId) -> Self {
        let mut next = self.next();
        next.splits.iter_mut().filter(|s| s.child == child).for_each(|split| split.done = true);
        next
    }

    /// Next map, in which the cluster uses another level.
    ///
    /// # Errors
    /// If it uses a later one already, or this build does not support `level`.
    pub fn raised(&self, level: Level) -> Result<Self, MapError> {
        let next = Self { level, ..self.next() };
        next.check_level_after(self)?;
        Ok(next)
    }

    fn check_level_after(&self, before: &Self) -> Result<(), MapError> {
        if self.level < before.level {
            return wrong(format!(
                "the cluster uses level {} and cannot go back to an older one",
                before.level
            ));
        }
        if !Level::NEWEST.suffices_for(self.level) {
            return wrong(format!(
                "this machine understands level {} at most, not {}: it needs a newer build",
                Level::NEWEST,
                self.level
            ));
        }
        Ok(())
    }

    /// Machines that should hold a shard, or the map itself.
    pub fn holders_of(&self, shard: ShardId) -> &[MachineId] {
        if shard == ShardId::MAP {
            return &self.holders;
        }
        self.shards.get(usize::from(shard.0)).map_or(&[], Vec::as_slice)
    }

    /// Whether a machine should hold a shard, or the map itself.
    pub fn places(&self, machine: MachineId, shard: ShardId) -> bool {
        self.holders_of(shard).contains(&machine)
    }

    /// All shards, and the map itself.
    pub fn all(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards.len() as u16).map(ShardId).chain([ShardId::MAP])
    }

    /// Number of shards that a machine should hold.
    pub fn load(&self, machine: MachineId) -> usize {
        self.shards.iter().filter(|holders| holders.contains(&machine)).count()
    }

    /// Next map, with one more machine, which holds nothing yet.
    ///
    /// # Errors
    /// If a machine with that number or address exists.
    pub fn with(&self, machine: MachineId, address: &str) -> Result<Self, MapError> {
        if let Some(known) = self.machines.get(&machine) {
            return wrong(format!("machine {} is in the cluster already, at {known}", machine.0));
        }
        if self.gone.contains(&machine) {
            return wrong(format!(
                "the number {} belonged to a former machine: give the new machine another one",
                machine.0
            ));
        }
        let mut next = self.next();
        next.machines.insert(machine, address.to_owned());
        next.check()?;
        Ok(next)
    }

    /// Next map, without a machine, which must hold nothing.
    ///
    /// # Errors
    /// If no machine has that number, or it should hold something.
    pub fn without(&self, machine: MachineId) -> Result<Self, MapError> {
        let mut next = self.next();
        if next.machines.remove(&machine).is_none() {
            return wrong(format!("there is no machine {} in the cluster", machine.0));
        }
        next.gone.insert(machine);
        next.check()?;
        Ok(next)
    }

    /// Next map, in which these machines hold a shard, or the map itself.
    ///
    /// # Errors
    /// If there is no such shard or machine, or there are too many or too few of them.
    pub fn placed(&self, shard: ShardId, holders: &[MachineId]) -> Result<Self, MapError> {
        let mut next = self.next();
        let place = match next.shards.get_mut(usize::from(shard.0)) {
            _ if shard == ShardId::MAP => &mut next.holders,
            Some(place) => place,
            None => return wrong(format!("there is no shard {}", shard.0)),
        };
        *place = holders.to_vec();
        place.sort_unstable();
        next.check()?;
        Ok(next)
    }

    /// Next map, in which a machine holds nothing any more: its shards go to the least loaded of
    /// the other machines; a shard that all of them hold already has one replica less.
    ///
    /// # Errors
    /// If there is no such machine, or it is the last one.
    pub fn vacated(&self, machine: MachineId) -> Result<Self, MapError> {
        if !self.machines.contains_key(&machine) {
            return wrong(format!("there is no machine {} in the cluster", machine.0));
        }
        let mut next = self.next();
        for shard in self.all() {
            if !next.places(machine, shard) {
                continue;
            }
            let spare = next.machines.keys().copied().filter(|other| *other != machine);
            let spare = spare.filter(|other| !next.places(*other, shard));
            let heir = spare.min_by_key(|other| (next.load(*other), *other));
            let place = next.place_mut(shard);
            place.retain(|holder| *holder != machine);
            place.extend(heir);
            place.sort_unstable();
        }
        next.check()?;
        Ok(next)
    }

    /// Next map, in which every shard has `copies` replicas (as many as there are machines, if they
    /// are fewer) and all machines hold about as many; as few as possible move.
    ///
    /// # Errors
    /// If so many copies are impossible.
    pub fn balanced(&self, copies: usize) -> Result<Self, MapError> {
        let mut next = self.next();
        let copies = copies.min(next.machines.len());
        for shard in self.all() {
            while next.holders_of(shard).len() != copies {
                let has_it = |m: &MachineId| next.places(*m, shard);
                let grows = next.holders_of(shard).len() < copies;
                let fit = next.machines.keys().copied().filter(|m| has_it(m) != grows);
                let chosen = if grows {
                    fit.min_by_key(|m| (next.load(*m), *m))
                } else {
                    fit.max_by_key(|m| (next.load(*m), *m))
                };
                let Some(chosen) = chosen else { break };
                let place = next.place_mut(shard);
                if grows {
                    place.push(chosen);
                } else {
                    place.retain(|holder| *holder != chosen);
                }
                place.sort_unstable();
            }
        }
        while next.level() {}
        next.check()?;
        Ok(next)
    }

    /// Moves one shard from the most to the least loaded machine; returns whether that helps.
    fn level(&mut self) -> bool {
        let machines = || self.machines.keys().copied();
        let most = machines().max_by_key(|m| (self.load(*m), *m));
        let least = machines().min_by_key(|m| (self.load(*m), *m));
        let Some((most, least)) = most.zip(least) else { return false };
        if self.load(most) <= self.load(least) + 1 {
            return false;
        }
        let moves = |shard: &ShardId| self.places(most, *shard) && !self.places(least, *shard);
        let Some(shard) = self.all().filter(|shard| *shard != ShardId::MAP).find(moves) else {
            return false;
        };
        let place = self.place_mut(shard);
        place.retain(|holder| *holder != most);
        place.push(least);
        place.sort_unstable();
        true
    }

    fn next(&self) -> Self {
        Self { epoch: self.epoch + 1, ..self.clone() }
    }

    fn place_mut(&mut self, shard: ShardId) -> &mut Vec<MachineId> {
        match self.shards.get_mut(usize::from(shard.0)) {
            Some(place) if shard != ShardId::MAP => place,
            _ => &mut self.holders,
        }
    }

    /// Whether this map may follow another one.
    ///
    /// # Errors
    /// The reason, if not.
    pub fn check_after(&self, before: &Self) -> Result<(), MapError> {
        if self.epoch != before.epoch + 1 {
            let (epoch, expected) = (self.epoch, before.epoch + 1);
            return wrong(format!("the map has epoch {epoch}, but {expected} comes next"));
        }
        if self.founders != before.founders || self.founded_shards() != before.founded_shards() {
            return wrong("the founders and the initial shards cannot be changed");
        }
        if self.tags != before.tags {
            return wrong("the placement rules cannot be changed");
        }
        self.check_level_after(before)?;
        self.check_splits_after(before)?;
        for (machine, address) in &self.machines {
            let known = before.machines.get(machine);
            if known.is_some_and(|known| known != address) && before.loaded(*machine) {
                return wrong(format!(
                    "machine {} holds shards and cannot have another address: let it hold nothing \
                     first",
                    machine.0
                ));
            }
        }
        let left = before.machines.keys().filter(|m| !self.machines.contains_key(m));
        let gone = before.gone.iter().chain(left.clone()).copied();
        if gone.collect::<BTreeSet<MachineId>>() != self.gone {
            return wrong("the map omits former machines, or names ones that never existed");
        }
        for machine in left {
            if before.loaded(*machine) {
                return wrong(format!(
                    "machine {} still has shards to hold: move them to other machines first",
                    machine.0
                ));
            }
        }
        self.check()
    }

    /// Checks that splits are only added and completed, and that the members of one in progress do
    /// not move.
    fn check_splits_after(&self, before: &Self) -> Result<(), MapError> {
        let known = before.splits.iter().zip(&self.splits);
        let changed =
            |(old, new): (&Split, &Split)| *new != Split { done: old.done || new.done, ..*old };
        if self.splits.len() < before.splits.len() || known.clone().any(changed) {
            return wrong("a split in progress cannot be reverted");
        }
        for split in before.splits.iter().filter(|split| !split.done) {
            for shard in [split.parent, split.child] {
                if self.holders_of(shard) != before.holders_of(shard) {
                    let (parent, shard) = (split.parent.0, shard.0);
                    return wrong(format!(
                        "shard {shard} stays where it is while shard {parent} is being split: try \
                         again in a moment"
                    ));
                }
            }
        }
        let new = &self.splits[before.splits.len()..];
        let misplaced = |s: &&Split| self.holders_of(s.child) != before.holders_of(s.parent);
        if new.iter().any(|split| split.done) || new.iter().find(misplaced).is_some() {
            return wrong("a new shard begins on the machines of the one that is split");
        }
        Ok(())
    }

    fn loaded(&self, machine: MachineId) -> bool {
        self.all().any(|shard| self.places(machine, shard))
    }

    /// Checks that the map is consistent.
    fn check(&self) -> Result<(), MapError> {
        if self.machines.is_empty() || self.machines.len() > MACHINES_MAX {
            let count = self.machines.len();
            return wrong(format!("a cluster has 1 to {MACHINES_MAX} machines, not {count}"));
        }
        for (machine, address) in &self.machines {
            let bad_number = !(1..=MACHINE_NUMBER_MAX).contains(&machine.0);
            if bad_number || !is_address(address) {
                return wrong(format!(
                    "'{}={address}' is no machine such as 4=10.0.0.4:7001",
                    machine.0
                ));
            }
            if self.gone.contains(machine) {
                return wrong(format!(
                    "machine {} is both a member and a former member",
                    machine.0
                ));
            }
            if self.machines.iter().any(|(other, a)| other != machine && a == address) {
                return wrong(format!("{address} is the address of two machines"));
            }
        }
        if self.founders.is_empty() || self.shards.is_empty() || self.shards.len() > SHARDS_MAX {
            return wrong(format!("a cluster has founders, and 1 to {SHARDS_MAX} shards"));
        }
        self.check_splits()?;
        for shard in self.all() {
            let name = name_of(shard);
            let holders = self.holders_of(shard);
            if !(1..=REPLICAS_MAX).contains(&holders.len()) {
                let count = holders.len();
                return wrong(format!(
                    "{name} would be held by {count} machines; 1 to {REPLICAS_MAX} can hold it"
                ));
            }
            if !holders.is_sorted_by(|a, b| a < b) {
                return wrong(format!("{name} would be held twice by one machine"));
            }
            if let Some(unknown) = holders.iter().find(|m| !self.machines.contains_key(m)) {
                return wrong(format!(
                    "machine {} is to hold {name}, but is not in the cluster",
                    unknown.0
                ));
            }
        }
        Ok(())
    }

    /// Checks that the splits are consistent, each with those before it.
    fn check_splits(&self) -> Result<(), MapError> {
        if self.splits.len() >= self.shards.len() {
            return wrong("there are more splits than shards");
        }
        let mut open = BTreeSet::new();
        for (split, next) in self.splits.iter().zip(self.founded_shards()..) {
            let Split { child, parent, at, done } = *split;
            if child.0 != next || parent >= child || at >= SLOTS {
                return wrong(format!(
                    "shard {} cannot result from a split of shard {}",
                    child.0, parent.0
                ));
            }
            if open.contains(&parent) {
                return wrong(format!(
                    "shard {} is being split already: try again in a moment",
                    parent.0
                ));
            }
            open.extend((!done).then_some([parent, child]).into_iter().flatten());
        }
        let ranges = self.ranges(|_| true);
        let empty = self.splits.iter().find(|split| ranges[usize::from(split.child.0)].is_none());
        if let Some(Split { parent, at, .. }) = empty {
            return wrong(format!(
                "shard {} cannot be split at slot {at}: one of the two would have no slots",
                parent.0
            ));
        }
        Ok(())
    }

    /// Parses a map.
    ///
    /// # Errors
    /// Names the first invalid line.
    pub fn parse(text: &str) -> Result<Self, MapError> {
        let (mut epoch, mut founders, mut holders, mut gone) = (None, None, None, None);
        let mut machines = BTreeMap::new();
        let mut shards = Vec::new();
        let mut splits = Vec::new();
        let mut level = None;
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let parts = (words.next(), words.next(), words.next(), words.next());
            let known = match parts {
                (None, ..) => true,
                (Some("split" | "splitting"), ..) => {
                    let split = parse_split(line);
                    splits.extend(split);
                    split.is_some()
                }
                (Some("epoch"), Some(number), None, _) => {
                    epoch = number.parse().ok();
                    epoch.is_some()
                }
                (Some("level"), Some(number), None, _) => {
                    level = number.parse().ok().map(Level);
                    level.is_some()
                }
                (Some("place"), Some(_), None, _) => true,
                (Some("founders"), Some(list), None, _) => {
                    founders = parse_machines(list);
                    founders.is_some()
                }
                (Some("gone"), Some(list), None, _) => {
                    gone = parse_machines(list);
                    gone.is_some()
                }
                (Some("map"), Some(list), None, _) => {
                    holders = parse_machines(list);
                    holders.is_some()
                }
                (Some("machine"), Some(number), Some(address), None) => {
                    let number = number.parse().ok().map(MachineId);
                    number.is_some_and(|n| machines.insert(n, address.to_owned()).is_none())
                }
                (Some("shard"), Some(number), Some(list), None) => {
                    let in_turn = number.parse() == Ok(shards.len());
                    let list = parse_machines(list).filter(|_| in_turn);
                    shards.extend(list.clone());
                    list.is_some()
                }
                _ => false,
            };
            if !known {
                return wrong(format!("'{line}' is no line of a shard map"));
            }
        }
        let Some(((epoch, founders), holders)) = epoch.zip(founders).zip(holders) else {
            return wrong("a shard map begins with its epoch, its founders and its holders");
        };
        let Some(level) = level else { return wrong("a shard map names a level") };
        let gone = gone.into_iter().flatten().collect();
        let tags = parse_rules(text)?;
        let map = Self { epoch, founders, machines, holders, shards, gone, splits, level, tags };
        map.check()?;
        Ok(map)
    }
}

impl fmt::Display for ShardMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "epoch {}", self.epoch)?;
        writeln!(f, "founders {}", list(&self.founders))?;
        for (machine, address) in &self.machines {
            writeln!(f, "machine {} {address}", machine.0)?;
        }
        if !self.gone.is_empty() {
            let gone: Vec<MachineId> = self.gone.iter().copied().collect();
            writeln!(f, "gone {}", list(&gone))?;
        }
        writeln!(f, "map {}", list(&self.holders))?;
        for (shard, holders) in self.shards.iter().enumerate() {
            writeln!(f, "shard {shard} {}", list(holders))?;
        }
        for Split { child, parent, at, done } in &self.splits {
            let word = if *done { "split" } else { "splitting" };
            writeln!(f, "{word} {} of {} at {at}", child.0, parent.0)?;
        }
        f.write_str(&rules_text(&self.tags))?;
        writeln!(f, "level {}", self.level)
    }
}

/// Numbers of machines as a map writes them.
pub fn list(machines: &[MachineId]) -> String {
    let numbers: Vec<String> = machines.iter().map(|machine| machine.0.to_string()).collect();
    numbers.join(",")
}

/// Parses the text of [`list`].
pub fn parse_machines(text: &str) -> Option<Vec<MachineId>> {
    text.split(',').map(|number| number.parse().ok().map(MachineId)).collect()
}

/// Parses `split 3 of 0 at 2730`, or `splitting` instead of `split`.
fn parse_split(line: &str) -> Option<Split> {
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let [word, child, "of", parent, "at", at] = words[..] else { return None };
    let (child, parent) = (child.parse().map(ShardId).ok()?, parent.parse().map(ShardId).ok()?);
    Some(Split { child, parent, at: at.parse().ok()?, done: word == "split" })
}

/// Name of a shard, or of the map, in messages.
pub fn name_of(shard: ShardId) -> String {
    if shard == ShardId::MAP { "the map".to_owned() } else { format!("shard {}", shard.0) }
}

fn is_address(address: &str) -> bool {
    let parts = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok());
    let printable = address.bytes().all(|byte| byte.is_ascii_graphic());
    address.len() <= ADDRESS_BYTES_MAX && printable && port.is_some_and(|port| port > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machines(numbers: &[u16]) -> Vec<MachineId> {
        numbers.iter().copied().map(MachineId).collect()
    }

    fn three() -> ShardMap {
        let address = |n: u16| (MachineId(n), format!("10.0.0.{n}:7001"));
        let tags = TagRules::parse(&["bull:*:", "cart:"]).unwrap();
        ShardMap::founded((1..=3).map(address).collect(), 4).with_rules(tags)
    }

    #[test]
    fn a_map_reads_back() {
        let map = three().with(MachineId(4), "[::1]:7001").unwrap();
        let map = map.placed(ShardId(2), &machines(&[4, 1])).unwrap();
        assert_eq!(ShardMap::parse(&map.to_string()), Ok(map));
        for text in ["", "epoch 1\n", "epoch x\n", "shard 1 1\n", "machine 1\n", "nonsense\n"] {
            assert!(ShardMap::parse(text).is_err(), "{text}");
        }
        let doubled = three().to_string().replace("shard 3 1,2,3", "shard 3 1,1,3");
        assert!(ShardMap::parse(&doubled).is_err());
        let unknown = three().to_string().replace("shard 3 1,2,3", "shard 3 1,2,9");
        assert!(ShardMap::parse(&unknown).is_err());
    }

    #[test]
    fn a_machine_comes_is_used_and_goes() {
        let map = three().with(MachineId(4), "10.0.0.4:7001").unwrap();
        assert_eq!((map.epoch, map.load(MachineId(4))), (1, 0));
        assert!(map.with(MachineId(4), "10.0.0.9:7001").is_err());
        assert!(map.with(MachineId(5), "10.0.0.4:7001").is_err());
        let map = map.balanced(3).unwrap();
        let loads: Vec<usize> = (1..=4).map(|n| map.load(MachineId(n))).collect();
        assert_eq!(loads, [3, 3, 3, 3]);
        let err = map.without(MachineId(4)).unwrap_err().to_string();
        assert!(err.contains("machine 4"), "{err}");
        let vacated = map.vacated(MachineId(1)).unwrap();
        assert_eq!(vacated.load(MachineId(1)), 0);
        assert!(vacated.shards.iter().all(|holders| holders == &machines(&[2, 3, 4])));
        let gone = vacated.without(MachineId(1)).unwrap();
        assert_eq!(gone.check_after(&vacated), Ok(()));
        assert_eq!(ShardMap::parse(&gone.to_string()), Ok(gone.clone()));
        assert!(gone.with(MachineId(1), "10.0.0.9:7001").is_err(), "its number was used before");
        let forgetful = ShardMap { gone: BTreeSet::new(), ..gone.clone() };
        assert!(forgetful.check_after(&vacated).is_err());
        let fewer = gone.vacated(MachineId(2)).unwrap();
        assert!(fewer.shards.iter().all(|holders| holders == &machines(&[3, 4])));
    }

    #[test]
    fn only_the_next_map_may_take_the_place_of_a_map() {
        let map = three();
        let next = map.with(MachineId(4), "10.0.0.4:7001").unwrap();
        assert_eq!(next.check_after(&map), Ok(()));
        assert!(map.check_after(&next).is_err());
        assert!(next.check_after(&next).is_err());
        let other = ShardMap { founders: machines(&[1]), ..next.clone() };
        assert!(other.check_after(&map).is_err());
        let other = ShardMap { tags: TagRules::NONE, ..next.clone() };
        assert!(other.check_after(&map).is_err());
        let mut moved = next.clone();
        moved.machines.insert(MachineId(1), "10.0.0.7:7001".to_owned());
        assert!(moved.check_after(&map).is_err());
        let mut lost = next;
        lost.machines.remove(&MachineId(3));
        assert!(lost.check_after(&map).is_err());
    }

    #[test]
    fn a_level_is_raised_and_never_lowered() {
        let old = ShardMap { level: Level::NONE, ..three() };
        assert_eq!(ShardMap::parse(&old.to_string()), Ok(old.clone()));
        let new = old.raised(Level::NEWEST).unwrap();
        assert_eq!(new.check_after(&old), Ok(()));
        assert_eq!(ShardMap::parse(&new.to_string()), Ok(new.clone()));
        assert!(new.raised(Level::NONE).is_err());
        let back = ShardMap { epoch: 2, ..old.clone() };
        assert!(back.check_after(&new).is_err());
        assert!(old.raised(Level(Level::NEWEST.0 + 1)).is_err(), "no machine supports it");
        let newest = format!("level {}\n", Level::NEWEST);
        for other in ["", "level\n", "level x\n"] {
            assert!(ShardMap::parse(&new.to_string().replace(&newest, other)).is_err(), "{other}");
        }
    }

    #[test]
    fn a_shard_is_split_and_its_halves_again() {
        let map = three();
        let (first, last) = map.ranges(|_| true)[1].unwrap();
        let next = map.split(ShardId(1), None).unwrap();
        assert_eq!(next.check_after(&map), Ok(()));
        assert_eq!(ShardMap::parse(&next.to_string()), Ok(next.clone()));
        let (split, given) = next.splitting(ShardId(1)).unwrap();
        assert_eq!((split.child, given), (ShardId(4), (split.at, last)));
        assert_eq!(next.ranges(|split| split.done)[4], None);
        assert_eq!(next.ranges(|split| split.done)[1], Some((first, last)));
        assert_eq!(next.ranges(|_| true)[1], Some((first, split.at - 1)));
        assert!(next.split(ShardId(1), None).is_err(), "one after the other");
        assert!(next.split(ShardId(4), None).is_err(), "it is not there yet");
        let moved = next.placed(ShardId(4), &machines(&[1])).unwrap();
        assert!(moved.check_after(&next).is_err(), "it stays where it is until it is there");
        let done = next.split_done(ShardId(4));
        assert_eq!((done.check_after(&next), done.splits_done(ShardId(1))), (Ok(()), 1));
        assert_eq!(ShardMap::parse(&done.to_string()), Ok(done.clone()));
        assert!(done.splitting(ShardId(1)).is_none());
        let moved = done.placed(ShardId(4), &machines(&[1])).unwrap();
        assert_eq!(moved.check_after(&done), Ok(()));
        let again = done.split(ShardId(4), Some(last)).unwrap();
        assert_eq!(again.ranges(|_| true)[5], Some((last, last)));
        assert_eq!(again.check_after(&done), Ok(()));
        for at in [0, first, last + 1, SLOTS] {
            assert!(map.split(ShardId(1), Some(at)).is_err(), "{at}");
        }
        let taken_back = ShardMap { epoch: 2, ..three() };
        assert!(taken_back.check_after(&next).is_err());
    }

    #[test]
    fn a_balanced_map_stays_as_it_is() {
        let map = three();
        assert_eq!(map.balanced(3).unwrap().shards, map.shards);
        let fewer = map.balanced(2).unwrap();
        let loads: Vec<usize> = (1..=3).map(|n| fewer.load(MachineId(n))).collect();
        assert_eq!(loads.iter().sum::<usize>(), 8);
        assert!(loads.iter().all(|load| (2..=3).contains(load)), "{loads:?}");
    }
}
