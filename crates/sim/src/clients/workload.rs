//! Workload of simulated clients: transactions of every form over lists, sets, registers, counters,
//! claims (`SET ... NX`), draws from sets (`SPOP`) and bank accounts, with values that are never
//! written twice.

use crate::random::Random;
use adt::Reply;
use std::cell::Cell;
use std::rc::Rc;

/// Number of bank accounts.
pub const ACCOUNTS: u64 = 6;
/// Money in each account at the beginning.
pub const DEPOSIT: i64 = 100;

/// Number of values after which the clients of a run go on with other keys: they read whole lists
/// and sets, so the history would grow with the square of the number of writes.
const VALUES_PER_KEYS: u64 = 500;

/// Form in which the operations of a transaction are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One command.
    Single,
    /// `MULTI` ... `EXEC` in one piece.
    Multi,
    /// `EVAL` of a script that runs the operations.
    Eval,
    /// `WATCH`, the reads, then the writes in `MULTI` ... `EXEC`, which may compare what was read.
    Watch,
    /// `TXN BEGIN`, one command after the other, `TXN COMMIT`.
    Interactive,
    /// `TXN` with writers that answer at the commit.
    Blind,
    /// `TXN` with reads only.
    ReadOnly,
    /// Commands that are sent without waiting for replies, each an independent transaction.
    Pipeline,
}

/// Subject of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Subject {
    Plain,
    Transfer,
    Balances,
    Claims,
    Draws,
}

/// Forms and subjects of a run, each as frequent as it occurs here.
#[derive(Clone, Debug)]
pub struct Mix {
    forms: Vec<Form>,
    subjects: Vec<Subject>,
    /// Of lists, sets and registers.
    kinds: Vec<&'static str>,
    /// Percentage of plain operations that only read.
    reads_percent: u64,
    keys: u64,
    /// Limit on the commands of a pipeline.
    longest: u64,
    /// Whether commands of pipelines are scripts that run them.
    with_scripts: bool,
    /// Whether lists and sets are parts of values of a composed type.
    typed: bool,
    /// Number of values that all clients of the run have written.
    written: Rc<Cell<u64>>,
}

/// Percentage of runs in which interactive transactions meet on a few records.
const HOT_PERCENT: u64 = 15;

impl Mix {
    /// Draws the mix of a run, with at least one form and one subject.
    pub fn draw(random: &mut Random) -> Self {
        use {Form as F, Subject as S};
        let forms = [F::Single, F::Multi, F::Eval, F::Watch, F::Interactive, F::Blind, F::ReadOnly];
        let forms = [&forms[..], &[F::Pipeline, F::Single, F::Multi, F::Multi]].concat();
        let subjects = [S::Transfer, S::Transfer, S::Balances, S::Claims, S::Draws];
        let subjects = [&subjects[..], &[S::Plain, S::Plain, S::Plain]].concat();
        let mix = Self {
            forms: some_of(random, &forms),
            subjects: some_of(random, &subjects),
            kinds: some_of(random, &["l", "s", "r"]),
            reads_percent: *random.pick(&[20, 45, 45, 70]),
            with_scripts: false,
            typed: false,
            keys: random.between(1, 6),
            longest: 4,
            written: Rc::default(),
        };
        if !random.percent(HOT_PERCENT) {
            return mix;
        }
        let forms = [&[F::Interactive; 4][..], &[F::Single]].concat();
        Self { forms, subjects: vec![S::Plain, S::Plain, S::Draws], keys: 1, ..mix }
    }

    /// The mix, over values of a composed type or not.
    pub fn with_types(self, typed: bool) -> Self {
        Self { typed, ..self }
    }

    /// Whether lists and sets are parts of values of a composed type.
    pub fn is_typed(&self) -> bool {
        self.typed
    }

    /// Limit on the commands of a pipeline.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// Draws a mix that consists mostly of scripts, with some of everything else.
    pub fn of_scripts(random: &mut Random) -> Self {
        let mix = Self::draw(random);
        let scripts = 3 * mix.forms.len();
        let pipelines = vec![Form::Pipeline; mix.forms.len()];
        let forms = [mix.forms, vec![Form::Eval; scripts], pipelines].concat();
        Self { forms, keys: random.between(1, 4), with_scripts: true, ..mix }
    }

    /// The mix without anything but scripts.
    pub fn with_scripts_only(self) -> Self {
        Self { forms: vec![Form::Eval], ..self }
    }

    /// Draws a mix that consists mostly of pipelines, with some of everything else.
    pub fn of_pipelines(random: &mut Random) -> Self {
        let mix = Self::draw(random);
        let pipelines = 2 * mix.forms.len();
        let forms = [mix.forms, vec![Form::Pipeline; pipelines]].concat();
        let keys = random.between(2, 8);
        Self { forms, keys, longest: *random.pick(&[4, 4, 8, 40]), ..mix }
    }
}

/// Draws all items in every other run, else about half.
fn some_of<T: Copy>(random: &mut Random, all: &[T]) -> Vec<T> {
    if random.percent(50) {
        return all.to_vec();
    }
    let mut some: Vec<T> = all.iter().copied().filter(|_| random.percent(50)).collect();
    if some.is_empty() {
        some.push(*random.pick(all));
    }
    some
}

/// Transaction to be executed.
#[derive(Clone, Debug)]
pub struct Script {
    /// Form.
    pub form: Form,
    /// Operations, as the checkers see them.
    pub ops: Vec<Vec<String>>,
    /// Whether it has a request number, so that it can be resent after a crash.
    pub numbered: bool,
    /// Whether most commands of it, a pipeline, are scripts that run its operations.
    pub with_scripts: bool,
}

/// Generator of scripts.
#[derive(Debug)]
pub struct Workload {
    random: Random,
    mix: Mix,
    unique: u64,
    client: u64,
    /// Whether it only reads, one key at a time, so that no wait keeps it from observing.
    observes: bool,
}

impl Workload {
    /// Creates the scripts of client number `client`.
    pub fn new(seed: u64, client: u64, mix: Mix) -> Self {
        let mut random = Random::new(seed, &format!("workload {client}"));
        let unique = random.below(10);
        let observes = random.percent(20);
        Self { random, mix, unique, client, observes }
    }

    /// Whether lists and sets are parts of values of a composed type.
    pub fn is_typed(&self) -> bool {
        self.mix.is_typed()
    }

    /// Whether the composed type of the run is never migrated.
    pub fn keeps_type(&self) -> bool {
        self.mix.keys.is_multiple_of(2)
    }

    /// Next transaction.
    pub fn next(&mut self) -> Script {
        if self.observes {
            let ops = vec![self.operation(true)];
            return Script { form: Form::Single, ops, numbered: false, with_scripts: false };
        }
        let form = *self.random.pick(&self.mix.forms);
        let subject = *self.random.pick(&self.mix.subjects);
        let may_repeat = matches!(form, Form::Single | Form::Multi | Form::Eval);
        let numbered = may_repeat && self.random.percent(50);
        let alone = matches!(form, Form::Single | Form::Pipeline);
        let mut ops: Vec<_> = match (subject, form) {
            (Subject::Balances, Form::Multi | Form::Eval | Form::ReadOnly) => self.balances(),
            (_, Form::ReadOnly) => self.plain(form),
            (Subject::Claims, _) if form != Form::Pipeline => self.claims(alone),
            (Subject::Transfer, _) if !alone => self.transfer(),
            (Subject::Draws, _) if !alone => self.draws(),
            _ => self.plain(form),
        };
        if form == Form::Watch {
            ops.sort_by_key(|op| !is_read(op));
        }
        Script { form, ops, numbered, with_scripts: self.mix.with_scripts }
    }

    fn plain(&mut self, form: Form) -> Vec<Vec<String>> {
        let count = match form {
            Form::Single => 1,
            Form::Pipeline => self.random.between(1, self.mix.longest),
            _ => self.random.between(1, 4),
        };
        (0..count).map(|_| self.operation(form == Form::ReadOnly)).collect()
    }

    fn key(&mut self, kind: &str) -> String {
        let first = self.mix.written.get() / VALUES_PER_KEYS * self.mix.keys;
        format!("{kind}{}", first + self.random.below(self.mix.keys))
    }

    /// Value that no other transaction writes.
    fn value(&mut self) -> String {
        self.unique += 1;
        self.mix.written.set(self.mix.written.get() + 1);
        format!("{}-{}", self.client, self.unique)
    }

    fn operation(&mut self, read: bool) -> Vec<String> {
        let kind = *self.random.pick(&self.mix.kinds);
        let key = self.key(kind);
        if read || self.random.percent(self.mix.reads_percent) {
            return match kind {
                "l" => words(&["lrange", &key, "0", "-1"]),
                "s" => words(&["smembers", &key]),
                _ => words(&["get", &key]),
            };
        }
        let value = self.value();
        match kind {
            "l" => words(&["rpush", &key, &value]),
            "s" => words(&["sadd", &key, &value]),
            _ => words(&["set", &key, &value]),
        }
    }

    fn transfer(&mut self) -> Vec<Vec<String>> {
        let from = self.random.below(ACCOUNTS);
        let to = (from + 1 + self.random.below(ACCOUNTS - 1)) % ACCOUNTS;
        let amount = self.random.between(1, 20).to_string();
        // The unique element identifies the transfer in the log.
        let value = self.value();
        vec![
            words(&["decrby", &account(from), &amount]),
            words(&["incrby", &account(to), &amount]),
            words(&["rpush", &self.key("l"), &value]),
        ]
    }

    /// Adds an element to a set, or removes a random one, of which clients know only that it was in
    /// the set.
    fn draws(&mut self) -> Vec<Vec<String>> {
        let (key, member, value) = (self.key("p"), self.value(), self.value());
        // The unique element, on the same shard, identifies the draw in the log.
        let marker = words(&["rpush", &format!("l{{{key}}}"), &value]);
        match self.random.below(5) {
            0 => vec![words(&["sadd", &key, &member]), words(&["smembers", &key])],
            1 | 2 => vec![words(&["sadd", &key, &member])],
            3 => vec![words(&["spop", &key]), marker],
            _ => vec![words(&["sadd", &key, &member]), words(&["spop", &key]), marker],
        }
    }

    /// Writes that often change nothing, because the key exists already.
    fn claims(&mut self, single: bool) -> Vec<Vec<String>> {
        let (key, value) = (self.key("n"), self.value());
        let claim = words(&["set", &key, &value, "nx"]);
        if single {
            return vec![claim];
        }
        let more = match self.random.below(4) {
            0 => words(&["set", &self.key("n"), &self.value(), "nx"]),
            1 => words(&["get", &key]),
            other => {
                // The unique element, on the same shard, identifies the removal in the log.
                let (list, value) = (format!("l{{{key}}}"), self.value());
                let first = if other == 2 { "del" } else { "get" };
                return vec![words(&[first, &key]), words(&["rpush", &list, &value])];
            }
        };
        vec![claim, more]
    }

    fn balances(&mut self) -> Vec<Vec<String>> {
        (0..ACCOUNTS).map(|i| words(&["get", &account(i)])).collect()
    }
}

/// Name and definitions of the composed type: the second one has the parts in another order, and one more.
pub const CELL: [&str; 3] = [
    "cell",
    "type cell\npart l list\npart s set\nop push v\n return rpush l $v\nop add v\n return sadd s $v\n\
     op all\n return lrange l 0 -1\nop members\n return smembers s\n\
     op put v\n|return redis.call('rpush', 'l', v)\nquery list\n|return redis.call('lrange', 'l', 0, -1)",
    "type cell\npart n counter\npart s set\npart l list\nop members\n return smembers s\nop all\n \
     return lrange l 0 -1\nop push v\n return rpush l $v\nop add v\n return sadd s $v\n\
     op put v\n|local len = redis.call('llen', 'l')\n|redis.call('rpush', 'l', v)\n\
     |redis.call('counter.add', 'n', 1)\n|return len + 1\n\
     query list\n|local all = redis.call('lrange', 'l', 0, -1)\n|return all",
];

/// The command with the same effect and reply on a value of the composed type. Half of them are programs if
/// these can be sent.
pub fn typed(op: &[String], programs: bool) -> Vec<String> {
    let key = &op[1];
    let is_even = |word: &String| word.bytes().last().is_some_and(|digit| digit % 2 == 0);
    match (op[0].as_str(), op.get(2)) {
        ("rpush", Some(value)) if programs && is_even(value) => words(&["cell.put", key, value]),
        ("lrange", _) if programs && is_even(key) => words(&["cell.list", key]),
        ("rpush", Some(value)) => words(&["cell.push", key, value]),
        ("sadd", Some(value)) if key.starts_with('s') => words(&["cell.add", key, value]),
        ("lrange", _) => words(&["cell.all", key]),
        ("smembers", _) if key.starts_with('s') => words(&["type.call_ro", key, "cell.members"]),
        _ => op.to_vec(),
    }
}

/// Key of a bank account.
pub fn account(number: u64) -> String {
    format!("a{number}")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Whether a command only reads.
pub fn is_read(op: &[String]) -> bool {
    let reads = ["get", "lrange", "smembers", "cell.all", "cell.list", "type.call_ro"];
    reads.contains(&op[0].as_str())
}

/// Whether a reply stands for one that is lost: the request took effect.
pub fn is_lost(reply: &Reply) -> bool {
    matches!(reply, Reply::Error(error) if error.code() == "REPEATED")
}

/// The value of a reply in the form that the checkers take, or `None` if the reply is lost.
pub fn seen(reply: &Reply) -> Option<check::Value> {
    (!is_lost(reply)).then(|| value_of(reply))
}

/// Converts a reply to the form that the checkers take.
pub fn value_of(reply: &Reply) -> check::Value {
    use check::Value;
    match reply {
        Reply::Ok => Value::ok(),
        Reply::Status(text) => Value::text(text.as_bytes()),
        Reply::Nil | Reply::NilArray => Value::Nil,
        Reply::Int(n) => Value::Int(*n),
        Reply::Double(f) => Value::Float(*f),
        Reply::Bool(b) => Value::Int(i64::from(*b)),
        Reply::Bulk(bytes) => Value::text(bytes),
        Reply::Text(text) => Value::text(text),
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => {
            Value::List(items.iter().map(value_of).collect())
        }
        Reply::Map(pairs) => {
            Value::Map(pairs.iter().map(|(k, v)| (value_of(k), value_of(v))).collect())
        }
        Reply::Scored(pairs) => Value::List(
            pairs.iter().flat_map(|(m, s)| [Value::text(m), Value::Float(*s)]).collect(),
        ),
        Reply::Pairs(pairs) => Value::List(
            pairs.iter().flat_map(|(field, value)| [field, value].map(Value::text)).collect(),
        ),
        Reply::Named(pairs) => {
            Value::Map(pairs.iter().map(|(k, v)| (Value::text(k), value_of(v))).collect())
        }
        Reply::Error(error) => Value::Error(error.to_string()),
        Reply::Record(_) => Value::Nil,
    }
}
