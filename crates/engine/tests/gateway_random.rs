//! Many clients move money between accounts on several shards, by every kind of transaction, while
//! the network delays messages at random. A client that reads all accounts together sees the same
//! sum.

mod harness;

use adt::Reply;
use engine::message::Concurrency;
use harness::{Client, Shape, World, short};

const ACCOUNTS: usize = 6;
const START: i64 = 100;

/// Script of a client, one line after the other. `{}` stands for a value computed before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Script {
    /// `EXEC` of two increments.
    OneShot,
    /// Reads two balances, writes two.
    Interactive,
    /// Two void increments.
    Blind,
    /// Reads one balance and increments blindly.
    Mixed,
    /// `WATCH`, reads, `EXEC`.
    Watching,
    /// Reads everything at once.
    Look,
    /// Reads one by one in a read-only transaction.
    LookReadOnly,
    /// Reads one by one under locks.
    LookLocked,
    /// Reads by `EXEC`.
    LookExec,
}

const ALL: [Script; 9] = [
    Script::OneShot,
    Script::Interactive,
    Script::Blind,
    Script::Mixed,
    Script::Watching,
    Script::Look,
    Script::LookReadOnly,
    Script::LookLocked,
    Script::LookExec,
];

struct Player {
    client: Client,
    script: Script,
    from: usize,
    to: usize,
    step: usize,
    seen: Vec<i64>,
    finished: usize,
    aborted: usize,
    /// Steps of the world until the client goes on: it waits a little after an abort.
    pause: usize,
}

fn int(reply: &Reply) -> i64 {
    match reply {
        Reply::Bulk(b) => std::str::from_utf8(b).unwrap().parse().unwrap(),
        Reply::Int(n) => *n,
        other => panic!("a number: {other:?}"),
    }
}

fn account(i: usize) -> String {
    format!("account:{i}")
}

impl Player {
    /// The next line, or none when the script is finished.
    fn line(&self) -> Option<String> {
        let (a, b) = (account(self.from), account(self.to));
        let all = (0..ACCOUNTS).map(account).collect::<Vec<_>>().join(" ");
        let balance = |i: usize, by: i64| self.seen.get(i).map_or(0, |n| n + by);
        let lines = match self.script {
            Script::OneShot => vec![
                "MULTI".into(),
                format!("INCRBY {a} -1"),
                format!("INCRBY {b} 1"),
                "EXEC".into(),
            ],
            Script::Interactive => vec![
                "TXN BEGIN".into(),
                format!("GET {a}"),
                format!("GET {b}"),
                format!("SET {a} {}", balance(0, -1)),
                format!("SET {b} {}", balance(1, 1)),
                "TXN COMMIT".into(),
            ],
            Script::Blind => vec![
                "TXN BEGIN BLIND".into(),
                format!("INCRBY {a} -1"),
                format!("INCRBY {b} 1"),
                "TXN COMMIT".into(),
            ],
            Script::Mixed => vec![
                "TXN BEGIN BLIND".into(),
                format!("GET {a}"),
                format!("INCRBY {b} 1"),
                format!("SET {a} {}", balance(0, -1)),
                "TXN COMMIT".into(),
            ],
            Script::Watching => vec![
                format!("WATCH {a} {b}"),
                format!("GET {a}"),
                format!("GET {b}"),
                "MULTI".into(),
                format!("SET {a} {}", balance(0, -1)),
                format!("SET {b} {}", balance(1, 1)),
                "EXEC".into(),
            ],
            Script::Look => vec![format!("MGET {all}")],
            Script::LookReadOnly | Script::LookLocked => {
                let option = if self.script == Script::LookReadOnly { " READONLY" } else { "" };
                let mut lines = vec![format!("TXN BEGIN{option}")];
                lines.extend((0..ACCOUNTS).map(|i| format!("GET {}", account(i))));
                lines.push("TXN COMMIT".into());
                lines
            }
            Script::LookExec => vec!["MULTI".into(), format!("MGET {all}"), "EXEC".into()],
        };
        lines.get(self.step).cloned()
    }

    /// Takes a reply and selects the next line.
    fn hear(&mut self, reply: &Reply) {
        if let Reply::Error(error) = reply {
            assert!(["TXNABORT", "BUSY"].contains(&error.code()), "{:?} {error}", self.script);
            self.aborted += 1;
            // The next BEGIN ends the aborted transaction.
            (self.step, self.seen) = (0, Vec::new());
            return;
        }
        if *reply == Reply::NilArray {
            (self.step, self.seen) = (0, Vec::new());
            self.aborted += 1;
            return;
        }
        let line = self.line().expect("a reply to a line");
        if line.starts_with("GET") && *reply != Reply::status("QUEUED") {
            self.seen.push(int(reply));
        }
        let all = match (self.script, reply) {
            (Script::Look, Reply::Array(items)) => Some(items),
            (Script::LookExec, Reply::Array(items)) => match items.first() {
                Some(Reply::Array(items)) => Some(items),
                _ => None,
            },
            _ => None,
        };
        if let Some(items) = all {
            self.seen = items.iter().map(int).collect();
        }
        self.step += 1;
        let looked = matches!(
            self.script,
            Script::Look | Script::LookExec | Script::LookReadOnly | Script::LookLocked
        );
        if self.line().is_none() && looked {
            let sum: i64 = self.seen.iter().sum();
            assert_eq!(sum, ACCOUNTS as i64 * START, "{:?} saw {:?}", self.script, self.seen);
        }
    }
}

fn play(shape: Shape, rounds: usize) -> (World, usize) {
    let mut world = World::new(shape);
    let first = world.open(0);
    for i in 0..ACCOUNTS {
        world.call(first, &format!("SET {} {START}", account(i)));
    }
    let mut players: Vec<Player> = (0..12)
        .map(|i| Player {
            client: world.open(i % usize::from(shape.gateways)),
            script: ALL[i % ALL.len()],
            from: 0,
            to: 1,
            step: 0,
            seen: Vec::new(),
            finished: 0,
            aborted: 0,
            pause: 0,
        })
        .collect();
    for player in &mut players {
        let line = player.line().expect("a first line");
        world.send(player.client, &line);
    }
    let (mut quiet, mut finished) = (0, 0);
    while players.iter().any(|p| p.finished < rounds) {
        let mut any_reply = false;
        for player in &mut players {
            if player.pause > 0 {
                player.pause -= 1;
                any_reply = true;
                if player.pause == 0 {
                    let line = player.line().expect("a first line");
                    world.send(player.client, &line);
                }
                continue;
            }
            let Some(reply) = world.next_reply(player.client) else { continue };
            any_reply = true;
            let aborted = player.aborted;
            player.hear(&reply);
            if player.aborted > aborted {
                player.pause = 1 + world
                    .random(100 << (player.aborted - player.finished.min(player.aborted)).min(5));
                continue;
            }
            if player.line().is_none() {
                player.finished += 1;
                player.script = ALL[world.random(ALL.len())];
                player.from = world.random(ACCOUNTS);
                player.to = (player.from + 1 + world.random(ACCOUNTS - 1)) % ACCOUNTS;
                (player.step, player.seen) = (0, Vec::new());
            }
            let line = player.line().expect("a next line");
            world.send(player.client, &line);
        }
        let now_finished = players.iter().map(|p| p.finished).sum::<usize>();
        quiet = if now_finished > finished { 0 } else { quiet + 1 };
        finished = now_finished;
        assert!(quiet < 20_000, "no client makes progress: {:#?}", stuck(&players));
        if !world.step() && !any_reply {
            world.advance(10_000);
        }
    }
    // Some clients are in the middle of scripts that they have begun since.
    players.iter().for_each(|player| world.close(player.client));
    let aborted = players.iter().map(|p| p.aborted).sum();
    (world, aborted)
}

fn stuck(players: &[Player]) -> Vec<String> {
    let about = |p: &Player| {
        format!("{:?} at {} after {}, aborted {}", p.script, p.step, p.finished, p.aborted)
    };
    players.iter().map(about).collect()
}

#[test]
fn the_sum_is_always_the_same() {
    for seed in 1..=12 {
        play(Shape { seed, ..Shape::default() }, 15);
    }
}

#[test]
fn every_condition_keeps_transactions_apart() {
    for name in Concurrency::NAMES.iter().filter(|name| **name != "none") {
        let concurrency = Concurrency::named(name).expect("a known name");
        for seed in 1..=2 {
            play(Shape { seed, concurrency, ..Shape::default() }, 8);
        }
    }
}

#[test]
fn one_gateway_shares_locks_between_its_transactions() {
    let mut combined = 0;
    for seed in 1..=5 {
        let (world, _) = play(Shape { seed, gateways: 1, shards: 2, ..Shape::default() }, 15);
        combined += world.gateways[0].stats().combined;
    }
    assert!(combined > 0);
}

#[test]
fn nothing_is_left_when_all_have_gone() {
    for seed in 1..=8 {
        let (mut world, _) = play(Shape { seed, ..Shape::default() }, 5);
        world.run();
        let client = world.open(0);
        let info = short(&world.call(client, "INFO"));
        assert!(info.contains("keyspace") || info.contains("Keyspace"), "{info}");
        for shard in &world.shards {
            assert_eq!(shard.stats(0).prepared, 0, "seed {seed}");
        }
    }
}
