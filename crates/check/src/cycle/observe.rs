//! Accesses of every transaction to every key, in numbers instead of words.

use super::{NOTHING, is, refused};
use crate::history::{Op, Txn, Word};
use crate::model;
use crate::value::Value;
use std::collections::BTreeMap;

/// Kind of use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    List,
    Register,
    Set,
    /// Other or mixed use, or values written twice.
    Other,
}

/// Words and their numbers; [`NOTHING`] is taken.
#[derive(Debug, Default)]
pub(super) struct Names {
    pub(super) words: Vec<Word>,
    numbers: BTreeMap<Word, usize>,
}

impl Names {
    fn number(&mut self, word: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(word) {
            return *number;
        }
        self.numbers.insert(word.to_vec(), self.words.len());
        self.words.push(word.to_vec());
        self.words.len() - 1
    }
}

/// One access to a key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    Write(usize),
    /// All values present, in order for lists, sorted for sets.
    Read(Vec<usize>),
}

impl Step {
    fn written(&self) -> Option<usize> {
        match self {
            Self::Write(value) => Some(*value),
            Self::Read(_) => None,
        }
    }
}

/// Accesses of one transaction to one key.
#[derive(Debug)]
pub(super) struct View {
    pub(super) txn: usize,
    pub(super) steps: Vec<Step>,
}

impl View {
    pub(super) fn reads(&self) -> impl Iterator<Item = &Vec<usize>> {
        self.steps.iter().filter_map(|step| match step {
            Step::Read(values) => Some(values),
            Step::Write(_) => None,
        })
    }

    pub(super) fn writes(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(Step::written)
    }
}

/// Writer of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writer {
    pub(super) txn: usize,
    /// Whether this is the transaction's last write to the key.
    pub(super) last: bool,
}

/// Facts about one key.
#[derive(Debug)]
pub(super) struct KeyFacts {
    pub(super) key: usize,
    pub(super) class: Class,
    /// In order of transactions, failed and indefinite ones included.
    pub(super) views: Vec<View>,
    pub(super) writers: BTreeMap<usize, Writer>,
    /// Places in a list from replies of appends, which are the list's length: (place, value).
    pub(super) places: Vec<(usize, usize)>,
}

/// Collects the facts, in order of keys.
pub(super) fn observe(txns: &[Txn]) -> (Names, Vec<KeyFacts>) {
    let mut names = Names::default();
    names.words.push(Word::new());
    let mut keys: BTreeMap<Word, KeyFacts> = BTreeMap::new();
    for txn in txns {
        for op in txn.ops.iter().filter(|op| !refused(op)) {
            for (key, class, steps) in accesses(op, &mut names) {
                let number = names.number(key);
                let facts = keys.entry(key.clone()).or_insert_with(|| KeyFacts {
                    key: number,
                    class,
                    views: Vec::new(),
                    writers: BTreeMap::new(),
                    places: Vec::new(),
                });
                if facts.class != class {
                    facts.class = Class::Other;
                }
                if let (Class::List, Some(Value::Int(length))) = (class, &op.reply) {
                    let written = steps.iter().filter_map(Step::written);
                    let first = usize::try_from(*length).unwrap_or(0).wrapping_sub(steps.len());
                    facts.places.extend((first..).zip(written));
                }
                match facts.views.last_mut() {
                    Some(view) if view.txn == txn.id => view.steps.extend(steps),
                    _ => facts.views.push(View { txn: txn.id, steps }),
                }
            }
        }
    }
    let mut keys: Vec<KeyFacts> = keys.into_values().collect();
    keys.iter_mut().for_each(find_writers);
    (names, keys)
}

fn find_writers(facts: &mut KeyFacts) {
    for view in &facts.views {
        let last = view.writes().last();
        for value in view.writes() {
            let writer = Writer { txn: view.txn, last: Some(value) == last };
            if facts.writers.insert(value, writer).is_some() {
                facts.class = Class::Other;
            }
        }
    }
}

/// Accesses of a command to each of its keys. Reads that reveal too little are left out.
fn accesses<'a>(op: &'a Op, names: &mut Names) -> Vec<(&'a Word, Class, Vec<Step>)> {
    let reply = op.reply.as_ref();
    let mut writes = |values: &[Word]| -> Vec<Step> {
        values.iter().map(|value| Step::Write(names.number(value))).collect()
    };
    match &op.words[..] {
        [name, key, values @ ..] if is(name, "rpush") => vec![(key, Class::List, writes(values))],
        [name, key, values @ ..] if is(name, "sadd") => vec![(key, Class::Set, writes(values))],
        [name, key, value] if is(name, "set") => {
            vec![(key, Class::Register, writes(std::slice::from_ref(value)))]
        }
        [name, pairs @ ..] if is(name, "mset") && pairs.len() % 2 == 0 => {
            pairs.chunks(2).map(|pair| (&pair[0], Class::Register, writes(&pair[1..]))).collect()
        }
        [name, key, value] if is(name, "getset") => {
            let write = writes(std::slice::from_ref(value));
            let mut steps = read_register(reply, names);
            steps.extend(write);
            vec![(key, Class::Register, steps)]
        }
        [name, key] if is(name, "get") => {
            vec![(key, Class::Register, read_register(reply, names))]
        }
        [name, keys @ ..] if is(name, "mget") => {
            let replies = match reply {
                Some(Value::List(replies)) if replies.len() == keys.len() => &replies[..],
                _ => &[],
            };
            let read = |(key, reply)| (key, Class::Register, read_register(Some(reply), names));
            keys.iter().zip(replies).map(read).collect()
        }
        [name, key, start, stop] if is(name, "lrange") && start == b"0" && stop == b"-1" => {
            vec![(key, Class::List, read_all(reply, names, false))]
        }
        [name, key] if is(name, "smembers") => {
            vec![(key, Class::Set, read_all(reply, names, true))]
        }
        words if model::is_read(words) => Vec::new(),
        words => model::keys_of(words).into_iter().map(|k| (k, Class::Other, Vec::new())).collect(),
    }
}

fn read_register(reply: Option<&Value>, names: &mut Names) -> Vec<Step> {
    match reply {
        None => Vec::new(),
        Some(Value::Nil) => vec![Step::Read(Vec::new())],
        Some(value) => vec![Step::Read(vec![names.number(&value.canonical())])],
    }
}

fn read_all(reply: Option<&Value>, names: &mut Names, sorted: bool) -> Vec<Step> {
    let Some(Value::List(items)) = reply else { return Vec::new() };
    let mut values: Vec<usize> = items.iter().map(|item| names.number(&item.canonical())).collect();
    if sorted {
        values.sort_unstable();
    }
    assert!(!values.contains(&NOTHING));
    vec![Step::Read(values)]
}
