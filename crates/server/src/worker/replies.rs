//! Replies that wait for their client: they are encoded as its socket takes them.
//!
//! Until then a reply shares its strings with the records, so a waiting reply costs little more
//! than a place for each item. [`Window`] limits the number of requests in progress whose replies
//! may be large: one at first, and more as long as the replies turn out to be small.

use adt::Reply;
use engine::limits::{
    FRAME_BYTES_MAX, HEAVY_CONNECTIONS_FIRST, HEAVY_CONNECTIONS_MAX, HEAVY_CONNECTIONS_MIN,
    HEAVY_REQUESTS_MAX, MIDDLING_REPLY_BYTES_MAX, SMALL_REPLY_BYTES_MAX,
};
use std::collections::VecDeque;
use wire::resp::{Pieces, Protocol, Size};

/// Memory that an item of a reply takes, in bytes.
const ITEM_BYTES: usize = size_of::<Reply>();

/// Replies of a connection that are not encoded yet, in order.
#[derive(Default)]
pub struct Replies {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    cost: usize,
    pushed: usize,
}

struct Waiting {
    pieces: Pieces,
    bytes: usize,
    cost: usize,
    pushed: usize,
}

impl Replies {
    /// Adds a reply. Returns the memory that it costs.
    pub fn push(&mut self, reply: Reply, protocol: Protocol, size: Size) -> usize {
        // Lines of `MONITOR` are such texts; other ones cannot take much, because their client waits.
        let unasked = matches!(reply, Reply::Push(_) | Reply::Status(_));
        let pushed = if unasked { size.bytes } else { 0 };
        // The strings are those of the records, and are freed with them unless the records change.
        let cost = size.items * ITEM_BYTES + size.bytes.min(FRAME_BYTES_MAX);
        let bytes = size.bytes;
        let pieces = Pieces::new(reply, protocol);
        self.waiting.push_back(Waiting { pieces, bytes, cost, pushed });
        self.bytes += bytes;
        self.cost += cost;
        self.pushed += pushed;
        cost
    }

    /// Encodes until `out` has about `until` bytes. Returns the memory that the encoded replies
    /// have cost.
    pub fn write(&mut self, until: usize, out: &mut Vec<u8>) -> usize {
        let mut freed = 0;
        while out.len() < until
            && let Some(first) = self.waiting.front_mut()
        {
            if !first.pieces.write(until, out) {
                break;
            }
            let Some(Waiting { bytes, cost, pushed, .. }) = self.waiting.pop_front() else { break };
            self.bytes -= bytes;
            self.cost -= cost;
            self.pushed -= pushed;
            freed += cost;
        }
        freed
    }

    /// Approximate size of the encoded replies. A partly encoded one counts in full.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of messages that the client has not asked for.
    pub fn pushed(&self) -> usize {
        self.pushed
    }

    /// Memory that all waiting replies cost.
    pub fn cost(&self) -> usize {
        self.cost
    }

    /// Whether no replies wait.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Limit on a connection's requests in progress whose replies may be large.
#[derive(Debug)]
pub struct Window {
    size: u32,
    open: u32,
    largest: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self { size: 1, open: 0, largest: 0 }
    }
}

impl Window {
    /// Counts a request whose reply may be large. Returns whether the window is now full.
    pub fn went(&mut self) -> bool {
        self.open += 1;
        self.is_full()
    }

    /// Records the size of a reply.
    pub fn saw(&mut self, bytes: usize) {
        self.largest = self.largest.max(bytes);
    }

    /// Whether requests are in progress.
    pub fn is_open(&self) -> bool {
        self.open > 0
    }

    /// Whether no further request may start until all are answered.
    pub fn is_full(&self) -> bool {
        self.open >= self.size
    }

    /// Adjusts the window after all requests are answered.
    pub fn turn_over(&mut self) {
        let small = self.largest <= SMALL_REPLY_BYTES_MAX;
        self.size = if small { (self.size * 2).min(HEAVY_REQUESTS_MAX) } else { 1 };
        (self.open, self.largest) = (0, 0);
    }
}

/// Connections of a worker with requests in progress whose replies may be large, and the limit on
/// them.
///
/// The cost of such requests is not known before they are answered. The limit is therefore low at
/// first, grows by one with each reply that turns out to be small, and drops after a large one.
pub struct Heavies {
    most: usize,
    largest: usize,
    /// Slots and numbers of the connections.
    pub connections: Vec<(usize, u64)>,
}

impl Default for Heavies {
    fn default() -> Self {
        Self { most: HEAVY_CONNECTIONS_FIRST, largest: 0, connections: Vec::new() }
    }
}

impl Heavies {
    /// Whether no further connection may have such requests.
    pub fn are_full(&self) -> bool {
        self.connections.len() >= self.most
    }

    /// Records the size of a reply.
    pub fn saw(&mut self, bytes: usize) {
        self.largest = self.largest.max(bytes);
    }

    /// Records that the requests of one connection are answered.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.largest) > MIDDLING_REPLY_BYTES_MAX {
            self.most = HEAVY_CONNECTIONS_MIN;
        } else {
            self.most = (self.most + 1).min(HEAVY_CONNECTIONS_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_replies_let_more_requests_go_ahead_and_a_large_one_a_single_one() {
        let mut window = Window::default();
        let fill = |window: &mut Window, bytes: usize| {
            let mut count = 1;
            while !window.went() {
                count += 1;
            }
            window.saw(bytes);
            window.turn_over();
            count
        };
        let counts: Vec<u32> = (0..4).map(|_| fill(&mut window, 100)).collect();
        assert_eq!(counts, [1, 2, 4, 8]);
        for _ in 0..10 {
            fill(&mut window, SMALL_REPLY_BYTES_MAX);
        }
        assert_eq!(fill(&mut window, SMALL_REPLY_BYTES_MAX + 1), HEAVY_REQUESTS_MAX);
        assert_eq!((fill(&mut window, 1), fill(&mut window, 1)), (1, 2));
    }

    #[test]
    fn few_connections_have_requests_under_way_after_a_large_reply() {
        let mut heavies = Heavies::default();
        let most = |heavies: &mut Heavies| {
            heavies.connections.clear();
            while !heavies.are_full() {
                heavies.connections.push((0, 0));
            }
            heavies.connections.len()
        };
        assert_eq!(most(&mut heavies), HEAVY_CONNECTIONS_FIRST);
        heavies.saw(MIDDLING_REPLY_BYTES_MAX + 1);
        heavies.settle();
        assert_eq!(most(&mut heavies), HEAVY_CONNECTIONS_MIN);
        heavies.saw(MIDDLING_REPLY_BYTES_MAX);
        heavies.settle();
        assert_eq!(most(&mut heavies), HEAVY_CONNECTIONS_MIN + 1);
        (0..1000).for_each(|_| heavies.settle());
        assert_eq!(most(&mut heavies), HEAVY_CONNECTIONS_MAX);
    }

    #[test]
    fn what_waits_is_counted_until_it_is_written() {
        let mut replies = Replies::default();
        let reply = Reply::Array(vec![Reply::bulk([b'x'; 1000]); 50]);
        let size = wire::resp::size(&reply);
        let mut whole = Vec::new();
        wire::resp::encode(&reply, Protocol::Resp2, &mut whole);
        let cost = replies.push(reply.clone(), Protocol::Resp2, size);
        replies.push(Reply::Push(vec![reply]), Protocol::Resp2, size);
        assert_eq!((replies.bytes(), replies.cost()), (2 * size.bytes, 2 * cost));
        assert_eq!(replies.pushed(), size.bytes);
        let mut out = Vec::new();
        assert_eq!(replies.write(10_000, &mut out), 0);
        assert!((10_000..10_100).contains(&out.len()) && replies.bytes() == 2 * size.bytes);
        assert_eq!(replies.write(whole.len(), &mut out), cost);
        assert_eq!((out, replies.cost()), (whole, cost));
        assert_eq!(replies.write(usize::MAX, &mut Vec::new()), cost);
        assert!(replies.is_empty() && replies.bytes() == 0 && replies.pushed() == 0);
    }
}
