//! Dialogues with the model, one per type.

use super::*;
use crate::dialogue;

/// Checks that every reply in the dialogue is the model's.
fn holds(text: &str) {
    let mut model = Model::default();
    for txn in dialogue::parse(text).unwrap().txns {
        for op in &txn.ops {
            let expected = op.reply.as_ref().expect("a reply");
            let answer = model.try_follow(&op.words, Some(expected)).expect("modelled");
            assert!(agree(&op.words, expected, &answer), "{op}, but the model says {answer}");
        }
    }
}

#[test]
fn strings() {
    holds(
        "p0 : get x -> nil | set x 1 -> OK | GET x -> 1 | strlen x -> 1 | exists x y x -> 2
         p0 : setnx x 2 -> 0 | setnx y 2 -> 1 | getset x 3 -> 1 | getset z 1 -> nil
         p0 : incr x -> 4 | incrby x -10 -> -6 | decr x -> -7 | decrby x 3 -> -10 | incr n -> 1
         p0 : append x ab -> 5 | get x -> -10ab | incr x -> !ERR | incrby y 1.5 -> !ERR
         p0 : set m 9223372036854775807 -> OK | incr m -> !ERR | get m -> \"9223372036854775807\"
         p0 : decrby m -9223372036854775808 -> !ERR | set q 01 -> OK | incr q -> !ERR
         p0 : set x 5 nx -> nil | set x 5 xx get -> -10ab | set new 5 xx -> nil | set x 1 nx xx -> !ERR
         p0 : mset a 1 b 2 -> OK | mget a c b -> [1 nil 2] | del a b c -> 2 | type x -> string
         p0 : set b 2 ifeq 1 -> nil | set b 2 ifne 1 -> OK | set b 3 ifeq 2 get -> 2
         p0 : set b 4 ifne 3 -> nil | set b 4 ifne 5 -> OK
         p0 : delifeq b 3 -> 0 | delex b ifne 4 -> 0 | delex b ifne 3 -> 1 | set b 5 ifne 5 -> OK
         p0 : set c 1 ifeq 1 xx -> !ERR | delex b IFEQ 5 -> 1 | delifeq b 5 -> 0
         p0 : increx i -> [1 1] | increx i byint 5 ubound 4 -> [1 0]
         p0 : increx i byint 5 ubound 4 saturate -> [4 3] | increx i byint -9 lbound 0 -> [4 0]
         p0 : increx j lbound 5 -> [0 0] | exists j -> 0
         p0 : getdel x -> 5 | get x -> nil | get x y -> !ERR | mset a -> !ERR",
    );
}

#[test]
fn any_member_may_be_drawn_but_no_other() {
    holds(
        "p0 : spop s -> nil | sadd s a b c -> 3 | spop s -> b | smembers s -> [a c] | spop s -> c
         p0 : spop s -> a | exists s -> 0 | spop s -> nil | set x 1 -> OK | spop x -> !WRONGTYPE",
    );
    let words = |line: &str| line.split(' ').map(|w| w.as_bytes().to_vec()).collect::<Vec<_>>();
    let (add, draw) = (words("sadd s a b"), words("spop s"));
    for wrong in [Reply::text("z"), Reply::Nil, Reply::Int(1)] {
        let mut model = Model::default();
        model.try_apply(&add);
        let answer = model.try_follow(&draw, Some(&wrong)).unwrap();
        assert!(!agree(&draw, &answer, &wrong), "{wrong}");
    }
    let mut model = Model::default();
    model.try_apply(&add);
    assert_eq!(model.try_follow(&draw, None), None, "the member is unknown");
    model.try_follow(&draw, Some(&Reply::text("a")));
    assert_eq!(model.try_follow(&draw, None), Some(Reply::text("b")), "there is only one left");
}

#[test]
fn hashes() {
    holds(
        "p0 : hset h f 1 g 2 -> 2 | hset h f 3 -> 0 | hget h f -> 3 | hget h no -> nil | hlen h -> 2
         p0 : hincrby h f 4 -> 7 | hincrby h new 1 -> 1 | hexists h f -> 1 | hexists h no -> 0
         p0 : hgetall h -> {new 1 f 7 g 2} | hkeys h -> [f g new] | hmget h g no -> [2 nil]
         p0 : hset h s abc -> 1 | hincrby h s 1 -> !ERR | hsetnx h f 1 -> 0 | hset h f -> !ERR
         p0 : hdel h f g f no -> 2 | hdel h new s -> 2 | exists h -> 0 | hgetall h -> {}
         p0 : hsetex h fxx fields 1 f 1 -> 0 | hsetex h fnx fields 2 f 1 g 2 -> 1
         p0 : hsetex h fnx fields 2 g 3 i 3 -> 0 | hsetex h fxx fields 1 g 3 -> 1
         p0 : hgetex h fields 3 f g no -> [1 3 nil] | httl h fields 2 f no -> [-1 -2]
         p0 : hsetex h fields 1 i 4 -> 1 | hpersist h fields 1 i -> [-1] | hlen h -> 3",
    );
    let mut model = Model::default();
    for line in ["hexpire h 1 fields 1 f", "hgetex h ex 1 fields 1 f", "hsetex h ex 1 fields 1 f v"]
    {
        let words: Vec<Word> = line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        assert_eq!(model.try_apply(&words), None, "{line}");
    }
}

#[test]
fn sets() {
    holds(
        "p0 : sadd s a b a -> 2 | sadd s a -> 0 | scard s -> 2 | smembers s -> [b a]
         p0 : sismember s a -> 1 | smismember s a c -> [1 0] | srem s a c -> 1 | srem s b -> 1
         p0 : type s -> none | smembers s -> [] | sadd s -> !ERR",
    );
}

#[test]
fn sorted_sets() {
    holds(
        "p0 : zadd z 2 b 1 a 2 aa -> 3 | zadd z 5 a -> 0 | zscore z a -> 5.0 | zscore z q -> nil
         p0 : zrange z 0 -1 -> [aa b a] | zrange z 0 -1 withscores -> [aa 2.0 b 2.0 a 5.0]
         p0 : zincrby z -4 a -> 1.0 | zincrby z 1.5 new -> 1.5 | zcard z -> 4 | zrank z b -> 3
         p0 : zrangebyscore z (1 2 -> [new aa b] | zcount z -inf +inf -> 4 | zrange z 5 9 -> []
         p0 : zadd z inf i -> 1 | zincrby z -inf i -> !ERR | zadd z x y -> !ERR | zadd z 1 -> !ERR
         p0 : zrem z i new a aa b no -> 5 | exists z -> 0 | zadd z 1 a 2 -> !ERR",
    );
}

#[test]
fn lists() {
    holds(
        "p0 : rpush l b c -> 2 | lpush l a z -> 4 | lrange l 0 -1 -> [z a b c] | lrange l 1 2 -> [a b]
         p0 : lrange l -2 -1 -> [b c] | lindex l 0 -> z | lindex l -1 -> c | lindex l 9 -> nil
         p0 : lindex l -9 -> nil | lrange l 3 1 -> [] | lpop l -> z | rpop l -> c | llen l -> 2
         p0 : lpop l 9 -> [a b] | lpop l -> nil | lpop l 2 -> nil | lpop l -1 -> !ERR | exists l -> 0",
    );
}

#[test]
fn counters() {
    holds(
        "p0 : counter.get c -> 0 | exists c -> 0 | counter.add c 5 -> OK | counter.incr c 1 -> 6
         p0 : counter.incr c -4 -> 2 | counter.try c -3 -> 1 | counter.get c -> -1
         p0 : counter.atleast c -1 -> 1 | counter.atleast c 0 -> 0 | counter.bounds c -> [nil nil]
         p0 : counter.set c 5 min 0 max 9 -> OK | counter.try c -6 -> 0 | counter.try c 5 -> 0
         p0 : counter.try c -5 -> 1 | counter.add c 1 -> !ERR | counter.incr c 10 -> !ERR
         p0 : counter.get c -> 0 | counter.set c 1 max 0 -> !ERR | counter.set c x -> !ERR
         p0 : counter.set c 1 max 2 max 2 -> !ERR | counter.set c 1 max -> !ERR | counter.bounds c -> [0 9]
         p0 : counter.try new -1 -> 1 | exists new -> 1 | type c -> counter | counter.incr c -> !ERR
         p0 : counter.add w 9223372036854775807 -> OK | counter.incr w 1 -> !ERR | counter.add w 1 -> OK
         p0 : counter.get w -> !ERR | counter.add w -1 -> OK | counter.atleast w 9223372036854775807 -> 1",
    );
}

#[test]
fn top_k_bags_and_logs() {
    holds(
        "p0 : topk.put t a 1 b 5 -> OK | topk.put t a 3 b 2 -> OK | topk.count t -> 2
         p0 : topk.best t withscores -> [b 5.0 a 3.0] | topk.best t 1 -> [b] | topk.best none 3 -> []
         p0 : topk.capacity t -> 10 | topk.init t 10 -> OK | topk.init t 3 -> !ERR | topk.init u 0 -> !ERR
         p0 : topk.init u 2 -> OK | exists u -> 1 | topk.put u c 2 b 2 -> OK | topk.put u d 2 -> OK
         p0 : topk.best u -> [d c] | topk.rankof u c -> 1 | topk.rankof u b -> nil | topk.put t x y -> !ERR
         p0 : bag.add b 3 -4 0.10 -> OK | bag.count b -> 3 | bag.sum b -> \"-0.9\" | bag.sum none -> \"0\"
         p0 : bag.min b -> \"-4\" | bag.max b -> \"3\" | bag.max none -> nil | bag.add b .5 -> !ERR
         p0 : log.append l x -> 1-0-0 | log.append l y z -> 2-0-1 | log.len l -> 3
         p0 : log.tail l 2 -> [[2-0-1 z] [2-0-0 y]] | log.range l - + -> [[i x] [j y] [k z]]
         p0 : log.tail l -1 -> !ERR | log.trim l maxlen 1 -> 2 | log.len l -> 1 | log.trim l maxlen 0 -> 1
         p0 : exists l -> 1 | caplog.init c 2 -> OK | log.append c a b c -> 3-0-2 | log.len c -> 2
         p0 : caplog.init c 2 -> OK | caplog.init c 3 -> !ERR | log.range c - + -> [[i b] [j c]]",
    );
    let words =
        |text: &str| -> Vec<Word> { text.split(' ').map(|w| w.as_bytes().to_vec()).collect() };
    let reply = |text: &str| {
        dialogue::parse(&format!("p0 : x -> {text}")).unwrap().txns[0].ops[0].reply.clone().unwrap()
    };
    let tail = words("log.tail l 2");
    assert!(!agree(&tail, &reply("[[i x] [j y]]"), &reply("[[i y] [j x]]")));
    assert!(!agree(&tail, &reply("[[i x]]"), &reply("nil")));
    assert!(!agree(&words("log.append l x"), &reply("i"), &reply("!ERR")));
}

#[test]
fn a_type_refuses_the_operations_of_another() {
    let make = [
        "set k 1",
        "hset k f 1",
        "sadd k a",
        "zadd k 1 a",
        "rpush k a",
        "counter.add k 1",
        "topk.put k a 1",
        "bag.add k 1",
        "log.append k a",
    ];
    let read = [
        "get k",
        "hlen k",
        "scard k",
        "zcard k",
        "llen k",
        "counter.get k",
        "topk.count k",
        "bag.count k",
        "log.len k",
    ];
    for (i, make) in make.iter().enumerate() {
        for (j, read) in read.iter().enumerate() {
            let text = format!("p0 : {make} | {read} | set k 1 -> OK");
            let mut model = Model::default();
            let ops = &dialogue::parse(&text).unwrap().txns[0].ops;
            assert!(!model.apply(&ops[0].words).is_error());
            let answer = model.apply(&ops[1].words);
            assert_eq!(answer.agrees(&wrong_type()), i != j, "{make}, {read}: {answer}");
            assert_eq!(model.apply(&ops[2].words), Reply::ok());
        }
    }
}

#[test]
fn a_command_that_is_not_modelled_is_reported() {
    for text in ["object encoding x", "set x 1 ex 5", "zadd z gt 1 a", "zrange z 0 1 rev", "ping"] {
        let words: Vec<Word> = text.split(' ').map(|word| word.as_bytes().to_vec()).collect();
        let mut model = Model::default();
        assert_eq!(model.try_apply(&words), None, "{text}");
        assert!(model.apply(&words).is_error());
        assert_eq!(model, Model::default());
    }
    assert_eq!(Model::default().try_apply(&[]), None);
}

#[test]
fn keys_and_reads_are_known() {
    let words =
        |text: &str| -> Vec<Word> { text.split(' ').map(|w| w.as_bytes().to_vec()).collect() };
    assert_eq!(keys_of(&words("DEL a b")).len(), 2);
    assert_eq!(keys_of(&words("mset a 1 b 2")), [b"a", b"b"]);
    assert_eq!(keys_of(&words("zadd a 1 b")), [b"a"]);
    assert!(is_read(&words("LRANGE a 0 1")) && !is_read(&words("getset a b")));
    assert!(is_idle(&words("SET a b NX"), &Reply::Nil));
    // Absent before, present now.
    assert!(!is_idle(&words("SET a b NX GET"), &Reply::Nil));
}
