//! Requests that are repeated under their number: at once, while the first is in progress, and
//! later.

mod harness;

use harness::{Client, Shape, World, short};

/// Lines that a client sends. The reply to the last line is the request's answer.
const FORMS: &[&str] = &[
    "INCR a",
    "MSET a 1 b 2 c 3",
    "MGET a b c",
    "RENAME x y",
    "COPY x a",
    "SUNIONSTORE d s t",
    "MULTI; INCR a; GET a; EXEC",
    "MULTI; INCR a; INCR b; INCR c; EXEC",
    "MULTI; INCR a; ECHO e; EXEC",
    "MULTI; INCR a; ECHO e; INCR b; EXEC",
    "MULTI; SUNIONSTORE d s t; INCR b; LMOVE l m LEFT RIGHT; EXEC",
    "MULTI; BLPOP l 0; INCR b; EXEC",
    "MULTI; INCR a; PUBLISH news hello; EXEC",
    "MULTI; INCR a; PUBLISH news hello; INCR b; EXEC",
    "MULTI; SUNIONSTORE d s t; PUBLISH news hello; TIME; EXEC",
    "MULTI; PUBLISH news hello; EXEC",
    "PUBLISH news hello",
    "MULTI; LOCK.SECTION {a}l; INCR {a}n; EXEC",
    "LOCK.SECTION {a}l INCR {a}n",
    "MULTI; FENCE {a}l 5; INCR {a}n; GET {a}n; EXEC",
    "LOCK.ACQUIRE k LEASE 60000",
    "LOCK.TRY k LEASE 60000",
    "FLUSHALL",
    "MULTI; FLUSHALL; INCR a; DBSIZE; EXEC",
    "TXN BEGIN BLIND; INCR a; TXN COMMIT",
    "TXN BEGIN BLIND; INCR a; INCR b; INCR c; TXN COMMIT",
    "TXN BEGIN BLIND STRICT; INCR a; INCR b; INCR c; TXN COMMIT",
    "TXN BEGIN BLIND STRICT; INCR a; LPUSH l 5; TXN COMMIT",
    "TXN BEGIN BLIND; GET x; INCR b; SUNIONSTORE d s t; TXN COMMIT",
    "TXN BEGIN BLIND; RENAME x y; INCR b; TXN COMMIT",
    "TXN BEGIN BLIND; TXN COMMIT",
];

/// Forms in which something is read and answered at once: repeated, it may be read differently.
const LOOKS: &[&str] = &[
    "TXN BEGIN BLIND; GET x; INCR b; SUNIONSTORE d s t; TXN COMMIT",
    "TXN BEGIN BLIND; RENAME x y; INCR b; TXN COMMIT",
];

const ANEW: &str = "have answered is not what they answered then";

fn send(world: &mut World, client: Client, form: &str) {
    world.send(client, "CLIENT REQUEST me 1");
    form.split("; ").for_each(|line| world.send(client, line));
}

/// The reply to the last line of a form.
fn answer(world: &mut World, client: Client, form: &str) -> String {
    let replies = world.take(client);
    assert_eq!(replies.len(), 1 + form.split("; ").count(), "{form}: {replies:?}");
    short(replies.last().expect("a reply"))
}

/// The reply to the last line of a form, from a client that repeats the request while told to.
fn settled(world: &mut World, client: Client, form: &str) -> String {
    loop {
        let reply = answer(world, client, form);
        if !reply.starts_with("!TXNABORT") {
            return reply;
        }
        assert!(reply.contains("only the same request number tells"), "{reply}");
        send(world, client, form);
        world.run();
    }
}

fn world(seed: u64) -> (World, Client) {
    let mut world = World::new(Shape { seed, ..Shape::default() });
    let own = world.open(0);
    for line in ["SET x X", "SADD s 1 2", "SADD t 3", "RPUSH l 1 2"] {
        world.call(own, line);
    }
    world.call(own, "SUBSCRIBE news");
    (world, own)
}

/// Whether a form was answered, and the number of its effects.
fn seen(world: &mut World, subscriber: Client) -> (String, usize) {
    let reader = world.open(0);
    let read = ["MGET a b c x y {a}n", "LRANGE l 0 -1", "LRANGE m 0 -1", "SMEMBERS d"];
    let read: Vec<String> = read.iter().map(|line| short(&world.call(reader, line))).collect();
    (read.join("|"), world.take(subscriber).len())
}

#[test]
fn later_changes_do_not_change_the_answer_of_a_repeated_request() {
    // Changes after which the form is impossible, or would have another result.
    let cases = [
        ("TXN BEGIN BLIND STRICT; INCR a; INCR b; TXN COMMIT", "MSET a x b x", "[1 1]"),
        ("TXN BEGIN BLIND STRICT; INCR a; TXN COMMIT", "SET a x", "[1]"),
        ("FLUSHALL", "MSET a 1 b 2 c 3", "OK"),
        ("MULTI; DBSIZE; INCR a; PUBLISH news hello; EXEC", "SUBSCRIBE news", "[4 1 1]"),
    ];
    for (form, line, answered) in cases {
        let (mut world, _) = world(1);
        let (a, b) = (world.open(0), world.open(1));
        send(&mut world, a, form);
        world.run();
        assert_eq!(answer(&mut world, a, form), answered, "{form}");
        world.call(b, line);
        let before = world.call(a, "MGET a b c");
        send(&mut world, a, form);
        world.run();
        assert_eq!(answer(&mut world, a, form), answered, "{form}");
        assert_eq!(world.call(a, "MGET a b c"), before, "{form}");
    }
}

#[test]
fn a_strict_transaction_that_is_not_possible_says_so_under_a_number_too() {
    let (mut world, _) = world(1);
    let a = world.open(0);
    let form = "TXN BEGIN BLIND STRICT; INCR a; INCR x; TXN COMMIT";
    for _ in 0..2 {
        send(&mut world, a, form);
        world.run();
        let reply = answer(&mut world, a, form);
        assert!(reply.starts_with("!EXECABORT ") && reply.contains("not an integer"), "{reply}");
    }
    world.call(a, "SET x 7");
    send(&mut world, a, form);
    world.run();
    assert_eq!(answer(&mut world, a, form), "[1 8]", "it had not taken effect");
}

#[test]
fn a_request_that_is_sent_twice_at_once_is_answered_twice_alike() {
    for form in FORMS {
        for seed in 1..150 {
            let (mut once, subscriber) = world(seed);
            let a = once.open(0);
            send(&mut once, a, form);
            once.run();
            drop(once.take(a));
            let right = seen(&mut once, subscriber);

            let (mut world, subscriber) = world(seed);
            let clients = [world.open(0), world.open(seed as usize % 2)];
            send(&mut world, clients[0], form);
            for _ in 0..seed % 12 {
                world.step();
            }
            send(&mut world, clients[1], form);
            world.run();
            let answers = clients.map(|client| settled(&mut world, client, form));
            let anew = LOOKS.contains(form) && answers.iter().any(|reply| reply.contains(ANEW));
            assert!(anew || answers[0] == answers[1], "{form}, seed {seed}: {answers:?}");
            assert_eq!(seen(&mut world, subscriber), right, "{form}, seed {seed}");
        }
    }
}

#[test]
fn a_request_with_a_broken_connection_is_answered_when_repeated() {
    for form in FORMS {
        for seed in 1..150 {
            let (mut world, subscriber) = world(seed);
            let (a, b) = (world.open(0), world.open(seed as usize % 2));
            send(&mut world, a, form);
            for _ in 0..seed % 24 {
                world.step();
            }
            world.close(a);
            world.run();
            send(&mut world, b, form);
            world.run();
            let first = answer(&mut world, b, form);
            let once = seen(&mut world, subscriber);
            send(&mut world, b, form);
            world.run();
            let again = answer(&mut world, b, form);
            let anew = LOOKS.contains(form) && again.contains(ANEW);
            assert!(anew || again == first, "{form}, seed {seed}: {first}, {again}");
            let expected =
                "!REPEATED this was carried out, and its answer was lost with the connection";
            let alone = form.starts_with("PUBLISH") && first == expected;
            let anew = LOOKS.contains(form) && first.contains(ANEW);
            assert!(alone || anew || !first.starts_with('!'), "{form}, seed {seed}: {first}");
            let twice = seen(&mut world, subscriber);
            assert_eq!((twice.0, twice.1), (once.0, 0), "{form}, seed {seed}");
        }
    }
}
