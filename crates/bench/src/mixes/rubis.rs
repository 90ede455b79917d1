//! RUBiS, an auction site: most bids come shortly before an auction closes, and a bid on a closed
//! auction must be refused.
//!
//! Records: `user:u`, `item:i`, `bid:b`, `comment:x` hashes; `category:c`, `region:r` and
//! `auctions:0` sorted sets of open items by closing time; `closed:i` a flag; `itembids:i` the
//! highest bids; `userbids:u` a set; `usercomments:u` a sorted set; `rating:u` a summary;
//! `views:i` a counter.
//!
//! With `--types`, `item:i` is a value of a composed type that has `closed:i`, `itembids:i` and `views:i` as
//! parts.

use super::auction::{Auctions, Item};
use crate::args::RubisArgs;
use crate::conditions;
use crate::load::random::{Rng, Zipf};
use crate::load::workload::{Ops, Shape, Workload};
use crate::report::{Report, fields};
use crate::servers::control::Control;
use serde_json::Value;
use std::io;
use std::path::Path;
use wire::resp::ClientReply;

const USERS: u64 = 5_000;
const CATEGORIES: u64 = 40;
const REGIONS: u64 = 62;
/// Exclusive upper bound of the number of initial bids on an item, which is drawn by zipf.
const BIDS_BEFORE: usize = 20;
const BIDS_BEFORE_EXPONENT: f64 = 1.2;
/// Share of searches that are by category; the others are by region.
const BY_CATEGORY: f64 = 0.9;
/// Type of an item, with the operations that users need.
const ITEM: &str = "\
type rubis_item
part about hash
part bids topk
part closed string
part views counter

op open name closes category region
  hset about name $name closes $closes category $category region $region

op seen
  counter.add views 1

op show
  return hgetall about
  return topk.count bids
  return topk.best bids 1 withscores

op ask
  require exists closed = 0 else 0
  return hgetall about

op bid bid price:number
  require exists closed = 0 else 0
  topk.put bids $bid $price

op result
  return hgetall about
  return topk.best bids 1

op close
  set closed 1
";

/// Items on a page of search results.
const PAGE: &[u8] = b"25";

/// Weights of the users' actions, in the order of [`KINDS`]. Every bid is preceded by a view of the
/// same item, as a transaction of its own.
const BID_HEAVY: [f64; 8] = [0.5, 2.0, 1.0, 1.0, 86.0, 4.5, 3.0, 2.0];
const READ_HEAVY: [f64; 8] = [0.36, 1.44, 2.05, 2.05, 10.4, 42.8, 28.5, 2.06];

const KINDS: [&str; 8] =
    ["new_user", "view_user", "open", "close", "bid", "browse", "view", "comment"];

#[derive(Clone, Copy, Debug)]
enum Deed {
    NewUser { user: u64 },
    ViewUser { user: u64 },
    Open { number: u64, item: Item },
    Close { number: u64, item: Item },
    Bid { number: u64, bidder: u64, bid: u64, price: u64 },
    Browse { by_category: bool, place: u64, now_ns: u64 },
    View { number: u64 },
    Comment { number: u64, item: Item, comment: u64, user: u64, rating: u64 },
}

/// A transaction of the auction site.
#[derive(Clone, Copy, Debug)]
pub struct Transaction {
    deed: Deed,
    phase: u8,
    /// Whether the auction was closed before the bid arrived.
    refused: bool,
}

impl From<Deed> for Transaction {
    fn from(deed: Deed) -> Self {
        Self { deed, phase: 0, refused: false }
    }
}

/// The auction site as far as the clients know it.
#[derive(Clone, Debug)]
pub struct Rubis {
    weights: [f64; 8],
    /// Whether items are of a composed type.
    typed: bool,
    auctions: Auctions,
    users: u64,
    bids: u64,
    comments: u64,
    /// Next transaction of each client, after the view that precedes it.
    next: Vec<Option<Transaction>>,
}

fn key_number(number: u64) -> String {
    number.to_string()
}

impl Rubis {
    /// Creates the site that the options describe, with an empty store.
    fn new(args: &RubisArgs) -> Self {
        let longest_ns = (args.auction_seconds * 1e9) as u64;
        Self {
            weights: if args.mix == "read-heavy" { READ_HEAVY } else { BID_HEAVY },
            typed: args.types,
            auctions: Auctions::new(args.items, USERS, (CATEGORIES, REGIONS), longest_ns),
            users: USERS,
            bids: 0,
            comments: 0,
            next: Vec::new(),
        }
    }

    /// Empties the server, and creates the users and the items with some bids.
    ///
    /// # Errors
    /// The server fails.
    fn load(args: &RubisArgs, control: &mut Control) -> io::Result<Self> {
        let mut site = Self::new(args);
        control.call(&["FLUSHALL"])?;
        if site.typed {
            control.call(&["TYPE.DEFINE", "rubis_item", ITEM])?;
        }
        let mut rng = Rng::new(args.common.seed);
        let bids_before = Zipf::new(BIDS_BEFORE, BIDS_BEFORE_EXPONENT);
        let mut ops = Ops::default();
        (0..USERS).for_each(|user| push_user(&mut ops, user));
        for _ in 0..args.items {
            let item = site.auctions.draw(0, &mut rng);
            let number = site.auctions.open(item);
            push_item(&mut ops, number, &item, site.typed);
            let mut words = Vec::new();
            for price in 0..bids_before.draw(&mut rng) {
                words.extend([key_number(site.bids), (price + 1).to_string()]);
                site.bids += 1;
            }
            let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
            if site.typed {
                words.chunks(2).for_each(|bid| ops.write("rubis_item.bid", ("item:", number), bid));
            } else if !words.is_empty() {
                ops.write("TOPK.PUT", ("itembids:", number), &words);
            }
        }
        control.load((0..ops.list.len()).map(|index| ops.command(index).to_vec()))?;
        Ok(site)
    }

    /// Chooses a user's next action.
    fn choose(&mut self, client: usize, now_ns: u64, rng: &mut Rng) -> Deed {
        match rng.weighted(&self.weights) {
            0 => {
                self.users += 1;
                Deed::NewUser { user: self.users - 1 }
            }
            1 => Deed::ViewUser { user: rng.below(USERS) },
            3 => match self.auctions.take_due(now_ns) {
                Some(number) => Deed::Close { number, item: self.auctions.items[number as usize] },
                None => self.opening(now_ns, rng),
            },
            2 => self.opening(now_ns, rng),
            4 => {
                let bidder = rng.below(self.auctions.bidders());
                let number = self.auctions.wanted(bidder, now_ns, rng);
                self.bids += 1;
                let price = self.bids;
                let bid = Deed::Bid { number, bidder, bid: self.bids, price };
                if self.next.len() <= client {
                    self.next.resize(client + 1, None);
                }
                self.next[client] = Some(bid.into());
                Deed::View { number }
            }
            5 => {
                let by_category = rng.chance(BY_CATEGORY);
                let place = rng.below(if by_category { CATEGORIES } else { REGIONS });
                Deed::Browse { by_category, place, now_ns }
            }
            6 => Deed::View { number: self.auctions.popular(rng) },
            _ => {
                self.comments += 1;
                let number = self.auctions.popular(rng);
                Deed::Comment {
                    number,
                    item: self.auctions.items[number as usize],
                    comment: self.comments,
                    user: rng.below(USERS),
                    rating: rng.below(5) + 1,
                }
            }
        }
    }

    fn opening(&mut self, now_ns: u64, rng: &mut Rng) -> Deed {
        let item = self.auctions.draw(now_ns, rng);
        // The number is taken now, so that no two clients open the same item.
        Deed::Open { number: self.auctions.open(item), item }
    }
}

fn push_user(ops: &mut Ops, user: u64) {
    let name = format!("user{user}");
    ops.write("HSET", ("user:", user), &[b"name", name.as_bytes(), b"region", b"7"]);
}

fn push_item(ops: &mut Ops, number: u64, item: &Item, typed: bool) {
    let id = key_number(number);
    let (closes, category, region) =
        (item.closes_ns.to_string(), item.category.to_string(), item.region.to_string());
    let fields: [&[u8]; 8] = [
        b"name",
        id.as_bytes(),
        b"closes",
        closes.as_bytes(),
        b"category",
        category.as_bytes(),
        b"region",
        region.as_bytes(),
    ];
    if typed {
        let values = [fields[1], fields[3], fields[5], fields[7]];
        ops.write("rubis_item.open", ("item:", number), &values);
    } else {
        ops.write("HSET", ("item:", number), &fields);
    }
    for key in [("category:", item.category), ("region:", item.region), ("auctions:", 0)] {
        ops.write("ZADD", key, &[closes.as_bytes(), id.as_bytes()]);
    }
}

fn push_bid(ops: &mut Ops, number: u64, (bidder, bid, price): (u64, u64, u64), typed: bool) {
    let (bid_id, item, price) = (key_number(bid), key_number(number), price.to_string());
    let bidder_id = key_number(bidder);
    let fields: [&[u8]; 6] =
        [b"item", item.as_bytes(), b"user", bidder_id.as_bytes(), b"price", price.as_bytes()];
    ops.write("HSET", ("bid:", bid), &fields);
    let words: [&[u8]; 2] = [bid_id.as_bytes(), price.as_bytes()];
    if typed {
        ops.write("rubis_item.bid", ("item:", number), &words);
    } else {
        ops.write("TOPK.PUT", ("itembids:", number), &words);
    }
    ops.write("SADD", ("userbids:", bidder), &[bid_id.as_bytes()]);
}

fn push_close(ops: &mut Ops, number: u64, item: &Item, typed: bool) {
    let id = key_number(number);
    if typed {
        ops.write("rubis_item.close", ("item:", number), &[]);
    } else {
        ops.write("SET", ("closed:", number), &[b"1"]);
    }
    for key in [("category:", item.category), ("region:", item.region), ("auctions:", 0)] {
        ops.write("ZREM", key, &[id.as_bytes()]);
    }
}

/// Adds what is read of an item: by an operation of its type, or by commands on the records that it consists
/// of.
fn read_item(ops: &mut Ops, number: u64, typed: Option<&str>, commands: &[(&str, &str, &[&[u8]])]) {
    match typed {
        Some(operation) => ops.read(operation, ("item:", number), &[]),
        None => commands.iter().for_each(|(name, key, words)| ops.read(name, (key, number), words)),
    }
}

/// Adds the first step of a transaction.
fn push_first(ops: &mut Ops, deed: &Deed, typed: bool) {
    let by = |operation: &'static str| typed.then_some(operation);
    match *deed {
        Deed::NewUser { user } => push_user(ops, user),
        Deed::ViewUser { user } => {
            ops.read("HGETALL", ("user:", user), &[]);
            ops.read("BAG.STATS", ("rating:", user), &[]);
            ops.read("ZRANGE", ("usercomments:", user), &[b"0", b"9", b"REV"]);
        }
        Deed::Open { number, item } => push_item(ops, number, &item, typed),
        Deed::Close { number, item } => {
            let commands: [(&str, &str, &[&[u8]]); 2] =
                [("HGETALL", "item:", &[]), ("TOPK.BEST", "itembids:", &[b"1"])];
            read_item(ops, number, by("rubis_item.result"), &commands);
            push_close(ops, number, &item, typed);
        }
        Deed::Bid { number, .. } => {
            let commands: [(&str, &str, &[&[u8]]); 2] =
                [("EXISTS", "closed:", &[]), ("HGETALL", "item:", &[])];
            read_item(ops, number, by("rubis_item.ask"), &commands);
        }
        Deed::Browse { by_category, place, now_ns } => {
            let key = if by_category { ("category:", place) } else { ("region:", place) };
            let from = now_ns.to_string();
            let words: [&[u8]; 6] = [from.as_bytes(), b"+inf", b"BYSCORE", b"LIMIT", b"0", PAGE];
            ops.read("ZRANGE", key, &words);
        }
        Deed::View { number } if typed => {
            ops.read("rubis_item.show", ("item:", number), &[]);
            ops.write("rubis_item.seen", ("item:", number), &[]);
        }
        Deed::View { number } => {
            ops.read("HGETALL", ("item:", number), &[]);
            ops.write("COUNTER.ADD", ("views:", number), &[b"1"]);
            ops.read("TOPK.COUNT", ("itembids:", number), &[]);
        }
        Deed::Comment { number, item, comment, user, rating } => {
            let (id, on) = (key_number(comment), key_number(number));
            let rating = rating.to_string();
            let commands: [(&str, &str, &[&[u8]]); 1] = [("HGETALL", "item:", &[])];
            read_item(ops, number, by("rubis_item.show"), &commands);
            ops.read("ZSCORE", ("category:", item.category), &[on.as_bytes()]);
            let fields: [&[u8]; 4] = [b"item", on.as_bytes(), b"text", b"as described"];
            ops.write("HSET", ("comment:", comment), &fields);
            ops.write("ZADD", ("usercomments:", user), &[id.as_bytes(), id.as_bytes()]);
            ops.write("BAG.ADD", ("rating:", user), &[rating.as_bytes()]);
        }
    }
}

impl Workload for Rubis {
    type Txn = Transaction;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn begin(&mut self, client: usize, now_ns: u64, rng: &mut Rng) -> Transaction {
        let next = self.next.get_mut(client).and_then(Option::take);
        next.unwrap_or_else(|| self.choose(client, now_ns, rng).into())
    }

    fn kind(&self, txn: &Transaction) -> usize {
        match txn.deed {
            Deed::NewUser { .. } => 0,
            Deed::ViewUser { .. } => 1,
            Deed::Open { .. } => 2,
            Deed::Close { .. } => 3,
            Deed::Bid { .. } => 4,
            Deed::Browse { .. } => 5,
            Deed::View { .. } => 6,
            Deed::Comment { .. } => 7,
        }
    }

    fn shape(&self, txn: &Transaction) -> Shape {
        match txn.deed {
            Deed::NewUser { .. } | Deed::Browse { .. } => Shape::Single,
            Deed::ViewUser { .. } => Shape::Reads,
            _ => Shape::Updates,
        }
    }

    fn step(&mut self, txn: &mut Transaction, replies: &[ClientReply], ops: &mut Ops) -> bool {
        let phase = txn.phase;
        txn.phase += 1;
        match (&txn.deed, phase) {
            (deed, 0) => push_first(ops, deed, self.typed),
            (&Deed::Bid { number, bidder, bid, price }, 1) => {
                // The type answers 0 when the auction is over; without it, this is the reply of `EXISTS`.
                let is_zero = replies.first() == Some(&ClientReply::Int(0));
                txn.refused = is_zero == self.typed;
                if !txn.refused {
                    push_bid(ops, number, (bidder, bid, price), self.typed);
                }
                return !txn.refused;
            }
            (&Deed::View { .. }, 1) if self.typed => return false,
            (&Deed::View { number }, 1) if replies.last() != Some(&ClientReply::Int(0)) => {
                ops.read("TOPK.BEST", ("itembids:", number), &[b"1", b"WITHSCORES"]);
            }
            _ => return false,
        }
        true
    }

    fn restart(&mut self, txn: &mut Transaction) {
        txn.phase = 0;
    }

    fn committed(&mut self, _client: usize, txn: Transaction, _now_ns: u64, _rng: &mut Rng) {
        if let Deed::Bid { number, bidder, .. } = txn.deed {
            if txn.refused {
                self.auctions.forget(bidder, number);
            } else {
                self.auctions.remember(bidder, number);
            }
        }
    }
}

/// Runs the bench.
///
/// # Errors
/// A server cannot be started or fails.
pub fn run(args: &RubisArgs, program: &Path) -> io::Result<Report> {
    let fields = fields([
        ("workload", Value::from("rubis")),
        ("mix", Value::from(args.mix.as_str())),
        ("types", Value::from(args.types)),
        ("items", Value::from(args.items)),
        ("auction_seconds", Value::from(args.auction_seconds)),
    ]);
    conditions::run(&args.common, program, &fields, |control, _| Rubis::load(args, control))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Bench;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        bench: Bench,
    }

    fn site() -> Rubis {
        let line = Line::parse_from(["x", "rubis", "--items", "200"]);
        let Bench::Rubis(args) = line.bench else { panic!("rubis was asked for") };
        let mut site = Rubis::new(&args);
        let mut rng = Rng::new(1);
        for _ in 0..args.items {
            let item = site.auctions.draw(0, &mut rng);
            site.auctions.open(item);
        }
        site
    }

    #[test]
    fn the_weights_give_the_published_mix() {
        let (mut site, mut rng) = (site(), Rng::new(2));
        let mut counts = [0u32; 8];
        for _ in 0..50_000 {
            let txn = site.begin(0, 0, &mut rng);
            counts[site.kind(&txn)] += 1;
            site.committed(0, txn, 0, &mut rng);
        }
        let share =
            |kinds: &[usize]| kinds.iter().map(|k| f64::from(counts[*k])).sum::<f64>() / 50_000.0;
        assert!((share(&[5, 6]) - 0.52).abs() < 0.03, "{counts:?}");
        assert!((share(&[4]) - 0.45).abs() < 0.03, "{counts:?}");
        assert!((share(&[2, 3]) - 0.01).abs() < 0.005, "{counts:?}");
    }

    #[test]
    fn a_bid_follows_the_view_of_its_item_and_is_refused_when_the_auction_is_over() {
        let (mut site, mut rng) = (site(), Rng::new(3));
        site.weights = [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0];
        let view = site.begin(0, 0, &mut rng);
        let mut bid = site.begin(0, 0, &mut rng);
        let (Deed::View { number }, Deed::Bid { number: item, .. }) = (view.deed, bid.deed) else {
            panic!("{view:?} {bid:?}")
        };
        assert_eq!(number, item);
        let mut ops = Ops::default();
        assert!(site.step(&mut bid, &[], &mut ops));
        ops.clear();
        let hash = || ClientReply::Array(Vec::new());
        assert!(site.step(&mut bid, &[ClientReply::Int(0), hash()], &mut ops));
        assert_eq!(ops.list.len(), 3);
        site.restart(&mut bid);
        ops.clear();
        assert!(site.step(&mut bid, &[], &mut ops));
        ops.clear();
        assert!(!site.step(&mut bid, &[ClientReply::Int(1), hash()], &mut ops));
        assert!(bid.refused && ops.list.is_empty());
    }
    #[test]
    fn with_types_an_item_is_one_value_of_a_type_that_can_be_defined() {
        adt::kinds::composed::definition::Definition::parse(ITEM.as_bytes(), None).unwrap();
        let mut site = Rubis { typed: true, ..site() };
        let mut bid = Transaction::from(Deed::Bid { number: 1, bidder: 2, bid: 3, price: 4 });
        let mut ops = Ops::default();
        assert!(site.step(&mut bid, &[], &mut ops));
        assert_eq!(ops.list.len(), 1);
        ops.clear();
        let about = ClientReply::Array(Vec::new());
        assert!(site.step(&mut bid, &[about], &mut ops));
        assert_eq!(ops.list.len(), 3);
        site.restart(&mut bid);
        ops.clear();
        assert!(site.step(&mut bid, &[], &mut ops));
        assert!(!site.step(&mut bid, &[ClientReply::Int(0)], &mut ops) && bid.refused);
    }
}
