//! Application clients that dispatch all commands of a step at once, each with one request at a
//! time.

use crate::load::driver::{Fleet, Turn};
use crate::load::random::Rng;
use crate::load::recorder::Recorder;
use crate::load::resp::Frame;
use crate::load::workload::{Ops, Workload};
use wire::resp::ClientReply;

/// State of one client.
struct Caller<T> {
    /// Current request, and the time at which it began.
    request: Option<(T, u64)>,
    /// Commands that it has sent.
    ops: Ops,
    /// Number of replies so far, and the replies of reads.
    come: usize,
    replies: Vec<ClientReply>,
    rng: Rng,
}

/// Closed-loop clients of a workload.
pub struct Callers<W: Workload> {
    workload: W,
    callers: Vec<Caller<W::Txn>>,
    think_ns: u64,
    /// Number of requests still to be measured, or still to be awaited before the measurement.
    left: u64,
    /// Number of answered commands.
    pub commands: u64,
    /// Measured results.
    pub recorder: Recorder,
}

impl<W: Workload> Callers<W> {
    /// Creates `clients` clients, each of which pauses for up to `think_ns` before each request.
    pub fn new(workload: W, clients: usize, think_ns: u64, seed: u64) -> Self {
        let caller = |client| Caller {
            request: None,
            ops: Ops::default(),
            come: 0,
            replies: Vec::new(),
            rng: Rng::new(seed ^ (client as u64) << 32),
        };
        let recorder = Recorder::new(workload.kinds().len(), u64::MAX);
        let callers = (0..clients).map(caller).collect();
        Self { workload, callers, think_ns, left: u64::MAX, commands: 0, recorder }
    }

    /// Counts from `from_ns` on, for this number of requests of all clients together.
    pub fn measure(&mut self, from_ns: u64, requests: u64) {
        self.recorder = Recorder::new(self.workload.kinds().len(), from_ns);
        self.left = requests;
        self.commands = 0;
    }
}

impl<W: Workload> Fleet for Callers<W> {
    fn reply(&mut self, client: usize, frame: Frame<'_>) -> Result<(), String> {
        if let Some(error) = frame.error() {
            return Err(format!("the server answered: {error}"));
        }
        let caller = &mut self.callers[client];
        if W::LOOKS && caller.ops.list.get(caller.come).is_some_and(|op| op.read) {
            caller.replies.push(frame.decode());
        }
        caller.come += 1;
        Ok(())
    }

    fn turn(&mut self, client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn {
        let caller = &mut self.callers[client];
        self.commands += caller.come as u64;
        let mut hold_ns = 0;
        loop {
            caller.ops.clear();
            caller.come = 0;
            let Some((request, began_ns)) = &mut caller.request else {
                if self.think_ns > 0 {
                    hold_ns = caller.rng.below(self.think_ns);
                }
                let request = self.workload.begin(client, now_ns, &mut caller.rng);
                caller.request = Some((request, now_ns + hold_ns));
                continue;
            };
            let replies = std::mem::take(&mut caller.replies);
            if self.workload.step(request, &replies, &mut caller.ops) {
                out.extend_from_slice(&caller.ops.bytes);
                return Turn { replies: caller.ops.list.len() as u32, hold_ns };
            }
            self.recorder.commit(self.workload.kind(request), *began_ns, now_ns);
            self.left = self.left.saturating_sub(1);
            if let Some((request, _)) = caller.request.take() {
                self.workload.committed(client, request, now_ns, &mut caller.rng);
            }
        }
    }

    fn is_done(&self) -> bool {
        self.left == 0
    }
}
