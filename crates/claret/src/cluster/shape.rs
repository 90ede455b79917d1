//! Changes of the shard map: machines that are added and removed, shards that move.
//!
//! A change is one new map. The leaders bring the cluster into the state that it describes; this
//! module only waits until they have, and shows the progress. So the change continues after any
//! interruption, and the same command resumes watching it.

use super::{Result, say};
use client::{Client, Command};
use engine::cluster::level::Level;
use engine::cluster::map::{MapError, ShardMap, Split, list, name_of, parse_machines};
use engine::ids::{MachineId, ShardId};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval of the checks of the progress.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Time limit for machines that are to hold replicas to connect.
const COME_WAIT: Duration = Duration::from_secs(5);
/// Attempts at a change if others change the map at the same time.
const ATTEMPTS: u32 = 10;

/// A shard, or the map, and the machines that hold it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// Name of the shard.
    pub name: String,
    /// Machine that leads it; 0 if unknown.
    pub leader: u16,
    /// The machines that vote.
    pub voters: Vec<u16>,
    /// Machines that are catching up.
    pub learners: Vec<u16>,
    /// Voters of the old configuration, while the voters change.
    pub outgoing: Vec<u16>,
}

/// Feature level in use, and the levels that the machines' builds understand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Levels {
    /// Level in use.
    pub used: u16,
    /// Level that each machine understands; `None` for a machine that is not connected.
    pub understood: BTreeMap<u16, Option<u16>>,
}

impl Held {
    /// Whether exactly these machines hold it.
    fn is_by(&self, machines: &[MachineId]) -> bool {
        let numbers: Vec<u16> = machines.iter().map(|machine| machine.0).collect();
        self.voters == numbers && self.learners.is_empty() && self.outgoing.is_empty()
    }
}

/// Current map of the cluster.
pub async fn map(client: &Client) -> Result<ShardMap> {
    let text = say(client, Command::new("SHARDMAP")).await?;
    ShardMap::parse(&text).map_err(|error| error.to_string())
}

/// Machines that hold each shard.
pub async fn holders(client: &Client) -> Result<Vec<Held>> {
    let text = say(client, Command::new("SHARDMAP").arg("HOLDERS")).await?;
    parse(&text)
        .ok_or_else(|| format!("the server's reply to SHARDMAP HOLDERS is invalid: {text:?}"))
}

/// Leader of a shard, as the addressed machine knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Led {
    /// Name of the shard.
    pub name: String,
    /// Number of the machine.
    pub leader: Option<u16>,
    /// Term of the leader, or the last known term.
    pub term: u64,
    /// Start of the lead, in milliseconds since 1970.
    pub since_ms: u64,
}

/// Leaders of all shards.
pub async fn leads(client: &Client) -> Result<Vec<Led>> {
    let text = say(client, Command::new("SHARDMAP").arg("LEADS")).await?;
    let led: Option<Vec<Led>> = text.lines().map(parse_led).collect();
    led.ok_or_else(|| format!("the server's reply to SHARDMAP LEADS is invalid: {text:?}"))
}

fn parse_led(line: &str) -> Option<Led> {
    let (name, rest) = line.split_once(" leader ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let [leader, "term", term, "since_ms", since_ms] = words[..] else { return None };
    let leader: u16 = leader.parse().ok()?;
    let (term, since_ms) = (term.parse().ok()?, since_ms.parse().ok()?);
    Some(Led { name: name.to_owned(), leader: (leader > 0).then_some(leader), term, since_ms })
}

/// Feature level in use, and the level that each machine understands.
pub async fn levels(client: &Client) -> Result<Levels> {
    let used = map(client).await?.level.0;
    let text = say(client, Command::new("SHARDMAP").arg("LEVELS")).await?;
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["machine", number, "level", level] => {
                Some((number.parse().ok()?, Some(level.parse().ok()?)))
            }
            ["machine", number, "away"] => Some((number.parse().ok()?, None)),
            _ => None,
        }
    };
    let understood: Option<BTreeMap<u16, Option<u16>>> = text.lines().map(line).collect();
    let understood = understood
        .ok_or_else(|| format!("the server's reply to SHARDMAP LEVELS is invalid: {text:?}"))?;
    Ok(Levels { used, understood })
}

/// Enables all features of this build.
pub async fn upgrade(client: &Client) -> Result<()> {
    let (before, newest) = (map(client).await?.level, Level::NEWEST);
    if before == newest {
        eprintln!("the cluster already uses level {newest}");
        return Ok(());
    }
    change(client, |map, _| map.raised(newest)).await?;
    eprintln!("the cluster now uses level {newest} instead of {before}");
    Ok(())
}

fn parse(text: &str) -> Option<Vec<Held>> {
    text.lines().map(parse_line).collect()
}

/// Reads `shard 3 leader 1 voters 1,2,3 learners 4`.
fn parse_line(line: &str) -> Option<Held> {
    let (name, rest) = line.split_once(" leader ")?;
    let mut words = rest.split(' ');
    let leader = words.next()?.parse().ok()?;
    let mut held = Held { name: name.to_owned(), leader, ..Held::default() };
    while let Some(what) = words.next() {
        let machines = parse_machines(words.next()?)?.into_iter().map(|m| m.0).collect();
        match what {
            "voters" => held.voters = machines,
            "learners" => held.learners = machines,
            "outgoing" => held.outgoing = machines,
            _ => return None,
        }
    }
    Some(held)
}

/// Writes the map that `next` derives from the current one; retries after a concurrent change.
/// Returns the cluster's map afterwards.
///
/// An attempt whose answer was lost may have been written, and others may have written after it: the
/// next attempt must find that out, or the change would be made twice. `next` is given the map that
/// was tried before, and returns the current one unchanged if that holds what was tried.
async fn change(
    client: &Client,
    next: impl Fn(&ShardMap, Option<&ShardMap>) -> std::result::Result<ShardMap, MapError>,
) -> Result<ShardMap> {
    let mut tried = None;
    for _ in 0..ATTEMPTS {
        let before = map(client).await?;
        let after = next(&before, tried.as_ref()).map_err(|error| error.to_string())?;
        if same(&before, &after) {
            return Ok(before);
        }
        wait_for_holders(client, &before, &after).await?;
        let set = Command::new("SHARDMAP").arg("SET").arg(after.to_string());
        let written = say(client, set).await;
        for _ in 0..5 {
            let now = map(client).await?;
            if now == after || now.epoch > before.epoch && written.is_ok() {
                return Ok(after);
            }
            if now.epoch > before.epoch {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tried = Some(after);
        if let Err(error) = written
            && !error.contains("CHANGED")
            && !error.contains("comes next")
        {
            return Err(error);
        }
    }
    Err("other clients keep changing the shard map: try again later".to_owned())
}

/// Refuses new holders that are not connected, after a short time for them to connect: otherwise
/// the shard would stop, and the change could not be undone.
async fn wait_for_holders(client: &Client, before: &ShardMap, after: &ShardMap) -> Result<()> {
    let changes = |shard: &ShardId| before.holders_of(*shard) != after.holders_of(*shard);
    let changed: Vec<ShardId> = after.all().filter(changes).collect();
    let began = Instant::now();
    while !changed.is_empty() {
        let machines = super::machines(client).await?.into_iter();
        let there: BTreeSet<u16> = machines.filter(|m| m.connected).map(|m| m.machine).collect();
        let refused = changed.iter().find_map(|shard| refusal(before, after, *shard, &there));
        match refused {
            None => break,
            Some(reason) if began.elapsed() > COME_WAIT => return Err(reason),
            Some(_) => tokio::time::sleep(LOOK_EVERY).await,
        }
    }
    Ok(())
}

/// Reason why a shard cannot move to its new holders while only these machines are connected.
fn refusal(
    before: &ShardMap,
    after: &ShardMap,
    shard: ShardId,
    there: &BTreeSet<u16>,
) -> Option<String> {
    let (name, holders) = (name_of(shard), after.holders_of(shard));
    let away: Vec<MachineId> = holders.iter().copied().filter(|m| !there.contains(&m.0)).collect();
    if let Some(machine) = away.iter().find(|machine| !before.places(**machine, shard)) {
        return Some(format!(
            "machine {} is to hold {name} but is not connected: start it, or remove it with \
             `claret cluster remove {0}`",
            machine.0
        ));
    }
    (2 * away.len() >= holders.len()).then(|| {
        format!(
            "{name} would be on machines of which no majority is connected; missing: {}",
            list(&away)
        )
    })
}

fn same(a: &ShardMap, b: &ShardMap) -> bool {
    ShardMap { epoch: b.epoch, ..a.clone() } == *b
}

/// Waits until all shards are on the machines that the map assigns.
async fn wait_for(client: &Client, wanted: &ShardMap) -> Result<()> {
    let (mut shown, mut begun) = (String::new(), None);
    loop {
        let held = holders(client).await?;
        let places = wanted.all().map(|shard| (name_of(shard), wanted.holders_of(shard)));
        let open: Vec<String> = places
            .filter(|(name, machines)| {
                let held = held.iter().find(|held| held.name == *name);
                held.is_none_or(|held| !held.is_by(machines))
            })
            .map(|(name, machines)| format!("{name} to {}", list(machines)))
            .collect();
        let total = *begun.get_or_insert(open.len());
        if open.is_empty() {
            if total > 0 {
                eprintln!("{total} of {total} are in place");
            }
            return Ok(());
        }
        let line = format!("{} of {total} are in place; ", total.max(open.len()) - open.len());
        let line = line + &format!("moving: {}", open.join(", "));
        if line != shown {
            eprintln!("{line}");
            shown = line;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Admits a machine to the cluster.
pub async fn add(client: &Client, machine: MachineId, address: &str) -> Result<()> {
    let known = map(client).await?;
    if known.machines.get(&machine).is_some_and(|known| known == address) {
        eprintln!("machine {} is already in the cluster", machine.0);
        return Ok(());
    }
    change(client, |map, tried| admitted(map, tried, machine, address)).await?;
    eprintln!(
        "machine {0} is admitted: start it with --node {0} --join, and then run `claret cluster \
         rebalance --copies N` or `claret cluster move` lets it hold shards",
        machine.0
    );
    Ok(())
}

/// Removes a machine from the cluster, after its replicas have moved elsewhere.
pub async fn remove(client: &Client, machine: MachineId) -> Result<()> {
    if !map(client).await?.machines.contains_key(&machine) {
        eprintln!("machine {} is not in the cluster", machine.0);
        return Ok(());
    }
    let vacated = change(client, |map, _| map.vacated(machine)).await?;
    wait_for(client, &vacated).await?;
    change(client, |map, tried| removed(map, tried, machine)).await?;
    eprintln!("machine {} can be stopped; its number will never be used again", machine.0);
    Ok(())
}

/// Places a shard, or the map, on other machines.
pub async fn place(client: &Client, shard: ShardId, machines: &[MachineId]) -> Result<()> {
    let wanted = change(client, |map, _| map.placed(shard, machines)).await?;
    wait_for(client, &wanted).await
}

/// Spreads shards evenly, with this many copies of each.
pub async fn spread(client: &Client, copies: usize) -> Result<()> {
    let wanted = change(client, |map, _| map.balanced(copies)).await?;
    wait_for(client, &wanted).await
}

/// The next map with a machine, or this one if the machine was admitted when it was tried before.
fn admitted(
    map: &ShardMap,
    tried: Option<&ShardMap>,
    machine: MachineId,
    address: &str,
) -> std::result::Result<ShardMap, MapError> {
    match map.machines.get(&machine) {
        Some(known) if tried.is_some() && known == address => Ok(map.clone()),
        _ => map.with(machine, address),
    }
}

/// The next map without a machine, or this one if the machine was removed when it was tried before.
fn removed(
    map: &ShardMap,
    tried: Option<&ShardMap>,
    machine: MachineId,
) -> std::result::Result<ShardMap, MapError> {
    if tried.is_some() && map.gone.contains(&machine) {
        return Ok(map.clone());
    }
    map.without(machine)
}

/// The next map, in which a shard is being split. It is this one if that is so already, or if the
/// split that was tried before was written: it may even be done.
fn divided(
    map: &ShardMap,
    tried: Option<&ShardMap>,
    shard: ShardId,
    at: Option<u16>,
) -> std::result::Result<ShardMap, MapError> {
    let written = tried.and_then(|tried| tried.splitting(shard)).is_some_and(|(split, _)| {
        map.origin(split.child).is_some_and(|known| Split { done: false, ..known } == split)
    });
    let under_way =
        map.splitting(shard).is_some_and(|(split, _)| at.is_none_or(|at| at == split.at));
    if written || under_way { Ok(map.clone()) } else { map.split(shard, at) }
}

/// Splits a shard, or watches a split in progress, until the new shard has a leader.
pub async fn split(client: &Client, shard: ShardId, at: Option<u16>) -> Result<()> {
    let wanted = change(client, |map, tried| divided(map, tried, shard, at)).await?;
    let Some(Split { child, at: first, .. }) = wanted.latest_split(shard) else {
        return Err(format!("shard {} is not being split", shard.0));
    };
    eprintln!("the slots of shard {} from {first} on go to shard {}", shard.0, child.0);
    loop {
        let done = map(client).await?.origin(child).is_some_and(|split| split.done);
        let held = holders(client).await?;
        let led = held.iter().any(|held| held.name == name_of(child) && held.leader != 0);
        if done && led {
            eprintln!("shard {} has a leader", child.0);
            return Ok(());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_leaders_say_is_read() {
        let text = "shard 0 leader 2 voters 1,2,3\n\
                    the map leader 0 voters 1,4 learners 5 outgoing 1,2\n";
        let held = parse(text).unwrap();
        assert!(held[0].is_by(&[MachineId(1), MachineId(2), MachineId(3)]));
        assert_eq!((held[1].name.as_str(), held[1].leader), ("the map", 0));
        assert_eq!((&held[1].learners[..], &held[1].outgoing[..]), (&[5][..], &[1, 2][..]));
        assert!(!held[1].is_by(&[MachineId(1), MachineId(4)]), "it is not settled");
        assert_eq!(parse("rubbish"), None);
        assert_eq!(parse("shard 0 leader 2 voters x"), None);
    }

    #[test]
    fn leaders_and_the_start_of_their_leads_are_read() {
        let led = parse_led("shard 3 leader 2 term 7 since_ms 1000").unwrap();
        let name = "shard 3".to_owned();
        assert_eq!(led, Led { name, leader: Some(2), term: 7, since_ms: 1_000 });
        let unled = parse_led("the map leader 0 term 7 since_ms 5").unwrap();
        assert_eq!((unled.name.as_str(), unled.leader), ("the map", None));
        assert_eq!(parse_led("shard 3 leader x term 7 since_ms 1000"), None);
        assert_eq!(parse_led("rubbish"), None);
    }

    #[test]
    fn a_change_whose_answer_was_lost_is_not_made_twice() {
        let machines = [(MachineId(1), "a:1".to_owned())].into();
        let map = ShardMap::founded(machines, 2);
        let shard = ShardId(0);

        let split = divided(&map, None, shard, None).unwrap();
        assert_eq!(divided(&split, Some(&split), shard, None).unwrap(), split, "under way");
        let done = split.split_done(ShardId(2));
        assert_eq!(divided(&done, Some(&split), shard, None).unwrap(), done, "even done");
        assert_eq!(done.latest_split(shard).unwrap().child, ShardId(2));
        assert_ne!(divided(&done, None, shard, None).unwrap(), done, "a new split");
        let other = map.split(ShardId(1), None).unwrap();
        let both = divided(&other, Some(&split), shard, None).unwrap();
        assert_eq!(both.latest_split(shard).unwrap().child, ShardId(3), "another one came first");

        let more = admitted(&map, None, MachineId(2), "b:1").unwrap();
        assert_eq!(admitted(&more, Some(&more), MachineId(2), "b:1").unwrap(), more);
        admitted(&more, Some(&more), MachineId(2), "c:1").unwrap_err();
        admitted(&more, None, MachineId(2), "b:1").unwrap_err();
        let fewer = removed(&more, None, MachineId(2)).unwrap();
        assert_eq!(removed(&fewer, Some(&fewer), MachineId(2)).unwrap(), fewer);
        removed(&fewer, None, MachineId(2)).unwrap_err();
    }

    #[test]
    fn a_map_that_says_the_same_is_no_change() {
        let machines = [(MachineId(1), "a:1".to_owned())].into();
        let map = ShardMap::founded(machines, 2);
        assert!(same(&map, &map.balanced(1).unwrap()));
        assert!(!same(&map, &map.with(MachineId(2), "b:1").unwrap()));
    }
}
