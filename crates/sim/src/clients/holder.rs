//! Simulated client of locks: it acquires a lock, works under it, and writes to the data that the
//! lock guards, with its token; or it writes within a section. Sometimes it pauses for longer than
//! its lease, continues although the lock is lost, forgets to release it, or disconnects.

mod habits;
mod open;
mod others;

use super::client::Action;
use crate::random::Random;
use adt::Reply;
use check::locks::{Act, Outcome, What};
pub use habits::{Habits, is_of_locks};
use habits::{lock_name, place};
use open::{Asks, Open, outcome, words};
use std::collections::{BTreeMap, VecDeque};

/// Time after which a client resends a request in doubt.
const RETRY_US: u64 = 50_000;

/// Next step of a client with a lock.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Works or pauses for so long.
    Rest(u64),
    /// Writes so many values without waiting in between.
    Write(u64),
    Read,
    Renew,
    Proclaim,
    /// Waits for so many milliseconds until another client wants the lock.
    Listen(u64),
    Release,
    Break,
    Leave,
}

/// Current activity.
#[derive(Debug)]
enum Stage {
    Idle,
    /// Waits for a lock: the act, and the request number if there is one.
    Asking(usize, Option<u64>),
    /// Holds a lock, or held one.
    Holding {
        lock: u64,
        token: u64,
        /// Number of tokens of the grant, and the current one.
        tokens: u64,
        at: u64,
    },
}

/// Client.
#[derive(Debug)]
pub struct Holder {
    id: u64,
    habits: Habits,
    random: Random,
    stage: Stage,
    plan: VecDeque<Step>,
    open: VecDeque<Open>,
    /// Time before which the client does nothing.
    rests_until_us: u64,
    numbers: u64,
    /// Last version of each lock's leader that the client has seen.
    seen: BTreeMap<String, u64>,
    /// Acts of the client.
    pub acts: Vec<Act>,
    /// Number of occurrences of rare events, by name.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Holder {
    /// Creates client number `id`.
    pub fn new(seed: u64, id: u64, habits: Habits) -> Self {
        Self {
            id,
            habits,
            random: Random::new(seed, &format!("holder {id}")),
            stage: Stage::Idle,
            plan: VecDeque::new(),
            open: VecDeque::new(),
            rests_until_us: 0,
            numbers: 0,
            seen: BTreeMap::new(),
            acts: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Whether the client has unfinished work.
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || !self.open.is_empty()
    }

    /// Current activity, for reports.
    pub fn activity(&self) -> String {
        let acts: Vec<_> = self.open.iter().map(|open| &self.acts[open.act]).collect();
        format!("{:?}, waits for {acts:?}", self.stage)
    }

    fn mark(&mut self, kind: &'static str) {
        *self.marks.entry(kind).or_default() += 1;
    }

    /// Actions of the client now. When the run is `over` it begins nothing new, and waits for no
    /// lock.
    pub fn go_on(&mut self, now_us: u64, over: bool) -> Vec<Action> {
        if over {
            self.rests_until_us = 0;
            self.plan.clear();
        }
        if let (true, Stage::Asking(..)) = (over, &self.stage) {
            (self.stage, self.open) = (Stage::Idle, VecDeque::new());
            return vec![Action::Leave(0)];
        }
        if !self.open.is_empty() {
            return Vec::new();
        }
        if now_us < self.rests_until_us {
            return vec![Action::Sleep(self.rests_until_us - now_us)];
        }
        match self.stage {
            Stage::Idle if over => Vec::new(),
            Stage::Idle => self.begin(now_us),
            Stage::Asking(act, number) => self.ask(act, number),
            Stage::Holding { lock, token, tokens, at } => {
                // The tokens of a block are used one after the other.
                let next = (at + u64::from(self.random.percent(50))).min(tokens - 1);
                self.stage = Stage::Holding { lock, token, tokens, at: next };
                // Sometimes an earlier user of one of those tokens is late.
                let late = next > 0 && self.random.percent(10);
                let own = token + if late { self.random.below(next) } else { next };
                self.step(now_us, lock, token, own)
            }
        }
    }

    /// Begins an observation or an acquisition.
    fn begin(&mut self, now_us: u64) -> Vec<Action> {
        let lock = self.random.below(self.habits.locks);
        if self.random.percent(30) {
            return match self.elects() {
                true => self.observe(now_us, lock_name(lock)),
                false => self.read(now_us, lock, None),
            };
        }
        let numbered = self.random.percent(self.habits.numbered_percent);
        self.numbers += u64::from(numbered);
        let number = numbered.then_some(self.numbers);
        let (lease_us, again) = (self.habits.lease_ms * 1000, false);
        let shared = self.random.percent(self.habits.shared_percent);
        if self.random.percent(self.habits.sections_percent) {
            return self.begin_section(now_us, lock, shared, number);
        }
        if self.habits.meets_percent > 0 && self.random.percent(self.habits.meets_percent) {
            return self.meet(now_us, number);
        }
        let value = (!shared && self.elects()).then(|| self.unique_value("elected"));
        let blocks = value.is_none() && self.random.percent(self.habits.blocks_percent);
        let tokens = if blocks { self.random.between(2, 2_000) } else { 1 };
        let lock = lock_name(lock);
        let plain = value.is_none() && tokens == 1;
        let near = plain && !shared && self.random.percent(self.habits.near_percent);
        let next = plain && !near && !shared && self.random.percent(self.habits.next_percent);
        let tries = plain && !near && !next && self.random.percent(self.habits.tries_percent);
        let limit = if shared { self.habits.limit } else { 0 };
        let what = What::Acquire {
            lock,
            lease_us,
            shared,
            limit,
            again,
            value,
            tries,
            tokens,
            near,
            next,
        };
        let act = self.act(now_us, what);
        self.stage = Stage::Asking(act, number);
        self.ask(act, number)
    }

    /// Begins a section that writes.
    fn begin_section(
        &mut self,
        now_us: u64,
        lock: u64,
        shared: bool,
        number: Option<u64>,
    ) -> Vec<Action> {
        let value = format!("section.{}.{}", self.id, self.acts.len());
        // The register is on the shard of the lock; a journal may be elsewhere.
        let journal = !self.habits.requires && self.random.percent(50);
        let register = !journal || self.random.percent(50);
        let (lock, place, again) = (lock_name(lock), place(lock, 0), false);
        let limit = if shared { self.habits.limit } else { 0 };
        let what = What::Section { lock, shared, limit, again, place, value, register, journal };
        let act = self.act(now_us, what);
        self.stage = Stage::Asking(act, number);
        self.ask(act, number)
    }

    fn act(&mut self, now_us: u64, what: What) -> usize {
        let (who, asked_us, ended_us) = (self.id, now_us, u64::MAX);
        self.acts.push(Act { who, asked_us, ended_us, what, outcome: Outcome::Unknown });
        self.acts.len() - 1
    }

    fn send(&mut self, act: usize, commands: Vec<Vec<String>>) -> Vec<Action> {
        let (left, unsent, asks) = (commands.len(), VecDeque::new(), Asks::Nothing);
        self.open.push_back(Open { act, left, unsent, asks });
        commands.into_iter().map(Action::Send).collect()
    }

    /// Begins a transaction that continues as long as the lock is held.
    fn transact(&mut self, act: usize, held: String, writes: Vec<String>) -> Vec<Action> {
        let commands = [held].into_iter().chain(writes).chain(["txn commit".to_owned()]);
        let unsent: VecDeque<_> = commands.map(|command| words(&command)).collect();
        let left = unsent.len() + 1;
        self.open.push_back(Open { act, left, unsent, asks: Asks::Next });
        vec![Action::Send(words("txn begin"))]
    }

    fn ask(&mut self, act: usize, number: Option<u64>) -> Vec<Action> {
        let Habits { lease_ms, timeout_ms, .. } = self.habits;
        let share = |shared: &bool, limit: &usize| match (shared, limit) {
            (false, _) => String::new(),
            (true, 0) => " shared".to_owned(),
            (true, limit) => format!(" limit {limit}"),
        };
        let options = |share: String| format!("timeout {timeout_ms} owner {}{share}", self.id);
        let alone = String::new;
        let asked = match &self.acts[act].what {
            What::Acquire { lock, value: Some(value), .. } => {
                let rest = format!("lease {lease_ms} {}", options(alone()));
                vec![format!("election.campaign {lock} {value} {rest}")]
            }
            What::Meet { barrier, parties, .. } => {
                vec![format!("barrier.wait {barrier} {parties} {}", options(alone()))]
            }
            What::Acquire { lock, shared, limit, tries: true, .. } => {
                let share = share(shared, limit);
                vec![format!("lock.try {lock} lease {lease_ms} owner {}{share}", self.id)]
            }
            What::Acquire { lock, shared, limit, tokens, near, next, .. } => {
                let more = match (*tokens, near) {
                    _ if *next => " next".to_owned(),
                    (_, true) => " near".to_owned(),
                    (1, _) => String::new(),
                    (tokens, _) => format!(" tokens {tokens}"),
                };
                vec![format!(
                    "lock.acquire {lock} lease {lease_ms} {}{more}",
                    options(share(shared, limit))
                )]
            }
            What::Section { lock, shared, limit, place, value, register, journal, .. } => {
                let section = format!("lock.section {lock} {}", options(share(shared, limit)));
                let (register_key, journal_key) = self.habits.keys(place);
                let set = format!("set {register_key} {value}");
                let push = format!("rpush {journal_key} {value}");
                match (register, journal) {
                    (true, true) => {
                        ["multi", &section, &set, &push, "exec"].map(str::to_owned).into()
                    }
                    // A section of a single command does not return the token.
                    (true, _) => vec![format!("{section} {set}")],
                    _ => ["multi", &section, &push, "exec"].map(str::to_owned).into(),
                }
            }
            _ => return Vec::new(),
        };
        let request = number.map(|number| format!("client request holder-{} {number}", self.id));
        let commands = request.iter().chain(&asked).map(|command| words(command)).collect();
        self.send(act, commands)
    }

    /// Next step of the client with a lock, with the token of the grant and the one it uses.
    fn step(&mut self, now_us: u64, lock: u64, token: u64, own: u64) -> Vec<Action> {
        let name = lock_name(lock);
        match self.plan.pop_front() {
            None => {
                self.stage = Stage::Idle;
                self.rest(now_us, self.habits.work_us)
            }
            Some(Step::Rest(us)) => {
                self.rests_until_us = now_us + us;
                vec![Action::Sleep(us)]
            }
            Some(Step::Write(count)) => {
                let count = if self.habits.requires { 1 } else { count };
                (0..count).flat_map(|_| self.write(now_us, lock, own)).collect()
            }
            Some(Step::Read) => self.read(now_us, lock, Some(own)),
            Some(Step::Listen(ms)) => {
                let act = self.act(now_us, What::Listen { lock: name.clone(), token });
                self.send(act, vec![words(&format!("lock.wanted {name} {token} timeout {ms}"))])
            }
            Some(Step::Renew) => {
                let act = self.act(now_us, What::Renew { lock: name.clone(), token });
                self.send(act, vec![words(&format!("lock.renew {name} {token}"))])
            }
            Some(Step::Proclaim) => self.proclaim(now_us, name, token),
            Some(Step::Release) => {
                let act = self.act(now_us, What::Release { lock: name.clone(), token });
                self.send(act, vec![words(&format!("lock.release {name} {token}"))])
            }
            Some(Step::Break) => {
                self.mark("locks_taken_away");
                let act = self.act(now_us, What::Break { lock: name.clone() });
                self.send(act, vec![words(&format!("del {name}"))])
            }
            Some(Step::Leave) => {
                self.mark("holders_left");
                vec![Action::Leave(self.random.below(2 * self.habits.lease_ms * 1000))]
            }
        }
    }

    fn rest(&mut self, now_us: u64, us: u64) -> Vec<Action> {
        // Longer than some leases, and shorter than a run.
        let us = self.random.tail(us).min(4_000_000);
        self.rests_until_us = now_us + us;
        vec![Action::Sleep(us)]
    }

    /// Writes a value into the register or the journal of a place, or both, fenced.
    fn write(&mut self, now_us: u64, lock: u64, token: u64) -> Vec<Action> {
        let place = place(lock, self.random.below(self.habits.places));
        let (lock, (register_key, journal_key)) = (lock_name(lock), self.habits.keys(&place));
        let value = format!("{token}.{}.{}", self.id, self.acts.len());
        let (register, journal) = *self.random.pick(&[(true, false), (false, true), (true, true)]);
        let set = format!("set {register_key} {value}");
        let push = format!("rpush {journal_key} {value}");
        let fence = format!("fence {lock} {token}");
        if self.habits.requires {
            let held = format!("lock.held {lock} {token}");
            let writes = [register.then_some(set), journal.then_some(push)];
            let what = What::Write { place, lock, token, value, register, journal };
            let act = self.act(now_us, what);
            return self.transact(act, held, writes.into_iter().flatten().collect());
        }
        let commands = match (register, journal) {
            (true, true) => vec!["multi".to_owned(), fence, set, push, "exec".to_owned()],
            (true, _) => vec![format!("{fence} {set}")],
            _ => vec![format!("{fence} {push}")],
        };
        let what = What::Write { place, lock, token, value, register, journal };
        let act = self.act(now_us, what);
        self.send(act, commands.iter().map(|command| words(command)).collect())
    }

    fn read(&mut self, now_us: u64, lock: u64, token: Option<u64>) -> Vec<Action> {
        let place = place(lock, self.random.below(self.habits.places));
        let (register_key, journal_key) = self.habits.keys(&place);
        let journal = self.random.percent(50);
        let fences = !self.habits.requires && self.random.percent(50);
        let token = token.filter(|_| fences);
        let fence = token.map(|token| (lock_name(lock), token));
        let prefix = fence.as_ref().map(|(lock, token)| format!("fence {lock} {token} "));
        let prefix = prefix.unwrap_or_default();
        let act = self.act(now_us, What::Read { place, fence, journal });
        let command = match journal {
            true => format!("{prefix}lrange {journal_key} 0 -1"),
            false => format!("{prefix}get {register_key}"),
        };
        self.send(act, vec![words(&command)])
    }

    /// Handles a reply. Returns the immediate actions.
    pub fn reply(&mut self, now_us: u64, reply: &Reply, over: bool) -> Vec<Action> {
        let Some(open) = self.open.front_mut() else { return Vec::new() };
        if let Some(command) = open.next(reply) {
            return vec![Action::Send(command)];
        }
        if open.left > 0 {
            return Vec::new();
        }
        let (act, lost) = (open.act, open.asks == Asks::Lost);
        self.open.pop_front();
        let outcome = match lost {
            true => Outcome::Refused,
            false => outcome(&self.acts[act].what, reply),
        };
        if lost {
            self.mark("locks_found_lost");
        }
        if let (Outcome::Unknown, Stage::Asking(_, Some(_))) = (&outcome, &self.stage) {
            return self.again(now_us);
        }
        self.settle(now_us, act, outcome);
        self.go_on(now_us, over)
    }

    /// Resends a numbered request, which takes effect once.
    fn again(&mut self, now_us: u64) -> Vec<Action> {
        if let Stage::Asking(act, _) = self.stage
            && let What::Acquire { again, .. }
            | What::Section { again, .. }
            | What::Meet { again, .. } = &mut self.acts[act].what
        {
            *again = true;
            self.mark("locks_asked_again");
        }
        self.rest(now_us, RETRY_US)
    }

    fn settle(&mut self, now_us: u64, act: usize, outcome: Outcome) {
        let done = &mut self.acts[act];
        (done.ended_us, done.outcome) = (now_us, outcome.clone());
        let mut granted = None;
        let mark = match (&done.what, &outcome) {
            (
                What::Acquire { lock, again, value, tries, tokens, near, .. },
                Outcome::Granted(token),
            ) => {
                granted = Some((lock.clone(), *again, value.is_some(), *token, *tokens));
                match (*tokens, near) {
                    (_, true) => "stays_near",
                    (1, _) if *tries => "locks_granted_at_once",
                    (1, _) => "locks_granted",
                    _ => "blocks_granted",
                }
            }
            (What::Listen { .. }, Outcome::Done) => "holders_that_listened",
            (What::Section { .. }, Outcome::Granted(_) | Outcome::Done) => "sections",
            (What::Section { .. }, Outcome::Fenced) => "sections_fenced",
            // An earlier attempt may have been granted.
            (What::Meet { .. }, Outcome::Granted(_)) => "barriers_passed",
            (
                What::Acquire { again: true, .. }
                | What::Section { again: true, .. }
                | What::Meet { again: true, .. },
                _,
            ) => {
                (done.ended_us, done.outcome) = (u64::MAX, Outcome::Unknown);
                "locks_not_granted"
            }
            (What::Acquire { .. }, _) => "locks_not_granted",
            (What::Meet { .. }, _) => "barriers_not_passed",
            (What::Proclaim { .. }, Outcome::Granted(_)) => "proclamations",
            (What::Observe { lock, .. }, Outcome::Led(led)) => {
                let version = led.as_ref().map_or(0, |led| led.version);
                self.seen.insert(lock.clone(), version);
                "leaders_told"
            }
            (What::Section { .. }, Outcome::Refused) => "sections_not_let_in",
            (What::Write { .. }, Outcome::Done) if self.habits.requires => "writes_with_lock_held",
            (What::Write { .. }, Outcome::Done) => "fenced_writes",
            (What::Write { .. }, Outcome::Fenced) => "old_tokens_refused",
            (What::Renew { .. }, Outcome::Refused) => "leases_found_ended",
            (What::Release { .. }, Outcome::Refused) => "releases_too_late",
            (_, Outcome::Unknown) => "holders_told_indefinite",
            _ => "",
        };
        if !mark.is_empty() {
            self.mark(mark);
        }
        if let Some((lock, again, elected, token, tokens)) = granted {
            let lock = lock.trim_start_matches("lock").parse().unwrap_or_default();
            self.stage = Stage::Holding { lock, token, tokens, at: 0 };
            self.plan = self.draw_plan(again, elected);
        } else if matches!(self.stage, Stage::Asking(..)) {
            self.stage = Stage::Idle;
        }
        if matches!(self.stage, Stage::Idle) {
            let us = self.random.tail(self.habits.work_us / 4 + 1).min(1_000_000);
            self.rests_until_us = now_us + us;
        }
    }

    /// Draws the steps for a granted lock. If the grant's request was sent twice, the client renews
    /// the lock first.
    fn draw_plan(&mut self, again: bool, elected: bool) -> VecDeque<Step> {
        let Habits { work_us, lease_ms, .. } = self.habits;
        let mut plan = VecDeque::new();
        plan.extend(again.then_some(Step::Renew));
        for _ in 0..self.random.between(1, 4) {
            plan.push_back(match self.random.percent(self.habits.stands_percent) {
                true => Step::Rest(self.random.between(lease_ms * 500, lease_ms * 3_000)),
                false => Step::Rest(self.random.between(work_us / 8, work_us)),
            });
            if self.random.percent(self.habits.renews_percent) {
                plan.push_back(Step::Renew);
            }
            plan.extend((elected && self.random.percent(50)).then_some(Step::Proclaim));
            if self.random.percent(self.habits.blocks_percent / 4) {
                plan.push_back(Step::Listen(self.random.between(1, lease_ms)));
            }
            plan.push_back(match self.random.percent(25) {
                true => Step::Read,
                false => Step::Write(self.random.between(1, 3)),
            });
        }
        if self.random.percent(self.habits.breaks_percent) {
            plan.push_back(Step::Break);
        }
        if self.random.percent(self.habits.forgets_percent) {
            plan.extend(self.random.percent(50).then_some(Step::Leave));
        } else {
            plan.push_back(Step::Release);
        }
        // The client continues to work after releasing the lock, or while it believes that it still
        // holds it.
        if self.random.percent(10) {
            plan.extend([Step::Rest(work_us), Step::Write(1)]);
        }
        plan
    }

    /// Handles the loss of the connection, and with it of all outstanding answers.
    pub fn disconnected(&mut self) {
        self.open.clear();
        let Stage::Asking(act, number) = self.stage else { return };
        match (number, &mut self.acts[act].what) {
            (
                Some(_),
                What::Acquire { again, .. }
                | What::Section { again, .. }
                | What::Meet { again, .. },
            ) => *again = true,
            _ => self.stage = Stage::Idle,
        }
    }
}
