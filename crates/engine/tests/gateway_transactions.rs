//! Transactions through gateways and shards, as clients see them.

mod harness;

use engine::limits::REMEMBERED_BYTES_MAX;
use harness::{Shape, World, short, talk, with_client};

#[test]
fn multi_and_exec_as_redis_has_them() {
    with_client(
        "MULTI => OK
         SET a 1 => QUEUED
         INCR b => QUEUED
         MGET a b c => QUEUED
         PING => QUEUED
         SADD a x => QUEUED
         EXEC => [OK 1 [1 1 nil] PONG !WRONGTYPE Operation against a key holding the wrong kind of value]
         EXEC => !ERR EXEC without MULTI
         DISCARD => !ERR DISCARD without MULTI
         MULTI => OK
         MULTI => !ERR MULTI calls can not be nested
         WATCH a => !ERR WATCH inside MULTI is not allowed
         GET => !ERR wrong number of arguments for 'get' command
         EXEC => !EXECABORT Transaction discarded because of previous errors.
         MULTI => OK
         SET a 2 => QUEUED
         DISCARD => OK
         GET a => 1
         MULTI => OK
         EXEC => []
         MULTI => OK
         SET x 1 NX XX => QUEUED
         SET y 1 => QUEUED
         EXEC => [!ERR syntax error OK]
         MULTI => OK
         RENAME y z => QUEUED
         GET z => QUEUED
         RENAME z w => QUEUED
         RENAME nothing w => QUEUED
         RPUSH l 1 => QUEUED
         BLPOP k l 0 => QUEUED
         BLPOP k l 0 => QUEUED
         MGET z w => QUEUED
         EXEC => [OK 1 OK !ERR no such key 1 [l 1] nilarray [nil 1]]
         EXISTS l => 0",
    );
}

#[test]
fn watch_stops_exec_when_a_key_changed() {
    let (mut world, a) = with_client(
        "SET k 1 => OK
         WATCH k other => OK
         MULTI => OK
         SET m 1 => QUEUED",
    );
    let b = world.open(1);
    assert_eq!(short(&world.call(b, "SET k 2")), "OK");
    assert_eq!(short(&world.call(a, "EXEC")), "nilarray");
    talk(
        &mut world,
        a,
        "GET m => nil
         WATCH k other => OK
         MULTI => OK
         SET m 1 => QUEUED
         EXEC => [OK]
         WATCH k => OK
         SET k 3 => OK
         UNWATCH => OK
         MULTI => OK
         GET k => QUEUED
         EXEC => [3]
         WATCH nothing k => OK
         MULTI => OK
         EXEC => []",
    );
    // Only guards, of which one fails.
    talk(&mut world, a, "WATCH k m => OK\nMULTI => OK");
    world.call(b, "DEL m");
    assert_eq!(short(&world.call(a, "EXEC")), "nilarray");
}

#[test]
fn interactive_transactions() {
    let (mut world, a) = with_client(
        "SET a 1 => OK
         TXN BEGIN => OK
         GET a => 1
         INCR a => 2
         GET a => 2
         RPUSH l x y => 2
         LPOP l => x
         RENAME a b => OK
         MGET a b => [nil 2]
         MULTI => !ERR 'multi' is not allowed inside a TXN transaction
         TXN BEGIN => !ERR TXN calls can not be nested",
    );
    let b = world.open(1);
    // Nothing is visible before the commit.
    assert_eq!(short(&world.call(b, "GET a")), "1");
    talk(
        &mut world,
        a,
        "TXN COMMIT => []
         MGET a b => [nil 2]
         LRANGE l 0 -1 => [y]
         TXN BEGIN BLIND => OK
         INCR b => QUEUED
         SET c 9 => QUEUED
         GET b => 3
         DEL b c nothing => QUEUED
         EXISTS b => 0
         TXN COMMIT => [3 OK 2]
         TXN BEGIN => OK
         SET a 7 => OK
         TXN ABORT => OK
         GET a => nil
         TXN COMMIT => !ERR TXN COMMIT without TXN BEGIN
         TXN BEGIN READONLY => OK
         SET a 1 => !ERR 'set' can write, and this transaction is READONLY
         MGET a b l => [nil nil nil]
         LLEN l => 1
         TXN COMMIT => []",
    );
}

#[test]
fn a_reader_that_falls_behind_is_refused_and_keeps_its_age() {
    let (mut world, a) = with_client("MSET x 1 y 1 => OK\nTXN BEGIN READONLY => OK\nGET x => 1");
    let b = world.open(1);
    assert_eq!(short(&world.call(b, "MSET x 2 y 2")), "OK");
    let reply = short(&world.call(a, "GET y"));
    assert!(reply.starts_with("!TXNABORT the transaction was aborted because what it had read"));
    assert!(short(&world.call(a, "GET y")).starts_with("!TXNABORT"));
    assert!(short(&world.call(a, "TXN COMMIT")).starts_with("!TXNABORT"));
    talk(
        &mut world,
        a,
        "TXN BEGIN READONLY => OK
         GET x => 2",
    );
    // Of a record that was read in this way before there are earlier versions.
    world.call(b, "SET y 3");
    talk(&mut world, a, "GET y => 2");
    // An earlier read that is still valid extends further.
    talk(&mut world, a, "TXN COMMIT => []\nTXN BEGIN READONLY => OK\nGET x => 2");
    world.call(b, "SET z 3");
    talk(&mut world, a, "GET z => 3\nTXN COMMIT => []");
}

#[test]
fn an_older_transaction_makes_a_younger_one_give_way() {
    let mut world = World::new(Shape::default());
    let (old, young) = (world.open(0), world.open(1));
    talk(&mut world, old, "TXN BEGIN => OK\nGET a => nil");
    talk(&mut world, young, "TXN BEGIN => OK\nGET b => nil");
    // Each writes a record that the other has read.
    world.send(young, "SET a 1");
    world.run();
    assert!(world.take(young).is_empty());
    assert_eq!(short(&world.call(old, "SET b 1")), "OK");
    let replies = world.take(young);
    assert!(short(&replies[0]).starts_with("!TXNABORT"), "{replies:?}");
    assert_eq!(short(&world.call(old, "TXN COMMIT")), "[]");
    talk(
        &mut world,
        young,
        "TXN ABORT => OK
         TXN BEGIN => OK
         GET b => 1
         SET a 2 => OK
         TXN COMMIT => []",
    );
    let stats = world.gateways[1].stats();
    assert_eq!((stats.aborted, stats.committed, stats.interactive), (1, 1, 0));
}

#[test]
fn a_request_number_takes_effect_once() {
    let (mut world, a) = with_client(
        "CLIENT REQUEST me 1 => OK
         INCR n => 1
         INCR n => 2
         CLIENT REQUEST me 1 => OK
         INCR n => 1
         GET n => 2
         CLIENT REQUEST me 2 => OK
         MULTI => OK
         INCR n => QUEUED
         EXEC => [3]
         CLIENT REQUEST me 2 => OK
         MULTI => OK
         INCR n => QUEUED
         EXEC => [3]
         GET n => 3
         CLIENT REQUEST me 3 => OK
         TXN BEGIN BLIND => OK
         INCR n => QUEUED
         TXN COMMIT => [4]",
    );
    talk(
        &mut world,
        a,
        "CLIENT REQUEST me 3 => OK
         TXN BEGIN BLIND => OK
         INCR n => QUEUED
         TXN COMMIT => [4]
         GET n => 4",
    );
}

#[test]
fn a_repeated_request_of_any_form_has_the_same_answer() {
    let (mut world, a) = with_client("SET x X => OK\nSADD s 1 2 => 2\nRPUSH l 1 2 => 2");
    let forms = [
        "MULTI => OK
         INCR a => QUEUED
         ECHO e => QUEUED
         INCR b => QUEUED
         EXEC => [1 e 1]",
        "RENAME x y => OK",
        "SUNIONSTORE d s t => 2",
        "MULTI => OK
         SUNIONSTORE t s => QUEUED
         INCR b => QUEUED
         LMOVE l m LEFT RIGHT => QUEUED
         EXEC => [2 2 1]",
        "TXN BEGIN BLIND => OK
         INCR a => QUEUED
         INCR b => QUEUED
         TXN COMMIT => [2 3]",
        "RENAME x y => !ERR no such key",
        "MSET a 7 b 8 => OK",
    ];
    for (number, form) in forms.iter().enumerate() {
        for _ in 0..3 {
            talk(&mut world, a, &format!("CLIENT REQUEST me {number} => OK\n{form}"));
        }
    }
    talk(&mut world, a, "MGET a b y => [7 8 X]\nLRANGE l 0 -1 => [2]\nSMEMBERS d => [1 2]");
}

#[test]
fn a_repeated_transaction_reports_that_its_values_are_lost() {
    let (mut world, a) = with_client(
        "CLIENT REQUEST me 1 => OK
         TXN BEGIN => OK
         INCR a => 1
         INCR b => 1
         TXN COMMIT => []
         CLIENT REQUEST me 1 => OK
         TXN BEGIN => OK
         INCR a => 2",
    );
    let reply = short(&world.call(a, "TXN COMMIT"));
    let repeated = "!REPEATED this request number took effect before, at ";
    assert!(reply.starts_with(repeated) && reply.contains("answered is not"), "{reply}");
    talk(&mut world, a, "MGET a b => [1 1]");
}

#[test]
fn replies_that_are_too_long_to_be_kept_are_said_to_be_lost() {
    // The bytes around a reply are fewer than this.
    for (bytes, kept) in [(REMEMBERED_BYTES_MAX - 1024, true), (REMEMBERED_BYTES_MAX, false)] {
        let (mut world, a) = with_client("SET b 0 => OK");
        world.call(a, &format!("SET a {}", "x".repeat(bytes)));
        let replies = [(), ()].map(|()| {
            let begin = "CLIENT REQUEST me 1 => OK\nMULTI => OK\nGET a => QUEUED\nINCR b => QUEUED";
            talk(&mut world, a, begin);
            short(&world.call(a, "EXEC"))
        });
        assert!(replies[0].ends_with(" 1]"));
        assert_eq!(replies[0] == replies[1], kept);
        assert!(kept || replies[1].contains("REPEATED this request number took effect before"));
        talk(&mut world, a, "GET b => 1");
    }
}

#[test]
fn a_refused_command_ends_a_blind_transaction() {
    let discarded = "!EXECABORT Transaction discarded because of previous errors.";
    for wrong in [
        "SET b => !ERR wrong number of arguments for 'set' command",
        "INCRBY n x => !ERR value is not an integer or out of range",
        "FLUSHALL => !ERR 'flushall' is not allowed inside a TXN transaction",
    ] {
        let (mut world, client) = with_client(&format!(
            "TXN BEGIN BLIND => OK
             SET a 1 => QUEUED
             {wrong}
             SET c 1 => {discarded}
             TXN COMMIT => {discarded}
             MGET a b c => [nil nil nil]"
        ));
        talk(
            &mut world,
            client,
            "TXN BEGIN => OK
             SET a 1 => OK
             SET b => !ERR wrong number of arguments for 'set' command
             TXN COMMIT => []
             GET a => 1",
        );
    }
}

#[test]
fn members_that_a_transaction_has_popped_are_gone_after_it() {
    let (mut world, a) = with_client("SADD s a b c d e f g h i j k l => 12");
    for left in (0..12).rev() {
        talk(&mut world, a, "TXN BEGIN => OK");
        let drawn = short(&world.call(a, "SPOP s"));
        let seen = format!("SISMEMBER s {drawn} => 0\nSCARD s => {left}");
        talk(&mut world, a, &format!("{seen}\nTXN COMMIT => []\n{seen}"));
    }
    talk(
        &mut world,
        a,
        "SET x 1 => OK
         TXN BEGIN => OK
         SPOP s => nil
         SPOP s 2 => []
         SADD s a => 1
         SPOP s 9 => [a]
         SPOP x => !WRONGTYPE Operation against a key holding the wrong kind of value
         TXN COMMIT => []
         EXISTS s => 0",
    );
}
