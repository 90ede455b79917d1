//! [`Pieces`]: a reply that is written piece by piece, as the socket accepts bytes.
//!
//! A reply shares its strings with the record that it is about, so before encoding it takes little
//! memory besides one place for each item; its encoded form takes memory for all bytes.

use super::encode::{Protocol, encode, push_bulk, push_double_reply, push_len};
use adt::{Blob, Reply};
use std::vec::IntoIter;

/// Size of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Approximate length in bytes when encoded.
    pub bytes: usize,
    /// Number of values in it.
    pub items: usize,
}

/// Bytes around the content of a value: its kind, its length, and line ends.
const AROUND_BYTES: usize = 8;

/// Computes the size of a reply, in time proportional to the number of its items.
pub fn size(reply: &Reply) -> Size {
    let inside = match reply {
        Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => sum(items),
        Reply::Map(pairs) => {
            let mut all = Size::default();
            pairs.iter().for_each(|(key, value)| [key, value].into_iter().for_each(|r| all.add(r)));
            all
        }
        Reply::Scored(members) => Size {
            bytes: members.iter().map(|(member, _)| member.len() + 4 * AROUND_BYTES).sum(),
            items: 2 * members.len(),
        },
        Reply::Pairs(pairs) => Size {
            bytes: pairs.iter().map(|(one, two)| one.len() + two.len() + 3 * AROUND_BYTES).sum(),
            items: 2 * pairs.len(),
        },
        Reply::Named(pairs) => {
            let mut all = Size::default();
            for (name, value) in pairs {
                all.bytes += name.len() + 2 * AROUND_BYTES;
                all.items += 1;
                all.add(value);
            }
            all
        }
        Reply::Bulk(bytes) => Size { bytes: bytes.len(), items: 0 },
        Reply::Text(text) => Size { bytes: text.len(), items: 0 },
        Reply::Status(text) => Size { bytes: text.len(), items: 0 },
        Reply::Error(error) => Size { bytes: error.text().len(), items: 0 },
        Reply::Ok
        | Reply::Nil
        | Reply::NilArray
        | Reply::Int(_)
        | Reply::Double(_)
        | Reply::Bool(_)
        | Reply::Record(_) => Size::default(),
    };
    Size { bytes: inside.bytes + AROUND_BYTES, items: inside.items + 1 }
}

fn sum(items: &[Reply]) -> Size {
    let mut all = Size::default();
    items.iter().for_each(|item| all.add(item));
    all
}

impl Size {
    fn add(&mut self, reply: &Reply) {
        let own = size(reply);
        self.bytes += own.bytes;
        self.items += own.items;
    }
}

/// Reply that is being written.
pub struct Pieces {
    protocol: Protocol,
    /// Unwritten rest of each open collection, the innermost last.
    levels: Vec<Level>,
}

enum Level {
    Items(IntoIter<Reply>),
    Pairs(IntoIter<(Reply, Reply)>),
    Scored(IntoIter<(Blob, f64)>),
    Strings(IntoIter<(Blob, Blob)>),
    /// Value that has not been begun.
    One(Reply),
    /// String, and the number of its bytes already written.
    Bytes(Blob, usize),
}

impl Pieces {
    /// Creates a reply of which nothing is written.
    pub fn new(reply: Reply, protocol: Protocol) -> Self {
        Self { protocol, levels: vec![Level::One(reply)] }
    }

    /// Goes on writing until `out` has `until` bytes, or a little more; returns whether all is
    /// written.
    pub fn write(&mut self, until: usize, out: &mut Vec<u8>) -> bool {
        while out.len() < until {
            let Some(level) = self.levels.last_mut() else { return true };
            let next = match level {
                Level::Items(items) => items.next(),
                Level::Pairs(pairs) => match pairs.next() {
                    Some((key, value)) => {
                        // The value comes after everything in the key.
                        self.levels.push(Level::One(value));
                        Some(key)
                    }
                    None => None,
                },
                Level::Strings(pairs) => pairs.next().map(|(one, two)| {
                    if self.protocol == Protocol::Resp3 {
                        push_len(b'*', 2, out);
                    }
                    self.levels.push(Level::One(Reply::Bulk(two)));
                    Reply::Bulk(one)
                }),
                Level::Scored(members) => {
                    let Some((member, score)) = members.next() else {
                        self.levels.pop();
                        continue;
                    };
                    if self.protocol == Protocol::Resp3 {
                        push_len(b'*', 2, out);
                    }
                    push_bulk(&member, out);
                    push_double_reply(score, self.protocol, out);
                    continue;
                }
                Level::One(reply) => {
                    let reply = std::mem::replace(reply, Reply::Nil);
                    self.levels.pop();
                    self.begin(reply, until, out);
                    continue;
                }
                Level::Bytes(bytes, at) => {
                    let end = bytes.len().min(*at + (until - out.len()));
                    out.extend_from_slice(&bytes[*at..end]);
                    *at = end;
                    if end == bytes.len() {
                        out.extend_from_slice(b"\r\n");
                        self.levels.pop();
                    }
                    continue;
                }
            };
            match next {
                Some(reply) => self.begin(reply, until, out),
                None => {
                    self.levels.pop();
                }
            }
        }
        while self.levels.last().is_some_and(Level::is_over) {
            self.levels.pop();
        }
        self.levels.is_empty()
    }

    /// Writes a value, or only its beginning if it is to be written in pieces.
    fn begin(&mut self, reply: Reply, until: usize, out: &mut Vec<u8>) {
        let resp3 = self.protocol == Protocol::Resp3;
        match reply {
            Reply::Bulk(bytes) if out.len() + bytes.len() > until => {
                push_len(b'$', bytes.len(), out);
                self.levels.push(Level::Bytes(bytes, 0));
            }
            Reply::Array(items) => self.begin_items(b'*', items, out),
            Reply::Set(items) => self.begin_items(if resp3 { b'~' } else { b'*' }, items, out),
            Reply::Push(items) => self.begin_items(if resp3 { b'>' } else { b'*' }, items, out),
            Reply::Map(pairs) => {
                let (kind, count) = if resp3 { (b'%', 1) } else { (b'*', 2) };
                push_len(kind, pairs.len() * count, out);
                self.levels.push(Level::Pairs(pairs.into_iter()));
            }
            Reply::Scored(members) => {
                push_len(b'*', if resp3 { members.len() } else { members.len() * 2 }, out);
                self.levels.push(Level::Scored(members.into_iter()));
            }
            Reply::Pairs(pairs) => {
                push_len(b'*', if resp3 { pairs.len() } else { pairs.len() * 2 }, out);
                self.levels.push(Level::Strings(pairs.into_iter()));
            }
            Reply::Named(pairs) if resp3 => {
                let pairs = pairs.into_iter().map(|(name, value)| (Reply::Bulk(name), value));
                self.begin(Reply::Map(pairs.collect()), until, out);
            }
            Reply::Named(pairs) => {
                let pair = |(name, value)| Reply::Array(vec![Reply::Bulk(name), value]);
                self.begin_items(b'*', pairs.into_iter().map(pair).collect(), out);
            }
            other => encode(&other, self.protocol, out),
        }
    }

    fn begin_items(&mut self, kind: u8, items: Vec<Reply>, out: &mut Vec<u8>) {
        push_len(kind, items.len(), out);
        self.levels.push(Level::Items(items.into_iter()));
    }
}

impl Level {
    fn is_over(&self) -> bool {
        match self {
            Self::Items(items) => items.as_slice().is_empty(),
            Self::Pairs(pairs) => pairs.as_slice().is_empty(),
            Self::Scored(members) => members.as_slice().is_empty(),
            Self::Strings(pairs) => pairs.as_slice().is_empty(),
            Self::One(_) | Self::Bytes(..) => false,
        }
    }
}
