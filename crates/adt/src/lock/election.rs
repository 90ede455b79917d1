//! Elections: a lock whose holder has a value.
//!
//! Whoever campaigns waits in turn for the lock, and holds it alone: it leads. What it proclaims has a
//! *version*, that of the campaign being its token. Versions of a key grow with every leader and every
//! value, so that whoever has seen one can wait for the next; nought is that nobody leads.

use super::{Holder, Share, Value, token_reply};
use crate::{Blob, Corrupt, Ctx, Reply, ValueSink, ValueSource};

/// Longest value of a leader, in bytes.
pub const LEADER_VALUE_BYTES_MAX: usize = 4096;

/// What stands behind the holders in a saved lock: something that a leader has proclaimed.
pub(super) const PROCLAIMED: u64 = 1;

/// What a leader has to say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Proclaimed {
    pub value: Blob,
    pub version: u64,
}

impl Holder {
    /// The largest number that it was given.
    pub(super) fn newest(&self) -> u64 {
        self.proclaimed.as_ref().map_or(self.token, |proclaimed| proclaimed.version)
    }
}

impl Value {
    pub(super) fn proclaim(&mut self, token: u64, value: &Blob, ctx: &Ctx) -> Reply {
        let is = |holder: &&mut Holder| holder.token == token && holder.until_ms > ctx.now_ms;
        let leader = self.holders.iter_mut().find(is);
        let Some(proclaimed) = leader.and_then(|holder| holder.proclaimed.as_mut()) else {
            return Reply::Int(0);
        };
        let version = ctx.ts.number().max(proclaimed.version + 1);
        *proclaimed = Proclaimed { value: value.clone(), version };
        token_reply(version)
    }

    /// Who leads: token, owner, value, milliseconds left, version.
    fn told(&self, now_ms: u64) -> Option<(u64, Reply)> {
        let mut live = self.holders.iter().filter(|holder| holder.until_ms > now_ms);
        let (holder, proclaimed) =
            live.find_map(|holder| Some((holder, holder.proclaimed.as_ref()?)))?;
        let row = vec![
            token_reply(holder.token),
            Reply::Bulk(holder.owner.clone()),
            Reply::Bulk(proclaimed.value.clone()),
            Reply::Int((holder.until_ms - now_ms) as i64),
            token_reply(proclaimed.version),
        ];
        Some((proclaimed.version, Reply::Array(row)))
    }

    pub(super) fn leader(&self, now_ms: u64) -> Reply {
        self.told(now_ms).map_or(Reply::Nil, |(_, row)| row)
    }

    pub(super) fn observe(&self, seen: u64, now_ms: u64) -> Reply {
        let nobody = || {
            let row = [Reply::Nil, Reply::Nil, Reply::Nil, Reply::Int(0), Reply::Int(0)];
            (0, Reply::Array(row.into()))
        };
        let (version, row) = self.told(now_ms).unwrap_or_else(nobody);
        if version == seen { Reply::Nil } else { row }
    }

    pub(super) fn save_proclaimed(&self, sink: &mut dyn ValueSink) {
        for holder in &self.holders {
            let Some(Proclaimed { value, version }) = &holder.proclaimed else { continue };
            sink.number(PROCLAIMED);
            sink.number(holder.token);
            sink.number(*version);
            sink.bytes(value);
        }
    }

    pub(super) fn load_proclaimed(&mut self, source: &mut dyn ValueSource) -> Result<(), Corrupt> {
        let (token, version) = (source.number()?, source.number()?);
        let value = Blob::from(source.bytes()?);
        let fits = version >= token && value.len() <= LEADER_VALUE_BYTES_MAX;
        let alone = |holder: &&mut Holder| holder.token == token && holder.share == Share::Alone;
        let holder = self.holders.iter_mut().find(alone).filter(|_| fits).ok_or(Corrupt)?;
        match holder.proclaimed.replace(Proclaimed { value, version }) {
            Some(_) => Err(Corrupt),
            None => Ok(()),
        }
    }
}
