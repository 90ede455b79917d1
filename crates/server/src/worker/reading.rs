//! Reading: turns bytes into commands.

use super::connection::{Connection, LIMITS, UNAUTHENTICATED_LIMITS};
use super::{READ_BYTES, Worker};
use crate::net::transport::Received;
use engine::gateway::{Gateway, is_heavy};
use engine::ids::ShardId;
use engine::limits::{
    ENTRY_BYTES_MAX, OUTPUT_BYTES_PAUSE, PIPELINE_REQUESTS_MAX, UNLOGGED_BYTES_MAX,
};
use engine::now::Now;

/// Number of connections that are read before their requests are passed on to the shards.
const ROUTE_EVERY: usize = 16;

impl Worker {
    /// Reads all readable connections, once.
    pub(super) fn read_ready(&mut self) {
        let ready = std::mem::take(&mut self.ready);
        if self.draining.is_some() {
            return;
        }
        for (count, &slot) in ready.iter().enumerate() {
            if self.is_congested() {
                self.ready.extend_from_slice(&ready[count..]);
                return;
            }
            self.read(slot);
            if count % ROUTE_EVERY == ROUTE_EVERY - 1 {
                self.route(self.clock.now());
            }
        }
        if self.ready.is_empty() {
            // Reuses the allocation.
            self.ready = ready;
            self.ready.clear();
        }
    }

    /// Whether the disk has to catch up before more commands are taken.
    pub(super) fn is_congested(&self) -> bool {
        let behind = self.persisting > 0 && self.unlogged_bytes > UNLOGGED_BYTES_MAX;
        behind || self.snapshots.hold_clients_up()
    }

    /// Counts bytes of commands that were passed on. Keeps log entries from growing too large.
    pub(super) fn took(&mut self, bytes: usize) {
        self.unlogged_bytes += bytes;
        self.entry_bytes += bytes;
        if self.entry_bytes < ENTRY_BYTES_MAX {
            return;
        }
        self.entry_bytes = 0;
        // Nothing overtakes what is in the inbox still.
        if !self.takes_mail {
            self.route(self.clock.now());
        }
        for index in 0..self.node.local().len() {
            let shard = ShardId(self.node.local()[index] as u16);
            if let Some(replica) = self.node.replica_mut(shard) {
                replica.close_entry();
            }
        }
    }

    fn read(&mut self, slot: usize) {
        self.read_commands(slot);
        self.count_buffers(slot);
        self.note_heavy(slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let taken = std::mem::take(&mut connection.passed);
        self.turn_bytes += taken;
        self.took(taken);
    }

    /// Reads a connection once, and passes on the complete commands.
    fn read_commands(&mut self, slot: usize) {
        let now = self.clock.now();
        let full = self.is_full();
        self.make_room(now, slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        connection.queued = false;
        if connection.paused {
            return;
        }
        if !connection.input.is_empty() {
            // Commands that waited until earlier ones were answered.
            let input = std::mem::take(&mut connection.input);
            let consumed = take_commands(connection, &mut self.gateway, &input, now, full);
            keep_rest(connection, input, consumed);
        }
        let reads = connection.readable && !connection.paused && !connection.deaf;
        if reads && !self.receive(slot, full) {
            return;
        }
        self.count_input(now, slot);
        if self.connections.get(slot).is_some_and(|c| c.broken && !c.deaf) {
            return self.leave(now, slot);
        }
        self.forward_word(slot);
        self.look_for_http(now, slot);
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.closing {
            self.mark_dirty(slot);
        } else if connection.paused {
            self.paused.push(slot);
        } else if connection.readable && !connection.deaf {
            self.queue(slot);
        }
    }

    /// Receives bytes of a client, once. Returns whether more may follow.
    fn receive(&mut self, slot: usize, full: bool) -> bool {
        let Some(connection) = self.connections.get_mut(slot) else { return false };
        let held = connection.input.len();
        let received = if held == 0 {
            connection.receive(&mut self.scratch[..READ_BYTES])
        } else {
            connection.receive_more()
        };
        let now = self.clock.now();
        match received {
            Ok(Received::Bytes { count, more }) => {
                connection.readable = more;
                self.received_bytes += count as u64;
                if held == 0 {
                    let bytes = &self.scratch[..count];
                    let consumed = take_commands(connection, &mut self.gateway, bytes, now, full);
                    if consumed < count {
                        connection.input.extend_from_slice(&bytes[consumed..]);
                    }
                } else {
                    let input = std::mem::take(&mut connection.input);
                    let consumed = take_commands(connection, &mut self.gateway, &input, now, full);
                    keep_rest(connection, input, consumed);
                }
            }
            Ok(Received::Nothing) => connection.readable = false,
            Ok(Received::End) => {
                self.leave(now, slot);
                return false;
            }
            Err(error) => {
                tracing::debug!("a connection broke: {error}");
                self.close(now, slot);
                return false;
            }
        }
        // The peer may wait for handshake messages; in TLS 1.2 the last one comes at the very end.
        if connection.holds_back() {
            self.mark_dirty(slot);
        }
        true
    }

    /// Resumes connections whose earlier commands are answered and sent.
    pub(super) fn resume(&mut self) {
        self.starved = false;
        self.settle_heavy();
        if self.paused.is_empty() {
            return;
        }
        let full = self.is_full();
        let mut paused = std::mem::take(&mut self.paused);
        paused.retain(|&slot| {
            let Some(connection) = self.connections.get_mut(slot) else { return false };
            if !connection.paused {
                return false;
            }
            if connection.starved && full {
                self.starved = true;
                return true;
            }
            if must_wait(connection, &self.gateway) {
                return true;
            }
            connection.paused = false;
            connection.starved = false;
            self.queue(slot);
            false
        });
        self.paused = paused;
    }
}

/// Whether a connection has reached its limit on requests in progress.
fn must_wait(connection: &mut Connection, gateway: &Gateway) -> bool {
    if connection.unsent() > OUTPUT_BYTES_PAUSE {
        return true;
    }
    if let Some(dialogue) = &connection.dialogue {
        return dialogue.must_wait(gateway);
    }
    let under_way = gateway.session(connection.session).in_progress;
    if connection.window.is_full() {
        if under_way > 0 {
            return true;
        }
        connection.window.turn_over();
    }
    if !connection.authenticated {
        connection.authenticated = gateway.session(connection.session).is_authenticated;
        // Commands after an AUTH may be longer once the AUTH has succeeded.
        return !connection.authenticated && under_way > 0;
    }
    under_way >= PIPELINE_REQUESTS_MAX
}

/// Executes the complete commands in `bytes`, as far as there is room for their replies or the
/// replies are small. Returns the number of bytes consumed.
pub(super) fn take_commands(
    connection: &mut Connection,
    gateway: &mut Gateway,
    bytes: &[u8],
    now: Now,
    full: bool,
) -> usize {
    let mut at = 0;
    if must_wait(connection, gateway) {
        connection.paused = true;
        return at;
    }
    if let Some(dialogue) = &mut connection.dialogue {
        let taken = dialogue.take(gateway, now, bytes, &mut connection.output);
        connection.passed += taken;
        connection.deaf |= dialogue.has_ended() || dialogue.is_asking();
        connection.closing |= dialogue.has_ended();
        connection.paused = !connection.deaf && dialogue.must_wait(gateway);
        return taken;
    }
    while !connection.deaf && !connection.broken && at < bytes.len() {
        let limits = if connection.authenticated { &LIMITS } else { &UNAUTHENTICATED_LIMITS };
        let skipped = connection.decoder.is_skipping();
        match connection.decoder.next(&bytes[at..], limits) {
            Ok(Some(frame)) => {
                let mut last = false;
                if let Some(args) = connection.decoder.args(&bytes[at..]) {
                    if full && is_heavy(&args) {
                        (connection.paused, connection.starved) = (true, true);
                        break;
                    }
                    if gateway.command(now, connection.session, &args) {
                        last = connection.window.went();
                    }
                }
                at += frame.consumed;
                connection.passed +=
                    if connection.decoder.is_skipping() { 0 } else { frame.consumed };
                if last {
                    // If there is no more, reading continues, so that a disconnection is noticed.
                    connection.paused = at < bytes.len();
                    break;
                }
                if !connection.authenticated && must_wait(connection, gateway) {
                    connection.paused = true;
                    break;
                }
            }
            Ok(None) => break,
            Err(error) if !skipped && connection.decoder.is_skipping() => {
                gateway.unread(now, connection.session, error.into());
            }
            // The command has been refused already and gets no second reply.
            Err(_) if skipped => connection.broken = true,
            Err(error) => {
                gateway.protocol_error(now, connection.session, error.into());
                connection.deaf = true;
            }
        }
    }
    at
}

/// Puts back the bytes that were not consumed.
pub(super) fn keep_rest(connection: &mut Connection, mut input: Vec<u8>, consumed: usize) {
    if consumed < input.len() {
        input.drain(..consumed);
        connection.input = input;
    } else if input.capacity() <= READ_BYTES {
        input.clear();
        connection.input = input;
    }
}
