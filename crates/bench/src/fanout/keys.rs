//! Requests of a fixed number of commands on random keys.

use crate::load::random::{Rng, Zipf};
use crate::load::workload::{Ops, Shape, Workload};
use wire::resp::ClientReply;

/// Value of writes.
const VALUE: &[u8] = b"0123456789abcdef";

/// The load.
pub struct Keys<'z> {
    /// Distribution of the keys.
    pub zipf: &'z Zipf,
    /// Number of commands per request.
    pub fanout: u32,
    /// Share of commands that read.
    pub reads: f64,
}

/// A request: its commands, each with whether it reads, and whether they were sent.
pub struct Request {
    commands: Vec<(bool, u64)>,
    is_sent: bool,
}

impl Workload for Keys<'_> {
    type Txn = Request;
    const LOOKS: bool = false;

    fn kinds(&self) -> &'static [&'static str] {
        &["request"]
    }

    fn begin(&mut self, _client: usize, _now_ns: u64, rng: &mut Rng) -> Request {
        let command = |_| (rng.chance(self.reads), self.zipf.draw(rng) as u64);
        Request { commands: (0..self.fanout).map(command).collect(), is_sent: false }
    }

    fn kind(&self, _: &Request) -> usize {
        0
    }

    fn shape(&self, _: &Request) -> Shape {
        Shape::Updates
    }

    fn step(&mut self, request: &mut Request, _: &[ClientReply], ops: &mut Ops) -> bool {
        if std::mem::replace(&mut request.is_sent, true) {
            return false;
        }
        for (reads, key) in &request.commands {
            match reads {
                true => ops.read("GET", ("key:", *key), &[]),
                false => ops.write("SET", ("key:", *key), &[VALUE]),
            }
        }
        true
    }

    fn restart(&mut self, request: &mut Request) {
        request.is_sent = false;
    }
}
