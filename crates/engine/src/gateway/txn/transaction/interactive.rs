//! Commands of an interactive transaction, and the checks of a strict one, which takes effect as a whole or
//! not at all.

use super::context::TxnContext;
use super::script;
use super::{Role, Stage, Then, Txn};
use crate::gateway::errors::Cause;
use crate::gateway::mail::Target;
use crate::gateway::txn::options::transaction_is_full;
use crate::gateway::txn::work::ProgramStep;
use crate::ids::KeyedOp;
use crate::limits::{IDLE_LOAD_US, TRANSACTION_BYTES_MAX, TRANSACTION_COMMANDS_MAX};
use adt::{Blob, Compound, ErrorReply, Merge, Op, Reply};
use std::collections::BTreeMap;

/// Error for a transaction of which a write was refused, and with it all.
fn undone(error: &ErrorReply) -> ErrorReply {
    let text = format!("Transaction discarded because of previous errors: {error}");
    ErrorReply::new("EXECABORT", text)
}

/// A read for a command that leaves the store a choice, which is not to be made again at the commit: its
/// reply is known before.
pub(super) fn chosen_first(ops: &[KeyedOp], merge: Option<&Merge>) -> Option<Compound> {
    let [(key, op)] = ops else { return None };
    let compound = op.chosen_first(key)?;
    Some(match merge.cloned() {
        Some(merge) => compound.wrapped(move |reply| merge.apply(vec![reply])),
        None => compound,
    })
}

impl Txn {
    /// Makes room for a command with so many bytes. Tells whether the transaction is `READONLY`.
    pub(in crate::gateway::txn) fn make_room(&mut self, bytes: usize) -> Result<bool, ErrorReply> {
        self.bytes += bytes;
        let commands = self.work.ops.len().max(self.work.outcomes.len());
        if commands >= TRANSACTION_COMMANDS_MAX || self.bytes > TRANSACTION_BYTES_MAX {
            return Err(transaction_is_full());
        }
        Ok(matches!(self.role, Role::Interactive { readonly: true, .. }))
    }

    /// Carries out a command, whose reads announce a write or not. Tells whether later ones must wait for
    /// its reply.
    pub(in crate::gateway::txn) fn run(
        &mut self,
        cx: &mut TxnContext<'_>,
        (step, announced): (ProgramStep, bool),
        target: Target,
    ) -> bool {
        match step {
            ProgramStep::Ops(ops, merge) if ops.iter().all(|(_, op)| !op.is_write()) => {
                self.call_observed(cx, (ops, announced), Some(target), Then::Merge(merge));
                false
            }
            ProgramStep::Ops(ops, merge) => self.write(cx, ops, merge, target),
            ProgramStep::Compound(compound) => {
                let (reads, then) = Then::behind(compound);
                self.call_observed(cx, (reads, announced), Some(target), then);
                true
            }
            ProgramStep::Attempts(blocking) => {
                self.call_attempt(cx, blocking, 0, Some(target));
                true
            }
            ProgramStep::Script(call) => {
                script::begin(self, cx, call, Some(target));
                true
            }
            ProgramStep::Fixed(reply) => {
                cx.core.finish(target, reply);
                false
            }
            ProgramStep::Later(_) => false,
        }
    }

    fn write(
        &mut self,
        cx: &mut TxnContext<'_>,
        ops: Vec<KeyedOp>,
        merge: Option<Merge>,
        target: Target,
    ) -> bool {
        let cc = cx.core.config.concurrency;
        match self.role {
            Role::Interactive { blind: true, .. } if cc.defers_writes() => {
                // The shared reads are asked again as they were: without these writes.
                self.upgrade_for(cx, &ops);
                self.work.add(ops, merge);
                cx.core.finish(target, Reply::status("QUEUED"));
                false
            }
            Role::Interactive { blind: true, .. } => {
                self.upgrade_for(cx, &ops);
                self.call_locks(cx, ops, merge, target);
                false
            }
            _ => match chosen_first(&ops, merge.as_ref()).filter(|_| cc.takes_locks()) {
                Some(compound) => {
                    let (reads, then) = Then::behind(compound);
                    self.call_observed(cx, (reads, true), Some(target), then);
                    true
                }
                None => {
                    self.call_writes(cx, ops, merge, Some(target));
                    false
                }
            },
        }
    }

    /// Takes the place for the reply of `TXN COMMIT`, and begins the commit.
    pub(in crate::gateway::txn) fn commit_for(&mut self, cx: &mut TxnContext<'_>, target: Target) {
        if let Role::Interactive { commit, .. } = &mut self.role {
            *commit = Some(target);
        }
        self.commit(cx);
    }

    /// Notes that a command was refused. A blind transaction cannot go on without it: its client may have
    /// sent the commit already, without looking at the replies. Neither can a strict one.
    pub(in crate::gateway::txn) fn discard(&mut self, cx: &mut TxnContext<'_>) {
        if matches!(self.role, Role::Interactive { blind: true, .. }) {
            return self.abort(cx, Cause::Discarded);
        }
        self.discard_strict(cx);
    }

    /// Ends a strict transaction of which a command was refused.
    pub(super) fn discard_strict(&mut self, cx: &mut TxnContext<'_>) {
        if self.open.as_ref().is_some_and(|open| open.strict) {
            self.abort(cx, Cause::Discarded);
        }
    }

    /// Locks the deferred writes of a strict transaction before it commits, and asks whether
    /// their keys' values allow them: no other client can change that until they are carried out. Tells
    /// whether the commit has to wait for it.
    pub(super) fn checks_first(&mut self, cx: &mut TxnContext<'_>) -> bool {
        let blind = matches!(self.role, Role::Interactive { blind: true, .. });
        let Some(open) = self.open.as_mut().filter(|open| blind && open.strict) else {
            return false;
        };
        if std::mem::replace(&mut open.checked, true) {
            return false;
        }
        let mut writes: BTreeMap<Blob, Vec<Op>> = BTreeMap::new();
        for (key, op) in self.work.ops.iter().filter(|(_, op)| op.is_write()) {
            writes.entry(key.clone()).or_default().push(op.clone());
        }
        writes.retain(|_, ops| ops.iter().any(Op::may_be_refused));
        let waits = !writes.is_empty();
        if waits {
            self.call_checks(cx, writes.into_iter().collect(), Then::Checked);
        }
        waits
    }

    /// Takes the answers whether the deferred writes of a strict transaction are allowed.
    pub(super) fn checked(&mut self, cx: &mut TxnContext<'_>, replies: Vec<Reply>) {
        let error = replies.into_iter().find_map(|reply| match reply {
            Reply::Error(error) => Some(error),
            _ => None,
        });
        match error {
            Some(error) => self.end_undone(cx, undone(&error).into()),
            None => self.commit(cx),
        }
    }

    /// Notes that other clients wait for the transaction, whose client has sent something last at
    /// `active_us`. Ends it if it has kept them waiting for too long.
    pub(in crate::gateway::txn) fn wanted(&mut self, cx: &mut TxnContext<'_>, active_us: u64) {
        let (now_us, works) = (cx.core.now.mono_us, self.works());
        let in_commit = !matches!(self.role, Role::Interactive { commit: None, .. });
        let Some(open) = &mut self.open else { return };
        let cause = open.overdue(now_us, active_us, works).filter(|_| !in_commit);
        if let Some(cause) = cause {
            self.abort(cx, cause);
        }
    }

    /// Whether the transaction counts as load, whose client has sent something last at `active_us`. None if
    /// it is not interactive.
    pub(in crate::gateway::txn) fn is_load(&mut self, now_us: u64, active_us: u64) -> Option<bool> {
        let works = self.works() || now_us < active_us + IDLE_LOAD_US;
        let open = self.open.as_mut()?;
        open.counts = works || open.is_wanted(now_us);
        Some(open.counts)
    }

    /// Whether the transaction has asked for something, or is about to end.
    fn works(&self) -> bool {
        !self.tokens.is_empty() || self.calls.len() > 0 || self.stage != Stage::Running
    }
}
