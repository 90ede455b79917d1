//! The replies that are kept and the requests under way, by key and words.

use super::CacheOptions;
use super::answer::Answer;
use adt::Blob;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wire::resp::ClientReply;

/// Share of each part of a reply in its size, beside its text.
const PART_BYTES: usize = 16;

/// Words of a read: its key, and the command as it is sent.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub key: Blob,
    pub encoded: Blob,
}

/// A reply that is kept, or the request for it.
pub(super) enum Found {
    Kept(Arc<ClientReply>),
    UnderWay(Answer),
}

enum Slot {
    Kept { reply: Arc<ClientReply>, used: u64 },
    UnderWay { number: u64, answer: Answer },
}

/// Replies and requests. Those used longest ago make room.
pub(super) struct Store {
    options: CacheOptions,
    slots: HashMap<Blob, HashMap<Blob, Slot>>,
    /// Words of the replies that are kept, by the number of their last use.
    used: BTreeMap<u64, Words>,
    /// Number of the last use or request.
    last: u64,
}

impl Store {
    pub fn new(options: CacheOptions) -> Self {
        Self { options, slots: HashMap::new(), used: BTreeMap::new(), last: 0 }
    }

    /// The reply to these words, if it may be used, or the request for it.
    pub fn find(&mut self, words: &Words, is_fresh: bool) -> Option<Found> {
        match self.slots.get_mut(&words.key)?.get_mut(&words.encoded)? {
            Slot::Kept { reply, used } if is_fresh => {
                self.last += 1;
                self.used.remove(used);
                self.used.insert(self.last, words.clone());
                *used = self.last;
                Some(Found::Kept(Arc::clone(reply)))
            }
            Slot::UnderWay { answer, .. } if !answer.is_over() => {
                Some(Found::UnderWay(answer.clone()))
            }
            _ => None,
        }
    }

    /// Notes a request in the place of what there is, and returns its number.
    pub fn begin(&mut self, words: &Words, answer: Answer) -> u64 {
        self.remove(words);
        self.last += 1;
        let slot = Slot::UnderWay { number: self.last, answer };
        self.slots.entry(words.key.clone()).or_default().insert(words.encoded.clone(), slot);
        self.last
    }

    /// Keeps the reply to a request, unless its key has changed meanwhile, or the reply is an error
    /// or large.
    pub fn keep(&mut self, words: &Words, request: u64, reply: &Arc<ClientReply>) {
        let slot = self.slots.get_mut(&words.key).and_then(|slots| slots.get_mut(&words.encoded));
        let Some(slot) = slot else { return };
        if !matches!(slot, Slot::UnderWay { number, .. } if *number == request) {
            return;
        }
        let is_error = matches!(**reply, ClientReply::Error(_));
        if is_error || size(reply) > self.options.max_reply_bytes {
            self.remove(words);
            return;
        }
        self.last += 1;
        *slot = Slot::Kept { reply: Arc::clone(reply), used: self.last };
        self.used.insert(self.last, words.clone());
        while self.used.len() > self.options.max_entries
            && let Some((_, oldest)) = self.used.pop_first()
        {
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, words: &Words) {
        let Some(of_key) = self.slots.get_mut(&words.key) else { return };
        if let Some(Slot::Kept { used, .. }) = of_key.remove(&words.encoded) {
            self.used.remove(&used);
        }
        if of_key.is_empty() {
            self.slots.remove(&words.key);
        }
    }

    /// Drops the replies of a key, and lets those under way not be kept; returns the number of
    /// replies.
    pub fn forget(&mut self, key: &[u8]) -> u64 {
        let before = self.used.len();
        for slot in self.slots.remove(key).unwrap_or_default().into_values() {
            if let Slot::Kept { used, .. } = slot {
                self.used.remove(&used);
            }
        }
        (before - self.used.len()) as u64
    }

    /// [`Store::forget`] for all keys.
    pub fn clear(&mut self) -> u64 {
        self.slots.clear();
        std::mem::take(&mut self.used).len() as u64
    }
}

/// Size of a reply in memory, about, in bytes.
fn size(reply: &ClientReply) -> usize {
    PART_BYTES
        + match reply {
            ClientReply::Bulk(bytes) | ClientReply::Status(bytes) => bytes.len(),
            ClientReply::Array(items) | ClientReply::Set(items) => items.iter().map(size).sum(),
            ClientReply::Map(pairs) => {
                pairs.iter().map(|(name, value)| size(name) + size(value)).sum()
            }
            _ => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::super::answer::question;
    use super::*;

    fn words(key: &str, rest: &str) -> Words {
        Words { key: key.into(), encoded: [key, rest].concat().as_str().into() }
    }

    fn text(text: &str) -> Arc<ClientReply> {
        Arc::new(ClientReply::Bulk(text.into()))
    }

    fn store(max_entries: usize, max_reply_bytes: usize) -> Store {
        Store::new(CacheOptions { max_entries, max_reply_bytes })
    }

    fn is_kept(store: &mut Store, words: &Words) -> bool {
        matches!(store.find(words, true), Some(Found::Kept(_)))
    }

    /// Carries a request out, and returns whether its reply is kept.
    fn answered(store: &mut Store, words: &Words, reply: &Arc<ClientReply>) -> bool {
        let request = store.begin(words, question().1);
        store.keep(words, request, reply);
        is_kept(store, words)
    }

    #[test]
    fn replies_used_longest_ago_make_room_and_leave_nothing_behind() {
        let mut store = store(2, 100);
        let [a, b, c] = ["a", "b", "c"].map(|key| words(key, ""));
        assert!(answered(&mut store, &a, &text("1")) && answered(&mut store, &b, &text("1")));
        assert!(is_kept(&mut store, &a));
        assert!(answered(&mut store, &c, &text("1")));
        assert!(is_kept(&mut store, &a) && !is_kept(&mut store, &b));
        assert!(answered(&mut store, &a, &text("2")), "again, after a time of silence");
        assert_eq!((store.slots.len(), store.used.len()), (2, 2));
        assert_eq!((store.forget(b"a"), store.forget(b"b"), store.clear()), (1, 0, 1));
        assert_eq!((store.slots.len(), store.used.len()), (0, 0));
    }

    #[test]
    fn errors_and_replies_above_the_limit_are_not_kept() {
        let mut store = store(10, 2 * PART_BYTES + 5);
        let a = words("a", "");
        let array = |len| {
            Arc::new(ClientReply::Array(vec![ClientReply::Bulk("x".repeat(len).as_str().into())]))
        };
        assert!(answered(&mut store, &a, &array(5)));
        assert!(!answered(&mut store, &a, &array(6)));
        assert!(!answered(&mut store, &a, &Arc::new(ClientReply::Error("ERR no".into()))));
        assert_eq!((store.slots.len(), store.used.len()), (0, 0));
    }

    #[test]
    fn a_write_drops_all_words_of_its_key_and_what_is_under_way() {
        let mut store = store(10, 100);
        let (one, two, other) = (words("k", "1"), words("k", "2"), words("l", ""));
        assert!(answered(&mut store, &one, &text("1")) && answered(&mut store, &other, &text("1")));
        let (_question, answer) = question();
        let request = store.begin(&two, answer);
        assert!(matches!(store.find(&two, true), Some(Found::UnderWay(_))));
        assert_eq!(store.forget(b"k"), 1);
        store.keep(&two, request, &text("old"));
        assert!(!is_kept(&mut store, &one) && !is_kept(&mut store, &two));
        assert!(is_kept(&mut store, &other));
        // The reply to an earlier request is not that of a later one.
        store.begin(&two, question().1);
        store.keep(&two, request, &text("old"));
        assert!(!is_kept(&mut store, &two));
    }

    #[test]
    fn nothing_is_found_in_silence_nor_a_request_that_was_lost() {
        let mut store = store(10, 100);
        let (a, b) = (words("a", ""), words("b", ""));
        assert!(answered(&mut store, &a, &text("1")));
        assert!(store.find(&a, false).is_none());
        let (question, answer) = question();
        store.begin(&b, answer);
        assert!(matches!(store.find(&b, false), Some(Found::UnderWay(_))));
        drop(question);
        assert!(store.find(&b, true).is_none());
    }
}
