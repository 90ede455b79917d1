//! Messages that a machine could not decode: the request fails, at once and for good, and the connection goes
//! on.

use crate::gateway::errors::{answer_unread, request_unread};
use crate::gateway::mail::Pending;
use crate::gateway::parts::Parts;
use crate::message::{Answer, Refusal};

/// Message that could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Unread {
    /// The request, which had no effect therefore.
    Request,
    /// The answer, so that the effect is unknown.
    Answer,
}

impl Parts {
    /// Ends a request that could not be decoded, or whose answer could not. It is not sent again: it would
    /// fail again.
    pub(in crate::gateway) fn not_read(&mut self, token: u64, what: Unread) {
        let Some(pending) = self.core.mail.take(token) else { return };
        let error = || match what {
            Unread::Request => request_unread(),
            Unread::Answer => answer_unread(),
        };
        let refused = Answer::Refused(Refusal::Unread);
        let told = match (&pending, what) {
            (Pending::Fate { job }, _) => return self.orphans.give_up(*job),
            (Pending::Snapshot { job, .. }, _) => {
                return self.snapshots.fail(&mut self.core, *job, error().into());
            }
            (Pending::Wait { job }, _) => {
                let effect = self.blocked.stop(&mut self.core, *job, error().into());
                return self.wait_goes_on(effect);
            }
            (Pending::Gather { .. }, _) => Answer::Reply(error().into()),
            // A lock is worth nothing without the reply.
            (
                Pending::Access { .. }
                | Pending::Lease { .. }
                | Pending::Interval { .. }
                | Pending::Version { .. },
                _,
            ) => refused,
            (Pending::Vote { .. }, Unread::Answer) => Answer::Unknown,
            // The transaction is decided: a participant that does not know that asks.
            (Pending::Execution { .. }, _) => Answer::CarriedOut,
            (
                Pending::Cut { .. }
                | Pending::Waits { .. }
                | Pending::Coordination { .. }
                | Pending::Ahead { .. }
                | Pending::Spread
                | Pending::Ending { .. }
                | Pending::Joint { .. }
                | Pending::SplitDone
                | Pending::Follow { .. }
                | Pending::Remembered,
                _,
            ) => Answer::Unknown,
            (
                Pending::Session(_)
                | Pending::Units { .. }
                | Pending::Vote { .. }
                | Pending::Loose { .. }
                | Pending::Attempt { .. }
                | Pending::Turn { .. }
                | Pending::Near { .. },
                Unread::Request,
            ) => refused,
            (
                Pending::Session(_)
                | Pending::Units { .. }
                | Pending::Loose { .. }
                | Pending::Attempt { .. }
                | Pending::Turn { .. }
                | Pending::Near { .. },
                Unread::Answer,
            ) => Answer::Unread,
        };
        self.answer(token, pending, told);
    }
}
