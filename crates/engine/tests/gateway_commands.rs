//! Commands through gateways and shards, as clients see them.

mod harness;

use harness::{Shape, World, short, talk, with_client};

#[test]
fn single_and_multi_key_commands() {
    with_client(
        "SET a 1 => OK
         GET a => 1
         GET nothing => nil
         MSET a 1 b 2 c 3 d 4 => OK
         MGET a b c d e => [1 2 3 4 nil]
         DEL a c e => 2
         EXISTS a b c d b => 3
         INCR b => 3
         SADD b x => !WRONGTYPE Operation against a key holding the wrong kind of value
         GET => !ERR wrong number of arguments for 'get' command
         nonsense a b => !ERR unknown command 'nonsense', with args beginning with: 'a' 'b'
         DBSIZE => 2
         FLUSHALL => OK
         DBSIZE => 0",
    );
}

#[test]
fn compound_commands_read_and_write_over_shards() {
    with_client(
        "SET a 1 => OK
         RENAME a b => OK
         GET a => nil
         GET b => 1
         RENAME a b => !ERR no such key
         COPY b c => 1
         COPY b c => 0
         MGET b c => [1 1]
         RPUSH l 1 2 3 => 3
         LMOVE l m LEFT RIGHT => 1
         LMOVE l m LEFT RIGHT => 2
         LRANGE m 0 -1 => [1 2]
         SADD s x y => 2
         SADD t y z => 2
         SINTERSTORE u s t => 1
         SMEMBERS u => [y]
         SMOVE s t x => 1
         SCARD t => 3",
    );
}

#[test]
fn a_pipeline_is_answered_in_order() {
    for seed in 0..30 {
        let mut world = World::new(Shape { seed, ..Shape::default() });
        let client = world.open(0);
        let lines = [
            "SET a 1",
            "GET a",
            "INCR a",
            "GET a",
            "MSET a 5 b 6 c 7",
            "MGET a b c",
            "GET b",
            "RENAME a d",
            "EXISTS a d",
            "MULTI",
            "INCR d",
            "GET c",
            "EXEC",
            "WATCH d",
            "MULTI",
            "INCR d",
            "EXEC",
            "PING",
            "BLPOP l m 0.01",
            "GET d",
            "DBSIZE",
            "nonsense",
            "TIME x",
            "DEL a b c d",
            "GET d",
        ];
        for line in lines {
            world.send(client, line);
        }
        world.run();
        world.advance(20_000);
        world.run();
        let replies: Vec<String> = world.take(client).iter().map(short).collect();
        let expected = [
            "OK",
            "1",
            "2",
            "2",
            "OK",
            "[5 6 7]",
            "6",
            "OK",
            "1",
            "OK",
            "QUEUED",
            "QUEUED",
            "[6 7]",
            "OK",
            "OK",
            "QUEUED",
            "[7]",
            "PONG",
            "nilarray",
            "7",
            "3",
            "!ERR unknown command 'nonsense', with args beginning with: ",
            "!ERR wrong number of arguments for 'time' command",
            "3",
            "nil",
        ];
        assert_eq!(replies, expected, "seed {seed}");
    }
}

#[test]
fn blocking_pops_wait_for_their_turn() {
    let mut world = World::new(Shape::default());
    let waiters: Vec<_> = (0..3).map(|g| world.open(g % 2)).collect();
    for &waiter in &waiters {
        world.send(waiter, "BLPOP other list 0");
        world.send(waiter, "PING");
        world.run();
        assert!(world.take(waiter).is_empty());
    }
    let giver = world.open(1);
    assert_eq!(short(&world.call(giver, "RPUSH list 1 2")), "2");
    let replies: Vec<Vec<String>> =
        waiters.iter().map(|w| world.take(*w).iter().map(short).collect()).collect();
    assert_eq!(replies, [vec!["[list 1]", "PONG"], vec!["[list 2]", "PONG"], vec![]]);
    world.call(giver, "RPUSH other 3");
    assert_eq!(short(&world.take(waiters[2])[0]), "[other 3]");

    // Moves, time-outs, CLIENT UNBLOCK, and a closed connection.
    world.send(waiters[0], "BLMOVE src dst LEFT RIGHT 0");
    world.run();
    world.call(giver, "RPUSH src z");
    assert_eq!(short(&world.take(waiters[0])[0]), "z");
    assert_eq!(short(&world.call(giver, "LRANGE dst 0 -1")), "[z]");
    world.send(waiters[0], "BLPOP src 1.5");
    world.run();
    assert!(world.take(waiters[0]).is_empty());
    world.advance(1_500_000);
    world.run();
    assert_eq!(short(&world.take(waiters[0])[0]), "nilarray");
    let number = short(&world.call(waiters[1], "CLIENT ID"));
    world.send(waiters[1], "BLPOP src 0");
    world.run();
    assert_eq!(short(&world.call(giver, &format!("CLIENT UNBLOCK {number} ERROR"))), "1");
    let reply = short(&world.take(waiters[1])[0]);
    assert_eq!(reply, "!UNBLOCKED client unblocked via CLIENT UNBLOCK");
    world.send(waiters[2], "BLPOP src 0");
    world.run();
    world.close(waiters[2]);
    // Until the shard has learned of it, it may take the element for the client that has left, as
    // Redis may until it has read the end of the connection.
    world.run();
    assert_eq!(short(&world.call(giver, "RPUSH src left")), "1");
    assert_eq!(short(&world.call(giver, "LRANGE src 0 -1")), "[left]");
    assert_eq!(world.gateways[0].stats().blocked + world.gateways[1].stats().blocked, 0);
}

#[test]
fn sharded_channels_have_messages_of_their_own() {
    let mut world = World::new(Shape::default());
    let (a, b, p) = (world.open(0), world.open(1), world.open(1));
    world.send(a, "SSUBSCRIBE news sport");
    world.send(b, "PSUBSCRIBE *");
    world.run();
    let confirmed: Vec<String> = world.take(a).iter().map(short).collect();
    assert_eq!(confirmed, ["[ssubscribe news 1]", "[ssubscribe sport 2]"]);
    world.take(b);
    talk(
        &mut world,
        p,
        "SPUBLISH news hi => 1
         PUBLISH news all => 1
         PUBSUB CHANNELS => []
         PUBSUB SHARDCHANNELS s* => [sport]
         PUBSUB SHARDNUMSUB news x => [news 1 x 0]
         PUBSUB NUMSUB news => [news 0]
         MULTI => OK
         SPUBLISH sport again => QUEUED
         EXEC => [1]",
    );
    let received: Vec<String> = world.take(a).iter().map(short).collect();
    assert_eq!(received, ["[smessage news hi]", "[smessage sport again]"]);
    assert_eq!(short(&world.take(b)[0]), "[pmessage * news all]");
    let reply = short(&world.call(a, "GET k"));
    assert!(reply.starts_with("!ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{reply}");
    world.send(a, "SUNSUBSCRIBE");
    world.run();
    let ended: Vec<String> = world.take(a).iter().map(short).collect();
    assert_eq!(ended, ["[sunsubscribe news 1]", "[sunsubscribe sport 0]"]);
    talk(&mut world, a, "GET k => nil");
}

#[test]
fn publishing_reaches_subscribers_of_all_gateways() {
    let mut world = World::new(Shape::default());
    let (a, b) = (world.open(0), world.open(1));
    world.send(a, "SUBSCRIBE news sport");
    world.send(b, "PSUBSCRIBE n*");
    world.run();
    let confirmed: Vec<String> = world.take(a).iter().map(short).collect();
    assert_eq!(confirmed, ["[subscribe news 1]", "[subscribe sport 2]"]);
    assert_eq!(short(&world.take(b)[0]), "[psubscribe n* 1]");
    let p = world.open(1);
    talk(
        &mut world,
        p,
        "PUBLISH news hi => 2
         PUBLISH weather hi => 0
         PUBSUB CHANNELS => [news sport]
         PUBSUB NUMSUB news x => [news 1 x 0]
         PUBSUB NUMPAT => 1
         MULTI => OK
         SET k 1 => QUEUED
         PUBLISH news again => QUEUED
         EXEC => [OK 2]",
    );
    assert_eq!(short(&world.take(a)[0]), "[message news hi]");
    assert_eq!(short(&world.take(b)[1]), "[pmessage n* news again]");
    let reply = short(&world.call(a, "GET k"));
    assert!(reply.starts_with("!ERR Can't execute 'get': only (P|S)SUBSCRIBE"), "{reply}");
    assert_eq!(short(&world.call(a, "PING x")), "[pong x]");
    assert_eq!(short(&world.call(a, "RESET")), "RESET");
    talk(&mut world, a, "GET k => 1");
}

#[test]
fn scan_goes_through_all_shards() {
    let mut world = World::new(Shape::default());
    let client = world.open(0);
    for i in 0..50 {
        world.call(client, &format!("SET key:{i} v"));
    }
    world.call(client, "SADD set x");
    for (options, expected) in [("", 51), ("MATCH key:1*", 11), ("TYPE set", 1), ("COUNT 100", 51)]
    {
        let (mut cursor, mut found, mut steps) = ("0".to_owned(), 0, 0);
        loop {
            let reply = world.call(client, &format!("SCAN {cursor} {options}"));
            let adt::Reply::Array(parts) = reply else { panic!("{reply:?}") };
            let adt::Reply::Array(keys) = &parts[1] else { panic!("keys") };
            (cursor, found, steps) = (short(&parts[0]), found + keys.len(), steps + 1);
            if cursor == "0" {
                break;
            }
        }
        assert_eq!(found, expected, "{options}");
        // A page that has room for all keys visits all shards.
        assert!(if options == "COUNT 100" { steps == 1 } else { steps >= 3 }, "{options}");
    }
    assert!(short(&world.call(client, "KEYS key:1?")).split(' ').count() == 10);
    assert!(short(&world.call(client, "RANDOMKEY")).contains(['k', 's']));
    assert_eq!(short(&world.call(client, "SCAN x")), "!ERR invalid cursor");
}

#[test]
fn connections_have_names_and_users() {
    let mut world = World::new(Shape::default());
    let a = world.open(0);
    talk(
        &mut world,
        a,
        "CLIENT SETNAME web => OK
         CLIENT GETNAME => web
         CLIENT ID => 1
         CLIENT NO-EVICT ON => OK
         CLIENT CAPA redirect => !ERR unknown subcommand 'CAPA': CLIENT CAPA is not built in \
         Claret: see docs/guide/differences.md
         SELECT 0 => OK
         SELECT 15 => OK
         SELECT 16 => !ERR DB index is out of range
         SELECT -1 => !ERR DB index is out of range
         ECHO hello => hello
         CONFIG GET max* => Map([(Bulk(\"maxmemory\"), Bulk(\"0\"))])
         CONFIG SET maxmemory 1 => OK
         CLUSTER KEYSLOT foo => 12182
         WAIT 1 0 => 0
         AUTH ann wrong => !WRONGPASS invalid username-password pair or user is disabled.
         AUTH nobody secret => !WRONGPASS invalid username-password pair or user is disabled.
         SET a1 1 => OK
         AUTH ann secret => OK
         ACL WHOAMI => !NOPERM User ann has no permissions to run the 'acl|whoami' command
         GET a1 => 1
         GET b1 => !NOPERM No permissions to access a key
         SET a1 1 => !NOPERM User ann has no permissions to run the 'set' command
         MULTI => OK
         SET a1 1 => !NOPERM User ann has no permissions to run the 'set' command
         EXEC => !EXECABORT Transaction discarded because of previous errors.
         RESET => RESET
         CLIENT GETNAME => nil
         SET a1 2 => OK",
    );
    let reply = short(&world.call(a, "AUTH wrong"));
    assert!(reply.starts_with("!ERR AUTH <password> called without any password"), "{reply}");
    let b = world.open(1);
    let list = short(&world.call(b, "CLIENT LIST"));
    assert_eq!(list.lines().count(), 2, "{list}");
    assert!(list.contains("id=1 addr=10.0.0.1:1") && list.contains("id=2 "), "{list}");
    assert!(short(&world.call(b, "INFO")).contains("claret_version:1.2.3"));
    assert_eq!(short(&world.call(b, "CLIENT KILL ID 1")), "1");
    assert_eq!(world.closed, [a]);
    assert_eq!(short(&world.call(b, "QUIT")), "OK");
    assert_eq!(world.closed, [a, b]);
}

#[test]
fn replies_can_be_switched_off() {
    let mut world = World::new(Shape::default());
    let a = world.open(0);
    let lines = [
        "CLIENT REPLY SKIP",
        "SET a 1",
        "GET a",
        "CLIENT REPLY OFF",
        "INCR a",
        "GET a",
        "CLIENT REPLY ON",
        "GET a",
    ];
    for line in lines {
        world.send(a, line);
    }
    world.run();
    let replies: Vec<String> = world.take(a).iter().map(short).collect();
    assert_eq!(replies, ["1", "OK", "2"]);
}

#[test]
fn all_writes_are_refused_when_the_log_cannot_be_shortened() {
    let (mut world, a) = with_client("SET a 1 => OK");
    let facts = engine::gateway::Facts { over_log_limit: true, ..Default::default() };
    world.gateways[0].set_facts(facts);
    let error = "!MISCONF the log has outgrown its memory, and snapshots, which would shorten it, fail: \
                 see the server's log";
    talk(&mut world, a, &format!("SET a 2 => {error}\nDEL a => {error}\nGET a => 1\nPING => PONG"));
    world.gateways[0].set_facts(engine::gateway::Facts::default());
    talk(&mut world, a, "DEL a => 1");
}

#[test]
fn writes_that_grow_are_refused_when_memory_is_full() {
    let (mut world, a) = with_client("SET a 1 => OK");
    let facts = engine::gateway::Facts { over_memory_limit: true, ..Default::default() };
    world.gateways[0].set_facts(facts);
    talk(
        &mut world,
        a,
        "SET a 2 => !OOM command not allowed when used memory > 'maxmemory'.
         GET a => 1
         DEL a => 1",
    );
}
