//! A reply that several readers wait for.

use crate::error::{Error, Result};
use std::sync::Arc;
use tokio::sync::watch;
use wire::resp::ClientReply;

type Outcome = Option<Result<Arc<ClientReply>>>;

/// A request without a reply. Dropping it tells the readers that the reply is lost.
pub(super) struct Question(watch::Sender<Outcome>);

/// The reply to a request, for one of its readers.
#[derive(Clone)]
pub(super) struct Answer(watch::Receiver<Outcome>);

/// A request and its reply.
pub(super) fn question() -> (Question, Answer) {
    let (question, answer) = watch::channel(None);
    (Question(question), Answer(answer))
}

impl Question {
    pub fn settle(self, outcome: Result<Arc<ClientReply>>) {
        self.0.send_replace(Some(outcome));
    }
}

impl Answer {
    /// Whether no reply will come any more.
    pub fn is_over(&self) -> bool {
        self.0.has_changed().is_err()
    }

    /// Waits for the reply.
    pub async fn reply(mut self) -> Result<Arc<ClientReply>> {
        let told = self.0.wait_for(Option::is_some).await;
        // A read that was lost has done nothing, as one that was never sent.
        let lost = || Error::Connect("the connection of the cache was lost".to_owned());
        told.ok().and_then(|outcome| outcome.clone()).ok_or_else(lost)?
    }
}
