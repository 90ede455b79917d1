//! Connections between machines: in order and without gaps, or broken.
//!
//! Between two machines there is one connection, as in the product. While a direction is cut,
//! nothing arrives; sent messages wait, as in the buffers of a socket. If the cut lasts longer than
//! the machines wait for a heartbeat, or if one of the machines goes down, the connection breaks,
//! both ends are notified, and messages on their way are lost. Within one connection nothing is
//! lost, duplicated or reordered, because TCP guarantees that. Messages are lost only with a
//! connection, and a message that arrives twice or too late was resent on another connection.
//!
//! The messages are the same bytes as between real machines.

use crate::random::Random;
use engine::ids::MachineId;
use std::collections::{BTreeMap, VecDeque};

/// Silence after which a machine considers a connection broken.
pub const SILENCE_US: u64 = 1_500_000;
/// Upper bound on delays; a longer one would count as silence.
const LATEST_US: u64 = SILENCE_US / 3 * 2;
/// Upper bound on delays once faults are over.
const CALM_US: u64 = 100_000;

/// Frames that may wait behind a cut before log entries are dropped. (The product counts bytes; its
/// limit is far above what a run produces.)
const WAITING_MAX: usize = 200;
/// Lateness of a clogged link beyond which log entries are dropped.
const LATE_US: u64 = 200_000;

/// Sender and receiver.
pub type Way = (MachineId, MachineId);

/// Message between machines.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Encoded bytes.
    pub bytes: Vec<u8>,
    /// Whether it carries log entries, which are dropped when too much waits for the other machine.
    pub has_entries: bool,
}

/// Fate of a frame.
#[derive(Debug)]
pub enum Sending {
    /// Arrives at this time.
    Arrives(u64, Frame),
    /// Waits behind a cut.
    Waits,
    /// Lost with the connection.
    Lost,
    /// Dropped, because too much is waiting for the other machine.
    LeftOut,
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    last_us: u64,
    /// Beginning of the cut, if the direction is cut.
    cut_us: Option<u64>,
    waiting: VecDeque<Frame>,
    /// Usual delay of this direction.
    delay_us: u64,
    /// End of a clog, and the delay during it.
    clog: Option<(u64, u64)>,
}

/// All connections.
#[derive(Debug)]
pub struct Network {
    delay_us: u64,
    /// Upper bound on delays, unless a direction is clogged or cut.
    late_us: u64,
    uneven: bool,
    random: Random,
    directions: BTreeMap<Way, Direction>,
    /// Generation of the connection of each pair (the smaller number first), and whether it is up.
    pairs: BTreeMap<Way, (u64, bool)>,
}

fn pair(a: MachineId, b: MachineId) -> Way {
    (a.min(b), a.max(b))
}

impl Network {
    /// Creates connections with this one-way delay; if they are `uneven`, each direction has its
    /// own delay, up to ten times as long.
    pub fn new(seed: u64, delay_us: u64, uneven: bool) -> Self {
        let random = Random::new(seed, "links");
        let late_us = LATEST_US;
        let (directions, pairs) = Default::default();
        Self { delay_us, late_us, uneven, random, directions, pairs }
    }

    fn direction(&mut self, way: Way) -> &mut Direction {
        let (random, usual_us, uneven) = (&mut self.random, self.delay_us, self.uneven);
        self.directions.entry(way).or_insert_with(|| {
            let delay_us = if uneven { random.between(usual_us, 10 * usual_us) } else { usual_us };
            Direction { delay_us, ..Direction::default() }
        })
    }

    /// Begins or ends a time in which delays are bounded as the machines' guarantees require: an
    /// election needs two round trips within a time-out. Because messages are not reordered, one
    /// message that takes a second delays all that are sent within that second.
    pub fn set_calm(&mut self, is_calm: bool) {
        self.late_us = if is_calm { CALM_US } else { LATEST_US };
    }

    /// Sends a frame on this generation of a connection, and returns its fate.
    pub fn send(&mut self, now_us: u64, way: Way, generation: u64, frame: Frame) -> Sending {
        if !self.is_current(way, generation) {
            return Sending::Lost;
        }
        self.direction(way);
        let (random, directions) = (&mut self.random, &mut self.directions);
        let Some(direction) = directions.get_mut(&way) else { return Sending::Lost };
        if direction.cut_us.is_some() {
            if direction.waiting.len() >= WAITING_MAX && frame.has_entries {
                return Sending::LeftOut;
            }
            direction.waiting.push_back(frame);
            return Sending::Waits;
        }
        let delay = match direction.clog.filter(|(until, _)| now_us < *until) {
            Some(_) if frame.has_entries && direction.last_us > now_us + LATE_US => {
                return Sending::LeftOut;
            }
            Some((_, us)) => random.between(us, 2 * us),
            None => random.tail(direction.delay_us).min(self.late_us),
        };
        let time = (now_us + delay).max(direction.last_us + 1);
        direction.last_us = time;
        Sending::Arrives(time, frame)
    }

    /// Delays every message in this direction for a while.
    pub fn clog(&mut self, way: Way, until_us: u64, delay_us: u64) {
        self.direction(way).clog = Some((until_us, delay_us));
    }

    /// Whether frames of this generation of a connection still arrive.
    pub fn is_current(&self, way: Way, generation: u64) -> bool {
        self.pairs.get(&pair(way.0, way.1)) == Some(&(generation, true))
    }

    /// Connects two machines that are not connected. Returns the generation of the connection.
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

    /// Breaks the connection of two machines. Returns whether there was one.
    pub fn disconnect(&mut self, a: MachineId, b: MachineId) -> bool {
        for way in [(a, b), (b, a)] {
            if let Some(direction) = self.directions.get_mut(&way) {
                direction.waiting.clear();
                direction.last_us = 0;
            }
        }
        self.pairs.get_mut(&pair(a, b)).is_some_and(|(_, up)| std::mem::replace(up, false))
    }

    fn is_cut(&self, way: Way) -> bool {
        self.directions.get(&way).is_some_and(|direction| direction.cut_us.is_some())
    }

    /// Cuts this direction: nothing arrives from now on.
    pub fn cut(&mut self, now_us: u64, way: Way) {
        self.direction(way).cut_us.get_or_insert(now_us);
    }

    /// Ends the cut of this direction. Returns the waiting frames, and the generation of the
    /// connection.
    pub fn mend(&mut self, way: Way) -> (u64, VecDeque<Frame>) {
        let generation =
            self.pairs.get(&pair(way.0, way.1)).map_or(0, |(generation, _)| *generation);
        let Some(direction) = self.directions.get_mut(&way) else { return Default::default() };
        direction.cut_us = None;
        (generation, std::mem::take(&mut direction.waiting))
    }

    /// Connections on which one end has received nothing for so long.
    pub fn silent(&self, now_us: u64, silence_us: u64) -> Vec<Way> {
        let silent = self.directions.iter().filter(|(way, direction)| {
            let up = self.pairs.get(&pair(way.0, way.1)).is_some_and(|(_, up)| *up);
            up && direction.cut_us.is_some_and(|since| now_us >= since + silence_us)
        });
        silent.map(|(way, _)| *way).collect()
    }
}
