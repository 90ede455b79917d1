//! What a run is like: how large, what goes wrong in it and how often, what its clients do.
//!
//! Everything is drawn anew for every seed, and in most runs most things are off: a run in which
//! everything happens at once hides what only shows when one thing happens often (Groce and
//! others, "Swarm Testing", ISSTA 2012).

use crate::build::OLDER;
use crate::client::Manners;
use crate::guest::Habits;
use crate::holder;
use crate::plant::Plant;
use crate::random::Random;
use crate::server::Shape;
use crate::workload::Mix;
use engine::gateway::Order;
use engine::level::Level;
use engine::limits::REPLICAS_MAX;
use engine::message::Concurrency;

/// Most machines that a cluster begins with; more come in the place of lost ones.
const MACHINES_MAX: u64 = 9;
/// In how many of a hundred runs there are clients of the coordination service.
const GUESTS_PERCENT: u64 = 35;
/// In how many of a hundred runs there are clients of locks.
const HOLDERS_PERCENT: u64 = 25;
/// Most shards.
const SHARDS_MAX: u64 = 9;
/// What takes a lead from a machine, and how often a run about pipelines has it at most.
const DEPOSING: [(Fault, u64); 4] =
    [(Fault::Crash, 3), (Fault::Pause, 3), (Fault::Isolation, 4), (Fault::StandBack, 2)];

/// What parts a lock from its holder, and how often a run about locks has it at most.
const HOLDING: [(Fault, u64); 8] = [
    (Fault::Crash, 3),
    (Fault::Pause, 3),
    (Fault::Isolation, 3),
    (Fault::HandOver, 8),
    (Fault::Disconnect, 30),
    (Fault::Vanish, 20),
    (Fault::ClockJump, 3),
    (Fault::ClockLeap, 1),
];

/// What runs are about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// Everything.
    #[default]
    Everything,
    /// Pipelines over several shards, most of them in constant time and some long, of clusters whose
    /// leaders change again and again.
    Pipelines,
    /// Locks with fencing tokens, whose holders stand still and leave, on machines and links that do so
    /// as well.
    Locks,
    /// Sessions and nodes of a tree that is spread over several shards.
    Trees,
}

/// Something that goes wrong, or that somebody does at a bad moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// The power of a machine fails; it is back soon.
    Crash,
    /// The same, for long enough that the others forget what it lacks.
    Outage,
    /// An fsync fails: the process ends.
    FailedSync,
    /// A disk is full for a while: the process ends whenever it writes.
    FullDisk,
    /// A disk is lost with its machine, which comes back under a new number.
    LostDisk,
    /// A bit of what was durable is another one: the machine must not start with that.
    FlippedBit,
    /// A snapshot is taken.
    Snapshot,
    /// A wall clock jumps by up to a second.
    ClockJump,
    /// A wall clock jumps by up to a day.
    ClockLeap,
    /// A client's connection breaks.
    Disconnect,
    /// A client is gone, and the server does not notice for seconds.
    Vanish,
    /// A client does not wait for the reply and asks another machine, under the same number.
    Impatience,
    /// A machine does nothing for a while.
    Pause,
    /// The same, and it is out of reach for longer than that.
    Move,
    /// One machine or one pair of machines does not hear the other side.
    Cut,
    /// A machine that leads is cut off from all others.
    Isolation,
    /// Every message over one link takes long.
    Clog,
    /// A connection breaks, and is made again.
    Reset,
    /// A bit of a message between machines is another one.
    Garble,
    /// A lead is handed over.
    HandOver,
    /// A machine hands over all that it leads and stands back.
    StandBack,
    /// What was measured is a lie: a machine, or all of them, count time too fast or too slowly.
    Lie,
    /// The shard map is changed.
    Reshape,
    /// Clients have nothing to ask for a while, so that groups fall asleep.
    Lull,
    /// Somebody takes a backup of everything.
    Backup,
}

impl Fault {
    /// All of them, with how often a run has each at most and whether it takes several machines.
    const ALL: [(Self, u64, bool); 25] = [
        (Self::Crash, 4, false),
        (Self::Outage, 2, true),
        (Self::FailedSync, 3, false),
        (Self::FullDisk, 2, false),
        (Self::LostDisk, 2, true),
        (Self::FlippedBit, 2, true),
        (Self::Snapshot, 40, false),
        (Self::ClockJump, 4, false),
        (Self::ClockLeap, 2, false),
        (Self::Disconnect, 6, false),
        (Self::Vanish, 4, false),
        (Self::Impatience, 40, false),
        (Self::Pause, 4, true),
        (Self::Move, 3, true),
        (Self::Cut, 5, true),
        (Self::Isolation, 4, true),
        (Self::Clog, 6, true),
        (Self::Reset, 8, true),
        (Self::Garble, 4, true),
        (Self::HandOver, 8, true),
        (Self::StandBack, 3, true),
        (Self::Reshape, 8, true),
        (Self::Lull, 3, true),
        (Self::Backup, 12, false),
        (Self::Lie, 6, true),
    ];
}

/// How long a run is and how its world is made.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Machines, workers, shards.
    pub shape: Shape,
    /// What goes wrong, and how often.
    pub faults: Vec<(Fault, u64)>,
    /// Number of clients.
    pub clients: u64,
    /// What they are like.
    pub manners: Manners,
    /// What they do.
    pub mix: Mix,
    /// Number of clients of the coordination service.
    pub guests: u64,
    /// What those are like.
    pub habits: Habits,
    /// Number of clients of locks.
    pub holders: u64,
    /// What those are like.
    pub holding: holder::Habits,
    /// By how much wall clocks differ at the beginning, in microseconds.
    pub skew_us: u64,
    /// By how much the speed of a machine's clocks may be off, in millionths.
    pub drift_ppm: u64,
    /// How long a write takes.
    pub disk_us: u64,
    /// How long a message between workers of a machine takes.
    pub channel_us: u64,
    /// How long a message between machines takes.
    pub link_us: u64,
    /// Every link has a delay of its own, up to ten times as long.
    pub uneven_links: bool,
}

impl Swarm {
    /// The run of a seed.
    pub fn new(seed: u64, focus: Focus, plant: Option<Plant>) -> Self {
        let mut random = Random::new(seed, "shape");
        let shape = shape(&mut random, plant);
        let level = founders_level(seed, shape, plant);
        let order = match plant {
            Some(Plant::LooseOrder) => Order::Constant,
            _ => order(seed),
        };
        let shape = Shape { level, order, ..shape };
        let shape = match focus {
            Focus::Everything => shape,
            Focus::Pipelines => of_pipelines(seed, shape, plant),
            Focus::Locks => of_locks(seed, shape, plant),
            Focus::Trees => of_trees(seed, shape),
        };
        let tree = match (focus, plant) {
            (Focus::Trees, _) => {
                if shape.shards < 4 {
                    2
                } else {
                    4
                }
            }
            (_, Some(_)) => 1,
            (_, None) => tree(seed, shape),
        };
        let shape = Shape { tree, ..shape };
        let mut faults = faults(&mut Random::new(seed, "swarm"), shape.is_cluster());
        if focus == Focus::Pipelines {
            let mut random = Random::new(seed, "leaders");
            faults.push((Fault::HandOver, random.between(1, 12)));
            for (fault, most) in DEPOSING {
                let count = random.between(1, most);
                faults.extend(random.percent(40).then_some((fault, count)));
            }
        }
        if focus == Focus::Locks {
            faults.retain(|(fault, _)| !matches!(fault, Fault::ClockLeap | Fault::Lull));
            let mut random = Random::new(seed, "holders' faults");
            let alone = [Fault::Crash, Fault::Disconnect, Fault::Vanish, Fault::ClockJump];
            for (fault, most) in HOLDING {
                let count = random.between(1, most);
                let possible = shape.is_cluster() || alone.contains(&fault);
                faults.extend((random.percent(40) && possible).then_some((fault, count)));
            }
        }
        // Elections for nothing hide what is wrong elsewhere.
        faults.retain(|(fault, _)| *fault != Fault::Lie || plant.is_none());
        faults.extend(plant.map_or(&[][..], Plant::shows_under));
        let manners = Manners::draw(&mut Random::new(seed, "manners"), shape.is_cluster());
        let mut random_mix = Random::new(seed, "mix");
        let (manners, mix) = match focus {
            Focus::Everything | Focus::Locks | Focus::Trees => {
                (manners, Mix::draw(&mut random_mix))
            }
            Focus::Pipelines => {
                let mix = Mix::of_pipelines(&mut random_mix);
                // As many commands as with shorter ones.
                (manners.slower(mix.longest() * 1_000), mix)
            }
        };
        Self {
            shape,
            guests: match focus {
                Focus::Everything => guests(seed, plant),
                Focus::Trees => Random::new(seed, "guests").between(2, 6),
                Focus::Pipelines | Focus::Locks => 0,
            },
            holders: holders(seed, focus, plant),
            holding: holder::Habits::draw(&mut Random::new(seed, "holding"), shape.is_cluster()),
            habits: Habits::draw(&mut Random::new(seed, "habits")),
            clients: match focus {
                Focus::Locks | Focus::Trees => 1,
                _ => random.between(2, 10),
            },
            skew_us: *random.pick(&[0, 50, 20_000, 2_000_000]),
            // Less than ten percent between any two, as the guide asks for.
            drift_ppm: *random.pick(&[0, 200, 45_000]),
            disk_us: *random.pick(&[50, 500, 3000]),
            channel_us: *random.pick(&[2, 100, 2000]),
            link_us: *random.pick(&[20, 200, 5000]),
            uneven_links: random.percent(30),
            faults,
            manners,
            mix,
        }
    }

    /// Whether others may have to wait for locks of clients that do nothing, or are gone.
    pub fn keeps_locks(&self) -> bool {
        let keeps = |fault: &Fault| matches!(fault, Fault::Vanish | Fault::Impatience);
        self.manners.keep_locks() || self.faults.iter().any(|(fault, _)| keeps(fault))
    }
}

fn shape(random: &mut Random, plant: Option<Plant>) -> Shape {
    let founders = *random.pick(&[0, 0, 1, 2, 3, 3, 3, 3, 4, 5]);
    let founders = match plant {
        Some(plant) if plant.needs_cluster() => founders.max(3),
        Some(_) => 0,
        None => founders,
    };
    let shards = *random.pick(&[1, 2, 3, 4, SHARDS_MAX]);
    let shards = random.between(1, shards) as u16;
    let workers = random.between(1, u64::from(shards.min(3))) as u16;
    let conditions = ["full", "full", "full", "full", "boost+phase", "rw+phase", "boost"];
    let condition = *random.pick(&conditions[..]);
    let concurrency = Concurrency::named(condition).unwrap_or(Concurrency::FULL);
    let (level, order) = (Level::NEWEST, Order::None);
    if founders == 0 {
        return Shape {
            machines: 1,
            founders: 1,
            clustered: false,
            workers,
            shards,
            concurrency,
            level,
            order,
            tree: 1,
        };
    }
    assert!(founders <= REPLICAS_MAX as u64);
    // In every other cluster there are no more than that, so that many are small and quick.
    let spare = if random.percent(50) { 0 } else { random.below(MACHINES_MAX - founders + 1) };
    let machines = (founders + spare).max(3) as u16;
    let founders = founders as u16;
    let tree = 1;
    Shape { machines, founders, clustered: true, workers, shards, concurrency, level, order, tree }
}

/// Over how many shards the tree is spread, of those that there are: over one in half of the runs that have
/// several. The few names of this world are at more than one of two and of four shards.
fn tree(seed: u64, shape: Shape) -> u16 {
    let over: &[u16] = match shape.shards {
        1 => &[1],
        2 | 3 => &[1, 2],
        _ => &[1, 1, 2, 4],
    };
    *Random::new(seed, "tree").pick(over)
}

/// How pipelines keep their order across shards: mostly as it is meant.
fn order(seed: u64) -> Order {
    let orders = [Order::Constant, Order::Constant, Order::Chain, Order::Single, Order::None];
    *Random::new(seed, "order").pick(&orders)
}

/// A cluster of several shards.
fn of_pipelines(seed: u64, shape: Shape, plant: Option<Plant>) -> Shape {
    let mut random = Random::new(seed, "pipelines");
    let founders = *random.pick(&[3, 3, 3, 5]);
    let shards = *random.pick(&[2, 2, 3, 4, SHARDS_MAX as u16]);
    let workers = random.between(1, u64::from(shards.min(3))) as u16;
    let orders = [Order::Constant, Order::Constant, Order::Constant, Order::Chain];
    let order = if plant.is_some() { Order::Constant } else { *random.pick(&orders) };
    let (machines, clustered) = (founders, true);
    Shape { machines, founders, clustered, workers, shards, order, ..shape }
}

/// A cluster mostly.
fn of_locks(seed: u64, shape: Shape, plant: Option<Plant>) -> Shape {
    let mut random = Random::new(seed, "locks");
    let shards = *random.pick(&[1, 2, 3, 4]);
    let workers = random.between(1, u64::from(shards.min(3))) as u16;
    let shape = Shape { workers, shards, ..shape };
    if plant.is_some() || random.percent(15) {
        return shape;
    }
    let founders = *random.pick(&[3, 3, 3, 5]);
    let machines = shape.machines.max(founders);
    Shape { machines, founders, clustered: true, ..shape }
}

/// Several shards, mostly of a cluster.
fn of_trees(seed: u64, shape: Shape) -> Shape {
    let mut random = Random::new(seed, "trees");
    let shards = *random.pick(&[2, 2, 4]);
    let workers = random.between(1, u64::from(shards.min(3))) as u16;
    let shape = Shape { workers, shards, ..shape };
    if random.percent(15) {
        return shape;
    }
    let founders = *random.pick(&[3, 3, 3, 5]);
    let machines = shape.machines.max(founders);
    Shape { machines, founders, clustered: true, ..shape }
}

/// How many clients of locks there are: none in most runs.
fn holders(seed: u64, focus: Focus, plant: Option<Plant>) -> u64 {
    let mut random = Random::new(seed, "holders");
    let among_others = focus == Focus::Everything && plant.is_none();
    let some = focus == Focus::Locks || (among_others && random.percent(HOLDERS_PERCENT));
    if some { random.between(2, 6) } else { 0 }
}

/// How many clients of the coordination service there are: none in most runs.
fn guests(seed: u64, plant: Option<Plant>) -> u64 {
    let mut random = Random::new(seed, "guests");
    let some = match plant {
        Some(plant) => plant.needs_sessions(),
        None => random.percent(GUESTS_PERCENT),
    };
    if some { random.between(1, 5) } else { 0 }
}

/// What the build understands that founds the cluster: in some runs one that is older than others.
fn founders_level(seed: u64, shape: Shape, plant: Option<Plant>) -> Level {
    let mut random = Random::new(seed, "levels");
    let older = random.percent(25) || plant == Some(Plant::EarlyLevel);
    match shape.is_cluster() && older {
        true => OLDER,
        false => Level::NEWEST,
    }
}

fn faults(random: &mut Random, clustered: bool) -> Vec<(Fault, u64)> {
    if random.percent(15) {
        return Vec::new();
    }
    let on = *random.pick(&[20, 50, 80]);
    let mut drawn = Vec::new();
    for (fault, most, needs_cluster) in Fault::ALL {
        let count = random.between(1, most);
        if random.percent(on) && (clustered || !needs_cluster) {
            drawn.push((fault, count));
        }
    }
    drawn
}
