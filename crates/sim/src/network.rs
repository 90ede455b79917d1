//! The connections between machines: in order and without gaps, or broken.
//!
//! Between two machines there is one connection, as in the product. While a direction is cut,
//! nothing arrives; what was sent waits, as it would in the buffers of a socket. If it is cut for
//! longer than the machines wait for a sign of life, or one of them goes down, the connection
//! breaks, both ends hear of it, and whatever was on its way is gone.

use crate::random::Random;
use engine::message::MachineId;
use engine::node::Parcel;
use std::collections::{BTreeMap, VecDeque};

/// How long a machine waits for a sign of life before it takes a connection for broken.
pub const SILENCE_US: u64 = 1_500_000;

type Way = (MachineId, MachineId);

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    last_us: u64,
    /// Since when nothing arrives.
    cut_us: Option<u64>,
    waiting: VecDeque<Box<Parcel>>,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    delay_us: u64,
    random: Random,
    directions: BTreeMap<Way, Direction>,
    /// Generation of the connection of each pair (the smaller number first), and whether it is up.
    pairs: BTreeMap<Way, (u64, bool)>,
}

fn pair(a: MachineId, b: MachineId) -> Way {
    (a.min(b), a.max(b))
}

impl Network {
    /// Connections with this delay, one way.
    pub fn new(seed: u64, delay_us: u64) -> Self {
        let random = Random::new(seed, "links");
        Self { delay_us, random, directions: BTreeMap::new(), pairs: BTreeMap::new() }
    }

    /// When a parcel that is sent now on this generation of a connection arrives. Nothing if the
    /// connection is lost, or the parcel waits behind a cut.
    pub fn send(
        &mut self,
        now_us: u64,
        way: Way,
        generation: u64,
        parcel: Box<Parcel>,
    ) -> Option<(u64, Box<Parcel>)> {
        if !self.is_current(way, generation) {
            return None;
        }
        let delay = self.random.tail(self.delay_us);
        let direction = self.directions.entry(way).or_default();
        if direction.cut_us.is_some() {
            direction.waiting.push_back(parcel);
            return None;
        }
        let time = (now_us + delay).max(direction.last_us + 1);
        direction.last_us = time;
        Some((time, parcel))
    }

    /// Whether what was sent on this generation of a connection arrives.
    pub fn is_current(&self, way: Way, generation: u64) -> bool {
        self.pairs.get(&pair(way.0, way.1)) == Some(&(generation, true))
    }

    /// Connects two machines that are not connected; gives the generation of the connection.
    pub fn connect(&mut self, a: MachineId, b: MachineId) -> Option<u64> {
        if self.is_cut((a, b)) || self.is_cut((b, a)) {
            return None;
        }
        let (generation, up) = self.pairs.entry(pair(a, b)).or_default();
        if std::mem::replace(up, true) {
            return None;
        }
        *generation += 1;
        Some(*generation)
    }

    /// Breaks the connection of two machines; tells whether there was one.
    pub fn disconnect(&mut self, a: MachineId, b: MachineId) -> bool {
        for way in [(a, b), (b, a)] {
            if let Some(direction) = self.directions.get_mut(&way) {
                direction.waiting.clear();
            }
        }
        self.pairs.get_mut(&pair(a, b)).is_some_and(|(_, up)| std::mem::replace(up, false))
    }

    fn is_cut(&self, way: Way) -> bool {
        self.directions.get(&way).is_some_and(|direction| direction.cut_us.is_some())
    }

    /// From now on nothing arrives in this direction.
    pub fn cut(&mut self, now_us: u64, way: Way) {
        self.directions.entry(way).or_default().cut_us.get_or_insert(now_us);
    }

    /// The direction works again; gives what has waited, and the generation of the connection.
    pub fn mend(&mut self, way: Way) -> (u64, VecDeque<Box<Parcel>>) {
        let generation =
            self.pairs.get(&pair(way.0, way.1)).map_or(0, |(generation, _)| *generation);
        let Some(direction) = self.directions.get_mut(&way) else { return Default::default() };
        direction.cut_us = None;
        (generation, std::mem::take(&mut direction.waiting))
    }

    /// Connections on which one end has heard nothing for so long.
    pub fn silent(&self, now_us: u64, silence_us: u64) -> Vec<Way> {
        let silent = self.directions.iter().filter(|(way, direction)| {
            let up = self.pairs.get(&pair(way.0, way.1)).is_some_and(|(_, up)| *up);
            up && direction.cut_us.is_some_and(|since| now_us >= since + silence_us)
        });
        silent.map(|(way, _)| *way).collect()
    }
}
