//! Request numbers: what took effect already, so that a retry takes effect once.
//!
//! Part of the replicated state. Bounded: a client has the outcomes under its largest numbers
//! remembered, and when there are too many clients, those that were silent longest are forgotten.
//! Of a number below those nobody can say any more whether it took effect, so it never does again.

use crate::limits::{REQUEST_CLIENTS_MAX, REQUESTS_PER_CLIENT_MAX};
use crate::message::RequestId;
use adt::{Blob, ErrorReply, Reply, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Code of the error that stands for the replies of a request that must not take effect. No command
/// replies with it.
const VOID: &str = "VOID";
/// Code of the error that stands for outcomes that are forgotten: those of this number and of all
/// smaller ones that are not remembered.
const FORGOTTEN: &str = "FORGOTTEN";

/// What is known of a request.
#[derive(Debug, PartialEq)]
pub enum Known<'r> {
    /// It took effect, with these replies.
    TookEffect(&'r [Reply]),
    /// It never will.
    Void,
    /// It took effect or not: that is not remembered any more, and it does not do so now.
    Forgotten,
}

/// Outcomes by client and number.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    clients: BTreeMap<Blob, Client>,
    by_age: BTreeSet<(Timestamp, Blob)>,
}

#[derive(Clone, Debug, Default)]
struct Client {
    last: Timestamp,
    /// Largest number whose outcome was forgotten.
    forgotten: Option<u64>,
    /// By number: when it took effect, and the replies.
    outcomes: BTreeMap<u64, (Timestamp, Vec<Reply>)>,
}

impl Requests {
    /// The replies of a request that took effect, if it is remembered.
    pub fn get(&self, request: &RequestId) -> Option<Known<'_>> {
        let client = self.clients.get(&request.client)?;
        let Some((_, replies)) = client.outcomes.get(&request.number) else {
            let forgotten = client.forgotten.is_some_and(|last| request.number <= last);
            return forgotten.then_some(Known::Forgotten);
        };
        Some(match &replies[..] {
            [Reply::Error(error)] if error.code() == VOID => Known::Void,
            replies => Known::TookEffect(replies),
        })
    }

    /// Sees to it that a request that has not taken effect never does. Tells whether it has, if
    /// that is remembered.
    pub fn resolve(&mut self, request: RequestId, ts: Timestamp) -> Option<bool> {
        match self.get(&request) {
            Some(Known::TookEffect(_)) => Some(true),
            Some(Known::Void) => Some(false),
            Some(Known::Forgotten) => None,
            None => {
                self.remember(request, ts, vec![ErrorReply::new(VOID, "").into()]);
                Some(false)
            }
        }
    }

    /// Remembers that a request took effect at `ts`.
    pub fn remember(&mut self, request: RequestId, ts: Timestamp, replies: Vec<Reply>) {
        let client = self.clients.entry(request.client.clone()).or_default();
        self.by_age.remove(&(client.last, request.client.clone()));
        client.last = client.last.max(ts);
        self.by_age.insert((client.last, request.client));
        match &replies[..] {
            [Reply::Error(error)] if error.code() == FORGOTTEN => {
                client.forgotten = client.forgotten.max(Some(request.number));
            }
            _ => drop(client.outcomes.insert(request.number, (ts, replies))),
        }
        if client.outcomes.len() > REQUESTS_PER_CLIENT_MAX
            && let Some((smallest, _)) = client.outcomes.pop_first()
        {
            client.forgotten = client.forgotten.max(Some(smallest));
        }
        if self.clients.len() > REQUEST_CLIENTS_MAX
            && let Some((_, silent)) = self.by_age.pop_first()
        {
            self.clients.remove(&silent);
        }
    }

    /// All remembered outcomes, client, number, when, replies; and for each client whose outcomes
    /// were forgotten the largest number among them, in a form that [`Requests::remember`] knows.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, Timestamp, Vec<Reply>)> {
        self.clients.iter().flat_map(|(name, client)| {
            let id = |number| RequestId { client: name.clone(), number };
            let forgotten = client.forgotten.map(|number| {
                (id(number), client.last, vec![ErrorReply::new(FORGOTTEN, "").into()])
            });
            let outcomes = client.outcomes.iter();
            let outcomes = outcomes.map(move |(n, (ts, replies))| (id(*n), *ts, replies.clone()));
            forgotten.into_iter().chain(outcomes)
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
    fn what_is_forgotten_is_neither_denied_nor_done_again() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        for number in 0..=REQUESTS_PER_CLIENT_MAX as u64 {
            requests.remember(request(number), Timestamp(number), vec![Reply::Int(number as i64)]);
        }
        assert_eq!(requests.get(&request(0)), Some(Known::Forgotten));
        assert_eq!(requests.get(&request(1)), Some(Known::TookEffect(&[Reply::Int(1)])));
        assert_eq!(requests.resolve(request(0), Timestamp(100)), None);
        // A snapshot says so too.
        let mut restored = Requests::default();
        requests.iter().for_each(|(id, ts, replies)| restored.remember(id, ts, replies));
        assert_eq!(restored.get(&request(0)), Some(Known::Forgotten));
        assert_eq!(restored.get(&request(1)), Some(Known::TookEffect(&[Reply::Int(1)])));
        assert_eq!(restored.get(&request(1000)), None);
        assert_eq!(restored.len(), requests.len());
    }

    #[test]
    fn a_request_is_settled_once() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        requests.remember(request(1), Timestamp(1), Vec::new());
        for _ in 0..2 {
            assert_eq!(requests.resolve(request(1), Timestamp(2)), Some(true));
            assert_eq!(requests.resolve(request(2), Timestamp(3)), Some(false));
        }
        assert_eq!(requests.get(&request(2)), Some(Known::Void));
        assert_eq!(requests.len(), 2);
    }
}
