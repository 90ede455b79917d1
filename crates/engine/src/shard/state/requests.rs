//! Request numbers: outcomes of requests, so that a retry takes effect once.
//!
//! Part of the replicated state. Bounded: a client has the outcomes under its largest numbers
//! remembered, and when there are too many clients, those that were silent longest are forgotten.
//! Whether a number below those took effect is not known any more, so it never does again.
//! Replies are bounded by bytes as well: those of a request that are too long are not kept, and when
//! all of them take too much, the oldest are dropped. That the request took effect stays.

use crate::entry::{Dropped, RequestOutcome, TookEffect};
use crate::ids::RequestId;
use crate::limits::{
    REMEMBERED_BYTES_IN_ALL_MAX, REMEMBERED_BYTES_MAX, REQUEST_CLIENTS_MAX, REQUESTS_PER_CLIENT_MAX,
};
use crate::repeats::{dropped_error, weight_of};
use adt::{Blob, Reply, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// Knowledge about a request.
#[derive(Debug, PartialEq)]
pub enum Known<'r> {
    /// The request took effect.
    TookEffect(&'r TookEffect),
    /// The request never will take effect.
    Void,
    /// Whether the request took effect is not remembered any more, and it does not do so now.
    Forgotten,
}

impl TookEffect {
    /// The replies as a gateway is told them, and whether they are those of the commands.
    pub fn told(self) -> (Vec<Reply>, bool) {
        match self.dropped {
            Some(dropped) => (vec![dropped.error(self.ts).into()], false),
            None => (self.replies, self.whole),
        }
    }

    fn drop_replies(&mut self, why: Dropped) {
        (self.replies, self.whole, self.dropped) = (Vec::new(), false, Some(why));
    }

    /// About how many bytes its replies take besides the place that every outcome has.
    fn bytes(&self) -> usize {
        weight_of(&self.replies).saturating_sub(size_of::<Reply>())
    }
}

/// About how many bytes an outcome takes besides the place that every outcome has.
fn bytes_of(outcome: &RequestOutcome) -> usize {
    match outcome {
        RequestOutcome::TookEffect(outcome) => outcome.bytes(),
        RequestOutcome::Void(_) | RequestOutcome::Forgotten(_) => 0,
    }
}

/// Outcomes by client and number.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    clients: BTreeMap<Blob, ClientRequests>,
    by_age: BTreeSet<(Timestamp, Blob)>,
    /// Requests whose replies take more than the place that every outcome has, and how many bytes those
    /// of all take.
    long: BTreeSet<(Timestamp, Blob, u64)>,
    bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct ClientRequests {
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

    /// Notes the answers of the commands of a request that took effect. One error stands for all of them if
    /// they are too long to be kept.
    pub fn answered(&mut self, request: &RequestId, replies: Vec<Reply>) {
        let Some(Known::TookEffect(known)) = self.get(request) else { return };
        if known.whole || known.dropped == Some(Dropped::TooLong) {
            return;
        }
        let ts = known.ts;
        let outcome = match dropped_error(&replies).and_then(Dropped::of) {
            Some(why) => TookEffect { ts, replies: Vec::new(), whole: false, dropped: Some(why) },
            None => TookEffect { ts, replies, whole: true, dropped: None },
        };
        let outcome = RequestOutcome::TookEffect(outcome);
        self.put(request.client.clone(), request.number, outcome);
        self.make_room();
    }

    /// Puts an outcome in the place of the one that is there, if any.
    fn put(&mut self, name: Blob, number: u64, mut outcome: RequestOutcome) {
        if let RequestOutcome::TookEffect(outcome) = &mut outcome
            && weight_of(&outcome.replies) > REMEMBERED_BYTES_MAX
        {
            outcome.drop_replies(Dropped::TooLong);
        }
        self.discount(&name, number);
        let (bytes, ts) = (bytes_of(&outcome), outcome.ts());
        let Some(client) = self.clients.get_mut(&name) else { return };
        client.outcomes.insert(number, outcome);
        if bytes > 0 {
            self.bytes += bytes;
            self.long.insert((ts, name, number));
        }
    }

    /// Takes the replies of a request, which are about to go, out of the count of bytes.
    fn discount(&mut self, name: &Blob, number: u64) {
        let client = self.clients.get(name);
        let Some(outcome) = client.and_then(|client| client.outcomes.get(&number)) else { return };
        let (bytes, ts) = (bytes_of(outcome), outcome.ts());
        if bytes > 0 {
            self.bytes -= bytes;
            self.long.remove(&(ts, name.clone(), number));
        }
    }

    /// Drops the oldest replies, as long as there are too many bytes of them.
    fn make_room(&mut self) {
        while self.bytes > REMEMBERED_BYTES_IN_ALL_MAX
            && let Some((_, name, number)) = self.long.first().cloned()
        {
            self.discount(&name, number);
            let client = self.clients.get_mut(&name);
            if let Some(RequestOutcome::TookEffect(outcome)) =
                client.and_then(|client| client.outcomes.get_mut(&number))
            {
                outcome.drop_replies(Dropped::ForRoom);
            }
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
        let outcome = TookEffect { ts, replies, whole: false, dropped: None };
        self.keep(request, RequestOutcome::TookEffect(outcome));
    }

    /// Keeps what became of a request, which a snapshot may have.
    pub fn keep(&mut self, request: RequestId, outcome: RequestOutcome) {
        let RequestId { client: name, number } = request;
        let client = self.clients.entry(name.clone()).or_default();
        self.by_age.remove(&(client.last, name.clone()));
        client.last = client.last.max(outcome.ts());
        self.by_age.insert((client.last, name.clone()));
        match outcome {
            RequestOutcome::Forgotten(_) => {
                client.forgotten = client.forgotten.max(Some(number));
            }
            RequestOutcome::TookEffect(_) | RequestOutcome::Void(_) => {
                self.put(name.clone(), number, outcome);
            }
        }
        let client = self.clients.get(&name).filter(|c| c.outcomes.len() > REQUESTS_PER_CLIENT_MAX);
        if let Some((&smallest, _)) = client.and_then(|client| client.outcomes.first_key_value()) {
            self.discount(&name, smallest);
            if let Some(client) = self.clients.get_mut(&name) {
                client.outcomes.remove(&smallest);
                client.forgotten = client.forgotten.max(Some(smallest));
            }
        }
        self.forget_silent();
        self.make_room();
    }

    /// Forgets the client that was silent longest, if there are too many.
    fn forget_silent(&mut self) {
        if self.clients.len() > REQUEST_CLIENTS_MAX
            && let Some((_, silent)) = self.by_age.pop_first()
        {
            let client = self.clients.get(&silent);
            let numbers: Vec<u64> =
                client.into_iter().flat_map(|client| client.outcomes.keys().copied()).collect();
            numbers.into_iter().for_each(|number| self.discount(&silent, number));
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
        let first = TookEffect {
            ts: Timestamp(1),
            replies: vec![Reply::Int(1)],
            whole: false,
            dropped: None,
        };
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
        let kept = TookEffect { ts: Timestamp(1), replies: told, whole: true, dropped: None };
        let mut restored = Requests::default();
        requests.iter().for_each(|(id, outcome)| restored.keep(id, outcome));
        for requests in [requests, restored] {
            assert_eq!(requests.get(&request(1)), Some(Known::TookEffect(&kept)));
            assert_eq!(requests.get(&request(2)), Some(Known::Void));
        }
    }

    #[test]
    fn the_oldest_replies_make_room_and_say_so() {
        let mut requests = Requests::default();
        let request =
            |client: u64, number| RequestId { client: Blob::from(format!("c{client}")), number };
        let half = || vec![Reply::bulk(vec![b'x'; REMEMBERED_BYTES_MAX / 2])];
        let kept = (2 * REMEMBERED_BYTES_IN_ALL_MAX / REMEMBERED_BYTES_MAX) as u64;
        requests.remember(request(0, 0), Timestamp(1), vec![Reply::Int(7)]);
        for n in 0..=kept {
            // Those of a client that is heard of again are as old as they are.
            requests.remember(request(n / 8, 1 + n % 8), Timestamp(2 + n), half());
        }
        let dropped = |requests: &Requests, id: &RequestId| match requests.get(id) {
            Some(Known::TookEffect(outcome)) => outcome.dropped,
            known => panic!("{known:?}"),
        };
        let mut restored = Requests::default();
        requests.iter().for_each(|(id, outcome)| restored.keep(id, outcome));
        for requests in [&requests, &restored] {
            assert!(requests.bytes <= REMEMBERED_BYTES_IN_ALL_MAX);
            assert_eq!(dropped(requests, &request(0, 0)), None, "it takes no room of its own");
            assert_eq!(dropped(requests, &request(0, 1)), Some(Dropped::ForRoom));
            assert_eq!(dropped(requests, &request(0, 2)), None);
            assert_eq!(dropped(requests, &request(kept / 8, 1 + kept % 8)), None);
        }
        assert_eq!((requests.bytes, &requests.long), (restored.bytes, &restored.long));
        // What is too long by itself is not kept at all, and takes no room from others.
        let long = vec![Reply::bulk(vec![b'x'; REMEMBERED_BYTES_MAX])];
        requests.remember(request(9999, 1), Timestamp(u64::MAX), long);
        assert_eq!(dropped(&requests, &request(9999, 1)), Some(Dropped::TooLong));
        assert_eq!(dropped(&requests, &request(0, 2)), None);
        let error = Dropped::ForRoom.error(Timestamp::from_micros(5_000)).to_string();
        assert!(error.starts_with("REPEATED ") && error.contains(" at 5 ms after "), "{error}");
        // Whatever goes is not counted any more.
        for n in 0..REQUEST_CLIENTS_MAX as u64 {
            requests.remember(request(10_000 + n, 1), Timestamp(u64::MAX), vec![Reply::Ok]);
        }
        assert_eq!((requests.bytes, requests.long.len()), (0, 0));
    }

    #[test]
    fn what_is_answered_later_takes_the_place_of_what_was_known() {
        let mut requests = Requests::default();
        let request = |number| RequestId { client: Blob::from("c"), number };
        let long = |bytes| vec![Reply::bulk(vec![b'x'; bytes])];
        requests.remember(request(1), Timestamp(1), long(1000));
        requests.remember(request(2), Timestamp(2), long(1000));
        requests.answered(&request(1), long(10));
        let too_long = vec![Dropped::TooLong.error(Timestamp(2)).into()];
        requests.answered(&request(2), too_long);
        requests.answered(&request(2), long(10));
        let Some(Known::TookEffect(outcome)) = requests.get(&request(2)) else { panic!() };
        assert_eq!(outcome.dropped, Some(Dropped::TooLong));
        assert_eq!((requests.bytes, requests.long.len()), (10, 1));
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
