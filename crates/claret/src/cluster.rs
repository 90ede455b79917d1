//! `claret cluster`: shows a cluster, decides which machine leads and holds which shard, and adds
//! and removes machines.
//!
//! All requests go to the machines' client port, with commands that any Redis client could send:
//! `CLUSTER NODES`, `FAILOVER` and `SHARDMAP`.

mod init;
mod shape;

use crate::target::Target;
use clap::{Args, Subcommand};
use client::{Client, Command};
use engine::cluster::map::{ShardMap, name_of, parse_machines};
use engine::ids::{MachineId, ShardId};
use serde::Serialize;
use shape::{Held, Led, Levels};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time limit for a machine to hand over all shards.
const DRAIN_WAIT: Duration = Duration::from_secs(15);
/// Interval of the checks of its progress.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Arguments of `claret cluster`.
#[derive(Args, Debug)]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    target: Target,
    /// Print one JSON document.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Write a configuration file for each machine of a new cluster.
    ///
    /// Starting these machines founds the cluster, usually with three or five of them: it stays
    /// available as long as a majority does. No machine is contacted.
    Init(init::InitArgs),
    /// Show the machines, and the leader and the replicas of each shard.
    Status,
    /// Admit a machine to the cluster: 4=host:port, the address at which it listens for its peers.
    ///
    /// Then start it with `claret serve --node 4 --join --cluster ...`, which names it and at least
    /// one existing machine. It holds nothing before `rebalance --copies` or `move`.
    Add {
        /// Number of the machine, which no other machine has or ever had, and its address.
        #[arg(value_name = "NUMBER=HOST:PORT")]
        machine: String,
    },
    /// Remove a machine from the cluster, after others have replaced its replicas.
    ///
    /// The machine may be lost already. A shard for which no other machine is available keeps one
    /// replica less.
    Remove {
        /// Number of the machine.
        machine: u16,
    },
    /// Place a shard on exactly these machines.
    Move {
        /// Number of the shard, or `map` for the shard map.
        shard: String,
        /// Numbers of the machines, such as 1,2,4.
        #[arg(value_name = "MACHINES")]
        to: String,
    },
    /// Split a shard: a new one gets the upper half of its slots.
    ///
    /// The new shard gets the next number and starts on the same machines; `move` and `rebalance`
    /// may place it elsewhere afterwards. If a split of the shard is already in progress, this
    /// command waits for it.
    Split {
        /// Number of the shard.
        shard: u16,
        /// First slot of the new shard, instead of the middle.
        #[arg(long, value_name = "SLOT")]
        at: Option<u16>,
    },
    /// Make a machine hand over all leads and take no new ones, for example before it is stopped.
    ///
    /// Clients only notice a pause of a few milliseconds. The machine keeps its replicas, and takes
    /// leads again after `undrain`, after a restart, or when no other machine can lead.
    Drain {
        /// Number of the machine.
        machine: u16,
    },
    /// Allow a machine to take leads again.
    Undrain {
        /// Number of the machine.
        machine: u16,
    },
    /// Make a machine the leader of one shard.
    Lead {
        /// Number of the shard.
        shard: u16,
        /// Number of the machine.
        machine: u16,
    },
    /// Enable all features of this build, once the last machine runs it.
    ///
    /// Machines of a newer build keep using the formats that older builds read. This command ends
    /// that: from then on, machines with an older build are refused, and there is no way back.
    Upgrade,
    /// Spread the leads of shards evenly over the connected machines.
    Rebalance {
        /// First spread the shards themselves, with this many copies of each.
        #[arg(long, value_name = "N")]
        copies: Option<usize>,
    },
}

/// A shard as `CLUSTER NODES` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Shard {
    shard: u16,
    first_slot: u16,
    last_slot: u16,
}

/// A machine as `CLUSTER NODES` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Machine {
    machine: u16,
    id: String,
    address: String,
    connected: bool,
    /// Whether it is the machine that was addressed.
    myself: bool,
    leads: Vec<Shard>,
}

type Result<T> = std::result::Result<T, String>;

/// Runs the command.
pub fn main(args: &ClusterArgs) -> ExitCode {
    if let Action::Init(init) = &args.action {
        return crate::end(init::init(init, args.json));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(error.to_string()),
    };
    crate::end(done)
}

async fn run(args: &ClusterArgs) -> Result<String> {
    let client = args.target.connect().await?;
    match &args.action {
        Action::Status | Action::Init(_) => {}
        Action::Add { machine } => {
            let (number, address) = new_machine(machine)?;
            shape::add(&client, number, address).await?;
        }
        Action::Remove { machine } => shape::remove(&client, MachineId(*machine)).await?,
        Action::Move { shard, to } => {
            let shard = match shard.as_str() {
                "map" => Ok(ShardId::MAP),
                number => number.parse().map(ShardId),
            };
            let shard = shard.map_err(|_| "the shard is a number, or 'map'".to_owned())?;
            let to = parse_machines(to);
            let to = to.ok_or("the machines are numbers, such as 1,2,4".to_owned())?;
            shape::place(&client, shard, &to).await?;
        }
        Action::Split { shard, at } => shape::split(&client, ShardId(*shard), *at).await?,
        Action::Drain { machine } => drain(&client, &args.target, *machine).await?,
        Action::Undrain { machine } => {
            let other = connect_with(&client, &args.target, *machine).await?;
            say(&other, Command::new("FAILOVER").arg("ABORT")).await?;
        }
        Action::Lead { shard, machine } => lead(&client, *shard, *machine).await?,
        Action::Upgrade => shape::upgrade(&client).await?,
        Action::Rebalance { copies } => {
            if let Some(copies) = copies {
                shape::spread(&client, *copies).await?;
            }
            rebalance(&client).await?;
        }
    }
    let machines = machines(&client).await?;
    // A standalone server has none, and some users may not run the command.
    let held = shape::holders(&client).await.unwrap_or_default();
    let levels = shape::levels(&client).await.ok();
    let led = shape::leads(&client).await.unwrap_or_default();
    if args.json {
        return Ok(json(&machines, &held, &led, levels.as_ref()));
    }
    let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    Ok(page(&machines, &held, &led, levels.as_ref(), now_ms as u64))
}

/// Reads `4=host:port`.
fn new_machine(text: &str) -> Result<(MachineId, &str)> {
    let parts = text.split_once('=');
    let parts = parts.and_then(|(number, address)| Some((number.parse().ok()?, address)));
    let (number, address) = parts.ok_or_else(|| {
        format!("'{text}' does not name a machine: expected, for example, 4=10.0.0.4:7001")
    })?;
    Ok((MachineId(number), address))
}

/// Connects to a machine of the cluster, as the URL's user.
async fn connect_with(client: &Client, target: &Target, number: u16) -> Result<Client> {
    let all = machines(client).await?;
    let machine = all.iter().find(|machine| machine.machine == number);
    let machine = machine.ok_or_else(|| format!("there is no machine {number} in the cluster"))?;
    if !machine.connected {
        return Err(format!("machine {number} is not connected to the machine that was addressed"));
    }
    if machine.myself {
        return Ok(client.clone());
    }
    target.connect_at(&machine.address).await
}

async fn say(client: &Client, command: Command) -> Result<String> {
    client.send::<String>(command).await.map_err(|error| error.to_string())
}

async fn machines(client: &Client) -> Result<Vec<Machine>> {
    let text = say(client, Command::new("CLUSTER").arg("NODES")).await?;
    let machines = parse(&text);
    let mut machines = machines
        .ok_or_else(|| format!("the server's reply to CLUSTER NODES is invalid: {text:?}"))?;
    // A standalone server has no map, and some users may not run the command.
    if let Ok(map) = shape::map(client).await {
        number_as(&mut machines, &map);
    }
    Ok(machines)
}

/// Gives shards their numbers in the map.
fn number_as(machines: &mut [Machine], map: &ShardMap) {
    for led in machines.iter_mut().flat_map(|machine| &mut machine.leads) {
        let begins = |range: &Option<(u16, u16)>| range.is_some_and(|(f, _)| f == led.first_slot);
        let found = map.ranges(|_| true).iter().position(begins);
        led.shard = found.map_or(led.shard, |shard| shard as u16);
    }
}

async fn lead(client: &Client, shard: u16, machine: u16) -> Result<()> {
    let command = Command::new("FAILOVER").arg("SHARD").arg(shard).arg("TO").arg(machine);
    say(client, command).await?;
    eprintln!("machine {machine} leads shard {shard}");
    Ok(())
}

async fn drain(client: &Client, target: &Target, number: u16) -> Result<()> {
    let other = connect_with(client, target, number).await?;
    say(&other, Command::new("FAILOVER")).await?;
    let (began, mut left) = (Instant::now(), usize::MAX);
    loop {
        let leads = machines(&other).await?.into_iter().find(|m| m.machine == number);
        let leads = leads.map_or(0, |machine| machine.leads.len());
        if leads < left {
            eprintln!("machine {number} leads {leads} shards");
            left = leads;
        }
        if left == 0 {
            return Ok(());
        }
        if began.elapsed() > DRAIN_WAIT {
            return Err(format!(
                "machine {number} still leads {left} shards: are the other machines connected and \
                 up to date? It goes on to stand back; `claret cluster undrain {number}` ends that"
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn rebalance(client: &Client) -> Result<()> {
    let held = shape::holders(client).await?;
    let mut all = machines(client).await?;
    while let Some((shard, machine)) = next_move(&all, &held) {
        lead(client, shard, machine).await?;
        all = machines(client).await?;
    }
    Ok(())
}

/// Next step towards an even spread of leads: a shard, and another machine that holds it and should
/// lead it.
fn next_move(machines: &[Machine], held: &[Held]) -> Option<(u16, u16)> {
    let connected = || machines.iter().filter(|machine| machine.connected);
    let moves = connected().flat_map(|from| from.leads.iter().map(move |led| (from, led.shard)));
    let moves = moves.flat_map(|(from, shard)| connected().map(move |to| (from, shard, to)));
    let useful = |(from, _, to): &(&Machine, u16, &Machine)| from.leads.len() > to.leads.len() + 1;
    let holds = |(_, shard, to): &(&Machine, u16, &Machine)| {
        let name = name_of(ShardId(*shard));
        held.iter().any(|held| held.name == name && held.voters.contains(&to.machine))
    };
    let best = moves
        .filter(|step| useful(step) && holds(step))
        .max_by_key(|(from, shard, to)| (from.leads.len() - to.leads.len(), *shard));
    best.map(|(_, shard, to)| (shard, to.machine))
}

/// Reads `CLUSTER NODES`. Shards are numbered in the order of their slots, as they are before the
/// first split.
fn parse(text: &str) -> Option<Vec<Machine>> {
    let mut machines = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [id, address, flags, _, _, _, number, state, slots @ ..] = &words[..] else {
            return None;
        };
        let mut leads = Vec::new();
        for range in slots {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first_slot, last_slot) = (first.parse().ok()?, last.parse().ok()?);
            leads.push(Shard { shard: 0, first_slot, last_slot });
        }
        machines.push(Machine {
            machine: number.parse().ok()?,
            id: (*id).to_owned(),
            address: address.split('@').next()?.to_owned(),
            connected: *state == "connected",
            myself: flags.split(',').any(|flag| flag == "myself"),
            leads,
        });
    }
    machines.sort_by_key(|machine| machine.machine);
    let mut all: Vec<&mut Shard> = machines.iter_mut().flat_map(|m| &mut m.leads).collect();
    all.sort_by_key(|shard| shard.first_slot);
    all.into_iter().zip(0..).for_each(|(shard, number)| shard.shard = number);
    Some(machines)
}

fn json(machines: &[Machine], held: &[Held], led: &[Led], levels: Option<&Levels>) -> String {
    let page =
        serde_json::json!({ "machines": machines, "held": held, "led": led, "levels": levels });
    format!("{page:#}\n")
}

/// Most severe problems: shards without a leader, then lost machines.
fn troubles(machines: &[Machine], led: &[Led]) -> String {
    let list = |names: Vec<String>| names.join(", ");
    let unled: Vec<String> =
        led.iter().filter(|led| led.leader.is_none()).map(|led| led.name.clone()).collect();
    let lost: Vec<String> = machines
        .iter()
        .filter(|machine| !machine.connected)
        .map(|machine| machine.machine.to_string())
        .collect();
    let mut text = String::new();
    if !unled.is_empty() {
        text.push_str(&format!(
            "NO LEADER OF {}: requests are refused with CLUSTERDOWN\n",
            list(unled)
        ));
    }
    if !lost.is_empty() {
        text.push_str(&format!("NOT CONNECTED: {}\n", list(lost)));
    }
    if text.is_empty() { text } else { text + "\n" }
}

fn page(
    machines: &[Machine],
    held: &[Held],
    led: &[Led],
    levels: Option<&Levels>,
    now_ms: u64,
) -> String {
    let mut page = troubles(machines, led);
    page += &format!("{:>7}  {:<22} {:<12} leads\n", "machine", "address", "state");
    for machine in machines {
        let state = if machine.connected { "connected" } else { "lost" };
        let leads: Vec<String> = machine.leads.iter().map(|s| s.shard.to_string()).collect();
        let leads = if leads.is_empty() { "none".to_owned() } else { leads.join(", ") };
        let (number, address) = (machine.machine, &machine.address);
        page.push_str(&format!("{number:>7}  {address:<22} {state:<12} {leads}\n"));
    }
    if !led.is_empty() {
        page.push_str("\nshard    led by   term     for\n");
    }
    for Led { name, leader, term, since_ms } in led {
        let name = name.strip_prefix("shard ").unwrap_or(name);
        let leader = leader.map_or_else(|| "none".to_owned(), |machine| machine.to_string());
        let for_s = now_ms.saturating_sub(*since_ms) / 1000;
        page.push_str(&format!("{name:<8} {leader:<8} {term:<8} {for_s} s\n"));
    }
    if !held.is_empty() {
        page.push_str("\nshard    held by\n");
    }
    for Held { name, voters, learners, outgoing, .. } in held {
        let name = name.strip_prefix("shard ").unwrap_or(name);
        page.push_str(&format!("{name:<8} {}", numbers(voters)));
        for (what, machines) in [("catching up: ", learners), ("leaving: ", outgoing)] {
            let machines: Vec<u16> =
                machines.iter().copied().filter(|m| !voters.contains(m)).collect();
            if !machines.is_empty() {
                page.push_str(&format!("; {what}{}", numbers(&machines)));
            }
        }
        page.push('\n');
    }
    page + &levels.map(levels_line).unwrap_or_default()
}

fn levels_line(levels: &Levels) -> String {
    let Levels { used, understood } = levels;
    let others: Vec<String> = understood
        .iter()
        .filter_map(|(machine, level)| Some((machine, level.filter(|level| level != used)?)))
        .map(|(machine, level)| format!("machine {machine} supports {level}"))
        .collect();
    let others = if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
    format!("\nlevel    {used}{others}\n")
}

fn numbers(machines: &[u16]) -> String {
    let numbers: Vec<String> = machines.iter().map(u16::to_string).collect();
    numbers.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODES: &str = "\
        bb h2:2@0 myself,master - 0 0 2 connected 5462-10922 0-5461\n\
        aa h1:1@0 master - 0 0 1 connected 10923-16383\n\
        cc :0@0 master,fail - 0 0 3 disconnected\n";

    #[test]
    fn what_the_machines_say_is_read() {
        let machines = parse(NODES).unwrap();
        let numbers: Vec<u16> = machines.iter().map(|machine| machine.machine).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let leads = |at: usize| machines[at].leads.iter().map(|s| s.shard).collect::<Vec<_>>();
        assert_eq!((leads(0), leads(1), leads(2)), (vec![2], vec![1, 0], vec![]));
        assert!(!machines[2].connected);
        let held = Held { name: "shard 0".to_owned(), voters: vec![1, 2], ..Held::default() };
        let understood = [(1, Some(3)), (2, Some(2)), (3, None)].into();
        let levels = Levels { used: 2, understood };
        let one =
            |name: &str, leader, since_ms| Led { name: name.to_owned(), leader, term: 7, since_ms };
        let led = [one("shard 0", Some(2), 1_000), one("shard 1", None, 61_000)];
        let held = [Held { learners: vec![4], ..held }];
        let text = page(&machines, &held, &led, Some(&levels), 91_000);
        let top = "NO LEADER OF shard 1: requests are refused with CLUSTERDOWN\n\
                   NOT CONNECTED: 3\n";
        assert!(text.starts_with(top), "{text}");
        assert!(text.contains("\n0        2        7        90 s\n"), "{text}");
        assert!(text.contains("\n1        none     7        30 s\n"), "{text}");
        assert!(text.ends_with("\nlevel    2; machine 1 supports 3\n"), "{text}");
        assert!(text.contains("lost") && text.contains("1, 2; catching up: 4"), "{text}");
        assert_eq!(parse("rubbish"), None);
    }

    #[test]
    fn shards_that_came_out_of_splits_have_their_own_numbers() {
        let address = |n: u16| (MachineId(n), format!("h{n}:1"));
        let map = ShardMap::founded((1..=3).map(address).collect(), 2);
        let map = map.split(ShardId(0), Some(5462)).unwrap().split_done(ShardId(2));
        let map = map.split(ShardId(1), Some(10_923)).unwrap().split_done(ShardId(3));
        let nodes = NODES.replace("5462-10922", "5462-8191 8192-10922");
        let mut machines = parse(&nodes).unwrap();
        number_as(&mut machines, &map);
        let leads = |at: usize| machines[at].leads.iter().map(|s| s.shard).collect::<Vec<_>>();
        assert_eq!((leads(0), leads(1)), (vec![3], vec![2, 1, 0]));
    }

    #[test]
    fn leads_are_spread_over_the_machines_that_are_connected() {
        let mut machines = parse(NODES).unwrap();
        let held = |name: &str, voters: &[u16]| Held {
            name: name.to_owned(),
            voters: voters.to_vec(),
            ..Held::default()
        };
        let all = [held("shard 0", &[1, 2, 3]), held("shard 1", &[2]), held("shard 2", &[1, 3])];
        assert_eq!(next_move(&machines, &all), None);
        machines[2].connected = true;
        assert_eq!(next_move(&machines, &all), Some((0, 3)));
        let elsewhere = [held("shard 0", &[1, 2]), held("shard 1", &[2]), held("shard 2", &[1, 3])];
        assert_eq!(
            next_move(&machines, &elsewhere),
            None,
            "machine 3 holds nothing of machine 2's"
        );
    }
}
