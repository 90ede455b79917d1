//! Successors: the next holders of a lock, known before its release.
//!
//! Waiters that asked with `NEXT` can be *named* while another such client holds the lock alone.
//! Each has a token from then on, that of the naming, which is delivered when it becomes the
//! holder. Successors become holders in the order of their naming, however the holders before them
//! end: by release, or by the end of the lease; their own leases begin then.
//!
//! Only a client that has seen the releases of all holders before a successor delivers the
//! successor's token to it. A request with that token, if it arrives before those releases, is
//! therefore proof of them: a renewal or a release with it removes all holders before it. No
//! command shows the token earlier; and since a question would have to remove holders as well,
//! `LOCK.HELD` does not answer for such a lock: `FENCE` guards the resource.
//!
//! A *ticket* identifies a request for a lock across retries: a request whose ticket is that of the
//! holder is granted the lock again with the token that the holder has.

use crate::kinds::lock::{Grant, Holder, LEASE_MS_MAX, OWNER_BYTES_MAX, Share, Value};
use crate::{Blob, Corrupt, Ctx, ErrorReply, Reply, ValueSink, ValueSource};
use std::borrow::Cow;

/// Longest ticket, in bytes.
pub const TICKET_BYTES_MAX: usize = 128;
/// Most successors of one lock: the number of times that a lock can change hands during one log
/// write.
pub const SUCCESSORS_MAX: usize = 16;

/// Tag behind the holders of a saved lock: ticket of a holder.
pub(in crate::kinds::lock) const TICKET: u64 = 2;
/// Tag behind the holders of a saved lock: a successor.
pub(in crate::kinds::lock) const SUCCESSOR: u64 = 3;

/// A client that will hold the lock next.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kinds::lock) struct Successor {
    pub token: u64,
    pub lease_ms: u64,
    pub owner: Blob,
    pub ticket: Blob,
}

/// The answer to a question whether a lock is held that may be passed on before its release is
/// durable.
pub(in crate::kinds::lock) fn hidden() -> Reply {
    let text = "a lock that is taken with NEXT does not tell whether it is held: guard what it \
                protects by FENCE, or renew it";
    ErrorReply::err(text).into()
}

impl Value {
    /// Makes the next successor the holder if the holder's lease has ended, from the end of that
    /// lease on; at once if there is no holder.
    pub(in crate::kinds::lock) fn turn_over(&mut self, now_ms: u64) {
        while !self.successors.is_empty() && self.live(now_ms) == 0 {
            let last_ms = self.holders.iter().map(|holder| holder.until_ms).max();
            self.holders.clear();
            let next = self.successors.remove(0);
            self.holders.push(next.holds(last_ms.unwrap_or(now_ms)));
        }
    }

    /// The state at a later time without any operation in between.
    pub(in crate::kinds::lock) fn at(&self, now_ms: u64) -> Cow<'_, Self> {
        if self.successors.is_empty() || self.live(now_ms) > 0 {
            return Cow::Borrowed(self);
        }
        let mut now = self.clone();
        now.turn_over(now_ms);
        Cow::Owned(now)
    }

    /// Token of the requesting client, if it already holds the lock: as a former successor, or by a
    /// retry.
    pub(in crate::kinds::lock) fn claimed(&self, grant: &Grant, now_ms: u64) -> Option<u64> {
        let ticket = grant.ticket.as_ref().filter(|ticket| !ticket.is_empty())?;
        let mut live = self.holders.iter().filter(|holder| holder.until_ms > now_ms);
        live.find(|holder| holder.ticket.as_ref() == Some(ticket)).map(|holder| holder.token)
    }

    /// Returns [`Value::claimed`] and restarts the lease of that holder.
    pub(in crate::kinds::lock) fn claim(&mut self, grant: &Grant, now_ms: u64) -> Option<u64> {
        let token = self.claimed(grant, now_ms)?;
        let holder = self.holders.iter_mut().find(|holder| holder.token == token)?;
        (holder.lease_ms, holder.until_ms) = (grant.lease_ms, now_ms + grant.lease_ms);
        Some(token)
    }

    /// Whether the requesting client can be named now.
    pub(in crate::kinds::lock) fn can_name(&self, grant: &Grant, now_ms: u64) -> bool {
        let Some(ticket) = grant.ticket.as_ref().filter(|ticket| !ticket.is_empty()) else {
            return false;
        };
        let plain = grant.share == Share::Alone && grant.value.is_none() && grant.tokens == 1;
        let mut live = self.holders.iter().filter(|holder| holder.until_ms > now_ms);
        let held = live.next().is_some_and(|holder| {
            let other = holder.ticket.as_ref().is_some_and(|held| held != ticket);
            other && holder.share == Share::Alone && holder.proclaimed.is_none()
        });
        let alone = live.next().is_none();
        let room = self.successors.len() < SUCCESSORS_MAX;
        let new = self.successors.iter().all(|successor| successor.ticket != *ticket);
        plain && held && alone && room && new
    }

    pub(in crate::kinds::lock) fn name(&mut self, grant: &Grant, ctx: &Ctx) -> bool {
        let can = self.can_name(grant, ctx.now_ms);
        if can {
            let token = self.next_token(ctx);
            let (lease_ms, owner) = (grant.lease_ms, grant.owner.clone());
            let ticket = grant.ticket.clone().unwrap_or_default();
            self.successors.push(Successor { token, lease_ms, owner, ticket });
        }
        can
    }

    /// Removes a successor that a former leader has named and on which no client relies any more.
    pub(in crate::kinds::lock) fn forget(&mut self, ticket: &Blob) -> bool {
        let before = self.successors.len();
        self.successors.retain(|successor| successor.ticket != *ticket);
        self.successors.len() < before
    }

    /// Removes a successor or holder that left before it learned of its grant.
    pub(in crate::kinds::lock) fn unname(&mut self, ticket: &Blob, now_ms: u64) -> bool {
        let named = self.successors.iter().position(|successor| successor.ticket == *ticket);
        if let Some(at) = named {
            self.successors.remove(at);
            return true;
        }
        let is =
            |holder: &Holder| holder.ticket.as_ref() == Some(ticket) && holder.until_ms > now_ms;
        let Some(at) = self.holders.iter().position(is) else { return false };
        self.holders.remove(at);
        self.turn_over(now_ms);
        true
    }

    fn place_of(&self, token: u64) -> Option<usize> {
        self.successors.iter().position(|successor| successor.token == token)
    }

    pub(in crate::kinds::lock) fn is_successor(&self, token: u64) -> bool {
        self.place_of(token).is_some()
    }

    /// Accepts a successor's token as proof that all holders before it have released the lock, and
    /// removes them.
    pub(in crate::kinds::lock) fn prove(&mut self, token: u64, now_ms: u64) {
        if let Some(at) = self.place_of(token) {
            self.successors.drain(..at);
            self.holders.clear();
            self.turn_over(now_ms);
        }
    }

    /// Releases a successor's token and removes all holders before it; returns whether it was a
    /// successor's.
    pub(in crate::kinds::lock) fn release_successor(&mut self, token: u64, now_ms: u64) -> bool {
        let Some(at) = self.place_of(token) else { return false };
        self.successors.drain(..=at);
        self.holders.clear();
        self.turn_over(now_ms);
        true
    }

    pub(in crate::kinds::lock) fn save_successors(&self, sink: &mut dyn ValueSink) {
        for holder in &self.holders {
            let Some(ticket) = &holder.ticket else { continue };
            sink.number(TICKET);
            sink.number(holder.token);
            sink.bytes(ticket);
        }
        for Successor { token, lease_ms, owner, ticket } in &self.successors {
            sink.number(SUCCESSOR);
            sink.number(*token);
            sink.number(*lease_ms);
            sink.bytes(owner);
            sink.bytes(ticket);
        }
    }

    pub(in crate::kinds::lock) fn load_ticket(
        &mut self,
        source: &mut dyn ValueSource,
    ) -> Result<(), Corrupt> {
        let token = source.number()?;
        let ticket = load_ticket(source)?;
        let is = |holder: &&mut Holder| holder.token == token && holder.ticket.is_none();
        let holder = self.holders.iter_mut().find(is).ok_or(Corrupt)?;
        holder.ticket = Some(ticket);
        Ok(())
    }

    pub(in crate::kinds::lock) fn load_successor(
        &mut self,
        source: &mut dyn ValueSource,
    ) -> Result<(), Corrupt> {
        let (token, lease_ms) = (source.number()?, source.number()?);
        let owner = Blob::from(source.bytes()?);
        let ticket = load_ticket(source)?;
        let grows = !self.holders.is_empty() && self.newest() < token;
        let fits = lease_ms <= LEASE_MS_MAX && owner.len() <= OWNER_BYTES_MAX;
        if !grows || !fits || self.successors.len() >= SUCCESSORS_MAX {
            return Err(Corrupt);
        }
        self.successors.push(Successor { token, lease_ms, owner, ticket });
        Ok(())
    }
}

fn load_ticket(source: &mut dyn ValueSource) -> Result<Blob, Corrupt> {
    let ticket = Blob::from(source.bytes()?);
    let fits = (1..=TICKET_BYTES_MAX).contains(&ticket.len());
    fits.then_some(ticket).ok_or(Corrupt)
}

impl Successor {
    /// Turns the successor into a holder whose lease begins at `since_ms`.
    fn holds(self, since_ms: u64) -> Holder {
        let Self { token, lease_ms, owner, ticket } = self;
        let (share, until_ms) = (Share::Alone, since_ms + lease_ms);
        Holder { token, until_ms, lease_ms, share, owner, proclaimed: None, ticket: Some(ticket) }
    }
}
