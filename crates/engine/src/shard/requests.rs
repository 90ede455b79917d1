//! Request numbers: what took effect already, so that a retry takes effect once.
//!
//! Part of the replicated state. Bounded: a client has its last few outcomes remembered, and when
//! there are too many clients, those that were silent longest are forgotten.

use crate::limits::{REQUEST_CLIENTS_MAX, REQUESTS_PER_CLIENT_MAX};
use crate::message::RequestId;
use adt::{Blob, ErrorReply, Reply, Timestamp};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Code of the error that stands for the replies of a request that must not take effect. No command
/// replies with it.
const VOID: &str = "VOID";

/// What is known of a request.
#[derive(Debug, PartialEq)]
pub enum Known<'r> {
    /// It took effect, with these replies.
    TookEffect(&'r [Reply]),
    /// It never will.
    Void,
}

/// Outcomes by client and number.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    clients: BTreeMap<Blob, Client>,
    by_age: BTreeSet<(Timestamp, Blob)>,
}

#[derive(Clone, Debug)]
struct Client {
    last: Timestamp,
    outcomes: VecDeque<(u64, Timestamp, Vec<Reply>)>,
}

impl Requests {
    /// The replies of a request that took effect, if it is remembered.
    pub fn get(&self, request: &RequestId) -> Option<Known<'_>> {
        let client = self.clients.get(&request.client)?;
        let outcome = client.outcomes.iter().find(|o| o.0 == request.number)?;
        Some(match &outcome.2[..] {
            [Reply::Error(error)] if error.code() == VOID => Known::Void,
            replies => Known::TookEffect(replies),
        })
    }

    /// Sees to it that a request that has not taken effect never does. Tells whether it has.
    pub fn resolve(&mut self, request: RequestId, ts: Timestamp) -> bool {
        match self.get(&request) {
            Some(known) => matches!(known, Known::TookEffect(_)),
            None => {
                self.remember(request, ts, vec![ErrorReply::new(VOID, "").into()]);
                false
            }
        }
    }

    /// Remembers that a request took effect at `ts`.
    pub fn remember(&mut self, request: RequestId, ts: Timestamp, replies: Vec<Reply>) {
        let client = self
            .clients
            .entry(request.client.clone())
            .or_insert_with(|| Client { last: Timestamp::ZERO, outcomes: VecDeque::new() });
        self.by_age.remove(&(client.last, request.client.clone()));
        client.last = client.last.max(ts);
        self.by_age.insert((client.last, request.client));
        client.outcomes.push_back((request.number, ts, replies));
        if client.outcomes.len() > REQUESTS_PER_CLIENT_MAX {
            client.outcomes.pop_front();
        }
        if self.clients.len() > REQUEST_CLIENTS_MAX
            && let Some((_, silent)) = self.by_age.pop_first()
        {
            self.clients.remove(&silent);
        }
    }

    /// All remembered outcomes: client, number, when, replies.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, Timestamp, &[Reply])> {
        self.clients.iter().flat_map(|(name, client)| {
            client.outcomes.iter().map(|(number, ts, replies)| {
                let request = RequestId { client: name.clone(), number: *number };
                (request, *ts, replies.as_slice())
            })
        })
    }

    /// Number of outcomes remembered.
    pub fn len(&self) -> usize {
        self.clients.values().map(|c| c.outcomes.len()).sum()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_silent_client_is_forgotten_first() {
        let mut requests = Requests::default();
        let request = |client: usize, number| RequestId {
            client: Blob::from(format!("c{client:07}")),
            number,
        };
        for client in 0..=REQUEST_CLIENTS_MAX {
            requests.remember(request(client, 1), Timestamp(client as u64), vec![Reply::Ok]);
        }
        assert_eq!(requests.get(&request(0, 1)), None);
        assert!(requests.get(&request(1, 1)).is_some());
        assert_eq!(requests.len(), REQUEST_CLIENTS_MAX);
    }

    #[test]
    fn a_client_has_its_last_outcomes_remembered() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        for number in 0..=REQUESTS_PER_CLIENT_MAX as u64 {
            requests.remember(request(number), Timestamp(number), vec![Reply::Int(number as i64)]);
        }
        assert_eq!(requests.get(&request(0)), None);
        assert_eq!(requests.get(&request(1)), Some(Known::TookEffect(&[Reply::Int(1)])));
    }

    #[test]
    fn a_request_is_settled_once() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        requests.remember(request(1), Timestamp(1), Vec::new());
        for _ in 0..2 {
            assert!(requests.resolve(request(1), Timestamp(2)));
            assert!(!requests.resolve(request(2), Timestamp(3)));
        }
        assert_eq!(requests.get(&request(2)), Some(Known::Void));
        assert_eq!(requests.len(), 2);
    }
}
