//! Elections: a lock whose holder has a value.
//!
//! A candidate waits in turn for the lock, holds it alone, and then leads. Its value has a
//! *version*, which is the token at first. Versions of a key grow with every leader and every
//! value, so that a client that has seen one can wait for the next; version 0 means that there is
//! no leader.

use crate::kinds::lock::{Holder, Share, Value, token_reply};
use crate::{Blob, Corrupt, Ctx, Reply, ValueSink, ValueSource};

/// Longest value of a leader, in bytes.
pub const LEADER_VALUE_BYTES_MAX: usize = 4096;

/// Tag behind the holders of a saved lock: value and version of a leader.
pub(in crate::kinds::lock) const PROCLAIMED: u64 = 1;

/// Value of a leader, with its version.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::kinds::lock) struct Proclaimed {
    pub value: Blob,
    pub version: u64,
}

impl Holder {
    /// Largest number issued to the holder: its version, or its token.
    pub(in crate::kinds::lock) fn newest(&self) -> u64 {
        self.proclaimed.as_ref().map_or(self.token, |proclaimed| proclaimed.version)
    }
}

impl Value {
    pub(in crate::kinds::lock) fn proclaim(
        &mut self,
        token: u64,
        value: &Blob,
        ctx: &Ctx,
    ) -> Reply {
        let is = |holder: &&mut Holder| holder.token == token && holder.until_ms > ctx.now_ms;
        let leader = self.holders.iter_mut().find(is);
        let Some(proclaimed) = leader.and_then(|holder| holder.proclaimed.as_mut()) else {
            return Reply::Int(0);
        };
        let version = ctx.ts.number().max(proclaimed.version + 1);
        *proclaimed = Proclaimed { value: value.clone(), version };
        token_reply(version)
    }

    /// Version and row of the leader: token, owner, value, milliseconds left, version.
    fn leader_row(&self, now_ms: u64) -> Option<(u64, Reply)> {
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

    pub(in crate::kinds::lock) fn leader(&self, now_ms: u64) -> Reply {
        self.leader_row(now_ms).map_or(Reply::Nil, |(_, row)| row)
    }

    pub(in crate::kinds::lock) fn observe(&self, seen: u64, now_ms: u64) -> Reply {
        let vacant = || {
            let row = [Reply::Nil, Reply::Nil, Reply::Nil, Reply::Int(0), Reply::Int(0)];
            (0, Reply::Array(row.into()))
        };
        let (version, row) = self.leader_row(now_ms).unwrap_or_else(vacant);
        if version == seen { Reply::Nil } else { row }
    }

    pub(in crate::kinds::lock) fn save_proclaimed(&self, sink: &mut dyn ValueSink) {
        for holder in &self.holders {
            let Some(Proclaimed { value, version }) = &holder.proclaimed else { continue };
            sink.number(PROCLAIMED);
            sink.number(holder.token);
            sink.number(*version);
            sink.bytes(value);
        }
    }

    pub(in crate::kinds::lock) fn load_proclaimed(
        &mut self,
        source: &mut dyn ValueSource,
    ) -> Result<(), Corrupt> {
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
