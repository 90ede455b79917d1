//! Barrier: clients wait until a given number of them has arrived, and then all proceed together.
//!
//! Waiting is not part of the state, as with locks: the shard keeps the waiters, and releases them
//! together ([`Waiter::parties`]) by one log entry that holds one operation for each of them, in
//! the order of arrival. Nothing is therefore stored under the key: a barrier without waiters does
//! not exist, and can be used again as soon as the last generation has passed.
//!
//! Clients that are released together are a *generation*. The number of a generation is larger than
//! those of all generations before it and than all lock tokens that the shard has issued before: it
//! is the commit timestamp of its first operation, in microseconds, and so a fencing token as well.

use crate::command::commands;
use crate::{
    Access, ArgBuf, Args, Awaiting, Blob, Command, CommandSpec, Corrupt, Ctx, DataType, ErrorReply,
    Flags, Keys, Meta, Op as AnyOp, Reply, ValueSink, ValueSource, Waiter,
};

/// Most parties of one barrier.
pub const PARTIES_MAX: u32 = 10_000;
/// Longest name of an owner, in bytes.
pub const OWNER_BYTES_MAX: usize = super::lock::OWNER_BYTES_MAX;
/// Most bytes that a generation takes in the log, where each party's operation repeats the key.
pub const GENERATION_BYTES_MAX: usize = 4 << 20;
/// Most bytes of one operation in the log, besides the key; the request number is included.
const OVERHEAD_BYTES: usize = 192;

/// State of a barrier: empty.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value;

/// Operations on a barrier.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Waits until the parties have arrived; by itself it answers nil.
    Wait {
        /// Number of parties of the generation.
        parties: u32,
        /// Name of the waiting client.
        owner: Blob,
    },
    /// Passes as part of a generation, behind this many others in the log; answers the generation.
    Pass(u32),
}

const FLAGS: Flags = Flags::WRITE
    .and(Flags::FAST)
    .and(Flags::NO_MULTI)
    .and(Flags::BLOCKING)
    .and(Flags::COORDINATION);

const COMMANDS: &[CommandSpec] = commands! { "barrier";
    ("barrier.wait", -3, FLAGS, Keys::ONE,
        "Waits until this many parties have arrived, and returns the number of their generation, the \
         same to all of them; nil after the time-out, which withdraws the arrival.",
        "key parties [TIMEOUT milliseconds] [OWNER name]", "O(1); O(n) for the last to arrive") =>
        parse_wait;
};

/// Forms that only the log uses; clients cannot send them.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "barrier";
    ("barrier.pass", 3, Flags::WRITE, Keys::ONE,
        "Passes a barrier as part of a generation, behind this many others.", "key count", "O(1)") =>
        |a| {
            let in_front = a.int(2).ok().and_then(|count| u32::try_from(count).ok());
            let in_front = in_front.filter(|count| *count < PARTIES_MAX).ok_or_else(ErrorReply::syntax)?;
            Ok(Command::Single(a.blob(1)?, AnyOp::Barrier(Op::Pass(in_front))))
        };
};

fn parse_wait(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let key = args.blob(1)?;
    let parties = args.int(2).ok().and_then(|parties| u32::try_from(parties).ok());
    let parties = parties
        .filter(|parties| (1..=PARTIES_MAX).contains(parties))
        .ok_or_else(|| ErrorReply::err(format!("a barrier is for 1 to {PARTIES_MAX} parties")))?;
    let longest = (GENERATION_BYTES_MAX / parties as usize).saturating_sub(OVERHEAD_BYTES);
    if key.len() > longest {
        let text =
            format!("the key of a barrier for {parties} parties has at most {longest} bytes");
        return Err(ErrorReply::err(text));
    }
    let (mut owner, mut timeout_ms) = (Blob::default(), 0);
    for i in (3..args.len()).step_by(2) {
        if args.is(i, "TIMEOUT") {
            let timeout = args.int(i + 1).ok().and_then(|timeout| u64::try_from(timeout).ok());
            timeout_ms = timeout
                .ok_or_else(|| ErrorReply::err("TIMEOUT is in milliseconds, 0 for no limit"))?;
        } else if args.is(i, "OWNER") {
            owner = args.blob(i + 1)?;
            if owner.len() > OWNER_BYTES_MAX {
                let text = format!("OWNER has at most {OWNER_BYTES_MAX} bytes");
                return Err(ErrorReply::err(text));
            }
        } else {
            return Err(ErrorReply::syntax());
        }
    }
    let op = AnyOp::Barrier(Op::Wait { parties, owner });
    Ok(Command::Awaiting(Awaiting::new(key, op, timeout_ms)))
}

/// Number of the generation whose first operation is `in_front` places earlier in the log.
fn generation(in_front: u32, ctx: &Ctx) -> Reply {
    // Operations that need a number of their own are a microsecond apart in the log.
    let first = ctx.ts.number().saturating_sub(in_front.into());
    Reply::Int(i64::try_from(first).unwrap_or(i64::MAX))
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "barrier";
    const COMMANDS: &'static [CommandSpec] = COMMANDS;
    const MODES: &'static [&'static str] = &["write"];
    const SHARED: [u8; 8] = [0; 8];

    fn is_write(_op: &Op) -> bool {
        true
    }

    fn is_empty(&self) -> bool {
        true
    }

    fn creates(_op: &Op) -> bool {
        false
    }

    fn preserves_key(_op: &Op) -> bool {
        false
    }

    fn query(&self, _op: &Op, _ctx: &Ctx) -> Reply {
        Reply::err("not a read")
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, _meta: &mut Meta) -> Reply {
        match op {
            Op::Wait { .. } => Reply::Nil,
            Op::Pass(in_front) => generation(*in_front, ctx),
        }
    }

    fn commutes(&self, _a: Access<'_, Op>, _b: Access<'_, Op>) -> bool {
        false
    }

    fn mode(_access: Access<'_, Op>) -> u8 {
        0
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Wait { parties, owner } => {
                out.push("barrier.wait").push(key).push_int((*parties).into());
                if !owner.is_empty() {
                    out.push("owner").push(owner);
                }
            }
            Op::Pass(in_front) => {
                out.push("barrier.pass").push(key).push_int((*in_front).into());
            }
        }
    }

    fn save(&self, _sink: &mut dyn ValueSink) {}

    fn load(_source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        Ok(Self)
    }
}

impl Waiter for Value {
    fn waits(op: &Op) -> bool {
        matches!(op, Op::Wait { .. })
    }

    fn parties(op: &Op) -> Option<u32> {
        match op {
            Op::Wait { parties, .. } => Some(*parties),
            Op::Pass(_) => None,
        }
    }

    fn reserves(op: &Op) -> u32 {
        matches!(op, Op::Pass(_)).into()
    }

    fn together(op: &Op, in_front: u32) -> Option<Op> {
        matches!(op, Op::Wait { .. }).then_some(Op::Pass(in_front))
    }

    fn wish(op: &Op) -> Vec<Reply> {
        match op {
            Op::Wait { parties, owner } => {
                vec![Reply::Bulk(owner.clone()), Reply::Int((*parties).into())]
            }
            Op::Pass(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;
    use crate::record::{apply, decode};

    fn operation(words: &str) -> Result<AnyOp, ErrorReply> {
        decode(&ArgBuf::of(words.split(' ')).args()).map(|(_, op)| op)
    }

    #[test]
    fn laws_hold() {
        let wait = |parties, owner: &str| Op::Wait { parties, owner: Blob::from(owner) };
        crate::laws::check_laws::<Value>(
            &[wait(1, ""), wait(3, "ann"), Op::Pass(0), Op::Pass(2)],
            2,
        );
    }

    #[test]
    fn a_generation_has_one_number_and_the_next_one_a_larger_number() {
        let ctx = |ts| Ctx { ts: Timestamp(ts), ..Ctx::default() };
        let begin = 1_770_000_000_000_000;
        let mut slot = None;
        let mut pass = |in_front, at| {
            let op = AnyOp::Barrier(Op::Pass(in_front));
            let reply = apply(&mut slot, &op, &ctx(Timestamp::from_micros(begin + at).0));
            assert_eq!(slot, None, "nothing is stored");
            let Reply::Int(generation) = reply else { panic!("{reply:?}") };
            generation
        };
        let first = [pass(0, 5), pass(1, 6), pass(2, 7)];
        assert_eq!(first, [first[0]; 3]);
        assert!(pass(0, 8) > first[0]);
        let waits = operation("barrier.wait k 1").unwrap();
        assert_eq!(apply(&mut None, &waits, &ctx(begin)), Reply::Nil, "no client passes alone");
    }

    #[test]
    fn invalid_words_are_refused() {
        let longest = "x".repeat(OWNER_BYTES_MAX);
        for words in [
            "barrier.wait k 0".to_owned(),
            "barrier.wait k -1".to_owned(),
            "barrier.wait k many".to_owned(),
            format!("barrier.wait k {}", PARTIES_MAX + 1),
            format!("barrier.wait {} {PARTIES_MAX}", "k".repeat(1 << 10)),
            "barrier.wait k 2 timeout".to_owned(),
            "barrier.wait k 2 timeout -1".to_owned(),
            format!("barrier.wait k 2 owner {longest}x"),
            "barrier.wait k 2 3".to_owned(),
            format!("barrier.pass k {PARTIES_MAX}"),
        ] {
            assert!(operation(&words).is_err(), "{words}");
        }
        let words = format!("barrier.wait {} 3 owner {longest} timeout 5", "k".repeat(64 << 10));
        assert!(operation(&words).is_ok());
        assert!(operation(&format!("barrier.wait k {PARTIES_MAX}")).is_ok());
    }
}
