//! Lock: exclusive, shared or limited ownership, with leases and fencing tokens.
//!
//! A holder keeps a lock until it releases it or its *lease* ends. Every grant has a *token* that
//! is larger than those of all grants before it, even if the key has ceased to exist in between:
//! the token is the microsecond of the commit timestamp, which no other grant of the lock has. A
//! resource that the lock protects can refuse requests with a smaller token than it has seen
//! (Kleppmann, "How to do distributed locking", 2016); the store does so itself (`FENCE`). There is
//! no lock without a token.
//!
//! A lock has one holder (the default), any number of holders that share it, or a limited number.
//! Waiting is not part of the state: a request that cannot be granted is answered nil, and the
//! shard keeps the waiters in the order of their arrival ([`Waiter::waits`]).
//!
//! A *section* combines an acquisition, the operations under it and the release in one request: it
//! is admitted as an acquisition would be, has a token as a grant has, and leaves no holder behind,
//! for nothing can come between its parts.
//!
//! An *election* is a lock whose holder has a value that every client can read and follow
//! ([`election`]).
//!
//! Waiters can be *named* as successors while another client holds the lock ([`successor`]): the
//! next holder and its token are then known before the release.
//!
//! A grant can come with a *block* of consecutive tokens, for a holder that lets other clients work
//! under the lock one after the other, each under a token of its own. The first token identifies
//! the grant. The block ends with the microsecond of the commit timestamp: the shard advances its
//! timestamps by the length of the block first. All tokens of the block are therefore larger than
//! every token issued before, and every later token is larger than all of them, although the state
//! keeps nothing of the block once the key is gone. A block that began at the commit timestamp
//! would not have this property: the next timestamps would lie in it.
//!
//! A lease ends by the time that the leader has written into the log. A clock that leaps ends
//! leases early or late; the tokens still protect the resource.

mod election;
mod successor;
mod table;

pub use election::LEADER_VALUE_BYTES_MAX;
use election::Proclaimed;
use successor::Successor;
pub use successor::{SUCCESSORS_MAX, TICKET_BYTES_MAX};
pub(crate) use table::INTERNAL;
pub use table::{near_lease_too_long, section};

#[cfg(test)]
mod tests;

use crate::{
    Access, ArgBuf, Blob, CameOf, CommandSpec, Corrupt, Ctx, DataType, Meta, Reply, ValueSink,
    ValueSource, Waiter, load_count,
};

/// Default lease, in milliseconds.
pub const LEASE_MS: u64 = 30_000;
/// The longest lease: a day, in milliseconds.
pub const LEASE_MS_MAX: u64 = 86_400_000;
/// Longest lease of a client under a lock that a server keeps for its clients: six hours, in
/// milliseconds. The server's own lease must be more than twice as long.
pub const NEAR_LEASE_MS_MAX: u64 = LEASE_MS_MAX / 4;
/// Longest name of an owner, in bytes.
pub const OWNER_BYTES_MAX: usize = 256;
/// Most tokens of one grant. Each takes a microsecond of the shard's timestamps: with 4,096 a shard
/// can make 240 such grants in a second before its timestamps run ahead of its clock.
pub const TOKENS_MAX: u32 = 1 << 12;
/// Default number of tokens of a kept lock: large enough that its holder seldom asks for more, and
/// small enough that timestamps keep up with a thousand such grants in a second.
pub const TOKENS_OF_KEPT: u32 = 1 << 10;
/// Most holders of one lock.
pub const HOLDERS_MAX: usize = 10_000;

/// The state: holders in the order of their grants. Holders whose lease has ended no longer count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value {
    holders: Vec<Holder>,
    /// Successors in the order in which they will hold the lock. While there are any, the lock has
    /// a holder, unless its lease has ended since.
    successors: Vec<Successor>,
}

#[derive(Clone, Debug, PartialEq)]
struct Holder {
    token: u64,
    until_ms: u64,
    lease_ms: u64,
    share: Share,
    owner: Blob,
    /// Value and version of an elected leader.
    proclaimed: Option<Proclaimed>,
    /// Ticket of a holder that asked with `NEXT`.
    ticket: Option<Blob>,
}

/// Other holders that a grant admits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Share {
    /// No other holder.
    #[default]
    Alone,
    /// Any number of other holders that share the lock as well.
    Shared,
    /// Other holders with a limit; at most this many in all.
    Limit(u32),
}

/// Request for a lock.
#[derive(Clone, Debug, PartialEq)]
pub struct Grant {
    /// Whether to wait if the lock cannot be granted at once.
    pub wait: bool,
    /// Lease, in milliseconds.
    pub lease_ms: u64,
    /// Other holders to admit.
    pub share: Share,
    /// Name of the requesting client.
    pub owner: Blob,
    /// Whether to be refused instead of waiting in a deadlock cycle.
    pub detect: bool,
    /// Value to proclaim upon election; `None` for a plain lock.
    pub value: Option<Blob>,
    /// Number of tokens of the grant.
    pub tokens: u32,
    /// Ticket of a request with `NEXT`, which may be named as a successor and have successors. It
    /// stays the same across retries; empty until one has been assigned.
    pub ticket: Option<Blob>,
}

/// Request for a lock for the duration of a section only.
#[derive(Clone, Debug, PartialEq)]
pub struct Passage {
    /// Other holders to admit.
    pub share: Share,
    /// Name of the requesting client.
    pub owner: Blob,
    /// Whether to be refused instead of waiting in a deadlock cycle.
    pub detect: bool,
}

/// Operations on a lock.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Takes the lock; answers the token, or nil if it cannot be granted.
    Acquire(Box<Grant>),
    /// Passes through the lock without holding it afterwards; answers the token of a section, or
    /// nil if the lock cannot be granted. The operations of the section come in the same request.
    Pass(Box<Passage>),
    /// Names the requesting client as the last of the holder's successors; answers whether it was
    /// named.
    Name(Box<Grant>),
    /// Removes the successor or holder with this ticket; answers whether there was one.
    Unname(Blob),
    /// Removes the successor with this ticket, unless it has become the holder or has shown its
    /// token; answers whether there was one.
    Forget(Blob),
    /// Releases the grant with this token; answers whether it was held.
    Release(u64),
    /// Restarts the lease of a token, with another length if one is given; answers whether it was
    /// held.
    Renew(u64, Option<u64>),
    /// Milliseconds left of a token's lease; 0 if it does not hold the lock.
    Held(u64),
    /// Waits until another client waits for the lock that a token holds; answers 0 if the token
    /// does not hold it. Waiters are not in the state, so the operation itself answers nil while
    /// the token holds the lock.
    Wanted(u64),
    /// Holders of the lock.
    Holders,
    /// Replaces the value of the leader with this token; answers the version, or 0 if it does not
    /// lead.
    Proclaim(u64, Blob),
    /// The leader, or nil.
    Leader,
    /// The leader, or its absence, if the version differs from this one; nil otherwise.
    Observe(u64),
}

impl Value {
    /// Whether a request of this kind can be granted now.
    fn lets_in(&self, share: Share, now_ms: u64) -> bool {
        let mut live = self.holders.iter().filter(|holder| holder.until_ms > now_ms);
        match share {
            Share::Alone => live.next().is_none(),
            Share::Shared => {
                live.all(|holder| holder.share == Share::Shared) && self.has_room(now_ms)
            }
            Share::Limit(most) => {
                let limited = |holder: &Holder| matches!(holder.share, Share::Limit(_));
                live.all(limited) && self.live(now_ms) < most as usize && self.has_room(now_ms)
            }
        }
    }

    fn live(&self, now_ms: u64) -> usize {
        self.holders.iter().filter(|holder| holder.until_ms > now_ms).count()
    }

    fn has_room(&self, now_ms: u64) -> bool {
        self.live(now_ms) < HOLDERS_MAX
    }

    /// Largest number issued to a present holder or successor.
    fn newest(&self) -> u64 {
        let named = self.successors.last().map_or(0, |successor| successor.token);
        self.holders.last().map_or(0, Holder::newest).max(named)
    }

    /// A token larger than those of all grants before.
    fn next_token(&self, ctx: &Ctx) -> u64 {
        ctx.ts.number().max(self.newest() + 1)
    }

    /// First token of a grant; the last one is the timestamp's number.
    fn first_token(&self, tokens: u32, ctx: &Ctx) -> u64 {
        self.next_token(ctx).saturating_sub(u64::from(tokens - 1)).max(self.newest() + 1)
    }

    fn pass(&self, share: Share, ctx: &Ctx) -> Reply {
        if self.lets_in(share, ctx.now_ms) { token_reply(self.next_token(ctx)) } else { Reply::Nil }
    }

    fn acquire(&mut self, grant: &Grant, ctx: &Ctx) -> Reply {
        if let Some(token) = self.claim(grant, ctx.now_ms) {
            return token_reply(token);
        }
        if !self.lets_in(grant.share, ctx.now_ms) {
            return Reply::Nil;
        }
        let token = self.first_token(grant.tokens, ctx);
        self.holders.retain(|holder| holder.until_ms > ctx.now_ms);
        self.holders.push(Holder {
            token,
            until_ms: ctx.now_ms + grant.lease_ms,
            lease_ms: grant.lease_ms,
            share: grant.share,
            owner: grant.owner.clone(),
            proclaimed: grant.value.clone().map(|value| Proclaimed { value, version: token }),
            ticket: grant.ticket.clone().filter(|ticket| !ticket.is_empty()),
        });
        token_reply(token)
    }

    fn release(&mut self, token: u64, now_ms: u64) -> Reply {
        let is = |holder: &Holder| holder.token == token && holder.until_ms > now_ms;
        let Some(at) = self.holders.iter().position(is) else {
            return Reply::Int(self.release_successor(token, now_ms).into());
        };
        self.holders.remove(at);
        self.turn_over(now_ms);
        Reply::Int(1)
    }

    fn renew(&mut self, token: u64, lease_ms: Option<u64>, now_ms: u64) -> Reply {
        self.prove(token, now_ms);
        let is = |holder: &&mut Holder| holder.token == token && holder.until_ms > now_ms;
        let Some(holder) = self.holders.iter_mut().find(is) else { return Reply::Int(0) };
        holder.lease_ms = lease_ms.unwrap_or(holder.lease_ms);
        holder.until_ms = now_ms + holder.lease_ms;
        Reply::Int(1)
    }

    fn held(&self, token: u64, now_ms: u64) -> Reply {
        let holder = self.holders.iter().find(|holder| holder.token == token);
        if holder.is_some_and(|holder| holder.ticket.is_some()) || self.is_successor(token) {
            return successor::hidden();
        }
        Reply::Int(holder.map_or(0, |holder| holder.until_ms.saturating_sub(now_ms)) as i64)
    }

    fn holders(&self, now_ms: u64) -> Reply {
        let live = self.holders.iter().filter(|holder| holder.until_ms > now_ms);
        let row = |holder: &Holder| {
            Reply::Array(vec![
                token_reply(holder.token),
                Reply::Bulk(holder.owner.clone()),
                Reply::bulk(holder.share.to_string()),
                Reply::Int((holder.until_ms - now_ms) as i64),
            ])
        };
        Reply::Array(live.map(row).collect())
    }
}

fn token_reply(token: u64) -> Reply {
    Reply::Int(i64::try_from(token).unwrap_or(i64::MAX))
}

/// Owner and sharing of a request for the lock, and whether to refuse it in a deadlock cycle.
fn wanted(op: &Op) -> Option<(&Blob, Share, bool)> {
    match op {
        Op::Acquire(grant) => Some((&grant.owner, grant.share, grant.detect)),
        Op::Pass(passage) => Some((&passage.owner, passage.share, passage.detect)),
        _ => None,
    }
}

fn put_grant(grant: &Grant, out: &mut ArgBuf) {
    out.push("lease").push_int(grant.lease_ms as i64);
    put_wish((&grant.owner, grant.share, grant.detect), out);
}

fn put_wish((owner, share, detect): (&Blob, Share, bool), out: &mut ArgBuf) {
    if !owner.is_empty() {
        out.push("owner").push(owner);
    }
    if detect {
        out.push("detect");
    }
    match share {
        Share::Alone => {}
        Share::Shared => {
            out.push("shared");
        }
        Share::Limit(most) => {
            out.push("limit").push_int(most.into());
        }
    }
}

impl std::fmt::Display for Share {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Alone => f.write_str("alone"),
            Self::Shared => f.write_str("shared"),
            Self::Limit(most) => write!(f, "limit {most}"),
        }
    }
}

impl DataType for Value {
    type Op = Op;
    const NAME: &'static str = "lock";
    const COMMANDS: &'static [CommandSpec] = table::COMMANDS;
    const MODES: &'static [&'static str] = &["read", "write"];
    const SHARED: [u8; 8] = [0b1, 0, 0, 0, 0, 0, 0, 0];

    fn is_write(op: &Op) -> bool {
        let changes = matches!(op, Op::Acquire(_) | Op::Release(_) | Op::Renew(..));
        let names = matches!(op, Op::Name(_) | Op::Unname(_) | Op::Forget(_));
        changes || names || matches!(op, Op::Pass(_) | Op::Proclaim(..))
    }

    fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }

    fn creates(op: &Op) -> bool {
        matches!(op, Op::Acquire(_))
    }

    fn preserves_key(_op: &Op) -> bool {
        false
    }

    fn may_be_idle(op: &Op) -> bool {
        matches!(op, Op::Acquire(_))
    }

    fn idle(&self, op: &Op, now_ms: u64) -> Option<Reply> {
        match op {
            Op::Acquire(grant) => {
                let now = self.at(now_ms);
                let has_it = now.claimed(grant, now_ms).is_some();
                (!has_it && !now.lets_in(grant.share, now_ms)).then_some(Reply::Nil)
            }
            _ => None,
        }
    }

    fn query(&self, op: &Op, ctx: &Ctx) -> Reply {
        let now = self.at(ctx.now_ms);
        match op {
            Op::Held(token) => now.held(*token, ctx.now_ms),
            Op::Wanted(token) => match now.held(*token, ctx.now_ms) {
                Reply::Int(1..) => Reply::Nil,
                nothing => nothing,
            },
            Op::Holders => now.holders(ctx.now_ms),
            Op::Leader => now.leader(ctx.now_ms),
            Op::Observe(seen) => now.observe(*seen, ctx.now_ms),
            _ => Reply::err("not a read"),
        }
    }

    fn apply(&mut self, op: &Op, ctx: &Ctx, meta: &mut Meta) -> Reply {
        let waiting = self.successors.len();
        // A forgotten successor has no lease, so forgetting must not start one.
        if !matches!(op, Op::Forget(_)) {
            self.turn_over(ctx.now_ms);
        }
        let reply = match op {
            Op::Forget(ticket) => Reply::Int(self.forget(ticket).into()),
            Op::Acquire(grant) => self.acquire(grant, ctx),
            Op::Name(grant) => Reply::Int(self.name(grant, ctx).into()),
            Op::Unname(ticket) => Reply::Int(self.unname(ticket, ctx.now_ms).into()),
            Op::Pass(passage) => return self.pass(passage.share, ctx),
            Op::Release(token) => self.release(*token, ctx.now_ms),
            Op::Renew(token, lease_ms) => self.renew(*token, *lease_ms, ctx.now_ms),
            Op::Proclaim(token, value) => self.proclaim(*token, value, ctx),
            read => return self.query(read, ctx),
        };
        let refused = reply == Reply::Nil || reply == Reply::Int(0);
        meta.untouched = refused && self.successors.len() == waiting;
        if !refused {
            let named_ms: u64 = self.successors.iter().map(|successor| successor.lease_ms).sum();
            let last_ms = self.holders.iter().map(|holder| holder.until_ms).max();
            meta.expire_at_ms = last_ms.map(|last_ms| last_ms + named_ms);
        }
        reply
    }

    fn commutes(&self, a: Access<'_, Op>, b: Access<'_, Op>) -> bool {
        !Self::is_write(a.op) && !Self::is_write(b.op)
    }

    fn mode(access: Access<'_, Op>) -> u8 {
        u8::from(Self::is_write(access.op))
    }

    fn combine(_earlier: &Op, _next: &Op) -> Option<Op> {
        None
    }

    fn encode(op: &Op, key: &[u8], out: &mut ArgBuf) {
        match op {
            Op::Acquire(grant) => {
                let ticket = grant.ticket.as_ref().filter(|ticket| !ticket.is_empty());
                match (&grant.value, ticket) {
                    (Some(value), _) => out.push("election.campaign").push(key).push(value),
                    (_, Some(ticket)) => out.push("lock.claim").push(key).push(ticket),
                    _ if grant.wait => out.push("lock.acquire").push(key),
                    _ => out.push("lock.try").push(key),
                };
                put_grant(grant, out);
                if grant.tokens > 1 {
                    out.push("tokens").push_int(grant.tokens.into());
                }
                if ticket.is_none() && grant.ticket.is_some() {
                    out.push("next");
                }
            }
            Op::Name(grant) => {
                out.push("lock.name").push(key).push(grant.ticket.as_deref().unwrap_or_default());
                put_grant(grant, out);
            }
            Op::Unname(ticket) => {
                out.push("lock.unname").push(key).push(ticket);
            }
            Op::Forget(ticket) => {
                out.push("lock.forget").push(key).push(ticket);
            }
            Op::Pass(passage) => {
                out.push("lock.pass").push(key);
                put_wish((&passage.owner, passage.share, passage.detect), out);
            }
            Op::Release(token) => {
                out.push("lock.release").push(key).push_int(*token as i64);
            }
            Op::Renew(token, lease_ms) => {
                out.push("lock.renew").push(key).push_int(*token as i64);
                if let Some(lease_ms) = lease_ms {
                    out.push("lease").push_int(*lease_ms as i64);
                }
            }
            Op::Held(token) => {
                out.push("lock.held").push(key).push_int(*token as i64);
            }
            Op::Wanted(token) => {
                out.push("lock.wanted").push(key).push_int(*token as i64);
            }
            Op::Holders => {
                out.push("lock.holders").push(key);
            }
            Op::Proclaim(token, value) => {
                out.push("election.proclaim").push(key).push_int(*token as i64).push(value);
            }
            Op::Leader => {
                out.push("election.leader").push(key);
            }
            Op::Observe(seen) => {
                out.push("election.observe").push(key).push("after").push_int(*seen as i64);
            }
        }
    }

    fn save(&self, sink: &mut dyn ValueSink) {
        sink.number(self.holders.len() as u64);
        for holder in &self.holders {
            sink.number(holder.token);
            sink.number(holder.until_ms);
            sink.number(holder.lease_ms);
            sink.number(match holder.share {
                Share::Alone => 0,
                Share::Shared => 1,
                Share::Limit(most) => 2 + u64::from(most),
            });
            sink.bytes(&holder.owner);
        }
        self.save_proclaimed(sink);
        self.save_successors(sink);
    }

    fn load(source: &mut dyn ValueSource) -> Result<Self, Corrupt> {
        let count = load_count(source, 5)?;
        let mut holders: Vec<Holder> = Vec::with_capacity(count.min(HOLDERS_MAX));
        for _ in 0..count {
            let (token, until_ms, lease_ms) =
                (source.number()?, source.number()?, source.number()?);
            let share = match source.number()? {
                0 => Share::Alone,
                1 => Share::Shared,
                most => Share::Limit(u32::try_from(most - 2).map_err(|_| Corrupt)?),
            };
            let owner = Blob::from(source.bytes()?);
            let grows = holders.last().is_none_or(|last| last.token < token);
            let fits = lease_ms <= LEASE_MS_MAX && owner.len() <= OWNER_BYTES_MAX;
            if !grows || !fits || holders.len() >= HOLDERS_MAX {
                return Err(Corrupt);
            }
            holders.push(Holder {
                token,
                until_ms,
                lease_ms,
                share,
                owner,
                proclaimed: None,
                ticket: None,
            });
        }
        let mut value = Self { holders, successors: Vec::new() };
        // A lock that an older build has saved ends with its holders.
        while source.remaining() > 0 {
            match source.number()? {
                election::PROCLAIMED => value.load_proclaimed(source)?,
                successor::TICKET => value.load_ticket(source)?,
                successor::SUCCESSOR => value.load_successor(source)?,
                _ => return Err(Corrupt),
            }
        }
        Ok(value)
    }
}

impl Waiter for Value {
    fn waits(op: &Op) -> bool {
        match op {
            Op::Acquire(grant) => grant.wait,
            Op::Pass(_) | Op::Observe(_) | Op::Wanted(_) => true,
            _ => false,
        }
    }

    fn reserves(op: &Op) -> u32 {
        match op {
            Op::Acquire(grant) => grant.tokens,
            Op::Pass(_) | Op::Name(_) | Op::Proclaim(..) => 1,
            _ => 0,
        }
    }

    fn listens(op: &Op) -> bool {
        matches!(op, Op::Wanted(_))
    }

    fn opens_section(op: &Op) -> bool {
        matches!(op, Op::Pass(_))
    }

    fn lets_go(op: &Op) -> bool {
        matches!(op, Op::Release(_))
    }

    fn undone(op: &Op, reply: &Reply) -> Option<Op> {
        match (op, reply) {
            (Op::Acquire(_), Reply::Int(token)) => u64::try_from(*token).ok().map(Op::Release),
            _ => None,
        }
    }

    fn came_of(op: &Op, reply: &Reply, ctx: &Ctx) -> Option<CameOf> {
        match (op, reply) {
            (Op::Acquire(_) | Op::Pass(_), Reply::Int(_)) => Some(CameOf::Granted),
            (Op::Acquire(grant), Reply::Nil) if !grant.wait => Some(CameOf::Refused),
            (Op::Release(token), Reply::Int(1)) => {
                // A token is the microsecond of its grant, or right below it.
                Some(CameOf::Ended { held_us: ctx.ts.number().saturating_sub(*token) })
            }
            (Op::Release(_) | Op::Renew(..) | Op::Proclaim(..), Reply::Int(0)) => {
                Some(CameOf::Gone)
            }
            _ => None,
        }
    }

    fn wish(op: &Op) -> Vec<Reply> {
        let Some((owner, share, _)) = wanted(op) else { return Vec::new() };
        vec![Reply::Bulk(owner.clone()), Reply::bulk(share.to_string())]
    }

    fn waiter(op: &Op) -> Option<&Blob> {
        wanted(op).map(|(owner, ..)| owner).filter(|owner| !owner.is_empty())
    }

    fn detects(op: &Op) -> bool {
        wanted(op).is_some_and(|(.., detect)| detect)
    }

    fn ticket(op: &Op) -> Option<&Blob> {
        match op {
            Op::Acquire(grant) => grant.ticket.as_ref(),
            _ => None,
        }
    }

    fn give_ticket(op: &mut Op, ticket: Blob) {
        if let Op::Acquire(grant) = op {
            grant.ticket = Some(ticket);
        }
    }

    fn names(op: &Op) -> bool {
        matches!(op, Op::Name(_))
    }

    fn whose_turn(&self) -> Option<&Blob> {
        match &self.holders[..] {
            [holder] => holder.ticket.as_ref(),
            _ => None,
        }
    }

    fn named(&self) -> Vec<(&Blob, u64)> {
        self.successors.iter().map(|named| (&named.ticket, named.lease_ms)).collect()
    }

    fn is_named(&self, ticket: &Blob, reply: &Reply) -> bool {
        let is = |named: &Successor| named.ticket == *ticket && token_reply(named.token) == *reply;
        self.successors.iter().any(is)
    }

    fn naming(&self, op: &Op, now_ms: u64) -> Option<Op> {
        let Op::Acquire(grant) = op else { return None };
        self.at(now_ms).can_name(grant, now_ms).then(|| Op::Name(grant.clone()))
    }

    fn unnaming(op: &Op) -> Option<Op> {
        Self::ticket(op).cloned().map(Op::Unname)
    }

    fn forgetting(ticket: &Blob) -> Option<Op> {
        Some(Op::Forget(ticket.clone()))
    }

    fn in_the_way(&self, op: &Op, now_ms: u64) -> Vec<Blob> {
        let now = self.at(now_ms);
        let live = now.holders.iter().filter(|holder| holder.until_ms > now_ms);
        let bars = |holder: &&Holder| match wanted(op) {
            Some((_, Share::Alone, _)) => true,
            Some((_, Share::Shared, _)) => holder.share != Share::Shared,
            // If there are too many, any one of them need go, and not all.
            Some((_, Share::Limit(_), _)) => !matches!(holder.share, Share::Limit(_)),
            None => false,
        };
        let named = live.filter(bars).filter(|holder| !holder.owner.is_empty());
        named.map(|holder| holder.owner.clone()).collect()
    }
}
