//! Elections, which are locks whose holder has a value that every client can follow, and barriers.

use super::lock::{Lock, LockOptions, Share, Turn, granted, millis};
use crate::client::{Client, SlotGuard};
use crate::command::{Command, FromReply, ToArg};
use crate::error::{Error, Result, checked};
use crate::retry::Attempts;
use std::time::Duration;
use tokio::time::Instant;
use wire::resp::ClientReply;

/// Longest wait of one request for a new version, after which a lost server is noticed.
const OBSERVE: Duration = Duration::from_secs(60);

/// The leader of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The fencing token: larger than those of all earlier leaders.
    pub token: u64,
    /// Name of the leader.
    pub owner: String,
    /// Value that the leader has proclaimed last.
    pub value: Vec<u8>,
    /// Time left of the leader's lease, by the server's clock.
    pub left: Duration,
    /// Grows with every leader and every value.
    pub version: u64,
}

fn number(reply: ClientReply) -> Result<u64> {
    i64::from_reply(reply).map(|number| u64::try_from(number).unwrap_or_default())
}

/// The leader, or its absence, with the version.
fn leader_of(reply: ClientReply) -> Result<(Option<Leader>, u64)> {
    let items = match reply {
        ClientReply::Nil => return Ok((None, 0)),
        ClientReply::Array(items) => items,
        other => return Err(Error::unexpected("a leader", &other)),
    };
    let Ok([token, owner, value, left, version]) = <[ClientReply; 5]>::try_from(items) else {
        return Err(Error::unexpected("a leader", &ClientReply::Nil));
    };
    let version = number(version)?;
    if matches!(token, ClientReply::Nil) {
        return Ok((None, version));
    }
    let left = Duration::from_millis(number(left)?);
    let (token, owner) = (number(token)?, String::from_reply(owner)?);
    let value = Vec::from_reply(value)?;
    Ok((Some(Leader { token, owner, value, left, version }), version))
}

/// Successive versions of an election: see [`Client::observe`].
pub struct Observation {
    client: Client,
    name: Vec<u8>,
    seen: u64,
}

impl Observation {
    /// Waits until the leader or its value differs from the last one returned, and returns it;
    /// `None` says that there is no leader any more. Short-lived versions may be skipped, the
    /// newest is not. Nothing is lost if the wait is cancelled.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn next(&mut self) -> Result<Option<Leader>> {
        let mut slot = self.client.waiting_slot();
        let mut out = Vec::new();
        let question = Command::new("ELECTION.OBSERVE").arg(&self.name).arg("AFTER").arg(self.seen);
        question.arg("TIMEOUT").arg(millis(OBSERVE)).encode(&mut out);
        let mut attempts = Attempts::new(&self.client.options().retry);
        loop {
            let asked = Instant::now();
            let told = slot.exchange_waiting(&out, 1, Some(OBSERVE)).await;
            let told = told.and_then(|mut told| checked(told.pop().unwrap_or(ClientReply::Nil)));
            match told {
                Ok(ClientReply::Nil) => attempts = Attempts::new(&self.client.options().retry),
                Ok(reply) => {
                    let (leader, version) = leader_of(reply)?;
                    self.seen = version;
                    return Ok(leader);
                }
                Err(error) if error.may_be_sent_again(true) => {
                    if asked.elapsed() > super::lock::LONG_WAIT && error.maybe_committed() {
                        attempts = Attempts::new(&self.client.options().retry);
                    }
                    attempts.pause(error).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl Client {
    /// Waits in turn to be elected, and proclaims a value: the leader holds a lock, whose lease is
    /// renewed. [`LockOptions::share`] must be [`Share::Alone`], without [`LockOptions::near`] and
    /// [`LockOptions::next`].
    ///
    /// # Errors
    /// As [`Client::lock`].
    pub async fn campaign(
        &self,
        name: impl ToArg,
        value: impl ToArg,
        options: LockOptions,
    ) -> Result<Lock> {
        if options.share != Share::Alone || options.near || options.next {
            let text = "ERR an election has one leader, which the server knows";
            return Err(Error::Refused(text.to_owned()));
        }
        let (mut key, mut bytes) = (Vec::new(), Vec::new());
        name.write(&mut key);
        value.write(&mut bytes);
        self.hold(key, Some(bytes), options, 1).await
    }

    /// The leader, if there is one.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn leader(&self, name: impl ToArg) -> Result<Option<Leader>> {
        let reply = self.send::<ClientReply>(Command::new("ELECTION.LEADER").arg(name)).await?;
        leader_of(reply).map(|(leader, _)| leader)
    }

    /// Follows an election: begins with the current leader, if there is one.
    pub fn observe(&self, name: impl ToArg) -> Observation {
        let mut bytes = Vec::new();
        name.write(&mut bytes);
        Observation { client: self.clone(), name: bytes, seen: 0 }
    }

    /// Waits at a barrier until all parties have arrived, and returns the number of the generation,
    /// which is the same to all of them and larger than those before. The request carries a request
    /// number: it is repeated if the connection breaks, and counts as one arrival. Cancelling the
    /// wait withdraws the arrival.
    ///
    /// # Errors
    /// [`Error::NotAcquired`] if not all parties arrived in time, [`Error::CommitUnknown`] if the
    /// reply to an earlier attempt had been lost by then; otherwise as [`Client::once`].
    pub async fn barrier(
        &self,
        name: impl ToArg,
        parties: u32,
        timeout: Option<Duration>,
    ) -> Result<u64> {
        let mut key = Vec::new();
        name.write(&mut key);
        let mut slot = self.waiting_slot();
        let begun = Instant::now();
        let arrival = |out: &mut Vec<u8>| {
            let mut command = Command::new("BARRIER.WAIT").arg(&key).arg(parties);
            command = command.arg("OWNER").arg(LockOptions::default().owner);
            if let Some(timeout) = timeout {
                let left = timeout.saturating_sub(begun.elapsed());
                command = command.arg("TIMEOUT").arg(millis(left));
            }
            command.encode(out);
        };
        let wait = || timeout.map(|timeout| timeout.saturating_sub(begun.elapsed()));
        let number = slot.next_number();
        let Turn { told, lost, .. } =
            self.turn(&mut slot, number, 2, wait, arrival, granted).await?;
        let late = "not all parties arrived at the barrier in time, and the own arrival may count";
        match told {
            Some(generation) => Ok(generation),
            None if lost => Err(Error::CommitUnknown(late.to_owned())),
            None => match self.arrived(&mut slot, number, &key).await {
                Ok(Some(generation @ 1..)) => Ok(generation),
                // A user without the right to ask goes by the answer to the wait.
                Ok(_) | Err(Error::Refused(_)) => Err(Error::NotAcquired),
                Err(error) => Err(error.given_up(true)),
            },
        }
    }

    /// The generation of an arrival whose wait has ended in vain, if it counts all the same because
    /// it was on its way to the log: then that is the reply to any write under its number.
    async fn arrived(&self, slot: &mut SlotGuard, number: u64, name: &[u8]) -> Result<Option<u64>> {
        let question = Command::new("LOCK.RELEASE").arg(name).arg(0);
        let ask = |out: &mut Vec<u8>| question.encode(out);
        let at_once = || Some(Duration::ZERO);
        self.turn(slot, number, 2, at_once, ask, granted).await.map(|turn| turn.told)
    }
}

impl Lock {
    /// Replaces the value of this leader, elected by [`Client::campaign`], and returns the version
    /// of it.
    ///
    /// # Errors
    /// [`Error::LockLost`] if it no longer leads; otherwise as [`Client::send`].
    pub async fn proclaim(&self, value: impl ToArg) -> Result<u64> {
        match self.send::<i64>("ELECTION.PROCLAIM", |command| command.arg(value)).await? {
            version @ 1.. => Ok(version.unsigned_abs()),
            _ => Err(self.is_lost()),
        }
    }
}
