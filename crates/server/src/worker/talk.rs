//! What is counted about the clients of the coordination service, for those who watch over it.

use engine::coordination::survey::{Listed, Survey};
use engine::coordination::{SessionId, Zxid};
use engine::replication::Followers;
use std::net::SocketAddr;

/// Messages, and how long answers took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    /// Frames and four-letter words received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    answered: u64,
    total_us: u64,
    min_us: u64,
    max_us: u64,
}

impl Talk {
    /// A request was answered after so long.
    pub fn answer(&mut self, us: u64) {
        self.min_us = if self.answered == 0 { us } else { self.min_us.min(us) };
        self.max_us = self.max_us.max(us);
        self.total_us += us;
        self.answered += 1;
    }

    /// Adds what somebody else has counted.
    pub fn add(&mut self, other: &Self) {
        self.min_us = match (self.answered, other.answered) {
            (0, _) => other.min_us,
            (_, 0) => self.min_us,
            _ => self.min_us.min(other.min_us),
        };
        self.max_us = self.max_us.max(other.max_us);
        self.received += other.received;
        self.sent += other.sent;
        self.answered += other.answered;
        self.total_us += other.total_us;
    }

    /// The shortest time that an answer took, in milliseconds.
    pub fn min_ms(&self) -> u64 {
        self.min_us / 1000
    }

    /// The longest time that an answer took, in milliseconds.
    pub fn max_ms(&self) -> u64 {
        self.max_us / 1000
    }

    /// How long an answer took on average, in milliseconds.
    pub fn average_ms(&self) -> f64 {
        self.total_us as f64 / self.answered.max(1) as f64 / 1000.0
    }
}

/// A client's connection.
#[derive(Clone, Debug)]
pub struct Line {
    /// Where it comes from.
    pub address: SocketAddr,
    /// Whether more is read from it.
    pub reading: bool,
    /// Requests without an answer.
    pub outstanding: usize,
    /// What was counted.
    pub talk: Talk,
    /// Its session, if it has one.
    pub session: Option<OfSession>,
}

/// What there is to tell of a connection with a session.
#[derive(Clone, Copy, Debug)]
pub struct OfSession {
    /// Which.
    pub session: SessionId,
    /// It ends after so much silence, in milliseconds.
    pub timeout_ms: i32,
    /// When the connection was made, in milliseconds since 1970.
    pub since_ms: u64,
    /// What was answered last, in four letters.
    pub operation: &'static str,
    /// The number of that request.
    pub xid: i32,
    /// The number of the last change then.
    pub zxid: Zxid,
    /// When that was, in milliseconds of the monotonic clock.
    pub answered_ms: u64,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
}

/// What a worker has to tell in numbers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clients {
    /// Connections.
    pub connections: usize,
    /// Requests without an answer.
    pub outstanding: usize,
    /// What was counted, about connections that are gone as well.
    pub talk: Talk,
    /// What the replica of shard 0 can tell of the tree, if it is at this worker.
    pub survey: Option<Survey>,
    /// What those of other shards can, if the tree is spread.
    pub elsewhere: Survey,
    /// The other replicas of it, if that one leads.
    pub followers: Option<Followers>,
}

impl Clients {
    /// Adds what another worker has to tell.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.outstanding += other.outstanding;
        self.talk.add(&other.talk);
        self.survey = self.survey.or(other.survey);
        self.elsewhere.add(&other.elsewhere);
        self.followers = self.followers.or(other.followers);
    }

    /// What is known here of the whole tree; nothing without shard 0.
    pub fn tree(&self) -> Option<Survey> {
        let mut survey = self.survey?;
        survey.add(&self.elsewhere);
        Some(survey)
    }
}

/// The same, one by one.
#[derive(Debug, Default)]
pub struct Details {
    /// In numbers.
    pub clients: Clients,
    /// The connections.
    pub lines: Vec<Line>,
    /// The sessions, if they were asked for and the replica is here.
    pub listed: Option<Listed>,
    /// What sessions have at other shards, if the tree is spread.
    pub listed_elsewhere: Vec<Listed>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_have_counted_adds_up() {
        let mut ann = Talk::default();
        [3_000, 1_000].into_iter().for_each(|us| ann.answer(us));
        let mut sum = Talk::default();
        sum.add(&Talk { received: 5, ..Talk::default() });
        sum.add(&ann);
        sum.add(&Talk::default());
        let mut ben = Talk::default();
        ben.answer(5_000);
        sum.add(&ben);
        assert_eq!((sum.min_ms(), sum.max_ms(), sum.received), (1, 5, 5));
        assert!((sum.average_ms() - 3.0).abs() < 1e-9);
        assert_eq!(Talk::default().average_ms().to_string(), "0");
    }
}
