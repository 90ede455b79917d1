//! A worker's statistics about its clients of the coordination service, and four-letter commands.

use super::dialogue::Dialogue;
use super::talk::{Clients, Details, Talk};
use crate::control::Notice;
use crate::worker::Worker;
use crate::worker::connection::Connection;
use engine::coordination::Zxid;
use engine::coordination::spread::HOME;
use engine::gateway::CoordinationClient;
use engine::shard::Shard;

impl Worker {
    /// Shards that own a part of the tree, shard 0 first.
    fn trees(&self) -> impl Iterator<Item = &Shard> {
        let home = self.node.replica(HOME).map(|replica| replica.shard());
        let others = self.node.replicas().map(|replica| replica.shard());
        let used = |shard: &&Shard| shard.state().coordination().last() > Zxid::default();
        home.into_iter().chain(others.filter(|shard| shard.id() != HOME).filter(used))
    }

    fn dialogues(&self) -> impl Iterator<Item = &Dialogue> {
        let slots = self.clients.values();
        slots.filter_map(|slot| self.connections.get(*slot)?.dialogue.as_deref())
    }

    /// Totals over all clients.
    pub(in crate::worker) fn clients_report(&self) -> Clients {
        let mut report = Clients { talk: self.left, ..Clients::default() };
        for dialogue in self.dialogues() {
            report.connections += 1;
            report.outstanding += dialogue.outstanding();
            report.talk.add(&dialogue.share);
        }
        report.followers =
            self.node.replica(HOME).and_then(|replica| replica.group().peers().followers());
        for shard in self.trees() {
            if shard.id() == HOME {
                report.survey = Some(shard.survey());
            } else {
                report.elsewhere.add(&shard.survey());
            }
        }
        report
    }

    /// Details of each connection; sessions and nodes only if requested.
    pub(in crate::worker) fn details(&self, with_lists: bool) -> Details {
        let (mut listed, mut elsewhere) = (None, Vec::new());
        for shard in self.trees().filter(|_| with_lists) {
            if shard.id() == HOME {
                listed = Some(shard.list_sessions());
            } else {
                elsewhere.push(shard.list_sessions());
            }
        }
        Details {
            clients: self.clients_report(),
            lines: self.dialogues().map(|dialogue| dialogue.line(&self.gateway)).collect(),
            listed,
            listed_elsewhere: elsewhere,
        }
    }

    /// Resets the counters: those of the connections, or `all` of the server's.
    pub(in crate::worker) fn reset_talk(&mut self, all: bool) {
        if all {
            self.left = Talk::default();
        }
        let slots: Vec<usize> = self.clients.values().copied().collect();
        for slot in slots {
            let connection = self.connections.get_mut(slot);
            let Some(dialogue) = connection.and_then(|c| c.dialogue.as_mut()) else { continue };
            if all {
                dialogue.share = Talk::default();
            } else {
                dialogue.reset();
            }
        }
    }

    /// Forwards a four-letter command to the control thread if it needs answers of all workers.
    pub(in crate::worker) fn forward_word(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Connection { dialogue: Some(dialogue), .. } = connection else { return };
        let Some(word) = dialogue.take_word() else { return };
        let (worker, client) = (self.id.worker, dialogue.client);
        // If the receiver is gone, the server is stopping, and all connections end.
        let _ = self.peers.control.send(Notice::Word { worker, client, word });
    }

    /// Sends the answer to a four-letter command.
    pub(in crate::worker) fn answer_word(&mut self, client: CoordinationClient, text: &str) {
        let Some(&slot) = self.clients.get(&client) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        dialogue.answer_word(text, &mut connection.output);
        connection.closing = true;
        self.mark_dirty(slot);
    }
}
