//! Transactions: the parts of a gateway that coordinate them.
//!
//! A transaction is a *program* (its steps are known when it begins: `EXEC`, a command on several
//! shards, a compound command) or *interactive* (its steps come one by one). Early accesses go out
//! as locks; at the end everything deferred is prepared on all participants and
//! decided. See `docs/internals/transactions/`.
//!
//! Which reads are mostly followed by a write is learned in [`transaction::intents`].
//!
//! [`table::Transactions`] has the transactions that are under way; each is a [`transaction::Txn`]. Reads
//! without locks are in [`lockless::LocklessTransactions`], transactions of lost coordinators in
//! [`recover::Orphans`]. `commands` and `exec` have the commands of clients.

pub(in crate::gateway) mod admission;
mod commands;
mod exec;
pub(in crate::gateway) mod holders;
mod lease;
mod lockless;
pub(in crate::gateway) mod multi;
pub(in crate::gateway) mod options;
pub(in crate::gateway) mod recover;
pub(in crate::gateway) mod table;
pub(in crate::gateway) mod transaction;
pub(in crate::gateway) mod work;
