# Whoever waits goes on waiting when a key holds something that it does not take.
== a list that is gone again when the waiting client is served
waiting: BLPOP list 0
-> ...
MULTI
-> +OK
LPUSH list a
-> +QUEUED
DEL list
-> +QUEUED
SET list x
-> +QUEUED
EXEC
-> *3 :1 :1 +OK
DEL list
-> :1
RPUSH list b
-> :1
waiting <- *2 $"list" $"b"

== a string does not wake anybody up
waiting: BRPOP list 0
-> ...
SET list x
-> +OK
SET list y
-> +OK
DEL list
-> :1
RPUSH list b
-> :1
waiting <- *2 $"list" $"b"

== a sorted set does not wake up those who wait for a list, nor a list the others
list: BLPOP k 0
-> ...
zset: BZPOPMIN k 0
-> ...
zset2: BZMPOP 0 1 k MAX
-> ...
RPUSH k a
-> :1
list <- *2 $"k" $"a"
ZADD k 1 b 2 c
-> :2
zset <- *3 $"k" $"b" $"1"
zset2 <- *2 $"k" *1 *2 $"c" $"2"

== whoever waits behind one of another type is served
zset: BZPOPMIN k 0
-> ...
list: BLMPOP 0 1 k RIGHT COUNT 2
-> ...
RPUSH k a b c
-> :3
list <- *2 $"k" *2 $"c" $"b"
LPOP k
-> $"a"
ZADD k 1 m
-> :1
zset <- *3 $"k" $"m" $"1"

== a move whose source becomes a string
waiting: BLMOVE from to LEFT RIGHT 0
-> ...
MULTI
-> +OK
RPUSH from a
-> +QUEUED
DEL from
-> +QUEUED
SET from x
-> +QUEUED
EXEC
-> *3 :1 :1 +OK
DEL from
-> :1
RPUSH from b
-> :1
waiting <- $"b"
LRANGE to 0 -1
-> *1 $"b"

== a move whose target is a string
SET to x
-> +OK
waiting: BRPOPLPUSH from to 0
-> ...
RPUSH from a
-> :1
waiting <- -WRONGTYPE Operation against a key holding the wrong kind of value
LRANGE from 0 -1
-> *1 $"a"

== a key of the wrong type is refused at once
SET k v
-> +OK
BLPOP k 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BZPOPMAX k 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BLMOVE k j LEFT LEFT 0
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BLMPOP 0 1 k LEFT
-> -WRONGTYPE Operation against a key holding the wrong kind of value
BZMPOP 0 1 k MIN
-> -WRONGTYPE Operation against a key holding the wrong kind of value

== a target of the wrong type is not looked at without a source
SET to x
-> +OK
LMOVE from to LEFT LEFT
-> $-1
RPOPLPUSH from to
-> $-1
BLMOVE from to LEFT LEFT 0.01
-> *-1
BRPOPLPUSH from to 0.01
-> *-1

== what comes when the time is over
BLPOP k 0.01
-> *-1
BRPOP k 0.01
-> *-1
BLMPOP 0.01 1 k LEFT
-> *-1
BLMOVE k j LEFT LEFT 0.01
-> *-1
BRPOPLPUSH k j 0.01
-> *-1
BZPOPMIN k 0.01
-> *-1
BZPOPMAX k 0.01
-> *-1
BZMPOP 0.01 1 k MIN
-> *-1

== what comes inside of a transaction
MULTI
-> +OK
BLPOP k 0
-> +QUEUED
BLMPOP 0 1 k LEFT
-> +QUEUED
BLMOVE k j LEFT LEFT 0
-> +QUEUED
BRPOPLPUSH k j 0
-> +QUEUED
BZPOPMIN k 0
-> +QUEUED
BZMPOP 0 1 k MIN
-> +QUEUED
EXEC
-> *6 *-1 *-1 $-1 $-1 *-1 *-1

