//! `SORT`: the elements of a list, a set or a sorted set in another order, or values that they lead to.
//!
//! A pattern names a key, or a field of a hash, for each element. These keys are known when the elements
//! have been read, so a command with patterns reads in steps: the elements, what it sorts by, and what it
//! returns. See the Redis documentation of `SORT` for semantics, replies and errors.

use super::{Cause, KEY_BYTES_MAX, KeyOp};
use crate::command::database::{Naming, database_of};
use crate::command::tags::TagRules;
use crate::kinds::{hash, list, string};
use crate::record::Value as AnyValue;
use crate::{
    Args, Blob, Command, Compound, DataType, ErrorReply, Merge, Next, Op as AnyOp, Plan, Record,
    Reply, collections, parse_float,
};
use std::cmp::Ordering;
use std::sync::Arc;

/// Most elements that `SORT` sorts.
pub const SORT_ELEMENTS_MAX: usize = 100_000;
/// Most bytes of the elements that `SORT` sorts, of the values that it sorts by, and of its result.
pub const SORT_BYTES_MAX: usize = 12 << 20;
/// Most keys that `SORT` reads for the patterns of `BY` and `GET`.
pub const SORT_LOOKUPS_MAX: usize = 5_000;

/// Elements of a value for `SORT`.
pub struct Sortable<'a> {
    /// Number of elements.
    pub count: usize,
    /// Whether the elements have an order of their own.
    pub ordered: bool,
    /// The elements, in their order if they have one.
    pub items: Box<dyn Iterator<Item = Blob> + 'a>,
}

/// Function that gives the elements of a value for `SORT`.
pub type ElementsOf<V> = for<'v> fn(&'v V) -> Sortable<'v>;

/// Order of the result.
#[derive(Clone, Debug, PartialEq)]
enum By {
    /// Order of the elements.
    Element,
    /// Order that the value has already: the pattern names no key.
    Nothing,
    /// Order of the values under other keys.
    Pattern(Pattern),
}

/// Part of the result for an element.
#[derive(Clone, Debug, PartialEq)]
enum Get {
    /// The element.
    Element,
    /// Nil: the pattern names no key.
    Nothing,
    /// The value under another key.
    Pattern(Pattern),
}

/// Name of a key, or of a field of a hash, with a place for an element.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    before: Blob,
    after: Blob,
    field: Option<Blob>,
}

/// Arguments of `SORT`.
#[derive(Clone, Debug)]
struct Sort {
    by: By,
    gets: Vec<Get>,
    alpha: bool,
    descending: bool,
    skip: usize,
    /// Most elements of the result, if it has a limit.
    limit: Option<usize>,
    /// Database of the keys that patterns name.
    database: u8,
}

/// Number of words of the option at a word, or an error if it is none.
fn option_len(args: &Args<'_>, at: usize) -> Result<usize, ErrorReply> {
    let len = match () {
        () if args.is(at, "LIMIT") => 3,
        () if args.is(at, "BY") || args.is(at, "GET") || args.is(at, "STORE") => 2,
        () if args.is(at, "ASC") || args.is(at, "DESC") || args.is(at, "ALPHA") => 1,
        () => return Err(ErrorReply::syntax()),
    };
    if at + len > args.len() {
        return Err(ErrorReply::syntax());
    }
    if len == 3 {
        args.int(at + 1)?;
        args.int(at + 2)?;
    }
    Ok(len)
}

/// Positions of the options of a call, each with its number of words.
fn options(args: &Args<'_>) -> Result<Vec<(usize, usize)>, ErrorReply> {
    let mut found = Vec::new();
    let mut at = 2;
    while at < args.len() {
        let len = option_len(args, at)?;
        found.push((at, len));
        at += len;
    }
    Ok(found)
}

/// Positions of the keys that a call of `SORT` names.
pub(crate) fn key_positions(args: &Args<'_>) -> Result<Vec<usize>, ErrorReply> {
    // As in Redis the last destination counts.
    let store = options(args)?.into_iter().rev().find(|(at, _)| args.is(*at, "STORE"));
    Ok([1].into_iter().chain(store.map(|(at, _)| at + 1)).collect())
}

/// Option by which a call of `SORT` reads keys that its words do not name, if it does.
pub fn looks_up(args: &Args<'_>) -> Option<&'static str> {
    let leads_on = |at: usize| args.get(at + 1).is_some_and(|word| Pattern::parse(word).is_some());
    options(args).ok()?.into_iter().find_map(|(at, _)| match () {
        () if args.is(at, "BY") && leads_on(at) => Some("BY"),
        () if args.is(at, "GET") && leads_on(at) => Some("GET"),
        () => None,
    })
}

/// `SORT` and `SORT_RO`, which stores nothing.
pub(super) fn parse(args: &Args<'_>, only_reads: bool) -> Result<Command, ErrorReply> {
    let key = args.blob(1)?;
    let database = database_of(&key).unwrap_or(0);
    let mut sort = Sort {
        by: By::Element,
        gets: Vec::new(),
        alpha: false,
        descending: false,
        skip: 0,
        limit: None,
        database,
    };
    let mut store = None;
    for (at, _) in options(args)? {
        match () {
            () if args.is(at, "STORE") && only_reads => return Err(ErrorReply::syntax()),
            () if args.is(at, "STORE") => store = Some(args.blob(at + 1)?),
            () => sort.take_option(args, at)?,
        }
    }
    let reads = vec![(key, AnyOp::Key(KeyOp::Elements))];
    if store.is_none() && !sort.looks_up() {
        let merge = move |replies: Vec<Reply>| {
            let found = Found::default();
            let sorted = sort.sorted(replies.first(), &found);
            sorted.and_then(|sorted| sort.reply(&sorted, &found)).unwrap_or_else(Reply::Error)
        };
        return Ok(Command::Multi { ops: reads, merge: Merge::With(Arc::new(merge)) });
    }
    let sort = Arc::new(sort);
    let next = move |replies: &[Reply]| sort.clone().look_up(replies, store.clone());
    Ok(Command::Compound(Compound::in_steps(reads, next)))
}

impl Pattern {
    /// A pattern with a place for an element.
    fn parse(word: &[u8]) -> Option<Self> {
        let star = word.iter().position(|byte| *byte == b'*')?;
        let (before, rest) = (&word[..star], &word[star + 1..]);
        let arrow = rest.windows(2).position(|pair| pair == b"->");
        // An arrow at the end belongs to the name.
        let arrow = arrow.filter(|arrow| arrow + 2 < rest.len());
        let (after, field) = match arrow {
            Some(arrow) => (&rest[..arrow], Some(Blob::new(&rest[arrow + 2..]))),
            None => (rest, None),
        };
        Some(Self { before: Blob::new(before), after: Blob::new(after), field })
    }

    /// The read that it stands for with an element; none if no key can have that name.
    fn read(&self, database: u8, element: &Blob) -> Option<(Blob, AnyOp)> {
        let name = [&self.before[..], element, &self.after].concat();
        // The store puts the key where its placement rules want it.
        let naming = Naming { database, tags: &TagRules::default() };
        let key = naming.named(&name).ok().filter(|_| name.len() <= KEY_BYTES_MAX)?;
        let op = match &self.field {
            Some(field) => AnyOp::Hash(hash::Op::Get(field.clone())),
            None => AnyOp::String(string::Op::Get),
        };
        Some((key, op))
    }
}

/// Places of the reads that patterns stand for with some elements.
#[derive(Default)]
struct Places {
    /// Number of patterns.
    patterns: usize,
    /// Numbers of elements.
    numbers: collections::Map<Blob, usize>,
    /// For each element and pattern the place of the read, if there is one.
    places: Vec<Option<usize>>,
}

/// Values that patterns lead to.
#[derive(Default)]
struct Found {
    places: Arc<Places>,
    values: Vec<Option<Blob>>,
}

impl Places {
    /// The reads that patterns stand for, each once however often an element occurs.
    fn of(
        patterns: &[&Pattern],
        elements: &[Blob],
        database: u8,
    ) -> (Arc<Self>, Vec<(Blob, AnyOp)>) {
        let mut made = Self { patterns: patterns.len(), ..Self::default() };
        let mut reads = Vec::new();
        for element in elements {
            if patterns.is_empty() || made.numbers.contains_key(element) {
                continue;
            }
            made.numbers.insert(element.clone(), made.numbers.len());
            for pattern in patterns {
                let read = pattern.read(database, element);
                made.places.push(read.is_some().then_some(reads.len()));
                reads.extend(read);
            }
        }
        (Arc::new(made), reads)
    }
}

impl Found {
    fn new(places: &Arc<Places>, replies: &[Reply]) -> Result<Self, ErrorReply> {
        let wrong_type = ErrorReply::wrong_type();
        let value = |reply: &Reply| match reply {
            Reply::Bulk(bytes) => Ok(Some(bytes.clone())),
            Reply::Error(error) if *error != wrong_type => Err(error.clone()),
            _ => Ok(None),
        };
        let values = replies.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Self { places: places.clone(), values })
    }

    /// The value that a pattern leads to with an element.
    fn value(&self, element: &Blob, pattern: usize) -> Option<&Blob> {
        let Places { patterns, numbers, places } = &*self.places;
        let place = (*places.get(numbers.get(element)? * patterns + pattern)?)?;
        self.values.get(place)?.as_ref()
    }
}

fn refused(error: ErrorReply) -> Next {
    Next::Plan(Plan { writes: Vec::new(), reply: error.into() })
}

fn too_many_lookups() -> ErrorReply {
    let text = format!("SORT reads at most {SORT_LOOKUPS_MAX} keys for BY and GET");
    ErrorReply::err(text)
}

/// The error for more elements than `SORT` takes.
pub(super) fn too_many() -> ErrorReply {
    ErrorReply::err(format!("SORT takes at most {SORT_ELEMENTS_MAX} elements"))
}

/// The error for more bytes than `SORT` takes.
pub(super) fn too_long() -> ErrorReply {
    ErrorReply::err(format!("SORT takes and returns at most {SORT_BYTES_MAX} bytes"))
}

/// The elements of a record for `SORT`.
pub(super) fn elements(value: &AnyValue) -> Reply {
    let Some(elements) = value.elements() else { return ErrorReply::wrong_type().into() };
    if elements.count > SORT_ELEMENTS_MAX {
        return too_many().into();
    }
    let mut bytes = 0;
    let mut items = Vec::with_capacity(elements.count);
    for item in elements.items {
        bytes += item.len();
        if bytes > SORT_BYTES_MAX {
            return too_long().into();
        }
        items.push(Reply::Bulk(item));
    }
    if elements.ordered { Reply::Array(items) } else { Reply::Set(items) }
}

/// A value as a number, as the C library reads it: spaces before it are skipped, and nothing is zero.
fn number(bytes: &[u8]) -> Option<f64> {
    let bytes = bytes.trim_ascii_start();
    if bytes.is_empty() {
        return Some(0.0);
    }
    let value = parse_float(bytes).ok()?;
    let spelled_out = bytes.to_ascii_lowercase().windows(3).any(|part| part == b"inf");
    (value.is_finite() || spelled_out).then_some(value)
}

/// Property of an element that decides its place.
enum Weight<'a> {
    Number(f64),
    Text(Option<&'a [u8]>),
}

impl Weight<'_> {
    fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Number(a), Self::Number(b)) => a.partial_cmp(b).unwrap_or(Ordering::Equal),
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Number(_), Self::Text(_)) | (Self::Text(_), Self::Number(_)) => Ordering::Equal,
        }
    }
}

impl Sort {
    /// Takes an option other than `STORE`.
    fn take_option(&mut self, args: &Args<'_>, at: usize) -> Result<(), ErrorReply> {
        let word = args.get(at + 1).unwrap_or_default();
        match () {
            // Once the order is that of the value it stays so.
            () if args.is(at, "BY") && self.by == By::Nothing => {}
            () if args.is(at, "BY") => {
                self.by = Pattern::parse(word).map_or(By::Nothing, By::Pattern);
            }
            () if args.is(at, "GET") && word == b"#" => self.gets.push(Get::Element),
            () if args.is(at, "GET") => {
                self.gets.push(Pattern::parse(word).map_or(Get::Nothing, Get::Pattern));
            }
            () if args.is(at, "LIMIT") => {
                let (skip, limit) = (args.int(at + 1)?, args.int(at + 2)?);
                self.skip = usize::try_from(skip).unwrap_or(0);
                self.limit = usize::try_from(limit).ok();
            }
            () if args.is(at, "ALPHA") => self.alpha = true,
            () => self.descending = args.is(at, "DESC"),
        }
        Ok(())
    }

    /// Whether other keys are read.
    fn looks_up(&self) -> bool {
        matches!(self.by, By::Pattern(_)) || self.patterns().next().is_some()
    }

    /// The patterns of the result.
    fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.gets.iter().filter_map(|get| match get {
            Get::Pattern(pattern) => Some(pattern),
            Get::Element | Get::Nothing => None,
        })
    }

    /// Continuation behind the elements: reads of what they are sorted by, if there is something to read.
    fn look_up(self: Arc<Self>, replies: &[Reply], store: Option<Blob>) -> Next {
        let By::Pattern(pattern) = &self.by else {
            let sorted = self.sorted(replies.first(), &Found::default());
            return sorted.map_or_else(refused, |sorted| self.look_up_result(sorted, 0, store));
        };
        let elements = match taken(replies.first()) {
            Ok((elements, _)) => elements,
            Err(error) => return refused(error),
        };
        let (places, reads) = Places::of(&[pattern], &elements, self.database);
        let count = reads.len();
        if count > SORT_LOOKUPS_MAX {
            return refused(too_many_lookups());
        }
        let elements = replies.first().cloned();
        let next = move |replies: &[Reply]| {
            let found = Found::new(&places, replies);
            let sorted = found.and_then(|found| self.sorted(elements.as_ref(), &found));
            let result = |sorted| self.clone().look_up_result(sorted, count, store.clone());
            sorted.map_or_else(refused, result)
        };
        Next::Reads(Compound::in_steps(reads, next))
    }

    /// Continuation behind the sorted elements, after so many reads: reads of what is returned for them.
    fn look_up_result(
        self: Arc<Self>,
        sorted: Vec<Blob>,
        before: usize,
        store: Option<Blob>,
    ) -> Next {
        let patterns: Vec<&Pattern> = self.patterns().collect();
        let (places, reads) = Places::of(&patterns, &sorted, self.database);
        if before + reads.len() > SORT_LOOKUPS_MAX {
            return refused(too_many_lookups());
        }
        if reads.is_empty() {
            return Next::Plan(self.plan(&sorted, &Found::default(), store.as_ref()));
        }
        let next = move |replies: &[Reply]| match Found::new(&places, replies) {
            Ok(found) => Next::Plan(self.plan(&sorted, &found, store.as_ref())),
            Err(error) => refused(error),
        };
        Next::Reads(Compound::in_steps(reads, next))
    }

    /// The elements that the result is about, in its order.
    fn sorted(&self, reply: Option<&Reply>, found: &Found) -> Result<Vec<Blob>, ErrorReply> {
        let (mut elements, ordered) = taken(reply)?;
        elements = match (&self.by, ordered) {
            (By::Nothing, true) if self.descending => elements.into_iter().rev().collect(),
            (By::Nothing, true) => elements,
            // Something must decide, so that all see the same order.
            (By::Nothing, false) => self.by_weight(&elements, |element| Ok(text(Some(element))))?,
            (By::Element, _) => self.by_weight(&elements, |element| self.weight(Some(element)))?,
            (By::Pattern(_), _) => {
                let values = elements.iter().filter_map(|element| found.value(element, 0));
                if values.map(|value| value.len()).sum::<usize>() > SORT_BYTES_MAX {
                    return Err(too_long());
                }
                self.by_weight(&elements, |element| self.weight(found.value(element, 0)))?
            }
        };
        let end = self.limit.map_or(elements.len(), |limit| self.skip.saturating_add(limit));
        elements.truncate(end);
        elements.drain(..self.skip.min(elements.len()));
        Ok(elements)
    }

    fn weight<'v>(&self, value: Option<&'v Blob>) -> Result<Weight<'v>, ErrorReply> {
        if self.alpha {
            return Ok(text(value));
        }
        let number = value.map_or(Some(0.0), |value| number(value));
        let error = || ErrorReply::err("One or more scores can't be converted into double");
        number.map(Weight::Number).ok_or_else(error)
    }

    /// Elements in the order of their weights. Those of the same number are in that of their bytes, those
    /// of the same text stay as they were.
    fn by_weight<'v>(
        &self,
        elements: &'v [Blob],
        weight: impl Fn(&'v Blob) -> Result<Weight<'v>, ErrorReply>,
    ) -> Result<Vec<Blob>, ErrorReply> {
        let weighed = elements.iter().map(|element| Ok((weight(element)?, element)));
        let mut weighed = weighed.collect::<Result<Vec<_>, ErrorReply>>()?;
        weighed.sort_by(|(a, left), (b, right)| {
            let mut order = a.compare(b);
            if !self.alpha {
                order = order.then_with(|| left.cmp(right));
            }
            if self.descending { order.reverse() } else { order }
        });
        Ok(weighed.into_iter().map(|(_, element)| element.clone()).collect())
    }

    /// The result: written under a key, or the reply.
    fn plan(&self, sorted: &[Blob], found: &Found, store: Option<&Blob>) -> Plan {
        let reply = self.reply(sorted, found);
        match (reply, store) {
            (Err(error), _) => Plan { writes: Vec::new(), reply: error.into() },
            (Ok(reply), None) => Plan { writes: Vec::new(), reply },
            (Ok(Reply::Array(items)), Some(target)) => stored(target, items),
            (Ok(reply), Some(_)) => Plan { writes: Vec::new(), reply },
        }
    }

    fn reply(&self, sorted: &[Blob], found: &Found) -> Result<Reply, ErrorReply> {
        if self.gets.is_empty() {
            return Ok(Reply::Array(sorted.iter().cloned().map(Reply::Bulk).collect()));
        }
        if sorted.len().saturating_mul(self.gets.len()) > SORT_ELEMENTS_MAX {
            return Err(too_many());
        }
        let mut items = Vec::new();
        let mut bytes = 0;
        for element in sorted {
            let mut pattern = 0;
            for get in &self.gets {
                let value = match get {
                    Get::Element => Some(element),
                    Get::Nothing => None,
                    Get::Pattern(_) => {
                        pattern += 1;
                        found.value(element, pattern - 1)
                    }
                };
                bytes += value.map_or(0, |value| value.len());
                items.push(value.cloned().map_or(Reply::Nil, Reply::Bulk));
            }
            if bytes > SORT_BYTES_MAX {
                return Err(too_long());
            }
        }
        Ok(Reply::Array(items))
    }
}

/// Elements that were read, and whether they have an order.
fn taken(reply: Option<&Reply>) -> Result<(Vec<Blob>, bool), ErrorReply> {
    let (items, ordered) = match reply {
        Some(Reply::Array(items)) => (&items[..], true),
        Some(Reply::Set(items)) => (&items[..], false),
        Some(Reply::Error(error)) => return Err(error.clone()),
        _ => (&[][..], true),
    };
    let bytes = |item: &Reply| match item {
        Reply::Bulk(bytes) => Some(bytes.clone()),
        _ => None,
    };
    Ok((items.iter().filter_map(bytes).collect(), ordered))
}

fn text(value: Option<&Blob>) -> Weight<'_> {
    Weight::Text(value.map(|value| &value[..]))
}

/// Writes a list of the items under a key.
fn stored(target: &Blob, items: Vec<Reply>) -> Plan {
    let reply = Reply::Int(items.len() as i64);
    // In a list there is no nil.
    let bytes = |item| if let Reply::Bulk(bytes) = item { bytes } else { Blob::default() };
    let mut value = list::Value::default();
    let push = list::Op::Push(list::End::Right, items.into_iter().map(bytes).collect());
    value.apply(&push, &crate::Ctx::default(), &mut crate::Meta::default());
    let op = if value.is_empty() {
        KeyOp::Del
    } else {
        let record = Record::new(AnyValue::List(value.into()));
        KeyOp::Put(Box::new(record), Cause::Sort)
    };
    Plan { writes: vec![(target.clone(), AnyOp::Key(op))], reply }
}
