//! Options of `TXN BEGIN`, and how long an interactive transaction may keep other clients waiting.

use crate::concurrency::Concurrency;
use crate::gateway::api::Patience;
use crate::gateway::errors::Cause;
use crate::limits::{
    TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX, TRANSACTION_TIMEOUT_MS_MAX, WANTED_US,
};
use adt::{Args, CommandSpec, ErrorReply, Handler};

/// Options of `TXN BEGIN`.
#[derive(Clone, Copy, Debug)]
pub(super) struct TxnOptions {
    pub readonly: bool,
    pub blind: bool,
    pub strict: bool,
    /// Whether reads announce that their records are written afterwards.
    pub announces: bool,
    pub patience: Patience,
}

/// Commands of the session that an aborted transaction answers as those on keys.
const REFUSED: [&str; 6] = ["multi", "watch", "publish", "spublish", "fence", "lock.section"];

/// Whether a command is carried out between the abort of an interactive transaction and its end by the
/// client.
pub(in crate::gateway) fn is_allowed_in_aborted(spec: &CommandSpec) -> bool {
    matches!(spec.handler, Handler::Session) && !REFUSED.contains(&spec.name)
}

/// State of an interactive transaction.
pub(super) struct Open {
    patience: Patience,
    /// Beginning of the transaction, on the monotonic clock in microseconds.
    pub began_us: u64,
    /// Last time at which other clients waited for a lock of the transaction.
    wanted_us: Option<u64>,
    /// Whether the transaction counts among those that run.
    pub counts: bool,
    /// Whether everything is undone if a command is refused.
    pub strict: bool,
    /// Whether it is known that no deferred write will be refused.
    pub checked: bool,
}

impl TxnOptions {
    /// Options in the words behind `TXN BEGIN`.
    pub fn parse(args: &Args<'_>, patience: Patience) -> Result<Self, ErrorReply> {
        let (readonly, blind, strict, announces) = (false, false, false, false);
        let mut options = Self { readonly, blind, strict, announces, patience };
        let mut i = 2;
        while i < args.len() {
            match () {
                () if args.is(i, "READONLY") => options.readonly = true,
                () if args.is(i, "BLIND") => options.blind = true,
                () if args.is(i, "STRICT") => options.strict = true,
                () if args.is(i, "FORUPDATE") => options.announces = true,
                () if args.is(i, "IDLE") => {
                    options.patience.idle_us = microseconds(args, i + 1)?;
                    i += 1;
                }
                () if args.is(i, "TIMEOUT") => {
                    options.patience.lasts_us = microseconds(args, i + 1)?;
                    i += 1;
                }
                () => return Err(ErrorReply::syntax()),
            }
            i += 1;
        }
        if options.readonly && options.announces {
            return Err(ErrorReply::err("READONLY and FORUPDATE exclude each other"));
        }
        Ok(options)
    }
}

impl TxnOptions {
    /// Whether the transaction takes no locks.
    pub fn is_lockless(&self, cc: Concurrency) -> bool {
        self.readonly && cc.reads_without_locks()
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

/// Error for a command that has no room in its transaction.
pub(super) fn transaction_is_full() -> ErrorReply {
    ErrorReply::err(format!(
        "a transaction has at most {TRANSACTION_COMMANDS_MAX} operations and \
         {TRANSACTION_BYTES_MAX} bytes of commands"
    ))
}

impl Open {
    /// State of a transaction that begins now, and counts.
    pub fn new(options: TxnOptions, now_us: u64) -> Box<Self> {
        let TxnOptions { patience, strict, .. } = options;
        let (wanted_us, checked) = (None, false);
        Box::new(Self { patience, began_us: now_us, wanted_us, counts: true, strict, checked })
    }

    /// Whether other clients wait, as far as is known.
    pub fn is_wanted(&self, now_us: u64) -> bool {
        self.wanted_us.is_some_and(|wanted_us| now_us < wanted_us + WANTED_US)
    }

    /// Notes that other clients wait for the transaction, whose client has sent something last at
    /// `active_us`, and which works or not. Returns the reason why it is to end, if it is.
    pub fn overdue(&mut self, now_us: u64, active_us: u64, works: bool) -> Option<Cause> {
        self.wanted_us = Some(now_us);
        let Patience { idle_us, lasts_us } = self.patience;
        let over = |limit: u64, since: u64| limit > 0 && now_us.saturating_sub(since) > limit;
        match () {
            () if !works && over(idle_us, active_us) => Some(Cause::Idle(idle_us / 1000)),
            () if over(lasts_us, self.began_us) => Some(Cause::Lasted(lasts_us / 1000)),
            () => None,
        }
    }

    /// Lets the transaction count, because its client has sent something. Tells whether it did not before.
    pub fn counts_again(&mut self) -> bool {
        !std::mem::replace(&mut self.counts, true)
    }
}

/// Number of the interactive transaction of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum InteractiveTxn {
    /// A transaction that takes locks.
    Locking(u64),
    /// A transaction that only reads, without locks.
    Lockless(u64),
}
