//! One simulated client of locks: it asks for a lock, works under it, and writes to what the lock guards,
//! with its token. Sometimes it stands still for longer than its lease, goes on although the lock is lost,
//! forgets to give it back, or leaves.

use crate::client::Wish;
use crate::random::Random;
use adt::Reply;
use check::locks::{Act, Outcome, What};
use std::collections::{BTreeMap, VecDeque};

/// How long a client waits before it sends a request in doubt once more.
const RETRY_US: u64 = 50_000;

/// What the clients of a run are like.
#[derive(Clone, Copy, Debug)]
pub struct Habits {
    /// How many locks there are, and how many places each guards.
    locks: u64,
    places: u64,
    lease_ms: u64,
    /// How long they wait for a lock at most; nought is for ever.
    timeout_ms: u64,
    /// How long they work between two steps, mostly.
    work_us: u64,
    /// How many of a hundred steps they stand still at, for up to three leases.
    stands_percent: u64,
    /// How many of a hundred steps they renew the lease before.
    renews_percent: u64,
    /// How many of a hundred times they do not give the lock back, or leave it with the connection.
    forgets_percent: u64,
    /// How many of a hundred acquisitions share the lock, and how many have a request number.
    shared_percent: u64,
    numbered_percent: u64,
    /// What they write they write in transactions that read the lock, and not under fences.
    requires: bool,
    /// How many of a hundred holders somebody takes the lock away from.
    breaks_percent: u64,
}

impl Habits {
    /// The habits of all clients of a run.
    pub fn draw(random: &mut Random, cluster: bool) -> Self {
        let leases = if cluster { [100, 400, 1_500, 4_000] } else { [20, 50, 200, 500] };
        let lease_ms = *random.pick(&leases);
        let requires = random.percent(25);
        // Who shares a lock holds it with smaller and larger tokens.
        let shared_percent = *random.pick(&[0, 0, 0, 40]);
        Self {
            locks: random.between(1, 3),
            places: random.between(1, 2),
            lease_ms,
            timeout_ms: *random.pick(&[0, 0, lease_ms, 3 * lease_ms, 10]),
            work_us: *random.pick(&[lease_ms * 10, lease_ms * 50, lease_ms * 200]),
            stands_percent: *random.pick(&[0, 5, 30]),
            renews_percent: *random.pick(&[0, 20, 60]),
            forgets_percent: *random.pick(&[0, 5, 30]),
            shared_percent: if requires { 0 } else { shared_percent },
            requires,
            numbered_percent: *random.pick(&[0, 50, 100]),
            breaks_percent: *random.pick(&[0, 0, 0, 5]),
        }
    }

    /// The keys of what a lock guards in one of its places: they are in one slot, as what is fenced together
    /// must be, but for transactions.
    fn keys(&self, place: &str) -> (String, String) {
        let elsewhere = if self.requires { "-elsewhere" } else { "" };
        (format!("reg{{{place}}}"), format!("jou{{{place}{elsewhere}}}"))
    }

    /// Every place with its register and its journal.
    pub fn all(&self) -> Vec<(String, String, String)> {
        let places = (0..self.locks).flat_map(|lock| (0..self.places).map(move |n| (lock, n)));
        let named = places.map(|(lock, n)| place(lock, n));
        let with_keys = named.map(|place| {
            let (register, journal) = self.keys(&place);
            (place, register, journal)
        });
        with_keys.collect()
    }
}

/// Whether a key is a lock, or what one guards.
pub fn is_of_locks(key: &str) -> bool {
    ["lock", "reg{", "jou{"].iter().any(|prefix| key.starts_with(prefix))
}

fn lock_name(lock: u64) -> String {
    format!("lock{lock}")
}

/// The first place of a lock is where the lock is; others may be anywhere.
fn place(lock: u64, n: u64) -> String {
    if n == 0 { lock_name(lock) } else { format!("place{lock}-{n}") }
}

/// What it does next.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// It works, or stands still.
    Rest(u64),
    /// Writes, so many without waiting in between.
    Write(u64),
    Read,
    Renew,
    Release,
    Break,
    Leave,
}

/// What it is about.
#[derive(Debug)]
enum Stage {
    Idle,
    /// It wants a lock: the act, and the request number if there is one.
    Asking(usize, Option<u64>),
    /// It has, or had, a lock.
    Holding {
        lock: u64,
        token: u64,
    },
}

/// Something that is not answered.
#[derive(Debug)]
struct Open {
    act: usize,
    /// How many replies are missing; the last one counts.
    left: usize,
    /// The rest of a transaction, of which each command is sent when the one before it is answered; the
    /// first asks whether the lock is held.
    unsent: VecDeque<Vec<String>>,
    asks: Asks,
}

/// Whether the lock of a transaction is held.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asks {
    /// Nobody asks.
    Nothing,
    /// It begins, and is to ask next.
    Next,
    /// The next reply tells.
    Now,
    /// It is, as far as it is known.
    Held,
    /// It is not: the transaction is to be ended.
    Lost,
}

/// A client.
#[derive(Debug)]
pub struct Holder {
    id: u64,
    habits: Habits,
    random: Random,
    stage: Stage,
    plan: VecDeque<Step>,
    open: VecDeque<Open>,
    /// It does nothing before this time.
    rests_until_us: u64,
    numbers: u64,
    /// What it has done.
    pub acts: Vec<Act>,
    /// How often it has seen what is rare.
    pub marks: BTreeMap<&'static str, u64>,
}

impl Holder {
    /// Client number `id`.
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
            acts: Vec::new(),
            marks: BTreeMap::new(),
        }
    }

    /// Whether it is in the middle of something.
    pub fn is_busy(&self) -> bool {
        !matches!(self.stage, Stage::Idle) || !self.open.is_empty()
    }

    fn mark(&mut self, kind: &'static str) {
        *self.marks.entry(kind).or_default() += 1;
    }

    /// What it does now. When all is `over` it begins nothing new, and waits for no lock.
    pub fn go_on(&mut self, now_us: u64, over: bool) -> Vec<Wish> {
        if over {
            self.rests_until_us = 0;
            self.plan.clear();
        }
        if let (true, Stage::Asking(..)) = (over, &self.stage) {
            (self.stage, self.open) = (Stage::Idle, VecDeque::new());
            return vec![Wish::Leave(0)];
        }
        if !self.open.is_empty() {
            return Vec::new();
        }
        if now_us < self.rests_until_us {
            return vec![Wish::Sleep(self.rests_until_us - now_us)];
        }
        match self.stage {
            Stage::Idle if over => Vec::new(),
            Stage::Idle => self.begin(now_us),
            Stage::Asking(act, number) => self.ask(act, number),
            Stage::Holding { lock, token } => self.step(now_us, lock, token),
        }
    }

    /// It looks at something, or asks for a lock.
    fn begin(&mut self, now_us: u64) -> Vec<Wish> {
        let lock = self.random.below(self.habits.locks);
        if self.random.percent(30) {
            return self.read(now_us, lock, None);
        }
        let numbered = self.random.percent(self.habits.numbered_percent);
        self.numbers += u64::from(numbered);
        let number = numbered.then_some(self.numbers);
        let (lease_us, again) = (self.habits.lease_ms * 1000, false);
        let shared = self.random.percent(self.habits.shared_percent);
        let act =
            self.act(now_us, What::Acquire { lock: lock_name(lock), lease_us, shared, again });
        self.stage = Stage::Asking(act, number);
        self.ask(act, number)
    }

    fn act(&mut self, now_us: u64, what: What) -> usize {
        let (who, asked_us, ended_us) = (self.id, now_us, u64::MAX);
        self.acts.push(Act { who, asked_us, ended_us, what, outcome: Outcome::Unknown });
        self.acts.len() - 1
    }

    fn send(&mut self, act: usize, commands: Vec<Vec<String>>) -> Vec<Wish> {
        let (left, unsent, asks) = (commands.len(), VecDeque::new(), Asks::Nothing);
        self.open.push_back(Open { act, left, unsent, asks });
        commands.into_iter().map(Wish::Send).collect()
    }

    /// A transaction that goes on as long as the lock is held.
    fn transact(&mut self, act: usize, held: String, writes: Vec<String>) -> Vec<Wish> {
        let commands = [held].into_iter().chain(writes).chain(["txn commit".to_owned()]);
        let unsent: VecDeque<_> = commands.map(|command| words(&command)).collect();
        let left = unsent.len() + 1;
        self.open.push_back(Open { act, left, unsent, asks: Asks::Next });
        vec![Wish::Send(words("txn begin"))]
    }

    fn ask(&mut self, act: usize, number: Option<u64>) -> Vec<Wish> {
        let What::Acquire { lock, shared, .. } = &self.acts[act].what else { return Vec::new() };
        let Habits { lease_ms, timeout_ms, .. } = self.habits;
        let shared = if *shared { " shared" } else { "" };
        let mut commands = Vec::new();
        if let Some(number) = number {
            commands.push(words(&format!("client request holder-{} {number}", self.id)));
        }
        commands.push(words(&format!(
            "lock.acquire {lock} timeout {timeout_ms} lease {lease_ms} owner {}{shared}",
            self.id
        )));
        self.send(act, commands)
    }

    /// The next step of whoever has a lock.
    fn step(&mut self, now_us: u64, lock: u64, token: u64) -> Vec<Wish> {
        let name = lock_name(lock);
        match self.plan.pop_front() {
            None => {
                self.stage = Stage::Idle;
                self.rest(now_us, self.habits.work_us)
            }
            Some(Step::Rest(us)) => {
                self.rests_until_us = now_us + us;
                vec![Wish::Sleep(us)]
            }
            Some(Step::Write(count)) => {
                let count = if self.habits.requires { 1 } else { count };
                (0..count).flat_map(|_| self.write(now_us, lock, token)).collect()
            }
            Some(Step::Read) => self.read(now_us, lock, Some(token)),
            Some(Step::Renew) => {
                let act = self.act(now_us, What::Renew { lock: name.clone(), token });
                self.send(act, vec![words(&format!("lock.renew {name} {token}"))])
            }
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
                vec![Wish::Leave(self.random.below(2 * self.habits.lease_ms * 1000))]
            }
        }
    }

    fn rest(&mut self, now_us: u64, us: u64) -> Vec<Wish> {
        // Longer than some leases, and shorter than a run.
        let us = self.random.tail(us).min(4_000_000);
        self.rests_until_us = now_us + us;
        vec![Wish::Sleep(us)]
    }

    /// A value into the register or the journal of a place or both, fenced.
    fn write(&mut self, now_us: u64, lock: u64, token: u64) -> Vec<Wish> {
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

    fn read(&mut self, now_us: u64, lock: u64, token: Option<u64>) -> Vec<Wish> {
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

    /// A reply has come; what it does at once.
    pub fn reply(&mut self, now_us: u64, reply: &Reply, over: bool) -> Vec<Wish> {
        let Some(open) = self.open.front_mut() else { return Vec::new() };
        if let Some(command) = open.next(reply) {
            return vec![Wish::Send(command)];
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

    /// What was asked for under a number is asked for once more, and takes effect once.
    fn again(&mut self, now_us: u64) -> Vec<Wish> {
        if let Stage::Asking(act, _) = self.stage
            && let What::Acquire { again, .. } = &mut self.acts[act].what
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
            (What::Acquire { lock, again, .. }, Outcome::Granted(token)) => {
                granted = Some((lock.clone(), *again, *token));
                "locks_granted"
            }
            // An attempt before this one may have been granted.
            (What::Acquire { again: true, .. }, _) => {
                (done.ended_us, done.outcome) = (u64::MAX, Outcome::Unknown);
                "locks_not_granted"
            }
            (What::Acquire { .. }, _) => "locks_not_granted",
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
        if let Some((lock, again, token)) = granted {
            let lock = lock.trim_start_matches("lock").parse().unwrap_or_default();
            self.stage = Stage::Holding { lock, token };
            self.plan = self.draw_plan(again);
        } else if matches!(self.stage, Stage::Asking(..)) {
            self.stage = Stage::Idle;
        }
        if matches!(self.stage, Stage::Idle) {
            let us = self.random.tail(self.habits.work_us / 4 + 1).min(1_000_000);
            self.rests_until_us = now_us + us;
        }
    }

    /// What it does with a lock; who was granted it under a number that was asked twice renews it first.
    fn draw_plan(&mut self, again: bool) -> VecDeque<Step> {
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
        // It is at work still when it has given the lock back, or thinks that it goes on having it.
        if self.random.percent(10) {
            plan.extend([Step::Rest(work_us), Step::Write(1)]);
        }
        plan
    }

    /// The connection is gone, and with it the answers to whatever was asked.
    pub fn disconnected(&mut self) {
        self.open.clear();
        let Stage::Asking(act, number) = self.stage else { return };
        match (number, &mut self.acts[act].what) {
            (Some(_), What::Acquire { again, .. }) => *again = true,
            _ => self.stage = Stage::Idle,
        }
    }
}

impl Open {
    /// A reply has come; the command that is sent then, if it is a transaction that goes on.
    fn next(&mut self, reply: &Reply) -> Option<Vec<String>> {
        self.left -= 1;
        if self.asks == Asks::Nothing {
            return None;
        }
        let ends = |code| ["TXNABORT", "INDEFINITE"].contains(&code);
        if matches!(reply, Reply::Error(error) if ends(error.code())) {
            self.left = 0;
            return None;
        }
        self.asks = match (self.asks, reply) {
            (Asks::Next, _) => Asks::Now,
            (Asks::Now, Reply::Int(1..)) => Asks::Held,
            (Asks::Now, _) => Asks::Lost,
            (asks, _) => asks,
        };
        if self.asks == Asks::Lost && self.left > 1 {
            (self.left, self.unsent) = (1, VecDeque::new());
            return Some(words("txn abort"));
        }
        self.unsent.pop_front()
    }
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// What a reply says of an act.
fn outcome(what: &What, reply: &Reply) -> Outcome {
    let text = |reply: &Reply| match reply {
        Reply::Bulk(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    };
    match (what, reply) {
        (_, Reply::Error(error)) => match error.code() {
            "FENCED" => Outcome::Fenced,
            // It took effect, and what it has answered is lost.
            "INDEFINITE" | "REPEATED" => Outcome::Unknown,
            _ => Outcome::Refused,
        },
        (What::Acquire { .. }, Reply::Int(token)) => Outcome::Granted(token.unsigned_abs()),
        (What::Acquire { .. }, _) => Outcome::Refused,
        (What::Renew { .. } | What::Release { .. }, Reply::Int(0)) => Outcome::Refused,
        (What::Read { .. }, Reply::Array(items)) => {
            Outcome::Read(items.iter().filter_map(text).collect())
        }
        (What::Read { .. }, reply) => Outcome::Read(text(reply).into_iter().collect()),
        _ => Outcome::Done,
    }
}
