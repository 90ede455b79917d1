//! Commands of locks: parsing of their words into operations, and encoding.

use crate::command::commands;
use crate::kinds::lock::{
    Grant, HOLDERS_MAX, LEADER_VALUE_BYTES_MAX, LEASE_MS, LEASE_MS_MAX, NEAR_LEASE_MS_MAX,
    OWNER_BYTES_MAX, Op, Passage, Share, TICKET_BYTES_MAX, TOKENS_MAX,
};
use crate::{Args, Awaiting, Blob, Command, CommandSpec, ErrorReply, Flags, Keys, Op as AnyOp};

const SYNTAX: &str = "key [TIMEOUT milliseconds] [LEASE milliseconds] [OWNER name] \
                      [SHARED | LIMIT holders] [DETECT] [TOKENS number] [NEAR | NEXT]";
const TRY_SYNTAX: &str = "key [LEASE milliseconds] [OWNER name] [SHARED | LIMIT holders]";
const TAKES: Flags =
    Flags::WRITE.and(Flags::GROWS).and(Flags::FAST).and(Flags::NO_MULTI).and(Flags::COORDINATION);
const WRITES: Flags = Flags::WRITE.and(Flags::FAST).and(Flags::COORDINATION);
const READS: Flags = Flags::READ.and(Flags::FAST).and(Flags::COORDINATION);

pub(in crate::kinds::lock) const COMMANDS: &[CommandSpec] = commands! { "lock";
    ("lock.acquire", -2, TAKES.and(Flags::BLOCKING), Keys::ONE,
        "Takes a lock, waiting in turn until it is free, and returns its fencing token, or its first one.",
        SYNTAX, "O(1); O(n) in the holders that share it") =>
        parse_acquire;
    ("lock.try", -2, TAKES, Keys::ONE,
        "Takes a lock if it is free, and returns its fencing token, or nil.",
        TRY_SYNTAX, "O(1); O(n) in the holders that share it") =>
        parse_try;
    ("lock.release", 3, WRITES, Keys::ONE,
        "Releases a lock that was granted with this token; 0 if the token does not hold it.",
        "key token", "O(1); O(n) in the holders that share it") =>
        |a| Ok(single(a.blob(1)?, Op::Release(token(a)?)));
    ("lock.renew", -3, WRITES, Keys::ONE,
        "Restarts the lease of a token; 0 if the token no longer holds the lock.",
        "key token [LEASE milliseconds]", "O(1); O(n) in the holders that share it") =>
        parse_renew;
    ("lock.held", 3, READS, Keys::ONE,
        "Returns the milliseconds left of a token's lease, 0 if the token does not hold the lock.",
        "key token", "O(1); O(n) in the holders that share it") =>
        |a| Ok(single(a.blob(1)?, Op::Held(token(a)?)));
    ("lock.wanted", -3, READS.and(Flags::BLOCKING).and(Flags::NO_MULTI), Keys::ONE,
        "Waits until a lock has waiters, and returns their number; 0 if the token does not hold the lock.",
        "key token [TIMEOUT milliseconds]", "O(1); O(n) in the holders that share it") =>
        parse_wanted;
    ("lock.holders", 2, READS, Keys::ONE,
        "Returns the holders of a lock: token, owner, sharing, milliseconds left.",
        "key", "O(n) in the holders") =>
        |a| Ok(single(a.blob(1)?, Op::Holders));
    ("election.campaign", -3, TAKES.and(Flags::BLOCKING), Keys::ONE,
        "Waits in turn until elected, proclaims a value, and returns the fencing token. The leader \
         holds the key as a lock.",
        "key value [TIMEOUT milliseconds] [LEASE milliseconds] [OWNER name] [DETECT]", "O(1)") =>
        parse_campaign;
    ("election.proclaim", 4, WRITES.and(Flags::GROWS), Keys::ONE,
        "Replaces the value of the leader with this token, and returns its version; 0 if the token no \
         longer leads.",
        "key token value", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Proclaim(token(a)?, value(a, 3)?)));
    ("election.resign", 3, WRITES, Keys::ONE,
        "Ends the leadership of this token; 0 if the token no longer leads.",
        "key token", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Release(token(a)?)));
    ("election.leader", 2, READS, Keys::ONE,
        "Returns the leader: token, owner, value, milliseconds left, version; nil if there is none.",
        "key", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Leader));
    ("election.observe", -2, READS.and(Flags::BLOCKING).and(Flags::NO_MULTI), Keys::ONE,
        "Waits until the version of the leader or its value differs from the one that was seen, and \
         returns the leader as ELECTION.LEADER does; version 0 means that there is no leader.",
        "key [AFTER version] [TIMEOUT milliseconds]", "O(1)") =>
        parse_observe;
};

/// Forms that only the log uses; clients cannot send them.
pub(crate) const INTERNAL: &[CommandSpec] = commands! { "lock";
    ("lock.pass", -2, Flags::WRITE, Keys::ONE,
        "Passes through a lock for the commands of a section.",
        "key [OWNER name] [SHARED | LIMIT holders] [DETECT]", "O(n) in the holders") =>
        parse_pass;
    ("lock.claim", -3, Flags::WRITE, Keys::ONE,
        "Takes a lock with a ticket.",
        "key ticket [LEASE milliseconds] [OWNER name] [DETECT]", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Acquire(Box::new(ticketed(a)?))));
    ("lock.name", -3, Flags::WRITE, Keys::ONE,
        "Names the next holder of a lock.",
        "key ticket [LEASE milliseconds] [OWNER name] [DETECT]", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Name(Box::new(ticketed(a)?))));
    ("lock.unname", 3, Flags::WRITE, Keys::ONE,
        "Removes a successor or holder by its ticket.",
        "key ticket", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Unname(ticket(a)?)));
    ("lock.forget", 3, Flags::WRITE, Keys::ONE,
        "Removes a successor by its ticket, unless it holds the lock already.",
        "key ticket", "O(1)") =>
        |a| Ok(single(a.blob(1)?, Op::Forget(ticket(a)?)));
};

fn single(key: Blob, op: Op) -> Command {
    Command::Single(key, AnyOp::Lock(op))
}

fn token(args: &Args<'_>) -> Result<u64, ErrorReply> {
    let token = args.int(2).ok().and_then(|token| u64::try_from(token).ok());
    token.ok_or_else(|| ErrorReply::err("a token is the number that LOCK.ACQUIRE has returned"))
}

fn value(args: &Args<'_>, at: usize) -> Result<Blob, ErrorReply> {
    let value = args.blob(at)?;
    if value.len() > LEADER_VALUE_BYTES_MAX {
        let text = format!("the value of a leader has at most {LEADER_VALUE_BYTES_MAX} bytes");
        return Err(ErrorReply::err(text));
    }
    Ok(value)
}

fn timeout(args: &Args<'_>, at: usize) -> Result<u64, ErrorReply> {
    let timeout = args.int(at).ok().and_then(|timeout| u64::try_from(timeout).ok());
    timeout.ok_or_else(|| ErrorReply::err("TIMEOUT is in milliseconds, 0 for no limit"))
}

fn lease(args: &Args<'_>, at: usize) -> Result<u64, ErrorReply> {
    let lease = args.int(at).ok().and_then(|lease| u64::try_from(lease).ok());
    lease.filter(|lease| (1..=LEASE_MS_MAX).contains(lease)).ok_or_else(|| {
        ErrorReply::err(format!("LEASE is in milliseconds, from 1 to {LEASE_MS_MAX}"))
    })
}

/// The error for a lease that is longer than a server that keeps the lock can promise.
pub fn near_lease_too_long() -> ErrorReply {
    ErrorReply::err(format!("with NEAR a LEASE has {NEAR_LEASE_MS_MAX} milliseconds at most"))
}

/// Parsed options of a request for a lock.
struct Asked {
    grant: Grant,
    /// Longest wait in milliseconds; 0 means for ever.
    timeout_ms: u64,
    /// Whether the server that the client is connected to keeps the lock.
    near: bool,
    /// Number of words up to the end of the options.
    words: usize,
}

/// Command that the options belong to.
#[derive(Clone, Copy, PartialEq)]
enum Options {
    Acquire,
    Try,
    /// After the value.
    Campaign,
    /// After the ticket.
    Claim,
    /// Followed by a command.
    Section,
}

fn parse_options(args: &Args<'_>, which: Options) -> Result<Asked, ErrorReply> {
    let wait = which != Options::Try;
    let (share, owner) = (Share::Alone, Blob::default());
    let lease_ms = LEASE_MS;
    let grant =
        Grant { wait, lease_ms, share, owner, detect: false, value: None, tokens: 1, ticket: None };
    let alone = matches!(which, Options::Campaign | Options::Claim);
    let begin = if alone { 3 } else { 2 };
    let mut asked = Asked { grant, timeout_ms: 0, near: false, words: begin };
    let grant = &mut asked.grant;
    while asked.words < args.len() {
        let i = asked.words;
        if args.is(i, "SHARED") && grant.share == Share::Alone && !alone {
            grant.share = Share::Shared;
            asked.words += 1;
            continue;
        }
        if wait && args.is(i, "DETECT") && !grant.detect {
            grant.detect = true;
            asked.words += 1;
            continue;
        }
        if which == Options::Acquire && args.is(i, "NEAR") && !asked.near {
            asked.near = true;
            asked.words += 1;
            continue;
        }
        if which == Options::Acquire && args.is(i, "NEXT") && grant.ticket.is_none() {
            grant.ticket = Some(Blob::default());
            asked.words += 1;
            continue;
        }
        if wait && args.is(i, "TIMEOUT") {
            asked.timeout_ms = timeout(args, i + 1)?;
        } else if which == Options::Acquire && args.is(i, "TOKENS") {
            grant.tokens = tokens(args, i + 1)?;
        } else if which != Options::Section && args.is(i, "LEASE") {
            grant.lease_ms = lease(args, i + 1)?;
        } else if args.is(i, "OWNER") {
            grant.owner = args.blob(i + 1)?;
            if grant.owner.len() > OWNER_BYTES_MAX {
                let text = format!("OWNER has at most {OWNER_BYTES_MAX} bytes");
                return Err(ErrorReply::err(text));
            }
        } else if args.is(i, "LIMIT") && grant.share == Share::Alone && !alone {
            grant.share = limit(args, i + 1)?;
        } else if which == Options::Section && !is_option(args, i) {
            break;
        } else {
            return Err(ErrorReply::syntax());
        }
        asked.words += 2;
    }
    if grant.detect && grant.owner.is_empty() {
        let text = "DETECT needs an OWNER, a distinct name for each client";
        return Err(ErrorReply::err(text));
    }
    Ok(asked)
}

/// Whether the word at `at` is an option at the place of a section's command.
fn is_option(args: &Args<'_>, at: usize) -> bool {
    ["SHARED", "LIMIT", "LEASE", "DETECT", "TOKENS", "NEAR", "NEXT"]
        .iter()
        .any(|word| args.is(at, word))
}

fn limit(args: &Args<'_>, at: usize) -> Result<Share, ErrorReply> {
    let most = args.int(at).ok().and_then(|most| u32::try_from(most).ok());
    let most = most.filter(|most| (1..=HOLDERS_MAX as u32).contains(most));
    most.map(Share::Limit)
        .ok_or_else(|| ErrorReply::err(format!("LIMIT is from 1 to {HOLDERS_MAX}")))
}

fn tokens(args: &Args<'_>, at: usize) -> Result<u32, ErrorReply> {
    let tokens = args.int(at).ok().and_then(|tokens| u32::try_from(tokens).ok());
    tokens
        .filter(|tokens| (1..=TOKENS_MAX).contains(tokens))
        .ok_or_else(|| ErrorReply::err(format!("TOKENS is from 1 to {TOKENS_MAX}")))
}

fn parse_try(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let grant = parse_options(args, Options::Try)?.grant;
    Ok(single(args.blob(1)?, Op::Acquire(Box::new(grant))))
}

/// Parses a section up to its command: the waiting operation, and the number of words it takes.
pub fn section(args: &Args<'_>) -> Result<(Awaiting, usize), ErrorReply> {
    let key = args.blob(1)?;
    let Asked { grant, timeout_ms, words, .. } = parse_options(args, Options::Section)?;
    let passage = Passage { share: grant.share, owner: grant.owner, detect: grant.detect };
    let op = AnyOp::Lock(Op::Pass(Box::new(passage)));
    Ok((Awaiting::new(key, op, timeout_ms), words))
}

fn parse_pass(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (Awaiting { key, op, .. }, words) = section(args)?;
    if words < args.len() {
        return Err(ErrorReply::syntax());
    }
    Ok(Command::Single(key, op))
}

fn parse_acquire(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let key = args.blob(1)?;
    let Asked { grant, timeout_ms, near, .. } = parse_options(args, Options::Acquire)?;
    if near && (grant.share != Share::Alone || grant.detect || grant.tokens > 1) {
        let text = "with NEAR a lock is taken alone, without DETECT and TOKENS";
        return Err(ErrorReply::err(text));
    }
    if grant.ticket.is_some() && (near || grant.share != Share::Alone || grant.tokens > 1) {
        return Err(ErrorReply::err("with NEXT a lock is taken alone, without TOKENS and NEAR"));
    }
    if near && grant.lease_ms > NEAR_LEASE_MS_MAX {
        return Err(near_lease_too_long());
    }
    let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
    Ok(Command::Awaiting(Awaiting { key, op, timeout_ms, near }))
}

/// The ticket of internal forms.
fn ticket(args: &Args<'_>) -> Result<Blob, ErrorReply> {
    let ticket = args.blob(2)?;
    let fits = (1..=TICKET_BYTES_MAX).contains(&ticket.len());
    fits.then_some(ticket).ok_or_else(|| ErrorReply::err("no such ticket"))
}

fn ticketed(args: &Args<'_>) -> Result<Grant, ErrorReply> {
    let grant = parse_options(args, Options::Claim)?.grant;
    Ok(Grant { ticket: Some(ticket(args)?), ..grant })
}

fn parse_campaign(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let key = args.blob(1)?;
    let Asked { mut grant, timeout_ms, .. } = parse_options(args, Options::Campaign)?;
    grant.value = Some(value(args, 2)?);
    let op = AnyOp::Lock(Op::Acquire(Box::new(grant)));
    Ok(Command::Awaiting(Awaiting::new(key, op, timeout_ms)))
}

fn parse_observe(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let (key, mut seen, mut timeout_ms) = (args.blob(1)?, 0, 0);
    for i in (2..args.len()).step_by(2) {
        if args.is(i, "AFTER") {
            let version = args.int(i + 1).ok().and_then(|version| u64::try_from(version).ok());
            seen = version.ok_or_else(|| {
                ErrorReply::err("AFTER takes the version that was seen, 0 if there was no leader")
            })?;
        } else if args.is(i, "TIMEOUT") {
            timeout_ms = timeout(args, i + 1)?;
        } else {
            return Err(ErrorReply::syntax());
        }
    }
    let op = AnyOp::Lock(Op::Observe(seen));
    Ok(Command::Awaiting(Awaiting::new(key, op, timeout_ms)))
}

fn parse_wanted(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let timeout_ms = match args.len() {
        3 => 0,
        5 if args.is(3, "TIMEOUT") => timeout(args, 4)?,
        _ => return Err(ErrorReply::syntax()),
    };
    let op = AnyOp::Lock(Op::Wanted(token(args)?));
    Ok(Command::Awaiting(Awaiting::new(args.blob(1)?, op, timeout_ms)))
}

fn parse_renew(args: &Args<'_>) -> Result<Command, ErrorReply> {
    let lease_ms = match args.len() {
        3 => None,
        5 if args.is(3, "LEASE") => Some(lease(args, 4)?),
        _ => return Err(ErrorReply::syntax()),
    };
    Ok(single(args.blob(1)?, Op::Renew(token(args)?, lease_ms)))
}
