//! The fan-out clients and the real server code on virtual time.

use super::Cell;
use super::callers::Callers;
use super::figures::Figures;
use crate::load::driver::{Fleet, Turn};
use crate::load::resp::Frame;
use crate::load::workload::Workload;
use adt::Reply;
use serde_json::Map;
use sim::lab::{Lab, Order, Plan, Seen};
use std::io;
use wire::resp::{Limits, Parsed, Protocol, RequestDecoder, encode};

/// Longest virtual time of a cell, in microseconds.
const UNTIL_US: u64 = 86_400_000_000;
/// Maximum number of commands that are sent together while data are created.
const TOGETHER_MAX: usize = 500;

/// Clients of a lab.
struct Drive<'l, F> {
    lab: &'l mut Lab,
    fleet: &'l mut F,
    /// Number of replies that each client awaits.
    awaited: Vec<u32>,
    /// Commands that each client sends after its pause.
    held: Vec<Vec<Vec<String>>>,
}

fn commands(bytes: &[u8]) -> io::Result<Vec<Vec<String>>> {
    let (mut decoder, mut at, mut commands) = (RequestDecoder::new(), 0, Vec::new());
    while at < bytes.len() {
        let next = decoder.next(&bytes[at..], &Limits::default()).map_err(io::Error::other)?;
        let Some(Parsed { consumed }) = next else { break };
        if let Some(args) = decoder.args(&bytes[at..]) {
            let text = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
            commands.push(args.iter_from(0).map(text).collect());
        }
        at += consumed;
    }
    Ok(commands)
}

impl<F: Fleet> Drive<'_, F> {
    fn turn(&mut self, client: usize) -> io::Result<()> {
        let mut bytes = Vec::new();
        let now_us = self.lab.now_us();
        let Turn { replies, hold_ns } = self.fleet.turn(client, now_us * 1_000, &mut bytes);
        self.awaited[client] = replies;
        let commands = commands(&bytes)?;
        if hold_ns == 0 {
            self.lab.send(client, commands);
        } else {
            self.held[client] = commands;
            self.lab.wake_at(client, now_us + hold_ns / 1_000);
        }
        Ok(())
    }

    fn run(&mut self) -> io::Result<()> {
        while !self.fleet.is_done() {
            crate::stop::check()?;
            let next = self.lab.next(UNTIL_US).map_err(io::Error::other)?;
            match next {
                Some((client, Seen::Woken)) => {
                    let commands = std::mem::take(&mut self.held[client]);
                    self.lab.send(client, commands);
                }
                Some((client, Seen::Reply(reply))) => {
                    let mut bytes = Vec::new();
                    encode(&reply, Protocol::Resp2, &mut bytes);
                    self.fleet.reply(client, Frame(&bytes)).map_err(io::Error::other)?;
                    self.awaited[client] -= 1;
                    if self.awaited[client] == 0 {
                        self.turn(client)?;
                    }
                }
                None => return Err(io::Error::other("a day of virtual time is over")),
            }
        }
        Ok(())
    }
}

/// Runs a client that creates the data of a cell, until all of it is there.
fn load(lab: &mut Lab, machine: u16, setup: &[Vec<u8>]) -> io::Result<()> {
    let client = lab.connect(machine);
    let off = ["client", "order", "off"].map(str::to_owned).to_vec();
    lab.send(client, vec![off]);
    let mut awaited = 1;
    for chunk in setup.chunks(TOGETHER_MAX) {
        let commands = commands(&chunk.concat())?;
        awaited += commands.len();
        lab.send(client, commands);
        while awaited > 0 {
            crate::stop::check()?;
            match lab.next(UNTIL_US).map_err(io::Error::other)? {
                Some((_, Seen::Reply(Reply::Error(error)))) => {
                    return Err(io::Error::other(format!("{error:?}")));
                }
                Some(_) => awaited -= 1,
                None => return Err(io::Error::other("a day of virtual time is over")),
            }
        }
    }
    Ok(())
}

/// Measures one cell, with data that the `setup` commands create.
///
/// # Errors
/// The simulated cluster fails.
pub fn measure<W: Workload>(
    cell: &Cell<'_>,
    setup: &[Vec<u8>],
    callers: &mut Callers<W>,
) -> io::Result<Figures> {
    let order = Order::named(cell.order).ok_or_else(|| io::Error::other("no such order"))?;
    let plan = Plan {
        holders: cell.topology.holders(cell.shards),
        delays_us: cell.topology.delays_us().to_vec(),
        disk_us: cell.args.disk.as_micros() as u64,
        order,
    };
    let mut lab = Lab::new(plan).map_err(io::Error::other)?;
    let entrances = cell.topology.entrances();
    for client in 0..cell.clients as usize {
        lab.connect(entrances[client % entrances.len()]);
    }
    // The last client sends nothing more.
    if !setup.is_empty() {
        load(&mut lab, entrances[0], setup)?;
    }
    let clients = cell.clients as usize;
    let (awaited, held) = (vec![0; clients], vec![Vec::new(); clients]);
    let mut drive = Drive { lab: &mut lab, fleet: callers, awaited, held };
    drive.fleet.measure(u64::MAX, cell.warmup());
    for client in 0..clients {
        drive.turn(client)?;
    }
    drive.run()?;
    let (began_us, before) = (drive.lab.now_us(), drive.lab.traffic());
    drive.fleet.measure(began_us * 1_000, cell.measured());
    drive.run()?;
    let (ended_us, after) = (drive.lab.now_us(), drive.lab.traffic());
    Ok(Figures {
        elapsed_s: (ended_us - began_us) as f64 / 1e6,
        commands: callers.commands,
        messages: after.messages - before.messages,
        bytes: after.bytes - before.bytes,
        appends: after.entries - before.entries,
        more: Map::new(),
        recorder: callers.recorder.clone(),
    })
}
