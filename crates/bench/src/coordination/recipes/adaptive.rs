//! A lock that changes its recipe while it is in use, as the model recommends.
//!
//! Requests that use different recipes would not exclude each other, so all must change together.
//! The lock's node holds an epoch number and the recipe of that epoch, and each epoch has a child
//! node below which its lock is. The lock's holder may begin the next epoch: it creates the child,
//! sets the data, and only then releases the lock, all in its session's order. A client watches the
//! data, and is notified of the change before any answer that shows a later state: a grant in an
//! epoch does not count once the session has been notified of the epoch's end. Waiting requests
//! start again in the new epoch.
//!
//! The clients of this process together measure the inputs of the choice: the round trip of reads
//! and of releases, how long the lock is held, how often it is requested, and, at the beginning,
//! the capacity of the service: a polling recipe sends more requests the more requests are waiting.

use super::locker::{Locker, Told};
use super::nodes::Nodes;
use super::{FOREIGN_TAGS, Recipes, create, delete, make, make_with};
use crate::coordination::results::forecast::{Capacity, cost_ms, eligible};
use crate::coordination::services::client::{Answer, Client, Counts, Heard, get};
use model::recommend::{Available, Choice, Matters, rank};
use model::{Algorithm, Law, Setting, State, Timing};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, channel};
use wire::jute::{Ask, Change, CreateMode, Reply, Write};

/// Grants between two checks against the model.
const LOOK_EVERY: u32 = 20;
/// A query of the model takes a processor for the better part of a second, which the lock's users
/// may need: it is repeated only when an estimate has changed by this factor, or when the previous
/// query had no result.
const CHANGED: f64 = 1.3;
/// Number of future requests that the model considers.
const HORIZON: u32 = 200;
/// Arrivals and service times from which estimates are made.
const WINDOW: usize = 50;
/// A change is worthwhile only if the new recipe's cost is at most this fraction of the current
/// one's.
const WORTH: f64 = 0.85;
/// Requests that are sent at once to measure the service's capacity, and the time limit of that
/// measurement.
const MANY: u32 = 300;
const PATIENCE_NS: u64 = 60_000_000_000;
/// Weight of the newest round trip in its average.
const NEWEST: f64 = 0.1;

/// Tags of requests that are not steps of a recipe: reads of the lock's node, by session, and all
/// requests whose answers do not matter.
const LOOK: u64 = FOREIGN_TAGS;
const TIMED_LOOK: u64 = FOREIGN_TAGS * 2;
const OTHER: u64 = FOREIGN_TAGS * 3;
const ONE_OF_MANY: u64 = OTHER + 1;

/// Estimates of the lock's use, in nanoseconds.
#[derive(Debug, Default)]
struct Estimates {
    read_ns: f64,
    write_ns: f64,
    arrivals_ns: VecDeque<u64>,
    holds_ns: VecDeque<u64>,
    /// Circumstances of the last query of the model, if it had a result.
    asked_about: Option<Setting>,
}

fn average(old: &mut f64, new_ns: u64) {
    *old += NEWEST * (new_ns as f64 - *old);
}

fn keep(window: &mut VecDeque<u64>, value: u64) {
    window.push_back(value);
    if window.len() > WINDOW {
        window.pop_front();
    }
}

/// Whether two sets of circumstances differ by more than [`CHANGED`].
fn differ(these: &Setting, those: &Setting) -> bool {
    let figures = |of: &Setting| {
        let Timing { client_rtt, disk, .. } = &of.timing;
        [of.interarrival_ms, of.service_ms, client_rtt.mean_ms() + disk.mean_ms()]
    };
    let apart = |(this, that): (f64, f64)| this.max(that) > CHANGED * this.min(that);
    figures(these).into_iter().zip(figures(those)).any(apart)
}

impl Estimates {
    /// Current circumstances, if they have changed since the last query.
    fn news(&mut self, poll_ns: u64) -> Option<[Setting; 2]> {
        let settings = self.settings(poll_ns)?;
        if self.asked_about.as_ref().is_some_and(|known| !differ(&settings[0], known)) {
            return None;
        }
        self.asked_about = Some(settings[0].clone());
        Some(settings)
    }

    /// Circumstances as far as they are known, once for requests that come a standard error more
    /// often than estimated, and once for requests that come more rarely; `None` until there are a
    /// few samples of everything.
    fn settings(&self, poll_ns: u64) -> Option<[Setting; 2]> {
        let (first, last) = (self.arrivals_ns.front()?, self.arrivals_ns.back()?);
        if self.arrivals_ns.len() < 10 || self.holds_ns.len() < 5 || last <= first {
            return None;
        }
        let gaps = (self.arrivals_ns.len() - 1) as f64;
        let between_ns = (last - first) as f64 / gaps;
        let error = between_ns / gaps.sqrt();
        let [often, rarely] = [between_ns - error, between_ns + error];
        Some([self.setting(often, poll_ns)?, self.setting(rarely, poll_ns)?])
    }

    fn setting(&self, between_ns: f64, poll_ns: u64) -> Option<Setting> {
        let held_ns = self.holds_ns.iter().sum::<u64>() as f64 / self.holds_ns.len() as f64;
        let ms = |ns: f64| Law::constant((ns / 1e6).max(0.0)).ok();
        let timing = Timing {
            client_rtt: ms(self.read_ns)?,
            server_rtt: Law::zero(),
            disk: ms(self.write_ns - self.read_ns)?,
            servers: 1,
            attachment: model::Attachment::Leader,
        };
        let setting = Setting::new(timing, between_ns / 1e6, held_ns / 1e6);
        // With a finite number of requests a recipe has a prediction even while waits grow.
        let requests = Some(HORIZON);
        Some(Setting { poll_ms: poll_ns as f64 / 1e6, requests, ..setting })
    }
}

/// Expected cost of each recipe at a given rate of requests.
#[derive(Debug)]
struct Ranking {
    interarrival_ms: f64,
    choices: Vec<Choice>,
}

/// A request that is handled by a recipe.
#[derive(Clone, Copy, Debug)]
struct Hand {
    request: usize,
    session: usize,
    epoch: u64,
}

/// A locker that changes its recipe.
pub struct Adaptive {
    client: Client,
    recipes: Recipes,
    base: String,
    poll_ns: u64,
    capacity: Capacity,
    /// Recipe of each epoch.
    epochs: BTreeMap<u64, Algorithm>,
    /// Current epoch as each session knows it; `None` while the session is reading it.
    known: Vec<Option<u64>>,
    /// Requests of each session that wait until the session knows its epoch.
    waiting: Vec<VecDeque<usize>>,
    /// Recipe of each attempt: a request that starts again is a new request for the recipes.
    hands: Vec<Option<Hand>>,
    /// Attempt of each request, and the time at which it got the lock.
    holds: BTreeMap<usize, (usize, u64)>,
    /// Time at which each attempt began its release.
    leaving_ns: BTreeMap<usize, u64>,
    asked_ns: u64,
    estimates: Estimates,
    grants: u32,
    /// Number of grants by each recipe.
    used: BTreeMap<Algorithm, u32>,
    choices: Option<Receiver<[Ranking; 2]>>,
    /// Recipe to change to at the next release.
    wanted: Option<Algorithm>,
    heard: Vec<Heard>,
}

fn set(path: &str, data: String, version: u64) -> Ask {
    let data = Some(data.into_bytes().into());
    let version = version as i32;
    Ask::Write(Write::Change(Change::SetData { path: path.into(), data, version }))
}

/// Encodes the data of the lock's node.
fn encode(epoch: u64, algorithm: Algorithm) -> String {
    format!("{epoch} {}", algorithm.name())
}

fn decode(data: &[u8]) -> Option<(u64, Algorithm)> {
    let (epoch, name) = std::str::from_utf8(data).ok()?.split_once(' ')?;
    Some((epoch.parse().ok()?, Algorithm::named(name)?))
}

/// Recipe to change to from `current`, if that is worthwhile: the best eligible recipe, if it is
/// better by enough over the number of requests considered, or if the service cannot carry the
/// current recipe.
fn worth(
    choices: &[Choice],
    interarrival_ms: f64,
    capacity: &Capacity,
    current: Algorithm,
) -> Option<Algorithm> {
    let best = &eligible(choices, interarrival_ms, capacity).first()?.prediction;
    let own = &choices.iter().find(|choice| choice.prediction.algorithm == current)?.prediction;
    let loud = |prediction| capacity.is_exceeded_by(prediction, interarrival_ms);
    let grows = |prediction: &model::Prediction| prediction.state == State::Overloaded;
    let carried = grows(best) == grows(own) && loud(own) && !loud(best);
    let better = carried || cost_ms(best) < WORTH * cost_ms(own);
    (better && best.algorithm != current).then_some(best.algorithm)
}

/// Recipe of the first epoch, when it is not known yet how often the lock will be requested: as
/// fast as any recipe while the lock is free, and no slower than any at handing over.
const FIRST: Algorithm = Algorithm::AsyncQueueWatch;

/// Measures how many requests of a kind the service answers per second when many are sent at once.
fn rate(client: &mut Client, what: impl Fn() -> Ask) -> io::Result<f64> {
    let begin_ns = client.now_ns();
    client.call(0, what())?.map_err(|code| io::Error::other(format!("{code:?}")))?;
    let one_ns = client.now_ns() - begin_ns;
    let begin_ns = client.now_ns();
    (0..MANY).for_each(|_| client.ask(0, ONE_OF_MANY, what()));
    let (mut heard, mut answered) = (Vec::new(), 0);
    while answered < MANY {
        if client.now_ns() > begin_ns + PATIENCE_NS {
            return Err(io::Error::other("the service does not answer"));
        }
        client.wait(begin_ns + PATIENCE_NS, &mut heard)?;
        let ours = |heard: &Heard| matches!(heard, Heard::Answer(one) if one.tag == ONE_OF_MANY);
        answered += heard.drain(..).filter(ours).count() as u32;
    }
    let many_ns = (client.now_ns() - begin_ns).saturating_sub(one_ns).max(1);
    Ok(f64::from(MANY) / many_ns as f64 * 1e9)
}

impl Adaptive {
    /// Creates a lock below a new node `base`, for the sessions of this client.
    ///
    /// # Errors
    /// The nodes cannot be created.
    pub fn new(mut client: Client, base: &str, poll_ns: u64, ephemeral: bool) -> io::Result<Self> {
        let timed = format!("{base}-timed");
        let begin_ns = client.now_ns();
        make(&mut client, &timed)?;
        let write_ns = client.now_ns() - begin_ns;
        let change = || {
            let (path, data) = (timed.as_str().into(), Some(Vec::new().into()));
            Ask::Write(Write::Change(Change::SetData { path, data, version: -1 }))
        };
        let capacity = Capacity {
            reads_per_s: rate(&mut client, || get(&timed, false))?,
            writes_per_s: rate(&mut client, change)?,
        };
        client.ask(0, OTHER, delete(&timed));
        make_with(&mut client, base, encode(0, FIRST).as_bytes())?;
        make(&mut client, &format!("{base}/e0"))?;
        let mut estimates = Estimates { write_ns: write_ns as f64, ..Estimates::default() };
        let sessions = client.sessions();
        for session in 0..sessions {
            let begin_ns = client.now_ns();
            let read = client.call(session, get(base, true))?;
            read.map_err(|code| io::Error::other(format!("{base} could not be read: {code:?}")))?;
            estimates.read_ns = (client.now_ns() - begin_ns) as f64;
        }
        Ok(Self {
            client,
            recipes: Recipes::new(poll_ns, ephemeral),
            base: base.to_owned(),
            poll_ns,
            capacity,
            epochs: BTreeMap::from([(0, FIRST)]),
            known: vec![Some(0); sessions],
            waiting: vec![VecDeque::new(); sessions],
            hands: Vec::new(),
            holds: BTreeMap::new(),
            leaving_ns: BTreeMap::new(),
            asked_ns: 0,
            estimates,
            grants: 0,
            used: BTreeMap::new(),
            choices: None,
            wanted: None,
            heard: Vec::new(),
        })
    }

    /// Number of recipe changes, and the number of grants by each recipe.
    pub fn history(&self) -> (u64, &BTreeMap<Algorithm, u32>) {
        (self.epochs.len() as u64 - 1, &self.used)
    }

    /// Ends the sessions.
    ///
    /// # Errors
    /// The service does not answer.
    pub fn close(self) -> io::Result<()> {
        self.client.close()
    }

    /// Starts a request in its session's epoch, or queues it until the session knows its epoch.
    fn start(&mut self, request: usize, session: usize) {
        let Some(epoch) = self.known[session] else {
            self.waiting[session].push_back(request);
            return;
        };
        let attempt = self.hands.len();
        self.hands.push(Some(Hand { request, session, epoch }));
        let base = format!("{}/e{epoch}", self.base);
        let algorithm = self.epochs[&epoch];
        self.recipes.begin(&mut self.client, attempt, session, algorithm, &base);
    }

    /// Sets the epoch that a session knows; requests of the session in older epochs start again.
    fn learn(&mut self, session: usize, epoch: u64, algorithm: Algorithm) {
        self.epochs.insert(epoch, algorithm);
        self.known[session] = Some(epoch);
        let holding: Vec<usize> = self.holds.values().map(|(attempt, _)| *attempt).collect();
        let mut again = Vec::new();
        for (attempt, hand) in self.hands.iter_mut().enumerate() {
            let old = hand.filter(|hand| hand.session == session && hand.epoch < epoch);
            if let Some(old) = old
                && !holding.contains(&attempt)
                && !self.leaving_ns.contains_key(&attempt)
            {
                *hand = None;
                again.push((attempt, old.request));
            }
        }
        for (attempt, request) in again {
            self.recipes.cancel(&mut self.client, attempt);
            self.start(request, session);
        }
        for request in std::mem::take(&mut self.waiting[session]) {
            self.start(request, session);
        }
    }

    fn answer(&mut self, answer: Answer, out: &mut Vec<Told>) -> io::Result<()> {
        if answer.tag < FOREIGN_TAGS {
            return self.recipes.answer(&mut self.client, answer, out);
        }
        match (answer.tag, answer.result) {
            (tag, Ok(Reply::Data(data, _))) if tag < OTHER => {
                if tag >= TIMED_LOOK {
                    let took_ns = self.client.now_ns() - self.asked_ns;
                    average(&mut self.estimates.read_ns, took_ns);
                    return Ok(());
                }
                let (epoch, algorithm) = decode(data.as_deref().unwrap_or_default())
                    .ok_or_else(|| io::Error::other("the lock's node has unexpected data"))?;
                self.learn(answer.session, epoch, algorithm);
                Ok(())
            }
            (_, Ok(_)) => Ok(()),
            (_, Err(code)) => Err(io::Error::other(format!("an epoch could not begin: {code:?}"))),
        }
    }

    /// Passes on the recipes' events, as far as they still count.
    fn pass_on(&mut self, mut from_recipes: Vec<Told>, told: &mut Vec<Told>) {
        for one in from_recipes.drain(..) {
            match one {
                Told::Granted { request: attempt, token } => {
                    let Some(hand) = self.hands[attempt] else { continue };
                    if self.known[hand.session] != Some(hand.epoch) {
                        // The session was notified that this epoch is over, and does not know the
                        // next one yet.
                        self.hands[attempt] = None;
                        self.recipes.leave(&mut self.client, attempt);
                        self.start(hand.request, hand.session);
                        continue;
                    }
                    let now_ns = self.client.now_ns();
                    self.holds.insert(hand.request, (attempt, now_ns));
                    *self.used.entry(self.epochs[&hand.epoch]).or_default() += 1;
                    told.push(Told::Granted { request: hand.request, token });
                }
                Told::Released { request: attempt } => {
                    if let Some(begin_ns) = self.leaving_ns.remove(&attempt) {
                        let took_ns = self.client.now_ns() - begin_ns;
                        average(&mut self.estimates.write_ns, took_ns);
                    }
                    if let Some(hand) = self.hands[attempt].take() {
                        told.push(Told::Released { request: hand.request });
                    }
                }
            }
        }
    }

    /// Queries the model from time to time in another thread, and takes the result once it is
    /// there.
    fn look(&mut self) {
        if let Some(choices) = &self.choices {
            let Ok(choices) = choices.try_recv() else { return };
            self.choices = None;
            let Some((_, &current)) = self.epochs.last_key_value() else { return };
            // A few requests in quick succession are no reason to change.
            let [often, rarely] = choices
                .map(|one| worth(&one.choices, one.interarrival_ms, &self.capacity, current));
            self.wanted = often.filter(|_| often == rarely);
            if often != rarely {
                // With more samples the request rate will be known better.
                self.estimates.asked_about = None;
            }
            return;
        }
        self.grants += 1;
        if !self.grants.is_multiple_of(LOOK_EVERY) {
            return;
        }
        self.asked_ns = self.client.now_ns();
        self.client.ask(0, TIMED_LOOK, get(&self.base, false));
        let Some(settings) = self.estimates.news(self.poll_ns) else { return };
        let (sender, receiver) = channel();
        self.choices = Some(receiver);
        std::thread::spawn(move || {
            let choices = settings.map(|setting| {
                let choices = rank(&setting, Available::default(), Matters::Mean);
                let interarrival_ms = setting.interarrival_ms;
                Ranking { interarrival_ms, choices: choices.unwrap_or_default() }
            });
            // The receiver is gone if the run is over.
            let _ = sender.send(choices);
        });
    }
}

impl Locker for Adaptive {
    fn now_ns(&self) -> u64 {
        self.client.now_ns()
    }

    fn acquire(&mut self, request: usize, client: usize) {
        keep(&mut self.estimates.arrivals_ns, self.client.now_ns());
        self.start(request, client);
    }

    fn release(&mut self, request: usize) {
        let now_ns = self.client.now_ns();
        let (attempt, since_ns) = self.holds.remove(&request).expect("the request holds the lock");
        keep(&mut self.estimates.holds_ns, now_ns - since_ns);
        self.look();
        let hand = self.hands[attempt].expect("a holder has a recipe");
        let newest = self.epochs.last_key_value().map_or(0, |(epoch, _)| *epoch);
        if self.known[hand.session] == Some(hand.epoch)
            && hand.epoch == newest
            && let Some(algorithm) = self.wanted.take()
        {
            let next = newest + 1;
            let path = format!("{}/e{next}", self.base);
            self.client.ask(hand.session, OTHER, create(&path, b"", CreateMode::default()));
            let data = encode(next, algorithm);
            self.client.ask(hand.session, OTHER, set(&self.base, data, newest));
            self.epochs.insert(next, algorithm);
        }
        self.leaving_ns.insert(attempt, now_ns);
        self.recipes.leave(&mut self.client, attempt);
    }

    fn wait(&mut self, until_ns: u64, told: &mut Vec<Told>) -> io::Result<()> {
        let mut heard = std::mem::take(&mut self.heard);
        while told.is_empty() {
            self.client.wait(until_ns, &mut heard)?;
            for heard in heard.drain(..) {
                let mut from_recipes = Vec::new();
                match heard {
                    Heard::Answer(answer) => self.answer(answer, &mut from_recipes)?,
                    Heard::Event { session, event } if *event.path == *self.base.as_bytes() => {
                        self.known[session] = None;
                        self.client.ask(session, LOOK, get(&self.base, true));
                    }
                    other => self.recipes.hear(&mut self.client, other, &mut from_recipes)?,
                }
                self.pass_on(from_recipes, told);
            }
            if self.client.now_ns() >= until_ns {
                break;
            }
        }
        self.heard = heard;
        Ok(())
    }

    fn counts(&self) -> Counts {
        self.client.counts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(between_ms: f64, held_ms: f64) -> Vec<Choice> {
        let timing = Timing::constant(20.0, 0.0, 1.0).unwrap();
        let setting = Setting { poll_ms: 2.0, ..Setting::new(timing, between_ms, held_ms) };
        let setting = Setting { requests: Some(HORIZON), ..setting };
        rank(&setting, Available::default(), Matters::Mean).unwrap()
    }

    const CAPACITY: Capacity = Capacity { reads_per_s: 20_000.0, writes_per_s: 10_000.0 };

    #[test]
    fn a_recipe_is_changed_when_that_is_worth_it() {
        let busy = choices(100.0, 60.0);
        let worth = |choices: &[Choice], every_ms, current| {
            super::worth(choices, every_ms, &CAPACITY, current)
        };
        let chosen = worth(&busy, 100.0, Algorithm::TasWatch).unwrap();
        assert_ne!(chosen, Algorithm::SyncQueue, "which is unsafe");
        assert_eq!(worth(&busy, 100.0, chosen), None, "there is nothing better");
        // An overloaded lock is overloaded with every recipe; some recipes are less slow.
        let overloaded = choices(50.0, 60.0);
        assert!(overloaded.iter().all(|choice| choice.prediction.growth_ms_per_request.is_some()));
        assert!(worth(&overloaded, 50.0, Algorithm::TasWatch).is_some());
        // Without waiters all recipes cost nearly the same.
        assert_eq!(worth(&choices(5_000.0, 1.0), 5_000.0, Algorithm::SyncTas), None);
    }

    #[test]
    fn what_the_service_cannot_carry_is_left_for_what_keeps_the_lock_as_stable() {
        let busy = choices(100.0, 60.0);
        let small = Capacity { reads_per_s: 100.0, writes_per_s: 10_000.0 };
        assert_ne!(worth(&busy, 100.0, &small, Algorithm::AsyncQueue), None);
        assert_ne!(worth(&busy, 100.0, &small, Algorithm::SyncTas), Some(Algorithm::AsyncQueue));
        // A lock that sends few requests and whose queue grows for ever is no improvement.
        let tiny = Capacity { reads_per_s: 1.0, writes_per_s: 1.0 };
        let stable: Vec<_> =
            busy.iter().filter(|one| one.prediction.state == State::Stable).collect();
        assert!(!stable.is_empty() && stable.len() < busy.len());
        let best = eligible(&busy, 100.0, &tiny)[0].prediction.state;
        assert_ne!(best, State::Overloaded);
    }

    #[test]
    fn a_lock_near_its_limit_is_judged_by_the_requests_that_come_and_not_by_all_that_ever_will() {
        // The polling queue is critical, and test-and-set with synchronous calls is not; over the
        // next two hundred requests the latter waits longer nevertheless.
        let near = choices(40.0, 16.3);
        let of = |algorithm: Algorithm| {
            let found = near.iter().find(|one| one.prediction.algorithm == algorithm);
            &found.unwrap().prediction
        };
        let (queue, tries) = (of(Algorithm::AsyncQueue), of(Algorithm::SyncTas));
        assert!(tries.state < queue.state && cost_ms(queue) < cost_ms(tries));
        assert_ne!(worth(&near, 40.0, &CAPACITY, Algorithm::AsyncQueue), Some(Algorithm::SyncTas));
    }

    #[test]
    fn the_nodes_data_say_the_epoch_and_the_recipe() {
        let data = encode(7, Algorithm::AsyncTas);
        assert_eq!(decode(data.as_bytes()), Some((7, Algorithm::AsyncTas)));
        assert_eq!(decode(b"7 nonsense"), None);
        assert_eq!(decode(b""), None);
    }

    #[test]
    fn little_was_seen_yet_so_nothing_is_estimated() {
        let mut estimates = Estimates { read_ns: 2e6, write_ns: 3e6, ..Estimates::default() };
        assert!(estimates.settings(1_000_000).is_none());
        (0..26).for_each(|number| keep(&mut estimates.arrivals_ns, number * 50_000_000));
        (0..20).for_each(|_| keep(&mut estimates.holds_ns, 10_000_000));
        let [often, setting] = estimates.settings(1_000_000).unwrap();
        assert_eq!((often.interarrival_ms, setting.interarrival_ms), (40.0, 60.0));
        assert_eq!(setting.service_ms, 10.0);
        assert_eq!((setting.poll_ms, setting.timing.client_rtt.mean_ms()), (1.0, 2.0));
    }

    #[test]
    fn the_model_is_asked_again_when_something_has_changed() {
        let mut estimates = Estimates { read_ns: 2e6, write_ns: 3e6, ..Estimates::default() };
        (0..26).for_each(|number| keep(&mut estimates.arrivals_ns, number * 50_000_000));
        (0..20).for_each(|_| keep(&mut estimates.holds_ns, 10_000_000));
        assert!(estimates.news(1_000_000).is_some());
        estimates.write_ns *= 1.2;
        assert!(estimates.news(1_000_000).is_none());
        estimates.write_ns *= 1.2;
        assert!(estimates.news(1_000_000).is_some(), "small changes add up");
        (0..20).for_each(|_| keep(&mut estimates.holds_ns, 20_000_000));
        assert!(estimates.news(1_000_000).is_some());
    }
}
