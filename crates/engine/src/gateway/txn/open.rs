//! Interactive transactions that keep others waiting: how long they may, which of them count as load,
//! and which they are, for clients that wait (`TXN HOLDERS`). Also strict transactions, which take effect
//! as a whole or not at all: with `STRICT` everything is undone if a command is refused.

use super::admission::Admission;
use super::lease::Leases;
use super::{Role, Stage, Txn};
use crate::gateway::acl::KeyAccess;
use crate::gateway::admin::inquiry::{Combine, Inquiry};
use crate::gateway::api::{Patience, Question};
use crate::gateway::clients::effect::Effect;
use crate::gateway::clients::session::Session;
use crate::gateway::core::Core;
use crate::gateway::errors::Cause;
use crate::gateway::routing::route::key_too_long;
use crate::gateway::slab::Slab;
use crate::gateway::{Gateway, Job};
use crate::ids::TxnId;
use crate::limits::{IDLE_LOAD_US, TRANSACTION_TIMEOUT_MS_MAX, WANTED_US};
use crate::message::Body;
use adt::{Args, Blob, ErrorReply, Op, Reply};
use std::collections::BTreeMap;

/// Options of `TXN BEGIN`.
#[derive(Clone, Copy, Debug)]
pub(in crate::gateway) struct Wish {
    pub readonly: bool,
    pub blind: bool,
    pub strict: bool,
    pub patience: Patience,
}

/// State of a transaction whose client sends one command after the other.
pub(in crate::gateway) struct Open {
    pub patience: Patience,
    /// Beginning of the transaction, on the monotonic clock in microseconds.
    pub began_us: u64,
    /// Last time at which others waited for what the transaction holds.
    wanted_us: Option<u64>,
    /// Whether it counts among those that run.
    pub counts: bool,
    /// Whether everything is undone if a command is refused.
    strict: bool,
    /// Whether it is known that no deferred write will be refused.
    pub checked: bool,
}

impl Wish {
    /// The words behind `TXN BEGIN`.
    pub fn parse(args: &Args<'_>, patience: Patience) -> Result<Self, ErrorReply> {
        let mut wish = Self { readonly: false, blind: false, strict: false, patience };
        let mut i = 2;
        while i < args.len() {
            match () {
                () if args.is(i, "READONLY") => wish.readonly = true,
                () if args.is(i, "BLIND") => wish.blind = true,
                () if args.is(i, "STRICT") => wish.strict = true,
                () if args.is(i, "IDLE") => {
                    wish.patience.idle_us = microseconds(args, i + 1)?;
                    i += 1;
                }
                () if args.is(i, "TIMEOUT") => {
                    wish.patience.lasts_us = microseconds(args, i + 1)?;
                    i += 1;
                }
                () => return Err(ErrorReply::syntax()),
            }
            i += 1;
        }
        Ok(wish)
    }
}

fn microseconds(args: &Args<'_>, at: usize) -> Result<u64, ErrorReply> {
    let ms = args.int(at).ok().and_then(|ms| u64::try_from(ms).ok());
    ms.filter(|ms| *ms <= TRANSACTION_TIMEOUT_MS_MAX).map(|ms| ms * 1000).ok_or_else(|| {
        ErrorReply::err(format!(
            "IDLE and TIMEOUT are in milliseconds, up to {TRANSACTION_TIMEOUT_MS_MAX}; 0 for no limit"
        ))
    })
}

impl Open {
    /// A transaction begins, and counts.
    pub fn new(wish: Wish, now_us: u64) -> Box<Self> {
        let Wish { patience, strict, .. } = wish;
        let (wanted_us, checked) = (None, false);
        Box::new(Self { patience, began_us: now_us, wanted_us, counts: true, strict, checked })
    }

    fn is_wanted(&self, now_us: u64) -> bool {
        self.wanted_us.is_some_and(|wanted_us| now_us < wanted_us + WANTED_US)
    }
}

/// The error for a transaction of which a write was refused, and with it all.
fn undone(error: &ErrorReply) -> ErrorReply {
    let text = format!("Transaction discarded because of previous errors: {error}");
    ErrorReply::new("EXECABORT", text)
}

impl Gateway {
    /// Others have waited for a while for what `id` holds.
    pub(in crate::gateway) fn wanted(&mut self, id: TxnId) {
        let alone = self.txns.get(&id).copied();
        let shared = self.leases.members(id).iter().copied();
        for job in alone.into_iter().chain(shared).collect::<Vec<u64>>() {
            let now_us = self.core.now.mono_us;
            let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { continue };
            let active_us = self.sessions.get(txn.session.0).map_or(now_us, |s| s.active_us);
            if let Some(cause) = txn.overdue(now_us, active_us) {
                self.abort(job, cause);
            }
        }
    }

    /// Lets the next session that is held back begin its transaction, if there is one and room for it.
    pub(in crate::gateway) fn admit_next(&mut self) -> bool {
        if self.admission.parked() == 0 {
            return false;
        }
        let now_us = self.core.now.mono_us;
        self.admission.discount_idle(now_us, &mut self.jobs, &self.sessions);
        let Some(id) = self.admission.next(now_us) else { return false };
        if let Some(session) = self.sessions.get_mut(id.0) {
            (session.parked, session.admitted) = (false, true);
            self.resumable.push(id);
        }
        true
    }

    /// A command of a transaction was refused. If it is strict nothing of it takes effect.
    pub(in crate::gateway) fn discard_strict(&mut self, job: u64) {
        if let Some(Job::Txn(txn)) = self.jobs.get(job)
            && txn.open.as_ref().is_some_and(|open| open.strict)
        {
            self.abort(job, Cause::Discarded);
        }
    }

    /// Before a strict transaction commits, its deferred writes are locked, and it is found out whether
    /// their keys' values allow them: no other client can change that until they are carried out. Tells
    /// whether the commit has to wait for it.
    pub(in crate::gateway) fn checks_first(&mut self, job: u64) -> bool {
        let Some(Job::Txn(txn)) = self.jobs.get_mut(job) else { return false };
        let blind = matches!(txn.role, Role::Interactive { blind: true, .. });
        let Some(open) = txn.open.as_mut().filter(|open| blind && open.strict) else {
            return false;
        };
        if std::mem::replace(&mut open.checked, true) {
            return false;
        }
        let mut writes: BTreeMap<Blob, Vec<Op>> = BTreeMap::new();
        for (key, op) in txn.work.ops.iter().filter(|(_, op)| op.is_write()) {
            writes.entry(key.clone()).or_default().push(op.clone());
        }
        writes.retain(|_, ops| ops.iter().any(Op::may_be_refused));
        let waits = !writes.is_empty();
        if waits {
            self.call_checks(job, writes.into_iter().collect());
        }
        waits
    }

    /// Whether all deferred writes of a strict transaction are allowed is known.
    pub(in crate::gateway) fn checked(&mut self, job: u64, replies: Vec<Reply>) {
        let error = replies.into_iter().find_map(|reply| match reply {
            Reply::Error(error) => Some(error),
            _ => None,
        });
        match error {
            Some(error) => self.ends_undone(job, undone(&error)),
            None => self.commit(job),
        }
    }
}

impl Admission {
    /// Ceases to count transactions that are silent, and that no other client waits for.
    pub fn discount_idle(&mut self, now_us: u64, jobs: &mut Slab<Job>, sessions: &Slab<Session>) {
        while let Some(job) = self.oldest(now_us) {
            let Some(Job::Txn(txn)) = jobs.get_mut(job) else { continue };
            let active_us = sessions.get(txn.session.0).map_or(0, |s| s.active_us);
            let works = txn.works() || now_us < active_us + IDLE_LOAD_US;
            let Some(open) = &mut txn.open else { continue };
            if works || open.is_wanted(now_us) {
                self.stays(now_us, job);
            } else {
                open.counts = false;
                self.discounted();
            }
        }
    }
}

impl Txn {
    /// Notes that others wait for the transaction, whose client has sent something last at `active_us`.
    /// Gives the reason why it is to end, if it is.
    fn overdue(&mut self, now_us: u64, active_us: u64) -> Option<Cause> {
        let works = self.works();
        let in_commit = !matches!(self.role, Role::Interactive { commit: None, .. });
        let open = self.open.as_mut()?;
        open.wanted_us = Some(now_us);
        let Patience { idle_us, lasts_us } = open.patience;
        let over = |limit: u64, since: u64| limit > 0 && now_us.saturating_sub(since) > limit;
        match () {
            () if in_commit => None,
            () if !works && over(idle_us, active_us) => Some(Cause::Idle(idle_us / 1000)),
            () if over(lasts_us, open.began_us) => Some(Cause::Lasted(lasts_us / 1000)),
            () => None,
        }
    }

    /// Lets the transaction count, because its client has sent something. Tells whether it did not before.
    pub fn counts_again(&mut self) -> bool {
        self.open.as_mut().is_some_and(|open| !std::mem::replace(&mut open.counts, true))
    }

    /// Whether the transaction has asked for something, or is about to end.
    fn works(&self) -> bool {
        !self.tokens.is_empty() || self.calls.len() > 0 || self.stage != Stage::Running
    }
}

/// `TXN HOLDERS key`: how many wait for what transactions hold there, for how long, and which hold it.
pub(super) fn holders(core: &Core, session: &Session, args: &Args<'_>) -> Effect {
    let key = match args.blob(2) {
        Ok(key) if args.len() == 3 => key,
        _ => return ErrorReply::err("TXN HOLDERS takes a key").into(),
    };
    if let Some(error) = key_too_long(&key) {
        return error.into();
    }
    let read = KeyAccess { read: true, write: false };
    if !session.user.as_ref().is_some_and(|user| user.may_access(&key, read)) {
        let text = "No permissions to access a key";
        return ErrorReply::new("NOPERM", text).into();
    }
    let home = core.mail.shard_of(&key);
    let inquiry = Inquiry::of_shard(Combine::Holders, home, Body::Holders { key });
    inquiry.and_gateways(Question::Transactions).into()
}

/// A line for each name under which shards know a transaction of this gateway.
pub(in crate::gateway) fn holder_lines(
    core: &Core,
    jobs: &Slab<Job>,
    leases: &Leases,
    sessions: &Slab<Session>,
) -> Vec<(u64, String)> {
    let jobs = jobs.iter().filter_map(|(_, job)| match job {
        Job::Txn(txn) => Some(txn),
        _ => None,
    });
    let lines = jobs.flat_map(|txn| {
        let session = sessions.get(txn.session.0);
        let (client, about) = session.map(|s| about_holder(core, txn, s)).unwrap_or_default();
        let names = std::iter::once(txn.id).chain(leases.names(txn));
        names.map(move |name| (client, format!("txn={name} {about}")))
    });
    lines.collect()
}

fn about_holder(core: &Core, txn: &Txn, session: &Session) -> (u64, String) {
    let since_ms = |us: u64| core.now.mono_us.saturating_sub(us) / 1000;
    let (about, kind) = (&session.about, if txn.open.is_some() { "txn" } else { "command" });
    let began_us = txn.open.as_ref().map_or(session.active_us, |open| open.began_us);
    let text = format!(
        "id={} addr={} name={} kind={kind} cmd={} age-ms={} idle-ms={}",
        about.client,
        about.opening.peer,
        about.name,
        session.command,
        since_ms(began_us),
        since_ms(session.active_us),
    );
    (about.client, text)
}
