//! Request numbers: what took effect already, so that a retry takes effect once.
//!
//! Part of the replicated state. Bounded: a client has the outcomes under its largest numbers
//! remembered, and when there are too many clients, those that were silent longest are forgotten.
//! Of a number below those nobody can say any more whether it took effect, so it never does again.

use crate::entry::{RequestOutcome, TookEffect};
use crate::limits::{REQUEST_CLIENTS_MAX, REQUESTS_PER_CLIENT_MAX};
use crate::message::RequestId;
use adt::{Blob, Reply, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a request.
#[derive(Debug, PartialEq)]
pub enum Known<'r> {
    /// It took effect.
    TookEffect(&'r TookEffect),
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
    /// By number; none of them is [`RequestOutcome::Forgotten`].
    outcomes: BTreeMap<u64, RequestOutcome>,
}

impl Requests {
    /// The replies of a request that took effect, if it is remembered.
    pub fn get(&self, request: &RequestId) -> Option<Known<'_>> {
        let client = self.clients.get(&request.client)?;
        let Some(outcome) = client.outcomes.get(&request.number) else {
            let forgotten = client.forgotten.is_some_and(|last| request.number <= last);
            return forgotten.then_some(Known::Forgotten);
        };
        Some(match outcome {
            RequestOutcome::TookEffect(outcome) => Known::TookEffect(outcome),
            RequestOutcome::Void(_) => Known::Void,
            RequestOutcome::Forgotten(_) => Known::Forgotten,
        })
    }

    /// What the commands of a request have answered that took effect.
    pub fn answered(&mut self, request: &RequestId, replies: Vec<Reply>) {
        let client = self.clients.get_mut(&request.client);
        let outcome = client.and_then(|client| client.outcomes.get_mut(&request.number));
        if let Some(RequestOutcome::TookEffect(outcome)) = outcome
            && !outcome.whole
        {
            (outcome.replies, outcome.whole) = (replies, true);
        }
    }

    /// Sees to it that a request that has not taken effect never does. Tells whether it has, if
    /// that is remembered.
    pub fn resolve(&mut self, request: RequestId, ts: Timestamp) -> Option<bool> {
        match self.get(&request) {
            Some(Known::TookEffect(_)) => Some(true),
            Some(Known::Void) => Some(false),
            Some(Known::Forgotten) => None,
            None => {
                self.keep(request, RequestOutcome::Void(ts));
                Some(false)
            }
        }
    }

    /// Remembers that a request took effect at `ts`.
    pub fn remember(&mut self, request: RequestId, ts: Timestamp, replies: Vec<Reply>) {
        self.keep(request, RequestOutcome::TookEffect(TookEffect { ts, replies, whole: false }));
    }

    /// Keeps what became of a request, which a snapshot may have.
    pub fn keep(&mut self, request: RequestId, outcome: RequestOutcome) {
        let client = self.clients.entry(request.client.clone()).or_default();
        self.by_age.remove(&(client.last, request.client.clone()));
        client.last = client.last.max(outcome.ts());
        self.by_age.insert((client.last, request.client));
        match outcome {
            RequestOutcome::Forgotten(_) => {
                client.forgotten = client.forgotten.max(Some(request.number));
            }
            RequestOutcome::TookEffect(_) | RequestOutcome::Void(_) => {
                client.outcomes.insert(request.number, outcome);
            }
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

    /// All remembered outcomes, and for each client whose outcomes were forgotten the largest number
    /// among them, in a form that [`Requests::keep`] takes.
    pub fn iter(&self) -> impl Iterator<Item = (RequestId, RequestOutcome)> {
        self.clients.iter().flat_map(|(name, client)| {
            let id = |number| RequestId { client: name.clone(), number };
            let forgotten = client.forgotten;
            let forgotten =
                forgotten.map(|number| (id(number), RequestOutcome::Forgotten(client.last)));
            let outcomes = client.outcomes.iter();
            let outcomes = outcomes.map(move |(number, outcome)| (id(*number), outcome.clone()));
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
        let first = TookEffect { ts: Timestamp(1), replies: vec![Reply::Int(1)], whole: false };
        assert_eq!(requests.get(&request(1)), Some(Known::TookEffect(&first)));
        assert_eq!(requests.resolve(request(0), Timestamp(100)), None);
        // A snapshot says so too.
        let mut restored = Requests::default();
        requests.iter().for_each(|(id, outcome)| restored.keep(id, outcome));
        assert_eq!(restored.get(&request(0)), Some(Known::Forgotten));
        assert_eq!(restored.get(&request(1)), Some(Known::TookEffect(&first)));
        assert_eq!(restored.get(&request(1000)), None);
        assert_eq!(restored.len(), requests.len());
    }

    #[test]
    fn what_the_commands_of_a_request_have_answered_is_kept() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        let told = vec![Reply::Array(vec![Reply::Int(1)]), Reply::Nil];
        requests.answered(&request(1), told.clone());
        assert_eq!(requests.get(&request(1)), None, "it took no effect");
        requests.remember(request(1), Timestamp(1), vec![Reply::Ok; 3]);
        requests.answered(&request(1), told.clone());
        requests.answered(&request(1), Vec::new());
        requests.resolve(request(2), Timestamp(2));
        requests.answered(&request(2), told.clone());
        let kept = TookEffect { ts: Timestamp(1), replies: told, whole: true };
        let mut restored = Requests::default();
        requests.iter().for_each(|(id, outcome)| restored.keep(id, outcome));
        for requests in [requests, restored] {
            assert_eq!(requests.get(&request(1)), Some(Known::TookEffect(&kept)));
            assert_eq!(requests.get(&request(2)), Some(Known::Void));
        }
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
