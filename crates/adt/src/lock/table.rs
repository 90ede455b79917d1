//! The commands of locks, and how their words become operations.

use super::{Grant, LEASE_MS, LEASE_MS_MAX, OWNER_BYTES_MAX, Op, Share};
use crate::command::commands;
use crate::{Args, Awaiting, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op as AnyOp};

const SYNTAX: &str =
    "key [TIMEOUT milliseconds] [LEASE milliseconds] [OWNER name] [SHARED | LIMIT holders]";
const TRY_SYNTAX: &str = "key [LEASE milliseconds] [OWNER name] [SHARED | LIMIT holders]";
const TAKES: Flags =
    Flags::WRITE.and(Flags::GROWS).and(Flags::FAST).and(Flags::NO_MULTI).and(Flags::COORDINATION);
const WRITES: Flags = Flags::WRITE.and(Flags::FAST).and(Flags::COORDINATION);
const READS: Flags = Flags::READ.and(Flags::FAST).and(Flags::COORDINATION);

pub(super) const COMMANDS: &[CommandSpec] = commands! { "lock";
    ("lock.acquire", -2, TAKES.and(Flags::BLOCKING), Keys::ONE,
        "Takes a lock, waits in turn until it is free, and returns its fencing token.",
        SYNTAX, "O(1); O(n) in those who hold it with others") =>
        parse_acquire;
    ("lock.try", -2, TAKES, Keys::ONE,
        "Takes a lock if it is free, and returns its fencing token, or nil.",
        TRY_SYNTAX, "O(1); O(n) in those who hold it with others") =>
        |a| Ok(single(a.blob(1)?, Op::Acquire(Box::new(parse_grant(a, false)?.0))));
    ("lock.release", 3, WRITES, Keys::ONE,
        "Gives a lock back that was granted with this token; 0 if it is not held with it.",
        "key token", "O(1); O(n) in those who hold it with others") =>
        |a| Ok(single(a.blob(1)?, Op::Release(token(a)?)));
    ("lock.renew", -3, WRITES, Keys::ONE,
        "Begins the lease of a token anew; 0 if the lock is not held with it any more.",
        "key token [LEASE milliseconds]", "O(1); O(n) in those who hold it with others") =>
        parse_renew;
    ("lock.held", 3, READS, Keys::ONE,
        "Returns the milliseconds left of a token's lease, 0 if the lock is not held with it.",
        "key token", "O(1); O(n) in those who hold it with others") =>
        |a| Ok(single(a.blob(1)?, Op::Held(token(a)?)));
    ("lock.holders", 2, READS, Keys::ONE,
        "Returns who holds a lock: token, owner, with whom, milliseconds left.",
        "key", "O(n) in those who hold it") =>
        |a| Ok(single(a.blob(1)?, Op::Holders));
};

fn single(key: Blob, op: Op) -> Command {
    Command::Single(key, AnyOp::Lock(op))
}

fn token(args: &Args<'_>) -> Result<u64, ErrorReply> {
    let token = args.int(2).ok().and_then(|token| u64::try_from(token).ok());
    token.ok_or_else(|| ErrorReply::err("a token is the number that LOCK.ACQUIRE has returned"))
}

fn lease(args: &Args<'_>, at: usize) -> Result<u64, ErrorReply> {
    let lease = args.int(at).ok().and_then(|lease| u64::try_from(lease).ok());
    lease.filter(|lease| (1..=LEASE_MS_MAX).contains(lease)).ok_or_else(|| {
        ErrorReply::err(format!("LEASE is in milliseconds, from 1 to {LEASE_MS_MAX}"))
    })
}

/// What is asked for, and how long to wait in milliseconds; 0 means for ever.
fn parse_grant(args: &Args<'_>, wait: bool) -> Result<(Grant, u64), ErrorReply> {
    let mut grant = Grant { wait, lease_ms: LEASE_MS, share: Share::Alone, owner: Blob::default() };
    let (mut timeout_ms, mut i) = (0, 2);
    while i < args.len() {
        if args.is(i, "SHARED") && grant.share == Share::Alone {
            grant.share = Share::Shared;
            i += 1;
            continue;
        }
        if wait && args.is(i, "TIMEOUT") {
            let timeout = args.int(i + 1).ok().and_then(|timeout| u64::try_from(timeout).ok());
            timeout_ms = timeout
                .ok_or_else(|| ErrorReply::err("TIMEOUT is in milliseconds, 0 for no limit"))?;
        } else if args.is(i, "LEASE") {
            grant.lease_ms = lease(args, i + 1)?;
        } else if args.is(i, "OWNER") {
            grant.owner = args.blob(i + 1)?;
            if grant.owner.len() > OWNER_BYTES_MAX {
                let text = format!("OWNER has at most {OWNER_BYTES_MAX} bytes");
                return Err(ErrorReply::err(text));
            }
        } else if args.is(i, "LIMIT") && grant.share == Share::Alone {
            let most = args.int(i + 1).ok().and_then(|most| u32::try_from(most).ok());
            let most = most.filter(|most| (1..=super::HOLDERS_MAX as u32).contains(most));
            grant.share = Share::Limit(most.ok_or_else(|| {
                ErrorReply::err(format!("LIMIT is from 1 to {}", super::HOLDERS_MAX))
            })?);
        } else {
            return Err(ErrorReply::syntax());
        }
        i += 2;
    }
    Ok((grant, timeout_ms))
}

fn parse_acquire(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let key = args.blob(1)?;
    let (grant, timeout_ms) = parse_grant(args, true)?;
    let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
    Ok(Command::Awaiting(Awaiting { key, op, timeout_ms }))
}

fn parse_renew(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let lease_ms = match args.len() {
        3 => None,
        5 if args.is(3, "LEASE") => Some(lease(args, 4)?),
        _ => return Err(ErrorReply::syntax()),
    };
    Ok(single(args.blob(1)?, Op::Renew(token(args)?, lease_ms)))
}
