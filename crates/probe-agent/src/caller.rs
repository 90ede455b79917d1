//! Event loop of an agent's own calls: waits for ticks and answers, and carries out the outputs of
//! the state machine.

use crate::files::Message;
use crate::host::clock;
use crate::link::{Event, Link};
use mio::{Events, Poll, Token};
use probe::caller::{Caller, Config, Counts, Output};
use probe::message::{Mismatch, Preamble};
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::Duration;

/// Maximum interval of the checks whether to stop.
const LOOK: Duration = Duration::from_millis(250);
/// Time for connections to be made before the first tick.
const CONNECTING_NS: i64 = 2_000_000_000;
/// Time for answers in flight to arrive at the end.
const ENDING_NS: i64 = 2_000_000_000;

/// Parameters of the loop.
pub struct Setup {
    /// Configuration of the state machine.
    pub config: Config,
    /// One connection to every node, by number.
    pub links: Vec<Link>,
    /// Preamble of this agent.
    pub preamble: Preamble,
    /// Payload of its calls.
    pub payload: Arc<[u8]>,
    /// Incarnations that files of this epoch already name.
    pub known: Vec<(u16, u64)>,
    /// Channel for rows.
    pub files: SyncSender<Message>,
    /// Number of rows that could not be queued.
    pub dropped: Arc<AtomicU64>,
    /// Signal to all threads to stop.
    pub stop: Arc<AtomicBool>,
    /// Duration of the calls; `None` until stopped.
    pub for_ns: Option<i64>,
}

struct Loop<'a> {
    setup: Setup,
    poll: Poll,
    scratch: Vec<u8>,
    incarnations: usize,
    notice: &'a mut dyn FnMut(u16, Mismatch),
}

/// Sends calls until it is stopped, or its time is over.
pub fn run(setup: Setup, notice: &mut dyn FnMut(u16, Mismatch)) -> io::Result<Counts> {
    let poll = Poll::new()?;
    let incarnations = usize::MAX;
    let mut calling = Loop { setup, poll, scratch: vec![0; 64 << 10], incarnations, notice };
    let mut events = Events::with_capacity(256);
    // The first calls would otherwise only show that there was no time to connect.
    let began_ns = clock::mono_ns();
    let mut early = Vec::new();
    while clock::mono_ns() - began_ns < CONNECTING_NS
        && !calling.stopped()
        && calling.setup.links.iter().any(|link| !link.is_ready())
    {
        calling.wait(&mut events, began_ns + CONNECTING_NS, &mut early)?;
    }
    let known = std::mem::take(&mut calling.setup.known);
    let mut caller = Caller::new(calling.setup.config.clone(), known, clock::now());
    calling.tell(&mut caller, &mut early);
    let end_ns = calling.setup.for_ns.map(|ns| caller.due_mono_ns() + ns);
    let mut happened = Vec::new();
    while !calling.stopped() && end_ns.is_none_or(|end_ns| caller.due_mono_ns() < end_ns) {
        calling.wait(&mut events, caller.due_mono_ns(), &mut happened)?;
        calling.tell(&mut caller, &mut happened);
        caller.wake(clock::now());
        calling.carry_out(&mut caller);
    }
    let ending_ns = clock::mono_ns();
    while caller.is_waiting(clock::mono_ns()) && clock::mono_ns() - ending_ns < ENDING_NS {
        calling.wait(&mut events, ending_ns + ENDING_NS, &mut happened)?;
        // Other nodes end at about the same time: a lost connection now says nothing about them.
        happened.retain(|(_, event)| !matches!(event, Event::Disconnected));
        calling.tell(&mut caller, &mut happened);
        calling.carry_out(&mut caller);
    }
    caller.finish();
    calling.carry_out(&mut caller);
    Ok(caller.counts())
}

impl Loop<'_> {
    fn stopped(&self) -> bool {
        self.setup.stop.load(Ordering::Relaxed)
    }

    /// Waits until an event occurs or is due.
    fn wait(
        &mut self,
        events: &mut Events,
        due_ns: i64,
        happened: &mut Vec<(u16, Event)>,
    ) -> io::Result<()> {
        let wants = self.setup.links.iter().filter_map(Link::wants_ns).min();
        let until_ns = wants.map_or(due_ns, |wants| wants.min(due_ns)) - clock::mono_ns();
        // Timers of the poll have a resolution of milliseconds: the remainder is slept.
        let timeout = Duration::from_nanos(until_ns.max(0).unsigned_abs()).min(LOOK);
        let short = Duration::from_millis(timeout.as_millis() as u64);
        match self.poll.poll(events, Some(short)) {
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        let left_ns = due_ns - clock::mono_ns();
        if events.is_empty() && (0..1_000_000).contains(&left_ns) {
            std::thread::sleep(Duration::from_nanos(left_ns.unsigned_abs()));
        }
        for event in events.iter() {
            let Token(node) = event.token();
            self.work(node, happened);
        }
        let now_ns = clock::mono_ns();
        let registry = self.poll.registry();
        for (node, link) in (0u16..).zip(&mut self.setup.links) {
            if link.wants_ns().is_some_and(|wants| wants <= now_ns) {
                let mut of_link = Vec::new();
                link.look(registry, now_ns, &mut of_link);
                happened.extend(of_link.into_iter().map(|event| (node, event)));
            }
        }
        Ok(())
    }

    fn work(&mut self, node: usize, happened: &mut Vec<(u16, Event)>) {
        let Setup { links, preamble, payload, .. } = &mut self.setup;
        let Some(link) = links.get_mut(node) else { return };
        let mut of_link = Vec::new();
        link.work(preamble, payload, self.poll.registry(), &mut self.scratch, &mut of_link);
        happened.extend(of_link.into_iter().map(|event| (node as u16, event)));
    }

    /// Passes events to the state machine.
    fn tell(&mut self, caller: &mut Caller, happened: &mut Vec<(u16, Event)>) {
        for (node, event) in happened.drain(..) {
            match event {
                Event::Connected(incarnation) => caller.connected(node, incarnation),
                Event::Sent(request, mono_ns) => caller.sent(node, &request, mono_ns),
                Event::Replied(reply, mono_ns) => caller.replied(node, &reply, mono_ns),
                Event::Disconnected => caller.disconnected(node),
                Event::Refused(mismatch) => (self.notice)(node, mismatch),
            }
        }
    }

    /// Carries out all outputs of the state machine.
    fn carry_out(&mut self, caller: &mut Caller) {
        loop {
            let outputs: Vec<Output> = caller.outputs().collect();
            if outputs.is_empty() {
                return;
            }
            let known = caller.incarnations();
            if known.len() != self.incarnations {
                self.incarnations = known.len();
                self.write(Message::Incarnations(known.to_vec()));
            }
            let mut happened = Vec::new();
            for output in outputs {
                match output {
                    Output::Epoch(epoch) => self.write(Message::Epoch(epoch)),
                    Output::Row(row) => self.write(Message::Call(row)),
                    Output::Send { to, request } => self.send(to, request, &mut happened),
                }
            }
            self.tell(caller, &mut happened);
        }
    }

    fn send(
        &mut self,
        to: u16,
        request: probe::message::Request,
        happened: &mut Vec<(u16, Event)>,
    ) {
        let Setup { links, preamble, payload, .. } = &mut self.setup;
        let Some(link) = links.get_mut(usize::from(to)) else { return };
        let mut of_link = Vec::new();
        link.send(request, preamble, payload, self.poll.registry(), &mut of_link);
        happened.extend(of_link.into_iter().map(|event| (to, event)));
    }

    /// Queues a message for the thread of the files, which must never delay a call.
    fn write(&self, message: Message) {
        if let Err(TrySendError::Full(_)) = self.setup.files.try_send(message) {
            self.setup.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}
