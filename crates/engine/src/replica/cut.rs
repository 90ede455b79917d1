//! Cut through all shards: the replicas' part of it. See [`crate::shard::transfer::cut`].

use super::Replica;
use crate::entry::EntryCodec;
use crate::message::{Answer, Body, CutStep, Request};
use crate::now::Now;

impl<C: EntryCodec> Replica<C> {
    /// Passes a request on that need not wait any more.
    #[inline]
    pub(super) fn admit(&mut self, now: Now, request: Request) {
        if let Body::Cut { cut, step: CutStep::Piece(piece) } = request.body {
            let codec = &self.codec;
            let reply = self.shard.cut_piece(now, (cut, piece), |part, bytes| {
                codec.encode_part(part, bytes);
            });
            return self.shard.outbox_mut().answer(
                request.gateway,
                request.token,
                Answer::Reply(reply),
            );
        }
        self.at_shard(now, |shard| shard.handle(now, request));
    }
}
