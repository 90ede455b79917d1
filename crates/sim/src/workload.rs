//! What simulated clients do: transactions of every form over lists, sets, registers, counters,
//! claims (`SET ... NX`) and bank accounts, with values that are never written twice.

use crate::random::Random;
use adt::Reply;

/// Accounts of the bank, and what they hold together.
pub const ACCOUNTS: u64 = 6;
/// Money in each account at the beginning.
pub const DEPOSIT: i64 = 100;

/// How the operations of a transaction are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One command.
    Single,
    /// `MULTI` ... `EXEC` in one piece.
    Multi,
    /// `WATCH`, the reads, then the writes in `MULTI` ... `EXEC`.
    Watch,
    /// `TXN BEGIN`, one command after the other, `TXN COMMIT`.
    Interactive,
    /// The same with writers that answer at the commit.
    Blind,
    /// The same with reads only.
    ReadOnly,
}

/// One transaction to be carried out.
#[derive(Clone, Debug)]
pub struct Script {
    /// How.
    pub form: Form,
    /// The operations, as the checkers see them.
    pub ops: Vec<Vec<String>>,
    /// Carry a request number, so that it can be sent again after a crash.
    pub numbered: bool,
}

/// Makes scripts.
#[derive(Debug)]
pub struct Workload {
    random: Random,
    keys: u64,
    unique: u64,
    client: u64,
    /// It only reads, one key at a time: nothing that waits keeps it from looking.
    observes: bool,
}

impl Workload {
    /// The scripts of client number `client`.
    pub fn new(seed: u64, client: u64) -> Self {
        let mut random = Random::new(seed, &format!("workload {client}"));
        let keys = Random::new(seed, "keys").between(1, 6);
        let unique = random.below(10);
        let observes = random.percent(20);
        Self { random, keys, unique, client, observes }
    }

    /// The next transaction.
    pub fn next(&mut self) -> Script {
        if self.observes {
            let ops = vec![self.operation(true)];
            return Script { form: Form::Single, ops, numbered: false };
        }
        let form = *self.random.pick(&[
            Form::Single,
            Form::Single,
            Form::Multi,
            Form::Multi,
            Form::Multi,
            Form::Watch,
            Form::Interactive,
            Form::Blind,
            Form::ReadOnly,
        ]);
        let numbered = matches!(form, Form::Single | Form::Multi) && self.random.percent(50);
        let count = if form == Form::Single { 1 } else { self.random.between(1, 4) };
        let mut ops: Vec<_> = match self.random.below(10) {
            0..=2 if form != Form::Single && form != Form::ReadOnly => self.transfer(),
            3 if form == Form::Multi || form == Form::ReadOnly => self.balances(),
            4 | 5 if form != Form::ReadOnly => self.claims(form == Form::Single),
            _ => (0..count).map(|_| self.operation(form == Form::ReadOnly)).collect(),
        };
        if form == Form::Watch {
            ops.sort_by_key(|op| !is_read(op));
        }
        Script { form, ops, numbered }
    }

    /// A value that nobody else writes.
    fn value(&mut self) -> String {
        self.unique += 1;
        format!("{}-{}", self.client, self.unique)
    }

    fn operation(&mut self, read: bool) -> Vec<String> {
        let key = self.random.below(self.keys);
        let kind = *self.random.pick(&["l", "s", "r"]);
        let key = format!("{kind}{key}");
        if read || self.random.percent(45) {
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
        // The unique element tells where in the log the transfer is.
        let value = self.value();
        vec![
            words(&["decrby", &account(from), &amount]),
            words(&["incrby", &account(to), &amount]),
            words(&["rpush", &format!("l{}", self.random.below(self.keys)), &value]),
        ]
    }

    /// Writes that often change nothing, because the key is there already.
    fn claims(&mut self, single: bool) -> Vec<Vec<String>> {
        let (key, value) = (format!("n{}", self.random.below(self.keys)), self.value());
        let claim = words(&["set", &key, &value, "nx"]);
        if single {
            return vec![claim];
        }
        let more = match self.random.below(4) {
            0 => {
                words(&["set", &format!("n{}", self.random.below(self.keys)), &self.value(), "nx"])
            }
            1 => words(&["get", &key]),
            other => {
                // The unique element, on the same shard, tells where in the log the removal is.
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

/// Key of a bank account.
pub fn account(number: u64) -> String {
    format!("a{number}")
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Whether a command only reads.
pub fn is_read(op: &[String]) -> bool {
    matches!(op[0].as_str(), "get" | "lrange" | "smembers")
}

/// A reply as the checkers see it.
pub fn value_of(reply: &Reply) -> check::Value {
    use check::Value;
    match reply {
        Reply::Ok => Value::ok(),
        Reply::Status(text) => Value::text(text),
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
        Reply::Error(error) => Value::Error(error.to_string()),
        Reply::Record(_) => Value::Nil,
    }
}
