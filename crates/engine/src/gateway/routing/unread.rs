//! A machine could not read what another one said: the request that this was about fails, at once
//! and for good, and everything else on the connection goes on.

use crate::gateway::Gateway;
use crate::gateway::errors::{answer_unread, request_unread};
use crate::gateway::mail::Pending;
use crate::message::{Answer, Refusal};

/// What could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum What {
    /// The request, which therefore had no effect.
    Request,
    /// The answer, so that nothing is known of the effect.
    Answer,
}

impl Gateway {
    /// A request, or its answer, could not be read. It is not asked again: it would fail again.
    pub(in crate::gateway) fn not_read(&mut self, token: u64, what: What) {
        let Some(pending) = self.core.mail.take(token) else { return };
        let error = || match what {
            What::Request => request_unread(),
            What::Answer => answer_unread(),
        };
        let refused = Answer::Refused(Refusal::Unread);
        let told = match (&pending, what) {
            (Pending::Fate { job }, _) => return self.orphans.give_up(*job),
            (Pending::Snapshot { job, .. }, _) => {
                return self.snapshots.fail(&mut self.core, *job, error().into());
            }
            (Pending::Wait { job }, _) => {
                let effect = self.blocked.stop(&mut self.core, *job, error().into());
                return self.blocked_goes_on(effect);
            }
            (Pending::Gather { .. }, _) => Answer::Reply(error().into()),
            // What is locked is worth nothing without the reply.
            (
                Pending::Access { .. }
                | Pending::Lease { .. }
                | Pending::Interval { .. }
                | Pending::Version { .. },
                _,
            ) => refused,
            (Pending::Vote { .. }, What::Answer) => Answer::Unknown,
            // It is decided: a participant that has not heard of it asks.
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
                | Pending::Remembered,
                _,
            ) => Answer::Unknown,
            (
                Pending::Single { .. }
                | Pending::Batch { .. }
                | Pending::Work { .. }
                | Pending::Units { .. }
                | Pending::Vote { .. }
                | Pending::Loose { .. }
                | Pending::Attempt { .. }
                | Pending::Turn { .. }
                | Pending::Near { .. },
                What::Request,
            ) => refused,
            (
                Pending::Single { .. }
                | Pending::Batch { .. }
                | Pending::Work { .. }
                | Pending::Units { .. }
                | Pending::Loose { .. }
                | Pending::Attempt { .. }
                | Pending::Turn { .. }
                | Pending::Near { .. },
                What::Answer,
            ) => Answer::Unread,
        };
        self.answer(token, pending, told);
    }
}
