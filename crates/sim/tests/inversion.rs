//! Real-time order across shards: a transaction that begins after another's answer comes later, on
//! whichever shards the two are, even if a third one is at both. In this case timestamps that
//! shards issue independently are inverted. The checker detects that when shards do not exchange
//! the order.

use adt::Reply;
use sim::lab::{Lab, Order, Plan, Seen};

const MS: u64 = 1_000;
/// Delay between machine 4 and the leader of the first shard.
const FAR_US: u64 = 50 * MS;

/// Three shards with different leaders, and clients at two more machines. Every delay is one
/// millisecond, except between machine 4 and the leader of the first shard.
fn lab(order: Order) -> Lab {
    let holders = vec![vec![1, 2, 3], vec![2, 1, 3], vec![3, 1, 2]];
    let mut delays_us = vec![vec![MS; 5]; 5];
    delays_us[3][0] = FAR_US;
    let mut lab = Lab::new(Plan { holders, delays_us, disk_us: 0, order }).unwrap();
    for machine in [4, 5, 5] {
        lab.connect(machine);
    }
    lab
}

fn words(command: &str) -> Vec<String> {
    command.split(' ').map(str::to_owned).collect()
}

/// Dialogue in the checker's format, of clients that send their commands at once.
struct Story {
    lab: Lab,
    dialogue: String,
    /// Unanswered commands of each client.
    open: [Vec<usize>; 3],
    issued: [usize; 3],
}

impl Story {
    fn send(&mut self, client: usize, commands: &[&str]) {
        for command in commands {
            let place = self.issued[client];
            self.dialogue.push_str(&format!("p{client}#{place} > {command}\n"));
            self.open[client].push(place);
            self.issued[client] += 1;
        }
        self.lab.send(client, commands.iter().map(|command| words(command)).collect());
    }

    /// Next event.
    fn next(&mut self) -> (usize, bool) {
        let until_us = self.lab.now_us() + 10 * FAR_US;
        match self.lab.next(until_us).unwrap().expect("every client is answered") {
            (client, Seen::Woken) => (client, false),
            (client, Seen::Reply(reply)) => {
                let place = self.open[client].remove(0);
                let reply = match reply {
                    Reply::Nil => "nil".to_owned(),
                    Reply::Bulk(text) => String::from_utf8_lossy(&text).into_owned(),
                    _ => "OK".to_owned(),
                };
                self.dialogue.push_str(&format!("p{client}#{place} < {reply}\n"));
                (client, true)
            }
        }
    }

    fn is_over(&self) -> bool {
        self.open.iter().all(Vec::is_empty)
    }
}

/// Runs the case and returns the dialogue. The keys are at shards 0 (`b`), 1 (`c`) and 2 (`a`).
fn dialogue(order: Order) -> String {
    let (dialogue, open, issued) = Default::default();
    let mut story = Story { lab: lab(order), dialogue, open, issued };
    // The first client reads at two shards; the shard of its first read is far away.
    story.send(0, &["get b", "get a"]);
    story.lab.wake_at(1, story.lab.now_us() + 5 * MS);
    while story.next() != (1, false) {}
    // The second one writes the key of the first one's last read, and gets its answer ...
    story.send(1, &["set a 1"]);
    while story.next() != (1, true) {}
    // ... when the third one writes the key of the first one's first read.
    story.send(2, &["set b 2", "set c 2"]);
    while !story.is_over() {
        story.next();
    }
    story.dialogue
}

fn is_linearizable(dialogue: &str) -> bool {
    let history =
        check::dialogue::parse(dialogue).unwrap_or_else(|error| panic!("{error}\n{dialogue}"));
    check::check_all(&history).iter().all(|verdict| verdict.valid)
}

#[test]
fn an_answered_transaction_comes_before_later_ones() {
    for order in [Order::Constant, Order::Chain, Order::Single] {
        let dialogue = dialogue(order);
        assert!(is_linearizable(&dialogue), "{order:?}: {dialogue}");
    }
}

#[test]
fn without_the_hand_over_of_the_order_it_is_the_wrong_way_round() {
    let dialogue = dialogue(Order::None);
    assert!(!is_linearizable(&dialogue), "{dialogue}");
}
