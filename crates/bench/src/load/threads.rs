//! Load of several threads: each drives its share of the connections with an event loop of its own.

use super::driver::{DriveError, Driver, Fleet};
use super::recorder::Recorder;
use super::sample::Costs;
use std::io;
use std::net::SocketAddr;
use std::sync::Barrier;

/// Share of a thread's time from which on it had no time left.
const BUSY_SHARE: f64 = 0.9;
/// Share of the machine's processor time from which on nothing was left.
const FULL_SHARE: f64 = 0.95;

/// A fleet that records what happens.
pub trait Recorded: Fleet {
    /// Continues with another recorder; returns the one before.
    fn record(&mut self, recorder: Recorder) -> Recorder;
}

/// Times of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Load before the measurement, in nanoseconds.
    pub warmup_ns: u64,
    /// Measured time, in nanoseconds.
    pub measured_ns: u64,
}

/// Number of cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Number of load threads if none is given: half of the cores, since the servers need the others.
pub fn usual() -> usize {
    (cores() / 2).max(1)
}

/// Connections of each thread: no thread is without.
pub fn shares(clients: usize, threads: usize) -> Vec<usize> {
    let threads = threads.clamp(1, clients.max(1));
    (0..threads).map(|thread| (clients + thread) / threads).collect()
}

/// Limit of the throughput, if it is not the server, from the processors that the load and the
/// whole machine kept busy: the load's threads had no time left (`load`), or the machine had none
/// (`machine`: load, servers and other programs take it from each other).
pub fn limit(client_cpus: f64, threads: usize, machine_cpus: f64) -> Option<&'static str> {
    if client_cpus >= BUSY_SHARE * threads as f64 {
        return Some("load");
    }
    (machine_cpus >= FULL_SHARE * cores() as f64).then_some("machine")
}

/// A finished measurement.
#[derive(Debug)]
pub struct Driven {
    /// Events of all threads.
    pub recorder: Recorder,
    /// Duration in nanoseconds.
    pub elapsed_ns: u64,
    /// Costs before and after.
    pub costs: (Costs, Costs),
}

/// Runs fleets at the same time, each on a thread with its number of connections. `kinds` is the
/// number of kinds of transactions that they record, `costs` reads what has been used so far.
///
/// # Errors
/// The server cannot be reached or fails one of the fleets.
pub fn drive<F: Recorded + Send>(
    servers: &[SocketAddr],
    fleets: &mut [(usize, F)],
    kinds: usize,
    span: Span,
    costs: impl Fn() -> Costs,
) -> io::Result<Driven> {
    let gate = Barrier::new(fleets.len() + 1);
    let (costs, parts) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (number, (clients, fleet)) in fleets.iter_mut().enumerate() {
            let mut servers = servers.to_vec();
            let first = number % servers.len().max(1);
            servers.rotate_left(first);
            let gate = &gate;
            threads.push(scope.spawn(move || work(&servers, *clients, fleet, kinds, span, gate)));
        }
        gate.wait();
        let before = costs();
        gate.wait();
        gate.wait();
        let costs = (before, costs());
        let ended = |thread: std::thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        (costs, threads.into_iter().map(ended).collect::<Vec<_>>())
    });
    let mut driven = Driven { recorder: Recorder::new(kinds, 0), elapsed_ns: 0, costs };
    for part in parts {
        let (recorder, elapsed_ns) = part.map_err(io::Error::other)?;
        driven.recorder.add(&recorder);
        driven.elapsed_ns = driven.elapsed_ns.max(elapsed_ns);
    }
    Ok(driven)
}

/// One thread: warms up, waits until the costs are read, measures, and waits again. It comes to the
/// gate three times even if it fails: the others wait for it there.
fn work<F: Recorded>(
    servers: &[SocketAddr],
    clients: usize,
    fleet: &mut F,
    kinds: usize,
    span: Span,
    gate: &Barrier,
) -> Result<(Recorder, u64), DriveError> {
    let warm = Driver::connect(servers, clients, 0).and_then(|mut driver| {
        let until_ns = driver.now_ns() + span.warmup_ns;
        driver.run(fleet, until_ns)?;
        Ok(driver)
    });
    gate.wait();
    gate.wait();
    let measured = warm.and_then(|mut driver| {
        let from_ns = driver.now_ns();
        fleet.record(Recorder::new(kinds, from_ns));
        driver.run(fleet, from_ns + span.measured_ns)?;
        Ok(driver.now_ns() - from_ns)
    });
    gate.wait();
    let elapsed_ns = measured?;
    Ok((fleet.record(Recorder::new(kinds, u64::MAX)), elapsed_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::driver::Turn;
    use crate::load::resp::Frame;
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    #[test]
    fn connections_are_shared_out() {
        assert_eq!(shares(50, 1), [50]);
        assert_eq!(shares(50, 4), [12, 12, 13, 13]);
        assert_eq!(shares(2, 4), [1, 1]);
        assert!(usual() >= 1 && usual() <= cores());
    }

    #[test]
    fn a_limit_is_found() {
        let all = cores() as f64;
        assert_eq!(limit(0.95, 1, all), Some("load"));
        assert_eq!(limit(0.95, 2, all), Some("machine"));
        assert_eq!(limit(0.3, 1, 0.5 * all), None);
    }

    struct Pings(Recorder);

    impl Fleet for Pings {
        fn reply(&mut self, _client: usize, frame: Frame<'_>) -> Result<(), String> {
            frame.error().map_or(Ok(()), |error| Err(error.to_owned()))
        }

        fn turn(&mut self, _client: usize, now_ns: u64, out: &mut Vec<u8>) -> Turn {
            self.0.commit(0, now_ns, now_ns);
            out.extend_from_slice(b"x");
            Turn { replies: 1, hold_ns: 0 }
        }
    }

    impl Recorded for Pings {
        fn record(&mut self, recorder: Recorder) -> Recorder {
            std::mem::replace(&mut self.0, recorder)
        }
    }

    /// A server that answers each byte.
    fn server(answer: &'static [u8]) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let address = listener.local_addr().expect("an address");
        let serve = move |mut stream: TcpStream| {
            let mut byte = [0];
            while stream.read(&mut byte).is_ok_and(|read| read == 1) {
                if stream.write_all(answer).is_err() {
                    return;
                }
            }
        };
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                std::thread::spawn(move || serve(stream));
            }
        });
        address
    }

    fn driven(answer: &'static [u8]) -> io::Result<Driven> {
        let mut fleets: Vec<(usize, Pings)> =
            shares(3, 2).into_iter().map(|n| (n, Pings(Recorder::new(1, u64::MAX)))).collect();
        let span = Span { warmup_ns: 10_000_000, measured_ns: 50_000_000 };
        drive(&[server(answer)], &mut fleets, 1, span, || Costs::now(&[]))
    }

    #[test]
    fn threads_are_measured_together() {
        let driven = driven(b"+OK\r\n").expect("a server");
        assert!(driven.recorder.commits() > 0);
        assert!(driven.elapsed_ns >= 50_000_000);
    }

    #[test]
    fn a_failure_ends_all_threads() {
        let error = driven(b"-ERR broken\r\n").expect_err("an error");
        assert!(error.to_string().contains("broken"), "{error}");
    }
}
