//! What a worker tells about its clients of the coordination service, and four-letter words.

use super::Worker;
use super::connection::Connection;
use super::dialogue::Dialogue;
use super::talk::{Clients, Details, Talk};
use crate::control::Notice;
use engine::gateway::CoordinationClient;
use engine::message::ShardId;
use engine::replica::Replica;
use wire::entry::EntryFormat;

/// The shard that has the tree.
const TREE: ShardId = ShardId(0);

impl Worker {
    fn tree(&self) -> Option<&Replica<EntryFormat>> {
        self.node.replica(TREE)
    }

    fn dialogues(&self) -> impl Iterator<Item = &Dialogue> {
        let slots = self.clients.values();
        slots.filter_map(|slot| self.connections.get(*slot)?.dialogue.as_deref())
    }

    /// In numbers.
    pub(super) fn clients_report(&self) -> Clients {
        let mut report = Clients { talk: self.left, ..Clients::default() };
        for dialogue in self.dialogues() {
            report.connections += 1;
            report.outstanding += dialogue.outstanding();
            report.talk.add(&dialogue.share);
        }
        report.followers = self.tree().and_then(|replica| replica.followers());
        report.survey = self.tree().map(|replica| replica.shard().survey());
        report
    }

    /// One by one; sessions and nodes only if they are asked for.
    pub(super) fn details(&self, with_lists: bool) -> Details {
        let tree = self.tree().filter(|_| with_lists);
        Details {
            clients: self.clients_report(),
            lines: self.dialogues().map(|dialogue| dialogue.line(&self.gateway)).collect(),
            listed: tree.map(|replica| replica.shard().list_sessions()),
        }
    }

    /// The counters begin anew: those of the connections, or `all` of the server's.
    pub(super) fn reset_talk(&mut self, all: bool) {
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

    /// A connection may have asked something that all workers are asked about.
    pub(super) fn ask_word(&mut self, slot: usize) {
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Connection { dialogue: Some(dialogue), .. } = connection else { return };
        let Some(word) = dialogue.take_word() else { return };
        let (worker, client) = (self.id.worker, dialogue.client);
        // If nobody listens any more, the server is stopping, and all connections end.
        let _ = self.peers.control.send(Notice::Word { worker, client, word });
    }

    /// What came of it.
    pub(super) fn say_word(&mut self, client: CoordinationClient, text: &str) {
        let Some(&slot) = self.clients.get(&client) else { return };
        let Some(connection) = self.connections.get_mut(slot) else { return };
        let Some(dialogue) = &mut connection.dialogue else { return };
        dialogue.say_word(text, &mut connection.output);
        connection.closing = true;
        self.mark_dirty(slot);
    }
}
