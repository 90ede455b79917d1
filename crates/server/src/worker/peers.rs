//! A worker's connections with other machines.
//!
//! Each pair of machines has one connection; the worker `listener(machine)` holds it and passes
//! what it receives to the other workers, in order. A turn's messages for a machine are sent with
//! one system call. All workers are notified when a connection begins and when it is lost, in order
//! with its messages.

use super::Worker;
use super::timing::Due;
use crate::config::cluster::split_address;
use crate::control::Notice;
use crate::mail::{Mail, Outgoing};
use crate::net::broadcasts::Broadcasts;
use crate::net::peers::PeerSocket;
use crate::net::transport::{Received, Transport};
use crate::operators::counts::PeerCounts;
use engine::cluster::level::Level;
use engine::gateway::ClusterChange;
use engine::ids::{MachineId, Token as Asked};
use engine::limits::{PEER_ENTRIES_BYTES_MAX, PEER_OUTPUT_BYTES_MAX, SILENT_US};
use engine::message::{Answer, Refusal, Request, Response};
use engine::node::{Parcel, ParcelKind};
use engine::now::Now;
use mio::event::Event;
use mio::{Interest, Token};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use wire::peer::{Fault, Hello, Instead, PeerFormat, TooLong, decode_hello, encode_hello};

/// First token of connections with other machines; clients' tokens are smaller.
const FIRST_TOKEN: usize = usize::MAX / 2;
/// A larger buffer is freed when it is empty.
const KEPT_BYTES: usize = 1 << 20;
/// Size of a read.
const READ_BYTES: usize = 64 << 10;
/// Limit on the bytes read from a connection in one turn, unless a frame is longer.
const TURN_BYTES: usize = 4 << 20;
/// Limit on timing messages that wait to be sent on one connection.
const TIMING_MAX: usize = 64;
/// Time without messages after which a heartbeat is sent.
const SAY_AFTER_US: u64 = 200_000;
/// Silence of the other machine after which the connection counts as lost.
const LOST_AFTER_US: u64 = 1_500_000;

// One or two heartbeats may be late.
const _: () = assert!(2 * SAY_AFTER_US < SILENT_US && SILENT_US < LOST_AFTER_US);

/// Connection with another machine.
struct Link {
    transport: Transport,
    /// Level that the other machine's build understands.
    level: Level,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Number of bytes of the output that have been sent.
    sent: usize,
    broadcasts: Broadcasts,
    readable: bool,
    /// An event has announced the end of the peer's data.
    hangup: bool,
    /// The socket took less than was offered.
    full: bool,
    received_us: u64,
    /// Whether the machine has been reported as silent.
    silent: bool,
    sent_us: u64,
    /// Timing messages that wait to be sent.
    timing: Vec<Due>,
    /// Number of received requests and answers that could not be decoded.
    unread: u64,
    /// Reason for closing the connection, if it is to be closed.
    broken: Option<String>,
}

/// Connections that this worker holds, and connections of the whole machine.
pub(super) struct Links {
    /// Greeting of this machine; none for a single machine.
    hello: Option<Hello>,
    held: BTreeMap<MachineId, Link>,
    /// Current connections of all workers of this machine.
    epochs: BTreeMap<MachineId, u64>,
    next_epoch: u64,
    format: PeerFormat,
    counts: PeerCounts,
    /// Responses for requests that could not be sent.
    refused: Vec<Response>,
}

impl Links {
    pub(super) fn new(hello: Option<Hello>) -> Self {
        let (held, epochs) = (BTreeMap::new(), BTreeMap::new());
        let (format, counts) = (PeerFormat::default(), PeerCounts::default());
        Self { hello, held, epochs, next_epoch: 1, format, counts, refused: Vec::new() }
    }

    /// Counters over all connections.
    pub(super) fn counts(&self) -> PeerCounts {
        self.counts
    }

    /// Memory of the buffers.
    pub(super) fn buffered(&self) -> usize {
        let of =
            |link: &Link| link.input.capacity() + link.output.capacity() + link.broadcasts.bytes();
        self.held.values().map(of).sum()
    }

    /// Number of the current connection with a machine, as far as this worker knows; 0 if there is
    /// none.
    pub(super) fn epoch(&self, machine: MachineId) -> u64 {
        self.epochs.get(&machine).copied().unwrap_or(0)
    }

    /// Closes connections with machines that do not understand this level, which the cluster uses
    /// now.
    pub(super) fn demand(&mut self, level: Level) {
        for link in self.held.values_mut().filter(|link| !link.level.suffices_for(level)) {
            link.broken = Some(format!("the other build does not understand level {level}"));
        }
    }

    /// Time of the next heartbeat or time-out.
    pub(super) fn due_us(&self) -> Option<u64> {
        let due = |link: &Link| {
            let wait_us = if link.silent { LOST_AFTER_US } else { SILENT_US };
            (link.sent_us + SAY_AFTER_US).min(link.received_us + wait_us)
        };
        self.held.values().map(due).min()
    }

    /// Handles an event if it belongs to one of the connections.
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

    /// Adds a message to the output, unless its connection is lost.
    pub(super) fn put(&mut self, outgoing: Outgoing) {
        let Outgoing { to, epoch, parcel } = outgoing;
        if epoch == 0 || epoch != self.epoch(to) {
            return;
        }
        let Some(link) = self.held.get_mut(&to) else { return };
        if link.broken.is_some() {
            return;
        }
        if matches!(parcel, Parcel::Broadcast(_)) {
            let mut frame = Vec::new();
            let encoded = self.format.encode(&parcel, &mut frame);
            if encoded.is_ok() && link.broadcasts.push(frame) {
                self.counts.message(&parcel);
            } else {
                self.counts.broadcasts_dropped += 1;
            }
            return;
        }
        let waiting = link.output.len() - link.sent;
        if waiting > PEER_ENTRIES_BYTES_MAX && parcel.kind() == ParcelKind::Entries {
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
            link.broken =
                Some(format!("it does not read: {PEER_OUTPUT_BYTES_MAX} bytes are waiting"));
        }
    }
}

impl Links {
    /// Queues a question that measures the round trip to a machine. Without a connection it is
    /// dropped, and the asker's time-out expires.
    pub(super) fn ask(&mut self, machine: MachineId, number: u32) {
        self.say_time(machine, Due::Question(number));
    }

    /// Queues a timing message to a machine.
    pub(super) fn say_time(&mut self, machine: MachineId, due: Due) {
        if let Some(link) = self.held.get_mut(&machine)
            && link.timing.len() < TIMING_MAX
        {
            link.timing.push(due);
        }
    }
}

impl Link {
    fn new(socket: PeerSocket, now: Now) -> Self {
        Self {
            transport: socket.transport,
            level: socket.hello.level,
            input: socket.input,
            output: Vec::new(),
            sent: 0,
            broadcasts: Broadcasts::default(),
            readable: true,
            // Earlier events are not known here: the first read finds out.
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

    /// Reads what has arrived, up to a limit.
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

    /// Sends as much as the socket takes.
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
    /// Adds a connection with another machine; it replaces an earlier one.
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
        self.notify_control(Notice::Connected(machine));
        let hello = Arc::new(socket.hello.clone());
        self.links.held.insert(machine, Link::new(socket, now));
        // The machine was admitted by a map that may have changed since.
        let used = self.node.map().map(|map| map.level);
        used.into_iter().for_each(|level| self.links.demand(level));
        let epoch = self.links.next_epoch;
        self.links.next_epoch += 1;
        self.tell_workers(|| Mail::PeerUp(epoch, hello.clone()));
        self.peer_up(now, epoch, &hello);
        self.again = true;
    }

    /// Handles the start of another machine's connection, with its greeting.
    pub(super) fn peer_up(&mut self, now: Now, epoch: u64, hello: &Hello) {
        self.links.epochs.insert(hello.machine, epoch);
        if let Some(address) = split_address(&hello.address) {
            let address = (address.0.to_owned(), address.1);
            let linked = ClusterChange::Linked(hello.machine, address, hello.level);
            self.gateway.cluster_changed(now, linked);
        }
        self.node.connect(now, hello.machine);
    }

    /// Handles the loss of the connection with another machine.
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

    /// Closes a connection. All workers are notified after the messages that it has delivered.
    fn unlink(&mut self, now: Now, machine: MachineId, reason: &str) {
        let Some(mut link) = self.links.held.remove(&machine) else { return };
        tracing::warn!("the connection with machine {} is lost: {reason}", machine.0);
        self.links.counts.broadcasts_dropped += link.broadcasts.count();
        if let Err(error) = self.poll.registry().deregister(link.transport.stream()) {
            tracing::debug!("a lost connection cannot be deregistered: {error}");
        }
        self.peers.linked.set(machine, false);
        self.post_parcels();
        self.publish_clocks();
        self.send_batches();
        // These bytes were counted before, with the output.
        self.turn_bytes = 0;
        self.tell_workers(|| Mail::PeerDown(machine));
        self.peer_down(now, machine);
        self.again = true;
    }

    /// Reads all connections with other machines that are readable, and closes the broken ones.
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
        // Received messages are judged by a clock that is read after them: see `Worker::turn`.
        let now = self.clock.now();
        let mut input = std::mem::take(&mut link.input);
        let mut at = 0;
        while let Some((parcel, used)) = self.next_frame(machine, &input[at..]) {
            at += used;
            match parcel {
                Some(Parcel::Timing(timing)) => self.handle_timing(now, machine, timing),
                Some(Parcel::LeadElsewhere { shard, to }) if !self.may_obey(machine, shard, to) => {
                }
                Some(Parcel::BroadcastsTaken(bytes)) => {
                    if let Some(link) = self.links.held.get_mut(&machine) {
                        link.broadcasts.arrived(bytes);
                    }
                }
                Some(parcel) => {
                    if matches!(parcel, Parcel::Broadcast(_))
                        && let Some(link) = self.links.held.get_mut(&machine)
                    {
                        link.broadcasts.took(used);
                    }
                    self.take_parcel(now, machine, parcel);
                }
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

    /// Decodes the next complete frame; a heartbeat has no content.
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
                    link.broken = Some("a message cannot be decoded".to_owned());
                    None
                }
            },
        }
    }

    /// Handles a request or an answer that cannot be decoded: it alone fails.
    fn unread(&mut self, machine: MachineId, instead: Instead) -> Option<Parcel> {
        if let Some(link) = self.links.held.get_mut(&machine) {
            // Clients that retry must not fill the log.
            if link.unread.is_power_of_two() || link.unread == 0 {
                tracing::error!(
                    "a message of machine {} cannot be decoded, and fails: {instead:?}; so did {} \
                     before it on this connection",
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

    /// Sends the messages of this turn for other machines, or heartbeats.
    pub(super) fn flush_links(&mut self, now: Now) {
        if self.links.held.is_empty() {
            return;
        }
        self.report_appends();
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
            if let Some(bytes) = link.broadcasts.untold()
                && let Err(error) =
                    links.format.encode(&Parcel::BroadcastsTaken(bytes), &mut link.output)
            {
                link.broken = Some(error.to_string());
            }
            link.broadcasts.release(&mut link.output);
            let idle = link.sent == link.output.len();
            if idle && now.mono_us >= link.sent_us + SAY_AFTER_US {
                if let Some(hello) = &links.hello {
                    encode_hello(hello, &mut link.output);
                }
            } else if !idle && now.mono_us >= link.sent_us + SAY_AFTER_US {
                // The peer does not read; this side has no reason to wake up.
                link.sent_us = now.mono_us;
            }
            if link.broken.is_none()
                && let Err(error) = link.send(now, &mut links.counts)
            {
                link.broken = Some(error.to_string());
            }
            // The next turn closes it.
            self.again |= link.broken.is_some();
        }
    }
}
