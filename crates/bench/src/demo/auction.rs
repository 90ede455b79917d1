//! The last minute of a popular auction, once with reader/writer locks, once with operations that
//! commute.
//!
//! All clients bid on one item and view it. A bid must not be accepted once the auction is closed,
//! and the price shown must be the highest accepted bid, so each of these actions is a transaction.
//! Offering a bid to "the ten best" commutes with every other offer, and so does counting.

use super::{DemoArgs, SLICE_NS, bar, table};
use crate::load::driver::Driver;
use crate::load::random::Rng;
use crate::load::recorder::Recorder;
use crate::load::runner::{Api, Retry, Runner};
use crate::load::workload::{Ops, Shape, Workload};
use crate::servers::control::Control;
use crate::servers::process::{ClaretOptions, Server};
use indicatif::{MultiProgress, ProgressBar};
use std::io::{self, Write};
use std::path::Path;
use wire::resp::ClientReply;

/// Share of transactions that bid; the others view.
const BIDS: f64 = 0.6;
const PEOPLE: u64 = 1_000;
/// Closing time of the auction, as a fraction of the duration.
const CLOSING: f64 = 0.96;
/// Longest time after the end until the store and the clients agree.
const SETTLE_NS: u64 = 10_000_000_000;
const ITEM: u64 = 1;

#[derive(Clone, Copy, Debug)]
enum Deed {
    Bid { person: u64, price: u64 },
    Look,
    Close,
}

/// A transaction of the story.
#[derive(Clone, Copy, Debug)]
struct Transaction {
    deed: Deed,
    phase: u8,
    refused: bool,
}

/// The auction as its clients know it.
struct Auction {
    /// Time at which a client closes the auction; `None` once that is done.
    closes_ns: Option<u64>,
    price: u64,
    accepted: u64,
    refused: u64,
    highest: u64,
}

impl Workload for Auction {
    type Txn = Transaction;
    const LOOKS: bool = true;

    fn kinds(&self) -> &'static [&'static str] {
        &["bid", "look", "close"]
    }

    fn begin(&mut self, _client: usize, now_ns: u64, rng: &mut Rng) -> Transaction {
        let deed = if self.closes_ns.is_some_and(|closes_ns| now_ns >= closes_ns) {
            self.closes_ns = None;
            Deed::Close
        } else if rng.chance(BIDS) {
            self.price += 1;
            Deed::Bid { person: rng.below(PEOPLE), price: self.price }
        } else {
            Deed::Look
        };
        Transaction { deed, phase: 0, refused: false }
    }

    fn kind(&self, txn: &Transaction) -> usize {
        match txn.deed {
            Deed::Bid { .. } => 0,
            Deed::Look => 1,
            Deed::Close => 2,
        }
    }

    fn shape(&self, _txn: &Transaction) -> Shape {
        Shape::Updates
    }

    fn step(&mut self, txn: &mut Transaction, replies: &[ClientReply], ops: &mut Ops) -> bool {
        txn.phase += 1;
        match (txn.deed, txn.phase) {
            (Deed::Bid { .. }, 1) => {
                ops.read("EXISTS", ("closed:", ITEM), &[]);
            }
            (Deed::Bid { person, price }, 2) => {
                txn.refused = replies.first() != Some(&ClientReply::Int(0));
                if txn.refused {
                    return false;
                }
                let (name, price_text) = (format!("{price}:person{person}"), price.to_string());
                let best: [&[u8]; 2] = [name.as_bytes(), price_text.as_bytes()];
                ops.write("TOPK.PUT", ("best:", ITEM), &best);
                ops.write("COUNTER.ADD", ("bids:", ITEM), &[b"1"]);
                ops.write("SADD", ("bidson:", person), &[b"1"]);
            }
            (Deed::Look, 1) => {
                ops.read("HGETALL", ("item:", ITEM), &[]);
                ops.write("COUNTER.ADD", ("views:", ITEM), &[b"1"]);
                ops.read("TOPK.BEST", ("best:", ITEM), &[b"1", b"WITHSCORES"]);
            }
            (Deed::Close, 1) => {
                ops.read("TOPK.BEST", ("best:", ITEM), &[b"1", b"WITHSCORES"]);
                ops.write("SET", ("closed:", ITEM), &[b"1"]);
            }
            _ => return false,
        }
        true
    }

    fn restart(&mut self, txn: &mut Transaction) {
        txn.phase = 0;
    }

    fn committed(&mut self, _client: usize, txn: Transaction, _now_ns: u64, _rng: &mut Rng) {
        match txn.deed {
            Deed::Bid { .. } if txn.refused => self.refused += 1,
            Deed::Bid { price, .. } => {
                self.accepted += 1;
                self.highest = self.highest.max(price);
            }
            _ => {}
        }
    }
}

/// Result of one side.
struct Outcome {
    title: &'static str,
    accepted: u64,
    refused: u64,
    looks: u64,
    aborts: u64,
    p50_ms: f64,
    p99_ms: f64,
    seconds: f64,
    /// Winner according to the store.
    winner: String,
    /// Whether the store has exactly the accepted bids, and the right winner.
    right: bool,
}

const SIDES: [(&str, &str); 2] =
    [("rw+phase", "readers and writers"), ("full", "operations that commute")];

fn play(
    server: &Server,
    title: &'static str,
    api: Api,
    args: &DemoArgs,
    bar: &ProgressBar,
) -> io::Result<Outcome> {
    let mut control = Control::connect(server.address())?;
    control.call(&["HSET", "item:1", "name", "a red bicycle", "closes", "in a minute"])?;
    let clients = args.clients as usize;
    let rtt_ns = args.rtt.as_nanos() as u64;
    let mut driver =
        Driver::connect(&server.addresses(), clients, rtt_ns).map_err(io::Error::other)?;
    let from_ns = driver.now_ns();
    let total_ns = (args.seconds * 1e9) as u64;
    let closes_ns = from_ns + (args.seconds * CLOSING * 1e9) as u64;
    let (accepted, refused) = (0, 0);
    let mut auction =
        Auction { closes_ns: Some(closes_ns), price: 0, accepted, refused, highest: 0 };
    let recorder = Recorder::new(3, from_ns);
    let mut runner = Runner::new(&mut auction, api, Retry::PATIENT, clients, 1, recorder);
    let mut slice_ns = from_ns;
    while slice_ns < from_ns + total_ns {
        let before = runner.recorder.commits();
        slice_ns += SLICE_NS;
        driver.run(&mut runner, slice_ns).map_err(io::Error::other)?;
        let minute = 60.0 * (slice_ns - from_ns) as f64 / (total_ns as f64 * CLOSING);
        bar.set_position(minute as u64);
        let rate = (runner.recorder.commits() - before) as f64 * 1e9 / SLICE_NS as f64;
        bar.set_message(format!(
            "{:2.0} s   {:7} bids   {rate:7.0} transactions/s   {:6} retries",
            (60.0 - minute).max(0.0),
            runner.recorder.committed[0],
            runner.recorder.aborts(),
        ));
    }
    // Bids that were under way at the closing are answered some time after it, which is long on a
    // busy machine. From then on every bid is refused, and the clients know what the store holds.
    let settled_ns = slice_ns + SETTLE_NS;
    let (winner, right) = loop {
        let (count, winner) = result(&mut control)?;
        let price = winner.split(':').next().and_then(|price| price.parse::<u64>().ok());
        let (auction, closed) = (runner.workload(), runner.recorder.committed[2] == 1);
        let right = closed && count == auction.accepted && price.unwrap_or(0) == auction.highest;
        if right || slice_ns >= settled_ns {
            break (winner, right);
        }
        slice_ns += SLICE_NS;
        driver.run(&mut runner, slice_ns).map_err(io::Error::other)?;
    };
    let seconds = (driver.now_ns() - from_ns) as f64 / 1e9;
    let recorder = runner.recorder;
    let ms = |quantile: f64| recorder.latency.value_at_quantile(quantile) as f64 / 1e6;
    bar.finish();
    Ok(Outcome {
        title,
        accepted: auction.accepted,
        refused: auction.refused,
        looks: recorder.committed[1],
        aborts: recorder.aborts(),
        p50_ms: ms(0.5),
        p99_ms: ms(0.99),
        seconds,
        winner,
        right,
    })
}

/// Number of bids and winning bid, according to the store.
fn result(control: &mut Control) -> io::Result<(u64, String)> {
    let count = match control.call(&["COUNTER.GET", "bids:1"])? {
        ClientReply::Int(count) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    };
    let winner = match control.call(&["TOPK.BEST", "best:1", "1"])? {
        ClientReply::Array(items) => match items.first() {
            Some(ClientReply::Bulk(name)) => String::from_utf8_lossy(name).into_owned(),
            _ => String::new(),
        },
        _ => String::new(),
    };
    Ok((count, winner))
}

/// Runs the story and writes it to `out`. Returns the server of the second side.
///
/// # Errors
/// A server cannot be started or fails, the store contradicts the replies that its clients got, or
/// there was a signal.
pub fn tell(args: &DemoArgs, program: &Path, out: &mut impl Write) -> io::Result<Server> {
    writeln!(
        out,
        "The last minute of a popular auction, in {:.0} seconds: {} clients bid and view, {} us away, on \
         Claret with and without operations that commute.\n",
        args.seconds,
        args.clients,
        args.rtt.as_micros()
    )?;
    out.flush()?;
    let bars = MultiProgress::new();
    let lines = SIDES.map(|(_, title)| bar(&bars, title, 60, "closes in "));
    let mut outcomes = Vec::new();
    let mut last = None;
    for ((cc, title), line) in SIDES.into_iter().zip(&lines) {
        drop(last.take());
        let options = ClaretOptions {
            program: program.to_owned(),
            cc: cc.to_owned(),
            shards: 2,
            workers: 1,
            replicas: 1,
            durability: "always".to_owned(),
        };
        let server = Server::claret(&options, &std::env::temp_dir())?;
        let (api, _) = crate::conditions::manner(cc);
        outcomes.push(play(&server, title, api, args, line)?);
        last = Some(server);
    }
    write!(out, "{}", compare(&outcomes))?;
    if let Some(wrong) = outcomes.iter().find(|outcome| !outcome.right) {
        let text =
            format!("{}: the store contradicts the replies that its clients got", wrong.title);
        return Err(io::Error::other(text));
    }
    last.ok_or_else(|| io::Error::other("there is no result of the second side"))
}

fn compare(outcomes: &[Outcome]) -> String {
    let cells = |cell: fn(&Outcome) -> String| outcomes.iter().map(cell).collect::<Vec<_>>();
    let mut text = table(&[
        ("", cells(|o| o.title.to_owned())),
        ("bids accepted per second", cells(|o| format!("{:.0}", o.accepted as f64 / o.seconds))),
        ("views per second", cells(|o| format!("{:.0}", o.looks as f64 / o.seconds))),
        ("median latency", cells(|o| format!("{:.1} ms", o.p50_ms))),
        ("99th percentile", cells(|o| format!("{:.1} ms", o.p99_ms))),
        ("retries", cells(|o| o.aborts.to_string())),
        ("bids refused after closing", cells(|o| o.refused.to_string())),
        ("winning bid", cells(|o| o.winner.clone())),
    ]);
    if let [before, after] = outcomes {
        let times = after.accepted as f64 / before.accepted.max(1) as f64;
        text.push_str(&format!(
            "\nSame transactions, same guarantees, same disk: {times:.1} times as many bids.\n"
        ));
        if before.right && after.right {
            text.push_str(
                "Both stores hold exactly the bids that they accepted, and the right winner.\n",
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bid_looks_first_and_the_closing_comes_once() {
        let (accepted, refused) = (0, 0);
        let mut auction = Auction { closes_ns: Some(10), price: 0, accepted, refused, highest: 0 };
        let mut rng = Rng::new(1);
        assert!(!matches!(auction.begin(0, 9, &mut rng).deed, Deed::Close));
        assert!(matches!(auction.begin(0, 10, &mut rng).deed, Deed::Close));
        assert!(!matches!(auction.begin(0, 11, &mut rng).deed, Deed::Close));
        for (closed, writes) in [(0, 3), (1, 0)] {
            let deed = Deed::Bid { person: 1, price: 5 };
            let mut txn = Transaction { deed, phase: 0, refused: false };
            let mut ops = Ops::default();
            assert!(auction.step(&mut txn, &[], &mut ops));
            ops.clear();
            assert_eq!(auction.step(&mut txn, &[ClientReply::Int(closed)], &mut ops), closed == 0);
            assert_eq!(ops.list.len(), writes);
            auction.committed(0, txn, 0, &mut rng);
        }
        assert_eq!((auction.accepted, auction.refused, auction.highest), (1, 1, 5));
    }
}
