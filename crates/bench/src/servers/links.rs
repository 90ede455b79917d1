//! Connections with a delay: a thread that relays between real processes.
//!
//! A distant process is reached at an address of this thread, which passes on all bytes in both
//! directions after a delay: either the delay between two machines of Claret (the first frame of a
//! connection identifies the machine that dialled), or the delay of the line, whichever process
//! connects. Bytes on a connection are never reordered, and are never held back because too many
//! are in flight: such a window would become part of the measurement.

use crate::load::timers::{TOGETHER_NS, Timers};
use mio::net::{TcpListener, TcpStream};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use wire::peer::decode_hello;

const TIMER: Token = Token(usize::MAX);
const STOP: Token = Token(usize::MAX - 1);
/// First token of a connection's end; tokens below are listeners, by machine.
const FIRST_END: usize = 1 << 16;
const READ_BYTES: usize = 256 << 10;
/// Longest sleep of the thread without anything to do.
const IDLE_NS: u64 = 1_000_000_000;

/// One-way delays of lines, in nanoseconds, the same in both directions. They can be changed at any
/// time and apply to all bytes sent from then on.
#[derive(Debug, Default)]
pub struct Lines(Vec<AtomicU64>);

impl Lines {
    /// Creates `count` lines without a delay.
    pub fn new(count: usize) -> Arc<Self> {
        Arc::new(Self((0..count).map(|_| AtomicU64::new(0)).collect()))
    }

    /// Sets the round trip of a line: half of it is the delay in each direction.
    pub fn set_round_trip(&self, line: usize, round_trip_ns: u64) {
        self.0[line].store(round_trip_ns / 2, Ordering::Relaxed);
    }

    fn one_way_ns(&self, line: usize) -> u64 {
        self.0.get(line).map_or(0, |delay| delay.load(Ordering::Relaxed))
    }
}

/// Delays of a relay.
pub enum Delays {
    /// Delays between machines of a Claret cluster: microseconds from the machine of the row to
    /// that of the column. The first frame that a machine sends contains its number.
    Machines(Vec<Vec<u64>>),
    /// Delays by listener. A connection takes an additional round trip to open, as the kernel's
    /// handshake would.
    Lines(Arc<Lines>),
}

/// One end of a connection, and the bytes in flight to it.
struct End {
    stream: TcpStream,
    /// Bytes with their arrival times; `None` marks the end.
    coming: VecDeque<(u64, Option<Vec<u8>>)>,
    /// Arrival time of the last of them.
    last_ns: u64,
    /// Bytes that have arrived and do not fit into the socket's buffer yet.
    unsent: Vec<u8>,
}

/// A connection of two machines.
struct Connection {
    /// Time from which on the dialling side may send: one handshake after the connection began.
    open_ns: u64,
    /// Machine that was dialled, from 1 on.
    dialled: u16,
    /// Machine that dialled, once its first frame has arrived.
    dialler: Option<u16>,
    /// Bytes received until then.
    first: Vec<u8>,
    /// Dialling end and dialled end.
    ends: [End; 2],
}

struct Relay {
    poll: Poll,
    timers: Timers,
    /// Listeners by machine, with the address that the machine itself listens at.
    listeners: Vec<(TcpListener, SocketAddr)>,
    delays: Delays,
    connections: BTreeMap<usize, Connection>,
    count: usize,
    scratch: Vec<u8>,
}

/// Handle of the relay's thread.
pub struct Links {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Links {
    /// Relays the connections of these listeners: the address at which a machine is reached, and
    /// the address at which it listens.
    ///
    /// # Errors
    /// The system refuses a resource.
    pub fn start(
        listeners: Vec<(std::net::TcpListener, SocketAddr)>,
        delays: Delays,
    ) -> io::Result<Self> {
        let (poll, timers) = (Poll::new()?, Timers::new()?);
        let descriptor = timers.descriptor();
        poll.registry().register(&mut SourceFd(&descriptor), TIMER, Interest::READABLE)?;
        let waker = Waker::new(poll.registry(), STOP)?;
        let mut own = Vec::new();
        for (number, (listener, address)) in listeners.into_iter().enumerate() {
            listener.set_nonblocking(true)?;
            let mut listener = TcpListener::from_std(listener);
            poll.registry().register(&mut listener, Token(number), Interest::READABLE)?;
            own.push((listener, address));
        }
        let connections = BTreeMap::new();
        let scratch = vec![0; READ_BYTES];
        let mut relay =
            Relay { poll, timers, listeners: own, delays, connections, count: 0, scratch };
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::Builder::new().name("links".to_owned()).spawn(move || {
            if let Err(error) = relay.run(&stopped) {
                eprintln!("claret: the relay between the machines has failed: {error}");
            }
        })?;
        Ok(Self { stop, waker, thread: Some(thread) })
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if self.waker.wake().is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl Relay {
    fn run(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !stop.load(Ordering::Acquire) {
            let now_ns = self.timers.now_ns();
            while let Some(end) = self.timers.pop(now_ns) {
                self.deliver(end);
            }
            self.timers.arm(now_ns + IDLE_NS)?;
            match self.poll.poll(&mut events, Some(Duration::from_nanos(IDLE_NS))) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            }
            for event in &events {
                match event.token() {
                    TIMER | STOP => {}
                    Token(machine) if machine < FIRST_END => self.accept(machine)?,
                    Token(end) => {
                        if event.is_readable() {
                            self.receive(end - FIRST_END);
                        }
                        if event.is_writable() {
                            self.flush(end - FIRST_END);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, machine: usize) -> io::Result<()> {
        loop {
            let (listener, address) = &self.listeners[machine];
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            // No process listens there yet: the dialling machine notices, and tries again.
            let Ok(other) = std::net::TcpStream::connect(address) else { continue };
            other.set_nonblocking(true)?;
            let number = self.count;
            self.count += 1;
            let mut ends = [stream, TcpStream::from_std(other)].map(|stream| End {
                stream,
                coming: VecDeque::new(),
                last_ns: 0,
                unsent: Vec::new(),
            });
            for (side, end) in ends.iter_mut().enumerate() {
                end.stream.set_nodelay(true)?;
                let token = Token(FIRST_END + 2 * number + side);
                let both = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut end.stream, token, both)?;
            }
            let dialled = machine as u16 + 1;
            let handshake_ns = match &self.delays {
                Delays::Machines(_) => 0,
                Delays::Lines(lines) => 2 * lines.one_way_ns(machine),
            };
            let open_ns = self.timers.now_ns() + handshake_ns;
            let connection =
                Connection { open_ns, dialled, dialler: None, first: Vec::new(), ends };
            self.connections.insert(number, connection);
        }
    }

    /// Reads bytes from one end, for the other one.
    fn receive(&mut self, end: usize) {
        let (number, side) = (end / 2, end % 2);
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            let read = match connection.ends[side].stream.read(&mut self.scratch) {
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => 0,
            };
            let said = (read > 0).then(|| self.scratch[..read].to_vec());
            self.pass_on(number, side, said);
            if read == 0 {
                return;
            }
        }
    }

    fn pass_on(&mut self, number: usize, side: usize, said: Option<Vec<u8>>) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let mut said = said;
        let now_ns = self.timers.now_ns();
        let at_ns = match &self.delays {
            Delays::Lines(lines) => {
                let from_ns = if side == 0 { now_ns.max(connection.open_ns) } else { now_ns };
                from_ns + lines.one_way_ns(usize::from(connection.dialled) - 1)
            }
            Delays::Machines(delays_us) => {
                if connection.dialler.is_none() && side == 0 {
                    // The first frame identifies the machine; nothing is passed on before it is
                    // complete.
                    if let Some(bytes) = &said {
                        connection.first.extend_from_slice(bytes);
                        let Ok(Some((hello, _))) = decode_hello(&connection.first) else { return };
                        connection.dialler = Some(hello.machine.0);
                        said = Some(std::mem::take(&mut connection.first));
                    }
                }
                let (dialler, dialled) = (connection.dialler.unwrap_or(1), connection.dialled);
                let (from, to) = if side == 0 { (dialler, dialled) } else { (dialled, dialler) };
                let row = delays_us.get(usize::from(from) - 1);
                let delay_us = row.and_then(|row| row.get(usize::from(to) - 1)).copied();
                now_ns + delay_us.unwrap_or(0) * 1_000
            }
        };
        // A delay that was reduced must not reorder bytes.
        let at_ns = at_ns.max(connection.ends[1 - side].last_ns);
        connection.ends[1 - side].last_ns = at_ns;
        connection.ends[1 - side].coming.push_back((at_ns, said));
        self.timers.add(at_ns, 2 * number + (1 - side));
    }

    /// Writes the bytes that have arrived at one end by now.
    fn deliver(&mut self, end: usize) {
        let now_ns = self.timers.now_ns();
        let Some(connection) = self.connections.get_mut(&(end / 2)) else { return };
        let own = &mut connection.ends[end % 2];
        // Timers sometimes fire slightly early; bytes that have waited behind those are due as
        // well.
        while let Some((at_ns, _)) = own.coming.front()
            && *at_ns <= now_ns + TOGETHER_NS
        {
            match own.coming.pop_front() {
                Some((_, Some(bytes))) => own.unsent.extend_from_slice(&bytes),
                // One end is closed, so the other one is closed too.
                _ => {
                    self.connections.remove(&(end / 2));
                    return;
                }
            }
        }
        self.flush(end);
    }

    fn flush(&mut self, end: usize) {
        let Some(connection) = self.connections.get_mut(&(end / 2)) else { return };
        let own = &mut connection.ends[end % 2];
        while !own.unsent.is_empty() {
            match own.stream.write(&own.unsent) {
                Ok(written) if written > 0 => drop(own.unsent.drain(..written)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => {
                    self.connections.remove(&(end / 2));
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::time::Instant;
    use wire::peer::{Hello, Level, MachineId, encode_hello};

    /// The first frame of machine 2.
    fn hello() -> Vec<u8> {
        let hello = Hello {
            rules: String::new(),
            cluster: "claret".to_owned(),
            machine: MachineId(2),
            life: 1,
            level: Level::NEWEST,
            address: "127.0.0.1:6379".to_owned(),
            worker_count: 1,
        };
        let mut bytes = Vec::new();
        encode_hello(&hello, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_said_arrives_after_the_delay_in_each_direction() {
        let public = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (reached, listens) = (public.local_addr().unwrap(), own.local_addr().unwrap());
        let delays_us = vec![vec![0, 30_000], vec![60_000, 0]];
        let delays = Delays::Machines(delays_us);
        let links = Links::start(vec![(public, listens)], delays).unwrap();
        let mut two = TcpStream::connect(reached).unwrap();
        let began = Instant::now();
        let said = hello();
        two.write_all(&said).unwrap();
        let (mut one, _) = own.accept().unwrap();
        let mut heard = vec![0; said.len()];
        one.read_exact(&mut heard).unwrap();
        assert_eq!(heard, said);
        assert!(began.elapsed() >= Duration::from_millis(59), "{:?}", began.elapsed());
        let began = Instant::now();
        one.write_all(b"answer").unwrap();
        let mut heard = [0; 6];
        two.read_exact(&mut heard).unwrap();
        assert!(began.elapsed() >= Duration::from_millis(29), "{:?}", began.elapsed());
        assert_eq!(&heard, b"answer");
        drop(one);
        assert_eq!(two.read(&mut heard).unwrap(), 0, "the other end is closed as well");
        drop(links);
    }

    #[test]
    fn a_line_is_as_long_as_it_was_said_last_and_its_handshake_takes_a_round_trip() {
        let public = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (reached, listens) = (public.local_addr().unwrap(), own.local_addr().unwrap());
        let lines = Lines::new(1);
        lines.set_round_trip(0, 40_000_000);
        let _links = Links::start(vec![(public, listens)], Delays::Lines(lines.clone())).unwrap();
        let began = Instant::now();
        let mut far = TcpStream::connect(reached).unwrap();
        far.write_all(b"x").unwrap();
        let (mut near, _) = own.accept().unwrap();
        let mut heard = [0];
        near.read_exact(&mut heard).unwrap();
        // A round trip for the handshake, and half of one for the message.
        assert!(began.elapsed() >= Duration::from_millis(59), "{:?}", began.elapsed());
        let began = Instant::now();
        far.write_all(b"slow").unwrap();
        std::thread::sleep(Duration::from_millis(5));
        lines.set_round_trip(0, 0);
        far.write_all(b"fast").unwrap();
        let mut heard = [0; 8];
        near.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"slowfast", "nothing overtakes");
        assert!(began.elapsed() >= Duration::from_millis(19), "{:?}", began.elapsed());
        near.write_all(b"y").unwrap();
        let mut heard = [0];
        far.read_exact(&mut heard).unwrap();
    }
}
