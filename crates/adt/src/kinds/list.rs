//! List: a sequence that grows and shrinks at both ends.
//!
//! Positions make lists the type with the fewest commuting operations. These commute whatever other
//! holders do: pushes at opposite ends with unobserved lengths; a push and a pop at opposite ends,
//! or two pops at opposite ends, as long as the list holds enough elements for the pops; and a read
//! counted from one end with a push at the other, if the elements that it reads exist. See the
//! Redis documentation of the list commands for semantics, replies and errors.

mod moves;
mod table;
#[cfg(test)]
mod tests;

use crate::key::sort::{ElementsOf, Sortable};
use crate::{
    Access, ArgBuf, Blob, CommandSpec, Corrupt, Ctx, DataType, Forecast, Foresight, Meta, Reply,
    ValueSink, ValueSource, load_count,
};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::ops::Range;

/// Elements named by one operation; one is the usual number.
pub type Elements = SmallVec<[Blob; 1]>;

/// An end of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The head, position 0.
    Left,
    /// The tail, position -1.
    Right,
}

/// The state: elements from the left to the right.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    elements: VecDeque<Blob>,
}

/// Operations on a list. Negative positions count from the right end, which is -1.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Adds elements at an end, one after another; answers the length.
    Push(End, Elements),
    /// [`Op::Push`], but only on an existing list.
    PushIfPresent(End, Elements),
    /// Removes and answers elements at an end: one, or up to a number.
    Pop(End, Option<u64>),
    /// Replaces the element at a position.
    SetAt(i64, Blob),
    /// Inserts an element beside the first one that equals the pivot; answers the length.
    Insert {
        /// Before the pivot, not after it.
        before: bool,
        /// The element to look for.
        pivot: Blob,
        /// The new element.
        element: Blob,
    },
    /// Removes elements that equal the given one: so many from the left, from the right for a
    /// negative number, all for 0; answers how many.
    Remove(i64, Blob),
    /// Keeps only the elements from a first to a last position.
    Trim(i64, i64),
    /// Number of elements.
    Len,
    /// The elements from a first to a last position.
    Range(i64, i64),
    /// The element at a position, or nil.
    At(i64),
    /// Positions of elements that equal one.
    Find(Find),
}

/// Arguments of `LPOS`.
#[derive(Clone, Debug, PartialEq)]
pub struct Find {
    /// The element to look for.
    pub element: Blob,
    /// Which match to begin with, from 1; negative from the right. Never 0.
    pub rank: i64,
    /// Most matches to answer, 0 for all; `None` answers one position, not an array.
    pub count: Option<u64>,
    /// Most comparisons, 0 for any number.
    pub compare_max: u64,
}

/// `start` to `end` (inclusive, negative from the end) within `len`, as `LRANGE` understands it.
fn positions(start: i64, end: i64, len: usize) -> Range<usize> {
    let absolute = |i: i64| if i < 0 { len as i64 + i } else { i };
    let (start, end) = (absolute(start).max(0), absolute(end).min(len as i64 - 1));
    if start > end { 0..0 } else { start as usize..end as usize + 1 }
}

/// Reply of a pop from a list of `len` elements, which come one after another from its end.
fn popped(count: Option<u64>, len: usize, mut next: impl FnMut() -> Option<Blob>) -> Reply {
    match count {
        None => next().map_or(Reply::Nil, Reply::Bulk),
        Some(_) if len == 0 => Reply::NilArray,
        Some(count) => {
            let count = count.min(len as u64);
            Reply::Array((0..count).filter_map(|_| next().map(Reply::Bulk)).collect())
        }
    }
}

impl Value {
    fn position(&self, at: i64) -> Option<usize> {
        let len = self.elements.len();
        let at = if at < 0 { len as i64 + at } else { at };
        usize::try_from(at).ok().filter(|at| *at < len)
    }

    fn len_reply(&self) -> Reply {
        Reply::Int(self.elements.len() as i64)
    }

    /// Reply of a push.
    fn pushed(&self, elements: &Elements) -> Reply {
        Reply::Int((self.elements.len() + elements.len()) as i64)
    }

    fn push(&mut self, end: End, elements: &Elements) -> Reply {
        let reply = self.pushed(elements);
        for element in elements {
            match end {
                End::Left => self.elements.push_front(element.clone()),
                End::Right => self.elements.push_back(element.clone()),
            }
        }
        reply
    }

    fn pop(&mut self, end: End, count: Option<u64>) -> Reply {
        let len = self.elements.len();
        popped(count, len, || match end {
            End::Left => self.elements.pop_front(),
            End::Right => self.elements.pop_back(),
        })
    }

    fn insert(&mut self, before: bool, pivot: &Blob, element: &Blob) -> Reply {
        if self.elements.is_empty() {
            return Reply::Int(0);
        }
        let Some(at) = self.elements.iter().position(|e| e == pivot) else {
            return Reply::Int(-1);
        };
        self.elements.insert(if before { at } else { at + 1 }, element.clone());
        self.len_reply()
    }

    fn remove(&mut self, count: i64, element: &Blob) -> Reply {
        let before = self.elements.len();
        let mut left = if count == 0 { u64::MAX } else { count.unsigned_abs() };
        let mut stays = |e: &Blob| {
            let goes = left > 0 && e == element;
            left -= u64::from(goes);
            !goes
        };
        if count < 0 {
            let mut kept: VecDeque<Blob> = VecDeque::with_capacity(before);
            for e in self.elements.drain(..).rev() {
                if stays(&e) {
                    kept.push_front(e);
                }
            }
            self.elements = kept;
        } else {
            self.elements.retain(stays);
        }
        Reply::Int((before - self.elements.len()) as i64)
    }

    fn trim(&mut self, start: i64, end: i64) -> Reply {
        let kept = positions(start, end, self.elements.len());
        self.elements.truncate(kept.end);
        self.elements.drain(..kept.start);
        Reply::Ok
    }

    /// The position of an element that can be replaced, or the reply if there is none.
    fn settable(&self, at: i64) -> Result<usize, Reply> {
        if self.elements.is_empty() {
            return Err(Reply::err("no such key"));
        }
        self.position(at).ok_or_else(|| Reply::err("index out of range"))
    }

    fn set_at(&mut self, at: i64, element: &Blob) -> Reply {
        match self.settable(at) {
            Ok(at) => {
                self.elements[at] = element.clone();
                Reply::Ok
            }
            Err(error) => error,
        }
    }

    fn find(&self, find: &Find) -> Reply {
        let len = self.elements.len();
        let compare = if find.compare_max == 0 { u64::MAX } else { find.compare_max };
        let compare = usize::try_from(compare).unwrap_or(usize::MAX).min(len);
        let from_left = find.rank > 0;
        let at = |step: usize| if from_left { step } else { len - 1 - step };
        let wanted = match find.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
        };
        let skip = usize::try_from(find.rank.unsigned_abs() - 1).unwrap_or(usize::MAX);
        let matches = (0..compare).map(at).filter(|&at| self.elements[at] == find.element);
        let mut found = matches.skip(skip).take(wanted).map(|at| Reply::Int(at as i64));
        match find.count {
            None => found.next().unwrap_or(Reply::Nil),
            Some(_) => Reply::Array(found.collect()),
        }
    }

    /// Whether elements that exist, counted from the end opposite to `pushed`, decide the read.
    fn fixed_despite_push(&self, read: &Op, pushed: End) -> bool {
        let len = self.elements.len() as i64;
        let there = |i: i64| match pushed {
            End::Right => (0..len).contains(&i),
            End::Left => (-len..0).contains(&i),
        };
        match read {
            Op::At(at) => there(*at),
            Op::Range(start, end) => there(*start) && there(*end),
            _ => false,
        }
    }

    /// Reply of a write that is not carried out.
    fn foretell(&self, op: &Op, _ctx: &Ctx) -> Option<Reply> {
        Some(match op {
            Op::PushIfPresent(..) if self.elements.is_empty() => Reply::Int(0),
            Op::Push(_, elements) | Op::PushIfPresent(_, elements) => self.pushed(elements),
            Op::Pop(end, count) => {
                let mut elements = self.elements.iter().cloned();
                popped(*count, self.elements.len(), || match end {
                    End::Left => elements.next(),
                    End::Right => elements.next_back(),
                })
            }
            Op::SetAt(at, _) => self.settable(*at).map_or_else(|error| error, |_| Reply::Ok),
            Op::Trim(..) => Reply::Ok,
            // They compare elements.
            _ => return None,
        })
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "list";
    const FORECAST: Option<Forecast<Self, Op>> = Some(Forecast {
        reply: Self::foretell,
        is_always_possible: |op| !matches!(op, Op::SetAt(..)),
    });
    const ELEMENTS: Option<ElementsOf<Self>> = Some(|value| {
        let items = Box::new(value.elements.iter().cloned());
        Sortable { count: value.elements.len(), ordered: true, items }
    });
    const FORESIGHT: Option<Foresight<Self, Op>> = Some(Foresight {
        follows: |_| true,
        follows_in_time: |_| true,
        cost: |value| value.elements.len(),
    });

    const COMMANDS: &'static [CommandSpec] = table::COMMANDS;
    const MODES: &'static [&'static str] =
        &["read", "push left", "push right", "pop left", "pop right", "other"];
    const SHARED: [u8; 8] = [0b1, 0b100, 0b10, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        !matches!(op, Op::Len | Op::Range(..) | Op::At(_) | Op::Find(_))
    }

    fn is_empty(&self) -> bool {
        self.elements.is_empty()
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Push(..))
    }

    fn preserves_key(op: &Op) -> bool {
        matches!(op, Op::Push(..) | Op::PushIfPresent(..) | Op::SetAt(..) | Op::Insert { .. })
    }

    fn query(&self, op: &Op, _ctx: &Ctx) -> Reply {
        let bulk = |b: &Blob| Reply::Bulk(b.clone());
        match op {
            Op::Len => self.len_reply(),
            Op::Range(start, end) => {
                let range = positions(*start, *end, self.elements.len());
                Reply::Array(self.elements.range(range).map(bulk).collect())
            }
            Op::At(at) => self.position(*at).map_or(Reply::Nil, |at| bulk(&self.elements[at])),
            Op::Find(find) => self.find(find),
            _ => Reply::err("a write cannot be answered without being applied"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let before = self.elements.len();
        let reply = match op {
            Op::Push(end, elements) => self.push(*end, elements),
            Op::PushIfPresent(..) if self.elements.is_empty() => Reply::Int(0),
            Op::PushIfPresent(end, elements) => self.push(*end, elements),
            Op::Pop(end, count) => self.pop(*end, *count),
            Op::SetAt(at, element) => self.set_at(*at, element),
            Op::Insert { before, pivot, element } => self.insert(*before, pivot, element),
            Op::Remove(count, element) => self.remove(*count, element),
            Op::Trim(start, end) => self.trim(*start, *end),
            read => self.query(read, ctx),
        };
        let writes_again = matches!(op, Op::SetAt(..) | Op::Trim(..));
        meta.untouched = !writes_again && self.elements.len() == before;
        reply
    }

    fn may_be_idle(op: &Op) -> bool {
        // On an absent list.
        matches!(op, Op::Pop(..) | Op::PushIfPresent(..) | Op::Remove(..))
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        let reads = (!Self::is_write(a.op), !Self::is_write(b.op));
        let idle = |op: &Op| !matches!(op, Op::Push(..));
        if reads == (true, true) || (self.elements.is_empty() && idle(a.op) && idle(b.op)) {
            return true;
        }
        let unseen_push = |access: Access<'_, Op>| match access.op {
            Op::Push(end, _) if !access.observed => Some(*end),
            _ => None,
        };
        let pop = |op: &Op| match op {
            // Even a pop of 0 elements depends on whether the list exists.
            Op::Pop(end, count) => Some((*end, count.unwrap_or(1).max(1))),
            _ => None,
        };
        let len = self.elements.len() as u64;
        match (unseen_push(a), unseen_push(b)) {
            (Some(x), Some(y)) => x != y || a.op == b.op,
            (Some(end), None) | (None, Some(end)) => {
                let other = if unseen_push(a).is_some() { b.op } else { a.op };
                match pop(other) {
                    Some((from, count)) => from != end && count <= len,
                    // A read may be granted beside the push of another holder; a later push at the
                    // same end leaves it valid too.
                    None => !Self::is_write(other) && self.fixed_despite_push(other, end),
                }
            }
            (None, None) => match (pop(a.op), pop(b.op)) {
                (Some((x, m)), Some((y, n))) => x != y && m.saturating_add(n) <= len,
                _ => false,
            },
        }
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        match access.op {
            op if !Self::is_write(op) => 0,
            Op::Push(End::Left, _) if !access.observed => 1,
            Op::Push(End::Right, _) if !access.observed => 2,
            Op::Pop(End::Left, _) => 3,
            Op::Pop(End::Right, _) => 4,
            _ => 5,
        }
    }

    fn combine(earlier: &Op, next: &Op) -> Option<Op> {
        match (earlier, next) {
            (Op::Push(x, a), Op::Push(y, b)) if x == y => {
                Some(Op::Push(*x, a.iter().chain(b).cloned().collect()))
            }
            _ => None,
        }
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        table::encode(op, key, out);
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.elements.len() as u64);
        for element in &self.elements {
            sink.bytes(element);
        }
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = load_count(source, 1)?;
        let mut elements = VecDeque::with_capacity(count);
        for _ in 0..count {
            elements.push_back(Blob::new(source.bytes()?));
        }
        Ok(Self { elements })
    }
}
