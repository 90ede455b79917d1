//! Limits on the memory that clients occupy: replies that they do not read, and commands that they
//! do not complete.

use super::reading::{keep_rest, take_commands};
use super::{READ_BYTES, Worker};
use adt::ErrorReply;
use engine::limits::{
    INPUT_US_MAX_IF_FULL, INPUTS_BYTES_MAX, OUTPUT_BYTES_MAX, OUTPUT_BYTES_PAUSE, REPLIES_BYTES_MAX,
};
use engine::now::Now;

/// Interval between searches for clients that read nothing.
const LOOK_US: u64 = 500_000;
/// Minimum interval between searches for incomplete commands.
const INPUTS_LOOK_US: u64 = 100_000;

fn no_room() -> ErrorReply {
    let text = format!(
        "commands that have not come to their end take more than {INPUTS_BYTES_MAX} bytes: this one \
         was not carried out, send it again"
    );
    ErrorReply::new("BUSY", text)
}

impl Worker {
    /// Whether unsent replies have reached their memory limit.
    fn is_full_of_replies(&self) -> bool {
        self.peers.budget.replies.get() >= REPLIES_BYTES_MAX
    }

    /// Whether requests whose replies may be large have to wait.
    pub(super) fn is_full(&self) -> bool {
        self.heavies.are_full() || self.is_full_of_replies()
    }

    /// Registers a connection that may have requests in progress whose replies may be large.
    pub(super) fn note_heavy(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.window.is_open() && !connection.heavy {
            connection.heavy = true;
            self.heavies.connections.push((slot, connection.number));
        }
    }

    /// Removes connections whose large requests have been answered.
    pub(super) fn settle_heavy(&mut self) {
        let mut under_way = std::mem::take(&mut self.heavies.connections);
        under_way.retain(|&(slot, number)| {
            let connection = self.connections.get_mut(slot).filter(|c| c.number == number);
            let Some(connection) = connection else { return false };
            if self.gateway.session(connection.session).in_progress > 0 {
                return true;
            }
            connection.heavy = false;
            connection.window.turn_over();
            self.heavies.settle();
            false
        });
        self.heavies.connections = under_way;
    }

    /// Registers a connection that has more unsent data than it may have while it makes no
    /// progress.
    pub(super) fn watch_clog(&mut self, now: Now, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        if connection.unsent() > OUTPUT_BYTES_PAUSE && !connection.clogged {
            connection.clogged = true;
            if self.clogged.is_empty() {
                self.clogs_due_us = now.mono_us + LOOK_US;
            }
            self.clogged.push((slot, connection.number));
        }
    }

    /// Closes connections with much unsent data whose clients read nothing.
    pub(super) fn close_clogged(&mut self, now: Now) {
        if self.clogged.is_empty() || now.mono_us < self.clogs_due_us {
            return;
        }
        self.clogs_due_us = now.mono_us + LOOK_US;
        let full = self.is_full_of_replies();
        for (slot, number) in std::mem::take(&mut self.clogged) {
            let Some(connection) = self.connections.get_mut(slot) else { continue };
            if connection.number != number {
                continue;
            }
            let unsent = connection.unsent();
            if unsent <= OUTPUT_BYTES_PAUSE {
                connection.clogged = false;
                continue;
            }
            if !connection.is_stalled(now.mono_us, full) {
                self.clogged.push((slot, number));
                continue;
            }
            tracing::warn!(
                "closed a connection of {} that has read none of its replies for {} seconds: {unsent} \
                 bytes are waiting, at most {OUTPUT_BYTES_MAX} may",
                connection.peer,
                connection.still_us(now.mono_us) / 1_000_000
            );
            self.close(now, slot);
        }
    }

    /// Updates the count of bytes that a connection holds of an incomplete command.
    pub(super) fn count_input(&mut self, now: Now, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let held = connection.input.capacity();
        let held = if held > READ_BYTES { held } else { 0 };
        let (before, since_us) = connection.counted;
        if held != before {
            self.peers.budget.inputs.change(before, held);
            connection.counted = (held, if before == 0 { now.mono_us } else { since_us });
        }
    }

    /// Frees memory if the incomplete commands of all clients take too much: refuses those of this
    /// worker that have been incomplete for long, or else the command of this connection.
    pub(super) fn make_room(&mut self, now: Now, slot: usize) {
        let needed = |connection: &super::Connection| connection.input.len() > READ_BYTES / 2;
        if self.peers.budget.inputs.get() < INPUTS_BYTES_MAX
            || !self.connections.get(slot).is_some_and(needed)
        {
            return;
        }
        if self.inputs_due_us <= now.mono_us {
            self.inputs_due_us = now.mono_us + INPUTS_LOOK_US;
            let mut old: Vec<(u64, usize)> = Vec::new();
            for (other, connection) in &self.connections {
                let (held, since_us) = connection.counted;
                if held > 0 && now.mono_us.saturating_sub(since_us) >= INPUT_US_MAX_IF_FULL {
                    old.push((since_us, other));
                }
            }
            old.sort_unstable();
            for (_, other) in old {
                if self.peers.budget.inputs.get() < INPUTS_BYTES_MAX / 4 * 3 {
                    break;
                }
                self.refuse_input(now, other);
            }
        }
        if self.peers.budget.inputs.get() >= INPUTS_BYTES_MAX {
            self.refuse_input(now, slot);
        }
    }

    /// Refuses the command of which a connection has sent a part, and drops that part.
    fn refuse_input(&mut self, now: Now, slot: usize) {
        let full = self.is_full();
        let Some(connection) = self.connections.get_mut(slot) else { return };
        // Commands that wait here are complete.
        if connection.paused || connection.deaf {
            return;
        }
        if connection.dialogue.is_some() {
            // ZooKeeper's protocol has no answer without a request; the client reconnects to its
            // session.
            tracing::debug!("closed a connection of a ZooKeeper client: {}", no_room());
            return self.close(now, slot);
        }
        if !connection.decoder.is_skipping() {
            if !connection.decoder.skip_rest() {
                return;
            }
            self.gateway.unread(now, connection.session, no_room());
        }
        let input = std::mem::take(&mut connection.input);
        let consumed = take_commands(connection, &mut self.gateway, &input, now, full);
        keep_rest(connection, input, consumed);
        self.count_input(now, slot);
    }
}
