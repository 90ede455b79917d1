//! State and choices of the auction site's clients: open auctions, closing times, and the bids of
//! each bidder.

use crate::load::random::{Rng, Zipf};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Exponent of the items' popularity.
const POPULARITY: f64 = 1.0;
/// Probability that a bidder bids again on an item it has bid on before.
const AGAIN: f64 = 0.8;
/// Growth of the eagerness to bid over an auction: a factor of e to this power.
const EAGERNESS: f64 = 5.5;
/// Items that a bidder remembers.
const REMEMBERED: usize = 8;

/// An item for sale.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Closing time of its auction, in nanoseconds of the clients' clock.
    pub closes_ns: u64,
    /// Category of the item.
    pub category: u64,
    /// Region of the item.
    pub region: u64,
}

/// All auctions.
#[derive(Clone, Debug)]
pub struct Auctions {
    /// Items by number, the most popular first.
    pub items: Vec<Item>,
    popularity: Zipf,
    longest_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    bidders: Vec<VecDeque<u64>>,
    categories: u64,
    regions: u64,
}

impl Auctions {
    /// Creates auctions that are already running at moment 0 and close evenly until `longest_ns`.
    pub fn new(items: u32, users: u64, (categories, regions): (u64, u64), longest_ns: u64) -> Self {
        Self {
            items: Vec::with_capacity(items as usize),
            popularity: Zipf::new(items as usize, POPULARITY),
            longest_ns,
            due: BinaryHeap::new(),
            bidders: vec![VecDeque::new(); users as usize],
            categories,
            regions,
        }
    }

    /// Draws an item for sale from `now_ns` on.
    pub fn draw(&self, now_ns: u64, rng: &mut Rng) -> Item {
        Item {
            closes_ns: now_ns + rng.below(self.longest_ns).max(1),
            category: rng.below(self.categories),
            region: rng.below(self.regions),
        }
    }

    /// Puts an item up for sale and returns its number.
    pub fn open(&mut self, item: Item) -> u64 {
        let number = self.items.len() as u64;
        self.items.push(item);
        self.due.push(Reverse((item.closes_ns, number)));
        number
    }

    /// Takes an item whose auction is due to close. Each item is returned only once.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let Reverse((closes_ns, _)) = self.due.peek()?;
        if *closes_ns > now_ns {
            return None;
        }
        self.due.pop().map(|Reverse((_, item))| item)
    }

    /// Draws an item by popularity.
    pub fn popular(&self, rng: &mut Rng) -> u64 {
        self.popularity.draw(rng).min(self.items.len() - 1) as u64
    }

    /// Chooses the item that a bidder bids on: mostly an item it has bid on before, with a
    /// probability that grows as the auction nears its end.
    pub fn wanted(&self, bidder: u64, now_ns: u64, rng: &mut Rng) -> u64 {
        let known = &self.bidders[bidder as usize];
        if known.is_empty() || !rng.chance(AGAIN) {
            return self.popular(rng);
        }
        let eager = |item: &u64| {
            let left_ns = self.items[*item as usize].closes_ns.saturating_sub(now_ns);
            (-EAGERNESS * left_ns as f64 / self.longest_ns as f64).exp()
        };
        let weights: Vec<f64> = known.iter().map(eager).collect();
        known[rng.weighted(&weights)]
    }

    /// Records that a bidder has bid on an item.
    pub fn remember(&mut self, bidder: u64, item: u64) {
        let known = &mut self.bidders[bidder as usize];
        if !known.contains(&item) {
            known.truncate(REMEMBERED - 1);
            known.push_front(item);
        }
    }

    /// Removes an item whose auction has ended from a bidder's list.
    pub fn forget(&mut self, bidder: u64, item: u64) {
        self.bidders[bidder as usize].retain(|known| *known != item);
    }

    /// Number of bidders.
    pub fn bidders(&self) -> u64 {
        self.bidders.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auctions_become_due_in_order() {
        let mut auctions = Auctions::new(10, 3, (4, 2), 1_000);
        let mut rng = Rng::new(1);
        for closes_ns in [300, 100, 200] {
            let item = auctions.draw(0, &mut rng);
            assert!(item.closes_ns <= 1_000 && item.category < 4 && item.region < 2);
            auctions.open(Item { closes_ns, ..item });
        }
        assert_eq!(auctions.take_due(50), None);
        assert_eq!(auctions.take_due(250), Some(1));
        assert_eq!(auctions.take_due(250), Some(2));
        assert_eq!(auctions.take_due(250), None);
        assert_eq!(auctions.take_due(300), Some(0));
    }

    #[test]
    fn bids_gather_at_the_end_of_auctions() {
        let mut auctions = Auctions::new(100, 1, (1, 1), 1_000);
        let mut rng = Rng::new(1);
        for closes_ns in [10, 1_000] {
            auctions.open(Item { closes_ns, category: 0, region: 0 });
        }
        (0..2).for_each(|item| auctions.remember(0, item));
        let bids = 10_000;
        let soon = (0..bids).filter(|_| auctions.wanted(0, 0, &mut rng) == 0).count();
        // Nearly all repeated bids go there, and of the other bids the share that popularity gives.
        assert!(soon > bids * 4 / 5, "{soon}");
        auctions.forget(0, 0);
        assert!((0..100).filter(|_| auctions.wanted(0, 0, &mut rng) == 1).count() > 60);
    }
}
