//! How much memory the replies to one request may take.
//!
//! A reply shares its strings with the records, but has a place for each item, and a part of a string is
//! a string of its own. A transaction can ask for the same large record as often as it has commands, so
//! what it gets is counted while it is made.

use crate::limits::REPLY_BYTES_MAX;
use adt::record::{self, Record};
use adt::{Ctx, ErrorReply, Op, Reply};

/// Memory that is left for the replies to one request.
pub(in crate::shard) struct Room {
    left: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { left: REPLY_BYTES_MAX }
    }
}

impl Room {
    /// Answers a read if there is room left.
    #[inline]
    pub fn query(&mut self, record: Option<&Record>, op: &Op, ctx: &Ctx) -> Reply {
        self.counted(|| record::query(record, op, ctx))
    }

    /// [`Room::query`] from what is left at the time of the context; see [`record::query_left`].
    pub fn query_left(&mut self, record: Option<&Record>, op: &Op, ctx: &Ctx) -> Reply {
        self.counted(|| record::query_left(record, op, ctx))
    }

    #[inline]
    fn counted(&mut self, answer: impl FnOnce() -> Reply) -> Reply {
        if self.left == 0 {
            let text = format!(
                "the replies to this request take more than {REPLY_BYTES_MAX} bytes of memory: ask for \
                 less at once"
            );
            return ErrorReply::err(text).into();
        }
        let reply = answer();
        self.left = self.left.saturating_sub(taken(&reply));
        reply
    }
}

/// Memory that a reply takes besides the records.
#[inline]
fn taken(reply: &Reply) -> usize {
    let own = match reply {
        Reply::Bulk(bytes) => bytes.own_bytes(),
        _ => 0,
    };
    own + reply.len() * size_of::<Reply>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use adt::{ArgBuf, Blob, Command};

    fn op(line: &str) -> Op {
        let words = ArgBuf::of(line.split(' '));
        let name = words.args().get(0).unwrap_or_default().to_vec();
        let spec = crate::gateway::clients::session_commands::lookup(&name).unwrap();
        let adt::Handler::Data(parse) = spec.handler else { panic!("{line}") };
        let Ok(Command::Single(_, op)) = parse(&words.args()) else { panic!("{line}") };
        op
    }

    fn record(op: &Op) -> Record {
        let mut slot = None;
        assert!(!record::apply(&mut slot, op, &Ctx::default()).is_error());
        slot.unwrap()
    }

    #[test]
    fn what_a_request_gets_is_refused_where_it_takes_too_much_memory() {
        let value = "x".repeat(1 << 20);
        let string = record(&op(&format!("SET k {value}")));
        let (whole, part) = (op("GETRANGE k 0 -1"), op("GETRANGE k 1 -1"));
        let mut room = Room::default();
        for _ in 0..REPLY_BYTES_MAX >> 20 {
            let reply = room.query(Some(&string), &part, &Ctx::default());
            assert_eq!(reply, Reply::Bulk(Blob::from(&value[1..])));
        }
        assert!(!room.query(Some(&string), &part, &Ctx::default()).is_error());
        let refused = room.query(Some(&string), &part, &Ctx::default());
        let Reply::Error(error) = refused else { panic!("{refused:?}") };
        assert!(error.text().contains(&format!("{REPLY_BYTES_MAX} bytes")));
        let mut room = Room::default();
        for _ in 0..10_000 {
            for shared in [&whole, &op("GET k")] {
                assert!(!room.query(Some(&string), shared, &Ctx::default()).is_error());
            }
        }
        let set = record(&op("SADD s a"));
        let many = op("SRANDMEMBER s -1000000");
        let mut room = Room::default();
        let answered =
            (0..100).take_while(|_| !room.query(Some(&set), &many, &Ctx::default()).is_error());
        assert!((2..5).contains(&answered.count()), "a place for each item counts");
        let hash = record(&op("HSET h f v"));
        let pairs = op("HRANDFIELD h -1000000 WITHVALUES");
        let mut room = Room::default();
        let answered =
            (0..100).take_while(|_| !room.query(Some(&hash), &pairs, &Ctx::default()).is_error());
        assert!((1..3).contains(&answered.count()), "and two for each pair");
    }
}
