//! Single operations of a replicated service, pipelines of them, and barriers.

use crate::law::{Invalid, Law, positive};
use crate::order::{Fastest, Follower, REPLIES_MAX, commit};
use serde::Serialize;

/// Server that a session is connected to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Attachment {
    /// The server that orders writes.
    #[default]
    Leader,
    /// Another server, which forwards writes to the leader.
    Follower,
}

/// Distances in the network, and the speed of the disks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Round trip between a client and its server.
    pub client_rtt: Law,
    /// Round trip between two servers.
    pub server_rtt: Law,
    /// One durable log write.
    pub disk: Law,
    /// Number of servers of the ensemble.
    pub servers: usize,
    /// Servers that sessions are connected to.
    pub attachment: Attachment,
}

/// Operation of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// A read, which the session's server answers from its own state.
    Read,
    /// A write.
    Write,
    /// A write that is refused, such as creating an existing node. Where refusals are ordered with
    /// the writes, as in `ZooKeeper`, it costs the same.
    FailingWrite,
    /// Catching up with the leader before a read.
    Sync,
    /// A write and then a read, one after the other.
    WriteThenRead,
    /// A write and a read that is sent immediately behind it.
    WriteAndRead,
}

/// Duration of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pipelined {
    /// Mean time from the first request to the last reply.
    pub elapsed_ms: f64,
    /// The elapsed time per operation.
    pub per_operation_ms: f64,
    /// Number of operations in flight (Little's law).
    pub in_flight: f64,
}

/// A party of a barrier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Party {
    /// Lateness, from the earliest possible arrival of a party.
    pub late: Law,
    /// Round trip of the party to the leader.
    pub rtt: Law,
}

/// Durations of a barrier, from the earliest possible arrival of a party.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Barrier {
    /// Until the last party has arrived and that is durable.
    pub open_ms: f64,
    /// Until a party is released, on average over the parties.
    pub mean_ms: f64,
    /// Until all parties are released. Slightly too long if round trips differ at random, since the
    /// last party to arrive need not be the last to be notified.
    pub last_ms: f64,
}

impl Timing {
    /// Constant times: round trips of clients and servers, log writes; three servers, sessions at
    /// the leader.
    ///
    /// # Errors
    /// One of them is not a time.
    pub fn constant(client_ms: f64, server_ms: f64, disk_ms: f64) -> Result<Self, Invalid> {
        Ok(Self {
            client_rtt: Law::constant(client_ms)?,
            server_rtt: Law::constant(server_ms)?,
            disk: Law::constant(disk_ms)?,
            servers: 3,
            attachment: Attachment::Leader,
        })
    }

    /// Time from the arrival of an entry at the leader to its commit.
    ///
    /// # Errors
    /// There are no servers, or too many.
    pub fn commit(&self) -> Result<Fastest, Invalid> {
        if !(1..=REPLIES_MAX).contains(&self.servers) {
            return Err(Invalid(format!("1 to {REPLIES_MAX} servers, not {}", self.servers)));
        }
        let follower = Follower { rtt: self.server_rtt.clone(), disk: self.disk.clone() };
        commit(&self.disk, &vec![follower; self.servers - 1])
    }

    /// The latency of an operation on a quiet service.
    ///
    /// # Errors
    /// As for [`Timing::commit`].
    pub fn latency(&self, operation: Operation) -> Result<Law, Invalid> {
        let to_leader = match self.attachment {
            Attachment::Leader => Law::zero(),
            Attachment::Follower => self.server_rtt.clone(),
        };
        let write = || Ok(self.client_rtt.plus(&to_leader).plus(&self.commit()?.law()));
        match operation {
            Operation::Read => Ok(self.client_rtt.clone()),
            Operation::Sync => Ok(self.client_rtt.plus(&to_leader)),
            Operation::Write | Operation::FailingWrite | Operation::WriteAndRead => write(),
            Operation::WriteThenRead => Ok(write()?.plus(&self.client_rtt)),
        }
    }

    /// The mean latency of a write if sessions are spread evenly over all servers. One of n is the
    /// leader, so server round trips count (1 + 2 (n - 1)) / n times.
    ///
    /// # Errors
    /// As for [`Timing::commit`].
    pub fn write_anywhere_ms(&self) -> Result<f64, Invalid> {
        let followers = (self.servers as f64 - 1.0) / self.servers as f64;
        let commit_ms = self.commit()?.mean_ms();
        Ok(self.client_rtt.mean_ms() + followers * self.server_rtt.mean_ms() + commit_ms)
    }

    /// `count` operations that are all sent before the first reply, to a service that does
    /// `operations_per_s` of them when it is busy.
    ///
    /// # Errors
    /// As for [`Timing::commit`]; there are no operations, or the rate is not above zero.
    pub fn pipelined(
        &self,
        operation: Operation,
        count: u32,
        operations_per_s: f64,
    ) -> Result<Pipelined, Invalid> {
        if count == 0 {
            return Err(Invalid("a pipeline has one operation or more".into()));
        }
        let rate = positive("the service's rate per second", operations_per_s)? / 1_000.0;
        let latency_ms = self.latency(operation)?.mean_ms();
        let elapsed_ms = latency_ms + f64::from(count) / rate;
        let per_operation_ms = elapsed_ms / f64::from(count);
        Ok(Pipelined { elapsed_ms, per_operation_ms, in_flight: latency_ms / per_operation_ms })
    }
}

/// Durations of a barrier for these parties, whose opening is committed after a time with the
/// distribution `commit`: the last party opens it, and the notifications travel back. Entering and
/// leaving are alike.
///
/// # Errors
/// There are no parties, or more than [`REPLIES_MAX`](crate::order::REPLIES_MAX).
pub fn barrier(parties: &[Party], commit: &Law) -> Result<Barrier, Invalid> {
    let halves = parties.iter().map(|party| party.rtt.scaled(0.5));
    let halves = halves.collect::<Result<Vec<Law>, Invalid>>()?;
    let comes = parties.iter().zip(&halves).map(|(party, half)| party.late.plus(half)).collect();
    let open_ms = Fastest::all(comes)?.mean_ms() + commit.mean_ms();
    let back_ms = halves.iter().map(Law::mean_ms).sum::<f64>() / halves.len() as f64;
    let last_ms = open_ms + Fastest::all(halves)?.mean_ms();
    Ok(Barrier { open_ms, mean_ms: open_ms + back_ms, last_ms })
}

/// Most pollers, each with a period of `interval_ms`, that a service can answer that does
/// `operations_per_s`. Beyond that polls are late, and so is everything else, and a lock that is
/// polled for collapses.
pub fn pollers_max(interval_ms: f64, operations_per_s: f64) -> f64 {
    interval_ms * operations_per_s / 1_000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{FailingWrite, Read, Sync, Write, WriteAndRead, WriteThenRead};

    /// Medians in ms of a service with three servers whose links were delayed: client and server
    /// round trip, attachment, then create, failing create, read, sync, create then list, both
    /// pipelined.
    const MEASURED: [(f64, f64, Attachment, [f64; 6]); 5] = [
        (0.0, 100.0, Attachment::Leader, [105.0, 107.0, 1.0, 1.0, 108.0, 106.0]),
        (0.0, 100.0, Attachment::Follower, [209.0, 208.0, 1.0, 103.0, 210.0, 209.0]),
        (100.0, 0.0, Attachment::Leader, [106.0, 105.0, 102.0, 102.0, 207.0, 104.0]),
        (100.0, 100.0, Attachment::Leader, [206.0, 204.0, 102.0, 102.0, 306.0, 206.0]),
        (100.0, 100.0, Attachment::Follower, [306.0, 305.0, 102.0, 204.0, 408.0, 306.0]),
    ];

    #[test]
    fn operations_take_what_was_measured_but_for_the_machine_itself() {
        for (client, server, attachment, measured) in MEASURED {
            let timing = Timing { attachment, ..Timing::constant(client, server, 1.0).unwrap() };
            let operations = [Write, FailingWrite, Read, Sync, WriteThenRead, WriteAndRead];
            for (operation, measured) in operations.into_iter().zip(measured) {
                let predicted = timing.latency(operation).unwrap().mean_ms();
                // The machine itself and the delayed links added up to nine milliseconds.
                let rest = measured - predicted;
                assert!((0.0..=9.0).contains(&rest), "{client} {server} {operation:?}: {rest}");
            }
        }
    }

    #[test]
    fn server_round_trips_count_once_at_the_leader_and_almost_twice_elsewhere() {
        let at = |server| {
            let timing = Timing::constant(50.0, server, 1.0).unwrap();
            Timing { servers: 5, ..timing }.write_anywhere_ms().unwrap()
        };
        assert!((at(100.0) - at(0.0) - 180.0).abs() < 1e-9);
        assert!((at(0.0) - 51.0).abs() < 1e-9);
    }

    #[test]
    fn a_pipeline_hides_round_trips() {
        let timing = Timing::constant(250.0, 250.0, 1.0).unwrap();
        let pipelined = timing.pipelined(Write, 1_000, 5_000.0).unwrap();
        assert!((pipelined.per_operation_ms - 0.701).abs() < 1e-9);
        assert!((pipelined.in_flight - 501.0 / 0.701).abs() < 1e-6);
        assert!(timing.pipelined(Write, 0, 1.0).is_err());
        assert!(timing.pipelined(Write, 1, 0.0).is_err());
    }

    #[test]
    fn a_barrier_waits_for_the_last_party() {
        let party = |late: Law, rtt: f64| Party { late, rtt: Law::constant(rtt).unwrap() };
        let commit = Law::constant(7.0).unwrap();
        let parties = [party(Law::zero(), 10.0), party(Law::zero(), 30.0)];
        let found = barrier(&parties, &commit).unwrap();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-3, "{found}");
        close(found.open_ms, 22.0);
        close(found.mean_ms, 32.0);
        close(found.last_ms, 37.0);
        let late = vec![party(Law::uniform(0.0, 80.0).unwrap(), 10.0); 3];
        close(barrier(&late, &commit).unwrap().open_ms, 60.0 + 5.0 + 7.0);
        assert!(barrier(&[], &commit).is_err());
    }

    #[test]
    fn sixty_pollers_are_too_many_for_a_small_service() {
        assert!((pollers_max(10.0, 6_000.0) - 60.0).abs() < 1e-9);
    }

    #[test]
    fn an_ensemble_has_servers() {
        let timing = Timing { servers: 0, ..Timing::constant(1.0, 1.0, 1.0).unwrap() };
        assert!(timing.latency(Write).is_err());
    }
}
