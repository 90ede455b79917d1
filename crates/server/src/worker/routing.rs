//! Routing of requests to shards, other workers and threads, and of their replies.

use super::{Worker, fail};
use crate::control::Notice;
use crate::mail::{Batch, Mail, Outgoing};
use crate::net::password::Attempt;
use adt::Reply;
use engine::gateway::{CoordinationClient, Output, Said, ServerReply, SessionId};
use engine::ids::{MachineId, ShardId};
use engine::limits::OUTPUT_BYTES_MAX;
use engine::node::{Parcel, To};
use engine::now::Now;
use wire::resp::Protocol;

/// Limit on rounds between gateway and shards in one turn, even if there is more to do.
const ROUNDS_MAX: usize = 256;

impl Worker {
    /// Passes messages between gateway and shards until both have only work that waits for the disk
    /// or for another worker.
    pub(super) fn settle(&mut self, now: Now) {
        for _ in 0..ROUNDS_MAX {
            let moved = self.route(now);
            // Parts of bundles may have come from other workers since.
            let now = self.clock.now();
            if moved {
                self.moved_us = now.mono_us;
            }
            // All requests have been taken in: their writes go into the log.
            if !self.end_turn(now) && !moved {
                return;
            }
        }
        self.again = true;
    }

    /// Passes messages on. Returns whether there were any.
    pub(super) fn route(&mut self, now: Now) -> bool {
        let mut moved = false;
        loop {
            // Bundles that were sent before the requests are carried out before them.
            let mut more = self.drain_inbox();
            while let Some(output) = self.gateway.poll() {
                more = true;
                self.carry_out(now, output);
            }
            while let Some(event) = self.node.poll() {
                more = true;
                self.note_leads(&event);
                event.deliver(now, &mut self.gateway);
            }
            if !more {
                return moved;
            }
            moved = true;
        }
    }

    /// Closes the log entries of this turn. Returns whether that has produced answers at once.
    pub(super) fn end_turn(&mut self, now: Now) -> bool {
        let mut answers = false;
        let mut index = 0;
        while let Some(&shard) = self.node.active().get(index) {
            index += 1;
            let id = ShardId(shard as u16);
            if let Err(error) = self.node.end_turn(now, shard) {
                fail(id, &error);
            }
            while let Some(persist) = self.node.take_persist(shard) {
                let bytes = persist.entries.iter().map(|entry| entry.data.len() as u64).sum();
                self.snapshots.logged(id, bytes);
                match &self.peers.log {
                    Some(log) => {
                        self.persisting += 1;
                        log.persist(persist);
                    }
                    None => {
                        answers = true;
                        if let Err(error) = self.node.persisted(now, id, persist.number) {
                            fail(id, &error);
                        }
                    }
                }
            }
        }
        answers |= self.node.has_answers();
        if self.persisting == 0 {
            // The count includes reads, and none of it waits for the disk.
            self.unlogged_bytes = 0;
        }
        answers
    }

    pub(super) fn take_batch(&mut self, now: Now, batch: Batch) {
        for (from, parcel) in batch.parcels {
            self.take_parcel(now, from, parcel);
        }
        for outgoing in batch.outgoing {
            self.links.put(outgoing);
        }
        for (from, word) in batch.near {
            self.gateway.near_told(now, from, word);
        }
        self.took(batch.bytes);
    }

    pub(super) fn take_parcel(&mut self, now: Now, from: MachineId, parcel: Parcel) {
        let shard = match &parcel {
            Parcel::Raft { shard, .. } => *shard,
            _ => ShardId::default(),
        };
        if matches!(parcel, Parcel::Request { .. }) {
            self.apply_parts();
        }
        if let Err(error) = self.node.take(now, from, parcel) {
            fail(shard, &error);
        }
    }

    /// Puts the messages of this turn for other workers and machines into batches and connections.
    pub(super) fn post_parcels(&mut self) {
        self.transfer_snapshots();
        while let Some((worker, seed)) = self.node.poll_seed() {
            if let Some(mailbox) = self.peers.workers.get(usize::from(worker)) {
                mailbox.send(Mail::Seed(seed));
            }
        }
        while let Some((to, parcel)) = self.node.poll_parcel() {
            match to {
                To::Worker { worker, from } => {
                    if let Some(batch) = self.outbound.get_mut(usize::from(worker)) {
                        batch.parcels.push((from, parcel));
                    }
                }
                To::Machine(to) => {
                    let epoch = self.links.epoch(to);
                    let outgoing = Outgoing { to, epoch, parcel };
                    let holder = self.node.listener(to);
                    if holder == self.id.worker {
                        self.links.put(outgoing);
                    } else {
                        self.outbound[usize::from(holder)].outgoing.push(outgoing);
                    }
                }
            }
        }
    }

    fn carry_out(&mut self, now: Now, output: Output) {
        match output {
            Output::Reply { session, reply, protocol, lingers } => {
                self.reply(now, session, reply, protocol, lingers);
            }
            Output::Bundle { writes, requests } => self.send_bundle(now, writes, requests),
            Output::Shard { shard, request } => {
                self.take_own();
                self.apply_parts();
                if let Some(request) = self.node.request(now, shard, request) {
                    self.gateway.not_sent(request);
                }
            }
            Output::Coordination { client, said } => self.say(now, client, said),
            Output::Close { session } => {
                if let Some(slot) = self.slot(session)
                    && let Some(connection) = self.connections.get_mut(slot)
                {
                    connection.deaf = true;
                    connection.closing = true;
                    self.mark_dirty(slot);
                }
            }
            Output::Foreign { session } => {
                if let Some(slot) = self.slot(session) {
                    self.warn_of_http(now, slot);
                }
            }
            Output::ScriptLog { level, text } => self.script_lines.write(now, level, &text),
            Output::Peer { to, message } => self.node.message(to, message),
            Output::Broadcast(broadcast) => self.node.broadcast(&broadcast),
            Output::Near { to, word } => {
                if let Some(batch) = self.outbound.get_mut(usize::from(to.worker)) {
                    batch.near.push((self.id, word));
                }
            }
            Output::Verify { session, user: _, password, verifier } => {
                let origin = (self.id, session);
                let attempt = Attempt { origin, password: password.to_vec(), verifier };
                if self.peers.passwords.send(attempt).is_err() {
                    self.gateway.server_replied(now, session, ServerReply::Verified(false));
                }
            }
            Output::Admin { session, action } => {
                let notice = Notice::Admin { gateway: self.id, session, action };
                if self.peers.control.send(notice).is_err() {
                    self.gateway.server_replied(
                        now,
                        session,
                        ServerReply::Admin(Reply::err("the server is stopping")),
                    );
                }
            }
        }
    }

    #[inline]
    fn slot(&mut self, session: SessionId) -> Option<usize> {
        if self.recent.0 != session {
            self.recent = (session, *self.sessions.get(&session)?);
        }
        Some(self.recent.1)
    }

    #[inline]
    fn reply(&mut self, now: Now, session: SessionId, reply: Reply, protocol: u8, lingers: bool) {
        let Some(slot) = self.slot(session) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let protocol = if protocol == 3 { Protocol::Resp3 } else { Protocol::Resp2 };
        let cost = connection.put(now.mono_us, reply, protocol);
        if cost > 0 {
            self.heavies.saw(cost);
            self.peers.budget.replies.change(0, cost);
            if connection.replies.pushed() > OUTPUT_BYTES_MAX {
                tracing::warn!(
                    "closed a connection of {} that does not read its notifications, or what it \
                     monitors: {} bytes are waiting, at most {OUTPUT_BYTES_MAX} may",
                    connection.peer,
                    connection.replies.pushed()
                );
                return self.close(now, slot);
            }
            self.watch_clog(now, slot);
        }
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if lingers && !connection.dirty {
            if !connection.lingering {
                connection.lingering = true;
                self.lingering.push(slot);
            }
        } else if !connection.dirty {
            connection.dirty = true;
            self.dirty.push(slot);
        }
    }

    /// Sends a message to a client of the coordination service.
    fn say(&mut self, now: Now, client: CoordinationClient, said: Said) {
        let Some(&slot) = self.clients.get(&client) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        // A client that reads gets its answers, but watched events can occur faster than it reads.
        let unasked = matches!(said, Said::Happened { .. });
        if connection.output.is_empty() {
            connection.moved_us = now.mono_us;
        }
        dialogue.say(&self.gateway, now, said, &mut connection.output);
        let too_much = unasked && connection.output.len() > OUTPUT_BYTES_MAX;
        let Some(dialogue) = &mut connection.dialogue else { return };
        if dialogue.has_ended() || too_much {
            if too_much {
                tracing::warn!(
                    "closed a connection of a ZooKeeper client at {} that does not read its notifications",
                    connection.peer
                );
                return self.close(now, slot);
            }
            connection.deaf = true;
            connection.closing = true;
        }
        self.mark_dirty(slot);
        self.watch_clog(now, slot);
    }

    /// Sends replies that were held back for a next one, if none is to come.
    fn end_lingering(&mut self) {
        let mut lingering = std::mem::take(&mut self.lingering);
        lingering.retain(|&slot| {
            let Some(connection) = self.connections.get_mut(slot) else { return false };
            let more = self.gateway.session(connection.session).replies_soon;
            connection.lingering &= more && !connection.dirty;
            if !more {
                self.mark_dirty(slot);
                return false;
            }
            connection.lingering
        });
        self.lingering = lingering;
    }

    /// Sends the output of all connections.
    pub(super) fn flush(&mut self, now: Now) {
        self.end_lingering();
        let mut dirty = std::mem::take(&mut self.dirty);
        let mut further = Vec::new();
        for slot in dirty.drain(..) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            connection.dirty = false;
            let flushed = connection.flush(now.mono_us);
            let done = connection.closing && connection.unsent() == 0;
            if connection.more {
                further.push(slot);
            }
            self.count_buffers(slot);
            match flushed {
                Ok((sent, freed)) => {
                    self.sent_bytes += sent as u64;
                    self.peers.budget.replies.change(freed, 0);
                    if done {
                        self.close(now, slot);
                    }
                }
                Err(error) => {
                    tracing::debug!("a connection broke: {error}");
                    self.close(now, slot);
                }
            }
        }
        // Closing connections gives no other connection output.
        self.dirty = dirty;
        for slot in further {
            self.again = true;
            self.mark_dirty(slot);
        }
    }

    /// Sends the other workers this turn's messages.
    pub(super) fn send_batches(&mut self) {
        for (to, batch) in self.outbound.iter_mut().enumerate() {
            if !batch.is_empty() {
                let bytes = self.turn_bytes;
                let batch = Batch { bytes, ..std::mem::take(batch) };
                self.peers.workers[to].send(Mail::Batch(batch));
            }
        }
    }
}
