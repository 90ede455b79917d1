//! Bids in auctions, as a newcomer writes them for etcd: read the record, then put the new one if it
//! has not been changed since, and begin again if it has.

use crate::load::{Shared, connect, measure, told};
use crate::messages::{Compare, Part, PutRequest, TxnRequest};
use crate::rpc::Connection;
use bench::hot::answer::Answer;
use bench::hot::tasks::{KINDS, Task};
use bench::hot::{Run, WARMUP_NS};
use bench::load::random::Zipf;
use bench::load::sample::Load;
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::task::JoinSet;

/// An auction, kept as JSON under one key.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Auction {
    best: u64,
    bidder: usize,
    bids: u64,
    closed: bool,
}

impl Auction {
    /// Takes a bid; returns whether the auction is open.
    fn bid(&mut self, amount: u64, bidder: usize) -> bool {
        if self.closed {
            return false;
        }
        if amount > self.best {
            (self.best, self.bidder) = (amount, bidder);
        }
        self.bids += 1;
        true
    }
}

fn key(record: usize) -> Vec<u8> {
    format!("auction:{record}").into_bytes()
}

/// Reads an auction; returns it with its revision.
async fn read(connection: &mut Connection, record: usize) -> Result<(Auction, i64), String> {
    let pair = connection.get(key(record)).await.map_err(told)?;
    let pair = pair.ok_or_else(|| format!("auction {record} is missing"))?;
    let auction = serde_json::from_slice(&pair.value).map_err(|error| error.to_string())?;
    Ok((auction, pair.modified))
}

fn json(auction: &Auction) -> Result<Vec<u8>, String> {
    serde_json::to_vec(auction).map_err(|error| error.to_string())
}

/// State that all bidders share.
struct House {
    shared: Shared,
    popularity: Zipf,
    /// Bids that were taken.
    answer: RefCell<Answer>,
    /// Whether the bidders leave after the bid that they are at.
    closing: Cell<bool>,
}

impl House {
    /// Bids until the house closes.
    async fn visit(&self, mut connection: Connection, bidder: usize) -> Result<(), String> {
        while !self.closing.get() {
            let (record, amount) = {
                let mut rng = self.shared.rng.borrow_mut();
                (self.popularity.draw(&mut rng), rng.below(Task::Auction.jobs()))
            };
            let started_ns = self.shared.now_ns();
            let taken = loop {
                let tried = attempt(&mut connection, record, amount, bidder).await?;
                if let Some(taken) = tried {
                    break taken;
                }
                self.shared.recorder.borrow_mut().abort(0, self.shared.now_ns());
            };
            if taken {
                self.answer.borrow_mut().bid(amount);
            }
            let kind = usize::from(!taken);
            self.shared.recorder.borrow_mut().commit(kind, started_ns, self.shared.now_ns());
        }
        Ok(())
    }
}

/// One attempt to bid: whether the bid was taken; `None` if another one came between.
async fn attempt(
    connection: &mut Connection,
    record: usize,
    amount: u64,
    bidder: usize,
) -> Result<Option<bool>, String> {
    let (mut auction, revision) = read(connection, record).await?;
    if !auction.bid(amount, bidder) {
        return Ok(Some(false));
    }
    let put = PutRequest { key: key(record), value: json(&auction)?, lease: 0 };
    let compare = vec![Compare::unchanged(key(record), revision)];
    let then = vec![Part { range: None, put: Some(put) }];
    let request = TxnRequest { compare, then, otherwise: Vec::new() };
    let done = connection.call(request).await.map_err(told)?;
    Ok(done.succeeded.then_some(true))
}

/// Opens the connections, creates the auctions, lets all clients bid, and checks that the auctions
/// have their bids.
///
/// # Errors
/// The member cannot be reached, or the auctions have not the bids that were taken, and no others.
pub async fn run(
    load: &Load<'_>,
    machine: SocketAddr,
    records: usize,
    exponent: f64,
    processes: &[u32],
) -> Result<Run, String> {
    let mut own = Connection::open(machine).await?;
    for record in 0..records {
        own.put(key(record), json(&Auction::default())?).await.map_err(told)?;
    }
    let house = Rc::new(House {
        shared: Shared::new(load.seed, KINDS.len()),
        popularity: Zipf::new(records, exponent),
        answer: RefCell::default(),
        closing: Cell::new(false),
    });
    let mut bidders = JoinSet::new();
    for (number, connection) in connect(load, &[machine]).await?.into_iter().enumerate() {
        let house = Rc::clone(&house);
        bidders.spawn_local(async move { house.visit(connection, number).await });
    }
    let (recorder, elapsed_ns, costs) =
        measure(&house.shared, &mut bidders, WARMUP_NS, load.seconds, processes).await?;
    house.closing.set(true);
    while let Some(left) = bidders.join_next().await {
        left.map_err(|error| error.to_string())??;
    }
    let mut found = Answer::default();
    for record in 0..records {
        let (Auction { bids, best, .. }, _) = read(&mut own, record).await?;
        found.add(Answer { bids, best });
    }
    house.answer.borrow().check(found, 0).map_err(|error| error.to_string())?;
    Ok(Run::new(&recorder, elapsed_ns, costs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bid_is_counted_and_the_best_one_kept() {
        let mut auction = Auction::default();
        assert!(auction.bid(30, 1) && auction.bid(50, 2) && auction.bid(40, 3));
        assert_eq!((auction.best, auction.bidder, auction.bids), (50, 2, 3));
        auction.closed = true;
        assert!(!auction.bid(60, 4));
        let kept = String::from_utf8(json(&auction).expect("plain data")).expect("text");
        assert_eq!(kept, r#"{"best":50,"bidder":2,"bids":3,"closed":true}"#);
    }
}
