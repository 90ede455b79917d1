//! Tests of access control.

use super::replies::{dry_run, get_user, list, user_names};
use super::*;
use crate::gateway::clients::session_commands::{all, lookup};
use adt::command::database::shown;
use adt::command::syntax;
use adt::{
    ArgBuf, Attempt, Command, Ctx, Flags, Handler, Next, Op, Record, Reply, Timestamp, record,
};
use std::collections::BTreeSet;

fn user(rules: &str) -> User {
    let mut user = User::new("ann");
    for rule in rules.split_whitespace() {
        user.apply(rule).unwrap();
    }
    user
}

fn denied(user: &User, line: &str) -> Option<String> {
    let words = ArgBuf::of(line.split(' '));
    let spec = lookup(words.args().get(0).unwrap()).unwrap();
    user.check(spec, &words.args()).err().map(|e| e.to_string())
}

#[test]
fn a_new_user_may_nothing() {
    let user = User::new("ann");
    for spec in all() {
        assert!(user.check(spec, &ArgBuf::of([spec.name, "1", "1"]).args()).is_err());
    }
    assert_eq!(
        denied(&user, "smembers k").unwrap(),
        "NOPERM User ann has no permissions to run the 'smembers' command"
    );
}

#[test]
fn commands_and_categories_apply_from_left_to_right() {
    let user = user("allkeys allchannels +@all -@dangerous +keys -sadd");
    assert!(!user.everything());
    assert_eq!(denied(&user, "keys *"), None);
    assert_eq!(denied(&user, "smembers k"), None);
    assert!(denied(&user, "flushall").is_some());
    assert!(denied(&user, "SADD k m").is_some());
    assert!(denied(&user, "shutdown").is_some());
    let reader = super::tests::user("allkeys +@read -@slow");
    assert_eq!(denied(&reader, "scard k"), None);
    assert!(denied(&reader, "smembers k").is_some());
    assert!(denied(&reader, "sadd k m").is_some());
}

#[test]
fn subcommands_have_rights_of_their_own() {
    let user = user("+@connection -@dangerous +config|get +acl|whoami");
    assert_eq!(denied(&user, "client setname x"), None);
    assert_eq!(denied(&user, "config GET port"), None);
    assert_eq!(denied(&user, "acl whoami"), None);
    assert_eq!(
        denied(&user, "client KILL id 3").unwrap(),
        "NOPERM User ann has no permissions to run the 'client|kill' command"
    );
    assert!(denied(&user, "config set port 1").is_some());
    assert!(denied(&user, "config nosuch").is_some());
    assert!(denied(&user, "acl list").is_some());
}

#[test]
fn keys_and_channels_are_checked() {
    let user = user("+@all ~app:* %R~shared:* %W~out:* &news.*");
    assert_eq!(denied(&user, "sadd app:1 m"), None);
    assert_eq!(denied(&user, "smembers shared:1"), None);
    assert_eq!(denied(&user, "sadd shared:1 m").unwrap(), "NOPERM No permissions to access a key");
    assert_eq!(denied(&user, "sadd out:1 m"), None);
    assert!(denied(&user, "smembers out:1").is_some());
    assert!(denied(&user, "spop out:1").is_some());
    assert_eq!(denied(&user, "sinterstore out:1 shared:1 app:1"), None);
    assert!(denied(&user, "sinterstore shared:1 app:1").is_some());
    assert!(denied(&user, "sintercard 2 app:1 other").is_some());
    assert!(denied(&user, "del app:1 other").is_some());
    assert_eq!(denied(&user, "watch shared:1"), None);
    assert!(denied(&user, "watch other").is_some());
    assert_eq!(denied(&user, "publish news.sport x"), None);
    assert_eq!(
        denied(&user, "publish weather x").unwrap(),
        "NOPERM No permissions to access a channel"
    );
    assert_eq!(denied(&user, "psubscribe news.*"), None);
    assert!(denied(&user, "psubscribe *").is_some());
    assert!(denied(&user, "subscribe news.a weather").is_some());
}

#[test]
fn everything_is_noticed_and_lost_again() {
    let mut user = user("on nopass ~* &* +@all");
    assert!(user.everything());
    user.apply("-keys").unwrap();
    assert!(!user.everything());
    user.apply("+keys").unwrap();
    assert!(user.everything());
    user.apply("resetkeys").unwrap();
    assert!(!user.everything());
}

#[test]
fn wrong_rules_are_explained_and_change_nothing() {
    let mut user = user("on ~app:* +@read");
    let before = replies::list(&acl(&user));
    for (rule, why) in [
        ("+nosuch", "unknown command"),
        ("+config|nosuch", "unknown command or subcommand"),
        ("-DEBUG", "'DEBUG' is not built in Claret"),
        ("+script|debug", "'SCRIPT DEBUG' is not built in Claret"),
        ("+@nosuch", "unknown category"),
        ("%X~a", "a key rule is"),
        ("%R", "a key rule is"),
        (">secret", "passwords are not rules"),
        ("(~a +get)", "selectors"),
        ("", "syntax error"),
        ("nonsense", "syntax error"),
        (&"x".repeat(RULE_BYTES_MAX + 1), "at most"),
    ] {
        assert!(user.apply(rule).unwrap_err().contains(why), "{rule}");
        assert_eq!(replies::list(&acl(&user)), before);
    }
    user.apply("allkeys").unwrap();
    assert!(user.apply("~more").unwrap_err().contains("resetkeys"));
}

#[test]
fn patterns_are_bounded() {
    let mut user = User::new("ann");
    for i in 0..PATTERNS_MAX {
        user.apply(&format!("~{i}")).unwrap();
        user.apply(&format!("&{i}")).unwrap();
    }
    user.apply("~0").unwrap();
    assert!(user.apply("~more").unwrap_err().contains("at most 1000"));
    assert!(user.apply("&more").unwrap_err().contains("at most 1000"));
}

fn acl(user: &User) -> Users {
    let users = BTreeMap::from([(user.name.clone(), Arc::new(user.clone()))]);
    Users { users: Arc::new(users), ..Users::default() }
}

fn config(name: &str, rules: &[&str], verifier: Option<&str>) -> UserConfig {
    UserConfig {
        name: name.to_owned(),
        rules: rules.iter().map(|r| (*r).to_owned()).collect(),
        verifier: verifier.map(str::to_owned),
    }
}

#[test]
fn a_configuration_is_read_or_refused() {
    let acl = Users::from_config(&[
        config("ann", &["on", "~*", "+@all"], Some("hash")),
        config("bob", &["off"], Some("hash")),
        config("default", &["on", "nopass"], None),
    ])
    .unwrap();
    assert!(matches!(acl.login(b"ann"), Some(Login::Verify { verifier }) if verifier == "hash"));
    assert!(matches!(acl.login(b"bob"), Some(Login::Verify { verifier }) if verifier.is_empty()));
    assert!(
        matches!(acl.login(b"eve\xff"), Some(Login::Verify { verifier }) if verifier.is_empty())
    );
    assert!(matches!(acl.login(b"default"), Some(Login::Accept(user)) if user.name() == "default"));
    assert!(acl.login(b"in the store").is_some() && acl.login(b"in_the_store").is_none());
    assert!(acl.unauthenticated().is_some());
    assert!(Users::open().unauthenticated().unwrap().everything());
    for wrong in [config("a b", &[], None), config("", &[], None), config("a", &["?"], None)] {
        assert!(Users::from_config(&[wrong]).is_err());
    }
    let twice = [config("a", &[], None), config("a", &[], None)];
    assert!(Users::from_config(&twice).unwrap_err().contains("twice"));
}

#[test]
fn replies_tell_rules_and_never_verifiers() {
    let acl = Users::from_config(&[config(
        "ann",
        &["on", "%R~app:*", "&news", "+@read", "-scard"],
        Some("argon2-secret"),
    )])
    .unwrap();
    assert_eq!(
        list(&acl),
        Reply::Array(vec![Reply::bulk("user ann on %R~app:* &news -@all +@read -scard")])
    );
    assert!(!format!("{:?}", get_user(&acl, b"ann")).contains("secret"));
    assert!(!format!("{acl:?}").contains("secret"));
    assert_eq!(get_user(&acl, b"eve"), Reply::Nil);
    assert_eq!(user_names(&acl), Reply::Array(vec![Reply::bulk("ann")]));
    let Reply::Array(commands) = cat(Some(b"set")) else { panic!() };
    assert!(commands.contains(&Reply::bulk("sadd")) && !commands.contains(&Reply::bulk("ping")));
    let Reply::Array(commands) = cat(Some(b"DANGEROUS")) else { panic!() };
    assert!(commands.contains(&Reply::bulk("client|kill")));
    assert!(!commands.contains(&Reply::bulk("client|setname")));
    assert!(cat(Some(b"nosuch")).is_error());
    let Reply::Array(categories) = cat(None) else { panic!() };
    for known in ["read", "write", "fast", "slow", "keyspace", "transaction", "connection"] {
        assert!(categories.contains(&Reply::bulk(known)), "{known}");
    }
    let run = |line: &str| dry_run(&acl, &ArgBuf::of(line.split(' ')).args());
    assert_eq!(run("acl dryrun ann smembers app:1"), Ok(Reply::Ok));
    assert_eq!(run("acl dryrun ann smembers x"), Ok(Reply::bulk("No permissions to access a key")));
    assert!(run("acl dryrun eve ping").is_err());
    assert!(run("acl dryrun ann nosuch").is_err());
    assert!(run("acl dryrun ann").is_err());
}

/// Keys that a command reads and keys that it writes, when it is carried out on `store`.
#[derive(Default)]
struct Touched {
    all: BTreeSet<Blob>,
    written: BTreeSet<Blob>,
    /// Whether it reads keys that the words do not name.
    found: bool,
}

type Store = BTreeMap<Blob, Option<Record>>;

fn carry_out(store: &mut Store, key: &Blob, op: &Op, touched: &mut Touched) -> Reply {
    touched.all.insert(key.clone());
    if op.is_write() {
        touched.written.insert(key.clone());
    }
    let ctx = Ctx { now_ms: 1_000, ts: Timestamp(1), seed: 7 };
    record::apply(store.entry(key.clone()).or_default(), op, &ctx)
}

fn run(store: &mut Store, command: Command) -> Touched {
    let mut touched = Touched::default();
    let read = |compound: &adt::Compound, store: &mut Store, touched: &mut Touched| {
        let reads = compound.reads.iter().map(|(k, op)| carry_out(store, k, op, touched));
        let replies: Vec<Reply> = reads.collect();
        (compound.next)(&replies)
    };
    let compound = |compound: adt::Compound, store: &mut Store, touched: &mut Touched| {
        let mut next = read(&compound, store, touched);
        while let Next::Reads(further) = next {
            let mut found = Touched::default();
            next = read(&further, store, &mut found);
            assert!(found.written.is_empty(), "keys that were found on the way are only read");
            touched.found |= !found.all.is_empty();
        }
        let Next::Plan(plan) = next else { return };
        for (key, op) in plan.writes {
            carry_out(store, &key, &op, touched);
        }
    };
    match command {
        Command::Single(key, op) | Command::Awaiting(adt::Awaiting { key, op, .. }) => {
            carry_out(store, &key, &op, &mut touched);
        }
        Command::Multi { ops, .. } => {
            for (key, op) in ops {
                carry_out(store, &key, &op, &mut touched);
            }
        }
        Command::Compound(c) => compound(c, store, &mut touched),
        Command::Blocking(blocking) => {
            for (key, attempt) in blocking.attempts {
                touched.all.insert(key.clone());
                match attempt {
                    Attempt::Take { op, .. } => {
                        carry_out(store, &key, &op, &mut touched);
                    }
                    Attempt::Move(c) => compound(c, store, &mut touched),
                }
            }
        }
    }
    touched
}

/// No operation of any data command touches a key that the table does not declare (and that a
/// check would miss), and none writes a key that was only checked for reading. Redis had that:
/// `GEORADIUS ... STORE` wrote outside of the user's patterns.
#[test]
fn operations_touch_only_declared_keys() {
    // What each single-key writer makes of an absent key: a state of every type.
    let parse_of = |spec: &CommandSpec| match spec.handler {
        Handler::Data(parse) => parse,
        Handler::Session => unreachable!("a data command"),
    };
    let mut states: BTreeMap<&'static str, Record> = BTreeMap::new();
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec) {
            let mut store = Store::new();
            run(&mut store, parse_of(spec)(&call.args()).unwrap_or_else(|e| panic!("{e}")));
            for made in store.into_values().flatten() {
                states.entry(made.value.type_name()).or_insert(made);
            }
        }
    }
    assert!(states.contains_key("set"));
    for spec in record::data_commands() {
        for call in syntax::sample_calls(spec) {
            let args = call.args();
            let positions = spec.keys.positions(&args).unwrap();
            assert!(!positions.is_empty(), "{} has no keys", spec.name);
            let keys = positions.iter().map(|&at| Blob::new(args.get(at).unwrap()));
            let declared: BTreeSet<Blob> = keys.collect();
            let writable = positions.iter().enumerate();
            let writable = writable.filter(|(nth, _)| key_access(spec, &args, *nth).write);
            let writable: BTreeSet<Blob> =
                writable.map(|(_, &at)| Blob::new(args.get(at).unwrap())).collect();
            let mut stores = vec![Store::new()];
            stores.extend(states.values().map(|record| {
                declared.iter().map(|key| (key.clone(), Some(record.clone()))).collect()
            }));
            for mut store in stores {
                let touched = run(&mut store, parse_of(spec)(&args).unwrap());
                // Patterns are about names, whatever the database.
                let names = |keys: &BTreeSet<Blob>| keys.iter().map(shown).collect::<BTreeSet<_>>();
                assert!(
                    names(&touched.all).is_subset(&declared),
                    "{} touches {:?}",
                    spec.name,
                    touched.all
                );
                let looks_up = looks_up(spec, &args).is_some();
                assert!(looks_up || !touched.found, "{} {args:?}", spec.name);
                assert!(names(&touched.written).is_subset(&writable), "{} {args:?}", spec.name);
                assert!(spec.flags.has(Flags::WRITE) || touched.written.is_empty());
            }
        }
    }
}

#[test]
fn who_sorts_by_patterns_may_read_every_key() {
    let acl = Users::from_config(&[
        config("ann", &["on", "~app:*", "+@all"], None),
        config("bob", &["on", "%R~*", "~app:*", "+@all"], None),
    ])
    .unwrap();
    let run = |user: &str, line: &str| {
        dry_run(&acl, &ArgBuf::of(format!("acl dryrun {user} {line}").split(' ')).args()).unwrap()
    };
    for line in ["sort app:l by app:w_*", "sort app:l get #", "sort_ro app:l get app:*->f"] {
        assert_eq!(run("bob", line), Reply::Ok, "{line}");
    }
    let denied = |option: &str| {
        format!("{option} option of SORT denied due to insufficient ACL permissions")
    };
    assert_eq!(run("ann", "sort app:l by app:w_*"), Reply::bulk(denied("BY")));
    assert_eq!(run("ann", "sort_ro app:l get # get app:*->f"), Reply::bulk(denied("GET")));
    for line in ["sort app:l by nosort get #", "sort app:l store app:m", "sort app:l by store"] {
        assert_eq!(run("ann", line), Reply::Ok, "{line}");
    }
    let no_key = Reply::bulk("No permissions to access a key");
    for line in ["sort l", "sort app:l store m", "sort app:l store app:m store m"] {
        assert_eq!(
            (run("ann", line), run("bob", "sort app:l store m")),
            (no_key.clone(), no_key.clone())
        );
    }
}
