//! Replies of writes that are known when their transaction has committed.

use crate::command::FromReply;
use crate::error::{Error, Result, checked};
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use wire::resp::ClientReply;

/// The reply of a write, known when its transaction has committed: see [`Tx::defer`](crate::Tx::defer).
/// It is no value, so that a transaction cannot use it by mistake before that.
#[derive(Clone, Debug)]
pub struct Deferred<T> {
    told: Told,
    kind: PhantomData<fn() -> T>,
}

/// The place for a reply, which is empty until the commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<Option<Result<ClientReply>>>>);

impl Told {
    pub fn tell(&self, reply: Result<ClientReply>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(reply);
    }
}

impl<T: FromReply> Deferred<T> {
    pub(crate) fn new() -> Self {
        Self { told: Told::default(), kind: PhantomData }
    }

    pub(crate) fn told(&self) -> Told {
        self.told.clone()
    }

    /// The reply.
    ///
    /// # Errors
    /// [`Error::Order`] before the commit, and if the transaction was run again or did not commit;
    /// [`Error::ReplyLost`] if it committed and the replies were lost; the error of the write if it
    /// was refused.
    pub fn value(&self) -> Result<T> {
        let told = self.told.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let early = || Error::Order("the reply of a write is known after the commit".to_owned());
        T::from_reply(told.ok_or_else(early)??)
    }
}

/// The writes of a transaction that the server has, in their order.
#[derive(Default)]
pub(crate) struct Writes {
    /// Writes that the commit answers.
    queued: Vec<Option<Told>>,
    /// Writes that were answered at once, with the replies.
    answered: Vec<(Told, Result<ClientReply>)>,
}

impl Writes {
    /// Adds a write by the server's first reply to it.
    pub fn sent(&mut self, told: Option<Told>, reply: Result<ClientReply>) {
        match (reply, told) {
            (Ok(ClientReply::Status(text)), told) if *text == *b"QUEUED" => self.queued.push(told),
            (reply, Some(told)) => self.answered.push((told, reply)),
            (_, None) => {}
        }
    }

    /// Tells all replies, those of the commit among them; returns the first error of the latter.
    pub fn settle(&mut self, items: Vec<ClientReply>) -> Option<Error> {
        let mut first = None;
        let queued = self.queued.drain(..).chain(std::iter::repeat_with(|| None));
        for (told, item) in queued.zip(items) {
            let reply = checked(item);
            first = first.or_else(|| reply.as_ref().err().cloned());
            if let Some(told) = told {
                told.tell(reply);
            }
        }
        for (told, reply) in self.answered.drain(..) {
            told.tell(reply);
        }
        first
    }

    /// Tells that the transaction took effect and its replies are lost.
    pub fn lose(&mut self) {
        let answered = self.answered.drain(..).map(|(told, _)| told);
        for told in self.queued.drain(..).flatten().chain(answered) {
            told.tell(Err(Error::ReplyLost));
        }
    }
}
