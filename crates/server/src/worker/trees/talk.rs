//! Statistics about the clients of the coordination service, for monitoring.

use engine::coordination::survey::{Listed, Survey};
use engine::coordination::{TreeSessionId, Zxid};
use engine::replication::Followers;
use std::net::SocketAddr;

/// Counts of messages, and times of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Talk {
    /// Frames and four-letter commands received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    answered: u64,
    total_us: u64,
    min_us: u64,
    max_us: u64,
}

impl Talk {
    /// Records the time of an answer.
    pub fn answer(&mut self, us: u64) {
        self.min_us = if self.answered == 0 { us } else { self.min_us.min(us) };
        self.max_us = self.max_us.max(us);
        self.total_us += us;
        self.answered += 1;
    }

    /// Adds other counts.
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

    /// Shortest time of an answer, in milliseconds.
    pub fn min_ms(&self) -> u64 {
        self.min_us / 1000
    }

    /// Longest time of an answer, in milliseconds.
    pub fn max_ms(&self) -> u64 {
        self.max_us / 1000
    }

    /// Average time of an answer, in milliseconds.
    pub fn average_ms(&self) -> f64 {
        self.total_us as f64 / self.answered.max(1) as f64 / 1000.0
    }
}

/// Connection of a client.
#[derive(Clone, Debug)]
pub struct Line {
    /// Address of the client.
    pub address: SocketAddr,
    /// Whether the connection is being read.
    pub reading: bool,
    /// Unanswered requests.
    pub outstanding: usize,
    /// Counts.
    pub talk: Talk,
    /// Session, if the connection has one.
    pub session: Option<OfSession>,
}

/// Details of a connection with a session.
#[derive(Clone, Copy, Debug)]
pub struct OfSession {
    /// Session.
    pub session: TreeSessionId,
    /// Session time-out, in milliseconds.
    pub timeout_ms: i32,
    /// Time of the connection, in milliseconds since 1970.
    pub since_ms: u64,
    /// Last answered request, in four letters.
    pub operation: &'static str,
    /// Number of that request.
    pub xid: i32,
    /// Number of the last change at that time.
    pub zxid: Zxid,
    /// Time of that answer, in milliseconds of the monotonic clock.
    pub answered_ms: u64,
    /// Duration of that request, in milliseconds.
    pub took_ms: u64,
}

/// A worker's totals.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clients {
    /// Connections.
    pub connections: usize,
    /// Unanswered requests.
    pub outstanding: usize,
    /// Counts, including closed connections.
    pub talk: Talk,
    /// Facts about the tree from the replica of shard 0, if it is at this worker.
    pub survey: Option<Survey>,
    /// Facts from the replicas of other shards, if the tree uses several.
    pub elsewhere: Survey,
    /// Followers of the replica of shard 0, if it leads.
    pub followers: Option<Followers>,
}

impl Clients {
    /// Adds another worker's totals.
    pub fn add(&mut self, other: &Self) {
        self.connections += other.connections;
        self.outstanding += other.outstanding;
        self.talk.add(&other.talk);
        self.survey = self.survey.or(other.survey);
        self.elsewhere.add(&other.elsewhere);
        self.followers = self.followers.or(other.followers);
    }

    /// Facts known here about the whole tree; none without shard 0.
    pub fn tree(&self) -> Option<Survey> {
        let mut survey = self.survey?;
        survey.add(&self.elsewhere);
        Some(survey)
    }
}

/// A worker's totals and details.
#[derive(Debug, Default)]
pub struct Details {
    /// Totals.
    pub clients: Clients,
    /// Connections.
    pub lines: Vec<Line>,
    /// Sessions, if requested and the replica is here.
    pub listed: Option<Listed>,
    /// State of sessions at other shards, if the tree uses several.
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
