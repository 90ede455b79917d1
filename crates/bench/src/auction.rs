//! What the clients of the auction site know and choose: which auctions are open, when they close,
//! who has bid on what.

use crate::random::{Rng, Zipf};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Exponent of the items' popularity.
const POPULARITY: f64 = 1.0;
/// How often a bidder bids again on something it has bid on.
const AGAIN: f64 = 0.8;
/// How the eagerness to bid grows over an auction: by e to this power.
const EAGERNESS: f64 = 5.5;
/// Items that a bidder keeps in mind.
const REMEMBERED: usize = 8;

/// An item for sale.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// When its auction is due to close, in nanoseconds of the clients' clock.
    pub closes_ns: u64,
    /// Its category.
    pub category: u64,
    /// Its region.
    pub region: u64,
}

/// All auctions.
#[derive(Clone, Debug)]
pub struct Auctions {
    /// Items by number; the most popular come first.
    pub items: Vec<Item>,
    popularity: Zipf,
    longest_ns: u64,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    bidders: Vec<VecDeque<u64>>,
    categories: u64,
    regions: u64,
}

impl Auctions {
    /// Auctions that are already running at moment 0 and close evenly until `longest_ns`.
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

    /// The item is for sale; its number.
    pub fn open(&mut self, item: Item) -> u64 {
        let number = self.items.len() as u64;
        self.items.push(item);
        self.due.push(Reverse((item.closes_ns, number)));
        number
    }

    /// An item whose auction is due to close. It is not told again.
    pub fn take_due(&mut self, now_ns: u64) -> Option<u64> {
        let Reverse((closes_ns, _)) = self.due.peek()?;
        if *closes_ns > now_ns {
            return None;
        }
        self.due.pop().map(|Reverse((_, item))| item)
    }

    /// An item by popularity.
    pub fn popular(&self, rng: &mut Rng) -> u64 {
        self.popularity.draw(rng).min(self.items.len() - 1) as u64
    }

    /// What a bidder bids on: mostly something it has bid on before, the likelier the sooner that
    /// closes.
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

    /// A bidder has bid on an item.
    pub fn remember(&mut self, bidder: u64, item: u64) {
        let known = &mut self.bidders[bidder as usize];
        if !known.contains(&item) {
            known.truncate(REMEMBERED - 1);
            known.push_front(item);
        }
    }

    /// A bidder has learnt that an auction is over.
    pub fn forget(&mut self, bidder: u64, item: u64) {
        self.bidders[bidder as usize].retain(|known| *known != item);
    }

    /// How many bidders there are.
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
        // Of the bids that are repeated nearly all; of the others those that popularity sends.
        assert!(soon > bids * 4 / 5, "{soon}");
        auctions.forget(0, 0);
        assert!((0..100).filter(|_| auctions.wanted(0, 0, &mut rng) == 1).count() > 60);
    }
}
