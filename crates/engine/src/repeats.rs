//! Replies to a request that took effect before: their size, and the error that replaces them when
//! they are not kept.

use crate::entry::Dropped;
use crate::limits::{REMEMBERED_BYTES_IN_ALL_MAX, REMEMBERED_BYTES_MAX};
use adt::{ErrorReply, Reply, Timestamp};

/// Code of the error for a request that took effect before and whose replies are lost. No operation
/// replies with it.
const REPEATED: &str = "REPEATED";

impl Dropped {
    const ALL: [Self; 2] = [Self::TooLong, Self::ForRoom];

    fn text(self) -> String {
        match self {
            Self::TooLong => format!(
                "its replies are not kept, because they have more than {REMEMBERED_BYTES_MAX} bytes"
            ),
            Self::ForRoom => format!(
                "its replies are not kept any more, because a shard keeps \
                 {REMEMBERED_BYTES_IN_ALL_MAX} bytes of the latest"
            ),
        }
    }

    /// Error that replaces the replies of a request that took effect at `ts`.
    pub fn error(self, ts: Timestamp) -> ErrorReply {
        repeated(ts, &self.text())
    }

    /// Reason in an error that replaces replies, if the error is one of those.
    pub fn of(error: &ErrorReply) -> Option<Self> {
        let found = |dropped: &Self| error.text().contains(&dropped.text());
        Self::ALL.into_iter().find(|dropped| error.code() == REPEATED && found(dropped))
    }
}

/// Error for a request that took effect at `ts`, with the state of its replies.
pub(crate) fn repeated(ts: Timestamp, lost: &str) -> ErrorReply {
    let ms = ts.micros() / 1000;
    let text = format!(
        "this request number took effect before, at {ms} ms after the beginning of 1970; {lost}; \
         nothing was done now"
    );
    ErrorReply::new(REPEATED, text)
}

/// Error that replaces the replies, if they are not kept.
pub(crate) fn dropped_error(replies: &[Reply]) -> Option<&ErrorReply> {
    match replies {
        [Reply::Error(error)] if Dropped::of(error).is_some() => Some(error),
        _ => None,
    }
}

/// Approximate bytes of replies.
pub(crate) fn weight_of<'r>(replies: impl IntoIterator<Item = &'r Reply>) -> usize {
    replies.into_iter().map(weight).sum()
}

/// Approximate bytes of a reply.
fn weight(reply: &Reply) -> usize {
    size_of::<Reply>()
        + match reply {
            Reply::Bulk(bytes) => bytes.len(),
            Reply::Text(text) => text.len(),
            Reply::Array(items) | Reply::Set(items) | Reply::Push(items) => weight_of(items),
            Reply::Map(pairs) => pairs.iter().map(|(key, value)| weight(key) + weight(value)).sum(),
            Reply::Scored(members) => members.iter().map(|(member, _)| member.len() + 32).sum(),
            Reply::Pairs(pairs) => {
                pairs.iter().map(|(key, value)| key.len() + value.len() + 48).sum()
            }
            Reply::Named(pairs) => {
                pairs.iter().map(|(name, value)| name.len() + 24 + weight(value)).sum()
            }
            Reply::Record(record) => record.heap_bytes(),
            Reply::Error(error) => error.text().len(),
            Reply::Ok
            | Reply::Status(_)
            | Reply::Nil
            | Reply::NilArray
            | Reply::Int(_)
            | Reply::Double(_)
            | Reply::Bool(_) => 0,
        }
}
