//! Bids that clients know to be taken, beside what the auctions say at the end of a run.

use super::tasks::Program;
use crate::servers::control::Control;
use std::io;
use wire::resp::ClientReply;

/// Bids of one side, in all auctions together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Number of bids.
    pub bids: u64,
    /// Highest amount; 0 without bids.
    pub best: u64,
}

impl Answer {
    /// Adds a bid of this amount.
    pub fn bid(&mut self, amount: u64) {
        self.add(Self { bids: 1, best: amount });
    }

    /// Adds other bids.
    pub fn add(&mut self, other: Self) {
        self.bids += other.bids;
        self.best = self.best.max(other.best);
    }

    /// Compares the bids that clients know to be taken with those of the auctions. At most
    /// `unanswered` further bids may have been taken: they were on their way when the run ended.
    ///
    /// # Errors
    /// A bid is missing, or there is one too many.
    pub fn check(self, auctions: Self, unanswered: u64) -> io::Result<()> {
        let further = auctions.bids.checked_sub(self.bids);
        let is_best = match further {
            Some(0) => auctions.best == self.best,
            _ => auctions.best >= self.best,
        };
        if is_best && further.is_some_and(|bids| bids <= unanswered) {
            return Ok(());
        }
        let Self { bids, best } = self;
        Err(io::Error::other(format!(
            "wrong answer: the auctions have {} bids up to {}; {bids} bids up to {best} were taken, \
             and at most {unanswered} more",
            auctions.bids, auctions.best
        )))
    }
}

/// Bids in auctions that a program has kept over the Redis protocol.
///
/// # Errors
/// The server fails, or answers something else than a number.
pub fn read(control: &mut Control, program: Program, records: u32) -> io::Result<Answer> {
    let mut answer = Answer::default();
    for record in 0..u64::from(records) {
        let [best, bids] = program.questions(record).map(|words| {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let reply = control.call(&words)?;
            amount(&reply).ok_or_else(|| io::Error::other(format!("{words:?}: {reply:?}")))
        });
        answer.add(Answer { bids: bids?, best: best? });
    }
    Ok(answer)
}

/// Number in a reply, or the last of several; 0 if there is none.
fn amount(reply: &ClientReply) -> Option<u64> {
    match reply {
        ClientReply::Nil => Some(0),
        ClientReply::Int(number) => u64::try_from(*number).ok(),
        ClientReply::Bulk(digits) => std::str::from_utf8(digits).ok()?.parse().ok(),
        ClientReply::Array(items) => items.last().map_or(Some(0), amount),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_bid_is_a_wrong_answer() {
        let mut taken = Answer::default();
        [70, 90, 80].into_iter().for_each(|amount| taken.bid(amount));
        let of = |bids, best| Answer { bids, best };
        assert_eq!(taken, of(3, 90));
        assert!(taken.check(of(3, 90), 0).is_ok());
        assert!(taken.check(of(5, 95), 2).is_ok(), "two were on their way");
        assert!(taken.check(of(3, 95), 2).is_err(), "a bid that was not counted");
        for (bids, best) in [(2, 90), (3, 80), (5, 80), (6, 90)] {
            let error = taken.check(of(bids, best), 2).expect_err("wrong");
            assert!(error.to_string().contains(&format!("have {bids} bids up to {best}")));
        }
    }

    #[test]
    fn replies_are_read_as_numbers() {
        let bulk = |text: &'static str| ClientReply::Bulk(text.as_bytes().into());
        let pair = ClientReply::Array(vec![bulk("ann"), bulk("12")]);
        let replies = [ClientReply::Nil, ClientReply::Int(7), bulk("9"), pair];
        assert_eq!(replies.each_ref().map(amount), [Some(0), Some(7), Some(9), Some(12)]);
        assert_eq!(amount(&bulk("ann")), None);
    }
}
