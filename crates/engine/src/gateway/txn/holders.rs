//! `TXN HOLDERS`: which transactions hold locks that other clients wait for.

use super::table::{Transactions, TxnHolder};
use crate::gateway::clients::session::Session;
use crate::gateway::clients::sessions::Sessions;
use crate::gateway::core::Core;

/// A line for each name under which shards know a transaction of this gateway, with the number of the
/// client.
pub(in crate::gateway) fn holder_lines(
    core: &Core,
    transactions: &Transactions,
    sessions: &Sessions,
) -> Vec<(u64, String)> {
    let lines = transactions.holders().flat_map(|holder| {
        let session = sessions.get(holder.session.0);
        let (client, about) = session.map(|s| describe(core, &holder, s)).unwrap_or_default();
        holder.names.into_iter().map(move |name| (client, format!("txn={name} {about}")))
    });
    lines.collect()
}

fn describe(core: &Core, holder: &TxnHolder, session: &Session) -> (u64, String) {
    let since_ms = |us: u64| core.now.mono_us.saturating_sub(us) / 1000;
    let about = &session.about;
    let kind = if holder.began_us.is_some() { "txn" } else { "command" };
    let began_us = holder.began_us.unwrap_or(session.active_us);
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
