//! Sections: acquisition, action and release of a lock in one request (`LOCK.SECTION`).
//!
//! Each client increments a counter under the lock, and again as soon as it is answered. Every
//! number must be returned exactly once: a section that was not carried out alone, or was carried
//! out twice, would show.

use crate::coordination::operations::Timed;
use crate::load::resp::{Frame, command, frame_len};
use crate::load::stream::Stream;
use crate::stop;
use mio::{Events, Poll, Token};
use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use wire::resp::ClientReply;

/// Name in rows.
pub const NAME: &str = "section";

const READ_BYTES: usize = 16 << 10;
/// Longest sleep, so that Ctrl-C is noticed.
const IDLE: Duration = Duration::from_millis(100);

struct Client {
    stream: Stream,
    /// Time of its section's request.
    asked: Option<Instant>,
}

/// Connections to the Redis port, one for each client, each with one request at a time.
pub(in crate::coordination) struct Run {
    poll: Poll,
    events: Events,
    clients: Vec<Client>,
    scratch: Vec<u8>,
}

impl Run {
    /// Connects, and waits until all are answered.
    pub fn connect(entrances: &[SocketAddr]) -> io::Result<Self> {
        let poll = Poll::new()?;
        let dial = |(number, at): (usize, &SocketAddr)| {
            Ok(Client { stream: Stream::dial(*at, &poll, Token(number))?, asked: None })
        };
        let clients = entrances.iter().enumerate().map(dial).collect::<io::Result<Vec<_>>>()?;
        let (events, scratch) = (Events::with_capacity(1024), vec![0; READ_BYTES]);
        let mut run = Self { poll, events, clients, scratch };
        for number in 0..entrances.len() {
            run.say(number, &[b"PING"])?;
        }
        let mut greeted = 0;
        while greeted < entrances.len() {
            greeted += run.hear()?.len();
        }
        Ok(run)
    }

    /// Sends a command for a client.
    pub fn say(&mut self, number: usize, words: &[&[u8]]) -> io::Result<()> {
        let client = &mut self.clients[number];
        command(&mut client.stream.out, words);
        client.asked = Some(Instant::now());
        client.stream.flush()
    }

    /// Closes the connections.
    pub fn end(&mut self) {
        self.clients.iter().for_each(|client| client.stream.end());
    }

    /// Waits for replies, and returns them with the numbers of their clients.
    pub fn hear(&mut self) -> io::Result<Vec<(usize, ClientReply)>> {
        stop::check()?;
        match self.poll.poll(&mut self.events, Some(IDLE)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(Vec::new()),
            other => other?,
        }
        let mut replies = Vec::new();
        for event in &self.events {
            let Token(number) = event.token();
            let stream = &mut self.clients[number].stream;
            if event.is_writable() {
                stream.flush()?;
            }
            while event.is_readable()
                && let Some(read) = stream.read(&mut self.scratch)?
            {
                stream.input.extend_from_slice(&self.scratch[..read]);
            }
            while let Some(len) = frame_len(&stream.input).map_err(io::Error::other)? {
                replies.push((number, Frame(&stream.input[..len]).decode()));
                stream.input.drain(..len);
            }
        }
        Ok(replies)
    }
}

/// Carries out `count` sections on an unused lock, with clients that connect here.
///
/// # Errors
/// A server cannot be reached, or sends an invalid answer.
pub fn run(entrances: &[SocketAddr], node: &str, count: usize) -> io::Result<Timed> {
    let mut run = Run::connect(entrances)?;
    let (lock, counter) = (format!("{{{node}}}"), format!("{{{node}}}:count"));
    let section: [&[u8]; 4] = [b"LOCK.SECTION", lock.as_bytes(), b"INCR", counter.as_bytes()];
    let begin = Instant::now();
    let mut asked = entrances.len().min(count);
    for number in 0..asked {
        run.say(number, &section)?;
    }
    let (mut latency_ns, mut numbers) = (Vec::with_capacity(count), BTreeSet::new());
    while latency_ns.len() < count {
        for (number, reply) in run.hear()? {
            let took = run.clients[number].asked.map(|asked| asked.elapsed());
            latency_ns.push(took.unwrap_or_default().as_nanos() as u64);
            match reply {
                ClientReply::Int(one) if numbers.insert(one) => {}
                other => {
                    return Err(io::Error::other(format!(
                        "an unexpected answer to a section: {other:?}"
                    )));
                }
            }
            if asked < count {
                asked += 1;
                run.say(number, &section)?;
            }
        }
    }
    let elapsed_ns = begin.elapsed().as_nanos() as u64;
    run.end();
    if !numbers.iter().copied().eq(1..=count as i64) {
        return Err(io::Error::other("sections did not count up one by one"));
    }
    Ok(Timed { elapsed_ns, latency_ns })
}
