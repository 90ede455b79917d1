//! Parameters of a run: its size, the kinds and frequencies of its faults, and the behaviour of its
//! clients.
//!
//! Everything is drawn anew for every seed, and in most runs most faults are off: a run in which
//! everything happens at once hides what shows only when one thing happens often (Groce and others,
//! "Swarm Testing", ISSTA 2012).

use crate::clients::client::Manners;
use crate::clients::guest::Habits;
use crate::clients::holder;
use crate::clients::workload::Mix;
use crate::machine::build::OLDER;
use crate::machine::shape::Shape;
use crate::plant::Plant;
use crate::random::Random;
use engine::cluster::level::Level;
use engine::gateway::Order;
use engine::limits::REPLICAS_MAX;
use engine::message::Concurrency;

/// Limit on machines at the beginning; more come to replace lost ones.
const MACHINES_MAX: u64 = 9;
/// Percentage of runs with clients of the coordination service.
const GUESTS_PERCENT: u64 = 35;
/// Percentage of runs with clients of locks.
const HOLDERS_PERCENT: u64 = 25;
/// Percentage of runs with clients that cache what they read.
const CACHERS_PERCENT: u64 = 25;
/// Percentage of runs about pipelines at a single server, whose workers order them.
const ALONE_PERCENT: u64 = 20;
/// Percentage of runs of a single server in which it waits for no disk, and does not crash.
const VOLATILE_PERCENT: u64 = 30;
/// Limit on shards.
const SHARDS_MAX: u64 = 9;
/// Faults that depose a leader, and their maximum frequency in runs about pipelines.
const DEPOSING: [(Fault, u64); 4] =
    [(Fault::Crash, 3), (Fault::Pause, 3), (Fault::Isolation, 4), (Fault::StandBack, 2)];

/// Faults after which a server that waits for no disk has lost acknowledged writes.
const LOSING: [Fault; 4] = [Fault::Crash, Fault::FailedSync, Fault::FullDisk, Fault::FlippedBit];

/// Faults that separate a lock from its holder, and their maximum frequency in runs about locks.
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

/// Focus of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Focus {
    /// Everything.
    #[default]
    Everything,
    /// Pipelines over several shards, most of them in constant time and some long, in clusters
    /// whose leaders change again and again.
    Pipelines,
    /// Locks with fencing tokens, whose holders pause and disconnect, on machines and links that do
    /// so as well.
    Locks,
    /// Sessions and nodes of a tree over several shards.
    Trees,
    /// Scripts.
    Scripts,
}

/// Fault, or an operator's or client's action at a bad moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Power failure of a machine, which returns soon.
    Crash,
    /// Power failure that lasts until the others have truncated the log that the machine needs.
    Outage,
    /// A failed fsync: the process ends.
    FailedSync,
    /// A disk that is full for a while: the process ends at each write.
    FullDisk,
    /// Loss of a machine with its disk; a machine with a new number replaces it.
    LostDisk,
    /// A flipped bit of durable data: the machine must not start with it.
    FlippedBit,
    /// Snapshot.
    Snapshot,
    /// A wall clock jumps by up to a second.
    ClockJump,
    /// A wall clock jumps by up to a day.
    ClockLeap,
    /// Broken connection of a client.
    Disconnect,
    /// Disappearance of a client, which the server notices only seconds later.
    Vanish,
    /// Retry at another machine, under the same number, without waiting for the reply.
    Impatience,
    /// Pause of a machine.
    Pause,
    /// Pause of a machine, which stays unreachable for longer than that.
    Move,
    /// Cut: one machine or one pair of machines does not hear the other side.
    Cut,
    /// Cut between a leader and all other machines.
    Isolation,
    /// Delay of all messages over one link.
    Clog,
    /// Broken connection, which is made again.
    Reset,
    /// Flipped bit of a message between machines.
    Garble,
    /// Handover of a leadership.
    HandOver,
    /// Handover of all leaderships of a machine, which then accepts none.
    StandBack,
    /// False measurements: one or all machines count time too fast or too slowly.
    Lie,
    /// Change of the shard map.
    Reshape,
    /// Time without requests, so that groups fall asleep.
    Lull,
    /// Backup of everything.
    Backup,
}

impl Fault {
    /// All faults, with their maximum frequency in a run and whether they need several machines.
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

/// Parameters of a run.
#[derive(Clone, Debug)]
pub struct Swarm {
    /// Machines, workers, shards.
    pub shape: Shape,
    /// Faults and their frequencies.
    pub faults: Vec<(Fault, u64)>,
    /// Number of clients.
    pub clients: u64,
    /// Behaviour of the clients.
    pub manners: Manners,
    /// Mix of their transactions.
    pub mix: Mix,
    /// Number of clients of the coordination service.
    pub guests: u64,
    /// Behaviour of clients of the coordination service.
    pub habits: Habits,
    /// Number of clients of locks.
    pub holders: u64,
    /// Number of clients with caches.
    pub cachers: u64,
    /// Behaviour of clients of locks.
    pub holding: holder::Habits,
    /// Initial difference of wall clocks, in microseconds.
    pub skew_us: u64,
    /// Bound on the drift of a machine's clocks, in millionths.
    pub drift_ppm: u64,
    /// Duration of a write.
    pub disk_us: u64,
    /// Delay of a message between workers of a machine.
    pub channel_us: u64,
    /// Delay of a message between machines.
    pub link_us: u64,
    /// Whether each link has its own delay, up to ten times as long.
    pub uneven_links: bool,
}

impl Swarm {
    /// Draws the parameters for a seed.
    pub fn new(seed: u64, focus: Focus, plant: Option<Plant>) -> Self {
        let mut random = Random::new(seed, "shape");
        let shape = shape(&mut random, plant);
        let level = founders_level(seed, shape, plant);
        let order = match plant {
            Some(plant) if plant.is_about_order() => Order::Constant,
            _ => order(seed),
        };
        let placed = plant.is_none() && Random::new(seed, "placed").percent(50);
        let shape = Shape { level, order, placed, ..shape };
        let shape = match focus {
            Focus::Everything | Focus::Scripts => shape,
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
        if focus == Focus::Pipelines && shape.is_cluster() {
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
        if shape.volatile {
            faults.retain(|(fault, _)| !LOSING.contains(fault));
        }
        // Needless elections hide bugs elsewhere.
        faults.retain(|(fault, _)| *fault != Fault::Lie || plant.is_none());
        faults.extend(plant.map_or(&[][..], Plant::shows_under));
        let manners = Manners::draw(&mut Random::new(seed, "manners"), shape.is_cluster());
        let mut random_mix = Random::new(seed, "mix");
        let (manners, mix) = match focus {
            Focus::Everything | Focus::Locks | Focus::Trees => {
                (manners, Mix::draw(&mut random_mix))
            }
            // Interactive transactions show that bug as well: it is another one there.
            Focus::Scripts if plant == Some(Plant::UnseenWrite) => {
                (manners, Mix::of_scripts(&mut random_mix).with_scripts_only())
            }
            Focus::Scripts => (manners, Mix::of_scripts(&mut random_mix)),
            Focus::Pipelines => {
                let mix = Mix::of_pipelines(&mut random_mix);
                // As many commands as with shorter pipelines.
                (manners.slower(mix.longest() * 1_000), mix)
            }
        };
        let typed = match plant {
            None => Random::new(seed, "typed").percent(25),
            Some(plant) => plant == Plant::EarlyDefinition,
        };
        let mix = mix.with_types(typed);
        Self {
            shape,
            guests: match focus {
                Focus::Everything => guests(seed, plant),
                Focus::Trees => Random::new(seed, "guests").between(2, 6),
                Focus::Pipelines | Focus::Locks | Focus::Scripts => 0,
            },
            holders: holders(seed, focus, plant),
            cachers: cachers(seed, focus, plant),
            holding: holder::Habits::draw(&mut Random::new(seed, "holding"), shape.is_cluster()),
            habits: Habits::draw(&mut Random::new(seed, "habits")),
            clients: match focus {
                Focus::Locks | Focus::Trees => 1,
                _ => random.between(2, 10),
            },
            skew_us: *random.pick(&[0, 50, 20_000, 2_000_000]),
            // Less than ten percent between any two, as the guide demands.
            drift_ppm: *random.pick(&[0, 200, 45_000]),
            disk_us: *random.pick(&[50, 500, 3000]),
            channel_us: match *random.pick(&[2, 100, 2000]) {
                _ if plant.is_some_and(Plant::needs_workers) => 2000,
                channel_us => channel_us,
            },
            link_us: *random.pick(&[20, 200, 5000]),
            uneven_links: random.percent(30),
            faults,
            manners,
            mix,
        }
    }

    /// Whether clients may have to wait for locks of clients that are idle or gone.
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
    let (shards, workers) = match plant {
        Some(plant) if plant.needs_workers() => (shards.max(3), 3),
        _ => (shards, workers),
    };
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
            volatile: match plant {
                Some(plant) => plant.needs_volatile(),
                None => random.percent(VOLATILE_PERCENT),
            },
            concurrency,
            level,
            order,
            tree: 1,
            placed: false,
        };
    }
    assert!(founders <= REPLICAS_MAX as u64);
    // Every other cluster has no further machines, so that many are small and quick.
    let spare = if random.percent(50) { 0 } else { random.below(MACHINES_MAX - founders + 1) };
    let machines = (founders + spare).max(3) as u16;
    let founders = founders as u16;
    let tree = 1;
    let (clustered, volatile) = (true, false);
    Shape {
        machines,
        founders,
        clustered,
        workers,
        shards,
        volatile,
        concurrency,
        level,
        order,
        tree,
        placed: false,
    }
}

/// Number of shards over which the tree is spread: one in half of the runs with several shards. The
/// few names of this world are at more than one of two and of four shards.
fn tree(seed: u64, shape: Shape) -> u16 {
    let over: &[u16] = match shape.shards {
        1 => &[1],
        2 | 3 => &[1, 2],
        _ => &[1, 1, 2, 4],
    };
    *Random::new(seed, "tree").pick(over)
}

/// Method that keeps the order of pipelines across shards: mostly the default.
fn order(seed: u64) -> Order {
    let orders = [Order::Constant, Order::Constant, Order::Chain, Order::Single, Order::None];
    *Random::new(seed, "order").pick(&orders)
}

/// Shape with several shards, mostly of a cluster.
fn of_pipelines(seed: u64, shape: Shape, plant: Option<Plant>) -> Shape {
    let mut random = Random::new(seed, "pipelines");
    let founders = *random.pick(&[3, 3, 3, 5]);
    let shards = *random.pick(&[2, 2, 3, 4, SHARDS_MAX as u16]);
    let workers = random.between(1, u64::from(shards.min(3))) as u16;
    let orders = [Order::Constant, Order::Constant, Order::Constant, Order::Chain];
    let order = if plant.is_some() { Order::Constant } else { *random.pick(&orders) };
    let needed = plant.is_some_and(Plant::needs_volatile);
    if needed || plant.is_none() && random.percent(ALONE_PERCENT) {
        let (machines, founders, clustered) = (1, 1, false);
        let (level, order) = (Level::NEWEST, Order::Constant);
        let volatile = needed || random.percent(VOLATILE_PERCENT);
        let shape = Shape { machines, founders, clustered, volatile, ..shape };
        return Shape { workers, shards, level, order, ..shape };
    }
    let (machines, clustered, volatile) = (founders, true, false);
    Shape { machines, founders, clustered, workers, shards, volatile, order, ..shape }
}

/// Shape for locks: mostly a cluster.
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
    Shape { machines, founders, clustered: true, volatile: false, ..shape }
}

/// Shape with several shards, mostly of a cluster.
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
    Shape { machines, founders, clustered: true, volatile: false, ..shape }
}

/// Number of clients of locks: none in most runs.
fn holders(seed: u64, focus: Focus, plant: Option<Plant>) -> u64 {
    let mut random = Random::new(seed, "holders");
    let among_others = focus == Focus::Everything && plant.is_none();
    let some = focus == Focus::Locks || (among_others && random.percent(HOLDERS_PERCENT));
    if some { random.between(2, 6) } else { 0 }
}

/// Number of clients with caches: none in most runs.
fn cachers(seed: u64, focus: Focus, plant: Option<Plant>) -> u64 {
    let mut random = Random::new(seed, "cachers");
    let some = match plant {
        Some(plant) => plant == Plant::LostChange,
        None => focus == Focus::Everything && random.percent(CACHERS_PERCENT),
    };
    if some { random.between(1, 3) } else { 0 }
}

/// Number of clients of the coordination service: none in most runs.
fn guests(seed: u64, plant: Option<Plant>) -> u64 {
    let mut random = Random::new(seed, "guests");
    let some = match plant {
        Some(plant) => plant.needs_sessions(),
        None => random.percent(GUESTS_PERCENT),
    };
    if some { random.between(1, 5) } else { 0 }
}

/// Level of the founding build: in some runs older than that of other machines.
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
