//! Users in the store are changed while their clients work, at several gateways of a server.

mod harness;

use adt::Reply;
use harness::{Client, Shape, World, short, talk};

/// Users of the configuration, as they are listed.
const OTHERS: &str = "user ann on ~a* resetchannels -@all +@read +@transaction +@connection user \
                      default on nopass ~* &* +@all";
const NO_GET: &str = "!NOPERM User eve has no permissions to run the 'get' command";
const WRONG: &str = "!WRONGPASS invalid username-password pair or user is disabled.";

fn world(seed: u64) -> World {
    World::new(Shape { gateways: 3, seed, ..Shape::default() })
}

/// A client that has logged in.
fn logged_in(world: &mut World, gateway: usize, words: &str) -> Client {
    let client = world.open(gateway);
    assert_eq!(world.call(client, &format!("AUTH {words}")), Reply::Ok);
    client
}

/// Lets the world go on until a client has its reply.
fn wait(world: &mut World, client: Client) -> Reply {
    loop {
        if let Some(reply) = world.next_reply(client) {
            return reply;
        }
        assert!(world.step(), "no reply");
    }
}

#[test]
fn users_are_made_changed_shown_and_removed() {
    let mut world = world(1);
    let client = world.open(0);
    talk(
        &mut world,
        client,
        &"ACL USERS => [ann default]
         ACL GETUSER eve => nil
         ACL DRYRUN eve get a => !ERR User 'eve' not found
         ACL SETUSER eve => OK
         ACL LIST => [OTHERS user eve off resetchannels -@all]
         ACL SETUSER eve on nopass ~a* %R~b* &c* +@read +set -mget => OK
         ACL LIST => [OTHERS user eve on nopass ~a* %R~b* &c* -@all +@read +set -mget]
         ACL DRYRUN eve get a => OK
         ACL DRYRUN eve set a 1 => OK
         ACL DRYRUN eve set b 1 => No permissions to access a key
         ACL USERS => [ann default eve]
         AUTH eve anything => OK
         ACL WHOAMI => !NOPERM User eve has no permissions to run the 'acl|whoami' command
         ACL DELUSER eve => !NOPERM User eve has no permissions to run the 'acl|deluser' command"
            .replace("OTHERS", OTHERS),
    );
    let client = world.open(1);
    talk(
        &mut world,
        client,
        &"ACL SETUSER eve reset => OK
         ACL LIST => [OTHERS user eve off resetchannels -@all]
         ACL SETUSER bob on => OK
         ACL DELUSER eve nobody eve bob => 2
         ACL DELUSER eve => 0
         ACL USERS => [ann default]
         ACL SAVE => OK
         ACL LOAD => OK"
            .replace("OTHERS", OTHERS),
    );
}

#[test]
fn wrong_words_change_nothing() {
    let mut world = world(2);
    let client = world.open(0);
    let configured = "the user 'default' is in the configuration file: change [[users]] there, on every \
                      machine, and restart the machines one after the other";
    let digest = "the password hash must be exactly 64 characters and contain only lowercase hexadecimal \
                  characters";
    let modifier = "!ERR Error in ACL SETUSER modifier";
    for (line, error) in [
        ("ACL SETUSER", "!ERR wrong number of arguments for 'acl|setuser' command".to_owned()),
        ("ACL DELUSER", "!ERR wrong number of arguments for 'acl|deluser' command".to_owned()),
        ("ACL SAVE now", "!ERR wrong number of arguments for 'acl|save' command".to_owned()),
        ("ACL SETUSER default off", format!("!ERR {configured}")),
        ("ACL DELUSER eve default", "!ERR The 'default' user cannot be removed".to_owned()),
        ("ACL DELUSER eve ann", format!("!ERR {configured}").replace("default", "ann")),
        (
            "ACL SETUSER eve on ~x +nonsense",
            format!("{modifier} '+nonsense': unknown command or subcommand"),
        ),
        ("ACL SETUSER eve on #secret", format!("{modifier} '#': {digest}")),
        (
            "ACL SETUSER eve on <secret",
            format!("{modifier} '!': the user does not have the password that is to be removed"),
        ),
        (
            "ACL SETUSER eve on (+@all)",
            format!("{modifier} '(+@all)': selectors are not known here"),
        ),
    ] {
        assert_eq!(short(&world.call(client, line)), error, "{line}");
    }
    assert_eq!(short(&world.call(client, "ACL USERS")), "[ann default]");
}

#[test]
fn several_passwords_fit_until_they_are_removed() {
    let mut world = world(3);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on >old >new +@all"), Reply::Ok);
    for password in ["old", "new"] {
        logged_in(&mut world, 1, &format!("eve {password}"));
    }
    let client = world.open(1);
    assert_eq!(short(&world.call(client, "AUTH eve other")), WRONG);
    assert_eq!(short(&world.call(client, "AUTH nobody other")), WRONG);
    assert_eq!(world.call(admin, "ACL SETUSER eve <old"), Reply::Ok);
    assert_eq!(short(&world.call(client, "AUTH eve old")), WRONG);
    assert_eq!(world.call(client, "AUTH eve new"), Reply::Ok);
    assert_eq!(world.call(admin, "ACL SETUSER eve off"), Reply::Ok);
    // It stays connected, as in Redis.
    assert_eq!(short(&world.call(client, "ACL WHOAMI")), "eve");
    assert_eq!(short(&world.call(client, "AUTH eve new")), WRONG);
    assert_eq!(world.call(admin, "ACL SETUSER eve on resetpass"), Reply::Ok);
    assert_eq!(short(&world.call(client, "AUTH eve new")), WRONG);
}

#[test]
fn rights_end_at_all_gateways_before_the_reply() {
    for seed in 1..=200 {
        let mut world = world(seed);
        let admin = world.open(0);
        assert_eq!(world.call(admin, "ACL SETUSER eve on nopass ~* +@all"), Reply::Ok);
        let clients: Vec<Client> = (0..3).map(|g| logged_in(&mut world, g, "eve any")).collect();
        // One of them logs in again meanwhile.
        let late = clients[seed as usize % 3];
        world.send(late, "AUTH eve any");
        world.send(admin, "ACL SETUSER eve -get");
        assert_eq!(wait(&mut world, admin), Reply::Ok);
        for client in clients {
            world.run();
            world.take(client);
            assert_eq!(short(&world.call(client, "GET a")), NO_GET, "seed {seed}");
        }
    }
}

#[test]
fn a_removed_user_has_no_clients_left() {
    for seed in 1..=200 {
        let mut world = world(seed);
        let admin = world.open(0);
        assert_eq!(world.call(admin, "ACL SETUSER eve on >p ~* +@all"), Reply::Ok);
        let there = logged_in(&mut world, 1, "eve p");
        let waits = logged_in(&mut world, 2, "eve p");
        world.send(waits, "BLPOP list 0");
        let comes = world.open(2);
        for _ in 0..seed % 7 {
            world.step();
        }
        world.send(comes, "AUTH eve p");
        for _ in 0..seed % 11 {
            world.step();
        }
        world.send(admin, "ACL DELUSER eve");
        assert_eq!(wait(&mut world, admin), Reply::Int(1));
        assert!(world.closed.contains(&there) && world.closed.contains(&waits), "seed {seed}");
        world.run();
        if world.closed.contains(&comes) {
            continue;
        }
        assert_eq!(short(&world.take(comes)[0]), WRONG, "seed {seed}");
        assert_eq!(short(&world.call(comes, "ACL WHOAMI")), "default", "seed {seed}");
    }
}

#[test]
fn changes_of_several_operators_all_count() {
    for seed in 1..=100 {
        let mut world = world(seed);
        let operators: Vec<Client> = (0..3).map(|g| world.open(g)).collect();
        for (n, operator) in operators.iter().enumerate() {
            world.send(*operator, &format!("ACL SETUSER eve ~{n}:*"));
        }
        world.run();
        for operator in &operators {
            assert_eq!(world.take(*operator), [Reply::Ok], "seed {seed}");
        }
        let Reply::Map(facts) = world.call(operators[0], "ACL GETUSER eve") else {
            panic!("a map")
        };
        let keys = facts
            .iter()
            .find(|(name, _)| *name == Reply::bulk("keys"))
            .map(|(_, keys)| short(keys));
        let mut keys: Vec<String> = keys.unwrap().split(' ').map(str::to_owned).collect();
        keys.sort();
        assert_eq!(keys, ["~0:*", "~1:*", "~2:*"], "seed {seed}");
    }
}

#[test]
fn a_transaction_of_commands_that_are_forbidden_meanwhile_fails() {
    let mut world = world(4);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on nopass ~* +@all"), Reply::Ok);
    let client = logged_in(&mut world, 1, "eve any");
    for rule in ["-set", "resetkeys ~b*"] {
        talk(&mut world, client, "MULTI => OK\nSET a 1 => QUEUED");
        assert_eq!(world.call(admin, &format!("ACL SETUSER eve {rule}")), Reply::Ok);
        assert!(short(&world.call(client, "EXEC")).starts_with("!EXECABORT"), "{rule}");
        assert_eq!(world.call(admin, "GET a"), Reply::Nil);
        assert_eq!(world.call(admin, "ACL SETUSER eve +@all ~*"), Reply::Ok);
    }
    talk(&mut world, client, "MULTI => OK\nSET a 1 => QUEUED");
    assert_eq!(world.call(admin, "ACL SETUSER eve >p"), Reply::Ok);
    assert_eq!(short(&world.call(client, "EXEC")), "[OK]");
}

#[test]
fn listeners_that_may_not_listen_any_more_are_closed() {
    let mut world = world(5);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on nopass &a &b* +@all"), Reply::Ok);
    let names = ["SUBSCRIBE a", "PSUBSCRIBE b*", "SSUBSCRIBE a", "SUBSCRIBE b1"];
    let clients: Vec<Client> = names
        .iter()
        .map(|line| {
            let client = logged_in(&mut world, 1, "eve any");
            world.call(client, line);
            client
        })
        .collect();
    assert_eq!(world.call(admin, "ACL SETUSER eve resetchannels &b*"), Reply::Ok);
    let closed: Vec<bool> = clients.iter().map(|client| world.closed.contains(client)).collect();
    assert_eq!(closed, [true, false, true, false]);
}

#[test]
fn clients_that_wait_or_monitor_are_closed_when_their_user_loses_rights() {
    let mut world = world(8);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on nopass ~* &* +@all"), Reply::Ok);
    let clients: Vec<Client> = ["BLPOP list 0", "MONITOR", "GET a"]
        .iter()
        .map(|line| {
            let client = logged_in(&mut world, 1, "eve any");
            world.send(client, line);
            world.run();
            client
        })
        .collect();
    assert_eq!(world.call(admin, "ACL SETUSER eve >p"), Reply::Ok);
    assert!(world.closed.is_empty());
    assert_eq!(world.call(admin, "ACL SETUSER eve resetkeys"), Reply::Ok);
    let closed: Vec<bool> = clients.iter().map(|client| world.closed.contains(client)).collect();
    assert_eq!(closed, [true, true, false]);
    clients[..2].iter().for_each(|client| world.close(*client));
    world.run();
    assert_eq!(world.call(admin, "RPUSH list a"), Reply::Int(1));
    assert_eq!(world.call(admin, "LLEN list"), Reply::Int(1));
}

#[test]
fn a_command_behind_a_transaction_needs_its_right_when_it_is_carried_out() {
    let mut world = world(9);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on nopass ~* +@all"), Reply::Ok);
    let client = logged_in(&mut world, 1, "eve any");
    talk(
        &mut world,
        client,
        "MULTI => OK
         SET a 1 => QUEUED
         ACL SETUSER eve -acl|users => QUEUED
         ACL USERS => QUEUED
         PING => QUEUED
         EXEC => [OK OK !NOPERM User eve has no permissions to run the 'acl|users' command PONG]",
    );
}

#[test]
fn commands_about_users_can_be_queued() {
    let mut world = world(6);
    let client = world.open(0);
    talk(
        &mut world,
        client,
        "MULTI => OK
         SET a 1 => QUEUED
         ACL SETUSER eve on nopass => QUEUED
         ACL USERS => QUEUED
         ACL DELUSER eve default => QUEUED
         ACL DELUSER eve => QUEUED
         GET a => QUEUED
         EXEC => [OK OK [ann default eve] !ERR The 'default' user cannot be removed 1 1]
         ACL USERS => [ann default]",
    );
}

#[test]
fn sessions_look_at_their_users_from_time_to_time() {
    let mut world = world(7);
    let admin = world.open(0);
    assert_eq!(world.call(admin, "ACL SETUSER eve on nopass ~* +@all"), Reply::Ok);
    let client = logged_in(&mut world, 1, "eve any");
    // The news is lost, as if it came from a machine that was not connected.
    world.send(admin, "ACL SETUSER eve -get");
    while !world.forget_news() {
        assert!(world.step());
    }
    world.run();
    assert_eq!(world.call(client, "GET a"), Reply::Nil);
    world.advance(engine::limits::USERS_LOOK_US);
    world.run();
    assert_eq!(short(&world.call(client, "GET a")), NO_GET);
}
