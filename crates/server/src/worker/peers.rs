//! A worker's connections with other machines.
//!
//! Each pair of machines has one connection; the worker `listener(machine)` holds it and passes
//! what comes to the other workers, in order. What a turn has for a machine is sent with one system
//! call. All workers hear when a connection begins and when it is lost, in order with what came
//! over it.

use super::Worker;
use super::timing::Due;
use crate::config::cluster::split_address;
use crate::control::Notice;
use crate::counts::PeerCounts;
use crate::mail::{Mail, Outgoing};
use crate::peers::PeerSocket;
use crate::transport::{Received, Transport};
use engine::ids::{MachineId, Token as Asked};
use engine::level::Level;
use engine::limits::{PEER_ENTRIES_BYTES_MAX, PEER_OUTPUT_BYTES_MAX, SILENT_US};
use engine::message::{Answer, Refusal, Request, Response};
use engine::node::Parcel;
use engine::now::Now;
use mio::event::Event;
use mio::{Interest, Token};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wire::peer::{Fault, Hello, Instead, PeerFormat, TooLong, decode_hello, encode_hello};

/// The first token of connections with other machines; those with clients have smaller ones.
const FIRST_TOKEN: usize = usize::MAX / 2;
/// More room for bytes than this is given back when it is empty.
const KEPT_BYTES: usize = 1 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// Bytes that are read from a connection in one turn, unless a frame is longer.
const TURN_BYTES: usize = 4 << 20;
/// Questions about time, and answers, that may wait to be sent on one connection.
const TIMING_MAX: usize = 64;
/// After so much silence of our own something is said that has no effect.
const SAY_AFTER_US: u64 = 200_000;
/// After so much silence of the other machine the connection is taken for lost.
const LOST_AFTER_US: u64 = 1_500_000;

// A sign of life or two may be late.
const _: () = assert!(2 * SAY_AFTER_US < SILENT_US && SILENT_US < LOST_AFTER_US);

/// The connection with another machine.
struct Link {
    transport: Transport,
    /// What the build of the other machine understands.
    level: Level,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the output that are sent already.
    sent: usize,
    readable: bool,
    /// An event has told that the other side will send nothing more.
    hangup: bool,
    /// The socket took less than there was to send.
    full: bool,
    received_us: u64,
    /// It was said that the machine is silent.
    silent: bool,
    sent_us: u64,
    /// Questions about time, and answers, that wait to be sent.
    timing: Vec<Due>,
    /// Requests and answers that came over it and could not be read.
    unread: u64,
    /// It is to be closed, for this reason.
    broken: Option<String>,
}

/// The connections that a worker holds, and those that it knows of.
pub(super) struct Links {
    /// What this machine says first; none if there are no others.
    hello: Option<Hello>,
    held: BTreeMap<MachineId, Link>,
    /// The connections of all workers of this machine.
    epochs: BTreeMap<MachineId, u64>,
    next_epoch: u64,
    format: PeerFormat,
    counts: PeerCounts,
    /// What those are to be told who asked for what cannot be sent.
    refused: Vec<Response>,
}

impl Links {
    pub(super) fn new(hello: Option<Hello>) -> Self {
        let (held, epochs) = (BTreeMap::new(), BTreeMap::new());
        let (format, counts) = (PeerFormat::default(), PeerCounts::default());
        Self { hello, held, epochs, next_epoch: 1, format, counts, refused: Vec::new() }
    }

    /// What was sent over all of them.
    pub(super) fn counts(&self) -> PeerCounts {
        self.counts
    }

    /// Memory of their buffers.
    pub(super) fn buffered(&self) -> usize {
        self.held.values().map(|link| link.input.capacity() + link.output.capacity()).sum()
    }

    /// The connection with a machine, as far as this worker was told; 0 if there is none.
    pub(super) fn epoch(&self, machine: MachineId) -> u64 {
        self.epochs.get(&machine).copied().unwrap_or(0)
    }

    /// The cluster uses this level: who does not understand it must not hear more.
    pub(super) fn demand(&mut self, level: Level) {
        for link in self.held.values_mut().filter(|link| !link.level.suffices_for(level)) {
            link.broken = Some(format!("the other build does not understand level {level}"));
        }
    }

    /// When something is due by time.
    pub(super) fn due_us(&self) -> Option<u64> {
        let due = |link: &Link| {
            let wait_us = if link.silent { LOST_AFTER_US } else { SILENT_US };
            (link.sent_us + SAY_AFTER_US).min(link.received_us + wait_us)
        };
        self.held.values().map(due).min()
    }

    /// Takes an event if it belongs to one of the connections.
    pub(super) fn event(&mut self, event: &Event) -> bool {
        let Some(number) = event.token().0.checked_sub(FIRST_TOKEN) else { return false };
        let machine = u16::try_from(number).map(MachineId);
        if let Ok(machine) = machine
            && let Some(link) = self.held.get_mut(&machine)
        {
            link.hangup |= event.is_read_closed() || event.is_error();
            link.readable |= event.is_readable() || link.hangup;
            link.full &= !event.is_writable();
        }
        true
    }

    /// Puts something into what is to be sent, unless its connection is lost.
    pub(super) fn put(&mut self, outgoing: Outgoing) {
        let Outgoing { to, epoch, parcel } = outgoing;
        if epoch == 0 || epoch != self.epoch(to) {
            return;
        }
        let Some(link) = self.held.get_mut(&to) else { return };
        if link.broken.is_some() {
            return;
        }
        let waiting = link.output.len() - link.sent;
        if waiting > PEER_ENTRIES_BYTES_MAX && has_entries(&parcel) {
            return;
        }
        self.counts.message(&parcel);
        let mut encoded = self.format.encode(&parcel, &mut link.output);
        match (&encoded, parcel) {
            (Err(TooLong), Parcel::Response(response)) => {
                let answer = response.answer.without_replies();
                let shorter = Parcel::Response(Response { answer, ..response });
                encoded = self.format.encode(&shorter, &mut link.output);
            }
            (Err(TooLong), Parcel::Request { request, .. })
                if request.token != Asked::default() =>
            {
                let Request { gateway, token, .. } = request;
                let answer = Answer::Refused(Refusal::Unread);
                self.refused.push(Response { gateway, token, answer });
                encoded = Ok(());
            }
            _ => {}
        }
        if let Err(error) = encoded {
            link.broken = Some(error.to_string());
        } else if link.output.len() - link.sent > PEER_OUTPUT_BYTES_MAX {
            link.broken = Some(format!(
                "it does not take what is sent: {PEER_OUTPUT_BYTES_MAX} bytes are waiting"
            ));
        }
    }
}

impl Links {
    /// A machine is to be asked how long messages take. One that is not connected is not; who asks
    /// finds out.
    pub(super) fn ask(&mut self, machine: MachineId, number: u32) {
        self.say_time(machine, Due::Question(number));
    }

    /// Something about time is to be sent to a machine.
    pub(super) fn say_time(&mut self, machine: MachineId, due: Due) {
        if let Some(link) = self.held.get_mut(&machine)
            && link.timing.len() < TIMING_MAX
        {
            link.timing.push(due);
        }
    }
}

/// Whether a parcel brings entries of a log.
fn has_entries(parcel: &Parcel) -> bool {
    matches!(parcel, Parcel::Raft { message, .. } if !message.entries.is_empty())
}

impl Link {
    fn new(socket: PeerSocket, now: Now) -> Self {
        Self {
            transport: socket.transport,
            level: socket.hello.level,
            input: socket.input,
            output: Vec::new(),
            sent: 0,
            readable: true,
            // Whatever was told before is forgotten: the first reading finds out.
            hangup: true,
            full: false,
            received_us: now.mono_us,
            silent: false,
            sent_us: now.mono_us,
            timing: Vec::new(),
            unread: 0,
            broken: None,
        }
    }

    /// Reads what there is, up to a bound.
    fn receive(&mut self, now: Now) {
        let began = self.input.len();
        while self.readable && self.input.len() < began + TURN_BYTES {
            let held = self.input.len();
            self.input.resize(held + READ_BYTES, 0);
            let result = self.transport.receive(&mut self.input[held..], self.hangup);
            let count = match result {
                Ok(Received::Bytes { count, .. }) => count,
                _ => 0,
            };
            self.input.truncate(held + count);
            match result {
                Ok(Received::Bytes { more, .. }) => {
                    (self.received_us, self.silent) = (now.mono_us, false);
                    self.readable = more;
                }
                Ok(Received::Nothing) => (self.readable, self.hangup) = (false, false),
                Ok(Received::End) => {
                    self.readable = false;
                    self.broken = Some("it was closed by the other side".to_owned());
                }
                Err(error) => {
                    self.readable = false;
                    self.broken = Some(error.to_string());
                }
            }
        }
    }

    /// Sends what there is, as far as the socket takes it.
    fn send(&mut self, now: Now, counts: &mut PeerCounts) -> io::Result<()> {
        let has_some = self.sent < self.output.len() || self.transport.holds_back();
        if !self.full && has_some {
            let count = self.transport.send(&self.output[self.sent..])?;
            if count > 0 {
                self.sent += count;
                self.sent_us = now.mono_us;
                counts.sends += 1;
                counts.bytes += count as u64;
            }
            self.full = self.sent < self.output.len() || self.transport.holds_back();
        }
        if self.sent == self.output.len() {
            self.sent = 0;
            self.output.clear();
            self.output.shrink_to(KEPT_BYTES);
        } else if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
        Ok(())
    }
}

impl Worker {
    /// A connection with another machine is there; it replaces the one before.
    pub(super) fn link(&mut self, now: Now, mut socket: PeerSocket) {
        let machine = socket.hello.machine;
        if self.links.held.contains_key(&machine) {
            self.unlink(now, machine, "there is a new one");
        }
        let token = Token(FIRST_TOKEN + usize::from(machine.0));
        let interest = Interest::READABLE | Interest::WRITABLE;
        let registry = self.poll.registry();
        if let Err(error) = registry.register(socket.transport.stream(), token, interest) {
            tracing::warn!("a connection with machine {} cannot be watched: {error}", machine.0);
            self.peers.linked.set(machine, false);
            return;
        }
        let how = if socket.transport.is_encrypted() { ", encrypted" } else { "" };
        tracing::info!("connected with machine {} ({}){how}", machine.0, socket.hello.address);
        self.tell_control(Notice::Connected(machine));
        let hello = Arc::new(socket.hello.clone());
        self.links.held.insert(machine, Link::new(socket, now));
        // It was let in by the map of a moment ago.
        let used = self.node.map().map(|map| map.level);
        used.into_iter().for_each(|level| self.links.demand(level));
        let epoch = self.links.next_epoch;
        self.links.next_epoch += 1;
        self.tell_workers(|| Mail::PeerUp(epoch, hello.clone()));
        self.peer_up(now, epoch, &hello);
        self.again = true;
    }

    /// Another machine is connected, and has said this.
    pub(super) fn peer_up(&mut self, now: Now, epoch: u64, hello: &Hello) {
        self.links.epochs.insert(hello.machine, epoch);
        if let Some(address) = split_address(&hello.address) {
            self.gateway.machine_linked(now, hello.machine, address, hello.level);
        }
        self.node.connect(now, hello.machine);
    }

    /// The connection with another machine is lost.
    pub(super) fn peer_down(&mut self, now: Now, machine: MachineId) {
        self.links.epochs.remove(&machine);
        self.node.disconnect(now, machine);
    }

    fn tell_workers(&self, mail: impl Fn() -> Mail) {
        for (index, worker) in self.peers.workers.iter().enumerate() {
            if index != usize::from(self.id.worker) {
                worker.send(mail());
            }
        }
    }

    /// Ends a connection. Everybody hears of it after what came over it.
    fn unlink(&mut self, now: Now, machine: MachineId, reason: &str) {
        let Some(mut link) = self.links.held.remove(&machine) else { return };
        tracing::warn!("the connection with machine {} is lost: {reason}", machine.0);
        if let Err(error) = self.poll.registry().deregister(link.transport.stream()) {
            tracing::debug!("a connection was lost that is not watched: {error}");
        }
        self.peers.linked.set(machine, false);
        self.post_parcels();
        self.publish_clocks();
        self.send_batches();
        // Was counted with what is sent now.
        self.turn_bytes = 0;
        self.tell_workers(|| Mail::PeerDown(machine));
        self.peer_down(now, machine);
        self.again = true;
    }

    /// Reads every connection with another machine that has something, and ends those that broke.
    pub(super) fn read_links(&mut self, now: Now) {
        for response in std::mem::take(&mut self.links.refused) {
            self.take_parcel(now, self.id.machine, Parcel::Response(response));
        }
        if self.links.held.is_empty() {
            return;
        }
        let machines: Vec<MachineId> = self.links.held.keys().copied().collect();
        for machine in machines {
            self.read_link(now, machine);
            let Some(link) = self.links.held.get_mut(&machine) else { continue };
            self.again |= link.readable;
            let silent_us = now.mono_us.saturating_sub(link.received_us);
            if silent_us >= SILENT_US && !std::mem::replace(&mut link.silent, true) {
                self.tell_workers(|| Mail::PeerSilent(machine, silent_us));
                self.node.doubt(now, machine, silent_us);
            }
            let Some(link) = self.links.held.get_mut(&machine) else { continue };
            if link.broken.is_none() && now.mono_us >= link.received_us + LOST_AFTER_US {
                link.broken = Some("the machine is silent".to_owned());
            }
            if let Some(reason) = link.broken.take() {
                self.unlink(now, machine, &reason);
            }
        }
    }

    fn read_link(&mut self, now: Now, machine: MachineId) {
        let Some(link) = self.links.held.get_mut(&machine) else { return };
        if link.readable {
            link.receive(now);
        }
        // What came is judged by a clock that is read after it: see `Worker::turn`.
        let now = self.clock.now();
        let mut input = std::mem::take(&mut link.input);
        let mut at = 0;
        while let Some((parcel, used)) = self.next_frame(machine, &input[at..]) {
            at += used;
            match parcel {
                Some(Parcel::Timing(timing)) => self.hear_timing(now, machine, timing),
                Some(Parcel::LeadElsewhere { shard, to }) if !self.may_obey(machine, shard, to) => {
                }
                Some(parcel) => self.take_parcel(now, machine, parcel),
                None => {}
            }
        }
        self.turn_bytes += at;
        self.took(at);
        input.drain(..at);
        if input.is_empty() {
            input.shrink_to(KEPT_BYTES);
        }
        if let Some(link) = self.links.held.get_mut(&machine) {
            link.input = input;
        }
    }

    /// The next complete frame, which may hold nothing but a sign of life.
    fn next_frame(&mut self, machine: MachineId, bytes: &[u8]) -> Option<(Option<Parcel>, usize)> {
        if bytes.is_empty() {
            return None;
        }
        match self.links.format.decode(bytes) {
            Ok(next) => next.map(|(parcel, used)| (Some(parcel), used)),
            Err(Fault::Unread { len, instead }) => Some((self.unread(machine, instead), len)),
            Err(Fault::Corrupt) => match decode_hello(bytes) {
                Ok(Some((_, used))) => Some((None, used)),
                _ => {
                    let link = self.links.held.get_mut(&machine)?;
                    link.broken = Some("what came over it cannot be read".to_owned());
                    None
                }
            },
        }
    }

    /// A request or an answer cannot be read: it fails, and nothing else does.
    fn unread(&mut self, machine: MachineId, instead: Instead) -> Option<Parcel> {
        if let Some(link) = self.links.held.get_mut(&machine) {
            // Clients that try again shall not fill the log.
            if link.unread.is_power_of_two() || link.unread == 0 {
                tracing::error!(
                    "something that machine {} says cannot be read, and fails: {instead:?}; so did \
                     {} before it on this connection",
                    machine.0,
                    link.unread
                );
            }
            link.unread += 1;
        }
        match instead {
            Instead::Here(response) => Some(Parcel::Response(*response)),
            Instead::Back(response) => {
                let (epoch, parcel) = (self.links.epoch(machine), Parcel::Response(*response));
                self.links.put(Outgoing { to: machine, epoch, parcel });
                None
            }
        }
    }

    /// Sends what this turn has for other machines, or a sign of life.
    pub(super) fn flush_links(&mut self, now: Now) {
        if self.links.held.is_empty() {
            return;
        }
        self.tell_appended();
        let links = &mut self.links;
        self.again |= !links.refused.is_empty();
        for link in links.held.values_mut() {
            if !link.timing.is_empty() {
                // The clock is read as late as possible.
                let sent_us = self.clock.now().mono_us;
                for due in link.timing.drain(..) {
                    let parcel = due.parcel(sent_us);
                    links.counts.message(&parcel);
                    if let Err(error) = links.format.encode(&parcel, &mut link.output) {
                        link.broken = Some(error.to_string());
                    }
                }
            }
            let idle = link.sent == link.output.len();
            if idle && now.mono_us >= link.sent_us + SAY_AFTER_US {
                if let Some(hello) = &links.hello {
                    encode_hello(hello, &mut link.output);
                }
            } else if !idle && now.mono_us >= link.sent_us + SAY_AFTER_US {
                // It is the other side that does not read; there is nothing to wake up for.
                link.sent_us = now.mono_us;
            }
            if link.broken.is_none()
                && let Err(error) = link.send(now, &mut links.counts)
            {
                link.broken = Some(error.to_string());
            }
            // The next turn ends it.
            self.again |= link.broken.is_some();
        }
    }
}
